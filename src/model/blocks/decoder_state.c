/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decoder keeps beside its weights: scratch of a step, sized once by reserve, and the caches
 * of each sequence. Limits only grow; a failure changes nothing. */
#include "base/arith.h"
#include "cache/cache.h"
#include "model/blocks/decoder_priv.h"

#include <string.h>

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

static float *take_mix(tdm_arena *arena, int64_t n, const tdm_mixer_sizes *sizes) {
    int64_t count = 0;
    return tdm_mul_i64(n, sizes->scratch, &count) && tdm_add_i64(count, sizes->fixed, &count)
               ? take_floats(arena, 1, count)
               : NULL;
}

static int32_t *take_ids(tdm_arena *arena, int64_t n, int64_t width) {
    int64_t count = 0;
    return tdm_mul_i64(n, width, &count) ? tdm_arena_calloc(arena, (size_t)count, sizeof(int32_t))
                                         : NULL;
}

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

/* Slots that experts work on at once: as many as a step has tokens, so that scratch does not grow
 * with the experts of a token, and some more in steps of few. */
static int32_t expert_rows(const tdm_dims *dims, int32_t n) {
    int64_t n_slots = (int64_t)n * dims->n_experts_used; /* bounded: below 2^31 times 65536 */
    return larger(n, n_slots < TDM_EXPERTS_ROWS_MIN ? (int32_t)n_slots : TDM_EXPERTS_ROWS_MIN);
}

/* True without experts, which need none. */
static bool take_experts(const tdm_dims *dims, tdm_arena *arena, tdm_experts_scratch *x,
                         int64_t n) {
    int64_t n_used = dims->n_experts_used;
    int64_t n_slots = 0;
    if (dims->n_experts == 0) {
        return true;
    }
    if (!tdm_mul_i64(n, n_used, &n_slots) || n_slots > INT32_MAX) {
        return false;
    }
    x->rows_max = expert_rows(dims, (int32_t)n);
    x->groups = tdm_arena_calloc(arena, (size_t)dims->n_experts, sizeof *x->groups);
    x->logits = take_floats(arena, n, dims->n_experts);
    x->weights = take_floats(arena, n, n_used);
    x->gathered = take_floats(arena, n, dims->hidden);
    x->results = take_floats(arena, n_slots, dims->hidden);
    x->shared = take_floats(arena, n, dims->hidden);
    x->choice = take_ids(arena, n, n_used);
    x->slot_of = take_ids(arena, n, n_used);
    x->token_of = take_ids(arena, n, n_used);
    x->first = take_ids(arena, 1, (int64_t)dims->n_experts + 1);
    return x->logits != NULL && x->weights != NULL && x->gathered != NULL && x->results != NULL &&
           x->shared != NULL && x->choice != NULL && x->slot_of != NULL && x->token_of != NULL &&
           x->first != NULL && x->groups != NULL;
}

/* True without an indexer, which needs none. */
static bool take_choice(const tdm_dims *dims, tdm_arena *arena, tdm_choice_scratch *c, int64_t n) {
    int64_t room = (int64_t)dims->index_top_k + TDM_CHOICE_PIECE;
    c->top_k = dims->index_top_k;
    if (c->top_k == 0) {
        return true;
    }
    c->lists = take_ids(arena, n, c->top_k);
    c->counts = take_ids(arena, n, 1);
    c->scores = take_floats(arena, 1, room);
    c->ids = take_ids(arena, 1, room);
    for (int64_t i = 0; c->counts != NULL && i < n; i++) {
        c->counts[i] = c->top_k;
    }
    return c->lists != NULL && c->counts != NULL && c->scores != NULL && c->ids != NULL;
}

/* Scratch for so much, from arena; false when memory is out. */
static bool take_scratch(const tdm_decoder *d, tdm_arena *arena, tdm_scratch *s, int64_t n,
                         int64_t n_rows, int64_t n_logits) {
    const tdm_dims *dims = &d->dims;
    bool has_ropes = true;
    memset(s, 0, sizeof *s);
    s->x = take_floats(arena, n, dims->hidden);
    s->h = take_floats(arena, n, dims->hidden);
    s->mix = take_mix(arena, n, &d->mixer);
    s->gate = take_floats(arena, expert_rows(dims, (int32_t)n), dims->inner_max);
    s->up = take_floats(arena, expert_rows(dims, (int32_t)n), dims->inner_max);
    for (int32_t i = 0; i < d->n_ropes; i++) {
        s->ropes[i] = take_floats(arena, n, d->ropes[i].dim);
    }
    if (d->ple.dim > 0) {
        s->ple = take_floats(arena, n, d->ple.width);
        s->ple_work = take_floats(arena, n, d->ple.width);
    }
    s->branch = d->has_branch ? take_floats(arena, n, dims->hidden) : NULL;
    s->wanted = take_floats(arena, n_logits > 0 ? n_logits : 1, dims->hidden);
    s->positions = tdm_arena_calloc(arena, (size_t)n, sizeof *s->positions);
    s->tokens = tdm_arena_calloc(arena, (size_t)n, sizeof *s->tokens);
    s->write_spans = tdm_arena_calloc(arena, (size_t)n_rows, sizeof *s->write_spans);
    s->read_spans = tdm_arena_calloc(arena, (size_t)n_rows, sizeof *s->read_spans);
    for (int32_t i = 0; i < d->n_ropes; i++) {
        has_ropes = has_ropes && s->ropes[i] != NULL;
    }
    return s->x != NULL && s->h != NULL && s->mix != NULL &&
           take_experts(dims, arena, &s->experts, n) && take_choice(dims, arena, &s->choice, n) &&
           s->gate != NULL && s->up != NULL &&
           (d->ple.dim == 0 || (s->ple != NULL && s->ple_work != NULL)) && has_ropes &&
           (s->branch != NULL || !d->has_branch) && s->wanted != NULL && s->positions != NULL &&
           s->tokens != NULL && s->write_spans != NULL && s->read_spans != NULL;
}

static int64_t widest(const tdm_decoder *d) {
    int64_t width = d->dims.hidden > d->dims.inner_max ? d->dims.hidden : d->dims.inner_max;
    width = d->ple.dim > width ? d->ple.dim : width;
    return d->mixer.widest > width ? d->mixer.widest : width;
}

/* Limits only grow, each by itself; the old scratch goes when the new one is whole, so that a failure changes nothing. */
tdm_status tdm_decoder_reserve(tdm_graph *graph, int32_t tokens_max, int32_t rows_max,
                               int32_t logits_max, tdm_error *err) {
    tdm_decoder *d = (tdm_decoder *)graph;
    int32_t tokens = larger(tokens_max, d->tokens_max);
    int32_t rows = larger(rows_max, d->rows_max);
    int32_t logits = larger(logits_max, d->logits_max);
    tdm_arena work;
    tdm_scratch scratch;
    if (tokens == d->tokens_max && rows == d->rows_max && logits == d->logits_max) {
        return TDM_OK;
    }
    TDM_TRY(d->backend->ops->reserve(d->backend, larger(expert_rows(&d->dims, tokens), logits),
                                     widest(d), err));
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

static tdm_kv_geometry geometry_of(const tdm_decoder *d, int32_t layer, tdm_dtype kv_dtype,
                                   int32_t append_max) {
    const tdm_decoder_layer *l = &d->layers[layer];
    return l->mixer->geometry(l->mixer_block, &d->dims, kv_dtype, append_max);
}

bool tdm_decoder_cache_at(const tdm_graph *graph, int32_t idx, tdm_dtype kv_dtype,
                          int32_t append_max, tdm_kv_geometry *out) {
    const tdm_decoder *d = (const tdm_decoder *)graph;
    for (int32_t i = 0; i < d->base.facts.n_layers; i++) {
        if (d->layers[i].place.owns_cache && d->layers[i].place.cache_idx == idx) {
            *out = geometry_of(d, i, kv_dtype, append_max);
            return true;
        }
    }
    return false;
}

size_t tdm_decoder_state_plan(const tdm_graph *graph, tdm_dtype kv_dtype, int64_t n_positions) {
    const tdm_decoder *d = (const tdm_decoder *)graph;
    size_t bytes = 0;
    int32_t append_max = d->tokens_max > 0 ? d->tokens_max : 1;
    for (int32_t i = 0; i < d->base.facts.n_layers; i++) {
        tdm_kv_geometry geometry = geometry_of(d, i, kv_dtype, append_max);
        bytes += d->layers[i].place.owns_cache ? tdm_cache_plan(&geometry, n_positions) : 0;
    }
    return bytes;
}

void tdm_decoder_state_destroy(tdm_graph *graph, tdm_state *state) {
    tdm_decoder *d = (tdm_decoder *)graph;
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

tdm_status tdm_decoder_state_create(tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                                    tdm_state **out_state, tdm_error *err) {
    tdm_decoder *d = (tdm_decoder *)graph;
    tdm_status status = TDM_OK;
    tdm_state *state = tdm_mem_calloc(d->alloc, 1, sizeof *state);
    *out_state = NULL;
    if (state == NULL) {
        return tdm_fail_nomem(err, "a sequence's state");
    }
    state->n_caches = d->n_caches;
    state->caches = tdm_mem_calloc(d->alloc, (size_t)state->n_caches, sizeof(tdm_cache *));
    if (state->caches == NULL) {
        status = tdm_fail_nomem(err, "a sequence's state");
    }
    for (int32_t i = 0; status == TDM_OK && i < d->base.facts.n_layers; i++) {
        tdm_kv_geometry geometry = geometry_of(d, i, kv_dtype, append_max);
        if (d->layers[i].place.owns_cache) {
            status = tdm_cache_create(d->alloc, &geometry,
                                      &state->caches[d->layers[i].place.cache_idx], err);
        }
    }
    if (status != TDM_OK) {
        tdm_decoder_state_destroy(graph, state);
        return status;
    }
    *out_state = state;
    return TDM_OK;
}

tdm_status tdm_decoder_state_reserve(tdm_graph *graph, tdm_state *state, int64_t n_positions,
                                     tdm_error *err) {
    (void)graph;
    for (int32_t i = 0; i < state->n_caches; i++) {
        TDM_TRY(state->caches[i]->ops->reserve(state->caches[i], n_positions, err));
    }
    return TDM_OK;
}
