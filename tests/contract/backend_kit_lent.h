/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that were lent for the time of weight_init, and weights whose columns stand in another
 * order: both give the bits of the same weight kept where it lies with its activations put in order
 * by hand, alone and beside other parts. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_LENT_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_LENT_H

#include "contract/backend_kit_groups.h"

#define LENT_IN 256

/* What was lent goes: a backend that reads it afterwards reads freed memory. */
static inline void kit_lent_free(kit_weight *w) {
    for (int i = 0; i < 3; ++i) {
        free(w->bytes[i]);
        w->bytes[i] = NULL;
    }
}

static inline void kit_lent_one(const backend_kit *kit, kit_spec spec, int64_t n_out, int64_t n) {
    kit_weight kept = {0};
    int32_t columns[LENT_IN];
    float *x = kit_random(n * LENT_IN, 91);
    float *ordered = kit_floats(n * LENT_IN);
    tdm_weight_source source = kit_grouped_source(&spec, n_out, LENT_IN, 7, &kept);
    for (int32_t i = 0; i < LENT_IN; ++i) {
        columns[i] = (i * 37 + 11) % LENT_IN;
    }
    for (int64_t t = 0; t < n; ++t) {
        for (int i = 0; i < LENT_IN; ++i) {
            ordered[t * LENT_IN + i] = x[t * LENT_IN + columns[i]];
        }
    }
    for (int s = 0; s < 3; ++s) {
        tdm_backend *be = kit->subjects[s];
        tdm_weight a;
        tdm_weight b;
        tdm_error err = {0};
        float *out[4];
        kit_weight bytes = {0};
        tdm_weight_source lent = kit_grouped_source(&spec, n_out, LENT_IN, 7, &bytes);
        lent.is_transient = true;
        lent.columns = columns;
        assert_int_equal(tdm_weight_init_source(be, &source, &a, &err), TDM_OK);
        assert_int_equal(tdm_weight_init_source(be, &lent, &b, &err), TDM_OK);
        kit_lent_free(&bytes);
        for (int i = 0; i < 4; ++i) {
            out[i] = kit_filled(n * n_out, 0.0f);
        }
        const tdm_linear_part parts[4] = {{.weight = &a, .out = out[0], .ld_out = n_out},
                                          {.weight = &b, .out = out[1], .ld_out = n_out},
                                          {.weight = &b, .out = out[2], .ld_out = n_out},
                                          {.weight = &a, .out = out[3], .ld_out = n_out}};
        tdm_op_linear(be, x, LENT_IN, n, parts, 4);
        tdm_linear_part alone = {.weight = &a, .out = kit_floats(n * n_out), .ld_out = n_out};
        tdm_op_linear(be, ordered, LENT_IN, n, &alone, 1);
        kit_same("columns in another order", alone.out, out[1], n * n_out);
        kit_same("columns in another order, second part", alone.out, out[2], n * n_out);
        if (n > 1) {
            const tdm_linear_group groups[2] = {
                {.row0 = 0, .n = 1, .n_parts = 2, .parts = {parts[0], parts[1]}},
                {.row0 = 1, .n = n - 1, .n_parts = 1, .parts = {parts[1]}}};
            memset(out[1], 0, (size_t)(n * n_out) * sizeof *out[1]);
            tdm_op_linear_groups(be, x, LENT_IN, groups, 2);
            kit_same("groups of columns in another order", alone.out, out[1], n * n_out);
        }
        tdm_op_linear(be, x, LENT_IN, n, &alone, 1);
        kit_same("a part before another order", alone.out, out[0], n * n_out);
        kit_same("a part behind another order", alone.out, out[3], n * n_out);
        free(alone.out);
        for (int i = 0; i < 4; ++i) {
            free(out[i]);
        }
        tdm_weight_deinit(be, &a);
        tdm_weight_deinit(be, &b);
    }
    kit_lent_free(&kept);
    free(ordered);
    free(x);
}

static inline void kit_lent(const backend_kit *kit) {
    static const int32_t BITS[] = {2, 3, 4, 8};
    kit_groups_run(kit); /* first without, then with columns in another order */
    for (size_t i = 0; i < SUPPORT_LEN(BITS); ++i) {
        const kit_spec spec = {TDM_WEIGHT_AFFINE, TDM_DTYPE_F32, BITS[i], 64};
        kit_lent_one(kit, spec, 19, 1);
        kit_lent_one(kit, spec, 8, 5);
        kit_lent_one(kit, spec, 24, 33);
    }
}

#endif
