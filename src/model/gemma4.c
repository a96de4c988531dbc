/* SPDX-License-Identifier: Apache-2.0
 *
 * Gemma 4, text, in its three shapes: dense with keys for values on the layers that do not slide, a
 * mixture beside each MLP, and per-layer embeddings with last layers that read the keys and values
 * of earlier ones. The layer is gemma 3's sandwich with plain norms, a norm without weights on
 * values, no scale of the scores, heads of another shape where no window is, and a factor on the
 * whole residual. Source: shared/spec/models.md 3.10; transformers,
 * models/gemma4/modeling_gemma4.py. All pictures and sounds of such checkpoints are left out. */
#include "model/family.h"

#include <math.h>

#define PERIOD 6 /* each such layer is full, where nothing says which; the last one always */
#define GLOBAL 0 /* of the spec's ropes */
#define LOCAL 1

/* transformers makes the last layer full whatever the file says; llama.cpp takes the file's word. */
static bool slides(const tdm_model_config *config, int32_t layer) {
    if (config->container == TDM_CONTAINER_SAFETENSORS && layer == config->n_layers - 1) {
        return false;
    }
    return config->n_layer_types > 0 ? config->is_sliding[layer] != 0 : (layer + 1) % PERIOD != 0;
}

/* Of one layer: what it is made of. */
static void describe_layer(const tdm_model_config *config, tdm_decoder_spec *spec, int32_t i) {
    tdm_layer_spec *layer = &spec->layers[i];
    bool is_sliding = slides(config, i);
    bool has_global_kv = !is_sliding && config->is_k_eq_v && config->n_global_kv_heads > 0;
    bool is_shared = i >= config->n_layers - config->n_kv_shared;
    layer->window = is_sliding ? config->sliding_window : 0;
    layer->rope_idx = is_sliding ? LOCAL : GLOBAL;
    layer->heads.dim = !is_sliding && config->global_head_dim > 0 ? config->global_head_dim
                                                                  : config->head_dim_of[i];
    layer->heads.value_dim = layer->heads.dim;
    layer->heads.n_kv = has_global_kv ? config->n_global_kv_heads : config->kv_heads_of[i];
    layer->is_k_eq_v = !is_sliding && config->is_k_eq_v;
    layer->intermediate = config->intermediate_of[i];
    if (is_shared && config->is_double_wide) {
        layer->intermediate *= 2; /* bounded: a width is below 2^20 + 1 */
    }
}

/* One config field that no block honours. */
static tdm_status refuse(const char *field, const char *what, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s", what);
    tdm_err_where(err, "config: %s", field);
    tdm_err_remedy(err, "running without it would give wrong results");
    return TDM_E_UNSUPPORTED;
}

/* The last layers read what the last layer of their kind before them has kept. */
static tdm_status find_donors(const tdm_model_config *config, tdm_decoder_spec *spec,
                              tdm_error *err) {
    int32_t first = config->n_layers - config->n_kv_shared;
    for (int32_t i = first; i < config->n_layers; i++) {
        int32_t donor = first - 1;
        while (donor >= 0 && slides(config, donor) != slides(config, i)) {
            donor--;
        }
        if (donor < 0) {
            return refuse("num_kv_shared_layers",
                          "a layer shares keys of its kind, and none before it has any", err);
        }
        spec->layers[i].has_donor = true;
        spec->layers[i].donor = donor;
        spec->layers[i].heads.n_kv = spec->layers[donor].heads.n_kv;
    }
    return TDM_OK;
}

/* A rope spans all of a head; which part of it turns is in the frequencies. */
static tdm_status describe_ropes(const tdm_model_config *config, tdm_decoder_spec *spec,
                                 tdm_error *err) {
    spec->n_ropes = 2;
    spec->ropes[LOCAL] = config->rope_local;
    if (!config->has_local_rope && spec->ropes[LOCAL].kind == TDM_ROPE_FREQ_FACTORS) {
        spec->ropes[LOCAL].kind = TDM_ROPE_DEFAULT; /* the factors are for the global one */
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        const tdm_layer_spec *layer = &spec->layers[i];
        int32_t *dim = &spec->rope_dims[layer->rope_idx];
        if (*dim != 0 && *dim != layer->heads.dim) {
            return refuse("per_layer_config", "layers of one kind have heads of different sizes",
                          err);
        }
        *dim = layer->heads.dim;
    }
    if (config->global_head_dim > 0 && config->global_rotary_dim != config->global_head_dim) {
        return refuse("rope.dimension_count", "rope over a part of each head", err);
    }
    return TDM_OK;
}

static tdm_status describe_ple(const tdm_model_config *config, tdm_decoder_spec *spec,
                               tdm_error *err) {
    spec->ple.dim = config->ple_dim;
    spec->ple.n_vocab = config->n_ple_vocab > 0 ? config->n_ple_vocab : config->n_vocab;
    if (spec->ple.dim > 0 && spec->ple.n_vocab < config->n_vocab) {
        return refuse("vocab_size_per_layer_input", "tokens without an embedding for each layer",
                      err);
    }
    return TDM_OK;
}

static tdm_status describe_experts(const tdm_model_config *config, tdm_decoder_spec *spec,
                                   tdm_error *err) {
    if (config->experts.n == 0) {
        return TDM_OK;
    }
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    if (spec->experts.shared_intermediate > 0) {
        return refuse("expert_shared_feed_forward_length", "an expert that every token takes", err);
    }
    spec->experts.names = TDM_EXPERTS_GEMMA4;
    spec->experts.is_beside = true;
    spec->experts.is_renormalized = true;
    return TDM_OK;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    if (config->hidden_act == NULL) {
        spec->activation.kind = TDM_GLU_GELU_TANH;
    }
    spec->is_by_layer = true;
    spec->embed_scale = sqrtf((float)config->hidden);
    spec->attention_scale = 1.0F;
    spec->final_softcap = (float)config->final_softcap;
    spec->block = TDM_BLOCK_SANDWICH;
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->has_value_norm = true;
    spec->has_layer_scale = true;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    if (config->sliding_window == 0) {
        return refuse("sliding_window", "no window", err);
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        describe_layer(config, spec, i);
    }
    TDM_TRY(find_donors(config, spec, err));
    TDM_TRY(describe_ropes(config, spec, err));
    TDM_TRY(describe_experts(config, spec, err));
    return describe_ple(config, spec, err);
}

const tdm_family TDM_FAMILY_GEMMA4 = {"gemma4_text", "gemma4", "gemma4", describe};
const tdm_family TDM_FAMILY_GEMMA4_UNIFIED = {"gemma4_unified_text", "gemma4_unified", NULL,
                                              describe};
