/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters, tests, functions and methods: how they are found and called. Floor 4, private to the
 * template engine. */
#ifndef TDM_TEXT_JINJA_BUILTIN_H
#define TDM_TEXT_JINJA_BUILTIN_H

#include "text/jinja_value.h"

#define JARGS_MAX 6u

/* A call. value is what a filter filters, a test tests or a method belongs to. */
typedef struct jargs {
    jinja_vm *vm;
    const jval *value;
    const jval *pos;
    uint32_t n;
    const uint32_t *names; /* of the keyword arguments: indexes of the program's names */
    const jval *named;
    uint32_t n_named;
    jval arg[JARGS_MAX]; /* by parameter; JK_MISSING where not given. Unset when is_variadic. */
} jargs;

typedef struct jbuiltin {
    const char *name;
    tdm_status (*run)(jargs *a, jval *out);
    const char *params; /* names with blanks between; NULL: variadic, run looks itself */
    uint8_t n_required;
} jbuiltin;

int tdm_jinja_filter_find(const char *name, size_t len);
int tdm_jinja_test_find(const char *name, size_t len);
/* The function of a global name ("range"), or -1. */
int tdm_jinja_function_find(const char *name, size_t len);
/* The method of a value of this kind, or -1. */
int tdm_jinja_method_find(uint8_t kind, const char *name, size_t len);
/* Jinja has a filter or test of this name that is left out here. */
bool tdm_jinja_is_unsupported(const char *name, size_t len, bool is_test);

/* Binds arguments to parameters and runs. Errors name the builtin. */
tdm_status tdm_jinja_call_filter(uint32_t id, jargs *a, jval *out);
tdm_status tdm_jinja_call_test(uint32_t id, jargs *a, jval *out);
tdm_status tdm_jinja_call_function(uint32_t id, jargs *a, jval *out);
tdm_status tdm_jinja_call_method(uint32_t id, jargs *a, jval *out);

/* The tables, one file each; the last entry has no name. */
extern const jbuiltin TDM_JINJA_TEXT_FILTERS[];
extern const jbuiltin TDM_JINJA_SEQ_FILTERS[];
extern const jbuiltin TDM_JINJA_TESTS[];
extern const jbuiltin TDM_JINJA_FUNCTIONS[];
extern const jbuiltin TDM_JINJA_STR_METHODS[];
extern const jbuiltin TDM_JINJA_MAP_METHODS[];
extern const jbuiltin TDM_JINJA_LIST_METHODS[];
extern const jbuiltin TDM_JINJA_LOOP_METHODS[];

/* Helpers of builtins. */
static inline bool tdm_jinja_given(const jargs *a, uint32_t i) {
    return a->arg[i].kind != JK_MISSING;
}
/* Argument i as an integer or a truth; fallback when not given. */
tdm_status tdm_jinja_arg_int(const jargs *a, uint32_t i, int64_t fallback, int64_t *out);
bool tdm_jinja_arg_truth(const jargs *a, uint32_t i, bool fallback);
/* Python's soft_str: strings stay, everything else becomes its text. Undefined becomes "". */
tdm_status tdm_jinja_as_text(jinja_vm *vm, const jval *v, jval *out);

#endif
