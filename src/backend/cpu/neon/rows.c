/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels. The last few values of a row go through the same arithmetic as the others, so a
 * value's bits depend on its place in the row and on nothing else. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"
#include "tensor/half.h"

#include <math.h>

/* Eight lanes of f64. */
typedef struct d8 {
    float64x2_t v[4];
} d8;

TDM_INLINE d8 d8_widen(f8 x) {
    return (d8){{vcvt_f64_f32(vget_low_f32(x.lo)), vcvt_high_f64_f32(x.lo),
                 vcvt_f64_f32(vget_low_f32(x.hi)), vcvt_high_f64_f32(x.hi)}};
}

/* ((0+4)+(1+5)) + ((2+6)+(3+7)). */
TDM_INLINE double d8_fold(d8 a) {
    return vpaddd_f64(vaddq_f64(a.v[0], a.v[2])) + vpaddd_f64(vaddq_f64(a.v[1], a.v[3]));
}

/* sum += x * x, or += x. */
TDM_INLINE void d8_add(d8 *sum, f8 x, bool is_squared) {
    const d8 wide = d8_widen(x);
    for (int i = 0; i < 4; ++i) {
        sum->v[i] = is_squared ? vfmaq_f64(sum->v[i], wide.v[i], wide.v[i])
                               : vaddq_f64(sum->v[i], wide.v[i]);
    }
}

TDM_INLINE d8 d8_zero(void) {
    const float64x2_t zero = vdupq_n_f64(0.0);
    return (d8){{zero, zero, zero, zero}};
}

/* The sum of squares runs in eight f64 lanes, so its rounding does not show in f32. */
void tdm_neon_rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps) {
    d8 sum = d8_zero();
    for (int64_t i = 0; i < dim; i += 8) {
        d8_add(&sum, f8_load_some(x + i, dim - i), true);
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
void tdm_neon_layer_norm(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                         float eps) {
    d8 sum = d8_zero();
    d8 squares = d8_zero();
    for (int64_t i = 0; i < dim; i += 8) {
        d8_add(&sum, f8_load_some(x + i, dim - i), false);
    }
    f8 mean = f8_set((float)(d8_fold(sum) / (double)dim));
    for (int64_t i = 0; i < dim; i += 8) {
        float centred[8] = {0.0f};
        f8_store_some(centred, dim - i, f8_sub(f8_load_some(x + i, dim - i), mean));
        d8_add(&squares, f8_load(centred), true);
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
        f8 c = {vuzp1q_f32(t0.lo, t0.hi), vuzp1q_f32(t1.lo, t1.hi)};
        f8 s = {vuzp2q_f32(t0.lo, t0.hi), vuzp2q_f32(t1.lo, t1.hi)};
        f8 x = f8_load_some(a + j, n);
        f8 y = f8_load_some(b + j, n);
        f8_store_some(a + j, n, f8_sub(f8_mul(x, c), f8_mul(y, s)));
        f8_store_some(b + j, n, f8_add(f8_mul(y, c), f8_mul(x, s)));
    }
}

/* (x0 c0 - x1 s0, x1 c0 + x0 s0, ...) for two pairs. */
TDM_INLINE float32x4_t rotate4(float32x4_t x, float32x4_t table) {
    const uint32x4_t evens = vreinterpretq_u32_u64(vdupq_n_u64(0xffffffffu));
    float32x4_t direct = vmulq_f32(x, vtrn1q_f32(table, table));
    float32x4_t crossed = vmulq_f32(vrev64q_f32(x), vtrn2q_f32(table, table));
    return vbslq_f32(evens, vsubq_f32(direct, crossed), vaddq_f32(direct, crossed));
}

static void rope_neighbours(float *x, const float *table, int32_t n_freq) {
    for (int64_t i = 0; i < 2 * (int64_t)n_freq; i += 8) {
        int64_t n = 2 * (int64_t)n_freq - i;
        f8 t = f8_load_some(table + i, n);
        f8 v = f8_load_some(x + i, n);
        f8_store_some(x + i, n, (f8){rotate4(v.lo, t.lo), rotate4(v.hi, t.hi)});
    }
}

void tdm_neon_rope(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
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

/* bf16 by adding half of the last kept place, ties to even; NaN keeps its top bits, quiet. */
TDM_INLINE uint16x4_t bf16_round4(float32x4_t v) {
    uint32x4_t bits = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
}

void tdm_neon_kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype) {
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, x, (size_t)dim * sizeof *x);
        return;
    }
    int32_t i = 0;
    for (; i + 8 <= dim; i += 8) {
        f8 v = f8_load(x + i);
        uint16x8_t halves = vcombine_u16(bf16_round4(v.lo), bf16_round4(v.hi));
        vst1q_u8(out + 2 * (size_t)i, vreinterpretq_u8_u16(halves));
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

void tdm_neon_glu(const tdm_activation *act, float *out, const float *gate, const float *up,
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

void tdm_neon_softcap(float *x, float cap, int64_t dim) {
    const f8 c = f8_set(cap);
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_mul(c, f8_tanh(f8_div(f8_load_some(x + i, n), c))));
    }
}

void tdm_neon_add(float *x, const float *y, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_add(f8_load_some(x + i, n), f8_load_some(y + i, n)));
    }
}

void tdm_neon_scale(float *x, float scale, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        f8_store_some(x + i, n, f8_mul(f8_load_some(x + i, n), f8_set(scale)));
    }
}

/* First the largest value, then its first place: two sweeps, no index kept per lane. */
int32_t tdm_neon_argmax(const float *x, int64_t dim) {
    const f8 lowest = f8_set(-INFINITY);
    f8 best[2] = {lowest, lowest};
    int64_t i = 0;
    for (; i + 16 <= dim; i += 16) {
        best[0] = f8_larger(f8_load(x + i), best[0]);
        best[1] = f8_larger(f8_load(x + i + 8), best[1]);
    }
    float largest = f8_largest(f8_larger(best[0], best[1]));
    for (; i < dim; ++i) {
        largest = x[i] > largest ? x[i] : largest;
    }
    const float32x4_t target = vdupq_n_f32(largest);
    for (i = 0; i + 8 <= dim; i += 8) {
        f8 v = f8_load(x + i);
        uint32x4_t hit = vorrq_u32(vceqq_f32(v.lo, target), vceqq_f32(v.hi, target));
        if (vmaxvq_u32(hit) != 0) {
            break;
        }
    }
    for (; i < dim; ++i) {
        if (x[i] == largest) {
            return (int32_t)i;
        }
    }
    return 0; /* nothing but NaN */
}

/* As the scalar twin, to the bit. */
void tdm_neon_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
    for (int64_t b = 0; b < n / 32; ++b, x += 32, q += 32) {
        uint32x4_t bits = vdupq_n_u32(0);
        for (int i = 0; i < 8; ++i) {
            uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
            bits = vmaxq_u32(bits, vandq_u32(v, magnitude));
        }
        /* Magnitudes order as integers; an infinity or NaN is above every number. */
        uint32_t largest = vmaxvq_u32(bits);
        tdm_cpu_x8_block block = {0};
        int8x16_t packed[2] = {vdupq_n_s8(0), vdupq_n_s8(0)};
        if (largest >= 0x7f800000u) {
            block.d = tdm_f32_from_bits(0x7fc00000u);
        } else if (largest >= 0x0d800000u) {
            const float inverse = 127.0f / tdm_f32_from_bits(largest);
            block.d = tdm_f32_from_bits(largest) / 127.0f;
            for (int h = 0; h < 2; ++h) {
                int16x4_t r[4];
                for (int i = 0; i < 4; ++i) {
                    float32x4_t v = vmulq_n_f32(vld1q_f32(x + 16 * h + 4 * i), inverse);
                    r[i] = vmovn_s32(vcvtnq_s32_f32(v));
                }
                packed[h] = vcombine_s8(vmovn_s16(vcombine_s16(r[0], r[1])),
                                        vmovn_s16(vcombine_s16(r[2], r[3])));
                block.eights[2 * h] = vaddlv_s8(vget_low_s8(packed[h]));
                block.eights[2 * h + 1] = vaddlv_s8(vget_high_s8(packed[h]));
                block.half_sums[h] = vaddlvq_s8(packed[h]);
            }
        }
        vst1q_s8(q, packed[0]);
        vst1q_s8(q + 16, packed[1]);
        block.sum = (int32_t)block.half_sums[0] + (int32_t)block.half_sums[1];
        block.s = block.d * (float)block.sum;
        blocks[b] = block;
    }
}
