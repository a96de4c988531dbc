/* SPDX-License-Identifier: Apache-2.0
 *
 * The sliding cache: a ring of pages of 64 positions. Position p lies in page (p / 64) % n_pages,
 * so a block of 64 absolute positions is always one page, and attention reads the same blocks in
 * the same order as over a full cache.
 *
 *   |<------------------ ring of n_pages * 64 positions ------------------>|
 *   |  slack (undo)  |      window - 1 (visible)     |  one append at most  |
 *                                                    ^ length
 *
 * high_water is one past the last position ever written: what lies a ring's length below it is
 * overwritten. A trim is legal while the window below the new length is still whole. */
#include "cache/cache.h"
#include "cache/page_list.h"

#include <string.h>

#define PAGE_SHIFT 6u
#define PAGE_POSITIONS (1u << PAGE_SHIFT)

typedef struct sliding_cache {
    tdm_cache base;
    const tdm_alloc *alloc;
    tdm_page_list list;
    tdm_kv_pages pages;
    uint32_t n_ring_pages;
    int64_t length;
    int64_t high_water;
} sliding_cache;

static uint32_t ring_pages(const tdm_kv_geometry *geometry) {
    int64_t positions =
        (int64_t)geometry->window - 1 + geometry->append_max + TDM_CACHE_SLIDING_SLACK;
    /* One page more, since the window rarely begins on a page's first slot. */
    return (uint32_t)((positions + PAGE_POSITIONS - 1) >> PAGE_SHIFT) + 1;
}

static uint32_t pages_for(uint32_t n_ring_pages, int64_t n_positions) {
    int64_t n = (n_positions + PAGE_POSITIONS - 1) >> PAGE_SHIFT;
    return n < n_ring_pages ? (uint32_t)n : n_ring_pages;
}

size_t tdm_cache_sliding_plan(const tdm_kv_geometry *geometry, int64_t n_positions) {
    return pages_for(ring_pages(geometry), n_positions) * tdm_page_bytes(geometry, PAGE_POSITIONS);
}

static tdm_status sliding_reserve(tdm_cache *cache, int64_t n, tdm_error *err) {
    sliding_cache *sliding = (sliding_cache *)cache;
    return tdm_page_list_grow(&sliding->list, pages_for(sliding->n_ring_pages, sliding->length + n),
                              err);
}

static const tdm_kv_pages *sliding_begin(tdm_cache *cache, int64_t n) {
    sliding_cache *sliding = (sliding_cache *)cache;
    int64_t end = sliding->length + n;
    TDM_CHECK(n <= cache->geometry.append_max);
    TDM_CHECK(pages_for(sliding->n_ring_pages, end) <= sliding->list.n);
    if (end > sliding->high_water) {
        sliding->high_water = end;
    }
    sliding->pages.k = sliding->list.k;
    sliding->pages.v = sliding->list.v;
    return &sliding->pages;
}

static void sliding_commit(tdm_cache *cache, int64_t n) {
    ((sliding_cache *)cache)->length += n;
}

static int64_t sliding_length(const tdm_cache *cache) {
    return ((const sliding_cache *)cache)->length;
}

static size_t sliding_bytes(const tdm_cache *cache) {
    return tdm_page_list_bytes(&((const sliding_cache *)cache)->list);
}

static bool sliding_can_trim(const tdm_cache *cache, int64_t n) {
    const sliding_cache *sliding = (const sliding_cache *)cache;
    int64_t ring = (int64_t)sliding->n_ring_pages * PAGE_POSITIONS;
    int64_t oldest = sliding->high_water - ring; /* first position that is not overwritten */
    int64_t new_length = sliding->length - n;
    if (n < 0 || n > sliding->length) {
        return false;
    }
    return oldest <= 0 || new_length - (cache->geometry.window - 1) >= oldest;
}

static tdm_status sliding_trim(tdm_cache *cache, int64_t n, tdm_error *err) {
    sliding_cache *sliding = (sliding_cache *)cache;
    if (!sliding_can_trim(cache, n)) {
        (void)tdm_fail(err, TDM_E_STATE,
                       "cannot trim %lld positions: the window below them is overwritten",
                       (long long)n);
        tdm_err_remedy(err, "prefill the sequence again");
        return TDM_E_STATE;
    }
    sliding->length -= n;
    return TDM_OK;
}

static bool sliding_check(const tdm_cache *cache) {
    const sliding_cache *sliding = (const sliding_cache *)cache;
    return sliding->length >= 0 && sliding->length <= sliding->high_water &&
           sliding->list.n <= sliding->n_ring_pages &&
           pages_for(sliding->n_ring_pages, sliding->high_water) <= sliding->list.n;
}

static void sliding_destroy(tdm_cache *cache) {
    sliding_cache *sliding = (sliding_cache *)cache;
    if (sliding != NULL) {
        tdm_page_list_deinit(&sliding->list);
        tdm_mem_free(sliding->alloc, sliding, sizeof *sliding);
    }
}

#define SLIDING_OPS(name)                                                                          \
    {                                                                                              \
        name, tdm_cache_sliding_plan, sliding_reserve, sliding_begin, sliding_commit,              \
            sliding_length, sliding_bytes, sliding_can_trim, sliding_trim, sliding_check,          \
            sliding_destroy, NULL                                                                  \
    }

static const tdm_cache_ops SLIDING_F32 = SLIDING_OPS("sliding/f32");
static const tdm_cache_ops SLIDING_BF16 = SLIDING_OPS("sliding/bf16");

tdm_status tdm_cache_sliding_create(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                                    tdm_cache **out_cache, tdm_error *err) {
    sliding_cache *sliding = NULL;
    *out_cache = NULL;
    TDM_CHECK(geometry->window > 0 && geometry->append_max > 0);
    TDM_CHECK(geometry->dtype == TDM_DTYPE_F32 || geometry->dtype == TDM_DTYPE_BF16);
    sliding = tdm_mem_calloc(alloc, 1, sizeof *sliding);
    if (sliding == NULL) {
        return tdm_fail_nomem(err, "a cache");
    }
    sliding->base.ops = geometry->dtype == TDM_DTYPE_F32 ? &SLIDING_F32 : &SLIDING_BF16;
    sliding->base.geometry = *geometry;
    sliding->alloc = alloc;
    sliding->n_ring_pages = ring_pages(geometry);
    tdm_page_list_init(&sliding->list, alloc, geometry, PAGE_POSITIONS);
    sliding->pages = (tdm_kv_pages){
        .page_shift = PAGE_SHIFT,
        .n_pages = sliding->n_ring_pages,
        .dtype = geometry->dtype,
        .n_kv_heads = geometry->n_kv_heads,
        .head_dim = geometry->head_dim,
        .value_dim = geometry->value_dim,
    };
    *out_cache = &sliding->base;
    return TDM_OK;
}
