/* SPDX-License-Identifier: Apache-2.0
 *
 * The log: level, cut at 511 bytes, NULL drops everything. */
#include "support/support.h"

#include "base/log.h"

typedef struct sink {
    int n;
    tdm_log_level level;
    char text[600];
} sink;

static void take(void *ctx, tdm_log_level level, const char *text) {
    sink *s = ctx;
    s->n++;
    s->level = level;
    (void)snprintf(s->text, sizeof s->text, "%s", text);
}

static void test_log(void **state) {
    char big[1000];
    sink s = {0};
    const tdm_log log = {&s, TDM_LOG_INFO, take};
    const tdm_log no_sink = {&s, TDM_LOG_DEBUG, NULL};
    (void)state;
    tdm_log_printf(&log, TDM_LOG_DEBUG, "%d", 1);
    assert_int_equal(s.n, 0);
    tdm_log_printf(&log, TDM_LOG_INFO, "%d of %s", 1, "x");
    assert_int_equal(s.n, 1);
    assert_string_equal(s.text, "1 of x");
    tdm_log_printf(&log, TDM_LOG_WARN, "w");
    assert_int_equal(s.level, TDM_LOG_WARN);
    memset(big, 'b', sizeof big);
    big[sizeof big - 1] = '\0';
    tdm_log_printf(&log, TDM_LOG_WARN, "%s", big);
    assert_int_equal(strlen(s.text), 511);
    tdm_log_printf(NULL, TDM_LOG_WARN, "w");
    tdm_log_printf(&no_sink, TDM_LOG_WARN, "w");
    assert_int_equal(s.n, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log)};
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
