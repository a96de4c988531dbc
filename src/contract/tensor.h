/* SPDX-License-Identifier: Apache-2.0
 *
 * A named, typed, shaped piece of somebody else's memory. Floor 1. */
#ifndef TDM_CONTRACT_TENSOR_H
#define TDM_CONTRACT_TENSOR_H

#include "contract/dtype.h"

#include <stddef.h>

#define TDM_RANK_MAX 5

/* dims are row-major, slowest first (GGUF's reader turns its order around): a linear's weight is
 * [out, in]. data is borrowed: it lives as long as the checkpoint that gave it. */
typedef struct tdm_tensor_view {
    tdm_dtype dtype;
    int32_t rank;
    int64_t dims[TDM_RANK_MAX];
    const void *data;
    size_t bytes;
} tdm_tensor_view;

#endif
