/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bytes added up in 16 bits.
 *
 * How many vectors fit 16 bits: |sum| <= 2 * vectors * largest * 127 <= 32767 gives 8 for 4 bits,
 * 4 for 5 bits, 2 for 6 bits; signed weights are multiplied as |w| * (x with w's sign): 1 vector of
 * bytes up to 128, 2 of levels up to 62, 8 of levels up to 15. */
#ifndef TDM_BACKEND_CPU_AVX2_MADD_INL_H
#define TDM_BACKEND_CPU_AVX2_MADD_INL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

/* Keeps the compiler from reordering 16-bit sums, which makes it spill every product (gcc 12). */
#define PIN(v) __asm__("" : "+x"(v))

TDM_INLINE int sum_depth(int form) {
    switch (form_bits(form)) {
    case 8:
        return 1;
    case 6:
        return 2;
    case 5:
        return 4;
    default:
        break;
    }
    switch (form) {
    case FORM_IQ4:
        return 1;
    case FORM_IQ3_XXS:
    case FORM_IQ2:
    case FORM_IQ2_PAIR:
        return 2;
    default: /* halves that are summed apart end after four vectors */
        return form_is_pair(form) || form_has_halves(form) ? 4 : 8;
    }
}

/* Products of one vector of weights and four activations, in 16 bits. */
TDM_INLINE __m256i products(int is_signed, __m256i w, __m256i magnitude, __m256i x) {
    if (is_signed) {
        return _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
    }
    return _mm256_maddubs_epi16(w, x);
}

#endif
