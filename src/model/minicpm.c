/* SPDX-License-Identifier: Apache-2.0
 *
 * MiniCPM 1 and 2, and 4 without its sparse attention: a llama layer with three factors. Embeddings
 * are multiplied by scale_emb, what a block adds by scale_depth / sqrt(layers), and logits are
 * divided by hidden_size / dim_model_base. A file that leaves one out is refused: the classes'
 * defaults are no model's. Source: spec/models.md 3.1; openbmb/MiniCPM-2B, modeling_minicpm.py;
 * llama.cpp, conversion/minicpm.py. */
#include "model/family.h"

#include <math.h>

static tdm_status fail_factor(const tdm_model_config *config, const char *json, const char *gguf,
                              tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    (void)tdm_fail(err, TDM_E_FORMAT, "%s is missing", is_gguf ? gguf : json);
    tdm_err_where(err, "%s: %s", is_gguf ? "metadata" : "config.json", is_gguf ? gguf : json);
    tdm_err_remedy(err, "fetch the model again, or convert it anew");
    return TDM_E_FORMAT;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    double residual = is_gguf ? config->residual_multiplier
                              : config->scale_depth / sqrt((double)config->n_layers);
    double divisor = is_gguf                        ? config->logit_scale
                     : config->dim_model_base > 0.0 ? config->hidden / config->dim_model_base
                                                    : 0.0;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    if (config->embedding_multiplier <= 0.0) {
        return fail_factor(config, "scale_emb", "embedding_scale", err);
    }
    if (residual <= 0.0) {
        return fail_factor(config, "scale_depth", "residual_scale", err);
    }
    if (divisor <= 0.0) {
        return fail_factor(config, "dim_model_base", "logit_scale", err);
    }
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->embed_scale = (float)config->embedding_multiplier;
    spec->residual_scale = (float)residual;
    spec->logit_divisor = (float)divisor;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_MINICPM = {"minicpm", NULL, "minicpm", describe};
