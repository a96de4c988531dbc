/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizers by their laws: what comes back is near what went in, hostile values end in defined bytes,
 * rows do not depend on their neighbours. Their bits are held to the references in
 * tests/golden/test_quantize.c. */
#include "support/support.h"

#include "base/random.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/quantize.h"
#include "tensor/weight.h"

#include <math.h>

#define N 1024

static const tdm_dtype TYPES[] = {TDM_DTYPE_F32,  TDM_DTYPE_F16,  TDM_DTYPE_BF16, TDM_DTYPE_Q4_0,
                                  TDM_DTYPE_Q4_1, TDM_DTYPE_Q5_0, TDM_DTYPE_Q5_1, TDM_DTYPE_Q8_0,
                                  TDM_DTYPE_Q4_K, TDM_DTYPE_Q5_K, TDM_DTYPE_Q6_K};

/* Sums of uniforms: bell-shaped, like weights. */
static void fill(float *x, int64_t n, uint64_t seed, float scale) {
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < 6; k++) {
            const uint64_t draw = tdm_random_u64(seed, 0, (uint32_t)i, k) >> 40;
            sum += (float)draw / 16777216.0f - 0.5f;
        }
        x[i] = sum * scale;
    }
}

static double relative_error(const float *x, const float *y, int64_t n) {
    double error = 0.0;
    double all = 0.0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(error / all);
}

static void test_types_come_back(void **state) {
    /* root mean square error over root mean square; measured figures with a tenth to spare */
    static const double MOST[] = {0.0,   0.0003, 0.003, 0.11,  0.09, 0.055,
                                  0.045, 0.006,  0.075, 0.037, 0.02};
    float x[N];
    float y[N];
    uint8_t row[4 * N];
    (void)state;
    for (size_t t = 0; t < SUPPORT_LEN(TYPES); t++) {
        assert_true(tdm_quantize_can(TYPES[t]));
        for (uint64_t seed = 0; seed < 5; seed++) {
            fill(x, N, seed, seed == 3 ? 2.0f : 0.05f);
            tdm_quantize_row(TYPES[t], x, N, row);
            tdm_dequant_row(TYPES[t], row, N, y);
            const double error = relative_error(x, y, N);
            if (!(error <= MOST[t])) {
                fail_msg("%s: %g", TDM_DTYPES[TYPES[t]].name, error);
            }
        }
    }
    assert_false(tdm_quantize_can(TDM_DTYPE_Q2_K));
    assert_false(tdm_quantize_can(TDM_DTYPE_I32));
}

/* A block's bytes follow from the block alone: K types search, and must not carry anything over. */
static void test_blocks_are_alone(void **state) {
    float x[N];
    uint8_t whole[4 * N];
    uint8_t alone[4 * N];
    (void)state;
    fill(x, N, 9, 1.0f);
    for (size_t t = 0; t < SUPPORT_LEN(TYPES); t++) {
        const tdm_dtype_info *info = &TDM_DTYPES[TYPES[t]];
        const size_t step = info->block_weights;
        tdm_quantize_row(TYPES[t], x, N, whole);
        for (size_t i = N / step; i-- > 0;) {
            tdm_quantize_row(TYPES[t], x + i * step, (int64_t)step, alone + i * info->block_bytes);
        }
        assert_memory_equal(whole, alone, N / step * info->block_bytes);
    }
}

/* Zeros, equal values, one outlier, the ends of f32: finite values come back, and no trap. */
static void test_hostile_values(void **state) {
    static const float PATTERNS[][2] = {
        {0.0f, 0.0f},   {1.5f, 1.5f},  {-3.0f, -3.0f},  {0.0f, 100.0f}, {1e-30f, -1e-30f},
        {1e-44f, 0.0f}, {6e4f, -6e4f}, {3e38f, -3e38f}, {0.0f, -0.0f},  {1e-7f, 1.0001e-7f}};
    float x[N];
    float y[N];
    uint8_t row[4 * N];
    (void)state;
    for (size_t p = 0; p < SUPPORT_LEN(PATTERNS); p++) {
        for (int64_t i = 0; i < N; i++) {
            x[i] = PATTERNS[p][i % 37 == 5];
        }
        for (size_t t = 0; t < SUPPORT_LEN(TYPES); t++) {
            tdm_quantize_row(TYPES[t], x, N, row);
            tdm_dequant_row(TYPES[t], row, N, y);
            for (int64_t i = 0; i < N && p < 6; i++) {
                assert_true(isfinite(y[i]));
            }
            if (p == 0 || p == 8) {
                assert_true(relative_error(y, y, 0) != 0.0 || y[0] == 0.0f);
                assert_true(y[5] == 0.0f);
            }
        }
        for (int32_t bits = 1; bits <= 8; bits += bits == 6 ? 2 : 1) {
            const tdm_mlx_form form = {TDM_WEIGHT_AFFINE, bits, 64, TDM_DTYPE_F32};
            uint8_t scales[N];
            uint8_t biases[N];
            tdm_quantize_mlx_row(&form, x, N, row, scales, biases);
        }
    }
}

/* The error of affine weights is at most half a step, and of one bit the whole. */
static void test_affine_is_near(void **state) {
    float x[N];
    float y[N];
    uint8_t codes[N];
    uint8_t scales[4 * N / 32];
    uint8_t biases[4 * N / 32];
    (void)state;
    fill(x, N, 4, 0.3f);
    for (int32_t bits = 1; bits <= 8; bits += bits == 6 ? 2 : 1) {
        for (int32_t group = 32; group <= 128; group *= 2) {
            const tdm_mlx_form form = {TDM_WEIGHT_AFFINE, bits, group, TDM_DTYPE_F32};
            const size_t scale_bytes = tdm_mlx_scales_bytes(&form, N);
            assert_int_equal(tdm_mlx_codes_bytes(&form, N), N * bits / 8);
            assert_int_equal(scale_bytes, N / group * 4);
            tdm_quantize_mlx_row(&form, x, N, codes, scales, biases);
            const tdm_weight_source source = {
                .mode = TDM_WEIGHT_AFFINE,
                .bits = bits,
                .group = group,
                .view = {TDM_DTYPE_U32, 2, {1, N * bits / 32}, codes, (size_t)(N * bits / 8)},
                .scales = {TDM_DTYPE_F32, 2, {1, N / group}, scales, scale_bytes},
                .biases = {TDM_DTYPE_F32, 2, {1, N / group}, biases, scale_bytes}};
            tdm_weight weight;
            assert_int_equal(tdm_weight_describe(&source, &weight, NULL), TDM_OK);
            tdm_weight_row(&weight, 0, y);
            for (int64_t i = 0; i < N; i++) {
                float scale = 0.0f;
                memcpy(&scale, scales + i / group * 4, sizeof scale);
                /* the refitted end of the range may cost another half a step at the other */
                assert_true(fabsf(x[i] - y[i]) <= fabsf(scale) * 1.001f);
            }
        }
    }
}

static void test_finds_what_is_not_finite(void **state) {
    float x[N];
    int64_t idx = -1;
    (void)state;
    fill(x, N, 5, 1.0f);
    assert_true(tdm_quantize_is_finite(x, N, &idx));
    assert_int_equal(idx, -1);
    x[700] = NAN;
    assert_false(tdm_quantize_is_finite(x, N, NULL));
    assert_true(tdm_quantize_is_finite(x, 700, &idx));
    x[600] = -INFINITY;
    assert_false(tdm_quantize_is_finite(x, N, &idx));
    assert_int_equal(idx, 600);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_come_back),          cmocka_unit_test(test_blocks_are_alone),
        cmocka_unit_test(test_hostile_values),           cmocka_unit_test(test_affine_is_near),
        cmocka_unit_test(test_finds_what_is_not_finite),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
