/* SPDX-License-Identifier: Apache-2.0
 *
 * The GGUF models bert, t5 and gemma4, made here out of the committed kinds: the same tokens for the
 * same text. And white space that goes with tokens, which the model's name tells. */
#include "unit/text/tok_kit.h"

#include "formats/gguf.h"
#include "text/tokenizer_priv.h"
#include "unit/formats/bytes.h"

#define META "\xE2\x96\x81"

static void put_array(bytes *b, const char *key, uint32_t type, size_t n) {
    gguf_key(b, key, 9);
    bytes_u32(b, type);
    bytes_u64(b, n);
}

static tdm_tokenizer *load(bytes *b) {
    tdm_gguf *gguf = NULL;
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    bytes_pad(b, 32);
    if (tdm_gguf_parse(&gguf, NULL, b->data, b->len, "made.gguf", &err) != TDM_OK ||
        tdm_tokenizer_from_gguf(&made, NULL, gguf, "made.gguf", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_gguf_destroy(gguf);
    bytes_free(b);
    return made;
}

static void expect_ids(const tdm_tokenizer *made, const char *text, size_t len, bool adds_special,
                       const tdm_json *want) {
    const tdm_encode_options options = {adds_special, true, false};
    tdm_ids ids;
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode(made, text, len, &options, &ids, NULL), TDM_OK);
    bool is_equal = ids.len == tdm_json_len(want);
    for (size_t i = 0; is_equal && i < ids.len; i++) {
        int64_t id = -1;
        is_equal = tdm_json_as_i64(&want->u.items[i], &id) && ids.ids[i] == id;
    }
    if (!is_equal) {
        fail_msg("ids differ for %s", text);
    }
    tdm_ids_deinit(&ids);
}

/* word -> U+2581 word, ##tail -> tail, as the peer's converter does; special tokens stay. */
static void test_bert(void **state) {
    tok_kind kind = tok_kind_open("bert-wordpiece");
    const int32_t n = tdm_tokenizer_n_vocab(kind.tokenizer);
    bytes b = {0};
    (void)state;
    gguf_head(&b, 0, 8);
    gguf_kv_text(&b, "general.architecture", "bert");
    gguf_kv_text(&b, "tokenizer.ggml.model", "bert");
    gguf_kv_u32(&b, "tokenizer.ggml.bos_token_id", 2);
    gguf_kv_u32(&b, "tokenizer.ggml.unknown_token_id", 1);
    gguf_kv_u32(&b, "tokenizer.ggml.seperator_token_id", 3);
    gguf_kv_u32(&b, "tokenizer.ggml.padding_token_id", 0);
    put_array(&b, "tokenizer.ggml.tokens", 8, (size_t)n);
    for (int32_t id = 0; id < n; id++) {
        char spelled[300];
        size_t len = 0;
        const char *text = tdm_tokenizer_spelling(kind.tokenizer, id, &len);
        const bool is_tail = len > 2 && memcmp(text, "##", 2) == 0;
        (void)snprintf(spelled, sizeof(spelled), "%s%s", is_tail || id < 5 ? "" : META,
                       text + (is_tail ? 2 : 0));
        gguf_text(&b, spelled);
    }
    put_array(&b, "tokenizer.ggml.token_type", 5, (size_t)n);
    for (int32_t id = 0; id < n; id++) {
        bytes_u32(&b, id == 1 ? 2 : id < 5 ? 3 : 1);
    }
    tdm_tokenizer *made = load(&b);
    for (size_t i = 0; i < tdm_json_len(kind.cases); i++) {
        const tdm_json *c = &kind.cases->u.items[i];
        const tdm_json *text = tdm_json_get(c, "text");
        if (text->len > 100 ||
            strstr(text->u.text, META) != NULL) { /* no limit, and its own mark */
            continue;
        }
        expect_ids(made, text->u.text, text->len, false, tdm_json_get(c, "ids"));
        expect_ids(made, text->u.text, text->len, true, tdm_json_get(c, "ids_with_special"));
    }
    assert_non_null(strstr(tdm_tokenizer_describe(made), "wordpiece"));
    tdm_tokenizer_destroy(made);
    tok_kind_close(&kind);
}

static void test_bert_texts(void **state) {
    static const char *const TOKENS[] = {"[UNK]", "[CLS]",  "[SEP]", META "hello",
                                         "s",     META ",", META};
    tdm_tokenizer *made = NULL;
    tdm_buf out;
    tdm_ids ids;
    bytes b = {0};
    (void)state;
    gguf_head(&b, 0, 6);
    gguf_kv_text(&b, "tokenizer.ggml.model", "bert");
    gguf_kv_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    gguf_kv_u32(&b, "tokenizer.ggml.unknown_token_id", 0);
    gguf_kv_u32(&b, "tokenizer.ggml.seperator_token_id", 2);
    put_array(&b, "tokenizer.ggml.tokens", 8, SUPPORT_LEN(TOKENS));
    for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
        gguf_text(&b, TOKENS[i]);
    }
    gguf_kv_text(&b, "general.architecture", "bert");
    made = load(&b);
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    tok_encode(made, "Hellos, s x", 11, false, &ids);
    const int32_t want[] = {3, 4, 5, 6, 4, 0};
    assert_int_equal(ids.len, SUPPORT_LEN(want));
    assert_memory_equal(ids.ids, want, sizeof(want));
    assert_int_equal(tdm_tokenizer_decode(made, ids.ids, 3, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "hellos ,");
    tdm_buf_deinit(&out);
    tdm_ids_deinit(&ids);
    tdm_tokenizer_destroy(made);
}

static void put_t5(bytes *b, bool has_map) {
    static const char *const TOKENS[] = {"<pad>", "</s>", "<unk>",   META "a", "a",
                                         "b",     "ab",   META "ab", META,     "<x>"};
    static const float SCORES[] = {0, 0, 0, -1, -2, -2, -3.5f, -1.5f, -4, 0};
    gguf_head(b, 0, has_map ? 7 : 6);
    gguf_kv_text(b, "general.architecture", "t5");
    gguf_kv_text(b, "tokenizer.ggml.model", "t5");
    gguf_key(b, "tokenizer.ggml.remove_extra_whitespaces", 7);
    bytes_number(b, 1, 1);
    put_array(b, "tokenizer.ggml.tokens", 8, SUPPORT_LEN(TOKENS));
    for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
        gguf_text(b, TOKENS[i]);
    }
    put_array(b, "tokenizer.ggml.token_type", 5, SUPPORT_LEN(TOKENS));
    for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
        bytes_u32(b, i == 2 ? 2 : i < 2 ? 3 : i == 9 ? 4 : 1);
    }
    put_array(b, "tokenizer.ggml.scores", 6, SUPPORT_LEN(SCORES));
    for (size_t i = 0; i < SUPPORT_LEN(SCORES); i++) {
        bytes_f32(b, SCORES[i]);
    }
}

static void expect_t5(const tdm_tokenizer *made, const char *text, const int32_t *want, size_t n) {
    const tdm_encode_options options = {true, false, false};
    tdm_ids ids;
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode(made, text, strlen(text), &options, &ids, NULL), TDM_OK);
    if (ids.len != n || memcmp(ids.ids, want, n * sizeof(*want)) != 0) {
        for (size_t i = 0; i < ids.len; i++) {
            (void)printf(" %d", (int)ids.ids[i]);
        }
        fail_msg("ids differ for %s", text);
    }
    tdm_ids_deinit(&ids);
}

static void test_t5(void **state) {
    bytes b = {0};
    tdm_buf out;
    (void)state;
    put_t5(&b, false);
    tdm_tokenizer *made = load(&b);
    expect_t5(made, "ab  a ", (const int32_t[]){7, 3, 1}, 3);
    expect_t5(made, " a\xC3\xA9\xC3\xA9z b", (const int32_t[]){3, 2, 8, 5, 1}, 5);
    expect_t5(made, "a<x>b", (const int32_t[]){3, 9, 8, 5, 1}, 5);
    expect_t5(made, "", (const int32_t[]){1}, 1);
    expect_t5(made, "</s>", (const int32_t[]){8, 2, 1}, 3);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(made, (const int32_t[]){7, 3, 1}, 3, true, &out, NULL),
                     TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "ab a");
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(made);
}

/* A character map of one entry: B becomes b. The double array has 256 units and more: unit 0 points
 * at 256; 256 ^ 'B' carries the label, and at an offset of its own the value. */
static void put_map(bytes *b) {
    const uint32_t at = 256u ^ (uint32_t)'B';
    const uint32_t value_at = 600u;
    uint32_t units[1024] = {0};
    units[0] = 256u << 10;
    units[at] = (at ^ value_at) << 10 | 0x100u | (uint32_t)'B';
    units[value_at] = 0x80000000u;
    put_array(b, "tokenizer.ggml.precompiled_charsmap", 0, 4 + sizeof(units) + 2);
    bytes_u32(b, (uint32_t)sizeof(units));
    for (size_t i = 0; i < SUPPORT_LEN(units); i++) {
        bytes_u32(b, units[i]);
    }
    bytes_put(b, "b", 2);
}

static void test_t5_map(void **state) {
    bytes b = {0};
    (void)state;
    put_t5(&b, true);
    put_map(&b);
    tdm_tokenizer *made = load(&b);
    expect_t5(made, "aB", (const int32_t[]){7, 1}, 2);
    tdm_tokenizer_destroy(made);
}

/* Maps that lie about their sizes are refused, or find nothing. */
static void test_broken_maps(void **state) {
    tdm_arena arena;
    tdm_charsmap map;
    tdm_error err = {TDM_OK, "", "", "", ""};
    (void)state;
    tdm_arena_init(&arena, NULL);
    assert_int_equal(tdm_charsmap_init(&map, &arena, "\x08\0\0\0abcd", 8, true, &err),
                     TDM_E_FORMAT);
    assert_int_equal(tdm_charsmap_init(&map, &arena, "\x03\0\0\0abcd", 8, true, &err),
                     TDM_E_FORMAT);
    assert_int_equal(tdm_charsmap_init(&map, &arena, "\x04\0\0\0abcdx", 9, true, &err),
                     TDM_E_FORMAT);
    assert_int_equal(tdm_charsmap_init(&map, &arena, "\xFF\xFF\xFF\xFF", 4, true, &err),
                     TDM_E_FORMAT);
    assert_int_equal(tdm_charsmap_init(&map, &arena, "ab", 2, true, &err), TDM_E_FORMAT);
    uint32_t seed = 1;
    for (uint32_t round = 0; round < 2000; round++) {
        char blob[4 + 64 + 4];
        for (size_t i = 0; i < sizeof(blob); i++) {
            seed = seed * 1664525u + 1013904223u;
            blob[i] = (char)(uint8_t)(seed >> 24);
        }
        memcpy(blob, "\x40\0\0\0", 4);
        blob[sizeof(blob) - 1] = '\0';
        assert_int_equal(tdm_charsmap_init(&map, &arena, blob, sizeof(blob), true, &err), TDM_OK);
        for (uint32_t byte = 1; byte < 256; byte++) {
            const char text[3] = {(char)(uint8_t)byte, 'a', (char)(uint8_t)(byte ^ 0x55)};
            const char *out = NULL;
            size_t out_len = 0;
            const size_t n = tdm_charsmap_find(&map, text, 3, true, &out, &out_len);
            assert_true(n <= 3 && (n == 0 || out_len < 4));
        }
        tdm_arena_deinit(&arena);
        tdm_arena_init(&arena, NULL);
    }
    tdm_arena_deinit(&arena);
}

/* Gemma 4: merges of characters, bytes for the rest, a beginning though the file says no. */
static void test_gemma4(void **state) {
    static const char *const TOKENS[] = {"<pad>",   "<bos>", "a",    "b",      "ab",    META,
                                         META "ab", "\n",    "\n\n", "<0xC3>", "<0xA9>"};
    static const char *const MERGES[] = {"a b", META " ab", "\n \n"};
    tdm_tokenizer *made = NULL;
    bytes b = {0};
    (void)state;
    gguf_head(&b, 0, 6);
    gguf_kv_text(&b, "general.architecture", "gemma4");
    gguf_kv_text(&b, "tokenizer.ggml.model", "gemma4");
    gguf_kv_u32(&b, "tokenizer.ggml.bos_token_id", 1);
    put_array(&b, "tokenizer.ggml.tokens", 8, SUPPORT_LEN(TOKENS));
    for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
        gguf_text(&b, TOKENS[i]);
    }
    put_array(&b, "tokenizer.ggml.token_type", 5, SUPPORT_LEN(TOKENS));
    for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
        bytes_u32(&b, i < 2 ? 3 : i >= 9 ? 6 : 1);
    }
    put_array(&b, "tokenizer.ggml.merges", 8, SUPPORT_LEN(MERGES));
    for (size_t i = 0; i < SUPPORT_LEN(MERGES); i++) {
        gguf_text(&b, MERGES[i]);
    }
    made = load(&b);
    expect_t5(made, "ab ab\n\n\xC3\xA9", (const int32_t[]){1, 4, 6, 8, 9, 10}, 6);
    tdm_tokenizer_destroy(made);
}

static void test_stripped_spaces(void **state) {
    static const char *const TOKENS[] = {"<unk>", "<s>", "</s>", "<|end|>", META, "a", META "a"};
    static const char *const NAMES[] = {"Phi-3 mini", "other"};
    (void)state;
    for (size_t k = 0; k < 2; k++) {
        bytes b = {0};
        gguf_head(&b, 0, 6);
        gguf_kv_text(&b, "general.architecture", "phi3");
        gguf_kv_text(&b, "general.name", NAMES[k]);
        gguf_kv_text(&b, "tokenizer.ggml.model", "llama");
        put_array(&b, "tokenizer.ggml.tokens", 8, SUPPORT_LEN(TOKENS));
        for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
            gguf_text(&b, TOKENS[i]);
        }
        put_array(&b, "tokenizer.ggml.token_type", 5, SUPPORT_LEN(TOKENS));
        for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
            bytes_u32(&b, i == 0 ? 2 : i < 4 ? 3 : 1);
        }
        put_array(&b, "tokenizer.ggml.scores", 6, SUPPORT_LEN(TOKENS));
        for (size_t i = 0; i < SUPPORT_LEN(TOKENS); i++) {
            bytes_f32(&b, -(float)i);
        }
        tdm_tokenizer *made = load(&b);
        tdm_ids ids;
        tdm_ids_init(&ids, NULL);
        tok_encode(made, "a<|end|> \n a", 12, true, &ids);
        assert_int_equal(ids.ids[1], 3);
        assert_int_equal(ids.len, k == 0 ? 3 : 6);
        tdm_ids_deinit(&ids);
        tdm_tokenizer_destroy(made);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),
        cmocka_unit_test(test_bert_texts),
        cmocka_unit_test(test_t5),
        cmocka_unit_test(test_t5_map),
        cmocka_unit_test(test_broken_maps),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_stripped_spaces),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
