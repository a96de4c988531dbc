/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two files of stored-type quantizers share. Floor 2, private to tensor. */
#ifndef TDM_TENSOR_QUANTIZE_PRIV_H
#define TDM_TENSOR_QUANTIZE_PRIV_H

#include "tensor/half.h"
#include "tensor/quantize.h"

static inline void tdm_store_f16(uint8_t *at, float value) {
    const uint16_t half = tdm_f16_from_f32(value);
    at[0] = (uint8_t)(half & 255u);
    at[1] = (uint8_t)(half >> 8);
}

/* One block of 256 weights. */
void tdm_quantize_q4_k(const float *x, uint8_t *out);
void tdm_quantize_q5_k(const float *x, uint8_t *out);
void tdm_quantize_q6_k(const float *x, uint8_t *out);

#endif
