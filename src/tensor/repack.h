/* SPDX-License-Identifier: Apache-2.0
 *
 * Integers of weights as other tool chains store them, turned into affine codes: rows of a stream
 * of bits, an f32 scale and an f32 bias for each group. The values stay the same to the bit:
 * (code - zero) * scale is code * scale + (-zero * scale), and both products and their sum are
 * exact in f32 where scales have at most 16 bits. Floor 2.
 * Source: AutoAWQ, awq/utils/packing_utils.py; AutoGPTQ, nn_modules/qlinear/qlinear_cuda.py;
 * compressed-tensors 0.20.1, compressors/pack_quantized. Readers of GPTQ files disagree about a
 * stored zero point of all ones: here, as in most of them, it is one past the last code. */
#ifndef TDM_TENSOR_REPACK_H
#define TDM_TENSOR_REPACK_H

#include "base/status.h"
#include "contract/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Words are little-endian and of 32 bits; a stream fills them from the lowest bit on.
 *
 *     layout   codes                                     zeros
 *     GPTQ     [n_in * bits / 32, n_out], a stream       [n_scales, n_out * bits / 32], a stream
 *              down each column                          along each row
 *     AWQ      [n_in, n_out / 8], eight outputs a word   [n_scales, n_out / 8], likewise
 *              in the order 0 2 4 6 1 3 5 7
 *     PACKED   [n_out, n_in * bits / 32], a stream       [n_out * bits / 32, n_scales], a stream
 *              along each row                            down each column
 *     BYTES    [n_out, n_in] of signed bytes             [n_out, n_scales] of signed bytes
 *
 * Scales are [n_scales, n_out] for GPTQ and AWQ, else [n_out, n_scales]. */
typedef enum tdm_repack_layout {
    TDM_REPACK_GPTQ,
    TDM_REPACK_AWQ,
    TDM_REPACK_PACKED,
    TDM_REPACK_BYTES
} tdm_repack_layout;

typedef struct tdm_repack {
    tdm_repack_layout layout;
    int32_t bits;     /* 1 to 8; AWQ: 4; BYTES: 8 */
    int64_t n_out;    /* streams along it: n_out * bits is a multiple of 32 */
    int64_t n_in;     /* a multiple of 32 */
    int64_t n_scales; /* of a row; divides n_in */
    const uint8_t *codes;
    const uint8_t *zeros; /* NULL: every zero point is the middle of the codes' range */
    int32_t zero_add;     /* added to stored zero points: GPTQ's first files hold one less */
    const uint8_t *scales;
    tdm_dtype scales_dtype; /* F16, BF16 or F32 */
    bool has_one_scale;     /* scales and zeros are one value for the whole matrix; n_scales is 1 */
    const int32_t *columns; /* [n_in] or NULL: column j of the result is column columns[j] */
} tdm_repack;

/* Codes that share a scale in the result: the largest of 128, 64 and 32 that divides a group, or 0
 * where none does. */
int32_t tdm_repack_group(const tdm_repack *repack);
/* Columns [32 * block0, 32 * block1) of every row of out, [n_out, n_in * bits / 32] words. */
void tdm_repack_codes(const tdm_repack *repack, int64_t block0, int64_t block1, uint8_t *out);
/* Rows [row0, row1) of scales and biases, both [n_out, n_in / tdm_repack_group]. */
void tdm_repack_scales(const tdm_repack *repack, int64_t row0, int64_t row1, float *scales,
                       float *biases);

#endif
