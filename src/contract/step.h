/* SPDX-License-Identifier: Apache-2.0
 *
 * The step: one forward for every kind of work. Rows of different requests are packed, never
 * padded. Floor 1. */
#ifndef TDM_CONTRACT_STEP_H
#define TDM_CONTRACT_STEP_H

#include "contract/cache.h"
#include "contract/rows.h"

typedef enum tdm_phase {
    TDM_PHASE_PROMPT,
    TDM_PHASE_PROMPT_CHUNK,
    TDM_PHASE_DECODE,
    TDM_PHASE_VERIFY,
    TDM_PHASE_KNOWN,
    TDM_PHASE_SCORE,
    TDM_PHASE_EMBED
} tdm_phase;

/* One sequence's per-layer caches, in layer order (a layer that shares a donor's storage owns
 * none). */
typedef struct tdm_state {
    tdm_cache **caches; /* [n_caches] */
    int32_t n_caches;
    int64_t length;   /* positions committed in every cache */
    bool is_poisoned; /* a failed step left it between two lengths; only destroy is legal */
} tdm_state;

typedef struct tdm_step_row {
    tdm_phase phase;
    tdm_state *state;
    const int32_t *tokens; /* [n_tokens], each below the vocabulary's size */
    int32_t n_tokens;
    int32_t logits_from; /* first token of the row whose logits are wanted; n_tokens: none */
} tdm_step_row;

/* Called per layer in order with the packed residual [n_tokens, hidden], then once with layer ==
 * n_layers and the output of the final norm. hidden is valid inside the call only. */
typedef void (*tdm_tap_fn)(void *arg, int32_t layer, const float *hidden, int64_t n_tokens,
                           int64_t width);

typedef struct tdm_step {
    const tdm_step_row *rows;
    int32_t n_rows;
    float *logits;  /* [sum of n_tokens - logits_from, n_vocab], in row order */
    tdm_tap_fn tap; /* or NULL */
    void *tap_arg;
    /* What the planner looked up in the graph's own tables for these rows; a graph with several
     * operations for a phase runs the one named here. NONE: nobody planned this step. */
    tdm_class class_id;
} tdm_step;

#endif
