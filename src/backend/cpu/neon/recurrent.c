/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution and the gated delta rule, eight channels or values at a time. Values of a head do
 * not meet each other, so a tile of them runs through all positions while its part of the state
 * stays in the first cache. Every sum runs over keys in ascending order, one fused multiply-add
 * each. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"

#define TILE_VECTORS 4
#define TILE (8 * TILE_VECTORS)
/* Positions whose gates are opened together. */
#define GATES 64

void tdm_neon_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                       const float *bias, int32_t n_taps, int64_t dim) {
    for (int64_t c = 0; c < dim; c += 8) {
        int64_t n = dim - c;
        f8 sum = bias != NULL ? f8_load_some(bias + c, n) : f8_set(0.0f);
        for (int32_t j = 0; j < n_taps; ++j) {
            sum = f8_fma(f8_load_some(taps + j * ld_taps + c, n), f8_load_some(in[j] + c, n), sum);
        }
        f8_store_some(out + c, n, sum);
    }
}

/* One position and one tile of n values. Rows of the state lie ld apart. */
TDM_INLINE void step_tile(const float *in, float *state, int64_t ld, const float *q, const float *k,
                          const float *v, int32_t key_dim, int64_t n, const float *gates,
                          float *out) {
    const f8 keep = f8_set(gates[0]);
    const f8 write = f8_set(gates[1]);
    f8 sum[TILE_VECTORS];
    f8 change[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; ++j) {
        sum[j] = f8_set(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const f8 key = f8_set(k[i]);
        for (int j = 0; j < TILE_VECTORS; ++j) {
            f8 old = f8_load_some(in + i * ld + 8 * j, n - 8 * j);
            sum[j] = f8_fma(f8_mul(keep, old), key, sum[j]);
        }
    }
    for (int j = 0; j < TILE_VECTORS; ++j) {
        change[j] = f8_mul(write, f8_sub(f8_load_some(v + 8 * j, n - 8 * j), sum[j]));
        sum[j] = f8_set(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const f8 key = f8_set(k[i]);
        const f8 query = f8_set(q[i]);
        for (int j = 0; j < TILE_VECTORS; ++j) {
            f8 old = f8_load_some(in + i * ld + 8 * j, n - 8 * j);
            f8 value = f8_fma(key, change[j], f8_mul(keep, old));
            f8_store_some(state + i * ld + 8 * j, n - 8 * j, value);
            sum[j] = f8_fma(value, query, sum[j]);
        }
    }
    for (int j = 0; out != NULL && j < TILE_VECTORS; ++j) {
        f8_store_some(out + 8 * j, n - 8 * j, sum[j]);
    }
}

/* Positions [t0, t1) of a head. */
static void run_positions(const tdm_delta *delta, const tdm_delta_span *span,
                          const tdm_cpu_delta_head *at, int32_t t0, int32_t t1,
                          const float (*gates)[2]) {
    for (int64_t j = 0; j < delta->value_dim; j += TILE) {
        float *state = span->to + at->state_at + j;
        int64_t n = delta->value_dim - j;
        for (int32_t t = t0; t < t1; ++t) {
            const float *in = t == 0 ? span->from + at->state_at + j : state;
            const float *x = span->x + t * span->ld_x;
            float *out = span->out != NULL ? span->out + t * span->ld_out + at->out_at + j : NULL;
            if (n >= TILE) {
                step_tile(in, state, delta->value_dim, x + at->q_at, x + at->k_at, x + at->v_at + j,
                          delta->key_dim, TILE, gates[t - t0], out);
            } else {
                step_tile(in, state, delta->value_dim, x + at->q_at, x + at->k_at, x + at->v_at + j,
                          delta->key_dim, n, gates[t - t0], out);
            }
        }
    }
}

void tdm_neon_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    const tdm_cpu_delta_head at = tdm_cpu_delta_locate(delta, head);
    float gates[GATES][2];
    for (int32_t t0 = 0; t0 < span->n; t0 += GATES) {
        int32_t t1 = (int32_t)tdm_cpu_min(t0 + GATES, span->n);
        for (int32_t t = t0; t < t1; ++t) {
            const float *x = span->x + t * span->ld_x;
            tdm_cpu_delta_gates(delta, head, x[at.a_at], x[at.b_at], &gates[t - t0][0],
                                &gates[t - t0][1]);
        }
        run_positions(delta, span, &at, t0, t1, (const float(*)[2])gates);
    }
}
