/* SPDX-License-Identifier: Apache-2.0
 *
 * The text of values: Python's str and repr, and json.dumps. Containers are walked with an explicit
 * stack, which the depth of no data can exhaust. The text of a container is untrusted as a whole
 * when any part of it came out of a variable. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

size_t tdm_jinja_float_text(double f, char out[40]) {
    if (isnan(f) || isinf(f)) {
        return (size_t)snprintf(out, 40, "%s", isnan(f) ? "nan" : f < 0 ? "-inf" : "inf");
    }
    /* 15 digits survive a round trip but among the subnormals, so the shortest form has at most 15
     * digits or is the first of 16 and 17 that survives. */
    char digits[40];
    for (int n = fabs(f) < 1e-300 ? 1 : 15; n <= 17; n++) {
        (void)snprintf(digits, sizeof digits, "%.*e", n - 1, f);
        if (strtod(digits, NULL) == f) {
            break;
        }
    }
    const char *mark = strchr(digits, 'e');
    const int exponent = (int)strtol(mark + 1, NULL, 10);
    const bool is_negative = digits[0] == '-';
    char mantissa[24];
    int n = 0;
    for (const char *s = digits + is_negative; s < mark; s++) {
        if (*s != '.') {
            mantissa[n++] = *s;
        }
    }
    while (n > 1 && mantissa[n - 1] == '0') {
        n--;
    }
    mantissa[n] = 0;
    const char *sign = is_negative ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        return (size_t)snprintf(out, 40, "%s%c%s%se%c%02d", sign, mantissa[0], n > 1 ? "." : "",
                                mantissa + 1, exponent < 0 ? '-' : '+', abs(exponent));
    }
    if (exponent < 0) {
        return (size_t)snprintf(out, 40, "%s0.%.*s%s", sign, -exponent - 1, "0000", mantissa);
    }
    if (exponent >= n - 1) {
        return (size_t)snprintf(out, 40, "%s%s%.*s.0", sign, mantissa, exponent - n + 1,
                                "0000000000000000");
    }
    return (size_t)snprintf(out, 40, "%s%.*s.%s", sign, exponent + 1, mantissa,
                            mantissa + exponent + 1);
}

/* --- the walk over containers -------------------------------------------------------------------
 */

typedef struct walk {
    jval v;
    uint32_t i;
} walk;
typedef struct walk_stack {
    walk *items;
    uint32_t n, cap;
} walk_stack;

static tdm_status enter(jinja_vm *vm, walk_stack *s, const jval *v) {
    if (s->n == s->cap) {
        const uint32_t cap = s->cap == 0 ? 8 : s->cap * 2;
        walk *items = tdm_jinja_alloc(vm, cap, sizeof *items);
        if (items == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (s->n > 0) {
            memcpy(items, s->items, s->n * sizeof *items);
        }
        s->items = items;
        s->cap = cap;
    }
    s->items[s->n++] = (walk){.v = *v};
    return TDM_OK;
}

static tdm_status add(jbuild *b, const char *s) {
    return tdm_jinja_build_add(b, s, strlen(s), false);
}

static tdm_status add_scalar(jbuild *b, const jval *v) {
    char text[64];
    const bool is_untrusted = (v->flags & JV_UNTRUSTED) != 0;
    switch (v->kind) {
    case JK_NONE:
        return add(b, "None");
    case JK_BOOL:
        return add(b, v->u.i != 0 ? "True" : "False");
    case JK_INT: {
        const int n = snprintf(text, sizeof text, "%" PRId64, v->u.i);
        return tdm_jinja_build_add(b, text, (size_t)n, is_untrusted);
    }
    case JK_BIG:
        return tdm_jinja_build_add(b, v->u.s, v->len, is_untrusted);
    case JK_FLOAT:
        return tdm_jinja_build_add(b, text, tdm_jinja_float_text(v->u.f, text), is_untrusted);
    case JK_RANGE: {
        const jrange *r = v->u.range;
        (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, r->start, r->stop);
        TDM_TRY(add(b, text));
        if (r->step != 1) {
            (void)snprintf(text, sizeof text, ", %" PRId64, r->step);
            TDM_TRY(add(b, text));
        }
        return add(b, ")");
    }
    case JK_GEN:
        return add(b, "<generator object>");
    case JK_MACRO: {
        const jname *name = &b->vm->program->names[v->u.macro->def->name];
        TDM_TRY(add(b, "<Macro '"));
        TDM_TRY(tdm_jinja_build_add(b, name->text, name->len, false));
        return add(b, "'>");
    }
    case JK_LOOP:
        (void)snprintf(text, sizeof text, "<LoopContext %u/%u>", v->u.loop->index, v->u.loop->n);
        return add(b, text);
    case JK_METHOD:
        return add(b, "<built-in method>");
    case JK_FUNC:
        return add(b, "<function>");
    default:
        return TDM_OK; /* undefined */
    }
}

/* --- repr ----------------------------------------------------------------------------------------
 */

static tdm_status add_repr_of_text(jbuild *b, const jval *v) {
    const bool has_single = v->len > 0 && memchr(v->u.s, '\'', v->len) != NULL;
    const bool has_double = v->len > 0 && memchr(v->u.s, '"', v->len) != NULL;
    const char quote = has_single && !has_double ? '"' : '\'';
    const bool is_untrusted = tdm_jinja_is_untrusted(v);
    char text[16];
    TDM_TRY(tdm_jinja_charge(b->vm, v->len / 16));
    TDM_TRY(add(b, (v->flags & JV_SAFE) != 0 ? "Markup(" : ""));
    TDM_TRY(tdm_jinja_build_add(b, &quote, 1, false));
    for (size_t at = 0; at < v->len;) {
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(v->u.s + at, v->len - at, &cp, NULL);
        const char *s = v->u.s + at;
        size_t len = n;
        if (cp == '\\' || cp == (uint32_t)(unsigned char)quote) {
            len = (size_t)snprintf(text, sizeof text, "\\%c", (char)cp);
            s = text;
        } else if (cp == '\n' || cp == '\r' || cp == '\t') {
            s = cp == '\n' ? "\\n" : cp == '\r' ? "\\r" : "\\t";
            len = 2;
        } else if (!tdm_jinja_is_printable(cp)) {
            len = (size_t)snprintf(text, sizeof text,
                                   cp < 0x100     ? "\\x%02x"
                                   : cp < 0x10000 ? "\\u%04x"
                                                  : "\\U%08x",
                                   cp);
            s = text;
        }
        TDM_TRY(tdm_jinja_build_add(b, s, len, is_untrusted));
        at += n;
    }
    TDM_TRY(tdm_jinja_build_add(b, &quote, 1, false));
    return add(b, (v->flags & JV_SAFE) != 0 ? ")" : "");
}

static bool has_parts(const jval *v) {
    return tdm_jinja_is_list(v) || tdm_jinja_is_map(v) || v->kind == JK_TUPLE ||
           v->kind == JK_VIEW || v->kind == JK_NAMESPACE;
}

static const char *opener(const jval *v) {
    static const char *const VIEWS[] = {"dict_keys([", "dict_values([", "dict_items(["};
    return tdm_jinja_is_list(v)      ? "["
           : v->kind == JK_TUPLE     ? "("
           : v->kind == JK_VIEW      ? VIEWS[v->x]
           : v->kind == JK_NAMESPACE ? "<Namespace {"
                                     : "{";
}

static const char *closer(const jval *v) {
    return tdm_jinja_is_list(v)      ? "]"
           : v->kind == JK_TUPLE     ? (v->u.seq->n == 1 ? ",)" : ")")
           : v->kind == JK_VIEW      ? "])"
           : v->kind == JK_NAMESPACE ? "}>"
                                     : "}";
}

static bool has_keys(const jval *v) {
    return tdm_jinja_is_map(v) || v->kind == JK_NAMESPACE;
}

static uint32_t n_parts(const jval *v) {
    return v->kind == JK_NAMESPACE ? v->u.map->n : tdm_jinja_n_items(v);
}

static tdm_status add_repr_of_leaf(jbuild *b, const jval *v) {
    if (v->kind == JK_STR) {
        return add_repr_of_text(b, v);
    }
    return v->kind == JK_UNDEF || v->kind == JK_MISSING ? add(b, "Undefined") : add_scalar(b, v);
}

/* One origin for the whole text, as a container's has. */
static tdm_status end_uniform(jbuild *b, jval *out) {
    *out = (jval){.kind = JK_STR,
                  .flags = b->has_untrusted ? JV_UNTRUSTED : 0,
                  .len = (uint32_t)b->len,
                  .u.s = b->len > 0 ? b->data : ""};
    return TDM_OK;
}

tdm_status tdm_jinja_repr(jinja_vm *vm, const jval *v, jval *out) {
    jbuild b = {.vm = vm, .is_uniform = true};
    walk_stack stack = {0};
    if (!has_parts(v)) {
        TDM_TRY(add_repr_of_leaf(&b, v));
        return end_uniform(&b, out);
    }
    TDM_TRY(enter(vm, &stack, v));
    TDM_TRY(add(&b, opener(v)));
    while (stack.n > 0) {
        walk *top = &stack.items[stack.n - 1];
        if (top->i == n_parts(&top->v)) {
            TDM_TRY(add(&b, closer(&top->v)));
            stack.n--;
            continue;
        }
        TDM_TRY(tdm_jinja_charge(vm, 1));
        if (top->i > 0) {
            TDM_TRY(add(&b, ", "));
        }
        jval part = {0};
        if (has_keys(&top->v)) {
            const jval key = tdm_jinja_map_key(&top->v, top->i);
            TDM_TRY(add_repr_of_leaf(&b, &key));
            TDM_TRY(add(&b, ": "));
            part = tdm_jinja_map_value(&top->v, top->i);
        } else {
            part = tdm_jinja_item(&top->v, top->i);
        }
        top->i++;
        if (has_parts(&part)) {
            TDM_TRY(add(&b, opener(&part)));
            TDM_TRY(enter(vm, &stack, &part));
        } else {
            TDM_TRY(add_repr_of_leaf(&b, &part));
        }
    }
    return end_uniform(&b, out);
}

tdm_status tdm_jinja_str(jinja_vm *vm, const jval *v, jval *out) {
    if (v->kind == JK_STR) {
        *out = *v;
        return TDM_OK;
    }
    if (has_parts(v)) {
        return tdm_jinja_repr(vm, v, out);
    }
    jbuild b = {.vm = vm};
    TDM_TRY(add_scalar(&b, v));
    return tdm_jinja_build_end(&b, out);
}

/* --- json.dumps ----------------------------------------------------------------------------------
 */

static tdm_status add_json_escape(jbuild *b, uint32_t cp) {
    static const char NAMED[] = "\b\t\n\f\r";
    static const char LETTERS[] = "btnfr";
    char text[16];
    const char *hit = cp != 0 && cp < 0x20 ? strchr(NAMED, (int)cp) : NULL;
    int n = 0;
    if (cp == '"' || cp == '\\') {
        n = snprintf(text, sizeof text, "\\%c", (char)cp);
    } else if (hit != NULL) {
        n = snprintf(text, sizeof text, "\\%c", LETTERS[hit - NAMED]);
    } else if (cp < 0x10000) {
        n = snprintf(text, sizeof text, "\\u%04x", cp);
    } else {
        const uint32_t low = cp - 0x10000;
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (low >> 10),
                     0xDC00 + (low & 0x3FF));
    }
    return tdm_jinja_build_add(b, text, (size_t)n, true);
}

static tdm_status add_json_text(jbuild *b, const jval *v, bool is_ascii) {
    const bool is_untrusted = tdm_jinja_is_untrusted(v);
    TDM_TRY(tdm_jinja_charge(b->vm, v->len / 64));
    TDM_TRY(tdm_jinja_build_add(b, "\"", 1, is_untrusted));
    size_t begin = 0;
    for (size_t at = 0; at < v->len;) {
        const unsigned char c = (unsigned char)v->u.s[at];
        if (c >= 0x20 && c != '"' && c != '\\' && (c < 0x7F || !is_ascii)) {
            at++;
            continue;
        }
        uint32_t cp = 0;
        const size_t n = tdm_utf8_decode(v->u.s + at, v->len - at, &cp, NULL);
        TDM_TRY(tdm_jinja_build_add(b, v->u.s + begin, at - begin, is_untrusted));
        TDM_TRY(add_json_escape(b, cp));
        at += n;
        begin = at;
    }
    TDM_TRY(tdm_jinja_build_add(b, v->u.s + begin, v->len - begin, is_untrusted));
    return tdm_jinja_build_add(b, "\"", 1, is_untrusted);
}

static tdm_status add_json_leaf(jbuild *b, const jval *v, bool is_ascii) {
    switch (v->kind) {
    case JK_STR:
        return add_json_text(b, v, is_ascii);
    case JK_NONE:
        return add(b, "null");
    case JK_BOOL:
        return add(b, v->u.i != 0 ? "true" : "false");
    case JK_FLOAT:
        if (isnan(v->u.f) || isinf(v->u.f)) {
            return add(b, isnan(v->u.f) ? "NaN" : v->u.f < 0 ? "-Infinity" : "Infinity");
        }
        return add_scalar(b, v);
    case JK_INT:
    case JK_BIG:
        return add_scalar(b, v);
    default:
        return tdm_jinja_raise(b->vm, "Object of type %s is not JSON serializable",
                               tdm_jinja_type_name(v));
    }
}

static tdm_status add_json_key(jbuild *b, const jval *key, bool is_ascii) {
    if (key->kind == JK_STR) {
        return add_json_text(b, key, is_ascii);
    }
    if (!tdm_jinja_is_number(key) && key->kind != JK_NONE) {
        return tdm_jinja_raise(b->vm, "keys must be str, int, float, bool or None, not %s",
                               tdm_jinja_type_name(key));
    }
    TDM_TRY(add(b, "\""));
    TDM_TRY(add_json_leaf(b, key, is_ascii));
    return add(b, "\"");
}

static bool is_json_container(const jval *v) {
    return tdm_jinja_is_list(v) || tdm_jinja_is_map(v) || v->kind == JK_TUPLE;
}

static tdm_status new_line(jbuild *b, const jdump *how, uint32_t depth) {
    if (!how->has_indent) {
        return TDM_OK;
    }
    TDM_TRY(add(b, "\n"));
    for (uint32_t i = 0; i < depth; i++) {
        TDM_TRY(tdm_jinja_build_str(b, &how->indent));
    }
    return TDM_OK;
}

/* A mapping with its keys in order, for sort_keys. */
static tdm_status sorted(jinja_vm *vm, const jval *map, jval *out) {
    const uint32_t n = tdm_jinja_map_len(map);
    TDM_TRY(tdm_jinja_map_new(vm, JK_MAP, n, out));
    jmap *m = out->u.map;
    for (uint32_t i = 0; i < n; i++) {
        const jpair pair = {.key = tdm_jinja_map_key(map, i), .value = tdm_jinja_map_value(map, i)};
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = 0;
            TDM_TRY(tdm_jinja_charge(vm, 1));
            TDM_TRY(tdm_jinja_compare(vm, &m->pairs[at - 1].key, &pair.key, &order));
            if (order <= 0) {
                break;
            }
            m->pairs[at] = m->pairs[at - 1];
        }
        m->pairs[at] = pair;
        m->n++;
    }
    return TDM_OK;
}

static tdm_status dump_enter(jbuild *b, walk_stack *stack, const jval *v, const jdump *how) {
    jval seen = *v;
    if (tdm_jinja_n_items(v) == 0) {
        return add(b, tdm_jinja_is_map(v) ? "{}" : "[]");
    }
    if (how->sorts_keys && tdm_jinja_is_map(v)) {
        TDM_TRY(sorted(b->vm, v, &seen));
    }
    TDM_TRY(add(b, tdm_jinja_is_map(v) ? "{" : "["));
    return enter(b->vm, stack, &seen);
}

tdm_status tdm_jinja_dump(jinja_vm *vm, const jval *v, const jdump *how, jval *out) {
    jbuild b = {.vm = vm, .is_uniform = true};
    walk_stack stack = {0};
    if (!is_json_container(v)) {
        TDM_TRY(add_json_leaf(&b, v, how->is_ascii));
        return end_uniform(&b, out);
    }
    TDM_TRY(dump_enter(&b, &stack, v, how));
    while (stack.n > 0) {
        walk *top = &stack.items[stack.n - 1];
        const bool is_map = tdm_jinja_is_map(&top->v);
        if (top->i == tdm_jinja_n_items(&top->v)) {
            stack.n--;
            TDM_TRY(new_line(&b, how, stack.n));
            TDM_TRY(add(&b, is_map ? "}" : "]"));
            continue;
        }
        TDM_TRY(tdm_jinja_charge(vm, 1));
        if (top->i > 0) {
            TDM_TRY(tdm_jinja_build_str(&b, &how->item_sep));
        }
        TDM_TRY(new_line(&b, how, stack.n));
        jval part = {0};
        if (is_map) {
            const jval key = tdm_jinja_map_key(&top->v, top->i);
            TDM_TRY(add_json_key(&b, &key, how->is_ascii));
            TDM_TRY(tdm_jinja_build_str(&b, &how->key_sep));
            part = tdm_jinja_map_value(&top->v, top->i);
        } else {
            part = tdm_jinja_item(&top->v, top->i);
        }
        top->i++;
        if (is_json_container(&part)) {
            TDM_TRY(dump_enter(&b, &stack, &part, how));
        } else {
            TDM_TRY(add_json_leaf(&b, &part, how->is_ascii));
        }
    }
    return end_uniform(&b, out);
}
