/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-written scanners for the split patterns in use, recognised by the exact text of the regular
 * expression. Floor 4. Law: tdm_scan cuts every text into the same pieces (matches and gaps) as the
 * expression; tests/unit/text/test_tok_scan.c compares each against PCRE2 on random texts. One
 * pass, no backtracking: time is linear in the match. */
#ifndef TDM_TEXT_PRETOK_SCAN_H
#define TDM_TEXT_PRETOK_SCAN_H

#include "text/unicode.h"

typedef enum tdm_scan_kind {
    TDM_SCAN_GPT2,       /* 's|'t|... ?\p{L}+| ?\p{N}+| ... */
    TDM_SCAN_WORDS,      /* llama 3, qwen, o200k, tekken: [^\r\n\p{L}\p{N}]?\p{L}+ ... */
    TDM_SCAN_DEEPSEEK,   /* the third pattern of DeepSeek V3 */
    TDM_SCAN_RUN,        /* a run of one class, at most max characters */
    TDM_SCAN_SPACED_RUN, /* \s? and a run of one class */
    TDM_SCAN_TAIL_SPACE, /* \s+$ */
    TDM_SCAN_GROUPED,    /* digits, three by three from the right */
    TDM_SCAN_LINES,      /* [^\n]+|[\n]+ */
    TDM_SCAN_DIGITS,     /* the reference's Digits: Unicode 17, where expressions know 16 */
    TDM_SCAN_PUNCTUATION /* one character of the reference's is_punc */
} tdm_scan_kind;

#define TDM_SCAN_GROUPED_PATTERN "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define TDM_SCAN_GROUPED_BOUND_PATTERN "\\d{1,3}(?=(?:\\d{3})*\\b)"

typedef enum tdm_scan_contraction {
    TDM_CONTRACTION_NONE,
    TDM_CONTRACTION_EXACT, /* 's */
    TDM_CONTRACTION_ASCII, /* '[sS] */
    TDM_CONTRACTION_FOLD   /* (?i:'s): U+017F folds to s */
} tdm_scan_contraction;

typedef struct tdm_scan_rule {
    const char *pattern; /* the expression that this rule stands for */
    tdm_scan_kind kind;
    tdm_scan_contraction contraction; /* GPT2: leading; WORDS: leading unless is_cased */
    uint32_t letters;                 /* WORDS: what words are made of; RUN: the class */
    uint32_t max;                     /* RUN, digits of WORDS: characters at most; 0: no limit */
    bool is_cased;   /* WORDS: the two upper- and lower-case alternatives of o200k */
    bool has_slash;  /* WORDS: punctuation swallows [\r\n/]* behind it */
    bool is_bound;   /* GROUPED: the run must end at the border of a word */
    bool has_ranges; /* RUN: ranges in place of letters */
    uint32_t ranges[3][2];
} tdm_scan_rule;

/* NULL when the expression is not one of the known ones. The rule is constant. */
const tdm_scan_rule *tdm_scan_find(const char *pattern, size_t len);
/* Not in the table: no expression stands for it. */
const tdm_scan_rule *tdm_scan_punctuation(void);
const tdm_scan_rule *tdm_scan_digits(bool is_individual);
/* For tests: every rule in turn; NULL past the end. */
const tdm_scan_rule *tdm_scan_at(size_t idx);

/* A place in [pos, len] in front of which no match begins. Not to be called right behind a match. */
size_t tdm_scan_skip(const tdm_scan_rule *rule, const tdm_unicode *unicode, const char *text,
                     size_t len, size_t pos);
/* End of the match that begins exactly at pos < len, or 0 when none does. text is one piece: its
 * end is the end of the text. */
size_t tdm_scan(const tdm_scan_rule *rule, const tdm_unicode *unicode, const char *text, size_t len,
                size_t pos);

#endif
