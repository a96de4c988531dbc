/* SPDX-License-Identifier: Apache-2.0
 *
 * BF16 products in the order of AMX's tiles ("two chains"), for tokens that fill no group: of each 32
 * columns the even and the odd ones are a chain of f32 fused multiply-adds from zero, and both are added
 * to the accumulator. Lanes are sixteen weight rows, whose pairs of columns are turned over in
 * registers, so that rows are read where they lie and nothing is packed. Blocks of columns do not wait
 * for each other but for one addition; up to four tokens share what was turned over.
 *
 * Tiles flush what is below f32's normal numbers and so must these sums: they run in a function of
 * their own with the control word changed around it, since compilers know nothing of that word. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"
#include "backend/cpu/avx512/pairs_inl.h"

#define LANES 16
#define TOKENS 4
#define AHEAD_BYTES 4096
/* Flush to zero, denormals are zero. */
#define FLUSHING 0x8040u

typedef struct chain_rows {
    const uint8_t *at[LANES]; /* past the last they repeat it */
    const char *ahead;
} chain_rows;

/* 32 columns from k on, of which mask tells the real ones. n_tokens is a constant at every call; x is
 * [n_tokens, ld] in f32. */
TDM_INLINE void chains_block(int n_tokens, const chain_rows *rows, const float *x, int64_t ld,
                             int64_t k, __mmask32 mask, __m512 *acc) {
    const __m512i upper = _mm512_set1_epi32((int32_t)0xffff0000u);
    __m512i w[LANES];
    __m512 even[TOKENS];
    __m512 odd[TOKENS];
    for (int r = 0; r < LANES; ++r) {
        w[r] = _mm512_maskz_loadu_epi16(mask, rows->at[r] + 2 * k);
    }
    turn16(w);
    for (int t = 0; t < n_tokens; ++t) {
        even[t] = _mm512_setzero_ps();
        odd[t] = _mm512_setzero_ps();
    }
    for (int p = 0; p < LANES; ++p) {
        const __m512 first = _mm512_castsi512_ps(_mm512_slli_epi32(w[p], 16));
        const __m512 second = _mm512_castsi512_ps(_mm512_and_si512(w[p], upper));
        for (int t = 0; t < n_tokens; ++t) {
            const float *pair = x + t * ld + k + 2 * p;
            even[t] = _mm512_fmadd_ps(first, _mm512_set1_ps(pair[0]), even[t]);
            odd[t] = _mm512_fmadd_ps(second, _mm512_set1_ps(pair[1]), odd[t]);
        }
    }
    for (int t = 0; t < n_tokens; ++t) {
        acc[t] = _mm512_add_ps(acc[t], _mm512_add_ps(even[t], odd[t]));
    }
}

TDM_INLINE void chains_tile(int n_tokens, const chain_rows *rows, const float *x, int64_t ld,
                            int64_t n_in, float *sums) {
    __m512 acc[TOKENS];
    int64_t k = 0;
    for (int t = 0; t < n_tokens; ++t) {
        acc[t] = _mm512_setzero_ps();
    }
    for (; k + 32 <= n_in; k += 32) {
        chains_block(n_tokens, rows, x, ld, k, 0xffffffffu, acc);
        for (int r = 0; r < LANES; ++r) {
            _mm_prefetch(rows->ahead + LANES * 2 * k + 64 * r, _MM_HINT_T1);
        }
    }
    if (k < n_in) {
        chains_block(n_tokens, rows, x, ld, k, (__mmask32)((1u << (n_in - k)) - 1u), acc);
    }
    for (int t = 0; t < n_tokens; ++t) {
        _mm512_storeu_ps(sums + t * LANES, acc[t]);
    }
}

/* Called between two changes of the control word. */
static __attribute__((noinline)) void chains_sums(int64_t n_tokens, const chain_rows *rows,
                                                  const float *x, int64_t ld, int64_t n_in,
                                                  float *sums) {
    switch (n_tokens) {
    case 1:
        chains_tile(1, rows, x, ld, n_in, sums);
        break;
    case 2:
        chains_tile(2, rows, x, ld, n_in, sums);
        break;
    case 3:
        chains_tile(3, rows, x, ld, n_in, sums);
        break;
    default:
        chains_tile(TOKENS, rows, x, ld, n_in, sums);
        break;
    }
}

static void chains_store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, int64_t n_rows,
                         const float *sums) {
    float *out = job->out + t * job->ld_out + o;
    for (int64_t r = 0; r < n_rows; ++r) {
        const float product = job->bias == NULL ? sums[r] : sums[r] + job->bias[o + r];
        out[r] = job->is_added ? out[r] + product : product;
    }
}

/* Rounded activations as f32, with the zeros behind them. */
static void widen_row(const uint16_t *x, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i += 16) {
        const __m256i h = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        _mm512_storeu_si512(out + i, _mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
    }
}

void tdm_avx512_two_chains(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    const int64_t ld = (w->n_in + 31) / 32 * 32;
    const unsigned before = _mm_getcsr();
    float *x = scratch; /* [TOKENS, ld] */
    for (int64_t t = tok0; t < tok1; t += TOKENS) {
        const int64_t n_tokens = tdm_cpu_min(TOKENS, tok1 - t);
        for (int64_t i = 0; i < n_tokens; ++i) {
            widen_row(job->x16->q + (t + i) * job->x16->ld, ld, x + i * ld);
        }
        for (int64_t o = row0; o < row1; o += LANES) {
            const int64_t n_rows = tdm_cpu_min(LANES, row1 - o);
            float sums[TOKENS * LANES];
            chain_rows rows;
            for (int64_t r = 0; r < LANES; ++r) {
                rows.at[r] = w->data + (size_t)(o + tdm_cpu_min(r, n_rows - 1)) * w->row_bytes;
            }
            rows.ahead = (const char *)rows.at[0] + AHEAD_BYTES + LANES * 2 * w->n_in;
            _mm_setcsr(before | FLUSHING);
            chains_sums(n_tokens, &rows, x, ld, w->n_in, sums);
            _mm_setcsr(before);
            for (int64_t i = 0; i < n_tokens; ++i) {
                chains_store(job, t + i, o, n_rows, sums + i * LANES);
            }
        }
    }
}

void tdm_avx512_round_bf16_group(const float *x, int64_t ld_x, int64_t n, uint16_t *out) {
    for (int64_t k = 0; k < n; k += 32) {
        const int64_t left = tdm_cpu_min(32, n - k);
        const uint32_t mask = left == 32 ? 0xffffffffu : (1u << left) - 1u;
        __m512i v[TDM_CPU_GROUP_TOKENS];
        for (int64_t t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
            const float *row = x + t * ld_x + k;
            const __m512 low = _mm512_maskz_loadu_ps((__mmask16)mask, row);
            const __m512 high = _mm512_maskz_loadu_ps((__mmask16)(mask >> 16), row + 16);
            v[t] = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        }
        turn16(v);
        for (int p = 0; p < 16; ++p) {
            _mm512_storeu_si512(out + (k / 2 + p) * 2 * TDM_CPU_GROUP_TOKENS, v[p]);
        }
    }
}
