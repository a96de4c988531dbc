/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit's part on recurrent layers: norms by length, regrouping, the causal convolution
 * and the gated delta rule. Beside the twin and the laws each case is cut into pieces, which must
 * give the bits of the whole. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_RECURRENT_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_RECURRENT_H

#include "contract/backend_kit_weights.h"

static inline void kit_l2_norm(const backend_kit *kit) {
    static const int32_t SHAPES[][2] = {{1, 1}, {3, 7}, {2, 8}, {4, 33}, {5, 128}};
    for (size_t c = 0; c < SUPPORT_LEN(SHAPES) * 3; ++c) {
        const int64_t n = 17;
        int32_t heads = SHAPES[c / 3][0];
        int32_t dim = SHAPES[c / 3][1];
        int64_t ld = (int64_t)heads * dim + 3;
        tdm_backend *be = kit->subjects[c % 3];
        float *want = kit_random(n * ld, 80);
        float *got = kit_random(n * ld, 80);
        float *alone = kit_random(n * ld, 80);
        for (int64_t r = 0; r < n * heads; ++r) { /* the definition */
            float *head = want + r / heads * ld + r % heads * dim;
            double sum = 0.0;
            for (int32_t i = 0; i < dim; ++i) {
                sum += (double)head[i] * (double)head[i];
            }
            for (int32_t i = 0; i < dim; ++i) {
                head[i] = (float)((double)head[i] / sqrt(sum + 1e-3) * 0.25);
            }
        }
        tdm_op_l2_norm(be, got, ld, n, heads, dim, 1e-3f, 0.25f);
        kit_close("l2_norm", want, got, n * ld, TOL_RMS_NORM);
        tdm_op_l2_norm(be, alone + 5 * ld, ld, 1, heads, dim, 1e-3f, 0.25f);
        kit_same("l2_norm alone", alone + 5 * ld, got + 5 * ld, ld);
        free(alone);
        free(got);
        free(want);
    }
}

static inline void kit_regroup(const backend_kit *kit) {
    static const tdm_groups CASES[] = {
        {.n = 1, .dim = 7, .step_out = 7, .step_x = 7},
        {.n = 3, .dim = 4, .step_out = 4, .step_x = 9},
        {.n = 5, .dim = 16, .step_out = 40, .step_x = 16},
        {.n = 64, .dim = 1, .step_out = 2, .step_x = 3},
    };
    for (size_t c = 0; c < SUPPORT_LEN(CASES) * 3; ++c) {
        const int64_t n = 65;
        const tdm_groups *g = &CASES[c / 3];
        int64_t ld_out = g->n * g->step_out + 2;
        int64_t ld_x = g->n * g->step_x + 1;
        float *x = kit_random(n * ld_x, 81);
        float *want = kit_filled(n * ld_out, KIT_CANARY);
        float *got = kit_filled(n * ld_out, KIT_CANARY);
        for (int64_t i = 0; i < n * g->n * g->dim; ++i) {
            int64_t group = i / g->dim % g->n;
            int64_t row = i / g->dim / g->n;
            want[row * ld_out + group * g->step_out + i % g->dim] =
                x[row * ld_x + group * g->step_x + i % g->dim];
        }
        tdm_op_regroup(kit->subjects[c % 3], got, ld_out, x, ld_x, n, g);
        kit_same("regroup", want, got, n * ld_out);
        free(got);
        free(want);
        free(x);
    }
}

typedef struct kit_conv_case {
    int64_t dim, extra; /* channels; values that only travel along */
    int32_t n_taps, n, n_keep;
    bool is_silu;
} kit_conv_case;

/* Runs a case in pieces of cut positions; the tail of a piece is what the one before kept. */
static inline void kit_conv_run(tdm_backend *be, const kit_conv_case *c, const tdm_conv *conv,
                                const float *tail, const float *x, int32_t cut, bool is_in_place,
                                float *out, float *keep) {
    int64_t ld = conv->width + 3;
    int64_t n_tail = c->n_taps - 1;
    float *tails[2] = {kit_random((n_tail + 1) * conv->width, 90),
                       kit_random((n_tail + 1) * conv->width, 91)};
    memcpy(tails[0], tail, (size_t)(n_tail * conv->width) * sizeof *tail);
    if (is_in_place) {
        memcpy(out, x, (size_t)(c->n * ld) * sizeof *out);
    }
    for (int32_t t = 0, turn = 0; t < c->n; t += cut, turn ^= 1) {
        bool is_last = t + cut >= c->n;
        tdm_conv_span span = {.tail = tails[turn],
                              .x = (is_in_place ? out : x) + t * ld,
                              .out = out + t * ld,
                              .keep = is_last ? keep : tails[turn ^ 1],
                              .ld_x = ld,
                              .ld_out = ld,
                              .n = is_last ? c->n - t : cut,
                              .n_keep = is_last ? c->n_keep : (int32_t)n_tail};
        if (is_last && c->n_keep > n_tail + span.n) {
            fail_msg("a case keeps more rows than its last piece has");
        }
        tdm_op_conv(be, conv, &span, 1);
    }
    free(tails[0]);
    free(tails[1]);
}

static inline void kit_conv_one(const backend_kit *kit, const kit_conv_case *c, uint32_t seed) {
    int64_t width = c->dim + c->extra;
    int64_t ld = width + 3;
    float *taps = kit_random(c->n_taps * c->dim, seed);
    float *bias = kit_random(c->dim, seed + 1);
    float *tail = kit_random(c->n_taps * width, seed + 2);
    float *x = kit_random(c->n * ld, seed + 3);
    float *want = kit_filled(c->n * ld, KIT_CANARY);
    float *keep_want = kit_filled((c->n_keep + 1) * width, KIT_CANARY);
    tdm_conv conv = {.taps = taps,
                     .bias = seed % 2 == 0 ? bias : NULL,
                     .dim = c->dim,
                     .width = width,
                     .n_taps = c->n_taps,
                     .is_silu = c->is_silu};
    kit_conv_run(kit->twin, c, &conv, tail, x, c->n, false, want, keep_want);
    for (int64_t i = 0; i < c->n_keep * width; ++i) { /* the definition of what is kept */
        int64_t row = c->n_taps - 1 + c->n - c->n_keep + i / width;
        const float *from =
            row < c->n_taps - 1 ? tail + row * width : x + (row - c->n_taps + 1) * ld;
        assert_true(keep_want[i] == from[i % width]);
    }
    float *first = kit_filled(c->n * ld, KIT_CANARY);
    const int32_t cuts[3] = {c->n, (c->n + 1) / 2, c->n_keep <= c->n_taps ? 1 : c->n};
    for (int way = 0; way < 18; ++way) {
        tdm_backend *be = kit->subjects[way % 3];
        bool is_in_place = way >= 9;
        float *got = kit_filled(c->n * ld, KIT_CANARY);
        float *keep = kit_filled((c->n_keep + 1) * width, KIT_CANARY);
        kit_conv_run(be, c, &conv, tail, x, cuts[way / 3 % 3], is_in_place, way == 0 ? first : got,
                     keep);
        for (int64_t t = 0; t < c->n; ++t) {
            if (way == 0) {
                kit_close("conv", want + t * ld, first + t * ld, width, TOL_CONV);
            } else {
                kit_same("conv in another way", first + t * ld, got + t * ld, width);
            }
        }
        kit_same("conv keeps", keep_want, keep, (c->n_keep + 1) * width);
        free(keep);
        free(got);
    }
    free(first);
    free(keep_want);
    free(want);
    free(x);
    free(tail);
    free(bias);
    free(taps);
}

static inline void kit_conv(const backend_kit *kit) {
    static const kit_conv_case CASES[] = {
        {1, 0, 1, 1, 0, false},    {7, 0, 3, 2, 2, false},   {8, 2, 4, 5, 3, true},
        {33, 5, 4, 33, 0, true},   {300, 9, 4, 7, 6, true},  {600, 0, 3, 20, 1, false},
        {256, 40, 2, 33, 5, true}, {40, 0, 64, 3, 4, false},
    };
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        kit_conv_one(kit, &CASES[i], 100 + 5 * (uint32_t)i);
    }
}

typedef struct kit_delta_case {
    int32_t n_key_heads, n_value_heads, key_dim, value_dim;
    bool is_tiled;
    int32_t n;
} kit_delta_case;

typedef struct kit_delta_set {
    tdm_delta delta;
    int64_t ld_x, ld_out, state;
    float *decay, *dt_bias, *x, *from;
    int32_t n;
} kit_delta_set;

static inline void kit_delta_make(kit_delta_set *s, const kit_delta_case *c, uint32_t seed) {
    int64_t keys = (int64_t)c->n_key_heads * c->key_dim;
    int64_t values = (int64_t)c->n_value_heads * c->value_dim;
    s->n = c->n;
    s->ld_x = 2 * keys + values + 2 * (int64_t)c->n_value_heads + 3;
    s->ld_out = values + 2;
    s->state = values * c->key_dim;
    s->decay = kit_random(c->n_value_heads, seed);
    s->dt_bias = kit_random(c->n_value_heads, seed + 1);
    s->x = kit_random(s->n * s->ld_x, seed + 2);
    s->from = kit_random(s->state, seed + 3);
    for (int32_t h = 0; h < c->n_value_heads; ++h) {
        s->decay[h] = -fabsf(s->decay[h]) - 0.01f;
        s->x[2 * keys + values + h] = h == 0 ? 30.0f : s->x[2 * keys + values + h];
    }
    s->delta = (tdm_delta){.n_key_heads = c->n_key_heads,
                           .n_value_heads = c->n_value_heads,
                           .key_dim = c->key_dim,
                           .value_dim = c->value_dim,
                           .is_tiled = c->is_tiled,
                           .decay = s->decay,
                           .dt_bias = s->dt_bias};
    for (int64_t t = 0; t < s->n; ++t) { /* keys of length one, or the rule blows up */
        for (int64_t h = 0; h < 2 * (int64_t)c->n_key_heads; ++h) {
            float *head = s->x + t * s->ld_x + h * c->key_dim;
            double sum = 1e-6;
            for (int32_t i = 0; i < c->key_dim; ++i) {
                sum += (double)head[i] * (double)head[i];
            }
            for (int32_t i = 0; i < c->key_dim; ++i) {
                head[i] = (float)((double)head[i] / sqrt(sum));
            }
        }
    }
}

static inline void kit_delta_free(kit_delta_set *s) {
    free(s->decay);
    free(s->dt_bias);
    free(s->x);
    free(s->from);
}

/* In pieces of cut, all in one call; each piece reads the state that the one before wrote. */
static inline void kit_delta_run(tdm_backend *be, const kit_delta_set *s, int32_t cut, float *to,
                                 float *out) {
    tdm_delta_span spans[80];
    int32_t n_spans = 0;
    for (int32_t t = 0; t < s->n; t += cut) {
        assert_true(n_spans < 80);
        spans[n_spans++] = (tdm_delta_span){.from = t == 0 ? s->from : to,
                                            .to = to,
                                            .x = s->x + t * s->ld_x,
                                            .out = out != NULL ? out + t * s->ld_out : NULL,
                                            .ld_x = s->ld_x,
                                            .ld_out = s->ld_out,
                                            .n = cut < s->n - t ? cut : s->n - t};
    }
    tdm_op_delta_scan(be, &s->delta, spans, n_spans);
}

/* The rule as it is written in contract/backend.h, in f64 throughout. */
static inline void kit_delta_definition(const kit_delta_set *s, double *state, double *out) {
    const tdm_delta *d = &s->delta;
    int64_t keys = (int64_t)d->n_key_heads * d->key_dim;
    int64_t values = (int64_t)d->n_value_heads * d->value_dim;
    for (int64_t i = 0; i < s->state; ++i) {
        state[i] = (double)s->from[i];
    }
    for (int64_t at = 0; at < s->n * values; ++at) {
        int64_t t = at / values;
        int64_t h = at % values / d->value_dim;
        int64_t j = at % d->value_dim;
        const float *x = s->x + t * s->ld_x;
        int64_t key_head =
            d->is_tiled ? h % d->n_key_heads : h / (d->n_value_heads / d->n_key_heads);
        double a = (double)x[2 * keys + values + h] + (double)d->dt_bias[h];
        double g = exp((double)d->decay[h] * log1p(exp(a)));
        double beta = 1.0 / (1.0 + exp(-(double)x[2 * keys + values + d->n_value_heads + h]));
        double seen = 0.0;
        double sum = 0.0;
        double *column = state + (int64_t)h * d->key_dim * d->value_dim + j;
        for (int32_t i = 0; i < d->key_dim; ++i) {
            column[i * d->value_dim] *= g;
            seen += column[i * d->value_dim] * (double)x[keys + key_head * d->key_dim + i];
        }
        for (int32_t i = 0; i < d->key_dim; ++i) {
            column[i * d->value_dim] += (double)x[keys + key_head * d->key_dim + i] * beta *
                                        ((double)x[2 * keys + h * d->value_dim + j] - seen);
            sum += column[i * d->value_dim] * (double)x[key_head * d->key_dim + i];
        }
        out[t * s->ld_out + h * d->value_dim + j] = sum;
    }
}

static inline void kit_delta_against_definition(const backend_kit *kit, const kit_delta_set *s) {
    double *state = calloc((size_t)s->state, sizeof *state);
    double *out = calloc((size_t)(s->n * s->ld_out), sizeof *out);
    float *want = kit_filled(s->n * s->ld_out, 0.0f);
    float *want_state = kit_floats(s->state);
    float *got = kit_filled(s->n * s->ld_out, 0.0f);
    float *to = kit_floats(s->state);
    assert_true(state != NULL && out != NULL);
    kit_delta_definition(s, state, out);
    for (int64_t i = 0; i < s->n * s->ld_out; ++i) {
        want[i] = (float)out[i];
    }
    for (int64_t i = 0; i < s->state; ++i) {
        want_state[i] = (float)state[i];
    }
    kit_delta_run(kit->twin, s, s->n, to, got);
    kit_close("the twin's delta rule", want, got, s->n * s->ld_out, TOL_DELTA);
    kit_close("the twin's delta state", want_state, to, s->state, TOL_DELTA);
    free(to);
    free(got);
    free(want_state);
    free(want);
    free(out);
    free(state);
}

static inline void kit_delta_one(const backend_kit *kit, const kit_delta_case *c, uint32_t seed) {
    static const int32_t CUTS[] = {1 << 20, 1, 3, 64};
    kit_delta_set s;
    kit_delta_make(&s, c, seed);
    int64_t n_out = s.n * s.ld_out;
    float *want = kit_filled(n_out, KIT_CANARY);
    float *want_state = kit_floats(s.state);
    float *first = kit_filled(n_out, KIT_CANARY);
    float *first_state = kit_floats(s.state);
    float *got = kit_floats(n_out);
    float *state = kit_floats(s.state);
    kit_delta_against_definition(kit, &s);
    kit_delta_run(kit->twin, &s, s.n, want_state, want);
    kit_delta_run(kit->subjects[0], &s, s.n, first_state, first);
    kit_close("delta_scan", want, first, n_out, TOL_DELTA);
    kit_close("delta_scan's state", want_state, first_state, s.state, TOL_DELTA);
    for (size_t way = 0; way < 3 * SUPPORT_LEN(CUTS); ++way) {
        for (int64_t i = 0; i < n_out; ++i) {
            got[i] = KIT_CANARY;
        }
        kit_delta_run(kit->subjects[way % 3], &s, CUTS[way / 3], state, got);
        kit_same("delta_scan in pieces", first, got, n_out);
        kit_same("delta_scan's state in pieces", first_state, state, s.state);
    }
    kit_delta_run(kit->subjects[1], &s, s.n, state, NULL);
    kit_same("delta_scan without results", first_state, state, s.state);
    free(state);
    free(got);
    free(first_state);
    free(first);
    free(want_state);
    free(want);
    kit_delta_free(&s);
}

/* L5: a poisoned value stays in its head; one that is not a number is not hidden either. */
static inline void kit_delta_poison(const backend_kit *kit) {
    static const kit_delta_case CASE = {1, 2, 8, 40, false, 4};
    kit_delta_set s;
    kit_delta_make(&s, &CASE, 400);
    float *want = kit_floats(s.n * s.ld_out);
    float *got = kit_floats(s.n * s.ld_out);
    float *state = kit_floats(s.state);
    kit_delta_run(kit->subjects[0], &s, s.n, state, want);
    s.x[16 + 3] = NAN; /* v of head 0 in the first position */
    kit_delta_run(kit->subjects[0], &s, s.n, state, got);
    for (int64_t t = 0; t < s.n; ++t) {
        kit_same("a head beside a poisoned one", want + t * s.ld_out + 40, got + t * s.ld_out + 40,
                 40);
        assert_true(isnan(got[t * s.ld_out + 3]));
    }
    free(state);
    free(got);
    free(want);
    kit_delta_free(&s);
}

static inline void kit_delta(const backend_kit *kit) {
    static const kit_delta_case CASES[] = {
        {1, 1, 1, 1, false, 1},      {1, 1, 4, 4, false, 5},   {2, 4, 16, 16, false, 9},
        {2, 4, 16, 16, true, 9},     {1, 3, 8, 40, false, 70}, {2, 2, 33, 20, true, 7},
        {1, 2, 128, 128, false, 70}, {4, 4, 5, 33, false, 64},
    };
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        kit_delta_one(kit, &CASES[i], 200 + 5 * (uint32_t)i);
    }
    kit_delta_poison(kit);
}

static inline void kit_recurrent(const backend_kit *kit) {
    kit_l2_norm(kit);
    kit_regroup(kit);
    kit_conv(kit);
    kit_delta(kit);
}

#endif
