/* SPDX-License-Identifier: Apache-2.0
 *
 * E4M3 codes by VBMI: the tables that make them BF16, and the scales of a row as f32. */
#ifndef TDM_BACKEND_CPU_AVX512_E4M3_INL_H
#define TDM_BACKEND_CPU_AVX512_E4M3_INL_H

#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"
#include "tensor/half.h"
#include "tensor/weight.h"

#define SAME_8(h) h, h, h, h, h, h, h, h
#define SAME_16(h) SAME_8(h), SAME_8(h)
#define STEPS_8(h)                                                                                 \
    (h), (h) + 0x10, (h) + 0x20, (h) + 0x30, (h) + 0x40, (h) + 0x50, (h) + 0x60, (h) + 0x70
#define STEPS_16 STEPS_8(0x00), STEPS_8(0x80)

/* The upper and the lower byte of each magnitude as BF16: 0x3c00 + 16 * code, but for the subnormal
 * ones (the first eight) and NaN (the last). */
static const uint8_t UPPER[128] = {
    0x00,          0x3b,          0x3b,          0x3b,          0x3c,          0x3c,
    0x3c,          0x3c,          SAME_8(0x3c),  SAME_16(0x3d), SAME_16(0x3e), SAME_16(0x3f),
    SAME_16(0x40), SAME_16(0x41), SAME_16(0x42), SAME_8(0x43),  0x43,          0x43,
    0x43,          0x43,          0x43,          0x43,          0x43,          0x7f};
static const uint8_t LOWER[128] = {
    0x00,          0x00,     0x80,     0xc0,     0x00,     0x20,     0x40,     0x60,
    STEPS_8(0x80), STEPS_16, STEPS_16, STEPS_16, STEPS_16, STEPS_16, STEPS_16, STEPS_8(0x00),
    0x80,          0x90,     0xa0,     0xb0,     0xc0,     0xd0,     0xe0,     0xc0};

/* n powers of two by their bytes, as tdm_e8m0_to_f32. */
static void widen_scales(const uint8_t *bytes, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 mask = (__mmask16)((1u << tdm_cpu_min(16, n - i)) - 1u);
        __m512i v = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, bytes + i));
        __mmask16 is_least = _mm512_testn_epi32_mask(v, v);
        v = _mm512_mask_mov_epi32(_mm512_slli_epi32(v, 23), is_least,
                                  _mm512_set1_epi32(0x00400000));
        _mm512_mask_storeu_ps(out + i, mask, _mm512_castsi512_ps(v));
    }
}

/* A row's scales into out. */
static void load_scales(const tdm_weight *w, int64_t row, float *out) {
    if (w->mode == TDM_WEIGHT_MXFP8) {
        widen_scales(w->scales + (size_t)row * w->scales_row_bytes, w->n_in / w->group, out);
        return;
    }
    for (int64_t k = 0; k < w->n_in; k += w->group) {
        *out++ = tdm_weight_fp8_scale(w, row, k);
    }
}

#endif
