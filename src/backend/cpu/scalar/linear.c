/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar products: the law for every other set. f32 products decode a row and sum in f64; int8
 * products follow cpu_priv.h to the letter, and so do BF16 products, whose order is that of AMX's tiles:
 * measured there (spec/performance.md 1.1b), each instruction sums the even and the odd of 32 columns
 * by fused multiply-adds from zero, then adds both to the accumulator. */
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

/* ---- BF16 products ---- */

/* What vector units and tiles do with numbers below f32's normal ones. */
static float flushed(float v) {
    return fabsf(v) < 0x1p-126f ? copysignf(0.0f, v) : v;
}

/* 32 columns from k on: even and odd ones are a chain each, from zero. */
static float two_chains(const float *w, const uint16_t *x, int64_t k, int64_t end) {
    float even = 0.0f;
    float odd = 0.0f;
    for (int64_t i = k; i < end; ++i) {
        const float v = flushed(tdm_bf16_to_f32(x[i]));
        float *chain = (i - k) % 2 == 0 ? &even : &odd;
        *chain = flushed(fmaf(flushed(w[i]), v, *chain));
    }
    return flushed(even + odd);
}

/* The weights of a row without its scales, and how many columns share one; 0: there are none. */
static int64_t unscaled_row(const tdm_weight *w, int64_t row, float *out) {
    if (w->mode != TDM_WEIGHT_MXFP8 && w->mode != TDM_WEIGHT_FP8) {
        tdm_weight_row(w, row, out);
        return 0;
    }
    const uint8_t *codes = w->data + (size_t)row * w->row_bytes;
    for (int64_t i = 0; i < w->n_in; ++i) {
        out[i] = tdm_e4m3_to_f32(codes[i]);
    }
    return w->group;
}

static float e4m3_scale(const tdm_weight *w, int64_t row, int64_t k) {
    return w->mode == TDM_WEIGHT_FP8
               ? tdm_weight_fp8_scale(w, row, k)
               : tdm_e8m0_to_f32(w->scales[(size_t)row * w->scales_row_bytes + (size_t)(k / 32)]);
}

void tdm_scalar_linear_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    float *row = scratch;
    for (int64_t o = row0; o < row1; ++o) {
        const int64_t scaled = unscaled_row(w, o, row);
        const int64_t group = scaled > 0 ? scaled : w->n_in;
        for (int64_t t = tok0; t < tok1; ++t) {
            const uint16_t *x = job->x16->q + t * job->x16->ld;
            float acc = 0.0f;
            for (int64_t g = 0; g < w->n_in; g += group) {
                const int64_t end = tdm_cpu_min(g + group, w->n_in);
                float sum = 0.0f;
                for (int64_t k = g; k < end; k += 32) {
                    sum = flushed(sum + two_chains(row, x, k, tdm_cpu_min(k + 32, end)));
                }
                acc = scaled > 0 ? fmaf(e4m3_scale(w, o, g), sum, acc) : sum;
            }
            store(job, t, o, acc);
        }
    }
}

void tdm_scalar_round_bf16(const float *x, int64_t n, uint16_t *out, int64_t ld) {
    for (int64_t i = 0; i < ld; ++i) {
        out[i] = i < n ? tdm_bf16_from_f32(flushed(x[i])) : 0;
    }
}

void tdm_scalar_round_bf16_group(const float *x, int64_t ld_x, int64_t n, uint16_t *out) {
    const int64_t n_padded = (n + 31) / 32 * 32;
    for (int64_t t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        for (int64_t i = 0; i < n_padded; ++i) {
            const int64_t at = (i / 2 * TDM_CPU_GROUP_TOKENS + t) * 2 + i % 2;
            out[at] = i < n ? tdm_bf16_from_f32(flushed(x[t * ld_x + i])) : 0;
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
