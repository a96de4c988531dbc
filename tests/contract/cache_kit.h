/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of the cache table (contract/cache.h, laws C1-C6): random appends in chunks,
 * appends that are begun and dropped, and trims, against a naive twin that is a plain list of rows.
 * After every step each position that the next query may see is read back through the pages. */
#ifndef TDM_TESTS_CACHE_KIT_H
#define TDM_TESTS_CACHE_KIT_H

#include "support/support.h"

#include "base/alloc.h"
#include "base/random.h"
#include "contract/cache.h"

typedef tdm_status (*cache_kit_create)(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                                       tdm_cache **out_cache, tdm_error *err);

#define CACHE_KIT_POSITIONS 4096

typedef struct cache_kit {
    tdm_cache *cache;
    tdm_alloc_tracker tracker;
    uint32_t twin[CACHE_KIT_POSITIONS]; /* what was written at a position: a number that names it */
    int64_t length;
    int64_t reserved; /* positions that reserve was ever asked to hold */
    uint32_t n_written;
} cache_kit;

/* The value of one element: a function of the row's name and the place, so that a row that lies in
 * the wrong place, head, or half is seen. */
static inline uint32_t cache_kit_value(uint32_t name, bool is_value, int32_t head, int32_t dim) {
    const uint32_t place = (uint32_t)(head * 1000 + dim) * 2U + (is_value ? 1U : 0U);
    const uint64_t bits =
        (uint64_t)name * 0x9E3779B97F4A7C15U + (uint64_t)place * 0xC2B2AE3D27D4EB4FU;
    return (uint32_t)(bits >> 32);
}

/* Values of a position's second half: its values, or of a latent row an indexer's key. */
static inline int32_t cache_kit_width(const tdm_kv_pages *pages, bool is_second) {
    if (!is_second) {
        return pages->head_dim;
    }
    return pages->is_latent ? pages->index_dim : pages->value_dim;
}

/* Of one value of a half; an indexer's keys are F32 always. */
static inline size_t cache_kit_bytes(const tdm_kv_pages *pages, bool is_second) {
    return pages->dtype == TDM_DTYPE_F32 || (pages->is_latent && is_second) ? 4 : 2;
}

/* Where one element lies: in rows, one of the ways in which a backend may lay out its blocks. */
static inline uint8_t *cache_kit_element(const tdm_kv_pages *pages, bool is_second, int64_t pos,
                                         int32_t head, int32_t dim) {
    const int64_t page_positions = (int64_t)1 << pages->page_shift;
    const int64_t page = (pos >> pages->page_shift) % pages->n_pages;
    const int64_t slot = pos & (page_positions - 1);
    const int64_t width = cache_kit_width(pages, is_second);
    const int64_t element = ((int64_t)head * page_positions + slot) * width + dim;
    const int64_t bytes = (int64_t)cache_kit_bytes(pages, is_second);
    uint8_t *const *second = pages->is_latent ? pages->index : pages->v;
    return (is_second ? second[page] : pages->k[page]) + element * bytes;
}

/* Writes or compares the row of one position. */
static inline bool cache_kit_row(const tdm_kv_pages *pages, int64_t pos, uint32_t name,
                                 bool is_write) {
    for (int half = 0; half < 2; half++) {
        const size_t bytes = cache_kit_bytes(pages, half == 1);
        const int32_t width = cache_kit_width(pages, half == 1);
        for (int32_t head = 0; head < pages->n_kv_heads; head++) {
            for (int32_t dim = 0; dim < width; dim++) {
                const uint32_t value = cache_kit_value(name, half == 1, head, dim);
                uint8_t *at = cache_kit_element(pages, half == 1, pos, head, dim);
                if (is_write) {
                    memcpy(at, &value, bytes);
                } else if (memcmp(at, &value, bytes) != 0) {
                    return false;
                }
            }
        }
    }
    return true;
}

/* Every position that a query at pos may see, except those not written yet. */
static inline void cache_kit_see(const cache_kit *kit, const tdm_kv_pages *pages, int64_t pos,
                                 int64_t written) {
    const int32_t window = kit->cache->geometry.window;
    const int64_t first = window > 0 && pos - window + 1 > 0 ? pos - window + 1 : 0;
    for (int64_t p = first; p <= pos && p < written; p++) {
        if (!cache_kit_row(pages, p, kit->twin[p], false)) {
            fail_msg("%s: position %lld is not what was written, seen from %lld",
                     kit->cache->ops->signature, (long long)p, (long long)pos);
        }
    }
}

static inline void cache_kit_invariants(const cache_kit *kit) {
    const tdm_cache_ops *ops = kit->cache->ops;
    assert_true(ops->check(kit->cache));
    assert_int_equal(ops->length(kit->cache), kit->length);
    assert_true(ops->bytes(kit->cache) <= ops->plan(&kit->cache->geometry, kit->reserved)); /* C6 */
    assert_true(ops->can_trim(kit->cache, 0));
    assert_false(ops->can_trim(kit->cache, kit->length + 1));
    assert_false(ops->can_trim(kit->cache, -1));
}

static inline void cache_kit_reserve(cache_kit *kit, int64_t n) {
    tdm_error err;
    assert_int_equal(kit->cache->ops->reserve(kit->cache, n, &err), TDM_OK);
    if (kit->length + n > kit->reserved) {
        kit->reserved = kit->length + n;
    }
}

static inline const tdm_kv_pages *cache_kit_begin(const cache_kit *kit, int64_t n) {
    const tdm_kv_geometry *geometry = &kit->cache->geometry;
    const tdm_kv_pages *pages = kit->cache->ops->begin(kit->cache, n);
    assert_non_null(pages);
    assert_true(pages->page_shift >= 6); /* a block of 64 never crosses a page */
    assert_int_equal(pages->dtype, geometry->dtype);
    assert_int_equal(pages->n_kv_heads, geometry->n_kv_heads);
    assert_int_equal(pages->head_dim, geometry->head_dim);
    assert_int_equal(pages->value_dim, geometry->value_dim);
    assert_int_equal(pages->index_dim, geometry->index_dim);
    assert_int_equal(pages->is_latent, geometry->is_latent);
    assert_true(!pages->is_latent || pages->v == pages->k);
    assert_int_equal(pages->index != NULL, geometry->index_dim > 0);
    return pages;
}

/* One append of n positions; C3 when it is dropped. The reservation is for `room` >= n. */
static inline void cache_kit_append(cache_kit *kit, int64_t n, int64_t room, bool is_dropped) {
    assert_true(kit->length + n <= CACHE_KIT_POSITIONS);
    cache_kit_reserve(kit, room);
    cache_kit_invariants(kit);
    const tdm_kv_pages *pages = cache_kit_begin(kit, n);
    /* A full cache's last query sees all that the ones before it see. */
    const int64_t first = kit->cache->geometry.window == 0 ? n - 1 : 0;
    for (int64_t i = first; i < n; i++) { /* before anything is written: the committed ones */
        cache_kit_see(kit, pages, kit->length + i, kit->length);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t name = ++kit->n_written;
        (void)cache_kit_row(pages, kit->length + i, name, true);
        if (!is_dropped) {
            kit->twin[kit->length + i] = name;
        }
    }
    if (is_dropped) {
        const tdm_kv_pages *again = cache_kit_begin(kit, 1);
        cache_kit_see(kit, again, kit->length, kit->length);
    } else {
        for (int64_t i = first; i < n; i++) { /* as attention of this step reads */
            cache_kit_see(kit, pages, kit->length + i, kit->length + n);
        }
        kit->cache->ops->commit(kit->cache, n);
        kit->length += n;
    }
    cache_kit_invariants(kit);
}

/* C4: falls by exactly n, or says no and changes nothing. */
static inline void cache_kit_trim(cache_kit *kit, int64_t n) {
    tdm_error err;
    const tdm_cache_ops *ops = kit->cache->ops;
    const bool is_legal = ops->can_trim(kit->cache, n);
    const size_t bytes = ops->bytes(kit->cache);
    const tdm_status status = ops->trim(kit->cache, n, &err);
    assert_int_equal(status, is_legal ? TDM_OK : TDM_E_STATE);
    if (is_legal) {
        kit->length -= n;
    } else {
        assert_int_equal(err.code, TDM_E_STATE);
        assert_true(err.what[0] != '\0');
        assert_int_equal(ops->bytes(kit->cache), bytes);
    }
    cache_kit_invariants(kit);
    cache_kit_reserve(kit, 1);
    cache_kit_see(kit, cache_kit_begin(kit, 1), kit->length, kit->length);
}

static inline void cache_kit_open(cache_kit *kit, cache_kit_create create,
                                  const tdm_kv_geometry *geometry) {
    tdm_error err;
    memset(kit, 0, sizeof *kit);
    tdm_alloc_tracker_init(&kit->tracker, NULL);
    assert_int_equal(create(&kit->tracker.alloc, geometry, &kit->cache, &err), TDM_OK);
    assert_int_equal(kit->cache->ops->length(kit->cache), 0); /* C1 */
    assert_true(kit->cache->ops->signature[0] != '\0');
    cache_kit_invariants(kit);
}

static inline void cache_kit_close(cache_kit *kit) {
    kit->cache->ops->destroy(kit->cache);
    assert_int_equal(atomic_load(&kit->tracker.live_bytes), 0);
    assert_int_equal(atomic_load(&kit->tracker.n_live), 0);
}

static inline void cache_kit_random_walk(cache_kit_create create, const tdm_kv_geometry *geometry,
                                         uint64_t seed, uint32_t n_steps) {
    cache_kit *kit = calloc(1, sizeof *kit);
    int n_trims = 0;
    int n_refused = 0;
    assert_non_null(kit);
    cache_kit_open(kit, create, geometry);
    while (kit->length < 3 * geometry->window + 200) { /* a ring has gone round */
        cache_kit_append(kit, geometry->append_max, geometry->append_max, false);
    }
    for (uint32_t step = 0; step < n_steps; step++) {
        const uint64_t kind = tdm_random_u64(seed, 0, step, 0) % 10;
        int64_t n = 1 + (int64_t)(tdm_random_u64(seed, 0, step, 1) % 13);
        n = n < geometry->append_max ? n : geometry->append_max;
        if (kind < 7) {
            const int64_t more = (int64_t)(tdm_random_u64(seed, 0, step, 2) % 5);
            const bool fits = n + more <= geometry->append_max;
            cache_kit_append(kit, n, fits ? n + more : n, kind == 6);
        } else {
            /* Mostly what a verify round undoes; now and then more than a ring remembers. */
            const int64_t most = step % 25 == 0 ? geometry->window + 300 : n + 1;
            int64_t trim = (int64_t)(tdm_random_u64(seed, 0, step, 3) % (uint64_t)most);
            trim = trim < kit->length ? trim : kit->length;
            n_trims += trim > 0 && kit->cache->ops->can_trim(kit->cache, trim) ? 1 : 0;
            n_refused += kit->cache->ops->can_trim(kit->cache, trim) ? 0 : 1;
            cache_kit_trim(kit, trim);
        }
    }
    assert_true(n_trims > 0);
    assert_true(geometry->window > 0 || n_refused == 0); /* a full cache forgets nothing */
    cache_kit_close(kit);
    free(kit);
}

/* C2: room that was reserved survives a trim: begin(n) cannot fail after it. */
static inline void cache_kit_reserve_then_trim(cache_kit_create create,
                                               const tdm_kv_geometry *geometry) {
    cache_kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    cache_kit_open(kit, create, geometry);
    for (int i = 0; i < 40; i++) {
        cache_kit_append(kit, geometry->append_max, geometry->append_max, false);
    }
    for (int64_t n = 1; n <= geometry->append_max; n++) {
        cache_kit_reserve(kit, n);
        if (kit->cache->ops->can_trim(kit->cache, 3)) {
            tdm_error err;
            assert_int_equal(kit->cache->ops->trim(kit->cache, 3, &err), TDM_OK);
            kit->length -= 3;
        }
        const tdm_kv_pages *pages = cache_kit_begin(kit, n);
        cache_kit_see(kit, pages, kit->length, kit->length);
    }
    cache_kit_close(kit);
    free(kit);
}

/* C2: a failed reserve changes nothing that can be read, and a later one may succeed. */
static inline void cache_kit_without_memory(cache_kit_create create,
                                            const tdm_kv_geometry *geometry) {
    cache_kit *kit = calloc(1, sizeof *kit);
    size_t n_failures = 0;
    assert_non_null(kit);
    for (size_t nth = 1; nth < 10; nth++) {
        tdm_error err;
        tdm_cache *cache = NULL;
        tdm_alloc_tracker_init(&kit->tracker, NULL);
        kit->tracker.fail_at = nth;
        if (create(&kit->tracker.alloc, geometry, &cache, &err) == TDM_OK) {
            cache->ops->destroy(cache);
            break;
        }
        assert_null(cache);
        assert_int_equal(err.code, TDM_E_NOMEM);
        assert_int_equal(atomic_load(&kit->tracker.live_bytes), 0);
    }
    cache_kit_open(kit, create, geometry);
    for (uint32_t step = 0; step < 200; step++) {
        tdm_error err;
        const int64_t n = 1 + step % (uint32_t)geometry->append_max;
        kit->tracker.fail_at = atomic_load(&kit->tracker.n_calls) + 1 + step % 3;
        if (kit->cache->ops->reserve(kit->cache, n, &err) != TDM_OK) {
            assert_int_equal(err.code, TDM_E_NOMEM);
            n_failures++;
            if (kit->length + n > kit->reserved) {
                kit->reserved = kit->length + n; /* what was bought may stay */
            }
            cache_kit_invariants(kit);
        }
        kit->tracker.fail_at = 0;
        if (kit->length + n <= CACHE_KIT_POSITIONS) {
            cache_kit_append(kit, n, n, false);
        }
    }
    assert_true(n_failures > 0);
    cache_kit_close(kit);
    free(kit);
}

static inline void cache_kit_run(cache_kit_create create, const tdm_kv_geometry *geometry) {
    for (uint64_t seed = 1; seed <= 2; seed++) {
        cache_kit_random_walk(create, geometry, seed, 400);
    }
    cache_kit_reserve_then_trim(create, geometry);
    cache_kit_without_memory(create, geometry);
}

#endif
