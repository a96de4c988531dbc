/* SPDX-License-Identifier: Apache-2.0
 *
 * A GGUF file from safetensors: its keys, but for the tokenizer's (hf_tokenizer.c).
 * Source: shared/spec/gguf.md sections 2 and 3. */
#include "engine/quantize/hf_priv.h"

#include <stdio.h>
#include <string.h>

#define OLMO_EPS 1e-5 /* of norms that no field describes */

static const char *key_of(const tdm_hf_plan *plan, const char *key, char out[96]) {
    (void)snprintf(out, 96, "%s.%s", plan->family->arch, key);
    return out;
}

void tdm_hf_put_count(tdm_hf_plan *plan, const char *key, int64_t value) {
    char full[96];
    tdm_gguf_put_u32(plan->writer, key_of(plan, key, full), (uint32_t)value);
}

void tdm_hf_put_real(tdm_hf_plan *plan, const char *key, double value) {
    char full[96];
    tdm_gguf_put_f32(plan->writer, key_of(plan, key, full), (float)value);
}

void tdm_hf_put_text(tdm_hf_plan *plan, const char *key, const char *text) {
    char full[96];
    tdm_gguf_put_text(plan->writer, key_of(plan, key, full), text, strlen(text));
}

static void put_rope(tdm_hf_plan *plan) {
    const tdm_rope_config *rope = &plan->config.rope;
    tdm_hf_put_count(plan, "rope.dimension_count", plan->config.rotary_dim);
    tdm_hf_put_real(plan, "rope.freq_base", rope->theta);
    if (plan->config.has_local_rope) {
        tdm_hf_put_real(plan, "rope.freq_base_swa", plan->config.rope_local.theta);
    }
    if (rope->kind == TDM_ROPE_LINEAR || rope->kind == TDM_ROPE_YARN) {
        tdm_hf_put_text(plan, "rope.scaling.type", rope->kind == TDM_ROPE_YARN ? "yarn" : "linear");
        tdm_hf_put_real(plan, "rope.scaling.factor", rope->factor);
    }
    if (rope->kind == TDM_ROPE_YARN) {
        tdm_hf_put_count(plan, "rope.scaling.original_context_length", rope->original_context);
    }
}

/* Only where it is not what readers know: each sixth layer is full. */
static void put_pattern(tdm_hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    char full[96];
    bool is_usual = true;
    for (int32_t i = 0; i < config->n_layers; i++) {
        is_usual = is_usual && (config->is_sliding[i] != 0) == ((i + 1) % 6 != 0);
    }
    if (plan->family->window != TDM_HF_WINDOW_STATED || config->n_layer_types == 0 || is_usual) {
        return;
    }
    tdm_gguf_put_array(plan->writer, key_of(plan, "attention.sliding_window_pattern", full),
                       TDM_GGUF_BOOL, (uint64_t)config->n_layers);
    for (int32_t i = 0; i < config->n_layers; i++) {
        tdm_gguf_item_bool(plan->writer, config->is_sliding[i] != 0);
    }
}

/* The folder's name, where it has one. */
static void put_name(tdm_hf_plan *plan) {
    const char *path = tdm_checkpoint_path(plan->job->checkpoint);
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/') {
        end--;
    }
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') {
        begin--;
    }
    if (begin < end && path[begin] != '.') {
        tdm_gguf_put_text(plan->writer, "general.name", path + begin, end - begin);
    }
}

static void put_general(tdm_hf_plan *plan) {
    const char *arch = plan->family->arch;
    tdm_gguf_put_text(plan->writer, "general.architecture", arch, strlen(arch));
    tdm_gguf_put_text(plan->writer, "general.type", "model", 5);
    put_name(plan);
}

static void put_sizes(tdm_hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    const int64_t context = config->context_max;
    tdm_hf_put_count(plan, "block_count", config->n_layers);
    tdm_hf_put_count(plan, "context_length", context < UINT32_MAX ? context : (int64_t)UINT32_MAX);
    tdm_hf_put_count(plan, "embedding_length", config->hidden);
    if (config->intermediate > 0) {
        tdm_hf_put_count(plan, "feed_forward_length", config->intermediate);
    }
    tdm_hf_put_count(plan, "vocab_size", config->n_vocab);
}

static void put_attention(tdm_hf_plan *plan) {
    const tdm_model_config *config = &plan->config;
    tdm_hf_put_count(plan, "attention.head_count", config->n_heads);
    tdm_hf_put_count(plan, "attention.head_count_kv", config->n_kv_heads);
    tdm_hf_put_count(plan, "attention.key_length", config->head_dim);
    tdm_hf_put_count(plan, "attention.value_length", config->head_dim);
    tdm_hf_put_real(plan,
                    plan->family->has_layer_norm ? "attention.layer_norm_epsilon"
                                                 : "attention.layer_norm_rms_epsilon",
                    config->norm_eps > 0.0 ? config->norm_eps : OLMO_EPS);
    put_rope(plan);
    if (plan->family->window != TDM_HF_WINDOW_NONE && config->sliding_window > 0) {
        tdm_hf_put_count(plan, "attention.sliding_window", config->sliding_window);
    }
    if (config->attention_softcap > 0.0) {
        tdm_hf_put_real(plan, "attn_logit_softcapping", config->attention_softcap);
    }
    if (config->final_softcap > 0.0) {
        tdm_hf_put_real(plan, "final_logit_softcapping", config->final_softcap);
    }
    put_pattern(plan);
}

void tdm_hf_put_metadata(tdm_hf_plan *plan) {
    put_general(plan);
    put_sizes(plan);
    put_attention(plan);
    if (plan->family->put != NULL) {
        plan->family->put(plan);
    }
}
