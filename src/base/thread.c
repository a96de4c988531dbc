/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread team. A run publishes a job by raising `epoch`; each member's part of it is taken by
 * whoever claims it first, and counted down in `n_left`.
 *
 *   owner:   job = fn, arg; epoch++ ...... fn(0) ...... fn(i) of parts nobody began ... n_left == 0
 *   worker:  wait until epoch moved .. claim(i) .. fn(i) .. n_left--
 *
 * A worker that has lost its core therefore delays nothing unless it lost it inside its part: the
 * owner does the part itself, with the same index, so that results and scratch are the same.
 *
 * Waiting spins SPINS times (some 30 us: a token has 80 and more phases, and a sleeping wake costs
 * tens of microseconds where a spin costs tens of nanoseconds), then yields YIELDS times, and only
 * then sleeps on a condition variable. Long spins hurt where threads share cores: with 20,000 of
 * them a contended call of two threads took 1,006 us, with 1,000 spins and 5,000 yields 79 us
 * (2 cores, load 5). _GNU_SOURCE is for the threads' processors. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define TEAM_THREADS_MAX 256
#define SPINS 1500
#define YIELDS 500

typedef struct team_member {
    tdm_team *team;
    pthread_t thread;
    int32_t idx;
    _Alignas(64) atomic_uint claimed; /* epoch whose part was taken last */
} team_member;

struct tdm_team {
    const tdm_alloc *alloc;
    int32_t n;
    int32_t n_started;
    team_member *members; /* [n]; member 0 is the owner and has no thread */
    tdm_team_fn fn;
    void *arg;
    uint64_t n_runs; /* the owner's */
    bool is_bound;   /* and is to be let go at the end, to where it might be before */
    cpu_set_t was_allowed;
    _Alignas(64) atomic_uint epoch;
    _Alignas(64) atomic_int n_left;
    _Alignas(64) atomic_int n_sleeping;
    atomic_bool is_closing;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
};

static void cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_until_epoch_moves(tdm_team *team, unsigned seen) {
    (void)pthread_mutex_lock(&team->mutex);
    atomic_fetch_add(&team->n_sleeping, 1);
    while (atomic_load(&team->epoch) == seen) {
        (void)pthread_cond_wait(&team->wake, &team->mutex);
    }
    atomic_fetch_sub(&team->n_sleeping, 1);
    (void)pthread_mutex_unlock(&team->mutex);
}

static void wait_for_epoch(tdm_team *team, unsigned seen) {
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&team->epoch, memory_order_acquire) != seen) {
            return;
        }
        cpu_relax();
    }
    for (int i = 0; i < YIELDS; i++) {
        if (atomic_load_explicit(&team->epoch, memory_order_acquire) != seen) {
            return;
        }
        (void)sched_yield();
    }
    sleep_until_epoch_moves(team, seen);
}

/* Runs a member's part of the job of `epoch`, unless somebody has it. A claim that succeeds holds the
 * job in place: the owner cannot publish the next one before this part is counted. */
static void try_part(tdm_team *team, team_member *member, unsigned epoch) {
    unsigned before = epoch - 1;
    if (atomic_compare_exchange_strong(&member->claimed, &before, epoch)) {
        team->fn(team->arg, member->idx, team->n);
        atomic_fetch_sub_explicit(&team->n_left, 1, memory_order_release);
    }
}

static void *worker_main(void *arg) {
    team_member *self = arg;
    tdm_team *team = self->team;
    unsigned seen = 0;
    for (;;) {
        wait_for_epoch(team, seen);
        seen = atomic_load_explicit(&team->epoch, memory_order_acquire);
        if (atomic_load(&team->is_closing)) {
            return NULL;
        }
        try_part(team, self, seen);
    }
}

static void raise_epoch(tdm_team *team) {
    atomic_fetch_add(&team->epoch,
                     1); /* sequentially consistent: ordered before the look at n_sleeping */
    if (atomic_load(&team->n_sleeping) > 0) {
        (void)pthread_mutex_lock(&team->mutex);
        (void)pthread_cond_broadcast(&team->wake);
        (void)pthread_mutex_unlock(&team->mutex);
    }
}

static size_t members_bytes(const tdm_team *team) {
    return (size_t)team->n * sizeof *team->members; /* bounded: n is at most TEAM_THREADS_MAX */
}

tdm_status tdm_team_create(tdm_team **out_team, const tdm_alloc *alloc, int32_t n_threads,
                           tdm_error *err) {
    tdm_team *team = NULL;
    *out_team = NULL;
    if (n_threads < 1 || n_threads > TEAM_THREADS_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "%d threads asked for", (int)n_threads);
        tdm_err_limit(err, "1 to %d", TEAM_THREADS_MAX);
        return TDM_E_ARG;
    }
    team = tdm_mem_alloc_aligned(alloc, sizeof *team, TDM_ALIGN_CACHE_LINE);
    if (team == NULL) {
        return tdm_fail_nomem(err, "the thread team");
    }
    memset(team, 0, sizeof *team);
    team->alloc = alloc;
    team->n = n_threads;
    (void)pthread_mutex_init(&team->mutex, NULL);
    (void)pthread_cond_init(&team->wake, NULL);
    team->members = tdm_mem_alloc_aligned(alloc, members_bytes(team), TDM_ALIGN_CACHE_LINE);
    if (team->members == NULL) {
        tdm_team_destroy(team);
        return tdm_fail_nomem(err, "the thread team");
    }
    memset(team->members, 0, members_bytes(team));
    for (int32_t i = 1; i < n_threads; i++) {
        team->members[i].team = team;
        team->members[i].idx = i;
        if (pthread_create(&team->members[i].thread, NULL, worker_main, &team->members[i]) != 0) {
            tdm_team_destroy(team);
            return tdm_fail(err, TDM_E_IO, "cannot start thread %d of %d", (int)i + 1,
                            (int)n_threads);
        }
        team->n_started++;
    }
    *out_team = team;
    return TDM_OK;
}

void tdm_team_destroy(tdm_team *team) {
    if (team == NULL) {
        return;
    }
    if (team->is_bound) {
        (void)pthread_setaffinity_np(pthread_self(), sizeof team->was_allowed, &team->was_allowed);
    }
    atomic_store(&team->is_closing, true);
    raise_epoch(team);
    for (int32_t i = 1; i <= team->n_started; i++) {
        (void)pthread_join(team->members[i].thread, NULL);
    }
    (void)pthread_mutex_destroy(&team->mutex);
    (void)pthread_cond_destroy(&team->wake);
    tdm_mem_free_aligned(team->alloc, team->members, members_bytes(team), TDM_ALIGN_CACHE_LINE);
    tdm_mem_free_aligned(team->alloc, team, sizeof *team, TDM_ALIGN_CACHE_LINE);
}

void tdm_team_bind(tdm_team *team, const tdm_numa_plan *plan) {
    if (plan->n_nodes < 2 || team->is_bound || plan->n_threads != team->n ||
        pthread_getaffinity_np(pthread_self(), sizeof team->was_allowed, &team->was_allowed) != 0) {
        return;
    }
    for (int32_t i = 0; i < team->n; i++) {
        cpu_set_t one;
        CPU_ZERO(&one);
        if (plan->cpu[i] >= 0 && plan->cpu[i] < CPU_SETSIZE) {
            CPU_SET((size_t)plan->cpu[i], &one);
            (void)pthread_setaffinity_np(i == 0 ? pthread_self() : team->members[i].thread,
                                         sizeof one, &one);
        }
    }
    team->is_bound = true;
}

int32_t tdm_team_size(const tdm_team *team) {
    return team->n;
}

uint64_t tdm_team_n_runs(const tdm_team *team) {
    return team->n_runs;
}

void tdm_team_run(tdm_team *team, tdm_team_fn fn, void *arg) {
    int spins = 0;
    unsigned epoch = 0;
    team->n_runs++;
    if (team->n == 1) {
        fn(arg, 0, 1);
        return;
    }
    team->fn = fn;
    team->arg = arg;
    atomic_store_explicit(&team->n_left, team->n - 1, memory_order_relaxed);
    raise_epoch(team);
    epoch = atomic_load_explicit(&team->epoch, memory_order_relaxed); /* only the owner raises it */
    fn(arg, 0, team->n);
    for (int32_t i = 1; i < team->n; i++) {
        try_part(team, &team->members[i], epoch);
    }
    while (atomic_load_explicit(&team->n_left, memory_order_acquire) != 0) {
        if (++spins < SPINS) {
            cpu_relax();
        } else {
            (void)sched_yield(); /* a worker lost its core inside its part: give it ours */
        }
    }
}
