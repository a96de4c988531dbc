/* SPDX-License-Identifier: Apache-2.0
 *
 * Products: puts activations in the order of a weight's columns and rounds them, where a part wants
 * it, then splits output rows over the team. Owns the split and nothing of the arithmetic: which
 * thread, chunk or tile computes an output never changes its bits. */
#include "backend/cpu/cpu_priv.h"

#include <stdatomic.h>
#include <string.h>

/* Below this many multiply-adds a call stays on the calling thread: waking the team costs more. */
#define WORK_INLINE 16384
/* Activations that one pass over a few panels should touch, so that they stay in the second-level
 * cache. */
#define TOKEN_CHUNK_BYTES ((int64_t)256 * 1024)

typedef struct linear_run {
    tdm_cpu *cpu;
    tdm_cpu_linear_job jobs[TDM_LINEAR_PARTS_MAX];
    bool is_int8[TDM_LINEAR_PARTS_MAX];
    bool is_bf16[TDM_LINEAR_PARTS_MAX];
    int64_t panel_end[TDM_LINEAR_PARTS_MAX]; /* running count over the parts */
    int32_t n_parts;
    int64_t n;
    int64_t n_wide;      /* leading tokens that go in whole groups; 0: none */
    int64_t n_wide_bf16; /* the same of BF16 products */
    bool has_eights;     /* the tokens behind n_wide lie in eights */
    int64_t n_panels;
    int64_t chunk_panels; /* 0: one contiguous share a thread */
    bool is_by_part; /* a share of each part: what the thread has packed and so touched first */
    atomic_llong next;
} linear_run;

bool tdm_cpu_is_int8(const tdm_cpu *cpu, const tdm_weight *weight) {
    tdm_block_kind kind = TDM_BLOCK_ONE;
    return cpu->base.tier == TDM_TIER_FAST && !weight->is_exact && tdm_weight_kind(weight, &kind);
}

bool tdm_cpu_is_bf16(const tdm_cpu *cpu, const tdm_weight *weight) {
    return cpu->base.tier == TDM_TIER_FAST && !weight->is_exact && cpu->kernels.is_bf16 != NULL &&
           cpu->kernels.is_bf16(weight);
}

int64_t tdm_cpu_token_step(const tdm_cpu *cpu, int64_t n_in, bool is_narrow) {
    if (!is_narrow && cpu->kernels.f32_tokens > 0) {
        return cpu->kernels.f32_tokens;
    }
    if (is_narrow && cpu->kernels.i8_tokens > 0) {
        return cpu->kernels.i8_tokens;
    }
    return tdm_cpu_max(24, TOKEN_CHUNK_BYTES / (n_in * (is_narrow ? 2 : 4)) / 24 * 24);
}

/* The groups of tokens, in calls as large as wide products allow. */
static void run_wide(const linear_run *run, const tdm_cpu_linear_job *job, int64_t row0,
                     int64_t row1, void *scratch) {
    const int64_t n_groups = run->n_wide / TDM_CPU_GROUP_TOKENS;
    const int64_t rows = (int64_t)TDM_CPU_WIDE_PANELS * TDM_CPU_PANEL_ROWS;
    for (int64_t g = 0; g < n_groups; g += TDM_CPU_WIDE_GROUPS) {
        for (int64_t r = row0; r < row1; r += rows) {
            run->cpu->kernels.linear_i8_wide(job, r, tdm_cpu_min(row1, r + rows), g,
                                             tdm_cpu_min(n_groups, g + TDM_CPU_WIDE_GROUPS),
                                             scratch);
        }
    }
}

/* Panels [begin, end) of the whole call. */
static void run_panels(const linear_run *run, int64_t begin, int64_t end, void *scratch) {
    int64_t first = 0;
    for (int32_t i = 0; i < run->n_parts; ++i) {
        int64_t p0 = tdm_cpu_max(begin, first);
        int64_t p1 = tdm_cpu_min(end, run->panel_end[i]);
        if (p0 < p1) {
            const tdm_cpu_linear_job *job = &run->jobs[i];
            int64_t row0 = (p0 - first) * TDM_CPU_PANEL_ROWS;
            int64_t row1 = tdm_cpu_min((p1 - first) * TDM_CPU_PANEL_ROWS, job->weight->n_out);
            bool is_narrow = run->is_int8[i] || run->is_bf16[i];
            int64_t step = tdm_cpu_token_step(run->cpu, job->weight->n_in, is_narrow);
            int64_t n_wide = run->is_int8[i] ? run->n_wide : 0;
            if (n_wide > 0) {
                run_wide(run, job, row0, row1, scratch);
            }
            if (run->is_bf16[i] && run->n_wide_bf16 > 0) {
                n_wide = run->n_wide_bf16;
                run->cpu->kernels.linear_bf16_wide(job, row0, row1, 0,
                                                   n_wide / TDM_CPU_GROUP_TOKENS, scratch);
            }
            for (int64_t t = n_wide; t < run->n; t += step) {
                int64_t t1 = tdm_cpu_min(run->n, t + step);
                if (run->is_int8[i]) {
                    run->cpu->kernels.linear_i8(job, row0, row1, t, t1, scratch);
                } else if (run->is_bf16[i]) {
                    run->cpu->kernels.linear_bf16(job, row0, row1, t, t1, scratch);
                } else {
                    run->cpu->kernels.linear_f32(job, row0, row1, t, t1, scratch);
                }
            }
        }
        first = run->panel_end[i];
    }
}

static void linear_member(void *arg, int32_t idx, int32_t n_members) {
    linear_run *run = arg;
    void *scratch = tdm_cpu_thread_scratch(run->cpu, idx);
    int64_t begin = 0;
    int64_t end = 0;
    if (run->is_by_part) {
        int64_t first = 0;
        for (int32_t i = 0; i < run->n_parts; ++i) {
            tdm_cpu_share(run->panel_end[i] - first, idx, n_members, &begin, &end);
            run_panels(run, first + begin, first + end, scratch);
            first = run->panel_end[i];
        }
        return;
    }
    if (run->chunk_panels == 0 || n_members == 1) {
        tdm_cpu_share(run->n_panels, idx, n_members, &begin, &end);
        run_panels(run, begin, end, scratch);
        return;
    }
    for (;;) {
        begin = atomic_fetch_add_explicit(&run->next, run->chunk_panels, memory_order_relaxed);
        if (begin >= run->n_panels) {
            return;
        }
        run_panels(run, begin, tdm_cpu_min(begin + run->chunk_panels, run->n_panels), scratch);
    }
}

typedef struct quantize_run {
    tdm_cpu *cpu;
    const float *x;
    int64_t ld_x;
    int64_t n;
    int64_t n_wide; /* as in linear_run, and so the next */
    bool has_eights;
    int64_t n_in;
} quantize_run;

void tdm_cpu_group_put(tdm_cpu_x8_group *group, int32_t t, const int8_t *row,
                       const tdm_cpu_x8_block *blocks, int64_t n_blocks) {
    for (int64_t b = 0; b < n_blocks; ++b) {
        memcpy(group[b].q[t], row + 32 * b, 32);
        group[b].d[t] = blocks[b].d;
        group[b].s[t] = blocks[b].s;
        group[b].first[t] = blocks[b].half_sums[0];
        group[b].last[t] = blocks[b].half_sums[1];
    }
}

void tdm_cpu_eight_put(tdm_cpu_x8_eight *eight, int64_t n, const int8_t *rows, int64_t ld_q,
                       const tdm_cpu_x8_block *blocks, int64_t ld_blocks, int64_t n_blocks) {
    for (int64_t b = 0; b < n_blocks; ++b, ++eight) {
        if (n < TDM_CPU_EIGHT_TOKENS) {
            memset(eight, 0, sizeof *eight);
        }
        for (int64_t t = 0; t < n; ++t) {
            const tdm_cpu_x8_block *block = blocks + t * ld_blocks + b;
            const int8_t *q = rows + t * ld_q + 32 * b;
            for (int j = 0; j < 8; ++j) {
                memcpy(eight->q[j][t], q + 4 * j, 4);
            }
            eight->d[t] = block->d;
            eight->s[t] = block->s;
            eight->sum[t] = block->sum;
            memcpy(eight->half_sums[t], block->half_sums, sizeof block->half_sums);
        }
    }
}

/* Blocks [b0, b1) of tokens [t0, t1), which are eight at most: rounded at their own places and then
 * copied to where the set's products read them. */
static void quantize_blocks(const quantize_run *run, int64_t t0, int64_t t1, int64_t b0,
                            int64_t b1) {
    const tdm_cpu_x8 *x8 = &run->cpu->x8;
    int8_t *q = x8->q + 32 * b0;
    tdm_cpu_x8_block *blocks = x8->blocks + b0;
    const int64_t n = b1 - b0;
    for (int64_t t = t0; t < t1; ++t) {
        run->cpu->kernels.quantize(run->x + t * run->ld_x + 32 * b0, 32 * n, q + t * x8->ld_q,
                                   blocks + t * x8->ld_blocks);
        if (t < run->n_wide) {
            tdm_cpu_group_put(x8->groups + t / TDM_CPU_GROUP_TOKENS * x8->ld_blocks + b0,
                              (int32_t)(t % TDM_CPU_GROUP_TOKENS), q + t * x8->ld_q,
                              blocks + t * x8->ld_blocks, n);
        }
    }
    if (t0 >= run->n_wide && run->has_eights) {
        const int64_t at = (t0 - run->n_wide) / TDM_CPU_EIGHT_TOKENS * (run->n_in / 32) + b0;
        tdm_cpu_eight_put(x8->eights + at, t1 - t0, q + t0 * x8->ld_q, x8->ld_q,
                          blocks + t0 * x8->ld_blocks, x8->ld_blocks, n);
    }
}

/* A thread has a share of the blocks of columns, eight tokens after eight tokens: so eight tokens are
 * work for everybody, and nobody writes into another's lines. */
static void quantize_member(void *arg, int32_t idx, int32_t n_members) {
    const quantize_run *run = arg;
    const int64_t n_blocks = run->n_in / 32;
    const int64_t n_eights = (run->n + TDM_CPU_EIGHT_TOKENS - 1) / TDM_CPU_EIGHT_TOKENS;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(n_eights * n_blocks, idx, n_members, &begin, &end);
    while (begin < end) {
        const int64_t t0 = begin / n_blocks * TDM_CPU_EIGHT_TOKENS;
        const int64_t b0 = begin % n_blocks;
        const int64_t b1 = tdm_cpu_min(n_blocks, b0 + end - begin);
        quantize_blocks(run, t0, tdm_cpu_min(run->n, t0 + TDM_CPU_EIGHT_TOKENS), b0, b1);
        begin += b1 - b0;
    }
}

/* The same for BF16 products. */
static void round_member(void *arg, int32_t idx, int32_t n_members) {
    const quantize_run *run = arg;
    const tdm_cpu_kernels *kernels = &run->cpu->kernels;
    const tdm_cpu_x16 *x16 = &run->cpu->x16;
    const int64_t n_groups = run->n_wide / TDM_CPU_GROUP_TOKENS;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(n_groups, idx, n_members, &begin, &end);
    for (int64_t g = begin; g < end; ++g) {
        const int64_t t = g * TDM_CPU_GROUP_TOKENS;
        kernels->round_bf16_group(run->x + t * run->ld_x, run->ld_x, run->n_in,
                                  x16->q + t * x16->ld);
    }
    tdm_cpu_share(run->n - run->n_wide, idx, n_members, &begin, &end);
    for (int64_t t = run->n_wide + begin; t < run->n_wide + end; ++t) {
        kernels->round_bf16(run->x + t * run->ld_x, run->n_in, x16->q + t * x16->ld, x16->ld);
    }
}

static void round_all(tdm_team *team, tdm_team_fn round, quantize_run *run) {
    if (run->n == 1 || run->n * run->n_in < WORK_INLINE) {
        round(run, 0, 1);
    } else {
        tdm_team_run(team, round, run);
    }
}

typedef struct gather_run {
    const float *x;
    int64_t ld_x;
    int64_t n;
    int64_t n_in;
    const int32_t *columns;
    float *out; /* [n, n_in] */
} gather_run;

static void gather_member(void *arg, int32_t idx, int32_t n_members) {
    const gather_run *run = arg;
    int64_t begin = 0;
    int64_t end = 0;
    tdm_cpu_share(run->n, idx, n_members, &begin, &end);
    for (int64_t t = begin; t < end; ++t) {
        const float *x = run->x + t * run->ld_x;
        float *out = run->out + t * run->n_in;
        for (int64_t i = 0; i < run->n_in; ++i) {
            out[i] = x[run->columns[i]];
        }
    }
}

/* Parts that read their activations in one order. */
static void linear_alike(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                         const tdm_linear_part *parts, int32_t n_parts) {
    tdm_cpu *cpu = tdm_cpu_of(be);
    int64_t n_in = parts[0].weight->n_in;
    linear_run run = {.cpu = cpu, .n_parts = n_parts, .n = n};
    bool any_int8 = false;
    bool any_bf16 = false;
    bool can_widen = cpu->kernels.linear_i8_wide != NULL;
    TDM_CHECK(n <= cpu->n_max && n_in <= cpu->width_max);
    if (parts[0].weight->columns != NULL) {
        TDM_CHECK(cpu->gathered != NULL);
        gather_run gather = {.x = x,
                             .ld_x = ld_x,
                             .n = n,
                             .n_in = n_in,
                             .columns = parts[0].weight->columns,
                             .out = cpu->gathered};
        if (n == 1) {
            gather_member(&gather, 0, 1);
        } else {
            tdm_team_run(be->team, gather_member, &gather);
        }
        x = cpu->gathered;
        ld_x = n_in;
    }
    for (int32_t i = 0; i < n_parts; ++i) {
        const tdm_linear_part *p = &parts[i];
        run.is_int8[i] = tdm_cpu_is_int8(cpu, p->weight);
        run.is_bf16[i] = tdm_cpu_is_bf16(cpu, p->weight);
        any_int8 = any_int8 || run.is_int8[i];
        any_bf16 = any_bf16 || run.is_bf16[i];
        can_widen = can_widen && (!run.is_int8[i] || p->weight->packed != NULL);
        run.jobs[i] = (tdm_cpu_linear_job){.weight = p->weight,
                                           .x = x,
                                           .ld_x = ld_x,
                                           .x8 = &cpu->x8,
                                           .x16 = &cpu->x16,
                                           .ahead_bytes = cpu->kernels.ahead_bytes,
                                           .bias = p->bias,
                                           .out = p->out,
                                           .ld_out = p->ld_out,
                                           .is_added = p->is_added};
        run.n_panels += (p->weight->n_out + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS;
        run.panel_end[i] = run.n_panels;
    }
    if (any_int8) {
        can_widen = can_widen && n >= cpu->kernels.wide_tokens;
        run.n_wide = can_widen ? n / TDM_CPU_GROUP_TOKENS * TDM_CPU_GROUP_TOKENS : 0;
        const int64_t n_few = n - run.n_wide;
        run.has_eights = cpu->kernels.has_eights && n_few > 1 && n_few <= cpu->eights_max;
        quantize_run q = {.cpu = cpu,
                          .x = x,
                          .ld_x = ld_x,
                          .n = n,
                          .n_wide = run.n_wide,
                          .has_eights = run.has_eights,
                          .n_in = n_in};
        round_all(be->team, quantize_member, &q);
        for (int32_t i = 0; i < n_parts && run.has_eights; ++i) {
            run.jobs[i].eights = cpu->x8.eights;
            run.jobs[i].eights_tok = run.n_wide;
        }
    }
    if (any_bf16) {
        const bool has_wide = cpu->kernels.linear_bf16_wide != NULL;
        run.n_wide_bf16 = has_wide ? n / TDM_CPU_GROUP_TOKENS * TDM_CPU_GROUP_TOKENS : 0;
        quantize_run q = {
            .cpu = cpu, .x = x, .ld_x = ld_x, .n = n, .n_wide = run.n_wide_bf16, .n_in = n_in};
        cpu->x16.ld = tdm_cpu_x16_ld(n_in);
        round_all(be->team, round_member, &q);
    }
    if (run.n_panels * TDM_CPU_PANEL_ROWS * n * n_in < WORK_INLINE) {
        linear_member(&run, 0, 1);
        return;
    }
    if (n > 1) {
        int64_t share = run.n_panels / ((int64_t)cpu->n_threads * 8);
        run.chunk_panels = tdm_cpu_max(1, tdm_cpu_min(8, share));
        if (run.n_wide_bf16 > 0) { /* tiles of BF16 take 32 rows at a time */
            run.chunk_panels = (run.chunk_panels + 1) / 2 * 2;
        }
    }
    run.is_by_part = run.chunk_panels == 0 && cpu->n_nodes > 1;
    atomic_init(&run.next, 0);
    tdm_team_run(be->team, linear_member, &run);
}

void tdm_cpu_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                    const tdm_linear_part *parts, int32_t n_parts) {
    int32_t first = 0;
    for (int32_t i = 1; i <= n_parts; ++i) {
        if (i == n_parts || parts[i].weight->columns != parts[first].weight->columns) {
            linear_alike(be, x, ld_x, n, parts + first, i - first);
            first = i;
        }
    }
}
