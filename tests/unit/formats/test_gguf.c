/* SPDX-License-Identifier: Apache-2.0
 *
 * The GGUF parser on files made here: what is read, what is refused and in which words, memory that
 * runs out, truncation at every byte. */
#include "formats/gguf.h"

#include "support/support.h"
#include "unit/formats/bytes.h"

static tdm_gguf *must_parse(const bytes *b) {
    tdm_gguf *gguf = NULL;
    tdm_error err = {0};
    if (tdm_gguf_parse(&gguf, NULL, b->data, b->len, "t.gguf", &err) != TDM_OK) {
        fail_msg("%s at %s", err.what, err.where);
    }
    return gguf;
}

static void refuse(const bytes *b, tdm_status status, const char *says) {
    tdm_gguf *gguf = NULL;
    tdm_error err = {0};
    const tdm_status got = tdm_gguf_parse(&gguf, NULL, b->data, b->len, "t.gguf", &err);
    if (got != status || strstr(err.what, says) == NULL || strstr(err.where, "t.gguf") == NULL) {
        fail_msg("wanted %s with \"%s\": %s, \"%s\" at \"%s\"", tdm_status_name(status), says,
                 tdm_status_name(got), err.what, err.where);
    }
    assert_null(gguf);
}

static void reads_the_small_file(void **state) {
    bytes b = gguf_small();
    tdm_gguf *gguf = must_parse(&b);
    const tdm_tensor_view *view = NULL;
    tdm_gguf_type type = TDM_GGUF_U8;
    tdm_gguf_text text = {0};
    uint64_t n = 0;
    size_t idx = 0;
    static const size_t ORDER[] = {2, 2, 1, 0, 2, 1};
    static const size_t LENS[] = {1, 0, 2};
    tdm_gguf_array_ref ref;
    (void)state;
    assert_int_equal(tdm_gguf_version(gguf), 3);
    assert_string_equal(tdm_gguf_architecture(gguf), "llama");
    assert_int_equal(tdm_gguf_n_keys(gguf), 3);
    assert_string_equal(tdm_gguf_key_at(gguf, 2, &type), "tokens");
    assert_int_equal(type, TDM_GGUF_ARRAY);
    assert_true(tdm_gguf_get_u64(gguf, "llama.block_count", &n));
    assert_int_equal(n, 7);
    assert_true(tdm_gguf_array_text(gguf, "tokens", 2, &text));
    assert_int_equal(text.len, 2);
    assert_memory_equal(text.data, "yz", 2);
    assert_true(tdm_gguf_array_text(gguf, "tokens", 1, &text));
    assert_int_equal(text.len, 0);
    assert_false(tdm_gguf_array_text(gguf, "tokens", 3, &text));
    assert_true(tdm_gguf_array_find(gguf, "tokens", &ref));
    for (size_t i = 0; i < SUPPORT_LEN(ORDER); i++) { /* a walk that skips, stays and goes back */
        assert_true(tdm_gguf_ref_text(&ref, ORDER[i], &text));
        assert_int_equal(text.len, LENS[ORDER[i]]);
    }
    assert_false(tdm_gguf_ref_text(&ref, 3, &text));
    assert_int_equal(tdm_gguf_n_tensors(gguf), 2);
    assert_true(tdm_gguf_find_tensor(gguf, "a", &idx));
    view = tdm_gguf_tensor_view(gguf, idx);
    assert_int_equal(view->dtype, TDM_DTYPE_F32);
    assert_int_equal(view->rank, 2);
    assert_int_equal(view->dims[0], 8); /* the file lists the fastest, 2, first */
    assert_int_equal(view->dims[1], 2);
    assert_int_equal(view->bytes, 64);
    assert_ptr_equal(view->data, b.data + tdm_gguf_tensor_offset(gguf, idx));
    assert_int_equal(((const uint8_t *)view->data)[63], 1);
    view = tdm_gguf_tensor_view(gguf, 1);
    assert_int_equal(view->dtype, TDM_DTYPE_Q8_0);
    assert_int_equal(view->bytes, 34);
    assert_int_equal(((const uint8_t *)view->data)[0], 2);
    assert_false(tdm_gguf_find_tensor(gguf, "c", &idx));
    assert_int_equal(tdm_gguf_gaps_of(gguf).hole_bytes, 0);
    assert_int_equal(tdm_gguf_gaps_of(gguf).trailing_bytes, 0);
    tdm_gguf_destroy(gguf);
    tdm_gguf_destroy(NULL);
    bytes_free(&b);
}

/* One key of each scalar type with the value -1 (all bits set), or 1.5 for floats. */
static bytes every_scalar(void) {
    static const uint32_t WIDTHS[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    bytes b = {0};
    gguf_head(&b, 0, 12);
    for (uint32_t type = 0; type < 13; type++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%u", type);
        if (type == 9) {
            continue;
        }
        gguf_key(&b, key, type);
        if (type == 8) {
            gguf_text(&b, "-1");
        } else if (type == 6) {
            bytes_f32(&b, 1.5F);
        } else if (type == 12) {
            const double value = 1.5;
            bytes_put(&b, &value, sizeof value);
        } else {
            bytes_fill(&b, 0xff, WIDTHS[type]);
        }
    }
    return b;
}

static void getters_answer_for_their_type_only(void **state) {
    static const uint64_t U64[] = {0xff, 0, 0xffff, 0, 0xffffffff, 0, 0, 0, 0, 0, UINT64_MAX, 0, 0};
    bytes b = every_scalar();
    tdm_gguf *gguf = must_parse(&b);
    (void)state;
    for (uint32_t type = 0; type < 13; type++) {
        char key[8];
        uint64_t u = 1;
        int64_t i = 1;
        double f = 9.0;
        bool is_set = false;
        tdm_gguf_text text;
        const bool is_unsigned = type == 0 || type == 2 || type == 4 || type == 10;
        const bool is_signed = type == 1 || type == 3 || type == 5 || type == 11;
        (void)snprintf(key, sizeof key, "k%u", type);
        assert_int_equal(tdm_gguf_has(gguf, key), type != 9);
        assert_int_equal(tdm_gguf_get_u64(gguf, key, &u), is_unsigned);
        assert_true(u == (is_unsigned ? U64[type] : 1));
        assert_int_equal(tdm_gguf_get_i64(gguf, key, &i), is_signed || (is_unsigned && type < 10));
        assert_true(i == (is_signed ? -1 : is_unsigned && type < 10 ? (int64_t)U64[type] : 1));
        assert_int_equal(tdm_gguf_get_f64(gguf, key, &f), type == 6 || type == 12);
        assert_true(f == (type == 6 || type == 12 ? 1.5 : 9.0));
        assert_int_equal(tdm_gguf_get_bool(gguf, key, &is_set), type == 7);
        assert_int_equal(is_set, type == 7); /* a byte of 255 is true */
        assert_int_equal(tdm_gguf_get_text(gguf, key, &text), type == 8);
    }
    assert_null(tdm_gguf_architecture(gguf));
    tdm_gguf_destroy(gguf);
    bytes_free(&b);
}

static void not_finite_floats_are_no_values(void **state) {
    bytes b = {0};
    tdm_gguf *gguf = NULL;
    double f = 2.0;
    (void)state;
    gguf_head(&b, 0, 2);
    gguf_key(&b, "nan", 6);
    bytes_u32(&b, 0x7fc00000);
    gguf_key(&b, "inf", 12);
    bytes_u64(&b, 0x7ff0000000000000);
    gguf = must_parse(&b);
    assert_false(tdm_gguf_get_f64(gguf, "nan", &f));
    assert_false(tdm_gguf_get_f64(gguf, "inf", &f));
    tdm_gguf_destroy(gguf);
    bytes_free(&b);
}

static void arrays_are_read_with_their_own_width(void **state) {
    bytes b = {0};
    tdm_gguf *gguf = NULL;
    tdm_gguf_array_ref ref;
    tdm_gguf_type type = TDM_GGUF_F64;
    size_t n = 0;
    int64_t i = 0;
    double f = 0.0;
    tdm_gguf_text text;
    (void)state;
    gguf_head(&b, 0, 4);
    gguf_key(&b, "bytes", 9); /* i8 */
    bytes_u32(&b, 1);
    bytes_u64(&b, 3);
    bytes_put(&b, "\x01\xff\x7f", 3);
    gguf_key(&b, "floats", 9);
    bytes_u32(&b, 6);
    bytes_u64(&b, 2);
    bytes_f32(&b, 0.25F);
    bytes_f32(&b, -4.0F);
    gguf_key(&b, "bools", 9);
    bytes_u32(&b, 7);
    bytes_u64(&b, 2);
    bytes_put(&b, "\x00\x02", 2);
    gguf_key(&b, "none", 9);
    bytes_u32(&b, 8);
    bytes_u64(&b, 0);
    gguf = must_parse(&b);
    assert_true(tdm_gguf_array(gguf, "bytes", &type, &n));
    assert_int_equal(type, TDM_GGUF_I8);
    assert_int_equal(n, 3);
    assert_true(tdm_gguf_array_i64(gguf, "bytes", 1, &i));
    assert_int_equal(i, -1);
    assert_true(tdm_gguf_array_i64(gguf, "bytes", 2, &i));
    assert_int_equal(i, 127);
    assert_false(tdm_gguf_array_i64(gguf, "bytes", 3, &i));
    assert_false(tdm_gguf_array_f64(gguf, "bytes", 0, &f));
    assert_false(tdm_gguf_array_text(gguf, "bytes", 0, &text));
    assert_true(tdm_gguf_array_f64(gguf, "floats", 1, &f));
    assert_true(f == -4.0);
    assert_false(tdm_gguf_array_i64(gguf, "floats", 0, &i));
    assert_true(tdm_gguf_array_find(gguf, "bools", &ref));
    assert_true(tdm_gguf_ref_i64(&ref, 0, &i));
    assert_int_equal(i, 0);
    assert_true(tdm_gguf_ref_i64(&ref, 1, &i));
    assert_int_equal(i, 1);
    assert_true(tdm_gguf_array_find(gguf, "none", &ref));
    assert_int_equal(ref.n, 0);
    assert_false(tdm_gguf_array_find(gguf, "absent", &ref));
    tdm_gguf_destroy(gguf);
    bytes_free(&b);
}

/* An array inside an array ... levels deep, with one number at the bottom. */
static bytes nested(size_t levels) {
    bytes b = {0};
    gguf_head(&b, 0, 1);
    gguf_key(&b, "n", 9);
    for (size_t i = 1; i < levels; i++) {
        bytes_u32(&b, 9);
        bytes_u64(&b, 1);
    }
    bytes_u32(&b, 0);
    bytes_u64(&b, 1);
    bytes_fill(&b, 3, 1);
    return b;
}

static void nesting_has_a_limit(void **state) {
    (void)state;
    for (size_t levels = 1; levels <= 9; levels++) {
        bytes b = nested(levels);
        if (levels <= 4) {
            tdm_gguf_destroy(must_parse(&b));
        } else {
            refuse(&b, TDM_E_LIMIT, "nested too deep");
        }
        bytes_free(&b);
    }
}

static void truncation_is_always_an_answer(void **state) {
    bytes b = gguf_small();
    (void)state;
    for (size_t n = 0; n < b.len; n++) {
        tdm_gguf *gguf = NULL;
        tdm_error err = {0};
        uint8_t *exact = malloc(n > 0 ? n : 1); /* so that ASan sees a read past the end */
        tdm_status status = TDM_OK;
        memcpy(exact, b.data, n);
        status = tdm_gguf_parse(&gguf, NULL, exact, n, "t.gguf", &err);
        /* The last 30 bytes are padding, which may be missing. */
        assert_int_equal(status, n >= b.len - 30 ? TDM_OK : TDM_E_FORMAT);
        tdm_gguf_destroy(gguf);
        free(exact);
    }
    bytes_free(&b);
}

static void refuses_heads(void **state) {
    static const struct {
        size_t at, width;
        uint64_t value;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {0, 4, 0x67676a74, TDM_E_UNSUPPORTED, "format before GGUF"}, /* "tjgg" */
        {0, 4, 0x4c4d4747, TDM_E_UNSUPPORTED, "format before GGUF"}, /* "GGML" */
        {0, 4, 0x04034b50, TDM_E_FORMAT, "not GGUF"},
        {4, 4, 1, TDM_E_UNSUPPORTED, "version 1"},
        {4, 4, 4, TDM_E_UNSUPPORTED, "version 4"},
        {4, 4, 0, TDM_E_UNSUPPORTED, "version 0"},
        {4, 4, 0x03000000, TDM_E_UNSUPPORTED, "big-endian"},
        {8, 8, 1048577, TDM_E_LIMIT, "tensor count"},
        {8, 8, UINT64_MAX, TDM_E_LIMIT, "tensor count"},
        {8, 8, 50, TDM_E_FORMAT, "tensor count"},
        {16, 8, 65537, TDM_E_LIMIT, "key count"},
        {16, 8, (uint64_t)1 << 63, TDM_E_LIMIT, "key count"},
        {16, 8, 1000, TDM_E_FORMAT, "key count"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        bytes b = gguf_small();
        bytes_set(&b, CASES[i].at, CASES[i].value, CASES[i].width);
        refuse(&b, CASES[i].status, CASES[i].says);
        bytes_free(&b);
    }
}

static void refuses_keys_and_values(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        bytes b = {0};
        const char *says = "";
        tdm_status status = TDM_E_FORMAT;
        gguf_head(&b, 0, i == 3 ? 2 : 1);
        switch (i) {
        case 0:
            gguf_kv_u32(&b, "", 1);
            says = "key 0 is empty";
            break;
        case 1:
            gguf_kv_u32(&b, "a\xff", 1);
            says = "not plain UTF-8";
            break;
        case 2:
            bytes_u64(&b, 3);
            bytes_put(&b, "a\0b", 3);
            bytes_u32(&b, 4);
            bytes_u32(&b, 1);
            says = "not plain UTF-8";
            break;
        case 3:
            gguf_kv_u32(&b, "same", 1);
            gguf_kv_f32(&b, "same", 1.0F);
            says = "occurs twice";
            break;
        case 4:
            gguf_key(&b, "k", 13);
            bytes_fill(&b, 0, 64);
            says = "unknown GGUF value type 13";
            break;
        case 5:
            gguf_key(&b, "k", 8);
            bytes_u64(&b, (uint64_t)1 << 63);
            says = "ends inside a string";
            break;
        case 6:
            gguf_key(&b, "k", 9);
            bytes_u32(&b, 12);
            bytes_u64(&b, (uint64_t)1 << 61);
            says = "ends inside an array";
            break;
        case 7:
            gguf_key(&b, "k", 9);
            bytes_u32(&b, 8);
            bytes_u64(&b, UINT64_MAX);
            gguf_text(&b, "only one");
            says = "ends inside a string of an array";
            break;
        default:
            bytes_u64(&b, 65536);
            bytes_fill(&b, 'k', 65536);
            bytes_u32(&b, 0);
            bytes_fill(&b, 0, 1);
            says = "metadata key is 65536 bytes";
            status = TDM_E_LIMIT;
            break;
        }
        refuse(&b, status, says);
        bytes_free(&b);
    }
}

static void refuses_tensors(void **state) {
    static const struct {
        const char *name;
        uint64_t ne0, ne1, offset;
        uint32_t type;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {"a", 32, 1, 0, 4, TDM_E_UNSUPPORTED, "type 4 was removed"},
        {"a", 32, 1, 0, 33, TDM_E_UNSUPPORTED, "type 33 was removed"},
        {"a", 32, 1, 0, 200, TDM_E_UNSUPPORTED, "unknown tensor type 200"},
        {"a", 31, 1, 0, 8, TDM_E_FORMAT, "no whole Q8_0 blocks"},
        {"a", 0, 1, 0, 0, TDM_E_FORMAT, "dimension of 0"},
        {"a", (uint64_t)1 << 63, 1, 0, 0, TDM_E_FORMAT, "dimension of 9223372036854775808"},
        {"a", (uint64_t)1 << 40, (uint64_t)1 << 40, 0, 0, TDM_E_FORMAT, "overflows"},
        {"a", (uint64_t)1 << 62, 1, 0, 0, TDM_E_FORMAT, "overflows"},
        {"a", 64, 1, 4, 0, TDM_E_FORMAT, "not aligned to 32"},
        {"a", 1024, 1, 0, 0, TDM_E_FORMAT, "past the end"},
        {"a", 8, 1, UINT64_MAX - 31, 0, TDM_E_FORMAT, "past the end"},
        {"", 8, 1, 0, 0, TDM_E_FORMAT, "empty"},
        {"0123456789012345678901234567890123456789012345678901234567890123", 8, 1, 0, 0,
         TDM_E_LIMIT, "64 bytes"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        bytes b = {0};
        gguf_head(&b, 1, 0);
        gguf_tensor(&b, CASES[i].name, CASES[i].ne0, CASES[i].ne1, CASES[i].type, CASES[i].offset);
        bytes_pad(&b, 32);
        bytes_fill(&b, 0, 256);
        refuse(&b, CASES[i].status, CASES[i].says);
        bytes_free(&b);
    }
}

static void refuses_overlaps_twins_and_ranks(void **state) {
    bytes b = {0};
    (void)state;
    gguf_head(&b, 2, 0);
    gguf_tensor(&b, "a", 16, 0, 0, 0);
    gguf_tensor(&b, "b", 16, 0, 0, 32);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 128);
    refuse(&b, TDM_E_FORMAT, "shares bytes with \"a\"");
    bytes_free(&b);
    gguf_head(&b, 2, 0);
    gguf_tensor(&b, "a", 8, 0, 0, 0);
    gguf_tensor(&b, "a", 8, 0, 0, 32);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 64);
    refuse(&b, TDM_E_FORMAT, "tensor name occurs twice");
    bytes_free(&b);
    for (uint32_t rank = 0; rank <= 5; rank += 5) {
        gguf_head(&b, 1, 0);
        gguf_text(&b, "a");
        bytes_u32(&b, rank);
        for (uint32_t i = 0; i < rank; i++) {
            bytes_u64(&b, 1);
        }
        bytes_u32(&b, 0);
        bytes_u64(&b, 0);
        bytes_fill(&b, 0, 64);
        refuse(&b, TDM_E_FORMAT, rank == 0 ? "0 dimensions" : "5 dimensions");
        bytes_free(&b);
    }
}

static void alignment_is_checked(void **state) {
    static const uint32_t GOOD[] = {8, 16, 32, 64, 65536};
    static const uint32_t BAD[] = {0, 1, 3, 4, 12, 48, 131072, 1U << 30};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(GOOD) + SUPPORT_LEN(BAD); i++) {
        const bool is_good = i < SUPPORT_LEN(GOOD);
        const uint32_t alignment = is_good ? GOOD[i] : BAD[i - SUPPORT_LEN(GOOD)];
        bytes b = {0};
        gguf_head(&b, 1, 1);
        gguf_kv_u32(&b, "general.alignment", alignment);
        gguf_tensor(&b, "a", 1, 0, 0, 0);
        bytes_pad(&b, is_good ? alignment : 32);
        bytes_fill(&b, 9, 4);
        if (is_good) {
            tdm_gguf *gguf = must_parse(&b);
            assert_int_equal(tdm_gguf_tensor_offset(gguf, 0) % alignment, 0);
            assert_int_equal(*(const uint8_t *)tdm_gguf_tensor_view(gguf, 0)->data, 9);
            tdm_gguf_destroy(gguf);
        } else {
            refuse(&b, TDM_E_FORMAT, "general.alignment");
        }
        bytes_free(&b);
    }
}

static void joined_parts_are_named(void **state) {
    bytes b = gguf_small();
    bytes twice = bytes_copy(&b);
    (void)state;
    bytes_put(&twice, b.data, b.len);
    refuse(&twice, TDM_E_FORMAT, "another GGUF file begins");
    bytes_free(&twice);
    twice = bytes_copy(&b);
    twice.len -= 30; /* the first part lost its padding */
    bytes_put(&twice, b.data, b.len);
    refuse(&twice, TDM_E_FORMAT, "another GGUF file begins");
    bytes_free(&twice);
    bytes_free(&b);
}

static void every_allocation_may_fail(void **state) {
    bytes b = gguf_small();
    size_t n = 0;
    (void)state;
    for (n = 1; n < 1000; n++) {
        tdm_alloc_tracker tracker;
        tdm_gguf *gguf = NULL;
        tdm_status status = TDM_OK;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        status = tdm_gguf_parse(&gguf, &tracker.alloc, b.data, b.len, "t.gguf", NULL);
        tdm_gguf_destroy(gguf);
        assert_int_equal(tracker.n_live, 0);
        assert_int_equal(tracker.live_bytes, 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    assert_in_range(n, 5, 999);
    bytes_free(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_the_small_file),
        cmocka_unit_test(getters_answer_for_their_type_only),
        cmocka_unit_test(not_finite_floats_are_no_values),
        cmocka_unit_test(arrays_are_read_with_their_own_width),
        cmocka_unit_test(nesting_has_a_limit),
        cmocka_unit_test(truncation_is_always_an_answer),
        cmocka_unit_test(refuses_heads),
        cmocka_unit_test(refuses_keys_and_values),
        cmocka_unit_test(refuses_tensors),
        cmocka_unit_test(refuses_overlaps_twins_and_ranks),
        cmocka_unit_test(alignment_is_checked),
        cmocka_unit_test(joined_parts_are_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
