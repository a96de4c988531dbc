/* SPDX-License-Identifier: Apache-2.0
 *
 * A sum over 512 MiB, which no processor's last cache holds, cut into one slice a thread. Sixteen
 * sums run side by side, so that the additions never wait for each other. Once plainly and once with
 * lines asked for ahead, as some products do, and the faster counts: on one processor asking gained a
 * sixth and on another it lost a third, and a limit that a product can pass is none. */
#include "cli/probe.h"

#include <stdatomic.h>

#define PROBE_BYTES ((size_t)512 << 20)
#define LANES 16
#define AHEAD_BYTES 2048

typedef struct probe_pass {
    tdm_probe *probe;
    size_t bytes; /* of a pass */
    int32_t n_passes;
    bool is_fill;
    bool is_ahead;
    atomic_uint_fast64_t sum;
} probe_pass;

static void add(const uint64_t *data, size_t n_blocks, uint64_t sums[LANES]) {
    for (size_t i = 0; i < n_blocks; i++, data += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            sums[lane] += data[lane];
        }
    }
}

static void add_ahead(const uint64_t *data, size_t n_blocks, uint64_t sums[LANES]) {
    for (size_t i = 0; i < n_blocks; i++, data += LANES) {
        __builtin_prefetch((const char *)data + AHEAD_BYTES); /* behind the end: no fault */
        __builtin_prefetch((const char *)data + AHEAD_BYTES + 64);
        for (int lane = 0; lane < LANES; lane++) {
            sums[lane] += data[lane];
        }
    }
}

static void pass_member(void *arg, int32_t idx, int32_t n) {
    probe_pass *pass = arg;
    const size_t n_blocks = pass->bytes / (LANES * sizeof(uint64_t));
    const size_t begin = n_blocks * (size_t)idx / (size_t)n;
    const size_t end = n_blocks * ((size_t)idx + 1) / (size_t)n;
    uint64_t *data = pass->probe->data + begin * LANES;
    uint64_t sums[LANES] = {0};
    if (pass->is_fill) {
        for (size_t i = 0; i < (end - begin) * LANES; i++) {
            data[i] = (begin + i) * UINT64_C(0x9E3779B97F4A7C15);
        }
        return;
    }
    for (int32_t p = 0; p < pass->n_passes; p++) {
        if (pass->is_ahead) {
            add_ahead(data, end - begin, sums);
        } else {
            add(data, end - begin, sums);
        }
    }
    for (int lane = 1; lane < LANES; lane++) {
        sums[0] += sums[lane];
    }
    (void)atomic_fetch_add(&pass->sum, sums[0]);
}

tdm_status tdm_probe_init(tdm_probe *probe, const tdm_alloc *alloc, const tdm_clock *clock,
                          tdm_team *team, tdm_error *err) {
    probe_pass pass = {.probe = probe, .bytes = PROBE_BYTES, .is_fill = true};
    *probe = (tdm_probe){.alloc = alloc, .clock = clock, .team = team, .bytes = PROBE_BYTES};
    probe->data = tdm_mem_alloc_aligned(alloc, PROBE_BYTES, TDM_ALIGN_CACHE_LINE);
    if (probe->data == NULL) {
        return tdm_fail_nomem(err, "the probe's buffer of 512 MiB");
    }
    tdm_team_run(team, pass_member, &pass);
    return TDM_OK;
}

void tdm_probe_deinit(tdm_probe *probe) {
    tdm_mem_free_aligned(probe->alloc, probe->data, probe->bytes, TDM_ALIGN_CACHE_LINE);
    probe->data = NULL;
}

static double read_gbs(tdm_probe *probe, size_t bytes, bool is_ahead) {
    const size_t n_passes = bytes > 0 && bytes < probe->bytes ? probe->bytes / bytes : 1;
    probe_pass pass = {.probe = probe,
                       .bytes = n_passes > 1 ? bytes : probe->bytes,
                       .n_passes = (int32_t)n_passes,
                       .is_ahead = is_ahead};
    const int64_t start = probe->clock->monotonic_ns(probe->clock->ctx);
    int64_t ns = 0;
    tdm_team_run(probe->team, pass_member, &pass);
    ns = probe->clock->monotonic_ns(probe->clock->ctx) - start;
    probe->sum = atomic_load(&pass.sum);
    return ns > 0 ? (double)pass.bytes * (double)n_passes / (double)ns : 0.0;
}

double tdm_probe_read_some_gbs(tdm_probe *probe, size_t bytes) {
    const double plain = read_gbs(probe, bytes, false);
    const double ahead = read_gbs(probe, bytes, true);
    return plain > ahead ? plain : ahead;
}

double tdm_probe_read_gbs(tdm_probe *probe) {
    return tdm_probe_read_some_gbs(probe, probe->bytes);
}
