/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats at a time, as two registers of four: the same lanes, the same folds in the same
 * order and the same polynomials as the eight-lane sets of x86 have, so that a kernel written over
 * them gives those bits. Used by NEON files only; every fused multiply-add is written as one. */
#ifndef TDM_BACKEND_CPU_NEON_LANES_INL_H
#define TDM_BACKEND_CPU_NEON_LANES_INL_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define TDM_INLINE static inline __attribute__((always_inline))

typedef struct f8 {
    float32x4_t lo;
    float32x4_t hi;
} f8;

TDM_INLINE f8 f8_set(float v) {
    return (f8){vdupq_n_f32(v), vdupq_n_f32(v)};
}

TDM_INLINE f8 f8_load(const float *x) {
    return (f8){vld1q_f32(x), vld1q_f32(x + 4)};
}

TDM_INLINE void f8_store(float *out, f8 v) {
    vst1q_f32(out, v.lo);
    vst1q_f32(out + 4, v.hi);
}

/* The first n values of x, zeros behind them; n may be negative. */
TDM_INLINE f8 f8_load_some(const float *x, int64_t n) {
    if (n >= 8) {
        return f8_load(x);
    }
    float some[8] = {0.0f};
    if (n > 0) {
        memcpy(some, x, (size_t)n * sizeof *x);
    }
    return f8_load(some);
}

TDM_INLINE void f8_store_some(float *out, int64_t n, f8 v) {
    if (n >= 8) {
        f8_store(out, v);
    } else if (n > 0) {
        float some[8];
        f8_store(some, v);
        memcpy(out, some, (size_t)n * sizeof *out);
    }
}

TDM_INLINE f8 f8_add(f8 a, f8 b) {
    return (f8){vaddq_f32(a.lo, b.lo), vaddq_f32(a.hi, b.hi)};
}

TDM_INLINE f8 f8_sub(f8 a, f8 b) {
    return (f8){vsubq_f32(a.lo, b.lo), vsubq_f32(a.hi, b.hi)};
}

TDM_INLINE f8 f8_mul(f8 a, f8 b) {
    return (f8){vmulq_f32(a.lo, b.lo), vmulq_f32(a.hi, b.hi)};
}

TDM_INLINE f8 f8_div(f8 a, f8 b) {
    return (f8){vdivq_f32(a.lo, b.lo), vdivq_f32(a.hi, b.hi)};
}

/* a * b + c, one rounding. */
TDM_INLINE f8 f8_fma(f8 a, f8 b, f8 c) {
    return (f8){vfmaq_f32(c.lo, a.lo, b.lo), vfmaq_f32(c.hi, a.hi, b.hi)};
}

/* c - a * b, one rounding. */
TDM_INLINE f8 f8_fnma(f8 a, f8 b, f8 c) {
    return (f8){vfmsq_f32(c.lo, a.lo, b.lo), vfmsq_f32(c.hi, a.hi, b.hi)};
}

TDM_INLINE f8 f8_neg(f8 a) {
    return (f8){vnegq_f32(a.lo), vnegq_f32(a.hi)};
}

TDM_INLINE f8 f8_abs(f8 a) {
    return (f8){vabsq_f32(a.lo), vabsq_f32(a.hi)};
}

/* NaN when either is. */
TDM_INLINE f8 f8_min(f8 a, f8 b) {
    return (f8){vminq_f32(a.lo, b.lo), vminq_f32(a.hi, b.hi)};
}

TDM_INLINE f8 f8_max(f8 a, f8 b) {
    return (f8){vmaxq_f32(a.lo, b.lo), vmaxq_f32(a.hi, b.hi)};
}

/* The larger one, b where a is NaN. */
TDM_INLINE float32x4_t larger4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

TDM_INLINE f8 f8_larger(f8 a, f8 b) {
    return (f8){larger4(a.lo, b.lo), larger4(a.hi, b.hi)};
}

/* The magnitude of a with the sign of b. */
TDM_INLINE float32x4_t with_sign4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vdupq_n_u32(0x80000000u), b, a);
}

/* ((0+1)+(2+3)) + ((4+5)+(6+7)). */
TDM_INLINE float f8_fold(f8 v) {
    float32x4_t pairs = vpaddq_f32(v.lo, v.hi);
    pairs = vpaddq_f32(pairs, pairs);
    return vgetq_lane_f32(pairs, 0) + vgetq_lane_f32(pairs, 1);
}

/* Lane i is f8_fold(v[i]), to the bit. */
TDM_INLINE float32x4_t f8_fold4(const f8 v[4]) {
    float32x4_t lo = vpaddq_f32(vpaddq_f32(v[0].lo, v[1].lo), vpaddq_f32(v[2].lo, v[3].lo));
    float32x4_t hi = vpaddq_f32(vpaddq_f32(v[0].hi, v[1].hi), vpaddq_f32(v[2].hi, v[3].hi));
    return vaddq_f32(lo, hi);
}

/* The largest lane; no lane may be NaN. */
TDM_INLINE float f8_largest(f8 v) {
    return vmaxvq_f32(vmaxq_f32(v.lo, v.hi));
}

/* Eight BF16 values. */
TDM_INLINE f8 f8_load_bf16(const uint8_t *p) {
    uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p));
    return (f8){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(h, 16))};
}

/* Eight f16 values. */
TDM_INLINE f8 f8_load_f16(const uint8_t *p) {
    float16x8_t h = vreinterpretq_f16_u8(vld1q_u8(p));
    return (f8){vcvt_f32_f16(vget_low_f16(h)), vcvt_high_f32_f16(h)};
}

TDM_INLINE float f16_load(const uint8_t *p) {
    uint16_t bits = 0;
    memcpy(&bits, p, sizeof bits);
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
}

/* Eight signed bytes as floats. */
TDM_INLINE f8 f8_from_s8(int8x8_t v) {
    int16x8_t wide = vmovl_s8(v);
    return (f8){vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))};
}

/* x = n * ln 2 + r with |r| <= 0.347: returns exp(r) - 1 by its Taylor sum up to r^7 (the rest is
 * below 6e-9) and sets *out_power = 2^n. x must lie in [-87.4, 88.3] or be NaN. */
TDM_INLINE float32x4_t exp_parts4(float32x4_t x, float32x4_t *out_power) {
    float32x4_t n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(0x1.715476p+0f)));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e400p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
    float32x4_t p = vdupq_n_f32(1.0f / 5040.0f);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 720.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 120.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 24.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f / 6.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(r, vmulq_f32(p, r), r);
    int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    *out_power = vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
    return p;
}

/* exp within 2 ulp. Below -87.3 it is 0; above 88.3 it stays at exp(88.3); NaN stays NaN. */
TDM_INLINE float32x4_t exp4(float32x4_t x) {
    const float32x4_t lowest = vdupq_n_f32(-87.3f);
    float32x4_t y = vmaxq_f32(lowest, vminq_f32(vdupq_n_f32(88.3f), x));
    float32x4_t power;
    float32x4_t p = exp_parts4(y, &power);
    uint32x4_t result = vreinterpretq_u32_f32(vfmaq_f32(power, p, power));
    return vreinterpretq_f32_u32(vbicq_u32(result, vcltq_f32(x, lowest)));
}

/* tanh(y) = e / (e + 2) with e = exp(2|y|) - 1, which keeps its digits near zero. NaN stays NaN. */
TDM_INLINE float32x4_t tanh4(float32x4_t y) {
    float32x4_t a = vminq_f32(vdupq_n_f32(10.0f), vabsq_f32(y));
    float32x4_t power;
    float32x4_t p = exp_parts4(vaddq_f32(a, a), &power);
    float32x4_t e = vfmaq_f32(vsubq_f32(power, vdupq_n_f32(1.0f)), p, power);
    return with_sign4(vdivq_f32(e, vaddq_f32(e, vdupq_n_f32(2.0f))), y);
}

/* erfc(y) = t exp(p(t) - y^2) for y >= 0 with t = 1 / (1 + y / 2), and 2 - erfc(-y) below; p is our
 * own Chebyshev fit of log(erfc(y) / t) + y^2 over y in [0, 9.5], off by 5e-8 at most. Relative
 * error 4e-7 near zero, growing as y^2 * 2^-24 in the tail; 0 above 9.3. NaN stays NaN. */
TDM_INLINE float32x4_t erfc4(float32x4_t y) {
    static const float P[10] = {-1.26543343f,  0.998341441f,  0.389117151f,  0.022874143f,
                                0.0354678631f, -0.144173503f, -0.619523346f, 1.09943843f,
                                -0.656615853f, 0.140507132f};
    const float32x4_t one = vdupq_n_f32(1.0f);
    float32x4_t a = vminq_f32(vdupq_n_f32(10.0f), vabsq_f32(y));
    float32x4_t t = vdivq_f32(one, vfmaq_f32(one, a, vdupq_n_f32(0.5f)));
    float32x4_t p = vdupq_n_f32(P[9]);
    for (int i = 8; i >= 0; --i) {
        p = vfmaq_f32(vdupq_n_f32(P[i]), p, t);
    }
    float32x4_t e = vmulq_f32(t, exp4(vfmsq_f32(p, a, a)));
    uint32x4_t is_negative = vcltzq_s32(vreinterpretq_s32_f32(y));
    return vbslq_f32(is_negative, vsubq_f32(vdupq_n_f32(2.0f), e), e);
}

TDM_INLINE f8 f8_exp(f8 x) {
    return (f8){exp4(x.lo), exp4(x.hi)};
}

TDM_INLINE f8 f8_tanh(f8 x) {
    return (f8){tanh4(x.lo), tanh4(x.hi)};
}

TDM_INLINE f8 f8_erfc(f8 x) {
    return (f8){erfc4(x.lo), erfc4(x.hi)};
}

#endif
