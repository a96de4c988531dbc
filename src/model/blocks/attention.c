/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as a block. It wires operations; which kind of cache it talks to and what mask that
 * implies is the cache's and the kernel's business.
 *
 *   h -> q, k, v -> (norm per head) -> (rope) -> k, v into the caches -> read per row over its own
 * cache -> o */
#include "model/blocks/attention.h"

#include "model/blocks/names.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <stdio.h>

#define NAME_MAX_BYTES 160

static tdm_status load_qkv(tdm_attention_block *block, tdm_loader *loader, const tdm_dims *dims,
                           const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t q_dim = (int64_t)dims->n_heads * dims->head_dim;
    int64_t kv_dim = (int64_t)dims->n_kv_heads * dims->head_dim;
    int64_t hidden = dims->hidden;
    char name[NAME_MAX_BYTES];
    if (spec->is_qkv_fused) {
        const tdm_part_rows parts[3] = {
            {&block->q, q_dim}, {&block->k, kv_dim}, {&block->v, kv_dim}};
        if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
            (void)snprintf(name, sizeof name, "blk.%d.attn_qkv", (int)layer);
        } else {
            (void)snprintf(name, sizeof name, "%slayers.%d.self_attn.qkv_proj", loader->prefix,
                           (int)layer);
        }
        return tdm_part_split(loader, name, hidden, parts, 3, err);
    }
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_Q, layer, q_dim, hidden, spec->qkv_bias, &block->q,
                              err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_K, layer, kv_dim, hidden, spec->qkv_bias, &block->k,
                              err));
    return tdm_loader_linear(loader, TDM_ROLE_V, layer, kv_dim, hidden, spec->qkv_bias, &block->v,
                             err);
}

static tdm_status load_qk_norms(tdm_attention_block *block, tdm_loader *loader,
                                const tdm_dims *dims, const tdm_decoder_spec *spec, int32_t layer,
                                tdm_error *err) {
    bool is_full = spec->qk_norm == TDM_QK_NORM_FULL;
    if (spec->qk_norm == TDM_QK_NORM_NONE) {
        return TDM_OK;
    }
    block->is_norm_full = is_full;
    TDM_TRY(tdm_norm_load(&block->q_norm, loader, spec, TDM_ROLE_Q_NORM, layer,
                          (is_full ? (int64_t)dims->n_heads : 1) * dims->head_dim, err));
    return tdm_norm_load(&block->k_norm, loader, spec, TDM_ROLE_K_NORM, layer,
                         (is_full ? (int64_t)dims->n_kv_heads : 1) * dims->head_dim, err);
}

tdm_status tdm_attention_load(tdm_attention_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t q_dim = (int64_t)dims->n_heads * dims->head_dim;
    TDM_TRY(load_qkv(block, loader, dims, spec, layer, err));
    TDM_TRY(tdm_loader_linear(loader, tdm_role_of(spec, TDM_ROLE_O), layer, dims->hidden, q_dim,
                              spec->o_bias, &block->o, err));
    TDM_TRY(load_qk_norms(block, loader, dims, spec, layer, err));
    block->rope_idx = spec->layers[layer].has_rope ? spec->layers[layer].rope_idx : -1;
    block->window = spec->layers[layer].window;
    block->cache_idx = layer;
    return TDM_OK;
}

void tdm_attention_unload(tdm_attention_block *block, tdm_backend *backend) {
    tdm_linear *const linears[] = {&block->q, &block->k, &block->v, &block->o};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        tdm_weight_deinit(backend, &linears[i]->weight);
    }
}

static void project(const tdm_attention_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_dims *dims = ctx->dims;
    const tdm_scratch *s = ctx->scratch;
    const tdm_linear_part parts[3] = {
        {&block->q.weight, block->q.bias, s->q, (int64_t)dims->n_heads * dims->head_dim, false},
        {&block->k.weight, block->k.bias, s->k, (int64_t)dims->n_kv_heads * dims->head_dim, false},
        {&block->v.weight, block->v.bias, s->v, (int64_t)dims->n_kv_heads * dims->head_dim, false},
    };
    tdm_op_linear(ctx->backend, h, dims->hidden, ctx->n_tokens, parts, 3);
}

static void norm_heads(const tdm_attention_block *block, const tdm_step_ctx *ctx, float *heads,
                       const tdm_norm *norm, int32_t n_heads) {
    int64_t n = ctx->n_tokens;
    int64_t dim = ctx->dims->head_dim;
    if (norm->weight == NULL) {
        return;
    }
    if (block->is_norm_full) {
        dim *= n_heads;
    } else {
        n *= n_heads;
    }
    tdm_norm_forward(norm, ctx->backend, heads, heads, n, dim, ctx->dims->norm_eps);
}

static void rotate(const tdm_step_ctx *ctx, const float *table, float *heads, int32_t n_heads) {
    int32_t dim = ctx->dims->head_dim;
    tdm_op_rope(ctx->backend, heads, (int64_t)n_heads * dim, ctx->n_tokens, n_heads, dim, table,
                ctx->dims->rotary_dim / 2, ctx->dims->pairing);
}

/* Fills the spans of every row: where its keys and values go, and what its queries read. */
static void plan_spans(const tdm_attention_block *block, const tdm_step_ctx *ctx) {
    const tdm_dims *dims = ctx->dims;
    const tdm_scratch *s = ctx->scratch;
    int64_t ld_q = (int64_t)dims->n_heads * dims->head_dim;
    int64_t ld_kv = (int64_t)dims->n_kv_heads * dims->head_dim;
    int64_t first = 0;
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        const tdm_step_row *row = &ctx->rows[r];
        tdm_cache *cache = row->state->caches[block->cache_idx];
        const tdm_kv_pages *pages = cache->ops->begin(cache, row->n_tokens);
        int64_t pos0 = cache->ops->length(cache);
        s->write_spans[r] = (tdm_kv_write_span){
            .pages = pages,
            .k = s->k + first * ld_kv,
            .v = s->v + first * ld_kv,
            .ld_k = ld_kv,
            .ld_v = ld_kv,
            .pos0 = pos0,
            .n = row->n_tokens,
        };
        s->read_spans[r] = (tdm_attention_span){
            .pages = pages,
            .q = s->q + first * ld_q,
            .out = s->mixed + first * ld_q,
            .ld_q = ld_q,
            .ld_out = ld_q,
            .pos0 = pos0,
            .n = row->n_tokens,
            .n_heads = dims->n_heads,
            .window = block->window,
            .scale = dims->attention_scale,
            .softcap = dims->attention_softcap,
        };
        first += row->n_tokens;
    }
}

void tdm_attention_forward(const tdm_attention_block *block, const tdm_step_ctx *ctx,
                           const float *h, tdm_block_out out) {
    const tdm_dims *dims = ctx->dims;
    const tdm_scratch *s = ctx->scratch;
    const tdm_linear_part last = {&block->o.weight, block->o.bias, out.to, dims->hidden,
                                  out.is_added};
    project(block, ctx, h);
    norm_heads(block, ctx, s->q, &block->q_norm, dims->n_heads);
    norm_heads(block, ctx, s->k, &block->k_norm, dims->n_kv_heads);
    if (block->rope_idx >= 0) {
        rotate(ctx, s->ropes[block->rope_idx], s->q, dims->n_heads);
        rotate(ctx, s->ropes[block->rope_idx], s->k, dims->n_kv_heads);
    }
    plan_spans(block, ctx);
    tdm_op_kv_write(ctx->backend, s->write_spans, ctx->n_rows);
    tdm_op_attention(ctx->backend, s->read_spans, ctx->n_rows);
    tdm_op_linear(ctx->backend, s->mixed, (int64_t)dims->n_heads * dims->head_dim, ctx->n_tokens,
                  &last, 1);
}
