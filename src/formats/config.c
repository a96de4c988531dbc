/* SPDX-License-Identifier: Apache-2.0
 *
 * The range tables, the reader that they drive, and the checks across fields. Every number of a
 * configuration passes through here before anything is sized from it. */
#include "formats/config_priv.h"

#include "base/arith.h"
#include "formats/words_priv.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(tdm_model_config, field)
#define DIM_MAX 1048576.0
#define CONTEXT_MAX 16777216.0 /* 2^24 */
#define EXPERTS_MAX 65536.0
#define POSITIVE_MIN 1e-30

const tdm_field TDM_MODEL_FIELDS[] = {
    {{"hidden_size"}, "embedding_length", AT(hidden), TDM_FIELD_I32, TDM_NEED_BOTH, 1, DIM_MAX},
    {{"num_hidden_layers"},
     "block_count",
     AT(n_layers),
     TDM_FIELD_I32,
     TDM_NEED_BOTH,
     1,
     TDM_CONFIG_LAYERS_MAX},
    {{"num_attention_heads"},
     "attention.head_count",
     AT(n_heads),
     TDM_FIELD_I32,
     TDM_NEED_BOTH,
     1,
     65536},
    {{"num_key_value_heads"},
     "attention.head_count_kv",
     AT(n_kv_heads),
     TDM_FIELD_I32_FIRST,
     TDM_NEED_NONE,
     1,
     65536},
    {{"head_dim"}, "attention.key_length", AT(head_dim), TDM_FIELD_I32, TDM_NEED_NONE, 1, 8192},
    {{"v_head_dim"},
     "attention.value_length",
     AT(value_dim),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     1,
     8192},
    {{"intermediate_size", "block_ff_dim"},
     "feed_forward_length",
     AT(intermediate),
     TDM_FIELD_I32_FIRST,
     TDM_NEED_NONE,
     1,
     DIM_MAX},
    {{NULL},
     "attention.head_count_kv",
     AT(kv_heads_of),
     TDM_FIELD_I32_LAYERS,
     TDM_NEED_NONE,
     0,
     65536},
    {{NULL},
     "feed_forward_length",
     AT(intermediate_of),
     TDM_FIELD_I32_LAYERS,
     TDM_NEED_NONE,
     0,
     DIM_MAX},
    {{"global_head_dim"}, NULL, AT(global_head_dim), TDM_FIELD_I32, TDM_NEED_NONE, 1, 8192},
    {{"num_global_key_value_heads"},
     NULL,
     AT(n_global_kv_heads),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     1,
     65536},
    {{"num_kv_shared_layers"},
     "attention.shared_kv_layers",
     AT(n_kv_shared),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     TDM_CONFIG_LAYERS_MAX},
    {{"hidden_size_per_layer_input"},
     "embedding_length_per_layer_input",
     AT(ple_dim),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     DIM_MAX},
    {{"vocab_size_per_layer_input"},
     NULL,
     AT(n_ple_vocab),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     1,
     16777216},
    {{"vocab_size"}, "vocab_size", AT(n_vocab), TDM_FIELD_I32, TDM_NEED_JSON, 1, 16777216},
    {{"max_position_embeddings"},
     "context_length",
     AT(context_max),
     TDM_FIELD_I64,
     TDM_NEED_BOTH,
     1,
     CONTEXT_MAX},
    {{"rms_norm_eps", "norm_eps", "layer_norm_eps", "norm_epsilon", "layer_norm_epsilon"},
     "attention.layer_norm_rms_epsilon",
     AT(norm_eps),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1.0},
    {{"sliding_window"},
     "attention.sliding_window",
     AT(sliding_window),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     CONTEXT_MAX},
    {{"conv_L_cache"}, "shortconv.l_cache", AT(conv_taps), TDM_FIELD_I32, TDM_NEED_NONE, 1, 4096},
    {{"block_multiple_of"}, NULL, AT(ff_multiple_of), TDM_FIELD_I32, TDM_NEED_NONE, 1, DIM_MAX},
    {{"block_ffn_dim_multiplier"},
     NULL,
     AT(ff_multiplier),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1024.0},
    {{"logit_scale"},
     "logit_scale",
     AT(logit_scale),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1e6},
    {{"clip_qkv"},
     "attention.clamp_kqv",
     AT(clip_qkv),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1e30},
    {{"swiglu_limit"}, NULL, AT(swiglu_limit), TDM_FIELD_F64, TDM_NEED_NONE, POSITIVE_MIN, 1e30},
    {{"embedding_multiplier", "scale_emb"},
     "embedding_scale",
     AT(embedding_multiplier),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1e6},
    {{"attention_multiplier"},
     "attention.scale",
     AT(attention_multiplier),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1e6},
    {{"residual_multiplier"},
     "residual_scale",
     AT(residual_multiplier),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1e6},
    {{"scale_depth"}, NULL, AT(scale_depth), TDM_FIELD_F64, TDM_NEED_NONE, POSITIVE_MIN, 1e6},
    {{"dim_model_base"},
     NULL,
     AT(dim_model_base),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     DIM_MAX},
    {{"logits_scaling"}, NULL, AT(logits_scaling), TDM_FIELD_F64, TDM_NEED_NONE, POSITIVE_MIN, 1e6},
    {{"num_experts", "num_local_experts", "n_routed_experts"},
     "expert_count",
     AT(experts.n),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     EXPERTS_MAX},
    {{"num_experts_per_tok", "top_k_experts"},
     "expert_used_count",
     AT(experts.n_used),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     EXPERTS_MAX},
    {{"moe_intermediate_size"},
     "expert_feed_forward_length",
     AT(experts.intermediate),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     DIM_MAX},
    {{"shared_expert_intermediate_size"},
     "expert_shared_feed_forward_length",
     AT(experts.shared_intermediate),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     DIM_MAX},
    {{"decoder_sparse_step"},
     NULL,
     AT(experts.sparse_step),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     1,
     1048576.0},
    {{"query_pre_attn_scalar"},
     NULL,
     AT(query_scalar),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     DIM_MAX},
    {{"attn_logit_softcapping"},
     "attn_logit_softcapping",
     AT(attention_softcap),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     1e-6,
     1e6},
    {{"final_logit_softcapping"},
     "final_logit_softcapping",
     AT(final_softcap),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     1e-6,
     1e6},
};
const size_t TDM_MODEL_FIELDS_LEN = sizeof TDM_MODEL_FIELDS / sizeof TDM_MODEL_FIELDS[0];

#undef AT
#define AT(field) offsetof(tdm_rope_config, field)
#define ROPE_ROW(json, gguf, field, kind, min, max)                                                \
    { {json}, gguf, AT(field), kind, TDM_NEED_NONE, min, max }

const tdm_field TDM_ROPE_FIELDS[] = {
    ROPE_ROW("rope_theta", "rope.freq_base", theta, TDM_FIELD_F64, POSITIVE_MIN, 1e30),
    ROPE_ROW("factor", "rope.scaling.factor", factor, TDM_FIELD_F64, POSITIVE_MIN, 1e6),
    ROPE_ROW("low_freq_factor", NULL, low_freq_factor, TDM_FIELD_F64, POSITIVE_MIN, 1e6),
    ROPE_ROW("high_freq_factor", NULL, high_freq_factor, TDM_FIELD_F64, POSITIVE_MIN, 1e6),
    ROPE_ROW("original_max_position_embeddings", "rope.scaling.original_context_length",
             original_context, TDM_FIELD_I64, 1, CONTEXT_MAX),
    ROPE_ROW("beta_fast", "rope.scaling.yarn_beta_fast", beta_fast, TDM_FIELD_F64, POSITIVE_MIN,
             1e6),
    ROPE_ROW("beta_slow", "rope.scaling.yarn_beta_slow", beta_slow, TDM_FIELD_F64, POSITIVE_MIN,
             1e6),
    ROPE_ROW("attention_factor", "rope.scaling.attn_factor", attention_factor, TDM_FIELD_F64,
             POSITIVE_MIN, 1e6),
    ROPE_ROW("mscale", NULL, mscale, TDM_FIELD_F64, 0.0, 1e6),
    ROPE_ROW("mscale_all_dim", NULL, mscale_all_dim, TDM_FIELD_F64, 0.0, 1e6),
};
const size_t TDM_ROPE_FIELDS_LEN = sizeof TDM_ROPE_FIELDS / sizeof TDM_ROPE_FIELDS[0];
#undef AT

/* ---- reading one field ---- */

typedef struct found {
    bool is_there;
    const char *key;  /* as spelled */
    const char *path; /* JSON scope; NULL: GGUF */
    bool is_whole;
    int64_t whole;
    double real;
} found;

tdm_status tdm_config_fail(const tdm_config_source *source, const char *path, const char *key,
                           tdm_status status) {
    if (path != NULL) {
        tdm_err_where(source->err, "%s: %s.%s", source->file, path, key);
        tdm_err_remedy(source->err, "fetch %.60s again, or mend it", source->file);
    } else {
        tdm_err_where(source->err, "%s: %s%s", tdm_path_tail(source->file), source->prefix, key);
        tdm_err_remedy(source->err, "fetch the model again, or convert it anew");
    }
    return status;
}

const tdm_json *tdm_config_find(const tdm_config_source *source, const char *key,
                                const char **out_path) {
    for (size_t i = 0; i < 2; i++) {
        const tdm_json *node = tdm_json_get(source->scopes[i].object, key);
        if (node != NULL && !tdm_json_is(node, TDM_JSON_NULL)) {
            *out_path = source->scopes[i].path;
            return node;
        }
    }
    return NULL;
}

static tdm_status fail_kind(const tdm_config_source *source, const found *f, const char *wanted) {
    (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is no %s", f->key, wanted);
    return tdm_config_fail(source, f->path, f->key, TDM_E_FORMAT);
}

static tdm_status fetch_json(const tdm_config_source *source, const tdm_field *field, found *out) {
    const tdm_json *node = NULL;
    for (size_t i = 0; node == NULL && i < TDM_FIELD_NAMES_MAX && field->json[i] != NULL; i++) {
        out->key = field->json[i];
        node = tdm_config_find(source, out->key, &out->path);
    }
    if (node == NULL) {
        out->key = field->json[0];
        out->path = source->scopes[0].path;
        return TDM_OK;
    }
    out->is_there = true;
    out->is_whole = tdm_json_as_i64(node, &out->whole);
    if (field->kind != TDM_FIELD_F64 && !out->is_whole) {
        return fail_kind(source, out, "whole number of 64 bits");
    }
    if (!tdm_json_as_f64(node, &out->real)) {
        return fail_kind(source, out, "finite number");
    }
    return TDM_OK;
}

/* An array in the place of one number has one element a layer. */
static tdm_status check_gguf_array(const tdm_config_source *source, const tdm_gguf_array_ref *ref,
                                   const found *f) {
    if (ref->n > 0 && (source->n_layers == 0 || ref->n == (size_t)source->n_layers)) {
        return TDM_OK;
    }
    (void)tdm_fail(source->err, TDM_E_FORMAT, "%s has %zu elements for %d layers", f->key, ref->n,
                   (int)source->n_layers);
    return tdm_config_fail(source, NULL, f->key, TDM_E_FORMAT);
}

/* An array of one a layer counts as one number when all its elements are equal, or where the first
 * that is not 0 is asked for. */
static tdm_status fetch_gguf_array(const tdm_config_source *source, const tdm_field *field,
                                   const char *key, found *out) {
    const bool is_first = field->kind == TDM_FIELD_I32_FIRST;
    tdm_gguf_array_ref ref;
    if (!tdm_gguf_array_find(source->gguf, key, &ref)) {
        return fail_kind(source, out, "whole number");
    }
    TDM_TRY(check_gguf_array(source, &ref, out));
    out->whole = 0;
    for (size_t i = 0; i < ref.n; i++) {
        int64_t other = 0;
        if (!tdm_gguf_ref_i64(&ref, i, &other)) {
            return fail_kind(source, out, "array of whole numbers");
        }
        if (i == 0 || (is_first && out->whole == 0)) {
            out->whole = other;
        } else if (other != out->whole && !is_first) {
            (void)tdm_fail(source->err, TDM_E_UNSUPPORTED, "%s differs between layers", out->key);
            return tdm_config_fail(source, NULL, out->key, TDM_E_UNSUPPORTED);
        }
    }
    return TDM_OK;
}

/* The whole of a field's key; false: the file has none. */
static bool find_gguf_key(const tdm_config_source *source, const tdm_field *field, char key[256]) {
    int n = 0;
    if (source->gguf == NULL || field->gguf == NULL) {
        return false;
    }
    n = snprintf(key, 256, "%s%s", source->prefix, field->gguf);
    return n > 0 && n < 256 && tdm_gguf_has(source->gguf, key);
}

static tdm_status fetch_gguf(const tdm_config_source *source, const tdm_field *field, found *out) {
    char key[256];
    out->key = field->gguf;
    out->path = NULL;
    if (!find_gguf_key(source, field, key)) {
        return TDM_OK;
    }
    out->is_there = true;
    if (field->kind == TDM_FIELD_F64) {
        return tdm_gguf_get_f64(source->gguf, key, &out->real)
                   ? TDM_OK
                   : fail_kind(source, out, "finite float");
    }
    out->is_whole = true;
    if (!tdm_gguf_get_i64(source->gguf, key, &out->whole)) {
        TDM_TRY(fetch_gguf_array(source, field, key, out));
    }
    out->real = (double)out->whole;
    return TDM_OK;
}

static tdm_status fail_range(const tdm_config_source *source, const tdm_field *field,
                             const found *f) {
    if (f->is_whole) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is %lld", f->key, (long long)f->whole);
    } else {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is %g", f->key, f->real);
    }
    if (field->kind == TDM_FIELD_F64) {
        tdm_err_limit(source->err, "%g to %g", field->min, field->max);
    } else {
        tdm_err_limit(source->err, "%.0f to %.0f", field->min, field->max);
    }
    return tdm_config_fail(source, f->path, f->key, TDM_E_FORMAT);
}

/* Whether the record holds something already: the default of a class. */
static bool has_default(const tdm_field *field, const char *at) {
    int32_t narrow = 0;
    int64_t whole = 0;
    double real = 0.0;
    if (field->kind == TDM_FIELD_I32 || field->kind == TDM_FIELD_I32_FIRST) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow != 0;
    }
    if (field->kind == TDM_FIELD_I64) {
        memcpy(&whole, at, sizeof whole);
        return whole != 0;
    }
    memcpy(&real, at, sizeof real);
    return real != 0.0;
}

/* Each layer's own number, where the file has an array of them. */
static tdm_status read_layers(const tdm_config_source *source, const tdm_field *field, char *to) {
    found f = {.is_there = true, .is_whole = true, .key = field->gguf};
    char key[256];
    tdm_gguf_array_ref ref;
    if (!find_gguf_key(source, field, key) || !tdm_gguf_array_find(source->gguf, key, &ref)) {
        return TDM_OK;
    }
    TDM_TRY(check_gguf_array(source, &ref, &f));
    for (size_t i = 0; i < ref.n && i < TDM_CONFIG_LAYERS_MAX; i++) {
        int32_t narrow = 0;
        if (!tdm_gguf_ref_i64(&ref, i, &f.whole)) {
            return fail_kind(source, &f, "array of whole numbers");
        }
        f.real = (double)f.whole;
        if (!(f.real >= field->min && f.real <= field->max)) {
            return fail_range(source, field, &f);
        }
        narrow = (int32_t)f.whole;
        memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
    }
    return TDM_OK;
}

static tdm_status read_field(const tdm_config_source *source, const tdm_field *field,
                             void *record) {
    found f = {0};
    char *to = &((char *)record)[field->offset];
    if (field->kind == TDM_FIELD_I32_LAYERS) {
        return read_layers(source, field, to);
    }
    TDM_TRY(source->gguf != NULL ? fetch_gguf(source, field, &f) : fetch_json(source, field, &f));
    if (!f.is_there) {
        const bool is_needed =
            field->need == TDM_NEED_BOTH || (field->need == TDM_NEED_JSON && source->gguf == NULL);
        if (is_needed && !has_default(field, to)) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is missing", f.key);
            return tdm_config_fail(source, f.path, f.key, TDM_E_FORMAT);
        }
        return TDM_OK;
    }
    if (!(f.real >= field->min && f.real <= field->max)) {
        return fail_range(source, field, &f);
    }
    if (field->kind == TDM_FIELD_F64) {
        memcpy(to, &f.real, sizeof f.real);
    } else if (field->kind == TDM_FIELD_I64) {
        memcpy(to, &f.whole, sizeof f.whole);
    } else {
        const int32_t narrow = (int32_t)f.whole; /* every range of an I32 row lies inside int32 */
        memcpy(to, &narrow, sizeof narrow);
    }
    return TDM_OK;
}

tdm_status tdm_fields_read(const tdm_config_source *source, const tdm_field *fields, size_t n,
                           void *record) {
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(read_field(source, &fields[i], record));
    }
    return TDM_OK;
}

tdm_status tdm_config_bool(const tdm_config_source *source, const char *key, bool *out) {
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, key, &path);
    if (node != NULL && !tdm_json_as_bool(node, out)) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s is neither true nor false", key);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    return TDM_OK;
}

/* ---- across fields ---- */

static tdm_status fail_rope(const tdm_config_source *source, const char *what) {
    const bool is_gguf = source->gguf != NULL;
    (void)tdm_fail(source->err, TDM_E_FORMAT, "%s", what);
    return tdm_config_fail(source, is_gguf ? NULL : source->scopes[0].path,
                           is_gguf ? "rope.scaling" : "factor", TDM_E_FORMAT);
}

tdm_status tdm_rope_check(tdm_rope_config *rope, const tdm_config_source *source,
                          int64_t context_max) {
    if (rope->kind == TDM_ROPE_DEFAULT || rope->kind == TDM_ROPE_FREQ_FACTORS) {
        rope->factor = 1.0;
        return TDM_OK;
    }
    if (rope->kind == TDM_ROPE_PROPORTIONAL) {
        rope->factor = rope->factor == 0.0 ? 1.0 : rope->factor;
        return TDM_OK;
    }
    if (rope->kind == TDM_ROPE_YARN && rope->original_context == 0) {
        rope->original_context = context_max; /* transformers' default too */
    }
    if (rope->kind == TDM_ROPE_YARN && rope->factor == 0.0) {
        rope->factor = (double)context_max / (double)rope->original_context;
    }
    if (rope->factor == 0.0) {
        return fail_rope(source, "rope scaling has no factor");
    }
    if (rope->kind == TDM_ROPE_YARN && rope->beta_fast < rope->beta_slow) {
        return fail_rope(source, "yarn's beta_fast is below its beta_slow");
    }
    if (rope->kind == TDM_ROPE_YARN && rope->theta == 1.0) {
        return fail_rope(source, "yarn divides by the logarithm of rope_theta, which is 1");
    }
    if (rope->kind == TDM_ROPE_LLAMA3 &&
        (rope->original_context == 0 || rope->low_freq_factor == 0.0 ||
         rope->high_freq_factor <= rope->low_freq_factor)) {
        return fail_rope(source, "llama3 rope needs original_max_position_embeddings, "
                                 "low_freq_factor and a higher high_freq_factor");
    }
    return TDM_OK;
}

void tdm_config_fill_rope_layers(tdm_model_config *config, int64_t interval) {
    config->n_no_rope = config->n_layers;
    for (int32_t i = 0; i < config->n_layers; i++) {
        config->has_rope[i] = (i + 1) % interval != 0;
    }
}

tdm_status tdm_config_fail_cross(const char *file, const char *what, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_FORMAT, "%s", what);
    tdm_err_where(err, "%s", file);
    tdm_err_remedy(err, "fetch the model again");
    return TDM_E_FORMAT;
}

static tdm_status check_heads(tdm_model_config *config, const char *file, tdm_error *err) {
    int64_t width = 0;
    if (config->n_kv_heads == 0) {
        config->n_kv_heads = config->n_heads;
    }
    if (config->head_dim == 0) {
        if (config->hidden % config->n_heads != 0) {
            return tdm_config_fail_cross(
                file,
                "hidden size is no multiple of the number of heads, and no "
                "head size is given",
                err);
        }
        config->head_dim = config->hidden / config->n_heads;
    }
    if (config->value_dim == 0) {
        config->value_dim = config->head_dim;
    }
    if (config->rotary_dim == 0) {
        config->rotary_dim = config->head_dim;
    }
    if (config->n_heads % config->n_kv_heads != 0) {
        return tdm_config_fail_cross(
            file, "number of heads is no multiple of the number of key-value heads", err);
    }
    if (config->rotary_dim > config->head_dim) {
        return tdm_config_fail_cross(file, "more dimensions rotate than a head has", err);
    }
    if (!tdm_mul_i64(config->head_dim, config->n_heads, &width) || width > (int64_t)DIM_MAX) {
        tdm_status status = tdm_config_fail_cross(file, "heads times head size is too large", err);
        tdm_err_limit(err, "%.0f", DIM_MAX);
        return status;
    }
    return tdm_config_check_layers(config, file, err);
}

static tdm_status check_sliding(const tdm_model_config *config, const char *file, tdm_error *err) {
    if (config->sliding_window > 0) {
        return TDM_OK;
    }
    for (int32_t i = 0; i < config->n_layer_types; i++) {
        if (config->is_sliding[i] != 0) {
            return tdm_config_fail_cross(file, "layers slide, but no sliding_window is given", err);
        }
    }
    return TDM_OK;
}

tdm_status tdm_model_config_read(tdm_model_config *out, const tdm_checkpoint *checkpoint,
                                 tdm_error *err) {
    const bool is_gguf = tdm_checkpoint_container(checkpoint) == TDM_CONTAINER_GGUF;
    const char *file = is_gguf ? tdm_checkpoint_file_name(checkpoint, 0) : "config.json";
    memset(out, 0, sizeof *out);
    out->container = tdm_checkpoint_container(checkpoint);
    out->bos_id = -1;
    out->rope.beta_fast = 32.0;
    out->rope.beta_slow = 1.0;
    out->rope.is_truncated = true;
    out->rope.fraction = 1.0;
    tdm_config_init_layers(out);
    TDM_TRY(is_gguf ? tdm_config_read_gguf(out, checkpoint, err)
                    : tdm_config_read_json(out, checkpoint, err));
    TDM_TRY(check_heads(out, file, err));
    if (out->norm_eps == 0.0) {
        return tdm_config_fail_cross(file, "no epsilon of the norms is given", err);
    }
    return check_sliding(out, file, err);
}

/* ---- sampling defaults ---- */

#define AT(field) offsetof(tdm_generation_config, field)
static const tdm_field GENERATION_FIELDS[] = {
    {{"temperature"}, "temp", AT(temperature), TDM_FIELD_F64, TDM_NEED_NONE, 0.0, 1000.0},
    {{"top_p"}, "top_p", AT(top_p), TDM_FIELD_F64, TDM_NEED_NONE, 0.0, 1.0},
    {{"min_p"}, "min_p", AT(min_p), TDM_FIELD_F64, TDM_NEED_NONE, 0.0, 1.0},
    {{"repetition_penalty"},
     "penalty_repeat",
     AT(repetition_penalty),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     POSITIVE_MIN,
     1000.0},
    {{"top_k"}, "top_k", AT(top_k), TDM_FIELD_I32, TDM_NEED_NONE, 0, 2147483647.0},
};
#undef AT

tdm_status tdm_generation_config_read(tdm_generation_config *out, const tdm_checkpoint *checkpoint,
                                      tdm_error *err) {
    tdm_config_source source = {0};
    source.err = err;
    source.gguf = tdm_checkpoint_gguf(checkpoint);
    source.prefix = "general.sampling.";
    source.file =
        source.gguf != NULL ? tdm_checkpoint_file_name(checkpoint, 0) : "generation_config.json";
    source.scopes[0].object = tdm_checkpoint_generation_config(checkpoint);
    source.scopes[0].path = "$";
    out->temperature = out->top_p = out->min_p = out->repetition_penalty = (double)NAN;
    out->top_k = -1;
    out->has_do_sample = false;
    out->is_sampled = false;
    TDM_TRY(tdm_fields_read(&source, GENERATION_FIELDS,
                            sizeof GENERATION_FIELDS / sizeof GENERATION_FIELDS[0], out));
    if (source.gguf == NULL) {
        const char *path = NULL;
        out->has_do_sample = tdm_config_find(&source, "do_sample", &path) != NULL;
        TDM_TRY(tdm_config_bool(&source, "do_sample", &out->is_sampled));
    }
    return TDM_OK;
}
