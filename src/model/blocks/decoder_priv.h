/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder's own record, shared by its parts: building (decoder_load.c), scratch and states
 * (decoder_state.c), steps (decoder.c). Floor 5, private to model. */
#ifndef TDM_MODEL_BLOCKS_DECODER_PRIV_H
#define TDM_MODEL_BLOCKS_DECODER_PRIV_H

#include "contract/graph.h"
#include "model/blocks/beside.h"
#include "model/blocks/experts.h"
#include "model/blocks/mixer.h"
#include "model/blocks/mlp.h"
#include "model/blocks/norm.h"
#include "model/blocks/ple.h"
#include "model/model.h"

typedef struct tdm_decoder_layer {
    tdm_norm_pair mixer_norms;
    tdm_norm_pair mlp_norms;
    const tdm_mixer_ops *mixer; /* NULL: not loaded yet */
    void *mixer_block;          /* in the decoder's arena */
    tdm_mixer_place place;
    bool has_mlp, has_experts; /* one of them, or both: then beside says how */
    tdm_mlp_block mlp;
    tdm_experts_block experts;
    tdm_beside_block beside;
    tdm_ple_layer ple;
    float scale; /* of the residual after the layer; 1: none */
} tdm_decoder_layer;

typedef struct tdm_rope_table {
    const float *inv_freq; /* [dim / 2] */
    int32_t dim;
    float magnitude;
} tdm_rope_table;

typedef struct tdm_decoder {
    tdm_graph base;
    const tdm_alloc *alloc;
    tdm_backend *backend;
    tdm_tally *tally; /* of a plan; NULL: this one is loaded */
    tdm_arena arena;  /* layers, converted vectors, frequencies */
    tdm_arena work;   /* scratch; rebuilt by reserve */
    tdm_dims dims;
    tdm_decoder_layer *layers;
    int32_t n_caches;      /* of a state: layers that own one */
    tdm_mixer_sizes mixer; /* the largest of any layer */
    tdm_linear embed;
    tdm_linear head; /* unused when tied */
    bool is_tied;
    bool has_branch; /* blocks write apart from the residual: a norm or a factor comes between */
    float residual_scale;
    float logit_divisor;
    float embed_scale;
    float final_softcap;
    tdm_norm final_norm;
    tdm_ple ple;
    int32_t n_ropes;
    tdm_rope_table ropes[TDM_SPEC_ROPES_MAX];
    tdm_scratch scratch;
    int32_t tokens_max, rows_max, logits_max;
} tdm_decoder;

/* tdm_graph_create; with a tally over a planning backend, no weight is read. */
TDM_NODISCARD tdm_status tdm_decoder_create(tdm_decoder **out, const tdm_checkpoint *checkpoint,
                                            const tdm_model_config *config, tdm_backend *backend,
                                            const tdm_graph_options *options, tdm_tally *tally,
                                            tdm_error *err);

/* Fetches every weight. A failure leaves what was fetched to the decoder's destroy. */
TDM_NODISCARD tdm_status tdm_decoder_load(tdm_decoder *d, const tdm_checkpoint *checkpoint,
                                          const tdm_model_config *config,
                                          const tdm_decoder_spec *spec,
                                          const tdm_graph_options *options, tdm_error *err);

/* The entries of tdm_graph_ops that size things. */
TDM_NODISCARD tdm_status tdm_decoder_reserve(tdm_graph *graph, int32_t tokens_max, int32_t rows_max,
                                             int32_t logits_max, tdm_error *err);
bool tdm_decoder_cache_at(const tdm_graph *graph, int32_t idx, tdm_dtype kv_dtype,
                          int32_t append_max, tdm_kv_geometry *out);
size_t tdm_decoder_state_plan(const tdm_graph *graph, tdm_dtype kv_dtype, int64_t n_positions);
TDM_NODISCARD tdm_status tdm_decoder_state_create(tdm_graph *graph, tdm_dtype kv_dtype,
                                                  int32_t append_max, tdm_state **out_state,
                                                  tdm_error *err);
TDM_NODISCARD tdm_status tdm_decoder_state_reserve(tdm_graph *graph, tdm_state *state,
                                                   int64_t n_positions, tdm_error *err);
void tdm_decoder_state_destroy(tdm_graph *graph, tdm_state *state);

#endif
