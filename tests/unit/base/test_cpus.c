/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processors may be used: hyper-threads, quotas of both versions of control groups with groups
 * above them, containers that see no path of their own, and files that make no sense. */
#include "support/support.h"

#include "base/cpus.h"

#include <math.h>

typedef struct text_file {
    const char *path, *text;
} text_file;

static tdm_fs_sim *system_of(const text_file *files, size_t n) {
    tdm_fs_sim *sim = NULL;
    tdm_error err;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, &err), TDM_OK);
    for (size_t i = 0; i < n && files[i].path != NULL; i++) {
        assert_int_equal(
            tdm_fs_sim_put(sim, files[i].path, files[i].text, strlen(files[i].text), &err), TDM_OK);
    }
    return sim;
}

static void quotas(void **state) {
    static const struct {
        double quota; /* 0: none */
        text_file files[6];
    } CASES[] = {
        {0.0, {{NULL, NULL}}},
        {1.5,
         {{"/proc/self/cgroup", "0::/user/a\n"},
          {"/sys/fs/cgroup/user/a/cpu.max", "150000 100000\n"}}},
        {0.0,
         {{"/proc/self/cgroup", "0::/user/a\n"},
          {"/sys/fs/cgroup/user/a/cpu.max", "max 100000\n"}}},
        /* the group above is the narrower one, the one below says nothing */
        {0.25,
         {{"/proc/self/cgroup", "0::/user/a/b\n"},
          {"/sys/fs/cgroup/user/a/b/cpu.max", "max 100000\n"},
          {"/sys/fs/cgroup/user/a/cpu.max", "300000 100000\n"},
          {"/sys/fs/cgroup/user/cpu.max", "5000 20000\n"}}},
        /* in a container: the mount is the group, whatever path is told */
        {2.0,
         {{"/proc/self/cgroup", "0::/../host/c\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
        {2.0, {{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
        /* version 1, alone and with another controller, beside a version 2 without the controller */
        {0.5,
         {{"/proc/self/cgroup", "3:cpuset:/\n1:cpu:/x\n0::/\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"}}},
        {3.0,
         {{"/proc/self/cgroup", "2:cpuacct,cpu:/docker/y\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"}}},
        {0.0,
         {{"/proc/self/cgroup", "1:cpu:/x\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"}}},
        /* another controller's group is no concern of ours */
        {0.0,
         {{"/proc/self/cgroup", "1:cpuset,cpuacct:/x\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "50000\n"},
          {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"}}},
        /* what no kernel writes */
        {0.0, {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", "5 0\n"}}},
        {0.0,
         {{"/proc/self/cgroup", "0::/a\n"},
          {"/sys/fs/cgroup/a/cpu.max", "99999999999999999999 1\n"}}},
        {0.0, {{"/proc/self/cgroup", "0::/a\n"}, {"/sys/fs/cgroup/a/cpu.max", ""}}},
        {0.0, {{"/proc/self/cgroup", "::::\n\n:\nnothing\n0:"}}},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_fs_sim *sim = system_of(CASES[i].files, SUPPORT_LEN(CASES[i].files));
        const double quota = tdm_cpus_quota(tdm_fs_sim_fs(sim));
        if (CASES[i].quota > 0.0) {
            assert_true(fabs(quota - CASES[i].quota) < 1e-9);
        } else {
            assert_true(isinf(quota));
        }
        tdm_fs_sim_destroy(sim);
    }
}

/* Whatever operation fails, there is an answer. */
static void every_fault_is_survived(void **state) {
    static const text_file FILES[] = {
        {"/proc/self/cgroup", "1:cpu:/x\n0::/a\n"},
        {"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "100000\n"},
        {"/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n"},
        {"/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n"},
    };
    tdm_cpu_set allowed = {.words = {3}};
    (void)state;
    for (size_t at = 0; at < 40; at++) {
        tdm_fs_sim *sim = system_of(FILES, SUPPORT_LEN(FILES));
        tdm_fs_sim_fail_at(sim, at);
        const int32_t n = tdm_cpu_count_in(tdm_fs_sim_fs(sim), &allowed);
        assert_in_range(n, 1, 2);
        tdm_fs_sim_destroy(sim);
    }
}

/* A text longer than is read loses its last, cut line and nothing else. */
static void long_files_are_cut_at_a_line(void **state) {
    static char text[9000];
    size_t len = 0;
    (void)state;
    len = (size_t)snprintf(text, sizeof text, "0::/a\n");
    while (len < sizeof text - 40) {
        len += (size_t)snprintf(text + len, sizeof text - len, "7:devices:/somewhere/else\n");
    }
    const text_file files[] = {{"/proc/self/cgroup", text},
                               {"/sys/fs/cgroup/a/cpu.max", "400000 100000\n"}};
    tdm_fs_sim *sim = system_of(files, 2);
    assert_true(fabs(tdm_cpus_quota(tdm_fs_sim_fs(sim)) - 4.0) < 1e-9);
    tdm_fs_sim_destroy(sim);
}

static void threads_of_a_team(void **state) {
    static const text_file PAIRS[] = {
        {"/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "0,4\n"},
        {"/sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,5\n"},
        {"/sys/devices/system/cpu/cpu2/topology/thread_siblings_list", "2,6\n"},
        {"/sys/devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4\n"},
        {"/sys/devices/system/cpu/cpu5/topology/thread_siblings_list", "1,5\n"},
        {"/sys/devices/system/cpu/cpu6/topology/thread_siblings_list", "2,6\n"},
    };
    static const struct {
        uint64_t allowed;
        const char *max;
        int32_t n;
    } CASES[] = {
        {0x77, "max 100000\n", 3},                               /* three cores of two */
        {0x70, "max 100000\n", 3},                               /* only the second of each pair */
        {0x11, "max 100000\n", 1},    {0x08, "max 100000\n", 1}, /* siblings unknown */
        {0x77, "200000 100000\n", 2}, {0x77, "249999 100000\n", 2}, {0x77, "150000 100000\n", 2},
        {0x77, "149999 100000\n", 1}, {0x77, "20000 100000\n", 1},  {0x77, "900000 100000\n", 3},
        {0x0f, "max 100000\n", 4},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_error err;
        tdm_fs_sim *sim = system_of(PAIRS, SUPPORT_LEN(PAIRS));
        const tdm_cpu_set allowed = {.words = {CASES[i].allowed}};
        assert_int_equal(tdm_fs_sim_put(sim, "/proc/self/cgroup", "0::/\n", 5, &err), TDM_OK);
        assert_int_equal(
            tdm_fs_sim_put(sim, "/sys/fs/cgroup/cpu.max", CASES[i].max, strlen(CASES[i].max), &err),
            TDM_OK);
        assert_int_equal(tdm_cpu_count_in(tdm_fs_sim_fs(sim), &allowed), CASES[i].n);
        assert_int_equal(tdm_cpu_count_in(tdm_fs_sim_fs(sim), NULL), 1);
        tdm_fs_sim_destroy(sim);
    }
}

static void this_machine_has_an_answer(void **state) {
    tdm_cpu_set allowed;
    size_t n = 0;
    (void)state;
    assert_true(tdm_cpus_allowed(&allowed));
    for (size_t cpu = 0; cpu < TDM_CPUS_MAX; cpu++) {
        n += tdm_cpu_set_has(&allowed, cpu) ? 1 : 0;
    }
    assert_in_range(tdm_cpu_count(), 1, n);
    tdm_cpu_set_add(&allowed, TDM_CPUS_MAX); /* outside: nothing happens */
    assert_false(tdm_cpu_set_has(&allowed, TDM_CPUS_MAX));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas),
        cmocka_unit_test(every_fault_is_survived),
        cmocka_unit_test(long_files_are_cut_at_a_line),
        cmocka_unit_test(threads_of_a_team),
        cmocka_unit_test(this_machine_has_an_answer),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
