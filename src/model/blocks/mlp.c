/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated MLP. gate and up share one call, so that their input is rounded and read once. */
#include "model/blocks/mlp.h"

#include "tensor/ops.h"

tdm_status tdm_mlp_load(tdm_mlp_block *block, tdm_loader *loader, const tdm_dims *dims,
                        const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t hidden = dims->hidden;
    int64_t inner = dims->intermediate;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_GATE, layer, inner, hidden, spec->mlp_bias,
                              &block->gate, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_UP, layer, inner, hidden, spec->mlp_bias, &block->up,
                              err));
    return tdm_loader_linear(loader, TDM_ROLE_DOWN, layer, hidden, inner, spec->mlp_bias,
                             &block->down, err);
}

void tdm_mlp_unload(tdm_mlp_block *block, tdm_backend *backend) {
    tdm_weight_deinit(backend, &block->gate.weight);
    tdm_weight_deinit(backend, &block->up.weight);
    tdm_weight_deinit(backend, &block->down.weight);
}

void tdm_mlp_forward(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h,
                     tdm_block_out out) {
    const tdm_scratch *s = ctx->scratch;
    int64_t inner = ctx->dims->intermediate;
    const tdm_linear_part inputs[2] = {
        {&block->gate.weight, block->gate.bias, s->gate, inner, false},
        {&block->up.weight, block->up.bias, s->up, inner, false},
    };
    const tdm_linear_part output = {&block->down.weight, block->down.bias, out.to,
                                    ctx->dims->hidden, out.is_added};
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, inputs, 2);
    tdm_op_glu_mul(ctx->backend, ctx->dims->activation, s->gate, inner, s->gate, inner, s->up,
                   inner, ctx->n_tokens, inner);
    tdm_op_linear(ctx->backend, s->gate, inner, ctx->n_tokens, &output, 1);
}
