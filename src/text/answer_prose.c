/* SPDX-License-Identifier: Apache-2.0
 *
 * Text and thoughts: what streams through until markup comes. White space at the end of what is
 * known is held back, because it goes when a call or a thought stands next to it. Closing tags that
 * a thought only quotes are told apart here (BL05); that can need the rest of a line, or of a
 * fenced block, to be read first. */
#include "text/answer_priv.h"

#include <string.h>

static bool is_thought(const tdm_answer_parser *p) {
    return tdm_answer_step(p)->op == TDM_STEP_REASONING;
}

static void mark_starts(tdm_answer_parser *p) {
    const tdm_step *lists[2] = {tdm_answer_step(p), &p->dialect->steps[0]};
    memset(p->starts, 0, sizeof p->starts);
    for (unsigned l = 0; l < 2; l++) { /* a thought also ends where special tokens open a call */
        for (unsigned i = 0; i < TDM_ALTS_MAX && lists[l]->alts[i].text != NULL; i++) {
            p->starts[(uint8_t)lists[l]->alts[i].text[0]] = true;
        }
    }
    p->has_starts = true;
}

/* Gives out window[raw_at, prose_at). */
static void flush(tdm_answer_parser *p) {
    if (is_thought(p) && !p->keeps_reasoning) {
        while (p->drops_space && p->raw_at < p->prose_at &&
               tdm_literal_is_space(tdm_answer_bytes(p)[p->raw_at])) {
            p->raw_at++;
        }
        if (p->prose_at > p->raw_at) {
            tdm_answer_emit(p, TDM_ANSWER_REASONING, tdm_answer_bytes(p) + p->raw_at,
                            p->prose_at - p->raw_at);
            p->drops_space = false;
        }
    } else {
        while (p->drops_space && !p->has_text && p->raw_at < p->prose_at &&
               tdm_literal_is_space(tdm_answer_bytes(p)[p->raw_at])) {
            p->raw_at++;
        }
        tdm_answer_text(p, p->raw_at, p->prose_at);
    }
    p->raw_at = p->prose_at;
}

/* The fences and backticks of a thought, byte by byte. */
static void note_byte(tdm_answer_parser *p, char c) {
    p->last_byte = (uint8_t)c;
    if (c == '`') {
        p->ticks++;
        return;
    }
    if (p->ticks > 0) {
        if (p->is_line_start && p->ticks >= 3) {
            const bool closes = p->is_in_fence && p->ticks >= p->fence_ticks;
            p->fence_ticks = p->is_in_fence ? p->fence_ticks : p->ticks;
            p->is_in_fence = !closes;
            p->open_ticks = 0;
        } else if (!p->is_in_fence) {
            p->open_ticks = p->open_ticks == 0          ? p->ticks
                            : p->open_ticks == p->ticks ? 0
                                                        : p->open_ticks;
        }
        p->ticks = 0;
        p->is_line_start = false;
    }
    if (c == '\n') {
        p->is_line_start = true;
        p->open_ticks = 0;
    } else if (!tdm_literal_is_space(c)) {
        p->is_line_start = false;
    }
}

typedef enum quoting { QUOTED, UNQUOTED, UNDECIDED } quoting;

/* Looks on in the line for a run of as many backticks as opened the code. */
static quoting look_in_line(tdm_answer_parser *p) {
    const char *bytes = tdm_answer_bytes(p);
    while (p->look_at < p->window.len && bytes[p->look_at] != '\n') {
        size_t end = p->look_at;
        while (end < p->window.len && bytes[end] == '`') {
            end++;
        }
        if (end == p->look_at) {
            p->look_at++;
            continue;
        }
        if (end == p->window.len && !p->is_finishing) {
            return UNDECIDED;
        }
        const bool is_close = end - p->look_at == p->open_ticks;
        p->look_at = end;
        if (is_close) {
            p->quote_at = end;
            return QUOTED;
        }
    }
    return p->look_at < p->window.len || p->is_finishing ? UNQUOTED : UNDECIDED;
}

/* Looks on for the line that ends the fenced block. */
static quoting look_for_fence(tdm_answer_parser *p) {
    const char *bytes = tdm_answer_bytes(p);
    while (p->look_at < p->window.len) {
        if (p->look_is_mid) {
            const char *end = memchr(bytes + p->look_at, '\n', p->window.len - p->look_at);
            p->look_at = end == NULL ? p->window.len : (size_t)(end - bytes) + 1;
            p->look_is_mid = end == NULL;
            continue;
        }
        size_t at = p->look_at;
        while (at < p->window.len && tdm_literal_is_space(bytes[at])) {
            at++;
        }
        const size_t from = at;
        while (at < p->window.len && bytes[at] == '`') {
            at++;
        }
        if (at == p->window.len && at - from < p->fence_ticks) {
            p->look_at = from; /* blanks are behind us; a run this short is soon read again */
            break;
        }
        if (at - from >= p->fence_ticks) {
            p->look_at = p->quote_at = at;
            return QUOTED;
        }
        p->look_at = at;
        p->look_is_mid = true;
    }
    return p->is_finishing ? UNQUOTED : UNDECIDED;
}

/* Whether the closing tag window[at, end) is only quoted. */
static quoting quoting_of(tdm_answer_parser *p, size_t at, size_t end) {
    if (at < p->quote_at) {
        return QUOTED;
    }
    if (p->ticks > 0) { /* a run that ends here; anything but a backtick settles it */
        note_byte(p, '<');
        p->last_byte = '`';
    }
    if (p->is_in_fence || p->open_ticks > 0) {
        if (p->look_at < end) {
            p->look_at = end;
            p->look_is_mid = true;
        }
        return p->is_in_fence ? look_for_fence(p) : look_in_line(p);
    }
    if (p->last_byte == '"' || p->last_byte == '\'') {
        if (end == p->window.len && !p->is_finishing) {
            return UNDECIDED;
        }
        return end < p->window.len && tdm_answer_bytes(p)[end] == (char)p->last_byte ? QUOTED
                                                                                     : UNQUOTED;
    }
    return UNQUOTED;
}

/* A thought or the markup of calls opens here, or an envelope is left out. */
static void open_markup(tdm_answer_parser *p, const tdm_alt *alt, size_t at) {
    const size_t end = at + ((alt->flags & TDM_ALT_PEEK) != 0 ? 0 : strlen(alt->text));
    p->pos = end;
    if ((alt->flags & TDM_ALT_THINK) != 0) {
        flush(p);
        if (p->keeps_reasoning) {
            tdm_answer_text(p, p->raw_at, end);
        }
        p->raw_at = end;
        p->drops_space = true;
    } else if ((alt->flags & TDM_ALT_ENVELOPE) != 0) {
        p->prose_at = at;
        flush(p);
        p->raw_at = end;
    } else {
        flush(p);
        p->is_settled = false;
    }
    tdm_answer_enter(p, alt->next);
}

/* The thought ends at `at`; next is where the answer goes on, behind `len` bytes. */
static void close_thought(tdm_answer_parser *p, size_t at, size_t len, uint8_t next) {
    flush(p);
    p->pos = at + len;
    if (p->keeps_reasoning) {
        tdm_answer_text(p, p->raw_at, p->pos);
    }
    p->raw_at = p->pos;
    p->drops_space = !p->keeps_reasoning;
    tdm_answer_enter(p, next);
}

/* What stands at `at` in a thought. AGAIN: the thought is over; FAIL: nothing. */
static tdm_flow thought_mark(tdm_answer_parser *p, size_t at) {
    const tdm_step *s = tdm_answer_step(p);
    const uint8_t *flags = (const uint8_t *)p->flags.data;
    const int found = tdm_answer_match(p, p->step, at);
    if (found == -2) {
        return TDM_FLOW_MORE;
    }
    if (found >= 0) {
        const tdm_alt *alt = &s->alts[found];
        const size_t len = strlen(alt->text);
        const quoting q = p->is_strict[p->step][found] || (flags[at] & TDM_BYTE_SPECIAL) != 0
                              ? UNQUOTED
                              : quoting_of(p, at, at + len);
        if (q == UNQUOTED) {
            close_thought(p, at, (alt->flags & TDM_ALT_PEEK) != 0 ? 0 : len, alt->next);
        }
        return q == UNQUOTED ? TDM_FLOW_AGAIN : q == QUOTED ? TDM_FLOW_FAIL : TDM_FLOW_MORE;
    }
    const int call = tdm_answer_match(p, 0, at);
    const unsigned call_flags = call >= 0 ? p->dialect->steps[0].alts[call].flags : 0;
    if ((call_flags & TDM_ALT_THINK) != 0 && p->drops_space && p->prose_at == p->raw_at) {
        p->pos = p->raw_at = p->prose_at = at + strlen(p->dialect->steps[0].alts[call].text);
        return TDM_FLOW_AGAIN; /* the prompt opened it already */
    }
    if ((flags[at] & TDM_BYTE_FIRST) == 0) {
        return call == -2 && p->drops_space && p->prose_at == p->raw_at ? TDM_FLOW_MORE
                                                                        : TDM_FLOW_FAIL;
    }
    if (call >= 0 && p->is_strict[0][call] &&
        (call_flags & (TDM_ALT_THINK | TDM_ALT_ENVELOPE)) == 0) {
        close_thought(p, at, 0, 0);
        return TDM_FLOW_AGAIN;
    }
    return call == -2 ? TDM_FLOW_MORE : TDM_FLOW_FAIL;
}

static tdm_flow text_mark(tdm_answer_parser *p, size_t at) {
    const uint8_t *flags = (const uint8_t *)p->flags.data;
    const int found = tdm_answer_match(p, p->step, at);
    if (found < 0) {
        return found == -2 ? TDM_FLOW_MORE : TDM_FLOW_FAIL;
    }
    const tdm_alt *alt = &tdm_answer_step(p)->alts[found];
    const bool is_first = !p->has_text && p->prose_at == p->raw_at;
    if ((alt->flags & TDM_ALT_THINK) != 0 && !is_first && (flags[at] & TDM_BYTE_SPECIAL) == 0) {
        return TDM_FLOW_FAIL;
    }
    const tdm_step *next = &p->dialect->steps[alt->next];
    if ((next->flags & TDM_STEP_BARE) != 0 && (alt->flags & TDM_ALT_PEEK) != 0 &&
        p->tools == NULL && !is_first) {
        return TDM_FLOW_FAIL;
    }
    open_markup(p, alt, at);
    return TDM_FLOW_AGAIN;
}

tdm_flow tdm_answer_prose(tdm_answer_parser *p) {
    const bool thinks = is_thought(p);
    if (!p->has_starts) {
        mark_starts(p);
    }
    while (p->pos < p->window.len) {
        const char c = tdm_answer_bytes(p)[p->pos];
        if (p->starts[(uint8_t)c]) {
            const tdm_flow flow = thinks ? thought_mark(p, p->pos) : text_mark(p, p->pos);
            if (flow == TDM_FLOW_AGAIN) {
                return flow;
            }
            if (flow == TDM_FLOW_MORE) {
                break;
            }
        }
        if (thinks) {
            note_byte(p, c);
        }
        p->pos++;
        if (!tdm_literal_is_space(c)) {
            p->prose_at = p->pos;
        }
    }
    flush(p);
    return TDM_FLOW_MORE;
}

void tdm_answer_prose_end(tdm_answer_parser *p) {
    const bool is_dropped = p->drops_space && !(is_thought(p) && p->keeps_reasoning);
    flush(p);
    if (!is_dropped || p->raw_at < p->prose_at) {
        p->prose_at = p->window.len;
        flush(p);
    }
}
