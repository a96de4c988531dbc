/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit over latent pages (contract/backend.h): rows that are key and value, lists of
 * positions, and an indexer's scores, each against its formula, the twin, and itself in other
 * chunks, pages and threads. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_LATENT_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_LATENT_H

#include "contract/backend_kit_weights.h"

typedef struct kit_latent {
    tdm_backend *be;
    int32_t n_heads;
    int32_t head_dim;
    int32_t value_dim;
    int32_t index_dim; /* 0: none */
    int32_t index_heads;
    tdm_dtype dtype;
    uint32_t page_shift;
    int64_t chunk;
    int32_t list_max; /* 0: no lists */
} kit_latent;

#define KIT_LATENT_LENGTH 150
#define KIT_LATENT_PAGES 4

typedef struct kit_latent_pages {
    tdm_kv_pages pages;
    uint8_t *memory;
    uint8_t *k[KIT_LATENT_PAGES];
    uint8_t *index[KIT_LATENT_PAGES];
} kit_latent_pages;

/* Filled with NaN, so that whatever reads past what was written shows. */
static inline void kit_latent_pages_make(kit_latent_pages *p, const kit_latent *l) {
    size_t bytes = l->dtype == TDM_DTYPE_F32 ? 4 : 2;
    size_t k_bytes = ((size_t)l->head_dim * bytes) << l->page_shift;
    size_t index_bytes = ((size_t)l->index_dim * sizeof(float)) << l->page_shift;
    size_t all = (k_bytes + index_bytes) * KIT_LATENT_PAGES;
    p->memory = malloc(all);
    assert_non_null(p->memory);
    memset(p->memory, 0xff, all);
    for (size_t i = 0; i < KIT_LATENT_PAGES; ++i) {
        p->k[i] = p->memory + (k_bytes + index_bytes) * i;
        p->index[i] = p->k[i] + k_bytes;
    }
    p->pages = (tdm_kv_pages){.k = p->k,
                              .v = p->k,
                              .index = l->index_dim > 0 ? p->index : NULL,
                              .page_shift = l->page_shift,
                              .n_pages = KIT_LATENT_PAGES,
                              .dtype = l->dtype,
                              .n_kv_heads = 1,
                              .head_dim = l->head_dim,
                              .value_dim = l->value_dim,
                              .index_dim = l->index_dim,
                              .is_latent = true};
}

/* Token t's list: up to list_max of 0..t, ascending, t itself among them. */
static inline int32_t kit_latent_list(const kit_latent *l, int64_t t, int32_t *list) {
    int32_t n = 0;
    int64_t left = l->list_max < t + 1 ? l->list_max : t + 1;
    for (int64_t p = 0; p <= t; ++p) {
        bool is_last_chance = t + 1 - p <= left;
        if (left > 0 && (is_last_chance || (p * 7 + t * 3) % 5 < 2)) {
            list[n++] = (int32_t)p;
            --left;
        }
    }
    return n;
}

/* Writes and attends a sequence chunk by chunk: out [length, n_heads * value_dim], and scores
 * [length, length] of the indexer where there is one. */
static inline void kit_latent_sequence(const kit_latent *l, float *out, float *scores) {
    const int64_t n_all = KIT_LATENT_LENGTH;
    int64_t q_dim = (int64_t)l->n_heads * l->head_dim;
    int64_t o_dim = (int64_t)l->n_heads * l->value_dim;
    int64_t i_dim = (int64_t)l->index_heads * l->index_dim;
    float *q = kit_random(n_all * q_dim, 80);
    float *k = kit_random(n_all * l->head_dim, 81);
    float *index_q = kit_random(n_all * i_dim + 1, 82);
    float *index_k = kit_random(n_all * l->index_dim + 1, 83);
    float *weights = kit_random(n_all * l->index_heads + 1, 84);
    int32_t *lists = calloc((size_t)(n_all * n_all), sizeof *lists);
    int32_t n_lists[KIT_LATENT_LENGTH];
    kit_latent_pages p;
    assert_non_null(lists);
    kit_latent_pages_make(&p, l);
    for (int64_t at = 0; at < n_all; at += l->chunk) {
        int32_t n = (int32_t)(n_all - at < l->chunk ? n_all - at : l->chunk);
        tdm_kv_write_span write = {.pages = &p.pages,
                                   .k = k + at * l->head_dim,
                                   .index = index_k + at * l->index_dim,
                                   .ld_k = l->head_dim,
                                   .ld_index = l->index_dim,
                                   .pos0 = at,
                                   .n = n};
        tdm_attention_span span = {.pages = &p.pages,
                                   .q = q + at * q_dim,
                                   .out = out + at * o_dim,
                                   .ld_q = q_dim,
                                   .ld_out = o_dim,
                                   .pos0 = at,
                                   .n = n,
                                   .n_heads = l->n_heads,
                                   .scale = 1.3f / sqrtf((float)l->head_dim)};
        for (int64_t t = at; l->list_max > 0 && t < at + n; ++t) {
            n_lists[t] = kit_latent_list(l, t, lists + t * n_all);
            span.chosen = lists + at * n_all;
            span.n_chosen = n_lists + at;
            span.ld_chosen = n_all;
        }
        tdm_op_kv_write(l->be, &write, 1);
        tdm_op_attention(l->be, &span, 1);
        for (int64_t t = at; l->index_dim > 0 && t < at + n; ++t) { /* all at once, or in pieces */
            for (int64_t from = 0; from <= t; from += l->chunk) {
                int64_t left = t + 1 - from;
                tdm_index_span ask = {.pages = &p.pages,
                                      .q = index_q + t * i_dim,
                                      .weights = weights + t * l->index_heads,
                                      .out = scores + t * n_all + from,
                                      .pos0 = from,
                                      .n = (int32_t)(left < l->chunk ? left : l->chunk),
                                      .n_heads = l->index_heads};
                tdm_op_index_scores(l->be, &ask, 1);
            }
        }
    }
    free(p.memory);
    free(lists);
    free(weights);
    free(index_k);
    free(index_q);
    free(k);
    free(q);
}

/* The formulas, in f64 over f32 inputs. */
static inline void kit_latent_formula(const kit_latent *l, float *out, float *scores) {
    const int64_t n_all = KIT_LATENT_LENGTH;
    int64_t d = l->head_dim;
    int64_t di = l->index_dim;
    float *q = kit_random(n_all * l->n_heads * d, 80);
    float *k = kit_random(n_all * d, 81);
    float *index_q = kit_random(n_all * l->index_heads * di + 1, 82);
    float *index_k = kit_random(n_all * di + 1, 83);
    float *weights = kit_random(n_all * l->index_heads + 1, 84);
    for (int64_t t = 0; t < n_all; ++t) {
        int32_t list[KIT_LATENT_LENGTH];
        double p[KIT_LATENT_LENGTH];
        int32_t n = l->list_max > 0 ? kit_latent_list(l, t, list) : (int32_t)t + 1;
        for (int32_t j = 0; l->list_max == 0 && j < n; ++j) {
            list[j] = j;
        }
        for (int64_t h = 0; h < l->n_heads; ++h) {
            double total = 0.0;
            for (int32_t j = 0; j < n; ++j) {
                double s = 0.0;
                for (int64_t i = 0; i < d; ++i) {
                    s += (double)q[(t * l->n_heads + h) * d + i] * (double)k[list[j] * d + i];
                }
                p[j] = exp(s * 1.3 / sqrt((double)d));
                total += p[j];
            }
            for (int64_t i = 0; i < l->value_dim; ++i) {
                double sum = 0.0;
                for (int32_t j = 0; j < n; ++j) {
                    sum += p[j] / total * (double)k[list[j] * d + i];
                }
                out[(t * l->n_heads + h) * l->value_dim + i] = (float)sum;
            }
        }
        for (int64_t j = 0; di > 0 && j <= t; ++j) {
            double score = 0.0;
            for (int64_t h = 0; h < l->index_heads; ++h) {
                double s = 0.0;
                for (int64_t i = 0; i < di; ++i) {
                    s += (double)index_q[(t * l->index_heads + h) * di + i] *
                         (double)index_k[j * di + i];
                }
                score += s > 0.0 ? (double)weights[t * l->index_heads + h] * s : 0.0;
            }
            scores[t * n_all + j] = (float)score;
        }
    }
    free(weights);
    free(index_k);
    free(index_q);
    free(k);
    free(q);
}

/* A NaN in a query leaves a defined score, and other queries' bits alone. */
static inline void kit_index_non_finite(const backend_kit *kit) {
    const kit_latent l = {
        .n_heads = 1, .head_dim = 8, .value_dim = 8, .index_dim = 8, .page_shift = 6};
    const float ones[8] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float q[8] = {1.0f, 1.0f, NAN, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    float out[2] = {KIT_CANARY, KIT_CANARY};
    kit_latent_pages p;
    kit_latent_pages_make(&p, &l);
    tdm_kv_write_span write = {
        .pages = &p.pages, .k = ones, .index = ones, .ld_k = 8, .ld_index = 8, .n = 1};
    tdm_index_span ask = {
        .pages = &p.pages, .q = q, .weights = ones, .out = out, .n = 1, .n_heads = 1};
    tdm_op_kv_write(kit->subjects[0], &write, 1);
    tdm_op_index_scores(kit->subjects[0], &ask, 1);
    assert_true(out[0] == 0.0f && out[1] == KIT_CANARY);
    free(p.memory);
}

static inline void kit_latent_case(const backend_kit *kit, kit_latent l) {
    static const int64_t CHUNKS[] = {1, 16, 70, 150};
    const int64_t n_all = KIT_LATENT_LENGTH;
    int64_t n = n_all * l.n_heads * l.value_dim;
    const float tolerance = l.dtype == TDM_DTYPE_F32 ? TOL_ATTENTION : TOL_ATTENTION_BF16;
    float *out[4]; /* truth, twin, subject, subject again */
    float *scores[4];
    for (int i = 0; i < 4; ++i) {
        out[i] = kit_filled(n, KIT_CANARY);
        scores[i] = kit_filled(n_all * n_all, 0.0f);
    }
    l.chunk = n_all;
    kit_latent_formula(&l, out[0], scores[0]);
    l.be = kit->twin;
    kit_latent_sequence(&l, out[1], scores[1]);
    l.be = kit->subjects[0];
    kit_latent_sequence(&l, out[2], scores[2]);
    kit_close("latent attention of the twin", out[0], out[1], n, tolerance);
    kit_close("latent attention", out[1], out[2], n, kit_attention_tolerance(kit, l.dtype));
    kit_close("index scores of the twin", scores[0], scores[1], n_all * n_all, TOL_ATTENTION);
    kit_close("index scores", scores[1], scores[2], n_all * n_all, TOL_ATTENTION);
    for (size_t i = 0; i < SUPPORT_LEN(CHUNKS); ++i) {
        l.be = kit->subjects[i % 3];
        l.chunk = CHUNKS[i];
        l.page_shift = i % 2 == 0 ? 6 : 8;
        kit_latent_sequence(&l, out[3], scores[3]);
        kit_same("latent attention by chunks, threads and pages", out[2], out[3], n);
        kit_same("index scores by chunks, threads and pages", scores[2], scores[3], n_all * n_all);
    }
    if (l.list_max >= n_all) { /* lists of everything are no lists, to the bit */
        l.list_max = 0;
        kit_latent_sequence(&l, out[3], scores[3]);
        kit_same("lists of every position", out[2], out[3], n);
    }
    for (int i = 0; i < 4; ++i) {
        free(out[i]);
        free(scores[i]);
    }
}

static inline void kit_latent_run(const backend_kit *kit) {
    static const kit_latent CASES[] = {
        {.n_heads = 4, .head_dim = 40, .value_dim = 32, .index_dim = 16, .index_heads = 4},
        {.n_heads = 5, .head_dim = 21, .value_dim = 13, .index_dim = 7, .index_heads = 3},
        {.n_heads = 9, .head_dim = 72, .value_dim = 64},
        {.n_heads = 2, .head_dim = TDM_HEAD_DIM_MAX, .value_dim = 512},
    };
    static const int32_t LISTS[] = {0, 12, 70, KIT_LATENT_LENGTH};
    for (size_t c = 0; c < SUPPORT_LEN(CASES); ++c) {
        for (size_t i = 0; i < SUPPORT_LEN(LISTS); ++i) {
            kit_latent l = CASES[c];
            l.list_max = LISTS[i];
            l.page_shift = 6;
            l.dtype = (c + i) % 2 == 0 ? TDM_DTYPE_F32 : TDM_DTYPE_BF16;
            kit_latent_case(kit, l);
        }
    }
    kit_index_non_finite(kit);
}

#endif
