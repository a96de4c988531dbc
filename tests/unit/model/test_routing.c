/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing by groups: which ones are closed, by the two best scores of each with their corrections;
 * that weights come from scores without them. Numbers by hand, and against a plain count. */
#include "model/blocks/experts.h"
#include "model/blocks/routing.h"

#include "base/random.h"
#include "support/support.h"

#include <math.h>

static void by_hand(void **state) {
    /* Sums of the two best: 0.9 + 0.1, 0.6 + 0.5, 0.8 + 0.3. */
    float scores[9] = {0.9F, 0.1F, 0.0F, 0.6F, 0.5F, 0.4F, 0.2F, 0.8F, 0.3F};
    const float correction[9] = {0.0F, 0.2F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F};
    float corrected[9];
    (void)state;
    memcpy(corrected, scores, sizeof scores);
    tdm_routing_close_groups(scores, NULL, 9, 3, 2);
    assert_true(scores[0] == -INFINITY && scores[2] == -INFINITY);
    assert_true(scores[3] == 0.6F && scores[8] == 0.3F);
    tdm_routing_close_groups(corrected, correction, 9, 3, 1); /* 1.2, 1.1, 1.1 */
    assert_true(corrected[0] == 0.9F && corrected[1] == 0.1F);
    assert_true(corrected[3] == -INFINITY && corrected[7] == -INFINITY);
}

static void equals_go_to_the_first(void **state) {
    float scores[6] = {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F};
    (void)state;
    tdm_routing_close_groups(scores, NULL, 6, 3, 2);
    assert_true(scores[3] == 0.5F && scores[4] == -INFINITY);
    tdm_routing_close_groups(scores, NULL, 6, 1, 1); /* one group: never closed */
    assert_true(scores[0] == 0.5F);
}

/* The choice of a whole router: only from open groups, weighed by the scores alone. */
static void a_router_of_groups(void **state) {
    const float correction[8] = {0.0F, 0.0F, 0.0F, 0.0F, 0.9F, 0.9F, 0.0F, 0.0F};
    tdm_router router = {.n = 8,
                         .n_used = 2,
                         .n_groups = 4,
                         .n_groups_used = 1,
                         .kind = TDM_ROUTER_SIGMOID,
                         .correction = correction,
                         .is_renormalized = true,
                         .scale = 2.0F};
    float logits[8] = {3.0F, 2.0F, 0.0F, 0.0F, -1.0F, 1.0F, 2.5F, -9.0F};
    int32_t ids[2];
    float weights[2];
    const double a = 1.0 / (1.0 + exp(-1.0));
    const double b = 1.0 / (1.0 + exp(1.0));
    (void)state;
    tdm_experts_choose(&router, logits, ids, weights);
    assert_int_equal(ids[0], 5); /* the group that the correction lifts */
    assert_int_equal(ids[1], 4);
    assert_true(fabs((double)weights[0] - 2.0 * a / (a + b)) < 1e-6);
    assert_true(fabs((double)weights[1] - 2.0 * b / (a + b)) < 1e-6);
}

/* Whatever the floats: ids are valid and distinct. */
static void any_floats(void **state) {
    static const float ODD[] = {NAN, INFINITY, -INFINITY, 0.0F, 1.0F};
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        const tdm_router router = {.n = 12,
                                   .n_used = 3,
                                   .n_groups = 4,
                                   .n_groups_used = 2,
                                   .kind = TDM_ROUTER_SIGMOID,
                                   .scale = 1.0F};
        float logits[12];
        int32_t ids[3];
        float weights[3];
        for (uint32_t i = 0; i < 12; i++) {
            uint64_t bits = tdm_random_u64(seed, 0, i, 0);
            logits[i] = bits % 3 == 0 ? ODD[bits / 3 % SUPPORT_LEN(ODD)] : (float)(bits % 7);
        }
        tdm_experts_choose(&router, logits, ids, weights);
        for (int i = 0; i < 3; i++) {
            assert_true(ids[i] >= 0 && ids[i] < 12);
            assert_true(i == 0 || (ids[i] != ids[0] && (i == 1 || ids[i] != ids[1])));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(equals_go_to_the_first),
        cmocka_unit_test(a_router_of_groups),
        cmocka_unit_test(any_floats),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
