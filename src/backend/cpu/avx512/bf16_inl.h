/* SPDX-License-Identifier: Apache-2.0
 *
 * What BF16 products by vdpbf16ps share. An output has one accumulator of sixteen lanes: lane i sums
 * the pairs of columns i mod 16 in ascending order, and fold ends it; a tile's shape does not
 * enter. */
#ifndef TDM_BACKEND_CPU_AVX512_BF16_INL_H
#define TDM_BACKEND_CPU_AVX512_BF16_INL_H

#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"

#define ROWS TDM_CPU_F32_ROWS
/* How far behind the end of what it reads a lone token asks for weights. */
#define AHEAD_BYTES 4096

TDM_INLINE __m512 dot_pairs(__m512 acc, __m512i w, __m512i x) {
    return _mm512_dpbf16_ps(acc, (__m512bh)w, (__m512bh)x);
}

/* Eight sums. */
TDM_INLINE void fold16x8(const __m512 *acc, float out[8]) {
    __m256 v[8];
    for (int i = 0; i < 8; ++i) {
        v[i] = _mm256_add_ps(_mm512_castps512_ps256(acc[i]), _mm512_extractf32x8_ps(acc[i], 1));
    }
    _mm256_storeu_ps(out, fold8x8(v));
}

TDM_INLINE void bf16_store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, float product) {
    float *out = job->out + t * job->ld_out + o;
    if (job->bias != NULL) {
        product += job->bias[o];
    }
    *out = job->is_added ? *out + product : product;
}

#endif
