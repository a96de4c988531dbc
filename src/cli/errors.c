/* SPDX-License-Identifier: Apache-2.0
 *
 * What the command says on standard error. Texts may hold bytes of a stranger's file, so control
 * characters are spelled out; an error is never more than one screen. */
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Standard error is the last resort: what cannot be written there is lost. */
static void put_err(const char *data, size_t len) {
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(STDERR_FILENO, data + done, len - done);
        if (n <= 0) {
            return;
        }
        done += (size_t)n;
    }
}

void tdm_cli_note(const tdm_cli *cli, const char *fmt, ...) {
    char text[1024];
    tdm_buf buf;
    va_list list;
    if (cli->is_quiet) {
        return;
    }
    va_start(list, fmt);
    (void)vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    tdm_buf_init(&buf, NULL, 0);
    if (tdm_spell_controls(&buf, text, strlen(text)) == TDM_OK &&
        tdm_buf_append_byte(&buf, '\n') == TDM_OK) {
        put_err(buf.data, buf.len);
    }
    tdm_buf_deinit(&buf);
}

static tdm_status write_json(tdm_buf *buf, const tdm_error *error) {
    tdm_json_writer w;
    tdm_json_writer_init(&w, buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "error");
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "code");
    tdm_json_write_cstr(&w, tdm_status_name(error->code));
    tdm_json_write_key(&w, "message");
    tdm_json_write_cstr(&w, error->what);
    tdm_json_write_key(&w, "where");
    tdm_json_write_cstr(&w, error->where);
    tdm_json_write_key(&w, "limit");
    tdm_json_write_cstr(&w, error->limit);
    tdm_json_write_key(&w, "remedy");
    tdm_json_write_cstr(&w, error->remedy);
    tdm_json_write_end_object(&w);
    tdm_json_write_end_object(&w);
    return tdm_json_writer_status(&w);
}

/* One field on its own line, "  where: FILE". */
static tdm_status write_field(tdm_buf *buf, const char *label, const char *text) {
    if (text[0] == '\0') {
        return TDM_OK;
    }
    TDM_TRY(tdm_buf_printf(buf, "\n  %s: ", label));
    return tdm_spell_controls(buf, text, strlen(text));
}

static tdm_status write_human(tdm_buf *buf, const tdm_error *error, bool has_color) {
    const char *what = error->what[0] != '\0' ? error->what : tdm_status_sentence(error->code);
    TDM_TRY(tdm_buf_append_text(buf, has_color ? "\x1b[31mtandem:\x1b[0m " : "tandem: "));
    TDM_TRY(tdm_spell_controls(buf, what, strlen(what)));
    TDM_TRY(write_field(buf, "where", error->where));
    TDM_TRY(write_field(buf, "limit", error->limit));
    return write_field(buf, "help", error->remedy);
}

void tdm_cli_print_error(const tdm_error *error, bool is_json, bool has_color) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, NULL, 0);
    status = is_json ? write_json(&buf, error) : write_human(&buf, error, has_color);
    if (status == TDM_OK && tdm_buf_append_byte(&buf, '\n') == TDM_OK) {
        put_err(buf.data, buf.len);
    } else {
        static const char LAST[] = "tandem: out of memory\n";
        put_err(LAST, sizeof LAST - 1);
    }
    tdm_buf_deinit(&buf);
}
