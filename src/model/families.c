/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of families, and what they have in common. Adding one is a file and a line here. */
#include "base/alloc.h"
#include "model/family.h"
#include "model/model.h"
#include "tensor/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */

/* One a line, sorted. */
static const tdm_family *const FAMILIES[] = {
    &TDM_FAMILY_COHERE,
    &TDM_FAMILY_COHERE2,
    &TDM_FAMILY_DEEPSEEK_V3,
    &TDM_FAMILY_GEMMA,
    &TDM_FAMILY_GEMMA2,
    &TDM_FAMILY_GEMMA3,
    &TDM_FAMILY_GEMMA4,
    &TDM_FAMILY_GEMMA4_UNIFIED,
    &TDM_FAMILY_GLM4,
    &TDM_FAMILY_GLM4_MOE_LITE,
    &TDM_FAMILY_GLM_MOE_DSA,
    &TDM_FAMILY_GPT_OSS,
    &TDM_FAMILY_GRANITE,
    &TDM_FAMILY_LFM2,
    &TDM_FAMILY_LLAMA,
    &TDM_FAMILY_MINICPM,
    &TDM_FAMILY_MINISTRAL,
    &TDM_FAMILY_MISTRAL,
    &TDM_FAMILY_MIXTRAL,
    &TDM_FAMILY_OLMO,
    &TDM_FAMILY_OLMO2,
    &TDM_FAMILY_OLMO3,
    &TDM_FAMILY_PHI3,
    &TDM_FAMILY_QWEN2,
    &TDM_FAMILY_QWEN2_MOE,
    &TDM_FAMILY_QWEN3,
    &TDM_FAMILY_QWEN3_5,
    &TDM_FAMILY_QWEN3_5_MOE,
    &TDM_FAMILY_QWEN3_MOE,
    &TDM_FAMILY_QWEN3_NEXT,
    &TDM_FAMILY_SMOLLM3,
    &TDM_FAMILY_STARCODER2,
};

/* clang-format on */

#define N_FAMILIES (sizeof FAMILIES / sizeof FAMILIES[0])

const char *tdm_family_name_at(size_t idx) {
    return idx < N_FAMILIES ? FAMILIES[idx]->model_type : NULL;
}

#define ALIKE_LETTERS 4 /* at the beginning of names that are told as near */

/* Families whose names begin like name; empty when there are none. */
static void list_alike(const char *name, char *out, size_t cap) {
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < N_FAMILIES && used < cap; i++) {
        if (strncmp(FAMILIES[i]->model_type, name, ALIKE_LETTERS) == 0) {
            int n = snprintf(out + used, cap - used, "%s%s", used == 0 ? "" : ", ",
                             FAMILIES[i]->model_type);
            used += n > 0 ? (size_t)n : 0;
        }
    }
}

static bool is_named(const tdm_family *family, const tdm_model_config *config) {
    if (config->container == TDM_CONTAINER_GGUF) {
        return family->gguf_arch != NULL && strcmp(family->gguf_arch, config->family) == 0;
    }
    return strcmp(family->model_type, config->family) == 0 ||
           (family->alias != NULL && strcmp(family->alias, config->family) == 0);
}

const char *tdm_family_name_of(const tdm_model_config *config) {
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (is_named(FAMILIES[i], config)) {
            return FAMILIES[i]->model_type;
        }
    }
    return NULL;
}

static tdm_status find_family(const tdm_model_config *config, const tdm_family **out,
                              tdm_error *err) {
    char alike[128];
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (is_named(FAMILIES[i], config)) {
            *out = FAMILIES[i];
            return TDM_OK;
        }
    }
    list_alike(config->family, alike, sizeof alike);
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "unknown architecture \"%.80s\"", config->family);
    tdm_err_where(err, "%s",
                  config->container == TDM_CONTAINER_GGUF ? "general.architecture"
                                                          : "config.json: model_type");
    tdm_err_remedy(err, "docs/models.md lists the %zu families of this build%s%s", N_FAMILIES,
                   alike[0] != '\0' ? "; near: " : "", alike);
    return TDM_E_UNSUPPORTED;
}

/* One config field that the family cannot honour. */
static tdm_status refuse(const tdm_model_config *config, tdm_error *err, const char *field,
                         const char *what) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s, which family %.40s does not run here", what,
                   config->family);
    tdm_err_where(err, "%s: %s",
                  config->container == TDM_CONTAINER_GGUF ? "metadata" : "config.json", field);
    tdm_err_remedy(err, "running without it would give wrong results");
    return TDM_E_UNSUPPORTED;
}

static tdm_status check_heads(const tdm_model_config *config, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    if (config->head_dim % 2 != 0 || config->head_dim > TDM_HEAD_DIM_MAX) {
        (void)refuse(config, err, is_gguf ? "attention.key_length" : "head_dim",
                     config->head_dim % 2 != 0 ? "heads of an odd width" : "heads that wide");
        tdm_err_limit(err, "even, at most %d", TDM_HEAD_DIM_MAX);
        return TDM_E_UNSUPPORTED;
    }
    if (config->n_heads % config->n_kv_heads != 0) {
        return refuse(config, err, is_gguf ? "attention.head_count_kv" : "num_key_value_heads",
                      "key heads that the query heads do not divide into");
    }
    return TDM_OK;
}

/* What the reader found and no block has a place for: honoured or refused, never passed over. */
static tdm_status check_fields(const tdm_model_config *config, tdm_error *err) {
    if (config->value_dim != config->head_dim && config->latent.kv_rank == 0) {
        return refuse(config, err, "value_length", "values of another width than keys");
    }
    if (config->has_qk_norm_flag) {
        return refuse(config, err, "use_qk_norm", "norms with weights for each head");
    }
    if (config->clip_qkv > 0.0) {
        return refuse(config, err, "clip_qkv", "a bound on q, k and v");
    }
    if (config->is_bidirectional) {
        return refuse(config, err, "use_bidirectional_attention", "attention to later tokens");
    }
    if (config->has_other_layer_types) {
        return refuse(config, err, "layer_types",
                      "layers that are neither attention nor convolution");
    }
    if (config->has_sparse_config) {
        return refuse(config, err, "sparse_config", "attention to chosen blocks");
    }
    if (config->norm_eps <= 0.0) {
        return refuse(config, err, "rms_norm_eps", "no epsilon of the norms");
    }
    return TDM_OK;
}

/* A layer's own heads, which the config's may not be. */
static tdm_status check_layer_heads(const tdm_heads_spec *heads, int32_t layer, tdm_error *err) {
    if (heads->dim < 1 || heads->dim % 2 != 0 || heads->dim > TDM_HEAD_DIM_MAX ||
        heads->value_dim < 1 || heads->value_dim > TDM_HEAD_DIM_MAX) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "heads of %d values", (int)heads->dim);
        tdm_err_limit(err, "even, at most %d", TDM_HEAD_DIM_MAX);
    } else if (heads->n_kv < 1 || heads->n % heads->n_kv != 0) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%d query heads do not divide into %d key heads",
                       (int)heads->n, (int)heads->n_kv);
    } else {
        return TDM_OK;
    }
    tdm_err_where(err, "config: heads of layer %d", (int)layer);
    return TDM_E_UNSUPPORTED;
}

/* A size that single layers have, for a family that knows one for all. */
static tdm_status check_layers(const tdm_model_config *config, const tdm_decoder_spec *spec,
                               tdm_error *err) {
    if (spec->is_by_layer) {
        return TDM_OK;
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        bool has_heads = spec->layers[i].mixer == TDM_MIXER_ATTENTION;
        if (has_heads && (config->head_dim_of[i] != config->head_dim ||
                          config->kv_heads_of[i] != config->n_kv_heads)) {
            return refuse(config, err, "num_key_value_heads", "heads that differ between layers");
        }
        if (!spec->layers[i].has_experts && config->intermediate_of[i] != config->intermediate) {
            return refuse(config, err, "intermediate_size", "MLPs that differ between layers");
        }
    }
    if (config->global_head_dim > 0 || config->n_global_kv_heads > 0) {
        return refuse(config, err, "global_head_dim", "heads of their own where no layer slides");
    }
    if (config->is_k_eq_v) {
        return refuse(config, err, "attention_k_eq_v", "keys for values");
    }
    if (config->n_kv_shared > 0) {
        return refuse(config, err, "num_kv_shared_layers", "keys that layers share");
    }
    return config->ple_dim > 0
               ? refuse(config, err, "hidden_size_per_layer_input", "embeddings for each layer")
               : TDM_OK;
}

/* A factor that the config has and the family's description does not apply. */
static tdm_status check_factors(const tdm_model_config *config, const tdm_decoder_spec *spec,
                                tdm_error *err) {
    const struct {
        double said;
        float applied;
        const char *field;
    } FACTORS[] = {
        {config->embedding_multiplier, spec->embed_scale, "embedding_multiplier"},
        {config->residual_multiplier, spec->residual_scale, "residual_multiplier"},
        {config->logits_scaling, spec->logit_divisor, "logits_scaling"},
        {config->logit_scale, spec->logit_divisor, "logit_scale"},
        {config->scale_depth / sqrt((double)config->n_layers), spec->residual_scale, "scale_depth"},
        {config->dim_model_base > 0.0 ? config->hidden / config->dim_model_base : 0.0,
         spec->logit_divisor, "dim_model_base"},
    };
    for (size_t i = 0; i < sizeof FACTORS / sizeof FACTORS[0]; i++) {
        if (FACTORS[i].said != 0.0 && (float)FACTORS[i].said != 1.0F &&
            FACTORS[i].applied == 1.0F) {
            return refuse(config, err, FACTORS[i].field, "a factor");
        }
    }
    return TDM_OK;
}

/* What the config has and the family's description of it has not. */
static tdm_status check_honoured(const tdm_model_config *config, const tdm_decoder_spec *spec,
                                 tdm_error *err) {
    TDM_TRY(check_factors(config, spec, err));
    if (config->rotary_dim != spec->rotary_dim || spec->rotary_dim % 2 != 0) {
        return refuse(config, err, "partial_rotary_factor", "rope over a part of each head");
    }
    if (config->has_local_rope && spec->n_ropes < 2) {
        return refuse(config, err, "rope_parameters", "one rope for each type of layer");
    }
    if (config->latent.kv_rank != spec->latent.kv_rank) {
        return refuse(config, err, "kv_lora_rank", "latent attention");
    }
    if (config->latent.index_topk != spec->latent.index_top_k) {
        return refuse(config, err, "index_topk", "attention to chosen positions");
    }
    if (config->swiglu_limit > 0.0 && spec->activation.kind != TDM_GLU_CLAMPED) {
        return refuse(config, err, "swiglu_limit", "a limit of the gate");
    }
    if (config->experts.n > 0 && spec->experts.n == 0) {
        return refuse(config, err,
                      config->container == TDM_CONTAINER_GGUF ? "expert_count" : "num_experts",
                      "a mixture of experts");
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        if (config->is_conv[i] != (spec->layers[i].mixer == TDM_MIXER_CONV)) {
            return refuse(config, err, "layer_types", "layers of convolution");
        }
        if (config->linear.is_linear[i] != (spec->layers[i].mixer == TDM_MIXER_DELTA)) {
            return refuse(config, err, "layer_types", "layers of linear attention");
        }
    }
    if (config->has_output_gate != spec->has_output_gate) {
        return refuse(config, err, "attn_output_gate",
                      config->has_output_gate ? "a gate behind attention"
                                              : "attention without its gate");
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        const tdm_layer_spec *layer = &spec->layers[i];
        if (layer->mixer == TDM_MIXER_ATTENTION) {
            TDM_TRY(check_layer_heads(&layer->heads, i, err));
        }
        if (layer->has_donor &&
            (layer->donor < 0 || layer->donor >= i || spec->layers[layer->donor].has_donor)) {
            return refuse(config, err, "num_kv_shared_layers",
                          "a layer that reads the keys of one that has none");
        }
    }
    for (int32_t i = 0; spec->intermediate == 0 && i < config->n_layers; i++) {
        if (!spec->layers[i].has_experts) {
            return refuse(config, err, "intermediate_size", "no width of the MLP");
        }
    }
    return check_layers(config, spec, err);
}

tdm_status tdm_graph_describe(const tdm_model_config *config, tdm_decoder_spec *spec,
                              tdm_error *err) {
    const tdm_family *family = NULL;
    TDM_TRY(find_family(config, &family, err));
    TDM_TRY(check_heads(config, err));
    TDM_TRY(family->describe(config, spec, err));
    for (int32_t i = 0; i < spec->n_ropes; i++) {
        spec->rope_dims[i] = spec->rope_dims[i] > 0 ? spec->rope_dims[i] : spec->rotary_dim;
    }
    return check_honoured(config, spec, err);
}

tdm_status tdm_graph_can_run(const tdm_model_config *config, tdm_error *err) {
    tdm_decoder_spec *spec = tdm_mem_alloc(NULL, sizeof *spec);
    tdm_status status = TDM_OK;
    if (spec == NULL) {
        return tdm_fail_nomem(err, "a model's description");
    }
    status = tdm_graph_describe(config, spec, err);
    tdm_mem_free(NULL, spec, sizeof *spec);
    return status;
}

/* The activation by its name in config.json; GGUF names none. */
static tdm_status read_activation(const tdm_model_config *config, tdm_glu *out, tdm_error *err) {
    static const struct {
        const char *name;
        tdm_glu kind;
    } NAMES[] = {{"silu", TDM_GLU_SILU},
                 {"swish", TDM_GLU_SILU},
                 {"gelu_pytorch_tanh", TDM_GLU_GELU_TANH},
                 {"gelu_new", TDM_GLU_GELU_TANH},
                 {"gelu", TDM_GLU_GELU_ERF}};
    *out = TDM_GLU_SILU;
    for (size_t i = 0; config->hidden_act != NULL && i < sizeof NAMES / sizeof NAMES[0]; i++) {
        if (strcmp(NAMES[i].name, config->hidden_act) == 0) {
            *out = NAMES[i].kind;
            return TDM_OK;
        }
    }
    return config->hidden_act == NULL
               ? TDM_OK
               : refuse(config, err, "hidden_act", "an activation other than silu and gelu");
}

tdm_status tdm_decoder_spec_init(const tdm_model_config *config, tdm_rope_pairing gguf_pairing,
                                 tdm_decoder_spec *spec, tdm_error *err) {
    memset(spec, 0, sizeof *spec);
    TDM_TRY(check_fields(config, err));
    TDM_TRY(read_activation(config, &spec->activation.kind, err));
    spec->embed_scale = 1.0F;
    spec->residual_scale = 1.0F;
    spec->logit_divisor = 1.0F;
    spec->rotary_dim = config->head_dim;
    spec->intermediate = config->intermediate;
    spec->attention_scale = (float)(1.0 / sqrt((double)config->head_dim));
    spec->pairing = config->container == TDM_CONTAINER_GGUF ? gguf_pairing : TDM_ROPE_HALVES;
    spec->n_ropes = 1;
    spec->ropes[0] = config->rope;
    for (int32_t i = 0; i < config->n_layers; i++) {
        bool is_sliding = config->n_layer_types > 0 && config->is_sliding[i] != 0;
        spec->layers[i].heads = (tdm_heads_spec){config->n_heads, config->n_kv_heads,
                                                 config->head_dim, config->value_dim};
        spec->layers[i].has_rope = true;
        spec->layers[i].window = is_sliding ? config->sliding_window : 0;
    }
    return TDM_OK;
}

tdm_status tdm_experts_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                                 tdm_error *err) {
    const tdm_experts_config *experts = &config->experts;
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    int32_t width = experts->intermediate > 0 ? experts->intermediate : config->intermediate;
    if (experts->n == 0) {
        return refuse(config, err, is_gguf ? "expert_count" : "num_experts", "no experts");
    }
    if (experts->n_used == 0 || experts->n_used > experts->n) {
        return refuse(config, err, is_gguf ? "expert_used_count" : "num_experts_per_tok",
                      "no possible number of experts for a token");
    }
    if (width == 0) {
        return refuse(config, err, is_gguf ? "expert_feed_forward_length" : "moe_intermediate_size",
                      "no width of the experts");
    }
    spec->experts = (tdm_experts_spec){.n = experts->n,
                                       .n_used = experts->n_used,
                                       .intermediate = width,
                                       .shared_intermediate = experts->shared_intermediate,
                                       .routed_scale = 1.0F};
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].has_experts = true;
    }
    return TDM_OK;
}

void tdm_window_layers(const tdm_model_config *config, int32_t period, tdm_decoder_spec *spec) {
    for (int32_t i = 0; config->n_layer_types == 0 && i < config->n_layers; i++) {
        bool is_sliding = period == 0 || (i + 1) % period != 0;
        spec->layers[i].window = is_sliding ? config->sliding_window : 0;
    }
}
