/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products with AVX-512 VNNI, on the AVX2 set's panels: one instruction multiplies 32 pairs
 * and adds them in fours to 32 bits, so nothing has to fit 16. Vectors stay 256 bits wide (panels
 * have eight rows); the wide file of registers holds eight tokens. Zero points enter as the
 * accumulators' start: -zero * (sum of the block's activations). 8-bit weights become unsigned by
 * adding 128. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/linear_i8_inl.h"

#define TILE_MAX 8

TDM_INLINE __m256i zero_start(tdm_dtype dtype, const tdm_cpu_x8_block *xb) {
    int zero = dtype == TDM_DTYPE_Q8_0 ? 128 : block_zero(dtype);
    if (zero == 0) {
        return _mm256_setzero_si256();
    }
    return _mm256_set1_epi32(-zero * xb->sum);
}

/* The integer sums of a block: 8 rows by n tokens. q[t] points at the block's 32 activations. */
TDM_INLINE void block_sums(tdm_dtype dtype, int is_packed, int n, const uint8_t *p,
                           const block_scales *scales, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, __m256i *sums) {
    __m256i last[TILE_MAX]; /* Q6_K: the last half of the block */
    for (int t = 0; t < n; ++t) {
        if (dtype == TDM_DTYPE_Q6_K) {
            sums[t] = _mm256_set1_epi32(-32 * xb[t]->half_sums[0]);
            last[t] = _mm256_set1_epi32(-32 * xb[t]->half_sums[1]);
        } else {
            sums[t] = zero_start(dtype, xb[t]);
        }
    }
    for (int i = 0; i < 8; ++i) {
        int j = dtype == TDM_DTYPE_Q8_0 ? i : (i >> 1) + 4 * (i & 1); /* both nibbles of a load */
        __m256i w = panel_vector(dtype, is_packed, p, j);
        if (dtype == TDM_DTYPE_Q8_0) {
            w = _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
        }
        for (int t = 0; t < n; ++t) {
            __m256i x = broadcast4(q[t] + 4 * j);
            if (dtype == TDM_DTYPE_Q6_K && j >= 4) {
                last[t] = _mm256_dpbusd_epi32(last[t], w, x);
            } else {
                sums[t] = _mm256_dpbusd_epi32(sums[t], w, x);
            }
        }
    }
    if (dtype == TDM_DTYPE_Q6_K) {
        __m256i first_scale = _mm256_srai_epi32(_mm256_slli_epi32(scales->pairs, 16), 16);
        __m256i last_scale = _mm256_srai_epi32(scales->pairs, 16);
        for (int t = 0; t < n; ++t) {
            sums[t] = _mm256_add_epi32(_mm256_mullo_epi32(sums[t], first_scale),
                                       _mm256_mullo_epi32(last[t], last_scale));
        }
    }
}

#include "backend/cpu/avx2/linear_i8_tmpl.h"

void tdm_avx512_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    KERNELS[w->dtype][w->packed != NULL ? 1 : 0](job, row0, row1, tok0, tok1, scratch);
}
