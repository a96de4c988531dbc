/* SPDX-License-Identifier: Apache-2.0
 *
 * BF16 products of each set beside their law: values that round, overflow and flush, every E4M3 code,
 * scales at the ends, one token as many; and who gets them: no exact weight and no exact tier. Where
 * tiles of BF16 are, their bits are the law's. */
#include "support/support.h"

#include "backend/cpu/cpu_priv.h"
#include "base/random.h"
#include "tensor/half.h"
#include "tensor/ops.h"

#include <math.h>

#define N_IN 320
#define N_OUT 37
#define N_TOKENS 51
#define LD (N_IN + 32)

static const uint32_t ODD_BITS[] = {
    0x00000000, 0x80000000, 0x00000001, 0x807fffff, 0x00800000, 0x3f800000, 0x3f808000, 0x3f818000,
    0x3f808001, 0xbf807fff, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7f800001,
    0x7fc00000, 0xffc12345, 0x7f80ffff, 0x00807fff, 0x00808000, 0x47c35000, 0xc2f6e979, 0x0d800000};

#if defined(__x86_64__)
#include "backend/cpu/avx512/avx512_priv.h"

static bool is_dense(const tdm_weight *w) {
    return w->mode == TDM_WEIGHT_PLAIN;
}
#endif

/* AMX's products without its tiles, which AVX-512 can do. */
#define TWO_CHAINS TDM_CPU_ISA_COUNT
#define N_SETS (TDM_CPU_ISA_COUNT + 1)

static bool two_chains_of(tdm_cpu_kernels *out) {
#if defined(__x86_64__)
    if (tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX512) && __builtin_cpu_supports("avx512bf16")) {
        *out = (tdm_cpu_kernels){.is_bf16 = is_dense,
                                 .linear_bf16 = tdm_avx512_two_chains,
                                 .round_bf16 = tdm_avx512_round_bf16,
                                 .round_bf16_group = tdm_avx512_round_bf16_group};
        return true;
    }
#endif
    (void)out;
    return false;
}

/* The table of a set, unproved; false: the set is absent or has no BF16 products. */
static bool kernels_of(int isa, tdm_cpu_kernels *out) {
    if (isa == TWO_CHAINS) {
        return two_chains_of(out);
    }
    if (!tdm_cpu_isa_is_present((tdm_cpu_isa)isa)) {
        return false;
    }
    memset(out, 0, sizeof *out);
    tdm_cpu_kernels_scalar(out);
#if defined(__x86_64__)
    if (isa >= TDM_CPU_ISA_AVX2) {
        tdm_cpu_kernels_avx2(out);
    }
    if (isa >= TDM_CPU_ISA_AVXVNNI) {
        tdm_cpu_kernels_avxvnni(out);
    }
    if (isa >= TDM_CPU_ISA_AVX512) {
        tdm_cpu_kernels_avx512(out);
    }
    if (isa >= TDM_CPU_ISA_AMX) {
        tdm_cpu_kernels_amx(out);
    }
#endif
    return out->is_bf16 != NULL;
}

/* Everything a product needs; x16 is as the law rounds, tiles as the wide products want it. */
typedef struct fixture {
    tdm_weight weight;
    uint8_t data[N_OUT * N_IN * 2 + 1];
    uint8_t scales[N_OUT * N_IN / 32 * 4];
    float x[N_TOKENS * N_IN];
    _Alignas(64) uint16_t rounded[N_TOKENS * LD];
    _Alignas(64) uint16_t tiles[N_TOKENS * LD];
    float bias[N_OUT];
    float want[N_TOKENS * N_OUT];
    float got[N_TOKENS * N_OUT];
    _Alignas(64) uint8_t scratch[256 * 1024];
    tdm_cpu_x16 x16;
    tdm_cpu_linear_job job;
} fixture;

static float noise(uint32_t stream, uint32_t i) {
    return (float)(2.0 * tdm_random_f64(3, stream, i, 0) - 1.0);
}

static void fixture_begin(fixture *f, tdm_weight_mode mode) {
    memset(f, 0, sizeof *f);
    assert_true(tdm_cpu_scratch_bytes(N_IN) >= 128 * 1024);
    f->weight = (tdm_weight){.mode = mode,
                             .dtype = TDM_DTYPE_BF16,
                             .n_out = N_OUT,
                             .n_in = N_IN,
                             .data = f->data + 1,
                             .row_bytes = mode == TDM_WEIGHT_PLAIN ? 2 * N_IN : N_IN,
                             .multiplier = 1.0f};
    if (mode != TDM_WEIGHT_PLAIN) {
        const bool is_fp8 = mode == TDM_WEIGHT_FP8;
        f->weight.dtype = is_fp8 ? TDM_DTYPE_F8_E4M3 : TDM_DTYPE_U32;
        f->weight.bits = 8;
        f->weight.group = is_fp8 ? 128 : 32;
        f->weight.group_rows = is_fp8 ? 16 : 0;
        f->weight.scales = f->scales;
        f->weight.scales_dtype = is_fp8 ? TDM_DTYPE_F32 : TDM_DTYPE_U8;
        f->weight.scales_row_bytes = is_fp8 ? 3 * sizeof(float) : N_IN / 32;
    }
    for (uint32_t i = 0; i < N_OUT * N_IN; ++i) {
        const uint16_t half = tdm_bf16_from_f32(noise(1, i));
        if (mode == TDM_WEIGHT_PLAIN) {
            memcpy(f->data + 1 + 2 * (size_t)i, &half, 2);
        } else {
            f->data[1 + i] = (uint8_t)(tdm_random_u64(3, 2, i, 0) & 0xbf);
        }
    }
    for (uint32_t i = 0; i < sizeof f->scales / 4; ++i) {
        const float scale = 0.1f * noise(4, i);
        if (mode == TDM_WEIGHT_FP8) {
            memcpy(f->scales + 4 * (size_t)i, &scale, 4);
        } else {
            f->scales[i] = (uint8_t)(120 + i % 9);
        }
    }
    for (uint32_t i = 0; i < N_TOKENS * N_IN; ++i) {
        f->x[i] = noise(5, i);
    }
    for (uint32_t i = 0; i < N_OUT; ++i) {
        f->bias[i] = noise(6, i);
    }
}

/* Rounds and multiplies by the law. */
static void fixture_law(fixture *f) {
    f->x16 = (tdm_cpu_x16){.q = f->rounded, .ld = LD};
    f->job = (tdm_cpu_linear_job){.weight = &f->weight,
                                  .x = f->x,
                                  .ld_x = N_IN,
                                  .x16 = &f->x16,
                                  .bias = f->bias,
                                  .out = f->want,
                                  .ld_out = N_OUT};
    for (int t = 0; t < N_TOKENS; ++t) {
        tdm_scalar_round_bf16(f->x + (size_t)t * N_IN, N_IN, f->rounded + (size_t)t * LD, LD);
    }
    tdm_scalar_linear_bf16(&f->job, 0, N_OUT, 0, N_TOKENS, f->scratch);
}

static void expect_near(const char *what, const float *want, const float *got, bool is_bits) {
    for (int i = 0; i < N_TOKENS * N_OUT; ++i) {
        const bool is_nan = isnan(want[i]) && isnan(got[i]);
        const bool is_same = tdm_f32_bits(want[i]) == tdm_f32_bits(got[i]);
        const float slack = is_bits || isinf(want[i]) ? 0.0f : 4e-6f * (8.0f + fabsf(want[i]));
        if (!is_nan && !is_same && !(fabsf(want[i] - got[i]) <= slack && slack > 0.0f)) {
            fail_msg("%s: output %d is %.9g, by the law %.9g", what, i, (double)got[i],
                     (double)want[i]);
        }
    }
}

/* All tokens at once, then by twos and threes and one alone, then in tiles: near the law, and equal
 * to each other. Two chains are the law's own bits, in AMX's tiles and without them. */
static void expect_set(fixture *f, int isa, const tdm_cpu_kernels *k) {
    const bool is_law = isa == TDM_CPU_ISA_AMX || isa == TWO_CHAINS;
    float many[N_TOKENS * N_OUT];
    if (!k->is_bf16(&f->weight)) {
        return;
    }
    fixture_law(f);
    f->job.out = many;
    memset(many, 0, sizeof many);
    k->linear_bf16(&f->job, 0, N_OUT, 0, N_TOKENS, f->scratch);
    expect_near("many tokens", f->want, many, is_law);
    for (int64_t step = 1; step < 14; step += step < 4 ? 1 : 4) {
        memset(f->got, 0, sizeof f->got);
        f->job.out = f->got;
        for (int64_t t = 0; t < N_TOKENS; t += step) {
            for (int64_t o = 0; o < N_OUT; o += 16) {
                k->linear_bf16(&f->job, o, tdm_cpu_min(o + 16, N_OUT), t,
                               tdm_cpu_min(t + step, N_TOKENS), f->scratch);
            }
        }
        expect_near("few tokens", many, f->got, true);
    }
    if (k->linear_bf16_wide != NULL) {
        const int64_t n_groups = N_TOKENS / TDM_CPU_GROUP_TOKENS;
        const tdm_cpu_x16 tiles = {.q = f->tiles, .ld = LD};
        for (int64_t g = 0; g < n_groups; ++g) {
            k->round_bf16_group(f->x + g * TDM_CPU_GROUP_TOKENS * N_IN, N_IN, N_IN,
                                f->tiles + g * TDM_CPU_GROUP_TOKENS * LD);
        }
        f->job.x16 = &tiles;
        k->linear_bf16_wide(&f->job, 0, N_OUT, 0, n_groups, f->scratch);
        expect_near("groups of tokens", many, f->got, true);
    }
}

static void rounding_is_the_laws(void **state) {
    static uint16_t want[TDM_CPU_GROUP_TOKENS * LD];
    static uint16_t got[TDM_CPU_GROUP_TOKENS * LD];
    static float x[TDM_CPU_GROUP_TOKENS * N_IN];
    int n_sets = 0;
    (void)state;
    for (uint32_t i = 0; i < SUPPORT_LEN(x); ++i) {
        x[i] = i % 3 == 0 ? tdm_f32_from_bits(ODD_BITS[i / 3 % SUPPORT_LEN(ODD_BITS)])
                          : tdm_f32_from_bits((uint32_t)tdm_random_u64(5, 1, i, 0));
    }
    /* Facts about the law itself: to nearest, ties to even, NaN stays, small ones flush. */
    const float odd[] = {0x1.01p0f, 0x1.03p0f, 0x1p-127f, -0x1p-130f, 3.4e38f};
    const uint16_t odd_want[] = {0x3f80, 0x3f82, 0x0000, 0x8000, 0x7f80};
    tdm_scalar_round_bf16(odd, 5, want, 32);
    assert_memory_equal(want, odd_want, sizeof odd_want);
    for (int isa = 0; isa < N_SETS; ++isa) {
        tdm_cpu_kernels k;
        if (!kernels_of(isa, &k)) {
            continue;
        }
        ++n_sets;
        for (int64_t n = 1; n <= N_IN; n += n < 70 ? 1 : 23) {
            memset(got, 0x55, sizeof got);
            tdm_scalar_round_bf16(x + n, N_IN - n, want, LD);
            k.round_bf16(x + n, N_IN - n, got, LD);
            assert_memory_equal(want, got, LD * sizeof *got);
            if (k.round_bf16_group != NULL) {
                memset(got, 0x55, sizeof got);
                memset(want, 0x55, sizeof want);
                tdm_scalar_round_bf16_group(x, N_IN, n, want);
                k.round_bf16_group(x, N_IN, n, got);
                assert_memory_equal(want, got, sizeof got);
            }
        }
    }
    if (n_sets == 0) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
}

/* The law beside plain arithmetic in f64. */
static void the_law_is_a_product(void **state) {
    static fixture f;
    static float row[N_IN];
    static const tdm_weight_mode MODES[] = {TDM_WEIGHT_PLAIN, TDM_WEIGHT_MXFP8, TDM_WEIGHT_FP8};
    (void)state;
    for (size_t m = 0; m < SUPPORT_LEN(MODES); ++m) {
        fixture_begin(&f, MODES[m]);
        fixture_law(&f);
        for (int64_t o = 0; o < N_OUT; ++o) {
            tdm_weight_row(&f.weight, o, row);
            for (int64_t t = 0; t < N_TOKENS; ++t) {
                double sum = (double)f.bias[o];
                double size = 1.0;
                for (int64_t i = 0; i < N_IN; ++i) {
                    const double v = (double)tdm_bf16_to_f32(tdm_bf16_from_f32(f.x[t * N_IN + i]));
                    sum += v * (double)row[i];
                    size += fabs(v * (double)row[i]);
                }
                assert_true(fabs(sum - (double)f.want[t * N_OUT + o]) <= 5e-7 * size);
            }
        }
    }
}

static void every_set_follows_the_law(void **state) {
    static fixture f;
    static const tdm_weight_mode MODES[] = {TDM_WEIGHT_PLAIN, TDM_WEIGHT_MXFP8, TDM_WEIGHT_FP8};
    int n_sets = 0;
    (void)state;
    for (int isa = 0; isa < N_SETS; ++isa) {
        tdm_cpu_kernels k;
        if (!kernels_of(isa, &k)) {
            continue;
        }
        ++n_sets;
        for (size_t m = 0; m < SUPPORT_LEN(MODES); ++m) {
            fixture_begin(&f, MODES[m]);
            expect_set(&f, isa, &k);
            fixture_begin(&f, MODES[m]); /* NaN's codes, and scales at the ends */
            for (int i = 0; i < N_IN && MODES[m] != TDM_WEIGHT_PLAIN; ++i) {
                f.data[1 + 8 * N_IN + i] = (uint8_t)i;
                f.data[1 + 9 * N_IN + i] = (uint8_t)(i % 256);
            }
            for (int i = 0; i < 5 && MODES[m] == TDM_WEIGHT_MXFP8; ++i) {
                f.scales[20 * N_IN / 32 + i] = (uint8_t)(i == 0 ? 0 : 240 + i);
                f.scales[21 * N_IN / 32 + i] = (uint8_t)i;
            }
            expect_set(&f, isa, &k);
            fixture_begin(&f, MODES[m]); /* tiny activations: products below f32's normal numbers */
            for (int i = 0; i < N_TOKENS * N_IN; ++i) {
                f.x[i] *= i % 7 == 0 ? 0x1p-126f : i % 5 == 0 ? 0x1p-120f : 0x1p-118f;
            }
            expect_set(&f, isa, &k);
            fixture_begin(&f, MODES[m]); /* infinities and what rounds to them */
            for (int i = 0; i < 12; ++i) {
                f.x[i * 131] = tdm_f32_from_bits(ODD_BITS[9 + i]);
            }
            expect_set(&f, isa, &k);
        }
        fixture_begin(&f, TDM_WEIGHT_PLAIN); /* rows that end inside a vector */
        for (int64_t n = 1; n < 70; n += 3) {
            f.weight.n_in = n;
            expect_set(&f, isa, &k);
        }
    }
    if (n_sets == 0) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
}

/* A product by a backend with activations that rounding changes. */
static void product(tdm_tier tier, bool is_exact, const tdm_weight *described, const float *x,
                    float *out) {
    tdm_backend *be = NULL;
    tdm_error err = {0};
    const tdm_cpu_options options = {.tier = tier, .n_threads = 1};
    tdm_weight w = *described;
    w.is_exact = is_exact;
    assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
    assert_int_equal(be->ops->reserve(be, 1, N_IN, &err), TDM_OK);
    assert_int_equal(be->ops->weight_init(be, &w, &err), TDM_OK);
    const tdm_linear_part part = {.weight = &w, .out = out, .ld_out = N_OUT};
    tdm_op_linear(be, x, N_IN, 1, &part, 1);
    be->ops->weight_deinit(be, &w);
    be->ops->destroy(be);
}

static void exact_weights_and_tiers_round_nothing(void **state) {
    static fixture f;
    float fast[N_OUT];
    float exact[N_OUT];
    float router[N_OUT];
    tdm_cpu_kernels k;
    (void)state;
    fixture_begin(&f, TDM_WEIGHT_PLAIN);
    product(TDM_TIER_EXACT, false, &f.weight, f.x, exact);
    product(TDM_TIER_FAST, true, &f.weight, f.x, router);
    assert_memory_equal(exact, router, sizeof exact);
    for (int isa = TDM_CPU_ISA_COUNT - 1; isa >= 0; --isa) {
        if (tdm_cpu_isa_is_present((tdm_cpu_isa)isa)) { /* the best: what create chose */
            product(TDM_TIER_FAST, false, &f.weight, f.x, fast);
            assert_true((memcmp(exact, fast, sizeof exact) != 0) == kernels_of(isa, &k));
            return;
        }
    }
}

/* The probe's peak: of sets with the instruction and of no other, and every operation counted. */
static void peaks_are_of_sets_with_the_instruction(void **state) {
    (void)state;
    for (int isa = 0; isa < TDM_CPU_ISA_COUNT; ++isa) {
        tdm_cpu_kernels kernels = {0};
        (void)kernels_of(isa, &kernels);
        double expected = 0.0; /* of ten rounds */
#if defined(__x86_64__)
        const bool is_wide = isa == TDM_CPU_ISA_AVX512 || isa == TDM_CPU_ISA_AMX;
        if (is_wide && tdm_cpu_isa_is_present((tdm_cpu_isa)isa) &&
            __builtin_cpu_supports("avx512bf16")) {
            /* Twelve registers of 32 products; four tiles of 16 x 16 x 32 where AMX has BF16. */
            const bool is_tiles = isa == TDM_CPU_ISA_AMX && kernels.linear_bf16_wide != NULL;
            expected = 10.0 * 2.0 * (is_tiles ? 4 * 16 * 16 * 32 : 12 * 32);
        }
#endif
        double (*peak)(int64_t) = kernels.peaks[TDM_PEAK_BF16];
        assert_true((peak != NULL ? peak(10) : 0.0) == expected);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peaks_are_of_sets_with_the_instruction),
        cmocka_unit_test(rounding_is_the_laws),
        cmocka_unit_test(the_law_is_a_product),
        cmocka_unit_test(every_set_follows_the_law),
        cmocka_unit_test(exact_weights_and_tiers_round_nothing),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
