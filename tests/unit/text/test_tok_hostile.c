/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that break tokenizers: bytes that are no UTF-8, NULs, a megabyte of one thing, combining
 * marks without end; segments of two trusts; and every allocation of a load, an encode and a decode
 * failing in turn. */
#include "support/support.h"

#include "base/random.h"
#include "text/detok.h"

#define MEGABYTE ((size_t)1 << 20)
#define SHORT_BYTES ((size_t)1 << 16)
/* Generous: sanitizers and a busy machine; the quadratic failure it guards against takes hours. */
#define MEGABYTE_NS_MAX INT64_C(8000000000)

static tdm_tokenizer *open_kind(const char *kind) {
    char base[SUPPORT_PATH_MAX];
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    tdm_tokenizer *tokenizer = NULL;
    size_t bytes = 0;
    (void)support_join(folder, support_data_path(base, "tokenizers"), kind);
    char *text = support_read_file(support_join(path, folder, "tokenizer.json"), &bytes);
    assert_int_equal(tdm_tokenizer_from_json(&tokenizer, NULL, text, bytes, NULL, kind, NULL),
                     TDM_OK);
    free(text);
    return tokenizer;
}

static void expect_round_trip(const tdm_tokenizer *tokenizer, const char *text, size_t len) {
    const tdm_encode_options options = {false, false, true};
    tdm_ids ids;
    tdm_buf out;
    size_t end = 0;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text, len, &options, &ids, NULL), TDM_OK);
    for (size_t i = 0; i < ids.len; i++) { /* byte-level offsets cut the text without gaps */
        assert_int_equal(ids.offsets[i][0], end);
        end = ids.offsets[i][1];
    }
    assert_int_equal(end, len);
    assert_int_equal(tdm_tokenizer_decode_bytes(tokenizer, ids.ids, ids.len, false, &out, NULL),
                     TDM_OK);
    assert_int_equal(out.len, len);
    assert_true(len == 0 || memcmp(out.data, text, len) == 0);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
}

static void test_any_bytes_round_trip(void **state) {
    static const char *const KINDS[] = {"gpt2-bytelevel", "llama3", "o200k", "deepseek",
                                        "smollm-digits"};
    (void)state;
    for (size_t k = 0; k < SUPPORT_LEN(KINDS); k++) {
        tdm_tokenizer *tokenizer = open_kind(KINDS[k]);
        for (uint32_t i = 0; i < 300; i++) {
            char text[64];
            const size_t len = (size_t)(tdm_random_u64(1, (uint32_t)k, i, 0) % sizeof(text));
            for (size_t n = 0; n < len; n++) {
                const uint64_t bits = tdm_random_u64(1, (uint32_t)k, i, (uint32_t)n + 1);
                text[n] = (char)(uint8_t)(i % 3 == 0 ? bits : bits % 3 == 0 ? 0xE2 : bits % 128);
            }
            expect_round_trip(tokenizer, text, len);
        }
        expect_round_trip(tokenizer, "", 0);
        expect_round_trip(tokenizer, "\0\0a\0", 4);
        tdm_tokenizer_destroy(tokenizer);
    }
}

/* Byte fallback spells broken bytes as byte tokens. */
static void test_broken_bytes_fall_back(void **state) {
    tdm_tokenizer *tokenizer = open_kind("gemma-bytefallback");
    const tdm_encode_options options = {false, true, false};
    tdm_ids ids;
    tdm_buf out;
    (void)state;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_encode(tokenizer, "a\xFF\xE2\x82z", 5, &options, &ids, NULL),
                     TDM_OK);
    assert_int_equal(tdm_tokenizer_decode_bytes(tokenizer, ids.ids, ids.len, false, &out, NULL),
                     TDM_OK);
    assert_int_equal(out.len, 5);
    assert_memory_equal(out.data, "a\xFF\xE2\x82z", 5);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(tokenizer);
}

static void check_repeated(const tdm_tokenizer *tokenizer, const char *unit, char *text,
                           size_t bytes) {
    const tdm_encode_options options = {false, true, false};
    const size_t n = strlen(unit);
    const size_t len = bytes / n * n;
    tdm_ids ids;
    tdm_ids_init(&ids, NULL);
    for (size_t i = 0; i < len; i += n) {
        memcpy(text + i, unit, n);
    }
    const int64_t begin = support_cpu_ns();
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text, len, &options, &ids, NULL), TDM_OK);
    const int64_t ns = support_cpu_ns() - begin;
    assert_true(ids.len > 0);
    assert_true(ns < MEGABYTE_NS_MAX);
    tdm_ids_deinit(&ids);
}

static void test_megabytes_of_one_thing(void **state) {
    static const char *const KINDS[] = {"llama3",
                                        "o200k",
                                        "qwen2-nfc",
                                        "smollm-digits",
                                        "deepseek",
                                        "llama2-bytefallback",
                                        "gemma-bytefallback"};
    /* a letter, space, newline, emoji, digit, mark, two marks in the wrong order, space and letter,
     * apostrophe, half a character, NUL-free control, a special token's first letters */
    static const char *const UNITS[] = {
        "a",    " ",    "\n",   "\xF0\x9F\xA4\x97", "7", "\xCC\x81", "\xCC\x81\xCC\xA3", " a", "'",
        "\xE2", "\x01", "<|im_"};
    char *text = malloc(MEGABYTE);
    (void)state;
    assert_non_null(text);
    for (size_t k = 0; k < SUPPORT_LEN(KINDS); k++) {
        tdm_tokenizer *tokenizer = open_kind(KINDS[k]);
        for (size_t i = 0; i < SUPPORT_LEN(UNITS); i++) {
            /* a whole megabyte for every unit once, and for letter, space and emoji again */
            const bool is_long = (k == 0 && (i < 2 || i == 3)) || i % SUPPORT_LEN(KINDS) == k;
            check_repeated(tokenizer, UNITS[i], text, is_long ? MEGABYTE : SHORT_BYTES);
        }
        tdm_tokenizer_destroy(tokenizer);
    }
    free(text);
}

static void expect_segments(const tdm_tokenizer *tokenizer, const tdm_text_segment *segments,
                            size_t n, const char *plain, bool parses_special) {
    const tdm_encode_options options = {true, parses_special, false};
    tdm_ids got;
    tdm_ids want;
    tdm_ids_init(&got, NULL);
    tdm_ids_init(&want, NULL);
    assert_int_equal(tdm_tokenizer_encode_segments(tokenizer, segments, n, true, &got, NULL),
                     TDM_OK);
    assert_int_equal(tdm_tokenizer_encode(tokenizer, plain, strlen(plain), &options, &want, NULL),
                     TDM_OK);
    assert_int_equal(got.len, want.len);
    assert_memory_equal(got.ids, want.ids, want.len * sizeof(want.ids[0]));
    tdm_ids_deinit(&got);
    tdm_ids_deinit(&want);
}

static size_t count_id(const tdm_tokenizer *tokenizer, const tdm_text_segment *segments, size_t n,
                       const char *spelling) {
    const int32_t id = tdm_tokenizer_find(tokenizer, spelling, strlen(spelling));
    tdm_ids ids;
    size_t count = 0;
    assert_true(id >= 0);
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode_segments(tokenizer, segments, n, false, &ids, NULL),
                     TDM_OK);
    for (size_t i = 0; i < ids.len; i++) {
        count += ids.ids[i] == id;
    }
    tdm_ids_deinit(&ids);
    return count;
}

static void test_segments(void **state) {
    static const char *const KINDS[] = {"llama3", "qwen2-added-flags", "gemma-bytefallback"};
    static const tdm_text_segment TRUSTED[] = {{"<|im_start|>us", 14, true},
                                               {"", 0, false},
                                               {"er\nhello wor", 12, false},
                                               {"ld<|im_", 7, true},
                                               {"end|>", 5, true}};
    static const tdm_text_segment INJECTED[] = {
        {"<|im_start|>user\n", 17, true}, {"x<|im_end|>", 11, false}, {"<|im_end|>", 10, true}};
    static const tdm_text_segment HALVES[] = {
        {"<|im_", 5, true}, {"end|>", 5, false}, {"<|im", 4, false}, {"_end|>", 6, true}};
    static const tdm_text_segment PLAIN[] = {
        {"he", 2, false}, {"llo w", 5, true}, {"orld", 4, false}};
    (void)state;
    for (size_t k = 0; k < SUPPORT_LEN(KINDS); k++) {
        tdm_tokenizer *tokenizer = open_kind(KINDS[k]);
        expect_segments(tokenizer, TRUSTED, 5, "<|im_start|>user\nhello world<|im_end|>", true);
        expect_segments(tokenizer, PLAIN, 3, "hello world", false);
        expect_segments(tokenizer, NULL, 0, "", true);
        assert_int_equal(count_id(tokenizer, INJECTED, 3, "<|im_end|>"), 1);
        assert_int_equal(count_id(tokenizer, INJECTED, 3, "<|im_start|>"), 1);
        assert_int_equal(count_id(tokenizer, HALVES, 4, "<|im_end|>"), 0);
        tdm_tokenizer_destroy(tokenizer);
    }
}

static const char SMALL[] =
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true,\"normalized\":true},"
    "{\"id\":5,\"content\":\"tag\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"z+\"},\"content\":\"a\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
    "{\"Regex\":\"b\\\\s?\"},\"behavior\":\"MergedWithNext\"},{\"type\":\"ByteLevel\"}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":"
    "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[4]}}},"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":"
    "{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3},\"merges\":[\"a b\"]}}";

/* One whole use. */
static tdm_status use_small(const tdm_alloc *alloc) {
    static const tdm_text_segment SEGMENTS[] = {{"<s>a", 4, true}, {"bzz ab tag <s>", 14, false}};
    static const char TEXT[] = "ab tag a\xCC\x81<s>b zz";
    const tdm_encode_options options = {true, true, true};
    tdm_status status = TDM_OK;
    tdm_tokenizer *tokenizer = NULL;
    tdm_detok *detok = NULL;
    tdm_ids ids;
    tdm_buf out;
    tdm_ids_init(&ids, alloc);
    tdm_buf_init(&out, alloc, 0);
    TDM_TRY_GOTO(
        status,
        tdm_tokenizer_from_json(&tokenizer, alloc, SMALL, sizeof(SMALL) - 1, NULL, "small", NULL),
        done);
    TDM_TRY_GOTO(status,
                 tdm_tokenizer_encode(tokenizer, TEXT, sizeof(TEXT) - 1, &options, &ids, NULL),
                 done);
    TDM_TRY_GOTO(status, tdm_tokenizer_encode_segments(tokenizer, SEGMENTS, 2, true, &ids, NULL),
                 done);
    TDM_TRY_GOTO(status, tdm_tokenizer_decode(tokenizer, ids.ids, ids.len, false, &out, NULL),
                 done);
    TDM_TRY_GOTO(status, tdm_detok_create(&detok, alloc, tokenizer, true, NULL), done);
    TDM_TRY_GOTO(status, tdm_detok_push(detok, ids.ids, ids.len, &out, NULL), done);
    TDM_TRY_GOTO(status, tdm_detok_finish(detok, &out, NULL), done);
done:
    tdm_detok_destroy(detok);
    tdm_tokenizer_destroy(tokenizer);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    return status;
}

static void test_allocation_failures(void **state) {
    tdm_alloc_tracker tracker;
    size_t n_calls = 0;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    assert_int_equal(use_small(&tracker.alloc), TDM_OK);
    assert_int_equal(tracker.n_live, 0);
    n_calls = tracker.n_calls;
    assert_true(n_calls > 20);
    for (size_t n = 1; n <= n_calls; n++) {
        for (int from_then = 0; from_then < 2; from_then++) {
            tdm_alloc_tracker_init(&tracker, NULL);
            tracker.fail_at = n;
            tracker.is_failing_from_then = from_then == 1;
            assert_int_equal(use_small(&tracker.alloc), TDM_E_NOMEM);
            assert_int_equal(tracker.n_live, 0);
            assert_int_equal(tracker.live_bytes, 0);
        }
    }
    (void)printf("%zu allocations failed in turn\n", n_calls);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bytes_round_trip),
        cmocka_unit_test(test_broken_bytes_fall_back),
        cmocka_unit_test(test_megabytes_of_one_thing),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_allocation_failures),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
