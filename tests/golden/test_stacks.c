/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are part of a tensor: gpt-oss's MXFP4 stacks, every row of every expert by the
 * definition of the type; stacks cut by halves, row in turn, or turned; and stacks whose tensors
 * disagree with each other or with the model. */
#include "model/blocks/parts.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include "backend/cpu/cpu.h"
#include "tensor/ops.h"
#include "tensor/weight.h"

#include <math.h>

#define N_EXPERTS 3
#define N_ROWS 6
#define N_IN 64

typedef struct rig {
    mem_fs m;
    bytes model;
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_arena arena;
    tdm_loader loader;
} rig;

static uint8_t block_byte(size_t i) {
    return (uint8_t)(i * 73 + i / 7);
}

static uint8_t scale_byte(size_t i) {
    return (uint8_t)(120 + i % 11);
}

/* A stack "x_blocks", "x_scales" whose shapes and types are the caller's text. */
static tdm_status rig_open(rig *r, const char *blocks, const char *scales, size_t n_blocks,
                           size_t n_scales, tdm_error *err) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    char header[512];
    const int n = snprintf(header, sizeof header,
                           "{\"x_blocks\":{%s,\"data_offsets\":[0,%zu]},"
                           "\"x_scales\":{%s,\"data_offsets\":[%zu,%zu]}}",
                           blocks, n_blocks, scales, n_blocks, n_blocks + n_scales);
    memset(r, 0, sizeof *r);
    bytes_u64(&r->model, (uint64_t)n);
    bytes_put(&r->model, header, (size_t)n);
    for (size_t i = 0; i < n_blocks + n_scales; ++i) {
        const uint8_t byte = i < n_blocks ? block_byte(i) : scale_byte(i - n_blocks);
        bytes_put(&r->model, &byte, 1);
    }
    mem_fs_init(&r->m);
    mem_fs_put_text(&r->m, "d/config.json", "{\"model_type\":\"gpt_oss\"}");
    mem_fs_put(&r->m, "d/model.safetensors", r->model.data, r->model.len);
    tdm_arena_init(&r->arena, NULL);
    const tdm_checkpoint_options options = {.fs = &r->m.fs};
    TDM_TRY(tdm_cpu_backend_create(&r->backend, NULL, &cpu, err));
    TDM_TRY(tdm_checkpoint_open(&r->checkpoint, NULL, "d", &options, err));
    return tdm_loader_init(&r->loader, r->checkpoint, r->backend, &r->arena, err);
}

static void rig_close(rig *r) {
    tdm_checkpoint_close(r->checkpoint);
    tdm_arena_deinit(&r->arena);
    r->backend->ops->destroy(r->backend);
    bytes_free(&r->model);
}

/* Element i of the stack, counted over all of it: low nibbles first. */
static float value_at(size_t i) {
    static const float LEVELS[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
    const int code = (block_byte(i / 2) >> (4 * (i & 1))) & 15;
    const float level = (code & 8) != 0 ? -LEVELS[code & 7] : LEVELS[code & 7];
    return ldexpf(level, scale_byte(i / 32) - 127);
}

#define GOOD_BLOCKS "\"dtype\":\"U8\",\"shape\":[3,6,2,16]"
#define GOOD_SCALES "\"dtype\":\"U8\",\"shape\":[3,6,2]"

static void stacks_give_every_row(void **state) {
    static const int64_t STEPS[][2] = {{0, 1}, {0, 2}, {1, 2}, {1, 4}}; /* first, step */
    static rig r;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(rig_open(&r, GOOD_BLOCKS, GOOD_SCALES, 576, 36, &err), TDM_OK);
    for (size_t s = 0; s < SUPPORT_LEN(STEPS); ++s) {
        for (int64_t e = 0; e < N_EXPERTS; ++e) {
            const tdm_part_stack stack = {.n_experts = N_EXPERTS,
                                          .expert = e,
                                          .n_rows = N_ROWS,
                                          .n_in = N_IN,
                                          .row_first = STEPS[s][0],
                                          .row_step = STEPS[s][1]};
            tdm_weight w;
            if (tdm_part_blocks(&r.loader, "x", &stack, &w, &err) != TDM_OK) {
                fail_msg("%s (%s)", err.what, err.where);
            }
            assert_int_equal(w.n_in, N_IN);
            assert_int_equal(w.n_out, (N_ROWS - STEPS[s][0] - 1) / STEPS[s][1] + 1);
            for (int64_t row = 0; row < w.n_out; ++row) {
                float got[N_IN];
                size_t at = (size_t)((e * N_ROWS + STEPS[s][0] + row * STEPS[s][1]) * N_IN);
                tdm_weight_row(&w, row, got);
                for (size_t i = 0; i < N_IN; ++i) {
                    assert_true(got[i] == value_at(at + i));
                }
            }
            tdm_weight_deinit(r.backend, &w);
        }
    }
    assert_int_equal(tdm_loader_finish(&r.loader, &err), TDM_OK);
    assert_int_equal(r.loader.own.n_params[r.loader.own.section], N_EXPERTS * N_ROWS * N_IN);
    rig_close(&r);
}

static void lying_stacks_are_refused(void **state) {
    static const struct {
        const char *blocks, *scales;
        size_t n_blocks, n_scales;
        int64_t n_in;
        tdm_status status;
    } LIES[] = {
        {"\"dtype\":\"U8\",\"shape\":[3,6,2,15]", GOOD_SCALES, 540, 36, 64, TDM_E_SHAPE},
        {"\"dtype\":\"U8\",\"shape\":[3,6,32]", GOOD_SCALES, 576, 36, 64, TDM_E_SHAPE},
        {GOOD_BLOCKS, "\"dtype\":\"U8\",\"shape\":[3,6,1]", 576, 18, 64, TDM_E_SHAPE},
        {GOOD_BLOCKS, "\"dtype\":\"U8\",\"shape\":[3,2,6]", 576, 36, 64, TDM_E_SHAPE},
        {"\"dtype\":\"I8\",\"shape\":[3,6,2,16]", GOOD_SCALES, 576, 36, 64, TDM_E_UNSUPPORTED},
        {GOOD_BLOCKS, "\"dtype\":\"BF16\",\"shape\":[3,6,2]", 576, 72, 64, TDM_E_UNSUPPORTED},
        {GOOD_BLOCKS, GOOD_SCALES, 576, 36, 80, TDM_E_UNSUPPORTED},
    };
    static rig r;
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LIES); ++i) {
        tdm_error err = {0};
        tdm_weight w;
        const tdm_part_stack stack = {
            .n_experts = N_EXPERTS, .n_rows = N_ROWS, .n_in = LIES[i].n_in, .row_step = 1};
        assert_int_equal(
            rig_open(&r, LIES[i].blocks, LIES[i].scales, LIES[i].n_blocks, LIES[i].n_scales, &err),
            TDM_OK);
        if (tdm_part_blocks(&r.loader, "x", &stack, &w, &err) != LIES[i].status ||
            err.where[0] == '\0') {
            fail_msg("lie %zu: %s (%s)", i, err.what, err.where);
        }
        assert_int_equal(tdm_part_blocks(&r.loader, "y", &stack, &w, &err), TDM_E_FORMAT);
        rig_close(&r);
    }
}

/* A file of one tensor "x" of F32 or BF16, whose element i is i. */
static tdm_status rig_open_count(rig *r, const char *dtype, const char *shape, size_t n,
                                 tdm_error *err) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const bool is_wide = strcmp(dtype, "F32") == 0;
    char header[256];
    const int len = snprintf(header, sizeof header,
                             "{\"x\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%zu]}}",
                             dtype, shape, n * (is_wide ? 4 : 2));
    memset(r, 0, sizeof *r);
    bytes_u64(&r->model, (uint64_t)len);
    bytes_put(&r->model, header, (size_t)len);
    for (size_t i = 0; i < n; ++i) {
        const float value = (float)i;
        uint8_t raw[4];
        memcpy(raw, &value, 4);
        bytes_put(&r->model, is_wide ? raw : raw + 2, is_wide ? 4 : 2);
    }
    mem_fs_init(&r->m);
    mem_fs_put_text(&r->m, "d/config.json", "{\"model_type\":\"gpt_oss\"}");
    mem_fs_put(&r->m, "d/model.safetensors", r->model.data, r->model.len);
    tdm_arena_init(&r->arena, NULL);
    const tdm_checkpoint_options options = {.fs = &r->m.fs};
    TDM_TRY(tdm_cpu_backend_create(&r->backend, NULL, &cpu, err));
    TDM_TRY(tdm_checkpoint_open(&r->checkpoint, NULL, "d", &options, err));
    return tdm_loader_init(&r->loader, r->checkpoint, r->backend, &r->arena, err);
}

/* What a stack of [2, 6, 4] or, turned, [2, 4, 6] gives by halves and in turn. */
static void parts_of_stacks_are_their_rows(void **state) {
    static const int64_t TAKES[][3] = {{0, 1, 3}, {3, 1, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 0}};
    static const char *const TYPES[] = {"F32", "BF16"};
    static rig r;
    tdm_error err = {0};
    (void)state;
    for (size_t c = 0; c < 4 * SUPPORT_LEN(TAKES); ++c) {
        const int64_t *take = TAKES[c / 4];
        const bool is_turned = c % 2 != 0;
        const tdm_part_stack stack = {.n_experts = 2,
                                      .expert = 1,
                                      .n_rows = 6,
                                      .n_in = 4,
                                      .row_first = take[0],
                                      .row_step = take[1],
                                      .n_taken = take[2]};
        tdm_weight w;
        assert_int_equal(
            rig_open_count(&r, TYPES[c / 2 % 2], is_turned ? "[2,4,6]" : "[2,6,4]", 48, &err),
            TDM_OK);
        if ((is_turned ? tdm_part_turned : tdm_part_stacked)(&r.loader, "x", &stack, &w, &err) !=
            TDM_OK) {
            fail_msg("%s (%s)", err.what, err.where);
        }
        assert_true(w.n_in == 4 && w.n_out == (take[2] > 0 ? take[2] : 6));
        for (int64_t row = 0; row < w.n_out; ++row) {
            int64_t at = take[0] + row * take[1];
            float got[4];
            tdm_weight_row(&w, row, got);
            for (int64_t i = 0; i < 4; ++i) {
                assert_true(got[i] == (float)(24 + (is_turned ? i * 6 + at : at * 4 + i)));
            }
        }
        assert_int_equal(tdm_loader_finish(&r.loader, &err), TDM_OK);
        assert_int_equal(r.loader.own.n_params[r.loader.own.section], 48);
        tdm_weight_deinit(r.backend, &w);
        rig_close(&r);
    }
}

static void vectors_of_stacks_are_their_rows(void **state) {
    static const char *const TYPES[] = {"F32", "BF16"};
    static rig r;
    tdm_error err = {0};
    (void)state;
    for (size_t c = 0; c < 4; ++c) {
        const int64_t step = c < 2 ? 1 : 2;
        const tdm_part_stack stack = {
            .n_experts = 3, .expert = 2, .n_rows = 6, .row_first = 1, .row_step = step};
        const float *values = NULL;
        assert_int_equal(rig_open_count(&r, TYPES[c % 2], "[3,6]", 18, &err), TDM_OK);
        assert_int_equal(tdm_part_stack_vector(&r.loader, "x", &stack, &values, &err), TDM_OK);
        for (int64_t i = 0; 1 + i * step < 6; ++i) {
            assert_true(values[i] == (float)(12 + 1 + i * step));
        }
        assert_int_equal(tdm_loader_finish(&r.loader, &err), TDM_OK);
        rig_close(&r);
    }
}

/* Shapes of another model, types that are no floats, and a name that nothing has. */
static void other_stacks_are_refused(void **state) {
    static const struct {
        const char *dtype, *shape;
        size_t n;
        tdm_status matrix, turned, vector;
    } CASES[] = {
        {"F32", "[2,4,4]", 32, TDM_E_SHAPE, TDM_E_SHAPE, TDM_E_SHAPE},
        {"F32", "[3,6,4]", 72, TDM_E_SHAPE, TDM_E_SHAPE, TDM_E_SHAPE},
        {"F32", "[12,4]", 48, TDM_E_SHAPE, TDM_E_SHAPE, TDM_E_SHAPE},
        {"F32", "[2,5]", 10, TDM_E_SHAPE, TDM_E_SHAPE, TDM_E_SHAPE},
        {"I16", "[2,6,4]", 48, TDM_E_UNSUPPORTED, TDM_E_SHAPE, TDM_E_SHAPE},
        {"I16", "[2,4,6]", 48, TDM_E_SHAPE, TDM_E_UNSUPPORTED, TDM_E_SHAPE},
        {"I16", "[2,6]", 12, TDM_E_SHAPE, TDM_E_SHAPE, TDM_E_UNSUPPORTED},
    };
    static rig r;
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        tdm_error err = {0};
        const tdm_part_stack stack = {.n_experts = 2, .n_rows = 6, .n_in = 4, .row_step = 1};
        const float *values = NULL;
        tdm_weight w;
        assert_int_equal(rig_open_count(&r, CASES[i].dtype, CASES[i].shape, CASES[i].n, &err),
                         TDM_OK);
        assert_int_equal(tdm_part_stacked(&r.loader, "x", &stack, &w, &err), CASES[i].matrix);
        assert_int_equal(tdm_part_turned(&r.loader, "x", &stack, &w, &err), CASES[i].turned);
        assert_int_equal(tdm_part_stack_vector(&r.loader, "x", &stack, &values, &err),
                         CASES[i].vector);
        assert_true(err.where[0] != '\0');
        assert_int_equal(tdm_part_turned(&r.loader, "y", &stack, &w, &err), TDM_E_FORMAT);
        assert_int_equal(tdm_part_stacked(&r.loader, "y", &stack, &w, &err), TDM_E_FORMAT);
        assert_int_equal(tdm_part_stack_vector(&r.loader, "y", &stack, &values, &err),
                         TDM_E_FORMAT);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_give_every_row),
        cmocka_unit_test(lying_stacks_are_refused),
        cmocka_unit_test(parts_of_stacks_are_their_rows),
        cmocka_unit_test(vectors_of_stacks_are_their_rows),
        cmocka_unit_test(other_stacks_are_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
