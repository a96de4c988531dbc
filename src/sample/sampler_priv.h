/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's insides, shared by the files of the room. Floor 5, private. */
#ifndef TDM_SAMPLE_SAMPLER_PRIV_H
#define TDM_SAMPLE_SAMPLER_PRIV_H

#include "sample/row.h"
#include "sample/sampler.h"

#define TDM_XTC_EXEMPT_MAX 64

/* What Mirostat knows. mu is a function of committed tokens only: a draw leaves its surprise as
 * pending, and accepting that same token takes it over. A rejected draft leaves no trace. */
typedef struct tdm_mirostat {
    double mu;
    double pending_surprise; /* bits */
    int32_t pending_id;      /* -1: none */
} tdm_mirostat;

struct tdm_sampler {
    const tdm_alloc *alloc;
    tdm_sampling options; /* its lists are owned copies */
    int32_t n_vocab;
    bool has_processors;
    tdm_row row;      /* empty for a greedy sampler */
    float *raw;       /* [n_vocab] the model's own logits, or NULL */
    int32_t *history; /* [history_cap] committed ids */
    size_t n_history;
    size_t history_cap;
    uint32_t *stamps; /* [n_vocab] last walk that saw an id, or NULL */
    uint32_t stamp;
    int32_t *repeats; /* [history_cap] DRY: repeat lengths, or NULL */
    int32_t *longest; /* [n_vocab] DRY: longest repeat an id would extend; zero between calls */
    tdm_mirostat mirostat;
};

/* What turns a logit of one row into a log-probability: both NaN when nothing is above -inf. */
typedef struct tdm_normaliser {
    double max;
    double log_sum; /* of exp(logit - max) */
} tdm_normaliser;

tdm_normaliser tdm_normaliser_of(const float *logits, int32_t n_vocab);
float tdm_normaliser_logprob(const tdm_normaliser *norm, float logit);
/* The k best into out, descending; returns how many there are. */
int32_t tdm_normaliser_top(const tdm_normaliser *norm, const float *logits, int32_t n_vocab,
                           int32_t k, tdm_top_logprob *out);
/* Every field against its range. Errors: TDM_E_ARG. */
TDM_NODISCARD tdm_status tdm_sampling_check(const tdm_sampling *s, int32_t n_vocab, tdm_error *err);
/* Bias, repetition, presence, frequency, DRY, in that order, in place. */
void tdm_sampler_process(tdm_sampler *sampler, float *logits);
/* Cuts the loaded row and draws; leaves the surprise pending. */
int32_t tdm_sampler_mirostat(tdm_sampler *sampler, const tdm_stream *stream);
/* A committed token. */
void tdm_mirostat_accept(tdm_mirostat *state, const tdm_sampling *options, int32_t id);

#endif
