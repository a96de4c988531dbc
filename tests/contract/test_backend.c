/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit against every instruction set and tier of the CPU backend. */
#include "contract/backend_kit.h"

#include "backend/cpu/cpu.h"

static void run_one(tdm_cpu_isa isa, tdm_tier tier, bool is_mapped) {
    char name[64];
    backend_kit kit = {.name = name,
                       .tier = tier,
                       .is_rounding = isa == TDM_CPU_ISA_AVX512 || isa == TDM_CPU_ISA_AMX};
    tdm_error err = {0};
    if (!tdm_cpu_isa_is_present(isa)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    (void)snprintf(name, sizeof name, "%s tier %d%s", tdm_cpu_isa_name(isa), (int)tier,
                   is_mapped ? " mapped" : "");
    for (int i = 0; i < 3; ++i) {
        tdm_cpu_options options = {
            .tier = tier, .isa = tdm_cpu_isa_name(isa), .n_threads = i + 1, .is_mapped = is_mapped};
        if (tdm_cpu_backend_create(&kit.subjects[i], NULL, &options, &err) != TDM_OK) {
            fail_msg("%s: %s", name, err.what);
        }
    }
    tdm_cpu_options options = {.tier = tier, .isa = "scalar", .n_threads = 1};
    assert_int_equal(tdm_cpu_backend_create(&kit.twin, NULL, &options, &err), TDM_OK);
    backend_kit_run(&kit);
    for (int i = 0; i < 3; ++i) {
        kit.subjects[i]->ops->destroy(kit.subjects[i]);
    }
    kit.twin->ops->destroy(kit.twin);
}

static void scalar_reference(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_SCALAR, TDM_TIER_REFERENCE, false);
}

static void scalar_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_SCALAR, TDM_TIER_FAST, false);
}

static void avx2_exact(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVX2, TDM_TIER_EXACT, false);
}

static void avx2_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVX2, TDM_TIER_FAST, false);
}

static void avx2_fast_mapped(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVX2, TDM_TIER_FAST, true);
}

/* The exact tier of AVX-512 is not run: its f32 products are those of dense weights in the fast one,
 * attention is the fast one's, and the rest is AVX2's. */
static void avx512_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVX512, TDM_TIER_FAST, false);
}

static void avx512_fast_mapped(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVX512, TDM_TIER_FAST, true);
}

static void avxvnni_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AVXVNNI, TDM_TIER_FAST, false);
}

static void amx_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_AMX, TDM_TIER_FAST, false);
}

static void neon_exact(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_NEON, TDM_TIER_EXACT, false);
}

static void neon_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_NEON, TDM_TIER_FAST, false);
}

static void neon_fast_mapped(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_NEON, TDM_TIER_FAST, true);
}

/* The exact tier is NEON's: only int8 products are its own. */
static void neon_dot_fast(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_NEON_DOT, TDM_TIER_FAST, false);
}

static void neon_dot_fast_mapped(void **state) {
    (void)state;
    run_one(TDM_CPU_ISA_NEON_DOT, TDM_TIER_FAST, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_reference),   cmocka_unit_test(scalar_fast),
        cmocka_unit_test(avx2_exact),         cmocka_unit_test(avx2_fast),
        cmocka_unit_test(avx2_fast_mapped),   cmocka_unit_test(avx512_fast),
        cmocka_unit_test(avx512_fast_mapped), cmocka_unit_test(avxvnni_fast),
        cmocka_unit_test(amx_fast),           cmocka_unit_test(neon_exact),
        cmocka_unit_test(neon_fast),          cmocka_unit_test(neon_fast_mapped),
        cmocka_unit_test(neon_dot_fast),      cmocka_unit_test(neon_dot_fast_mapped),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
