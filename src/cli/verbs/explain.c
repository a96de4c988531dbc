/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem explain: what a conversation becomes for the model. The rendered text by segments, every
 * token with where it came from, how the answer will be read, and what looks wrong: a special token
 * that a message spells, which stayed text. The text side of a checkpoint is enough. */
#include "cli/chat_request.h"
#include "cli/load.h"
#include "engine/engine.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct explain_job {
    tdm_cli *cli;
    tdm_cli_text text;
    tdm_template_output output; /* the rendering */
    tdm_text_segment *segments; /* [output.n_spans] */
    tdm_ids ids;                /* of the prompt, with offsets */
    const tdm_chat_template *chosen;
    int32_t end_ids[TDM_CONFIG_EOS_MAX + 64];
    size_t n_end_ids;
    tdm_buf warnings; /* texts, a NUL behind each */
} explain_job;

/* ---- finding out ---- */

static tdm_status render(explain_job *job, const tdm_chat_request *request, tdm_error *err) {
    const tdm_json root = tdm_chat_request_root(request);
    const int64_t now_ns = job->cli->clock->unix_ns(job->cli->clock->ctx);
    TDM_TRY(tdm_chat_templates_choose(job->text.templates, &root, &job->chosen, err));
    return tdm_chat_render(job->chosen->tmpl, job->cli->alloc, &root,
                           tdm_cli_text_special_tokens(&job->text), now_ns / 1000000000,
                           &job->output, err);
}

/* Makes ids tell offsets: an empty text that asks for them adds nothing else. */
static tdm_status want_offsets(const explain_job *job, tdm_ids *ids, tdm_error *err) {
    const tdm_encode_options options = {.wants_offsets = true};
    return tdm_tokenizer_encode(job->text.tokenizer, "", 0, &options, ids, err);
}

static tdm_status encode(explain_job *job, tdm_error *err) {
    const tdm_template_output *o = &job->output;
    job->segments = tdm_mem_calloc(job->cli->alloc, o->n_spans, sizeof *job->segments);
    if (job->segments == NULL) {
        return tdm_fail_nomem(err, "a prompt's segments");
    }
    for (size_t i = 0; i < o->n_spans; i++) {
        job->segments[i] = (tdm_text_segment){
            .text = o->text.data + o->spans[i].begin,
            .len = o->spans[i].end - o->spans[i].begin,
            .is_trusted = o->spans[i].is_trusted,
        };
    }
    TDM_TRY(want_offsets(job, &job->ids, err));
    return tdm_tokenizer_encode_segments(job->text.tokenizer, job->segments, o->n_spans, false,
                                         &job->ids, err);
}

static bool is_special(const explain_job *job, int32_t id) {
    return tdm_tokenizer_kind(job->text.tokenizer, id) == TDM_TOKEN_CONTROL;
}

/* The segment of a byte of the text; *hint is where to begin, for a walk in order. */
static size_t segment_of(const tdm_template_output *o, size_t at, size_t *hint) {
    while (*hint + 1 < o->n_spans && o->spans[*hint].end <= at) {
        (*hint)++;
    }
    return *hint;
}

/* Whether all of [begin, end) is the template's, from the segment that holds begin. */
static bool is_trusted(const tdm_template_output *o, size_t segment, size_t end) {
    bool trusted = segment < o->n_spans;
    for (size_t i = segment; i < o->n_spans && (i == segment || o->spans[i].begin < end); i++) {
        trusted = trusted && o->spans[i].is_trusted;
    }
    return trusted;
}

static tdm_status warn(explain_job *job, tdm_error *err, const char *fmt, ...) TDM_PRINTF(3, 4);

static tdm_status warn(explain_job *job, tdm_error *err, const char *fmt, ...) {
    char text[256];
    va_list list;
    va_start(list, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return n >= 0 && tdm_buf_append(&job->warnings, text, strlen(text) + 1) == TDM_OK
               ? TDM_OK
               : tdm_fail_nomem(err, "a warning");
}

/* Reads the whole text as if all of it were trusted: special tokens that this finds and the prompt
 * does not have were spelled by a message. */
static tdm_status find_spelled(explain_job *job, tdm_error *err) {
    const tdm_encode_options options = {.parses_special = true, .wants_offsets = true};
    const tdm_template_output *o = &job->output;
    size_t hint = 0;
    tdm_ids all;
    tdm_status status = TDM_OK;
    tdm_ids_init(&all, job->cli->alloc);
    status = tdm_tokenizer_encode(job->text.tokenizer, o->text.len > 0 ? o->text.data : "",
                                  o->text.len, &options, &all, err);
    for (size_t i = 0; status == TDM_OK && i < all.len; i++) {
        size_t len = 0;
        const char *spelling = tdm_tokenizer_spelling(job->text.tokenizer, all.ids[i], &len);
        if (spelling == NULL || !is_special(job, all.ids[i])) {
            continue;
        }
        const size_t segment = segment_of(o, all.offsets[i][0], &hint);
        if (!is_trusted(o, segment, all.offsets[i][1])) {
            status = warn(job, err,
                          "a message spells the special token %.100s (byte %u of the prompt); it "
                          "stays text",
                          spelling, (unsigned)all.offsets[i][0]);
        }
    }
    tdm_ids_deinit(&all);
    return status;
}

static void add_end_id(explain_job *job, int32_t id) {
    for (size_t i = 0; i < job->n_end_ids; i++) {
        if (job->end_ids[i] == id) {
            return;
        }
    }
    if (job->n_end_ids < sizeof job->end_ids / sizeof job->end_ids[0]) {
        job->end_ids[job->n_end_ids++] = id;
    }
}

/* As the engine ends answers: by the config's list and the tokenizer's own. */
static void find_end_ids(explain_job *job) {
    tdm_model_config config = {0};
    if (tdm_model_config_read(&config, job->text.checkpoint, NULL) == TDM_OK) {
        for (int32_t i = 0; i < config.n_eos; i++) {
            add_end_id(job, config.eos_ids[i]);
        }
    }
    for (size_t i = 0; i < tdm_tokenizer_n_eog(job->text.tokenizer); i++) {
        add_end_id(job, tdm_tokenizer_eog_at(job->text.tokenizer, i));
    }
}

static tdm_status find_warnings(explain_job *job, tdm_error *err) {
    TDM_TRY(find_spelled(job, err));
    if (job->n_end_ids == 0) {
        TDM_TRY(warn(job, err, "no token is known to end an answer"));
    }
    if (job->ids.len == 0) {
        TDM_TRY(warn(job, err, "the prompt is empty"));
    }
    return TDM_OK;
}

static bool opens_in_reasoning(const explain_job *job) {
    const tdm_buf *text = &job->output.text;
    return text->len > 0 &&
           tdm_dialect_opens_in_reasoning(job->chosen->dialect, text->data, text->len);
}

/* What a token stands for: a special one's spelling, else the bytes of the text that it came from.
 */
static const char *token_text(const explain_job *job, size_t idx, size_t *out_len) {
    const uint32_t *range = job->ids.offsets[idx];
    const char *spelling = NULL;
    if (is_special(job, job->ids.ids[idx]) || range[1] <= range[0] ||
        range[1] > job->output.text.len) {
        spelling = tdm_tokenizer_spelling(job->text.tokenizer, job->ids.ids[idx], out_len);
        return spelling != NULL ? spelling : "";
    }
    *out_len = range[1] - range[0];
    return job->output.text.data + range[0];
}

/* ---- telling, as JSON ---- */

static void write_segments(const explain_job *job, tdm_json_writer *w) {
    tdm_json_write_key(w, "segments");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < job->output.n_spans; i++) {
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "text");
        tdm_json_write_text(w, job->segments[i].text, job->segments[i].len);
        tdm_json_write_key(w, "trusted");
        tdm_json_write_bool(w, job->segments[i].is_trusted);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

static void write_tokens(const explain_job *job, tdm_json_writer *w) {
    size_t hint = 0;
    tdm_json_write_key(w, "tokens");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < job->ids.len; i++) {
        size_t len = 0;
        const char *text = token_text(job, i, &len);
        const size_t segment = segment_of(&job->output, job->ids.offsets[i][0], &hint);
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "id");
        tdm_json_write_i64(w, job->ids.ids[i]);
        tdm_json_write_key(w, "text");
        tdm_json_write_text(w, text, len);
        tdm_json_write_key(w, "special");
        tdm_json_write_bool(w, is_special(job, job->ids.ids[i]));
        tdm_json_write_key(w, "trusted");
        tdm_json_write_bool(w, is_trusted(&job->output, segment, job->ids.offsets[i][1]));
        tdm_json_write_key(w, "segment");
        tdm_json_write_u64(w, segment);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

static tdm_status put_json(explain_job *job, tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "text");
    tdm_json_write_text(&w, job->output.text.data, job->output.text.len);
    write_segments(job, &w);
    write_tokens(job, &w);
    tdm_json_write_key(&w, "template");
    tdm_json_write_cstr(&w, job->chosen->name);
    tdm_json_write_key(&w, "dialect");
    tdm_json_write_cstr(&w, tdm_dialect_name(job->chosen->dialect));
    tdm_json_write_key(&w, "opens_in_reasoning");
    tdm_json_write_bool(&w, opens_in_reasoning(job));
    tdm_json_write_key(&w, "end_ids");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < job->n_end_ids; i++) {
        tdm_json_write_i64(&w, job->end_ids[i]);
    }
    tdm_json_write_end_array(&w);
    tdm_json_write_key(&w, "warnings");
    tdm_json_write_begin_array(&w);
    for (size_t at = 0; at < job->warnings.len; at += strlen(job->warnings.data + at) + 1) {
        tdm_json_write_cstr(&w, job->warnings.data + at);
    }
    tdm_json_write_end_array(&w);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* ---- telling, for a person ---- */

/* In quotes, escaped as JSON does it. */
static tdm_status put_quoted(tdm_buf *buf, const char *text, size_t len) {
    tdm_json_writer w;
    tdm_json_writer_init(&w, buf);
    tdm_json_write_text(&w, text, len);
    return tdm_json_writer_status(&w);
}

static tdm_status put_head(const explain_job *job, tdm_buf *buf) {
    TDM_TRY(tdm_buf_printf(
        buf, "template  %s\ndialect   %s\nthought   %s\ntokens    %zu\nends with",
        job->chosen->name, tdm_dialect_name(job->chosen->dialect),
        opens_in_reasoning(job) ? "opened by the prompt" : "not opened", job->ids.len));
    for (size_t i = 0; i < job->n_end_ids; i++) {
        size_t len = 0;
        const char *spelling = tdm_tokenizer_spelling(job->text.tokenizer, job->end_ids[i], &len);
        TDM_TRY(tdm_buf_printf(buf, " %d ", (int)job->end_ids[i]));
        TDM_TRY(put_quoted(buf, spelling, len));
    }
    return tdm_buf_append_text(buf, job->n_end_ids > 0 ? "\n" : " nothing\n");
}

static tdm_status put_segments(const explain_job *job, tdm_buf *buf) {
    TDM_TRY(tdm_buf_append_text(buf, "\nsegments\n"));
    for (size_t i = 0; i < job->output.n_spans; i++) {
        TDM_TRY(tdm_buf_printf(buf, "%5zu  %s  ", i,
                               job->segments[i].is_trusted ? "template" : "message "));
        TDM_TRY(put_quoted(buf, job->segments[i].text, job->segments[i].len));
        TDM_TRY(tdm_buf_append_byte(buf, '\n'));
    }
    return TDM_OK;
}

static tdm_status put_tokens(const explain_job *job, tdm_buf *buf) {
    size_t hint = 0;
    TDM_TRY(tdm_buf_append_text(buf, "\ntokens\n     id  segment\n"));
    for (size_t i = 0; i < job->ids.len; i++) {
        size_t len = 0;
        const char *text = token_text(job, i, &len);
        const size_t segment = segment_of(&job->output, job->ids.offsets[i][0], &hint);
        TDM_TRY(tdm_buf_printf(buf, "%7d  %5zu %c ", (int)job->ids.ids[i], segment,
                               is_special(job, job->ids.ids[i]) ? '*' : ' '));
        TDM_TRY(put_quoted(buf, text, len));
        TDM_TRY(tdm_buf_append_byte(buf, '\n'));
    }
    return tdm_buf_append_text(buf, "* special\n");
}

static tdm_status put_warnings(const explain_job *job, tdm_buf *buf) {
    if (job->warnings.len > 0) {
        TDM_TRY(tdm_buf_append_text(buf, "\nwarnings\n"));
    }
    for (size_t at = 0; at < job->warnings.len; at += strlen(job->warnings.data + at) + 1) {
        TDM_TRY(tdm_buf_printf(buf, "  %s\n", job->warnings.data + at));
    }
    return TDM_OK;
}

static tdm_status put_plain(explain_job *job, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, put_head(job, &buf), done);
    TDM_TRY_GOTO(status, put_segments(job, &buf), done);
    TDM_TRY_GOTO(status, put_tokens(job, &buf), done);
    status = put_warnings(job, &buf);
done:
    status = status == TDM_OK ? tdm_out_text(&job->cli->out, buf.data, buf.len, err)
                              : tdm_fail_nomem(err, "an explanation");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status explain(explain_job *job, const char *path, tdm_error *err) {
    tdm_chat_request request = {.n = 0};
    tdm_buf source;
    tdm_status status = TDM_OK;
    tdm_buf_init(&source, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&source, path, err), done);
    TDM_TRY_GOTO(status,
                 tdm_chat_request_init(&request, job->cli, source.data != NULL ? source.data : "",
                                       source.len, tdm_input_name(path), err),
                 done);
    TDM_TRY_GOTO(status, render(job, &request, err), done);
    TDM_TRY_GOTO(status, encode(job, err), done);
    find_end_ids(job);
    TDM_TRY_GOTO(status, find_warnings(job, err), done);
    status = job->cli->is_json ? put_json(job, err) : put_plain(job, err);
done:
    tdm_chat_request_deinit(&request);
    tdm_buf_deinit(&source);
    return status;
}

tdm_status tdm_verb_explain(tdm_cli *cli, tdm_error *err) {
    const tdm_args *args = cli->args;
    explain_job job = {.cli = cli};
    tdm_status status = TDM_OK;
    tdm_ids_init(&job.ids, cli->alloc);
    tdm_buf_init(&job.warnings, cli->alloc, 0);
    tdm_template_output_init(&job.output, cli->alloc);
    TDM_TRY_GOTO(status, tdm_cli_text_open(cli, args->positional[0], &job.text, err), done);
    TDM_TRY_GOTO(
        status,
        tdm_cli_text_open_templates(cli, &job.text, tdm_args_text(args, TDM_OPT_TEMPLATE), err),
        done);
    status = explain(&job, args->positional[1], err);
done:
    tdm_mem_free(cli->alloc, job.segments, job.output.n_spans * sizeof *job.segments);
    tdm_template_output_deinit(&job.output);
    tdm_buf_deinit(&job.warnings);
    tdm_ids_deinit(&job.ids);
    tdm_cli_text_close(&job.text);
    return status;
}
