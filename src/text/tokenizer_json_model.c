/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json's model (BPE; the others in tokenizer_json_words.c) and added_tokens into the vocabulary, the merge table and the list
 * for the matcher. Refuses what the reference would only trip over later: a merge whose parts or
 * result are no tokens, two tokens of one id, ids far beyond the number of tokens. */
#include "text/tokenizer_json.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

#define MODEL "$.model"

tdm_status tdm_json_refuse_at(tdm_json_reader *r, tdm_status code, const char *list, size_t idx,
                              const char *what) {
    char path[TDM_JSON_PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s[%zu]", list, idx);
    return tdm_json_refuse(r, code, path, "%s", what);
}

tdm_status tdm_json_check_token(tdm_json_reader *r, const char *list, size_t idx, size_t len) {
    if (len <= TDM_TOKEN_BYTES_MAX) {
        return TDM_OK;
    }
    const tdm_status status =
        tdm_json_refuse_at(r, TDM_E_LIMIT, list, idx, "a token is longer than a token may be");
    tdm_err_limit(r->err, "%u bytes", TDM_TOKEN_BYTES_MAX);
    return status;
}

/* One more than the largest id, in bounds. */
static tdm_status count_ids(tdm_json_reader *r, const tdm_json *vocab, const tdm_json *added,
                            int32_t *out) {
    int64_t last = -1;
    const size_t n = tdm_json_len(vocab) + tdm_json_len(added);
    for (size_t i = 0; i < tdm_json_len(vocab); i++) {
        int64_t id = (int64_t)i; /* of a list of tokens and scores */
        if (tdm_json_is(vocab, TDM_JSON_ARRAY)) {
            last = id > last ? id : last;
            continue;
        }
        if (!tdm_json_as_i64(&vocab->u.items[i], &id) || id < 0 || id >= TDM_VOCAB_MAX) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, MODEL ".vocab", i,
                                      "the id is no number below 2^24");
        }
        last = id > last ? id : last;
    }
    for (size_t i = 0; i < tdm_json_len(added); i++) {
        int64_t id = -1;
        if (!tdm_json_as_i64(tdm_json_get(&added->u.items[i], "id"), &id) || id < 0 ||
            id >= TDM_VOCAB_MAX) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, "$.added_tokens", i,
                                      "the id is no number below 2^24");
        }
        last = id > last ? id : last;
    }
    if ((uint64_t)last > 4 * (uint64_t)n + 65536) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".vocab", "%zu tokens reach up to id %lld", n,
                               (long long)last);
    }
    *out = (int32_t)(last + 1);
    return TDM_OK;
}

static tdm_status read_vocab(tdm_json_reader *r, const tdm_json *vocab) {
    tdm_tokenizer *t = r->tokenizer;
    for (size_t i = 0; i < vocab->len; i++) {
        const tdm_json *item = &vocab->u.items[i];
        int64_t id = 0;
        (void)tdm_json_as_i64(item, &id);
        TDM_TRY(tdm_json_check_token(r, MODEL ".vocab", i, item->key_len));
        if (t->spellings[id].data != NULL) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, MODEL ".vocab", i,
                                      "two tokens share one id");
        }
        TDM_TRY(tdm_tokenizer_spell(t, (int32_t)id, item->key, item->key_len, r->err));
        (void)tdm_text_map_put(&t->by_spelling, (int32_t)id);
    }
    return TDM_OK;
}

/* Marks the special tokens among the vocabulary. The model must not make them out of plain text, as
 * the reference's does where its merges were learned over them: text that may not parse special
 * tokens would still spell them. Text that may is cut before the model sees it. */
static void mark_special(tdm_json_reader *r, const tdm_json *added) {
    tdm_tokenizer *t = r->tokenizer;
    for (size_t i = 0; i < tdm_json_len(added); i++) {
        const tdm_json *content = tdm_json_get(&added->u.items[i], "content");
        bool is_special = false;
        if (tdm_json_is(content, TDM_JSON_STRING) &&
            tdm_json_as_bool(tdm_json_get(&added->u.items[i], "special"), &is_special) &&
            is_special) {
            const int32_t id = tdm_text_map_find(&t->by_spelling, content->u.text, content->len);
            if (id >= 0) {
                t->kinds[id] = TDM_TOKEN_CONTROL;
            }
        }
    }
}

/* The texts that the encoder meets: raw bytes where the pipeline is byte-level. */
static tdm_status make_words(tdm_json_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    const size_t n = (size_t)t->n_vocab;
    char raw[TDM_TOKEN_BYTES_MAX];
    tdm_text_ref *texts = tdm_arena_calloc(&t->arena, n, sizeof(*texts));
    if (texts == NULL || tdm_text_map_init(&t->by_bytes, &t->arena, texts, n) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const tdm_text_ref *spelling = &t->spellings[id];
        size_t len = 0;
        if (spelling->data == NULL || spelling->len == 0 ||
            (t->kinds[id] == TDM_TOKEN_CONTROL && spelling->len > 1)) {
            continue;
        }
        texts[id] = *spelling;
        if (t->bpe.is_byte_level) {
            if (!tdm_byte_level_decode(spelling->data, spelling->len, raw, &len)) {
                continue;
            }
            if (len != spelling->len || memcmp(raw, spelling->data, len) != 0) {
                texts[id].data = tdm_arena_copy_text(&t->arena, raw, len);
                texts[id].len = (uint32_t)len;
            }
            if (texts[id].data == NULL) {
                return tdm_fail_nomem(r->err, "a vocabulary");
            }
            if (len == 1) {
                t->bpe.byte_ids[(uint8_t)raw[0]] = id;
            }
        }
        (void)tdm_text_map_put(&t->by_bytes, id);
    }
    t->bpe.words = &t->by_bytes;
    return TDM_OK;
}

/* The two texts of a merge: a list of two, or one text with one space between them. */
static bool split_merge(const tdm_json *node, tdm_text_ref out[2]) {
    if (tdm_json_is(node, TDM_JSON_ARRAY)) {
        for (size_t i = 0; i < 2; i++) {
            if (node->len != 2 || !tdm_json_is(&node->u.items[i], TDM_JSON_STRING)) {
                return false;
            }
            out[i] = (tdm_text_ref){node->u.items[i].u.text, node->u.items[i].len};
        }
        return true;
    }
    if (!tdm_json_is(node, TDM_JSON_STRING)) {
        return false;
    }
    const char *text = node->u.text;
    const char *space = memchr(text, ' ', node->len);
    if (space == NULL) {
        return false;
    }
    const size_t at = (size_t)(space - text);
    out[0] = (tdm_text_ref){text, (uint32_t)at};
    out[1] = (tdm_text_ref){space + 1, (uint32_t)(node->len - at - 1)};
    return memchr(space + 1, ' ', out[1].len) == NULL;
}

static tdm_status read_merges(tdm_json_reader *r, const tdm_json *merges) {
    tdm_tokenizer *t = r->tokenizer;
    char joined[2 * TDM_TOKEN_BYTES_MAX];
    for (size_t i = 0; i < merges->len; i++) {
        tdm_text_ref parts[2];
        if (!split_merge(&merges->u.items[i], parts)) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, MODEL ".merges", i,
                                      "a merge is not two tokens");
        }
        if (parts[0].len > TDM_TOKEN_BYTES_MAX || parts[1].len > TDM_TOKEN_BYTES_MAX) {
            return tdm_json_check_token(r, MODEL ".merges", i, (size_t)TDM_TOKEN_BYTES_MAX + 1);
        }
        memcpy(joined, parts[0].data, parts[0].len);
        memcpy(joined + parts[0].len, parts[1].data, parts[1].len);
        const int32_t left = tdm_text_map_find(&t->by_spelling, parts[0].data, parts[0].len);
        const int32_t right = tdm_text_map_find(&t->by_spelling, parts[1].data, parts[1].len);
        const int32_t id =
            tdm_text_map_find(&t->by_spelling, joined, (size_t)parts[0].len + parts[1].len);
        if (left < 0 || right < 0 || id < 0 || parts[0].len == 0 || parts[1].len == 0) {
            return tdm_json_refuse_at(r, TDM_E_FORMAT, MODEL ".merges", i,
                                      left < 0 || right < 0 ? "a part of a merge is no token"
                                                            : "the result of a merge is no token");
        }
        if (t->kinds[id] != TDM_TOKEN_CONTROL) {
            tdm_bpe_put(&t->bpe, left, right, (uint32_t)i, id, true);
        }
    }
    return TDM_OK;
}

static bool is_text_empty(const tdm_json *node) {
    return node == NULL || tdm_json_is(node, TDM_JSON_NULL) ||
           (tdm_json_is(node, TDM_JSON_STRING) && node->len == 0);
}

static tdm_status read_unknown(tdm_json_reader *r, const tdm_json *model) {
    tdm_tokenizer *t = r->tokenizer;
    const tdm_json *node = tdm_json_get(model, "unk_token");
    if (node == NULL || tdm_json_is(node, TDM_JSON_NULL)) {
        return TDM_OK;
    }
    t->bpe.unk_id = tdm_json_is(node, TDM_JSON_STRING)
                        ? tdm_text_map_find(&t->by_spelling, node->u.text, node->len)
                        : -1;
    t->unk = t->bpe.unk_id;
    if (t->unk < 0) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".unk_token", "unk_token is no token");
    }
    if (t->kinds[t->unk] != TDM_TOKEN_CONTROL) {
        t->kinds[t->unk] = TDM_TOKEN_UNKNOWN;
    }
    return TDM_OK;
}

static tdm_status read_bpe(tdm_json_reader *r, const tdm_json *model) {
    tdm_tokenizer *t = r->tokenizer;
    const tdm_json *merges = tdm_json_get(model, "merges");
    const tdm_json_leaf leaf = {model, MODEL};
    const bool is_byte_level = t->bpe.is_byte_level;
    double dropout = 0.0;
    bool takes_whole_word = false;
    bool is_unk_fused = false;
    bool has_byte_tokens = false;
    char spelling[8];
    if (!tdm_json_is(merges, TDM_JSON_ARRAY)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".merges", "merges is not a list");
    }
    if (!is_text_empty(tdm_json_get(model, "continuing_subword_prefix")) ||
        !is_text_empty(tdm_json_get(model, "end_of_word_suffix"))) {
        return tdm_json_refuse(r, TDM_E_UNSUPPORTED, MODEL,
                               "BPE with a subword prefix or a word suffix is not supported");
    }
    if (tdm_json_as_f64(tdm_json_get(model, "dropout"), &dropout) && dropout > 0.0) {
        return tdm_json_refuse(r, TDM_E_UNSUPPORTED, MODEL ".dropout",
                               "BPE dropout would make ids random");
    }
    TDM_TRY(tdm_json_read_flag(r, &leaf, "ignore_merges", false, &takes_whole_word));
    TDM_TRY(tdm_json_read_flag(r, &leaf, "fuse_unk", false, &is_unk_fused));
    TDM_TRY(tdm_json_read_flag(r, &leaf, "byte_fallback", false, &has_byte_tokens));
    if (tdm_bpe_init(&t->bpe, &t->arena, merges->len) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a merge table");
    }
    t->bpe.is_byte_level = is_byte_level;
    t->bpe.takes_whole_word = takes_whole_word;
    t->bpe.is_unk_fused = is_unk_fused;
    t->bpe.has_byte_tokens = has_byte_tokens;
    for (int32_t i = 0; i < 256 && has_byte_tokens; i++) {
        (void)snprintf(spelling, sizeof(spelling), "<0x%02X>", (unsigned)i);
        t->bpe.fallback_ids[i] = tdm_text_map_find(&t->by_spelling, spelling, 6);
    }
    TDM_TRY(read_unknown(r, model));
    TDM_TRY(make_words(r));
    TDM_TRY(read_merges(r, merges));
    return tdm_bpe_seal(&t->bpe, &t->arena, (size_t)t->n_vocab) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(r->err, "a merge table");
}

static tdm_status read_added(tdm_json_reader *r, const tdm_json *list) {
    tdm_tokenizer *t = r->tokenizer;
    t->added = tdm_arena_calloc(&t->arena, tdm_json_len(list), sizeof(t->added[0]));
    if (t->added == NULL) {
        return tdm_fail_nomem(r->err, "added tokens");
    }
    for (size_t i = 0; i < tdm_json_len(list); i++) {
        tdm_json_leaf leaf = {&list->u.items[i], ""};
        tdm_added_token *token = &t->added[t->n_added];
        const tdm_json *content = tdm_json_get(leaf.node, "content");
        int64_t id = 0;
        (void)tdm_json_as_i64(tdm_json_get(leaf.node, "id"), &id);
        (void)snprintf(leaf.path, sizeof(leaf.path), "$.added_tokens[%zu]", i);
        if (!tdm_json_is(content, TDM_JSON_STRING)) {
            return tdm_json_refuse(r, TDM_E_FORMAT, leaf.path, "content is not a text");
        }
        if (content->len == 0) { /* the reference passes over it as well */
            continue;
        }
        TDM_TRY(tdm_json_check_token(r, "$.added_tokens", i, content->len));
        TDM_TRY(tdm_json_read_flag(r, &leaf, "special", false, &token->is_special));
        TDM_TRY(tdm_json_read_flag(r, &leaf, "single_word", false, &token->is_single_word));
        TDM_TRY(tdm_json_read_flag(r, &leaf, "lstrip", false, &token->is_left_stripped));
        TDM_TRY(tdm_json_read_flag(r, &leaf, "rstrip", false, &token->is_right_stripped));
        TDM_TRY(
            tdm_json_read_flag(r, &leaf, "normalized", !token->is_special, &token->is_normalized));
        token->id = tdm_text_map_find(&t->by_spelling, content->u.text, content->len);
        if (token->id < 0) {
            if (t->spellings[id].data != NULL) {
                return tdm_json_refuse(r, TDM_E_FORMAT, leaf.path,
                                       "the id belongs to another token");
            }
            token->id = (int32_t)id;
            TDM_TRY(tdm_tokenizer_spell(t, token->id, content->u.text, content->len, r->err));
            (void)tdm_text_map_put(&t->by_spelling, token->id);
        }
        token->text = t->spellings[token->id].data;
        token->len = t->spellings[token->id].len;
        t->kinds[token->id] = token->is_special ? TDM_TOKEN_CONTROL : TDM_TOKEN_USER;
        if (token->is_special) {
            t->flags[token->id] |= TDM_TOKEN_FLAG_SPECIAL;
        }
        t->n_added++;
    }
    return TDM_OK;
}

/* By its type; files of the first versions have none and are told by what they hold. */
static tdm_status find_kind(tdm_json_reader *r, const tdm_json *model, tdm_model_kind *out) {
    static const struct {
        const char *type;
        const char *member;
        tdm_model_kind kind;
    } KINDS[] = {{"BPE", "merges", TDM_MODEL_BPE},
                 {"Unigram", "unk_id", TDM_MODEL_UNIGRAM},
                 {"WordPiece", "max_input_chars_per_word", TDM_MODEL_WORDPIECE}};
    const tdm_json *type = tdm_json_get(model, "type");
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        if (type != NULL ? tdm_json_text_is(type, KINDS[i].type)
                         : tdm_json_get(model, KINDS[i].member) != NULL) {
            *out = KINDS[i].kind;
            return TDM_OK;
        }
    }
    if (type == NULL) {
        *out = TDM_MODEL_BPE;
        return TDM_OK;
    }
    return tdm_json_is(type, TDM_JSON_STRING)
               ? tdm_json_refuse(r, TDM_E_UNSUPPORTED, MODEL,
                                 "tokenizer model \"%.64s\" is not supported", type->u.text)
               : tdm_json_refuse(r, TDM_E_FORMAT, MODEL, "type is not a text");
}

tdm_status tdm_json_read_model(tdm_json_reader *r, const tdm_json *root) {
    tdm_tokenizer *t = r->tokenizer;
    const tdm_json *model = tdm_json_get(root, "model");
    const tdm_json *vocab = tdm_json_get(model, "vocab");
    const tdm_json *added = tdm_json_get(root, "added_tokens");
    int32_t n_vocab = 0;
    if (!tdm_json_is(model, TDM_JSON_OBJECT)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL, "there is no model");
    }
    TDM_TRY(find_kind(r, model, &t->model));
    if (!tdm_json_is(vocab, t->model == TDM_MODEL_UNIGRAM ? TDM_JSON_ARRAY : TDM_JSON_OBJECT) ||
        (added != NULL && !tdm_json_is(added, TDM_JSON_ARRAY) &&
         !tdm_json_is(added, TDM_JSON_NULL))) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".vocab",
                               "vocab is not what the model needs, or added_tokens not a list");
    }
    TDM_TRY(count_ids(r, vocab, added, &n_vocab));
    if (n_vocab == 0) {
        return tdm_json_refuse(r, TDM_E_FORMAT, MODEL ".vocab", "the vocabulary is empty");
    }
    TDM_TRY(tdm_tokenizer_reserve(t, n_vocab, r->err));
    TDM_TRY(t->model == TDM_MODEL_UNIGRAM ? tdm_json_read_scored(r, vocab) : read_vocab(r, vocab));
    mark_special(r, added);
    if (t->model == TDM_MODEL_BPE) {
        TDM_TRY(read_bpe(r, model));
    } else if (t->bpe.is_byte_level) {
        return tdm_json_refuse(r, TDM_E_UNSUPPORTED, MODEL,
                               "ByteLevel in front of another model "
                               "than BPE is not supported");
    } else {
        TDM_TRY(t->model == TDM_MODEL_UNIGRAM ? tdm_json_read_unigram(r, model)
                                              : tdm_json_read_wordpiece(r, model));
    }
    TDM_TRY(read_added(r, added));
    for (int32_t id = 0; id < t->n_vocab; id++) { /* a token that is there twice is one token */
        const tdm_text_ref *text = &t->spellings[id];
        const int32_t twin =
            text->data != NULL ? tdm_text_map_find(&t->by_spelling, text->data, text->len) : id;
        t->kinds[id] = t->kinds[twin];
        t->flags[id] = t->flags[twin];
    }
    return TDM_OK;
}
