/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem score: the log-probability of every token of a text. The first token has none: nothing
 * comes before it. */
#include "cli/load.h"

#include <math.h>
#include <string.h>

typedef struct score_job {
    tdm_cli *cli;
    tdm_model *model;
    tdm_ids ids;
    float *logprobs; /* [n] */
    tdm_top *top;    /* [n, n_top] or NULL */
    int32_t n_top;
} score_job;

/* Two calls: how many ids, and the ids. */
static tdm_status tokenize(score_job *job, const tdm_buf *text, tdm_error *err) {
    size_t n = 0;
    tdm_status status = tdm_model_tokenize(job->model, text->data, text->len, TDM_TEXT_ADD_SPECIAL,
                                           NULL, 0, &n, err);
    if (status != TDM_OK && status != TDM_E_LIMIT) {
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        if (tdm_ids_append(&job->ids, 0, 0, 0) != TDM_OK) {
            return tdm_fail_nomem(err, "the ids");
        }
    }
    return tdm_model_tokenize(job->model, text->data, text->len, TDM_TEXT_ADD_SPECIAL, job->ids.ids,
                              n, &n, err);
}

static tdm_status read_text(score_job *job, tdm_error *err) {
    const char *path = tdm_args_text(job->cli->args, TDM_OPT_TEXT);
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    status = tdm_input_read(&buf, path, err);
    if (status == TDM_OK) {
        status = tdm_input_check_utf8(buf.data, buf.len, tdm_input_name(path), err);
    }
    if (status == TDM_OK && buf.len > 0) {
        status = tokenize(job, &buf, err);
    }
    tdm_buf_deinit(&buf);
    return status;
}

/* Mean over the tokens that have a log-probability; NaN without one. */
static double mean_nll(const score_job *job) {
    double sum = 0.0;
    for (size_t i = 1; i < job->ids.len; i++) {
        sum -= (double)job->logprobs[i];
    }
    return job->ids.len > 1 ? sum / (double)(job->ids.len - 1) : (double)NAN;
}

static void write_top(const score_job *job, tdm_json_writer *w) {
    tdm_json_write_key(w, "top");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < job->ids.len; i++) {
        tdm_json_write_begin_array(w);
        for (int32_t k = 0; i > 0 && k < job->n_top; k++) {
            const tdm_top *top = &job->top[i * (size_t)job->n_top + (size_t)k];
            if (top->id < 0) {
                continue;
            }
            tdm_json_write_begin_object(w);
            tdm_json_write_key(w, "id");
            tdm_json_write_i64(w, top->id);
            tdm_json_write_key(w, "logprob");
            tdm_json_write_f64(w, (double)top->logprob, 9);
            tdm_json_write_end_object(w);
        }
        tdm_json_write_end_array(w);
    }
    tdm_json_write_end_array(w);
}

static tdm_status put_json(score_job *job, tdm_error *err) {
    const double nll = mean_nll(job);
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "n");
    tdm_json_write_u64(&w, job->ids.len);
    tdm_json_write_key(&w, "nll");
    tdm_json_write_f64(&w, nll, 12);
    tdm_json_write_key(&w, "ppl");
    tdm_json_write_f64(&w, exp(nll), 12);
    tdm_json_write_key(&w, "ids");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < job->ids.len; i++) {
        tdm_json_write_i64(&w, job->ids.ids[i]);
    }
    tdm_json_write_end_array(&w);
    tdm_json_write_key(&w, "logprobs");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < job->ids.len; i++) {
        tdm_json_write_f64(&w, (double)job->logprobs[i], 9);
    }
    tdm_json_write_end_array(&w);
    if (job->top != NULL) {
        write_top(job, &w);
    }
    status = tdm_cli_finish_json(job->cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status put_plain(score_job *job, tdm_error *err) {
    const double nll = mean_nll(job);
    char text[160];
    (void)snprintf(text, sizeof text,
                   "%zu tokens, mean negative log-probability %.6f nats, "
                   "perplexity %.4f\n",
                   job->ids.len, nll, exp(nll));
    return tdm_out_cstr(&job->cli->out, text, err);
}

static tdm_status score(score_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const int32_t chunk = (int32_t)tdm_args_integer(args, TDM_OPT_CHUNK, 0);
    const size_t n = job->ids.len;
    if (n == 0) {
        (void)tdm_fail(err, TDM_E_ARG, "there is nothing to score");
        tdm_err_remedy(err, "give a text with --text FILE, --ids FILE or on standard input");
        return TDM_E_ARG;
    }
    job->n_top = (int32_t)tdm_args_integer(args, TDM_OPT_TOP, 0);
    job->logprobs = tdm_mem_calloc(job->cli->alloc, n, sizeof *job->logprobs);
    if (job->n_top > 0) {
        job->top = tdm_mem_calloc(job->cli->alloc, n * (size_t)job->n_top, sizeof *job->top);
    }
    if (job->logprobs == NULL || (job->n_top > 0 && job->top == NULL)) {
        return tdm_fail_nomem(err, "the log-probabilities");
    }
    TDM_TRY(tdm_model_score(job->model, job->ids.ids, n, chunk, job->logprobs, job->n_top, job->top,
                            err));
    return job->cli->is_json ? put_json(job, err) : put_plain(job, err);
}

tdm_status tdm_verb_score(tdm_cli *cli, tdm_error *err) {
    const tdm_args *args = cli->args;
    const char *path = tdm_args_text(args, TDM_OPT_IDS);
    tdm_model_options options;
    score_job job = {.cli = cli};
    tdm_status status = TDM_OK;
    if (path != NULL && tdm_args_has(args, TDM_OPT_TEXT)) {
        return tdm_fail(err, TDM_E_ARG, "give the text once: --text or --ids");
    }
    tdm_ids_init(&job.ids, cli->alloc);
    tdm_cli_model_options(cli, &options);
    options.n_batch = (int32_t)tdm_args_integer(args, TDM_OPT_CHUNK, 0);
    TDM_TRY_GOTO(status, tdm_cli_open_model(cli, args->positional[0], &options, &job.model, err),
                 done);
    TDM_TRY_GOTO(
        status,
        path != NULL ? tdm_input_ids(cli->alloc, path, &job.ids, err) : read_text(&job, err), done);
    status = score(&job, err);
done:
    tdm_mem_free(cli->alloc, job.logprobs, job.ids.len * sizeof *job.logprobs);
    tdm_mem_free(cli->alloc, job.top, job.ids.len * (size_t)job.n_top * sizeof *job.top);
    tdm_model_close(job.model);
    tdm_ids_deinit(&job.ids);
    return status;
}
