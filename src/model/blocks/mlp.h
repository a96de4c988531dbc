/* SPDX-License-Identifier: Apache-2.0
 *
 * The MLP block: down(act(gate h) * up h), or down(act(up h)). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_MLP_H
#define TDM_MODEL_BLOCKS_MLP_H

#include "model/blocks/loader.h"
#include "model/blocks/step_ctx.h"

typedef struct tdm_mlp_block {
    tdm_linear gate; /* its weight has no data where the MLP is plain */
    tdm_linear up, down;
    int32_t inner; /* width between them */
} tdm_mlp_block;

typedef struct tdm_mlp_roles {
    tdm_role gate, up, down;
} tdm_mlp_roles;

/* A gated one of three tensors. */
TDM_NODISCARD tdm_status tdm_mlp_load(tdm_mlp_block *block, tdm_loader *loader,
                                      const tdm_mlp_roles *roles, int64_t hidden, int32_t inner,
                                      tdm_bias_rule bias, int32_t layer, tdm_error *err);
/* A layer's own, of the spec's kind. */
TDM_NODISCARD tdm_status tdm_mlp_load_layer(tdm_mlp_block *block, tdm_loader *loader,
                                            const tdm_dims *dims, const tdm_decoder_spec *spec,
                                            int32_t layer, tdm_error *err);
void tdm_mlp_unload(tdm_mlp_block *block, tdm_backend *backend);
/* n rows of h [n, hidden] are read; scratch gate and up are written over. */
void tdm_mlp_run(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h, int64_t n,
                 tdm_block_out out);
/* All tokens of the step. */
void tdm_mlp_forward(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h,
                     tdm_block_out out);

#endif
