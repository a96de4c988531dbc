/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt-oss: a sink in each head's softmax, a window in every second layer, the first included, biases
 * everywhere, and experts with a clamped gate in every layer, weighed by a softmax over the chosen.
 * A GGUF file stores neither which layers have a window nor the gate's constants, and no key of it
 * carries yarn's truncate, which is off (spec/gguf.md section 3; llama.cpp rounds outward).
 * Source: transformers 5.17, models/gpt_oss/modeling_gpt_oss.py, configuration_gpt_oss.py. */
#include "model/family.h"

#define ALPHA 1.702F
#define LIMIT 7.0F /* of a config without swiglu_limit */

static tdm_status refuse(tdm_error *err, const char *where, const char *what) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s, which family gpt_oss does not run here", what);
    tdm_err_where(err, "%s", where);
    tdm_err_remedy(err, "running without it would give wrong results");
    return TDM_E_UNSUPPORTED;
}

static tdm_status describe_experts(const tdm_model_config *config, tdm_decoder_spec *spec,
                                   tdm_error *err) {
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->experts.names = TDM_EXPERTS_GPT_OSS;
    spec->experts.is_renormalized = true;
    spec->experts.shared_intermediate = 0;
    spec->experts.router_bias = TDM_BIAS_REQUIRED;
    spec->experts.bias = TDM_BIAS_REQUIRED;
    if (spec->activation.kind != TDM_GLU_SILU) {
        return refuse(err, "config.json: hidden_act", "an activation other than silu");
    }
    spec->activation = (tdm_activation){
        .kind = TDM_GLU_CLAMPED,
        .alpha = ALPHA,
        .limit = config->swiglu_limit > 0.0 ? (float)config->swiglu_limit : LIMIT,
    };
    return TDM_OK;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    TDM_TRY(describe_experts(config, spec, err));
    spec->naming = TDM_NAMING_GPT_OSS;
    spec->has_sinks = true;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    if (config->container == TDM_CONTAINER_GGUF) {
        spec->ropes[0].is_truncated = false;
        if (config->sliding_window == 0) {
            return refuse(err, "metadata: attention.sliding_window", "layers without a window");
        }
    }
    for (int32_t i = 0; config->n_layer_types == 0 && i < config->n_layers; i += 2) {
        spec->layers[i].window = config->sliding_window;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GPT_OSS = {"gpt_oss", NULL, "gpt-oss", describe};
