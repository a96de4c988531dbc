/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of AVX-512 VNNI: twelve sums side by side. */
#include "backend/cpu/avx512/avx512_priv.h"

#include <immintrin.h>

#define SUMS 12

double tdm_avx512_peak_int8(int64_t n_rounds) {
    __m512i sums[SUMS];
    const __m512i x = _mm512_set1_epi8(3);
    const __m512i y = _mm512_set1_epi8(5);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = _mm512_set1_epi32(i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = _mm512_dpbusd_epi32(sums[i], x, y);
            __asm__ volatile("" : "+v"(sums[i])); /* in a register, unknown to the compiler */
        }
    }
    return (double)n_rounds * SUMS * 128.0;
}
