/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's clock and the simulated one. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t read_clock(clockid_t id) {
    struct timespec now = {0, 0};
    (void)clock_gettime(id, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t system_monotonic_ns(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_unix_ns(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_REALTIME);
}

static void system_sleep_ns(void *ctx, int64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    (void)ctx;
    while (ns > 0 && nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static const tdm_clock SYSTEM_CLOCK = {NULL, system_monotonic_ns, system_unix_ns, system_sleep_ns};

const tdm_clock *tdm_clock_system(void) {
    return &SYSTEM_CLOCK;
}

static int64_t sim_monotonic_ns(void *ctx) {
    return ((tdm_clock_sim *)ctx)->monotonic_ns;
}

static int64_t sim_unix_ns(void *ctx) {
    return ((tdm_clock_sim *)ctx)->unix_ns;
}

static void sim_sleep_ns(void *ctx, int64_t ns) {
    if (ns > 0) {
        tdm_clock_sim_advance(ctx, ns);
    }
}

void tdm_clock_sim_init(tdm_clock_sim *sim, int64_t unix_ns) {
    sim->clock = (tdm_clock){sim, sim_monotonic_ns, sim_unix_ns, sim_sleep_ns};
    sim->monotonic_ns = 0;
    sim->unix_ns = unix_ns;
}

void tdm_clock_sim_advance(tdm_clock_sim *sim, int64_t ns) {
    sim->monotonic_ns += ns;
    sim->unix_ns += ns;
}
