/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the threads of a team belong on a machine whose memory has several nodes. Floor 0. Such a
 * machine is seen through hwloc; in a build without it, and on one node, nothing is bound and hwloc is
 * not asked. */
#ifndef TDM_BASE_NUMA_H
#define TDM_BASE_NUMA_H

#include "base/cpus.h"
#include "base/status.h"

#define TDM_NUMA_THREADS_MAX 256

/* Threads lie node by node, as their shares do: what tdm_cpu_share gives to thread i is packed, and so
 * first touched, by thread i, and read by it again. */
typedef struct tdm_numa_plan {
    int32_t n_nodes; /* that have threads; 1: nothing to bind */
    int32_t n_threads;
    int32_t cpu[TDM_NUMA_THREADS_MAX];  /* of thread i; -1: any */
    int32_t node[TDM_NUMA_THREADS_MAX]; /* its memory, counted from 0 in the plan's own order */
} tdm_numa_plan;

/* Whether the system's files tell of more than one node with memory. */
bool tdm_numa_has_nodes(const tdm_fs *fs);
/* This machine, of which the process may use `allowed`. One node when hwloc is missing or fails: a
 * plan cannot fail, it can only do nothing. n_threads: 1 to TDM_NUMA_THREADS_MAX. */
void tdm_numa_plan_make(tdm_numa_plan *out, int32_t n_threads, const tdm_cpu_set *allowed);
/* The same of a machine in hwloc's words, "node:2 core:4 pu:2", with all of it allowed. False: this
 * build has no hwloc, or it does not understand. */
bool tdm_numa_plan_synthetic(tdm_numa_plan *out, int32_t n_threads, const char *machine);

#endif
