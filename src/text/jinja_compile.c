/* SPDX-License-Identifier: Apache-2.0
 *
 * The compiler of templates, statements: tokens to instructions in one pass, open statements on an
 * explicit stack. Where Jinja runs parts in another order than they are written (filters of a block
 * after its body, the targets of a filtered loop twice), the tokens are read again.
 * It refuses what needs other files (include, import, extends, block) as unsupported. */
#include "text/jinja_compile.h"

#include "base/arith.h"

#include <string.h>

#define CHAIN_END UINT32_MAX
#define NO_TOKEN UINT32_MAX
#define BLOCKS_MAX 256u
#define CODE_MAX (1u << 24)

tdm_status tdm_jinja_grow(jcompiler *c, tdm_arena *arena, void *array_ptr, uint32_t n,
                          uint32_t *cap, size_t elem_bytes) {
    if (n < *cap) {
        return TDM_OK;
    }
    const uint32_t fresh_cap = *cap == 0 ? 32 : *cap * 2;
    size_t bytes = 0;
    if (fresh_cap > CODE_MAX || !tdm_mul_size(fresh_cap, elem_bytes, &bytes)) {
        (void)tdm_fail(c->err, TDM_E_LIMIT, "%s: the template is too long",
                       c->program->source.name);
        tdm_err_limit(c->err, "%u instructions or names", CODE_MAX);
        return TDM_E_LIMIT;
    }
    void *old = NULL;
    memcpy(&old, array_ptr, sizeof old);
    void *fresh = tdm_arena_alloc(arena, bytes, TDM_ALIGN_DEFAULT);
    if (fresh == NULL) {
        return tdm_fail_nomem(c->err, "template program");
    }
    if (n > 0) {
        memcpy(fresh, old, n * elem_bytes);
    }
    memcpy(array_ptr, &fresh, sizeof fresh);
    *cap = fresh_cap;
    return TDM_OK;
}

tdm_status tdm_jinja_emit(jcompiler *c, jopcode op, uint8_t x, uint32_t n, uint32_t a,
                          uint32_t pos) {
    jprogram *p = c->program;
    TDM_TRY(
        tdm_jinja_grow(c, &p->arena, (void *)&p->code, p->n_code, &p->code_cap, sizeof *p->code));
    p->code[p->n_code++] =
        (jinstruction){.op = (uint8_t)op, .x = x, .n = (uint16_t)n, .a = a, .pos = pos};
    return TDM_OK;
}

tdm_status tdm_jinja_emit_const(jcompiler *c, jopcode op, jval value, uint32_t pos) {
    jprogram *p = c->program;
    TDM_TRY(tdm_jinja_grow(c, &p->arena, (void *)&p->consts, p->n_consts, &p->consts_cap,
                           sizeof *p->consts));
    p->consts[p->n_consts] = value;
    return tdm_jinja_emit(c, op, 0, 0, p->n_consts++, pos);
}

tdm_status tdm_jinja_intern(jcompiler *c, const jtoken *token, uint32_t *out_name) {
    jprogram *p = c->program;
    for (uint32_t i = 0; i < p->n_names; i++) {
        if (p->names[i].len == token->len &&
            memcmp(p->names[i].text, token->text, token->len) == 0) {
            *out_name = i;
            return TDM_OK;
        }
    }
    if (p->n_names == UINT16_MAX) {
        (void)tdm_fail(c->err, TDM_E_LIMIT, "%s: too many names", p->source.name);
        tdm_err_limit(c->err, "template names %u", UINT16_MAX);
        return TDM_E_LIMIT;
    }
    TDM_TRY(tdm_jinja_grow(c, &p->arena, (void *)&p->names, p->n_names, &p->names_cap,
                           sizeof *p->names));
    p->names[p->n_names] = (jname){.text = token->text, .len = token->len};
    *out_name = p->n_names++;
    return TDM_OK;
}

tdm_status tdm_jinja_pool_add(jcompiler *c, uint32_t value) {
    jprogram *p = c->program;
    TDM_TRY(
        tdm_jinja_grow(c, &p->arena, (void *)&p->pool, p->n_pool, &p->pool_cap, sizeof *p->pool));
    p->pool[p->n_pool++] = value;
    return TDM_OK;
}

tdm_status tdm_jinja_syntax(jcompiler *c, const jtoken *token, const char *what) {
    const int n = token->len > 40 ? 40 : (int)token->len;
    if (token->kind == JT_END) {
        return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_FORMAT,
                                 "%s, but the template ends", what);
    }
    return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_FORMAT, "%s at '%.*s'",
                             what, n, c->program->source.text + token->pos);
}

void tdm_jinja_patch(jcompiler *c, uint32_t chain, uint32_t target) {
    while (chain != CHAIN_END) {
        const uint32_t next = c->program->code[chain].a;
        c->program->code[chain].a = target;
        chain = next;
    }
}

bool tdm_jinja_is_word(const jtoken *token, const char *word) {
    return token->kind == JT_NAME && strlen(word) == token->len &&
           memcmp(token->text, word, token->len) == 0;
}

static tdm_status expect(jcompiler *c, jtoken_kind kind, const char *what) {
    const jtoken *token = tdm_jinja_peek(c);
    if (token->kind != kind) {
        return tdm_jinja_syntax(c, token, what);
    }
    c->at++;
    return TDM_OK;
}

static tdm_status expect_op(jcompiler *c, jop_kind op, const char *what) {
    const jtoken *token = tdm_jinja_peek(c);
    if (!tdm_jinja_is_op(token, op)) {
        return tdm_jinja_syntax(c, token, what);
    }
    c->at++;
    return TDM_OK;
}

static bool take_word(jcompiler *c, const char *word) {
    const bool is = tdm_jinja_is_word(tdm_jinja_peek(c), word);
    c->at += is;
    return is;
}

static jblock *top(jcompiler *c) {
    return c->n_blocks == 0 ? NULL : &c->blocks[c->n_blocks - 1];
}

static tdm_status open_block(jcompiler *c, jblock_kind kind, bool is_soft) {
    if (c->n_blocks == BLOCKS_MAX) {
        (void)tdm_jinja_fail_at(&c->program->source, tdm_jinja_peek(c)->pos, c->err, TDM_E_LIMIT,
                                "statements nest too deep");
        tdm_err_limit(c->err, "template nesting %u", BLOCKS_MAX);
        return TDM_E_LIMIT;
    }
    TDM_TRY(tdm_jinja_grow(c, &c->scratch, (void *)&c->blocks, c->n_blocks, &c->blocks_cap,
                           sizeof *c->blocks));
    c->blocks[c->n_blocks++] = (jblock){.kind = kind,
                                        .was_soft = c->is_soft,
                                        .pos = tdm_jinja_peek(c)->pos,
                                        .jump = CHAIN_END,
                                        .ends = CHAIN_END,
                                        .breaks = CHAIN_END,
                                        .target = NO_TOKEN};
    c->is_soft = is_soft;
    return TDM_OK;
}

static tdm_status close_block(jcompiler *c, jblock_kind kind, const char *word) {
    const jblock *b = top(c);
    if (b == NULL || b->kind != kind) {
        const jtoken *token = tdm_jinja_peek(c) - 1;
        return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_FORMAT,
                                 "'%s' closes nothing that is open here", word);
    }
    c->is_soft = b->was_soft;
    c->n_blocks--;
    return TDM_OK;
}

static tdm_status emit(jcompiler *c, jopcode op, uint32_t a) {
    return tdm_jinja_emit(c, op, 0, 0, a, tdm_jinja_peek(c)->pos);
}

/* Adds a jump to a chain of jumps that are patched later. */
static tdm_status emit_link(jcompiler *c, jopcode op, uint32_t *chain) {
    TDM_TRY(emit(c, op, *chain));
    *chain = c->program->n_code - 1;
    return TDM_OK;
}

/* --- targets ---------------------------------------------------------------------------------- */

/* Items between the current token and the end of this level; is_tuple when there is a comma. */
static uint32_t count_targets(const jcompiler *c, bool *is_tuple) {
    uint32_t depth = 0;
    uint32_t n = 0;
    bool has_item = false;
    *is_tuple = false;
    for (uint32_t at = c->at;; at++) {
        const jtoken *token = &c->tokens[at];
        if (tdm_jinja_is_op(token, JO_COMMA)) {
            *is_tuple |= depth == 0;
            has_item = has_item && depth != 0;
        } else if (tdm_jinja_is_op(token, JO_LPAREN) ||
                   (token->kind == JT_NAME && !tdm_jinja_is_word(token, "in"))) {
            n += depth == 0 && !has_item;
            has_item |= depth == 0;
            depth += token->kind == JT_OP;
        } else if (tdm_jinja_is_op(token, JO_RPAREN) && depth > 0) {
            depth--;
        } else {
            return n;
        }
    }
}

static tdm_status begin_targets(jcompiler *c, bool emits) {
    bool is_tuple = false;
    const uint32_t n = count_targets(c, &is_tuple);
    if (n == 0 || n > 1000) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected a name to assign to");
    }
    if (is_tuple && emits) {
        return tdm_jinja_emit(c, JX_UNPACK, 0, n, 0, tdm_jinja_peek(c)->pos);
    }
    return TDM_OK;
}

tdm_status tdm_jinja_target(jcompiler *c, bool emits) {
    static const char *const RESERVED[] = {"true", "false", "none", "True", "False", "None"};
    uint32_t depth = 0;
    bool wants_item = true;
    TDM_TRY(begin_targets(c, emits));
    for (;; c->at++) {
        const jtoken *token = tdm_jinja_peek(c);
        if (wants_item && tdm_jinja_is_op(token, JO_LPAREN)) {
            depth++;
            c->at++;
            TDM_TRY(begin_targets(c, emits));
            c->at--;
        } else if (wants_item && token->kind == JT_NAME && !tdm_jinja_is_word(token, "in")) {
            for (size_t i = 0; i < sizeof RESERVED / sizeof *RESERVED; i++) {
                if (tdm_jinja_is_word(token, RESERVED[i])) {
                    return tdm_jinja_syntax(c, token, "a constant cannot be assigned to");
                }
            }
            uint32_t name = 0;
            TDM_TRY(tdm_jinja_intern(c, token, &name));
            if (emits) {
                TDM_TRY(tdm_jinja_emit(c, JX_STORE, 0, 0, name, token->pos));
            }
            wants_item = false;
        } else if (!wants_item && tdm_jinja_is_op(token, JO_COMMA)) {
            wants_item = true;
        } else if (tdm_jinja_is_op(token, JO_RPAREN) && depth > 0) {
            depth--;
            wants_item = false;
        } else {
            return TDM_OK;
        }
    }
}

/* --- if and for ---------------------------------------------------------------------------------
 */

static tdm_status if_condition(jcompiler *c) {
    TDM_TRY(tdm_jinja_expression(c, JE_TUPLE_NO_COND));
    TDM_TRY(emit(c, JX_JUMP_FALSE, CHAIN_END));
    top(c)->jump = c->program->n_code - 1;
    return TDM_OK;
}

static tdm_status stmt_if(jcompiler *c) {
    TDM_TRY(open_block(c, JB_IF, true));
    return if_condition(c);
}

static tdm_status else_of_if(jcompiler *c) {
    TDM_TRY(emit_link(c, JX_JUMP, &top(c)->ends));
    tdm_jinja_patch(c, top(c)->jump, c->program->n_code);
    top(c)->jump = CHAIN_END;
    return TDM_OK;
}

static tdm_status stmt_elif(jcompiler *c) {
    if (top(c) == NULL || top(c)->kind != JB_IF || top(c)->has_else) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c) - 1, "no if is open here");
    }
    TDM_TRY(else_of_if(c));
    return if_condition(c);
}

/* Ends the rounds of a loop: back to JX_NEXT, which comes out here. */
static tdm_status end_rounds(jcompiler *c, uint32_t *out_for_end) {
    jblock *b = top(c);
    TDM_TRY(tdm_jinja_emit(c, JX_JUMP, 1, 0, b->jump, tdm_jinja_peek(c)->pos));
    c->program->code[b->jump].a = c->program->n_code;
    tdm_jinja_patch(c, b->breaks, c->program->n_code);
    TDM_TRY(emit(c, JX_FOR_END, c->program->n_code + 1));
    *out_for_end = c->program->n_code - 1;
    return TDM_OK;
}

static tdm_status stmt_else(jcompiler *c) {
    jblock *b = top(c);
    if (b != NULL && b->kind == JB_IF && !b->has_else) {
        b->has_else = true;
        return else_of_if(c);
    }
    if (b == NULL || b->kind != JB_FOR) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c) - 1, "no if or for is open here");
    }
    TDM_TRY(end_rounds(c, &b->ends));
    b->kind = JB_FOR_ELSE;
    return emit(c, JX_SCOPE, 0);
}

static tdm_status stmt_endif(jcompiler *c) {
    TDM_TRY(close_block(c, JB_IF, "endif"));
    const jblock *b = &c->blocks[c->n_blocks];
    tdm_jinja_patch(c, b->jump, c->program->n_code);
    tdm_jinja_patch(c, b->ends, c->program->n_code);
    return TDM_OK;
}

static tdm_status loop_filter(jcompiler *c, uint32_t target) {
    TDM_TRY(emit(c, JX_COLLECT, 0));
    const uint32_t next = c->program->n_code;
    TDM_TRY(emit(c, JX_NEXT, 0));
    const uint32_t condition = c->at;
    c->at = target;
    TDM_TRY(tdm_jinja_target(c, true));
    c->at = condition;
    const bool was_soft = c->is_soft;
    c->is_soft = false;
    TDM_TRY(tdm_jinja_expression(c, JE_FULL));
    c->is_soft = was_soft;
    TDM_TRY(emit(c, JX_KEEP, 0));
    TDM_TRY(emit(c, JX_JUMP, next));
    c->program->code[next].a = c->program->n_code;
    return emit(c, JX_COLLECT_END, 0);
}

static tdm_status stmt_for(jcompiler *c) {
    const uint32_t target = c->at;
    TDM_TRY(tdm_jinja_target(c, false));
    if (!take_word(c, "in")) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected 'in'");
    }
    TDM_TRY(tdm_jinja_expression(c, JE_TUPLE_NO_COND));
    if (take_word(c, "if")) {
        TDM_TRY(loop_filter(c, target));
    }
    const bool is_recursive = take_word(c, "recursive");
    const uint32_t end = c->at;
    TDM_TRY(open_block(c, JB_FOR, false));
    top(c)->is_recursive = is_recursive;
    TDM_TRY(tdm_jinja_emit(c, JX_FOR, is_recursive, 0, 0, c->tokens[target].pos));
    top(c)->jump = c->program->n_code;
    TDM_TRY(tdm_jinja_emit(c, JX_NEXT, 0, 0, 0, c->tokens[target].pos));
    c->at = target;
    TDM_TRY(tdm_jinja_target(c, true));
    c->at = end;
    return TDM_OK;
}

static tdm_status stmt_endfor(jcompiler *c) {
    jblock *b = top(c);
    const bool has_else = b != NULL && b->kind == JB_FOR_ELSE;
    TDM_TRY(close_block(c, has_else ? JB_FOR_ELSE : JB_FOR, "endfor"));
    if (has_else) {
        TDM_TRY(emit(c, JX_SCOPE_END, 0));
        c->program->code[b->ends].a = c->program->n_code;
    } else {
        c->n_blocks++; /* end_rounds works on the open block */
        uint32_t at = 0;
        const tdm_status status = end_rounds(c, &at);
        c->n_blocks--;
        TDM_TRY(status);
    }
    return b->is_recursive ? emit(c, JX_RECURSED, b->jump) : TDM_OK;
}

/* break and continue: leaves every statement inside the loop, then jumps. */
static tdm_status leave_loop(jcompiler *c, bool is_break) {
    uint32_t i = c->n_blocks;
    for (; i > 0 && c->blocks[i - 1].kind != JB_FOR; i--) {
        switch (c->blocks[i - 1].kind) {
        case JB_FOR_ELSE:
        case JB_WITH:
            TDM_TRY(emit(c, JX_SCOPE_END, 0));
            break;
        case JB_SET:
        case JB_FILTER:
            TDM_TRY(emit(c, JX_CAPTURE_END, 0));
            TDM_TRY(emit(c, JX_DROP, 0));
            break;
        case JB_IF:
            break;
        case JB_FOR:
        case JB_MACRO:
        case JB_CALL:
        case JB_GENERATION:
        default:
            return tdm_jinja_syntax(c, tdm_jinja_peek(c) - 1, "no loop is open here");
        }
    }
    if (i == 0) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c) - 1, "no loop is open here");
    }
    jblock *b = &c->blocks[i - 1];
    return is_break ? emit_link(c, JX_JUMP, &b->breaks) : emit(c, JX_JUMP, b->jump);
}

static tdm_status stmt_break(jcompiler *c) {
    return leave_loop(c, true);
}

static tdm_status stmt_continue(jcompiler *c) {
    return leave_loop(c, false);
}

/* --- set, filter, with, generation
 * ---------------------------------------------------------------- */

/* Skips to the end of this tag; the tokens are read later. */
static void skip_tag(jcompiler *c) {
    while (tdm_jinja_peek(c)->kind != JT_BLOCK_END && tdm_jinja_peek(c)->kind != JT_END) {
        c->at++;
    }
}

static bool is_member_target(const jcompiler *c) {
    const jtoken *t = tdm_jinja_peek(c);
    return t->kind == JT_NAME && tdm_jinja_is_op(t + 1, JO_DOT) && t[2].kind == JT_NAME;
}

/* Stores the value on the stack into the target whose token is given. */
static tdm_status store_at(jcompiler *c, uint32_t target) {
    const uint32_t back = c->at;
    c->at = target;
    tdm_status status = TDM_OK;
    if (is_member_target(c)) {
        uint32_t space = 0;
        uint32_t member = 0;
        TDM_TRY(tdm_jinja_intern(c, &c->tokens[target], &space));
        TDM_TRY(tdm_jinja_intern(c, &c->tokens[target + 2], &member));
        TDM_TRY(emit(c, JX_NAME, space));
        status = emit(c, JX_SETATTR, member);
    } else {
        status = tdm_jinja_target(c, true);
    }
    c->at = back;
    return status;
}

static tdm_status stmt_set(jcompiler *c) {
    const uint32_t target = c->at;
    if (is_member_target(c)) {
        c->at += 3;
    } else {
        TDM_TRY(tdm_jinja_target(c, false));
    }
    if (tdm_jinja_is_op(tdm_jinja_peek(c), JO_ASSIGN)) {
        c->at++;
        TDM_TRY(tdm_jinja_expression(c, JE_TUPLE));
        return store_at(c, target);
    }
    if (tdm_jinja_peek(c)->kind != JT_BLOCK_END && !tdm_jinja_is_op(tdm_jinja_peek(c), JO_PIPE)) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected '='");
    }
    TDM_TRY(open_block(c, JB_SET, false));
    top(c)->target = target;
    top(c)->jump = c->at; /* the filters, if any */
    skip_tag(c);
    return emit(c, JX_CAPTURE, 0);
}

/* Compiles the filters at token `at` over the value on the stack. */
static tdm_status filters_at(jcompiler *c, uint32_t at) {
    const uint32_t back = c->at;
    c->at = at;
    TDM_TRY(tdm_jinja_expression(c, JE_FILTERS));
    if (tdm_jinja_peek(c)->kind != JT_BLOCK_END) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected the end of the tag");
    }
    c->at = back;
    return TDM_OK;
}

static tdm_status stmt_endset(jcompiler *c) {
    TDM_TRY(close_block(c, JB_SET, "endset"));
    const jblock b = c->blocks[c->n_blocks];
    TDM_TRY(emit(c, JX_CAPTURE_END, 0));
    if (c->tokens[b.jump].kind != JT_BLOCK_END) {
        TDM_TRY(filters_at(c, b.jump));
    }
    return store_at(c, b.target);
}

static tdm_status stmt_filter(jcompiler *c) {
    TDM_TRY(open_block(c, JB_FILTER, false));
    top(c)->target = c->at;
    if (tdm_jinja_peek(c)->kind != JT_NAME) {
        return tdm_jinja_syntax(c, tdm_jinja_peek(c), "expected the name of a filter");
    }
    skip_tag(c);
    return emit(c, JX_CAPTURE, 0);
}

static tdm_status stmt_endfilter(jcompiler *c) {
    TDM_TRY(close_block(c, JB_FILTER, "endfilter"));
    const jblock b = c->blocks[c->n_blocks];
    TDM_TRY(emit(c, JX_CAPTURE_END, 0));
    const bool was_soft = c->is_soft;
    c->is_soft = false;
    TDM_TRY(filters_at(c, b.target));
    c->is_soft = was_soft;
    return tdm_jinja_emit(c, JX_OUT, 1, 0, 0, tdm_jinja_peek(c)->pos);
}

static tdm_status stmt_with(jcompiler *c) {
    uint32_t targets[64];
    uint32_t n = 0;
    while (tdm_jinja_peek(c)->kind != JT_BLOCK_END) {
        if (n > 0) {
            TDM_TRY(expect_op(c, JO_COMMA, "expected ','"));
        }
        if (n == sizeof targets / sizeof *targets) {
            return tdm_jinja_syntax(c, tdm_jinja_peek(c), "too many names in one with");
        }
        targets[n++] = c->at;
        TDM_TRY(expect(c, JT_NAME, "expected a name"));
        TDM_TRY(expect_op(c, JO_ASSIGN, "expected '='"));
        TDM_TRY(tdm_jinja_expression(c, JE_FULL));
    }
    TDM_TRY(open_block(c, JB_WITH, false));
    TDM_TRY(emit(c, JX_SCOPE, 0));
    while (n > 0) {
        uint32_t name = 0;
        TDM_TRY(tdm_jinja_intern(c, &c->tokens[targets[--n]], &name));
        TDM_TRY(emit(c, JX_STORE, name));
    }
    return TDM_OK;
}

static tdm_status stmt_endwith(jcompiler *c) {
    TDM_TRY(close_block(c, JB_WITH, "endwith"));
    return emit(c, JX_SCOPE_END, 0);
}

static tdm_status stmt_generation(jcompiler *c) {
    TDM_TRY(open_block(c, JB_GENERATION, false));
    return emit(c, JX_SCOPE, 0);
}

static tdm_status stmt_endgeneration(jcompiler *c) {
    TDM_TRY(close_block(c, JB_GENERATION, "endgeneration"));
    return emit(c, JX_SCOPE_END, 0);
}

/* --- macro and call
 * ------------------------------------------------------------------------------- */

/* `(a, b=1)` at the current token: the parameters, with code for the defaults. */
static tdm_status signature(jcompiler *c, jmacro_def *def) {
    uint32_t params[250];
    uint16_t n = 0;
    TDM_TRY(expect_op(c, JO_LPAREN, "expected '('"));
    while (!tdm_jinja_is_op(tdm_jinja_peek(c), JO_RPAREN)) {
        if (n > 0) {
            TDM_TRY(expect_op(c, JO_COMMA, "expected ','"));
        }
        const jtoken *token = tdm_jinja_peek(c);
        if (n == sizeof params / sizeof *params) {
            return tdm_jinja_syntax(c, token, "the macro has too many parameters");
        }
        TDM_TRY(expect(c, JT_NAME, "expected the name of a parameter"));
        TDM_TRY(tdm_jinja_intern(c, token, &params[n]));
        if (tdm_jinja_is_op(tdm_jinja_peek(c), JO_ASSIGN)) {
            c->at++;
            def->n_defaults++;
            const uint32_t jump = c->program->n_code;
            TDM_TRY(tdm_jinja_emit(c, JX_ARG, 0, n, 0, token->pos));
            TDM_TRY(tdm_jinja_expression(c, JE_FULL));
            TDM_TRY(emit(c, JX_STORE, params[n]));
            c->program->code[jump].a = c->program->n_code;
        } else if (def->n_defaults > 0) {
            return tdm_jinja_syntax(c, token, "a parameter without default follows one with it");
        }
        n++;
    }
    c->at++;
    def->params = c->program->n_pool;
    def->n_params = n;
    for (uint16_t i = 0; i < n; i++) {
        TDM_TRY(tdm_jinja_pool_add(c, params[i]));
    }
    return TDM_OK;
}

/* Opens a body that runs when called; the block is on top already. */
static tdm_status begin_body(jcompiler *c, uint32_t name, bool has_signature) {
    jprogram *p = c->program;
    TDM_TRY(tdm_jinja_grow(c, &p->arena, (void *)&p->macros, p->n_macros, &p->macros_cap,
                           sizeof *p->macros));
    const uint32_t macro = p->n_macros++;
    top(c)->macro = macro;
    p->macros[macro] = (jmacro_def){.name = name};
    TDM_TRY(emit(c, JX_JUMP, CHAIN_END));
    top(c)->jump = p->n_code - 1;
    jmacro_def def = {.name = name, .entry = p->n_code};
    if (has_signature) {
        TDM_TRY(signature(c, &def));
    }
    const jmacro_def seen = p->macros[macro]; /* defaults may have named caller */
    def.uses_caller = seen.uses_caller;
    def.uses_varargs = seen.uses_varargs;
    def.uses_kwargs = seen.uses_kwargs;
    p->macros[macro] = def;
    return TDM_OK;
}

static tdm_status end_body(jcompiler *c, const jblock *b) {
    TDM_TRY(emit(c, JX_RETURN, 0));
    tdm_jinja_patch(c, b->jump, c->program->n_code);
    return emit(c, JX_MACRO, b->macro);
}

static tdm_status stmt_macro(jcompiler *c) {
    const jtoken *token = tdm_jinja_peek(c);
    uint32_t name = 0;
    TDM_TRY(expect(c, JT_NAME, "expected the name of the macro"));
    TDM_TRY(tdm_jinja_intern(c, token, &name));
    TDM_TRY(open_block(c, JB_MACRO, false));
    return begin_body(c, name, true);
}

static tdm_status stmt_endmacro(jcompiler *c) {
    TDM_TRY(close_block(c, JB_MACRO, "endmacro"));
    const jblock b = c->blocks[c->n_blocks];
    TDM_TRY(end_body(c, &b));
    return emit(c, JX_STORE, c->program->macros[b.macro].name);
}

static tdm_status stmt_call(jcompiler *c) {
    const uint32_t begin = c->at;
    const bool has_signature = tdm_jinja_is_op(tdm_jinja_peek(c), JO_LPAREN);
    uint32_t depth = 0;
    while (has_signature) {
        depth += tdm_jinja_is_op(tdm_jinja_peek(c), JO_LPAREN);
        depth -= tdm_jinja_is_op(tdm_jinja_peek(c), JO_RPAREN);
        c->at++;
        if (depth == 0) {
            break;
        }
    }
    const jtoken *token = tdm_jinja_peek(c);
    TDM_TRY(tdm_jinja_expression(c, JE_FULL));
    jprogram *p = c->program;
    if (!c->is_last_call || p->code[p->n_code - 1].op != JX_CALL) {
        return tdm_jinja_syntax(c, token, "expected a call");
    }
    static const jtoken CALLER = {.kind = JT_NAME, .len = 6, .text = "caller"};
    uint32_t name = 0;
    TDM_TRY(tdm_jinja_intern(c, &CALLER, &name));
    TDM_TRY(open_block(c, JB_CALL, false));
    top(c)->call = p->code[--p->n_code];
    const uint32_t end = c->at;
    c->at = begin;
    TDM_TRY(begin_body(c, name, has_signature));
    c->at = end;
    return TDM_OK;
}

static tdm_status stmt_endcall(jcompiler *c) {
    TDM_TRY(close_block(c, JB_CALL, "endcall"));
    const jblock b = c->blocks[c->n_blocks];
    jprogram *p = c->program;
    TDM_TRY(end_body(c, &b));
    const uint32_t site = p->n_pool;
    for (uint32_t i = 0; i <= b.call.x; i++) {
        TDM_TRY(tdm_jinja_pool_add(c, p->pool[b.call.a + i]));
    }
    TDM_TRY(tdm_jinja_pool_add(c, p->macros[b.macro].name));
    TDM_TRY(tdm_jinja_emit(c, JX_CALL, (uint8_t)(b.call.x + 1), b.call.n, site, b.call.pos));
    return emit(c, JX_OUT, 0);
}

/* --- the loop over tokens
 * -------------------------------------------------------------------------- */

static tdm_status refuse_statement(jcompiler *c) {
    const jtoken *token = tdm_jinja_peek(c) - 1;
    return tdm_jinja_fail_at(&c->program->source, token->pos, c->err, TDM_E_UNSUPPORTED,
                             "the statement '%.*s' is not supported", (int)token->len, token->text);
}

static const struct {
    const char *word;
    tdm_status (*compile)(jcompiler *c);
} STATEMENTS[] = {
    {"if", stmt_if},
    {"elif", stmt_elif},
    {"else", stmt_else},
    {"endif", stmt_endif},
    {"for", stmt_for},
    {"endfor", stmt_endfor},
    {"break", stmt_break},
    {"continue", stmt_continue},
    {"set", stmt_set},
    {"endset", stmt_endset},
    {"filter", stmt_filter},
    {"endfilter", stmt_endfilter},
    {"macro", stmt_macro},
    {"endmacro", stmt_endmacro},
    {"call", stmt_call},
    {"endcall", stmt_endcall},
    {"with", stmt_with},
    {"endwith", stmt_endwith},
    {"generation", stmt_generation},
    {"endgeneration", stmt_endgeneration},
    {"include", refuse_statement},
    {"import", refuse_statement},
    {"from", refuse_statement},
    {"extends", refuse_statement},
    {"block", refuse_statement},
    {"autoescape", refuse_statement},
    {"print", refuse_statement},
};

static tdm_status compile_statement(jcompiler *c) {
    const jtoken *token = tdm_jinja_peek(c);
    TDM_TRY(expect(c, JT_NAME, "expected the name of a statement"));
    for (size_t i = 0; i < sizeof STATEMENTS / sizeof *STATEMENTS; i++) {
        if (tdm_jinja_is_word(token, STATEMENTS[i].word)) {
            TDM_TRY(STATEMENTS[i].compile(c));
            return expect(c, JT_BLOCK_END, "expected the end of the tag");
        }
    }
    return tdm_jinja_syntax(c, token, "unknown statement");
}

static tdm_status compile_output(jcompiler *c) {
    jprogram *p = c->program;
    const uint32_t begin = p->n_code;
    const uint32_t pos = tdm_jinja_peek(c)->pos;
    TDM_TRY(tdm_jinja_expression(c, JE_TUPLE));
    TDM_TRY(expect(c, JT_VARIABLE_END, "expected the end of the tag"));
    if (p->n_code == begin + 1 && p->code[begin].op == JX_CONST &&
        p->consts[p->code[begin].a].kind == JK_STR) {
        p->code[begin].op = JX_TEXT;
        return TDM_OK;
    }
    return tdm_jinja_emit(c, JX_OUT, 0, 0, 0, pos);
}

static tdm_status compile_all(jcompiler *c) {
    for (;;) {
        const jtoken *token = tdm_jinja_peek(c);
        c->at++;
        switch (token->kind) {
        case JT_DATA:
            TDM_TRY(tdm_jinja_emit_const(c, JX_TEXT, tdm_jinja_text(token->text, token->len),
                                         token->pos));
            break;
        case JT_VARIABLE_BEGIN:
            TDM_TRY(compile_output(c));
            break;
        case JT_BLOCK_BEGIN:
            TDM_TRY(compile_statement(c));
            break;
        default:
            if (c->n_blocks > 0) {
                return tdm_jinja_fail_at(&c->program->source, top(c)->pos, c->err, TDM_E_FORMAT,
                                         "the statement that opens here is never closed");
            }
            return tdm_jinja_emit(c, JX_END, 0, 0, 0, token->pos);
        }
    }
}

tdm_status tdm_jinja_compile(jprogram *program, const char *text, size_t len, const char *name,
                             tdm_error *err) {
    jcompiler c = {.program = program, .err = err};
    jtoken *tokens = NULL;
    program->loop_name = JINJA_NO_NAME;
    tdm_arena_init(&c.scratch, program->arena.alloc);
    tdm_status status = tdm_jinja_lex(&program->arena, text, len, name, &program->source, &tokens,
                                      &c.n_tokens, err);
    if (status == TDM_OK) {
        c.tokens = tokens;
        status = compile_all(&c);
    }
    tdm_arena_deinit(&c.scratch);
    return status;
}
