/* SPDX-License-Identifier: Apache-2.0
 *
 * The draw: argmax over candidates of logit / T + Gumbel noise, which is a draw from the softmax.
 * The noise of an id is a pure function of (seed, choice, token index, id), so that a truncation,
 * a batch mate or a drafter never shifts who gets which noise.
 *
 * On a dense row most ids lose by far. With u uniform in (0, 1) the noise is g = -log(-log u), and
 * g > d needs -log u < exp(-d); since -log u >= 1 - u, an id with 1 - u >= exp(-d) cannot win.
 * That test costs one multiplication instead of two logarithms and is exact with a margin for
 * rounding. */
#include "base/random.h"
#include "sample/row.h"

#include <float.h>
#include <math.h>

#define COIN_DRAW UINT32_MAX
#define MARGIN 1.0001 /* above the error of tdm_exp_neg */

typedef struct contest {
    double score; /* best so far */
    float logit;
    int32_t id; /* -1: none yet */
} contest;

static float inverse(double temperature) {
    return temperature < 1e-30 ? 1e30F : (float)(1.0 / temperature);
}

static float scaled_exp(float logit, float max, float inv_t) {
    const float d = logit - max;
    return tdm_exp_neg((d > -FLT_MAX ? d : -FLT_MAX) * inv_t);
}

/* (0, 1), never an end: 52 bits and a half are the most that a double holds near 1. */
static double uniform_of(uint64_t bits) {
    return ((double)(bits >> 12) + 0.5) * 0x1.0p-52;
}

static void enter(contest *best, double scaled, float logit, int32_t id, double u) {
    const double score = scaled - log(-log(u));
    if (best->id < 0 || score > best->score || (score == best->score && id < best->id)) {
        best->score = score;
        best->logit = logit;
        best->id = id;
    }
}

/* Draws id0 .. id0 + n - 1 of the stream, id0 even. Two draws share a block of the generator, as
 * tdm_random_u64 has it; the unit test holds the two together. */
static void fill(uint64_t *out, const tdm_stream *stream, int32_t id0, int32_t n) {
    const uint32_t key[2] = {(uint32_t)stream->seed, (uint32_t)(stream->seed >> 32)};
    uint32_t counter[4] = {(uint32_t)id0 >> 1, stream->token_idx, stream->choice, 0};
    for (int32_t i = 0; i < n; i += 2) {
        uint32_t word[4];
        tdm_philox4x32(counter, key, word);
        out[i] = ((uint64_t)word[1] << 32) | word[0];
        out[i + 1] = ((uint64_t)word[3] << 32) | word[2];
        counter[0]++;
    }
}

/* A bound on 1 - u at or below which no u exists: such an id need not draw at all. */
#define HOPELESS 0x1.0p-54

static void draw_dense(const tdm_row *row, double temperature, const tdm_stream *stream,
                       contest *best) {
    uint64_t bits[TDM_ROW_BLOCK];
    float weight[TDM_ROW_BLOCK];
    const float inv_t = inverse(temperature);
    double odds = exp(-best->score) * MARGIN; /* times exp(scaled): the bound on 1 - u */
    for (int32_t b = 0; b < row->n_blocks; b++) {
        const int32_t at = b * TDM_ROW_BLOCK;
        const float *logits = row->logits + at;
        const int32_t left = row->n_vocab - at;
        const int32_t n = left < TDM_ROW_BLOCK ? left : TDM_ROW_BLOCK;
        if ((double)scaled_exp(row->block_max[b], row->max, inv_t) * odds <= HOPELESS) {
            continue;
        }
        fill(bits, stream, at, n);
        tdm_exp_block(weight, logits, n, row->max, inv_t);
        for (int32_t i = 0; i < n; i++) {
            const double u = uniform_of(bits[i]);
            if (1.0 - u >= (double)weight[i] * odds || !(logits[i] > -INFINITY)) {
                continue;
            }
            enter(best, ((double)logits[i] - (double)row->max) / temperature, logits[i], at + i, u);
            odds = exp(-best->score) * MARGIN;
        }
    }
}

static double uniform_of_id(const tdm_stream *stream, int32_t id) {
    return uniform_of(
        tdm_random_u64(stream->seed, stream->choice, stream->token_idx, (uint32_t)id));
}

static void draw_listed(const tdm_row *row, double temperature, const tdm_stream *stream,
                        contest *best) {
    const float inv_t = inverse(temperature);
    double odds = exp(-best->score) * MARGIN;
    for (size_t i = 0; i < row->n_keys; i++) {
        const float logit = tdm_row_key_logit(row->keys[i]);
        const int32_t id = tdm_row_key_id(row->keys[i]);
        const double bound = (double)scaled_exp(logit, row->max, inv_t) * odds;
        if (bound <= HOPELESS) {
            continue;
        }
        const double u = uniform_of_id(stream, id);
        if (1.0 - u < bound) {
            enter(best, ((double)logit - (double)row->max) / temperature, logit, id, u);
            odds = exp(-best->score) * MARGIN;
        }
    }
}

int32_t tdm_row_draw(const tdm_row *row, float temperature, const tdm_stream *stream,
                     float *out_logit) {
    contest best = {.score = 0.0, .logit = 0.0F, .id = -1};
    /* The most likely one first: a good score to beat. */
    enter(&best, 0.0, row->max, row->max_id, uniform_of_id(stream, row->max_id));
    if (row->is_dense) {
        draw_dense(row, (double)temperature, stream, &best);
    } else {
        draw_listed(row, (double)temperature, stream, &best);
    }
    *out_logit = best.logit;
    return best.id;
}

double tdm_stream_coin(const tdm_stream *stream) {
    return tdm_random_f64(stream->seed, stream->choice, stream->token_idx, COIN_DRAW);
}
