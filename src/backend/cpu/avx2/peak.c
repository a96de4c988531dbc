/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of AVX2. */
#include "backend/cpu/avx2/avx2_priv.h"
#include "backend/cpu/avx2/peak_inl.h"

#include <immintrin.h>

double tdm_avx2_peak_f32(int64_t n_rounds) {
    const __m256 x = _mm256_set1_ps(0.999f);
    const __m256 y = _mm256_set1_ps(0.001f);
#define START(i) __m256 s##i = _mm256_set1_ps((float)(i));
#define STEP(i)                                                                                    \
    s##i = _mm256_fmadd_ps(s##i, x, y);                                                            \
    PEAK_OPAQUE("x", s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 16.0;
}

/* Bytes multiplied and added up in 16 bits, as nibbles are. */
double tdm_avx2_peak_int8(int64_t n_rounds) {
    const __m256i x = _mm256_set1_epi8(3);
    __m256i y = _mm256_set1_epi8(5);
#define START(i) __m256i s##i = _mm256_set1_epi32(i);
#define STEP(i)                                                                                    \
    {                                                                                              \
        PEAK_OPAQUE("x", y); /* or one multiplication would do for all sums */                     \
        __m256i v = _mm256_maddubs_epi16(x, y);                                                    \
        PEAK_OPAQUE("x", v);                                                                       \
        s##i = _mm256_add_epi16(s##i, v);                                                          \
        PEAK_OPAQUE("x", s##i);                                                                    \
    }
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 64.0;
}
