/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of cache as one table, so that what is planned, what is created and what a kind is
 * called cannot come apart. A new kind is a file and a row here. */
#include "cache/cache.h"

typedef struct cache_kind {
    const char *name; /* what stands before the slash of its signature */
    size_t (*plan)(const tdm_kv_geometry *geometry, int64_t n_positions);
    tdm_status (*create)(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                         tdm_cache **out_cache, tdm_error *err);
} cache_kind;

static const cache_kind FULL = {"full", tdm_cache_full_plan, tdm_cache_full_create};
static const cache_kind LATENT = {"latent", tdm_cache_full_plan, tdm_cache_full_create};
static const cache_kind INDEXED = {"latent+index", tdm_cache_full_plan, tdm_cache_full_create};
static const cache_kind SLIDING = {"sliding", tdm_cache_sliding_plan, tdm_cache_sliding_create};
static const cache_kind RECURRENT = {"recurrent", tdm_cache_recurrent_plan,
                                     tdm_cache_recurrent_create};

static const cache_kind *kind_of(const tdm_kv_geometry *geometry) {
    if (geometry->row_values > 0) {
        return &RECURRENT;
    }
    if (geometry->is_latent) {
        return geometry->index_dim > 0 ? &INDEXED : &LATENT;
    }
    return geometry->window == 0 ? &FULL : &SLIDING;
}

const char *tdm_cache_kind(const tdm_kv_geometry *geometry) {
    return kind_of(geometry)->name;
}

size_t tdm_cache_plan(const tdm_kv_geometry *geometry, int64_t n_positions) {
    return kind_of(geometry)->plan(geometry, n_positions);
}

tdm_status tdm_cache_create(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                            tdm_cache **out_cache, tdm_error *err) {
    return kind_of(geometry)->create(alloc, geometry, out_cache, err);
}
