/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of AVX-VNNI. */
#include "backend/cpu/avxvnni/avxvnni_priv.h"

#include "backend/cpu/avx2/peak_inl.h"

#include <immintrin.h>

double tdm_avxvnni_peak_int8(int64_t n_rounds) {
    const __m256i x = _mm256_set1_epi8(3);
    const __m256i y = _mm256_set1_epi8(5);
#define START(i) __m256i s##i = _mm256_set1_epi32(i);
#define STEP(i)                                                                                    \
    s##i = _mm256_dpbusd_avx_epi32(s##i, x, y);                                                    \
    PEAK_OPAQUE("x", s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
    return (double)n_rounds * PEAK_SUMS * 64.0;
}
