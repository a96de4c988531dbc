/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts in place of an MLP: a router, experts of which each token takes some, and
 * perhaps one that all take. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_EXPERTS_H
#define TDM_MODEL_BLOCKS_EXPERTS_H

#include "model/blocks/mlp.h"

/* Which experts a token takes, and how much each of them weighs. */
typedef struct tdm_router {
    tdm_linear linear;       /* [n, hidden] */
    const float *correction; /* [n]: added to scores where experts are chosen, not where they are
                                weighed; NULL: none */
    int32_t n, n_used;
    int32_t n_groups, n_groups_used; /* 1: all experts are one group */
    tdm_router_kind kind;
    bool is_renormalized;
    float scale;          /* of all weights */
    const float *factors; /* [n]: of each expert's weight; NULL: none */
} tdm_router;

typedef struct tdm_experts_block {
    tdm_router router;
    tdm_mlp_block *experts; /* [router.n]; in the loader's arena */
    bool has_shared;
    tdm_mlp_block shared;
    tdm_linear shared_gate; /* [1, hidden]; its weight has no data where nothing gates */
} tdm_experts_block;

TDM_NODISCARD tdm_status tdm_experts_load(tdm_experts_block *block, tdm_loader *loader,
                                          const tdm_dims *dims, const tdm_decoder_spec *spec,
                                          int32_t layer, tdm_error *err);
void tdm_experts_unload(tdm_experts_block *block, tdm_backend *backend);
/* h [n, hidden] is read by the experts, asked [n, hidden] by the router: h, or the experts' scratch
 * gathered. */
void tdm_experts_forward(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h,
                         const float *asked, tdm_block_out out);

/* The choice for one token: the n_used largest scores with their corrections, largest first, the
 * lower index first among equals, and the weights by the router's kind. scores [n] come in as logits
 * and may be written over. Takes any floats; ids are always valid and distinct. */
void tdm_experts_choose(const tdm_router *router, float *scores, int32_t *ids, float *weights);

#endif
