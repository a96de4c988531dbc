/* SPDX-License-Identifier: Apache-2.0
 *
 * BF16 products of dense rows by vdpbf16ps, which does twice the work of an f32 multiply-add on AMD's
 * cores (Intel's do half: kernels.c chooses). Rows are read where they lie.
 *
 * A lone token takes eight rows at a time, a line of each, and asks for the rows behind them, since
 * eight short streams defeat the prefetcher. More tokens take tiles of four rows by six tokens; long
 * rows go by pieces of K_BLOCK columns, so that four rows stay in the first-level cache while the
 * tokens pass, and the accumulators of unfinished tiles wait in scratch. */
#include "backend/cpu/avx512/bf16_inl.h"

#include <string.h>

#define TILE_ROWS 4
#define TILE_TOKENS 6
#define K_BLOCK 1024
/* Tokens whose accumulators wait at once. */
#define WAITING_TOKENS 96

typedef struct bf16_rows {
    const uint8_t *at[ROWS]; /* past the last they repeat it */
    const char *ahead;       /* NULL: asks for nothing */
} bf16_rows;

/* Columns [k0, k1) of n_rows rows and n_tokens tokens into acc[t * n_rows + r]; both counts are
 * constants at every call, and k0 is a multiple of 32. */
TDM_INLINE void tile(int n_rows, int n_tokens, const bf16_rows *rows, int first, const uint16_t *x,
                     int64_t ld, int64_t k0, int64_t k1, __m512 *inout) {
    __m512 acc[TILE_ROWS * TILE_TOKENS];
    int64_t k = k0;
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        acc[i] = inout[i];
    }
    for (; k + 32 <= k1; k += 32) {
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
    if (k < k1) { /* zeros lie behind the last activation */
        const __mmask32 mask = (__mmask32)((1u << (k1 - k)) - 1u);
        for (int t = 0; t < n_tokens; ++t) {
            const __m512i v = _mm512_loadu_si512(x + t * ld + k);
            for (int r = 0; r < n_rows; ++r) {
                const __m512i w = _mm512_maskz_loadu_epi16(mask, rows->at[first + r] + 2 * k);
                acc[t * n_rows + r] = dot_pairs(acc[t * n_rows + r], w, v);
            }
        }
    }
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        inout[i] = acc[i];
    }
}

/* tile by the number of tokens that are left. */
static void tile_any(int64_t n_tokens, const bf16_rows *rows, int first, const uint16_t *x,
                     int64_t ld, int64_t k0, int64_t k1, __m512 *acc) {
    switch (n_tokens) {
    case 1:
        tile(TILE_ROWS, 1, rows, first, x, ld, k0, k1, acc);
        break;
    case 2:
        tile(TILE_ROWS, 2, rows, first, x, ld, k0, k1, acc);
        break;
    case 3:
        tile(TILE_ROWS, 3, rows, first, x, ld, k0, k1, acc);
        break;
    case 4:
        tile(TILE_ROWS, 4, rows, first, x, ld, k0, k1, acc);
        break;
    case 5:
        tile(TILE_ROWS, 5, rows, first, x, ld, k0, k1, acc);
        break;
    default:
        tile(TILE_ROWS, TILE_TOKENS, rows, first, x, ld, k0, k1, acc);
        break;
    }
}

static void store_tile(const tdm_cpu_linear_job *job, int64_t o, int64_t n_rows, int64_t t,
                       int64_t n_tokens, __m512 *acc) {
    if (n_tokens % 2 != 0) { /* eight sums are two tokens */
        for (int r = 0; r < TILE_ROWS; ++r) {
            acc[n_tokens * TILE_ROWS + r] = _mm512_setzero_ps();
        }
    }
    for (int64_t i = 0; i < n_tokens; i += 2) {
        float sums[8];
        fold16x8(acc + i * TILE_ROWS, sums);
        for (int64_t j = 0; j < tdm_cpu_min(2, n_tokens - i); ++j) {
            for (int64_t r = 0; r < n_rows; ++r) {
                bf16_store(job, t + i + j, o + r, sums[j * TILE_ROWS + r]);
            }
        }
    }
}

/* Rows first.. of a panel against tokens [tok0, tok1), at most WAITING_TOKENS. */
static void four_rows(const tdm_cpu_linear_job *job, bf16_rows *rows, int first, int64_t o,
                      int64_t n_rows, int64_t tok0, int64_t tok1, __m512 *waiting) {
    const int64_t n_in = job->weight->n_in;
    const int64_t ld = job->x16->ld;
    memset(waiting, 0, (size_t)(tok1 - tok0 + 1) * TILE_ROWS * sizeof *waiting);
    for (int64_t k0 = 0; k0 < n_in; k0 += K_BLOCK) {
        const int64_t k1 = tdm_cpu_min(n_in, k0 + K_BLOCK);
        for (int64_t t = tok0; t < tok1; t += TILE_TOKENS) {
            const int64_t n_tokens = tdm_cpu_min(TILE_TOKENS, tok1 - t);
            __m512 *acc = waiting + (t - tok0) * TILE_ROWS;
            tile_any(n_tokens, rows, first, job->x16->q + t * ld, ld, k0, k1, acc);
            if (k1 == n_in) {
                store_tile(job, o, n_rows, t, n_tokens, acc);
            }
        }
    }
}

static void lone_token(const tdm_cpu_linear_job *job, bf16_rows *rows, int64_t o, int64_t n_rows,
                       int64_t t) {
    const int64_t n_in = job->weight->n_in;
    __m512 acc[ROWS];
    float sums[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        acc[r] = _mm512_setzero_ps();
    }
    rows->ahead = (const char *)rows->at[0] + AHEAD_BYTES + ROWS * 2 * n_in;
    tile(ROWS, 1, rows, 0, job->x16->q + t * job->x16->ld, job->x16->ld, 0, n_in, acc);
    fold16x8(acc, sums);
    for (int64_t r = 0; r < n_rows; ++r) {
        bf16_store(job, t, o + r, sums[r]);
    }
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
            const int64_t n = tdm_cpu_min(TILE_ROWS, n_rows - half);
            for (int64_t t = tok0; t < tok1; t += WAITING_TOKENS) {
                four_rows(job, &rows, (int)half, o + half, n, t,
                          tdm_cpu_min(tok1, t + WAITING_TOKENS), scratch);
            }
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
