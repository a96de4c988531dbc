/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation's ids as the parts of an answer: text, reasoning and tool calls. Floor 7. Owner
 * thread only. Joins the detokenizer, the dialect's parser and the stop texts.
 *
 * Laws:
 *  S1 The parts of an answer, neighbours of one kind and call joined, depend on its ids alone and
 *     not on how often the parts were taken.
 *  S2 Stop texts are looked for in TEXT only, in each run of it by itself: what stands between two
 *     thoughts or calls. From a stop text on there are no more parts.
 *  S3 An answer without markup gives one run of TEXT that is what tdm_detok gives for its ids. */
#ifndef TDM_ENGINE_ANSWER_STREAM_H
#define TDM_ENGINE_ANSWER_STREAM_H

#include "text/answer.h"

typedef struct tdm_answer_stream tdm_answer_stream;

typedef struct tdm_answer_stream_options {
    const tdm_dialect *dialect;
    const tdm_json *tools; /* array, or NULL; borrowed until destroy */
    bool opens_in_reasoning;
    bool skips_special; /* special tokens that are no markup of the dialect are left out */
    bool streams_calls; /* a call's parts as they come; DROPPED when it turns out to be none */
    const char *const *stops; /* [n_stops] NUL-terminated; copied */
    size_t n_stops;
} tdm_answer_stream_options;

/* Borrows tokenizer and dialect. Errors: TDM_E_ARG (stop texts), TDM_E_NOMEM. Owns: caller
 * destroys. */
TDM_NODISCARD tdm_status tdm_answer_stream_create(tdm_answer_stream **out, const tdm_alloc *alloc,
                                                  const tdm_tokenizer *tokenizer,
                                                  const tdm_answer_stream_options *options,
                                                  tdm_error *err);
void tdm_answer_stream_destroy(tdm_answer_stream *stream);

/* One more id of the answer: what it settles is added to the parts. Ids past the vocabulary (rows
 * that pad the embedding) have no spelling and are passed over. Errors: as tdm_answer_push. */
TDM_NODISCARD tdm_status tdm_answer_stream_push(tdm_answer_stream *stream, int32_t id,
                                                tdm_error *err);
/* No more will come: everything that was held back becomes parts. Nothing is pushed after it. */
TDM_NODISCARD tdm_status tdm_answer_stream_finish(tdm_answer_stream *stream, tdm_error *err);
/* A stop text was found. */
bool tdm_answer_stream_is_stopped(const tdm_answer_stream *stream);
/* The parts since the last clear; borrowed until the next push, finish or clear. */
const tdm_answer_part *tdm_answer_stream_parts(const tdm_answer_stream *stream, size_t *out_n);
void tdm_answer_stream_clear(tdm_answer_stream *stream);

#endif
