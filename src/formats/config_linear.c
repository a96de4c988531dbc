/* SPDX-License-Identifier: Apache-2.0
 *
 * Layers of the gated delta rule in place of attention (qwen3_next, qwen3_5): which they are, and
 * the sizes of their heads. Only the families that have them are read; elsewhere a layer of that
 * name stays unknown and is refused. Source: transformers 5.17, models/qwen3_next, qwen3_5 and
 * qwen3_5_moe, configuration_*.py; llama.cpp, src/llama-model.cpp (qwen3next, qwen35); shared/spec/
 * gguf.md section 2. */
#include "formats/config_priv.h"

#include "base/arith.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(tdm_model_config, linear.field)
#define WIDTH_MAX INT64_C(1048576)
#define STATE_MAX (INT64_C(1) << 28) /* values of one layer and sequence: a gigabyte */
#define INTERVAL_DEFAULT 4

#define ROW(json, gguf, field, max)                                                                \
    { {json}, gguf, AT(field), TDM_FIELD_I32, TDM_NEED_BOTH, 1, max }

static const tdm_field FIELDS[] = {
    ROW("linear_num_key_heads", "ssm.group_count", n_key_heads, 65536),
    ROW("linear_num_value_heads", "ssm.time_step_rank", n_value_heads, 65536),
    ROW("linear_key_head_dim", "ssm.state_size", key_dim, 8192),
    ROW("linear_conv_kernel_dim", "ssm.conv_kernel", n_taps, 4096),
};
#define N_FIELDS (sizeof FIELDS / sizeof FIELDS[0])

/* What the classes of all such families have for absent keys. */
static const tdm_linear_config DEFAULTS = {
    .n_key_heads = 16, .n_value_heads = 32, .key_dim = 128, .value_dim = 128, .n_taps = 4};

static tdm_status fail_value(const tdm_config_source *source, const char *path, const char *key,
                             const char *what) {
    (void)tdm_fail(source->err, TDM_E_FORMAT, "%s: %s", key, what);
    return tdm_config_fail(source, path, key, TDM_E_FORMAT);
}

static void fill_layers(tdm_model_config *out, int64_t interval) {
    for (int32_t i = 0; i < out->n_layers; i++) {
        out->linear.is_linear[i] = (i + 1) % interval != 0;
    }
}

/* Each key head serves as many value heads; rows and states stay within their limits. */
static tdm_status check_sizes(const tdm_model_config *out, const tdm_config_source *source) {
    const tdm_linear_config *l = &out->linear;
    const bool is_gguf = source->gguf != NULL;
    const char *path = is_gguf ? NULL : source->scopes[0].path;
    int64_t state = (int64_t)l->n_value_heads * l->value_dim; /* bounded by the rows above */
    if (l->n_value_heads % l->n_key_heads != 0) {
        return fail_value(source, path, is_gguf ? "ssm.time_step_rank" : "linear_num_value_heads",
                          "no multiple of the number of key heads");
    }
    if (state > WIDTH_MAX || (int64_t)l->n_key_heads * l->key_dim > WIDTH_MAX ||
        !tdm_mul_i64(state, l->key_dim, &state) || state > STATE_MAX) {
        (void)fail_value(source, path, is_gguf ? "ssm.state_size" : "linear_key_head_dim",
                         "heads times their sizes are too large");
        tdm_err_limit(source->err, "%lld values of a row, %lld of a state", (long long)WIDTH_MAX,
                      (long long)STATE_MAX);
        return TDM_E_FORMAT;
    }
    return TDM_OK;
}

tdm_status tdm_config_read_linear_json(tdm_model_config *out, const tdm_config_source *source,
                                       const tdm_class_default *class) {
    const tdm_field value_dim = {
        {"linear_value_head_dim"}, NULL, AT(value_dim), TDM_FIELD_I32, TDM_NEED_NONE, 1, 8192};
    const tdm_field row = {
        {"full_attention_interval"}, NULL, 0, TDM_FIELD_I64, TDM_NEED_NONE, 1, 1048576.0};
    int64_t interval = INTERVAL_DEFAULT;
    if (class == NULL || !class->has_linear) {
        return TDM_OK;
    }
    out->linear.n_key_heads = DEFAULTS.n_key_heads;
    out->linear.n_value_heads = DEFAULTS.n_value_heads;
    out->linear.key_dim = DEFAULTS.key_dim;
    out->linear.value_dim = DEFAULTS.value_dim;
    out->linear.n_taps = DEFAULTS.n_taps;
    out->has_output_gate = true;
    TDM_TRY(tdm_config_bool(source, "attn_output_gate", &out->has_output_gate));
    TDM_TRY(tdm_fields_read(source, FIELDS, N_FIELDS, out));
    TDM_TRY(tdm_fields_read(source, &value_dim, 1, out));
    TDM_TRY(tdm_fields_read(source, &row, 1, &interval));
    if (out->n_layer_types == 0) {
        fill_layers(out, interval);
    }
    return check_sizes(out, source);
}

/* One flag a layer, those that predict further tokens included; it wins over the interval. */
static tdm_status read_flags(tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "attention.recurrent_layers";
    char key[256];
    tdm_gguf_array_ref ref;
    (void)snprintf(key, sizeof key, "%s%s", source->prefix, KEY);
    if (!tdm_gguf_has(source->gguf, key)) {
        return TDM_OK;
    }
    if (!tdm_gguf_array_find(source->gguf, key, &ref) || ref.type != TDM_GGUF_BOOL ||
        ref.n != (size_t)out->n_layers + (size_t)out->n_mtp_layers) {
        return fail_value(source, NULL, KEY, "no array of one bool a layer");
    }
    for (int32_t i = 0; i < out->n_layers; i++) {
        int64_t value = 0;
        (void)tdm_gguf_ref_i64(&ref, (size_t)i, &value);
        out->linear.is_linear[i] = value != 0;
    }
    return TDM_OK;
}

tdm_status tdm_config_read_linear_gguf(tdm_model_config *out, const tdm_config_source *source) {
    static const char *const FAMILIES[] = {"qwen3next", "qwen35", "qwen35moe"};
    const tdm_field inner = {{NULL}, "ssm.inner_size", 0, TDM_FIELD_I64, TDM_NEED_BOTH,
                             1,      WIDTH_MAX};
    const tdm_field mtp = {{NULL}, "nextn_predict_layers", 0, TDM_FIELD_I64, TDM_NEED_NONE, 0,
                           1024};
    const tdm_field row = {{NULL},   "full_attention_interval", 0, TDM_FIELD_I64, TDM_NEED_NONE, 1,
                           1048576.0};
    int64_t interval = INTERVAL_DEFAULT;
    int64_t n_inner = 0;
    int64_t n_mtp = 0;
    bool is_one = false;
    for (size_t i = 0; i < sizeof FAMILIES / sizeof FAMILIES[0]; i++) {
        is_one = is_one || strcmp(out->family, FAMILIES[i]) == 0;
    }
    if (!is_one) {
        return TDM_OK;
    }
    out->has_output_gate = true;
    TDM_TRY(tdm_fields_read(source, FIELDS, N_FIELDS, out));
    TDM_TRY(tdm_fields_read(source, &inner, 1, &n_inner));
    TDM_TRY(tdm_fields_read(source, &row, 1, &interval));
    TDM_TRY(tdm_fields_read(source, &mtp, 1, &n_mtp));
    if (n_mtp >= out->n_layers) {
        return fail_value(source, NULL, "nextn_predict_layers",
                          "no layers are left beside those that predict further tokens");
    }
    out->n_mtp_layers = (int32_t)n_mtp;
    out->n_layers -= out->n_mtp_layers; /* block_count counts both */
    if (n_inner % out->linear.n_value_heads != 0 || n_inner / out->linear.n_value_heads > 8192) {
        return fail_value(source, NULL, "ssm.inner_size",
                          "no multiple of the number of value heads, or heads too wide");
    }
    out->linear.value_dim = (int32_t)(n_inner / out->linear.n_value_heads);
    fill_layers(out, interval);
    TDM_TRY(read_flags(out, source));
    return check_sizes(out, source);
}
