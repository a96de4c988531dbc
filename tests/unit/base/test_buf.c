/* SPDX-License-Identifier: Apache-2.0
 *
 * The growing buffer: content, limit, failure leaves it as it was. */
#include "support/support.h"

#include "base/buf.h"

static void test_append(void **state) {
    tdm_alloc_tracker tracker;
    tdm_buf buf;
    char twin[5000];
    size_t len = 0;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_buf_init(&buf, &tracker.alloc, 0);
    assert_null(buf.data);
    assert_int_equal(tdm_buf_append(&buf, NULL, 0), TDM_OK);
    for (size_t i = 0; len + i % 37 + 1 < sizeof twin; i++) {
        char piece[40];
        memset(piece, (int)('a' + i % 26), sizeof piece);
        memcpy(twin + len, piece, i % 37);
        len += i % 37;
        assert_int_equal(tdm_buf_append(&buf, piece, i % 37), TDM_OK);
        if (i % 5 == 0) {
            twin[len++] = '!';
            assert_int_equal(tdm_buf_append_byte(&buf, '!'), TDM_OK);
        }
        assert_int_equal(buf.len, len);
        assert_true(buf.cap >= len);
    }
    assert_memory_equal(buf.data, twin, len);
    twin[len] = '\0';
    assert_string_equal(tdm_buf_text(&buf), twin);
    assert_int_equal(buf.len, len);
    const size_t cap = buf.cap;
    tdm_buf_reset(&buf);
    assert_int_equal(buf.len, 0);
    assert_int_equal(buf.cap, cap);
    assert_string_equal(tdm_buf_text(&buf), "");
    assert_int_equal(tdm_buf_append_text(&buf, "x"), TDM_OK);
    assert_int_equal(tdm_buf_printf(&buf, "%d-%s", 42, "y"), TDM_OK);
    assert_int_equal(tdm_buf_printf(&buf, "%s", ""), TDM_OK);
    assert_string_equal(tdm_buf_text(&buf), "x42-y");
    tdm_buf_deinit(&buf);
    tdm_buf_deinit(&buf); /* twice is legal: it is empty */
    tdm_buf_deinit(NULL);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

/* The text of a buffer whose content fills its memory exactly. */
static void test_text_when_full(void **state) {
    (void)state;
    for (size_t len = 0; len <= 300; len++) {
        tdm_buf buf;
        tdm_buf_init(&buf, NULL, 0);
        for (size_t i = 0; i < len; i++) {
            assert_int_equal(tdm_buf_append_byte(&buf, 'k'), TDM_OK);
        }
        assert_int_equal(strlen(tdm_buf_text(&buf)), len);
        assert_int_equal(tdm_buf_printf(&buf, "%s", "end"), TDM_OK);
        assert_int_equal(buf.len, len + 3);
        assert_string_equal(tdm_buf_text(&buf) + len, "end");
        tdm_buf_deinit(&buf);
    }
}

static void test_limit(void **state) {
    tdm_buf buf;
    (void)state;
    tdm_buf_init(&buf, NULL, 10);
    assert_int_equal(tdm_buf_append_text(&buf, "12345678"), TDM_OK);
    assert_int_equal(tdm_buf_append_text(&buf, "abc"), TDM_E_LIMIT);
    assert_int_equal(tdm_buf_printf(&buf, "%d", 123), TDM_E_LIMIT);
    assert_int_equal(tdm_buf_reserve(&buf, SIZE_MAX), TDM_E_LIMIT);
    assert_string_equal(tdm_buf_text(&buf), "12345678");
    assert_int_equal(tdm_buf_append_text(&buf, "90"), TDM_OK);
    assert_int_equal(tdm_buf_append_byte(&buf, 'x'), TDM_E_LIMIT);
    assert_string_equal(tdm_buf_text(&buf), "1234567890");
    tdm_buf_deinit(&buf);
    tdm_buf_init(&buf, NULL, 0);
    assert_int_equal(tdm_buf_append_text(&buf, "x"), TDM_OK);
    assert_int_equal(tdm_buf_reserve(&buf, SIZE_MAX), TDM_E_LIMIT); /* no such memory at all */
    tdm_buf_deinit(&buf);
}

static void test_nomem(void **state) {
    tdm_alloc_tracker tracker;
    tdm_buf buf;
    char big[1000];
    (void)state;
    memset(big, 'b', sizeof big);
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_buf_init(&buf, &tracker.alloc, 0);
    tracker.fail_at = 1;
    assert_int_equal(tdm_buf_append_text(&buf, "x"), TDM_E_NOMEM);
    assert_int_equal(buf.len, 0);
    assert_int_equal(tdm_buf_append_text(&buf, "keep"), TDM_OK);
    tracker.fail_at = atomic_load(&tracker.n_calls) + 1;
    tracker.is_failing_from_then = true;
    assert_int_equal(tdm_buf_append(&buf, big, sizeof big), TDM_E_NOMEM);
    assert_int_equal(tdm_buf_printf(&buf, "%.*s", 900, big), TDM_E_NOMEM);
    assert_string_equal(tdm_buf_text(&buf), "keep");
    tdm_buf_deinit(&buf);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append),
        cmocka_unit_test(test_text_when_full),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_nomem),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
