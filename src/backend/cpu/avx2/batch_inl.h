/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole panels against several tokens: what 256-bit sets keep of an opened panel, opening it, and the
 * loops of a tile that have to be unrolled. Both halves of a panel are multiplied at once, so that a
 * broadcast of four activations serves sixteen rows: with one half a broadcast for each product was
 * loaded, and loading was all that a tile did. */
#ifndef TDM_BACKEND_CPU_AVX2_BATCH_INL_H
#define TDM_BACKEND_CPU_AVX2_BATCH_INL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

#include <stddef.h>

/* Blocks of columns opened at once: with what they meet of eight tokens (384 bytes a block) they
 * stay in a first-level cache of 32 KiB. A multiple of every period. */
#define BATCH_BLOCKS 16

/* Arrays of vectors live in registers only where every loop over them is unrolled. */
#if defined(__clang__)
#define BATCH_UNROLL _Pragma("clang loop unroll(full)")
#else
#define BATCH_UNROLL _Pragma("GCC unroll 8")
#endif

/* A block of 32 columns of sixteen rows, rows 0 to 7 before rows 8 to 15 everywhere. Integers are as
 * open_vector gives them, or unsigned where the set wants that. */
typedef struct batch_block {
    _Alignas(32) uint8_t w[8][PANEL_VECTOR];
    float d[PANEL_ROWS];
    float m[PANEL_ROWS]; /* min, or the last half's scale of a pair; from here on by form */
    int16_t pairs[2 * PANEL_ROWS];     /* integer scales of both halves, by row */
    int16_t zeros[2 * PANEL_ROWS];     /* the same times -(zero point) */
    int16_t halves[2][2 * PANEL_ROWS]; /* the first half's scales, twice each, and the last's */
    int16_t mins[2 * PANEL_ROWS];      /* Q2_K: of both halves, by row */
} batch_block;

/* Bytes of an opened block of this form: what it does not use is cut off. */
TDM_INLINE size_t batch_bytes(int form) {
    if (form == FORM_Q2_K) {
        return sizeof(batch_block);
    }
    if (form_has_halves(form)) {
        return offsetof(batch_block, mins);
    }
    return form_has_min(form) || form_is_pair(form) ? offsetof(batch_block, pairs)
                                                    : offsetof(batch_block, m);
}

/* Where the sums of a block and eight tokens start: -(zero point) times the sums of their activations;
 * of pairs, of the first and of the last halves. */
typedef struct batch_starts {
    _Alignas(32) int32_t first[TDM_CPU_EIGHT_TOKENS];
    int32_t last[TDM_CPU_EIGHT_TOKENS];
} batch_starts;

TDM_INLINE int batch_has_two(int form) {
    return form_has_halves(form) || form_is_pair(form);
}

/* zero: the form's in this set. Forms with integer scales of halves start from zero. */
TDM_INLINE void batch_prepare(int form, int zero, int64_t n_blocks, const tdm_cpu_x8_eight *x,
                              batch_starts *out) {
    const __m256i times = _mm256_set1_epi32(-zero);
    if (zero == 0 || form_has_halves(form)) {
        return;
    }
    for (int64_t b = 0; b < n_blocks; ++b, ++x, ++out) {
        __m256i first = load256(x->sum);
        if (form_is_pair(form)) {
            const __m256i halves = load256(x->half_sums);
            const __m256i last = _mm256_srai_epi32(halves, 16);
            first = _mm256_srai_epi32(_mm256_slli_epi32(halves, 16), 16);
            _mm256_store_si256((__m256i *)(void *)out->last, _mm256_mullo_epi32(last, times));
        }
        _mm256_store_si256((__m256i *)(void *)out->first, _mm256_mullo_epi32(first, times));
    }
}

/* Sums of both halves of token t's activations, for each row. */
TDM_INLINE __m256i batch_halves(const tdm_cpu_x8_eight *x, int t) {
    int32_t both = 0;
    memcpy(&both, x->half_sums[t], sizeof both);
    return _mm256_set1_epi32(both);
}

/* Scales of half a panel (0 or 1) of block. */
TDM_INLINE void batch_put_scales(int form, const block_scales *s, int half, batch_block *out) {
    const int row = HALF_ROWS * half;
    _mm256_store_ps(out->d + row, s->d);
    if (form_has_min(form) || form_is_pair(form) || form == FORM_Q2_K) {
        _mm256_store_ps(out->m + row, s->m);
    }
    if (form_has_halves(form)) {
        const __m256i times = _mm256_set1_epi16((int16_t)-form_zero(form));
        _mm256_store_si256((__m256i *)(void *)(out->pairs + 2 * row), s->pairs);
        _mm256_store_si256((__m256i *)(void *)(out->zeros + 2 * row),
                           _mm256_mullo_epi16(s->pairs, times));
        for (int i = 0; i < 2; ++i) {
            _mm256_store_si256((__m256i *)(void *)(out->halves[i] + 2 * row),
                               one_half(s->pairs, i));
        }
    }
    if (form == FORM_Q2_K) {
        _mm256_store_si256((__m256i *)(void *)(out->mins + 2 * row), s->mins);
    }
}

/* Blocks of a packed panel, which begin with a head if the form has any; flip: added to each byte
 * without a carry. Returns where the next ones are. */
TDM_INLINE const uint8_t *batch_open(int form, int flip, const uint8_t *p, int64_t n_blocks,
                                     int32_t period, uint8_t *out) {
    __m256 head_d[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    __m256 head_m[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    int32_t head_in = 0;
    for (int64_t b = 0; b < n_blocks; ++b, out += batch_bytes(form)) {
        batch_block *open = (batch_block *)(void *)out;
        if (form_has_head(form) && head_in-- == 0) {
            heads_load(form, period, p, 0, &head_d[0], &head_m[0]);
            heads_load(form, period, p, 1, &head_d[1], &head_m[1]);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        BATCH_UNROLL for (int h = 0; h < 2; ++h) {
            const block_scales s =
                scales_packed(form, period, p + packed_ints(form), h, head_d[h], head_m[h]);
            BATCH_UNROLL for (int j = 0; j < 8; ++j) {
                __m256i v = open_vector(form, p, h, j);
                v = flip != 0 ? _mm256_xor_si256(v, _mm256_set1_epi8((char)flip)) : v;
                _mm256_store_si256((__m256i *)(void *)(open->w[j] + 32 * h), v);
            }
            batch_put_scales(form, &s, h, open);
        }
        p += packed_block(form, period);
    }
    return p;
}

TDM_INLINE __m256i batch_load(const void *p) {
    return _mm256_load_si256((const __m256i *)p);
}

/* The f32 law of cpu_priv.h for half a panel and token t of eight; acc has the half's rows. */
TDM_INLINE void batch_step(int form, const batch_block *w, int half, const tdm_cpu_x8_eight *x,
                           int t, __m256i sum, __m256i last, float *acc) {
    const int row = HALF_ROWS * half;
    const __m256 x_d = _mm256_broadcast_ss(&x->d[t]);
    __m256 v = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(w->d + row), x_d),
                               _mm256_cvtepi32_ps(sum), _mm256_load_ps(acc));
    if (form_has_min(form)) {
        v = _mm256_fmadd_ps(_mm256_load_ps(w->m + row), _mm256_broadcast_ss(&x->s[t]), v);
    } else if (form_is_pair(form) || form == FORM_Q2_K) {
        if (form == FORM_Q2_K) {
            last = _mm256_madd_epi16(batch_load(w->mins + 2 * row), batch_halves(x, t));
        }
        v = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(w->m + row), x_d),
                            _mm256_cvtepi32_ps(last), v);
    }
    _mm256_store_ps(acc, v);
}

#endif
