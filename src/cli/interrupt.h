/* SPDX-License-Identifier: Apache-2.0
 *
 * Ctrl-C. SIGINT is blocked in every thread and taken by one that waits for it, so that no code of
 * ours ever runs inside a signal handler. Floor 10.
 *
 * While nothing is armed, an interrupt ends the process at once with 130. While armed, the first
 * one raises a flag and cancels the generation, if there is one; a second one ends the process,
 * unless the armer is patient. While a prompt waits for a line, an interrupt becomes readable at
 * tdm_interrupt_fd. */
#ifndef TDM_CLI_INTERRUPT_H
#define TDM_CLI_INTERRUPT_H

#include "base/alloc.h"

typedef struct tdm_interrupt tdm_interrupt;

/* Before any other thread starts: they inherit the mask. Errors: TDM_E_NOMEM, TDM_E_IO. */
TDM_NODISCARD tdm_status tdm_interrupt_create(tdm_interrupt **out, const tdm_alloc *alloc,
                                              tdm_error *err);
void tdm_interrupt_destroy(tdm_interrupt *interrupt);
/* generation may be NULL. Arming again while armed keeps an interrupt that came in between: the new
 * generation is cancelled by it. NULL-safe in interrupt, like all below. */
void tdm_interrupt_arm(tdm_interrupt *interrupt, tdm_generation *generation, bool is_patient);
/* Back to ending the process. Returns whether an interrupt came while armed. */
bool tdm_interrupt_disarm(tdm_interrupt *interrupt);
/* Whether an interrupt came since arm. */
bool tdm_interrupt_is_raised(tdm_interrupt *interrupt);
/* Interrupts become bytes at this descriptor until the next arm or disarm; -1 without one. */
int tdm_interrupt_fd(tdm_interrupt *interrupt);

#endif
