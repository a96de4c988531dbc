/* SPDX-License-Identifier: Apache-2.0
 *
 * The pre-norm decoder: a graph made of the blocks, for every family whose description fits
 * tdm_decoder_spec.
 *
 *   ids -> embed -> [ x += attention(norm x); x += mlp(norm x) ] per layer -> norm -> head ->
 * logits
 *
 * One forward serves rows of every phase at once. Everything that can fail (sizes, ids, room in the
 * caches) is done before the first operation, so that a failure leaves every row as it was. */
#include "base/arith.h"
#include "cache/cache.h"
#include "model/blocks/attention.h"
#include "model/blocks/mlp.h"
#include "model/blocks/rope.h"
#include "model/model.h"
#include "tensor/ops.h"

#include <string.h>

typedef struct decoder_layer {
    const float *attention_norm; /* [hidden] */
    const float *mlp_norm;
    tdm_attention_block attention;
    tdm_mlp_block mlp;
} decoder_layer;

typedef struct decoder {
    tdm_graph base;
    const tdm_alloc *alloc;
    tdm_backend *backend;
    tdm_arena arena; /* layers, converted vectors, frequencies */
    tdm_arena work;  /* scratch; rebuilt by reserve */
    tdm_dims dims;
    decoder_layer *layers;
    tdm_linear embed;
    tdm_linear head; /* weight borrowed from embed when tied */
    bool is_tied;
    const float *final_norm;
    const float *inv_freq; /* [head_dim / 2] */
    float rope_magnitude;
    tdm_scratch scratch;
    int32_t tokens_max, rows_max, logits_max;
} decoder;

/* Building. */

static tdm_status load_layers(decoder *d, tdm_loader *loader, const tdm_decoder_spec *spec,
                              const tdm_graph_options *options, tdm_error *err) {
    int32_t n = d->base.facts.n_layers;
    for (int32_t i = 0; i < n; i++) {
        decoder_layer *layer = &d->layers[i];
        int64_t hidden = d->dims.hidden;
        TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_ATTENTION_NORM, i, hidden,
                                  &layer->attention_norm, err));
        TDM_TRY(tdm_attention_load(&layer->attention, loader, &d->dims, spec, i, err));
        TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_MLP_NORM, i, hidden, &layer->mlp_norm, err));
        TDM_TRY(tdm_mlp_load(&layer->mlp, loader, &d->dims, spec, i, err));
        if (options->progress != NULL && options->progress(options->progress_arg, i + 1, n)) {
            return tdm_fail(err, TDM_E_CANCELLED, "loading was stopped");
        }
    }
    return TDM_OK;
}

static tdm_status load_ends(decoder *d, tdm_loader *loader, const tdm_model_config *config,
                            tdm_error *err) {
    int64_t n_vocab = config->n_vocab;
    int64_t hidden = config->hidden;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_EMBED, 0, n_vocab, hidden, TDM_BIAS_NONE, &d->embed,
                              err));
    TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_FINAL_NORM, 0, hidden, &d->final_norm, err));
    d->is_tied = config->is_tied;
    if (d->is_tied) {
        tdm_loader_drop(loader, TDM_ROLE_HEAD, 0);
        return TDM_OK;
    }
    return tdm_loader_linear(loader, TDM_ROLE_HEAD, 0, n_vocab, hidden, TDM_BIAS_NONE, &d->head,
                             err);
}

static tdm_status load_rope(decoder *d, tdm_loader *loader, const tdm_model_config *config,
                            tdm_error *err) {
    int32_t half = config->head_dim / 2;
    const float *factors = NULL;
    float *inv_freq = tdm_arena_calloc(&d->arena, (size_t)half, sizeof *inv_freq);
    if (inv_freq == NULL) {
        return tdm_fail_nomem(err, "rotation frequencies");
    }
    if (tdm_loader_has(loader, TDM_ROLE_ROPE_FACTORS, 0)) {
        TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_ROPE_FACTORS, 0, half, &factors, err));
    }
    tdm_rope_frequencies(&config->rope, config->head_dim, factors, inv_freq, &d->rope_magnitude);
    d->inv_freq = inv_freq;
    return TDM_OK;
}

static tdm_status load(decoder *d, const tdm_checkpoint *checkpoint, const tdm_model_config *config,
                       const tdm_decoder_spec *spec, const tdm_graph_options *options,
                       tdm_error *err) {
    tdm_loader loader;
    TDM_TRY(tdm_loader_init(&loader, checkpoint, d->backend, &d->arena, err));
    d->layers = tdm_arena_calloc(&d->arena, (size_t)config->n_layers, sizeof *d->layers);
    if (d->layers == NULL) {
        return tdm_fail_nomem(err, "a model's layers");
    }
    TDM_TRY(load_ends(d, &loader, config, err));
    TDM_TRY(load_layers(d, &loader, spec, options, err));
    TDM_TRY(load_rope(d, &loader, config, err));
    TDM_TRY(tdm_loader_finish(&loader, err));
    d->base.facts.weight_bytes = loader.weight_bytes;
    d->base.facts.n_params = loader.n_params;
    return TDM_OK;
}

/* Scratch. */

/* Refuses products past what an allocation can be before they are formed. */
static float *take_floats(tdm_arena *arena, int64_t n, int64_t width) {
    int64_t count = 0;
    size_t bytes = 0;
    if (!tdm_mul_i64(n, width, &count) || !tdm_mul_size((size_t)count, sizeof(float), &bytes)) {
        return NULL;
    }
    return tdm_arena_alloc(arena, bytes, TDM_ALIGN_CACHE_LINE);
}

/* Scratch for so much, from arena; false when memory is out. */
static bool take_scratch(const decoder *d, tdm_arena *arena, tdm_scratch *s, int64_t n,
                         int64_t n_rows, int64_t n_logits) {
    const tdm_dims *dims = &d->dims;
    int64_t q_dim = (int64_t)dims->n_heads * dims->head_dim;
    int64_t kv_dim = (int64_t)dims->n_kv_heads * dims->head_dim;
    s->x = take_floats(arena, n, dims->hidden);
    s->h = take_floats(arena, n, dims->hidden);
    s->q = take_floats(arena, n, q_dim);
    s->k = take_floats(arena, n, kv_dim);
    s->v = take_floats(arena, n, kv_dim);
    s->mixed = take_floats(arena, n, q_dim);
    s->gate = take_floats(arena, n, dims->intermediate);
    s->up = take_floats(arena, n, dims->intermediate);
    s->rope = take_floats(arena, n, dims->head_dim);
    s->wanted = take_floats(arena, n_logits > 0 ? n_logits : 1, dims->hidden);
    s->positions = tdm_arena_calloc(arena, (size_t)n, sizeof *s->positions);
    s->tokens = tdm_arena_calloc(arena, (size_t)n, sizeof *s->tokens);
    s->write_spans = tdm_arena_calloc(arena, (size_t)n_rows, sizeof *s->write_spans);
    s->read_spans = tdm_arena_calloc(arena, (size_t)n_rows, sizeof *s->read_spans);
    return s->x != NULL && s->h != NULL && s->q != NULL && s->k != NULL && s->v != NULL &&
           s->mixed != NULL && s->gate != NULL && s->up != NULL && s->rope != NULL &&
           s->wanted != NULL && s->positions != NULL && s->tokens != NULL &&
           s->write_spans != NULL && s->read_spans != NULL;
}

static int64_t widest(const decoder *d) {
    int64_t q_dim = (int64_t)d->dims.n_heads * d->dims.head_dim;
    int64_t width = d->dims.hidden > d->dims.intermediate ? d->dims.hidden : d->dims.intermediate;
    return q_dim > width ? q_dim : width;
}

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Limits only grow, each by itself; the old scratch goes when the new one is whole, so that a failure changes nothing. */
static tdm_status decoder_reserve(tdm_graph *graph, int32_t tokens_max, int32_t rows_max,
                                  int32_t logits_max, tdm_error *err) {
    decoder *d = (decoder *)graph;
    int32_t tokens = larger(tokens_max, d->tokens_max);
    int32_t rows = larger(rows_max, d->rows_max);
    int32_t logits = larger(logits_max, d->logits_max);
    tdm_arena work;
    tdm_scratch scratch;
    if (tokens == d->tokens_max && rows == d->rows_max && logits == d->logits_max) {
        return TDM_OK;
    }
    TDM_TRY(d->backend->ops->reserve(d->backend, larger(tokens, logits), widest(d), err));
    tdm_arena_init(&work, d->alloc);
    if (!take_scratch(d, &work, &scratch, tokens, rows, logits)) {
        tdm_arena_deinit(&work);
        return tdm_fail_nomem(err, "the scratch of a step");
    }
    tdm_arena_deinit(&d->work);
    d->work = work;
    d->scratch = scratch;
    d->tokens_max = tokens;
    d->rows_max = rows;
    d->logits_max = logits;
    return TDM_OK;
}

/* States. */

static tdm_kv_geometry geometry_of(const decoder *d, int32_t layer, tdm_dtype kv_dtype,
                                   int32_t append_max) {
    return (tdm_kv_geometry){
        .dtype = kv_dtype,
        .n_kv_heads = d->dims.n_kv_heads,
        .head_dim = d->dims.head_dim,
        .value_dim = d->dims.head_dim,
        .window = d->layers[layer].attention.window,
        .append_max = append_max,
    };
}

static size_t decoder_state_plan(const tdm_graph *graph, tdm_dtype kv_dtype, int64_t n_positions) {
    const decoder *d = (const decoder *)graph;
    size_t bytes = 0;
    int32_t append_max = d->tokens_max > 0 ? d->tokens_max : 1;
    for (int32_t i = 0; i < d->base.facts.n_layers; i++) {
        tdm_kv_geometry geometry = geometry_of(d, i, kv_dtype, append_max);
        bytes += tdm_cache_plan(&geometry, n_positions);
    }
    return bytes;
}

static void decoder_state_destroy(tdm_graph *graph, tdm_state *state) {
    decoder *d = (decoder *)graph;
    if (state == NULL) {
        return;
    }
    for (int32_t i = 0; state->caches != NULL && i < state->n_caches; i++) {
        if (state->caches[i] != NULL) {
            state->caches[i]->ops->destroy(state->caches[i]);
        }
    }
    tdm_mem_free(d->alloc, state->caches, (size_t)state->n_caches * sizeof(tdm_cache *));
    tdm_mem_free(d->alloc, state, sizeof *state);
}

static tdm_status decoder_state_create(tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                                       tdm_state **out_state, tdm_error *err) {
    decoder *d = (decoder *)graph;
    tdm_status status = TDM_OK;
    tdm_state *state = tdm_mem_calloc(d->alloc, 1, sizeof *state);
    *out_state = NULL;
    if (state == NULL) {
        return tdm_fail_nomem(err, "a sequence's state");
    }
    state->n_caches = d->base.facts.n_layers;
    state->caches = tdm_mem_calloc(d->alloc, (size_t)state->n_caches, sizeof(tdm_cache *));
    if (state->caches == NULL) {
        status = tdm_fail_nomem(err, "a sequence's state");
    }
    for (int32_t i = 0; status == TDM_OK && i < state->n_caches; i++) {
        tdm_kv_geometry geometry = geometry_of(d, i, kv_dtype, append_max);
        status = tdm_cache_create(d->alloc, &geometry, &state->caches[i], err);
    }
    if (status != TDM_OK) {
        decoder_state_destroy(graph, state);
        return status;
    }
    *out_state = state;
    return TDM_OK;
}

static tdm_status decoder_state_reserve(tdm_graph *graph, tdm_state *state, int64_t n_positions,
                                        tdm_error *err) {
    (void)graph;
    for (int32_t i = 0; i < state->n_caches; i++) {
        TDM_TRY(state->caches[i]->ops->reserve(state->caches[i], n_positions, err));
    }
    return TDM_OK;
}

/* One step. */

static tdm_status check_row(const decoder *d, const tdm_step_row *row, tdm_error *err) {
    TDM_CHECK(row->n_tokens > 0 && row->logits_from >= 0 && row->logits_from <= row->n_tokens);
    if (row->state->is_poisoned) {
        return tdm_fail(err, TDM_E_STATE, "the sequence's state was lost in an earlier failure");
    }
    for (int32_t i = 0; i < row->n_tokens; i++) {
        if (row->tokens[i] < 0 || row->tokens[i] >= d->base.facts.n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "token id %d is outside the vocabulary",
                           (int)row->tokens[i]);
            tdm_err_limit(err, "0 to %d", (int)d->base.facts.n_vocab - 1);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

/* Checks every row, finds room in every cache, and lays out ids and positions. Changes nothing that
 * can be read. */
static tdm_status prepare(decoder *d, const tdm_step *step, int64_t *out_tokens,
                          int64_t *out_logits, tdm_error *err) {
    int64_t n_tokens = 0;
    int64_t n_logits = 0;
    for (int32_t r = 0; r < step->n_rows; r++) {
        const tdm_step_row *row = &step->rows[r];
        TDM_TRY(check_row(d, row, err));
        n_tokens += row->n_tokens;
        n_logits += row->n_tokens - row->logits_from;
    }
    TDM_CHECK(step->n_rows <= d->rows_max && n_tokens <= d->tokens_max &&
              n_logits <= d->logits_max);
    n_tokens = 0;
    for (int32_t r = 0; r < step->n_rows; r++) {
        const tdm_step_row *row = &step->rows[r];
        TDM_TRY(decoder_state_reserve(&d->base, row->state, row->n_tokens, err));
        for (int32_t i = 0; i < row->n_tokens; i++) {
            d->scratch.tokens[n_tokens] = row->tokens[i];
            d->scratch.positions[n_tokens] = row->state->length + i;
            n_tokens++;
        }
    }
    *out_tokens = n_tokens;
    *out_logits = n_logits;
    return TDM_OK;
}

static void norm(const decoder *d, float *out, const float *x, const float *weight, int64_t n) {
    int64_t hidden = d->dims.hidden;
    tdm_op_rms_norm(d->backend, out, hidden, x, hidden, weight, n, hidden, d->dims.norm_eps);
}

static void run_layers(decoder *d, const tdm_step *step, int64_t n_tokens) {
    const tdm_scratch *s = &d->scratch;
    const tdm_step_ctx ctx = {d->backend, &d->dims,     &d->scratch,
                              step->rows, step->n_rows, n_tokens};
    int32_t half = d->dims.head_dim / 2;
    tdm_op_rope_table(d->backend, s->rope, s->positions, n_tokens, d->inv_freq, half,
                      d->rope_magnitude);
    for (int32_t i = 0; i < d->base.facts.n_layers; i++) {
        const decoder_layer *layer = &d->layers[i];
        norm(d, s->h, s->x, layer->attention_norm, n_tokens);
        tdm_attention_forward(&layer->attention, &ctx, s->h, s->x);
        norm(d, s->h, s->x, layer->mlp_norm, n_tokens);
        tdm_mlp_forward(&layer->mlp, &ctx, s->h, s->x);
        if (step->tap != NULL) {
            step->tap(step->tap_arg, i, s->x, n_tokens, d->dims.hidden);
        }
    }
    if (step->tap != NULL) {
        norm(d, s->h, s->x, d->final_norm, n_tokens);
        step->tap(step->tap_arg, d->base.facts.n_layers, s->h, n_tokens, d->dims.hidden);
    }
}

/* Only the positions whose logits are wanted pass the final norm and the head. */
static void run_head(decoder *d, const tdm_step *step, int64_t n_logits) {
    const tdm_scratch *s = &d->scratch;
    size_t row_bytes = (size_t)d->dims.hidden * sizeof(float);
    const tdm_weight *weight = d->is_tied ? &d->embed.weight : &d->head.weight;
    const tdm_linear_part part = {weight, NULL, step->logits, d->base.facts.n_vocab, false};
    int64_t from = 0;
    int64_t to = 0;
    if (n_logits == 0) {
        return;
    }
    for (int32_t r = 0; r < step->n_rows; r++) {
        const tdm_step_row *row = &step->rows[r];
        int64_t n = row->n_tokens - row->logits_from;
        memcpy(s->wanted + to * d->dims.hidden, s->x + (from + row->logits_from) * d->dims.hidden,
               (size_t)n * row_bytes);
        from += row->n_tokens;
        to += n;
    }
    norm(d, s->wanted, s->wanted, d->final_norm, n_logits);
    tdm_op_linear(d->backend, s->wanted, d->dims.hidden, n_logits, &part, 1);
}

static tdm_status decoder_forward(tdm_graph *graph, const tdm_step *step, tdm_error *err) {
    decoder *d = (decoder *)graph;
    int64_t n_tokens = 0;
    int64_t n_logits = 0;
    TDM_TRY(prepare(d, step, &n_tokens, &n_logits, err));
    TDM_TRY(tdm_op_embed(d->backend, d->scratch.x, d->dims.hidden, &d->embed.weight,
                         d->scratch.tokens, n_tokens, 1.0F, err));
    run_layers(d, step, n_tokens);
    run_head(d, step, n_logits);
    for (int32_t r = 0; r < step->n_rows; r++) {
        tdm_state *state = step->rows[r].state;
        for (int32_t i = 0; i < state->n_caches; i++) {
            state->caches[i]->ops->commit(state->caches[i], step->rows[r].n_tokens);
        }
        state->length += step->rows[r].n_tokens;
    }
    return TDM_OK;
}

static void decoder_destroy(tdm_graph *graph) {
    decoder *d = (decoder *)graph;
    if (d == NULL) {
        return;
    }
    for (int32_t i = 0; d->layers != NULL && i < d->base.facts.n_layers; i++) {
        tdm_attention_unload(&d->layers[i].attention, d->backend);
        tdm_mlp_unload(&d->layers[i].mlp, d->backend);
    }
    tdm_weight_deinit(d->backend, &d->embed.weight);
    tdm_weight_deinit(d->backend, &d->head.weight);
    tdm_arena_deinit(&d->work);
    tdm_arena_deinit(&d->arena);
    tdm_mem_free(d->alloc, d, sizeof *d);
}

static const tdm_graph_ops DECODER_OPS = {
    .reserve = decoder_reserve,
    .state_plan = decoder_state_plan,
    .state_create = decoder_state_create,
    .state_reserve = decoder_state_reserve,
    .state_destroy = decoder_state_destroy,
    .forward = decoder_forward,
    .destroy = decoder_destroy,
};

static decoder *decoder_new(const tdm_alloc *alloc, const tdm_model_config *config,
                            const tdm_decoder_spec *spec, tdm_backend *backend) {
    decoder *d = tdm_mem_calloc(alloc, 1, sizeof *d);
    if (d == NULL) {
        return NULL;
    }
    d->base.ops = &DECODER_OPS;
    d->base.facts = (tdm_graph_facts){
        .family = config->family,
        .n_layers = config->n_layers,
        .n_vocab = config->n_vocab,
        .hidden = config->hidden,
        .context_max = config->context_max,
    };
    d->dims = (tdm_dims){
        .hidden = config->hidden,
        .n_heads = config->n_heads,
        .n_kv_heads = config->n_kv_heads,
        .head_dim = config->head_dim,
        .intermediate = config->intermediate,
        .norm_eps = (float)config->norm_eps,
        .attention_scale = spec->attention_scale,
        .pairing = spec->pairing,
    };
    d->alloc = alloc;
    d->backend = backend;
    tdm_arena_init(&d->arena, alloc);
    tdm_arena_init(&d->work, alloc);
    return d;
}

tdm_status tdm_graph_create(tdm_graph **out_graph, const tdm_checkpoint *checkpoint,
                            const tdm_model_config *config, tdm_backend *backend,
                            const tdm_graph_options *options, tdm_error *err) {
    tdm_status status = TDM_OK;
    decoder *d = NULL;
    tdm_decoder_spec *spec = tdm_mem_alloc(options->alloc, sizeof *spec);
    *out_graph = NULL;
    if (spec == NULL) {
        return tdm_fail_nomem(err, "a model's description");
    }
    TDM_TRY_GOTO(status, tdm_graph_describe(config, spec, err), done);
    d = decoder_new(options->alloc, config, spec, backend);
    if (d == NULL) {
        status = tdm_fail_nomem(err, "a model");
        goto done;
    }
    TDM_TRY_GOTO(status, load(d, checkpoint, config, spec, options, err), done);
    *out_graph = &d->base;
    d = NULL;
done:
    decoder_destroy((tdm_graph *)d);
    tdm_mem_free(options->alloc, spec, sizeof *spec);
    return status;
}
