/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies that are lists of byte strings with ranks: tiktoken's files and tekken.json. Two
 * neighbours merge when their bytes are a token, the least rank first; that is the same as merging
 * by the one pair each token is made of by the ranks before it, so each token is encoded by those
 * and gives its merge. Source: tiktoken's _educational.py; mistral-common's tekkenizer. */
#include "text/tokenizer_files.h"
#include "text/tokenizer_gguf.h"
#include "text/tokenizer_json.h"

#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX 8192

typedef struct rank_reader {
    tdm_tokenizer *tokenizer;
    tdm_text_ref *texts; /* [n_vocab] raw bytes by id */
    const char *name;
    tdm_error *err;
} rank_reader;

static tdm_status refuse(rank_reader *r, tdm_status code, size_t idx, const char *what) {
    (void)tdm_fail(r->err, code, "%s", what);
    tdm_err_where(r->err, "%s: entry %zu", r->name, idx);
    return code;
}

static uint32_t alphabet_of(uint8_t byte) {
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) {
        return byte;
    }
    if (byte <= 0x20) {
        return 0x100u + byte;
    }
    return byte == 0xAD ? 0x143u : 0x121u + byte - 0x7Fu;
}

static tdm_status start(rank_reader *r, int64_t n_vocab) {
    tdm_tokenizer *t = r->tokenizer;
    if (n_vocab <= 0 || n_vocab > TDM_VOCAB_MAX) {
        return refuse(r, n_vocab <= 0 ? TDM_E_FORMAT : TDM_E_LIMIT, 0,
                      "the vocabulary has no token, or more than 2^24");
    }
    TDM_TRY(tdm_tokenizer_reserve(t, (int32_t)n_vocab, r->err));
    r->texts = tdm_arena_calloc(&t->arena, (size_t)n_vocab, sizeof(r->texts[0]));
    return r->texts != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a vocabulary");
}

/* One byte string, spelled in the GPT-2 alphabet as tokenizer.json does. */
static tdm_status put_token(rank_reader *r, int64_t id, const char *raw, size_t len, size_t idx) {
    tdm_tokenizer *t = r->tokenizer;
    char spelling[2 * TDM_TOKEN_BYTES_MAX];
    size_t n = 0;
    if (len == 0 || len > TDM_TOKEN_BYTES_MAX || id < 0 || id >= t->n_vocab ||
        t->spellings[id].data != NULL) {
        return refuse(r, TDM_E_FORMAT, idx,
                      "a token is empty, too long, or its rank is there twice or out of range");
    }
    for (size_t i = 0; i < len; i++) {
        n += tdm_utf8_encode(alphabet_of((uint8_t)raw[i]), spelling + n);
    }
    TDM_TRY(tdm_tokenizer_spell(t, (int32_t)id, spelling, n, r->err));
    char *copy = tdm_arena_copy_text(&t->arena, raw, len);
    if (copy == NULL) {
        return tdm_fail_nomem(r->err, "a vocabulary");
    }
    r->texts[id] = (tdm_text_ref){copy, (uint32_t)len};
    t->pieces[id] = r->texts[id];
    if (tdm_text_map_put(&t->by_spelling, (int32_t)id) >= 0) {
        return refuse(r, TDM_E_FORMAT, idx, "a token is there twice");
    }
    return TDM_OK;
}

static tdm_status put_special(rank_reader *r, int64_t id, const char *text, size_t len,
                              bool is_special) {
    tdm_tokenizer *t = r->tokenizer;
    if (id < 0 || id >= t->n_vocab || t->spellings[id].data != NULL || len == 0 ||
        len > TDM_TOKEN_BYTES_MAX) {
        return TDM_OK; /* the file's own tokens win over what is said of them elsewhere */
    }
    TDM_TRY(tdm_tokenizer_spell(t, (int32_t)id, text, len, r->err));
    t->kinds[id] = is_special ? TDM_TOKEN_CONTROL : TDM_TOKEN_USER;
    (void)tdm_text_map_put(&t->by_spelling, (int32_t)id);
    return TDM_OK;
}

/* Every way to cut a token that its ranks do not explain. */
static void put_all_cuts(rank_reader *r, int32_t id, uint32_t rank) {
    tdm_bpe *bpe = &r->tokenizer->bpe;
    const tdm_text_ref *text = &r->texts[id];
    for (uint32_t at = 1; at < text->len; at++) {
        const int32_t left = tdm_text_map_find(bpe->words, text->data, at);
        const int32_t right = tdm_text_map_find(bpe->words, text->data + at, text->len - at);
        if (left >= 0 && right >= 0) {
            tdm_bpe_put(bpe, left, right, rank, id, false);
        }
    }
}

static tdm_status find_merges(rank_reader *r) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_bpe_scratch scratch;
    tdm_status status = TDM_OK;
    size_t n_cuts = 0;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        n_cuts += r->texts[id].len > 1 ? 1 + r->texts[id].len / 64 : 0;
    }
    /* A token that is not two by the ranks before it (none is, in a trained vocabulary) takes a
     * merge for each of its cuts; room is kept for all the cuts of one in 64 bytes. */
    if (tdm_bpe_init(&t->bpe, &t->arena, n_cuts + 65536) != TDM_OK ||
        tdm_text_map_init(&t->by_bytes, &t->arena, r->texts, (size_t)t->n_vocab) != TDM_OK) {
        return tdm_fail_nomem(r->err, "a merge table");
    }
    t->bpe.is_byte_level = true;
    t->bpe.words = &t->by_bytes;
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (r->texts[id].data != NULL) {
            (void)tdm_text_map_put(&t->by_bytes, id);
            if (r->texts[id].len == 1) {
                t->bpe.byte_ids[(uint8_t)r->texts[id].data[0]] = id;
            }
        }
    }
    size_t n_left = n_cuts + 65536;
    tdm_bpe_scratch_init(&scratch, t->alloc);
    for (int32_t id = 0; id < t->n_vocab && status == TDM_OK; id++) {
        const tdm_text_ref *text = &r->texts[id];
        if (text->len < 2) {
            continue;
        }
        if (tdm_bpe_merge_bytes(&t->bpe, text->data, text->len, &scratch) != TDM_OK) {
            status = tdm_fail_nomem(r->err, "a merge table");
            break;
        }
        const tdm_bpe_symbol *s = tdm_bpe_result(&scratch);
        const size_t n_needed = scratch.n == 2 ? 1 : text->len - 1;
        if (n_needed > n_left) {
            status = refuse(r, TDM_E_LIMIT, (size_t)id, "too many tokens are no merge of two");
        } else if (scratch.n == 2) {
            tdm_bpe_put(&t->bpe, s[0].id, s[1].id, (uint32_t)id, id, false);
            n_left -= n_needed;
        } else if (scratch.n > 2) {
            put_all_cuts(r, id, (uint32_t)id);
            n_left -= n_needed;
        }
    }
    tdm_bpe_scratch_deinit(&scratch);
    if (status == TDM_OK && tdm_bpe_seal(&t->bpe, &t->arena, (size_t)t->n_vocab) != TDM_OK) {
        status = tdm_fail_nomem(r->err, "a merge table");
    }
    return status;
}

static tdm_status make_stages(rank_reader *r, const char *const *patterns, size_t n) {
    tdm_tokenizer *t = r->tokenizer;
    t->stages = tdm_arena_calloc(&t->arena, n, sizeof(t->stages[0]));
    if (t->stages == NULL) {
        return tdm_fail_nomem(r->err, "a tokenizer");
    }
    for (size_t i = 0; i < n && patterns[i] != NULL; i++) {
        tdm_pretok_stage *stage = &t->stages[t->n_stages++];
        const size_t len = strlen(patterns[i]);
        stage->rule = tdm_scan_find(patterns[i], len);
        if (stage->rule == NULL) {
            TDM_TRY(tdm_regex_create(&stage->expr, &t->arena, patterns[i], len, false, r->err));
        }
    }
    return TDM_OK;
}

static tdm_status finish(rank_reader *r, const char *what, const tdm_json *config,
                         const tdm_file_facts *facts) {
    tdm_tokenizer *t = r->tokenizer;
    tdm_gguf_reader g = {.tokenizer = t, .name = r->name, .err = r->err};
    char text[96];
    t->model = TDM_MODEL_BPE;
    TDM_TRY(tdm_gguf_read_added(&g));
    TDM_TRY(tdm_tokenizer_set_facts(t, config, facts, r->err));
    (void)snprintf(text, sizeof(text), "bpe byte-level, %s, %d tokens", what, (int)t->n_vocab);
    t->description = tdm_arena_copy_text(&t->arena, text, strlen(text));
    return t->description != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

/* tiktoken */

/* Line idx of text from *pos on: raw bytes and rank. False at the end. */
static tdm_status next_line(rank_reader *r, const char *text, size_t len, size_t *pos, size_t idx,
                            char raw[LINE_BYTES_MAX], size_t *out_len, int64_t *out_rank) {
    const char *line = text + *pos;
    const char *line_end = memchr(line, '\n', len - *pos);
    const size_t n = line_end != NULL ? (size_t)(line_end - line) : len - *pos;
    const char *space = memchr(line, ' ', n);
    int64_t rank = 0;
    *pos += n + (line_end != NULL ? 1 : 0);
    if (space == NULL || n >= LINE_BYTES_MAX ||
        !tdm_base64_decode(line, (size_t)(space - line), raw, out_len)) {
        return refuse(r, TDM_E_FORMAT, idx, "a line is not base64 and a rank");
    }
    const char *digits = space + 1;
    const char *end = line + n;
    if (end > digits && end[-1] == '\r') {
        end--;
    }
    for (; digits < end && *digits >= '0' && *digits <= '9' && rank < TDM_VOCAB_MAX; digits++) {
        rank = rank * 10 + (*digits - '0');
    }
    if (digits != end || space + 1 == end || rank >= TDM_VOCAB_MAX) {
        return refuse(r, TDM_E_FORMAT, idx, "a rank is no number below 2^24");
    }
    *out_rank = rank;
    return TDM_OK;
}

static bool name_has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

/* The family, which says the split expression, by the name of the file and the number of ranks. */
static const tdm_gguf_pre *family_of(const char *name, int64_t n_ranks) {
    const char *pre = n_ranks >= 190000  ? "gpt-4o"
                      : n_ranks <= 50300 ? "gpt-2"
                                         : "dbrx"; /* cl100k, llama 3 */
    if (name_has(name, "qwen")) {
        pre = "qwen2";
    } else if (name_has(name, "tiktoken.model")) {
        pre = "kimi-k2";
    } else if (name_has(name, "tokenizer.model")) {
        pre = "llama-bpe";
    }
    return tdm_gguf_pre_find(pre, strlen(pre));
}

static int64_t id_of(const tdm_json *member) {
    int64_t id = 0;
    for (uint32_t i = 0; i < member->key_len; i++) {
        if (member->key[i] < '0' || member->key[i] > '9' || id >= TDM_VOCAB_MAX) {
            return -1;
        }
        id = id * 10 + (member->key[i] - '0');
    }
    return member->key_len > 0 ? id : -1;
}

/* The last id of config's added_tokens_decoder, or last. */
static int64_t last_added(const tdm_json *config, int64_t last) {
    const tdm_json *added = tdm_json_get(config, "added_tokens_decoder");
    for (size_t i = 0; tdm_json_is(added, TDM_JSON_OBJECT) && i < added->len; i++) {
        const int64_t id = id_of(&added->u.items[i]);
        last = id > last && id < TDM_VOCAB_MAX ? id : last;
    }
    return last;
}

static tdm_status put_added(rank_reader *r, const tdm_json *config) {
    const tdm_json *added = tdm_json_get(config, "added_tokens_decoder");
    for (size_t i = 0; tdm_json_is(added, TDM_JSON_OBJECT) && i < added->len; i++) {
        const tdm_json *content = tdm_json_get(&added->u.items[i], "content");
        bool is_special = true;
        (void)tdm_json_as_bool(tdm_json_get(&added->u.items[i], "special"), &is_special);
        if (tdm_json_is(content, TDM_JSON_STRING)) {
            TDM_TRY(put_special(r, id_of(&added->u.items[i]), content->u.text, content->len,
                                is_special));
        }
    }
    return TDM_OK;
}

/* Special tokens that these families keep in their code. */
static tdm_status put_known(rank_reader *r, int64_t first) {
    static const char *const QWEN[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    static const char *const LLAMA[] = {"<|begin_of_text|>",
                                        "<|end_of_text|>",
                                        "<|reserved_special_token_0|>",
                                        "<|reserved_special_token_1|>",
                                        "<|finetune_right_pad_id|>",
                                        "<|reserved_special_token_2|>",
                                        "<|start_header_id|>",
                                        "<|end_header_id|>",
                                        "<|eom_id|>",
                                        "<|eot_id|>",
                                        "<|python_tag|>"};
    const bool is_qwen = name_has(r->name, "qwen");
    const char *const *list = is_qwen ? QWEN : LLAMA;
    const size_t n = is_qwen ? sizeof(QWEN) / sizeof(QWEN[0]) : sizeof(LLAMA) / sizeof(LLAMA[0]);
    for (size_t i = 0; i < n; i++) {
        TDM_TRY(put_special(r, first + (int64_t)i, list[i], strlen(list[i]), true));
    }
    return TDM_OK;
}

#define KNOWN_MAX 11

static tdm_status read_tiktoken(rank_reader *r, const char *text, size_t len,
                                const tdm_json *config) {
    char raw[LINE_BYTES_MAX];
    size_t raw_len = 0;
    int64_t rank = 0;
    int64_t last = -1;
    size_t idx = 0;
    for (size_t pos = 0; pos < len; idx++) {
        TDM_TRY(next_line(r, text, len, &pos, idx, raw, &raw_len, &rank));
        last = rank > last ? rank : last;
    }
    if ((uint64_t)last > 4 * (uint64_t)idx + 65536) {
        return refuse(r, TDM_E_FORMAT, 0, "the ranks are far beyond the number of lines");
    }
    const int64_t n_ranks = last + 1;
    const bool has_known = name_has(r->name, "qwen") || name_has(r->name, "tokenizer.model");
    const int64_t last_id = last_added(config, last);
    TDM_TRY(start(r, last_id > last || !has_known ? last_id + 1 : n_ranks + KNOWN_MAX));
    idx = 0;
    for (size_t pos = 0; pos < len; idx++) {
        TDM_TRY(next_line(r, text, len, &pos, idx, raw, &raw_len, &rank));
        TDM_TRY(put_token(r, rank, raw, raw_len, idx));
    }
    TDM_TRY(put_added(r, config));
    if (last_id == last && has_known) {
        TDM_TRY(put_known(r, n_ranks));
    }
    TDM_TRY(find_merges(r));
    const tdm_gguf_pre *pre = family_of(r->name, n_ranks);
    r->tokenizer->bpe.takes_whole_word = pre->takes_whole_word;
    TDM_TRY(make_stages(r, pre->patterns, TDM_GGUF_PATTERNS_MAX));
    const tdm_file_facts facts = {.bos = tdm_tokenizer_find(r->tokenizer, "<|begin_of_text|>", 17),
                                  .eos = tdm_tokenizer_find(r->tokenizer, "<|endoftext|>", 13),
                                  .adds_bos = name_has(r->name, "tokenizer.model")};
    return finish(r, "tiktoken", config, &facts);
}

tdm_status tdm_tokenizer_from_tiktoken(tdm_tokenizer **out, const tdm_alloc *alloc,
                                       const char *text, size_t len, const tdm_json *config,
                                       const char *name, tdm_error *err) {
    rank_reader r = {.name = name, .err = err};
    *out = NULL;
    TDM_TRY(tdm_tokenizer_make(&r.tokenizer, alloc, err));
    const tdm_status status = read_tiktoken(&r, text, len, config);
    if (status == TDM_OK) {
        *out = r.tokenizer;
        r.tokenizer = NULL;
    }
    tdm_tokenizer_destroy(r.tokenizer);
    return status;
}

/* tekken */

static tdm_status put_tekken_specials(rank_reader *r, const tdm_json *root, int64_t n_special) {
    static const char *const DEFAULTS[] = {"<unk>",
                                           "<s>",
                                           "</s>",
                                           "[INST]",
                                           "[/INST]",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[TOOL_CALLS]",
                                           "[IMG]",
                                           "<pad>",
                                           "[IMG_BREAK]",
                                           "[IMG_END]",
                                           "[PREFIX]",
                                           "[MIDDLE]",
                                           "[SUFFIX]"};
    const tdm_json *list = tdm_json_get(root, "special_tokens");
    for (size_t i = 0; tdm_json_is(list, TDM_JSON_ARRAY) && i < list->len; i++) {
        const tdm_json *text = tdm_json_get(&list->u.items[i], "token_str");
        int64_t rank = -1;
        bool is_control = true;
        (void)tdm_json_as_bool(tdm_json_get(&list->u.items[i], "is_control"), &is_control);
        if (!tdm_json_is(text, TDM_JSON_STRING) ||
            !tdm_json_as_i64(tdm_json_get(&list->u.items[i], "rank"), &rank) || rank >= n_special) {
            return refuse(r, TDM_E_FORMAT, i, "a special token without text, or of no rank");
        }
        TDM_TRY(put_special(r, rank, text->u.text, text->len, is_control));
    }
    for (size_t i = 0; list == NULL && i < sizeof(DEFAULTS) / sizeof(DEFAULTS[0]); i++) {
        TDM_TRY(i < (size_t)n_special
                    ? put_special(r, (int64_t)i, DEFAULTS[i], strlen(DEFAULTS[i]), true)
                    : TDM_OK);
    }
    for (int64_t i = 0; i < n_special; i++) {
        char text[32];
        const int n = snprintf(text, sizeof(text), "<SPECIAL_%lld>", (long long)i);
        TDM_TRY(put_special(r, i, text, (size_t)n, true));
    }
    return TDM_OK;
}

static tdm_status put_tekken_tokens(rank_reader *r, const tdm_json *vocab, int64_t n_special) {
    char raw[LINE_BYTES_MAX];
    for (size_t i = 0; i < vocab->len; i++) {
        const tdm_json *bytes = tdm_json_get(&vocab->u.items[i], "token_bytes");
        int64_t rank = -1;
        size_t len = 0;
        if (!tdm_json_is(bytes, TDM_JSON_STRING) || bytes->len > LINE_BYTES_MAX ||
            !tdm_json_as_i64(tdm_json_get(&vocab->u.items[i], "rank"), &rank) || rank < 0 ||
            !tdm_base64_decode(bytes->u.text, bytes->len, raw, &len)) {
            return refuse(r, TDM_E_FORMAT, i, "an entry has no rank, or its bytes are no base64");
        }
        if (rank < r->tokenizer->n_vocab - n_special) { /* files carry more than is in use */
            TDM_TRY(put_token(r, n_special + rank, raw, len, i));
        }
    }
    return TDM_OK;
}

static tdm_status read_tekken(rank_reader *r, const tdm_json *root, const tdm_json *config) {
    const tdm_json *head = tdm_json_get(root, "config");
    const tdm_json *vocab = tdm_json_get(root, "vocab");
    const tdm_json *pattern = tdm_json_get(head, "pattern");
    int64_t n_vocab = 0;
    int64_t n_special = 0;
    if (!tdm_json_is(vocab, TDM_JSON_ARRAY) || !tdm_json_is(pattern, TDM_JSON_STRING) ||
        !tdm_json_as_i64(tdm_json_get(head, "default_vocab_size"), &n_vocab) ||
        !tdm_json_as_i64(tdm_json_get(head, "default_num_special_tokens"), &n_special) ||
        n_special < 0 || n_special >= n_vocab ||
        (uint64_t)(n_vocab - n_special) > 4 * (uint64_t)vocab->len + 65536) {
        return refuse(r, TDM_E_FORMAT, 0,
                      "config.pattern, default_vocab_size, "
                      "default_num_special_tokens or vocab is missing or odd");
    }
    TDM_TRY(start(r, n_vocab));
    TDM_TRY(put_tekken_tokens(r, vocab, n_special));
    TDM_TRY(put_tekken_specials(r, root, n_special));
    TDM_TRY(find_merges(r));
    const char *patterns[1] = {pattern->u.text};
    TDM_TRY(make_stages(r, patterns, 1));
    const tdm_file_facts facts = {.bos = tdm_tokenizer_find(r->tokenizer, "<s>", 3),
                                  .eos = tdm_tokenizer_find(r->tokenizer, "</s>", 4),
                                  .adds_bos = true};
    return finish(r, "tekken", config, &facts);
}

tdm_status tdm_tokenizer_from_tekken(tdm_tokenizer **out, const tdm_alloc *alloc, const char *text,
                                     size_t len, const tdm_json *config, const char *name,
                                     tdm_error *err) {
    rank_reader r = {.name = name, .err = err};
    tdm_json_doc *doc = NULL;
    tdm_status status = TDM_OK;
    *out = NULL;
    TDM_TRY_GOTO(status,
                 tdm_json_parse(&doc, alloc, text, len, &TDM_JSON_LIMITS_TOKENIZER, name, err),
                 done);
    TDM_TRY_GOTO(status, tdm_tokenizer_make(&r.tokenizer, alloc, err), done);
    TDM_TRY_GOTO(status, read_tekken(&r, tdm_json_doc_root(doc), config), done);
    *out = r.tokenizer;
    r.tokenizer = NULL;
done:
    tdm_json_doc_destroy(doc);
    tdm_tokenizer_destroy(r.tokenizer);
    return status;
}
