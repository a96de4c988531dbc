/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of experts against what is worked by hand: order, ties, both kinds of weights, and
 * logits that are no numbers. */
#include "model/blocks/experts.h"
#include "support/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool is_near(float a, double b) {
    return fabs((double)a - b) <= 1e-6;
}

/* With a plain softmax router. */
static void choose(const float *logits, int32_t n, int32_t n_used, bool is_renormalized,
                   int32_t *ids, float *weights) {
    const tdm_router router = {
        .n = n, .n_used = n_used, .is_renormalized = is_renormalized, .scale = 1.0F};
    float scores[8];
    memcpy(scores, logits, (size_t)n * sizeof *scores);
    tdm_experts_choose(&router, scores, ids, weights);
}

static void largest_first_with_softmax_over_all(void **state) {
    const float logits[4] = {0.0F, logf(3.0F), logf(2.0F), logf(4.0F)};
    int32_t ids[2] = {-1, -1};
    float weights[2];
    (void)state;
    choose(logits, 4, 2, false, ids, weights);
    assert_int_equal(ids[0], 3);
    assert_int_equal(ids[1], 1);
    assert_true(is_near(weights[0], 0.4) && is_near(weights[1], 0.3));
    choose(logits, 4, 2, true, ids, weights);
    assert_true(is_near(weights[0], 4.0 / 7.0) && is_near(weights[1], 3.0 / 7.0));
}

static void the_lower_index_wins_a_tie(void **state) {
    const float logits[5] = {1.0F, 2.0F, 2.0F, 1.0F, 2.0F};
    int32_t ids[4];
    float weights[4];
    (void)state;
    choose(logits, 5, 4, true, ids, weights);
    assert_int_equal(ids[0], 1);
    assert_int_equal(ids[1], 2);
    assert_int_equal(ids[2], 4);
    assert_int_equal(ids[3], 0);
}

static void one_of_one_weighs_all(void **state) {
    const float logit = -1000.0F;
    int32_t id = -1;
    float weight = 0.0F;
    (void)state;
    choose(&logit, 1, 1, false, &id, &weight);
    assert_int_equal(id, 0);
    assert_true(weight == 1.0F);
}

static void ids_stay_valid_without_numbers(void **state) {
    const float logits[4] = {NAN, INFINITY, NAN, -INFINITY};
    int32_t ids[4];
    float weights[4];
    int32_t seen = 0;
    (void)state;
    choose(logits, 4, 4, true, ids, weights);
    for (int32_t i = 0; i < 4; i++) {
        assert_true(ids[i] >= 0 && ids[i] < 4);
        seen |= 1 << ids[i];
    }
    assert_int_equal(seen, 15);
}

/* Sigmoids 0.5, 0.75, 0.8, 0.25: the correction moves the choice and not the weights. */
static void sigmoids_are_corrected_and_scaled(void **state) {
    const float logits[4] = {0.0F, logf(3.0F), logf(4.0F), -logf(3.0F)};
    const float correction[4] = {0.5F, 0.0F, -0.7F, 0.52F};
    tdm_router router = {.n = 4, .n_used = 2, .kind = TDM_ROUTER_SIGMOID, .scale = 1.0F};
    float scores[4];
    int32_t ids[2];
    float weights[2];
    (void)state;
    memcpy(scores, logits, sizeof scores);
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(ids[0] == 2 && ids[1] == 1);
    assert_true(is_near(weights[0], 0.8) && is_near(weights[1], 0.75));
    router.correction = correction;
    memcpy(scores, logits, sizeof scores);
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(ids[0] == 0 && ids[1] == 3);
    assert_true(is_near(weights[0], 0.5) && is_near(weights[1], 0.25));
    router.is_renormalized = true;
    router.scale = 2.5F;
    memcpy(scores, logits, sizeof scores);
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(is_near(weights[0], 2.5 * 2.0 / 3.0) && is_near(weights[1], 2.5 / 3.0));
    router.kind = TDM_ROUTER_SOFTMAX;
    router.correction = NULL;
    memcpy(scores, logits, sizeof scores);
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(is_near(weights[0], 2.5 * 4.0 / 7.0));
}

/* Scores of zero have no sum to divide by: the weights are zero, not NaN. */
static void sigmoids_of_nothing_weigh_nothing(void **state) {
    const tdm_router router = {
        .n = 2, .n_used = 2, .kind = TDM_ROUTER_SIGMOID, .is_renormalized = true, .scale = 1.0F};
    float scores[2] = {-1e9F, -1e9F};
    int32_t ids[2];
    float weights[2];
    (void)state;
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(ids[0] == 0 && ids[1] == 1 && weights[0] == 0.0F && weights[1] == 0.0F);
}

/* After the weights sum to 1, each is multiplied by its expert's own. */
static void experts_have_factors(void **state) {
    const float factors[4] = {100.0F, 0.5F, 100.0F, 2.0F};
    const tdm_router router = {
        .n = 4, .n_used = 2, .is_renormalized = true, .scale = 1.0F, .factors = factors};
    float scores[4] = {0.0F, logf(3.0F), logf(2.0F), logf(4.0F)};
    int32_t ids[2];
    float weights[2];
    (void)state;
    tdm_experts_choose(&router, scores, ids, weights);
    assert_true(ids[0] == 3 && ids[1] == 1); /* the choice does not know of them */
    assert_true(is_near(weights[0], 8.0 / 7.0) && is_near(weights[1], 1.5 / 7.0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_first_with_softmax_over_all),
        cmocka_unit_test(the_lower_index_wins_a_tie),
        cmocka_unit_test(one_of_one_weighs_all),
        cmocka_unit_test(ids_stay_valid_without_numbers),
        cmocka_unit_test(sigmoids_are_corrected_and_scaled),
        cmocka_unit_test(sigmoids_of_nothing_weigh_nothing),
        cmocka_unit_test(experts_have_factors),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
