/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of the template machine, and text that remembers where its bytes came from. Floor 4,
 * private to the template engine (jinja_*).
 * A value is 24 bytes and is copied; what it points to lives in the render's arena, in the compiled
 * program or in the caller's JSON, and none of the three changes while a render runs. JSON arrays
 * and objects are used in place. */
#ifndef TDM_TEXT_JINJA_VALUE_H
#define TDM_TEXT_JINJA_VALUE_H

#include "base/json.h"

typedef struct jinja_vm jinja_vm;

typedef enum jkind {
    JK_MISSING, /* no value at all: an argument not given, a name not set */
    JK_UNDEF,   /* Jinja's undefined; u.s/len: the name that had no value */
    JK_NONE,
    JK_BOOL,
    JK_INT,
    JK_BIG, /* an integer beyond int64, kept as its digits */
    JK_FLOAT,
    JK_STR,
    JK_LIST,      /* u.seq */
    JK_TUPLE,     /* u.seq */
    JK_GEN,       /* u.seq: what filters give; read once, no index, no length */
    JK_VIEW,      /* u.seq, x: jview; what keys(), values() and items() give */
    JK_JARRAY,    /* u.json: a list in the caller's data */
    JK_MAP,       /* u.map */
    JK_JOBJECT,   /* u.json: a mapping in the caller's data */
    JK_RANGE,     /* u.range */
    JK_NAMESPACE, /* u.map */
    JK_MACRO,     /* u.macro */
    JK_LOOP,      /* u.loop */
    JK_METHOD,    /* u.self, x: index of the method table */
    JK_FUNC       /* x: index of the function table */
} jkind;

enum { JVIEW_KEYS = 0, JVIEW_VALUES = 1, JVIEW_ITEMS = 2 };

enum {
    JV_UNTRUSTED = 1, /* the text of this value came out of a variable */
    JV_SAFE = 2       /* Markup: `+` escapes the other side */
};

/* Where the bytes of a mixed string came from: run i covers [runs[i-1].end, runs[i].end). */
typedef struct jrun {
    uint32_t end;
    bool is_untrusted;
} jrun;
typedef struct jruns {
    uint32_t n;
    jrun run[];
} jruns;

struct jseq;
struct jmap;
struct jrange;
struct jmacro;
struct jloop;

typedef struct jval {
    uint8_t kind;
    uint8_t flags;
    uint16_t x;
    uint32_t len; /* bytes of a string, digits or name */
    union {
        int64_t i;
        double f;
        const char *s;
        const tdm_json *json;
        struct jseq *seq;
        struct jmap *map;
        const struct jrange *range;
        struct jmacro *macro;
        struct jloop *loop;
        const struct jval *self;
    } u;
    const jruns *runs; /* strings: NULL when all bytes have one origin (then flags tell it) */
} jval;

typedef struct jseq {
    jval *items;
    uint32_t n;
    uint32_t cap;
    uint32_t pos; /* generators: how much has been read */
} jseq;

typedef struct jpair {
    jval key;
    jval value;
} jpair;
typedef struct jmap {
    jpair *pairs;
    uint32_t n;
    uint32_t cap;
} jmap;

typedef struct jrange {
    int64_t start, stop, step;
    uint32_t n;
} jrange;

static inline jval tdm_jinja_of_kind(jkind kind) {
    return (jval){.kind = (uint8_t)kind};
}
static inline jval tdm_jinja_bool(bool b) {
    return (jval){.kind = JK_BOOL, .u.i = b ? 1 : 0};
}
static inline jval tdm_jinja_int(int64_t i) {
    return (jval){.kind = JK_INT, .u.i = i};
}
static inline jval tdm_jinja_float(double f) {
    return (jval){.kind = JK_FLOAT, .u.f = f};
}
/* Borrowed text of the template's own (trusted). */
static inline jval tdm_jinja_text(const char *s, size_t len) {
    return (jval){.kind = JK_STR, .len = (uint32_t)len, .u.s = s};
}
jval tdm_jinja_cstr(const char *s);
jval tdm_jinja_undefined(const char *name, size_t len);

static inline bool tdm_jinja_is_str(const jval *v) {
    return v->kind == JK_STR;
}
static inline bool tdm_jinja_is_map(const jval *v) {
    return v->kind == JK_MAP || v->kind == JK_JOBJECT;
}
static inline bool tdm_jinja_is_list(const jval *v) {
    return v->kind == JK_LIST || v->kind == JK_JARRAY;
}
static inline bool tdm_jinja_is_number(const jval *v) {
    return v->kind == JK_INT || v->kind == JK_BOOL || v->kind == JK_FLOAT || v->kind == JK_BIG;
}
static inline bool tdm_jinja_is_intlike(const jval *v) {
    return v->kind == JK_INT || v->kind == JK_BOOL;
}
/* Whether any byte of the value's text came out of a variable. For containers: of the caller's
 * data or holding such (looks one level deep; deeper is answered yes). */
bool tdm_jinja_is_untrusted(const jval *v);

/* A JSON node as a value; trusted says that its text comes from the tokenizer. */
jval tdm_jinja_from_json(const tdm_json *node, bool is_trusted);
bool tdm_jinja_truth(const jval *v);
const char *tdm_jinja_type_name(const jval *v);
/* Number as double; BIG rounds. */
double tdm_jinja_as_double(const jval *v);

/* --- containers ------------------------------------------------------------------------------ */
tdm_status tdm_jinja_seq_new(jinja_vm *vm, jkind kind, uint32_t cap, jval *out);
tdm_status tdm_jinja_seq_push(jinja_vm *vm, jseq *seq, const jval *item);
tdm_status tdm_jinja_map_new(jinja_vm *vm, jkind kind, uint32_t cap, jval *out);
/* Replaces the value of an equal key. */
tdm_status tdm_jinja_map_set(jinja_vm *vm, jmap *map, const jval *key, const jval *value);
/* Any mapping. Returns false when the key is missing. Charges steps for long ones. */
bool tdm_jinja_map_get(jinja_vm *vm, const jval *map, const jval *key, jval *out);
bool tdm_jinja_map_get_text(jinja_vm *vm, const jval *map, const char *key, size_t len, jval *out);
uint32_t tdm_jinja_map_len(const jval *map);
jval tdm_jinja_map_key(const jval *map, uint32_t i);
jval tdm_jinja_map_value(const jval *map, uint32_t i);

/* Items of what can be indexed by position without work: lists, tuples, generators, views, ranges,
 * mappings (their keys). */
bool tdm_jinja_has_items(const jval *v);
uint32_t tdm_jinja_n_items(const jval *v);
jval tdm_jinja_item(const jval *v, uint32_t i);
/* Makes v something with items: itself, the characters of a string, nothing for undefined, the rest
 * of a generator (which is then used up). An error for anything else. */
tdm_status tdm_jinja_iterable(jinja_vm *vm, const jval *v, jval *out);

/* --- comparison ------------------------------------------------------------------------------ */
tdm_status tdm_jinja_equal(jinja_vm *vm, const jval *a, const jval *b, bool *out);
/* Shallow: numbers and strings; what map keys need. */
bool tdm_jinja_key_equal(const jval *a, const jval *b);
/* Sets *out to -1, 0 or 1, or 2 where a NaN leaves it open; an error for values without an order. */
tdm_status tdm_jinja_compare(jinja_vm *vm, const jval *a, const jval *b, int *out);
tdm_status tdm_jinja_contains(jinja_vm *vm, const jval *container, const jval *item, bool *out);

#endif
