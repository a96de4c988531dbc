/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a GGUF file (version 3, little-endian) whose tensors are known before their bytes.
 * Floor 3. Source: shared/spec/gguf.md section 4; ggml's docs/gguf.md. */
#ifndef TDM_FORMATS_GGUF_WRITE_H
#define TDM_FORMATS_GGUF_WRITE_H

#include "formats/gguf.h"
#include "formats/safetensors_write.h"

#define TDM_GGUF_WRITE_ALIGNMENT 32

/* Keys and values in order. The first failure is kept: ask tdm_gguf_write_header. */
typedef struct tdm_gguf_writer {
    tdm_buf kvs;
    uint64_t n_kvs;
    tdm_status status;
} tdm_gguf_writer;

void tdm_gguf_writer_init(tdm_gguf_writer *writer, const tdm_alloc *alloc);
void tdm_gguf_writer_deinit(tdm_gguf_writer *writer);
void tdm_gguf_put_u32(tdm_gguf_writer *writer, const char *key, uint32_t value);
void tdm_gguf_put_f32(tdm_gguf_writer *writer, const char *key, float value);
void tdm_gguf_put_bool(tdm_gguf_writer *writer, const char *key, bool value);
void tdm_gguf_put_text(tdm_gguf_writer *writer, const char *key, const char *text, size_t len);
/* An array: n elements of type follow by item functions of that type. */
void tdm_gguf_put_array(tdm_gguf_writer *writer, const char *key, tdm_gguf_type type, uint64_t n);
void tdm_gguf_item_text(tdm_gguf_writer *writer, const char *text, size_t len);
void tdm_gguf_item_f32(tdm_gguf_writer *writer, float value);
void tdm_gguf_item_i32(tdm_gguf_writer *writer, int32_t value);
void tdm_gguf_item_bool(tdm_gguf_writer *writer, bool value);
/* Key idx of another file, byte for byte. Arrays of arrays: TDM_E_UNSUPPORTED, at once. */
TDM_NODISCARD tdm_status tdm_gguf_put_copy(tdm_gguf_writer *writer, const tdm_gguf *gguf,
                                           size_t idx, tdm_error *err);

/* Appends the header, padded to the alignment; each tensor begins at a multiple of it behind, in
 * order. Errors: TDM_E_LIMIT (names of 64 bytes, more than 4 dimensions, sizes), TDM_E_UNSUPPORTED (a
 * type that GGUF has not), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_gguf_write_header(tdm_buf *out, const tdm_gguf_writer *writer,
                                               const tdm_write_tensor *tensors, size_t n_tensors,
                                               tdm_error *err);

#endif
