/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of dense rows on their way to f32, and the end of a lone token's sums, shared by AVX2 and
 * AVX-512. dtype is F32, F16 or BF16 and a constant at every call. */
#ifndef TDM_BACKEND_CPU_AVX2_DENSE_INL_H
#define TDM_BACKEND_CPU_AVX2_DENSE_INL_H

#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/math_inl.h"

#include <string.h>

/* How far behind the end of its own panel a lone token asks for weights. */
#define DENSE_AHEAD_BYTES 64

/* Eight weights of a row. */
TDM_INLINE __m256 weights8(tdm_dtype dtype, const uint8_t *row, int64_t k) {
    if (dtype == TDM_DTYPE_F32) {
        return _mm256_loadu_ps((const float *)(const void *)(row + 4 * k));
    }
    const __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * k));
    if (dtype == TDM_DTYPE_F16) {
        return _mm256_cvtph_ps(h);
    }
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}

/* The last n < 8 of them, zeros behind. */
TDM_INLINE __m256 weights_tail(tdm_dtype dtype, const uint8_t *row, int64_t k, int64_t n) {
    uint8_t some[32] = {0};
    int64_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    memcpy(some, row + bytes * k, (size_t)(bytes * n));
    return weights8(dtype, some, 0);
}

/* Columns from k on, less than a line of a row, and the sums of eight rows. */
TDM_INLINE void lone_end(tdm_dtype dtype, const uint8_t *const *w, const float *x, int64_t k,
                         int64_t n_in, __m256 *acc, float *sums) {
    for (; k + 8 <= n_in; k += 8) {
        const __m256 v = _mm256_loadu_ps(x + k);
        for (int r = 0; r < TDM_CPU_F32_ROWS; ++r) {
            acc[r] = _mm256_fmadd_ps(weights8(dtype, w[r], k), v, acc[r]);
        }
    }
    if (k < n_in) {
        const __m256 v = _mm256_maskload_ps(x + k, lanes_below(n_in - k));
        for (int r = 0; r < TDM_CPU_F32_ROWS; ++r) {
            acc[r] = _mm256_fmadd_ps(weights_tail(dtype, w[r], k, n_in - k), v, acc[r]);
        }
    }
    _mm256_storeu_ps(sums, fold8x8(acc));
}

#endif
