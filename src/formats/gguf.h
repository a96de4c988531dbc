/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF v2 and v3: metadata and tensor table, bounded and typed. Floor 3.
 * Source: shared/spec/gguf.md section 4, the ggml project's docs/gguf.md.
 * Limits: 65,536 keys of 65,535 bytes, strings of 64 MiB, arrays 4 deep, 1,048,576 tensors with
 * names of 63 bytes and 1 to 4 dimensions, alignment 8 to 65,536, a header of 1 GiB.
 * Threads: read-only after parse. */
#ifndef TDM_FORMATS_GGUF_H
#define TDM_FORMATS_GGUF_H

#include "base/file.h"
#include "contract/tensor.h"

typedef struct tdm_gguf tdm_gguf;

typedef enum tdm_gguf_type {
    TDM_GGUF_U8,
    TDM_GGUF_I8,
    TDM_GGUF_U16,
    TDM_GGUF_I16,
    TDM_GGUF_U32,
    TDM_GGUF_I32,
    TDM_GGUF_F32,
    TDM_GGUF_BOOL,
    TDM_GGUF_STRING,
    TDM_GGUF_ARRAY,
    TDM_GGUF_U64,
    TDM_GGUF_I64,
    TDM_GGUF_F64
} tdm_gguf_type;

typedef struct tdm_gguf_text { /* not NUL-terminated, borrowed from the mapped file */
    const char *data;
    size_t len;
} tdm_gguf_text;

/* Parses bytes that stay mapped for the life of the result, and are aligned to 8. name is for error
 * messages. The parts of a split file parse one by one; putting them together is checkpoint.c's.
 * Errors: TDM_E_FORMAT, TDM_E_LIMIT, TDM_E_UNSUPPORTED (version, byte order), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_gguf_parse(tdm_gguf **out, const tdm_alloc *alloc, const uint8_t *data,
                                        size_t bytes, const char *name, tdm_error *err);
void tdm_gguf_destroy(tdm_gguf *gguf);

size_t tdm_gguf_n_tensors(const tdm_gguf *gguf);
/* name is NUL-terminated and owned by the gguf; offset is from the start of the file. Past the end
 * NULL and 0; the same holds for keys. */
const char *tdm_gguf_tensor_name(const tdm_gguf *gguf, size_t idx);
const tdm_tensor_view *tdm_gguf_tensor_view(const tdm_gguf *gguf, size_t idx);
uint64_t tdm_gguf_tensor_offset(const tdm_gguf *gguf, size_t idx);
/* false when there is none of that name. */
bool tdm_gguf_find_tensor(const tdm_gguf *gguf, const char *name, size_t *out_idx);
uint32_t tdm_gguf_version(const tdm_gguf *gguf);
/* general.architecture, NUL-terminated and owned by the gguf; NULL when absent or no plain text. */
const char *tdm_gguf_architecture(const tdm_gguf *gguf);

/* Bytes of the data part that no tensor uses. Odd, not wrong: the caller warns or refuses. */
typedef struct tdm_gguf_gaps {
    uint64_t hole_bytes;  /* between tensors, padding to the alignment not counted */
    uint64_t hole_offset; /* of the first hole, in the file */
    uint64_t trailing_bytes;
} tdm_gguf_gaps;
tdm_gguf_gaps tdm_gguf_gaps_of(const tdm_gguf *gguf);

/* Metadata by key. has answers presence; the typed getters leave *out alone and return false when
 * the key is absent or of another type (integers of any width convert when the value fits; floats
 * do not become integers). */
size_t tdm_gguf_n_keys(const tdm_gguf *gguf);
const char *tdm_gguf_key_at(const tdm_gguf *gguf, size_t idx, tdm_gguf_type *out_type);
bool tdm_gguf_has(const tdm_gguf *gguf, const char *key);
bool tdm_gguf_get_u64(const tdm_gguf *gguf, const char *key, uint64_t *out);
bool tdm_gguf_get_i64(const tdm_gguf *gguf, const char *key, int64_t *out);
bool tdm_gguf_get_f64(const tdm_gguf *gguf, const char *key, double *out); /* F32 or F64, finite */
bool tdm_gguf_get_bool(const tdm_gguf *gguf, const char *key, bool *out);
bool tdm_gguf_get_text(const tdm_gguf *gguf, const char *key, tdm_gguf_text *out);
/* Arrays. n is set and the element type returned through out_type; false when absent or not an
 * array. */
bool tdm_gguf_array(const tdm_gguf *gguf, const char *key, tdm_gguf_type *out_type, size_t *out_n);
/* Element idx < n of an array; strings are found by walking over those in front. Elements of a bool
 * array are read as integers 0 and 1; no other type converts. */
bool tdm_gguf_array_text(const tdm_gguf *gguf, const char *key, size_t idx, tdm_gguf_text *out);
bool tdm_gguf_array_i64(const tdm_gguf *gguf, const char *key, size_t idx, int64_t *out);
bool tdm_gguf_array_f64(const tdm_gguf *gguf, const char *key, size_t idx, double *out);
/* For long loops over one array: a handle that skips the search by key, and, for strings in
 * ascending order, the walk. */
typedef struct tdm_gguf_array_ref {
    const struct tdm_gguf_value *value;
    tdm_gguf_type type;
    size_t n;
    size_t next; /* the string that lies at next_at */
    const uint8_t *next_at;
} tdm_gguf_array_ref;
bool tdm_gguf_array_find(const tdm_gguf *gguf, const char *key, tdm_gguf_array_ref *out);
bool tdm_gguf_ref_text(tdm_gguf_array_ref *ref, size_t idx, tdm_gguf_text *out);
bool tdm_gguf_ref_i64(const tdm_gguf_array_ref *ref, size_t idx, int64_t *out);
bool tdm_gguf_ref_f64(const tdm_gguf_array_ref *ref, size_t idx, double *out);

#endif
