/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the tensor room: codebooks (iq_grids.c) and the decoders that use them (block_iq.c). */
#ifndef TDM_TENSOR_IQ_PRIV_H
#define TDM_TENSOR_IQ_PRIV_H

#include "tensor/block.h"

extern const uint16_t TDM_IQ2_XXS_GRID[256];
extern const uint16_t TDM_IQ2_XS_GRID[512];
extern const uint16_t TDM_IQ2_S_GRID[1024];
extern const uint16_t TDM_IQ3_XXS_GRID[256];
extern const uint16_t TDM_IQ3_S_GRID[512];
extern const uint16_t TDM_IQ1_GRID[2048];

/* Sub-block j (0..7) of the 256 weights at p, as tdm_block32_decode. */
void tdm_iq1_s_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq1_m_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq2_xxs_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq2_xs_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq2_s_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq3_xxs_decode(const uint8_t *p, int j, tdm_block32 *out);
void tdm_iq3_s_decode(const uint8_t *p, int j, tdm_block32 *out);

#endif
