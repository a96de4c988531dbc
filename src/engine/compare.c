/* SPDX-License-Identifier: Apache-2.0
 *
 * Two models beside each other, chunk by chunk over sequences of their own, so that memory does not grow
 * with the text. */
#include "engine/compare.h"

#include "engine/model_priv.h"
#include "engine/sequence_priv.h"

#include <math.h>
#include <string.h>

#define CHUNK 16
#define SIDES 2

typedef struct side {
    tdm_model *model;
    tdm_state *state;
    float *logits; /* [CHUNK, n_vocab] */
} side;

static size_t logits_bytes(const side *s) {
    return CHUNK * (size_t)s->model->config.n_vocab * sizeof(float);
}

static tdm_status open_side(side *s, tdm_model *model, size_t n, tdm_error *err) {
    *s = (side){.model = model};
    TDM_TRY(tdm_sequence_check_fit(model, n, err));
    s->logits = tdm_mem_alloc_aligned(model->alloc, logits_bytes(s), TDM_ALIGN_CACHE_LINE);
    if (s->logits == NULL) {
        return tdm_fail_nomem(err, "a chunk's logits");
    }
    const int32_t chunk = model->composition.prefill_chunk;
    TDM_TRY(model->graph->ops->reserve(model->graph, chunk, 1, CHUNK, err));
    return model->graph->ops->state_create(model->graph, model->composition.kv_dtype, chunk,
                                           &s->state, err);
}

static void close_side(side *s) {
    if (s->model != NULL) {
        s->model->graph->ops->state_destroy(s->model->graph, s->state);
        tdm_mem_free_aligned(s->model->alloc, s->logits, logits_bytes(s), TDM_ALIGN_CACHE_LINE);
    }
}

static tdm_status step_side(side *s, const int32_t *ids, int32_t n, tdm_error *err) {
    tdm_step_row row = {.phase = TDM_PHASE_SCORE, .state = s->state, .tokens = ids, .n_tokens = n};
    tdm_step step = {.rows = &row, .n_rows = 1, .logits = s->logits};
    TDM_TRY(tdm_model_sequence_class(s->model, n, &step.class_id, err));
    return s->model->graph->ops->forward(s->model->graph, &step, err);
}

/* log(sum(exp(x))), and where the largest is. */
static double log_sum(const float *x, int32_t n, int32_t *out_best) {
    int32_t best = 0;
    double sum = 0.0;
    for (int32_t i = 1; i < n; i++) {
        best = x[i] > x[best] ? i : best;
    }
    for (int32_t i = 0; i < n; i++) {
        sum += exp((double)x[i] - (double)x[best]);
    }
    *out_best = best;
    return (double)x[best] + log(sum);
}

static void add_position(const float *p, const float *q, int32_t n_vocab, int32_t next,
                         tdm_compare_report *out) {
    int32_t best_p = 0;
    int32_t best_q = 0;
    const double log_p = log_sum(p, n_vocab, &best_p);
    const double log_q = log_sum(q, n_vocab, &best_q);
    double kl = 0.0;
    for (int32_t i = 0; i < n_vocab; i++) {
        const double lp = (double)p[i] - log_p;
        kl += exp(lp) * (lp - ((double)q[i] - log_q));
    }
    kl = kl > 0.0 ? kl : 0.0; /* rounding may take it below */
    out->n++;
    out->kl_mean += kl;
    out->kl_max = kl > out->kl_max ? kl : out->kl_max;
    out->top1 += best_p == best_q ? 1.0 : 0.0;
    if (next >= 0) {
        out->nll_ref += log_p - (double)p[next];
        out->nll_test += log_q - (double)q[next];
    }
}

static tdm_status run(side sides[SIDES], const int32_t *ids, size_t n, tdm_compare_report *out,
                      tdm_error *err) {
    const int32_t n_vocab = sides[0].model->config.n_vocab;
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        const int32_t len = n - begin < CHUNK ? (int32_t)(n - begin) : CHUNK;
        for (int s = 0; s < SIDES; s++) {
            TDM_TRY(step_side(&sides[s], ids + begin, len, err));
        }
        for (int32_t i = 0; i < len; i++) {
            const size_t next = begin + (size_t)i + 1;
            const size_t row = (size_t)i * (size_t)n_vocab;
            add_position(sides[0].logits + row, sides[1].logits + row, n_vocab,
                         next < n ? ids[next] : -1, out);
        }
    }
    return TDM_OK;
}

static tdm_status check(const tdm_model *reference, const tdm_model *test, const int32_t *ids,
                        size_t n, tdm_error *err) {
    if (reference->config.n_vocab != test->config.n_vocab) {
        return tdm_fail(err, TDM_E_ARG, "vocabularies of %d and %d tokens do not compare",
                        (int)reference->config.n_vocab, (int)test->config.n_vocab);
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= reference->config.n_vocab) {
            return tdm_fail(err, TDM_E_ARG, "token id %d has no row in the embedding", (int)ids[i]);
        }
    }
    return n > 0 ? TDM_OK : tdm_fail(err, TDM_E_ARG, "there is nothing to compare over");
}

tdm_status tdm_model_compare(tdm_model *reference, tdm_model *test, const int32_t *ids, size_t n,
                             tdm_compare_report *out, tdm_error *err) {
    side sides[SIDES];
    tdm_status status = TDM_OK;
    memset(sides, 0, sizeof sides);
    memset(out, 0, sizeof *out);
    TDM_TRY(check(reference, test, ids, n, err));
    TDM_TRY_GOTO(status, open_side(&sides[0], reference, n, err), done);
    TDM_TRY_GOTO(status, open_side(&sides[1], test, n, err), done);
    TDM_TRY_GOTO(status, run(sides, ids, n, out, err), done);
    out->kl_mean /= (double)out->n;
    out->top1 /= (double)out->n;
    out->nll_ref = n > 1 ? out->nll_ref / (double)(n - 1) : (double)NAN;
    out->nll_test = n > 1 ? out->nll_test / (double)(n - 1) : (double)NAN;
done:
    close_side(&sides[0]);
    close_side(&sides[1]);
    return status;
}
