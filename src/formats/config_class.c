/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults of transformers' config classes for keys that are absent: a key that equals its class's
 * default may be left out by writers, and nested text_configs leave out most. Source: transformers
 * 5.17, src/transformers/models/NAME/configuration_NAME.py, read for each row. Families without a
 * row must name their sizes; they tie unless the checkpoint has an lm_head.weight. */
#include "formats/config_priv.h"

#include <string.h>

#define GEMMA3_TEXT                                                                                \
    .is_tied = true, .has_hidden_activation = true, .n_heads = 8, .n_kv_heads = 4,                 \
    .head_dim = 256, .n_vocab = 262208, .context_max = 131072, .sliding_window = 4096,             \
    .norm_eps = 1e-6, .theta = 1000000.0, .has_local_rope = true, .local_theta = 10000.0,          \
    .query_scalar = 256.0

#define GEMMA4_TEXT                                                                                \
    .is_tied = true, .has_hidden_activation = true, .n_heads = 8, .n_kv_heads = 4,                 \
    .head_dim = 256, .global_head_dim = 512, .n_vocab = 262144, .norm_eps = 1e-6,                  \
    .theta = 1000000.0, .rope_proportion = 0.25, .has_local_rope = true, .local_theta = 10000.0

#define QWEN_LINEAR                                                                                \
    .has_linear = true, .n_heads = 16, .head_dim = 256, .context_max = 32768, .norm_eps = 1e-6,    \
    .theta = 10000.0, .rotary_fraction = 0.25

/* Source: transformers 5.17, configuration_gpt_oss.py, __post_init__. */
static const tdm_rope_config GPT_OSS_ROPE = {.kind = TDM_ROPE_YARN,
                                             .factor = 32.0,
                                             .original_context = 4096,
                                             .beta_fast = 32.0,
                                             .beta_slow = 1.0,
                                             .fraction = 1.0};

static const tdm_class_default CLASSES[] = {
    {.family = "llama", .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "mistral", .sliding_window = 4096, .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "qwen2",
     .is_sliding_opt_in = true,
     .sliding_window = 4096,
     .norm_eps = 1e-6,
     .theta = 10000.0},
    {.family = "qwen3",
     .is_sliding_opt_in = true,
     .head_dim = 128,
     .sliding_window = 4096,
     .norm_eps = 1e-6,
     .theta = 10000.0},
    {.family = "qwen3_moe",
     .is_sliding_opt_in = true,
     .sliding_window = 4096,
     .norm_eps = 1e-6,
     .theta = 10000.0},
    {.family = "qwen2_moe",
     .is_sliding_opt_in = true,
     .sliding_window = 4096,
     .norm_eps = 1e-6,
     .theta = 10000.0},
    {.family = "qwen3_next",
     QWEN_LINEAR,
     .n_kv_heads = 2,
     .n_vocab = 151936,
     .is_renormalized = true},
    {.family = "qwen3_5_text", QWEN_LINEAR, .n_kv_heads = 4, .n_vocab = 248320},
    {.family = "qwen3_5", /* a text_config without a model_type */
     QWEN_LINEAR,
     .n_kv_heads = 4,
     .n_vocab = 248320},
    {.family = "qwen3_5_moe_text", QWEN_LINEAR, .n_kv_heads = 2, .n_vocab = 248320},
    {.family = "qwen3_5_moe", QWEN_LINEAR, .n_kv_heads = 2, .n_vocab = 248320},
    {.family = "mixtral", .norm_eps = 1e-5, .theta = 1000000.0},
    {.family = "smollm3",
     .is_tied = true,
     .is_sliding_opt_in = true,
     .norm_eps = 1e-6,
     .theta = 2000000.0},
    {.family = "gemma", .is_tied = true, .head_dim = 256, .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "gemma2",
     .is_tied = true,
     .has_hidden_activation = true,
     .n_kv_heads = 4,
     .head_dim = 256,
     .sliding_window = 4096,
     .norm_eps = 1e-6,
     .theta = 10000.0,
     .query_scalar = 256.0,
     .attention_softcap = 50.0,
     .final_softcap = 30.0},
    {.family = "gemma3_text", GEMMA3_TEXT},
    {.family = "gemma3", GEMMA3_TEXT}, /* a text_config without a model_type */
    {.family = "gemma4_text",
     GEMMA4_TEXT,
     .sliding_window = 512,
     .context_max = 131072,
     .ple_dim = 256,
     .has_moe_flag = true},
    {.family = "gemma4", /* a text_config without a model_type */
     GEMMA4_TEXT,
     .sliding_window = 512,
     .context_max = 131072,
     .ple_dim = 256,
     .has_moe_flag = true},
    {.family = "gemma4_unified_text", GEMMA4_TEXT, .sliding_window = 1024, .context_max = 262144},
    {.family = "gemma4_unified", GEMMA4_TEXT, .sliding_window = 1024, .context_max = 262144},
    {.family = "starcoder2", .is_tied = true, .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "glm4",
     .is_attention_biased = true,
     .head_dim = 128,
     .norm_eps = 0.00000015625,
     .theta = 10000.0,
     .rotary_fraction = 0.5},
    {.family = "lfm2", .is_tied = true, .norm_eps = 1e-5, .theta = 1000000.0},
    {.family = "phi3", .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "granite", .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "ministral", .sliding_window = 4096, .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "cohere", .is_tied = true, .norm_eps = 1e-5, .theta = 500000.0},
    {.family = "cohere2",
     .is_tied = true,
     .sliding_window = 4096,
     .norm_eps = 1e-5,
     .theta = 10000.0},
    {.family = "olmo", .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "olmo3",
     .has_local_rope = true,
     .sliding_window = 4096,
     .norm_eps = 1e-5,
     .theta = 500000.0},
    {.family = "olmo2", .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "deepseek_v3", .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "kimi_k2", .norm_eps = 1e-6, .theta = 10000.0},
    {.family = "glm4_moe_lite", .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "glm_moe_dsa", .norm_eps = 1e-5, .theta = 10000.0},
    {.family = "gpt_oss",
     .is_attention_biased = true,
     .head_dim = 64,
     .sliding_window = 128,
     .norm_eps = 1e-5,
     .theta = 150000.0,
     .absent_rope = &GPT_OSS_ROPE},
};

const tdm_class_default *tdm_class_find(const char *family) {
    for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++) {
        if (strcmp(CLASSES[i].family, family) == 0) {
            return &CLASSES[i];
        }
    }
    return NULL;
}

/* null says "none" and keeps the default away; only an absent key takes it. */
static bool is_absent(const tdm_config_source *source, const char *key) {
    return tdm_json_get(source->scopes[0].object, key) == NULL;
}

void tdm_class_apply(const tdm_class_default *class, const tdm_config_source *source,
                     tdm_model_config *out) {
    out->n_heads = class->n_heads;
    out->n_kv_heads = class->n_kv_heads;
    out->head_dim = class->head_dim;
    out->n_vocab = class->n_vocab;
    out->context_max = class->context_max;
    out->norm_eps = class->norm_eps;
    out->query_scalar = class->query_scalar;
    out->global_head_dim = class->global_head_dim;
    out->ple_dim = class->ple_dim;
    if (is_absent(source, "sliding_window")) {
        out->sliding_window = class->sliding_window;
    }
    if (is_absent(source, "attn_logit_softcapping")) {
        out->attention_softcap = class->attention_softcap;
    }
    if (is_absent(source, "final_logit_softcapping")) {
        out->final_softcap = class->final_softcap;
    }
}
