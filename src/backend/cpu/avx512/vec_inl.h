/* SPDX-License-Identifier: Apache-2.0
 *
 * A register of sixteen floats under the names that attention_tmpl.h and delta_tmpl.h use. How a row's end
 * is loaded and stored is each file's own. */
#ifndef TDM_BACKEND_CPU_AVX512_VEC_INL_H
#define TDM_BACKEND_CPU_AVX512_VEC_INL_H

#include "backend/cpu/avx2/math_inl.h"

#define LANES 16

typedef __m512 vec;

/* Lanes [0, n). */
TDM_INLINE __mmask16 mask_below(int64_t n) {
    uint32_t clamped = n >= LANES ? LANES : n <= 0 ? 0 : (uint32_t)n;
    return (__mmask16)((1u << clamped) - 1u);
}

TDM_INLINE vec v_load(const float *x) {
    return _mm512_loadu_ps(x);
}

TDM_INLINE void v_store(float *out, vec v) {
    _mm512_storeu_ps(out, v);
}

TDM_INLINE vec v_set1(float x) {
    return _mm512_set1_ps(x);
}

TDM_INLINE vec v_add(vec a, vec b) {
    return _mm512_add_ps(a, b);
}

TDM_INLINE vec v_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}

TDM_INLINE vec v_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}

TDM_INLINE vec v_div(vec a, vec b) {
    return _mm512_div_ps(a, b);
}

TDM_INLINE vec v_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}

/* b where one of the two is NaN. */
TDM_INLINE vec v_max(vec a, vec b) {
    return _mm512_max_ps(a, b);
}

TDM_INLINE float v_largest(vec v) {
    return max8(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

TDM_INLINE float v_sum(vec v) {
    return fold8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

#endif
