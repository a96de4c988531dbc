/* SPDX-License-Identifier: Apache-2.0
 *
 * The families that become GGUF files: how their tensors are called there, what a file of each
 * architecture cannot say, and the keys that it has beside the common ones. A family is a row of the
 * table; nothing else knows its name.
 * Source: shared/spec/models.md section 8; llama.cpp of llama-cpp-python 0.3.36, its converter's
 * output for the checkpoints of tests/data/goldens-gguf (facts only). */
#include "engine/quantize/hf_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const tdm_hf_name GEMMA_NORMS[] = {{"post_attention_layernorm.", "post_attention_norm."},
                                          {"pre_feedforward_layernorm.", "ffn_norm."},
                                          {"post_feedforward_layernorm.", "post_ffw_norm."},
                                          {NULL, NULL}};
static const tdm_hf_name OLMO2_NORMS[] = {{"post_attention_layernorm.", "post_attention_norm."},
                                          {"post_feedforward_layernorm.", "post_ffw_norm."},
                                          {NULL, NULL}};
static const tdm_hf_name GLM4_NAMES[] = {{"post_self_attn_layernorm.", "post_attention_norm."},
                                         {"post_mlp_layernorm.", "post_ffw_norm."},
                                         {"mlp.gate_up_proj.", "ffn_up."},
                                         {NULL, NULL}};
static const tdm_hf_name PHI3_NAMES[] = {
    {"self_attn.qkv_proj.", "attn_qkv."}, {"mlp.gate_up_proj.", "ffn_up."}, {NULL, NULL}};
static const tdm_hf_name STARCODER2_NAMES[] = {
    {"mlp.c_fc.", "ffn_up."}, {"mlp.c_proj.", "ffn_down."}, {NULL, NULL}};
static const tdm_hf_name MIXTRAL_NAMES[] = {
    {"block_sparse_moe.gate.", "ffn_gate_inp."},
    {"block_sparse_moe.switch_mlp.gate_proj.", "ffn_gate_exps."},
    {"block_sparse_moe.switch_mlp.up_proj.", "ffn_up_exps."},
    {"block_sparse_moe.switch_mlp.down_proj.", "ffn_down_exps."},
    {NULL, NULL}};
static const tdm_hf_name QWEN_EXPERT_NAMES[] = {{"mlp.gate.", "ffn_gate_inp."},
                                                {"mlp.switch_mlp.gate_proj.", "ffn_gate_exps."},
                                                {"mlp.switch_mlp.up_proj.", "ffn_up_exps."},
                                                {"mlp.switch_mlp.down_proj.", "ffn_down_exps."},
                                                {"mlp.shared_expert.gate_proj.", "ffn_gate_shexp."},
                                                {"mlp.shared_expert.up_proj.", "ffn_up_shexp."},
                                                {"mlp.shared_expert.down_proj.", "ffn_down_shexp."},
                                                {"mlp.shared_expert_gate.", "ffn_gate_inp_shexp."},
                                                {NULL, NULL}};

/* ---- mixtures of experts ---- */

static void put_experts(tdm_hf_plan *plan) {
    tdm_hf_put_count(plan, "expert_count", plan->config.experts.n);
    tdm_hf_put_count(plan, "expert_used_count", plan->config.experts.n_used);
}

static void put_qwen_experts(tdm_hf_plan *plan) {
    put_experts(plan);
    tdm_hf_put_count(plan, "expert_feed_forward_length", plan->config.experts.intermediate);
    if (strcmp(plan->family->arch, "qwen2moe") == 0) {
        tdm_hf_put_count(plan, "expert_shared_feed_forward_length",
                         plan->config.experts.shared_intermediate);
    }
}

/* Readers expect experts in every layer, and know whether their weights are divided by their sum. */
static tdm_status check_qwen_experts(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_experts_config *experts = &plan->config.experts;
    const bool is_qwen3 = strcmp(plan->family->arch, "qwen3moe") == 0;
    for (int32_t i = 0; i < plan->config.n_layers; i++) {
        const int32_t step = experts->sparse_step > 0 ? experts->sparse_step : 1;
        if (experts->is_dense[i] != 0 || (i + 1) % step != 0) {
            return tdm_hf_refuse(plan, "mlp_only_layers", "layers without experts", err);
        }
    }
    if (experts->is_renormalized != is_qwen3) {
        return tdm_hf_refuse(plan, "norm_topk_prob", "another way to weigh experts", err);
    }
    return TDM_OK;
}

/* ---- factors ---- */

static double factor_of(double value) {
    return value > 0.0 ? value : 1.0;
}

static void put_granite(tdm_hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    tdm_hf_put_real(plan, "attention.scale", factor_of(config->attention_multiplier));
    tdm_hf_put_real(plan, "embedding_scale", factor_of(config->embedding_multiplier));
    tdm_hf_put_real(plan, "residual_scale", factor_of(config->residual_multiplier));
    tdm_hf_put_real(plan, "logit_scale", factor_of(config->logits_scaling));
}

/* The model's own file would refuse these too; a conversion should not get that far. */
static tdm_status check_minicpm(const tdm_hf_plan *plan, tdm_error *err) {
    const tdm_model_config *config = &plan->config;
    if (config->has_sparse_config) {
        return tdm_hf_refuse(plan, "sparse_config", "sparse attention", err);
    }
    if (config->embedding_multiplier <= 0.0 || config->scale_depth <= 0.0 ||
        config->dim_model_base <= 0.0) {
        return tdm_hf_refuse(plan, "scale_emb", "a model without its three factors", err);
    }
    return TDM_OK;
}

static void put_minicpm(tdm_hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    tdm_hf_put_real(plan, "embedding_scale", config->embedding_multiplier);
    tdm_hf_put_real(plan, "residual_scale", config->scale_depth / sqrt((double)config->n_layers));
    tdm_hf_put_real(plan, "logit_scale", (double)config->hidden / config->dim_model_base);
}

static void put_cohere(tdm_hf_plan *plan) {
    tdm_hf_put_real(plan, "logit_scale", factor_of(plan->config.logit_scale));
    tdm_hf_put_text(plan, "rope.scaling.type", "none");
}

/* ---- the table ---- */

static const tdm_hf_family FAMILIES[] = {
    {.model_type = "llama", .arch = "llama", .has_neighbours = true, .has_own_rope = true},
    {.model_type = "mistral", .arch = "llama", .has_neighbours = true, .has_own_rope = true},
    {.model_type = "mixtral",
     .arch = "llama",
     .has_neighbours = true,
     .has_own_rope = true,
     .names = MIXTRAL_NAMES,
     .experts = TDM_EXPERTS_MIXTRAL,
     .put = put_experts},
    {.model_type = "qwen2", .arch = "qwen2", .has_own_rope = true},
    {.model_type = "qwen2_moe",
     .arch = "qwen2moe",
     .has_own_rope = true,
     .names = QWEN_EXPERT_NAMES,
     .experts = TDM_EXPERTS_QWEN,
     .check = check_qwen_experts,
     .put = put_qwen_experts},
    {.model_type = "qwen3", .arch = "qwen3", .has_own_rope = true},
    {.model_type = "qwen3_moe",
     .arch = "qwen3moe",
     .has_own_rope = true,
     .names = QWEN_EXPERT_NAMES,
     .experts = TDM_EXPERTS_QWEN,
     .check = check_qwen_experts,
     .put = put_qwen_experts},
    {.model_type = "smollm3", .arch = "smollm3", .has_neighbours = true, .has_own_rope = true},
    {.model_type = "gemma", .arch = "gemma", .has_plus_one = true, .has_own_rope = true},
    {.model_type = "gemma2",
     .arch = "gemma2",
     .has_plus_one = true,
     .has_own_rope = true,
     .window = TDM_HF_WINDOW_EVERY_SECOND,
     .names = GEMMA_NORMS},
    {.model_type = "gemma3_text",
     .arch = "gemma3",
     .has_plus_one = true,
     .has_own_rope = true,
     .window = TDM_HF_WINDOW_STATED,
     .names = GEMMA_NORMS},
    {.model_type = "granite", .arch = "granite", .has_neighbours = true, .put = put_granite},
    {.model_type = "minicpm",
     .arch = "minicpm",
     .has_neighbours = true,
     .check = check_minicpm,
     .put = put_minicpm},
    {.model_type = "olmo", .arch = "olmo", .has_neighbours = true, .has_layer_norm = true},
    {.model_type = "olmo2", .arch = "olmo2", .names = OLMO2_NORMS},
    {.model_type = "phi3",
     .arch = "phi3",
     .may_turn_part = true,
     .window = TDM_HF_WINDOW_ALL,
     .names = PHI3_NAMES},
    {.model_type = "glm4", .arch = "glm4", .may_turn_part = true, .names = GLM4_NAMES},
    {.model_type = "cohere", .arch = "command-r", .has_layer_norm = true, .put = put_cohere},
    {.model_type = "cohere2",
     .arch = "cohere2",
     .has_layer_norm = true,
     .window = TDM_HF_WINDOW_THREE_OF_FOUR,
     .put = put_cohere},
    {.model_type = "starcoder2",
     .arch = "starcoder2",
     .has_layer_norm = true,
     .names = STARCODER2_NAMES},
};
#define N_FAMILIES (sizeof FAMILIES / sizeof FAMILIES[0])

tdm_status tdm_hf_find_family(tdm_hf_plan *plan, tdm_error *err) {
    char known[192] = ""; /* as much as a remedy holds */
    size_t used = 0;
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcmp(plan->config.family, FAMILIES[i].model_type) == 0) {
            plan->family = &FAMILIES[i];
            return TDM_OK;
        }
        const int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                               FAMILIES[i].model_type);
        used += n > 0 && (size_t)n < sizeof known - used ? (size_t)n : 0;
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "family \"%.60s\" does not become a GGUF file",
                   plan->config.family);
    tdm_err_where(err, "%s: config.json: model_type", plan->job->src);
    tdm_err_remedy(err, "%s", known);
    return TDM_E_UNSUPPORTED;
}
