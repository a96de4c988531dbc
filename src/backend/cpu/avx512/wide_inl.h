/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide products: packed panels of sixteen rows, opened, against groups of sixteen tokens. One 64-byte vector holds four neighbouring columns of each row, which is what a 512-bit
 * dot instruction and a tile of AMX both want of their second operand.
 *
 *     vector j of a block (j = 0..7), dword lane r:  columns 4j .. 4j + 3 of row r
 *
 * A file that includes this says how integers are kept (WIDE_SIGNED: weights as signed bytes, else
 * as unsigned ones) and gives
 *     wide_group(form, p, n_blocks, group, acc)     adds to acc[t] lane r: row r, token t
 * and then includes wide_tmpl.h for the loops around it. The f32 part is wide_step, for both the
 * same, and the same as in avx2/linear_i8_tmpl.h. */
#ifndef TDM_BACKEND_CPU_AVX512_WIDE_INL_H
#define TDM_BACKEND_CPU_AVX512_WIDE_INL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

#include <stddef.h>

#define WIDE_ROWS TDM_CPU_PANEL_ROWS

typedef struct wide_block {
    uint8_t w[8][64];
    float d[WIDE_ROWS];
    float m[WIDE_ROWS]; /* min, or the last half's scale of a pair; from here on by form */
    int32_t first_min[WIDE_ROWS];
    int32_t last_min[WIDE_ROWS];
    union {
        struct {
            int32_t first[WIDE_ROWS];
            int32_t last[WIDE_ROWS];
        } scale; /* integer scales of halves, weights unsigned */
        uint8_t low[8]
                   [64]; /* weights signed: low bytes of weight times scale; w has the high ones */
    } half;
} wide_block;

/* Integer scales are multiplied into signed weights: 45 at most for Q2_K, else two bytes. */
TDM_INLINE int wide_has_low(int form, int is_signed) {
    return is_signed && form_has_halves(form) && form != FORM_Q2_K;
}

/* Bytes of an opened block of this form: what it does not use is cut off. */
TDM_INLINE size_t wide_bytes(int form, int is_signed) {
    if (wide_has_low(form, is_signed)) {
        return sizeof(wide_block);
    }
    if (form_has_halves(form)) {
        return offsetof(wide_block, half) + (is_signed ? 0 : sizeof(int32_t) * 2 * WIDE_ROWS);
    }
    return form_has_min(form) || form_is_pair(form) ? offsetof(wide_block, first_min)
                                                    : offsetof(wide_block, m);
}

/* Whether the sums of both halves of a block are needed. */
TDM_INLINE int wide_has_two(int form) {
    return form_has_halves(form) || form_is_pair(form);
}

TDM_INLINE __m512i broadcast4_wide(const int8_t *q) {
    int32_t four = 0;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

/* 16-bit pairs by row to two vectors of 32 bits. */
TDM_INLINE void wide_pairs(__m256i pairs, int32_t *first, int32_t *last) {
    _mm256_store_si256((__m256i *)(void *)first,
                       _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16));
    _mm256_store_si256((__m256i *)(void *)last, _mm256_srai_epi32(pairs, 16));
}

/* A register of weights as WIDE_SIGNED wants it. Signed bytes have no zero point left, but for
 * bytes of 0 .. 255, which stay unsigned. */
TDM_INLINE __m256i wide_ints(int form, int is_signed, __m256i v) {
    const __m256i flip = _mm256_set1_epi8((char)0x80);
    if (form == FORM_A8) {
        return _mm256_xor_si256(v, flip);
    }
    if (is_signed) {
        return form_zero(form) == 0 ? v
                                    : _mm256_sub_epi8(v, _mm256_set1_epi8((char)form_zero(form)));
    }
    return form_is_signed(form, 0) ? _mm256_xor_si256(v, flip) : v;
}

/* What is subtracted from unsigned bytes. */
TDM_INLINE int wide_zero(int form) {
    return form == FORM_A8 ? 0 : form_zero(form) + (form_is_signed(form, 0) ? 128 : 0);
}

/* Scales of one half (0 or 1), four 16-bit lanes for each of rows 0 to 3 or 4 to 7. */
TDM_INLINE __m256i wide_spread(__m256i pairs, int half, int upper_rows) {
    const char i = (char)(2 * half);
    const __m128i low = _mm256_castsi256_si128(pairs);
    const __m128i four = upper_rows ? _mm256_extracti128_si256(pairs, 1) : low;
    const __m128i one = _mm_add_epi8(_mm_setr_epi8(0, 1, 0, 1, 0, 1, 0, 1, 4, 5, 4, 5, 4, 5, 4, 5),
                                     _mm_set1_epi8(i));
    return _mm256_setr_m128i(_mm_shuffle_epi8(four, one),
                             _mm_shuffle_epi8(four, _mm_add_epi8(one, _mm_set1_epi8(8))));
}

/* Weights times the scales of their half, as high (signed) and low (unsigned) bytes; what fits one
 * byte stands whole in *low. */
TDM_INLINE void wide_multiply(__m256i v, __m256i pairs, int half, __m256i *high, __m256i *low) {
    const __m256i byte = _mm256_set1_epi16(255);
    const __m256i a = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(v)),
                                         wide_spread(pairs, half, 0));
    const __m256i b = _mm256_mullo_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(v, 1)),
                                         wide_spread(pairs, half, 1));
    *high = _mm256_permute4x64_epi64(
        _mm256_packs_epi16(_mm256_srai_epi16(a, 8), _mm256_srai_epi16(b, 8)), 0xd8);
    *low = _mm256_permute4x64_epi64(
        _mm256_packus_epi16(_mm256_and_si256(a, byte), _mm256_and_si256(b, byte)), 0xd8);
}

/* Half (0 or 1) of a packed panel into that half of opened blocks. */
TDM_INLINE void wide_open(int form, int is_signed, const uint8_t *p, int64_t n_blocks,
                          int32_t period, int half, uint8_t *out) {
    __m256 head_d = _mm256_setzero_ps();
    __m256 head_m = _mm256_setzero_ps();
    int32_t head_in = 0;
    int row = half * HALF_ROWS;
    for (int64_t b = 0; b < n_blocks; ++b, out += wide_bytes(form, is_signed)) {
        wide_block *open = (wide_block *)(void *)out;
        if (form_has_head(form) && head_in-- == 0) {
            heads_load(form, period, p, half, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        block_scales s = scales_packed(form, period, p + packed_ints(form), half, head_d, head_m);
        for (int j = 0; j < 8; ++j) {
            __m256i v = wide_ints(form, is_signed, open_vector(form, p, half, j));
            if (is_signed && form_has_halves(form)) {
                __m256i high = v;
                wide_multiply(v, s.pairs, j >= 4, &high, &v);
                if (wide_has_low(form, is_signed)) {
                    _mm256_store_si256((__m256i *)(void *)(open->half.low[j] + 32 * half), v);
                    v = high;
                }
            }
            _mm256_store_si256((__m256i *)(void *)(open->w[j] + 32 * half), v);
        }
        _mm256_store_ps(open->d + row, s.d);
        if (form_has_min(form) || form_is_pair(form) || form == FORM_Q2_K) {
            _mm256_store_ps(open->m + row, s.m);
        }
        if (form_has_halves(form) && !is_signed) {
            wide_pairs(s.pairs, open->half.scale.first + row, open->half.scale.last + row);
        }
        if (form == FORM_Q2_K) {
            wide_pairs(s.mins, open->first_min + row, open->last_min + row);
        }
        p += packed_block(form, period);
    }
}

/* Two halves' sums under integer scales. */
TDM_INLINE __m512i wide_scaled(const int32_t *first_scale, const int32_t *last_scale, __m512i first,
                               __m512i last) {
    return _mm512_add_epi32(_mm512_mullo_epi32(first, _mm512_load_si512(first_scale)),
                            _mm512_mullo_epi32(last, _mm512_load_si512(last_scale)));
}

/* The f32 law of cpu_priv.h for token t of a group: sum is the block's, integer scales included;
 * of a pair its first half's, and last its last half's. */
TDM_INLINE __m512 wide_step(int form, const wide_block *w, const tdm_cpu_x8_group *g, int t,
                            __m512i sum, __m512i last, __m512 acc) {
    const __m512 d = _mm512_mul_ps(_mm512_load_ps(w->d), _mm512_set1_ps(g->d[t]));
    acc = _mm512_fmadd_ps(d, _mm512_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        acc = _mm512_fmadd_ps(_mm512_load_ps(w->m), _mm512_set1_ps(g->s[t]), acc);
    } else if (form_is_pair(form) || form == FORM_Q2_K) {
        __m512 m = _mm512_mul_ps(_mm512_load_ps(w->m), _mm512_set1_ps(g->d[t]));
        if (form == FORM_Q2_K) {
            last = wide_scaled(w->first_min, w->last_min, _mm512_set1_epi32(g->first[t]),
                               _mm512_set1_epi32(g->last[t]));
        }
        acc = _mm512_fmadd_ps(m, _mm512_cvtepi32_ps(last), acc);
    }
    return acc;
}

/* Adds bias and residual to token rows [tok0, tok0 + n) and stores the rows that exist. */
static inline void wide_store(const tdm_cpu_linear_job *job, int64_t row0, int64_t n_rows,
                              int64_t tok0, int n, const __m512 *acc) {
    const __mmask16 mask = (__mmask16)((1u << n_rows) - 1u);
    for (int t = 0; t < n; ++t) {
        float *out = job->out + (tok0 + t) * job->ld_out + row0;
        __m512 v = acc[t];
        if (job->bias != NULL) {
            v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, job->bias + row0));
        }
        if (job->is_added) {
            v = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, out), v);
        }
        _mm512_mask_storeu_ps(out, mask, v);
    }
}

#endif
