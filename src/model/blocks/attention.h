/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention block: q, k, v from a normed input, norms and rope on q and k, the caches, and the
 * output product. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_ATTENTION_H
#define TDM_MODEL_BLOCKS_ATTENTION_H

#include "model/blocks/norm.h"
#include "model/blocks/step_ctx.h"

typedef struct tdm_attention_block {
    tdm_linear q, k, v, o;
    tdm_norm q_norm; /* over head_dim, or none */
    tdm_norm k_norm;
    bool is_norm_full; /* over all heads instead */
    int32_t rope_idx;  /* of the scratch's ropes; -1: none */
    int32_t window;    /* 0: full */
    int32_t cache_idx; /* in a state's caches */
} tdm_attention_block;

TDM_NODISCARD tdm_status tdm_attention_load(tdm_attention_block *block, tdm_loader *loader,
                                            const tdm_dims *dims, const tdm_decoder_spec *spec,
                                            int32_t layer, tdm_error *err);
void tdm_attention_unload(tdm_attention_block *block, tdm_backend *backend);
/* h [n, hidden] is read. Room in the caches has been reserved; nothing is committed here. */
void tdm_attention_forward(const tdm_attention_block *block, const tdm_step_ctx *ctx,
                           const float *h, tdm_block_out out);

#endif
