/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codes of a 4-bit float or of a codebook stand for, as integers: at most sixteen each, so
 * that a table of sixteen holds them; unused places repeat the last. Floor 2. */
#ifndef TDM_TENSOR_LEVELS_H
#define TDM_TENSOR_LEVELS_H

#include <stdint.h>

/* E2M1, doubled: 0 0.5 1 1.5 2 3 4 6 and their negatives. */
static const int8_t TDM_LEVELS_E2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/* IQ4_NL and IQ4_XS. */
static const int8_t TDM_LEVELS_IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};
/* IQ3_XXS and IQ3_S with their signs. */
static const int8_t TDM_LEVELS_IQ3_XXS[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                              -4, -12, -20, -28, -36, -44, -52, -62};
static const int8_t TDM_LEVELS_IQ3_S[16] = {1,  3,  5,  7,  9,  11,  13,  15,
                                            -1, -3, -5, -7, -9, -11, -13, -15};
/* IQ2: two bits of magnitude, then the sign, so that three bits hold a code; twice, so that a fourth
 * bit means nothing. */
static const int8_t TDM_LEVELS_IQ2[16] = {8, 25, 43, 43, -8, -25, -43, -43,
                                          8, 25, 43, 43, -8, -25, -43, -43};

#endif
