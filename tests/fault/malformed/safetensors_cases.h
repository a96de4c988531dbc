/* SPDX-License-Identifier: Apache-2.0
 *
 * 4,000 safetensors folders: one file, or shards under an index. */
#ifndef TDM_TESTS_FAULT_MALFORMED_SAFETENSORS_CASES_H
#define TDM_TESTS_FAULT_MALFORMED_SAFETENSORS_CASES_H

#include "fault/malformed/case.h"

#define ST_CONFIG "d/config.json"
#define ST_SINGLE "d/model.safetensors"
#define ST_INDEX "d/model.safetensors.index.json"

/* A folder with a config.json and that one weight file. Takes over the bytes. */
static inline void st_folder(malformed_case *c, bytes file) {
    (void)case_file(c, ST_CONFIG, bytes_of_text("{}"));
    (void)case_file(c, ST_SINGLE, file);
    c->open = "d";
}

static inline bytes st_wrap(const bytes *header, size_t data_bytes) {
    bytes b = {0};
    bytes_u64(&b, header->len);
    bytes_put(&b, header->data, header->len);
    bytes_fill(&b, 5, data_bytes);
    return b;
}

/* Three U8 tensors of 8 bytes, back to back. */
static inline bytes st_base(void) {
    bytes header = {0};
    bytes file;
    bytes_format(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (int i = 0; i < 3; i++) {
        bytes_format(&header,
                     ",\"layer.%d\":{\"dtype\":\"U8\",\"shape\":[2,4],\"data_offsets\":[%d,%d]}", i,
                     8 * i, 8 * i + 8);
    }
    bytes_format(&header, "}");
    file = st_wrap(&header, 24);
    bytes_free(&header);
    return file;
}

static inline void st_lengths(malformed_case *c) {
    bytes b = st_base();
    const uint64_t actual = bytes_get(&b, 0, 8);
    const uint64_t value = c->number < CASE_BOUNDARIES ? case_boundary(c->number, actual)
                                                       : case_random(c, actual + 64);
    bytes_set(&b, 0, value, 8);
    case_label(c, "header length %llu of %llu", (unsigned long long)value,
               (unsigned long long)actual);
    case_expect(c, value == actual);
    st_folder(c, b);
}

static inline void st_truncated(malformed_case *c) {
    bytes b = st_base();
    const size_t cut = c->number % b.len;
    case_label(c, "truncated to %zu of %zu", cut, b.len);
    b.len = cut;
    st_folder(c, b);
    c->expected = EXPECT_REJECT;
}

typedef struct st_text {
    const char *entry; /* a member of the header; data is 8 bytes */
    bool is_legal;
} st_text;

#define ST_TAIL "\"shape\":[8],\"data_offsets\":[0,8]}"
static const st_text ST_TEXTS[] = {
    {"\"t\":{\"dtype\":\"U8\"," ST_TAIL, true},
    {" \"t\" : { \"shape\" : [ 8 ] ,\n\t\"dtype\":\"U8\",\"data_offsets\":[0,8] } ", true},
    {"\"\\u0074\":{\"\\u0064type\":\"\\u00558\"," ST_TAIL, true},
    {"\"t\":{\"data_offsets\":[0,8],\"dtype\":\"F64\",\"shape\":[]}", true},
    {"\"t\":{\"data_offsets\":[8,8],\"dtype\":\"F64\",\"shape\":[4,0]}", true},
    {"\"t\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,2,1,2,2],\"data_offsets\":[0,8]}", true},
    {"\"t\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[0,8]}", true},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[08],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8.0],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8e0],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[-8],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[\"8\"],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[null],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[[8]],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":8,\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":{},\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,8,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[8,0]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[1,9]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[7],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":8}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":[0,18446744073709551624]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[18446744073709551624],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967296,8],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,8],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"u8\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"F4\",\"shape\":[16],\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"F6_E3M2\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":8," ST_TAIL, false},
    {"\"t\":{\"dtype\":[\"U8\"]," ST_TAIL, false},
    {"\"t\":{" ST_TAIL, false},
    {"\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8]}", false},
    {"\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"U8\",\"shape\":[8]," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"U8\",\"more\":{}," ST_TAIL, false},
    {"\"t\":{\"DTYPE\":\"U8\"," ST_TAIL, false},
    {"\"t\":[]", false},
    {"\"t\":\"U8\"", false},
    {"\"t\":null", false},
    {"\"t\":true", false},
    {"\"\":{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"t\\u0000\":{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"\\ud800\":{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"\xc0\xaf\":{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"U8\"," ST_TAIL ",", false},
    {"\"t\":{\"dtype\":\"U8\",," ST_TAIL, false},
    {"'t':{\"dtype\":\"U8\"," ST_TAIL, false},
    {"t:{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"t\":{\"dtype\":\"U8\"," ST_TAIL "}", false},
    {"/* */\"t\":{\"dtype\":\"U8\"," ST_TAIL, false},
    {"\"__metadata__\":{\"k\":\"v\",\"w\":\"\"}", true},
    {"\"__metadata__\":{}", true},
    {"\"__metadata__\":{\"k\":1}", false},
    {"\"__metadata__\":{\"k\":{}}", false},
    {"\"__metadata__\":{\"k\":\"v\",\"k\":\"v\"}", false},
    {"\"__metadata__\":[]", false},
    {"\"__metadata__\":{},\"__metadata__\":{}", false},
};

/* One entry of the list above between neighbours, which may be none. */
static inline void st_texts(malformed_case *c) {
    const size_t n = sizeof ST_TEXTS / sizeof ST_TEXTS[0];
    const st_text *text = &ST_TEXTS[c->number % n];
    const uint64_t before = c->number < n ? 0 : case_random(c, 4);
    const uint64_t after = c->number < n ? 0 : case_random(c, 4);
    bytes header = {0};
    bytes_format(&header, "{");
    for (uint64_t i = 0; i < before + after; i++) {
        if (i == before) {
            bytes_format(&header, "%s,", text->entry);
        }
        bytes_format(&header,
                     "\"n%llu\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]}%s",
                     (unsigned long long)i, i + 1 < before + after || after == 0 ? "," : "");
    }
    if (after == 0) {
        bytes_format(&header, "%s", text->entry);
    }
    bytes_format(&header, "}");
    for (uint64_t i = case_random(c, 8); i > 0; i--) {
        bytes_format(&header, " ");
    }
    case_label(c, "%.120s", text->entry);
    case_expect(c, text->is_legal);
    st_folder(c, st_wrap(&header, 8));
    bytes_free(&header);
}

/* Random U8 ranges in a small file against a count of each byte; half of them under strict. */
static inline void st_offsets(malformed_case *c) {
    enum { SPACE = 48 };
    uint8_t used[SPACE + 64] = {0};
    const size_t data_bytes = case_chance(c, 50) ? SPACE : 1 + case_random(c, SPACE);
    const uint64_t n = 1 + case_random(c, 4);
    const bool is_tight = case_chance(c, 60); /* back to back, as writers do */
    bytes header = {0};
    uint64_t end = 0;
    bool is_legal = true;
    bool has_gaps = false;
    bytes_format(&header, "{");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t len =
            is_tight && i + 1 == n && end < data_bytes ? data_bytes - end : case_random(c, 17);
        const uint64_t from = is_tight ? end : case_random(c, SPACE);
        const uint64_t lie = case_chance(c, 4) ? 1 + case_random(c, 3) : 0;
        bytes_format(&header,
                     "%s\"t%llu\":{\"dtype\":\"U8\",\"shape\":[%llu],\"data_offsets\":[%llu,%llu]}",
                     i > 0 ? "," : "", (unsigned long long)i, (unsigned long long)(len + lie),
                     (unsigned long long)from, (unsigned long long)(from + len));
        is_legal = is_legal && lie == 0 && from + len <= data_bytes;
        for (uint64_t at = from; at < from + len && at < sizeof used; at++) {
            is_legal = is_legal && used[at] == 0;
            used[at] = 1;
        }
        end = from + len > end ? from + len : end;
    }
    bytes_format(&header, "}");
    for (size_t at = 0; at < data_bytes; at++) {
        has_gaps = has_gaps || used[at] == 0;
    }
    c->is_strict = case_chance(c, 50);
    case_label(c, "%llu ranges in %zu bytes%s", (unsigned long long)n, data_bytes,
               c->is_strict ? ", strict" : "");
    case_expect(c, is_legal && !(c->is_strict && has_gaps));
    st_folder(c, st_wrap(&header, data_bytes));
    bytes_free(&header);
}

__extension__ typedef unsigned __int128 st_wide;

static inline void st_shapes(malformed_case *c) {
    static const struct {
        const char *name;
        uint32_t width; /* 0: not read */
    } TYPES[] = {{"F64", 8},     {"F32", 4},  {"F16", 2},     {"BF16", 2},    {"I64", 8},
                 {"I32", 4},     {"I16", 2},  {"I8", 1},      {"U8", 1},      {"U16", 2},
                 {"U32", 4},     {"U64", 8},  {"BOOL", 1},    {"F8_E4M3", 1}, {"F8_E5M2", 1},
                 {"F8_E8M0", 1}, {"F4", 0},   {"F6_E2M3", 0}, {"C64", 0},     {"Q4_K", 0},
                 {"float32", 0}, {"MXFP4", 0}};
    static const uint64_t DIMS[] = {0,
                                    1,
                                    2,
                                    3,
                                    8,
                                    64,
                                    4294967296,
                                    (uint64_t)1 << 62,
                                    ((uint64_t)1 << 63) - 1,
                                    (uint64_t)1 << 63};
    const size_t type = c->number % (sizeof TYPES / sizeof TYPES[0]);
    const uint64_t rank = case_random(c, 7);
    const size_t data_bytes = 512;
    bytes header = {0};
    st_wide elements = 1; /* of the dims that are not 0 */
    bool is_empty = false;
    bool is_legal = TYPES[type].width != 0 && rank <= 5;
    uint64_t wanted = 0;
    bytes_format(&header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[", TYPES[type].name);
    for (uint64_t i = 0; i < rank; i++) {
        const uint64_t dim =
            DIMS[case_chance(c, 80) ? 1 + case_random(c, 4)
                                    : case_random(c, sizeof DIMS / sizeof DIMS[0])];
        bytes_format(&header, "%s%llu", i > 0 ? "," : "", (unsigned long long)dim);
        is_legal = is_legal && dim <= INT64_MAX;
        is_empty = is_empty || dim == 0;
        elements = elements > INT64_MAX || dim == 0 ? elements : elements * dim;
    }
    is_legal = is_legal && elements <= INT64_MAX &&
               (is_empty || elements * TYPES[type].width <= data_bytes);
    wanted = is_legal && !is_empty ? (uint64_t)elements * TYPES[type].width : 0;
    bytes_format(&header, "],\"data_offsets\":[0,%llu]}}", (unsigned long long)wanted);
    case_label(c, "%.*s", (int)header.len, (const char *)header.data);
    case_expect(c, is_legal);
    st_folder(c, st_wrap(&header, data_bytes));
    bytes_free(&header);
}

/* ---- shards ---- */

/* n shards with two tensors each; one mishap, or none. */
static inline void st_shards(malformed_case *c) {
    static const char *const MISHAPS[] = {
        "none",          "shard missing", "entry missing",  "entry extra", "entries swapped",
        "twin tensor",   "shard cut",     "not a string",   "path up",     "path absolute",
        "other suffix",  "map missing",   "map an array",   "index cut",   "shard renamed",
        "duplicate key", "single beside", "shards swapped", "hidden name", "no index and no file",
    };
    static const char *const BAD_NAMES[] = {"../m-1.safetensors", "/m-1.safetensors", "m-1.bin",
                                            ".m-1.safetensors"};
    const uint32_t mishap = c->number % 20;
    const uint32_t n = 2 + (uint32_t)case_random(c, 3);
    const uint32_t victim = (uint32_t)case_random(c, n);
    bytes index = {0};
    (void)case_file(c, ST_CONFIG, bytes_of_text("{}"));
    bytes_format(&index, "{\"metadata\":{\"total_size\":1},\"%s\":%s",
                 mishap == 11 ? "weights" : "weight_map", mishap == 12 ? "[" : "{");
    for (uint32_t i = 0; i < n; i++) {
        const bool is_victim = i == victim;
        const uint32_t holds = mishap == 17 && i < 2 ? 1 - i : i; /* the first two change places */
        const uint32_t twin = is_victim && mishap == 5 ? (i + 1) % n : holds;
        char path[80];
        char name[64];
        bytes header = {0};
        bytes shard;
        (void)snprintf(name, sizeof name, "m-%u.safetensors", i);
        (void)snprintf(path, sizeof path, "d/m-%u%s.safetensors", i,
                       is_victim && mishap == 14 ? "x" : "");
        bytes_format(&header,
                     "{\"a.%u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                     "\"b.%u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}",
                     twin, holds);
        shard = st_wrap(&header, 8);
        bytes_free(&header);
        if (is_victim && mishap == 6) {
            shard.len -= 1 + case_random(c, 8);
        }
        if (is_victim && (mishap == 1 || mishap == 19)) {
            bytes_free(&shard);
        } else {
            (void)case_file(c, path, shard);
        }
        if (is_victim && (mishap == 8 || mishap == 9 || mishap == 10 || mishap == 18)) {
            (void)snprintf(name, sizeof name, "%s", BAD_NAMES[mishap == 18 ? 3 : mishap - 8]);
        }
        if (mishap == 12) {
            bytes_format(&index, "%s\"%s\"", i > 0 ? "," : "", name);
            continue;
        }
        if (!(is_victim && mishap == 2)) {
            bytes_format(&index, "\"a.%u\":\"%s\",", i, name);
        }
        if (is_victim && mishap == 3) {
            bytes_format(&index, "\"c.%u\":\"%s\",", i, name);
        }
        if (is_victim && mishap == 15) {
            bytes_format(&index, "\"a.%u\":\"%s\",", i, name);
        }
        if (is_victim && mishap == 4) {
            (void)snprintf(name, sizeof name, "m-%u.safetensors", (i + 1) % n);
        }
        bytes_format(&index, is_victim && mishap == 7 ? "\"b.%u\":7%.0s%s" : "\"b.%u\":\"%s\"%s", i,
                     name, i + 1 < n ? "," : "");
    }
    bytes_format(&index, mishap == 12 ? "]}" : "}}");
    if (mishap == 13) {
        index.len -= 1 + case_random(c, index.len - 1);
    }
    if (mishap == 19) {
        bytes_free(&index);
    } else {
        (void)case_file(c, ST_INDEX, index);
    }
    if (mishap == 16) { /* a consolidated model.safetensors wins over a left-over index */
        (void)case_file(c, ST_SINGLE, st_base());
    }
    c->open = "d";
    case_label(c, "%u shards: %s", n, MISHAPS[mishap]);
    case_expect(c, mishap == 0 || mishap == 16);
}

static inline void st_noise(malformed_case *c) {
    bytes b = st_base();
    const uint64_t n = 1 + case_random(c, 6);
    for (uint64_t i = 0; i < n; i++) {
        b.data[8 + case_random(c, b.len - 32)] = (uint8_t)case_random(c, 256);
    }
    case_label(c, "%llu random bytes", (unsigned long long)n);
    st_folder(c, b);
    c->expected = EXPECT_EITHER;
}

/* Legal: many tensors of random dtypes in random order of place, names of any text. */
static inline void st_controls(malformed_case *c) {
    static const char *const TYPES[] = {"F32", "BF16", "U8", "I64"};
    static const uint32_t WIDTHS[] = {4, 2, 1, 8};
    static const char *const NAMES[] = {"plain",        "with space", "\\u00e4\\n\\\"",
                                        "\xe2\x82\xac", "%s%n",       "../up"};
    const uint64_t n = 1 + case_random(c, 20);
    uint64_t at[20];
    bytes header = {0};
    uint64_t end = 0;
    for (uint64_t i = 0; i < n; i++) {
        at[n - 1 - i] = end;
        end += 64;
    }
    bytes_format(&header, "{");
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t type = case_random(c, 4);
        const uint64_t dim = 64 / WIDTHS[type];
        bytes_format(&header,
                     "%s\"%s.%llu\":{\"dtype\":\"%s\",\"shape\":[%s%llu],\"data_offsets\":[%llu,"
                     "%llu]}",
                     i > 0 ? "," : "", NAMES[case_random(c, 6)], (unsigned long long)i, TYPES[type],
                     case_chance(c, 50) ? "1," : "", (unsigned long long)dim,
                     (unsigned long long)at[i], (unsigned long long)(at[i] + 64));
    }
    bytes_format(&header, "}");
    c->is_strict = true;
    case_label(c, "legal: %llu tensors", (unsigned long long)n);
    case_expect(c, true);
    st_folder(c, st_wrap(&header, end));
    bytes_free(&header);
}

static const case_family SAFETENSORS_FAMILIES[] = {
    {"lengths", 200, st_lengths},   {"truncated", 500, st_truncated}, {"texts", 900, st_texts},
    {"offsets", 900, st_offsets},   {"shapes", 500, st_shapes},       {"shards", 700, st_shards},
    {"controls", 200, st_controls}, {"noise", 100, st_noise},
};
#define SAFETENSORS_N_FAMILIES (sizeof SAFETENSORS_FAMILIES / sizeof SAFETENSORS_FAMILIES[0])

#endif
