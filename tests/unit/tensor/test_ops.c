/* SPDX-License-Identifier: Apache-2.0
 *
 * The op entries: what they refuse with a status, what they stop at, and that everything legal
 * reaches the table once. A table of counters stands in for a backend. */
#include "support/support.h"

#include "tensor/ops.h"

typedef struct fake {
    tdm_backend base;
    int n_calls;
    bool is_weight_inited;
} fake;

static int *calls_of(tdm_backend *be) {
    return &((fake *)(void *)be)->n_calls;
}

static const char *fake_name(const tdm_backend *be) {
    (void)be;
    return "fake";
}

static bool fake_can_read(const tdm_backend *be, tdm_dtype dtype) {
    (void)be;
    return dtype != TDM_DTYPE_I32;
}

static tdm_status fake_weight_init(tdm_backend *be, tdm_weight *weight, tdm_error *err) {
    (void)err;
    (void)weight;
    ((fake *)(void *)be)->is_weight_inited = true;
    return TDM_OK;
}

static void fake_weight_deinit(tdm_backend *be, tdm_weight *weight) {
    ((fake *)(void *)be)->is_weight_inited = false;
    *weight = (tdm_weight){0};
}

static void fake_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                        const tdm_linear_part *parts, int32_t n_parts) {
    (void)x;
    (void)ld_x;
    (void)n;
    (void)parts;
    (void)n_parts;
    *calls_of(be) += 1;
}

static void fake_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                       const int32_t *ids, int64_t n, float scale) {
    (void)out;
    (void)ld_out;
    (void)table;
    (void)ids;
    (void)n;
    (void)scale;
    *calls_of(be) += 1;
}

static void fake_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans) {
    (void)spans;
    (void)n_spans;
    *calls_of(be) += 1;
}

static void fake_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                               const tdm_linear_group *groups, int32_t n_groups) {
    (void)x;
    (void)ld_x;
    (void)groups;
    (void)n_groups;
    *calls_of(be) += 1;
}

static const tdm_backend_ops OPS = {.name = fake_name,
                                    .can_read = fake_can_read,
                                    .weight_init = fake_weight_init,
                                    .weight_deinit = fake_weight_deinit,
                                    .linear = fake_linear,
                                    .linear_groups = fake_linear_groups,
                                    .embed = fake_embed,
                                    .attention = fake_attention};

static void weights_are_checked(void **state) {
    static uint8_t data[18 * 8];
    static const struct {
        tdm_tensor_view view;
        tdm_status status;
    } CASES[] = {
        {{TDM_DTYPE_Q4_0, 2, {4, 64}, data, 144}, TDM_OK},
        {{TDM_DTYPE_Q4_0, 2, {4, 64}, data, 143}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 2, {4, 65}, data, 144}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 2, {4, 16}, data, 36}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 3, {4, 64, 1}, data, 144}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 2, {0, 64}, data, 0}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 2, {-4, 64}, data, 144}, TDM_E_SHAPE},
        {{TDM_DTYPE_Q4_0, 2, {4, 64}, NULL, 144}, TDM_E_SHAPE},
        {{TDM_DTYPE_F32, 2, {INT64_MAX, INT64_MAX}, data, 4}, TDM_E_SHAPE},
        {{TDM_DTYPE_F32, 2, {INT64_MAX / 2 + 2, 4}, data, 16}, TDM_E_SHAPE},
        {{TDM_DTYPE_I32, 2, {4, 4}, data, 64}, TDM_E_UNSUPPORTED},
        {{TDM_DTYPE_COUNT, 2, {4, 4}, data, 64}, TDM_E_UNSUPPORTED},
    };
    fake be = {.base = {.ops = &OPS}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        tdm_error err = {0};
        tdm_weight w = {.n_in = 99};
        assert_int_equal(tdm_weight_init(&be.base, &CASES[i].view, &w, &err), CASES[i].status);
        assert_int_equal(be.is_weight_inited, CASES[i].status == TDM_OK);
        assert_int_equal(w.n_in, CASES[i].status == TDM_OK ? 64 : 0);
        assert_true(CASES[i].status == TDM_OK || strlen(err.what) > 0);
        tdm_weight_deinit(&be.base, &w);
        assert_false(be.is_weight_inited);
    }
}

static void ids_outside_are_an_answer(void **state) {
    fake be = {.base = {.ops = &OPS}};
    uint8_t data[4 * 8 * 4] = {0};
    tdm_weight table = {.dtype = TDM_DTYPE_F32, .n_out = 4, .n_in = 8, .data = data};
    float out[16];
    tdm_error err = {0};
    const int32_t good[] = {3, 0};
    const int32_t high[] = {3, 4};
    const int32_t low[] = {-1, 0};
    (void)state;
    assert_int_equal(tdm_op_embed(&be.base, out, 8, &table, good, 2, 1.0f, &err), TDM_OK);
    assert_int_equal(be.n_calls, 1);
    assert_int_equal(tdm_op_embed(&be.base, out, 8, &table, high, 2, 1.0f, &err), TDM_E_ARG);
    assert_string_equal(err.limit, "0 to 3");
    assert_int_equal(tdm_op_embed(&be.base, out, 8, &table, low, 2, 1.0f, &err), TDM_E_ARG);
    assert_int_equal(tdm_op_embed(&be.base, out, 8, &table, NULL, 0, 1.0f, &err), TDM_OK);
    assert_int_equal(be.n_calls, 1);
}

/* Each of these breaks one precondition; 0 breaks none. */
static int misuse(void *arg) {
    int which = *(const int *)arg;
    fake be = {.base = {.ops = &OPS}};
    uint8_t data[4 * 8 * 4] = {0};
    tdm_weight w = {.dtype = TDM_DTYPE_F32, .n_out = 4, .n_in = 8, .data = data};
    float x[16] = {0};
    float out[16] = {0};
    tdm_linear_part part = {.weight = &w, .out = out, .ld_out = 4};
    uint8_t *page = data;
    tdm_kv_pages pages = {.k = &page,
                          .v = &page,
                          .page_shift = 6,
                          .n_pages = 1,
                          .dtype = TDM_DTYPE_F32,
                          .n_kv_heads = which == 3 ? 2 : 1,
                          .head_dim = 2,
                          .value_dim = 2};
    tdm_attention_span span = {
        .pages = &pages, .q = x, .out = out, .ld_q = 4, .ld_out = 4, .n = 1, .n_heads = 2};
    part.out = which == 1 ? x : out;
    part.ld_out = which == 2 ? 3 : 4;
    span.n_heads = which == 3 ? 3 : 2;
    span.ld_q = which == 3 ? 6 : 4;
    span.ld_out = which == 3 ? 6 : 4;
    span.pos0 = which == 4 ? 64 : 0;
    pages.page_shift = which == 5 ? 5 : 6;
    pages.dtype = which == 6 ? TDM_DTYPE_F16 : TDM_DTYPE_F32;
    tdm_op_linear(&be.base, x, which == 7 ? 7 : 8, 1, &part, which == 8 ? 5 : 1);
    tdm_op_linear(&be.base, NULL, 8, 0, &part, 1);
    span.sinks = which == 9 ? out : NULL;
    tdm_op_attention(&be.base, &span, 1);
    const tdm_activation act = {.kind = TDM_GLU_CLAMPED,
                                .alpha = which == 10 ? 0.0f : 1.0f,
                                .limit = which == 11 ? 0.0f : 1.0f};
    tdm_op_activate(&be.base, which == 12 ? NULL : &act, out, 4, 0, 4);
    part = (tdm_linear_part){.weight = &w, .out = out, .ld_out = 4};
    const tdm_linear_group groups[2] = {
        {.row0 = 0, .n = which == 13 ? 2 : 1, .n_parts = which == 14 ? 3 : 1, .parts = {part}},
        {.row0 = 1, .n = which == 15 ? 0 : 1, .n_parts = 1, .parts = {part}}};
    tdm_op_linear_groups(&be.base, x, which == 16 ? 7 : 8, groups, 2);
    tdm_op_linear_groups(&be.base, NULL, 8, groups, 0);
    return be.n_calls;
}

static void broken_preconditions_stop(void **state) {
    (void)state;
    for (int which = 0; which <= 16; ++which) {
        int end = support_run_child(misuse, &which);
        if (which == 0) {
            assert_int_equal(end, 3);
        } else if (end < 128) {
            fail_msg("misuse %d went through", which);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_checked),
        cmocka_unit_test(ids_outside_are_an_answer),
        cmocka_unit_test(broken_preconditions_stop),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
