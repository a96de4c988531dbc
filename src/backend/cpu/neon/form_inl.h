/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms: how products see a weight in its file's own layout. A form says how 32 integers come out of
 * a row's bytes and what scales stand beside them; it is a constant at every kernel's call, so each
 * use shrinks to one type's few instructions. Types without a form of their own go through the plain
 * decoder, once for each kind of scales. The numbers are those of tensor/block.h. */
#ifndef TDM_BACKEND_CPU_NEON_FORM_INL_H
#define TDM_BACKEND_CPU_NEON_FORM_INL_H

#include "backend/cpu/neon/lanes_inl.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/levels.h"
#include "tensor/weight.h"

/* Every form, for tables of kernels. A.: affine of so many bits; M4: MLX's mxfp4; ANY_.: by the
 * plain decoder. */
#define FORMS(X)                                                                                   \
    X(Q4_0)                                                                                        \
    X(Q4_1)                                                                                        \
    X(Q5_0)                                                                                        \
    X(Q5_1)                                                                                        \
    X(Q8_0)                                                                                        \
    X(Q2_K)                                                                                        \
    X(Q3_K)                                                                                        \
    X(Q4_K)                                                                                        \
    X(Q5_K)                                                                                        \
    X(Q6_K)                                                                                        \
    X(IQ4_NL)                                                                                      \
    X(IQ4_XS)                                                                                      \
    X(MXFP4)                                                                                       \
    X(M4)                                                                                          \
    X(A2)                                                                                          \
    X(A4)                                                                                          \
    X(A8)                                                                                          \
    X(ANY_ONE)                                                                                     \
    X(ANY_MIN)                                                                                     \
    X(ANY_INT)                                                                                     \
    X(ANY_INT_MIN)                                                                                 \
    X(ANY_PAIR)

#define FORM_NAME(name) FORM_##name,
enum { FORMS(FORM_NAME) FORM_COUNT };

/* One block of 32 weights: weight i of half h is d * scale[h] * (w[i] + offset) + m * min[h], or
 * with a scale of its own for the last half (PAIR: last instead of d). */
typedef struct form_block {
    int8x16_t w[2];
    float d;
    float m; /* min, or the last half's d */
    int32_t scale[2];
    int32_t min[2];
} form_block;

TDM_INLINE tdm_block_kind form_kind(int form) {
    switch (form) {
    case FORM_Q4_1:
    case FORM_Q5_1:
    case FORM_Q4_K:
    case FORM_Q5_K:
    case FORM_A2:
    case FORM_A4:
    case FORM_A8:
    case FORM_ANY_MIN:
        return TDM_BLOCK_ONE_MIN;
    case FORM_Q3_K:
    case FORM_Q6_K:
    case FORM_ANY_INT:
        return TDM_BLOCK_INT;
    case FORM_Q2_K:
    case FORM_ANY_INT_MIN:
        return TDM_BLOCK_INT_MIN;
    case FORM_ANY_PAIR:
        return TDM_BLOCK_PAIR;
    default:
        return TDM_BLOCK_ONE;
    }
}

/* Codes of eight bits do not fit signed bytes: they are stored less this. */
TDM_INLINE int32_t form_offset(int form) {
    return form == FORM_A8 ? 128 : 0;
}

TDM_INLINE int form_is_any(int form) {
    return form >= FORM_ANY_ONE;
}

/* The form of a weight whose products are int8 products. */
static inline int form_of(const tdm_weight *w) {
    static const uint8_t ANY[] = {
        [TDM_BLOCK_ONE] = FORM_ANY_ONE,   [TDM_BLOCK_ONE_MIN] = FORM_ANY_MIN,
        [TDM_BLOCK_INT] = FORM_ANY_INT,   [TDM_BLOCK_INT_MIN] = FORM_ANY_INT_MIN,
        [TDM_BLOCK_PAIR] = FORM_ANY_PAIR,
    };
    tdm_block_kind kind = TDM_BLOCK_ONE;
    (void)tdm_weight_kind(w, &kind);
    if (w->mode == TDM_WEIGHT_AFFINE) {
        return w->bits == 2 ? FORM_A2 : w->bits == 4 ? FORM_A4 : w->bits == 8 ? FORM_A8 : ANY[kind];
    }
    if (w->mode != TDM_WEIGHT_PLAIN) {
        return w->mode == TDM_WEIGHT_MXFP4 ? FORM_M4 : ANY[kind];
    }
    switch ((int)w->dtype) {
    case TDM_DTYPE_Q4_0:
        return FORM_Q4_0;
    case TDM_DTYPE_Q4_1:
        return FORM_Q4_1;
    case TDM_DTYPE_Q5_0:
        return FORM_Q5_0;
    case TDM_DTYPE_Q5_1:
        return FORM_Q5_1;
    case TDM_DTYPE_Q8_0:
        return FORM_Q8_0;
    case TDM_DTYPE_Q2_K:
        return FORM_Q2_K;
    case TDM_DTYPE_Q3_K:
        return FORM_Q3_K;
    case TDM_DTYPE_Q4_K:
        return FORM_Q4_K;
    case TDM_DTYPE_Q5_K:
        return FORM_Q5_K;
    case TDM_DTYPE_Q6_K:
        return FORM_Q6_K;
    case TDM_DTYPE_IQ4_NL:
        return FORM_IQ4_NL;
    case TDM_DTYPE_IQ4_XS:
        return FORM_IQ4_XS;
    case TDM_DTYPE_MXFP4:
        return FORM_MXFP4;
    default:
        return ANY[kind];
    }
}

/* ---- integers ---- */

/* 16 bytes of nibbles: the low ones, then the high ones. */
TDM_INLINE void nibbles32(const uint8_t *p, uint8x16_t out[2]) {
    uint8x16_t v = vld1q_u8(p);
    out[0] = vandq_u8(v, vdupq_n_u8(15));
    out[1] = vshrq_n_u8(v, 4);
}

/* The same where neighbours share a byte. */
TDM_INLINE void nibble_pairs32(const uint8_t *p, uint8x16_t out[2]) {
    uint8x16_t v[2];
    nibbles32(p, v);
    out[0] = vzip1q_u8(v[0], v[1]);
    out[1] = vzip2q_u8(v[0], v[1]);
}

/* Byte i is byte i / 8 of p, so that lane i's own bit is bit i % 8. */
TDM_INLINE uint8x16_t spread_bits(const uint8_t *p) {
    return vcombine_u8(vdup_n_u8(p[0]), vdup_n_u8(p[1]));
}

/* Bit i of 32 bits becomes 16 in byte i. */
TDM_INLINE void add_fifth_bits(const uint8_t *p, uint8x16_t out[2]) {
    const uint8x16_t pick = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    for (int h = 0; h < 2; ++h) {
        uint8x16_t is_set = vtstq_u8(spread_bits(p + 2 * h), pick);
        out[h] = vorrq_u8(out[h], vandq_u8(is_set, vdupq_n_u8(16)));
    }
}

/* (bytes of p >> shift) & mask, 32 of them. */
TDM_INLINE void shifted32(const uint8_t *p, int shift, uint8_t mask, uint8x16_t out[2]) {
    const int8x16_t by = vdupq_n_s8((int8_t)-shift);
    for (int h = 0; h < 2; ++h) {
        out[h] = vandq_u8(vshlq_u8(vld1q_u8(p + 16 * h), by), vdupq_n_u8(mask));
    }
}

/* Adds value where the bytes of p have bit number bit. */
TDM_INLINE void add_high_bits(const uint8_t *p, int bit, uint8_t value, uint8x16_t out[2]) {
    for (int h = 0; h < 2; ++h) {
        uint8x16_t is_set = vtstq_u8(vld1q_u8(p + 16 * h), vdupq_n_u8((uint8_t)(1 << bit)));
        out[h] = vorrq_u8(out[h], vandq_u8(is_set, vdupq_n_u8(value)));
    }
}

/* 8 bytes of two-bit numbers, four a byte. */
TDM_INLINE void crumbs32(const uint8_t *p, uint8x16_t out[2]) {
    static const uint8_t FROM[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const int8x16_t by = vreinterpretq_s8_u32(vdupq_n_u32(0xfafcfe00u)); /* 0, -2, -4, -6 */
    const uint8x16_t v = vcombine_u8(vld1_u8(p), vdup_n_u8(0));
    const uint8x16_t from = vld1q_u8(FROM);
    for (int h = 0; h < 2; ++h) {
        uint8x16_t bytes = vqtbl1q_u8(v, vaddq_u8(from, vdupq_n_u8((uint8_t)(4 * h))));
        out[h] = vandq_u8(vshlq_u8(bytes, by), vdupq_n_u8(3));
    }
}

/* Integers less zero. */
TDM_INLINE void set_less(const uint8x16_t v[2], int8_t zero, form_block *out) {
    for (int h = 0; h < 2; ++h) {
        out->w[h] = vsubq_s8(vreinterpretq_s8_u8(v[h]), vdupq_n_s8(zero));
    }
}

TDM_INLINE void set_levels(const uint8x16_t v[2], const int8_t levels[16], form_block *out) {
    const int8x16_t table = vld1q_s8(levels);
    for (int h = 0; h < 2; ++h) {
        out->w[h] = vqtbl1q_s8(table, v[h]);
    }
}

/* ---- blocks of stored types ---- */

/* q4_0's sisters: a block is scale, perhaps min, perhaps fifth bits, nibbles. */
TDM_INLINE void open_small(int form, const uint8_t *row, int64_t b, form_block *out) {
    const int has_min = form == FORM_Q4_1 || form == FORM_Q5_1;
    const int is_five = form == FORM_Q5_0 || form == FORM_Q5_1;
    const int head = 2 + 2 * has_min;
    const uint8_t *p = row + (head + 4 * is_five + 16) * b;
    uint8x16_t v[2];
    nibbles32(p + head + 4 * is_five, v);
    if (is_five) {
        add_fifth_bits(p + head, v);
    }
    if (form == FORM_IQ4_NL) {
        set_levels(v, TDM_LEVELS_IQ4, out);
    } else {
        set_less(v, has_min ? 0 : is_five ? 16 : 8, out);
    }
    out->d = f16_load(p);
    if (has_min) {
        out->m = f16_load(p + 2);
    }
}

TDM_INLINE void open_k45(int form, const uint8_t *row, int64_t b, form_block *out) {
    const uint8_t *p = row + (form == FORM_Q4_K ? 144 : 176) * (b / 8);
    const int j = (int)(b % 8);
    uint8_t scale = 0;
    uint8_t min = 0;
    uint8x16_t v[2];
    shifted32(p + (form == FORM_Q4_K ? 16 : 48) + 32 * (j / 2), 4 * (j & 1), 15, v);
    if (form == FORM_Q5_K) {
        add_high_bits(p + 16, j, 16, v);
    }
    set_less(v, 0, out);
    tdm_k4_scale_min(p + 4, j, &scale, &min);
    out->d = f16_load(p) * (float)scale;
    out->m = -(f16_load(p + 2) * (float)min);
}

TDM_INLINE void open_q6_k(const uint8_t *row, int64_t b, form_block *out) {
    const uint8_t *p = row + 210 * (b / 8);
    const int j = (int)(b % 8);
    uint8x16_t lo[2];
    uint8x16_t hi[2];
    shifted32(p + 64 * (j / 4) + 32 * (j & 1), 4 * ((j & 3) / 2), 15, lo);
    shifted32(p + 128 + 32 * (j / 4), 2 * (j & 3), 3, hi);
    for (int h = 0; h < 2; ++h) {
        lo[h] = vorrq_u8(lo[h], vshlq_n_u8(hi[h], 4));
        out->scale[h] = (int8_t)p[192 + 2 * j + h];
    }
    set_less(lo, 32, out);
    out->d = f16_load(p + 208);
}

TDM_INLINE void open_q2_k(const uint8_t *row, int64_t b, form_block *out) {
    const uint8_t *p = row + 84 * (b / 8);
    const int j = (int)(b % 8);
    uint8x16_t v[2];
    shifted32(p + 16 + 32 * (j / 4), 2 * (j & 3), 3, v);
    set_less(v, 0, out);
    for (int h = 0; h < 2; ++h) {
        out->scale[h] = p[2 * j + h] & 15;
        out->min[h] = p[2 * j + h] >> 4;
    }
    out->d = f16_load(p + 80);
    out->m = -f16_load(p + 82);
}

TDM_INLINE void open_q3_k(const uint8_t *row, int64_t b, form_block *out) {
    const uint8_t *p = row + 110 * (b / 8);
    const uint8_t *s = p + 96;
    const int j = (int)(b % 8);
    uint8x16_t v[2];
    shifted32(p + 32 + 32 * (j / 4), 2 * (j & 3), 3, v);
    add_high_bits(p, j, 4, v); /* a clear bit subtracts 4 */
    set_less(v, 4, out);
    for (int h = 0; h < 2; ++h) {
        int k = 2 * j + h;
        int low = k < 8 ? s[k] & 15 : s[k - 8] >> 4;
        out->scale[h] = (low | (((s[8 + (k & 3)] >> (2 * (k / 4))) & 3) << 4)) - 32;
    }
    out->d = f16_load(p + 108);
}

TDM_INLINE void open_iq4_xs(const uint8_t *row, int64_t b, form_block *out) {
    const uint8_t *p = row + 136 * (b / 8);
    const int j = (int)(b % 8);
    const int low = (p[4 + j / 2] >> (4 * (j & 1))) & 15;
    const int scale = low | (((tdm_load_u16(p + 2) >> (2 * j)) & 3) << 4);
    uint8x16_t v[2];
    nibbles32(p + 8 + 16 * j, v);
    set_levels(v, TDM_LEVELS_IQ4, out);
    out->d = f16_load(p) * (float)(scale - 32);
}

/* 2^(e - 128), subnormal for e below 2: levels are doubled. */
TDM_INLINE float e8m0_half(uint8_t e) {
    return tdm_f32_from_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

/* ---- blocks of several tensors ---- */

TDM_INLINE float group_number(tdm_dtype dtype, const uint8_t *p, int64_t g) {
    if (dtype == TDM_DTYPE_BF16) {
        return tdm_bf16_to_f32(tdm_load_u16(p + 2 * g));
    }
    return dtype == TDM_DTYPE_F16 ? f16_load(p + 2 * g)
                                  : tdm_f32_from_bits(tdm_load_u32(p + 4 * g));
}

TDM_INLINE void open_affine(int form, const tdm_weight *w, int64_t o, int64_t b, form_block *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    const size_t at = (size_t)o * w->scales_row_bytes;
    const int64_t g = 32 * b / w->group;
    uint8x16_t v[2];
    if (form == FORM_A2) {
        crumbs32(row + 8 * b, v);
    } else if (form == FORM_A4) {
        nibble_pairs32(row + 16 * b, v);
    } else {
        v[0] = veorq_u8(vld1q_u8(row + 32 * b), vdupq_n_u8(128));
        v[1] = veorq_u8(vld1q_u8(row + 32 * b + 16), vdupq_n_u8(128));
    }
    set_less(v, 0, out);
    out->d = group_number(w->scales_dtype, w->scales + at, g);
    out->m = group_number(w->scales_dtype, w->biases + at, g);
}

TDM_INLINE void open_any(int form, const tdm_weight *w, int64_t o, int64_t b, form_block *out) {
    tdm_block32 block;
    tdm_weight_block(w, o, b, &block);
    out->w[0] = vld1q_s8(block.w);
    out->w[1] = vld1q_s8(block.w + 16);
    out->d = block.d[0];
    out->m = form_kind(form) == TDM_BLOCK_PAIR ? block.d[1] : block.m;
    for (int h = 0; h < 2; ++h) {
        out->scale[h] = block.scale[h];
        out->min[h] = block.min[h];
    }
}

/* Block b of row o. What the form's kind has no use for is not set. */
TDM_INLINE void form_open(int form, const tdm_weight *w, int64_t o, int64_t b, form_block *out) {
    const uint8_t *row = w->data + (size_t)o * w->row_bytes;
    uint8x16_t v[2];
    switch (form) {
    case FORM_Q8_0:
        out->w[0] = vreinterpretq_s8_u8(vld1q_u8(row + 34 * b + 2));
        out->w[1] = vreinterpretq_s8_u8(vld1q_u8(row + 34 * b + 18));
        out->d = f16_load(row + 34 * b);
        break;
    case FORM_Q4_K:
    case FORM_Q5_K:
        open_k45(form, row, b, out);
        break;
    case FORM_Q6_K:
        open_q6_k(row, b, out);
        break;
    case FORM_Q2_K:
        open_q2_k(row, b, out);
        break;
    case FORM_Q3_K:
        open_q3_k(row, b, out);
        break;
    case FORM_IQ4_XS:
        open_iq4_xs(row, b, out);
        break;
    case FORM_MXFP4:
        nibbles32(row + 17 * b + 1, v);
        set_levels(v, TDM_LEVELS_E2M1, out);
        out->d = e8m0_half(row[17 * b]);
        break;
    case FORM_M4:
        nibble_pairs32(row + 16 * b, v);
        set_levels(v, TDM_LEVELS_E2M1, out);
        out->d = 0.5f * tdm_e8m0_to_f32(w->scales[(size_t)o * w->scales_row_bytes + (size_t)b]);
        break;
    case FORM_A2:
    case FORM_A4:
    case FORM_A8:
        open_affine(form, w, o, b, out);
        break;
    case FORM_ANY_ONE:
    case FORM_ANY_MIN:
    case FORM_ANY_INT:
    case FORM_ANY_INT_MIN:
    case FORM_ANY_PAIR:
        open_any(form, w, o, b, out);
        break;
    default:
        open_small(form, row, b, out);
        break;
    }
}

#endif
