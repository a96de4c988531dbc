/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sixteen codes of a 4-bit float or of a 4-bit codebook stand for, as integers. Floor 2. */
#ifndef TDM_TENSOR_LEVELS_H
#define TDM_TENSOR_LEVELS_H

#include <stdint.h>

/* E2M1, doubled: 0 0.5 1 1.5 2 3 4 6 and their negatives. */
static const int8_t TDM_LEVELS_E2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
/* IQ4_NL and IQ4_XS. */
static const int8_t TDM_LEVELS_IQ4[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

#endif
