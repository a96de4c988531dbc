/* SPDX-License-Identifier: Apache-2.0
 *
 * Checking and copying a text request. All checks come before the first allocation, so that a
 * refusal costs nothing; the copies live in one arena. The ranges are those of the sampler, told in
 * the words of the public options; tests hold that what passes here passes there. */
#include "engine/request.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void tdm_request_options_default(tdm_generation_options *options) {
    const tdm_sampling *d = &TDM_SAMPLING_DEFAULT;
    *options = (tdm_generation_options){
        .max_tokens = TDM_MAX_TOKENS_DEFAULT,
        .temperature = d->temperature,
        .top_k = d->top_k,
        .top_p = d->top_p,
        .min_p = d->min_p,
        .top_n_sigma = d->top_n_sigma,
        .xtc_probability = d->xtc_probability,
        .xtc_threshold = d->xtc_threshold,
        .repetition_penalty = d->repetition_penalty,
        .presence_penalty = d->presence_penalty,
        .frequency_penalty = d->frequency_penalty,
        .penalty_window = d->repetition_window,
        .dry_multiplier = d->dry_multiplier,
        .dry_base = d->dry_base,
        .dry_allowed_length = d->dry_allowed_length,
        .mirostat = d->mirostat,
        .mirostat_tau = d->mirostat_tau,
        .mirostat_eta = d->mirostat_eta,
        .n_logprobs = d->n_logprobs,
        .skips_special = true,
    };
}

static tdm_status check_prompt(const tdm_request_input *in, tdm_error *err) {
    if (in->n_prompt == 0 || in->prompt == NULL) {
        (void)tdm_fail(err, TDM_E_ARG, "the prompt is empty");
        tdm_err_where(err, "prompt");
        tdm_err_limit(err, "1 token or more");
        tdm_err_remedy(err, "give at least one token, such as the beginning-of-text token");
        return TDM_E_ARG;
    }
    if (in->n_prompt > (uint64_t)in->context) {
        (void)tdm_fail(err, TDM_E_NO_FIT, "the prompt has %zu tokens", in->n_prompt);
        tdm_err_where(err, "prompt");
        tdm_err_limit(err, "%" PRId64 " positions of context", in->context);
        tdm_err_remedy(err, "shorten the prompt, or open the model with a larger context");
        return TDM_E_NO_FIT;
    }
    for (size_t i = 0; i < in->n_prompt; i++) {
        if (in->prompt[i] < 0 || in->prompt[i] >= in->n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "the prompt holds token %" PRId32, in->prompt[i]);
            tdm_err_where(err, "prompt[%zu]", i);
            tdm_err_limit(err, "0 to %" PRId32, in->n_vocab - 1);
            tdm_err_remedy(err, "tokenize the text with this model's own tokenizer");
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

typedef struct int_rule {
    const char *field;
    int32_t value, low, high;
    const char *remedy;
} int_rule;

static tdm_status check_ints(const tdm_generation_options *o, tdm_error *err) {
    const int_rule rules[] = {
        {"max_tokens", o->max_tokens, 1, INT32_MAX, "ask for at least one token"},
        {"top_k", o->top_k, 0, INT32_MAX, "0 turns top-k off"},
        {"penalty_window", o->penalty_window, 0, INT32_MAX, "0 looks back over everything"},
        {"dry_allowed_length", o->dry_allowed_length, 1, INT32_MAX,
         "set dry_multiplier to 0 to turn DRY off"},
        {"mirostat", o->mirostat, 0, 2, "0 is off; 1 and 2 are the two versions"},
        {"n_logprobs", o->n_logprobs, -1, TDM_TOP_MAX, "-1 asks for none"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const int_rule *r = &rules[i];
        if (r->value < r->low || r->value > r->high) {
            (void)tdm_fail(err, TDM_E_ARG, "%s is %" PRId32, r->field, r->value);
            tdm_err_where(err, "%s", r->field);
            if (r->high == INT32_MAX) {
                tdm_err_limit(err, "%" PRId32 " or more", r->low);
            } else {
                tdm_err_limit(err, "%" PRId32 " to %" PRId32, r->low, r->high);
            }
            tdm_err_remedy(err, "%s", r->remedy);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

typedef struct real_rule {
    const char *field;
    float value, low, high;
    const char *remedy;
} real_rule;

static tdm_status check_reals(const tdm_generation_options *o, tdm_error *err) {
    const real_rule rules[] = {
        {"temperature", o->temperature, 0.0F, 5.0F, "0 is greedy, 1 the model's own distribution"},
        {"top_p", o->top_p, 0.0F, 1.0F, "0 or 1 turns top-p off"},
        {"min_p", o->min_p, 0.0F, 1.0F, "0 turns min-p off"},
        {"top_n_sigma", o->top_n_sigma, 0.0F, 1e6F, "0 turns top-n-sigma off"},
        {"xtc_probability", o->xtc_probability, 0.0F, 1.0F, "0 turns XTC off"},
        {"xtc_threshold", o->xtc_threshold, 0.0F, 0.5F, "above 0.5 XTC could never act"},
        {"repetition_penalty", o->repetition_penalty, 1e-6F, 1e6F, "1 turns it off"},
        {"presence_penalty", o->presence_penalty, -1e6F, 1e6F, "0 turns it off"},
        {"frequency_penalty", o->frequency_penalty, -1e6F, 1e6F, "0 turns it off"},
        {"dry_multiplier", o->dry_multiplier, 0.0F, 1e6F, "0 turns DRY off"},
        {"dry_base", o->dry_base, 1.0F, 1e6F, "1.75 is usual"},
        {"mirostat_tau", o->mirostat_tau, 0.0F, 100.0F, "5 is usual"},
        {"mirostat_eta", o->mirostat_eta, 0.0F, 1.0F, "0.1 is usual"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const real_rule *r = &rules[i];
        if (!(r->value >= r->low && r->value <= r->high)) { /* NaN too */
            (void)tdm_fail(err, TDM_E_ARG, "%s is %g", r->field, (double)r->value);
            tdm_err_where(err, "%s", r->field);
            tdm_err_limit(err, "%g to %g", (double)r->low, (double)r->high);
            tdm_err_remedy(err, "%s", r->remedy);
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

static tdm_status refuse_stop(tdm_error *err, size_t idx, const char *what, const char *remedy) {
    (void)tdm_fail(err, TDM_E_ARG, "stop text %zu %s", idx, what);
    tdm_err_where(err, "stop[%zu]", idx);
    tdm_err_limit(err, "1 to %d bytes of UTF-8", TDM_STOP_BYTES_MAX);
    tdm_err_remedy(err, "%s", remedy);
    return TDM_E_ARG;
}

static tdm_status check_stop(const tdm_generation_options *o, tdm_error *err) {
    if (o->n_stop > TDM_STOP_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "there are %zu stop texts", o->n_stop);
        tdm_err_where(err, "stop");
        tdm_err_limit(err, "%d texts", TDM_STOP_MAX);
        tdm_err_remedy(err, "drop those that another one is the beginning of");
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < o->n_stop; i++) {
        if (o->stop[i] == NULL) {
            return refuse_stop(err, i, "is absent", "n_stop counts more texts than there are");
        }
        const size_t len = strnlen(o->stop[i], TDM_STOP_BYTES_MAX + 1);
        if (len == 0) {
            return refuse_stop(err, i, "is empty", "an empty text would stop every answer at once");
        }
        if (len > TDM_STOP_BYTES_MAX) {
            return refuse_stop(err, i, "is too long", "its beginning is enough");
        }
        if (tdm_utf8_valid_prefix(o->stop[i], len) != len) {
            return refuse_stop(err, i, "is not UTF-8", "answers are UTF-8: it could never occur");
        }
    }
    return TDM_OK;
}

static tdm_status check_bias(const tdm_generation_options *o, int32_t n_vocab, tdm_error *err) {
    if (o->n_bias > TDM_LOGIT_BIAS_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "there are %zu logit biases", o->n_bias);
        tdm_err_where(err, "bias");
        tdm_err_limit(err, "%d entries", TDM_LOGIT_BIAS_MAX);
        tdm_err_remedy(err, "keep the entries that matter most");
        return TDM_E_ARG;
    }
    if (o->n_bias > 0 && o->bias == NULL) {
        (void)tdm_fail(err, TDM_E_ARG, "n_bias is %zu and there is no list", o->n_bias);
        tdm_err_where(err, "bias");
        tdm_err_remedy(err, "give the list, or n_bias 0");
        return TDM_E_ARG;
    }
    for (size_t i = 0; i < o->n_bias; i++) {
        if (o->bias[i].id < 0 || o->bias[i].id >= n_vocab) {
            (void)tdm_fail(err, TDM_E_ARG, "a logit bias names token %" PRId32, o->bias[i].id);
            tdm_err_where(err, "bias[%zu].id", i);
            tdm_err_limit(err, "0 to %" PRId32, n_vocab - 1);
            tdm_err_remedy(err, "ids are those of this model's own tokenizer");
            return TDM_E_ARG;
        }
        if (!(o->bias[i].bias < INFINITY)) { /* NaN too */
            (void)tdm_fail(err, TDM_E_ARG, "a logit bias is %g", (double)o->bias[i].bias);
            tdm_err_where(err, "bias[%zu].bias", i);
            tdm_err_limit(err, "a finite number, or -inf");
            tdm_err_remedy(err, "-inf bans a token; 100 all but forces it");
            return TDM_E_ARG;
        }
    }
    return TDM_OK;
}

/* Lists that the engine makes from the model's files. */
static tdm_status check_list(const char *field, const int32_t *ids, size_t n, size_t n_max,
                             tdm_error *err) {
    if (n > n_max || (n > 0 && ids == NULL)) {
        (void)tdm_fail(err, TDM_E_ARG, "%s counts %zu ids", field, n);
        tdm_err_where(err, "%s", field);
        tdm_err_limit(err, "%zu ids", n_max);
        tdm_err_remedy(err, "give the most important ones, and as many as the count says");
        return TDM_E_ARG;
    }
    return TDM_OK;
}

static tdm_status check(const tdm_request_input *in, const tdm_generation_options *o,
                        tdm_error *err) {
    TDM_TRY(check_prompt(in, err));
    TDM_TRY(check_ints(o, err));
    TDM_TRY(check_reals(o, err));
    TDM_TRY(check_stop(o, err));
    TDM_TRY(check_bias(o, in->n_vocab, err));
    TDM_TRY(check_list("end_ids", in->end_ids, in->n_end_ids, TDM_XTC_EXEMPT_IDS_MAX, err));
    TDM_TRY(check_list("dry_breakers", in->dry_breakers, in->n_dry_breakers, TDM_DRY_BREAKERS_MAX,
                       err));
    if (in->delivery == TDM_DELIVERY_COLLECT && o->n_logprobs >= 0) {
        (void)tdm_fail(err, TDM_E_ARG, "log-probabilities of a collected answer");
        tdm_err_where(err, "n_logprobs");
        tdm_err_remedy(err, "stream the answer, or ask for no log-probabilities");
        return TDM_E_ARG;
    }
    return TDM_OK;
}

/* Copies the ids that the model has: a tokenizer may know more, which are never drawn. *out_n says
 * how many. False when memory is out. */
static bool copy_known(tdm_arena *arena, const int32_t *ids, size_t n, int32_t n_vocab,
                       const int32_t **out_ids, size_t *out_n) {
    int32_t *copy = n > 0 ? tdm_arena_calloc(arena, n, sizeof *copy) : NULL;
    *out_n = 0;
    *out_ids = copy;
    for (size_t i = 0; copy != NULL && i < n; i++) {
        if (ids[i] >= 0 && ids[i] < n_vocab) {
            copy[(*out_n)++] = ids[i];
        }
    }
    return n == 0 || copy != NULL;
}

static bool copy_lists(tdm_request *r, const tdm_request_input *in,
                       const tdm_generation_options *o) {
    tdm_sampling *s = &r->sampling;
    tdm_logit_bias *bias = NULL;
    if (!copy_known(&r->arena, in->prompt, in->n_prompt, in->n_vocab, &r->prompt, &r->n_prompt) ||
        !copy_known(&r->arena, in->end_ids, in->n_end_ids, in->n_vocab, &s->xtc_exempt_ids,
                    &s->n_xtc_exempt) ||
        !copy_known(&r->arena, in->dry_breakers, in->n_dry_breakers, in->n_vocab, &s->dry_breakers,
                    &s->n_dry_breakers)) {
        return false;
    }
    if (o->n_bias > 0) {
        bias = tdm_arena_calloc(&r->arena, o->n_bias, sizeof *bias);
        if (bias == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < o->n_bias; i++) {
        bias[i] = (tdm_logit_bias){o->bias[i].id, o->bias[i].bias};
    }
    s->bias = bias;
    for (size_t i = 0; i < o->n_stop; i++) {
        const size_t len = strlen(o->stop[i]);
        r->stop[i] = (tdm_stop_text){tdm_arena_copy_text(&r->arena, o->stop[i], len), len};
        if (r->stop[i].text == NULL) {
            return false;
        }
    }
    return true;
}

static void fill_sampling(tdm_sampling *s, const tdm_request_input *in,
                          const tdm_generation_options *o) {
    *s = TDM_SAMPLING_DEFAULT;
    s->temperature = o->temperature;
    s->top_k = o->top_k;
    s->top_p = o->top_p;
    s->min_p = o->min_p;
    s->top_n_sigma = o->top_n_sigma;
    s->xtc_probability = o->xtc_probability;
    s->xtc_threshold = o->xtc_threshold;
    s->repetition_penalty = o->repetition_penalty;
    s->presence_penalty = o->presence_penalty;
    s->frequency_penalty = o->frequency_penalty;
    s->repetition_window = o->penalty_window;
    s->presence_window = o->penalty_window;
    s->frequency_window = o->penalty_window;
    s->dry_multiplier = o->dry_multiplier;
    s->dry_base = o->dry_base;
    s->dry_allowed_length = o->dry_allowed_length;
    s->mirostat = o->mirostat;
    s->mirostat_tau = o->mirostat_tau;
    s->mirostat_eta = o->mirostat_eta;
    s->n_bias = o->n_bias;
    s->seed = o->has_seed ? o->seed : in->drawn_seed;
    s->choice = in->choice;
    s->n_logprobs = o->n_logprobs;
}

tdm_status tdm_request_init(tdm_request *request, const tdm_alloc *alloc,
                            const tdm_request_input *input, tdm_error *err) {
    TDM_CHECK(input->n_vocab >= 1 && input->context >= 1);
    tdm_generation_options defaults;
    const tdm_generation_options *o = input->options;
    *request = (tdm_request){0};
    tdm_arena_init(&request->arena, alloc);
    if (o == NULL) {
        tdm_request_options_default(&defaults);
        o = &defaults;
    }
    TDM_TRY(check(input, o, err));
    request->max_tokens = o->max_tokens;
    /* The last token of an answer needs no position of its own: nothing reads it. */
    const int64_t room = input->context - (int64_t)input->n_prompt + 1;
    request->output_limit = room < o->max_tokens ? (int32_t)room : o->max_tokens;
    request->delivery = input->delivery;
    request->ignores_eos = o->ignores_eos;
    request->skips_special = o->skips_special;
    request->has_user_seed = o->has_seed;
    request->n_stop = o->n_stop;
    fill_sampling(&request->sampling, input, o);
    if (!copy_lists(request, input, o)) {
        tdm_request_deinit(request);
        return tdm_fail_nomem(err, "a request");
    }
    return TDM_OK;
}

void tdm_request_deinit(tdm_request *request) {
    tdm_arena_deinit(&request->arena);
    const tdm_arena arena = request->arena;
    *request = (tdm_request){.arena = arena};
}

tdm_exec_requirements tdm_request_requirements(const tdm_request *request) {
    const tdm_sampling *s = &request->sampling;
    return (tdm_exec_requirements){
        .has_repetition_penalty = s->repetition_penalty != 1.0F,
        .has_user_seed = request->has_user_seed,
        .has_logits_extras = s->n_bias > 0 || s->presence_penalty != 0.0F ||
                             s->frequency_penalty != 0.0F || s->dry_multiplier != 0.0F,
        .wants_logprobs = s->n_logprobs >= 0,
    };
}
