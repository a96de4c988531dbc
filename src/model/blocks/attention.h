/* SPDX-License-Identifier: Apache-2.0
 *
 * The attention block: q, k, v from a normed input, norms and rope on q and k, the caches, and the
 * output product. The decoder knows it by TDM_MIXER_ATTENTION_OPS (blocks/mixer.h). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_ATTENTION_H
#define TDM_MODEL_BLOCKS_ATTENTION_H

#include "model/blocks/mixer.h"
#include "model/blocks/norm.h"

typedef struct tdm_attention_block {
    tdm_linear q, k, v, o;
    tdm_norm q_norm; /* over head_dim, or none */
    tdm_norm k_norm;
    bool is_norm_full;  /* over all heads instead */
    const float *sinks; /* [heads.n] or NULL */
    tdm_heads_spec heads;
    int32_t rope_idx;  /* of the scratch's ropes; -1: none */
    int32_t rope_dim;  /* leading values of a head that it turns */
    int32_t window;    /* 0: full */
    int32_t cache_idx; /* in a state's caches */
    bool owns_cache;   /* else k, v and k_norm are another layer's: none here */
    bool is_k_eq_v;    /* no v */
    bool has_value_norm;
    bool has_gate; /* rows of q: each head's q, then its gate */
} tdm_attention_block;

#endif
