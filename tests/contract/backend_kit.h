/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of contract/backend.h: laws L1 to L5 for every entry, run against any backend
 * beside its scalar twin. Header only; a test fills a backend_kit and calls backend_kit_run. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_H

#include "contract/backend_kit_attention.h"
#include "contract/backend_kit_latent.h"
#include "contract/backend_kit_lent.h"
#include "contract/backend_kit_linear.h"
#include "contract/backend_kit_recurrent.h"
#include "contract/backend_kit_weights.h"

static inline void kit_embed_one(const backend_kit *kit, kit_spec spec, uint32_t stream) {
    static const int32_t IDS[] = {0, 6, 3, 3, 1};
    const int32_t bad[] = {0, 7};
    kit_weight w;
    float want[5 * 256];
    float got[5 * 260];
    tdm_error err = {0};
    kit_weight_make(kit, &w, spec, 7, 256, stream);
    for (int s = 0; s < 3; ++s) {
        for (int r = 0; r < 5; ++r) {
            tdm_weight_row(&w.described, IDS[r], want + (size_t)r * 256);
        }
        assert_int_equal(tdm_op_embed(kit->subjects[s], got, 260, &w.w[s], IDS, 5, 1.0f, &err),
                         TDM_OK);
        for (int r = 0; r < 5; ++r) {
            kit_same("embed", want + r * 256, got + r * 260, 256);
        }
        assert_int_equal(tdm_op_embed(kit->subjects[s], got, 260, &w.w[s], IDS, 5, 1.5f, &err),
                         TDM_OK);
        for (int j = 0; j < 5 * 256; ++j) {
            assert_true(tdm_f32_bits(want[j] * 1.5f) == tdm_f32_bits(got[j / 256 * 260 + j % 256]));
        }
    }
    assert_int_equal(tdm_op_embed(kit->subjects[0], got, 260, &w.w[0], bad, 2, 1.0f, &err),
                     TDM_E_ARG);
    kit_weight_free(kit, &w);
}

static inline void kit_embed(const backend_kit *kit) {
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        if (kit->subjects[0]->ops->can_read(kit->subjects[0], (tdm_dtype)i)) {
            kit_embed_one(kit, KIT_STORED((tdm_dtype)i), (uint32_t)i);
        }
    }
    for (uint32_t i = 0; i < SUPPORT_LEN(KIT_GROUPED); ++i) {
        kit_embed_one(kit, KIT_GROUPED[i], 100 + i);
    }
}

static const tdm_activation KIT_SILU = {.kind = TDM_GLU_SILU};

/* CLAMPED as its formula, in f64. */
static inline void kit_clamped(const backend_kit *kit) {
    static const float GATES[] = {-9.0f, -2.0f, -0.5f, 0.0f, 0.7f, 1.9f, 2.0f, 2.5f, 80.0f, 1.0f};
    static const float UPS[] = {0.5f, -7.0f, -2.0f, 1.0f, -1.0f, 2.0f, 9.0f, 0.0f, 0.3f, -0.4f};
    const tdm_activation act = {.kind = TDM_GLU_CLAMPED, .alpha = 1.702f, .limit = 2.0f};
    for (int s = 0; s < 4; ++s) {
        float out[SUPPORT_LEN(GATES)];
        tdm_op_glu_mul(kit_backend(kit, s), &act, out, 10, GATES, 10, UPS, 10, 1, 10);
        for (size_t i = 0; i < SUPPORT_LEN(GATES); ++i) {
            double g = fmin((double)GATES[i], 2.0);
            double u = fmax(fmin((double)UPS[i], 2.0), -2.0);
            double want = (u + 1.0) * g / (1.0 + exp(-(double)act.alpha * g));
            assert_true(fabs((double)out[i] - want) <= (double)TOL_GLU * (fabs(want) + 1e-3));
        }
    }
}

/* Gates and activations of every kind, softcap and layer_norm. */
static inline void kit_activations(const backend_kit *kit) {
    static const int64_t DIMS[] = {1, 7, 8, 33, 576};
    for (size_t c = 0; c < SUPPORT_LEN(DIMS) * 3; ++c) {
        const int64_t n = 17;
        int64_t dim = DIMS[c / 3];
        int64_t ld = dim + 2;
        tdm_backend *be = kit->subjects[c % 3];
        float *x = kit_random(n * ld, 20);
        float *y = kit_random(n * ld, 21);
        float *want = kit_floats(n * ld);
        float *got = kit_floats(n * ld);
        float *alone = kit_floats(ld);
        for (int64_t i = 0; i < n * ld; ++i) {
            x[i] *= 6.0f;
            y[i] *= 3.0f;
        }
        for (int kind = 0; kind < TDM_GLU_COUNT; ++kind) {
            /* Inputs reach 6, so a limit of 2 cuts on every side. */
            const tdm_activation act = {.kind = (tdm_glu)kind, .alpha = 1.702f, .limit = 2.0f};
            memcpy(want, x, (size_t)(n * ld) * sizeof *want);
            memcpy(got, x, (size_t)(n * ld) * sizeof *got);
            tdm_op_glu_mul(kit->twin, &act, want, ld, x, ld, y, ld, n, dim);
            tdm_op_glu_mul(be, &act, got, ld, got, ld, y, ld, n, dim);
            kit_close("glu_mul", want, got, n * ld, TOL_GLU);
            tdm_op_glu_mul(be, &act, alone, ld, x + 3 * ld, ld, y + 3 * ld, ld, 1, dim);
            kit_same("glu_mul alone", alone, got + 3 * ld, dim);
            memcpy(want, x, (size_t)(n * ld) * sizeof *want);
            memcpy(got, x, (size_t)(n * ld) * sizeof *got);
            tdm_op_activate(kit->twin, &act, want, ld, n, dim);
            tdm_op_activate(be, &act, got, ld, n, dim);
            kit_close("activate", want, got, n * ld, TOL_GLU);
        }
        memcpy(want, x, (size_t)(n * ld) * sizeof *want);
        memcpy(got, x, (size_t)(n * ld) * sizeof *got);
        tdm_op_softcap(kit->twin, want, ld, n, dim, 3.0f);
        tdm_op_softcap(be, got, ld, n, dim, 3.0f);
        kit_close("softcap", want, got, n * ld, TOL_GLU);
        for (int has = 0; has < 4; ++has) {
            const float *w = (has & 1) != 0 ? y : NULL;
            const float *bias = (has & 2) != 0 ? y + ld : NULL;
            memcpy(want, x, (size_t)(n * ld) * sizeof *want);
            memcpy(got, x, (size_t)(n * ld) * sizeof *got);
            tdm_op_layer_norm(kit->twin, want, ld, x, ld, w, bias, n, dim, 1e-5f);
            tdm_op_layer_norm(be, got, ld, got, ld, w, bias, n, dim, 1e-5f);
            kit_close("layer_norm", want, got, n * ld, TOL_LAYER_NORM);
            tdm_op_layer_norm(be, alone, ld, x + 5 * ld, ld, w, bias, 1, dim, 1e-5f);
            kit_same("layer_norm alone", alone, got + 5 * ld, dim);
        }
        free(alone);
        free(got);
        free(want);
        free(y);
        free(x);
    }
}

/* rms_norm, glu_mul, add: random widths, against the twin, in rows and alone, in place. */
static inline void kit_rows(const backend_kit *kit) {
    static const int64_t DIMS[] = {1, 3, 8, 9, 31, 64, 100, 576};
    for (size_t c = 0; c < SUPPORT_LEN(DIMS); ++c) {
        const int64_t n = 17;
        int64_t dim = DIMS[c];
        int64_t ld = dim + 2;
        float *x = kit_random(n * ld, 10);
        float *y = kit_random(n * ld, 11);
        float *w = kit_random(dim, 12);
        float *want = kit_filled(n * ld, KIT_CANARY);
        float *got = kit_floats(n * ld);
        for (int s = 0; s < 3; ++s) {
            tdm_backend *be = kit->subjects[s];
            for (int has_w = 0; has_w < 2; ++has_w) {
                const float *weight = has_w != 0 ? w : NULL;
                memcpy(got, x, (size_t)(n * ld) * sizeof *got);
                memcpy(want, x, (size_t)(n * ld) * sizeof *want);
                tdm_op_rms_norm(kit->twin, want, ld, x, ld, weight, n, dim, 1e-5f);
                tdm_op_rms_norm(be, got, ld, got, ld, weight, n, dim, 1e-5f);
                kit_close("rms_norm", want, got, n * ld, TOL_RMS_NORM);
            }
            memcpy(want, x, (size_t)(n * ld) * sizeof *want);
            memcpy(got, x, (size_t)(n * ld) * sizeof *got);
            tdm_op_glu_mul(kit->twin, &KIT_SILU, want, ld, x, ld, y, ld, n, dim);
            tdm_op_glu_mul(be, &KIT_SILU, got, ld, got, ld, y, ld, n, dim);
            kit_close("silu", want, got, n * ld, TOL_SILU);
            float *alone = kit_floats(ld);
            tdm_op_glu_mul(be, &KIT_SILU, alone, ld, x + 3 * ld, ld, y + 3 * ld, ld, 1, dim);
            kit_same("silu alone", alone, got + 3 * ld, dim);
            free(alone);
            memcpy(want, x, (size_t)(n * ld) * sizeof *want);
            memcpy(got, x, (size_t)(n * ld) * sizeof *got);
            tdm_op_add(kit->twin, want, ld, y, ld, n, dim);
            tdm_op_add(be, got, ld, y, ld, n, dim);
            kit_same("add", want, got, n * ld);
        }
        free(got);
        free(want);
        free(w);
        free(y);
        free(x);
    }
}

static inline void kit_rope(const backend_kit *kit) {
    static const int32_t SHAPES[][3] = {/* heads, head_dim, n_freq */
                                        {3, 64, 32},
                                        {2, 6, 3},
                                        {1, 40, 7},
                                        {4, 2, 1},
                                        {2, 128, 16}};
    for (size_t c = 0; c < SUPPORT_LEN(SHAPES); ++c) {
        const int64_t n = 6;
        int32_t heads = SHAPES[c][0];
        int32_t head_dim = SHAPES[c][1];
        int32_t n_freq = SHAPES[c][2];
        int64_t ld = (int64_t)heads * head_dim + 1;
        const int64_t positions[] = {0, 1, 2, 77, 4095, 131071};
        float *freq = kit_random(n_freq, 20);
        float *table = kit_floats(n * 2 * n_freq);
        float *table_want = kit_floats(n * 2 * n_freq);
        for (int s = 0; s < 3; ++s) {
            tdm_op_rope_table(kit->twin, table_want, positions, n, freq, n_freq, 1.25f);
            tdm_op_rope_table(kit->subjects[s], table, positions, n, freq, n_freq, 1.25f);
            kit_same("rope_table", table_want, table, n * 2 * n_freq);
            for (int p = 0; p < 2; ++p) {
                tdm_rope_pairing pairing = p == 0 ? TDM_ROPE_HALVES : TDM_ROPE_NEIGHBOURS;
                float *want = kit_random(n * ld, 21);
                float *got = kit_random(n * ld, 21);
                tdm_op_rope(kit->twin, want, ld, n, heads, head_dim, table, n_freq, pairing);
                tdm_op_rope(kit->subjects[s], got, ld, n, heads, head_dim, table, n_freq, pairing);
                kit_close("rope", want, got, n * ld, TOL_ROPE);
                free(got);
                free(want);
            }
        }
        for (int64_t i = 0; i < n; ++i) { /* the definition */
            float angle = (float)positions[i] * freq[0];
            assert_true(table[i * 2 * n_freq] == cosf(angle) * 1.25f);
            assert_true(table[i * 2 * n_freq + 1] == sinf(angle) * 1.25f);
        }
        free(table_want);
        free(table);
        free(freq);
    }
}

static inline void kit_argmax(const backend_kit *kit) {
    static const int64_t DIMS[] = {1, 5, 8, 31, 33, 100, 257};
    for (int s = 0; s < 3; ++s) {
        for (size_t c = 0; c < SUPPORT_LEN(DIMS); ++c) {
            int64_t dim = DIMS[c];
            int32_t ids[3] = {-1, -1, -1};
            float *x = kit_random(3 * dim, 30);
            /* Ties at the largest, NaN before and behind it, a row of nothing but NaN. */
            x[dim - 1] = 9.0f;
            x[dim / 2] = 9.0f;
            x[0] = dim > 2 ? NAN : x[0];
            for (int64_t i = 0; i < dim; ++i) {
                x[2 * dim + i] = NAN;
                x[dim + i] = -INFINITY;
            }
            tdm_op_argmax(kit->subjects[s], ids, x, dim, 3, dim);
            assert_int_equal(ids[0], dim / 2);
            assert_int_equal(ids[1], 0);
            assert_int_equal(ids[2], 0);
            x[2 * dim + dim - 1] = -INFINITY; /* a number at last */
            tdm_op_argmax(kit->subjects[s], ids, x + 2 * dim, dim, 1, dim);
            assert_int_equal(ids[0], dim - 1);
            free(x);
        }
    }
}

/* L5: infinities and NaN in one row give something non-finite or defined there, and leave the other
 * rows' bits alone. */
static inline void kit_non_finite(const backend_kit *kit) {
    static const float POISON[] = {INFINITY, -INFINITY, NAN, 3e38f, 1e-42f};
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        tdm_dtype dtype = (tdm_dtype)i;
        kit_weight w;
        if (!kit->subjects[0]->ops->can_read(kit->subjects[0], dtype)) {
            continue;
        }
        kit_weight_make(kit, &w, KIT_STORED(dtype), 9, 256, (uint32_t)i);
        float *x = kit_random(3 * 256, 70);
        float *want = kit_floats(27);
        float *got = kit_floats(27);
        tdm_linear_part part = {.weight = &w.w[0], .out = want, .ld_out = 9};
        tdm_op_linear(kit->subjects[0], x, 256, 3, &part, 1);
        for (size_t p = 0; p < SUPPORT_LEN(POISON); ++p) {
            x[256 + 100] = POISON[p];
            part.out = got;
            tdm_op_linear(kit->subjects[0], x, 256, 3, &part, 1);
            kit_same("row before a poisoned one", want, got, 9);
            kit_same("row behind a poisoned one", want + 18, got + 18, 9);
            if (isnan(POISON[p])) {
                for (int r = 9; r < 18; ++r) {
                    assert_true(isnan(got[r]));
                }
            }
            tdm_op_rms_norm(kit->subjects[0], x, 256, x, 256, NULL, 3, 256, 1e-5f);
            tdm_op_glu_mul(kit->subjects[0], &KIT_SILU, x, 256, x, 256, want, 1, 1, 1);
            free(x);
            x = kit_random(3 * 256, 70);
        }
        free(got);
        free(want);
        free(x);
        kit_weight_free(kit, &w);
    }
    const float edge[] = {NAN, INFINITY, -INFINITY, 100.0f, -100.0f, -0.0f};
    const float ones[] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float out[6];
    for (int kind = 0; kind < TDM_GLU_COUNT; ++kind) {
        if (kind == TDM_GLU_SIGMOID || kind == TDM_GLU_IDENTITY) {
            continue; /* below: one does not grow with its input, the other falls with it */
        }
        const tdm_activation act = {.kind = (tdm_glu)kind, .alpha = 1.702f, .limit = 200.0f};
        float factor = kind == TDM_GLU_CLAMPED ? 2.0f : 1.0f; /* up + 1 */
        float most = kind == TDM_GLU_CLAMPED ? 400.0f : INFINITY;
        tdm_op_glu_mul(kit->subjects[0], &act, out, 6, edge, 6, ones, 6, 1, 6);
        assert_true(isnan(out[0]) && out[1] == most && !(out[2] > 0.0f));
        assert_true(out[3] == 100.0f * factor && out[4] <= 0.0f && out[4] > -1e-30f);
        assert_true(out[5] == 0.0f);
        tdm_op_glu_mul(kit->subjects[0], &act, out, 6, ones, 6, edge, 6, 1, 6);
        assert_true(isnan(out[0]) && !isnan(out[1]) && !isnan(out[2]));
    }
    const tdm_activation identity = {.kind = TDM_GLU_IDENTITY};
    tdm_op_glu_mul(kit->subjects[0], &identity, out, 5, edge + 1, 5, ones, 5, 1, 5);
    kit_same("a plain product", edge + 1, out, 5);
    tdm_op_glu_mul(kit->subjects[0], &identity, out, 5, ones, 5, edge + 1, 5, 1, 5);
    kit_same("a plain product", edge + 1, out, 5);
    const tdm_activation sigmoid = {.kind = TDM_GLU_SIGMOID};
    tdm_op_glu_mul(kit->subjects[0], &sigmoid, out, 6, edge, 6, ones, 6, 1, 6);
    assert_true(isnan(out[0]) && out[1] == 1.0f && out[2] >= 0.0f && out[2] < 1e-30f);
    assert_true(out[3] == 1.0f && out[4] >= 0.0f && out[4] < 1e-30f && out[5] == 0.5f);
    memcpy(out, edge, sizeof out);
    tdm_op_softcap(kit->subjects[0], out, 6, 1, 6, 30.0f);
    assert_true(isnan(out[0]) && out[1] == 30.0f && out[2] == -30.0f && out[5] == 0.0f);
}

/* Twice the rounds are twice the operations, of every thread. */
static inline void kit_peaks(const backend_kit *kit) {
    for (int kind = 0; kind < TDM_PEAK_COUNT; ++kind) {
        double one = kit->subjects[0]->ops->peak(kit->subjects[0], (tdm_peak)kind, 10);
        double two = kit->subjects[0]->ops->peak(kit->subjects[0], (tdm_peak)kind, 20);
        double all = kit->subjects[2]->ops->peak(kit->subjects[2], (tdm_peak)kind, 10);
        assert_true(one >= 0.0 && two == 2.0 * one && all == 3.0 * one);
    }
}

static inline void backend_kit_run(const backend_kit *kit) {
    for (int i = 0; i < 4; ++i) {
        tdm_error err = {0};
        tdm_backend *be = kit_backend(kit, i);
        assert_int_equal(be->ops->reserve(be, KIT_N_MAX, KIT_WIDTH_MAX, &err), TDM_OK);
        assert_non_null(be->ops->name(be));
        assert_int_equal(be->tier, kit->tier);
    }
    kit_linear(kit);
    kit_linear_large(kit);
    kit_linear_parts(kit);
    kit_lent(kit);
    kit_embed(kit);
    kit_rows(kit);
    kit_activations(kit);
    kit_clamped(kit);
    kit_rope(kit);
    kit_argmax(kit);
    kit_peaks(kit);
    kit_recurrent(kit);
    kit_attention(kit);
    kit_attention_deep(kit);
    kit_attention_spans(kit);
    kit_sinks_edge(kit);
    kit_latent_run(kit);
    kit_non_finite(kit);
}

#endif
