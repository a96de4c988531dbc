/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over pages. For each block of 64 absolute positions: scores of one query against eight
 * keys at a time, the running maximum and sum, then the mix of values. Keys and values of a block
 * are widened to f32 once for all queries of the item (F32 pages are read where they lie). What a
 * query sees of a block decides its arithmetic; which other queries share the item does not. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/math_inl.h"
#include "tensor/ops.h"

#include <math.h>
#include <string.h>

#define BLOCK TDM_CPU_ATTENTION_BLOCK
#define QUERIES TDM_CPU_ATTENTION_QUERIES

typedef struct work {
    float *keys;   /* [BLOCK, HEAD_DIM_MAX] */
    float *values; /* [BLOCK, HEAD_DIM_MAX] */
    float *q;      /* [QUERIES, k_pad], zeros behind head_dim */
    float *mix;    /* [QUERIES, v_pad] */
    float *scores; /* [BLOCK] */
    float *largest;
    float *total;
    int64_t k_pad;
    int64_t v_pad;
} work;

static work work_of(const tdm_kv_pages *pages, void *scratch) {
    work w = {.k_pad = (pages->head_dim + 7) / 8 * 8, .v_pad = (pages->value_dim + 7) / 8 * 8};
    w.keys = scratch;
    w.values = w.keys + BLOCK * TDM_HEAD_DIM_MAX;
    w.q = w.values + BLOCK * TDM_HEAD_DIM_MAX;
    w.mix = w.q + QUERIES * TDM_HEAD_DIM_MAX;
    w.scores = w.mix + QUERIES * TDM_HEAD_DIM_MAX;
    w.largest = w.scores + BLOCK;
    w.total = w.largest + QUERIES;
    return w;
}

/* Rows [lo, hi) of a block as f32 with zeros up to pad. Returns where row 0 of the block would lie;
 * *out_ld is the distance of rows. */
static const float *widen(const uint8_t *base, tdm_dtype dtype, int64_t dim, int64_t pad,
                          int64_t lo, int64_t hi, float *buffer, int64_t *out_ld) {
    if (dtype == TDM_DTYPE_F32 && dim == pad) {
        *out_ld = dim;
        return (const float *)(const void *)base;
    }
    *out_ld = pad;
    for (int64_t j = lo; j < hi; ++j) {
        float *out = buffer + j * pad;
        int64_t i = 0;
        if (dtype == TDM_DTYPE_F32) {
            memcpy(out, base + (size_t)(j * dim) * 4, (size_t)dim * 4);
            i = dim;
        } else {
            const uint8_t *row = base + (size_t)(j * dim) * 2;
            for (; i + 8 <= dim; i += 8) {
                __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * i));
                __m256i v = _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
                _mm256_storeu_ps(out + i, _mm256_castsi256_ps(v));
            }
            for (; i < dim; ++i) {
                uint32_t bits = ((uint32_t)row[2 * i] << 16) | ((uint32_t)row[2 * i + 1] << 24);
                memcpy(out + i, &bits, sizeof bits);
            }
        }
        for (; i < pad; ++i) {
            out[i] = 0.0f;
        }
    }
    return buffer;
}

/* Dots of q with keys j0..j0+7; rows outside [lo, hi) are read as the nearest row inside. */
TDM_INLINE __m256 dots8(const float *q, const float *keys, int64_t ld, int64_t dim, int64_t j0,
                        int64_t lo, int64_t hi) {
    const float *k[8];
    __m256 acc[8];
    for (int i = 0; i < 8; ++i) {
        k[i] = keys + ld * tdm_cpu_min(tdm_cpu_max(j0 + i, lo), hi - 1);
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t d = 0; d < dim; d += 8) {
        __m256 v = _mm256_loadu_ps(q + d);
        for (int i = 0; i < 8; ++i) {
            acc[i] = _mm256_fmadd_ps(_mm256_loadu_ps(k[i] + d), v, acc[i]);
        }
    }
    return fold8x8(acc);
}

TDM_INLINE __m256i lanes_between(int64_t lo, int64_t hi) {
    return _mm256_andnot_si256(lanes_below(lo), lanes_below(hi));
}

/* Scores of the rows [lo, hi) of a block; -inf in the other lanes of the vectors they touch.
 * Returns the largest. */
static float score_block(const tdm_attention_span *s, const float *q, const float *keys, int64_t ld,
                         int64_t dim, int64_t lo, int64_t hi, float *scores) {
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    const __m256 scale = _mm256_set1_ps(s->scale);
    __m256 largest = lowest;
    for (int64_t j = lo & ~(int64_t)7; j < hi; j += 8) {
        __m256 v = _mm256_mul_ps(dots8(q, keys, ld, dim, j, lo, hi), scale);
        if (s->softcap != 0.0f) {
            __m256 cap = _mm256_set1_ps(s->softcap);
            v = _mm256_mul_ps(cap, tanh8(_mm256_div_ps(v, cap)));
        }
        __m256i inside = lanes_between(tdm_cpu_max(0, lo - j), tdm_cpu_min(8, hi - j));
        v = _mm256_blendv_ps(lowest, v, _mm256_castsi256_ps(inside));
        largest = _mm256_max_ps(v, largest);
        _mm256_storeu_ps(scores + j, v);
    }
    return max8(largest);
}

/* mix = mix * keep + sum of scores[j] * values[j], n vectors of eight (a constant) from d. */
TDM_INLINE void mix_some(int n, float *mix, float keep, const float *scores, const float *values,
                         int64_t ld, int64_t lo, int64_t hi) {
    __m256 acc[8];
    for (int i = 0; i < n; ++i) {
        acc[i] = _mm256_mul_ps(_mm256_loadu_ps(mix + 8 * i), _mm256_set1_ps(keep));
    }
    for (int64_t j = lo; j < hi; ++j) {
        __m256 p = _mm256_set1_ps(scores[j]);
        for (int i = 0; i < n; ++i) {
            acc[i] = _mm256_fmadd_ps(p, _mm256_loadu_ps(values + j * ld + 8 * i), acc[i]);
        }
    }
    for (int i = 0; i < n; ++i) {
        _mm256_storeu_ps(mix + 8 * i, acc[i]);
    }
}

static void mix_block(float *mix, int64_t dim, float keep, const float *scores, const float *values,
                      int64_t ld, int64_t lo, int64_t hi) {
    int64_t d = 0;
    for (; d + 64 <= dim; d += 64) {
        mix_some(8, mix + d, keep, scores, values + d, ld, lo, hi);
    }
    for (; d + 16 <= dim; d += 16) {
        mix_some(2, mix + d, keep, scores, values + d, ld, lo, hi);
    }
    for (; d < dim; d += 8) {
        mix_some(1, mix + d, keep, scores, values + d, ld, lo, hi);
    }
}

/* Weights exp(score - max) in place; returns their sum. */
static float weigh_block(float *scores, float max, int64_t lo, int64_t hi) {
    __m256 sum = _mm256_setzero_ps();
    for (int64_t j = lo & ~(int64_t)7; j < hi; j += 8) {
        __m256 v = exp8(_mm256_sub_ps(_mm256_loadu_ps(scores + j), _mm256_set1_ps(max)));
        _mm256_storeu_ps(scores + j, v);
        sum = _mm256_add_ps(sum, v);
    }
    return fold8(sum);
}

static float exp_one(float x) {
    return _mm256_cvtss_f32(exp8(_mm256_set1_ps(x)));
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
            w->largest[i] = -INFINITY;
            w->total[i] = 0.0f;
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
            __m256 total = _mm256_set1_ps(w->total[i]);
            for (int64_t d = 0; d < dim; d += 8) {
                __m256 v = _mm256_div_ps(_mm256_loadu_ps(w->mix + i * w->v_pad + d), total);
                _mm256_maskstore_ps(out + d, lanes_below(tdm_cpu_min(8, dim - d)), v);
            }
        }
    }
}

/* All queries of the item against the block of positions [begin, begin + BLOCK). */
static void attend_block(const tdm_cpu_attention_item *item, const work *w, int64_t begin) {
    const tdm_attention_span *s = item->span;
    const tdm_kv_pages *pages = s->pages;
    int64_t n_heads = item->head1 - item->head0;
    int64_t kv_head = item->head0 / (s->n_heads / pages->n_kv_heads);
    int64_t slots = (int64_t)1 << pages->page_shift;
    size_t page = (size_t)(begin >> pages->page_shift) % pages->n_pages;
    int64_t at = kv_head * slots + (begin & (slots - 1));
    size_t bytes = pages->dtype == TDM_DTYPE_F32 ? 4 : 2;
    int64_t lo = tdm_cpu_max(0, first_seen(s, s->pos0 + item->tok0) - begin);
    int64_t hi = tdm_cpu_min(BLOCK, s->pos0 + item->tok1 - begin);
    int64_t k_ld = 0;
    int64_t v_ld = 0;
    const float *keys = widen(pages->k[page] + (size_t)(at * pages->head_dim) * bytes, pages->dtype,
                              pages->head_dim, w->k_pad, lo, hi, w->keys, &k_ld);
    const float *values = widen(pages->v[page] + (size_t)(at * pages->value_dim) * bytes,
                                pages->dtype, pages->value_dim, w->v_pad, lo, hi, w->values, &v_ld);
    for (int64_t t = item->tok0; t < item->tok1; ++t) {
        int64_t position = s->pos0 + t;
        lo = tdm_cpu_max(0, first_seen(s, position) - begin);
        hi = tdm_cpu_min(BLOCK, position + 1 - begin);
        for (int64_t h = 0; h < n_heads && lo < hi; ++h) {
            int64_t i = (t - item->tok0) * n_heads + h;
            float before = w->largest[i];
            float max =
                score_block(s, w->q + i * w->k_pad, keys, k_ld, w->k_pad, lo, hi, w->scores);
            max = max > before ? max : before;
            float keep = before == -INFINITY ? 0.0f : exp_one(before - max);
            float sum = weigh_block(w->scores, max, lo, hi);
            w->total[i] = w->total[i] * keep + sum;
            mix_block(w->mix + i * w->v_pad, w->v_pad, keep, w->scores, values, v_ld, lo, hi);
            w->largest[i] = max;
        }
    }
}

void tdm_avx2_attention(const tdm_cpu_attention_item *item, void *scratch) {
    const tdm_attention_span *s = item->span;
    work w = work_of(s->pages, scratch);
    start(item, &w);
    int64_t begin = first_seen(s, s->pos0 + item->tok0) / BLOCK * BLOCK;
    for (; begin < s->pos0 + item->tok1; begin += BLOCK) {
        attend_block(item, &w, begin);
    }
    finish(item, &w);
}
