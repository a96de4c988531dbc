/* SPDX-License-Identifier: Apache-2.0
 *
 * The MLP. gate and up share one call, so that their input is rounded and read once. */
#include "model/blocks/mlp.h"

#include "model/blocks/names.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <stdio.h>

#define NAME_MAX_BYTES 160

tdm_status tdm_mlp_load(tdm_mlp_block *block, tdm_loader *loader, const tdm_mlp_roles *roles,
                        int64_t hidden, int32_t inner, tdm_bias_rule bias, int32_t layer,
                        tdm_error *err) {
    block->inner = inner;
    TDM_TRY(tdm_loader_linear(loader, roles->gate, layer, inner, hidden, bias, &block->gate, err));
    TDM_TRY(tdm_loader_linear(loader, roles->up, layer, inner, hidden, bias, &block->up, err));
    return tdm_loader_linear(loader, roles->down, layer, hidden, inner, bias, &block->down, err);
}

/* gate's and up's rows in one tensor. */
static tdm_status load_fused(tdm_mlp_block *block, tdm_loader *loader, int64_t hidden,
                             int32_t layer, tdm_error *err) {
    const tdm_part_rows parts[2] = {{&block->gate, block->inner}, {&block->up, block->inner}};
    char name[NAME_MAX_BYTES];
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(name, sizeof name, "blk.%d.ffn_up", (int)layer);
    } else {
        (void)snprintf(name, sizeof name, "%slayers.%d.mlp.gate_up_proj", loader->prefix,
                       (int)layer);
    }
    return tdm_part_split(loader, name, hidden, parts, 2, err);
}

tdm_status tdm_mlp_load_layer(tdm_mlp_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    const tdm_mlp_roles roles = {tdm_role_of(spec, TDM_ROLE_GATE), tdm_role_of(spec, TDM_ROLE_UP),
                                 tdm_role_of(spec, TDM_ROLE_DOWN)};
    int32_t own = spec->layers[layer].intermediate;
    block->inner = own > 0 ? own : dims->intermediate;
    if (spec->mlp == TDM_MLP_GATED) {
        return tdm_mlp_load(block, loader, &roles, dims->hidden, block->inner, spec->mlp_bias,
                            layer, err);
    }
    if (spec->mlp == TDM_MLP_GATED_FUSED) {
        TDM_TRY(load_fused(block, loader, dims->hidden, layer, err));
    } else {
        TDM_TRY(tdm_loader_linear(loader, roles.up, layer, block->inner, dims->hidden,
                                  spec->mlp_bias, &block->up, err));
    }
    return tdm_loader_linear(loader, roles.down, layer, dims->hidden, block->inner, spec->mlp_bias,
                             &block->down, err);
}

void tdm_mlp_unload(tdm_mlp_block *block, tdm_backend *backend) {
    tdm_weight_deinit(backend, &block->gate.weight);
    tdm_weight_deinit(backend, &block->up.weight);
    tdm_weight_deinit(backend, &block->down.weight);
}

void tdm_mlp_run(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h, int64_t n,
                 tdm_block_out out) {
    const tdm_scratch *s = ctx->scratch;
    int64_t inner = block->inner;
    int64_t hidden = ctx->dims->hidden;
    const tdm_linear_part inputs[2] = {
        {&block->gate.weight, block->gate.bias, s->gate, inner, false},
        {&block->up.weight, block->up.bias, s->up, inner, false},
    };
    const tdm_linear_part output = {&block->down.weight, block->down.bias, out.to, hidden,
                                    out.is_added};
    if (block->gate.weight.data == NULL) {
        tdm_op_linear(ctx->backend, h, hidden, n, &inputs[1], 1);
        tdm_op_activate(ctx->backend, &ctx->dims->activation, s->up, inner, n, inner);
        tdm_op_linear(ctx->backend, s->up, inner, n, &output, 1);
        return;
    }
    tdm_op_linear(ctx->backend, h, hidden, n, inputs, 2);
    tdm_op_glu_mul(ctx->backend, &ctx->dims->activation, s->gate, inner, s->gate, inner, s->up,
                   inner, n, inner);
    tdm_op_linear(ctx->backend, s->gate, inner, n, &output, 1);
}

void tdm_mlp_forward(const tdm_mlp_block *block, const tdm_step_ctx *ctx, const float *h,
                     tdm_block_out out) {
    tdm_mlp_run(block, ctx, h, ctx->n_tokens, out);
}
