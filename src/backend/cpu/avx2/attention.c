/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages with eight lanes. BF16 keys and values are widened on the way, queries and
 * weights stay f32. The arithmetic's order is attention_tmpl.h's. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/lanes_inl.h"
#include "backend/cpu/avx2/vec_inl.h"

/* Three queries by four vectors, and room for a vector of lanes and the factors. */
#define TILE_QUERIES 3
#define BF16_FORM FORM_PAIRS
#define IS_ROUNDED false
#define HAS_F32 1

/* Lanes [lo, hi) of v, the others of `other`. */
TDM_INLINE vec v_between(vec v, vec other, int64_t lo, int64_t hi) {
    __m256i inside = _mm256_andnot_si256(lanes_below(lo), lanes_below(hi));
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(inside));
}

/* The bf16 in the upper half of each lane, and the one in the lower, as f32. */
TDM_INLINE vec v_only_second(vec pairs) {
    return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)0xffff0000u)));
}

TDM_INLINE vec v_only_first(vec pairs) {
    return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(0xffff)));
}

TDM_INLINE vec v_second(vec pairs) {
    return v_only_second(pairs);
}

TDM_INLINE vec v_first(vec pairs) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}

/* 2^x for x <= 0 within 2 ulp; 0 below -126; NaN stays NaN. x = n + r with |r| <= 1/2, and 2^r by a
 * polynomial of our own fit, off by 1.6e-8 of the value at most. */
TDM_INLINE vec v_exp2(vec x) {
    const __m256 lowest = _mm256_set1_ps(-126.0f);
    __m256 y = _mm256_max_ps(lowest, x);
    __m256 n = _mm256_round_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_sub_ps(x, n);
    __m256 p = _mm256_set1_ps(0x1.41d334p-13f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.5f456ap-10f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.3b2dbcp-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.c6aed4p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.ebfbdap-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.62e430p-1f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    p = _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
    return _mm256_andnot_ps(_mm256_cmp_ps(x, lowest, _CMP_LT_OQ), p);
}

TDM_INLINE float v_exp2_one(float x) {
    return _mm256_cvtss_f32(v_exp2(_mm256_set1_ps(x)));
}

TDM_INLINE vec v_tanh(vec x) {
    return f8_tanh(x);
}

/* Weights are never rounded here, and lanes never multiplied in pairs. */
TDM_INLINE vec v_exp2_short(vec x) {
    return v_exp2(x);
}

TDM_INLINE vec v_put_short(float *scores, int64_t j, vec a, vec b, vec total) {
    (void)scores;
    (void)j;
    (void)a;
    (void)b;
    return total;
}

TDM_INLINE vec v_dot(vec lanes, vec x, vec acc) {
    (void)lanes;
    (void)x;
    return acc;
}

#include "backend/cpu/attention_tmpl.h"

void tdm_avx2_attention(const tdm_cpu_attention_item *item, void *scratch) {
    attend_item(item, scratch);
}

void tdm_avx2_attention_merge(const tdm_cpu_attention_item *item, void *scratch) {
    merge_item(item, scratch);
}
