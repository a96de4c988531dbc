/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen rows of sixteen 32-bit values, turned over in registers. */
#ifndef TDM_BACKEND_CPU_AVX512_PAIRS_INL_H
#define TDM_BACKEND_CPU_AVX512_PAIRS_INL_H

#include <immintrin.h>

/* Value j of v[i] becomes value i of v[j]. */
static inline __attribute__((always_inline)) void turn16(__m512i v[16]) {
    __m512i a[16];
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    /* v[4g + c]: in quarter q, value 4q + c of rows 4g .. 4g + 3 */
    for (int i = 0; i < 16; i += 4) {
        v[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        v[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        v[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        v[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    for (int c = 0; c < 4; ++c) { /* quarters 0 and 1, then 2 and 3, of groups 0, 1 and 2, 3 */
        a[c] = _mm512_shuffle_i32x4(v[c], v[4 + c], 0x44);
        a[4 + c] = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0x44);
        a[8 + c] = _mm512_shuffle_i32x4(v[c], v[4 + c], 0xee);
        a[12 + c] = _mm512_shuffle_i32x4(v[8 + c], v[12 + c], 0xee);
    }
    for (int c = 0; c < 4; ++c) {
        v[c] = _mm512_shuffle_i32x4(a[c], a[4 + c], 0x88);
        v[4 + c] = _mm512_shuffle_i32x4(a[c], a[4 + c], 0xdd);
        v[8 + c] = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0x88);
        v[12 + c] = _mm512_shuffle_i32x4(a[8 + c], a[12 + c], 0xdd);
    }
}

#endif
