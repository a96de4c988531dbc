/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that are written as values: JSON objects with a name and arguments, Python calls with
 * keyword arguments, or bare arguments whose name stood in front. The literal machine reads the
 * values; here is what each of them is for. Every byte is looked at once. */
#include "text/answer_priv.h"

#include <string.h>

/* Skips white space; false when nothing is left. */
static bool skip_space(tdm_answer_parser *p) {
    while (p->pos < p->window.len && tdm_literal_is_space(tdm_answer_bytes(p)[p->pos])) {
        p->pos++;
    }
    return p->pos < p->window.len;
}

static tdm_buf *slot_buf(tdm_answer_parser *p) {
    switch (p->slot) {
    case TDM_SLOT_KEY:
        return &p->key;
    case TDM_SLOT_NAME:
        return &p->name;
    case TDM_SLOT_ID:
        return &p->id;
    case TDM_SLOT_ARGUMENTS:
        return p->is_retyped ? &p->value : &p->arguments;
    case TDM_SLOT_ARGUMENTS_TEXT:
    case TDM_SLOT_IGNORED:
        return &p->value;
    }
    return &p->value;
}

/* The literal machine starts on the value at pos. */
static void start_literal(tdm_answer_parser *p, tdm_slot slot, bool decodes) {
    p->slot = slot;
    tdm_buf *out = slot_buf(p);
    if (out != &p->arguments) {
        tdm_buf_reset(out);
    }
    tdm_literal_init(&p->literal, out);
    p->literal.decodes = decodes;
    p->literal.is_gemma = (tdm_answer_step(p)->flags & TDM_STEP_GEMMA) != 0;
    p->literal.is_gemma_strict = p->is_gemma_strict;
    p->part = TDM_PART_LITERAL;
}

/* Runs it; *done when the value is whole. Names are read byte by byte, so that one that is too long
 * fails at the same byte however the answer was cut. */
static tdm_flow run_literal(tdm_answer_parser *p, bool *done) {
    tdm_buf *out = slot_buf(p);
    tdm_literal_result result = TDM_LITERAL_MORE;
    const bool is_short =
        p->slot == TDM_SLOT_KEY || p->slot == TDM_SLOT_NAME || p->slot == TDM_SLOT_ID;
    *done = false;
    while (result == TDM_LITERAL_MORE && p->pos < p->window.len) {
        const size_t rest = p->window.len - p->pos;
        size_t used = 0;
        if (!tdm_answer_note(p, tdm_literal_push(&p->literal, out, tdm_answer_bytes(p) + p->pos,
                                                 (const uint8_t *)p->flags.data + p->pos,
                                                 is_short ? 1 : rest, &used, &result))) {
            return TDM_FLOW_MORE;
        }
        p->pos += used;
        if (is_short && out->len > TDM_ANSWER_NAME_MAX) {
            return TDM_FLOW_FAIL;
        }
    }
    if (out == &p->arguments) {
        p->arguments_safe = p->literal.safe;
        tdm_call_begin(p);
    }
    *done = result == TDM_LITERAL_DONE;
    return *done ? TDM_FLOW_AGAIN : result == TDM_LITERAL_BAD ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
}

/* The calls' markup ends here and the next step begins. */
static tdm_flow leave(tdm_answer_parser *p) {
    const uint8_t next = tdm_answer_step(p)->next;
    if (p->dialect->steps[next].op == TDM_STEP_TEXT) {
        p->raw_at = p->pos;
        p->drops_space = true;
    }
    tdm_answer_enter(p, next);
    return TDM_FLOW_AGAIN;
}

static tdm_flow end_item(tdm_answer_parser *p) {
    if (!tdm_call_end(p)) {
        return p->status == TDM_OK ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
    }
    p->n_items++;
    p->has_comma = false;
    p->part = TDM_PART_ITEM;
    p->step_at = p->pos;
    return TDM_FLOW_AGAIN;
}

/* What is shared between items. AGAIN: c was one of these, or the run of calls is over; MORE: c
 * begins an item, or nothing. */
static tdm_flow between_items(tdm_answer_parser *p, char c) {
    if (c == '[' && !p->is_list && p->n_items == 0) {
        p->is_list = true;
        p->pos++;
        return TDM_FLOW_AGAIN;
    }
    if (p->n_items == 0) {
        return TDM_FLOW_MORE;
    }
    if ((c == ',' || (c == ';' && !p->is_list)) && !p->has_comma) {
        p->has_comma = true;
        p->pos++;
        return TDM_FLOW_AGAIN;
    }
    if (c == ']' && p->is_list) {
        p->pos++;
        return leave(p);
    }
    return TDM_FLOW_MORE;
}

/* c begins no item. */
static tdm_flow no_item(tdm_answer_parser *p) {
    if (p->is_list || p->n_items == 0) {
        return TDM_FLOW_FAIL;
    }
    p->pos = p->step_at; /* what stood behind the last call is the next step's */
    return leave(p);
}

/* ---- the arguments alone ---- */

/* Arguments that came as a string with JSON in it. */
static bool take_arguments_text(tdm_answer_parser *p) {
    bool ok = false;
    const size_t before = p->arguments.len;
    if (!tdm_answer_note(p, tdm_literal_convert(&p->arguments, p->value.data, p->value.len, &ok))) {
        return true;
    }
    p->arguments_safe = p->arguments.len;
    p->has_arguments = ok && p->arguments.data[before] == '{';
    return p->has_arguments;
}

/* The value of the arguments begins with c; false: no arguments begin so. */
static bool start_arguments(tdm_answer_parser *p, char c) {
    p->is_retyped = false;
    if (p->arguments.len > 0 || (c != '{' && c != '"')) {
        return false;
    }
    start_literal(p, c == '{' ? TDM_SLOT_ARGUMENTS : TDM_SLOT_ARGUMENTS_TEXT, c == '"');
    return true;
}

tdm_flow tdm_answer_arguments(tdm_answer_parser *p) {
    bool done = false;
    if (p->part == TDM_PART_START) {
        if (!skip_space(p)) {
            return TDM_FLOW_MORE;
        }
        return start_arguments(p, tdm_answer_bytes(p)[p->pos]) ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    const tdm_flow flow = run_literal(p, &done);
    if (!done) {
        return flow;
    }
    p->has_arguments = true;
    if (p->slot == TDM_SLOT_ARGUMENTS_TEXT && !take_arguments_text(p)) {
        return TDM_FLOW_FAIL;
    }
    return tdm_call_end(p) ? leave(p) : p->status == TDM_OK ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
}

/* ---- JSON ---- */

static bool key_is(const tdm_answer_parser *p, const char *key) {
    return p->key.len == strlen(key) && memcmp(p->key.data, key, p->key.len) == 0;
}

/* The member's value begins with c. */
static tdm_flow json_value(tdm_answer_parser *p, char c) {
    const tdm_step *s = tdm_answer_step(p);
    const bool is_text = c == '"' || c == '\'';
    if ((s->flags & TDM_STEP_NAME_IS_KEY) != 0) {
        tdm_buf_reset(&p->name);
        if (p->has_name || !tdm_answer_note(p, tdm_buf_append(&p->name, p->key.data, p->key.len)) ||
            !tdm_call_name_is_good(p, false)) {
            return TDM_FLOW_FAIL;
        }
        p->has_name = true;
        return start_arguments(p, c) ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (key_is(p, "name") || key_is(p, "tool_name") || (key_is(p, "function") && is_text)) {
        if (p->has_name || !is_text) {
            return TDM_FLOW_FAIL;
        }
        start_literal(p, TDM_SLOT_NAME, true);
        return TDM_FLOW_AGAIN;
    }
    if (key_is(p, "arguments") || key_is(p, "parameters")) {
        if (c == 'n' || c == 'N') {
            start_literal(p, TDM_SLOT_IGNORED, false);
            return TDM_FLOW_AGAIN;
        }
        return start_arguments(p, c) ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (key_is(p, "function") && c == '{' && p->level == 0) {
        p->level = 1;
        p->pos++;
        p->part = TDM_PART_KEY;
        return TDM_FLOW_AGAIN;
    }
    const bool is_id = key_is(p, "id") || key_is(p, "tool_call_id") || key_is(p, "call_id");
    if ((s->flags & TDM_STEP_BARE) != 0 && !is_id && !key_is(p, "type")) {
        return TDM_FLOW_FAIL;
    }
    start_literal(p, is_id && is_text ? TDM_SLOT_ID : TDM_SLOT_IGNORED, is_id && is_text);
    return TDM_FLOW_AGAIN;
}

static tdm_flow json_settle(tdm_answer_parser *p) {
    const bool is_bare = (tdm_answer_step(p)->flags & TDM_STEP_BARE) != 0;
    p->part = TDM_PART_AFTER;
    switch (p->slot) {
    case TDM_SLOT_KEY:
        p->part = TDM_PART_COLON;
        break;
    case TDM_SLOT_NAME:
        if (!tdm_call_name_is_good(p, is_bare)) {
            return TDM_FLOW_FAIL;
        }
        p->has_name = true;
        tdm_call_begin(p);
        break;
    case TDM_SLOT_ARGUMENTS:
        p->has_arguments = true;
        break;
    case TDM_SLOT_ARGUMENTS_TEXT:
        if (!take_arguments_text(p)) {
            return TDM_FLOW_FAIL;
        }
        tdm_call_begin(p);
        break;
    case TDM_SLOT_ID:
    case TDM_SLOT_IGNORED:
        break;
    }
    return TDM_FLOW_AGAIN;
}

static tdm_flow json_close(tdm_answer_parser *p) {
    if (p->level > 0) {
        p->level = 0;
        p->part = TDM_PART_AFTER;
        return TDM_FLOW_AGAIN;
    }
    if (!p->has_name) {
        return TDM_FLOW_FAIL;
    }
    if (!p->has_arguments) {
        if ((tdm_answer_step(p)->flags & TDM_STEP_BARE) != 0) {
            return TDM_FLOW_FAIL;
        }
        if (!tdm_answer_note(p, tdm_buf_append_text(&p->arguments, "{}"))) {
            return TDM_FLOW_MORE;
        }
    }
    return end_item(p);
}

static tdm_flow json_item(tdm_answer_parser *p, char c) {
    const tdm_flow flow = between_items(p, c);
    if (flow != TDM_FLOW_MORE) {
        return flow;
    }
    if (c != '{') {
        return no_item(p);
    }
    p->is_open = true;
    p->pos++;
    p->part = TDM_PART_KEY;
    p->has_comma = false;
    return TDM_FLOW_AGAIN;
}

/* Between the members of an object. */
static tdm_flow json_between(tdm_answer_parser *p, char c) {
    if (p->part == TDM_PART_COLON) {
        p->pos++;
        p->part = TDM_PART_VALUE;
        return c == ':' ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (c == '}') {
        p->pos++;
        return json_close(p);
    }
    if (p->part == TDM_PART_AFTER) {
        p->part = TDM_PART_KEY;
        p->pos += c == ',' ? 1 : 0;
        return c == ',' ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (c != '"' && c != '\'') {
        return TDM_FLOW_FAIL;
    }
    start_literal(p, TDM_SLOT_KEY, true);
    return TDM_FLOW_AGAIN;
}

tdm_flow tdm_answer_json(tdm_answer_parser *p) {
    if (p->part == TDM_PART_LITERAL) {
        bool done = false;
        const tdm_flow flow = run_literal(p, &done);
        return done ? json_settle(p) : flow;
    }
    if (!skip_space(p)) {
        return TDM_FLOW_MORE;
    }
    const char c = tdm_answer_bytes(p)[p->pos];
    switch (p->part) {
    case TDM_PART_START:
    case TDM_PART_ITEM:
        return json_item(p, c);
    case TDM_PART_VALUE:
        return json_value(p, c);
    case TDM_PART_KEY:
    case TDM_PART_COLON:
    case TDM_PART_AFTER:
    case TDM_PART_LITERAL:
    case TDM_PART_NAME:
        break;
    }
    return json_between(p, c);
}

/* ---- Python ---- */

static bool is_word(char c) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

static bool append_word(tdm_answer_parser *p, tdm_buf *out) {
    const char c = tdm_answer_bytes(p)[p->pos];
    p->pos++;
    return out->len < TDM_ANSWER_NAME_MAX && tdm_answer_note(p, tdm_buf_append_byte(out, c));
}

static tdm_flow python_item(tdm_answer_parser *p, char c) {
    const tdm_flow flow = between_items(p, c);
    if (flow != TDM_FLOW_MORE) {
        return flow;
    }
    if (!is_word(c)) {
        return no_item(p);
    }
    p->is_open = true;
    tdm_buf_reset(&p->name);
    p->part = TDM_PART_NAME;
    p->has_comma = false;
    return TDM_FLOW_AGAIN;
}

static tdm_flow python_name(tdm_answer_parser *p, char c) {
    static const char SUFFIX[] = ".call";
    if (is_word(c) || c == '.' || c == '-') {
        return append_word(p, &p->name) ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (c != '(') {
        return TDM_FLOW_FAIL;
    }
    p->pos++;
    const size_t n = sizeof SUFFIX - 1;
    if (p->name.len > n && memcmp(p->name.data + p->name.len - n, SUFFIX, n) == 0) {
        p->name.len -= n;
    }
    if (!tdm_call_name_is_good(p, (tdm_answer_step(p)->flags & TDM_STEP_BARE) != 0)) {
        return TDM_FLOW_FAIL;
    }
    p->has_name = true;
    if (!tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '{'))) {
        return TDM_FLOW_MORE;
    }
    p->arguments_safe = p->arguments.len;
    tdm_call_begin(p);
    p->part = TDM_PART_KEY;
    tdm_buf_reset(&p->key);
    return TDM_FLOW_AGAIN;
}

/* The value of p->key begins with c. */
static tdm_flow python_value(tdm_answer_parser *p, char c) {
    const bool is_first = p->arguments.len <= 1;
    p->types = tdm_call_types(p, p->key.data, p->key.len);
    p->is_retyped = (p->types & (TDM_TYPE_STRING | TDM_TYPE_UNKNOWN)) == 0;
    p->is_quoted = c == '"' || c == '\'';
    if (!tdm_answer_note(p, tdm_buf_append_text(&p->arguments, is_first ? "\"" : ", \"")) ||
        !tdm_answer_note(p, tdm_literal_escape(&p->arguments, p->key.data, p->key.len)) ||
        !tdm_answer_note(p, tdm_buf_append_text(&p->arguments, "\": "))) {
        return TDM_FLOW_MORE;
    }
    p->arguments_safe = p->arguments.len;
    start_literal(p, TDM_SLOT_ARGUMENTS, p->is_retyped && p->is_quoted);
    return TDM_FLOW_AGAIN;
}

static tdm_flow python_settle(tdm_answer_parser *p) {
    if (p->is_retyped && p->is_quoted) {
        tdm_call_put_typed(p);
    } else if (p->is_retyped) {
        (void)tdm_answer_note(p, tdm_buf_append(&p->arguments, p->value.data, p->value.len));
    }
    p->is_retyped = false;
    p->arguments_safe = p->arguments.len;
    p->part = TDM_PART_AFTER;
    tdm_buf_reset(&p->key);
    return TDM_FLOW_AGAIN;
}

static tdm_flow python_close(tdm_answer_parser *p) {
    p->pos++;
    if (!tdm_answer_note(p, tdm_buf_append_byte(&p->arguments, '}'))) {
        return TDM_FLOW_MORE;
    }
    return end_item(p);
}

/* Between the arguments of a call. */
static tdm_flow python_between(tdm_answer_parser *p, char c) {
    if (p->part == TDM_PART_COLON || (p->part == TDM_PART_KEY && p->key.len > 0 && c == '=')) {
        p->pos++;
        p->part = TDM_PART_VALUE;
        return c == '=' ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    if (c == ')' && p->key.len == 0) {
        return python_close(p);
    }
    if (p->part == TDM_PART_AFTER) {
        p->part = TDM_PART_KEY;
        p->pos += c == ',' ? 1 : 0;
        return c == ',' ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
    }
    return is_word(c) && append_word(p, &p->key) ? TDM_FLOW_AGAIN : TDM_FLOW_FAIL;
}

tdm_flow tdm_answer_python(tdm_answer_parser *p) {
    if (p->part == TDM_PART_LITERAL) {
        bool done = false;
        const tdm_flow flow = run_literal(p, &done);
        return done ? python_settle(p) : flow;
    }
    if (p->pos == p->window.len) {
        return TDM_FLOW_MORE;
    }
    if (tdm_literal_is_space(tdm_answer_bytes(p)[p->pos])) {
        if (p->part == TDM_PART_NAME) {
            return TDM_FLOW_FAIL;
        }
        if (p->part == TDM_PART_KEY && p->key.len > 0) {
            p->part = TDM_PART_COLON;
        }
        return skip_space(p) ? TDM_FLOW_AGAIN : TDM_FLOW_MORE;
    }
    const char c = tdm_answer_bytes(p)[p->pos];
    switch (p->part) {
    case TDM_PART_START:
    case TDM_PART_ITEM:
        return python_item(p, c);
    case TDM_PART_NAME:
        return python_name(p, c);
    case TDM_PART_VALUE:
        return python_value(p, c);
    case TDM_PART_KEY:
    case TDM_PART_COLON:
    case TDM_PART_AFTER:
    case TDM_PART_LITERAL:
        break;
    }
    return python_between(p, c);
}
