/* SPDX-License-Identifier: Apache-2.0
 *
 * The lexer of templates. It owns the rules of white space control (trim_blocks and lstrip_blocks
 * on, as model templates expect) and of literals; it knows nothing of statements. It refuses
 * sources past SOURCE_MAX, sources that are no UTF-8, tags that never end, and brackets that do not
 * match inside a tag.
 * One pass over the text, tokens in one array: the compiler can go back to a token by its index,
 * which filter blocks and filtered loops use. */
#include "text/jinja_lex.h"

#include "base/utf8.h"
#include "text/jinja_string.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SOURCE_MAX ((size_t)4 << 20)
#define NESTING_MAX 256u

typedef struct lexer {
    tdm_arena *arena;
    jsource source;
    jtoken *tokens;
    uint32_t n, cap;
    uint32_t pos;
    bool is_line_start;
    tdm_error *err;
} lexer;

void tdm_jinja_where(const jsource *source, uint32_t pos, tdm_error *err) {
    uint32_t line = 1;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < pos && i < source->len; i++) {
        if (source->text[i] == '\n') {
            line++;
            begin = i + 1;
        }
    }
    const size_t end = pos < source->len ? pos : source->len;
    const size_t column = tdm_utf8_count(source->text + begin, end - begin) + 1;
    tdm_err_where(err, "%.100s: line %u, column %zu", source->name, line, column);
}

tdm_status tdm_jinja_fail_at(const jsource *source, uint32_t pos, tdm_error *err, tdm_status code,
                             const char *fmt, ...) {
    char what[sizeof err->what];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    (void)tdm_fail(err, code, "%s", what);
    tdm_jinja_where(source, pos, err);
    return code;
}

static tdm_status push(lexer *l, jtoken token) {
    if (l->n == l->cap) {
        const uint32_t cap = l->cap == 0 ? 256 : l->cap * 2;
        jtoken *tokens = tdm_arena_alloc(l->arena, cap * sizeof *tokens, sizeof(void *));
        if (tokens == NULL) {
            return tdm_fail_nomem(l->err, "template tokens");
        }
        if (l->n > 0) {
            memcpy(tokens, l->tokens, l->n * sizeof *tokens);
        }
        l->tokens = tokens;
        l->cap = cap;
    }
    l->tokens[l->n++] = token;
    return TDM_OK;
}

static tdm_status push_span(lexer *l, jtoken_kind kind, uint32_t begin, uint32_t end) {
    return push(l, (jtoken){.kind = (uint8_t)kind,
                            .pos = begin,
                            .len = end - begin,
                            .text = l->source.text + begin});
}

/* Bytes of the white space character at pos, 0 when there is none. */
static uint32_t space_at(const lexer *l, uint32_t pos) {
    if (pos >= l->source.len) {
        return 0;
    }
    uint32_t cp = 0;
    const size_t n = tdm_utf8_decode(l->source.text + pos, l->source.len - pos, &cp, NULL);
    return tdm_jinja_is_space(cp) ? (uint32_t)n : 0;
}

static uint32_t skip_space(const lexer *l, uint32_t pos) {
    for (uint32_t n = space_at(l, pos); n > 0; n = space_at(l, pos)) {
        pos += n;
    }
    return pos;
}

static uint32_t strip_right(const lexer *l, uint32_t begin, uint32_t end) {
    while (end > begin) {
        uint32_t at = end - 1;
        while (at > begin && ((unsigned char)l->source.text[at] & 0xC0u) == 0x80u) {
            at--;
        }
        if (space_at(l, at) == 0) {
            break;
        }
        end = at;
    }
    return end;
}

static bool has_text(const lexer *l, uint32_t pos, const char *text) {
    const size_t n = strlen(text);
    return l->source.len - pos >= n && memcmp(l->source.text + pos, text, n) == 0;
}

/* The end of the template text [begin, end) that stands before a tag with this sign. */
static uint32_t data_end(const lexer *l, uint32_t begin, uint32_t end, char sign,
                         bool is_variable) {
    if (sign == '-') {
        return strip_right(l, begin, end);
    }
    if (sign == '+' || is_variable) {
        return end;
    }
    uint32_t line = end;
    while (line > begin && l->source.text[line - 1] != '\n') {
        line--;
    }
    if (line == begin && !l->is_line_start) {
        return end;
    }
    return strip_right(l, line, end) == line ? line : end;
}

static char sign_at(const lexer *l, uint32_t pos) {
    if (pos < l->source.len && (l->source.text[pos] == '-' || l->source.text[pos] == '+')) {
        return l->source.text[pos];
    }
    return 0;
}

/* If `word` and a block end stand at pos, the position after them, else 0. trims: a newline after
 * the end goes too. */
static uint32_t word_tag_end(const lexer *l, uint32_t pos, const char *word, bool trims) {
    pos = skip_space(l, pos);
    if (!has_text(l, pos, word)) {
        return 0;
    }
    pos = skip_space(l, pos + (uint32_t)strlen(word));
    if (has_text(l, pos, "-%}")) {
        return skip_space(l, pos + 3);
    }
    if (trims && has_text(l, pos, "+%}")) {
        return pos + 3;
    }
    if (!has_text(l, pos, "%}")) {
        return 0;
    }
    pos += 2;
    return trims && pos < l->source.len && l->source.text[pos] == '\n' ? pos + 1 : pos;
}

static void moved_to(lexer *l, uint32_t pos) {
    l->pos = pos;
    l->is_line_start = pos > 0 && l->source.text[pos - 1] == '\n';
}

static tdm_status lex_comment(lexer *l, uint32_t begin, uint32_t body) {
    for (uint32_t at = body; at + 1 < l->source.len; at++) {
        if (l->source.text[at] != '#' || l->source.text[at + 1] != '}') {
            continue;
        }
        const char sign = at > body ? l->source.text[at - 1] : 0;
        uint32_t pos = at + 2;
        if (sign == '-') {
            pos = skip_space(l, pos);
        } else if (sign != '+' && pos < l->source.len && l->source.text[pos] == '\n') {
            pos++;
        }
        moved_to(l, pos);
        return TDM_OK;
    }
    return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                             "the comment has no end '#}'");
}

static tdm_status lex_raw(lexer *l, uint32_t begin, uint32_t body) {
    moved_to(l, body);
    for (uint32_t at = body; at + 1 < l->source.len; at++) {
        if (l->source.text[at] != '{' || l->source.text[at + 1] != '%') {
            continue;
        }
        const char sign = sign_at(l, at + 2);
        const uint32_t end = word_tag_end(l, at + 2 + (sign != 0), "endraw", true);
        if (end == 0) {
            continue;
        }
        const uint32_t stop = data_end(l, body, at, sign, false);
        if (stop > body) {
            TDM_TRY(push_span(l, JT_DATA, body, stop));
        }
        moved_to(l, end);
        return TDM_OK;
    }
    return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                             "the raw block has no 'endraw'");
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c) ||
           ((unsigned char)c & 0x80u) != 0;
}

static uint32_t skip_digits(const lexer *l, uint32_t pos) {
    while (pos < l->source.len && (is_digit(l->source.text[pos]) ||
                                   (l->source.text[pos] == '_' && pos + 1 < l->source.len &&
                                    is_digit(l->source.text[pos + 1])))) {
        pos++;
    }
    return pos;
}

static tdm_status lex_number(lexer *l) {
    const uint32_t begin = l->pos;
    const char *s = l->source.text;
    const bool is_after_dot = begin > 0 && s[begin - 1] == '.';
    uint32_t pos = begin;
    if (s[pos] == '0' && pos + 1 < l->source.len && strchr("xXoObB", s[pos + 1]) != NULL &&
        s[pos + 1] != 0) {
        pos += 2;
        while (pos < l->source.len && is_name_byte(s[pos]) && (unsigned char)s[pos] < 0x80) {
            pos++;
        }
        l->pos = pos;
        return push_span(l, JT_INT, begin, pos);
    }
    pos = skip_digits(l, pos);
    jtoken_kind kind = JT_INT;
    if (!is_after_dot) {
        if (pos + 1 < l->source.len && s[pos] == '.' && is_digit(s[pos + 1])) {
            pos = skip_digits(l, pos + 1);
            kind = JT_FLOAT;
        }
        uint32_t at = pos;
        if (at < l->source.len && (s[at] == 'e' || s[at] == 'E')) {
            at++;
            at += at < l->source.len && (s[at] == '+' || s[at] == '-');
            if (at < l->source.len && is_digit(s[at])) {
                pos = skip_digits(l, at);
                kind = JT_FLOAT;
            }
        }
    }
    l->pos = pos;
    return push_span(l, kind, begin, pos);
}

static int hex_value(char c) {
    if (is_digit(c)) {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes a numeric escape of n hex digits at s; returns false when it is none. */
static bool hex_escape(const char *s, const char *end, int n, uint32_t *out) {
    uint32_t cp = 0;
    for (int i = 0; i < n; i++) {
        const int digit = s + i < end ? hex_value(s[i]) : -1;
        if (digit < 0) {
            return false;
        }
        cp = cp << 4 | (uint32_t)digit;
    }
    *out = cp;
    return cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF);
}

static const char SIMPLE_ESCAPES[][2] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'a', '\a'},
                                         {'b', '\b'},  {'f', '\f'},  {'n', '\n'}, {'r', '\r'},
                                         {'t', '\t'},  {'v', '\v'}};

/* One escape at s (after the backslash). Writes to *out, moves both; false when it is broken. */
static bool unescape(const char **s, const char *end, char **out) {
    const char c = **s;
    for (size_t i = 0; i < sizeof SIMPLE_ESCAPES / sizeof *SIMPLE_ESCAPES; i++) {
        if (c == SIMPLE_ESCAPES[i][0]) {
            *(*out)++ = SIMPLE_ESCAPES[i][1];
            (*s)++;
            return true;
        }
    }
    if (c == '\n') {
        (*s)++;
        return true;
    }
    uint32_t cp = 0;
    if (c == 'x' || c == 'u' || c == 'U') {
        const int n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (!hex_escape(*s + 1, end, n, &cp)) {
            return false;
        }
        *s += n + 1;
        *out += tdm_utf8_encode(cp, *out);
        return true;
    }
    if (c >= '0' && c <= '7') {
        for (int i = 0; i < 3 && *s < end && **s >= '0' && **s <= '7'; i++, (*s)++) {
            cp = cp * 8 + (uint32_t)(**s - '0');
        }
        *out += tdm_utf8_encode(cp, *out);
        return true;
    }
    *(*out)++ = '\\';
    return c != 'N';
}

static tdm_status lex_string(lexer *l) {
    const uint32_t begin = l->pos;
    const char quote = l->source.text[begin];
    uint32_t end = begin + 1;
    bool has_escape = false;
    while (end < l->source.len && l->source.text[end] != quote) {
        if (l->source.text[end] == '\\') {
            has_escape = true;
            end++;
        }
        end++;
    }
    if (end >= l->source.len) {
        return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                                 "the string has no closing quote");
    }
    l->pos = end + 1;
    jtoken token = {.kind = JT_STRING,
                    .pos = begin,
                    .len = end - begin - 1,
                    .text = l->source.text + begin + 1};
    if (has_escape) {
        /* An escape never takes fewer bytes than what it stands for. */
        char *decoded = tdm_arena_alloc(l->arena, (size_t)token.len + 1, 1);
        if (decoded == NULL) {
            return tdm_fail_nomem(l->err, "template string");
        }
        const char *s = token.text;
        const char *stop = s + token.len;
        char *out = decoded;
        while (s < stop) {
            if (*s != '\\') {
                *out++ = *s++;
                continue;
            }
            s++;
            if (!unescape(&s, stop, &out)) {
                return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                                         "the string has an escape that is no character");
            }
        }
        token.text = decoded;
        token.len = (uint32_t)(out - decoded);
    }
    return push(l, token);
}

static const struct {
    char text[3];
    uint8_t op;
} OPERATORS[] = {
    /* two characters first */
    {"//", JO_FLOORDIV}, {"**", JO_POW},   {"==", JO_EQ},      {"!=", JO_NE},      {">=", JO_GE},
    {"<=", JO_LE},       {"+", JO_ADD},    {"-", JO_SUB},      {"*", JO_MUL},      {"/", JO_DIV},
    {"%", JO_MOD},       {"~", JO_TILDE},  {"[", JO_LBRACKET}, {"]", JO_RBRACKET}, {"(", JO_LPAREN},
    {")", JO_RPAREN},    {"{", JO_LBRACE}, {"}", JO_RBRACE},   {">", JO_GT},       {"<", JO_LT},
    {"=", JO_ASSIGN},    {".", JO_DOT},    {":", JO_COLON},    {"|", JO_PIPE},     {",", JO_COMMA},
    {";", JO_SEMICOLON},
};

typedef struct brackets {
    uint8_t closer[NESTING_MAX];
    uint32_t n;
} brackets;

static tdm_status lex_operator(lexer *l, brackets *open) {
    const uint32_t begin = l->pos;
    size_t i = 0;
    while (i < sizeof OPERATORS / sizeof *OPERATORS && !has_text(l, begin, OPERATORS[i].text)) {
        i++;
    }
    if (i == sizeof OPERATORS / sizeof *OPERATORS) {
        return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                                 "unexpected byte 0x%02x in a tag",
                                 (unsigned)(unsigned char)l->source.text[begin]);
    }
    const uint8_t op = OPERATORS[i].op;
    if (op == JO_LPAREN || op == JO_LBRACKET || op == JO_LBRACE) {
        if (open->n == NESTING_MAX) {
            (void)tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_LIMIT,
                                    "brackets nest too deep");
            tdm_err_limit(l->err, "template nesting %u", NESTING_MAX);
            return TDM_E_LIMIT;
        }
        open->closer[open->n++] = op == JO_LPAREN     ? JO_RPAREN
                                  : op == JO_LBRACKET ? JO_RBRACKET
                                                      : JO_RBRACE;
    }
    if (op == JO_RPAREN || op == JO_RBRACKET || op == JO_RBRACE) {
        if (open->n == 0 || open->closer[open->n - 1] != op) {
            return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT, "unexpected '%s'",
                                     OPERATORS[i].text);
        }
        open->n--;
    }
    l->pos += (uint32_t)strlen(OPERATORS[i].text);
    return push(l, (jtoken){.kind = JT_OP,
                            .op = op,
                            .pos = begin,
                            .len = l->pos - begin,
                            .text = l->source.text + begin});
}

/* If the tag ends at pos: sets where the text goes on. */
static bool tag_ends(const lexer *l, uint32_t pos, bool is_variable, uint32_t *out_next) {
    const char *end = is_variable ? "}}" : "%}";
    if (l->source.text[pos] == '-' && has_text(l, pos + 1, end)) {
        *out_next = skip_space(l, pos + 3);
        return true;
    }
    if (!is_variable && has_text(l, pos, "+%}")) {
        *out_next = pos + 3;
        return true;
    }
    if (!has_text(l, pos, end)) {
        return false;
    }
    *out_next = pos + 2;
    if (!is_variable && pos + 2 < l->source.len && l->source.text[pos + 2] == '\n') {
        *out_next = pos + 3;
    }
    return true;
}

static tdm_status lex_tag(lexer *l, uint32_t begin, uint32_t body, bool is_variable) {
    TDM_TRY(push_span(l, is_variable ? JT_VARIABLE_BEGIN : JT_BLOCK_BEGIN, begin, body));
    brackets open = {.n = 0};
    l->pos = body;
    for (;;) {
        l->pos = skip_space(l, l->pos);
        if (l->pos >= l->source.len) {
            return tdm_jinja_fail_at(&l->source, begin, l->err, TDM_E_FORMAT,
                                     "the tag has no end '%s'", is_variable ? "}}" : "%}");
        }
        uint32_t next = 0;
        if (open.n == 0 && tag_ends(l, l->pos, is_variable, &next)) {
            TDM_TRY(push_span(l, is_variable ? JT_VARIABLE_END : JT_BLOCK_END, l->pos, next));
            moved_to(l, next);
            return TDM_OK;
        }
        const char c = l->source.text[l->pos];
        if (is_digit(c)) {
            TDM_TRY(lex_number(l));
        } else if (is_name_byte(c)) {
            const uint32_t at = l->pos;
            while (l->pos < l->source.len && is_name_byte(l->source.text[l->pos])) {
                l->pos++;
            }
            TDM_TRY(push_span(l, JT_NAME, at, l->pos));
        } else if (c == '\'' || c == '"') {
            TDM_TRY(lex_string(l));
        } else {
            TDM_TRY(lex_operator(l, &open));
        }
    }
}

static tdm_status lex_all(lexer *l) {
    while (l->pos < l->source.len) {
        const uint32_t begin = l->pos;
        uint32_t at = begin;
        char second = 0;
        for (; at + 1 < l->source.len; at++) {
            const char *brace = memchr(l->source.text + at, '{', l->source.len - 1 - at);
            if (brace == NULL) {
                break;
            }
            at = (uint32_t)(brace - l->source.text);
            if (strchr("%{#", brace[1]) != NULL && brace[1] != 0) {
                second = brace[1];
                break;
            }
        }
        if (second == 0) {
            l->pos = l->source.len;
            return push_span(l, JT_DATA, begin, l->source.len);
        }
        const char sign = sign_at(l, at + 2);
        const uint32_t body = at + 2 + (sign != 0);
        const uint32_t stop = data_end(l, begin, at, sign, second == '{');
        if (stop > begin) {
            TDM_TRY(push_span(l, JT_DATA, begin, stop));
        }
        const uint32_t raw = second == '%' ? word_tag_end(l, body, "raw", false) : 0;
        if (raw > 0) {
            TDM_TRY(lex_raw(l, at, raw));
        } else if (second == '#') {
            TDM_TRY(lex_comment(l, at, body));
        } else {
            TDM_TRY(lex_tag(l, at, body, second == '{'));
        }
    }
    return TDM_OK;
}

/* Copies the source with LF line ends and without the last one. */
static tdm_status normalise(lexer *l, const char *text, size_t len) {
    char *copy = tdm_arena_alloc(l->arena, len + 1, 1);
    if (copy == NULL) {
        return tdm_fail_nomem(l->err, "template source");
    }
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r') {
            copy[n++] = '\n';
            i += i + 1 < len && text[i + 1] == '\n';
        } else {
            copy[n++] = text[i];
        }
    }
    if (n > 0 && copy[n - 1] == '\n') {
        n--;
    }
    copy[n] = 0;
    l->source.text = copy;
    l->source.len = n;
    return TDM_OK;
}

tdm_status tdm_jinja_lex(tdm_arena *arena, const char *text, size_t len, const char *name,
                         jsource *out_source, jtoken **out_tokens, uint32_t *out_n,
                         tdm_error *err) {
    lexer l = {.arena = arena, .err = err, .is_line_start = true};
    if (len > SOURCE_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "%s: the template has %zu bytes", name, len);
        tdm_err_limit(err, "template source of %zu bytes", SOURCE_MAX);
        return TDM_E_LIMIT;
    }
    l.source.name = tdm_arena_copy_text(arena, name, strlen(name));
    if (l.source.name == NULL) {
        return tdm_fail_nomem(err, "template name");
    }
    TDM_TRY(normalise(&l, text, len));
    const size_t valid = tdm_utf8_valid_prefix(l.source.text, l.source.len);
    if (valid < l.source.len) {
        return tdm_jinja_fail_at(&l.source, (uint32_t)valid, err, TDM_E_FORMAT,
                                 "the template is not valid UTF-8");
    }
    TDM_TRY(lex_all(&l));
    TDM_TRY(push_span(&l, JT_END, l.source.len, l.source.len));
    *out_source = l.source;
    *out_tokens = l.tokens;
    *out_n = l.n;
    return TDM_OK;
}
