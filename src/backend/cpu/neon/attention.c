/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages with eight lanes in two registers. BF16 keys and values are widened on the way,
 * queries and weights stay f32. The arithmetic's order is attention_tmpl.h's. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"

#define LANES 8
#define TILE_QUERIES 3
#define BF16_FORM FORM_PAIRS
#define IS_ROUNDED false
#define HAS_F32 1

typedef f8 vec;

TDM_INLINE vec v_load(const float *x) {
    return f8_load(x);
}

TDM_INLINE vec v_load_some(const float *x, int64_t n) {
    return f8_load_some(x, n);
}

TDM_INLINE void v_store(float *out, vec v) {
    f8_store(out, v);
}

TDM_INLINE void v_store_some(float *out, int64_t n, vec v) {
    f8_store_some(out, n, v);
}

TDM_INLINE vec v_set1(float x) {
    return f8_set(x);
}

TDM_INLINE vec v_add(vec a, vec b) {
    return f8_add(a, b);
}

TDM_INLINE vec v_sub(vec a, vec b) {
    return f8_sub(a, b);
}

TDM_INLINE vec v_mul(vec a, vec b) {
    return f8_mul(a, b);
}

TDM_INLINE vec v_div(vec a, vec b) {
    return f8_div(a, b);
}

TDM_INLINE vec v_fma(vec a, vec b, vec c) {
    return f8_fma(a, b, c);
}

/* b where a is NaN. */
TDM_INLINE vec v_max(vec a, vec b) {
    return f8_larger(a, b);
}

TDM_INLINE float v_largest(vec v) {
    return f8_largest(v);
}

TDM_INLINE float v_sum(vec v) {
    return f8_fold(v);
}

TDM_INLINE float32x4_t between4(float32x4_t v, float32x4_t other, int64_t lo, int64_t hi) {
    static const int32_t PLACES[4] = {0, 1, 2, 3};
    int32x4_t at = vld1q_s32(PLACES);
    uint32x4_t inside =
        vandq_u32(vcgeq_s32(at, vdupq_n_s32((int32_t)lo)), vcltq_s32(at, vdupq_n_s32((int32_t)hi)));
    return vbslq_f32(inside, v, other);
}

/* Lanes [lo, hi) of v, the others of `other`. */
TDM_INLINE vec v_between(vec v, vec other, int64_t lo, int64_t hi) {
    return (vec){between4(v.lo, other.lo, lo, hi), between4(v.hi, other.hi, lo - 4, hi - 4)};
}

TDM_INLINE float32x4_t mask4(float32x4_t v, uint32_t mask) {
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(mask)));
}

/* The bf16 in the upper half of each lane, and the one in the lower. */
TDM_INLINE vec v_only_second(vec pairs) {
    return (vec){mask4(pairs.lo, 0xffff0000u), mask4(pairs.hi, 0xffff0000u)};
}

TDM_INLINE vec v_only_first(vec pairs) {
    return (vec){mask4(pairs.lo, 0xffffu), mask4(pairs.hi, 0xffffu)};
}

/* As f32. */
TDM_INLINE vec v_second(vec pairs) {
    return v_only_second(pairs);
}

TDM_INLINE vec v_first(vec pairs) {
    return (vec){vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(pairs.lo), 16)),
                 vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(pairs.hi), 16))};
}

/* As avx2/attention.c has it. */
TDM_INLINE float32x4_t exp2_4(float32x4_t x) {
    const float32x4_t lowest = vdupq_n_f32(-126.0f);
    float32x4_t n = vrndnq_f32(vmaxq_f32(lowest, x));
    float32x4_t r = vsubq_f32(x, n);
    float32x4_t p = vdupq_n_f32(0x1.41d334p-13f);
    p = vfmaq_f32(vdupq_n_f32(0x1.5f456ap-10f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.3b2dbcp-7f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.c6aed4p-5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.ebfbdap-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.62e430p-1f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    int32x4_t exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
    p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(exponent, 23)));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(p), vcltq_f32(x, lowest)));
}

TDM_INLINE vec v_exp2(vec x) {
    return (vec){exp2_4(x.lo), exp2_4(x.hi)};
}

TDM_INLINE float v_exp2_one(float x) {
    return vgetq_lane_f32(exp2_4(vdupq_n_f32(x)), 0);
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

void tdm_neon_attention(const tdm_cpu_attention_item *item, void *scratch) {
    attend_item(item, scratch);
}

void tdm_neon_attention_merge(const tdm_cpu_attention_item *item, void *scratch) {
    merge_item(item, scratch);
}
