/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products of packed panels with AVX-512 VNNI: sixteen rows in one register, from one stream of
 * memory, unpacked on the way, against one to eight tokens whose activations the dot instruction
 * broadcasts itself. The bits are those of every other set: each output has one lane, and blocks come
 * in ascending order. One token alone has its own way (lone_tmpl.h). */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/wide_inl.h"

#define TILE_TOKENS 8
/* How far ahead it asks for memory. */
#define AHEAD_BYTES 2048

TDM_INLINE __m512i dot(__m512i sum, __m512i v, const int8_t *q) {
    return _mm512_dpbusd_epi32(sum, v, broadcast4_wide(q));
}

/* -7 for the activations of the first and of the last half, as their two sums stand in a block. */
#define FIRST_BY_7 0x0000fff9
#define LAST_BY_7 (-7 * 65536)
#define BOTH_BY_7 (-6 * 65536 - 7)

/* Packed IQ1: four times the sums of (code) * q become those of (8 * (code - 1) +- 1) * q, which are
 * 8 * sum - 7 * (sum of q) - 2 * (sums of q where a row is marked); e has the sums of q for each of n
 * marks. */
TDM_INLINE __m512i ternary_wide(__m512i sum4, const uint8_t *marks, const int32_t *e, int n,
                                int by_7, const tdm_cpu_x8_block *xb) {
    int32_t halves = 0;
    memcpy(&halves, xb->half_sums, sizeof halves);
    for (int i = 0; i < n; ++i) {
        const __mmask16 rows = _load_mask16((__mmask16 *)(uintptr_t)(marks + 2 * i));
        sum4 = _mm512_mask_sub_epi32(sum4, rows, sum4, _mm512_set1_epi32(e[i]));
    }
    return _mm512_dpwssd_epi32(_mm512_slli_epi32(sum4, 1), _mm512_set1_epi32(by_7),
                               _mm512_set1_epi32(halves));
}

/* Of sums times 4. */
TDM_INLINE void ternary_end_wide(int form, const uint8_t *p, const tdm_cpu_x8_block *xb,
                                 __m512i *sum, __m512i *last) {
    const uint8_t *marks = ternary_marks(form, p);
    if (form == FORM_IQ1) {
        *sum = ternary_wide(*sum, marks, &xb->sum, 1, BOTH_BY_7, xb);
    } else {
        *sum = ternary_wide(*sum, marks, xb->eights, 2, FIRST_BY_7, xb);
        *last = ternary_wide(*last, marks + 4, xb->eights + 2, 2, LAST_BY_7, xb);
    }
}

/* The integer sums of a block against n tokens of a group, from t0 on; of forms that tell halves apart
 * the first half's, and lasts the last's. */
TDM_INLINE void tile_wide(int form, int n, const uint8_t *p, const tdm_cpu_x8_group *group, int t0,
                          __m512i *sums, __m512i *lasts) {
    const int zero = packed_zero(form);
    const int has_two = wide_has_two(form);
    _Alignas(64) int32_t start[TDM_CPU_GROUP_TOKENS];
    _Alignas(64) int32_t last_start[TDM_CPU_GROUP_TOKENS];
    if (zero != 0) {
        const __m512i times = _mm512_set1_epi32(-zero);
        __m512i first = _mm512_load_si512(group->first);
        if (has_two) {
            _mm512_store_si512(last_start,
                               _mm512_mullo_epi32(times, _mm512_load_si512(group->last)));
        } else {
            first = _mm512_add_epi32(first, _mm512_load_si512(group->last));
        }
        _mm512_store_si512(start, _mm512_mullo_epi32(times, first));
    }
    for (int t = 0; t < n; ++t) {
        const __m512i none = _mm512_setzero_si512();
        sums[t] = zero != 0 ? _mm512_set1_epi32(start[t0 + t]) : none;
        lasts[t] = zero != 0 && has_two ? _mm512_set1_epi32(last_start[t0 + t]) : none;
    }
    for (int i = 0; i < 8; ++i) {
        const int j = form_bits(form) == 8 ? i : (i >> 1) + 4 * (i & 1); /* nibbles of one load */
        const __m512i v = vector_at(form, p, j);
        for (int t = 0; t < n; ++t) {
            __m512i *sum = has_two && j >= 4 ? &lasts[t] : &sums[t];
            *sum = dot(*sum, v, group->q[t0 + t] + 4 * j);
        }
    }
    for (int t = 0; t < n && form_is_ternary(form);
         ++t) { /* times 4, as ternary_end_wide wants them */
        sums[t] = _mm512_slli_epi32(sums[t], 2);
        lasts[t] = _mm512_slli_epi32(lasts[t], 2);
    }
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

TDM_INLINE __m512 group_step(int form, const panel_scales *s, const tdm_cpu_x8_group *g, int t,
                             __m512i sum, __m512i last, __m512 acc) {
    const uint32_t halves = ((uint32_t)g->first[t] & 0xffffu) | (uint32_t)g->last[t] << 16;
    return step(form, s, g->d[t], g->s[t], halves, sum, last, acc);
}

/* Activations of a few tokens. group: side by side, so that one register finds them all (eight
 * pointers to tokens and eight to their blocks left none for anything else). */
typedef struct panel_x {
    const tdm_cpu_x8_block *blocks;
    int64_t ld_blocks;
    const tdm_cpu_x8_group *group;
} panel_x;

/* A panel against n tokens (a constant), in a group from t0 on: acc[t] lane r is row r's product. */
TDM_INLINE void tile(int form, int n, const uint8_t *p, const panel_x *x, int t0, int64_t n_blocks,
                     int32_t period, __m512 *acc) {
    __m512 head_d = _mm512_setzero_ps();
    __m512 head_m = _mm512_setzero_ps();
    int32_t head_in = 0; /* blocks until the next head */
    for (int t = 0; t < n; ++t) {
        acc[t] = _mm512_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
        __m512i sums[TILE_TOKENS];
        __m512i lasts[TILE_TOKENS];
        if (form_has_head(form) && head_in-- == 0) {
            heads_wide(form, period, p, &head_d, &head_m);
            p += packed_head(form, period);
            head_in = packed_period(form, period) - 1;
        }
        const panel_scales scales =
            scales_wide(form, period, p + packed_ints(form), head_d, head_m);
        tile_wide(form, n, p, x->group + b, t0, sums, lasts);
        for (int t = 0; t < n; ++t) {
            const tdm_cpu_x8_block *xb = x->blocks + t * x->ld_blocks + b;
            if (form_is_ternary(form)) {
                ternary_end_wide(form, p, xb, &sums[t], &lasts[t]);
            }
            acc[t] = group_step(form, &scales, x->group + b, t0 + t, sums[t], lasts[t], acc[t]);
        }
        p += packed_block(form, period);
        /* Few tokens wait for memory; up to eight gained a quarter to two fifths. */
        for (int i = 0; i < packed_block(form, period); i += 64) {
            _mm_prefetch((const char *)p + AHEAD_BYTES + i, _MM_HINT_T0);
        }
    }
}

TDM_INLINE void tile_store(int form, int n, const tdm_cpu_linear_job *job, const uint8_t *p,
                           int64_t row0, int64_t n_rows, int64_t tok0, int t0,
                           const tdm_cpu_x8_group *group) {
    const tdm_weight *w = job->weight;
    const tdm_cpu_x8 *x8 = job->x8;
    const panel_x x = {x8->blocks + tok0 * x8->ld_blocks, x8->ld_blocks, group};
    __m512 acc[TILE_TOKENS];
    tile(form, n, p, &x, t0, w->n_in / 32, w->period, acc);
    wide_store(job, row0, n_rows, tok0, n, acc);
}

/* At most a group of tokens from tok0 on. */
TDM_INLINE void panels(int form, const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                       int64_t tok0, int n, const tdm_cpu_x8_group *group) {
    const tdm_weight *w = job->weight;
    const size_t panel_bytes = packed_panel(form, w->n_in, w->period);
    for (int64_t o = row0; o < row1; o += PANEL_ROWS) {
        const uint8_t *p = (const uint8_t *)w->packed + (size_t)(o / PANEL_ROWS) * panel_bytes;
        const int64_t n_rows = tdm_cpu_min(PANEL_ROWS, row1 - o);
        int t = 0;
        for (; t + 8 <= n && !wide_has_two(form); t += 8) { /* two sums a token do not fit */
            tile_store(form, 8, job, p, o, n_rows, tok0 + t, t, group);
        }
        for (; t + 4 <= n; t += 4) {
            tile_store(form, 4, job, p, o, n_rows, tok0 + t, t, group);
        }
        if (t + 2 <= n) {
            tile_store(form, 2, job, p, o, n_rows, tok0 + t, t, group);
            t += 2;
        }
        if (t < n) {
            tile_store(form, 1, job, p, o, n_rows, tok0 + t, t, group);
        }
    }
}

typedef void (*panels_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int n, const tdm_cpu_x8_group *group);

#define PANELS(name)                                                                               \
    static void name##_panels(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,           \
                              int64_t tok0, int n, const tdm_cpu_x8_group *group) {                \
        panels(FORM_##name, job, row0, row1, tok0, n, group);                                      \
    }

FORMS(PANELS)

#define PANELS_ENTRY(name) [FORM_##name] = name##_panels,

static const panels_fn KERNELS[FORM_COUNT] = {FORMS(PANELS_ENTRY)};

/* Tokens in groups: copied once a call, for all its panels. */
void tdm_avx512_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    const tdm_cpu_x8 *x8 = job->x8;
    const int64_t n_blocks = job->weight->n_in / 32;
    tdm_cpu_x8_group *group = scratch;
    if (job->weight->packed == NULL) {
        tdm_avx512_linear_i8_mapped(job, row0, row1, tok0, tok1, scratch);
        return;
    }
    if (tok1 - tok0 == 1) {
        tdm_avx512_lone_i8(job, row0, row1, tok0, scratch);
        return;
    }
    for (int64_t t = tok0; t < tok1; t += TDM_CPU_GROUP_TOKENS) {
        const int n = (int)tdm_cpu_min(TDM_CPU_GROUP_TOKENS, tok1 - t);
        for (int i = 0; i < n; ++i) {
            tdm_cpu_group_put(group, i, x8->q + (t + i) * x8->ld_q,
                              x8->blocks + (t + i) * x8->ld_blocks, n_blocks);
        }
        KERNELS[job->weight->layout](job, row0, row1, t, n, group);
    }
}
