/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels with several tokens, with AVX-VNNI: weights are opened as unsigned
 * bytes, and zero points are where sums start. */
#include "backend/cpu/avxvnni/avxvnni_priv.h"

#include "backend/cpu/avx2/batch_inl.h"

/* Products of the columns [first, first + n_vectors) in fours, from start on; [half][token]. */
TDM_INLINE void batch_dots(int n, int first, int n_vectors, const batch_block *w,
                           const tdm_cpu_x8_eight *x8, int t0, __m256i parts[2][4]) {
    BATCH_UNROLL for (int i = 0; i < n_vectors; ++i) {
        const int j = first + i;
        const __m256i v[2] = {batch_load(w->w[j]), batch_load(w->w[j] + 32)};
        BATCH_UNROLL for (int t = 0; t < n; ++t) {
            const __m256i x = broadcast4(x8->q[j][t0 + t]);
            parts[0][t] = _mm256_dpbusd_avx_epi32(parts[0][t], v[0], x);
            parts[1][t] = _mm256_dpbusd_avx_epi32(parts[1][t], v[1], x);
        }
    }
}

/* Half a panel's integer scales of the first or last half of columns, in 32 bits. */
TDM_INLINE __m256i batch_scale(const batch_block *w, int half, int is_last) {
    const __m256i pairs = batch_load(w->pairs + PANEL_ROWS * half);
    return _mm256_srai_epi32(is_last ? pairs : _mm256_slli_epi32(pairs, 16), 16);
}

/* A block of sixteen rows against n tokens; see batch_tmpl.h. */
TDM_INLINE void batch_sums(int form, int zero, int n, const batch_block *w,
                           const tdm_cpu_x8_eight *x8, const batch_starts *starts, int t0,
                           __m256i sums[2][4], __m256i lasts[2][4]) {
    const int n_vectors = batch_has_two(form) ? 4 : 8;
    const int n_steps = batch_has_two(form) ? 2 : 1;
    BATCH_UNROLL for (int g = 0; g < n_steps; ++g) {
        __m256i parts[2][4];
        BATCH_UNROLL for (int t = 0; t < n; ++t) {
            const int32_t *start = g == 0 ? starts->first : starts->last;
            parts[0][t] = zero == 0 || form_has_halves(form) ? _mm256_setzero_si256()
                                                             : _mm256_set1_epi32(start[t0 + t]);
            parts[1][t] = parts[0][t];
        }
        batch_dots(n, g * n_vectors, n_vectors, w, x8, t0, parts);
        BATCH_UNROLL for (int t = 0; t < n; ++t) {
            BATCH_UNROLL for (int h = 0; h < 2; ++h) {
                if (form_has_halves(form)) {
                    const __m256i v = _mm256_mullo_epi32(parts[h][t], batch_scale(w, h, g == 1));
                    sums[h][t] = g == 0 ? v : _mm256_add_epi32(sums[h][t], v);
                } else if (g == 0) {
                    sums[h][t] = parts[h][t];
                } else {
                    lasts[h][t] = parts[h][t];
                }
            }
        }
    }
    if (zero == 0 || !form_has_halves(form)) {
        return;
    }
    BATCH_UNROLL for (int t = 0; t < n; ++t) {
        const __m256i halves = batch_halves(x8, t0 + t);
        BATCH_UNROLL for (int h = 0; h < 2; ++h) {
            const __m256i zeros = batch_load(w->zeros + PANEL_ROWS * h);
            sums[h][t] = _mm256_add_epi32(sums[h][t], _mm256_madd_epi16(zeros, halves));
        }
    }
}

#define BATCH_FLIP(form) (form_is_signed(form, 0) ? 0x80 : 0)
#define BATCH_ZERO(form) (form_zero(form) + (form_is_signed(form, 0) ? 128 : 0))
#include "backend/cpu/avx2/batch_tmpl.h"

void tdm_avxvnni_linear_i8_batch(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                 int64_t tok0, int64_t tok1, void *scratch) {
    batch_products(job, row0, row1, tok0, tok1, scratch);
}
