/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of template expressions that are one token or a row of strings: numbers, text, names and
 * the constants that look like names. It refuses integers past 63 bits as unsupported. */
#include "text/jinja_compile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

tdm_status tdm_jinja_read_int(jcompiler *c, const jtoken *token, jval *out) {
    char digits[80];
    size_t n = 0;
    for (uint32_t i = 0; i < token->len && n + 1 < sizeof digits; i++) {
        if (token->text[i] != '_') {
            digits[n++] = token->text[i];
        }
    }
    digits[n] = 0;
    int base = 10;
    const char *start = digits;
    if (n > 2 && digits[0] == '0' && (digits[1] < '0' || digits[1] > '9')) {
        base = strchr("xX", digits[1]) != NULL ? 16 : strchr("oO", digits[1]) != NULL ? 8 : 2;
        start = digits + 2;
    }
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(start, &end, base);
    if (errno != 0) {
        return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_UNSUPPORTED,
                                 "the integer has more than 63 bits");
    }
    if (*end != 0 || (base == 10 && n > 1 && digits[0] == '0' && value != 0)) {
        return tdm_jinja_syntax(c, token, "the integer is malformed");
    }
    *out = tdm_jinja_int(value);
    return TDM_OK;
}

tdm_status tdm_jinja_read_float(jcompiler *c, const jtoken *token, jval *out) {
    char digits[400];
    size_t n = 0;
    for (uint32_t i = 0; i < token->len; i++) {
        if (n + 1 == sizeof digits) {
            return tdm_jinja_syntax(c, token, "the number is too long");
        }
        if (token->text[i] != '_') {
            digits[n++] = token->text[i];
        }
    }
    digits[n] = 0;
    *out = tdm_jinja_float(strtod(digits, NULL));
    return TDM_OK;
}

tdm_status tdm_jinja_read_strings(jcompiler *c, jval *out) {
    const jtoken *first = tdm_jinja_peek(c);
    size_t len = 0;
    while (tdm_jinja_peek(c)->kind == JT_STRING) {
        len += tdm_jinja_peek(c)->len;
        c->at++;
    }
    *out = tdm_jinja_text(first->text, first->len);
    if (tdm_jinja_peek(c) == first + 1) {
        return TDM_OK;
    }
    char *joined = tdm_arena_alloc(&c->program->arena, len + 1, 1);
    if (joined == NULL) {
        return tdm_fail_nomem(c->err, "template string");
    }
    size_t n = 0;
    for (const jtoken *token = first; token->kind == JT_STRING; token++) {
        memcpy(joined + n, token->text, token->len);
        n += token->len;
    }
    *out = tdm_jinja_text(joined, len);
    return TDM_OK;
}

/* Marks the macros around for the names that a macro is given besides its parameters. */
static void note_name(jcompiler *c, const jtoken *token, uint32_t name) {
    const bool is_caller = tdm_jinja_is_word(token, "caller");
    const bool is_varargs = tdm_jinja_is_word(token, "varargs");
    const bool is_kwargs = tdm_jinja_is_word(token, "kwargs");
    if (tdm_jinja_is_word(token, "loop")) {
        c->program->loop_name = name;
    }
    if (!is_caller && !is_varargs && !is_kwargs) {
        return;
    }
    for (uint32_t i = 0; i < c->n_blocks; i++) {
        if (c->blocks[i].kind == JB_MACRO || c->blocks[i].kind == JB_CALL) {
            jmacro_def *macro = &c->program->macros[c->blocks[i].macro];
            macro->uses_caller |= is_caller;
            macro->uses_varargs |= is_varargs;
            macro->uses_kwargs |= is_kwargs;
        }
    }
}

tdm_status tdm_jinja_read_name(jcompiler *c, const jtoken *token) {
    static const struct {
        const char *word;
        uint8_t kind;
        uint8_t value;
    } CONSTANTS[] = {{"true", JK_BOOL, 1},  {"True", JK_BOOL, 1}, {"false", JK_BOOL, 0},
                     {"False", JK_BOOL, 0}, {"none", JK_NONE, 0}, {"None", JK_NONE, 0}};
    c->at++;
    for (size_t i = 0; i < sizeof CONSTANTS / sizeof *CONSTANTS; i++) {
        if (tdm_jinja_is_word(token, CONSTANTS[i].word)) {
            jval value = tdm_jinja_of_kind((jkind)CONSTANTS[i].kind);
            value.u.i = CONSTANTS[i].value;
            return tdm_jinja_emit_const(c, JX_CONST, value, token->pos);
        }
    }
    uint32_t name = 0;
    TDM_TRY(tdm_jinja_intern(c, token, &name));
    note_name(c, token, name);
    return tdm_jinja_emit(c, JX_NAME, 0, 0, name, token->pos);
}
