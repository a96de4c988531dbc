/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide products: packed panels of sixteen rows, opened, against groups of sixteen tokens. One
 * 64-byte vector holds four neighbouring columns of each row, which is what a tile of AMX wants of its
 * second operand.
 *
 *     vector j of a block (j = 0..7), dword lane r:  columns 4j .. 4j + 3 of row r
 *
 * Opened weights are signed bytes. A file that includes this gives
 *     wide_group(form, p, n_blocks, group, acc)     adds to acc[t] lane r: row r, token t
 * and then includes wide_tmpl.h for the loops around it. The f32 part is wide_step, the same as in
 * avx2/linear_i8_tmpl.h. */
#ifndef TDM_BACKEND_CPU_AVX512_WIDE_INL_H
#define TDM_BACKEND_CPU_AVX512_WIDE_INL_H

#include "backend/cpu/avx512/panel_inl.h"

#include <stddef.h>

#define WIDE_ROWS TDM_CPU_PANEL_ROWS

typedef struct wide_block {
    uint8_t w[8][64];
    float d[WIDE_ROWS];
    float m[WIDE_ROWS]; /* min, or the last half's scale of a pair; from here on by form */
    int32_t first_min[WIDE_ROWS];
    int32_t last_min[WIDE_ROWS];
    uint8_t low[8][64]; /* low bytes of weight times scale; w has the high ones */
} wide_block;

/* Integer scales are multiplied into signed weights: 45 at most for Q2_K, else two bytes. */
TDM_INLINE int wide_has_low(int form) {
    return form_has_halves(form) && form != FORM_Q2_K;
}

/* Bytes of an opened block of this form: what it does not use is cut off. */
TDM_INLINE size_t wide_bytes(int form) {
    if (wide_has_low(form)) {
        return sizeof(wide_block);
    }
    if (form_has_halves(form)) {
        return offsetof(wide_block, low);
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

/* IQ1's vector j as numbers: 8 * (code - 1), less 1 in marked rows, plus 1 in the others; plus 128
 * where is_signed is 0. */
TDM_INLINE __m512i wide_ternary(int form, int is_signed, const uint8_t *p, int j) {
    const int off = is_signed ? 0 : 128;
    const __m512i eights =
        _mm512_add_epi8(_mm512_set1_epi32(0x000800f8), _mm512_set1_epi8((char)off));
    const __mmask16 rows = marked_wide(form, p, j / 2);
    return _mm512_add_epi8(
        _mm512_shuffle_epi8(eights, vector_at(form, p, j)),
        _mm512_mask_blend_epi32(rows, _mm512_set1_epi8(1), _mm512_set1_epi8(-1)));
}

/* Vector j of a packed block as signed or unsigned bytes. Signed bytes have no zero point left, but for
 * bytes of 0 .. 255, which stay unsigned. */
TDM_INLINE __m512i wide_vector(int form, int is_signed, const uint8_t *p, int j) {
    if (form_is_ternary(form)) {
        return wide_ternary(form, is_signed, p, j);
    }
    if (!is_signed || form == FORM_A8) {
        return vector_at(form, p, j);
    }
    const __m512i v = vector_read(form, 1, p, j);
    return form_zero(form) == 0 ? v : _mm512_sub_epi8(v, _mm512_set1_epi8((char)form_zero(form)));
}

/* What is subtracted from unsigned bytes. */
TDM_INLINE int wide_zero(int form) {
    return form == FORM_A8 ? 0 : form_zero(form) + (form_is_signed(form, 0) ? 128 : 0);
}

/* Weights times the integer scale of their row (in 32 bits), as high (signed) and low (unsigned)
 * bytes; what fits one byte stands whole in *out_low. Even and odd bytes are multiplied apart, so that
 * none leaves its place. */
TDM_INLINE void wide_multiply(__m512i v, __m512i scales, __m512i *out_high, __m512i *out_low) {
    const __mmask64 odd_bytes = 0xaaaaaaaaaaaaaaaau;
    const __m512i pairs =
        _mm512_mask_blend_epi16(0xaaaaaaaau, scales, _mm512_slli_epi32(scales, 16));
    const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(v, 8), 8), pairs);
    const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(v, 8), pairs);
    *out_high = _mm512_mask_blend_epi8(odd_bytes, _mm512_srli_epi16(even, 8), odd);
    *out_low = _mm512_mask_blend_epi8(odd_bytes, even, _mm512_slli_epi16(odd, 8));
}

/* The integers of a packed block at p. */
TDM_INLINE void wide_open_ints(int form, const uint8_t *p, const panel_scales *s,
                               wide_block *open) {
    for (int j = 0; j < 8; ++j) {
        __m512i v = wide_vector(form, 1, p, j);
        if (form_has_halves(form)) {
            __m512i high = v;
            wide_multiply(v, j < 4 ? s->first : s->last, &high, &v);
            if (wide_has_low(form)) {
                _mm512_store_si512(open->low[j], v);
                v = high;
            }
        }
        _mm512_store_si512(open->w[j], v);
    }
}

/* A packed panel into opened blocks. */
TDM_INLINE void wide_open(int form, const uint8_t *p, int64_t n_blocks, int32_t period,
                          uint8_t *out) {
    __m512 head_d = _mm512_setzero_ps();
    __m512 head_m = _mm512_setzero_ps();
    int32_t head_in = 0;
    for (int64_t b = 0; b < n_blocks; ++b, out += wide_bytes(form)) {
        wide_block *open = (wide_block *)(void *)out;
        if (form_has_head(form) && head_in-- == 0) {
            heads_wide(form, period, p, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        const panel_scales s = scales_wide(form, period, p + packed_ints(form), head_d, head_m);
        wide_open_ints(form, p, &s, open);
        _mm512_store_ps(open->d, s.d);
        if (form_has_min(form) || form_is_pair(form) || form == FORM_Q2_K) {
            _mm512_store_ps(open->m, s.m);
        }
        if (form == FORM_Q2_K) { /* 16-bit pairs by row to two vectors of 32 bits */
            _mm512_store_si512(open->first_min,
                               _mm512_srai_epi32(_mm512_slli_epi32(s.mins, 16), 16));
            _mm512_store_si512(open->last_min, _mm512_srai_epi32(s.mins, 16));
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
