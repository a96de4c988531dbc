/* SPDX-License-Identifier: Apache-2.0
 *
 * How the memory of a convolution is laid out as keys and values. What it computes is the business
 * of the goldens, and of the graph kit. */
#include "model/blocks/shortconv.h"
#include "support/support.h"
#include "tensor/ops.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void every_even_width_has_a_layout(void **state) {
    tdm_kv_geometry g;
    (void)state;
    for (int32_t hidden = 2; hidden <= 8192; hidden += 2) {
        assert_true(tdm_shortconv_geometry(hidden, 3, 7, &g));
        assert_int_equal(2 * g.n_kv_heads * g.head_dim, hidden);
        assert_int_equal(g.head_dim, g.value_dim);
        assert_true(g.head_dim <= TDM_HEAD_DIM_MAX);
    }
    assert_int_equal(g.window, 3);
    assert_int_equal(g.append_max, 7);
    assert_int_equal(g.dtype, TDM_DTYPE_F32);
}

static void odd_widths_have_none(void **state) {
    tdm_kv_geometry g;
    (void)state;
    assert_false(tdm_shortconv_geometry(1, 3, 1, &g));
    assert_false(tdm_shortconv_geometry(65, 3, 1, &g));
    assert_false(tdm_shortconv_geometry(0, 3, 1, &g));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_even_width_has_a_layout),
        cmocka_unit_test(odd_widths_have_none),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
