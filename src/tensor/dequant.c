/* SPDX-License-Identifier: Apache-2.0
 *
 * One plain decoder a type. Owns the values, not speed: vector kernels have decoders of their own
 * and are compared with these. Products and sums are rounded one by one, in the order that the
 * formats' reference has, which -ffp-contract=off keeps. */
#include "tensor/dequant.h"

#include "base/status.h"
#include "tensor/block.h"
#include "tensor/half.h"

static void dequant_f32(const uint8_t *data, int64_t n, float *out) {
    memcpy(out, data, (size_t)n * sizeof *out);
}

static void dequant_f16(const uint8_t *data, int64_t n, float *out) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = tdm_f16_to_f32(tdm_load_u16(data + 2 * i));
    }
}

static void dequant_bf16(const uint8_t *data, int64_t n, float *out) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = tdm_bf16_to_f32(tdm_load_u16(data + 2 * i));
    }
}

static void dequant_q4_0(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        const uint8_t *p = data + 18 * b;
        float d = tdm_f16_to_f32(tdm_load_u16(p));
        for (int j = 0; j < 16; ++j) {
            out[32 * b + j] = d * (float)((p[2 + j] & 15) - 8);
            out[32 * b + 16 + j] = d * (float)((p[2 + j] >> 4) - 8);
        }
    }
}

static void dequant_q4_1(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        const uint8_t *p = data + 20 * b;
        float d = tdm_f16_to_f32(tdm_load_u16(p));
        float m = tdm_f16_to_f32(tdm_load_u16(p + 2));
        for (int j = 0; j < 16; ++j) {
            out[32 * b + j] = d * (float)(p[4 + j] & 15) + m;
            out[32 * b + 16 + j] = d * (float)(p[4 + j] >> 4) + m;
        }
    }
}

static void dequant_q5_0(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        const uint8_t *p = data + 22 * b;
        float d = tdm_f16_to_f32(tdm_load_u16(p));
        uint32_t high = tdm_load_u32(p + 2);
        for (int j = 0; j < 16; ++j) {
            int lo = (p[6 + j] & 15) | (int)(((high >> j) & 1u) << 4);
            int hi = (p[6 + j] >> 4) | (int)(((high >> (j + 16)) & 1u) << 4);
            out[32 * b + j] = d * (float)(lo - 16);
            out[32 * b + 16 + j] = d * (float)(hi - 16);
        }
    }
}

static void dequant_q5_1(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        const uint8_t *p = data + 24 * b;
        float d = tdm_f16_to_f32(tdm_load_u16(p));
        float m = tdm_f16_to_f32(tdm_load_u16(p + 2));
        uint32_t high = tdm_load_u32(p + 4);
        for (int j = 0; j < 16; ++j) {
            int lo = (p[8 + j] & 15) | (int)(((high >> j) & 1u) << 4);
            int hi = (p[8 + j] >> 4) | (int)(((high >> (j + 16)) & 1u) << 4);
            out[32 * b + j] = d * (float)lo + m;
            out[32 * b + 16 + j] = d * (float)hi + m;
        }
    }
}

static void dequant_q8_0(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 32; ++b) {
        const uint8_t *p = data + 34 * b;
        float d = tdm_f16_to_f32(tdm_load_u16(p));
        for (int j = 0; j < 32; ++j) {
            out[32 * b + j] = d * (float)(int8_t)p[2 + j];
        }
    }
}

/* Q4_K and Q5_K share everything but the fifth bits: qh is NULL for Q4_K. */
static void dequant_k45(const uint8_t *p, const uint8_t *qh, const uint8_t *qs, float *out) {
    float d = tdm_f16_to_f32(tdm_load_u16(p));
    float dmin = tdm_f16_to_f32(tdm_load_u16(p + 2));
    for (int j = 0; j < 8; ++j) {
        uint8_t scale = 0;
        uint8_t min = 0;
        tdm_k4_scale_min(p + 4, j, &scale, &min);
        float ds = d * (float)scale;
        float dm = dmin * (float)min;
        for (int l = 0; l < 32; ++l) {
            int q = (qs[32 * (j / 2) + l] >> (4 * (j & 1))) & 15;
            if (qh != NULL) {
                q |= ((qh[l] >> j) & 1) << 4;
            }
            out[32 * j + l] = ds * (float)q - dm;
        }
    }
}

static void dequant_q4_k(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 256; ++b) {
        const uint8_t *p = data + 144 * b;
        dequant_k45(p, NULL, p + 16, out + 256 * b);
    }
}

static void dequant_q5_k(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 256; ++b) {
        const uint8_t *p = data + 176 * b;
        dequant_k45(p, p + 16, p + 48, out + 256 * b);
    }
}

static void dequant_q6_k(const uint8_t *data, int64_t n, float *out) {
    for (int64_t b = 0; b < n / 256; ++b) {
        const uint8_t *ql = data + 210 * b;
        const uint8_t *qh = ql + 128;
        const uint8_t *scales = ql + 192;
        float d = tdm_f16_to_f32(tdm_load_u16(ql + 208));
        for (int i = 0; i < 256; ++i) {
            int half = i / 128;
            int quarter = (i / 32) & 3;
            int l = i & 31;
            int lo = (ql[64 * half + 32 * (quarter & 1) + l] >> (4 * (quarter / 2))) & 15;
            int hi = (qh[32 * half + l] >> (2 * quarter)) & 3;
            float ds = d * (float)(int8_t)scales[i / 16];
            out[256 * b + i] = ds * (float)((lo | (hi << 4)) - 32);
        }
    }
}

typedef void (*dequant_fn)(const uint8_t *data, int64_t n, float *out);

static const dequant_fn DEQUANTS[TDM_DTYPE_COUNT] = {
    [TDM_DTYPE_F32] = dequant_f32,   [TDM_DTYPE_F16] = dequant_f16,
    [TDM_DTYPE_BF16] = dequant_bf16, [TDM_DTYPE_Q4_0] = dequant_q4_0,
    [TDM_DTYPE_Q4_1] = dequant_q4_1, [TDM_DTYPE_Q5_0] = dequant_q5_0,
    [TDM_DTYPE_Q5_1] = dequant_q5_1, [TDM_DTYPE_Q8_0] = dequant_q8_0,
    [TDM_DTYPE_Q4_K] = dequant_q4_k, [TDM_DTYPE_Q5_K] = dequant_q5_k,
    [TDM_DTYPE_Q6_K] = dequant_q6_k,
};

bool tdm_dequant_can(tdm_dtype dtype) {
    tdm_block_kind kind = TDM_BLOCK_ONE;
    return (uint32_t)dtype < (uint32_t)TDM_DTYPE_COUNT &&
           (DEQUANTS[dtype] != NULL || tdm_block32_kind(dtype, &kind));
}

/* The types without a loop of their own above: through integers and scales. */
static void dequant_blocks(tdm_dtype dtype, const uint8_t *data, int64_t n, float *out) {
    tdm_block_kind kind = TDM_BLOCK_ONE;
    (void)tdm_block32_kind(dtype, &kind);
    for (int64_t b = 0; b < n / 32; ++b) {
        tdm_block32 block;
        tdm_block32_decode(dtype, data, b, &block);
        tdm_block32_values(kind, &block, out + 32 * b);
    }
}

void tdm_dequant_row(tdm_dtype dtype, const uint8_t *data, int64_t n, float *out) {
    TDM_CHECK(tdm_dequant_can(dtype));
    TDM_DCHECK(n >= 0 && n % (int64_t)TDM_DTYPES[dtype].block_weights == 0);
    if (DEQUANTS[dtype] != NULL) {
        DEQUANTS[dtype](data, n, out);
    } else {
        dequant_blocks(dtype, data, n, out);
    }
}
