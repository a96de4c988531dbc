/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepSeek V3 (and Kimi K2, which differs in numbers only): latent attention, and experts chosen by
 * a sigmoid with corrections from the best groups, beside some that every token takes. GGUF calls
 * them deepseek2, and files GLM-4.7-Flash under that name too. Norms in the low ranks have an
 * epsilon of their own, 1e-6, which no file says (spec/gguf.md section 3). Source: transformers 5.17,
 * models/deepseek_v3; spec/models.md 2.6 and 3.11. */
#include "model/family.h"

#include "tensor/ops.h"

#include <math.h>

#define LOW_RANK_EPS 1e-6F

static tdm_status refuse(const tdm_model_config *config, const char *json, const char *gguf,
                         const char *what, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s", what);
    tdm_err_where(err, "%s: %s", is_gguf ? "metadata" : "config.json", is_gguf ? gguf : json);
    tdm_err_remedy(err, "running without it would give wrong results");
    return TDM_E_UNSUPPORTED;
}

/* What scaling of rope does to the softmax, squared: it meets queries and keys. */
static double softmax_factor(const tdm_rope_config *rope) {
    double m = 1.0;
    if (rope->kind != TDM_ROPE_DEFAULT && rope->mscale_all_dim > 0.0 && rope->factor > 1.0) {
        m = 0.1 * rope->mscale_all_dim * log(rope->factor) + 1.0;
    }
    return m * m;
}

static tdm_status check(const tdm_model_config *config, tdm_error *err) {
    const tdm_latent_config *latent = &config->latent;
    if (latent->kv_rank == 0) {
        return refuse(config, "kv_lora_rank", "attention.kv_lora_rank",
                      "attention that is not latent", err);
    }
    if (latent->rope_dim % 2 != 0) {
        return refuse(config, "qk_rope_head_dim", "rope.dimension_count",
                      "an odd number of values that rotate in pairs", err);
    }
    if ((int64_t)latent->kv_rank + latent->rope_dim > TDM_HEAD_DIM_MAX) {
        tdm_status status = refuse(config, "kv_lora_rank", "attention.kv_lora_rank",
                                   "rows of latent attention that are too wide", err);
        tdm_err_limit(err, "rank and rotated part together %d", TDM_HEAD_DIM_MAX);
        return status;
    }
    if (config->has_mlp_bias) {
        return refuse(config, "mlp_bias", "ffn_up.bias", "biases of MLPs", err);
    }
    return TDM_OK;
}

static tdm_status add_experts(const tdm_model_config *config, tdm_decoder_spec *spec,
                              tdm_error *err) {
    const tdm_experts_config *experts = &config->experts;
    int64_t shared = 0;
    bool has_experts = false;
    for (int32_t i = 0; i < config->n_layers; i++) {
        has_experts = has_experts || experts->is_dense[i] == 0;
    }
    if (!has_experts && experts->n == 0) {
        return TDM_OK;
    }
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->experts.names = TDM_EXPERTS_MLP;
    spec->experts.router = TDM_ROUTER_SIGMOID;
    spec->experts.has_correction = true;
    spec->experts.n_groups = experts->n_groups;
    spec->experts.n_groups_used = experts->n_groups_used;
    spec->experts.routed_scale = (float)experts->routed_scale;
    spec->experts.is_shared_plain = true;
    spec->experts.is_renormalized = experts->is_renormalized;
    shared = (int64_t)experts->n_shared * spec->experts.intermediate;
    if (shared > INT32_MAX) {
        return refuse(config, "n_shared_experts", "expert_shared_count",
                      "shared experts that are too wide", err);
    }
    spec->experts.shared_intermediate = (int32_t)shared;
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].has_experts = experts->is_dense[i] == 0;
    }
    return TDM_OK;
}

tdm_status tdm_deepseek_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                                  tdm_error *err) {
    const tdm_latent_config *latent = &config->latent;
    bool has_bias = config->container != TDM_CONTAINER_GGUF && config->has_attention_bias;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    TDM_TRY(check(config, err));
    spec->naming = TDM_NAMING_DEEPSEEK;
    spec->pairing = latent->is_rope_halved ? TDM_ROPE_HALVES : TDM_ROPE_NEIGHBOURS;
    spec->rotary_dim = latent->rope_dim;
    spec->attention_scale = (float)(softmax_factor(&config->rope) / sqrt((double)config->head_dim));
    spec->n_mtp_layers = config->n_mtp_layers;
    spec->latent = (tdm_latent_spec){.q_rank = latent->q_rank,
                                     .kv_rank = latent->kv_rank,
                                     .nope_dim = latent->nope_dim,
                                     .rope_dim = latent->rope_dim,
                                     .norm_eps = LOW_RANK_EPS,
                                     .bias = has_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE};
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].mixer = TDM_MIXER_LATENT;
    }
    return add_experts(config, spec, err);
}

const tdm_family TDM_FAMILY_DEEPSEEK_V3 = {"deepseek_v3", "kimi_k2", "deepseek2",
                                           tdm_deepseek_spec_init};
