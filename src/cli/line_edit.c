/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines through libedit on a terminal; by read(2) elsewhere, or where a build has no libedit. An
 * interrupt arrives as a byte in the interrupt's pipe, which the character reader waits for beside
 * standard input. */
#include "cli/line_edit.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

/* The build's word, which looked for the library and not for its header alone. */
#if defined(TDM_HAS_EDIT)
#define HAS_LIBEDIT 1
#include <histedit.h>
#else
#define HAS_LIBEDIT 0
#endif

#define LINE_MAX_BYTES ((size_t)1 << 20)
#define HISTORY_LINES 1000

struct tdm_line_edit {
    const tdm_alloc *alloc;
    tdm_interrupt *interrupt;
    const char *history_path; /* borrowed */
    const char *prompt;
    bool is_terminal;
    bool was_interrupted;
#if HAS_LIBEDIT
    EditLine *el;
    History *history;
#endif
};

/* One byte of standard input: 1, 0 at the end, -1 on an error or an interrupt. */
static int read_byte(tdm_line_edit *edit, char *out) {
    const int tell = tdm_interrupt_fd(edit->interrupt);
    struct pollfd waits[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = tell, .events = POLLIN}};
    for (;;) {
        ssize_t n = 0;
        if (poll(waits, tell >= 0 ? 2 : 1, -1) < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -1;
        }
        if (tell >= 0 && (waits[1].revents & POLLIN) != 0) {
            char byte = 0;
            n = read(tell, &byte, 1);
            edit->was_interrupted = true;
            return -1;
        }
        n = read(STDIN_FILENO, out, 1);
        if (n >= 0) {
            return (int)n;
        }
        if (errno != EINTR) {
            return -1;
        }
    }
}

#if HAS_LIBEDIT

static char *show_prompt(EditLine *el) {
    tdm_line_edit *edit = NULL;
    (void)el_get(el, EL_CLIENTDATA, &edit);
    return (char *)(uintptr_t)edit->prompt; /* libedit reads it only */
}

/* One character of standard input, as libedit asks for them. */
static int read_wide(EditLine *el, wchar_t *out) {
    tdm_line_edit *edit = NULL;
    mbstate_t state;
    (void)el_get(el, EL_CLIENTDATA, &edit);
    memset(&state, 0, sizeof state);
    for (;;) {
        char byte = 0;
        size_t n = 0;
        int got = read_byte(edit, &byte);
        if (got != 1) {
            return got;
        }
        n = mbrtowc(out, &byte, 1, &state);
        if (n == (size_t)-1) { /* no character: take the byte's place holder */
            *out = L'?';
            return 1;
        }
        if (n != (size_t)-2) {
            return 1;
        }
    }
}

static void open_editor(tdm_line_edit *edit) {
    HistEvent event;
    if (setlocale(LC_CTYPE, "") == NULL || MB_CUR_MAX == 1) {
        (void)setlocale(LC_CTYPE, "C.UTF-8");
    }
    edit->el = el_init("tandem", stdin, stdout, stderr);
    if (edit->el == NULL) {
        return; /* a terminal that libedit does not know: lines without editing */
    }
    (void)el_set(edit->el, EL_CLIENTDATA, edit);
    (void)el_set(edit->el, EL_PROMPT, show_prompt);
    (void)el_set(edit->el, EL_EDITOR, "emacs");
    (void)el_set(edit->el, EL_GETCFN, read_wide);
    edit->history = history_init();
    if (edit->history != NULL) {
        (void)history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
        (void)history(edit->history, &event, H_SETUNIQUE, 1);
        if (edit->history_path != NULL) {
            (void)history(edit->history, &event, H_LOAD, edit->history_path);
        }
        (void)el_set(edit->el, EL_HIST, history, edit->history);
    }
}

static void close_editor(tdm_line_edit *edit) {
    HistEvent event;
    if (edit->history != NULL) {
        if (edit->history_path != NULL) {
            (void)history(edit->history, &event, H_SAVE, edit->history_path);
        }
        history_end(edit->history);
    }
    if (edit->el != NULL) {
        el_end(edit->el);
    }
}

static bool has_editor(const tdm_line_edit *edit) {
    return edit->el != NULL;
}

static tdm_status read_edited(tdm_line_edit *edit, tdm_buf *out, tdm_line_kind *out_kind,
                              tdm_error *err) {
    int n = 0;
    const char *line = el_gets(edit->el, &n);
    HistEvent event;
    if (line == NULL || n <= 0) {
        *out_kind = edit->was_interrupted ? TDM_LINE_INTERRUPTED : TDM_LINE_END;
        return TDM_OK;
    }
    if (edit->history != NULL && line[0] != '\n') {
        (void)history(edit->history, &event, H_ENTER, line);
    }
    n -= line[n - 1] == '\n' ? 1 : 0;
    *out_kind = TDM_LINE_TEXT;
    return tdm_buf_append(out, line, (size_t)n) == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "a line");
}

#else

static void open_editor(tdm_line_edit *edit) {
    (void)edit;
}

static void close_editor(tdm_line_edit *edit) {
    (void)edit;
}

static bool has_editor(const tdm_line_edit *edit) {
    (void)edit;
    return false;
}

static tdm_status read_edited(tdm_line_edit *edit, tdm_buf *out, tdm_line_kind *out_kind,
                              tdm_error *err) {
    (void)edit;
    (void)out;
    *out_kind = TDM_LINE_END;
    return tdm_fail(err, TDM_E_INTERNAL, "this build has no line editing");
}

#endif

tdm_status tdm_line_edit_create(tdm_line_edit **out, const tdm_alloc *alloc,
                                tdm_interrupt *interrupt, const char *history_path,
                                tdm_error *err) {
    tdm_line_edit *edit = tdm_mem_calloc(alloc, 1, sizeof *edit);
    *out = NULL;
    if (edit == NULL) {
        return tdm_fail_nomem(err, "the line editor");
    }
    edit->alloc = alloc;
    edit->interrupt = interrupt;
    edit->history_path = history_path;
    edit->is_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
    if (edit->is_terminal) {
        open_editor(edit);
    }
    *out = edit;
    return TDM_OK;
}

void tdm_line_edit_destroy(tdm_line_edit *edit) {
    if (edit != NULL) {
        close_editor(edit);
        tdm_mem_free(edit->alloc, edit, sizeof *edit);
    }
}

bool tdm_line_edit_is_terminal(const tdm_line_edit *edit) {
    return edit->is_terminal;
}

static tdm_status read_plain(tdm_line_edit *edit, const char *prompt, tdm_buf *out,
                             tdm_line_kind *out_kind, tdm_error *err) {
    char byte = 0;
    int got = 0;
    if (edit->is_terminal) {
        ssize_t n = write(STDOUT_FILENO, prompt, strlen(prompt));
        (void)n;
    }
    while ((got = read_byte(edit, &byte)) == 1 && byte != '\n') {
        if (tdm_buf_append_byte(out, byte) != TDM_OK) {
            return tdm_fail(err, TDM_E_LIMIT, "a line is longer than %zu KiB",
                            LINE_MAX_BYTES >> 10);
        }
    }
    if (got < 0 && !edit->was_interrupted) {
        return tdm_fail(err, TDM_E_IO, "standard input cannot be read");
    }
    *out_kind = edit->was_interrupted       ? TDM_LINE_INTERRUPTED
                : got == 0 && out->len == 0 ? TDM_LINE_END
                                            : TDM_LINE_TEXT;
    return TDM_OK;
}

tdm_status tdm_line_edit_read(tdm_line_edit *edit, const char *prompt, tdm_buf *out,
                              tdm_line_kind *out_kind, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_buf_reset(out);
    out->limit_bytes = LINE_MAX_BYTES;
    edit->prompt = prompt;
    edit->was_interrupted = false;
    status = has_editor(edit) ? read_edited(edit, out, out_kind, err)
                              : read_plain(edit, prompt, out, out_kind, err);
    tdm_interrupt_arm(edit->interrupt, NULL, true); /* no interrupt falls between line and answer */
    return status;
}
