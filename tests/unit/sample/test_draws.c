/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws: they follow the softmax, however cold, and are a function of (seed, choice, token index)
 * and id alone. */
#include "unit/sample/sample_kit.h"

#define N_DRAWS 100000

/* Chi-square of N_DRAWS draws against the softmax over the ids that `allowed` names. */
static void check_distribution(const tdm_sampling *s, const float *x, uint64_t allowed) {
    double p[V];
    double total = 0.0;
    double chi = 0.0;
    int cells = 0;
    static uint32_t count[V];
    memset(count, 0, sizeof count);
    for (int i = 0; i < V; i++) {
        p[i] = ((allowed >> i) & 1U) != 0 ? exp((double)x[i] / (double)s->temperature) : 0.0;
        total += p[i];
    }
    tdm_sampler *sampler = must_create(s, V);
    for (uint32_t t = 0; t < N_DRAWS; t++) {
        count[sample_copy(sampler, x, V, t).id]++;
    }
    tdm_sampler_destroy(sampler);
    double rest = 0.0; /* cells that expect fewer than 8 are counted together */
    double rest_count = 0.0;
    for (int i = 0; i < V; i++) {
        const double want = p[i] / total * N_DRAWS;
        if (p[i] == 0.0) {
            assert_int_equal(count[i], 0);
        } else if (want < 8.0) {
            rest += want;
            rest_count += (double)count[i];
        } else {
            chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
            cells++;
        }
    }
    if (rest > 8.0) {
        chi += (rest_count - rest) * (rest_count - rest) / rest;
        cells++;
    }
    const double freedom = (double)(cells - 1);
    /* Four deviations of the chi-square distribution: the seed is fixed, so it passes for good. */
    if (chi > freedom + 4.0 * sqrt(2.0 * freedom) + 4.0) {
        fail_msg("chi-square %.1f over %d cells", chi, cells);
    }
}

static void test_distribution(void **state) {
    float x[V];
    (void)state;
    make_logits(x, V, 1.5, 1);
    const float temperatures[] = {0.5F, 1.0F, 3.0F};
    for (size_t i = 0; i < SUPPORT_LEN(temperatures); i++) {
        tdm_sampling s = TDM_SAMPLING_DEFAULT;
        s.seed = i;
        s.temperature = temperatures[i];
        check_distribution(&s, x, UINT64_MAX);
    }
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1.0F;
    s.top_k = 5;
    uint64_t best = 0;
    for (int k = 0; k < 5; k++) {
        int top = -1;
        for (int i = 0; i < V; i++) {
            if (((best >> i) & 1U) == 0 && (top < 0 || x[i] > x[top])) {
                top = i;
            }
        }
        best |= (uint64_t)1 << top;
    }
    check_distribution(&s, x, best);
}

/* A dense draw skips ids that cannot win; a listed draw looks at each. Same noise, same winner. */
static void test_dense_and_listed_agree(void **state) {
    enum { n = 4001 };
    static float x[n];
    const float temperatures[] = {1e-6F, 0.3F, 1.0F, 5.0F};
    (void)state;
    for (uint32_t shape = 0; shape < 4; shape++) {
        make_logits(x, n, shape == 3 ? 0.01 : 2.0 * (shape + 1), shape);
        for (size_t i = 0; i < SUPPORT_LEN(temperatures); i++) {
            tdm_sampling dense = TDM_SAMPLING_DEFAULT;
            dense.seed = 0x123456789ABCDEF0U + shape;
            dense.choice = shape;
            dense.temperature = temperatures[i];
            tdm_sampling listed = dense;
            listed.min_p = FLT_MIN; /* keeps all of them, as a list */
            tdm_sampler *a = must_create(&dense, n);
            tdm_sampler *b = must_create(&listed, n);
            for (uint32_t t = 0; t < 100; t++) {
                assert_int_equal(sample_copy(a, x, n, t).id, sample_copy(b, x, n, t).id);
            }
            tdm_sampler_destroy(a);
            tdm_sampler_destroy(b);
        }
    }
}

/* Ids that are skipped because they cannot win are only those: a rare id still comes up as often as
 * it should. 511 ids of 3e-7 each in 60000 draws: 9.4 expected. */
static void test_rare_ids_still_win(void **state) {
    enum { n = 512 };
    float x[n];
    (void)state;
    for (int mode = 0; mode < 2; mode++) {
        int n_rare = 0;
        tdm_sampling s = TDM_SAMPLING_DEFAULT;
        s.temperature = 1.0F;
        s.seed = 4;
        s.min_p = mode == 1 ? FLT_MIN : 0.0F;
        tdm_sampler *sampler = must_create(&s, n);
        for (int i = 0; i < n; i++) {
            x[i] = i == 300 ? 0.0F : -15.0F;
        }
        for (uint32_t t = 0; t < 60000; t++) {
            n_rare += sample_copy(sampler, x, n, t).id != 300 ? 1 : 0;
        }
        assert_in_range(n_rare, 6, 16);
        tdm_sampler_destroy(sampler);
    }
}

/* The stream is a function of (seed, choice, token index): not of order, history or repetition. */
static void test_streams(void **state) {
    enum { n = 1000, steps = 64 };
    static float x[n];
    int32_t forward[steps];
    int n_same_choice = 0;
    int n_same_seed = 0;
    (void)state;
    make_logits(x, n, 1.0, 3);
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1.0F;
    s.seed = 42;
    tdm_sampler *a = must_create(&s, n);
    tdm_sampler *b = must_create(&s, n);
    s.choice = 1;
    tdm_sampler *other_choice = must_create(&s, n);
    s.choice = 0;
    s.seed = 43;
    tdm_sampler *other_seed = must_create(&s, n);
    for (uint32_t t = 0; t < steps; t++) {
        forward[t] = sample_copy(a, x, n, t).id;
    }
    for (uint32_t t = steps; t-- > 0;) {
        assert_int_equal(sample_copy(b, x, n, t).id, forward[t]);
        assert_int_equal(sample_copy(b, x, n, t).id, forward[t]);
        n_same_choice += sample_copy(other_choice, x, n, t).id == forward[t] ? 1 : 0;
        n_same_seed += sample_copy(other_seed, x, n, t).id == forward[t] ? 1 : 0;
    }
    assert_true(n_same_choice < 8); /* another choice or seed is another text */
    assert_true(n_same_seed < 8);
    tdm_sampler_destroy(a);
    tdm_sampler_destroy(b);
    tdm_sampler_destroy(other_choice);
    tdm_sampler_destroy(other_seed);
}

/* XTC's coin is a draw of its own: where it falls the other way, the main draw is as without. */
static void test_xtc_does_not_shift(void **state) {
    enum { n = 500 };
    static float x[n];
    int n_changed = 0;
    (void)state;
    make_logits(x, n, 3.0, 4);
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1.0F;
    s.seed = 5;
    tdm_sampler *plain = must_create(&s, n);
    s.xtc_threshold = 0.02F;
    s.xtc_probability = 0.25F;
    tdm_sampler *xtc = must_create(&s, n);
    for (uint32_t t = 0; t < 2000; t++) {
        const bool is_hit = tdm_random_f64(s.seed, s.choice, t, UINT32_MAX) < 0.25;
        const int32_t want = sample_copy(plain, x, n, t).id;
        const int32_t got = sample_copy(xtc, x, n, t).id;
        if (!is_hit) {
            assert_int_equal(got, want);
        }
        n_changed += got != want ? 1 : 0;
    }
    assert_in_range(n_changed, 50, 550);
    tdm_sampler_destroy(plain);
    tdm_sampler_destroy(xtc);
}

static void test_temperature_extremes(void **state) {
    float x[V];
    const float cold[] = {1e-45F, FLT_MIN, 1e-30F, 1e-6F};
    (void)state;
    make_logits(x, V, 1.0, 9);
    int32_t best = 0;
    for (int32_t i = 0; i < V; i++) {
        best = x[i] > x[best] ? i : best;
    }
    for (size_t i = 0; i < SUPPORT_LEN(cold); i++) {
        for (int mode = 0; mode < 4; mode++) {
            tdm_sampling s = TDM_SAMPLING_DEFAULT;
            s.temperature = cold[i];
            s.top_p = mode == 1 ? 0.9F : 0.0F;
            s.mirostat = mode >= 2 ? mode - 1 : 0;
            tdm_sampler *sampler = must_create(&s, V);
            for (uint32_t t = 0; t < 100; t++) {
                assert_int_equal(sample_copy(sampler, x, V, t).id, best);
            }
            tdm_sampler_destroy(sampler);
        }
    }
    for (int i = 0; i < V; i++) {
        x[i] = 4.0F; /* all tie: even the coldest draw is fair */
    }
    tdm_sampling s = TDM_SAMPLING_DEFAULT;
    s.temperature = 1e-45F;
    check_distribution(&s, x, UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distribution),       cmocka_unit_test(test_dense_and_listed_agree),
        cmocka_unit_test(test_rare_ids_still_win), cmocka_unit_test(test_streams),
        cmocka_unit_test(test_xtc_does_not_shift), cmocka_unit_test(test_temperature_extremes),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
