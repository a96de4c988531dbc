/* SPDX-License-Identifier: Apache-2.0
 *
 * A head of the gated delta rule over a span, once for every width of register. Values of a head do
 * not meet each other, so a tile of TILE values runs through all positions; every sum goes over keys
 * in ascending order, one fused multiply-add each, whatever the span's length.
 *
 * A position reads its state twice: for what the keys see of it, and to change it. The change of one
 * position and the sight of the next share a pass, so that a span of n takes n + 1 passes, and what
 * lies in between is the tile's own copy, side by side: rows of a state lie 512 bytes apart, and a
 * tile of them would have a quarter of the first-level cache's sets, half of the room it needs.
 *
 *     enter    kept = keep[0] * from                seen = k[0] kept
 *     step t   S = kept + k[t] (x) change, out[t] = q[t] S
 *              kept = keep[t + 1] * S               seen = k[t + 1] kept
 *     leave    to = kept + k[n - 1] (x) change,     out[n - 1] = q[n - 1] to
 *
 * A few positions go one after another over wide tiles, without a copy: the state comes from memory
 * then, and pieces of 512 bytes come faster than pieces of 128.
 *
 * The includer defines vec, LANES, the v_ functions, TILE_VECTORS and WIDE_VECTORS. */
#include "backend/cpu/cpu_priv.h"

#include "tensor/ops.h"

#define TILE (LANES * TILE_VECTORS)
#define WIDE (LANES * WIDE_VECTORS)
/* Up to so many positions wide tiles are faster. */
#define FEW 4
/* Positions whose gates are opened together. */
#define GATES 128

typedef struct delta_gates {
    float keep;
    float write;
} delta_gates;

/* change = write * (v - seen); the sums begin again. */
TDM_INLINE void delta_change(int n_vectors, const float *v, int64_t n, float write, vec *seen,
                             vec *change) {
    for (int j = 0; j < n_vectors; ++j) {
        const vec value = v_load_some(v + LANES * j, n - LANES * j);
        change[j] = v_mul(v_set1(write), v_sub(value, seen[j]));
        seen[j] = v_set1(0.0f);
    }
}

TDM_INLINE void delta_put(int n_vectors, float *out, int64_t n, const vec *sums) {
    for (int j = 0; out != NULL && j < n_vectors; ++j) {
        v_store_some(out + LANES * j, n - LANES * j, sums[j]);
    }
}

/* One position of n values, WIDE at most. Rows of a state lie ld apart. */
TDM_INLINE void delta_once(const tdm_delta *delta, const float *from, float *to, const float *q,
                           const float *k, const float *v, delta_gates gates, int64_t n,
                           float *out) {
    const int64_t ld = delta->value_dim;
    const int64_t key_dim = delta->key_dim;
    const vec keep = v_set1(gates.keep);
    vec sums[WIDE_VECTORS];
    vec change[WIDE_VECTORS];
    for (int j = 0; j < WIDE_VECTORS; ++j) {
        sums[j] = v_set1(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const vec key = v_set1(k[i]);
        for (int j = 0; j < WIDE_VECTORS; ++j) {
            const vec old = v_load_some(from + i * ld + LANES * j, n - LANES * j);
            sums[j] = v_fma(v_mul(keep, old), key, sums[j]);
        }
    }
    delta_change(WIDE_VECTORS, v, n, gates.write, sums, change);
    for (int64_t i = 0; i < key_dim; ++i) {
        const vec key = v_set1(k[i]);
        const vec query = v_set1(q[i]);
        for (int j = 0; j < WIDE_VECTORS; ++j) {
            const vec old = v_load_some(from + i * ld + LANES * j, n - LANES * j);
            const vec value = v_fma(key, change[j], v_mul(keep, old));
            v_store_some(to + i * ld + LANES * j, n - LANES * j, value);
            sums[j] = v_fma(value, query, sums[j]);
        }
    }
    delta_put(WIDE_VECTORS, out, n, sums);
}

/* A tile's copy and what the keys of its next position see of it. */
typedef struct delta_tile {
    _Alignas(64) float kept[TDM_HEAD_DIM_MAX * TILE];
    vec seen[TILE_VECTORS];
} delta_tile;

TDM_INLINE void delta_enter(const tdm_delta *delta, const float *from, const float *k, float gate,
                            int64_t n, delta_tile *tile) {
    const int64_t ld = delta->value_dim;
    const int64_t key_dim = delta->key_dim;
    const vec keep = v_set1(gate);
    vec seen[TILE_VECTORS];
    for (int j = 0; j < TILE_VECTORS; ++j) {
        seen[j] = v_set1(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const vec key = v_set1(k[i]);
        for (int j = 0; j < TILE_VECTORS; ++j) {
            const float *at = from + i * ld + LANES * j;
            const vec kept = v_mul(keep, v_load_some(at, n - LANES * j));
            v_store(tile->kept + i * TILE + LANES * j, kept);
            seen[j] = v_fma(kept, key, seen[j]);
        }
    }
    for (int j = 0; j < TILE_VECTORS; ++j) {
        tile->seen[j] = seen[j];
    }
}

/* The position of x, and the sight of the next one's keys. */
TDM_INLINE void delta_step(int32_t key_dim, const float *q, const float *k, const float *v,
                           float write, float gate, const float *k_next, int64_t n,
                           delta_tile *tile, float *out) {
    const vec keep = v_set1(gate);
    vec sums[TILE_VECTORS];
    vec seen[TILE_VECTORS];
    vec change[TILE_VECTORS];
    delta_change(TILE_VECTORS, v, n, write, tile->seen, change);
    for (int j = 0; j < TILE_VECTORS; ++j) {
        sums[j] = v_set1(0.0f);
        seen[j] = v_set1(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const vec key = v_set1(k[i]);
        const vec query = v_set1(q[i]);
        const vec next = v_set1(k_next[i]);
        float *at = tile->kept + i * TILE;
        for (int j = 0; j < TILE_VECTORS; ++j) {
            const vec value = v_fma(key, change[j], v_load(at + LANES * j));
            const vec kept = v_mul(keep, value);
            sums[j] = v_fma(value, query, sums[j]);
            seen[j] = v_fma(kept, next, seen[j]);
            v_store(at + LANES * j, kept);
        }
    }
    for (int j = 0; j < TILE_VECTORS; ++j) {
        tile->seen[j] = seen[j];
    }
    delta_put(TILE_VECTORS, out, n, sums);
}

TDM_INLINE void delta_leave(const tdm_delta *delta, const float *q, const float *k, const float *v,
                            float write, int64_t n, delta_tile *tile, float *to, float *out) {
    const int64_t ld = delta->value_dim;
    const int64_t key_dim = delta->key_dim;
    vec sums[TILE_VECTORS];
    vec change[TILE_VECTORS];
    delta_change(TILE_VECTORS, v, n, write, tile->seen, change);
    for (int j = 0; j < TILE_VECTORS; ++j) {
        sums[j] = v_set1(0.0f);
    }
    for (int64_t i = 0; i < key_dim; ++i) {
        const vec key = v_set1(k[i]);
        const vec query = v_set1(q[i]);
        for (int j = 0; j < TILE_VECTORS; ++j) {
            const vec kept = v_load(tile->kept + i * TILE + LANES * j);
            const vec value = v_fma(key, change[j], kept);
            v_store_some(to + i * ld + LANES * j, n - LANES * j, value);
            sums[j] = v_fma(value, query, sums[j]);
        }
    }
    delta_put(TILE_VECTORS, out, n, sums);
}

/* A head's positions [t0, t1) of a span. */
typedef struct delta_part {
    const tdm_delta *delta;
    const tdm_delta_span *span;
    tdm_cpu_delta_head at;
    int32_t t0, t1;
    delta_gates gates[GATES];
} delta_part;

TDM_INLINE const float *delta_x(const delta_part *p, int32_t t) {
    return p->span->x + t * p->span->ld_x;
}

TDM_INLINE float *delta_out(const delta_part *p, int32_t t, int64_t value) {
    return p->span->out == NULL ? NULL : p->span->out + t * p->span->ld_out + p->at.out_at + value;
}

/* n values, TILE at most, from one on. */
TDM_INLINE void delta_tile_run(const delta_part *p, int64_t value, int64_t n) {
    const tdm_delta *delta = p->delta;
    const int32_t last = p->t1 - 1;
    const float *from = (p->t0 == 0 ? p->span->from : p->span->to) + p->at.state_at + value;
    const float *x = delta_x(p, p->t0);
    delta_tile tile;
    delta_enter(delta, from, x + p->at.k_at, p->gates[0].keep, n, &tile);
    for (int32_t t = p->t0; t < last; ++t) {
        const float *next = delta_x(p, t + 1);
        delta_step(delta->key_dim, x + p->at.q_at, x + p->at.k_at, x + p->at.v_at + value,
                   p->gates[t - p->t0].write, p->gates[t + 1 - p->t0].keep, next + p->at.k_at, n,
                   &tile, delta_out(p, t, value));
        x = next;
    }
    delta_leave(delta, x + p->at.q_at, x + p->at.k_at, x + p->at.v_at + value,
                p->gates[last - p->t0].write, n, &tile, p->span->to + p->at.state_at + value,
                delta_out(p, last, value));
}

static void delta_part_run(const delta_part *p) {
    const int64_t n_values = p->delta->value_dim;
    int64_t value = 0;
    for (; value + TILE <= n_values; value += TILE) {
        delta_tile_run(p, value, TILE);
    }
    if (value < n_values) {
        delta_tile_run(p, value, n_values - value);
    }
}

/* Position t over wide tiles. */
static void delta_once_run(const delta_part *p, int32_t t) {
    const int64_t n_values = p->delta->value_dim;
    const delta_gates gates = p->gates[t - p->t0];
    const float *x = delta_x(p, t);
    const float *q = x + p->at.q_at;
    const float *k = x + p->at.k_at;
    const float *from = (t == 0 ? p->span->from : p->span->to) + p->at.state_at;
    float *to = p->span->to + p->at.state_at;
    for (int64_t j = 0; j < n_values; j += WIDE) {
        const float *v = x + p->at.v_at + j;
        float *out = delta_out(p, t, j);
        if (j + WIDE <= n_values) {
            delta_once(p->delta, from + j, to + j, q, k, v, gates, WIDE, out);
        } else {
            delta_once(p->delta, from + j, to + j, q, k, v, gates, n_values - j, out);
        }
    }
}

static void delta_head_run(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    delta_part p = {.delta = delta, .span = span, .at = tdm_cpu_delta_locate(delta, head)};
    for (p.t0 = 0; p.t0 < span->n; p.t0 = p.t1) {
        p.t1 = (int32_t)tdm_cpu_min(p.t0 + GATES, span->n);
        for (int32_t t = p.t0; t < p.t1; ++t) {
            const float *x = delta_x(&p, t);
            delta_gates *gates = &p.gates[t - p.t0];
            tdm_cpu_delta_gates(delta, head, x[p.at.a_at], x[p.at.b_at], &gates->keep,
                                &gates->write);
        }
        if (p.t1 - p.t0 > FEW) {
            delta_part_run(&p);
            continue;
        }
        for (int32_t t = p.t0; t < p.t1; ++t) {
            delta_once_run(&p, t);
        }
    }
}
