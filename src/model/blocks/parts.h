/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights by a name that no role has, and weights that are some rows of a fused projection. Floor 5.
 */
#ifndef TDM_MODEL_BLOCKS_PARTS_H
#define TDM_MODEL_BLOCKS_PARTS_H

#include "model/blocks/loader.h"

/* The tensor of a full name. Errors: TDM_E_FORMAT (missing). */
TDM_NODISCARD tdm_status tdm_part_find(const tdm_loader *loader, const char *name,
                                       const tdm_checkpoint_tensor **out, tdm_error *err);

/* The taps of a convolution of each channel by itself, under a full name: [channels, 1, n_taps] in
 * safetensors, or turned, [channels, n_taps, 1], as MLX has them; [channels, n_taps] in GGUF. What
 * comes out is what backends take, [n_taps, channels]. */
bool tdm_part_is_turned(const tdm_tensor_view *taps, int32_t n_taps);
TDM_NODISCARD tdm_status tdm_part_taps(tdm_loader *loader, const char *name, int64_t channels,
                                       int32_t n_taps, const float **out, tdm_error *err);

/* The matrix "NAME.weight", [n_out, n_in], quantized or not. Errors as tdm_loader_linear. The caller
 * deinits. */
TDM_NODISCARD tdm_status tdm_part_matrix(tdm_loader *loader, const char *name, int64_t n_out,
                                         int64_t n_in, tdm_weight *out, tdm_error *err);

typedef struct tdm_part_rows {
    tdm_linear *linear;
    int64_t n_rows;
} tdm_part_rows;

/* The matrix "NAME.weight", [sum of n_rows, n_in], cut into parts from the top. */
TDM_NODISCARD tdm_status tdm_part_split(tdm_loader *loader, const char *name, int64_t n_in,
                                        const tdm_part_rows *parts, int32_t n_parts,
                                        tdm_error *err);

/* Rows row_first, row_first + row_step, ... of one expert's matrix in a stack, n_taken of them. */
typedef struct tdm_part_stack {
    int64_t n_experts;
    int64_t expert;
    int64_t n_rows; /* of a whole matrix of the stack */
    int64_t n_in;
    int64_t row_first;
    int64_t row_step; /* 1: neighbours */
    int64_t n_taken;  /* 0: as many as there are */
} tdm_part_stack;

/* The stack "NAME" (a full name), [n_experts, n_rows, n_in], quantized or not. Errors as
 * tdm_loader_linear. The caller deinits. */
TDM_NODISCARD tdm_status tdm_part_stacked(tdm_loader *loader, const char *name,
                                          const tdm_part_stack *stack, tdm_weight *out,
                                          tdm_error *err);

/* The same of a stack whose matrices are turned, [n_experts, n_in, n_rows], in F32, F16 or BF16:
 * copied into the loader's arena, since no kernel reads columns. */
TDM_NODISCARD tdm_status tdm_part_turned(tdm_loader *loader, const char *name,
                                         const tdm_part_stack *stack, tdm_weight *out,
                                         tdm_error *err);

/* The same of a stack of vectors "NAME" (a full name), [n_experts, n_rows], as f32; n_in is not
 * read. Borrowed where that is possible, else converted. */
TDM_NODISCARD tdm_status tdm_part_stack_vector(tdm_loader *loader, const char *name,
                                               const tdm_part_stack *stack, const float **out,
                                               tdm_error *err);

/* MXFP4 as gpt-oss files have it: "NAME_blocks" U8 [n_experts, n_rows, n_in / 32, 16] and
 * "NAME_scales" U8 [n_experts, n_rows, n_in / 32]. Errors as tdm_loader_linear. The caller deinits.
 */
TDM_NODISCARD tdm_status tdm_part_blocks(tdm_loader *loader, const char *name,
                                         const tdm_part_stack *stack, tdm_weight *out,
                                         tdm_error *err);

/* Rows [row0, row0 + n) of a source, as a source of their own. Rows of fp8 that begin inside a block
 * of scales are refused when the weight is made. */
tdm_weight_source tdm_part_rows_of(const tdm_weight_source *whole, int64_t row0, int64_t n);

/* The vector "NAME" (a full name) as f32: borrowed where it is f32 already and aligned, else
 * converted. */
TDM_NODISCARD tdm_status tdm_part_vector(tdm_loader *loader, const char *name, int64_t n,
                                         const float **out, tdm_error *err);

#endif
