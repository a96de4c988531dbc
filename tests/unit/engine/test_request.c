/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: what is refused and in which words, what is copied, and that whatever passes here
 * passes the sampler. */
#include "support/support.h"

#include "engine/request.h"

#include <math.h>

#define N_VOCAB 100

static const int32_t PROMPT[] = {1, 5, 99};

static tdm_request_input input_of(const tdm_generation_options *options) {
    return (tdm_request_input){.prompt = PROMPT,
                               .n_prompt = SUPPORT_LEN(PROMPT),
                               .options = options,
                               .n_vocab = N_VOCAB,
                               .context = 1000,
                               .drawn_seed = 77};
}

static tdm_generation_options neutral(void) {
    tdm_generation_options o;
    tdm_request_options_default(&o);
    return o;
}

static void defaults_hold(void **state) {
    (void)state;
    const tdm_request_input in = input_of(NULL);
    tdm_request r;
    assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
    assert_int_equal(r.max_tokens, 512);
    assert_int_equal(r.output_limit, 512);
    assert_int_equal(r.n_prompt, 3);
    assert_int_equal(r.n_stop, 0);
    assert_true(r.skips_special);
    assert_false(r.has_user_seed);
    assert_int_equal(r.sampling.seed, 77);
    assert_int_equal(r.sampling.n_logprobs, -1);
    assert_true(r.sampling.temperature == 0.0F);
    const tdm_exec_requirements nothing = {0};
    const tdm_exec_requirements got = tdm_request_requirements(&r);
    assert_memory_equal(&got, &nothing, sizeof got);
    tdm_request_deinit(&r);
    tdm_request_deinit(&r); /* harmless */
}

/* All messages so far, to see that no two refusals sound alike. */
#define MESSAGE_MAX (sizeof(tdm_error) + 8)
static char messages[64][MESSAGE_MAX];
static size_t n_messages;

static void expect_refused(const tdm_request_input *in, tdm_status status, const char *where,
                           bool has_limit) {
    tdm_alloc_tracker tracker;
    tdm_request r;
    tdm_error err;
    char text[MESSAGE_MAX];
    tdm_alloc_tracker_init(&tracker, NULL);
    assert_int_equal(tdm_request_init(&r, &tracker.alloc, in, &err), status);
    assert_int_equal(err.code, status);
    assert_string_equal(err.where, where);
    assert_true(err.what[0] != '\0' && err.remedy[0] != '\0');
    assert_int_equal(err.limit[0] != '\0', has_limit);
    assert_int_equal(tracker.n_calls, 0); /* a refusal costs nothing */
    (void)snprintf(text, sizeof text, "%s; %s; %s; %s", err.what, err.where, err.limit, err.remedy);
    for (size_t i = 0; i < n_messages; i++) {
        assert_string_not_equal(text, messages[i]);
    }
    assert_true(n_messages < SUPPORT_LEN(messages));
    memcpy(messages[n_messages++], text, sizeof text);
}

static void bad_prompts(void **state) {
    (void)state;
    int32_t ids[] = {0, 1, 2, 3};
    tdm_request_input in = input_of(NULL);
    in.n_prompt = 0;
    expect_refused(&in, TDM_E_ARG, "prompt", true);
    in = input_of(NULL);
    in.context = 2;
    expect_refused(&in, TDM_E_NO_FIT, "prompt", true);
    in = input_of(NULL);
    in.prompt = ids;
    in.n_prompt = 4;
    ids[2] = N_VOCAB;
    expect_refused(&in, TDM_E_ARG, "prompt[2]", true);
    ids[2] = -1;
    expect_refused(&in, TDM_E_ARG, "prompt[2]", true);
    ids[2] = INT32_MIN;
    expect_refused(&in, TDM_E_ARG, "prompt[2]", true);
}

#define REFUSE(field, value, where)                                                                \
    do {                                                                                           \
        tdm_generation_options o_ = neutral();                                                     \
        o_.field = (value);                                                                        \
        const tdm_request_input in_ = input_of(&o_);                                               \
        expect_refused(&in_, TDM_E_ARG, (where), true);                                            \
    } while (0)

static void bad_numbers(void **state) {
    (void)state;
    REFUSE(max_tokens, 0, "max_tokens");
    REFUSE(max_tokens, -3, "max_tokens");
    REFUSE(top_k, -1, "top_k");
    REFUSE(penalty_window, -1, "penalty_window");
    REFUSE(dry_allowed_length, 0, "dry_allowed_length");
    REFUSE(mirostat, 3, "mirostat");
    REFUSE(n_logprobs, 21, "n_logprobs");
    REFUSE(n_logprobs, -2, "n_logprobs");
    REFUSE(temperature, 5.01F, "temperature");
    REFUSE(temperature, -0.5F, "temperature");
    REFUSE(temperature, NAN, "temperature");
    REFUSE(top_p, 1.5F, "top_p");
    REFUSE(min_p, -0.1F, "min_p");
    REFUSE(top_n_sigma, INFINITY, "top_n_sigma");
    REFUSE(xtc_probability, 1.1F, "xtc_probability");
    REFUSE(xtc_threshold, 0.6F, "xtc_threshold");
    REFUSE(repetition_penalty, 0.0F, "repetition_penalty");
    REFUSE(presence_penalty, NAN, "presence_penalty");
    REFUSE(frequency_penalty, -INFINITY, "frequency_penalty");
    REFUSE(dry_multiplier, -1.0F, "dry_multiplier");
    REFUSE(dry_base, 0.5F, "dry_base");
    REFUSE(mirostat_tau, 101.0F, "mirostat_tau");
    REFUSE(mirostat_eta, -0.1F, "mirostat_eta");
}

static void bad_lists(void **state) {
    (void)state;
    char long_stop[TDM_STOP_BYTES_MAX + 2];
    tdm_bias bias[] = {{3, 1.0F}, {N_VOCAB, 1.0F}};
    static tdm_bias many[TDM_LOGIT_BIAS_MAX + 1];
    static const int32_t many_ids[TDM_XTC_EXEMPT_IDS_MAX + 1];
    tdm_generation_options o = neutral();
    tdm_request_input in = input_of(&o);
    memset(long_stop, 'x', sizeof long_stop - 1);
    long_stop[sizeof long_stop - 1] = '\0';
    for (size_t i = 0; i < TDM_STOP_MAX; i++) {
        o.stop[i] = "end";
    }
    o.n_stop = TDM_STOP_MAX + 1;
    expect_refused(&in, TDM_E_ARG, "stop", true);
    o.n_stop = 3;
    o.stop[2] = "";
    expect_refused(&in, TDM_E_ARG, "stop[2]", true);
    o.stop[2] = NULL;
    expect_refused(&in, TDM_E_ARG, "stop[2]", true);
    o.stop[2] = long_stop;
    expect_refused(&in, TDM_E_ARG, "stop[2]", true);
    o.stop[2] = "caf\xE9";
    expect_refused(&in, TDM_E_ARG, "stop[2]", true);
    o = neutral();
    o.bias = many;
    o.n_bias = SUPPORT_LEN(many);
    expect_refused(&in, TDM_E_ARG, "bias", true);
    o.bias = NULL;
    o.n_bias = 4;
    expect_refused(&in, TDM_E_ARG, "bias", false);
    o.bias = bias;
    o.n_bias = 2;
    expect_refused(&in, TDM_E_ARG, "bias[1].id", true);
    bias[1] = (tdm_bias){4, NAN};
    expect_refused(&in, TDM_E_ARG, "bias[1].bias", true);
    bias[1] = (tdm_bias){4, INFINITY};
    expect_refused(&in, TDM_E_ARG, "bias[1].bias", true);
    o = neutral();
    o.n_logprobs = 0;
    in.delivery = TDM_DELIVERY_COLLECT;
    expect_refused(&in, TDM_E_ARG, "n_logprobs", false);
    in = input_of(NULL);
    in.end_ids = many_ids;
    in.n_end_ids = SUPPORT_LEN(many_ids);
    expect_refused(&in, TDM_E_ARG, "end_ids", true);
    in = input_of(NULL);
    in.dry_breakers = many_ids;
    in.n_dry_breakers = SUPPORT_LEN(many_ids);
    expect_refused(&in, TDM_E_ARG, "dry_breakers", true);
}

/* A tokenizer may have more entries than the model; its end ids must not stop every request. */
static void ids_beyond_the_vocabulary_are_passed_over(void **state) {
    (void)state;
    const int32_t ids[] = {N_VOCAB, 2, -1, INT32_MAX, 99};
    tdm_request_input in = input_of(NULL);
    tdm_request r;
    tdm_sampler *sampler = NULL;
    in.end_ids = ids;
    in.n_end_ids = SUPPORT_LEN(ids);
    in.dry_breakers = ids;
    in.n_dry_breakers = 1;
    assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
    assert_int_equal(r.sampling.n_xtc_exempt, 2);
    assert_int_equal(r.sampling.xtc_exempt_ids[0], 2);
    assert_int_equal(r.sampling.xtc_exempt_ids[1], 99);
    assert_int_equal(r.sampling.n_dry_breakers, 0);
    assert_int_equal(tdm_sampler_create(&sampler, NULL, &r.sampling, N_VOCAB, NULL), TDM_OK);
    tdm_sampler_destroy(sampler);
    tdm_request_deinit(&r);
}

static void limits_themselves_pass(void **state) {
    (void)state;
    char stop[TDM_STOP_BYTES_MAX + 1];
    static tdm_bias bias[TDM_LOGIT_BIAS_MAX];
    tdm_generation_options o = neutral();
    const tdm_request_input in = input_of(&o);
    tdm_request r;
    tdm_sampler *sampler = NULL;
    memset(stop, 'x', sizeof stop - 1);
    stop[sizeof stop - 1] = '\0';
    for (size_t i = 0; i < TDM_STOP_MAX; i++) {
        o.stop[i] = stop;
    }
    for (size_t i = 0; i < TDM_LOGIT_BIAS_MAX; i++) {
        bias[i] = (tdm_bias){(int32_t)(i % N_VOCAB), i % 2 == 0 ? -INFINITY : 100.0F};
    }
    o.n_stop = TDM_STOP_MAX;
    o.bias = bias;
    o.n_bias = TDM_LOGIT_BIAS_MAX;
    o.temperature = 5.0F;
    o.n_logprobs = TDM_TOP_MAX;
    o.max_tokens = INT32_MAX;
    assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
    assert_int_equal(r.max_tokens, INT32_MAX);
    assert_int_equal(r.output_limit, 998); /* 3 + 998 tokens, the last without a position */
    assert_int_equal(r.stop[15].len, TDM_STOP_BYTES_MAX);
    assert_int_equal(tdm_sampler_create(&sampler, NULL, &r.sampling, N_VOCAB, NULL), TDM_OK);
    tdm_sampler_destroy(sampler);
    tdm_request_deinit(&r);
}

static void a_full_context_still_answers_once(void **state) {
    (void)state;
    tdm_request_input in = input_of(NULL);
    tdm_request r;
    in.context = 3;
    assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
    assert_int_equal(r.output_limit, 1);
    tdm_request_deinit(&r);
}

/* Everything that the caller owned is overwritten; the record does not notice. */
static void the_snapshot_is_deep(void **state) {
    (void)state;
    int32_t prompt[] = {7, 8, 9};
    int32_t ends[] = {2};
    int32_t breakers[] = {11, 12};
    char stop[] = "</s>";
    tdm_bias bias[] = {{4, -2.5F}};
    tdm_generation_options o = neutral();
    tdm_request r;
    o.stop[0] = stop;
    o.n_stop = 1;
    o.bias = bias;
    o.n_bias = 1;
    o.seed = 5;
    o.has_seed = true;
    o.temperature = 0.75F;
    o.penalty_window = 64;
    tdm_request_input in = input_of(&o);
    in.prompt = prompt;
    in.end_ids = ends;
    in.n_end_ids = 1;
    in.dry_breakers = breakers;
    in.n_dry_breakers = 2;
    in.choice = 3;
    assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
    memset(prompt, 0xFF, sizeof prompt);
    memset(ends, 0xFF, sizeof ends);
    memset(breakers, 0xFF, sizeof breakers);
    memset(stop, '#', sizeof stop);
    memset(bias, 0xFF, sizeof bias);
    memset(&o, 0xFF, sizeof o);
    memset(&in, 0xFF, sizeof in);
    assert_memory_equal(r.prompt, ((int32_t[]){7, 8, 9}), 12);
    assert_string_equal(r.stop[0].text, "</s>");
    assert_int_equal(r.stop[0].len, 4);
    assert_int_equal(r.sampling.xtc_exempt_ids[0], 2);
    assert_int_equal(r.sampling.dry_breakers[1], 12);
    assert_int_equal(r.sampling.bias[0].id, 4);
    assert_true(r.sampling.bias[0].bias == -2.5F);
    assert_int_equal(r.sampling.seed, 5);
    assert_int_equal(r.sampling.choice, 3);
    assert_true(r.sampling.temperature == 0.75F);
    assert_int_equal(r.sampling.repetition_window, 64);
    assert_int_equal(r.sampling.presence_window, 64);
    assert_int_equal(r.sampling.frequency_window, 64);
    assert_true(r.has_user_seed);
    tdm_request_deinit(&r);
}

static void requirements_are_facts_of_the_request(void **state) {
    (void)state;
    const struct {
        tdm_exec_requirements want;
        float repetition, presence, frequency, dry;
        int32_t n_logprobs;
        bool has_seed, has_bias;
    } cases[] = {
        {{.has_repetition_penalty = true}, 1.1F, 0, 0, 0, -1, false, false},
        {{.has_logits_extras = true}, 1.0F, 0.5F, 0, 0, -1, false, false},
        {{.has_logits_extras = true}, 1.0F, 0, -0.5F, 0, -1, false, false},
        {{.has_logits_extras = true}, 1.0F, 0, 0, 0.8F, -1, false, false},
        {{.has_logits_extras = true}, 1.0F, 0, 0, 0, -1, false, true},
        {{.wants_logprobs = true}, 1.0F, 0, 0, 0, 0, false, false},
        {{.has_user_seed = true}, 1.0F, 0, 0, 0, -1, true, false},
    };
    static const tdm_bias bias[] = {{1, 1.0F}};
    for (size_t i = 0; i < SUPPORT_LEN(cases); i++) {
        tdm_generation_options o = neutral();
        tdm_request r;
        o.repetition_penalty = cases[i].repetition;
        o.presence_penalty = cases[i].presence;
        o.frequency_penalty = cases[i].frequency;
        o.dry_multiplier = cases[i].dry;
        o.n_logprobs = cases[i].n_logprobs;
        o.has_seed = cases[i].has_seed;
        o.bias = bias;
        o.n_bias = cases[i].has_bias ? 1 : 0;
        const tdm_request_input in = input_of(&o);
        assert_int_equal(tdm_request_init(&r, NULL, &in, NULL), TDM_OK);
        const tdm_exec_requirements got = tdm_request_requirements(&r);
        assert_memory_equal(&got, &cases[i].want, sizeof got);
        tdm_request_deinit(&r);
    }
}

/* Values at, inside and beyond each edge: what init accepts, the sampler accepts. */
static void what_passes_here_passes_the_sampler(void **state) {
    (void)state;
    static const float reals[] = {0.0F, 1e-6F,  0.1F, 0.5F, 0.51F, 1.0F,  1.1F,     5.0F,
                                  5.1F, 100.0F, 1e6F, 2e6F, -1.0F, -2e6F, INFINITY, NAN};
    static const int32_t ints[] = {-2, -1, 0, 1, 2, 3, 20, 21, INT32_MAX, INT32_MIN};
    const size_t offsets[] = {
        offsetof(tdm_generation_options, temperature),
        offsetof(tdm_generation_options, top_p),
        offsetof(tdm_generation_options, min_p),
        offsetof(tdm_generation_options, top_n_sigma),
        offsetof(tdm_generation_options, xtc_probability),
        offsetof(tdm_generation_options, xtc_threshold),
        offsetof(tdm_generation_options, repetition_penalty),
        offsetof(tdm_generation_options, presence_penalty),
        offsetof(tdm_generation_options, frequency_penalty),
        offsetof(tdm_generation_options, dry_multiplier),
        offsetof(tdm_generation_options, dry_base),
        offsetof(tdm_generation_options, mirostat_tau),
        offsetof(tdm_generation_options, mirostat_eta),
        offsetof(tdm_generation_options, top_k),
        offsetof(tdm_generation_options, penalty_window),
        offsetof(tdm_generation_options, dry_allowed_length),
        offsetof(tdm_generation_options, mirostat),
        offsetof(tdm_generation_options, n_logprobs),
    };
    const size_t n_reals = 13;
    int n_accepted = 0;
    for (size_t f = 0; f < SUPPORT_LEN(offsets); f++) {
        const size_t n_values = f < n_reals ? SUPPORT_LEN(reals) : SUPPORT_LEN(ints);
        for (size_t v = 0; v < n_values; v++) {
            tdm_generation_options o = neutral();
            const void *value = f < n_reals ? (const void *)&reals[v] : (const void *)&ints[v];
            tdm_request r;
            memcpy((char *)&o + offsets[f], value, 4);
            const tdm_request_input in = input_of(&o);
            if (tdm_request_init(&r, NULL, &in, NULL) == TDM_OK) {
                tdm_sampler *sampler = NULL;
                tdm_error err;
                if (tdm_sampler_create(&sampler, NULL, &r.sampling, N_VOCAB, &err) != TDM_OK) {
                    fail_msg("the sampler refuses what the request took: %s", err.what);
                }
                tdm_sampler_destroy(sampler);
                tdm_request_deinit(&r);
                n_accepted++;
            }
        }
    }
    assert_true(n_accepted > 80);
}

/* Every allocation fails once; nothing is left behind. */
static void no_memory(void **state) {
    (void)state;
    static const tdm_bias bias[] = {{1, 1.0F}};
    static int32_t long_prompt[40000];
    const int32_t ids[] = {2};
    tdm_generation_options o = neutral();
    o.stop[0] = "end";
    o.n_stop = 1;
    o.bias = bias;
    o.n_bias = 1;
    tdm_request_input in = input_of(&o);
    in.prompt = long_prompt;
    in.n_prompt = SUPPORT_LEN(long_prompt);
    in.context = SUPPORT_LEN(long_prompt);
    in.end_ids = ids;
    in.n_end_ids = 1;
    in.dry_breakers = ids;
    in.n_dry_breakers = 1;
    size_t n_failed = 0;
    for (size_t n = 1; n < 100; n++) {
        tdm_alloc_tracker tracker;
        tdm_request r;
        tdm_error err;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        const tdm_status status = tdm_request_init(&r, &tracker.alloc, &in, &err);
        if (status == TDM_OK) {
            tdm_request_deinit(&r);
            assert_int_equal(tracker.live_bytes, 0);
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_int_equal(tracker.live_bytes, 0);
        n_failed++;
    }
    assert_in_range(n_failed, 1, 98);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(bad_prompts),
        cmocka_unit_test(bad_numbers),
        cmocka_unit_test(bad_lists),
        cmocka_unit_test(ids_beyond_the_vocabulary_are_passed_over),
        cmocka_unit_test(limits_themselves_pass),
        cmocka_unit_test(a_full_context_still_answers_once),
        cmocka_unit_test(the_snapshot_is_deep),
        cmocka_unit_test(requirements_are_facts_of_the_request),
        cmocka_unit_test(what_passes_here_passes_the_sampler),
        cmocka_unit_test(no_memory),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
