/* SPDX-License-Identifier: Apache-2.0
 *
 * A text, or documents a line of JSON each. Documents follow each other as mlx_lm's datasets lay them
 * out: each as the tokenizer opens it, and ended by the model's end-of-text token if it does not end
 * in one already. */
#include "cli/score_text.h"

#include <string.h>

typedef struct text_job {
    const tdm_cli *cli;
    const tdm_model *model;
    tdm_ids *ids;
    const char *name; /* of the file, for errors */
} text_job;

/* Two calls: how many ids, and the ids. */
static tdm_status append_text(const text_job *job, const char *text, size_t len, tdm_error *err) {
    const size_t before = job->ids->len;
    size_t n = 0;
    tdm_status status =
        tdm_model_tokenize(job->model, text, len, TDM_TEXT_ADD_SPECIAL, NULL, 0, &n, err);
    if (status != TDM_OK && status != TDM_E_LIMIT) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        if (tdm_ids_append(job->ids, 0, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return n == 0 ? TDM_OK
                  : tdm_model_tokenize(job->model, text, len, TDM_TEXT_ADD_SPECIAL,
                                       job->ids->ids + before, n, &n, err);
}

static tdm_status append_end(const text_job *job, tdm_error *err) {
    tdm_model_facts facts;
    tdm_model_describe(job->model, &facts);
    if (facts.eos_id < 0 ||
        (job->ids->len > 0 && job->ids->ids[job->ids->len - 1] == facts.eos_id)) {
        return TDM_OK;
    }
    return tdm_ids_append(job->ids, facts.eos_id, 0, 0) == TDM_OK ? TDM_OK
                                                                  : tdm_fail_nomem(err, "the ids");
}

static tdm_status append_document(const text_job *job, const char *line, size_t len,
                                  size_t line_number, tdm_error *err) {
    tdm_json_doc *doc = NULL;
    tdm_status status = TDM_OK;
    char name[TDM_PATH_MAX + 32];
    (void)snprintf(name, sizeof name, "%s, line %zu", job->name, line_number);
    TDM_TRY(tdm_json_parse(&doc, job->cli->alloc, line, len, NULL, name, err));
    const tdm_json *text = tdm_json_get(tdm_json_doc_root(doc), "text");
    if (tdm_json_is(text, TDM_JSON_STRING)) {
        status = append_text(job, text->u.text, text->len, err);
        status = status == TDM_OK ? append_end(job, err) : status;
    } else {
        status = tdm_fail(err, TDM_E_ARG, "a line is an object whose \"text\" is a string");
        tdm_err_where(err, "%s", name);
    }
    tdm_json_doc_destroy(doc);
    return status;
}

static bool is_blank(const char *line, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
            return false;
        }
    }
    return true;
}

static tdm_status append_documents(const text_job *job, const char *data, size_t len,
                                   tdm_error *err) {
    size_t line_number = 0;
    for (size_t at = 0; at < len;) {
        const char *end = memchr(data + at, '\n', len - at);
        const size_t n = end != NULL ? (size_t)(end - (data + at)) : len - at;
        line_number++;
        if (!is_blank(data + at, n)) {
            TDM_TRY(append_document(job, data + at, n, line_number, err));
        }
        at += n + 1;
    }
    return TDM_OK;
}

static bool is_documents(const char *path) {
    const size_t len = path != NULL ? strlen(path) : 0;
    return len > 6 && strcmp(path + len - 6, ".jsonl") == 0;
}

tdm_status tdm_score_read(const tdm_cli *cli, const tdm_model *model, tdm_ids *ids,
                          tdm_error *err) {
    const char *path = tdm_args_text(cli->args, TDM_OPT_TEXT);
    const text_job job = {cli, model, ids, tdm_input_name(path)};
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&buf, path, err), done);
    TDM_TRY_GOTO(status, tdm_input_check_utf8(buf.data, buf.len, job.name, err), done);
    if (buf.len > 0) {
        status = is_documents(path) ? append_documents(&job, buf.data, buf.len, err)
                                    : append_text(&job, buf.data, buf.len, err);
    }
done:
    tdm_buf_deinit(&buf);
    return status;
}
