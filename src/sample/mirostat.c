/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirostat 1 and 2: a cut whose place is steered so that the surprise of the text stays near tau
 * bits. Source: Basu et al., "Mirostat" (arXiv 2007.14966), with the constants that users of
 * llama.cpp expect: mu starts at 2 tau, version 1 estimates its exponent from the 100 best. */
#include "sample/sampler_priv.h"

#include <math.h>

#define ESTIMATE_FROM 100
#define LN_2 0.69314718055994530942

/* Zipf exponent of the best tokens by least squares through the origin, then the k whose cut has
 * the expected surprise mu. keys: sorted, at most ESTIMATE_FROM. */
static size_t zipf_k(const uint64_t *keys, size_t n, double temperature, double mu,
                     int32_t n_vocab) {
    double tb = 0.0;
    double tt = 0.0;
    for (size_t i = 0; i + 1 < n; i++) {
        const double t = log(((double)i + 2.0) / ((double)i + 1.0));
        const double b =
            ((double)tdm_row_key_logit(keys[i]) - (double)tdm_row_key_logit(keys[i + 1])) /
            temperature; /* log(p_i / p_i+1) */
        tb += t * b;
        tt += t * t;
    }
    const double vocab = (double)n_vocab;
    const double s = tt > 0.0 ? tb / tt : 0.0;
    const double eps = s - 1.0;
    double scale = 0.0; /* eps / (1 - N^-eps), 1 / ln N where eps is 0 */
    if (fabs(eps) < 1e-9) {
        scale = vocab > 1.0 ? 1.0 / log(vocab) : 1.0;
    } else {
        scale = eps / (1.0 - pow(vocab, -eps));
    }
    const double k = pow(scale * pow(2.0, mu), 1.0 / s);
    if (!(k < vocab)) { /* a flat row (s 0) too */
        return (size_t)n_vocab;
    }
    return k >= 1.0 ? (size_t)k : 1;
}

static void cut_version_1(tdm_row *row, double temperature, double mu) {
    uint64_t best[ESTIMATE_FROM];
    if (row->is_dense) {
        tdm_row_keep_top(row, ESTIMATE_FROM);
    }
    const size_t n = row->n_keys;
    memcpy(best, row->keys, n * sizeof best[0]);
    tdm_keys_sort(best, n);
    const size_t k = zipf_k(best, n, temperature, mu, row->n_vocab);
    if (k > n) { /* more than were looked at */
        row->is_dense = true;
    }
    tdm_row_keep_top(row, k);
}

static void cut_version_2(tdm_row *row, float inv_t, double temperature, double mu) {
    const double log_sum = log(tdm_row_mass(row, inv_t));
    const double least = temperature * (log_sum - mu * LN_2); /* relative to the best */
    if (least > 0.0) {
        tdm_row_keep_top(row, 1);
    } else {
        tdm_row_keep_at_least(row, tdm_float_at_least((double)row->max + least));
    }
}

int32_t tdm_sampler_mirostat(tdm_sampler *sampler, const tdm_stream *stream) {
    tdm_row *row = &sampler->row;
    tdm_mirostat *state = &sampler->mirostat;
    const double t = (double)sampler->options.temperature;
    const float inv_t = t < 1e-30 ? 1e30F : (float)(1.0 / t);
    float logit = 0.0F;
    if (sampler->options.mirostat == 1) {
        cut_version_1(row, t, state->mu);
    } else {
        cut_version_2(row, inv_t, t, state->mu);
    }
    const int32_t id = tdm_row_draw(row, sampler->options.temperature, stream, &logit);
    const double log_p = ((double)logit - (double)row->max) / t - log(tdm_row_mass(row, inv_t));
    state->pending_id = id;
    state->pending_surprise = -log_p / LN_2;
    return id;
}

void tdm_mirostat_accept(tdm_mirostat *state, const tdm_sampling *options, int32_t id) {
    if (id == state->pending_id) {
        const double error = state->pending_surprise - (double)options->mirostat_tau;
        state->mu -= (double)options->mirostat_eta * error;
    }
    state->pending_id = -1;
}
