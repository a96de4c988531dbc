/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json's post_processor into ids put in front and behind, and its decoder into pieces and
 * a mode. A decoder is a list of rewritings; those that see one token at a time are done here,
 * once, for every id, so that decoding copies bytes and nothing more. */
#include "text/tokenizer_json.h"

#include <stdio.h>
#include <string.h>

#define AFFIX_MAX 64

typedef struct affixes {
    int32_t prefix[AFFIX_MAX];
    size_t n_prefix;
    int32_t suffix[AFFIX_MAX];
    size_t n_suffix;
} affixes;

/* The ids of one special token of a template: an entry of special_tokens, each id in the
 * vocabulary. */
static tdm_status add_special(tdm_json_reader *r, const tdm_json_leaf *leaf, const tdm_json *item,
                              int32_t *list, size_t *n) {
    const tdm_json *id = tdm_json_get(item, "id");
    const tdm_json *entry =
        tdm_json_is(id, TDM_JSON_STRING)
            ? tdm_json_get_n(tdm_json_get(leaf->node, "special_tokens"), id->u.text, id->len)
            : NULL;
    const tdm_json *ids = tdm_json_get(entry, "ids");
    if (!tdm_json_is(ids, TDM_JSON_ARRAY) || tdm_json_len(ids) == 0) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                               "the template names a special token without ids");
    }
    for (size_t i = 0; i < ids->len; i++) {
        int64_t value = 0;
        if (!tdm_json_as_i64(&ids->u.items[i], &value) || value < 0 ||
            value >= r->tokenizer->n_vocab || r->tokenizer->spellings[value].data == NULL) {
            return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                                   "a special token of the template is not in the vocabulary");
        }
        if (*n == AFFIX_MAX) {
            return tdm_json_refuse(r, TDM_E_LIMIT, leaf->path,
                                   "the template has more than %d special tokens", AFFIX_MAX);
        }
        list[(*n)++] = (int32_t)value;
    }
    return TDM_OK;
}

static tdm_status post_template(tdm_json_reader *r, const tdm_json_leaf *leaf, affixes *a) {
    const tdm_json *single = tdm_json_get(leaf->node, "single");
    size_t n_texts = 0;
    if (!tdm_json_is(single, TDM_JSON_ARRAY)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "single is not a list");
    }
    for (size_t i = 0; i < single->len; i++) {
        const tdm_json *item = &single->u.items[i];
        const tdm_json *special = tdm_json_get(item, "SpecialToken");
        if (tdm_json_text_is(tdm_json_get(tdm_json_get(item, "Sequence"), "id"), "A")) {
            n_texts++;
        } else if (special == NULL) {
            return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                                   "single[%zu] is neither a special token nor text A", i);
        } else {
            TDM_TRY(n_texts == 0 ? add_special(r, leaf, special, a->prefix, &a->n_prefix)
                                 : add_special(r, leaf, special, a->suffix, &a->n_suffix));
        }
    }
    if (n_texts != 1) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                               "single holds the text %zu times, not once", n_texts);
    }
    return TDM_OK;
}

/* ["text", id] */
static tdm_status read_pair(tdm_json_reader *r, const tdm_json_leaf *leaf, const char *key,
                            int32_t *out) {
    const tdm_json *pair = tdm_json_get(leaf->node, key);
    int64_t id = -1;
    if (!tdm_json_is(pair, TDM_JSON_ARRAY) || pair->len != 2 ||
        !tdm_json_as_i64(&pair->u.items[1], &id) || id < 0 || id >= r->tokenizer->n_vocab ||
        r->tokenizer->spellings[id].data == NULL) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path, "%s is no token of the vocabulary",
                               key);
    }
    *out = (int32_t)id;
    return TDM_OK;
}

static tdm_status post_pair(tdm_json_reader *r, const tdm_json_leaf *leaf, affixes *a) {
    if (a->n_prefix == AFFIX_MAX || a->n_suffix == AFFIX_MAX) {
        return tdm_json_refuse(r, TDM_E_LIMIT, leaf->path, "more than %d special tokens",
                               AFFIX_MAX);
    }
    TDM_TRY(read_pair(r, leaf, "cls", &a->prefix[a->n_prefix++]));
    return read_pair(r, leaf, "sep", &a->suffix[a->n_suffix++]);
}

static int32_t *copy_ids(tdm_json_reader *r, const int32_t *ids, size_t n) {
    int32_t *copy = tdm_arena_calloc(&r->tokenizer->arena, n, sizeof(*ids));
    if (copy != NULL && n > 0) {
        memcpy(copy, ids, n * sizeof(*ids));
    }
    return copy;
}

tdm_status tdm_json_read_post_processor(tdm_json_reader *r, const tdm_json *node) {
    tdm_json_leaves leaves = {.n = 0};
    affixes a = {.n_prefix = 0};
    tdm_tokenizer *t = r->tokenizer;
    TDM_TRY(tdm_json_flatten(r, node, "$.post_processor", "processors", &leaves));
    for (size_t i = 0; i < leaves.n; i++) {
        const tdm_json_leaf *leaf = &leaves.items[i];
        const tdm_json *type = tdm_json_get(leaf->node, "type");
        if (tdm_json_text_is(type, "TemplateProcessing")) {
            if (a.n_prefix + a.n_suffix > 0) {
                return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaf->path,
                                       "a second template is not supported");
            }
            TDM_TRY(post_template(r, leaf, &a));
        } else if (tdm_json_text_is(type, "RobertaProcessing") ||
                   tdm_json_text_is(type, "BertProcessing")) {
            TDM_TRY(post_pair(r, leaf, &a));
        } else if (!tdm_json_text_is(type, "ByteLevel")) { /* which only moves offsets */
            return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaf->path,
                                   "post-processor \"%.64s\" is not supported", type->u.text);
        }
    }
    t->n_prefix = a.n_prefix;
    t->n_suffix = a.n_suffix;
    t->prefix_ids = copy_ids(r, a.prefix, a.n_prefix);
    t->suffix_ids = copy_ids(r, a.suffix, a.n_suffix);
    return t->prefix_ids != NULL && t->suffix_ids != NULL ? TDM_OK
                                                          : tdm_fail_nomem(r->err, "a tokenizer");
}

/* Decoders */

/* How far a sequence of decoders has come: what a type may still do depends on it. */
typedef enum decode_phase { PHASE_TOKENS, PHASE_RUNS, PHASE_FUSED } decode_phase;

static bool is_added(const tdm_tokenizer *t, int32_t id) {
    return t->kinds[id] == TDM_TOKEN_CONTROL || t->kinds[id] == TDM_TOKEN_USER;
}

/* Bytes of the GPT-2 alphabet. An added token stands for its own text: its letters are no alphabet
 * (the reference maps them and breaks tokens such as a lone U+00D6). */
static tdm_status decode_byte_level(tdm_json_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    char raw[4 * TDM_TOKEN_BYTES_MAX];
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const tdm_text_ref *piece = &t->pieces[id];
        size_t len = 0;
        if (piece->data == NULL || is_added(t, id) || piece->len > sizeof(raw) ||
            !tdm_byte_level_decode(piece->data, piece->len, raw, &len) ||
            (len == piece->len && memcmp(raw, piece->data, len) == 0)) {
            continue;
        }
        const char *copy = tdm_arena_copy_text(&t->arena, raw, len);
        if (copy == NULL) {
            return tdm_fail_nomem(r->err, "a vocabulary");
        }
        t->pieces[id] = (tdm_text_ref){copy, (uint32_t)len};
    }
    return TDM_OK;
}

/* Runs op over every piece. */
static tdm_status rewrite_pieces(tdm_json_reader *r, const tdm_text_op *op, tdm_text_ref *pieces) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_status status = TDM_OK;
    tdm_text_builder builder;
    tdm_regex_scratch scratch;
    tdm_text_builder_init(&builder, t->alloc, false);
    tdm_regex_scratch_init(&scratch, t->alloc);
    for (int32_t id = 0; id < t->n_vocab && status == TDM_OK; id++) {
        const tdm_text_view in = {pieces[id].data, pieces[id].len, NULL, 0};
        if (in.data == NULL) {
            continue;
        }
        tdm_text_builder_reset(&builder);
        status = tdm_text_op_apply(op, &scratch, &in, &builder, r->err);
        const tdm_text_view out = tdm_text_builder_view(&builder);
        if (status != TDM_OK || (out.len == in.len && memcmp(out.data, in.data, in.len) == 0)) {
            continue;
        }
        const char *copy = tdm_arena_copy_text(&t->arena, out.data, out.len);
        if (copy == NULL || out.len > UINT32_MAX) {
            status = tdm_fail_nomem(r->err, "a vocabulary");
        }
        pieces[id] = (tdm_text_ref){copy, (uint32_t)out.len};
    }
    tdm_text_builder_deinit(&builder);
    tdm_regex_scratch_deinit(&scratch);
    return status;
}

/* The same over what tokens become as the first of all, where that differs. */
static tdm_status rewrite_all(tdm_json_reader *r, const tdm_text_op *op) {
    if (r->tokenizer->decoder.first_pieces != NULL) {
        TDM_TRY(rewrite_pieces(r, op, r->tokenizer->decoder.first_pieces));
    }
    return rewrite_pieces(r, op, r->tokenizer->pieces);
}

static tdm_status decode_replace(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_text_op op = {.kind = TDM_TEXT_REPLACE};
    TDM_TRY(tdm_json_read_replace(r, leaf, &op));
    return rewrite_all(r, &op);
}

/* From here on the first token has texts of its own. */
static tdm_status part_first(tdm_json_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    const size_t n = (size_t)t->n_vocab;
    t->decoder.first_pieces = tdm_arena_calloc(&t->arena, n, sizeof(t->pieces[0]));
    if (t->decoder.first_pieces == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    if (n > 0) {
        memcpy(t->decoder.first_pieces, t->pieces, n * sizeof(t->pieces[0]));
    }
    return TDM_OK;
}

static tdm_status clean_up(tdm_json_reader *r) {
    static const char *const PAIRS[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof(PAIRS) / sizeof(PAIRS[0]); i++) {
        const tdm_text_op op = {.kind = TDM_TEXT_REPLACE,
                                .a = PAIRS[i][0],
                                .a_len = strlen(PAIRS[i][0]),
                                .b = PAIRS[i][1],
                                .b_len = strlen(PAIRS[i][1])};
        TDM_TRY(rewrite_all(r, &op));
    }
    return TDM_OK;
}

/* Every token but the first loses the prefix or gets a space in front. */
static tdm_status decode_wordpiece(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_tokenizer *t = r->tokenizer;
    const char *prefix = "##";
    size_t prefix_len = 2;
    bool is_cleaned = true;
    char joined[4 * TDM_TOKEN_BYTES_MAX + 1];
    if (tdm_json_get(leaf->node, "prefix") != NULL) {
        TDM_TRY(tdm_json_copy_text(r, leaf, "prefix", TDM_TOKEN_BYTES_MAX, &prefix, &prefix_len));
    }
    TDM_TRY(tdm_json_read_flag(r, leaf, "cleanup", true, &is_cleaned));
    TDM_TRY(part_first(r));
    for (int32_t id = 0; id < t->n_vocab; id++) {
        tdm_text_ref *piece = &t->pieces[id];
        if (piece->data == NULL || piece->len >= sizeof(joined)) {
            continue;
        }
        if (piece->len >= prefix_len && memcmp(piece->data, prefix, prefix_len) == 0) {
            piece->data += prefix_len;
            piece->len -= (uint32_t)prefix_len;
            continue;
        }
        joined[0] = ' ';
        memcpy(joined + 1, piece->data, piece->len);
        const char *copy = tdm_arena_copy_text(&t->arena, joined, (size_t)piece->len + 1);
        if (copy == NULL) {
            return tdm_fail_nomem(r->err, "a vocabulary");
        }
        *piece = (tdm_text_ref){copy, piece->len + 1};
    }
    return is_cleaned ? clean_up(r) : TDM_OK;
}

static tdm_status decode_byte_fallback(tdm_json_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    char *bytes = tdm_arena_calloc(&t->arena, 256, 1);
    if (bytes == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (int32_t i = 0; i < 256; i++) {
        bytes[i] = (char)(uint8_t)i;
    }
    t->decoder.mode = TDM_DECODE_RUNS;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const int32_t value = t->pieces[id].data != NULL
                                  ? tdm_byte_token_value(t->pieces[id].data, t->pieces[id].len)
                                  : -1;
        if (value >= 0) {
            t->pieces[id] = (tdm_text_ref){bytes + value, 1};
            t->flags[id] |= TDM_TOKEN_FLAG_BYTE;
            if (t->kinds[id] == TDM_TOKEN_NORMAL) {
                t->kinds[id] = TDM_TOKEN_BYTE;
            }
        }
    }
    return TDM_OK;
}

static tdm_status decode_strip(tdm_json_reader *r, const tdm_json_leaf *leaf, decode_phase phase) {
    int64_t start = 0;
    int64_t stop = 0;
    const char *content = NULL;
    size_t len = 0;
    uint32_t cp = 0;
    bool is_ok = false;
    TDM_TRY(tdm_json_copy_text(r, leaf, "content", 4, &content, &len));
    if (len == 0 || tdm_utf8_decode(content, len, &cp, &is_ok) != len || !is_ok ||
        !tdm_json_as_i64(tdm_json_get(leaf->node, "start"), &start) ||
        !tdm_json_as_i64(tdm_json_get(leaf->node, "stop"), &stop) || start < 0 || stop < 0 ||
        start > INT32_MAX || stop > INT32_MAX) {
        return tdm_json_refuse(r, TDM_E_FORMAT, leaf->path,
                               "Strip needs one character and two counts");
    }
    if (stop > 0 || phase != PHASE_FUSED) {
        return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaf->path,
                               "Strip is supported at the start of the fused text only");
    }
    r->tokenizer->decoder.n_stripped = (uint32_t)start;
    r->tokenizer->decoder.strip_text = (tdm_text_ref){content, (uint32_t)len};
    return TDM_OK;
}

/* U+2581 to a space; none at all in the first token unless the scheme is never. */
static tdm_status decode_metaspace(tdm_json_reader *r, const tdm_json_leaf *leaf) {
    tdm_tokenizer *t = r->tokenizer;
    char scheme = 'a';
    tdm_text_op op = {.kind = TDM_TEXT_REPLACE, .b = " ", .b_len = 1};
    TDM_TRY(tdm_json_read_metaspace(r, leaf, &op.a, &op.a_len, &scheme));
    if (scheme != 'n') {
        TDM_TRY(part_first(r));
        tdm_text_op drop = op;
        drop.b_len = 0;
        TDM_TRY(rewrite_pieces(r, &drop, t->decoder.first_pieces));
    }
    return rewrite_pieces(r, &op, t->pieces);
}

static tdm_status read_one_decoder(tdm_json_reader *r, const tdm_json_leaf *leaf, bool is_alone,
                                   decode_phase *phase) {
    const tdm_json *type = tdm_json_get(leaf->node, "type");
    if (tdm_json_text_is(type, "ByteLevel") && is_alone) {
        return decode_byte_level(r);
    }
    if (tdm_json_text_is(type, "Fuse")) {
        *phase = PHASE_FUSED;
        return TDM_OK;
    }
    if (tdm_json_text_is(type, "Strip")) {
        return decode_strip(r, leaf, *phase);
    }
    if (*phase == PHASE_TOKENS && tdm_json_text_is(type, "Replace")) {
        return decode_replace(r, leaf);
    }
    if (*phase == PHASE_TOKENS && tdm_json_text_is(type, "WordPiece") &&
        r->tokenizer->decoder.first_pieces == NULL) {
        return decode_wordpiece(r, leaf);
    }
    if (*phase == PHASE_TOKENS && tdm_json_text_is(type, "Metaspace") &&
        r->tokenizer->decoder.first_pieces == NULL) {
        return decode_metaspace(r, leaf);
    }
    if (*phase == PHASE_TOKENS && tdm_json_text_is(type, "ByteFallback") &&
        r->tokenizer->decoder.first_pieces == NULL) {
        *phase = PHASE_RUNS;
        return decode_byte_fallback(r);
    }
    return tdm_json_refuse(r, TDM_E_UNSUPPORTED, leaf->path,
                           "decoder \"%.64s\" is not supported here", type->u.text);
}

tdm_status tdm_json_read_decoder(tdm_json_reader *r, const tdm_json *node) {
    tdm_json_leaves leaves = {.n = 0};
    decode_phase phase = PHASE_TOKENS;
    TDM_TRY(tdm_json_flatten(r, node, "$.decoder", "decoders", &leaves));
    r->tokenizer->decoder.has_separator = leaves.n == 0;
    for (size_t i = 0; i < leaves.n; i++) {
        TDM_TRY(read_one_decoder(r, &leaves.items[i], leaves.n == 1, &phase));
    }
    return TDM_OK;
}
