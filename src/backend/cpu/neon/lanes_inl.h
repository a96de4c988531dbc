/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats at a time, as two registers of four: the same lanes, the same folds in the same
 * order and the same polynomials as the eight-lane sets of x86 have, so that a kernel written over
 * them gives those bits. Used by NEON files only; every fused multiply-add is written as one. */
#ifndef TDM_BACKEND_CPU_NEON_LANES_INL_H
#define TDM_BACKEND_CPU_NEON_LANES_INL_H

#include <arm_neon.h>
#include <stdbool.h>
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

/* v with zeros from lane n on. */
TDM_INLINE f8 f8_first(f8 v, int64_t n) {
    if (n >= 8) {
        return v;
    }
    float some[8] = {0.0f};
    f8_store_some(some, n, v);
    return f8_load(some);
}

/* To the nearest whole number, ties to even. */
TDM_INLINE f8 f8_round(f8 v) {
    return (f8){vrndnq_f32(v.lo), vrndnq_f32(v.hi)};
}

/* 2^n of whole numbers n in [-126, 127]. */
TDM_INLINE float32x4_t power4(float32x4_t n) {
    int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    return vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23));
}

TDM_INLINE f8 f8_power(f8 n) {
    return (f8){power4(n.lo), power4(n.hi)};
}

/* v, but 0 where x is below the bound. */
TDM_INLINE float32x4_t zero_below4(float32x4_t v, float32x4_t x, float32x4_t bound) {
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(v), vcltq_f32(x, bound)));
}

TDM_INLINE f8 f8_zero_below(f8 v, f8 x, f8 bound) {
    return (f8){zero_below4(v.lo, x.lo, bound.lo), zero_below4(v.hi, x.hi, bound.hi)};
}

/* v, which has no sign, with that of y. */
TDM_INLINE f8 f8_signed(f8 v, f8 y) {
    return (f8){with_sign4(v.lo, y.lo), with_sign4(v.hi, y.hi)};
}

/* a where y has a sign, else b. */
TDM_INLINE float32x4_t where_negative4(float32x4_t y, float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltzq_s32(vreinterpretq_s32_f32(y)), a, b);
}

TDM_INLINE f8 f8_where_negative(f8 y, f8 a, f8 b) {
    return (f8){where_negative4(y.lo, a.lo, b.lo), where_negative4(y.hi, a.hi, b.hi)};
}

/* Whether any lane equals target's. */
TDM_INLINE bool f8_has(f8 v, f8 target) {
    return vmaxvq_u32(vorrq_u32(vceqq_f32(v.lo, target.lo), vceqq_f32(v.hi, target.hi))) != 0;
}

/* (c0 s0 c1 s1 ...) in two registers to (c0 ... c7) and (s0 ... s7). */
TDM_INLINE void f8_unzip(f8 t0, f8 t1, f8 *out_c, f8 *out_s) {
    *out_c = (f8){vuzp1q_f32(t0.lo, t0.hi), vuzp1q_f32(t1.lo, t1.hi)};
    *out_s = (f8){vuzp2q_f32(t0.lo, t0.hi), vuzp2q_f32(t1.lo, t1.hi)};
}

/* Pairs (x, y) by (c, s): (x c - y s, y c + x s), products and sums rounded one by one. */
TDM_INLINE float32x4_t rotate4(float32x4_t v, float32x4_t table) {
    const uint32x4_t evens = vreinterpretq_u32_u64(vdupq_n_u64(0xffffffffu));
    float32x4_t direct = vmulq_f32(v, vtrn1q_f32(table, table));
    float32x4_t crossed = vmulq_f32(vrev64q_f32(v), vtrn2q_f32(table, table));
    return vbslq_f32(evens, vsubq_f32(direct, crossed), vaddq_f32(direct, crossed));
}

TDM_INLINE f8 f8_rotate(f8 v, f8 table) {
    return (f8){rotate4(v.lo, table.lo), rotate4(v.hi, table.hi)};
}

/* BF16: half of the last kept place added, ties to even; NaN keeps its top bits, quiet. */
TDM_INLINE uint16x4_t bf16_round4(float32x4_t v) {
    uint32x4_t bits = vreinterpretq_u32_f32(v);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
    uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(v, v), rounded, quiet), 16);
}

TDM_INLINE void f8_store_bf16(uint8_t *out, f8 v) {
    vst1q_u8(out, vreinterpretq_u8_u16(vcombine_u16(bf16_round4(v.lo), bf16_round4(v.hi))));
}

/* Eight f64. */
typedef struct d8 {
    float64x2_t v[4];
} d8;

TDM_INLINE d8 d8_widen(f8 x) {
    return (d8){{vcvt_f64_f32(vget_low_f32(x.lo)), vcvt_high_f64_f32(x.lo),
                 vcvt_f64_f32(vget_low_f32(x.hi)), vcvt_high_f64_f32(x.hi)}};
}

TDM_INLINE d8 d8_zero(void) {
    const float64x2_t zero = vdupq_n_f64(0.0);
    return (d8){{zero, zero, zero, zero}};
}

TDM_INLINE void d8_add(d8 *sum, f8 x) {
    const d8 wide = d8_widen(x);
    for (int i = 0; i < 4; ++i) {
        sum->v[i] = vaddq_f64(sum->v[i], wide.v[i]);
    }
}

TDM_INLINE void d8_add_square(d8 *sum, f8 x) {
    const d8 wide = d8_widen(x);
    for (int i = 0; i < 4; ++i) {
        sum->v[i] = vfmaq_f64(sum->v[i], wide.v[i], wide.v[i]);
    }
}

/* ((0+4)+(1+5)) + ((2+6)+(3+7)). */
TDM_INLINE double d8_fold(d8 a) {
    return vpaddd_f64(vaddq_f64(a.v[0], a.v[2])) + vpaddd_f64(vaddq_f64(a.v[1], a.v[3]));
}

#include "backend/cpu/lanes_math_tmpl.h"

#endif
