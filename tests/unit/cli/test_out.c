/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard output: a reader that went away, a full disk, and text that would drive a terminal. */
#include "support/support.h"

#include "cli/out.h"

#include <fcntl.h>
#include <signal.h>

static void test_bytes_arrive(void **state) {
    int ends[2];
    char got[16] = "";
    tdm_out out;
    (void)state;
    assert_int_equal(pipe(ends), 0);
    tdm_out_init(&out, ends[1]);
    assert_false(out.is_terminal);
    assert_int_equal(tdm_out_cstr(&out, "abc", NULL), TDM_OK);
    assert_int_equal(tdm_out_end_line(&out, NULL), TDM_OK);
    assert_int_equal(tdm_out_end_line(&out, NULL), TDM_OK); /* there is one */
    assert_int_equal(tdm_out_text(&out, "\x1b", 1, NULL), TDM_OK);
    assert_int_equal(read(ends[0], got, sizeof got), 5);
    assert_memory_equal(got, "abc\n\x1b", 5);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_reader_went_away(void **state) {
    int ends[2];
    tdm_out out;
    tdm_error err = {.code = TDM_OK};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct sigaction old;
    (void)state;
    (void)sigaction(SIGPIPE, &ignore, &old);
    assert_int_equal(pipe(ends), 0);
    tdm_out_init(&out, ends[1]);
    (void)close(ends[0]);
    assert_int_equal(tdm_out_cstr(&out, "abc", &err), TDM_E_IO);
    assert_true(out.is_closed);
    (void)close(ends[1]);
    (void)sigaction(SIGPIPE, &old, NULL);
}

static void test_full_disk(void **state) {
    tdm_out out;
    tdm_error err = {.code = TDM_OK};
    const int fd = open("/dev/full", O_WRONLY);
    (void)state;
    if (fd < 0) {
        SUPPORT_SKIP("there is no /dev/full");
    }
    tdm_out_init(&out, fd);
    assert_int_equal(tdm_out_cstr(&out, "abc", &err), TDM_E_IO);
    assert_false(out.is_closed);
    assert_non_null(strstr(err.where, "standard output"));
    assert_true(err.what[0] != '\0');
    (void)close(fd);
}

static void test_controls_are_spelled(void **state) {
    static const char IN[] = "a\tb\nc\x1b]0;t\a\x7f\xc2\x9b\xc3\xa9\xff";
    tdm_buf buf;
    (void)state;
    tdm_buf_init(&buf, NULL, 0);
    assert_int_equal(tdm_spell_controls(&buf, IN, sizeof IN - 1), TDM_OK);
    assert_string_equal(tdm_buf_text(&buf), "a\tb\nc\\x1b]0;t\\x07\\x7f\\x9b\xc3\xa9\xff");
    tdm_buf_deinit(&buf);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_arrive),
        cmocka_unit_test(test_reader_went_away),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_controls_are_spelled),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
