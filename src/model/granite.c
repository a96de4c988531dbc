/* SPDX-License-Identifier: Apache-2.0
 *
 * Granite, dense: a llama layer with four factors: of embeddings, of scores (in place of
 * head_dim^-1/2), of what each block adds, and a divisor of logits. Source: shared/spec/models.md
 * 3.2; transformers, models/granite/modeling_granite.py. */
#include "model/family.h"

/* An absent factor is 1, the attention's too. */
static float factor_of(double value) {
    return value > 0.0 ? (float)value : 1.0F;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    spec->mlp_bias = config->has_mlp_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->embed_scale = factor_of(config->embedding_multiplier);
    if (!is_gguf || config->attention_multiplier > 0.0) {
        spec->attention_scale = factor_of(config->attention_multiplier);
    }
    spec->residual_scale = factor_of(config->residual_multiplier);
    spec->logit_divisor = factor_of(is_gguf ? config->logit_scale : config->logits_scaling);
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GRANITE = {"granite", NULL, "granite", describe};
