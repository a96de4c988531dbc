/* SPDX-License-Identifier: Apache-2.0
 *
 * Properties of the CPU kernels over random shapes: the fast tier's bits do not depend on the
 * instruction set or the layout; rounding to int8 stays near the exact product; rounding of
 * activations itself keeps its promises. TDM_PROP_SEED picks another draw, TDM_PROP_CASES how many.
 */
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/weight.h"
#include "tolerance.h"

#include <math.h>

#define N_MAX 40
#define K_MAX 1536
#define OUT_MAX 50

static uint64_t seed = 1;

static uint64_t draw_below(uint32_t case_idx, uint32_t what, uint64_t limit) {
    return tdm_random_u64(seed, case_idx, what, 9) % limit;
}

static float draw(uint32_t stream, uint32_t i) {
    return (float)(2.0 * tdm_random_f64(seed, stream, i, 0) - 1.0);
}

typedef struct subject {
    tdm_backend *be;
    char label[48];
} subject;

static size_t make_subjects(subject *out, tdm_tier tier, int32_t n_threads) {
    size_t n = 0;
    for (int isa = 0; isa < TDM_CPU_ISA_COUNT; ++isa) {
        for (int is_mapped = 0; is_mapped < 2; ++is_mapped) {
            tdm_error err = {0};
            tdm_cpu_options options = {.tier = tier,
                                       .isa = tdm_cpu_isa_name((tdm_cpu_isa)isa),
                                       .n_threads = n_threads,
                                       .is_mapped = is_mapped != 0};
            if (!tdm_cpu_isa_is_present((tdm_cpu_isa)isa) || (isa == 0 && is_mapped != 0)) {
                continue;
            }
            assert_int_equal(tdm_cpu_backend_create(&out[n].be, NULL, &options, &err), TDM_OK);
            assert_int_equal(out[n].be->ops->reserve(out[n].be, N_MAX, K_MAX, &err), TDM_OK);
            (void)snprintf(out[n].label, sizeof out[n].label, "%s%s",
                           tdm_cpu_isa_name((tdm_cpu_isa)isa), is_mapped != 0 ? " mapped" : "");
            ++n;
        }
    }
    return n;
}

static void random_weights(tdm_dtype dtype, uint32_t c, size_t n_blocks, uint8_t *data) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    for (size_t i = 0; i < n_blocks * info->block_bytes; ++i) {
        data[i] = (uint8_t)tdm_random_u64(seed, c, (uint32_t)i, 3);
    }
    for (size_t b = 0; b < n_blocks; ++b) {
        float d = 0.03f + 0.01f * draw(c, (uint32_t)b);
        /* Mins that centre the block, as real weights have them. */
        float m = dtype == TDM_DTYPE_Q4_1   ? -0.15f
                  : dtype == TDM_DTYPE_Q5_1 ? -0.3f
                  : dtype == TDM_DTYPE_Q2_K ? 1.5f * d
                                            : d;
        tdm_block_set_scales(dtype, data + b * info->block_bytes, d, m);
    }
}

/* One random matrix and batch through every set and layout: equal bits; near the exact product. */
static void one_case(uint32_t c, subject *fast, size_t n_fast, tdm_backend *exact) {
    static const tdm_dtype TYPES[] = {
        TDM_DTYPE_Q4_0,    TDM_DTYPE_Q4_1,   TDM_DTYPE_Q5_0,  TDM_DTYPE_Q5_1,    TDM_DTYPE_Q8_0,
        TDM_DTYPE_Q4_K,    TDM_DTYPE_Q5_K,   TDM_DTYPE_Q6_K,  TDM_DTYPE_Q2_K,    TDM_DTYPE_Q3_K,
        TDM_DTYPE_IQ4_NL,  TDM_DTYPE_IQ4_XS, TDM_DTYPE_MXFP4, TDM_DTYPE_NVFP4,   TDM_DTYPE_TQ1_0,
        TDM_DTYPE_TQ2_0,   TDM_DTYPE_Q1_0,   TDM_DTYPE_Q2_0,  TDM_DTYPE_IQ1_S,   TDM_DTYPE_IQ1_M,
        TDM_DTYPE_IQ2_XXS, TDM_DTYPE_IQ2_XS, TDM_DTYPE_IQ2_S, TDM_DTYPE_IQ3_XXS, TDM_DTYPE_IQ3_S};
    static uint8_t data[OUT_MAX * K_MAX * 2];
    static float x[N_MAX * K_MAX];
    static float want[N_MAX * OUT_MAX];
    static float got[N_MAX * OUT_MAX];
    tdm_dtype dtype = TYPES[c % SUPPORT_LEN(TYPES)];
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    int64_t n_in = (int64_t)(info->block_weights *
                             (1 + draw_below(c, 1, (uint64_t)K_MAX / info->block_weights)));
    int64_t n_out = 1 + (int64_t)draw_below(c, 2, OUT_MAX);
    int64_t n = 1 + (int64_t)draw_below(c, 3, N_MAX);
    size_t n_blocks = (size_t)(n_out * n_in) / info->block_weights;
    random_weights(dtype, c, n_blocks, data);
    for (int64_t i = 0; i < n * n_in; ++i) {
        x[i] = draw(c + 7000, (uint32_t)i) * (i % 97 == 0 ? 6.0f : 1.0f);
    }
    for (size_t s = 0; s <= n_fast; ++s) {
        tdm_backend *be = s < n_fast ? fast[s].be : exact;
        tdm_tensor_view view = {.dtype = dtype,
                                .rank = 2,
                                .dims = {n_out, n_in},
                                .data = data,
                                .bytes = n_blocks * info->block_bytes};
        tdm_weight w;
        tdm_error err = {0};
        assert_int_equal(tdm_weight_init(be, &view, &w, &err), TDM_OK);
        tdm_linear_part part = {.weight = &w, .out = s == 0 ? want : got, .ld_out = n_out};
        tdm_op_linear(be, x, n_in, n, &part, 1);
        tdm_weight_deinit(be, &w);
        double error = 0.0;
        double power = 0.0;
        for (int64_t i = 0; i < n * n_out; ++i) {
            if (s > 0 && s < n_fast && tdm_f32_bits(want[i]) != tdm_f32_bits(got[i])) {
                fail_msg(
                    "seed %llu case %u: %s [%lld, %lld] n %lld: %s differs from scalar at %lld",
                    (unsigned long long)seed, c, info->name, (long long)n_out, (long long)n_in,
                    (long long)n, fast[s].label, (long long)i);
            }
            error += (double)(want[i] - got[i]) * (double)(want[i] - got[i]);
            power += (double)got[i] * (double)got[i];
        }
        if (s == n_fast && sqrt(error) > (double)TOL_LINEAR_FAST * sqrt(power)) {
            fail_msg("seed %llu case %u: %s: fast is %.4f of exact away", (unsigned long long)seed,
                     c, info->name, sqrt(error / power));
        }
    }
}

/* f32 products: every vector set has the bits of AVX2. */
static void exact_products_of_vector_sets_have_one_value(void **state) {
    static const tdm_dtype TYPES[] = {TDM_DTYPE_F32, TDM_DTYPE_F16, TDM_DTYPE_BF16, TDM_DTYPE_Q4_0};
    static uint8_t data[OUT_MAX * K_MAX * 4];
    static float x[N_MAX * K_MAX];
    static float got[2][N_MAX * OUT_MAX];
    subject sets[2 * TDM_CPU_ISA_COUNT];
    (void)state;
    size_t n_sets = make_subjects(sets, TDM_TIER_EXACT, 1);
    for (uint32_t c = 0; c < 16; ++c) {
        const tdm_dtype_info *info = &TDM_DTYPES[TYPES[c % SUPPORT_LEN(TYPES)]];
        const int64_t n_out = 1 + (int64_t)draw_below(c, 2, OUT_MAX);
        const int64_t n = 1 + (int64_t)draw_below(c, 3, N_MAX);
        const int64_t n_in =
            (int64_t)(info->block_weights * (1 + draw_below(c, 4, K_MAX / info->block_weights)));
        const size_t n_blocks = (size_t)(n_out * n_in) / info->block_weights;
        random_weights(TYPES[c % SUPPORT_LEN(TYPES)], c, n_blocks, data);
        for (size_t i = 0; info->block_weights == 1 && i < n_blocks; ++i) {
            tdm_block_set_scales(TYPES[c % SUPPORT_LEN(TYPES)], data + i * info->block_bytes,
                                 draw(c, (uint32_t)i), 0.0f);
        }
        for (int64_t i = 0; i < n * n_in; ++i) {
            x[i] = draw(c + 9000, (uint32_t)i);
        }
        for (size_t s = 1; s < n_sets; ++s) {
            const tdm_tensor_view view = {.dtype = TYPES[c % SUPPORT_LEN(TYPES)],
                                          .rank = 2,
                                          .dims = {n_out, n_in},
                                          .data = data,
                                          .bytes = n_blocks * info->block_bytes};
            tdm_weight w;
            tdm_error err = {0};
            assert_int_equal(tdm_weight_init(sets[s].be, &view, &w, &err), TDM_OK);
            const tdm_linear_part part = {.weight = &w, .out = got[s > 1], .ld_out = n_out};
            tdm_op_linear(sets[s].be, x, n_in, n, &part, 1);
            tdm_weight_deinit(sets[s].be, &w);
            if (s > 1 && memcmp(got[0], got[1], (size_t)(n * n_out) * sizeof(float)) != 0) {
                fail_msg("case %u: %s [%lld, %lld] n %lld: %s differs from avx2", c, info->name,
                         (long long)n_out, (long long)n_in, (long long)n, sets[s].label);
            }
        }
    }
    for (size_t i = 0; i < n_sets; ++i) {
        sets[i].be->ops->destroy(sets[i].be);
    }
}

static void fast_products_have_one_value(void **state) {
    const char *cases_text = getenv("TDM_PROP_CASES");
    const char *seed_text = getenv("TDM_PROP_SEED");
    uint32_t n_cases = cases_text != NULL ? (uint32_t)strtoul(cases_text, NULL, 10) : 48;
    subject fast[2 * TDM_CPU_ISA_COUNT];
    subject exact[2 * TDM_CPU_ISA_COUNT];
    (void)state;
    seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : seed;
    size_t n_fast = make_subjects(fast, TDM_TIER_FAST, 2);
    size_t n_exact = make_subjects(exact, TDM_TIER_EXACT, 1);
    for (uint32_t c = 0; c < n_cases; ++c) {
        one_case(c, fast, n_fast, exact[n_exact - 1].be);
    }
    for (size_t i = 0; i < n_fast; ++i) {
        fast[i].be->ops->destroy(fast[i].be);
    }
    for (size_t i = 0; i < n_exact; ++i) {
        exact[i].be->ops->destroy(exact[i].be);
    }
}

/* exp and tanh show through silu and softcap: against libm in f64 over the whole range. */
static void silu_is_accurate_everywhere(void **state) {
    static const tdm_activation SILU = {.kind = TDM_GLU_SILU};
    subject sets[2 * TDM_CPU_ISA_COUNT];
    (void)state;
    size_t n_sets = make_subjects(sets, TDM_TIER_EXACT, 1);
    for (size_t s = 0; s < n_sets; ++s) {
        for (int i = -9000; i < 9000; i += 8) {
            float gate[8];
            float up[8];
            float out[8];
            for (int j = 0; j < 8; ++j) {
                gate[j] = (float)(i + j) * 0.0091f;
                up[j] = 1.0f;
            }
            tdm_op_glu_mul(sets[s].be, &SILU, out, 8, gate, 8, up, 8, 1, 8);
            for (int j = 0; j < 8; ++j) {
                double want = (double)gate[j] / (1.0 + exp(-(double)gate[j]));
                if (fabs((double)out[j] - want) > 4e-7 * fabs(want) + 1e-36) {
                    fail_msg("%s: silu(%.9g) is %.9g, not %.9g", sets[s].label, (double)gate[j],
                             (double)out[j], want);
                }
            }
        }
    }
    for (size_t i = 0; i < n_sets; ++i) {
        sets[i].be->ops->destroy(sets[i].be);
    }
}

/* Both gelus against libm in f64, relative to the value itself for erf; the tanh form cancels below
 * zero, so there its error is a share of |x|. */
static void gelu_is_accurate_everywhere(void **state) {
    static const tdm_activation ERF = {.kind = TDM_GLU_GELU_ERF};
    static const tdm_activation TANH = {.kind = TDM_GLU_GELU_TANH};
    subject sets[2 * TDM_CPU_ISA_COUNT];
    (void)state;
    size_t n_sets = make_subjects(sets, TDM_TIER_EXACT, 1);
    for (size_t s = 0; s < n_sets; ++s) {
        for (int i = -1200; i < 1200; ++i) {
            float x[2] = {(float)i * 0.0101f, (float)i * 0.0101f};
            double v = (double)x[0];
            tdm_op_activate(sets[s].be, &ERF, &x[0], 1, 1, 1);
            tdm_op_activate(sets[s].be, &TANH, &x[1], 1, 1, 1);
            double erf_form = 0.5 * v * erfc(-v * 0.70710678118654752440);
            double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
            double tanh_form = 0.5 * v * (1.0 + tanh(inner));
            if (fabs((double)x[0] - erf_form) > (1e-6 + v * v * 1e-7) * fabs(erf_form) + 1e-36) {
                fail_msg("%s: gelu(%.9g) is %.9g, not %.9g", sets[s].label, v, (double)x[0],
                         erf_form);
            }
            if (fabs((double)x[1] - tanh_form) > 4e-7 * fabs(v)) {
                fail_msg("%s: gelu_tanh(%.9g) is %.9g, not %.9g", sets[s].label, v, (double)x[1],
                         tanh_form);
            }
        }
    }
    for (size_t i = 0; i < n_sets; ++i) {
        sets[i].be->ops->destroy(sets[i].be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_products_have_one_value),
        cmocka_unit_test(exact_products_of_vector_sets_have_one_value),
        cmocka_unit_test(silu_is_accurate_everywhere),
        cmocka_unit_test(gelu_is_accurate_everywhere),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
