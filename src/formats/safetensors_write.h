/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a safetensors file whose tensors are known before their bytes. Floor 3. */
#ifndef TDM_FORMATS_SAFETENSORS_WRITE_H
#define TDM_FORMATS_SAFETENSORS_WRITE_H

#include "base/buf.h"
#include "contract/tensor.h"

/* A tensor to be written; GGUF's writer takes the same. Names are borrowed. */
typedef struct tdm_write_tensor {
    const char *name;
    tdm_dtype dtype;
    int32_t rank;
    int64_t dims[TDM_RANK_MAX]; /* slowest first */
    uint64_t bytes;
    uint32_t file_idx; /* for the caller */
} tdm_write_tensor;

/* Appends length and header, padded with blanks to 8 bytes; the tensors' bytes follow in order and
 * without gaps. format is what __metadata__ calls it ("mlx", "pt"). Errors: TDM_E_LIMIT (a header that
 * our own reader refuses), TDM_E_UNSUPPORTED (a type that the format has not), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_safetensors_write_header(tdm_buf *out, const tdm_write_tensor *tensors,
                                                      size_t n_tensors, const char *format,
                                                      tdm_error *err);

#endif
