/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounded JSON reading. yajl turns the text into events; an explicit stack of open containers turns
 * the events into a tree whose children lie side by side in an arena.
 *
 *   pending:  [ a b | c d e | f ]      one vector of finished nodes
 *   stack:      ^0    ^2      ^5       where each open container's children begin
 *
 * Closing a container copies its children to the arena and leaves one node in their place. */
#include "base/json.h"

#include "base/arith.h"
#include "base/hash.h"
#include "base/json_sax.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const tdm_json_limits TDM_JSON_LIMITS_DEFAULT = {(size_t)32 << 20, 64, 1000000};
const tdm_json_limits TDM_JSON_LIMITS_TOKENIZER = {(size_t)256 << 20, 64, 8000000};

struct tdm_json_doc {
    const tdm_alloc *alloc;
    tdm_arena arena;
    tdm_json root;
};

typedef struct open_container {
    size_t first;  /* index in pending of the first child */
    tdm_json node; /* the container itself: kind, key */
} open_container;

typedef struct json_builder {
    tdm_json_doc *doc;
    const tdm_json_limits *limits;
    const char *name;
    tdm_error *err;
    tdm_status status; /* why the parse was stopped, when it was we who stopped it */
    tdm_json *pending;
    size_t n_pending;
    size_t pending_cap;
    open_container *stack;
    uint32_t depth;
    uint32_t n_nodes;
    const char *key; /* of the member that is about to come */
    uint32_t key_len;
    uint32_t *seen; /* hash slots for duplicate keys of large objects */
    size_t seen_cap;
} json_builder;

static int stop(json_builder *b, tdm_status status) {
    b->status = status;
    return 0;
}

static int stop_limit(json_builder *b, const char *what, uint64_t limit) {
    (void)tdm_fail(b->err, TDM_E_LIMIT, "JSON has too many %s", what);
    tdm_err_where(b->err, "%s", b->name);
    tdm_err_limit(b->err, "%llu %s", (unsigned long long)limit, what);
    return stop(b, TDM_E_LIMIT);
}

static int stop_nomem(json_builder *b) {
    return stop(b, tdm_fail_nomem(b->err, "a JSON document"));
}

/* Gives node the key that came before it and counts it. */
static bool begin_node(json_builder *b, tdm_json *node, tdm_json_kind kind) {
    memset(node, 0, sizeof *node);
    node->kind = kind;
    node->key = b->key;
    node->key_len = b->key_len;
    b->key = NULL;
    b->key_len = 0;
    if (++b->n_nodes > b->limits->nodes_max) {
        (void)stop_limit(b, "nodes", b->limits->nodes_max);
        return false;
    }
    return true;
}

static int push(json_builder *b, const tdm_json *node) {
    if (b->n_pending == b->pending_cap) {
        /* bounded: nodes_max is a uint32_t, the product with a node's size stays far below 2^63 */
        size_t cap = b->pending_cap == 0 ? 64 : b->pending_cap * 2;
        /* bounded: as above */
        tdm_json *grown = tdm_mem_resize(b->doc->alloc, b->pending, b->pending_cap * sizeof *grown,
                                         cap * sizeof *grown);
        if (grown == NULL) {
            return stop_nomem(b);
        }
        b->pending = grown;
        b->pending_cap = cap;
    }
    b->pending[b->n_pending++] = *node;
    return 1;
}

static int on_null(void *ctx) {
    json_builder *b = ctx;
    tdm_json node;
    return begin_node(b, &node, TDM_JSON_NULL) ? push(b, &node) : 0;
}

static int on_boolean(void *ctx, int value) {
    json_builder *b = ctx;
    tdm_json node;
    if (!begin_node(b, &node, TDM_JSON_BOOL)) {
        return 0;
    }
    node.boolean = value != 0;
    return push(b, &node);
}

static int push_text(json_builder *b, tdm_json_kind kind, const char *text, size_t len) {
    tdm_json node;
    if (!begin_node(b, &node, kind)) {
        return 0;
    }
    node.u.text = tdm_arena_copy_text(&b->doc->arena, text, len);
    if (node.u.text == NULL) {
        return stop_nomem(b);
    }
    node.len = (uint32_t)len;
    return push(b, &node);
}

static int on_number(void *ctx, const char *text, size_t len) {
    bool is_int = memchr(text, '.', len) == NULL && memchr(text, 'e', len) == NULL &&
                  memchr(text, 'E', len) == NULL;
    return push_text(ctx, is_int ? TDM_JSON_INT : TDM_JSON_REAL, text, len);
}

static int on_string(void *ctx, const unsigned char *text, size_t len) {
    return push_text(ctx, TDM_JSON_STRING, (const char *)text, len);
}

static int on_key(void *ctx, const unsigned char *text, size_t len) {
    json_builder *b = ctx;
    b->key = tdm_arena_copy_text(&b->doc->arena, (const char *)text, len);
    b->key_len = (uint32_t)len;
    return b->key != NULL ? 1 : stop_nomem(b);
}

static int on_open(json_builder *b, tdm_json_kind kind) {
    open_container *top = NULL;
    if (b->depth == b->limits->depth_max) {
        return stop_limit(b, "levels of nesting", b->limits->depth_max);
    }
    top = &b->stack[b->depth];
    if (!begin_node(b, &top->node, kind)) {
        return 0;
    }
    top->first = b->n_pending;
    b->depth++;
    return 1;
}

static int on_start_map(void *ctx) {
    return on_open(ctx, TDM_JSON_OBJECT);
}

static int on_start_array(void *ctx) {
    return on_open(ctx, TDM_JSON_ARRAY);
}

static bool keys_equal(const tdm_json *a, const tdm_json *b) {
    return a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

#define LINEAR_KEYS_MAX 16

/* Index of a later member that repeats an earlier one's key, or n. *out_nomem tells the third
 * outcome. */
static size_t find_duplicate(json_builder *b, const tdm_json *items, size_t n, bool *out_nomem) {
    size_t cap = 64;
    if (n <= LINEAR_KEYS_MAX) {
        for (size_t i = 1; i < n; i++) {
            for (size_t j = 0; j < i; j++) {
                if (keys_equal(&items[i], &items[j])) {
                    return i;
                }
            }
        }
        return n;
    }
    while (cap < n * 2) { /* bounded: n <= nodes_max, a uint32_t; so is cap below */
        cap *= 2;         /* bounded: at most 4 * n */
    }
    if (cap > b->seen_cap) {
        uint32_t *grown = tdm_mem_resize(b->doc->alloc, b->seen, b->seen_cap * sizeof *grown,
                                         cap * sizeof *grown);
        if (grown == NULL) {
            *out_nomem = true;
            return n;
        }
        b->seen = grown;
        b->seen_cap = cap;
    }
    memset(b->seen, 0, cap * sizeof *b->seen);
    for (size_t i = 0; i < n; i++) {
        size_t slot = (size_t)tdm_hash64(items[i].key, items[i].key_len) & (cap - 1);
        while (b->seen[slot] != 0) {
            if (keys_equal(&items[b->seen[slot] - 1], &items[i])) {
                return i;
            }
            slot = (slot + 1) & (cap - 1);
        }
        b->seen[slot] = (uint32_t)(i + 1);
    }
    return n;
}

static int check_keys(json_builder *b, const tdm_json *items, size_t n) {
    bool nomem = false;
    size_t twin = find_duplicate(b, items, n, &nomem);
    if (nomem) {
        return stop_nomem(b);
    }
    if (twin < n) {
        (void)tdm_fail(b->err, TDM_E_FORMAT, "JSON object has the key \"%.60s\" twice",
                       items[twin].key);
        tdm_err_where(b->err, "%s", b->name);
        tdm_err_remedy(b->err, "remove one of the two");
        return stop(b, TDM_E_FORMAT);
    }
    return 1;
}

static int on_close(void *ctx) {
    json_builder *b = ctx;
    open_container *top = &b->stack[b->depth - 1];
    size_t n = b->n_pending - top->first;
    tdm_json *items = n > 0 ? &b->pending[top->first] : NULL; /* nothing may be pending at all */
    if (top->node.kind == TDM_JSON_OBJECT && !check_keys(b, items, n)) {
        return 0;
    }
    if (n > 0) {
        /* bounded: the n nodes lie in memory already */
        tdm_json *kept = tdm_arena_alloc(&b->doc->arena, n * sizeof *kept, TDM_ALIGN_DEFAULT);
        if (kept == NULL) {
            return stop_nomem(b);
        }
        memcpy(kept, items, n * sizeof *kept); /* bounded: as above */
        top->node.u.items = kept;
    }
    top->node.len = (uint32_t)n;
    b->n_pending = top->first;
    b->depth--;
    return push(b, &top->node);
}

static const yajl_callbacks CALLBACKS = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_close,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_close,
};

static tdm_status build(json_builder *b, const char *text, size_t len) {
    const tdm_alloc *alloc = b->doc->alloc;
    tdm_status status = TDM_OK;
    /* bounded: depth_max is a uint32_t */
    size_t stack_bytes = b->limits->depth_max * sizeof *b->stack;
    b->stack = tdm_mem_alloc(alloc, stack_bytes);
    if (b->stack == NULL) {
        return tdm_fail_nomem(b->err, "a JSON document");
    }
    status = tdm_json_sax(alloc, &CALLBACKS, b, &b->status, text, len, b->name, b->err);
    if (status == TDM_OK) {
        b->doc->root = b->pending[0];
    }
    tdm_mem_free(alloc, b->stack, stack_bytes);
    tdm_mem_free(alloc, b->pending, b->pending_cap * sizeof *b->pending);
    tdm_mem_free(alloc, b->seen, b->seen_cap * sizeof *b->seen);
    return status;
}

tdm_status tdm_json_parse(tdm_json_doc **out_doc, const tdm_alloc *alloc, const char *text,
                          size_t len, const tdm_json_limits *limits, const char *name,
                          tdm_error *err) {
    json_builder b = {0};
    tdm_status status = TDM_OK;
    tdm_json_doc *doc = NULL;
    *out_doc = NULL;
    b.limits = limits != NULL ? limits : &TDM_JSON_LIMITS_DEFAULT;
    b.name = name;
    b.err = err;
    if (len > b.limits->bytes_max) {
        (void)stop_limit(&b, "bytes", b.limits->bytes_max);
        return TDM_E_LIMIT;
    }
    doc = tdm_mem_calloc(alloc, 1, sizeof *doc);
    if (doc == NULL) {
        return tdm_fail_nomem(err, "a JSON document");
    }
    doc->alloc = alloc;
    tdm_arena_init(&doc->arena, alloc);
    b.doc = doc;
    status = build(&b, text, len);
    if (status != TDM_OK) {
        tdm_json_doc_destroy(doc);
        return status;
    }
    *out_doc = doc;
    return TDM_OK;
}

void tdm_json_doc_destroy(tdm_json_doc *doc) {
    if (doc != NULL) {
        tdm_arena_deinit(&doc->arena);
        tdm_mem_free(doc->alloc, doc, sizeof *doc);
    }
}

const tdm_json *tdm_json_doc_root(const tdm_json_doc *doc) {
    return &doc->root;
}

const tdm_json *tdm_json_get_n(const tdm_json *object, const char *key, size_t key_len) {
    if (object == NULL || object->kind != TDM_JSON_OBJECT) {
        return NULL;
    }
    for (uint32_t i = 0; i < object->len; i++) {
        const tdm_json *item = &object->u.items[i];
        if (item->key_len == key_len && memcmp(item->key, key, key_len) == 0) {
            return item;
        }
    }
    return NULL;
}

const tdm_json *tdm_json_get(const tdm_json *object, const char *key) {
    return tdm_json_get_n(object, key, strlen(key));
}

bool tdm_json_is(const tdm_json *node, tdm_json_kind kind) {
    return node != NULL && node->kind == kind;
}

bool tdm_json_text_is(const tdm_json *node, const char *text) {
    return tdm_json_is(node, TDM_JSON_STRING) && node->len == strlen(text) &&
           memcmp(node->u.text, text, node->len) == 0;
}

bool tdm_json_as_i64(const tdm_json *node, int64_t *out) {
    char *end = NULL;
    long long value = 0;
    if (!tdm_json_is(node, TDM_JSON_INT)) {
        return false;
    }
    errno = 0;
    value = strtoll(node->u.text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *out = value;
    return true;
}

bool tdm_json_as_f64(const tdm_json *node, double *out) {
    double value = 0.0;
    if (!tdm_json_is(node, TDM_JSON_INT) && !tdm_json_is(node, TDM_JSON_REAL)) {
        return false;
    }
    value = strtod(node->u.text, NULL);
    if (!isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

bool tdm_json_as_bool(const tdm_json *node, bool *out) {
    if (!tdm_json_is(node, TDM_JSON_BOOL)) {
        return false;
    }
    *out = node->boolean;
    return true;
}

size_t tdm_json_len(const tdm_json *node) {
    return tdm_json_is(node, TDM_JSON_ARRAY) || tdm_json_is(node, TDM_JSON_OBJECT) ? node->len : 0;
}
