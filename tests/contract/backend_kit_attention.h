/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend kit over pages of keys and values (contract/backend.h): attention against its formula,
 * the twin, and itself in other chunks, pages and threads. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_ATTENTION_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_ATTENTION_H

#include "contract/backend_kit_weights.h"

/* Pages of one sequence over plain memory filled with NaN, so that whatever reads past what was
 * written shows. */
typedef struct kit_pages {
    tdm_kv_pages pages;
    uint8_t *memory;
    uint8_t *k[16];
    uint8_t *v[16];
} kit_pages;

typedef struct kit_heads {
    int32_t n_heads;
    int32_t n_kv_heads;
    int32_t head_dim;
    int32_t value_dim;
} kit_heads;

static inline void kit_pages_make(kit_pages *p, const kit_heads *h, tdm_dtype dtype, uint32_t shift,
                                  uint32_t n_pages) {
    size_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    size_t k_bytes = (size_t)h->n_kv_heads * (size_t)h->head_dim * bytes << shift;
    size_t v_bytes = (size_t)h->n_kv_heads * (size_t)h->value_dim * bytes << shift;
    assert_true(n_pages <= 16);
    p->memory = malloc((k_bytes + v_bytes) * n_pages);
    assert_non_null(p->memory);
    memset(p->memory, 0xff, (k_bytes + v_bytes) * n_pages);
    for (uint32_t i = 0; i < n_pages; ++i) {
        p->k[i] = p->memory + (k_bytes + v_bytes) * i;
        p->v[i] = p->k[i] + k_bytes;
    }
    p->pages = (tdm_kv_pages){.k = p->k,
                              .v = p->v,
                              .page_shift = shift,
                              .n_pages = n_pages,
                              .dtype = dtype,
                              .n_kv_heads = h->n_kv_heads,
                              .head_dim = h->head_dim,
                              .value_dim = h->value_dim};
}

typedef struct kit_run {
    tdm_backend *be;
    kit_heads heads;
    tdm_dtype dtype;
    uint32_t page_shift;
    uint32_t n_pages;
    int32_t window;
    float softcap;
    bool has_sinks;
    int64_t length;
    int64_t chunk;
} kit_run;

/* One that outweighs the keys, one like them, one that is nothing, and so on by head. */
static inline float kit_sink(int64_t head) {
    static const float SINKS[] = {2.5f, 0.0f, -40.0f, -INFINITY, 1.0f};
    return SINKS[head % (int64_t)SUPPORT_LEN(SINKS)];
}

/* Writes and attends a whole sequence chunk by chunk; returns [length, n_heads * value_dim]. */
static inline float *kit_sequence(const kit_run *r) {
    int64_t q_dim = (int64_t)r->heads.n_heads * r->heads.head_dim;
    int64_t k_dim = (int64_t)r->heads.n_kv_heads * r->heads.head_dim;
    int64_t v_dim = (int64_t)r->heads.n_kv_heads * r->heads.value_dim;
    int64_t o_dim = (int64_t)r->heads.n_heads * r->heads.value_dim;
    float *q = kit_random(r->length * q_dim, 40);
    float *k = kit_random(r->length * k_dim, 41);
    float *v = kit_random(r->length * v_dim, 42);
    float *out = kit_filled(r->length * o_dim, KIT_CANARY);
    float *sinks = kit_floats(r->heads.n_heads);
    kit_pages pages;
    for (int32_t h = 0; h < r->heads.n_heads; ++h) {
        sinks[h] = kit_sink(h);
    }
    kit_pages_make(&pages, &r->heads, r->dtype, r->page_shift, r->n_pages);
    for (int64_t at = 0; at < r->length; at += r->chunk) {
        int32_t n = (int32_t)(r->length - at < r->chunk ? r->length - at : r->chunk);
        tdm_kv_write_span write = {.pages = &pages.pages,
                                   .k = k + at * k_dim,
                                   .v = v + at * v_dim,
                                   .ld_k = k_dim,
                                   .ld_v = v_dim,
                                   .pos0 = at,
                                   .n = n};
        tdm_attention_span span = {.pages = &pages.pages,
                                   .q = q + at * q_dim,
                                   .out = out + at * o_dim,
                                   .ld_q = q_dim,
                                   .ld_out = o_dim,
                                   .pos0 = at,
                                   .n = n,
                                   .n_heads = r->heads.n_heads,
                                   .window = r->window,
                                   .scale = 1.3f / sqrtf((float)r->heads.head_dim),
                                   .softcap = r->softcap,
                                   .sinks = r->has_sinks ? sinks : NULL};
        tdm_op_kv_write(r->be, &write, 1);
        tdm_op_attention(r->be, &span, 1);
    }
    free(pages.memory);
    free(sinks);
    free(v);
    free(k);
    free(q);
    return out;
}

/* Attention as its formula, in f64 over f32 inputs: independent of pages and blocks. */
static inline float *kit_attention_formula(const kit_run *r) {
    int64_t d = r->heads.head_dim;
    int64_t dv = r->heads.value_dim;
    int64_t o_dim = (int64_t)r->heads.n_heads * dv;
    float *q = kit_random(r->length * r->heads.n_heads * d, 40);
    float *k = kit_random(r->length * r->heads.n_kv_heads * d, 41);
    float *v = kit_random(r->length * r->heads.n_kv_heads * dv, 42);
    float *out = kit_floats(r->length * o_dim);
    double *p = malloc((size_t)r->length * sizeof *p);
    assert_non_null(p);
    for (int64_t t = 0; t < r->length; ++t) {
        for (int64_t h = 0; h < r->heads.n_heads; ++h) {
            int64_t kh = h / (r->heads.n_heads / r->heads.n_kv_heads);
            int64_t lo = r->window > 0 && t - r->window + 1 > 0 ? t - r->window + 1 : 0;
            double total = r->has_sinks ? exp((double)kit_sink(h)) : 0.0;
            for (int64_t j = lo; j <= t; ++j) {
                double s = 0.0;
                for (int64_t i = 0; i < d; ++i) {
                    s += (double)q[(t * r->heads.n_heads + h) * d + i] *
                         (double)k[(j * r->heads.n_kv_heads + kh) * d + i];
                }
                s *= 1.3 / sqrt((double)d);
                if (r->softcap != 0.0f) {
                    s = (double)r->softcap * tanh(s / (double)r->softcap);
                }
                p[j] = exp(s);
                total += p[j];
            }
            for (int64_t i = 0; i < dv; ++i) {
                double sum = 0.0;
                for (int64_t j = lo; j <= t; ++j) {
                    sum += p[j] / total * (double)v[(j * r->heads.n_kv_heads + kh) * dv + i];
                }
                out[t * o_dim + h * dv + i] = (float)sum;
            }
        }
    }
    free(p);
    free(v);
    free(k);
    free(q);
    return out;
}

static inline void kit_attention(const backend_kit *kit) {
    static const kit_heads SHAPES[] = {
        {4, 2, 16, 16}, {3, 3, 8, 8}, {6, 2, 20, 12}, {9, 1, 64, 64}, {2, 1, 6, 3}};
    static const int64_t CHUNKS[] = {1, 16, 70, 3, 150};
    static const struct {
        int32_t window;
        float softcap;
        tdm_dtype dtype;
        bool has_sinks;
    } KINDS[] = {{0, 0.0f, TDM_DTYPE_F32, false}, {21, 0.0f, TDM_DTYPE_F32, true},
                 {0, 1.5f, TDM_DTYPE_BF16, true}, {65, 0.0f, TDM_DTYPE_BF16, false},
                 {0, 0.0f, TDM_DTYPE_F32, true},  {8, 0.0f, TDM_DTYPE_BF16, true}};
    for (size_t c = 0; c < SUPPORT_LEN(SHAPES) * SUPPORT_LEN(KINDS); ++c) {
        size_t kind = c % SUPPORT_LEN(KINDS);
        if ((c + c / SUPPORT_LEN(KINDS)) % 2 != 0) { /* every kind with every other shape */
            continue;
        }
        kit_run run = {.be = kit->twin,
                       .heads = SHAPES[c / SUPPORT_LEN(KINDS)],
                       .dtype = KINDS[kind].dtype,
                       .page_shift = 6,
                       .n_pages = 3,
                       .window = KINDS[kind].window,
                       .softcap = KINDS[kind].softcap,
                       .has_sinks = KINDS[kind].has_sinks,
                       .length = 150,
                       .chunk = 150};
        int64_t n = run.length * run.heads.n_heads * run.heads.value_dim;
        float *truth = kit_attention_formula(&run);
        float *want = kit_sequence(&run);
        kit_close("attention of the twin", truth, want, n,
                  run.dtype == TDM_DTYPE_F32 ? TOL_ATTENTION : TOL_ATTENTION_BF16);
        run.be = kit->subjects[0];
        float *first = kit_sequence(&run);
        kit_close("attention", want, first, n, kit_attention_tolerance(kit, run.dtype));
        for (size_t i = 0; i < SUPPORT_LEN(CHUNKS); ++i) {
            run.be = kit->subjects[i % 3];
            run.chunk = CHUNKS[i];
            run.page_shift = i % 2 == 0 ? 6 : 8;
            run.n_pages = 3;
            if (run.window > 0 && run.chunk <= 3) { /* a ring that forgets */
                run.page_shift = 6;
                run.n_pages = 2;
            }
            float *got = kit_sequence(&run);
            kit_same("attention by chunks, threads and pages", first, got, n);
            free(got);
        }
        free(first);
        free(want);
        free(truth);
    }
}

/* Sequences of several chunks of 256: any cut of the prompt, any team, whole chunks or parts of them
 * inside a window, all the same bits. Single tokens at the end are what a team splits over keys. */
static inline void kit_attention_deep(const backend_kit *kit) {
    static const kit_heads SHAPES[] = {{4, 2, 8, 12}, {2, 1, 16, 40}, {7, 1, 8, 16}};
    static const int64_t CHUNKS[] = {1, 330, 96};
    for (size_t c = 0; c < SUPPORT_LEN(SHAPES); ++c) {
        kit_run run = {.be = kit->twin,
                       .heads = SHAPES[c],
                       .dtype = c != 1 ? TDM_DTYPE_BF16 : TDM_DTYPE_F32,
                       .page_shift = 8,
                       .n_pages = 2,
                       .window = c == 2 ? 301 : 0,
                       .softcap = c == 1 ? 2.0f : 0.0f,
                       .has_sinks = c == 0,
                       .length = 330,
                       .chunk = 330};
        int64_t n = run.length * run.heads.n_heads * run.heads.value_dim;
        float *want = kit_sequence(&run);
        run.be = kit->subjects[0];
        float *first = kit_sequence(&run);
        kit_close("attention over chunks", want, first, n, kit_attention_tolerance(kit, run.dtype));
        for (size_t i = 0; i < SUPPORT_LEN(CHUNKS); ++i) {
            run.be = kit->subjects[(i + 1) % 3];
            run.chunk = CHUNKS[i];
            run.page_shift = i % 2 == 0 ? 6 : 9;
            run.n_pages = i % 2 == 0 ? 6 : 1;
            float *got = kit_sequence(&run);
            kit_same("attention over chunks, by cuts, threads and pages", first, got, n);
            free(got);
        }
        free(first);
        free(want);
    }
}

/* Several sequences in one call give what each gives alone. */
static inline void kit_attention_spans(const backend_kit *kit) {
    const kit_heads heads = {4, 2, 16, 16};
    enum { SPANS = 3 };
    kit_pages pages[SPANS];
    tdm_kv_write_span writes[SPANS];
    tdm_attention_span spans[SPANS];
    float *x = kit_random(100 * 64, 60);
    float *out[SPANS];
    float *alone = kit_floats(100 * 64);
    for (int s = 0; s < 3; ++s) {
        for (int i = 0; i < SPANS; ++i) {
            int32_t n = i == 1 ? 1 : 60 + 7 * i;
            kit_pages_make(&pages[i], &heads, TDM_DTYPE_BF16, 6, 2);
            out[i] = kit_filled(100 * 64, KIT_CANARY);
            writes[i] = (tdm_kv_write_span){.pages = &pages[i].pages,
                                            .k = x + 10 * i,
                                            .v = x + 11 * i,
                                            .ld_k = 32,
                                            .ld_v = 32,
                                            .n = n};
            spans[i] = (tdm_attention_span){.pages = &pages[i].pages,
                                            .q = x + 5 * i,
                                            .out = out[i],
                                            .ld_q = 64,
                                            .ld_out = 64,
                                            .n = n,
                                            .n_heads = 4,
                                            .scale = 0.25f};
        }
        tdm_op_kv_write(kit->subjects[s], writes, SPANS);
        tdm_op_attention(kit->subjects[s], spans, SPANS);
        for (int i = 0; i < SPANS; ++i) {
            spans[i].out = alone;
            tdm_op_attention(kit->subjects[0], &spans[i], 1);
            kit_same("attention of packed rows", alone, out[i], (int64_t)spans[i].n * 64);
            assert_true(out[i][spans[i].n * 64] == KIT_CANARY);
            free(pages[i].memory);
            free(out[i]);
        }
    }
    free(alone);
    free(x);
}

/* Sinks of minus infinity are no sinks, bit for bit; one of NaN poisons its own head alone. */
static inline void kit_sinks_edge(const backend_kit *kit) {
    const kit_heads heads = {4, 2, 16, 16};
    const float none[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    const float poison[4] = {-INFINITY, NAN, -INFINITY, -INFINITY};
    kit_pages pages;
    float *x = kit_random(70 * 64, 61);
    kit_pages_make(&pages, &heads, TDM_DTYPE_F32, 6, 2);
    for (int s = 0; s < 4; ++s) {
        float want[70 * 64];
        float got[70 * 64];
        tdm_backend *be = kit_backend(kit, s);
        tdm_kv_write_span write = {
            .pages = &pages.pages, .k = x, .v = x + 7, .ld_k = 32, .ld_v = 32, .n = 70};
        tdm_attention_span span = {.pages = &pages.pages,
                                   .q = x,
                                   .out = want,
                                   .ld_q = 64,
                                   .ld_out = 64,
                                   .n = 70,
                                   .n_heads = 4,
                                   .scale = 0.25f};
        tdm_op_kv_write(be, &write, 1);
        tdm_op_attention(be, &span, 1);
        span.out = got;
        span.sinks = none;
        tdm_op_attention(be, &span, 1);
        kit_same("sinks of minus infinity", want, got, 70 * 64);
        span.sinks = poison;
        tdm_op_attention(be, &span, 1);
        for (int i = 0; i < 70 * 64; ++i) {
            bool is_poisoned = i % 64 / 16 == 1;
            assert_true(is_poisoned ? isnan(got[i]) : want[i] == got[i]);
        }
    }
    free(pages.memory);
    free(x);
}

#endif
