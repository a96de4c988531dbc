/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated short convolution in place of attention: o(C * conv(B * x)), B, C, x from one product.
 * The decoder knows it by TDM_MIXER_CONV_OPS (blocks/mixer.h). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_SHORTCONV_H
#define TDM_MODEL_BLOCKS_SHORTCONV_H

#include "model/blocks/mixer.h"

typedef struct tdm_shortconv_block {
    tdm_linear in;     /* [3 * hidden, hidden]: B, C, x */
    tdm_linear out;    /* [hidden, hidden] */
    const float *taps; /* [hidden, n_taps], the newest position last */
    const float *bias; /* [hidden] or NULL */
    int32_t n_taps;
    int32_t cache_idx; /* in a state's caches */
} tdm_shortconv_block;

/* What the convolution remembers, as a sliding cache of n_taps positions: the first half of the
 * channels as keys, the second as values, always F32. False when hidden cannot be laid out so. */
bool tdm_shortconv_geometry(int32_t hidden, int32_t n_taps, int32_t append_max,
                            tdm_kv_geometry *out);

#endif
