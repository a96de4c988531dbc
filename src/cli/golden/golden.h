/* SPDX-License-Identifier: Apache-2.0
 *
 * Golden comparisons: the folder, the run that feeds ids to a graph, and the two kinds of
 * comparison. Floor 10. */
#ifndef TDM_CLI_GOLDEN_GOLDEN_H
#define TDM_CLI_GOLDEN_GOLDEN_H

#include "base/file.h"
#include "base/hash.h"
#include "cli/cli.h"
#include "contract/graph.h"
#include "formats/safetensors.h"

/* A golden folder. Everything is borrowed from its mapped file. */
typedef struct tdm_golden {
    const tdm_alloc *alloc;
    tdm_blob blob;
    tdm_safetensors *file;
    tdm_json_doc *about; /* golden.json; NULL: absent */
    char path[TDM_PATH_MAX];
    bool is_real; /* has text_ids */
} tdm_golden;

/* Errors: TDM_E_NOT_FOUND, TDM_E_FORMAT, TDM_E_UNSUPPORTED (a drafter golden). Owns: close, also
 * after a failure. */
TDM_NODISCARD tdm_status tdm_golden_open(tdm_golden *golden, const tdm_alloc *alloc,
                                         const char *folder, tdm_error *err);
void tdm_golden_close(tdm_golden *golden);
/* Tensor of that name, type and rank. dims (may be NULL) receives its dimensions. NULL data with
 * TDM_OK when it is absent and not needed. */
TDM_NODISCARD tdm_status tdm_golden_tensor(const tdm_golden *golden, const char *name,
                                           tdm_dtype dtype, int32_t rank, bool is_needed,
                                           const void **out_data, int64_t *dims, tdm_error *err);

/* How a golden is run. */
typedef struct tdm_golden_setup {
    tdm_graph *graph;
    tdm_dtype kv_dtype;
    int32_t chunk;
    int32_t n_mates;
    double bound;
} tdm_golden_setup;

/* Receives logits [n, n_vocab] of the positions pos0.. of what is fed; borrowed for the call. */
typedef void (*tdm_golden_sink_fn)(void *arg, int64_t pos0, const float *logits, int32_t n);
/* The same for hidden states of a layer, as tdm_tap_fn counts them. */
typedef void (*tdm_golden_tap_fn)(void *arg, int32_t layer, int64_t pos0, const float *hidden,
                                  int32_t n, int64_t width);

/* One sequence, with its mates in every step. */
typedef struct tdm_feeder tdm_feeder;
TDM_NODISCARD tdm_status tdm_feeder_create(tdm_feeder **out, const tdm_alloc *alloc,
                                           const tdm_golden_setup *setup, tdm_error *err);
void tdm_feeder_destroy(tdm_feeder *feeder);
/* Feeds n more ids in chunks. sink and tap may be NULL. */
TDM_NODISCARD tdm_status tdm_feeder_feed(tdm_feeder *feeder, const int32_t *ids, size_t n,
                                         tdm_golden_sink_fn sink, tdm_golden_tap_fn tap, void *arg,
                                         tdm_error *err);

/* Index of the largest value; the lowest wins a tie. */
int32_t tdm_row_argmax(const float *row, int32_t n);
/* log(sum(exp(row))) in double. */
double tdm_row_logsumexp(const float *row, int32_t n);

/* The two comparisons: write their members into an open JSON object. dump NULL: none. */
TDM_NODISCARD tdm_status tdm_golden_compare(const tdm_golden *golden, const tdm_alloc *alloc,
                                            const tdm_golden_setup *setup, const char *dump,
                                            tdm_json_writer *w, tdm_error *err);
TDM_NODISCARD tdm_status tdm_golden_compare_real(const tdm_golden *golden, const tdm_alloc *alloc,
                                                 const tdm_golden_setup *setup, const char *dump,
                                                 tdm_json_writer *w, tdm_error *err);

#endif
