/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: a length, a JSON header, bytes. Floor 3.
 *
 *   0        8                  8 + N                                  end of file
 *   | u64 N  | {"name": {...}}  | data: begin and end count from here  |
 *
 * Source: the safetensors project's README, format section; shared/spec/reliability.md 2B.
 * Limits: header 100 MiB, 1,048,576 tensors, rank TDM_RANK_MAX, names of 1,024 bytes.
 * Threads: read-only after parse. */
#ifndef TDM_FORMATS_SAFETENSORS_H
#define TDM_FORMATS_SAFETENSORS_H

#include "base/alloc.h"
#include "contract/tensor.h"

#define TDM_SAFETENSORS_HEADER_MAX ((size_t)100 << 20)
#define TDM_SAFETENSORS_TENSORS_MAX 1048576
#define TDM_SAFETENSORS_NAME_MAX 1024

typedef struct tdm_safetensors tdm_safetensors;

/* Where the data is not covered by tensors. Odd, not wrong: the caller warns or refuses. */
typedef struct tdm_safetensors_gaps {
    uint64_t hole_bytes;  /* between tensors, or before the first */
    uint64_t hole_offset; /* of the first hole, in the file */
    uint64_t trailing_bytes;
} tdm_safetensors_gaps;

/* Parses bytes that stay mapped for the life of the result. name is for error messages. A tensor's
 * data may lie at any address: MLX writes headers without padding. Read it with memcpy or unaligned
 * loads.
 * Errors: TDM_E_FORMAT, TDM_E_LIMIT, TDM_E_UNSUPPORTED (a dtype that we know and do not read),
 * TDM_E_NOMEM; where names the file and the offset or tensor. */
TDM_NODISCARD tdm_status tdm_safetensors_parse(tdm_safetensors **out, const tdm_alloc *alloc,
                                               const uint8_t *data, size_t bytes, const char *name,
                                               tdm_error *err);
/* NULL-safe. */
void tdm_safetensors_destroy(tdm_safetensors *file);

/* Tensors in the header's order. Names are NUL-terminated and owned by the file; offsets count from
 * the start of the file. Past the end NULL and 0. */
size_t tdm_safetensors_n_tensors(const tdm_safetensors *file);
const char *tdm_safetensors_tensor_name(const tdm_safetensors *file, size_t idx);
const tdm_tensor_view *tdm_safetensors_tensor_view(const tdm_safetensors *file, size_t idx);
uint64_t tdm_safetensors_tensor_offset(const tdm_safetensors *file, size_t idx);
/* false when there is none of that name. */
bool tdm_safetensors_find(const tdm_safetensors *file, const char *name, size_t *out_idx);

tdm_safetensors_gaps tdm_safetensors_gaps_of(const tdm_safetensors *file);
/* Text of a key of __metadata__, or NULL. */
const char *tdm_safetensors_metadata(const tdm_safetensors *file, const char *key);

#endif
