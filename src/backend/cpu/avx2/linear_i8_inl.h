/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales of one panel block, and the broadcast of four activations. */
#ifndef TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H
#define TDM_BACKEND_CPU_AVX2_LINEAR_I8_INL_H

#include "backend/cpu/avx2/panel_inl.h"
#include "backend/cpu/cpu_priv.h"

typedef struct block_scales {
    __m256 d;
    __m256 m;      /* min, or the last half's scale of a pair */
    __m256i pairs; /* 16-bit scales of both halves, by row */
    __m256i mins;  /* Q2_K: 16-bit mins of both halves, by row */
} block_scales;

TDM_INLINE __m128i load128(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* head: d and min of the blocks that a packed block belongs to. */
TDM_INLINE block_scales scales_packed(int form, const uint8_t *p, __m256 head_d, __m256 head_m) {
    block_scales s = {head_d, head_m, _mm256_setzero_si256(), _mm256_setzero_si256()};
    if (form_is_pair(form)) {
        s.d = _mm256_loadu_ps((const float *)(const void *)p);
        s.m = _mm256_loadu_ps((const float *)(const void *)(p + 32));
    } else if (form_has_halves(form)) {
        s.pairs = _mm256_cvtepi8_epi16(load128(p));
        if (form == FORM_Q2_K) {
            s.mins = _mm256_cvtepi8_epi16(load128(p + 16));
        }
    } else if (form_is_k45(form)) {
        __m128i v = load128(p);
        s.d = _mm256_mul_ps(head_d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)));
        __m256i min = _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8));
        s.m = _mm256_xor_ps(_mm256_mul_ps(head_m, _mm256_cvtepi32_ps(min)), _mm256_set1_ps(-0.0f));
    } else if (!form_has_period(form)) {
        s.d = _mm256_cvtph_ps(load128(p));
        if (form_has_min(form)) {
            s.m = _mm256_cvtph_ps(load128(p + 16));
        }
    }
    return s;
}

/* What stands before a period of packed blocks. */
TDM_INLINE void heads_load(int form, const uint8_t *p, __m256 *out_d, __m256 *out_m) {
    if (form_has_period(form)) {
        *out_d = _mm256_loadu_ps((const float *)(const void *)p);
        if (form_has_min(form)) {
            *out_m = _mm256_loadu_ps((const float *)(const void *)(p + 32));
        }
        return;
    }
    *out_d = _mm256_cvtph_ps(load128(p));
    if (packed_head(form) == 32) {
        *out_m = _mm256_cvtph_ps(load128(p + 16));
    }
    if (form == FORM_Q2_K) { /* subtracted by its format */
        *out_m = _mm256_xor_ps(*out_m, _mm256_set1_ps(-0.0f));
    }
}

TDM_INLINE block_scales scales_open(int form, const open_block *p) {
    block_scales s = {_mm256_load_ps(p->d), _mm256_setzero_ps(), _mm256_setzero_si256(),
                      _mm256_setzero_si256()};
    if (form_has_halves(form)) {
        s.pairs = load256(p->u.half_scales);
        if (form == FORM_Q2_K) {
            const open_mins *mins = (const open_mins *)(const void *)(p + 1);
            s.m = _mm256_load_ps(mins->m);
            s.mins = load256(mins->half_mins);
        }
    } else if (form_has_min(form) || form_is_pair(form)) {
        s.m = _mm256_load_ps(p->u.m);
    }
    return s;
}

/* Sums of the two halves of a block's activations, for each row. */
TDM_INLINE __m256i broadcast_halves(const tdm_cpu_x8_block *xb) {
    int32_t halves = 0;
    memcpy(&halves, xb->half_sums, sizeof halves);
    return _mm256_set1_epi32(halves);
}

TDM_INLINE __m256i broadcast4(const int8_t *q) {
    int32_t four = 0;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

#endif
