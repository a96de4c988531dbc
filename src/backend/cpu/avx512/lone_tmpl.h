/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels against one token: sixteen rows in one register, unpacked on the way.
 * The bits are those of every other set: each output has one lane, and blocks come in ascending order.
 *
 * One token is bound by memory, and what else travels through the first-level cache counts: a panel
 * pushes the activations out, so that each panel reads them again. Of a block's sums a form needs one
 * to six words; those are copied side by side once a call (lone_gather), so that mostly 40 bytes come
 * back and not 64. Narrow forms are bound by the instructions between two loads too. With VBMI codes
 * index tables of 64, in which the bits beside a code mean nothing; without it bits are multiplied
 * where they stand in a byte. Zero points are where the sums begin.
 *
 * A file that includes this may have VBMI or not, and finds LONE_KERNELS[form]. */
#ifndef TDM_BACKEND_CPU_AVX512_LONE_TMPL_H
#define TDM_BACKEND_CPU_AVX512_LONE_TMPL_H

#include "backend/cpu/avx512/wide_inl.h"

/* Words of a block: its d, then
 *     forms with mins          s
 *     Q2_K, IQ1                both halves' sums in 16 bits each
 *     IQ1_PAIR                 the sums of the first two eights, and of the last, in 16 bits each
 *     two sums a block         where they begin: -zero times the sum of each half
 *     others                   -zero times the sum */
TDM_INLINE int lone_words(int form) {
    return wide_has_two(form) && form != FORM_Q2_K ? 3 : 2;
}

/* Not inlined: once a call, whatever the form. */
static __attribute__((noinline)) void lone_gather(int form, const tdm_cpu_x8_block *blocks,
                                                  int64_t n_blocks, int32_t *out) {
    const int32_t start = -packed_zero(form);
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
        } else if (form == FORM_Q2_K || form == FORM_IQ1) {
            memcpy(out + 1, x->half_sums, sizeof *out);
        } else if (wide_has_two(form)) {
            out[1] = start * x->half_sums[0];
            out[2] = start * x->half_sums[1];
        } else {
            out[1] = start * x->sum;
        }
    }
}

TDM_INLINE __m512i lone_word(const int32_t *p) {
    return _mm512_set1_epi32(*p);
}

TDM_INLINE __m512 lone_float(const int32_t *p) {
    return _mm512_castsi512_ps(_mm512_set1_epi32(*p));
}

TDM_INLINE __m512i lone_dot(__m512i sum, __m512i v, const int8_t *q) {
    return _mm512_dpbusd_epi32(sum, v, broadcast4_wide(q));
}

#ifdef __AVX512VBMI__
/* Codes of three bits: entry i of the second table stands for bits 3 to 5 of i, of the first for those
 * below. */
TDM_INLINE __m512i lone_second_table(int form) {
    const __m512i codes = _mm512_set_epi64(
        0x0707070707070707, 0x0606060606060606, 0x0505050505050505, 0x0404040404040404,
        0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0);
    return _mm512_shuffle_epi8(form_table_wide(form, 0), codes);
}

TDM_INLINE __m512i lone_threes(int form, const __m512i *v, int j) {
    if (j < 6) {
        return _mm512_permutexvar_epi8(v[j / 2], j % 2 == 0 ? form_table_wide(form, 0)
                                                            : lone_second_table(form));
    }
    /* the third bit where a bit is worth 4, else the lower ones: what lies above means nothing */
    const __m512i code = _mm512_ternarylogic_epi32(_mm512_set1_epi8(4), shift_right(v[2], j - 2),
                                                   shift_right(v[j - 6], 6), 0xca);
    return _mm512_permutexvar_epi8(code, form_table_wide(form, 0));
}

/* Entry i: `width` bits of i from bit `at` on, times 2^up. */
TDM_INLINE __m512i lone_bits_table(int width, int at, int up) {
    uint64_t eight[8];
    for (int i = 0; i < 8; ++i) {
        eight[i] = 0;
        for (int k = 7; k >= 0; --k) {
            const uint64_t code = ((unsigned)(8 * i + k) >> at) & ((1u << width) - 1u);
            eight[i] = eight[i] << 8 | code << up;
        }
    }
    return _mm512_loadu_si512(eight);
}

/* Codes of one and two bits, times 4 if they are ternary; B1's are 0 or 2. A mask takes those that stand
 * where they weigh that, at once or 4 bits lower: look-ups share two pipes with the dots, masks have
 * four. */
TDM_INLINE __m512i lone_few_bits(int form, const __m512i *pieces, int j) {
    const int width = form_bits(form);
    const int up = form == FORM_B1 ? 1 : form_is_ternary(form) ? 2 : 0;
    const int at = width * (width == 1 ? j : j & 3);
    const __m512i v = pieces[width == 1 ? 0 : j / 4];
    if (at == up) {
        return masked(v, ((1 << width) - 1) << up);
    }
    if (at == up + 4) {
        return masked(shift_right(v, 4), ((1 << width) - 1) << up);
    }
    if (at + width <= 6) {
        return _mm512_permutexvar_epi8(v, lone_bits_table(width, at, up));
    }
    return _mm512_permutexvar_epi8(shift_right(v, 4), lone_bits_table(width, at - 4, up));
}
#define LONE_IS_NARROW(form) 0
#else
#define LONE_IS_NARROW(form) (form_bits(form) <= 2)
#endif

/* A block's 64-byte pieces, each loaded once: gcc 12 would load them again for each use, most of them across
 * two lines, and a load of 64 bytes takes as long as a dot. */
TDM_INLINE void lone_load(int form, const uint8_t *p, __m512i v[8]) {
    for (int i = 0; i < form_bits(form); ++i) {
        v[i] = load512(p + PANEL_VECTOR * i);
        __asm__("" : "+v"(v[i]));
    }
}

/* Vector j of a packed block as unsigned bytes. */
TDM_INLINE __m512i lone_vector(int form, const __m512i *v, int j) {
#ifdef __AVX512VBMI__
    if (form_bits(form) <= 2) {
        return lone_few_bits(form, v, j);
    }
    if (form_bits(form) == 3) {
        return lone_threes(form, v, j);
    }
    if (form_has_table(form)) {
        return _mm512_permutexvar_epi8(j < 4 ? v[j] : shift_right(v[j & 3], 4),
                                       form_table_wide(form, 0));
    }
#endif
    return vector_of(form, 0, v, j);
}

/* Codes of one and two bits: bits are multiplied where they stand in a byte, as powers of two, and what
 * they weigh is shifted off the sums; ternary ones stay times 4. */
TDM_INLINE void lone_narrow(int form, const __m512i *pieces, const int8_t *q, __m512i *out_first,
                            __m512i *out_last) {
    const __m512i zero = _mm512_setzero_si512();
    if (form_bits(form) == 1) { /* of 0 or 2, in A1 of 0 or 1 */
        const __m512i v = pieces[0];
        const __m512i u = shift_right(v, 4);
        const int off = form == FORM_A1;
        __m512i a[4];
        for (int i = 0; i < 4; ++i) {
            a[i] = lone_dot(zero, masked(v, 1 << i), q + 4 * i);
            a[i] = lone_dot(a[i], masked(u, 1 << i), q + 4 * (i + 4));
        }
        a[0] = off ? a[0] : _mm512_slli_epi32(a[0], 1);
        a[1] = off ? _mm512_srai_epi32(a[1], 1) : a[1];
        *out_first = _mm512_add_epi32(a[0], a[1]);
        *out_last = _mm512_add_epi32(_mm512_srai_epi32(a[2], (uint8_t)(1 + off)),
                                     _mm512_srai_epi32(a[3], (uint8_t)(2 + off)));
        return;
    }
    for (int h = 0; h < 2; ++h, q += 16) {
        const __m512i v = pieces[h];
        const __m512i u = shift_right(v, 4);
        const __m512i low = lone_dot(lone_dot(zero, masked(v, 3), q), masked(u, 3), q + 8);
        const __m512i high = lone_dot(lone_dot(zero, masked(v, 12), q + 4), masked(u, 12), q + 12);
        *(h == 0 ? out_first : out_last) = form_is_ternary(form)
                                               ? _mm512_add_epi32(_mm512_slli_epi32(low, 2), high)
                                               : _mm512_add_epi32(low, _mm512_srai_epi32(high, 2));
    }
}

/* -7 or, where a run of columns is marked, -9: of the first run in the lower 16 bits, of the last above. */
enum {
    BY_7_7 = -6 * 65536 - 7, /* a negative lower half takes one from the upper */
    BY_9_7 = -6 * 65536 - 9,
    BY_7_9 = -8 * 65536 - 7,
    BY_9_9 = -8 * 65536 - 9
};

/* Packed IQ1: four times the sums of (code) * q become those of (8 * (code - 1) +- 1) * q, which are 8 * sum
 * less 7 times the sum of q, or 9 where a row is marked. x: the sums of two runs of columns, of both halves
 * or in a pair of the eights of half is_last. */
TDM_INLINE __m512i lone_ternary(int form, __m512i sum4, __m512i marks, int is_last,
                                const int32_t *x) {
    const __m512i block =
        _mm512_setr_epi32(BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_9_9,
                          BY_9_9, BY_9_9, BY_9_9, BY_9_9, BY_9_9, BY_9_9, BY_9_9);
    const __m512i first =
        _mm512_setr_epi32(BY_7_7, BY_9_7, BY_7_9, BY_9_9, BY_7_7, BY_9_7, BY_7_9, BY_9_9, BY_7_7,
                          BY_9_7, BY_7_9, BY_9_9, BY_7_7, BY_9_7, BY_7_9, BY_9_9);
    const __m512i last =
        _mm512_setr_epi32(BY_7_7, BY_7_7, BY_7_7, BY_7_7, BY_9_7, BY_9_7, BY_9_7, BY_9_7, BY_7_9,
                          BY_7_9, BY_7_9, BY_7_9, BY_9_9, BY_9_9, BY_9_9, BY_9_9);
    const __m512i factors = _mm512_permutexvar_epi32(marks, form == FORM_IQ1 ? block
                                                            : is_last        ? last
                                                                             : first);
    return _mm512_dpwssd_epi32(_mm512_add_epi32(sum4, sum4), factors, lone_word(x));
}

/* Vectors i and i + 4, which are nibbles of one load. */
TDM_INLINE void lone_two(int form, const __m512i *v, const int8_t *q, int i, __m512i *first,
                         __m512i *last) {
    *first = lone_dot(*first, lone_vector(form, v, i), q + 4 * i);
    *last = lone_dot(*last, lone_vector(form, v, i + 4), q + 4 * (i + 4));
}

/* The integer sums of a block; of forms that tell halves apart the first half's, and last the last's. x:
 * the block's words. */
TDM_INLINE void lone_sums(int form, const uint8_t *p, const int8_t *q, const int32_t *x,
                          __m512i *out_sum, __m512i *out_last) {
    const int has_two = wide_has_two(form);
    const int has_start = packed_zero(form) != 0;
    __m512i first = has_start ? lone_word(x + 1) : _mm512_setzero_si512();
    __m512i last = has_start && has_two ? lone_word(x + 2) : _mm512_setzero_si512();
    __m512i v[8];
    lone_load(form, p, v);
    if (LONE_IS_NARROW(form)) {
        __m512i more;
        __m512i more_last;
        lone_narrow(form, v, q, &more, &more_last);
        first = _mm512_add_epi32(first, more);
        last = _mm512_add_epi32(last, more_last);
    } else { /* gcc 12 leaves a loop of eight as it is, with the sums in memory */
        lone_two(form, v, q, 0, &first, &last);
        lone_two(form, v, q, 1, &first, &last);
        lone_two(form, v, q, 2, &first, &last);
        lone_two(form, v, q, 3, &first, &last);
    }
    first = has_two ? first : _mm512_add_epi32(first, last);
    if (form_is_ternary(form)) {
        const __m512i marks = nibbles_wide(ternary_marks(form, p));
        first = lone_ternary(form, first, marks, 0, x + 1);
        last = has_two ? lone_ternary(form, last, marks, 1, x + 2) : last;
    }
    *out_sum = first;
    *out_last = last;
}

/* The f32 law of cpu_priv.h. */
TDM_INLINE __m512 lone_step(int form, const panel_scales *s, const int32_t *x, __m512i sum,
                            __m512i last, __m512 acc) {
    const __m512 d = lone_float(x);
    if (form_has_halves(form)) {
        sum =
            _mm512_add_epi32(_mm512_mullo_epi32(sum, s->first), _mm512_mullo_epi32(last, s->last));
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps(s->d, d), _mm512_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        acc = _mm512_fmadd_ps(s->m, lone_float(x + 1), acc);
    } else if (form_is_pair(form) || form == FORM_Q2_K) {
        if (form == FORM_Q2_K) {
            last = _mm512_dpwssd_epi32(_mm512_setzero_si512(), s->mins, lone_word(x + 1));
        }
        acc = _mm512_fmadd_ps(_mm512_mul_ps(s->m, d), _mm512_cvtepi32_ps(last), acc);
    }
    return acc;
}

/* The next block but some. Zen 4 does not see Q5_1's blocks of six whole lines coming (14 GB/s, 20 when asked,
 * into the first-level cache only); the other forms it finds by itself. */
TDM_INLINE void lone_ask(int form, int32_t period, const uint8_t *p, int64_t ahead) {
    if (ahead > 0) {
        for (int i = 0; i < packed_block(form, period); i += 64) {
            _mm_prefetch((const char *)p + ahead + i, _MM_HINT_T1);
        }
    } else if (form == FORM_Q5_1) {
        for (int i = 0; i < packed_block(form, period); i += 64) {
            _mm_prefetch((const char *)p + 2048 + i, _MM_HINT_T0);
        }
    }
}

/* A panel: lane r is row r's product. ahead: as in the job. */
TDM_INLINE __m512 lone_panel(int form, const uint8_t *p, const int8_t *q, const int32_t *x,
                             int64_t n_blocks, int32_t period, int64_t ahead) {
    __m512 head_d = _mm512_setzero_ps();
    __m512 head_m = _mm512_setzero_ps();
    __m512 acc = _mm512_setzero_ps();
    int32_t head_in = 0; /* blocks until the next head */
    for (int64_t b = 0; b < n_blocks; ++b, q += 32, x += lone_words(form)) {
        __m512i sum;
        __m512i last;
        if (form_has_head(form) && head_in-- == 0) {
            heads_wide(form, period, p, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        /* Scales stand behind the integers and are read after them: a panel whose addresses do not rise
         * is not seen as one stream (Q4_0 at 0.73 instead of 0.9 of memory's rate). */
        lone_sums(form, p, q, x, &sum, &last);
        const panel_scales scales =
            scales_wide(form, period, p + packed_ints(form), head_d, head_m);
        acc = lone_step(form, &scales, x, sum, last, acc);
        p += packed_block(form, period);
        lone_ask(form, period, p, ahead);
    }
    return acc;
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
        const __m512 acc = lone_panel(form, p, x8->q + tok * x8->ld_q, scratch, w->n_in / 32,
                                      w->period, job->ahead_bytes);
        wide_store(job, o, tdm_cpu_min(PANEL_ROWS, row1 - o), tok, 1, &acc);
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

#endif
