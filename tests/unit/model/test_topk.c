/* SPDX-License-Identifier: Apache-2.0
 *
 * The k best of many against a sort, whole and piece by piece; ties, signed zeros, infinities, NaN. */
#include "model/blocks/topk.h"

#include "base/random.h"
#include "support/support.h"

#include <math.h>

#define N 700

static float scores[N];
static int32_t ids[N];

/* Whether pair a comes before pair b: larger, or as large and earlier. NaN is below everything. */
static bool is_better(float a, int32_t at_a, float b, int32_t at_b) {
    if (isnan(a) || isnan(b)) {
        return isnan(a) == isnan(b) ? at_a < at_b : isnan(b);
    }
    return a > b || (a == b && at_a < at_b);
}

/* Number i is among the k best when fewer than k of all are better. */
static void expect_best(const float *all, int64_t n, int64_t k, int64_t kept) {
    int64_t at = 0;
    assert_int_equal(kept, k < n ? k : n);
    for (int32_t i = 0; i < n; i++) {
        int64_t n_better = 0;
        for (int32_t j = 0; j < n; j++) {
            n_better += j != i && is_better(all[j], j, all[i], i) ? 1 : 0;
        }
        if (n_better < k) {
            assert_true(at < kept);
            assert_int_equal(ids[at], i); /* in their order */
            assert_memory_equal(&scores[at], &all[i], sizeof *all);
            at++;
        }
    }
    assert_int_equal(at, kept);
}

static void fill(float *all, int64_t n, uint64_t seed) {
    static const float ODD[] = {0.0F,   -0.0F,   INFINITY, -INFINITY, NAN,
                                1e-42F, -1e-42F, 3e38F,    -3e38F};
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = tdm_random_u64(seed, 0, (uint32_t)i, 0);
        all[i] = (float)(int32_t)(uint32_t)bits / 7e8F;
        if (seed % 3 == 1) { /* many ties */
            all[i] = (float)((int)(bits % 9) - 4);
        } else if (seed % 3 == 2 && bits % 4 == 0) {
            all[i] = ODD[bits / 4 % SUPPORT_LEN(ODD)];
        }
    }
}

static void against_a_sort(void **state) {
    static const int64_t SIZES[] = {1, 2, 12, 13, 100, N};
    float all[N];
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        for (size_t s = 0; s < SUPPORT_LEN(SIZES); s++) {
            int64_t n = SIZES[s];
            fill(all, n, seed);
            for (int64_t k = 1; k <= n + 1; k += 1 + n / 5) {
                for (int32_t i = 0; i < n; i++) {
                    scores[i] = all[i];
                    ids[i] = i;
                }
                expect_best(all, n, k, tdm_topk_keep(scores, ids, n, k));
            }
        }
    }
}

/* A list that grows by pieces of any size and is cut down each time ends as the whole one. */
static void piece_by_piece(void **state) {
    float all[N];
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        fill(all, N, seed);
        for (int32_t piece = 1; piece < 200; piece += 37) {
            int64_t n = 0;
            for (int32_t from = 0; from < N; from += piece) {
                for (int32_t i = from; i < from + piece && i < N; i++) {
                    scores[n] = all[i];
                    ids[n++] = i;
                }
                n = tdm_topk_keep(scores, ids, n, 50);
            }
            expect_best(all, N, 50, n);
        }
    }
}

static void edges(void **state) {
    (void)state;
    scores[0] = 1.0F;
    ids[0] = 7;
    assert_int_equal(tdm_topk_keep(scores, ids, 0, 3), 0);
    assert_int_equal(tdm_topk_keep(scores, ids, 1, 1), 1);
    assert_int_equal(ids[0], 7);
    assert_int_equal(tdm_topk_keep(scores, ids, 1, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(against_a_sort),
        cmocka_unit_test(piece_by_piece),
        cmocka_unit_test(edges),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
