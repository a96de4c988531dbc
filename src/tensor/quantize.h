/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of f32 into stored types: the way back from tensor/dequant.h and tensor/weight.h. Floor 2.
 * A row's bytes follow from its values alone, so that rows may be spread over threads. MLX's modes
 * and GGUF's types of 32 weights give the bits of the reference quantizers; for the K types the law
 * is an error, and the search is our own.
 * Source: shared/spec/quantized-formats.md sections 2, 3 and 5, gguf.md section 5.
 *
 * Values must be finite: ask tdm_quantize_is_finite first. Nothing is allocated, nothing fails. */
#ifndef TDM_TENSOR_QUANTIZE_H
#define TDM_TENSOR_QUANTIZE_H

#include "contract/backend.h"

/* Whether all n values are finite; *out_idx, which may be NULL, is the first that is not. */
bool tdm_quantize_is_finite(const float *x, int64_t n, int64_t *out_idx);

/* ---- MLX ---- */

typedef struct tdm_mlx_form {
    tdm_weight_mode mode; /* AFFINE, MXFP4, MXFP8, NVFP4 */
    int32_t bits;
    int32_t group;
    tdm_dtype scales_dtype; /* affine: F16, BF16 or F32; else U8 */
} tdm_mlx_form;

/* Bytes of a row of n_in weights, a multiple of the group: codes, and scales (biases too). */
size_t tdm_mlx_codes_bytes(const tdm_mlx_form *form, int64_t n_in);
size_t tdm_mlx_scales_bytes(const tdm_mlx_form *form, int64_t n_in);

/* One row. biases is NULL but for affine. No pointer needs alignment. */
void tdm_quantize_mlx_row(const tdm_mlx_form *form, const float *x, int64_t n_in, uint8_t *codes,
                          uint8_t *scales, uint8_t *biases);

/* ---- stored types ---- */

/* F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K. */
bool tdm_quantize_can(tdm_dtype dtype);
/* n is a multiple of the type's block. */
void tdm_quantize_row(tdm_dtype dtype, const float *x, int64_t n, uint8_t *out);

#endif
