/* SPDX-License-Identifier: Apache-2.0
 *
 * Dequantization and 16-bit floats: bit-equal to what another decoder made of the same bytes
 * (goldens-gguf/types.safetensors), and to their definitions over all 65,536 patterns. */
#include "support/support.h"

#include "base/json.h"
#include "tensor/dequant.h"
#include "tensor/half.h"

#include <math.h>

typedef struct tensor_bytes {
    const uint8_t *data;
    size_t bytes;
} tensor_bytes;

/* Finds NAME in a safetensors text by its header. */
static tensor_bytes find_tensor(const char *file, const tdm_json *header, size_t base,
                                const char *name) {
    const tdm_json *entry = tdm_json_get(header, name);
    (void)file;
    assert_non_null(entry);
    const tdm_json *offsets = tdm_json_get(entry, "data_offsets");
    assert_non_null(offsets);
    assert_int_equal(offsets->len, 2);
    size_t begin = (size_t)strtoull(offsets->u.items[0].u.text, NULL, 10);
    size_t end = (size_t)strtoull(offsets->u.items[1].u.text, NULL, 10);
    return (tensor_bytes){(const uint8_t *)file + base + begin, end - begin};
}

static void expect_same(const char *name, const float *got, const uint8_t *want, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        float w = 0.0f;
        memcpy(&w, want + 4 * i, sizeof w);
        bool is_same = tdm_f32_bits(got[i]) == tdm_f32_bits(w) || (isnan(got[i]) && isnan(w));
        if (!is_same) {
            fail_msg("%s: value %zu is %.9g (%08x), not %.9g (%08x)", name, i, (double)got[i],
                     tdm_f32_bits(got[i]), (double)w, tdm_f32_bits(w));
        }
    }
}

static void types_are_bit_equal(void **state) {
    static const tdm_dtype TYPES[] = {
        TDM_DTYPE_F16,     TDM_DTYPE_BF16,  TDM_DTYPE_Q4_0,    TDM_DTYPE_Q4_1,   TDM_DTYPE_Q5_0,
        TDM_DTYPE_Q5_1,    TDM_DTYPE_Q8_0,  TDM_DTYPE_Q4_K,    TDM_DTYPE_Q5_K,   TDM_DTYPE_Q6_K,
        TDM_DTYPE_Q2_K,    TDM_DTYPE_Q3_K,  TDM_DTYPE_IQ4_NL,  TDM_DTYPE_IQ4_XS, TDM_DTYPE_MXFP4,
        TDM_DTYPE_NVFP4,   TDM_DTYPE_TQ1_0, TDM_DTYPE_TQ2_0,   TDM_DTYPE_Q1_0,   TDM_DTYPE_Q2_0,
        TDM_DTYPE_IQ1_S,   TDM_DTYPE_IQ1_M, TDM_DTYPE_IQ2_XXS, TDM_DTYPE_IQ2_XS, TDM_DTYPE_IQ2_S,
        TDM_DTYPE_IQ3_XXS, TDM_DTYPE_IQ3_S};
    char path[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    tdm_json_doc *doc = NULL;
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/types.safetensors");
    char *file = support_read_file(path, &bytes);
    uint64_t header_bytes = 0;
    memcpy(&header_bytes, file, sizeof header_bytes);
    assert_true(header_bytes < bytes - 8);
    assert_int_equal(tdm_json_parse(&doc, NULL, file + 8, (size_t)header_bytes, NULL, path, NULL),
                     TDM_OK);
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); ++i) {
        static const char *const KINDS[][2] = {
            {"raw", "dequant"}, {"bits_raw", "bits_dequant"}, {"scales_raw", "scales_dequant"}};
        const tdm_dtype_info *info = &TDM_DTYPES[TYPES[i]];
        assert_true(tdm_dequant_can(TYPES[i]));
        bool has_scales = TYPES[i] == TDM_DTYPE_MXFP4 || TYPES[i] == TDM_DTYPE_NVFP4;
        for (size_t k = 0; k < (has_scales ? 3 : 2); ++k) {
            char name[64];
            (void)snprintf(name, sizeof name, "%s.%s", info->name, KINDS[k][0]);
            tensor_bytes raw =
                find_tensor(file, tdm_json_doc_root(doc), 8 + (size_t)header_bytes, name);
            (void)snprintf(name, sizeof name, "%s.%s", info->name, KINDS[k][1]);
            tensor_bytes want =
                find_tensor(file, tdm_json_doc_root(doc), 8 + (size_t)header_bytes, name);
            size_t n = raw.bytes / info->block_bytes * info->block_weights;
            assert_int_equal(n * sizeof(float), want.bytes);
            float *got = malloc(n * sizeof *got);
            assert_non_null(got);
            tdm_dequant_row(TYPES[i], raw.data, (int64_t)n, got);
            expect_same(name, got, want.data, n);
            free(got);
        }
    }
    tdm_json_doc_destroy(doc);
    free(file);
}

static void unknown_types_are_refused(void **state) {
    (void)state;
    assert_false(tdm_dequant_can(TDM_DTYPE_I32));
    assert_false(tdm_dequant_can(TDM_DTYPE_Q8_K));
    assert_false(tdm_dequant_can((tdm_dtype)TDM_DTYPE_COUNT));
    assert_true(tdm_dequant_can(TDM_DTYPE_F32));
}

/* Every pattern widens to what its fields say and narrows back to itself. */
static void halves_round_trip(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; ++i) {
        uint16_t h = (uint16_t)i;
        int exponent = (int)(i >> 10) & 31;
        double fraction = (double)(i & 1023);
        double want =
            exponent == 0 ? ldexp(fraction, -24) : ldexp(1024.0 + fraction, exponent - 25);
        float wide = tdm_f16_to_f32(h);
        if (exponent == 31) {
            assert_true((i & 1023) == 0 ? isinf(wide) : isnan(wide));
        } else {
            assert_true((double)fabsf(wide) == want);
        }
        assert_int_equal(signbit(wide) != 0, (i >> 15) & 1);
        uint16_t back = tdm_f16_from_f32(wide);
        assert_true(isnan(wide) ? isnan(tdm_f16_to_f32(back)) : back == h);
        float bf = tdm_bf16_to_f32(h);
        uint16_t bf_back = tdm_bf16_from_f32(bf);
        assert_true(isnan(bf) ? isnan(tdm_bf16_to_f32(bf_back)) : bf_back == h);
    }
}

/* Between two neighbours the nearer wins, and the even one a tie. */
static void narrowing_rounds_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 0x7bff; ++i) {
        float lo = tdm_f16_to_f32((uint16_t)i);
        float hi = tdm_f16_to_f32((uint16_t)(i + 1));
        float mid = lo + (hi - lo) * 0.5f;
        uint16_t even = (uint16_t)((i & 1) == 0 ? i : i + 1);
        assert_int_equal(tdm_f16_from_f32(mid), even);
        assert_int_equal(tdm_f16_from_f32(nextafterf(mid, 0.0f)), i);
        assert_int_equal(tdm_f16_from_f32(nextafterf(mid, INFINITY)), i + 1);
    }
    assert_int_equal(tdm_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(tdm_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(tdm_f16_from_f32(-INFINITY), 0xfc00);
    assert_int_equal(tdm_bf16_from_f32(tdm_f32_from_bits(0x3f808000u)), 0x3f80);
    assert_int_equal(tdm_bf16_from_f32(tdm_f32_from_bits(0x3f818000u)), 0x3f82);
    assert_int_equal(tdm_bf16_from_f32(tdm_f32_from_bits(0x3f808001u)), 0x3f81);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_bit_equal),
        cmocka_unit_test(unknown_types_are_refused),
        cmocka_unit_test(halves_round_trip),
        cmocka_unit_test(narrowing_rounds_to_nearest_even),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
