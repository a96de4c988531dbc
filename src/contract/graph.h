/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph table: a model that can run steps. Floor 1.
 *
 * Laws:
 *  G1 forward appends every position of every row to that row's caches, commits them all and adds
 *     to state->length, or fails and leaves every row as it was; a row whose state was lost all the
 *     same is poisoned, and only destroy is legal then.
 *  G2 A row's logits depend on that row's tokens and state alone (law L1 of the backend, carried
 *     through).
 *  G3 forward allocates nothing for steps within the reserved limits on states with reserved
 *     room. */
#ifndef TDM_CONTRACT_GRAPH_H
#define TDM_CONTRACT_GRAPH_H

#include "contract/step.h"

typedef struct tdm_graph tdm_graph;

typedef struct tdm_graph_facts {
    const char *family; /* the config's model_type */
    int32_t n_layers;
    int32_t n_vocab;
    int32_t hidden;
    int64_t context_max; /* positions the model was made for */
    size_t weight_bytes; /* mapped and packed */
    int64_t n_params;
    bool has_head; /* else no step may ask for logits */
} tdm_graph_facts;

typedef struct tdm_graph_ops {
    /* Largest step from now on. */
    tdm_status (*reserve)(tdm_graph *graph, int32_t tokens_max, int32_t rows_max,
                          int32_t logits_max, tdm_error *err);
    /* The geometry of cache idx of a state, in layer order; false past the last. Layers that read a
     * donor's have none of their own. Whoever asks what a state costs, by kind or by layer, asks
     * this and the kind's own plan. */
    bool (*cache_at)(const tdm_graph *graph, int32_t idx, tdm_dtype kv_dtype, int32_t append_max,
                     tdm_kv_geometry *out);
    /* Bytes of caches for one sequence of n positions, when no step appends more of them at once
     * than reserve has made room for. */
    size_t (*state_plan)(const tdm_graph *graph, tdm_dtype kv_dtype, int64_t n_positions);
    tdm_status (*state_create)(tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                               tdm_state **out_state, tdm_error *err);
    /* Room for n more positions in every layer, so that later steps allocate nothing. A failure
     * changes nothing that can be read. */
    tdm_status (*state_reserve)(tdm_graph *graph, tdm_state *state, int64_t n_positions,
                                tdm_error *err);
    void (*state_destroy)(tdm_graph *graph, tdm_state *state);
    tdm_status (*forward)(tdm_graph *graph, const tdm_step *step, tdm_error *err);
    void (*destroy)(tdm_graph *graph);
} tdm_graph_ops;

struct tdm_graph {
    const tdm_graph_ops *ops;
    tdm_graph_facts facts;
};

#endif
