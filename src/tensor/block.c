/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of GGUF blocks to integers and scales. Source: shared/spec/gguf.md section 5 and
 * quantized-formats.md section 5. */
#include "tensor/block.h"

#include "base/status.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/iq_priv.h"
#include "tensor/levels.h"

static float f16_at(const uint8_t *p) {
    return tdm_f16_to_f32(tdm_load_u16(p));
}

static void set_d(tdm_block32 *out, float d) {
    out->d[0] = d;
    out->d[1] = d;
}

/* Low nibbles, then high ones; high: 32 fifth bits or NULL. */
static void nibbles(const uint8_t *qs, const uint8_t *high, int zero, tdm_block32 *out) {
    uint32_t bits = high != NULL ? tdm_load_u32(high) : 0u;
    for (int j = 0; j < 16; ++j) {
        int lo = (qs[j] & 15) | (int)(((bits >> j) & 1u) << 4);
        int hi = (qs[j] >> 4) | (int)(((bits >> (j + 16)) & 1u) << 4);
        out->w[j] = (int8_t)(lo - zero);
        out->w[j + 16] = (int8_t)(hi - zero);
    }
}

static void nibble_levels(const uint8_t *qs, const int8_t levels[16], tdm_block32 *out) {
    for (int j = 0; j < 16; ++j) {
        out->w[j] = levels[qs[j] & 15];
        out->w[j + 16] = levels[qs[j] >> 4];
    }
}

/* Run j of 32 two-bit numbers: four runs share 32 bytes. */
static void crumbs(const uint8_t *qs, int j, int zero, tdm_block32 *out) {
    for (int l = 0; l < 32; ++l) {
        out->w[l] = (int8_t)(((qs[32 * (j / 4) + l] >> (2 * (j & 3))) & 3) - zero);
    }
}

static void decode_k45(const uint8_t *p, const uint8_t *qh, const uint8_t *qs, int j,
                       tdm_block32 *out) {
    uint8_t scale = 0;
    uint8_t min = 0;
    tdm_k4_scale_min(p + 4, j, &scale, &min);
    set_d(out, f16_at(p) * (float)scale);
    out->m = -(f16_at(p + 2) * (float)min);
    for (int l = 0; l < 32; ++l) {
        int q = (qs[32 * (j / 2) + l] >> (4 * (j & 1))) & 15;
        if (qh != NULL) {
            q |= ((qh[l] >> j) & 1) << 4;
        }
        out->w[l] = (int8_t)q;
    }
}

static void decode_q6_k(const uint8_t *p, int j, tdm_block32 *out) {
    const uint8_t *ql = p + 64 * (j / 4) + 32 * (j & 1);
    const uint8_t *qh = p + 128 + 32 * (j / 4);
    int shift_lo = 4 * ((j & 3) / 2);
    int shift_hi = 2 * (j & 3);
    for (int l = 0; l < 32; ++l) {
        int q = ((ql[l] >> shift_lo) & 15) | (((qh[l] >> shift_hi) & 3) << 4);
        out->w[l] = (int8_t)(q - 32);
    }
    out->scale[0] = (int8_t)p[192 + 2 * j];
    out->scale[1] = (int8_t)p[192 + 2 * j + 1];
    set_d(out, f16_at(p + 208));
}

static void decode_q2_k(const uint8_t *p, int j, tdm_block32 *out) {
    crumbs(p + 16, j, 0, out);
    for (int h = 0; h < 2; ++h) {
        out->scale[h] = p[2 * j + h] & 15;
        out->min[h] = p[2 * j + h] >> 4;
    }
    set_d(out, f16_at(p + 80));
    out->m = -f16_at(p + 82);
}

static void decode_q3_k(const uint8_t *p, int j, tdm_block32 *out) {
    const uint8_t *s = p + 96;
    crumbs(p + 32, j, 0, out);
    for (int l = 0; l < 32; ++l) {
        out->w[l] = (int8_t)(out->w[l] - (((p[l] >> j) & 1) != 0 ? 0 : 4));
    }
    for (int h = 0; h < 2; ++h) {
        int k = 2 * j + h;
        int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
        out->scale[h] = (low | (((s[8 + (k & 3)] >> (2 * (k / 4))) & 3) << 4)) - 32;
    }
    set_d(out, f16_at(p + 108));
}

static void decode_iq4_xs(const uint8_t *p, int j, tdm_block32 *out) {
    int low = (p[4 + j / 2] >> (4 * (j & 1))) & 15;
    int scale = low | (((tdm_load_u16(p + 2) >> (2 * j)) & 3) << 4);
    nibble_levels(p + 8 + 16 * j, TDM_LEVELS_IQ4, out);
    set_d(out, f16_at(p) * (float)(scale - 32));
}

/* Five trits a byte: 32 bytes give runs 0-4, 16 bytes runs 5 and 6 and half of 7 ... counted in
 * weights: 160, then 80, then 4 bytes of four trits for the last 16. */
static void decode_tq1_0(const uint8_t *p, int j, tdm_block32 *out) {
    static const uint8_t POW3[5] = {1, 3, 9, 27, 81};
    for (int l = 0; l < 32; ++l) {
        int i = 32 * j + l;
        uint8_t byte = 0;
        int k = 0;
        if (i < 160) {
            byte = p[i % 32];
            k = i / 32;
        } else if (i < 240) {
            byte = p[32 + (i - 160) % 16];
            k = (i - 160) / 16;
        } else {
            byte = p[48 + (i - 240) % 4];
            k = (i - 240) / 4;
        }
        out->w[l] = (int8_t)((((unsigned)(uint8_t)(byte * POW3[k]) * 3u) >> 8) - 1u);
    }
    set_d(out, f16_at(p + 52));
}

static void decode_nvfp4(const uint8_t *p, int j, tdm_block32 *out) {
    for (int h = 0; h < 2; ++h) { /* each group of 16: low nibbles of 8 bytes, then high */
        int group = 2 * j + h;
        const uint8_t *qs = p + 4 + 8 * group;
        for (int l = 0; l < 8; ++l) {
            out->w[16 * h + l] = TDM_LEVELS_E2M1[qs[l] & 15];
            out->w[16 * h + 8 + l] = TDM_LEVELS_E2M1[qs[l] >> 4];
        }
        float scale = p[group] == 0x7f ? 0.0f : tdm_f32_from_bits((p[group] & 0x7fu) << 20);
        out->d[h] = scale * 0x1p119f; /* half of 2^120: levels are doubled */
    }
}

/* 2^(e - 128), subnormal for e below 2. */
static float e8m0_half(uint8_t e) {
    return tdm_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

static void decode_bits(const uint8_t *p, int bits, int j, tdm_block32 *out) {
    for (int l = 0; l < 32; ++l) {
        int at = bits * (32 * j + l);
        int code = (p[2 + at / 8] >> (at % 8)) & ((1 << bits) - 1);
        out->w[l] = (int8_t)(bits == 1 ? 2 * code - 1 : code - 1);
    }
    set_d(out, f16_at(p));
}

/* Types of 32 weights a block. */
static void decode_small(tdm_dtype dtype, const uint8_t *p, tdm_block32 *out) {
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_0:
        nibbles(p + 2, NULL, 8, out);
        break;
    case TDM_DTYPE_Q4_1:
        nibbles(p + 4, NULL, 0, out);
        out->m = f16_at(p + 2);
        break;
    case TDM_DTYPE_Q5_0:
        nibbles(p + 6, p + 2, 16, out);
        break;
    case TDM_DTYPE_Q5_1:
        nibbles(p + 8, p + 4, 0, out);
        out->m = f16_at(p + 2);
        break;
    case TDM_DTYPE_Q8_0:
        memcpy(out->w, p + 2, 32);
        break;
    case TDM_DTYPE_MXFP4:
        nibble_levels(p + 1, TDM_LEVELS_E2M1, out);
        set_d(out, e8m0_half(p[0]));
        return;
    default: /* IQ4_NL */
        nibble_levels(p + 2, TDM_LEVELS_IQ4, out);
        break;
    }
    set_d(out, f16_at(p));
}

void tdm_block32_decode(tdm_dtype dtype, const uint8_t *row, int64_t b, tdm_block32 *out) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    int64_t per_block = (int64_t)info->block_weights / 32;
    const uint8_t *p = row + (int64_t)info->block_bytes * (b / per_block);
    int j = (int)(b % per_block);
    *out = (tdm_block32){.scale = {1, 1}, .min = {1, 1}};
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_K:
        decode_k45(p, NULL, p + 16, j, out);
        break;
    case TDM_DTYPE_Q5_K:
        decode_k45(p, p + 16, p + 48, j, out);
        break;
    case TDM_DTYPE_Q6_K:
        decode_q6_k(p, j, out);
        break;
    case TDM_DTYPE_Q2_K:
        decode_q2_k(p, j, out);
        break;
    case TDM_DTYPE_Q3_K:
        decode_q3_k(p, j, out);
        break;
    case TDM_DTYPE_IQ4_XS:
        decode_iq4_xs(p, j, out);
        break;
    case TDM_DTYPE_TQ1_0:
        decode_tq1_0(p, j, out);
        break;
    case TDM_DTYPE_TQ2_0:
        crumbs(p, j, 1, out);
        set_d(out, f16_at(p + 64));
        break;
    case TDM_DTYPE_NVFP4:
        decode_nvfp4(p, j, out);
        break;
    case TDM_DTYPE_Q1_0:
        decode_bits(p, 1, j, out);
        break;
    case TDM_DTYPE_Q2_0:
        decode_bits(p, 2, j, out);
        break;
    case TDM_DTYPE_IQ1_S:
        tdm_iq1_s_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ1_M:
        tdm_iq1_m_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ2_XXS:
        tdm_iq2_xxs_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ2_XS:
        tdm_iq2_xs_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ2_S:
        tdm_iq2_s_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ3_XXS:
        tdm_iq3_xxs_decode(p, j, out);
        break;
    case TDM_DTYPE_IQ3_S:
        tdm_iq3_s_decode(p, j, out);
        break;
    default:
        decode_small(dtype, p, out);
        break;
    }
}

bool tdm_block32_kind(tdm_dtype dtype, tdm_block_kind *out) {
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_0:
    case TDM_DTYPE_Q5_0:
    case TDM_DTYPE_Q8_0:
    case TDM_DTYPE_IQ4_NL:
    case TDM_DTYPE_IQ4_XS:
    case TDM_DTYPE_MXFP4:
    case TDM_DTYPE_TQ1_0:
    case TDM_DTYPE_TQ2_0:
    case TDM_DTYPE_Q1_0:
    case TDM_DTYPE_Q2_0:
    case TDM_DTYPE_IQ1_S:
    case TDM_DTYPE_IQ2_XXS:
    case TDM_DTYPE_IQ3_XXS:
    case TDM_DTYPE_IQ3_S:
        *out = TDM_BLOCK_ONE;
        return true;
    case TDM_DTYPE_Q4_1:
    case TDM_DTYPE_Q5_1:
    case TDM_DTYPE_Q4_K:
    case TDM_DTYPE_Q5_K:
        *out = TDM_BLOCK_ONE_MIN;
        return true;
    case TDM_DTYPE_Q6_K:
    case TDM_DTYPE_Q3_K:
        *out = TDM_BLOCK_INT;
        return true;
    case TDM_DTYPE_Q2_K:
        *out = TDM_BLOCK_INT_MIN;
        return true;
    case TDM_DTYPE_NVFP4:
    case TDM_DTYPE_IQ1_M:
    case TDM_DTYPE_IQ2_XS:
    case TDM_DTYPE_IQ2_S:
        *out = TDM_BLOCK_PAIR;
        return true;
    default:
        return false;
    }
}

void tdm_block32_values(tdm_block_kind kind, const tdm_block32 *block, float out[32]) {
    bool has_min = kind == TDM_BLOCK_ONE_MIN || kind == TDM_BLOCK_INT_MIN;
    for (int h = 0; h < 2; ++h) {
        float d = block->d[h] * (float)block->scale[h];
        float m = block->m * (float)block->min[h];
        for (int i = 16 * h; i < 16 * h + 16; ++i) {
            float value = d * (float)(block->w[i] + block->offset);
            out[i] = has_min ? value + m : value;
        }
    }
}

/* Where the two bytes of d and of the min stand; -1: none. */
static void scales_at(tdm_dtype dtype, int *out_d, int *out_m) {
    *out_d = 0;
    *out_m = -1;
    switch ((int)dtype) {
    case TDM_DTYPE_Q4_1:
    case TDM_DTYPE_Q5_1:
    case TDM_DTYPE_Q4_K:
    case TDM_DTYPE_Q5_K:
        *out_m = 2;
        break;
    case TDM_DTYPE_Q2_K:
        *out_d = 80;
        *out_m = 82;
        break;
    case TDM_DTYPE_Q3_K:
        *out_d = 108;
        break;
    case TDM_DTYPE_Q6_K:
        *out_d = 208;
        break;
    case TDM_DTYPE_TQ1_0:
        *out_d = 52;
        break;
    case TDM_DTYPE_TQ2_0:
        *out_d = 64;
        break;
    default:
        break;
    }
}

void tdm_block_set_scales(tdm_dtype dtype, uint8_t *block, float d, float m) {
    uint16_t half = dtype == TDM_DTYPE_BF16 ? tdm_bf16_from_f32(d) : tdm_f16_from_f32(d);
    uint16_t min = tdm_f16_from_f32(m);
    int at = 0;
    int min_at = 0;
    scales_at(dtype, &at, &min_at);
    if (dtype == TDM_DTYPE_F32) {
        memcpy(block, &d, sizeof d);
    } else if (dtype == TDM_DTYPE_MXFP4) { /* the exponent alone */
        block[0] = (uint8_t)(tdm_f32_bits(d) >> 23);
    } else if (dtype == TDM_DTYPE_NVFP4) { /* below 2: their random bits keep them apart */
        for (int i = 0; i < 4; ++i) {
            block[i] &= 0x3f;
        }
    } else if (dtype == TDM_DTYPE_IQ1_M) {
        for (int i = 0; i < 4; ++i) {
            uint8_t *high = block + 48 + 2 * i + 1;
            *high = (uint8_t)((*high & 15) | (((half >> (4 * i)) & 15) << 4));
        }
    } else {
        memcpy(block + at, &half, sizeof half);
        if (min_at >= 0) {
            memcpy(block + min_at, &min, sizeof min);
        }
    }
}
