/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json into the record. Keys are looked for in text_config first, where there is one, and
 * then at the root. Two generations of rope are read: rope_theta beside rope_scaling {type or
 * rope_type, factor, ...}, and rope_parameters that hold both. */
#include "formats/config_priv.h"

#include <stddef.h>
#include <string.h>

#define MAX_WINDOW_LAYERS_DEFAULT 28 /* of the qwen classes */
#define NO_ROPE_INTERVAL_DEFAULT 4   /* of smollm3 */

static bool is_smollm3(const tdm_model_config *config) {
    return strcmp(config->text_family, "smollm3") == 0;
}

/* A string that may be absent (*out is left alone). */
static tdm_status read_text(const tdm_config_source *source, const char *key, const char **out) {
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, key, &path);
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_STRING) || node->len == 0 ||
        strlen(node->u.text) != node->len) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no plain text", key);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    *out = node->u.text;
    return TDM_OK;
}

static tdm_status read_family(tdm_model_config *out, const tdm_json *root,
                              const tdm_config_source *source) {
    const tdm_config_source at_root = {
        .file = source->file, .scopes = {{root, "$"}}, .err = source->err};
    TDM_TRY(read_text(&at_root, "model_type", &out->family));
    TDM_TRY(read_text(source, "model_type", &out->text_family));
    if (out->text_family == NULL) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "model_type is missing");
        return tdm_config_fail(source, "$", "model_type", TDM_E_FORMAT);
    }
    if (out->family == NULL) {
        out->family = out->text_family;
    }
    return TDM_OK;
}

/* ---- rope ---- */

static tdm_status fail_rope_type(const tdm_config_source *source, const tdm_json *type) {
    (void)tdm_fail(source->err, TDM_E_UNSUPPORTED, "rope type \"%.40s\" is not supported",
                   tdm_json_is(type, TDM_JSON_STRING) ? type->u.text : "(no text)");
    (void)tdm_config_fail(source, source->scopes[0].path, "rope_type", TDM_E_UNSUPPORTED);
    tdm_err_limit(source->err, "default, linear, llama3, yarn, proportional");
    tdm_err_remedy(source->err, "use a model with one of the supported rope types");
    return TDM_E_UNSUPPORTED;
}

static tdm_status read_rope_kind(tdm_rope_config *rope, const tdm_config_source *source) {
    static const struct {
        const char *name;
        tdm_rope_kind kind;
    } KINDS[] = {{"default", TDM_ROPE_DEFAULT},
                 {"linear", TDM_ROPE_LINEAR},
                 {"llama3", TDM_ROPE_LLAMA3},
                 {"yarn", TDM_ROPE_YARN},
                 {"proportional", TDM_ROPE_PROPORTIONAL}};
    const char *path = NULL;
    const tdm_json *type = tdm_config_find(source, "rope_type", &path);
    if (type == NULL) {
        type = tdm_config_find(source, "type", &path); /* the older spelling */
    }
    if (type == NULL) {
        rope->kind = TDM_ROPE_DEFAULT;
        if (tdm_config_find(source, "factor", &path) != NULL) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "rope scaling has a factor but no type");
            return tdm_config_fail(source, path, "rope_type", TDM_E_FORMAT);
        }
        return TDM_OK;
    }
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        if (tdm_json_text_is(type, KINDS[i].name)) {
            rope->kind = KINDS[i].kind;
            return TDM_OK;
        }
    }
    return fail_rope_type(source, type);
}

/* The object that holds the rope's parameters as a scope, or an empty scope. Where there is one for
 * each type of layer it is that of full attention, and *out_sliding that of sliding attention. */
static tdm_status find_rope(const tdm_config_source *source, tdm_config_source *rope_source,
                            const tdm_json **out_sliding) {
    const char *path = NULL;
    const char *key = "rope_parameters";
    const tdm_json *node = tdm_config_find(source, key, &path);
    const tdm_json *full = NULL;
    const bool is_nested = path != NULL && strcmp(path, "$") != 0;
    if (node == NULL) {
        key = "rope_scaling";
        node = tdm_config_find(source, key, &path);
    }
    *rope_source = *source;
    memset(rope_source->scopes, 0, sizeof rope_source->scopes);
    rope_source->scopes[0].path = strcmp(key, "rope_scaling") == 0 ? "$.rope_scaling"
                                  : is_nested                      ? "$.text_config.rope_parameters"
                                                                   : "$.rope_parameters";
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_OBJECT)) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no object", key);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    full = tdm_json_get(node, "full_attention");
    if (!tdm_json_is(full, TDM_JSON_OBJECT)) {
        rope_source->scopes[0].object = node;
        return TDM_OK;
    }
    rope_source->scopes[0].object = full;
    *out_sliding = tdm_json_get(node, "sliding_attention");
    return TDM_OK;
}

static const tdm_field PARTIAL = {
    {"partial_rotary_factor"}, NULL, 0, TDM_FIELD_F64, TDM_NEED_NONE, 1e-6, 1.0};

/* Leading dims of a head that turn, by the fraction of them; 0: fewer than one. A proportional rope
 * spans the whole head. */
static int32_t rotary_of(const tdm_model_config *out, const tdm_rope_config *rope,
                         double fraction) {
    const int32_t head_dim = out->head_dim != 0 ? out->head_dim : out->hidden / out->n_heads;
    return rope->kind == TDM_ROPE_PROPORTIONAL ? head_dim : (int32_t)((double)head_dim * fraction);
}

/* The rope of sliding layers, in either generation: an object of its own, or a base beside
 * rope_theta that no scaling touches. */
static tdm_status read_local_rope(tdm_model_config *out, const tdm_config_source *source,
                                  const tdm_json *sliding, const tdm_class_default *class) {
    static const char KEY[] = "rope_local_base_freq";
    tdm_rope_config *rope = &out->rope_local;
    tdm_config_source own = *source;
    const char *path = NULL;
    const tdm_field base = {{KEY}, NULL, 0, TDM_FIELD_F64, TDM_NEED_NONE, 1e-30, 1e30};
    bool has_object = tdm_json_is(sliding, TDM_JSON_OBJECT);
    double theta_default = class != NULL ? class->local_theta : 0.0;
    *rope = out->rope;
    if (!has_object && (class == NULL || !class->has_local_rope) &&
        tdm_config_find(source, KEY, &path) == NULL) {
        return TDM_OK;
    }
    out->has_local_rope = true;
    *rope = (tdm_rope_config){.theta = theta_default != 0.0 ? theta_default : out->rope.theta,
                              .beta_fast = out->rope.beta_fast,
                              .beta_slow = out->rope.beta_slow,
                              .is_truncated = true};
    TDM_TRY(tdm_fields_read(source, &base, 1, &rope->theta));
    memset(own.scopes, 0, sizeof own.scopes);
    own.scopes[0].object = has_object ? sliding : NULL;
    own.scopes[0].path = "$.rope_parameters.sliding_attention";
    TDM_TRY(read_rope_kind(rope, &own));
    TDM_TRY(tdm_fields_read(&own, TDM_ROPE_FIELDS, TDM_ROPE_FIELDS_LEN, rope));
    TDM_TRY(tdm_config_bool(&own, "truncate", &rope->is_truncated));
    rope->fraction = 1.0;
    TDM_TRY(tdm_fields_read(source, &PARTIAL, 1, &rope->fraction));
    TDM_TRY(tdm_fields_read(&own, &PARTIAL, 1, &rope->fraction));
    if (rotary_of(out, rope, rope->fraction) != rotary_of(out, &out->rope, out->rope.fraction)) {
        (void)tdm_fail(source->err, TDM_E_UNSUPPORTED,
                       "layers that slide turn another part of a head than the others");
        return tdm_config_fail(&own, own.scopes[0].path, "partial_rotary_factor",
                               TDM_E_UNSUPPORTED);
    }
    return tdm_rope_check(rope, &own, out->context_max);
}

/* The rows of the rope table that have a name at the top level too: rope_theta only. */
static tdm_status read_rope(tdm_model_config *out, const tdm_config_source *source,
                            const tdm_class_default *class) {
    tdm_rope_config *rope = &out->rope;
    const tdm_json *sliding = NULL;
    tdm_config_source rope_source;
    rope->fraction = class != NULL && class->rotary_fraction > 0.0 ? class->rotary_fraction : 1.0;
    rope->theta = class != NULL ? class->theta : 10000.0;
    TDM_TRY(find_rope(source, &rope_source, &sliding));
    TDM_TRY(
        tdm_fields_read(source, &TDM_ROPE_FIELDS[0], 1, rope)); /* rope_theta, the older place */
    TDM_TRY(read_rope_kind(rope, &rope_source));
    TDM_TRY(tdm_fields_read(&rope_source, TDM_ROPE_FIELDS, TDM_ROPE_FIELDS_LEN, rope));
    TDM_TRY(tdm_config_bool(&rope_source, "truncate", &rope->is_truncated));
    if (rope_source.scopes[0].object == NULL && class != NULL && class->rope_proportion > 0.0) {
        rope->kind = TDM_ROPE_PROPORTIONAL;
        rope->fraction = class->rope_proportion;
    }
    if (rope_source.scopes[0].object == NULL && class != NULL && class->absent_rope != NULL) {
        double theta = rope->theta;
        *rope = *class->absent_rope;
        rope->theta = theta;
    }
    TDM_TRY(tdm_fields_read(source, &PARTIAL, 1, &rope->fraction));
    TDM_TRY(tdm_fields_read(&rope_source, &PARTIAL, 1, &rope->fraction));
    if (rope->fraction < 1.0) {
        out->rotary_dim = rotary_of(out, rope, rope->fraction);
        if (out->rotary_dim < 1) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "partial_rotary_factor leaves no dimension");
            return tdm_config_fail(source, "$", "partial_rotary_factor", TDM_E_FORMAT);
        }
    }
    TDM_TRY(tdm_rope_check(rope, &rope_source, out->context_max));
    return read_local_rope(out, source, sliding, class);
}

/* ---- layers ---- */

/* An array of n_layers elements, or NULL when absent. */
static tdm_status find_layer_array(const tdm_model_config *out, const tdm_config_source *source,
                                   const char *key, const tdm_json **out_array) {
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, key, &path);
    *out_array = node;
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_ARRAY) || tdm_json_len(node) != (size_t)out->n_layers) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s has %zu elements for %d layers", key,
                       tdm_json_len(node), out->n_layers);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    return TDM_OK;
}

static tdm_status read_no_rope(tdm_model_config *out, const tdm_config_source *source) {
    const tdm_json *array = NULL;
    int64_t interval = 0;
    const tdm_field row = {
        {"no_rope_layer_interval"}, NULL, 0, TDM_FIELD_I64, TDM_NEED_NONE, 1, 1048576.0};
    TDM_TRY(find_layer_array(out, source, "no_rope_layers", &array));
    if (array == NULL) {
        interval = is_smollm3(out) ? NO_ROPE_INTERVAL_DEFAULT : 0;
        TDM_TRY(tdm_fields_read(source, &row, 1, &interval));
        if (interval > 0) {
            tdm_config_fill_rope_layers(out, interval);
        }
        return TDM_OK;
    }
    out->n_no_rope = out->n_layers;
    for (int32_t i = 0; i < out->n_layers; i++) {
        int64_t value = 0;
        if (!tdm_json_as_i64(&array->u.items[i], &value) || value < 0 || value > 1) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "no_rope_layers[%d] is neither 0 nor 1", i);
            return tdm_config_fail(source, "$", "no_rope_layers", TDM_E_FORMAT);
        }
        out->has_rope[i] = value != 0;
    }
    return TDM_OK;
}

static tdm_status read_layer_types(tdm_model_config *out, const tdm_config_source *source,
                                   const tdm_json *array, bool has_linear) {
    const bool is_sparse = strcmp(out->text_family, "glm_moe_dsa") == 0; /* all or none */
    out->n_layer_types = out->n_layers;
    for (int32_t i = 0; i < out->n_layers; i++) {
        const tdm_json *type = &array->u.items[i];
        if (!tdm_json_is(type, TDM_JSON_STRING)) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "layer_types[%d] is no text", i);
            return tdm_config_fail(source, "$", "layer_types", TDM_E_FORMAT);
        }
        out->is_sliding[i] = tdm_json_text_is(type, "sliding_attention");
        out->is_conv[i] = tdm_json_text_is(type, "conv");
        out->linear.is_linear[i] = has_linear && tdm_json_text_is(type, "linear_attention");
        if (out->is_sliding[i] == 0 && out->is_conv[i] == 0 && out->linear.is_linear[i] == 0 &&
            !tdm_json_text_is(type, is_sparse ? "deepseek_sparse_attention" : "full_attention")) {
            out->has_other_layer_types = true;
        }
    }
    return TDM_OK;
}

/* transformers writes 0 for a window that use_sliding_window switches off; elsewhere it would hide
 * every key. */
static tdm_status check_window(const tdm_model_config *out, const tdm_config_source *source,
                               bool is_used) {
    static const char KEY[] = "sliding_window";
    const char *path = NULL;
    if (!is_used || out->sliding_window != 0 || tdm_config_find(source, KEY, &path) == NULL) {
        return TDM_OK;
    }
    (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is 0", KEY);
    tdm_err_limit(source->err, "1 or more, or null");
    return tdm_config_fail(source, path, KEY, TDM_E_FORMAT);
}

/* sliding_window has been read by the table; here it is dropped where use_sliding_window says so,
 * and spread over the layers as transformers' classes do. */
static tdm_status read_sliding(tdm_model_config *out, const tdm_config_source *source,
                               const tdm_class_default *class) {
    const tdm_json *array = NULL;
    const char *path = NULL;
    const bool is_opt_in = class != NULL && class->is_sliding_opt_in;
    bool is_used = !is_opt_in;
    int64_t first = is_opt_in ? MAX_WINDOW_LAYERS_DEFAULT : 0;
    const bool has_first = tdm_config_find(source, "max_window_layers", &path) != NULL;
    const tdm_field row = {{"max_window_layers"}, NULL, 0,        TDM_FIELD_I64,
                           TDM_NEED_NONE,         0,    1048576.0};
    const tdm_field period = {{"sliding_window_pattern", "_sliding_window_pattern"},
                              NULL,
                              offsetof(tdm_model_config, sliding_period),
                              TDM_FIELD_I32,
                              TDM_NEED_NONE,
                              1,
                              1048576.0};
    TDM_TRY(tdm_fields_read(source, &period, 1, out));
    TDM_TRY(tdm_config_bool(source, "use_sliding_window", &is_used));
    TDM_TRY(tdm_fields_read(source, &row, 1, &first));
    TDM_TRY(check_window(out, source, is_used));
    out->sliding_window = is_used ? out->sliding_window : 0;
    TDM_TRY(find_layer_array(out, source, "layer_types", &array));
    if (array != NULL) {
        return read_layer_types(out, source, array, class != NULL && class->has_linear);
    }
    if (out->sliding_window > 0 && (is_opt_in || has_first)) {
        out->n_layer_types = out->n_layers;
        for (int32_t i = 0; i < out->n_layers; i++) {
            out->is_sliding[i] = is_smollm3(out) ? out->has_rope[i] == 0 : i >= first;
        }
    }
    return TDM_OK;
}

/* An array of numbers of layers sets flags of those to value; *out_is_there false: no such key. */
static tdm_status read_layer_set(const tdm_model_config *out, const tdm_config_source *source,
                                 const char *key, uint8_t value, uint8_t *flags,
                                 bool *out_is_there) {
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, key, &path);
    *out_is_there = node != NULL;
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_ARRAY)) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no array", key);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    for (size_t i = 0; i < tdm_json_len(node); i++) {
        int64_t layer = 0;
        if (!tdm_json_as_i64(&node->u.items[i], &layer) || layer < 0 || layer >= out->n_layers) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "%s[%zu] is no layer", key, i);
            tdm_err_limit(source->err, "0 to %d", (int)out->n_layers - 1);
            return tdm_config_fail(source, path, key, TDM_E_FORMAT);
        }
        flags[layer] = value;
    }
    return TDM_OK;
}

static tdm_status read_experts(tdm_model_config *out, const tdm_config_source *source,
                               const tdm_class_default *class) {
    bool is_there = false;
    bool is_used = class == NULL || !class->has_moe_flag;
    TDM_TRY(tdm_config_bool(source, "enable_moe_block", &is_used));
    if (!is_used) {
        out->experts.n = out->experts.n_used = 0;
    } else if (class != NULL && class->has_moe_flag && out->experts.n == 0) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "enable_moe_block asks for experts of no number");
        return tdm_config_fail(source, source->scopes[0].path, "num_experts", TDM_E_FORMAT);
    }
    out->experts.is_renormalized = class != NULL && class->is_renormalized;
    TDM_TRY(tdm_config_bool(source, "norm_topk_prob", &out->experts.is_renormalized));
    return read_layer_set(out, source, "mlp_only_layers", 1, out->experts.is_dense, &is_there);
}

/* lfm2 before layer_types: full_attn_idxs lists the layers that do not convolve. */
static tdm_status read_convolutions(tdm_model_config *out, const tdm_config_source *source) {
    uint8_t is_full[TDM_CONFIG_LAYERS_MAX] = {0};
    bool is_there = false;
    out->is_ff_adjusted = true;
    TDM_TRY(tdm_config_bool(source, "conv_bias", &out->has_conv_bias));
    TDM_TRY(tdm_config_bool(source, "block_auto_adjust_ff_dim", &out->is_ff_adjusted));
    TDM_TRY(read_layer_set(out, source, "full_attn_idxs", 1, is_full, &is_there));
    for (int32_t i = 0; is_there && out->n_layer_types == 0 && i < out->n_layers; i++) {
        out->is_conv[i] = is_full[i] == 0;
    }
    return TDM_OK;
}

/* ---- token ids ---- */

static tdm_status read_id(const tdm_config_source *source, const char *path, const char *key,
                          const tdm_json *node, int32_t *out) {
    int64_t id = 0;
    if (!tdm_json_as_i64(node, &id) || id < 0 || id > INT32_MAX) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no token id", key);
        tdm_err_limit(source->err, "0 to %d", INT32_MAX);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    *out = (int32_t)id;
    return TDM_OK;
}

/* A number or an array of them; an absent key leaves the list as it is. */
static tdm_status read_eos(tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "eos_token_id";
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, KEY, &path);
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_ARRAY)) {
        out->n_eos = 1;
        return read_id(source, path, KEY, node, &out->eos_ids[0]);
    }
    if (tdm_json_len(node) > TDM_CONFIG_EOS_MAX) {
        (void)tdm_fail(source->err, TDM_E_LIMIT, "%s lists %zu ids", KEY, tdm_json_len(node));
        tdm_err_limit(source->err, "%d ids", TDM_CONFIG_EOS_MAX);
        return tdm_config_fail(source, path, KEY, TDM_E_LIMIT);
    }
    out->n_eos = (int32_t)tdm_json_len(node);
    for (int32_t i = 0; i < out->n_eos; i++) {
        TDM_TRY(read_id(source, path, KEY, &node->u.items[i], &out->eos_ids[i]));
    }
    return TDM_OK;
}

static tdm_status read_ids(tdm_model_config *out, const tdm_config_source *source,
                           const tdm_checkpoint *checkpoint) {
    const char *path = NULL;
    const tdm_json *bos = tdm_config_find(source, "bos_token_id", &path);
    tdm_config_source generation = {.file = "generation_config.json", .err = source->err};
    generation.scopes[0].object = tdm_checkpoint_generation_config(checkpoint);
    generation.scopes[0].path = "$";
    if (bos != NULL) {
        TDM_TRY(read_id(source, path, "bos_token_id", bos, &out->bos_id));
    }
    TDM_TRY(read_eos(out, source));
    return read_eos(out, &generation);
}

/* ---- the record ---- */

/* A bool, or a text that names the tokens that see each other ("vision": none in plain text). */
static tdm_status read_bidirectional(tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "use_bidirectional_attention";
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, KEY, &path);
    if (tdm_json_is(node, TDM_JSON_STRING)) {
        out->is_bidirectional = !tdm_json_text_is(node, "vision");
        return TDM_OK;
    }
    return tdm_config_bool(source, KEY, &out->is_bidirectional);
}

static tdm_status read_flags(tdm_model_config *out, const tdm_config_source *source,
                             const tdm_checkpoint *checkpoint, const tdm_class_default *class) {
    const char *path = NULL;
    out->is_tied =
        class != NULL ? class->is_tied : tdm_checkpoint_find(checkpoint, "lm_head.weight") == NULL;
    TDM_TRY(tdm_config_bool(source, "tie_word_embeddings", &out->is_tied));
    TDM_TRY(tdm_config_bool(source, "tie_embedding", &out->is_tied)); /* lfm2's, the stronger */
    out->has_qkv_bias = true;
    out->has_bias = true;
    out->has_attention_bias = class != NULL && class->is_attention_biased;
    TDM_TRY(tdm_config_bool(source, "attention_bias", &out->has_attention_bias));
    TDM_TRY(tdm_config_bool(source, "use_bias", &out->has_bias));
    TDM_TRY(tdm_config_bool(source, "use_qk_norm", &out->has_qk_norm_flag));
    TDM_TRY(tdm_config_bool(source, "qkv_bias", &out->has_qkv_bias));
    TDM_TRY(tdm_config_bool(source, "mlp_bias", &out->has_mlp_bias));
    TDM_TRY(tdm_config_bool(source, "attention_k_eq_v", &out->is_k_eq_v));
    TDM_TRY(tdm_config_bool(source, "use_double_wide_mlp", &out->is_double_wide));
    out->has_sparse_config = tdm_config_find(source, "sparse_config", &path) != NULL;
    TDM_TRY(read_bidirectional(out, source));
    if (class == NULL || !class->has_hidden_activation) {
        TDM_TRY(read_text(source, "hidden_act", &out->hidden_act));
    }
    return out->hidden_act != NULL ? TDM_OK
                                   : read_text(source, "hidden_activation", &out->hidden_act);
}

static tdm_status fail_no_mlp(const tdm_config_source *source) {
    (void)tdm_fail(source->err, TDM_E_FORMAT, "intermediate_size is missing");
    return tdm_config_fail(source, source->scopes[0].path, "intermediate_size", TDM_E_FORMAT);
}

tdm_status tdm_config_read_json(tdm_model_config *out, const tdm_checkpoint *checkpoint,
                                tdm_error *err) {
    const tdm_json *root = tdm_checkpoint_config(checkpoint);
    const tdm_json *text = tdm_json_get(root, "text_config");
    const tdm_class_default *class = NULL;
    const char *path = NULL;
    tdm_config_source source = {.file = "config.json", .err = err};
    if (root == NULL) {
        (void)tdm_fail(err, TDM_E_NOT_FOUND, "checkpoint has no config.json");
        tdm_err_where(err, "%.150s", tdm_checkpoint_path(checkpoint));
        return TDM_E_NOT_FOUND;
    }
    source.scopes[0].object = root;
    source.scopes[0].path = "$";
    if (tdm_json_is(text, TDM_JSON_OBJECT)) {
        source.scopes[0].object = text;
        source.scopes[0].path = "$.text_config";
        source.scopes[1].object = root;
        source.scopes[1].path = "$";
    }
    TDM_TRY(read_family(out, root, &source));
    class = tdm_class_find(out->text_family);
    if (class != NULL) {
        tdm_class_apply(class, &source, out);
    }
    TDM_TRY(tdm_fields_read(&source, TDM_MODEL_FIELDS, TDM_MODEL_FIELDS_LEN, out));
    if (out->intermediate == 0 &&
        tdm_config_find(&source, "moe_intermediate_size", &path) == NULL) {
        return fail_no_mlp(&source);
    }
    TDM_TRY(read_flags(out, &source, checkpoint, class));
    TDM_TRY(read_rope(out, &source, class));
    TDM_TRY(read_no_rope(out, &source));
    TDM_TRY(read_sliding(out, &source, class));
    TDM_TRY(read_experts(out, &source, class));
    TDM_TRY(tdm_config_read_per_layer(out, &source));
    TDM_TRY(read_convolutions(out, &source));
    TDM_TRY(tdm_config_read_latent_json(out, &source));
    TDM_TRY(tdm_config_read_linear_json(out, &source, class));
    return read_ids(out, &source, checkpoint);
}
