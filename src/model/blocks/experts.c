/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts at work. Tokens are grouped by expert, so that each expert's weights are read once a step;
 * each token's results are kept apart and summed in the order of its own choice, so that its bits
 * depend neither on mates nor on chunks (law L1: a linear's rows are independent).
 *
 *   h -> router -> choose -> by expert: gather -> gate, up -> act * up -> down -> by token: sum
 *
 * All experts' products of one kind are one call, in which the team shares out panels of any expert;
 * one expert's alone would be too little for many threads. Choosing, gathering and summing are copies
 * and a few sums a row; no backend has operations for them, so rows are shared out here. */
#include "model/blocks/experts.h"

#include "base/thread.h"
#include "model/blocks/routing.h"
#include "tensor/ops.h"

#include <math.h>
#include <string.h>

/* Values below which rows stay on the calling thread: waking the team costs more. */
#define VALUES_INLINE 16384

/* One description serves all loops over rows; a row reads what it needs. */
typedef struct rows_run {
    void (*row)(const struct rows_run *run, int64_t i); /* does row i */
    const tdm_experts_block *block;
    const tdm_step_ctx *ctx;
    const float *from;
    float *to;
    int64_t n;
    int64_t first; /* slot of row 0 */
} rows_run;

static void rows_member(void *arg, int32_t idx, int32_t n_members) {
    const rows_run *run = arg;
    int64_t end = run->n * (idx + 1) / n_members;
    for (int64_t i = run->n * idx / n_members; i < end; i++) {
        run->row(run, i);
    }
}

/* Rows of so many values each; a row's bits do not depend on who does it. */
static void run_rows(rows_run *run, int64_t values) {
    if (run->n == 1 || run->n * values < VALUES_INLINE || run->ctx->backend->team == NULL) {
        rows_member(run, 0, 1);
    } else {
        tdm_team_run(run->ctx->backend->team, rows_member, run);
    }
}

static bool is_chosen(const int32_t *ids, int32_t n, int32_t id) {
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

static void choose_largest(const tdm_router *router, const float *scores, int32_t *ids) {
    const float *correction = router->correction;
    for (int32_t r = 0; r < router->n_used; r++) {
        float largest = 0.0F;
        int32_t best = -1;
        for (int32_t e = 0; e < router->n; e++) {
            float score = correction != NULL ? scores[e] + correction[e] : scores[e];
            if ((best < 0 || score > largest) && !is_chosen(ids, r, e)) {
                best = e;
                largest = score;
            }
        }
        ids[r] = best;
    }
}

/* Renormalized, a softmax over all is the softmax over the chosen. */
static void weigh_softmax(const tdm_router *router, const float *logits, const int32_t *ids,
                          float *weights) {
    double largest = (double)logits[ids[0]];
    double sum = 0.0;
    for (int32_t i = 0; i < (router->is_renormalized ? router->n_used : router->n); i++) {
        sum += exp((double)logits[router->is_renormalized ? ids[i] : i] - largest);
    }
    for (int32_t r = 0; r < router->n_used; r++) {
        weights[r] = (float)(exp((double)logits[ids[r]] - largest) / sum * (double)router->scale);
    }
}

/* 1e-20 is the reference's guard against a sum of zeros. Source: transformers, models/deepseek_v3. */
static void weigh_sigmoid(const tdm_router *router, const float *scores, const int32_t *ids,
                          float *weights) {
    double sum = 1e-20;
    for (int32_t r = 0; r < router->n_used; r++) {
        sum += (double)scores[ids[r]];
    }
    for (int32_t r = 0; r < router->n_used; r++) {
        double share = (double)scores[ids[r]] / (router->is_renormalized ? sum : 1.0);
        weights[r] = (float)(share * (double)router->scale);
    }
}

void tdm_experts_choose(const tdm_router *router, float *scores, int32_t *ids, float *weights) {
    if (router->kind == TDM_ROUTER_SIGMOID) {
        for (int32_t e = 0; e < router->n; e++) {
            scores[e] = (float)(1.0 / (1.0 + exp(-(double)scores[e])));
        }
    }
    if (router->n_groups > 1) {
        tdm_routing_close_groups(scores, router->correction, router->n, router->n_groups,
                                 router->n_groups_used);
    }
    choose_largest(router, scores, ids);
    if (router->kind == TDM_ROUTER_SIGMOID) {
        weigh_sigmoid(router, scores, ids, weights);
    } else {
        weigh_softmax(router, scores, ids, weights);
    }
    for (int32_t r = 0; router->factors != NULL && r < router->n_used; r++) {
        weights[r] *= router->factors[ids[r]];
    }
}

static void choose_row(const rows_run *run, int64_t t) {
    const tdm_experts_scratch *x = &run->ctx->scratch->experts;
    const tdm_router *router = &run->block->router;
    tdm_experts_choose(router, x->logits + t * router->n, x->choice + t * router->n_used,
                       x->weights + t * router->n_used);
}

/* Fills choice, weights, and the slots of each expert: rows of results, in the order of tokens.
 * first[e] .. first[e + 1] are expert e's. */
static void route(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const tdm_router *router = &block->router;
    const tdm_linear_part part = {&router->linear.weight, router->linear.bias, x->logits, router->n,
                                  false};
    int64_t n_slots = ctx->n_tokens * router->n_used;
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, &part, 1);
    rows_run choose = {.row = choose_row, .block = block, .ctx = ctx, .n = ctx->n_tokens};
    run_rows(&choose, (int64_t)router->n * (router->n_used + 8)); /* a score costs some values */
    memset(x->first, 0, ((size_t)router->n + 1) * sizeof *x->first);
    for (int64_t i = 0; i < n_slots; i++) {
        x->first[x->choice[i] + 1]++;
    }
    for (int32_t e = 0; e < router->n; e++) {
        x->first[e + 1] += x->first[e];
    }
    /* Placing moves first[e] to its end, which is the next one's start; then it is moved back. */
    for (int64_t i = 0; i < n_slots; i++) {
        int32_t slot = x->first[x->choice[i]]++;
        x->slot_of[i] = slot;
        x->token_of[slot] = (int32_t)(i / router->n_used);
    }
    memmove(x->first + 1, x->first, (size_t)router->n * sizeof *x->first);
    x->first[0] = 0;
}

static void gather_row(const rows_run *run, int64_t i) {
    const tdm_experts_scratch *x = &run->ctx->scratch->experts;
    size_t hidden = (size_t)run->ctx->dims->hidden;
    memcpy(run->to + (size_t)i * hidden, run->from + (size_t)x->token_of[run->first + i] * hidden,
           hidden * sizeof *run->to);
}

/* Experts [from, to) of a piece. */
typedef struct piece {
    int32_t from, to;
} piece;

/* Products of the piece's touched experts: gate and up, or down. Rows count from the piece's first
 * slot. Returns how many experts they are. */
static int32_t fill_groups(const tdm_experts_block *block, const tdm_step_ctx *ctx, piece p,
                           bool is_down) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const int64_t first = x->first[p.from];
    const int64_t hidden = ctx->dims->hidden;
    int32_t n = 0;
    for (int32_t e = p.from; e < p.to; e++) {
        const tdm_mlp_block *expert = &block->experts[e];
        if (x->first[e] == x->first[e + 1]) {
            continue;
        }
        tdm_linear_group *g = &x->groups[n++];
        *g = (tdm_linear_group){.row0 = x->first[e] - first,
                                .n = x->first[e + 1] - x->first[e],
                                .n_parts = is_down ? 1 : 2};
        if (is_down) {
            g->parts[0] = (tdm_linear_part){&expert->down.weight, expert->down.bias,
                                            x->results + first * hidden, hidden, false};
        } else {
            g->parts[0] = (tdm_linear_part){&expert->gate.weight, expert->gate.bias,
                                            ctx->scratch->gate, expert->inner, false};
            g->parts[1] = (tdm_linear_part){&expert->up.weight, expert->up.bias, ctx->scratch->up,
                                            expert->inner, false};
        }
    }
    return n;
}

/* Inputs are gathered where the results will be: they have been read by then. */
static void run_piece(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h,
                      piece p) {
    const tdm_scratch *s = ctx->scratch;
    int64_t hidden = ctx->dims->hidden;
    int64_t inner = block->experts[0].inner;
    int64_t first = s->experts.first[p.from];
    int64_t n = s->experts.first[p.to] - first;
    float *results = s->experts.results + first * hidden;
    rows_run gather = {
        .row = gather_row, .ctx = ctx, .from = h, .to = results, .n = n, .first = first};
    run_rows(&gather, hidden);
    tdm_op_linear_groups(ctx->backend, results, hidden, s->experts.groups,
                         fill_groups(block, ctx, p, false));
    tdm_op_glu_mul(ctx->backend, &ctx->dims->activation, s->gate, inner, s->gate, inner, s->up,
                   inner, n, inner);
    tdm_op_linear_groups(ctx->backend, s->gate, inner, s->experts.groups,
                         fill_groups(block, ctx, p, true));
}

/* Pieces end with an expert: one alone has no more slots than the step has tokens, and rows_max is
 * at least that. */
static void run_experts(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    piece p = {0, 0};
    while (p.to < block->router.n) {
        p.to++;
        while (p.to < block->router.n && x->first[p.to + 1] - x->first[p.from] <= x->rows_max) {
            p.to++;
        }
        run_piece(block, ctx, h, p);
        p.from = p.to;
    }
}

/* shared [n, hidden], times the sigmoid of its gate where it has one. */
static void run_shared(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const tdm_linear_part part = {&block->shared_gate.weight, NULL, x->logits, 1, false};
    int64_t hidden = ctx->dims->hidden;
    tdm_mlp_run(&block->shared, ctx, h, ctx->n_tokens, (tdm_block_out){x->shared, false});
    if (block->shared_gate.weight.data == NULL) {
        return;
    }
    tdm_op_linear(ctx->backend, h, hidden, ctx->n_tokens, &part, 1);
    for (int64_t t = 0; t < ctx->n_tokens; t++) {
        float gate = (float)(1.0 / (1.0 + exp(-(double)x->logits[t])));
        for (int64_t i = 0; i < hidden; i++) {
            x->shared[t * hidden + i] *= gate;
        }
    }
}

/* The sum of a token's results in the order of its choice, then the shared expert's. */
static void combine_row(const rows_run *run, int64_t token) {
    const tdm_experts_scratch *x = &run->ctx->scratch->experts;
    int64_t hidden = run->ctx->dims->hidden;
    int32_t n_used = run->block->router.n_used;
    float *sum = run->to + token * hidden;
    memset(sum, 0, (size_t)hidden * sizeof *sum);
    for (int32_t r = 0; r < n_used; r++) {
        const float *result = x->results + x->slot_of[token * n_used + r] * hidden;
        float weight = x->weights[token * n_used + r];
        for (int64_t j = 0; j < hidden; j++) {
            sum[j] += weight * result[j];
        }
    }
    for (int64_t j = 0; run->block->has_shared && j < hidden; j++) {
        sum[j] += x->shared[token * hidden + j];
    }
}

void tdm_experts_forward(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h,
                         const float *asked, tdm_block_out out) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    int64_t hidden = ctx->dims->hidden;
    route(block, ctx, asked);
    run_experts(block, ctx, h);
    if (block->has_shared) {
        run_shared(block, ctx, h);
    }
    float *sums = out.is_added ? x->gathered : out.to; /* gathered is free by now */
    rows_run combine = {
        .row = combine_row, .block = block, .ctx = ctx, .to = sums, .n = ctx->n_tokens};
    run_rows(&combine, hidden * block->router.n_used);
    if (out.is_added) {
        tdm_op_add(ctx->backend, out.to, hidden, sums, hidden, ctx->n_tokens, hidden);
    }
}
