/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's promises: nothing is allocated on the token path, every field is validated, odd
 * rows are answered, a rejected draft leaves no trace. What a chain computes is in test_goldens.c
 * and test_row.c, how it draws in test_draws.c. */
#include "unit/sample/sample_kit.h"

static void test_greedy(void **state) {
    float x[V];
    (void)state;
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    tdm_sampler *plain = must_create(&s, V);
    s.temperature = 2.0F;
    s.top_k = 1;
    tdm_sampler *one = must_create(&s, V);
    assert_true(tdm_sampler_is_plain_greedy(plain));
    assert_false(tdm_sampler_is_plain_greedy(one));
    for (uint32_t t = 0; t < 1000; t++) {
        make_logits(x, V, 2.0, t);
        int32_t want = 0;
        for (int32_t i = 0; i < V; i++) {
            x[i] = t % 2 == 0 ? floorf(x[i]) : x[i]; /* ties */
            want = x[i] > x[want] ? i : want;
        }
        assert_int_equal(sample_copy(plain, x, V, t).id, want);
        assert_int_equal(sample_copy(one, x, V, t).id, want);
    }
    tdm_sampler_destroy(plain);
    tdm_sampler_destroy(one);
}

static void test_plain_greedy_question(void **state) {
    const tdm_logit_bias bias = {3, 1.0F};
    (void)state;
    for (int i = 0; i < 6; i++) {
        tdm_sampling s = TDM_SAMPLING_DEFAULT;
        s.repetition_penalty = i == 0 ? 1.1F : 1.0F;
        s.presence_penalty = i == 1 ? 0.1F : 0.0F;
        s.frequency_penalty = i == 2 ? -0.1F : 0.0F;
        s.dry_multiplier = i == 3 ? 0.5F : 0.0F;
        s.n_logprobs = i == 4 ? 0 : -1;
        s.n_bias = i == 5 ? 1 : 0;
        s.bias = &bias;
        tdm_sampler *sampler = must_create(&s, V);
        assert_false(tdm_sampler_is_plain_greedy(sampler));
        tdm_sampler_destroy(sampler);
    }
}

static void test_logprobs(void **state) {
    enum { n = 3001 };
    static float x[n];
    double sum = 0.0;
    (void)state;
    make_logits(x, n, 3.0, 6);
    tdm_sampled one;
    for (int32_t i = 0; i < n; i++) {
        tdm_logprobs_of(x, n, i, 0, &one);
        assert_int_equal(one.n_top, 0);
        sum += exp((double)one.logprob);
    }
    assert_true(fabs(sum - 1.0) < 1e-5);
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.n_logprobs = 20;
    tdm_sampler *greedy = must_create(&s, n);
    s.temperature = 3.0F;
    s.top_p = 0.8F;
    tdm_sampler *hot = must_create(&s, n);
    const tdm_sampled a = sample_copy(greedy, x, n, 0);
    const tdm_sampled b = sample_copy(hot, x, n, 0);
    assert_int_equal(a.n_top, 20);
    assert_int_equal(a.top[0].id, a.id);
    assert_true(a.top[0].logprob == a.logprob);
    for (int i = 0; i < 20; i++) { /* temperature and cuts do not alter them */
        assert_int_equal(a.top[i].id, b.top[i].id);
        assert_true(a.top[i].logprob == b.top[i].logprob);
        assert_true(i == 0 || a.top[i].logprob <= a.top[i - 1].logprob);
    }
    tdm_logprobs_of(x, n, b.id, 20, &one);
    assert_true(one.logprob == b.logprob);
    const float tiny[3] = {1.0F, 1.0F, -INFINITY}; /* fewer than asked for; ties by id */
    tdm_logprobs_of(tiny, 3, 2, 20, &one);
    assert_int_equal(one.n_top, 2);
    assert_int_equal(one.top[0].id, 0);
    assert_int_equal(one.top[1].id, 1);
    assert_true(one.logprob == -INFINITY);
    assert_true(fabs((double)one.top[1].logprob + log(2.0)) < 1e-6);
    const float huge[4] = {FLT_MAX, INFINITY, 1.0F, INFINITY};
    tdm_logprobs_of(huge, 4, 1, 4, &one);
    assert_int_equal(one.n_top, 4);
    assert_int_equal(one.top[3].id, 2);
    const float none[2] = {NAN, -INFINITY};
    tdm_logprobs_of(none, 2, 0, 2, &one);
    assert_int_equal(one.n_top, 0);
    assert_true(isnan(one.logprob));
    tdm_sampler_destroy(greedy);
    tdm_sampler_destroy(hot);
}

/* One record for each way through the sampler. */
static size_t all_ways(tdm_sampling out[16]) {
    size_t n = 0;
    for (int i = 0; i < 12; i++) {
        out[n] = TDM_SAMPLING_DEFAULT;
        out[n].temperature = i == 0 ? 0.0F : 1.0F;
        out[n].seed = 8;
        out[n].top_k = i == 2 || i == 8 ? 10 : 0;
        out[n].top_p = i == 3 || i == 8 ? 0.9F : 0.0F;
        out[n].min_p = i == 4 || i == 8 ? 0.1F : 0.0F;
        out[n].top_n_sigma = i == 5 || i == 8 ? 2.0F : 0.0F;
        out[n].xtc_probability = i == 6 || i == 8 ? 1.0F : 0.0F;
        out[n].dry_multiplier = i == 7 || i == 8 ? 1.0F : 0.0F;
        out[n].repetition_penalty = i == 7 || i == 8 ? 1.2F : 1.0F;
        out[n].presence_penalty = i == 7 ? 0.5F : 0.0F;
        out[n].frequency_penalty = i == 7 ? 0.5F : 0.0F;
        out[n].mirostat = i == 9 ? 1 : i == 10 ? 2 : 0;
        out[n].n_logprobs = i >= 7 ? 3 : -1;
        out[n].logprobs_is_raw = i == 8;
        n++;
    }
    return n;
}

static void test_odd_rows(void **state) {
    tdm_sampling ways[16];
    const size_t n_ways = all_ways(ways);
    const int32_t prompt[] = {1, 2, 3, 1, 2};
    const struct {
        float x[5];
        bool is_finite;
        int32_t only; /* the one possible id, or -1 */
    } rows[] = {
        {{NAN, NAN, NAN, NAN, NAN}, false, 0},
        {{-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY}, false, 0},
        {{INFINITY, NAN, -INFINITY, INFINITY, NAN}, false, 0},
        {{NAN, INFINITY, INFINITY, NAN, NAN}, false, 0},
        {{NAN, -INFINITY, NAN, -5.0F, -INFINITY}, true, 3},
        {{1.0F, NAN, INFINITY, 1.0F, 2.0F}, true, 2},
        {{-FLT_MAX, FLT_MAX, 0.0F, -FLT_MAX, 0.0F}, true, 1},
        {{NAN, 1.0F, 1.0F, -INFINITY, 1.0F}, true, -1},
    };
    (void)state;
    for (size_t w = 0; w < n_ways; w++) {
        for (size_t r = 0; r < SUPPORT_LEN(rows); r++) {
            tdm_error err;
            tdm_sampler *sampler = must_create(&ways[w], 5);
            assert_int_equal(tdm_sampler_accept(sampler, prompt, 5, &err), TDM_OK);
            for (uint32_t t = 0; t < 20; t++) {
                float x[5];
                tdm_sampled out;
                bool is_finite = !rows[r].is_finite;
                memcpy(x, rows[r].x, sizeof x);
                tdm_sampler_sample(sampler, x, t, &out, &is_finite);
                assert_int_equal(is_finite, rows[r].is_finite);
                assert_in_range(out.id, 0, 4);
                if (rows[r].only >= 0) {
                    assert_int_equal(out.id, rows[r].only);
                } else {
                    assert_true(out.id == 1 || out.id == 2 || out.id == 4);
                }
            }
            tdm_sampler_destroy(sampler);
        }
    }
}

static void test_penalties_exact(void **state) {
    float x[8] = {1.0F, -1.0F, 2.0F, 0.0F, 3.0F, 0.5F, 0.25F, -8.0F};
    const int32_t history[] = {5, 1, 0, 0, 2, 0};
    const tdm_logit_bias bias[] = {{6, 1.5F}, {7, -INFINITY}};
    tdm_error err;
    tdm_sampled out;
    (void)state;
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.bias = bias;
    s.n_bias = 2;
    s.repetition_penalty = 2.0F;
    s.repetition_window = 5; /* without the 5 */
    s.presence_penalty = 0.25F;
    s.presence_window = 0;
    s.frequency_penalty = 0.125F;
    s.frequency_window = 3;
    s.n_logprobs = 8;
    tdm_sampler *sampler = must_create(&s, 8);
    assert_int_equal(tdm_sampler_accept(sampler, history, 6, &err), TDM_OK);
    tdm_sampler_sample(sampler, x, 0, &out, NULL);
    const float want[8] = {1.0F / 2 - 0.25F - 2 * 0.125F, /* repetition, presence, two of three */
                           -1.0F * 2 - 0.25F,
                           2.0F / 2 - 0.25F - 0.125F,
                           0.0F,
                           3.0F,
                           0.5F - 0.25F,
                           0.25F + 1.5F,
                           -INFINITY};
    for (int i = 0; i < 8; i++) {
        assert_true(x[i] == want[i]);
    }
    assert_int_equal(out.id, 4);
    assert_int_equal(out.n_top, 7); /* the banned one is not among them */
    tdm_sampler_destroy(sampler);
}

/* Only accepted tokens enter the history, and Mirostat too forgets a draft that was rejected. */
static void test_rejected_drafts_leave_no_trace(void **state) {
    enum { n = 300 };
    static float x[n];
    (void)state;
    make_logits(x, n, 2.0, 10);
    for (int mode = 0; mode <= 2; mode++) {
        tdm_error err;
        tdm_sampling s = TDM_SAMPLING_DEFAULT;
        s.temperature = 1.0F;
        s.seed = 3;
        s.mirostat = mode;
        s.mirostat_tau = 2.0F;
        s.mirostat_eta = 0.5F;
        s.frequency_penalty = 0.7F;
        tdm_sampler *plain = must_create(&s, n);
        tdm_sampler *drafting = must_create(&s, n);
        for (uint32_t t = 0; t < 200; t++) {
            const int32_t want = sample_copy(plain, x, n, t).id;
            (void)sample_copy(drafting, x, n, t + 1000); /* drafted and thrown away */
            (void)sample_copy(drafting, x, n, t + 2000);
            const int32_t got = sample_copy(drafting, x, n, t).id;
            assert_int_equal(got, want);
            assert_int_equal(tdm_sampler_accept(plain, &want, 1, &err), TDM_OK);
            assert_int_equal(tdm_sampler_accept(drafting, &want, 1, &err), TDM_OK);
        }
        tdm_sampler_destroy(plain);
        tdm_sampler_destroy(drafting);
    }
}

/* A token that was not the drawn one (a forced continuation) says nothing about the steering. */
static void test_mirostat_ignores_forced_tokens(void **state) {
    float x[V];
    tdm_error err;
    (void)state;
    make_logits(x, V, 2.0, 11);
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1.0F;
    s.mirostat = 2;
    tdm_sampler *sampler = must_create(&s, V);
    const int32_t drawn = sample_copy(sampler, x, V, 0).id;
    const int32_t forced = (drawn + 1) % V;
    assert_int_equal(tdm_sampler_accept(sampler, &forced, 1, &err), TDM_OK);
    assert_true(sampler->mirostat.mu == 10.0);
    assert_int_equal(tdm_sampler_accept(sampler, &drawn, 1, &err), TDM_OK); /* too late */
    assert_true(sampler->mirostat.mu == 10.0);
    const int32_t again = sample_copy(sampler, x, V, 0).id;
    assert_int_equal(tdm_sampler_accept(sampler, &again, 1, &err), TDM_OK);
    assert_true(sampler->mirostat.mu != 10.0);
    tdm_sampler_destroy(sampler);
}

/* The mean surprise settles at tau: that is what Mirostat steers. */
static void test_mirostat_converges(void **state) {
    enum { n = 2000, steps = 2000, n_rows = 20 };
    static float x[n_rows][n];
    const float taus[] = {2.0F, 4.0F};
    (void)state;
    for (uint32_t r = 0; r < n_rows; r++) {
        make_logits(x[r], n, 2.5, r);
    }
    for (int mode = 1; mode <= 2; mode++) {
        for (size_t i = 0; i < SUPPORT_LEN(taus); i++) {
            double bits = 0.0;
            tdm_error err;
            tdm_sampling s = TDM_SAMPLING_DEFAULT;
            s.temperature = 1.0F;
            s.seed = 21;
            s.mirostat = mode;
            s.mirostat_tau = taus[i];
            tdm_sampler *sampler = must_create(&s, n);
            assert_true(sampler->mirostat.mu == 2.0 * (double)taus[i]);
            for (uint32_t t = 0; t < steps; t++) {
                const tdm_sampled out = sample_copy(sampler, x[t % n_rows], n, t);
                bits += t >= steps / 4 ? sampler->mirostat.pending_surprise : 0.0;
                assert_int_equal(tdm_sampler_accept(sampler, &out.id, 1, &err), TDM_OK);
            }
            bits /= steps - steps / 4;
            if (fabs(bits - (double)taus[i]) > 0.05) {
                fail_msg("mirostat %d, tau %g: %g bits", mode, (double)taus[i], bits);
            }
            tdm_sampler_destroy(sampler);
        }
    }
}

static void test_history(void **state) {
    tdm_error err;
    int32_t ids[1000];
    const int32_t bad[] = {5, V};
    const int32_t negative = -1;
    (void)state;
    for (int i = 0; i < 1000; i++) {
        ids[i] = i % V;
    }
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.presence_penalty = 1.0F;
    s.presence_window = 0;
    tdm_alloc_tracker tracker;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_sampler *sampler = NULL;
    assert_int_equal(tdm_sampler_create(&sampler, &tracker.alloc, &s, V, &err), TDM_OK);
    assert_int_equal(tdm_sampler_accept(sampler, NULL, 0, &err), TDM_OK);
    assert_int_equal(tdm_sampler_accept(sampler, bad, 2, &err), TDM_E_ARG);
    assert_int_equal(tdm_sampler_accept(sampler, &negative, 1, &err), TDM_E_ARG);
    float x[V] = {0};
    tdm_sampled out;
    tdm_sampler_sample(sampler, x, 0, &out, NULL); /* nothing of the refused call stayed */
    assert_true(x[5] == 0.0F);
    assert_int_equal(tdm_sampler_reserve(sampler, 5000, &err), TDM_OK);
    const size_t n_calls = atomic_load(&tracker.n_calls);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tdm_sampler_accept(sampler, ids, 1000, &err), TDM_OK);
    }
    assert_int_equal(atomic_load(&tracker.n_calls), n_calls);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(tdm_sampler_accept(sampler, ids, 1000, &err), TDM_OK);
    }
    assert_true(atomic_load(&tracker.n_calls) <= n_calls + 4); /* doubling */
    assert_int_equal(tdm_sampler_reserve(sampler, SIZE_MAX, &err), TDM_E_LIMIT);
    assert_int_equal(tdm_sampler_reserve(sampler, SIZE_MAX / 8, &err), TDM_E_LIMIT);
    tdm_sampler_destroy(sampler);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

static void test_sampling_allocates_nothing(void **state) {
    static float x[500];
    tdm_sampling ways[16];
    const size_t n_ways = all_ways(ways);
    (void)state;
    for (size_t w = 0; w < n_ways; w++) {
        tdm_error err;
        tdm_sampled out;
        tdm_alloc_tracker tracker;
        tdm_sampler *sampler = NULL;
        tdm_alloc_tracker_init(&tracker, NULL);
        assert_int_equal(tdm_sampler_create(&sampler, &tracker.alloc, &ways[w], 500, &err), TDM_OK);
        assert_int_equal(tdm_sampler_reserve(sampler, 100, &err), TDM_OK);
        const size_t n_calls = atomic_load(&tracker.n_calls);
        for (uint32_t t = 0; t < 100; t++) {
            make_logits(x, 500, 2.0, t);
            tdm_sampler_sample(sampler, x, t, &out, NULL);
            assert_int_equal(tdm_sampler_accept(sampler, &out.id, 1, &err), TDM_OK);
        }
        assert_int_equal(atomic_load(&tracker.n_calls), n_calls);
        tdm_sampler_destroy(sampler);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        assert_int_equal(atomic_load(&tracker.n_live), 0);
    }
}

static void test_every_allocation_fails(void **state) {
    const int32_t list[] = {1, 2};
    const tdm_logit_bias bias[] = {{1, 1.0F}};
    int32_t ids[300] = {0};
    size_t n_failures = 0;
    (void)state;
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1.0F;
    s.xtc_exempt_ids = list;
    s.n_xtc_exempt = 2;
    s.dry_breakers = list;
    s.n_dry_breakers = 2;
    s.dry_multiplier = 1.0F;
    s.bias = bias;
    s.n_bias = 1;
    s.presence_penalty = 1.0F;
    s.n_logprobs = 2;
    s.logprobs_is_raw = true;
    for (size_t nth = 1; nth < 100; nth++) {
        tdm_error err;
        tdm_alloc_tracker tracker;
        tdm_sampler *sampler = NULL;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        tdm_status status = tdm_sampler_create(&sampler, &tracker.alloc, &s, V, &err);
        if (status == TDM_OK) {
            status = tdm_sampler_accept(sampler, ids, 10, &err);
        }
        if (status == TDM_OK) {
            status = tdm_sampler_accept(sampler, ids, 300, &err);
        }
        tdm_sampler_destroy(sampler);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_true(err.what[0] != '\0');
        n_failures++;
    }
    assert_in_range(n_failures, 12, 30);
}

static void assert_refused(const tdm_sampling *s, int32_t n_vocab, const char *field) {
    tdm_error err;
    tdm_sampler *sampler = (tdm_sampler *)(void *)&err; /* a failed create leaves NULL */
    tdm_err_clear(&err);
    if (tdm_sampler_create(&sampler, NULL, s, n_vocab, &err) != TDM_E_ARG) {
        fail_msg("%s was not refused", field);
    }
    assert_null(sampler);
    assert_int_equal(err.code, TDM_E_ARG);
    assert_true(strncmp(err.where, field, strlen(field)) == 0);
    assert_true(err.limit[0] != '\0');
    assert_non_null(strstr(err.what, "samp"));
}

static void test_validation(void **state) {
    const struct {
        const char *name;
        size_t offset;
        float bad[2];
    } reals[] = {
#define REAL(field, low, high)                                                                     \
    {                                                                                              \
#field, offsetof(tdm_sampling, field), {                                                   \
            low, high                                                                              \
        }                                                                                          \
    }
        REAL(temperature, -0.1F, 5.01F),
        REAL(top_p, -0.1F, INFINITY),
        REAL(min_p, -0.1F, 1.1F),
        REAL(top_n_sigma, -1.0F, INFINITY),
        REAL(xtc_probability, -0.1F, 1.1F),
        REAL(xtc_threshold, -0.1F, 0.51F),
        REAL(repetition_penalty, 0.0F, -1.0F),
        REAL(presence_penalty, -INFINITY, INFINITY),
        REAL(frequency_penalty, -INFINITY, INFINITY),
        REAL(dry_multiplier, -1.0F, INFINITY),
        REAL(dry_base, 0.9F, INFINITY),
        REAL(mirostat_tau, -1.0F, INFINITY),
        REAL(mirostat_eta, -0.1F, 1.5F),
#undef REAL
    };
    const struct {
        const char *name;
        size_t offset;
        int32_t bad[2];
    } ints[] = {
#define INT(field, low, high)                                                                      \
    {                                                                                              \
#field, offsetof(tdm_sampling, field), {                                                   \
            low, high                                                                              \
        }                                                                                          \
    }
        INT(top_k, -1, INT32_MIN),
        INT(min_keep, 0, -1),
        INT(repetition_window, -1, -9),
        INT(presence_window, -1, -9),
        INT(frequency_window, -1, -9),
        INT(dry_allowed_length, 0, -1),
        INT(dry_window, -1, -9),
        INT(mirostat, -1, 3),
        INT(n_logprobs, -2, TDM_TOP_LOGPROBS_MAX + 1),
#undef INT
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(reals); i++) {
        for (int j = 0; j < 3; j++) {
            tdm_sampling s = TDM_SAMPLING_DEFAULT;
            const float bad = j < 2 ? reals[i].bad[j] : NAN;
            memcpy((char *)&s + reals[i].offset, &bad, sizeof bad);
            assert_refused(&s, V, reals[i].name);
        }
    }
    for (size_t i = 0; i < SUPPORT_LEN(ints); i++) {
        for (int j = 0; j < 2; j++) {
            tdm_sampling s = TDM_SAMPLING_DEFAULT;
            memcpy((char *)&s + ints[i].offset, &ints[i].bad[j], sizeof ints[i].bad[j]);
            assert_refused(&s, V, ints[i].name);
        }
    }
}

static void test_validation_of_lists(void **state) {
    static int32_t many[TDM_LOGIT_BIAS_MAX + 1];
    static tdm_logit_bias bias[TDM_LOGIT_BIAS_MAX + 1];
    const int32_t ids[] = {0, V};
    const int32_t negative[] = {-1};
    const float bad_bias[] = {NAN, INFINITY};
    (void)state;
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    assert_refused(&s, 0, "n_vocab");
    assert_refused(&s, -5, "n_vocab");
    s.xtc_exempt_ids = ids;
    s.n_xtc_exempt = 2;
    assert_refused(&s, V, "xtc_exempt_ids[1]");
    s.xtc_exempt_ids = negative;
    s.n_xtc_exempt = 1;
    assert_refused(&s, V, "xtc_exempt_ids[0]");
    s.xtc_exempt_ids = NULL;
    assert_refused(&s, V, "xtc_exempt_ids");
    s.n_xtc_exempt = 0;
    s.dry_breakers = many;
    s.n_dry_breakers = TDM_DRY_BREAKERS_MAX + 1;
    assert_refused(&s, V, "dry_breakers");
    s.n_dry_breakers = 0;
    s.bias = bias;
    s.n_bias = TDM_LOGIT_BIAS_MAX + 1;
    assert_refused(&s, V, "logit_bias");
    s.n_bias = 2;
    bias[1].id = V;
    assert_refused(&s, V, "logit_bias[1]");
    bias[1].id = 1;
    for (size_t i = 0; i < SUPPORT_LEN(bad_bias); i++) {
        bias[1].bias = bad_bias[i];
        assert_refused(&s, V, "logit_bias[1]");
    }
    bias[1].bias = -INFINITY; /* a ban is legal */
    s.n_bias = TDM_LOGIT_BIAS_MAX;
    tdm_sampler *sampler = must_create(&s, V);
    tdm_sampler_destroy(sampler);
    tdm_sampler_destroy(NULL);
}

/* The record is copied: what the caller does with the lists afterwards is nothing to the sampler.
 */
static void test_lists_are_copied(void **state) {
    tdm_logit_bias bias[] = {{7, 100.0F}};
    float x[V] = {0};
    tdm_sampled out;
    (void)state;
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.bias = bias;
    s.n_bias = 1;
    tdm_sampler *sampler = must_create(&s, V);
    bias[0].id = 9;
    tdm_sampler_sample(sampler, x, 0, &out, NULL);
    assert_int_equal(out.id, 7);
    tdm_sampler_destroy(sampler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_plain_greedy_question),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_odd_rows),
        cmocka_unit_test(test_penalties_exact),
        cmocka_unit_test(test_rejected_drafts_leave_no_trace),
        cmocka_unit_test(test_mirostat_ignores_forced_tokens),
        cmocka_unit_test(test_mirostat_converges),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_sampling_allocates_nothing),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_validation),
        cmocka_unit_test(test_validation_of_lists),
        cmocka_unit_test(test_lists_are_copied),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
