/* SPDX-License-Identifier: Apache-2.0
 *
 * Llama and its kin (SmolLM2, MiniCPM5, Llama 3.x): grouped-query attention, no norms on q and k,
 * one optional flag for the biases of q, k, v and o. Sliding layers only where layer_types says so.
 * Source: shared/spec/models.md 3.1; transformers, models/llama/modeling_llama.py. GGUF files of
 * this family have the rows of q and k permuted so that rotation pairs are neighbours (spec/gguf.md
 * section 2). A GGUF file of mixtral is one of these with experts in every layer, whose weights are a
 * softmax over the chosen; it has lost the window. */
#include "model/family.h"

static tdm_status describe(const tdm_model_config *config, tdm_decoder_spec *spec, tdm_error *err) {
    bool is_gguf = config->container == TDM_CONTAINER_GGUF;
    TDM_TRY(tdm_decoder_spec_init(config, TDM_ROPE_NEIGHBOURS, spec, err));
    spec->qkv_bias = is_gguf ? TDM_BIAS_IF_PRESENT
                             : (config->has_attention_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    spec->o_bias = spec->qkv_bias;
    spec->mlp_bias =
        is_gguf ? TDM_BIAS_IF_PRESENT : (config->has_mlp_bias ? TDM_BIAS_REQUIRED : TDM_BIAS_NONE);
    if (is_gguf && config->experts.n > 0) {
        TDM_TRY(tdm_experts_spec_init(config, spec, err));
        spec->experts.is_renormalized = true;
        spec->experts.shared_intermediate = 0;
    }
    return TDM_OK;
}

const tdm_family TDM_FAMILY_LLAMA = {"llama", NULL, "llama", describe};
