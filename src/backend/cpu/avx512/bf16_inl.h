/* SPDX-License-Identifier: Apache-2.0
 *
 * What BF16 products by vdpbf16ps share. An output has one accumulator of sixteen lanes: lane i sums
 * the pairs of columns i mod 16 in ascending order, and two folds end it; a tile's shape does not
 * enter. */
#ifndef TDM_BACKEND_CPU_AVX512_BF16_INL_H
#define TDM_BACKEND_CPU_AVX512_BF16_INL_H

#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"

#define ROWS TDM_CPU_F32_ROWS
/* How far behind the end of what it reads a lone token asks for weights. */
#define AHEAD_BYTES 64

TDM_INLINE __m512 dot_pairs(__m512 acc, __m512i w, __m512i x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}

/* Four accumulators, each quarter by itself: quarter q has (0 + 2) + (1 + 3) of each. */
TDM_INLINE __m512 fold_quarters(const __m512 *acc) {
    const __m512 a =
        _mm512_add_ps(_mm512_unpacklo_ps(acc[0], acc[1]), _mm512_unpackhi_ps(acc[0], acc[1]));
    const __m512 b =
        _mm512_add_ps(_mm512_unpacklo_ps(acc[2], acc[3]), _mm512_unpackhi_ps(acc[2], acc[3]));
    const __m512d first = _mm512_castps_pd(a);
    const __m512d second = _mm512_castps_pd(b);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)));
}

/* Quarters (0 + 2) + (1 + 3) of four of those: quarter i of the result is v[i]'s. */
TDM_INLINE __m512 fold_fours(__m512 v0, __m512 v1, __m512 v2, __m512 v3) {
    const __m512 a =
        _mm512_add_ps(_mm512_shuffle_f32x4(v0, v1, 0x44), _mm512_shuffle_f32x4(v0, v1, 0xee));
    const __m512 b =
        _mm512_add_ps(_mm512_shuffle_f32x4(v2, v3, 0x44), _mm512_shuffle_f32x4(v2, v3, 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* n products of token t, rows from o on; n is 8 at most. */
TDM_INLINE void bf16_store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, int64_t n,
                           __m256 product) {
    const __mmask8 mask = (__mmask8)((1u << n) - 1u);
    float *out = job->out + t * job->ld_out + o;
    if (job->bias != NULL) {
        product = _mm256_add_ps(product, _mm256_maskz_loadu_ps(mask, job->bias + o));
    }
    if (job->is_added) {
        product = _mm256_add_ps(_mm256_maskz_loadu_ps(mask, out), product);
    }
    _mm256_mask_storeu_ps(out, mask, product);
}

/* Eight rows of one token. */
TDM_INLINE void bf16_finish_rows(const tdm_cpu_linear_job *job, int64_t t, int64_t o, int64_t n,
                                 const __m512 *acc) {
    const __m512 first = fold_quarters(acc);
    const __m512 last = fold_quarters(acc + 4);
    bf16_store(job, t, o, n, _mm512_castps512_ps256(fold_fours(first, last, first, last)));
}

/* Four rows of n_tokens tokens, six at most and a constant at every call. */
TDM_INLINE void bf16_finish_tile(const tdm_cpu_linear_job *job, int64_t t, int64_t o, int64_t n,
                                 int n_tokens, const __m512 *acc) {
    for (int i = 0; i < n_tokens; i += 4) {
        __m512 v[4];
        for (int j = 0; j < 4; ++j) { /* what is missing repeats the first */
            v[j] = j > 0 && i + j >= n_tokens ? v[0] : fold_quarters(acc + 4 * (i + j));
        }
        v[0] = fold_fours(v[0], v[1], v[2], v[3]);
        bf16_store(job, t + i, o, n, _mm512_castps512_ps256(v[0]));
        if (i + 1 < n_tokens) {
            bf16_store(job, t + i + 1, o, n,
                       _mm256_castps128_ps256(_mm512_extractf32x4_ps(v[0], 1)));
        }
        if (i + 2 < n_tokens) {
            bf16_store(job, t + i + 2, o, n,
                       _mm256_castps128_ps256(_mm512_extractf32x4_ps(v[0], 2)));
        }
        if (i + 3 < n_tokens) {
            bf16_store(job, t + i + 3, o, n,
                       _mm256_castps128_ps256(_mm512_extractf32x4_ps(v[0], 3)));
        }
    }
}

#endif
