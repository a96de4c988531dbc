/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers out of GGUF metadata: `gpt2` (byte-level BPE with merges), `gemma4` (the same over
 * characters), `llama` (SentencePiece by scores), and the vocabulary of all. Where the file and the peer disagree about a token's type the peer is followed,
 * because files are written for it (errata 11): tokens spelled like an end of generation are
 * control tokens whatever the file says. Source: shared/spec/gguf.md section 4,
 * quantized-formats.md section 7; llama.cpp's src/llama-vocab.cpp for defaults and spellings. */
#include "text/tokenizer_gguf.h"

#include <stdio.h>
#include <string.h>

#define META TDM_META
#define KEY TDM_GGUF_KEY

typedef tdm_gguf_reader reader;

typedef enum gguf_token_type {
    TYPE_NORMAL = 1,
    TYPE_UNKNOWN,
    TYPE_CONTROL,
    TYPE_USER,
    TYPE_UNUSED,
    TYPE_BYTE
} gguf_token_type;

tdm_status tdm_gguf_refuse(reader *r, tdm_status code, const char *key, const char *what) {
    (void)tdm_fail(r->err, code, "%s", what);
    tdm_err_where(r->err, "%s: %s", r->name, key);
    return code;
}

static tdm_status refuse_at(reader *r, tdm_status code, const char *key, size_t idx,
                            const char *what) {
    (void)tdm_fail(r->err, code, "%s", what);
    tdm_err_where(r->err, "%s: %s[%zu]", r->name, key, idx);
    return code;
}

static bool text_is(const tdm_text_ref *text, const char *want) {
    return text->len == strlen(want) && memcmp(text->data, want, text->len) == 0;
}

/* Vocabulary */

#define EMPTY_NAME_MAX 32

/* What all spellings take, each with its NUL. */
static tdm_status measure_tokens(reader *r, tdm_gguf_array_ref *list, size_t *out_bytes) {
    size_t bytes = 0;
    for (size_t i = 0; i < list->n; i++) {
        tdm_gguf_text text = {NULL, 0};
        if (!tdm_gguf_ref_text(list, i, &text)) {
            return refuse_at(r, TDM_E_FORMAT, KEY("tokens"), i, "a token is no text");
        }
        if (text.len > TDM_TOKEN_BYTES_MAX) {
            return refuse_at(r, TDM_E_LIMIT, KEY("tokens"), i, "a token has more than 1024 bytes");
        }
        bytes += text.len > 0 ? text.len + 1 : EMPTY_NAME_MAX; /* bounded: 2^24 of 4096 */
    }
    *out_bytes = bytes;
    return TDM_OK;
}

static tdm_status read_tokens(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_array_ref list;
    size_t bytes = 0;
    if (!tdm_gguf_array_find(r->gguf, KEY("tokens"), &list) || list.type != TDM_GGUF_STRING) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("tokens"),
                               "the vocabulary is no list of texts");
    }
    if (list.n == 0 || list.n > TDM_VOCAB_MAX) {
        return tdm_gguf_refuse(r, list.n == 0 ? TDM_E_FORMAT : TDM_E_LIMIT, KEY("tokens"),
                               "the vocabulary has no token, or more than 2^24");
    }
    TDM_TRY(tdm_tokenizer_reserve(t, (int32_t)list.n, r->err));
    TDM_TRY(measure_tokens(r, &list, &bytes));
    char *at = tdm_arena_alloc(&t->arena, bytes, 1);
    if (at == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    for (size_t i = 0; i < list.n; i++) {
        tdm_gguf_text text = {NULL, 0};
        char empty[EMPTY_NAME_MAX];
        (void)tdm_gguf_ref_text(&list, i, &text); /* measure_tokens has seen it */
        if (text.len == 0) {                      /* the peer's name for it keeps spellings apart */
            text.len = (size_t)snprintf(empty, sizeof(empty), "[EMPTY_%zu]", i);
            text.data = empty;
        }
        memcpy(at, text.data, text.len);
        at[text.len] = '\0';
        t->spellings[i] = (tdm_text_ref){at, (uint32_t)text.len};
        t->pieces[i] = t->spellings[i];
        at += text.len + 1;
    }
    const int32_t twice = tdm_text_map_put_all(&t->by_spelling, t->n_vocab);
    return twice < 0
               ? TDM_OK
               : refuse_at(r, TDM_E_FORMAT, KEY("tokens"), (size_t)twice, "a token is there twice");
}

/* Spellings that the peer takes for fill-in-the-middle tokens, and so for control tokens; those of
 * the second list also end a generation. */
static const char *const MIDDLES[] = {
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<PRE>",
    META "<PRE>",
    "<|code_prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<SUF>",
    META "<SUF>",
    "<|code_suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<MID>",
    META "<MID>",
    "<|code_middle|>",
    "<\xEF\xBD\x9C"
    "fim" META "begin\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "fim" META "hole\xEF\xBD\x9C>",
    "<\xEF\xBD\x9C"
    "fim" META "end\xEF\xBD\x9C>",
};
static const char *const ENDS[] = {"<|fim_pad|>", "<fim-pad>",    "<fim_pad>",     "<PAD>",
                                   "[PAD]",       "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                   "<REPO>",      "<reponame>",   "<|file_sep|>"};

/* The token spelled name becomes a control token, if there is one. */
static void make_control(tdm_tokenizer *t, const char *name) {
    const int32_t id = tdm_tokenizer_find(t, name, strlen(name));
    if (id >= 0) {
        t->kinds[id] = TDM_TOKEN_CONTROL;
    }
}

/* Names are looked up in the vocabulary, not the vocabulary in the names. */
static void make_controls(tdm_tokenizer *t) {
    for (size_t i = 0; i < sizeof(MIDDLES) / sizeof(MIDDLES[0]); i++) {
        make_control(t, MIDDLES[i]);
    }
    for (size_t i = 0; i < sizeof(ENDS) / sizeof(ENDS[0]); i++) {
        make_control(t, ENDS[i]);
    }
    for (size_t i = 0; tdm_eog_spelling(i) != NULL; i++) {
        make_control(t, tdm_eog_spelling(i));
    }
}

static tdm_token_kind kind_of(int64_t type) {
    switch (type) {
    case TYPE_NORMAL:
        return TDM_TOKEN_NORMAL;
    case TYPE_UNKNOWN:
        return TDM_TOKEN_UNKNOWN;
    case TYPE_CONTROL:
        return TDM_TOKEN_CONTROL;
    case TYPE_USER:
        return TDM_TOKEN_USER;
    case TYPE_BYTE:
        return TDM_TOKEN_BYTE;
    default:
        return TDM_TOKEN_UNUSED;
    }
}

static tdm_status read_types(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_array_ref list;
    const bool has_types = tdm_gguf_array_find(r->gguf, KEY("token_type"), &list);
    if (!has_types && tdm_gguf_has(r->gguf, KEY("token_type"))) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("token_type"), "token types are no list");
    }
    if (has_types && list.n < (size_t)t->n_vocab) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("token_type"), "fewer token types than tokens");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        int64_t type = TYPE_NORMAL;
        if (has_types && !tdm_gguf_ref_i64(&list, (size_t)id, &type)) {
            return refuse_at(r, TDM_E_FORMAT, KEY("token_type"), (size_t)id,
                             "a token type is no whole number");
        }
        t->kinds[id] = (uint8_t)kind_of(type);
    }
    make_controls(t);
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const tdm_text_ref *text = &t->spellings[id];
        if (t->kinds[id] == TDM_TOKEN_BYTE && tdm_byte_token_value(text->data, text->len) < 0) {
            return refuse_at(r, TDM_E_FORMAT, KEY("tokens"), (size_t)id,
                             "a byte token is not spelled <0xNN>");
        }
    }
    return TDM_OK;
}

/* The id under key; fallback where the key is absent or out of range, as in the peer. */
static int32_t special_id(const reader *r, const char *key, int32_t fallback) {
    uint64_t id = 0;
    if (tdm_gguf_get_u64(r->gguf, key, &id) && id < (uint64_t)r->tokenizer->n_vocab) {
        return (int32_t)id;
    }
    return fallback < r->tokenizer->n_vocab ? fallback : -1;
}

static void drop_eog(tdm_tokenizer *t, int32_t id) {
    size_t n = 0;
    for (size_t i = 0; i < t->n_eog; i++) {
        if (t->eog[i] != id) {
            t->eog[n++] = t->eog[i];
        }
    }
    t->n_eog = n;
}

/* Keeps ids in ascending order; -1 is none. */
static size_t insert_id(int32_t ids[TDM_EOG_MAX], size_t n, int32_t id) {
    size_t at = n;
    if (id < 0 || n == TDM_EOG_MAX) {
        return n;
    }
    for (; at > 0 && ids[at - 1] > id; at--) {
        ids[at] = ids[at - 1];
    }
    ids[at] = id;
    return n + 1;
}

static bool has_token(const tdm_tokenizer *t, const char *spelling) {
    return tdm_tokenizer_find(t, spelling, strlen(spelling)) >= 0;
}

/* What ends a generation by its spelling, in the order of the ids. */
static void add_named_ends(tdm_tokenizer *t) {
    int32_t ids[TDM_EOG_MAX];
    size_t n = 0;
    for (size_t i = 0; i < sizeof(ENDS) / sizeof(ENDS[0]); i++) {
        n = insert_id(ids, n, tdm_tokenizer_find(t, ENDS[i], strlen(ENDS[i])));
    }
    for (size_t i = 0; tdm_eog_spelling(i) != NULL; i++) {
        const char *name = tdm_eog_spelling(i);
        n = insert_id(ids, n, tdm_tokenizer_find(t, name, strlen(name)));
    }
    for (size_t i = 0; i < n; i++) {
        tdm_tokenizer_add_eog(t, ids[i]);
    }
}

static void find_ends(reader *r) {
    static const char *const KEYS[] = {KEY("eot_token_id"), KEY("eom_token_id"),
                                       KEY("fim_pad_token_id"), KEY("fim_rep_token_id"),
                                       KEY("fim_sep_token_id")};
    static const char *const SHOWN[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};
    tdm_tokenizer *t = r->tokenizer;
    tdm_tokenizer_add_eog(t, t->eos);
    for (size_t i = 0; i < sizeof(KEYS) / sizeof(KEYS[0]); i++) {
        tdm_tokenizer_add_eog(t, special_id(r, KEYS[i], -1));
    }
    add_named_ends(t);
    for (size_t i = 0; i < sizeof(SHOWN) / sizeof(SHOWN[0]); i++) {
        const int32_t id = tdm_tokenizer_find(t, SHOWN[i], strlen(SHOWN[i]));
        if (id >= 0) {
            t->kinds[id] = TDM_TOKEN_USER;
        }
    }
    /* Two dialects in which a spelling of the list is no end. */
    const bool has_call = has_token(t, "<|call|>") || has_token(t, "<|calls|>");
    const int32_t end = tdm_tokenizer_find(t, "<|end|>", 7);
    if (end >= 0 && has_call && (has_token(t, "<|return|>") || has_token(t, "<|flush|>"))) {
        drop_eog(t, end);
        t->kinds[end] = TDM_TOKEN_USER;
    }
    const int32_t slash_s = tdm_tokenizer_find(t, "</s>", 4);
    if (slash_s >= 0 && has_token(t, "<|tool_response>")) {
        drop_eog(t, slash_s);
        t->kinds[slash_s] = TDM_TOKEN_NORMAL;
    }
}

static tdm_status put_id(reader *r, int32_t id, int32_t **out, size_t *out_n) {
    *out = tdm_arena_calloc(&r->tokenizer->arena, 1, sizeof(**out));
    if (*out == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    (*out)[0] = id;
    *out_n = 1;
    return TDM_OK;
}

static tdm_status read_special(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    const tdm_gguf_model *m = r->model;
    bool adds_bos = r->pre != NULL ? r->pre->adds_bos : m->adds_bos;
    bool adds_eos = m->adds_eos;
    (void)tdm_gguf_get_bool(r->gguf, KEY("add_bos_token"), &adds_bos);
    (void)tdm_gguf_get_bool(r->gguf, KEY("add_eos_token"), &adds_eos);
    t->bos = special_id(r, KEY("bos_token_id"), m->bos);
    t->eos = special_id(r, KEY("eos_token_id"), m->eos);
    t->unk = special_id(r, KEY("unknown_token_id"), m->unk);
    if (m->kind == TDM_MODEL_WORDPIECE) { /* the separator ends a text whatever the file says */
        t->eos = special_id(r, KEY("seperator_token_id"), m->eos); /* so spelled in files */
        adds_bos = adds_eos = true;
    }
    /* Files of Gemma 4 say no and mean yes, as the peer has found. */
    t->adds_bos = (adds_bos || (r->pre != NULL && r->pre->is_bos_forced)) && t->bos >= 0;
    if (t->adds_bos) {
        TDM_TRY(put_id(r, t->bos, &t->prefix_ids, &t->n_prefix));
    }
    if (adds_eos && t->eos >= 0) {
        TDM_TRY(put_id(r, t->eos, &t->suffix_ids, &t->n_suffix));
    }
    find_ends(r);
    return TDM_OK;
}

static bool has_text(const tdm_gguf_text *text, const char *part) {
    const size_t len = strlen(part);
    for (size_t i = 0; i + len <= text->len; i++) {
        size_t k = 0;
        while (k < len && (text->data[i + k] | 0x20) == part[k]) {
            k++;
        }
        if (k == len) {
            return true;
        }
    }
    return false;
}

/* White space that goes with a token. Files do not say; the peer knows it by the model's name. (A
 * dash is the same with 0x20 set.) */
static void set_strips(const reader *r, tdm_added_token *token) {
    const tdm_text_ref text = {token->text, token->len};
    tdm_gguf_text name = {"", 0};
    tdm_gguf_text pre = {"", 0};
    tdm_gguf_text arch = {"", 0};
    if (r->gguf == NULL) {
        return;
    }
    (void)tdm_gguf_get_text(r->gguf, "general.name", &name);
    (void)tdm_gguf_get_text(r->gguf, "general.architecture", &arch);
    (void)tdm_gguf_get_text(r->gguf, KEY("pre"), &pre);
    if (has_text(&pre, "jina-v2-de") || has_text(&pre, "jina-v2-es") ||
        has_text(&pre, "jina-v2-code") || has_text(&arch, "nomic-bert-moe") ||
        has_text(&arch, "jina-bert-v3")) {
        token->is_left_stripped = text_is(&text, "<mask>");
    } else if (has_text(&name, "phi-3") || has_text(&name, "phi3")) {
        token->is_right_stripped =
            !text_is(&text, "<unk>") && !text_is(&text, "<s>") && !text_is(&text, "<|endoftext|>");
    } else if (has_text(&name, "modern-bert")) {
        token->is_left_stripped = text_is(&text, "[MASK]");
    }
}

/* Tokens that are cut out of the text before the model sees it. */
tdm_status tdm_gguf_read_added(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    size_t n = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        n += t->kinds[id] == TDM_TOKEN_CONTROL || t->kinds[id] == TDM_TOKEN_USER ||
             t->kinds[id] == TDM_TOKEN_UNKNOWN;
    }
    t->added = tdm_arena_calloc(&t->arena, n, sizeof(t->added[0]));
    if (t->added == NULL) {
        return tdm_fail_nomem(r->err, "added tokens");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const tdm_token_kind kind = (tdm_token_kind)t->kinds[id];
        const bool is_special = kind == TDM_TOKEN_CONTROL || kind == TDM_TOKEN_UNKNOWN;
        if (!is_special && kind != TDM_TOKEN_USER) {
            continue;
        }
        t->added[t->n_added++] = (tdm_added_token){.id = id,
                                                   .text = t->spellings[id].data,
                                                   .len = t->spellings[id].len,
                                                   .is_special = is_special};
        if (is_special) {
            t->flags[id] |= TDM_TOKEN_FLAG_SPECIAL;
        }
        set_strips(r, &t->added[t->n_added - 1]);
    }
    return tdm_tokenizer_make_matchers(t, true, r->err);
}

/* Whether the model may make this token out of plain text: no control, unknown or byte token, as in
 * SentencePiece. (The peer looks all of them up, so that plain text can come out as a control
 * token.) */
bool tdm_gguf_is_plain(const tdm_tokenizer *t, int32_t id) {
    return t->kinds[id] == TDM_TOKEN_NORMAL || t->kinds[id] == TDM_TOKEN_USER ||
           t->kinds[id] == TDM_TOKEN_UNUSED;
}

/* Spellings as they are */

tdm_status tdm_gguf_read_scores(reader *r, const float **out) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_array_ref list;
    float *scores = tdm_arena_calloc(&t->arena, (size_t)t->n_vocab, sizeof(*scores));
    if (scores == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    if (!tdm_gguf_array_find(r->gguf, KEY("scores"), &list) || list.n < (size_t)t->n_vocab) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("scores"),
                               "there is no list of a score for each token");
    }
    for (int32_t id = 0; id < t->n_vocab; id++) {
        double value = 0.0;
        int64_t whole = 0;
        if (tdm_gguf_ref_f64(&list, (size_t)id, &value)) {
            scores[id] = (float)value;
        } else if (tdm_gguf_ref_i64(&list, (size_t)id, &whole)) {
            scores[id] = (float)whole;
        } else {
            return refuse_at(r, TDM_E_FORMAT, KEY("scores"), (size_t)id,
                             "a score is no finite number");
        }
    }
    *out = scores;
    return TDM_OK;
}

/* What tokens decode to: U+2581 is a space in normal ones, a byte token is its byte. */
tdm_status tdm_gguf_make_pieces(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    char piece[TDM_TOKEN_BYTES_MAX];
    for (int32_t id = 0; id < t->n_vocab; id++) {
        const tdm_text_ref *spelling = &t->spellings[id];
        size_t len = 0;
        if (t->kinds[id] == TDM_TOKEN_BYTE) {
            piece[len++] = (char)(uint8_t)tdm_byte_token_value(spelling->data, spelling->len);
        } else if (t->kinds[id] == TDM_TOKEN_UNUSED) {
            t->pieces[id].len = 0;
            continue;
        } else if (t->kinds[id] == TDM_TOKEN_NORMAL) {
            if (memchr(spelling->data, META[0], spelling->len) == NULL) {
                continue;
            }
            for (size_t i = 0; i < spelling->len; i++) {
                const bool is_space =
                    spelling->len - i >= 3 && memcmp(spelling->data + i, META, 3) == 0;
                piece[len++] = is_space ? ' ' : spelling->data[i];
                i += is_space ? 2 : 0;
            }
            if (len == spelling->len) {
                continue;
            }
        } else {
            continue;
        }
        const char *copy = tdm_arena_copy_text(&t->arena, piece, len);
        if (copy == NULL) {
            return tdm_fail_nomem(r->err, "a vocabulary");
        }
        t->pieces[id] = (tdm_text_ref){copy, (uint32_t)len};
    }
    return TDM_OK;
}

static bool keeps_plain(const void *arg, int32_t id) {
    return tdm_gguf_is_plain(arg, id);
}

tdm_status tdm_gguf_map_words(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    return tdm_text_map_select(&t->by_bytes, &t->arena, &t->by_spelling, keeps_plain, t) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(r->err, "a vocabulary");
}

void tdm_gguf_find_bytes(const tdm_tokenizer *t, int32_t ids[256]) {
    char spelling[8];
    for (int32_t i = 0; i < 256; i++) {
        (void)snprintf(spelling, sizeof(spelling), "<0x%02X>", (unsigned)i);
        ids[i] = tdm_tokenizer_find(t, spelling, 6);
    }
}

/* Spaces become U+2581, and one stands in front where is_prefixed: at the start and behind every
 * added token. */
tdm_status tdm_gguf_escape_spaces(reader *r, bool is_prefixed) {
    tdm_tokenizer *t = r->tokenizer;
    if (t->normalizers == NULL) {
        t->normalizers = tdm_arena_calloc(&t->arena, 4, sizeof(t->normalizers[0]));
    }
    if (t->normalizers == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    if (is_prefixed) {
        t->normalizers[t->n_normalizers++] =
            (tdm_text_op){.kind = TDM_TEXT_PREPEND, .a = META, .a_len = 3};
        t->decoder.n_stripped = 1;
        t->decoder.strip_text = (tdm_text_ref){" ", 1};
    }
    t->normalizers[t->n_normalizers++] =
        (tdm_text_op){.kind = TDM_TEXT_REPLACE, .a = " ", .a_len = 1, .b = META, .b_len = 3};
    return TDM_OK;
}

/* Byte-pair merging of characters (Gemma 4): what has no token falls to <0xNN>. */
static tdm_status read_characters(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    t->bpe.has_byte_tokens = true;
    t->bpe.words = &t->by_bytes;
    tdm_gguf_find_bytes(t, t->bpe.fallback_ids);
    TDM_TRY(tdm_gguf_map_words(r));
    TDM_TRY(tdm_gguf_make_pieces(r));
    return tdm_gguf_escape_spaces(r, false);
}

static tdm_status read_spm(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    bool adds_prefix = true;
    t->spm.words = &t->by_spelling;
    t->spm.kinds = t->kinds;
    t->spm.unk_id = t->unk;
    (void)tdm_gguf_get_bool(r->gguf, KEY("add_space_prefix"), &adds_prefix);
    TDM_TRY(tdm_gguf_read_scores(r, &t->spm.scores));
    TDM_TRY(tdm_gguf_make_pieces(r));
    tdm_gguf_find_bytes(t, t->spm.byte_ids);
    return tdm_gguf_escape_spaces(r, adds_prefix);
}

/* Byte-level BPE */

static tdm_status read_pre(reader *r) {
    tdm_gguf_text name = {"default", 7};
    if (r->model->pre != NULL) {
        name = (tdm_gguf_text){r->model->pre, strlen(r->model->pre)};
    } else if (tdm_gguf_has(r->gguf, KEY("pre")) &&
               !tdm_gguf_get_text(r->gguf, KEY("pre"), &name)) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("pre"), "the pre-tokenizer's name is no text");
    }
    r->pre = tdm_gguf_pre_find(name.data, name.len);
    if (r->pre == NULL) {
        (void)tdm_fail(r->err, TDM_E_UNSUPPORTED, "pre-tokenizer \"%.*s\" is not known",
                       (int)(name.len < 64 ? name.len : 64), name.data);
        tdm_err_where(r->err, "%s: %s", r->name, KEY("pre"));
        return TDM_E_UNSUPPORTED;
    }
    return TDM_OK;
}

static tdm_status make_stages(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    t->stages = tdm_arena_calloc(&t->arena, TDM_GGUF_PATTERNS_MAX, sizeof(t->stages[0]));
    if (t->stages == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    for (size_t i = 0; i < TDM_GGUF_PATTERNS_MAX && r->pre->patterns[i] != NULL; i++) {
        const char *pattern = r->pre->patterns[i];
        tdm_pretok_stage *stage = &t->stages[t->n_stages++];
        stage->rule = tdm_scan_find(pattern, strlen(pattern));
        if (stage->rule == NULL) {
            TDM_TRY(
                tdm_regex_create(&stage->expr, &t->arena, pattern, strlen(pattern), false, r->err));
        }
    }
    return TDM_OK;
}

/* Raw bytes of every spelling, which are both what words are looked up by and what tokens decode
 * to. */
static tdm_status make_bytes(reader *r) {
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
        if (t->kinds[id] == TDM_TOKEN_UNUSED) {
            t->pieces[id].len = 0;
        }
        if (!tdm_byte_level_decode(spelling->data, spelling->len, raw, &len)) {
            continue;
        }
        texts[id] = *spelling;
        if (len != spelling->len || memcmp(raw, spelling->data, len) != 0) {
            texts[id].data = tdm_arena_copy_text(&t->arena, raw, len);
            texts[id].len = (uint32_t)len;
            if (texts[id].data == NULL) {
                return tdm_fail_nomem(r->err, "a vocabulary");
            }
        }
        if (t->kinds[id] == TDM_TOKEN_NORMAL) {
            t->pieces[id] = texts[id];
        }
        if (len == 1) {
            t->bpe.byte_ids[(uint8_t)raw[0]] = id;
        }
        if (tdm_gguf_is_plain(t, id)) {
            (void)tdm_text_map_put(&t->by_bytes, id);
        }
    }
    t->bpe.words = &t->by_bytes;
    return TDM_OK;
}

static tdm_status read_merges(reader *r, tdm_gguf_array_ref *list) {
    tdm_tokenizer *t = r->tokenizer;
    char joined[2 * TDM_TOKEN_BYTES_MAX];
    for (size_t i = 0; i < list->n; i++) {
        tdm_gguf_text text = {NULL, 0};
        const char *space = NULL;
        int32_t left = -1;
        int32_t right = -1;
        int32_t id = -1;
        if (tdm_gguf_ref_text(list, i, &text) && text.len > 2 && text.len <= sizeof(joined)) {
            space = memchr(text.data + 1, ' ', text.len - 1);
        }
        if (space != NULL) {
            const size_t at = (size_t)(space - text.data);
            const size_t rest = text.len - at - 1;
            memcpy(joined, text.data, at);
            memcpy(joined + at, space + 1, rest);
            left = tdm_tokenizer_find(t, text.data, at);
            right = rest > 0 ? tdm_tokenizer_find(t, space + 1, rest) : -1;
            id = tdm_tokenizer_find(t, joined, at + rest);
        }
        if (left < 0 || right < 0 || id < 0) {
            return refuse_at(r, TDM_E_FORMAT, KEY("merges"), i,
                             "a merge is not two tokens that make a third");
        }
        if (tdm_gguf_is_plain(t, id)) {
            tdm_bpe_put(&t->bpe, left, right, (uint32_t)i, id, false);
        }
    }
    return TDM_OK;
}

static tdm_status read_bpe(reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_array_ref merges;
    const bool has_merges = tdm_gguf_array_find(r->gguf, KEY("merges"), &merges);
    if (!has_merges && r->pre->needs_no_merges && !tdm_gguf_has(r->gguf, KEY("merges"))) {
        memset(&merges, 0, sizeof(merges));
    } else if (!has_merges || (merges.n > 0 && merges.type != TDM_GGUF_STRING) ||
               merges.n > UINT32_MAX / 2) {
        return tdm_gguf_refuse(r, TDM_E_FORMAT, KEY("merges"), "merges are no list of texts");
    }
    if (tdm_bpe_init(&t->bpe, &t->arena, merges.n) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a merge table");
    }
    t->bpe.is_byte_level = !r->pre->is_of_characters;
    t->bpe.takes_whole_word = r->pre->takes_whole_word;
    TDM_TRY(make_stages(r));
    if (t->bpe.is_byte_level) {
        TDM_TRY(make_bytes(r));
    } else {
        TDM_TRY(read_characters(r));
    }
    TDM_TRY(read_merges(r, &merges));
    return tdm_bpe_seal(&t->bpe, &t->arena, (size_t)t->n_vocab) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(r->err, "a merge table");
}

static tdm_status describe(reader *r) {
    char text[96];
    tdm_tokenizer *t = r->tokenizer;
    if (t->model == TDM_MODEL_BPE) {
        (void)snprintf(text, sizeof(text), "bpe %s, pre %s, %d tokens",
                       t->bpe.is_byte_level ? "byte-level" : "with byte fallback", r->pre->name,
                       (int)t->n_vocab);
    } else {
        (void)snprintf(text, sizeof(text), "%s, %d tokens", r->model->what, (int)t->n_vocab);
    }
    t->description = tdm_arena_copy_text(&t->arena, text, strlen(text));
    return t->description != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

static tdm_status read_all(reader *r) {
    tdm_gguf_text chat_template = {NULL, 0};
    r->tokenizer->model = r->model->kind;
    if (r->model->kind == TDM_MODEL_BPE) {
        TDM_TRY(read_pre(r));
    }
    TDM_TRY(read_tokens(r));
    TDM_TRY(read_types(r));
    TDM_TRY(read_special(r));
    TDM_TRY(r->model->read(r));
    TDM_TRY(tdm_gguf_read_added(r));
    TDM_TRY(tdm_tokenizer_find_cuts(r->tokenizer, r->err));
    if (tdm_gguf_get_text(r->gguf, "tokenizer.chat_template", &chat_template)) {
        TDM_TRY(tdm_tokenizer_set_template(r->tokenizer, chat_template.data, chat_template.len,
                                           r->err));
    }
    return describe(r);
}

/* What files of a model may leave out, by llama.cpp's load. */
static const tdm_gguf_model MODELS[] = {
    {"gpt2", "bpe", TDM_MODEL_BPE, read_bpe, NULL, -1, -1, -1, false, false},
    {"gemma4", "bpe", TDM_MODEL_BPE, read_bpe, "gemma4", -1, -1, -1, true, false},
    {"llama", "spm by scores", TDM_MODEL_SPM, read_spm, NULL, 1, 2, 0, true, false},
    {"bert", "wordpiece", TDM_MODEL_WORDPIECE, tdm_gguf_read_bert, NULL, 101, 102, 100, true, true},
    {"t5", "unigram", TDM_MODEL_UNIGRAM, tdm_gguf_read_t5, NULL, -1, 1, 2, false, true},
};

tdm_status tdm_tokenizer_from_gguf(tdm_tokenizer **out, const tdm_alloc *alloc,
                                   const tdm_gguf *gguf, const char *name, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_gguf_text model = {NULL, 0};
    reader r = {.gguf = gguf, .name = name, .err = err};
    *out = NULL;
    if (!tdm_gguf_get_text(gguf, KEY("model"), &model) ||
        (model.len == 4 && memcmp(model.data, "none", 4) == 0)) {
        return tdm_gguf_refuse(&r, TDM_E_NOT_FOUND, KEY("model"), "the file has no tokenizer");
    }
    for (size_t i = 0; i < sizeof(MODELS) / sizeof(MODELS[0]); i++) {
        if (strlen(MODELS[i].name) == model.len &&
            memcmp(MODELS[i].name, model.data, model.len) == 0) {
            r.model = &MODELS[i];
        }
    }
    if (r.model == NULL) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "tokenizer model \"%.*s\" is not supported",
                       (int)(model.len < 64 ? model.len : 64), model.data);
        tdm_err_where(err, "%s: %s", name, KEY("model"));
        return TDM_E_UNSUPPORTED;
    }
    TDM_TRY(tdm_tokenizer_make(&r.tokenizer, alloc, err));
    status = read_all(&r);
    if (status == TDM_OK) {
        *out = r.tokenizer;
        r.tokenizer = NULL;
    }
    tdm_tokenizer_destroy(r.tokenizer);
    return status;
}
