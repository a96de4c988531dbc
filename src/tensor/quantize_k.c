/* SPDX-License-Identifier: Apache-2.0
 *
 * K types: 256 weights whose sub-blocks have scales (and mins) of few bits under one or two f16
 * numbers. Found in three steps:
 *
 *   1. each sub-block alone: several widths of the grid, each judged by the error after least squares;
 *   2. the f16 numbers are those that the largest sub-block needs, and once more by least squares over
 *      all of them;
 *   3. each sub-block again, now with the scale and min that can be stored: neighbours of the
 *      rounded scale are tried, each with the min that suits it.
 *
 * One pass over a sub-block gives sums from which the error of any scale and min with those codes
 * follows. Errors are weighted: large weights matter more, as in the peer's quantizer, whose error is
 * the measure (issue 5). Sums are taken in eight lanes and one order, so the bytes are the same
 * everywhere, vectorized or not. */
#include "tensor/quantize_priv.h"

#include <math.h>
#include <string.h>

#define SUPER 256
#define LANES 8

/* Nearest, ties to even, of values below 2^22 in magnitude. */
static inline float nearest(float value) {
    return (value + 12582912.0f) - 12582912.0f;
}

/* NaN gives least. */
static inline float bounded(float value, float least, float most) {
    const float low = value > least ? value : least;
    return low < most ? low : most;
}

static inline float lane_sum(const float lanes[LANES]) {
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static float to_f16_and_back(float value) {
    return tdm_f16_to_f32(tdm_f16_from_f32(bounded(value, -65504.0f, 65504.0f)));
}

/* ---- Q4_K, Q5_K: w = scale * code - min ---- */

typedef struct grid { /* both not negative */
    float scale, min;
} grid;

/* Of a sub-block, once. */
typedef struct block_sums {
    float w, x, xx; /* weights; times x; times x^2 */
} block_sums;

/* Of a sub-block with codes: weights times code, code^2, code * x. */
typedef struct code_sums {
    float l, ll, lx;
} code_sums;

static code_sums sum_codes(const float *x, const float *weight, grid g, float most_code) {
    const float inverse = g.scale > 0.0f ? 1.0f / g.scale : 0.0f;
    float l[LANES] = {0};
    float ll[LANES] = {0};
    float lx[LANES] = {0};
    for (int i = 0; i < 32; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const float code = nearest(bounded((x[i + k] + g.min) * inverse, 0.0f, most_code));
            const float wl = weight[i + k] * code;
            l[k] += wl;
            ll[k] += wl * code;
            lx[k] += wl * x[i + k];
        }
    }
    return (code_sums){lane_sum(l), lane_sum(ll), lane_sum(lx)};
}

/* Sum of weight * (scale * code - min - x)^2, in double because terms cancel. */
static double grid_error(const block_sums *b, const code_sums *c, grid g) {
    const double s = (double)g.scale;
    const double m = (double)g.min;
    return (double)b->xx + s * s * (double)c->ll + m * m * (double)b->w - 2.0 * s * (double)c->lx +
           2.0 * m * (double)b->x - 2.0 * s * m * (double)c->l;
}

/* The scale and min that fit the codes best; false where there is no scale above zero. */
static bool refit(const block_sums *b, const code_sums *c, grid *out) {
    const double det = (double)b->w * (double)c->ll - (double)c->l * (double)c->l;
    if (!(det > 1e-9 * (double)b->w * (double)c->ll)) { /* all codes are equal */
        return false;
    }
    double scale = ((double)b->w * (double)c->lx - (double)b->x * (double)c->l) / det;
    double min = ((double)c->l * (double)c->lx - (double)c->ll * (double)b->x) / det;
    if (min < 0.0) { /* cannot be stored */
        min = 0.0;
        scale = (double)c->lx / (double)c->ll;
    }
    if (!(scale > 0.0)) {
        return false;
    }
    *out = (grid){(float)scale, (float)min};
    return true;
}

#define WIDTHS 22
#define POLISHES 3

/* The grid of a sub-block alone. Zero belongs to the range, because min is not negative. */
static grid grid_search(const float *x, const float *weight, const block_sums *b, float most_code) {
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
    const code_sums none = {0.0f, 0.0f, 0.0f};
    double best_error = grid_error(b, &none, best);
    for (int i = 0; i <= WIDTHS; i++) {
        const float steps = most_code - 1.1f + 0.1f * (float)i;
        grid g = {(most - least) / steps, -least};
        const code_sums c = sum_codes(x, weight, g, most_code);
        (void)refit(b, &c, &g); /* equal codes stay with the width that was tried */
        const double error = grid_error(b, &c, g);
        if (error < best_error) {
            best_error = error;
            best = g;
        }
    }
    for (int i = 0; i < POLISHES && best.scale > 0.0f; i++) {
        grid g = best;
        const code_sums c = sum_codes(x, weight, g, most_code);
        if (!refit(b, &c, &g) || !(grid_error(b, &c, g) < best_error)) {
            break;
        }
        best_error = grid_error(b, &c, g);
        best = g;
    }
    return best;
}

/* Weights of a sub-block: its root mean square plus the magnitude. */
static block_sums weigh(const float *x, float *weight) {
    float squares[LANES] = {0};
    float w[LANES] = {0};
    float wx[LANES] = {0};
    float wxx[LANES] = {0};
    for (int i = 0; i < 32; i++) {
        squares[i % LANES] += x[i] * x[i];
    }
    const float typical = sqrtf(lane_sum(squares) / 32.0f);
    for (int i = 0; i < 32; i++) {
        weight[i] = typical + fabsf(x[i]);
        w[i % LANES] += weight[i];
        wx[i % LANES] += weight[i] * x[i];
        wxx[i % LANES] += weight[i] * x[i] * x[i];
    }
    return (block_sums){lane_sum(w), lane_sum(wx), lane_sum(wxx)};
}

typedef struct super_block {
    const float *x;
    float most_code;
    float weight[SUPER];
    block_sums sums[8];
    grid wanted[8];
} super_block;

typedef struct super_grid { /* what is stored */
    float d, dmin;
    uint8_t scale[8], min[8];
    code_sums codes[8];
    double error;
} super_grid;

static float rounded_code(float value, float step) {
    return step > 0.0f ? bounded(nearest(bounded(value / step, 0.0f, 64.0f)), 0.0f, 63.0f) : 0.0f;
}

/* The stored scale and min of sub-block j. */
static void choose_stored(const super_block *b, super_grid *out, int j) {
    const float *x = b->x + 32 * j;
    const float *weight = b->weight + 32 * j;
    const block_sums *sums = &b->sums[j];
    const float scale = rounded_code(b->wanted[j].scale, out->d);
    double best_error = (double)INFINITY;
    for (int step = -1; step <= 1; step++) {
        const float s = scale + (float)step;
        float m = rounded_code(b->wanted[j].min, out->dmin);
        if (s < 0.0f || s > 63.0f) {
            continue;
        }
        for (int again = 0; again < 2; again++) {
            const grid g = {out->d * s, out->dmin * m};
            const code_sums c = sum_codes(x, weight, g, b->most_code);
            const double error = grid_error(sums, &c, g);
            if (error < best_error) {
                best_error = error;
                out->scale[j] = (uint8_t)s;
                out->min[j] = (uint8_t)m;
                out->codes[j] = c;
            }
            /* the min that suits these codes */
            const float suits = rounded_code((g.scale * c.l - sums->x) / sums->w, out->dmin);
            if (suits == m || !(sums->w > 0.0f)) {
                break;
            }
            m = suits;
        }
    }
    out->error += best_error < (double)INFINITY ? best_error : 0.0;
}

static void choose_all(const super_block *b, float d, float dmin, super_grid *out) {
    memset(out, 0, sizeof *out);
    out->d = to_f16_and_back(d);
    out->dmin = to_f16_and_back(dmin);
    for (int j = 0; j < 8; j++) {
        choose_stored(b, out, j);
    }
}

/* d and dmin by least squares, integers as they stand; false where that gives none. */
static bool refit_super(const super_block *b, const super_grid *s, float *out_d, float *out_dmin) {
    double aa = 0.0, bb = 0.0, ab = 0.0, ax = 0.0, bx = 0.0;
    for (int j = 0; j < 8; j++) {
        const double scale = (double)s->scale[j];
        const double min = (double)s->min[j];
        aa += scale * scale * (double)s->codes[j].ll;
        bb += min * min * (double)b->sums[j].w;
        ab += scale * min * (double)s->codes[j].l;
        ax += scale * (double)s->codes[j].lx;
        bx += min * (double)b->sums[j].x;
    }
    const double det = aa * bb - ab * ab;
    if (!(aa > 0.0)) {
        return false;
    }
    if (!(det > 1e-9 * aa * bb)) {
        *out_d = (float)(ax / aa);
        *out_dmin = s->dmin;
    } else {
        *out_d = (float)((ax * bb - bx * ab) / det);
        *out_dmin = (float)((ax * ab - bx * aa) / det);
    }
    return *out_d > 0.0f && *out_dmin >= 0.0f;
}

#define STARTS 4
#define REFITS 2

/* The largest scale need not become 63: other sub-blocks may round better under a wider step. */
static void search_super(super_block *b, super_grid *best) {
    float most_scale = 0.0f;
    float most_min = 0.0f;
    for (int j = 0; j < 8; j++) {
        b->sums[j] = weigh(b->x + 32 * j, b->weight + 32 * j);
        b->wanted[j] = grid_search(b->x + 32 * j, b->weight + 32 * j, &b->sums[j], b->most_code);
        most_scale = b->wanted[j].scale > most_scale ? b->wanted[j].scale : most_scale;
        most_min = b->wanted[j].min > most_min ? b->wanted[j].min : most_min;
    }
    best->error = (double)INFINITY;
    for (int start = 0; start < STARTS; start++) {
        float d = most_scale / (63.0f - (float)start);
        float dmin = most_min / 63.0f;
        for (int i = 0; i <= REFITS; i++) {
            super_grid found;
            choose_all(b, d, dmin, &found);
            const bool is_better = found.error < best->error;
            if (is_better) {
                *best = found;
            }
            if (!is_better || !refit_super(b, &found, &d, &dmin)) {
                break;
            }
        }
    }
}

static void assign_codes(const super_block *b, const super_grid *s, uint8_t code[SUPER]) {
    for (int i = 0; i < SUPER; i++) {
        const float scale = s->d * (float)s->scale[i / 32];
        const float min = s->dmin * (float)s->min[i / 32];
        const float inverse = scale > 0.0f ? 1.0f / scale : 0.0f;
        code[i] = (uint8_t)nearest(bounded((b->x[i] + min) * inverse, 0.0f, b->most_code));
    }
}

/* Eight scales and eight mins of six bits in twelve bytes: tdm_k4_scale_min's other way. */
static void store_scales(const super_grid *s, uint8_t out[12]) {
    for (int j = 0; j < 4; j++) {
        out[j] = (uint8_t)(s->scale[j] | ((s->scale[j + 4] >> 4) << 6));
        out[j + 4] = (uint8_t)(s->min[j] | ((s->min[j + 4] >> 4) << 6));
        out[j + 8] = (uint8_t)((s->scale[j + 4] & 15) | ((s->min[j + 4] & 15) << 4));
    }
}

/* Sub-blocks 2k and 2k + 1 share bytes: low nibbles, then high ones. */
static void store_nibbles(const uint8_t code[SUPER], uint8_t out[128]) {
    for (int k = 0; k < 4; k++) {
        for (int i = 0; i < 32; i++) {
            out[32 * k + i] =
                (uint8_t)((code[64 * k + i] & 15) | ((code[64 * k + 32 + i] & 15) << 4));
        }
    }
}

static void quantize_super(const float *x, float most_code, uint8_t code[SUPER], uint8_t *out) {
    super_block b = {.x = x, .most_code = most_code};
    super_grid s;
    memset(&s, 0, sizeof s);
    search_super(&b, &s);
    assign_codes(&b, &s, code);
    tdm_store_f16(out, s.d);
    tdm_store_f16(out + 2, s.dmin);
    store_scales(&s, out + 4);
}

void tdm_quantize_q4_k(const float *x, uint8_t *out) {
    uint8_t code[SUPER];
    quantize_super(x, 15.0f, code, out);
    store_nibbles(code, out + 16);
}

void tdm_quantize_q5_k(const float *x, uint8_t *out) {
    uint8_t code[SUPER];
    quantize_super(x, 31.0f, code, out);
    memset(out + 16, 0, 32);
    for (int i = 0; i < SUPER; i++) {
        out[16 + i % 32] = (uint8_t)(out[16 + i % 32] | ((code[i] >> 4) << (i / 32)));
    }
    store_nibbles(code, out + 48);
}

/* ---- Q6_K: w = scale * code, code in -32..31, sub-blocks of 16; weights are squares ---- */

#define Q6_SUB 16

/* l * x and l^2, weighted, for the codes that scale gives. */
static void sym_sums(const float *x, float scale, float *out_lx, float *out_ll) {
    const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
    float lx[LANES] = {0};
    float ll[LANES] = {0};
    for (int i = 0; i < Q6_SUB; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            const float value = x[i + k];
            const float code = nearest(bounded(value * inverse, -32.0f, 31.0f));
            const float wl = value * value * code;
            lx[k] += wl * value;
            ll[k] += wl * code;
        }
    }
    *out_lx = lane_sum(lx);
    *out_ll = lane_sum(ll);
}

#define Q6_WIDTHS 10

/* The extreme value gets code -32 or near it, since the range has one code more on that side. The error
 * after least squares is what is left of sum(w x^2) when (lx)^2 / ll is taken off. */
static float sym_search(const float *x) {
    float extreme = 0.0f;
    float best = 0.0f;
    double best_gain = 0.0;
    for (int i = 0; i < Q6_SUB; i++) {
        extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
    }
    if (extreme == 0.0f) {
        return 0.0f;
    }
    for (int i = -Q6_WIDTHS; i <= Q6_WIDTHS; i++) {
        float lx = 0.0f;
        float ll = 0.0f;
        sym_sums(x, extreme / -(32.0f + 0.1f * (float)i), &lx, &ll);
        if (ll > 0.0f && (double)lx * (double)lx > best_gain * (double)ll) {
            best_gain = (double)lx * (double)lx / (double)ll;
            best = lx / ll;
        }
    }
    return best;
}

static int8_t sym_stored(const float *x, float scale, float d) {
    const float rounded =
        d != 0.0f ? bounded(nearest(bounded(scale / d, -129.0f, 128.0f)), -128.0f, 127.0f) : 0.0f;
    double best_error = (double)INFINITY;
    float best = 0.0f;
    for (int step = -1; step <= 1; step++) {
        const float s = bounded(rounded + (float)step, -128.0f, 127.0f);
        const double value = (double)(d * s);
        float lx = 0.0f;
        float ll = 0.0f;
        sym_sums(x, d * s, &lx, &ll);
        const double error = value * value * (double)ll - 2.0 * value * (double)lx;
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
    float scale[SUPER / Q6_SUB];
    float extreme = 0.0f;
    for (int j = 0; j < SUPER / Q6_SUB; j++) {
        scale[j] = sym_search(x + Q6_SUB * j);
        extreme = fabsf(scale[j]) > fabsf(extreme) ? scale[j] : extreme;
    }
    memset(out, 0, 210);
    const float d = to_f16_and_back(extreme / -128.0f);
    tdm_store_f16(out + 208, d);
    for (int j = 0; j < SUPER / Q6_SUB; j++) {
        const int8_t stored = sym_stored(x + Q6_SUB * j, scale[j], d);
        const float step = d * (float)stored;
        const float inverse = step != 0.0f ? 1.0f / step : 0.0f;
        out[192 + j] = (uint8_t)stored;
        for (int i = Q6_SUB * j; i < Q6_SUB * (j + 1); i++) {
            const float code = nearest(bounded(x[i] * inverse, -32.0f, 31.0f));
            store_q6_code(out, i, (uint32_t)(code + 32.0f));
        }
    }
}
