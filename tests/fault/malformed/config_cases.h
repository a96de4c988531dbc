/* SPDX-License-Identifier: Apache-2.0
 *
 * 2,000 configurations, driven by a table of fields and ranges that is written down here a second
 * time: each field at, below and above its limits, of every wrong type, and missing. */
#ifndef TDM_TESTS_FAULT_MALFORMED_CONFIG_CASES_H
#define TDM_TESTS_FAULT_MALFORMED_CONFIG_CASES_H

#include "fault/malformed/case.h"
#include "fault/malformed/gguf_cases.h"
#include "fault/malformed/safetensors_cases.h"

typedef struct ranged {
    const char *key;
    const char *base; /* its value in the base configuration; NULL: absent there */
    bool is_whole;
    bool is_required;
    double min, max;
    const char *edges[2]; /* legal values at or near the limits, fitting the rest; may be NULL */
} ranged;

static const ranged RANGED[] = {
    {"hidden_size", "64", true, true, 1, 1048576, {"4", "1048576"}},
    {"num_hidden_layers", "4", true, true, 1, 1024, {"1", "1024"}},
    {"num_attention_heads", "4", true, true, 1, 65536, {"2", "64"}},
    {"num_key_value_heads", "2", true, false, 1, 65536, {"1", "4"}},
    {"head_dim", "16", true, false, 1, 8192, {"1", "8192"}},
    {"intermediate_size", "128", true, true, 1, 1048576, {"1", "1048576"}},
    {"vocab_size", "320", true, true, 1, 16777216, {"1", "16777216"}},
    {"max_position_embeddings", "512", true, true, 1, 16777216, {"1", "16777216"}},
    {"rms_norm_eps", "1e-6", false, false, 1e-30, 1, {"1e-30", "1"}},
    {"rope_theta", "10000", false, false, 1e-30, 1e30, {"0.5", "1e9"}},
    {"sliding_window", NULL, true, false, 1, 16777216, {"1", "4096"}},
    {"partial_rotary_factor", NULL, false, false, 1e-6, 1, {"0.5", "1.0"}},
    {"no_rope_layer_interval", NULL, true, false, 1, 1048576, {"1", "4"}},
    {"global_head_dim", NULL, true, false, 1, 8192, {"1", "8192"}},
    {"num_global_key_value_heads", NULL, true, false, 1, 65536, {"1", "4"}},
    {"num_kv_shared_layers", NULL, true, false, 0, 1024, {"0", "4"}},
    {"hidden_size_per_layer_input", NULL, true, false, 0, 1048576, {"0", "256"}},
    {"bos_token_id", "1", true, false, 0, 2147483647, {"0", "2147483647"}},
    {"eos_token_id", "2", true, false, 0, 2147483647, {"0", "2147483647"}},
};
#define N_RANGED (sizeof RANGED / sizeof RANGED[0])

/* The base configuration with one key's value replaced (value NULL: left out). */
static inline bytes config_with(const char *family, const char *key, const char *value) {
    bytes b = {0};
    bytes_format(&b, "{\"model_type\":\"%s\"", family);
    for (size_t i = 0; i < N_RANGED; i++) {
        const char *text = strcmp(RANGED[i].key, key) == 0 ? value : RANGED[i].base;
        if (text != NULL) {
            bytes_format(&b, ",\"%s\":%s", RANGED[i].key, text);
        }
    }
    bytes_format(&b, "}");
    return b;
}

static inline void config_folder(malformed_case *c, bytes config) {
    (void)case_file(c, ST_CONFIG, config);
    (void)case_file(c, ST_SINGLE, safetensors_of("{}", 0));
    c->open = "d";
    c->reads_config = true;
}

/* One value for a field, and whether the field takes it. */
static inline bool config_value(malformed_case *c, const ranged *field, uint32_t step, char *out,
                                size_t cap) {
    static const char *const WRONG[] = {"\"1\"",
                                        "true",
                                        "false",
                                        "[]",
                                        "{}",
                                        "\"\"",
                                        "[1,2]x",
                                        "1e999",
                                        "-1e99",
                                        "NaN",
                                        "Infinity",
                                        "0x10",
                                        "1.",
                                        ".5",
                                        "+1",
                                        "--1",
                                        "1 2",
                                        "99999999999999999999999999",
                                        "-99999999999999999999"};
    const size_t n_wrong = sizeof WRONG / sizeof WRONG[0];
    if (step < n_wrong) {
        (void)snprintf(out, cap, "%s", WRONG[step]);
        /* An empty list of ends is a list of ends; 1e26 is inside rope_theta's range. */
        return (strcmp(field->key, "eos_token_id") == 0 && strcmp(WRONG[step], "[]") == 0) ||
               (field->max > 1e26 && step == n_wrong - 2);
    }
    switch (step - n_wrong) {
    case 0:
        (void)snprintf(out, cap, "null"); /* as if absent */
        return !field->is_required;
    case 1:
        (void)snprintf(out, cap, "%s", field->edges[0]);
        return true;
    case 2:
        (void)snprintf(out, cap, "%s", field->edges[1]);
        return true;
    case 3:
        (void)snprintf(out, cap, "%.0f", field->is_whole ? field->max + 1 : field->max * 10);
        return false;
    case 4:
        (void)snprintf(out, cap, field->is_whole ? "%.0f" : "%g",
                       field->is_whole ? field->min - 1 : field->min / 10);
        return false;
    case 5:
        (void)snprintf(out, cap, "-%llu", (unsigned long long)(1 + case_random(c, 1000)));
        return false;
    case 6:
        (void)snprintf(out, cap, "%s", field->is_whole ? "2.5" : "-0.0");
        return false;
    case 7:
        (void)snprintf(out, cap, "%s", field->is_whole ? "4.0" : "0");
        return false;
    default: {
        const bool takes_any = field->max > 1e18; /* rope_theta */
        const uint64_t from = takes_any ? 1 : (uint64_t)field->max + 1;
        (void)snprintf(out, cap, "%llu",
                       (unsigned long long)(from + case_random(c, (uint64_t)1 << 40)));
        return takes_any;
    }
    }
}

static inline void config_fields(malformed_case *c) {
    static const char *const FAMILIES[] = {"llama", "mistral", "qwen2", "qwen3", "smollm3"};
    const ranged *field = &RANGED[c->number % N_RANGED];
    const uint32_t step = c->number / (uint32_t)N_RANGED;
    const char *family = FAMILIES[case_random(c, 5)];
    const bool is_nested = case_chance(c, 30);
    char value[64] = "";
    bool is_legal = false;
    bytes config;
    if (step == 0) { /* missing */
        is_legal = !field->is_required;
        config = config_with(family, field->key, NULL);
    } else {
        is_legal = config_value(c, field, (step - 1) % 30, value, sizeof value);
        /* The window of a class that has it switched off may be 0. */
        is_legal =
            is_legal || (strcmp(field->key, "sliding_window") == 0 && strcmp(value, "0") == 0 &&
                         strcmp(family, "llama") != 0 && strcmp(family, "mistral") != 0);
        config = config_with(family, field->key, value);
    }
    if (is_nested) {
        bytes outer = {0};
        bytes_format(&outer, "{\"model_type\":\"outer\",\"text_config\":");
        bytes_put(&outer, config.data, config.len);
        bytes_format(&outer, "}");
        bytes_free(&config);
        config = outer;
    }
    case_label(c, "%s%s: %s = %s", is_nested ? "nested " : "", family, field->key,
               step == 0 ? "(missing)" : value);
    case_expect(c, is_legal);
    config_folder(c, config);
}

typedef struct rope_text {
    const char *members; /* of rope_scaling, without type */
    const char *type;
    bool is_legal;
} rope_text;

static inline void config_ropes(malformed_case *c) {
    static const rope_text TEXTS[] = {
        {"", "default", true},
        {"\"factor\":2.0,", "linear", true},
        {"", "linear", false},
        {"\"factor\":0,", "linear", false},
        {"\"factor\":-1,", "linear", false},
        {"\"factor\":\"2\",", "linear", false},
        {"\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,"
         "\"original_max_position_embeddings\":32,",
         "llama3", true},
        {"\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4,"
         "\"original_max_position_embeddings\":32,",
         "llama3", false},
        {"\"factor\":8,\"low_freq_factor\":1,\"high_freq_factor\":4,", "llama3", false},
        {"\"factor\":8,\"high_freq_factor\":4,\"original_max_position_embeddings\":32,", "llama3",
         false},
        {"\"factor\":8,\"low_freq_factor\":0,\"high_freq_factor\":4,"
         "\"original_max_position_embeddings\":32,",
         "llama3", false},
        {"\"factor\":4,", "yarn", true},
        {"\"factor\":4,\"original_max_position_embeddings\":0,", "yarn", false},
        {"\"factor\":4,\"original_max_position_embeddings\":64,\"beta_fast\":32,\"beta_slow\":1,"
         "\"attention_factor\":1.0,\"truncate\":false,\"mscale\":1,\"mscale_all_dim\":0,",
         "yarn", true},
        {"\"original_max_position_embeddings\":64,", "yarn", true},
        {"\"factor\":4,\"beta_fast\":1,\"beta_slow\":32,", "yarn", false},
        {"\"factor\":4,\"beta_fast\":0,", "yarn", false},
        {"\"factor\":4,\"attention_factor\":-1,", "yarn", false},
        {"\"factor\":4,\"truncate\":\"no\",", "yarn", false},
        {"\"factor\":4,\"mscale\":-1,", "yarn", false},
        {"\"factor\":4,", "dynamic", false},
        {"\"factor\":4,\"long_factor\":[1],\"short_factor\":[1],", "longrope", false},
        {"\"factor\":4,", "su", false},
        {"\"factor\":4,", "", false},
        {"\"factor\":4,", "LINEAR", false},
    };
    const size_t n = sizeof TEXTS / sizeof TEXTS[0];
    const rope_text *text = &TEXTS[c->number % n];
    const uint32_t form = c->number / (uint32_t)n % 4;
    bytes config = config_with("llama", "", NULL);
    config.len--; /* the brace */
    bytes_format(&config, ",\"%s\":{%s\"%s\":\"%s\"%s}}",
                 form < 2 ? "rope_scaling" : "rope_parameters", text->members,
                 form == 0 ? "type" : "rope_type", text->type,
                 form == 3 ? ",\"rope_theta\":50000" : "");
    case_label(c, "rope form %u: %s %s", form, text->type, text->members);
    case_expect(c, text->is_legal);
    config_folder(c, config);
}

static inline void config_lists(malformed_case *c) {
    static const struct {
        const char *more;
        bool is_legal;
    } TEXTS[] = {
        {"\"layer_types\":[\"full_attention\",\"full_attention\",\"conv\",\"x\"]", true},
        {"\"sliding_window\":8,\"layer_types\":[\"sliding_attention\",\"a\",\"b\",\"c\"]", true},
        {"\"layer_types\":[\"sliding_attention\",\"a\",\"b\",\"c\"]", false},
        {"\"layer_types\":[]", false},
        {"\"layer_types\":[\"a\",\"b\",\"c\"]", false},
        {"\"layer_types\":[\"a\",\"b\",\"c\",\"d\",\"e\"]", false},
        {"\"layer_types\":[\"a\",\"b\",\"c\",4]", false},
        {"\"layer_types\":{}", false},
        {"\"layer_types\":\"full_attention\"", false},
        {"\"layer_types\":null", true},
        {"\"no_rope_layers\":[1,1,0,1]", true},
        {"\"no_rope_layers\":[1,1,0]", false},
        {"\"no_rope_layers\":[1,1,0,2]", false},
        {"\"no_rope_layers\":[1,1,0,true]", false},
        {"\"no_rope_layers\":[1,1,0,-1]", false},
        {"\"no_rope_layers\":7", false},
        {"\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":false", true},
        {"\"tie_word_embeddings\":1", false},
        {"\"tie_word_embeddings\":\"true\"", false},
        {"\"attention_bias\":[]", false},
        {"\"mlp_bias\":0", false},
        {"\"use_sliding_window\":1", false},
        {"\"max_window_layers\":-1", false},
        {"\"hidden_act\":\"silu\"", true},
        {"\"hidden_act\":\"\"", false},
        {"\"hidden_act\":5", false},
        {"\"rope_scaling\":null,\"rope_parameters\":null", true},
        {"\"rope_scaling\":\"yarn\"", false},
        {"\"rope_parameters\":[]", false},
        {"\"unknown\":{\"deep\":[[[[1]]]]},\"other\":\"text\"", true},
        {"\"mlp_bias\":true,\"mlp_bias\":true", false},
        {"\"vocab_size\":320", false}, /* twice with the base's */
    };
    const size_t n = sizeof TEXTS / sizeof TEXTS[0];
    const size_t pick = c->number % n;
    bytes config = config_with("llama", "", NULL);
    config.len--;
    bytes_format(&config, ",%s}", TEXTS[pick].more);
    case_label(c, "%.150s", TEXTS[pick].more);
    case_expect(c, TEXTS[pick].is_legal);
    config_folder(c, config);
}

static inline void generation_fields(malformed_case *c) {
    static const ranged FIELDS[] = {
        {"temperature", NULL, false, false, 0, 1000, {"0", "1000"}},
        {"top_p", NULL, false, false, 0, 1, {"0.0", "1.0"}},
        {"min_p", NULL, false, false, 0, 1, {"0", "1"}},
        {"repetition_penalty", NULL, false, false, 1e-30, 1000, {"0.01", "1000"}},
        {"top_k", NULL, true, false, 0, 2147483647, {"0", "2147483647"}},
    };
    const ranged *field = &FIELDS[c->number % 5];
    const uint32_t step = c->number / 5 % 28;
    bytes b = {0};
    char value[64] = "";
    bool is_legal = config_value(c, field, step, value, sizeof value);
    /* Zero is inside these ranges, and so is minus zero. */
    is_legal = is_legal || (field->min == 0.0 && !field->is_whole &&
                            (strcmp(value, "0") == 0 || strcmp(value, "-0.0") == 0));
    bytes_format(&b, "{\"do_sample\":true,\"%s\":%s}", field->key, value);
    case_label(c, "generation: %s = %s", field->key, value);
    case_expect(c, is_legal);
    (void)case_file(c, "d/generation_config.json", b);
    config_folder(c, config_with("llama", "", NULL));
    c->reads_generation = true;
}

/* Every GGUF key of a configuration as every type (F06): whole numbers of any width that hold the
 * value, floats of both widths, and nothing else. */
static inline void gguf_keys_by_type(malformed_case *c) {
    static const struct {
        const char *key;
        bool is_float;
        uint8_t value;
    } KEYS[] = {{"llama.block_count", false, 2},
                {"llama.context_length", false, 64},
                {"llama.embedding_length", false, 64},
                {"llama.feed_forward_length", false, 96},
                {"llama.attention.head_count", false, 4},
                {"llama.attention.layer_norm_rms_epsilon", true, 1},
                {"llama.vocab_size", false, 11},
                {"llama.rope.freq_base", true, 7},
                {"tokenizer.ggml.eos_token_id", false, 2}};
    const size_t n = sizeof KEYS / sizeof KEYS[0];
    const size_t victim = c->number % n;
    const uint32_t type = c->number / (uint32_t)n % 13;
    bytes b = {0};
    bool is_legal = true;
    gguf_head(&b, 0, n + 1);
    gguf_kv_text(&b, "general.architecture", "llama");
    for (size_t i = 0; i < n; i++) {
        const uint32_t as = i == victim ? type : KEYS[i].is_float ? 6 : 4;
        const double real = KEYS[i].value;
        const bool is_float = as == 6 || as == 12;
        gguf_key(&b, KEYS[i].key, as);
        is_legal = is_legal && as != 7 && as != 8 && as != 9 && is_float == KEYS[i].is_float;
        if (as == 8) {
            gguf_text(&b, "2");
        } else if (as == 9) { /* an array of texts, which is no number */
            bytes_u32(&b, 8);
            bytes_u64(&b, 1);
            gguf_text(&b, "2");
        } else if (as == 6) {
            bytes_f32(&b, (float)real);
        } else if (as == 12) {
            bytes_put(&b, &real, sizeof real);
        } else {
            bytes_number(&b, KEYS[i].value, gguf_width(as));
        }
    }
    case_label(c, "%s as type %u", KEYS[victim].key, type);
    case_expect(c, is_legal);
    (void)case_file(c, "m.gguf", b);
    c->reads_config = true;
}

static const case_family CONFIG_FAMILIES[] = {
    {"fields", 1200, config_fields},       {"ropes", 300, config_ropes},
    {"lists", 180, config_lists},          {"generation", 200, generation_fields},
    {"gguf keys", 120, gguf_keys_by_type},
};
#define CONFIG_N_FAMILIES (sizeof CONFIG_FAMILIES / sizeof CONFIG_FAMILIES[0])

#endif
