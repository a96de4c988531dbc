/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser's insides, shared by answer.c (window, steps), answer_prose.c (text and thoughts),
 * answer_call.c (one call) and answer_calls.c (calls as JSON or Python). Floor 4. Room-internal.
 *
 * The window holds what has come and is not settled:
 *
 *   raw_at        prose_at       pos            len
 *     | text or call so far | blanks | not read yet |
 *
 * Everything from raw_at on can still come out as text, so nothing before it is kept. */
#ifndef TDM_TEXT_ANSWER_PRIV_H
#define TDM_TEXT_ANSWER_PRIV_H

#include "text/answer_literal.h"
#include "text/dialect_table_priv.h"

#define TDM_ANSWER_ARGUMENTS_MAX ((size_t)1 << 20)
#define TDM_ANSWER_NAME_MAX ((size_t)256)
#define TDM_ANSWER_HEADER_MAX ((size_t)512)

/* What a step says to the loop. */
typedef enum tdm_flow {
    TDM_FLOW_AGAIN, /* something was done */
    TDM_FLOW_MORE,  /* nothing can be done before more bytes come */
    TDM_FLOW_FAIL   /* this is no call */
} tdm_flow;

typedef enum tdm_part { /* inside ARGUMENTS, JSON and PYTHON */
                        TDM_PART_START,
                        TDM_PART_ITEM, /* an object or a call, or the end */
                        TDM_PART_KEY,
                        TDM_PART_COLON,
                        TDM_PART_VALUE,
                        TDM_PART_LITERAL, /* the literal machine runs */
                        TDM_PART_AFTER,
                        TDM_PART_NAME
} tdm_part;

typedef enum tdm_slot { /* what the literal that runs is for */
                        TDM_SLOT_KEY,
                        TDM_SLOT_NAME,
                        TDM_SLOT_ID,
                        TDM_SLOT_ARGUMENTS,
                        TDM_SLOT_ARGUMENTS_TEXT, /* arguments as a string that holds JSON */
                        TDM_SLOT_IGNORED
} tdm_slot;

enum { /* kinds that a schema allows, as bits */
       TDM_TYPE_STRING = 1,
       TDM_TYPE_NUMBER = 2,
       TDM_TYPE_BOOLEAN = 4,
       TDM_TYPE_NULL = 8,
       TDM_TYPE_ARRAY = 16,
       TDM_TYPE_OBJECT = 32,
       TDM_TYPE_UNKNOWN = 64 /* any; how it looks decides */
};

struct tdm_answer_parser {
    const tdm_alloc *alloc;
    const tdm_dialect *dialect;
    const tdm_json *tools;
    bool keeps_reasoning;
    bool streams;
    bool is_strict[TDM_STEPS_MAX][TDM_ALTS_MAX];
    bool is_gemma_strict;

    tdm_status status; /* the first failure; nothing happens after it */
    tdm_answer_sink sink;
    void *sink_arg;
    tdm_error *err;

    tdm_buf window;
    tdm_buf flags; /* TDM_BYTE_*, one a byte of the window */
    size_t pos, raw_at, prose_at;
    size_t step_at;   /* where the step was entered; JSON, PYTHON: behind the last call */
    size_t look_at;   /* how far the surroundings of a closing tag were read */
    size_t quote_at;  /* closing tags in front of it are quoted */
    bool look_is_mid; /* look_at is inside a line that is no fence */
    uint8_t step;
    bool is_finishing;
    bool has_starts; /* starts is that of the step */
    bool starts[256];

    bool has_text; /* other than white space has come out, or a call began */
    bool drops_space;
    bool is_line_start, is_in_fence; /* of a thought, for quoted closing tags */
    uint8_t last_byte;
    uint32_t ticks, open_ticks, fence_ticks;

    int32_t n_calls;
    bool is_settled; /* this run of calls has had one that ended */
    bool is_open;    /* a call is under way */
    bool is_told;    /* and BEGIN is out */
    bool has_name, has_arguments;
    tdm_buf name, id, key, value, arguments;
    size_t arguments_told, arguments_safe;

    tdm_literal literal;
    tdm_part part;
    tdm_slot slot;
    bool is_list;
    bool has_comma;
    uint32_t n_items; /* calls of this run */
    uint32_t level;   /* nested "function" objects */
    uint8_t types;    /* of the parameter that is open */
    bool is_retyped;  /* PYTHON: the value goes through `value`, its schema wants no string */
    bool is_quoted;   /* and was written as one */
    bool skips_newline;
};

static inline const char *tdm_answer_bytes(const tdm_answer_parser *p) {
    return p->window.data;
}
static inline const tdm_step *tdm_answer_step(const tdm_answer_parser *p) {
    return &p->dialect->steps[p->step];
}

/* answer.c */
/* Keeps the first failure and says what was too much; false when status is one. */
bool tdm_answer_note(tdm_answer_parser *p, tdm_status status);
void tdm_answer_emit(tdm_answer_parser *p, tdm_answer_kind kind, const char *text, size_t len);
/* Emits window[from, to) as text. */
void tdm_answer_text(tdm_answer_parser *p, size_t from, size_t to);
void tdm_answer_enter(tdm_answer_parser *p, uint8_t step);
/* The alternative of a step that stands at `at`: its index, -1: none, -2: not known yet. */
int tdm_answer_match(const tdm_answer_parser *p, uint8_t step, size_t at);
/* Does what the alternative at pos asks for. */
tdm_flow tdm_answer_take(tdm_answer_parser *p, const tdm_alt *alt);

/* answer_prose.c */
tdm_flow tdm_answer_prose(tdm_answer_parser *p);
/* The rest of the text or thought, when no more will come. */
void tdm_answer_prose_end(tdm_answer_parser *p);

/* answer_call.c */
/* The name is whole. False: it is no name, or not one that this place believes. */
bool tdm_call_name_is_good(const tdm_answer_parser *p, bool must_be_known);
/* "functions.name:0" in id: the name into name. */
bool tdm_call_name_from_id(tdm_answer_parser *p);
/* BEGIN, once the arguments have begun. */
void tdm_call_begin(tdm_answer_parser *p);
/* Tells what is safe of the arguments. */
void tdm_call_tell(tdm_answer_parser *p);
/* END when the arguments are one JSON object; false when not. What was written is settled. */
bool tdm_call_end(tdm_answer_parser *p);
/* Everything since raw_at is text; an open call is no more. */
void tdm_call_drop(tdm_answer_parser *p);
bool tdm_call_open_key(tdm_answer_parser *p, unsigned alt_flags);
/* More of the open parameter's value; value_end settles its type. */
void tdm_call_value(tdm_answer_parser *p, const char *bytes, size_t len);
void tdm_call_value_end(tdm_answer_parser *p);
/* Appends the value that is gathered, as types say. */
void tdm_call_put_typed(tdm_answer_parser *p);
/* TDM_TYPE_* of a parameter of the open call. */
uint8_t tdm_call_types(const tdm_answer_parser *p, const char *key, size_t len);
bool tdm_call_has_tool(const tdm_answer_parser *p);

/* answer_calls.c */
tdm_flow tdm_answer_arguments(tdm_answer_parser *p);
tdm_flow tdm_answer_json(tdm_answer_parser *p);
tdm_flow tdm_answer_python(tdm_answer_parser *p);

#endif
