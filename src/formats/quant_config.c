/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and comparing of quantization settings. Nothing here is believed by a reader of weights:
 * shapes decide, and a config that contradicts them is an error with both values, since either of
 * the two is damaged. */
#include "formats/quant_config_priv.h"

#include "base/arith.h"
#include "tensor/weight.h"

#include <string.h>

static bool mode_named(const char *text, tdm_weight_mode *out) {
    for (int i = TDM_WEIGHT_AFFINE; i <= TDM_WEIGHT_NVFP4; ++i) {
        if (strcmp(text, TDM_WEIGHT_MODE_NAMES[i]) == 0) {
            *out = (tdm_weight_mode)i;
            return true;
        }
    }
    return false;
}

/* One of "bits" and "group_size"; absent leaves 0. */
static tdm_status read_count(const tdm_json *object, const char *key, int32_t *out,
                             tdm_error *err) {
    const tdm_json *node = tdm_json_get(object, key);
    int64_t value = 0;
    *out = 0;
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_as_i64(node, &value) || value < 1 || value > 1024) {
        (void)tdm_fail(err, TDM_E_FORMAT, "%s is no whole number from 1 to 1024", key);
        return TDM_E_FORMAT;
    }
    *out = (int32_t)value;
    return TDM_OK;
}

static tdm_status read_quant(tdm_quant *out, const tdm_json *object, tdm_error *err) {
    const tdm_json *mode = tdm_json_get(object, "mode");
    *out = (tdm_quant){.mode = TDM_WEIGHT_AFFINE};
    if (mode != NULL && !tdm_json_is(mode, TDM_JSON_STRING)) {
        return tdm_fail(err, TDM_E_FORMAT, "mode is no text");
    }
    if (mode != NULL && !mode_named(mode->u.text, &out->mode)) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "mode \"%.40s\" of quantized weights",
                        mode->u.text);
    }
    TDM_TRY(read_count(object, "bits", &out->bits, err));
    TDM_TRY(read_count(object, "group_size", &out->group, err));
    if (out->bits != 0 && out->group != 0 &&
        !tdm_weight_mode_allows(out->mode, out->bits, out->group)) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "%s weights of %d bits in groups of %d",
                        TDM_WEIGHT_MODE_NAMES[out->mode], (int)out->bits, (int)out->group);
    }
    return TDM_OK;
}

static bool has_same_default(const tdm_json *a, const tdm_json *b) {
    static const char *const KEYS[] = {"bits", "group_size", "mode"};
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; ++i) {
        const tdm_json *x = tdm_json_get(a, KEYS[i]);
        const tdm_json *y = tdm_json_get(b, KEYS[i]);
        if ((x == NULL) != (y == NULL) ||
            (x != NULL && (x->kind != y->kind || x->kind == TDM_JSON_ARRAY ||
                           x->kind == TDM_JSON_OBJECT || x->kind == TDM_JSON_NULL ||
                           x->kind == TDM_JSON_BOOL || strcmp(x->u.text, y->u.text) != 0))) {
            return false;
        }
    }
    return true;
}

static tdm_status fail_at(tdm_error *err, tdm_status status, const char *file, const char *key,
                          const char *entry) {
    tdm_err_where(err, "%.100s: %s%s%.80s", file, key, entry[0] != '\0' ? "." : "", entry);
    return status;
}

/* Default and entries of MLX's object. Entries are the members that are objects or false; other
 * members are other tools' settings. */
static tdm_status read_object(tdm_quant_config *out, const char *file, tdm_error *err) {
    for (uint32_t i = 0; i < tdm_json_len(out->object); ++i) {
        const tdm_json *entry = &out->object->u.items[i];
        tdm_quant quant;
        if (tdm_json_is(entry, TDM_JSON_OBJECT)) {
            tdm_status status = read_quant(&quant, entry, err);
            if (status != TDM_OK) {
                return fail_at(err, status, file, out->key, entry->key);
            }
        }
    }
    out->has_default = tdm_json_get(out->object, "bits") != NULL ||
                       tdm_json_get(out->object, "group_size") != NULL ||
                       tdm_json_get(out->object, "mode") != NULL;
    tdm_status status = read_quant(&out->default_quant, out->object, err);
    return status == TDM_OK ? TDM_OK : fail_at(err, status, file, out->key, "");
}

tdm_status tdm_quant_config_read(tdm_quant_config *out, const tdm_json *config, const char *file,
                                 tdm_error *err) {
    const tdm_json *ours = tdm_json_get(config, "quantization");
    const tdm_json *theirs = tdm_json_get(config, "quantization_config");
    tdm_status status = TDM_OK;
    *out = (tdm_quant_config){.object = ours != NULL ? ours : theirs,
                              .key = ours != NULL ? "quantization" : "quantization_config"};
    if (out->object == NULL || tdm_json_is(out->object, TDM_JSON_NULL)) {
        out->object = NULL;
        return TDM_OK;
    }
    if (!tdm_json_is(out->object, TDM_JSON_OBJECT)) {
        status = tdm_fail(err, TDM_E_FORMAT, "%s is no object", out->key);
    } else if (ours != NULL && tdm_json_is(theirs, TDM_JSON_OBJECT) &&
               tdm_json_get(theirs, "quant_method") == NULL && !has_same_default(ours, theirs)) {
        status = tdm_fail(err, TDM_E_FORMAT,
                          "quantization and quantization_config state different defaults");
    } else if (tdm_json_get(out->object, "quant_method") != NULL) {
        status = tdm_quant_method_read(out, err);
    }
    if (status != TDM_OK) {
        return fail_at(err, status, file, out->key, "");
    }
    return out->method == TDM_QUANT_METHOD_MLX ? read_object(out, file, err) : TDM_OK;
}

tdm_quant_answer tdm_quant_config_ask(const tdm_quant_config *config, const char *module,
                                      tdm_quant *out) {
    bool is_on = true;
    *out = config->default_quant;
    if (config->object == NULL || config->method != TDM_QUANT_METHOD_MLX) {
        return TDM_QUANT_SILENT;
    }
    const tdm_json *entry = tdm_json_get(config->object, module);
    if (tdm_json_is(entry, TDM_JSON_OBJECT)) {
        (void)read_quant(out, entry, NULL); /* was checked by read */
        return TDM_QUANT_NAMED;
    }
    if (tdm_json_as_bool(entry, &is_on) && !is_on) {
        return TDM_QUANT_OFF;
    }
    return config->has_default ? TDM_QUANT_DEFAULT : TDM_QUANT_SILENT;
}

bool tdm_quant_config_leaves_out(const tdm_quant_config *config, const char *module) {
    const tdm_json *list = tdm_json_get(config->object, "modules_to_not_convert");
    size_t n = strlen(module);
    if (list == NULL) {
        list = tdm_json_get(config->object, "ignore");
    }
    for (uint32_t i = 0; tdm_json_is(list, TDM_JSON_ARRAY) && i < tdm_json_len(list); ++i) {
        const tdm_json *entry = &list->u.items[i];
        if (!tdm_json_is(entry, TDM_JSON_STRING) || entry->len == 0 || entry->len > n) {
            continue;
        }
        size_t len = entry->len;
        bool begins = strncmp(module, entry->u.text, len) == 0;
        bool ends = strcmp(module + n - len, entry->u.text) == 0;
        if ((begins && (len == n || module[len] == '.')) ||
            (ends && (len == n || module[n - len - 1] == '.'))) {
            return true;
        }
    }
    return false;
}

tdm_status tdm_quant_from_shapes(tdm_quant *out, int64_t n_in, int64_t words, int64_t groups,
                                 tdm_dtype scales_dtype, tdm_error *err) {
    int64_t row_bits = 0;
    *out = (tdm_quant){0};
    if (n_in > 0 && groups > 0 && words > 0 && words <= n_in && groups <= n_in &&
        n_in <= INT32_MAX && tdm_mul_i64(words, 32, &row_bits) && n_in % groups == 0 &&
        row_bits % n_in == 0) {
        int32_t bits = (int32_t)(row_bits / n_in);
        int32_t group = (int32_t)(n_in / groups);
        for (int i = TDM_WEIGHT_AFFINE; i <= TDM_WEIGHT_NVFP4; ++i) {
            tdm_weight_mode mode = (tdm_weight_mode)i;
            if ((scales_dtype == TDM_DTYPE_U8) == (mode != TDM_WEIGHT_AFFINE) &&
                tdm_weight_mode_allows(mode, bits, group)) {
                *out = (tdm_quant){.mode = mode, .bits = bits, .group = group};
                return TDM_OK;
            }
        }
    }
    return tdm_fail(err, TDM_E_SHAPE,
                    "rows of %lld words with %lld scales of %s fit no quantization of %lld weights",
                    (long long)words, (long long)groups, TDM_DTYPES[scales_dtype].name,
                    (long long)n_in);
}

tdm_status tdm_quant_agree(const tdm_quant *said, const tdm_quant *found, tdm_error *err) {
    if (said->mode == found->mode && (said->bits == 0 || said->bits == found->bits) &&
        (said->group == 0 || said->group == found->group)) {
        return TDM_OK;
    }
    (void)tdm_fail(
        err, TDM_E_FORMAT,
        "the config says %s of %d bits in groups of %d, the tensors have %s of %d bits in "
        "groups of %d",
        TDM_WEIGHT_MODE_NAMES[said->mode], (int)said->bits, (int)said->group,
        TDM_WEIGHT_MODE_NAMES[found->mode], (int)found->bits, (int)found->group);
    tdm_err_remedy(err, "config and weights are of different checkpoints; fetch both again");
    return TDM_E_FORMAT;
}
