/* SPDX-License-Identifier: Apache-2.0
 *
 * 16-bit floats to and from f32, in plain integer arithmetic: the law that hardware conversions are
 * held to. Floor 2. Widening is exact (a signalling NaN becomes quiet); narrowing rounds to nearest
 * even. */
#ifndef TDM_TENSOR_HALF_H
#define TDM_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float tdm_f32_from_bits(uint32_t bits) {
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t tdm_f32_bits(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float tdm_f16_to_f32(uint16_t h) {
    uint32_t sign = ((uint32_t)h & 0x8000u) << 16;
    uint32_t exponent = ((uint32_t)h >> 10) & 31u;
    uint32_t fraction = (uint32_t)h & 0x3ffu;
    if (exponent == 31u) {
        uint32_t quiet = fraction != 0 ? 0x400000u : 0u;
        return tdm_f32_from_bits(sign | 0x7f800000u | quiet | (fraction << 13));
    }
    if (exponent != 0) {
        return tdm_f32_from_bits(sign | ((exponent + 112u) << 23) | (fraction << 13));
    }
    /* Subnormal: fraction * 2^-24, exact in f32. */
    float magnitude = (float)fraction * 0x1p-24f;
    return tdm_f32_from_bits(sign | tdm_f32_bits(magnitude));
}

static inline uint16_t tdm_f16_from_f32(float value) {
    uint32_t bits = tdm_f32_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t mag = bits & 0x7fffffffu;
    if (mag > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((mag >> 13) & 0x1ffu));
    }
    if (mag >= 0x477ff000u) { /* rounds to 65536 or beyond: infinity */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (mag < 0x38800000u) { /* below 2^-14: adding 0.5 lets the adder round to multiples of 2^-24
                              */
        float shifted = tdm_f32_from_bits(mag) + 0.5f;
        return (uint16_t)(sign | (tdm_f32_bits(shifted) - 0x3f000000u));
    }
    uint32_t odd = (mag >> 13) & 1u;
    return (uint16_t)(sign | ((mag + 0xfffu + odd - 0x38000000u) >> 13));
}

static inline float tdm_bf16_to_f32(uint16_t h) {
    return tdm_f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t tdm_bf16_from_f32(float value) {
    uint32_t bits = tdm_f32_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* The 8-bit float with four exponent bits that has no infinity ("fn"): largest 448, 0x7f and 0xff
 * are NaN. Shifted into f32's fields it is 2^120 too small, subnormals included. */
static inline float tdm_e4m3_to_f32(uint8_t v) {
    uint32_t sign = ((uint32_t)v & 0x80u) << 24;
    uint32_t magnitude = (uint32_t)v & 0x7fu;
    if (magnitude == 0x7fu) {
        return tdm_f32_from_bits(sign | 0x7fc00000u);
    }
    return tdm_f32_from_bits(sign | (magnitude << 20)) * 0x1p120f;
}

/* 2^(v - 127): 0 is subnormal, 255 infinity. */
static inline float tdm_e8m0_to_f32(uint8_t v) {
    return tdm_f32_from_bits(v == 0 ? 0x00400000u : (uint32_t)v << 23);
}

/* Little-endian loads from bytes of any alignment. */
static inline uint16_t tdm_load_u16(const uint8_t *bytes) {
    return (uint16_t)((uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8));
}

static inline uint32_t tdm_load_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] | ((uint32_t)bytes[1] << 8) | ((uint32_t)bytes[2] << 16) |
           ((uint32_t)bytes[3] << 24);
}

#endif
