/* SPDX-License-Identifier: Apache-2.0
 *
 * Row primitives: maxima, exponential sums, and selection of the best without sorting. Inner loops
 * keep their partial results in small arrays of lanes, so that a compiler can use vectors without
 * being allowed to reorder anything: the order of every sum is the one written here. */
#include "sample/row.h"

#include <float.h>
#include <math.h>

#define LANES 16
#define BINS 256
#define SMALL 24

/* Largest of n values, NaN left out; -inf when there is none. */
static float block_maximum(const float *x, int32_t n) {
    float lane[LANES];
    float best = -INFINITY;
    int32_t i = 0;
    for (int j = 0; j < LANES; j++) {
        lane[j] = -INFINITY;
    }
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
        }
    }
    for (; i < n; i++) {
        best = x[i] > best ? x[i] : best;
    }
    for (int j = 0; j < LANES; j++) {
        best = lane[j] > best ? lane[j] : best;
    }
    return best;
}

int32_t tdm_argmax(const float *x, int32_t n, float *out_max) {
    const int32_t step = 1024; /* the winner's stretch is still in the nearest cache */
    float best = -INFINITY;
    int32_t start = 0;
    int32_t id = 0;
    for (int32_t i = 0; i < n; i += step) {
        const float m = block_maximum(x + i, n - i < step ? n - i : step);
        if (m > best) {
            best = m;
            start = i;
        }
    }
    *out_max = best;
    if (best > -INFINITY) {
        for (id = start; !(x[id] >= best);) {
            id++;
        }
    }
    return id;
}

void tdm_exp_block(float *out, const float *x, int32_t n, float max, float inv_t) {
    for (int32_t i = 0; i < n; i++) {
        const float low = x[i] > -FLT_MAX ? x[i] : -FLT_MAX; /* NaN too */
        const float v = low < FLT_MAX ? low : FLT_MAX;
        out[i] = tdm_exp_neg((v - max) * inv_t);
    }
}

double tdm_exp_sum(const float *x, int32_t n, float max, float inv_t) {
    double sum[8] = {0};
    float e[TDM_ROW_BLOCK];
    for (int32_t at = 0; at < n; at += TDM_ROW_BLOCK) {
        const int32_t len = n - at < TDM_ROW_BLOCK ? n - at : TDM_ROW_BLOCK;
        tdm_exp_block(e, x + at, len, max, inv_t);
        for (int32_t i = len; i < TDM_ROW_BLOCK; i++) {
            e[i] = 0.0F;
        }
        for (int32_t i = 0; i < TDM_ROW_BLOCK; i += 8) {
            for (int j = 0; j < 8; j++) {
                sum[j] += (double)e[i + j];
            }
        }
    }
    return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

float tdm_float_at_least(double x) {
    const float f = (float)x;
    return (double)f < x ? nextafterf(f, INFINITY) : f;
}

void tdm_keys_sort(uint64_t *keys, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const uint64_t key = keys[i];
        size_t j = i;
        for (; j > 0 && keys[j - 1] > key; j--) {
            keys[j] = keys[j - 1];
        }
        keys[j] = key;
    }
}

static double key_weight(uint64_t key, float max, bool by_mass) {
    return by_mass ? (double)tdm_exp_neg(tdm_row_key_logit(key) - max) : 1.0;
}

/* Moves the keys of [lo, hi) whose digit is below `digit` to the front and those that have it
 * behind them. Returns the number of the former; *out_same is the number of the latter. */
static size_t partition(uint64_t *keys, size_t lo, size_t hi, int shift, uint64_t digit,
                        size_t *out_same) {
    size_t front = lo;
    size_t back = hi;
    for (size_t i = lo; i < back;) {
        const uint64_t d = (keys[i] >> shift) & (BINS - 1);
        const uint64_t key = keys[i];
        if (d < digit) {
            keys[i++] = keys[front];
            keys[front++] = key;
        } else if (d > digit) {
            keys[i] = keys[--back];
            keys[back] = key;
        } else {
            i++;
        }
    }
    *out_same = back - front;
    return front - lo;
}

/* A radix descent, most significant digit first: [0, lo) is in, [lo, hi) holds the boundary. */
size_t tdm_keys_select(uint64_t *keys, size_t n, double target, float max, bool by_mass) {
    double weight = 0.0;
    size_t lo = 0;
    size_t hi = n;
    for (int shift = 56; shift >= 0 && hi - lo > SMALL; shift -= 8) {
        double bin[BINS] = {0};
        size_t same = 0;
        uint64_t digit = 0;
        for (size_t i = lo; i < hi; i++) {
            bin[(keys[i] >> shift) & (BINS - 1)] += key_weight(keys[i], max, by_mass);
        }
        while (digit < BINS && weight + bin[digit] < target) {
            weight += bin[digit++];
        }
        if (digit == BINS) { /* the weight of all of them does not reach it */
            return hi;
        }
        lo += partition(keys, lo, hi, shift, digit, &same);
        hi = lo + same;
    }
    tdm_keys_sort(keys + lo, hi - lo);
    while (lo < hi && weight < target) {
        weight += key_weight(keys[lo++], max, by_mass);
    }
    return lo;
}

tdm_status tdm_row_init(tdm_row *row, const tdm_alloc *alloc, int32_t n_vocab, tdm_error *err) {
    const size_t n = (size_t)n_vocab;
    const size_t n_blocks = (n + TDM_ROW_BLOCK - 1) / TDM_ROW_BLOCK;
    memset(row, 0, sizeof *row);
    row->n_vocab = n_vocab;
    row->n_blocks = (int32_t)n_blocks;
    row->block_max = tdm_mem_calloc(alloc, n_blocks, sizeof *row->block_max);
    row->keys = tdm_mem_calloc(alloc, n, sizeof *row->keys);
    row->marks = tdm_mem_calloc(alloc, n_blocks, sizeof *row->marks);
    if (row->block_max == NULL || row->keys == NULL || row->marks == NULL) {
        tdm_row_deinit(row, alloc);
        return tdm_fail_nomem(err, "the sampler's scratch");
    }
    return TDM_OK;
}

void tdm_row_deinit(tdm_row *row, const tdm_alloc *alloc) {
    const size_t n_blocks = (size_t)row->n_blocks;
    tdm_mem_free(alloc, row->block_max, n_blocks * sizeof *row->block_max);
    tdm_mem_free(alloc, row->keys, (size_t)row->n_vocab * sizeof *row->keys);
    tdm_mem_free(alloc, row->marks, n_blocks * sizeof *row->marks);
    memset(row, 0, sizeof *row);
}

void tdm_row_measure(tdm_row *row) {
    int32_t best_block = 0;
    row->max = -INFINITY;
    for (int32_t b = 0; b < row->n_blocks; b++) {
        const int32_t at = b * TDM_ROW_BLOCK;
        const int32_t left = row->n_vocab - at;
        row->block_max[b] =
            block_maximum(row->logits + at, left < TDM_ROW_BLOCK ? left : TDM_ROW_BLOCK);
        if (row->block_max[b] > row->max) {
            row->max = row->block_max[b];
            best_block = b;
        }
    }
    row->max_id = 0;
    if (row->max > -INFINITY) {
        for (row->max_id = best_block * TDM_ROW_BLOCK; row->logits[row->max_id] < row->max;) {
            row->max_id++;
        }
    }
}

bool tdm_row_load(tdm_row *row, float *logits) {
    for (int32_t i = 0; i < row->n_vocab; i++) {
        float v = logits[i];
        v = v >= -FLT_MAX ? v : -INFINITY; /* NaN too */
        logits[i] = v < FLT_MAX ? v : FLT_MAX;
    }
    row->logits = logits;
    row->is_dense = true;
    row->n_keys = 0;
    tdm_row_measure(row);
    return row->max > -INFINITY;
}

/* Dense to keys: every logit at or above threshold and above -inf. */
static void collect(tdm_row *row, float threshold) {
    size_t n = 0;
    const float least = threshold >= -FLT_MAX ? threshold : -FLT_MAX;
    for (int32_t b = 0; b < row->n_blocks; b++) {
        if (!(row->block_max[b] >= least)) {
            continue;
        }
        const int32_t at = b * TDM_ROW_BLOCK;
        const int32_t end = row->n_vocab - at < TDM_ROW_BLOCK ? row->n_vocab : at + TDM_ROW_BLOCK;
        for (int32_t i = at; i < end; i++) {
            row->keys[n] = tdm_row_key(row->logits[i], i);
            n += row->logits[i] >= least ? 1 : 0;
        }
    }
    row->n_keys = n;
    row->is_dense = false;
}

/* Dense to keys that hold the k best and at most k blocks more than them: the k-th largest block
 * maximum is a floor under the k-th largest logit. */
static void collect_about(tdm_row *row, size_t k) {
    const size_t n_blocks = (size_t)row->n_blocks;
    float floor = -INFINITY;
    if (k < n_blocks) {
        for (size_t b = 0; b < n_blocks; b++) {
            row->marks[b] = tdm_row_key(row->block_max[b], (int32_t)b);
        }
        const size_t kept = tdm_keys_select(row->marks, n_blocks, (double)k, 0.0F, false);
        uint64_t worst = 0;
        for (size_t i = 0; i < kept; i++) {
            worst = row->marks[i] > worst ? row->marks[i] : worst;
        }
        floor = tdm_row_key_logit(worst);
    }
    collect(row, floor);
}

void tdm_row_keep_at_least(tdm_row *row, float threshold) {
    if (row->is_dense) {
        collect(row, threshold);
        return;
    }
    size_t n = 0;
    for (size_t i = 0; i < row->n_keys; i++) {
        const uint64_t key = row->keys[i];
        row->keys[n] = key;
        n += tdm_row_key_logit(key) >= threshold ? 1 : 0;
    }
    row->n_keys = n;
}

void tdm_row_keep_top(tdm_row *row, size_t k) {
    if (row->is_dense) {
        collect_about(row, k);
    }
    if (k < row->n_keys) {
        row->n_keys = tdm_keys_select(row->keys, row->n_keys, (double)k, row->max, false);
    }
}

size_t tdm_row_count_at_least(const tdm_row *row, float threshold, size_t cap) {
    size_t n = 0;
    if (!row->is_dense) {
        for (size_t i = 0; i < row->n_keys && n < cap; i++) {
            n += tdm_row_key_logit(row->keys[i]) >= threshold ? 1 : 0;
        }
        return n;
    }
    const float least = threshold >= -FLT_MAX ? threshold : -FLT_MAX;
    for (int32_t i = 0; i < row->n_vocab && n < cap; i++) {
        n += row->logits[i] >= least ? 1 : 0;
    }
    return n;
}

double tdm_row_mass(const tdm_row *row, float inv_t) {
    double sum = 0.0;
    if (row->is_dense) {
        return tdm_exp_sum(row->logits, row->n_vocab, row->max, inv_t);
    }
    for (size_t i = 0; i < row->n_keys; i++) {
        sum += (double)tdm_exp_neg((tdm_row_key_logit(row->keys[i]) - row->max) * inv_t);
    }
    return sum;
}
