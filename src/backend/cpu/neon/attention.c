/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages. For each block of 64 absolute positions: scores of a few queries against
 * four keys at a time, the running maximum and sum, then the mix of values. bf16 keys and values are
 * widened on the way for a few queries and once for all queries of an item that has many; F32 pages
 * are read where they lie. What a query sees of a block decides its arithmetic; which other queries
 * share the item does not. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"
#include "tensor/ops.h"

#include <math.h>

#define BLOCK TDM_CPU_ATTENTION_BLOCK
#define QUERIES TDM_CPU_ATTENTION_QUERIES
/* Queries of one register tile. */
#define TILE_QUERIES 2
/* Above so many queries widening bf16 once beats widening it in every tile. */
#define WIDEN_QUERIES 6

typedef struct work {
    float *keys;   /* [BLOCK, HEAD_DIM_MAX] */
    float *values; /* [BLOCK, HEAD_DIM_MAX] */
    float *q;      /* [QUERIES, k_pad], zeros behind head_dim */
    float *mix;    /* [QUERIES, v_pad] */
    float *scores; /* [TILE_QUERIES, BLOCK] */
    float *largest;
    float *total;
    int64_t k_pad;
    int64_t v_pad;
} work;

static int64_t pad8(int64_t dim) {
    return (dim + 7) / 8 * 8;
}

static work work_of(const tdm_kv_pages *pages, void *scratch) {
    work w = {.k_pad = pad8(pages->head_dim), .v_pad = pad8(pages->value_dim)};
    w.keys = scratch;
    w.values = w.keys + BLOCK * TDM_HEAD_DIM_MAX;
    w.q = w.values + BLOCK * TDM_HEAD_DIM_MAX;
    w.mix = w.q + QUERIES * TDM_HEAD_DIM_MAX;
    w.scores = w.mix + QUERIES * TDM_HEAD_DIM_MAX;
    w.largest = w.scores + TILE_QUERIES * BLOCK;
    w.total = w.largest + QUERIES;
    return w;
}

/* Rows of keys or values of one block. */
typedef struct rows_view {
    const uint8_t *base; /* where row 0 of the block lies or would lie */
    int64_t row_bytes;
    int is_bf16;
} rows_view;

/* One row as f32, zeros behind dim up to a multiple of eight. */
static void widen_row(const uint8_t *row, tdm_dtype dtype, int64_t dim, float *out) {
    int64_t i = 0;
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, row, (size_t)dim * 4);
        i = dim;
    } else {
        for (; i + 8 <= dim; i += 8) {
            f8_store(out + i, f8_load_bf16(row + 2 * i));
        }
        for (; i < dim; ++i) {
            uint32_t bits = ((uint32_t)row[2 * i] << 16) | ((uint32_t)row[2 * i + 1] << 24);
            memcpy(out + i, &bits, sizeof bits);
        }
    }
    for (; i < pad8(dim); ++i) {
        out[i] = 0.0f;
    }
}

/* The dim values of rows [lo, hi) of a block, stride values from one to the next. Rows that end on
 * a vector are read where they lie, unless they are bf16 and shared by many queries. */
static rows_view view_rows(const uint8_t *base, tdm_dtype dtype, int64_t dim, int64_t stride,
                           bool is_shared, int64_t lo, int64_t hi, float *buffer) {
    const int64_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    if (dim % 8 == 0 && (dtype == TDM_DTYPE_F32 || !is_shared)) {
        return (rows_view){base, stride * bytes, dtype != TDM_DTYPE_F32};
    }
    for (int64_t j = lo; j < hi; ++j) {
        widen_row(base + j * stride * bytes, dtype, dim, buffer + j * pad8(dim));
    }
    return (rows_view){(const uint8_t *)buffer, pad8(dim) * 4, 0};
}

/* Eight values of a key or value row: f32, or bf16 widened on the way. */
TDM_INLINE f8 load8(int is_bf16, const uint8_t *row, int64_t d) {
    return is_bf16 ? f8_load_bf16(row + 2 * d)
                   : f8_load((const float *)(const void *)(row + 4 * d));
}

/* Dots of n queries (a constant) with keys j0..j0+3; rows outside [lo, hi) are read as the nearest
 * row inside. Each dot has one accumulator and ends as f8_fold does. */
TDM_INLINE void dots4(int n, const rows_view *keys, const float *const *q, int64_t dim, int64_t j0,
                      int64_t lo, int64_t hi, float32x4_t *out) {
    const uint8_t *k[4];
    f8 acc[TILE_QUERIES][4];
    for (int i = 0; i < 4; ++i) {
        int64_t j = tdm_cpu_min(tdm_cpu_max(j0 + i, lo), hi - 1);
        k[i] = keys->base + j * keys->row_bytes;
    }
    for (int i = 0; i < 4 * n; ++i) {
        acc[i / 4][i % 4] = f8_set(0.0f);
    }
    for (int64_t d = 0; d < dim; d += 8) {
        f8 v[TILE_QUERIES];
        for (int t = 0; t < n; ++t) {
            v[t] = f8_load(q[t] + d);
        }
        for (int i = 0; i < 4; ++i) {
            f8 key = load8(keys->is_bf16, k[i], d);
            for (int t = 0; t < n; ++t) {
                acc[t][i] = f8_fma(key, v[t], acc[t][i]);
            }
        }
    }
    for (int t = 0; t < n; ++t) {
        out[t] = f8_fold4(acc[t]);
    }
}

/* Lanes j .. j + 3 that lie in [lo, hi). */
TDM_INLINE uint32x4_t lanes_between(int64_t j, int64_t lo, int64_t hi) {
    static const int32_t NUMBERS[4] = {0, 1, 2, 3};
    int32x4_t at = vaddq_s32(vdupq_n_s32((int32_t)j), vld1q_s32(NUMBERS));
    return vandq_u32(vcgeq_s32(at, vdupq_n_s32((int32_t)lo)),
                     vcltq_s32(at, vdupq_n_s32((int32_t)hi)));
}

/* Scores of n queries against rows [lo, hi) of a block, 64 floats a query; -inf in the other lanes
 * of the eights they touch. out_largest: the largest of each. */
TDM_INLINE void score_tile(int n, const tdm_attention_span *s, const rows_view *keys,
                           const float *const *q, int64_t dim, int64_t lo, int64_t hi,
                           float *scores, float *out_largest) {
    const float32x4_t lowest = vdupq_n_f32(-INFINITY);
    const float32x4_t cap = vdupq_n_f32(s->softcap);
    float32x4_t largest[TILE_QUERIES];
    for (int t = 0; t < n; ++t) {
        largest[t] = lowest;
    }
    for (int64_t j = lo & ~(int64_t)7; j < pad8(hi); j += 4) {
        float32x4_t four[TILE_QUERIES];
        const uint32x4_t inside = lanes_between(j, lo, hi);
        dots4(n, keys, q, dim, j, lo, hi, four);
        for (int t = 0; t < n; ++t) {
            float32x4_t v = vmulq_n_f32(four[t], s->scale);
            if (s->softcap != 0.0f) {
                v = vmulq_f32(cap, tanh4(vdivq_f32(v, cap)));
            }
            v = vbslq_f32(inside, v, lowest);
            largest[t] = larger4(v, largest[t]);
            vst1q_f32(scores + BLOCK * t + j, v);
        }
    }
    for (int t = 0; t < n; ++t) {
        out_largest[t] = vmaxvq_f32(largest[t]);
    }
}

/* mix = mix * keep + sum of scores[j] * values[j] for n queries and n_vec vectors of eight from d,
 * both constants. */
TDM_INLINE void mix_some(int n, int n_vec, float *const *mix, const float *keep,
                         const float *scores, const rows_view *values, int64_t d, int64_t lo,
                         int64_t hi) {
    f8 acc[TILE_QUERIES][4];
    for (int t = 0; t < n; ++t) {
        for (int i = 0; i < n_vec; ++i) {
            acc[t][i] = f8_mul(f8_load(mix[t] + d + 8 * i), f8_set(keep[t]));
        }
    }
    for (int64_t j = lo; j < hi; ++j) {
        const uint8_t *row = values->base + j * values->row_bytes;
        for (int i = 0; i < n_vec; ++i) {
            f8 v = load8(values->is_bf16, row, d + 8 * i);
            for (int t = 0; t < n; ++t) {
                acc[t][i] = f8_fma(f8_set(scores[BLOCK * t + j]), v, acc[t][i]);
            }
        }
    }
    for (int t = 0; t < n; ++t) {
        for (int i = 0; i < n_vec; ++i) {
            f8_store(mix[t] + d + 8 * i, acc[t][i]);
        }
    }
}

/* Weights exp(score - max) in place; returns their sum. */
static float weigh_block(float *scores, float max, int64_t lo, int64_t hi) {
    f8 sum = f8_set(0.0f);
    for (int64_t j = lo & ~(int64_t)7; j < hi; j += 8) {
        f8 v = f8_exp(f8_sub(f8_load(scores + j), f8_set(max)));
        f8_store(scores + j, v);
        sum = f8_add(sum, v);
    }
    return f8_fold(sum);
}

static float exp_one(float x) {
    return vgetq_lane_f32(exp4(vdupq_n_f32(x)), 0);
}

static int64_t first_seen(const tdm_attention_span *s, int64_t position) {
    return s->window > 0 ? tdm_cpu_max(0, position + 1 - s->window) : 0;
}

static void start(const tdm_cpu_attention_item *item, const work *w) {
    const tdm_attention_span *s = item->span;
    int64_t dim = s->pages->head_dim;
    int64_t n_heads = item->head1 - item->head0;
    for (int64_t t = item->tok0; t < item->tok1; ++t) {
        for (int64_t h = item->head0; h < item->head1; ++h) {
            int64_t i = (t - item->tok0) * n_heads + (h - item->head0);
            float *q = w->q + i * w->k_pad;
            memcpy(q, s->q + t * s->ld_q + h * dim, (size_t)dim * sizeof *q);
            for (int64_t d = dim; d < w->k_pad; ++d) {
                q[d] = 0.0f;
            }
            memset(w->mix + i * w->v_pad, 0, (size_t)w->v_pad * sizeof(float));
            /* A sink is one more score, seen first; its own weight is exp(0). */
            w->largest[i] = s->sinks != NULL ? s->sinks[h] : -INFINITY;
            w->total[i] = w->largest[i] == -INFINITY ? 0.0f : 1.0f;
        }
    }
}

static void finish(const tdm_cpu_attention_item *item, const work *w) {
    const tdm_attention_span *s = item->span;
    int64_t dim = s->pages->value_dim;
    int64_t n_heads = item->head1 - item->head0;
    for (int64_t t = item->tok0; t < item->tok1; ++t) {
        for (int64_t h = item->head0; h < item->head1; ++h) {
            int64_t i = (t - item->tok0) * n_heads + (h - item->head0);
            float *out = s->out + t * s->ld_out + h * dim;
            for (int64_t d = 0; d < dim; d += 8) {
                f8 v = f8_div(f8_load(w->mix + i * w->v_pad + d), f8_set(w->total[i]));
                f8_store_some(out + d, dim - d, v);
            }
        }
    }
}

/* n queries of the item, from number first on, that all see rows [lo, hi) of the block. */
TDM_INLINE void attend_tile(int n, const tdm_attention_span *s, const work *w, int64_t first,
                            const rows_view *keys, const rows_view *values, int64_t lo,
                            int64_t hi) {
    const float *q[TILE_QUERIES];
    float *mix[TILE_QUERIES];
    float max[TILE_QUERIES];
    float keep[TILE_QUERIES];
    int64_t d = 0;
    for (int t = 0; t < n; ++t) {
        q[t] = w->q + (first + t) * w->k_pad;
        mix[t] = w->mix + (first + t) * w->v_pad;
    }
    score_tile(n, s, keys, q, w->k_pad, lo, hi, w->scores, max);
    for (int t = 0; t < n; ++t) {
        float before = w->largest[first + t];
        float now = max[t] > before ? max[t] : before;
        keep[t] = before == -INFINITY ? 0.0f : exp_one(before - now);
        float sum = weigh_block(w->scores + BLOCK * t, now, lo, hi);
        w->total[first + t] = w->total[first + t] * keep[t] + sum;
        w->largest[first + t] = now;
    }
    for (; d + 32 <= w->v_pad; d += 32) {
        mix_some(n, 4, mix, keep, w->scores, values, d, lo, hi);
    }
    for (; d < w->v_pad; d += 8) {
        mix_some(n, 1, mix, keep, w->scores, values, d, lo, hi);
    }
}

typedef void (*attend_fn)(const tdm_attention_span *s, const work *w, int64_t first,
                          const rows_view *keys, const rows_view *values, int64_t lo, int64_t hi);

#define ATTEND(name, n, is_bf16)                                                                   \
    static void name(const tdm_attention_span *s, const work *w, int64_t first,                    \
                     const rows_view *keys, const rows_view *values, int64_t lo, int64_t hi) {     \
        const rows_view k = {keys->base, keys->row_bytes, is_bf16};                                \
        const rows_view v = {values->base, values->row_bytes, is_bf16};                            \
        attend_tile(n, s, w, first, &k, &v, lo, hi);                                               \
    }

ATTEND(attend_one, 1, 0)
ATTEND(attend_one_bf16, 1, 1)
ATTEND(attend_few, TILE_QUERIES, 0)
ATTEND(attend_few_bf16, TILE_QUERIES, 1)

/* All queries of the item against the block of positions [begin, begin + BLOCK). Neighbouring
 * queries that see the same rows of it go together. */
static void attend_block(const tdm_cpu_attention_item *item, const work *w, int64_t begin) {
    static const attend_fn ONE[2] = {attend_one, attend_one_bf16};
    static const attend_fn FEW[2] = {attend_few, attend_few_bf16};
    const tdm_attention_span *s = item->span;
    const tdm_kv_pages *pages = s->pages;
    int64_t n_heads = item->head1 - item->head0;
    int64_t n = (item->tok1 - item->tok0) * n_heads;
    int64_t kv_head = item->head0 / (s->n_heads / pages->n_kv_heads);
    int64_t k_stride = pages->head_dim;
    int64_t v_stride = tdm_kv_value_stride(pages);
    const uint8_t *k = tdm_cpu_row(pages, pages->k, kv_head, begin, k_stride);
    const uint8_t *v = tdm_cpu_row(pages, pages->v, kv_head, begin, v_stride);
    int64_t lo = tdm_cpu_max(0, first_seen(s, s->pos0 + item->tok0) - begin);
    int64_t hi = tdm_cpu_min(BLOCK, s->pos0 + item->tok1 - begin);
    /* One kernel for both: when one of the widths does not end on a vector, both are widened. */
    bool is_odd = pages->head_dim % 8 != 0 || pages->value_dim % 8 != 0;
    bool is_shared = n > WIDEN_QUERIES || is_odd;
    rows_view keys =
        view_rows(k, pages->dtype, pages->head_dim, k_stride, is_shared, lo, hi, w->keys);
    rows_view values =
        view_rows(v, pages->dtype, pages->value_dim, v_stride, is_shared, lo, hi, w->values);
    for (int64_t i = 0; i < n;) {
        int64_t position = s->pos0 + item->tok0 + i / n_heads;
        int64_t last = s->pos0 + item->tok0 + (i + TILE_QUERIES - 1) / n_heads;
        lo = tdm_cpu_max(0, first_seen(s, position) - begin);
        hi = tdm_cpu_min(BLOCK, position + 1 - begin);
        bool is_same = i + TILE_QUERIES <= n && lo == tdm_cpu_max(0, first_seen(s, last) - begin) &&
                       hi == tdm_cpu_min(BLOCK, last + 1 - begin);
        if (lo < hi) {
            (is_same ? FEW : ONE)[keys.is_bf16](s, w, i, &keys, &values, lo, hi);
        }
        i += is_same ? TILE_QUERIES : 1;
    }
}

/* 64 entries of one token's list, gathered and widened, against all heads of the item. */
static void attend_list(const tdm_cpu_attention_item *item, const work *w, int64_t tok,
                        const int32_t *list, int64_t n) {
    const tdm_attention_span *s = item->span;
    const tdm_kv_pages *pages = s->pages;
    int64_t n_heads = item->head1 - item->head0;
    int64_t kv_head = item->head0 / (s->n_heads / pages->n_kv_heads);
    int64_t first = (tok - item->tok0) * n_heads;
    int64_t i = 0;
    rows_view keys = {(const uint8_t *)w->keys, w->k_pad * 4, 0};
    rows_view values = {(const uint8_t *)w->values, w->v_pad * 4, 0};
    for (int64_t j = 0; j < n; ++j) {
        widen_row(tdm_cpu_row(pages, pages->k, kv_head, list[j], pages->head_dim), pages->dtype,
                  pages->head_dim, w->keys + j * w->k_pad);
        if (!pages->is_latent) {
            widen_row(tdm_cpu_row(pages, pages->v, kv_head, list[j], pages->value_dim),
                      pages->dtype, pages->value_dim, w->values + j * w->v_pad);
        }
    }
    if (pages->is_latent) { /* lanes behind value_dim mix what is never stored */
        values = keys;
    }
    for (; i + TILE_QUERIES <= n_heads; i += TILE_QUERIES) {
        attend_few(s, w, first + i, &keys, &values, 0, n);
    }
    for (; i < n_heads; ++i) {
        attend_one(s, w, first + i, &keys, &values, 0, n);
    }
}

static void attend_lists(const tdm_cpu_attention_item *item, const work *w) {
    const tdm_attention_span *s = item->span;
    for (int64_t t = item->tok0; t < item->tok1; ++t) {
        const int32_t *list = s->chosen + t * s->ld_chosen;
        for (int64_t at = 0; at < s->n_chosen[t]; at += BLOCK) {
            attend_list(item, w, t, list + at, tdm_cpu_min(BLOCK, s->n_chosen[t] - at));
        }
    }
}

void tdm_neon_attention(const tdm_cpu_attention_item *item, void *scratch) {
    const tdm_attention_span *s = item->span;
    work w = work_of(s->pages, scratch);
    start(item, &w);
    if (s->chosen != NULL) {
        attend_lists(item, &w);
    } else {
        int64_t begin = first_seen(s, s->pos0 + item->tok0) / BLOCK * BLOCK;
        for (; begin < s->pos0 + item->tok1; begin += BLOCK) {
            attend_block(item, &w, begin);
        }
    }
    finish(item, &w);
}

/* Dots of four queries with one key, folded; each has one accumulator. */
TDM_INLINE float32x4_t index_dots(const float *const *q, const float *key, int64_t dim) {
    const f8 zero = f8_set(0.0f);
    f8 acc[4] = {zero, zero, zero, zero};
    for (int64_t d = 0; d < dim; d += 8) {
        f8 k = f8_load_some(key + d, dim - d);
        for (int i = 0; i < 4; ++i) {
            acc[i] = f8_fma(f8_load_some(q[i] + d, dim - d), k, acc[i]);
        }
    }
    return f8_fold4(acc);
}

void tdm_neon_index_scores(const tdm_index_span *s, int64_t begin, int64_t end) {
    int64_t dim = s->pages->index_dim;
    for (int64_t i = begin; i < end; ++i) {
        const float *key = tdm_cpu_index_row(s->pages, s->pos0 + i);
        float score = 0.0f;
        for (int64_t h = 0; h < s->n_heads; h += 4) {
            int64_t n = tdm_cpu_min(4, s->n_heads - h);
            const float *q[4];
            float dots[4];
            for (int64_t j = 0; j < 4; ++j) { /* past the last head: the last one again, unread */
                q[j] = s->q + tdm_cpu_min(h + j, s->n_heads - 1) * dim;
            }
            vst1q_f32(dots, larger4(index_dots(q, key, dim), vdupq_n_f32(0.0f)));
            for (int64_t j = 0; j < n; ++j) {
                score += s->weights[h + j] * dots[j];
            }
        }
        s->out[i] = score;
    }
}
