/* SPDX-License-Identifier: Apache-2.0
 *
 * vocab.json with merges.txt, and what the makers from files share. The two files become the text
 * of a tokenizer.json, so that there is one reader of vocabularies and merges. */
#include "text/tokenizer_files.h"

#include <string.h>

/* A token of config: a text, or an object with content; -1 when there is none. */
static int32_t config_token(const tdm_tokenizer *t, const tdm_json *config, const char *key,
                            int32_t fallback) {
    const tdm_json *node = tdm_json_get(config, key);
    if (tdm_json_is(node, TDM_JSON_OBJECT)) {
        node = tdm_json_get(node, "content");
    }
    const int32_t id = tdm_json_is(node, TDM_JSON_STRING)
                           ? tdm_tokenizer_find(t, node->u.text, node->len)
                           : fallback;
    return id >= 0 && id < t->n_vocab && t->spellings[id].data != NULL ? id : -1;
}

static tdm_status one_id(tdm_tokenizer *t, int32_t id, int32_t **out, size_t *out_n,
                         tdm_error *err) {
    *out = tdm_arena_calloc(&t->arena, 1, sizeof(**out));
    if (*out == NULL) {
        return tdm_fail_nomem(err, "a tokenizer");
    }
    (*out)[0] = id;
    *out_n = 1;
    return TDM_OK;
}

tdm_status tdm_tokenizer_set_facts(tdm_tokenizer *t, const tdm_json *config,
                                   const tdm_file_facts *facts, tdm_error *err) {
    const tdm_json *chat_template = tdm_json_get(config, "chat_template");
    bool adds_bos = facts->adds_bos;
    bool adds_eos = facts->adds_eos;
    (void)tdm_json_as_bool(tdm_json_get(config, "add_bos_token"), &adds_bos);
    (void)tdm_json_as_bool(tdm_json_get(config, "add_eos_token"), &adds_eos);
    t->bos = config_token(t, config, "bos_token", facts->bos);
    t->eos = config_token(t, config, "eos_token", facts->eos);
    t->adds_bos = adds_bos && t->bos >= 0;
    if (t->adds_bos) {
        TDM_TRY(one_id(t, t->bos, &t->prefix_ids, &t->n_prefix, err));
    }
    if (adds_eos && t->eos >= 0) {
        TDM_TRY(one_id(t, t->eos, &t->suffix_ids, &t->n_suffix, err));
    }
    tdm_tokenizer_add_eog(t, t->eos);
    for (int32_t id = 0; id < t->n_vocab; id++) {
        if (t->kinds[id] == TDM_TOKEN_CONTROL &&
            tdm_spelling_is_eog(t->spellings[id].data, t->spellings[id].len)) {
            tdm_tokenizer_add_eog(t, id);
        }
    }
    for (size_t i = 0; tdm_json_is(chat_template, TDM_JSON_ARRAY) && i < chat_template->len; i++) {
        const tdm_json *item = &chat_template->u.items[i];
        if (tdm_json_text_is(tdm_json_get(item, "name"), "default")) {
            chat_template = tdm_json_get(item, "template");
            break;
        }
    }
    return tdm_json_is(chat_template, TDM_JSON_STRING)
               ? tdm_tokenizer_set_template(t, chat_template->u.text, chat_template->len, err)
               : TDM_OK;
}

static void write_merges(tdm_json_writer *w, const char *text, size_t len) {
    for (size_t pos = 0; pos < len;) {
        const char *line = text + pos;
        const char *line_end = memchr(line, '\n', len - pos);
        size_t n = line_end != NULL ? (size_t)(line_end - line) : len - pos;
        const bool is_head = pos == 0 && n > 0 && line[0] == '#';
        pos += n + 1;
        while (n > 0 && (line[n - 1] == '\r' || line[n - 1] == ' ')) {
            n--;
        }
        if (n > 0 && !is_head) {
            tdm_json_write_text(w, line, n);
        }
    }
}

static void write_flag(tdm_json_writer *w, const tdm_json *from, const char *key, bool fallback) {
    bool value = fallback;
    (void)tdm_json_as_bool(tdm_json_get(from, key), &value);
    tdm_json_write_key(w, key);
    tdm_json_write_bool(w, value);
}

/* added_tokens out of added_tokens_decoder, in the order of the file. */
static void write_added(tdm_json_writer *w, const tdm_json *config) {
    const tdm_json *added = tdm_json_get(config, "added_tokens_decoder");
    for (size_t i = 0; tdm_json_is(added, TDM_JSON_OBJECT) && i < added->len; i++) {
        const tdm_json *item = &added->u.items[i];
        const tdm_json *content = tdm_json_get(item, "content");
        int64_t id = 0;
        bool is_number = item->key_len > 0 && item->key_len < 9;
        for (uint32_t k = 0; k < item->key_len && is_number; k++) {
            is_number = item->key[k] >= '0' && item->key[k] <= '9';
            id = id * 10 + (item->key[k] - '0');
        }
        if (!is_number || !tdm_json_is(content, TDM_JSON_STRING)) {
            continue;
        }
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "id");
        tdm_json_write_i64(w, id);
        tdm_json_write_key(w, "content");
        tdm_json_write_text(w, content->u.text, content->len);
        write_flag(w, item, "special", true);
        write_flag(w, item, "single_word", false);
        write_flag(w, item, "lstrip", false);
        write_flag(w, item, "rstrip", false);
        write_flag(w, item, "normalized", false);
        tdm_json_write_end_object(w);
    }
}

#define QWEN_PRE                                                                                   \
    "\"normalizer\":{\"type\":\"NFC\"},\"pre_tokenizer\":{\"type\":\"Sequence\","                  \
    "\"pretokenizers\":[{\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"     \
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "            \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"      \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]},"

static tdm_status write_json(tdm_buf *buf, const tdm_vocab_files *files, const tdm_json *config) {
    const tdm_json *family = tdm_json_get(config, "tokenizer_class");
    const bool is_qwen = tdm_json_text_is(family, "Qwen2Tokenizer") ||
                         tdm_json_text_is(family, "Qwen2TokenizerFast");
    bool has_prefix = false;
    tdm_json_writer w;
    (void)tdm_json_as_bool(tdm_json_get(config, "add_prefix_space"), &has_prefix);
    TDM_TRY(tdm_buf_append_text(buf, "{"));
    TDM_TRY(is_qwen ? tdm_buf_append_text(buf, QWEN_PRE)
                    : tdm_buf_printf(buf,
                                     "\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                                     "\"add_prefix_space\":%s},",
                                     has_prefix ? "true" : "false"));
    TDM_TRY(tdm_buf_append_text(buf, "\"decoder\":{\"type\":\"ByteLevel\"},\"added_tokens\":"));
    tdm_json_writer_init(&w, buf);
    tdm_json_write_begin_array(&w);
    write_added(&w, config);
    tdm_json_write_end_array(&w);
    TDM_TRY(tdm_json_writer_status(&w));
    TDM_TRY(tdm_buf_append_text(buf, ",\"model\":{\"type\":\"BPE\",\"merges\":"));
    tdm_json_writer_init(&w, buf);
    tdm_json_write_begin_array(&w);
    write_merges(&w, files->merges, files->merges_len);
    tdm_json_write_end_array(&w);
    TDM_TRY(tdm_json_writer_status(&w));
    TDM_TRY(tdm_buf_append_text(buf, ",\"vocab\":"));
    TDM_TRY(tdm_buf_append(buf, files->vocab, files->vocab_len));
    return tdm_buf_append_text(buf, "}}");
}

tdm_status tdm_tokenizer_from_vocab(tdm_tokenizer **out, const tdm_alloc *alloc,
                                    const tdm_vocab_files *files, const tdm_json *config,
                                    const char *name, tdm_error *err) {
    tdm_buf buf;
    *out = NULL;
    tdm_buf_init(&buf, alloc, TDM_JSON_LIMITS_TOKENIZER.bytes_max);
    tdm_status status = write_json(&buf, files, config);
    if (status != TDM_OK) {
        status = status == TDM_E_NOMEM ? tdm_fail_nomem(err, "a vocabulary")
                                       : tdm_fail(err, status, "%s is too large", name);
    } else {
        status = tdm_tokenizer_from_json(out, alloc, buf.data, buf.len, config, name, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}
