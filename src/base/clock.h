/* SPDX-License-Identifier: Apache-2.0
 *
 * Time through a table. Floor 0. */
#ifndef TDM_BASE_CLOCK_H
#define TDM_BASE_CLOCK_H

#include <stdint.h>

/* Laws: monotonic_ns never goes back; sleep_ns(n) returns no earlier than n later on the same
 * clock. */
typedef struct tdm_clock {
    void *ctx;
    int64_t (*monotonic_ns)(void *ctx);
    int64_t (*unix_ns)(void *ctx); /* since 1970-01-01 UTC */
    void (*sleep_ns)(void *ctx, int64_t ns);
} tdm_clock;

/* The operating system's clock. Threads: any. */
const tdm_clock *tdm_clock_system(void);

/* A clock that moves only when told to (or by sleep). Owner thread only. */
typedef struct tdm_clock_sim {
    tdm_clock clock;
    int64_t monotonic_ns;
    int64_t unix_ns;
} tdm_clock_sim;

void tdm_clock_sim_init(tdm_clock_sim *sim, int64_t unix_ns);
void tdm_clock_sim_advance(tdm_clock_sim *sim, int64_t ns);

#endif
