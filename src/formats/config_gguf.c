/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF metadata into the record. Keys are "ARCH.name" with ARCH from general.architecture; what the
 * format says through tensors (biases, a tied head, frequency factors, the size of a vocabulary
 * without tokenizer) is asked of the tensors. Source: shared/spec/gguf.md sections 2 and 3. */
#include "formats/config_priv.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NO_ROPE_INTERVAL 4 /* smollm3: always, whatever the checkpoint said */

typedef struct gguf_config {
    tdm_config_source source;
    const tdm_checkpoint *checkpoint;
    char prefix[80];
} gguf_config;

static tdm_status fail_key(const gguf_config *g, const char *key, tdm_status status) {
    return tdm_config_fail(&g->source, NULL, key, status);
}

static void full_key(const gguf_config *g, const char *key, char out[256]) {
    (void)snprintf(out, 256, "%s%s", g->prefix, key);
}

static bool has_key(const gguf_config *g, const char *key) {
    char full[256];
    full_key(g, key, full);
    return tdm_gguf_has(g->source.gguf, full);
}

static bool has_tensor(const gguf_config *g, const char *name) {
    return tdm_checkpoint_find(g->checkpoint, name) != NULL;
}

static tdm_status read_prefix(gguf_config *g) {
    const char *arch = tdm_gguf_architecture(g->source.gguf);
    const size_t room = sizeof g->prefix - 2;
    if (arch == NULL || strlen(arch) > room) {
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "general.architecture is %s",
                       arch == NULL ? "missing" : "too long");
        tdm_err_limit(g->source.err, "a name of 1 to %zu bytes", room);
        g->source.prefix = "";
        return fail_key(g, "general.architecture", TDM_E_FORMAT);
    }
    (void)snprintf(g->prefix, sizeof g->prefix, "%s.", arch);
    g->source.prefix = g->prefix;
    if (!has_key(g, "block_count") && !has_key(g, "embedding_length")) {
        (void)tdm_fail(g->source.err, TDM_E_UNSUPPORTED,
                       "architecture \"%s\" is not known: the file has none of its sizes", arch);
        g->source.prefix = "";
        return fail_key(g, "general.architecture", TDM_E_UNSUPPORTED);
    }
    return TDM_OK;
}

/* First of all, since arrays are compared with it. */
static tdm_status read_n_layers(tdm_model_config *out, gguf_config *g) {
    for (size_t i = 0; i < TDM_MODEL_FIELDS_LEN; i++) {
        if (TDM_MODEL_FIELDS[i].offset == offsetof(tdm_model_config, n_layers)) {
            TDM_TRY(tdm_fields_read(&g->source, &TDM_MODEL_FIELDS[i], 1, out));
        }
    }
    g->source.n_layers = out->n_layers;
    return TDM_OK;
}

/* A size that the tables leave to this file: of a dense layer, where there are no experts; and the
 * epsilon under the name that families without RMS norms use. */
static tdm_status read_rest(tdm_model_config *out, const gguf_config *g) {
    const tdm_field eps = {
        {NULL}, "attention.layer_norm_epsilon", 0, TDM_FIELD_F64, TDM_NEED_NONE, 1e-30, 1.0};
    if (out->intermediate == 0 && !has_key(g, "expert_feed_forward_length")) {
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "feed_forward_length is missing");
        return fail_key(g, "feed_forward_length", TDM_E_FORMAT);
    }
    return out->norm_eps != 0.0 ? TDM_OK : tdm_fields_read(&g->source, &eps, 1, &out->norm_eps);
}

/* A list of tokens that ends before the embedding does leaves ids that can be sampled and not
 * spelled. Longer lists are a warning of the engine's. */
static tdm_status check_tokens(const gguf_config *g, const tdm_checkpoint_tensor *table) {
    tdm_gguf_array_ref tokens;
    if (table == NULL || table->view.rank != 2 ||
        !tdm_gguf_array_find(g->source.gguf, "tokenizer.ggml.tokens", &tokens) ||
        (int64_t)tokens.n >= table->view.dims[0]) {
        return TDM_OK;
    }
    (void)tdm_fail(g->source.err, TDM_E_FORMAT,
                   "the token list has %zu entries, the embedding %lld rows", tokens.n,
                   (long long)table->view.dims[0]);
    tdm_err_where(g->source.err, "%s: tokenizer.ggml.tokens",
                  tdm_path_name(tdm_checkpoint_path(g->checkpoint)));
    tdm_err_remedy(g->source.err, "convert the model again: converters pad the list");
    return TDM_E_FORMAT;
}

/* vocab_size; else the token list's length; else the rows of the embedding. */
static tdm_status read_vocab(tdm_model_config *out, const gguf_config *g) {
    tdm_gguf_array_ref tokens;
    const tdm_checkpoint_tensor *table = tdm_checkpoint_find(g->checkpoint, "token_embd.weight");
    int64_t n = out->n_vocab;
    if (n == 0 && tdm_gguf_array_find(g->source.gguf, "tokenizer.ggml.tokens", &tokens) &&
        tokens.type == TDM_GGUF_STRING) {
        n = tokens.n <= INT32_MAX ? (int64_t)tokens.n : 0;
    } else if (n == 0 && table != NULL && table->view.rank == 2) {
        n = table->view.dims[0];
    }
    if (n < 1 || n > 16777216) {
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "vocabulary has %lld tokens", (long long)n);
        tdm_err_limit(g->source.err, "1 to 16777216");
        return fail_key(g, "vocab_size", TDM_E_FORMAT);
    }
    out->n_vocab = (int32_t)n;
    return check_tokens(g, table);
}

/* ---- rope ---- */

static tdm_status read_rope_kind(tdm_rope_config *rope, const gguf_config *g) {
    static const char KEY[] = "rope.scaling.type";
    char key[256];
    tdm_gguf_text type = {"linear", 6}; /* llama.cpp's default, with factor 1 */
    full_key(g, KEY, key);
    if (tdm_gguf_has(g->source.gguf, key) && !tdm_gguf_get_text(g->source.gguf, key, &type)) {
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "%s is no text", KEY);
        return fail_key(g, KEY, TDM_E_FORMAT);
    }
    if (type.len == 6 && memcmp(type.data, "linear", 6) == 0) {
        rope->kind =
            rope->factor == 0.0 || rope->factor == 1.0 ? TDM_ROPE_DEFAULT : TDM_ROPE_LINEAR;
    } else if (type.len == 4 && memcmp(type.data, "yarn", 4) == 0) {
        rope->kind = TDM_ROPE_YARN;
    } else if (type.len == 4 && memcmp(type.data, "none", 4) == 0) {
        rope->kind = TDM_ROPE_DEFAULT;
    } else {
        (void)tdm_fail(g->source.err, TDM_E_UNSUPPORTED, "rope scaling \"%.*s\" is not supported",
                       type.len < 40 ? (int)type.len : 40, type.data);
        tdm_err_limit(g->source.err, "none, linear, yarn");
        return fail_key(g, KEY, TDM_E_UNSUPPORTED);
    }
    return TDM_OK;
}

/* llama.cpp multiplies the magnitude that yarn computes by attn_factor; the record holds the
 * product. A logarithm's multiplier (MLA models) is a tenth of mscale_all_dim, which equals mscale.
 */
static tdm_status read_yarn(tdm_rope_config *rope, const gguf_config *g) {
    const tdm_field row = {
        {NULL}, "rope.scaling.yarn_log_multiplier", 0, TDM_FIELD_F64, TDM_NEED_NONE, 0.0, 1e6};
    double multiplier = 0.0;
    TDM_TRY(tdm_fields_read(&g->source, &row, 1, &multiplier));
    rope->mscale = rope->mscale_all_dim = 10.0 * multiplier;
    if (rope->attention_factor != 0.0 && rope->factor > 1.0) {
        rope->attention_factor *= 0.1 * log(rope->factor) + 1.0;
    }
    return TDM_OK;
}

/* The base of sliding layers, which no scaling touches; llama.cpp's default is 10000 for gemma3. */
static tdm_status read_local_rope(tdm_model_config *out, const gguf_config *g) {
    static const char KEY[] = "rope.freq_base_swa";
    const tdm_field base = {{NULL}, KEY, 0, TDM_FIELD_F64, TDM_NEED_NONE, 1e-30, 1e30};
    out->rope_local = out->rope;
    if (!has_key(g, KEY) && strcmp(out->family, "gemma3") != 0) {
        return TDM_OK;
    }
    out->has_local_rope = true;
    out->rope_local.kind = TDM_ROPE_DEFAULT;
    out->rope_local.factor = 1.0;
    out->rope_local.theta = 10000.0;
    return tdm_fields_read(&g->source, &base, 1, &out->rope_local.theta);
}

static tdm_status read_rope(tdm_model_config *out, const gguf_config *g) {
    const tdm_field rotary = {{NULL}, "rope.dimension_count", 0, TDM_FIELD_I32, TDM_NEED_NONE, 1,
                              8192};
    tdm_rope_config *rope = &out->rope;
    rope->theta = 10000.0;
    TDM_TRY(tdm_fields_read(&g->source, TDM_ROPE_FIELDS, TDM_ROPE_FIELDS_LEN, rope));
    TDM_TRY(tdm_fields_read(&g->source, &rotary, 1, &out->rotary_dim));
    TDM_TRY(read_rope_kind(rope, g));
    if (rope->kind == TDM_ROPE_YARN) {
        TDM_TRY(read_yarn(rope, g));
    }
    if (has_tensor(g, "rope_freqs.weight")) {
        if (rope->kind != TDM_ROPE_DEFAULT) {
            (void)tdm_fail(g->source.err, TDM_E_UNSUPPORTED,
                           "file has both rope_freqs.weight and a scaling of rope");
            return fail_key(g, "rope.scaling.type", TDM_E_UNSUPPORTED);
        }
        rope->kind = TDM_ROPE_FREQ_FACTORS;
    }
    TDM_TRY(tdm_rope_check(rope, &g->source, out->context_max));
    return read_local_rope(out, g);
}

/* ---- layers, ids ---- */

/* A window of 0 hides every key. Converters write it for phi3 alone, which then has none. */
static tdm_status check_window(const tdm_model_config *out, const gguf_config *g) {
    static const char KEY[] = "attention.sliding_window";
    if (out->sliding_window != 0 || !has_key(g, KEY) || strcmp(out->family, "phi3") == 0) {
        return TDM_OK;
    }
    (void)tdm_fail(g->source.err, TDM_E_FORMAT, "%s is 0", KEY);
    tdm_err_limit(g->source.err, "1 or more, or no such key");
    return fail_key(g, KEY, TDM_E_FORMAT);
}

/* sliding_window_pattern as an array of one bool a layer, or as the period of full layers. */
static tdm_status read_pattern(tdm_model_config *out, const gguf_config *g) {
    static const char KEY[] = "attention.sliding_window_pattern";
    const tdm_field period = {{NULL}, KEY, 0, TDM_FIELD_I32, TDM_NEED_NONE, 1, 1048576.0};
    char key[256];
    tdm_gguf_array_ref ref;
    full_key(g, KEY, key);
    if (!tdm_gguf_array_find(g->source.gguf, key, &ref)) {
        return tdm_fields_read(&g->source, &period, 1, &out->sliding_period);
    }
    if (ref.type != TDM_GGUF_BOOL || ref.n != (size_t)out->n_layers) {
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "%s is no array of %d bools", KEY,
                       out->n_layers);
        return fail_key(g, KEY, TDM_E_FORMAT);
    }
    out->n_layer_types = out->n_layers;
    for (int32_t i = 0; i < out->n_layers; i++) {
        int64_t value = 0;
        (void)tdm_gguf_ref_i64(&ref, (size_t)i, &value);
        out->is_sliding[i] = value != 0;
    }
    return TDM_OK;
}

/* Values are keys where a file says which layers slide and the first that does not has none. */
static void read_values(tdm_model_config *out, const gguf_config *g) {
    char name[64];
    for (int32_t i = 0; i < out->n_layer_types; i++) {
        if (out->is_sliding[i] == 0) {
            (void)snprintf(name, sizeof name, "blk.%d.attn_k.weight", (int)i);
            out->is_k_eq_v = has_tensor(g, name);
            (void)snprintf(name, sizeof name, "blk.%d.attn_v.weight", (int)i);
            out->is_k_eq_v = out->is_k_eq_v && !has_tensor(g, name);
            return;
        }
    }
}

/* Layers without key heads convolve, where the file says how long; else nothing here knows them. */
static void read_convolutions(tdm_model_config *out, const gguf_config *g) {
    char key[256];
    tdm_gguf_array_ref ref;
    full_key(g, "attention.head_count_kv", key);
    if (!tdm_gguf_array_find(g->source.gguf, key, &ref)) {
        return;
    }
    for (size_t i = 0; i < ref.n && i < (size_t)out->n_layers; i++) {
        int64_t n_heads = 0;
        (void)tdm_gguf_ref_i64(&ref, i, &n_heads);
        out->is_conv[i] = n_heads == 0 && out->conv_taps > 0;
        out->has_other_layer_types =
            out->has_other_layer_types || (n_heads == 0 && out->conv_taps == 0);
    }
}

static tdm_status read_id(const gguf_config *g, const char *key, bool *out_is_there, int32_t *out) {
    uint64_t id = 0;
    *out_is_there = tdm_gguf_has(g->source.gguf, key);
    if (!*out_is_there) {
        return TDM_OK;
    }
    if (!tdm_gguf_get_u64(g->source.gguf, key, &id) || id > INT32_MAX) {
        tdm_config_source plain = g->source;
        plain.prefix = "";
        (void)tdm_fail(g->source.err, TDM_E_FORMAT, "%s is no token id", key);
        tdm_err_limit(g->source.err, "0 to %d", INT32_MAX);
        return tdm_config_fail(&plain, NULL, key, TDM_E_FORMAT);
    }
    *out = (int32_t)id;
    return TDM_OK;
}

/* Each of these ends a generation, as llama.cpp has it. */
static tdm_status read_ids(tdm_model_config *out, const gguf_config *g) {
    static const char *const ENDS[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    bool is_there = false;
    TDM_TRY(read_id(g, "tokenizer.ggml.bos_token_id", &is_there, &out->bos_id));
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        int32_t id = 0;
        bool is_new = true;
        TDM_TRY(read_id(g, ENDS[i], &is_there, &id));
        for (int32_t j = 0; j < out->n_eos; j++) {
            is_new = is_new && out->eos_ids[j] != id;
        }
        if (is_there && is_new) {
            out->eos_ids[out->n_eos++] = id;
        }
    }
    return TDM_OK;
}

tdm_status tdm_config_read_gguf(tdm_model_config *out, const tdm_checkpoint *checkpoint,
                                tdm_error *err) {
    gguf_config g = {.checkpoint = checkpoint};
    g.source.gguf = tdm_checkpoint_gguf(checkpoint);
    g.source.file = tdm_checkpoint_file_name(checkpoint, 0);
    g.source.err = err;
    TDM_TRY(read_prefix(&g));
    out->family = out->text_family = tdm_gguf_architecture(g.source.gguf);
    TDM_TRY(read_n_layers(out, &g));
    TDM_TRY(tdm_fields_read(&g.source, TDM_MODEL_FIELDS, TDM_MODEL_FIELDS_LEN, out));
    TDM_TRY(read_rest(out, &g));
    TDM_TRY(read_vocab(out, &g));
    TDM_TRY(read_rope(out, &g));
    TDM_TRY(tdm_config_read_swa_heads(out, &g.source));
    TDM_TRY(check_window(out, &g));
    TDM_TRY(read_pattern(out, &g));
    read_values(out, &g);
    read_convolutions(out, &g);
    TDM_TRY(tdm_config_read_latent_gguf(out, &g.source));
    TDM_TRY(tdm_config_read_linear_gguf(out, &g.source));
    TDM_TRY(read_ids(out, &g));
    if (strcmp(out->family, "smollm3") == 0) {
        tdm_config_fill_rope_layers(out, NO_ROPE_INTERVAL);
    }
    out->is_tied = !has_tensor(&g, "output.weight");
    out->has_attention_bias = has_tensor(&g, "blk.0.attn_q.bias");
    out->has_mlp_bias = has_tensor(&g, "blk.0.ffn_up.bias");
    return TDM_OK;
}
