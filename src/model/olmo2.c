/* SPDX-License-Identifier: Apache-2.0
 *
 * OLMo 2: norms after each block and none before, and norms over the whole of q and of k, before
 * they are cut into heads. Source: shared/spec/models.md 3.2; transformers,
 * models/olmo2/modeling_olmo2.py. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->block = TDM_BLOCK_POST;
    spec->qk_norm = TDM_QK_NORM_FULL;
    spec->qkv_bias = config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    spec->o_bias = spec->qkv_bias;
    if (config->container == TDM_CONTAINER_GGUF && config->has_local_rope) {
        spec->n_ropes = 2;
        spec->ropes[1] = config->rope_local;
        for (int32_t i = 0; i < config->n_layers; i++) {
            spec->layers[i].rope_idx = spec->layers[i].window > 0 ? 1 : 0;
        }
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_OLMO2 = {"olmo2", NULL, "olmo2", describe};
