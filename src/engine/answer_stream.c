/* SPDX-License-Identifier: Apache-2.0
 *
 * ids -> detokenizer -> pieces -> parser of the dialect -> events -> stop texts -> parts
 *
 * A special token goes to the parser as a piece of its own, because markup is only believed there.
 * It passes the detokenizer first, so that half a character in front of it comes out before it. */
#include "engine/answer_stream.h"

#include "base/arith.h"
#include "engine/stops.h"
#include "text/detok.h"

#include <string.h>

/* Where the texts of a part lie in bytes, which may still move. */
typedef struct range {
    size_t text_at, id_at;
} range;

struct tdm_answer_stream {
    const tdm_alloc *alloc;
    const tdm_tokenizer *tokenizer;
    const tdm_dialect *dialect;
    bool skips_special;
    bool is_stopped;
    tdm_detok *detok;
    tdm_answer_parser *parser;
    tdm_stops stops;
    tdm_buf piece;          /* decoded from one id */
    tdm_buf safe;           /* text that no stop text can reach any more */
    tdm_buf bytes;          /* texts of the parts */
    tdm_answer_part *parts; /* [cap] */
    range *ranges;          /* [cap] */
    size_t n, cap;
    tdm_status status; /* of the sink */
};

/* ---- parts ---- */

static tdm_status grow(tdm_answer_stream *s) {
    const size_t cap = s->cap > 0 ? s->cap * 2 : 8; /* bounded: memory ends long before */
    tdm_answer_part *parts = NULL;
    range *ranges = NULL;
    size_t bytes = 0;
    if (!tdm_mul_size(cap, sizeof *parts + sizeof *ranges, &bytes)) {
        return TDM_E_NOMEM;
    }
    parts = tdm_mem_calloc(s->alloc, cap, sizeof *parts);
    ranges = tdm_mem_calloc(s->alloc, cap, sizeof *ranges);
    if (parts == NULL || ranges == NULL) {
        tdm_mem_free(s->alloc, parts, cap * sizeof *parts);
        tdm_mem_free(s->alloc, ranges, cap * sizeof *ranges);
        return TDM_E_NOMEM;
    }
    if (s->n > 0) {
        memcpy(parts, s->parts, s->n * sizeof *parts);
        memcpy(ranges, s->ranges, s->n * sizeof *ranges);
    }
    tdm_mem_free(s->alloc, s->parts, s->cap * sizeof *parts);
    tdm_mem_free(s->alloc, s->ranges, s->cap * sizeof *ranges);
    s->parts = parts;
    s->ranges = ranges;
    s->cap = cap;
    return TDM_OK;
}

/* Adds a part, or lengthens the last one by text of the same kind. */
static tdm_status put(tdm_answer_stream *s, const tdm_answer_part *part) {
    tdm_answer_part *last = s->n > 0 ? &s->parts[s->n - 1] : NULL;
    const bool is_run = part->kind == TDM_PART_TEXT || part->kind == TDM_PART_REASONING ||
                        part->kind == TDM_PART_CALL_ARGUMENTS;
    const range at = {s->bytes.len, s->bytes.len + part->len};
    if (is_run && part->len == 0) {
        return TDM_OK;
    }
    if (part->len > 0) {
        TDM_TRY(tdm_buf_append(&s->bytes, part->text, part->len));
    }
    if (is_run && last != NULL && last->kind == part->kind && last->call_idx == part->call_idx) {
        last->len += part->len;
        return TDM_OK;
    }
    if (part->id_len > 0) {
        TDM_TRY(tdm_buf_append(&s->bytes, part->id, part->id_len));
    }
    if (s->n == s->cap) {
        TDM_TRY(grow(s));
    }
    s->parts[s->n] = *part;
    s->ranges[s->n] = at;
    s->n++;
    return TDM_OK;
}

static void settle(tdm_answer_stream *s) {
    for (size_t i = 0; i < s->n; i++) {
        tdm_answer_part *part = &s->parts[i];
        part->text = part->len > 0 ? s->bytes.data + s->ranges[i].text_at : "";
        part->id = part->id_len > 0 ? s->bytes.data + s->ranges[i].id_at : "";
    }
}

static tdm_status put_safe(tdm_answer_stream *s) {
    const tdm_answer_part part = {
        .kind = TDM_PART_TEXT, .text = s->safe.data, .len = s->safe.len, .call_idx = -1};
    return put(s, &part);
}

static tdm_status put_text(tdm_answer_stream *s, const char *text, size_t len) {
    tdm_buf_reset(&s->safe);
    TDM_TRY(tdm_stops_push(&s->stops, text, len, &s->safe, &s->is_stopped));
    return put_safe(s);
}

/* A run of text ends: what was held of it for the stop texts comes out. */
static tdm_status end_text(tdm_answer_stream *s) {
    tdm_buf_reset(&s->safe);
    TDM_TRY(tdm_stops_finish(&s->stops, &s->safe, &s->is_stopped));
    return put_safe(s);
}

static tdm_status put_event(tdm_answer_stream *s, const tdm_answer_event *event) {
    static const tdm_part_kind KINDS[] = {
        [TDM_ANSWER_TEXT] = TDM_PART_TEXT,
        [TDM_ANSWER_REASONING] = TDM_PART_REASONING,
        [TDM_ANSWER_CALL_BEGIN] = TDM_PART_CALL_BEGIN,
        [TDM_ANSWER_CALL_ARGUMENTS] = TDM_PART_CALL_ARGUMENTS,
        [TDM_ANSWER_CALL_END] = TDM_PART_CALL_END,
        [TDM_ANSWER_CALL_DROPPED] = TDM_PART_CALL_DROPPED,
    };
    tdm_answer_part part = {
        .kind = KINDS[event->kind],
        .text = event->text,
        .len = event->len,
        .id = event->id,
        .id_len = event->id_len,
        .call_idx = event->call_idx,
    };
    if (event->kind == TDM_ANSWER_TEXT) {
        return put_text(s, event->text, event->len);
    }
    TDM_TRY(end_text(s));
    if (s->is_stopped) {
        return TDM_OK;
    }
    if (event->kind == TDM_ANSWER_CALL_DROPPED) { /* what had been written is text now */
        part.text = "";
        part.len = 0;
        TDM_TRY(put(s, &part));
        return put_text(s, event->text, event->len);
    }
    return put(s, &part);
}

static bool take_event(void *arg, const tdm_answer_event *event) {
    tdm_answer_stream *s = arg;
    if (!s->is_stopped) {
        s->status = put_event(s, event);
    }
    return s->status == TDM_OK;
}

/* ---- ids ---- */

/* What the sink met is told rather than that it stopped the parser. */
static tdm_status told(tdm_answer_stream *s, tdm_status status, tdm_error *err) {
    settle(s);
    return s->status == TDM_OK ? status : tdm_fail_nomem(err, "the parts of an answer");
}

static tdm_status push_piece(tdm_answer_stream *s, const char *text, size_t len, bool is_special,
                             tdm_error *err) {
    return len == 0 ? TDM_OK
                    : told(s, tdm_answer_push(s->parser, text, len, is_special, take_event, s, err),
                           err);
}

tdm_status tdm_answer_stream_push(tdm_answer_stream *s, int32_t id, tdm_error *err) {
    size_t len = 0;
    const char *spelling = tdm_tokenizer_spelling(s->tokenizer, id, &len);
    const bool is_special = tdm_tokenizer_kind(s->tokenizer, id) == TDM_TOKEN_CONTROL;
    if (s->is_stopped || spelling == NULL || len == 0 ||
        (is_special && s->skips_special && !tdm_dialect_reads(s->dialect, spelling))) {
        return TDM_OK;
    }
    tdm_buf_reset(&s->piece);
    TDM_TRY(tdm_detok_push(s->detok, &id, 1, &s->piece, err));
    if (is_special && s->piece.len >= len &&
        memcmp(s->piece.data + s->piece.len - len, spelling, len) == 0) {
        TDM_TRY(push_piece(s, s->piece.data, s->piece.len - len, false, err));
        return s->is_stopped ? TDM_OK : push_piece(s, spelling, len, true, err);
    }
    return push_piece(s, s->piece.data, s->piece.len, false, err);
}

tdm_status tdm_answer_stream_finish(tdm_answer_stream *s, tdm_error *err) {
    if (s->is_stopped) {
        return TDM_OK;
    }
    tdm_buf_reset(&s->piece);
    TDM_TRY(tdm_detok_finish(s->detok, &s->piece, err));
    TDM_TRY(push_piece(s, s->piece.data, s->piece.len, false, err));
    if (!s->is_stopped) {
        TDM_TRY(told(s, tdm_answer_finish(s->parser, take_event, s, err), err));
    }
    if (!s->is_stopped) {
        s->status = end_text(s);
    }
    return told(s, TDM_OK, err);
}

bool tdm_answer_stream_is_stopped(const tdm_answer_stream *s) {
    return s->is_stopped;
}

const tdm_answer_part *tdm_answer_stream_parts(const tdm_answer_stream *s, size_t *out_n) {
    *out_n = s->n;
    return s->parts;
}

void tdm_answer_stream_clear(tdm_answer_stream *s) {
    s->n = 0;
    tdm_buf_reset(&s->bytes);
}

/* ---- making ---- */

static tdm_status build(tdm_answer_stream *s, const tdm_answer_stream_options *o, tdm_error *err) {
    const tdm_answer_options options = {
        .tools = o->tools,
        .opens_in_reasoning = o->opens_in_reasoning,
        .streams_arguments = o->streams_calls,
        .tokenizer = s->tokenizer,
    };
    TDM_TRY(tdm_stops_init(&s->stops, s->alloc, o->stops, o->n_stops, err));
    TDM_TRY(tdm_detok_create(&s->detok, s->alloc, s->tokenizer, false, err));
    return tdm_answer_parser_create(&s->parser, s->alloc, s->dialect, &options, err);
}

tdm_status tdm_answer_stream_create(tdm_answer_stream **out, const tdm_alloc *alloc,
                                    const tdm_tokenizer *tokenizer,
                                    const tdm_answer_stream_options *options, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_answer_stream *s = tdm_mem_calloc(alloc, 1, sizeof *s);
    *out = NULL;
    if (s == NULL) {
        return tdm_fail_nomem(err, "an answer's stream");
    }
    s->alloc = alloc;
    s->tokenizer = tokenizer;
    s->dialect = options->dialect;
    s->skips_special = options->skips_special;
    tdm_buf_init(&s->piece, alloc, 0);
    tdm_buf_init(&s->safe, alloc, 0);
    tdm_buf_init(&s->bytes, alloc, 0);
    status = build(s, options, err);
    if (status != TDM_OK) {
        tdm_answer_stream_destroy(s);
        return status;
    }
    *out = s;
    return TDM_OK;
}

void tdm_answer_stream_destroy(tdm_answer_stream *s) {
    if (s == NULL) {
        return;
    }
    tdm_answer_parser_destroy(s->parser);
    tdm_detok_destroy(s->detok);
    tdm_stops_deinit(&s->stops);
    tdm_buf_deinit(&s->piece);
    tdm_buf_deinit(&s->safe);
    tdm_buf_deinit(&s->bytes);
    tdm_mem_free(s->alloc, s->parts, s->cap * sizeof *s->parts);
    tdm_mem_free(s->alloc, s->ranges, s->cap * sizeof *s->ranges);
    tdm_mem_free(s->alloc, s, sizeof *s);
}
