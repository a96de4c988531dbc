/* SPDX-License-Identifier: Apache-2.0
 *
 * What may differ between layers: heads, widths of MLPs. Files say it in three ways: arrays of one
 * number a layer (GGUF), a second set of sizes for the layers that slide or for those that do not
 * (global_head_dim; key_length_swa), and exceptions by number of layer (per_layer_config). The
 * record has arrays; a family that knows one size only is refused where they differ (model). */
#include "formats/config_priv.h"

#include "base/arith.h"

#include <stddef.h>
#include <string.h>

#define NOT_SAID (-1)
#define HEADS_WIDTH_MAX 1048576

void tdm_config_init_layers(tdm_model_config *out) {
    for (int32_t i = 0; i < TDM_CONFIG_LAYERS_MAX; i++) {
        out->head_dim_of[i] = out->kv_heads_of[i] = out->intermediate_of[i] = NOT_SAID;
    }
}

static void fill(int32_t *of, int32_t n, int32_t value) {
    for (int32_t i = 0; i < n; i++) {
        of[i] = of[i] == NOT_SAID ? value : of[i];
    }
}

/* n_kv 0: a layer without keys, which the family judges. */
static bool are_possible(int32_t n_heads, int32_t n_kv, int32_t head_dim) {
    int64_t width = 0;
    return (n_kv == 0 || n_heads % n_kv == 0) && tdm_mul_i64(n_heads, head_dim, &width) &&
           width <= HEADS_WIDTH_MAX;
}

tdm_status tdm_config_check_layers(tdm_model_config *config, const char *file, tdm_error *err) {
    int32_t n = config->n_layers;
    fill(config->head_dim_of, n, config->head_dim);
    fill(config->kv_heads_of, n, config->n_kv_heads);
    fill(config->intermediate_of, n, config->intermediate);
    if (config->n_kv_shared > n) {
        return tdm_config_fail_cross(file, "more layers share keys and values than there are", err);
    }
    if (config->global_head_dim > 0 && config->global_rotary_dim == 0) {
        config->global_rotary_dim = config->global_head_dim;
    }
    if (config->global_rotary_dim > config->global_head_dim) {
        return tdm_config_fail_cross(file, "more dimensions rotate than a head has", err);
    }
    if (!are_possible(config->n_heads, config->n_global_kv_heads, config->global_head_dim)) {
        return tdm_config_fail_cross(file, "heads of layers that do not slide are impossible", err);
    }
    for (int32_t i = 0; i < n; i++) {
        if (!are_possible(config->n_heads, config->kv_heads_of[i], config->head_dim_of[i])) {
            (void)tdm_config_fail_cross(file, "a layer's heads are impossible", err);
            tdm_err_note(err, "layer %d has %d query heads, %d key heads of %d values", (int)i,
                         (int)config->n_heads, (int)config->kv_heads_of[i],
                         (int)config->head_dim_of[i]);
            return TDM_E_FORMAT;
        }
    }
    return TDM_OK;
}

/* ---- per_layer_config ---- */

static tdm_status fail_entry(const tdm_config_source *source, const char *path, tdm_status status,
                             const char *what, const char *key) {
    (void)tdm_fail(source->err, status, "per_layer_config: %s \"%.40s\"", what, key);
    return tdm_config_fail(source, path, "per_layer_config", status);
}

/* The number that a key spells: digits alone, below n. */
static bool read_layer_idx(const tdm_json *member, int32_t n, int32_t *out) {
    int32_t idx = 0;
    for (uint32_t i = 0; i < member->key_len; i++) {
        if (member->key[i] < '0' || member->key[i] > '9') {
            return false;
        }
        idx = 10 * idx + (member->key[i] - '0');
        if (idx >= n) {
            return false;
        }
    }
    *out = idx;
    return member->key_len > 0;
}

/* One layer's exceptions. */
static tdm_status read_exceptions(tdm_model_config *out, const tdm_config_source *source,
                                  const char *path, const tdm_json *member, int32_t layer) {
    const tdm_field rows[] = {
        {{"head_dim"},
         NULL,
         offsetof(tdm_model_config, head_dim_of),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         8192},
        {{"num_key_value_heads"},
         NULL,
         offsetof(tdm_model_config, kv_heads_of),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         65536},
        {{"intermediate_size"},
         NULL,
         offsetof(tdm_model_config, intermediate_of),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         HEADS_WIDTH_MAX},
    };
    const size_t n_rows = sizeof rows / sizeof rows[0];
    tdm_config_source own = *source;
    memset(own.scopes, 0, sizeof own.scopes);
    own.scopes[0].object = member;
    own.scopes[0].path = "$.per_layer_config";
    for (size_t i = 0; i < tdm_json_len(member); i++) {
        bool is_known = false;
        for (size_t r = 0; r < n_rows; r++) {
            is_known = is_known || strcmp(member->u.items[i].key, rows[r].json[0]) == 0;
        }
        if (!is_known) {
            return fail_entry(source, path, TDM_E_UNSUPPORTED, "no layer here can differ in",
                              member->u.items[i].key);
        }
    }
    for (size_t r = 0; r < n_rows; r++) {
        tdm_field row = rows[r];
        row.offset += (size_t)layer * sizeof(int32_t); /* bounded: layer < n_layers */
        TDM_TRY(tdm_fields_read(&own, &row, 1, out));
    }
    return TDM_OK;
}

tdm_status tdm_config_read_per_layer(tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "per_layer_config";
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, KEY, &path);
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_OBJECT)) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no object", KEY);
        return tdm_config_fail(source, path, KEY, TDM_E_FORMAT);
    }
    out->global_head_dim = 0; /* exceptions stand in the place of a second set of sizes */
    out->n_global_kv_heads = 0;
    for (size_t i = 0; i < tdm_json_len(node); i++) {
        const tdm_json *member = &node->u.items[i];
        int32_t layer = 0;
        if (!read_layer_idx(member, out->n_layers, &layer)) {
            return fail_entry(source, path, TDM_E_FORMAT, "no layer is called", member->key);
        }
        if (!tdm_json_is(member, TDM_JSON_OBJECT)) {
            return fail_entry(source, path, TDM_E_FORMAT, "no object at", member->key);
        }
        TDM_TRY(read_exceptions(out, source, path, member, layer));
    }
    return TDM_OK;
}

/* ---- GGUF ---- */

typedef struct swa_heads {
    int32_t key, value, rotary;
} swa_heads;

/* key_length and its like are of the layers that do not slide where there is a key_length_swa, of
 * all others. Source: llama.cpp, conversion/gemma.py. */
tdm_status tdm_config_read_swa_heads(tdm_model_config *out, const tdm_config_source *source) {
    static const tdm_field ROWS[] = {
        {{NULL},
         "attention.key_length_swa",
         offsetof(swa_heads, key),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         8192},
        {{NULL},
         "attention.value_length_swa",
         offsetof(swa_heads, value),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         8192},
        {{NULL},
         "rope.dimension_count_swa",
         offsetof(swa_heads, rotary),
         TDM_FIELD_I32,
         TDM_NEED_NONE,
         1,
         8192},
    };
    swa_heads swa = {0};
    TDM_TRY(tdm_fields_read(source, ROWS, sizeof ROWS / sizeof ROWS[0], &swa));
    if (swa.key == 0) {
        return TDM_OK;
    }
    if (out->head_dim == 0 || (out->value_dim != 0 && out->value_dim != out->head_dim)) {
        (void)tdm_fail(source->err, TDM_E_UNSUPPORTED,
                       "layers that do not slide have values of %d, keys of %d",
                       (int)out->value_dim, (int)out->head_dim);
        return tdm_config_fail(source, NULL, "attention.value_length", TDM_E_UNSUPPORTED);
    }
    out->global_head_dim = out->head_dim;
    out->global_rotary_dim = out->rotary_dim;
    out->head_dim = swa.key;
    out->value_dim = swa.value;
    out->rotary_dim = swa.rotary;
    return TDM_OK;
}
