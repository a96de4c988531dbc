/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products on panels. Nibbles stay unsigned and activations signed; products of a block are
 * added up in 16 bits as far as they fit, widened once, corrected for the zero point by the block's
 * sum, and then follow the f32 law of cpu_priv.h. Every output has its own accumulator, so a tile's
 * width changes nothing.
 *
 * How many vectors fit 16 bits: |sum| <= 2 * vectors * largest * 127 <= 32767 gives 8 for 4 bits,
 * 4 for 5 bits, 2 for 6 bits; 8-bit weights are multiplied as |w| * (x with w's sign), 1 vector. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/panel_inl.h"

#define TILE_MAX 4

/* Keeps the compiler from reordering 16-bit sums, which makes it spill every product (gcc 12). */
#define PIN(v) __asm__("" : "+x"(v))

TDM_INLINE int sum_depth(tdm_dtype dtype) {
    switch ((int)dtype) {
    case TDM_DTYPE_Q8_0:
        return 1;
    case TDM_DTYPE_Q6_K:
        return 2;
    case TDM_DTYPE_Q5_0:
    case TDM_DTYPE_Q5_1:
    case TDM_DTYPE_Q5_K:
        return 4;
    default:
        return 8;
    }
}

typedef struct block_scales {
    __m256 d;
    __m256 m;
    __m256i pairs; /* Q6_K: 16-bit scales of both halves, by row */
} block_scales;

/* head: d and dmin of the eight blocks that a packed K block belongs to. */
TDM_INLINE block_scales scales_packed(tdm_dtype dtype, const uint8_t *p, __m256 head_d,
                                      __m256 head_m) {
    block_scales s = {head_d, head_m, _mm256_setzero_si256()};
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    if (dtype == TDM_DTYPE_Q6_K) {
        s.pairs = _mm256_cvtepi8_epi16(v);
    } else if (dtype_is_k(dtype)) {
        s.d = _mm256_mul_ps(head_d, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)));
        __m256i min = _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8));
        s.m = _mm256_xor_ps(_mm256_mul_ps(head_m, _mm256_cvtepi32_ps(min)), _mm256_set1_ps(-0.0f));
    } else {
        s.d = _mm256_cvtph_ps(v);
        if (block_has_min(dtype)) {
            s.m = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)));
        }
    }
    return s;
}

TDM_INLINE block_scales scales_open(tdm_dtype dtype, const open_block *p) {
    block_scales s = {_mm256_load_ps(p->d), _mm256_setzero_ps(), _mm256_setzero_si256()};
    if (dtype == TDM_DTYPE_Q6_K) {
        s.pairs = load256(p->u.half_scales);
    } else if (block_has_min(dtype)) {
        s.m = _mm256_load_ps(p->u.m);
    }
    return s;
}

TDM_INLINE __m256i broadcast4(const int8_t *q) {
    int32_t four = 0;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* Products of one vector of weights and four activations, in 16 bits. */
TDM_INLINE __m256i products(tdm_dtype dtype, __m256i w, __m256i magnitude, __m256i x) {
    if (dtype == TDM_DTYPE_Q8_0) {
        return _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
    }
    return _mm256_maddubs_epi16(w, x);
}

/* The integer sums of a block: 8 rows by n tokens. q[t] points at the block's 32 activations. */
TDM_INLINE void block_sums(tdm_dtype dtype, int is_packed, int n, const uint8_t *p,
                           const block_scales *scales, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, __m256i *sums) {
    const int depth = sum_depth(dtype);
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i part[TILE_MAX];
    for (int g = 0; g < 8 / depth; ++g) {
        __m256i factor = ones;
        if (dtype == TDM_DTYPE_Q6_K) { /* both 16-bit lanes of a row hold its half's scale */
            factor =
                g < 2 ? _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(scales->pairs, 0xa0), 0xa0)
                      : _mm256_shufflehi_epi16(_mm256_shufflelo_epi16(scales->pairs, 0xf5), 0xf5);
        }
        for (int i = 0; i < depth; ++i) {
            int j = depth == 8 ? (i >> 1) + 4 * (i & 1) : g * depth + i;
            __m256i w = panel_vector(dtype, is_packed, p, j);
            __m256i magnitude = dtype == TDM_DTYPE_Q8_0 ? _mm256_abs_epi8(w) : w;
            for (int t = 0; t < n; ++t) {
                __m256i v = products(dtype, w, magnitude, broadcast4(q[t] + 4 * j));
                if (i == 0) {
                    part[t] = v;
                } else {
                    part[t] = _mm256_add_epi16(part[t], v);
                    PIN(part[t]);
                }
            }
        }
        for (int t = 0; t < n; ++t) {
            __m256i wide = _mm256_madd_epi16(part[t], factor);
            sums[t] = g == 0 ? wide : _mm256_add_epi32(sums[t], wide);
        }
    }
    for (int t = 0; t < n; ++t) {
        if (dtype == TDM_DTYPE_Q6_K) {
            int32_t halves = 0;
            memcpy(&halves, xb[t]->half_sums, sizeof halves);
            __m256i zero = _mm256_madd_epi16(scales->pairs, _mm256_set1_epi32(halves));
            sums[t] = _mm256_sub_epi32(sums[t], _mm256_slli_epi32(zero, 5));
        } else if (block_zero(dtype) != 0) {
            int shift = block_zero(dtype) == 8 ? 3 : 4;
            __m256i zero = _mm256_slli_epi32(_mm256_set1_epi32(xb[t]->sum), shift);
            sums[t] = _mm256_sub_epi32(sums[t], zero);
        }
    }
}

/* One panel against n tokens (a constant): acc[t] lane r is row r's product. */
TDM_INLINE void panel_tile(tdm_dtype dtype, int is_packed, int n, const uint8_t *p,
                           const tdm_cpu_x8 *x8, int64_t tok0, int64_t n_blocks, __m256 *acc) {
    __m256 head_d = _mm256_setzero_ps();
    __m256 head_m = _mm256_setzero_ps();
    const int8_t *q[TILE_MAX];
    const tdm_cpu_x8_block *xb[TILE_MAX];
    for (int t = 0; t < n; ++t) {
        acc[t] = _mm256_setzero_ps();
        q[t] = x8->q + (tok0 + t) * x8->ld_q;
        xb[t] = x8->blocks + (tok0 + t) * x8->ld_blocks;
    }
    for (int64_t b = 0; b < n_blocks; ++b) {
        block_scales scales;
        __m256i sums[TILE_MAX];
        if (is_packed && packed_head(dtype) > 0 && b % 8 == 0) {
            head_d = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
            if (packed_head(dtype) == 32) {
                head_m = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 16)));
            }
            p += packed_head(dtype);
        }
        scales = is_packed ? scales_packed(dtype, p + packed_ints(dtype), head_d, head_m)
                           : scales_open(dtype, (const open_block *)(const void *)p);
        block_sums(dtype, is_packed, n, p, &scales, q, xb, sums);
        for (int t = 0; t < n; ++t) {
            __m256 d = _mm256_mul_ps(scales.d, _mm256_set1_ps(xb[t]->d));
            acc[t] = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(sums[t]), acc[t]);
            if (block_has_min(dtype)) {
                acc[t] = _mm256_fmadd_ps(scales.m, _mm256_set1_ps(xb[t]->s), acc[t]);
            }
            q[t] += 32;
            xb[t] += 1;
        }
        p += is_packed ? (size_t)packed_block(dtype) : sizeof(open_block);
    }
}

TDM_INLINE void open_panel(tdm_dtype dtype, const tdm_weight *w, int64_t row0, open_block *out) {
    const uint8_t *rows[8];
    for (int r = 0; r < 8; ++r) {
        rows[r] = w->data + (size_t)tdm_cpu_min(row0 + r, w->n_out - 1) * w->row_bytes;
    }
    for (int64_t b = 0; b < w->n_in / 32; ++b, ++out) {
        __m256i v[8];
        for (int r = 0; r < 8; ++r) {
            v[r] = block_ints(dtype, rows[r], b);
            out->d[r] = block_scale(dtype, rows[r], b);
            if (dtype == TDM_DTYPE_Q6_K) {
                out->u.half_scales[2 * r] = (int16_t)block_half_scale(rows[r], b, 0);
                out->u.half_scales[2 * r + 1] = (int16_t)block_half_scale(rows[r], b, 1);
            } else if (block_has_min(dtype)) {
                out->u.m[r] = block_min(dtype, rows[r], b);
            }
        }
        transpose8(v);
        for (int j = 0; j < 8; ++j) {
            _mm256_store_si256((__m256i *)(void *)out->w[j], v[j]);
        }
    }
}

/* Bias, residual, and the rows that exist. */
static void store_tile(const tdm_cpu_linear_job *job, int64_t row0, int64_t tok0, int n,
                       const __m256 *acc) {
    int64_t n_rows = job->weight->n_out - row0;
    __m256i mask = lanes_below(tdm_cpu_min(8, n_rows));
    for (int t = 0; t < n; ++t) {
        float *out = job->out + (tok0 + t) * job->ld_out + row0;
        __m256 v = acc[t];
        if (job->bias != NULL) {
            v = _mm256_add_ps(v, _mm256_maskload_ps(job->bias + row0, mask));
        }
        if (job->is_added) {
            v = _mm256_add_ps(_mm256_maskload_ps(out, mask), v);
        }
        _mm256_maskstore_ps(out, mask, v);
    }
}

TDM_INLINE void panels(tdm_dtype dtype, int is_packed, const tdm_cpu_linear_job *job, int64_t row0,
                       int64_t row1, int64_t tok0, int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    int64_t n_blocks = w->n_in / 32;
    size_t panel_bytes = packed_panel(dtype, w->n_in);
    for (int64_t o = row0; o < row1; o += TDM_CPU_PANEL_ROWS) {
        const uint8_t *p = scratch;
        __m256 acc[TILE_MAX];
        int64_t t = tok0;
        if (is_packed) {
            p = (const uint8_t *)w->packed + (size_t)(o / TDM_CPU_PANEL_ROWS) * panel_bytes;
        } else {
            open_panel(dtype, w, o, scratch);
        }
        for (; t + TILE_MAX <= tok1; t += TILE_MAX) {
            panel_tile(dtype, is_packed, TILE_MAX, p, job->x8, t, n_blocks, acc);
            store_tile(job, o, t, TILE_MAX, acc);
        }
        if (t + 2 <= tok1) {
            panel_tile(dtype, is_packed, 2, p, job->x8, t, n_blocks, acc);
            store_tile(job, o, t, 2, acc);
            t += 2;
        }
        if (t < tok1) {
            panel_tile(dtype, is_packed, 1, p, job->x8, t, n_blocks, acc);
            store_tile(job, o, t, 1, acc);
        }
    }
}

typedef void (*panels_fn)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);

#define PANELS(name)                                                                               \
    static void name##_open(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,             \
                            int64_t tok0, int64_t tok1, void *scratch) {                           \
        panels(TDM_DTYPE_##name, 0, job, row0, row1, tok0, tok1, scratch);                         \
    }                                                                                              \
    static void name##_packed(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,           \
                              int64_t tok0, int64_t tok1, void *scratch) {                         \
        panels(TDM_DTYPE_##name, 1, job, row0, row1, tok0, tok1, scratch);                         \
    }

PANELS(Q4_0)
PANELS(Q4_1)
PANELS(Q5_0)
PANELS(Q5_1)
PANELS(Q8_0)
PANELS(Q4_K)
PANELS(Q5_K)
PANELS(Q6_K)

static const panels_fn KERNELS[TDM_DTYPE_COUNT][2] = {
    [TDM_DTYPE_Q4_0] = {Q4_0_open, Q4_0_packed}, [TDM_DTYPE_Q4_1] = {Q4_1_open, Q4_1_packed},
    [TDM_DTYPE_Q5_0] = {Q5_0_open, Q5_0_packed}, [TDM_DTYPE_Q5_1] = {Q5_1_open, Q5_1_packed},
    [TDM_DTYPE_Q8_0] = {Q8_0_open, Q8_0_packed}, [TDM_DTYPE_Q4_K] = {Q4_K_open, Q4_K_packed},
    [TDM_DTYPE_Q5_K] = {Q5_K_open, Q5_K_packed}, [TDM_DTYPE_Q6_K] = {Q6_K_open, Q6_K_packed},
};

void tdm_avx2_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    KERNELS[w->dtype][w->packed != NULL ? 1 : 0](job, row0, row1, tok0, tok1, scratch);
}

/* As the scalar twin, to the bit. */
void tdm_avx2_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    for (int64_t b = 0; b < n / 32; ++b, x += 32, q += 32) {
        __m256 v[4];
        __m256i bits = _mm256_setzero_si256();
        for (int i = 0; i < 4; ++i) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            bits = _mm256_max_epi32(bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
        }
        /* Magnitudes order as integers; an infinity or NaN is above every number. */
        __m128i m = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
        uint32_t largest = (uint32_t)_mm_cvtsi128_si32(m);
        tdm_cpu_x8_block block = {0};
        __m256i packed = _mm256_setzero_si256();
        if (largest >= 0x7f800000u) {
            block.d = tdm_f32_from_bits(0x7fc00000u);
        } else if (largest >= 0x0d800000u) {
            __m256 inverse = _mm256_set1_ps(127.0f / tdm_f32_from_bits(largest));
            __m256i r[4];
            block.d = tdm_f32_from_bits(largest) / 127.0f;
            for (int i = 0; i < 4; ++i) {
                r[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
            }
            packed =
                _mm256_packs_epi16(_mm256_packs_epi32(r[0], r[1]), _mm256_packs_epi32(r[2], r[3]));
            packed = _mm256_permutevar8x32_epi32(packed, order);
            __m256i halves = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), packed),
                                               _mm256_set1_epi16(1));
            __m256i pair = _mm256_add_epi32(halves, _mm256_shuffle_epi32(halves, 0x4e));
            pair = _mm256_add_epi32(pair, _mm256_shuffle_epi32(pair, 0xb1));
            block.half_sums[0] = (int16_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(pair));
            block.half_sums[1] = (int16_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(pair, 1));
        }
        _mm256_storeu_si256((__m256i *)(void *)q, packed);
        block.sum = (int32_t)block.half_sums[0] + (int32_t)block.half_sums[1];
        block.s = block.d * (float)block.sum;
        blocks[b] = block;
    }
}
