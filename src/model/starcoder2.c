/* SPDX-License-Identifier: Apache-2.0
 *
 * StarCoder2: layer norms with biases, an MLP without a gate, biases on every product by use_bias,
 * and a window in every layer where the config has one. Source: shared/spec/models.md 3.2;
 * transformers, models/starcoder2/modeling_starcoder2.py. A GGUF file has lost the window: what it
 * describes is a model without one. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    if (config->hidden_act == NULL) {
        spec->activation.kind = TDM_GLU_GELU_TANH;
    }
    spec->naming = TDM_NAMING_STARCODER2;
    spec->norm = TDM_NORM_LAYER;
    spec->mlp = TDM_MLP_PLAIN;
    spec->qkv_bias = config->has_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    if (config->container == TDM_CONTAINER_GGUF) {
        spec->qkv_bias = TDM_BIAS_IF_PRESENT;
    }
    spec->o_bias = spec->qkv_bias;
    spec->mlp_bias = spec->qkv_bias;
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].window = config->sliding_window;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_STARCODER2 = {"starcoder2", NULL, "starcoder2", describe};
