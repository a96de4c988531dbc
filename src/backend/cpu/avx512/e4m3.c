/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products of E4M3 rows (fp8, mxfp8) with few tokens, as the file has them, for processors with
 * VBMI. Every magnitude is a BF16 number, so two look-ups in tables of 128 bytes give the upper half
 * of an f32 for 64 weights at once, subnormal codes and NaN's included; two rows share a register.
 * The bits are those of avx2/linear_f32.c: each weight is rounded to f32 under its scale, and lane i
 * of an output sums k = i mod 8 in ascending order. More tokens go there. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/avx2_priv.h"
#include "backend/cpu/avx2/block_inl.h"
#include "backend/cpu/avx2/math_inl.h"
#include "backend/cpu/avx512/e4m3_inl.h"

#define ROWS TDM_CPU_F32_ROWS
/* Up to so many tokens rows are widened for each of them instead of once into scratch. */
#define DIRECT_TOKENS 3
/* Columns of a step: a line of each row, since eight rows of 4,096 share one set of the first-level
 * cache and a line that is left half read may be gone. */
#define COLUMNS 64
/* How far behind the end of its own panel it asks for weights. */
#define AHEAD_BYTES 4096

/* Where 32 columns of two rows go, so that unpacked they come in their order. */
static const uint8_t ORDER[64] = {0,  8,  1,  9,  2,  10, 3,  11, 16, 24, 17, 25, 18, 26, 19, 27,
                                  4,  12, 5,  13, 6,  14, 7,  15, 20, 28, 21, 29, 22, 30, 23, 31,
                                  32, 40, 33, 41, 34, 42, 35, 43, 48, 56, 49, 57, 50, 58, 51, 59,
                                  36, 44, 37, 45, 38, 46, 39, 47, 52, 60, 53, 61, 54, 62, 55, 63};

typedef struct e4m3_tables {
    __m512i upper[2];
    __m512i lower[2];
    __m512i order;
} e4m3_tables;

/* A panel on its way; rows past the last repeat it. */
typedef struct e4m3_panel {
    const uint8_t *rows[ROWS];
    const float *scales[ROWS]; /* of each group of columns */
    __m512 factors[ROWS / 2];  /* fp8: of the group that is under way, two rows each */
} e4m3_panel;

static e4m3_tables tables_load(void) {
    return (e4m3_tables){.upper = {_mm512_loadu_si512(UPPER), _mm512_loadu_si512(UPPER + 64)},
                         .lower = {_mm512_loadu_si512(LOWER), _mm512_loadu_si512(LOWER + 64)},
                         .order = _mm512_loadu_si512(ORDER)};
}

TDM_INLINE __m512 two_rows(float a, float b) {
    return _mm512_mask_broadcastss_ps(_mm512_set1_ps(a), 0xff00, _mm_set_ss(b));
}

/* 32 columns of rows a (low half) and b: out[i] has columns 8i .. 8i + 7 of both. */
TDM_INLINE void widen_two(const e4m3_tables *tables, const uint8_t *a, const uint8_t *b,
                          __m512 out[4]) {
    const __m512i upper_words = _mm512_set1_epi32((int32_t)0xffff0000u);
    __m512i codes = _mm512_inserti64x4(_mm512_castsi256_si512(load256(a)), load256(b), 1);
    codes = _mm512_permutexvar_epi8(tables->order, codes);
    __m512i upper = _mm512_permutex2var_epi8(tables->upper[0], codes, tables->upper[1]);
    __m512i lower = _mm512_permutex2var_epi8(tables->lower[0], codes, tables->lower[1]);
    /* upper | (codes & sign) */
    upper = _mm512_ternarylogic_epi32(upper, codes, _mm512_set1_epi8((char)0x80), 0xf8);
    __m512i first = _mm512_unpacklo_epi8(lower, upper);
    __m512i last = _mm512_unpackhi_epi8(lower, upper);
    out[0] = _mm512_castsi512_ps(_mm512_slli_epi32(first, 16));
    out[1] = _mm512_castsi512_ps(_mm512_and_si512(first, upper_words));
    out[2] = _mm512_castsi512_ps(_mm512_slli_epi32(last, 16));
    out[3] = _mm512_castsi512_ps(_mm512_and_si512(last, upper_words));
}

/* COLUMNS columns from k on of rows 2i and 2i + 1. mode and i are constants at every call. */
TDM_INLINE __m512 two_step(tdm_weight_mode mode, const e4m3_tables *tables, const e4m3_panel *p,
                           int i, const float *x, int64_t k, __m512 acc) {
    for (int64_t at = k; at < k + COLUMNS; at += 32) {
        __m512 weights[4];
        __m512 factor = mode == TDM_WEIGHT_FP8
                            ? p->factors[i]
                            : two_rows(p->scales[2 * i][at / 32], p->scales[2 * i + 1][at / 32]);
        widen_two(tables, p->rows[2 * i] + at, p->rows[2 * i + 1] + at, weights);
        for (int j = 0; j < 4; ++j) {
            __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(x + at + 8 * j));
            acc = _mm512_fmadd_ps(_mm512_mul_ps(weights[j], factor), v, acc);
        }
    }
    return acc;
}

/* The panel's sums. mode is a constant at every call. */
TDM_INLINE void panel_sums(tdm_weight_mode mode, const tdm_weight *w, e4m3_panel *p, const float *x,
                           float *sums) {
    const e4m3_tables tables = tables_load();
    const char *ahead = (const char *)p->rows[0] + AHEAD_BYTES + ROWS * w->n_in;
    __m512 acc[ROWS / 2];
    int64_t group_in = 0;
    int64_t group = 0;
    for (int i = 0; i < ROWS / 2; ++i) {
        acc[i] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < w->n_in; k += COLUMNS, group_in -= COLUMNS) {
        if (mode == TDM_WEIGHT_FP8 && group_in == 0) {
            group_in = w->group;
            for (int i = 0; i < ROWS / 2; ++i) {
                p->factors[i] = two_rows(p->scales[2 * i][group], p->scales[2 * i + 1][group]);
            }
            group += 1;
        }
        acc[0] = two_step(mode, &tables, p, 0, x, k, acc[0]);
        acc[1] = two_step(mode, &tables, p, 1, x, k, acc[1]);
        acc[2] = two_step(mode, &tables, p, 2, x, k, acc[2]);
        acc[3] = two_step(mode, &tables, p, 3, x, k, acc[3]);
        for (int i = 0; i < ROWS * COLUMNS; i += 64) {
            _mm_prefetch(ahead + ROWS * k + i, _MM_HINT_T1);
        }
    }
    for (int i = 0; i < ROWS / 2; ++i) {
        sums[2 * i] = fold8(_mm512_castps512_ps256(acc[i]));
        sums[2 * i + 1] = fold8(_mm512_extractf32x8_ps(acc[i], 1));
    }
}

/* Rows and scales of the panel from row o on; rows of one fp8 block share theirs, and *known is the
 * block whose scales lie in scratch already. */
static void panel_open(const tdm_weight *w, int64_t o, int64_t n_rows, float *scratch,
                       int64_t *known, e4m3_panel *p) {
    const int64_t n_scales = (w->n_in + w->group - 1) / w->group;
    const int64_t last = o + n_rows - 1;
    const bool is_shared = w->mode == TDM_WEIGHT_FP8 && o / w->group_rows == last / w->group_rows;
    const bool is_known = is_shared && o / w->group_rows == *known;
    for (int64_t r = 0; r < ROWS; ++r) {
        const int64_t row = tdm_cpu_min(o + r, last);
        float *scales = scratch + (is_shared ? 0 : r * n_scales);
        p->rows[r] = w->data + (size_t)row * w->row_bytes;
        p->scales[r] = scales;
        if (!is_known && (!is_shared || r == 0)) {
            load_scales(w, row, scales);
        }
    }
    *known = is_shared ? o / w->group_rows : -1;
}

static void few_tokens(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                       int64_t tok1, float *scratch) {
    const tdm_weight *w = job->weight;
    int64_t known = -1;
    for (int64_t o = row0; o < row1; o += ROWS) {
        const int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        e4m3_panel p;
        panel_open(w, o, n_rows, scratch, &known, &p);
        for (int64_t t = tok0; t < tok1; ++t) {
            float sums[ROWS];
            if (w->mode == TDM_WEIGHT_FP8) {
                panel_sums(TDM_WEIGHT_FP8, w, &p, job->x + t * job->ld_x, sums);
            } else {
                panel_sums(TDM_WEIGHT_MXFP8, w, &p, job->x + t * job->ld_x, sums);
            }
            for (int64_t r = 0; r < n_rows; ++r) {
                float *out = job->out + t * job->ld_out + o + r;
                float product = job->bias == NULL ? sums[r] : sums[r] + job->bias[o + r];
                *out = job->is_added ? *out + product : product;
            }
        }
    }
}

void tdm_avx512_linear_e4m3(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const bool is_e4m3 =
        (w->mode == TDM_WEIGHT_FP8 && w->group % COLUMNS == 0) || w->mode == TDM_WEIGHT_MXFP8;
    if (is_e4m3 && w->n_in % COLUMNS == 0 && tok1 - tok0 <= DIRECT_TOKENS) {
        few_tokens(job, row0, row1, tok0, tok1, scratch);
    } else {
        tdm_avx512_linear_f32(job, row0, row1, tok0, tok1, scratch);
    }
}
