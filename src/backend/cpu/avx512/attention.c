/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages with sixteen lanes and fused multiply-adds: for processors whose bf16 dot is
 * slow or missing. The bits are attention_dot.c's. */
#include "backend/cpu/avx512/attention_inl.h"

#define BF16_FORM FORM_PAIRS
#define HAS_F32 1

/* To the nearest bf16, ties to even; NaN stays one. */
TDM_INLINE vec round_bf16(vec v) {
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    up = _mm512_mask_or_epi32(up, is_nan, bits, _mm512_set1_epi32(0x400000));
    return v_only_second(_mm512_castsi512_ps(up));
}

/* Stores 32 weights and adds them to total as the dot with ones does: of each pair in a lane the
 * second, then the first. */
TDM_INLINE vec v_put_short(float *scores, int64_t j, vec a, vec b, vec total) {
    const __m512i first =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    a = round_bf16(a);
    b = round_bf16(b);
    v_store(scores + j, a);
    v_store(scores + j + LANES, b);
    total = v_add(total, _mm512_permutex2var_ps(a, second, b));
    return v_add(total, _mm512_permutex2var_ps(a, first, b));
}

/* Never called: lanes are widened here. */
TDM_INLINE vec v_dot(vec lanes, vec x, vec acc) {
    (void)lanes;
    (void)x;
    return acc;
}

#include "backend/cpu/attention_tmpl.h"

void tdm_avx512_attention(const tdm_cpu_attention_item *item, void *scratch) {
    attend_item(item, scratch);
}

void tdm_avx512_attention_merge(const tdm_cpu_attention_item *item, void *scratch) {
    merge_item(item, scratch);
}
