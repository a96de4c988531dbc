/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: cores in the order of their nodes, one processor of each, and thread i on the core at
 * i * n_cores / n_threads. Fewer threads than cores are so spread over all nodes, more than cores
 * wrap, and neighbours always share a node. A core's node is the first that its processors are local
 * to. Source: hwloc 2.9, hwloc_get_obj_by_type, hwloc_topology_set_synthetic. */
#include "base/numa.h"

#include <string.h>

static void plan_nothing(tdm_numa_plan *out, int32_t n_threads) {
    *out = (tdm_numa_plan){.n_nodes = 1, .n_threads = n_threads};
    for (int32_t i = 0; i < TDM_NUMA_THREADS_MAX; i++) {
        out->cpu[i] = -1;
    }
}

/* "0": one node. "0-1" and "0,2" are several. */
bool tdm_numa_has_nodes(const tdm_fs *fs) {
    char text[64];
    tdm_file *file = NULL;
    size_t n = 0;
    if (fs->open_read(fs->ctx, "/sys/devices/system/node/has_memory", &file, NULL) != TDM_OK) {
        return false;
    }
    if (fs->read_at(fs->ctx, file, 0, text, sizeof text, &n, NULL) != TDM_OK) {
        n = 0;
    }
    fs->close(fs->ctx, file);
    return memchr(text, '-', n) != NULL || memchr(text, ',', n) != NULL;
}

#if defined(TDM_HAS_HWLOC)
#include <hwloc.h>

typedef struct place {
    int32_t cpu;
    int32_t node; /* hwloc's logical index */
} place;

/* The first usable processor of a core; -1: none. allowed NULL: all. */
static int32_t cpu_of_core(hwloc_obj_t core, const tdm_cpu_set *allowed) {
    const int last = hwloc_bitmap_last(core->cpuset);
    for (int cpu = hwloc_bitmap_first(core->cpuset); cpu >= 0 && cpu <= last;
         cpu = hwloc_bitmap_next(core->cpuset, cpu)) {
        if (allowed == NULL || tdm_cpu_set_has(allowed, (size_t)cpu)) {
            return cpu;
        }
    }
    return -1;
}

static int32_t node_of_core(hwloc_topology_t topology, hwloc_obj_t core) {
    const int node = hwloc_bitmap_first(core->nodeset);
    const hwloc_obj_t object =
        node >= 0 ? hwloc_get_numanode_obj_by_os_index(topology, (unsigned)node) : NULL;
    return object != NULL ? (int32_t)object->logical_index : 0;
}

/* Usable cores into places [TDM_CPUS_MAX], node by node; returns how many. */
static int32_t list_cores(hwloc_topology_t topology, const tdm_cpu_set *allowed, place *places) {
    const int n_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    const int n_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    int32_t n = 0;
    for (int node = 0; node < n_nodes; node++) {
        for (int i = 0; i < n_cores && n < TDM_CPUS_MAX; i++) {
            const hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)i);
            if (core == NULL || node_of_core(topology, core) != node) {
                continue;
            }
            places[n] = (place){cpu_of_core(core, allowed), node};
            n += places[n].cpu >= 0 ? 1 : 0;
        }
    }
    return n;
}

static void plan_of(tdm_numa_plan *out, int32_t n_threads, hwloc_topology_t topology,
                    const tdm_cpu_set *allowed) {
    place places[TDM_CPUS_MAX];
    const int32_t n_cores = list_cores(topology, allowed, places);
    int32_t node = -1;
    plan_nothing(out, n_threads);
    if (n_cores == 0 || places[0].node == places[n_cores - 1].node) {
        return;
    }
    out->n_nodes = 0;
    for (int32_t i = 0; i < n_threads; i++) {
        const place *p = &places[(int64_t)i * n_cores / n_threads];
        if (p->node != node) {
            node = p->node;
            out->n_nodes++;
        }
        out->cpu[i] = p->cpu;
        out->node[i] = out->n_nodes - 1;
    }
    if (out->n_nodes == 1) { /* a single thread may go where it likes */
        plan_nothing(out, n_threads);
    }
}

/* machine NULL: this one. */
static bool load(hwloc_topology_t *out, const char *machine) {
    if (hwloc_topology_init(out) != 0) {
        return false;
    }
    if ((machine != NULL && hwloc_topology_set_synthetic(*out, machine) != 0) ||
        hwloc_topology_load(*out) != 0) {
        hwloc_topology_destroy(*out);
        return false;
    }
    return true;
}

void tdm_numa_plan_make(tdm_numa_plan *out, int32_t n_threads, const tdm_cpu_set *allowed) {
    hwloc_topology_t topology;
    TDM_CHECK(n_threads >= 1 && n_threads <= TDM_NUMA_THREADS_MAX);
    plan_nothing(out, n_threads);
    if (n_threads > 1 && tdm_numa_has_nodes(tdm_fs_system()) && load(&topology, NULL)) {
        plan_of(out, n_threads, topology, allowed);
        hwloc_topology_destroy(topology);
    }
}

bool tdm_numa_plan_synthetic(tdm_numa_plan *out, int32_t n_threads, const char *machine) {
    hwloc_topology_t topology;
    TDM_CHECK(n_threads >= 1 && n_threads <= TDM_NUMA_THREADS_MAX);
    plan_nothing(out, n_threads);
    if (!load(&topology, machine)) {
        return false;
    }
    plan_of(out, n_threads, topology, NULL);
    hwloc_topology_destroy(topology);
    return true;
}

#else

void tdm_numa_plan_make(tdm_numa_plan *out, int32_t n_threads, const tdm_cpu_set *allowed) {
    (void)allowed;
    TDM_CHECK(n_threads >= 1 && n_threads <= TDM_NUMA_THREADS_MAX);
    plan_nothing(out, n_threads);
}

bool tdm_numa_plan_synthetic(tdm_numa_plan *out, int32_t n_threads, const char *machine) {
    (void)machine;
    TDM_CHECK(n_threads >= 1 && n_threads <= TDM_NUMA_THREADS_MAX);
    plan_nothing(out, n_threads);
    return false;
}

#endif
