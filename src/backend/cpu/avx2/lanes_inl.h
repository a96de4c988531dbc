/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats in one register, under the names that templates over lanes use (rows_tmpl.h,
 * lanes_math_tmpl.h); neon/lanes_inl.h has the same list. Every fused multiply-add is written as one. */
#ifndef TDM_BACKEND_CPU_AVX2_LANES_INL_H
#define TDM_BACKEND_CPU_AVX2_LANES_INL_H

#include "backend/cpu/avx2/math_inl.h"

#include <stdbool.h>

typedef __m256 f8;

TDM_INLINE f8 f8_set(float v) {
    return _mm256_set1_ps(v);
}

TDM_INLINE f8 f8_load(const float *x) {
    return _mm256_loadu_ps(x);
}

/* The first n values of x, zeros behind them; n may be negative. */
TDM_INLINE f8 f8_load_some(const float *x, int64_t n) {
    return load_some(x, n);
}

TDM_INLINE void f8_store_some(float *out, int64_t n, f8 v) {
    store_some(out, n, v);
}

/* v with zeros from lane n on. */
TDM_INLINE f8 f8_first(f8 v, int64_t n) {
    return n >= 8 ? v : _mm256_and_ps(v, _mm256_castsi256_ps(lanes_below(n)));
}

TDM_INLINE f8 f8_add(f8 a, f8 b) {
    return _mm256_add_ps(a, b);
}

TDM_INLINE f8 f8_sub(f8 a, f8 b) {
    return _mm256_sub_ps(a, b);
}

TDM_INLINE f8 f8_mul(f8 a, f8 b) {
    return _mm256_mul_ps(a, b);
}

TDM_INLINE f8 f8_div(f8 a, f8 b) {
    return _mm256_div_ps(a, b);
}

/* a * b + c, one rounding. */
TDM_INLINE f8 f8_fma(f8 a, f8 b, f8 c) {
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b, one rounding. */
TDM_INLINE f8 f8_fnma(f8 a, f8 b, f8 c) {
    return _mm256_fnmadd_ps(a, b, c);
}

TDM_INLINE f8 f8_neg(f8 a) {
    return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f));
}

TDM_INLINE f8 f8_abs(f8 a) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
}

/* NaN when b is; a may not be. */
TDM_INLINE f8 f8_min(f8 a, f8 b) {
    return _mm256_min_ps(a, b);
}

TDM_INLINE f8 f8_max(f8 a, f8 b) {
    return _mm256_max_ps(a, b);
}

/* The larger one, b where a is NaN. */
TDM_INLINE f8 f8_larger(f8 a, f8 b) {
    return _mm256_max_ps(a, b);
}

/* The largest lane; no lane may be NaN. */
TDM_INLINE float f8_largest(f8 v) {
    return max8(v);
}

/* To the nearest whole number, ties to even. */
TDM_INLINE f8 f8_round(f8 v) {
    return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* 2^n of whole numbers n in [-126, 127]. */
TDM_INLINE f8 f8_power(f8 n) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

/* v, but 0 where x is below the bound. */
TDM_INLINE f8 f8_zero_below(f8 v, f8 x, f8 bound) {
    return _mm256_andnot_ps(_mm256_cmp_ps(x, bound, _CMP_LT_OQ), v);
}

/* v, which has no sign, with that of y. */
TDM_INLINE f8 f8_signed(f8 v, f8 y) {
    return _mm256_or_ps(v, _mm256_and_ps(_mm256_set1_ps(-0.0f), y));
}

/* a where y has a sign, else b. */
TDM_INLINE f8 f8_where_negative(f8 y, f8 a, f8 b) {
    return _mm256_blendv_ps(b, a, y);
}

/* Whether any lane equals target's. */
TDM_INLINE bool f8_has(f8 v, f8 target) {
    return _mm256_movemask_ps(_mm256_cmp_ps(v, target, _CMP_EQ_OQ)) != 0;
}

/* (c0 s0 c1 s1 ...) in two registers to (c0 ... c7) and (s0 ... s7). */
TDM_INLINE void f8_unzip(f8 t0, f8 t1, f8 *out_c, f8 *out_s) {
    __m256 even = _mm256_shuffle_ps(t0, t1, 0x88); /* c0 c1 c4 c5 | c2 c3 c6 c7 */
    __m256 odd = _mm256_shuffle_ps(t0, t1, 0xdd);
    *out_c = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
    *out_s = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xd8));
}

/* Pairs (x, y) by (c, s): (x c - y s, y c + x s), products and sums rounded one by one. */
TDM_INLINE f8 f8_rotate(f8 v, f8 table) {
    __m256 direct = _mm256_mul_ps(v, _mm256_moveldup_ps(table));
    __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(table));
    return _mm256_addsub_ps(direct, crossed);
}

/* Eight BF16 values: half of the last kept place added, ties to even; NaN keeps its top bits, quiet. */
TDM_INLINE void f8_store_bf16(uint8_t *out, f8 v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    _mm_storeu_si128((__m128i *)(void *)out, _mm_packus_epi32(_mm256_castsi256_si128(kept),
                                                              _mm256_extracti128_si256(kept, 1)));
}

/* Eight f64. */
typedef struct d8 {
    __m256d lo;
    __m256d hi;
} d8;

TDM_INLINE d8 d8_zero(void) {
    return (d8){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

TDM_INLINE void d8_add(d8 *sum, f8 x) {
    sum->lo = _mm256_add_pd(sum->lo, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    sum->hi = _mm256_add_pd(sum->hi, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

TDM_INLINE void d8_add_square(d8 *sum, f8 x) {
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    sum->lo = _mm256_fmadd_pd(a, a, sum->lo);
    sum->hi = _mm256_fmadd_pd(b, b, sum->hi);
}

/* ((0+4)+(1+5)) + ((2+6)+(3+7)). */
TDM_INLINE double d8_fold(d8 sum) {
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(sum.lo, sum.hi));
    return (part[0] + part[1]) + (part[2] + part[3]);
}

#include "backend/cpu/lanes_math_tmpl.h"

#endif
