/* SPDX-License-Identifier: Apache-2.0
 *
 * The peak of AVX-VNNI: twelve sums side by side. */
#include "backend/cpu/avxvnni/avxvnni_priv.h"

#include <immintrin.h>

#define SUMS 12

double tdm_avxvnni_peak_int8(int64_t n_rounds) {
    __m256i sums[SUMS];
    const __m256i x = _mm256_set1_epi8(3);
    const __m256i y = _mm256_set1_epi8(5);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = _mm256_set1_epi32(i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = _mm256_dpbusd_avx_epi32(sums[i], x, y);
            __asm__ volatile("" : "+x"(sums[i])); /* in a register, unknown to the compiler */
        }
    }
    return (double)n_rounds * SUMS * 64.0;
}
