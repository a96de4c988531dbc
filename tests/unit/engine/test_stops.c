/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop texts: every cutting of a text gives the same output as one push, and that output is the
 * text up to the first stop text in it, found here by a plain search. */
#include "base/random.h"
#include "engine/stops.h"
#include "support/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Where the first stop text begins, by looking at every place; len when there is none. */
static size_t first_stop(const char *text, size_t len, const char *const *stops, size_t n) {
    for (size_t at = 0; at < len; at++) {
        for (size_t i = 0; i < n; i++) {
            size_t stop_len = strlen(stops[i]);
            if (stop_len <= len - at && memcmp(text + at, stops[i], stop_len) == 0) {
                return at;
            }
        }
    }
    return len;
}

static void check(const char *text, size_t len, const char *const *texts, size_t n, uint64_t seed) {
    tdm_stops stops;
    tdm_buf out;
    bool stopped = false;
    size_t at = 0;
    uint32_t draw = 0;
    size_t expected = first_stop(text, len, texts, n);
    assert_int_equal(tdm_stops_init(&stops, NULL, texts, n, NULL), TDM_OK);
    tdm_buf_init(&out, NULL, 0);
    while (at < len && !stopped) {
        size_t piece = 1 + (size_t)(tdm_random_u64(seed, 1, 0, draw++) % 5);
        piece = piece < len - at ? piece : len - at;
        assert_int_equal(tdm_stops_push(&stops, text + at, piece, &out, &stopped), TDM_OK);
        at += piece;
        assert_true(out.len <= expected); /* no part of a stop text ever leaves */
    }
    if (!stopped) {
        assert_int_equal(tdm_stops_finish(&stops, &out, &stopped), TDM_OK);
    }
    assert_int_equal(stopped, expected < len);
    assert_int_equal(out.len, expected);
    assert_memory_equal(out.len > 0 ? out.data : "", text, expected);
    tdm_buf_deinit(&out);
    tdm_stops_deinit(&stops);
}

static void test_any_cutting_equals_a_plain_search(void **state) {
    static const char *const SETS[][3] = {
        {"ab", "aab", "bb"}, {"abcd", "bc", "d"}, {"aaa", "ba", "cc"}, {"###", "abc", "a"}};
    (void)state;
    for (uint64_t seed = 0; seed < 4000; seed++) {
        char text[40];
        size_t len = (size_t)(tdm_random_u64(seed, 2, 0, 0) % sizeof text);
        for (size_t i = 0; i < len; i++) {
            text[i] = "abcd#"[tdm_random_u64(seed, 3, 0, (uint32_t)i) % 5];
        }
        check(text, len, SETS[seed % SUPPORT_LEN(SETS)], 1 + seed / 7 % 3, seed);
    }
}

static void test_no_stops_hold_nothing(void **state) {
    tdm_stops stops;
    tdm_buf out;
    bool stopped = true;
    (void)state;
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_stops_init(&stops, NULL, NULL, 0, NULL), TDM_OK);
    assert_int_equal(tdm_stops_push(&stops, "abc", 3, &out, &stopped), TDM_OK);
    assert_int_equal(out.len, 3);
    assert_false(stopped);
    tdm_stops_deinit(&stops);
    tdm_buf_deinit(&out);
}

static void test_limits(void **state) {
    tdm_stops stops;
    tdm_error err;
    const char *many[TDM_STOP_MAX + 1];
    char longest[TDM_STOP_BYTES_MAX + 2];
    const char *one[1] = {longest};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(many); i++) {
        many[i] = "x";
    }
    assert_int_equal(tdm_stops_init(&stops, NULL, many, TDM_STOP_MAX, &err), TDM_OK);
    tdm_stops_deinit(&stops);
    assert_int_equal(tdm_stops_init(&stops, NULL, many, TDM_STOP_MAX + 1, &err), TDM_E_ARG);
    assert_string_equal(err.where, "stop");
    tdm_stops_deinit(&stops);
    memset(longest, 'x', sizeof longest);
    longest[TDM_STOP_BYTES_MAX] = '\0';
    assert_int_equal(tdm_stops_init(&stops, NULL, one, 1, &err), TDM_OK);
    tdm_stops_deinit(&stops);
    longest[TDM_STOP_BYTES_MAX] = 'x';
    longest[TDM_STOP_BYTES_MAX + 1] = '\0';
    assert_int_equal(tdm_stops_init(&stops, NULL, one, 1, &err), TDM_E_ARG);
    tdm_stops_deinit(&stops);
    longest[0] = '\0';
    assert_int_equal(tdm_stops_init(&stops, NULL, one, 1, &err), TDM_E_ARG);
    tdm_stops_deinit(&stops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cutting_equals_a_plain_search),
        cmocka_unit_test(test_no_stops_hold_nothing),
        cmocka_unit_test(test_limits),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
