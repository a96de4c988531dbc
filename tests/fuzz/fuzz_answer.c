/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a model's answer, in any dialect (target 12).
 * Input: byte 0 the dialect, byte 1 the options, byte 2 seeds the cutting; in what follows, 0x1d is
 * the mark between pieces: a piece that 0x1e begins is a special token; 0x1f n stands for the n-th
 * markup of the dialect, as a special token when n is odd. Properties: any chunking gives the events
 * of one chunk; the events of calls are lawful and arguments are one JSON object; where no call and
 * no thought came out of a dialect without envelopes, the text is the answer; all memory is given
 * back. */
#include "text/answer_literal.h"
#include "text/dialect_table_priv.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PIECES_MAX 512

typedef struct piece {
    size_t at, len;
    bool is_special;
} piece;

typedef struct log {
    tdm_buf events, text, arguments;
    int last_kind, last_call;
    bool is_open;
    int32_t n_calls, n_ended;
    bool has_thought;
} log;

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, "
    "\"a\": {\"type\": [\"array\", \"null\"]}, \"u\": {\"anyOf\": [{\"type\": \"string\"}, "
    "{\"type\": \"boolean\"}]}}}}}]";

static void check_arguments(const log *l) {
    tdm_json_doc *doc = NULL;
    const tdm_json_limits limits = {(size_t)2 << 20, 64, 1u << 21};
    TDM_CHECK(tdm_json_parse(&doc, NULL, l->arguments.data, l->arguments.len, &limits, "arguments",
                             NULL) == TDM_OK);
    TDM_CHECK(tdm_json_is(tdm_json_doc_root(doc), TDM_JSON_OBJECT));
    tdm_json_doc_destroy(doc);
}

static bool sink(void *arg, const tdm_answer_event *e) {
    log *l = arg;
    if ((int)e->kind != l->last_kind || e->call_idx != l->last_call) {
        TDM_CHECK(tdm_buf_printf(&l->events, "\n#%d:%d:", (int)e->kind, (int)e->call_idx) == 0);
    }
    l->last_kind = (int)e->kind;
    l->last_call = e->call_idx;
    TDM_CHECK(tdm_buf_append(&l->events, e->text, e->len) == TDM_OK);
    TDM_CHECK(tdm_buf_append(&l->events, e->id, e->id_len) == TDM_OK);
    switch (e->kind) {
    case TDM_ANSWER_TEXT:
    case TDM_ANSWER_REASONING:
        TDM_CHECK(e->call_idx == -1 && e->len > 0 && !l->is_open);
        l->has_thought = l->has_thought || e->kind == TDM_ANSWER_REASONING;
        break;
    case TDM_ANSWER_CALL_BEGIN:
        TDM_CHECK(!l->is_open && e->call_idx == l->n_calls && e->len > 0);
        l->is_open = true;
        l->n_calls++;
        tdm_buf_reset(&l->arguments);
        break;
    case TDM_ANSWER_CALL_ARGUMENTS:
        TDM_CHECK(l->is_open && e->call_idx == l->n_calls - 1);
        TDM_CHECK(tdm_buf_append(&l->arguments, e->text, e->len) == TDM_OK);
        break;
    case TDM_ANSWER_CALL_END:
        TDM_CHECK(l->is_open);
        l->is_open = false;
        l->n_ended++;
        check_arguments(l);
        break;
    case TDM_ANSWER_CALL_DROPPED:
        TDM_CHECK(l->is_open);
        l->is_open = false;
        break;
    }
    if (e->kind == TDM_ANSWER_TEXT || e->kind == TDM_ANSWER_CALL_DROPPED) {
        TDM_CHECK(tdm_buf_append(&l->text, e->text, e->len) == TDM_OK);
    }
    return true;
}

static const tdm_alt *mark_at(const tdm_dialect *dialect, unsigned idx) {
    unsigned n = 0;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
            const tdm_alt *alts = dialect->steps[s].alts;
            for (unsigned i = 0; i < TDM_ALTS_MAX && alts[i].text != NULL; i++) {
                if (n++ == idx % 64) {
                    return &alts[i];
                }
            }
        }
        if (n == 0) {
            return NULL;
        }
        idx = idx % n;
        n = 0;
    }
    return NULL;
}

static void cut(tdm_buf *text, piece *pieces, size_t *n, size_t *from, bool *is_special) {
    if (text->len > *from && *n < PIECES_MAX) {
        pieces[(*n)++] = (piece){*from, text->len - *from, *is_special};
    }
    *from = text->len;
    *is_special = false;
}

/* The answer, and its pieces. */
static size_t unpack(const tdm_dialect *dialect, const uint8_t *data, size_t size, tdm_buf *text,
                     piece *pieces) {
    size_t n = 0;
    size_t from = 0;
    bool is_special = false;
    for (size_t i = 0; i < size && n + 2 < PIECES_MAX; i++) {
        if (data[i] == 0x1d) {
            cut(text, pieces, &n, &from, &is_special);
            is_special = i + 1 < size && data[i + 1] == 0x1e;
            i += is_special ? 1 : 0;
        } else if (data[i] == 0x1f && i + 1 < size) {
            const unsigned idx = data[++i];
            const tdm_alt *alt = mark_at(dialect, idx / 2);
            cut(text, pieces, &n, &from, &is_special);
            if (alt != NULL) {
                const size_t len = strlen(alt->text);
                const size_t special = alt->special_len != 0 ? alt->special_len : len;
                is_special = idx % 2 == 1;
                TDM_CHECK(tdm_buf_append(text, alt->text, special) == TDM_OK);
                cut(text, pieces, &n, &from, &is_special);
                TDM_CHECK(tdm_buf_append(text, alt->text + special, len - special) == TDM_OK);
            }
        } else {
            TDM_CHECK(tdm_buf_append_byte(text, (char)data[i]) == TDM_OK);
        }
    }
    cut(text, pieces, &n, &from, &is_special);
    text->len = from;
    return n;
}

/* step 0: whole pieces, neighbours joined; else plain pieces in chunks of 1 to step bytes. */
static tdm_status parse(const tdm_alloc *alloc, const tdm_dialect *dialect,
                        const tdm_answer_options *options, const tdm_buf *text, const piece *pieces,
                        size_t n, unsigned step, log *l) {
    tdm_answer_parser *p = NULL;
    tdm_error err = {0};
    uint32_t random = 12345 + step;
    tdm_status status = tdm_answer_parser_create(&p, alloc, dialect, options, &err);
    TDM_CHECK(status == TDM_OK);
    for (size_t i = 0; i < n && status == TDM_OK; i++) {
        size_t at = pieces[i].at;
        size_t end = at + pieces[i].len;
        while (step == 0 && !pieces[i].is_special && i + 1 < n && !pieces[i + 1].is_special) {
            end += pieces[++i].len;
        }
        while (at < end && status == TDM_OK) {
            random = random * 1664525u + 1013904223u;
            const size_t want =
                step == 0 || pieces[i].is_special ? end - at : 1 + (random >> 16) % step;
            const size_t len = want < end - at ? want : end - at;
            status = tdm_answer_push(p, text->data + at, len, pieces[i].is_special, sink, l, &err);
            at += len;
        }
    }
    if (status == TDM_OK) {
        status = tdm_answer_finish(p, sink, l, &err);
    }
    TDM_CHECK(status == TDM_OK || (status == TDM_E_LIMIT && err.limit[0] != '\0'));
    tdm_answer_parser_destroy(p);
    return status;
}

/* Whether the text may miss bytes though nothing was found: an envelope, or an empty thought. */
static bool may_leave_out(const tdm_dialect *dialect, const tdm_buf *text) {
    for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
        for (unsigned i = 0; i < TDM_ALTS_MAX && dialect->steps[s].alts[i].text != NULL; i++) {
            if ((dialect->steps[s].alts[i].flags &
                 (TDM_ALT_ENVELOPE | TDM_ALT_RECIPIENT | TDM_ALT_HEADER)) != 0) {
                return true;
            }
        }
    }
    const char *open = dialect->think_open;
    const size_t len = open != NULL ? strlen(open) : 0;
    for (size_t i = 0; open != NULL && i + len <= text->len; i++) {
        if (memcmp(text->data + i, open, len) == 0) {
            return true;
        }
    }
    return false;
}

static void log_init(log *l) {
    memset(l, 0, sizeof *l);
    tdm_buf_init(&l->events, NULL, 0);
    tdm_buf_init(&l->text, NULL, 0);
    tdm_buf_init(&l->arguments, NULL, 0);
    l->last_kind = -1;
}

static void log_deinit(log *l) {
    tdm_buf_deinit(&l->events);
    tdm_buf_deinit(&l->text);
    tdm_buf_deinit(&l->arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_alloc_tracker tracker;
    tdm_json_doc *tools = NULL;
    tdm_buf text;
    piece pieces[PIECES_MAX];
    log logs[2];
    size_t n_dialects = 0;
    if (size < 3) {
        return 0;
    }
    while (tdm_dialect_at(n_dialects) != NULL) {
        n_dialects++;
    }
    const tdm_dialect *dialect = tdm_dialect_at(data[0] % n_dialects);
    tdm_alloc_tracker_init(&tracker, NULL);
    TDM_CHECK(tdm_json_parse(&tools, NULL, TOOLS, sizeof TOOLS - 1, NULL, "tools", NULL) == TDM_OK);
    const tdm_answer_options options = {.tools =
                                            (data[1] & 1) != 0 ? tdm_json_doc_root(tools) : NULL,
                                        .opens_in_reasoning = (data[1] & 2) != 0,
                                        .keeps_reasoning_as_text = (data[1] & 4) != 0,
                                        .streams_arguments = (data[1] & 8) != 0};
    tdm_buf_init(&text, NULL, 0);
    const size_t n = unpack(dialect, data + 3, size - 3, &text, pieces);
    const unsigned steps[2] = {0, data[2] % 2 == 0 ? 1u : 1u + data[2]};
    tdm_status status[2];
    for (int i = 0; i < 2; i++) {
        log_init(&logs[i]);
        status[i] = parse(&tracker.alloc, dialect, &options, &text, pieces, n, steps[i], &logs[i]);
    }
    TDM_CHECK(status[0] == status[1]);
    if (status[0] == TDM_OK) {
        TDM_CHECK(logs[0].events.len == logs[1].events.len);
        TDM_CHECK(logs[0].events.len == 0 ||
                  memcmp(logs[0].events.data, logs[1].events.data, logs[0].events.len) == 0);
        TDM_CHECK(!logs[0].is_open && !logs[1].is_open);
        if (logs[0].n_ended == 0 && !logs[0].has_thought && !options.opens_in_reasoning &&
            !may_leave_out(dialect, &text)) {
            TDM_CHECK(logs[0].text.len == text.len);
            TDM_CHECK(text.len == 0 || memcmp(logs[0].text.data, text.data, text.len) == 0);
        }
    }
    log_deinit(&logs[0]);
    log_deinit(&logs[1]);
    tdm_buf_deinit(&text);
    tdm_json_doc_destroy(tools);
    TDM_CHECK(tracker.n_live == 0 && tracker.live_bytes == 0);
    return 0;
}
