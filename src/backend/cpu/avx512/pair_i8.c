/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of a few tokens with AVX-512 VNNI: two packed panels, sixteen rows, in one register,
 * unpacked on the way. Half the instructions of one panel in 256 bits, and the same bits: each output
 * has one lane, and blocks come in ascending order. What has no neighbour goes alone.
 *
 * Two panels are two streams of memory. On AMD's processors one row through pairs ran at half the
 * rate of one panel after the other (Zen 4: 11 against 20 GB/s), on Intel's at 1.3 times; so the set
 * has both ways and kernels.c chooses. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/wide_inl.h"

#define TILE_TOKENS 8
/* How far ahead one row asks for memory. */
#define AHEAD_BYTES 1024
/* From here on arithmetic is the limit, not memory, on every processor seen. */
#define PAIR_TOKENS 4

/* Forms of one and three bits, and those whose small integers are moved by a scale of their own, have
 * no path here: panel after panel is as fast for them. */
TDM_INLINE int pair_can(int form) {
    return form_bits(form) != 1 && form_bits(form) != 3 && !form_is_ternary(form);
}

/* Two panels' packed blocks side by side. */
typedef struct pair_at {
    const uint8_t *p[2];
} pair_at;

TDM_INLINE __m512i pair_load(pair_at at, int offset) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(load256(at.p[0] + offset)),
                              load256(at.p[1] + offset), 1);
}

/* panel_vector of both; signed integers become unsigned. */
TDM_INLINE __m512i pair_vector(int form, pair_at at, int j) {
    const int bits = form_bits(form);
    if (bits == 8) {
        return _mm512_xor_si512(pair_load(at, 32 * j), _mm512_set1_epi8((char)0x80));
    }
    if (bits == 2) {
        __m512i c = _mm512_srli_epi16(pair_load(at, 32 * (j / 4)), (uint8_t)(2 * (j & 3)));
        return _mm512_and_si512(c, _mm512_set1_epi8(3));
    }
    __m512i v = pair_load(at, 32 * (j & 3));
    v = _mm512_and_si512(j < 4 ? v : _mm512_srli_epi16(v, 4), _mm512_set1_epi8(15));
    if (form_has_table(form)) {
        const __m128i table = _mm256_castsi256_si128(form_table(form));
        return _mm512_shuffle_epi8(
            _mm512_broadcast_i32x4(_mm_xor_si128(table, _mm_set1_epi8((char)0x80))), v);
    }
    if (bits == 6) {
        __m512i h = pair_load(at, 128 + 32 * (j / 4));
        const int up = 4 - 2 * (j & 3);
        h = up >= 0 ? _mm512_slli_epi16(h, (uint8_t)up) : _mm512_srli_epi16(h, (uint8_t)-up);
        return _mm512_or_si512(v, _mm512_and_si512(h, _mm512_set1_epi8(0x30)));
    }
    if (bits == 5) {
        __m512i h = pair_load(at, 128);
        h = j <= 4 ? _mm512_slli_epi16(h, (uint8_t)(4 - j))
                   : _mm512_srli_epi16(h, (uint8_t)(j - 4));
        return _mm512_or_si512(v, _mm512_and_si512(h, _mm512_set1_epi8(0x10)));
    }
    return v;
}

typedef struct pair_scales {
    __m512 d;
    __m512 m; /* min, or the last half's scale of a pair */
    __m512i first, last;
    __m512i first_min, last_min;
} pair_scales;

TDM_INLINE __m512 join_ps(__m256 a, __m256 b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
}

/* 16-bit pairs by row to two vectors of 32 bits. */
TDM_INLINE void join_pairs(__m256i a, __m256i b, __m512i *first, __m512i *last) {
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
    *first = _mm512_srai_epi32(_mm512_slli_epi32(both, 16), 16);
    *last = _mm512_srai_epi32(both, 16);
}

/* Sixteen halves, eight from each. */
TDM_INLINE __m512 join_f16(const uint8_t *a, const uint8_t *b) {
    return _mm512_cvtph_ps(
        _mm256_inserti128_si256(_mm256_castsi128_si256(load128(a)), load128(b), 1));
}

/* head_d, head_m: of the blocks that these belong to. */
TDM_INLINE pair_scales pair_scales_at(int form, pair_at at, __m512 head_d, __m512 head_m) {
    pair_scales s = {.d = head_d, .m = head_m};
    const uint8_t *a = at.p[0] + packed_ints(form);
    const uint8_t *b = at.p[1] + packed_ints(form);
    if (form_has_odd(form)) { /* IQ3_XXS: the others have no path here */
        const __m128i both = _mm_unpacklo_epi64(load64(a), load64(b));
        s.d = _mm512_mul_ps(head_d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(both)));
    } else if (form_is_k45(form)) {
        const __m128i low = _mm_unpacklo_epi64(load128(a), load128(b));
        const __m128i high = _mm_unpackhi_epi64(load128(a), load128(b));
        s.d = _mm512_mul_ps(head_d, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(low)));
        s.m = _mm512_mul_ps(head_m, _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(high)));
        s.m = _mm512_xor_ps(s.m, _mm512_set1_ps(-0.0f));
    } else if (form_is_pair(form) || form_has_halves(form)) {
        const __m256 zero = _mm256_setzero_ps();
        const block_scales x = scales_packed(form, a, zero, zero);
        const block_scales y = scales_packed(form, b, zero, zero);
        if (form_is_pair(form)) {
            s.d = join_ps(x.d, y.d);
            s.m = join_ps(x.m, y.m);
        } else {
            join_pairs(x.pairs, y.pairs, &s.first, &s.last);
            join_pairs(x.mins, y.mins, &s.first_min, &s.last_min);
        }
    } else if (!form_has_period(form)) {
        s.d = join_f16(a, b);
        s.m = form_has_min(form) ? join_f16(a + 16, b + 16) : s.m;
    }
    return s;
}

/* The integer sums of a block, 16 rows by n tokens; of forms that tell halves apart the first
 * half's, and lasts the last's. */
TDM_INLINE void pair_sums(int form, int n, pair_at at, const int8_t *const *q,
                          const tdm_cpu_x8_block *const *xb, __m512i *sums, __m512i *lasts) {
    const int zero = wide_zero(form);
    const int has_two = wide_has_two(form);
    __m512i odd = _mm512_setzero_si512(); /* a second chain where there is but one token */
    for (int t = 0; t < n; ++t) {
        sums[t] = zero == 0
                      ? _mm512_setzero_si512()
                      : _mm512_set1_epi32(-zero * (has_two ? xb[t]->half_sums[0] : xb[t]->sum));
        lasts[t] = zero == 0 || !has_two ? _mm512_setzero_si512()
                                         : _mm512_set1_epi32(-zero * xb[t]->half_sums[1]);
    }
    for (int i = 0; i < 8; ++i) {
        const int j = form_bits(form) == 8 ? i : (i >> 1) + 4 * (i & 1); /* nibbles of one load */
        const __m512i v = pair_vector(form, at, j);
        for (int t = 0; t < n; ++t) {
            const __m512i x = broadcast4_wide(q[t] + 4 * j);
            if (has_two && j >= 4) {
                lasts[t] = _mm512_dpbusd_epi32(lasts[t], v, x);
            } else if (n == 1 && !has_two && (i & 1) != 0) {
                odd = _mm512_dpbusd_epi32(odd, v, x);
            } else {
                sums[t] = _mm512_dpbusd_epi32(sums[t], v, x);
            }
        }
    }
    if (n == 1 && !has_two) {
        sums[0] = _mm512_add_epi32(sums[0], odd);
    }
}

/* The f32 law of cpu_priv.h. */
TDM_INLINE __m512 pair_step(int form, const pair_scales *s, const tdm_cpu_x8_block *xb, __m512i sum,
                            __m512i last, __m512 acc) {
    const __m512 xd = _mm512_set1_ps(xb->d);
    if (form_has_halves(form)) {
        sum =
            _mm512_add_epi32(_mm512_mullo_epi32(sum, s->first), _mm512_mullo_epi32(last, s->last));
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps(s->d, xd), _mm512_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        acc = _mm512_fmadd_ps(s->m, _mm512_set1_ps(xb->s), acc);
    } else if (form_is_pair(form) || form == FORM_Q2_K) {
        if (form == FORM_Q2_K) {
            last = _mm512_add_epi32(
                _mm512_mullo_epi32(s->first_min, _mm512_set1_epi32(xb->half_sums[0])),
                _mm512_mullo_epi32(s->last_min, _mm512_set1_epi32(xb->half_sums[1])));
        }
        acc = _mm512_fmadd_ps(_mm512_mul_ps(s->m, xd), _mm512_cvtepi32_ps(last), acc);
    }
    return acc;
}

/* Two panels against n tokens (a constant): acc[t] lane r is row r's product. */
TDM_INLINE void pair_tile(int form, int n, pair_at at, const tdm_cpu_x8 *x8, int64_t tok0,
                          int64_t n_blocks, int32_t period, __m512 *acc) {
    __m512 head_d = _mm512_setzero_ps();
    __m512 head_m = _mm512_setzero_ps();
    const int8_t *q[TILE_TOKENS];
    const tdm_cpu_x8_block *xb[TILE_TOKENS];
    int32_t head_in = 0; /* blocks until the next head */
    for (int t = 0; t < n; ++t) {
        acc[t] = _mm512_setzero_ps();
        q[t] = x8->q + (tok0 + t) * x8->ld_q;
        xb[t] = x8->blocks + (tok0 + t) * x8->ld_blocks;
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
        __m512i sums[TILE_TOKENS];
        __m512i lasts[TILE_TOKENS];
        if (packed_head(form) > 0 && head_in-- == 0) {
            __m256 d[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            __m256 m[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
            for (int i = 0; i < 2; ++i) {
                heads_load(form, at.p[i], &d[i], &m[i]);
                at.p[i] += packed_head(form);
            }
            head_d = join_ps(d[0], d[1]);
            head_m = join_ps(m[0], m[1]);
            head_in = packed_period(form, period) - 1;
        }
        const pair_scales scales = pair_scales_at(form, at, head_d, head_m);
        pair_sums(form, n, at, q, xb, sums, lasts);
        for (int t = 0; t < n; ++t) {
            acc[t] = pair_step(form, &scales, xb[t], sums[t], lasts[t], acc[t]);
            q[t] += 32;
            xb[t] += 1;
        }
        if (n == 1) { /* a lone row waits for memory alone */
            for (int i = 0; i < packed_block(form); i += 64) {
                _mm_prefetch((const char *)at.p[0] + AHEAD_BYTES + i, _MM_HINT_T0);
                _mm_prefetch((const char *)at.p[1] + AHEAD_BYTES + i, _MM_HINT_T0);
            }
        }
        at.p[0] += packed_block(form);
        at.p[1] += packed_block(form);
    }
}

TDM_INLINE void pair_tokens(int form, const tdm_cpu_linear_job *job, pair_at at, int64_t row0,
                            int64_t n_rows, int64_t tok0, int64_t tok1) {
    const int64_t n_blocks = job->weight->n_in / 32;
    const int32_t period = job->weight->period;
    __m512 acc[TILE_TOKENS];
    int64_t t = tok0;
    for (; t + 8 <= tok1; t += 8) {
        pair_tile(form, 8, at, job->x8, t, n_blocks, period, acc);
        wide_store(job, row0, n_rows, t, 8, acc);
    }
    if (t + 4 <= tok1) {
        pair_tile(form, 4, at, job->x8, t, n_blocks, period, acc);
        wide_store(job, row0, n_rows, t, 4, acc);
        t += 4;
    }
    if (t + 2 <= tok1) {
        pair_tile(form, 2, at, job->x8, t, n_blocks, period, acc);
        wide_store(job, row0, n_rows, t, 2, acc);
        t += 2;
    }
    if (t < tok1) {
        pair_tile(form, 1, at, job->x8, t, n_blocks, period, acc);
        wide_store(job, row0, n_rows, t, 1, acc);
    }
}

TDM_INLINE void pairs(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                      int64_t tok0, int64_t tok1) {
    const tdm_weight *w = job->weight;
    const size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    for (int64_t o = row0; o < row1; o += WIDE_ROWS) {
        const uint8_t *p =
            (const uint8_t *)w->packed + (size_t)(o / TDM_CPU_PANEL_ROWS) * panel_bytes;
        const pair_at at = {{p, p + panel_bytes}};
        pair_tokens(form, job, at, o, tdm_cpu_min(WIDE_ROWS, row1 - o), tok0, tok1);
    }
}

typedef void (*pairs_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1);

#define PAIRS(name)                                                                                \
    static void name##_pairs(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,            \
                             int64_t tok0, int64_t tok1) {                                         \
        if (pair_can(FORM_##name)) {                                                               \
            pairs(FORM_##name, job, row0, row1, tok0, tok1);                                       \
        }                                                                                          \
    }

FORMS(PAIRS)

#define PAIRS_ENTRY(name) [FORM_##name] = name##_pairs,

static const pairs_fn PAIR_KERNELS[FORM_COUNT] = {FORMS(PAIRS_ENTRY)};

void tdm_avx512_linear_i8_pairs(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                int64_t tok0, int64_t tok1, void *scratch) {
    const int64_t n_panels = (row1 - row0 + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS;
    int64_t paired = row0; /* rows before it went in pairs */
    if (job->weight->packed != NULL && n_panels > 1 && pair_can(job->weight->layout)) {
        paired = n_panels % 2 == 0 ? row1 : row0 + (n_panels - 1) * TDM_CPU_PANEL_ROWS;
        PAIR_KERNELS[job->weight->layout](job, row0, paired, tok0, tok1);
    }
    if (paired < row1) {
        tdm_avx512_linear_i8_single(job, paired, row1, tok0, tok1, scratch);
    }
}

void tdm_avx512_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    if (tok1 - tok0 < PAIR_TOKENS) {
        tdm_avx512_linear_i8_single(job, row0, row1, tok0, tok1, scratch);
    } else {
        tdm_avx512_linear_i8_pairs(job, row0, row1, tok0, tok1, scratch);
    }
}
