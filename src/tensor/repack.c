/* SPDX-License-Identifier: Apache-2.0
 *
 * Foreign integers to affine codes. Shapes were checked; values need no check, since every word is a
 * legal one. Columns are taken 32 at a time over all rows: GPTQ's and AWQ's words then lie side by
 * side in memory, whichever columns they are. */
#include "tensor/repack.h"

#include "tensor/half.h"

#include <string.h>

/* Where AWQ's word keeps output 0..7. */
static const uint8_t AWQ_PLACES[8] = {0, 4, 1, 5, 2, 6, 3, 7};

int32_t tdm_repack_group(const tdm_repack *repack) {
    int64_t group = repack->n_in / repack->n_scales;
    for (int32_t g = 128; g >= 32; g /= 2) {
        if (group % g == 0) {
            return g;
        }
    }
    return 0;
}

/* Element i of a stream whose words are stride words apart. */
static uint32_t stream_at(const uint8_t *words, int64_t stride, int32_t bits, int64_t i) {
    int64_t bit = i * bits;
    int32_t shift = (int32_t)(bit % 32);
    const uint8_t *word = words + 4 * stride * (bit / 32);
    uint64_t value = tdm_load_u32(word);
    if (shift + bits > 32) {
        value |= (uint64_t)tdm_load_u32(word + 4 * stride) << 32;
    }
    return (uint32_t)(value >> shift) & ((1u << bits) - 1u);
}

static uint32_t awq_at(const uint8_t *row, int64_t o) {
    return (tdm_load_u32(row + 4 * (o / 8)) >> (4 * AWQ_PLACES[o % 8])) & 15u;
}

/* layout is a constant at every call. */
static inline uint32_t code_at(tdm_repack_layout layout, const tdm_repack *r, int64_t o,
                               int64_t i) {
    switch (layout) {
    case TDM_REPACK_GPTQ:
        return stream_at(r->codes + 4 * o, r->n_out, r->bits, i);
    case TDM_REPACK_AWQ:
        return awq_at(r->codes + i * (r->n_out / 2), o);
    case TDM_REPACK_PACKED:
        return stream_at(r->codes + o * (r->n_in / 8 * r->bits), 1, r->bits, i);
    case TDM_REPACK_BYTES:
    default:
        return r->codes[o * r->n_in + i] ^ 0x80u;
    }
}

/* The zero point of a group, counted like codes; with zero_add it may be one past the last code. */
static int32_t zero_at(const tdm_repack *r, int64_t o, int64_t g) {
    uint32_t zero = 0;
    if (r->zeros == NULL) {
        return 1 << (r->bits - 1);
    }
    switch (r->layout) {
    case TDM_REPACK_GPTQ:
        zero = stream_at(r->zeros + g * (r->n_out / 8 * r->bits), 1, r->bits, o);
        break;
    case TDM_REPACK_AWQ:
        zero = awq_at(r->zeros + g * (r->n_out / 2), o);
        break;
    case TDM_REPACK_PACKED:
        zero = stream_at(r->zeros + 4 * g, r->n_scales, r->bits, o);
        break;
    case TDM_REPACK_BYTES:
    default:
        zero = r->zeros[r->has_one_scale ? 0 : o * r->n_scales + g] ^ 0x80u;
        break;
    }
    return (int32_t)zero + r->zero_add;
}

static float scale_at(const tdm_repack *r, int64_t o, int64_t g) {
    bool is_turned = r->layout == TDM_REPACK_GPTQ || r->layout == TDM_REPACK_AWQ;
    int64_t i = r->has_one_scale ? 0 : is_turned ? g * r->n_out + o : o * r->n_scales + g;
    switch ((int)r->scales_dtype) {
    case TDM_DTYPE_F16:
        return tdm_f16_to_f32(tdm_load_u16(r->scales + 2 * i));
    case TDM_DTYPE_BF16:
        return tdm_bf16_to_f32(tdm_load_u16(r->scales + 2 * i));
    default:
        return tdm_f32_from_bits(tdm_load_u32(r->scales + 4 * i));
    }
}

/* 32 codes as 4 * bits bytes of a stream. */
static void put32(const uint8_t codes[32], int32_t bits, uint8_t *out) {
    uint64_t held = 0;
    int32_t n_held = 0;
    for (int i = 0; i < 32; ++i) {
        held |= (uint64_t)codes[i] << n_held;
        n_held += bits;
        for (; n_held >= 8; n_held -= 8, held >>= 8) {
            *out++ = (uint8_t)held;
        }
    }
}

/* Columns columns[0..31] of every row become block b. */
static inline void block_codes(tdm_repack_layout layout, const tdm_repack *r,
                               const int64_t columns[32], int64_t b, uint8_t *out) {
    const size_t row_bytes = (size_t)(r->n_in / 8 * r->bits);
    for (int64_t o = 0; o < r->n_out; ++o) {
        uint8_t codes[32];
        for (int i = 0; i < 32; ++i) {
            codes[i] = (uint8_t)code_at(layout, r, o, columns[i]);
        }
        put32(codes, r->bits, out + (size_t)o * row_bytes + (size_t)(4 * b * r->bits));
    }
}

void tdm_repack_codes(const tdm_repack *repack, int64_t block0, int64_t block1, uint8_t *out) {
    for (int64_t b = block0; b < block1; ++b) {
        int64_t columns[32];
        for (int64_t i = 0; i < 32; ++i) {
            columns[i] = repack->columns != NULL ? repack->columns[32 * b + i] : 32 * b + i;
        }
        switch (repack->layout) {
        case TDM_REPACK_GPTQ:
            block_codes(TDM_REPACK_GPTQ, repack, columns, b, out);
            break;
        case TDM_REPACK_AWQ:
            block_codes(TDM_REPACK_AWQ, repack, columns, b, out);
            break;
        case TDM_REPACK_PACKED:
            block_codes(TDM_REPACK_PACKED, repack, columns, b, out);
            break;
        case TDM_REPACK_BYTES:
        default:
            block_codes(TDM_REPACK_BYTES, repack, columns, b, out);
            break;
        }
    }
}

void tdm_repack_scales(const tdm_repack *repack, int64_t row0, int64_t row1, float *scales,
                       float *biases) {
    const int64_t n = repack->n_in / tdm_repack_group(repack);
    const int64_t repeats = n / repack->n_scales;
    for (int64_t o = row0; o < row1; ++o) {
        for (int64_t g = 0; g < n; ++g) {
            float scale = scale_at(repack, o, g / repeats);
            scales[o * n + g] = scale;
            biases[o * n + g] = -(float)zero_at(repack, o, g / repeats) * scale;
        }
    }
}
