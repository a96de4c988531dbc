/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread team: a fixed set of threads that run one function together, again and again. Floor 0.
 * Workers spin for a while, then yield, then sleep, so that a token's many phases cost no system
 * call. */
#ifndef TDM_BASE_THREAD_H
#define TDM_BASE_THREAD_H

#include "base/alloc.h"
#include "base/numa.h"

typedef struct tdm_team tdm_team;

/* Runs as member idx of n; the calling thread is member 0. */
typedef void (*tdm_team_fn)(void *arg, int32_t idx, int32_t n);

/* n_threads counts the calling thread: 1 starts none. Errors: TDM_E_ARG (not 1..256), TDM_E_NOMEM,
 * TDM_E_IO. */
TDM_NODISCARD tdm_status tdm_team_create(tdm_team **out_team, const tdm_alloc *alloc,
                                         int32_t n_threads, tdm_error *err);
void tdm_team_destroy(tdm_team *team);
/* Puts each thread on its processor of the plan, the calling one until destroy: where memory has
 * several nodes, each reads what it has touched first. A plan of one node changes nothing; a thread
 * that the system does not let move stays where it is. Owner thread, between runs. */
void tdm_team_bind(tdm_team *team, const tdm_numa_plan *plan);
int32_t tdm_team_size(const tdm_team *team);
/* Returns when every member has returned. Only the thread that owns the team calls it; never from
 * inside fn. */
void tdm_team_run(tdm_team *team, tdm_team_fn fn, void *arg);
/* Runs so far: what an observer counts. Owner thread. */
uint64_t tdm_team_n_runs(const tdm_team *team);

#endif
