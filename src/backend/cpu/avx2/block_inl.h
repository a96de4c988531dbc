/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of 32 quantized weights in a register: integers with the zero point still in (so that
 * they are unsigned, except for Q8_0), and the scales as plain numbers. dtype is a constant at
 * every call, so each use shrinks to one type's few instructions. */
#ifndef TDM_BACKEND_CPU_AVX2_BLOCK_INL_H
#define TDM_BACKEND_CPU_AVX2_BLOCK_INL_H

#include "backend/cpu/avx2/math_inl.h"
#include "contract/dtype.h"
#include "tensor/dequant.h"
#include "tensor/half.h"

#include <string.h>

TDM_INLINE __m256i load256(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

TDM_INLINE float f16_load(const uint8_t *p) {
    uint16_t bits = 0;
    memcpy(&bits, p, sizeof bits);
    return _cvtsh_ss(bits);
}

/* What is subtracted from the stored integers. */
TDM_INLINE int block_zero(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q4_0   ? 8
           : dtype == TDM_DTYPE_Q5_0 ? 16
           : dtype == TDM_DTYPE_Q6_K ? 32
                                     : 0;
}

TDM_INLINE int block_has_min(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q4_1 || dtype == TDM_DTYPE_Q5_1 || dtype == TDM_DTYPE_Q4_K ||
           dtype == TDM_DTYPE_Q5_K;
}

/* 16 bytes of nibbles: the low ones, then the high ones. */
TDM_INLINE __m256i nibbles32(const uint8_t *p) {
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m256i both = _mm256_set_m128i(_mm_srli_epi16(v, 4), v);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

/* Bit i of 32 bits becomes 16 in byte i. */
TDM_INLINE __m256i fifth_bits(const uint8_t *p) {
    int32_t bits = 0;
    memcpy(&bits, p, sizeof bits);
    const __m256i spread =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i pick = _mm256_set1_epi64x((int64_t)0x8040201008040201u);
    __m256i v = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread);
    v = _mm256_cmpeq_epi8(_mm256_and_si256(v, pick), pick);
    return _mm256_and_si256(v, _mm256_set1_epi8(16));
}

/* Integers of block b of a row. */
TDM_INLINE __m256i block_ints(tdm_dtype dtype, const uint8_t *row, int64_t b) {
    const __m256i low4 = _mm256_set1_epi8(15);
    const uint8_t *super = NULL;
    int j = (int)(b % 8);
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_0:
        return nibbles32(row + 18 * b + 2);
    case TDM_DTYPE_Q4_1:
        return nibbles32(row + 20 * b + 4);
    case TDM_DTYPE_Q5_0:
        return _mm256_or_si256(nibbles32(row + 22 * b + 6), fifth_bits(row + 22 * b + 2));
    case TDM_DTYPE_Q5_1:
        return _mm256_or_si256(nibbles32(row + 24 * b + 8), fifth_bits(row + 24 * b + 4));
    case TDM_DTYPE_Q8_0:
        return load256(row + 34 * b + 2);
    case TDM_DTYPE_Q4_K: {
        super = row + 144 * (b / 8);
        __m256i v = load256(super + 16 + 32 * (j / 2));
        return _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(4 * (j & 1))), low4);
    }
    case TDM_DTYPE_Q5_K: {
        super = row + 176 * (b / 8);
        __m256i v = load256(super + 48 + 32 * (j / 2));
        v = _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(4 * (j & 1))), low4);
        __m256i pick = _mm256_set1_epi8((char)(1 << j));
        __m256i high = _mm256_and_si256(load256(super + 16), pick);
        high = _mm256_and_si256(_mm256_cmpeq_epi8(high, pick), _mm256_set1_epi8(16));
        return _mm256_or_si256(v, high);
    }
    default: { /* Q6_K */
        super = row + 210 * (b / 8);
        __m256i lo = load256(super + 64 * (j / 4) + 32 * (j & 1));
        __m256i hi = load256(super + 128 + 32 * (j / 4));
        lo = _mm256_and_si256(_mm256_srl_epi16(lo, _mm_cvtsi32_si128(4 * ((j & 3) / 2))), low4);
        hi = _mm256_and_si256(_mm256_srl_epi16(hi, _mm_cvtsi32_si128(2 * (j & 3))),
                              _mm256_set1_epi8(3));
        return _mm256_or_si256(lo, _mm256_slli_epi16(hi, 4));
    }
    }
}

/* Scale of block b; for Q6_K the whole block's, without the halves' integers. */
TDM_INLINE float block_scale(tdm_dtype dtype, const uint8_t *row, int64_t b) {
    const uint8_t *super = NULL;
    uint8_t scale = 0;
    uint8_t min = 0;
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_0:
        return f16_load(row + 18 * b);
    case TDM_DTYPE_Q4_1:
        return f16_load(row + 20 * b);
    case TDM_DTYPE_Q5_0:
        return f16_load(row + 22 * b);
    case TDM_DTYPE_Q5_1:
        return f16_load(row + 24 * b);
    case TDM_DTYPE_Q8_0:
        return f16_load(row + 34 * b);
    case TDM_DTYPE_Q6_K:
        return f16_load(row + 210 * (b / 8) + 208);
    default:
        super = row + (dtype == TDM_DTYPE_Q4_K ? 144 : 176) * (b / 8);
        tdm_k4_scale_min(super + 4, (int)(b % 8), &scale, &min);
        return f16_load(super) * (float)scale;
    }
}

/* Min of block b, negated where the format subtracts it; only where block_has_min. */
TDM_INLINE float block_min(tdm_dtype dtype, const uint8_t *row, int64_t b) {
    uint8_t scale = 0;
    uint8_t min = 0;
    if (dtype == TDM_DTYPE_Q4_1) {
        return f16_load(row + 20 * b + 2);
    }
    if (dtype == TDM_DTYPE_Q5_1) {
        return f16_load(row + 24 * b + 2);
    }
    const uint8_t *super = row + (dtype == TDM_DTYPE_Q4_K ? 144 : 176) * (b / 8);
    tdm_k4_scale_min(super + 4, (int)(b % 8), &scale, &min);
    return -(f16_load(super + 2) * (float)min);
}

/* Q6_K's integer scales of the two halves. */
TDM_INLINE int block_half_scale(const uint8_t *row, int64_t b, int half) {
    return (int8_t)row[210 * (b / 8) + 192 + 2 * (b % 8) + half];
}

#endif
