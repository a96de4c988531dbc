/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3, dense: RMS norms over each head of q and k before rope; head_dim of its own; biases by
 * attention_bias. Source: shared/spec/models.md 3.4; transformers, models/qwen3/modeling_qwen3.py.
 */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->qkv_bias = is_gguf ? TDM_BIAS_IF_PRESENT
                             : (config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    spec->o_bias = spec->qkv_bias;
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN3 = {"qwen3", NULL, "qwen3", describe};
