/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit over linear (contract/backend.h): every kind of weight beside the twin, one token as
 * many, any number of threads. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_LINEAR_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_LINEAR_H

#include "contract/backend_kit_weights.h"

/* f32 products differ by a share of the sum of magnitudes, for inputs cancel. */
static inline void kit_linear_close(const char *what, const tdm_weight *w, const float *x,
                                    int64_t ld_x, int64_t n, const float *want, const float *got,
                                    int64_t ld) {
    float *row = kit_floats(w->n_in);
    for (int64_t o = 0; o < w->n_out; ++o) {
        tdm_weight_row(w, o, row);
        for (int64_t t = 0; t < n; ++t) {
            float sum = fabsf(want[t * ld + o]);
            for (int64_t i = 0; i < w->n_in; ++i) {
                sum += fabsf(row[i] * x[t * ld_x + i]);
            }
            float off = fabsf(want[t * ld + o] - got[t * ld + o]);
            if (!(off <= TOL_LINEAR_F32 * sum)) {
                fail_msg("%s: row %lld of token %lld is off by %.3g of its terms", what,
                         (long long)o, (long long)t, (double)(off / sum));
            }
        }
    }
    free(row);
}

/* One type and shape: against the twin, row by row, on every number of threads; bias, residual and
 * the untouched columns behind n_out. */
static inline void kit_linear_shape(const backend_kit *kit, kit_spec spec, int64_t n_out,
                                    int64_t n_in, int64_t n) {
    char what[128];
    kit_weight w;
    int64_t ld_x = n_in + 5;
    int64_t ld = n_out + 3;
    bool is_int8 = kit_is_int8(kit, &spec, n_in);
    char name[32];
    kit_spec_name(&spec, name);
    kit_weight_make(kit, &w, spec, n_out, n_in,
                    (uint32_t)((int64_t)spec.dtype * 7 + spec.bits * 91 + n_out));
    float *x = kit_random(n * ld_x, 1);
    for (int64_t i = 0; i < n * ld_x && kit_may_round(kit, &spec); ++i) {
        x[i] = tdm_bf16_to_f32(tdm_bf16_from_f32(x[i]));
    }
    float *bias = kit_random(n_out, 2);
    float *residual = kit_random(n * ld, 3);
    float *want = kit_filled(n * ld, KIT_CANARY);
    float *got = kit_floats(n * ld);
    float *alone = kit_floats(ld);
    (void)snprintf(what, sizeof what, "%s linear %s [%lld, %lld] n %lld", kit->name, name,
                   (long long)n_out, (long long)n_in, (long long)n);
    for (int flags = 0; flags < 4; flags += 3) { /* neither, or bias and residual */
        tdm_linear_part part = {.weight = &w.w[3],
                                .bias = (flags & 1) != 0 ? bias : NULL,
                                .out = want,
                                .ld_out = ld,
                                .is_added = (flags & 2) != 0};
        if (part.is_added) {
            memcpy(want, residual, (size_t)(n * ld) * sizeof *want);
        }
        tdm_op_linear(kit->twin, x, ld_x, n, &part, 1);
        for (int s = 0; s < 3; ++s) {
            for (int64_t i = 0; i < n * ld; ++i) {
                got[i] = part.is_added ? residual[i] : KIT_CANARY;
            }
            part.weight = &w.w[s];
            part.out = got;
            tdm_op_linear(kit->subjects[s], x, ld_x, n, &part, 1);
            for (int64_t t = 0; t < n; ++t) {
                for (int64_t i = n_out; i < ld; ++i) {
                    assert_true(got[t * ld + i] ==
                                (part.is_added ? residual[t * ld + i] : KIT_CANARY));
                }
            }
            if (is_int8) {
                kit_same(what, want, got, n * ld);
            } else {
                kit_linear_close(what, &w.described, x, ld_x, n, want, got, ld);
            }
            for (int64_t t = 0; t<n; t += n> 8 ? 5 : 1) { /* L1 */
                memcpy(alone, residual + t * ld, (size_t)ld * sizeof *alone);
                part.weight = &w.w[0];
                part.out = alone;
                tdm_op_linear(kit->subjects[0], x + t * ld_x, ld_x, 1, &part, 1);
                kit_same(what, alone, got + t * ld, n_out);
            }
        }
    }
    free(alone);
    free(got);
    free(want);
    free(residual);
    free(bias);
    free(x);
    kit_weight_free(kit, &w);
}

static const int64_t KIT_OUTS[] = {1, 7, 8, 19, 40};

static inline void kit_linear(const backend_kit *kit) {
    static const int64_t COUNTS[] = {1, 2, 3, 4, 5, 7, 16, 33, 64};
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        tdm_dtype dtype = (tdm_dtype)i;
        int64_t block = TDM_DTYPES[dtype].block_weights;
        if (!kit->subjects[0]->ops->can_read(kit->subjects[0], dtype)) {
            continue;
        }
        assert_true(tdm_dequant_can(dtype));
        for (size_t c = 0; c < SUPPORT_LEN(COUNTS); ++c) {
            int64_t n_in = block > 1 ? block * (int64_t)(1 + c % 3) : 33 + 31 * (int64_t)c;
            kit_linear_shape(kit, KIT_STORED(dtype), KIT_OUTS[c % SUPPORT_LEN(KIT_OUTS)], n_in,
                             COUNTS[c]);
        }
    }
    for (int64_t k = 1; k < 20; ++k) { /* rows shorter than a vector and just above it */
        kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_F32), 9, k, 3);
        kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_BF16), 9, k, 2);
        kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_F16), 9, k, 1);
    }
    for (size_t i = 0; i < SUPPORT_LEN(KIT_GROUPED); ++i) {
        const kit_spec *spec = &KIT_GROUPED[i];
        for (size_t c = i % 2; c < SUPPORT_LEN(COUNTS); c += 2) { /* nvfp4: rows ending at a half */
            kit_linear_shape(kit, *spec, KIT_OUTS[c % SUPPORT_LEN(KIT_OUTS)],
                             spec->group * (int64_t)(1 + c % 4), COUNTS[c]);
        }
    }
}

/* Any activations: f32 products near the twin's, or the bits of activations rounded before. */
static inline void kit_linear_rounds(const backend_kit *kit, kit_spec spec, int64_t n_in) {
    enum { OUT = 21, N = 19 };
    kit_weight w;
    float *x[2] = {kit_random(N * n_in, 6), kit_floats(N * n_in)};
    float *want[2] = {kit_floats(N * OUT), kit_floats(N * OUT)};
    float *got = kit_floats(N * OUT);
    bool is_rounded = true;
    kit_weight_make(kit, &w, spec, OUT, n_in, 70);
    for (int64_t i = 0; i < N * n_in; ++i) {
        x[1][i] = tdm_bf16_to_f32(tdm_bf16_from_f32(x[0][i]));
    }
    for (int i = 0; i < 3; ++i) {
        tdm_linear_part part = {
            .weight = &w.w[i == 0 ? 3 : 0], .out = i < 2 ? want[i] : got, .ld_out = OUT};
        tdm_op_linear(i == 0 ? kit->twin : kit->subjects[0], x[i == 1], n_in, N, &part, 1);
    }
    for (int64_t i = 0; i < N * OUT; ++i) {
        is_rounded = is_rounded && tdm_f32_bits(got[i]) == tdm_f32_bits(want[1][i]);
    }
    if (!is_rounded) {
        kit_linear_close("linear of activations that are not BF16", &w.described, x[0], n_in, N,
                         want[0], got, OUT);
    }
    kit_weight_free(kit, &w);
    for (int i = 0; i < 2; ++i) {
        free(x[i]);
        free(want[i]);
    }
    free(got);
}

/* Past the bounds by which kernels cut their work: columns, rows and tokens. */
static inline void kit_linear_large(const backend_kit *kit) {
    static const tdm_dtype TYPES[] = {TDM_DTYPE_Q4_0, TDM_DTYPE_Q4_K, TDM_DTYPE_Q6_K,
                                      TDM_DTYPE_Q2_K, TDM_DTYPE_Q8_0};
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); ++i) {
        kit_linear_shape(kit, KIT_STORED(TYPES[i]), 150, 2304, 37);
    }
    kit_linear_shape(kit, (kit_spec){TDM_WEIGHT_AFFINE, TDM_DTYPE_BF16, 4, 128}, 40, 2560, 33);
    kit_linear_shape(kit, (kit_spec){TDM_WEIGHT_AFFINE, TDM_DTYPE_BF16, 8, 64}, 40, 2112, 33);
    kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_Q4_0), 19, 64, 300);
    kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_BF16), 21, 2080, 111);
    kit_linear_shape(kit, KIT_STORED(TDM_DTYPE_F16), 11, 2081, 211);
    kit_linear_shape(kit, (kit_spec){TDM_WEIGHT_FP8, TDM_DTYPE_F32, 8, 128}, 21, 2176, 37);
    kit_linear_shape(kit, (kit_spec){TDM_WEIGHT_MXFP8, TDM_DTYPE_U8, 8, 32}, 21, 2112, 37);
    kit_linear_rounds(kit, KIT_STORED(TDM_DTYPE_BF16), 200);
    kit_linear_rounds(kit, (kit_spec){TDM_WEIGHT_FP8, TDM_DTYPE_F32, 8, 128}, 256);
    kit_linear_rounds(kit, (kit_spec){TDM_WEIGHT_MXFP8, TDM_DTYPE_U8, 8, 32}, 256);
}

/* Four parts of four types in one call give what four calls give. */
static inline void kit_linear_parts(const backend_kit *kit) {
    static const tdm_dtype TYPES[] = {TDM_DTYPE_Q4_K, TDM_DTYPE_F32, TDM_DTYPE_BF16,
                                      TDM_DTYPE_Q8_0};
    static const int64_t OUTS[] = {24, 5, 17, 64};
    kit_weight w[4];
    float *x = kit_random(6 * 512, 4);
    float *together[4];
    float *single[4];
    for (int s = 0; s < 3; ++s) {
        tdm_linear_part parts[4];
        for (int p = 0; p < 4; ++p) {
            kit_weight_make(kit, &w[p], KIT_STORED(TYPES[p]), OUTS[p], 512, (uint32_t)(50 + p));
            together[p] = kit_filled(6 * OUTS[p], 0.0f);
            single[p] = kit_filled(6 * OUTS[p], 0.0f);
            parts[p] =
                (tdm_linear_part){.weight = &w[p].w[s], .out = together[p], .ld_out = OUTS[p]};
        }
        tdm_op_linear(kit->subjects[s], x, 512, 6, parts, 4);
        for (int p = 0; p < 4; ++p) {
            parts[p].out = single[p];
            tdm_op_linear(kit->subjects[s], x, 512, 6, &parts[p], 1);
            kit_same("parts of one linear", single[p], together[p], 6 * OUTS[p]);
            free(together[p]);
            free(single[p]);
            kit_weight_free(kit, &w[p]);
        }
    }
    free(x);
}

#endif
