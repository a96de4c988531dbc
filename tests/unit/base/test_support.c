/* SPDX-License-Identifier: Apache-2.0
 *
 * The canary: a test that fails makes its program fail, and a skip is what the working agreement
 * says. Without this a broken harness would look like a green build. */
#include "support/support.h"

static void fails(void **state) {
    (void)state;
    assert_int_equal(1, 2);
}

static void passes(void **state) {
    (void)state;
    assert_int_equal(1, 1);
}

static void skips(void **state) {
    (void)state;
    SUPPORT_SKIP("shared data absent: nothing");
}

static void skips_for_isa(void **state) {
    (void)state;
    SUPPORT_SKIP(SUPPORT_REASON_NO_ISA ": amx");
}

typedef struct group {
    struct CMUnitTest tests[2];
    bool is_strict;
} group;

static int run_group(void *arg) {
    group *g = arg;
    *support_n_skipped() = 0;
    if (g->is_strict) {
        (void)setenv("TANDEM_NO_SKIP", "1", 1);
    } else {
        (void)unsetenv("TANDEM_NO_SKIP");
    }
    return support_exit(cmocka_run_group_tests(g->tests, NULL, NULL), 2);
}

static void test_verdicts(void **state) {
    const struct {
        CMUnitTestFunction a;
        CMUnitTestFunction b;
        bool is_strict;
        int exit_code;
    } cases[] = {
        {passes, passes, false, 0},       {passes, fails, false, 1},
        {fails, passes, true, 1},         {skips, passes, false, 0},
        {skips, skips, false, 77},        {skips, fails, false, 1},
        {skips, passes, true, 1},         {skips_for_isa, skips_for_isa, true, 77},
        {skips_for_isa, passes, true, 0},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(cases); i++) {
        group g = {{cmocka_unit_test(NULL), cmocka_unit_test(NULL)}, cases[i].is_strict};
        g.tests[0].name = "a";
        g.tests[0].test_func = cases[i].a;
        g.tests[1].name = "b";
        g.tests[1].test_func = cases[i].b;
        if (support_run_child(run_group, &g) != cases[i].exit_code) {
            fail_msg("verdict of case %zu is wrong", i);
        }
    }
}

static void test_files(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    static char big[300000];
    size_t bytes = 0;
    (void)state;
    memset(big, 'q', sizeof big);
    (void)support_temp_folder(folder);
    for (size_t want = 0; want <= sizeof big; want += want < 2 ? 1 : 65534) {
        support_write_file(support_join(path, folder, "f"), big, want);
        char *data = support_read_file(path, &bytes);
        assert_int_equal(bytes, want);
        assert_memory_equal(data, big, want);
        assert_int_equal(data[want], '\0');
        free(data);
    }
    assert_null(support_try_read_file(folder, &bytes));
    assert_null(support_try_read_file(support_join(path, folder, "none"), &bytes));
    assert_false(support_exists(path));
    support_remove_folder(folder);
    assert_false(support_exists(folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verdicts),
        cmocka_unit_test(test_files),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
