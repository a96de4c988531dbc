/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages, written once for every width of register. A set's file defines
 *     vec, LANES, TILE_QUERIES      its register, f32 lanes in it, queries of a register tile
 *     BF16_FORM                     FORM_PAIRS or FORM_DOT: what it does with bf16 pages
 *     IS_ROUNDED                    whether queries and weights are rounded to bf16 there
 *     HAS_F32                       whether it wants more than attend_bf16
 *     v_load ... v_dot              see avx2/attention.c, the shortest list
 * and includes this file; it gets attend_item and merge_item, or attend_bf16 alone.
 *
 * A query's keys are reduced in chunks of 256 absolute positions (or entries of its list). A chunk
 * gives a mix of values, its largest score and its sum of weights, from what the query sees of it and
 * nothing else; chunks are merged in ascending order. So neither other queries, nor how a prompt was
 * cut, nor which thread had which chunk can change a bit. Scores are in powers of two: log2(e) goes
 * into the queries, and weights are exp2(score - largest).
 *
 * Blocks of 64 positions are read where they lie, or opened into scratch when they lie as rows
 * (latent pages) or apart (lists). A form of storage that is neither is one more way of opening. */
#ifndef TDM_BACKEND_CPU_ATTENTION_TMPL_H
#define TDM_BACKEND_CPU_ATTENTION_TMPL_H

#include "backend/cpu/attention_tile_tmpl.h"

#include "tensor/half.h"
#include "tensor/ops.h"

#include <math.h>
#include <string.h>

#define BLOCK TDM_CPU_ATTENTION_BLOCK
#define CHUNK TDM_CPU_ATTENTION_CHUNK
#define QUERIES TDM_CPU_ATTENTION_QUERIES
#define LOG2_E 0x1.715476p+0f

/* What one query sees of the current chunk. */
typedef struct reach {
    int32_t lo;
    int32_t hi;
} reach;

typedef struct work {
    const tdm_cpu_attention_item *item;
    const tdm_attention_span *span;
    const tdm_kv_pages *pages;
    int64_t kv_head;
    int64_t n_heads; /* of the item */
    int64_t n;       /* queries */
    int64_t k_steps; /* of a key */
    int64_t v_pad;
    int64_t ld;    /* of state and part: v_pad values, the largest score, the sum of weights */
    int64_t ld_q;  /* floats */
    float *q;      /* [n, ld_q] */
    float *state;  /* [n, ld]: chunks merged so far */
    float *part;   /* [n, ld]: the current chunk */
    float *scores; /* [n, CHUNK]; weights in their place later */
    uint8_t *keys; /* one opened block */
    uint8_t *values;
    reach seen[QUERIES];
    bool is_opened;
    int64_t end; /* of the positions that this call reads */
    /* Lists: entries of the current chunk. */
    const int32_t *list;
    int64_t n_list;
} work;

TDM_INLINE int64_t positions_of_step(int form) {
    return form == FORM_F32 ? 1 : 2;
}

static float log2_scale(const tdm_attention_span *s) {
    return s->softcap != 0.0f ? s->scale / s->softcap : s->scale * LOG2_E;
}

/* Queries as the form multiplies them, with the scale in them. */
TDM_INLINE void put_queries(int form, const work *w) {
    const tdm_attention_span *s = w->span;
    int64_t dim = w->pages->head_dim;
    float scale = log2_scale(s);
    for (int64_t i = 0; i < w->n; ++i) {
        const float *from = s->q + (w->item->tok0 + i / w->n_heads) * s->ld_q +
                            (w->item->head0 + i % w->n_heads) * dim;
        float *to = w->q + i * w->ld_q;
        for (int64_t d = 0; d < dim + dim % positions_of_step(form); ++d) {
            float x = d < dim ? from[d] * scale : 0.0f;
            if (form == FORM_DOT) {
                uint16_t half = tdm_bf16_from_f32(x);
                memcpy((uint8_t *)to + 2 * d, &half, sizeof half);
            } else {
                to[d] =
                    form == FORM_PAIRS && IS_ROUNDED ? tdm_bf16_to_f32(tdm_bf16_from_f32(x)) : x;
            }
        }
    }
}

static void start(const work *w) {
    for (int64_t i = 0; i < w->n; ++i) {
        float *state = w->state + i * w->ld;
        const float *sinks = w->span->sinks;
        float largest = sinks != NULL ? sinks[w->item->head0 + i % w->n_heads] * LOG2_E : -INFINITY;
        memset(state, 0, (size_t)w->v_pad * sizeof *state);
        state[w->v_pad] = largest;
        state[w->v_pad + 1] = largest == -INFINITY ? 0.0f : 1.0f;
    }
}

static work work_of(const tdm_cpu_attention_item *item, void *scratch) {
    const tdm_attention_span *s = item->span;
    work w = {.item = item, .span = s, .pages = s->pages};
    w.n_heads = item->head1 - item->head0;
    w.n = (item->tok1 - item->tok0) * w.n_heads;
    w.kv_head = item->head0 / (s->n_heads / w.pages->n_kv_heads);
    w.v_pad = (w.pages->value_dim + 15) / 16 * 16;
    w.ld = w.v_pad + 16;
    w.ld_q = (w.pages->head_dim + 17) / 16 * 16;
    w.k_steps = w.pages->dtype == TDM_DTYPE_F32 ? w.pages->head_dim : (w.pages->head_dim + 1) / 2;
    w.q = scratch;
    w.scores = w.q + w.n * w.ld_q;
    w.state = w.scores + w.n * CHUNK;
    w.part = w.state + w.n * w.ld;
    w.keys = (uint8_t *)(w.part + w.n * w.ld);
    w.values = w.keys + (size_t)BLOCK * TDM_HEAD_DIM_MAX * sizeof(float);
    return w;
}

/* Position of entry j of block `block` of the chunk that begins at `begin`. */
static int64_t position_of(const work *w, int64_t begin, int64_t block, int64_t j) {
    return w->list != NULL ? w->list[block * BLOCK + j] : begin + block * BLOCK + j;
}

/* Entries of a block that are there. */
static int64_t entries_of(const work *w, int64_t block) {
    return w->list != NULL ? tdm_cpu_min(BLOCK, w->n_list - block * BLOCK) : BLOCK;
}

/* Lane j of each step of a key from its row as f32 or rows of bf16. */
static void open_key(uint8_t *to, const uint8_t *row, int64_t row_bytes, int64_t j) {
    int64_t at = 0;
    to += 4 * j;
    for (; at + 4 <= row_bytes; at += 4, to += 4 * BLOCK) {
        memcpy(to, row + at, 4);
    }
    if (at < row_bytes) { /* the last of an odd number of bf16 */
        memset(to, 0, 4);
        memcpy(to, row + at, 2);
    }
}

static void open_value(const work *w, const uint8_t *row, int64_t j) {
    int64_t dim = w->pages->value_dim;
    if (w->pages->dtype == TDM_DTYPE_F32) {
        memcpy(w->values + j * dim * 4, row, (size_t)dim * 4);
        return;
    }
    uint8_t *half = w->values + j / 2 * dim * 4 + j % 2 * 2;
    for (int64_t d = 0; d < dim; ++d) {
        memcpy(half + 4 * d, row + 2 * d, 2);
    }
}

/* A row as its pages store it; buffer holds one that does not lie as a row. */
static const uint8_t *stored_row(const work *w, int64_t position, bool is_value, float *buffer) {
    const tdm_kv_pages *pages = w->pages;
    int64_t dim = is_value ? pages->value_dim : pages->head_dim;
    if (pages->is_latent) {
        return tdm_cpu_latent_row(pages, position);
    }
    (is_value ? tdm_cpu_value_read : tdm_cpu_key_read)(pages, w->kv_head, position, buffer);
    for (int64_t d = 0; d < dim && pages->dtype != TDM_DTYPE_F32; ++d) {
        uint16_t half = tdm_bf16_from_f32(buffer[d]); /* exact: it was one */
        memcpy((uint8_t *)buffer + 2 * d, &half, sizeof half);
    }
    return (const uint8_t *)buffer;
}

static void open_block(const work *w, int64_t begin, int64_t block, bool is_value) {
    float buffer[TDM_HEAD_DIM_MAX];
    int64_t row_bytes = w->pages->head_dim * (w->pages->dtype == TDM_DTYPE_F32 ? 4 : 2);
    int64_t n = entries_of(w, block);
    for (int64_t j = 0; j < n; ++j) {
        const uint8_t *row = stored_row(w, position_of(w, begin, block, j), is_value, buffer);
        if (is_value) {
            open_value(w, row, j);
        } else {
            open_key(w->keys, row, row_bytes, j);
        }
    }
}

typedef void (*multiply_fn)(const lanes_view *b, int64_t step0, int64_t step1, const factors *a,
                            float *out, int64_t ld_out, bool is_fresh);

#define DEFINE_TILE(name, form, n)                                                                 \
    static void name##_##n(const lanes_view *b, int64_t step0, int64_t step1, const factors *a,    \
                           float *out, int64_t ld_out, bool is_fresh) {                            \
        multiply_lanes(form, n, b, step0, step1, a, out, ld_out, is_fresh);                        \
    }
#define DEFINE_TILES(name, form)                                                                   \
    DEFINE_TILE(name, form, 1)                                                                     \
    DEFINE_TILE(name, form, 2)                                                                     \
    DEFINE_TILE(name, form, 3)
DEFINE_TILES(bf16, BF16_FORM)
#if TILE_QUERIES == 6
DEFINE_TILE(bf16, BF16_FORM, 6)
#define WIDEST(name) name##_6
#else
#define WIDEST(name) name##_3
#endif
#if HAS_F32
DEFINE_TILES(f32, FORM_F32)
#if TILE_QUERIES == 6
DEFINE_TILE(f32, FORM_F32, 6)
#endif
#endif

/* For n queries at most; *out_n are taken. */
TDM_INLINE multiply_fn tile_of(int form, int64_t n, int64_t *out_n) {
    static const multiply_fn BF16[4] = {bf16_1, bf16_2, bf16_3, WIDEST(bf16)};
#if HAS_F32
    static const multiply_fn F32[4] = {f32_1, f32_2, f32_3, WIDEST(f32)};
#else
    static const multiply_fn F32[4] = {NULL};
#endif
    *out_n = n >= TILE_QUERIES ? TILE_QUERIES : tdm_cpu_min(n, 3);
    return (form == FORM_F32 ? F32 : BF16)[*out_n > 3 ? 3 : *out_n - 1];
}

static const uint8_t *key_block(const work *w, int64_t position) {
    return tdm_cpu_kv_block(w->pages, w->pages->k, w->kv_head, position, w->pages->head_dim);
}

static const uint8_t *value_block(const work *w, int64_t position) {
    return tdm_cpu_kv_block(w->pages, w->pages->v, w->kv_head, position, w->pages->value_dim);
}

/* Few queries wait for memory: while keys are multiplied, values of the same positions are asked for,
 * and while values are, the keys of the next chunk. */
static bool is_read_once(const work *w) {
    return w->n <= TILE_QUERIES && !w->is_opened;
}

TDM_INLINE void score_block(int form, const work *w, int64_t begin, int64_t block) {
    lanes_view b = {.blocks = {w->keys}, .shift = 30, .step_bytes = BLOCK * 4, .n_lanes = BLOCK};
    if (w->is_opened) {
        open_block(w, begin, block, false);
    } else {
        b.blocks[0] = key_block(w, begin + block * BLOCK);
    }
    if (is_read_once(w)) {
        b.ahead[0] = value_block(w, begin + block * BLOCK);
    }
    for (int64_t i = 0, n = 0; i < w->n; i += n) {
        const factors a = {w->q + i * w->ld_q, w->ld_q};
        const multiply_fn multiply_tile = tile_of(form, w->n - i, &n);
        multiply_tile(&b, 0, w->k_steps, &a, w->scores + i * CHUNK + block * BLOCK, CHUNK, true);
    }
}

/* scores of positions [lo, hi) of a chunk become weights, zero in the other lanes of the vectors they
 * touch; returns the largest score and the sum of weights. */
TDM_INLINE void weigh(int form, const tdm_attention_span *s, float *scores, reach r,
                      float *out_largest, float *out_total) {
    const bool is_short = form != FORM_F32 && IS_ROUNDED;
    /* Rounded weights are written in pairs of vectors. */
    const int64_t whole = is_short ? 2 * LANES : LANES;
    const int64_t first = r.lo / whole * whole;
    const int64_t last = (r.hi + whole - 1) / whole * whole;
    vec most = v_set1(-INFINITY);
    vec total = v_set1(0.0f);
    for (int64_t j = first; j < last; j += LANES) {
        vec v = v_load(scores + j);
        if (s->softcap != 0.0f) {
            v = v_mul(v_tanh(v), v_set1(s->softcap * LOG2_E));
        }
        if (s->softcap != 0.0f || j < r.lo || j + LANES > r.hi) {
            v = v_between(v, v_set1(-INFINITY), r.lo - j, r.hi - j);
            v_store(scores + j, v);
        }
        most = v_max(v, most);
    }
    *out_largest = v_largest(most);
    most = v_set1(*out_largest);
    for (int64_t j = first; j < last; j += whole) {
        vec v = v_sub(v_load(scores + j), most);
        if (is_short) {
            vec next = v_sub(v_load(scores + j + LANES), most);
            total = v_put_short(scores, j, v_exp2_short(v), v_exp2_short(next), total);
        } else {
            v = v_exp2(v);
            v_store(scores + j, v);
            total = v_add(total, v);
        }
    }
    *out_total = v_sum(total);
}

/* One query's mix of steps [step0, step1) of what it sees, halves of steps at either end included. */
TDM_INLINE void mix_one(int form, const work *w, int64_t i, const lanes_view *b, int64_t step0,
                        int64_t step1) {
    const reach r = w->seen[i];
    const factors a = {w->scores + i * CHUNK, CHUNK};
    const int64_t two = positions_of_step(form);
    float *out = w->part + i * w->ld;
    int64_t n = 0;
    int64_t lo = tdm_cpu_max(step0, (r.lo + two - 1) / two);
    int64_t hi = tdm_cpu_min(step1, r.hi / two); /* whole steps */
    if (r.lo % two != 0 && r.lo / two >= step0 && r.lo / two < step1) {
        multiply_half(form, true, b, r.lo / two, &a, out);
    }
    if (lo < hi) {
        tile_of(form, 1, &n)(b, lo, hi, &a, out, w->ld, false);
    }
    if (r.hi % two != 0 && r.hi > r.lo && r.hi / two >= step0 && r.hi / two < step1) {
        multiply_half(form, false, b, r.hi / two, &a, out);
    }
}

/* Mixes of n queries from i on over steps [step0, step1): what all of them see together, what one
 * sees alone before and after that. */
TDM_INLINE void mix_tile(int form, const work *w, int64_t i, int64_t n, multiply_fn multiply_tile,
                         const lanes_view *b, int64_t step0, int64_t step1) {
    const int64_t two = positions_of_step(form);
    int64_t lo = step0;
    int64_t hi = step1;
    for (int64_t t = i; t < i + n; ++t) {
        lo = tdm_cpu_max(lo, (w->seen[t].lo + two - 1) / two);
        hi = tdm_cpu_min(hi, w->seen[t].hi / two);
    }
    if (lo >= hi) {
        lo = step1;
        hi = step1;
    }
    for (int64_t t = i; t < i + n; ++t) {
        mix_one(form, w, t, b, step0, lo);
    }
    if (lo < hi) {
        const factors a = {w->scores + i * CHUNK, CHUNK};
        multiply_tile(b, lo, hi, &a, w->part + i * w->ld, w->ld, false);
        for (int64_t t = i; t < i + n; ++t) {
            mix_one(form, w, t, b, hi, step1);
        }
    }
}

/* Steps of blocks [block0, block1). */
TDM_INLINE void mix_blocks(int form, const work *w, const lanes_view *b, int64_t block0,
                           int64_t block1) {
    for (int64_t i = 0, n = 0; i < w->n; i += n) {
        const multiply_fn multiply_tile = tile_of(form, w->n - i, &n);
        mix_tile(form, w, i, n, multiply_tile, b, block0 << b->shift, block1 << b->shift);
    }
}

TDM_INLINE void mix_chunk(int form, const work *w, int64_t begin, int64_t block0, int64_t block1) {
    const tdm_kv_pages *pages = w->pages;
    lanes_view b = {.shift = form == FORM_F32 ? 6 : 5,
                    .step_bytes = (int64_t)pages->value_dim * 4,
                    .n_lanes = pages->value_dim};
    for (int64_t i = 0; i < w->n; ++i) {
        memset(w->part + i * w->ld, 0, (size_t)w->v_pad * sizeof(float));
    }
    for (int64_t block = block0; block < block1; ++block) {
        b.blocks[block] = w->values;
        if (w->is_opened) {
            open_block(w, begin, block, true);
            mix_blocks(form, w, &b, block, block + 1);
        } else {
            b.blocks[block] = value_block(w, begin + block * BLOCK);
            int64_t next = begin + CHUNK + block * BLOCK;
            if (is_read_once(w) && next < w->end) {
                b.ahead[block] = key_block(w, next);
            }
        }
    }
    if (!w->is_opened) {
        mix_blocks(form, w, &b, block0, block1);
    }
}

/* What each query sees of the chunk. Returns false when that is nothing for all of them. */
static bool reach_of(work *w, int64_t begin, reach *out_all) {
    const tdm_attention_span *s = w->span;
    *out_all = (reach){CHUNK, 0};
    for (int64_t i = 0; i < w->n; ++i) {
        int64_t end = s->pos0 + w->item->tok0 + i / w->n_heads + 1;
        int64_t lo = s->window > 0 ? tdm_cpu_max(0, end - s->window - begin) : 0;
        int64_t hi = tdm_cpu_max(0, tdm_cpu_min(CHUNK, end - begin));
        if (w->list != NULL) {
            lo = 0;
            hi = tdm_cpu_min(CHUNK, w->n_list);
        }
        lo = tdm_cpu_min(lo, hi);
        w->seen[i] = (reach){(int32_t)lo, (int32_t)hi};
        if (lo < hi) {
            out_all->lo = (int32_t)tdm_cpu_min(out_all->lo, lo);
            out_all->hi = (int32_t)tdm_cpu_max(out_all->hi, hi);
        }
    }
    return out_all->lo < out_all->hi;
}

/* The chunk at `begin` into w->part. */
TDM_INLINE void attend_chunk(int form, work *w, int64_t begin) {
    reach all;
    bool is_seen = reach_of(w, begin, &all);
    int64_t block0 = all.lo / BLOCK;
    int64_t block1 = (all.hi + BLOCK - 1) / BLOCK;
    for (int64_t block = block0; block < block1 && is_seen; ++block) {
        score_block(form, w, begin, block);
    }
    for (int64_t i = 0; i < w->n; ++i) {
        float *end = w->part + i * w->ld + w->v_pad;
        end[0] = -INFINITY;
        end[1] = 0.0f;
        if (w->seen[i].lo < w->seen[i].hi) {
            weigh(form, w->span, w->scores + i * CHUNK, w->seen[i], &end[0], &end[1]);
        }
    }
    if (is_seen) {
        mix_chunk(form, w, begin, block0, block1);
    }
}

/* Chunks in ascending order, one after another. A chunk of which a query saw nothing changes nothing;
 * one of nothing but infinite or undefined scores has a sum that is no number. */
static void merge_part(const work *w, const float *part) {
    for (int64_t i = 0; i < w->n; ++i) {
        float *to = w->state + i * w->ld;
        const float *from = part + i * w->ld;
        float before = to[w->v_pad];
        float most = from[w->v_pad];
        if (most == -INFINITY && from[w->v_pad + 1] == 0.0f) {
            continue;
        }
        float now = most > before ? most : before;
        float keep = before == -INFINITY ? 0.0f : v_exp2_one(before - now);
        float take = v_exp2_one(most - now);
        to[w->v_pad] = now;
        to[w->v_pad + 1] = to[w->v_pad + 1] * keep + from[w->v_pad + 1] * take;
        for (int64_t d = 0; d < w->v_pad; d += LANES) {
            vec kept = v_mul(v_load(to + d), v_set1(keep));
            v_store(to + d, v_fma(v_load(from + d), v_set1(take), kept));
        }
    }
}

static void finish(const work *w) {
    const tdm_attention_span *s = w->span;
    int64_t dim = w->pages->value_dim;
    for (int64_t i = 0; i < w->n; ++i) {
        const float *state = w->state + i * w->ld;
        float *out = s->out + (w->item->tok0 + i / w->n_heads) * s->ld_out +
                     (w->item->head0 + i % w->n_heads) * dim;
        vec total = v_set1(state[w->v_pad + 1]);
        for (int64_t d = 0; d < dim; d += LANES) {
            v_store_some(out + d, dim - d, v_div(v_load(state + d), total));
        }
    }
}

/* One token's list: its entries in the place of positions. */
TDM_INLINE void attend_list(int form, work *w, const tdm_cpu_attention_item *item, int32_t tok,
                            void *scratch) {
    tdm_cpu_attention_item one = *item;
    const tdm_attention_span *s = item->span;
    const int32_t *list = s->chosen + tok * s->ld_chosen;
    one.tok0 = tok;
    one.tok1 = tok + 1;
    *w = work_of(&one, scratch);
    w->is_opened = true;
    put_queries(form, w);
    start(w);
    for (int64_t at = 0; at < s->n_chosen[tok]; at += CHUNK) {
        w->list = list + at;
        w->n_list = s->n_chosen[tok] - at;
        attend_chunk(form, w, 0);
        merge_part(w, w->part);
    }
    finish(w);
}

TDM_INLINE void attend_positions(int form, work *w, const tdm_cpu_attention_item *item,
                                 void *scratch) {
    const tdm_attention_span *s = item->span;
    *w = work_of(item, scratch);
    w->is_opened = w->pages->is_latent;
    put_queries(form, w);
    w->end = s->pos0 + item->tok1;
    if (item->partials != NULL) {
        w->end = tdm_cpu_min(w->end, item->chunk1 * CHUNK);
        w->part = item->partials;
        for (int64_t chunk = item->chunk0; chunk < item->chunk1; ++chunk) {
            attend_chunk(form, w, chunk * CHUNK);
            w->part += w->n * w->ld;
        }
        return;
    }
    int64_t first = s->pos0 + item->tok0 + 1;
    first = s->window > 0 ? tdm_cpu_max(0, first - s->window) : 0;
    start(w);
    for (int64_t begin = first / CHUNK * CHUNK; begin < s->pos0 + item->tok1; begin += CHUNK) {
        attend_chunk(form, w, begin);
        merge_part(w, w->part);
    }
    finish(w);
}

TDM_INLINE void attend_form(int form, const tdm_cpu_attention_item *item, void *scratch) {
    work w;
    if (item->span->chosen == NULL) {
        attend_positions(form, &w, item, scratch);
        return;
    }
    for (int32_t tok = item->tok0; tok < item->tok1; ++tok) {
        attend_list(form, &w, item, tok, scratch);
    }
}

static void attend_bf16(const tdm_cpu_attention_item *item, void *scratch) {
    attend_form(BF16_FORM, item, scratch);
}

#if HAS_F32
static void attend_f32(const tdm_cpu_attention_item *item, void *scratch) {
    attend_form(FORM_F32, item, scratch);
}

static void attend_item(const tdm_cpu_attention_item *item, void *scratch) {
    (item->span->pages->dtype == TDM_DTYPE_F32 ? attend_f32 : attend_bf16)(item, scratch);
}

static void merge_item(const tdm_cpu_attention_item *item, void *scratch) {
    work w = work_of(item, scratch);
    start(&w);
    for (int64_t chunk = 0; chunk < item->chunk1 - item->chunk0; ++chunk) {
        merge_part(&w, item->partials + chunk * w.n * w.ld);
    }
    finish(&w);
}
#endif

#endif
