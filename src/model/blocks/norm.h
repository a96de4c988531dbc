/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms, and where they stand around a block. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_NORM_H
#define TDM_MODEL_BLOCKS_NORM_H

#include "model/blocks/loader.h"

typedef struct tdm_norm {
    tdm_norm_kind kind;
    const float *weight; /* [dim], the family's offset added; NULL: no norm here */
    const float *bias;   /* [dim]; NULL: none */
} tdm_norm;

/* Those before and after attention, or before and after the MLP. */
typedef struct tdm_norm_pair {
    tdm_norm pre, post;
    bool is_shared; /* no pre: the block reads what the one before it read */
} tdm_norm_pair;

/* The vector of role with the spec's offset added (the file's own memory where nothing has to be
 * done), and its bias where the spec's kind has one. */
TDM_NODISCARD tdm_status tdm_norm_load(tdm_norm *norm, tdm_loader *loader,
                                       const tdm_decoder_spec *spec, tdm_role role, int32_t layer,
                                       int64_t dim, tdm_error *err);
/* The norms that the spec's template has. */
TDM_NODISCARD tdm_status tdm_norm_pairs_load(tdm_norm_pair *attention, tdm_norm_pair *mlp,
                                             tdm_loader *loader, const tdm_decoder_spec *spec,
                                             int32_t layer, int64_t hidden, tdm_error *err);
/* out = norm x for n rows of dim, packed; in place allowed. */
void tdm_norm_forward(const tdm_norm *norm, tdm_backend *backend, float *out, const float *x,
                      int64_t n, int64_t dim, float eps);

#endif
