/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem detokenize: ids in, bytes out. In JSON a text is always UTF-8; where the bytes are none,
 * bytes_hex has them. */
#include "base/utf8.h"
#include "cli/load.h"

#include <string.h>

typedef struct detokenize_job {
    tdm_cli *cli;
    const tdm_tokenizer *tokenizer;
    size_t line;
} detokenize_job;

static void write_hex(const tdm_buf *bytes, tdm_buf *hex, tdm_json_writer *w) {
    static const char DIGITS[] = "0123456789abcdef";
    tdm_buf_reset(hex);
    for (size_t i = 0; i < bytes->len; i++) {
        const unsigned byte = (unsigned char)bytes->data[i];
        if (tdm_buf_append_byte(hex, DIGITS[byte >> 4]) != TDM_OK ||
            tdm_buf_append_byte(hex, DIGITS[byte & 15U]) != TDM_OK) {
            w->status = TDM_E_NOMEM;
            return;
        }
    }
    tdm_json_write_key(w, "bytes_hex");
    tdm_json_write_text(w, hex->data, hex->len);
}

static tdm_status put_json(detokenize_job *job, const tdm_ids *ids, const tdm_buf *bytes,
                           tdm_error *err) {
    tdm_buf text;
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&text, job->cli->alloc, 0);
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    TDM_TRY_GOTO(status,
                 tdm_tokenizer_decode(job->tokenizer, ids->ids, ids->len, false, &text, err), done);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "text");
    tdm_json_write_text(&w, text.data, text.len);
    if (tdm_utf8_valid_prefix(bytes->data, bytes->len) != bytes->len) {
        write_hex(bytes, &text, &w);
    }
    status = tdm_cli_finish_json(job->cli, &w, err);
done:
    tdm_buf_deinit(&buf);
    tdm_buf_deinit(&text);
    return status;
}

static tdm_status put_text(detokenize_job *job, const tdm_json *root, const char *name,
                           bool is_json, tdm_error *err) {
    tdm_ids ids;
    tdm_buf bytes;
    tdm_status status = TDM_OK;
    tdm_ids_init(&ids, job->cli->alloc);
    tdm_buf_init(&bytes, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_ids_of(root, name, &ids, err), done);
    TDM_TRY_GOTO(status,
                 tdm_tokenizer_decode_bytes(job->tokenizer, ids.ids, ids.len, false, &bytes, err),
                 done);
    status = is_json ? put_json(job, &ids, &bytes, err)
                     : tdm_out_text(&job->cli->out, bytes.data, bytes.len, err);
done:
    tdm_buf_deinit(&bytes);
    tdm_ids_deinit(&ids);
    return status;
}

static tdm_status parse_and_put(detokenize_job *job, const char *text, size_t len, const char *name,
                                bool is_json, tdm_error *err) {
    tdm_json_doc *doc = NULL;
    tdm_status status =
        tdm_json_parse(&doc, job->cli->alloc, text, len, &TDM_JSON_LIMITS_TOKENIZER, name, err);
    if (status == TDM_OK) {
        status = put_text(job, tdm_json_doc_root(doc), name, is_json, err);
    }
    tdm_json_doc_destroy(doc);
    return status;
}

static tdm_status detokenize_line(void *arg, const char *line, size_t len, tdm_error *err) {
    detokenize_job *job = arg;
    char name[64];
    job->line++;
    (void)snprintf(name, sizeof name, "standard input, line %zu", job->line);
    return tdm_cli_put_refusal(job->cli, parse_and_put(job, line, len, name, true, err),
                               TDM_RAISED_UNSAID, err);
}

static tdm_status detokenize_all(detokenize_job *job, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&buf, NULL, err), done);
    TDM_TRY_GOTO(status,
                 parse_and_put(job, buf.data != NULL ? buf.data : "", buf.len, "standard input",
                               job->cli->is_json, err),
                 done);
    status = job->cli->out.is_terminal ? tdm_out_end_line(&job->cli->out, err) : TDM_OK;
done:
    tdm_buf_deinit(&buf);
    return status;
}

tdm_status tdm_verb_detokenize(tdm_cli *cli, tdm_error *err) {
    tdm_cli_text text;
    detokenize_job job = {.cli = cli};
    tdm_status status = tdm_cli_text_open(cli, cli->args->positional[0], &text, err);
    if (status == TDM_OK) {
        job.tokenizer = text.tokenizer;
        status = tdm_args_has(cli->args, TDM_OPT_JSON_LINES)
                     ? tdm_input_lines(cli->alloc, detokenize_line, &job, err)
                     : detokenize_all(&job, err);
    }
    tdm_cli_text_close(&text);
    return status;
}
