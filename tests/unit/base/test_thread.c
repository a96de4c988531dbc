/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread team: every member runs once a run, what one run wrote the next one sees, sleepers
 * wake, and a team that cannot be made leaves nothing behind. Run it under TSan too. _GNU_SOURCE is
 * for sched_setaffinity. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "support/support.h"

#include "base/clock.h"
#include "base/thread.h"

#include <sched.h>

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

/* All members on one processor: the owner does what nobody began, and nobody waits for ever. */
static void test_one_processor(void **state) {
    cpu_set_t all;
    cpu_set_t one;
    size_t cpu = 0;
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all)) {
        cpu++;
    }
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0); /* threads made now inherit it */
    run_team(5, 300, false);
    run_team(3, 10, true);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

/* A team without work takes no processor time: 100 ms of three workers would be 300. */
static void test_idle_costs_nothing(void **state) {
    tdm_error err;
    tdm_team *team = NULL;
    job j = {.n = 4};
    const tdm_clock *clock = tdm_clock_system();
    (void)state;
    assert_int_equal(tdm_team_create(&team, NULL, 4, &err), TDM_OK);
    tdm_team_run(team, work, &j);
    clock->sleep_ns(clock->ctx, 50000000); /* spins and yields end */
    const int64_t before = support_cpu_ns();
    clock->sleep_ns(clock->ctx, 100000000);
    assert_true(support_cpu_ns() - before < 30000000);
    tdm_team_run(team, work, &j); /* and it is still there */
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(j.count[i], 2);
    }
    tdm_team_destroy(team);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size),    cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_sleepers_wake), cmocka_unit_test(test_short_lives),
        cmocka_unit_test(test_one_processor), cmocka_unit_test(test_idle_costs_nothing),
        cmocka_unit_test(test_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
