/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign integers, laid out here bit by bit after the drawings of tensor/repack.h, come back as
 * affine rows of the values that they stand for; for every width, with and without zero points, in
 * order and out of it. tests/golden has whole files of the tool chains' own. */
#include "support/support.h"

#include "tensor/half.h"
#include "tensor/repack.h"
#include "tensor/weight.h"

#include <math.h>

#define N_OUT 32
#define N_IN 128
#define WORDS_MAX (N_OUT * N_IN / 4)

typedef struct sheet {
    tdm_repack r;
    uint32_t codes[WORDS_MAX];
    uint32_t zeros[WORDS_MAX];
    uint16_t scales[N_OUT * N_IN];
    int code[N_OUT][N_IN];      /* what was meant, unsigned */
    int zero[N_OUT][N_IN / 32]; /* as stored, unsigned */
    float scale[N_OUT][N_IN / 32];
} sheet;

static uint32_t draw(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Value into bits [bit, bit + n) of a stream whose words are stride words apart. */
static void put_bits(uint32_t *words, int64_t stride, int64_t bit, int n, int value) {
    for (int i = 0; i < n; ++i, ++bit) {
        words[stride * (bit / 32)] |= ((uint32_t)value >> i & 1u) << (bit % 32);
    }
}

static void put_awq(uint32_t *words, int64_t at, int value) {
    static const int ORDER[8] = {0, 2, 4, 6, 1, 3, 5, 7}; /* which neighbour stands at nibble i */
    for (int i = 0; i < 8; ++i) {
        if (ORDER[i] == at % 8) {
            words[at / 8] |= (uint32_t)value << (4 * i);
        }
    }
}

static void put_value(sheet *s, uint32_t *words, bool is_zero, int64_t o, int64_t i, int value) {
    const tdm_repack *r = &s->r;
    switch (r->layout) {
    case TDM_REPACK_GPTQ:
        if (is_zero) {
            put_bits(words + i * N_OUT * r->bits / 32, 1, o * r->bits, r->bits, value);
        } else {
            put_bits(words + o, N_OUT, i * r->bits, r->bits, value);
        }
        break;
    case TDM_REPACK_AWQ:
        put_awq(words + i * N_OUT / 8, o, value);
        break;
    case TDM_REPACK_PACKED:
        if (is_zero) {
            put_bits(words + i, r->n_scales, o * r->bits, r->bits, value);
        } else {
            put_bits(words + o * N_IN * r->bits / 32, 1, i * r->bits, r->bits, value);
        }
        break;
    case TDM_REPACK_BYTES:
    default:
        ((uint8_t *)words)[o * (is_zero ? r->n_scales : N_IN) + i] = (uint8_t)(value - 128);
        break;
    }
}

static void fill(sheet *s, tdm_repack_layout layout, int bits, int64_t n_scales, bool has_zeros) {
    uint32_t seed = (uint32_t)layout * 100u + (uint32_t)bits * 10u + (uint32_t)n_scales;
    bool is_turned = layout == TDM_REPACK_GPTQ || layout == TDM_REPACK_AWQ;
    memset(s, 0, sizeof *s);
    s->r = (tdm_repack){.layout = layout,
                        .bits = bits,
                        .n_out = N_OUT,
                        .n_in = N_IN,
                        .n_scales = n_scales,
                        .codes = (const uint8_t *)s->codes,
                        .zeros = has_zeros ? (const uint8_t *)s->zeros : NULL,
                        .scales = (const uint8_t *)s->scales,
                        .scales_dtype = TDM_DTYPE_F16};
    for (int64_t o = 0; o < N_OUT; ++o) {
        for (int64_t i = 0; i < N_IN; ++i) {
            s->code[o][i] = (int)(draw(&seed) % (1u << bits));
            put_value(s, s->codes, false, o, i, s->code[o][i]);
        }
        for (int64_t g = 0; g < n_scales; ++g) {
            uint16_t half = tdm_f16_from_f32(0.01f + (float)(draw(&seed) % 1000) / 256.0f);
            s->zero[o][g] = has_zeros ? (int)(draw(&seed) % (1u << bits)) : 1 << (bits - 1);
            s->scale[o][g] = tdm_f16_to_f32(half);
            s->scales[is_turned ? g * N_OUT + o : o * n_scales + g] = half;
            if (has_zeros) {
                put_value(s, s->zeros, true, o, g, s->zero[o][g]);
            }
        }
    }
}

/* All rows through the repacker and the affine reader. */
static void check(const sheet *s) {
    static uint8_t codes[N_OUT * N_IN];
    static float scales[N_OUT * N_IN / 32];
    static float biases[N_OUT * N_IN / 32];
    const tdm_repack *r = &s->r;
    int32_t group = tdm_repack_group(r);
    int64_t n = N_IN / group;
    tdm_weight w;
    tdm_error err = {0};
    memset(codes, 0xee, sizeof codes);
    tdm_repack_codes(r, 2, N_IN / 32, codes); /* in two pieces, out of order */
    tdm_repack_codes(r, 0, 2, codes);
    tdm_repack_scales(r, 5, N_OUT, scales, biases);
    tdm_repack_scales(r, 0, 5, scales, biases);
    const size_t n_all = (size_t)(N_OUT * n);
    const tdm_weight_source source = {
        .mode = TDM_WEIGHT_AFFINE,
        .bits = r->bits,
        .group = group,
        .view = {TDM_DTYPE_U32,
                 2,
                 {N_OUT, N_IN * r->bits / 32},
                 codes,
                 (size_t)(N_OUT * N_IN / 8 * r->bits)},
        .scales = {TDM_DTYPE_F32, 2, {N_OUT, n}, scales, n_all * sizeof(float)},
        .biases = {TDM_DTYPE_F32, 2, {N_OUT, n}, biases, n_all * sizeof(float)}};
    assert_int_equal(tdm_weight_describe(&source, &w, &err), TDM_OK);
    for (int64_t o = 0; o < N_OUT; ++o) {
        float row[N_IN];
        tdm_weight_row(&w, o, row);
        for (int64_t i = 0; i < N_IN; ++i) {
            int64_t from = r->columns != NULL ? r->columns[i] : i;
            int64_t g = i / (N_IN / r->n_scales);
            int zero = s->zero[o][r->has_one_scale ? 0 : g];
            float scale = r->has_one_scale ? s->scale[0][0] : s->scale[o][g];
            if (r->has_one_scale) {
                zero = s->zero[0][0];
            }
            /* exact: eight bits of integer and eleven of scale */
            float want = (float)(s->code[o][from] - (zero + r->zero_add)) * scale;
            if (row[i] != want) {
                fail_msg("layout %d, %d bits: [%d, %d] is %.9g, not %.9g", (int)r->layout, r->bits,
                         (int)o, (int)i, (double)row[i], (double)want);
            }
        }
    }
}

static void every_layout_comes_back(void **state) {
    static const int64_t GROUPS[] = {1, 2, 4};
    static sheet s;
    size_t n = 0;
    (void)state;
    for (int layout = TDM_REPACK_GPTQ; layout <= TDM_REPACK_BYTES; ++layout) {
        for (int bits = 1; bits <= 8; ++bits) {
            bool is_legal = layout == TDM_REPACK_AWQ     ? bits == 4
                            : layout == TDM_REPACK_BYTES ? bits == 8
                                                         : bits != 7;
            for (size_t g = 0; is_legal && g < SUPPORT_LEN(GROUPS); ++g) {
                for (int has_zeros = 0; has_zeros < 2; ++has_zeros) {
                    fill(&s, (tdm_repack_layout)layout, bits, GROUPS[g], has_zeros != 0);
                    check(&s);
                    ++n;
                }
            }
        }
    }
    assert_int_equal(n, (7 + 1 + 7 + 1) * 3 * 2);
}

static void zero_points_may_lack_one(void **state) {
    static sheet s;
    (void)state;
    fill(&s, TDM_REPACK_GPTQ, 4, 4, true);
    s.r.zero_add = 1;
    check(&s);
}

static void columns_are_followed(void **state) {
    static sheet s;
    int32_t columns[N_IN];
    (void)state;
    for (int32_t i = 0; i < N_IN; ++i) {
        columns[i] = (i * 53 + 7) % N_IN;
    }
    for (int layout = TDM_REPACK_GPTQ; layout <= TDM_REPACK_BYTES; ++layout) {
        fill(&s, (tdm_repack_layout)layout, layout == TDM_REPACK_BYTES ? 8 : 4, 4, true);
        s.r.columns = columns;
        check(&s);
    }
}

static void one_scale_serves_all(void **state) {
    static sheet s;
    (void)state;
    fill(&s, TDM_REPACK_BYTES, 8, 1, true);
    s.r.has_one_scale = true;
    check(&s);
}

static void groups_are_cut_to_what_is_read(void **state) {
    static const int32_t CASES[][3] = {/* n_in, groups, answer */
                                       {1024, 1, 128}, {1024, 8, 128}, {192, 1, 64}, {96, 1, 32},
                                       {96, 3, 32},    {64, 4, 0},     {160, 2, 0},  {512, 4, 128}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        const tdm_repack r = {.n_in = CASES[i][0], .n_scales = CASES[i][1]};
        assert_int_equal(tdm_repack_group(&r), CASES[i][2]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_comes_back),
        cmocka_unit_test(zero_points_may_lack_one),
        cmocka_unit_test(columns_are_followed),
        cmocka_unit_test(one_scale_serves_all),
        cmocka_unit_test(groups_are_cut_to_what_is_read),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
