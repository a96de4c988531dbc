/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of experts: many weights that share out the rows of one x. Groups of few rows are one piece
 * of work, in which the team draws pieces of the panels of any group, so that none keeps a thread
 * waiting. A group that fills wide products has work enough for the team and goes by itself, as do
 * weights whose columns have an order of their own. Owns the split and nothing of the arithmetic. */
#include "backend/cpu/cpu_priv.h"

#include <stdatomic.h>

/* As in linear.c. */
#define WORK_INLINE 16384

/* Panels of a piece, at most: single rows stream weights, and long streams suit the prefetchers. */
#define PIECE_PANELS 8
#define PIECE_PANELS_SINGLE 48

typedef struct groups_run {
    tdm_cpu *cpu;
    const float *x; /* row first of the call */
    int64_t ld_x;
    int64_t first;
    int64_t n;
    int64_t n_in;
    const tdm_linear_group *groups;
    bool any_int8;
    bool any_bf16;
    int64_t n_panels;
    int64_t chunk_panels;
    atomic_llong next;
} groups_run;

static int64_t panels_of(const tdm_weight *weight) {
    return (weight->n_out + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS;
}

static void round_member(void *arg, int32_t idx, int32_t n_members) {
    const groups_run *run = arg;
    const tdm_cpu_kernels *kernels = &run->cpu->kernels;
    const tdm_cpu_x16 *x16 = &run->cpu->x16;
    const tdm_cpu_x8 *x8 = &run->cpu->x8;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(run->n, idx, n_members, &begin, &end);
    for (int64_t t = begin; t < end && run->any_int8; ++t) {
        kernels->quantize(run->x + t * run->ld_x, run->n_in, x8->q + t * x8->ld_q,
                          x8->blocks + t * x8->ld_blocks);
    }
    for (int64_t t = begin; t < end && run->any_bf16; ++t) {
        kernels->round_bf16(run->x + t * run->ld_x, run->n_in, x16->q + t * x16->ld, x16->ld);
    }
}

/* Panels [begin, end) of a part, whose own are counted from 0. */
static void run_part(const groups_run *run, const tdm_linear_group *g, int32_t part, int64_t begin,
                     int64_t end, void *scratch) {
    const tdm_linear_part *p = &g->parts[part];
    const tdm_cpu_linear_job job = {.weight = p->weight,
                                    .x = run->x,
                                    .ld_x = run->ld_x,
                                    .x8 = &run->cpu->x8,
                                    .x16 = &run->cpu->x16,
                                    .ahead_bytes = run->cpu->kernels.ahead_bytes,
                                    .bias = p->bias,
                                    .out = p->out + run->first * p->ld_out,
                                    .ld_out = p->ld_out,
                                    .is_added = p->is_added};
    bool is_int8 = tdm_cpu_is_int8(run->cpu, p->weight);
    bool is_bf16 = tdm_cpu_is_bf16(run->cpu, p->weight);
    int64_t row0 = begin * TDM_CPU_PANEL_ROWS;
    int64_t row1 = tdm_cpu_min(end * TDM_CPU_PANEL_ROWS, p->weight->n_out);
    int64_t step = tdm_cpu_token_step(run->cpu, run->n_in, is_int8 || is_bf16);
    int64_t last = g->row0 - run->first + g->n;
    for (int64_t t = g->row0 - run->first; t < last; t += step) {
        int64_t t1 = tdm_cpu_min(last, t + step);
        if (is_int8) {
            run->cpu->kernels.linear_i8(&job, row0, row1, t, t1, scratch);
        } else if (is_bf16) {
            run->cpu->kernels.linear_bf16(&job, row0, row1, t, t1, scratch);
        } else {
            run->cpu->kernels.linear_f32(&job, row0, row1, t, t1, scratch);
        }
    }
}

/* Draws pieces of the panels of all groups in a row; the cursor only moves forward, since what is
 * drawn does. */
static void groups_member(void *arg, int32_t idx, int32_t n_members) {
    groups_run *run = arg;
    void *scratch = tdm_cpu_thread_scratch(run->cpu, idx);
    int64_t first = 0; /* panel at which the part under the cursor begins */
    int32_t group = 0;
    int32_t part = 0;
    (void)n_members;
    for (;;) {
        int64_t begin =
            atomic_fetch_add_explicit(&run->next, run->chunk_panels, memory_order_relaxed);
        int64_t end = tdm_cpu_min(begin + run->chunk_panels, run->n_panels);
        while (begin < end) {
            const tdm_linear_group *g = &run->groups[group];
            int64_t n = panels_of(g->parts[part].weight);
            if (begin < first + n) {
                int64_t to = tdm_cpu_min(end, first + n);
                run_part(run, g, part, begin - first, to - first, scratch);
                begin = to;
            }
            if (begin >= first + n && begin < run->n_panels) {
                first += n;
                part = part + 1 < g->n_parts ? part + 1 : 0;
                group += part == 0 ? 1 : 0;
            }
        }
        if (end >= run->n_panels) {
            return;
        }
    }
}

static void run_shared(tdm_backend *be, const float *x, int64_t ld_x,
                       const tdm_linear_group *groups, int32_t n_groups) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    const tdm_linear_group *last = &groups[n_groups - 1];
    int64_t first = groups[0].row0;
    int64_t work = 0;
    groups_run run = {.cpu = cpu,
                      .x = x + first * ld_x,
                      .ld_x = ld_x,
                      .first = first,
                      .n = last->row0 + last->n - first,
                      .n_in = groups[0].parts[0].weight->n_in,
                      .groups = groups};
    TDM_CHECK(run.n <= cpu->n_max && run.n_in <= cpu->width_max);
    for (int32_t i = 0; i < n_groups; ++i) {
        for (int32_t p = 0; p < groups[i].n_parts; ++p) {
            const tdm_weight *weight = groups[i].parts[p].weight;
            run.any_int8 = run.any_int8 || tdm_cpu_is_int8(cpu, weight);
            run.any_bf16 = run.any_bf16 || tdm_cpu_is_bf16(cpu, weight);
            run.n_panels += panels_of(weight);
            work += weight->n_out * run.n_in * groups[i].n;
        }
    }
    if (run.any_bf16) {
        cpu->x16.ld = tdm_cpu_x16_ld(run.n_in);
    }
    if (run.any_int8 || run.any_bf16) {
        if (run.n == 1 || run.n * run.n_in < WORK_INLINE) {
            round_member(&run, 0, 1);
        } else {
            tdm_team_run(be->team, round_member, &run);
        }
    }
    int64_t share = run.n_panels / ((int64_t)cpu->n_threads * 4);
    run.chunk_panels =
        tdm_cpu_max(1, tdm_cpu_min(run.n == n_groups ? PIECE_PANELS_SINGLE : PIECE_PANELS, share));
    atomic_init(&run.next, 0);
    if (cpu->n_threads == 1 || work < WORK_INLINE) {
        groups_member(&run, 0, 1);
    } else {
        tdm_team_run(be->team, groups_member, &run);
    }
}

static void run_alone(tdm_backend *be, const float *x, int64_t ld_x, const tdm_linear_group *g) {
    tdm_linear_part parts[2] = {g->parts[0], g->parts[1]};
    parts[0].out += g->row0 * parts[0].ld_out;
    if (g->n_parts > 1) {
        parts[1].out += g->row0 * parts[1].ld_out;
    }
    tdm_cpu_linear(be, x + g->row0 * ld_x, ld_x, g->n, parts, g->n_parts);
}

static bool goes_alone(const tdm_cpu *cpu, const tdm_linear_group *g) {
    bool is_ordered = false;
    for (int32_t p = 0; p < g->n_parts; ++p) {
        is_ordered = is_ordered || g->parts[p].weight->columns != NULL;
    }
    const bool has_wide = cpu->kernels.linear_i8_wide != NULL || cpu->kernels.has_eights ||
                          cpu->kernels.linear_bf16_wide != NULL;
    return is_ordered || (has_wide && g->n >= TDM_CPU_GROUP_TOKENS);
}

void tdm_cpu_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                           const tdm_linear_group *groups, int32_t n_groups) {
    const tdm_cpu *cpu = tdm_cpu_of(be);
    int32_t first = 0; /* of the neighbours that go together */
    for (int32_t i = 0; i <= n_groups; ++i) {
        bool is_alone = i < n_groups && goes_alone(cpu, &groups[i]);
        if (i < n_groups && !is_alone) {
            continue;
        }
        if (first < i) {
            run_shared(be, x, ld_x, groups + first, i - first);
        }
        if (is_alone) {
            run_alone(be, x, ld_x, &groups[i]);
        }
        first = i + 1;
    }
}
