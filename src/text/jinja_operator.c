/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on values, by Python's rules: no silent text, integers that stay integers, division
 * that rounds down. It refuses arithmetic past 64 bits, which no template needs. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/arith.h"

#include <math.h>

static tdm_status no_operator(jinja_vm *vm, const char *op, const jval *a, const jval *b) {
    if (a->kind == JK_UNDEF || b->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(vm, a->kind == JK_UNDEF ? a : b);
    }
    return tdm_jinja_raise(vm, "unsupported operand types for %s: '%s' and '%s'", op,
                           tdm_jinja_type_name(a), tdm_jinja_type_name(b));
}

static tdm_status too_large(jinja_vm *vm) {
    return tdm_jinja_raise(vm, "integer arithmetic beyond 64 bits is not supported");
}

static tdm_status join_lists(jinja_vm *vm, const jval *a, const jval *b, jval *out) {
    const uint32_t n_a = tdm_jinja_n_items(a);
    const uint32_t n_b = tdm_jinja_n_items(b);
    if (n_b > UINT32_MAX - n_a) {
        return tdm_jinja_limit(vm, "template list of %u items", UINT32_MAX);
    }
    TDM_TRY(tdm_jinja_charge(vm, ((uint64_t)n_a + n_b) / 4));
    TDM_TRY(tdm_jinja_seq_new(vm, a->kind == JK_TUPLE ? JK_TUPLE : JK_LIST, n_a + n_b, out));
    for (uint32_t i = 0; i < n_a + n_b; i++) {
        const jval item = i < n_a ? tdm_jinja_item(a, i) : tdm_jinja_item(b, i - n_a);
        TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &item));
    }
    return TDM_OK;
}

static tdm_status repeat_list(jinja_vm *vm, const jval *v, int64_t n, jval *out) {
    const uint32_t len = tdm_jinja_n_items(v);
    n = n < 0 ? 0 : n;
    if (len > 0 && n > INT32_MAX / len) {
        return tdm_jinja_limit(vm, "template list of %d items", INT32_MAX);
    }
    TDM_TRY(tdm_jinja_charge(vm, (uint64_t)n * len / 4));
    TDM_TRY(tdm_jinja_seq_new(vm, v->kind == JK_TUPLE ? JK_TUPLE : JK_LIST,
                              len == 0 ? 0 : (uint32_t)n * len, out));
    for (int64_t i = 0; len > 0 && i < n; i++) {
        for (uint32_t k = 0; k < len; k++) {
            const jval item = tdm_jinja_item(v, k);
            TDM_TRY(tdm_jinja_seq_push(vm, out->u.seq, &item));
        }
    }
    return TDM_OK;
}

/* `+` of two strings of which one is Markup escapes the other. */
static tdm_status add_markup(jinja_vm *vm, const jval *a, const jval *b, jval *out) {
    jval both[2] = {*a, *b};
    for (int i = 0; i < 2; i++) {
        if ((both[i].flags & JV_SAFE) == 0) {
            const jval plain = both[i];
            TDM_TRY(tdm_jinja_escape(vm, &plain, &both[i]));
        }
    }
    TDM_TRY(tdm_jinja_concat(vm, both, 2, out));
    out->flags |= JV_SAFE;
    return TDM_OK;
}

static int64_t floor_div(int64_t a, int64_t b) {
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_mod(int64_t a, int64_t b) {
    const int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static tdm_status int_power(jinja_vm *vm, int64_t base, int64_t exponent, jval *out) {
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && !tdm_mul_i64(result, base, &result)) {
            return too_large(vm);
        }
        exponent >>= 1;
        if (exponent > 0 && !tdm_mul_i64(base, base, &base)) {
            return too_large(vm);
        }
    }
    *out = tdm_jinja_int(result);
    return TDM_OK;
}

static tdm_status int_binary(jinja_vm *vm, uint8_t op, int64_t a, int64_t b, jval *out) {
    int64_t r = 0;
    bool fits = true;
    switch (op) {
    case JO_ADD:
        fits = tdm_add_i64(a, b, &r);
        break;
    case JO_SUB:
        fits = !__builtin_sub_overflow(a, b, &r);
        break;
    case JO_MUL:
        fits = tdm_mul_i64(a, b, &r);
        break;
    case JO_POW:
        if (b >= 0) {
            return int_power(vm, a, b, out);
        }
        if (a == 0) {
            return tdm_jinja_raise(vm, "0 cannot be raised to a negative power");
        }
        *out = tdm_jinja_float(pow((double)a, (double)b));
        return TDM_OK;
    default: /* / // % */
        if (b == 0) {
            return tdm_jinja_raise(vm, "division by zero");
        }
        if (op == JO_DIV) {
            *out = tdm_jinja_float((double)((long double)a / (long double)b));
            return TDM_OK;
        }
        fits = !(a == INT64_MIN && b == -1);
        r = !fits ? 0 : op == JO_MOD ? floor_mod(a, b) : floor_div(a, b);
        break;
    }
    *out = tdm_jinja_int(r);
    return fits ? TDM_OK : too_large(vm);
}

static tdm_status float_binary(jinja_vm *vm, uint8_t op, double a, double b, jval *out) {
    double r = 0;
    switch (op) {
    case JO_ADD:
        r = a + b;
        break;
    case JO_SUB:
        r = a - b;
        break;
    case JO_MUL:
        r = a * b;
        break;
    case JO_POW:
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b))) {
            return tdm_jinja_raise(vm, "the power is not a real number");
        }
        r = pow(a, b);
        break;
    default:
        if (b == 0) {
            return tdm_jinja_raise(vm, "division by zero");
        }
        if (op == JO_DIV) {
            r = a / b;
        } else {
            double mod = fmod(a, b);
            double div = (a - mod) / b;
            if (mod != 0 && (mod < 0) != (b < 0)) {
                mod += b;
                div -= 1;
            }
            if (mod == 0) {
                mod = copysign(0.0, b);
            }
            double whole = floor(div);
            whole += div - whole > 0.5 ? 1 : 0;
            r = op == JO_MOD ? mod : whole;
        }
        break;
    }
    *out = tdm_jinja_float(r);
    return TDM_OK;
}

/* A large integer modulo a small one, digit by digit. */
static tdm_status big_modulo(jinja_vm *vm, const jval *a, int64_t b, jval *out) {
    const int64_t divisor = b < 0 ? -b : b;
    int64_t rest = 0;
    if (b == 0) {
        return tdm_jinja_raise(vm, "division by zero");
    }
    for (uint32_t i = 0; i < a->len; i++) {
        if (a->u.s[i] != '-') {
            rest = (rest * 10 + (a->u.s[i] - '0')) % divisor;
        }
    }
    *out = tdm_jinja_int(floor_mod(a->u.s[0] == '-' ? -rest : rest, b));
    return TDM_OK;
}

static const char *op_text(uint8_t op) {
    static const char *const TEXTS[] = {
        [JO_NONE] = "?", [JO_ADD] = "+",       [JO_SUB] = "-", [JO_MUL] = "*",
        [JO_DIV] = "/",  [JO_FLOORDIV] = "//", [JO_MOD] = "%", [JO_POW] = "**"};
    return op <= JO_POW ? TEXTS[op] : "?";
}

static bool is_sequence(const jval *v) {
    return tdm_jinja_is_list(v) || v->kind == JK_TUPLE;
}

tdm_status tdm_jinja_binary(jinja_vm *vm, uint8_t op, const jval *a, const jval *b, jval *out) {
    if (tdm_jinja_is_number(a) && tdm_jinja_is_number(b)) {
        const uint8_t origin = (uint8_t)((a->flags | b->flags) & JV_UNTRUSTED);
        if (a->kind == JK_FLOAT || b->kind == JK_FLOAT) {
            TDM_TRY(float_binary(vm, op, tdm_jinja_as_double(a), tdm_jinja_as_double(b), out));
        } else if (a->kind == JK_BIG || b->kind == JK_BIG) {
            if (op != JO_MOD || b->kind == JK_BIG || b->u.i > INT64_MAX / 16 ||
                b->u.i < -(INT64_MAX / 16)) {
                return too_large(vm);
            }
            TDM_TRY(big_modulo(vm, a, b->u.i, out));
        } else {
            TDM_TRY(int_binary(vm, op, a->u.i, b->u.i, out));
        }
        out->flags |= origin;
        return TDM_OK;
    }
    if (op == JO_ADD) {
        if (a->kind == JK_STR && b->kind == JK_STR) {
            if (((a->flags | b->flags) & JV_SAFE) != 0) {
                return add_markup(vm, a, b, out);
            }
            const jval both[2] = {*a, *b};
            return tdm_jinja_concat(vm, both, 2, out);
        }
        if (is_sequence(a) && is_sequence(b) && (a->kind == JK_TUPLE) == (b->kind == JK_TUPLE)) {
            return join_lists(vm, a, b, out);
        }
    }
    if (op == JO_MUL) {
        const jval *many = tdm_jinja_is_intlike(a) ? b : a;
        const jval *n = tdm_jinja_is_intlike(a) ? a : b;
        if (tdm_jinja_is_intlike(n) && many->kind == JK_STR) {
            return tdm_jinja_repeat(vm, many, n->u.i, out);
        }
        if (tdm_jinja_is_intlike(n) && is_sequence(many)) {
            return repeat_list(vm, many, n->u.i, out);
        }
    }
    if (op == JO_MOD && a->kind == JK_STR) {
        return tdm_jinja_percent(vm, a, b, out);
    }
    return no_operator(vm, op_text(op), a, b);
}

tdm_status tdm_jinja_add(jinja_vm *vm, const jval *values, uint32_t n, jval *out) {
    bool is_plain = true;
    for (uint32_t i = 0; i < n && is_plain; i++) {
        is_plain = values[i].kind == JK_STR && (values[i].flags & JV_SAFE) == 0;
    }
    if (is_plain) {
        return tdm_jinja_concat(vm, values, n, out);
    }
    jval sum = values[0];
    for (uint32_t i = 1; i < n; i++) {
        const jval left = sum;
        TDM_TRY(tdm_jinja_binary(vm, JO_ADD, &left, &values[i], &sum));
    }
    *out = sum;
    return TDM_OK;
}

/* An integer beyond int64, or the smallest int64: its digits with another sign. */
static tdm_status negate_big(jinja_vm *vm, const jval *v, bool is_minus, jval *out) {
    *out = *v;
    if (!is_minus) {
        return TDM_OK;
    }
    if (v->kind != JK_BIG) {
        return too_large(vm);
    }
    if (v->u.s[0] == '-') {
        out->u.s++;
        out->len--;
        return TDM_OK;
    }
    char *digits = tdm_jinja_alloc(vm, v->len + 2u, 1);
    if (digits == NULL) {
        return tdm_jinja_nomem(vm);
    }
    digits[0] = '-';
    memcpy(digits + 1, v->u.s, v->len + 1u);
    out->u.s = digits;
    out->len++;
    return TDM_OK;
}

tdm_status tdm_jinja_negate(jinja_vm *vm, const jval *v, bool is_minus, jval *out) {
    if (v->kind == JK_FLOAT) {
        *out = tdm_jinja_float(is_minus ? -v->u.f : v->u.f);
    } else if (tdm_jinja_is_intlike(v) && v->u.i != INT64_MIN) {
        *out = tdm_jinja_int(is_minus ? -v->u.i : v->u.i);
    } else if (v->kind == JK_UNDEF) {
        return tdm_jinja_raise_undefined(vm, v);
    } else if (tdm_jinja_is_number(v)) {
        return negate_big(vm, v, is_minus, out);
    } else {
        return tdm_jinja_raise(vm, "bad operand type for unary %s: '%s'", is_minus ? "-" : "+",
                               tdm_jinja_type_name(v));
    }
    out->flags = (uint8_t)(v->flags & JV_UNTRUSTED);
    return TDM_OK;
}

tdm_status tdm_jinja_test_order(jinja_vm *vm, uint8_t op, const jval *a, const jval *b, bool *out) {
    int order = 0;
    bool is_equal = false;
    switch (op) {
    case JO_EQ:
    case JO_NE:
        TDM_TRY(tdm_jinja_equal(vm, a, b, &is_equal));
        *out = is_equal == (op == JO_EQ);
        return TDM_OK;
    case JC_IN:
    case JC_NOT_IN:
        TDM_TRY(tdm_jinja_contains(vm, b, a, &is_equal));
        *out = is_equal == (op == JC_IN);
        return TDM_OK;
    default:
        TDM_TRY(tdm_jinja_compare(vm, a, b, &order));
        if (order == 2) { /* NaN */
            *out = false;
            return TDM_OK;
        }
        *out = op == JO_LT   ? order < 0
               : op == JO_LE ? order <= 0
               : op == JO_GT ? order > 0
                             : order >= 0;
        return TDM_OK;
    }
}
