/* SPDX-License-Identifier: Apache-2.0
 *
 * Getting at parts of values: x.name, x[key], slices, attribute paths. Python's rules: .name is the
 * method first and the key second, [key] the other way round; what is missing is undefined, and
 * only undefined itself refuses. There are no attributes but those listed here, so nothing of the
 * host can be reached. */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/utf8.h"

static bool is_name(const char *name, size_t len, const char *want) {
    return strlen(want) == len && memcmp(name, want, len) == 0;
}

static jval item_of_loop(const jloop *loop, int64_t i, const char *name) {
    if (i < 0 || i >= (int64_t)loop->n) {
        return tdm_jinja_undefined(name, strlen(name));
    }
    return tdm_jinja_item(&loop->items, (uint32_t)i);
}

bool tdm_jinja_loop_attr(const jloop *loop, const char *name, size_t len, jval *out) {
    const int64_t index = loop->index;
    const int64_t n = loop->n;
    if (is_name(name, len, "index0")) {
        *out = tdm_jinja_int(index - 1);
    } else if (is_name(name, len, "index")) {
        *out = tdm_jinja_int(index);
    } else if (is_name(name, len, "last")) {
        *out = tdm_jinja_bool(index >= n);
    } else if (is_name(name, len, "first")) {
        *out = tdm_jinja_bool(index == 1);
    } else if (is_name(name, len, "length")) {
        *out = tdm_jinja_int(n);
    } else if (is_name(name, len, "revindex")) {
        *out = tdm_jinja_int(n - index + 1);
    } else if (is_name(name, len, "revindex0")) {
        *out = tdm_jinja_int(n - index);
    } else if (is_name(name, len, "depth0")) {
        *out = tdm_jinja_int(loop->depth);
    } else if (is_name(name, len, "depth")) {
        *out = tdm_jinja_int((int64_t)loop->depth + 1);
    } else if (is_name(name, len, "previtem")) {
        *out = item_of_loop(loop, index - 2, "loop.previtem");
    } else if (is_name(name, len, "nextitem")) {
        *out = item_of_loop(loop, index, "loop.nextitem");
    } else {
        return false;
    }
    return true;
}

/* The method `name` of v, bound to it. */
static tdm_status find_method(jinja_vm *vm, const jval *v, const char *name, size_t len, jval *out,
                              bool *out_found) {
    const int id = tdm_jinja_method_find(v->kind, name, len);
    *out_found = id >= 0;
    if (id < 0) {
        return TDM_OK;
    }
    jval *self = tdm_jinja_alloc(vm, 1, sizeof *self);
    if (self == NULL) {
        return tdm_jinja_nomem(vm);
    }
    *self = *v;
    *out = (jval){.kind = JK_METHOD, .x = (uint16_t)id, .u.self = self};
    return TDM_OK;
}

tdm_status tdm_jinja_getattr(jinja_vm *vm, const jval *v, const char *name, size_t len, jval *out) {
    bool is_found = false;
    if (v->kind == JK_UNDEF || v->kind == JK_MISSING) {
        if (is_name(name, len, "__class__")) { /* Python's own, which the sandbox hides */
            *out = tdm_jinja_undefined(name, len);
            return TDM_OK;
        }
        return tdm_jinja_raise_undefined(vm, v);
    }
    TDM_TRY(find_method(vm, v, name, len, out, &is_found));
    if (is_found) {
        return TDM_OK;
    }
    if ((tdm_jinja_is_map(v) || v->kind == JK_NAMESPACE) &&
        tdm_jinja_map_get_text(vm, v, name, len, out)) {
        return TDM_OK;
    }
    if (v->kind == JK_LOOP && tdm_jinja_loop_attr(v->u.loop, name, len, out)) {
        return TDM_OK;
    }
    if (v->kind == JK_MACRO && is_name(name, len, "name")) {
        const jname *n = &vm->program->names[v->u.macro->def->name];
        *out = tdm_jinja_text(n->text, n->len);
        return TDM_OK;
    }
    *out = tdm_jinja_undefined(name, len);
    return TDM_OK;
}

/* Byte range of character i of a string; negative counts from the end. False: out of range. */
static bool character_range(const jval *str, int64_t i, size_t *begin, size_t *len) {
    size_t at = 0;
    if (i >= 0) {
        at = (uint64_t)i > str->len ? str->len : tdm_jinja_offset(str, (size_t)i);
    } else {
        at = str->len;
        for (; i < 0; i++) {
            if (at == 0) {
                return false;
            }
            do {
                at--;
            } while (at > 0 && ((unsigned char)str->u.s[at] & 0xC0u) == 0x80u);
        }
    }
    if (at >= str->len) {
        return false;
    }
    uint32_t cp = 0;
    *begin = at;
    *len = tdm_utf8_decode(str->u.s + at, str->len - at, &cp, NULL);
    return true;
}

tdm_status tdm_jinja_getitem(jinja_vm *vm, const jval *v, const jval *key, jval *out) {
    if (v->kind == JK_UNDEF || v->kind == JK_MISSING) {
        return tdm_jinja_raise_undefined(vm, v);
    }
    if (tdm_jinja_is_map(v) && tdm_jinja_map_get(vm, v, key, out)) {
        return TDM_OK;
    }
    if (key->kind == JK_STR) {
        bool is_found = false;
        TDM_TRY(find_method(vm, v, key->u.s, key->len, out, &is_found));
        if (is_found) {
            return TDM_OK;
        }
        if ((v->kind == JK_NAMESPACE && tdm_jinja_map_get(vm, v, key, out)) ||
            (v->kind == JK_LOOP && tdm_jinja_loop_attr(v->u.loop, key->u.s, key->len, out))) {
            return TDM_OK;
        }
        *out = tdm_jinja_undefined(key->u.s, key->len);
        return TDM_OK;
    }
    if (tdm_jinja_is_intlike(key)) {
        int64_t i = key->u.i;
        if (v->kind == JK_STR) {
            size_t begin = 0;
            size_t len = 0;
            TDM_TRY(tdm_jinja_charge(vm, v->len / 64));
            if (character_range(v, i, &begin, &len)) {
                return tdm_jinja_sub(vm, v, begin, len, out);
            }
        } else if (tdm_jinja_is_list(v) || v->kind == JK_TUPLE || v->kind == JK_RANGE) {
            const int64_t n = tdm_jinja_n_items(v);
            i += i < 0 ? n : 0;
            if (i >= 0 && i < n) {
                *out = tdm_jinja_item(v, (uint32_t)i);
                return TDM_OK;
            }
        }
    }
    static const char ELEMENT[] = "an element";
    *out = tdm_jinja_undefined(ELEMENT, sizeof ELEMENT - 1);
    return TDM_OK;
}

tdm_status tdm_jinja_getpath(jinja_vm *vm, const jval *v, const jval *path, jval *out) {
    *out = *v;
    if (path->kind != JK_STR) {
        return path->kind == JK_NONE ? TDM_OK : tdm_jinja_getitem(vm, v, path, out);
    }
    size_t begin = 0;
    for (;;) {
        size_t end = begin;
        bool is_number = true;
        int64_t number = 0;
        while (end < path->len && path->u.s[end] != '.') {
            const char c = path->u.s[end++];
            is_number = is_number && c >= '0' && c <= '9' && number < INT32_MAX;
            number = is_number ? number * 10 + (c - '0') : 0;
        }
        jval key = tdm_jinja_int(number);
        if (!is_number || end == begin) {
            TDM_TRY(tdm_jinja_sub(vm, path, begin, end - begin, &key));
        }
        const jval held = *out;
        TDM_TRY(tdm_jinja_getitem(vm, &held, &key, out));
        if (end == path->len) {
            return TDM_OK;
        }
        begin = end + 1;
    }
}

/* --- slices ----------------------------------------------------------------------------------- */

typedef struct slice {
    int64_t start, stop, step;
} slice;

static int64_t int_part(const jval *v) {
    if (v->kind == JK_BIG) {
        return v->u.s[0] == '-' ? INT64_MIN / 2 : INT64_MAX / 2;
    }
    return v->u.i;
}

/* Python's slice.indices. */
static tdm_status slice_indices(jinja_vm *vm, const jval parts[3], int64_t n, slice *out) {
    for (int i = 0; i < 3; i++) {
        if (!tdm_jinja_is_intlike(&parts[i]) && parts[i].kind != JK_NONE &&
            parts[i].kind != JK_BIG) {
            if (parts[i].kind == JK_UNDEF) {
                return tdm_jinja_raise_undefined(vm, &parts[i]);
            }
            return tdm_jinja_raise(vm, "slice indices must be integers or None, not %s",
                                   tdm_jinja_type_name(&parts[i]));
        }
    }
    out->step = parts[2].kind == JK_NONE ? 1 : int_part(&parts[2]);
    if (out->step == 0) {
        return tdm_jinja_raise(vm, "slice step cannot be zero");
    }
    out->step = out->step > n + 1 ? n + 1 : out->step < -n - 1 ? -n - 1 : out->step;
    const int64_t low = out->step < 0 ? -1 : 0;
    const int64_t high = out->step < 0 ? n - 1 : n;
    int64_t *ends[2] = {&out->start, &out->stop};
    for (int i = 0; i < 2; i++) {
        if (parts[i].kind == JK_NONE) {
            *ends[i] = (i == 0) == (out->step < 0) ? high : low;
            continue;
        }
        int64_t at = int_part(&parts[i]);
        if (at < 0) {
            at = at < -n ? low : at + n;
            at = at < low ? low : at;
        }
        *ends[i] = at > high ? high : at;
    }
    return TDM_OK;
}

static tdm_status slice_text(jinja_vm *vm, const jval *v, const jval parts[3], jval *out) {
    slice s = {0};
    TDM_TRY(tdm_jinja_charge(vm, v->len / 32));
    TDM_TRY(slice_indices(vm, parts, (int64_t)tdm_jinja_count(v), &s));
    if (s.step == 1) {
        const size_t begin = tdm_jinja_offset(v, (size_t)s.start);
        if (s.stop <= s.start) {
            return tdm_jinja_sub(vm, v, begin, 0, out);
        }
        jval rest = *v;
        rest.u.s += begin;
        rest.len -= (uint32_t)begin;
        return tdm_jinja_sub(vm, v, begin, tdm_jinja_offset(&rest, (size_t)(s.stop - s.start)),
                             out);
    }
    jval characters = {0};
    jbuild b = {.vm = vm};
    TDM_TRY(tdm_jinja_iterable(vm, v, &characters));
    for (int64_t i = s.start; s.step > 0 ? i < s.stop : i > s.stop; i += s.step) {
        TDM_TRY(tdm_jinja_build_str(&b, &characters.u.seq->items[i]));
    }
    return tdm_jinja_build_end(&b, out);
}

tdm_status tdm_jinja_slice(jinja_vm *vm, const jval *v, const jval parts[3], jval *out) {
    if (v->kind == JK_STR) {
        return slice_text(vm, v, parts, out);
    }
    if (v->kind == JK_UNDEF || v->kind == JK_MISSING) {
        return tdm_jinja_raise_undefined(vm, v);
    }
    if (!tdm_jinja_is_list(v) && v->kind != JK_TUPLE && v->kind != JK_RANGE) {
        return tdm_jinja_raise(vm, "'%s' object cannot be sliced", tdm_jinja_type_name(v));
    }
    slice s = {0};
    TDM_TRY(slice_indices(vm, parts, tdm_jinja_n_items(v), &s));
    const int64_t span = s.step > 0 ? s.stop - s.start : s.start - s.stop;
    const int64_t step = s.step > 0 ? s.step : -s.step;
    const int64_t n = span <= 0 ? 0 : (span - 1) / step + 1;
    if (v->kind == JK_RANGE) {
        jrange *range = tdm_jinja_alloc(vm, 1, sizeof *range);
        if (range == NULL) {
            return tdm_jinja_nomem(vm);
        }
        const jrange *r = v->u.range;
        *range = (jrange){.start = r->start + s.start * r->step,
                          .stop = r->start + s.stop * r->step,
                          .step = r->step * s.step,
                          .n = (uint32_t)n};
        *out = (jval){.kind = JK_RANGE, .u.range = range};
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_charge(vm, (uint64_t)n / 4));
    TDM_TRY(tdm_jinja_seq_new(vm, v->kind == JK_TUPLE ? JK_TUPLE : JK_LIST, (uint32_t)n, out));
    for (int64_t i = 0; i < n; i++) {
        const jval item = tdm_jinja_item(v, (uint32_t)(s.start + i * s.step));
        TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &item));
    }
    return TDM_OK;
}
