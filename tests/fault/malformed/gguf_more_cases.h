/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF families about names, nesting and splits, the legal oddities, and plain noise; and the list
 * of all families. */
#ifndef TDM_TESTS_FAULT_MALFORMED_GGUF_MORE_CASES_H
#define TDM_TESTS_FAULT_MALFORMED_GGUF_MORE_CASES_H

#include "fault/malformed/gguf_cases.h"

typedef struct name_of {
    const char *data;
    size_t len; /* 0 with data: strlen */
    bool is_legal;
} name_of;

/* Keys and tensor names of every kind; tensor names have a lower limit of length. */
static inline void gguf_names(malformed_case *c) {
    static const name_of NAMES[] = {
        {"plain", 0, true},
        {"", 0, false},
        {"a\0b", 3, false},
        {"\0", 1, false},
        {"\xc3\xa4", 0, true},
        {"\xf0\x9f\x98\x80", 0, true},
        {"\xff", 0, false},
        {"\xc0\x80", 0, false},         /* overlong */
        {"\xed\xa0\x80", 0, false},     /* surrogate */
        {"\xf4\x90\x80\x80", 0, false}, /* past U+10FFFF */
        {"cut\xe2\x82", 0, false},
        {" ", 0, true},
        {"../../etc/passwd", 0, true}, /* a name, never a path */
        {"%s%n%s", 0, true},
        {"\n\t", 0, true},
    };
    static const size_t LENGTHS[] = {1, 62, 63, 64, 65, 300, 65535, 65536, 70000};
    const bool is_key = c->number % 2 == 0;
    const uint32_t step = c->number / 2;
    const bool is_twin = step % 6 == 5;
    const size_t n_names = sizeof NAMES / sizeof NAMES[0];
    const size_t n_lengths = sizeof LENGTHS / sizeof LENGTHS[0];
    const size_t pick = step % (n_names + n_lengths);
    bytes name = {0};
    bytes b = {0};
    bool is_legal = true;
    if (pick < n_names) {
        const size_t len = NAMES[pick].len != 0 ? NAMES[pick].len : strlen(NAMES[pick].data);
        bytes_put(&name, NAMES[pick].data, len);
        is_legal = NAMES[pick].is_legal;
    } else {
        bytes_fill(&name, (uint8_t)('a' + case_random(c, 26)), LENGTHS[pick - n_names]);
        is_legal = name.len <= (is_key ? 65535U : 63U);
    }
    gguf_head(&b, is_key ? 0 : is_twin ? 2 : 1, is_key ? (is_twin ? 2 : 1) : 0);
    for (uint64_t i = 0; i < (is_twin ? 2U : 1U); i++) {
        bytes_u64(&b, name.len);
        bytes_put(&b, name.data, name.len);
        if (is_key) {
            bytes_u32(&b, 0);
            bytes_fill(&b, 1, 1);
        } else {
            bytes_u32(&b, 1);
            bytes_u64(&b, 8);
            bytes_u32(&b, 0);
            bytes_u64(&b, i * 32);
        }
    }
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 64);
    case_label(c, "%s name %zu, %zu bytes%s", is_key ? "key" : "tensor", pick, name.len,
               is_twin ? ", twice" : "");
    case_expect(c, is_legal && !is_twin);
    bytes_free(&name);
    (void)case_file(c, "m.gguf", b);
}

/* A tree of arrays: depth levels, a few siblings a level, scalars or texts at the bottom. */
static inline void gguf_nesting(malformed_case *c) {
    const uint32_t depth = 1 + c->number % 9;
    const uint32_t bottom = (uint32_t)case_random(c, 13);
    const uint32_t item = bottom == 9 ? 8 : bottom;
    const uint64_t n_items = case_random(c, 4);
    bytes b = {0};
    gguf_head(&b, 0, 2);
    gguf_key(&b, "tree", 9);
    for (uint32_t level = 1; level < depth; level++) {
        bytes_u32(&b, 9);
        bytes_u64(&b, 1);
    }
    bytes_u32(&b, item);
    bytes_u64(&b, n_items);
    for (uint64_t i = 0; i < n_items; i++) {
        if (item == 8) {
            gguf_text(&b, "leaf");
        } else {
            bytes_fill(&b, 1, gguf_width(item));
        }
    }
    gguf_kv_u32(&b, "behind", 1);
    case_label(c, "arrays %u deep of type %u", depth, item);
    case_expect(c, depth <= 4);
    (void)case_file(c, "m.gguf", b);
}

static inline bytes split_part(uint32_t no, uint32_t count, uint32_t total, const char *tensor) {
    bytes b = {0};
    gguf_head(&b, 1, 3);
    gguf_kv_u32(&b, "split.no", no);
    gguf_kv_u32(&b, "split.count", count);
    gguf_kv_u32(&b, "split.tensors.count", total);
    gguf_tensor(&b, tensor, 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, (uint8_t)no, 32);
    return b;
}

/* n parts; one mishap, or none. */
static inline void gguf_splits(malformed_case *c) {
    static const char *const MISHAPS[] = {"none",        "missing",     "later opened", "wrong no",
                                          "wrong count", "wrong total", "twin tensor",  "joined",
                                          "truncated",   "renamed",     "folder"};
    static const char *const FOLDER = "s";
    const uint32_t mishap = c->number % 11;
    const uint32_t n = 2 + (uint32_t)case_random(c, 5);
    const uint32_t victim = 1 + (uint32_t)case_random(c, n - 1);
    for (uint32_t i = 0; i < n; i++) {
        char path[80];
        char tensor[24];
        const bool is_victim = i == victim;
        uint32_t no = i;
        uint32_t count = n;
        bytes b = {0};
        (void)snprintf(tensor, sizeof tensor, "t%u", is_victim && mishap == 6 ? i - 1 : i);
        if (is_victim && mishap == 3) {
            no = (uint32_t)case_boundary(case_random(c, CASE_BOUNDARIES), i + 1);
            no = no == i ? i + 1 : no;
        }
        if (is_victim && mishap == 4) {
            count = n + 1 + (uint32_t)case_random(c, 3);
        }
        b = split_part(no, count, mishap == 5 ? n + 1 : n, tensor);
        if (is_victim && mishap == 8) {
            b.len -= 1 + case_random(c, b.len - 1);
        }
        if (i == 0 && mishap == 7) {
            bytes second = split_part(1, n, n, "t1");
            bytes_put(&b, second.data, second.len);
            bytes_free(&second);
        }
        if (is_victim && mishap == 1) {
            bytes_free(&b);
            continue;
        }
        (void)snprintf(path, sizeof path,
                       i == 0 && mishap == 9 ? "s/model.gguf" : "s/m-%05u-of-%05u.gguf", i + 1, n);
        (void)case_file(c, path, b);
    }
    c->open = mishap == 10 ? FOLDER : c->paths[mishap == 2 ? victim : 0];
    case_label(c, "split of %u: %s", n, MISHAPS[mishap]);
    case_expect(c, mishap == 0 || mishap == 10);
}

/* Legal and odd: any order, gaps, trailing bytes, both versions, unknown keys of every type. */
static inline void gguf_controls(malformed_case *c) {
    bytes b = {0};
    const uint64_t n_keys = case_random(c, 30);
    const uint64_t n_tensors = case_random(c, 12);
    uint64_t at[12] = {0};
    uint64_t end = 0;
    gguf_head(&b, n_tensors, n_keys);
    bytes_set(&b, 4, 2 + case_random(c, 2), 4);
    for (uint64_t i = 0; i < n_keys; i++) {
        const uint32_t type = (uint32_t)case_random(c, 13);
        char key[32];
        (void)snprintf(key, sizeof key, "key.%llu", (unsigned long long)i);
        gguf_key(&b, key, type);
        if (type == 8) {
            gguf_text(&b, case_chance(c, 50) ? "" : "not \xff UTF-8");
        } else if (type == 9) {
            const uint32_t item = (uint32_t)case_random(c, 8);
            const uint64_t n = case_random(c, 20);
            bytes_u32(&b, item);
            bytes_u64(&b, n);
            bytes_fill(&b, 0xfe, n * gguf_width(item));
        } else {
            bytes_fill(&b, (uint8_t)case_random(c, 256), gguf_width(type));
        }
    }
    for (uint64_t i = 0; i < n_tensors; i++) { /* places first, handed out from the back */
        at[n_tensors - 1 - i] = end;
        end += 64 + 32 * case_random(c, 3);
    }
    for (uint64_t i = 0; i < n_tensors; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "tensor.%llu", (unsigned long long)i);
        gguf_tensor(&b, name, 1 + case_random(c, 16), 0, 0, at[i]);
    }
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, end + case_random(c, 100));
    case_label(c, "legal: %llu keys, %llu tensors", (unsigned long long)n_keys,
               (unsigned long long)n_tensors);
    case_expect(c, true);
    (void)case_file(c, "m.gguf", b);
}

static inline void gguf_noise(malformed_case *c) {
    gguf_map map;
    bytes b = gguf_base(&map);
    const uint64_t n = 1 + case_random(c, 8);
    for (uint64_t i = 0; i < n; i++) {
        b.data[case_random(c, map.header_end)] = (uint8_t)case_random(c, 256);
    }
    case_label(c, "%llu random bytes", (unsigned long long)n);
    c->expected = EXPECT_EITHER;
    (void)case_file(c, "m.gguf", b);
}

static const case_family GGUF_FAMILIES[] = {
    {"truncated", 700, gguf_truncated},    {"heads", 300, gguf_heads},
    {"lengths", 800, gguf_lengths},        {"types", 700, gguf_types},
    {"one tensor", 1200, gguf_one_tensor}, {"offsets", 600, gguf_offsets},
    {"alignments", 300, gguf_alignments},  {"names", 300, gguf_names},
    {"nesting", 200, gguf_nesting},        {"splits", 500, gguf_splits},
    {"controls", 300, gguf_controls},      {"noise", 100, gguf_noise},
};
#define GGUF_N_FAMILIES (sizeof GGUF_FAMILIES / sizeof GGUF_FAMILIES[0])

#endif
