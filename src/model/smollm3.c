/* SPDX-License-Identifier: Apache-2.0
 *
 * SmolLM3: a llama layer, but some layers rotate nothing (NoPE). config.json lists them in
 * no_rope_layers, where 1 means rope; a GGUF file always means each fourth layer (spec/gguf.md
 * section 3). Source: shared/spec/models.md 3.1; transformers, models/smollm3/modeling_smollm3.py.
 */
#include "model/family.h"

#define NOPE_INTERVAL 4

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->qkv_bias = is_gguf ? TDM_BIAS_IF_PRESENT
                             : (config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    spec->o_bias = spec->qkv_bias;
    spec->mlp_bias =
        is_gguf ? TDM_BIAS_IF_PRESENT : (config->has_mlp_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].has_rope =
            config->n_no_rope > 0 ? config->has_rope[i] != 0 : (i + 1) % NOPE_INTERVAL != 0;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_SMOLLM3 = {"smollm3", NULL, "smollm3", describe};
