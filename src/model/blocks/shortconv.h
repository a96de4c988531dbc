/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated short convolution in place of attention: o(C * conv(B * x)), B, C, x from one product.
 * The decoder knows it by TDM_MIXER_CONV_OPS (blocks/mixer.h). Floor 5. */
#ifndef TDM_MODEL_BLOCKS_SHORTCONV_H
#define TDM_MODEL_BLOCKS_SHORTCONV_H

#include "model/blocks/mixer.h"

typedef struct tdm_shortconv_block {
    tdm_linear in;  /* [3 * hidden, hidden]: B, C, x */
    tdm_linear out; /* [hidden, hidden] */
    tdm_conv conv;
    int32_t cache_idx; /* in a state's caches */
} tdm_shortconv_block;

#endif
