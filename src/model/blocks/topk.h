/* SPDX-License-Identifier: Apache-2.0
 *
 * The k best of many, exactly. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_TOPK_H
#define TDM_MODEL_BLOCKS_TOPK_H

#include <stdint.h>

/* Keeps, in place and in their order, the k pairs with the largest scores of n; among equal scores
 * the first ones stay. -0 equals 0, and NaN is below everything. Returns how many are left: k, or n
 * where that is less. O(n), no memory: what is chosen does not depend on how the pairs came
 * together, so that a long list may be cut down piece by piece. */
int64_t tdm_topk_keep(float *scores, int32_t *ids, int64_t n, int64_t k);

#endif
