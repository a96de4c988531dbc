/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of NEON. */
#include "backend/cpu/neon/neon_priv.h"
#include "backend/cpu/neon/peak_inl.h"

#include <arm_neon.h>

double tdm_neon_peak_f32(int64_t n_rounds) {
    const float32x4_t x = vdupq_n_f32(0.999f);
    const float32x4_t y = vdupq_n_f32(0.001f);
#define START(i) float32x4_t s##i = vdupq_n_f32((float)(i));
#define STEP(i)                                                                                    \
    s##i = vfmaq_f32(y, s##i, x);                                                                  \
    PEAK_OPAQUE(s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 8.0;
}

/* Bytes multiplied into 16 bits, a second product on top, both added up in 32: as products are
 * without the dot instruction. */
double tdm_neon_peak_int8(int64_t n_rounds) {
    const int8x16_t x = vdupq_n_s8(3);
    int8x16_t y = vdupq_n_s8(5);
#define START(i) int32x4_t s##i = vdupq_n_s32(i);
#define STEP(i)                                                                                    \
    {                                                                                              \
        int16x8_t v = vmull_s8(vget_low_s8(x), vget_low_s8(y));                                    \
        PEAK_OPAQUE(v);                                                                            \
        v = vmlal_high_s8(v, x, y);                                                                \
        s##i = vpadalq_s16(s##i, v);                                                               \
        PEAK_OPAQUE(s##i);                                                                         \
    }
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_OPAQUE(y);
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 32.0;
}
