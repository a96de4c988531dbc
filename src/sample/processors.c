/* SPDX-License-Identifier: Apache-2.0
 *
 * The logit processors: additive bias, the three penalties and DRY, each over its own window of the
 * committed history. Window 0 means the whole history.
 *
 * DRY penalises a token that would continue a repeat: for each earlier place whose preceding tokens
 * equal the end of the history, the token at that place is pushed down by
 * multiplier * base^(length - allowed_length). Source: the sampler's description in llama.cpp
 * (PR 9702): repeats never reach across a breaker, a breaker itself is never penalised, and the
 * exponent stops where a float would overflow. */
#include "sample/sampler_priv.h"

#include <float.h>
#include <math.h>

/* Tail of the history that a window covers. */
static const int32_t *window_of(const tdm_sampler *sampler, int32_t window, size_t *out_n) {
    size_t n = sampler->n_history;
    if (window > 0 && (size_t)window < n) {
        n = (size_t)window;
    }
    *out_n = n;
    return sampler->n_history > 0 ? sampler->history + (sampler->n_history - n) : NULL;
}

/* A number for one walk over the history: stamps equal to it mark the ids seen in this walk. */
static uint32_t next_stamp(tdm_sampler *sampler) {
    sampler->stamp++;
    if (sampler->stamp == 0) { /* once in 2^32 walks */
        memset(sampler->stamps, 0, (size_t)sampler->n_vocab * sizeof *sampler->stamps);
        sampler->stamp = 1;
    }
    return sampler->stamp;
}

static void apply_repetition(tdm_sampler *sampler, float *logits) {
    const float penalty = sampler->options.repetition_penalty;
    const uint32_t stamp = next_stamp(sampler);
    size_t n = 0;
    const int32_t *ids = window_of(sampler, sampler->options.repetition_window, &n);
    for (size_t i = 0; i < n; i++) {
        const int32_t id = ids[i];
        if (sampler->stamps[id] != stamp) {
            sampler->stamps[id] = stamp;
            logits[id] = logits[id] < 0.0F ? logits[id] * penalty : logits[id] / penalty;
        }
    }
}

static void apply_presence(tdm_sampler *sampler, float *logits) {
    const uint32_t stamp = next_stamp(sampler);
    size_t n = 0;
    const int32_t *ids = window_of(sampler, sampler->options.presence_window, &n);
    for (size_t i = 0; i < n; i++) {
        if (sampler->stamps[ids[i]] != stamp) {
            sampler->stamps[ids[i]] = stamp;
            logits[ids[i]] -= sampler->options.presence_penalty;
        }
    }
}

static void apply_frequency(const tdm_sampler *sampler, float *logits) {
    size_t n = 0;
    const int32_t *ids = window_of(sampler, sampler->options.frequency_window, &n);
    for (size_t i = 0; i < n; i++) {
        logits[ids[i]] -= sampler->options.frequency_penalty;
    }
}

static bool is_breaker(const tdm_sampling *options, int32_t id) {
    for (size_t i = 0; i < options->n_dry_breakers; i++) {
        if (options->dry_breakers[i] == id) {
            return true;
        }
    }
    return false;
}

/* repeats[k] = how many tokens that end k before the last equal the tokens that end at the last:
 * the Z function of the window read backwards. back(i) is the i-th token from the end. O(n). */
static void find_repeats(const int32_t *ids, size_t n, int32_t *repeats) {
    const int32_t *last = ids + (n - 1);
    size_t left = 0;
    size_t right = 0; /* [left, right) is the furthest-reaching match so far */
    for (size_t k = 1; k < n; k++) {
        size_t len = 0;
        if (k < right) {
            len = (size_t)repeats[k - left];
            len = len < right - k ? len : right - k;
        }
        while (k + len < n && *(last - len) == *(last - k - len)) {
            len++;
        }
        if (k + len > right) {
            left = k;
            right = k + len;
        }
        repeats[k] = (int32_t)len;
    }
}

static void apply_dry(tdm_sampler *sampler, float *logits) {
    const tdm_sampling *options = &sampler->options;
    size_t n = 0;
    size_t reach = 0; /* tokens after the last breaker */
    const int32_t *ids = window_of(sampler, options->dry_window, &n);
    while (reach < n && !is_breaker(options, ids[n - 1 - reach])) {
        reach++;
    }
    const size_t allowed = (size_t)options->dry_allowed_length;
    if (n < 2 || reach < allowed) {
        return;
    }
    find_repeats(ids, n, sampler->repeats);
    for (size_t k = 1; k < n; k++) {
        size_t len = (size_t)sampler->repeats[k];
        int32_t *longest = &sampler->longest[ids[n - k]]; /* the token after that place */
        len = len < reach ? len : reach;
        if (len >= allowed && (size_t)*longest < len) {
            *longest = (int32_t)len;
        }
    }
    const double base = (double)options->dry_base;
    const double most = base > 1.000001 ? floor(log((double)FLT_MAX) / log(base)) : (double)n;
    for (size_t k = 1; k < n; k++) {
        const int32_t id = ids[n - k];
        if (sampler->longest[id] > 0 && !is_breaker(options, id)) {
            const double excess = (double)sampler->longest[id] - (double)allowed;
            const double penalty =
                (double)options->dry_multiplier * pow(base, excess < most ? excess : most);
            logits[id] = (float)((double)logits[id] - penalty);
        }
        sampler->longest[id] = 0;
    }
}

void tdm_sampler_process(tdm_sampler *sampler, float *logits) {
    const tdm_sampling *options = &sampler->options;
    for (size_t i = 0; i < options->n_bias; i++) {
        logits[options->bias[i].id] += options->bias[i].bias;
    }
    if (options->repetition_penalty != 1.0F) {
        apply_repetition(sampler, logits);
    }
    if (options->presence_penalty != 0.0F) {
        apply_presence(sampler, logits);
    }
    if (options->frequency_penalty != 0.0F) {
        apply_frequency(sampler, logits);
    }
    if (options->dry_multiplier != 0.0F) {
        apply_dry(sampler, logits);
    }
}
