/* SPDX-License-Identifier: Apache-2.0
 *
 * Embedding: inputs packed into forwards, the output of the final norm pooled as it comes. Long
 * inputs go in pieces, short ones together; each has caches of its own, so that neither company nor
 * cuts can change a bit (law G2). Means are summed in f64 in the order of tokens. */
#include "engine/model_priv.h"

#include "engine/sequence_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Inputs of one forward: enough to fill it with short ones, few enough to keep their caches small. */
#define ROWS_MAX 32
#define SCORE_EPS 1e-12 /* torch.nn.functional.normalize */

/* ---- what the options come to ---- */

static tdm_status config_of(tdm_model *model, const tdm_embed_config **out, tdm_error *err) {
    if (model->embed == NULL) {
        tdm_error scratch;
        TDM_TRY(tdm_embed_config_open(&model->embed, model->alloc, model->checkpoint,
                                      model->config.hidden, err != NULL ? err : &scratch));
    }
    *out = model->embed;
    return TDM_OK;
}

static void list_prompts(const tdm_embed_config *config, char *out, size_t cap) {
    const char *text = NULL;
    size_t len = 0;
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; used < cap; i++) {
        const char *name = tdm_embed_config_prompt_at(config, i, &text, &len);
        if (name == NULL) {
            return;
        }
        int n = snprintf(out + used, cap - used, "%s%.40s", i == 0 ? "" : ", ", name);
        used += n > 0 ? (size_t)n : 0;
    }
}

static tdm_status find_prompt(const tdm_embed_config *config, const char *wanted,
                              tdm_embed_plan *out, tdm_error *err) {
    char known[160];
    for (size_t i = 0; i < tdm_embed_config_facts(config)->n_prompts; i++) {
        const char *name = tdm_embed_config_prompt_at(config, i, &out->prompt, &out->prompt_len);
        if (strcmp(name, wanted) == 0) {
            return TDM_OK;
        }
    }
    list_prompts(config, known, sizeof known);
    (void)tdm_fail(err, TDM_E_NOT_FOUND, "the model has no prompt \"%.60s\"", wanted);
    tdm_err_where(err, "prompt_name");
    tdm_err_remedy(err, known[0] != '\0' ? "it has %s" : "it has none", known);
    return TDM_E_NOT_FOUND;
}

static tdm_status choose_prompt(tdm_model *model, const tdm_embed_config *config,
                                const tdm_embed_options *options, tdm_embed_plan *out,
                                tdm_error *err) {
    const tdm_embed_facts *facts = tdm_embed_config_facts(config);
    const char *name = options->prompt_name;
    if (name != NULL && options->instruction != NULL) {
        (void)tdm_fail(err, TDM_E_ARG, "both a prompt and an instruction");
        tdm_err_where(err, "instruction");
        return TDM_E_ARG;
    }
    if (options->instruction != NULL) {
        tdm_buf_reset(&model->embed_prompt);
        if (tdm_buf_printf(&model->embed_prompt, "Instruct: %s\nQuery:", options->instruction) !=
            TDM_OK) {
            return tdm_fail_nomem(err, "an instruction");
        }
        out->prompt = model->embed_prompt.data;
        out->prompt_len = model->embed_prompt.len;
        return TDM_OK;
    }
    name = name != NULL ? name : facts->default_prompt;
    return name != NULL ? find_prompt(config, name, out, err) : TDM_OK;
}

static tdm_status choose_dimensions(const tdm_model *model, const tdm_embed_facts *facts,
                                    const tdm_embed_options *options, tdm_embed_plan *out,
                                    tdm_error *err) {
    int32_t hidden = model->config.hidden;
    int32_t wanted = options->dimensions != 0 ? options->dimensions : facts->dimensions;
    if (wanted < 0 || wanted > hidden) {
        (void)tdm_fail(err, TDM_E_ARG, "vectors of %d dimensions", (int)wanted);
        tdm_err_where(err, "dimensions");
        tdm_err_limit(err, "1 to %d", (int)hidden);
        return TDM_E_ARG;
    }
    out->dimensions = wanted > 0 ? wanted : hidden;
    return TDM_OK;
}

tdm_status tdm_model_embed_plan(tdm_model *model, const tdm_embed_options *options,
                                tdm_embed_plan *out_plan, tdm_error *err) {
    static const tdm_embed_options DEFAULTS = TDM_EMBED_OPTIONS_INIT;
    const tdm_embed_config *config = NULL;
    const tdm_embed_facts *facts = NULL;
    *out_plan = (tdm_embed_plan){0};
    options = options != NULL ? options : &DEFAULTS;
    TDM_TRY(config_of(model, &config, err));
    facts = tdm_embed_config_facts(config);
    TDM_TRY(choose_prompt(model, config, options, out_plan, err));
    TDM_TRY(choose_dimensions(model, facts, options, out_plan, err));
    out_plan->pooling = options->pooling != TDM_POOLING_AUTO ? options->pooling : facts->pooling;
    if (out_plan->pooling == TDM_POOLING_AUTO) {
        out_plan->pooling = TDM_POOLING_LAST;
    }
    out_plan->length = options->length;
    if (out_plan->length == TDM_LENGTH_AUTO) {
        out_plan->length =
            facts->has_modules && !facts->is_normalized ? TDM_LENGTH_KEPT : TDM_LENGTH_ONE;
    }
    out_plan->tokens_max = model->composition.context;
    if (facts->length_max > 0 && facts->length_max < out_plan->tokens_max) {
        out_plan->tokens_max = facts->length_max;
    }
    if (facts->excludes_prompt && out_plan->prompt_len > 0) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "pooling that leaves a prompt's tokens out");
        tdm_err_where(err, "1_Pooling/config.json: include_prompt");
        return TDM_E_UNSUPPORTED;
    }
    return TDM_OK;
}

tdm_status tdm_model_embed_tokenize(tdm_model *model, const char *text, size_t len,
                                    const tdm_embed_options *options, int32_t *ids, size_t cap,
                                    size_t *out_n, tdm_error *err) {
    tdm_embed_plan plan;
    tdm_buf whole;
    tdm_status status = TDM_OK;
    *out_n = 0;
    TDM_TRY(tdm_model_embed_plan(model, options, &plan, err));
    tdm_buf_init(&whole, model->alloc, 0);
    if (tdm_buf_append(&whole, plan.prompt != NULL ? plan.prompt : "", plan.prompt_len) != TDM_OK ||
        tdm_buf_append(&whole, text, len) != TDM_OK) {
        status = tdm_fail_nomem(err, "a text");
    } else {
        status =
            tdm_model_tokenize(model, whole.data != NULL ? whole.data : "", whole.len,
                               TDM_TEXT_ADD_SPECIAL | TDM_TEXT_PARSE_SPECIAL, ids, cap, out_n, err);
    }
    tdm_buf_deinit(&whole);
    return status;
}

/* ---- running ---- */

/* One input on its way. */
typedef struct embed_row {
    tdm_state *state;
    size_t input;
    size_t done;
    int32_t n_now; /* tokens in the running forward */
    double *sum;   /* [hidden] */
} embed_row;

typedef struct embed_job {
    tdm_model *model;
    const tdm_embed_input *inputs;
    size_t n_inputs;
    size_t next; /* first that has not begun */
    tdm_embed_plan plan;
    embed_row rows[ROWS_MAX];
    int32_t n_rows;
    double *sums;
    float *out;
} embed_job;

static tdm_status check_inputs(const embed_job *job, tdm_error *err) {
    for (size_t i = 0; i < job->n_inputs; i++) {
        const tdm_embed_input *input = &job->inputs[i];
        if (input->n == 0) {
            (void)tdm_fail(err, TDM_E_ARG, "an input without tokens");
            tdm_err_where(err, "inputs[%zu]", i);
            return TDM_E_ARG;
        }
        if (input->n > (size_t)job->plan.tokens_max) {
            (void)tdm_fail(err, TDM_E_NO_FIT, "an input of %zu tokens", input->n);
            tdm_err_where(err, "inputs[%zu]", i);
            tdm_err_limit(err, "%lld tokens", (long long)job->plan.tokens_max);
            tdm_err_remedy(err, "cut the text into parts");
            return TDM_E_NO_FIT;
        }
        for (size_t t = 0; t < input->n; t++) {
            if (input->ids[t] < 0 || input->ids[t] >= job->model->config.n_vocab) {
                (void)tdm_fail(err, TDM_E_ARG, "token id %d has no row in the embedding",
                               (int)input->ids[t]);
                tdm_err_where(err, "inputs[%zu].ids[%zu]", i, t);
                tdm_err_limit(err, "0 to %d", (int)job->model->config.n_vocab - 1);
                return TDM_E_ARG;
            }
        }
        TDM_TRY(tdm_sequence_check_fit(job->model, input->n, err));
    }
    return TDM_OK;
}

/* Begins inputs while there are rows and room for at least one token of each. */
static tdm_status begin_rows(embed_job *job, tdm_error *err) {
    tdm_graph *graph = job->model->graph;
    int32_t budget = job->model->composition.prefill_chunk;
    for (int32_t r = 0; r < job->n_rows; r++) {
        size_t left = job->inputs[job->rows[r].input].n - job->rows[r].done;
        budget -= left < (size_t)budget ? (int32_t)left : budget;
    }
    while (job->n_rows < ROWS_MAX && budget > 0 && job->next < job->n_inputs) {
        embed_row *row = &job->rows[job->n_rows];
        size_t n = job->inputs[job->next].n;
        double *sum = row->sum;
        *row = (embed_row){.input = job->next, .sum = sum};
        memset(sum, 0, (size_t)job->model->config.hidden * sizeof *sum);
        TDM_TRY(graph->ops->state_create(graph, job->model->composition.kv_dtype,
                                         job->model->composition.prefill_chunk, &row->state, err));
        job->n_rows++;
        job->next++;
        TDM_TRY(graph->ops->state_reserve(graph, row->state, (int64_t)n, err));
        budget -= n < (size_t)budget ? (int32_t)n : budget;
    }
    return TDM_OK;
}

/* Called with the output of each layer; what is after the final norm counts. */
static void pool(void *arg, int32_t layer, const float *hidden, int64_t n_tokens, int64_t width) {
    embed_job *job = arg;
    (void)n_tokens;
    if (layer != job->model->graph->facts.n_layers) {
        return;
    }
    for (int32_t r = 0; r < job->n_rows; r++) {
        embed_row *row = &job->rows[r];
        size_t n = job->inputs[row->input].n;
        for (int32_t t = 0; t < row->n_now; t++, hidden += width) {
            size_t at = row->done + (size_t)t;
            bool counts = job->plan.pooling == TDM_POOLING_MEAN ||
                          at == (job->plan.pooling == TDM_POOLING_LAST ? n - 1 : 0);
            for (int64_t i = 0; counts && i < width; i++) {
                row->sum[i] += (double)hidden[i];
            }
        }
    }
}

/* sum becomes the vector of its input. */
static void finish(const embed_job *job, const embed_row *row) {
    int32_t n = job->plan.dimensions;
    float *out = job->out + row->input * (size_t)n;
    double divisor =
        job->plan.pooling == TDM_POOLING_MEAN ? (double)job->inputs[row->input].n : 1.0;
    double square = 0.0;
    for (int32_t i = 0; i < n; i++) {
        row->sum[i] /= divisor;
        square += row->sum[i] * row->sum[i];
    }
    divisor = job->plan.length == TDM_LENGTH_ONE ? fmax(sqrt(square), SCORE_EPS) : 1.0;
    for (int32_t i = 0; i < n; i++) {
        out[i] = (float)(row->sum[i] / divisor);
    }
}

/* Ends the rows that are through; the others move up, each with its own sum. */
static void end_rows(embed_job *job) {
    int32_t n = 0;
    for (int32_t r = 0; r < job->n_rows; r++) {
        embed_row row = job->rows[r];
        row.done += (size_t)row.n_now;
        if (row.done == job->inputs[row.input].n) {
            finish(job, &row);
            job->model->graph->ops->state_destroy(job->model->graph, row.state);
            job->rows[r].state = NULL;
            continue;
        }
        double *free_sum = job->rows[n].sum;
        job->rows[r].sum = free_sum;
        job->rows[r].state = NULL;
        job->rows[n++] = row;
    }
    job->n_rows = n;
}

static tdm_status run_step(embed_job *job, tdm_error *err) {
    tdm_step_row rows[ROWS_MAX];
    int32_t budget = job->model->composition.prefill_chunk;
    tdm_step step = {.rows = rows, .n_rows = job->n_rows, .tap = pool, .tap_arg = job};
    int64_t n_total = 0;
    for (int32_t r = 0; r < job->n_rows; r++) {
        embed_row *row = &job->rows[r];
        const tdm_embed_input *input = &job->inputs[row->input];
        size_t left = input->n - row->done;
        /* begin_rows left a token for each that comes after */
        int32_t most = budget - (job->n_rows - 1 - r);
        row->n_now = left < (size_t)most ? (int32_t)left : most;
        budget -= row->n_now;
        rows[r] = (tdm_step_row){.phase = TDM_PHASE_EMBED,
                                 .state = row->state,
                                 .tokens = input->ids + row->done,
                                 .n_tokens = row->n_now,
                                 .logits_from = row->n_now};
        n_total += row->n_now;
    }
    TDM_TRY(tdm_model_sequence_class(job->model, n_total, &step.class_id, err));
    TDM_TRY(job->model->graph->ops->forward(job->model->graph, &step, err));
    end_rows(job);
    return TDM_OK;
}

static tdm_status run_all(embed_job *job, tdm_error *err) {
    while (job->next < job->n_inputs || job->n_rows > 0) {
        TDM_TRY(begin_rows(job, err));
        TDM_TRY(run_step(job, err));
    }
    return TDM_OK;
}

tdm_status tdm_model_embed(tdm_model *model, const tdm_embed_input *inputs, size_t n_inputs,
                           const tdm_embed_options *options, float *out, tdm_error *err) {
    embed_job job = {.model = model, .inputs = inputs, .n_inputs = n_inputs, .out = out};
    size_t hidden = (size_t)model->config.hidden;
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_model_embed_plan(model, options, &job.plan, err));
    TDM_TRY(check_inputs(&job, err));
    job.sums = tdm_mem_calloc(model->alloc, ROWS_MAX * hidden, sizeof *job.sums);
    if (job.sums == NULL) {
        return tdm_fail_nomem(err, "sums of an embedding");
    }
    for (int32_t r = 0; r < ROWS_MAX; r++) {
        job.rows[r].sum = job.sums + (size_t)r * hidden;
    }
    TDM_TRY_GOTO(status,
                 model->graph->ops->reserve(model->graph, model->composition.prefill_chunk,
                                            ROWS_MAX, 1, err),
                 done);
    status = run_all(&job, err);
done:
    for (int32_t r = 0; r < job.n_rows; r++) {
        model->graph->ops->state_destroy(model->graph, job.rows[r].state);
    }
    tdm_mem_free(model->alloc, job.sums, ROWS_MAX * hidden * sizeof *job.sums);
    return status;
}
