/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar products: the law for every other set. f32 products decode a row and sum in f64; int8
 * products follow cpu_priv.h to the letter. */
#include "backend/cpu/cpu_priv.h"

#include "backend/cpu/scalar/scalar_priv.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

static void store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, float product) {
    float *out = job->out + t * job->ld_out + o;
    if (job->bias != NULL) {
        product += job->bias[o];
    }
    *out = job->is_added ? *out + product : product;
}

void tdm_scalar_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    float *row = scratch;
    for (int64_t o = row0; o < row1; ++o) {
        tdm_weight_row(w, o, row);
        for (int64_t t = tok0; t < tok1; ++t) {
            const float *x = job->x + t * job->ld_x;
            double sum = 0.0;
            for (int64_t i = 0; i < w->n_in; ++i) {
                sum += (double)row[i] * (double)x[i];
            }
            store(job, t, o, (float)sum);
        }
    }
}

static int32_t dot16(const int8_t *w, const int8_t *x) {
    int32_t sum = 0;
    for (int i = 0; i < 16; ++i) {
        sum += (int32_t)w[i] * (int32_t)x[i];
    }
    return sum;
}

static float add_block(tdm_block_kind kind, const tdm_block32 *w, const int8_t *q,
                       const tdm_cpu_x8_block *xb, float acc) {
    int32_t first = dot16(w->w, q);
    int32_t last = dot16(w->w + 16, q + 16);
    if (kind == TDM_BLOCK_PAIR) {
        acc = fmaf(w->d[0] * xb->d, (float)first, acc);
        return fmaf(w->d[1] * xb->d, (float)last, acc);
    }
    int32_t sum = w->scale[0] * first + w->scale[1] * last + w->offset * xb->sum;
    acc = fmaf(w->d[0] * xb->d, (float)sum, acc);
    if (kind == TDM_BLOCK_ONE_MIN) {
        acc = fmaf(w->m, xb->s, acc);
    } else if (kind == TDM_BLOCK_INT_MIN) {
        int32_t mins = w->min[0] * xb->half_sums[0] + w->min[1] * xb->half_sums[1];
        acc = fmaf(w->m * xb->d, (float)mins, acc);
    }
    return acc;
}

void tdm_scalar_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const tdm_cpu_x8 *x8 = job->x8;
    float *sums = scratch; /* [up to 64] */
    tdm_block_kind kind = TDM_BLOCK_ONE;
    (void)tdm_weight_kind(w, &kind);
    for (int64_t o = row0; o < row1; ++o) {
        for (int64_t t0 = tok0; t0 < tok1; t0 += 64) {
            int64_t n = tdm_cpu_min(64, tok1 - t0);
            memset(sums, 0, (size_t)n * sizeof *sums);
            for (int64_t b = 0; b < w->n_in / 32; ++b) {
                tdm_block32 block;
                tdm_weight_block(w, o, b, &block);
                for (int64_t i = 0; i < n; ++i) {
                    const int8_t *q = x8->q + (t0 + i) * x8->ld_q + 32 * b;
                    const tdm_cpu_x8_block *xb = &x8->blocks[(t0 + i) * x8->ld_blocks + b];
                    sums[i] = add_block(kind, &block, q, xb, sums[i]);
                }
            }
            for (int64_t i = 0; i < n; ++i) {
                store(job, t0 + i, o, sums[i]);
            }
        }
    }
}

/* A block whose largest magnitude is below 2^-100 counts as zeros (127 / absmax must stay finite);
 * one that holds an infinity or a NaN gets d = NaN and so makes every product NaN. */
void tdm_scalar_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    for (int64_t b = 0; b < n / 32; ++b) {
        uint32_t largest = 0;
        for (int i = 0; i < 32; ++i) {
            uint32_t bits = tdm_f32_bits(x[32 * b + i]) & 0x7fffffffu;
            largest = bits > largest ? bits : largest;
        }
        float inverse = 0.0f;
        tdm_cpu_x8_block block = {0};
        if (largest >= 0x7f800000u) {
            block.d = tdm_f32_from_bits(0x7fc00000u);
        } else if (largest >= 0x0d800000u) {
            block.d = tdm_f32_from_bits(largest) / 127.0f;
            inverse = 127.0f / tdm_f32_from_bits(largest);
        }
        for (int i = 0; i < 32; ++i) {
            int32_t v = inverse != 0.0f ? (int32_t)lrintf(x[32 * b + i] * inverse) : 0;
            q[32 * b + i] = (int8_t)v;
            block.half_sums[i / 16] = (int16_t)(block.half_sums[i / 16] + v);
            block.eights[i / 8] += v;
        }
        block.sum = (int32_t)block.half_sums[0] + (int32_t)block.half_sums[1];
        block.s = block.d * (float)block.sum;
        blocks[b] = block;
    }
}
