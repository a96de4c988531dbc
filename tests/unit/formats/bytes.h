/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte strings for tests: appended to, little-endian, freed once. And writers of small GGUF and
 * safetensors files that remember where each field lies, so that a test can change one. */
#ifndef TDM_TESTS_UNIT_FORMATS_BYTES_H
#define TDM_TESTS_UNIT_FORMATS_BYTES_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    uint8_t *data;
    size_t len;
    size_t cap;
} bytes;

static inline void bytes_put(bytes *b, const void *data, size_t len) {
    if (b->cap - b->len < len) {
        b->cap = (b->cap + len) * 2 + 64;
        b->data = realloc(b->data, b->cap);
        if (b->data == NULL) {
            abort(); /* a test machine without memory proves nothing */
        }
    }
    if (len > 0) {
        memcpy(b->data + b->len, data, len);
        b->len += len;
    }
}

static inline void bytes_free(bytes *b) {
    free(b->data);
    memset(b, 0, sizeof *b);
}

static inline void bytes_number(bytes *b, uint64_t value, size_t width) {
    uint8_t raw[8];
    for (size_t i = 0; i < width; i++) {
        raw[i] = (uint8_t)(value >> (8 * i));
    }
    bytes_put(b, raw, width);
}

static inline void bytes_set(bytes *b, size_t at, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) {
        b->data[at + i] = (uint8_t)(value >> (8 * i));
    }
}

static inline uint64_t bytes_get(const bytes *b, size_t at, size_t width) {
    uint64_t value = 0;
    for (size_t i = width; i > 0; i--) {
        value = value << 8 | b->data[at + i - 1];
    }
    return value;
}

static inline void bytes_u32(bytes *b, uint32_t value) {
    bytes_number(b, value, 4);
}

static inline void bytes_u64(bytes *b, uint64_t value) {
    bytes_number(b, value, 8);
}

static inline void bytes_f32(bytes *b, float value) {
    uint32_t raw = 0;
    memcpy(&raw, &value, sizeof raw);
    bytes_u32(b, raw);
}

static inline void bytes_fill(bytes *b, uint8_t value, size_t len) {
    for (size_t i = 0; i < len; i++) {
        bytes_put(b, &value, 1);
    }
}

static inline void bytes_pad(bytes *b, size_t align) {
    while (b->len % align != 0) {
        bytes_fill(b, 0, 1);
    }
}

static inline void bytes_vformat(bytes *b, const char *fmt, va_list args)
    __attribute__((format(printf, 2, 0)));
static inline void bytes_vformat(bytes *b, const char *fmt, va_list args) {
    char text[4096];
    const int n = vsnprintf(text, sizeof text, fmt, args);
    if (n < 0 || (size_t)n >= sizeof text) {
        abort();
    }
    bytes_put(b, text, (size_t)n);
}

static inline void bytes_format(bytes *b, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline void bytes_format(bytes *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    bytes_vformat(b, fmt, args);
    va_end(args);
}

static inline bytes bytes_copy(const bytes *b) {
    bytes copy = {0};
    bytes_put(&copy, b->data, b->len);
    return copy;
}

/* A GGUF string: length and bytes. */
static inline void gguf_text(bytes *b, const char *text) {
    bytes_u64(b, strlen(text));
    bytes_put(b, text, strlen(text));
}

/* Key and type; the value follows by hand. */
static inline void gguf_key(bytes *b, const char *key, uint32_t type) {
    gguf_text(b, key);
    bytes_u32(b, type);
}

static inline void gguf_kv_u32(bytes *b, const char *key, uint32_t value) {
    gguf_key(b, key, 4);
    bytes_u32(b, value);
}

static inline void gguf_kv_f32(bytes *b, const char *key, float value) {
    gguf_key(b, key, 6);
    bytes_f32(b, value);
}

static inline void gguf_kv_text(bytes *b, const char *key, const char *value) {
    gguf_key(b, key, 8);
    gguf_text(b, value);
}

static inline void gguf_head(bytes *b, uint64_t n_tensors, uint64_t n_keys) {
    bytes_put(b, "GGUF", 4);
    bytes_u32(b, 3);
    bytes_u64(b, n_tensors);
    bytes_u64(b, n_keys);
}

static inline void gguf_tensor(bytes *b, const char *name, uint64_t ne0, uint64_t ne1,
                               uint32_t type, uint64_t offset) {
    gguf_text(b, name);
    bytes_u32(b, ne1 > 0 ? 2 : 1);
    bytes_u64(b, ne0);
    if (ne1 > 0) {
        bytes_u64(b, ne1);
    }
    bytes_u32(b, type);
    bytes_u64(b, offset);
}

/* A file that parses: 3 keys, 2 tensors ("a" F32 [8, 2] row-major, "b" Q8_0 [32]). */
static inline bytes gguf_small(void) {
    bytes b = {0};
    gguf_head(&b, 2, 3);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_u32(&b, "llama.block_count", 7);
    gguf_key(&b, "tokens", 9);
    bytes_u32(&b, 8);
    bytes_u64(&b, 3);
    gguf_text(&b, "x");
    gguf_text(&b, "");
    gguf_text(&b, "yz");
    gguf_tensor(&b, "a", 2, 8, 0, 0);
    gguf_tensor(&b, "b", 32, 0, 8, 64);
    bytes_pad(&b, 32);
    bytes_fill(&b, 1, 64);
    bytes_fill(&b, 2, 34);
    bytes_pad(&b, 32);
    return b;
}

/* A safetensors file around a header text, with data_bytes of data. */
static inline bytes safetensors_of(const char *header, size_t data_bytes) {
    bytes b = {0};
    bytes_u64(&b, strlen(header));
    bytes_put(&b, header, strlen(header));
    bytes_fill(&b, 5, data_bytes);
    return b;
}

#endif
