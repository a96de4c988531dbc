/* SPDX-License-Identifier: Apache-2.0
 *
 * Peaks of AVX2: twelve sums side by side, so that no addition waits for the one before it. */
#include "backend/cpu/avx2/avx2_priv.h"

#include <immintrin.h>

#define SUMS 12

/* Keeps a value in a register, and the compiler from knowing it. */
#define OPAQUE(v) __asm__ volatile("" : "+x"(v))

double tdm_avx2_peak_f32(int64_t n_rounds) {
    __m256 sums[SUMS];
    __m256 x = _mm256_set1_ps(0.999f);
    __m256 y = _mm256_set1_ps(0.001f);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = _mm256_set1_ps((float)i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        for (int i = 0; i < SUMS; ++i) {
            sums[i] = _mm256_fmadd_ps(sums[i], x, y);
            OPAQUE(sums[i]);
        }
    }
    return (double)n_rounds * SUMS * 16.0;
}

/* Bytes multiplied and added up in 16 bits, as nibbles are. */
double tdm_avx2_peak_int8(int64_t n_rounds) {
    __m256i sums[SUMS];
    __m256i x = _mm256_set1_epi8(3);
    __m256i y = _mm256_set1_epi8(5);
    for (int i = 0; i < SUMS; ++i) {
        sums[i] = _mm256_set1_epi32(i);
    }
    for (int64_t r = 0; r < n_rounds; ++r) {
        OPAQUE(x);
        for (int i = 0; i < SUMS; ++i) {
            __m256i v = _mm256_maddubs_epi16(x, y);
            OPAQUE(v);
            sums[i] = _mm256_add_epi16(sums[i], v);
            OPAQUE(sums[i]);
        }
    }
    return (double)n_rounds * SUMS * 64.0;
}
