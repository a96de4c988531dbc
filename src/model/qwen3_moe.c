/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3 with experts: qwen3's attention; experts in each layer but those that mlp_only_layers and
 * decoder_sparse_step leave dense. Weights of the chosen are divided by their sum where
 * norm_topk_prob says so; in GGUF always, where no layer can be dense (spec/gguf.md sections 2 and
 * 3). Source: shared/spec/models.md 2.6, 3.5; transformers, models/qwen3_moe/modeling_qwen3_moe.py.
 */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->qkv_bias = is_gguf ? TDM_BIAS_IF_PRESENT
                             : (config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    spec->o_bias = spec->qkv_bias;
    spec->experts.names = TDM_EXPERTS_MLP;
    spec->experts.is_renormalized = is_gguf || config->experts.is_renormalized;
    spec->experts.shared_intermediate = 0;
    tdm_qwen_moe_layers(config, spec);
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN3_MOE = {"qwen3_moe", NULL, "qwen3moe", describe};
