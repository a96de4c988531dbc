/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem template: a conversation through a chat template, as text and as segments that are
 * trusted (the template's own) or not (a message's). The request that the engine renders is the
 * conversation with the command line's variables on top. */
#include "cli/chat_request.h"
#include "cli/load.h"
#include "engine/engine.h"

typedef struct template_job {
    tdm_cli *cli;
    const tdm_cli_text *text;
    size_t line;
} template_job;

static tdm_status render(const template_job *job, const tdm_chat_request *r,
                         tdm_template_output *output, tdm_error *err) {
    const tdm_json root = tdm_chat_request_root(r);
    const int64_t now_ns = job->cli->clock->unix_ns(job->cli->clock->ctx);
    const tdm_chat_template *chosen = NULL;
    TDM_TRY(tdm_chat_templates_choose(job->text->templates, &root, &chosen, err));
    return tdm_chat_render(chosen->tmpl, job->cli->alloc, &root,
                           tdm_cli_text_special_tokens(job->text), now_ns / 1000000000, output,
                           err);
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
static tdm_status write_continued(const template_job *job, const tdm_chat_request *r,
                                  tdm_json_writer *w, tdm_error *err) {
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
static tdm_status answer_json(template_job *job, tdm_chat_request *r, bool *was_raised,
                              tdm_error *err) {
    static const char CONTINUE[] = "continue_final_message";
    const tdm_json yes = {.kind = TDM_JSON_BOOL, .boolean = true};
    const tdm_json root = tdm_chat_request_root(r);
    tdm_template_output output;
    tdm_buf buf;
    tdm_json_writer w;
    bool is_continued = false;
    tdm_status status = TDM_OK;
    (void)tdm_json_as_bool(tdm_json_get(&root, CONTINUE), &is_continued);
    tdm_chat_request_drop(r, CONTINUE);
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
        tdm_chat_request_set(r, CONTINUE, &yes);
        TDM_TRY_GOTO(status, write_continued(job, r, &w, err), done);
    }
    status = tdm_cli_finish_json(job->cli, &w, err);
done:
    tdm_buf_deinit(&buf);
    tdm_template_output_deinit(&output);
    return status;
}

static tdm_status answer_plain(template_job *job, const tdm_chat_request *r, tdm_error *err) {
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
    tdm_chat_request r;
    tdm_status status = tdm_chat_request_init(&r, job->cli, text, len, name, err);
    *was_raised = false;
    if (status == TDM_OK) {
        status =
            job->cli->is_json ? answer_json(job, &r, was_raised, err) : answer_plain(job, &r, err);
    }
    tdm_chat_request_deinit(&r);
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
    template_job job = {.cli = cli, .text = &text};
    tdm_status status = TDM_OK;
    if (args->n_positional != n_needed) {
        return fail_positional(err);
    }
    if (file == NULL) {
        TDM_TRY_GOTO(status, tdm_cli_text_open(cli, args->positional[0], &text, err), done);
    }
    TDM_TRY_GOTO(status, tdm_cli_text_open_templates(cli, &text, file, err), done);
    status = has_lines ? tdm_input_lines(cli->alloc, answer_line, &job, err)
                       : answer_file(&job, args->positional[n_needed - 1], err);
done:
    tdm_cli_text_close(&text);
    return status;
}
