/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser's frame: the window of bytes that are not settled, the match of markup against it, the
 * loop over a dialect's steps. It decides by bytes and by which of them are special tokens, never
 * by where a piece ended, so any cutting gives the same events. No step looks at a byte more than a
 * few times; a step that needs more bytes says so and is entered again with them. */
#include "text/answer_priv.h"

#include <string.h>

bool tdm_answer_note(tdm_answer_parser *p, tdm_status status) {
    if (status == TDM_OK) {
        return true;
    }
    if (p->status == TDM_OK) {
        p->status = status;
        if (status == TDM_E_LIMIT) {
            (void)tdm_fail(p->err, status, "the arguments of a tool call are too large");
            tdm_err_limit(p->err, "%zu bytes, %u levels", TDM_ANSWER_ARGUMENTS_MAX,
                          TDM_LITERAL_DEPTH_MAX);
        } else if (status == TDM_E_CANCELLED) {
            (void)tdm_fail(p->err, status, "the reader of the answer stopped it");
        } else {
            (void)tdm_fail_nomem(p->err, "a parsed answer");
        }
    }
    return false;
}

void tdm_answer_emit(tdm_answer_parser *p, tdm_answer_kind kind, const char *text, size_t len) {
    const bool is_call = kind != TDM_ANSWER_TEXT && kind != TDM_ANSWER_REASONING;
    const bool has_id = kind == TDM_ANSWER_CALL_BEGIN || kind == TDM_ANSWER_CALL_END;
    const tdm_answer_event event = {.kind = kind,
                                    .text = len > 0 ? text : "",
                                    .len = len,
                                    .id = has_id && p->id.len > 0 ? p->id.data : "",
                                    .id_len = has_id ? p->id.len : 0,
                                    .call_idx = is_call ? p->n_calls : -1};
    if (p->status == TDM_OK && (len > 0 || is_call) && !p->sink(p->sink_arg, &event)) {
        (void)tdm_answer_note(p, TDM_E_CANCELLED);
    }
}

void tdm_answer_text(tdm_answer_parser *p, size_t from, size_t to) {
    if (to > from) {
        tdm_answer_emit(p, TDM_ANSWER_TEXT, tdm_answer_bytes(p) + from, to - from);
        p->has_text = true;
        p->drops_space = false;
    }
}

void tdm_answer_enter(tdm_answer_parser *p, uint8_t step) {
    p->step = step;
    p->step_at = p->pos;
    p->has_starts = false;
    p->part = TDM_PART_START;
    p->is_list = false;
    p->has_comma = false;
    p->n_items = 0;
    p->level = 0;
    const tdm_step *s = tdm_answer_step(p);
    switch (s->op) {
    case TDM_STEP_TEXT:
        p->prose_at = p->raw_at;
        break;
    case TDM_STEP_REASONING:
        p->prose_at = p->raw_at;
        p->look_at = p->quote_at = p->pos;
        p->look_is_mid = false;
        p->is_line_start = true;
        p->is_in_fence = false;
        p->ticks = p->open_ticks = p->fence_ticks = 0;
        p->last_byte = '\n';
        break;
    case TDM_STEP_UNTIL:
        switch (s->into) {
        case TDM_INTO_NAME:
            tdm_buf_reset(&p->name);
            break;
        case TDM_INTO_NAME_ID:
        case TDM_INTO_ID:
            tdm_buf_reset(&p->id);
            break;
        case TDM_INTO_KEY:
            tdm_buf_reset(&p->key);
            break;
        case TDM_INTO_HEADER:
            tdm_buf_reset(&p->value);
            break;
        case TDM_INTO_VALUE:
            break;
        }
        p->skips_newline = (s->flags & TDM_STEP_SKIPS_LINE) != 0;
        break;
    case TDM_STEP_ARGUMENTS:
    case TDM_STEP_MATCH:
    case TDM_STEP_JSON:
    case TDM_STEP_PYTHON:
        break;
    }
}

/* 1: alt stands at `at`; 0: it does not; -1: what is there of it fits. */
static int match_one(const tdm_answer_parser *p, const tdm_alt *alt, bool is_strict, size_t at) {
    const char *bytes = tdm_answer_bytes(p);
    const uint8_t *flags = (const uint8_t *)p->flags.data;
    const size_t len = strlen(alt->text);
    const size_t special = alt->special_len != 0 ? alt->special_len : len;
    size_t i = 0;
    for (; i < len && at + i < p->window.len; i++) {
        if (bytes[at + i] != alt->text[i]) {
            return 0;
        }
        if (is_strict && i < special) {
            const uint8_t want = (uint8_t)(TDM_BYTE_SPECIAL | (i == 0 ? TDM_BYTE_FIRST : 0) |
                                           (i + 1 == special ? TDM_BYTE_LAST : 0));
            if ((flags[at + i] & (TDM_BYTE_SPECIAL | TDM_BYTE_FIRST | TDM_BYTE_LAST)) != want) {
                return 0;
            }
        }
    }
    if (i == len) {
        return 1;
    }
    return p->is_finishing ? 0 : -1;
}

int tdm_answer_match(const tdm_answer_parser *p, uint8_t step, size_t at) {
    const tdm_step *s = &p->dialect->steps[step];
    for (unsigned i = 0; i < TDM_ALTS_MAX && s->alts[i].text != NULL; i++) {
        const int fit = match_one(p, &s->alts[i], p->is_strict[step][i], at);
        if (fit != 0) {
            return fit < 0 ? -2 : (int)i;
        }
    }
    return -1;
}

/* The word after `mark` in a harmony header, into *word. */
static size_t header_word(const tdm_buf *header, const char *mark, const char **word) {
    const size_t len = strlen(mark);
    for (size_t i = 0; i + len <= header->len; i++) {
        if (memcmp(header->data + i, mark, len) == 0) {
            size_t end = i + len;
            while (end < header->len && !tdm_literal_is_space(header->data[end]) &&
                   header->data[end] != '<') {
                end++;
            }
            *word = header->data + i + len;
            return end - i - len;
        }
    }
    return 0;
}

static bool word_is(const char *word, size_t len, const char *text) {
    return len == strlen(text) && (len == 0 || memcmp(word, text, len) == 0);
}

/* Where a harmony message goes: its recipient gets a call, analysis is thought, the rest text. */
static tdm_flow take_header(tdm_answer_parser *p, uint8_t next) {
    static const char PREFIX[] = "functions.";
    const char *word = "";
    size_t len = header_word(&p->value, "to=", &word);
    if (len > 0 && !word_is(word, len, "all") && !word_is(word, len, "user")) {
        const size_t skip = len > sizeof PREFIX - 1 && memcmp(word, PREFIX, sizeof PREFIX - 1) == 0
                                ? sizeof PREFIX - 1
                                : 0;
        tdm_buf_reset(&p->name);
        if (!tdm_answer_note(p, tdm_buf_append(&p->name, word + skip, len - skip)) ||
            !tdm_call_name_is_good(p, false)) {
            return TDM_FLOW_FAIL;
        }
        p->has_name = true;
        p->is_open = true;
        tdm_answer_enter(p, next);
        return TDM_FLOW_AGAIN;
    }
    len = header_word(&p->value, "<|channel|>", &word);
    const bool is_thought = word_is(word, len, "analysis");
    if (is_thought && p->keeps_reasoning) {
        tdm_answer_text(p, p->raw_at, p->pos);
    }
    p->raw_at = p->pos;
    p->drops_space = p->drops_space || is_thought;
    tdm_answer_enter(p, is_thought ? p->dialect->thought : 0);
    return TDM_FLOW_AGAIN;
}

/* A name has ended: into which step, or FAIL. */
static tdm_flow take_name(tdm_answer_parser *p, const tdm_step *s, const tdm_alt *alt) {
    if (s->into == TDM_INTO_NAME_ID ? !tdm_call_name_from_id(p) : false) {
        return TDM_FLOW_FAIL;
    }
    while (p->name.len > 0 && tdm_literal_is_space(p->name.data[p->name.len - 1])) {
        p->name.len--;
    }
    if ((alt->flags & TDM_ALT_RECIPIENT) != 0 && word_is(p->name.data, p->name.len, "all")) {
        p->raw_at = p->pos;
        tdm_answer_enter(p, 0);
        return TDM_FLOW_AGAIN;
    }
    if (!tdm_call_name_is_good(p, (s->flags & TDM_STEP_KNOWN) != 0)) {
        return TDM_FLOW_FAIL;
    }
    p->has_name = true;
    p->is_open = true;
    if ((alt->flags & TDM_ALT_BEGIN) != 0) {
        if (!tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '{'))) {
            return TDM_FLOW_MORE;
        }
        p->arguments_safe = p->arguments.len;
        tdm_call_begin(p);
    }
    return TDM_FLOW_AGAIN;
}

static bool end_parameters(tdm_answer_parser *p) {
    if (!tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '}'))) {
        return true;
    }
    p->arguments_safe = p->arguments.len;
    p->has_arguments = true;
    return tdm_call_end(p);
}

tdm_flow tdm_answer_take(tdm_answer_parser *p, const tdm_alt *alt) {
    const tdm_step *s = tdm_answer_step(p);
    const uint8_t was = p->step;
    p->pos += (alt->flags & TDM_ALT_PEEK) != 0 ? 0 : strlen(alt->text);
    if ((alt->flags & TDM_ALT_HEADER) != 0) {
        return take_header(p, alt->next);
    }
    if (s->op == TDM_STEP_UNTIL && (s->into == TDM_INTO_NAME || s->into == TDM_INTO_NAME_ID)) {
        if (take_name(p, s, alt) == TDM_FLOW_FAIL) {
            return TDM_FLOW_FAIL;
        }
        if (p->step != was) { /* text follows */
            return TDM_FLOW_AGAIN;
        }
    }
    if ((alt->flags & TDM_ALT_KEY) != 0 && !tdm_call_open_key(p, alt->flags)) {
        return TDM_FLOW_FAIL;
    }
    if ((alt->flags & TDM_ALT_VALUE) != 0) {
        tdm_call_value_end(p);
    }
    if ((alt->flags & TDM_ALT_END) != 0 && !end_parameters(p)) {
        return TDM_FLOW_FAIL;
    }
    if ((alt->flags & TDM_ALT_CLOSE) != 0) {
        p->raw_at = p->pos;
        p->drops_space = true;
    }
    tdm_answer_enter(p, alt->next);
    return TDM_FLOW_AGAIN;
}

/* Whether all that is left is the beginning of an alternative, or nothing. */
static bool is_cut_mark(const tdm_answer_parser *p, const tdm_step *s) {
    const size_t len = p->window.len - p->pos;
    for (unsigned i = 0; i < TDM_ALTS_MAX && s->alts[i].text != NULL; i++) {
        if (len == 0 || (len < strlen(s->alts[i].text) &&
                         memcmp(s->alts[i].text, tdm_answer_bytes(p) + p->pos, len) == 0)) {
            return true;
        }
    }
    return false;
}

static tdm_flow step_match(tdm_answer_parser *p) {
    const tdm_step *s = tdm_answer_step(p);
    while (p->pos < p->window.len && tdm_literal_is_space(tdm_answer_bytes(p)[p->pos])) {
        p->pos++;
    }
    const int found = p->pos < p->window.len ? tdm_answer_match(p, p->step, p->pos)
                      : p->is_finishing      ? -1
                                             : -2;
    if (found >= 0) {
        return tdm_answer_take(p, &s->alts[found]);
    }
    if (found == -2) {
        return TDM_FLOW_MORE;
    }
    if (s->next == TDM_NO_STEP) {
        if (p->is_finishing && p->is_settled && !p->is_open && is_cut_mark(p, s)) {
            p->raw_at = p->pos = p->window.len;
            tdm_answer_enter(p, 0);
            return TDM_FLOW_AGAIN;
        }
        return TDM_FLOW_FAIL;
    }
    p->pos = p->step_at; /* the white space is the next step's */
    if (p->dialect->steps[s->next].op == TDM_STEP_TEXT) {
        p->raw_at = p->pos;
        p->drops_space = p->drops_space || p->n_calls > 0;
    }
    tdm_answer_enter(p, s->next);
    return TDM_FLOW_AGAIN;
}

/* Whether a harmony header may begin so. */
static bool header_is_plausible(const tdm_buf *header) {
    static const char *const STARTS[] = {"assistant", "to=", "<|channel|>"};
    size_t at = 0;
    while (at < header->len && tdm_literal_is_space(header->data[at])) {
        at++;
    }
    for (size_t i = 0; i < sizeof STARTS / sizeof STARTS[0]; i++) {
        const size_t have = header->len - at;
        const size_t want = strlen(STARTS[i]);
        if (have == 0 || memcmp(header->data + at, STARTS[i], have < want ? have : want) == 0) {
            return true;
        }
    }
    return false;
}

/* One byte of what UNTIL gathers; false: it cannot belong there. */
static bool until_byte(tdm_answer_parser *p, tdm_step_into into, char c, uint8_t flag) {
    tdm_buf *out = into == TDM_INTO_NAME     ? &p->name
                   : into == TDM_INTO_KEY    ? &p->key
                   : into == TDM_INTO_HEADER ? &p->value
                                             : &p->id;
    const size_t max = into == TDM_INTO_HEADER ? TDM_ANSWER_HEADER_MAX : TDM_ANSWER_NAME_MAX;
    const bool is_space = tdm_literal_is_space(c);
    if (into == TDM_INTO_NAME || into == TDM_INTO_NAME_ID || into == TDM_INTO_ID) {
        const bool is_behind = out->len > 0 && tdm_literal_is_space(out->data[out->len - 1]);
        if (is_space && out->len == 0) {
            return true;
        }
        const bool is_word = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                             (unsigned char)c >= 0x80 || (c != '\0' && strchr("_-.:/", c) != NULL);
        if (!(is_space || (is_word && !is_behind)) || (flag & TDM_BYTE_MARK) != 0) {
            return false;
        }
    }
    if (out->len == max || !tdm_answer_note(p, tdm_buf_append_byte(out, c))) {
        return false;
    }
    return into != TDM_INTO_HEADER || header_is_plausible(out);
}

static tdm_flow step_until(tdm_answer_parser *p) {
    const tdm_step *s = tdm_answer_step(p);
    const uint8_t *flags = (const uint8_t *)p->flags.data;
    while (p->pos < p->window.len) {
        const char *bytes = tdm_answer_bytes(p);
        const int found = tdm_answer_match(p, p->step, p->pos);
        if (found >= 0) {
            return tdm_answer_take(p, &s->alts[found]);
        }
        if (found == -2) {
            return TDM_FLOW_MORE;
        }
        if (s->into != TDM_INTO_VALUE) {
            if (!until_byte(p, s->into, bytes[p->pos], flags[p->pos])) {
                return p->status == TDM_OK ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
            }
            p->pos++;
            continue;
        }
        /* a run of the value, up to where an alternative could begin */
        const size_t from = p->pos++;
        while (p->pos < p->window.len && bytes[p->pos] != s->alts[0].text[0] &&
               (s->alts[1].text == NULL || bytes[p->pos] != s->alts[1].text[0])) {
            p->pos++;
        }
        const size_t skip = p->skips_newline && bytes[from] == '\n' ? 1 : 0;
        p->skips_newline = false;
        tdm_call_value(p, bytes + from + skip, p->pos - from - skip);
        if (p->status != TDM_OK) {
            return TDM_FLOW_MORE;
        }
    }
    return p->is_finishing ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
}

static tdm_flow run_step(tdm_answer_parser *p) {
    switch (tdm_answer_step(p)->op) {
    case TDM_STEP_TEXT:
    case TDM_STEP_REASONING:
        return tdm_answer_prose(p);
    case TDM_STEP_MATCH:
        return step_match(p);
    case TDM_STEP_UNTIL:
        return step_until(p);
    case TDM_STEP_ARGUMENTS:
        return tdm_answer_arguments(p);
    case TDM_STEP_JSON:
        return tdm_answer_json(p);
    case TDM_STEP_PYTHON:
        return tdm_answer_python(p);
    }
    return TDM_FLOW_MORE;
}

static void run(tdm_answer_parser *p) {
    while (p->status == TDM_OK) {
        const tdm_flow flow = run_step(p);
        if (flow == TDM_FLOW_MORE) {
            break;
        }
        if (flow == TDM_FLOW_FAIL && p->status == TDM_OK) {
            tdm_call_drop(p);
            tdm_answer_enter(p, 0);
        }
    }
    tdm_call_tell(p);
}

/* Forgets what is settled, when that is most of the window. */
static void compact(tdm_answer_parser *p) {
    const size_t n = p->raw_at;
    if (n == 0 || n < p->window.len - n) {
        return;
    }
    const size_t rest = p->window.len - n;
    if (rest > 0) {
        memmove(p->window.data, p->window.data + n, rest);
        memmove(p->flags.data, p->flags.data + n, rest);
    }
    p->window.len = p->flags.len = rest;
    p->pos -= n;
    p->raw_at = 0;
    p->prose_at -= p->prose_at < n ? p->prose_at : n;
    p->step_at -= p->step_at < n ? p->step_at : n;
    p->look_at -= p->look_at < n ? p->look_at : n;
    p->quote_at -= p->quote_at < n ? p->quote_at : n;
}

/* Whether the special token text is markup of this dialect. */
static bool is_mark(const tdm_answer_parser *p, const char *text, size_t len) {
    for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
        const tdm_alt *alts = p->dialect->steps[s].alts;
        for (unsigned i = 0; i < TDM_ALTS_MAX && alts[i].text != NULL; i++) {
            const size_t n = alts[i].special_len != 0 ? alts[i].special_len : strlen(alts[i].text);
            if ((alts[i].flags & TDM_ALT_PEEK) == 0 && n == len &&
                memcmp(alts[i].text, text, n) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Neither failed nor finished. */
static tdm_status check_is_live(const tdm_answer_parser *p, tdm_error *err) {
    if (p->status != TDM_OK) {
        return tdm_fail(err, p->status, "the answer's parser has failed before");
    }
    return p->is_finishing ? tdm_fail(err, TDM_E_ARG, "the answer's parser is finished") : TDM_OK;
}

static tdm_status append(tdm_answer_parser *p, const char *text, size_t len, bool is_special) {
    if (len == 0) { /* text may be NULL */
        return TDM_OK;
    }
    TDM_TRY(tdm_buf_reserve(&p->window, len));
    TDM_TRY(tdm_buf_reserve(&p->flags, len));
    const size_t at = p->window.len;
    TDM_TRY(tdm_buf_append(&p->window, text, len));
    uint8_t *flags = (uint8_t *)p->flags.data;
    memset(flags + at, is_special ? TDM_BYTE_SPECIAL : 0, len);
    p->flags.len += len;
    if (is_special) {
        if (is_mark(p, text, len)) {
            memset(flags + at, TDM_BYTE_SPECIAL | TDM_BYTE_MARK, len);
        }
        flags[at] |= TDM_BYTE_FIRST;
        flags[at + len - 1] |= TDM_BYTE_LAST;
    }
    return TDM_OK;
}

tdm_status tdm_answer_push(tdm_answer_parser *p, const char *text, size_t len, bool is_special,
                           tdm_answer_sink sink, void *arg, tdm_error *err) {
    p->sink = sink;
    p->sink_arg = arg;
    p->err = err;
    TDM_TRY(check_is_live(p, err));
    if (tdm_answer_note(p, append(p, text, len, is_special))) {
        run(p);
        compact(p);
    }
    p->err = NULL;
    return p->status;
}

/* What is left in the middle of calls. */
static void finish_call(tdm_answer_parser *p) {
    if (p->is_open && p->has_name && p->has_arguments && tdm_call_end(p)) {
        return;
    }
    if (p->status == TDM_OK && (p->is_open || !p->is_settled)) {
        tdm_call_drop(p);
    }
}

tdm_status tdm_answer_finish(tdm_answer_parser *p, tdm_answer_sink sink, void *arg,
                             tdm_error *err) {
    p->sink = sink;
    p->sink_arg = arg;
    p->err = err;
    TDM_TRY(check_is_live(p, err));
    p->is_finishing = true;
    run(p);
    if (p->status == TDM_OK) {
        const tdm_step_op op = tdm_answer_step(p)->op;
        if (op == TDM_STEP_TEXT || op == TDM_STEP_REASONING) {
            tdm_answer_prose_end(p);
        } else {
            finish_call(p);
        }
    }
    p->window.len = p->flags.len = 0;
    p->pos = p->raw_at = 0;
    p->err = NULL;
    return p->status;
}

/* Special tokens as the vocabulary has them, or as is usual. */
static bool is_special_in(const tdm_tokenizer *tokenizer, const char *text, size_t len,
                          bool usually) {
    if (tokenizer == NULL) {
        return usually;
    }
    const int32_t id = tdm_tokenizer_find(tokenizer, text, len);
    return id >= 0 && tdm_tokenizer_kind(tokenizer, id) == TDM_TOKEN_CONTROL;
}

tdm_status tdm_answer_parser_create(tdm_answer_parser **out, const tdm_alloc *alloc,
                                    const tdm_dialect *dialect, const tdm_answer_options *options,
                                    tdm_error *err) {
    const tdm_answer_options none = {0};
    const tdm_answer_options *o = options != NULL ? options : &none;
    tdm_answer_parser *p = tdm_mem_calloc(alloc, 1, sizeof *p);
    *out = NULL;
    if (p == NULL) {
        return tdm_fail_nomem(err, "an answer's parser");
    }
    p->alloc = alloc;
    p->dialect = dialect;
    p->tools =
        tdm_json_is(o->tools, TDM_JSON_ARRAY) && tdm_json_len(o->tools) > 0 ? o->tools : NULL;
    p->keeps_reasoning = o->keeps_reasoning_as_text;
    p->streams = o->streams_arguments;
    tdm_buf *const buffers[] = {&p->window, &p->flags, &p->name, &p->id, &p->key};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        tdm_buf_init(buffers[i], alloc, 0);
    }
    tdm_buf_init(&p->value, alloc, TDM_ANSWER_ARGUMENTS_MAX);
    tdm_buf_init(&p->arguments, alloc, TDM_ANSWER_ARGUMENTS_MAX);
    for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
        const tdm_alt *alts = dialect->steps[s].alts;
        for (unsigned i = 0; i < TDM_ALTS_MAX && alts[i].text != NULL; i++) {
            const size_t n = alts[i].special_len != 0 ? alts[i].special_len : strlen(alts[i].text);
            p->is_strict[s][i] = (alts[i].flags & TDM_ALT_PEEK) != 0
                                     ? (alts[i].flags & TDM_ALT_SPECIAL) != 0 &&
                                           is_special_in(o->tokenizer, alts[i].text, n, true)
                                     : is_special_in(o->tokenizer, alts[i].text, n,
                                                     (alts[i].flags & TDM_ALT_SPECIAL) != 0);
        }
    }
    p->drops_space = o->opens_in_reasoning && !p->keeps_reasoning;
    p->is_gemma_strict = is_special_in(o->tokenizer, "<|\"|>", 5, true);
    tdm_answer_enter(p, o->opens_in_reasoning && dialect->thought != TDM_NO_STEP ? dialect->thought
                                                                                 : dialect->start);
    *out = p;
    return TDM_OK;
}

void tdm_answer_parser_destroy(tdm_answer_parser *p) {
    if (p == NULL) {
        return;
    }
    tdm_buf *const buffers[] = {&p->window, &p->flags, &p->name,     &p->id,
                                &p->key,    &p->value, &p->arguments};
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; i++) {
        tdm_buf_deinit(buffers[i]);
    }
    tdm_mem_free(p->alloc, p, sizeof *p);
}
