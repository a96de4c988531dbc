/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-probabilities of a row: the log-softmax over the whole vocabulary, summed in f64, and the k
 * best. A NaN counts as -inf and an infinity as the largest float, as everywhere in this room. */
#include "sample/sampler_priv.h"

#include <float.h>
#include <math.h>

/* The k best keys of x into best, ascending; returns how many there are (ids above -inf). Blocks
 * whose maximum cannot enter are skipped; a later id never wins a tie, so "above" is enough. */
static size_t best_keys(const float *x, int32_t n, size_t k, uint64_t *best) {
    size_t len = 0;
    float bar = -INFINITY;
    for (int32_t at = 0; at < n; at += TDM_ROW_BLOCK) {
        const int32_t end = n - at < TDM_ROW_BLOCK ? n : at + TDM_ROW_BLOCK;
        int n_above = 0;
        for (int32_t i = at; i < end; i++) {
            n_above += x[i] > bar ? 1 : 0;
        }
        for (int32_t i = at; i < end && n_above > 0; i++) {
            const float v = x[i] < FLT_MAX ? x[i] : FLT_MAX;
            if (!(x[i] > bar && v > bar)) {
                continue;
            }
            const uint64_t key = tdm_row_key(v, i);
            size_t j = len < k ? len++ : k - 1;
            for (; j > 0 && best[j - 1] > key; j--) {
                best[j] = best[j - 1];
            }
            best[j] = key;
            bar = len == k ? tdm_row_key_logit(best[k - 1]) : -INFINITY;
        }
    }
    return len;
}

tdm_normaliser tdm_normaliser_of(const float *logits, int32_t n_vocab) {
    tdm_normaliser norm = {.max = (double)NAN, .log_sum = (double)NAN};
    float max = 0.0F;
    (void)tdm_argmax(logits, n_vocab, &max);
    if (max > -INFINITY) {
        max = max < FLT_MAX ? max : FLT_MAX;
        norm.max = (double)max;
        norm.log_sum = log(tdm_exp_sum(logits, n_vocab, max, 1.0F));
    }
    return norm;
}

float tdm_normaliser_logprob(const tdm_normaliser *norm, float logit) {
    if (isnan(norm->max)) {
        return NAN;
    }
    if (!(logit > -INFINITY)) { /* NaN and masked ids */
        return -INFINITY;
    }
    const double clamped = logit < FLT_MAX ? (double)logit : (double)FLT_MAX;
    return (float)((clamped - norm->max) - norm->log_sum);
}

int32_t tdm_normaliser_top(const tdm_normaliser *norm, const float *logits, int32_t n_vocab,
                           int32_t k, tdm_top_logprob *out) {
    uint64_t best[TDM_TOP_LOGPROBS_MAX];
    if (isnan(norm->max) || k <= 0) {
        return 0;
    }
    const size_t want = (size_t)(k < TDM_TOP_LOGPROBS_MAX ? k : TDM_TOP_LOGPROBS_MAX);
    const size_t n = best_keys(logits, n_vocab, want, best);
    for (size_t i = 0; i < n; i++) {
        out[i].id = tdm_row_key_id(best[i]);
        out[i].logprob = tdm_normaliser_logprob(norm, tdm_row_key_logit(best[i]));
    }
    return (int32_t)n;
}

void tdm_logprobs_of(const float *logits, int32_t n_vocab, int32_t id, int32_t k,
                     tdm_sampled *out) {
    const tdm_normaliser norm = tdm_normaliser_of(logits, n_vocab);
    out->id = id;
    out->logprob = tdm_normaliser_logprob(&norm, logits[id]);
    out->n_top = tdm_normaliser_top(&norm, logits, n_vocab, k, out->top);
}
