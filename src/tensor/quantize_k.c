/* SPDX-License-Identifier: Apache-2.0
 *
 * K types: 256 weights whose sub-blocks have scales (and mins) of few bits under one or two f16
 * numbers. Found in three steps:
 *
 *   1. each sub-block alone: several widths of the grid are tried, each refined by least squares,
 *      real-valued scale and min;
 *   2. the f16 numbers are those that the largest of them needs;
 *   3. each sub-block again, now with the scale and min that can be stored: neighbours of the
 *      rounded ones are tried, since a coarse scale wants another min than a fine one.
 *
 * Errors are weighted: large weights matter more, as in the peer's quantizer, whose error is the
 * measure (issue 5). Sums are f32 in one order, so the bytes are the same everywhere. */
#include "tensor/quantize_priv.h"

#include <math.h>
#include <string.h>

#define SUPER 256
#define SUB_MOST 32

/* Nearest, ties to even, of values below 2^22 in magnitude. */
static float nearest(float value) {
    return (value + 12582912.0f) - 12582912.0f;
}

static float bounded(float value, float least, float most) {
    if (!(value > least)) { /* NaN too */
        return least;
    }
    return value < most ? value : most;
}

/* ---- Q4_K, Q5_K: w = scale * code - min ---- */

typedef struct grid { /* both not negative */
    float scale, min;
} grid;

/* Sum of weight * error^2 with the best codes. */
static float grid_error(const float *x, const float *weight, grid g, float most_code) {
    const float inverse = g.scale > 0.0f ? 1.0f / g.scale : 0.0f;
    float sum = 0.0f;
    for (int i = 0; i < 32; i++) {
        const float code = nearest(bounded((x[i] + g.min) * inverse, 0.0f, most_code));
        const float error = g.scale * code - g.min - x[i];
        sum += weight[i] * error * error;
    }
    return sum;
}

/* The scale and min that fit the codes of g best; false when all codes are equal. */
static bool grid_refit(const float *x, const float *weight, grid *g, float most_code) {
    const float inverse = 1.0f / g->scale;
    float sum_w = 0.0f, sum_x = 0.0f, sum_l = 0.0f, sum_ll = 0.0f, sum_lx = 0.0f;
    for (int i = 0; i < 32; i++) {
        const float code = nearest(bounded((x[i] + g->min) * inverse, 0.0f, most_code));
        const float w = weight[i];
        sum_w += w;
        sum_x += w * x[i];
        sum_l += w * code;
        sum_ll += w * code * code;
        sum_lx += w * code * x[i];
    }
    const float det = sum_w * sum_ll - sum_l * sum_l;
    if (!(det > 0.0f)) {
        return false;
    }
    float scale = (sum_w * sum_lx - sum_x * sum_l) / det;
    float min = (sum_l * sum_lx - sum_ll * sum_x) / det;
    if (min < 0.0f) { /* cannot be stored */
        min = 0.0f;
        scale = sum_lx / sum_ll;
    }
    if (!(scale > 0.0f)) {
        return false;
    }
    *g = (grid){scale, min};
    return true;
}

#define WIDTHS 24
#define REFITS 2

/* The grid of a sub-block alone. Zero belongs to the range, because min is not negative. */
static grid grid_search(const float *x, const float *weight, float most_code) {
    float least = 0.0f;
    float most = x[0];
    for (int i = 0; i < 32; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    grid best = {0.0f, -least};
    if (!(most > least)) {
        return best;
    }
    float best_error = grid_error(x, weight, best, most_code);
    for (int i = 0; i <= WIDTHS; i++) {
        const float steps = most_code - 1.2f + 0.1f * (float)i;
        grid g = {(most - least) / steps, -least};
        for (int k = 0; k <= REFITS; k++) {
            const float error = grid_error(x, weight, g, most_code);
            if (error < best_error) {
                best_error = error;
                best = g;
            }
            if (k == REFITS || !grid_refit(x, weight, &g, most_code)) {
                break;
            }
        }
    }
    return best;
}

/* Weights of a sub-block: its root mean square plus the magnitude. */
static void grid_weights(const float *x, float *weight) {
    float sum = 0.0f;
    for (int i = 0; i < 32; i++) {
        sum += x[i] * x[i];
    }
    const float typical = sqrtf(sum / 32.0f);
    for (int i = 0; i < 32; i++) {
        weight[i] = typical + fabsf(x[i]);
    }
}

typedef struct super_grid {
    float d, dmin; /* as stored */
    uint8_t scale[8], min[8];
    uint8_t code[SUPER];
} super_grid;

/* The stored scale and min of sub-block j: the best among neighbours of the rounded ones. */
static void choose_stored(super_grid *out, int j, const float *x, const float *weight, grid g,
                          float most_code) {
    const float scale = bounded(out->d > 0.0f ? nearest(g.scale / out->d) : 0.0f, 0.0f, 63.0f);
    const float min = bounded(out->dmin > 0.0f ? nearest(g.min / out->dmin) : 0.0f, 0.0f, 63.0f);
    float best_error = INFINITY;
    for (int ds = -1; ds <= 1; ds++) {
        for (int dm = -2; dm <= 2; dm++) {
            const float s = scale + (float)ds;
            const float m = min + (float)dm;
            if (s < 0.0f || s > 63.0f || m < 0.0f || m > 63.0f) {
                continue;
            }
            const float error = grid_error(x, weight, (grid){out->d * s, out->dmin * m}, most_code);
            if (error < best_error) {
                best_error = error;
                out->scale[j] = (uint8_t)s;
                out->min[j] = (uint8_t)m;
            }
        }
    }
}

static void assign_codes(super_grid *out, int j, const float *x, float most_code) {
    const float scale = out->d * (float)out->scale[j];
    const float min = out->dmin * (float)out->min[j];
    const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
    for (int i = 0; i < 32; i++) {
        out->code[32 * j + i] = (uint8_t)nearest(bounded((x[i] + min) * inverse, 0.0f, most_code));
    }
}

static void search_super(const float *x, float most_code, super_grid *out) {
    float weight[SUPER];
    grid g[8];
    float most_scale = 0.0f, most_min = 0.0f;
    memset(out, 0, sizeof *out);
    for (int j = 0; j < 8; j++) {
        grid_weights(x + 32 * j, weight + 32 * j);
        g[j] = grid_search(x + 32 * j, weight + 32 * j, most_code);
        most_scale = g[j].scale > most_scale ? g[j].scale : most_scale;
        most_min = g[j].min > most_min ? g[j].min : most_min;
    }
    out->d = tdm_f16_to_f32(tdm_f16_from_f32(bounded(most_scale / 63.0f, 0.0f, 65504.0f)));
    out->dmin = tdm_f16_to_f32(tdm_f16_from_f32(bounded(most_min / 63.0f, 0.0f, 65504.0f)));
    for (int j = 0; j < 8; j++) {
        choose_stored(out, j, x + 32 * j, weight + 32 * j, g[j], most_code);
        assign_codes(out, j, x + 32 * j, most_code);
    }
}

/* Eight scales and eight mins of six bits in twelve bytes: tdm_k4_scale_min's other way. */
static void store_scales(const super_grid *s, uint8_t out[12]) {
    memset(out, 0, 12);
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(s->scale[j] | ((s->scale[j + 4] >> 4) << 6));
        out[j + 4] = (uint8_t)(s->min[j] | ((s->min[j + 4] >> 4) << 6));
        out[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | ((s->min[j + 4] & 15) << 4));
    }
}

/* Sub-blocks 2k and 2k + 1 share bytes: low nibbles, then high ones. */
static void store_nibbles(const super_grid *s, uint8_t out[128]) {
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 32; i++) {
            out[32 * k + i] =
                (uint8_t)((s->code[64 * k + i] & 15) | ((s->code[64 * k + 32 + i] & 15) << 4));
        }
    }
}

void tdm_quantize_q4_k(const float *x, uint8_t *out) {
    super_grid s;
    search_super(x, 15.0f, &s);
    tdm_store_f16(out, s.d);
    tdm_store_f16(out + 2, s.dmin);
    store_scales(&s, out + 4);
    store_nibbles(&s, out + 16);
}

void tdm_quantize_q5_k(const float *x, uint8_t *out) {
    super_grid s;
    search_super(x, 31.0f, &s);
    tdm_store_f16(out, s.d);
    tdm_store_f16(out + 2, s.dmin);
    store_scales(&s, out + 4);
    memset(out + 16, 0, 32);
    for (int i = 0; i < SUPER; i++) {
        out[16 + i % 32] = (uint8_t)(out[16 + i % 32] | ((s.code[i] >> 4) << (i / 32)));
    }
    store_nibbles(&s, out + 48);
}

/* ---- Q6_K: w = scale * code, code in -32..31, sub-blocks of 16 ---- */

#define Q6_SUB 16

static float sym_error(const float *x, const float *weight, float scale) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float sum = 0.0f;
    for (int i = 0; i < Q6_SUB; i++) {
        const float code = nearest(bounded(x[i] * inverse, -32.0f, 31.0f));
        const float error = scale * code - x[i];
        sum += weight[i] * error * error;
    }
    return sum;
}

static float sym_refit(const float *x, const float *weight, float scale) {
    const float inverse = 1.0f / scale;
    float sum_lx = 0.0f, sum_ll = 0.0f;
    for (int i = 0; i < Q6_SUB; i++) {
        const float code = nearest(bounded(x[i] * inverse, -32.0f, 31.0f));
        sum_lx += weight[i] * code * x[i];
        sum_ll += weight[i] * code * code;
    }
    return sum_ll > 0.0f ? sum_lx / sum_ll : 0.0f;
}

/* The extreme value gets code -32 or near it, since the range has one code more on that side. */
static float sym_search(const float *x, const float *weight) {
    float extreme = 0.0f;
    float best = 0.0f;
    for (int i = 0; i < Q6_SUB; i++) {
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    }
    if (extreme == 0.0f) {
        return 0.0f;
    }
    float best_error = INFINITY;
    for (int i = -10; i <= 10; i++) {
        float scale = extreme / -(32.0f + 0.1f * (float)i);
        for (int k = 0; k <= REFITS && scale != 0.0f; k++) {
            const float error = sym_error(x, weight, scale);
            if (error < best_error) {
                best_error = error;
                best = scale;
            }
            scale = k < REFITS ? sym_refit(x, weight, scale) : 0.0f;
        }
    }
    return best;
}

static int8_t sym_stored(const float *x, const float *weight, float scale, float d) {
    const float rounded = bounded(d != 0.0f ? nearest(scale / d) : 0.0f, -128.0f, 127.0f);
    float best_error = INFINITY;
    float best = 0.0f;
    for (int step = -1; step <= 1; step++) {
        const float s = bounded(rounded + (float)step, -128.0f, 127.0f);
        const float error = sym_error(x, weight, d * s);
        if (error < best_error) {
            best_error = error;
            best = s;
        }
    }
    return (int8_t)best;
}

/* Place of weight i: low bits in ql (64 a half), high bits in qh (32 a half). */
static void store_q6_code(uint8_t *out, int i, uint32_t code) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;
    const int lane = i % 32;
    uint8_t *low = out + 64 * half + 32 * (quarter & 1) + lane;
    uint8_t *high = out + 128 + 32 * half + lane;
    *low = (uint8_t)(*low | ((code & 15u) << (quarter < 2 ? 0 : 4)));
    *high = (uint8_t)(*high | ((code >> 4) << (2 * quarter)));
}

void tdm_quantize_q6_k(const float *x, uint8_t *out) {
    float weight[SUPER];
    float scale[SUPER / Q6_SUB];
    float extreme = 0.0f;
    for (int j = 0; j < SUPER / Q6_SUB; j++) {
        for (int i = Q6_SUB * j; i < Q6_SUB * (j + 1); i++) {
            weight[i] = x[i] * x[i];
        }
        scale[j] = sym_search(x + Q6_SUB * j, weight + Q6_SUB * j);
        extreme = fabsf(scale[j]) > fabsf(extreme) ? scale[j] : extreme;
    }
    memset(out, 0, 210);
    const float d =
        tdm_f16_to_f32(tdm_f16_from_f32(bounded(extreme / -128.0f, -65504.0f, 65504.0f)));
    tdm_store_f16(out + 208, d);
    for (int j = 0; j < SUPER / Q6_SUB; j++) {
        const int8_t stored = sym_stored(x + Q6_SUB * j, weight + Q6_SUB * j, scale[j], d);
        const float step = d * (float)stored;
        const float inverse = step != 0.0f ? 1.0f / step : 0.0f;
        out[192 + j] = (uint8_t)stored;
        for (int i = Q6_SUB * j; i < Q6_SUB * (j + 1); i++) {
            const float code = nearest(bounded(x[i] * inverse, -32.0f, 31.0f));
            store_q6_code(out, i, (uint32_t)(code + 32.0f));
        }
    }
}
