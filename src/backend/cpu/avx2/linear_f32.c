/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products. Weights of a panel of rows become f32 in scratch (F32 rows are read where they
 * lie), then tiles of rows times tokens run over k. Each output has one accumulator of eight lanes:
 * lane i sums k = i mod 8 in ascending order by fused multiply-adds, and fold8 ends it. That order
 * is the same in every tile, so it does not matter which tile an output falls into. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/block_inl.h"
#include "backend/cpu/avx2/math_inl.h"

#define ROWS TDM_CPU_PANEL_ROWS

TDM_INLINE void dequant_blocks(tdm_dtype dtype, const uint8_t *row, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        __m256i w = block_ints(dtype, row, b);
        w = _mm256_sub_epi8(w, _mm256_set1_epi8((char)block_zero(dtype)));
        float d = block_scale(dtype, row, b);
        __m256 m = _mm256_setzero_ps();
        if (block_has_min(dtype)) {
            m = _mm256_set1_ps(block_min(dtype, row, b));
        }
        for (int i = 0; i < 4; ++i) {
            __m128i half = i < 2 ? _mm256_castsi256_si128(w) : _mm256_extracti128_si256(w, 1);
            __m128i eight = (i & 1) != 0 ? _mm_srli_si128(half, 8) : half;
            __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight));
            float scale = dtype == TDM_DTYPE_Q6_K ? d * (float)block_half_scale(row, b, i / 2) : d;
            v = _mm256_mul_ps(v, _mm256_set1_ps(scale));
            if (block_has_min(dtype)) { /* two roundings, as the format has it */
                v = _mm256_add_ps(v, m);
            }
            _mm256_storeu_ps(out + 32 * b + 8 * i, v);
        }
    }
}

static void dequant_halves(const uint8_t *row, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * i));
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(h));
    }
    for (; i < n; ++i) {
        out[i] = f16_load(row + 2 * i);
    }
}

static void dequant_brain_halves(const uint8_t *row, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        __m128i h = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * i));
        __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16);
        _mm256_storeu_ps(out + i, _mm256_castsi256_ps(wide));
    }
    for (; i < n; ++i) {
        out[i] = tdm_bf16_to_f32(tdm_load_u16(row + 2 * i));
    }
}

static void dequant_row(tdm_dtype dtype, const uint8_t *row, int64_t n, float *out) {
    switch ((int)dtype) {
    case TDM_DTYPE_F32:
        memcpy(out, row, (size_t)n * sizeof *out);
        break;
    case TDM_DTYPE_F16:
        dequant_halves(row, n, out);
        break;
    case TDM_DTYPE_BF16:
        dequant_brain_halves(row, n, out);
        break;
    case TDM_DTYPE_Q4_0:
        dequant_blocks(TDM_DTYPE_Q4_0, row, n, out);
        break;
    case TDM_DTYPE_Q4_1:
        dequant_blocks(TDM_DTYPE_Q4_1, row, n, out);
        break;
    case TDM_DTYPE_Q5_0:
        dequant_blocks(TDM_DTYPE_Q5_0, row, n, out);
        break;
    case TDM_DTYPE_Q5_1:
        dequant_blocks(TDM_DTYPE_Q5_1, row, n, out);
        break;
    case TDM_DTYPE_Q8_0:
        dequant_blocks(TDM_DTYPE_Q8_0, row, n, out);
        break;
    case TDM_DTYPE_Q4_K:
        dequant_blocks(TDM_DTYPE_Q4_K, row, n, out);
        break;
    case TDM_DTYPE_Q5_K:
        dequant_blocks(TDM_DTYPE_Q5_K, row, n, out);
        break;
    default:
        dequant_blocks(TDM_DTYPE_Q6_K, row, n, out);
        break;
    }
}

/* sums[r * n_tokens + t] for n_rows rows and n_tokens tokens, both constants at every call. */
TDM_INLINE void tile(int n_rows, int n_tokens, const float *const *w, const float *x, int64_t ld_x,
                     int64_t k, float *sums) {
    __m256 acc[ROWS];
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        acc[i] = _mm256_setzero_ps();
    }
    int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
        for (int t = 0; t < n_tokens; ++t) {
            __m256 v = _mm256_loadu_ps(x + t * ld_x + i);
            for (int r = 0; r < n_rows; ++r) {
                acc[r * n_tokens + t] =
                    _mm256_fmadd_ps(_mm256_loadu_ps(w[r] + i), v, acc[r * n_tokens + t]);
            }
        }
    }
    if (i < k) {
        __m256i mask = lanes_below(k - i);
        for (int t = 0; t < n_tokens; ++t) {
            __m256 v = _mm256_maskload_ps(x + t * ld_x + i, mask);
            for (int r = 0; r < n_rows; ++r) {
                acc[r * n_tokens + t] =
                    _mm256_fmadd_ps(_mm256_maskload_ps(w[r] + i, mask), v, acc[r * n_tokens + t]);
            }
        }
    }
    for (int j = 0; j < n_rows * n_tokens; ++j) {
        sums[j] = fold8(acc[j]);
    }
}

static void tile_8x1(const float *const *w, const float *x, int64_t ld_x, int64_t k, float *sums) {
    tile(8, 1, w, x, ld_x, k, sums);
}

static void tile_4x2(const float *const *w, const float *x, int64_t ld_x, int64_t k, float *sums) {
    tile(4, 2, w, x, ld_x, k, sums);
}

static void store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, float product) {
    float *out = job->out + t * job->ld_out + o;
    if (job->bias != NULL) {
        product += job->bias[o];
    }
    *out = job->is_added ? *out + product : product;
}

/* Tokens [tok0, tok1) against n_rows valid rows from row0; w has ROWS readable rows. */
static void panel(const tdm_cpu_linear_job *job, const float *const *w, int64_t row0,
                  int64_t n_rows, int64_t tok0, int64_t tok1) {
    int64_t k = job->weight->n_in;
    float sums[ROWS];
    int64_t t = tok0;
    for (; t + 2 <= tok1; t += 2) {
        for (int64_t half = 0; half < n_rows; half += 4) {
            tile_4x2(w + half, job->x + t * job->ld_x, job->ld_x, k, sums);
            for (int64_t i = 0; i < 8 && half + i / 2 < n_rows; ++i) {
                store(job, t + i % 2, row0 + half + i / 2, sums[i]);
            }
        }
    }
    if (t < tok1) {
        tile_8x1(w, job->x + t * job->ld_x, job->ld_x, k, sums);
        for (int64_t r = 0; r < n_rows; ++r) {
            store(job, t, row0 + r, sums[r]);
        }
    }
}

void tdm_avx2_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1, void *scratch) {
    const tdm_weight *weight = job->weight;
    int64_t ld = (weight->n_in + 7) / 8 * 8;
    float *rows = scratch; /* [ROWS, ld] */
    const bool is_direct = weight->dtype == TDM_DTYPE_F32 && ((uintptr_t)weight->data & 3) == 0;
    for (int64_t o = row0; o < row1; o += ROWS) {
        const float *w[ROWS];
        int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        for (int64_t r = 0; r < ROWS; ++r) {
            int64_t row = o + tdm_cpu_min(r, n_rows - 1);
            const uint8_t *data = weight->data + (size_t)row * weight->row_bytes;
            if (is_direct) {
                w[r] = (const float *)(const void *)data;
            } else if (r < n_rows) {
                dequant_row(weight->dtype, data, weight->n_in, rows + r * ld);
                w[r] = rows + r * ld;
            } else {
                w[r] = w[n_rows - 1];
            }
        }
        panel(job, w, o, n_rows, tok0, tok1);
    }
}
