/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels in pairs of registers, and the rounding of activations. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/lanes_inl.h"

#define ROWS(name) tdm_neon_##name

#include "backend/cpu/rows_tmpl.h"

/* As the scalar twin, to the bit. */
void tdm_neon_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    const uint32x4_t magnitude = vdupq_n_u32(0x7fffffff);
    for (int64_t b = 0; b < n / 32; ++b, x += 32, q += 32) {
        uint32x4_t bits = vdupq_n_u32(0);
        for (int i = 0; i < 8; ++i) {
            uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + 4 * i));
            bits = vmaxq_u32(bits, vandq_u32(v, magnitude));
        }
        /* Magnitudes order as integers; an infinity or NaN is above every number. */
        uint32_t largest = vmaxvq_u32(bits);
        tdm_cpu_x8_block block = {0};
        int8x16_t packed[2] = {vdupq_n_s8(0), vdupq_n_s8(0)};
        if (largest >= 0x7f800000u) {
            block.d = tdm_f32_from_bits(0x7fc00000u);
        } else if (largest >= 0x0d800000u) {
            const float inverse = 127.0f / tdm_f32_from_bits(largest);
            block.d = tdm_f32_from_bits(largest) / 127.0f;
            for (int h = 0; h < 2; ++h) {
                int16x4_t r[4];
                for (int i = 0; i < 4; ++i) {
                    float32x4_t v = vmulq_n_f32(vld1q_f32(x + 16 * h + 4 * i), inverse);
                    r[i] = vmovn_s32(vcvtnq_s32_f32(v));
                }
                packed[h] = vcombine_s8(vmovn_s16(vcombine_s16(r[0], r[1])),
                                        vmovn_s16(vcombine_s16(r[2], r[3])));
                block.eights[2 * h] = vaddlv_s8(vget_low_s8(packed[h]));
                block.eights[2 * h + 1] = vaddlv_s8(vget_high_s8(packed[h]));
                block.half_sums[h] = vaddlvq_s8(packed[h]);
            }
        }
        vst1q_s8(q, packed[0]);
        vst1q_s8(q + 16, packed[1]);
        block.sum = (int32_t)block.half_sums[0] + (int32_t)block.half_sums[1];
        block.s = block.d * (float)block.sum;
        blocks[b] = block;
    }
}
