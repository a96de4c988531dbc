/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeding a graph: one sequence in chunks, and the mates, other sequences that ride in the same
 * steps with other ids, other lengths and other chunk sizes. Half of the mates stand before the
 * sequence in a step and half behind it, so that neither its rows' place in the batch nor the
 * company may show in its logits. A mate that reaches its length starts over as another sequence.
 */
#include "cli/golden/golden.h"

#include "base/arith.h"
#include "base/random.h"

#include <math.h>
#include <string.h>

#define MATES_MAX 64
#define MATE_TOKENS_MAX 4

typedef struct mate {
    tdm_state *state;
    int32_t tokens[MATE_TOKENS_MAX];
    int64_t length_max;
    uint32_t life; /* how often it started */
} mate;

struct tdm_feeder {
    const tdm_alloc *alloc;
    tdm_golden_setup setup;
    int32_t n_vocab;
    tdm_state *state;
    float *logits; /* [chunk + n_mates, n_vocab] */
    size_t logits_bytes;
    uint32_t n_steps;
    mate mates[MATES_MAX];
    /* of the step that runs: */
    tdm_golden_tap_fn tap;
    void *tap_arg;
    int64_t pos0;
    int64_t first_token; /* where the sequence's tokens stand in the packed step */
    int32_t n_tokens;
};

tdm_status tdm_feeder_create(tdm_feeder **out, const tdm_alloc *alloc,
                             const tdm_golden_setup *setup, tdm_error *err) {
    const int32_t n_mates = setup->n_mates < MATES_MAX ? setup->n_mates : MATES_MAX;
    const int32_t n_logits = setup->chunk + n_mates;
    tdm_status status = TDM_OK;
    tdm_feeder *feeder = tdm_mem_calloc(alloc, 1, sizeof *feeder);
    size_t bytes = 0;
    *out = NULL;
    if (feeder == NULL) {
        return tdm_fail_nomem(err, "a golden run");
    }
    feeder->alloc = alloc;
    feeder->setup = *setup;
    feeder->setup.n_mates = n_mates;
    feeder->n_vocab = setup->graph->facts.n_vocab;
    TDM_TRY_GOTO(status,
                 setup->graph->ops->reserve(setup->graph, setup->chunk + n_mates * MATE_TOKENS_MAX,
                                            1 + n_mates, n_logits, err),
                 done);
    TDM_TRY_GOTO(status,
                 setup->graph->ops->state_create(setup->graph, setup->kv_dtype, setup->chunk,
                                                 &feeder->state, err),
                 done);
    if (tdm_mul_size((size_t)n_logits, (size_t)feeder->n_vocab * sizeof(float), &bytes)) {
        feeder->logits = tdm_mem_alloc_aligned(alloc, bytes, TDM_ALIGN_CACHE_LINE);
        feeder->logits_bytes = bytes;
    }
    if (feeder->logits == NULL) {
        status = tdm_fail_nomem(err, "a chunk's logits");
        goto done;
    }
    *out = feeder;
    feeder = NULL;
done:
    tdm_feeder_destroy(feeder);
    return status;
}

void tdm_feeder_destroy(tdm_feeder *feeder) {
    if (feeder == NULL) {
        return;
    }
    const tdm_graph_ops *ops = feeder->setup.graph->ops;
    for (int32_t i = 0; i < feeder->setup.n_mates; i++) {
        ops->state_destroy(feeder->setup.graph, feeder->mates[i].state);
    }
    ops->state_destroy(feeder->setup.graph, feeder->state);
    tdm_mem_free_aligned(feeder->alloc, feeder->logits, feeder->logits_bytes, TDM_ALIGN_CACHE_LINE);
    tdm_mem_free(feeder->alloc, feeder, sizeof *feeder);
}

/* Draws a mate's next tokens, starting it over where it is done. */
static tdm_status prepare_mate(tdm_feeder *feeder, int32_t idx, tdm_step_row *row, tdm_error *err) {
    tdm_graph *graph = feeder->setup.graph;
    mate *m = &feeder->mates[idx];
    const uint32_t n = 1 + (feeder->n_steps + (uint32_t)idx) % MATE_TOKENS_MAX;
    if (m->state == NULL || m->state->length + n > m->length_max) {
        graph->ops->state_destroy(graph, m->state);
        m->state = NULL;
        TDM_TRY(graph->ops->state_create(graph, feeder->setup.kv_dtype, MATE_TOKENS_MAX, &m->state,
                                         err));
        m->life++;
        m->length_max = MATE_TOKENS_MAX + (int64_t)(7 * (uint32_t)idx + 11 * m->life) % 61;
    }
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t draw =
            tdm_random_u64((uint64_t)idx + 1, m->life, (uint32_t)(m->state->length + i), 0);
        m->tokens[i] = (int32_t)(draw % (uint64_t)feeder->n_vocab);
    }
    *row = (tdm_step_row){.phase = n > 1 ? TDM_PHASE_PROMPT_CHUNK : TDM_PHASE_DECODE,
                          .state = m->state,
                          .tokens = m->tokens,
                          .n_tokens = (int32_t)n,
                          .logits_from = (int32_t)n - 1};
    return TDM_OK;
}

static void tap_step(void *arg, int32_t layer, const float *hidden, int64_t n_tokens,
                     int64_t width) {
    const tdm_feeder *feeder = arg;
    (void)n_tokens;
    feeder->tap(feeder->tap_arg, layer, feeder->pos0, hidden + feeder->first_token * width,
                feeder->n_tokens, width);
}

/* One forward of n tokens; *out_logits are theirs. */
static tdm_status run_step(tdm_feeder *feeder, const int32_t *ids, int32_t n,
                           const float **out_logits, tdm_error *err) {
    tdm_graph *graph = feeder->setup.graph;
    const int32_t n_before = feeder->setup.n_mates / 2;
    tdm_step_row rows[MATES_MAX + 1];
    const tdm_step step = {.rows = rows,
                           .n_rows = feeder->setup.n_mates + 1,
                           .logits = feeder->logits,
                           .tap = feeder->tap != NULL ? tap_step : NULL,
                           .tap_arg = feeder};
    feeder->first_token = 0;
    for (int32_t i = 0; i < feeder->setup.n_mates; i++) {
        tdm_step_row *row = &rows[i < n_before ? i : i + 1];
        TDM_TRY(prepare_mate(feeder, i, row, err));
        feeder->first_token += i < n_before ? row->n_tokens : 0;
    }
    rows[n_before] = (tdm_step_row){.phase = n > 1 ? TDM_PHASE_PROMPT_CHUNK : TDM_PHASE_DECODE,
                                    .state = feeder->state,
                                    .tokens = ids,
                                    .n_tokens = n};
    feeder->pos0 = feeder->state->length;
    feeder->n_tokens = n;
    feeder->n_steps++;
    *out_logits = feeder->logits + (int64_t)n_before * feeder->n_vocab;
    return graph->ops->forward(graph, &step, err);
}

tdm_status tdm_feeder_feed(tdm_feeder *feeder, const int32_t *ids, size_t n,
                           tdm_golden_sink_fn sink, tdm_golden_tap_fn tap, void *arg,
                           tdm_error *err) {
    feeder->tap = tap;
    feeder->tap_arg = arg;
    for (size_t at = 0; at < n;) {
        const size_t left = n - at;
        const int32_t n_now =
            left < (size_t)feeder->setup.chunk ? (int32_t)left : feeder->setup.chunk;
        const float *logits = NULL;
        TDM_TRY(run_step(feeder, ids + at, n_now, &logits, err));
        if (sink != NULL) {
            sink(arg, feeder->pos0, logits, n_now);
        }
        at += (size_t)n_now;
    }
    return TDM_OK;
}

int32_t tdm_row_argmax(const float *row, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        if (row[i] > row[best]) {
            best = i;
        }
    }
    return best;
}

double tdm_row_logsumexp(const float *row, int32_t n) {
    const double max = (double)row[tdm_row_argmax(row, n)];
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)row[i] - max);
    }
    return max + log(sum);
}
