/* SPDX-License-Identifier: Apache-2.0
 *
 * A state machine over bytes with an explicit stack of brackets. Numbers and words are copied as
 * they come and settled in place when they end; a comma is final when an element follows it. `safe`
 * says how far the output is past both. */
#include "text/answer_literal.h"

#include "base/utf8.h"

#include <string.h>

typedef enum lit_state {
    ST_VALUE,          /* a value must come */
    ST_VALUE_OR_CLOSE, /* or the bracket closes */
    ST_KEY_OR_CLOSE,
    ST_COLON,
    ST_AFTER, /* behind a value in a container */
    ST_STRING,
    ST_ESCAPE,
    ST_HEX,
    ST_TOKEN, /* number or word */
    ST_BARE_KEY,
    ST_GEMMA_OPEN,
    ST_GEMMA_STRING,
    ST_DONE
} lit_state;

static const char GEMMA_QUOTE[] = "<|\"|>";
#define GEMMA_QUOTE_LEN 5u

void tdm_literal_init(tdm_literal *lit, const tdm_buf *out) {
    *lit = (tdm_literal){.state = ST_VALUE, .safe = out->len};
}

static bool is_decoding(const tdm_literal *lit) {
    return lit->decodes && lit->depth == 0;
}

tdm_status tdm_literal_escape(tdm_buf *out, const char *bytes, size_t n) {
    size_t from = 0;
    if (n == 0) { /* bytes may be NULL */
        return TDM_OK;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        TDM_TRY(tdm_buf_append(out, bytes + from, i - from));
        from = i + 1;
        switch (c) {
        case '"':
            TDM_TRY(tdm_buf_append_text(out, "\\\""));
            break;
        case '\\':
            TDM_TRY(tdm_buf_append_text(out, "\\\\"));
            break;
        case '\n':
            TDM_TRY(tdm_buf_append_text(out, "\\n"));
            break;
        case '\r':
            TDM_TRY(tdm_buf_append_text(out, "\\r"));
            break;
        case '\t':
            TDM_TRY(tdm_buf_append_text(out, "\\t"));
            break;
        default:
            TDM_TRY(tdm_buf_printf(out, "\\u%04x", (unsigned)c));
            break;
        }
    }
    return tdm_buf_append(out, bytes + from, n - from);
}

static tdm_status put_bytes(const tdm_literal *lit, tdm_buf *out, const char *bytes, size_t n) {
    return is_decoding(lit) ? tdm_buf_append(out, bytes, n) : tdm_literal_escape(out, bytes, n);
}

static tdm_status put_cp(const tdm_literal *lit, tdm_buf *out, uint32_t cp) {
    char bytes[4];
    if (cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000)) {
        cp = TDM_UTF8_REPLACEMENT;
    }
    return put_bytes(lit, out, bytes, tdm_utf8_encode(cp, bytes));
}

/* A waiting half of a pair found no other half. */
static tdm_status drop_high(tdm_literal *lit, tdm_buf *out) {
    if (lit->high == 0) {
        return TDM_OK;
    }
    lit->high = 0;
    return put_cp(lit, out, TDM_UTF8_REPLACEMENT);
}

/* The escape \u, \x, \U or octal stands for hex. Valid JSON keeps its own spelling. */
static tdm_status end_hex(tdm_literal *lit, tdm_buf *out) {
    const uint32_t cp = lit->hex;
    const bool keeps = lit->escape == 'u' && !is_decoding(lit);
    lit->state = ST_STRING;
    if (lit->high != 0 && cp >= 0xdc00 && cp < 0xe000) {
        const uint32_t high = lit->high;
        lit->high = 0;
        if (keeps) {
            return tdm_buf_printf(out, "\\u%.4s\\u%.4s", lit->high_digits, lit->digits);
        }
        return put_cp(lit, out, 0x10000 + ((high - 0xd800) << 10) + (cp - 0xdc00));
    }
    TDM_TRY(drop_high(lit, out));
    if (cp >= 0xd800 && cp < 0xdc00) {
        lit->high = cp;
        memcpy(lit->high_digits, lit->digits, sizeof lit->digits);
        return TDM_OK;
    }
    if (keeps && !(cp >= 0xdc00 && cp < 0xe000)) {
        return tdm_buf_printf(out, "\\u%.4s", lit->digits);
    }
    return put_cp(lit, out, cp);
}

static tdm_status step_escape(tdm_literal *lit, tdm_buf *out, char c) {
    static const char NAMES[] = "\"\\/bfnrt'av";
    static const char VALUES[] = "\"\\/\b\f\n\r\t'\a\v";
    const char *at = c != '\0' ? strchr(NAMES, c) : NULL;
    lit->state = ST_STRING;
    if (c == 'u' || c == 'x' || c == 'U') {
        lit->escape = (uint8_t)c;
        lit->n_hex = c == 'u' ? 4 : c == 'x' ? 2 : 8;
        lit->hex = 0;
        lit->state = ST_HEX;
        return TDM_OK;
    }
    TDM_TRY(drop_high(lit, out));
    if (c == '\n') { /* Python: a line goes on */
        return TDM_OK;
    }
    if (at == NULL) { /* no escape in either language: the backslash is meant */
        TDM_TRY(put_bytes(lit, out, "\\", 1));
        return put_bytes(lit, out, &c, 1);
    }
    if (!is_decoding(lit) && (size_t)(at - NAMES) < 8) {
        const char spelled[2] = {'\\', c};
        return tdm_buf_append(out, spelled, 2);
    }
    return put_bytes(lit, out, &VALUES[at - NAMES], 1);
}

static bool hex_digit(char c, uint32_t *out) {
    if (c >= '0' && c <= '9') {
        *out = (uint32_t)(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
        *out = (uint32_t)((c | 0x20) - 'a' + 10);
    } else {
        return false;
    }
    return true;
}

/* A value has ended. */
static void end_value(tdm_literal *lit, const tdm_buf *out) {
    lit->has_comma = false;
    if (lit->is_key) {
        lit->is_key = false;
        lit->state = ST_COLON;
    } else {
        lit->state = lit->depth == 0 ? ST_DONE : ST_AFTER;
    }
    lit->safe = out->len;
}

static tdm_status end_string(tdm_literal *lit, tdm_buf *out) {
    TDM_TRY(drop_high(lit, out));
    if (!is_decoding(lit)) {
        TDM_TRY(tdm_buf_append_byte(out, '"'));
    }
    end_value(lit, out);
    return TDM_OK;
}

static bool is_number_char(char c) {
    return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E' ||
           c == '_';
}

static size_t digits_at(const char *t, size_t n, size_t i) {
    while (i < n && t[i] >= '0' && t[i] <= '9') {
        i++;
    }
    return i;
}

/* Whether t is a number; *lead and *tail: a zero is missing before or after its point. */
static bool scan_number(const char *t, size_t n, size_t *point, bool *lacks_int, bool *lacks_frac) {
    size_t i = n > 0 && (t[0] == '-' || t[0] == '+') ? 1 : 0;
    const size_t first = i;
    i = digits_at(t, n, i);
    const size_t n_int = i - first;
    if (n_int > 1 && t[first] == '0') {
        return false;
    }
    size_t n_frac = 0;
    *point = n;
    if (i < n && t[i] == '.') {
        *point = i;
        const size_t from = i + 1;
        i = digits_at(t, n, from);
        n_frac = i - from;
    }
    if (n_int == 0 && n_frac == 0) {
        return false;
    }
    *lacks_int = n_int == 0;
    *lacks_frac = *point < n && n_frac == 0;
    if (i < n && (t[i] == 'e' || t[i] == 'E')) {
        i++;
        i += i < n && (t[i] == '-' || t[i] == '+') ? 1 : 0;
        const size_t from = i;
        i = digits_at(t, n, from);
        if (i == from) {
            return false;
        }
    }
    return i == n;
}

/* Opens a gap of one zero in front of out->data[at]. */
static tdm_status insert_zero(tdm_buf *out, size_t at) {
    TDM_TRY(tdm_buf_append_byte(out, '0'));
    memmove(out->data + at + 1, out->data + at, out->len - 1 - at);
    out->data[at] = '0';
    return TDM_OK;
}

/* The token at the end of out, made JSON in place. */
static tdm_status end_token(tdm_literal *lit, tdm_buf *out, bool *ok) {
    static const char *const WORDS[][2] = {{"true", "true"}, {"false", "false"}, {"null", "null"},
                                           {"True", "true"}, {"False", "false"}, {"None", "null"}};
    char *t = out->data + lit->token;
    const size_t n = out->len - lit->token;
    size_t point = 0;
    bool lacks_int = false;
    bool lacks_frac = false;
    *ok = false;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (!lit->is_key && strlen(WORDS[i][0]) == n && memcmp(t, WORDS[i][0], n) == 0) {
            memcpy(t, WORDS[i][1], n);
            *ok = true;
        }
    }
    if (!*ok) {
        if (!scan_number(t, n, &point, &lacks_int, &lacks_frac)) {
            return TDM_OK;
        }
        *ok = true;
        if (lacks_frac) {
            TDM_TRY(insert_zero(out, lit->token + point + 1));
        }
        if (lacks_int) {
            TDM_TRY(insert_zero(out, lit->token + point));
        }
        if (out->data[lit->token] == '+') {
            memmove(out->data + lit->token, out->data + lit->token + 1, out->len - lit->token - 1);
            out->len--;
        }
        if (lit->is_key) { /* Python: a number as a key */
            TDM_TRY(insert_zero(out, lit->token));
            out->data[lit->token] = '"';
            TDM_TRY(tdm_buf_append_byte(out, '"'));
        }
    }
    end_value(lit, out);
    return TDM_OK;
}

static tdm_status open_bracket(tdm_literal *lit, tdm_buf *out, char c, bool *ok) {
    if (lit->depth == TDM_LITERAL_DEPTH_MAX) {
        return TDM_E_LIMIT;
    }
    TDM_TRY(tdm_buf_append_byte(out, c == '(' ? '[' : c));
    lit->stack[lit->depth++] = (uint8_t)c;
    lit->state = c == '{' ? ST_KEY_OR_CLOSE : ST_VALUE_OR_CLOSE;
    lit->has_comma = false;
    lit->safe = out->len;
    *ok = true;
    return TDM_OK;
}

static tdm_status close_bracket(tdm_literal *lit, tdm_buf *out, char c, bool *ok) {
    const char open = lit->depth > 0 ? (char)lit->stack[lit->depth - 1] : '\0';
    *ok = (open == '{' && c == '}') || (open == '[' && c == ']') || (open == '(' && c == ')');
    if (!*ok) {
        return TDM_OK;
    }
    if (lit->has_comma) {
        out->len = lit->safe; /* a trailing comma and the space behind it */
    }
    lit->depth--;
    TDM_TRY(tdm_buf_append_byte(out, c == ')' ? ']' : c));
    end_value(lit, out);
    return TDM_OK;
}

static tdm_status open_string(tdm_literal *lit, tdm_buf *out, uint8_t state, char quote) {
    lit->quote = (uint8_t)quote;
    lit->state = state;
    if (!is_decoding(lit)) {
        TDM_TRY(tdm_buf_append_byte(out, '"'));
    }
    lit->has_comma = false;
    lit->safe = out->len;
    return TDM_OK;
}

/* A value or a key begins at c. */
static tdm_status begin_value(tdm_literal *lit, tdm_buf *out, char c, uint8_t flag, bool *ok) {
    *ok = true;
    if (c == '"' || (c == '\'' && !lit->is_gemma)) {
        return open_string(lit, out, ST_STRING, c);
    }
    if (lit->is_gemma && c == '<' && (!lit->is_gemma_strict || (flag & TDM_BYTE_FIRST) != 0)) {
        lit->n_matched = 1;
        lit->state = ST_GEMMA_OPEN;
        return TDM_OK;
    }
    if (!lit->is_key && (c == '{' || c == '[' || (c == '(' && !lit->is_gemma))) {
        return open_bracket(lit, out, c, ok);
    }
    if (lit->is_gemma && lit->is_key && (unsigned char)c > ' ' && strchr("{}[]:,<>", c) == NULL) {
        TDM_TRY(open_string(lit, out, ST_BARE_KEY, '\0'));
        return tdm_literal_escape(out, &c, 1);
    }
    *ok = is_number_char(c) || (!lit->is_key && c != '\0' && strchr("tfnTFN", c) != NULL);
    if (*ok) {
        lit->token = out->len;
        lit->state = ST_TOKEN;
        lit->has_comma = false;
        lit->safe = out->len;
        return tdm_buf_append_byte(out, c);
    }
    return TDM_OK;
}

/* Between tokens. */
static tdm_status step_between(tdm_literal *lit, tdm_buf *out, char c, uint8_t flag, bool *ok) {
    const char open = lit->depth > 0 ? (char)lit->stack[lit->depth - 1] : '\0';
    *ok = true;
    if (tdm_literal_is_space(c)) {
        TDM_TRY(lit->depth == 0 ? TDM_OK : tdm_buf_append_byte(out, c));
        lit->safe = lit->has_comma ? lit->safe : out->len;
        return TDM_OK;
    }
    switch (lit->state) {
    case ST_COLON:
        *ok = c == ':';
        lit->state = ST_VALUE;
        TDM_TRY(tdm_buf_append_byte(out, c));
        lit->safe = out->len;
        return TDM_OK;
    case ST_AFTER:
        if (c == ',') {
            lit->has_comma = true; /* safe stays in front of it */
            lit->state = open == '{' ? ST_KEY_OR_CLOSE : ST_VALUE_OR_CLOSE;
            return tdm_buf_append_byte(out, c);
        }
        return close_bracket(lit, out, c, ok);
    case ST_KEY_OR_CLOSE:
        if (c == '}') {
            return close_bracket(lit, out, c, ok);
        }
        lit->is_key = true;
        return begin_value(lit, out, c, flag, ok);
    case ST_VALUE_OR_CLOSE:
        if (c == ']' || c == ')') {
            return close_bracket(lit, out, c, ok);
        }
        return begin_value(lit, out, c, flag, ok);
    default:
        return begin_value(lit, out, c, flag, ok);
    }
}

/* The closing or opening <|"|>, or text that only looked like it. *took: c belongs to it. */
static tdm_status step_gemma(tdm_literal *lit, tdm_buf *out, char c, uint8_t flag, bool *ok,
                             bool *took) {
    const bool may = !lit->is_gemma_strict || (flag & TDM_BYTE_SPECIAL) != 0;
    const bool is_next =
        lit->n_matched < GEMMA_QUOTE_LEN && c == GEMMA_QUOTE[lit->n_matched] && may;
    *ok = true;
    *took = true;
    if (is_next) {
        lit->n_matched++;
        if (lit->n_matched < GEMMA_QUOTE_LEN) {
            return TDM_OK;
        }
        lit->n_matched = 0;
        return lit->state == ST_GEMMA_OPEN ? open_string(lit, out, ST_GEMMA_STRING, '\0')
                                           : end_string(lit, out);
    }
    if (lit->state == ST_GEMMA_OPEN) {
        *ok = false;
        return TDM_OK;
    }
    if (lit->n_matched > 0) { /* only the first byte of the quote can begin one */
        TDM_TRY(put_bytes(lit, out, GEMMA_QUOTE, lit->n_matched));
        lit->n_matched = 0;
        lit->safe = out->len;
        *took = false;
        return TDM_OK;
    }
    *ok = (flag & TDM_BYTE_MARK) == 0;
    TDM_TRY(put_bytes(lit, out, &c, 1));
    lit->safe = out->len;
    return TDM_OK;
}

static tdm_status step_hex(tdm_literal *lit, tdm_buf *out, char c, bool *ok) {
    uint32_t digit = 0;
    *ok = hex_digit(c, &digit);
    if (!*ok) {
        return TDM_OK;
    }
    lit->digits[(4u - lit->n_hex) & 3u] = c;
    lit->hex = (lit->hex & 0x0fffffffu) << 4 | digit;
    lit->n_hex--;
    return lit->n_hex == 0 ? end_hex(lit, out) : TDM_OK;
}

/* As many bytes of a string as need no thought. */
static size_t plain_run(const tdm_literal *lit, const char *bytes, const uint8_t *flags, size_t n) {
    size_t i = 0;
    while (i < n && (unsigned char)bytes[i] >= 0x20 && bytes[i] != '\\' &&
           bytes[i] != (char)lit->quote && bytes[i] != '"' &&
           (flags == NULL || (flags[i] & TDM_BYTE_MARK) == 0)) {
        i++;
    }
    return i;
}

static tdm_status step_string(tdm_literal *lit, tdm_buf *out, char c, uint8_t flag, bool *ok) {
    *ok = (flag & TDM_BYTE_MARK) == 0;
    if (!*ok) {
        return TDM_OK;
    }
    if (c == (char)lit->quote) {
        return end_string(lit, out);
    }
    if (c == '\\') {
        lit->state = ST_ESCAPE;
        return TDM_OK;
    }
    TDM_TRY(drop_high(lit, out));
    TDM_TRY(put_bytes(lit, out, &c, 1));
    lit->safe = out->len;
    return TDM_OK;
}

static tdm_status step_bare_key(tdm_literal *lit, tdm_buf *out, char c, bool *ok, bool *took) {
    *ok = c == '\0' || strchr("{}[],<>\"\n", c) == NULL;
    *took = true;
    if (c == ':') {
        *took = false;
        return end_string(lit, out);
    }
    return *ok ? tdm_literal_escape(out, &c, 1) : TDM_OK;
}

/* One byte. *took: it was used; a byte that is not leaves another state or the end behind. */
static tdm_status step_byte(tdm_literal *lit, tdm_buf *out, char c, uint8_t flag, bool *ok,
                            bool *took) {
    *took = true;
    *ok = true;
    switch (lit->state) {
    case ST_STRING:
        return step_string(lit, out, c, flag, ok);
    case ST_ESCAPE: {
        const tdm_status status = step_escape(lit, out, c);
        lit->safe = out->len;
        return status;
    }
    case ST_HEX: {
        const tdm_status status = step_hex(lit, out, c, ok);
        lit->safe = out->len;
        return status;
    }
    case ST_BARE_KEY:
        return step_bare_key(lit, out, c, ok, took);
    case ST_GEMMA_OPEN:
    case ST_GEMMA_STRING:
        return step_gemma(lit, out, c, flag, ok, took);
    case ST_TOKEN:
        if (is_number_char(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z')) {
            return c == '_' ? TDM_OK : tdm_buf_append_byte(out, c);
        }
        *took = false;
        return end_token(lit, out, ok);
    default:
        return step_between(lit, out, c, flag, ok);
    }
}

tdm_status tdm_literal_push(tdm_literal *lit, tdm_buf *out, const char *bytes, const uint8_t *flags,
                            size_t n, size_t *used, tdm_literal_result *result) {
    size_t i = 0;
    *result = TDM_LITERAL_MORE;
    *used = 0;
    while (i < n && lit->state != ST_DONE) {
        bool ok = true;
        bool took = true;
        if (lit->state == ST_STRING && lit->high == 0) {
            const size_t run = plain_run(lit, bytes + i, flags == NULL ? NULL : flags + i, n - i);
            TDM_TRY(tdm_buf_append(out, bytes + i, run));
            lit->safe = run > 0 ? out->len : lit->safe;
            i += run;
            if (i == n) {
                break;
            }
        }
        TDM_TRY(step_byte(lit, out, bytes[i], flags == NULL ? 0 : flags[i], &ok, &took));
        if (!ok) {
            *result = TDM_LITERAL_BAD;
            *used = i;
            return TDM_OK;
        }
        i += took ? 1 : 0;
    }
    *used = i;
    if (lit->state == ST_DONE) {
        *result = TDM_LITERAL_DONE;
    }
    return TDM_OK;
}

tdm_status tdm_literal_finish(tdm_literal *lit, tdm_buf *out, tdm_literal_result *result) {
    bool ok = false;
    if (lit->state == ST_TOKEN && lit->depth == 0) {
        TDM_TRY(end_token(lit, out, &ok));
    }
    *result = ok || lit->state == ST_DONE ? TDM_LITERAL_DONE : TDM_LITERAL_BAD;
    return TDM_OK;
}

tdm_status tdm_literal_convert(tdm_buf *out, const char *text, size_t len, bool *ok) {
    const size_t before = out->len;
    tdm_literal lit;
    tdm_literal_result result = TDM_LITERAL_MORE;
    size_t used = 0;
    tdm_literal_init(&lit, out);
    *ok = false;
    tdm_status status = tdm_literal_push(&lit, out, text, NULL, len, &used, &result);
    if (status == TDM_OK && result == TDM_LITERAL_MORE) {
        status = tdm_literal_finish(&lit, out, &result);
    }
    while (used < len && tdm_literal_is_space(text[used])) {
        used++;
    }
    *ok = status == TDM_OK && result == TDM_LITERAL_DONE && used == len;
    if (!*ok) {
        out->len = before;
    }
    return status == TDM_E_LIMIT ? TDM_OK : status; /* too deep: no literal */
}
