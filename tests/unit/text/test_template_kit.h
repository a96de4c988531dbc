/* SPDX-License-Identifier: Apache-2.0
 *
 * What the template tests share: one render from JSON texts, its checks, and the cases of a folder
 * in the layout of render.py (NAME.jinja, conversations.json, variables.json, golden/NAME.json). */
#ifndef TDM_TESTS_TEMPLATE_KIT_H
#define TDM_TESTS_TEMPLATE_KIT_H

#include "support/support.h"

#include "text/template.h"

#define KIT_NOW INT64_C(1795953600) /* 2026-11-29 12:00:00 */
#define KIT_VARIABLES_MAX 4

/* Spans cover the text without gaps and neighbours differ. */
static inline void kit_check_spans(const tdm_template_output *o) {
    size_t at = 0;
    for (size_t i = 0; i < o->n_spans; i++) {
        assert_int_equal(o->spans[i].begin, at);
        assert_true(o->spans[i].end > at);
        assert_true(i == 0 || o->spans[i].is_trusted != o->spans[i - 1].is_trusted);
        at = o->spans[i].end;
    }
    assert_int_equal(at, o->text.len);
}

static inline tdm_json_doc *kit_parse(const char *text, size_t len, const char *name) {
    tdm_json_doc *doc = NULL;
    tdm_error err = {0};
    if (tdm_json_parse(&doc, NULL, text, len, NULL, name, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", name, err.what, err.where);
    }
    return doc;
}

static inline tdm_json_doc *kit_load(const char *path) {
    size_t len = 0;
    char *text = support_read_file(path, &len);
    tdm_json_doc *doc = kit_parse(text, len, path);
    free(text);
    return doc;
}

/* --- folders of cases ---------------------------------------------------------------------------
 */

typedef struct kit_folder {
    const char *dir;
    tdm_json_doc *conversations;
    tdm_json_doc *variables;
    size_t n_templates, n_renders, n_wrong;
} kit_folder;

static inline const tdm_json *kit_case(const kit_folder *f, const tdm_json *name) {
    const tdm_json *cases = tdm_json_get(tdm_json_doc_root(f->conversations), "cases");
    for (size_t i = 0; i < tdm_json_len(cases); i++) {
        const tdm_json *one = tdm_json_get(&cases->u.items[i], "name");
        if (one->len == name->len && memcmp(one->u.text, name->u.text, name->len) == 0) {
            return &cases->u.items[i];
        }
    }
    fail_msg("no conversation %s", name->u.text);
    return NULL;
}

/* The variables of one run: the template's own, the keyword arguments, the conversation. parts must
 * live as long as the variables are used. */
typedef struct kit_run {
    tdm_json parts[3];
    tdm_json conversation;
    const tdm_json *variables[KIT_VARIABLES_MAX];
    tdm_template_input input;
} kit_run;

static inline void kit_run_init(kit_run *run, const tdm_json *own, const tdm_json *kwargs,
                                const tdm_json *conversation) {
    static const char *const NAMES[] = {"messages", "tools", "documents"};
    static const tdm_json NONE = {.kind = TDM_JSON_NULL};
    memset(run, 0, sizeof *run);
    for (size_t i = 0; i < 3; i++) {
        const tdm_json *part = tdm_json_get(conversation, NAMES[i]);
        if (part == NULL && i == 1) {
            part = tdm_json_get(own, "tools_if_none");
        }
        run->parts[i] = part == NULL ? NONE : *part;
        run->parts[i].key = NAMES[i];
        run->parts[i].key_len = (uint32_t)strlen(NAMES[i]);
    }
    run->conversation = (tdm_json){.kind = TDM_JSON_OBJECT, .len = 3, .u = {.items = run->parts}};
    run->variables[0] = own;
    run->variables[1] = kwargs;
    run->variables[2] = &run->conversation;
    run->input =
        (tdm_template_input){.variables = run->variables, .n_variables = 3, .now_unix_s = KIT_NOW};
}

static inline bool kit_text_is(const tdm_json *want, const tdm_buf *got) {
    return want != NULL && want->kind == TDM_JSON_STRING && want->len == got->len &&
           (got->len == 0 || memcmp(want->u.text, got->data, got->len) == 0);
}

static inline void kit_report(const char *name, const tdm_json *result, const char *what,
                              const tdm_buf *got, const tdm_error *err) {
    const tdm_json *text = tdm_json_get(result, "text");
    size_t at = 0;
    while (text != NULL && at < got->len && at < text->len && got->data[at] == text->u.text[at]) {
        at++;
    }
    (void)fprintf(stderr, "WRONG %s %s: %s; at byte %zu; %s (%s)\n", name,
                  tdm_json_get(result, "conversation")->u.text, what, at, err->what, err->where);
    if (text != NULL && err->code == TDM_OK) {
        (void)fprintf(stderr, "  want ...%.80s\n  got  ...%.*s\n", text->u.text + at,
                      (int)(got->len - at > 80 ? 80 : got->len - at),
                      got->data == NULL ? "" : got->data + at);
    }
}

/* What is wrong with one rendering, or NULL. */
static inline const char *kit_judge(const tdm_json *result, tdm_status status,
                                    const tdm_template_output *o, const tdm_error *err) {
    const tdm_json *message = tdm_json_get(result, "error");
    bool is_ok = false;
    (void)tdm_json_as_bool(tdm_json_get(result, "ok"), &is_ok);
    if (is_ok) {
        if (status != TDM_OK) {
            return "an error where the reference renders";
        }
        kit_check_spans(o);
        return kit_text_is(tdm_json_get(result, "text"), &o->text) ? NULL : "another text";
    }
    if (status == TDM_OK) {
        return "text where the reference refuses";
    }
    if (strstr(err->where, "line ") == NULL || strstr(err->where, "column ") == NULL) {
        return "an error without line and column";
    }
    const bool is_raised = tdm_json_text_is(tdm_json_get(result, "error_kind"), "raise_exception");
    if (is_raised != o->was_raised) {
        return "raised is wrong";
    }
    return !is_raised || kit_text_is(message, &o->raised) ? NULL : "another message";
}

static inline void kit_check_result(kit_folder *f, const char *name, const tdm_template *tmpl,
                                    const tdm_json *own, const tdm_json *result) {
    kit_run run;
    tdm_error err = {0};
    tdm_template_output o;
    kit_run_init(&run, own, tdm_json_get(result, "kwargs"),
                 kit_case(f, tdm_json_get(result, "conversation")));
    tdm_template_output_init(&o, NULL);
    f->n_renders++;
    const tdm_status status = tdm_template_render(tmpl, NULL, &run.input, &o, &err);
    const char *wrong = kit_judge(result, status, &o, &err);
    if (wrong != NULL) {
        f->n_wrong++;
        kit_report(name, result, wrong, &o.text, &err);
    }
    const tdm_json *continued = tdm_json_get(result, "continue_text");
    if (continued != NULL) {
        tdm_error why = {0};
        const tdm_status cut = tdm_template_render_continue(tmpl, NULL, &run.input, &o, &why);
        const bool is_right = continued->kind == TDM_JSON_NULL
                                  ? cut == TDM_E_FORMAT
                                  : cut == TDM_OK && kit_text_is(continued, &o.text);
        if (!is_right) {
            f->n_wrong++;
            kit_report(name, result, "another continue_text", &o.text, &why);
        } else if (cut == TDM_OK) {
            kit_check_spans(&o);
        }
    }
    tdm_template_output_deinit(&o);
}

static inline tdm_template *kit_compile_file(const char *path) {
    size_t len = 0;
    tdm_error err = {0};
    tdm_template *tmpl = NULL;
    char *source = support_read_file(path, &len);
    if (tdm_template_compile(&tmpl, NULL, source, len, path, &err) != TDM_OK) {
        (void)fprintf(stderr, "%s: %s (%s)\n", path, err.what, err.where);
    }
    free(source);
    return tmpl;
}

static inline void kit_check_template(kit_folder *f, const char *name) {
    char path[SUPPORT_PATH_MAX];
    char rel[512];
    (void)snprintf(rel, sizeof rel, "%s.jinja", name);
    tdm_template *tmpl = kit_compile_file(support_join(path, f->dir, rel));
    (void)snprintf(rel, sizeof rel, "golden/%s.json", name);
    tdm_json_doc *golden = kit_load(support_join(path, f->dir, rel));
    const tdm_json *results = tdm_json_doc_root(golden);
    const tdm_json *own = tdm_json_get(tdm_json_doc_root(f->variables), name);
    f->n_templates++;
    f->n_wrong += tmpl == NULL;
    for (size_t i = 0; tmpl != NULL && i < tdm_json_len(results); i++) {
        kit_check_result(f, name, tmpl, own, &results->u.items[i]);
    }
    tdm_json_doc_destroy(golden);
    tdm_template_destroy(tmpl);
}

static inline void kit_folder_open(kit_folder *f, const char *dir) {
    char path[SUPPORT_PATH_MAX];
    *f = (kit_folder){.dir = dir};
    f->conversations = kit_load(support_join(path, dir, "conversations.json"));
    f->variables = kit_load(support_join(path, dir, "variables.json"));
}

static inline void kit_folder_close(kit_folder *f) {
    tdm_json_doc_destroy(f->conversations);
    tdm_json_doc_destroy(f->variables);
}

/* Calls visit for every NAME.jinja of the folder. */
static inline void kit_each_template(kit_folder *f,
                                     void (*visit)(kit_folder *f, const char *name)) {
    DIR *dir = opendir(f->dir);
    assert_non_null(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        char name[256];
        const size_t n = strlen(e->d_name);
        if (n > 6 && n < sizeof name && strcmp(e->d_name + n - 6, ".jinja") == 0) {
            memcpy(name, e->d_name, n - 6);
            name[n - 6] = '\0';
            visit(f, name);
        }
    }
    (void)closedir(dir);
}

#endif
