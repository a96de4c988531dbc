/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of the dot instruction. */
#include "backend/cpu/neon/neon_priv.h"
#include "backend/cpu/neon/peak_inl.h"

#include <arm_neon.h>

double tdm_neon_peak_int8_dot(int64_t n_rounds) {
    const int8x16_t x = vdupq_n_s8(3);
    const int8x16_t y = vdupq_n_s8(5);
#define START(i) int32x4_t s##i = vdupq_n_s32(i);
#define STEP(i)                                                                                    \
    s##i = vdotq_s32(s##i, x, y);                                                                  \
    PEAK_OPAQUE(s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 32.0;
}
