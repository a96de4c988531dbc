/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts at work. Tokens are grouped by expert, so that each expert's weights are read once a step;
 * each token's results are kept apart and summed in the order of its own choice, so that its bits
 * depend neither on mates nor on chunks (law L1: a linear's rows are independent).
 *
 *   h -> router -> choose -> by expert: gather -> gate, up -> act * up -> down -> by token: sum
 *
 * Choosing, gathering and summing are copies and a few sums a token; no backend has operations for
 * them, so they run here, on the owner thread. */
#include "model/blocks/experts.h"

#include "tensor/ops.h"

#include <math.h>
#include <string.h>

static bool is_chosen(const int32_t *ids, int32_t n, int32_t id) {
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

void tdm_experts_choose(const float *logits, int32_t n, int32_t n_used, bool is_renormalized,
                        int32_t *ids, float *weights) {
    double sum = 0.0;
    double largest = 0.0;
    for (int32_t r = 0; r < n_used; r++) {
        int32_t best = -1;
        for (int32_t e = 0; e < n; e++) {
            if ((best < 0 || logits[e] > logits[best]) && !is_chosen(ids, r, e)) {
                best = e;
            }
        }
        ids[r] = best;
    }
    largest = (double)logits[ids[0]];
    for (int32_t i = 0; i < (is_renormalized ? n_used : n); i++) {
        sum += exp((double)logits[is_renormalized ? ids[i] : i] - largest);
    }
    for (int32_t r = 0; r < n_used; r++) {
        weights[r] = (float)(exp((double)logits[ids[r]] - largest) / sum);
    }
}

/* Fills choice, weights, and the slots of each expert: rows of results, in the order of tokens.
 * first[e] .. first[e + 1] are expert e's. */
static void route(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const tdm_linear_part part = {&block->router.weight, block->router.bias, x->logits, block->n,
                                  false};
    int64_t n_slots = ctx->n_tokens * block->n_used;
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, &part, 1);
    for (int64_t t = 0; t < ctx->n_tokens; t++) {
        tdm_experts_choose(x->logits + t * block->n, block->n, block->n_used,
                           block->is_renormalized, x->choice + t * block->n_used,
                           x->weights + t * block->n_used);
    }
    memset(x->first, 0, ((size_t)block->n + 1) * sizeof *x->first);
    for (int64_t i = 0; i < n_slots; i++) {
        x->first[x->choice[i] + 1]++;
    }
    for (int32_t e = 0; e < block->n; e++) {
        x->first[e + 1] += x->first[e];
    }
    /* Placing moves first[e] to its end, which is the next one's start; then it is moved back. */
    for (int64_t i = 0; i < n_slots; i++) {
        int32_t slot = x->first[x->choice[i]]++;
        x->slot_of[i] = slot;
        x->token_of[slot] = (int32_t)(i / block->n_used);
    }
    memmove(x->first + 1, x->first, (size_t)block->n * sizeof *x->first);
    x->first[0] = 0;
}

static void run_experts(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    size_t hidden = (size_t)ctx->dims->hidden;
    for (int32_t e = 0; e < block->n; e++) {
        int64_t n = x->first[e + 1] - x->first[e];
        float *results = x->results + (size_t)x->first[e] * hidden;
        for (int64_t i = 0; i < n; i++) {
            memcpy(x->gathered + (size_t)i * hidden,
                   h + (size_t)x->token_of[x->first[e] + i] * hidden, hidden * sizeof *h);
        }
        tdm_mlp_run(&block->experts[e], ctx, x->gathered, n, (tdm_block_out){results, false});
    }
}

/* shared [n, hidden] times the sigmoid of its gate. */
static void run_shared(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const tdm_linear_part part = {&block->shared_gate.weight, NULL, x->logits, 1, false};
    int64_t hidden = ctx->dims->hidden;
    tdm_mlp_run(&block->shared, ctx, h, ctx->n_tokens, (tdm_block_out){x->shared, false});
    tdm_op_linear(ctx->backend, h, hidden, ctx->n_tokens, &part, 1);
    for (int64_t t = 0; t < ctx->n_tokens; t++) {
        float gate = (float)(1.0 / (1.0 + exp(-(double)x->logits[t])));
        for (int64_t i = 0; i < hidden; i++) {
            x->shared[t * hidden + i] *= gate;
        }
    }
}

/* The sum of a token's results in the order of its choice, then the shared expert's. */
static void combine(const tdm_experts_block *block, const tdm_step_ctx *ctx, int64_t token,
                    float *sum) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    int64_t hidden = ctx->dims->hidden;
    memset(sum, 0, (size_t)hidden * sizeof *sum);
    for (int32_t r = 0; r < block->n_used; r++) {
        int64_t i = token * block->n_used + r;
        const float *result = x->results + x->slot_of[i] * hidden;
        for (int64_t j = 0; j < hidden; j++) {
            sum[j] += x->weights[i] * result[j];
        }
    }
    for (int64_t j = 0; block->has_shared && j < hidden; j++) {
        sum[j] += x->shared[token * hidden + j];
    }
}

void tdm_experts_forward(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h,
                         tdm_block_out out) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    int64_t hidden = ctx->dims->hidden;
    route(block, ctx, h);
    run_experts(block, ctx, h);
    if (block->has_shared) {
        run_shared(block, ctx, h);
    }
    float *sums = out.is_added ? x->gathered : out.to; /* gathered is free by now */
    for (int64_t t = 0; t < ctx->n_tokens; t++) {
        combine(block, ctx, t, sums + t * hidden);
    }
    if (out.is_added) {
        tdm_op_add(ctx->backend, out.to, hidden, sums, hidden, ctx->n_tokens, hidden);
    }
}
