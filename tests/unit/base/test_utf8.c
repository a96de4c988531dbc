/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 against tables made from the encodings of all scalar values: what begins a character, and
 * how far, is looked up there, never computed from lead bytes. All strings of up to three bytes,
 * and those of four near every edge. */
#include "support/support.h"

#include "base/random.h"
#include "base/utf8.h"

/* Bit sets: prefix[n][bytes] says that these n bytes begin some character, whole[n] that they are
 * one. Characters of four bytes are looked up in a sorted list. */
typedef struct tables {
    uint8_t *prefix[4];
    uint8_t *whole[4];
} tables;

static uint32_t number_of(const char *text, size_t n) {
    uint32_t value = 0;
    for (size_t i = 0; i < n; i++) {
        value = value << 8 | (unsigned char)text[i];
    }
    return value;
}

static void set_bit(uint8_t *set, uint32_t at) {
    set[at / 8] = (uint8_t)(set[at / 8] | (1U << (at % 8)));
}

static bool has_bit(const uint8_t *set, uint32_t at) {
    return (((unsigned)set[at / 8] >> (at % 8)) & 1U) != 0;
}

/* The encoding by the book, spelled with division. */
static size_t naive_encode(uint32_t cp, char out[4]) {
    const uint32_t d[4] = {cp % 64, cp / 64 % 64, cp / 4096 % 64, cp / 262144};
    if (cp < 128) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 2048) {
        out[0] = (char)(192 + d[1]);
        out[1] = (char)(128 + d[0]);
        return 2;
    }
    if (cp < 65536) {
        out[0] = (char)(224 + d[2]);
        out[1] = (char)(128 + d[1]);
        out[2] = (char)(128 + d[0]);
        return 3;
    }
    out[0] = (char)(240 + d[3]);
    out[1] = (char)(128 + d[2]);
    out[2] = (char)(128 + d[1]);
    out[3] = (char)(128 + d[0]);
    return 4;
}

static bool is_scalar(uint32_t cp) {
    return cp <= 0x10FFFF && (cp < 0xD800 || cp > 0xDFFF);
}

static int set_up(void **state) {
    tables *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (size_t n = 1; n <= 3; n++) {
        t->prefix[n] = calloc((size_t)1 << (8 * n - 3), 1);
        t->whole[n] = calloc((size_t)1 << (8 * n - 3), 1);
        assert_true(t->prefix[n] != NULL && t->whole[n] != NULL);
    }
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char text[4];
        if (is_scalar(cp)) {
            const size_t n = naive_encode(cp, text);
            for (size_t i = 1; i < n; i++) {
                set_bit(t->prefix[i], number_of(text, i));
            }
            if (n < 4) {
                set_bit(t->whole[n], number_of(text, n));
            }
        }
    }
    *state = t;
    return 0;
}

static int tear_down(void **state) {
    tables *t = *state;
    for (size_t n = 1; n <= 3; n++) {
        free(t->prefix[n]);
        free(t->whole[n]);
    }
    free(t);
    return 0;
}

/* Bytes of the first character or maximal subpart by the tables. */
static size_t expected(const tables *t, const char *text, size_t len, bool *out_whole) {
    size_t reach = 0;
    *out_whole = false;
    for (size_t n = 1; n <= len && n <= 3; n++) {
        if (has_bit(t->whole[n], number_of(text, n))) {
            *out_whole = true;
            return n;
        }
        if (!has_bit(t->prefix[n], number_of(text, n))) {
            break;
        }
        reach = n;
    }
    if (reach == 3 && len >= 4 && ((unsigned char)text[3] & 0xC0U) == 0x80U) {
        *out_whole = true; /* any continuation byte may end four of them */
        return 4;
    }
    return reach > 0 ? reach : 1;
}

static void check_string(const tables *t, const char *text, size_t len) {
    bool want_whole = false;
    bool got_whole = false;
    uint32_t cp = 0;
    char again[4];
    const size_t want = expected(t, text, len, &want_whole);
    const size_t got = tdm_utf8_decode(text, len, &cp, &got_whole);
    if (got != want || got_whole != want_whole) {
        fail_msg("bytes %08x of %zu: took %zu (%d), want %zu (%d)", number_of(text, len), len, got,
                 got_whole, want, want_whole);
    }
    if (want_whole) {
        assert_true(is_scalar(cp));
        assert_int_equal(naive_encode(cp, again), want);
        assert_memory_equal(again, text, want);
    } else {
        assert_int_equal(cp, TDM_UTF8_REPLACEMENT);
    }
    /* The longest valid prefix, character by character. */
    size_t valid = 0;
    for (bool is_whole = true; valid < len;) {
        const size_t n = expected(t, text + valid, len - valid, &is_whole);
        if (!is_whole) {
            break;
        }
        valid += n;
    }
    assert_int_equal(tdm_utf8_valid_prefix(text, len), valid);
}

/* A tail that could still become a character: it begins one, and is not one. */
static void check_tail(const tables *t, const char *text, size_t len) {
    size_t want = 0;
    for (size_t back = 1; back <= 3 && back <= len; back++) {
        const uint32_t tail = number_of(text + len - back, back);
        if (has_bit(t->prefix[back], tail)) {
            want = back;
        }
    }
    assert_int_equal(tdm_utf8_incomplete_tail(text, len), want);
}

static void test_all_scalars(void **state) {
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char want[4];
        char got[4];
        uint32_t back = 0;
        bool is_ok = false;
        if (!is_scalar(cp)) {
            continue;
        }
        const size_t n = naive_encode(cp, want);
        if (tdm_utf8_encode(cp, got) != n || memcmp(want, got, n) != 0 ||
            tdm_utf8_decode(got, n, &back, &is_ok) != n || !is_ok || back != cp ||
            tdm_utf8_valid_prefix(got, n) != n || tdm_utf8_count(got, n) != 1) {
            fail_msg("U+%04X", cp);
        }
    }
}

static void test_all_short_strings(void **state) {
    const tables *t = *state;
    for (size_t len = 1; len <= 2; len++) {
        for (uint32_t v = 0; v < (uint32_t)1 << (8 * len); v++) {
            char text[3] = {(char)(v >> (8 * (len - 1))), (char)v, 0};
            check_string(t, text, len);
            check_tail(t, text, len);
        }
    }
    /* Of three bytes: every first byte that is not plain, every second and third. */
    for (uint32_t v = 0x7E0000; v < 0x1000000; v++) {
        const char text[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};
        bool want_whole = false;
        bool got_whole = false;
        uint32_t cp = 0;
        if (tdm_utf8_decode(text, 3, &cp, &got_whole) != expected(t, text, 3, &want_whole) ||
            got_whole != want_whole) {
            check_string(t, text, 3); /* says what is wrong */
        }
        if (v % 61 == 0) {
            check_string(t, text, 3);
            check_tail(t, text, 3);
        }
    }
}

static void test_four_bytes(void **state) {
    const unsigned char edges[] = {0x00, 0x41, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F, 0xA0,
                                   0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED,
                                   0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    const size_t n = SUPPORT_LEN(edges);
    const tables *t = *state;
    for (size_t i = 0; i < n * n * n * n; i++) {
        const char text[4] = {(char)edges[i % n], (char)edges[i / n % n],
                              (char)edges[i / n / n % n], (char)edges[i / n / n / n]};
        check_string(t, text, 4);
        check_tail(t, text, 4);
    }
}

/* Long texts: the eight-bytes-at-a-time path of valid_prefix, at every alignment. */
static void test_long_texts(void **state) {
    const tables *t = *state;
    for (uint32_t round = 0; round < 3000; round++) {
        char text[64];
        for (size_t i = 0; i < sizeof text; i++) {
            const uint64_t r = tdm_random_u64(1, 0, round, (uint32_t)i);
            text[i] = (char)(r % 23 == 0 ? 0x80 + r / 23 % 128 : 0x20 + r / 23 % 90);
        }
        if (round % 2 == 0) { /* a valid character in the middle of ASCII */
            memset(text, 'a', sizeof text);
            (void)naive_encode(0x20AC + round, text + round / 2 % 60);
        }
        for (size_t from = 0; from < 9; from++) {
            check_string(t, text + from, sizeof text - from);
        }
    }
    assert_int_equal(tdm_utf8_valid_prefix("", 0), 0);
    assert_int_equal(tdm_utf8_incomplete_tail("", 0), 0);
    assert_int_equal(tdm_utf8_count("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 10), 4);
    uint32_t cp = 0;
    assert_int_equal(tdm_utf8_decode("\xFF", 1, &cp, NULL), 1); /* ok may be NULL */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_scalars),
        cmocka_unit_test(test_all_short_strings),
        cmocka_unit_test(test_four_bytes),
        cmocka_unit_test(test_long_texts),
    };
    return support_exit(cmocka_run_group_tests(tests, set_up, tear_down), SUPPORT_LEN(tests));
}
