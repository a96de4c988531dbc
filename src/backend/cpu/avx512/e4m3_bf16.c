/* SPDX-License-Identifier: Apache-2.0
 *
 * BF16 products of E4M3 rows (fp8, mxfp8): every code is a BF16 number, found by two look-ups in
 * tables of 128 bytes (e4m3_inl.h), so that nothing is widened to f32 and no weight is multiplied by
 * its scale; the sum of a group is. Few tokens: codes are looked up on their way, eight rows at a
 * time. More: rows become BF16 in scratch first. Wants whole groups of 64 columns (is_bf16). */
#include "backend/cpu/avx512/bf16_inl.h"
#include "backend/cpu/avx512/e4m3_inl.h"

/* Up to so many tokens rows are looked up for each of them. */
#define DIRECT_TOKENS 3
#define COLUMNS 64
#define TILE_ROWS 4
#define TILE_TOKENS 3

/* Eights of columns, so that unpacking bytes in each quarter of a register keeps their order. */
static const uint64_t ORDER[8] = {0, 4, 1, 5, 2, 6, 3, 7};

typedef struct e4m3_tables {
    __m512i upper[2];
    __m512i lower[2];
    __m512i order;
} e4m3_tables;

typedef struct e4m3_rows {
    const uint8_t *at[ROWS]; /* codes, or BF16; past the last they repeat it */
    const float *scales[ROWS];
} e4m3_rows;

static e4m3_tables tables_load(void) {
    return (e4m3_tables){.upper = {_mm512_loadu_si512(UPPER), _mm512_loadu_si512(UPPER + 64)},
                         .lower = {_mm512_loadu_si512(LOWER), _mm512_loadu_si512(LOWER + 64)},
                         .order = _mm512_loadu_si512(ORDER)};
}

/* 64 codes as BF16. */
TDM_INLINE void widen64(const e4m3_tables *tables, const uint8_t *p, __m512i out[2]) {
    const __m512i codes = _mm512_permutexvar_epi64(tables->order, _mm512_loadu_si512(p));
    __m512i upper = _mm512_permutex2var_epi8(tables->upper[0], codes, tables->upper[1]);
    const __m512i lower = _mm512_permutex2var_epi8(tables->lower[0], codes, tables->lower[1]);
    /* upper | (codes & sign) */
    upper = _mm512_ternarylogic_epi32(upper, codes, _mm512_set1_epi8((char)0x80), 0xf8);
    out[0] = _mm512_unpacklo_epi8(lower, upper);
    out[1] = _mm512_unpackhi_epi8(lower, upper);
}

/* Columns [k, end) of one group, or two groups of 32, into acc. mode is a constant at every call. */
TDM_INLINE void rows_step(tdm_weight_mode mode, const e4m3_tables *tables, const e4m3_rows *rows,
                          const uint16_t *x, int64_t k, int64_t end, int64_t group,
                          const char *ahead, __m512 *acc) {
    __m512 part[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        part[r] = _mm512_setzero_ps();
    }
    for (; k < end; k += COLUMNS) {
        const __m512i first = _mm512_loadu_si512(x + k);
        const __m512i last = _mm512_loadu_si512(x + k + 32);
        for (int r = 0; r < ROWS; ++r) {
            __m512i w[2];
            widen64(tables, rows->at[r] + k, w);
            if (mode == TDM_WEIGHT_FP8) {
                part[r] = dot_pairs(dot_pairs(part[r], w[0], first), w[1], last);
                continue;
            }
            const float *scale = rows->scales[r] + k / 32;
            const __m512 a = dot_pairs(_mm512_setzero_ps(), w[0], first);
            const __m512 b = dot_pairs(_mm512_setzero_ps(), w[1], last);
            acc[r] = _mm512_fmadd_ps(a, _mm512_set1_ps(scale[0]), acc[r]);
            acc[r] = _mm512_fmadd_ps(b, _mm512_set1_ps(scale[1]), acc[r]);
        }
        for (int i = 0; i < ROWS * COLUMNS; i += 64) {
            _mm_prefetch(ahead + ROWS * k + i, _MM_HINT_T1);
        }
    }
    for (int r = 0; r < ROWS && mode == TDM_WEIGHT_FP8; ++r) {
        acc[r] = _mm512_fmadd_ps(part[r], _mm512_set1_ps(rows->scales[r][group]), acc[r]);
    }
}

TDM_INLINE void lone_token(tdm_weight_mode mode, const tdm_cpu_linear_job *job,
                           const e4m3_rows *rows, int64_t o, int64_t n_rows, int64_t t) {
    const tdm_weight *w = job->weight;
    const uint16_t *x = job->x16->q + t * job->x16->ld;
    const e4m3_tables tables = tables_load();
    const char *ahead = (const char *)rows->at[0] + AHEAD_BYTES + ROWS * w->n_in;
    const int64_t step = mode == TDM_WEIGHT_FP8 ? w->group : w->n_in;
    __m512 acc[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        acc[r] = _mm512_setzero_ps();
    }
    for (int64_t k = 0, group = 0; k < w->n_in; k += step, ++group) {
        rows_step(mode, &tables, rows, x, k, tdm_cpu_min(k + step, w->n_in), group, ahead, acc);
    }
    bf16_finish_rows(job, t, o, n_rows, acc);
}

/* Four BF16 rows from first on, which are rows o and later of n, and n_tokens tokens, a constant at
 * every call, by groups. */
TDM_INLINE void tile(int n_tokens, const tdm_cpu_linear_job *job, const e4m3_rows *rows, int first,
                     int64_t o, int64_t n, int64_t token) {
    const int64_t n_in = job->weight->n_in;
    const int64_t step = job->weight->group;
    const int64_t ld = job->x16->ld;
    const uint16_t *x = job->x16->q + token * ld;
    __m512 acc[TILE_ROWS * TILE_TOKENS];
    for (int i = 0; i < TILE_ROWS * n_tokens; ++i) {
        acc[i] = _mm512_setzero_ps();
    }
    for (int64_t g = 0, group = 0; g < n_in; g += step, ++group) {
        const int64_t end = tdm_cpu_min(g + step, n_in);
        __m512 part[TILE_ROWS * TILE_TOKENS];
        for (int i = 0; i < TILE_ROWS * n_tokens; ++i) {
            part[i] = _mm512_setzero_ps();
        }
        for (int64_t k = g; k < end; k += 32) {
            __m512i w[TILE_ROWS];
            for (int r = 0; r < TILE_ROWS; ++r) {
                w[r] = _mm512_loadu_si512(rows->at[first + r] + 2 * k);
            }
            for (int t = 0; t < n_tokens; ++t) {
                const __m512i v = _mm512_loadu_si512(x + t * ld + k);
                for (int r = 0; r < TILE_ROWS; ++r) {
                    part[t * TILE_ROWS + r] = dot_pairs(part[t * TILE_ROWS + r], w[r], v);
                }
            }
        }
        for (int r = 0; r < TILE_ROWS; ++r) {
            const __m512 scale = _mm512_set1_ps(rows->scales[first + r][group]);
            for (int t = 0; t < n_tokens; ++t) {
                acc[t * TILE_ROWS + r] =
                    _mm512_fmadd_ps(part[t * TILE_ROWS + r], scale, acc[t * TILE_ROWS + r]);
            }
        }
    }
    bf16_finish_tile(job, token, o, n, n_tokens, acc);
}

/* Rows of a panel as BF16 in scratch. */
static void rows_widen(const e4m3_tables *tables, int64_t n_in, e4m3_rows *rows, uint16_t *out) {
    for (int r = 0; r < ROWS; ++r) {
        for (int64_t k = 0; k < n_in; k += COLUMNS) {
            __m512i w[2];
            widen64(tables, rows->at[r] + k, w);
            _mm512_storeu_si512(out + r * n_in + k, w[0]);
            _mm512_storeu_si512(out + r * n_in + k + 32, w[1]);
        }
        rows->at[r] = (const uint8_t *)(out + r * n_in);
    }
}

static void many_tokens(const tdm_cpu_linear_job *job, const e4m3_rows *rows, int64_t o,
                        int64_t n_rows, int64_t tok0, int64_t tok1) {
    for (int first = 0; first < n_rows; first += TILE_ROWS) {
        const int64_t n = tdm_cpu_min(TILE_ROWS, n_rows - first);
        int64_t t = tok0;
        for (; t + TILE_TOKENS <= tok1; t += TILE_TOKENS) {
            tile(TILE_TOKENS, job, rows, first, o + first, n, t);
        }
        for (; t < tok1; ++t) {
            tile(1, job, rows, first, o + first, n, t);
        }
    }
}

/* Rows and scales of the panel from row o on; rows of one fp8 block share theirs, and *known is the
 * block whose scales lie in scratch already. */
static void rows_open(const tdm_weight *w, int64_t o, int64_t n_rows, float *scratch,
                      int64_t *known, e4m3_rows *rows) {
    const int64_t n_scales = (w->n_in + w->group - 1) / w->group;
    const int64_t last = o + n_rows - 1;
    const bool is_shared = w->mode == TDM_WEIGHT_FP8 && o / w->group_rows == last / w->group_rows;
    const bool is_known = is_shared && o / w->group_rows == *known;
    for (int64_t r = 0; r < ROWS; ++r) {
        const int64_t row = tdm_cpu_min(o + r, last);
        float *scales = scratch + (is_shared ? 0 : r * n_scales);
        rows->at[r] = w->data + (size_t)row * w->row_bytes;
        rows->scales[r] = scales;
        if (!is_known && (!is_shared || r == 0)) {
            load_scales(w, row, scales);
        }
    }
    *known = is_shared ? o / w->group_rows : -1;
}

void tdm_avx512_e4m3_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const e4m3_tables tables = tables_load();
    uint16_t *widened = scratch; /* [ROWS, n_in], then the scales */
    float *scales = (float *)(void *)(widened + ROWS * w->n_in);
    int64_t known = -1;
    for (int64_t o = row0; o < row1; o += ROWS) {
        const int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        e4m3_rows rows;
        rows_open(w, o, n_rows, scales, &known, &rows);
        if (tok1 - tok0 > DIRECT_TOKENS) {
            rows_widen(&tables, w->n_in, &rows, widened);
            many_tokens(job, &rows, o, n_rows, tok0, tok1);
            continue;
        }
        for (int64_t t = tok0; t < tok1; ++t) {
            if (w->mode == TDM_WEIGHT_FP8) {
                lone_token(TDM_WEIGHT_FP8, job, &rows, o, n_rows, t);
            } else {
                lone_token(TDM_WEIGHT_MXFP8, job, &rows, o, n_rows, t);
            }
        }
    }
}
