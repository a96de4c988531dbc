/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels with AVX-512 VNNI, a few tokens: a panel is unpacked on the way and
 * meets two to eight tokens at a time, the next eight while it is in a cache. The bits are those of
 * every other set: each output has one lane, and blocks come in ascending order. One token alone has
 * its own way (lone_tmpl.h).
 *
 * What a block of 32 columns, sixteen rows and eight tokens must cost on Zen 4 is 64 dots, eight
 * multiplications and eight fused ones, one a cycle on two pipes of 256 bits. To come near it the dots
 * broadcast activations themselves from five lines of memory in the order of use (eights), everything
 * else goes to the other two pipes, and panels are asked for 4 KiB ahead. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/wide_inl.h"

/* Tokens of the longest tile; two sums and two scales leave registers for four. */
#define TILE_TOKENS 8
/* How far ahead it asks for memory. */
#define AHEAD_BYTES 4096

/* Integers of tokens [t0, t0 + n) where their sums begin: less what the zero point will add. */
typedef struct few_starts {
    _Alignas(32) int32_t first[TILE_TOKENS]; /* of a block, or of its first half */
    _Alignas(32) int32_t last[TILE_TOKENS];
} few_starts;

TDM_INLINE __m256i less_zero(__m256i sums, int zero) {
    const uint8_t by = (uint8_t)__builtin_ctz((unsigned)zero); /* a power of two, as all are */
    return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sums, by));
}

TDM_INLINE void starts_make(int form, const tdm_cpu_x8_eight *x, few_starts *out) {
    const int zero = wide_zero(form);
    if (wide_has_two(form)) {
        const __m256i halves = _mm256_load_si256((const __m256i *)(const void *)x->half_sums);
        const __m256i first = _mm256_srai_epi32(_mm256_slli_epi32(halves, 16), 16);
        _mm256_store_si256((__m256i *)(void *)out->first, less_zero(first, zero));
        _mm256_store_si256((__m256i *)(void *)out->last,
                           less_zero(_mm256_srai_epi32(halves, 16), zero));
    } else {
        const __m256i sum = _mm256_load_si256((const __m256i *)(const void *)x->sum);
        _mm256_store_si256((__m256i *)(void *)out->first, less_zero(sum, zero));
    }
}

/* Vector j of a packed block against n tokens. */
TDM_INLINE void dots(int form, int n, const uint8_t *p, const tdm_cpu_x8_eight *x, int t0, int j,
                     __m512i *sums) {
    const __m512i v = wide_vector(form, 0, p, j);
    for (int t = 0; t < n; ++t) {
        sums[t] = _mm512_dpbusd_epi32(sums[t], v, broadcast4_wide(x->q[j][t0 + t]));
    }
}

/* The integer sums of a packed block; of forms that tell halves apart the first half's, and lasts the
 * last's. */
TDM_INLINE void block_sums(int form, int n, const uint8_t *p, const tdm_cpu_x8_eight *x, int t0,
                           __m512i *sums, __m512i *lasts) {
    const int has_two = wide_has_two(form);
    few_starts starts;
    if (wide_zero(form) != 0) {
        starts_make(form, x, &starts);
    }
    for (int t = 0; t < n; ++t) {
        const __m512i none = _mm512_setzero_si512();
        sums[t] = wide_zero(form) != 0 ? _mm512_set1_epi32(starts.first[t0 + t]) : none;
        lasts[t] = wide_zero(form) != 0 && has_two ? _mm512_set1_epi32(starts.last[t0 + t]) : none;
    }
    __m512i *second = has_two ? lasts : sums; /* by name: a loop would not be unrolled in time */
    dots(form, n, p, x, t0, 0, sums);
    dots(form, n, p, x, t0, 4, second); /* nibbles of one load */
    dots(form, n, p, x, t0, 1, sums);
    dots(form, n, p, x, t0, 5, second);
    dots(form, n, p, x, t0, 2, sums);
    dots(form, n, p, x, t0, 6, second);
    dots(form, n, p, x, t0, 3, sums);
    dots(form, n, p, x, t0, 7, second);
}

/* The f32 law of cpu_priv.h. x_d, x_s: the block's scale, and times its sum; halves: the sums of both
 * halves in 16 bits each, which Q2_K wants. */
TDM_INLINE __m512 step(int form, const panel_scales *s, float x_d, float x_s, uint32_t halves,
                       __m512i sum, __m512i last, __m512 acc) {
    const __m512 xd = _mm512_set1_ps(x_d);
    if (form_has_halves(form)) {
        sum =
            _mm512_add_epi32(_mm512_mullo_epi32(sum, s->first), _mm512_mullo_epi32(last, s->last));
    }
    acc = _mm512_fmadd_ps(_mm512_mul_ps(s->d, xd), _mm512_cvtepi32_ps(sum), acc);
    if (form_has_min(form)) {
        acc = _mm512_fmadd_ps(s->m, _mm512_set1_ps(x_s), acc);
    } else if (form_is_pair(form) || form == FORM_Q2_K) {
        if (form == FORM_Q2_K) {
            last = _mm512_dpwssd_epi32(_mm512_setzero_si512(), s->mins,
                                       _mm512_set1_epi32((int32_t)halves));
        }
        acc = _mm512_fmadd_ps(_mm512_mul_ps(s->m, xd), _mm512_cvtepi32_ps(last), acc);
    }
    return acc;
}

/* A panel against tokens [t0, t0 + n) of an eight, n a constant: acc[t] lane r is row r's product. */
TDM_INLINE void tile(int form, int n, const uint8_t *p, const tdm_cpu_x8_eight *x, int t0,
                     int64_t n_blocks, int32_t period, __m512 *acc) {
    __m512 head_d = _mm512_setzero_ps();
    __m512 head_m = _mm512_setzero_ps();
    int32_t head_in = 0; /* blocks until the next head */
    for (int t = 0; t < n; ++t) {
        acc[t] = _mm512_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; ++b, ++x) {
        __m512i sums[TILE_TOKENS];
        __m512i lasts[TILE_TOKENS];
        if (form_has_head(form) && head_in-- == 0) {
            heads_wide(form, period, p, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        const panel_scales scales =
            scales_wide(form, period, p + packed_ints(form), head_d, head_m);
        block_sums(form, n, p, x, t0, sums, lasts);
        for (int t = 0; t < n; ++t) {
            uint32_t halves = 0;
            memcpy(&halves, x->half_sums[t0 + t], sizeof halves);
            acc[t] =
                step(form, &scales, x->d[t0 + t], x->s[t0 + t], halves, sums[t], lasts[t], acc[t]);
        }
        p += packed_block(form, period);
        for (int i = 0; i < packed_block(form, period); i += 64) {
            _mm_prefetch((const char *)p + AHEAD_BYTES + i, _MM_HINT_T0);
        }
    }
}

/* What all tiles of a panel share. */
typedef struct few_panel {
    const tdm_cpu_linear_job *job;
    const uint8_t *p;
    int64_t row0;
    int64_t n_rows;
} few_panel;

/* The same, and the first n_real of them into their places from token tok on. */
TDM_INLINE void tile_store(int form, int n, const few_panel *panel, const tdm_cpu_x8_eight *x,
                           int t0, int64_t tok, int n_real) {
    const tdm_weight *w = panel->job->weight;
    __m512 acc[TILE_TOKENS];
    tile(form, n, panel->p, x, t0, w->n_in / 32, w->period, acc);
    for (int t = 0; t < n && t < n_real; ++t) { /* by constants: acc stays in registers */
        wide_store(panel->job, panel->row0, panel->n_rows, tok + t, 1, &acc[t]);
    }
}

/* n tokens, at most eight, by the shortest tile that holds them: missing tokens are zeros. */
TDM_INLINE void eight_store(int form, const few_panel *panel, const tdm_cpu_x8_eight *x,
                            int64_t tok, int n) {
    if (form_is_pair(form)) {
        for (int t = 0; t < n; t += 4) {
            if (n - t > 2) {
                tile_store(form, 4, panel, x, t, tok + t, (int)tdm_cpu_min(4, n - t));
            } else {
                tile_store(form, 2, panel, x, t, tok + t, n - t);
            }
        }
    } else if (n > 6) {
        tile_store(form, 8, panel, x, 0, tok, n);
    } else if (n > 4) {
        tile_store(form, 6, panel, x, 0, tok, n);
    } else if (n > 2) {
        tile_store(form, 4, panel, x, 0, tok, n);
    } else {
        tile_store(form, 2, panel, x, 0, tok, n);
    }
}

/* n tokens from tok on, whose eights begin at x. */
TDM_INLINE void panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                       const tdm_cpu_x8_eight *x, int64_t tok, int64_t n) {
    const tdm_weight *w = job->weight;
    const size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    for (int64_t o = row0; o < row1; o += PANEL_ROWS) {
        const few_panel panel = {.job = job,
                                 .p = (const uint8_t *)w->packed +
                                      (size_t)(o / PANEL_ROWS) * panel_bytes,
                                 .row0 = o,
                                 .n_rows = tdm_cpu_min(PANEL_ROWS, row1 - o)};
        for (int64_t t = 0; t < n; t += TDM_CPU_EIGHT_TOKENS) {
            eight_store(form, &panel, x + t / TDM_CPU_EIGHT_TOKENS * (w->n_in / 32), tok + t,
                        (int)tdm_cpu_min(TDM_CPU_EIGHT_TOKENS, n - t));
        }
    }
}

typedef void (*few_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                       const tdm_cpu_x8_eight *x, int64_t tok, int64_t n);

#define FEW(name)                                                                                  \
    static void name##_few(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,              \
                           const tdm_cpu_x8_eight *x, int64_t tok, int64_t n) {                    \
        panels(FORM_##name, job, row0, row1, x, tok, n);                                           \
    }

FORMS(FEW)

#define FEW_ENTRY(name) [FORM_##name] = name##_few,

static const few_fn KERNELS[FORM_COUNT] = {FORMS(FEW_ENTRY)};

/* Eights that the call brings, or sixteen tokens' at a time in scratch. */
static void few(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                int64_t tok1, void *scratch) {
    const tdm_cpu_x8 *x8 = job->x8;
    const int64_t n_blocks = job->weight->n_in / 32;
    const few_fn kernel = KERNELS[job->weight->layout];
    const int64_t skip = tok0 - job->eights_tok;
    if (job->eights != NULL && skip >= 0 && skip % TDM_CPU_EIGHT_TOKENS == 0) {
        kernel(job, row0, row1, job->eights + skip / TDM_CPU_EIGHT_TOKENS * n_blocks, tok0,
               tok1 - tok0);
        return;
    }
    tdm_cpu_x8_eight *own = scratch;
    for (int64_t tok = tok0; tok < tok1; tok += 2 * TDM_CPU_EIGHT_TOKENS) {
        const int64_t n = tdm_cpu_min(2 * TDM_CPU_EIGHT_TOKENS, tok1 - tok);
        for (int64_t t = 0; t < n; t += TDM_CPU_EIGHT_TOKENS) {
            tdm_cpu_eight_put(own + t / TDM_CPU_EIGHT_TOKENS * n_blocks,
                              tdm_cpu_min(TDM_CPU_EIGHT_TOKENS, n - t),
                              x8->q + (tok + t) * x8->ld_q, x8->ld_q,
                              x8->blocks + (tok + t) * x8->ld_blocks, x8->ld_blocks, n_blocks);
        }
        kernel(job, row0, row1, own, tok, n);
    }
}

void tdm_avx512_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    if (job->weight->packed == NULL) {
        tdm_avx512_linear_i8_mapped(job, row0, row1, tok0, tok1, scratch);
    } else if (tok1 - tok0 == 1) {
        tdm_avx512_lone_i8(job, row0, row1, tok0, scratch);
    } else {
        few(job, row0, row1, tok0, tok1, scratch);
    }
}
