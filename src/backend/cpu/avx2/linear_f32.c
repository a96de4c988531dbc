/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products of AVX2. Each output has one accumulator of eight lanes: lane i sums k = i mod 8 in
 * ascending order by fused multiply-adds, and fold8 ends it. That order is the same in every tile,
 * so it does not matter which tile an output falls into.
 *
 * One token: dense rows are read where they lie, eight at a time, and memory decides. Eight short
 * streams defeat the hardware's prefetching, so a lone token asks for the panel behind it line after
 * line: rows of 576 went from 16 to 26 GB/s (F32) and from 11 to 28 (BF16) where a read-only sweep
 * gives 24; asking row by row, or into the first-level cache, gained nothing. A line in two loads
 * instead of four gave F16 6 to 20 % more. Many tokens: pieces of a panel become f32 (dense_tmpl.h).
 * Quantized weights: a panel of rows becomes f32 in scratch first. E4M3 codes are as dense rows to a
 * lone token: they are widened on their way into the products. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/block_inl.h"
#include "backend/cpu/avx2/dense_inl.h"
#include "backend/cpu/avx2/math_inl.h"

#define ROWS TDM_CPU_F32_ROWS
/* Up to so many tokens 16-bit rows are widened in every tile instead of once into a piece. */
#define DIRECT_TOKENS 3

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

/* Eight E4M3 codes: their bits in f32's fields are 2^120 too small; NaN is put back. */
TDM_INLINE __m256 e4m3_widen8(const uint8_t *p) {
    __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
    __m256i magnitude = _mm256_and_si256(v, _mm256_set1_epi32(0x7f));
    __m256i sign = _mm256_slli_epi32(_mm256_andnot_si256(_mm256_set1_epi32(0x7f), v), 24);
    __m256i bits = _mm256_or_si256(sign, _mm256_slli_epi32(magnitude, 20));
    __m256i is_nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f));
    __m256 value = _mm256_mul_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p120f));
    return _mm256_or_ps(value, _mm256_castsi256_ps(is_nan));
}

/* 32 E4M3 codes times scale, factor being 2^8 * scale: their fields, moved, are f16's, 2^8 too small;
 * exact but for the rounding of the product. NaN codes become numbers: the caller looks for them. */
TDM_INLINE void e4m3_widen32(__m256i codes, __m256 factor, __m256 out[4]) {
    const __m256i zero = _mm256_setzero_si256();
    const __m256i fields =
        _mm256_set1_epi16((short)0xbf80); /* the sign, and below a gap the rest */
    __m256i even = _mm256_srai_epi16(_mm256_unpacklo_epi8(zero, codes), 1);
    __m256i odd = _mm256_srai_epi16(_mm256_unpackhi_epi8(zero, codes), 1);
    even = _mm256_and_si256(even, fields);
    odd = _mm256_and_si256(odd, fields);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(even));
    out[1] = _mm256_cvtph_ps(_mm256_castsi256_si128(odd));
    out[2] = _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1));
    out[3] = _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1));
    for (int i = 0; i < 4; ++i) {
        out[i] = _mm256_mul_ps(out[i], factor);
    }
}

/* Whether codes of these magnitudes (the largest of some, byte by byte) hold a NaN's. */
TDM_INLINE bool e4m3_has_nan(__m256i largest) {
    __m256i is_nan = _mm256_cmpeq_epi8(largest, _mm256_set1_epi8(0x7f));
    return _mm256_movemask_epi8(is_nan) != 0;
}

TDM_INLINE __m256i e4m3_magnitude(__m256i codes) {
    return _mm256_and_si256(codes, _mm256_set1_epi8(0x7f));
}

/* Whether a lone token can take the rows as they lie. */
static bool is_e4m3(const tdm_weight *w) {
    return (w->mode == TDM_WEIGHT_MXFP8 || w->mode == TDM_WEIGHT_FP8) && w->group % 32 == 0 &&
           w->n_in % 32 == 0;
}

/* 2^8 times it must be a number, and a power of two that its exponent's field can hold. */
TDM_INLINE bool is_plain_e8m0(uint8_t scale) {
    return scale >= 1 && scale <= 240;
}

TDM_INLINE bool is_plain_scale(float scale) {
    return scale < 0x1p100f && scale > -0x1p100f;
}

static void dequant_e4m3(const tdm_weight *w, int64_t o, float *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    for (int64_t k = 0; k < w->n_in; k += 32) {
        __m256i codes = load256(row + k);
        float scale =
            w->mode == TDM_WEIGHT_FP8
                ? tdm_weight_fp8_scale(w, o, k)
                : tdm_e8m0_to_f32(w->scales[(size_t)o * w->scales_row_bytes + (size_t)(k / 32)]);
        __m256 v[4];
        e4m3_widen32(codes, _mm256_set1_ps(scale * 256.0f), v);
        for (int i = 0; i < 4; ++i) {
            _mm256_storeu_ps(out + k + 8 * i, v[i]);
        }
        if (e4m3_has_nan(e4m3_magnitude(codes)) || !is_plain_scale(scale)) {
            for (int64_t i = k; i < k + 32; ++i) {
                out[i] = tdm_e4m3_to_f32(row[i]) * scale;
            }
        }
    }
}

static void dequant_fp8(const tdm_weight *w, int64_t o, float *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    for (int64_t block = 0; block < w->n_in; block += w->group) {
        int64_t end = tdm_cpu_min(w->n_in, block + w->group);
        float scale = tdm_weight_fp8_scale(w, o, block);
        int64_t i = block;
        for (; i + 8 <= end; i += 8) {
            _mm256_storeu_ps(out + i, _mm256_mul_ps(e4m3_widen8(row + i), _mm256_set1_ps(scale)));
        }
        for (; i < end; ++i) {
            out[i] = tdm_e4m3_to_f32(row[i]) * scale;
        }
    }
}

static void dequant_row(const tdm_weight *w, int64_t o, float *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    int64_t n = w->n_in;
    if (is_e4m3(w)) {
        dequant_e4m3(w, o, out);
        return;
    }
    if (w->mode == TDM_WEIGHT_FP8) {
        dequant_fp8(w, o, out);
        return;
    }
    switch (w->mode == TDM_WEIGHT_PLAIN ? (int)w->dtype : TDM_DTYPE_COUNT) {
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
    case TDM_DTYPE_Q6_K:
        dequant_blocks(TDM_DTYPE_Q6_K, row, n, out);
        break;
    default: /* the others by their plain decoders */
        tdm_weight_row(w, o, out);
        break;
    }
}

/* ---- many tokens ---- */

#define DENSE_TOKENS 3
#define DENSE_COLUMNS 512 /* 1024: 7 % slower */
#define HALF_ROWS (ROWS / 2)

TDM_INLINE void dense_step(int n_tokens, const float *piece, const __m256 *x, __m256 *acc) {
    for (int r = 0; r < HALF_ROWS; ++r) {
        const __m256 w = _mm256_loadu_ps(piece + 8 * r);
        for (int t = 0; t < n_tokens; ++t) {
            acc[t * HALF_ROWS + r] = _mm256_fmadd_ps(w, x[t], acc[t * HALF_ROWS + r]);
        }
    }
}

/* Four rows of a piece, beginning at its first or its fifth. */
TDM_INLINE void dense_half(int n_tokens, const float *piece, const float *x, int64_t ld, int64_t n,
                           float *inout) {
    __m256 acc[HALF_ROWS * DENSE_TOKENS];
    __m256 v[DENSE_TOKENS];
    int64_t k = 0;
    for (int t = 0; t < n_tokens; ++t) {
        for (int r = 0; r < HALF_ROWS; ++r) {
            acc[t * HALF_ROWS + r] = _mm256_loadu_ps(inout + (t * ROWS + r) * 8);
        }
    }
    for (; k + 8 <= n; k += 8) {
        for (int t = 0; t < n_tokens; ++t) {
            v[t] = _mm256_loadu_ps(x + t * ld + k);
        }
        dense_step(n_tokens, piece + ROWS * k, v, acc);
    }
    if (k < n) {
        for (int t = 0; t < n_tokens; ++t) {
            v[t] = _mm256_maskload_ps(x + t * ld + k, lanes_below(n - k));
        }
        dense_step(n_tokens, piece + ROWS * k, v, acc);
    }
    for (int t = 0; t < n_tokens; ++t) {
        for (int r = 0; r < HALF_ROWS; ++r) {
            _mm256_storeu_ps(inout + (t * ROWS + r) * 8, acc[t * HALF_ROWS + r]);
        }
    }
}

TDM_INLINE void dense_tile(int n_tokens, const float *piece, const float *x, int64_t ld, int64_t n,
                           float *acc) {
    dense_half(n_tokens, piece, x, ld, n, acc);
    dense_half(n_tokens, piece + HALF_ROWS * 8, x, ld, n, acc + HALF_ROWS * 8);
}

#include "backend/cpu/avx2/dense_tmpl.h"

/* ---- few tokens ---- */

/* 16 columns of a row of F16 by one load. */
TDM_INLINE __m256 lone_halves(const uint8_t *row, const float *x, __m256 acc) {
    const __m256i h = load256(row);
    acc = _mm256_fmadd_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(h)), _mm256_loadu_ps(x), acc);
    return _mm256_fmadd_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1)), _mm256_loadu_ps(x + 8),
                           acc);
}

/* A line of a row: 16 columns, or 32 of halves. BF16 is widened on its way from memory, which costs
 * a third fewer instructions than halves of a load do and is as fast. */
TDM_INLINE __m256 lone_line(tdm_dtype dtype, const uint8_t *row, const float *x, __m256 acc) {
    if (dtype == TDM_DTYPE_F16) {
        acc = lone_halves(row, x, acc);
        return lone_halves(row + 32, x + 16, acc);
    }
    for (int i = 0; i < (dtype == TDM_DTYPE_F32 ? 16 : 32); i += 8) {
        acc = _mm256_fmadd_ps(weights8(dtype, row, i), _mm256_loadu_ps(x + i), acc);
    }
    return acc;
}

/* A lone token: eight rows, a line of each at a time. */
TDM_INLINE void lone_rows(tdm_dtype dtype, const uint8_t *const *w, const float *x, int64_t n_in,
                          float *sums) {
    const int64_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    const int64_t line = 64 / bytes;
    const char *ahead = (const char *)w[0] + DENSE_AHEAD_BYTES + ROWS * bytes * n_in;
    __m256 acc[ROWS];
    int64_t k = 0;
    for (int r = 0; r < ROWS; ++r) {
        acc[r] = _mm256_setzero_ps();
    }
    for (; k + line <= n_in; k += line) {
        for (int r = 0; r < ROWS; ++r) {
            acc[r] = lone_line(dtype, w[r] + bytes * k, x + k, acc[r]);
            _mm_prefetch(ahead + ROWS * bytes * k + 64 * r, _MM_HINT_T1);
        }
    }
    lone_end(dtype, w, x, k, n_in, acc, sums);
}

static void lone_token(tdm_dtype dtype, const uint8_t *const *w, const float *x, int64_t n_in,
                       float *sums) {
    if (dtype == TDM_DTYPE_F32) {
        lone_rows(TDM_DTYPE_F32, w, x, n_in, sums);
    } else if (dtype == TDM_DTYPE_F16) {
        lone_rows(TDM_DTYPE_F16, w, x, n_in, sums);
    } else {
        lone_rows(TDM_DTYPE_BF16, w, x, n_in, sums);
    }
}

/* sums[r * n_tokens + t] for n_rows rows and n_tokens tokens, both constants at every call. */
TDM_INLINE void tile(tdm_dtype dtype, int n_rows, int n_tokens, const uint8_t *const *w,
                     const float *x, int64_t ld_x, int64_t n_in, float *sums) {
    __m256 acc[ROWS];
    int64_t k = 0;
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        acc[i] = _mm256_setzero_ps();
    }
    for (; k + 8 <= n_in; k += 8) {
        for (int t = 0; t < n_tokens; ++t) {
            __m256 v = _mm256_loadu_ps(x + t * ld_x + k);
            for (int r = 0; r < n_rows; ++r) {
                acc[r * n_tokens + t] =
                    _mm256_fmadd_ps(weights8(dtype, w[r], k), v, acc[r * n_tokens + t]);
            }
        }
    }
    if (k < n_in) {
        for (int t = 0; t < n_tokens; ++t) {
            __m256 v = _mm256_maskload_ps(x + t * ld_x + k, lanes_below(n_in - k));
            for (int r = 0; r < n_rows; ++r) {
                acc[r * n_tokens + t] = _mm256_fmadd_ps(weights_tail(dtype, w[r], k, n_in - k), v,
                                                        acc[r * n_tokens + t]);
            }
        }
    }
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        sums[i] = fold8(acc[i]);
    }
}

static void store(const tdm_cpu_linear_job *job, int64_t t, int64_t o, float product) {
    float *out = job->out + t * job->ld_out + o;
    if (job->bias != NULL) {
        product += job->bias[o];
    }
    *out = job->is_added ? *out + product : product;
}

/* Tokens [tok0, tok1) against the rows from row0; w points at ROWS rows, of which the first n_rows
 * exist and the others repeat the last. */
TDM_INLINE void panel(tdm_dtype dtype, tdm_avx2_lone_fn lone, const tdm_cpu_linear_job *job,
                      const uint8_t *const *w, int64_t row0, int64_t n_rows, int64_t tok0,
                      int64_t tok1) {
    int64_t n_in = job->weight->n_in;
    float sums[ROWS];
    int64_t t = tok0;
    for (; t + 2 <= tok1; t += 2) {
        for (int64_t half = 0; half < n_rows; half += 4) {
            tile(dtype, 4, 2, w + half, job->x + t * job->ld_x, job->ld_x, n_in, sums);
            for (int64_t i = 0; i < 8 && half + i / 2 < n_rows; ++i) {
                store(job, t + i % 2, row0 + half + i / 2, sums[i]);
            }
        }
    }
    if (t < tok1) {
        lone(dtype, w, job->x + t * job->ld_x, n_in, sums);
        for (int64_t r = 0; r < n_rows; ++r) {
            store(job, t, row0 + r, sums[r]);
        }
    }
}

static void panel_f32(tdm_avx2_lone_fn lone, const tdm_cpu_linear_job *job, const uint8_t *const *w,
                      int64_t row0, int64_t n_rows, int64_t tok0, int64_t tok1) {
    panel(TDM_DTYPE_F32, lone, job, w, row0, n_rows, tok0, tok1);
}

static void panel_f16(tdm_avx2_lone_fn lone, const tdm_cpu_linear_job *job, const uint8_t *const *w,
                      int64_t row0, int64_t n_rows, int64_t tok0, int64_t tok1) {
    panel(TDM_DTYPE_F16, lone, job, w, row0, n_rows, tok0, tok1);
}

static void panel_bf16(tdm_avx2_lone_fn lone, const tdm_cpu_linear_job *job,
                       const uint8_t *const *w, int64_t row0, int64_t n_rows, int64_t tok0,
                       int64_t tok1) {
    panel(TDM_DTYPE_BF16, lone, job, w, row0, n_rows, tok0, tok1);
}

/* A panel of E4M3 rows on its way. */
typedef struct e4m3_panel {
    const uint8_t *rows[ROWS];
    const uint8_t *scales[ROWS]; /* mxfp8 */
    float factors[ROWS];         /* fp8: of the group, times 2^8 */
    const float *x;
} e4m3_panel;

/* 32 columns from k on of row r; mode and r are constants at every call, so that acc is a register. */
TDM_INLINE void e4m3_step(tdm_weight_mode mode, const e4m3_panel *p, int r, int64_t k, __m256 *acc,
                          __m256i *largest) {
    __m256i codes = load256(p->rows[r] + k);
    __m256 factor = _mm256_set1_ps(p->factors[r]);
    __m256 v[4];
    if (mode == TDM_WEIGHT_MXFP8) { /* the byte into the exponent's field, and 2^8 on it */
        __m256i byte = _mm256_set1_epi8((char)p->scales[r][k / 32]);
        byte = _mm256_and_si256(_mm256_slli_epi32(byte, 23), _mm256_set1_epi32(0x7f800000));
        factor = _mm256_castsi256_ps(_mm256_add_epi32(byte, _mm256_set1_epi32(8 << 23)));
    }
    e4m3_widen32(codes, factor, v);
    *largest = _mm256_max_epu8(*largest, e4m3_magnitude(codes));
    for (int i = 0; i < 4; ++i) {
        acc[r] = _mm256_fmadd_ps(v[i], _mm256_loadu_ps(p->x + k + 8 * i), acc[r]);
    }
}

/* The panel's sums, each in tile's order. False: there is a NaN's code, and nothing is right. */
TDM_INLINE bool e4m3_columns(tdm_weight_mode mode, const tdm_weight *w, int64_t o, int64_t n_rows,
                             e4m3_panel *p, float *sums) {
    __m256 acc[ROWS];
    __m256i largest = _mm256_setzero_si256();
    int64_t group_in = 0;
    for (int r = 0; r < ROWS; ++r) {
        acc[r] = _mm256_setzero_ps();
    }
    const char *ahead = (const char *)p->rows[0] + DENSE_AHEAD_BYTES + ROWS * w->n_in;
    for (int64_t k = 0; k < w->n_in; k += 32, group_in -= 32) {
        if (mode == TDM_WEIGHT_FP8 && group_in == 0) {
            group_in = w->group;
            for (int64_t r = 0; r < ROWS; ++r) {
                float scale = tdm_weight_fp8_scale(w, o + tdm_cpu_min(r, n_rows - 1), k);
                p->factors[r] = scale * 256.0f;
                if (!is_plain_scale(scale)) {
                    return false;
                }
            }
        }
        e4m3_step(mode, p, 0, k, acc, &largest);
        e4m3_step(mode, p, 1, k, acc, &largest);
        e4m3_step(mode, p, 2, k, acc, &largest);
        e4m3_step(mode, p, 3, k, acc, &largest);
        e4m3_step(mode, p, 4, k, acc, &largest);
        e4m3_step(mode, p, 5, k, acc, &largest);
        e4m3_step(mode, p, 6, k, acc, &largest);
        e4m3_step(mode, p, 7, k, acc, &largest);
        for (int i = 0; i < ROWS * 32; i += 64) {
            _mm_prefetch(ahead + ROWS * k + i, _MM_HINT_T1);
        }
    }
    for (int r = 0; r < ROWS; ++r) {
        sums[r] = fold8(acc[r]);
    }
    return !e4m3_has_nan(largest);
}

static bool has_plain_scales(const e4m3_panel *p, int64_t n) {
    bool is_plain = true;
    for (int r = 0; r < ROWS; ++r) {
        for (int64_t g = 0; g < n; ++g) {
            is_plain = is_plain & is_plain_e8m0(p->scales[r][g]);
        }
    }
    return is_plain;
}

static bool e4m3_sums(const tdm_weight *w, int64_t o, int64_t n_rows, const float *x, float *sums) {
    e4m3_panel p = {.x = x};
    for (int64_t r = 0; r < ROWS; ++r) {
        size_t row = (size_t)(o + tdm_cpu_min(r, n_rows - 1));
        p.rows[r] = w->data + row * w->row_bytes;
        p.scales[r] = w->scales + row * w->scales_row_bytes;
    }
    if (w->mode == TDM_WEIGHT_FP8) {
        return e4m3_columns(TDM_WEIGHT_FP8, w, o, n_rows, &p, sums);
    }
    return has_plain_scales(&p, w->n_in / 32) &&
           e4m3_columns(TDM_WEIGHT_MXFP8, w, o, n_rows, &p, sums);
}

static void few_e4m3(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                     int64_t tok1, float *scratch) {
    const tdm_weight *w = job->weight;
    for (int64_t o = row0; o < row1; o += ROWS) {
        int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        for (int64_t t = tok0; t < tok1; ++t) {
            const float *x = job->x + t * job->ld_x;
            float sums[ROWS];
            bool is_right = e4m3_sums(w, o, n_rows, x, sums);
            for (int64_t r = 0; r < n_rows; ++r) {
                if (!is_right) { /* as many tokens would have it */
                    const uint8_t *row = (const uint8_t *)scratch;
                    const uint8_t *const same[ROWS] = {row, row, row, row, row, row, row, row};
                    float again[ROWS];
                    dequant_e4m3(w, o + r, scratch);
                    lone_token(TDM_DTYPE_F32, same, x, w->n_in, again);
                    sums[r] = again[0];
                }
                store(job, t, o + r, sums[r]);
            }
        }
    }
}

/* Tokens of a panel at once, in calls as large as scratch allows. */
static void many_tokens(tdm_avx2_dense_fn dense, const tdm_cpu_linear_job *job, tdm_dtype dtype,
                        const uint8_t *const *w, int64_t o, int64_t n_rows, int64_t tok0,
                        int64_t tok1, float *rows) {
    float *behind = rows + ROWS * job->weight->n_in;
    for (int64_t t = tok0; t < tok1; t += TDM_CPU_DENSE_TOKENS) {
        dense(job, dtype, w, o, n_rows, t, tdm_cpu_min(tok1, t + TDM_CPU_DENSE_TOKENS), behind);
    }
}

void tdm_avx2_linear_f32_by(const tdm_avx2_dense *by, const tdm_cpu_linear_job *job, int64_t row0,
                            int64_t row1, int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *weight = job->weight;
    /* U32: several tensors, no dense rows. */
    tdm_dtype dtype = weight->mode == TDM_WEIGHT_PLAIN ? weight->dtype : TDM_DTYPE_U32;
    float *rows = scratch; /* [ROWS, n_in] */
    bool is_half = dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16;
    bool is_dense = dtype == TDM_DTYPE_F32 || is_half;
    bool is_few = tok1 - tok0 <= DIRECT_TOKENS;
    if (is_e4m3(weight) && is_few) {
        few_e4m3(job, row0, row1, tok0, tok1, scratch);
        return;
    }
    for (int64_t o = row0; o < row1; o += ROWS) {
        const uint8_t *w[ROWS];
        int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        for (int64_t r = 0; r < n_rows; ++r) {
            w[r] = weight->data + (size_t)(o + r) * weight->row_bytes;
            if (!is_dense) {
                dequant_row(weight, o + r, rows + r * weight->n_in);
                w[r] = (const uint8_t *)(rows + r * weight->n_in);
            }
        }
        for (int64_t r = n_rows; r < ROWS; ++r) {
            w[r] = w[n_rows - 1];
        }
        if (!is_few) {
            many_tokens(by->many, job, dtype, w, o, n_rows, tok0, tok1, rows);
        } else if (!is_half) {
            panel_f32(by->lone, job, w, o, n_rows, tok0, tok1);
        } else if (dtype == TDM_DTYPE_F16) {
            panel_f16(by->lone, job, w, o, n_rows, tok0, tok1);
        } else {
            panel_bf16(by->lone, job, w, o, n_rows, tok0, tok1);
        }
    }
}

void tdm_avx2_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1, void *scratch) {
    static const tdm_avx2_dense BY = {dense_tokens, lone_token};
    tdm_avx2_linear_f32_by(&BY, job, row0, row1, tok0, tok1, scratch);
}
