/* SPDX-License-Identifier: Apache-2.0
 *
 * Plain types and GGUF's blocks of 32 weights, bit for bit as libggml rounds them: the scale that
 * codes are made with is f32, only the stored one is f16. The K types are in quantize_k.c. */
#include "tensor/quantize_priv.h"

#include <math.h>
#include <string.h>

bool tdm_quantize_can(tdm_dtype dtype) {
    static const tdm_dtype KNOWN[] = {TDM_DTYPE_F32,  TDM_DTYPE_F16,  TDM_DTYPE_BF16,
                                      TDM_DTYPE_Q4_0, TDM_DTYPE_Q4_1, TDM_DTYPE_Q5_0,
                                      TDM_DTYPE_Q5_1, TDM_DTYPE_Q8_0, TDM_DTYPE_Q4_K,
                                      TDM_DTYPE_Q5_K, TDM_DTYPE_Q6_K};
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++) {
        if (KNOWN[i] == dtype) {
            return true;
        }
    }
    return false;
}

static void store_plain(tdm_dtype dtype, const float *x, int64_t n, uint8_t *out) {
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, x, (size_t)n * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const uint16_t half =
            dtype == TDM_DTYPE_F16 ? tdm_f16_from_f32(x[i]) : tdm_bf16_from_f32(x[i]);
        out[2 * i] = (uint8_t)(half & 255u);
        out[2 * i + 1] = (uint8_t)(half >> 8);
    }
}

/* ---- blocks of 32 ---- */

static float inverse(float d) {
    return d != 0.0f ? 1.0f / d : 0.0f;
}

/* The value of largest magnitude, the first of equals. */
static float extreme(const float *x) {
    float most = 0.0f;
    float found = 0.0f;
    for (int i = 0; i < 32; i++) {
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            found = x[i];
        }
    }
    return found;
}

static void range(const float *x, float *out_least, float *out_most) {
    *out_least = *out_most = x[0];
    for (int i = 1; i < 32; i++) {
        *out_least = x[i] < *out_least ? x[i] : *out_least;
        *out_most = x[i] > *out_most ? x[i] : *out_most;
    }
}

/* Truncated towards zero, within 0..most. An f16 scale that overflowed leaves values far outside. */
static uint32_t truncated(float value, uint32_t most) {
    if (!(value > 0.0f)) {
        return 0;
    }
    return value < (float)most ? (uint32_t)value : most;
}

/* Codes 0..31 of bits 4 or 5: low nibbles of weights i and i + 16 share a byte; bit 4 of weight i is
 * bit i of a word before them. */
static void store_codes(const uint8_t codes[32], bool has_fifth, uint8_t *out) {
    uint32_t fifth = 0;
    for (int i = 0; i < 32; i++) {
        fifth |= (uint32_t)(codes[i] >> 4) << i;
    }
    for (int i = 0; has_fifth && i < 4; i++) {
        *out++ = (uint8_t)((fifth >> (8 * i)) & 255u);
    }
    for (int i = 0; i < 16; i++) {
        out[i] = (uint8_t)((codes[i] & 15) | ((codes[i + 16] & 15) << 4));
    }
}

/* Q4_0, Q5_0: a scale; codes are offset by half their range, whose lower end is the extreme. */
static void quantize_scaled(const float *x, uint32_t half, uint8_t *out) {
    const float d = extreme(x) / -(float)half;
    const float id = inverse(d);
    uint8_t codes[32];
    for (int i = 0; i < 32; i++) {
        codes[i] = (uint8_t)truncated(x[i] * id + ((float)half + 0.5f), 2 * half - 1);
    }
    tdm_store_f16(out, d);
    store_codes(codes, half == 16, out + 2);
}

/* Q4_1, Q5_1: a scale and the least value. */
static void quantize_ranged(const float *x, uint32_t most_code, uint8_t *out) {
    float least = 0.0f;
    float most = 0.0f;
    uint8_t codes[32];
    range(x, &least, &most);
    const float d = (most - least) / (float)most_code;
    const float id = inverse(d);
    for (int i = 0; i < 32; i++) {
        codes[i] = (uint8_t)truncated((x[i] - least) * id + 0.5f, most_code);
    }
    tdm_store_f16(out, d);
    tdm_store_f16(out + 2, least);
    store_codes(codes, most_code == 31, out + 4);
}

static void quantize_q8_0(const float *x, uint8_t *out) {
    const float d = fabsf(extreme(x)) / 127.0f;
    const float id = inverse(d);
    tdm_store_f16(out, d);
    for (int i = 0; i < 32; i++) {
        const float code = roundf(x[i] * id);
        const int32_t bounded = code > 127.0f ? 127 : code < -127.0f ? -127 : (int32_t)code;
        out[2 + i] = (uint8_t)((uint32_t)bounded & 255u);
    }
}

static void quantize_block(tdm_dtype dtype, const float *x, uint8_t *out) {
    if (dtype == TDM_DTYPE_Q4_0) {
        quantize_scaled(x, 8, out);
    } else if (dtype == TDM_DTYPE_Q5_0) {
        quantize_scaled(x, 16, out);
    } else if (dtype == TDM_DTYPE_Q4_1) {
        quantize_ranged(x, 15, out);
    } else if (dtype == TDM_DTYPE_Q5_1) {
        quantize_ranged(x, 31, out);
    } else if (dtype == TDM_DTYPE_Q8_0) {
        quantize_q8_0(x, out);
    } else if (dtype == TDM_DTYPE_Q4_K) {
        tdm_quantize_q4_k(x, out);
    } else if (dtype == TDM_DTYPE_Q5_K) {
        tdm_quantize_q5_k(x, out);
    } else {
        tdm_quantize_q6_k(x, out);
    }
}

void tdm_quantize_row(tdm_dtype dtype, const float *x, int64_t n, uint8_t *out) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    if (info->block_weights == 1) {
        store_plain(dtype, x, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i += info->block_weights) {
        quantize_block(dtype, x + i, out);
        out += info->block_bytes;
    }
}
