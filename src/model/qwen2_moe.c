/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen2 with experts: qwen2's attention; beside the chosen experts one that every token takes, times
 * the sigmoid of a gate of its own. Weights of the chosen stay as the softmax over all gave them,
 * unless norm_topk_prob. Source: shared/spec/models.md 2.6, 3.5; transformers,
 * models/qwen2_moe/modeling_qwen2_moe.py (mlx-lm never divides). A GGUF file cannot say that it
 * divides, nor that a layer is dense: those with either cannot be converted. */
#include "model/family.h"

void tdm_qwen_moe_layers(const tdm_model_config *config, tdm_decoder_spec *spec) {
    int32_t step = config->experts.sparse_step > 0 ? config->experts.sparse_step : 1;
    for (int32_t i = 0; i < config->n_layers; i++) {
        spec->layers[i].has_experts = config->experts.is_dense[i] == 0 && (i + 1) % step == 0;
    }
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->qkv_bias = config->has_qkv_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE;
    if (config->container == TDM_CONTAINER_GGUF) {
        spec->qkv_bias = TDM_BIAS_IF_PRESENT;
    }
    spec->experts.names = TDM_EXPERTS_MLP;
    spec->experts.is_renormalized = config->experts.is_renormalized;
    tdm_qwen_moe_layers(config, spec);
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN2_MOE = {"qwen2_moe", NULL, "qwen2moe", describe};
