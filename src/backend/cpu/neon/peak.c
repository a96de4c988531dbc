/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of NEON: sixteen sums side by side, so that no addition waits for the one before it. */
#include "backend/cpu/neon/neon_priv.h"

#include <arm_neon.h>

#define SUMS 16

/* Keeps a value in a register, and the compiler from knowing it. */
#define OPAQUE(v) __asm__ volatile("" : "+w"(v))

double tdm_neon_peak_f32(int64_t n_rounds) {
    float32x4_t sums[SUMS];
    float32x4_t x = vdupq_n_f32(0.999f);
    float32x4_t y = vdupq_n_f32(0.001f);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = vdupq_n_f32((float)i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = vfmaq_f32(sums[i], x, y);
            OPAQUE(sums[i]);
        }
    }
    return (double)n_rounds * SUMS * 8.0;
}

/* Bytes multiplied into 16 bits, a second product on top, both added up in 32: as products are
 * without the dot instruction. */
double tdm_neon_peak_int8(int64_t n_rounds) {
    int32x4_t sums[SUMS];
    int8x16_t x = vdupq_n_s8(3);
    int8x16_t y = vdupq_n_s8(5);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = vdupq_n_s32(i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        OPAQUE(x);
        for (int i = 0; i < SUMS; ++i) {
            int16x8_t v = vmull_s8(vget_low_s8(x), vget_low_s8(y));
            OPAQUE(v);
            v = vmlal_high_s8(v, x, y);
            sums[i] = vpadalq_s16(sums[i], v);
            OPAQUE(sums[i]);
        }
    }
    return (double)n_rounds * SUMS * 32.0;
}
