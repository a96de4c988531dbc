/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats at a time: loads of a row's end, folds in one fixed order. exp and tanh are in
 * lanes_inl.h. */
#ifndef TDM_BACKEND_CPU_AVX2_MATH_INL_H
#define TDM_BACKEND_CPU_AVX2_MATH_INL_H

#include <immintrin.h>
#include <stdint.h>

#define TDM_INLINE static inline __attribute__((always_inline))

/* Lanes [0, n) all ones; none for n below 1. */
TDM_INLINE __m256i lanes_below(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n values of x, zeros behind them; n may be negative. */
TDM_INLINE __m256 load_some(const float *x, int64_t n) {
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, lanes_below(n));
}

TDM_INLINE void store_some(float *out, int64_t n, __m256 v) {
    if (n >= 8) {
        _mm256_storeu_ps(out, v);
    } else {
        _mm256_maskstore_ps(out, lanes_below(n), v);
    }
}

/* ((0+1)+(2+3)) + ((4+5)+(6+7)). */
TDM_INLINE float fold8(__m256 v) {
    __m256 h = _mm256_hadd_ps(v, v);
    h = _mm256_hadd_ps(h, h);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

/* Lane i is fold8(v[i]), to the bit. */
TDM_INLINE __m256 fold8x8(const __m256 v[8]) {
    __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

TDM_INLINE float max8(__m256 v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    return _mm_cvtss_f32(m);
}

#endif
