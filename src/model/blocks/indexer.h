/* SPDX-License-Identifier: Apache-2.0
 *
 * The indexer of sparse attention (DSA): which positions a query sees. Floor 5. A layer with an
 * indexer chooses; the layers behind it that have none see what was chosen last. */
#ifndef TDM_MODEL_BLOCKS_INDEXER_H
#define TDM_MODEL_BLOCKS_INDEXER_H

#include "model/blocks/loader.h"
#include "model/blocks/norm.h"
#include "model/blocks/step_ctx.h"

typedef struct tdm_indexer_block {
    tdm_linear q;       /* [n_heads * dim, q_rank] */
    tdm_linear k;       /* [dim, hidden] */
    tdm_linear weights; /* [n_heads, hidden] */
    tdm_norm k_norm;
    int32_t n_heads; /* 0: the layer has no indexer */
    int32_t dim;
} tdm_indexer_block;

/* What the products of a step made: [n, n_heads * dim], [n, dim], [n, n_heads]. */
typedef struct tdm_indexer_planes {
    float *q, *k, *weights;
} tdm_indexer_planes;

TDM_NODISCARD tdm_status tdm_indexer_load(tdm_indexer_block *block, tdm_loader *loader,
                                          const tdm_dims *dims, const tdm_decoder_spec *spec,
                                          int32_t layer, tdm_error *err);
void tdm_indexer_unload(tdm_indexer_block *block, tdm_backend *backend);
/* Norms, rotates and scales what the products made, in place: k is then what the cache keeps. */
void tdm_indexer_prepare(const tdm_indexer_block *block, const tdm_step_ctx *ctx,
                         const tdm_indexer_planes *planes, const float *rope, int32_t rope_dim);
/* Fills the step's lists (tdm_choice_scratch) for every token that has more positions before it and
 * at it than top k. write_spans say where each row lies; their keys have been written. */
void tdm_indexer_choose(const tdm_indexer_block *block, const tdm_step_ctx *ctx,
                        const tdm_indexer_planes *planes);

#endif
