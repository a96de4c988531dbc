/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as a block. It wires operations; which kind of cache it talks to and what mask that
 * implies is the cache's and the kernel's business.
 *
 *   h -> q, k, v -> (norm per head) -> (rope) -> k, v into the caches -> read per row over its own
 * cache -> o */
#include "model/blocks/attention.h"

#include "tensor/ops.h"

tdm_status tdm_attention_load(tdm_attention_block *block, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t q_dim = (int64_t)dims->n_heads * dims->head_dim;
    int64_t kv_dim = (int64_t)dims->n_kv_heads * dims->head_dim;
    int64_t hidden = dims->hidden;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_Q, layer, q_dim, hidden, spec->qkv_bias, &block->q,
                              err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_K, layer, kv_dim, hidden, spec->qkv_bias, &block->k,
                              err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_V, layer, kv_dim, hidden, spec->qkv_bias, &block->v,
                              err));
    TDM_TRY(
        tdm_loader_linear(loader, TDM_ROLE_O, layer, hidden, q_dim, spec->o_bias, &block->o, err));
    if (spec->qk_norm == TDM_QK_NORM_HEAD) {
        TDM_TRY(tdm_norm_load(&block->q_norm, loader, TDM_ROLE_Q_NORM, layer, dims->head_dim,
                              spec->norm_offset, err));
        TDM_TRY(tdm_norm_load(&block->k_norm, loader, TDM_ROLE_K_NORM, layer, dims->head_dim,
                              spec->norm_offset, err));
    }
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

static void norm_heads(const tdm_step_ctx *ctx, float *heads, const tdm_norm *norm,
                       int32_t n_heads) {
    if (norm->weight != NULL) {
        tdm_norm_forward(norm, ctx->backend, heads, heads, ctx->n_tokens * n_heads,
                         ctx->dims->head_dim, ctx->dims->norm_eps);
    }
}

static void rotate(const tdm_step_ctx *ctx, const float *table, float *heads, int32_t n_heads) {
    int32_t dim = ctx->dims->head_dim;
    tdm_op_rope(ctx->backend, heads, (int64_t)n_heads * dim, ctx->n_tokens, n_heads, dim, table,
                dim / 2, ctx->dims->pairing);
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
    norm_heads(ctx, s->q, &block->q_norm, dims->n_heads);
    norm_heads(ctx, s->k, &block->k_norm, dims->n_kv_heads);
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
