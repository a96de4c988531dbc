/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem tokenize: text in, ids out. Only the tokenizer is opened. */
#include "cli/load.h"

typedef struct tokenize_job {
    tdm_cli *cli;
    const tdm_tokenizer *tokenizer;
    tdm_encode_options options;
    size_t line;
} tokenize_job;

static void write_ids(const tdm_ids *ids, bool has_offsets, tdm_json_writer *w) {
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "ids");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < ids->len; i++) {
        tdm_json_write_i64(w, ids->ids[i]);
    }
    tdm_json_write_end_array(w);
    if (has_offsets) {
        tdm_json_write_key(w, "offsets");
        tdm_json_write_begin_array(w);
        for (size_t i = 0; i < ids->len; i++) {
            tdm_json_write_begin_array(w);
            tdm_json_write_i64(w, ids->offsets != NULL ? ids->offsets[i][0] : 0);
            tdm_json_write_i64(w, ids->offsets != NULL ? ids->offsets[i][1] : 0);
            tdm_json_write_end_array(w);
        }
        tdm_json_write_end_array(w);
    }
}

static tdm_status put_json(tokenize_job *job, const tdm_ids *ids, tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    write_ids(ids, job->options.wants_offsets, &w);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* "1 2 3"; with offsets one token a line: id, begin, end. */
static tdm_status put_plain(tokenize_job *job, const tdm_ids *ids, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    for (size_t i = 0; i < ids->len && status == TDM_OK; i++) {
        if (ids->offsets != NULL) {
            status = tdm_buf_printf(&buf, "%d %u %u\n", (int)ids->ids[i],
                                    (unsigned)ids->offsets[i][0], (unsigned)ids->offsets[i][1]);
        } else {
            status = tdm_buf_printf(&buf, "%d%s", (int)ids->ids[i], i + 1 < ids->len ? " " : "\n");
        }
    }
    status = status == TDM_OK ? tdm_out_bytes(&job->cli->out, buf.data, buf.len, err)
                              : tdm_fail_nomem(err, "the ids");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status put_ids(tokenize_job *job, const char *text, size_t len, bool is_json,
                          tdm_error *err) {
    tdm_ids ids;
    tdm_status status = TDM_OK;
    tdm_ids_init(&ids, job->cli->alloc);
    status = tdm_tokenizer_encode(job->tokenizer, text, len, &job->options, &ids, err);
    if (status == TDM_OK) {
        status = is_json ? put_json(job, &ids, err) : put_plain(job, &ids, err);
    }
    tdm_ids_deinit(&ids);
    return status;
}

static tdm_status answer_line(tokenize_job *job, const char *line, size_t len, tdm_error *err) {
    tdm_json_doc *doc = NULL;
    const tdm_json *root = NULL;
    tdm_status status = TDM_OK;
    char name[64];
    (void)snprintf(name, sizeof name, "standard input, line %zu", job->line);
    TDM_TRY(tdm_json_parse(&doc, job->cli->alloc, line, len, NULL, name, err));
    root = tdm_json_doc_root(doc);
    if (tdm_json_is(root, TDM_JSON_STRING)) {
        status = put_ids(job, root->u.text, root->len, true, err);
    } else {
        status = tdm_fail(err, TDM_E_ARG, "each line is a JSON string");
        tdm_err_where(err, "%s", name);
    }
    tdm_json_doc_destroy(doc);
    return status;
}

static tdm_status tokenize_line(void *arg, const char *line, size_t len, tdm_error *err) {
    tokenize_job *job = arg;
    job->line++;
    return tdm_cli_put_refusal(job->cli, answer_line(job, line, len, err), TDM_RAISED_UNSAID, err);
}

static tdm_status tokenize_all(tokenize_job *job, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&buf, NULL, err), done);
    TDM_TRY_GOTO(status, tdm_input_check_utf8(buf.data, buf.len, "standard input", err), done);
    status = put_ids(job, buf.data != NULL ? buf.data : "", buf.len, job->cli->is_json, err);
done:
    tdm_buf_deinit(&buf);
    return status;
}

tdm_status tdm_verb_tokenize(tdm_cli *cli, tdm_error *err) {
    const tdm_args *args = cli->args;
    tdm_cli_text text;
    tokenize_job job = {
        .cli = cli,
        .options = {.adds_special = !tdm_args_has(args, TDM_OPT_NO_SPECIAL),
                    .parses_special = !tdm_args_has(args, TDM_OPT_NO_PARSE_SPECIAL),
                    .wants_offsets = tdm_args_has(args, TDM_OPT_OFFSETS)},
    };
    tdm_status status = tdm_cli_text_open(cli, args->positional[0], &text, err);
    if (status == TDM_OK) {
        job.tokenizer = text.tokenizer;
        status = tdm_args_has(args, TDM_OPT_JSON_LINES)
                     ? tdm_input_lines(cli->alloc, tokenize_line, &job, err)
                     : tokenize_all(&job, err);
    }
    tdm_cli_text_close(&text);
    return status;
}
