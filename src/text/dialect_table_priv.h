/* SPDX-License-Identifier: Apache-2.0
 *
 * What a dialect is: a small table of steps that answer.c walks. Floor 4. Room-internal. A new
 * dialect is a new table; a new mechanism is a new kind of step.
 *
 *   TEXT --"<tool_call>"--> JSON --(object closed)--> MATCH "</tool_call>" --> TEXT
 *     \--"<think>"--> REASONING --"</think>"--> TEXT
 *
 * A step that meets something else than it can take gives everything since the last finished call
 * back as text and goes on in step 0, which is always TEXT. */
#ifndef TDM_TEXT_DIALECT_TABLE_PRIV_H
#define TDM_TEXT_DIALECT_TABLE_PRIV_H

#include "text/answer.h"

#define TDM_STEPS_MAX 12u
#define TDM_ALTS_MAX 6u
#define TDM_NO_STEP 255u
#define TDM_MARK_MAX 48u /* bytes of an alternative */

typedef enum tdm_step_op {
    TDM_STEP_TEXT,      /* the answer's text, until an alternative */
    TDM_STEP_REASONING, /* likewise; the first alternative is the closing tag */
    TDM_STEP_MATCH,     /* white space, then an alternative; else `next`, white space untouched */
    TDM_STEP_UNTIL,     /* bytes into `into` until an alternative */
    TDM_STEP_ARGUMENTS, /* the arguments of the call whose name is known: one object */
    TDM_STEP_JSON,      /* calls as JSON objects, in a list or one after the other */
    TDM_STEP_PYTHON     /* calls as Python writes them, in a list or a line each */
} tdm_step_op;

typedef enum tdm_step_into {
    TDM_INTO_NAME,
    TDM_INTO_NAME_ID, /* "functions.name:0": the id, and the name inside it */
    TDM_INTO_ID,
    TDM_INTO_KEY,
    TDM_INTO_VALUE,
    TDM_INTO_HEADER /* harmony: channel and recipient */
} tdm_step_into;

enum {                           /* of steps */
       TDM_STEP_SKIPS_LINE = 1,  /* UNTIL: one newline in front of a value is markup */
       TDM_STEP_NAME_IS_KEY = 2, /* JSON: {"name": {arguments}} */
       TDM_STEP_BARE = 4,  /* JSON, PYTHON: no mark in front: the name must be a tool's, or, when
                                 the tools are not known, the answer must begin with it */
       TDM_STEP_GEMMA = 8, /* ARGUMENTS: bare keys and <|"|> */
       TDM_STEP_KNOWN = 16 /* UNTIL: as BARE */
};

enum {                            /* of alternatives: what happens when it is met */
       TDM_ALT_PEEK = 1,          /* it is not consumed */
       TDM_ALT_SPECIAL = 2,       /* usually a special token, or begins with one (special_len) */
       TDM_ALT_THINK = 4,         /* a thought opens */
       TDM_ALT_ENVELOPE = 8,      /* left out; what stands around it is text */
       TDM_ALT_BEGIN = 16,        /* the name is whole: a call with parameters to come begins */
       TDM_ALT_KEY = 32,          /* the key is whole */
       TDM_ALT_KEY_STRING = 64,   /* and the value is a string, whatever the schema says */
       TDM_ALT_KEY_LITERAL = 128, /* or a literal */
       TDM_ALT_VALUE = 256,       /* the value is whole */
       TDM_ALT_END = 512,         /* the call ends */
       TDM_ALT_CLOSE = 1024,      /* the calls' markup ends */
       TDM_ALT_RECIPIENT = 2048,  /* "all": text follows; else a call */
       TDM_ALT_HEADER = 4096      /* harmony: where to go, the header says */
};

typedef struct tdm_alt {
    const char *text; /* the first that fits counts */
    uint16_t flags;
    uint8_t next;
    uint8_t special_len; /* bytes of text that are the special token; 0: all */
} tdm_alt;

typedef struct tdm_step {
    tdm_step_op op;
    tdm_step_into into;
    uint8_t flags;
    uint8_t next; /* MATCH: TDM_NO_STEP to insist */
    tdm_alt alts[TDM_ALTS_MAX];
} tdm_step;

struct tdm_dialect {
    const char *name;
    tdm_step steps[TDM_STEPS_MAX];
    uint8_t start;
    uint8_t thought;        /* the REASONING step; TDM_NO_STEP: none */
    const char *think_open; /* as a prompt ends with it */
    const char *think_close;
};

/* dialect_json.c, dialect_xml.c, dialect_named.c, dialect_python.c: each ends with a NULL. */
extern const tdm_dialect *const TDM_DIALECTS_JSON[];
extern const tdm_dialect *const TDM_DIALECTS_XML[];
extern const tdm_dialect *const TDM_DIALECTS_NAMED[];
extern const tdm_dialect *const TDM_DIALECTS_PYTHON[];

#endif
