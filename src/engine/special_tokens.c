/* SPDX-License-Identifier: Apache-2.0
 *
 * Special tokens as template variables: what tokenizer_config.json names, else bos and eos as the
 * vocabulary spells them. */
#include "engine/engine.h"

#include <string.h>

/* One token as a template variable, when it exists. */
static void write_token(const tdm_tokenizer *tokenizer, tdm_json_writer *w, const char *key,
                        int32_t id) {
    size_t len = 0;
    const char *spelling = id >= 0 ? tdm_tokenizer_spelling(tokenizer, id, &len) : NULL;
    if (spelling != NULL) {
        tdm_json_write_key(w, key);
        tdm_json_write_text(w, spelling, len);
    }
}

/* What tokenizer_config.json calls NAME_token, as text or as an object with content. */
static const tdm_json *token_text(const tdm_json *item) {
    const tdm_json *text =
        tdm_json_is(item, TDM_JSON_OBJECT) ? tdm_json_get(item, "content") : item;
    const bool is_named = item->key_len > 6 && strcmp(item->key + item->key_len - 6, "_token") == 0;
    return is_named && tdm_json_is(text, TDM_JSON_STRING) ? text : NULL;
}

static void write_tokens(const tdm_checkpoint *checkpoint, const tdm_tokenizer *tokenizer,
                         tdm_json_writer *w) {
    const tdm_json *config = tdm_checkpoint_tokenizer_config(checkpoint);
    bool has_bos = false;
    bool has_eos = false;
    for (size_t i = 0; i < tdm_json_len(config); i++) {
        const tdm_json *item = &config->u.items[i];
        const tdm_json *value = token_text(item);
        if (value != NULL) {
            tdm_json_write_key(w, item->key);
            tdm_json_write_text(w, value->u.text, value->len);
            has_bos = has_bos || strcmp(item->key, "bos_token") == 0;
            has_eos = has_eos || strcmp(item->key, "eos_token") == 0;
        }
    }
    if (!has_bos) {
        write_token(tokenizer, w, "bos_token", tdm_tokenizer_bos(tokenizer));
    }
    if (!has_eos) {
        write_token(tokenizer, w, "eos_token", tdm_tokenizer_eos(tokenizer));
    }
}

tdm_status tdm_special_tokens_make(tdm_json_doc **out_doc, const tdm_alloc *alloc,
                                   const tdm_checkpoint *checkpoint, const tdm_tokenizer *tokenizer,
                                   tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    *out_doc = NULL;
    tdm_buf_init(&buf, alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    write_tokens(checkpoint, tokenizer, &w);
    tdm_json_write_end_object(&w);
    status = tdm_json_writer_status(&w) == TDM_OK
                 ? tdm_json_parse(out_doc, alloc, buf.data, buf.len, NULL, "special tokens", err)
                 : tdm_fail_nomem(err, "the special tokens");
    tdm_buf_deinit(&buf);
    return status;
}
