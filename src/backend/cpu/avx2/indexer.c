/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of an indexer: four heads of a query against one key at a time. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/math_inl.h"

/* Dots of four queries with one key, folded; each has one accumulator. */
TDM_INLINE __m128 index_dots(const float *const *q, const float *key, int64_t dim) {
    __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    int64_t d = 0;
    for (; d + 8 <= dim; d += 8) {
        __m256 k = _mm256_loadu_ps(key + d);
        for (int i = 0; i < 4; ++i) {
            acc[i] = _mm256_fmadd_ps(_mm256_loadu_ps(q[i] + d), k, acc[i]);
        }
    }
    if (d < dim) {
        __m256i mask = lanes_below(dim - d);
        __m256 k = _mm256_maskload_ps(key + d, mask);
        for (int i = 0; i < 4; ++i) {
            acc[i] = _mm256_fmadd_ps(_mm256_maskload_ps(q[i] + d, mask), k, acc[i]);
        }
    }
    __m256 h = _mm256_hadd_ps(_mm256_hadd_ps(acc[0], acc[1]), _mm256_hadd_ps(acc[2], acc[3]));
    return _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
}

void tdm_avx2_index_scores(const tdm_index_span *s, int64_t begin, int64_t end) {
    int64_t dim = s->pages->index_dim;
    for (int64_t i = begin; i < end; ++i) {
        const float *key = tdm_cpu_index_row(s->pages, s->pos0 + i);
        float score = 0.0f;
        for (int64_t h = 0; h < s->n_heads; h += 4) {
            int64_t n = tdm_cpu_min(4, s->n_heads - h);
            const float *q[4];
            float dots[4];
            for (int64_t j = 0; j < 4; ++j) { /* past the last head: the last one again, unread */
                q[j] = s->q + tdm_cpu_min(h + j, s->n_heads - 1) * dim;
            }
            _mm_storeu_ps(dots, _mm_max_ps(index_dots(q, key, dim), _mm_setzero_ps()));
            for (int64_t j = 0; j < n; ++j) {
                score += s->weights[h + j] * dots[j];
            }
        }
        s->out[i] = score;
    }
}
