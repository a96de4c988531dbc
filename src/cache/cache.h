/* SPDX-License-Identifier: Apache-2.0
 *
 * The kinds of cache that this build has. Floor 4. All of them obey contract/cache.h;
 * tests/contract/cache_kit.h and recurrent_kit.h prove it. Owner thread only (the device thread). */
#ifndef TDM_CACHE_CACHE_H
#define TDM_CACHE_CACHE_H

#include "base/alloc.h"
#include "contract/cache.h"

/* Positions that a sliding cache keeps beyond its window and one append, so that a verify round can
 * be undone. */
#define TDM_CACHE_SLIDING_SLACK 64

/* Positions that a recurrent cache can go back, if they were appended at once or since its base
 * moved; the last append always can, up to so many. */
#define TDM_CACHE_RECURRENT_UNDO 16

/* Grows by pages of 256 positions; never forgets; any trim is legal. geometry->window must be 0.
 * A latent geometry gives a latent cache: rows that are key and value, and an indexer's keys.
 * Errors: TDM_E_NOMEM. Owns: caller destroys through ops->destroy. */
TDM_NODISCARD tdm_status tdm_cache_full_create(const tdm_alloc *alloc,
                                               const tdm_kv_geometry *geometry,
                                               tdm_cache **out_cache, tdm_error *err);
/* A ring of at least window - 1 + append_max + TDM_CACHE_SLIDING_SLACK positions, in pages of 64.
 */
TDM_NODISCARD tdm_status tdm_cache_sliding_create(const tdm_alloc *alloc,
                                                  const tdm_kv_geometry *geometry,
                                                  tdm_cache **out_cache, tdm_error *err);
/* geometry->row_values must be positive; state_values may be 0 (a convolution). All memory comes with the first reserve:
 * three states and two windows of n_tail + TDM_CACHE_RECURRENT_UNDO rows. */
TDM_NODISCARD tdm_status tdm_cache_recurrent_create(const tdm_alloc *alloc,
                                                    const tdm_kv_geometry *geometry,
                                                    tdm_cache **out_cache, tdm_error *err);
size_t tdm_cache_recurrent_plan(const tdm_kv_geometry *geometry, int64_t n_positions);
/* Bytes of a full cache of n positions; of a sliding one, which grows with n until the ring is
 * whole. */
size_t tdm_cache_full_plan(const tdm_kv_geometry *geometry, int64_t n_positions);
size_t tdm_cache_sliding_plan(const tdm_kv_geometry *geometry, int64_t n_positions);

/* The kind that the geometry asks for (kinds.c): creates it; the bytes that it will hold for n
 * positions; its name ("full", "sliding", "latent", "latent+index", "recurrent"), which is what stands
 * before the slash of the signature. */
TDM_NODISCARD tdm_status tdm_cache_create(const tdm_alloc *alloc, const tdm_kv_geometry *geometry,
                                          tdm_cache **out_cache, tdm_error *err);
size_t tdm_cache_plan(const tdm_kv_geometry *geometry, int64_t n_positions);
const char *tdm_cache_kind(const tdm_kv_geometry *geometry);

#endif
