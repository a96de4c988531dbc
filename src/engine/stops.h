/* SPDX-License-Identifier: Apache-2.0
 *
 * Stop texts over a stream: what could still become one is held back. Floor 7.
 * Law: for any cutting of the text into pushes, the concatenated output is the text up to the first
 * stop text in it, or all of it after finish. Source: spec/systems.md 141. */
#ifndef TDM_ENGINE_STOPS_H
#define TDM_ENGINE_STOPS_H

#include "base/buf.h"

typedef struct tdm_stops {
    const tdm_alloc *alloc;
    char *texts; /* the stop texts, one after another */
    size_t texts_bytes;
    size_t lens[TDM_STOP_MAX];
    size_t n;
    tdm_buf held; /* not yet given out */
} tdm_stops;

/* Copies the texts. Errors: TDM_E_ARG (more than 16, an empty one, one over 256 bytes),
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_stops_init(tdm_stops *stops, const tdm_alloc *alloc,
                                        const char *const *texts, size_t n, tdm_error *err);
void tdm_stops_deinit(tdm_stops *stops);
/* Appends what became safe to out. *out_stopped: a stop text was found; what follows it is dropped.
 */
TDM_NODISCARD tdm_status tdm_stops_push(tdm_stops *stops, const char *text, size_t len,
                                        tdm_buf *out, bool *out_stopped);
/* No more text will come: appends what is held, up to a stop text in it. The stream is then as new.
 */
TDM_NODISCARD tdm_status tdm_stops_finish(tdm_stops *stops, tdm_buf *out, bool *out_stopped);

#endif
