/* SPDX-License-Identifier: Apache-2.0
 *
 * The set's arithmetic peaks on every thread at once, for the probe. */
#include "backend/cpu/cpu_priv.h"

typedef struct peak_run {
    const tdm_cpu *cpu;
    tdm_peak kind;
    int64_t n_rounds;
    double operations[256]; /* of each member; a team has no more */
} peak_run;

static void peak_member(void *arg, int32_t idx, int32_t n_members) {
    peak_run *run = arg;
    (void)n_members;
    run->operations[idx] = run->cpu->kernels.peaks[run->kind](run->n_rounds);
}

double tdm_cpu_peak(tdm_backend *be, tdm_peak kind, int64_t n_rounds) {
    peak_run run = {.cpu = tdm_cpu_of(be), .kind = kind, .n_rounds = n_rounds};
    double sum = 0.0;
    if (kind >= TDM_PEAK_COUNT || run.cpu->kernels.peaks[kind] == NULL) {
        return 0.0;
    }
    tdm_team_run(be->team, peak_member, &run);
    for (int32_t i = 0; i < run.cpu->n_threads; ++i) {
        sum += run.operations[i];
    }
    return sum;
}
