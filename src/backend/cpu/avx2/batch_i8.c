/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels with several tokens: products of a block are added up in 16 bits as
 * far as they fit (madd_inl.h). Sixteen registers hold sums of sixteen rows by four tokens, which is
 * two loads of weights, four broadcasts and eight products for each four columns. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/batch_inl.h"
#include "backend/cpu/avx2/madd_inl.h"

/* A block of sixteen rows against n tokens; see batch_tmpl.h. */
TDM_INLINE void batch_sums(int form, int zero, int n, const batch_block *w,
                           const tdm_cpu_x8_eight *x8, const batch_starts *starts, int t0,
                           __m256i sums[2][4], __m256i lasts[2][4]) {
    const int depth = sum_depth(form);
    const int n_steps = 8 / depth;
    const int is_signed = form_is_signed(form, 0);
    BATCH_UNROLL for (int g = 0; g < n_steps; ++g) {
        const int is_last = g * depth >= 4;
        const int is_first = g == 0 || (form_is_pair(form) && g * depth == 4);
        __m256i part[2][4];
        BATCH_UNROLL for (int i = 0; i < depth; ++i) {
            const int j = g * depth + i;
            const __m256i v[2] = {batch_load(w->w[j]), batch_load(w->w[j] + 32)};
            const __m256i magnitude[2] = {is_signed ? _mm256_abs_epi8(v[0]) : v[0],
                                          is_signed ? _mm256_abs_epi8(v[1]) : v[1]};
            BATCH_UNROLL for (int t = 0; t < n; ++t) {
                const __m256i x = broadcast4(x8->q[j][t0 + t]);
                BATCH_UNROLL for (int h = 0; h < 2; ++h) {
                    __m256i p = products(is_signed, v[h], magnitude[h], x);
                    if (i == 0) {
                        part[h][t] = p;
                    } else {
                        part[h][t] = _mm256_add_epi16(part[h][t], p);
                        PIN(part[h][t]);
                    }
                }
            }
        }
        BATCH_UNROLL for (int t = 0; t < n; ++t) {
            BATCH_UNROLL for (int h = 0; h < 2; ++h) {
                const __m256i factor = form_has_halves(form)
                                           ? batch_load(w->halves[is_last] + PANEL_ROWS * h)
                                           : _mm256_set1_epi16(1);
                const __m256i wide = _mm256_madd_epi16(part[h][t], factor);
                __m256i *sum = form_is_pair(form) && is_last ? &lasts[h][t] : &sums[h][t];
                *sum = is_first ? wide : _mm256_add_epi32(*sum, wide);
            }
        }
    }
    if (zero == 0) {
        return;
    }
    BATCH_UNROLL for (int t = 0; t < n; ++t) {
        const __m256i start = _mm256_set1_epi32(starts->first[t0 + t]);
        const __m256i halves = batch_halves(x8, t0 + t);
        BATCH_UNROLL for (int h = 0; h < 2; ++h) {
            const __m256i zeros =
                form_has_halves(form)
                    ? _mm256_madd_epi16(batch_load(w->zeros + PANEL_ROWS * h), halves)
                    : start;
            sums[h][t] = _mm256_add_epi32(sums[h][t], zeros);
        }
    }
}

#define BATCH_FLIP(form) 0
#define BATCH_ZERO(form) form_zero(form)
#include "backend/cpu/avx2/batch_tmpl.h"

void tdm_avx2_linear_i8_batch(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t tok0, int64_t tok1, void *scratch) {
    batch_products(job, row0, row1, tok0, tok1, scratch);
}
