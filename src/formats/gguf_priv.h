/* SPDX-License-Identifier: Apache-2.0
 *
 * What gguf.c (the parser) and gguf_meta.c (the getters) share. Floor 3, private to formats. */
#ifndef TDM_FORMATS_GGUF_PRIV_H
#define TDM_FORMATS_GGUF_PRIV_H

#include "formats/gguf.h"
#include "formats/names_priv.h"

/* A metadata value, where it lies in the file. */
typedef struct tdm_gguf_value {
    tdm_gguf_type type;
    tdm_gguf_type item_type; /* of an array */
    const uint8_t *data;     /* scalar; string's bytes; array's first element */
    uint64_t n;              /* string: bytes; array: elements */
} tdm_gguf_value;

typedef struct tdm_gguf_kv {
    const char *key; /* NUL-terminated */
    tdm_gguf_value value;
} tdm_gguf_kv;

typedef struct tdm_gguf_tensor {
    const char *name; /* NUL-terminated */
    tdm_tensor_view view;
    uint64_t offset; /* in the file */
} tdm_gguf_tensor;

struct tdm_gguf {
    const tdm_alloc *alloc;
    tdm_arena arena; /* keys, names, string indexes */
    tdm_gguf_kv *kvs;
    size_t n_kvs;
    size_t kvs_cap;
    tdm_names by_key;
    tdm_gguf_tensor *tensors;
    size_t n_tensors;
    size_t tensors_cap;
    tdm_names by_name;
    const char *architecture;
    uint32_t version;
    tdm_gguf_gaps gaps;
};

/* Little-endian loads from unaligned bytes. */
static inline uint32_t tdm_gguf_load_u32(const uint8_t *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t tdm_gguf_load_u64(const uint8_t *at) {
    const uint64_t high = tdm_gguf_load_u32(at + 4);
    return high << 32 | tdm_gguf_load_u32(at); /* bounded: high has 32 bits */
}

/* Bytes of a value of that type; 0 for strings and arrays. type must be known. */
uint32_t tdm_gguf_type_bytes(tdm_gguf_type type);

#endif
