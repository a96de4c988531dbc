/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading a command line by the tables: the verb first (options that every verb knows may stand
 * before it), then options and positional arguments in any order, "--" ends options. A value is
 * checked here against the table, so that verbs see good values only. */
#include "cli/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct parser {
    tdm_args *args;
    char *const *argv;
    int argc;
    int at;
    bool has_verb;
    tdm_error *err;
} parser;

bool tdm_verb_find(const char *name, tdm_verb_id *out_verb) {
    for (int i = 0; i < TDM_VERB_COUNT; i++) {
        if (strcmp(TDM_VERBS[i].name, name) == 0) {
            *out_verb = (tdm_verb_id)i;
            return true;
        }
    }
    return false;
}

static tdm_status fail_usage(const parser *p, const char *where, const char *fmt, const char *what,
                             const char *guess) {
    char text[200];
    (void)snprintf(text, sizeof text, "%s \"%.100s\"", fmt, what);
    (void)tdm_fail(p->err, TDM_E_ARG, "%s", text);
    tdm_err_where(p->err, "%s", where);
    if (guess != NULL && guess[0] != '\0') {
        tdm_err_remedy(p->err, "did you mean %s?", guess);
    } else if (p->has_verb) {
        tdm_err_remedy(p->err, "tandem %s --help lists the options", TDM_VERBS[p->args->verb].name);
    } else {
        tdm_err_remedy(p->err, "tandem --help lists the verbs");
    }
    return TDM_E_ARG;
}

/* Before the verb only options that every verb knows count. */
static bool is_for(const parser *p, const tdm_option_row *row) {
    const uint32_t all = (1U << TDM_VERB_COUNT) - 1U;
    return p->has_verb ? (row->verbs & (1U << p->args->verb)) != 0 : row->verbs == all;
}

static bool find_long(const parser *p, const char *name, size_t len, tdm_option_id *out) {
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        const tdm_option_row *row = &TDM_OPTIONS[i];
        if (is_for(p, row) && strlen(row->name) == len && memcmp(row->name, name, len) == 0) {
            *out = (tdm_option_id)i;
            return true;
        }
    }
    return false;
}

static bool find_letter(const parser *p, char letter, tdm_option_id *out) {
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        if (is_for(p, &TDM_OPTIONS[i]) && TDM_OPTIONS[i].letter == letter && letter != '\0') {
            *out = (tdm_option_id)i;
            return true;
        }
    }
    return false;
}

static tdm_status fail_unknown(const parser *p, const char *arg, size_t name_len) {
    tdm_guess guess;
    char name[128];
    char dashed[160];
    const char *bare = arg + (arg[1] == '-' ? 2 : 1);
    (void)snprintf(name, sizeof name, "%.*s", (int)(name_len < 100 ? name_len : 100), bare);
    tdm_guess_init(&guess, name);
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        if (is_for(p, &TDM_OPTIONS[i])) {
            tdm_guess_offer(&guess, TDM_OPTIONS[i].name);
        }
    }
    (void)snprintf(dashed, sizeof dashed, "%s%s", guess.best[0] != '\0' ? "--" : "", guess.best);
    return fail_usage(p, arg, p->has_verb ? "unknown option" : "unknown option before the verb",
                      arg, dashed);
}

static tdm_status fail_value(const parser *p, const tdm_option_row *row, const char *text,
                             const char *kind) {
    (void)tdm_fail(p->err, TDM_E_ARG, "--%s: \"%.80s\" is not %s", row->name, text, kind);
    tdm_err_where(p->err, "--%s", row->name);
    if (row->kind == TDM_OPTION_CHOICE) {
        tdm_err_limit(p->err, "%s", row->argument);
    } else {
        tdm_err_limit(p->err, "%.10g to %.10g", row->min, row->max);
    }
    return TDM_E_ARG;
}

/* One whole number of text[0..len). */
static bool read_integer(const tdm_option_row *row, const char *text, size_t len, int64_t *out) {
    char digits[32];
    char *end = NULL;
    double value = 0.0;
    if (len == 0 || len >= sizeof digits || text[0] == ' ') {
        return false;
    }
    memcpy(digits, text, len);
    digits[len] = '\0';
    errno = 0;
    if (row->max >= 0x1p63) { /* an unsigned number of 64 bits keeps its bits */
        if (digits[0] == '-') {
            return false;
        }
        *out = (int64_t)strtoull(digits, &end, 10);
        return errno == 0 && *end == '\0';
    }
    *out = strtoll(digits, &end, 10);
    value = (double)*out;
    return errno == 0 && *end == '\0' && value >= row->min && value <= row->max;
}

static bool read_list(const tdm_option_row *row, const char *text, tdm_option_value *value) {
    const char *at = text;
    value->n_items = 0;
    for (;;) {
        size_t len = strcspn(at, ",");
        if (value->n_items == TDM_OPTION_LIST_MAX ||
            !read_integer(row, at, len, &value->items[value->n_items])) {
            return false;
        }
        value->n_items++;
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

static bool read_real(const tdm_option_row *row, const char *text, double *out) {
    char *end = NULL;
    errno = 0;
    *out = strtod(text, &end);
    return text[0] != '\0' && text[0] != ' ' && *end == '\0' && errno == 0 && *out >= row->min &&
           *out <= row->max;
}

/* Whether text is one of the words of "a|b|c". */
static bool is_choice(const char *words, const char *text) {
    const size_t len = strlen(text);
    const char *at = words;
    while (*at != '\0') {
        size_t word_len = strcspn(at, "|");
        if (word_len == len && memcmp(at, text, len) == 0) {
            return true;
        }
        at += word_len + (at[word_len] == '|' ? 1U : 0U);
    }
    return false;
}

static tdm_status keep_repeat(const parser *p, tdm_option_id id, const char *text) {
    tdm_args *args = p->args;
    if (args->repeats == NULL) {
        args->repeats_cap = (size_t)p->argc;
        args->repeats = tdm_mem_calloc(args->alloc, args->repeats_cap, sizeof *args->repeats);
        if (args->repeats == NULL) {
            return tdm_fail_nomem(p->err, "the command line");
        }
    }
    args->repeats[args->n_repeats++] = (tdm_repeat){id, text};
    return TDM_OK;
}

static tdm_status set_value(const parser *p, tdm_option_id id, const char *text) {
    const tdm_option_row *row = &TDM_OPTIONS[id];
    tdm_option_value *value = &p->args->values[id];
    value->is_set = true;
    value->text = text;
    switch (row->kind) {
    case TDM_OPTION_INT:
        return read_integer(row, text, strlen(text), &value->integer)
                   ? TDM_OK
                   : fail_value(p, row, text, "a whole number in range");
    case TDM_OPTION_REAL:
        return read_real(row, text, &value->real) ? TDM_OK
                                                  : fail_value(p, row, text, "a number in range");
    case TDM_OPTION_INTS:
        return read_list(row, text, value)
                   ? TDM_OK
                   : fail_value(p, row, text, "a list of up to 16 whole numbers in range");
    case TDM_OPTION_CHOICE:
        return is_choice(row->argument, text) ? TDM_OK : fail_value(p, row, text, "known");
    case TDM_OPTION_FLAG:
    case TDM_OPTION_TEXT:
        break;
    }
    return row->is_repeated ? keep_repeat(p, id, text) : TDM_OK;
}

/* The value of an option: what is attached to it, or the next argument. */
static tdm_status take_value(parser *p, tdm_option_id id, const char *attached) {
    const tdm_option_row *row = &TDM_OPTIONS[id];
    if (row->kind == TDM_OPTION_FLAG) {
        if (attached != NULL) {
            return fail_usage(p, p->argv[p->at], "this option takes no value:", attached, NULL);
        }
        return set_value(p, id, "");
    }
    if (attached == NULL) {
        if (p->at + 1 >= p->argc) {
            (void)tdm_fail(p->err, TDM_E_ARG, "%s needs a value: %s", p->argv[p->at],
                           row->argument);
            tdm_err_where(p->err, "%s", p->argv[p->at]);
            return TDM_E_ARG;
        }
        attached = p->argv[++p->at];
    }
    return set_value(p, id, attached);
}

static tdm_status parse_long(parser *p) {
    const char *arg = p->argv[p->at];
    size_t len = strcspn(arg + 2, "=");
    tdm_option_id id = TDM_OPT_COUNT;
    if (!find_long(p, arg + 2, len, &id)) {
        return fail_unknown(p, arg, len);
    }
    return take_value(p, id, arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL);
}

/* -n 5, -n5, and flags together, -qv. */
static tdm_status parse_letters(parser *p) {
    const char *arg = p->argv[p->at];
    for (const char *c = arg + 1; *c != '\0'; c++) {
        tdm_option_id id = TDM_OPT_COUNT;
        if (!find_letter(p, *c, &id)) {
            return fail_unknown(p, arg, strlen(arg + 1));
        }
        if (TDM_OPTIONS[id].kind != TDM_OPTION_FLAG) {
            return take_value(p, id, c[1] != '\0' ? c + 1 : NULL);
        }
        TDM_TRY(set_value(p, id, ""));
    }
    return TDM_OK;
}

static tdm_status parse_word(parser *p, const char *arg) {
    tdm_args *args = p->args;
    if (!p->has_verb) {
        tdm_guess guess;
        tdm_guess_init(&guess, arg);
        if (tdm_verb_find(arg, &args->verb)) {
            p->has_verb = true;
            return TDM_OK;
        }
        for (int i = 0; i < TDM_VERB_COUNT; i++) {
            tdm_guess_offer(&guess, TDM_VERBS[i].name);
        }
        return fail_usage(p, "the verb", "unknown verb", arg, guess.best);
    }
    if (args->n_positional == sizeof args->positional / sizeof args->positional[0]) {
        return fail_usage(p, arg, "one argument too many:", arg, NULL);
    }
    args->positional[args->n_positional++] = arg;
    return TDM_OK;
}

/* Counts the words of the verb's positional arguments, all and those that must be there. */
static tdm_status check_positional(const parser *p) {
    const tdm_verb_row *verb = &TDM_VERBS[p->args->verb];
    size_t n_all = 0;
    size_t n_needed = 0;
    const char *at = verb->positional;
    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        n_all++;
        n_needed += at[0] != '[' ? 1U : 0U;
        at += len + (at[len] == ' ' ? 1U : 0U);
    }
    if (p->args->n_positional < n_needed) {
        (void)tdm_fail(p->err, TDM_E_ARG, "%s needs %s", verb->name, verb->positional);
        tdm_err_remedy(p->err, "tandem %s --help says more", verb->name);
        return TDM_E_ARG;
    }
    if (p->args->n_positional > n_all) {
        return fail_usage(p, verb->name, "one argument too many:", p->args->positional[n_all],
                          NULL);
    }
    return TDM_OK;
}

tdm_status tdm_args_parse(tdm_args *args, const tdm_alloc *alloc, int argc, char *const *argv,
                          tdm_error *err) {
    parser p = {.args = args, .argv = argv, .argc = argc, .at = 1, .err = err};
    bool has_ended = false; /* "--" was there */
    memset(args, 0, sizeof *args);
    args->alloc = alloc;
    for (; p.at < argc; p.at++) {
        const char *arg = argv[p.at];
        if (has_ended || arg[0] != '-' || arg[1] == '\0') {
            TDM_TRY(parse_word(&p, arg));
        } else if (strcmp(arg, "--") == 0) {
            has_ended = true;
        } else if (arg[1] == '-') {
            TDM_TRY(parse_long(&p));
        } else {
            TDM_TRY(parse_letters(&p));
        }
    }
    if (!p.has_verb) {
        (void)tdm_fail(err, TDM_E_ARG, "a verb is needed");
        tdm_err_remedy(err, "tandem --help lists the verbs");
        return TDM_E_ARG;
    }
    return tdm_args_has(args, TDM_OPT_HELP) ? TDM_OK : check_positional(&p);
}

void tdm_args_deinit(tdm_args *args) {
    tdm_mem_free(args->alloc, args->repeats, args->repeats_cap * sizeof *args->repeats);
    args->repeats = NULL;
    args->n_repeats = 0;
}

bool tdm_args_has(const tdm_args *args, tdm_option_id option) {
    return args->values[option].is_set;
}

const char *tdm_args_text(const tdm_args *args, tdm_option_id option) {
    return args->values[option].is_set ? args->values[option].text : NULL;
}

int64_t tdm_args_integer(const tdm_args *args, tdm_option_id option, int64_t fallback) {
    return args->values[option].is_set ? args->values[option].integer : fallback;
}

double tdm_args_real(const tdm_args *args, tdm_option_id option, double fallback) {
    return args->values[option].is_set ? args->values[option].real : fallback;
}

const char *tdm_args_repeat(const tdm_args *args, tdm_option_id option, size_t idx) {
    for (size_t i = 0; i < args->n_repeats; i++) {
        if (args->repeats[i].option == option && idx-- == 0) {
            return args->repeats[i].text;
        }
    }
    return NULL;
}
