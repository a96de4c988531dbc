/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of other tool chains. A table says which values of which settings have a reader; what a
 * setting says about shapes is only kept to be compared with them. Refuses methods by name, each
 * with its reason, and every setting that would change results.
 * Source: transformers 5.17, utils/quantization_config.py; compressed-tensors 0.20.1,
 * quantization/quant_config.py and quant_args.py. */
#include "formats/quant_config_priv.h"

#include <string.h>

#define VALUES_MAX 6

static const struct {
    const char *name;
    tdm_quant_method method;
} METHODS[] = {
    {"fp8", TDM_QUANT_METHOD_FP8},
    {"mxfp4", TDM_QUANT_METHOD_MXFP4},
    {"awq", TDM_QUANT_METHOD_AWQ},
    {"gptq", TDM_QUANT_METHOD_GPTQ},
    {"compressed-tensors", TDM_QUANT_METHOD_COMPRESSED_TENSORS},
};

static const struct {
    const char *name;
    const char *why;
} REFUSED[] = {
    {"bitsandbytes", "its nf4 and int8 tables are stored for that library's kernels alone"},
};

/* A setting whose values are known. Absent and null are always fine. */
typedef struct value_rule {
    tdm_quant_method method;
    const char *key;
    const char *values[VALUES_MAX]; /* texts, in small letters; none: only false, {} or [] */
    const char *why;                /* what another value means */
} value_rule;

static const value_rule RULES[] = {
    {TDM_QUANT_METHOD_FP8, "activation_scheme", {"dynamic"}, "scales of activations in the file"},
    {TDM_QUANT_METHOD_FP8, "fmt", {"e4m3"}, "another 8-bit float"},
    {TDM_QUANT_METHOD_AWQ, "version", {"gemm"}, "another order of nibbles"},
    {TDM_QUANT_METHOD_GPTQ, "checkpoint_format", {"gptq", "gptq_v2"}, "another order of codes"},
    {TDM_QUANT_METHOD_GPTQ, "format", {"gptq", "gptq_v2"}, "another order of codes"},
    {TDM_QUANT_METHOD_GPTQ, "is_marlin_format", {NULL}, "another order of codes"},
    {TDM_QUANT_METHOD_GPTQ, "pack_dtype", {"int32"}, "words of another width"},
    {TDM_QUANT_METHOD_GPTQ, "rotation", {NULL}, "rotated weights"},
    {TDM_QUANT_METHOD_COMPRESSED_TENSORS,
     "quantization_status",
     {"compressed"},
     "unpacked weights"},
    {TDM_QUANT_METHOD_COMPRESSED_TENSORS, "kv_cache_scheme", {NULL}, "rounded keys and values"},
    {TDM_QUANT_METHOD_COMPRESSED_TENSORS, "transform_config", {NULL}, "rotated weights"},
};

/* Of compressed-tensors, for the file and for a group of modules. */
static const char *const FORMATS[] = {
    "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mixed-precision"};

/* ASCII letters without regard to case: tool chains disagree about GEMM and gemm. */
static bool is_text_alike(const char *text, const char *small) {
    size_t i = 0;
    for (; text[i] != '\0' && small[i] != '\0'; ++i) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if (c != small[i]) {
            return false;
        }
    }
    return text[i] == small[i];
}

static bool is_absent(const tdm_json *node) {
    return node == NULL || tdm_json_is(node, TDM_JSON_NULL);
}

/* false, or an object or array without members. */
static bool is_nothing(const tdm_json *node) {
    bool is_on = true;
    return is_absent(node) || (tdm_json_as_bool(node, &is_on) && !is_on) ||
           ((tdm_json_is(node, TDM_JSON_OBJECT) || tdm_json_is(node, TDM_JSON_ARRAY)) &&
            tdm_json_len(node) == 0);
}

static tdm_status fail_value(const char *key, const tdm_json *node, const char *why,
                             tdm_error *err) {
    if (tdm_json_is(node, TDM_JSON_STRING)) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s \"%.40s\" (%s) has no reader here", key,
                       node->u.text, why);
    } else {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s is set (%s): no reader here", key, why);
    }
    tdm_err_remedy(err, "use the original checkpoint, an MLX one or a GGUF file");
    return TDM_E_UNSUPPORTED;
}

static tdm_status check_value(const value_rule *rule, const tdm_json *node, tdm_error *err) {
    if (rule->values[0] == NULL ? is_nothing(node) : is_absent(node)) {
        return TDM_OK;
    }
    for (int i = 0; i < VALUES_MAX && rule->values[i] != NULL; ++i) {
        if (tdm_json_is(node, TDM_JSON_STRING) && is_text_alike(node->u.text, rule->values[i])) {
            return TDM_OK;
        }
    }
    return fail_value(rule->key, node, rule->why, err);
}

/* A whole number from low to high; absent or null leaves *out. */
static tdm_status read_number(const tdm_json *object, const char *key, int64_t low, int64_t high,
                              int32_t *out, tdm_error *err) {
    const tdm_json *node = tdm_json_get(object, key);
    int64_t value = 0;
    if (is_absent(node)) {
        return TDM_OK;
    }
    if (!tdm_json_as_i64(node, &value) || value < low || value > high || value == 0) {
        return tdm_fail(err, TDM_E_FORMAT, "%s is no whole number from %lld to %lld", key,
                        (long long)(low < 0 ? low : 1), (long long)high);
    }
    *out = (int32_t)value;
    return TDM_OK;
}

/* [rows, columns]; absent or null leaves 128 by 128. */
static tdm_status read_block(tdm_quant_config *out, const tdm_json *object, const char *key,
                             tdm_error *err) {
    const tdm_json *node = tdm_json_get(object, key);
    int64_t sides[2] = {0};
    if (is_absent(node) || tdm_json_text_is(node, "128x128")) {
        return TDM_OK;
    }
    for (uint32_t i = 0; i < 2; ++i) {
        if (!tdm_json_is(node, TDM_JSON_ARRAY) || tdm_json_len(node) != 2 ||
            !tdm_json_as_i64(&node->u.items[i], &sides[i]) || sides[i] < 1 || sides[i] > 65536) {
            return tdm_fail(err, TDM_E_FORMAT, "%s is not two whole numbers from 1 to 65536", key);
        }
    }
    out->block_rows = (int32_t)sides[0];
    out->block_columns = (int32_t)sides[1];
    return TDM_OK;
}

/* Absent, or rounded while the model runs. */
static tdm_status check_activations(const tdm_json *group, const char *key, tdm_error *err) {
    const tdm_json *node = tdm_json_get(group, key);
    bool is_dynamic = false;
    if (is_nothing(node) ||
        (tdm_json_as_bool(tdm_json_get(node, "dynamic"), &is_dynamic) && is_dynamic)) {
        return TDM_OK;
    }
    return fail_value(key, node, "scales of activations in the file", err);
}

static tdm_status check_format(const tdm_json *node, tdm_error *err) {
    for (size_t i = 0; i < sizeof FORMATS / sizeof FORMATS[0]; ++i) {
        if (tdm_json_text_is(node, FORMATS[i])) {
            return TDM_OK;
        }
    }
    return is_absent(node) ? TDM_OK : fail_value("format", node, "another layout", err);
}

static bool is_turned(const tdm_json *actorder) {
    bool is_on = false;
    return tdm_json_text_is(actorder, "group") || (tdm_json_as_bool(actorder, &is_on) && is_on);
}

/* One entry of config_groups. is_alone: there is no other. */
static tdm_status read_group(tdm_quant_config *out, const tdm_json *group, bool is_alone,
                             tdm_error *err) {
    const tdm_json *weights = tdm_json_get(group, "weights");
    int32_t bits = 0;
    int32_t columns = 0;
    TDM_TRY(check_format(tdm_json_get(group, "format"), err));
    TDM_TRY(check_activations(group, "input_activations", err));
    TDM_TRY(check_activations(group, "output_activations", err));
    if (is_absent(weights)) {
        return TDM_OK;
    }
    if (!tdm_json_is(weights, TDM_JSON_OBJECT)) {
        return tdm_fail(err, TDM_E_FORMAT, "weights of a group are no object");
    }
    if (!is_nothing(tdm_json_get(weights, "dynamic"))) {
        return fail_value("dynamic", weights, "weights without scales", err);
    }
    TDM_TRY(read_number(weights, "num_bits", 1, 16, &bits, err));
    TDM_TRY(read_number(weights, "group_size", -1, 65536, &columns, err));
    TDM_TRY(read_block(out, weights, "block_structure", err));
    out->has_columns = out->has_columns || is_turned(tdm_json_get(weights, "actorder"));
    if (is_alone) {
        out->bits = bits;
        out->group = tdm_json_text_is(tdm_json_get(weights, "strategy"), "group") ? columns : 0;
    }
    return TDM_OK;
}

static tdm_status read_compressed(tdm_quant_config *out, tdm_error *err) {
    const tdm_json *groups = tdm_json_get(out->object, "config_groups");
    const tdm_json *sparsity = tdm_json_get(out->object, "sparsity_config");
    TDM_TRY(check_format(tdm_json_get(out->object, "format"), err));
    if (!is_nothing(sparsity) && !tdm_json_text_is(tdm_json_get(sparsity, "format"), "dense")) {
        return fail_value("sparsity_config", sparsity, "weights without their zeros", err);
    }
    if (!is_absent(groups) && !tdm_json_is(groups, TDM_JSON_OBJECT)) {
        return tdm_fail(err, TDM_E_FORMAT, "config_groups is no object");
    }
    for (uint32_t i = 0; i < tdm_json_len(groups); ++i) {
        tdm_status status = read_group(out, &groups->u.items[i], tdm_json_len(groups) == 1, err);
        if (status != TDM_OK) {
            tdm_err_note(err, "config_groups.%.40s", groups->u.items[i].key);
            return status;
        }
    }
    return TDM_OK;
}

/* GPTQ and AWQ, whose older files spell both numbers in another way. */
static tdm_status read_columns(tdm_quant_config *out, tdm_error *err) {
    const tdm_json *format = tdm_json_get(out->object, "checkpoint_format");
    bool is_uniform = is_nothing(tdm_json_get(out->object, "dynamic"));
    TDM_TRY(read_number(out->object, "w_bit", 1, 16, &out->bits, err));
    TDM_TRY(read_number(out->object, "bits", 1, 16, &out->bits, err));
    TDM_TRY(read_number(out->object, "q_group_size", -1, 65536, &out->group, err));
    TDM_TRY(read_number(out->object, "group_size", -1, 65536, &out->group, err));
    if (!is_uniform) { /* modules by pattern; their tensors say what they are */
        out->bits = 0;
        out->group = 0;
    }
    format = is_absent(format) ? tdm_json_get(out->object, "format") : format;
    out->zero_add =
        out->method == TDM_QUANT_METHOD_GPTQ &&
                !(tdm_json_is(format, TDM_JSON_STRING) && is_text_alike(format->u.text, "gptq_v2"))
            ? 1
            : 0;
    return TDM_OK;
}

static tdm_status find_method(tdm_quant_config *out, const char *name, tdm_error *err) {
    const char *why = "there is no reader for it here";
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; ++i) {
        if (strcmp(name, METHODS[i].name) == 0) {
            out->method = METHODS[i].method;
            return TDM_OK;
        }
    }
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; ++i) {
        why = strcmp(name, REFUSED[i].name) == 0 ? REFUSED[i].why : why;
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "weights quantized by %.40s: %s", name, why);
    tdm_err_remedy(err, "use the original checkpoint, an MLX one or a GGUF file");
    return TDM_E_UNSUPPORTED;
}

tdm_status tdm_quant_method_read(tdm_quant_config *out, tdm_error *err) {
    const tdm_json *method = tdm_json_get(out->object, "quant_method");
    if (!tdm_json_is(method, TDM_JSON_STRING)) {
        return tdm_fail(err, TDM_E_FORMAT, "quant_method is no text");
    }
    TDM_TRY(find_method(out, method->u.text, err));
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; ++i) {
        if (RULES[i].method == out->method) {
            TDM_TRY(check_value(&RULES[i], tdm_json_get(out->object, RULES[i].key), err));
        }
    }
    out->block_rows = 128;
    out->block_columns = 128;
    switch (out->method) {
    case TDM_QUANT_METHOD_FP8:
        return read_block(out, out->object, "weight_block_size", err);
    case TDM_QUANT_METHOD_AWQ:
    case TDM_QUANT_METHOD_GPTQ:
        return read_columns(out, err);
    case TDM_QUANT_METHOD_COMPRESSED_TENSORS:
        return read_compressed(out, err);
    case TDM_QUANT_METHOD_MLX:
    case TDM_QUANT_METHOD_MXFP4:
    default:
        return TDM_OK;
    }
}
