/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json, from the outside in. Validation equals use: a merge resolves to ids here or the
 * file is refused here, so that encoding has no failure but memory. The document is dropped once
 * the tokenizer is made; nothing borrows from it. Source: the file format as Hugging Face
 * tokenizers 0.2x writes it. */
#include "text/tokenizer_json.h"

#include "base/arith.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NEST_MAX 8

tdm_status tdm_json_refuse(tdm_json_reader *r, tdm_status code, const char *path, const char *fmt,
                           ...) {
    char what[200];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    (void)tdm_fail(r->err, code, "%s", what);
    tdm_err_where(r->err, "%s: %s", r->name, path);
    return code;
}

tdm_status tdm_json_flatten(tdm_json_reader *r, const tdm_json *node, const char *path,
                            const char *member, tdm_json_leaves *leaves) {
    struct level {
        const tdm_json *list;
        size_t idx;
        char path[TDM_JSON_PATH_MAX];
    } stack[NEST_MAX];
    size_t depth = 0;
    char here[TDM_JSON_PATH_MAX];
    (void)snprintf(here, sizeof(here), "%s", path);
    if (node == NULL || tdm_json_is(node, TDM_JSON_NULL)) {
        return TDM_OK;
    }
    for (;;) {
        const tdm_json *type = tdm_json_get(node, "type");
        if (!tdm_json_is(type, TDM_JSON_STRING)) {
            return tdm_json_refuse(r, TDM_E_FORMAT, here, "a component without a type");
        }
        if (tdm_json_text_is(type, "Sequence")) {
            const tdm_json *list = tdm_json_get(node, member);
            if (!tdm_json_is(list, TDM_JSON_ARRAY)) {
                return tdm_json_refuse(r, TDM_E_FORMAT, here, "a Sequence without %s", member);
            }
            if (depth == NEST_MAX) {
                return tdm_json_refuse(r, TDM_E_LIMIT, here, "Sequences nest deeper than %d",
                                       NEST_MAX);
            }
            stack[depth].list = list;
            stack[depth].idx = 0;
            (void)snprintf(stack[depth].path, sizeof(stack[depth].path), "%.60s.%s", here, member);
            depth++;
        } else if (leaves->n == TDM_JSON_LEAVES_MAX) {
            return tdm_json_refuse(r, TDM_E_LIMIT, here, "more than %d components",
                                   TDM_JSON_LEAVES_MAX);
        } else {
            leaves->items[leaves->n].node = node;
            memcpy(leaves->items[leaves->n].path, here, sizeof(here));
            leaves->n++;
        }
        while (depth > 0 && stack[depth - 1].idx == stack[depth - 1].list->len) {
            depth--;
        }
        if (depth == 0) {
            return TDM_OK;
        }
        struct level *top = &stack[depth - 1];
        (void)snprintf(here, sizeof(here), "%.80s[%zu]", top->path, top->idx);
        node = &top->list->u.items[top->idx++];
    }
}

/* Truncation and padding change nothing here (callers cut and pad), but a file that lies about them
 * is damaged. */
static tdm_status check_truncation(tdm_json_reader *r, const tdm_json *root) {
    const tdm_json *node = tdm_json_get(root, "truncation");
    int64_t length = 0;
    int64_t stride = 0;
    if (node == NULL || tdm_json_is(node, TDM_JSON_NULL)) {
        return TDM_OK;
    }
    if (!tdm_json_as_i64(tdm_json_get(node, "max_length"), &length) ||
        !tdm_json_as_i64(tdm_json_get(node, "stride"), &stride) || length < 0 || stride < 0 ||
        (length > 0 && stride >= length)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, "$.truncation",
                               "max_length and stride are not two counts, the second smaller");
    }
    return TDM_OK;
}

/* A token of tokenizer_config.json: a text, or an object with content. */
static int32_t config_token(const tdm_tokenizer *t, const tdm_json *config, const char *key) {
    const tdm_json *node = tdm_json_get(config, key);
    if (tdm_json_is(node, TDM_JSON_OBJECT)) {
        node = tdm_json_get(node, "content");
    }
    return tdm_json_is(node, TDM_JSON_STRING) ? tdm_tokenizer_find(t, node->u.text, node->len) : -1;
}

static tdm_status read_template(tdm_json_reader *r, const tdm_json *config) {
    const tdm_json *node = tdm_json_get(config, "chat_template");
    for (size_t i = 0; tdm_json_is(node, TDM_JSON_ARRAY) && i < node->len; i++) {
        const tdm_json *item = &node->u.items[i];
        if (tdm_json_text_is(tdm_json_get(item, "name"), "default")) {
            node = tdm_json_get(item, "template");
            break;
        }
    }
    return tdm_json_is(node, TDM_JSON_STRING)
               ? tdm_tokenizer_set_template(r->tokenizer, node->u.text, node->len, r->err)
               : TDM_OK;
}

static void find_facts(tdm_tokenizer *t, const tdm_json *config) {
    t->bos = config_token(t, config, "bos_token");
    t->eos = config_token(t, config, "eos_token");
    t->adds_bos = t->n_prefix > 0 && (t->bos < 0 || t->prefix_ids[0] == t->bos);
    if (t->adds_bos) {
        t->bos = t->prefix_ids[0];
    }
    tdm_tokenizer_add_eog(t, t->eos);
    for (size_t i = 0; i < t->n_added; i++) {
        const tdm_text_ref *spelling = &t->spellings[t->added[i].id];
        if (t->added[i].is_special && tdm_spelling_is_eog(spelling->data, spelling->len)) {
            tdm_tokenizer_add_eog(t, t->added[i].id);
        }
    }
}

static tdm_status describe(tdm_json_reader *r) {
    char text[96];
    tdm_tokenizer *t = r->tokenizer;
    if (t->model != TDM_MODEL_BPE) {
        (void)snprintf(text, sizeof(text), "%s, %d tokens",
                       t->model == TDM_MODEL_UNIGRAM ? "unigram" : "wordpiece", (int)t->n_vocab);
        t->description = tdm_arena_copy_text(&t->arena, text, strlen(text));
        return t->description != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
    }
    (void)snprintf(text, sizeof(text), "bpe %s, %d tokens",
                   t->bpe.is_byte_level     ? "byte-level"
                   : t->bpe.has_byte_tokens ? "with byte fallback"
                                            : "of characters",
                   (int)t->n_vocab);
    t->description = tdm_arena_copy_text(&t->arena, text, strlen(text));
    return t->description != NULL ? TDM_OK : tdm_fail_nomem(r->err, "a tokenizer");
}

static tdm_status read_root(tdm_json_reader *r, const tdm_json *root, const tdm_json *config) {
    if (!tdm_json_is(root, TDM_JSON_OBJECT)) {
        return tdm_json_refuse(r, TDM_E_FORMAT, "$", "a tokenizer.json is an object");
    }
    TDM_TRY(check_truncation(r, root));
    TDM_TRY(tdm_json_read_normalizer(r, tdm_json_get(root, "normalizer")));
    TDM_TRY(tdm_json_read_pre_tokenizer(r, tdm_json_get(root, "pre_tokenizer")));
    TDM_TRY(tdm_json_read_model(r, root));
    TDM_TRY(tdm_json_read_post_processor(r, tdm_json_get(root, "post_processor")));
    TDM_TRY(tdm_json_read_decoder(r, tdm_json_get(root, "decoder")));
    TDM_TRY(tdm_tokenizer_find_cuts(r->tokenizer, r->err));
    TDM_TRY(tdm_tokenizer_make_matchers(r->tokenizer, false, r->err));
    TDM_TRY(read_template(r, config));
    find_facts(r->tokenizer, config);
    return describe(r);
}

tdm_status tdm_tokenizer_from_json(tdm_tokenizer **out, const tdm_alloc *alloc, const char *text,
                                   size_t len, const tdm_json *config, const char *name,
                                   tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_json_doc *doc = NULL;
    tdm_json_reader r = {NULL, name, err};
    *out = NULL;
    TDM_TRY_GOTO(status,
                 tdm_json_parse(&doc, alloc, text, len, &TDM_JSON_LIMITS_TOKENIZER, name, err),
                 done);
    TDM_TRY_GOTO(status, tdm_tokenizer_make(&r.tokenizer, alloc, err), done);
    TDM_TRY_GOTO(status, read_root(&r, tdm_json_doc_root(doc), config), done);
    *out = r.tokenizer;
    r.tokenizer = NULL;
done:
    tdm_json_doc_destroy(doc);
    tdm_tokenizer_destroy(r.tokenizer);
    return status;
}
