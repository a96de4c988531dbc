/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts beside an MLP. Source: transformers, models/gemma4/modeling_gemma4.py
 * (Gemma4TextDecoderLayer, Gemma4TextRouter); spec/models.md 2.6 and 3.10.
 *
 *   x -> norm -> MLP -> norm ----------+
 *   x -> norm -> experts -> norm ------+-> branch
 *   x -> norm without weights * scale / sqrt(hidden) -> router, whose weights sum to 1 and are
 * multiplied by a factor of each expert */
#include "model/blocks/beside.h"

#include "model/blocks/loader_priv.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <math.h>
#include <stdio.h>

/* A vector of this layer that has no ".weight". */
static void spell(const tdm_loader *loader, char out[TDM_LOADER_NAME_MAX], int32_t layer,
                  const char *hub, const char *gguf) {
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(out, TDM_LOADER_NAME_MAX, "blk.%d.%s", (int)layer, gguf);
    } else {
        (void)snprintf(out, TDM_LOADER_NAME_MAX, "%slayers.%d.%s", loader->prefix, (int)layer, hub);
    }
}

/* The factor 1 / sqrt(hidden) goes into the scale, once, in f32. */
static tdm_status load_router_norm(tdm_norm *norm, tdm_loader *loader, int64_t hidden,
                                   int32_t layer, tdm_error *err) {
    const float factor = 1.0F / sqrtf((float)hidden);
    const float *scale = NULL;
    float *weight = tdm_arena_calloc(loader->arena, (size_t)hidden, sizeof *weight);
    char name[TDM_LOADER_NAME_MAX];
    if (weight == NULL) {
        return tdm_fail_nomem(err, "a router's scale");
    }
    spell(loader, name, layer, "router.scale", "ffn_gate_inp.scale");
    TDM_TRY(tdm_part_vector(loader, name, hidden, &scale, err));
    for (int64_t i = 0; i < hidden; i++) {
        weight[i] = scale[i] * factor;
    }
    norm->kind = TDM_NORM_RMS;
    norm->weight = weight;
    return TDM_OK;
}

/* A GGUF file may leave the factors out, having multiplied the experts by them (llama.cpp,
 * conversion/gemma.py). */
static tdm_status load_factors(tdm_router *router, tdm_loader *loader, int32_t layer,
                               tdm_error *err) {
    char name[TDM_LOADER_NAME_MAX];
    spell(loader, name, layer, "router.per_expert_scale", "ffn_down_exps.scale");
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF &&
        tdm_checkpoint_find(loader->checkpoint, name) == NULL) {
        return TDM_OK;
    }
    return tdm_part_vector(loader, name, router->n, &router->factors, err);
}

tdm_status tdm_beside_load(tdm_beside_block *block, tdm_experts_block *experts, tdm_loader *loader,
                           const tdm_dims *dims, const tdm_decoder_spec *spec, int32_t layer,
                           tdm_error *err) {
    int64_t hidden = dims->hidden;
    TDM_TRY(tdm_norm_load(&block->mlp_post, loader, spec, TDM_ROLE_BESIDE_MLP_POST_NORM, layer,
                          hidden, err));
    TDM_TRY(tdm_norm_load(&block->pre, loader, spec, TDM_ROLE_BESIDE_PRE_NORM, layer, hidden, err));
    TDM_TRY(
        tdm_norm_load(&block->post, loader, spec, TDM_ROLE_BESIDE_POST_NORM, layer, hidden, err));
    TDM_TRY(load_router_norm(&block->router, loader, hidden, layer, err));
    return load_factors(&experts->router, loader, layer, err);
}

void tdm_beside_forward(const tdm_beside_block *block, const tdm_experts_block *experts,
                        const tdm_step_ctx *ctx) {
    const tdm_scratch *s = ctx->scratch;
    int64_t n = ctx->n_tokens;
    int64_t hidden = ctx->dims->hidden;
    float eps = ctx->dims->norm_eps;
    float *asked = s->experts.gathered; /* free until the router has answered */
    float *mixed = s->experts.shared;   /* free: no expert here takes every token */
    tdm_norm_forward(&block->mlp_post, ctx->backend, s->branch, s->branch, n, hidden, eps);
    tdm_norm_forward(&block->pre, ctx->backend, s->h, s->x, n, hidden, eps);
    tdm_norm_forward(&block->router, ctx->backend, asked, s->x, n, hidden, eps);
    tdm_experts_forward(experts, ctx, s->h, asked, (tdm_block_out){mixed, false});
    tdm_norm_forward(&block->post, ctx->backend, mixed, mixed, n, hidden, eps);
    tdm_op_add(ctx->backend, s->branch, hidden, mixed, hidden, n, hidden);
}
