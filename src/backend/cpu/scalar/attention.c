/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's scalar twin: scores in f64, keys and values read one by one, 64 entries a step. */
#include "backend/cpu/scalar/scalar_priv.h"

#include <math.h>
#include <string.h>

/* What one query sees, in the order in which it is reduced: a run of positions, or its list. */
typedef struct seen {
    const int32_t *list; /* NULL: entry i is position i */
    int64_t begin;
    int64_t end;
} seen;

static seen seen_by(const tdm_attention_span *s, int32_t tok) {
    int64_t end = s->pos0 + tok + 1;
    if (s->chosen != NULL) {
        return (seen){s->chosen + tok * s->ld_chosen, 0, s->n_chosen[tok]};
    }
    return (seen){NULL, s->window > 0 ? tdm_cpu_max(0, end - s->window) : 0, end};
}

/* One query: scores of one block of 64 entries, then the running maximum, sum and mix of values.
 * scores: [64]; mix: [value_dim]. */
static void attend(const tdm_attention_span *s, int32_t head, int32_t tok, float *scores,
                   float *mix) {
    const tdm_kv_pages *pages = s->pages;
    int32_t kv_head = head / (s->n_heads / pages->n_kv_heads);
    const float *q = s->q + (int64_t)tok * s->ld_q + (int64_t)head * pages->head_dim;
    float *out = s->out + (int64_t)tok * s->ld_out + (int64_t)head * pages->value_dim;
    const seen sees = seen_by(s, tok);
    float largest = s->sinks != NULL ? s->sinks[head] : -INFINITY;
    float total = largest == -INFINITY ? 0.0f : 1.0f; /* the sink's own weight, exp(0) */
    float *row = mix + pages->value_dim;              /* one key or value as f32 */
    memset(mix, 0, (size_t)pages->value_dim * sizeof *mix);
    for (int64_t block = sees.begin / 64; block * 64 < sees.end; ++block) {
        int64_t lo = tdm_cpu_max(sees.begin, block * 64);
        int64_t hi = tdm_cpu_min(sees.end, block * 64 + 64);
        float block_max = -INFINITY;
        for (int64_t i = lo; i < hi; ++i) {
            int64_t p = sees.list != NULL ? sees.list[i] : i;
            double sum = 0.0;
            tdm_cpu_key_read(pages, kv_head, p, row);
            for (int32_t d = 0; d < pages->head_dim; ++d) {
                sum += (double)q[d] * (double)row[d];
            }
            float score = (float)sum * s->scale;
            if (s->softcap != 0.0f) {
                score = s->softcap * tanhf(score / s->softcap);
            }
            scores[i - block * 64] = score;
            block_max = score > block_max ? score : block_max;
        }
        float new_max = block_max > largest ? block_max : largest;
        float keep = largest == -INFINITY ? 0.0f : expf(largest - new_max);
        total *= keep;
        for (int32_t d = 0; d < pages->value_dim; ++d) {
            mix[d] *= keep;
        }
        for (int64_t i = lo; i < hi; ++i) {
            int64_t p = sees.list != NULL ? sees.list[i] : i;
            float weight = expf(scores[i - block * 64] - new_max);
            total += weight;
            tdm_cpu_value_read(pages, kv_head, p, row);
            for (int32_t d = 0; d < pages->value_dim; ++d) {
                mix[d] += weight * row[d];
            }
        }
        largest = new_max;
    }
    for (int32_t d = 0; d < pages->value_dim; ++d) {
        out[d] = mix[d] / total;
    }
}

void tdm_scalar_attention(const tdm_cpu_attention_item *item, void *scratch) {
    float *scores = scratch;
    for (int32_t t = item->tok0; t < item->tok1; ++t) {
        for (int32_t h = item->head0; h < item->head1; ++h) {
            attend(item->span, h, t, scores, scores + TDM_CPU_ATTENTION_BLOCK);
        }
    }
}
