/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat templates: the subset of Jinja2 that models use, compiled once to a program for a small
 * stack machine, rendered many times under budgets. Floor 4. Nothing in it recurses over the
 * template or over its data. */
#ifndef TDM_TEXT_TEMPLATE_H
#define TDM_TEXT_TEMPLATE_H

#include "base/buf.h"
#include "base/json.h"
#include "text/tokenizer.h"

typedef struct tdm_template tdm_template;

/* Errors: TDM_E_FORMAT with line and column in where; TDM_E_UNSUPPORTED for a construct that Jinja
 * has and we do not. */
TDM_NODISCARD tdm_status tdm_template_compile(tdm_template **out, const tdm_alloc *alloc,
                                              const char *source, size_t len, const char *name,
                                              tdm_error *err);
void tdm_template_destroy(tdm_template *tmpl);

typedef struct tdm_template_input {
    const tdm_json *const
        *variables; /* objects whose members become variables; a later object wins */
    size_t n_variables;
    int64_t now_unix_s; /* for strftime_now, as local time without zone */
    uint64_t steps_max; /* 0: 10^7 */
    size_t output_max;  /* bytes; 0: 64 MiB */
    uint32_t depth_max; /* nested macro calls; 0: 200 */
    size_t memory_max;  /* bytes of all values made; 0: 256 MiB */
} tdm_template_input;

/* The rendering: one text, cut into segments by where each byte came from. Text of the template
 * itself is trusted; text that came out of a variable's string is not, whatever filters it went
 * through. */
typedef struct tdm_template_output {
    tdm_buf text;
    struct tdm_template_span { /* covers text without gaps, neighbours differ in is_trusted */
        size_t begin, end;
        bool is_trusted;
    } * spans;
    size_t n_spans;
    size_t spans_cap;
    bool was_raised; /* the template itself refused (raise_exception): the error's what is its
                        message, cut to what fits there */
    tdm_buf raised;  /* the whole of that message */
} tdm_template_output;

void tdm_template_output_init(tdm_template_output *output, const tdm_alloc *alloc);
void tdm_template_output_deinit(tdm_template_output *output);

/* Errors: TDM_E_FORMAT (a template error, line and column in where; was_raised tells
 * raise_exception), TDM_E_LIMIT (a budget, named in limit), TDM_E_NOMEM. The template is not
 * changed: renders may run at once on several threads. */
TDM_NODISCARD tdm_status tdm_template_render(const tdm_template *tmpl, const tdm_alloc *alloc,
                                             const tdm_template_input *input,
                                             tdm_template_output *output, tdm_error *err);
/* As render with continue_final_message: the text is cut right after the last message's content
 * (found as the reference does: a tag put behind the content before rendering). TDM_E_FORMAT when
 * the template does not show it. */
TDM_NODISCARD tdm_status tdm_template_render_continue(const tdm_template *tmpl,
                                                      const tdm_alloc *alloc,
                                                      const tdm_template_input *input,
                                                      tdm_template_output *output, tdm_error *err);

#endif
