/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning: the decoder is built over a backend that answers like the real one and packs nothing,
 * and what its loader counted is summed up. There is no second list of tensors to keep in step. */
#include "model/plan.h"

#include "cache/cache.h"
#include "model/blocks/decoder_priv.h"

#include <string.h>

const char *const TDM_SECTION_NAMES[TDM_SECTION_COUNT] = {
    [TDM_SECTION_EMBEDDING] = "embedding",
    [TDM_SECTION_ATTENTION] = "attention",
    [TDM_SECTION_MLP] = "mlp",
    [TDM_SECTION_EXPERTS] = "experts",
    [TDM_SECTION_HEAD] = "head",
    [TDM_SECTION_NORMS] = "norms",
};

struct tdm_graph_plan {
    const tdm_alloc *alloc;
    tdm_planning_backend backend;
    tdm_tally tally;
    tdm_decoder *decoder;
    tdm_weight_plan weights;
};

/* ---- the backend ---- */

static tdm_planning_backend *planning_of(tdm_backend *be) {
    return (tdm_planning_backend *)be;
}

static const char *planning_name(const tdm_backend *be) {
    const tdm_backend *inner = ((const tdm_planning_backend *)be)->inner;
    return inner->ops->name(inner);
}

static tdm_status planning_reserve(tdm_backend *be, int64_t n_max, int64_t width_max,
                                   tdm_error *err) {
    tdm_backend *inner = planning_of(be)->inner;
    return inner->ops->reserve(inner, n_max, width_max, err);
}

static bool planning_can_read(const tdm_backend *be, tdm_dtype dtype) {
    const tdm_backend *inner = ((const tdm_planning_backend *)be)->inner;
    return inner->ops->can_read(inner, dtype);
}

static size_t planning_weight_plan(const tdm_backend *be, const tdm_weight *weight) {
    const tdm_backend *inner = ((const tdm_planning_backend *)be)->inner;
    return inner->ops->weight_plan(inner, weight);
}

/* Of the tensors that the weight was described by: what a packed copy stands for. Its rows may lie
 * apart, so that row_bytes does not say it. */
static size_t source_bytes(const tdm_weight *weight) {
    const tdm_dtype_info *info = &TDM_DTYPES[weight->dtype];
    size_t n_out = (size_t)weight->n_out;
    size_t n_in = (size_t)weight->n_in;
    size_t groups = 0;
    if (weight->mode == TDM_WEIGHT_PLAIN) {
        return n_out * (n_in / info->block_weights * info->block_bytes);
    }
    if (weight->mode != TDM_WEIGHT_FP8) {
        groups = n_in / (size_t)weight->group * (weight->biases != NULL ? 2 : 1);
    }
    /* bounded: the sums are those of views inside a mapped file */
    return n_out * (n_in * (size_t)weight->bits / 8 +
                    groups * TDM_DTYPES[weight->scales_dtype].block_bytes);
}

static tdm_status planning_weight_init(tdm_backend *be, tdm_weight *weight, tdm_error *err) {
    tdm_tally *tally = planning_of(be)->tally;
    size_t packed = planning_weight_plan(be, weight);
    (void)err;
    if (packed > 0) {
        tally->packed_bytes[tally->section] += (int64_t)packed;
        tally->replaced_bytes[tally->section] += (int64_t)source_bytes(weight);
    }
    return TDM_OK;
}

static void planning_weight_deinit(tdm_backend *be, tdm_weight *weight) {
    (void)be;
    *weight = (tdm_weight){0};
}

/* Entries that compute stay NULL: a plan has nothing to compute with. */
void tdm_planning_backend_init(tdm_planning_backend *planning, tdm_backend *inner,
                               tdm_tally *tally) {
    *planning = (tdm_planning_backend){
        .base = {NULL, inner->tier, inner->team, NULL},
        .ops = {.name = planning_name,
                .reserve = planning_reserve,
                .can_read = planning_can_read,
                .weight_plan = planning_weight_plan,
                .weight_init = planning_weight_init,
                .weight_deinit = planning_weight_deinit},
        .inner = inner,
        .tally = tally,
    };
    planning->base.ops = &planning->ops;
}

/* ---- the sums ---- */

/* What one token reads of section, of whole: chosen experts, and no row of a table but a tied head's. */
static int64_t share_of(const tdm_decoder *d, tdm_section section, int64_t whole) {
    if (section != TDM_SECTION_EXPERTS || d->dims.n_experts == 0) {
        return whole;
    }
    /* bounded: a file's bytes or weights, below 2^47, times at most 65536 */
    return whole / d->dims.n_experts * d->dims.n_experts_used +
           whole % d->dims.n_experts * d->dims.n_experts_used / d->dims.n_experts;
}

static size_t head_bytes(const tdm_graph_plan *plan) {
    const tdm_decoder *d = plan->decoder;
    size_t packed = 0;
    if (!d->is_tied) {
        return 0;
    }
    packed = planning_weight_plan(&plan->backend.base, &d->embed.weight);
    return packed > 0 ? packed : source_bytes(&d->embed.weight);
}

static void sum_up(tdm_graph_plan *plan) {
    tdm_weight_plan *out = &plan->weights;
    for (int i = 0; i < TDM_SECTION_COUNT; i++) {
        const tdm_tally *tally = &plan->tally;
        tdm_section_weights *section = &out->sections[i];
        int64_t loaded = tally->stored_bytes[i] + tally->packed_bytes[i] +
                         tally->converted_bytes[i] - tally->replaced_bytes[i];
        loaded = loaded > 0 ? loaded : 0; /* a tensor that two packed weights stand for */
        section->n_params = tally->n_params[i];
        section->n_active = share_of(plan->decoder, (tdm_section)i, tally->n_params[i]);
        section->stored_bytes = (size_t)tally->stored_bytes[i];
        section->loaded_bytes = (size_t)loaded;
        section->token_bytes = i == TDM_SECTION_EMBEDDING
                                   ? head_bytes(plan)
                                   : (size_t)share_of(plan->decoder, (tdm_section)i, loaded);
        out->total.n_params += section->n_params;
        out->total.n_active += section->n_active;
        out->total.stored_bytes += section->stored_bytes;
        out->total.loaded_bytes += section->loaded_bytes;
        out->total.token_bytes += section->token_bytes;
        out->packed_bytes += (size_t)tally->packed_bytes[i];
        out->converted_bytes += (size_t)tally->converted_bytes[i];
    }
}

tdm_status tdm_graph_plan_create(tdm_graph_plan **out_plan, const tdm_checkpoint *checkpoint,
                                 const tdm_model_config *config, tdm_backend *backend,
                                 const tdm_graph_options *options, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_graph_plan *plan = tdm_mem_calloc(options->alloc, 1, sizeof *plan);
    *out_plan = NULL;
    if (plan == NULL) {
        return tdm_fail_nomem(err, "a model's plan");
    }
    plan->alloc = options->alloc;
    tdm_planning_backend_init(&plan->backend, backend, &plan->tally);
    status = tdm_decoder_create(&plan->decoder, checkpoint, config, &plan->backend.base, options,
                                &plan->tally, err);
    if (status != TDM_OK) {
        tdm_graph_plan_destroy(plan);
        return status;
    }
    sum_up(plan);
    *out_plan = plan;
    return TDM_OK;
}

void tdm_graph_plan_destroy(tdm_graph_plan *plan) {
    if (plan != NULL) {
        if (plan->decoder != NULL) {
            plan->decoder->base.ops->destroy(&plan->decoder->base);
        }
        tdm_mem_free(plan->alloc, plan, sizeof *plan);
    }
}

const tdm_weight_plan *tdm_graph_plan_weights(const tdm_graph_plan *plan) {
    return &plan->weights;
}

tdm_graph *tdm_graph_plan_graph(const tdm_graph_plan *plan) {
    return &plan->decoder->base;
}

/* ---- caches ---- */

/* Beyond every window and a whole number of every kind's pages. */
#define FAR ((int64_t)1 << 25)

/* The group that a cache belongs to, begun where there is none. */
static tdm_cache_group *group_of(tdm_cache_group *groups, int32_t *n, const char *kind,
                                 int32_t window) {
    for (int32_t i = 0; i < *n; i++) {
        if (strcmp(groups[i].kind, kind) == 0 && groups[i].window == window) {
            return &groups[i];
        }
    }
    if (*n < TDM_CACHE_GROUPS_MAX) {
        groups[*n] = (tdm_cache_group){.kind = kind, .window = window};
        (*n)++;
    }
    return &groups[*n - 1];
}

int32_t tdm_graph_cache_groups(const tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                               int64_t n_positions, tdm_cache_group out[TDM_CACHE_GROUPS_MAX]) {
    tdm_kv_geometry geometry;
    int32_t n = 0;
    for (int32_t i = 0; graph->ops->cache_at(graph, i, kv_dtype, append_max, &geometry); i++) {
        tdm_cache_group *group = group_of(out, &n, tdm_cache_kind(&geometry), geometry.window);
        size_t far = tdm_cache_plan(&geometry, 2 * FAR) - tdm_cache_plan(&geometry, FAR);
        group->n_layers++;
        group->token_bytes += far / (size_t)FAR;
        group->bytes += tdm_cache_plan(&geometry, n_positions);
    }
    return n;
}
