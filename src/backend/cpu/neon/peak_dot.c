/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of the dot instruction. */
#include "backend/cpu/neon/neon_priv.h"

#include <arm_neon.h>

#define SUMS 16

double tdm_neon_peak_int8_dot(int64_t n_rounds) {
    int32x4_t sums[SUMS];
    int8x16_t x = vdupq_n_s8(3);
    int8x16_t y = vdupq_n_s8(5);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = vdupq_n_s32(i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = vdotq_s32(sums[i], x, y);
            __asm__ volatile("" : "+w"(sums[i]));
        }
    }
    return (double)n_rounds * SUMS * 32.0;
}
