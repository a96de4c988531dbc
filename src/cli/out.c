/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing to standard output. write(2) directly: text streams as it comes, and every failure is
 * seen where it happens. */
#include "cli/out.h"

#include "base/utf8.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tdm_out_init(tdm_out *out, int fd) {
    *out = (tdm_out){.fd = fd, .is_terminal = isatty(fd) == 1};
}

static tdm_status fail_write(tdm_out *out, int error, tdm_error *err) {
    char text[96] = "";
    out->is_closed = error == EPIPE;
    (void)strerror_r(error, text, sizeof text);
    (void)tdm_fail(err, TDM_E_IO, "writing failed: %s", text);
    tdm_err_where(err, "standard output");
    return TDM_E_IO;
}

tdm_status tdm_out_bytes(tdm_out *out, const char *data, size_t len, tdm_error *err) {
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(out->fd, data + done, len - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd wait = {.fd = out->fd, .events = POLLOUT};
            (void)poll(&wait, 1, -1);
        } else if (n < 0 && errno != EINTR) {
            return fail_write(out, errno, err);
        }
    }
    if (len > 0) {
        out->last = data[len - 1];
    }
    return TDM_OK;
}

tdm_status tdm_out_cstr(tdm_out *out, const char *text, tdm_error *err) {
    return tdm_out_bytes(out, text, strlen(text), err);
}

tdm_status tdm_out_end_line(tdm_out *out, tdm_error *err) {
    return out->last == '\n' ? TDM_OK : tdm_out_bytes(out, "\n", 1, err);
}

static bool is_control(uint32_t cp) {
    return (cp < 0x20 && cp != '\n' && cp != '\t') || (cp >= 0x7F && cp < 0xA0);
}

tdm_status tdm_spell_controls(tdm_buf *buf, const char *text, size_t len) {
    for (size_t i = 0; i < len;) {
        uint32_t cp = 0;
        size_t n = tdm_utf8_decode(text + i, len - i, &cp, NULL);
        tdm_status status = is_control(cp) ? tdm_buf_printf(buf, "\\x%02x", (unsigned)cp)
                                           : tdm_buf_append(buf, text + i, n);
        TDM_TRY(status);
        i += n;
    }
    return TDM_OK;
}

tdm_status tdm_out_text(tdm_out *out, const char *text, size_t len, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    if (!out->is_terminal) {
        return tdm_out_bytes(out, text, len, err);
    }
    tdm_buf_init(&buf, NULL, 0);
    status = tdm_spell_controls(&buf, text, len) == TDM_OK
                 ? tdm_out_bytes(out, buf.data, buf.len, err)
                 : tdm_fail_nomem(err, "a piece of text");
    tdm_buf_deinit(&buf);
    return status;
}
