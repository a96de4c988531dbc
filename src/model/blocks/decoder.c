/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoder: a graph made of the blocks, for every family whose description fits
 * tdm_decoder_spec.
 *
 *   ids -> embed -> [ x += attention; x += mlp, with the template's norms ] per layer -> norm ->
 * head -> logits
 *
 * One forward serves rows of every phase at once. Everything that can fail (sizes, ids, room in the
 * caches) is done before the first operation, so that a failure leaves every row as it was. */
#include "model/blocks/decoder_priv.h"
#include "tensor/ops.h"

#include <string.h>

static tdm_status check_row(const tdm_decoder *d, const tdm_step_row *row, tdm_error *err) {
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
static tdm_status prepare(tdm_decoder *d, const tdm_step *step, int64_t *out_tokens,
                          int64_t *out_logits, tdm_error *err) {
    int64_t n_tokens = 0;
    int64_t n_logits = 0;
    for (int32_t r = 0; r < step->n_rows; r++) {
        const tdm_step_row *row = &step->rows[r];
        TDM_TRY(check_row(d, row, err));
        n_tokens += row->n_tokens;
        n_logits += row->n_tokens - row->logits_from;
    }
    if (n_logits > 0 && !d->base.facts.has_head) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "the checkpoint has no head to make logits with");
    }
    TDM_CHECK(step->n_rows <= d->rows_max && n_tokens <= d->tokens_max &&
              n_logits <= d->logits_max);
    n_tokens = 0;
    for (int32_t r = 0; r < step->n_rows; r++) {
        const tdm_step_row *row = &step->rows[r];
        TDM_TRY(tdm_decoder_state_reserve(&d->base, row->state, row->n_tokens, err));
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

/* What a block reads: the normed residual, or the residual itself where no norm stands before. */
static const float *enter(const tdm_decoder *d, const tdm_norm_pair *norms, int64_t n) {
    const tdm_scratch *s = &d->scratch;
    if (norms->pre.weight == NULL) {
        return norms->is_shared ? s->h : s->x;
    }
    tdm_norm_forward(&norms->pre, d->backend, s->h, s->x, n, d->dims.hidden, d->dims.norm_eps);
    return s->h;
}

/* Where a block's last product goes: straight into the residual, or apart, to be normed first. */
static tdm_block_out out_of(const tdm_decoder *d, const tdm_norm_pair *norms) {
    bool is_apart = norms->post.weight != NULL || d->residual_scale != 1.0F;
    return (tdm_block_out){is_apart ? d->scratch.branch : d->scratch.x, !is_apart};
}

static void leave(const tdm_decoder *d, const tdm_norm_pair *norms, int64_t n) {
    const tdm_scratch *s = &d->scratch;
    int64_t hidden = d->dims.hidden;
    if (norms->post.weight != NULL) {
        tdm_norm_forward(&norms->post, d->backend, s->branch, s->branch, n, hidden,
                         d->dims.norm_eps);
    }
    for (int64_t i = 0; d->residual_scale != 1.0F && i < n * hidden; i++) {
        s->branch[i] *= d->residual_scale; /* no backend has an operation for it */
    }
    if (norms->post.weight != NULL || d->residual_scale != 1.0F) {
        tdm_op_add(d->backend, s->x, hidden, s->branch, hidden, n, hidden);
    }
}

static void run_layer(const tdm_decoder *d, const tdm_step_ctx *ctx,
                      const tdm_decoder_layer *layer) {
    int64_t n = ctx->n_tokens;
    tdm_block_out out = out_of(d, &layer->mixer_norms);
    layer->mixer->forward(layer->mixer_block, ctx, enter(d, &layer->mixer_norms, n), out);
    leave(d, &layer->mixer_norms, n);
    out = out_of(d, &layer->mlp_norms);
    const float *h = enter(d, &layer->mlp_norms, n);
    if (layer->has_mlp) {
        tdm_mlp_forward(&layer->mlp, ctx, h, out);
    }
    if (layer->has_mlp && layer->has_experts) {
        tdm_beside_forward(&layer->beside, &layer->experts, ctx);
    } else if (layer->has_experts) {
        tdm_experts_forward(&layer->experts, ctx, h, h, out);
    }
    leave(d, &layer->mlp_norms, n);
    if (d->ple.dim > 0) {
        tdm_ple_forward(&d->ple, &layer->ple, ctx, layer->place.layer);
    }
    for (int64_t i = 0; layer->scale != 1.0F && i < n * d->dims.hidden; i++) {
        d->scratch.x[i] *= layer->scale;
    }
}

static void run_layers(tdm_decoder *d, const tdm_step *step, const tdm_step_ctx *ctx) {
    const tdm_scratch *s = &d->scratch;
    int64_t n_tokens = ctx->n_tokens;
    for (int32_t i = 0; i < d->n_ropes; i++) {
        tdm_op_rope_table(d->backend, s->ropes[i], s->positions, n_tokens, d->ropes[i].inv_freq,
                          d->ropes[i].dim / 2, d->ropes[i].magnitude);
    }
    for (int32_t i = 0; i < d->base.facts.n_layers; i++) {
        run_layer(d, ctx, &d->layers[i]);
        if (step->tap != NULL) {
            step->tap(step->tap_arg, i, s->x, n_tokens, d->dims.hidden);
        }
    }
    if (step->tap != NULL) {
        tdm_norm_forward(&d->final_norm, d->backend, s->h, s->x, n_tokens, d->dims.hidden,
                         d->dims.norm_eps);
        step->tap(step->tap_arg, d->base.facts.n_layers, s->h, n_tokens, d->dims.hidden);
    }
}

/* Only the positions whose logits are wanted pass the final norm and the head. */
static void run_head(tdm_decoder *d, const tdm_step *step, int64_t n_logits) {
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
    tdm_norm_forward(&d->final_norm, d->backend, s->wanted, s->wanted, n_logits, d->dims.hidden,
                     d->dims.norm_eps);
    tdm_op_linear(d->backend, s->wanted, d->dims.hidden, n_logits, &part, 1);
    for (int64_t i = 0; d->logit_divisor != 1.0F && i < n_logits * d->base.facts.n_vocab; i++) {
        step->logits[i] /= d->logit_divisor;
    }
    if (d->final_softcap > 0.0F) {
        tdm_op_softcap(d->backend, step->logits, d->base.facts.n_vocab, n_logits,
                       d->base.facts.n_vocab, d->final_softcap);
    }
}

static tdm_status decoder_forward(tdm_graph *graph, const tdm_step *step, tdm_error *err) {
    tdm_decoder *d = (tdm_decoder *)graph;
    int64_t n_tokens = 0;
    int64_t n_logits = 0;
    TDM_TRY(prepare(d, step, &n_tokens, &n_logits, err));
    TDM_TRY(tdm_op_embed(d->backend, d->scratch.x, d->dims.hidden, &d->embed.weight,
                         d->scratch.tokens, n_tokens, d->embed_scale, err));
    const tdm_step_ctx ctx = {d->backend, &d->dims,     &d->scratch,
                              step->rows, step->n_rows, n_tokens};
    if (d->ple.dim > 0) {
        TDM_TRY(tdm_ple_prepare(&d->ple, &ctx, err));
    }
    run_layers(d, step, &ctx);
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
    tdm_decoder *d = (tdm_decoder *)graph;
    if (d == NULL) {
        return;
    }
    for (int32_t i = 0; d->layers != NULL && i < d->base.facts.n_layers; i++) {
        if (d->layers[i].mixer != NULL) {
            d->layers[i].mixer->unload(d->layers[i].mixer_block, d->backend);
        }
        tdm_mlp_unload(&d->layers[i].mlp, d->backend);
        tdm_experts_unload(&d->layers[i].experts, d->backend);
        tdm_ple_layer_unload(&d->layers[i].ple, d->backend);
    }
    tdm_ple_unload(&d->ple, d->backend);
    tdm_weight_deinit(d->backend, &d->embed.weight);
    tdm_weight_deinit(d->backend, &d->head.weight);
    tdm_arena_deinit(&d->work);
    tdm_arena_deinit(&d->arena);
    tdm_mem_free(d->alloc, d, sizeof *d);
}

static const tdm_graph_ops DECODER_OPS = {
    .reserve = tdm_decoder_reserve,
    .cache_at = tdm_decoder_cache_at,
    .state_plan = tdm_decoder_state_plan,
    .state_create = tdm_decoder_state_create,
    .state_reserve = tdm_decoder_state_reserve,
    .state_destroy = tdm_decoder_state_destroy,
    .forward = decoder_forward,
    .destroy = decoder_destroy,
};

static int32_t inner_max(const tdm_decoder_spec *spec, int32_t n_layers) {
    int32_t widest = spec->intermediate;
    for (int32_t i = 0; i < n_layers; i++) {
        int32_t own = spec->layers[i].intermediate;
        widest = own > widest ? own : widest;
    }
    widest = spec->experts.intermediate > widest ? spec->experts.intermediate : widest;
    return spec->experts.shared_intermediate > widest ? spec->experts.shared_intermediate : widest;
}

static tdm_decoder *decoder_new(const tdm_alloc *alloc, const tdm_model_config *config,
                                const tdm_decoder_spec *spec, tdm_backend *backend) {
    tdm_decoder *d = tdm_mem_calloc(alloc, 1, sizeof *d);
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
        .intermediate = spec->intermediate,
        .inner_max = inner_max(spec, config->n_layers),
        .n_experts = spec->experts.n,
        .n_experts_used = spec->experts.n_used,
        .norm_eps = (float)config->norm_eps,
        .latent_eps = spec->latent.norm_eps,
        .index_top_k = spec->latent.index_top_k,
        .attention_scale = spec->attention_scale,
        .attention_softcap = spec->attention_softcap,
        .activation = spec->activation,
        .pairing = spec->pairing,
    };
    d->embed_scale = spec->embed_scale;
    d->final_softcap = spec->final_softcap;
    d->residual_scale = spec->residual_scale;
    d->logit_divisor = spec->logit_divisor;
    d->has_branch = spec->residual_scale != 1.0F;
    d->alloc = alloc;
    d->backend = backend;
    tdm_arena_init(&d->arena, alloc);
    tdm_arena_init(&d->work, alloc);
    return d;
}

tdm_status tdm_decoder_create(tdm_decoder **out, const tdm_checkpoint *checkpoint,
                              const tdm_model_config *config, tdm_backend *backend,
                              const tdm_graph_options *options, tdm_tally *tally, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_decoder *d = NULL;
    tdm_decoder_spec *spec = tdm_mem_alloc(options->alloc, sizeof *spec);
    *out = NULL;
    if (spec == NULL) {
        return tdm_fail_nomem(err, "a model's description");
    }
    TDM_TRY_GOTO(status, tdm_graph_describe(config, spec, err), done);
    d = decoder_new(options->alloc, config, spec, backend);
    if (d == NULL) {
        status = tdm_fail_nomem(err, "a model");
        goto done;
    }
    d->tally = tally;
    TDM_TRY_GOTO(status, tdm_decoder_load(d, checkpoint, config, spec, options, err), done);
    *out = d;
    d = NULL;
done:
    decoder_destroy((tdm_graph *)d);
    tdm_mem_free(options->alloc, spec, sizeof *spec);
    return status;
}

tdm_status tdm_graph_create(tdm_graph **out_graph, const tdm_checkpoint *checkpoint,
                            const tdm_model_config *config, tdm_backend *backend,
                            const tdm_graph_options *options, tdm_error *err) {
    tdm_decoder *d = NULL;
    tdm_status status = tdm_decoder_create(&d, checkpoint, config, backend, options, NULL, err);
    *out_graph = d != NULL ? &d->base : NULL;
    return status;
}
