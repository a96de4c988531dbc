/* SPDX-License-Identifier: Apache-2.0
 *
 * The scanners. Each function answers what one backtracking alternation would: its comment gives
 * the alternatives in their order, and the code says where the greedy choice has to be taken back.
 * Source: the expressions as the models' tokenizer.json files and llama.cpp's table spell them. */
#include "text/pretok_scan.h"

#include <string.h>

typedef struct cursor {
    const tdm_unicode *unicode;
    const char *text;
    size_t len;
} cursor;

/* Bits of the character at pos and where it ends; 0 at the end of the text. */
static inline uint32_t at(const cursor *c, size_t pos, size_t *out_next) {
    size_t bytes = 0;
    if (pos >= c->len) {
        *out_next = pos;
        return 0;
    }
    const uint32_t bits = tdm_unicode_at(c->unicode, c->text, c->len, pos, &bytes);
    *out_next = pos + bytes;
    return bits;
}

/* End of the longest run of characters with one of the bits of set. */
static size_t run_of(const cursor *c, size_t pos, uint32_t set) {
    size_t next = 0;
    while (pos < c->len && (uint8_t)c->text[pos] < 0x80) {
        if ((c->unicode->ascii[(uint8_t)c->text[pos]] & set) == 0) {
            return pos;
        }
        pos++;
    }
    while ((at(c, pos, &next) & set) != 0) {
        pos = next;
    }
    return pos;
}

/* The same for characters with none of them. */
static size_t run_without(const cursor *c, size_t pos, uint32_t set) {
    size_t next = 0;
    while (pos < c->len && (at(c, pos, &next) & set) == 0) {
        pos = next;
    }
    return pos;
}

static bool is_letter_at(const cursor *c, size_t pos, char lower, tdm_scan_contraction how,
                         size_t *out_next) {
    if (pos >= c->len) {
        return false;
    }
    const char byte = c->text[pos];
    *out_next = pos + 1;
    if (byte == lower || (how != TDM_CONTRACTION_EXACT && byte == lower - 'a' + 'A')) {
        return true;
    }
    if (how == TDM_CONTRACTION_FOLD && lower == 's' && c->len - pos >= 2 &&
        memcmp(c->text + pos, "\xC5\xBF", 2) == 0) { /* U+017F */
        *out_next = pos + 2;
        return true;
    }
    return false;
}

/* 's|'t|'re|'ve|'m|'ll|'d: end, or pos when there is none. */
static size_t contraction_at(const cursor *c, size_t pos, tdm_scan_contraction how) {
    static const char ENDS[7][3] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (how == TDM_CONTRACTION_NONE || pos >= c->len || c->text[pos] != '\'') {
        return pos;
    }
    for (size_t i = 0; i < 7; i++) {
        size_t end = pos + 1;
        bool is_match = true;
        for (const char *p = ENDS[i]; *p != '\0' && is_match; p++) {
            is_match = is_letter_at(c, end, *p, how, &end);
        }
        if (is_match) {
            return end;
        }
    }
    return pos;
}

/* \s+(?!\S)|\s+: all of the run at the end of the text, else all but its last character, else that
 * one. */
static size_t spaces_at(const cursor *c, size_t pos) {
    size_t end = pos;
    size_t last = pos;
    size_t next = 0;
    while ((at(c, end, &next) & TDM_UC_SPACE) != 0) {
        last = end;
        end = next;
    }
    return end == c->len || last == pos ? end : last;
}

/* \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t lines_or_spaces_at(const cursor *c, size_t pos) {
    size_t end = pos;
    size_t line_end = pos;
    size_t next = 0;
    for (uint32_t bits = at(c, end, &next); (bits & TDM_UC_SPACE) != 0; bits = at(c, end, &next)) {
        end = next;
        if ((bits & TDM_UC_CRLF) != 0) {
            line_end = end;
        }
    }
    return line_end > pos ? line_end : spaces_at(c, pos);
}

static size_t scan_gpt2(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    static const uint32_t SETS[2] = {TDM_UC_L, TDM_UC_N};
    const size_t start = c->text[pos] == ' ' ? pos + 1 : pos;
    size_t end = contraction_at(c, pos, rule->contraction);
    if (end > pos) {
        return end;
    }
    for (size_t i = 0; i < 2; i++) {
        end = run_of(c, start, SETS[i]);
        if (end > start) {
            return end;
        }
    }
    end = run_without(c, start, TDM_UC_SPACE | TDM_UC_L | TDM_UC_N);
    return end > start ? end : spaces_at(c, pos);
}

#define UPPER_SET (TDM_UC_LU | TDM_UC_LT | TDM_UC_LM | TDM_UC_LO | TDM_UC_M)
#define LOWER_SET (TDM_UC_LL | TDM_UC_LM | TDM_UC_LO | TDM_UC_M)

/* UPPER*LOWER+ at pos; pos when it does not match. Where no small letter follows the upper run, the
 * greedy star gives back up to the last character that is in both sets, and the match ends behind
 * it. */
static size_t upper_lower_at(const cursor *c, size_t pos) {
    size_t end = pos;
    size_t both_end = pos;
    size_t next = 0;
    uint32_t bits = at(c, end, &next);
    while ((bits & UPPER_SET) != 0) {
        end = next;
        if ((bits & LOWER_SET) != 0) {
            both_end = end;
        }
        bits = at(c, end, &next);
    }
    return (bits & LOWER_SET) != 0 ? run_of(c, end, LOWER_SET) : both_end;
}

/* UPPER+LOWER* at pos; pos when it does not match. */
static size_t upper_at(const cursor *c, size_t pos) {
    const size_t end = run_of(c, pos, UPPER_SET);
    return end > pos ? run_of(c, end, LOWER_SET) : pos;
}

/* [^\r\n\p{L}\p{N}]?UPPER*LOWER+(contraction)?|[^\r\n\p{L}\p{N}]?UPPER+LOWER*(contraction)? */
static size_t cased_word_at(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t next = 0;
    const bool has_prefix = (at(c, pos, &next) & (TDM_UC_CRLF | TDM_UC_L | TDM_UC_N)) == 0;
    size_t end = pos;
    if (has_prefix) {
        end = upper_lower_at(c, next);
        end = end > next ? end : pos;
    }
    if (end == pos) {
        end = upper_lower_at(c, pos);
    }
    if (end == pos && has_prefix) {
        end = upper_at(c, next);
        end = end > next ? end : pos;
    }
    if (end == pos) {
        end = upper_at(c, pos);
    }
    return end > pos ? contraction_at(c, end, rule->contraction) : pos;
}

/* [^\r\n\p{L}\p{N}]?LETTERS+ */
static size_t plain_word_at(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t next = 0;
    const uint32_t bits = at(c, pos, &next);
    if ((bits & rule->letters) != 0) {
        return run_of(c, next, rule->letters);
    }
    if ((bits & (TDM_UC_CRLF | TDM_UC_L | TDM_UC_N)) == 0) {
        const size_t end = run_of(c, next, rule->letters);
        return end > next ? end : pos;
    }
    return pos;
}

static size_t run_up_to(const cursor *c, size_t pos, uint32_t set, uint32_t max) {
    size_t next = 0;
    for (uint32_t n = 0; (max == 0 || n < max) && (at(c, pos, &next) & set) != 0; n++) {
        pos = next;
    }
    return pos;
}

/* contraction|word|\p{N}{1,max}| ?[^\s LETTERS \p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t scan_words(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t end = rule->is_cased ? pos : contraction_at(c, pos, rule->contraction);
    if (end > pos) {
        return end;
    }
    end = rule->is_cased ? cased_word_at(c, rule, pos) : plain_word_at(c, rule, pos);
    if (end > pos) {
        return end;
    }
    end = run_up_to(c, pos, TDM_UC_N, rule->max);
    if (end > pos) {
        return end;
    }
    const size_t start = c->text[pos] == ' ' ? pos + 1 : pos;
    const uint32_t others = rule->is_cased ? TDM_UC_L : rule->letters;
    end = run_without(c, start, TDM_UC_SPACE | TDM_UC_N | others);
    if (end > start) {
        while (end < c->len && (c->text[end] == '\r' || c->text[end] == '\n' ||
                                (rule->has_slash && c->text[end] == '/'))) {
            end++;
        }
        return end;
    }
    return lines_or_spaces_at(c, pos);
}

static bool is_ascii_letter(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static bool is_ascii_punctuation(char byte) {
    return byte > 0x20 && byte < 0x7F && !is_ascii_letter(byte) && !(byte >= '0' && byte <= '9');
}

/* [ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t scan_deepseek(const cursor *c, size_t pos) {
    size_t next = 0;
    size_t end = pos + 1;
    if (is_ascii_punctuation(c->text[pos])) {
        while (end < c->len && is_ascii_letter(c->text[end])) {
            end++;
        }
        if (end > pos + 1) {
            return end;
        }
    }
    const uint32_t bits = at(c, pos, &next);
    if ((bits & (TDM_UC_L | TDM_UC_M)) != 0) {
        return run_of(c, next, TDM_UC_L | TDM_UC_M);
    }
    if ((bits & (TDM_UC_CRLF | TDM_UC_P | TDM_UC_S)) == 0) {
        end = run_of(c, next, TDM_UC_L | TDM_UC_M);
        if (end > next) {
            return end;
        }
    }
    const size_t start = c->text[pos] == ' ' ? pos + 1 : pos;
    end = run_of(c, start, TDM_UC_P | TDM_UC_S);
    if (end > start) {
        while (end < c->len && (c->text[end] == '\r' || c->text[end] == '\n')) {
            end++;
        }
        return end;
    }
    return lines_or_spaces_at(c, pos);
}

static size_t scan_ranges(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    for (uint32_t n = 0; pos < c->len && (rule->max == 0 || n < rule->max); n++) {
        uint32_t cp = 0;
        bool is_ok = false;
        const size_t bytes = tdm_unicode_decode(c->text + pos, c->len - pos, &cp, &is_ok);
        bool is_inside = false;
        for (size_t i = 0; i < 3; i++) {
            is_inside = is_inside || (cp >= rule->ranges[i][0] && cp <= rule->ranges[i][1]);
        }
        if (!is_ok || !is_inside) {
            break;
        }
        pos += bytes;
    }
    return pos;
}

static bool is_digit_at(const cursor *c, size_t pos, size_t *out_next) {
    uint32_t cp = 0;
    bool is_ok = false;
    const bool is_known = (at(c, pos, out_next) & TDM_UC_N) != 0;
    if (is_known || pos >= c->len || (uint8_t)c->text[pos] < 0xF0) {
        return is_known;
    }
    (void)tdm_unicode_decode(c->text + pos, c->len - pos, &cp, &is_ok);
    return is_ok && ((cp >= 0x11DE0 && cp <= 0x11DE9) || (cp >= 0x16FF4 && cp <= 0x16FF6));
}

static size_t digits_at(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t next = 0;
    for (uint32_t n = 0; (rule->max == 0 || n < rule->max) && is_digit_at(c, pos, &next); n++) {
        pos = next;
    }
    return pos;
}

/* [^\n]+|[\n]+ */
static size_t lines_at(const cursor *c, size_t pos) {
    if (c->text[pos] == '\n') {
        while (pos < c->len && c->text[pos] == '\n') {
            pos++;
        }
        return pos;
    }
    const char *line_end = memchr(c->text + pos, '\n', c->len - pos);
    return line_end != NULL ? (size_t)(line_end - c->text) : c->len;
}

/* Whether the character that ends at pos has one of the bits of set. */
static bool is_behind(const cursor *c, size_t pos, uint32_t set) {
    size_t begin = pos;
    size_t next = 0;
    do {
        if (begin == 0) {
            return false;
        }
        begin--;
    } while (((uint8_t)c->text[begin] & 0xC0) == 0x80 && pos - begin < 4);
    return (at(c, begin, &next) & set) != 0 && next == pos;
}

/* X{1,3}(?=(?:X{3})*(?!X)), or (?=(?:\d{3})*\b): the first group of a run has what is left over by
 * threes; behind another group stand whole threes, and need not be counted again. */
static size_t grouped_at(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t next = 0;
    size_t n = 0;
    size_t end = pos;
    if ((at(c, pos, &next) & rule->letters) == 0) {
        return pos;
    }
    if (is_behind(c, pos, rule->letters)) {
        return run_up_to(c, pos, rule->letters, 3);
    }
    while ((at(c, end, &next) & rule->letters) != 0) {
        end = next;
        n++;
    }
    if (rule->is_bound && end < c->len) {
        uint32_t cp = 0;
        bool is_ok = false;
        (void)tdm_unicode_decode(c->text + end, c->len - end, &cp, &is_ok);
        if (is_ok && tdm_unicode_is_expr_word(cp)) {
            return pos;
        }
    }
    return run_up_to(c, pos, rule->letters, n % 3 == 0 ? 3 : (uint32_t)(n % 3));
}

static size_t punctuation_at(const cursor *c, size_t pos) {
    uint32_t cp = 0;
    if ((uint8_t)c->text[pos] < 0x80) {
        return is_ascii_punctuation(c->text[pos]) ? pos + 1 : pos;
    }
    const size_t n = tdm_utf8_decode(c->text + pos, c->len - pos, &cp, NULL);
    return tdm_unicode_is_older(TDM_OLDER_PUNCTUATION, cp) ? pos + n : pos;
}

/* \s?CLASS+ */
static size_t scan_spaced_run(const cursor *c, const tdm_scan_rule *rule, size_t pos) {
    size_t next = 0;
    const size_t start = (at(c, pos, &next) & TDM_UC_SPACE) != 0 ? next : pos;
    const size_t end = run_of(c, start, rule->letters);
    return end > start ? end : pos;
}

size_t tdm_scan_skip(const tdm_scan_rule *rule, const tdm_unicode *unicode, const char *text,
                     size_t len, size_t pos) {
    const cursor c = {unicode, text, len};
    if (rule->kind == TDM_SCAN_RUN && !rule->has_ranges) {
        return run_without(&c, pos, rule->letters);
    }
    if (rule->kind == TDM_SCAN_DIGITS) {
        size_t next = 0;
        while (pos < len && !is_digit_at(&c, pos, &next)) {
            pos = next;
        }
        return pos;
    }
    if (rule->kind == TDM_SCAN_GROUPED) { /* on to the start of a run: this one does not match */
        if (is_behind(&c, pos, rule->letters)) {
            pos = run_of(&c, pos, rule->letters);
        }
        return run_without(&c, pos, rule->letters);
    }
    if (rule->kind == TDM_SCAN_RUN && rule->ranges[0][0] >= 0x80) {
        while (pos < len && (uint8_t)text[pos] < 0x80) {
            pos++;
        }
    }
    return pos;
}

size_t tdm_scan(const tdm_scan_rule *rule, const tdm_unicode *unicode, const char *text, size_t len,
                size_t pos) {
    const cursor c = {unicode, text, len};
    size_t end = pos;
    switch (rule->kind) {
    case TDM_SCAN_GPT2:
        end = scan_gpt2(&c, rule, pos);
        break;
    case TDM_SCAN_WORDS:
        end = scan_words(&c, rule, pos);
        break;
    case TDM_SCAN_DEEPSEEK:
        end = scan_deepseek(&c, pos);
        break;
    case TDM_SCAN_RUN:
        end = rule->has_ranges ? scan_ranges(&c, rule, pos)
                               : run_up_to(&c, pos, rule->letters, rule->max);
        break;
    case TDM_SCAN_SPACED_RUN:
        end = scan_spaced_run(&c, rule, pos);
        break;
    case TDM_SCAN_GROUPED:
        end = grouped_at(&c, rule, pos);
        break;
    case TDM_SCAN_LINES:
        end = lines_at(&c, pos);
        break;
    case TDM_SCAN_DIGITS:
        end = digits_at(&c, rule, pos);
        break;
    case TDM_SCAN_PUNCTUATION:
        end = punctuation_at(&c, pos);
        break;
    case TDM_SCAN_TAIL_SPACE:
        end = run_of(&c, pos, TDM_UC_SPACE);
        end = end == len ? end : pos;
        break;
    }
    return end > pos ? end : 0;
}
