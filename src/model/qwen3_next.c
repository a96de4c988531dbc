/* SPDX-License-Identifier: Apache-2.0
 *
 * Qwen3-Next: three layers of the gated delta rule to one of gated attention, experts beside one
 * that every token takes. Its safetensors weave q, k, v, z (and b, a) of each key head together;
 * GGUF has taken the first apart and left the second, and always divides the weights of the chosen
 * by their sum. Norms are stored as the difference from 1, but that of the delta rule; GGUF adds it.
 * Source: transformers 5.17, models/qwen3_next; shared/spec/models.md 3.9; shared/spec/gguf.md 2. */
#include "model/family.h"

#include "tensor/ops.h"

static tdm_status fail(const tdm_model_config *config, const char *key, const char *gguf_key,
                       const char *what, int32_t limit, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s", what);
    tdm_err_where(err, "%s", config->container == TDM_CONTAINER_GGUF ? gguf_key : key);
    tdm_err_limit(err, "at most %d", (int)limit);
    tdm_err_remedy(err, "no kernel of this build takes such a layer");
    return TDM_E_UNSUPPORTED;
}

static tdm_status check_sizes(const tdm_model_config *config, tdm_error *err) {
    const tdm_linear_config *linear = &config->linear;
    if (linear->key_dim > TDM_HEAD_DIM_MAX || linear->value_dim > TDM_HEAD_DIM_MAX) {
        return fail(config, "config.json: linear_key_head_dim", "metadata: ssm.state_size",
                    "heads of linear attention that wide", TDM_HEAD_DIM_MAX, err);
    }
    if (linear->n_taps > TDM_CONV_TAPS_MAX) {
        return fail(config, "config.json: linear_conv_kernel_dim", "metadata: ssm.conv_kernel",
                    "a convolution of so many taps", TDM_CONV_TAPS_MAX, err);
    }
    return TDM_OK;
}

tdm_status tdm_qwen_linear_spec_init(const tdm_model_config *config, tdm_decoder_spec *spec,
                                     tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_HALVES, spec, err));
    TDM_TRY(check_sizes(config, err));
    spec->naming = TDM_NAMING_QWEN_LINEAR;
    spec->norm_offset = is_gguf ? 0.0F : 1.0F;
    spec->qk_norm = TDM_QK_NORM_HEAD;
    spec->rotary_dim = config->rotary_dim;
    spec->has_output_gate = true;
    spec->has_mtp_tensors = !is_gguf;
    spec->n_mtp_layers = config->n_mtp_layers;
    spec->qkv_bias = is_gguf ? TDM_BIAS_IF_PRESENT
                             : (config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    spec->o_bias = spec->qkv_bias;
    spec->delta = (tdm_delta_spec){.n_key_heads = config->linear.n_key_heads,
                                   .n_value_heads = config->linear.n_value_heads,
                                   .key_dim = config->linear.key_dim,
                                   .value_dim = config->linear.value_dim,
                                   .n_taps = config->linear.n_taps};
    for (int32_t i = 0; i < config->n_layers; i++) {
        if (config->linear.is_linear[i] != 0) {
            spec->layers[i].mixer = TDM_MIXER_DELTA;
        }
    }
    if (spec->activation.kind != TDM_GLU_SILU) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                       "linear attention with another activation than silu");
        tdm_err_where(err, "config.json: hidden_act");
        tdm_err_remedy(err, "running without it would give wrong results");
        return TDM_E_UNSUPPORTED;
    }
    return TDM_OK;
}

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_qwen_linear_spec_init(config, spec, err));
    TDM_TRY(tdm_experts_spec_init(config, spec, err));
    spec->experts.names = TDM_EXPERTS_MLP;
    spec->experts.is_renormalized = is_gguf || config->experts.is_renormalized;
    spec->delta.is_qkvz_woven = !is_gguf;
    spec->delta.is_ba_woven = true;
    tdm_qwen_moe_layers(config, spec);
    return TDM_OK;
}

const tdm_family TDM_FAMILY_QWEN3_NEXT = {"qwen3_next", NULL, "qwen3next", describe};
