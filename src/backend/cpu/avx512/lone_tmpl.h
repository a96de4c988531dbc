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

/* How far ahead a form asks for memory; the processor's own asking is better for all but one. */
#define LONE_AHEAD(form) ((form) == FORM_E2M1_PAIR ? 2048 : 0)

/* Words of a block: its d, then
 *     forms with mins          s
 *     Q2_K                     both halves' sums in 16 bits each
 *     IQ1                      7 times the sum, 2 times the sum
 *     IQ1_PAIR                 7 times the sum of each half, 2 times that of each eight
 *     two sums a block         where they begin: -zero times the sum of each half
 *     others                   -zero times the sum */
TDM_INLINE int lone_words(int form) {
    if (form_is_ternary(form)) {
        return form_is_pair(form) ? 7 : 3;
    }
    return wide_has_two(form) && form != FORM_Q2_K ? 3 : 2;
}

/* Not inlined: once a call, whatever the form. */
static __attribute__((noinline)) void lone_gather(int form, const tdm_cpu_x8_block *blocks,
                                                  int64_t n_blocks, int32_t *out) {
    const int32_t start = -packed_zero(form);
    for (int64_t b = 0; b < n_blocks; ++b, out += lone_words(form)) {
        const tdm_cpu_x8_block *x = blocks + b;
        memcpy(out, &x->d, sizeof x->d);
        if (form_is_ternary(form)) {
            const int is_pair = form_is_pair(form);
            out[1] = 7 * (is_pair ? x->half_sums[0] : x->sum);
            out[2] = is_pair ? 7 * x->half_sums[1] : 2 * x->sum;
            for (int i = 0; i < 4 && is_pair; ++i) {
                out[3 + i] = 2 * x->eights[i];
            }
        } else if (form_has_min(form)) {
            memcpy(out + 1, &x->s, sizeof x->s);
        } else if (form == FORM_Q2_K) {
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

TDM_INLINE __m512i lone_threes(int form, const uint8_t *p, int j) {
    if (j < 6) {
        const __m512i v = load512(p + PANEL_VECTOR * (j / 2));
        return _mm512_permutexvar_epi8(v, j % 2 == 0 ? form_table_wide(form, 0)
                                                     : lone_second_table(form));
    }
    const __m512i low = shift_right(load512(p + PANEL_VECTOR * (j - 6)), 6);
    const __m512i third = shift_right(load512(p + 2 * PANEL_VECTOR), j - 2);
    /* third where a bit is worth 4, else low: what lies above means nothing */
    const __m512i v = _mm512_ternarylogic_epi32(_mm512_set1_epi8(4), third, low, 0xca);
    return _mm512_permutexvar_epi8(v, form_table_wide(form, 0));
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

/* Codes of one and two bits, times 4 if they are ternary. B1's are 0 or 2. */
TDM_INLINE __m512i lone_few_bits(int form, const uint8_t *p, int j) {
    const int width = form_bits(form);
    const int up = form == FORM_B1 ? 1 : form_is_ternary(form) ? 2 : 0;
    const int at = width * (width == 1 ? j : j & 3);
    const __m512i v = load512(p + (width == 1 ? 0 : PANEL_VECTOR * (j / 4)));
    if (at == up) {
        return masked(v, (1 << (at + width)) - (1 << at));
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

/* Vector j of a packed block as unsigned bytes. */
TDM_INLINE __m512i lone_vector(int form, const uint8_t *p, int j) {
#ifdef __AVX512VBMI__
    if (form_bits(form) <= 2) {
        return lone_few_bits(form, p, j);
    }
    if (form_bits(form) == 3) {
        return lone_threes(form, p, j);
    }
    if (form_has_table(form)) {
        const __m512i v = load512(p + PANEL_VECTOR * (j & 3));
        return _mm512_permutexvar_epi8(j < 4 ? v : shift_right(v, 4), form_table_wide(form, 0));
    }
#endif
    return vector_at(form, p, j);
}

/* Codes of one and two bits: bits are multiplied where they stand in a byte, as powers of two, and what
 * they weigh is shifted off the sums; ternary ones stay times 4. */
TDM_INLINE void lone_narrow(int form, const uint8_t *p, const int8_t *q, __m512i *out_first,
                            __m512i *out_last) {
    const __m512i zero = _mm512_setzero_si512();
    if (form_bits(form) == 1) { /* of 0 or 2, in A1 of 0 or 1 */
        const __m512i v = load512(p);
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
        const __m512i v = load512(p + PANEL_VECTOR * h);
        const __m512i u = shift_right(v, 4);
        const __m512i low = lone_dot(lone_dot(zero, masked(v, 3), q), masked(u, 3), q + 8);
        const __m512i high = lone_dot(lone_dot(zero, masked(v, 12), q + 4), masked(u, 12), q + 12);
        *(h == 0 ? out_first : out_last) = form_is_ternary(form)
                                               ? _mm512_add_epi32(_mm512_slli_epi32(low, 2), high)
                                               : _mm512_add_epi32(low, _mm512_srai_epi32(high, 2));
    }
}

/* Packed IQ1: four times the sums of (code) * q become those of (8 * (code - 1) +- 1) * q, which are
 * 8 * sum - 7 * (sum of q) - 2 * (sums of q where a row is marked); twos has those for each of n marks. */
TDM_INLINE __m512i lone_ternary(__m512i sum4, const uint8_t *marks, int n, const int32_t *seven,
                                const int32_t *twos) {
    __m512i sum = _mm512_sub_epi32(_mm512_slli_epi32(sum4, 1), lone_word(seven));
    for (int i = 0; i < n; ++i) {
        const __mmask16 rows = _load_mask16((__mmask16 *)(uintptr_t)(marks + 2 * i));
        sum = _mm512_mask_sub_epi32(sum, rows, sum, lone_word(twos + i));
    }
    return sum;
}

/* Vectors i and i + 4, which are nibbles of one load. */
TDM_INLINE void lone_two(int form, const uint8_t *p, const int8_t *q, int i, __m512i *first,
                         __m512i *last) {
    *first = lone_dot(*first, lone_vector(form, p, i), q + 4 * i);
    *last = lone_dot(*last, lone_vector(form, p, i + 4), q + 4 * (i + 4));
}

/* The integer sums of a block; of forms that tell halves apart the first half's, and last the last's. x:
 * the block's words. */
TDM_INLINE void lone_sums(int form, const uint8_t *p, const int8_t *q, const int32_t *x,
                          __m512i *out_sum, __m512i *out_last) {
    const int zero = packed_zero(form);
    const int has_two = wide_has_two(form);
    const int is_narrow = LONE_IS_NARROW(form);
    const int has_start = zero != 0 && !is_narrow;
    __m512i first = has_start ? lone_word(x + 1) : _mm512_setzero_si512();
    __m512i last = has_start && has_two ? lone_word(x + 2) : _mm512_setzero_si512();
    if (is_narrow) {
        lone_narrow(form, p, q, &first, &last);
    } else { /* gcc 12 leaves a loop of eight as it is, with the sums in memory */
        lone_two(form, p, q, 0, &first, &last);
        lone_two(form, p, q, 1, &first, &last);
        lone_two(form, p, q, 2, &first, &last);
        lone_two(form, p, q, 3, &first, &last);
    }
    first = has_two ? first : _mm512_add_epi32(first, last);
    if (form == FORM_IQ1) {
        first = lone_ternary(first, ternary_marks(form, p), 1, x + 1, x + 2);
    } else if (form == FORM_IQ1_PAIR) {
        first = lone_ternary(first, ternary_marks(form, p), 2, x + 1, x + 3);
        last = lone_ternary(last, ternary_marks(form, p) + 4, 2, x + 2, x + 5);
    } else if (zero != 0 && is_narrow) {
        first = _mm512_add_epi32(first, lone_word(x + 1));
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

/* A panel: lane r is row r's product. */
TDM_INLINE __m512 lone_panel(int form, const uint8_t *p, const int8_t *q, const int32_t *x,
                             int64_t n_blocks, int32_t period) {
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
        const panel_scales scales =
            scales_wide(form, period, p + packed_ints(form), head_d, head_m);
        lone_sums(form, p, q, x, &sum, &last);
        acc = lone_step(form, &scales, x, sum, last, acc);
        p += packed_block(form, period);
        for (int i = 0; LONE_AHEAD(form) > 0 && i < packed_block(form, period); i += 64) {
            _mm_prefetch((const char *)p + LONE_AHEAD(form) + i, _MM_HINT_T0);
        }
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
        const __m512 acc =
            lone_panel(form, p, x8->q + tok * x8->ld_q, scratch, w->n_in / 32, w->period);
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
