/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are part of a tensor: gpt-oss's MXFP4 stacks, every row of every expert by the
 * definition of the type, and stacks whose tensors disagree. */
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stacks_give_every_row),
        cmocka_unit_test(lying_stacks_are_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
