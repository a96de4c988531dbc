/* SPDX-License-Identifier: Apache-2.0
 *
 * How builtins are found by name and how arguments meet parameters. The list of names is the whole
 * of what a template can call; nothing is looked up anywhere else. */
#include "text/jinja_builtin.h"

#include "text/jinja_string.h"
#include "text/jinja_vm.h"

static int find_in(const jbuiltin *table, const char *name, size_t len) {
    for (int i = 0; table[i].name != NULL; i++) {
        if (strlen(table[i].name) == len && memcmp(table[i].name, name, len) == 0) {
            return i;
        }
    }
    return -1;
}

/* Filters of the second table, and methods of other kinds, have ids from here on. */
#define TABLE_STEP 1000

int tdm_jinja_filter_find(const char *name, size_t len) {
    const int id = find_in(TDM_JINJA_TEXT_FILTERS, name, len);
    if (id >= 0) {
        return id;
    }
    const int second = find_in(TDM_JINJA_SEQ_FILTERS, name, len);
    return second < 0 ? -1 : second + TABLE_STEP;
}

int tdm_jinja_test_find(const char *name, size_t len) {
    return find_in(TDM_JINJA_TESTS, name, len);
}

int tdm_jinja_function_find(const char *name, size_t len) {
    return find_in(TDM_JINJA_FUNCTIONS, name, len);
}

static const jbuiltin *const METHOD_TABLES[] = {TDM_JINJA_STR_METHODS, TDM_JINJA_MAP_METHODS,
                                                TDM_JINJA_LIST_METHODS, TDM_JINJA_LOOP_METHODS};

int tdm_jinja_method_find(uint8_t kind, const char *name, size_t len) {
    int table = -1;
    switch (kind) {
    case JK_STR:
        table = 0;
        break;
    case JK_MAP:
    case JK_JOBJECT:
        table = 1;
        break;
    case JK_LIST:
    case JK_JARRAY:
    case JK_TUPLE:
        table = 2;
        break;
    case JK_LOOP:
        table = 3;
        break;
    default:
        return -1;
    }
    const int id = find_in(METHOD_TABLES[table], name, len);
    if (kind == JK_TUPLE && len == 4) { /* tuples have no copy */
        return -1;
    }
    return id < 0 ? -1 : id + table * TABLE_STEP;
}

bool tdm_jinja_is_unsupported(const char *name, size_t len, bool is_test) {
    static const char *const NAMES[] = {"filesizeformat", "pprint",  "random",  "striptags",
                                        "urlize",         "xmlattr", "wordwrap"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES && !is_test; i++) {
        if (strlen(NAMES[i]) == len && memcmp(NAMES[i], name, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Index of `name` among the words of params, or -1. */
static int parameter_index(const char *params, const jname *name) {
    int idx = 0;
    while (*params != 0) {
        const char *end = strchr(params, ' ');
        const size_t len = end == NULL ? strlen(params) : (size_t)(end - params);
        if (len == name->len && memcmp(params, name->text, len) == 0) {
            return idx;
        }
        if (end == NULL) {
            break;
        }
        params = end + 1;
        idx++;
    }
    return -1;
}

static uint32_t count_params(const char *params) {
    uint32_t n = *params != 0;
    for (; *params != 0; params++) {
        n += *params == ' ';
    }
    return n;
}

static tdm_status bind(const jbuiltin *f, jargs *a) {
    for (uint32_t i = 0; i < JARGS_MAX; i++) {
        a->arg[i] = tdm_jinja_of_kind(JK_MISSING);
    }
    if (a->n > count_params(f->params)) {
        return tdm_jinja_raise(a->vm, "%s takes at most %u arguments, %u were given", f->name,
                               count_params(f->params), a->n);
    }
    for (uint32_t i = 0; i < a->n; i++) {
        a->arg[i] = a->pos[i];
    }
    for (uint32_t i = 0; i < a->n_named; i++) {
        const jname *name = &a->vm->program->names[a->names[i]];
        const int idx = parameter_index(f->params, name);
        if (idx < 0 || a->arg[idx].kind != JK_MISSING) {
            return tdm_jinja_raise(a->vm, "%s got an unexpected argument '%.*s'", f->name,
                                   (int)(name->len > 60 ? 60 : name->len), name->text);
        }
        a->arg[idx] = a->named[i];
    }
    for (uint32_t i = 0; i < f->n_required; i++) {
        if (a->arg[i].kind == JK_MISSING) {
            return tdm_jinja_raise(a->vm, "%s lacks an argument", f->name);
        }
    }
    return TDM_OK;
}

static tdm_status call(const jbuiltin *f, jargs *a, jval *out) {
    if (f->params != NULL) {
        TDM_TRY(bind(f, a));
    }
    return f->run(a, out);
}

tdm_status tdm_jinja_call_filter(uint32_t id, jargs *a, jval *out) {
    return call(id < TABLE_STEP ? &TDM_JINJA_TEXT_FILTERS[id]
                                : &TDM_JINJA_SEQ_FILTERS[id - TABLE_STEP],
                a, out);
}

tdm_status tdm_jinja_call_test(uint32_t id, jargs *a, jval *out) {
    return call(&TDM_JINJA_TESTS[id], a, out);
}

tdm_status tdm_jinja_call_function(uint32_t id, jargs *a, jval *out) {
    return call(&TDM_JINJA_FUNCTIONS[id], a, out);
}

tdm_status tdm_jinja_call_method(uint32_t id, jargs *a, jval *out) {
    return call(&METHOD_TABLES[id / TABLE_STEP][id % TABLE_STEP], a, out);
}

tdm_status tdm_jinja_arg_int(const jargs *a, uint32_t i, int64_t fallback, int64_t *out) {
    if (!tdm_jinja_given(a, i)) {
        *out = fallback;
        return TDM_OK;
    }
    if (!tdm_jinja_is_intlike(&a->arg[i])) {
        if (a->arg[i].kind == JK_UNDEF) {
            return tdm_jinja_raise_undefined(a->vm, &a->arg[i]);
        }
        return tdm_jinja_raise(a->vm, "an integer is required, not %s",
                               tdm_jinja_type_name(&a->arg[i]));
    }
    *out = a->arg[i].u.i;
    return TDM_OK;
}

bool tdm_jinja_arg_truth(const jargs *a, uint32_t i, bool fallback) {
    return tdm_jinja_given(a, i) ? tdm_jinja_truth(&a->arg[i]) : fallback;
}

tdm_status tdm_jinja_as_text(jinja_vm *vm, const jval *v, jval *out) {
    return tdm_jinja_str(vm, v, out);
}
