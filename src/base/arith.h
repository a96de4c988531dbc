/* SPDX-License-Identifier: Apache-2.0
 *
 * Checked arithmetic for numbers that come from outside. Floor 0. Each returns false on overflow
 * and then leaves *out as it was. */
#ifndef TDM_BASE_ARITH_H
#define TDM_BASE_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool tdm_add_size(size_t a, size_t b, size_t *out) {
    size_t r = 0;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

static inline bool tdm_mul_size(size_t a, size_t b, size_t *out) {
    size_t r = 0;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

/* Rounds a up to a multiple of align, a power of two. */
static inline bool tdm_pad_size(size_t a, size_t align, size_t *out) {
    size_t r = 0;
    if (__builtin_add_overflow(a, align - 1, &r)) {
        return false;
    }
    *out = r & ~(align - 1);
    return true;
}

static inline bool tdm_add_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r = 0;
    if (__builtin_add_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

static inline bool tdm_mul_i64(int64_t a, int64_t b, int64_t *out) {
    int64_t r = 0;
    if (__builtin_mul_overflow(a, b, &r)) {
        return false;
    }
    *out = r;
    return true;
}

/* A range [offset, offset + bytes) lies inside [0, total). */
static inline bool tdm_range_is_inside(size_t offset, size_t bytes, size_t total) {
    return offset <= total && bytes <= total - offset;
}

static inline bool tdm_is_power_of_two(size_t a) {
    return a != 0 && (a & (a - 1)) == 0;
}

#endif
