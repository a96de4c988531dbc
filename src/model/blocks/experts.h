/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts in place of an MLP: a router, experts of which each token takes some, and
 * perhaps one that all take. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_EXPERTS_H
#define TDM_MODEL_BLOCKS_EXPERTS_H

#include "model/blocks/mlp.h"

typedef struct tdm_experts_block {
    tdm_linear router;      /* [n, hidden] */
    tdm_mlp_block *experts; /* [n]; in the loader's arena */
    int32_t n, n_used;
    bool is_renormalized;
    bool has_shared;
    tdm_mlp_block shared;
    tdm_linear shared_gate; /* [1, hidden] */
} tdm_experts_block;

TDM_NODISCARD tdm_status tdm_experts_load(tdm_experts_block *block, tdm_loader *loader,
                                          const tdm_dims *dims, const tdm_decoder_spec *spec,
                                          int32_t layer, tdm_error *err);
void tdm_experts_unload(tdm_experts_block *block, tdm_backend *backend);
/* h [n, hidden] is read. */
void tdm_experts_forward(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h,
                         tdm_block_out out);

/* The choice for one token: the n_used largest of logits [n], largest first, the lower index first
 * among equals; weights are the softmax over all n, divided by their sum if is_renormalized. Takes
 * any floats; ids are always valid and distinct. */
void tdm_experts_choose(const float *logits, int32_t n, int32_t n_used, bool is_renormalized,
                        int32_t *ids, float *weights);

#endif
