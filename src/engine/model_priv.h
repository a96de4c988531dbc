/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of a tdm_model, for the files of this room. */
#ifndef TDM_ENGINE_MODEL_PRIV_H
#define TDM_ENGINE_MODEL_PRIV_H

#include "base/fetch.h"
#include "engine/chat_templates.h"
#include "engine/composition.h"
#include "engine/engine.h"
#include "engine/panel_cache.h"
#include "formats/embed_config.h"
#include "model/plan.h"

struct tdm_model {
    const tdm_alloc *alloc;
    tdm_log log;
    const tdm_clock *clock;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_generation_config generation_config;
    tdm_backend *backend;
    tdm_graph *graph;
    tdm_panel_cache *panels; /* NULL: none; its file outlives the graph */
    tdm_panel_cache *tables; /* likewise of the tokenizer's tables */
    tdm_fetch *fetch;        /* reads files ahead; stopped before any of them goes */
    tdm_fetch_range *ranges; /* [ranges_cap] what it reads */
    size_t n_ranges, ranges_cap;
    tdm_graph_plan *plan;     /* graph is its: there are no weights, nothing may be computed */
    tdm_tokenizer *tokenizer; /* NULL: the checkpoint has none, or tokenizer_error says why */
    tdm_error tokenizer_error;
    tdm_chat_templates *chat_templates; /* NULL without a tokenizer */
    tdm_json_doc *special_tokens;
    tdm_graph_declaration declaration;
    tdm_composition composition; /* how this model is served; resolved before the first request */
    tdm_embed_config *embed;     /* NULL until the first question about it */
    tdm_buf embed_prompt;        /* the last instruction, as a prompt */
    double load_ms;
};

/* As tdm_model_open_with and tdm_model_close, over a plan; backend stays the caller's. */
TDM_NODISCARD tdm_status tdm_model_plan_with(tdm_model **out_model, const tdm_alloc *alloc,
                                             const char *path, const tdm_model_options *options,
                                             tdm_backend *backend, tdm_error *err);
void tdm_model_plan_close(tdm_model *model);
/* TDM_OK, or why there is no tokenizer. */
TDM_NODISCARD tdm_status tdm_model_need_tokenizer(const tdm_model *model, tdm_error *err);
/* Whether id ends an answer: the config's list, or the tokenizer's own. */
bool tdm_model_is_end(const tdm_model *model, int32_t id);
/* TDM_OK, or why the model cannot generate or score: it has no head. */
TDM_NODISCARD tdm_status tdm_model_need_head(const tdm_model *model, tdm_error *err);
/* The class of a forward over n_rows positions of scoring or embedding. TDM_E_UNSUPPORTED: the graph
 * declares none. */
TDM_NODISCARD tdm_status tdm_model_sequence_class(const tdm_model *model, int64_t n_rows,
                                                  tdm_class *out, tdm_error *err);
double tdm_model_now_ms(const tdm_model *model);

#endif
