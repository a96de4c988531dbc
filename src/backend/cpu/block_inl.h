/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of 32 quantized weights as integers and scales: what the int8 products multiply, one
 * plain decoder for every type. The scalar products use it as it stands; vector sets use it where
 * speed does not matter. */
#ifndef TDM_BACKEND_CPU_BLOCK_INL_H
#define TDM_BACKEND_CPU_BLOCK_INL_H

#include "contract/dtype.h"
#include "tensor/dequant.h"
#include "tensor/half.h"

typedef struct block32 {
    int8_t w[32]; /* zero point already subtracted, except for types with a min */
    float d;
    float m;          /* added once for each unit of s; 0 where has_min is false */
    int32_t scale[2]; /* of the two halves; 1 except for Q6_K */
    bool has_min;
} block32;

static inline void block32_nibbles(const uint8_t *qs, const uint8_t *high, int zero, block32 *out) {
    uint32_t bits = high != NULL ? tdm_load_u32(high) : 0u;
    for (int j = 0; j < 16; ++j) {
        int lo = (qs[j] & 15) | (int)(((bits >> j) & 1u) << 4);
        int hi = (qs[j] >> 4) | (int)(((bits >> (j + 16)) & 1u) << 4);
        out->w[j] = (int8_t)(lo - zero);
        out->w[j + 16] = (int8_t)(hi - zero);
    }
}

static inline void block32_k45(const uint8_t *p, const uint8_t *qh, const uint8_t *qs, int j,
                               block32 *out) {
    uint8_t scale = 0;
    uint8_t min = 0;
    tdm_k4_scale_min(p + 4, j, &scale, &min);
    out->d = tdm_f16_to_f32(tdm_load_u16(p)) * (float)scale;
    out->m = -(tdm_f16_to_f32(tdm_load_u16(p + 2)) * (float)min);
    out->has_min = true;
    for (int l = 0; l < 32; ++l) {
        int q = (qs[32 * (j / 2) + l] >> (4 * (j & 1))) & 15;
        if (qh != NULL) {
            q |= ((qh[l] >> j) & 1) << 4;
        }
        out->w[l] = (int8_t)q;
    }
}

static inline void block32_q6_k(const uint8_t *p, int j, block32 *out) {
    const uint8_t *ql = p + 64 * (j / 4) + 32 * (j & 1);
    const uint8_t *qh = p + 128 + 32 * (j / 4);
    int shift_lo = 4 * ((j & 3) / 2);
    int shift_hi = 2 * (j & 3);
    for (int l = 0; l < 32; ++l) {
        int q = ((ql[l] >> shift_lo) & 15) | (((qh[l] >> shift_hi) & 3) << 4);
        out->w[l] = (int8_t)(q - 32);
    }
    out->scale[0] = (int8_t)p[192 + 2 * j];
    out->scale[1] = (int8_t)p[192 + 2 * j + 1];
    out->d = tdm_f16_to_f32(tdm_load_u16(p + 208));
}

/* Block b, counted in 32 weights, of a row. */
static inline void block32_decode(tdm_dtype dtype, const uint8_t *row, int64_t b, block32 *out) {
    const uint8_t *p = NULL;
    out->scale[0] = 1;
    out->scale[1] = 1;
    out->has_min = false;
    out->m = 0.0f;
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_0:
        p = row + 18 * b;
        block32_nibbles(p + 2, NULL, 8, out);
        break;
    case TDM_DTYPE_Q4_1:
        p = row + 20 * b;
        block32_nibbles(p + 4, NULL, 0, out);
        break;
    case TDM_DTYPE_Q5_0:
        p = row + 22 * b;
        block32_nibbles(p + 6, p + 2, 16, out);
        break;
    case TDM_DTYPE_Q5_1:
        p = row + 24 * b;
        block32_nibbles(p + 8, p + 4, 0, out);
        break;
    case TDM_DTYPE_Q8_0:
        p = row + 34 * b;
        memcpy(out->w, p + 2, 32);
        break;
    case TDM_DTYPE_Q4_K:
        p = row + 144 * (b / 8);
        block32_k45(p, NULL, p + 16, (int)(b % 8), out);
        return;
    case TDM_DTYPE_Q5_K:
        p = row + 176 * (b / 8);
        block32_k45(p, p + 16, p + 48, (int)(b % 8), out);
        return;
    default: /* Q6_K: tdm_cpu_is_int8 lets nothing else come here */
        block32_q6_k(row + 210 * (b / 8), (int)(b % 8), out);
        return;
    }
    out->d = tdm_f16_to_f32(tdm_load_u16(p));
    if (dtype == TDM_DTYPE_Q4_1 || dtype == TDM_DTYPE_Q5_1) {
        out->m = tdm_f16_to_f32(tdm_load_u16(p + 2));
        out->has_min = true;
    }
}

#endif
