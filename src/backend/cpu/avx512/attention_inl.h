/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen lanes for attention_tmpl.h: what both of the set's files share. Over bf16 pages queries and
 * weights are rounded to bf16 as well, on every processor of the set, so that its bits are the same
 * with and without the bf16 dot: that is two fused multiply-adds, the second of a pair first (measured:
 * 2,000,000 of 2,000,000 random pairs), but for numbers below 2^-126, which it takes for zero. */
#ifndef TDM_BACKEND_CPU_AVX512_ATTENTION_INL_H
#define TDM_BACKEND_CPU_AVX512_ATTENTION_INL_H

#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/lanes_inl.h"
#include "backend/cpu/avx512/vec_inl.h"

/* Six queries by four vectors: 24 of 32 registers. */
#define TILE_QUERIES 6
#define IS_ROUNDED true

TDM_INLINE vec v_load_some(const float *x, int64_t n) {
    return _mm512_maskz_loadu_ps(mask_below(n), x);
}

TDM_INLINE void v_store_some(float *out, int64_t n, vec v) {
    _mm512_mask_storeu_ps(out, mask_below(n), v);
}

/* Lanes [lo, hi) of v, the others of `other`. */
TDM_INLINE vec v_between(vec v, vec other, int64_t lo, int64_t hi) {
    return _mm512_mask_mov_ps(other, _kandn_mask16(mask_below(lo), mask_below(hi)), v);
}

/* The bf16 in the upper half of each lane, and the one in the lower. */
TDM_INLINE vec v_only_second(vec pairs) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32((int32_t)0xffff0000u)));
}

TDM_INLINE vec v_only_first(vec pairs) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(pairs), _mm512_set1_epi32(0xffff)));
}

/* As f32. */
TDM_INLINE vec v_second(vec pairs) {
    return v_only_second(pairs);
}

TDM_INLINE vec v_first(vec pairs) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}

/* 2^x for x <= 0 within 2 ulp, by the polynomial of avx2/attention.c; 0 below -126; NaN stays NaN. */
TDM_INLINE vec v_exp2(vec x) {
    __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
    vec n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vec r = _mm512_sub_ps(x, n);
    vec p = _mm512_set1_ps(0x1.41d334p-13f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.5f456ap-10f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.3b2dbcp-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.c6aed4p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ebfbdap-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e430p-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_maskz_scalef_ps(kept, p, n);
}

TDM_INLINE float v_exp2_one(float x) {
    return _mm512_cvtss_f32(v_exp2(_mm512_set1_ps(x)));
}

/* For weights that are rounded to bf16 next: off by 2.7e-6 of the value, a seven-hundredth of that
 * rounding; 0 below -80, so that no weight is small enough for a dot to lose. */
TDM_INLINE vec v_exp2_short(vec x) {
    __mmask16 kept = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-80.0f), _CMP_NLT_UQ);
    vec n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vec r = _mm512_sub_ps(x, n);
    vec p = _mm512_set1_ps(0x1.3997d6p-7f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ca1440p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ec06dap-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62e0dcp-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.ffffe8p-1f));
    return _mm512_maskz_scalef_ps(kept, p, n);
}

/* Off by 1.2e-7 at most near zero, relative to one: a score's own rounding. */
TDM_INLINE vec v_tanh(vec x) {
    __m256 lower = f8_tanh(_mm512_castps512_ps256(x));
    return _mm512_insertf32x8(_mm512_castps256_ps512(lower), f8_tanh(_mm512_extractf32x8_ps(x, 1)),
                              1);
}

#endif
