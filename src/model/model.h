/* SPDX-License-Identifier: Apache-2.0
 *
 * From a checkpoint to a graph that runs steps. Floor 5. */
#ifndef TDM_MODEL_MODEL_H
#define TDM_MODEL_MODEL_H

#include "base/log.h"
#include "contract/graph.h"
#include "formats/config.h"

typedef struct tdm_graph_options {
    const tdm_alloc *alloc;
    const tdm_log *log;
    /* Called while weights are prepared: layers done of all. May be NULL; true stops with
     * TDM_E_CANCELLED. */
    bool (*progress)(void *arg, int32_t done, int32_t all);
    void *progress_arg;
} tdm_graph_options;

/* Builds the graph of checkpoint's family over backend. Borrows checkpoint and backend: both
 * outlive the graph. Errors: TDM_E_UNSUPPORTED (unknown family: near ones are in remedy; a
 * storage type or a config value that this build does not run), TDM_E_FORMAT (a tensor is missing
 * or extra), TDM_E_SHAPE (a tensor has other dimensions than the config says), TDM_E_NOMEM,
 * TDM_E_CANCELLED. */
TDM_NODISCARD tdm_status tdm_graph_create(tdm_graph **out_graph, const tdm_checkpoint *checkpoint,
                                          const tdm_model_config *config, tdm_backend *backend,
                                          const tdm_graph_options *options, tdm_error *err);

/* Whether this build runs the config, without touching weights: TDM_OK, or what graph_create would
 * refuse it for. */
TDM_NODISCARD tdm_status tdm_graph_can_run(const tdm_model_config *config, tdm_error *err);

/* Known families, for listings: name idx, or NULL past the last. */
const char *tdm_family_name_at(size_t idx);
/* The name of the family that runs config, or NULL. Files of some families call themselves another:
 * a GGUF file of mixtral is a llama. */
const char *tdm_family_name_of(const tdm_model_config *config);

#endif
