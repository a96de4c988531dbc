/* SPDX-License-Identifier: Apache-2.0
 *
 * Per-layer embeddings. Source: transformers, models/gemma4/modeling_gemma4.py
 * (get_per_layer_inputs, project_per_layer_inputs, Gemma4TextDecoderLayer); spec/models.md 3.10. All
 * factors are f32 (spec/errata.md, decision 7).
 *
 *   input = (norm(context(x) / sqrt(hidden)) + table[token] * sqrt(dim)) / sqrt(2)
 *   x     = x + norm(project(act(gate x) * input of this layer))
 *
 * The table is the largest tensor of its model and is only gathered: it stays in the mapped file. */
#include "model/blocks/ple.h"

#include "base/arith.h"
#include "tensor/ops.h"

#include <math.h>

tdm_status tdm_ple_load(tdm_ple *ple, tdm_loader *loader, const tdm_dims *dims,
                        const tdm_decoder_spec *spec, int32_t n_layers, tdm_error *err) {
    if (spec->ple.dim == 0) {
        return TDM_OK;
    }
    ple->dim = spec->ple.dim;
    if (!tdm_mul_i64(ple->dim, n_layers, &ple->width)) {
        return tdm_fail(err, TDM_E_LIMIT, "per-layer embeddings are too wide");
    }
    (void)tdm_loader_enter(loader, TDM_SECTION_EMBEDDING);
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_PLE_TABLE, 0, spec->ple.n_vocab, ple->width,
                              TDM_BIAS_NONE, &ple->table, err));
    (void)tdm_loader_enter(loader, TDM_SECTION_MLP);
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_PLE_CONTEXT, 0, ple->width, dims->hidden,
                              TDM_BIAS_NONE, &ple->context, err));
    return tdm_norm_load(&ple->norm, loader, spec, TDM_ROLE_PLE_CONTEXT_NORM, 0, ple->dim, err);
}

tdm_status tdm_ple_layer_load(tdm_ple_layer *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    if (spec->ple.dim == 0) {
        return TDM_OK;
    }
    (void)tdm_loader_enter(loader, TDM_SECTION_MLP);
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_PLE_GATE, layer, spec->ple.dim, dims->hidden,
                              TDM_BIAS_NONE, &block->gate, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_PLE_PROJECT, layer, dims->hidden, spec->ple.dim,
                              TDM_BIAS_NONE, &block->project, err));
    return tdm_norm_load(&block->norm, loader, spec, TDM_ROLE_PLE_NORM, layer, dims->hidden, err);
}

void tdm_ple_unload(tdm_ple *ple, tdm_backend *backend) {
    tdm_weight_deinit(backend, &ple->table.weight);
    tdm_weight_deinit(backend, &ple->context.weight);
}

void tdm_ple_layer_unload(tdm_ple_layer *block, tdm_backend *backend) {
    tdm_weight_deinit(backend, &block->gate.weight);
    tdm_weight_deinit(backend, &block->project.weight);
}

/* No backend has an operation for it. */
static void scale(float *x, int64_t n, float factor) {
    for (int64_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

tdm_status tdm_ple_prepare(const tdm_ple *ple, const tdm_step_ctx *ctx, tdm_error *err) {
    const tdm_scratch *s = ctx->scratch;
    int64_t n = ctx->n_tokens;
    int64_t n_shares = n * (ple->width / ple->dim);
    const tdm_linear_part part = {&ple->context.weight, NULL, s->ple, ple->width, false};
    TDM_TRY(tdm_op_embed(ctx->backend, s->ple_work, ple->width, &ple->table.weight, s->tokens, n,
                         sqrtf((float)ple->dim), err));
    tdm_op_linear(ctx->backend, s->x, ctx->dims->hidden, n, &part, 1);
    scale(s->ple, n * ple->width, 1.0F / sqrtf((float)ctx->dims->hidden));
    tdm_norm_forward(&ple->norm, ctx->backend, s->ple, s->ple, n_shares, ple->dim,
                     ctx->dims->norm_eps);
    tdm_op_add(ctx->backend, s->ple, ple->width, s->ple_work, ple->width, n, ple->width);
    scale(s->ple, n * ple->width, 0.70710678118654752440F);
    return TDM_OK;
}

void tdm_ple_forward(const tdm_ple *ple, const tdm_ple_layer *block, const tdm_step_ctx *ctx,
                     int32_t layer) {
    const tdm_scratch *s = ctx->scratch;
    int64_t n = ctx->n_tokens;
    int64_t hidden = ctx->dims->hidden;
    float *gate = s->ple_work; /* [n, dim]: what prepare had there has been added */
    const tdm_linear_part first = {&block->gate.weight, NULL, gate, ple->dim, false};
    const tdm_linear_part last = {&block->project.weight, NULL, s->branch, hidden, false};
    tdm_op_linear(ctx->backend, s->x, hidden, n, &first, 1);
    tdm_op_glu_mul(ctx->backend, &ctx->dims->activation, gate, ple->dim, gate, ple->dim,
                   s->ple + (int64_t)layer * ple->dim, ple->width, n, ple->dim);
    tdm_op_linear(ctx->backend, gate, ple->dim, n, &last, 1);
    tdm_norm_forward(&block->norm, ctx->backend, s->branch, s->branch, n, hidden,
                     ctx->dims->norm_eps);
    tdm_op_add(ctx->backend, s->x, hidden, s->branch, hidden, n, hidden);
}
