/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model will weigh, before any weight is read. Floor 5. The plan is the loader's own walk
 * over a checkpoint with a backend that packs nothing: what a family asks for is what is counted,
 * and what loading would refuse is refused here with the same words. */
#ifndef TDM_MODEL_PLAN_H
#define TDM_MODEL_PLAN_H

#include "contract/graph.h"
#include "model/model.h"

/* What a weight is for. */
typedef enum tdm_section {
    TDM_SECTION_EMBEDDING,
    TDM_SECTION_ATTENTION, /* whatever mixes positions */
    TDM_SECTION_MLP,       /* dense ones, routers, and experts that every token takes */
    TDM_SECTION_EXPERTS,   /* that a router chooses from */
    TDM_SECTION_HEAD,
    TDM_SECTION_NORMS,
    TDM_SECTION_COUNT
} tdm_section;

/* "embedding", "attention", ... */
extern const char *const TDM_SECTION_NAMES[TDM_SECTION_COUNT];

typedef struct tdm_section_weights {
    int64_t n_params;
    int64_t n_active;    /* of those, what one token passes through: chosen experts only */
    size_t stored_bytes; /* in the files, of the tensors that are used */
    size_t loaded_bytes; /* in memory: packed where the backend packs, else mapped as stored */
    size_t token_bytes;  /* of loaded_bytes, what computing one more token reads */
} tdm_section_weights;

typedef struct tdm_weight_plan {
    tdm_section_weights sections[TDM_SECTION_COUNT];
    tdm_section_weights total;
    size_t converted_bytes; /* of the loaded: vectors that were no F32 */
    size_t packed_bytes;    /* of the loaded: in the backend's layouts; the rest is mapped */
} tdm_weight_plan;

/* The caches of a state that are of one kind, and for sliding ones of one window. */
typedef struct tdm_cache_group {
    const char *kind; /* "full", "sliding", ...: tdm_cache_kind */
    int32_t n_layers;
    int32_t window;     /* 0 where the kind has none */
    size_t token_bytes; /* what one more position costs when everything that ends has ended: 0
                           where the kind forgets */
    size_t bytes;       /* at the positions that were asked about */
} tdm_cache_group;

#define TDM_CACHE_GROUPS_MAX 8

/* Groups in order of their first layers; returns how many. What would be a ninth is added to the
 * eighth. append_max as for state_create. Their bytes add up to graph's state_plan. */
int32_t tdm_graph_cache_groups(const tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                               int64_t n_positions, tdm_cache_group out[TDM_CACHE_GROUPS_MAX]);

typedef struct tdm_graph_plan tdm_graph_plan;

/* Errors: those of tdm_graph_create. No byte of a tensor is read. Borrows checkpoint and backend:
 * both outlive the plan. Owns: caller destroys. */
TDM_NODISCARD tdm_status tdm_graph_plan_create(tdm_graph_plan **out_plan,
                                               const tdm_checkpoint *checkpoint,
                                               const tdm_model_config *config, tdm_backend *backend,
                                               const tdm_graph_options *options, tdm_error *err);
/* NULL-safe. */
void tdm_graph_plan_destroy(tdm_graph_plan *plan);
const tdm_weight_plan *tdm_graph_plan_weights(const tdm_graph_plan *plan);
/* The graph that it would be. facts, reserve, state_plan, cache_at and states are as the loaded
 * graph has them; forward must not be called: there are no weights. Borrowed until destroy. */
tdm_graph *tdm_graph_plan_graph(const tdm_graph_plan *plan);

#endif
