/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two halves of the compiler (statements, expressions) share. Floor 4, private to the
 * template engine. */
#ifndef TDM_TEXT_JINJA_COMPILE_H
#define TDM_TEXT_JINJA_COMPILE_H

#include "text/jinja_program.h"

/* An open statement. */
typedef enum jblock_kind {
    JB_IF,
    JB_FOR,
    JB_FOR_ELSE,
    JB_MACRO,
    JB_CALL,
    JB_SET,
    JB_FILTER,
    JB_WITH,
    JB_GENERATION
} jblock_kind;

typedef struct jblock {
    jblock_kind kind;
    bool was_soft; /* softness outside */
    bool is_recursive;
    bool has_else;
    uint32_t pos;
    uint32_t jump;   /* if: the pending JX_JUMP_FALSE; macro, call: the jump over the body;
                        for: JX_NEXT */
    uint32_t ends;   /* if: chain of jumps to the end; for: JX_FOR_END */
    uint32_t breaks; /* for: chain of jumps of break */
    uint32_t macro;
    uint32_t target; /* set: token of the target; filter and set: token of the filters */

    jinstruction call; /* call: the JX_CALL that was taken back */
} jblock;

/* An entry of the expression parser's stack. */
typedef struct jentry {
    uint8_t kind;
    uint8_t op;
    uint8_t prec;
    bool is_unknown;
    uint16_t n; /* operands, items or positional arguments so far */
    uint16_t n_named;
    uint32_t pos;
    uint32_t begin;     /* code position of the operand before */
    uint32_t patch;     /* pending jump, or chain of jumps */
    uint32_t id;        /* filter or test */
    uint32_t names;     /* first keyword name on the name stack */
    uint32_t soft_mark; /* unknown names seen before */
} jentry;

typedef struct jcompiler {
    jprogram *program;
    tdm_arena scratch;
    const jtoken *tokens;
    uint32_t n_tokens;
    uint32_t at; /* the current token */
    jblock *blocks;
    uint32_t n_blocks, blocks_cap;
    jentry *entries;
    uint32_t n_entries, entries_cap;
    uint32_t *named; /* keyword names of open calls */
    uint32_t n_named, named_cap;
    /* Unknown filters and tests of the current expression: instruction indexes. An error at compile
     * time unless an inline if or an if statement makes them soft. */
    uint32_t *unknown;
    uint32_t n_unknown, unknown_cap;
    bool is_soft;
    bool is_last_call; /* the expression just compiled ends in a JX_CALL of its own */
    tdm_error *err;
} jcompiler;

/* Makes room for one more element in an array of the scratch or program arena. */
tdm_status tdm_jinja_grow(jcompiler *c, tdm_arena *arena, void *array_ptr, uint32_t n,
                          uint32_t *cap, size_t elem_bytes);
tdm_status tdm_jinja_emit(jcompiler *c, jopcode op, uint8_t x, uint32_t n, uint32_t a,
                          uint32_t pos);
tdm_status tdm_jinja_emit_const(jcompiler *c, jopcode op, jval value, uint32_t pos);
tdm_status tdm_jinja_intern(jcompiler *c, const jtoken *token, uint32_t *out_name);
tdm_status tdm_jinja_pool_add(jcompiler *c, uint32_t value);
tdm_status tdm_jinja_syntax(jcompiler *c, const jtoken *token, const char *what);
/* Points every jump of a chain (linked through a, ended by UINT32_MAX) to target. */
void tdm_jinja_patch(jcompiler *c, uint32_t chain, uint32_t target);

static inline const jtoken *tdm_jinja_peek(const jcompiler *c) {
    return &c->tokens[c->at];
}
bool tdm_jinja_is_word(const jtoken *token, const char *word);
static inline bool tdm_jinja_is_op(const jtoken *token, jop_kind op) {
    return token->kind == JT_OP && token->op == op;
}

/* Literals (jinja_literal.c). The value of a token; read_strings joins a row of them and moves on.
 */
tdm_status tdm_jinja_read_int(jcompiler *c, const jtoken *token, jval *out);
tdm_status tdm_jinja_read_float(jcompiler *c, const jtoken *token, jval *out);
tdm_status tdm_jinja_read_strings(jcompiler *c, jval *out);
/* Emits the value of a name and moves on. */
tdm_status tdm_jinja_read_name(jcompiler *c, const jtoken *token);

typedef enum jexpr_mode {
    JE_FULL,          /* an expression */
    JE_TUPLE,         /* also a, b */
    JE_TUPLE_NO_COND, /* a, b; but no inline if */
    JE_FILTERS        /* only the filters after an operand that is on the stack already */
} jexpr_mode;

/* Compiles the expression at the current token and stops at the first token that is not of it. */
tdm_status tdm_jinja_expression(jcompiler *c, jexpr_mode mode);
/* A name or tuple of names to store into, for JX_STORE; leaves the current token after it. emits
 * false only skips it. */
tdm_status tdm_jinja_target(jcompiler *c, bool emits);

#endif
