/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention as a block. It wires operations; which kind of cache it talks to and what mask that
 * implies is the cache's and the kernel's business.
 *
 *   h -> q, k, v -> (norm per head) -> (rope) -> k, v into the caches -> read per row over its own
 * cache -> (* sigmoid of a gate that q's product brings) -> o */
#include "model/blocks/attention.h"

#include "model/blocks/names.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 160

/* Where a step's q, k, v and what attention read lie in the scratch: packed one after another. */
typedef struct planes {
    float *q, *k, *v, *mixed;
    float *woven, *gate; /* [n, 2 * ld_q], [n, ld_q]: only where there is a gate */
    int64_t ld_q, ld_k, ld_v, ld_mixed;
} planes;

static planes cut(const tdm_attention_block *block, const tdm_step_ctx *ctx) {
    const tdm_heads_spec *heads = &block->heads;
    int64_t n = ctx->n_tokens;
    planes p = {
        .ld_q = (int64_t)heads->n * heads->dim,
        .ld_k = (int64_t)heads->n_kv * heads->dim,
        .ld_v = (int64_t)heads->n_kv * heads->value_dim,
        .ld_mixed = (int64_t)heads->n * heads->value_dim,
    };
    p.q = ctx->scratch->mix;
    p.k = p.q + n * p.ld_q;
    p.v = p.k + n * p.ld_k;
    p.mixed = p.v + n * p.ld_v;
    p.woven = p.mixed + n * p.ld_mixed;
    p.gate = p.woven + 2 * n * p.ld_q;
    return p;
}

static tdm_mixer_sizes attention_sizes(const void *any, const tdm_dims *dims) {
    const tdm_attention_block *block = any;
    const tdm_heads_spec *heads = &block->heads;
    int64_t per_head = (int64_t)heads->dim + heads->value_dim;
    int64_t mixed = (int64_t)heads->n * heads->value_dim;
    int64_t gated = block->has_gate ? 3 * (int64_t)heads->n * heads->dim : 0;
    return (tdm_mixer_sizes){.scratch = ((int64_t)heads->n + heads->n_kv) * per_head + gated,
                             .widest = mixed > dims->hidden ? mixed : dims->hidden};
}

static tdm_kv_geometry attention_geometry(const void *any, const tdm_dims *dims, tdm_dtype kv_dtype,
                                          int32_t append_max) {
    const tdm_attention_block *block = any;
    (void)dims;
    return (tdm_kv_geometry){
        .dtype = kv_dtype,
        .n_kv_heads = block->heads.n_kv,
        .head_dim = block->heads.dim,
        .value_dim = block->heads.value_dim,
        .window = block->window,
        .append_max = append_max,
    };
}

static tdm_status load_qkv(tdm_attention_block *block, tdm_loader *loader, const tdm_dims *dims,
                           const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t q_dim = (int64_t)block->heads.n * block->heads.dim * (block->has_gate ? 2 : 1);
    int64_t k_dim = (int64_t)block->heads.n_kv * block->heads.dim;
    int64_t v_dim = (int64_t)block->heads.n_kv * block->heads.value_dim;
    int64_t hidden = dims->hidden;
    char name[NAME_MAX_BYTES];
    if (spec->is_qkv_fused) {
        const tdm_part_rows parts[3] = {{&block->q, q_dim}, {&block->k, k_dim}, {&block->v, v_dim}};
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
    if (!block->owns_cache) {
        tdm_loader_drop(loader, TDM_ROLE_K, layer); /* some files have what nobody reads */
        tdm_loader_drop(loader, TDM_ROLE_V, layer);
        return TDM_OK;
    }
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_K, layer, k_dim, hidden, spec->qkv_bias, &block->k,
                              err));
    if (block->is_k_eq_v) {
        return TDM_OK;
    }
    return tdm_loader_linear(loader, TDM_ROLE_V, layer, v_dim, hidden, spec->qkv_bias, &block->v,
                             err);
}

static tdm_status load_qk_norms(tdm_attention_block *block, tdm_loader *loader,
                                const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    bool is_full = spec->qk_norm == TDM_QK_NORM_FULL;
    int64_t dim = block->heads.dim;
    if (spec->qk_norm == TDM_QK_NORM_NONE) {
        return TDM_OK;
    }
    block->is_norm_full = is_full;
    TDM_TRY(tdm_norm_load(&block->q_norm, loader, spec, TDM_ROLE_Q_NORM, layer,
                          is_full ? block->heads.n * dim : dim, err));
    if (!block->owns_cache) {
        tdm_loader_drop(loader, TDM_ROLE_K_NORM, layer);
        return TDM_OK;
    }
    return tdm_norm_load(&block->k_norm, loader, spec, TDM_ROLE_K_NORM, layer,
                         is_full ? block->heads.n_kv * dim : dim, err);
}

static tdm_status load_sinks(tdm_attention_block *block, tdm_loader *loader,
                             const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    char name[NAME_MAX_BYTES];
    if (!spec->has_sinks) {
        return TDM_OK;
    }
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(name, sizeof name, "blk.%d.attn_sinks.weight", (int)layer);
    } else {
        (void)snprintf(name, sizeof name, "%slayers.%d.self_attn.sinks", loader->prefix,
                       (int)layer);
    }
    return tdm_part_vector(loader, name, block->heads.n, &block->sinks, err);
}

static tdm_status attention_load(void *any, tdm_loader *loader, const tdm_dims *dims,
                                 const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                                 tdm_error *err) {
    tdm_attention_block *block = any;
    const tdm_layer_spec *layer = &spec->layers[place->layer];
    block->heads = layer->heads;
    block->rope_idx = layer->has_rope ? layer->rope_idx : -1;
    block->rope_dim = layer->has_rope ? spec->rope_dims[layer->rope_idx] : 0;
    block->window = layer->window;
    block->cache_idx = place->cache_idx;
    block->owns_cache = place->owns_cache;
    block->is_k_eq_v = layer->is_k_eq_v;
    block->has_value_norm = spec->has_value_norm;
    block->has_gate = spec->has_output_gate;
    TDM_CHECK(!block->has_gate || block->heads.dim == block->heads.value_dim);
    TDM_CHECK(!spec->is_qkv_fused || (block->owns_cache && !block->is_k_eq_v)); /* a family's */
    TDM_CHECK(!block->is_k_eq_v || block->heads.dim == block->heads.value_dim);
    TDM_TRY(load_qkv(block, loader, dims, spec, place->layer, err));
    TDM_TRY(tdm_loader_linear(loader, tdm_role_of(spec, TDM_ROLE_O), place->layer, dims->hidden,
                              (int64_t)block->heads.n * block->heads.value_dim, spec->o_bias,
                              &block->o, err));
    TDM_TRY(load_sinks(block, loader, spec, place->layer, err));
    return load_qk_norms(block, loader, spec, place->layer, err);
}

static void attention_unload(void *any, tdm_backend *backend) {
    tdm_attention_block *block = any;
    tdm_linear *const linears[] = {&block->q, &block->k, &block->v, &block->o};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        tdm_weight_deinit(backend, &linears[i]->weight);
    }
}

static void project(const tdm_attention_block *block, const tdm_step_ctx *ctx, const planes *p,
                    const float *h) {
    const tdm_linear_part parts[3] = {
        {&block->q.weight, block->q.bias, block->has_gate ? p->woven : p->q,
         block->has_gate ? 2 * p->ld_q : p->ld_q, false},
        {&block->k.weight, block->k.bias, p->k, p->ld_k, false},
        {&block->v.weight, block->v.bias, p->v, p->ld_v, false},
    };
    int32_t n_parts = !block->owns_cache ? 1 : block->is_k_eq_v ? 2 : 3;
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, parts, n_parts);
    if (block->owns_cache && block->is_k_eq_v) {
        memcpy(p->v, p->k, (size_t)(ctx->n_tokens * p->ld_k) * sizeof *p->v);
    }
    if (block->has_gate) {
        int64_t dim = block->heads.dim;
        const tdm_groups groups = {block->heads.n, dim, dim, 2 * dim};
        tdm_op_regroup(ctx->backend, p->q, p->ld_q, p->woven, 2 * p->ld_q, ctx->n_tokens, &groups);
        tdm_op_regroup(ctx->backend, p->gate, p->ld_q, p->woven + dim, 2 * p->ld_q, ctx->n_tokens,
                       &groups);
    }
}

static void norm_heads(const tdm_attention_block *block, const tdm_step_ctx *ctx, float *heads,
                       const tdm_norm *norm, int32_t n_heads) {
    int64_t n = ctx->n_tokens;
    int64_t dim = block->heads.dim;
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

static void rotate(const tdm_attention_block *block, const tdm_step_ctx *ctx, float *heads,
                   int32_t n_heads) {
    int32_t dim = block->heads.dim;
    tdm_op_rope(ctx->backend, heads, (int64_t)n_heads * dim, ctx->n_tokens, n_heads, dim,
                ctx->scratch->ropes[block->rope_idx], block->rope_dim / 2, ctx->dims->pairing);
}

/* k and v of the step as the cache keeps them. */
static void finish_keys(const tdm_attention_block *block, const tdm_step_ctx *ctx,
                        const planes *p) {
    int64_t value_dim = block->heads.value_dim;
    norm_heads(block, ctx, p->k, &block->k_norm, block->heads.n_kv);
    if (block->has_value_norm) {
        tdm_op_rms_norm(ctx->backend, p->v, value_dim, p->v, value_dim, NULL,
                        ctx->n_tokens * block->heads.n_kv, value_dim, ctx->dims->norm_eps);
    }
    if (block->rope_idx >= 0) {
        rotate(block, ctx, p->k, block->heads.n_kv);
    }
}

/* Fills the spans of every row: where its keys and values go, and what its queries read. */
static void plan_spans(const tdm_attention_block *block, const tdm_step_ctx *ctx, const planes *p) {
    const tdm_dims *dims = ctx->dims;
    const tdm_scratch *s = ctx->scratch;
    int64_t first = 0;
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        const tdm_step_row *row = &ctx->rows[r];
        tdm_cache *cache = row->state->caches[block->cache_idx];
        const tdm_kv_pages *pages = cache->ops->begin(cache, row->n_tokens);
        int64_t pos0 = cache->ops->length(cache);
        s->write_spans[r] = (tdm_kv_write_span){
            .pages = pages,
            .k = p->k + first * p->ld_k,
            .v = p->v + first * p->ld_v,
            .ld_k = p->ld_k,
            .ld_v = p->ld_v,
            .pos0 = pos0,
            .n = row->n_tokens,
        };
        s->read_spans[r] = (tdm_attention_span){
            .pages = pages,
            .q = p->q + first * p->ld_q,
            .out = p->mixed + first * p->ld_mixed,
            .ld_q = p->ld_q,
            .ld_out = p->ld_mixed,
            .pos0 = pos0,
            .n = row->n_tokens,
            .n_heads = block->heads.n,
            .window = block->window,
            .scale = dims->attention_scale,
            .softcap = dims->attention_softcap,
            .sinks = block->sinks,
        };
        first += row->n_tokens;
    }
}

static void attention_forward(const void *any, const tdm_step_ctx *ctx, const float *h,
                              tdm_block_out out) {
    const tdm_attention_block *block = any;
    const tdm_scratch *s = ctx->scratch;
    const tdm_linear_part last = {&block->o.weight, block->o.bias, out.to, ctx->dims->hidden,
                                  out.is_added};
    const planes p = cut(block, ctx);
    project(block, ctx, &p, h);
    norm_heads(block, ctx, p.q, &block->q_norm, block->heads.n);
    if (block->rope_idx >= 0) {
        rotate(block, ctx, p.q, block->heads.n);
    }
    plan_spans(block, ctx, &p);
    if (block->owns_cache) {
        finish_keys(block, ctx, &p);
        tdm_op_kv_write(ctx->backend, s->write_spans, ctx->n_rows);
    }
    tdm_op_attention(ctx->backend, s->read_spans, ctx->n_rows);
    if (block->has_gate) {
        static const tdm_activation SIGMOID = {.kind = TDM_GLU_SIGMOID};
        tdm_op_glu_mul(ctx->backend, &SIGMOID, p.gate, p.ld_q, p.gate, p.ld_q, p.mixed, p.ld_mixed,
                       ctx->n_tokens, p.ld_q);
    }
    tdm_op_linear(ctx->backend, block->has_gate ? p.gate : p.mixed, p.ld_mixed, ctx->n_tokens,
                  &last, 1);
}

const tdm_mixer_ops TDM_MIXER_ATTENTION_OPS = {
    .block_bytes = sizeof(tdm_attention_block),
    .load = attention_load,
    .unload = attention_unload,
    .sizes = attention_sizes,
    .geometry = attention_geometry,
    .forward = attention_forward,
};
