/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of vdpbf16ps, in a file of its own: AVX-512 does not bring it along (kernels.c asks). */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/peak_inl.h"

#include <immintrin.h>

double tdm_avx512_peak_bf16(int64_t n_rounds) {
    const __m512bh x = (__m512bh)_mm512_set1_epi16(0x3f00); /* 0.5: sums stay normal and finite */
    const __m512bh y = (__m512bh)_mm512_set1_epi16(0x3e80); /* 0.25 */
#define START(i) __m512 s##i = _mm512_set1_ps((float)(i));
#define STEP(i)                                                                                    \
    s##i = _mm512_dpbf16_ps(s##i, x, y);                                                           \
    PEAK_OPAQUE("v", s##i);
    PEAK_EACH(START)
    for (int64_t r = 0; r < n_rounds; ++r) {
        PEAK_EACH(STEP)
    }
#undef START
#undef STEP
    return (double)n_rounds * PEAK_SUMS * 64.0;
}
