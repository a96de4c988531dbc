/* SPDX-License-Identifier: Apache-2.0
 *
 * Panels: eight rows of a quantized weight, interleaved so that one 32-byte vector holds four
 * neighbouring columns of each row. One broadcast of four activations then feeds eight dot products
 * and nothing is summed across lanes.
 *
 *     vector j of a block (j = 0..7), dword lane r:  columns 4j, 4j+1, 4j+2, 4j+3 of row r
 *
 * Two forms:
 *  - open (scratch, made while multiplying): integers as bytes, scales as f32;
 *  - packed (made at load, as many bytes as the file's form or hardly more): nibble byte i of
 * vector j keeps vector j's value low and vector j+4's high; then, by type, Q5_*: 32 bytes, bit j
 * of byte i = fifth bit of vector j's byte i Q6_K: 2 x 32 bytes, bits 2j..2j+1 of byte i of the
 * first (second) = upper bits of vector j (j + 4) Q8_0: 8 vectors of bytes in place of nibbles then
 * eight f16 d (and eight f16 m); K types: eight u8 scales and eight u8 mins, Q6_K: eight pairs of
 * i8 scales; the f16 d (and dmin) of a K type stand before each eight blocks. */
#ifndef TDM_BACKEND_CPU_AVX2_PANEL_INL_H
#define TDM_BACKEND_CPU_AVX2_PANEL_INL_H

#include "backend/cpu/avx2/block_inl.h"

typedef struct open_block {
    uint8_t w[8][32];
    float d[8];
    union {
        float m[8];
        int16_t half_scales[16]; /* Q6_K: first and last half of each row */
    } u;
} open_block;

TDM_INLINE int dtype_is_k(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q4_K || dtype == TDM_DTYPE_Q5_K || dtype == TDM_DTYPE_Q6_K;
}

/* Bytes of integers of one packed block. */
TDM_INLINE int packed_ints(tdm_dtype dtype) {
    switch ((int)dtype) {
    case TDM_DTYPE_Q8_0:
        return 256;
    case TDM_DTYPE_Q6_K:
        return 192;
    case TDM_DTYPE_Q5_0:
    case TDM_DTYPE_Q5_1:
    case TDM_DTYPE_Q5_K:
        return 160;
    default:
        return 128;
    }
}

/* Bytes of one packed block with its scales. */
TDM_INLINE int packed_block(tdm_dtype dtype) {
    int has_two = block_has_min(dtype) && !dtype_is_k(dtype);
    return packed_ints(dtype) + (has_two ? 32 : 16);
}

/* Bytes before each eight blocks. */
TDM_INLINE int packed_head(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q6_K ? 16 : dtype_is_k(dtype) ? 32 : 0;
}

TDM_INLINE size_t packed_panel(tdm_dtype dtype, int64_t n_in) {
    size_t n = (size_t)(n_in / 32);
    return n * (size_t)packed_block(dtype) + n / 8 * (size_t)packed_head(dtype);
}

/* Rows of dwords to columns of dwords. */
TDM_INLINE void transpose8(__m256i v[8]) {
    __m256i a[8];
    for (int i = 0; i < 4; ++i) {
        a[2 * i] = _mm256_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        a[2 * i + 1] = _mm256_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    __m256i b[8];
    for (int i = 0; i < 2; ++i) {
        b[4 * i] = _mm256_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 1] = _mm256_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
        b[4 * i + 2] = _mm256_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
        b[4 * i + 3] = _mm256_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
    }
    for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x20);
        v[i + 4] = _mm256_permute2x128_si256(b[i], b[i + 4], 0x31);
    }
}

/* Vector j of a packed block at p, or of an open one. */
TDM_INLINE __m256i panel_vector(tdm_dtype dtype, int is_packed, const uint8_t *p, int j) {
    if (!is_packed || dtype == TDM_DTYPE_Q8_0) {
        return load256(p + 32 * j);
    }
    __m256i v = load256(p + 32 * (j & 3));
    v = _mm256_and_si256(j < 4 ? v : _mm256_srli_epi16(v, 4), _mm256_set1_epi8(15));
    if (dtype == TDM_DTYPE_Q6_K) {
        __m256i h = load256(p + 128 + 32 * (j / 4));
        int up = 4 - 2 * (j & 3);
        h = up >= 0 ? _mm256_slli_epi16(h, up) : _mm256_srli_epi16(h, -up);
        return _mm256_or_si256(v, _mm256_and_si256(h, _mm256_set1_epi8(0x30)));
    }
    if (packed_ints(dtype) == 160) {
        __m256i h = load256(p + 128);
        h = j <= 4 ? _mm256_slli_epi16(h, 4 - j) : _mm256_srli_epi16(h, j - 4);
        return _mm256_or_si256(v, _mm256_and_si256(h, _mm256_set1_epi8(0x10)));
    }
    return v;
}

#endif
