/* SPDX-License-Identifier: Apache-2.0
 *
 * The cuts of a row against twins that sort everything and use the C library's exp, on rows of
 * every awkward shape: ties, flat, constant, sorted either way, mostly masked. */
#include "support/support.h"

#include "base/random.h"
#include "sample/row.h"

#include <float.h>
#include <math.h>

#define N 5003
#define N_SHAPES 9
#define NEAR 1e-5 /* twins may differ on a boundary nearer than this */

static double normal(uint32_t i, uint32_t j) {
    const double u = tdm_random_f64(9, i, j, 0) + 0x1.0p-54;
    const double v = tdm_random_f64(9, i, j, 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

static void make_shape(float *x, int shape) {
    for (int i = 0; i < N; i++) {
        const double z = normal((uint32_t)shape, (uint32_t)i);
        const double values[N_SHAPES] = {2.5 * z,
                                         0.01 * z,
                                         floor(2.0 * z),
                                         1.5,
                                         0.002 * i,
                                         -0.002 * i,
                                         i % 17 == 3 ? z : -HUGE_VAL,
                                         z * z * z,
                                         i == 4321 ? 30.0 : z};
        x[i] = (float)values[shape];
    }
}

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a;
    const uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef struct twin {
    uint64_t keys[N]; /* best first */
    size_t n;
    double total;
} twin;

static void make_twin(twin *t, const float *x) {
    t->n = 0;
    t->total = 0.0;
    for (int32_t i = 0; i < N; i++) {
        if (x[i] > -INFINITY) {
            t->keys[t->n++] = tdm_row_key(x[i], i);
        }
    }
    qsort(t->keys, t->n, sizeof t->keys[0], compare_keys);
    for (size_t i = 0; i < t->n; i++) {
        t->total +=
            exp((double)tdm_row_key_logit(t->keys[i]) - (double)tdm_row_key_logit(t->keys[0]));
    }
}

/* The row's candidates are the first n of the twin. */
static void assert_prefix(tdm_row *row, const twin *t, size_t n, const char *what, int shape) {
    if (row->is_dense) {
        tdm_row_keep_at_least(row, -INFINITY);
    }
    if (row->n_keys != n) {
        fail_msg("%s, shape %d: %zu candidates, want %zu", what, shape, row->n_keys, n);
    }
    qsort(row->keys, n, sizeof row->keys[0], compare_keys);
    assert_memory_equal(row->keys, t->keys, n * sizeof row->keys[0]);
}

/* Length of the shortest prefix whose probability reaches p; SIZE_MAX when it is a close call. */
static size_t twin_top_p(const twin *t, double p) {
    double before = 0.0;
    size_t n = 0;
    for (; n < t->n; n++) {
        if (fabs(before - p) < NEAR) {
            return SIZE_MAX;
        }
        if (before >= p) {
            break;
        }
        before +=
            exp((double)tdm_row_key_logit(t->keys[n]) - (double)tdm_row_key_logit(t->keys[0])) /
            t->total;
    }
    return n;
}

static void test_cuts(void **state) {
    static twin t;
    static float x[N];
    static float copy[N];
    const size_t tops[] = {1, 2, 7, 40, 63, 64, 65, 79, 1000, N - 1, N};
    const float nuclei[] = {1e-6F, 0.1F, 0.5F, 0.9F, 0.95F, 0.999F, 0.99999994F};
    const float mins[] = {1e-30F, 0.001F, 0.05F, 0.5F, 1.0F};
    int n_checked = 0;
    tdm_row row;
    (void)state;
    assert_int_equal(tdm_row_init(&row, NULL, N, NULL), TDM_OK);
    for (int shape = 0; shape < N_SHAPES; shape++) {
        make_shape(x, shape);
        make_twin(&t, x);
        for (size_t i = 0; i < SUPPORT_LEN(tops); i++) {
            memcpy(copy, x, sizeof x);
            assert_true(tdm_row_load(&row, copy));
            assert_int_equal(row.max_id, tdm_row_key_id(t.keys[0]));
            tdm_row_keep_top(&row, tops[i]);
            assert_prefix(&row, &t, tops[i] < t.n ? tops[i] : t.n, "top-k", shape);
            tdm_row_keep_top(&row, 5); /* of a list */
            assert_prefix(&row, &t, tops[i] < 5 ? tops[i] : 5, "top-k again", shape);
        }
        for (size_t i = 0; i < SUPPORT_LEN(nuclei); i++) {
            const size_t want = twin_top_p(&t, (double)nuclei[i]);
            for (int is_listed = 0; is_listed < 2 && want != SIZE_MAX; is_listed++) {
                memcpy(copy, x, sizeof x);
                assert_true(tdm_row_load(&row, copy));
                if (is_listed == 1) {
                    tdm_row_keep_at_least(&row, -INFINITY);
                }
                tdm_row_cut_top_p(&row, nuclei[i]);
                assert_prefix(&row, &t, want, "top-p", shape);
                n_checked++;
            }
        }
        for (size_t i = 0; i < SUPPORT_LEN(mins); i++) {
            const float bar =
                tdm_float_at_least((double)tdm_row_key_logit(t.keys[0]) + log((double)mins[i]));
            size_t want = 0;
            while (want < t.n && tdm_row_key_logit(t.keys[want]) >= bar) {
                want++;
            }
            for (int32_t keep = 1; keep <= 100; keep *= 10) {
                memcpy(copy, x, sizeof x);
                assert_true(tdm_row_load(&row, copy));
                tdm_row_cut_min_p(&row, mins[i], keep);
                assert_prefix(&row, &t, want > (size_t)keep ? want : (size_t)keep, "min-p", shape);
            }
        }
    }
    assert_true(n_checked > 60); /* close calls are rare */
    tdm_row_deinit(&row, NULL);
}

static void test_top_n_sigma(void **state) {
    static twin t;
    static float x[N];
    tdm_row row;
    (void)state;
    assert_int_equal(tdm_row_init(&row, NULL, N, NULL), TDM_OK);
    for (int shape = 0; shape < N_SHAPES; shape++) {
        double sum = 0.0;
        double squares = 0.0;
        size_t want = 0;
        make_shape(x, shape);
        make_twin(&t, x);
        for (size_t i = 0; i < t.n; i++) {
            sum += (double)tdm_row_key_logit(t.keys[i]);
        }
        for (size_t i = 0; i < t.n; i++) {
            const double d = (double)tdm_row_key_logit(t.keys[i]) - sum / (double)t.n;
            squares += d * d;
        }
        const double bar = (double)tdm_row_key_logit(t.keys[0]) - sqrt(squares / (double)t.n);
        while (want < t.n && (double)tdm_row_key_logit(t.keys[want]) >= bar) {
            want++;
        }
        assert_true(tdm_row_load(&row, x));
        tdm_row_cut_top_n_sigma(&row, 1.0F);
        assert_prefix(&row, &t, want, "top-n-sigma", shape);
    }
    tdm_row_deinit(&row, NULL);
}

/* Row 133 of the specification: of .5 .3 .15 .05 at threshold .1 only .15 and .05 survive; an
 * exempt id stays; nothing over the bar, or one, changes nothing. */
static void test_xtc(void **state) {
    const float p[4] = {0.5F, 0.3F, 0.15F, 0.05F};
    const int32_t exempt[1] = {1};
    const struct {
        float threshold;
        size_t n_exempt;
        const char *survivors;
    } cases[] = {{0.1F, 0, "23"}, {0.1F, 1, "123"}, {0.4F, 0, "0123"}, {0.25F, 0, "123"},
                 {0.0F, 0, "3"},  {0.0F, 1, "13"},  {0.5F, 0, "0123"}};
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(cases); c++) {
        for (int is_listed = 0; is_listed < 2; is_listed++) {
            float x[4];
            char got[8] = "";
            tdm_row row;
            assert_int_equal(tdm_row_init(&row, NULL, 4, NULL), TDM_OK);
            for (int i = 0; i < 4; i++) {
                x[i] = logf(p[i]) + 3.0F;
            }
            assert_true(tdm_row_load(&row, x));
            if (is_listed == 1) {
                tdm_row_keep_at_least(&row, -INFINITY);
            }
            tdm_row_cut_xtc(&row, cases[c].threshold, exempt, cases[c].n_exempt);
            if (is_listed == 0) {
                tdm_row_keep_at_least(&row, -INFINITY);
            }
            tdm_keys_sort(row.keys, row.n_keys);
            for (size_t i = 0; i < row.n_keys; i++) {
                got[i] = (char)('0' + tdm_row_key_id(row.keys[i]));
            }
            assert_string_equal(got, cases[c].survivors);
            assert_int_equal(row.max_id, got[0] - '0');
            tdm_row_deinit(&row, NULL);
        }
    }
}

static void test_argmax(void **state) {
    static float x[3000];
    float max = 0.0F;
    (void)state;
    for (int32_t n = 1; n <= 3000; n += n < 200 ? 1 : 37) {
        for (int32_t at = 0; at < n; at += 1 + n / 7) {
            for (int32_t i = 0; i < n; i++) {
                x[i] = i % 5 == 0 ? NAN : -1.0F - (float)(i % 3);
            }
            x[at] = 2.0F;
            x[n - 1] = at == n - 1 ? 2.0F : x[n - 1];
            if (at + 1 < n) {
                x[n - 1] = 2.0F; /* a tie further on */
            }
            assert_int_equal(tdm_argmax(x, n, &max), at);
            assert_true(max == 2.0F);
        }
    }
    for (int i = 0; i < 100; i++) {
        x[i] = NAN;
    }
    assert_int_equal(tdm_argmax(x, 100, &max), 0);
    assert_true(max == -INFINITY);
    x[77] = -FLT_MAX;
    assert_int_equal(tdm_argmax(x, 100, &max), 77);
    x[78] = INFINITY;
    assert_int_equal(tdm_argmax(x, 100, &max), 78);
    x[10] = -0.0F;
    x[78] = 0.0F;
    assert_int_equal(tdm_argmax(x, 100, &max), 10); /* zeros tie */
}

static void test_exp(void **state) {
    double worst = 0.0;
    (void)state;
    assert_true(tdm_exp_neg(0.0F) == 1.0F);
    for (int i = 0; i <= 870000; i++) {
        const float v = -1e-4F * (float)i;
        const double want = exp((double)v);
        const double rel = fabs((double)tdm_exp_neg(v) - want) / want;
        worst = rel > worst ? rel : worst;
    }
    assert_true(worst < 2.5e-7);
    assert_true(tdm_exp_neg(-88.0F) == tdm_exp_neg(-FLT_MAX));
    assert_true(tdm_exp_neg(-FLT_MAX) < 2e-38F);
}

static void test_exp_sum(void **state) {
    static float x[N];
    (void)state;
    for (int shape = 0; shape < N_SHAPES; shape++) {
        static twin t;
        make_shape(x, shape);
        make_twin(&t, x);
        const float max = tdm_row_key_logit(t.keys[0]);
        assert_true(fabs(tdm_exp_sum(x, N, max, 1.0F) / t.total - 1.0) < 2e-7);
    }
    const float odd[5] = {NAN, 1.0F, -INFINITY, 1.0F, -200.0F};
    assert_true(fabs(tdm_exp_sum(odd, 5, 1.0F, 1.0F) - 2.0) < 1e-12);
    assert_true(fabs(tdm_exp_sum(odd, 5, 1.0F, 1e30F) - 2.0) < 1e-12);
    const float huge[2] = {INFINITY, 1.0F};
    assert_true(fabs(tdm_exp_sum(huge, 2, FLT_MAX, 1.0F) - 1.0) < 1e-12);
}

static void test_keys(void **state) {
    const float in_order[] = {INFINITY, FLT_MAX, 2.0F,     1e-40F,   0.0F,
                              -1e-40F,  -2.0F,   -FLT_MAX, -INFINITY};
    (void)state;
    for (size_t i = 0; i + 1 < SUPPORT_LEN(in_order); i++) {
        assert_true(tdm_row_key(in_order[i], 5) < tdm_row_key(in_order[i + 1], 1));
        assert_true(tdm_row_key(in_order[i], 1) < tdm_row_key(in_order[i], 2));
        assert_true(tdm_row_key_logit(tdm_row_key(in_order[i], 7)) == in_order[i]);
        assert_int_equal(tdm_row_key_id(tdm_row_key(in_order[i], INT32_MAX)), INT32_MAX);
    }
    assert_true(tdm_row_key(0.0F, 3) == tdm_row_key(-0.0F, 3));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts), cmocka_unit_test(test_top_n_sigma),
        cmocka_unit_test(test_xtc),  cmocka_unit_test(test_argmax),
        cmocka_unit_test(test_exp),  cmocka_unit_test(test_exp_sum),
        cmocka_unit_test(test_keys),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
