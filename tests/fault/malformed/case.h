/* SPDX-License-Identifier: Apache-2.0
 *
 * A malformed (or odd but legal) checkpoint with the answer that it must get. Cases are made from a
 * number alone, so that the corpus is its generator: number 4711 of a family is the same
 * everywhere. The expectation comes from the generator's own knowledge of what it changed, never
 * from the reader under test. */
#ifndef TDM_TESTS_FAULT_MALFORMED_CASE_H
#define TDM_TESTS_FAULT_MALFORMED_CASE_H

#include "base/random.h"
#include "formats/config.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

typedef enum expectation { EXPECT_OK, EXPECT_REJECT, EXPECT_EITHER } expectation;

#define CASE_FILES_MAX 8

typedef struct malformed_case {
    char label[160];
    char paths[CASE_FILES_MAX][80];
    bytes files[CASE_FILES_MAX];
    size_t n_files;
    const char *open; /* path to open; NULL: the first file */
    bool is_strict;
    bool reads_config; /* the expectation is for opening and reading the configuration */
    bool reads_generation;
    expectation expected;
    /* the random stream */
    uint32_t number;
    uint32_t draw;
    uint64_t seed;
} malformed_case;

static inline void case_init(malformed_case *c, uint64_t seed, uint32_t number) {
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->number = number;
}

static inline void case_free(malformed_case *c) {
    for (size_t i = 0; i < c->n_files; i++) {
        bytes_free(&c->files[i]);
    }
}

/* Uniform below n. */
static inline uint64_t case_random(malformed_case *c, uint64_t n) {
    return tdm_random_u64(c->seed, c->number, 0, c->draw++) % n;
}

static inline bool case_chance(malformed_case *c, uint32_t percent) {
    return case_random(c, 100) < percent;
}

/* Takes over the bytes. */
static inline bytes *case_file(malformed_case *c, const char *path, bytes data) {
    bytes *file = &c->files[c->n_files];
    (void)snprintf(c->paths[c->n_files], sizeof c->paths[0], "%s", path);
    *file = data;
    c->n_files++;
    return file;
}

static inline bytes bytes_of_text(const char *text) {
    bytes b = {0};
    bytes_put(&b, text, strlen(text));
    return b;
}

static inline void case_label(malformed_case *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static inline void case_label(malformed_case *c, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(c->label, sizeof c->label, fmt, args);
    va_end(args);
}

static inline void case_expect(malformed_case *c, bool is_ok) {
    c->expected = is_ok ? EXPECT_OK : EXPECT_REJECT;
}

/* The boundary values of reliability.md 3.5, around a true value. */
#define CASE_BOUNDARIES 14
static inline uint64_t case_boundary(size_t idx, uint64_t actual) {
    const uint64_t values[CASE_BOUNDARIES] = {
        0,
        1,
        actual - 1,
        actual + 1,
        actual * 2 + 1,
        65536,
        1048577,
        (uint64_t)1 << 31,
        UINT32_MAX,
        (uint64_t)1 << 32,
        (uint64_t)1 << 62,
        ((uint64_t)1 << 63) - 1,
        (uint64_t)1 << 63,
        UINT64_MAX,
    };
    return values[idx % CASE_BOUNDARIES];
}

/* A family: count cases made by make, which sees numbers from 0. */
typedef struct case_family {
    const char *name;
    uint32_t count;
    void (*make)(malformed_case *c);
} case_family;

/* Case number of a list of families; c->number becomes the number within its family. */
static inline void case_make(malformed_case *c, const case_family *families, size_t n_families,
                             uint64_t seed, uint32_t number) {
    for (size_t i = 0; i < n_families; i++) {
        if (number < families[i].count) {
            case_init(c, seed + i, number);
            families[i].make(c);
            return;
        }
        number -= families[i].count;
    }
    abort(); /* the caller counts the families */
}

static inline uint32_t case_count(const case_family *families, size_t n_families) {
    uint32_t count = 0;
    for (size_t i = 0; i < n_families; i++) {
        count += families[i].count;
    }
    return count;
}

#endif
