/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar twins of everything but the products, and the table of all. Written to be read: no tiling,
 * no tricks. */
#include "backend/cpu/cpu_priv.h"

#include "backend/cpu/scalar/scalar_priv.h"
#include "tensor/dequant.h"
#include "tensor/half.h"

#include <math.h>

static void rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps) {
    double sum = 0.0;
    for (int64_t i = 0; i < dim; ++i) {
        sum += (double)x[i] * (double)x[i];
    }
    float scale = 1.0f / sqrtf((float)(sum / (double)dim) + eps);
    for (int64_t i = 0; i < dim; ++i) {
        float value = x[i] * scale;
        out[i] = w != NULL ? value * w[i] : value;
    }
}

/* Mean and variance in two sweeps, both in f64; the mean is rounded to f32 before it is taken off. */
static void layer_norm(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                       float eps) {
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < dim; ++i) {
        sum += (double)x[i];
    }
    float mean = (float)(sum / (double)dim);
    for (int64_t i = 0; i < dim; ++i) {
        double centred = (double)(x[i] - mean);
        squares += centred * centred;
    }
    float scale = 1.0f / sqrtf((float)(squares / (double)dim) + eps);
    for (int64_t i = 0; i < dim; ++i) {
        float value = (x[i] - mean) * scale;
        value = w != NULL ? value * w[i] : value;
        out[i] = bias != NULL ? value + bias[i] : value;
    }
}

static void rope(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                 tdm_rope_pairing pairing) {
    bool halves = pairing == TDM_ROPE_HALVES;
    for (int32_t h = 0; h < n_heads; ++h) {
        float *head = x + (int64_t)h * head_dim;
        for (int32_t j = 0; j < n_freq; ++j) {
            float *a = halves ? &head[j] : &head[2 * j];
            float *b = halves ? &head[j + n_freq] : &head[2 * j + 1];
            float cosine = table[2 * j];
            float sine = table[2 * j + 1];
            float a0 = *a;
            float b0 = *b;
            *a = a0 * cosine - b0 * sine;
            *b = b0 * cosine + a0 * sine;
        }
    }
}

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
            tdm_dequant_row(pages->dtype, tdm_cpu_row(pages, pages->k, kv_head, p, pages->head_dim),
                            pages->head_dim, row);
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
            tdm_dequant_row(pages->dtype,
                            tdm_cpu_row(pages, pages->v, kv_head, p, tdm_kv_value_stride(pages)),
                            pages->value_dim, row);
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

static void attention(const tdm_cpu_attention_item *item, void *scratch) {
    float *scores = scratch;
    for (int32_t t = item->tok0; t < item->tok1; ++t) {
        for (int32_t h = item->head0; h < item->head1; ++h) {
            attend(item->span, h, t, scores, scores + TDM_CPU_ATTENTION_BLOCK);
        }
    }
}

static void index_scores(const tdm_index_span *s, int64_t begin, int64_t end) {
    int32_t dim = s->pages->index_dim;
    for (int64_t i = begin; i < end; ++i) {
        const float *key = tdm_cpu_index_row(s->pages, s->pos0 + i);
        double score = 0.0;
        for (int32_t h = 0; h < s->n_heads; ++h) {
            const float *q = s->q + (int64_t)h * dim;
            double sum = 0.0;
            for (int32_t d = 0; d < dim; ++d) {
                sum += (double)q[d] * (double)key[d];
            }
            score += (double)s->weights[h] * (sum > 0.0 ? sum : 0.0);
        }
        s->out[i] = (float)score;
    }
}

static void kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype) {
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, x, (size_t)dim * sizeof *x);
        return;
    }
    for (int32_t i = 0; i < dim; ++i) {
        uint16_t value = tdm_bf16_from_f32(x[i]);
        memcpy(out + 2 * (size_t)i, &value, sizeof value);
    }
}

static float activation(const tdm_activation *act, float x) {
    switch (act->kind) {
    case TDM_GLU_GELU_TANH: {
        float inner = TDM_CPU_SQRT_2_PI * (x + TDM_CPU_GELU_CUBE * (x * x * x));
        return 0.5f * x * (1.0f + tanhf(inner));
    }
    case TDM_GLU_GELU_ERF:
        return 0.5f * x * erfcf(-x * TDM_CPU_SQRT_HALF);
    case TDM_GLU_SIGMOID:
        return 1.0f / (1.0f + expf(-x));
    case TDM_GLU_IDENTITY:
        return x;
    case TDM_GLU_CLAMPED: {
        float y = x > act->limit ? act->limit : x;
        return y / (1.0f + expf(-(act->alpha * y)));
    }
    case TDM_GLU_SILU:
    case TDM_GLU_COUNT:
    default:
        return x / (1.0f + expf(-x));
    }
}

/* What the activation multiplies. */
static float gated(const tdm_activation *act, float up) {
    if (act->kind != TDM_GLU_CLAMPED) {
        return up;
    }
    up = up > act->limit ? act->limit : up;
    up = up < -act->limit ? -act->limit : up;
    return up + 1.0f;
}

static void glu(const tdm_activation *act, float *out, const float *gate, const float *up,
                int64_t dim) {
    for (int64_t i = 0; i < dim; ++i) {
        float value = activation(act, gate[i]);
        out[i] = up != NULL ? value * gated(act, up[i]) : value;
    }
}

static void softcap(float *x, float cap, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i) {
        x[i] = cap * tanhf(x[i] / cap);
    }
}

static void add(float *x, const float *y, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i) {
        x[i] += y[i];
    }
}

static int32_t argmax(const float *x, int64_t dim) {
    int64_t best = 0;
    bool has_best = false;
    for (int64_t i = 0; i < dim; ++i) {
        if (!isnan(x[i]) && (!has_best || x[i] > x[best])) {
            best = i;
            has_best = true;
        }
    }
    return (int32_t)best;
}

static void scale_row(float *x, float scale, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i) {
        x[i] *= scale;
    }
}

void tdm_cpu_kernels_scalar(tdm_cpu_kernels *kernels) {
    *kernels = (tdm_cpu_kernels){
        .linear_f32 = tdm_scalar_linear_f32,
        .linear_i8 = tdm_scalar_linear_i8,
        .quantize = tdm_scalar_quantize,
        .rms_norm = rms_norm,
        .layer_norm = layer_norm,
        .rope = rope,
        .attention = attention,
        .index_scores = index_scores,
        .kv_store = kv_store,
        .glu = glu,
        .softcap = softcap,
        .add = add,
        .argmax = argmax,
        .scale = scale_row,
        .conv_row = tdm_scalar_conv_row,
        .delta_head = tdm_scalar_delta_head,
    };
}
