/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent attention (MLA) as a mixer: the cache keeps one compressed row a position, and queries are
 * brought into its space. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_LATENT_H
#define TDM_MODEL_BLOCKS_LATENT_H

#include "model/blocks/indexer.h"
#include "model/blocks/mixer.h"

typedef struct tdm_latent_block {
    tdm_linear q_a; /* [q_rank, hidden]; its weight has no data where q_rank is 0 */
    tdm_norm q_norm;
    tdm_linear q;  /* [n_heads * (nope + rope), q_rank or hidden] */
    tdm_linear kv; /* [kv_rank + rope, hidden] */
    tdm_norm kv_norm;
    tdm_weight *into;   /* [n_heads]: [kv_rank, nope], a query's head into the latent space */
    tdm_weight *out_of; /* [n_heads]: [value, kv_rank], what was read out of it */
    tdm_linear o;       /* [hidden, n_heads * value] */
    tdm_indexer_block indexer;
    int32_t n_heads, q_rank, kv_rank, nope_dim, rope_dim, value_dim;
    int32_t index_top_k; /* 0: every query sees every position before it */
    int32_t cache_idx;
} tdm_latent_block;

/* latent_load.c. A failure leaves what was fetched to unload. */
TDM_NODISCARD tdm_status tdm_latent_load(tdm_latent_block *block, tdm_loader *loader,
                                         const tdm_dims *dims, const tdm_decoder_spec *spec,
                                         const tdm_mixer_place *place, tdm_error *err);
void tdm_latent_unload(tdm_latent_block *block, tdm_backend *backend);

#endif
