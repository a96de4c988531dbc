/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json's normalizer and pre_tokenizer into operations and stages. Each type is one row of
 * a table: a new one is a reader and its row. What is not in the table is refused by name. */
#include "text/tokenizer_json.h"

#include <string.h>

tdm_status tdm_json_copy_text(tdm_json_reader *r, const tdm_json_leaf *leaf, const char *key,
                              size_t len_max, const char **out, size_t *out_len) {
    const tdm_json *node = tdm_json_get(leaf->node, key);
    if (!tdm_json_is(node, TDM_JSON_STRING) || node->len > len_max) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "%s is not a text of at most %zu bytes",
                               key, len_max);
    }
    *out = tdm_arena_copy_text(&r->tokenizer->arena, node->u.text, node->len);
    *out_len = node->len;
    return *out != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

tdm_status tdm_json_read_flag(tdm_json_reader *r, const tdm_json_leaf *leaf, const char *key,
                              bool fallback, bool *out) {
    const tdm_json *node = tdm_json_get(leaf->node, key);
    *out = fallback;
    if (node == NULL || tdm_json_is(node, TDM_JSON_NULL) || tdm_json_as_bool(node, out)) {
        return TDM_OK;
    }
    return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "%s is not true or false", key);
}

/* {"String": ...} or {"Regex": ...} */
static tdm_status read_pattern(tdm_json_reader *r, const tdm_json_leaf *leaf, const char **out,
                               size_t *out_len, bool *out_is_expr) {
    const tdm_json *pattern = tdm_json_get(leaf->node, "pattern");
    const tdm_json *text = tdm_json_get(pattern, "String");
    *out_is_expr = text == NULL;
    if (*out_is_expr) {
        text = tdm_json_get(pattern, "Regex");
    }
    if (!tdm_json_is(pattern, TDM_JSON_OBJECT) || tdm_json_len(pattern) != 1 ||
        !tdm_json_is(text, TDM_JSON_STRING) || text->len == 0) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                               "pattern is neither a String nor a Regex, or is empty");
    }
    *out = tdm_arena_copy_text(&r->tokenizer->arena, text->u.text, text->len);
    *out_len = text->len;
    return *out != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

static tdm_status compile_expr(tdm_json_reader *r, const tdm_json_leaf *leaf, const char *pattern,
                               size_t len, const tdm_regex **out) {
    const tdm_status status =
        tdm_regex_create(out, &r->tokenizer->arena, pattern, len, true, r->err);
    if (status != TDM_OK && status != TDM_E_NOMEM && r->err != NULL) {
        char where[64];
        (void)memcpy(where, r->err->where, sizeof(where));
        where[sizeof(where) - 1] = '\0';
        tdm_err_where(r->err, "%s: %s, %s", r->name, leaf->path, where);
    }
    return status;
}

/* Normalizers */

#define NORMALIZER_OPS_MAX 5 /* operations that one normalizer may become */

static tdm_text_op *next_op(tdm_json_reader *r, tdm_text_op_kind kind) {
    tdm_text_op *op = &r->tokenizer->normalizers[r->tokenizer->n_normalizers++];
    op->kind = kind;
    return op;
}

static tdm_status norm_unicode(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    const char *type = tdm_json_get(leaf->node, "type")->u.text;
    tdm_text_op *op = next_op(r, TDM_TEXT_NORMALIZE);
    op->is_compat = type[2] == 'K';
    op->is_composed = type[strlen(type) - 1] == 'C';
    return tdm_text_find_inert(op, &r->tokenizer->arena) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(r->err, "a tokenizer");
}

static tdm_status norm_prepend(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_text_op *op = next_op(r, TDM_TEXT_PREPEND);
    return tdm_json_copy_text(r, leaf, "prepend", TDM_TOKEN_BYTES_MAX, &op->a, &op->a_len);
}

tdm_status tdm_json_read_replace(tdm_json_reader *r, const tdm_json_leaf *leaf, tdm_text_op *op) {
    bool is_expr = false;
    TDM_TRY(read_pattern(r, leaf, &op->a, &op->a_len, &is_expr));
    TDM_TRY(tdm_json_copy_text(r, leaf, "content", TDM_TOKEN_BYTES_MAX, &op->b, &op->b_len));
    op->kind = is_expr ? TDM_TEXT_REPLACE_EXPR : TDM_TEXT_REPLACE;
    return is_expr ? compile_expr(r, leaf, op->a, op->a_len, &op->expr) : TDM_OK;
}

static tdm_status norm_replace(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    return tdm_json_read_replace(r, leaf, next_op(r, TDM_TEXT_REPLACE));
}

static tdm_status norm_lowercase(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    (void)leaf;
    (void)next_op(r, TDM_TEXT_LOWERCASE);
    return TDM_OK;
}

static tdm_status norm_nmt(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    (void)leaf;
    next_op(r, TDM_TEXT_MAP)->map = TDM_MAP_NMT;
    return TDM_OK;
}

static tdm_status norm_strip_accents(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    (void)leaf;
    next_op(r, TDM_TEXT_MAP)->map = TDM_MAP_MARKS;
    return TDM_OK;
}

static tdm_status norm_bert(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    bool is_cleaned = false;
    bool is_cjk_spaced = false;
    bool is_lowered = false;
    bool is_stripped = false;
    TDM_TRY(tdm_json_read_flag(r, leaf, "clean_text", true, &is_cleaned));
    TDM_TRY(tdm_json_read_flag(r, leaf, "handle_chinese_chars", true, &is_cjk_spaced));
    TDM_TRY(tdm_json_read_flag(r, leaf, "lowercase", true, &is_lowered));
    TDM_TRY(tdm_json_read_flag(r, leaf, "strip_accents", is_lowered, &is_stripped));
    if (is_cleaned) {
        next_op(r, TDM_TEXT_MAP)->map = TDM_MAP_BERT_CLEAN;
    }
    if (is_cjk_spaced) {
        next_op(r, TDM_TEXT_MAP)->map = TDM_MAP_BERT_CJK;
    }
    if (is_stripped) {
        tdm_text_op *nfd = next_op(r, TDM_TEXT_NORMALIZE);
        if (tdm_text_find_inert(nfd, &r->tokenizer->arena) != TDM_OK) {
            return tdm_fail_nomem(r->err, "a tokenizer");
        }
        next_op(r, TDM_TEXT_MAP)->map = TDM_MAP_BERT_ACCENTS;
    }
    if (is_lowered) {
        (void)next_op(r, TDM_TEXT_LOWERCASE);
    }
    return TDM_OK;
}

static int32_t base64_value(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool tdm_base64_decode(const char *text, size_t len, char *out, size_t *out_len) {
    uint32_t bits = 0;
    uint32_t n_bits = 0;
    *out_len = 0;
    while (len > 0 && text[len - 1] == '=') {
        len--;
    }
    for (size_t i = 0; i < len; i++) {
        const int32_t value = base64_value(text[i]);
        if (value < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            out[(*out_len)++] = (char)(uint8_t)(bits >> n_bits);
            bits &= (1u << n_bits) - 1;
        }
    }
    return true;
}

static tdm_status norm_precompiled(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    const tdm_json *node = tdm_json_get(leaf->node, "precompiled_charsmap");
    tdm_charsmap *map = tdm_arena_calloc(&r->tokenizer->arena, 1, sizeof(*map));
    size_t len = 0;
    if (!tdm_json_is(node, TDM_JSON_STRING)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "precompiled_charsmap is not a text");
    }
    char *blob = tdm_mem_alloc(r->tokenizer->alloc, (size_t)node->len + 1);
    if (map == NULL || blob == NULL) {
        tdm_mem_free(r->tokenizer->alloc, blob, (size_t)node->len + 1);
        return tdm_fail_nomem(r->err, "a character map");
    }
    tdm_status status = TDM_OK;
    if (!tdm_base64_decode(node->u.text, node->len, blob, &len)) {
        status = tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "precompiled_charsmap is no base64");
    } else {
        status = tdm_charsmap_init(map, &r->tokenizer->arena, blob, len, false, r->err);
        if (status == TDM_E_FORMAT) {
            tdm_err_where(r->err, "%s: %s", r->name, leaf->path);
        }
    }
    tdm_mem_free(r->tokenizer->alloc, blob, (size_t)node->len + 1);
    next_op(r, TDM_TEXT_CHARSMAP)->charsmap = map;
    return status;
}

static tdm_status norm_strip(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_text_op *op = next_op(r, TDM_TEXT_STRIP);
    TDM_TRY(tdm_json_read_flag(r, leaf, "strip_left", true, &op->is_left));
    return tdm_json_read_flag(r, leaf, "strip_right", true, &op->is_right);
}

typedef struct norm_reader {
    const char *type;
    tdm_status (*read)(tdm_json_reader *r, const tdm_json_leaf *leaf);
} norm_reader;

static const norm_reader NORMALIZERS[] = {
    {"NFC", norm_unicode},
    {"NFD", norm_unicode},
    {"NFKC", norm_unicode},
    {"NFKD", norm_unicode},
    {"Prepend", norm_prepend},
    {"Replace", norm_replace},
    {"Lowercase", norm_lowercase},
    {"Strip", norm_strip},
    {"Nmt", norm_nmt},
    {"StripAccents", norm_strip_accents},
    {"BertNormalizer", norm_bert},
    {"Precompiled", norm_precompiled},
};

tdm_status tdm_json_read_normalizer(tdm_json_reader *r, const tdm_json *node) {
    tdm_json_leaves leaves = {.n = 0};
    tdm_tokenizer *t = r->tokenizer;
    TDM_TRY(tdm_json_flatten(r, node, "$.normalizer", "normalizers", &leaves));
    t->normalizers =
        tdm_arena_calloc(&t->arena, NORMALIZER_OPS_MAX * leaves.n, sizeof(t->normalizers[0]));
    if (t->normalizers == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    for (size_t i = 0; i < leaves.n; i++) {
        const tdm_json *type = tdm_json_get(leaves.items[i].node, "type");
        const norm_reader *reader = NULL;
        for (size_t k = 0; k < sizeof(NORMALIZERS) / sizeof(NORMALIZERS[0]); k++) {
            if (tdm_json_text_is(type, NORMALIZERS[k].type)) {
                reader = &NORMALIZERS[k];
            }
        }
        if (reader == NULL) {
            return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaves.items[i].path,
                                   "normalizer \"%.64s\" is not supported", type->u.text);
        }
        TDM_TRY(reader->read(r, &leaves.items[i]));
    }
    return TDM_OK;
}

/* Pre-tokenizers */

static const char GPT2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
                           "\\s+(?!\\S)|\\s+";

static tdm_pretok_stage *next_stage(tdm_json_reader *r) {
    return &r->tokenizer->stages[r->tokenizer->n_stages++];
}

static tdm_status op_stage(tdm_json_reader *r, tdm_text_op **out) {
    tdm_text_op *op = tdm_arena_calloc(&r->tokenizer->arena, 1, sizeof(*op));
    if (op == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    next_stage(r)->op = op;
    *out = op;
    return TDM_OK;
}

static tdm_status expr_stage(tdm_json_reader *r, const tdm_json_leaf *leaf, const char *pattern,
                             size_t len, tdm_pretok_stage *stage) {
    stage->rule = tdm_scan_find(pattern, len);
    return stage->rule != NULL ? TDM_OK : compile_expr(r, leaf, pattern, len, &stage->expr);
}

static tdm_status pre_byte_level(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    bool has_prefix = false;
    bool has_expr = false;
    tdm_text_op *op = NULL;
    TDM_TRY(tdm_json_read_flag(r, leaf, "add_prefix_space", true, &has_prefix));
    TDM_TRY(tdm_json_read_flag(r, leaf, "use_regex", true, &has_expr));
    if (has_prefix) {
        TDM_TRY(op_stage(r, &op));
        op->kind = TDM_TEXT_PREFIX_SPACE;
        op->a = " ";
        op->a_len = 1;
    }
    if (has_expr) {
        TDM_TRY(expr_stage(r, leaf, GPT2, sizeof(GPT2) - 1, next_stage(r)));
    }
    r->tokenizer->bpe.is_byte_level = true;
    return TDM_OK;
}

static tdm_status read_behavior(tdm_json_reader *r, const tdm_json_leaf *leaf,
                                tdm_split_behavior *out) {
    static const char *const NAMES[] = {"Isolated", "Removed", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const tdm_json *node = tdm_json_get(leaf->node, "behavior");
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (tdm_json_text_is(node, NAMES[i])) {
            *out = (tdm_split_behavior)i;
            return TDM_OK;
        }
    }
    return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "behavior is none of the five");
}

static tdm_status pre_split(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    bool is_expr = false;
    tdm_pretok_stage *stage = next_stage(r);
    TDM_TRY(read_pattern(r, leaf, &stage->literal, &stage->literal_len, &is_expr));
    TDM_TRY(read_behavior(r, leaf, &stage->behavior));
    TDM_TRY(tdm_json_read_flag(r, leaf, "invert", false, &stage->is_inverted));
    return is_expr ? expr_stage(r, leaf, stage->literal, stage->literal_len, stage) : TDM_OK;
}

static tdm_status pre_digits(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    bool is_individual = false;
    TDM_TRY(tdm_json_read_flag(r, leaf, "individual_digits", false, &is_individual));
    next_stage(r)->rule = tdm_scan_digits(is_individual);
    return TDM_OK;
}

static tdm_status pre_whitespace_split(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_pretok_stage *stage = next_stage(r);
    stage->behavior = TDM_SPLIT_REMOVED;
    return expr_stage(r, leaf, "\\s+", 3, stage);
}

static tdm_status pre_whitespace(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_pretok_stage *stage = next_stage(r);
    stage->behavior = TDM_SPLIT_REMOVED;
    stage->is_inverted = true;
    return expr_stage(r, leaf, "\\w+|[^\\w\\s]+", 12, stage);
}

static tdm_status pre_punctuation(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_pretok_stage *stage = next_stage(r);
    if (tdm_json_get(leaf->node, "behavior") != NULL) {
        TDM_TRY(read_behavior(r, leaf, &stage->behavior));
    }
    stage->rule = tdm_scan_punctuation();
    return TDM_OK;
}

static tdm_status pre_bert(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    TDM_TRY(pre_whitespace_split(r, leaf));
    next_stage(r)->rule = tdm_scan_punctuation();
    return TDM_OK;
}

/* CharDelimiterSplit */
static tdm_status pre_delimiter(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_pretok_stage *stage = next_stage(r);
    stage->behavior = TDM_SPLIT_REMOVED;
    TDM_TRY(tdm_json_copy_text(r, leaf, "delimiter", 4, &stage->literal, &stage->literal_len));
    return stage->literal_len > 0
               ? TDM_OK
               : tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "delimiter is not one character");
}

tdm_status tdm_json_read_metaspace(tdm_json_reader *r, const tdm_json_leaf *leaf, const char **out,
                                   size_t *out_len, char *out_scheme) {
    const tdm_json *scheme = tdm_json_get(leaf->node, "prepend_scheme");
    bool has_prefix = true;
    uint32_t cp = 0;
    bool is_ok = false;
    TDM_TRY(tdm_json_copy_text(r, leaf, "replacement", 4, out, out_len));
    if (*out_len == 0 || tdm_utf8_decode(*out, *out_len, &cp, &is_ok) != *out_len || !is_ok) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "replacement is not one character");
    }
    TDM_TRY(tdm_json_read_flag(r, leaf, "add_prefix_space", true, &has_prefix));
    if (scheme == NULL || tdm_json_is(scheme, TDM_JSON_NULL)) {
        *out_scheme = has_prefix ? 'a' : 'n';
    } else if (tdm_json_text_is(scheme, "always") || tdm_json_text_is(scheme, "first") ||
               tdm_json_text_is(scheme, "never")) {
        *out_scheme = scheme->u.text[0];
    } else {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                               "prepend_scheme is not always, first or never");
    }
    return TDM_OK;
}

static tdm_status pre_metaspace(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_text_op *op = NULL;
    char scheme = 'a';
    bool is_split = true;
    TDM_TRY(op_stage(r, &op));
    op->kind = TDM_TEXT_METASPACE;
    TDM_TRY(tdm_json_read_metaspace(r, leaf, &op->a, &op->a_len, &scheme));
    TDM_TRY(tdm_json_read_flag(r, leaf, "split", true, &is_split));
    op->has_prepend = scheme != 'n';
    op->is_first_only = scheme == 'f';
    if (is_split) {
        tdm_pretok_stage *stage = next_stage(r);
        stage->literal = op->a;
        stage->literal_len = op->a_len;
        stage->behavior = TDM_SPLIT_MERGED_WITH_NEXT;
    }
    return TDM_OK;
}

typedef struct pre_reader {
    const char *type;
    tdm_status (*read)(tdm_json_reader *r, const tdm_json_leaf *leaf);
} pre_reader;

static const pre_reader PRE_TOKENIZERS[] = {
    {"ByteLevel", pre_byte_level},
    {"Split", pre_split},
    {"Digits", pre_digits},
    {"Metaspace", pre_metaspace},
    {"WhitespaceSplit", pre_whitespace_split},
    {"Whitespace", pre_whitespace},
    {"Punctuation", pre_punctuation},
    {"BertPreTokenizer", pre_bert},
    {"CharDelimiterSplit", pre_delimiter},
};

tdm_status tdm_json_read_pre_tokenizer(tdm_json_reader *r, const tdm_json *node) {
    tdm_json_leaves leaves = {.n = 0};
    tdm_tokenizer *t = r->tokenizer;
    TDM_TRY(tdm_json_flatten(r, node, "$.pre_tokenizer", "pretokenizers", &leaves));
    t->stages = tdm_arena_calloc(&t->arena, 2 * TDM_JSON_LEAVES_MAX, sizeof(t->stages[0]));
    if (t->stages == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    for (size_t i = 0; i < leaves.n; i++) {
        const tdm_json *type = tdm_json_get(leaves.items[i].node, "type");
        const pre_reader *reader = NULL;
        for (size_t k = 0; k < sizeof(PRE_TOKENIZERS) / sizeof(PRE_TOKENIZERS[0]); k++) {
            if (tdm_json_text_is(type, PRE_TOKENIZERS[k].type)) {
                reader = &PRE_TOKENIZERS[k];
            }
        }
        if (reader == NULL) {
            return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaves.items[i].path,
                                   "pre-tokenizer \"%.64s\" is not supported", type->u.text);
        }
        if (t->bpe.is_byte_level) { /* its alphabet would have to be real text from there on */
            return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaves.items[i].path,
                                   "a pre-tokenizer behind ByteLevel is not supported");
        }
        TDM_TRY(reader->read(r, &leaves.items[i]));
    }
    return TDM_OK;
}
