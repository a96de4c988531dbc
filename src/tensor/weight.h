/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights as their tensors describe them: the checks that every backend relies on, and the exact
 * values, row by row. Floor 2. */
#ifndef TDM_TENSOR_WEIGHT_H
#define TDM_TENSOR_WEIGHT_H

#include "tensor/block.h"

/* "plain", "affine", "mxfp4", "mxfp8", "nvfp4", "fp8". */
extern const char *const TDM_WEIGHT_MODE_NAMES[TDM_WEIGHT_MODE_COUNT];

static inline tdm_weight_source tdm_weight_source_plain(const tdm_tensor_view *view) {
    return (tdm_weight_source){.mode = TDM_WEIGHT_PLAIN, .view = *view};
}

/* Whether bits and group are possible for mode. */
bool tdm_weight_mode_allows(tdm_weight_mode mode, int32_t bits, int32_t group);

/* Checks ranks, types, shapes, bytes and that they agree with bits and group, then fills *out up to
 * packed. Whether a backend can read the type is not asked. Errors: TDM_E_SHAPE,
 * TDM_E_UNSUPPORTED (mode, bits or group); *out is zeroed then. */
TDM_NODISCARD tdm_status tdm_weight_describe(const tdm_weight_source *source, tdm_weight *out,
                                             tdm_error *err);

/* The exact values of a row: n_in floats. */
void tdm_weight_row(const tdm_weight *weight, int64_t row, float *out);

/* fp8: the scale of the block around a place. */
float tdm_weight_fp8_scale(const tdm_weight *weight, int64_t row, int64_t column);

/* Whether int8 products can stand for this weight: whole blocks of small integers. */
bool tdm_weight_kind(const tdm_weight *weight, tdm_block_kind *out);
/* Block b, counted in 32 weights, of a row; only where tdm_weight_kind. */
void tdm_weight_block(const tdm_weight *weight, int64_t row, int64_t b, tdm_block32 *out);

#endif
