/* SPDX-License-Identifier: Apache-2.0
 *
 * Where added tokens stand in a text. Two rules: leftmost, then longest (tokenizer.json, with its
 * flags), and longest token first over the whole text (GGUF, as the peer does). A special token
 * counts only where all of its spelling is trusted; one that does not count hides no other token.
 */
#include "text/tokenizer_priv.h"

#include <string.h>

tdm_status tdm_matcher_init(tdm_matcher *matcher, tdm_arena *arena, const tdm_added_token *tokens,
                            size_t n, bool wants_normalized, bool is_longest_first) {
    size_t bytes = 0;
    memset(matcher, 0, sizeof(*matcher));
    for (size_t i = 0; i < n; i++) {
        bytes += tokens[i].is_normalized == wants_normalized ? tokens[i].len : 0;
    }
    matcher->tokens = tokens;
    matcher->is_longest_first = is_longest_first;
    TDM_TRY(tdm_trie_init(&matcher->trie, arena, bytes));
    for (size_t i = 0; i < n; i++) {
        if (tokens[i].is_normalized == wants_normalized && tokens[i].len > 0 &&
            tdm_trie_put(&matcher->trie, tokens[i].text, tokens[i].len, (int32_t)i)) {
            matcher->n_tokens++;
            matcher->len_max = tokens[i].len > matcher->len_max ? tokens[i].len : matcher->len_max;
        }
    }
    return TDM_OK;
}

static bool is_range_trusted(const tdm_trust *trust, size_t begin, size_t end) {
    size_t low = 0;
    size_t high = trust->n;
    if (trust->n == 0) {
        return trust->is_all;
    }
    while (low < high) { /* the first segment that ends behind begin */
        const size_t mid = low + (high - low) / 2;
        if (trust->ends[mid] <= begin) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    for (; low < trust->n; low++) {
        if (!trust->is_trusted[low]) {
            return false;
        }
        if (trust->ends[low] >= end) {
            return true;
        }
    }
    return true;
}

static bool is_allowed(const tdm_added_token *token, const tdm_text_view *view,
                       const tdm_trust *trust, size_t begin, size_t end) {
    if (!token->is_special) {
        return true;
    }
    const tdm_origin origin = tdm_text_origin(view, begin, end);
    return is_range_trusted(trust, origin.begin, origin.end);
}

/* The longest token, of len_limit bytes at most, at pos; -1: none. */
static int32_t longest_at(const tdm_matcher *m, const tdm_text_view *view, const tdm_trust *trust,
                          size_t pos, size_t len_limit) {
    int32_t best = -1;
    uint32_t node = 0;
    for (size_t i = pos; i < view->len && i - pos < len_limit; i++) {
        node = tdm_trie_step(&m->trie, node, (uint8_t)view->data[i]);
        if (node == 0) {
            break;
        }
        const int32_t value = m->trie.nodes[node].value;
        if (value >= 0 && is_allowed(&m->tokens[value], view, trust, pos, i + 1)) {
            best = value;
        }
    }
    return best;
}

/* Whether the last character of data[0..end) is one of a word. */
static bool ends_with_word(const char *data, size_t end) {
    uint32_t cp = 0;
    bool is_ok = false;
    size_t begin = end;
    while (begin > 0 && end - begin < 4) {
        begin--;
        if (((uint8_t)data[begin] & 0xC0) != 0x80) {
            break;
        }
    }
    return begin < end && tdm_utf8_decode(data + begin, end - begin, &cp, &is_ok) == end - begin &&
           is_ok && tdm_unicode_is_word(cp);
}

static bool starts_with_word(const char *data, size_t len) {
    uint32_t cp = 0;
    bool is_ok = false;
    if (len == 0) {
        return false;
    }
    (void)tdm_utf8_decode(data, len, &cp, &is_ok);
    return is_ok && tdm_unicode_is_word(cp);
}

/* Start of the white space that ends at end, not in front of floor. */
static size_t spaces_before(const char *data, size_t floor, size_t end) {
    while (end > floor) {
        uint32_t cp = 0;
        bool is_ok = false;
        size_t begin = end - 1;
        while (begin > floor && end - begin < 4 && ((uint8_t)data[begin] & 0xC0) == 0x80) {
            begin--;
        }
        if (tdm_utf8_decode(data + begin, end - begin, &cp, &is_ok) != end - begin || !is_ok ||
            !tdm_unicode_is_space(cp)) {
            break;
        }
        end = begin;
    }
    return end;
}

static size_t spaces_behind(const char *data, size_t len, size_t pos) {
    while (pos < len) {
        uint32_t cp = 0;
        bool is_ok = false;
        const size_t n = tdm_utf8_decode(data + pos, len - pos, &cp, &is_ok);
        if (!is_ok || !tdm_unicode_is_space(cp)) {
            break;
        }
        pos += n;
    }
    return pos;
}

static tdm_status run_leftmost(const tdm_matcher *m, const tdm_text_view *view,
                               const tdm_trust *trust, tdm_buf *matches) {
    size_t taken = 0; /* end of the last match that counted */
    size_t pos = 0;
    while (pos < view->len) {
        const int32_t value = m->trie.first[(uint8_t)view->data[pos]] != 0
                                  ? longest_at(m, view, trust, pos, SIZE_MAX)
                                  : -1;
        if (value < 0) {
            pos++;
            continue;
        }
        const tdm_added_token *token = &m->tokens[value];
        tdm_match match = {pos, pos + token->len, token->id};
        pos = match.end;
        if (token->is_single_word &&
            (ends_with_word(view->data, match.begin) ||
             starts_with_word(view->data + match.end, view->len - match.end))) {
            continue;
        }
        if (token->is_left_stripped) {
            const size_t floor = taken < match.begin ? taken : match.begin;
            match.begin = spaces_before(view->data, floor, match.begin);
        }
        if (token->is_right_stripped) {
            match.end = spaces_behind(view->data, view->len, match.end);
        }
        match.begin = match.begin < taken ? taken : match.begin;
        match.end = match.end < match.begin ? match.begin : match.end;
        taken = match.end;
        TDM_TRY(tdm_buf_append(matches, &match, sizeof(match)));
    }
    return TDM_OK;
}

typedef struct spot { /* a place where some token begins */
    uint32_t pos;
    uint32_t len; /* of the longest one that still fits */
    int32_t id;   /* of the one that was chosen; -1: none yet */
    uint32_t next_free;
} spot;

/* Marks in lens every place with the length of its longest token, then takes the tokens of the
 * greatest length from left to right, cuts what overlaps, and goes on with the next length. */
static tdm_status run_longest(const tdm_matcher *m, const tdm_text_view *view,
                              const tdm_trust *trust, tdm_buf *spots, tdm_buf *matches) {
    uint32_t len = 0;
    for (size_t pos = 0; pos < view->len; pos++) {
        const int32_t value = m->trie.first[(uint8_t)view->data[pos]] != 0
                                  ? longest_at(m, view, trust, pos, SIZE_MAX)
                                  : -1;
        if (value >= 0) {
            const spot s = {(uint32_t)pos, m->tokens[value].len, -1, 0};
            len = s.len > len ? s.len : len;
            TDM_TRY(tdm_buf_append(spots, &s, sizeof(s)));
        }
    }
    spot *s = (spot *)(void *)spots->data;
    size_t n = spots->len / sizeof(*s);
    while (len > 0) {
        uint32_t next_len = 0;
        uint32_t taken = 0; /* end of the last chosen token on the left */
        size_t kept = 0;
        uint32_t limit = 0;
        size_t limit_idx = 0; /* the next chosen one on the right, at or behind idx */
        for (size_t idx = 0; idx < n; idx++) {
            spot here = s[idx];
            if (here.id >= 0) { /* chosen in an earlier round */
                taken = here.pos + here.len;
                s[kept++] = here;
                continue;
            }
            if (here.pos < taken) {
                continue; /* covered */
            }
            for (limit_idx = limit_idx > idx ? limit_idx : idx + 1;
                 limit_idx < n && s[limit_idx].id < 0;) {
                limit_idx++;
            }
            limit = (limit_idx < n ? s[limit_idx].pos : (uint32_t)view->len) - here.pos;
            if (here.len > limit) { /* a longer one stands in the way: what still fits? */
                const int32_t value = longest_at(m, view, trust, here.pos, limit);
                here.len = value >= 0 ? m->tokens[value].len : 0;
            }
            if (here.len == len) {
                const int32_t value = longest_at(m, view, trust, here.pos, here.len);
                here.id = m->tokens[value].id;
                taken = here.pos + here.len;
            } else {
                next_len = here.len > next_len ? here.len : next_len;
            }
            if (here.len > 0) {
                s[kept++] = here;
            }
        }
        n = kept;
        len = next_len;
    }
    size_t taken = 0;
    for (size_t idx = 0; idx < n; idx++) {
        tdm_match match = {s[idx].pos, (size_t)s[idx].pos + s[idx].len, s[idx].id};
        const tdm_added_token *token =
            &m->tokens[longest_at(m, view, trust, s[idx].pos, s[idx].len)];
        if (token->is_left_stripped) {
            match.begin = spaces_before(view->data, taken, match.begin);
        }
        if (token->is_right_stripped) {
            const size_t floor = idx + 1 < n ? s[idx + 1].pos : view->len;
            match.end = spaces_behind(view->data, floor, match.end);
        }
        taken = match.end;
        TDM_TRY(tdm_buf_append(matches, &match, sizeof(match)));
    }
    return TDM_OK;
}

tdm_status tdm_matcher_run(const tdm_matcher *m, const tdm_text_view *view, const tdm_trust *trust,
                           tdm_buf *matches) {
    tdm_buf_reset(matches);
    if (m->n_tokens == 0) {
        return TDM_OK;
    }
    if (!m->is_longest_first) {
        return run_leftmost(m, view, trust, matches);
    }
    tdm_buf spots;
    tdm_buf_init(&spots, matches->alloc, 0);
    const tdm_status status = run_longest(m, view, trust, &spots, matches);
    tdm_buf_deinit(&spots);
    return status;
}
