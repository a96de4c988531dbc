/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses and errors. Owns the texts of TDM_STATUS_LIST and the one place that formats an error's
 * fields. Refuses nothing: a text that is too long is cut and ends in "...". */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct status_facts {
    const char *name;
    const char *sentence;
    int http;
    int exit_code;
} STATUSES[TDM_STATUS_COUNT] = {
#define STATUS_ROW(name, text, sentence, http, exit_code) {text, sentence, http, exit_code},
    TDM_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
};

static const struct status_facts *facts_of(tdm_status status) {
    unsigned idx = (unsigned)status;
    return &STATUSES[idx < TDM_STATUS_COUNT ? idx : (unsigned)TDM_E_INTERNAL];
}

const char *tdm_status_name(tdm_status status) {
    return facts_of(status)->name;
}

const char *tdm_status_sentence(tdm_status status) {
    return facts_of(status)->sentence;
}

int tdm_status_http(tdm_status status) {
    return facts_of(status)->http;
}

int tdm_status_exit_code(tdm_status status) {
    return facts_of(status)->exit_code;
}

/* Cuts where a character begins, so that a field never ends in half of one. */
static void mark_cut(char *field, size_t cap) {
    size_t end = cap - 4;
    while (end > 0 && ((unsigned char)field[end] & 0xC0u) == 0x80u) {
        end--;
    }
    memcpy(field + end, "...", 4);
}

/* By way of a copy: the arguments may lie in the error that is being filled. */
TDM_PRINTF(3, 0)
static void set_field(char *field, size_t cap, const char *fmt, va_list args) {
    char text[sizeof(((tdm_error *)0)->what)]; /* the largest field */
    int written = vsnprintf(text, cap, fmt, args);
    if (written < 0) {
        text[0] = '\0';
    } else if ((size_t)written >= cap) {
        mark_cut(text, cap);
    }
    memcpy(field, text, strlen(text) + 1);
}

tdm_status tdm_fail(tdm_error *err, tdm_status code, const char *fmt, ...) {
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        set_field(err->what, sizeof err->what, fmt, args);
        va_end(args);
        err->code = code;
        err->where[0] = '\0';
        err->limit[0] = '\0';
        err->remedy[0] = '\0';
    }
    return code;
}

tdm_status tdm_fail_nomem(tdm_error *err, const char *noun) {
    (void)tdm_fail(err, TDM_E_NOMEM, "out of memory for %s", noun);
    tdm_err_remedy(err, "free memory, or choose a smaller model or context");
    return TDM_E_NOMEM;
}

#define DEFINE_FIELD_SETTER(field)                                                                 \
    void tdm_err_##field(tdm_error *err, const char *fmt, ...) {                                   \
        if (err != NULL) {                                                                         \
            va_list args;                                                                          \
            va_start(args, fmt);                                                                   \
            set_field(err->field, sizeof err->field, fmt, args);                                   \
            va_end(args);                                                                          \
        }                                                                                          \
    }

DEFINE_FIELD_SETTER(where)
DEFINE_FIELD_SETTER(limit)
DEFINE_FIELD_SETTER(remedy)

void tdm_err_note(tdm_error *err, const char *fmt, ...) {
    char note[sizeof err->what];
    char whole[2 * sizeof err->what + 2];
    va_list args;
    if (err == NULL) {
        return;
    }
    va_start(args, fmt);
    set_field(note, sizeof note, fmt, args);
    va_end(args);
    (void)snprintf(whole, sizeof whole, "%s: %s", note, err->what);
    if (strlen(whole) >= sizeof err->what) {
        memcpy(err->what, whole, sizeof err->what - 1);
        mark_cut(err->what, sizeof err->what);
    } else {
        memcpy(err->what, whole, strlen(whole) + 1);
    }
}

void tdm_err_clear(tdm_error *err) {
    if (err != NULL) {
        memset(err, 0, sizeof *err);
    }
}

_Noreturn void tdm_check_failed(const char *file, int line, const char *expr) {
    (void)fprintf(stderr, "tandem: %s:%d: broken invariant: %s\n", file, line, expr);
    abort();
}
