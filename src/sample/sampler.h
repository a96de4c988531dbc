/* SPDX-License-Identifier: Apache-2.0
 *
 * The row sampler: one request's processors, sampler chain, history and random stream. Floor 5.
 *
 * Order (spec/systems.md 130-134, errata 5):
 *   processors  logit bias -> repetition -> presence -> frequency -> DRY
 *   log-probabilities of the processed logits (or of the model's own, logprobs_is_raw)
 *   temperature 0: argmax, lowest index on a tie, no randomness
 *   else        top-n-sigma -> top-p -> min-p -> XTC -> top-k -> draw at logprob / T by Gumbel-max
 *   Mirostat (1 or 2) replaces the truncation chain when it is on.
 * Randomness is a pure function of (seed, choice, token index). */
#ifndef TDM_SAMPLE_SAMPLER_H
#define TDM_SAMPLE_SAMPLER_H

#include "base/alloc.h"

typedef struct tdm_logit_bias {
    int32_t id;
    float bias;
} tdm_logit_bias;

#define TDM_TOP_LOGPROBS_MAX 20
#define TDM_LOGIT_BIAS_MAX 1024
#define TDM_DRY_BREAKERS_MAX 64

typedef struct tdm_sampling {
    float temperature;             /* 0..5; 0: greedy */
    int32_t top_k;                 /* 0: off */
    float top_p;                   /* 0 or >= 1: off */
    float min_p;                   /* 0: off */
    int32_t min_keep;              /* least tokens that min-p leaves; >= 1 */
    float top_n_sigma;             /* 0: off; keep logits >= max - n * stddev */
    float xtc_probability;         /* 0: off */
    float xtc_threshold;           /* <= 0.5 */
    const int32_t *xtc_exempt_ids; /* eos and newline ids */
    size_t n_xtc_exempt;
    float repetition_penalty;                                     /* 1: off; > 0 */
    float presence_penalty;                                       /* 0: off */
    float frequency_penalty;                                      /* 0: off */
    int32_t repetition_window, presence_window, frequency_window; /* default 20; 0: whole history */
    float dry_multiplier;                                         /* 0: off */
    float dry_base;                                               /* 1.75 */
    int32_t dry_allowed_length;                                   /* 2 */
    int32_t dry_window;                                           /* 0: whole history */
    const int32_t *dry_breakers;                                  /* token ids that cut a repeat */
    size_t n_dry_breakers;
    int32_t mirostat;                 /* 0: off, 1, 2 */
    float mirostat_tau, mirostat_eta; /* 5, 0.1 */
    const tdm_logit_bias *bias;
    size_t n_bias;
    uint64_t seed;
    uint32_t choice;
    int32_t n_logprobs; /* -1: none wanted; 0: the chosen one; k <= 20: also the k best */
    bool logprobs_is_raw;
} tdm_sampling;

extern const tdm_sampling TDM_SAMPLING_DEFAULT; /* greedy, everything off */

typedef struct tdm_top_logprob {
    int32_t id;
    float logprob;
} tdm_top_logprob;

typedef struct tdm_sampled {
    int32_t id;
    float logprob; /* of the chosen id; NaN unless asked for */
    int32_t n_top;
    tdm_top_logprob top[TDM_TOP_LOGPROBS_MAX]; /* descending; lower id first on a tie */
} tdm_sampled;

typedef struct tdm_sampler tdm_sampler;

/* Copies the record and its lists. Errors: TDM_E_ARG naming the field, its range in limit;
 * TDM_E_NOMEM. All scratch for n_vocab logits is allocated here, history grows in
 * tdm_sampler_accept only by doubling (reserve it first to be allocation-free). Owner thread only.
 */
TDM_NODISCARD tdm_status tdm_sampler_create(tdm_sampler **out, const tdm_alloc *alloc,
                                            const tdm_sampling *sampling, int32_t n_vocab,
                                            tdm_error *err);
void tdm_sampler_destroy(tdm_sampler *sampler);
/* Room for n more accepted ids. */
TDM_NODISCARD tdm_status tdm_sampler_reserve(tdm_sampler *sampler, size_t n, tdm_error *err);
/* Adds committed ids (the prompt's too) to the history. Only committed tokens ever enter. */
TDM_NODISCARD tdm_status tdm_sampler_accept(tdm_sampler *sampler, const int32_t *ids, size_t n,
                                            tdm_error *err);
/* Forgets all but the first n ids of the history (n at most its length): a sequence went back. What
 * Mirostat learned from the forgotten ones stays. */
void tdm_sampler_rewind(tdm_sampler *sampler, size_t n);
/* Chooses token number token_idx (0 is the first generated one). logits [n_vocab] is scratch
 * afterwards. Allocates nothing. Does not accept the token. A row with no finite logit gives id 0
 * and sets *out_is_finite (may be NULL) to false. */
void tdm_sampler_sample(tdm_sampler *sampler, float *logits, uint32_t token_idx, tdm_sampled *out,
                        bool *out_is_finite);
/* Greedy with no processors, bias or log-probabilities: the group may take one argmax for all such
 * rows. */
bool tdm_sampler_is_plain_greedy(const tdm_sampler *sampler);

/* Log-probability of `id` and the k best of logits [n_vocab] by full log-softmax in f64 sums;
 * logits are not written. */
void tdm_logprobs_of(const float *logits, int32_t n_vocab, int32_t id, int32_t k, tdm_sampled *out);

#endif
