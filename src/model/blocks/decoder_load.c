/* SPDX-License-Identifier: Apache-2.0
 *
 * Building a decoder: every tensor fetched into the block that multiplies by it, in layer order, and
 * the audit at the end. Refuses what is missing, left over, or of another shape than the config
 * says. */
#include "model/blocks/decoder_priv.h"
#include "model/blocks/gated_delta.h"
#include "model/blocks/parts.h"
#include "model/blocks/rope.h"

#include <stdio.h>
#include <string.h>

static tdm_status load_mixer(tdm_decoder *d, tdm_decoder_layer *layer, tdm_loader *loader,
                             const tdm_decoder_spec *spec, int32_t idx, tdm_error *err) {
    const tdm_layer_spec *layer_spec = &spec->layers[idx];
    const tdm_mixer_ops *mixer = tdm_mixer_ops_of(layer_spec->mixer);
    tdm_mixer_sizes sizes;
    layer->place.layer = idx;
    layer->place.owns_cache = !layer_spec->has_donor;
    TDM_CHECK(layer->place.owns_cache || layer_spec->donor < idx); /* families.c has asked */
    layer->place.cache_idx =
        layer->place.owns_cache ? d->n_caches++ : d->layers[layer_spec->donor].place.cache_idx;
    layer->mixer_block = tdm_arena_calloc(&d->arena, 1, mixer->block_bytes);
    if (layer->mixer_block == NULL) {
        return tdm_fail_nomem(err, "a layer");
    }
    layer->mixer = mixer;
    (void)tdm_loader_enter(loader, TDM_SECTION_ATTENTION);
    TDM_TRY(mixer->load(layer->mixer_block, loader, &d->dims, spec, &layer->place, err));
    sizes = mixer->sizes(layer->mixer_block, &d->dims);
    d->mixer.scratch = sizes.scratch > d->mixer.scratch ? sizes.scratch : d->mixer.scratch;
    d->mixer.fixed = sizes.fixed > d->mixer.fixed ? sizes.fixed : d->mixer.fixed;
    d->mixer.widest = sizes.widest > d->mixer.widest ? sizes.widest : d->mixer.widest;
    return TDM_OK;
}

static tdm_status load_mlp(tdm_decoder *d, tdm_decoder_layer *layer, tdm_loader *loader,
                           const tdm_decoder_spec *spec, int32_t idx, tdm_error *err) {
    layer->has_experts = spec->layers[idx].has_experts;
    layer->has_mlp = !layer->has_experts || spec->experts.is_beside;
    (void)tdm_loader_enter(loader, TDM_SECTION_MLP);
    if (layer->has_mlp) {
        TDM_TRY(tdm_mlp_load_layer(&layer->mlp, loader, &d->dims, spec, idx, err));
    }
    if (!layer->has_experts) {
        return TDM_OK;
    }
    TDM_TRY(tdm_experts_load(&layer->experts, loader, &d->dims, spec, idx, err));
    if (!layer->has_mlp) {
        return TDM_OK;
    }
    TDM_CHECK(layer->mlp_norms.post.weight !=
              NULL); /* a family's: what is summed is apart from x */
    return tdm_beside_load(&layer->beside, &layer->experts, loader, &d->dims, spec, idx, err);
}

/* The factor of a layer's residual. A GGUF file may leave it out (llama.cpp, models/gemma4.cpp). */
static tdm_status load_scale(tdm_decoder_layer *layer, tdm_loader *loader,
                             const tdm_decoder_spec *spec, int32_t idx, tdm_error *err) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    const float *value = NULL;
    char name[128];
    layer->scale = 1.0F;
    if (is_gguf) {
        (void)snprintf(name, sizeof name, "blk.%d.layer_output_scale.weight", (int)idx);
    } else {
        (void)snprintf(name, sizeof name, "%slayers.%d.layer_scalar", loader->prefix, (int)idx);
    }
    if (!spec->has_layer_scale ||
        (is_gguf && tdm_checkpoint_find(loader->checkpoint, name) == NULL)) {
        return TDM_OK;
    }
    (void)tdm_loader_enter(loader, TDM_SECTION_NORMS);
    TDM_TRY(tdm_part_vector(loader, name, 1, &value, err));
    layer->scale = value[0];
    return TDM_OK;
}

static tdm_status load_layers(tdm_decoder *d, tdm_loader *loader, const tdm_decoder_spec *spec,
                              const tdm_graph_options *options, tdm_error *err) {
    int32_t n = d->base.facts.n_layers;
    for (int32_t i = 0; i < n; i++) {
        tdm_decoder_layer *layer = &d->layers[i];
        TDM_TRY(tdm_norm_pairs_load(&layer->mixer_norms, &layer->mlp_norms, loader, spec, i,
                                    d->dims.hidden, err));
        TDM_TRY(load_mixer(d, layer, loader, spec, i, err));
        TDM_TRY(load_mlp(d, layer, loader, spec, i, err));
        TDM_TRY(tdm_ple_layer_load(&layer->ple, loader, &d->dims, spec, i, err));
        TDM_TRY(load_scale(layer, loader, spec, i, err));
        d->has_branch = d->has_branch || layer->mixer_norms.post.weight != NULL ||
                        layer->mlp_norms.post.weight != NULL;
        if (options->progress != NULL && options->progress(options->progress_arg, i + 1, n)) {
            return tdm_fail(err, TDM_E_CANCELLED, "loading was stopped");
        }
    }
    return TDM_OK;
}

static tdm_status load_ends(tdm_decoder *d, tdm_loader *loader, const tdm_model_config *config,
                            const tdm_decoder_spec *spec, tdm_error *err) {
    int64_t n_vocab = config->n_vocab;
    int64_t hidden = config->hidden;
    (void)tdm_loader_enter(loader, TDM_SECTION_EMBEDDING);
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_EMBED, 0, n_vocab, hidden, TDM_BIAS_NONE, &d->embed,
                              err));
    TDM_TRY(tdm_norm_load(&d->final_norm, loader, spec, TDM_ROLE_FINAL_NORM, 0, hidden, err));
    d->is_tied = config->is_tied;
    d->base.facts.has_head = true;
    if (d->is_tied) {
        tdm_loader_drop(loader, TDM_ROLE_HEAD, 0);
        return TDM_OK;
    }
    (void)tdm_loader_enter(loader, TDM_SECTION_HEAD);
    if (loader->prefix[0] == '\0' && !tdm_loader_has(loader, TDM_ROLE_HEAD, 0)) {
        d->base.facts.has_head = false; /* the base class, as embedding models are stored */
        return TDM_OK;
    }
    return tdm_loader_linear(loader, TDM_ROLE_HEAD, 0, n_vocab, hidden, TDM_BIAS_NONE, &d->head,
                             err);
}

/* GGUF's frequency factors are for the first rope: no file has them for a second one. */
static tdm_status load_ropes(tdm_decoder *d, tdm_loader *loader, const tdm_decoder_spec *spec,
                             tdm_error *err) {
    const float *factors = NULL;
    if (tdm_loader_has(loader, TDM_ROLE_ROPE_FACTORS, 0)) {
        TDM_TRY(tdm_loader_vector(loader, TDM_ROLE_ROPE_FACTORS, 0, spec->rope_dims[0] / 2,
                                  &factors, err));
    }
    d->n_ropes = spec->n_ropes;
    for (int32_t i = 0; i < spec->n_ropes; i++) {
        int32_t dim = spec->rope_dims[i];
        float *inv_freq = tdm_arena_calloc(&d->arena, (size_t)dim / 2, sizeof *inv_freq);
        if (inv_freq == NULL) {
            return tdm_fail_nomem(err, "rotation frequencies");
        }
        tdm_rope_frequencies(&spec->ropes[i], dim, i == 0 ? factors : NULL, inv_freq,
                             &d->ropes[i].magnitude);
        d->ropes[i].inv_freq = inv_freq;
        d->ropes[i].dim = dim;
    }
    return TDM_OK;
}

/* Tensors that are known and not run here. */
static void drop_prefix(tdm_loader *loader, const char *prefix) {
    for (size_t i = 0; i < loader->n_tensors; i++) {
        const char *name = tdm_checkpoint_tensor_at(loader->checkpoint, i)->name;
        if (strncmp(name, prefix, strlen(prefix)) == 0) {
            loader->consumed[i] = 1;
        }
    }
}

/* Layers behind the last one, which predict further tokens. */
static void drop_mtp(tdm_loader *loader, int32_t n_layers, int32_t n_mtp) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    char prefix[64];
    for (int32_t i = 0; i < n_mtp; i++) {
        (void)snprintf(prefix, sizeof prefix, is_gguf ? "%sblk.%d." : "%slayers.%d.",
                       is_gguf ? "" : loader->prefix, (int)(n_layers + i));
        drop_prefix(loader, prefix);
    }
}

/* Towers for pictures and sounds that a checkpoint brings beside its text: known, not run here. */
static void drop_towers(tdm_loader *loader) {
    static const char *const TOWERS[] = {"vision_tower.",
                                         "multi_modal_projector.",
                                         "model.vision_tower.",
                                         "model.multi_modal_projector.",
                                         "embed_vision.",
                                         "model.embed_vision.",
                                         "audio_tower.",
                                         "model.audio_tower.",
                                         "embed_audio.",
                                         "model.embed_audio.",
                                         "vision_embedder.",
                                         "model.vision_embedder.",
                                         "visual.",
                                         "model.visual."};
    for (size_t t = 0; t < sizeof TOWERS / sizeof TOWERS[0]; t++) {
        drop_prefix(loader, TOWERS[t]);
    }
}

/* Where the text lies in a checkpoint that has more than text; else the loader's own answer. */
static void find_text(tdm_loader *loader) {
    static const char *const PREFIXES[] = {"language_model.model.", "model.language_model."};
    char name[64];
    for (size_t i = 0; i < sizeof PREFIXES / sizeof PREFIXES[0]; i++) {
        (void)snprintf(name, sizeof name, "%sembed_tokens.weight", PREFIXES[i]);
        if (tdm_checkpoint_find(loader->checkpoint, name) != NULL) {
            loader->prefix = PREFIXES[i];
            drop_towers(loader);
        }
    }
    if (tdm_checkpoint_find(loader->checkpoint, "language_model.lm_head.weight") != NULL) {
        loader->root = "language_model.";
    }
}

/* MLX turns the taps of the delta rule's convolutions and adds the 1 to the norms beside them; the
 * shape of the taps says whether it did. Source: shared/spec/models.md 3.9. */
static bool has_mlx_norms(const tdm_loader *loader, const tdm_decoder_spec *spec,
                          int32_t n_layers) {
    for (int32_t i = 0; i < n_layers; i++) {
        if (spec->layers[i].mixer == TDM_MIXER_DELTA) {
            return tdm_gated_delta_is_turned(loader, spec, i);
        }
    }
    return false;
}

static tdm_status load_all(tdm_decoder *d, tdm_loader *loader, const tdm_model_config *config,
                           const tdm_decoder_spec *spec, const tdm_graph_options *options,
                           tdm_error *err) {
    d->layers = tdm_arena_calloc(&d->arena, (size_t)config->n_layers, sizeof *d->layers);
    if (d->layers == NULL) {
        return tdm_fail_nomem(err, "a model's layers");
    }
    TDM_TRY(load_ends(d, loader, config, spec, err));
    TDM_TRY(tdm_ple_load(&d->ple, loader, &d->dims, spec, config->n_layers, err));
    TDM_TRY(load_layers(d, loader, spec, options, err));
    TDM_TRY(load_ropes(d, loader, spec, err));
    TDM_TRY(tdm_loader_finish(loader, err));
    for (int i = 0; i < TDM_SECTION_COUNT; i++) {
        d->base.facts.weight_bytes += (size_t)loader->tally->stored_bytes[i];
        d->base.facts.n_params += loader->tally->n_params[i];
    }
    return TDM_OK;
}

tdm_status tdm_decoder_load(tdm_decoder *d, const tdm_checkpoint *checkpoint,
                            const tdm_model_config *config, const tdm_decoder_spec *spec,
                            const tdm_graph_options *options, tdm_error *err) {
    tdm_loader loader;
    TDM_TRY(tdm_loader_init(&loader, checkpoint, d->backend, &d->arena, err));
    if (d->tally != NULL) {
        loader.tally = d->tally;
        loader.is_plan = true;
    }
    find_text(&loader);
    loader.has_whole_norms = has_mlx_norms(&loader, spec, config->n_layers);
    if (spec->has_mtp_tensors) {
        drop_prefix(&loader, "mtp.");
        drop_prefix(&loader, "model.mtp.");
    }
    drop_mtp(&loader, config->n_layers, spec->n_mtp_layers);
    tdm_status status = load_all(d, &loader, config, spec, options, err);
    tdm_loader_release(&loader);
    return status;
}
