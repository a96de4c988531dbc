/* SPDX-License-Identifier: Apache-2.0
 *
 * Stored weights to f32, exactly, one block after another: the meaning of every storage type that
 * products can read. Floor 2. Faster decoders elsewhere are held to these bits.
 * Source: shared/spec/quantized-formats.md section 5, gguf.md section 5. */
#ifndef TDM_TENSOR_DEQUANT_H
#define TDM_TENSOR_DEQUANT_H

#include "contract/dtype.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether tdm_dequant_row knows this type. */
bool tdm_dequant_can(tdm_dtype dtype);
/* Writes n values; n is a multiple of the type's block. data needs no alignment. dtype must be one
 * that tdm_dequant_can. */
void tdm_dequant_row(tdm_dtype dtype, const uint8_t *data, int64_t n, float *out);

/* The k-quants' packed 6-bit scale and min of sub-block j (0..7). */
static inline void tdm_k4_scale_min(const uint8_t s[12], int j, uint8_t *out_scale,
                                    uint8_t *out_min) {
    if (j < 4) {
        *out_scale = s[j] & 63u;
        *out_min = s[j + 4] & 63u;
    } else {
        *out_scale = (uint8_t)((s[j + 4] & 15) | ((s[j - 4] >> 6) << 4));
        *out_min = (uint8_t)((s[j + 4] >> 4) | ((s[j] >> 6) << 4));
    }
}

#endif
