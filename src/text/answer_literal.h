/* SPDX-License-Identifier: Apache-2.0
 *
 * One value, written as JSON or as a Python literal, turned into JSON while it arrives. Floor 4.
 * Room-internal. Valid JSON goes through byte for byte. Beyond it are taken: Python's strings,
 * True, False and None, tuples, numbers such as .5 and +1, trailing commas, raw control characters
 * in strings; with is_gemma also bare keys and strings between <|"|>. UTF-8 and duplicate keys are
 * not looked at: whoever ends a call parses the whole once more. */
#ifndef TDM_TEXT_ANSWER_LITERAL_H
#define TDM_TEXT_ANSWER_LITERAL_H

#include "base/buf.h"

#define TDM_LITERAL_DEPTH_MAX 64u

/* Of one input byte. */
enum {
    TDM_BYTE_SPECIAL = 1, /* of a special token */
    TDM_BYTE_FIRST = 2,   /* its first byte */
    TDM_BYTE_LAST = 4,
    TDM_BYTE_MARK = 8 /* of a special token that is markup of the dialect */
};

typedef enum tdm_literal_result {
    TDM_LITERAL_MORE,
    TDM_LITERAL_DONE,
    TDM_LITERAL_BAD
} tdm_literal_result;

typedef struct tdm_literal {
    bool is_gemma;
    bool is_gemma_strict; /* <|"|> is a special token */
    bool decodes;         /* a string at the top comes out as its bytes, without quotes */
    uint8_t state;
    uint8_t quote;
    uint8_t n_hex; /* digits still to come */
    uint8_t escape;
    uint8_t n_matched; /* of <|"|> */
    bool is_key;
    bool has_comma;
    uint32_t depth;
    uint32_t hex;
    uint32_t high;       /* a high surrogate that waits for its other half */
    char digits[4];      /* of \u, as spelled */
    char high_digits[4]; /* of the waiting half */
    size_t token;        /* where in out the open token begins */
    size_t safe;         /* bytes of out that will not change */
    uint8_t stack[TDM_LITERAL_DEPTH_MAX];
} tdm_literal;

void tdm_literal_init(tdm_literal *lit, const tdm_buf *out);
/* Takes bytes until the value ends; *used: how many. flags: one a byte, or NULL. Errors:
 * TDM_E_NOMEM, TDM_E_LIMIT (out's own, or nesting). */
TDM_NODISCARD tdm_status tdm_literal_push(tdm_literal *lit, tdm_buf *out, const char *bytes,
                                          const uint8_t *flags, size_t n, size_t *used,
                                          tdm_literal_result *result);
/* No more bytes: a number or word at the top may end there. */
TDM_NODISCARD tdm_status tdm_literal_finish(tdm_literal *lit, tdm_buf *out,
                                            tdm_literal_result *result);
/* Appends bytes as they stand inside a JSON string. */
TDM_NODISCARD tdm_status tdm_literal_escape(tdm_buf *out, const char *bytes, size_t n);
/* Appends text as JSON when it is one whole literal and nothing else but white space; *ok tells.
 * out is as before when it is not. */
TDM_NODISCARD tdm_status tdm_literal_convert(tdm_buf *out, const char *text, size_t len, bool *ok);

static inline bool tdm_literal_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

#endif
