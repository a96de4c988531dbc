/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of AVX-512: f32, and bytes with VNNI. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/peak_inl.h"

#include <immintrin.h>

double tdm_avx512_peak_f32(int64_t n_rounds) {
    const __m512 x = _mm512_set1_ps(0.999f);
    const __m512 y = _mm512_set1_ps(0.001f);
#define START(i) __m512 s##i = _mm512_set1_ps((float)(i));
#define STEP(i)                                                                                    \
    s##i = _mm512_fmadd_ps(s##i, x, y);                                                            \
    PEAK_OPAQUE("v", s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 32.0;
}

double tdm_avx512_peak_int8(int64_t n_rounds) {
    const __m512i x = _mm512_set1_epi8(3);
    const __m512i y = _mm512_set1_epi8(5);
#define START(i) __m512i s##i = _mm512_set1_epi32(i);
#define STEP(i)                                                                                    \
    s##i = _mm512_dpbusd_epi32(s##i, x, y);                                                        \
    PEAK_OPAQUE("v", s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 128.0;
}
