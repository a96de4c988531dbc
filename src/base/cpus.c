/* SPDX-License-Identifier: Apache-2.0
 *
 * Processors and quotas, read from the small files in which the kernel tells them. It refuses
 * nothing: what is missing or malformed means "no limit". A process in a container may be told a
 * path that its own mount does not have; the groups above that path are tried as well, up to the
 * mount itself. _GNU_SOURCE is for sched_getaffinity.
 * Source: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.max), scheduler/sched-bwc.rst. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/cpus.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define THREADS_MAX 256
#define TEXT_MAX 4096 /* of a file: longer ones are cut, and the cut line is not read */

/* The whole text of a small file; false when there is none. */
static bool read_text(const tdm_fs *fs, const char *path, char out[TEXT_MAX]) {
    tdm_file *file = NULL;
    size_t n = 0;
    bool is_read = false;
    out[0] = '\0';
    if (fs->open_read(fs->ctx, path, &file, NULL) != TDM_OK) {
        return false;
    }
    if (fs->read_at(fs->ctx, file, 0, out, TEXT_MAX - 1, &n, NULL) == TDM_OK) {
        if (n == TEXT_MAX - 1) {
            while (n > 0 && out[n - 1] != '\n') {
                n--;
            }
        }
        is_read = n > 0;
    } else {
        n = 0;
    }
    out[n] = '\0';
    fs->close(fs->ctx, file);
    return is_read;
}

/* A decimal number at *at, which moves behind it; false when there is none or it is too large. */
static bool take_number(const char **at, uint64_t *out) {
    const char *p = *at;
    uint64_t value = 0;
    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *at = p;
    *out = value;
    return true;
}

bool tdm_cpus_allowed(tdm_cpu_set *out) {
    cpu_set_t set;
    *out = (tdm_cpu_set){0};
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) != 0) {
        return false;
    }
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &set)) {
            tdm_cpu_set_add(out, cpu);
        }
    }
    return true;
}

/* A core counts as its first sibling that may be used. The list is "0,64" or "0-1". */
static bool is_first_sibling(const tdm_fs *fs, size_t cpu, const tdm_cpu_set *allowed) {
    char path[96];
    char text[TEXT_MAX];
    const char *at = text;
    uint64_t first = 0;
    (void)snprintf(path, sizeof path,
                   "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list", cpu);
    if (!read_text(fs, path, text)) {
        return true;
    }
    while (take_number(&at, &first)) {
        uint64_t last = first;
        if (*at == '-') {
            at++;
            if (!take_number(&at, &last)) {
                return true;
            }
        }
        for (uint64_t i = first; i <= last && i < TDM_CPUS_MAX; i++) {
            if (tdm_cpu_set_has(allowed, (size_t)i)) {
                return i == cpu;
            }
        }
        if (*at != ',') {
            break;
        }
        at++;
    }
    return true;
}

int32_t tdm_cpus_count_cores(const tdm_fs *fs, const tdm_cpu_set *allowed) {
    int32_t n = 0;
    for (size_t cpu = 0; cpu < TDM_CPUS_MAX; cpu++) {
        n += tdm_cpu_set_has(allowed, cpu) && is_first_sibling(fs, cpu, allowed) ? 1 : 0;
    }
    return n;
}

/* Version 2: "max 100000" or "150000 100000", in one file. */
static double quota_of_max(const tdm_fs *fs, const char *group) {
    char path[TDM_PATH_MAX];
    char text[TEXT_MAX];
    const char *at = text;
    uint64_t quota = 0;
    uint64_t period = 0;
    if (tdm_path_join(path, sizeof path, group, "cpu.max", NULL) != TDM_OK ||
        !read_text(fs, path, text) || !take_number(&at, &quota) || *at++ != ' ' ||
        !take_number(&at, &period) || period == 0) {
        return HUGE_VAL;
    }
    return (double)quota / (double)period;
}

/* Version 1: two files, and -1 means none. */
static double quota_of_cfs(const tdm_fs *fs, const char *group) {
    static const char *const NAMES[] = {"cpu.cfs_quota_us", "cpu.cfs_period_us"};
    char path[TDM_PATH_MAX];
    char text[TEXT_MAX];
    uint64_t values[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const char *at = text;
        if (tdm_path_join(path, sizeof path, group, NAMES[i], NULL) != TDM_OK ||
            !read_text(fs, path, text) || !take_number(&at, &values[i])) {
            return HUGE_VAL;
        }
    }
    return values[1] == 0 ? HUGE_VAL : (double)values[0] / (double)values[1];
}

typedef double (*quota_fn)(const tdm_fs *fs, const char *group);

/* The least quota of mount + path and of every group above it, the mount's own among them. */
static double least_quota(const tdm_fs *fs, const char *mount, const char *path, quota_fn quota) {
    char group[TDM_PATH_MAX];
    double least = HUGE_VAL;
    const int n = snprintf(group, sizeof group, "%s%s", mount, path);
    if (n < 0 || (size_t)n >= sizeof group) {
        return quota(fs, mount);
    }
    for (size_t len = (size_t)n; len >= strlen(mount); len--) {
        if (group[len] == '\0' || group[len] == '/') {
            group[len] = '\0';
            least = fmin(least, quota(fs, group));
        }
    }
    return least;
}

/* Whether a list "cpu,cpuacct" names cpu. */
static bool names_cpu(const char *controllers, size_t len) {
    while (len > 0) {
        const size_t word = strcspn(controllers, ",:");
        if (word == 3 && memcmp(controllers, "cpu", 3) == 0) {
            return true;
        }
        if (word >= len) {
            return false;
        }
        controllers += word + 1;
        len -= word + 1;
    }
    return false;
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1. */
static double quota_of_line(const tdm_fs *fs, const char *line) {
    static const char *const V1_MOUNTS[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct",
                                            "/sys/fs/cgroup/cpuacct,cpu"};
    const char *controllers = strchr(line, ':');
    const char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    double least = HUGE_VAL;
    if (path == NULL) {
        return HUGE_VAL;
    }
    controllers++;
    const size_t len = (size_t)(path - controllers);
    path++;
    if (len == 0) {
        return least_quota(fs, "/sys/fs/cgroup", path, quota_of_max);
    }
    for (size_t i = 0; names_cpu(controllers, len) && i < 3; i++) {
        least = fmin(least, least_quota(fs, V1_MOUNTS[i], path, quota_of_cfs));
    }
    return least;
}

double tdm_cpus_quota(const tdm_fs *fs) {
    char text[TEXT_MAX];
    double least = HUGE_VAL;
    if (!read_text(fs, "/proc/self/cgroup", text)) {
        return HUGE_VAL;
    }
    for (char *line = text; *line != '\0';) {
        char *end = line + strcspn(line, "\n");
        const bool is_last = *end == '\0';
        *end = '\0';
        least = fmin(least, quota_of_line(fs, line));
        line = is_last ? end : end + 1;
    }
    return least;
}

int32_t tdm_cpu_count_in(const tdm_fs *fs, const tdm_cpu_set *allowed) {
    const double quota = tdm_cpus_quota(fs);
    int32_t n = allowed != NULL ? tdm_cpus_count_cores(fs, allowed) : 1;
    n = n < THREADS_MAX ? n : THREADS_MAX;
    n = quota < (double)n ? (int32_t)(quota + 0.5) : n;
    return n < 1 ? 1 : n;
}

int32_t tdm_cpu_count(void) {
    tdm_cpu_set allowed;
    return tdm_cpu_count_in(tdm_fs_system(), tdm_cpus_allowed(&allowed) ? &allowed : NULL);
}
