/* SPDX-License-Identifier: Apache-2.0
 *
 * GLM-4 (0414), dense: norms on both sides of each block under names of its own, gate and up in one
 * tensor, biases on q, k and v, and rope by neighbours over half of each head. Source:
 * shared/spec/models.md 3.2; transformers, models/glm4/modeling_glm4.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->block = TDM_BLOCK_SANDWICH;
    spec->naming = TDM_NAMING_GLM4;
    spec->mlp = TDM_MLP_GATED_FUSED;
    spec->pairing = TDM_ROPE_NEIGHBOURS;
    spec->rotary_dim = config->rotary_dim;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_GLM4 = {"glm4", NULL, "glm4", describe};
