/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products of many tokens in 512 bits: two rows share a register, eight columns of each, so that
 * the bits are those of AVX2 (avx2/dense_tmpl.h); eight columns of a token are broadcast to both
 * halves. A lone token is bound by memory: it loads a line of each of eight rows at once, since a line
 * that is asked for in pieces by AVX2's loads is waited for by each of them (F16: 25 and 30 GB/s), and
 * pairs rows before it widens. Two and three tokens go to avx2/linear_f32.c. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/dense_inl.h"
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

/* Sixteen halves. */
TDM_INLINE __m512 widen16(tdm_dtype dtype, __m256i h) {
    if (dtype == TDM_DTYPE_F16) {
        return _mm512_cvtph_ps(h);
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}

/* A line of two rows: out[i] has eight columns of either, the i-th eight. */
TDM_INLINE void pair_lines(tdm_dtype dtype, const uint8_t *row, const uint8_t *next, __m512 *out) {
    const __m512i a = _mm512_loadu_si512(row);
    const __m512i b = _mm512_loadu_si512(next);
    if (dtype == TDM_DTYPE_F32) {
        out[0] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(a, b, 0x44));
        out[1] = _mm512_castsi512_ps(_mm512_shuffle_i64x2(a, b, 0xee));
        return;
    }
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __m512i low = _mm512_permutex2var_epi64(a, first, b);
    const __m512i high = _mm512_permutex2var_epi64(a, second, b);
    out[0] = widen16(dtype, _mm512_castsi512_si256(low));
    out[1] = widen16(dtype, _mm512_extracti64x4_epi64(low, 1));
    out[2] = widen16(dtype, _mm512_castsi512_si256(high));
    out[3] = widen16(dtype, _mm512_extracti64x4_epi64(high, 1));
}

TDM_INLINE void lone_rows(tdm_dtype dtype, const uint8_t *const *w, const float *x, int64_t n_in,
                          float *sums) {
    const int64_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    const int n_eights = dtype == TDM_DTYPE_F32 ? 2 : 4; /* of a line */
    const int64_t line = 8 * n_eights;
    const char *ahead = (const char *)w[0] + DENSE_AHEAD_BYTES + TDM_CPU_F32_ROWS * bytes * n_in;
    __m512 acc[PAIRS];
    __m256 halves[TDM_CPU_F32_ROWS];
    int64_t k = 0;
    for (int p = 0; p < PAIRS; ++p) {
        acc[p] = _mm512_setzero_ps();
    }
    for (; k + line <= n_in; k += line) {
        __m512 v[4];
        for (int i = 0; i < n_eights; ++i) {
            v[i] = _mm512_broadcast_f32x8(_mm256_loadu_ps(x + k + 8 * i));
        }
        for (int p = 0; p < PAIRS; ++p) {
            const char *next = ahead + TDM_CPU_F32_ROWS * bytes * k + 128 * p;
            __m512 weights[4];
            pair_lines(dtype, w[2 * p] + bytes * k, w[2 * p + 1] + bytes * k, weights);
            for (int i = 0; i < n_eights; ++i) {
                acc[p] = _mm512_fmadd_ps(weights[i], v[i], acc[p]);
            }
            _mm_prefetch(next, _MM_HINT_T1);
            _mm_prefetch(next + 64, _MM_HINT_T1);
        }
    }
    for (int p = 0; p < PAIRS; ++p) {
        halves[2 * p] = _mm512_castps512_ps256(acc[p]);
        halves[2 * p + 1] = _mm512_extractf32x8_ps(acc[p], 1);
    }
    lone_end(dtype, w, x, k, n_in, halves, sums);
}

static void lone_token(tdm_dtype dtype, const uint8_t *const *w, const float *x, int64_t n_in,
                       float *sums) {
    if (dtype == TDM_DTYPE_F32) {
        lone_rows(TDM_DTYPE_F32, w, x, n_in, sums);
    } else if (dtype == TDM_DTYPE_F16) {
        lone_rows(TDM_DTYPE_F16, w, x, n_in, sums);
    } else {
        lone_rows(TDM_DTYPE_BF16, w, x, n_in, sums);
    }
}

void tdm_avx512_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    static const tdm_avx2_dense BY = {dense_tokens, lone_token};
    tdm_avx2_linear_f32_by(&BY, job, row0, row1, tok0, tok1, scratch);
}
