/* SPDX-License-Identifier: Apache-2.0
 *
 * OLMo: a llama layer whose norms are layer norms without weights. clip_qkv is refused. Source:
 * transformers, models/olmo/modeling_olmo.py. GGUF files permute q and k as llama's do. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->norm = TDM_NORM_LAYER_BARE;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_OLMO = {"olmo", NULL, "olmo", describe};
