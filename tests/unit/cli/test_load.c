/* SPDX-License-Identifier: Apache-2.0
 *
 * The line that a terminal sees while a model is loaded. */
#include "support/support.h"

#include "cli/load.h"

static void expect(const char *want, int32_t done, int32_t all, uint64_t bytes, int64_t ns) {
    char line[128];
    tdm_cli_load_line(line, sizeof line, done, all, bytes, ns);
    assert_string_equal(line, want);
}

static void test_bytes_and_rate(void **state) {
    (void)state;
    expect("\rloading  25%, 300 of 1200 MB, 600 MB/s   ", 4, 16, 1200000000, 500000000);
    expect("\rloading 100%, 1200 of 1200 MB, 400 MB/s   ", 16, 16, 1200000000, 3000000000);
    expect("\rloading   0%, 0 of 253 MB, 0 MB/s   ", 0, 18, 253113024, 301000000);
}

static void test_what_is_unknown_is_left_out(void **state) {
    (void)state;
    expect("\rloading  50%", 8, 16, 0, 500000000);
    expect("\rloading  50%", 8, 16, 1200000000, 0);
    expect("\rloading   0%", 0, 0, 0, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_and_rate),
        cmocka_unit_test(test_what_is_unknown_is_left_out),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
