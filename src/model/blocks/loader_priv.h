/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the loader: marking tensors as used, and the tensors that make one weight. */
#ifndef TDM_MODEL_BLOCKS_LOADER_PRIV_H
#define TDM_MODEL_BLOCKS_LOADER_PRIV_H

#include "model/blocks/loader.h"

#define TDM_LOADER_NAME_MAX 160

/* "ROLE.weight"; TDM_E_FORMAT where it is missing. */
TDM_NODISCARD tdm_status tdm_loader_require(const tdm_loader *loader, tdm_role role, int32_t layer,
                                            const tdm_checkpoint_tensor **out, tdm_error *err);
/* Marks tensor as used; the first time its bytes and n_params weights are counted. */
void tdm_loader_consume(tdm_loader *loader, const tdm_checkpoint_tensor *tensor, int64_t n_params);
/* The n values of a tensor of floats, of whatever shape: borrowed when they are F32 already and
 * aligned, else converted; zeros in a plan. Marks the tensor as used. Errors: TDM_E_UNSUPPORTED (no
 * floats), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_loader_floats(tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                           int64_t n, const float **out, tdm_error *err);
/* where: the file and the offset of tensor. Returns status. */
tdm_status tdm_loader_fail_at(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                              tdm_status status, tdm_error *err);
tdm_status tdm_loader_check_shape(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                  int32_t rank, const int64_t *dims, tdm_error *err);

/* Which matrix of a tensor: n_stack 0 for a tensor of rank 2, else matrix idx of n_stack. */
typedef struct tdm_loader_part {
    int64_t n_stack;
    int64_t idx;
    int64_t n_out;
    int64_t n_in;
} tdm_loader_part;

/* "MODULE.weight", or what stands for it where another tool chain packed it. */
const tdm_checkpoint_tensor *tdm_loader_find_weight(const tdm_loader *loader, const char *name);

/* The tensors that make the matrix part of "MODULE.weight", which is weight; marks all of them as
 * used. Errors: TDM_E_SHAPE; TDM_E_FORMAT (half of a quantized set is missing; the config
 * contradicts the shapes); TDM_E_UNSUPPORTED. */
TDM_NODISCARD tdm_status tdm_loader_source(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                                           const tdm_loader_part *part, tdm_weight_source *out,
                                           tdm_error *err);

/* The matrix part of an MXFP4 stack as gpt-oss files have it; blocks and scales as
 * tdm_part_blocks. Marks both as used. Errors: TDM_E_SHAPE, TDM_E_UNSUPPORTED (types). */
TDM_NODISCARD tdm_status tdm_loader_blocks(tdm_loader *loader, const tdm_checkpoint_tensor *blocks,
                                           const tdm_checkpoint_tensor *scales,
                                           const tdm_loader_part *part, tdm_weight_source *out,
                                           tdm_error *err);

/* Weights of AWQ and GPTQ (is_columns: weight is "MODULE.qweight") and of compressed-tensors. What
 * they become lives until the next call, or as long as the weight where it is no copy. */
TDM_NODISCARD tdm_status tdm_loader_foreign(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                                            const char *module, bool is_columns,
                                            const tdm_loader_part *part, tdm_weight_source *out,
                                            tdm_error *err);

#endif
