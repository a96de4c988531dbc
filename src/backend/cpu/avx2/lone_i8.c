/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels against one token on AVX2; see avx512/lone_tmpl.h for what bounds
 * it. The words that a form needs of a block of activations are copied side by side once a call, so
 * that 40 bytes a block come back into the first-level cache with each panel and not 64; both halves
 * of a panel meet a broadcast of four activations at once, and a panel's addresses are read upwards. The
 * sums are those of linear_i8.c, and so are the bits. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/madd_inl.h"

/* Words of a block: its d, then
 *     forms with mins             s, and of A8 128 times the sum
 *     integer scales, IQ1         both halves' sums in 16 bits each
 *     IQ1_PAIR                    the sums of the first two eights, and of the last, the same way
 *     others                      the zero point times the sum */
TDM_INLINE int lone_words(int form) {
    return form == FORM_A8 || form == FORM_IQ1_PAIR ? 3 : 2;
}

/* Not inlined: once a call, whatever the form. */
static __attribute__((noinline)) void lone_gather(int form, const tdm_cpu_x8_block *blocks,
                                                  int64_t n_blocks, int32_t *out) {
    const int32_t zero = form_zero(form);
    for (int64_t b = 0; b < n_blocks; ++b, out += lone_words(form)) {
        const tdm_cpu_x8_block *x = blocks + b;
        memcpy(out, &x->d, sizeof x->d);
        if (form == FORM_IQ1_PAIR) {
            for (int i = 0; i < 2; ++i) {
                const int16_t two[2] = {(int16_t)x->eights[2 * i], (int16_t)x->eights[2 * i + 1]};
                memcpy(out + 1 + i, two, sizeof two);
            }
        } else if (form_has_min(form)) {
            memcpy(out + 1, &x->s, sizeof x->s);
        } else if (form_has_halves(form) || form == FORM_IQ1) {
            memcpy(out + 1, x->half_sums, sizeof *out);
        } else {
            out[1] = zero * x->sum;
        }
        if (form == FORM_A8) {
            out[2] = zero * x->sum;
        }
    }
}

TDM_INLINE __m256i lone_word(const int32_t *p) {
    return _mm256_set1_epi32(*p);
}

TDM_INLINE __m256 lone_float(const int32_t *p) {
    return _mm256_castsi256_ps(_mm256_set1_epi32(*p));
}

/* A panel on its way: where its block is, the numbers that stand before its blocks, by half. */
typedef struct lone_panel {
    const uint8_t *p;
    int32_t period;
    __m256 head_d[2];
    __m256 head_m[2];
} lone_panel;

TDM_INLINE void lone_scales(int form, const lone_panel *at, block_scales scales[2]) {
    for (int h = 0; h < 2; ++h) {
        scales[h] = scales_packed(form, at->period, at->p + packed_ints(form), h, at->head_d[h],
                                  at->head_m[h]);
    }
}

/* Vector j times four activations, added to both halves' sums in 16 bits. */
TDM_INLINE void lone_vector(int form, int is_first, const uint8_t *p, const int8_t *q, int j,
                            __m256i part[2]) {
    const int is_signed = form_is_signed(form, 1);
    const __m256i x = broadcast4(q + 4 * j);
    for (int h = 0; h < 2; ++h) {
        const __m256i w = panel_vector(form, 1, p + 4 * HALF_ROWS * h, j);
        const __m256i v = products(is_signed, w, is_signed ? _mm256_abs_epi8(w) : w, x);
        part[h] = is_first ? v : _mm256_add_epi16(part[h], v);
        PIN(part[h]);
    }
}

/* Vectors first to first + n - 1, or with n = 8 all of them as nibbles of one load come. */
TDM_INLINE void lone_parts(int form, int first, int n, const uint8_t *p, const int8_t *q,
                           __m256i part[2]) {
    lone_vector(form, 1, p, q, first, part);
    if (n == 8) {
        lone_vector(form, 0, p, q, 4, part);
        lone_vector(form, 0, p, q, 1, part);
        lone_vector(form, 0, p, q, 5, part);
        lone_vector(form, 0, p, q, 2, part);
        lone_vector(form, 0, p, q, 6, part);
        lone_vector(form, 0, p, q, 3, part);
        lone_vector(form, 0, p, q, 7, part);
    }
    if (n == 2 || n == 4) {
        lone_vector(form, 0, p, q, first + 1, part);
    }
    if (n == 4) {
        lone_vector(form, 0, p, q, first + 2, part);
        lone_vector(form, 0, p, q, first + 3, part);
    }
}

/* Group g of vectors whose products fit 16 bits. */
TDM_INLINE void lone_group(int form, int g, const lone_panel *at, const int8_t *q,
                           block_scales scales[2], __m256i sums[2], __m256i lasts[2]) {
    const int depth = sum_depth(form);
    const int is_last = g * depth >= 4;
    const int is_first = g == 0 || (form_is_pair(form) && g * depth == 4);
    __m256i part[2];
    if (g * depth >= 8) {
        return;
    }
    lone_parts(form, g * depth, depth, at->p, q, part);
    if (g == 0 && form_has_halves(form)) {
        lone_scales(form, at, scales);
    }
    for (int h = 0; h < 2; ++h) {
        const __m256i factor =
            form_has_halves(form) ? one_half(scales[h].pairs, is_last) : _mm256_set1_epi16(1);
        const __m256i wide = _mm256_madd_epi16(part[h], factor);
        __m256i *sum = form_is_pair(form) && is_last ? &lasts[h] : &sums[h];
        *sum = is_first ? wide : _mm256_add_epi32(*sum, wide);
    }
}

/* Packed IQ1: sums of (code) * q become those of (8 * (code - 1) +- 1) * q, which are 8 times as much less
 * 7 times the sum of q, or 9 where a row is marked. x: the sums of two runs of columns, the g-th and the
 * next eight (of IQ1, both halves). */
TDM_INLINE __m256i lone_ternary(int form, __m256i sum, __m256i marks, int g, const int32_t *x) {
    const __m256i less =
        _mm256_blend_epi16(marked_rows(form, marks, g), marked_rows(form, marks, g + 1), 0xaa);
    const __m256i factors = _mm256_add_epi16(_mm256_set1_epi16(-7), _mm256_add_epi16(less, less));
    return _mm256_add_epi32(_mm256_slli_epi32(sum, 3), _mm256_madd_epi16(factors, lone_word(x)));
}

/* What zero points and IQ1's marks take off the sums of half h. */
TDM_INLINE void lone_less(int form, const lone_panel *at, int h, const block_scales *scales,
                          const int32_t *x, __m256i *sum, __m256i *last) {
    if (form_is_ternary(form)) {
        const __m256i marks = nibbles_load(ternary_marks(form, at->p), h);
        *sum = lone_ternary(form, *sum, marks, 0, x + 1);
        *last = form_is_pair(form) ? lone_ternary(form, *last, marks, 2, x + 2) : *last;
    } else if (form_has_halves(form) && form_zero(form) != 0) {
        const __m256i halves = _mm256_madd_epi16(scales->pairs, lone_word(x + 1));
        const int by = __builtin_ctz((unsigned)form_zero(form)); /* a power of two, as all are */
        *sum = _mm256_sub_epi32(*sum, _mm256_slli_epi32(halves, by));
    } else if (form_zero(form) != 0) {
        *sum = _mm256_sub_epi32(*sum, lone_word(x + (form == FORM_A8 ? 2 : 1)));
    }
}

/* The f32 law of cpu_priv.h. */
TDM_INLINE __m256 lone_step(int form, const block_scales *s, const int32_t *x, __m256i sum,
                            __m256i last, __m256 acc) {
    const __m256 d = lone_float(x);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(s->d, d), _mm256_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        return _mm256_fmadd_ps(s->m, lone_float(x + 1), acc);
    }
    if (form == FORM_Q2_K) {
        last = _mm256_madd_epi16(s->mins, lone_word(x + 1));
    }
    return form_is_pair(form) || form == FORM_Q2_K
               ? _mm256_fmadd_ps(_mm256_mul_ps(s->m, d), _mm256_cvtepi32_ps(last), acc)
               : acc;
}

/* A block: acc has the panel's halves. */
TDM_INLINE void lone_block(int form, const lone_panel *at, const int8_t *q, const int32_t *x,
                           __m256 acc[2]) {
    block_scales scales[2];
    __m256i sums[2];
    __m256i lasts[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    /* gcc 12 leaves loops of these as they are, with the sums in memory */
    lone_group(form, 0, at, q, scales, sums, lasts);
    lone_group(form, 1, at, q, scales, sums, lasts);
    lone_group(form, 2, at, q, scales, sums, lasts);
    lone_group(form, 3, at, q, scales, sums, lasts);
    lone_group(form, 4, at, q, scales, sums, lasts);
    lone_group(form, 5, at, q, scales, sums, lasts);
    lone_group(form, 6, at, q, scales, sums, lasts);
    lone_group(form, 7, at, q, scales, sums, lasts);
    if (!form_has_halves(form)) { /* scales stand behind the integers: see avx512/lone_tmpl.h */
        lone_scales(form, at, scales);
    }
    for (int h = 0; h < 2; ++h) {
        lone_less(form, at, h, &scales[h], x, &sums[h], &lasts[h]);
        acc[h] = lone_step(form, &scales[h], x, sums[h], lasts[h], acc[h]);
    }
}

TDM_INLINE void lone_multiply(int form, const uint8_t *p, const int8_t *q, const int32_t *x,
                              int64_t n_blocks, int32_t period, int64_t ahead, __m256 acc[2]) {
    const __m256 none = _mm256_setzero_ps();
    lone_panel at = {p, period, {none, none}, {none, none}};
    int32_t head_in = 0; /* blocks until the next head */
    acc[0] = none;
    acc[1] = none;
    for (int64_t b = 0; b < n_blocks; ++b, q += 32, x += lone_words(form)) {
        if (form_has_head(form) && head_in-- == 0) {
            for (int h = 0; h < 2; ++h) {
                heads_load(form, period, at.p, h, &at.head_d[h], &at.head_m[h]);
            }
            at.p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        lone_block(form, &at, q, x, acc);
        at.p += packed_block(form, period);
        if (ahead > 0) {
            for (int i = 0; i < packed_block(form, period); i += 64) {
                _mm_prefetch((const char *)at.p + ahead + i, _MM_HINT_T1);
            }
        }
    }
}

/* Adds bias and residual and stores the rows that exist, of eight. */
static void lone_store(const tdm_cpu_linear_job *job, int64_t row0, int64_t tok, __m256 v) {
    const __m256i mask = lanes_below(tdm_cpu_min(HALF_ROWS, job->weight->n_out - row0));
    float *out = job->out + tok * job->ld_out + row0;
    if (job->bias != NULL) {
        v = _mm256_add_ps(v, _mm256_maskload_ps(job->bias + row0, mask));
    }
    if (job->is_added) {
        v = _mm256_add_ps(_mm256_maskload_ps(out, mask), v);
    }
    _mm256_maskstore_ps(out, mask, v);
}

/* scratch: lone_words of each block. */
TDM_INLINE void lone_panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                            int64_t tok, void *scratch) {
    const tdm_weight *w = job->weight;
    const tdm_cpu_x8 *x8 = job->x8;
    const size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    lone_gather(form, x8->blocks + tok * x8->ld_blocks, w->n_in / 32, scratch);
    for (int64_t o = row0; o < row1; o += PANEL_ROWS) {
        const uint8_t *p = (const uint8_t *)w->packed + (size_t)(o / PANEL_ROWS) * panel_bytes;
        __m256 acc[2];
        lone_multiply(form, p, x8->q + tok * x8->ld_q, scratch, w->n_in / 32, w->period,
                      job->ahead_bytes, acc);
        lone_store(job, o, tok, acc[0]);
        if (o + HALF_ROWS < w->n_out) {
            lone_store(job, o + HALF_ROWS, tok, acc[1]);
        }
    }
}

typedef void (*lone_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok,
                        void *scratch);

#define LONE(name)                                                                                 \
    static void name##_lone(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,             \
                            int64_t tok, void *scratch) {                                          \
        lone_panels(FORM_##name, job, row0, row1, tok, scratch);                                   \
    }

FORMS(LONE)

#define LONE_ENTRY(name) [FORM_##name] = name##_lone,

static const lone_fn LONE_KERNELS[FORM_COUNT] = {FORMS(LONE_ENTRY)};

void tdm_avx2_lone_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok,
                      void *scratch) {
    LONE_KERNELS[job->weight->layout](job, row0, row1, tok, scratch);
}
