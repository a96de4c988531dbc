/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming detokenizer's law on random ids (which no encoder would give: broken characters,
 * lone bytes, special tokens anywhere): any cutting, finished, equals one call; no push hands out
 * half a character; a bad id changes nothing. */
#include "support/support.h"

#include "base/random.h"
#include "base/utf8.h"
#include "text/detok.h"

static const char *const KINDS[] = {
    "gpt2-bytelevel",    "llama3",   "o200k",         "qwen2-nfc",           "qwen35-nfc",
    "qwen2-added-flags", "deepseek", "smollm-digits", "llama2-bytefallback", "gemma-bytefallback"};
#define SEQUENCES 300
#define IDS_MAX 24

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

/* Half of the ids come from the first 320, where the single bytes are. */
static size_t draw_ids(const tdm_tokenizer *tokenizer, uint32_t seq, int32_t ids[IDS_MAX]) {
    uint32_t draw = 0;
    const size_t n = (size_t)(tdm_random_u64(5, seq, 0, draw++) % IDS_MAX);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = tdm_random_u64(5, seq, 0, draw++);
        const uint64_t range = bits % 2 == 0 ? 320 : (uint64_t)tdm_tokenizer_n_vocab(tokenizer);
        ids[i] = (int32_t)((bits >> 16) % range);
    }
    return n;
}

static void check_sequence(const tdm_tokenizer *tokenizer, tdm_detok *detok, uint32_t seq,
                           bool skips_special) {
    int32_t ids[IDS_MAX] = {0};
    tdm_buf whole;
    tdm_buf stream;
    size_t pos = 0;
    uint32_t draw = 0;
    const size_t n = draw_ids(tokenizer, seq, ids);
    tdm_buf_init(&whole, NULL, 0);
    tdm_buf_init(&stream, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, ids, n, skips_special, &whole, NULL), TDM_OK);
    assert_int_equal(tdm_utf8_valid_prefix(whole.data, whole.len), whole.len);
    while (pos < n) {
        size_t step = (size_t)(tdm_random_u64(6, seq, 0, draw++) % 5);
        step = step > n - pos ? n - pos : step;
        assert_int_equal(tdm_detok_push(detok, ids + pos, step, &stream, NULL), TDM_OK);
        assert_int_equal(tdm_utf8_valid_prefix(stream.data, stream.len), stream.len);
        assert_true(stream.len <= whole.len);
        pos += step;
    }
    assert_int_equal(tdm_detok_finish(detok, &stream, NULL), TDM_OK);
    assert_int_equal(stream.len, whole.len);
    assert_true(whole.len == 0 || memcmp(stream.data, whole.data, whole.len) == 0);
    tdm_buf_deinit(&whole);
    tdm_buf_deinit(&stream);
}

/* One detokenizer serves all sequences: finish leaves it as new. */
static void test_any_cutting(void **state) {
    (void)state;
    for (size_t k = 0; k < SUPPORT_LEN(KINDS); k++) {
        tdm_tokenizer *tokenizer = open_kind(KINDS[k]);
        for (int skips = 0; skips < 2; skips++) {
            tdm_detok *detok = NULL;
            assert_int_equal(tdm_detok_create(&detok, NULL, tokenizer, skips == 1, NULL), TDM_OK);
            for (uint32_t seq = 0; seq < SEQUENCES; seq++) {
                check_sequence(tokenizer, detok, seq, skips == 1);
            }
            tdm_detok_destroy(detok);
        }
        tdm_tokenizer_destroy(tokenizer);
    }
}

static int32_t byte_id(const tdm_tokenizer *tokenizer, unsigned byte) {
    char spelling[8];
    (void)snprintf(spelling, sizeof(spelling), "<0x%02X>", byte);
    const int32_t id = tdm_tokenizer_find(tokenizer, spelling, 6);
    assert_true(id >= 0);
    return id;
}

/* A run of byte tokens is one thing: characters when all of it is UTF-8, else U+FFFD a byte. */
static void test_runs_of_byte_tokens(void **state) {
    tdm_tokenizer *tokenizer = open_kind("gemma-bytefallback");
    const int32_t good[] = {byte_id(tokenizer, 0xC3), byte_id(tokenizer, 0xA9)};
    const int32_t bad[] = {byte_id(tokenizer, 0xC3), byte_id(tokenizer, 0xA9),
                           byte_id(tokenizer, 0x80)};
    tdm_buf out;
    (void)state;
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, good, 2, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "\xC3\xA9");
    tdm_buf_reset(&out);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, bad, 3, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    tdm_buf_reset(&out);
    assert_int_equal(tdm_tokenizer_decode_bytes(tokenizer, bad, 3, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "\xC3\xA9\x80");
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(tokenizer);
}

static void test_bad_ids(void **state) {
    tdm_tokenizer *tokenizer = open_kind("llama3");
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_detok *detok = NULL;
    tdm_buf out;
    const int32_t first_byte = tdm_tokenizer_find(tokenizer, "\xC3\x83", 2);  /* byte C3 */
    const int32_t second_byte = tdm_tokenizer_find(tokenizer, "\xC2\xA9", 2); /* byte A9 */
    const int32_t bad[] = {first_byte, tdm_tokenizer_n_vocab(tokenizer)};
    const int32_t negative = -1;
    (void)state;
    assert_true(first_byte >= 0 && second_byte >= 0);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_detok_create(&detok, NULL, tokenizer, false, NULL), TDM_OK);
    assert_int_equal(tdm_detok_push(detok, &first_byte, 1, &out, NULL), TDM_OK);
    assert_int_equal(out.len, 0);
    assert_int_equal(tdm_detok_push(detok, bad, 2, &out, &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, "outside the vocabulary"));
    assert_int_equal(tdm_detok_push(detok, &negative, 1, &out, NULL), TDM_E_ARG);
    assert_int_equal(tdm_detok_push(detok, &second_byte, 1, &out, NULL), TDM_OK);
    assert_int_equal(out.len, 2);
    assert_memory_equal(out.data, "\xC3\xA9", 2);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, bad, 2, false, &out, NULL), TDM_E_ARG);
    assert_int_equal(out.len, 2); /* what was there stays alone */
    tdm_detok_destroy(detok);
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(tokenizer);
    tdm_detok_destroy(NULL);
}

static void test_buffer_limit(void **state) {
    tdm_tokenizer *tokenizer = open_kind("llama3");
    const int32_t id = tdm_tokenizer_find(tokenizer, "a", 1);
    const int32_t ids[3] = {id, id, id};
    tdm_buf out;
    (void)state;
    tdm_buf_init(&out, NULL, 2);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, ids, 3, false, &out, NULL), TDM_E_LIMIT);
    assert_int_equal(out.len, 0);
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cutting),
        cmocka_unit_test(test_runs_of_byte_tokens),
        cmocka_unit_test(test_bad_ids),
        cmocka_unit_test(test_buffer_limit),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
