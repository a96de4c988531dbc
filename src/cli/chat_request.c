/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat requests of the command line. The list of members is made anew, their values are borrowed
 * from the documents that were parsed. */
#include "cli/chat_request.h"

#include <string.h>

/* Members beyond the conversation's own and the --var ones: what tdm_chat_request_set may add. */
#define SPARE 6

void tdm_chat_request_drop(tdm_chat_request *r, const char *key) {
    const size_t len = strlen(key);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->items[i].key_len != len || memcmp(r->items[i].key, key, len) != 0) {
            r->items[kept++] = r->items[i];
        }
    }
    r->n = kept;
}

void tdm_chat_request_set(tdm_chat_request *r, const char *key, const tdm_json *value) {
    tdm_chat_request_drop(r, key);
    TDM_CHECK(r->n < r->cap);
    r->items[r->n] = *value;
    r->items[r->n].key = key;
    r->items[r->n].key_len = (uint32_t)strlen(key);
    r->n++;
}

tdm_json tdm_chat_request_root(const tdm_chat_request *r) {
    return (tdm_json){.kind = TDM_JSON_OBJECT, .len = r->n, .u = {.items = r->items}};
}

static tdm_status take_root(tdm_chat_request *r, const tdm_args *args, tdm_error *err) {
    const tdm_json *root = tdm_json_doc_root(r->doc);
    const uint32_t n_items = tdm_json_is(root, TDM_JSON_OBJECT) ? root->len : 1;
    r->cap = n_items + (uint32_t)args->n_repeats + SPARE;
    r->items = tdm_arena_calloc(&r->arena, r->cap, sizeof *r->items);
    if (r->items == NULL) {
        return tdm_fail_nomem(err, "a chat request");
    }
    if (tdm_json_is(root, TDM_JSON_OBJECT)) {
        if (n_items > 0) {
            memcpy(r->items, root->u.items, n_items * sizeof *r->items);
        }
        r->n = n_items;
    } else if (tdm_json_is(root, TDM_JSON_ARRAY)) {
        tdm_chat_request_set(r, "messages", root);
    } else {
        return tdm_fail(err, TDM_E_ARG,
                        "a conversation is a JSON list of messages, or an object that has one");
    }
    return TDM_OK;
}

static tdm_json text_node(const char *text) {
    return (tdm_json){.kind = TDM_JSON_STRING, .len = (uint32_t)strlen(text), .u = {.text = text}};
}

/* --var NAME=VALUE: JSON where it is JSON, else text. */
static tdm_status set_var(tdm_chat_request *r, const char *var, tdm_json_doc **out_doc,
                          tdm_error *err) {
    const char *equals = strchr(var, '=');
    const char *text = equals != NULL ? equals + 1 : "";
    char *key = NULL;
    if (equals == NULL || equals == var) {
        (void)tdm_fail(err, TDM_E_ARG, "--var is NAME=VALUE");
        tdm_err_where(err, "--var %.100s", var);
        return TDM_E_ARG;
    }
    key = tdm_arena_copy_text(&r->arena, var, (size_t)(equals - var));
    if (key == NULL) {
        return tdm_fail_nomem(err, "a variable");
    }
    if (tdm_json_parse(out_doc, r->arena.alloc, text, strlen(text), NULL, "--var", NULL) ==
        TDM_OK) {
        tdm_chat_request_set(r, key, tdm_json_doc_root(*out_doc));
    } else {
        const tdm_json value = text_node(text);
        TDM_TRY(tdm_input_check_utf8(text, strlen(text), "--var", err));
        tdm_chat_request_set(r, key, &value);
    }
    return TDM_OK;
}

static tdm_status apply_args(tdm_chat_request *r, const tdm_args *args, tdm_error *err) {
    const tdm_json no = {.kind = TDM_JSON_BOOL, .boolean = false};
    const char *name = tdm_args_text(args, TDM_OPT_TEMPLATE_NAME);
    if (tdm_args_has(args, TDM_OPT_NO_GENERATION_PROMPT)) {
        tdm_chat_request_set(r, "add_generation_prompt", &no);
    }
    if (name != NULL) {
        const tdm_json node = text_node(name);
        tdm_chat_request_set(r, "chat_template", &node);
    }
    for (size_t i = 0; tdm_args_repeat(args, TDM_OPT_VAR, i) != NULL; i++) {
        TDM_TRY(set_var(r, tdm_args_repeat(args, TDM_OPT_VAR, i), &r->docs[i], err));
    }
    return TDM_OK;
}

tdm_status tdm_chat_request_init(tdm_chat_request *r, const tdm_cli *cli, const char *text,
                                 size_t len, const char *name, tdm_error *err) {
    *r = (tdm_chat_request){.n = 0};
    tdm_arena_init(&r->arena, cli->alloc);
    r->docs = tdm_mem_calloc(cli->alloc, cli->args->n_repeats + 1, sizeof *r->docs);
    if (r->docs == NULL) {
        return tdm_fail_nomem(err, "a chat request");
    }
    r->n_docs = cli->args->n_repeats + 1;
    TDM_TRY(tdm_json_parse(&r->doc, cli->alloc, text, len, NULL, name, err));
    TDM_TRY(take_root(r, cli->args, err));
    return apply_args(r, cli->args, err);
}

void tdm_chat_request_deinit(tdm_chat_request *r) {
    for (size_t i = 0; i < r->n_docs; i++) {
        tdm_json_doc_destroy(r->docs[i]);
    }
    tdm_mem_free(r->arena.alloc, r->docs, r->n_docs * sizeof(tdm_json_doc *));
    tdm_json_doc_destroy(r->doc);
    tdm_arena_deinit(&r->arena);
    r->docs = NULL;
    r->doc = NULL;
    r->n_docs = 0;
}
