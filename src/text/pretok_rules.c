/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of known split patterns: expression to scanner. A new family of models whose expression
 * fits a scanner is one more row; anything else goes through PCRE2 (pretok_regex.c). */
#include "text/pretok_scan.h"

#include <string.h>

#define SPACES "\\s+(?!\\S)|\\s+"
#define LINES "\\s*[\\r\\n]+|" SPACES
#define FOLD "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ASCII "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define WORD "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define MARKED_WORD "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+"
#define MARKS " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"
#define CASED(tail) PREFIX UPPER "*" LOWER "+" tail "|" PREFIX UPPER "+" LOWER "*" tail
#define SLASHED " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
#define GPT2_HEAD "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define DEEPSEEK_TAIL                                                                              \
    "#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?"               \
    "[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINES

/* What the white space that GPT2_HEAD alone leaves unmatched becomes is the same piece as \s+ would
 * give: one character in front of one that is not white space. */
static const tdm_scan_rule RULES[] = {
    {GPT2_HEAD "|\\s+",
     TDM_SCAN_GPT2,
     TDM_CONTRACTION_EXACT,
     0,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {GPT2_HEAD, TDM_SCAN_GPT2, TDM_CONTRACTION_EXACT, 0, 0, false, false, false, false, {{0}}},
    /* llama 3, falcon 3, smollm3, glm 4 */
    {FOLD "|" WORD "|\\p{N}{1,3}|" MARKS "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_FOLD,
     TDM_UC_L,
     3,
     false,
     false,
     false,
     false,
     {{0}}},
    {ASCII "|" WORD "|\\p{N}{1,3}|" MARKS "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_ASCII,
     TDM_UC_L,
     3,
     false,
     false,
     false,
     false,
     {{0}}},
    /* qwen 2, qwen 3 */
    {FOLD "|" WORD "|\\p{N}|" MARKS "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_FOLD,
     TDM_UC_L,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    {ASCII "|" WORD "|\\p{N}|" MARKS "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_ASCII,
     TDM_UC_L,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    /* qwen 3.5: marks belong to words */
    {FOLD "|" MARKED_WORD "|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_FOLD,
     TDM_UC_L | TDM_UC_M,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    {ASCII "|" MARKED_WORD "|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_ASCII,
     TDM_UC_L | TDM_UC_M,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    /* o200k: gpt-4o, gpt-oss, llama 4 */
    {CASED(FOLD "?") "|\\p{N}{1,3}|" SLASHED "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_FOLD,
     0,
     3,
     true,
     true,
     false,
     false,
     {{0}}},
    {CASED(ASCII "?") "|\\p{N}{1,3}|" SLASHED "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_ASCII,
     0,
     3,
     true,
     true,
     false,
     false,
     {{0}}},
    /* tekken: mistral nemo */
    {CASED("") "|\\p{N}|" SLASHED "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_NONE,
     0,
     1,
     true,
     true,
     false,
     false,
     {{0}}},
    /* deepseek 3, in two spellings of its first class */
    {"[!\\\"" DEEPSEEK_TAIL,
     TDM_SCAN_DEEPSEEK,
     TDM_CONTRACTION_NONE,
     0,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {"[!\"" DEEPSEEK_TAIL,
     TDM_SCAN_DEEPSEEK,
     TDM_CONTRACTION_NONE,
     0,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
     TDM_SCAN_RUN,
     TDM_CONTRACTION_NONE,
     0,
     0,
     false,
     false,
     false,
     true,
     {{0x4E00, 0x9FA5}, {0x3040, 0x309F}, {0x30A0, 0x30FF}}},
    /* deepseek llm and coder */
    {"[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+",
     TDM_SCAN_RUN,
     TDM_CONTRACTION_NONE,
     0,
     0,
     false,
     false,
     false,
     true,
     {{0x0800, 0x4E00}, {0x4E00, 0x9FA5}, {0xAC00, 0xD7FF}}},
    {"[\\r\\n]",
     TDM_SCAN_RUN,
     TDM_CONTRACTION_NONE,
     TDM_UC_CRLF,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    {"\\s?\\p{L}+",
     TDM_SCAN_SPACED_RUN,
     TDM_CONTRACTION_NONE,
     TDM_UC_L,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {"\\s?\\p{P}+",
     TDM_SCAN_SPACED_RUN,
     TDM_CONTRACTION_NONE,
     TDM_UC_P,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {"\\s+\\z", TDM_SCAN_TAIL_SPACE, TDM_CONTRACTION_NONE, 0, 0, false, false, false, false, {{0}}},
    {"\\p{N}", TDM_SCAN_RUN, TDM_CONTRACTION_NONE, TDM_UC_N, 1, false, false, false, false, {{0}}},
    {"\\p{N}{1,3}",
     TDM_SCAN_RUN,
     TDM_CONTRACTION_NONE,
     TDM_UC_N,
     3,
     false,
     false,
     false,
     false,
     {{0}}},
    {"\\p{N}+", TDM_SCAN_RUN, TDM_CONTRACTION_NONE, TDM_UC_N, 0, false, false, false, false, {{0}}},
    {"\\s+",
     TDM_SCAN_RUN,
     TDM_CONTRACTION_NONE,
     TDM_UC_SPACE,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    /* o200k with single digits: youtu */
    {CASED(FOLD "?") "|\\p{N}|" SLASHED "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_FOLD,
     0,
     1,
     true,
     true,
     false,
     false,
     {{0}}},
    /* qwen without contractions */
    {WORD "|\\p{N}|" MARKS "|" LINES,
     TDM_SCAN_WORDS,
     TDM_CONTRACTION_NONE,
     TDM_UC_L,
     1,
     false,
     false,
     false,
     false,
     {{0}}},
    {TDM_SCAN_GROUPED_PATTERN,
     TDM_SCAN_GROUPED,
     TDM_CONTRACTION_NONE,
     TDM_UC_N,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
    {TDM_SCAN_GROUPED_BOUND_PATTERN,
     TDM_SCAN_GROUPED,
     TDM_CONTRACTION_NONE,
     TDM_UC_ND,
     0,
     false,
     false,
     true,
     false,
     {{0}}},
    {"[^\\n]+|[\\n]+",
     TDM_SCAN_LINES,
     TDM_CONTRACTION_NONE,
     0,
     0,
     false,
     false,
     false,
     false,
     {{0}}},
};

/* Files spell a line end inside an expression as itself or as an escape. Returns the length, or
 * SIZE_MAX when the expression is longer than any of the table. */
static size_t spell_escapes(const char *pattern, size_t len, char *out, size_t cap) {
    size_t n = 0;
    for (size_t i = 0; i < len; i++) {
        const bool is_line_end = pattern[i] == '\r' || pattern[i] == '\n';
        if (cap - n < 2) {
            return SIZE_MAX;
        }
        if (is_line_end) {
            out[n++] = '\\';
        }
        char c = pattern[i];
        if (is_line_end) {
            c = c == '\r' ? 'r' : 'n';
        }
        out[n++] = c;
    }
    return n;
}

#define PATTERN_BYTES_MAX 1024

const tdm_scan_rule *tdm_scan_find(const char *pattern, size_t len) {
    char spelled[PATTERN_BYTES_MAX];
    const size_t n = spell_escapes(pattern, len, spelled, sizeof(spelled));
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++) {
        if (strlen(RULES[i].pattern) == n && memcmp(RULES[i].pattern, spelled, n) == 0) {
            return &RULES[i];
        }
    }
    return NULL;
}

const tdm_scan_rule *tdm_scan_punctuation(void) {
    static const tdm_scan_rule RULE = {.kind = TDM_SCAN_PUNCTUATION};
    return &RULE;
}

const tdm_scan_rule *tdm_scan_digits(bool is_individual) {
    static const tdm_scan_rule RULES_OF_DIGITS[2] = {{.kind = TDM_SCAN_DIGITS, .max = 0},
                                                     {.kind = TDM_SCAN_DIGITS, .max = 1}};
    return &RULES_OF_DIGITS[is_individual ? 1 : 0];
}

const tdm_scan_rule *tdm_scan_at(size_t idx) {
    return idx < sizeof(RULES) / sizeof(RULES[0]) ? &RULES[idx] : NULL;
}
