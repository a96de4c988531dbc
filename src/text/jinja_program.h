/* SPDX-License-Identifier: Apache-2.0
 *
 * A compiled template: instructions for a stack machine, constants and names. Floor 4, private to
 * the template engine. Immutable once made; renders on several threads share it. */
#ifndef TDM_TEXT_JINJA_PROGRAM_H
#define TDM_TEXT_JINJA_PROGRAM_H

#include "text/jinja_lex.h"
#include "text/jinja_value.h"

/* What an instruction does to the stack is written before -- after. */
typedef enum jopcode {
    JX_END,           /* the rendering is complete */
    JX_TEXT,          /* -- ; writes constant a */
    JX_OUT,           /* v -- ; writes its text; x 1: v must be a string */
    JX_CONST,         /* -- constant a */
    JX_NAME,          /* -- value of name a */
    JX_STORE,         /* v -- ; into name a of the innermost scope */
    JX_SETATTR,       /* v ns -- ; member a of a namespace */
    JX_GETATTR,       /* v -- v.name a */
    JX_GETITEM,       /* v key -- v[key] */
    JX_SLICE,         /* v start stop step -- v[start:stop:step] */
    JX_CALL,          /* f args.. kwargs.. -- result; n, x: how many of each, a: call site */
    JX_FILTER,        /* v args.. kwargs.. -- result */
    JX_TEST,          /* v args.. kwargs.. -- bool */
    JX_UNKNOWN,       /* fails: x 0: filter, 1: test named a */
    JX_NOT,           /* v -- bool */
    JX_NEG,           /* v -- -v */
    JX_POS,           /* v -- +v */
    JX_BINARY,        /* a b -- a op b; x: jop_kind */
    JX_ADD,           /* n values -- their sum, from the left */
    JX_CONCAT,        /* n values -- their texts, joined */
    JX_COMPARE,       /* a b -- bool; x: jop_kind, JC_IN or JC_NOT_IN */
    JX_COMPARE_CHAIN, /* a b -- b when true; else -- false and jump to a */
    JX_JUMP,          /* to a; x 1: a round of the loop on top is complete */
    JX_JUMP_FALSE,    /* v -- ; to a when false */
    JX_JUMP_TRUE,     /* v -- ; to a when true */
    JX_AND,           /* v -- v and jump to a when false; else v -- */
    JX_OR,            /* v -- v and jump to a when true; else v -- */
    JX_LIST,          /* a values -- list */
    JX_TUPLE,         /* a values -- tuple */
    JX_MAP,           /* a pairs -- mapping */
    JX_UNPACK,        /* v -- n values, the first on top */
    JX_FOR,           /* v -- ; begins a loop, x: it is recursive */
    JX_NEXT,          /* -- item, or jump to a when there is none */
    JX_FOR_END,       /* ends the loop; jumps to a when it had a whole round */
    JX_RECURSED,      /* returns when the loop whose JX_NEXT is at a was called */
    JX_COLLECT,       /* v -- ; begins the filter of a loop */
    JX_KEEP,          /* v -- ; keeps the item of this round when true */
    JX_COLLECT_END,   /* -- list of what was kept */
    JX_DROP,          /* v -- */
    JX_SCOPE,         /* opens a scope */
    JX_SCOPE_END,
    JX_CAPTURE,     /* opens a scope whose output is kept apart */
    JX_CAPTURE_END, /* -- the text */
    JX_MACRO,       /* -- macro a, bound to the scope that it stands in */
    JX_ARG,         /* jumps to a when parameter n of the macro was given */
    JX_RETURN       /* -- the macro's text, in the caller */
} jopcode;

enum { JC_IN = 100, JC_NOT_IN = 101 }; /* operators of JX_COMPARE beside jop_kind */

typedef struct jinstruction {
    uint8_t op;
    uint8_t x;
    uint16_t n;
    uint32_t a;
    uint32_t pos; /* source offset, for errors */
} jinstruction;

typedef struct jname {
    const char *text;
    uint32_t len;
} jname;

typedef struct jmacro_def {
    uint32_t name; /* index of a name */
    uint32_t entry;
    uint32_t params; /* index into pool: names of the parameters */
    uint16_t n_params;
    uint16_t n_defaults; /* of the last parameters */
    bool uses_caller, uses_varargs, uses_kwargs;
} jmacro_def;

#define JINJA_NO_NAME UINT32_MAX

typedef struct jprogram {
    tdm_arena arena; /* owns everything below */
    jsource source;
    jinstruction *code;
    uint32_t n_code, code_cap;
    jval *consts;
    uint32_t n_consts, consts_cap;
    jname *names;
    uint32_t n_names, names_cap;
    jmacro_def *macros;
    uint32_t n_macros, macros_cap;
    /* Call sites: which filter or test (0 for a call), then the names of keyword arguments. Also
     * the parameters of macros. */
    uint32_t *pool;
    uint32_t n_pool, pool_cap;
    uint32_t loop_name; /* JINJA_NO_NAME: the template never says loop */
} jprogram;

/* program is zeroed but for its arena. On failure the caller deinits the arena all the same. */
tdm_status tdm_jinja_compile(jprogram *program, const char *text, size_t len, const char *name,
                             tdm_error *err);

#endif
