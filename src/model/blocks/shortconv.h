/* SPDX-License-Identifier: Apache-2.0
 *
 * A gated short convolution in place of attention: o(C * conv(B * x)), B, C, x from one product.
 * Floor 5. */
#ifndef TDM_MODEL_BLOCKS_SHORTCONV_H
#define TDM_MODEL_BLOCKS_SHORTCONV_H

#include "model/blocks/loader.h"
#include "model/blocks/step_ctx.h"

typedef struct tdm_shortconv_block {
    tdm_linear in;     /* [3 * hidden, hidden]: B, C, x */
    tdm_linear out;    /* [hidden, hidden] */
    const float *taps; /* [hidden, n_taps], the newest position last */
    const float *bias; /* [hidden] or NULL */
    int32_t n_taps;
    int32_t cache_idx; /* in a state's caches */
} tdm_shortconv_block;

TDM_NODISCARD tdm_status tdm_shortconv_load(tdm_shortconv_block *block, tdm_loader *loader,
                                            const tdm_dims *dims, const tdm_decoder_spec *spec,
                                            int32_t layer, tdm_error *err);
void tdm_shortconv_unload(tdm_shortconv_block *block, tdm_backend *backend);
/* h [n, hidden] is read. Room in the caches has been reserved; nothing is committed here. */
void tdm_shortconv_forward(const tdm_shortconv_block *block, const tdm_step_ctx *ctx,
                           const float *h, tdm_block_out out);

/* What the convolution remembers, as a sliding cache of n_taps positions: the first half of the
 * channels as keys, the second as values, always F32. False when hidden cannot be laid out so. */
bool tdm_shortconv_geometry(int32_t hidden, int32_t n_taps, int32_t append_max,
                            tdm_kv_geometry *out);

#endif
