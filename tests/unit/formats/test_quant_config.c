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

#define COMPRESSED(rest)                                                                           \
    "{\"quantization_config\":{\"quant_method\":\"compressed-tensors\"," rest "}}"

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
    assert_int_equal(config.method, TDM_QUANT_METHOD_FP8);
    assert_true(config.block_rows == 128 && config.block_columns == 128);
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
        {"{\"quantization_config\":{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true}}",
         TDM_E_UNSUPPORTED, "nf4", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128]}}",
         TDM_E_FORMAT, "weight_block_size", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[0,128]}}",
         TDM_E_FORMAT, "weight_block_size", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"activation_scheme\":\"static\"}}",
         TDM_E_UNSUPPORTED, "activation_scheme", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"hqq\"}}", TDM_E_UNSUPPORTED, "hqq",
         "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"awq\",\"version\":\"gemv\"}}",
         TDM_E_UNSUPPORTED, "gemv", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":0}}", TDM_E_FORMAT, "bits",
         "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"group_size\":-2}}", TDM_E_FORMAT,
         "group_size", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"checkpoint_format\":\"marlin\"}}",
         TDM_E_UNSUPPORTED, "marlin", "quantization_config"},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"is_marlin_format\":true}}",
         TDM_E_UNSUPPORTED, "is_marlin_format", "quantization_config"},
        {COMPRESSED("\"format\":\"marlin-24\""), TDM_E_UNSUPPORTED, "marlin-24",
         "quantization_config"},
        {COMPRESSED("\"quantization_status\":\"frozen\""), TDM_E_UNSUPPORTED, "frozen",
         "quantization_config"},
        {COMPRESSED("\"kv_cache_scheme\":{\"num_bits\":8}"), TDM_E_UNSUPPORTED, "kv_cache_scheme",
         "quantization_config"},
        {COMPRESSED("\"sparsity_config\":{\"format\":\"sparse-24-bitmask\"}"), TDM_E_UNSUPPORTED,
         "sparsity_config", "quantization_config"},
        {COMPRESSED("\"transform_config\":{\"u\":{}}"), TDM_E_UNSUPPORTED, "transform_config",
         "quantization_config"},
        {COMPRESSED("\"config_groups\":[]"), TDM_E_FORMAT, "config_groups", "quantization_config"},
        {COMPRESSED("\"config_groups\":{\"g0\":{\"input_activations\":{\"dynamic\":false}}}"),
         TDM_E_UNSUPPORTED, "input_activations", "quantization_config"},
        {COMPRESSED("\"config_groups\":{\"g0\":{\"input_activations\":{\"dynamic\":\"local\"}}}"),
         TDM_E_UNSUPPORTED, "input_activations", "quantization_config"},
        {COMPRESSED("\"config_groups\":{\"g0\":{\"weights\":{\"num_bits\":4,\"group_size\":0}}}"),
         TDM_E_FORMAT, "group_size", "quantization_config"},
        {COMPRESSED("\"config_groups\":{\"g0\":{\"weights\":{\"dynamic\":true}}}"),
         TDM_E_UNSUPPORTED, "dynamic", "quantization_config"},
        {COMPRESSED("\"config_groups\":{\"g0\":{\"weights\":[4]}}"), TDM_E_FORMAT, "weights",
         "quantization_config"},
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

/* What other tool chains say, as far as it is one value for all modules. */
static void other_tools_are_read(void **state) {
    static const struct {
        const char *text;
        tdm_quant_method method;
        int32_t bits, group, zero_add, block_rows;
        bool has_columns;
    } CASES[] = {
        {"{\"quantization_config\":{\"quant_method\":\"awq\",\"w_bit\":4,\"q_group_size\":128,"
         "\"version\":\"GEMM\"}}",
         TDM_QUANT_METHOD_AWQ, 4, 128, 0, 128, false},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":-1}}",
         TDM_QUANT_METHOD_GPTQ, 4, -1, 1, 128, false},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":64,"
         "\"checkpoint_format\":\"gptq_v2\",\"dynamic\":null}}",
         TDM_QUANT_METHOD_GPTQ, 8, 64, 0, 128, false},
        {"{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64,"
         "\"dynamic\":{\"+:.*down.*\":{\"bits\":8}}}}",
         TDM_QUANT_METHOD_GPTQ, 0, 0, 1, 128, false},
        {"{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[64,32]}}",
         TDM_QUANT_METHOD_FP8, 0, 0, 0, 64, false},
        {COMPRESSED(
             "\"format\":\"pack-quantized\",\"config_groups\":{\"g0\":{\"weights\":{"
             "\"num_bits\":4,\"group_size\":32,\"strategy\":\"group\",\"actorder\":\"group\"}}}"),
         TDM_QUANT_METHOD_COMPRESSED_TENSORS, 4, 32, 0, 128, true},
        {COMPRESSED(
             "\"config_groups\":{\"g0\":{\"weights\":{\"num_bits\":8,\"strategy\":"
             "\"block\",\"block_structure\":[16,32]},\"input_activations\":{\"dynamic\":true}}}"),
         TDM_QUANT_METHOD_COMPRESSED_TENSORS, 8, 0, 0, 16, false},
        {COMPRESSED("\"config_groups\":{\"a\":{\"weights\":{\"num_bits\":8}},\"b\":{\"weights\":{"
                    "\"num_bits\":4}}}"),
         TDM_QUANT_METHOD_COMPRESSED_TENSORS, 0, 0, 0, 128, false},
        {"{\"quantization_config\":{\"quant_method\":\"mxfp4\"}}", TDM_QUANT_METHOD_MXFP4, 0, 0, 0,
         128, false},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        tdm_json_doc *doc = NULL;
        tdm_quant_config c;
        tdm_error err = {0};
        if (read_text(CASES[i].text, &doc, &c, &err) != TDM_OK) {
            fail_msg("%s: %s", CASES[i].text, err.what);
        }
        assert_int_equal(c.method, CASES[i].method);
        assert_int_equal(c.bits, CASES[i].bits);
        assert_int_equal(c.group, CASES[i].group);
        assert_int_equal(c.zero_add, CASES[i].zero_add);
        assert_int_equal(c.block_rows, CASES[i].block_rows);
        assert_int_equal(c.has_columns, CASES[i].has_columns);
        tdm_json_doc_destroy(doc);
    }
}

static void left_out_modules_are_known(void **state) {
    static const char TEXT[] =
        "{\"quantization_config\":{\"quant_method\":\"awq\","
        "\"modules_to_not_convert\":[\"lm_head\",\"a.1\",7,\"\",\"re:.*x\"]}}";
    static const struct {
        const char *module;
        bool is_out;
    } CASES[] = {{"lm_head", true},
                 {"model.lm_head", true},
                 {"model.xlm_head", false},
                 {"a.1.q_proj", true},
                 {"a.11.q_proj", false},
                 {"a.1", true},
                 {"b.x", false},
                 {"", false}};
    tdm_json_doc *doc = NULL;
    tdm_quant_config c;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_text(TEXT, &doc, &c, &err), TDM_OK);
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        assert_int_equal(tdm_quant_config_leaves_out(&c, CASES[i].module), CASES[i].is_out);
    }
    tdm_json_doc_destroy(doc);
    assert_int_equal(read_text("{}", &doc, &c, &err), TDM_OK);
    assert_false(tdm_quant_config_leaves_out(&c, "lm_head"));
    tdm_json_doc_destroy(doc);
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
        cmocka_unit_test(other_tools_are_read),
        cmocka_unit_test(left_out_modules_are_known),
        cmocka_unit_test(shapes_tell_the_quantization),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
