/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide int8 products on AMX tiles. One tile instruction multiplies a block of 32 columns: sixteen
 * tokens (rows of A) by sixteen weight rows (columns of B) into 256 sums of 32 bits. Integer sums
 * are exact in any order, so the bits are those of every other set; blocks have scales of their own,
 * which is why a tile is used for one block only and its sums leave it for the f32 part.
 *
 *     C [token][row] 16 x 64 bytes    A = group->q 16 x 32    B = opened weights 8 x 64
 *
 * A tile's sums come some 50 cycles after its instruction, and tiles are not renamed: loading one
 * may wait for its last reader. So the tiles of two later blocks are under way, with two pairs of A and
 * B in turn, while the f32 part of a block works. Integer scales of halves were multiplied into the
 * weights when they were opened; where they need two bytes, two tiles share an A. Pairs take two
 * tiles of 16 columns.
 *
 * One or two groups of tokens meet a panel but once or twice, so memory is what they wait for: they go
 * panel after panel over all columns, one stream, and ask for the piece behind while they multiply.
 *
 * The configuration is loaded at each call and released at its end, so that no thread carries tiles
 * across a sleep. */
#include "backend/cpu/amx/amx_priv.h"

#include "backend/cpu/amx/tiles_inl.h"
#include "backend/cpu/avx512/wide_inl.h"

#define FEW_GROUPS 2

/* C = A B. Tile numbers must be constants. */
#define TILE_DOT(form, c, a, b, tokens, weights)                                                   \
    do {                                                                                           \
        _tile_zero(c);                                                                             \
        _tile_loadd(a, tokens, 32);                                                                \
        _tile_loadd(b, weights, 64);                                                               \
        if ((form) == FORM_A8) {                                                                   \
            _tile_dpbsud(c, a, b);                                                                 \
        } else {                                                                                   \
            _tile_dpbssd(c, a, b);                                                                 \
        }                                                                                          \
    } while (0)

typedef struct tile_sums {
    _Alignas(64) int32_t at[TDM_CPU_GROUP_TOKENS][WIDE_ROWS];
} tile_sums;

/* The f32 part of a block whose sums lie in memory; second: low bytes' sums, or last halves'. */
TDM_INLINE void wide_steps(int form, const wide_block *w, const tdm_cpu_x8_group *group,
                           const tile_sums *first, const tile_sums *second, __m512 *acc) {
    for (int t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        __m512i sum = _mm512_load_si512(first->at[t]);
        __m512i last = _mm512_setzero_si512();
        if (wide_has_low(form)) {
            sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), _mm512_load_si512(second->at[t]));
        } else if (form_is_pair(form)) {
            last = _mm512_load_si512(second->at[t]);
        }
        acc[t] = wide_step(form, w, group, t, sum, last, acc[t]);
    }
}

TDM_INLINE const wide_block *block_at(int form, const uint8_t *p, int64_t b) {
    return (const wide_block *)(const void *)(p + (size_t)b * wide_bytes(form));
}

/* Bytes that each block of this call asks for, into the second-level cache. */
typedef struct asking {
    const char *p;
    int64_t bytes;
} asking;

TDM_INLINE void ask(const asking *next, int64_t b) {
    for (int64_t i = 0; i < next->bytes; i += 64) {
        _mm_prefetch(next->p + b * next->bytes + i, _MM_HINT_T1);
    }
}

/* Starts block b + 2 in tile ahead, stores block b from tile c and finishes it. */
#define WHOLE_STEP(c, ahead, a, bt)                                                                \
    do {                                                                                           \
        if (b + 2 < n_blocks) {                                                                    \
            TILE_DOT(form, ahead, a, bt, group[b + 2].q, block_at(form, p, b + 2)->w);             \
        }                                                                                          \
        _tile_stored(c, sums.at, 64);                                                              \
        ask(next, b);                                                                              \
        wide_steps(form, block_at(form, p, b), group + b, &sums, NULL, acc);                       \
        if (++b == n_blocks) {                                                                     \
            return;                                                                                \
        }                                                                                          \
    } while (0)

TDM_INLINE void group_whole(int form, const uint8_t *p, int64_t n_blocks,
                            const tdm_cpu_x8_group *group, const asking *next, __m512 *acc) {
    tile_sums sums;
    int64_t b = 0;
    TILE_DOT(form, 0, 4, 5, group[0].q, block_at(form, p, 0)->w);
    if (n_blocks > 1) {
        TILE_DOT(form, 1, 6, 7, group[1].q, block_at(form, p, 1)->w);
    }
    for (;;) {
        WHOLE_STEP(0, 2, 4, 5);
        WHOLE_STEP(1, 3, 6, 7);
        WHOLE_STEP(2, 0, 4, 5);
        WHOLE_STEP(3, 1, 6, 7);
    }
}

/* Both tiles of block i: high and low bytes, or halves. */
#define TWO_START(c, d, i)                                                                         \
    do {                                                                                           \
        const wide_block *w = block_at(form, p, i);                                                \
        if (wide_has_low(form)) {                                                                  \
            _tile_zero(c);                                                                         \
            _tile_zero(d);                                                                         \
            _tile_loadd(4, group[i].q, 32);                                                        \
            _tile_loadd(5, w->w, 64);                                                              \
            _tile_loadd(7, w->low, 64);                                                            \
            _tile_dpbssd(c, 4, 5);                                                                 \
            _tile_dpbsud(d, 4, 7);                                                                 \
        } else {                                                                                   \
            TILE_DOT(form, c, 4, 5, group[i].q, w->w);                                             \
            TILE_DOT(form, d, 6, 7, group[i].q[0] + 16, w->w[4]);                                  \
        }                                                                                          \
    } while (0)

TDM_INLINE void group_two(int form, const uint8_t *p, int64_t n_blocks,
                          const tdm_cpu_x8_group *group, const asking *next, __m512 *acc) {
    tile_sums first;
    tile_sums second;
    TWO_START(0, 1, 0);
    for (int64_t b = 0; b < n_blocks; b += 2) {
        if (b + 1 < n_blocks) {
            TWO_START(2, 3, b + 1);
        }
        _tile_stored(0, first.at, 64);
        _tile_stored(1, second.at, 64);
        ask(next, b);
        wide_steps(form, block_at(form, p, b), group + b, &first, &second, acc);
        if (b + 1 == n_blocks) {
            return;
        }
        if (b + 2 < n_blocks) {
            TWO_START(0, 1, b + 2);
        }
        _tile_stored(2, first.at, 64);
        _tile_stored(3, second.at, 64);
        ask(next, b + 1);
        wide_steps(form, block_at(form, p, b + 1), group + b + 1, &first, &second, acc);
    }
}

TDM_INLINE int has_two(int form) {
    return wide_has_low(form) || form_is_pair(form);
}

TDM_INLINE void asking_group(int form, const uint8_t *p, int64_t n_blocks,
                             const tdm_cpu_x8_group *group, const asking *next, __m512 *inout) {
    __m512 acc[TDM_CPU_GROUP_TOKENS];
    for (int t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        acc[t] = inout[t];
    }
    if (has_two(form)) {
        group_two(form, p, n_blocks, group, next, acc);
    } else {
        group_whole(form, p, n_blocks, group, next, acc);
    }
    for (int t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        inout[t] = acc[t];
    }
}

TDM_INLINE void wide_group(int form, const uint8_t *p, int64_t n_blocks,
                           const tdm_cpu_x8_group *group, __m512 *inout) {
    const asking nothing = {NULL, 0};
    asking_group(form, p, n_blocks, group, &nothing, inout);
}

#include "backend/cpu/avx512/wide_tmpl.h"

/* A panel against one or two groups. */
TDM_INLINE void few_panel(int form, const tdm_cpu_linear_job *job, int64_t o, int64_t n_rows,
                          int64_t group0, int64_t group1, uint8_t *opened) {
    const tdm_weight *w = job->weight;
    const int64_t n_blocks = w->n_in / 32;
    const int64_t block_bytes = packed_block(form, w->period);
    const uint8_t *p = (const uint8_t *)w->packed +
                       (size_t)(o / WIDE_ROWS) * packed_panel(form, w->n_in, w->period);
    wide_sums sums[FEW_GROUPS] = {0};
    for (int64_t b = 0; b < n_blocks; b += TDM_CPU_WIDE_BLOCKS) {
        const int64_t n = tdm_cpu_min(TDM_CPU_WIDE_BLOCKS, n_blocks - b);
        const uint8_t *piece =
            p + b * block_bytes + b / packed_period(form, w->period) * packed_head(form, w->period);
        asking next = {(const char *)piece + n * block_bytes, block_bytes};
        wide_open(form, piece, n, w->period, opened);
        for (int64_t g = group0; g < group1; ++g) {
            asking_group(form, opened, n, job->x8->groups + g * job->x8->ld_blocks + b, &next,
                         sums[g - group0].acc);
            next.bytes = 0;
        }
    }
    for (int64_t g = group0; g < group1; ++g) {
        wide_store(job, o, n_rows, g * TDM_CPU_GROUP_TOKENS, TDM_CPU_GROUP_TOKENS,
                   sums[g - group0].acc);
    }
}

#define FEW(name)                                                                                  \
    static void name##_few(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,              \
                           int64_t group0, int64_t group1, void *scratch) {                        \
        for (int64_t o = row0; o < row1; o += WIDE_ROWS) {                                         \
            few_panel(FORM_##name, job, o, tdm_cpu_min(WIDE_ROWS, row1 - o), group0, group1,       \
                      scratch);                                                                    \
        }                                                                                          \
    }

FORMS(FEW)

#define FEW_ENTRY(name) [FORM_##name] = name##_few,

static const wide_fn FEW_KERNELS[FORM_COUNT] = {FORMS(FEW_ENTRY)};

void tdm_amx_linear_i8_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                            int64_t group0, int64_t group1, void *scratch) {
    const bool is_few = group1 - group0 <= FEW_GROUPS;
    tiles_configure(form_is_pair(job->weight->layout) ? 16 : 32);
    (is_few ? FEW_KERNELS : WIDE_KERNELS)[job->weight->layout](job, row0, row1, group0, group1,
                                                               scratch);
    _tile_release();
}
