/* SPDX-License-Identifier: Apache-2.0
 *
 * Global functions: range, dict, namespace, raise_exception and strftime_now. There are no others.
 */
#include "text/jinja_builtin.h"
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

/* As Jinja's sandbox has it. */
#define RANGE_MAX 100000

static tdm_status function_range(jargs *a, jval *out) {
    int64_t v[3] = {0, 0, 1};
    if (a->n == 0 || a->n > 3 || a->n_named > 0) {
        return tdm_jinja_raise(a->vm, "range takes one to three integers");
    }
    for (uint32_t i = 0; i < a->n; i++) {
        const jval *arg = &a->pos[i];
        if (arg->kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, arg);
        }
        if (!tdm_jinja_is_intlike(arg)) {
            return tdm_jinja_raise(a->vm, "range takes integers, not %s", tdm_jinja_type_name(arg));
        }
        v[a->n == 1 ? 1 : i] = arg->u.i;
    }
    if (v[2] == 0) {
        return tdm_jinja_raise(a->vm, "range() arg 3 must not be zero");
    }
    /* In unsigned numbers, which cannot overflow. */
    const bool is_up = v[2] > 0;
    const bool is_empty = is_up ? v[0] >= v[1] : v[0] <= v[1];
    const uint64_t span = is_up ? (uint64_t)v[1] - (uint64_t)v[0] : (uint64_t)v[0] - (uint64_t)v[1];
    const uint64_t step = is_up ? (uint64_t)v[2] : 0 - (uint64_t)v[2];
    const uint64_t n = is_empty ? 0 : (span - 1) / step + 1;
    if (n > RANGE_MAX) {
        return tdm_jinja_limit(a->vm, "template range of %d items", RANGE_MAX);
    }
    jrange *range = tdm_jinja_alloc(a->vm, 1, sizeof *range);
    if (range == NULL) {
        return tdm_jinja_nomem(a->vm);
    }
    *range = (jrange){.start = v[0], .stop = v[1], .step = v[2], .n = (uint32_t)n};
    *out = (jval){.kind = JK_RANGE, .u.range = range};
    return TDM_OK;
}

static tdm_status fill_map(jargs *a, jkind kind, jval *out) {
    TDM_TRY(tdm_jinja_map_new(a->vm, kind, a->n_named, out));
    if (a->n > 1) {
        return tdm_jinja_raise(a->vm, "at most one positional argument is taken, %u were given",
                               a->n);
    }
    if (a->n == 1) {
        jval items = {0};
        const bool is_map = tdm_jinja_is_map(&a->pos[0]);
        TDM_TRY(tdm_jinja_iterable(a->vm, &a->pos[0], &items));
        for (uint32_t i = 0; i < tdm_jinja_n_items(&items); i++) {
            jval key = tdm_jinja_item(&items, i);
            jval value = {0};
            if (is_map) {
                value = tdm_jinja_map_value(&items, i);
            } else {
                const jval pair = key;
                if (!tdm_jinja_has_items(&pair) || tdm_jinja_n_items(&pair) != 2) {
                    return tdm_jinja_raise(a->vm, "a sequence of pairs is required");
                }
                key = tdm_jinja_item(&pair, 0);
                value = tdm_jinja_item(&pair, 1);
            }
            TDM_TRY(tdm_jinja_map_set(a->vm, out->u.map, &key, &value));
        }
    }
    for (uint32_t i = 0; i < a->n_named; i++) {
        const jname *name = &a->vm->program->names[a->names[i]];
        const jval key = tdm_jinja_text(name->text, name->len);
        TDM_TRY(tdm_jinja_map_set(a->vm, out->u.map, &key, &a->named[i]));
    }
    return TDM_OK;
}

static tdm_status function_namespace(jargs *a, jval *out) {
    return fill_map(a, JK_NAMESPACE, out);
}

static tdm_status function_dict(jargs *a, jval *out) {
    return fill_map(a, JK_MAP, out);
}

static tdm_status function_raise_exception(jargs *a, jval *out) {
    jval text = {0};
    (void)out;
    TDM_TRY(tdm_jinja_str(a->vm, &a->arg[0], &text));
    tdm_template_output *output = a->vm->output;
    tdm_buf_reset(&output->raised);
    const tdm_status status = tdm_buf_append(&output->raised, text.u.s, text.len);
    if (status != TDM_OK) {
        return tdm_jinja_nomem(a->vm);
    }
    output->was_raised = true;
    return tdm_jinja_raise(a->vm, "%.*s", (int)(text.len > 255 ? 255 : text.len), text.u.s);
}

static tdm_status function_strftime_now(jargs *a, jval *out) {
    if (a->arg[0].kind != JK_STR) {
        return tdm_jinja_raise(a->vm, "strftime_now takes a format, not %s",
                               tdm_jinja_type_name(&a->arg[0]));
    }
    return tdm_jinja_strftime(a->vm, &a->arg[0], a->vm->now_unix_s, out);
}

const jbuiltin TDM_JINJA_FUNCTIONS[] = {
    {"raise_exception", function_raise_exception, "message", 1},
    {"namespace", function_namespace, NULL, 0},
    {"range", function_range, NULL, 0},
    {"strftime_now", function_strftime_now, "format", 1},
    {"dict", function_dict, NULL, 0},
    {NULL, NULL, NULL, 0},
};
