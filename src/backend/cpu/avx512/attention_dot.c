/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over BF16 pages with AVX512-BF16's dot: twice the products of fused multiply-adds where it runs
 * as often as they do. Measured on an EPYC of family 25, model 17: 3.67 G dots a second of 32
 * products each, and 3.67 G multiply-adds of 16; on Sapphire Rapids a quarter of that, so that its
 * processors keep attention.c (kernels.c chooses). */
#include "backend/cpu/avx512/attention_inl.h"

#define BF16_FORM FORM_DOT
#define HAS_F32 0

TDM_INLINE vec v_dot(vec lanes, vec x, vec acc) {
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_castps_si512(lanes),
                            (__m512bh)_mm512_castps_si512(x));
}

/* Stores 32 weights as 16 pairs and adds them to total. */
TDM_INLINE vec v_put_short(float *scores, int64_t j, vec a, vec b, vec total) {
    const vec ones = _mm512_castsi512_ps(_mm512_set1_epi32(0x3f803f80));
    vec pairs = _mm512_castsi512_ps((__m512i)_mm512_cvtne2ps_pbh(b, a));
    v_store(scores + j / 2, pairs);
    return v_dot(pairs, ones, total);
}

#include "backend/cpu/attention_tmpl.h"

void tdm_avx512_attention_dot(const tdm_cpu_attention_item *item, void *scratch) {
    if (item->span->pages->dtype == TDM_DTYPE_F32) {
        tdm_avx512_attention(item, scratch);
    } else {
        attend_bf16(item, scratch);
    }
}
