/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight floats at a time: folds in one fixed order, exp and tanh. Used by AVX2 files only; every
 * fused multiply-add is written as one. */
#ifndef TDM_BACKEND_CPU_AVX2_MATH_INL_H
#define TDM_BACKEND_CPU_AVX2_MATH_INL_H

#include <immintrin.h>
#include <stdint.h>

#define TDM_INLINE static inline __attribute__((always_inline))

/* Lanes [0, n) all ones; none for n below 1. */
TDM_INLINE __m256i lanes_below(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int32_t)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first n values of x, zeros behind them; n may be negative. */
TDM_INLINE __m256 load_some(const float *x, int64_t n) {
    return n >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, lanes_below(n));
}

TDM_INLINE void store_some(float *out, int64_t n, __m256 v) {
    if (n >= 8) {
        _mm256_storeu_ps(out, v);
    } else {
        _mm256_maskstore_ps(out, lanes_below(n), v);
    }
}

/* ((0+1)+(2+3)) + ((4+5)+(6+7)). */
TDM_INLINE float fold8(__m256 v) {
    __m256 h = _mm256_hadd_ps(v, v);
    h = _mm256_hadd_ps(h, h);
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

/* Lane i is fold8(v[i]), to the bit. */
TDM_INLINE __m256 fold8x8(const __m256 v[8]) {
    __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
    __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(v[4], v[5]), _mm256_hadd_ps(v[6], v[7]));
    return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}

TDM_INLINE float max8(__m256 v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    m = _mm_max_ss(m, _mm_shuffle_ps(m, m, 1));
    return _mm_cvtss_f32(m);
}

/* x = n * ln 2 + r with |r| <= 0.347: returns exp(r) - 1 by its Taylor sum up to r^7 (the rest is
 * below 6e-9) and sets *out_power = 2^n. x must lie in [-87.4, 88.3]. */
TDM_INLINE __m256 exp_parts(__m256 x, __m256 *out_power) {
    const __m256 log2e = _mm256_set1_ps(0x1.715476p+0f);
    const __m256 ln2_hi = _mm256_set1_ps(0x1.62e400p-1f);
    const __m256 ln2_lo = _mm256_set1_ps(0x1.7f7d1cp-20f);
    __m256 n =
        _mm256_round_ps(_mm256_mul_ps(x, log2e), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, ln2_hi, x);
    r = _mm256_fnmadd_ps(n, ln2_lo, r);
    __m256 p = _mm256_set1_ps(1.0f / 5040.0f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 720.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 120.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 24.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f / 6.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(_mm256_mul_ps(p, r), r, r);
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    *out_power = _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
    return p;
}

/* exp within 2 ulp. Below -87.3 it is 0; above 88.3 it stays at exp(88.3); NaN stays NaN. */
TDM_INLINE __m256 exp8(__m256 x) {
    const __m256 lowest = _mm256_set1_ps(-87.3f);
    /* min and max give their second operand when one is NaN. */
    __m256 y = _mm256_max_ps(lowest, _mm256_min_ps(_mm256_set1_ps(88.3f), x));
    __m256 power;
    __m256 p = exp_parts(y, &power);
    __m256 result = _mm256_fmadd_ps(p, power, power);
    return _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), result);
}

/* tanh(y) = e / (e + 2) with e = exp(2|y|) - 1, which keeps its digits near zero. NaN stays NaN. */
TDM_INLINE __m256 tanh8(__m256 y) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 a = _mm256_min_ps(_mm256_set1_ps(10.0f), _mm256_andnot_ps(sign, y));
    __m256 power;
    __m256 p = exp_parts(_mm256_add_ps(a, a), &power);
    __m256 e = _mm256_fmadd_ps(p, power, _mm256_sub_ps(power, _mm256_set1_ps(1.0f)));
    __m256 t = _mm256_div_ps(e, _mm256_add_ps(e, _mm256_set1_ps(2.0f)));
    return _mm256_or_ps(t, _mm256_and_ps(sign, y));
}

/* erfc(y) = t exp(p(t) - y^2) for y >= 0 with t = 1 / (1 + y / 2), and 2 - erfc(-y) below; p is our
 * own Chebyshev fit of log(erfc(y) / t) + y^2 over y in [0, 9.5], off by 5e-8 at most. Relative
 * error 4e-7 near zero, growing as y^2 * 2^-24 in the tail; 0 above 9.3. NaN stays NaN. */
TDM_INLINE __m256 erfc8(__m256 y) {
    static const float P[10] = {-1.26543343f,  0.998341441f,  0.389117151f,  0.022874143f,
                                0.0354678631f, -0.144173503f, -0.619523346f, 1.09943843f,
                                -0.656615853f, 0.140507132f};
    const __m256 sign = _mm256_set1_ps(-0.0f);
    const __m256 one = _mm256_set1_ps(1.0f);
    __m256 a = _mm256_min_ps(_mm256_set1_ps(10.0f), _mm256_andnot_ps(sign, y));
    __m256 t = _mm256_div_ps(one, _mm256_fmadd_ps(a, _mm256_set1_ps(0.5f), one));
    __m256 p = _mm256_set1_ps(P[9]);
    for (int i = 8; i >= 0; --i) {
        p = _mm256_fmadd_ps(p, t, _mm256_set1_ps(P[i]));
    }
    __m256 e = _mm256_mul_ps(t, exp8(_mm256_fnmadd_ps(a, a, p)));
    return _mm256_blendv_ps(e, _mm256_sub_ps(_mm256_set1_ps(2.0f), e), y);
}

#endif
