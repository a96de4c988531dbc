/* SPDX-License-Identifier: Apache-2.0
 *
 * f32 products. Each output has one accumulator of eight lanes: lane i sums k = i mod 8 in ascending
 * order by fused multiply-adds, and f8_fold ends it. That order is the same in every tile, so it
 * does not matter which tile an output falls into.
 *
 * Dense rows of 32 bits are read where they lie, and of 16 bits too for a few tokens; for many
 * tokens, and for quantized weights, a panel of rows becomes f32 in scratch first. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/form_inl.h"

/* Rows of a panel of ours, and of the tile for two tokens. */
#define ROWS 8
#define PAIR_ROWS 4
/* Up to so many tokens 16-bit rows are widened in every tile instead of once into scratch. */
#define DIRECT_TOKENS 3

/* ---- rows as f32 ---- */

/* Products and the sum rounded one by one, as the formats have it. */
TDM_INLINE void dequant_form(int form, const tdm_weight *w, int64_t o, float *out) {
    const tdm_block_kind kind = form_kind(form);
    for (int64_t b = 0; b < w->n_in / 32; ++b, out += 32) {
        form_block block;
        form_open(form, w, o, b, &block);
        for (int i = 0; i < 4; ++i) {
            const int h = i / 2;
            float d = block.d;
            float m = 0.0f;
            f8 v = f8_from_s8((i & 1) != 0 ? vget_high_s8(block.w[h]) : vget_low_s8(block.w[h]));
            if (form_offset(form) != 0) {
                v = f8_add(v, f8_set((float)form_offset(form)));
            }
            if (kind == TDM_BLOCK_INT || kind == TDM_BLOCK_INT_MIN) {
                d *= (float)block.scale[h];
            }
            v = f8_mul(v, f8_set(d));
            if (kind == TDM_BLOCK_ONE_MIN || kind == TDM_BLOCK_INT_MIN) {
                m = kind == TDM_BLOCK_INT_MIN ? block.m * (float)block.min[h] : block.m;
                v = f8_add(v, f8_set(m));
            }
            f8_store(out + 8 * i, v);
        }
    }
}

typedef void (*dequant_fn)(const tdm_weight *w, int64_t o, float *out);

#define DEQUANT(name)                                                                              \
    static void name##_row(const tdm_weight *w, int64_t o, float *out) {                           \
        if (form_is_any(FORM_##name) || FORM_##name == FORM_M4) { /* which knows its negative 0 */ \
            tdm_weight_row(w, o, out);                                                             \
        } else {                                                                                   \
            dequant_form(FORM_##name, w, o, out);                                                  \
        }                                                                                          \
    }

FORMS(DEQUANT)

#define DEQUANT_ENTRY(name) [FORM_##name] = name##_row,

static const dequant_fn DEQUANTS[FORM_COUNT] = {FORMS(DEQUANT_ENTRY)};

static void dequant_halves(tdm_dtype dtype, const uint8_t *row, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        f8_store(out + i,
                 dtype == TDM_DTYPE_F16 ? f8_load_f16(row + 2 * i) : f8_load_bf16(row + 2 * i));
    }
    for (; i < n; ++i) {
        out[i] = dtype == TDM_DTYPE_F16 ? f16_load(row + 2 * i)
                                        : tdm_bf16_to_f32(tdm_load_u16(row + 2 * i));
    }
}

/* Four E4M3 codes in 32 bits each: their bits in f32's fields are 2^120 too small; NaN is put back. */
TDM_INLINE float32x4_t e4m3_widen4(uint32x4_t codes) {
    uint32x4_t magnitude = vandq_u32(codes, vdupq_n_u32(0x7f));
    uint32x4_t sign = vshlq_n_u32(vbicq_u32(codes, vdupq_n_u32(0x7f)), 24);
    uint32x4_t bits = vorrq_u32(sign, vshlq_n_u32(magnitude, 20));
    float32x4_t value = vmulq_n_f32(vreinterpretq_f32_u32(bits), 0x1p120f);
    uint32x4_t is_nan = vceqq_u32(magnitude, vdupq_n_u32(0x7f));
    return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(value), is_nan));
}

static void dequant_fp8(const tdm_weight *w, int64_t o, float *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    for (int64_t block = 0; block < w->n_in; block += w->group) {
        const int64_t end = tdm_cpu_min(w->n_in, block + w->group);
        const float scale = tdm_weight_fp8_scale(w, o, block);
        int64_t i = block;
        for (; i + 8 <= end; i += 8) {
            uint16x8_t wide = vmovl_u8(vld1_u8(row + i));
            f8 v = {e4m3_widen4(vmovl_u16(vget_low_u16(wide))), e4m3_widen4(vmovl_high_u16(wide))};
            f8_store(out + i, f8_mul(v, f8_set(scale)));
        }
        for (; i < end; ++i) {
            out[i] = tdm_e4m3_to_f32(row[i]) * scale;
        }
    }
}

static void dequant_row(const tdm_weight *w, int64_t o, float *out) {
    const bool is_plain = w->mode == TDM_WEIGHT_PLAIN;
    tdm_block_kind kind = TDM_BLOCK_ONE;
    if (tdm_weight_kind(w, &kind)) {
        DEQUANTS[form_of(w)](w, o, out);
    } else if (w->mode == TDM_WEIGHT_FP8) {
        dequant_fp8(w, o, out);
    } else if (is_plain && (w->dtype == TDM_DTYPE_F16 || w->dtype == TDM_DTYPE_BF16)) {
        dequant_halves(w->dtype, w->data + (size_t)o * w->row_bytes, w->n_in, out);
    } else {
        tdm_weight_row(w, o, out);
    }
}

/* ---- products ---- */

/* Eight weights of a dense row. dtype is a constant at every call. */
TDM_INLINE f8 weights8(tdm_dtype dtype, const uint8_t *row, int64_t k) {
    if (dtype == TDM_DTYPE_F32) {
        return f8_load((const float *)(const void *)(row + 4 * k));
    }
    return dtype == TDM_DTYPE_F16 ? f8_load_f16(row + 2 * k) : f8_load_bf16(row + 2 * k);
}

/* The last n < 8 of them, zeros behind. */
TDM_INLINE f8 weights_tail(tdm_dtype dtype, const uint8_t *row, int64_t k, int64_t n) {
    uint8_t some[32] = {0};
    int64_t bytes = dtype == TDM_DTYPE_F32 ? 4 : 2;
    memcpy(some, row + bytes * k, (size_t)(bytes * n));
    return weights8(dtype, some, 0);
}

/* sums[r * n_tokens + t] for n_rows rows and n_tokens tokens, both constants at every call. */
TDM_INLINE void tile(tdm_dtype dtype, int n_rows, int n_tokens, const uint8_t *const *w,
                     const float *x, int64_t ld_x, int64_t n_in, float *sums) {
    f8 acc[ROWS];
    int64_t k = 0;
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        acc[i] = f8_set(0.0f);
    }
    for (; k + 8 <= n_in; k += 8) {
        f8 v[2];
        for (int t = 0; t < n_tokens; ++t) {
            v[t] = f8_load(x + t * ld_x + k);
        }
        for (int r = 0; r < n_rows; ++r) {
            const f8 weights = weights8(dtype, w[r], k);
            for (int t = 0; t < n_tokens; ++t) {
                acc[r * n_tokens + t] = f8_fma(weights, v[t], acc[r * n_tokens + t]);
            }
        }
    }
    for (int t = 0; t < n_tokens && k < n_in; ++t) {
        const f8 v = f8_load_some(x + t * ld_x + k, n_in - k);
        for (int r = 0; r < n_rows; ++r) {
            acc[r * n_tokens + t] =
                f8_fma(weights_tail(dtype, w[r], k, n_in - k), v, acc[r * n_tokens + t]);
        }
    }
    for (int i = 0; i < n_rows * n_tokens; ++i) {
        sums[i] = f8_fold(acc[i]);
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
TDM_INLINE void panel(tdm_dtype dtype, const tdm_cpu_linear_job *job, const uint8_t *const *w,
                      int64_t row0, int64_t n_rows, int64_t tok0, int64_t tok1) {
    int64_t n_in = job->weight->n_in;
    float sums[ROWS];
    int64_t t = tok0;
    for (; t + 2 <= tok1; t += 2) {
        for (int64_t part = 0; part < n_rows; part += PAIR_ROWS) {
            tile(dtype, PAIR_ROWS, 2, w + part, job->x + t * job->ld_x, job->ld_x, n_in, sums);
            for (int64_t i = 0; i < 2 * PAIR_ROWS && part + i / 2 < n_rows; ++i) {
                store(job, t + i % 2, row0 + part + i / 2, sums[i]);
            }
        }
    }
    if (t < tok1) {
        tile(dtype, ROWS, 1, w, job->x + t * job->ld_x, job->ld_x, n_in, sums);
        for (int64_t r = 0; r < n_rows; ++r) {
            store(job, t, row0 + r, sums[r]);
        }
    }
}

static void panel_f32(const tdm_cpu_linear_job *job, const uint8_t *const *w, int64_t row0,
                      int64_t n_rows, int64_t tok0, int64_t tok1) {
    panel(TDM_DTYPE_F32, job, w, row0, n_rows, tok0, tok1);
}

static void panel_f16(const tdm_cpu_linear_job *job, const uint8_t *const *w, int64_t row0,
                      int64_t n_rows, int64_t tok0, int64_t tok1) {
    panel(TDM_DTYPE_F16, job, w, row0, n_rows, tok0, tok1);
}

static void panel_bf16(const tdm_cpu_linear_job *job, const uint8_t *const *w, int64_t row0,
                       int64_t n_rows, int64_t tok0, int64_t tok1) {
    panel(TDM_DTYPE_BF16, job, w, row0, n_rows, tok0, tok1);
}

void tdm_neon_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1, void *scratch) {
    const tdm_weight *weight = job->weight;
    /* U32: several tensors, no dense rows. */
    tdm_dtype dtype = weight->mode == TDM_WEIGHT_PLAIN ? weight->dtype : TDM_DTYPE_U32;
    float *rows = scratch; /* [ROWS, n_in] */
    bool is_half = dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16;
    bool is_direct = dtype == TDM_DTYPE_F32 || (is_half && tok1 - tok0 <= DIRECT_TOKENS);
    for (int64_t o = row0; o < row1; o += ROWS) {
        const uint8_t *w[ROWS];
        int64_t n_rows = tdm_cpu_min(ROWS, row1 - o);
        for (int64_t r = 0; r < n_rows; ++r) {
            w[r] = weight->data + (size_t)(o + r) * weight->row_bytes;
            if (!is_direct) {
                dequant_row(weight, o + r, rows + r * weight->n_in);
                w[r] = (const uint8_t *)(rows + r * weight->n_in);
            }
        }
        for (int64_t r = n_rows; r < ROWS; ++r) {
            w[r] = w[n_rows - 1];
        }
        if (!is_direct || dtype == TDM_DTYPE_F32) {
            panel_f32(job, w, o, n_rows, tok0, tok1);
        } else if (dtype == TDM_DTYPE_F16) {
            panel_f16(job, w, o, n_rows, tok0, tok1);
        } else {
            panel_bf16(job, w, o, n_rows, tok0, tok1);
        }
    }
}
