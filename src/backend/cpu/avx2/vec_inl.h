/* SPDX-License-Identifier: Apache-2.0
 *
 * A register of eight floats under the names that attention_tmpl.h and delta_tmpl.h use. */
#ifndef TDM_BACKEND_CPU_AVX2_VEC_INL_H
#define TDM_BACKEND_CPU_AVX2_VEC_INL_H

#include "backend/cpu/avx2/math_inl.h"

#define LANES 8

typedef __m256 vec;

TDM_INLINE vec v_load(const float *x) {
    return _mm256_loadu_ps(x);
}

TDM_INLINE vec v_load_some(const float *x, int64_t n) {
    return load_some(x, n);
}

TDM_INLINE void v_store(float *out, vec v) {
    _mm256_storeu_ps(out, v);
}

TDM_INLINE void v_store_some(float *out, int64_t n, vec v) {
    store_some(out, n, v);
}

TDM_INLINE vec v_set1(float x) {
    return _mm256_set1_ps(x);
}

TDM_INLINE vec v_add(vec a, vec b) {
    return _mm256_add_ps(a, b);
}

TDM_INLINE vec v_sub(vec a, vec b) {
    return _mm256_sub_ps(a, b);
}

TDM_INLINE vec v_mul(vec a, vec b) {
    return _mm256_mul_ps(a, b);
}

TDM_INLINE vec v_div(vec a, vec b) {
    return _mm256_div_ps(a, b);
}

TDM_INLINE vec v_fma(vec a, vec b, vec c) {
    return _mm256_fmadd_ps(a, b, c);
}

/* b where one of the two is NaN. */
TDM_INLINE vec v_max(vec a, vec b) {
    return _mm256_max_ps(a, b);
}

TDM_INLINE float v_largest(vec v) {
    return max8(v);
}

TDM_INLINE float v_sum(vec v) {
    return fold8(v);
}

#endif
