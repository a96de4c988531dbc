/* SPDX-License-Identifier: Apache-2.0
 *
 * The kit of contract/graph.h: laws G1 to G3 for any graph. The naive twin is recomputation: a
 * sequence's logits must be those of a fresh state that is given the whole sequence in one step. */
#ifndef TDM_TESTS_CONTRACT_GRAPH_KIT_H
#define TDM_TESTS_CONTRACT_GRAPH_KIT_H

#include "base/alloc.h"
#include "base/random.h"
#include "contract/graph.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* What a kit run works on. tracker is the allocator that graph and states were made with. */
typedef struct graph_kit {
    tdm_graph *graph;
    tdm_alloc_tracker *tracker;
    tdm_dtype kv_dtype;
    int32_t tokens_max; /* of one step; sequences stay below it */
} graph_kit;

static inline int32_t graph_kit_id(const graph_kit *kit, uint32_t seed, uint32_t i) {
    return (int32_t)(tdm_random_u64(seed, 0, i, 0) % (uint64_t)kit->graph->facts.n_vocab);
}

static inline tdm_state *graph_kit_state(const graph_kit *kit) {
    tdm_state *state = NULL;
    assert_int_equal(
        kit->graph->ops->state_create(kit->graph, kit->kv_dtype, kit->tokens_max, &state, NULL),
        TDM_OK);
    return state;
}

/* The twin: logits of the last of n ids, from nothing. */
static inline void graph_kit_twin(const graph_kit *kit, const int32_t *ids, int32_t n,
                                  float *logits) {
    tdm_state *state = graph_kit_state(kit);
    const tdm_step_row row = {.state = state, .tokens = ids, .n_tokens = n, .logits_from = n - 1};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    assert_int_equal(kit->graph->ops->forward(kit->graph, &step, NULL), TDM_OK);
    kit->graph->ops->state_destroy(kit->graph, state);
}

/* G1, and agreement with the twin: random pieces, then single tokens. */
static inline void graph_kit_lengths(const graph_kit *kit) {
    enum { N = 41 };
    size_t row_bytes = (size_t)kit->graph->facts.n_vocab * sizeof(float);
    float *logits = malloc(row_bytes);
    float *expected = malloc(row_bytes);
    int32_t ids[N];
    tdm_state *state = graph_kit_state(kit);
    int32_t done = 0;
    for (int32_t i = 0; i < N; i++) {
        ids[i] = graph_kit_id(kit, 1, (uint32_t)i);
    }
    while (done < N) {
        int32_t piece = done < 30 ? 1 + (int32_t)(tdm_random_u64(2, 0, (uint32_t)done, 0) % 9) : 1;
        piece = piece < N - done ? piece : N - done;
        const tdm_step_row row = {
            .state = state, .tokens = ids + done, .n_tokens = piece, .logits_from = piece - 1};
        const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
        assert_int_equal(kit->graph->ops->forward(kit->graph, &step, NULL), TDM_OK);
        done += piece;
        assert_int_equal(state->length, done);
        for (int32_t c = 0; c < state->n_caches; c++) {
            assert_int_equal(state->caches[c]->ops->length(state->caches[c]), done);
            assert_true(state->caches[c]->ops->check(state->caches[c]));
        }
        graph_kit_twin(kit, ids, done, expected);
        assert_memory_equal(logits, expected, row_bytes);
    }
    kit->graph->ops->state_destroy(kit->graph, state);
    free(logits);
    free(expected);
}

/* G1: a step that fails (an id outside the vocabulary in its second row) leaves both rows as they
 * were. */
static inline void graph_kit_failure(const graph_kit *kit) {
    size_t row_bytes = (size_t)kit->graph->facts.n_vocab * sizeof(float);
    float *logits = malloc(2 * row_bytes);
    float *expected = malloc(row_bytes);
    const int32_t good[3] = {1, 2, 3};
    const int32_t bad[1] = {kit->graph->facts.n_vocab};
    tdm_error err;
    tdm_state *a = graph_kit_state(kit);
    tdm_state *b = graph_kit_state(kit);
    const tdm_step_row rows[2] = {{.state = a, .tokens = good, .n_tokens = 3, .logits_from = 2},
                                  {.state = b, .tokens = bad, .n_tokens = 1}};
    const tdm_step failing = {.rows = rows, .n_rows = 2, .logits = logits};
    const tdm_step working = {.rows = rows, .n_rows = 1, .logits = logits};
    assert_int_equal(kit->graph->ops->forward(kit->graph, &failing, &err), TDM_E_ARG);
    assert_int_equal(a->length, 0);
    assert_int_equal(b->length, 0);
    assert_false(a->is_poisoned);
    assert_int_equal(kit->graph->ops->forward(kit->graph, &working, &err), TDM_OK);
    graph_kit_twin(kit, good, 3, expected);
    assert_memory_equal(logits, expected, row_bytes);
    kit->graph->ops->state_destroy(kit->graph, a);
    kit->graph->ops->state_destroy(kit->graph, b);
    free(logits);
    free(expected);
}

/* G2: five rows of other lengths and phases in one step give each the logits that it has alone. */
static inline void graph_kit_mates(const graph_kit *kit) {
    enum { ROWS = 5 };
    static const int32_t LENGTHS[ROWS] = {1, 7, 2, 13, 1};
    size_t row_bytes = (size_t)kit->graph->facts.n_vocab * sizeof(float);
    float *logits = malloc(ROWS * row_bytes);
    float *expected = malloc(row_bytes);
    int32_t ids[ROWS][13];
    tdm_state *states[ROWS];
    tdm_step_row rows[ROWS];
    for (int32_t r = 0; r < ROWS; r++) {
        states[r] = graph_kit_state(kit);
        for (int32_t i = 0; i < LENGTHS[r]; i++) {
            ids[r][i] = graph_kit_id(kit, (uint32_t)(10 + r), (uint32_t)i);
        }
        rows[r] = (tdm_step_row){.phase = LENGTHS[r] == 1 ? TDM_PHASE_DECODE : TDM_PHASE_PROMPT,
                                 .state = states[r],
                                 .tokens = ids[r],
                                 .n_tokens = LENGTHS[r],
                                 .logits_from = LENGTHS[r] - 1};
    }
    const tdm_step step = {.rows = rows, .n_rows = ROWS, .logits = logits};
    assert_int_equal(kit->graph->ops->forward(kit->graph, &step, NULL), TDM_OK);
    for (int32_t r = 0; r < ROWS; r++) {
        graph_kit_twin(kit, ids[r], LENGTHS[r], expected);
        assert_memory_equal((uint8_t *)logits + (size_t)r * row_bytes, expected, row_bytes);
        kit->graph->ops->state_destroy(kit->graph, states[r]);
    }
    free(logits);
    free(expected);
}

/* G3, and that state_plan bounds what a state takes. */
static inline void graph_kit_allocations(const graph_kit *kit) {
    enum { N = 300 };
    float *logits = malloc((size_t)kit->graph->facts.n_vocab * sizeof(float));
    tdm_state *state = graph_kit_state(kit);
    size_t plan = kit->graph->ops->state_plan(kit->graph, kit->kv_dtype, N);
    size_t bytes = 0;
    size_t calls = 0;
    assert_int_equal(kit->graph->ops->state_reserve(kit->graph, state, N, NULL), TDM_OK);
    for (int32_t c = 0; c < state->n_caches; c++) {
        bytes += state->caches[c]->ops->bytes(state->caches[c]);
    }
    assert_true(bytes <= plan);
    calls = kit->tracker->n_calls;
    for (int32_t i = 0; i < N; i++) {
        const int32_t id = graph_kit_id(kit, 3, (uint32_t)i);
        const tdm_step_row row = {.state = state, .tokens = &id, .n_tokens = 1};
        const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
        assert_int_equal(kit->graph->ops->forward(kit->graph, &step, NULL), TDM_OK);
    }
    assert_int_equal(kit->tracker->n_calls, calls);
    kit->graph->ops->state_destroy(kit->graph, state);
    free(logits);
}

static inline void graph_kit_run(const graph_kit *kit) {
    assert_int_equal(kit->graph->ops->reserve(kit->graph, kit->tokens_max, 8, 8, NULL), TDM_OK);
    graph_kit_lengths(kit);
    graph_kit_failure(kit);
    graph_kit_mates(kit);
    graph_kit_allocations(kit);
}

#endif
