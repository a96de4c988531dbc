/* SPDX-License-Identifier: Apache-2.0
 *
 * OLMo 3: OLMo 2 with a window in all layers but each fourth; a scaling of rope is for the layers
 * without one. Source: transformers, models/olmo3/modeling_olmo3.py. GGUF is not read: no golden
 * shows what its files mean. */
#include "model/family.h"

#define PERIOD 4
#define GLOBAL 0 /* of the spec's ropes */
#define LOCAL 1

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->block = TDM_BLOCK_POST;
    spec->qk_norm = TDM_QK_NORM_FULL;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    spec->n_ropes = 2;
    spec->ropes[LOCAL] = config->rope_local;
    tdm_window_layers(config, PERIOD, spec);
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].rope_idx = spec->layers[i].window > 0 ? LOCAL : GLOBAL;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_OLMO3 = {"olmo3", NULL, NULL, describe};
