/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem embed: texts to vectors. Lines are taken in blocks that share forwards and are answered in
 * order; a line that cannot be embedded gets its refusal and stops nothing. */
#include "cli/load.h"

#include <string.h>

/* Lines that are embedded together; the answer to a line may wait for so many. */
#define LINES_TOGETHER 64

typedef struct embed_line {
    tdm_ids ids;
    tdm_error error; /* code: why it has no vector */
} embed_line;

typedef struct embed_job {
    tdm_cli *cli;
    tdm_model *model;
    tdm_embed_options options;
    tdm_embed_plan plan;
    embed_line lines[LINES_TOGETHER];
    size_t n_lines;
    size_t n_seen;
    float *out; /* [LINES_TOGETHER, dimensions] */
} embed_job;

/* ---- input ---- */

/* Two calls: how many ids, and the ids. */
static tdm_status tokenize(embed_job *job, const char *text, size_t len, tdm_ids *ids,
                           tdm_error *err) {
    size_t n = 0;
    tdm_status status =
        tdm_model_embed_tokenize(job->model, text, len, &job->options, NULL, 0, &n, err);
    if (status != TDM_OK && status != TDM_E_LIMIT) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        if (tdm_ids_append(ids, 0, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return tdm_model_embed_tokenize(job->model, text, len, &job->options, ids->ids, n, &n, err);
}

/* The one text of the command line. */
static tdm_status read_one(embed_job *job, tdm_ids *ids, tdm_error *err) {
    const char *path = tdm_args_text(job->cli->args, TDM_OPT_FILE);
    const char *text = tdm_args_text(job->cli->args, TDM_OPT_PROMPT);
    const char *ids_path = tdm_args_text(job->cli->args, TDM_OPT_IDS);
    tdm_buf buf;
    tdm_status status = TDM_OK;
    if ((path != NULL) + (text != NULL) + (ids_path != NULL) > 1) {
        return tdm_fail(err, TDM_E_ARG, "give the text once: -p, -f or --ids");
    }
    if (ids_path != NULL) {
        return tdm_input_ids(job->cli->alloc, ids_path, ids, err);
    }
    if (text != NULL) {
        TDM_TRY(tdm_input_check_utf8(text, strlen(text), "-p", err));
        return tokenize(job, text, strlen(text), ids, err);
    }
    tdm_buf_init(&buf, job->cli->alloc, 0);
    TDM_TRY_GOTO(status, tdm_input_read(&buf, path, err), done);
    TDM_TRY_GOTO(status, tdm_input_check_utf8(buf.data, buf.len, tdm_input_name(path), err), done);
    status = tokenize(job, buf.data != NULL ? buf.data : "", buf.len, ids, err);
done:
    tdm_buf_deinit(&buf);
    return status;
}

/* A JSON string, or an array of ids. */
static tdm_status read_line(embed_job *job, const char *line, size_t len, tdm_ids *ids,
                            tdm_error *err) {
    tdm_json_doc *doc = NULL;
    const tdm_json *root = NULL;
    tdm_status status = TDM_OK;
    char name[64];
    (void)snprintf(name, sizeof name, "standard input, line %zu", job->n_seen);
    TDM_TRY(tdm_json_parse(&doc, job->cli->alloc, line, len, NULL, name, err));
    root = tdm_json_doc_root(doc);
    status = tdm_json_is(root, TDM_JSON_STRING) ? tokenize(job, root->u.text, root->len, ids, err)
                                                : tdm_input_ids_of(root, name, ids, err);
    tdm_json_doc_destroy(doc);
    return status;
}

/* ---- output ---- */

static void put_vector(tdm_json_writer *w, const float *vector, int32_t n) {
    tdm_json_write_key(w, "embedding");
    tdm_json_write_begin_array(w);
    for (int32_t i = 0; i < n; i++) {
        tdm_json_write_f64(w, (double)vector[i], 9);
    }
    tdm_json_write_end_array(w);
}

static const char *pooling_name(tdm_pooling pooling) {
    return pooling == TDM_POOLING_LAST ? "last" : pooling == TDM_POOLING_MEAN ? "mean" : "cls";
}

static tdm_status put_json(embed_job *job, const tdm_ids *ids, const float *vector,
                           tdm_error *err) {
    const bool is_line = tdm_args_has(job->cli->args, TDM_OPT_JSON_LINES);
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    if (is_line) {
        tdm_json_write_key(&w, "ok");
        tdm_json_write_bool(&w, true);
    } else {
        tdm_json_write_key(&w, "pooling");
        tdm_json_write_cstr(&w, pooling_name(job->plan.pooling));
        tdm_json_write_key(&w, "normalized");
        tdm_json_write_bool(&w, job->plan.length == TDM_LENGTH_ONE);
        tdm_json_write_key(&w, "dimensions");
        tdm_json_write_i64(&w, job->plan.dimensions);
        tdm_json_write_key(&w, "ids");
        tdm_json_write_begin_array(&w);
        for (size_t i = 0; i < ids->len; i++) {
            tdm_json_write_i64(&w, ids->ids[i]);
        }
        tdm_json_write_end_array(&w);
    }
    tdm_json_write_key(&w, "n_tokens");
    tdm_json_write_u64(&w, ids->len);
    put_vector(&w, vector, job->plan.dimensions);
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* Numbers apart by spaces. */
static tdm_status put_plain(embed_job *job, const float *vector, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    for (int32_t i = 0; status == TDM_OK && i < job->plan.dimensions; i++) {
        status = tdm_buf_printf(&buf, "%s%.9g", i == 0 ? "" : " ", (double)vector[i]);
    }
    status = status == TDM_OK ? tdm_buf_append_byte(&buf, '\n') : status;
    status = status == TDM_OK ? tdm_out_bytes(&job->cli->out, buf.data, buf.len, err)
                              : tdm_fail_nomem(err, "the answer");
    tdm_buf_deinit(&buf);
    return status;
}

/* ---- lines ---- */

static tdm_status embed_block(embed_job *job, tdm_error *err) {
    tdm_embed_input inputs[LINES_TOGETHER] = {{0}};
    size_t of[LINES_TOGETHER];
    size_t n = 0;
    tdm_status status = TDM_OK;
    for (size_t i = 0; i < job->n_lines; i++) {
        if (job->lines[i].error.code == TDM_OK) {
            of[n] = i;
            inputs[n++] = (tdm_embed_input){job->lines[i].ids.ids, job->lines[i].ids.len};
        }
    }
    status = tdm_model_embed(job->model, inputs, n, &job->options, job->out, err);
    /* One of them is to blame: each by itself says which. */
    for (size_t k = 0; status != TDM_OK && k < n; k++) {
        embed_line *line = &job->lines[of[k]];
        line->error.code =
            tdm_model_embed(job->model, &inputs[k], 1, &job->options,
                            job->out + k * (size_t)job->plan.dimensions, &line->error);
    }
    return status == TDM_E_NOMEM ? status : TDM_OK;
}

/* Answers the lines that wait. */
static tdm_status flush(embed_job *job, tdm_error *err) {
    size_t n = 0;
    TDM_TRY(embed_block(job, err));
    for (size_t i = 0; i < job->n_lines; i++) {
        embed_line *line = &job->lines[i];
        bool has_vector = line->error.code == TDM_OK;
        if (has_vector) {
            TDM_TRY(put_json(job, &line->ids, job->out + n * (size_t)job->plan.dimensions, err));
        } else {
            *err = line->error;
            TDM_TRY(tdm_cli_put_refusal(job->cli, line->error.code, TDM_RAISED_UNSAID, err));
        }
        n += line->ids.len > 0 ? 1 : 0; /* it had a place in out */
        tdm_ids_deinit(&line->ids);
    }
    job->n_lines = 0;
    return TDM_OK;
}

static tdm_status take_line(void *arg, const char *text, size_t len, tdm_error *err) {
    embed_job *job = arg;
    embed_line *line = &job->lines[job->n_lines++];
    tdm_status status = TDM_OK;
    *line = (embed_line){.error = {.code = TDM_OK}};
    tdm_ids_init(&line->ids, job->cli->alloc);
    job->n_seen++;
    status = read_line(job, text, len, &line->ids, &line->error);
    if (status == TDM_OK && line->ids.len == 0) {
        status = tdm_fail(&line->error, TDM_E_ARG, "a text without tokens");
    }
    line->error.code = status; /* asking for the number of ids has left a TDM_E_LIMIT behind */
    if (status != TDM_OK) {
        tdm_ids_deinit(&line->ids);
    }
    return job->n_lines == LINES_TOGETHER ? flush(job, err) : TDM_OK;
}

static tdm_status embed_lines(embed_job *job, tdm_error *err) {
    tdm_status status = tdm_input_lines(job->cli->alloc, take_line, job, err);
    if (status == TDM_OK) {
        status = flush(job, err);
    }
    for (size_t i = 0; i < job->n_lines; i++) {
        tdm_ids_deinit(&job->lines[i].ids);
    }
    return status;
}

static tdm_status embed_one(embed_job *job, tdm_error *err) {
    tdm_ids ids;
    tdm_status status = TDM_OK;
    tdm_ids_init(&ids, job->cli->alloc);
    TDM_TRY_GOTO(status, read_one(job, &ids, err), done);
    const tdm_embed_input input = {ids.ids, ids.len};
    TDM_TRY_GOTO(status, tdm_model_embed(job->model, &input, 1, &job->options, job->out, err),
                 done);
    status = job->cli->is_json ? put_json(job, &ids, job->out, err) : put_plain(job, job->out, err);
done:
    tdm_ids_deinit(&ids);
    return status;
}

static void read_options(const tdm_args *args, tdm_embed_options *out) {
    static const char *const POOLINGS[] = {"auto", "last", "mean", "cls"};
    const char *pooling = tdm_args_text(args, TDM_OPT_POOLING);
    *out = (tdm_embed_options)TDM_EMBED_OPTIONS_INIT;
    for (int i = 0; pooling != NULL && i < 4; i++) {
        out->pooling = strcmp(POOLINGS[i], pooling) == 0 ? (tdm_pooling)i : out->pooling;
    }
    out->length = tdm_args_has(args, TDM_OPT_NO_NORMALIZE) ? TDM_LENGTH_KEPT : TDM_LENGTH_AUTO;
    out->dimensions = (int32_t)tdm_args_integer(args, TDM_OPT_DIMENSIONS, 0);
    out->prompt_name = tdm_args_text(args, TDM_OPT_PROMPT_NAME);
    out->instruction = tdm_args_text(args, TDM_OPT_INSTRUCT);
}

tdm_status tdm_verb_embed(tdm_cli *cli, tdm_error *err) {
    const bool is_lines = tdm_args_has(cli->args, TDM_OPT_JSON_LINES);
    embed_job *job = tdm_mem_calloc(cli->alloc, 1, sizeof *job);
    tdm_status status = TDM_OK;
    size_t bytes = 0;
    if (job == NULL) {
        return tdm_fail_nomem(err, "a job");
    }
    job->cli = cli;
    read_options(cli->args, &job->options);
    TDM_TRY_GOTO(status, tdm_cli_open_model(cli, cli->args->positional[0], NULL, &job->model, err),
                 done);
    TDM_TRY_GOTO(status, tdm_model_embed_plan(job->model, &job->options, &job->plan, err), done);
    bytes = (is_lines ? LINES_TOGETHER : 1) * (size_t)job->plan.dimensions * sizeof *job->out;
    job->out = tdm_mem_alloc(cli->alloc, bytes);
    if (job->out == NULL) {
        status = tdm_fail_nomem(err, "the vectors");
        goto done;
    }
    status = is_lines ? embed_lines(job, err) : embed_one(job, err);
done:
    tdm_mem_free(cli->alloc, job->out, bytes);
    tdm_model_close(job->model);
    tdm_mem_free(cli->alloc, job, sizeof *job);
    return status;
}
