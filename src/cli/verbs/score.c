/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem score: the log-probability of every token of a text, and its perplexity; in rows of one
 * length, each read from its beginning, where --rows asks for them. */
#include "cli/load.h"
#include "cli/score_text.h"

#include <math.h>
#include <string.h>

typedef struct score_job {
    tdm_cli *cli;
    tdm_model *model;
    tdm_ids ids;
    size_t n;        /* ids that are scored */
    size_t row;      /* tokens of a row */
    float *logprobs; /* [n] */
    tdm_top *top;    /* [n, n_top] or NULL */
    int32_t n_top;
} score_job;

/* A row's first token has nothing before it, and no log-probability. */
static bool is_first(const score_job *job, size_t i) {
    return i % job->row == 0;
}

typedef struct figures {
    size_t n;   /* tokens that count */
    double nll; /* their mean; NaN without one */
    double ppl;
    double ppl_stderr; /* NaN with fewer than two */
} figures;

/* Over the tokens that have a log-probability. Source: mlx_lm/perplexity.py (eval_ppl), whose error of
 * the perplexity is that of the mean times the perplexity (the delta method). */
static figures figures_of(const score_job *job) {
    figures f = {.nll = (double)NAN, .ppl_stderr = (double)NAN};
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = 0; i < job->n; i++) {
        if (!is_first(job, i)) {
            sum -= (double)job->logprobs[i];
            f.n++;
        }
    }
    f.nll = f.n > 0 ? sum / (double)f.n : (double)NAN;
    f.ppl = exp(f.nll);
    for (size_t i = 0; i < job->n; i++) {
        const double off = -(double)job->logprobs[i] - f.nll;
        squares += is_first(job, i) ? 0.0 : off * off;
    }
    if (f.n > 1) {
        f.ppl_stderr = f.ppl * sqrt(squares / (double)(f.n - 1) / (double)f.n);
    }
    return f;
}

static void write_top(const score_job *job, tdm_json_writer *w) {
    tdm_json_write_key(w, "top");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < job->n; i++) {
        tdm_json_write_begin_array(w);
        for (int32_t k = 0; !is_first(job, i) && k < job->n_top; k++) {
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
    const figures f = figures_of(job);
    tdm_buf buf;
    tdm_json_writer w;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, job->cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "n");
    tdm_json_write_u64(&w, job->n);
    tdm_json_write_key(&w, "rows");
    tdm_json_write_u64(&w, job->n / job->row);
    tdm_json_write_key(&w, "nll");
    tdm_json_write_f64(&w, f.nll, 12);
    tdm_json_write_key(&w, "ppl");
    tdm_json_write_f64(&w, f.ppl, 12);
    tdm_json_write_key(&w, "ppl_stderr");
    tdm_json_write_f64(&w, f.ppl_stderr, 12);
    tdm_json_write_key(&w, "ids");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < job->n; i++) {
        tdm_json_write_i64(&w, job->ids.ids[i]);
    }
    tdm_json_write_end_array(&w);
    tdm_json_write_key(&w, "logprobs");
    tdm_json_write_begin_array(&w);
    for (size_t i = 0; i < job->n; i++) {
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
    const figures f = figures_of(job);
    char rows[48] = "";
    char text[200];
    if (job->row < job->n) {
        (void)snprintf(rows, sizeof rows, " in %zu rows", job->n / job->row);
    }
    (void)snprintf(text, sizeof text,
                   "%zu tokens%s, mean negative log-probability %.6f nats, "
                   "perplexity %.4f +- %.4f\n",
                   job->n, rows, f.nll, f.ppl, f.ppl_stderr);
    return tdm_out_cstr(&job->cli->out, text, err);
}

/* How the ids are cut: --rows of the same length, or one row of all. */
static tdm_status cut(score_job *job, tdm_error *err) {
    const int64_t row = tdm_args_integer(job->cli->args, TDM_OPT_ROWS, 0);
    const size_t n = job->ids.len;
    if (n == 0) {
        (void)tdm_fail(err, TDM_E_ARG, "there is nothing to score");
        tdm_err_remedy(err, "give a text with --text FILE, --ids FILE or on standard input");
        return TDM_E_ARG;
    }
    job->row = row > 0 ? (size_t)row : n;
    job->n = n / job->row * job->row;
    if (job->n == 0) {
        (void)tdm_fail(err, TDM_E_ARG, "a text of %zu tokens fills no row of %zu", n, job->row);
        tdm_err_remedy(err, "give a longer text or a smaller --rows");
        return TDM_E_ARG;
    }
    return TDM_OK;
}

static tdm_status score(score_job *job, tdm_error *err) {
    const tdm_args *args = job->cli->args;
    const int32_t chunk = (int32_t)tdm_args_integer(args, TDM_OPT_CHUNK, 0);
    TDM_TRY(cut(job, err));
    job->n_top = (int32_t)tdm_args_integer(args, TDM_OPT_TOP, 0);
    job->logprobs = tdm_mem_calloc(job->cli->alloc, job->n, sizeof *job->logprobs);
    if (job->n_top > 0) {
        job->top = tdm_mem_calloc(job->cli->alloc, job->n * (size_t)job->n_top, sizeof *job->top);
    }
    if (job->logprobs == NULL || (job->n_top > 0 && job->top == NULL)) {
        return tdm_fail_nomem(err, "the log-probabilities");
    }
    for (size_t i = 0; i < job->n; i += job->row) {
        TDM_TRY(tdm_model_score(job->model, job->ids.ids + i, job->row, chunk, job->logprobs + i,
                                job->n_top,
                                job->top != NULL ? job->top + i * (size_t)job->n_top : NULL, err));
    }
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
    TDM_TRY_GOTO(status,
                 path != NULL ? tdm_input_ids(cli->alloc, path, &job.ids, err)
                              : tdm_score_read(cli, job.model, &job.ids, err),
                 done);
    status = score(&job, err);
done:
    tdm_mem_free(cli->alloc, job.logprobs, job.n * sizeof *job.logprobs);
    tdm_mem_free(cli->alloc, job.top, job.n * (size_t)job.n_top * sizeof *job.top);
    tdm_model_close(job.model);
    tdm_ids_deinit(&job.ids);
    return status;
}
