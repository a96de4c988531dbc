/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing what a golden run computed as one safetensors file. Floor 10. */
#ifndef TDM_CLI_GOLDEN_DUMP_H
#define TDM_CLI_GOLDEN_DUMP_H

#include "base/file.h"

typedef struct tdm_dump_tensor {
    const char *name;
    const char *dtype; /* "F32", "I32": four bytes each */
    int32_t rank;      /* 1 or 2 */
    size_t dims[2];
    const void *data; /* little-endian */
} tdm_dump_tensor;

/* Replaces path by a whole file or leaves it as it was. Errors: TDM_E_IO, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_dump_write(const tdm_fs *fs, const char *path,
                                        const tdm_dump_tensor *tensors, size_t n, tdm_error *err);

#endif
