/* SPDX-License-Identifier: Apache-2.0
 *
 * The read-only probe: how fast this machine's memory can be read, now, by the same threads.
 * Floor 10. */
#ifndef TDM_CLI_PROBE_H
#define TDM_CLI_PROBE_H

#include "base/clock.h"
#include "base/thread.h"

typedef struct tdm_probe {
    const tdm_alloc *alloc;
    const tdm_clock *clock;
    tdm_team *team; /* borrowed */
    uint64_t *data;
    size_t bytes;
    uint64_t sum; /* of the last pass: so that no compiler leaves the reads out */
} tdm_probe;

/* Allocates and touches a buffer larger than any cache. TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_probe_init(tdm_probe *probe, const tdm_alloc *alloc,
                                        const tdm_clock *clock, tdm_team *team, tdm_error *err);
void tdm_probe_deinit(tdm_probe *probe);
/* The faster of two passes over the buffer, plain and with lines asked for ahead: 10^9 bytes a second. */
double tdm_probe_read_gbs(tdm_probe *probe);
/* The same over its first bytes, again and again: what a cache gives. 0 bytes: all of it. */
double tdm_probe_read_some_gbs(tdm_probe *probe, size_t bytes);

#endif
