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
 *  C6 bytes never exceeds what plan answered for the same number of positions.
 *  C7 A recurrent kind answers begin_state in place of begin. It keeps a state from which the last
 *     few positions can be computed anew, and their inputs, so that trim forgets them without
 *     remembering a state for each. Whoever computes does so in the order that tdm_recurrent_view
 *     draws, by steps of one position, and the same inputs give the same bits. */
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
    bool is_latent;     /* one row of head_dim a position is key and value (contract/backend.h);
                           n_kv_heads 1, window 0, value_dim at most head_dim */
    int32_t index_dim;  /* latent only: of an indexer's keys; 0: none */
    /* A recurrent layer, whose memory has one size however long the sequence; all above but
     * append_max are then 0. */
    int64_t state_values; /* f32; 0: what is remembered is rows alone */
    int64_t row_values;   /* f32, the inputs of one position; 0: keys and values */
    int32_t n_tail;       /* rows of earlier positions that a position reads too */
} tdm_kv_geometry;

/* One append of n positions to a recurrent layer. Rows before the first position are zeros, and so
 * is the state at length 0. n_replay positions before length are done again, then the n new ones:
 *
 *   rows   |<- n_tail ->|<- n_replay ->| length ... n new rows ...
 *   state              from --------> now --- n_now ---> now --- n - n_now ---> next
 *
 * Where n_replay is 0 from may be now itself. n_replay + n_now is 0 only then; next differs from
 * now only where n_now < n. The last n_keep rows of rows and new rows together go to keep, which
 * lies apart from rows. */
typedef struct tdm_recurrent_view {
    const float *from;
    float *now;
    float *next;
    const float *rows; /* [n_tail + n_replay, row_values], oldest first */
    float *keep;       /* [n_keep, row_values], oldest first */
    int32_t n_replay;
    int32_t n_now;
    int32_t n_keep;
} tdm_recurrent_view;

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
    /* Of recurrent kinds, whose begin is NULL; NULL in the others. Borrowed as begin's. */
    const tdm_recurrent_view *(*begin_state)(tdm_cache *cache, int64_t n);
} tdm_cache_ops;

struct tdm_cache {
    const tdm_cache_ops *ops;
    tdm_kv_geometry geometry;
};

#endif
