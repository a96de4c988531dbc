/* SPDX-License-Identifier: Apache-2.0
 *
 * Expressions of templates, compiled in one pass from tokens to stack code: operator precedence
 * with an explicit stack, so that no depth of brackets can exhaust the C stack. The stack holds
 * what is open: operators that wait for their right side, and brackets, calls, subscripts, filters
 * and tests that wait for their end. Code of an operand is emitted when it is read. The inline if
 * is the one construct whose parts run in another order than they are written; a jump is put in
 * front of its first part once `if` is seen (cond_begin). It refuses * and ** in calls, and
 * subscripts with commas, as unsupported. */
#include "text/jinja_builtin.h"
#include "text/jinja_compile.h"

#include <string.h>

#define CHAIN_END UINT32_MAX

typedef enum entry_kind {
    EK_BASE,
    EK_PAREN,
    EK_LIST,
    EK_MAP,       /* op 0: a key is read, 1: a value */
    EK_SUBSCRIPT, /* op: parts of a slice before this one */
    EK_CALL,
    EK_FILTER,
    EK_TEST,
    EK_IF,
    EK_ELSE,
    EK_TEST_ARG, /* from here on operators, which reduce() ends */
    EK_NEG,
    EK_POS,
    EK_NOT,
    EK_BINARY,
    EK_ADD,    /* n operands */
    EK_CONCAT, /* n operands */
    EK_COMPARE,
    EK_AND,
    EK_OR
} entry_kind;

enum {
    PREC_OR = 1,
    PREC_AND,
    PREC_NOT,
    PREC_COMPARE,
    PREC_ADD,
    PREC_CONCAT,
    PREC_MUL,
    PREC_POW,
    PREC_FILTER,
    PREC_UNARY,
    PREC_TEST_ARG
};

/* Where the machine stands between two tokens. */
typedef enum stage {
    WANT_OPERAND,
    HAVE_OPERAND,  /* postfixes may follow */
    HAVE_FILTERED, /* a filter or test ended: only a call may follow directly */
    DONE
} stage;

static jentry *top(jcompiler *c) {
    return &c->entries[c->n_entries - 1];
}

static tdm_status open_entry(jcompiler *c, entry_kind kind, uint8_t op, uint8_t prec) {
    TDM_TRY(tdm_jinja_grow(c, &c->scratch, (void *)&c->entries, c->n_entries, &c->entries_cap,
                           sizeof *c->entries));
    c->entries[c->n_entries++] = (jentry){.kind = (uint8_t)kind,
                                          .op = op,
                                          .prec = prec,
                                          .pos = tdm_jinja_peek(c)->pos,
                                          .begin = c->program->n_code,
                                          .patch = CHAIN_END,
                                          .names = c->n_named};
    return TDM_OK;
}

static bool is_operator(const jentry *e) {
    return e->kind >= EK_TEST_ARG;
}

static tdm_status emit_site(jcompiler *c, jopcode op, const jentry *e) {
    jprogram *p = c->program;
    const uint32_t site = p->n_pool;
    TDM_TRY(tdm_jinja_pool_add(c, e->id));
    for (uint32_t i = 0; i < e->n_named; i++) {
        TDM_TRY(tdm_jinja_pool_add(c, c->named[e->names + i]));
    }
    c->n_named = e->names;
    return tdm_jinja_emit(c, op, (uint8_t)e->n_named, e->n, site, e->pos);
}

/* An unknown filter or test: its name's index is in id. */
static tdm_status emit_unknown(jcompiler *c, const jentry *e, bool is_test) {
    bool is_soft = c->is_soft;
    for (uint32_t i = 0; i < c->n_entries && !is_soft; i++) {
        is_soft = c->entries[i].kind == EK_IF || c->entries[i].kind == EK_ELSE;
    }
    c->n_named = e->names;
    if (!is_soft) {
        TDM_TRY(tdm_jinja_grow(c, &c->scratch, (void *)&c->unknown, c->n_unknown, &c->unknown_cap,
                               sizeof *c->unknown));
        c->unknown[c->n_unknown++] = c->program->n_code;
    }
    return tdm_jinja_emit(c, JX_UNKNOWN, is_test, 0, e->id, e->pos);
}

static tdm_status emit_filter_or_test(jcompiler *c, const jentry *e, bool is_test) {
    c->is_last_call = false;
    if (e->is_unknown) {
        TDM_TRY(emit_unknown(c, e, is_test));
    } else {
        TDM_TRY(emit_site(c, is_test ? JX_TEST : JX_FILTER, e));
    }
    return is_test && e->op != 0 ? tdm_jinja_emit(c, JX_NOT, 0, 0, 0, e->pos) : TDM_OK;
}

/* Ends the operator on top: both its sides are emitted. */
static tdm_status reduce(jcompiler *c) {
    const jentry e = *top(c);
    jprogram *p = c->program;
    c->n_entries--;
    c->is_last_call = false;
    switch (e.kind) {
    case EK_TEST_ARG: {
        jentry site = e;
        site.n = 1;
        return emit_filter_or_test(c, &site, true);
    }
    case EK_NEG:
    case EK_POS:
    case EK_NOT:
        return tdm_jinja_emit(c,
                              e.kind == EK_NEG   ? JX_NEG
                              : e.kind == EK_POS ? JX_POS
                                                 : JX_NOT,
                              0, 0, 0, e.pos);
    case EK_BINARY:
        return tdm_jinja_emit(c, JX_BINARY, e.op, 0, 0, e.pos);
    case EK_ADD:
        return tdm_jinja_emit(c, JX_ADD, 0, e.n, 0, e.pos);
    case EK_CONCAT:
        return tdm_jinja_emit(c, JX_CONCAT, 0, e.n, 0, e.pos);
    case EK_COMPARE:
        TDM_TRY(tdm_jinja_emit(c, JX_COMPARE, e.op, 0, 0, e.pos));
        tdm_jinja_patch(c, e.patch, p->n_code);
        return TDM_OK;
    case EK_AND:
    case EK_OR:
        tdm_jinja_patch(c, e.patch, p->n_code);
        return TDM_OK;
    default:
        return tdm_fail(c->err, TDM_E_INTERNAL, "template compiler: a bracket was reduced");
    }
}

static tdm_status reduce_to(jcompiler *c, uint8_t prec) {
    while (is_operator(top(c)) && top(c)->prec >= prec) {
        TDM_TRY(reduce(c));
    }
    return TDM_OK;
}

/* Ends an inline if whose condition was read and that has no else. */
static tdm_status cond_without_else(jcompiler *c) {
    const jentry e = *top(c);
    c->n_entries--;
    c->is_last_call = false;
    TDM_TRY(tdm_jinja_emit(c, JX_JUMP_TRUE, 0, 0, e.begin + 1, e.pos));
    static const char NAME[] = "the inline if without else";
    TDM_TRY(tdm_jinja_emit_const(c, JX_CONST, tdm_jinja_undefined(NAME, sizeof NAME - 1), e.pos));
    tdm_jinja_patch(c, e.patch, c->program->n_code);
    return TDM_OK;
}

/* Ends operators and inline ifs up to the innermost bracket. */
static tdm_status close_item(jcompiler *c) {
    for (;;) {
        TDM_TRY(reduce_to(c, 0));
        if (top(c)->kind == EK_IF) {
            TDM_TRY(cond_without_else(c));
        } else if (top(c)->kind == EK_ELSE) {
            tdm_jinja_patch(c, top(c)->patch, c->program->n_code);
            c->n_entries--;
            c->is_last_call = false;
        } else {
            return TDM_OK;
        }
    }
}

static bool is_jump(uint8_t op) {
    return op == JX_JUMP || op == JX_JUMP_FALSE || op == JX_JUMP_TRUE || op == JX_AND ||
           op == JX_OR || op == JX_COMPARE_CHAIN;
}

/* `A if`: [begin] jump C; A; jump END; C: (the condition comes next). */
static tdm_status cond_begin(jcompiler *c) {
    jprogram *p = c->program;
    const uint32_t pos = tdm_jinja_peek(c)->pos;
    const uint32_t begin = top(c)->begin;
    TDM_TRY(tdm_jinja_emit(c, JX_JUMP, 0, 0, 0, pos)); /* room for one more */
    for (uint32_t i = p->n_code - 1; i > begin; i--) {
        p->code[i] = p->code[i - 1];
        if (is_jump(p->code[i].op)) {
            p->code[i].a++; /* every jump in A goes to a place in A or to its end */
        }
    }
    while (c->n_unknown > 0 && c->unknown[c->n_unknown - 1] >= begin) {
        c->n_unknown--;
    }
    TDM_TRY(tdm_jinja_emit(c, JX_JUMP, 0, 0, CHAIN_END, pos));
    p->code[begin] = (jinstruction){.op = JX_JUMP, .a = p->n_code, .pos = pos};
    TDM_TRY(open_entry(c, EK_IF, 0, 0));
    top(c)->begin = begin;
    top(c)->patch = p->n_code - 1;
    c->at++;
    return TDM_OK;
}

/* `else` after the condition of an inline if; sets *out_is when it is one of ours. */
static tdm_status cond_else(jcompiler *c, bool *out_is) {
    TDM_TRY(reduce_to(c, 0));
    while (top(c)->kind == EK_ELSE) {
        tdm_jinja_patch(c, top(c)->patch, c->program->n_code);
        c->n_entries--;
        TDM_TRY(reduce_to(c, 0));
    }
    *out_is = top(c)->kind == EK_IF;
    if (!*out_is) {
        return TDM_OK;
    }
    TDM_TRY(tdm_jinja_emit(c, JX_JUMP_TRUE, 0, 0, top(c)->begin + 1, top(c)->pos));
    const uint32_t patch = top(c)->patch;
    c->n_entries--;
    TDM_TRY(open_entry(c, EK_ELSE, 0, 0));
    top(c)->patch = patch;
    c->at++;
    return TDM_OK;
}

/* The start of an argument: takes `name =`. */
static tdm_status begin_argument(jcompiler *c) {
    const jtoken *token = tdm_jinja_peek(c);
    if (tdm_jinja_is_op(token, JO_MUL) || tdm_jinja_is_op(token, JO_POW)) {
        return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_UNSUPPORTED,
                                 "* and ** in a call are not supported");
    }
    jentry *e = top(c);
    if (token->kind == JT_NAME && tdm_jinja_is_op(token + 1, JO_ASSIGN)) {
        uint32_t name = 0;
        TDM_TRY(tdm_jinja_intern(c, token, &name));
        TDM_TRY(tdm_jinja_grow(c, &c->scratch, (void *)&c->named, c->n_named, &c->named_cap,
                               sizeof *c->named));
        c->named[c->n_named++] = name;
        e->n_named++;
        c->at += 2;
    } else if (e->n_named > 0) {
        return tdm_jinja_syntax(c, token, "a positional argument follows a keyword argument");
    } else {
        e->n++;
    }
    if (e->n + e->n_named > 250) {
        return tdm_jinja_syntax(c, token, "more than 250 arguments");
    }
    e->begin = c->program->n_code;
    return TDM_OK;
}

/* After "(" of a call, filter or test. */
static tdm_status begin_arguments(jcompiler *c, stage *s, stage after_empty) {
    if (tdm_jinja_is_op(tdm_jinja_peek(c), JO_RPAREN)) {
        const jentry e = *top(c);
        c->n_entries--;
        c->at++;
        *s = after_empty;
        if (e.kind == EK_CALL) {
            TDM_TRY(emit_site(c, JX_CALL, &e));
            c->is_last_call = true;
            return TDM_OK;
        }
        return emit_filter_or_test(c, &e, e.kind == EK_TEST);
    }
    *s = WANT_OPERAND;
    return begin_argument(c);
}

/* The name of a filter or test at the current token, dots included, looked up. */
static tdm_status read_builtin(jcompiler *c, jentry *e, bool is_test) {
    const jtoken *token = tdm_jinja_peek(c);
    if (token->kind != JT_NAME) {
        return tdm_jinja_syntax(
            c, token, is_test ? "expected the name of a test" : "expected the name of a filter");
    }
    e->pos = token->pos;
    jtoken whole = *token;
    c->at++;
    while (tdm_jinja_is_op(tdm_jinja_peek(c), JO_DOT) && token[2].kind == JT_NAME) {
        token += 2;
        whole.len = token->pos + token->len - whole.pos;
        c->at += 2;
    }
    const int id = is_test ? tdm_jinja_test_find(whole.text, whole.len)
                           : tdm_jinja_filter_find(whole.text, whole.len);
    e->is_unknown = id < 0;
    if (id >= 0) {
        e->id = (uint32_t)id;
        return TDM_OK;
    }
    return tdm_jinja_intern(c, &whole, &e->id);
}

static tdm_status read_filter(jcompiler *c, stage *s) {
    jentry e = {.kind = EK_FILTER, .names = c->n_named};
    TDM_TRY(read_builtin(c, &e, false));
    if (tdm_jinja_is_op(tdm_jinja_peek(c), JO_LPAREN)) {
        c->at++;
        TDM_TRY(open_entry(c, EK_FILTER, 0, 0));
        top(c)->id = e.id;
        top(c)->is_unknown = e.is_unknown;
        top(c)->pos = e.pos;
        return begin_arguments(c, s, HAVE_FILTERED);
    }
    *s = HAVE_FILTERED;
    return emit_filter_or_test(c, &e, false);
}

static tdm_status read_test(jcompiler *c, stage *s) {
    c->at++;
    jentry e = {.kind = EK_TEST, .names = c->n_named};
    if (tdm_jinja_is_word(tdm_jinja_peek(c), "not")) {
        e.op = 1;
        c->at++;
    }
    TDM_TRY(read_builtin(c, &e, true));
    const jtoken *token = tdm_jinja_peek(c);
    const bool has_parens = tdm_jinja_is_op(token, JO_LPAREN);
    const bool has_operand = token->kind == JT_NAME || token->kind == JT_STRING ||
                             token->kind == JT_INT || token->kind == JT_FLOAT ||
                             tdm_jinja_is_op(token, JO_LBRACKET) ||
                             tdm_jinja_is_op(token, JO_LBRACE);
    if (has_parens || (has_operand && !tdm_jinja_is_word(token, "else") &&
                       !tdm_jinja_is_word(token, "or") && !tdm_jinja_is_word(token, "and"))) {
        if (tdm_jinja_is_word(token, "is")) {
            return tdm_jinja_syntax(c, token, "tests cannot be chained with is");
        }
        c->at += has_parens;
        TDM_TRY(open_entry(c, has_parens ? EK_TEST : EK_TEST_ARG, e.op, PREC_TEST_ARG));
        top(c)->id = e.id;
        top(c)->is_unknown = e.is_unknown;
        top(c)->pos = e.pos;
        if (has_parens) {
            return begin_arguments(c, s, HAVE_FILTERED);
        }
        *s = WANT_OPERAND;
        return TDM_OK;
    }
    *s = HAVE_FILTERED;
    return emit_filter_or_test(c, &e, true);
}

static tdm_status emit_none(jcompiler *c) {
    return tdm_jinja_emit_const(c, JX_CONST, tdm_jinja_of_kind(JK_NONE), tdm_jinja_peek(c)->pos);
}

/* Ends a subscript at "]": the parts that were left out become None. */
static tdm_status end_subscript(jcompiler *c, stage *s) {
    const jentry e = *top(c);
    c->n_entries--;
    *s = HAVE_OPERAND;
    c->is_last_call = false;
    if (e.op == 0) {
        return tdm_jinja_emit(c, JX_GETITEM, 0, 0, 0, e.pos);
    }
    for (int i = e.op; i < 2; i++) {
        TDM_TRY(emit_none(c));
    }
    return tdm_jinja_emit(c, JX_SLICE, 0, 0, 0, e.pos);
}

/* "(", "[" or "{" in front of an operand. */
static tdm_status open_bracket(jcompiler *c, const jtoken *token, stage *s) {
    const entry_kind kind = token->op == JO_LPAREN     ? EK_PAREN
                            : token->op == JO_LBRACKET ? EK_LIST
                                                       : EK_MAP;
    const jop_kind closer = token->op == JO_LPAREN     ? JO_RPAREN
                            : token->op == JO_LBRACKET ? JO_RBRACKET
                                                       : JO_RBRACE;
    c->at++;
    if (tdm_jinja_is_op(tdm_jinja_peek(c), closer)) {
        c->at++;
        *s = HAVE_OPERAND;
        return tdm_jinja_emit(c,
                              kind == EK_PAREN  ? JX_TUPLE
                              : kind == EK_LIST ? JX_LIST
                                                : JX_MAP,
                              0, 0, 0, token->pos);
    }
    return open_entry(c, kind, 0, 0);
}

static tdm_status read_prefix(jcompiler *c, const jtoken *token) {
    const bool is_not = token->kind == JT_NAME;
    if (is_operator(top(c)) &&
        (top(c)->kind == EK_TEST_ARG || (is_not && top(c)->prec > PREC_NOT))) {
        return tdm_jinja_syntax(c, token, "unexpected operator");
    }
    if (is_not) {
        TDM_TRY(open_entry(c, EK_NOT, 0, PREC_NOT));
    } else {
        TDM_TRY(open_entry(c, token->op == JO_SUB ? EK_NEG : EK_POS, 0, PREC_UNARY));
    }
    c->at++;
    return TDM_OK;
}

/* A slice may leave its parts out. */
static tdm_status empty_slice_part(jcompiler *c, const jtoken *token, stage *s, bool *out_was) {
    jentry *e = top(c);
    *out_was = false;
    if (e->kind != EK_SUBSCRIPT) {
        return TDM_OK;
    }
    if (tdm_jinja_is_op(token, JO_COLON) && e->op < 2) {
        TDM_TRY(emit_none(c));
        e->op++;
        e->begin = c->program->n_code;
        c->at++;
        *out_was = true;
    } else if (tdm_jinja_is_op(token, JO_RBRACKET) && e->op > 0) {
        TDM_TRY(emit_none(c));
        c->at++;
        *out_was = true;
        return end_subscript(c, s);
    }
    return TDM_OK;
}

static tdm_status read_operand(jcompiler *c, stage *s) {
    const jtoken *token = tdm_jinja_peek(c);
    jval value = {0};
    bool was_empty = false;
    c->is_last_call = false;
    TDM_TRY(empty_slice_part(c, token, s, &was_empty));
    if (was_empty) {
        return TDM_OK;
    }
    if ((tdm_jinja_is_word(token, "not") && top(c)->kind != EK_TEST_ARG) ||
        tdm_jinja_is_op(token, JO_SUB) || tdm_jinja_is_op(token, JO_ADD)) {
        return read_prefix(c, token);
    }
    if (tdm_jinja_is_op(token, JO_LPAREN) || tdm_jinja_is_op(token, JO_LBRACKET) ||
        tdm_jinja_is_op(token, JO_LBRACE)) {
        return open_bracket(c, token, s);
    }
    *s = HAVE_OPERAND;
    if (token->kind == JT_NAME) {
        return tdm_jinja_read_name(c, token);
    }
    if (token->kind == JT_STRING) {
        TDM_TRY(tdm_jinja_read_strings(c, &value));
        return tdm_jinja_emit_const(c, JX_CONST, value, token->pos);
    }
    if (token->kind == JT_INT || token->kind == JT_FLOAT) {
        TDM_TRY(token->kind == JT_INT ? tdm_jinja_read_int(c, token, &value)
                                      : tdm_jinja_read_float(c, token, &value));
        c->at++;
        return tdm_jinja_emit_const(c, JX_CONST, value, token->pos);
    }
    return tdm_jinja_syntax(c, token, "expected an expression");
}

/* ".name", ".0", "[" or "(" right after an operand. */
static tdm_status read_postfix(jcompiler *c, const jtoken *token, stage *s) {
    c->is_last_call = false;
    if (token->op == JO_DOT) {
        const jtoken *member = token + 1;
        c->at += 2;
        if (member->kind == JT_NAME) {
            uint32_t name = 0;
            TDM_TRY(tdm_jinja_intern(c, member, &name));
            return tdm_jinja_emit(c, JX_GETATTR, 0, 0, name, member->pos);
        }
        if (member->kind != JT_INT) {
            c->at--;
            return tdm_jinja_syntax(c, member, "expected a name or a number after '.'");
        }
        jval index = {0};
        TDM_TRY(tdm_jinja_read_int(c, member, &index));
        TDM_TRY(tdm_jinja_emit_const(c, JX_CONST, index, member->pos));
        return tdm_jinja_emit(c, JX_GETITEM, 0, 0, 0, member->pos);
    }
    c->at++;
    TDM_TRY(open_entry(c, token->op == JO_LBRACKET ? EK_SUBSCRIPT : EK_CALL, 0, 0));
    top(c)->pos = token->pos;
    *s = WANT_OPERAND;
    return token->op == JO_LPAREN ? begin_arguments(c, s, HAVE_OPERAND) : TDM_OK;
}

static tdm_status end_bracket(jcompiler *c, stage *s) {
    const jentry e = *top(c);
    switch (e.kind) {
    case EK_PAREN:
        c->n_entries--;
        *s = HAVE_OPERAND;
        return e.n == 0 ? TDM_OK : tdm_jinja_emit(c, JX_TUPLE, 0, 0, e.n + 1u, e.pos);
    case EK_LIST:
    case EK_MAP:
        c->n_entries--;
        *s = HAVE_OPERAND;
        return tdm_jinja_emit(c, e.kind == EK_LIST ? JX_LIST : JX_MAP, 0, 0, e.patch + 2u, e.pos);
    case EK_SUBSCRIPT:
        return end_subscript(c, s);
    case EK_CALL:
        c->n_entries--;
        *s = HAVE_OPERAND;
        TDM_TRY(emit_site(c, JX_CALL, &e));
        c->is_last_call = true;
        return TDM_OK;
    case EK_FILTER:
    case EK_TEST:
        c->n_entries--;
        *s = HAVE_FILTERED;
        return emit_filter_or_test(c, &e, e.kind == EK_TEST);
    default:
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "unexpected bracket");
    }
}

static jop_kind closer_of(const jentry *e) {
    return e->kind == EK_LIST || e->kind == EK_SUBSCRIPT ? JO_RBRACKET
           : e->kind == EK_MAP                           ? JO_RBRACE
           : e->kind == EK_BASE || e->kind > EK_TEST     ? JO_NONE
                                                         : JO_RPAREN;
}

/* A comma after an item of the bracket on top. Items of lists and maps are counted in patch (from
 * CHAIN_END, so that patch + 2 is the count), of tuples in n. */
static tdm_status read_comma(jcompiler *c, jexpr_mode mode, stage *s) {
    jentry *e = top(c);
    if (e->kind == EK_BASE && mode != JE_TUPLE && mode != JE_TUPLE_NO_COND) {
        *s = DONE;
        return TDM_OK;
    }
    if (e->kind == EK_SUBSCRIPT) {
        return tdm_jinja_fail_at(&c->program->source, tdm_jinja_peek(c)->pos, c->err,
                                 TDM_E_UNSUPPORTED, "a comma in a subscript is not supported");
    }
    if (e->kind == EK_MAP && e->op == 0) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected ':'");
    }
    c->at++;
    c->is_last_call = false;
    const jtoken *next = tdm_jinja_peek(c);
    const jop_kind closer = closer_of(e);
    const bool is_end = closer != JO_NONE
                            ? tdm_jinja_is_op(next, closer)
                            : next->kind == JT_VARIABLE_END || next->kind == JT_BLOCK_END;
    if (e->kind == EK_BASE || e->kind == EK_PAREN) {
        if (e->n == UINT16_MAX) {
            return tdm_jinja_syntax(c, next, "the tuple is too long");
        }
        if (is_end && e->n == 0) { /* "(a,)" is a tuple of one */
            const bool is_base = e->kind == EK_BASE;
            TDM_TRY(tdm_jinja_emit(c, JX_TUPLE, 0, 0, 1, e->pos));
            *s = is_base ? DONE : HAVE_OPERAND;
            if (is_base) {
                return TDM_OK;
            }
            c->n_entries--;
            c->at++;
            return TDM_OK;
        }
        e->n += !is_end;
    }
    if (is_end) {
        if (e->kind == EK_BASE) {
            *s = DONE;
            return TDM_OK;
        }
        c->at++;
        return end_bracket(c, s);
    }
    *s = WANT_OPERAND;
    if (e->kind == EK_CALL || e->kind == EK_FILTER || e->kind == EK_TEST) {
        return begin_argument(c);
    }
    if (e->kind == EK_LIST || e->kind == EK_MAP) {
        e->patch++;
        e->op = 0;
    }
    e->begin = c->program->n_code;
    return TDM_OK;
}

/* ",", ":" or a closing bracket. */
static tdm_status read_separator(jcompiler *c, const jtoken *token, jexpr_mode mode, stage *s) {
    TDM_TRY(close_item(c));
    jentry *e = top(c);
    if (token->op == JO_COMMA) {
        return read_comma(c, mode, s);
    }
    if (token->op == JO_COLON) {
        if ((e->kind == EK_MAP && e->op == 0) || (e->kind == EK_SUBSCRIPT && e->op < 2)) {
            e->op++;
            e->begin = c->program->n_code;
            c->at++;
            *s = WANT_OPERAND;
            return TDM_OK;
        }
        *s = DONE;
        return TDM_OK;
    }
    if (closer_of(e) != (jop_kind)token->op || (e->kind == EK_MAP && e->op == 0)) {
        *s = DONE;
        return TDM_OK;
    }
    c->at++;
    return end_bracket(c, s);
}

static tdm_status read_compare(jcompiler *c, uint8_t op, uint32_t n_tokens, stage *s) {
    TDM_TRY(reduce_to(c, PREC_COMPARE + 1));
    const uint32_t pos = tdm_jinja_peek(c)->pos;
    jentry *e = top(c);
    c->is_last_call = false;
    if (e->kind == EK_COMPARE) {
        TDM_TRY(tdm_jinja_emit(c, JX_COMPARE_CHAIN, e->op, 0, e->patch, pos));
        e->patch = c->program->n_code - 1;
        e->op = op;
    } else {
        TDM_TRY(open_entry(c, EK_COMPARE, op, PREC_COMPARE));
    }
    c->at += n_tokens;
    *s = WANT_OPERAND;
    return TDM_OK;
}

static tdm_status read_logic(jcompiler *c, bool is_and, stage *s) {
    const uint8_t prec = is_and ? PREC_AND : PREC_OR;
    TDM_TRY(reduce_to(c, prec));
    const uint32_t pos = tdm_jinja_peek(c)->pos;
    TDM_TRY(tdm_jinja_emit(c, is_and ? JX_AND : JX_OR, 0, 0, CHAIN_END, pos));
    TDM_TRY(open_entry(c, is_and ? EK_AND : EK_OR, 0, prec));
    top(c)->patch = c->program->n_code - 1;
    c->at++;
    *s = WANT_OPERAND;
    return TDM_OK;
}

static tdm_status read_binary(jcompiler *c, const jtoken *token, stage *s) {
    const uint8_t op = token->op;
    const uint8_t prec = op == JO_ADD || op == JO_SUB ? PREC_ADD
                         : op == JO_TILDE             ? PREC_CONCAT
                         : op == JO_POW               ? PREC_POW
                                                      : PREC_MUL;
    const entry_kind kind = op == JO_ADD ? EK_ADD : op == JO_TILDE ? EK_CONCAT : EK_BINARY;
    TDM_TRY(reduce_to(c, (uint8_t)(prec + 1)));
    if (kind != EK_BINARY && top(c)->kind == kind && top(c)->n < UINT16_MAX) {
        top(c)->n++; /* one instruction for the whole sum */
    } else {
        TDM_TRY(reduce_to(c, prec));
        TDM_TRY(open_entry(c, kind, op, prec));
        top(c)->n = 2;
    }
    c->at++;
    *s = WANT_OPERAND;
    return TDM_OK;
}

static tdm_status read_word(jcompiler *c, const jtoken *token, jexpr_mode mode, stage *s) {
    if (tdm_jinja_is_word(token, "is")) {
        TDM_TRY(reduce_to(c, PREC_FILTER));
        return read_test(c, s);
    }
    if (tdm_jinja_is_word(token, "in")) {
        return read_compare(c, JC_IN, 1, s);
    }
    if (tdm_jinja_is_word(token, "not") && tdm_jinja_is_word(token + 1, "in")) {
        return read_compare(c, JC_NOT_IN, 2, s);
    }
    if (tdm_jinja_is_word(token, "and") || tdm_jinja_is_word(token, "or")) {
        return read_logic(c, token->len == 3, s);
    }
    if (tdm_jinja_is_word(token, "if")) {
        TDM_TRY(reduce_to(c, 0));
        if (top(c)->kind == EK_IF) {
            TDM_TRY(cond_without_else(c));
        }
        if (top(c)->kind == EK_BASE && mode == JE_TUPLE_NO_COND) {
            *s = DONE;
            return TDM_OK;
        }
        *s = WANT_OPERAND;
        return cond_begin(c);
    }
    bool is_ours = false;
    if (tdm_jinja_is_word(token, "else")) {
        TDM_TRY(cond_else(c, &is_ours));
    }
    *s = is_ours ? WANT_OPERAND : DONE;
    return TDM_OK;
}

static tdm_status read_operator(jcompiler *c, jexpr_mode mode, stage *s) {
    const jtoken *token = tdm_jinja_peek(c);
    if (tdm_jinja_is_op(token, JO_LPAREN) ||
        (*s == HAVE_OPERAND &&
         (tdm_jinja_is_op(token, JO_DOT) || tdm_jinja_is_op(token, JO_LBRACKET)))) {
        return read_postfix(c, token, s);
    }
    if (top(c)->kind == EK_TEST_ARG) {
        *s = HAVE_FILTERED;
        return reduce(c);
    }
    if (mode == JE_FILTERS && top(c)->kind == EK_BASE && !tdm_jinja_is_op(token, JO_PIPE)) {
        *s = DONE;
        return TDM_OK;
    }
    if (token->kind == JT_NAME) {
        return read_word(c, token, mode, s);
    }
    if (token->kind != JT_OP) {
        *s = DONE;
        return TDM_OK;
    }
    switch (token->op) {
    case JO_PIPE:
        TDM_TRY(reduce_to(c, PREC_FILTER));
        c->at++;
        return read_filter(c, s);
    case JO_EQ:
    case JO_NE:
    case JO_GT:
    case JO_GE:
    case JO_LT:
    case JO_LE:
        return read_compare(c, token->op, 1, s);
    case JO_ADD:
    case JO_SUB:
    case JO_MUL:
    case JO_DIV:
    case JO_FLOORDIV:
    case JO_MOD:
    case JO_POW:
    case JO_TILDE:
        return read_binary(c, token, s);
    case JO_COMMA:
    case JO_COLON:
    case JO_RPAREN:
    case JO_RBRACKET:
    case JO_RBRACE:
        return read_separator(c, token, mode, s);
    default:
        *s = DONE;
        return TDM_OK;
    }
}

static tdm_status refuse_unknown(jcompiler *c) {
    if (c->n_unknown == 0) {
        return TDM_OK;
    }
    const jinstruction *i = &c->program->code[c->unknown[0]];
    const jname *name = &c->program->names[i->a];
    const bool is_jinjas = tdm_jinja_is_unsupported(name->text, name->len, i->x != 0);
    return tdm_jinja_fail_at(&c->program->source, i->pos, c->err,
                             is_jinjas ? TDM_E_UNSUPPORTED : TDM_E_FORMAT, "no %s named '%.*s'",
                             i->x != 0 ? "test" : "filter", (int)(name->len > 80 ? 80 : name->len),
                             name->text);
}

tdm_status tdm_jinja_expression(jcompiler *c, jexpr_mode mode) {
    stage s = WANT_OPERAND;
    const uint32_t base = c->n_entries;
    c->n_unknown = 0;
    c->is_last_call = false;
    TDM_TRY(open_entry(c, EK_BASE, 0, 0));
    if (mode == JE_FILTERS) {
        s = HAVE_FILTERED;
        if (tdm_jinja_peek(c)->kind == JT_NAME) {
            TDM_TRY(read_filter(c, &s));
        }
    }
    while (s != DONE) {
        TDM_TRY(s == WANT_OPERAND ? read_operand(c, &s) : read_operator(c, mode, &s));
    }
    const bool is_last_call = c->is_last_call;
    TDM_TRY(close_item(c));
    const jentry e = *top(c);
    if (e.kind != EK_BASE || c->n_entries != base + 1) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "unexpected token");
    }
    c->n_entries = base;
    c->is_last_call = is_last_call && c->is_last_call && e.n == 0;
    TDM_TRY(refuse_unknown(c));
    return e.n == 0 ? TDM_OK : tdm_jinja_emit(c, JX_TUPLE, 0, 0, e.n + 1u, e.pos);
}
