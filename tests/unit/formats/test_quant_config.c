/* SPDX-License-Identifier: Apache-2.0
 *
 * What config.json says about quantized weights, and whether shapes agree: every width and group,
 * with and without lies. */
#include "support/support.h"

#include "formats/quant_config.h"
#include "tensor/weight.h"

#include <string.h>

static tdm_status read_text(const char *text, tdm_json_doc **out_doc, tdm_quant_config *out,
                            tdm_error *err) {
    assert_int_equal(tdm_json_parse(out_doc, NULL, text, strlen(text), NULL, "config.json", err),
                     TDM_OK);
    return tdm_quant_config_read(out, tdm_json_doc_root(*out_doc), "config.json", err);
}

static void modules_are_answered(void **state) {
    static const char TEXT[] = "{\"quantization\":{\"group_size\":16,\"bits\":4,\"mode\":\"nvfp4\","
                               "\"a.gate\":{\"group_size\":64,\"bits\":8},\"a.off\":false,"
                               "\"a.mx\":{\"mode\":\"mxfp8\"}}}";
    tdm_json_doc *doc = NULL;
    tdm_quant_config config;
    tdm_quant q;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_text(TEXT, &doc, &config, &err), TDM_OK);
    assert_int_equal(tdm_quant_config_ask(&config, "a.up", &q), TDM_QUANT_DEFAULT);
    assert_true(q.mode == TDM_WEIGHT_NVFP4 && q.bits == 4 && q.group == 16);
    /* A missing mode is affine, not the default's. */
    assert_int_equal(tdm_quant_config_ask(&config, "a.gate", &q), TDM_QUANT_NAMED);
    assert_true(q.mode == TDM_WEIGHT_AFFINE && q.bits == 8 && q.group == 64);
    assert_int_equal(tdm_quant_config_ask(&config, "a.off", &q), TDM_QUANT_OFF);
    assert_int_equal(tdm_quant_config_ask(&config, "a.mx", &q), TDM_QUANT_NAMED);
    assert_true(q.mode == TDM_WEIGHT_MXFP8 && q.bits == 0 && q.group == 0);
    tdm_json_doc_destroy(doc);
    assert_int_equal(read_text("{}", &doc, &config, &err), TDM_OK);
    assert_int_equal(tdm_quant_config_ask(&config, "a.up", &q), TDM_QUANT_SILENT);
    tdm_json_doc_destroy(doc);
    assert_int_equal(tdm_quant_config_read(&config, NULL, "x", &err), TDM_OK);
    assert_int_equal(tdm_quant_config_ask(&config, "a.up", &q), TDM_QUANT_SILENT);
    assert_int_equal(read_text("{\"quantization_config\":{\"quant_method\":\"fp8\",\"bits\":8}}",
                               &doc, &config, &err),
                     TDM_OK);
    assert_string_equal(config.method, "fp8");
    assert_int_equal(tdm_quant_config_ask(&config, "a.up", &q), TDM_QUANT_SILENT);
    tdm_json_doc_destroy(doc);
}

static void odd_settings_are_refused(void **state) {
    static const struct {
        const char *text;
        tdm_status status;
        const char *what, *where; /* what must be in them */
    } CASES[] = {
        {"{\"quantization\":[]}", TDM_E_FORMAT, "no object", "quantization"},
        {"{\"quantization\":{\"bits\":0}}", TDM_E_FORMAT, "bits", "quantization"},
        {"{\"quantization\":{\"bits\":4.5}}", TDM_E_FORMAT, "bits", "quantization"},
        {"{\"quantization\":{\"bits\":\"4\"}}", TDM_E_FORMAT, "bits", "quantization"},
        {"{\"quantization\":{\"bits\":99999999999}}", TDM_E_FORMAT, "bits", "quantization"},
        {"{\"quantization\":{\"bits\":7,\"group_size\":64}}", TDM_E_UNSUPPORTED, "7 bits",
         "quantization"},
        {"{\"quantization\":{\"bits\":4,\"group_size\":16}}", TDM_E_UNSUPPORTED, "groups of 16",
         "quantization"},
        {"{\"quantization\":{\"mode\":4}}", TDM_E_FORMAT, "mode", "quantization"},
        {"{\"quantization\":{\"mode\":\"plain\"}}", TDM_E_UNSUPPORTED, "plain", "quantization"},
        {"{\"quantization\":{\"bits\":4,\"a.b\":{\"mode\":\"q\"}}}", TDM_E_UNSUPPORTED, "\"q\"",
         "quantization.a.b"},
        {"{\"quantization\":{\"bits\":4},\"quantization_config\":{\"bits\":8}}", TDM_E_FORMAT,
         "different", "quantization"},
        {"{\"quantization_config\":{\"quant_method\":\"bitsandbytes\"}}", TDM_E_UNSUPPORTED,
         "bitsandbytes", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,64]}}",
         TDM_E_UNSUPPORTED, "128 by 128", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":5}}", TDM_E_FORMAT, "quant_method",
         "quantization_config"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        tdm_json_doc *doc = NULL;
        tdm_quant_config config;
        tdm_error err = {0};
        if (read_text(CASES[i].text, &doc, &config, &err) != CASES[i].status ||
            strstr(err.what, CASES[i].what) == NULL || strstr(err.where, CASES[i].where) == NULL) {
            fail_msg("%s: %s (%s)", CASES[i].text, err.what, err.where);
        }
        assert_int_equal(
            tdm_quant_config_read(&config, tdm_json_doc_root(doc), "config.json", NULL),
            CASES[i].status);
        tdm_json_doc_destroy(doc);
    }
}

/* Shapes made from a quantization give it back, and no other is taken for it. */
static void shapes_tell_the_quantization(void **state) {
    static const int32_t GROUPS[] = {16, 32, 64, 128};
    size_t n_good = 0;
    (void)state;
    for (int32_t bits = 1; bits <= 8; ++bits) {
        for (size_t g = 0; g < SUPPORT_LEN(GROUPS); ++g) {
            for (int is_u8 = 0; is_u8 < 2; ++is_u8) {
                const int64_t n_in = 1024;
                tdm_dtype scales = is_u8 != 0 ? TDM_DTYPE_U8 : TDM_DTYPE_BF16;
                tdm_quant found;
                tdm_error err = {0};
                tdm_weight_mode mode = is_u8 == 0        ? TDM_WEIGHT_AFFINE
                                       : bits == 8       ? TDM_WEIGHT_MXFP8
                                       : GROUPS[g] == 16 ? TDM_WEIGHT_NVFP4
                                                         : TDM_WEIGHT_MXFP4;
                bool is_good = tdm_weight_mode_allows(mode, bits, GROUPS[g]);
                tdm_status status = tdm_quant_from_shapes(&found, n_in, n_in * bits / 32,
                                                          n_in / GROUPS[g], scales, &err);
                assert_int_equal(status, is_good ? TDM_OK : TDM_E_SHAPE);
                if (!is_good) {
                    continue;
                }
                ++n_good;
                assert_true(found.mode == mode && found.bits == bits && found.group == GROUPS[g]);
                assert_int_equal(tdm_quant_agree(&found, &found, &err), TDM_OK);
                tdm_quant lie = found;
                lie.bits = bits == 4 ? 8 : 4;
                assert_int_equal(tdm_quant_agree(&lie, &found, &err), TDM_E_FORMAT);
                lie = found;
                lie.group = 2 * found.group;
                assert_int_equal(tdm_quant_agree(&lie, &found, &err), TDM_E_FORMAT);
                lie = (tdm_quant){.mode = found.mode}; /* silent about both */
                assert_int_equal(tdm_quant_agree(&lie, &found, &err), TDM_OK);
            }
        }
    }
    assert_int_equal(n_good, 7 * 3 + 3);
    static const int64_t BAD[][3] = {
        {0, 4, 4},          {64, 0, 1},        {64, 8, 0},  {64, 7, 1},  {64, 8, 3},
        {64, INT64_MAX, 1}, {INT64_MAX, 1, 1}, {-64, 8, 1}, {64, -8, 1}, {64, 8, -1}};
    for (size_t i = 0; i < SUPPORT_LEN(BAD); ++i) {
        tdm_quant found;
        assert_int_equal(
            tdm_quant_from_shapes(&found, BAD[i][0], BAD[i][1], BAD[i][2], TDM_DTYPE_F16, NULL),
            TDM_E_SHAPE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_are_answered),
        cmocka_unit_test(odd_settings_are_refused),
        cmocka_unit_test(shapes_tell_the_quantization),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
