/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent attention (MLA), its indexer (DSA) and routing by groups: fields of the DeepSeek and GLM
 * families alone. A head has two parts there, and files name its width in ways that mean something
 * else elsewhere (GGUF's key_length is a cached row); this file puts the true ones in the record.
 * What changes results and is not run here (other scores of routers, other pairings of the
 * indexer) is refused by name. Source: transformers 5.17, models/deepseek_v3, glm4_moe_lite and
 * glm_moe_dsa, configuration_*.py; llama.cpp, src/models/deepseek2.cpp and glm-dsa.cpp. */
#include "formats/config_priv.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(tdm_model_config, field)
#define DIM_MAX 1048576.0
#define HEAD_MAX 8192.0
#define COUNT_MAX 65536.0
#define GROUPS_MAX 256.0

#define ROW(json, gguf, field, need, min, max)                                                     \
    { {json}, gguf, AT(field), TDM_FIELD_I32, need, min, max }

static const tdm_field FIELDS[] = {
    ROW("q_lora_rank", "attention.q_lora_rank", latent.q_rank, TDM_NEED_NONE, 1, DIM_MAX),
    ROW("kv_lora_rank", "attention.kv_lora_rank", latent.kv_rank, TDM_NEED_BOTH, 1, HEAD_MAX),
    ROW("qk_nope_head_dim", NULL, latent.nope_dim, TDM_NEED_JSON, 1, HEAD_MAX),
    ROW("qk_rope_head_dim", "rope.dimension_count", latent.rope_dim, TDM_NEED_BOTH, 2, HEAD_MAX),
    ROW("v_head_dim", "attention.value_length_mla", value_dim, TDM_NEED_BOTH, 1, HEAD_MAX),
    ROW(NULL, "attention.key_length_mla", head_dim, TDM_NEED_NONE, 1, HEAD_MAX),
    ROW("index_n_heads", "attention.indexer.head_count", latent.index_heads, TDM_NEED_NONE, 1,
        COUNT_MAX),
    ROW("index_head_dim", "attention.indexer.key_length", latent.index_dim, TDM_NEED_NONE, 1,
        HEAD_MAX),
    ROW("index_topk", "attention.indexer.top_k", latent.index_topk, TDM_NEED_NONE, 1, DIM_MAX),
    ROW("n_group", "expert_group_count", experts.n_groups, TDM_NEED_NONE, 1, GROUPS_MAX),
    ROW("topk_group", "expert_group_used_count", experts.n_groups_used, TDM_NEED_NONE, 1,
        COUNT_MAX),
    ROW("n_shared_experts", "expert_shared_count", experts.n_shared, TDM_NEED_NONE, 0, COUNT_MAX),
    ROW("first_k_dense_replace", "leading_dense_block_count", experts.n_leading_dense,
        TDM_NEED_NONE, 0, COUNT_MAX),
    {{"routed_scaling_factor"},
     "expert_weights_scale",
     AT(experts.routed_scale),
     TDM_FIELD_F64,
     TDM_NEED_NONE,
     1e-30,
     1e6},
    {{"num_nextn_predict_layers", "num_mtp_layers"},
     "nextn_predict_layers",
     AT(n_mtp_layers),
     TDM_FIELD_I32,
     TDM_NEED_NONE,
     0,
     TDM_CONFIG_LAYERS_MAX},
};
#define N_FIELDS (sizeof FIELDS / sizeof FIELDS[0])

/* What absent keys of config.json mean, by class. */
static const struct {
    const char *family;
    tdm_latent_config latent;
    int32_t value_dim;
    int32_t n_groups, n_groups_used;
    int32_t n_leading_dense;
    double routed_scale;
} CLASSES[] = {
    {"deepseek_v3",
     {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64},
     128,
     8,
     4,
     3,
     2.5},
    {"kimi_k2",
     {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64},
     128,
     8,
     4,
     3,
     2.5},
    {"glm4_moe_lite",
     {.q_rank = 768, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64},
     256,
     1,
     1,
     1,
     1.8},
    {"glm_moe_dsa",
     {.q_rank = 2048,
      .kv_rank = 512,
      .nope_dim = 192,
      .rope_dim = 64,
      .index_heads = 32,
      .index_dim = 128,
      .index_topk = 2048},
     256,
     1,
     1,
     3,
     2.5},
};
#define N_CLASSES (sizeof CLASSES / sizeof CLASSES[0])

/* GLM-5.2's layers with an indexer, where a file of its length does not list them. */
#define SHARED_CONTEXT_MIN 1048576
#define SHARED_OFFSET 3
#define SHARED_FREQ 4

static bool is_shared_at(int64_t layer, int64_t freq, int64_t offset) {
    int64_t at = layer - offset + 1; /* bounded: both below 2^17 */
    return (at > 0 ? at : 0) % freq != 0;
}

static tdm_status fail_value(const tdm_config_source *source, const char *path, const char *key,
                             tdm_status status, const char *what) {
    (void)tdm_fail(source->err, status, "%s: %s", key, what);
    return tdm_config_fail(source, path, key, status);
}

/* ---- across fields ---- */

static tdm_status fail_cross(const tdm_config_source *source, const char *json, const char *gguf,
                             const char *what) {
    bool is_gguf = source->gguf != NULL;
    return fail_value(source, is_gguf ? NULL : source->scopes[0].path, is_gguf ? gguf : json,
                      TDM_E_FORMAT, what);
}

static tdm_status check_groups(tdm_model_config *out, const tdm_config_source *source) {
    tdm_experts_config *experts = &out->experts;
    experts->n_groups = experts->n_groups == 0 ? 1 : experts->n_groups;
    experts->n_groups_used = experts->n_groups_used == 0 ? 1 : experts->n_groups_used;
    if (experts->n_groups_used > experts->n_groups) {
        return fail_cross(source, "topk_group", "expert_group_used_count",
                          "more groups are used than there are");
    }
    if (experts->n == 0) {
        return TDM_OK;
    }
    if (experts->n % experts->n_groups != 0 ||
        (experts->n_groups > 1 && experts->n / experts->n_groups < 2)) {
        return fail_cross(source, "n_group", "expert_group_count",
                          "the experts do not divide into groups of two and more");
    }
    if (experts->n_used > experts->n / experts->n_groups * experts->n_groups_used) {
        return fail_cross(source, "num_experts_per_tok", "expert_used_count",
                          "more experts are used than the groups hold");
    }
    return TDM_OK;
}

static tdm_status check_indexer(const tdm_model_config *out, const tdm_config_source *source) {
    const tdm_latent_config *latent = &out->latent;
    bool has_all = latent->index_heads > 0 && latent->index_dim > 0 && latent->index_topk > 0;
    if (latent->index_heads == 0 && latent->index_dim == 0 && latent->index_topk == 0) {
        return TDM_OK;
    }
    if (!has_all) {
        return fail_cross(source, "index_n_heads", "attention.indexer.head_count",
                          "an indexer has heads, their size and a top k, or is not there");
    }
    if (latent->index_dim < latent->rope_dim) {
        return fail_cross(source, "index_head_dim", "attention.indexer.key_length",
                          "more dimensions rotate than an indexer's head has");
    }
    if (latent->is_index_shared[0] != 0) {
        return fail_cross(source, "indexer_types", "attention.indexer.types",
                          "the first layer has no choice before it to share");
    }
    return TDM_OK;
}

/* What the usual names say of heads, which latent attention does not need: they may not contradict.
 * transformers writes the part that rotates as head_dim; GGUF writes the one shared row, as of
 * attention with one key head. */
static tdm_status check_usual(const tdm_model_config *out, const tdm_config_source *source,
                              int32_t head_dim) {
    const tdm_latent_config *latent = &out->latent;
    bool is_gguf = source->gguf != NULL;
    int32_t whole = is_gguf ? out->head_dim : latent->nope_dim + latent->rope_dim;
    int32_t short_form = is_gguf ? latent->kv_rank + latent->rope_dim : latent->rope_dim;
    if (out->n_kv_heads != 0 && out->n_kv_heads != out->n_heads &&
        (!is_gguf || out->n_kv_heads != 1)) {
        return fail_cross(source, "num_key_value_heads", "attention.head_count_kv",
                          "latent attention has a key for each of its heads");
    }
    if (head_dim != 0 && head_dim != whole && head_dim != short_form) {
        return fail_cross(source, "head_dim", "attention.key_length",
                          "neither a head of latent attention nor its part");
    }
    return TDM_OK;
}

/* The true sizes of a head; everything before this read what the usual names say. */
static tdm_status finish(tdm_model_config *out, const tdm_config_source *source) {
    tdm_latent_config *latent = &out->latent;
    if (out->rotary_dim != 0 && out->rotary_dim != latent->rope_dim) {
        return fail_cross(source, "partial_rotary_factor", "rope.dimension_count",
                          "a part of the part of a head that rotates");
    }
    if (source->gguf != NULL) {
        latent->nope_dim = out->head_dim - latent->rope_dim;
        if (latent->nope_dim < 1) {
            return fail_cross(source, "", "attention.key_length_mla",
                              "all of a head rotates, or more");
        }
    }
    out->head_dim = latent->nope_dim + latent->rope_dim; /* bounded: both at most HEAD_MAX */
    if (out->head_dim > (int32_t)HEAD_MAX) {
        (void)fail_cross(source, "qk_nope_head_dim", "attention.key_length_mla",
                         "both parts of a head together");
        tdm_err_limit(source->err, "%.0f", HEAD_MAX);
        return TDM_E_FORMAT;
    }
    out->rotary_dim = latent->rope_dim;
    out->n_kv_heads = out->n_heads;
    TDM_TRY(check_groups(out, source));
    return check_indexer(out, source);
}

/* ---- config.json ---- */

/* Words of one a layer: flags become 1 where the word is `on`, 0 where it is `off`. */
static tdm_status read_words(const tdm_model_config *out, const tdm_config_source *source,
                             const char *key, const char *on, const char *off, uint8_t *flags,
                             bool *out_is_there) {
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, key, &path);
    *out_is_there = node != NULL;
    if (node == NULL) {
        return TDM_OK;
    }
    if (!tdm_json_is(node, TDM_JSON_ARRAY) || tdm_json_len(node) != (size_t)out->n_layers) {
        (void)tdm_fail(source->err, TDM_E_FORMAT, "%s has %zu elements for %d layers", key,
                       tdm_json_len(node), (int)out->n_layers);
        return tdm_config_fail(source, path, key, TDM_E_FORMAT);
    }
    for (int32_t i = 0; i < out->n_layers; i++) {
        const tdm_json *word = &node->u.items[i];
        flags[i] = tdm_json_text_is(word, on) ? 1 : 0;
        if (flags[i] == 0 && !tdm_json_text_is(word, off)) {
            (void)tdm_fail(source->err, TDM_E_FORMAT, "%s[%d] is no layer's kind", key, (int)i);
            tdm_err_limit(source->err, "\"%s\" or \"%s\"", on, off);
            return tdm_config_fail(source, path, key, TDM_E_FORMAT);
        }
    }
    return TDM_OK;
}

/* "FSSF...": full or shared. */
static tdm_status read_pattern(tdm_model_config *out, const tdm_config_source *source,
                               bool *out_is_there) {
    static const char KEY[] = "index_topk_pattern";
    const char *path = NULL;
    const tdm_json *node = tdm_config_find(source, KEY, &path);
    *out_is_there = node != NULL;
    if (node == NULL) {
        return TDM_OK;
    }
    if (tdm_json_is(node, TDM_JSON_ARRAY)) {
        return read_words(out, source, KEY, "shared", "full", out->latent.is_index_shared,
                          out_is_there);
    }
    if (!tdm_json_is(node, TDM_JSON_STRING) || node->len != (size_t)out->n_layers) {
        return fail_value(source, path, KEY, TDM_E_FORMAT, "no text of one letter a layer");
    }
    for (int32_t i = 0; i < out->n_layers; i++) {
        char letter = node->u.text[i];
        if (letter != 'F' && letter != 'S') {
            return fail_value(source, path, KEY, TDM_E_FORMAT, "letters other than F and S");
        }
        out->latent.is_index_shared[i] = letter == 'S';
    }
    return TDM_OK;
}

static tdm_status read_shared(tdm_model_config *out, const tdm_config_source *source) {
    const tdm_field freq_row = {{"index_topk_freq"}, NULL, 0,        TDM_FIELD_I64,
                                TDM_NEED_NONE,       0,    COUNT_MAX};
    const tdm_field offset_row = {
        {"index_skip_topk_offset"}, NULL, 0, TDM_FIELD_I64, TDM_NEED_NONE, 0, COUNT_MAX};
    int64_t freq = 1;
    int64_t offset = 2;
    bool is_there = false;
    TDM_TRY(read_words(out, source, "indexer_types", "shared", "full", out->latent.is_index_shared,
                       &is_there));
    if (!is_there) {
        TDM_TRY(read_pattern(out, source, &is_there));
    }
    TDM_TRY(tdm_fields_read(source, &freq_row, 1, &freq));
    TDM_TRY(tdm_fields_read(source, &offset_row, 1, &offset));
    for (int32_t i = 0; !is_there && i < out->n_layers; i++) {
        out->latent.is_index_shared[i] = is_shared_at(i, freq > 1 ? freq : 1, offset);
    }
    return TDM_OK;
}

/* Keys that have one value here: another one would change what is computed. */
static tdm_status check_words(const tdm_config_source *source) {
    static const struct {
        const char *key, *word;
    } WORDS[] = {{"scoring_func", "sigmoid"}, {"topk_method", "noaux_tc"}};
    const char *path = NULL;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        const tdm_json *node = tdm_config_find(source, WORDS[i].key, &path);
        if (node != NULL && !tdm_json_text_is(node, WORDS[i].word)) {
            (void)fail_value(source, path, WORDS[i].key, TDM_E_UNSUPPORTED,
                             "a way to choose experts that is not run here");
            tdm_err_limit(source->err, "\"%s\"", WORDS[i].word);
            return TDM_E_UNSUPPORTED;
        }
    }
    return TDM_OK;
}

static tdm_status check_flags(tdm_model_config *out, const tdm_config_source *source) {
    const tdm_field freq_row = {{"moe_layer_freq"}, NULL, 0,        TDM_FIELD_I64,
                                TDM_NEED_NONE,      1,    COUNT_MAX};
    bool is_paired = true;
    bool is_index_paired = true;
    int64_t freq = 1;
    TDM_TRY(tdm_config_bool(source, "rope_interleave", &is_paired));
    TDM_TRY(tdm_config_bool(source, "indexer_rope_interleave", &is_index_paired));
    TDM_TRY(tdm_fields_read(source, &freq_row, 1, &freq));
    out->latent.is_rope_halved = !is_paired;
    if (!is_index_paired) {
        return fail_value(source, source->scopes[0].path, "indexer_rope_interleave",
                          TDM_E_UNSUPPORTED, "an indexer whose rope pairs halves");
    }
    if (freq != 1) {
        return fail_value(source, source->scopes[0].path, "moe_layer_freq", TDM_E_UNSUPPORTED,
                          "experts in some of the later layers only");
    }
    return TDM_OK;
}

static size_t class_of(const char *family) {
    size_t i = 0;
    while (i < N_CLASSES && strcmp(CLASSES[i].family, family) != 0) {
        i++;
    }
    return i;
}

static void apply_class(tdm_model_config *out, const tdm_config_source *source, size_t class) {
    const tdm_json *q_rank = tdm_json_get(source->scopes[0].object, "q_lora_rank");
    out->latent = CLASSES[class].latent;
    out->value_dim = out->value_dim == 0 ? CLASSES[class].value_dim : out->value_dim;
    out->experts.n_groups = CLASSES[class].n_groups;
    out->experts.n_groups_used = CLASSES[class].n_groups_used;
    out->experts.n_leading_dense = CLASSES[class].n_leading_dense;
    out->experts.n_shared = 1;
    out->experts.routed_scale = CLASSES[class].routed_scale;
    if (q_rank != NULL && tdm_json_is(q_rank, TDM_JSON_NULL)) {
        out->latent.q_rank = 0; /* null: queries come straight from the hidden state */
    }
}

static void fill_dense(tdm_model_config *out) {
    for (int32_t i = 0; i < out->n_layers; i++) {
        out->experts.is_dense[i] = i < out->experts.n_leading_dense;
    }
}

tdm_status tdm_config_read_latent_json(tdm_model_config *out, const tdm_config_source *source) {
    size_t class = class_of(out->text_family);
    bool is_there = false;
    if (class == N_CLASSES) {
        return TDM_OK;
    }
    apply_class(out, source, class);
    TDM_TRY(tdm_fields_read(source, FIELDS, N_FIELDS, out));
    out->experts.is_renormalized = true;
    TDM_TRY(tdm_config_bool(source, "norm_topk_prob", &out->experts.is_renormalized));
    fill_dense(out);
    TDM_TRY(read_words(out, source, "mlp_layer_types", "dense", "sparse", out->experts.is_dense,
                       &is_there));
    if (out->latent.index_topk > 0) {
        TDM_TRY(read_shared(out, source));
    }
    TDM_TRY(check_words(source));
    TDM_TRY(check_flags(out, source));
    TDM_TRY(check_usual(out, source, out->head_dim));
    return finish(out, source);
}

/* ---- GGUF ---- */

static void spell(const tdm_config_source *source, const char *key, char out[256]) {
    (void)snprintf(out, 256, "%s%s", source->prefix, key);
}

/* 1: softmax, 2: sigmoid. Absent: sigmoid in glm-dsa and in what llama.cpp takes for GLM-4.7-Flash,
 * else softmax. */
static tdm_status check_gating(const tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "expert_gating_func";
    bool is_flash = (out->n_layers == 47 || out->n_layers == 48) && out->n_vocab == 154880;
    int64_t gating = strcmp(out->family, "glm-dsa") == 0 || is_flash ? 2 : 1;
    const tdm_field row = {{NULL}, KEY, 0, TDM_FIELD_I64, TDM_NEED_NONE, 0, 255};
    TDM_TRY(tdm_fields_read(source, &row, 1, &gating));
    if (gating != 2 && out->experts.n > 0) {
        (void)fail_value(source, NULL, KEY, TDM_E_UNSUPPORTED,
                         "scores of experts that are not run here");
        tdm_err_limit(source->err, "2 (sigmoid)");
        return TDM_E_UNSUPPORTED;
    }
    return TDM_OK;
}

static tdm_status read_types(tdm_model_config *out, const tdm_config_source *source) {
    static const char KEY[] = "attention.indexer.types";
    bool is_late = out->context_max >= SHARED_CONTEXT_MIN;
    char key[256];
    tdm_gguf_array_ref ref;
    spell(source, KEY, key);
    if (!tdm_gguf_has(source->gguf, key)) {
        for (int32_t i = 0; i < out->n_layers; i++) {
            out->latent.is_index_shared[i] = is_late && is_shared_at(i, SHARED_FREQ, SHARED_OFFSET);
        }
        return TDM_OK;
    }
    if (!tdm_gguf_array_find(source->gguf, key, &ref) || ref.n < (size_t)out->n_layers ||
        ref.n > (size_t)out->n_layers + (size_t)out->n_mtp_layers) {
        return fail_value(source, NULL, KEY, TDM_E_FORMAT, "no array of one flag a layer");
    }
    for (int32_t i = 0; i < out->n_layers; i++) {
        int64_t is_full = 0;
        if (!tdm_gguf_ref_i64(&ref, (size_t)i, &is_full)) {
            return fail_value(source, NULL, KEY, TDM_E_FORMAT, "no array of one flag a layer");
        }
        out->latent.is_index_shared[i] = is_full == 0;
    }
    return TDM_OK;
}

/* Keys of relatives that this file's families do not have. */
static tdm_status check_strangers(const tdm_model_config *out, const tdm_config_source *source) {
    static const char *const KEYS[] = {"attention.temperature_scale",
                                       "attention.temperature_length"};
    char key[256];
    for (size_t i = 0; i < sizeof KEYS / sizeof KEYS[0]; i++) {
        spell(source, KEYS[i], key);
        if (tdm_gguf_has(source->gguf, key)) {
            return fail_value(source, NULL, KEYS[i], TDM_E_UNSUPPORTED,
                              "scores that depend on the position");
        }
    }
    if (out->rope.kind == TDM_ROPE_YARN && out->rope.attention_factor != 0.0) {
        return fail_value(source, NULL, "rope.scaling.attn_factor", TDM_E_UNSUPPORTED,
                          "a factor on yarn's own magnitude");
    }
    return TDM_OK;
}

tdm_status tdm_config_read_latent_gguf(tdm_model_config *out, const tdm_config_source *source) {
    char key[256];
    int32_t key_length = out->head_dim; /* of the usual name: the fields below take its place */
    if (strcmp(out->family, "deepseek2") != 0 && strcmp(out->family, "glm-dsa") != 0) {
        return TDM_OK;
    }
    TDM_TRY(tdm_fields_read(source, FIELDS, N_FIELDS, out));
    TDM_TRY(check_usual(out, source, key_length));
    if (out->n_mtp_layers >= out->n_layers) {
        return fail_value(source, NULL, "nextn_predict_layers", TDM_E_FORMAT,
                          "no layers are left beside those that predict further tokens");
    }
    out->n_layers -= out->n_mtp_layers; /* block_count counts both */
    out->experts.routed_scale = out->experts.routed_scale == 0.0 ? 1.0 : out->experts.routed_scale;
    spell(source, "expert_weights_norm", key);
    if (tdm_gguf_has(source->gguf, key) &&
        !tdm_gguf_get_bool(source->gguf, key, &out->experts.is_renormalized)) {
        return fail_value(source, NULL, "expert_weights_norm", TDM_E_FORMAT,
                          "neither true nor false");
    }
    fill_dense(out);
    TDM_TRY(check_gating(out, source));
    TDM_TRY(check_strangers(out, source));
    if (out->latent.index_topk > 0) {
        TDM_TRY(read_types(out, source));
    }
    return finish(out, source);
}
