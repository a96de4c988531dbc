/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of several tensors: sources that contradict themselves, and the small floats of scales
 * and codes. tests/golden/test_weights.c has the values. */
#include "support/support.h"

#include "tensor/half.h"
#include "tensor/weight.h"

#include <math.h>

/* One thing wrong at a time. */
static void lies_are_refused(void **state) {
    static const uint8_t data[4096];
    const tdm_weight_source good = {
        .mode = TDM_WEIGHT_AFFINE,
        .bits = 4,
        .group = 64,
        .view = {TDM_DTYPE_U32, 2, {4, 16}, data, 256},
        .scales = {TDM_DTYPE_F16, 2, {4, 2}, data, 16},
        .biases = {TDM_DTYPE_F16, 2, {4, 2}, data, 16},
    };
    (void)state;
    for (int lie = 0; lie < 15; ++lie) {
        tdm_weight_source s = good;
        tdm_weight w;
        tdm_error err = {0};
        tdm_status want = TDM_E_SHAPE;
        switch (lie) {
        case 0:
            want = TDM_OK;
            break;
        case 1:
            s.bits = 7;
            want = TDM_E_UNSUPPORTED;
            break;
        case 2:
            s.group = 16;
            want = TDM_E_UNSUPPORTED;
            break;
        case 3:
            s.bits = 8;
            break;
        case 4:
            s.group = 32;
            break;
        case 5:
            s.view.dtype = TDM_DTYPE_I32;
            break;
        case 6:
            s.scales.dtype = TDM_DTYPE_U8;
            break;
        case 7:
            s.biases.dtype = TDM_DTYPE_BF16;
            break;
        case 8:
            s.scales.dims[0] = 2;
            s.scales.bytes = 8;
            break;
        case 9:
            s.biases.dims[1] = 1;
            s.biases.bytes = 8;
            break;
        case 10:
            s.scales.bytes = 15;
            break;
        case 11:
            s.view.data = NULL;
            break;
        case 12:
            s.mode = TDM_WEIGHT_MODE_COUNT;
            want = TDM_E_UNSUPPORTED;
            break;
        case 13:
            s.mode = TDM_WEIGHT_MXFP4; /* with affine's scales */
            s.group = 32;
            break;
        default:
            s.view.dims[1] = INT64_MAX / 2;
            break;
        }
        if (tdm_weight_describe(&s, &w, &err) != want) {
            fail_msg("lie %d: %s", lie, err.what);
        }
        assert_true(want == TDM_OK ? w.n_in == 128 : w.data == NULL && strlen(err.what) > 0);
    }
}

/* E4M3 and E8M0 by their fields, all bytes. */
static void small_floats_are_exact(void **state) {
    (void)state;
    for (int i = 0; i < 256; ++i) {
        int exponent = (i >> 3) & 15;
        int fraction = i & 7;
        double want = exponent == 0 ? ldexp(fraction, -9) : ldexp(8 + fraction, exponent - 10);
        float got = tdm_e4m3_to_f32((uint8_t)i);
        if ((i & 127) == 127) {
            assert_true(isnan(got));
        } else {
            assert_true((double)fabsf(got) == want);
            assert_int_equal(signbit(got) != 0, i >> 7);
        }
        float scale = tdm_e8m0_to_f32((uint8_t)i);
        assert_true(i == 255 ? isinf(scale) : (double)scale == ldexp(1.0, i - 127));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(small_floats_are_exact),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
