/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: what is read, what is refused and in which words, memory that runs out. */
#include "formats/safetensors.h"

#include "support/support.h"
#include "unit/formats/bytes.h"

static tdm_safetensors *must_parse(const bytes *b) {
    tdm_safetensors *file = NULL;
    tdm_error err = {0};
    const tdm_status status = tdm_safetensors_parse(&file, NULL, b->data, b->len, "t", &err);
    if (status != TDM_OK) {
        fail_msg("%s at %s", err.what, err.where);
    }
    return file;
}

static void reads_every_dtype(void **state) {
    static const struct {
        const char *name;
        tdm_dtype dtype;
        size_t bytes;
    } TYPES[] = {
        {"F64", TDM_DTYPE_F64, 8},         {"F32", TDM_DTYPE_F32, 4},
        {"F16", TDM_DTYPE_F16, 2},         {"BF16", TDM_DTYPE_BF16, 2},
        {"I64", TDM_DTYPE_I64, 8},         {"I32", TDM_DTYPE_I32, 4},
        {"I16", TDM_DTYPE_I16, 2},         {"I8", TDM_DTYPE_I8, 1},
        {"U8", TDM_DTYPE_U8, 1},           {"U16", TDM_DTYPE_U16, 2},
        {"U32", TDM_DTYPE_U32, 4},         {"U64", TDM_DTYPE_U64, 8},
        {"BOOL", TDM_DTYPE_BOOL, 1},       {"F8_E4M3", TDM_DTYPE_F8_E4M3, 1},
        {"F8_E5M2", TDM_DTYPE_F8_E5M2, 1}, {"F8_E8M0", TDM_DTYPE_F8_E8M0, 1},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); i++) {
        char header[200];
        bytes b;
        tdm_safetensors *file = NULL;
        const tdm_tensor_view *view = NULL;
        (void)snprintf(header, sizeof header,
                       "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%zu]}}",
                       TYPES[i].name, TYPES[i].bytes * 6);
        b = safetensors_of(header, TYPES[i].bytes * 6);
        file = must_parse(&b);
        view = tdm_safetensors_tensor_view(file, 0);
        assert_int_equal(view->dtype, TYPES[i].dtype);
        assert_int_equal(view->bytes, TYPES[i].bytes * 6);
        assert_int_equal(view->rank, 2);
        assert_int_equal(view->dims[0], 2);
        assert_int_equal(view->dims[1], 3);
        assert_ptr_equal(view->data, b.data + 8 + strlen(header));
        assert_int_equal(tdm_safetensors_tensor_offset(file, 0), 8 + strlen(header));
        tdm_safetensors_destroy(file);
        bytes_free(&b);
    }
}

static void reads_scalars_empties_metadata_and_escapes(void **state) {
    bytes b = safetensors_of("{\"__metadata__\":{\"format\":\"mlx\",\"k\":\"v\\n\"},"
                             "\"s\":{\"shape\":[],\"data_offsets\":[0,4],\"dtype\":\"F32\"},"
                             "\"e\":{\"dtype\":\"I8\",\"shape\":[0,7],\"data_offsets\":[4,4]},"
                             "\"n\\u0061me\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,2],"
                             "\"data_offsets\":[4,6]}}   ",
                             6);
    tdm_safetensors *file = must_parse(&b);
    size_t idx = 99;
    (void)state;
    assert_int_equal(tdm_safetensors_n_tensors(file), 3);
    assert_int_equal(tdm_safetensors_tensor_view(file, 0)->rank, 0);
    assert_int_equal(tdm_safetensors_tensor_view(file, 1)->bytes, 0);
    assert_true(tdm_safetensors_find(file, "name", &idx));
    assert_int_equal(idx, 2);
    assert_int_equal(tdm_safetensors_tensor_view(file, 2)->rank, 5);
    assert_false(tdm_safetensors_find(file, "nam", &idx));
    assert_string_equal(tdm_safetensors_metadata(file, "format"), "mlx");
    assert_string_equal(tdm_safetensors_metadata(file, "k"), "v\n");
    assert_null(tdm_safetensors_metadata(file, "x"));
    assert_int_equal(tdm_safetensors_gaps_of(file).trailing_bytes, 0);
    tdm_safetensors_destroy(file);
    bytes_free(&b);
}

static void reports_holes_and_tails(void **state) {
    static const char HEADER[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[3,5]},"
                                 "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[7,8]}}";
    bytes b = safetensors_of(HEADER, 12);
    tdm_safetensors *file = must_parse(&b);
    const tdm_safetensors_gaps gaps = tdm_safetensors_gaps_of(file);
    (void)state;
    assert_int_equal(gaps.hole_bytes, 5);
    assert_int_equal(gaps.hole_offset, 8 + sizeof HEADER - 1);
    assert_int_equal(gaps.trailing_bytes, 4);
    tdm_safetensors_destroy(file);
    bytes_free(&b);
}

#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void refuses(void **state) {
    static const struct {
        const char *header;
        size_t data_bytes;
        tdm_status status;
        const char *says; /* part of what or where */
    } CASES[] = {
        {"[]", 0, TDM_E_FORMAT, "begin with {"},
        {"{\"t\":1}", 0, TDM_E_FORMAT, "a number instead of an object"},
        {"{\"t\":{}}", 0, TDM_E_FORMAT, "lacks dtype"},
        {"{\"t\":{\"dtype\":\"U8\"}}", 0, TDM_E_FORMAT, "lacks shape"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[]}}", 1, TDM_E_FORMAT, "lacks data_offsets"},
        {"{\"\":{}}", 0, TDM_E_FORMAT, "empty"},
        {"{\"a\\u0000b\":{}}", 0, TDM_E_FORMAT, "NUL"},
        {ENTRY("\"F4\"", "[2]", "[0,1]"), 1, TDM_E_UNSUPPORTED, "F4"},
        {ENTRY("\"F6_E2M3\"", "[4]", "[0,3]"), 3, TDM_E_UNSUPPORTED, "F6_E2M3"},
        {ENTRY("\"f32\"", "[1]", "[0,4]"), 4, TDM_E_FORMAT, "unknown dtype \"f32\""},
        {ENTRY("7", "[1]", "[0,4]"), 4, TDM_E_FORMAT, "string as dtype"},
        {ENTRY("\"U8\"", "{}", "[0,4]"), 4, TDM_E_FORMAT, "array as shape"},
        {ENTRY("\"U8\"", "[[1]]", "[0,1]"), 1, TDM_E_FORMAT, "whole number in shape"},
        {ENTRY("\"U8\"", "[-1]", "[0,1]"), 1, TDM_E_FORMAT, "\"-1\" is no dimension"},
        {ENTRY("\"U8\"", "[1.0]", "[0,1]"), 1, TDM_E_FORMAT, "\"1.0\" is no dimension"},
        {ENTRY("\"U8\"", "[1e0]", "[0,1]"), 1, TDM_E_FORMAT, "no dimension"},
        {ENTRY("\"U8\"", "[9223372036854775808]", "[0,1]"), 1, TDM_E_FORMAT, "no dimension"},
        {ENTRY("\"U8\"", "[1,1,1,1,1,1]", "[0,1]"), 1, TDM_E_LIMIT, "too many dimensions"},
        {ENTRY("\"U8\"", "[1]", "[0]"), 1, TDM_E_FORMAT, "end of data_offsets"},
        {ENTRY("\"U8\"", "[1]", "[0,1,2]"), 1, TDM_E_FORMAT, "third number"},
        {ENTRY("\"U8\"", "[1]", "[1,0]"), 1, TDM_E_FORMAT, "end before it"},
        {ENTRY("\"U8\"", "[2]", "[0,1]"), 1, TDM_E_FORMAT, "span 1 bytes"},
        {ENTRY("\"U8\"", "[2]", "[0,2]"), 1, TDM_E_FORMAT, "truncated"},
        {ENTRY("\"F64\"", "[4611686018427387904,4]", "[0,0]"), 0, TDM_E_FORMAT, "overflows"},
        {ENTRY("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, TDM_E_FORMAT, "overflows"},
        {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, TDM_E_FORMAT, "\"dtype\" twice"},
        {"{\"t\":{\"shape\":[],\"shape\":[]}}", 0, TDM_E_FORMAT, "\"shape\" twice"},
        {"{\"t\":{\"data_offsets\":[0,0],\"data_offsets\":[0,0]}}", 0, TDM_E_FORMAT, "twice"},
        {"{\"t\":{\"colour\":1}}", 0, TDM_E_FORMAT, "unknown field \"colour\""},
        {"{\"__metadata__\":{\"a\":1}}", 0, TDM_E_FORMAT, "string in __metadata__"},
        {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, TDM_E_FORMAT, "twice"},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, TDM_E_FORMAT, "twice"},
        {"{\"__metadata__\":[]}", 0, TDM_E_FORMAT, "object as __metadata__"},
        {"{\"t\":{\"dtype\":null}}", 0, TDM_E_FORMAT, "null instead"},
        {"{\"t\":true}", 0, TDM_E_FORMAT, "true instead"},
        {"{} {}", 0, TDM_E_FORMAT, ""},
        {"{\"t\":", 0, TDM_E_FORMAT, ""},
        {"{\"\xff\":1}", 0, TDM_E_FORMAT, ""},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
         3, TDM_E_FORMAT, "share bytes"},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, TDM_E_FORMAT, "one name"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        bytes b = safetensors_of(CASES[i].header, CASES[i].data_bytes);
        tdm_safetensors *file = NULL;
        tdm_error err = {0};
        const tdm_status status = tdm_safetensors_parse(&file, NULL, b.data, b.len, "t", &err);
        if (status != CASES[i].status || strstr(err.what, CASES[i].says) == NULL ||
            err.where[0] == '\0') {
            fail_msg("case %zu %s: %s, \"%s\" at \"%s\"", i, CASES[i].header,
                     tdm_status_name(status), err.what, err.where);
        }
        assert_null(file);
        bytes_free(&b);
    }
}

static void refuses_header_lengths(void **state) {
    static const uint64_t LENGTHS[] = {
        0, 1, 3, (uint64_t)1 << 31, UINT32_MAX, (uint64_t)1 << 63, UINT64_MAX, 104857601};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LENGTHS); i++) {
        bytes b = safetensors_of("{}", 0);
        tdm_safetensors *file = NULL;
        tdm_error err = {0};
        bytes_set(&b, 0, LENGTHS[i], 8);
        assert_int_equal(tdm_safetensors_parse(&file, NULL, b.data, b.len, "t", &err),
                         TDM_E_FORMAT);
        assert_non_null(strstr(err.where, "t: offset 0"));
        bytes_free(&b);
    }
}

static void refuses_short_files_and_pointers(void **state) {
    static const char POINTER[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    tdm_safetensors *file = NULL;
    tdm_error err = {0};
    (void)state;
    for (size_t n = 0; n < 10; n++) {
        bytes b = safetensors_of("{}", 0);
        const tdm_status status =
            tdm_safetensors_parse(&file, NULL, n > 0 ? b.data : NULL, n, "t", &err);
        assert_int_equal(status, TDM_E_FORMAT);
        bytes_free(&b);
    }
    assert_int_equal(
        tdm_safetensors_parse(&file, NULL, (const uint8_t *)POINTER, sizeof POINTER - 1, "t", &err),
        TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "Git LFS"));
}

/* 1 MiB of brackets and a string of 1 MiB with escapes: bounded memory, typed answers. */
static void bombs_cost_little(void **state) {
    static const char *const BOMBS[] = {"[", "{\"a\":", "\\u0041"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(BOMBS); i++) {
        bytes b = {0};
        tdm_alloc_tracker tracker;
        tdm_safetensors *file = NULL;
        bytes_u64(&b, 0);
        bytes_put(&b, i == 2 ? "{\"" : "{\"t\":", i == 2 ? 2 : 5);
        while (b.len < (1 << 20)) {
            bytes_put(&b, BOMBS[i], strlen(BOMBS[i]));
        }
        bytes_set(&b, 0, b.len - 8, 8);
        tdm_alloc_tracker_init(&tracker, NULL);
        assert_int_not_equal(tdm_safetensors_parse(&file, &tracker.alloc, b.data, b.len, "t", NULL),
                             TDM_OK);
        assert_in_range(tracker.peak_bytes, 1, 4 << 20);
        assert_int_equal(tracker.n_live, 0);
        bytes_free(&b);
    }
}

static void every_allocation_may_fail(void **state) {
    bytes b = safetensors_of("{\"__metadata__\":{\"format\":\"p\\u0074\"},"
                             "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
                             "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                             2);
    size_t n = 0;
    (void)state;
    for (n = 1; n < 1000; n++) {
        tdm_alloc_tracker tracker;
        tdm_safetensors *file = NULL;
        tdm_error err = {0};
        tdm_status status = TDM_OK;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        status = tdm_safetensors_parse(&file, &tracker.alloc, b.data, b.len, "t", &err);
        tdm_safetensors_destroy(file);
        assert_int_equal(tracker.n_live, 0);
        assert_int_equal(tracker.live_bytes, 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_null(file);
    }
    assert_in_range(n, 5, 999);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_dtype),
        cmocka_unit_test(reads_scalars_empties_metadata_and_escapes),
        cmocka_unit_test(reports_holes_and_tails),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_header_lengths),
        cmocka_unit_test(refuses_short_files_and_pointers),
        cmocka_unit_test(bombs_cost_little),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
