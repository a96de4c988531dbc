/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model's answer is made of: reasoning, text and tool calls, told apart while it streams.
 * Floor 4. One incremental parser a dialect; streaming and collecting use the same one.
 *
 * Laws:
 *  A1 Any cutting of the same pieces gives the same events, once neighbouring events of one kind
 *     and call are joined.
 *  A2 What does not parse as a call stays text, byte for byte: the concatenated TEXT of an answer
 *     without calls or reasoning is the answer.
 *  A3 Events of one call come in order BEGIN, ARGUMENTS*, END; its arguments joined are one JSON
 *     object. Calls are numbered from 0 in the order in which they begin.
 *  A4 What could still become markup is held back; finish gives it out.
 *  A5 Without streams_arguments a call comes whole or not at all. With it, BEGIN comes as soon as the
 *     name and the arguments' opening brace are there, and a call that then turns out malformed or
 *     unfinished ends with DROPPED; A2 then holds for TEXT and DROPPED together.
 * White space between text, thoughts and calls belongs to the markup: it is left out next to a call
 * or a thought, and kept where there is none. Envelopes around plain text (the channels of harmony,
 * ">>>all", START_RESPONSE) are no text.
 * A thought opens at the start of the answer only, or at a special token. It closes at the special
 * token where the vocabulary has one. Else it closes at the first closing tag that is not quoted:
 * inside a pair of equal runs of backticks on one line, between fences, or between two equal quote
 * marks right at both ends of the tag.
 * Source: spec/systems.md 206; reliability F57, BL05. */
#ifndef TDM_TEXT_ANSWER_H
#define TDM_TEXT_ANSWER_H

#include "base/json.h"
#include "text/tokenizer.h"

typedef enum tdm_answer_kind {
    TDM_ANSWER_TEXT,
    TDM_ANSWER_REASONING,
    TDM_ANSWER_CALL_BEGIN,     /* text: the function's name; id: the model's own id, or empty */
    TDM_ANSWER_CALL_ARGUMENTS, /* text: more of the arguments' JSON */
    TDM_ANSWER_CALL_END,       /* id: as in BEGIN, or one that the model wrote only later */
    TDM_ANSWER_CALL_DROPPED /* only with streams_arguments, in place of END: what had begun was no
                                  call after all. text: all of it as written, which is TEXT now */
} tdm_answer_kind;

typedef struct tdm_answer_event {
    tdm_answer_kind kind;
    const char *text; /* borrowed for the call of the sink */
    size_t len;
    const char *id;
    size_t id_len;
    int32_t call_idx; /* -1 outside calls */
} tdm_answer_event;

/* Returning false stops the parser's current call with TDM_E_CANCELLED. */
typedef bool (*tdm_answer_sink)(void *arg, const tdm_answer_event *event);

/* How a family of templates writes calls and reasoning. Constant; lives for the process. */
typedef struct tdm_dialect tdm_dialect;

/* The dialect that a template's source speaks, with the vocabulary's special tokens as a second
 * witness (tokenizer may be NULL). Never NULL: a template without tools gives the plain dialect,
 * which may still have reasoning. */
const tdm_dialect *tdm_dialect_detect(const char *template_source, size_t len,
                                      const tdm_tokenizer *tokenizer);
/* "hermes", "llama3-json", "harmony", "plain", ...; never NULL. */
const char *tdm_dialect_name(const tdm_dialect *dialect);
/* Whether the dialect reads the special token of that spelling: some mark holds it, or it stands
 * inside arguments (the quotes of gemma 4) or headers (harmony). */
bool tdm_dialect_reads(const tdm_dialect *dialect, const char *spelling);
/* By name; NULL when there is none. For listings: at(idx), NULL past the last. */
const tdm_dialect *tdm_dialect_find(const char *name);
const tdm_dialect *tdm_dialect_at(size_t idx);

typedef struct tdm_answer_options {
    const tdm_json *tools; /* the request's tools (array), or NULL: types of XML arguments */
    bool
        opens_in_reasoning; /* the prompt ended inside a thought (tdm_dialect_opens_in_reasoning) */
    bool keeps_reasoning_as_text;
    bool streams_arguments;         /* A5 */
    const tdm_tokenizer *tokenizer; /* says which markup is special tokens; NULL: what is usual in
                                       the dialect's family. Read by create only */
} tdm_answer_options;

/* Whether a rendered prompt ends inside an opened thought. */
bool tdm_dialect_opens_in_reasoning(const tdm_dialect *dialect, const char *prompt, size_t len);

typedef struct tdm_answer_parser tdm_answer_parser;

/* Borrows dialect and options->tools. Owns: caller destroys. Owner thread only. */
TDM_NODISCARD tdm_status tdm_answer_parser_create(tdm_answer_parser **out, const tdm_alloc *alloc,
                                                  const tdm_dialect *dialect,
                                                  const tdm_answer_options *options,
                                                  tdm_error *err);
void tdm_answer_parser_destroy(tdm_answer_parser *parser);
/* One more piece of the answer. is_special: the piece is the spelling of one special token; markup
 * that the vocabulary has as special tokens is only believed there.
 * Errors: TDM_E_NOMEM, TDM_E_LIMIT (arguments over 1 MiB, nesting over 64), TDM_E_CANCELLED. */
TDM_NODISCARD tdm_status tdm_answer_push(tdm_answer_parser *parser, const char *text, size_t len,
                                         bool is_special, tdm_answer_sink sink, void *arg,
                                         tdm_error *err);
/* No more will come: an unfinished call becomes text, or ends if its arguments are whole. After it
 * the parser can only be destroyed (TDM_E_ARG). */
TDM_NODISCARD tdm_status tdm_answer_finish(tdm_answer_parser *parser, tdm_answer_sink sink,
                                           void *arg, tdm_error *err);

#endif
