/* SPDX-License-Identifier: Apache-2.0
 *
 * Scoring: the log-probability of every token of a text, chunk by chunk over a cache of its own.
 * Logits of a chunk live only as long as the chunk, and the head runs on pieces of it, so that
 * memory does not grow with the text. */
#include "engine/model_priv.h"

#include "engine/sequence_priv.h"
#include "sample/sampler.h"

#include <math.h>
#include <string.h>

typedef struct score_job {
    tdm_model *model;
    const int32_t *ids;
    size_t n;
    float *logits;
    float *logprobs;
    int32_t n_top;
    tdm_top *top;
} score_job;

static void read_row(const score_job *job, const float *logits, size_t predicted) {
    tdm_sampled scored;
    tdm_logprobs_of(logits, job->model->config.n_vocab, job->ids[predicted], job->n_top, &scored);
    job->logprobs[predicted] = scored.logprob;
    for (int32_t k = 0; job->top != NULL && k < job->n_top; k++) {
        bool is_there = k < scored.n_top;
        tdm_top *out = &job->top[predicted * (size_t)job->n_top + (size_t)k];
        out->id = is_there ? scored.top[k].id : -1;
        out->logprob = is_there ? scored.top[k].logprob : NAN;
    }
}

static tdm_status score_chunks(const score_job *job, tdm_state *state, int32_t chunk,
                               tdm_error *err) {
    size_t n_vocab = (size_t)job->model->config.n_vocab;
    for (size_t begin = 0; begin < job->n; begin += (size_t)chunk) {
        size_t left = job->n - begin;
        tdm_step_row row = {
            .phase = TDM_PHASE_SCORE,
            .state = state,
            .tokens = job->ids + begin,
            .n_tokens = left < (size_t)chunk ? (int32_t)left : chunk,
        };
        tdm_step step = {.rows = &row, .n_rows = 1, .logits = job->logits};
        TDM_TRY(tdm_model_sequence_class(job->model, row.n_tokens, &step.class_id, err));
        TDM_TRY(job->model->graph->ops->forward(job->model->graph, &step, err));
        for (int32_t i = 0; i < row.n_tokens && begin + (size_t)i + 1 < job->n; i++) {
            read_row(job, job->logits + (size_t)i * n_vocab, begin + (size_t)i + 1);
        }
    }
    return TDM_OK;
}

static tdm_status check_score(const tdm_model *model, const int32_t *ids, size_t n, int32_t chunk,
                              int32_t n_top, tdm_error *err) {
    TDM_TRY(tdm_model_need_head(model, err));
    if (n == 0) {
        return tdm_fail(err, TDM_E_ARG, "there is nothing to score");
    }
    if (chunk < 0 || chunk > model->composition.prefill_chunk) {
        (void)tdm_fail(err, TDM_E_ARG, "chunk of %d tokens", (int)chunk);
        tdm_err_limit(err, "0 (default) to %d", (int)model->composition.prefill_chunk);
        return TDM_E_ARG;
    }
    if (n_top < 0 || n_top > TDM_TOP_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "%d best tokens asked for", (int)n_top);
        tdm_err_limit(err, "0 to %d", TDM_TOP_MAX);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= model->config.n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "token id %d has no row in the embedding", (int)ids[i]);
            tdm_err_where(err, "ids[%zu]", i);
            tdm_err_limit(err, "0 to %d", (int)model->config.n_vocab - 1);
            return TDM_E_ARG;
        }
    }
    return tdm_sequence_check_fit(model, n, err);
}

/* Logits of a whole chunk are held at once: 64 rows keep a 150k vocabulary below 40 MB. */
#define SCORE_CHUNK_DEFAULT 64

tdm_status tdm_model_score(tdm_model *model, const int32_t *ids, size_t n, int32_t chunk,
                           float *logprobs, int32_t n_top, tdm_top *top, tdm_error *err) {
    score_job job = {model, ids, n, NULL, logprobs, top != NULL ? n_top : 0, top};
    tdm_status status = TDM_OK;
    tdm_state *state = NULL;
    size_t logits_bytes = 0;
    TDM_TRY(check_score(model, ids, n, chunk, n_top, err));
    if (chunk == 0) {
        chunk = model->composition.prefill_chunk < SCORE_CHUNK_DEFAULT
                    ? model->composition.prefill_chunk
                    : SCORE_CHUNK_DEFAULT;
    }
    logits_bytes = (size_t)chunk * (size_t)model->config.n_vocab * sizeof(float);
    logprobs[0] = NAN;
    for (int32_t k = 0; k < job.n_top; k++) {
        top[k] = (tdm_top){-1, NAN};
    }
    job.logits = tdm_mem_alloc_aligned(model->alloc, logits_bytes, TDM_ALIGN_CACHE_LINE);
    if (job.logits == NULL) {
        return tdm_fail_nomem(err, "a chunk's logits");
    }
    TDM_TRY_GOTO(
        status,
        model->graph->ops->reserve(model->graph, model->composition.prefill_chunk, 1, chunk, err),
        done);
    TDM_TRY_GOTO(status,
                 model->graph->ops->state_create(model->graph, model->composition.kv_dtype,
                                                 model->composition.prefill_chunk, &state, err),
                 done);
    status = score_chunks(&job, state, chunk, err);
done:
    model->graph->ops->state_destroy(model->graph, state);
    tdm_mem_free_aligned(model->alloc, job.logits, logits_bytes, TDM_ALIGN_CACHE_LINE);
    return status;
}
