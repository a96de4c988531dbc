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
        .attention = tdm_scalar_attention,
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
