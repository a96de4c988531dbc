/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends a render early, and what it has written so far: steps, memory, errors with their place
 * in the source, and the output with its spans. */
#include "text/jinja_string.h"
#include "text/jinja_vm.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* --- budgets and errors --------------------------------------------------------------------------
 */

void *tdm_jinja_alloc(jinja_vm *vm, size_t n, size_t elem_bytes) {
    size_t bytes = 0;
    if (!tdm_mul_size(n, elem_bytes, &bytes) || bytes > SIZE_MAX / 2) {
        vm->is_over_memory = true;
        return NULL;
    }
    void *ptr = tdm_arena_alloc(&vm->arena, bytes == 0 ? 1 : bytes, elem_bytes == 1 ? 1 : 8);
    if (ptr == NULL) {
        const size_t used = vm->arena.used_bytes;
        const size_t limit = vm->arena.limit_bytes;
        vm->is_over_memory = used > limit || bytes + 64 > limit - used; /* 64: padding */
    }
    return ptr;
}

static uint32_t position(const jinja_vm *vm) {
    return vm->pc < vm->program->n_code ? vm->program->code[vm->pc].pos : vm->program->source.len;
}

tdm_status tdm_jinja_limit(jinja_vm *vm, const char *fmt, ...) {
    char limit[96];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(limit, sizeof limit, fmt, args);
    va_end(args);
    (void)tdm_fail(vm->err, TDM_E_LIMIT, "the template crossed its budget: %s", limit);
    tdm_err_limit(vm->err, "%s", limit);
    tdm_jinja_where(&vm->program->source, position(vm), vm->err);
    return TDM_E_LIMIT;
}

tdm_status tdm_jinja_nomem(jinja_vm *vm) {
    if (vm->is_over_memory) {
        return tdm_jinja_limit(vm, "template memory of %zu bytes", vm->arena.limit_bytes);
    }
    return tdm_fail_nomem(vm->err, "template values");
}

tdm_status tdm_jinja_raise(jinja_vm *vm, const char *fmt, ...) {
    char what[sizeof vm->err->what];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    (void)tdm_fail(vm->err, TDM_E_FORMAT, "%s", what);
    tdm_jinja_where(&vm->program->source, position(vm), vm->err);
    return TDM_E_FORMAT;
}

tdm_status tdm_jinja_raise_undefined(jinja_vm *vm, const jval *v) {
    const int n = v->len > 100 ? 100 : (int)v->len;
    return tdm_jinja_raise(vm, "'%.*s' is undefined", n, n > 0 ? v->u.s : "");
}

tdm_status tdm_jinja_out_of_steps(jinja_vm *vm) {
    return tdm_jinja_limit(vm, "template steps %" PRIu64, vm->steps_max);
}

tdm_status tdm_jinja_charge(jinja_vm *vm, uint64_t steps) {
    if (steps > vm->steps_left) {
        vm->steps_left = 0;
        return tdm_jinja_out_of_steps(vm);
    }
    vm->steps_left -= steps;
    return TDM_OK;
}

/* --- output
 * ---------------------------------------------------------------------------------------- */

static tdm_status add_span(jinja_vm *vm, size_t begin, size_t end, bool is_trusted) {
    tdm_template_output *o = vm->output;
    if (o->n_spans > vm->span_base && o->spans[o->n_spans - 1].is_trusted == is_trusted) {
        o->spans[o->n_spans - 1].end = end;
        return TDM_OK;
    }
    if (o->n_spans == o->spans_cap) {
        const size_t cap = o->spans_cap == 0 ? 64 : o->spans_cap * 2;
        void *spans = tdm_mem_resize(o->text.alloc, o->spans, o->spans_cap * sizeof *o->spans,
                                     cap * sizeof *o->spans);
        if (spans == NULL) {
            return tdm_fail_nomem(vm->err, "template output");
        }
        o->spans = spans;
        o->spans_cap = cap;
    }
    o->spans[o->n_spans].begin = begin;
    o->spans[o->n_spans].end = end;
    o->spans[o->n_spans].is_trusted = is_trusted;
    o->n_spans++;
    return TDM_OK;
}

tdm_status tdm_jinja_write(jinja_vm *vm, const char *s, size_t len, bool is_untrusted) {
    tdm_buf *text = &vm->output->text;
    if (len == 0) {
        return TDM_OK;
    }
    const size_t begin = text->len;
    const tdm_status status = tdm_buf_append(text, s, len);
    if (status == TDM_E_LIMIT) {
        return tdm_jinja_limit(vm, "template output of %zu bytes", text->limit_bytes);
    }
    if (status != TDM_OK) {
        return tdm_fail_nomem(vm->err, "template output");
    }
    return add_span(vm, begin, text->len, !is_untrusted);
}

tdm_status tdm_jinja_write_value(jinja_vm *vm, const jval *v) {
    jval text = {0};
    if (v->kind == JK_UNDEF || v->kind == JK_MISSING) {
        return TDM_OK;
    }
    if (v->kind == JK_INT) { /* common, and needs no value of its own */
        char digits[24];
        const int n = snprintf(digits, sizeof digits, "%" PRId64, v->u.i);
        return tdm_jinja_write(vm, digits, (size_t)n, (v->flags & JV_UNTRUSTED) != 0);
    }
    TDM_TRY(tdm_jinja_str(vm, v, &text));
    if (text.runs == NULL) {
        return tdm_jinja_write(vm, text.u.s, text.len, (text.flags & JV_UNTRUSTED) != 0);
    }
    uint32_t begin = 0;
    for (uint32_t i = 0; i < text.runs->n; i++) {
        const jrun *run = &text.runs->run[i];
        TDM_TRY(tdm_jinja_write(vm, text.u.s + begin, run->end - begin, run->is_untrusted));
        begin = run->end;
    }
    return TDM_OK;
}
