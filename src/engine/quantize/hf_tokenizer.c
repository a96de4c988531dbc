/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer's keys of a GGUF file, from the tokenizer that a folder has. Tokens and their kinds come
 * from our own tokenizer; merges and the way of splitting from tokenizer.json. A way of splitting that
 * has no name in GGUF is refused: a reader would cut words elsewhere.
 *
 * Vocabularies of SentencePiece have scores in place of merges. A merge's rank is the order of scores,
 * so the piece of rank r gets -r, which orders merges as before. */
#include "engine/quantize/gguf.h"
#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LLAMA3_SPLIT                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+" \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN2_SPLIT                                                                                \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+"      \
    "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35_SPLIT                                                                               \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "                  \
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

typedef struct words {
    tdm_quantize_job *job;
    tdm_gguf_writer *writer;
    const tdm_model_config *config;
    tdm_tokenizer *tokenizer;
    tdm_json_doc *doc;     /* tokenizer.json */
    const tdm_json *model; /* of it */
    bool is_spm;
} words;

/* ---- splitting ---- */

static bool is_type(const tdm_json *node, const char *type) {
    return tdm_json_text_is(tdm_json_get(node, "type"), type);
}

static bool is_split(const tdm_json *node, const char *expression) {
    return is_type(node, "Split") &&
           tdm_json_text_is(tdm_json_get(tdm_json_get(node, "pattern"), "Regex"), expression);
}

static bool is_byte_level(const tdm_json *node, bool splits_words) {
    bool use_regex = true;
    bool add_space = false;
    (void)tdm_json_as_bool(tdm_json_get(node, "use_regex"), &use_regex);
    (void)tdm_json_as_bool(tdm_json_get(node, "add_prefix_space"), &add_space);
    return is_type(node, "ByteLevel") && use_regex == splits_words && !add_space;
}

/* What GGUF calls the pre-tokenizer; NULL: it has no name that is known here. */
static const char *find_pre(const words *w) {
    const tdm_json *pre = tdm_json_get(tdm_json_doc_root(w->doc), "pre_tokenizer");
    const tdm_json *list = tdm_json_get(pre, "pretokenizers");
    bool ignores_merges = false;
    (void)tdm_json_as_bool(tdm_json_get(w->model, "ignore_merges"), &ignores_merges);
    if (is_byte_level(pre, true)) {
        return "gpt-2";
    }
    if (!is_type(pre, "Sequence") || tdm_json_len(list) != 2) {
        return NULL;
    }
    const tdm_json *first = &list->u.items[0];
    const tdm_json *second = &list->u.items[1];
    bool is_individual = false;
    (void)tdm_json_as_bool(tdm_json_get(first, "individual_digits"), &is_individual);
    if (is_type(first, "Digits") && is_individual && is_byte_level(second, true)) {
        return "smollm";
    }
    if (!is_byte_level(second, false)) {
        return NULL;
    }
    if (is_split(first, LLAMA3_SPLIT)) {
        return ignores_merges ? "llama-bpe" : "smaug-bpe";
    }
    return is_split(first, QWEN2_SPLIT) ? "qwen2" : is_split(first, QWEN35_SPLIT) ? "qwen35" : NULL;
}

static tdm_status fail_words(const words *w, tdm_error *err, const char *what) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s", what);
    tdm_err_where(err, "%s: tokenizer.json", w->job->src);
    tdm_err_remedy(err, "convert the model with the tools of its own family");
    return TDM_E_UNSUPPORTED;
}

/* ---- tokens ---- */

/* Kinds as GGUF numbers them. */
static int32_t kind_of(const words *w, int32_t id) {
    switch (tdm_tokenizer_kind(w->tokenizer, id)) {
    case TDM_TOKEN_UNKNOWN:
        return 2;
    case TDM_TOKEN_CONTROL:
        return 3;
    case TDM_TOKEN_USER:
        return 4;
    case TDM_TOKEN_UNUSED:
        return 5;
    case TDM_TOKEN_BYTE:
        return w->is_spm ? 6 : 1;
    case TDM_TOKEN_NORMAL:
    default:
        return 1;
    }
}

static bool has_token(const words *w, int32_t id) {
    size_t len = 0;
    return id < tdm_tokenizer_n_vocab(w->tokenizer) &&
           tdm_tokenizer_spelling(w->tokenizer, id, &len) != NULL;
}

/* Readers cut user-defined tokens out of the text before blanks become U+2581. */
static void put_user_token(words *w, const char *text, size_t len) {
    static const char MARK[] = "\xE2\x96\x81";
    tdm_buf spaced;
    tdm_status status = TDM_OK;
    tdm_buf_init(&spaced, w->job->alloc, 0);
    for (size_t i = 0; i < len && status == TDM_OK;) {
        const bool is_mark = len - i >= 3 && memcmp(text + i, MARK, 3) == 0;
        status = tdm_buf_append_byte(&spaced, is_mark ? ' ' : text[i]);
        i += is_mark ? 3 : 1;
    }
    if (status == TDM_OK) {
        tdm_gguf_item_text(w->writer, spaced.data, spaced.len);
    } else {
        w->writer->status = status;
    }
    tdm_buf_deinit(&spaced);
}

static void put_tokens(words *w) {
    tdm_gguf_put_array(w->writer, "tokenizer.ggml.tokens", TDM_GGUF_STRING,
                       (uint64_t)w->config->n_vocab);
    for (int32_t id = 0; id < w->config->n_vocab; id++) {
        size_t len = 0;
        char pad[32];
        const char *text = has_token(w, id) ? tdm_tokenizer_spelling(w->tokenizer, id, &len) : NULL;
        if (text == NULL) {
            len = (size_t)snprintf(pad, sizeof pad, "[PAD%d]", (int)id);
            text = pad;
        }
        if (w->is_spm && has_token(w, id) && kind_of(w, id) == 4) {
            put_user_token(w, text, len);
        } else {
            tdm_gguf_item_text(w->writer, text, len);
        }
    }
    tdm_gguf_put_array(w->writer, "tokenizer.ggml.token_type", TDM_GGUF_I32,
                       (uint64_t)w->config->n_vocab);
    for (int32_t id = 0; id < w->config->n_vocab; id++) {
        tdm_gguf_item_i32(w->writer, has_token(w, id) ? kind_of(w, id) : 5);
    }
}

/* The two halves of merge idx; false when it is neither "a b" nor [a, b]. */
static bool merge_at(const tdm_json *merges, size_t idx, tdm_json *left, tdm_json *right) {
    const tdm_json *node = &merges->u.items[idx];
    if (tdm_json_is(node, TDM_JSON_ARRAY) && node->len == 2 &&
        tdm_json_is(&node->u.items[0], TDM_JSON_STRING) &&
        tdm_json_is(&node->u.items[1], TDM_JSON_STRING)) {
        *left = node->u.items[0];
        *right = node->u.items[1];
        return true;
    }
    const char *space =
        tdm_json_is(node, TDM_JSON_STRING) ? memchr(node->u.text, ' ', node->len) : NULL;
    if (space == NULL) {
        return false;
    }
    *left = *right = *node;
    left->len = (uint32_t)(space - node->u.text);
    right->u.text = space + 1;
    right->len = node->len - left->len - 1;
    return true;
}

static tdm_status put_merges(words *w, const tdm_json *merges, tdm_error *err) {
    tdm_buf line;
    tdm_status status = TDM_OK;
    tdm_buf_init(&line, w->job->alloc, 0);
    tdm_gguf_put_array(w->writer, "tokenizer.ggml.merges", TDM_GGUF_STRING, tdm_json_len(merges));
    for (size_t i = 0; i < tdm_json_len(merges) && status == TDM_OK; i++) {
        tdm_json left;
        tdm_json right;
        if (!merge_at(merges, i, &left, &right) || memchr(left.u.text, ' ', left.len) != NULL ||
            memchr(right.u.text, ' ', right.len) != NULL) {
            status = fail_words(w, err, "a merge is no pair of pieces without blanks");
            break;
        }
        tdm_buf_reset(&line);
        status = tdm_buf_append(&line, left.u.text, left.len);
        status = status == TDM_OK ? tdm_buf_append_byte(&line, ' ') : status;
        status = status == TDM_OK ? tdm_buf_append(&line, right.u.text, right.len) : status;
        tdm_gguf_item_text(w->writer, line.data, line.len);
        status = status == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "a merge");
    }
    tdm_buf_deinit(&line);
    return status;
}

/* ---- scores ---- */

/* From a piece's spelling to its id. */
static int32_t id_of(const tdm_json *vocab, const char *text, size_t len) {
    int64_t id = -1;
    return tdm_json_as_i64(tdm_json_get_n(vocab, text, len), &id) && id >= 0 && id < INT32_MAX
               ? (int32_t)id
               : -1;
}

typedef struct piece_id {
    const char *text;
    uint32_t len;
    int32_t id;
} piece_id;

static int compare_pieces(const void *a, const void *b) {
    const piece_id *x = a;
    const piece_id *y = b;
    const uint32_t n = x->len < y->len ? x->len : y->len;
    const int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->len > y->len) - (x->len < y->len);
}

static int32_t find_piece(const piece_id *pieces, size_t n, const char *text, size_t len) {
    const piece_id wanted = {text, (uint32_t)len, 0};
    size_t lo = 0;
    size_t hi = n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const int order = compare_pieces(&pieces[mid], &wanted);
        if (order == 0) {
            return pieces[mid].id;
        }
        if (order < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return -1;
}

static void score_merges(const words *w, const tdm_json *merges, const piece_id *pieces, size_t n,
                         tdm_buf *joined, float *scores, tdm_status *status) {
    for (size_t i = 0; i < tdm_json_len(merges) && *status == TDM_OK; i++) {
        tdm_json left;
        tdm_json right;
        if (!merge_at(merges, i, &left, &right)) {
            continue;
        }
        tdm_buf_reset(joined);
        *status = tdm_buf_append(joined, left.u.text, left.len);
        *status = *status == TDM_OK ? tdm_buf_append(joined, right.u.text, right.len) : *status;
        const int32_t id = find_piece(pieces, n, joined->data, joined->len);
        if (id >= 0 && id < w->config->n_vocab && scores[id] == 0.0f) {
            scores[id] = -(float)(i + 1);
        }
    }
}

static tdm_status put_scores(words *w, const tdm_json *merges, tdm_error *err) {
    const tdm_json *vocab = tdm_json_get(w->model, "vocab");
    const size_t n = tdm_json_len(vocab);
    const size_t n_vocab = (size_t)w->config->n_vocab;
    tdm_status status = TDM_OK;
    tdm_buf joined;
    piece_id *pieces = tdm_mem_calloc(w->job->alloc, n, sizeof *pieces);
    float *scores = tdm_mem_calloc(w->job->alloc, n_vocab, sizeof *scores);
    tdm_buf_init(&joined, w->job->alloc, 0);
    if (pieces == NULL || scores == NULL) {
        status = TDM_E_NOMEM;
        goto done;
    }
    for (size_t i = 0; i < n; i++) {
        const tdm_json *node = &vocab->u.items[i];
        int64_t id = -1;
        (void)tdm_json_as_i64(node, &id);
        pieces[i] = (piece_id){node->key, node->key_len, id < INT32_MAX ? (int32_t)id : -1};
    }
    qsort(pieces, n, sizeof *pieces, compare_pieces);
    score_merges(w, merges, pieces, n, &joined, scores, &status);
    tdm_gguf_put_array(w->writer, "tokenizer.ggml.scores", TDM_GGUF_F32, n_vocab);
    for (size_t i = 0; i < n_vocab; i++) {
        /* What no merge makes comes after all that merges make. */
        const bool is_made = scores[i] != 0.0f;
        tdm_gguf_item_f32(w->writer, is_made ? scores[i] : -(float)(tdm_json_len(merges) + 1));
    }
done:
    tdm_mem_free(w->job->alloc, pieces, n * sizeof *pieces);
    tdm_mem_free(w->job->alloc, scores, n_vocab * sizeof *scores);
    tdm_buf_deinit(&joined);
    return status == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "the scores of tokens");
}

/* ---- special tokens, template ---- */

static void put_id(words *w, const char *name, int32_t id) {
    char key[64];
    if (id >= 0 && id < w->config->n_vocab) {
        (void)snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", name);
        tdm_gguf_put_u32(w->writer, key, (uint32_t)id);
    }
}

/* Id of a special token that tokenizer_config.json names by text or by object. */
static int32_t named_id(const words *w, const char *key) {
    const tdm_json *node = tdm_json_get(tdm_checkpoint_tokenizer_config(w->job->checkpoint), key);
    const tdm_json *text =
        tdm_json_is(node, TDM_JSON_OBJECT) ? tdm_json_get(node, "content") : node;
    const tdm_json *added = tdm_json_get(tdm_json_doc_root(w->doc), "added_tokens");
    int64_t id = -1;
    if (!tdm_json_is(text, TDM_JSON_STRING)) {
        return -1;
    }
    for (size_t i = 0; i < tdm_json_len(added); i++) {
        const tdm_json *token = &added->u.items[i];
        if (tdm_json_text_is(tdm_json_get(token, "content"), text->u.text) &&
            tdm_json_as_i64(tdm_json_get(token, "id"), &id) && id >= 0 && id < INT32_MAX) {
            return (int32_t)id;
        }
    }
    return id_of(tdm_json_get(w->model, "vocab"), text->u.text, text->len);
}

/* What the tokenizer itself puts around a text is what a reader has to add. */
static tdm_status put_adding(words *w, int32_t bos, int32_t eos, tdm_error *err) {
    const tdm_encode_options options = {.adds_special = true};
    tdm_ids ids;
    tdm_ids_init(&ids, w->job->alloc);
    const tdm_status status = tdm_tokenizer_encode(w->tokenizer, "a", 1, &options, &ids, err);
    if (status == TDM_OK) {
        const bool has_ids = ids.len > 1;
        tdm_gguf_put_bool(w->writer, "tokenizer.ggml.add_bos_token",
                          has_ids && bos >= 0 && ids.ids[0] == bos);
        tdm_gguf_put_bool(w->writer, "tokenizer.ggml.add_eos_token",
                          has_ids && eos >= 0 && ids.ids[ids.len - 1] == eos);
    }
    tdm_ids_deinit(&ids);
    return status;
}

/* The tokenizer's end comes first; other ends of the config follow as ends of turn and message. */
static tdm_status put_specials(words *w, tdm_error *err) {
    static const char *const OTHERS[] = {"eot", "eom"};
    size_t n_others = 0;
    int32_t bos = named_id(w, "bos_token");
    int32_t eos = named_id(w, "eos_token");
    bos = bos >= 0 ? bos : w->config->bos_id;
    eos = eos < 0 && w->config->n_eos > 0 ? w->config->eos_ids[0] : eos;
    put_id(w, "bos", bos);
    put_id(w, "eos", eos);
    for (int32_t i = 0; i < w->config->n_eos; i++) {
        if (w->config->eos_ids[i] != eos && n_others < 2) {
            put_id(w, OTHERS[n_others++], w->config->eos_ids[i]);
        } else if (w->config->eos_ids[i] != eos) {
            tdm_log_printf(w->job->options->log, TDM_LOG_WARN,
                           "the file has no place for token %d, which ends an answer too",
                           (int)w->config->eos_ids[i]);
        }
    }
    put_id(w, "unknown", named_id(w, "unk_token"));
    put_id(w, "padding", named_id(w, "pad_token"));
    return put_adding(w, bos, eos, err);
}

static tdm_status put_template_file(words *w, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    bool is_folder = false;
    const tdm_fs *fs = w->job->fs;
    TDM_TRY(tdm_path_join(path, sizeof path, tdm_checkpoint_path(w->job->checkpoint),
                          "chat_template.jinja", err));
    if (!fs->exists(fs->ctx, path, &is_folder) || is_folder) {
        return TDM_OK;
    }
    TDM_TRY(tdm_blob_open(&blob, fs, path, err));
    tdm_gguf_put_text(w->writer, "tokenizer.chat_template", (const char *)blob.data, blob.bytes);
    tdm_blob_close(&blob);
    return TDM_OK;
}

static tdm_status put_template(words *w, tdm_error *err) {
    const tdm_json *config = tdm_checkpoint_tokenizer_config(w->job->checkpoint);
    const tdm_json *node = tdm_json_get(config, "chat_template");
    if (tdm_json_is(node, TDM_JSON_STRING)) {
        tdm_gguf_put_text(w->writer, "tokenizer.chat_template", node->u.text, node->len);
        return TDM_OK;
    }
    for (size_t i = 0; tdm_json_is(node, TDM_JSON_ARRAY) && i < tdm_json_len(node); i++) {
        const tdm_json *name = tdm_json_get(&node->u.items[i], "name");
        const tdm_json *text = tdm_json_get(&node->u.items[i], "template");
        char key[128];
        if (!tdm_json_is(name, TDM_JSON_STRING) || !tdm_json_is(text, TDM_JSON_STRING) ||
            name->len > 64) {
            continue;
        }
        (void)snprintf(key, sizeof key, "tokenizer.chat_template%s%s",
                       strcmp(name->u.text, "default") == 0 ? "" : ".",
                       strcmp(name->u.text, "default") == 0 ? "" : name->u.text);
        tdm_gguf_put_text(w->writer, key, text->u.text, text->len);
    }
    return tdm_json_is(node, TDM_JSON_ARRAY) ? TDM_OK : put_template_file(w, err);
}

/* ---- the whole ---- */

/* *out_is_there false: the folder has no tokenizer.json. */
static tdm_status open_words(words *w, bool *out_is_there, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    bool is_folder = false;
    const tdm_fs *fs = w->job->fs;
    TDM_TRY(tdm_path_join(path, sizeof path, tdm_checkpoint_path(w->job->checkpoint),
                          "tokenizer.json", err));
    *out_is_there = fs->exists(fs->ctx, path, &is_folder) && !is_folder;
    if (!*out_is_there) {
        return TDM_OK;
    }
    TDM_TRY(tdm_blob_open(&blob, fs, path, err));
    const tdm_status status = tdm_json_parse(&w->doc, w->job->alloc, (const char *)blob.data,
                                             blob.bytes, &TDM_JSON_LIMITS_TOKENIZER, path, err);
    tdm_blob_close(&blob);
    TDM_TRY(status);
    TDM_TRY(tdm_tokenizer_open(&w->tokenizer, w->job->alloc, w->job->checkpoint, fs, err));
    w->model = tdm_json_get(tdm_json_doc_root(w->doc), "model");
    return TDM_OK;
}

static bool has_prepended_space(const words *w) {
    const tdm_json *normalizer = tdm_json_get(tdm_json_doc_root(w->doc), "normalizer");
    const tdm_json *list = tdm_json_get(normalizer, "normalizers");
    bool has = is_type(normalizer, "Prepend");
    for (size_t i = 0; i < tdm_json_len(list); i++) {
        has = has || is_type(&list->u.items[i], "Prepend");
    }
    return has;
}

/* Added tokens without a row in the embedding (gemma 3's picture) are left out: no text becomes them. */
static tdm_status check_count(const words *w, tdm_error *err) {
    const int32_t n = tdm_tokenizer_n_vocab(w->tokenizer);
    for (int32_t id = w->config->n_vocab; id < n; id++) {
        const tdm_token_kind kind = tdm_tokenizer_kind(w->tokenizer, id);
        if (has_token(w, id) && kind != TDM_TOKEN_CONTROL && kind != TDM_TOKEN_USER) {
            return fail_words(w, err, "the tokenizer has more tokens than the embedding rows");
        }
    }
    if (n > w->config->n_vocab) {
        tdm_log_printf(w->job->options->log, TDM_LOG_WARN,
                       "%d added tokens have no row in the embedding and are left out",
                       (int)(n - w->config->n_vocab));
    }
    return TDM_OK;
}

static tdm_status put_words(words *w, tdm_error *err) {
    const tdm_json *merges = tdm_json_get(w->model, "merges");
    const char *pre = NULL;
    bool has_byte_fallback = false;
    (void)tdm_json_as_bool(tdm_json_get(w->model, "byte_fallback"), &has_byte_fallback);
    w->is_spm = has_byte_fallback;
    if (!is_type(w->model, "BPE") || !tdm_json_is(merges, TDM_JSON_ARRAY)) {
        return fail_words(w, err, "only tokenizers of byte pairs become GGUF ones");
    }
    TDM_TRY(check_count(w, err));
    pre = w->is_spm ? "default" : find_pre(w);
    if (pre == NULL) {
        return fail_words(w, err, "its way of splitting text has no name in GGUF");
    }
    tdm_gguf_put_text(w->writer, "tokenizer.ggml.model", w->is_spm ? "llama" : "gpt2",
                      w->is_spm ? 5 : 4);
    tdm_gguf_put_text(w->writer, "tokenizer.ggml.pre", pre, strlen(pre));
    put_tokens(w);
    TDM_TRY(w->is_spm ? put_scores(w, merges, err) : put_merges(w, merges, err));
    if (w->is_spm) {
        tdm_gguf_put_bool(w->writer, "tokenizer.ggml.add_space_prefix", has_prepended_space(w));
    }
    TDM_TRY(put_specials(w, err));
    return put_template(w, err);
}

tdm_status tdm_gguf_put_tokenizer(tdm_quantize_job *job, tdm_gguf_writer *writer,
                                  const tdm_model_config *config, tdm_error *err) {
    words w = {.job = job, .writer = writer, .config = config};
    bool is_there = false;
    tdm_status status = open_words(&w, &is_there, err);
    if (status == TDM_OK && is_there) {
        status = put_words(&w, err);
    } else if (status == TDM_OK) {
        tdm_log_printf(job->options->log, TDM_LOG_WARN,
                       "no tokenizer.json: the file will have no tokenizer");
        tdm_gguf_put_text(writer, "tokenizer.ggml.model", "none", 4);
    }
    tdm_tokenizer_destroy(w.tokenizer);
    tdm_json_doc_destroy(w.doc);
    return status;
}
