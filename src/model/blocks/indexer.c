/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer. Scores are made for some positions at a time and cut down to the best k so far: the
 * room is k and a piece, however long the sequence, and the choice is that of all at once (the order
 * by score, then by position, is total). Source: transformers 5.17,
 * models/glm_moe_dsa/modeling_glm_moe_dsa.py; its Hadamard twin in llama.cpp changes no score. */
#include "model/blocks/indexer.h"

#include "model/blocks/parts.h"
#include "model/blocks/topk.h"
#include "tensor/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 160
#define NORM_EPS 1e-6F /* transformers'; mlx-lm's default is 1e-5 (spec/models.md 9.4) */

static tdm_status load_norm(tdm_norm *norm, tdm_loader *loader, int32_t dim, int32_t layer,
                            tdm_error *err) {
    char name[NAME_MAX_BYTES];
    norm->kind = TDM_NORM_LAYER;
    TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_INDEX_K_NORM, layer, dim, &norm->weight, err));
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(name, sizeof name, "blk.%d.indexer.k_norm.bias", (int)layer);
    } else {
        (void)snprintf(name, sizeof name, "%slayers.%d.self_attn.indexer.k_norm.bias",
                       loader->prefix, (int)layer);
    }
    return tdm_part_vector(loader, name, dim, &norm->bias, err);
}

tdm_status tdm_indexer_load(tdm_indexer_block *block, tdm_loader *loader, const tdm_dims *dims,
                            const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    const tdm_latent_spec *latent = &spec->latent;
    block->n_heads = latent->index_heads;
    block->dim = latent->index_dim;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_INDEX_Q, layer, (int64_t)block->n_heads * block->dim,
                              latent->q_rank, TDM_BIAS_NONE, &block->q, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_INDEX_K, layer, block->dim, dims->hidden,
                              TDM_BIAS_NONE, &block->k, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_INDEX_WEIGHTS, layer, block->n_heads, dims->hidden,
                              TDM_BIAS_NONE, &block->weights, err));
    return load_norm(&block->k_norm, loader, block->dim, layer, err);
}

void tdm_indexer_unload(tdm_indexer_block *block, tdm_backend *backend) {
    tdm_weight_deinit(backend, &block->q.weight);
    tdm_weight_deinit(backend, &block->k.weight);
    tdm_weight_deinit(backend, &block->weights.weight);
}

void tdm_indexer_prepare(const tdm_indexer_block *block, const tdm_step_ctx *ctx,
                         const tdm_indexer_planes *planes, const float *rope, int32_t rope_dim) {
    int64_t n = ctx->n_tokens;
    int64_t dim = block->dim;
    float scale = (float)(1.0 / sqrt((double)block->n_heads * (double)dim));
    tdm_norm_forward(&block->k_norm, ctx->backend, planes->k, planes->k, n, dim, NORM_EPS);
    tdm_op_rope(ctx->backend, planes->k, dim, n, 1, block->dim, rope, rope_dim / 2,
                TDM_ROPE_NEIGHBOURS);
    tdm_op_rope(ctx->backend, planes->q, block->n_heads * dim, n, block->n_heads, block->dim, rope,
                rope_dim / 2, TDM_ROPE_NEIGHBOURS);
    for (int64_t i = 0; i < n * block->n_heads; i++) {
        planes->weights[i] *= scale; /* no backend has an operation for it */
    }
}

/* The list of one token at position pos. */
static void choose_one(const tdm_indexer_block *block, const tdm_step_ctx *ctx,
                       const tdm_kv_pages *pages, const float *q, const float *weights, int64_t pos,
                       int32_t *list) {
    const tdm_choice_scratch *choice = &ctx->scratch->choice;
    int64_t n = 0;
    for (int64_t from = 0; from <= pos; from += TDM_CHOICE_PIECE) {
        int64_t left = pos + 1 - from;
        int32_t piece = (int32_t)(left < TDM_CHOICE_PIECE ? left : TDM_CHOICE_PIECE);
        const tdm_index_span ask = {.pages = pages,
                                    .q = q,
                                    .weights = weights,
                                    .out = choice->scores + n,
                                    .pos0 = from,
                                    .n = piece,
                                    .n_heads = block->n_heads};
        tdm_op_index_scores(ctx->backend, &ask, 1);
        for (int32_t i = 0; i < piece; i++) {
            choice->ids[n + i] = (int32_t)(from + i);
        }
        n = tdm_topk_keep(choice->scores, choice->ids, n + piece, choice->top_k);
    }
    memcpy(list, choice->ids, (size_t)choice->top_k * sizeof *list);
}

void tdm_indexer_choose(const tdm_indexer_block *block, const tdm_step_ctx *ctx,
                        const tdm_indexer_planes *planes) {
    const tdm_choice_scratch *choice = &ctx->scratch->choice;
    int64_t token = 0;
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        const tdm_kv_write_span *span = &ctx->scratch->write_spans[r];
        for (int32_t i = 0; i < span->n; i++, token++) {
            if (span->pos0 + i >= choice->top_k) {
                choose_one(block, ctx, span->pages, planes->q + token * block->n_heads * block->dim,
                           planes->weights + token * block->n_heads, span->pos0 + i,
                           choice->lists + token * choice->top_k);
            }
        }
    }
}
