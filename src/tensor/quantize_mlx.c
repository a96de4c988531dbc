/* SPDX-License-Identifier: Apache-2.0
 *
 * MLX's quantizers. Every step is one f32 operation in the reference's order, because codes turn on
 * the last bit; what is stored of a scale is rounded, what codes are made with is not.
 * Source: shared/spec/quantized-formats.md sections 2 and 3; the values of the three float modes
 * were measured against mlx 0.32.4. */
#include "tensor/quantize.h"

#include "tensor/half.h"

#include <math.h>
#include <string.h>

/* Reference's least scale: an all-equal group does not divide by zero. */
#define SCALE_LEAST 1e-7f
#define E2M1_MOST 6.0f
#define E4M3_MOST 448.0f

bool tdm_quantize_is_finite(const float *x, int64_t n, int64_t *out_idx) {
    for (int64_t i = 0; i < n; i++) {
        if ((tdm_f32_bits(x[i]) & 0x7f800000u) == 0x7f800000u) {
            if (out_idx != NULL) {
                *out_idx = i;
            }
            return false;
        }
    }
    return true;
}

size_t tdm_mlx_codes_bytes(const tdm_mlx_form *form, int64_t n_in) {
    return (size_t)n_in / 8 * (size_t)form->bits; /* a group is 16 codes at least */
}

size_t tdm_mlx_scales_bytes(const tdm_mlx_form *form, int64_t n_in) {
    return (size_t)(n_in / form->group) * TDM_DTYPES[form->scales_dtype].block_bytes;
}

static uint8_t *store_u16(uint8_t *at, uint16_t value) {
    at[0] = (uint8_t)(value & 255u);
    at[1] = (uint8_t)(value >> 8);
    return at + 2;
}

static uint8_t *store_scale(tdm_dtype dtype, float value, uint8_t *at) {
    const uint32_t bits = tdm_f32_bits(value);
    if (dtype == TDM_DTYPE_BF16) {
        return store_u16(at, tdm_bf16_from_f32(value));
    }
    if (dtype == TDM_DTYPE_F16) {
        return store_u16(at, tdm_f16_from_f32(value));
    }
    return store_u16(store_u16(at, (uint16_t)(bits & 0xffffu)), (uint16_t)(bits >> 16));
}

/* A stream of codes, least significant bit first. */
typedef struct bit_stream {
    uint8_t *at;
    uint32_t held;
    int32_t n_held;
} bit_stream;

static void put_code(bit_stream *stream, uint32_t code, int32_t bits) {
    stream->held |= code << stream->n_held;
    stream->n_held += bits;
    while (stream->n_held >= 8) {
        *stream->at++ = (uint8_t)(stream->held & 255u);
        stream->held >>= 8;
        stream->n_held -= 8;
    }
}

/* ---- affine ---- */

typedef struct affine {
    float scale, bias;
} affine;

/* The end of the range with the larger magnitude becomes exact: scales may be negative. With one bit
 * both ends are, and the least is the bias. */
static affine fit_affine(const float *x, int32_t group, float n_steps) {
    float least = x[0];
    float most = x[0];
    for (int32_t i = 1; i < group; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    float scale = (most - least) / n_steps;
    scale = scale > SCALE_LEAST ? scale : SCALE_LEAST;
    if (n_steps == 1.0f) {
        return (affine){scale, least};
    }
    const bool is_least = fabsf(least) > fabsf(most);
    const float edge = is_least ? least : most;
    scale = is_least ? scale : -scale;
    const float q0 = rintf(edge / scale);
    return q0 != 0.0f ? (affine){edge / q0, edge} : (affine){scale, 0.0f};
}

/* Codes are below 2^8, where adding and taking off 1.5 * 2^23 rounds to nearest even. A NaN, of an
 * infinite range, gives 0. */
static uint32_t affine_code(float x, affine fit, float n_steps) {
    const float code = (x - fit.bias) / fit.scale;
    if (!(code > 0.0f)) {
        return 0;
    }
    return (uint32_t)(((code < n_steps ? code : n_steps) + 12582912.0f) - 12582912.0f);
}

static void quantize_affine(const tdm_mlx_form *form, const float *x, int64_t n_in, uint8_t *codes,
                            uint8_t *scales, uint8_t *biases) {
    const float n_steps = (float)((1u << form->bits) - 1u);
    bit_stream stream = {codes, 0, 0};
    for (int64_t begin = 0; begin < n_in; begin += form->group) {
        const affine fit = fit_affine(x + begin, form->group, n_steps);
        scales = store_scale(form->scales_dtype, fit.scale, scales);
        biases = store_scale(form->scales_dtype, fit.bias, biases);
        for (int32_t i = 0; i < form->group; i++) {
            put_code(&stream, affine_code(x[begin + i], fit, n_steps), form->bits);
        }
    }
}

/* ---- mxfp4, mxfp8, nvfp4 ---- */

/* The first code at the least distance, as the reference's CPU searches: ties go to the smaller
 * magnitude and -0 is never chosen. (Its GPU rounds ties to even and keeps the sign of zero.) */
static uint8_t e2m1_from_f32(float x) {
    static const float LEVELS[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    float least = fabsf(x - LEVELS[0]);
    uint8_t code = 0;
    for (uint8_t i = 1; i < 16; i++) {
        const float distance = fabsf(x - LEVELS[i]);
        code = distance < least ? i : code;
        least = distance < least ? distance : least;
    }
    return code;
}

/* To nearest even; beyond the largest, the largest. */
static uint8_t e4m3_from_f32(float x) {
    const uint32_t bits = tdm_f32_bits(x);
    const uint32_t sign = (bits >> 24) & 0x80u;
    const uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude >= 0x43f00000u) { /* 480: would round past 448 */
        return (uint8_t)(sign | 0x7eu);
    }
    if (magnitude < 0x3c800000u) { /* below 2^-6: a multiple of 2^-9, rounded by the adder */
        const float shifted = tdm_f32_from_bits(magnitude) + 16384.0f;
        return (uint8_t)(sign | (tdm_f32_bits(shifted) - 0x46800000u));
    }
    const uint32_t odd = (magnitude >> 20) & 1u;
    const uint32_t rounded = (magnitude + 0x7ffffu + odd - 0x3c000000u) >> 20;
    return (uint8_t)(sign | (rounded < 0x7eu ? rounded : 0x7eu));
}

/* The least power of two that is not below x, 2^-127 and up. */
static uint8_t e8m0_from_f32(float x) {
    const uint32_t bits = tdm_f32_bits(x);
    const uint32_t exponent = (bits >> 23) & 255u;
    const uint32_t fraction = bits & 0x7fffffu;
    if (exponent == 0) { /* 2^-127 is 0x400000 here, 2^-126 the first above */
        return fraction > 0x400000u ? 1 : 0;
    }
    const uint32_t rounded = exponent + (fraction != 0 ? 1u : 0u);
    return (uint8_t)(rounded < 254u ? rounded : 254u);
}

/* A zero group has scale 1 in the mx modes and 0 in nvfp4. */
static float fit_float(tdm_weight_mode mode, const float *x, int32_t group, uint8_t *out_scale) {
    float most = 0.0f;
    for (int32_t i = 0; i < group; i++) {
        const float magnitude = fabsf(x[i]);
        most = magnitude > most ? magnitude : most;
    }
    const float wanted = most / (mode == TDM_WEIGHT_MXFP8 ? E4M3_MOST : E2M1_MOST);
    if (mode == TDM_WEIGHT_NVFP4) {
        *out_scale = e4m3_from_f32(wanted);
        return tdm_e4m3_to_f32(*out_scale);
    }
    *out_scale = most == 0.0f ? 127 : e8m0_from_f32(wanted);
    return tdm_e8m0_to_f32(*out_scale);
}

static void quantize_float(const tdm_mlx_form *form, const float *x, int64_t n_in, uint8_t *codes,
                           uint8_t *scales) {
    bit_stream stream = {codes, 0, 0};
    for (int64_t begin = 0; begin < n_in; begin += form->group) {
        const float scale = fit_float(form->mode, x + begin, form->group, scales++);
        for (int32_t i = 0; i < form->group; i++) {
            const float value = scale == 0.0f ? 0.0f : x[begin + i] / scale;
            put_code(&stream, form->bits == 8 ? e4m3_from_f32(value) : e2m1_from_f32(value),
                     form->bits);
        }
    }
}

void tdm_quantize_mlx_row(const tdm_mlx_form *form, const float *x, int64_t n_in, uint8_t *codes,
                          uint8_t *scales, uint8_t *biases) {
    if (form->mode == TDM_WEIGHT_AFFINE) {
        quantize_affine(form, x, n_in, codes, scales, biases);
    } else {
        quantize_float(form, x, n_in, codes, scales);
    }
}
