/* SPDX-License-Identifier: Apache-2.0
 *
 * Rotation frequencies against the published rules worked by hand, one case a kind and band. Whole
 * models against the reference framework are the goldens' business. */
#include "model/blocks/rope.h"
#include "support/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void check(const tdm_rope_config *config, int32_t dim, const double *expected,
                  double magnitude) {
    float inv_freq[64];
    float got = 0.0F;
    tdm_rope_frequencies(config, dim, NULL, inv_freq, &got);
    assert_true(fabs((double)got - magnitude) < 1e-6);
    for (int32_t i = 0; i < dim / 2; i++) {
        assert_true(fabs((double)inv_freq[i] - expected[i]) <= 1e-6 * expected[i]);
    }
}

static void test_default_and_linear(void **state) {
    const tdm_rope_config plain = {.kind = TDM_ROPE_DEFAULT, .theta = 10000.0, .factor = 1.0};
    const tdm_rope_config linear = {.kind = TDM_ROPE_LINEAR, .theta = 10000.0, .factor = 8.0};
    const double expected[4] = {1.0, 0.1, 0.01, 0.001};
    const double divided[4] = {0.125, 0.0125, 0.00125, 0.000125};
    (void)state;
    check(&plain, 8, expected, 1.0);
    check(&linear, 8, divided, 1.0);
}

/* All three bands: kept, blended, divided. Worked by hand from the published rule. */
static void test_llama3_bands(void **state) {
    const tdm_rope_config config = {.kind = TDM_ROPE_LLAMA3,
                                    .theta = 10000.0,
                                    .factor = 8.0,
                                    .low_freq_factor = 1.0,
                                    .high_freq_factor = 4.0,
                                    .original_context = 256};
    float f[4];
    float magnitude = 0.0F;
    double smooth = (256.0 * 0.1 / 6.283185307179586 - 1.0) / 3.0;
    (void)state;
    tdm_rope_frequencies(&config, 8, NULL, f, &magnitude);
    assert_true((double)magnitude == 1.0);
    assert_true(fabs((double)f[0] - 1.0) < 1e-7);
    assert_true(smooth > 0.9 && fabs((double)f[1] - 0.1) < 1e-8); /* wavelength 62.8 < 64: kept */
    assert_true(fabs((double)f[2] - 0.00125) < 1e-9); /* wavelength 628 > 256: divided */
    assert_true(fabs((double)f[3] - 0.000125) < 1e-10);
}

static void test_yarn_magnitude_and_ends(void **state) {
    tdm_rope_config config = {.kind = TDM_ROPE_YARN,
                              .theta = 10000.0,
                              .factor = 4.0,
                              .original_context = 4096,
                              .beta_fast = 32.0,
                              .beta_slow = 1.0,
                              .is_truncated = true};
    float f[32];
    float magnitude = 0.0F;
    (void)state;
    tdm_rope_frequencies(&config, 64, NULL, f, &magnitude);
    assert_true(fabs((double)magnitude - (0.1 * log(4.0) + 1.0)) < 1e-6);
    assert_true(fabs((double)f[0] - 1.0) < 1e-7); /* fast end is kept */
    assert_true(fabs((double)f[31] - pow(10000.0, -62.0 / 64.0) / 4.0) <
                1e-10); /* slow end is divided */
    config.attention_factor = 1.5;
    tdm_rope_frequencies(&config, 64, NULL, f, &magnitude);
    assert_true(fabs((double)magnitude - 1.5) < 1e-7);
}

/* Frequencies of the whole head for a part of its pairs; the rest stands still. */
static void test_proportional(void **state) {
    tdm_rope_config config = {
        .kind = TDM_ROPE_PROPORTIONAL, .theta = 10000.0, .factor = 1.0, .fraction = 0.5};
    const double half[4] = {1.0, 0.1, 0.0, 0.0};
    const double odd[4] = {0.5, 0.0, 0.0, 0.0};
    const double whole[4] = {1.0, 0.1, 0.01, 0.001};
    (void)state;
    check(&config, 8, half, 1.0);
    config.fraction = 0.45; /* 1.8 pairs: one */
    config.factor = 2.0;
    check(&config, 8, odd, 1.0);
    config.fraction = 1.0;
    config.factor = 1.0;
    check(&config, 8, whole, 1.0);
}

static void test_factors_divide(void **state) {
    const tdm_rope_config config = {.kind = TDM_ROPE_FREQ_FACTORS, .theta = 10000.0, .factor = 1.0};
    const float factors[2] = {2.0F, 1e30F};
    float f[2];
    float magnitude = 0.0F;
    (void)state;
    tdm_rope_frequencies(&config, 4, factors, f, &magnitude);
    assert_true(fabs((double)f[0] - 0.5) < 1e-7);
    assert_true((double)f[1] < 1e-30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_and_linear),      cmocka_unit_test(test_llama3_bands),
        cmocka_unit_test(test_yarn_magnitude_and_ends), cmocka_unit_test(test_proportional),
        cmocka_unit_test(test_factors_divide),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
