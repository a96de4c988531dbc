/* SPDX-License-Identifier: Apache-2.0
 *
 * Property: each hand-written scanner cuts the pieces (matches and what lies between) of the
 * expression that it stands for, as PCRE2 finds them, on random texts of difficult characters. The
 * characters are of Unicode versions that both libraries' tables know, which is checked first. */
#include "support/support.h"

#include "base/random.h"
#include "text/pretok.h"

#define TEXTS_PER_RULE 4000

/* Letters of every case class, marks, digits of three kinds, all white space, contractions with
 * their folded forms, punctuation, symbols, controls, a private and an astral character. */
static const char *const CHARS[] = {
    "a",
    "b",
    "Z",
    "s",
    "S",
    "t",
    "r",
    "e",
    "v",
    "m",
    "l",
    "L",
    "d",
    "D",
    "'",
    "'",
    "'",
    "\xC5\xBF" /* long s */,
    "\xE2\x84\xAA" /* kelvin */,
    "\xC3\xA9",
    "\xC3\x89",
    "\xC7\x85",
    "\xCA\xB0",
    "\xC2\xAA",
    "\xCE\xB1",
    "\xD0\x96",
    "\xE4\xBD\xA0",
    "\xE9\xBE\xA5",
    "\xE3\x81\x93",
    "\xE3\x82\xAB",
    "\xE3\x83\xBC",
    "\xEA\xB0\x80",
    "\xE0\xA4\xA8",
    "\xE0\xA5\x8D",
    "\xCC\x81",
    "\xD6\xB0",
    "\xE2\x83\x9D",
    "0",
    "1",
    "9",
    "\xD9\xA1",
    "\xE2\x85\xA7",
    "\xC2\xBD",
    "\xE2\x91\xA0",
    " ",
    " ",
    " ",
    "\n",
    "\n",
    "\r",
    "\t",
    "\x0B",
    "\x0C",
    "\xC2\x85",
    "\xC2\xA0",
    "\xE1\x9A\x80",
    "\xE2\x80\x83",
    "\xE2\x80\xA8",
    "\xE2\x80\xA9",
    "\xE2\x80\xAF",
    "\xE2\x81\x9F",
    "\xE3\x80\x80",
    ".",
    ",",
    "-",
    "_",
    "/",
    "/",
    "(",
    "\xC2\xAB",
    "\xE2\x80\x99",
    "\xE3\x80\x82",
    "+",
    "$",
    "^",
    "`",
    "\xE2\x82\xAC",
    "\xF0\x9F\x91\x8B",
    "\xEF\xB8\x8F",
    "\xE2\x80\x8B",
    "\xE2\x80\x8D",
    "\x01",
    "\x7F",
    "\xEF\xBB\xBF",
    "\xEE\x80\x80",
    "\xF0\x9D\x95\xB3",
    "\xF0\x9D\x9F\x99",
    "\xF0\x90\x90\x80",
    "\xEF\xBF\xBF",
};

typedef struct match {
    size_t begin, end;
} match;

static size_t put_gap(match *out, size_t begin, size_t end) {
    *out = (match){begin, end};
    return begin < end;
}

static size_t scan_all(const tdm_scan_rule *rule, const tdm_unicode *unicode, const char *text,
                       size_t len, match out[256]) {
    size_t n = 0;
    size_t pos = 0;
    size_t gap = 0;
    while (pos < len) {
        uint32_t cp = 0;
        const size_t end = tdm_scan(rule, unicode, text, len, pos);
        if (end == 0) {
            pos += tdm_utf8_decode(text + pos, len - pos, &cp, NULL);
            pos = tdm_scan_skip(rule, unicode, text, len, pos);
            continue;
        }
        assert_true(end > pos && end <= len && n < 254);
        n += put_gap(out + n, gap, pos);
        out[n++] = (match){pos, end};
        pos = gap = end;
    }
    return n + put_gap(out + n, gap, len);
}

static size_t find_all(const tdm_regex *regex, tdm_regex_scratch *scratch, const char *text,
                       size_t len, match out[256]) {
    size_t n = 0;
    size_t pos = 0;
    bool is_found = true;
    while (pos < len && is_found) {
        match m = {0, 0};
        assert_int_equal(
            tdm_regex_find(regex, scratch, text, len, pos, &is_found, &m.begin, &m.end, NULL),
            TDM_OK);
        if (is_found) {
            assert_true(m.end > m.begin && n < 254);
            n += put_gap(out + n, pos, m.begin);
            out[n++] = m;
            pos = m.end;
        }
    }
    return n + put_gap(out + n, pos, len);
}

/* Mostly random characters, with runs, because runs are where a greedy choice is taken back. */
static size_t draw_text(uint32_t rule, uint32_t idx, char *out) {
    uint32_t draw = 0;
    size_t len = 0;
    const size_t n = 1 + (size_t)(tdm_random_u64(11, rule, idx, draw++) % 12);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = tdm_random_u64(11, rule, idx, draw++);
        const char *c = CHARS[bits % SUPPORT_LEN(CHARS)];
        const size_t repeat = (bits >> 32) % 4 == 0 ? 1 + (size_t)((bits >> 40) % 5) : 1;
        for (size_t k = 0; k < repeat; k++) {
            memcpy(out + len, c, strlen(c));
            len += strlen(c);
        }
    }
    return len;
}

static void check_rule(uint32_t idx, const tdm_scan_rule *rule, const tdm_unicode *unicode) {
    tdm_arena arena;
    tdm_regex_scratch scratch;
    tdm_error err = {TDM_OK, "", "", "", ""};
    const tdm_regex *regex = NULL;
    tdm_arena_init(&arena, NULL);
    tdm_regex_scratch_init(&scratch, NULL);
    if (tdm_regex_create(&regex, &arena, rule->pattern, strlen(rule->pattern), false, &err) !=
        TDM_OK) {
        fail_msg("%s: %s (%s)", rule->pattern, err.what, err.where);
    }
    for (uint32_t i = 0; i < TEXTS_PER_RULE; i++) {
        char text[12 * 5 * 4];
        match got[256];
        match want[256];
        const size_t len = draw_text(idx, i, text);
        size_t n_got = scan_all(rule, unicode, text, len, got);
        size_t n_want = find_all(regex, &scratch, text, len, want);
        bool is_equal = n_got == n_want && memcmp(got, want, n_got * sizeof(match)) == 0;
        if (!is_equal) {
            (void)printf("text:");
            for (size_t k = 0; k < len; k++) {
                (void)printf(" %02x", (unsigned)(uint8_t)text[k]);
            }
            for (size_t k = 0; k < n_got; k++) {
                (void)printf("\n got %zu-%zu", got[k].begin, got[k].end);
            }
            for (size_t k = 0; k < n_want; k++) {
                (void)printf("\n want %zu-%zu", want[k].begin, want[k].end);
            }
            (void)printf("\n");
            fail_msg("rule %u, text %u: %s", idx, i, rule->pattern);
        }
    }
    tdm_regex_scratch_deinit(&scratch);
    tdm_arena_deinit(&arena);
}

static void test_scanners_equal_pcre2(void **state) {
    tdm_unicode *unicode = calloc(1, sizeof(*unicode));
    uint32_t idx = 0;
    (void)state;
    assert_non_null(unicode);
    tdm_unicode_init(unicode);
    for (const tdm_scan_rule *rule = tdm_scan_at(0); rule != NULL; rule = tdm_scan_at(++idx)) {
        assert_ptr_equal(tdm_scan_find(rule->pattern, strlen(rule->pattern)), rule);
        check_rule(idx, rule, unicode);
    }
    assert_true(idx > 20);
    free(unicode);
}

/* The library's table and PCRE2's agree on the characters used above; without this the property
 * could fail for a reason that is not the scanner's. */
static void test_classes_agree(void **state) {
    static const struct {
        const char *expr;
        uint32_t bits;
    } CLASSES[] = {{"\\p{L}", TDM_UC_L},   {"\\p{N}", TDM_UC_N},   {"\\p{M}", TDM_UC_M},
                   {"\\p{P}", TDM_UC_P},   {"\\p{S}", TDM_UC_S},   {"\\p{Lu}", TDM_UC_LU},
                   {"\\p{Ll}", TDM_UC_LL}, {"\\p{Lt}", TDM_UC_LT}, {"\\p{Lm}", TDM_UC_LM},
                   {"\\p{Lo}", TDM_UC_LO}, {"\\s", TDM_UC_SPACE}};
    tdm_arena arena;
    tdm_regex_scratch scratch;
    (void)state;
    tdm_arena_init(&arena, NULL);
    tdm_regex_scratch_init(&scratch, NULL);
    for (size_t k = 0; k < SUPPORT_LEN(CLASSES); k++) {
        const tdm_regex *regex = NULL;
        assert_int_equal(
            tdm_regex_create(&regex, &arena, CLASSES[k].expr, strlen(CLASSES[k].expr), false, NULL),
            TDM_OK);
        for (size_t i = 0; i < SUPPORT_LEN(CHARS); i++) {
            bool is_found = false;
            size_t begin = 0;
            size_t end = 0;
            uint32_t cp = 0;
            (void)tdm_utf8_decode(CHARS[i], strlen(CHARS[i]), &cp, NULL);
            assert_int_equal(tdm_regex_find(regex, &scratch, CHARS[i], strlen(CHARS[i]), 0,
                                            &is_found, &begin, &end, NULL),
                             TDM_OK);
            if (is_found != ((tdm_unicode_bits_of(tdm_unicode_class(cp)) & CLASSES[k].bits) != 0)) {
                fail_msg("U+%04X and %s", cp, CLASSES[k].expr);
            }
        }
    }
    tdm_regex_scratch_deinit(&scratch);
    tdm_arena_deinit(&arena);
}

static tdm_status compile(const char *pattern, tdm_error *err) {
    tdm_arena arena;
    const tdm_regex *regex = NULL;
    tdm_arena_init(&arena, NULL);
    const tdm_status status = tdm_regex_create(&regex, &arena, pattern, strlen(pattern), true, err);
    tdm_arena_deinit(&arena);
    return status;
}

static void test_expressions_are_refused_with_words(void **state) {
    tdm_error err = {TDM_OK, "", "", "", ""};
    (void)state;
    assert_int_equal(compile("(a", &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "offset"));
    assert_int_equal(compile("[a&&b]", &err), TDM_E_UNSUPPORTED);
    assert_int_equal(compile("[a[b]]", &err), TDM_E_UNSUPPORTED);
    assert_int_equal(compile("[\\W]", &err), TDM_E_UNSUPPORTED);
    assert_int_equal(compile("[[:alpha:]\\s]+|\\h|\\u0041", &err), TDM_OK);
    assert_int_equal(compile("\\C", &err), TDM_E_FORMAT);
}

/* An expression that backtracks without end meets its budget. */
static void test_hostile_expression_ends(void **state) {
    static const char PATTERN[] = "(a+)+$";
    char text[64];
    tdm_arena arena;
    tdm_regex_scratch scratch;
    tdm_error err = {TDM_OK, "", "", "", ""};
    const tdm_regex *regex = NULL;
    bool is_found = false;
    size_t begin = 0;
    size_t end = 0;
    (void)state;
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = 'b';
    tdm_arena_init(&arena, NULL);
    tdm_regex_scratch_init(&scratch, NULL);
    assert_int_equal(tdm_regex_create(&regex, &arena, PATTERN, strlen(PATTERN), false, &err),
                     TDM_OK);
    assert_int_equal(
        tdm_regex_find(regex, &scratch, text, sizeof(text), 0, &is_found, &begin, &end, &err),
        TDM_E_LIMIT);
    assert_true(err.limit[0] != '\0');
    tdm_regex_scratch_deinit(&scratch);
    tdm_arena_deinit(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes_agree),
        cmocka_unit_test(test_scanners_equal_pcre2),
        cmocka_unit_test(test_expressions_are_refused_with_words),
        cmocka_unit_test(test_hostile_expression_ends),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
