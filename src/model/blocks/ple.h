/* SPDX-License-Identifier: Apache-2.0
 *
 * Per-layer embeddings: a second, narrow embedding of each token that every layer has for itself,
 * mixed with a projection of the token's first one, and added to the residual behind a gate.
 * Floor 5. */
#ifndef TDM_MODEL_BLOCKS_PLE_H
#define TDM_MODEL_BLOCKS_PLE_H

#include "model/blocks/norm.h"
#include "model/blocks/step_ctx.h"

/* Of a model; dim 0: it has none. */
typedef struct tdm_ple {
    int32_t dim;        /* of a layer's share */
    int64_t width;      /* of all layers' */
    tdm_linear table;   /* [n_vocab, width]: rows are gathered, never multiplied */
    tdm_linear context; /* [width, hidden] */
    tdm_norm norm;      /* [dim]: of each layer's share of the context */
} tdm_ple;

/* Of a layer. */
typedef struct tdm_ple_layer {
    tdm_linear gate;    /* [dim, hidden] */
    tdm_linear project; /* [hidden, dim] */
    tdm_norm norm;      /* [hidden] */
} tdm_ple_layer;

/* Nothing where the spec has none. A failure leaves what was fetched to unload. */
TDM_NODISCARD tdm_status tdm_ple_load(tdm_ple *ple, tdm_loader *loader, const tdm_dims *dims,
                                      const tdm_decoder_spec *spec, int32_t n_layers,
                                      tdm_error *err);
TDM_NODISCARD tdm_status tdm_ple_layer_load(tdm_ple_layer *block, tdm_loader *loader,
                                            const tdm_dims *dims, const tdm_decoder_spec *spec,
                                            int32_t layer, tdm_error *err);
void tdm_ple_unload(tdm_ple *ple, tdm_backend *backend);
void tdm_ple_layer_unload(tdm_ple_layer *block, tdm_backend *backend);

/* Fills the scratch with every layer's input, from the tokens and their embeddings x [n, hidden].
 * Errors: TDM_E_ARG (a token without a row). */
TDM_NODISCARD tdm_status tdm_ple_prepare(const tdm_ple *ple, const tdm_step_ctx *ctx,
                                         tdm_error *err);
/* x += norm(project(act(gate x) * the layer's input)). */
void tdm_ple_forward(const tdm_ple *ple, const tdm_ple_layer *block, const tdm_step_ctx *ctx,
                     int32_t layer);

#endif
