/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processors this process may use, and how much of them: affinity, hyper-threads, and the
 * quota of its control groups, version 1 or 2. Floor 0. */
#ifndef TDM_BASE_CPUS_H
#define TDM_BASE_CPUS_H

#include "base/file.h"

#define TDM_CPUS_MAX 1024

/* Numbers of processors as the kernel gives them. */
typedef struct tdm_cpu_set {
    uint64_t words[TDM_CPUS_MAX / 64];
} tdm_cpu_set;

static inline bool tdm_cpu_set_has(const tdm_cpu_set *set, size_t cpu) {
    return cpu < TDM_CPUS_MAX && (set->words[cpu / 64] >> (cpu % 64) & 1) != 0;
}

static inline void tdm_cpu_set_add(tdm_cpu_set *set, size_t cpu) {
    if (cpu < TDM_CPUS_MAX) {
        set->words[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    }
}

/* What the scheduler lets the calling thread use; false when it does not tell. */
bool tdm_cpus_allowed(tdm_cpu_set *out);

/* Of these, cores: hyper-threads that share one count once where the system tells. */
int32_t tdm_cpus_count_cores(const tdm_fs *fs, const tdm_cpu_set *allowed);

/* Processors' worth of time that the control groups of this process leave it, the least of its own
 * and those above it; HUGE_VAL: no limit, or none that can be read. Groups are looked for where
 * systems mount them, under /sys/fs/cgroup. */
double tdm_cpus_quota(const tdm_fs *fs);

/* How many threads a team has unless it is told: cores that may be used, no more than the quota
 * rounded to the nearest whole, at least 1. With 1.5 processors, two threads gave prompts 1.3 to
 * 1.6 times what one gave and single rows the same, though both stop when the share is used up
 * (docs/performance.md). */
int32_t tdm_cpu_count(void);
/* The same of a system in files; allowed NULL: the scheduler did not tell. */
int32_t tdm_cpu_count_in(const tdm_fs *fs, const tdm_cpu_set *allowed);

#endif
