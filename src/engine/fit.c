/* SPDX-License-Identifier: Apache-2.0
 *
 * Fitting: sums, and the longest context and most sequences by halving. Sizes of caches only grow
 * with positions, so that halving finds the edge. */
#include "engine/fit.h"

#include "base/arith.h"
#include "base/system.h"
#include "engine/model_priv.h"

#include <stdio.h>

/* Shares of the read rate that decoding reaches: experts cost jumps. Source: spec/systems.md 162. */
#define SHARE_DENSE 0.82
#define SHARE_EXPERTS 0.76

/* Sums that cross SIZE_MAX stay there: they do not fit. */
static size_t add(size_t a, size_t b) {
    size_t sum = 0;
    return tdm_add_size(a, b, &sum) ? sum : SIZE_MAX;
}

static size_t times(size_t a, int64_t n) {
    size_t product = 0;
    return tdm_mul_size(a, (size_t)n, &product) ? product : SIZE_MAX;
}

static size_t total_at(const tdm_fit_report *r, const tdm_model *model, int64_t context,
                       int32_t n_sequences) {
    size_t kv = model->graph->ops->state_plan(model->graph, r->kv_dtype, context);
    return add(add(r->weight_bytes, r->work_bytes), times(kv, n_sequences));
}

static int64_t longest_context(const tdm_fit_report *r, const tdm_model *model) {
    int64_t low = 0; /* fits, or is nothing */
    int64_t high = r->context_max + 1;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (total_at(r, model, middle, r->n_sequences) <= r->bytes_available) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static int32_t most_sequences(const tdm_fit_report *r) {
    size_t fixed = add(r->weight_bytes, r->work_bytes);
    size_t n = 0;
    if (fixed > r->bytes_available) {
        return 0;
    }
    n = r->kv_sequence_bytes > 0 ? (r->bytes_available - fixed) / r->kv_sequence_bytes
                                 : TDM_ROWS_MAX;
    return n < TDM_ROWS_MAX ? (int32_t)n : TDM_ROWS_MAX;
}

/* What one sequence allocates beside its caches: sampling, and logits to sample from. */
static tdm_status sequence_work(tdm_model *model, const tdm_alloc_tracker *memory, size_t *out,
                                tdm_error *err) {
    const int32_t id = 0;
    size_t before = memory->live_bytes;
    size_t kv = model->graph->ops->state_plan(model->graph, model->composition.kv_dtype, 1);
    tdm_generation_options options;
    tdm_generation *generation = NULL;
    tdm_prompt *prompt = NULL;
    tdm_status status = TDM_OK;
    *out = 0;
    if (!model->graph->facts.has_head) {
        return TDM_OK; /* nothing is sampled */
    }
    tdm_generation_options_init(&options, model);
    options.max_tokens = 1;
    TDM_TRY_GOTO(status, tdm_prompt_from_ids(&prompt, model, &id, 1, err), done);
    TDM_TRY_GOTO(status, tdm_generation_create(&generation, model, prompt, &options, err), done);
    *out = memory->live_bytes - before;
    *out -= kv < *out ? kv : *out;
done:
    tdm_generation_destroy(generation);
    tdm_prompt_destroy(prompt);
    return status;
}

static tdm_status count(tdm_fit_report *r, tdm_model *model, const tdm_alloc_tracker *memory,
                        tdm_error *err) {
    const tdm_graph_ops *ops = model->graph->ops;
    size_t sequence_bytes = 0;
    r->weights = *tdm_graph_plan_weights(model->plan);
    r->weight_bytes = r->weights.total.loaded_bytes;
    TDM_TRY(ops->reserve(model->graph, model->composition.prefill_chunk, r->n_sequences,
                         r->n_sequences, err));
    TDM_TRY(sequence_work(model, memory, &sequence_bytes, err));
    /* What is open holds the converted vectors already, which the weights count. */
    r->work_bytes = memory->live_bytes;
    r->work_bytes -=
        r->weights.converted_bytes < r->work_bytes ? r->weights.converted_bytes : r->work_bytes;
    r->work_bytes = add(r->work_bytes, times(sequence_bytes, r->n_sequences));
    r->kv_sequence_bytes = ops->state_plan(model->graph, r->kv_dtype, r->context);
    r->kv_bytes = times(r->kv_sequence_bytes, r->n_sequences);
    r->total_bytes = total_at(r, model, r->context, r->n_sequences);
    r->is_fitting = r->total_bytes <= r->bytes_available;
    r->context_fitting = longest_context(r, model);
    r->sequences_fitting = most_sequences(r);
    r->n_caches = tdm_graph_cache_groups(model->graph, r->kv_dtype,
                                         model->composition.prefill_chunk, r->context, r->caches);
    return TDM_OK;
}

tdm_status tdm_model_fit(tdm_fit_report *out, tdm_alloc_tracker *memory, const char *path,
                         const tdm_model_options *options, tdm_backend *backend,
                         const tdm_fit_request *request, tdm_error *err) {
    tdm_model *model = NULL;
    tdm_status status = TDM_OK;
    *out = (tdm_fit_report){0};
    if (request->n_sequences < 0 || request->n_sequences > TDM_ROWS_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "%d sequences together", (int)request->n_sequences);
        tdm_err_limit(err, "1 to %d", TDM_ROWS_MAX);
        return TDM_E_ARG;
    }
    TDM_TRY(tdm_model_plan_with(&model, &memory->alloc, path, options, backend, err));
    out->n_sequences = request->n_sequences > 0 ? request->n_sequences : 1;
    out->bytes_available =
        request->bytes_available > 0 ? request->bytes_available : tdm_memory_available();
    out->context = model->composition.context;
    out->context_max = model->config.context_max;
    out->kv_dtype = model->composition.kv_dtype;
    out->tier = model->composition.tier;
    out->n_layers = model->graph->facts.n_layers;
    (void)snprintf(out->backend, sizeof out->backend, "%s", model->composition.device);
    status = count(out, model, memory, err);
    tdm_model_plan_close(model);
    return status;
}

double tdm_fit_decode_rate(const tdm_fit_report *report, double read_gbs, int64_t n_positions) {
    double share =
        report->weights.sections[TDM_SECTION_EXPERTS].n_params > 0 ? SHARE_EXPERTS : SHARE_DENSE;
    double bytes = (double)report->weights.total.token_bytes;
    for (int32_t i = 0; i < report->n_caches; i++) {
        const tdm_cache_group *group = &report->caches[i];
        bytes += group->token_bytes > 0 ? (double)group->token_bytes * (double)n_positions
                                        : (double)group->bytes;
    }
    return bytes > 0.0 ? read_gbs * 1e9 * share / bytes : 0.0;
}
