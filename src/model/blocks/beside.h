/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture of experts beside an MLP instead of in its place, with norms of their own and a router
 * that reads the residual. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_BESIDE_H
#define TDM_MODEL_BLOCKS_BESIDE_H

#include "model/blocks/experts.h"
#include "model/blocks/norm.h"

typedef struct tdm_beside_block {
    tdm_norm mlp_post;  /* of the MLP's result */
    tdm_norm pre, post; /* around the experts */
    tdm_norm router;    /* before the router: its scale over sqrt(hidden) for weights */
} tdm_beside_block;

/* The norms, and each expert's factor into the router of experts, which has been loaded. */
TDM_NODISCARD tdm_status tdm_beside_load(tdm_beside_block *block, tdm_experts_block *experts,
                                         tdm_loader *loader, const tdm_dims *dims,
                                         const tdm_decoder_spec *spec, int32_t layer,
                                         tdm_error *err);
/* branch [n, hidden] holds the MLP's result; branch = norm branch + norm experts(norm x). */
void tdm_beside_forward(const tdm_beside_block *block, const tdm_experts_block *experts,
                        const tdm_step_ctx *ctx);

#endif
