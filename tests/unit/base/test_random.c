/* SPDX-License-Identifier: Apache-2.0
 *
 * Philox4x32-10 against the known answers that Random123 publishes (kat_vectors), and the streams
 * built on it. */
#include "support/support.h"

#include "base/random.h"

#include <math.h>

static void test_known_answers(void **state) {
    const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}},
        {{0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344},
         {0xA4093822, 0x299F31D0},
         {0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(known); i++) {
        uint32_t out[4];
        tdm_philox4x32(known[i].counter, known[i].key, out);
        assert_memory_equal(out, known[i].out, sizeof out);
    }
}

/* The layout is a promise: the same stream in the oracle of tests/data/sampling. */
static void test_layout(void **state) {
    const uint64_t seed = 0xFEDCBA9876543210;
    (void)state;
    for (uint32_t draw = 0; draw < 100; draw++) {
        const uint32_t counter[4] = {draw / 2, 77, 5, 0};
        const uint32_t key[2] = {0x76543210, 0xFEDCBA98};
        uint32_t out[4];
        tdm_philox4x32(counter, key, out);
        const uint64_t want =
            draw % 2 == 0 ? (uint64_t)out[1] << 32 | out[0] : (uint64_t)out[3] << 32 | out[2];
        assert_true(tdm_random_u64(seed, 5, 77, draw) == want);
        assert_true(tdm_random_f64(seed, 5, 77, draw) == ldexp((double)(want >> 11), -53));
    }
}

/* Each part of the key matters, and a draw does not depend on the ones before it. */
static void test_streams_differ(void **state) {
    const uint64_t base = tdm_random_u64(1, 2, 3, 4);
    (void)state;
    assert_true(base == tdm_random_u64(1, 2, 3, 4));
    assert_true(base != tdm_random_u64(2, 2, 3, 4));
    assert_true(base != tdm_random_u64(1 + ((uint64_t)1 << 32), 2, 3, 4));
    assert_true(base != tdm_random_u64(1, 3, 3, 4));
    assert_true(base != tdm_random_u64(1, 2, 4, 4));
    assert_true(base != tdm_random_u64(1, 2, 3, 5));
}

static void test_uniform(void **state) {
    enum { n = 200000, cells = 100 };
    static int count[cells];
    double sum = 0.0;
    double chi = 0.0;
    (void)state;
    for (uint32_t i = 0; i < n; i++) {
        const double u = tdm_random_f64(11, 0, i / 1000, i % 1000);
        assert_true(u >= 0.0 && u < 1.0);
        sum += u;
        count[(int)(u * cells)]++;
    }
    assert_true(fabs(sum / n - 0.5) < 0.003); /* 4.6 deviations */
    for (int i = 0; i < cells; i++) {
        const double want = (double)n / cells;
        chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
    }
    assert_true(chi < 99.0 + 4.0 * sqrt(198.0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_streams_differ),
        cmocka_unit_test(test_uniform),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
