/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard output, written at once and looked at: a reader that went away is told from a disk that
 * is full. Floor 10. */
#ifndef TDM_CLI_OUT_H
#define TDM_CLI_OUT_H

#include "base/buf.h"

typedef struct tdm_out {
    int fd;
    bool is_terminal;
    bool is_closed; /* the reader went away: not an error that anyone wants to read about */
    char last;      /* last byte written, 0: none yet */
} tdm_out;

void tdm_out_init(tdm_out *out, int fd);
/* Bytes as they are. TDM_E_IO (is_closed tells why). */
TDM_NODISCARD tdm_status tdm_out_bytes(tdm_out *out, const char *data, size_t len, tdm_error *err);
TDM_NODISCARD tdm_status tdm_out_cstr(tdm_out *out, const char *text, tdm_error *err);
/* Text that a stranger wrote: on a terminal control characters are spelled out (\x1b), except tab
 * and line feed. */
TDM_NODISCARD tdm_status tdm_out_text(tdm_out *out, const char *text, size_t len, tdm_error *err);
/* A line feed unless the last byte was one. */
TDM_NODISCARD tdm_status tdm_out_end_line(tdm_out *out, tdm_error *err);

/* Appends text to buf with control characters spelled out. */
TDM_NODISCARD tdm_status tdm_spell_controls(tdm_buf *buf, const char *text, size_t len);

#endif
