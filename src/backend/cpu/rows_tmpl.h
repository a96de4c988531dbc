/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels, written once over eight lanes. A set's file includes its lanes_inl.h, defines
 *     ROWS(name)     the set's name of a kernel, tdm_avx2_##name for one
 * and includes this file. The last few values of a row go through the same arithmetic as the others, so
 * a value's bits depend on its place in the row and on nothing else. */
#ifndef ROWS
#error "define ROWS(name) first"
#endif

#include "tensor/half.h"

#include <math.h>
#include <string.h>

/* The sum of squares runs in eight f64 lanes, so its rounding does not show in f32. */
void ROWS(rms_norm)(float *out, const float *x, const float *w, int64_t dim, float eps) {
    d8 sum = d8_zero();
    for (int64_t i = 0; i < dim; i += 8) {
        d8_add_square(&sum, f8_load_some(x + i, dim - i));
    }
    f8 scale = f8_set(1.0f / sqrtf((float)(d8_fold(sum) / (double)dim) + eps));
    for (int64_t i = 0; i < dim; i += 8) {
        f8 v = f8_mul(f8_load_some(x + i, dim - i), scale);
        if (w != NULL) {
            v = f8_mul(v, f8_load_some(w + i, dim - i));
        }
        f8_store_some(out + i, dim - i, v);
    }
}

/* Sums in eight f64 lanes; lanes past the row's end are cleared, so they add nothing. */
void ROWS(layer_norm)(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                      float eps) {
    d8 sum = d8_zero();
    d8 squares = d8_zero();
    for (int64_t i = 0; i < dim; i += 8) {
        d8_add(&sum, f8_load_some(x + i, dim - i));
    }
    f8 mean = f8_set((float)(d8_fold(sum) / (double)dim));
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        d8_add_square(&squares, f8_first(f8_sub(f8_load_some(x + i, n), mean), n));
    }
    f8 scale = f8_set(1.0f / sqrtf((float)(d8_fold(squares) / (double)dim) + eps));
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8 v = f8_mul(f8_sub(f8_load_some(x + i, n), mean), scale);
        v = w != NULL ? f8_mul(v, f8_load_some(w + i, n)) : v;
        f8_store_some(out + i, n, bias != NULL ? f8_add(v, f8_load_some(bias + i, n)) : v);
    }
}

/* Products and sums are rounded one by one, as the reference framework and the scalar twin do. */
static void rope_halves(float *a, float *b, const float *table, int32_t n_freq) {
    for (int64_t j = 0; j < n_freq; j += 8) {
        int64_t n = n_freq - j;
        f8 t0 = f8_load_some(table + 2 * j, 2 * n);
        f8 t1 = n > 4 ? f8_load_some(table + 2 * j + 8, 2 * n - 8) : f8_set(0.0f);
        f8 c;
        f8 s;
        f8_unzip(t0, t1, &c, &s);
        f8 x = f8_load_some(a + j, n);
        f8 y = f8_load_some(b + j, n);
        f8_store_some(a + j, n, f8_sub(f8_mul(x, c), f8_mul(y, s)));
        f8_store_some(b + j, n, f8_add(f8_mul(y, c), f8_mul(x, s)));
    }
}

static void rope_neighbours(float *x, const float *table, int32_t n_freq) {
    for (int64_t i = 0; i < 2 * (int64_t)n_freq; i += 8) {
        int64_t n = 2 * (int64_t)n_freq - i;
        f8_store_some(x + i, n, f8_rotate(f8_load_some(x + i, n), f8_load_some(table + i, n)));
    }
}

void ROWS(rope)(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                tdm_rope_pairing pairing) {
    for (int32_t h = 0; h < n_heads; ++h) {
        float *head = x + (int64_t)h * head_dim;
        if (pairing == TDM_ROPE_HALVES) {
            rope_halves(head, head + n_freq, table, n_freq);
        } else {
            rope_neighbours(head, table, n_freq);
        }
    }
}

void ROWS(kv_store)(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype) {
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, x, (size_t)dim * sizeof *x);
        return;
    }
    int32_t i = 0;
    for (; i + 8 <= dim; i += 8) {
        f8_store_bf16(out + 2 * (size_t)i, f8_load(x + i));
    }
    for (; i < dim; ++i) {
        uint16_t value = tdm_bf16_from_f32(x[i]);
        memcpy(out + 2 * (size_t)i, &value, sizeof value);
    }
}

/* kind is act's, a constant where this is called. NaN stays NaN. */
TDM_INLINE f8 activation8(tdm_glu kind, const tdm_activation *act, f8 x) {
    const f8 one = f8_set(1.0f);
    const f8 half = f8_set(0.5f);
    if (kind == TDM_GLU_GELU_TANH) {
        f8 cube = f8_mul(f8_mul(x, x), x);
        f8 sum = f8_add(x, f8_mul(f8_set(TDM_CPU_GELU_CUBE), cube));
        f8 t = f8_tanh(f8_mul(f8_set(TDM_CPU_SQRT_2_PI), sum));
        return f8_mul(f8_mul(half, x), f8_add(one, t));
    }
    if (kind == TDM_GLU_GELU_ERF) {
        f8 y = f8_mul(x, f8_set(-TDM_CPU_SQRT_HALF));
        return f8_mul(f8_mul(half, x), f8_erfc(y));
    }
    if (kind == TDM_GLU_IDENTITY) {
        return x;
    }
    if (kind == TDM_GLU_CLAMPED) {
        f8 y = f8_min(f8_set(act->limit), x);
        f8 power = f8_exp(f8_neg(f8_mul(f8_set(act->alpha), y)));
        return f8_div(y, f8_add(one, power));
    }
    f8 e = f8_exp(f8_neg(x));
    return f8_div(kind == TDM_GLU_SIGMOID ? one : x, f8_add(one, e));
}

/* What the activation multiplies. */
TDM_INLINE f8 gated8(tdm_glu kind, const tdm_activation *act, f8 up) {
    if (kind != TDM_GLU_CLAMPED) {
        return up;
    }
    up = f8_min(f8_set(act->limit), up);
    up = f8_max(f8_set(-act->limit), up);
    return f8_add(up, f8_set(1.0f));
}

TDM_INLINE void glu_rows(tdm_glu kind, const tdm_activation *act, float *out, const float *gate,
                         const float *up, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8 v = activation8(kind, act, f8_load_some(gate + i, n));
        if (up != NULL) {
            v = f8_mul(v, gated8(kind, act, f8_load_some(up + i, n)));
        }
        f8_store_some(out + i, n, v);
    }
}

void ROWS(glu)(const tdm_activation *act, float *out, const float *gate, const float *up,
               int64_t dim) {
    switch (act->kind) {
    case TDM_GLU_GELU_TANH:
        glu_rows(TDM_GLU_GELU_TANH, act, out, gate, up, dim);
        break;
    case TDM_GLU_GELU_ERF:
        glu_rows(TDM_GLU_GELU_ERF, act, out, gate, up, dim);
        break;
    case TDM_GLU_SIGMOID:
        glu_rows(TDM_GLU_SIGMOID, act, out, gate, up, dim);
        break;
    case TDM_GLU_IDENTITY:
        glu_rows(TDM_GLU_IDENTITY, act, out, gate, up, dim);
        break;
    case TDM_GLU_CLAMPED:
        glu_rows(TDM_GLU_CLAMPED, act, out, gate, up, dim);
        break;
    case TDM_GLU_SILU:
    case TDM_GLU_COUNT:
    default:
        glu_rows(TDM_GLU_SILU, act, out, gate, up, dim);
        break;
    }
}

void ROWS(softcap)(float *x, float cap, int64_t dim) {
    const f8 c = f8_set(cap);
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_mul(c, f8_tanh(f8_div(f8_load_some(x + i, n), c))));
    }
}

void ROWS(add)(float *x, const float *y, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_add(f8_load_some(x + i, n), f8_load_some(y + i, n)));
    }
}

void ROWS(scale)(float *x, float scale, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_mul(f8_load_some(x + i, n), f8_set(scale)));
    }
}

/* First the largest value, then its first place: two sweeps, no index kept per lane. */
int32_t ROWS(argmax)(const float *x, int64_t dim) {
    const f8 lowest = f8_set(-INFINITY);
    f8 best[4] = {lowest, lowest, lowest, lowest};
    int64_t i = 0;
    for (; i + 32 <= dim; i += 32) {
        best[0] = f8_larger(f8_load(x + i), best[0]);
        best[1] = f8_larger(f8_load(x + i + 8), best[1]);
        best[2] = f8_larger(f8_load(x + i + 16), best[2]);
        best[3] = f8_larger(f8_load(x + i + 24), best[3]);
    }
    float largest = f8_largest(f8_larger(f8_larger(best[0], best[1]), f8_larger(best[2], best[3])));
    for (; i < dim; ++i) {
        largest = x[i] > largest ? x[i] : largest;
    }
    const f8 target = f8_set(largest);
    i = 0;
    while (i + 8 <= dim && !f8_has(f8_load(x + i), target)) {
        i += 8;
    }
    for (; i < dim; ++i) {
        if (x[i] == largest) {
            return (int32_t)i;
        }
    }
    return 0; /* nothing but NaN */
}
