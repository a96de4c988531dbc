/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products of many tokens, shared by AVX2 and AVX-512, which have the same bits: eight lanes an
 * output, lane i sums k = i mod 8 in ascending order, fold8 ends it. Eight rows go by pieces of
 * DENSE_COLUMNS columns: a piece becomes f32 side by side (eight columns of each row, then the next
 * eight), small enough for the first-level cache, and while the tokens pass, the accumulators of
 * unfinished outputs wait in scratch.
 *
 * The includer defines DENSE_TOKENS, DENSE_COLUMNS (TDM_CPU_DENSE_COLUMNS at most) and
 *     dense_tile(n_tokens, piece, x, ld, n, acc): n columns of a piece into acc [n_tokens][ROWS][8]
 * where n_tokens is a constant from 1 to DENSE_TOKENS at every call. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/dense_inl.h"
#include "backend/cpu/avx2/math_inl.h"

/* Columns [k0, k1) of eight rows, zeros behind the last. */
TDM_INLINE void dense_piece(tdm_dtype dtype, const uint8_t *const *w, int64_t k0, int64_t k1,
                            float *out) {
    for (int64_t k = k0; k < k1; k += 8) {
        for (int r = 0; r < TDM_CPU_F32_ROWS; ++r, out += 8) {
            _mm256_storeu_ps(out, k + 8 <= k1 ? weights8(dtype, w[r], k)
                                              : weights_tail(dtype, w[r], k, k1 - k));
        }
    }
}

static void dense_piece_any(tdm_dtype dtype, const uint8_t *const *w, int64_t k0, int64_t k1,
                            float *out) {
    if (dtype == TDM_DTYPE_F16) {
        dense_piece(TDM_DTYPE_F16, w, k0, k1, out);
    } else if (dtype == TDM_DTYPE_BF16) {
        dense_piece(TDM_DTYPE_BF16, w, k0, k1, out);
    } else {
        dense_piece(TDM_DTYPE_F32, w, k0, k1, out);
    }
}

static void dense_tile_any(int64_t n_tokens, const float *piece, const float *x, int64_t ld,
                           int64_t n, float *acc) {
    switch (n_tokens) {
    case 1:
        dense_tile(1, piece, x, ld, n, acc);
        break;
    case 2:
        dense_tile(2, piece, x, ld, n, acc);
        break;
#if DENSE_TOKENS > 3
    case 3:
        dense_tile(3, piece, x, ld, n, acc);
        break;
    case 4:
        dense_tile(4, piece, x, ld, n, acc);
        break;
    case 5:
        dense_tile(5, piece, x, ld, n, acc);
        break;
#endif
    default:
        dense_tile(DENSE_TOKENS, piece, x, ld, n, acc);
        break;
    }
}

/* One token's sums of eight rows. */
static void dense_store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, int64_t n_rows,
                        const float *acc) {
    float sums[TDM_CPU_F32_ROWS];
    __m256 v[TDM_CPU_F32_ROWS];
    for (int r = 0; r < TDM_CPU_F32_ROWS; ++r) {
        v[r] = _mm256_loadu_ps(acc + 8 * r);
    }
    _mm256_storeu_ps(sums, fold8x8(v));
    for (int64_t r = 0; r < n_rows; ++r) {
        float *out = job->out + t * job->ld_out + o + r;
        const float product = job->bias == NULL ? sums[r] : sums[r] + job->bias[o + r];
        *out = job->is_added ? *out + product : product;
    }
}

/* Tokens [tok0, tok1), TDM_CPU_DENSE_TOKENS at most, against eight rows w of dtype (F32, F16 or BF16), of
 * which the first n_rows exist. scratch: tdm_cpu_scratch_bytes's part behind the rows. */
static void dense_tokens(const tdm_cpu_linear_job *job, tdm_dtype dtype, const uint8_t *const *w,
                         int64_t o, int64_t n_rows, int64_t tok0, int64_t tok1, float *scratch) {
    const int64_t n_in = job->weight->n_in;
    const int64_t acc_floats = TDM_CPU_F32_ROWS * 8;
    float *piece = scratch;
    float *waiting = scratch + DENSE_COLUMNS * TDM_CPU_F32_ROWS;
    memset(waiting, 0, (size_t)((tok1 - tok0) * acc_floats) * sizeof *waiting);
    for (int64_t k = 0; k < n_in; k += DENSE_COLUMNS) {
        const int64_t end = tdm_cpu_min(n_in, k + DENSE_COLUMNS);
        dense_piece_any(dtype, w, k, end, piece);
        for (int64_t t = tok0; t < tok1; t += DENSE_TOKENS) {
            const int64_t n_tokens = tdm_cpu_min(DENSE_TOKENS, tok1 - t);
            float *acc = waiting + (t - tok0) * acc_floats;
            dense_tile_any(n_tokens, piece, job->x + t * job->ld_x + k, job->ld_x, end - k, acc);
            for (int64_t i = 0; end == n_in && i < n_tokens; ++i) {
                dense_store(job, t + i, o, n_rows, acc + i * acc_floats);
            }
        }
    }
}
