/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer with a limit. Floor 0. Owner thread only. */
#ifndef TDM_BASE_BUF_H
#define TDM_BASE_BUF_H

#include "base/alloc.h"

typedef struct tdm_buf {
    const tdm_alloc *alloc;
    char *data; /* NULL while cap is 0; no terminating NUL unless tdm_buf_text is used */
    size_t len;
    size_t cap;
    size_t limit_bytes; /* 0: none; an append that would cross it gives TDM_E_LIMIT */
} tdm_buf;

void tdm_buf_init(tdm_buf *buf, const tdm_alloc *alloc, size_t limit_bytes);
void tdm_buf_deinit(tdm_buf *buf);
/* Keeps the memory. */
void tdm_buf_reset(tdm_buf *buf);
/* TDM_OK, TDM_E_NOMEM or TDM_E_LIMIT; on failure the content is as before. */
TDM_NODISCARD tdm_status tdm_buf_reserve(tdm_buf *buf, size_t extra_bytes);
TDM_NODISCARD tdm_status tdm_buf_append(tdm_buf *buf, const void *bytes, size_t len);
TDM_NODISCARD tdm_status tdm_buf_append_text(tdm_buf *buf, const char *text);
TDM_NODISCARD tdm_status tdm_buf_append_byte(tdm_buf *buf, char byte);
TDM_NODISCARD tdm_status tdm_buf_printf(tdm_buf *buf, const char *fmt, ...) TDM_PRINTF(2, 3);
/* The content as a NUL-terminated text (the NUL is not counted in len), or NULL when memory is out.
 * Valid until the next append. */
const char *tdm_buf_text(tdm_buf *buf);

#endif
