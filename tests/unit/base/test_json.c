/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading JSON: what is a document, what is refused and where, limits, memory. Writing it: escapes,
 * numbers, and a round trip. */
#include "support/support.h"

#include "base/json.h"
#include "base/random.h"

#include <math.h>

static tdm_json_doc *must_parse(const char *text, size_t len) {
    tdm_error err;
    tdm_json_doc *doc = NULL;
    if (tdm_json_parse(&doc, NULL, text, len, NULL, "test", &err) != TDM_OK) {
        fail_msg("%.60s: %s (%s)", text, err.what, err.where);
    }
    return doc;
}

static void test_tree(void **state) {
    const char text[] = " {\"a\" : [1, -2.5e3, true, false, null, \"x\\ny\"], \"b\":{}, "
                        "\"\":{\"deep\":[[],[[]]]}, \"c\":\"\\u0000\\u00e9\\ud83d\\ude00\"}\r\n\t";
    (void)state;
    tdm_json_doc *doc = must_parse(text, strlen(text));
    const tdm_json *root = tdm_json_doc_root(doc);
    assert_true(tdm_json_is(root, TDM_JSON_OBJECT));
    assert_int_equal(tdm_json_len(root), 4);
    assert_string_equal(root->u.items[0].key, "a"); /* order of keys is kept */
    assert_string_equal(root->u.items[1].key, "b");
    assert_string_equal(root->u.items[2].key, "");
    const tdm_json *a = tdm_json_get(root, "a");
    int64_t i = 0;
    double d = 0.0;
    bool b = false;
    assert_int_equal(tdm_json_len(a), 6);
    assert_true(tdm_json_as_i64(&a->u.items[0], &i) && i == 1);
    assert_true(tdm_json_as_f64(&a->u.items[0], &d) && d == 1.0);
    assert_true(tdm_json_as_f64(&a->u.items[1], &d) && d == -2500.0);
    assert_false(tdm_json_as_i64(&a->u.items[1], &i));
    assert_string_equal(a->u.items[1].u.text, "-2.5e3"); /* so is the spelling of numbers */
    assert_true(tdm_json_as_bool(&a->u.items[2], &b) && b);
    assert_true(tdm_json_as_bool(&a->u.items[3], &b) && !b);
    assert_true(tdm_json_is(&a->u.items[4], TDM_JSON_NULL));
    assert_true(tdm_json_text_is(&a->u.items[5], "x\ny"));
    assert_false(tdm_json_text_is(&a->u.items[5], "x\n"));
    assert_null(a->u.items[0].key);
    assert_int_equal(tdm_json_len(tdm_json_get(root, "b")), 0);
    const tdm_json *deep = tdm_json_get(tdm_json_get(root, ""), "deep");
    assert_int_equal(tdm_json_len(deep), 2);
    assert_int_equal(tdm_json_len(&deep->u.items[1]), 1);
    const tdm_json *c = tdm_json_get(root, "c");
    assert_int_equal(c->len, 7);
    assert_memory_equal(c->u.text, "\0\xC3\xA9\xF0\x9F\x98\x80", 8);
    tdm_json_doc_destroy(doc);
    tdm_json_doc_destroy(NULL);
}

static void test_questions_of_absent_nodes(void **state) {
    int64_t i = 0;
    double d = 0.0;
    bool b = false;
    (void)state;
    assert_null(tdm_json_get(NULL, "x"));
    assert_null(tdm_json_get_n(NULL, "x", 1));
    assert_false(tdm_json_is(NULL, TDM_JSON_NULL));
    assert_false(tdm_json_text_is(NULL, ""));
    assert_false(tdm_json_as_i64(NULL, &i));
    assert_false(tdm_json_as_f64(NULL, &d));
    assert_false(tdm_json_as_bool(NULL, &b));
    assert_int_equal(tdm_json_len(NULL), 0);
    tdm_json_doc *doc = must_parse("[1]", 3);
    assert_null(tdm_json_get(tdm_json_doc_root(doc), "x")); /* no object */
    tdm_json_doc_destroy(doc);
    doc = must_parse("\"12\"", 4);
    assert_false(tdm_json_as_i64(tdm_json_doc_root(doc), &i)); /* a string is no number */
    assert_int_equal(tdm_json_len(tdm_json_doc_root(doc)), 0);
    tdm_json_doc_destroy(doc);
}

static void test_keys_with_nul(void **state) {
    const char text[] = "{\"a\\u0000b\":1,\"a\":2,\"a\\u0000c\":3}";
    int64_t i = 0;
    (void)state;
    tdm_json_doc *doc = must_parse(text, strlen(text));
    const tdm_json *root = tdm_json_doc_root(doc);
    assert_true(tdm_json_as_i64(tdm_json_get(root, "a"), &i) && i == 2);
    assert_true(tdm_json_as_i64(tdm_json_get_n(root, "a\0b", 3), &i) && i == 1);
    assert_true(tdm_json_as_i64(tdm_json_get_n(root, "a\0c", 3), &i) && i == 3);
    assert_null(tdm_json_get_n(root, "a\0d", 3));
    tdm_json_doc_destroy(doc);
}

static void test_numbers(void **state) {
    const struct {
        const char *text;
        bool is_i64;
        int64_t i;
        bool is_f64;
        double d;
    } cases[] = {
        {"0", true, 0, true, 0.0},
        {"-0", true, 0, true, 0.0},
        {"9223372036854775807", true, INT64_MAX, true, 0x1p63},
        {"-9223372036854775808", true, INT64_MIN, true, -0x1p63},
        {"9223372036854775808", false, 0, true, 0x1p63},
        {"-9223372036854775809", false, 0, true, -0x1p63},
        {"123456789012345678901234567890", false, 0, true, 123456789012345678901234567890.0},
        {"1e308", false, 0, true, 1e308},
        {"1e309", false, 0, false, 0.0}, /* not finite */
        {"-1e309", false, 0, false, 0.0},
        {"1e-400", false, 0, true, 0.0},
        {"1.0", false, 0, true, 1.0}, /* has a fraction: not an integer */
        {"1E2", false, 0, true, 100.0},
        {"0.1", false, 0, true, 0.1},
    };
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(cases); c++) {
        int64_t i = -7;
        double d = -7.0;
        tdm_json_doc *doc = must_parse(cases[c].text, strlen(cases[c].text));
        const tdm_json *root = tdm_json_doc_root(doc);
        assert_string_equal(root->u.text, cases[c].text);
        assert_int_equal(tdm_json_as_i64(root, &i), cases[c].is_i64);
        assert_true(i == (cases[c].is_i64 ? cases[c].i : -7));
        assert_int_equal(tdm_json_as_f64(root, &d), cases[c].is_f64);
        assert_true(d == (cases[c].is_f64 ? cases[c].d : -7.0));
        tdm_json_doc_destroy(doc);
    }
}

/* Every one is refused as corrupt, with a place. */
static void test_refused(void **state) {
    const char *texts[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{\"a\"}",
        "{\"a\" 1}",
        "{1:2}",
        "{'a':1}",
        "[1 2]",
        "1 2",
        "{} {}",
        "nul",
        "tru",
        "True",
        "None",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "\"",
        "\"abc",
        "\"\\",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u123g\"",
        "\"\\U0041\"",
        "\"\t\"",
        "\"\n\"",
        "\"\x01\"",
        "/*c*/1",
        "// c\n1",
        "1 //c",
        "\xEF\xBB\xBF{}",
        "{\"a\":1,\"a\":2}",
        "[1}",
        "{\"a\":[}]",
        /* no UTF-8: alone, overlong, surrogates, too large, cut off */
        "\"\x80\"",
        "\"\xC0\x80\"",
        "\"\xC1\xBF\"",
        "\"\xE0\x80\x80\"",
        "\"\xE0\x9F\xBF\"",
        "\"\xED\xA0\x80\"",
        "\"\xED\xBF\xBF\"",
        "\"\xF0\x8F\xBF\xBF\"",
        "\"\xF4\x90\x80\x80\"",
        "\"\xF5\x80\x80\x80\"",
        "\"\xFF\"",
        "\"\xE2\x82\"",
        "\"\xF0\x9F\x98",
        "{\"\xC0\x80\":1}",
        /* half a surrogate pair */
        "\"\\ud800\"",
        "\"\\uDFFF\"",
        "\"\\ud83d\\u0041\"",
        "\"\\ud83d\\ud83d\\ude00\"",
        "\"\\ud83d\\\\ude00\"",
        "\"\\ud83dx\"",
        "\"\\ude00\\ud83d\"",
        "\"\\ude00\\ude00\"",
        "{\"\\udc00\":1}",
        "\"\\ud83d\\ude0\"",
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(texts); i++) {
        tdm_error err;
        tdm_alloc_tracker tracker;
        tdm_json_doc *doc = (tdm_json_doc *)(void *)&err; /* a failed parse leaves NULL */
        tdm_alloc_tracker_init(&tracker, NULL);
        tdm_err_clear(&err);
        const tdm_status status = tdm_json_parse(&doc, &tracker.alloc, texts[i], strlen(texts[i]),
                                                 NULL, "some.json", &err);
        if (status != TDM_E_FORMAT) {
            fail_msg("%s gave %s", texts[i], tdm_status_name(status));
        }
        assert_null(doc);
        assert_int_equal(err.code, TDM_E_FORMAT);
        assert_true(err.what[0] != '\0');
        assert_true(strncmp(err.where, "some.json", 9) == 0);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    }
}

static void test_accepted(void **state) {
    const char *texts[] = {"\"\\ud83d\\ude00\"",
                           "\"\\uD83D\\uDE00\"",
                           "\"\\\\ud800\"",
                           "\"\\\\\\\\\"",
                           "\"\\/\\b\\f\\n\\r\\t\"",
                           "\"\x7F\"",
                           "null",
                           " [ ] ",
                           "{\"A\":1,\"a\":2}",
                           "\"\xF4\x8F\xBF\xBF\"",
                           "\"\xED\x9F\xBF\"",
                           "\"\\uFFFF\""};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(texts); i++) {
        tdm_json_doc_destroy(must_parse(texts[i], strlen(texts[i])));
    }
}

static void test_where(void **state) {
    const char text[] = "{\n \"a\": 1,\n \"b\": ?\n}";
    tdm_error err;
    tdm_json_doc *doc = NULL;
    (void)state;
    assert_int_equal(tdm_json_parse(&doc, NULL, text, strlen(text), NULL, "c.json", &err),
                     TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "line 3"));
    assert_non_null(strstr(err.where, "offset 1"));
    assert_true(err.remedy[0] != '\0');
}

static void assert_limit(const char *text, size_t len, const tdm_json_limits *limits) {
    tdm_error err;
    tdm_json_doc *doc = NULL;
    assert_int_equal(tdm_json_parse(&doc, NULL, text, len, limits, "l.json", &err), TDM_E_LIMIT);
    assert_null(doc);
    assert_true(err.limit[0] != '\0');
    assert_true(strncmp(err.where, "l.json", 6) == 0);
}

static void test_limits(void **state) {
    char text[600];
    const tdm_json_limits nodes = {1000, 64, 5};
    const tdm_json_limits bytes = {10, 64, 100};
    tdm_error err;
    tdm_json_doc *doc = NULL;
    (void)state;
    for (uint32_t depth = 1; depth <= 70; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        if (depth <= 64) {
            tdm_json_doc_destroy(must_parse(text, 2 * depth));
        } else {
            assert_limit(text, 2 * depth, NULL);
        }
    }
    assert_int_equal(tdm_json_parse(&doc, NULL, "[1,2,3,4]", 9, &nodes, "n", &err), TDM_OK);
    tdm_json_doc_destroy(doc);
    assert_limit("[1,2,3,4,5]", 11, &nodes);
    assert_limit("[[[[[[]]]]]]", 12, &nodes);
    assert_int_equal(tdm_json_parse(&doc, NULL, "[1,2,3,45]", 10, &bytes, "n", &err), TDM_OK);
    tdm_json_doc_destroy(doc);
    assert_limit("[1,2,3,456]", 11, &bytes);
}

/* Large objects find duplicates by hash; either way the later key is named. */
static void test_many_keys(void **state) {
    (void)state;
    for (int n = 2; n <= 600; n += n < 40 ? 1 : 97) {
        for (int twin = 0; twin <= 1; twin++) {
            tdm_buf buf;
            tdm_json_writer w;
            tdm_error err;
            tdm_json_doc *doc = NULL;
            tdm_buf_init(&buf, NULL, 0);
            tdm_json_writer_init(&w, &buf);
            tdm_json_write_begin_object(&w);
            for (int i = 0; i < n; i++) {
                char key[32];
                (void)snprintf(key, sizeof key, "k%d", twin == 1 && i == n - 1 ? n / 2 - 1 : i);
                tdm_json_write_key(&w, key);
                tdm_json_write_i64(&w, i);
            }
            tdm_json_write_end_object(&w);
            const tdm_status status =
                tdm_json_parse(&doc, NULL, buf.data, buf.len, NULL, "many", &err);
            assert_int_equal(status, twin == 1 ? TDM_E_FORMAT : TDM_OK);
            if (twin == 1) {
                char named[40];
                (void)snprintf(named, sizeof named, "\"k%d\"", n / 2 - 1);
                assert_non_null(strstr(err.what, named));
            } else {
                int64_t value = 0;
                char key[32];
                (void)snprintf(key, sizeof key, "k%d", n - 1);
                assert_true(tdm_json_as_i64(tdm_json_get(tdm_json_doc_root(doc), key), &value));
                assert_int_equal(value, n - 1);
            }
            tdm_json_doc_destroy(doc);
            tdm_buf_deinit(&buf);
        }
    }
}

static void test_every_allocation_fails(void **state) {
    char text[4000] = "{\"big\":[";
    size_t n_failures = 0;
    (void)state;
    for (int i = 0; i < 300; i++) { /* many nodes, keys past the linear search, escapes */
        (void)snprintf(text + strlen(text), 16, "%d,", i);
    }
    (void)snprintf(text + strlen(text), 40, "\"\\u00e9scape\"]");
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text + strlen(text), 24, ",\"k%d\":{}", i);
    }
    (void)snprintf(text + strlen(text), 4, "}");
    for (size_t nth = 1; nth < 500; nth++) {
        tdm_error err;
        tdm_alloc_tracker tracker;
        tdm_json_doc *doc = NULL;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        const tdm_status status =
            tdm_json_parse(&doc, &tracker.alloc, text, strlen(text), NULL, "m", &err);
        tdm_json_doc_destroy(doc);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_int_equal(err.code, TDM_E_NOMEM);
        n_failures++;
    }
    assert_in_range(n_failures, 6, 100);
}

/* A random tree is written, read, and written again to the same bytes. */
static void write_random(tdm_json_writer *w, uint32_t seed, int n_values) {
    int depth = 0;
    bool is_object[8] = {false};
    tdm_json_write_begin_array(w);
    for (int i = 0; i < n_values; i++) {
        const uint64_t r = tdm_random_u64(seed, 0, (uint32_t)i, 0);
        char text[12];
        size_t len = (size_t)(r % 10);
        for (size_t k = 0; k < len; k++) {
            text[k] = (char)(tdm_random_u64(seed, 1, (uint32_t)i, (uint32_t)k) % 128);
        }
        if (is_object[depth]) {
            char key[32];
            (void)snprintf(key, sizeof key, "key \"%d\"\\\n", i);
            tdm_json_write_key(w, key);
        }
        switch (r / 10 % 9) {
        case 0:
            tdm_json_write_null(w);
            break;
        case 1:
            tdm_json_write_bool(w, r % 2 == 0);
            break;
        case 2:
            tdm_json_write_i64(w, (int64_t)tdm_random_u64(seed, 2, (uint32_t)i, 0));
            break;
        case 3:
            tdm_json_write_u64(w, tdm_random_u64(seed, 2, (uint32_t)i, 1));
            break;
        case 4:
            tdm_json_write_f64(w, ldexp((double)r, (int)(r % 200) - 130), 17);
            break;
        case 5:
        case 6:
            tdm_json_write_text(w, text, len);
            break;
        case 7:
            if (depth < 7) {
                is_object[++depth] = r % 3 == 0;
                if (is_object[depth]) {
                    tdm_json_write_begin_object(w);
                } else {
                    tdm_json_write_begin_array(w);
                }
                break;
            }
            tdm_json_write_cstr(w, "deep");
            break;
        default:
            tdm_json_write_i64(w, -i);
            if (depth > 0) {
                if (is_object[depth--]) {
                    tdm_json_write_end_object(w);
                } else {
                    tdm_json_write_end_array(w);
                }
            }
            break;
        }
    }
    while (depth > 0) {
        if (is_object[depth--]) {
            tdm_json_write_end_object(w);
        } else {
            tdm_json_write_end_array(w);
        }
    }
    tdm_json_write_end_array(w);
}

/* Writes one node; its container is walked with an explicit stack. */
static void write_tree(tdm_json_writer *w, const tdm_json *root) {
    const tdm_json *nodes[16];
    uint32_t next[16] = {0};
    int depth = 0;
    nodes[0] = root;
    tdm_json_write_begin_array(w);
    while (depth >= 0) {
        const tdm_json *top = nodes[depth];
        if (next[depth] == top->len) {
            if (top->kind == TDM_JSON_OBJECT) {
                tdm_json_write_end_object(w);
            } else {
                tdm_json_write_end_array(w);
            }
            depth--;
            continue;
        }
        const tdm_json *item = &top->u.items[next[depth]++];
        int64_t i = 0;
        double d = 0.0;
        if (item->key != NULL) {
            tdm_json_write_key(w, item->key);
        }
        switch (item->kind) {
        case TDM_JSON_NULL:
            tdm_json_write_null(w);
            break;
        case TDM_JSON_BOOL:
            tdm_json_write_bool(w, item->boolean);
            break;
        case TDM_JSON_INT:
            if (tdm_json_as_i64(item, &i)) {
                tdm_json_write_i64(w, i);
            } else {
                tdm_json_write_u64(w, strtoull(item->u.text, NULL, 10));
            }
            break;
        case TDM_JSON_REAL:
            assert_true(tdm_json_as_f64(item, &d));
            tdm_json_write_f64(w, d, 17);
            break;
        case TDM_JSON_STRING:
            tdm_json_write_text(w, item->u.text, item->len);
            break;
        case TDM_JSON_ARRAY:
        case TDM_JSON_OBJECT:
        default:
            if (item->kind == TDM_JSON_OBJECT) {
                tdm_json_write_begin_object(w);
            } else {
                tdm_json_write_begin_array(w);
            }
            nodes[++depth] = item;
            next[depth] = 0;
            break;
        }
    }
}

static void test_round_trip(void **state) {
    (void)state;
    for (uint32_t seed = 0; seed < 200; seed++) {
        tdm_buf first;
        tdm_buf second;
        tdm_json_writer w;
        tdm_buf_init(&first, NULL, 0);
        tdm_buf_init(&second, NULL, 0);
        tdm_json_writer_init(&w, &first);
        write_random(&w, seed, 60);
        assert_int_equal(tdm_json_writer_status(&w), TDM_OK);
        assert_int_equal(w.depth, 0);
        tdm_json_doc *doc = must_parse(first.data, first.len);
        tdm_json_writer_init(&w, &second);
        write_tree(&w, tdm_json_doc_root(doc));
        assert_int_equal(second.len, first.len);
        assert_memory_equal(second.data, first.data, first.len);
        tdm_json_doc_destroy(doc);
        tdm_buf_deinit(&first);
        tdm_buf_deinit(&second);
    }
}

static void assert_written(void (*write)(tdm_json_writer *w), const char *want) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_buf_init(&buf, NULL, 0);
    tdm_json_writer_init(&w, &buf);
    write(&w);
    assert_int_equal(tdm_json_writer_status(&w), TDM_OK);
    assert_string_equal(tdm_buf_text(&buf), want);
    tdm_buf_deinit(&buf);
}

static void write_escapes(tdm_json_writer *w) {
    tdm_json_write_text(w, "\"\\/\b\f\n\r\t\x01\x1f\x7f\0z", 13);
}

static void write_broken(tdm_json_writer *w) {
    tdm_json_write_begin_array(w);
    tdm_json_write_cstr(w, "a\xFF\xE2\x82\xC3\xA9");
    tdm_json_write_cstr(w, "\xE2\x82");
    tdm_json_write_text(w, "", 0);
    tdm_json_write_end_array(w);
}

static void write_numbers(tdm_json_writer *w) {
    tdm_json_write_begin_array(w);
    tdm_json_write_f64(w, 0.1, 17);
    tdm_json_write_f64(w, 0.1, 6);
    tdm_json_write_f64(w, 1.0 / 3.0, 3);
    tdm_json_write_f64(w, 1e300, 6);
    tdm_json_write_f64(w, (double)NAN, 6);
    tdm_json_write_f64(w, (double)-INFINITY, 6);
    tdm_json_write_i64(w, INT64_MIN);
    tdm_json_write_u64(w, UINT64_MAX);
    tdm_json_write_end_array(w);
}

static void write_empty(tdm_json_writer *w) {
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "a");
    tdm_json_write_begin_array(w);
    tdm_json_write_end_array(w);
    tdm_json_write_key(w, "b");
    tdm_json_write_begin_object(w);
    tdm_json_write_end_object(w);
    tdm_json_write_key(w, "c");
    tdm_json_write_bool(w, true);
    tdm_json_write_end_object(w);
}

static void test_written(void **state) {
    (void)state;
    assert_written(write_escapes, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u0000z\"");
    assert_written(write_broken, "[\"a\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9\",\"\xEF\xBF\xBD\",\"\"]");
    assert_written(write_numbers, "[0.10000000000000001,0.1,0.333,1e+300,null,null,"
                                  "-9223372036854775808,18446744073709551615]");
    assert_written(write_empty, "{\"a\":[],\"b\":{},\"c\":true}");
}

/* The first failure is kept and nothing more is written. */
static void test_writer_keeps_failure(void **state) {
    tdm_buf buf;
    tdm_json_writer w;
    (void)state;
    tdm_buf_init(&buf, NULL, 8);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_array(&w);
    tdm_json_write_cstr(&w, "far too long");
    tdm_json_write_i64(&w, 1);
    tdm_json_write_end_array(&w);
    assert_int_equal(tdm_json_writer_status(&w), TDM_E_LIMIT);
    assert_true(buf.len <= 8);
    assert_null(strchr(tdm_buf_text(&buf), ']'));
    tdm_buf_deinit(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_questions_of_absent_nodes),
        cmocka_unit_test(test_keys_with_nul),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_where),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_writer_keeps_failure),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
