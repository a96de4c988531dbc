/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of answers share: a sink that joins events, answers cut into pieces as a tokenizer
 * would give them (special tokens whole, the rest anyhow), and comparison of JSON by value. */
#ifndef TDM_TESTS_ANSWER_KIT_H
#define TDM_TESTS_ANSWER_KIT_H

#include "support/support.h"

#include "text/answer_literal.h"
#include "text/dialect_table_priv.h"

#define KIT_CALLS_MAX 16

typedef struct kit_call {
    char name[280];
    char id[280];
    size_t arguments_at, arguments_len; /* in got.arguments */
    bool is_ended, is_dropped;
} kit_call;

/* An answer, joined. log holds all events in order, neighbours of one kind and call joined. */
typedef struct kit_got {
    tdm_buf text, reasoning, arguments, log;
    kit_call calls[KIT_CALLS_MAX];
    size_t n_calls;
    int last_kind, last_call;
    bool is_lawful;    /* A3 */
    size_t stop_after; /* the sink refuses that many events in; 0: never */
    size_t n_events;
} kit_got;

static inline void kit_init(kit_got *got) {
    memset(got, 0, sizeof *got);
    tdm_buf_init(&got->text, NULL, 0);
    tdm_buf_init(&got->reasoning, NULL, 0);
    tdm_buf_init(&got->arguments, NULL, 0);
    tdm_buf_init(&got->log, NULL, 0);
    got->last_kind = -1;
    got->is_lawful = true;
}

static inline void kit_deinit(kit_got *got) {
    tdm_buf_deinit(&got->text);
    tdm_buf_deinit(&got->reasoning);
    tdm_buf_deinit(&got->arguments);
    tdm_buf_deinit(&got->log);
}

static inline bool kit_law(kit_got *got, bool holds) {
    got->is_lawful = got->is_lawful && holds;
    return holds;
}

static inline void kit_copy(char *out, size_t cap, const char *text, size_t len) {
    const size_t n = len < cap - 1 ? len : cap - 1;
    memcpy(out, text, n);
    out[n] = '\0';
}

static inline void kit_call_event(kit_got *got, const tdm_answer_event *e) {
    const size_t i = (size_t)e->call_idx;
    if (e->kind == TDM_ANSWER_CALL_BEGIN) {
        if (!kit_law(got,
                     i == got->n_calls && i < KIT_CALLS_MAX &&
                         (i == 0 || got->calls[i - 1].is_ended || got->calls[i - 1].is_dropped))) {
            return;
        }
        kit_copy(got->calls[i].name, sizeof got->calls[i].name, e->text, e->len);
        got->calls[i].arguments_at = got->arguments.len;
        got->n_calls++;
    }
    if (!kit_law(got,
                 i + 1 == got->n_calls && !got->calls[i].is_ended && !got->calls[i].is_dropped)) {
        return;
    }
    if (e->id_len > 0) {
        kit_copy(got->calls[i].id, sizeof got->calls[i].id, e->id, e->id_len);
    }
    if (e->kind == TDM_ANSWER_CALL_ARGUMENTS) {
        assert_int_equal(tdm_buf_append(&got->arguments, e->text, e->len), TDM_OK);
        got->calls[i].arguments_len += e->len;
    }
    got->calls[i].is_ended = e->kind == TDM_ANSWER_CALL_END;
    got->calls[i].is_dropped = e->kind == TDM_ANSWER_CALL_DROPPED;
    if (e->kind == TDM_ANSWER_CALL_DROPPED) {
        assert_int_equal(tdm_buf_append(&got->text, e->text, e->len), TDM_OK);
    }
}

static inline bool kit_sink(void *arg, const tdm_answer_event *e) {
    kit_got *got = arg;
    got->n_events++;
    if (got->stop_after != 0 && got->n_events > got->stop_after) {
        return false;
    }
    if ((int)e->kind != got->last_kind || e->call_idx != got->last_call) {
        assert_int_equal(tdm_buf_printf(&got->log, "\x01%d:%d:", (int)e->kind, (int)e->call_idx),
                         TDM_OK);
    }
    got->last_kind = (int)e->kind;
    got->last_call = e->call_idx;
    assert_int_equal(tdm_buf_append(&got->log, e->text, e->len), TDM_OK);
    if (e->kind == TDM_ANSWER_TEXT || e->kind == TDM_ANSWER_REASONING) {
        (void)kit_law(got, e->call_idx == -1 && e->len > 0);
        assert_int_equal(tdm_buf_append(e->kind == TDM_ANSWER_TEXT ? &got->text : &got->reasoning,
                                        e->text, e->len),
                         TDM_OK);
    } else {
        kit_call_event(got, e);
    }
    return true;
}

static inline bool kit_is(const tdm_buf *buf, const char *text) {
    return buf->len == strlen(text) && (buf->len == 0 || memcmp(buf->data, text, buf->len) == 0);
}

/* An answer as a tokenizer would give it: which bytes are special tokens. */
typedef struct kit_answer {
    const char *text;
    size_t len;
    uint8_t *special; /* [len] 0: plain; else the bytes from here to the token's end, 255 inside */
} kit_answer;

static inline size_t kit_special_at(const tdm_dialect *dialect, const char *text, size_t len) {
    size_t best = 0;
    for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
        const tdm_alt *alts = dialect->steps[s].alts;
        for (unsigned i = 0; i < TDM_ALTS_MAX && alts[i].text != NULL; i++) {
            const size_t n = alts[i].special_len != 0 ? alts[i].special_len : strlen(alts[i].text);
            if ((alts[i].flags & TDM_ALT_SPECIAL) != 0 && n > best && n <= len &&
                memcmp(text, alts[i].text, n) == 0) {
                best = n;
            }
        }
    }
    if (best == 0 && strcmp(dialect->name, "gemma4") == 0 && len >= 5 &&
        memcmp(text, "<|\"|>", 5) == 0) {
        best = 5;
    }
    return best;
}

static inline void kit_answer_init(kit_answer *answer, const tdm_dialect *dialect, const char *text,
                                   size_t len, bool marks_special) {
    answer->text = text;
    answer->len = len;
    answer->special = calloc(len + 1, 1);
    assert_non_null(answer->special);
    for (size_t i = 0; marks_special && i < len;) {
        const size_t n = kit_special_at(dialect, text + i, len - i);
        if (n == 0) {
            i++;
            continue;
        }
        answer->special[i] = (uint8_t)n;
        for (size_t k = 1; k < n; k++) {
            answer->special[i + k] = 255;
        }
        i += n;
    }
}

static inline void kit_answer_deinit(kit_answer *answer) {
    free(answer->special);
}

/* Pushes [from, to), special tokens whole; a cut inside one is moved to its end. */
static inline tdm_status kit_push(tdm_answer_parser *p, const kit_answer *a, size_t from, size_t to,
                                  kit_got *got, tdm_error *err) {
    tdm_status status = TDM_OK;
    while (from < to && a->special[from] == 255) {
        from++;
    }
    while (status == TDM_OK && from < to) {
        size_t end = from;
        bool is_special = false;
        if (a->special[from] != 0) {
            end = from + a->special[from];
            is_special = true;
        } else {
            while (end < to && a->special[end] == 0) {
                end++;
            }
        }
        status = tdm_answer_push(p, a->text + from, end - from, is_special, kit_sink, got, err);
        from = end;
    }
    return status;
}

/* Parses an answer cut at the n positions of cuts, ascending. */
static inline tdm_status kit_parse(const tdm_alloc *alloc, const tdm_dialect *dialect,
                                   const tdm_answer_options *options, const kit_answer *answer,
                                   const size_t *cuts, size_t n, kit_got *got, tdm_error *err) {
    tdm_answer_parser *p = NULL;
    size_t from = 0;
    tdm_status status = tdm_answer_parser_create(&p, alloc, dialect, options, err);
    for (size_t i = 0; status == TDM_OK && i <= n; i++) {
        const size_t to = i < n ? cuts[i] : answer->len;
        status = kit_push(p, answer, from, to, got, err);
        from = to;
    }
    if (status == TDM_OK) {
        status = tdm_answer_finish(p, kit_sink, got, err);
    }
    tdm_answer_parser_destroy(p);
    return status;
}

static inline bool kit_number_equal(const tdm_json *a, const tdm_json *b) {
    double x = 0;
    double y = 0;
    if (a->kind == TDM_JSON_INT && b->kind == TDM_JSON_INT) {
        return strcmp(a->u.text, b->u.text) == 0;
    }
    return tdm_json_as_f64(a, &x) && tdm_json_as_f64(b, &y) && memcmp(&x, &y, sizeof x) == 0;
}

/* By value; the order of members does not count. */
static inline bool kit_json_equal(const tdm_json *a, const tdm_json *b) {
    const tdm_json *stack[512][2];
    size_t n = 1;
    stack[0][0] = a;
    stack[0][1] = b;
    while (n > 0) {
        n--;
        a = stack[n][0];
        b = stack[n][1];
        const bool are_numbers = a != NULL && b != NULL &&
                                 (a->kind == TDM_JSON_INT || a->kind == TDM_JSON_REAL) &&
                                 (b->kind == TDM_JSON_INT || b->kind == TDM_JSON_REAL);
        if (a == NULL || b == NULL || (a->kind != b->kind && !are_numbers)) {
            return false;
        }
        if (are_numbers) {
            if (!kit_number_equal(a, b)) {
                return false;
            }
            continue;
        }
        if (a->kind == TDM_JSON_BOOL ? a->boolean != b->boolean
                                     : a->kind != TDM_JSON_NULL && a->len != b->len) {
            return false;
        }
        if (a->kind == TDM_JSON_STRING && memcmp(a->u.text, b->u.text, a->len) != 0) {
            return false;
        }
        for (uint32_t i = 0;
             (a->kind == TDM_JSON_ARRAY || a->kind == TDM_JSON_OBJECT) && i < a->len; i++) {
            const tdm_json *x = &a->u.items[i];
            assert_true(n < 512);
            stack[n][0] = x;
            stack[n++][1] =
                a->kind == TDM_JSON_ARRAY ? &b->u.items[i] : tdm_json_get_n(b, x->key, x->key_len);
        }
    }
    return true;
}

/* Parses text, which must be JSON. */
static inline tdm_json_doc *kit_json(const char *text, size_t len) {
    tdm_json_doc *doc = NULL;
    tdm_error err = {0};
    if (tdm_json_parse(&doc, NULL, text, len, NULL, "kit", &err) != TDM_OK) {
        fail_msg("%s (%s): %.*s", err.what, err.where, (int)(len < 300 ? len : 300), text);
    }
    return doc;
}

/* The arguments of every call that ended are one JSON object. */
static inline void kit_check_laws(const kit_got *got) {
    assert_true(got->is_lawful);
    for (size_t i = 0; i < got->n_calls; i++) {
        const kit_call *call = &got->calls[i];
        assert_true(call->is_ended != call->is_dropped);
        if (call->is_ended) {
            tdm_json_doc *doc =
                kit_json(got->arguments.data + call->arguments_at, call->arguments_len);
            assert_true(tdm_json_is(tdm_json_doc_root(doc), TDM_JSON_OBJECT));
            tdm_json_doc_destroy(doc);
        }
    }
}

#endif
