/* SPDX-License-Identifier: Apache-2.0
 *
 * Named chat templates. As in the reference, template files beside the tokenizer put aside the list
 * that tokenizer_config.json carries. The default one is the tokenizer's own say, which has looked
 * at the same places. */
#include "engine/chat_templates.h"

#include "formats/gguf.h"

#include <stdio.h>
#include <string.h>

#define SOURCE_BYTES_MAX ((size_t)4 << 20)

static const char DEFAULT[] = "default";
static const char EXTRA_FOLDER[] = "additional_chat_templates";
static const char EXTRA_END[] = ".jinja";
static const char GGUF_KEY[] = "tokenizer.chat_template.";

struct tdm_chat_templates {
    const tdm_alloc *alloc;
    tdm_arena arena; /* names and sources */
    tdm_chat_template items[TDM_CHAT_TEMPLATES_MAX];
    size_t n;
    const tdm_tokenizer *tokenizer; /* while it is made */
    const tdm_dialect *fallback;    /* what the vocabulary says */
    char dir[TDM_PATH_MAX];
};

static tdm_status create(tdm_chat_templates **out, const tdm_alloc *alloc,
                         const tdm_tokenizer *tokenizer, tdm_error *err) {
    tdm_chat_templates *t = tdm_mem_calloc(alloc, 1, sizeof *t);
    *out = NULL;
    if (t == NULL) {
        return tdm_fail_nomem(err, "the chat templates");
    }
    t->alloc = alloc;
    t->tokenizer = tokenizer;
    t->fallback = tdm_dialect_detect(NULL, 0, tokenizer);
    tdm_arena_init(&t->arena, alloc);
    *out = t;
    return TDM_OK;
}

void tdm_chat_templates_destroy(tdm_chat_templates *t) {
    if (t != NULL) {
        for (size_t i = 0; i < t->n; i++) {
            tdm_template_destroy(t->items[i].tmpl);
        }
        tdm_arena_deinit(&t->arena);
        tdm_mem_free(t->alloc, t, sizeof *t);
    }
}

static const tdm_chat_template *find(const tdm_chat_templates *t, const char *name, size_t len) {
    for (size_t i = 0; i < t->n; i++) {
        if (strlen(t->items[i].name) == len && memcmp(t->items[i].name, name, len) == 0) {
            return &t->items[i];
        }
    }
    return NULL;
}

/* Adds a template; one whose name is there already is passed over. file: what errors call it. */
static tdm_status add(tdm_chat_templates *t, const char *name, size_t name_len, const char *source,
                      size_t len, const char *file, tdm_error *err) {
    tdm_chat_template *item = &t->items[t->n];
    tdm_status status = TDM_OK;
    if (name_len == 0 || memchr(name, '\0', name_len) != NULL || find(t, name, name_len) != NULL) {
        return TDM_OK;
    }
    if (t->n == TDM_CHAT_TEMPLATES_MAX || len > SOURCE_BYTES_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "too many chat templates, or one of %zu bytes", len);
        tdm_err_where(err, "%.150s", file);
        tdm_err_limit(err, "%d templates, %zu bytes each", TDM_CHAT_TEMPLATES_MAX,
                      SOURCE_BYTES_MAX);
        return TDM_E_LIMIT;
    }
    file = tdm_arena_copy_text(&t->arena, file, strlen(file)); /* errors of renderings name it */
    *item = (tdm_chat_template){
        .name = tdm_arena_copy_text(&t->arena, name, name_len),
        .source = tdm_arena_copy_text(&t->arena, len > 0 ? source : "", len),
        .len = len,
    };
    if (file == NULL || item->name == NULL || item->source == NULL) {
        return tdm_fail_nomem(err, "a chat template");
    }
    item->dialect = tdm_dialect_detect(item->source, len, t->tokenizer);
    status = tdm_template_compile(&item->tmpl, t->alloc, item->source, len, file, &item->error);
    if (status == TDM_E_NOMEM) {
        return tdm_fail_nomem(err, "a chat template");
    }
    t->n++;
    return TDM_OK;
}

/* ---- where they come from ---- */

static tdm_status add_default(tdm_chat_templates *t, tdm_error *err) {
    size_t len = 0;
    const char *source = tdm_tokenizer_chat_template(t->tokenizer, &len);
    return source != NULL ? add(t, DEFAULT, sizeof DEFAULT - 1, source, len, "chat_template", err)
                          : TDM_OK;
}

static tdm_status add_listed(tdm_chat_templates *t, const tdm_json *config, tdm_error *err) {
    const tdm_json *list = tdm_json_get(config, "chat_template");
    for (size_t i = 0; tdm_json_is(list, TDM_JSON_ARRAY) && i < list->len; i++) {
        const tdm_json *name = tdm_json_get(&list->u.items[i], "name");
        const tdm_json *source = tdm_json_get(&list->u.items[i], "template");
        char file[96];
        if (tdm_json_is(name, TDM_JSON_STRING) && tdm_json_is(source, TDM_JSON_STRING)) {
            (void)snprintf(file, sizeof file, "chat_template[%zu]", i);
            TDM_TRY(add(t, name->u.text, name->len, source->u.text, source->len, file, err));
        }
    }
    return TDM_OK;
}

static tdm_status add_gguf(tdm_chat_templates *t, const tdm_gguf *gguf, tdm_error *err) {
    const size_t prefix = sizeof GGUF_KEY - 1;
    for (size_t i = 0; i < tdm_gguf_n_keys(gguf); i++) {
        tdm_gguf_type type;
        tdm_gguf_text source = {NULL, 0};
        const char *key = tdm_gguf_key_at(gguf, i, &type);
        if (strncmp(key, GGUF_KEY, prefix) == 0 && tdm_gguf_get_text(gguf, key, &source)) {
            TDM_TRY(add(t, key + prefix, strlen(key + prefix), source.data, source.len, key, err));
        }
    }
    return TDM_OK;
}

static tdm_status add_file(tdm_chat_templates *t, const tdm_fs *fs, const char *file,
                           tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_path_join(path, sizeof path, t->dir, file, err));
    TDM_TRY(tdm_blob_open(&blob, fs, path, err));
    status = add(t, file, strlen(file) - (sizeof EXTRA_END - 1), (const char *)blob.data,
                 blob.bytes, path, err);
    tdm_blob_close(&blob);
    return status;
}

typedef struct listing {
    tdm_arena *arena;
    const char *names[TDM_CHAT_TEMPLATES_MAX + 1]; /* one more than may be: add refuses it */
    size_t n;
    bool is_out_of_memory;
} listing;

static void visit(void *arg, const char *name, bool is_folder) {
    listing *l = arg;
    const size_t len = strlen(name);
    const size_t end = sizeof EXTRA_END - 1;
    if (is_folder || len <= end || strcmp(name + len - end, EXTRA_END) != 0 ||
        l->n > TDM_CHAT_TEMPLATES_MAX) {
        return;
    }
    l->names[l->n] = tdm_arena_copy_text(l->arena, name, len);
    l->is_out_of_memory = l->is_out_of_memory || l->names[l->n] == NULL;
    l->n++;
}

static tdm_status add_folder(tdm_chat_templates *t, const tdm_fs *fs, const char *dir,
                             tdm_error *err) {
    listing l = {.arena = &t->arena};
    bool is_folder = false;
    TDM_TRY(tdm_path_join(t->dir, sizeof t->dir, dir, EXTRA_FOLDER, err));
    if (!fs->exists(fs->ctx, t->dir, &is_folder) || !is_folder) {
        return TDM_OK;
    }
    TDM_TRY(fs->list(fs->ctx, t->dir, visit, &l, err));
    if (l.is_out_of_memory) {
        return tdm_fail_nomem(err, "the chat templates");
    }
    for (size_t i = 0; i < l.n; i++) {
        TDM_TRY(add_file(t, fs, l.names[i], err));
    }
    return TDM_OK;
}

static tdm_status add_all(tdm_chat_templates *t, const tdm_checkpoint *checkpoint, const tdm_fs *fs,
                          tdm_error *err) {
    const char *dir = tdm_checkpoint_path(checkpoint);
    char path[TDM_PATH_MAX];
    bool is_folder = false;
    size_t n = 0;
    TDM_TRY(add_default(t, err));
    if (tdm_checkpoint_container(checkpoint) == TDM_CONTAINER_GGUF) {
        return add_gguf(t, tdm_checkpoint_gguf(checkpoint), err);
    }
    n = t->n;
    TDM_TRY(tdm_path_join(path, sizeof path, dir, "chat_template.jinja", err));
    TDM_TRY(add_folder(t, fs, dir, err));
    if (t->n > n || fs->exists(fs->ctx, path, &is_folder)) {
        return TDM_OK;
    }
    return add_listed(t, tdm_checkpoint_tokenizer_config(checkpoint), err);
}

tdm_status tdm_chat_templates_open(tdm_chat_templates **out, const tdm_alloc *alloc,
                                   const tdm_checkpoint *checkpoint, const tdm_tokenizer *tokenizer,
                                   const tdm_fs *fs, tdm_error *err) {
    tdm_chat_templates *t = NULL;
    tdm_status status = TDM_OK;
    *out = NULL;
    TDM_TRY(create(&t, alloc, tokenizer, err));
    status = add_all(t, checkpoint, fs != NULL ? fs : tdm_fs_system(), err);
    t->tokenizer = NULL;
    if (status != TDM_OK) {
        tdm_chat_templates_destroy(t);
        return status;
    }
    *out = t;
    return TDM_OK;
}

tdm_status tdm_chat_templates_from_source(tdm_chat_templates **out, const tdm_alloc *alloc,
                                          const char *source, size_t len, const char *file,
                                          const tdm_tokenizer *tokenizer, tdm_error *err) {
    tdm_chat_templates *t = NULL;
    tdm_status status = TDM_OK;
    *out = NULL;
    TDM_TRY(create(&t, alloc, tokenizer, err));
    status = add(t, DEFAULT, sizeof DEFAULT - 1, source, len, file, err);
    if (status == TDM_OK && t->items[0].tmpl == NULL) {
        status = t->items[0].error.code;
        if (err != NULL) {
            *err = t->items[0].error;
        }
    }
    t->tokenizer = NULL;
    if (status != TDM_OK) {
        tdm_chat_templates_destroy(t);
        return status;
    }
    *out = t;
    return TDM_OK;
}

/* ---- questions ---- */

size_t tdm_chat_templates_n(const tdm_chat_templates *t) {
    return t->n;
}

const tdm_chat_template *tdm_chat_templates_at(const tdm_chat_templates *t, size_t idx) {
    return idx < t->n ? &t->items[idx] : NULL;
}

const tdm_chat_template *tdm_chat_templates_find(const tdm_chat_templates *t, const char *name) {
    return find(t, name, strlen(name));
}

static bool tells(const tdm_chat_template *item) {
    return item != NULL && strcmp(tdm_dialect_name(item->dialect), "plain") != 0;
}

const tdm_dialect *tdm_chat_templates_dialect(const tdm_chat_templates *t) {
    static const char *const FIRST[] = {DEFAULT, "tool_use"};
    for (size_t i = 0; i < sizeof FIRST / sizeof FIRST[0]; i++) {
        if (tells(tdm_chat_templates_find(t, FIRST[i]))) {
            return tdm_chat_templates_find(t, FIRST[i])->dialect;
        }
    }
    for (size_t i = 0; i < t->n; i++) {
        if (tells(&t->items[i])) {
            return t->items[i].dialect;
        }
    }
    return t->n > 0 ? t->items[0].dialect : t->fallback;
}

static bool is_given(const tdm_json *request, const char *key) {
    const tdm_json *node = tdm_json_get(request, key);
    return node != NULL && node->kind != TDM_JSON_NULL;
}

static tdm_status fail_name(const tdm_chat_templates *t, const char *name, tdm_error *err) {
    char names[160] = "";
    size_t len = 0;
    for (size_t i = 0; i < t->n && len < sizeof names; i++) {
        const int n =
            snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "", t->items[i].name);
        len += n > 0 ? (size_t)n : 0;
    }
    (void)tdm_fail(err, TDM_E_ARG, "there is no chat template \"%.100s\"", name);
    tdm_err_where(err, "$.chat_template");
    tdm_err_remedy(err, "there are: %s", names);
    return TDM_E_ARG;
}

static const tdm_chat_template *choose_by_content(const tdm_chat_templates *t,
                                                  const tdm_json *request) {
    const tdm_chat_template *found =
        is_given(request, "tools") ? tdm_chat_templates_find(t, "tool_use") : NULL;
    if (found == NULL && is_given(request, "documents")) {
        found = tdm_chat_templates_find(t, "rag");
    }
    if (found == NULL) {
        found = tdm_chat_templates_find(t, DEFAULT);
    }
    return found == NULL && t->n == 1 ? &t->items[0] : found;
}

tdm_status tdm_chat_templates_choose(const tdm_chat_templates *t, const tdm_json *request,
                                     const tdm_chat_template **out, tdm_error *err) {
    const tdm_json *name = tdm_json_get(request, "chat_template");
    const tdm_chat_template *found = NULL;
    *out = NULL;
    if (t->n == 0) {
        (void)tdm_fail(err, TDM_E_STATE, "the model has no chat template");
        return TDM_E_STATE;
    }
    if (is_given(request, "chat_template")) {
        const bool is_text = tdm_json_is(name, TDM_JSON_STRING);
        found = is_text ? find(t, name->u.text, name->len) : NULL;
        if (found == NULL) {
            return fail_name(t, is_text ? name->u.text : "", err);
        }
    } else {
        found = choose_by_content(t, request);
        if (found == NULL) {
            return fail_name(t, DEFAULT, err);
        }
    }
    if (found->tmpl == NULL) {
        if (err != NULL) {
            *err = found->error;
        }
        return found->error.code;
    }
    *out = found;
    return TDM_OK;
}
