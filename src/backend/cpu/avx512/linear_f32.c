/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products of many tokens in 512 bits: two rows share a register, eight columns of each, so that
 * the bits are those of AVX2 (avx2/dense_tmpl.h); eight columns of a token are broadcast to both
 * halves. Few tokens are bound by memory and go to avx2/linear_f32.c. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"

#define DENSE_TOKENS 6
#define DENSE_COLUMNS 1024 /* 512: 8 % slower */
#define PAIRS (TDM_CPU_F32_ROWS / 2)

TDM_INLINE void dense_step(int n_tokens, const float *piece, const __m512 *x, __m512 *acc) {
    for (int p = 0; p < PAIRS; ++p) {
        const __m512 w = _mm512_loadu_ps(piece + 16 * p);
        for (int t = 0; t < n_tokens; ++t) {
            acc[t * PAIRS + p] = _mm512_fmadd_ps(w, x[t], acc[t * PAIRS + p]);
        }
    }
}

TDM_INLINE void dense_tile(int n_tokens, const float *piece, const float *x, int64_t ld, int64_t n,
                           float *inout) {
    __m512 acc[PAIRS * DENSE_TOKENS];
    __m512 v[DENSE_TOKENS];
    int64_t k = 0;
    for (int i = 0; i < n_tokens * PAIRS; ++i) {
        acc[i] = _mm512_loadu_ps(inout + 16 * i);
    }
    for (; k + 8 <= n; k += 8) {
        for (int t = 0; t < n_tokens; ++t) {
            v[t] = _mm512_broadcast_f32x8(_mm256_loadu_ps(x + t * ld + k));
        }
        dense_step(n_tokens, piece + TDM_CPU_F32_ROWS * k, v, acc);
    }
    if (k < n) {
        for (int t = 0; t < n_tokens; ++t) {
            v[t] = _mm512_broadcast_f32x8(_mm256_maskload_ps(x + t * ld + k, lanes_below(n - k)));
        }
        dense_step(n_tokens, piece + TDM_CPU_F32_ROWS * k, v, acc);
    }
    for (int i = 0; i < n_tokens * PAIRS; ++i) {
        _mm512_storeu_ps(inout + 16 * i, acc[i]);
    }
}

#include "backend/cpu/avx2/dense_tmpl.h"

void tdm_avx512_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    tdm_avx2_linear_f32_by(dense_tokens, job, row0, row1, tok0, tok1, scratch);
}
