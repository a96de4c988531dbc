/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache table: one layer's memory of one sequence. Floor 1. The cache owns storage, and knows
 * what it forgot; a graph asks it where to write and what to read and never learns which kind or
 * codec it holds.
 *
 * Laws:
 *  C1 length is the number of positions ever appended minus those trimmed; it starts at 0.
 *  C2 reserve(n) makes room for n more positions, however many, and changes nothing that can be
 *     read; after it, begin of at most append_max of them at a time cannot fail. A failed reserve
 *     may have bought some pages (bytes grows) and changes nothing else.
 *  C3 begin(n) gives the pages into which positions [length, length + n) are to be written and from
 *     which queries at those positions may read; commit(n) then adds n to length. begin without
 *     commit changes nothing that can be read; on a ring it may cost positions that trim could
 *     have gone back to.
 *  C4 After trim(n) length has fallen by exactly n, and appending again gives the bits of a cache
 *     that never held the trimmed positions. trim is TDM_E_STATE when can_trim(n) is false, and
 *     then changes nothing.
 *  C5 signature is one constant text per kind and codec ("full/f32"); two kinds never share one.
 *  C6 bytes never exceeds what plan answered for the same number of positions. */
#ifndef TDM_CONTRACT_CACHE_H
#define TDM_CONTRACT_CACHE_H

#include "contract/backend.h"

typedef struct tdm_cache tdm_cache;

typedef struct tdm_kv_geometry {
    tdm_dtype dtype; /* F32 or BF16 */
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t value_dim;
    int32_t window;     /* 0: full; else how many positions a query sees, itself included */
    int32_t append_max; /* most positions of one begin; sliding storage keeps this much slack */
} tdm_kv_geometry;

typedef struct tdm_cache_ops {
    const char *signature;
    /* Bytes for n positions. */
    size_t (*plan)(const tdm_kv_geometry *geometry, int64_t n_positions);
    tdm_status (*reserve)(tdm_cache *cache, int64_t n, tdm_error *err);
    /* Borrowed until the next reserve, commit, trim or destroy. */
    const tdm_kv_pages *(*begin)(tdm_cache *cache, int64_t n);
    void (*commit)(tdm_cache *cache, int64_t n);
    int64_t (*length)(const tdm_cache *cache);
    size_t (*bytes)(const tdm_cache *cache);
    bool (*can_trim)(const tdm_cache *cache, int64_t n);
    tdm_status (*trim)(tdm_cache *cache, int64_t n, tdm_error *err);
    /* Walks its own invariants; false says that memory is damaged. */
    bool (*check)(const tdm_cache *cache);
    void (*destroy)(tdm_cache *cache);
} tdm_cache_ops;

struct tdm_cache {
    const tdm_cache_ops *ops;
    tdm_kv_geometry geometry;
};

#endif
