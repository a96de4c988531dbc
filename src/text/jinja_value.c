/* SPDX-License-Identifier: Apache-2.0
 *
 * Values: where they come from, containers, truth. It keeps to Python's rules where a template can
 * tell (1 and true are one key; a generator is read once). Mappings made by templates are arrays
 * searched from the front: they are small, and the step budget pays for large ones. */
#include "text/jinja_value.h"

#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

jval tdm_jinja_cstr(const char *s) {
    return tdm_jinja_text(s, strlen(s));
}

jval tdm_jinja_undefined(const char *name, size_t len) {
    return (jval){.kind = JK_UNDEF, .len = (uint32_t)len, .u.s = name};
}

jval tdm_jinja_from_json(const tdm_json *node, bool is_trusted) {
    jval v = {.flags = is_trusted ? 0 : JV_UNTRUSTED};
    switch (node->kind) {
    case TDM_JSON_NULL:
        v.kind = JK_NONE;
        v.flags = 0;
        break;
    case TDM_JSON_BOOL:
        v.kind = JK_BOOL;
        v.flags = 0;
        v.u.i = node->boolean;
        break;
    case TDM_JSON_INT:
        v.kind = JK_INT;
        if (!tdm_json_as_i64(node, &v.u.i)) {
            v.kind = JK_BIG;
            v.u.s = node->u.text;
            v.len = node->len;
        }
        break;
    case TDM_JSON_REAL:
        v.kind = JK_FLOAT;
        v.u.f = strtod(node->u.text, NULL); /* 1e999 is inf, as in Python */
        break;
    case TDM_JSON_STRING:
        v.kind = JK_STR;
        v.u.s = node->u.text;
        v.len = node->len;
        break;
    case TDM_JSON_ARRAY:
        v.kind = JK_JARRAY;
        v.u.json = node;
        break;
    case TDM_JSON_OBJECT:
        v.kind = JK_JOBJECT;
        v.u.json = node;
        break;
    }
    return v;
}

bool tdm_jinja_truth(const jval *v) {
    switch (v->kind) {
    case JK_MISSING:
    case JK_UNDEF:
    case JK_NONE:
        return false;
    case JK_BOOL:
    case JK_INT:
        return v->u.i != 0;
    case JK_FLOAT:
        return v->u.f != 0.0;
    case JK_STR:
        return v->len > 0;
    case JK_LIST:
    case JK_TUPLE:
    case JK_VIEW:
    case JK_JARRAY:
    case JK_MAP:
    case JK_JOBJECT:
    case JK_RANGE:
        return tdm_jinja_n_items(v) > 0;
    default:
        return true;
    }
}

const char *tdm_jinja_type_name(const jval *v) {
    static const char *const NAMES[] = {[JK_MISSING] = "Undefined",
                                        [JK_UNDEF] = "Undefined",
                                        [JK_NONE] = "NoneType",
                                        [JK_BOOL] = "bool",
                                        [JK_INT] = "int",
                                        [JK_BIG] = "int",
                                        [JK_FLOAT] = "float",
                                        [JK_STR] = "str",
                                        [JK_LIST] = "list",
                                        [JK_TUPLE] = "tuple",
                                        [JK_GEN] = "generator",
                                        [JK_VIEW] = "view of a mapping",
                                        [JK_JARRAY] = "list",
                                        [JK_MAP] = "dict",
                                        [JK_JOBJECT] = "dict",
                                        [JK_RANGE] = "range",
                                        [JK_NAMESPACE] = "Namespace",
                                        [JK_MACRO] = "Macro",
                                        [JK_LOOP] = "LoopContext",
                                        [JK_METHOD] = "method",
                                        [JK_FUNC] = "function"};
    return NAMES[v->kind];
}

double tdm_jinja_as_double(const jval *v) {
    if (v->kind == JK_FLOAT) {
        return v->u.f;
    }
    return v->kind == JK_BIG ? strtod(v->u.s, NULL) : (double)v->u.i;
}

static bool is_leaf_untrusted(const jval *v) {
    return v->runs != NULL || (v->flags & JV_UNTRUSTED) != 0;
}

bool tdm_jinja_is_untrusted(const jval *v) {
    switch (v->kind) {
    case JK_LIST:
    case JK_TUPLE:
    case JK_GEN:
    case JK_VIEW:
        for (uint32_t i = 0; i < v->u.seq->n; i++) {
            const jval *item = &v->u.seq->items[i];
            if (item->kind >= JK_LIST || is_leaf_untrusted(item)) {
                return true;
            }
        }
        return false;
    case JK_MAP:
    case JK_NAMESPACE:
    case JK_JOBJECT:
    case JK_JARRAY:
        return true;
    default:
        return is_leaf_untrusted(v);
    }
}

/* --- sequences -------------------------------------------------------------------------------- */

tdm_status tdm_jinja_seq_new(jinja_vm *vm, jkind kind, uint32_t cap, jval *out) {
    jseq *seq = tdm_jinja_alloc(vm, 1, sizeof *seq);
    jval *items = cap == 0 ? NULL : tdm_jinja_alloc(vm, cap, sizeof *items);
    if (seq == NULL || (items == NULL && cap > 0)) {
        return tdm_jinja_nomem(vm);
    }
    *seq = (jseq){.items = items, .cap = cap};
    *out = (jval){.kind = (uint8_t)kind, .u.seq = seq};
    return TDM_OK;
}

tdm_status tdm_jinja_seq_push(jinja_vm *vm, jseq *seq, const jval *item) {
    if (seq->n == seq->cap) {
        const uint32_t cap = seq->cap < 4 ? 8 : seq->cap * 2;
        jval *items = cap > seq->cap ? tdm_jinja_alloc(vm, cap, sizeof *items) : NULL;
        if (items == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (seq->n > 0) {
            memcpy(items, seq->items, seq->n * sizeof *items);
        }
        seq->items = items;
        seq->cap = cap;
    }
    seq->items[seq->n++] = *item;
    return TDM_OK;
}

bool tdm_jinja_has_items(const jval *v) {
    return v->kind == JK_LIST || v->kind == JK_TUPLE || v->kind == JK_GEN || v->kind == JK_VIEW ||
           v->kind == JK_JARRAY || v->kind == JK_RANGE || tdm_jinja_is_map(v);
}

uint32_t tdm_jinja_n_items(const jval *v) {
    switch (v->kind) {
    case JK_LIST:
    case JK_TUPLE:
    case JK_GEN:
    case JK_VIEW:
        return v->u.seq->n;
    case JK_JARRAY:
    case JK_JOBJECT:
        return v->u.json->len;
    case JK_MAP:
        return v->u.map->n;
    case JK_RANGE:
        return v->u.range->n;
    default:
        return 0;
    }
}

jval tdm_jinja_item(const jval *v, uint32_t i) {
    switch (v->kind) {
    case JK_JARRAY:
        return tdm_jinja_from_json(&v->u.json->u.items[i], false);
    case JK_JOBJECT:
    case JK_MAP:
        return tdm_jinja_map_key(v, i);
    case JK_RANGE:
        return tdm_jinja_int(v->u.range->start + v->u.range->step * (int64_t)i);
    default:
        return v->u.seq->items[i];
    }
}

static tdm_status characters(jinja_vm *vm, const jval *str, jval *out) {
    TDM_TRY(tdm_jinja_charge(vm, str->len / 4));
    TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, (uint32_t)tdm_jinja_count(str), out));
    for (size_t at = 0; at < str->len;) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
        jval one = {.kind = JK_STR,
                    .flags = tdm_jinja_origin_at(str, at) ? JV_UNTRUSTED : 0,
                    .len = (uint32_t)n,
                    .u.s = str->u.s + at};
        TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &one));
        at += n;
    }
    return TDM_OK;
}

tdm_status tdm_jinja_iterable(jinja_vm *vm, const jval *v, jval *out) {
    switch (v->kind) {
    case JK_STR:
        return characters(vm, v, out);
    case JK_UNDEF:
    case JK_MISSING:
        return tdm_jinja_seq_new(vm, JK_LIST, 0, out);
    case JK_GEN: {
        jseq *seq = v->u.seq;
        if (v->x != 0) { /* what items made of something else */
            return tdm_jinja_raise(vm, "items can only be had of a mapping");
        }
        TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, 0, out));
        out->u.seq->items = seq->n > 0 ? seq->items + seq->pos : NULL;
        out->u.seq->n = out->u.seq->cap = seq->n - seq->pos;
        seq->pos = seq->n;
        return TDM_OK;
    }
    default:
        if (!tdm_jinja_has_items(v)) {
            return tdm_jinja_raise(vm, "'%s' object is not iterable", tdm_jinja_type_name(v));
        }
        *out = *v;
        return TDM_OK;
    }
}

/* --- mappings --------------------------------------------------------------------------------- */

tdm_status tdm_jinja_map_new(jinja_vm *vm, jkind kind, uint32_t cap, jval *out) {
    jmap *map = tdm_jinja_alloc(vm, 1, sizeof *map);
    jpair *pairs = cap == 0 ? NULL : tdm_jinja_alloc(vm, cap, sizeof *pairs);
    if (map == NULL || (pairs == NULL && cap > 0)) {
        return tdm_jinja_nomem(vm);
    }
    *map = (jmap){.pairs = pairs, .cap = cap};
    *out = (jval){.kind = (uint8_t)kind, .u.map = map};
    return TDM_OK;
}

static bool is_hashable(const jval *v) {
    return !tdm_jinja_is_map(v) && !tdm_jinja_is_list(v) && v->kind != JK_TUPLE;
}

tdm_status tdm_jinja_map_set(jinja_vm *vm, jmap *map, const jval *key, const jval *value) {
    if (!is_hashable(key)) {
        return tdm_jinja_raise(vm, "a %s cannot be a key", tdm_jinja_type_name(key));
    }
    TDM_TRY(tdm_jinja_charge(vm, map->n / 8));
    for (uint32_t i = 0; i < map->n; i++) {
        if (tdm_jinja_key_equal(&map->pairs[i].key, key)) {
            map->pairs[i].value = *value;
            return TDM_OK;
        }
    }
    if (map->n == map->cap) {
        const uint32_t cap = map->cap < 4 ? 8 : map->cap * 2;
        jpair *pairs = cap > map->cap ? tdm_jinja_alloc(vm, cap, sizeof *pairs) : NULL;
        if (pairs == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (map->n > 0) {
            memcpy(pairs, map->pairs, map->n * sizeof *pairs);
        }
        map->pairs = pairs;
        map->cap = cap;
    }
    map->pairs[map->n++] = (jpair){.key = *key, .value = *value};
    return TDM_OK;
}

static void charge_quietly(jinja_vm *vm, uint32_t n) {
    vm->steps_left -= vm->steps_left < n / 8 ? vm->steps_left : n / 8;
}

bool tdm_jinja_map_get_text(jinja_vm *vm, const jval *map, const char *key, size_t len, jval *out) {
    if (map->kind == JK_JOBJECT) {
        charge_quietly(vm, map->u.json->len);
        const tdm_json *node = tdm_json_get_n(map->u.json, key, len);
        if (node == NULL) {
            return false;
        }
        *out = tdm_jinja_from_json(node, false);
        return true;
    }
    const jmap *m = map->u.map;
    charge_quietly(vm, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        const jval *k = &m->pairs[i].key;
        if (k->kind == JK_STR && k->len == len && memcmp(k->u.s, key, len) == 0) {
            *out = m->pairs[i].value;
            return true;
        }
    }
    return false;
}

bool tdm_jinja_map_get(jinja_vm *vm, const jval *map, const jval *key, jval *out) {
    if (key->kind == JK_STR) {
        return tdm_jinja_map_get_text(vm, map, key->u.s, key->len, out);
    }
    if (map->kind == JK_JOBJECT) {
        return false;
    }
    const jmap *m = map->u.map;
    charge_quietly(vm, m->n);
    for (uint32_t i = 0; i < m->n; i++) {
        if (tdm_jinja_key_equal(&m->pairs[i].key, key)) {
            *out = m->pairs[i].value;
            return true;
        }
    }
    return false;
}

uint32_t tdm_jinja_map_len(const jval *map) {
    return map->kind == JK_JOBJECT ? map->u.json->len : map->u.map->n;
}

jval tdm_jinja_map_key(const jval *map, uint32_t i) {
    if (map->kind != JK_JOBJECT) {
        return map->u.map->pairs[i].key;
    }
    const tdm_json *node = &map->u.json->u.items[i];
    return (jval){.kind = JK_STR, .flags = JV_UNTRUSTED, .len = node->key_len, .u.s = node->key};
}

jval tdm_jinja_map_value(const jval *map, uint32_t i) {
    if (map->kind != JK_JOBJECT) {
        return map->u.map->pairs[i].value;
    }
    return tdm_jinja_from_json(&map->u.json->u.items[i], false);
}
