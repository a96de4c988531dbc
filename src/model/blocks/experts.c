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

#include "model/blocks/routing.h"
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

/* Fills choice, weights, and the slots of each expert: rows of results, in the order of tokens.
 * first[e] .. first[e + 1] are expert e's. */
static void route(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    const tdm_router *router = &block->router;
    const tdm_linear_part part = {&router->linear.weight, router->linear.bias, x->logits, router->n,
                                  false};
    int64_t n_slots = ctx->n_tokens * router->n_used;
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, &part, 1);
    for (int64_t t = 0; t < ctx->n_tokens; t++) {
        tdm_experts_choose(router, x->logits + t * router->n, x->choice + t * router->n_used,
                           x->weights + t * router->n_used);
    }
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

static void run_experts(const tdm_experts_block *block, const tdm_step_ctx *ctx, const float *h) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    size_t hidden = (size_t)ctx->dims->hidden;
    for (int32_t e = 0; e < block->router.n; e++) {
        int64_t n = x->first[e + 1] - x->first[e];
        float *results = x->results + (size_t)x->first[e] * hidden;
        for (int64_t i = 0; i < n; i++) {
            memcpy(x->gathered + (size_t)i * hidden,
                   h + (size_t)x->token_of[x->first[e] + i] * hidden, hidden * sizeof *h);
        }
        tdm_mlp_run(&block->experts[e], ctx, x->gathered, n, (tdm_block_out){results, false});
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
static void combine(const tdm_experts_block *block, const tdm_step_ctx *ctx, int64_t token,
                    float *sum) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    int64_t hidden = ctx->dims->hidden;
    memset(sum, 0, (size_t)hidden * sizeof *sum);
    for (int32_t r = 0; r < block->router.n_used; r++) {
        int64_t i = token * block->router.n_used + r;
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
                         const float *asked, tdm_block_out out) {
    const tdm_experts_scratch *x = &ctx->scratch->experts;
    int64_t hidden = ctx->dims->hidden;
    route(block, ctx, asked);
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
