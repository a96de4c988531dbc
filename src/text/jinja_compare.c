/* SPDX-License-Identifier: Apache-2.0
 *
 * Equality, order and membership of values, by Python's rules: numbers compare across kinds and
 * exactly, mappings without regard to order, generators and macros by identity. Containers are
 * walked with an explicit stack. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include <string.h>

static int sign_of(long double a, long double b) {
    return a < b ? -1 : a > b;
}

static size_t digits_start(const jval *v) {
    return v->len > 0 && v->u.s[0] == '-' ? 1 : 0;
}

/* Integers, at least one beyond int64. */
static int compare_big(const jval *a, const jval *b) {
    const bool is_a_negative = a->kind == JK_BIG ? digits_start(a) == 1 : a->u.i < 0;
    const bool is_b_negative = b->kind == JK_BIG ? digits_start(b) == 1 : b->u.i < 0;
    if (is_a_negative != is_b_negative) {
        return is_a_negative ? -1 : 1;
    }
    int size = 0;
    if (a->kind != JK_BIG) {
        size = -1;
    } else if (b->kind != JK_BIG) {
        size = 1;
    } else if (a->len != b->len) {
        size = a->len < b->len ? -1 : 1;
    } else {
        size = memcmp(a->u.s, b->u.s, a->len);
        size = size < 0 ? -1 : size > 0;
    }
    return is_a_negative ? -size : size;
}

/* NaN is answered as unordered through *out_ordered. */
static int compare_numbers(const jval *a, const jval *b, bool *out_ordered) {
    *out_ordered = true;
    if (tdm_jinja_is_intlike(a) && tdm_jinja_is_intlike(b)) {
        return a->u.i < b->u.i ? -1 : a->u.i > b->u.i;
    }
    if (a->kind != JK_FLOAT && b->kind != JK_FLOAT) {
        return compare_big(a, b);
    }
    const long double x =
        tdm_jinja_is_intlike(a) ? (long double)a->u.i : (long double)tdm_jinja_as_double(a);
    const long double y =
        tdm_jinja_is_intlike(b) ? (long double)b->u.i : (long double)tdm_jinja_as_double(b);
    *out_ordered = !(x != x || y != y);
    return sign_of(x, y);
}

static int compare_text(const jval *a, const jval *b) {
    const uint32_t n = a->len < b->len ? a->len : b->len;
    const int order = n == 0 ? 0 : memcmp(a->u.s, b->u.s, n);
    return order != 0 ? (order < 0 ? -1 : 1) : a->len < b->len ? -1 : a->len > b->len;
}

bool tdm_jinja_key_equal(const jval *a, const jval *b) {
    if (a->kind == JK_STR || b->kind == JK_STR) {
        return a->kind == b->kind && a->len == b->len &&
               (a->len == 0 || memcmp(a->u.s, b->u.s, a->len) == 0);
    }
    if (tdm_jinja_is_number(a) && tdm_jinja_is_number(b)) {
        bool is_ordered = false;
        return compare_numbers(a, b, &is_ordered) == 0 && is_ordered;
    }
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == JK_NONE || a->kind == JK_UNDEF) {
        return true;
    }
    return a->u.self == b->u.self && a->x == b->x;
}

/* Two containers being compared item by item. */
typedef struct pair_walk {
    jval a, b;
    uint32_t i;
} pair_walk;
typedef struct pair_stack {
    pair_walk *items;
    uint32_t n, cap;
} pair_stack;

static tdm_status push(jinja_vm *vm, pair_stack *s, const jval *a, const jval *b) {
    if (s->n == s->cap) {
        const uint32_t cap = s->cap == 0 ? 8 : s->cap * 2;
        pair_walk *items = tdm_jinja_alloc(vm, cap, sizeof *items);
        if (items == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (s->n > 0) {
            memcpy(items, s->items, s->n * sizeof *items);
        }
        s->items = items;
        s->cap = cap;
    }
    s->items[s->n++] = (pair_walk){.a = *a, .b = *b};
    return TDM_OK;
}

/* list, tuple, mapping and range have parts; 0 for everything else. */
static int shape_of(const jval *v) {
    if (tdm_jinja_is_list(v)) {
        return 1;
    }
    if (v->kind == JK_TUPLE) {
        return 2;
    }
    if (tdm_jinja_is_map(v)) {
        return 3;
    }
    return v->kind == JK_RANGE ? 4 : 0;
}

tdm_status tdm_jinja_equal(jinja_vm *vm, const jval *a, const jval *b, bool *out) {
    if (shape_of(a) == 0 || shape_of(b) == 0) {
        *out = tdm_jinja_key_equal(a, b);
        return TDM_OK;
    }
    pair_stack stack = {0};
    *out = false;
    if (shape_of(a) != shape_of(b) || tdm_jinja_n_items(a) != tdm_jinja_n_items(b)) {
        return TDM_OK;
    }
    TDM_TRY(push(vm, &stack, a, b));
    while (stack.n > 0) {
        pair_walk *top = &stack.items[stack.n - 1];
        if (top->i == tdm_jinja_n_items(&top->a)) {
            stack.n--;
            continue;
        }
        TDM_TRY(tdm_jinja_charge(vm, 1));
        jval x = tdm_jinja_item(&top->a, top->i);
        jval y = {0};
        if (tdm_jinja_is_map(&top->a)) {
            if (!tdm_jinja_map_get(vm, &top->b, &x, &y)) {
                return TDM_OK;
            }
            x = tdm_jinja_map_value(&top->a, top->i);
        } else {
            y = tdm_jinja_item(&top->b, top->i);
        }
        top->i++;
        if (shape_of(&x) != 0 && shape_of(&y) != 0) {
            if (shape_of(&x) != shape_of(&y) || tdm_jinja_n_items(&x) != tdm_jinja_n_items(&y)) {
                return TDM_OK;
            }
            TDM_TRY(push(vm, &stack, &x, &y));
        } else if (!tdm_jinja_key_equal(&x, &y)) {
            return TDM_OK;
        }
    }
    *out = true;
    return TDM_OK;
}

static tdm_status unordered(jinja_vm *vm, const jval *a, const jval *b) {
    if (a->kind == JK_UNDEF || b->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(vm, a->kind == JK_UNDEF ? a : b);
    }
    return tdm_jinja_raise(vm, "'%s' and '%s' have no order", tdm_jinja_type_name(a),
                           tdm_jinja_type_name(b));
}

/* Lists go on with their first unequal items, so no stack is needed. */
tdm_status tdm_jinja_compare(jinja_vm *vm, const jval *a, const jval *b, int *out) {
    jval x = *a;
    jval y = *b;
    for (;;) {
        if (x.kind == JK_STR && y.kind == JK_STR) {
            *out = compare_text(&x, &y);
            return TDM_OK;
        }
        if (tdm_jinja_is_number(&x) && tdm_jinja_is_number(&y)) {
            bool is_ordered = false;
            *out = compare_numbers(&x, &y, &is_ordered);
            if (!is_ordered) {
                *out = 2; /* not below, not above, not equal */
            }
            return TDM_OK;
        }
        if (shape_of(&x) != shape_of(&y) || shape_of(&x) == 0 || shape_of(&x) > 2) {
            return unordered(vm, &x, &y);
        }
        const uint32_t n_x = tdm_jinja_n_items(&x);
        const uint32_t n_y = tdm_jinja_n_items(&y);
        const uint32_t n = n_x < n_y ? n_x : n_y;
        uint32_t i = 0;
        for (; i < n; i++) {
            const jval p = tdm_jinja_item(&x, i);
            const jval q = tdm_jinja_item(&y, i);
            bool is_equal = false;
            TDM_TRY(tdm_jinja_charge(vm, 1));
            TDM_TRY(tdm_jinja_equal(vm, &p, &q, &is_equal));
            if (!is_equal) {
                break;
            }
        }
        if (i == n) {
            *out = n_x < n_y ? -1 : n_x > n_y;
            return TDM_OK;
        }
        const jval p = tdm_jinja_item(&x, i);
        const jval q = tdm_jinja_item(&y, i);
        x = p;
        y = q;
    }
}

tdm_status tdm_jinja_contains(jinja_vm *vm, const jval *container, const jval *item, bool *out) {
    *out = false;
    if (container->kind == JK_STR) {
        if (item->kind != JK_STR) {
            if (item->kind == JK_UNDEF) {
                return tdm_jinja_raise_undefined(vm, item);
            }
            return tdm_jinja_raise(vm, "a %s cannot be looked for in a string",
                                   tdm_jinja_type_name(item));
        }
        TDM_TRY(tdm_jinja_charge(vm, container->len / 64));
        *out = tdm_jinja_find(container, item, 0) != SIZE_MAX;
        return TDM_OK;
    }
    if (tdm_jinja_is_map(container)) {
        if (tdm_jinja_is_list(item) || tdm_jinja_is_map(item)) {
            return tdm_jinja_raise(vm, "unhashable type: '%s'", tdm_jinja_type_name(item));
        }
        jval value = {0};
        *out = tdm_jinja_map_get(vm, container, item, &value);
        return TDM_OK;
    }
    jval items = {0};
    TDM_TRY(tdm_jinja_iterable(vm, container, &items));
    const uint32_t n = tdm_jinja_n_items(&items);
    for (uint32_t i = 0; i < n && !*out; i++) {
        const jval one = tdm_jinja_item(&items, i);
        TDM_TRY(tdm_jinja_charge(vm, 1));
        TDM_TRY(tdm_jinja_equal(vm, &one, item, out));
    }
    return TDM_OK;
}
