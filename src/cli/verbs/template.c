/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem template: a conversation through a chat template, as text and as segments that are
 * trusted (the template's own) or not (a message's). The request that the engine renders is the
 * conversation with the command line's variables on top. */
#include "cli/load.h"
#include "engine/engine.h"

#include <string.h>

typedef struct template_job {
    tdm_cli *cli;
    const tdm_template *tmpl;
    const tdm_json *special_tokens; /* or NULL */
    size_t line;
} template_job;

/* A request under construction: members of objects that live elsewhere. */
typedef struct request {
    tdm_arena arena; /* the list and what its new members say */
    tdm_json *items;
    uint32_t n;
    uint32_t cap;
} request;

static void drop(request *r, const char *key, size_t key_len) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->items[i].key_len != key_len || memcmp(r->items[i].key, key, key_len) != 0) {
            r->items[kept++] = r->items[i];
        }
    }
    r->n = kept;
}

static void set(request *r, const char *key, size_t key_len, const tdm_json *value) {
    drop(r, key, key_len);
    r->items[r->n] = *value;
    r->items[r->n].key = key;
    r->items[r->n].key_len = (uint32_t)key_len;
    r->n++;
}

static tdm_status request_init(request *r, template_job *job, const tdm_json *root,
                               tdm_error *err) {
    const uint32_t n_items = tdm_json_is(root, TDM_JSON_OBJECT) ? root->len : 1;
    tdm_arena_init(&r->arena, job->cli->alloc);
    r->n = 0;
    r->cap = n_items + (uint32_t)job->cli->args->n_repeats + 2;
    r->items = tdm_arena_calloc(&r->arena, r->cap, sizeof *r->items);
    if (r->items == NULL) {
        return tdm_fail_nomem(err, "a chat request");
    }
    if (tdm_json_is(root, TDM_JSON_OBJECT)) {
        memcpy(r->items, root->u.items, n_items * sizeof *r->items);
        r->n = n_items;
    } else if (tdm_json_is(root, TDM_JSON_ARRAY)) {
        set(r, "messages", 8, root);
    } else {
        return tdm_fail(err, TDM_E_ARG,
                        "a conversation is a JSON list of messages, or an object that has one");
    }
    return TDM_OK;
}

/* --var NAME=VALUE: JSON where it is JSON, else text. docs holds the parsed value's document. */
static tdm_status set_var(request *r, const char *var, tdm_json_doc **out_doc, tdm_error *err) {
    const char *equals = strchr(var, '=');
    const char *text = equals != NULL ? equals + 1 : "";
    char *key = NULL;
    *out_doc = NULL;
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
        set(r, key, strlen(key), tdm_json_doc_root(*out_doc));
    } else {
        const tdm_json value = {
            .kind = TDM_JSON_STRING, .len = (uint32_t)strlen(text), .u = {.text = text}};
        TDM_TRY(tdm_input_check_utf8(text, strlen(text), "--var", err));
        set(r, key, strlen(key), &value);
    }
    return TDM_OK;
}

/* The command line's say. docs [n_repeats] are destroyed by the caller after the rendering. */
static tdm_status apply_args(request *r, const tdm_args *args, tdm_json_doc **docs,
                             tdm_error *err) {
    const tdm_json no = {.kind = TDM_JSON_BOOL, .boolean = false};
    if (tdm_args_has(args, TDM_OPT_NO_GENERATION_PROMPT)) {
        set(r, "add_generation_prompt", strlen("add_generation_prompt"), &no);
    }
    for (size_t i = 0; tdm_args_repeat(args, TDM_OPT_VAR, i) != NULL; i++) {
        TDM_TRY(set_var(r, tdm_args_repeat(args, TDM_OPT_VAR, i), &docs[i], err));
    }
    return TDM_OK;
}

static tdm_status render(const template_job *job, const request *r, tdm_template_output *output,
                         tdm_error *err) {
    const tdm_json root = {.kind = TDM_JSON_OBJECT, .len = r->n, .u = {.items = r->items}};
    const int64_t now_ns = job->cli->clock->unix_ns(job->cli->clock->ctx);
    return tdm_chat_render(job->tmpl, job->cli->alloc, &root, job->special_tokens,
                           now_ns / 1000000000, output, err);
}

static void write_output(const tdm_template_output *output, tdm_json_writer *w) {
    tdm_json_write_key(w, "text");
    tdm_json_write_text(w, output->text.data, output->text.len);
    tdm_json_write_key(w, "segments");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < output->n_spans; i++) {
        const struct tdm_template_span *span = &output->spans[i];
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "text");
        tdm_json_write_text(w, output->text.data + span->begin, span->end - span->begin);
        tdm_json_write_key(w, "trusted");
        tdm_json_write_bool(w, span->is_trusted);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

/* continue_text: the rendering cut after the last message; null where the template does not show
 * that message. */
static tdm_status write_continued(const template_job *job, const request *r, tdm_json_writer *w,
                                  tdm_error *err) {
    tdm_template_output output;
    tdm_error why = {.code = TDM_OK};
    tdm_status status = TDM_OK;
    tdm_template_output_init(&output, job->cli->alloc);
    status = render(job, r, &output, &why);
    if (status == TDM_E_NOMEM || status == TDM_E_LIMIT) {
        *err = why;
    } else {
        tdm_json_write_key(w, "continue_text");
        if (status == TDM_OK) {
            tdm_json_write_text(w, output.text.data, output.text.len);
        } else {
            tdm_json_write_null(w);
        }
        status = TDM_OK;
    }
    tdm_template_output_deinit(&output);
    return status;
}

/* One request as an answer in JSON. *was_raised: the template itself refused. */
static tdm_status answer_json(template_job *job, request *r, bool *was_raised, tdm_error *err) {
    static const char CONTINUE[] = "continue_final_message";
    const tdm_json yes = {.kind = TDM_JSON_BOOL, .boolean = true};
    const tdm_json root = {.kind = TDM_JSON_OBJECT, .len = r->n, .u = {.items = r->items}};
    tdm_template_output output;
    tdm_buf buf;
    tdm_json_writer w;
    bool is_continued = false;
    tdm_status status = TDM_OK;
    (void)tdm_json_as_bool(tdm_json_get(&root, CONTINUE), &is_continued);
    drop(r, CONTINUE, sizeof CONTINUE - 1);
    tdm_template_output_init(&output, job->cli->alloc);
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    status = render(job, r, &output, err);
    *was_raised = output.was_raised;
    if (status != TDM_OK) {
        goto done;
    }
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "ok");
    tdm_json_write_bool(&w, true);
    write_output(&output, &w);
    if (is_continued) {
        set(r, CONTINUE, sizeof CONTINUE - 1, &yes);
        TDM_TRY_GOTO(status, write_continued(job, r, &w, err), done);
    }
    status = tdm_cli_finish_json(job->cli, &w, err);
done:
    tdm_buf_deinit(&buf);
    tdm_template_output_deinit(&output);
    return status;
}

static tdm_status answer_plain(template_job *job, const request *r, tdm_error *err) {
    tdm_template_output output;
    tdm_status status = TDM_OK;
    tdm_template_output_init(&output, job->cli->alloc);
    status = render(job, r, &output, err);
    if (status == TDM_OK) {
        status = tdm_out_text(&job->cli->out, output.text.data, output.text.len, err);
    }
    if (status == TDM_OK && job->cli->out.is_terminal) {
        status = tdm_out_end_line(&job->cli->out, err);
    }
    tdm_template_output_deinit(&output);
    return status;
}

static tdm_status answer(template_job *job, const char *text, size_t len, const char *name,
                         bool *was_raised, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const size_t n_docs = args->n_repeats + 1;
    tdm_json_doc *doc = NULL;
    tdm_json_doc **docs = NULL;
    request r = {.n = 0};
    tdm_status status = TDM_OK;
    *was_raised = false;
    tdm_arena_init(&r.arena, job->cli->alloc);
    docs = tdm_mem_calloc(job->cli->alloc, n_docs, sizeof *docs);
    if (docs == NULL) {
        return tdm_fail_nomem(err, "a chat request");
    }
    TDM_TRY_GOTO(status, tdm_json_parse(&doc, job->cli->alloc, text, len, NULL, name, err), done);
    TDM_TRY_GOTO(status, request_init(&r, job, tdm_json_doc_root(doc), err), done);
    TDM_TRY_GOTO(status, apply_args(&r, args, docs, err), done);
    status = job->cli->is_json ? answer_json(job, &r, was_raised, err) : answer_plain(job, &r, err);
done:
    for (size_t i = 0; i < n_docs; i++) {
        tdm_json_doc_destroy(docs[i]);
    }
    tdm_mem_free(job->cli->alloc, docs, n_docs * sizeof(tdm_json_doc *));
    tdm_arena_deinit(&r.arena);
    tdm_json_doc_destroy(doc);
    return status;
}

static tdm_status answer_line(void *arg, const char *line, size_t len, tdm_error *err) {
    template_job *job = arg;
    char name[64];
    bool was_raised = false;
    tdm_status status = TDM_OK;
    (void)snprintf(name, sizeof name, "standard input, line %zu", ++job->line);
    status = answer(job, line, len, name, &was_raised, err);
    return tdm_cli_put_refusal(job->cli, status, was_raised ? TDM_RAISED_YES : TDM_RAISED_NO, err);
}

static tdm_status answer_file(template_job *job, const char *path, tdm_error *err) {
    tdm_buf buf;
    bool was_raised = false;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    status = tdm_input_read(&buf, path, err);
    if (status == TDM_OK) {
        status = answer(job, buf.data != NULL ? buf.data : "", buf.len, tdm_input_name(path),
                        &was_raised, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status compile_file(tdm_cli *cli, const char *path, tdm_template **out, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    status = tdm_input_read(&buf, path, err);
    if (status == TDM_OK) {
        status = tdm_template_compile(out, cli->alloc, buf.data != NULL ? buf.data : "", buf.len,
                                      path, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status fail_positional(tdm_error *err) {
    (void)tdm_fail(err, TDM_E_ARG, "template needs MODEL and CONVERSATION.json");
    tdm_err_remedy(err, "or --template FILE.jinja in place of MODEL, or --json-lines in place of "
                        "CONVERSATION.json");
    return TDM_E_ARG;
}

tdm_status tdm_verb_template(tdm_cli *cli, tdm_error *err) {
    const tdm_args *args = cli->args;
    const char *file = tdm_args_text(args, TDM_OPT_TEMPLATE);
    const bool has_lines = tdm_args_has(args, TDM_OPT_JSON_LINES);
    const size_t n_needed = (file == NULL ? 1U : 0U) + (has_lines ? 0U : 1U);
    tdm_cli_text text = {0};
    tdm_template *own = NULL;
    template_job job = {.cli = cli};
    tdm_status status = TDM_OK;
    if (args->n_positional != n_needed) {
        return fail_positional(err);
    }
    if (file != NULL) {
        TDM_TRY_GOTO(status, compile_file(cli, file, &own, err), done);
        job.tmpl = own;
    } else {
        TDM_TRY_GOTO(status, tdm_cli_text_open(cli, args->positional[0], &text, err), done);
        TDM_TRY_GOTO(status, tdm_cli_text_open_template(cli, &text, err), done);
        job.tmpl = text.chat_template;
        job.special_tokens = tdm_json_doc_root(text.special_tokens);
    }
    status = has_lines ? tdm_input_lines(cli->alloc, answer_line, &job, err)
                       : answer_file(&job, args->positional[n_needed - 1], err);
done:
    tdm_template_destroy(own);
    tdm_cli_text_close(&text);
    return status;
}
