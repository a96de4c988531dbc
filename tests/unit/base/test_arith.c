/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic against 128-bit truth at and around every edge. */
#include "support/support.h"

#include "base/arith.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 signed_wide;

static size_t edge(size_t i) {
    const size_t bases[] = {0,
                            1,
                            2,
                            3,
                            5,
                            7,
                            255,
                            256,
                            4095,
                            4096,
                            UINT32_MAX,
                            SIZE_MAX / 2,
                            SIZE_MAX / 3,
                            SIZE_MAX / 2 + 1,
                            SIZE_MAX};
    const size_t n = SUPPORT_LEN(bases);
    return bases[i % n] + (size_t)((i / n) % 3) - 1; /* wraps at 0 on purpose */
}

#define N_EDGES 45

static void test_sizes(void **state) {
    (void)state;
    for (size_t i = 0; i < N_EDGES; i++) {
        for (size_t j = 0; j < N_EDGES; j++) {
            const size_t a = edge(i);
            const size_t b = edge(j);
            const wide sum = (wide)a + b;
            const wide product = (wide)a * b;
            size_t out = 12345;
            assert_int_equal(tdm_add_size(a, b, &out), sum <= SIZE_MAX);
            assert_true(out == (sum <= SIZE_MAX ? (size_t)sum : 12345));
            out = 12345;
            assert_int_equal(tdm_mul_size(a, b, &out), product <= SIZE_MAX);
            assert_true(out == (product <= SIZE_MAX ? (size_t)product : 12345));
            for (size_t total = 0; total < N_EDGES; total++) {
                assert_int_equal(tdm_range_is_inside(a, b, edge(total)), sum <= edge(total));
            }
        }
    }
}

static void test_pad(void **state) {
    (void)state;
    for (size_t i = 0; i < N_EDGES; i++) {
        for (int shift = 0; shift < 13; shift++) {
            const size_t align = (size_t)1 << shift;
            const wide want = ((wide)edge(i) + align - 1) / align * align;
            size_t out = 999;
            assert_int_equal(tdm_pad_size(edge(i), align, &out), want <= SIZE_MAX);
            assert_true(out == (want <= SIZE_MAX ? (size_t)want : 999));
        }
    }
}

static void test_signed(void **state) {
    const int64_t edges[] = {0,          1,          -1,           2,         -2,
                             INT32_MAX,  INT32_MIN,  INT64_MAX,    INT64_MIN, INT64_MAX - 1,
                             3037000499, 3037000500, INT64_MIN + 1};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(edges); i++) {
        for (size_t j = 0; j < SUPPORT_LEN(edges); j++) {
            const signed_wide sum = (signed_wide)edges[i] + edges[j];
            const signed_wide product = (signed_wide)edges[i] * edges[j];
            const bool sum_fits = sum >= INT64_MIN && sum <= INT64_MAX;
            const bool product_fits = product >= INT64_MIN && product <= INT64_MAX;
            int64_t out = 4;
            assert_int_equal(tdm_add_i64(edges[i], edges[j], &out), sum_fits);
            assert_true(out == (sum_fits ? (int64_t)sum : 4));
            out = 4;
            assert_int_equal(tdm_mul_i64(edges[i], edges[j], &out), product_fits);
            assert_true(out == (product_fits ? (int64_t)product : 4));
        }
    }
}

static void test_power_of_two(void **state) {
    (void)state;
    for (size_t a = 0; a < 70000; a++) {
        int n_bits = 0;
        for (size_t b = a; b != 0; b >>= 1) {
            n_bits += (int)(b & 1U);
        }
        assert_int_equal(tdm_is_power_of_two(a), n_bits == 1);
    }
    assert_true(tdm_is_power_of_two(SIZE_MAX / 2 + 1));
    assert_false(tdm_is_power_of_two(SIZE_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_pad),
        cmocka_unit_test(test_signed),
        cmocka_unit_test(test_power_of_two),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
