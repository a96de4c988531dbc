/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans for machines of several memory nodes, as hwloc describes them: which processor each thread
 * gets, which node its share of rows lies in; one node and the machine at hand change nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "support/support.h"

#include "base/thread.h"

#include <sched.h>

#define SEVERAL_MAX 8

static void plans(void **state) {
    static const struct {
        const char *machine;
        int32_t n_threads, n_nodes;
        int32_t cpu[SEVERAL_MAX], node[SEVERAL_MAX];
    } CASES[] = {
        /* a thread a core; second processors of cores stay free */
        {"node:2 core:2 pu:2", 4, 2, {0, 2, 4, 6}, {0, 0, 1, 1}},
        /* fewer threads than cores: over both nodes, neighbours together */
        {"node:2 core:4 pu:1", 4, 2, {0, 2, 4, 6}, {0, 0, 1, 1}},
        {"node:2 core:4 pu:1", 2, 2, {0, 4}, {0, 1}},
        {"node:2 core:4 pu:1", 3, 2, {0, 2, 5}, {0, 0, 1}},
        {"node:4 core:1 pu:1", 4, 4, {0, 1, 2, 3}, {0, 1, 2, 3}},
        {"node:4 core:1 pu:1", 2, 2, {0, 2}, {0, 1}},
        /* more threads than cores wrap within their node */
        {"node:2 core:1 pu:1", 5, 2, {0, 0, 0, 1, 1}, {0, 0, 0, 1, 1}},
        /* processors that are numbered across the nodes */
        {"node:2 core:2 pu:1(indexes=0,2,1,3)", 4, 2, {0, 2, 1, 3}, {0, 0, 1, 1}},
        /* nothing to bind */
        {"node:1 core:8 pu:1", 4, 1, {-1, -1, -1, -1}, {0, 0, 0, 0}},
        {"node:2 core:4 pu:1", 1, 1, {-1}, {0}},
    };
    tdm_numa_plan plan;
    (void)state;
    if (!tdm_numa_plan_synthetic(&plan, 1, "node:1 core:1 pu:1")) {
        SUPPORT_SKIP("this build has no hwloc (scripts/deps)");
    }
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        assert_true(tdm_numa_plan_synthetic(&plan, CASES[i].n_threads, CASES[i].machine));
        assert_int_equal(plan.n_nodes, CASES[i].n_nodes);
        assert_int_equal(plan.n_threads, CASES[i].n_threads);
        for (int32_t t = 0; t < CASES[i].n_threads; t++) {
            if (plan.cpu[t] != CASES[i].cpu[t] || plan.node[t] != CASES[i].node[t]) {
                fail_msg("%s, thread %d of %d: processor %d of node %d", CASES[i].machine, (int)t,
                         (int)CASES[i].n_threads, (int)plan.cpu[t], (int)plan.node[t]);
            }
        }
    }
    assert_false(tdm_numa_plan_synthetic(&plan, 2, "no such:machine"));
    assert_int_equal(plan.n_nodes, 1);
}

/* Over many machines and teams: nodes never go back along the threads, and no node has two threads
 * more than another of as many cores. */
static void shares_lie_node_by_node(void **state) {
    tdm_numa_plan plan;
    (void)state;
    if (!tdm_numa_plan_synthetic(&plan, 1, "node:1 core:1 pu:1")) {
        SUPPORT_SKIP("this build has no hwloc (scripts/deps)");
    }
    for (int n_nodes = 2; n_nodes <= 4; n_nodes++) {
        for (int n_cores = 1; n_cores <= 4; n_cores++) {
            for (int32_t n = 2; n <= 40; n += 3) {
                char machine[64];
                int32_t count[4] = {0};
                (void)snprintf(machine, sizeof machine, "node:%d core:%d pu:2", n_nodes, n_cores);
                assert_true(tdm_numa_plan_synthetic(&plan, n, machine));
                for (int32_t t = 0; t < n; t++) {
                    assert_true(t == 0 || plan.node[t] == plan.node[t - 1] ||
                                plan.node[t] == plan.node[t - 1] + 1);
                    assert_in_range(plan.node[t], 0, plan.n_nodes - 1);
                    count[plan.node[t]]++;
                }
                for (int32_t i = 1; i < plan.n_nodes; i++) {
                    assert_in_range(count[i] - count[0] + 1, 0, 2);
                }
            }
        }
    }
}

static void nodes_are_told_by_the_system(void **state) {
    static const struct {
        const char *text; /* NULL: no file */
        bool has_nodes;
    } CASES[] = {{NULL, false}, {"0\n", false}, {"0-1\n", true}, {"0,2\n", true}, {"", false}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_error err;
        tdm_fs_sim *sim = NULL;
        assert_int_equal(tdm_fs_sim_create(&sim, NULL, &err), TDM_OK);
        if (CASES[i].text != NULL) {
            assert_int_equal(tdm_fs_sim_put(sim, "/sys/devices/system/node/has_memory",
                                            CASES[i].text, strlen(CASES[i].text), &err),
                             TDM_OK);
        }
        assert_int_equal(tdm_numa_has_nodes(tdm_fs_sim_fs(sim)), CASES[i].has_nodes);
        tdm_fs_sim_destroy(sim);
    }
}

typedef struct seen {
    int cpu[2];
} seen;

static void look(void *arg, int32_t idx, int32_t n) {
    seen *s = arg;
    (void)n;
    s->cpu[idx] = sched_getcpu();
}

/* A plan is obeyed by workers and the owner, and the owner is let go again. Its processor is the
 * first that this process may use, so that any machine can run the test. */
static void a_team_is_bound_and_let_go(void **state) {
    tdm_error err;
    tdm_team *team = NULL;
    cpu_set_t before;
    cpu_set_t during;
    cpu_set_t after;
    int32_t cpu = 0;
    seen s = {{-1, -1}};
    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET((size_t)cpu, &before)) {
        cpu++;
    }
    const tdm_numa_plan plan = {.n_nodes = 2, .n_threads = 2, .cpu = {cpu, cpu}, .node = {0, 1}};
    const tdm_numa_plan nothing = {.n_nodes = 1, .n_threads = 2, .cpu = {cpu, cpu}};
    assert_int_equal(tdm_team_create(&team, NULL, 2, &err), TDM_OK);
    tdm_team_bind(team, &nothing);
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    assert_true(CPU_EQUAL(&before, &during));
    tdm_team_bind(team, &plan);
    assert_int_equal(sched_getaffinity(0, sizeof during, &during), 0);
    assert_int_equal(CPU_COUNT(&during), 1);
    assert_true(CPU_ISSET((size_t)cpu, &during));
    tdm_team_run(team, look, &s);
    assert_int_equal(s.cpu[0], cpu);
    assert_int_equal(s.cpu[1], cpu);
    tdm_team_destroy(team);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans),
        cmocka_unit_test(shares_lie_node_by_node),
        cmocka_unit_test(nodes_are_told_by_the_system),
        cmocka_unit_test(a_team_is_bound_and_let_go),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
