/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: compile once, render many times. This file owns the public face: budgets, the
 * variables of a render and which of them are trusted, and the output with its spans.
 * Trusted is the text of the template and of the tokens that the tokenizer names (bos_token and
 * the like); all other text of variables is not. */
#include "text/template.h"

#include "text/jinja_builtin.h"
#include "text/jinja_vm.h"

#define STEPS_DEFAULT UINT64_C(10000000)
#define OUTPUT_DEFAULT ((size_t)64 << 20)
#define DEPTH_DEFAULT 200u
#define MEMORY_DEFAULT ((size_t)256 << 20)

struct tdm_template {
    const tdm_alloc *alloc;
    jprogram program;
};

tdm_status tdm_template_compile(tdm_template **out, const tdm_alloc *alloc, const char *source,
                                size_t len, const char *name, tdm_error *err) {
    *out = NULL;
    tdm_template *tmpl = tdm_mem_calloc(alloc, 1, sizeof *tmpl);
    if (tmpl == NULL) {
        return tdm_fail_nomem(err, "template");
    }
    tmpl->alloc = alloc;
    tdm_arena_init(&tmpl->program.arena, alloc);
    const tdm_status status = tdm_jinja_compile(&tmpl->program, source, len, name, err);
    if (status != TDM_OK) {
        tdm_template_destroy(tmpl);
        return status;
    }
    *out = tmpl;
    return TDM_OK;
}

void tdm_template_destroy(tdm_template *tmpl) {
    if (tmpl == NULL) {
        return;
    }
    tdm_arena_deinit(&tmpl->program.arena);
    tdm_mem_free(tmpl->alloc, tmpl, sizeof *tmpl);
}

void tdm_template_output_init(tdm_template_output *output, const tdm_alloc *alloc) {
    *output = (tdm_template_output){0};
    tdm_buf_init(&output->text, alloc, 0);
    tdm_buf_init(&output->raised, alloc, 0);
}

void tdm_template_output_deinit(tdm_template_output *output) {
    if (output == NULL) {
        return;
    }
    tdm_mem_free(output->text.alloc, output->spans, output->spans_cap * sizeof *output->spans);
    tdm_buf_deinit(&output->text);
    tdm_buf_deinit(&output->raised);
    *output = (tdm_template_output){0};
}

static bool is_name(const jname *name, const char *want) {
    return strlen(want) == name->len && memcmp(name->text, want, name->len) == 0;
}

/* bos_token, eos_token, pad_token ... come from the tokenizer. */
static bool is_token_name(const jname *name) {
    static const char END[] = "_token";
    const size_t n = sizeof END - 1;
    return name->len > n && memcmp(name->text + name->len - n, END, n) == 0;
}

/* What a name is when no variable is called so. */
static jval builtin_value(const jname *name) {
    const int function = tdm_jinja_function_find(name->text, name->len);
    if (function >= 0) {
        return (jval){.kind = JK_FUNC, .x = (uint16_t)function};
    }
    if (is_name(name, "tools") || is_name(name, "documents")) {
        return tdm_jinja_of_kind(JK_NONE);
    }
    if (is_name(name, "add_generation_prompt")) {
        return tdm_jinja_bool(false);
    }
    return tdm_jinja_of_kind(JK_MISSING);
}

static tdm_status set_globals(jinja_vm *vm, const tdm_template_input *input) {
    const jprogram *p = vm->program;
    vm->globals = tdm_jinja_alloc(vm, p->n_names == 0 ? 1 : p->n_names, sizeof *vm->globals);
    if (vm->globals == NULL) {
        return tdm_jinja_nomem(vm);
    }
    for (uint32_t i = 0; i < p->n_names; i++) {
        const jname *name = &p->names[i];
        const tdm_json *node = NULL;
        for (size_t k = input->n_variables; k > 0 && node == NULL; k--) {
            node = tdm_json_get_n(input->variables[k - 1], name->text, name->len);
        }
        vm->globals[i] =
            node == NULL
                ? builtin_value(name)
                : tdm_jinja_from_json(node, is_token_name(name) && node->kind == TDM_JSON_STRING);
    }
    return TDM_OK;
}

tdm_status tdm_template_render(const tdm_template *tmpl, const tdm_alloc *alloc,
                               const tdm_template_input *input, tdm_template_output *output,
                               tdm_error *err) {
    tdm_error unused;
    jinja_vm vm = {.program = &tmpl->program,
                   .output = output,
                   .err = err != NULL ? err : &unused,
                   .steps_max = input->steps_max != 0 ? input->steps_max : STEPS_DEFAULT,
                   .depth_max = input->depth_max != 0 ? input->depth_max : DEPTH_DEFAULT,
                   .now_unix_s = input->now_unix_s};
    vm.steps_left = vm.steps_max;
    tdm_buf_reset(&output->text);
    tdm_buf_reset(&output->raised);
    output->text.limit_bytes = input->output_max != 0 ? input->output_max : OUTPUT_DEFAULT;
    output->n_spans = 0;
    output->was_raised = false;
    tdm_arena_init(&vm.arena, alloc);
    vm.arena.limit_bytes = input->memory_max != 0 ? input->memory_max : MEMORY_DEFAULT;
    vm.arena.chunk_bytes = (size_t)128 << 10;
    tdm_status status = set_globals(&vm, input);
    if (status == TDM_OK) {
        status = tdm_jinja_run(&vm);
    }
    tdm_arena_deinit(&vm.arena);
    if (status != TDM_OK) {
        tdm_buf_reset(&output->text);
        output->n_spans = 0;
    }
    return status;
}
