/* SPDX-License-Identifier: Apache-2.0
 *
 * The template's source as tokens, white space control applied. Floor 4, private to the template
 * engine. */
#ifndef TDM_TEXT_JINJA_LEX_H
#define TDM_TEXT_JINJA_LEX_H

#include "base/alloc.h"

typedef enum jtoken_kind {
    JT_END,
    JT_DATA,
    JT_VARIABLE_BEGIN,
    JT_VARIABLE_END,
    JT_BLOCK_BEGIN,
    JT_BLOCK_END,
    JT_NAME,
    JT_STRING,
    JT_INT,
    JT_FLOAT,
    JT_OP
} jtoken_kind;

typedef enum jop_kind {
    JO_NONE,
    JO_ADD,
    JO_SUB,
    JO_MUL,
    JO_DIV,
    JO_FLOORDIV,
    JO_MOD,
    JO_POW,
    JO_TILDE,
    JO_LBRACKET,
    JO_RBRACKET,
    JO_LPAREN,
    JO_RPAREN,
    JO_LBRACE,
    JO_RBRACE,
    JO_EQ,
    JO_NE,
    JO_GT,
    JO_GE,
    JO_LT,
    JO_LE,
    JO_ASSIGN,
    JO_DOT,
    JO_COLON,
    JO_PIPE,
    JO_COMMA,
    JO_SEMICOLON
} jop_kind;

typedef struct jtoken {
    uint8_t kind;
    uint8_t op;
    uint32_t pos; /* in the normalised source */
    uint32_t len;
    const char *text; /* data, name, number as spelled, string as decoded */
} jtoken;

typedef struct jsource {
    const char *name;
    const char *text; /* line ends are LF, the last one dropped */
    uint32_t len;
} jsource;

/* Fills err with fmt and "name: line L, column C". */
tdm_status tdm_jinja_fail_at(const jsource *source, uint32_t pos, tdm_error *err, tdm_status code,
                             const char *fmt, ...) TDM_PRINTF(5, 6);
void tdm_jinja_where(const jsource *source, uint32_t pos, tdm_error *err);

/* Tokens and everything they point to live in arena. */
tdm_status tdm_jinja_lex(tdm_arena *arena, const char *text, size_t len, const char *name,
                         jsource *out_source, jtoken **out_tokens, uint32_t *out_n, tdm_error *err);

#endif
