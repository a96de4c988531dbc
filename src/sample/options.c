/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sampling record may say. Every field has a range; a value outside it is an error that
 * names the field and its range, never a silent default. */
#include "sample/sampler_priv.h"

#include <math.h>

const tdm_sampling TDM_SAMPLING_DEFAULT = {
    .min_keep = 1,
    .xtc_threshold = 0.1F,
    .repetition_penalty = 1.0F,
    .repetition_window = 20,
    .presence_window = 20,
    .frequency_window = 20,
    .dry_base = 1.75F,
    .dry_allowed_length = 2,
    .mirostat_tau = 5.0F,
    .mirostat_eta = 0.1F,
    .n_logprobs = -1,
};

typedef struct real_rule {
    const char *field;
    float value;
    float low;
    float high;
} real_rule;

typedef struct int_rule {
    const char *field;
    int32_t value;
    int32_t low;
    int32_t high;
} int_rule;

static tdm_status check_reals(const tdm_sampling *s, tdm_error *err) {
    const real_rule rules[] = {
        {"temperature", s->temperature, 0.0F, 5.0F},
        {"top_p", s->top_p, 0.0F, 1e6F},
        {"min_p", s->min_p, 0.0F, 1.0F},
        {"top_n_sigma", s->top_n_sigma, 0.0F, 1e6F},
        {"xtc_probability", s->xtc_probability, 0.0F, 1.0F},
        {"xtc_threshold", s->xtc_threshold, 0.0F, 0.5F},
        {"repetition_penalty", s->repetition_penalty, 1e-6F, 1e6F},
        {"presence_penalty", s->presence_penalty, -1e6F, 1e6F},
        {"frequency_penalty", s->frequency_penalty, -1e6F, 1e6F},
        {"dry_multiplier", s->dry_multiplier, 0.0F, 1e6F},
        {"dry_base", s->dry_base, 1.0F, 1e6F},
        {"mirostat_tau", s->mirostat_tau, 0.0F, 100.0F},
        {"mirostat_eta", s->mirostat_eta, 0.0F, 1.0F},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const real_rule *r = &rules[i];
        if (!(r->value >= r->low && r->value <= r->high)) { /* NaN too */
            (void)tdm_fail(err, TDM_E_ARG, "sampling: %s is %g", r->field, (double)r->value);
            tdm_err_where(err, "%s", r->field);
            tdm_err_limit(err, "%g to %g", (double)r->low, (double)r->high);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

static tdm_status check_ints(const tdm_sampling *s, tdm_error *err) {
    const int_rule rules[] = {
        {"top_k", s->top_k, 0, INT32_MAX},
        {"min_keep", s->min_keep, 1, INT32_MAX},
        {"repetition_window", s->repetition_window, 0, INT32_MAX},
        {"presence_window", s->presence_window, 0, INT32_MAX},
        {"frequency_window", s->frequency_window, 0, INT32_MAX},
        {"dry_allowed_length", s->dry_allowed_length, 1, INT32_MAX},
        {"dry_window", s->dry_window, 0, INT32_MAX},
        {"mirostat", s->mirostat, 0, 2},
        {"n_logprobs", s->n_logprobs, -1, TDM_TOP_LOGPROBS_MAX},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const int_rule *r = &rules[i];
        if (r->value < r->low || r->value > r->high) {
            (void)tdm_fail(err, TDM_E_ARG, "sampling: %s is %d", r->field, r->value);
            tdm_err_where(err, "%s", r->field);
            tdm_err_limit(err, "%d to %d", r->low, r->high);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

static tdm_status check_list(const char *field, const int32_t *ids, size_t n, size_t n_max,
                             int32_t n_vocab, tdm_error *err) {
    if (n > n_max || (n > 0 && ids == NULL)) {
        (void)tdm_fail(err, TDM_E_ARG, "sampling: %s holds %zu ids%s", field, n,
                       ids == NULL ? " and no list" : "");
        tdm_err_where(err, "%s", field);
        tdm_err_limit(err, "at most %zu ids", n_max);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "sampling: %s names token %d", field, ids[i]);
            tdm_err_where(err, "%s[%zu]", field, i);
            tdm_err_limit(err, "0 to %d", n_vocab - 1);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

static tdm_status check_bias(const tdm_sampling *s, int32_t n_vocab, tdm_error *err) {
    if (s->n_bias > TDM_LOGIT_BIAS_MAX || (s->n_bias > 0 && s->bias == NULL)) {
        (void)tdm_fail(err, TDM_E_ARG, "sampling: logit_bias holds %zu entries%s", s->n_bias,
                       s->bias == NULL ? " and no list" : "");
        tdm_err_where(err, "logit_bias");
        tdm_err_limit(err, "at most %d entries", TDM_LOGIT_BIAS_MAX);
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < s->n_bias; i++) {
        const tdm_logit_bias *b = &s->bias[i];
        if (b->id < 0 || b->id >= n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "sampling: logit_bias names token %d", b->id);
            tdm_err_where(err, "logit_bias[%zu]", i);
            tdm_err_limit(err, "0 to %d", n_vocab - 1);
            return TDM_E_ARG;
        }
        if (!(b->bias < INFINITY)) { /* NaN too; -inf bans the token */
            (void)tdm_fail(err, TDM_E_ARG, "sampling: logit_bias of token %d is %g", b->id,
                           (double)b->bias);
            tdm_err_where(err, "logit_bias[%zu]", i);
            tdm_err_limit(err, "a finite number, or -inf to ban the token");
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

tdm_status tdm_sampling_check(const tdm_sampling *s, int32_t n_vocab, tdm_error *err) {
    if (n_vocab < 1) {
        (void)tdm_fail(err, TDM_E_ARG, "sampling: a vocabulary of %d tokens", n_vocab);
        tdm_err_where(err, "n_vocab");
        tdm_err_limit(err, "1 to %d", INT32_MAX);
        return TDM_E_ARG;
    }
    TDM_TRY(check_reals(s, err));
    TDM_TRY(check_ints(s, err));
    TDM_TRY(check_list("xtc_exempt_ids", s->xtc_exempt_ids, s->n_xtc_exempt, TDM_XTC_EXEMPT_MAX,
                       n_vocab, err));
    TDM_TRY(check_list("dry_breakers", s->dry_breakers, s->n_dry_breakers, TDM_DRY_BREAKERS_MAX,
                       n_vocab, err));
    return check_bias(s, n_vocab, err);
}
