/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread team: every member runs once a run, what one run wrote the next one sees, sleepers
 * wake, and a team that cannot be made leaves nothing behind. Run it under TSan too. */
#include "support/support.h"

#include "base/clock.h"
#include "base/thread.h"

typedef struct job {
    int64_t count[8]; /* plain memory: each member its own, read by all in the next run */
    int64_t seen_total[8];
    int32_t n;
} job;

static void work(void *arg, int32_t idx, int32_t n) {
    job *j = arg;
    assert_int_equal(n, j->n);
    j->count[idx]++;
}

/* Reads what the others wrote in the run before. */
static void look(void *arg, int32_t idx, int32_t n) {
    job *j = arg;
    int64_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        total += j->count[i];
    }
    j->seen_total[idx] = total;
}

static void run_team(int32_t n, int n_runs, bool with_pauses) {
    tdm_error err;
    tdm_team *team = NULL;
    job j = {.n = n};
    const tdm_clock *clock = tdm_clock_system();
    assert_int_equal(tdm_team_create(&team, NULL, n, &err), TDM_OK);
    assert_int_equal(tdm_team_size(team), n);
    for (int run = 1; run <= n_runs; run++) {
        tdm_team_run(team, work, &j);
        for (int32_t i = 0; i < n; i++) { /* all are back when run returns */
            assert_int_equal(j.count[i], run);
        }
        if (run % 10 == 0) {
            tdm_team_run(team, look, &j);
            for (int32_t i = 0; i < n; i++) {
                assert_int_equal(j.seen_total[i], (int64_t)run * n);
            }
        }
        if (with_pauses) { /* long enough that workers fall asleep */
            clock->sleep_ns(clock->ctx, 3000000);
        }
    }
    assert_int_equal(tdm_team_n_runs(team), n_runs + n_runs / 10);
    tdm_team_destroy(team);
}

static void test_every_size(void **state) {
    (void)state;
    for (int32_t n = 1; n <= 8; n++) {
        run_team(n, n <= 2 ? 1000 : 30, false);
    }
}

static void test_many_runs(void **state) {
    (void)state;
    run_team(1, 100000, false);
    run_team(2, 100000, false);
}

static void test_sleepers_wake(void **state) {
    (void)state;
    run_team(2, 15, true);
    run_team(5, 10, true);
}

/* Made and destroyed at once, and after one run: no worker is left running or lost. */
static void test_short_lives(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        tdm_error err;
        tdm_team *team = NULL;
        job j = {.n = 4};
        assert_int_equal(tdm_team_create(&team, NULL, 4, &err), TDM_OK);
        if (i % 2 == 0) {
            tdm_team_run(team, work, &j);
            assert_int_equal(j.count[3], 1);
        }
        tdm_team_destroy(team);
    }
    tdm_team_destroy(NULL);
}

static void test_refused(void **state) {
    const int32_t bad[] = {0, -1, 257, INT32_MIN};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(bad); i++) {
        tdm_error err;
        tdm_team *team = (tdm_team *)(void *)&err;
        assert_int_equal(tdm_team_create(&team, NULL, bad[i], &err), TDM_E_ARG);
        assert_null(team);
        assert_true(err.limit[0] != '\0');
    }
    for (size_t nth = 1;; nth++) {
        tdm_error err;
        tdm_team *team = NULL;
        tdm_alloc_tracker tracker;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        const tdm_status status = tdm_team_create(&team, &tracker.alloc, 3, &err);
        tdm_team_destroy(team);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        if (status == TDM_OK) {
            assert_true(nth > 1);
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_null(team);
    }
}

static void test_cpu_count(void **state) {
    (void)state;
    assert_in_range(tdm_cpu_count(), 1, 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),    cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_sleepers_wake), cmocka_unit_test(test_short_lives),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_cpu_count),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
