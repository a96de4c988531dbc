/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of recurrent caches (contract/cache.h, laws C1-C7). The kit plays the layer: its
 * state is a running hash of all inputs so far, each mixed with the n_tail rows before it, so that a
 * state from the wrong position, a row from the wrong place or a step done twice shows at once. The
 * naive twin is the list of rows that a sequence still holds, hashed anew from nothing. */
#ifndef TDM_TESTS_RECURRENT_KIT_H
#define TDM_TESTS_RECURRENT_KIT_H

#include "contract/cache_kit.h"

#define RECURRENT_KIT_ROWS 400

typedef struct recurrent_kit {
    cache_kit any; /* cache, tracker, length, reserved */
    uint32_t rows[RECURRENT_KIT_ROWS][8];
    uint32_t zeros[8];
    uint32_t n_written;
    int64_t reach; /* how far any cache of this kind must be able to go back */
    int64_t undo;  /* what of the last append can still be taken back */
} recurrent_kit;

/* Values are bits in the float's place: the cache must copy, never compute. */
static inline void recurrent_kit_step(uint32_t *state, int64_t n_state, const uint32_t *row,
                                      int64_t n_row, const uint32_t *const *tail, int32_t n_tail) {
    for (int64_t i = 0; i < n_state; i++) {
        uint64_t mix = state[i] * UINT64_C(0x9E3779B97F4A7C15) + (uint64_t)i;
        for (int64_t j = 0; j < n_row; j++) {
            mix = (mix ^ row[j]) * UINT64_C(0xC2B2AE3D27D4EB4F);
            for (int32_t t = 0; t < n_tail; t++) {
                mix = (mix + tail[t][j]) * UINT64_C(0x9E3779B97F4A7C15);
            }
        }
        state[i] = (uint32_t)(mix >> 32);
    }
}

/* Row pos of a sequence, or zeros before it. */
static inline const uint32_t *recurrent_kit_row(const recurrent_kit *kit, int64_t pos) {
    return pos < 0 ? kit->zeros : kit->rows[pos];
}

/* The state after the first n rows, from nothing. */
static inline void recurrent_kit_twin(const recurrent_kit *kit, int64_t n, uint32_t *state) {
    const tdm_kv_geometry *g = &kit->any.cache->geometry;
    memset(state, 0, (size_t)g->state_values * sizeof *state);
    for (int64_t p = 0; p < n; p++) {
        const uint32_t *tail[8];
        for (int32_t t = 0; t < g->n_tail; t++) {
            tail[t] = recurrent_kit_row(kit, p - g->n_tail + t);
        }
        recurrent_kit_step(state, g->state_values, kit->rows[p], g->row_values, tail, g->n_tail);
    }
}

static inline void recurrent_kit_expect(const recurrent_kit *kit, int64_t n, const float *state) {
    uint32_t want[64];
    recurrent_kit_twin(kit, n, want);
    if (memcmp(want, state, (size_t)kit->any.cache->geometry.state_values * sizeof *want) != 0) {
        fail_msg("%s: the state is not that of %lld positions", kit->any.cache->ops->signature,
                 (long long)n);
    }
}

/* n steps from one state to another; row i of the run is run[n_tail + i]. */
static inline void recurrent_kit_scan(const tdm_kv_geometry *g, const float *from, float *to,
                                      const uint32_t *const *run, int64_t n) {
    uint32_t state[64];
    memcpy(state, from, (size_t)g->state_values * sizeof *state);
    for (int64_t i = 0; i < n; i++) {
        recurrent_kit_step(state, g->state_values, run[g->n_tail + i], g->row_values, run + i,
                           g->n_tail);
    }
    memcpy(to, state, (size_t)g->state_values * sizeof *state);
}

/* What a block does with a view: replay, the steps before the new base, the steps after it, rows. */
static inline void recurrent_kit_play(const recurrent_kit *kit, const tdm_recurrent_view *view,
                                      int64_t n) {
    const tdm_kv_geometry *g = &kit->any.cache->geometry;
    const int64_t n_old = g->n_tail + view->n_replay;
    const uint32_t *all[128];
    const float *at = view->from;
    assert_true(n_old + n <= 128 && view->n_keep <= n_old + n);
    assert_true(view->n_now >= 0 && view->n_now <= n && view->n_replay >= 0);
    assert_true(view->next == view->now || view->n_now < n);
    for (int64_t i = 0; i < n_old; i++) { /* what the cache says came before */
        all[i] = (const uint32_t *)(const void *)(view->rows + i * g->row_values);
        assert_memory_equal(all[i], recurrent_kit_row(kit, kit->any.length - n_old + i),
                            (size_t)g->row_values * sizeof **all);
    }
    for (int64_t i = 0; i < n; i++) {
        all[n_old + i] = kit->rows[kit->any.length + i];
    }
    recurrent_kit_expect(kit, kit->any.length - view->n_replay, view->from);
    if (view->n_replay > 0) {
        recurrent_kit_scan(g, at, view->now, all, view->n_replay);
        at = view->now;
    }
    if (view->n_now > 0) {
        recurrent_kit_scan(g, at, view->now, all + view->n_replay, view->n_now);
        at = view->now;
    }
    assert_ptr_equal(at, view->now);
    if (view->n_now < n) {
        recurrent_kit_scan(g, at, view->next, all + view->n_replay + view->n_now, n - view->n_now);
    }
    for (int64_t i = 0; i < view->n_keep; i++) {
        memcpy(view->keep + i * g->row_values, all[n_old + n - view->n_keep + i],
               (size_t)g->row_values * sizeof **all);
    }
    recurrent_kit_expect(kit, kit->any.length + n, view->next);
}

static inline void recurrent_kit_append(recurrent_kit *kit, int64_t n, bool is_dropped) {
    const int64_t n_values = kit->any.cache->geometry.row_values;
    assert_true(kit->any.length + n <= RECURRENT_KIT_ROWS && n <= 64);
    cache_kit_reserve(&kit->any, n);
    cache_kit_invariants(&kit->any);
    for (int64_t i = 0; i < n; i++) {
        uint32_t *row = kit->rows[kit->any.length + i];
        kit->n_written++;
        for (int64_t j = 0; j < n_values; j++) {
            row[j] = cache_kit_value(kit->n_written, false, 0, (int32_t)j);
        }
    }
    recurrent_kit_play(kit, kit->any.cache->ops->begin_state(kit->any.cache, n), n);
    if (!is_dropped) {
        kit->any.cache->ops->commit(kit->any.cache, n);
        kit->any.length += n;
        kit->undo = n < kit->reach ? n : kit->reach;
    }
    cache_kit_invariants(&kit->any);
}

/* C4: falls by exactly n, or says no and changes nothing. */
static inline bool recurrent_kit_trim(recurrent_kit *kit, int64_t n) {
    tdm_error err;
    const tdm_cache_ops *ops = kit->any.cache->ops;
    const bool is_legal = ops->can_trim(kit->any.cache, n);
    const tdm_status status = ops->trim(kit->any.cache, n, &err);
    assert_int_equal(status, is_legal ? TDM_OK : TDM_E_STATE);
    if (is_legal) {
        kit->any.length -= n;
        kit->undo -= n < kit->undo ? n : kit->undo;
    } else {
        assert_true(err.what[0] != '\0');
    }
    cache_kit_invariants(&kit->any);
    return is_legal;
}

static inline void recurrent_kit_open(recurrent_kit *kit, cache_kit_create create,
                                      const tdm_kv_geometry *geometry) {
    memset(kit, 0, sizeof *kit);
    assert_true(geometry->state_values <= 64 && geometry->row_values <= 8 && geometry->n_tail <= 8);
    cache_kit_open(&kit->any, create, geometry);
    assert_null(kit->any.cache->ops->begin);
}

/* Appends of every size, some dropped, and trims of what a verify round undoes and of more. reach:
 * positions of the last append that can always be taken back. */
static inline void recurrent_kit_random_walk(cache_kit_create create,
                                             const tdm_kv_geometry *geometry, int64_t reach,
                                             uint64_t seed) {
    recurrent_kit *kit = calloc(1, sizeof *kit);
    int n_trims = 0;
    int n_refused = 0;
    assert_non_null(kit);
    recurrent_kit_open(kit, create, geometry);
    kit->reach = reach;
    for (uint32_t step = 0; step < 600; step++) {
        const uint64_t kind = tdm_random_u64(seed, 0, step, 0) % 10;
        const uint64_t size = tdm_random_u64(seed, 0, step, 1);
        int64_t n = 1 + (int64_t)(size % (step % 3 == 0 ? 64 : 4));
        n = n < geometry->append_max ? n : geometry->append_max;
        if (kind < 7 && kit->any.length + n <= RECURRENT_KIT_ROWS) {
            recurrent_kit_append(kit, n, kind == 6);
        } else {
            const int64_t back = (int64_t)(size % 24);
            const bool is_due = back <= kit->undo;
            const bool is_done = back <= kit->any.length && recurrent_kit_trim(kit, back);
            assert_true(is_done || !is_due);
            n_trims += is_done && back > 0 ? 1 : 0;
            n_refused += is_done ? 0 : 1;
        }
    }
    assert_true(n_trims > 20 && n_refused > 5);
    cache_kit_close(&kit->any);
    free(kit);
}

/* C2: memory that fails at creation or in reserve leaves nothing behind and nothing changed. */
static inline void recurrent_kit_without_memory(cache_kit_create create,
                                                const tdm_kv_geometry *geometry) {
    recurrent_kit *kit = calloc(1, sizeof *kit);
    tdm_error err;
    tdm_cache *cache = NULL;
    assert_non_null(kit);
    tdm_alloc_tracker_init(&kit->any.tracker, NULL);
    kit->any.tracker.fail_at = 1;
    assert_int_equal(create(&kit->any.tracker.alloc, geometry, &cache, &err), TDM_E_NOMEM);
    assert_null(cache);
    recurrent_kit_open(kit, create, geometry);
    kit->any.tracker.fail_at = atomic_load(&kit->any.tracker.n_calls) + 1;
    assert_int_equal(kit->any.cache->ops->reserve(kit->any.cache, 5, &err), TDM_E_NOMEM);
    cache_kit_invariants(&kit->any);
    kit->any.tracker.fail_at = 0;
    recurrent_kit_append(kit, geometry->append_max < 9 ? 1 : 9, false);
    cache_kit_close(&kit->any);
    free(kit);
}

static inline void recurrent_kit_run(cache_kit_create create, const tdm_kv_geometry *geometry,
                                     int64_t reach) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
        recurrent_kit_random_walk(create, geometry, reach, seed);
    }
    recurrent_kit_without_memory(create, geometry);
}

#endif
