/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer. Grows by doubling, never past its limit. */
#include "base/buf.h"

#include "base/arith.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void tdm_buf_init(tdm_buf *buf, const tdm_alloc *alloc, size_t limit_bytes) {
    memset(buf, 0, sizeof *buf);
    buf->alloc = alloc;
    buf->limit_bytes = limit_bytes;
}

void tdm_buf_deinit(tdm_buf *buf) {
    if (buf != NULL) {
        tdm_mem_free(buf->alloc, buf->data, buf->cap);
        buf->data = NULL;
        buf->len = 0;
        buf->cap = 0;
    }
}

void tdm_buf_reset(tdm_buf *buf) {
    buf->len = 0;
}

static tdm_status grow_to(tdm_buf *buf, size_t need) {
    size_t cap = buf->cap < 64 ? 64 : buf->cap;
    char *data = NULL;
    while (cap < need) {
        if (!tdm_mul_size(cap, 2, &cap)) {
            cap = need;
        }
    }
    data = tdm_mem_resize(buf->alloc, buf->data, buf->cap, cap);
    if (data == NULL) {
        return TDM_E_NOMEM;
    }
    buf->data = data;
    buf->cap = cap;
    return TDM_OK;
}

tdm_status tdm_buf_reserve(tdm_buf *buf, size_t extra_bytes) {
    size_t need = 0;
    if (!tdm_add_size(buf->len, extra_bytes, &need)) {
        return TDM_E_LIMIT;
    }
    if (buf->limit_bytes != 0 && need > buf->limit_bytes) {
        return TDM_E_LIMIT;
    }
    return need <= buf->cap ? TDM_OK : grow_to(buf, need);
}

tdm_status tdm_buf_append(tdm_buf *buf, const void *bytes, size_t len) {
    TDM_TRY(tdm_buf_reserve(buf, len));
    if (len > 0) {
        memcpy(buf->data + buf->len, bytes, len);
        buf->len += len;
    }
    return TDM_OK;
}

tdm_status tdm_buf_append_text(tdm_buf *buf, const char *text) {
    return tdm_buf_append(buf, text, strlen(text));
}

tdm_status tdm_buf_append_byte(tdm_buf *buf, char byte) {
    return tdm_buf_append(buf, &byte, 1);
}

tdm_status tdm_buf_printf(tdm_buf *buf, const char *fmt, ...) {
    va_list args;
    va_list again;
    int need = 0;
    tdm_status status = TDM_OK;
    va_start(args, fmt);
    va_copy(again, args);
    need = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (need < 0) {
        status = TDM_E_ARG;
    } else {
        size_t len_before = buf->len;
        status = tdm_buf_reserve(buf, (size_t)need);
        if (status == TDM_OK && buf->len + (size_t)need + 1 > buf->cap) {
            status =
                grow_to(buf, buf->len + (size_t)need + 1); /* vsnprintf's NUL, not counted in len */
        }
        if (status == TDM_OK) {
            (void)vsnprintf(buf->data + len_before, (size_t)need + 1, fmt, again);
            buf->len = len_before + (size_t)need;
        }
    }
    va_end(again);
    return status;
}

const char *tdm_buf_text(tdm_buf *buf) {
    if (buf->len == buf->cap && grow_to(buf, buf->len + 1) != TDM_OK) {
        return NULL;
    }
    buf->data[buf->len] = '\0';
    return buf->data;
}
