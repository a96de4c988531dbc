/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of storage types. */
#include "contract/dtype.h"

const tdm_dtype_info TDM_DTYPES[TDM_DTYPE_COUNT] = {
#define DTYPE_ROW(name, text, weights, bytes, gguf) {text, weights, bytes, gguf},
    TDM_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};
