/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that renders: its state, its budgets and what the builtins need of it. Floor 4,
 * private to the template engine.
 * One render owns one machine on its caller's stack; the machine's arena holds every value made. */
#ifndef TDM_TEXT_JINJA_VM_H
#define TDM_TEXT_JINJA_VM_H

#include "text/jinja_program.h"
#include "text/template.h"

#include <string.h>

typedef struct jbinding {
    uint32_t name;
    jval value;
} jbinding;

typedef struct jscope {
    struct jscope *parent; /* NULL: the names of the whole template come next */
    jbinding *bindings;
    uint32_t n, cap;
    bool is_captured; /* a macro remembers it: never reused */
} jscope;

typedef struct jmacro {
    const jmacro_def *def;
    jscope *scope;
} jmacro;

typedef struct jloop {
    jval items;
    uint32_t index; /* rounds begun; loop.index0 is one less */
    uint32_t n;
    uint32_t depth;   /* loop.depth0 */
    uint32_t next_pc; /* JX_NEXT, for loop(...) */
    bool is_recursive;
    bool has_round; /* the body was run to its end once */
    bool has_seen;  /* loop.changed */
    jval seen;
} jloop;

typedef enum jframe_kind {
    JF_FOR,
    JF_COLLECT,
    JF_SCOPE,
    JF_CAPTURE,
    JF_MACRO,
    JF_RECURSION
} jframe_kind;

typedef struct jframe {
    jframe_kind kind;
    uint32_t return_pc;
    size_t text_begin; /* captures: the output before */
    size_t span_begin;
    size_t span_base;
    jscope *scope; /* of the frame outside */
    jscope *own;   /* loops */
    jloop *loop;
    jval kept;
} jframe;

struct jinja_vm {
    const jprogram *program;
    tdm_arena arena;
    tdm_template_output *output;
    tdm_error *err;
    uint64_t steps_left, steps_max;
    uint32_t depth, depth_max;
    int64_t now_unix_s;
    bool is_over_memory; /* the allocation that failed would have crossed the arena's limit */
    uint32_t pc;         /* the instruction that runs */
    jval *stack;
    uint32_t n_stack, stack_cap;
    jframe *frames;
    uint32_t n_frames, frames_cap;
    size_t span_base; /* spans before it belong to the output outside of a capture */
    jscope *scope;
    jval *globals; /* [program->n_names] */
};

/* Memory of the render: NULL once it or memory is exhausted; then return tdm_jinja_nomem. */
void *tdm_jinja_alloc(jinja_vm *vm, size_t n, size_t elem_bytes);
tdm_status tdm_jinja_nomem(jinja_vm *vm);
/* A template error at the instruction that runs. */
tdm_status tdm_jinja_raise(jinja_vm *vm, const char *fmt, ...) TDM_PRINTF(2, 3);
tdm_status tdm_jinja_raise_undefined(jinja_vm *vm, const jval *v);
/* A crossed budget. */
tdm_status tdm_jinja_limit(jinja_vm *vm, const char *fmt, ...) TDM_PRINTF(2, 3);
/* Takes steps for work that one instruction does on many things. */
tdm_status tdm_jinja_charge(jinja_vm *vm, uint64_t steps);
tdm_status tdm_jinja_out_of_steps(jinja_vm *vm);
tdm_status tdm_jinja_write(jinja_vm *vm, const char *s, size_t len, bool is_untrusted);
/* The text of a value; undefined is empty. */
tdm_status tdm_jinja_write_value(jinja_vm *vm, const jval *v);

/* x.name and x[key]. */
tdm_status tdm_jinja_getattr(jinja_vm *vm, const jval *v, const char *name, size_t len, jval *out);
tdm_status tdm_jinja_getitem(jinja_vm *vm, const jval *v, const jval *key, jval *out);
/* "a.b.0" as filters take it. */
tdm_status tdm_jinja_getpath(jinja_vm *vm, const jval *v, const jval *path, jval *out);
/* parts: start, stop, step; None where left out. */
tdm_status tdm_jinja_slice(jinja_vm *vm, const jval *v, const jval parts[3], jval *out);
bool tdm_jinja_loop_attr(const jloop *loop, const char *name, size_t len, jval *out);

/* Operators. op: jop_kind, JC_IN, JC_NOT_IN. */
tdm_status tdm_jinja_binary(jinja_vm *vm, uint8_t op, const jval *a, const jval *b, jval *out);
tdm_status tdm_jinja_add(jinja_vm *vm, const jval *values, uint32_t n, jval *out);
tdm_status tdm_jinja_negate(jinja_vm *vm, const jval *v, bool is_minus, jval *out);
tdm_status tdm_jinja_test_order(jinja_vm *vm, uint8_t op, const jval *a, const jval *b, bool *out);

/* Runs the program into vm->output. */
tdm_status tdm_jinja_run(jinja_vm *vm);

#endif
