/* SPDX-License-Identifier: Apache-2.0
 *
 * One line from a person, with editing and history where there is a terminal, plain where there is
 * none. Floor 10. */
#ifndef TDM_CLI_LINE_EDIT_H
#define TDM_CLI_LINE_EDIT_H

#include "cli/interrupt.h"

#include "base/buf.h"

typedef struct tdm_line_edit tdm_line_edit;

typedef enum tdm_line_kind { TDM_LINE_TEXT, TDM_LINE_END, TDM_LINE_INTERRUPTED } tdm_line_kind;

/* history: a file that is loaded now and saved at destroy, or NULL. Errors: TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_line_edit_create(tdm_line_edit **out, const tdm_alloc *alloc,
                                              tdm_interrupt *interrupt, const char *history,
                                              tdm_error *err);
void tdm_line_edit_destroy(tdm_line_edit *edit);
/* Whether a person sits there: prompts are shown only then. */
bool tdm_line_edit_is_terminal(const tdm_line_edit *edit);
/* Reads one line into out (reset first), without its line feed. Errors: TDM_E_IO, TDM_E_LIMIT,
 * TDM_E_NOMEM. The interrupt is armed afterwards, patiently and without a generation. */
TDM_NODISCARD tdm_status tdm_line_edit_read(tdm_line_edit *edit, const char *prompt, tdm_buf *out,
                                            tdm_line_kind *out_kind, tdm_error *err);

#endif
