/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit over linear_groups (contract/backend.h): what groups give together is what each
 * gives alone as a linear, bit for bit, whatever their sizes, types and number, on any number of
 * threads. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_GROUPS_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_GROUPS_H

#include "contract/backend_kit_weights.h"

#define KIT_GROUPS 6
#define KIT_GROUPS_ROWS 40
#define KIT_GROUPS_IN 256
#define KIT_GROUPS_LD 50

typedef struct kit_groups {
    kit_weight weights[KIT_GROUPS][2];
    int32_t n_groups;
    const float *x;
    const float *bias;
} kit_groups;

/* Groups of 1 to 17 rows (wide products begin at 16), with a row of nobody behind each third; one part or two, with bias or
 * without, added or not. Outs are those of part 0 and part 1. */
static inline void kit_groups_fill(const kit_groups *k, int subject, float *const outs[2],
                                   tdm_linear_group *groups) {
    static const int64_t SIZES[KIT_GROUPS] = {1, 17, 2, 5, 1, 7};
    int64_t row = 3;
    for (int32_t g = 0; g < k->n_groups; ++g) {
        groups[g] = (tdm_linear_group){.row0 = row, .n = SIZES[g], .n_parts = 1 + g % 2};
        for (int32_t p = 0; p < groups[g].n_parts; ++p) {
            groups[g].parts[p] = (tdm_linear_part){.weight = &k->weights[g][p].w[subject],
                                                   .bias = (g + p) % 3 == 0 ? k->bias : NULL,
                                                   .out = outs[p],
                                                   .ld_out = KIT_GROUPS_LD,
                                                   .is_added = (g + p) % 2 == 0};
        }
        row += SIZES[g] + (g % 3 == 2 ? 1 : 0);
    }
    assert_true(row <= KIT_GROUPS_ROWS);
}

/* The same by linear, group after group. */
static inline void kit_groups_alone(tdm_backend *be, const kit_groups *k,
                                    const tdm_linear_group *groups) {
    for (int32_t g = 0; g < k->n_groups; ++g) {
        tdm_linear_part parts[2];
        for (int32_t p = 0; p < groups[g].n_parts; ++p) {
            parts[p] = groups[g].parts[p];
            parts[p].out += groups[g].row0 * KIT_GROUPS_LD;
        }
        tdm_op_linear(be, k->x + groups[g].row0 * KIT_GROUPS_IN, KIT_GROUPS_IN, groups[g].n, parts,
                      groups[g].n_parts);
    }
}

static inline void kit_groups_compare(const backend_kit *kit, const kit_groups *k, int subject) {
    const int64_t n = KIT_GROUPS_ROWS * KIT_GROUPS_LD;
    float *want[2] = {kit_filled(n, KIT_CANARY), kit_filled(n, KIT_CANARY)};
    float *got[2] = {kit_filled(n, KIT_CANARY), kit_filled(n, KIT_CANARY)};
    tdm_linear_group groups[KIT_GROUPS];
    kit_groups_fill(k, subject, want, groups);
    kit_groups_alone(kit_backend(kit, subject), k, groups);
    kit_groups_fill(k, subject, got, groups);
    tdm_op_linear_groups(kit_backend(kit, subject), k->x, KIT_GROUPS_IN, groups, k->n_groups);
    for (int p = 0; p < 2; ++p) { /* rows of nobody and columns behind the last included */
        kit_same("groups of a linear", want[p], got[p], n);
        free(want[p]);
        free(got[p]);
    }
}

/* Few groups and many, of one type and of several. */
static inline void kit_groups_run(const backend_kit *kit) {
    static const tdm_dtype TYPES[KIT_GROUPS] = {TDM_DTYPE_Q4_0, TDM_DTYPE_Q4_K, TDM_DTYPE_BF16,
                                                TDM_DTYPE_Q6_K, TDM_DTYPE_Q8_0, TDM_DTYPE_F32};
    static const int64_t OUTS[KIT_GROUPS] = {1, 8, 19, 40, 7, 48};
    for (int mixed = 0; mixed < 2; ++mixed) {
        kit_groups k = {.x = kit_random(KIT_GROUPS_ROWS * KIT_GROUPS_IN, 80),
                        .bias = kit_random(KIT_GROUPS_LD, 81)};
        for (int g = 0; g < KIT_GROUPS; ++g) {
            for (int p = 0; p < 2; ++p) {
                tdm_dtype dtype = mixed != 0 ? TYPES[(g + p) % KIT_GROUPS] : TDM_DTYPE_Q4_0;
                kit_weight_make(kit, &k.weights[g][p], KIT_STORED(dtype), OUTS[(g + 2 * p) % 6],
                                KIT_GROUPS_IN, (uint32_t)(90 + 2 * g + p));
            }
        }
        for (int s = 0; s < 4; ++s) {
            for (k.n_groups = 0; k.n_groups <= KIT_GROUPS; k.n_groups += k.n_groups == 1 ? 2 : 1) {
                kit_groups_compare(kit, &k, s);
            }
        }
        for (int g = 0; g < 2 * KIT_GROUPS; ++g) {
            kit_weight_free(kit, &k.weights[g / 2][g % 2]);
        }
        free((void *)(uintptr_t)k.x);
        free((void *)(uintptr_t)k.bias);
    }
}

#endif
