/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated MLP block: down(act(gate h) * up h). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_MLP_H
#define TDM_MODEL_BLOCKS_MLP_H

#include "model/blocks/loader.h"
#include "model/blocks/step_ctx.h"

typedef struct tdm_mlp_block {
    tdm_linear gate, up, down;
} tdm_mlp_block;

TDM_NODISCARD tdm_status tdm_mlp_load(tdm_mlp_block *block, tdm_loader *loader,
                                      const tdm_dims *dims, const tdm_decoder_spec *spec,
                                      int32_t layer, tdm_error *err);
void tdm_mlp_unload(tdm_mlp_block *block, tdm_backend *backend);
/* h [n, hidden] is read. */
void tdm_mlp_forward(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h,
                     tdm_block_out out);

#endif
