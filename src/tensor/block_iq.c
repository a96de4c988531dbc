/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoders of the codebook types. Every weight is a small odd number or a codebook level times a
 * scale, so that they too are integers and scales: IQ1's grid of -1, 0, 1 plus or minus an eighth
 * is (8 * grid +- 1) times an eighth of the scale, exactly. */
#include "tensor/iq_priv.h"

#include "tensor/half.h"
#include "tensor/levels.h"

/* Seven sign bits; the eighth makes their number even. */
static unsigned even_signs(unsigned seven) {
    unsigned parity = seven ^ (seven >> 4);
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return seven | ((parity & 1u) << 7);
}

/* Eight weights of an entry of two-bit levels. */
static void eight(uint16_t entry, unsigned signs, int8_t *out) {
    for (int i = 0; i < 8; ++i) {
        int8_t level = TDM_LEVELS_IQ2[(entry >> (2 * i)) & 3];
        out[i] = (int8_t)(((signs >> i) & 1u) != 0 ? -level : level);
    }
}

/* Four weights of an entry of three-bit levels; odd: levels are 1, 3, 5 ... */
static void four(uint16_t entry, bool is_odd, unsigned signs, int8_t *out) {
    for (int i = 0; i < 4; ++i) {
        int k = (entry >> (3 * i)) & 7;
        int level = is_odd ? 2 * k + 1 : TDM_LEVELS_IQ3_XXS[k];
        out[i] = (int8_t)(((signs >> i) & 1u) != 0 ? -level : level);
    }
}

static void eight_ternary(uint16_t entry, bool is_below, int8_t *out) {
    for (int i = 0; i < 8; ++i) {
        int grid = (int)((entry >> (2 * i)) & 3) - 1;
        out[i] = (int8_t)(8 * grid + (is_below ? -1 : 1));
    }
}

/* Scales of both halves: odd numbers times an eighth of the block's f16, exactly. */
static void odd_scales(float d, unsigned first, unsigned last, tdm_block32 *out) {
    out->unit = d * 0.125f;
    out->odd[0] = (int32_t)(2 * first + 1);
    out->odd[1] = (int32_t)(2 * last + 1);
    for (int h = 0; h < 2; ++h) {
        out->d[h] = out->unit * (float)out->odd[h];
    }
}

void tdm_iq2_xxs_decode(const uint8_t *p, int j, tdm_block32 *out) {
    const uint8_t *q = p + 2 + 8 * j;
    uint32_t word = tdm_load_u32(q + 4);
    for (int g = 0; g < 4; ++g) {
        eight(TDM_IQ2_XXS_GRID[q[g]], even_signs((word >> (7 * g)) & 127u), out->w + 8 * g);
    }
    odd_scales(tdm_f16_to_f32(tdm_load_u16(p)), word >> 28, word >> 28, out);
}

static void scales_by_16(const uint8_t *p, uint8_t scales, tdm_block32 *out) {
    odd_scales(tdm_f16_to_f32(tdm_load_u16(p)), scales & 15u, scales >> 4, out);
}

void tdm_iq2_xs_decode(const uint8_t *p, int j, tdm_block32 *out) {
    for (int g = 0; g < 4; ++g) {
        unsigned q = tdm_load_u16(p + 2 + 8 * j + 2 * g);
        eight(TDM_IQ2_XS_GRID[q & 511u], even_signs(q >> 9), out->w + 8 * g);
    }
    scales_by_16(p, p[66 + j], out);
}

void tdm_iq2_s_decode(const uint8_t *p, int j, tdm_block32 *out) {
    unsigned high = p[66 + j];
    for (int g = 0; g < 4; ++g) {
        unsigned q = p[2 + 4 * j + g] | (((high >> (2 * g)) & 3u) << 8);
        eight(TDM_IQ2_S_GRID[q], p[34 + 4 * j + g], out->w + 8 * g);
    }
    scales_by_16(p, p[74 + j], out);
}

void tdm_iq3_xxs_decode(const uint8_t *p, int j, tdm_block32 *out) {
    uint32_t word = tdm_load_u32(p + 66 + 4 * j);
    for (int g = 0; g < 8; ++g) {
        unsigned signs = even_signs((word >> (7 * (g / 2))) & 127u);
        four(TDM_IQ3_XXS_GRID[p[2 + 8 * j + g]], false, signs >> (4 * (g & 1)), out->w + 4 * g);
    }
    out->unit = tdm_f16_to_f32(tdm_load_u16(p)) * 0.25f; /* d * (0.5 + scale) * 0.5 */
    for (int h = 0; h < 2; ++h) {
        out->odd[h] = (int32_t)(2 * (word >> 28) + 1);
        out->d[h] = out->unit * (float)out->odd[h];
    }
}

void tdm_iq3_s_decode(const uint8_t *p, int j, tdm_block32 *out) {
    unsigned high = p[66 + j];
    int scale = (p[106 + j / 2] >> (4 * (j & 1))) & 15;
    for (int g = 0; g < 8; ++g) {
        unsigned q = p[2 + 8 * j + g] | (((high >> g) & 1u) << 8);
        unsigned signs = p[74 + 4 * j + g / 2];
        four(TDM_IQ3_S_GRID[q], true, signs >> (4 * (g & 1)), out->w + 4 * g);
    }
    out->d[0] = tdm_f16_to_f32(tdm_load_u16(p)) * (float)(1 + 2 * scale);
    out->d[1] = out->d[0];
}

void tdm_iq1_s_decode(const uint8_t *p, int j, tdm_block32 *out) {
    unsigned high = tdm_load_u16(p + 34 + 2 * j);
    for (int g = 0; g < 4; ++g) {
        unsigned q = p[2 + 4 * j + g] | (((high >> (3 * g)) & 7u) << 8);
        eight_ternary(TDM_IQ1_GRID[q], (high & 0x8000u) != 0, out->w + 8 * g);
    }
    odd_scales(tdm_f16_to_f32(tdm_load_u16(p)), (high >> 12) & 7u, (high >> 12) & 7u, out);
}

void tdm_iq1_m_decode(const uint8_t *p, int j, tdm_block32 *out) {
    const uint8_t *scales = p + 48;
    unsigned d = 0;
    for (int i = 0; i < 4; ++i) { /* the f16 scale lies in the top nibbles of four words */
        d |= (unsigned)(tdm_load_u16(scales + 2 * i) >> 12) << (4 * i);
    }
    unsigned word = (unsigned)tdm_load_u16(scales + 2 * (j / 2)) >> (6 * (j & 1));
    for (int g = 0; g < 4; ++g) {
        unsigned high = (unsigned)(p[32 + 2 * j + g / 2] >> (4 * (g & 1)));
        unsigned q = p[4 * j + g] | ((high & 7u) << 8);
        eight_ternary(TDM_IQ1_GRID[q], (high & 8u) != 0, out->w + 8 * g);
    }
    odd_scales(tdm_f16_to_f32((uint16_t)d), word & 7u, (word >> 3) & 7u, out);
}
