/* SPDX-License-Identifier: Apache-2.0
 *
 * One block of 32 quantized weights as integers and scales: one plain decoder for every type whose
 * weights are small integers times scales. It is the law twice over: dequantized values follow from
 * it, and int8 products multiply its integers. Floor 2. */
#ifndef TDM_TENSOR_BLOCK_H
#define TDM_TENSOR_BLOCK_H

#include "contract/backend.h"

/* What the f32 numbers of a block are. */
typedef enum tdm_block_kind {
    TDM_BLOCK_ONE,     /* one d; integer scales of the halves are 1 */
    TDM_BLOCK_ONE_MIN, /* one d, one m */
    TDM_BLOCK_INT,     /* one d, integer scales of the halves */
    TDM_BLOCK_INT_MIN, /* one d and one m, integer scales and integer mins of the halves */
    TDM_BLOCK_PAIR     /* a d for each half */
} tdm_block_kind;

/* Weight i of half h = i / 16 is
 *     (d[h] * scale[h]) * (w[i] + offset)  and, where there are mins,  + m * min[h]
 * each product and the sum rounded in that order. */
typedef struct tdm_block32 {
    int8_t w[32];
    int32_t offset; /* 0, or 128 for codes of eight bits, which do not fit w */
    int32_t scale[2];
    int32_t min[2]; /* 1 but for INT_MIN */
    float d[2];     /* equal but for PAIR */
    float m;
    float unit; /* IQ1, IQ2, IQ3_XXS: d[h] is unit * odd[h], exactly; unit an f16 over 8 (4) */
    int32_t odd[2];
} tdm_block32;

/* The fixed answer for a stored type; false where its weights are no small integers. */
bool tdm_block32_kind(tdm_dtype dtype, tdm_block_kind *out);
/* Block b, counted in 32 weights, of a row of a stored type. */
void tdm_block32_decode(tdm_dtype dtype, const uint8_t *row, int64_t b, tdm_block32 *out);
/* The 32 values. */
void tdm_block32_values(tdm_block_kind kind, const tdm_block32 *block, float out[32]);
/* Overwrites the scale (and min) of one stored block, rounded to what the type can hold, so that
 * blocks of random bits have finite values: for proofs and tests. d must lie in [2^-6, 1). */
void tdm_block_set_scales(tdm_dtype dtype, uint8_t *block, float d, float m);

#endif
