/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests: what stands behind `is`. They answer a bool; those that compare fail as the operators do.
 */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

static tdm_status answer(jval *out, bool b) {
    *out = tdm_jinja_bool(b);
    return TDM_OK;
}

static tdm_status test_defined(jargs *a, jval *out) {
    return answer(out, a->value->kind != JK_UNDEF && a->value->kind != JK_MISSING);
}

static tdm_status test_undefined(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_UNDEF || a->value->kind == JK_MISSING);
}

static tdm_status test_none(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_NONE);
}

static tdm_status test_boolean(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_BOOL);
}

static tdm_status test_true(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_BOOL && a->value->u.i != 0);
}

static tdm_status test_false(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_BOOL && a->value->u.i == 0);
}

static tdm_status test_integer(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_INT || a->value->kind == JK_BIG);
}

static tdm_status test_float(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_FLOAT);
}

static tdm_status test_number(jargs *a, jval *out) {
    return answer(out, tdm_jinja_is_number(a->value));
}

static tdm_status test_string(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_STR);
}

static tdm_status test_mapping(jargs *a, jval *out) {
    return answer(out, tdm_jinja_is_map(a->value));
}

static tdm_status test_sequence(jargs *a, jval *out) {
    const jval *v = a->value;
    return answer(out, v->kind == JK_STR || v->kind == JK_UNDEF || tdm_jinja_is_map(v) ||
                           tdm_jinja_is_list(v) || v->kind == JK_TUPLE || v->kind == JK_RANGE);
}

static tdm_status test_iterable(jargs *a, jval *out) {
    const jval *v = a->value;
    return answer(out, v->kind == JK_STR || v->kind == JK_UNDEF || v->kind == JK_LOOP ||
                           tdm_jinja_has_items(v));
}

static tdm_status test_callable(jargs *a, jval *out) {
    const jval *v = a->value;
    return answer(out, v->kind == JK_MACRO || v->kind == JK_METHOD || v->kind == JK_FUNC ||
                           v->kind == JK_LOOP || v->kind == JK_UNDEF);
}

static tdm_status test_escaped(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_STR && (a->value->flags & JV_SAFE) != 0);
}

static tdm_status test_class(jargs *a, jclass what, jval *out) {
    jval text = {0};
    TDM_TRY(tdm_jinja_str(a->vm, a->value, &text));
    TDM_TRY(tdm_jinja_charge(a->vm, text.len / 16));
    return answer(out, tdm_jinja_is_class(&text, what));
}

static tdm_status test_lower(jargs *a, jval *out) {
    return test_class(a, JCLASS_LOWER, out);
}

static tdm_status test_upper(jargs *a, jval *out) {
    return test_class(a, JCLASS_UPPER, out);
}

static tdm_status modulo_is(jargs *a, const jval *by, int64_t want, jval *out) {
    jval rest = {0};
    bool is_equal = false;
    const jval wanted = tdm_jinja_int(want);
    TDM_TRY(tdm_jinja_binary(a->vm, JO_MOD, a->value, by, &rest));
    TDM_TRY(tdm_jinja_equal(a->vm, &rest, &wanted, &is_equal));
    return answer(out, is_equal);
}

static tdm_status test_odd(jargs *a, jval *out) {
    const jval two = tdm_jinja_int(2);
    return modulo_is(a, &two, 1, out);
}

static tdm_status test_even(jargs *a, jval *out) {
    const jval two = tdm_jinja_int(2);
    return modulo_is(a, &two, 0, out);
}

static tdm_status test_divisibleby(jargs *a, jval *out) {
    return modulo_is(a, &a->arg[0], 0, out);
}

/* Identity. Python shares small integers and short strings; equal scalars are taken as the same. */
static tdm_status test_sameas(jargs *a, jval *out) {
    const jval *x = a->value;
    const jval *y = &a->arg[0];
    return answer(out, x->kind == y->kind && tdm_jinja_key_equal(x, y));
}

static tdm_status test_filter(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_STR &&
                           tdm_jinja_filter_find(a->value->u.s, a->value->len) >= 0);
}

static tdm_status test_test(jargs *a, jval *out) {
    return answer(out, a->value->kind == JK_STR &&
                           tdm_jinja_test_find(a->value->u.s, a->value->len) >= 0);
}

static tdm_status test_by(jargs *a, uint8_t op, jval *out) {
    bool is_true = false;
    TDM_TRY(tdm_jinja_test_order(a->vm, op, a->value, &a->arg[0], &is_true));
    return answer(out, is_true);
}

static tdm_status test_eq(jargs *a, jval *out) {
    return test_by(a, JO_EQ, out);
}

static tdm_status test_ne(jargs *a, jval *out) {
    return test_by(a, JO_NE, out);
}

static tdm_status test_gt(jargs *a, jval *out) {
    return test_by(a, JO_GT, out);
}

static tdm_status test_ge(jargs *a, jval *out) {
    return test_by(a, JO_GE, out);
}

static tdm_status test_lt(jargs *a, jval *out) {
    return test_by(a, JO_LT, out);
}

static tdm_status test_le(jargs *a, jval *out) {
    return test_by(a, JO_LE, out);
}

static tdm_status test_in(jargs *a, jval *out) {
    return test_by(a, JC_IN, out);
}

const jbuiltin TDM_JINJA_TESTS[] = {
    {"defined", test_defined, "", 0},
    {"undefined", test_undefined, "", 0},
    {"none", test_none, "", 0},
    {"string", test_string, "", 0},
    {"mapping", test_mapping, "", 0},
    {"iterable", test_iterable, "", 0},
    {"sequence", test_sequence, "", 0},
    {"boolean", test_boolean, "", 0},
    {"true", test_true, "", 0},
    {"false", test_false, "", 0},
    {"integer", test_integer, "", 0},
    {"float", test_float, "", 0},
    {"number", test_number, "", 0},
    {"callable", test_callable, "", 0},
    {"escaped", test_escaped, "", 0},
    {"lower", test_lower, "", 0},
    {"upper", test_upper, "", 0},
    {"odd", test_odd, "", 0},
    {"even", test_even, "", 0},
    {"divisibleby", test_divisibleby, "num", 1},
    {"sameas", test_sameas, "other", 1},
    {"filter", test_filter, "", 0},
    {"test", test_test, "", 0},
    {"in", test_in, "seq", 1},
    {"equalto", test_eq, "b", 1},
    {"eq", test_eq, "b", 1},
    {"==", test_eq, "b", 1},
    {"ne", test_ne, "b", 1},
    {"!=", test_ne, "b", 1},
    {"gt", test_gt, "b", 1},
    {">", test_gt, "b", 1},
    {"greaterthan", test_gt, "b", 1},
    {"ge", test_ge, "b", 1},
    {">=", test_ge, "b", 1},
    {"lt", test_lt, "b", 1},
    {"<", test_lt, "b", 1},
    {"lessthan", test_lt, "b", 1},
    {"le", test_le, "b", 1},
    {"<=", test_le, "b", 1},
    {NULL, NULL, NULL, 0},
};
