/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores of an indexer: four heads of a query against one key at a time. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"

/* Dots of four queries with one key, folded; each has one accumulator. */
TDM_INLINE float32x4_t index_dots(const float *const *q, const float *key, int64_t dim) {
    const f8 zero = f8_set(0.0f);
    f8 acc[4] = {zero, zero, zero, zero};
    for (int64_t d = 0; d < dim; d += 8) {
        f8 k = f8_load_some(key + d, dim - d);
        for (int i = 0; i < 4; ++i) {
            acc[i] = f8_fma(f8_load_some(q[i] + d, dim - d), k, acc[i]);
        }
    }
    return f8_fold4(acc);
}

void tdm_neon_index_scores(const tdm_index_span *s, int64_t begin, int64_t end) {
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
            vst1q_f32(dots, larger4(index_dots(q, key, dim), vdupq_n_f32(0.0f)));
            for (int64_t j = 0; j < n; ++j) {
                score += s->weights[h + j] * dots[j];
            }
        }
        s->out[i] = score;
    }
}
