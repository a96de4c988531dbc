/* SPDX-License-Identifier: Apache-2.0
 *
 * The cuts: top-n-sigma, top-p, min-p and XTC (top-k is tdm_row_keep_top). Probabilities are those
 * at temperature 1 over the candidates that the cuts before have left, as in mlx-lm. All but XTC
 * keep a best-first prefix. */
#include "sample/row.h"

#include <float.h>
#include <math.h>

#define BINS 1024
#define BINS_PER_NAT 16.0F

/* Population mean and deviation of the logits above -inf, as llama.cpp counts them. */
void tdm_row_cut_top_n_sigma(tdm_row *row, float n_sigma) {
    double sum = 0.0;
    double squares = 0.0;
    double n = 0.0;
    for (int32_t i = 0; i < row->n_vocab; i++) {
        const bool is_in = row->logits[i] >= -FLT_MAX;
        sum += is_in ? (double)row->logits[i] : 0.0;
        n += is_in ? 1.0 : 0.0;
    }
    const double mean = sum / n; /* n >= 1: a loaded row has a candidate */
    for (int32_t i = 0; i < row->n_vocab; i++) {
        const double d = row->logits[i] >= -FLT_MAX ? (double)row->logits[i] - mean : 0.0;
        squares += d * d;
    }
    tdm_row_keep_at_least(
        row, tdm_float_at_least((double)row->max - (double)n_sigma * sqrt(squares / n)));
}

/* Which stretch of 1/16 nat below the best a logit lies in. Never falls as the logit falls. */
static int32_t bin_of(float logit, float max) {
    const float at = (max - logit) * BINS_PER_NAT;
    return at < (float)(BINS - 1) ? (int32_t)at : BINS - 1;
}

/* Mass by bin; bins of two alternating sets, because a flat row adds to one bin again and again. */
static double fill_bins(const tdm_row *row, double *bin) {
    double odd[BINS] = {0};
    double sum = 0.0;
    float e[TDM_ROW_BLOCK];
    for (int32_t at = 0; at < row->n_vocab; at += TDM_ROW_BLOCK) {
        const float *x = row->logits + at;
        const int32_t left = row->n_vocab - at;
        const int32_t n = left < TDM_ROW_BLOCK ? left : TDM_ROW_BLOCK;
        tdm_exp_block(e, x, n, row->max, 1.0F);
        for (int32_t i = 0; i < n; i++) {
            double *set = (i & 1) != 0 ? odd : bin;
            set[bin_of(x[i], row->max)] += (double)e[i];
        }
    }
    for (int32_t i = 0; i < BINS; i++) {
        bin[i] += odd[i];
        sum += bin[i];
    }
    return sum;
}

/* One pass finds the bin in which the mass is reached; only that bin is looked into closer. */
static void cut_top_p_dense(tdm_row *row, double top_p) {
    double bin[BINS] = {0};
    const double target = top_p * fill_bins(row, bin);
    double before = 0.0;
    int32_t last = 0; /* the bin of the boundary */
    size_t n_sure = 0;
    size_t n = 0;
    while (last < BINS - 1 && before + bin[last] < target) {
        before += bin[last++];
    }
    for (int32_t b = 0; b < row->n_blocks; b++) {
        if (bin_of(row->block_max[b], row->max) > last) {
            continue;
        }
        const int32_t at = b * TDM_ROW_BLOCK;
        const int32_t end = row->n_vocab - at < TDM_ROW_BLOCK ? row->n_vocab : at + TDM_ROW_BLOCK;
        for (int32_t i = at; i < end; i++) {
            const int32_t bin_idx = bin_of(row->logits[i], row->max);
            if (bin_idx > last || !(row->logits[i] >= -FLT_MAX)) {
                continue;
            }
            row->keys[n] = tdm_row_key(row->logits[i], i);
            if (bin_idx < last) { /* the sure ones come first */
                const uint64_t key = row->keys[n];
                row->keys[n] = row->keys[n_sure];
                row->keys[n_sure++] = key;
            }
            n++;
        }
    }
    row->n_keys =
        n_sure + tdm_keys_select(row->keys + n_sure, n - n_sure, target - before, row->max, true);
    row->is_dense = false;
}

void tdm_row_cut_top_p(tdm_row *row, float top_p) {
    if (row->is_dense) {
        cut_top_p_dense(row, (double)top_p);
        return;
    }
    const double target = (double)top_p * tdm_row_mass(row, 1.0F);
    row->n_keys = tdm_keys_select(row->keys, row->n_keys, target, row->max, true);
}

void tdm_row_cut_min_p(tdm_row *row, float min_p, int32_t min_keep) {
    const float threshold = tdm_float_at_least((double)row->max + log((double)min_p));
    const size_t least = (size_t)min_keep;
    if (least > 1 && tdm_row_count_at_least(row, threshold, least) < least) {
        tdm_row_keep_top(row, least);
    } else {
        tdm_row_keep_at_least(row, threshold);
    }
}

static bool is_listed(const int32_t *ids, size_t n, int32_t id) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

/* The smallest logit whose exp(logit - max) is above bar; +inf when there is none. */
static float least_above(const tdm_row *row, float bar) {
    const double near = bar > 0.0F ? (double)row->max + log((double)bar) - 0.01 : -HUGE_VAL;
    const size_t n = row->is_dense ? (size_t)row->n_vocab : row->n_keys;
    float least = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const float v = row->is_dense ? row->logits[i] : tdm_row_key_logit(row->keys[i]);
        if ((double)v > near && v < least && tdm_exp_neg(v - row->max) > bar) {
            least = v;
        }
    }
    return least;
}

void tdm_row_cut_xtc(tdm_row *row, float threshold, const int32_t *exempt, size_t n_exempt) {
    const float least = least_above(row, (float)((double)threshold * tdm_row_mass(row, 1.0F)));
    if (row->is_dense) {
        for (int32_t i = 0; i < row->n_vocab; i++) {
            if (row->logits[i] > least && !is_listed(exempt, n_exempt, i)) {
                row->logits[i] = -INFINITY;
            }
        }
        tdm_row_measure(row);
        return;
    }
    size_t kept = 0;
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < row->n_keys; i++) {
        const uint64_t key = row->keys[i];
        if (tdm_row_key_logit(key) > least && !is_listed(exempt, n_exempt, tdm_row_key_id(key))) {
            continue;
        }
        best = key < best ? key : best;
        row->keys[kept++] = key;
    }
    row->n_keys = kept;
    row->max = tdm_row_key_logit(best);
    row->max_id = tdm_row_key_id(best);
}
