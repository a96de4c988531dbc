/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms: how int8 products see a weight, whatever file it came from. A form is a width of integers,
 * perhaps a table that they index, a zero point, and a kind of scales; it is a constant at every
 * kernel's call. Eight stored types have a form of their own, named like the type, because their
 * scales pack tighter that way; every other type and mode is turned into one of the rest at load.
 *
 *     form        integers      scales                              made from
 *     B1          2 * bit - 1   f32 for each period of blocks       Q1_0
 *     C2          2 bits - 1    the same                            TQ1_0 TQ2_0 Q2_0
 *     A1 .. A6    1 to 6 bits   the same, and f32 mins              affine of 1 to 6 bits
 *     A8          bytes + 128   the same, and f32 mins              affine of 8 bits
 *     IQ4 E2M1    table of 16   f32 for each block                  IQ4_NL IQ4_XS, MXFP4 of both kinds
 *     E2M1_PAIR   table of 16   f32 for each half block             NVFP4 of both kinds
 *     IQ3_XXS     table of 16   4 bits for each block under f16     itself
 *     IQ3_S       table of 16   f32 for each block                  itself
 *     IQ2 (_PAIR) table of 8    the same (of each half)             IQ2_XXS, IQ2_XS IQ2_S
 *     IQ1 (_PAIR) 8 (2 bits - 1) + or - 1 for each 32 (8), scales as IQ2: IQ1_S, IQ1_M
 *     Q2_K Q3_K   2 and 4 bits  integers for each half, f16 for 8   themselves */
#ifndef TDM_BACKEND_CPU_AVX2_FORM_INL_H
#define TDM_BACKEND_CPU_AVX2_FORM_INL_H

#include "backend/cpu/avx2/math_inl.h"
#include "contract/dtype.h"
#include "tensor/levels.h"

enum {
    FORM_Q4_0 = TDM_DTYPE_Q4_0,
    FORM_Q4_1 = TDM_DTYPE_Q4_1,
    FORM_Q5_0 = TDM_DTYPE_Q5_0,
    FORM_Q5_1 = TDM_DTYPE_Q5_1,
    FORM_Q8_0 = TDM_DTYPE_Q8_0,
    FORM_Q2_K = TDM_DTYPE_Q2_K,
    FORM_Q3_K = TDM_DTYPE_Q3_K,
    FORM_Q4_K = TDM_DTYPE_Q4_K,
    FORM_Q5_K = TDM_DTYPE_Q5_K,
    FORM_Q6_K = TDM_DTYPE_Q6_K,
    FORM_C2 = TDM_DTYPE_COUNT,
    FORM_B1,
    FORM_A1,
    FORM_A2,
    FORM_A4,
    FORM_A5,
    FORM_A6,
    FORM_A8,
    FORM_IQ1,
    FORM_IQ1_PAIR,
    FORM_IQ4,
    FORM_E2M1,
    FORM_E2M1_PAIR,
    FORM_IQ3_XXS,
    FORM_IQ3_S,
    FORM_IQ2,
    FORM_IQ2_PAIR,
    FORM_COUNT
};

/* Every form, for tables of kernels. */
#define FORMS(X)                                                                                   \
    X(Q4_0)                                                                                        \
    X(Q4_1)                                                                                        \
    X(Q5_0)                                                                                        \
    X(Q5_1)                                                                                        \
    X(Q8_0)                                                                                        \
    X(Q2_K)                                                                                        \
    X(Q3_K)                                                                                        \
    X(Q4_K)                                                                                        \
    X(Q5_K)                                                                                        \
    X(Q6_K)                                                                                        \
    X(C2)                                                                                          \
    X(B1)                                                                                          \
    X(A1)                                                                                          \
    X(A2)                                                                                          \
    X(A4)                                                                                          \
    X(A5)                                                                                          \
    X(A6)                                                                                          \
    X(A8)                                                                                          \
    X(IQ4)                                                                                         \
    X(E2M1)                                                                                        \
    X(E2M1_PAIR)                                                                                   \
    X(IQ3_XXS)                                                                                     \
    X(IQ3_S)                                                                                       \
    X(IQ2)                                                                                         \
    X(IQ2_PAIR)                                                                                    \
    X(IQ1)                                                                                         \
    X(IQ1_PAIR)

/* The eight that are read and packed type by type. */
TDM_INLINE int form_is_stored(int form) {
    return form < TDM_DTYPE_COUNT && form != FORM_Q2_K && form != FORM_Q3_K;
}

TDM_INLINE int form_bits(int form) {
    switch (form) {
    case FORM_B1:
    case FORM_A1:
        return 1;
    case FORM_Q2_K:
    case FORM_C2:
    case FORM_A2:
    case FORM_IQ1:
    case FORM_IQ1_PAIR:
        return 2;
    case FORM_IQ2:
    case FORM_IQ2_PAIR:
        return 3;
    case FORM_Q5_0:
    case FORM_Q5_1:
    case FORM_Q5_K:
    case FORM_A5:
        return 5;
    case FORM_Q6_K:
    case FORM_A6:
        return 6;
    case FORM_Q8_0:
    case FORM_A8:
        return 8;
    default:
        return 4;
    }
}

TDM_INLINE int form_has_table(int form) {
    return form >= FORM_IQ4;
}

/* Packed as -1, 0, 1 (plus 1) with one more number for some columns; open, as their sum. */
TDM_INLINE int form_is_ternary(int form) {
    return form == FORM_IQ1 || form == FORM_IQ1_PAIR;
}

/* Whether a vector of weights is signed once it is in a register. */
TDM_INLINE int form_is_signed(int form, int is_packed) {
    return form_bits(form) == 8 || form_has_table(form) || (form_is_ternary(form) && !is_packed);
}

/* What is subtracted from the integers in a register. */
TDM_INLINE int form_zero(int form) {
    switch (form) {
    case FORM_B1: /* the bit is read as 0 or 2 */
    case FORM_C2:
        return 1;
    case FORM_Q3_K:
        return 4;
    case FORM_Q4_0:
        return 8;
    case FORM_Q5_0:
        return 16;
    case FORM_Q6_K:
        return 32;
    case FORM_A8:
        return -128;
    default:
        return 0;
    }
}

/* An f32 min for each block. */
TDM_INLINE int form_has_min(int form) {
    return form == FORM_Q4_1 || form == FORM_Q5_1 || form == FORM_Q4_K || form == FORM_Q5_K ||
           (form >= FORM_A1 && form <= FORM_A8);
}

/* Integer scales of the halves. */
TDM_INLINE int form_has_halves(int form) {
    return form == FORM_Q2_K || form == FORM_Q3_K || form == FORM_Q6_K;
}

/* f32 scales of the halves. */
TDM_INLINE int form_is_pair(int form) {
    return form == FORM_E2M1_PAIR || form == FORM_IQ2_PAIR || form == FORM_IQ1_PAIR;
}

/* Odd scales, 2 * (4 bits) + 1, under an f16 one, of the block or of its halves. */
TDM_INLINE int form_has_odd(int form) {
    return form == FORM_IQ2 || form == FORM_IQ2_PAIR || form == FORM_IQ3_XXS ||
           form_is_ternary(form);
}

/* How many units of those scales the f16 is. */
TDM_INLINE float form_unit(int form) {
    return form == FORM_IQ3_XXS ? 4.0f : 8.0f;
}

/* u8 scales and mins under f16 ones. */
TDM_INLINE int form_is_k45(int form) {
    return form == FORM_Q4_K || form == FORM_Q5_K;
}

/* f32 scales that stand before their blocks. */
TDM_INLINE int form_has_period(int form) {
    return form >= FORM_C2 && !form_is_pair(form) && !form_has_odd(form);
}

/* The sixteen values of a table form. */
TDM_INLINE const int8_t *form_levels(int form) {
    switch (form) {
    case FORM_IQ4:
        return TDM_LEVELS_IQ4;
    case FORM_IQ3_XXS:
        return TDM_LEVELS_IQ3_XXS;
    case FORM_IQ3_S:
        return TDM_LEVELS_IQ3_S;
    case FORM_IQ2:
    case FORM_IQ2_PAIR:
        return TDM_LEVELS_IQ2;
    default:
        return TDM_LEVELS_E2M1;
    }
}

TDM_INLINE __m256i form_table(int form) {
    const int8_t *levels = form_levels(form);
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)levels));
}

#endif
