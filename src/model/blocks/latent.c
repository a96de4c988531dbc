/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent attention. Keys and values of all heads are linear in one row c of kv_rank values, so
 * that q . k_h = (W_k,h' q_h) . c and sum of p * v_h = W_v,h (sum of p * c): a query is multiplied
 * into the space of c, attention runs with one key head whose row is its value too, and what it read
 * is multiplied out. The row ends with the one rotated key that all heads share.
 *
 *   h -> q_a -> norm -> q -> rope on the last part of a head -> first part into the latent space
 *   h -> [c | k_pe] -> norm c, rope k_pe -> cache -> attention -> out of the latent space -> o
 *
 * Prompts run in the same form as single tokens, though expanding keys would cost them less: one
 * order of sums for every number of rows (law L1). */
#include "model/blocks/latent.h"

#include "tensor/ops.h"

#include <string.h>

/* Where a step's rows lie in the scratch: packed one after another. */
typedef struct planes {
    float *low; /* [n, q_rank] */
    float *q;   /* [n, n_heads, nope + rope]; later what left the latent space, [n, n_heads, v] */
    float *inside; /* [n, n_heads, kv_rank + rope]: queries in the latent space */
    float *row;    /* [n, kv_rank + rope] */
    float *mixed;  /* [n, n_heads, kv_rank] */
    tdm_indexer_planes index;
    int64_t ld_q, ld_inside, ld_row, ld_mixed, ld_out;
} planes;

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t head_dim(const tdm_latent_block *block) {
    return (int64_t)block->nope_dim + block->rope_dim;
}

static int64_t row_dim(const tdm_latent_block *block) {
    return (int64_t)block->kv_rank + block->rope_dim;
}

/* Of the plane that q and what comes out share. */
static int64_t wide_dim(const tdm_latent_block *block) {
    return block->n_heads * larger(head_dim(block), block->value_dim);
}

static planes cut(const tdm_latent_block *block, const tdm_step_ctx *ctx) {
    int64_t n = ctx->n_tokens;
    planes p = {
        .ld_q = block->n_heads * head_dim(block),
        .ld_inside = block->n_heads * row_dim(block),
        .ld_row = row_dim(block),
        .ld_mixed = (int64_t)block->n_heads * block->kv_rank,
        .ld_out = (int64_t)block->n_heads * block->value_dim,
    };
    p.low = ctx->scratch->mix;
    p.q = p.low + n * block->q_rank;
    p.inside = p.q + n * wide_dim(block);
    p.row = p.inside + n * p.ld_inside;
    p.mixed = p.row + n * p.ld_row;
    p.index.q = p.mixed + n * p.ld_mixed;
    p.index.k = p.index.q + n * block->indexer.n_heads * block->indexer.dim;
    p.index.weights = p.index.k + n * block->indexer.dim;
    return p;
}

static tdm_mixer_sizes latent_sizes(const void *any, const tdm_dims *dims) {
    const tdm_latent_block *block = any;
    const tdm_indexer_block *indexer = &block->indexer;
    int64_t index = (int64_t)indexer->n_heads * indexer->dim + indexer->dim + indexer->n_heads;
    int64_t inside = block->n_heads * (row_dim(block) + block->kv_rank) + row_dim(block);
    int64_t widest =
        larger(larger(dims->hidden, block->q_rank), (int64_t)block->n_heads * block->value_dim);
    return (tdm_mixer_sizes){.scratch = block->q_rank + wide_dim(block) + inside + index,
                             .widest = larger(widest, larger(block->kv_rank, block->nope_dim))};
}

static tdm_kv_geometry latent_geometry(const void *any, const tdm_dims *dims, tdm_dtype kv_dtype,
                                       int32_t append_max) {
    const tdm_latent_block *block = any;
    (void)dims;
    return (tdm_kv_geometry){
        .dtype = kv_dtype,
        .n_kv_heads = 1,
        .head_dim = (int32_t)row_dim(block),
        .value_dim = block->kv_rank,
        .append_max = append_max,
        .is_latent = true,
        .index_dim = block->indexer.dim,
    };
}

static tdm_status latent_load(void *any, tdm_loader *loader, const tdm_dims *dims,
                              const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                              tdm_error *err) {
    return tdm_latent_load(any, loader, dims, spec, place, err);
}

static void latent_unload(void *any, tdm_backend *backend) {
    tdm_latent_unload(any, backend);
}

/* All products that read h share one call, and so do those that read the low rank. */
static void project(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p,
                    const float *h) {
    const tdm_indexer_block *indexer = &block->indexer;
    bool has_low = block->q_rank > 0;
    int64_t ld_index = (int64_t)indexer->n_heads * indexer->dim;
    const tdm_linear_part from_h[TDM_LINEAR_PARTS_MAX] = {
        has_low
            ? (tdm_linear_part){&block->q_a.weight, block->q_a.bias, p->low, block->q_rank, false}
            : (tdm_linear_part){&block->q.weight, block->q.bias, p->q, p->ld_q, false},
        {&block->kv.weight, block->kv.bias, p->row, p->ld_row, false},
        {&indexer->k.weight, NULL, p->index.k, indexer->dim, false},
        {&indexer->weights.weight, NULL, p->index.weights, indexer->n_heads, false},
    };
    const tdm_linear_part from_low[2] = {
        {&block->q.weight, NULL, p->q, p->ld_q, false},
        {&indexer->q.weight, NULL, p->index.q, ld_index, false},
    };
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, from_h,
                  indexer->n_heads > 0 ? 4 : 2);
    if (has_low) {
        tdm_norm_forward(&block->q_norm, ctx->backend, p->low, p->low, ctx->n_tokens, block->q_rank,
                         ctx->dims->latent_eps);
        tdm_op_linear(ctx->backend, p->low, block->q_rank, ctx->n_tokens, from_low,
                      indexer->n_heads > 0 ? 2 : 1);
    }
}

static void rotate(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p) {
    const float *table = ctx->scratch->ropes[0];
    int64_t n = ctx->n_tokens;
    tdm_op_rms_norm(ctx->backend, p->row, p->ld_row, p->row, p->ld_row, block->kv_norm.weight, n,
                    block->kv_rank, ctx->dims->latent_eps);
    /* The part that rotates is the last of a head: heads are told to begin there. */
    tdm_op_rope(ctx->backend, p->q + block->nope_dim, p->ld_q, n, block->n_heads,
                (int32_t)head_dim(block), table, block->rope_dim / 2, ctx->dims->pairing);
    tdm_op_rope(ctx->backend, p->row + block->kv_rank, p->ld_row, n, 1, block->rope_dim, table,
                block->rope_dim / 2, ctx->dims->pairing);
    if (block->indexer.n_heads > 0) {
        tdm_indexer_prepare(&block->indexer, ctx, &p->index, table, block->rope_dim);
    }
}

/* Queries into the latent space, head by head; the rotated part goes along as it is. */
static void enter(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p) {
    size_t rope_bytes = (size_t)block->rope_dim * sizeof(float);
    for (int32_t h = 0; h < block->n_heads; h++) {
        const float *q = p->q + h * head_dim(block);
        float *inside = p->inside + h * row_dim(block);
        const tdm_linear_part part = {&block->into[h], NULL, inside, p->ld_inside, false};
        tdm_op_linear(ctx->backend, q, p->ld_q, ctx->n_tokens, &part, 1);
        for (int64_t t = 0; t < ctx->n_tokens; t++) {
            memcpy(inside + t * p->ld_inside + block->kv_rank, q + t * p->ld_q + block->nope_dim,
                   rope_bytes);
        }
    }
}

static void leave(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p) {
    for (int32_t h = 0; h < block->n_heads; h++) {
        const tdm_linear_part part = {&block->out_of[h], NULL, p->q + (int64_t)h * block->value_dim,
                                      p->ld_out, false};
        tdm_op_linear(ctx->backend, p->mixed + (int64_t)h * block->kv_rank, p->ld_mixed,
                      ctx->n_tokens, &part, 1);
    }
}

static void plan_writes(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p) {
    int64_t first = 0;
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        const tdm_step_row *row = &ctx->rows[r];
        tdm_cache *cache = row->state->caches[block->cache_idx];
        ctx->scratch->write_spans[r] = (tdm_kv_write_span){
            .pages = cache->ops->begin(cache, row->n_tokens),
            .k = p->row + first * p->ld_row,
            .index = p->index.k + first * block->indexer.dim,
            .ld_k = p->ld_row,
            .ld_index = block->indexer.dim,
            .pos0 = cache->ops->length(cache),
            .n = row->n_tokens,
        };
        first += row->n_tokens;
    }
}

/* The tokens of each row that see a list (is_listed), or those that see all before them: the first
 * top k positions of a sequence, and everything where there is no top k. */
static void attend(const tdm_latent_block *block, const tdm_step_ctx *ctx, const planes *p,
                   bool is_listed) {
    const tdm_choice_scratch *choice = &ctx->scratch->choice;
    tdm_attention_span *spans = ctx->scratch->read_spans;
    int64_t first = 0;
    int32_t n_spans = 0;
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        const tdm_kv_write_span *row = &ctx->scratch->write_spans[r];
        int64_t n_dense = row->n;
        if (block->index_top_k > 0) {
            n_dense = larger(0, block->index_top_k - row->pos0);
            n_dense = n_dense < row->n ? n_dense : row->n;
        }
        int64_t from = is_listed ? n_dense : 0;
        int64_t n = is_listed ? row->n - n_dense : n_dense;
        int64_t token = first + from;
        first += row->n;
        if (n == 0) {
            continue;
        }
        spans[n_spans++] = (tdm_attention_span){
            .pages = row->pages,
            .q = p->inside + token * p->ld_inside,
            .out = p->mixed + token * p->ld_mixed,
            .ld_q = p->ld_inside,
            .ld_out = p->ld_mixed,
            .pos0 = row->pos0 + from,
            .n = (int32_t)n,
            .n_heads = block->n_heads,
            .scale = ctx->dims->attention_scale,
            .softcap = ctx->dims->attention_softcap,
            .chosen = is_listed ? choice->lists + token * choice->top_k : NULL,
            .n_chosen = is_listed ? choice->counts : NULL,
            .ld_chosen = choice->top_k,
        };
    }
    tdm_op_attention(ctx->backend, spans, n_spans);
}

static void latent_forward(const void *any, const tdm_step_ctx *ctx, const float *h,
                           tdm_block_out out) {
    const tdm_latent_block *block = any;
    const tdm_linear_part last = {&block->o.weight, block->o.bias, out.to, ctx->dims->hidden,
                                  out.is_added};
    const planes p = cut(block, ctx);
    project(block, ctx, &p, h);
    rotate(block, ctx, &p);
    enter(block, ctx, &p);
    plan_writes(block, ctx, &p);
    tdm_op_kv_write(ctx->backend, ctx->scratch->write_spans, ctx->n_rows);
    if (block->indexer.n_heads > 0) {
        tdm_indexer_choose(&block->indexer, ctx, &p.index);
    }
    attend(block, ctx, &p, false);
    if (block->index_top_k > 0) {
        attend(block, ctx, &p, true);
    }
    leave(block, ctx, &p);
    tdm_op_linear(ctx->backend, p.q, p.ld_out, ctx->n_tokens, &last, 1);
}

const tdm_mixer_ops TDM_MIXER_LATENT_OPS = {
    .block_bytes = sizeof(tdm_latent_block),
    .load = latent_load,
    .unload = latent_unload,
    .sizes = latent_sizes,
    .geometry = latent_geometry,
    .forward = latent_forward,
};
