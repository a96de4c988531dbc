/* SPDX-License-Identifier: Apache-2.0
 *
 * 6,000 GGUF files. A base file is written with the place of each field noted; families change one
 * thing each. Splits, key rules and controls are in gguf_more_cases.h. */
#ifndef TDM_TESTS_FAULT_MALFORMED_GGUF_CASES_H
#define TDM_TESTS_FAULT_MALFORMED_GGUF_CASES_H

#include "fault/malformed/case.h"

/* Where the fields of the base file lie. */
typedef struct gguf_map {
    size_t lengths[64]; /* of strings: keys, values, elements, tensor names */
    size_t n_lengths;
    size_t types[32]; /* of values */
    size_t n_types;
    size_t item_types[8];
    size_t n_item_types;
    size_t header_end; /* before the padding */
    size_t data_start;
} gguf_map;

static inline void map_text(bytes *b, gguf_map *map, const char *text) {
    map->lengths[map->n_lengths++] = b->len;
    gguf_text(b, text);
}

static inline void map_key(bytes *b, gguf_map *map, const char *key, uint32_t type) {
    map_text(b, map, key);
    map->types[map->n_types++] = b->len;
    bytes_u32(b, type);
}

/* 9 keys, 3 tensors with data back to back. Texts are no plausible lengths, so that a shifted read
 * can not parse by chance. */
static inline bytes gguf_base(gguf_map *map) {
    static const uint32_t WIDTHS[] = {1, 2, 4, 8};
    static const uint32_t WIDTH_TYPES[] = {0, 2, 4, 10};
    bytes b = {0};
    memset(map, 0, sizeof *map);
    gguf_head(&b, 3, 9);
    map_key(&b, map, "general.architecture", 8);
    map_text(&b, map, "tandemcase");
    for (size_t i = 0; i < 4; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "width.of.%u.bytes", WIDTHS[i]);
        map_key(&b, map, key, WIDTH_TYPES[i]);
        bytes_fill(&b, 0x71, WIDTHS[i]);
    }
    map_key(&b, map, "a.float", 6);
    bytes_f32(&b, 1.25F);
    map_key(&b, map, "an.array.of.texts", 9);
    map->item_types[map->n_item_types++] = b.len;
    bytes_u32(&b, 8);
    bytes_u64(&b, 3);
    map_text(&b, map, "firstword");
    map_text(&b, map, "secondword");
    map_text(&b, map, "thirdword");
    map_key(&b, map, "an.array.of.numbers", 9);
    map->item_types[map->n_item_types++] = b.len;
    bytes_u32(&b, 4);
    bytes_u64(&b, 5);
    bytes_fill(&b, 0x72, 20);
    map_key(&b, map, "last.key.of.all", 8);
    map_text(&b, map, "lastvalue");
    for (uint32_t i = 0; i < 3; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tensor.number.%u", i);
        map->lengths[map->n_lengths++] = b.len;
        gguf_tensor(&b, name, 16, 2, 0, (uint64_t)i * 128);
    }
    map->header_end = b.len;
    bytes_pad(&b, 32);
    map->data_start = b.len;
    bytes_fill(&b, 0x73, 384);
    return b;
}

/* Cut anywhere: only a whole file parses. */
static inline void gguf_truncated(malformed_case *c) {
    gguf_map map;
    bytes b = gguf_base(&map);
    size_t cut = c->number;
    if (cut >= map.data_start) { /* 64 points of the data, from then on at random */
        cut = map.data_start + (c->number - map.data_start) * 6 % (b.len - map.data_start);
    }
    case_label(c, "truncated to %zu of %zu", cut, b.len);
    b.len = cut;
    (void)case_file(c, "m.gguf", b);
    c->expected = EXPECT_REJECT;
}

static inline void gguf_heads(malformed_case *c) {
    gguf_map map;
    bytes b = gguf_base(&map);
    const uint32_t field = c->number % 4;
    const uint32_t step = c->number / 4;
    uint64_t value = 0;
    if (field == 0) { /* magic: one byte changed */
        const size_t at = step % 4;
        const uint8_t change = (uint8_t)(1 + case_random(c, 255));
        b.data[at] ^= change;
        case_label(c, "magic byte %zu", at);
        case_expect(c, false);
    } else if (field == 1) {
        value = step < 12 ? step : case_random(c, UINT32_MAX);
        bytes_set(&b, 4, value, 4);
        case_label(c, "version %llu", (unsigned long long)value);
        case_expect(c, value == 2 || value == 3);
    } else if (field == 2) {
        value = step < 24 ? case_boundary(step, 3) : case_random(c, UINT64_MAX - 4) + 4;
        bytes_set(&b, 8, value, 8);
        case_label(c, "tensor count %llu of 3", (unsigned long long)value);
        /* Fewer tensors leave bytes behind the last, which is legal. */
        case_expect(c, value <= 3);
    } else {
        value = step < 24 ? case_boundary(step, 9) : case_random(c, UINT64_MAX - 10) + 10;
        bytes_set(&b, 16, value, 8);
        case_label(c, "key count %llu of 9", (unsigned long long)value);
        case_expect(c, value == 9);
    }
    (void)case_file(c, "m.gguf", b);
}

static inline void gguf_lengths(malformed_case *c) {
    gguf_map map;
    bytes b = gguf_base(&map);
    const size_t at = map.lengths[c->number % map.n_lengths];
    const uint64_t actual = bytes_get(&b, at, 8);
    const size_t step = c->number / map.n_lengths;
    const uint64_t value =
        step < CASE_BOUNDARIES ? case_boundary(step, actual) : case_random(c, 2 * actual + 400);
    bytes_set(&b, at, value, 8);
    case_label(c, "string length %llu instead of %llu at %zu", (unsigned long long)value,
               (unsigned long long)actual, at);
    case_expect(c, value == actual);
    (void)case_file(c, "m.gguf", b);
}

static inline uint32_t gguf_width(uint32_t type) {
    static const uint32_t WIDTHS[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < 13 ? WIDTHS[type] : 0;
}

/* Another type for a value or an element: legal only where the width stays the same. */
static inline void gguf_types(malformed_case *c) {
    gguf_map map;
    bytes b = gguf_base(&map);
    const size_t n = map.n_types + map.n_item_types;
    const size_t pick = c->number % n;
    const bool is_item = pick >= map.n_types;
    const size_t at = is_item ? map.item_types[pick - map.n_types] : map.types[pick];
    const uint32_t old = (uint32_t)bytes_get(&b, at, 4);
    const uint64_t step = c->number / n;
    const uint64_t type = step < 24 ? step : case_random(c, UINT32_MAX);
    bytes_set(&b, at, type, 4);
    case_label(c, "%s type %llu instead of %u", is_item ? "element" : "value",
               (unsigned long long)type, old);
    case_expect(c, type == old || (type < 13 && gguf_width((uint32_t)type) != 0 &&
                                   gguf_width((uint32_t)type) == gguf_width(old)));
    (void)case_file(c, "m.gguf", b);
}

/* ---- one tensor, and what the format says of it, in 128 bits ---- */

__extension__ typedef unsigned __int128 wide;

typedef struct block_of {
    uint32_t id, weights, width;
} block_of;

/* The types of the format as shared/spec/gguf.md lists them; written down a second time on purpose.
 */
static const block_of GGUF_BLOCKS[] = {
    {0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
    {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
    {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
    {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
    {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
    {35, 256, 66},  {39, 32, 17},   {40, 64, 36},  {41, 128, 18},  {42, 64, 18},
};

static inline const block_of *gguf_block(uint32_t id) {
    for (size_t i = 0; i < sizeof GGUF_BLOCKS / sizeof GGUF_BLOCKS[0]; i++) {
        if (GGUF_BLOCKS[i].id == id) {
            return &GGUF_BLOCKS[i];
        }
    }
    return NULL;
}

static inline uint64_t gguf_dim(malformed_case *c) {
    static const uint64_t DIMS[] = {0,
                                    1,
                                    2,
                                    31,
                                    32,
                                    64,
                                    128,
                                    256,
                                    257,
                                    512,
                                    1U << 16,
                                    (uint64_t)1 << 31,
                                    (uint64_t)1 << 32,
                                    (uint64_t)1 << 62,
                                    (uint64_t)1 << 63,
                                    UINT64_MAX};
    /* Small ones half of the time, so that some tensors are legal. */
    return DIMS[case_chance(c, 70) ? 1 + case_random(c, 9)
                                   : case_random(c, sizeof DIMS / sizeof DIMS[0])];
}

static inline void gguf_one_tensor(malformed_case *c) {
    bytes b = {0};
    uint64_t dims[8];
    const uint32_t rank =
        case_chance(c, 90) ? 1 + (uint32_t)case_random(c, 4) : (uint32_t)case_random(c, 7);
    const uint32_t id = case_chance(c, 90) ? c->number % 46 : (uint32_t)case_random(c, UINT32_MAX);
    const block_of *block = gguf_block(id);
    const size_t data_bytes = case_chance(c, 80) ? 4096 : case_random(c, 200);
    wide elements = 1;
    bool is_legal = block != NULL && rank >= 1 && rank <= 4;
    gguf_head(&b, 1, 0);
    gguf_text(&b, "t");
    bytes_u32(&b, rank);
    for (uint32_t i = 0; i < rank; i++) {
        dims[i] = gguf_dim(c);
        bytes_u64(&b, dims[i]);
        is_legal = is_legal && dims[i] >= 1 && dims[i] <= INT64_MAX;
        elements = elements > ((wide)1 << 64) ? elements : elements * dims[i]; /* saturates */
    }
    bytes_u32(&b, id);
    bytes_u64(&b, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, data_bytes);
    if (is_legal) {
        is_legal = dims[0] % block->weights == 0 && elements <= INT64_MAX &&
                   elements / block->weights * block->width <= data_bytes;
    }
    case_label(c, "type %u rank %u data %zu", id, rank, data_bytes);
    case_expect(c, is_legal);
    (void)case_file(c, "m.gguf", b);
}

/* Two to five F32 vectors at offsets of their own: aligned, inside, apart. */
static inline void gguf_offsets(malformed_case *c) {
    bytes b = {0};
    uint64_t at[5];
    uint64_t len[5];
    const size_t n = 2 + case_random(c, 4);
    const uint64_t space = 32 * n * 3;
    bool is_legal = true;
    gguf_head(&b, n, 0);
    for (size_t i = 0; i < n; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "t%zu", i);
        len[i] = 4 * (1 + case_random(c, 16));
        at[i] = case_chance(c, 30) ? 32 * case_random(c, space / 32) : 96 * i;
        if (case_chance(c, 5)) {
            at[i] = case_boundary(case_random(c, CASE_BOUNDARIES), at[i]);
        }
        is_legal = is_legal && at[i] % 32 == 0 && (wide)at[i] + len[i] <= space;
        for (size_t j = 0; j < i; j++) {
            is_legal = is_legal && ((wide)at[i] + len[i] <= at[j] || (wide)at[j] + len[j] <= at[i]);
        }
        gguf_tensor(&b, name, len[i] / 4, 0, 0, at[i]);
    }
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, space);
    case_label(c, "%zu tensors at offsets of their own", n);
    case_expect(c, is_legal);
    (void)case_file(c, "m.gguf", b);
}

static inline void gguf_alignments(malformed_case *c) {
    static const uint32_t WIDTH_TYPES[] = {0, 2, 4, 10, 1, 3, 5, 11, 6, 12, 7};
    bytes b = {0};
    const uint32_t step = c->number / 11;
    const uint32_t type = WIDTH_TYPES[c->number % 11];
    const uint64_t value = step < 18 ? (uint64_t)1 << step : case_random(c, 200);
    const bool is_int = type != 6 && type != 12 && type != 7;
    const uint32_t bits = 8 * gguf_width(type);
    const bool is_signed = type == 1 || type == 3 || type == 5 || type == 11;
    const bool fits = bits == 64 || value < (uint64_t)1 << (is_signed ? bits - 1 : bits);
    const bool is_legal =
        is_int && fits && value >= 8 && value <= 65536 && (value & (value - 1)) == 0;
    gguf_head(&b, 1, 1);
    gguf_key(&b, "general.alignment", type);
    bytes_number(&b, value, gguf_width(type));
    gguf_tensor(&b, "t", 1, 0, 0, 0);
    bytes_pad(&b, is_legal ? value : 32);
    bytes_fill(&b, 0, 4);
    case_label(c, "alignment %llu as type %u", (unsigned long long)value, type);
    case_expect(c, is_legal);
    (void)case_file(c, "m.gguf", b);
}

#endif
