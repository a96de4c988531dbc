/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales of one panel block, and the broadcast of four activations. */
#ifndef TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H
#define TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H

#include "backend/cpu/avx2/panel_inl.h"
#include "backend/cpu/cpu_priv.h"

typedef struct block_scales {
    __m256 d;
    __m256 m;
    __m256i pairs; /* Q6_K: 16-bit scales of both halves, by row */
} block_scales;

/* head: d and dmin of the eight blocks that a packed K block belongs to. */
TDM_INLINE block_scales scales_packed(tdm_dtype dtype, const uint8_t *p, __m256 head_d,
                                      __m256 head_m) {
    block_scales s = {head_d, head_m, _mm256_setzero_si256()};
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (dtype == TDM_DTYPE_Q6_K) {
        s.pairs = _mm256_cvtepi8_epi16(v);
    } else if (dtype_is_k(dtype)) {
        s.d = _mm256_mul_ps(head_d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)));
        __m256i min = _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8));
        s.m = _mm256_xor_ps(_mm256_mul_ps(head_m, _mm256_cvtepi32_ps(min)), _mm256_set1_ps(-0.0f));
    } else {
        s.d = _mm256_cvtph_ps(v);
        if (block_has_min(dtype)) {
            s.m = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)));
        }
    }
    return s;
}

/* What stands before eight packed blocks. */
TDM_INLINE void heads_load(tdm_dtype dtype, const uint8_t *p, __m256 *out_d, __m256 *out_m) {
    *out_d = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
    if (packed_head(dtype) == 32) {
        *out_m = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)));
    }
}

TDM_INLINE block_scales scales_open(tdm_dtype dtype, const open_block *p) {
    block_scales s = {_mm256_load_ps(p->d), _mm256_setzero_ps(), _mm256_setzero_si256()};
    if (dtype == TDM_DTYPE_Q6_K) {
        s.pairs = load256(p->u.half_scales);
    } else if (block_has_min(dtype)) {
        s.m = _mm256_load_ps(p->u.m);
    }
    return s;
}

TDM_INLINE __m256i broadcast4(const int8_t *q) {
    int32_t four = 0;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

#endif
