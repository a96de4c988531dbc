/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated delta net in place of attention: a short convolution over q, k and v, a state for each
 * value head that forgets and is corrected position by position, a norm and a gate. The decoder
 * knows it by TDM_MIXER_DELTA_OPS (blocks/mixer.h). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_GATED_DELTA_H
#define TDM_MODEL_BLOCKS_GATED_DELTA_H

#include "model/blocks/mixer.h"

typedef struct tdm_gated_delta_block {
    tdm_linear qkv; /* where woven: q, k, v, z of each key head in turn, and no z below */
    tdm_linear z;
    tdm_linear a; /* unused where woven */
    tdm_linear b; /* where woven: b, then a of each key head in turn */
    tdm_linear out;
    const float *norm; /* [value_dim] */
    tdm_delta_spec spec;
    tdm_conv conv;
    tdm_delta delta;
    int32_t cache_idx; /* in a state's caches */
} tdm_gated_delta_block;

/* Whether the taps of layer's convolution are stored as MLX does, [channels, n_taps, 1]. */
bool tdm_gated_delta_is_turned(const tdm_loader *loader, const tdm_decoder_spec *spec,
                               int32_t layer);

#endif
