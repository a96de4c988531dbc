/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON out. A thin writer over tdm_buf: yajl's generator has no way to keep going over invalid
 * UTF-8 and prints doubles with 20 digits, so escaping and numbers are ours. */
#include "base/json.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

void tdm_json_writer_init(tdm_json_writer *w, tdm_buf *buf) {
    memset(w, 0, sizeof *w);
    w->buf = buf;
}

static void put(tdm_json_writer *w, const char *bytes, size_t len) {
    if (w->status == TDM_OK) {
        w->status = tdm_buf_append(w->buf, bytes, len);
    }
}

static void put_cstr(tdm_json_writer *w, const char *text) {
    put(w, text, strlen(text));
}

static void begin_value(tdm_json_writer *w) {
    if (w->needs_comma) {
        put(w, ",", 1);
    }
    w->needs_comma = true;
}

static void open_with(tdm_json_writer *w, const char *bracket) {
    begin_value(w);
    put(w, bracket, 1);
    w->depth++;
    w->needs_comma = false;
}

static void close_with(tdm_json_writer *w, const char *bracket) {
    put(w, bracket, 1);
    w->depth--;
    w->needs_comma = true;
}

void tdm_json_write_begin_object(tdm_json_writer *w) {
    open_with(w, "{");
}

void tdm_json_write_end_object(tdm_json_writer *w) {
    close_with(w, "}");
}

void tdm_json_write_begin_array(tdm_json_writer *w) {
    open_with(w, "[");
}

void tdm_json_write_end_array(tdm_json_writer *w) {
    close_with(w, "]");
}

/* The escape of one byte below 0x20, of '"' or of '\\'. */
static void put_escape(tdm_json_writer *w, unsigned char byte) {
    static const char NAMED[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    char text[8];
    for (size_t i = 0; i + 1 < sizeof NAMED; i += 2) {
        if ((unsigned char)NAMED[i] == byte) {
            text[0] = '\\';
            text[1] = NAMED[i + 1];
            put(w, text, 2);
            return;
        }
    }
    (void)snprintf(text, sizeof text, "\\u%04x", byte);
    put(w, text, 6);
}

static void put_string(tdm_json_writer *w, const char *text, size_t len) {
    size_t plain = 0; /* start of the run that needs no change */
    size_t i = 0;
    put(w, "\"", 1);
    while (i < len) {
        unsigned char byte = (unsigned char)text[i];
        if (byte < 0x20 || byte == '"' || byte == '\\') {
            put(w, text + plain, i - plain);
            put_escape(w, byte);
            plain = ++i;
        } else if (byte < 0x80) {
            i++;
        } else {
            uint32_t cp = 0;
            bool ok = false;
            size_t n = tdm_utf8_decode(text + i, len - i, &cp, &ok);
            if (!ok) {
                put(w, text + plain, i - plain);
                put(w, "\xEF\xBF\xBD", 3);
                plain = i + n;
            }
            i += n;
        }
    }
    put(w, text + plain, len - plain);
    put(w, "\"", 1);
}

void tdm_json_write_key(tdm_json_writer *w, const char *key) {
    begin_value(w);
    put_string(w, key, strlen(key));
    put(w, ":", 1);
    w->needs_comma = false;
}

void tdm_json_write_text(tdm_json_writer *w, const char *text, size_t len) {
    begin_value(w);
    put_string(w, text, len);
}

void tdm_json_write_cstr(tdm_json_writer *w, const char *text) {
    tdm_json_write_text(w, text, strlen(text));
}

void tdm_json_write_i64(tdm_json_writer *w, int64_t value) {
    char text[32];
    begin_value(w);
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    put_cstr(w, text);
}

void tdm_json_write_u64(tdm_json_writer *w, uint64_t value) {
    char text[32];
    begin_value(w);
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    put_cstr(w, text);
}

void tdm_json_write_f64(tdm_json_writer *w, double value, int digits) {
    char text[40];
    begin_value(w);
    if (!isfinite(value)) {
        put_cstr(w, "null");
        return;
    }
    (void)snprintf(text, sizeof text, "%.*g", digits, value);
    put_cstr(w, text);
}

void tdm_json_write_bool(tdm_json_writer *w, bool value) {
    begin_value(w);
    put_cstr(w, value ? "true" : "false");
}

void tdm_json_write_null(tdm_json_writer *w) {
    begin_value(w);
    put_cstr(w, "null");
}

tdm_status tdm_json_writer_status(const tdm_json_writer *w) {
    return w->status;
}
