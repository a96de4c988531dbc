/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed panels in registers of 512 bits: a block's integers, one vector at a time, and its scales,
 * sixteen rows each. What multiplies panels where they lie (panel_i8.c) and what opens them first
 * (wide_inl.h) both read them here. */
#ifndef TDM_BACKEND_CPU_AVX512_PANEL_INL_H
#define TDM_BACKEND_CPU_AVX512_PANEL_INL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

TDM_INLINE __m512i load512(const uint8_t *p) {
    return _mm512_loadu_si512((const void *)p);
}

TDM_INLINE __m512i shift_right(__m512i v, int n) {
    return _mm512_srli_epi16(v, (uint8_t)n);
}

TDM_INLINE __m512i masked(__m512i v, int mask) {
    return _mm512_and_si512(v, _mm512_set1_epi8((char)mask));
}

/* (v >> up) or (v << -up), of which only the bits of mask. */
TDM_INLINE __m512i moved(__m512i v, int down, int mask) {
    v = down >= 0 ? shift_right(v, down) : _mm512_slli_epi16(v, (uint8_t)-down);
    return masked(v, mask);
}

/* A table's values, plus 128 where is_signed is 0. */
TDM_INLINE __m512i form_table_wide(int form, int is_signed) {
    const __m128i table = _mm256_castsi256_si128(form_table(form));
    return _mm512_broadcast_i32x4(is_signed ? table
                                            : _mm_xor_si128(table, _mm_set1_epi8((char)0x80)));
}

/* What is subtracted from unsigned bytes. */
TDM_INLINE int packed_zero(int form) {
    return form_zero(form) + (form_is_signed(form, 1) ? 128 : 0);
}

/* Codes of three bits of vector j; a fourth bit may be set in each byte. */
TDM_INLINE __m512i three_bits_wide(const __m512i *v, int j) {
    if (j < 6) {
        return moved(v[j / 2], j % 2 == 0 ? 0 : 3, 7);
    }
    return _mm512_or_si512(moved(v[j - 6], 6, 3), moved(v[2], j - 2, 4));
}

/* Vector j of a packed block, of which v are the 64-byte pieces. is_signed: bytes and tables as they are;
 * 0: plus 128. */
TDM_INLINE __m512i vector_of(int form, int is_signed, const __m512i *v, int j) {
    const int bits = form_bits(form);
    if (bits == 8) {
        return is_signed ? v[j] : _mm512_xor_si512(v[j], _mm512_set1_epi8((char)0x80));
    }
    if (bits == 1) {
        return form == FORM_A1 ? moved(v[0], j, 1) : moved(v[0], j - 1, 2);
    }
    if (bits == 2) {
        return moved(v[j / 4], 2 * (j & 3), 3);
    }
    if (bits == 3) {
        return _mm512_shuffle_epi8(form_table_wide(form, is_signed), three_bits_wide(v, j));
    }
    const __m512i low = moved(v[j & 3], j < 4 ? 0 : 4, 15);
    if (form_has_table(form)) {
        return _mm512_shuffle_epi8(form_table_wide(form, is_signed), low);
    }
    if (bits == 6) {
        return _mm512_or_si512(low, moved(v[4 + j / 4], 2 * (j & 3) - 4, 0x30));
    }
    return bits == 5 ? _mm512_or_si512(low, moved(v[4], j - 4, 0x10)) : low;
}

/* The same of the block at p. */
TDM_INLINE __m512i vector_read(int form, int is_signed, const uint8_t *p, int j) {
    __m512i v[8];
    for (int i = 0; i < form_bits(form); ++i) {
        v[i] = load512(p + PANEL_VECTOR * i);
    }
    return vector_of(form, is_signed, v, j);
}

/* And as unsigned bytes. */
TDM_INLINE __m512i vector_at(int form, const uint8_t *p, int j) {
    return vector_read(form, 0, p, j);
}

typedef struct panel_scales {
    __m512 d;
    __m512 m;            /* min, or the last half's scale of a pair */
    __m512i first, last; /* integer scales of the halves */
    __m512i mins;        /* Q2_K: 16-bit mins of both halves, by row */
} panel_scales;

TDM_INLINE __m512 numbers_wide(int32_t period, const uint8_t *p) {
    if (period_numbers(period) == NUMBERS_F32) {
        return _mm512_loadu_ps((const float *)(const void *)p);
    }
    if (period_numbers(period) == NUMBERS_F16) {
        return _mm512_cvtph_ps(load256(p));
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16));
}

TDM_INLINE __m512 floats_wide(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load128(p)));
}

/* Nibbles of a panel's rows, whatever above each. p is a word of them. */
TDM_INLINE __m512i nibbles_wide(const uint8_t *p) {
#ifdef __AVX512VBMI__
    const __m512i at =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60);
    int64_t all = 0;
    memcpy(&all, p, sizeof all);
    return _mm512_multishift_epi64_epi8(at, _mm512_set1_epi64(all));
#else
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    int32_t two[2];
    memcpy(two, p, sizeof two);
    return _mm512_srlv_epi32(_mm512_mask_set1_epi32(_mm512_set1_epi32(two[0]), 0xff00, two[1]), at);
#endif
}

/* 2i + 1 for each row's i. */
TDM_INLINE __m512 odd_wide(int form, const uint8_t *p) {
    const __m512 odd = _mm512_setr_ps(1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f, 17.0f,
                                      19.0f, 21.0f, 23.0f, 25.0f, 27.0f, 29.0f, 31.0f);
    const __m512 twice = _mm512_setr_ps(1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f, 1.0f,
                                        3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f);
    return _mm512_permutexvar_ps(nibbles_wide(p), form_is_ternary(form) ? twice : odd);
}

/* The rows of IQ1 that are marked for the g-th eight columns. */
TDM_INLINE __mmask16 marked_wide(int form, const uint8_t *p, int g) {
    return _mm512_test_epi32_mask(nibbles_wide(ternary_marks(form, p)),
                                  _mm512_set1_epi32(1 << ternary_bit(form, g)));
}

/* p stands behind a block's integers. head_d, head_m: of the blocks that it belongs to. */
TDM_INLINE panel_scales scales_wide(int form, int32_t period, const uint8_t *p, __m512 head_d,
                                    __m512 head_m) {
    const __m512i zero = _mm512_setzero_si512();
    panel_scales s = {head_d, head_m, zero, zero, zero};
    if (form_has_odd(form)) {
        s.d = _mm512_mul_ps(head_d, odd_wide(form, p));
        if (form_is_pair(form)) {
            s.m = _mm512_mul_ps(head_d, odd_wide(form, p + NIBBLES_BYTES));
        }
    } else if (form_is_k45(form)) {
        s.d = _mm512_mul_ps(head_d, floats_wide(p));
        s.m = _mm512_mul_ps(head_m, floats_wide(p + PANEL_ROWS));
    } else if (form_is_pair(form)) {
        s.d = numbers_wide(period, p);
        s.m = numbers_wide(period, p + numbers_bytes(period));
    } else if (form_has_halves(form)) {
        s.first = _mm512_cvtepi8_epi32(load128(p));
        s.last = _mm512_cvtepi8_epi32(load128(p + PANEL_ROWS));
        if (form == FORM_Q2_K) {
            s.mins = _mm512_cvtepi8_epi16(load256(p + 2 * PANEL_ROWS));
        }
    } else if (!form_has_period(form)) {
        s.d = _mm512_cvtph_ps(load256(p));
        s.m = form_has_min(form) ? _mm512_cvtph_ps(load256(p + 2 * PANEL_ROWS)) : s.m;
    }
    return s;
}

/* What stands before a period of blocks; mins that the format subtracts are negated here. */
TDM_INLINE void heads_wide(int form, int32_t period, const uint8_t *p, __m512 *out_d,
                           __m512 *out_m) {
    if (form_has_period(form)) {
        *out_d = numbers_wide(period, p);
        if (form_has_min(form)) {
            *out_m = numbers_wide(period, p + numbers_bytes(period));
        }
        return;
    }
    *out_d = _mm512_cvtph_ps(load256(p));
    if (form_has_odd(form)) {
        *out_d = _mm512_mul_ps(*out_d, _mm512_set1_ps(1.0f / form_unit(form)));
    }
    if (form_is_k45(form) || form == FORM_Q2_K) {
        *out_m = _mm512_cvtph_ps(load256(p + 2 * PANEL_ROWS));
        *out_m = _mm512_xor_ps(*out_m, _mm512_set1_ps(-0.0f));
    }
}

#endif
