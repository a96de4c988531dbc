/* SPDX-License-Identifier: Apache-2.0
 *
 * BF16 products of dense rows by vdpbf16ps, which does twice the work of an f32 multiply-add on AMD's
 * cores (Intel's do half: kernels.c chooses). Rows are read where they lie.
 *
 * A lone token takes eight rows at a time, a line of each, and asks for the rows behind them, since
 * eight short streams defeat the prefetcher. More tokens take tiles of four rows by six tokens, over
 * all columns at once: pieces of columns, with accumulators that wait in between, cost more than the
 * second-level cache's reading. */
#include "backend/cpu/avx512/bf16_inl.h"

#define TILE_ROWS 4
#define TILE_TOKENS 6

typedef struct bf16_rows {
    const uint8_t *at[ROWS]; /* past the last they repeat it */
    const char *ahead;       /* NULL: asks for nothing */
} bf16_rows;

/* n_rows rows and n_tokens tokens into acc[t * n_rows + r]; both are constants at every call. */
TDM_INLINE void dots(int n_rows, int n_tokens, const bf16_rows *rows, int first, const uint16_t *x,
                     int64_t ld, int64_t n_in, __m512 *acc) {
    int64_t k = 0;
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        acc[i] = _mm512_setzero_ps();
    }
    for (; k + 32 <= n_in; k += 32) {
        __m512i w[ROWS];
        for (int r = 0; r < n_rows; ++r) {
            w[r] = _mm512_loadu_si512(rows->at[first + r] + 2 * k);
        }
        for (int t = 0; t < n_tokens; ++t) {
            const __m512i v = _mm512_loadu_si512(x + t * ld + k);
            for (int r = 0; r < n_rows; ++r) {
                acc[t * n_rows + r] = dot_pairs(acc[t * n_rows + r], w[r], v);
            }
        }
        if (rows->ahead != NULL) {
            for (int r = 0; r < n_rows; ++r) {
                _mm_prefetch(rows->ahead + n_rows * 2 * k + 64 * r, _MM_HINT_T1);
            }
        }
    }
    if (k < n_in) { /* zeros lie behind the last activation */
        const __mmask32 mask = (__mmask32)((1u << (n_in - k)) - 1u);
        for (int t = 0; t < n_tokens; ++t) {
            const __m512i v = _mm512_loadu_si512(x + t * ld + k);
            for (int r = 0; r < n_rows; ++r) {
                const __m512i w = _mm512_maskz_loadu_epi16(mask, rows->at[first + r] + 2 * k);
                acc[t * n_rows + r] = dot_pairs(acc[t * n_rows + r], w, v);
            }
        }
    }
}

/* Rows from o on, the first-th and later ones of a panel, of which n exist; tokens from t on. */
TDM_INLINE void tile(int n_tokens, const tdm_cpu_linear_job *job, const bf16_rows *rows, int first,
                     int64_t o, int64_t n, int64_t t) {
    const int64_t ld = job->x16->ld;
    __m512 acc[TILE_ROWS * TILE_TOKENS];
    dots(TILE_ROWS, n_tokens, rows, first, job->x16->q + t * ld, ld, job->weight->n_in, acc);
    bf16_finish_tile(job, t, o, n, n_tokens, acc);
}

/* Four rows against tokens [tok0, tok1). */
static void four_rows(const tdm_cpu_linear_job *job, const bf16_rows *rows, int first, int64_t o,
                      int64_t n, int64_t tok0, int64_t tok1) {
    int64_t t = tok0;
    for (; t + TILE_TOKENS <= tok1; t += TILE_TOKENS) {
        tile(TILE_TOKENS, job, rows, first, o, n, t);
    }
    switch (tok1 - t) {
    case 1:
        tile(1, job, rows, first, o, n, t);
        break;
    case 2:
        tile(2, job, rows, first, o, n, t);
        break;
    case 3:
        tile(3, job, rows, first, o, n, t);
        break;
    case 4:
        tile(4, job, rows, first, o, n, t);
        break;
    case 5:
        tile(5, job, rows, first, o, n, t);
        break;
    default:
        break;
    }
}

static void lone_token(const tdm_cpu_linear_job *job, bf16_rows *rows, int64_t o, int64_t n_rows,
                       int64_t t) {
    const int64_t n_in = job->weight->n_in;
    const int64_t ld = job->x16->ld;
    __m512 acc[ROWS];
    rows->ahead = (const char *)rows->at[0] + AHEAD_BYTES + ROWS * 2 * n_in;
    dots(ROWS, 1, rows, 0, job->x16->q + t * ld, ld, n_in, acc);
    bf16_finish_rows(job, t, o, n_rows, acc);
}

void tdm_avx512_linear_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    if (w->mode != TDM_WEIGHT_PLAIN) {
        tdm_avx512_e4m3_bf16(job, row0, row1, tok0, tok1, scratch);
        return;
    }
    for (int64_t o = row0; o < row1; o += ROWS) {
        const int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        bf16_rows rows = {.ahead = NULL};
        for (int64_t r = 0; r < ROWS; ++r) {
            rows.at[r] = w->data + (size_t)(o + tdm_cpu_min(r, n_rows - 1)) * w->row_bytes;
        }
        if (tok1 - tok0 == 1) {
            lone_token(job, &rows, o, n_rows, tok0);
            continue;
        }
        for (int64_t half = 0; half < n_rows; half += TILE_ROWS) {
            four_rows(job, &rows, (int)half, o + half, tdm_cpu_min(TILE_ROWS, n_rows - half), tok0,
                      tok1);
        }
    }
}

bool tdm_avx512_is_bf16(const tdm_weight *w) {
    return (w->mode == TDM_WEIGHT_PLAIN && w->dtype == TDM_DTYPE_BF16) ||
           (w->mode == TDM_WEIGHT_MXFP8 && w->n_in % 64 == 0) ||
           (w->mode == TDM_WEIGHT_FP8 && w->n_in % 64 == 0 && w->group % 64 == 0);
}

void tdm_avx512_round_bf16(const float *x, int64_t n, uint16_t *out, int64_t ld) {
    for (int64_t i = 0; i < ld; i += 16) { /* ld is a multiple of 32 */
        const int64_t left = tdm_cpu_max(0, tdm_cpu_min(16, n - i));
        const __m512 v = _mm512_maskz_loadu_ps((__mmask16)((1u << left) - 1u), x + i);
        _mm256_storeu_si256((__m256i *)(void *)(out + i), (__m256i)_mm512_cvtneps_pbh(v));
    }
}
