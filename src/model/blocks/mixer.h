/* SPDX-License-Identifier: Apache-2.0
 *
 * What mixes positions in a layer, as a table: the decoder runs attention, convolutions and whatever
 * comes next through it and never asks which it has. Floor 5.
 *
 * To add one: a file with a block, its tdm_mixer_ops, a name in tdm_mixer (model/family.h) and a line
 * in mixer.c. */
#ifndef TDM_MODEL_BLOCKS_MIXER_H
#define TDM_MODEL_BLOCKS_MIXER_H

#include "contract/cache.h"
#include "model/blocks/loader.h"
#include "model/blocks/step_ctx.h"

/* Where a block stands in its model. */
typedef struct tdm_mixer_place {
    int32_t layer;
    int32_t cache_idx; /* in a state's caches: the layer's own, or its donor's */
    bool owns_cache;   /* else only reads it: nothing is written, nothing is planned */
} tdm_mixer_place;

typedef struct tdm_mixer_sizes {
    int64_t scratch; /* floats of tdm_scratch.mix for each token */
    int64_t fixed;   /* and behind them, however many tokens a step has */
    int64_t widest;  /* longest row that a product of the block reads */
} tdm_mixer_sizes;

typedef struct tdm_mixer_ops {
    size_t block_bytes; /* of the block, zeroed before load */
    /* Fetches the weights. A failure leaves what was fetched to unload. */
    tdm_status (*load)(void *block, tdm_loader *loader, const tdm_dims *dims,
                       const tdm_decoder_spec *spec, const tdm_mixer_place *place, tdm_error *err);
    /* Any zeroed or half loaded block is legal. */
    void (*unload)(void *block, tdm_backend *backend);
    tdm_mixer_sizes (*sizes)(const void *block, const tdm_dims *dims);
    /* The layer's memory of one sequence. kv_dtype is what was asked for; a block may insist on
     * another. */
    tdm_kv_geometry (*geometry)(const void *block, const tdm_dims *dims, tdm_dtype kv_dtype,
                                int32_t append_max);
    /* h [n, hidden] is read. Room in the caches has been reserved; nothing is committed here. */
    void (*forward)(const void *block, const tdm_step_ctx *ctx, const float *h, tdm_block_out out);
} tdm_mixer_ops;

extern const tdm_mixer_ops TDM_MIXER_ATTENTION_OPS; /* attention.c */
extern const tdm_mixer_ops TDM_MIXER_CONV_OPS;      /* shortconv.c */
extern const tdm_mixer_ops TDM_MIXER_DELTA_OPS;     /* gated_delta.c */
extern const tdm_mixer_ops TDM_MIXER_LATENT_OPS;    /* latent.c */

const tdm_mixer_ops *tdm_mixer_ops_of(tdm_mixer mixer);

#endif
