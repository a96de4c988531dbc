/* SPDX-License-Identifier: Apache-2.0
 *
 * The full cache: every position of one sequence, in pages of 256 that are added and never moved.
 *
 *   positions  0 ........ 255 | 256 ...... 511 | 512 ..
 *   pages      k[0], v[0]     | k[1], v[1]     | k[2], v[2]
 *
 * Trimming lowers the length and keeps the pages: room that was reserved stays reserved (law C2). What a page holds past
 * the length is stale and never read: attention stops at the query's own position.
 *
 * A latent cache is the same over other pages: one row a position that is key and value, and perhaps an indexer's keys in
 * the place of the values. */
#include "cache/cache.h"
#include "cache/page_list.h"

#include <string.h>

#define PAGE_SHIFT 8u
#define PAGE_POSITIONS (1u << PAGE_SHIFT)

typedef struct full_cache {
    tdm_cache base;
    const tdm_alloc *alloc;
    tdm_page_list list;
    tdm_kv_pages pages; /* what begin hands out */
    int64_t length;
} full_cache;

static uint32_t pages_for(int64_t n_positions) {
    return (uint32_t)((n_positions + PAGE_POSITIONS - 1) >> PAGE_SHIFT);
}

size_t tdm_cache_full_plan(const tdm_kv_geometry *geometry, int64_t n_positions) {
    return pages_for(n_positions) * tdm_page_bytes(geometry, PAGE_POSITIONS);
}

static tdm_status full_reserve(tdm_cache *cache, int64_t n, tdm_error *err) {
    full_cache *full = (full_cache *)cache;
    return tdm_page_list_grow(&full->list, pages_for(full->length + n), err);
}

static const tdm_kv_pages *full_begin(tdm_cache *cache, int64_t n) {
    full_cache *full = (full_cache *)cache;
    TDM_CHECK(pages_for(full->length + n) <= full->list.n);
    full->pages.k = full->list.k;
    full->pages.v = cache->geometry.is_latent ? full->list.k : full->list.v;
    full->pages.index = cache->geometry.index_dim > 0 ? full->list.v : NULL;
    full->pages.n_pages = full->list.n;
    return &full->pages;
}

static void full_commit(tdm_cache *cache, int64_t n) {
    ((full_cache *)cache)->length += n;
}

static int64_t full_length(const tdm_cache *cache) {
    return ((const full_cache *)cache)->length;
}

static size_t full_bytes(const tdm_cache *cache) {
    return tdm_page_list_bytes(&((const full_cache *)cache)->list);
}

static bool full_can_trim(const tdm_cache *cache, int64_t n) {
    return n >= 0 && n <= ((const full_cache *)cache)->length;
}

static tdm_status full_trim(tdm_cache *cache, int64_t n, tdm_error *err) {
    full_cache *full = (full_cache *)cache;
    if (!full_can_trim(cache, n)) {
        (void)tdm_fail(err, TDM_E_STATE, "cannot trim %lld positions of %lld", (long long)n,
                       (long long)full->length);
        return TDM_E_STATE;
    }
    full->length -= n;
    return TDM_OK;
}

static bool full_check(const tdm_cache *cache) {
    const full_cache *full = (const full_cache *)cache;
    if (full->length < 0 || pages_for(full->length) > full->list.n) {
        return false;
    }
    for (uint32_t i = 0; i < full->list.n; i++) {
        if (full->list.k[i] == NULL || full->list.v[i] != full->list.k[i] + full->list.k_bytes) {
            return false;
        }
    }
    return true;
}

static void full_destroy(tdm_cache *cache) {
    full_cache *full = (full_cache *)cache;
    if (full != NULL) {
        tdm_page_list_deinit(&full->list);
        tdm_mem_free(full->alloc, full, sizeof *full);
    }
}

#define FULL_OPS(name)                                                                             \
    {                                                                                              \
        name, tdm_cache_full_plan, full_reserve, full_begin, full_commit, full_length, full_bytes, \
            full_can_trim, full_trim, full_check, full_destroy, NULL                               \
    }

/* By kind, then F32 and BF16. */
static const tdm_cache_ops OPS[3][2] = {
    {FULL_OPS("full/f32"), FULL_OPS("full/bf16")},
    {FULL_OPS("latent/f32"), FULL_OPS("latent/bf16")},
    {FULL_OPS("latent+index/f32"), FULL_OPS("latent+index/bf16")},
};

static const tdm_cache_ops *ops_of(const tdm_kv_geometry *geometry) {
    int kind = !geometry->is_latent ? 0 : geometry->index_dim == 0 ? 1 : 2;
    return &OPS[kind][geometry->dtype == TDM_DTYPE_F32 ? 0 : 1];
}

tdm_status tdm_cache_full_create(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                                 tdm_cache **out_cache, tdm_error *err) {
    full_cache *full = NULL;
    *out_cache = NULL;
    TDM_CHECK(geometry->window == 0);
    TDM_CHECK(geometry->dtype == TDM_DTYPE_F32 || geometry->dtype == TDM_DTYPE_BF16);
    TDM_CHECK(geometry->is_latent
                  ? geometry->n_kv_heads == 1 && geometry->value_dim <= geometry->head_dim
                  : geometry->index_dim == 0);
    full = tdm_mem_calloc(alloc, 1, sizeof *full);
    if (full == NULL) {
        return tdm_fail_nomem(err, "a cache");
    }
    full->base.ops = ops_of(geometry);
    full->base.geometry = *geometry;
    full->alloc = alloc;
    tdm_page_list_init(&full->list, alloc, geometry, PAGE_POSITIONS);
    full->pages = (tdm_kv_pages){
        .page_shift = PAGE_SHIFT,
        .dtype = geometry->dtype,
        .n_kv_heads = geometry->n_kv_heads,
        .head_dim = geometry->head_dim,
        .value_dim = geometry->value_dim,
        .index_dim = geometry->index_dim,
        .is_latent = geometry->is_latent,
    };
    *out_cache = &full->base;
    return TDM_OK;
}
