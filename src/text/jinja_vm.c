/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine: runs a program over values with an explicit value stack and an explicit frame stack,
 * so that neither nesting nor recursion of a template uses the C stack. Every instruction takes a
 * step from the budget, builtins take more for long work, and every value comes from one arena with
 * a limit; crossing either ends the render with an answer.
 * Text is written to one buffer: a capture (set block, macro) marks a place in it and later takes
 * back what was written behind the mark. */
#include "text/jinja_vm.h"

#include "text/jinja_builtin.h"
#include "text/jinja_string.h"

static void capture_begin(jinja_vm *vm, jframe *frame) {
    frame->text_begin = vm->output->text.len;
    frame->span_begin = vm->output->n_spans;
    frame->span_base = vm->span_base;
    vm->span_base = vm->output->n_spans;
}

/* Takes back what was written since capture_begin. */
static tdm_status capture_end(jinja_vm *vm, const jframe *frame, jval *out) {
    tdm_template_output *o = vm->output;
    jbuild b = {.vm = vm};
    for (size_t i = frame->span_begin; i < o->n_spans; i++) {
        TDM_TRY(tdm_jinja_build_add(&b, o->text.data + o->spans[i].begin,
                                    o->spans[i].end - o->spans[i].begin, !o->spans[i].is_trusted));
    }
    o->text.len = frame->text_begin;
    o->n_spans = frame->span_begin;
    vm->span_base = frame->span_base;
    return tdm_jinja_build_end(&b, out);
}

/* --- stacks and scopes
 * ------------------------------------------------------------------------------ */

static tdm_status grow_stack(jinja_vm *vm) {
    const uint32_t cap = vm->stack_cap == 0 ? 64 : vm->stack_cap * 2;
    jval *stack = tdm_jinja_alloc(vm, cap, sizeof *stack);
    if (stack == NULL) {
        return tdm_jinja_nomem(vm);
    }
    if (vm->n_stack > 0) {
        memcpy(stack, vm->stack, vm->n_stack * sizeof *stack);
    }
    vm->stack = stack;
    vm->stack_cap = cap;
    return TDM_OK;
}

static tdm_status push(jinja_vm *vm, const jval *v) {
    if (vm->n_stack == vm->stack_cap) {
        TDM_TRY(grow_stack(vm));
    }
    vm->stack[vm->n_stack++] = *v;
    return TDM_OK;
}

static tdm_status push_frame(jinja_vm *vm, jframe_kind kind, jframe **out) {
    if (vm->n_frames == vm->frames_cap) {
        const uint32_t cap = vm->frames_cap == 0 ? 16 : vm->frames_cap * 2;
        jframe *frames = tdm_jinja_alloc(vm, cap, sizeof *frames);
        if (frames == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (vm->n_frames > 0) {
            memcpy(frames, vm->frames, vm->n_frames * sizeof *frames);
        }
        vm->frames = frames;
        vm->frames_cap = cap;
    }
    *out = &vm->frames[vm->n_frames++];
    **out = (jframe){.kind = kind, .scope = vm->scope};
    return TDM_OK;
}

static tdm_status new_scope(jinja_vm *vm, jscope *parent, jscope **out) {
    jscope *scope = tdm_jinja_alloc(vm, 1, sizeof *scope);
    if (scope == NULL) {
        return tdm_jinja_nomem(vm);
    }
    *scope = (jscope){.parent = parent};
    *out = scope;
    return TDM_OK;
}

/* Adds a name that the scope does not have yet. */
static tdm_status scope_add(jinja_vm *vm, jscope *scope, uint32_t name, const jval *v) {
    if (scope->n == scope->cap) {
        const uint32_t cap = scope->cap == 0 ? 4 : scope->cap * 2;
        jbinding *bindings = tdm_jinja_alloc(vm, cap, sizeof *bindings);
        if (bindings == NULL) {
            return tdm_jinja_nomem(vm);
        }
        if (scope->n > 0) {
            memcpy(bindings, scope->bindings, scope->n * sizeof *bindings);
        }
        scope->bindings = bindings;
        scope->cap = cap;
    }
    scope->bindings[scope->n++] = (jbinding){.name = name, .value = *v};
    return TDM_OK;
}

static tdm_status store(jinja_vm *vm, uint32_t name, const jval *v) {
    jscope *scope = vm->scope;
    if (scope == NULL) {
        vm->globals[name] = *v;
        return TDM_OK;
    }
    for (uint32_t i = 0; i < scope->n; i++) {
        if (scope->bindings[i].name == name) {
            scope->bindings[i].value = *v;
            return TDM_OK;
        }
    }
    return scope_add(vm, scope, name, v);
}

static void load(const jinja_vm *vm, uint32_t name, jval *out) {
    for (const jscope *scope = vm->scope; scope != NULL; scope = scope->parent) {
        for (uint32_t i = 0; i < scope->n; i++) {
            if (scope->bindings[i].name == name) {
                *out = scope->bindings[i].value;
                goto found;
            }
        }
    }
    *out = vm->globals[name];
found:
    if (out->kind == JK_MISSING) {
        const jname *n = &vm->program->names[name];
        *out = tdm_jinja_undefined(n->text, n->len);
    }
}

/* --- loops
 * -------------------------------------------------------------------------------------------- */

static tdm_status loop_begin(jinja_vm *vm, jframe_kind kind, const jval *over, uint32_t next_pc,
                             bool is_recursive, uint32_t depth) {
    jframe *frame = NULL;
    jloop *loop = tdm_jinja_alloc(vm, 1, sizeof *loop);
    if (loop == NULL) {
        return tdm_jinja_nomem(vm);
    }
    *loop = (jloop){.next_pc = next_pc, .is_recursive = is_recursive, .depth = depth};
    TDM_TRY(tdm_jinja_iterable(vm, over, &loop->items));
    loop->n = tdm_jinja_n_items(&loop->items);
    TDM_TRY(push_frame(vm, kind, &frame));
    frame->loop = loop;
    TDM_TRY(new_scope(vm, vm->scope, &frame->own));
    if (kind == JF_COLLECT) {
        TDM_TRY(tdm_jinja_seq_new(vm, JK_LIST, 0, &frame->kept));
    }
    return TDM_OK;
}

/* Leaves frames until the innermost loop is on top (break may stand inside others: it has closed
 * them itself), then begins its next round. */
static tdm_status loop_next(jinja_vm *vm, const jinstruction *i, uint32_t *pc) {
    jframe *frame = &vm->frames[vm->n_frames - 1];
    jloop *loop = frame->loop;
    if (loop->index == loop->n) {
        *pc = i->a;
        return TDM_OK;
    }
    if (frame->own->is_captured) { /* a macro made in the last round keeps that round's names */
        TDM_TRY(new_scope(vm, frame->scope, &frame->own));
    }
    frame->own->n = 0;
    vm->scope = frame->own;
    const jval item = tdm_jinja_item(&loop->items, loop->index++);
    if (frame->kind == JF_FOR && vm->program->loop_name != JINJA_NO_NAME) {
        const jval value = {.kind = JK_LOOP, .u.loop = loop};
        TDM_TRY(scope_add(vm, frame->own, vm->program->loop_name, &value));
    }
    return push(vm, &item);
}

static void loop_end(jinja_vm *vm, const jinstruction *i, uint32_t *pc) {
    const jframe *frame = &vm->frames[--vm->n_frames];
    vm->scope = frame->scope;
    if (frame->loop->has_round) { /* as in Jinja: one that break or continue left does not count */
        *pc = i->a;
    }
}

/* --- calls
 * --------------------------------------------------------------------------------------------- */

typedef struct callsite {
    const jval *pos;
    uint32_t n;
    const jval *named;
    const uint32_t *names;
    uint32_t n_named;
} callsite;

static bool is_name(const jname *name, const char *want) {
    return strlen(want) == name->len && memcmp(name->text, want, name->len) == 0;
}

static tdm_status bind_extra(jinja_vm *vm, const jmacro_def *def, uint32_t name, jval *varargs,
                             jval *kwargs) {
    const jname *n = &vm->program->names[name];
    if (def->uses_varargs && is_name(n, "varargs")) {
        return scope_add(vm, vm->scope, name, varargs);
    }
    if (def->uses_kwargs && is_name(n, "kwargs")) {
        return scope_add(vm, vm->scope, name, kwargs);
    }
    return TDM_OK;
}

/* A keyword argument of a macro: a parameter, caller, or one of kwargs. */
static tdm_status bind_named(jinja_vm *vm, const jmacro_def *def, uint32_t name, const jval *v,
                             jval *kwargs, bool *out_has_caller) {
    for (uint32_t i = 0; i < def->n_params; i++) {
        if (vm->program->pool[def->params + i] == name) {
            jbinding *b = &vm->scope->bindings[i];
            if (b->value.kind != JK_MISSING && b->value.kind != JK_UNDEF) {
                break;
            }
            b->value = *v;
            return TDM_OK;
        }
    }
    const jname *n = &vm->program->names[name];
    if (def->uses_caller && is_name(n, "caller")) {
        *out_has_caller = true;
        return scope_add(vm, vm->scope, name, v);
    }
    if (def->uses_kwargs) {
        const jval key = tdm_jinja_text(n->text, n->len);
        return tdm_jinja_map_set(vm, kwargs->u.map, &key, v);
    }
    return tdm_jinja_raise(vm, "the macro takes no keyword argument '%.*s'",
                           (int)(n->len > 80 ? 80 : n->len), n->text);
}

/* Names the macro's own scope holds besides its parameters. */
static tdm_status bind_specials(jinja_vm *vm, const jmacro_def *def, jval *varargs, jval *kwargs,
                                bool has_caller) {
    for (uint32_t name = 0; name < vm->program->n_names; name++) {
        const jname *n = &vm->program->names[name];
        TDM_TRY(bind_extra(vm, def, name, varargs, kwargs));
        if (def->uses_caller && !has_caller && is_name(n, "caller")) {
            const jval none = tdm_jinja_undefined("caller", 6);
            TDM_TRY(scope_add(vm, vm->scope, name, &none));
        }
    }
    return TDM_OK;
}

static tdm_status bind_macro(jinja_vm *vm, const jmacro_def *def, const callsite *c) {
    jval varargs = {0};
    jval kwargs = {0};
    bool has_caller = false;
    const uint32_t *params = vm->program->pool + def->params;
    for (uint32_t i = 0; i < def->n_params; i++) {
        jval v = tdm_jinja_of_kind(JK_MISSING);
        if (i < c->n) {
            v = c->pos[i];
        } else if (i + def->n_defaults < def->n_params) {
            const jname *n = &vm->program->names[params[i]];
            v = tdm_jinja_undefined(n->text, n->len);
        }
        TDM_TRY(scope_add(vm, vm->scope, params[i], &v));
    }
    if (c->n > def->n_params && !def->uses_varargs) {
        return tdm_jinja_raise(vm, "the macro takes not more than %u arguments",
                               (unsigned)def->n_params);
    }
    if (def->uses_varargs) {
        TDM_TRY(tdm_jinja_seq_new(vm, JK_TUPLE, 0, &varargs));
        for (uint32_t i = def->n_params; i < c->n; i++) {
            TDM_TRY(tdm_jinja_seq_push(vm, varargs.u.seq, &c->pos[i]));
        }
    }
    if (def->uses_kwargs) {
        TDM_TRY(tdm_jinja_map_new(vm, JK_MAP, 0, &kwargs));
    }
    for (uint32_t i = 0; i < c->n_named; i++) {
        TDM_TRY(bind_named(vm, def, c->names[i], &c->named[i], &kwargs, &has_caller));
    }
    if (def->uses_caller || def->uses_varargs || def->uses_kwargs) {
        return bind_specials(vm, def, &varargs, &kwargs, has_caller);
    }
    return TDM_OK;
}

static tdm_status enter(jinja_vm *vm, jframe_kind kind, uint32_t return_pc, jframe **out) {
    if (vm->depth == vm->depth_max) {
        return tdm_jinja_limit(vm, "template macro depth %u", vm->depth_max);
    }
    vm->depth++;
    TDM_TRY(push_frame(vm, kind, out));
    (*out)->return_pc = return_pc;
    capture_begin(vm, *out);
    return TDM_OK;
}

static tdm_status call_macro(jinja_vm *vm, const jmacro *macro, const callsite *c, uint32_t *pc) {
    jframe *frame = NULL;
    jscope *scope = NULL;
    TDM_TRY(enter(vm, JF_MACRO, *pc, &frame));
    TDM_TRY(new_scope(vm, macro->scope, &scope));
    vm->scope = scope;
    TDM_TRY(bind_macro(vm, macro->def, c));
    *pc = macro->def->entry;
    return TDM_OK;
}

static tdm_status call_loop(jinja_vm *vm, const jloop *loop, const callsite *c, uint32_t *pc) {
    jframe *frame = NULL;
    if (!loop->is_recursive) {
        return tdm_jinja_raise(vm, "a loop must be marked recursive to be called");
    }
    if (c->n != 1 || c->n_named > 0) {
        return tdm_jinja_raise(vm, "loop() takes one argument");
    }
    const jval over = c->pos[0];
    TDM_TRY(enter(vm, JF_RECURSION, *pc, &frame));
    TDM_TRY(loop_begin(vm, JF_FOR, &over, loop->next_pc, true, loop->depth + 1));
    *pc = loop->next_pc;
    return TDM_OK;
}

/* Ends a macro or a called loop: its text becomes a value for the caller. */
static tdm_status leave(jinja_vm *vm, uint32_t *pc) {
    const jframe frame = vm->frames[--vm->n_frames];
    jval text = {0};
    vm->depth--;
    TDM_TRY(capture_end(vm, &frame, &text));
    vm->scope = frame.scope;
    *pc = frame.return_pc;
    return push(vm, &text);
}

static tdm_status call_value(jinja_vm *vm, const jval *f, const callsite *c, uint32_t *pc) {
    jval result = {0};
    jargs args = {.vm = vm,
                  .pos = c->pos,
                  .n = c->n,
                  .names = c->names,
                  .named = c->named,
                  .n_named = c->n_named};
    switch (f->kind) {
    case JK_MACRO:
        return call_macro(vm, f->u.macro, c, pc);
    case JK_LOOP:
        return call_loop(vm, f->u.loop, c, pc);
    case JK_FUNC:
        TDM_TRY(tdm_jinja_call_function(f->x, &args, &result));
        return push(vm, &result);
    case JK_METHOD:
        args.value = f->u.self;
        TDM_TRY(tdm_jinja_call_method(f->x, &args, &result));
        return push(vm, &result);
    case JK_UNDEF:
    case JK_MISSING:
        return tdm_jinja_raise_undefined(vm, f);
    default:
        return tdm_jinja_raise(vm, "'%s' object is not callable", tdm_jinja_type_name(f));
    }
}

/* The arguments of a call, filter or test lie on the stack behind what is called. */
static tdm_status call(jinja_vm *vm, const jinstruction *i, uint32_t *pc) {
    const uint32_t n = (uint32_t)i->n + i->x;
    const jval *base = &vm->stack[vm->n_stack - n];
    const uint32_t *site = vm->program->pool + i->a;
    const callsite c = {
        .pos = base, .n = i->n, .named = base + i->n, .names = site + 1, .n_named = i->x};
    const jval f = base[-1];
    if (i->op == JX_CALL) {
        /* The values stay readable below the new top: nothing is pushed before they are bound. */
        vm->n_stack -= n + 1;
        return call_value(vm, &f, &c, pc);
    }
    jval result = {0};
    jargs args = {.vm = vm,
                  .value = &f,
                  .pos = c.pos,
                  .n = c.n,
                  .names = c.names,
                  .named = c.named,
                  .n_named = c.n_named};
    TDM_TRY(i->op == JX_FILTER ? tdm_jinja_call_filter(site[0], &args, &result)
                               : tdm_jinja_call_test(site[0], &args, &result));
    vm->n_stack -= n;
    vm->stack[vm->n_stack - 1] = result;
    return TDM_OK;
}

/* --- instructions
 * ---------------------------------------------------------------------------------------- */

static tdm_status make_sequence(jinja_vm *vm, jkind kind, uint32_t n) {
    jval seq = {0};
    TDM_TRY(tdm_jinja_seq_new(vm, kind, n, &seq));
    if (n > 0) {
        memcpy(seq.u.seq->items, &vm->stack[vm->n_stack - n], n * sizeof(jval));
    }
    seq.u.seq->n = n;
    vm->n_stack -= n;
    return push(vm, &seq);
}

static tdm_status make_map(jinja_vm *vm, uint32_t n) {
    jval map = {0};
    TDM_TRY(tdm_jinja_map_new(vm, JK_MAP, n, &map));
    const jval *base = &vm->stack[vm->n_stack - 2 * (size_t)n];
    for (uint32_t i = 0; i < n; i++) {
        TDM_TRY(tdm_jinja_map_set(vm, map.u.map, &base[2 * i], &base[2 * i + 1]));
    }
    vm->n_stack -= 2 * n;
    return push(vm, &map);
}

static tdm_status concat(jinja_vm *vm, uint32_t n) {
    jval *base = &vm->stack[vm->n_stack - n];
    for (uint32_t i = 0; i < n; i++) {
        const jval v = base[i];
        TDM_TRY(tdm_jinja_str(vm, &v, &base[i]));
    }
    jval text = {0};
    TDM_TRY(tdm_jinja_concat(vm, base, n, &text));
    base[0] = text;
    vm->n_stack -= n - 1;
    return TDM_OK;
}

static tdm_status unpack(jinja_vm *vm, uint32_t n) {
    const jval v = vm->stack[--vm->n_stack];
    jval items = {0};
    TDM_TRY(tdm_jinja_iterable(vm, &v, &items));
    if (tdm_jinja_n_items(&items) != n) {
        return tdm_jinja_raise(vm, "%u values cannot be unpacked into %u names",
                               tdm_jinja_n_items(&items), n);
    }
    while (n > 0) {
        const jval item = tdm_jinja_item(&items, --n);
        TDM_TRY(push(vm, &item));
    }
    return TDM_OK;
}

static tdm_status set_member(jinja_vm *vm, uint32_t name) {
    const jval space = vm->stack[--vm->n_stack];
    const jval value = vm->stack[--vm->n_stack];
    if (space.kind != JK_NAMESPACE) {
        return tdm_jinja_raise(vm, "cannot assign an attribute of a %s, only of a namespace",
                               tdm_jinja_type_name(&space));
    }
    const jname *n = &vm->program->names[name];
    const jval key = tdm_jinja_text(n->text, n->len);
    return tdm_jinja_map_set(vm, space.u.map, &key, &value);
}

static tdm_status make_macro(jinja_vm *vm, uint32_t idx) {
    jmacro *macro = tdm_jinja_alloc(vm, 1, sizeof *macro);
    if (macro == NULL) {
        return tdm_jinja_nomem(vm);
    }
    *macro = (jmacro){.def = &vm->program->macros[idx], .scope = vm->scope};
    for (jscope *scope = vm->scope; scope != NULL && !scope->is_captured; scope = scope->parent) {
        scope->is_captured = true;
    }
    const jval v = {.kind = JK_MACRO, .u.macro = macro};
    return push(vm, &v);
}

static tdm_status open_scope(jinja_vm *vm, bool captures) {
    jframe *frame = NULL;
    TDM_TRY(push_frame(vm, captures ? JF_CAPTURE : JF_SCOPE, &frame));
    TDM_TRY(new_scope(vm, vm->scope, &vm->scope));
    if (captures) {
        capture_begin(vm, frame);
    }
    return TDM_OK;
}

static tdm_status close_scope(jinja_vm *vm, bool captures) {
    const jframe frame = vm->frames[--vm->n_frames];
    jval text = {0};
    vm->scope = frame.scope;
    if (!captures) {
        return TDM_OK;
    }
    TDM_TRY(capture_end(vm, &frame, &text));
    return push(vm, &text);
}

static tdm_status recursed(jinja_vm *vm, uint32_t *pc) {
    if (vm->n_frames > 0 && vm->frames[vm->n_frames - 1].kind == JF_RECURSION) {
        return leave(vm, pc);
    }
    return TDM_OK;
}

static tdm_status unknown(jinja_vm *vm, const jinstruction *i) {
    const jname *n = &vm->program->names[i->a];
    return tdm_jinja_raise(vm, "no %s named '%.*s'", i->x != 0 ? "test" : "filter",
                           (int)(n->len > 80 ? 80 : n->len), n->text);
}

/* Instructions on the values on top of the stack. */
static tdm_status step_value(jinja_vm *vm, const jinstruction *i, uint32_t *pc) {
    jval *top = &vm->stack[vm->n_stack - 1];
    jval result = {0};
    bool is_true = false;
    switch (i->op) {
    case JX_OUT:
        vm->n_stack--;
        if (i->x != 0 && top->kind != JK_STR) {
            return tdm_jinja_raise(vm, "the filters of a block must give a string, not %s",
                                   tdm_jinja_type_name(top));
        }
        return tdm_jinja_write_value(vm, top);
    case JX_STORE:
        vm->n_stack--;
        return store(vm, i->a, top);
    case JX_SETATTR:
        return set_member(vm, i->a);
    case JX_GETATTR: {
        const jname *name = &vm->program->names[i->a];
        TDM_TRY(tdm_jinja_getattr(vm, top, name->text, name->len, &result));
        *top = result;
        return TDM_OK;
    }
    case JX_GETITEM:
        TDM_TRY(tdm_jinja_getitem(vm, top - 1, top, &result));
        vm->n_stack--;
        top[-1] = result;
        return TDM_OK;
    case JX_SLICE:
        TDM_TRY(tdm_jinja_slice(vm, top - 3, top - 2, &result));
        vm->n_stack -= 3;
        top[-3] = result;
        return TDM_OK;
    case JX_NOT:
        *top = tdm_jinja_bool(!tdm_jinja_truth(top));
        return TDM_OK;
    case JX_NEG:
    case JX_POS:
        TDM_TRY(tdm_jinja_negate(vm, top, i->op == JX_NEG, &result));
        *top = result;
        return TDM_OK;
    case JX_BINARY:
        TDM_TRY(tdm_jinja_binary(vm, i->x, top - 1, top, &result));
        vm->n_stack--;
        top[-1] = result;
        return TDM_OK;
    case JX_ADD:
        TDM_TRY(tdm_jinja_add(vm, top - i->n + 1, i->n, &result));
        vm->n_stack -= i->n - 1u;
        vm->stack[vm->n_stack - 1] = result;
        return TDM_OK;
    case JX_COMPARE:
        TDM_TRY(tdm_jinja_test_order(vm, i->x, top - 1, top, &is_true));
        vm->n_stack--;
        top[-1] = tdm_jinja_bool(is_true);
        return TDM_OK;
    case JX_COMPARE_CHAIN:
        TDM_TRY(tdm_jinja_test_order(vm, i->x, top - 1, top, &is_true));
        vm->n_stack--;
        top[-1] = is_true ? *top : tdm_jinja_bool(false);
        *pc = is_true ? *pc : i->a;
        return TDM_OK;
    case JX_JUMP_FALSE:
    case JX_JUMP_TRUE:
        vm->n_stack--;
        *pc = tdm_jinja_truth(top) == (i->op == JX_JUMP_TRUE) ? i->a : *pc;
        return TDM_OK;
    case JX_AND:
    case JX_OR:
        if (tdm_jinja_truth(top) == (i->op == JX_OR)) {
            *pc = i->a;
        } else {
            vm->n_stack--;
        }
        return TDM_OK;
    case JX_KEEP:
        vm->n_stack--;
        if (tdm_jinja_truth(top)) {
            jframe *frame = &vm->frames[vm->n_frames - 1];
            const jval item = tdm_jinja_item(&frame->loop->items, frame->loop->index - 1);
            return tdm_jinja_seq_push(vm, frame->kept.u.seq, &item);
        }
        return TDM_OK;
    case JX_FOR:
        result = *top;
        vm->n_stack--;
        return loop_begin(vm, JF_FOR, &result, *pc, i->x != 0, 0);
    case JX_COLLECT:
        result = *top;
        vm->n_stack--;
        return loop_begin(vm, JF_COLLECT, &result, *pc, false, 0);
    default:
        return tdm_fail(vm->err, TDM_E_INTERNAL, "template machine: instruction %u", i->op);
    }
}

static tdm_status step(jinja_vm *vm, const jinstruction *i, uint32_t *pc) {
    jval value = {0};
    switch (i->op) {
    case JX_TEXT: {
        const jval *text = &vm->program->consts[i->a];
        return tdm_jinja_write(vm, text->u.s, text->len, false);
    }
    case JX_CONST:
        return push(vm, &vm->program->consts[i->a]);
    case JX_NAME:
        load(vm, i->a, &value);
        return push(vm, &value);
    case JX_CALL:
    case JX_FILTER:
    case JX_TEST:
        return call(vm, i, pc);
    case JX_UNKNOWN:
        return unknown(vm, i);
    case JX_CONCAT:
        return concat(vm, i->n);
    case JX_JUMP:
        if (i->x != 0) {
            vm->frames[vm->n_frames - 1].loop->has_round = true;
        }
        *pc = i->a;
        return TDM_OK;
    case JX_LIST:
        return make_sequence(vm, JK_LIST, i->a);
    case JX_TUPLE:
        return make_sequence(vm, JK_TUPLE, i->a);
    case JX_MAP:
        return make_map(vm, i->a);
    case JX_UNPACK:
        return unpack(vm, i->n);
    case JX_NEXT:
        return loop_next(vm, i, pc);
    case JX_FOR_END:
        loop_end(vm, i, pc);
        return TDM_OK;
    case JX_RECURSED:
        return recursed(vm, pc);
    case JX_COLLECT_END: {
        const jframe frame = vm->frames[--vm->n_frames];
        vm->scope = frame.scope;
        return push(vm, &frame.kept);
    }
    case JX_DROP:
        vm->n_stack--;
        return TDM_OK;
    case JX_SCOPE:
    case JX_CAPTURE:
        return open_scope(vm, i->op == JX_CAPTURE);
    case JX_SCOPE_END:
    case JX_CAPTURE_END:
        return close_scope(vm, i->op == JX_CAPTURE_END);
    case JX_MACRO:
        return make_macro(vm, i->a);
    case JX_ARG:
        *pc = vm->scope->bindings[i->n].value.kind != JK_MISSING ? i->a : *pc;
        return TDM_OK;
    case JX_RETURN:
        return leave(vm, pc);
    default:
        return step_value(vm, i, pc);
    }
}

tdm_status tdm_jinja_run(jinja_vm *vm) {
    uint32_t pc = 0;
    TDM_TRY(grow_stack(vm)); /* never NULL from here on */
    for (;;) {
        const jinstruction *i = &vm->program->code[pc];
        vm->pc = pc++;
        if (i->op == JX_END) {
            return TDM_OK;
        }
        if (vm->steps_left == 0) {
            return tdm_jinja_out_of_steps(vm);
        }
        vm->steps_left--;
        TDM_TRY(step(vm, i, &pc));
    }
}
