/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales of one panel block, and the broadcast of four activations. */
#ifndef TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H
#define TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H

#include "backend/cpu/avx2/panel_inl.h"
#include "backend/cpu/cpu_priv.h"

typedef struct block_scales {
    __m256 d;
    __m256 m;      /* min, or the last half's scale of a pair */
    __m256i pairs; /* 16-bit scales of both halves, by row; IQ1: the scale's byte in 32 bits, of the
                      first half in IQ1_PAIR */
    __m256i
        mins; /* Q2_K: 16-bit mins of both halves, by row; IQ1_PAIR: as pairs, of the last half */
} block_scales;

TDM_INLINE __m128i load128(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

TDM_INLINE __m128i load64(const uint8_t *p) {
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

/* Numbers of half a panel (0 or 1) out of all its rows'. */
TDM_INLINE __m256 numbers_load(int32_t period, const uint8_t *p, int half) {
    const int wide = period_numbers(period) == NUMBERS_F32;
    p += HALF_ROWS * (wide ? 4 : 2) * half;
    if (wide) {
        return _mm256_loadu_ps((const float *)(const void *)p);
    }
    if (period_numbers(period) == NUMBERS_F16) {
        return _mm256_cvtph_ps(load128(p));
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(p)), 16));
}

TDM_INLINE __m256 floats_of_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load64(p)));
}

/* Nibbles of half a panel's rows, whatever above each. p is a word of them. */
TDM_INLINE __m256i nibbles_load(const uint8_t *p, int half) {
    int32_t eight = 0;
    memcpy(&eight, p + NIBBLES_BYTES / 2 * half, sizeof eight);
    return _mm256_srlv_epi32(_mm256_set1_epi32(eight),
                             _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
}

/* 2i + 1 for each row's i. */
TDM_INLINE __m256 odd_load(int form, const uint8_t *p, int half) {
    const __m256i i =
        _mm256_and_si256(nibbles_load(p, half), _mm256_set1_epi32(form_is_ternary(form) ? 7 : 15));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_add_epi32(i, i), _mm256_set1_epi32(1)));
}

/* Of half a panel; p stands behind the block's integers. head: d and min of the blocks that the block
 * belongs to. */
TDM_INLINE block_scales scales_packed(int form, int32_t period, const uint8_t *p, int half,
                                      __m256 head_d, __m256 head_m) {
    block_scales s = {head_d, head_m, _mm256_setzero_si256(), _mm256_setzero_si256()};
    const uint8_t *bytes = p + HALF_ROWS * half;
    if (form_has_odd(form)) {
        s.d = _mm256_mul_ps(head_d, odd_load(form, p, half));
        if (form_is_pair(form)) {
            s.m = _mm256_mul_ps(head_d, odd_load(form, p + NIBBLES_BYTES, half));
        }
    } else if (form_is_pair(form)) {
        s.d = numbers_load(period, p, half);
        s.m = numbers_load(period, p + numbers_bytes(period), half);
    } else if (form_has_halves(form)) {
        s.pairs =
            _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(load64(bytes), load64(bytes + PANEL_ROWS)));
        if (form == FORM_Q2_K) {
            s.mins = _mm256_cvtepi8_epi16(load128(p + 2 * PANEL_ROWS + 2 * HALF_ROWS * half));
        }
    } else if (form_is_k45(form)) {
        s.d = _mm256_mul_ps(head_d, floats_of_u8(bytes));
        s.m = _mm256_xor_ps(_mm256_mul_ps(head_m, floats_of_u8(bytes + PANEL_ROWS)),
                            _mm256_set1_ps(-0.0f));
    } else if (!form_has_period(form)) {
        s.d = _mm256_cvtph_ps(load128(p + 2 * HALF_ROWS * half));
        if (form_has_min(form)) {
            s.m = _mm256_cvtph_ps(load128(p + 2 * PANEL_ROWS + 2 * HALF_ROWS * half));
        }
    }
    return s;
}

/* What stands before a period of packed blocks, of half a panel. */
TDM_INLINE void heads_load(int form, int32_t period, const uint8_t *p, int half, __m256 *out_d,
                           __m256 *out_m) {
    if (form_has_period(form)) {
        *out_d = numbers_load(period, p, half);
        if (form_has_min(form)) {
            *out_m = numbers_load(period, p + numbers_bytes(period), half);
        }
        return;
    }
    p += 2 * HALF_ROWS * half;
    *out_d = _mm256_cvtph_ps(load128(p));
    if (packed_head(form, period) == 4 * PANEL_ROWS) {
        *out_m = _mm256_cvtph_ps(load128(p + 2 * PANEL_ROWS));
    }
    if (form_has_odd(form)) {
        *out_d = _mm256_mul_ps(*out_d, _mm256_set1_ps(1.0f / form_unit(form)));
    }
    if (form == FORM_Q2_K) { /* subtracted by its format */
        *out_m = _mm256_xor_ps(*out_m, _mm256_set1_ps(-0.0f));
    }
}

TDM_INLINE block_scales scales_open(int form, const open_block *p) {
    block_scales s = {_mm256_load_ps(p->d), _mm256_setzero_ps(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    if (form_has_halves(form)) {
        s.pairs = load256(p->u.half_scales);
        if (form == FORM_Q2_K) {
            const open_mins *mins = (const open_mins *)(const void *)(p + 1);
            s.m = _mm256_load_ps(mins->m);
            s.mins = load256(mins->half_mins);
        }
    } else if (form_has_min(form) || form_is_pair(form)) {
        s.m = _mm256_load_ps(p->u.m);
    }
    return s;
}

/* Sums of the two halves of a block's activations, for each row. */
TDM_INLINE __m256i broadcast_halves(const tdm_cpu_x8_block *xb) {
    int32_t halves = 0;
    memcpy(&halves, xb->half_sums, sizeof halves);
    return _mm256_set1_epi32(halves);
}

TDM_INLINE __m256i broadcast4(const int8_t *q) {
    int32_t four = 0;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Scales of the first or last half of columns, in both 16-bit lanes of a row. */
TDM_INLINE __m256i one_half(__m256i pairs, int is_last) {
    return !is_last ? _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(pairs, 0xa0), 0xa0)
                    : _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(pairs, 0xf5), 0xf5);
}

/* Of a packed block of IQ1: the word of its marks, and bit g of that word's nibbles. */
TDM_INLINE const uint8_t *ternary_marks(int form, const uint8_t *p) {
    return p + packed_block(form, 0) - NIBBLES_BYTES;
}

TDM_INLINE int ternary_bit(int form, int g) {
    return form_is_pair(form) ? g : 3;
}

/* All bits in the rows that are marked for the g-th eight columns; nibbles: of the marks' word. */
TDM_INLINE __m256i marked_rows(int form, __m256i nibbles, int g) {
    return _mm256_srai_epi32(_mm256_slli_epi32(nibbles, 31 - ternary_bit(form, g)), 31);
}

/* sum + *e, or sum - *e in marked rows. Numbers come from memory: from the integer registers they would
 * take longer than the whole block. */
TDM_INLINE __m256i add_marked(__m256i sum, __m256i rows, const int32_t *e) {
    __m256i v = _mm256_set1_epi32(*e);
    rows = _mm256_or_si256(rows, _mm256_set1_epi32(1));
    return _mm256_add_epi32(sum, _mm256_sign_epi32(v, rows));
}

/* Packed IQ1: sums of (code) * q become those of (8 * (code - 1) +- 1) * q. p is the block, of which
 * half (0 or 1) is meant. */
TDM_INLINE void ternary_end(int form, const uint8_t *p, int half, const tdm_cpu_x8_block *xb,
                            __m256i *sum, __m256i *last) {
    const __m256i marks = nibbles_load(ternary_marks(form, p), half);
    if (form == FORM_IQ1) {
        *sum = _mm256_slli_epi32(_mm256_sub_epi32(*sum, _mm256_set1_epi32(xb->sum)), 3);
        *sum = add_marked(*sum, marked_rows(form, marks, 0), &xb->sum);
        return;
    }
    for (int h = 0; h < 2; ++h) {
        const int32_t *e = xb->eights + 2 * h;
        __m256i v = _mm256_sub_epi32(h == 0 ? *sum : *last, _mm256_set1_epi32(e[0]));
        v = _mm256_slli_epi32(_mm256_sub_epi32(v, _mm256_set1_epi32(e[1])), 3);
        v = add_marked(v, marked_rows(form, marks, 2 * h), e);
        v = add_marked(v, marked_rows(form, marks, 2 * h + 1), e + 1);
        *(h == 0 ? sum : last) = v;
    }
}

/* Vector j of half a packed block as an open one has it. */
TDM_INLINE __m256i open_vector(int form, const uint8_t *p, int half, int j) {
    __m256i v = panel_vector(form, 1, p + 4 * HALF_ROWS * half, j);
    if (!form_is_ternary(form)) {
        return v;
    }
    const __m256i eights = _mm256_setr_epi8(-8, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -8, 0,
                                            8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    __m256i rows = marked_rows(form, nibbles_load(ternary_marks(form, p), half), j / 2);
    return _mm256_add_epi8(_mm256_shuffle_epi8(eights, v),
                           _mm256_or_si256(rows, _mm256_set1_epi8(1)));
}

#endif
