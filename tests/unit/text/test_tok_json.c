/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tokenizer.json says and how a wrong one is refused: the facts (beginning, end, kinds, chat
 * template), added tokens' flags, normalizers, the typed errors with their JSON paths, and the ids
 * appended behind others. */
#include "support/support.h"

#include "formats/checkpoint.h"
#include "text/detok.h"

#define HEAD                                                                                       \
    "{\"added_tokens\":[{\"id\":4,\"content\":\"<s>\",\"special\":true},"                          \
    "{\"id\":5,\"content\":\"<|im_end|>\",\"special\":true},"                                      \
    "{\"id\":6,\"content\":\"\\u00d6\",\"special\":false,\"normalized\":false}],"
#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3},\"merges\":["  \
    "\"a b\"]}}"
#define SOUND                                                                                      \
    HEAD "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"                  \
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"     \
         "\"id\":"                                                                                 \
         "\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"<s>\":{\"ids\":[4]}}},"   \
         "\"decoder\":{\"type\":\"ByteLevel\"}," MODEL

static tdm_tokenizer *load(const char *text, const char *config_text) {
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    tdm_json_doc *config = NULL;
    if (config_text != NULL) {
        assert_int_equal(
            tdm_json_parse(&config, NULL, config_text, strlen(config_text), NULL, "c", NULL),
            TDM_OK);
    }
    if (tdm_tokenizer_from_json(&tokenizer, NULL, text, strlen(text),
                                config != NULL ? tdm_json_doc_root(config) : NULL, "t.json",
                                &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_json_doc_destroy(config);
    return tokenizer;
}

static void test_facts(void **state) {
    tdm_tokenizer *t = load(
        SOUND,
        "{\"bos_token\":{\"content\":\"<s>\"},\"eos_token\":\"<|im_end|>\",\"chat_template\":"
        "[{\"name\":\"tools\",\"template\":\"no\"},{\"name\":\"default\",\"template\":\"yes\"}]}");
    size_t len = 0;
    (void)state;
    assert_int_equal(tdm_tokenizer_n_vocab(t), 7);
    assert_int_equal(tdm_tokenizer_bos(t), 4);
    assert_int_equal(tdm_tokenizer_eos(t), 5);
    assert_true(tdm_tokenizer_adds_bos(t));
    assert_int_equal(tdm_tokenizer_n_eog(t), 1);
    assert_int_equal(tdm_tokenizer_eog_at(t, 0), 5);
    assert_int_equal(tdm_tokenizer_eog_at(t, 1), -1);
    assert_int_equal(tdm_tokenizer_kind(t, 0), TDM_TOKEN_NORMAL);
    assert_int_equal(tdm_tokenizer_kind(t, 4), TDM_TOKEN_CONTROL);
    assert_int_equal(tdm_tokenizer_kind(t, 6), TDM_TOKEN_USER);
    assert_int_equal(tdm_tokenizer_kind(t, 7), TDM_TOKEN_UNUSED);
    assert_string_equal(tdm_tokenizer_spelling(t, 5, &len), "<|im_end|>");
    assert_int_equal(len, 10);
    assert_null(tdm_tokenizer_spelling(t, -1, &len));
    assert_int_equal(tdm_tokenizer_find(t, "ab", 2), 2);
    assert_int_equal(tdm_tokenizer_find(t, "abc", 3), -1);
    assert_string_equal(tdm_tokenizer_chat_template(t, &len), "yes");
    assert_int_equal(len, 3);
    assert_string_equal(tdm_tokenizer_describe(t), "bpe byte-level, 7 tokens");
    tdm_tokenizer_destroy(t);
    t = load(SOUND, NULL);
    assert_int_equal(tdm_tokenizer_bos(t), 4); /* the post-processor's */
    assert_int_equal(tdm_tokenizer_eos(t), -1);
    assert_null(tdm_tokenizer_chat_template(t, &len));
    tdm_tokenizer_destroy(t);
    tdm_tokenizer_destroy(NULL);
}

/* An added token is its own text, though its letters are in the byte-level alphabet. */
static void test_added_token_in_the_alphabet(void **state) {
    static const char TEXT[] = "a\xC3\x96"
                               "b";
    static const int32_t WANT[] = {0, 6, 1};
    const tdm_encode_options options = {false, true, true};
    tdm_tokenizer *t = load(SOUND, NULL);
    tdm_ids ids;
    tdm_buf out;
    (void)state;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_encode(t, TEXT, 4, &options, &ids, NULL), TDM_OK);
    assert_int_equal(ids.len, 3);
    assert_memory_equal(ids.ids, WANT, sizeof(WANT));
    assert_int_equal(ids.offsets[1][0], 1);
    assert_int_equal(ids.offsets[1][1], 3);
    assert_int_equal(tdm_tokenizer_decode(t, ids.ids, ids.len, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), TEXT);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(t);
}

/* encode appends, and leaves the list as it was when it fails. */
static void test_encode_appends(void **state) {
    const tdm_encode_options options = {true, true, false};
    const tdm_encode_options with_offsets = {false, true, true};
    tdm_tokenizer *t = load(SOUND, NULL);
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_ids ids;
    (void)state;
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode(t, "ab", 2, &options, &ids, NULL), TDM_OK);
    assert_int_equal(ids.len, 2);
    assert_null(ids.offsets);
    assert_int_equal(tdm_tokenizer_encode(t, "b", 1, &with_offsets, &ids, NULL), TDM_OK);
    assert_int_equal(ids.len, 3);
    assert_int_equal(ids.offsets[0][1], 0);
    assert_int_equal(ids.offsets[2][1], 1);
    assert_int_equal(tdm_tokenizer_encode(t, "b", SIZE_MAX, &options, &ids, &err), TDM_E_LIMIT);
    assert_int_equal(ids.len, 3);
    assert_true(err.limit[0] != '\0');
    tdm_ids_deinit(&ids);
    tdm_tokenizer_destroy(t);
}

static void expect_normalized(const char *normalizer, const char *text, const char *want) {
    char json[1024];
    const tdm_encode_options options = {false, true, false};
    tdm_ids ids;
    tdm_buf out;
    (void)snprintf(json, sizeof(json),
                   "{\"normalizer\":%s,\"pre_tokenizer\":null,\"decoder\":{\"type\":\"Sequence\","
                   "\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}]},\"model\":{"
                   "\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{",
                   normalizer);
    tdm_buf text_json;
    tdm_buf_init(&text_json, NULL, 0);
    assert_int_equal(tdm_buf_append_text(&text_json, json), TDM_OK);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(
            tdm_buf_printf(&text_json, "%s\"<0x%02X>\":%d", i == 0 ? "" : ",", (unsigned)i, i),
            TDM_OK);
    }
    assert_int_equal(tdm_buf_append_text(&text_json, "}}}"), TDM_OK);
    tdm_tokenizer *t = load(tdm_buf_text(&text_json), NULL);
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_encode(t, text, strlen(text), &options, &ids, NULL), TDM_OK);
    assert_int_equal(tdm_tokenizer_decode_bytes(t, ids.ids, ids.len, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), want);
    tdm_buf_deinit(&text_json);
    tdm_buf_deinit(&out);
    tdm_ids_deinit(&ids);
    tdm_tokenizer_destroy(t);
}

static void test_normalizers(void **state) {
    (void)state;
    expect_normalized("{\"type\":\"NFC\"}", "e\xCC\x81 \xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8",
                      "\xC3\xA9 \xEA\xB0\x81");
    expect_normalized("{\"type\":\"NFC\"}", "\xEA\xB0\x80\xE1\x86\xA7", "\xEA\xB0\x80\xE1\x86\xA7");
    expect_normalized("{\"type\":\"NFC\"}", "a\xCC\x81\xCC\xA3", "\xE1\xBA\xA1\xCC\x81");
    expect_normalized("{\"type\":\"NFC\"}", "e\xFF\xCC\x81", "e\xFF\xCC\x81"); /* kept apart */
    expect_normalized("{\"type\":\"NFD\"}", "\xC3\xA9", "e\xCC\x81");
    expect_normalized("{\"type\":\"NFKC\"}", "\xEF\xAC\x81\xEF\xBD\xB6\xEF\xBE\x9E",
                      "fi\xE3\x82\xAC");
    expect_normalized("{\"type\":\"NFKD\"}", "\xE2\x91\xA0", "1");
    expect_normalized("{\"type\":\"Lowercase\"}", "ABC\xC4\xB0\xC3\x89", "abci\xCC\x87\xC3\xA9");
    expect_normalized("{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}",
                      "\xE2\x80\x83 a b \n", "a b");
    expect_normalized("{\"type\":\"Strip\",\"strip_left\":false,\"strip_right\":true}", "  ", "");
    expect_normalized("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "a", "_a");
    expect_normalized("{\"type\":\"Prepend\",\"prepend\":\"_\"}", "", "");
    expect_normalized("{\"type\":\"Replace\",\"pattern\":{\"String\":\"aa\"},\"content\":\"b\"}",
                      "aaaaa", "bba");
    expect_normalized("{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\" \"}",
                      "a  b   c d", "a b c d");
}

/* A long run of marks in falling order is sorted in the canonical way, stably. */
static void test_many_marks(void **state) {
    char text[1 + 200 * 2 + 1] = "q";
    char want[1 + 200 * 2 + 1] = "q";
    (void)state;
    for (size_t i = 0; i < 100; i++) { /* U+0301 has class 230, U+0323 class 220 */
        memcpy(text + 1 + 4 * i, "\xCC\x81\xCC\xA3", 4);
        memcpy(want + 1 + 2 * i, "\xCC\xA3", 2);
        memcpy(want + 201 + 2 * i, "\xCC\x81", 2);
    }
    expect_normalized("{\"type\":\"NFC\"}", text, want);
}

static void expect_refused(const char *text, tdm_status want, const char *where, const char *what) {
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *t = NULL;
    assert_int_equal(tdm_tokenizer_from_json(&t, NULL, text, strlen(text), NULL, "t.json", &err),
                     want);
    assert_null(t);
    if (strstr(err.where, where) == NULL || strstr(err.what, what) == NULL) {
        fail_msg("got \"%s\" at \"%s\"", err.what, err.where);
    }
}

static void test_errors_say_where(void **state) {
    (void)state;
    expect_refused("", TDM_E_FORMAT, "t.json", "");
    expect_refused("[]", TDM_E_FORMAT, "t.json: $", "object");
    expect_refused("{}", TDM_E_FORMAT, "$.model", "no model");
    expect_refused("{\"model\":{\"type\":\"Unigran\"}}", TDM_E_UNSUPPORTED, "$.model", "Unigran");
    expect_refused("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                   "{\"type\":\"Nmz\"}]}," MODEL,
                   TDM_E_UNSUPPORTED, "t.json: $.normalizer.normalizers[1]", "\"Nmz\"");
    expect_refused("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
                   "\"behavior\":\"Isolated\"}," MODEL,
                   TDM_E_FORMAT, "$.pre_tokenizer, offset", "does not compile");
    expect_refused("{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"CTC\"}]}," MODEL,
                   TDM_E_UNSUPPORTED, "$.decoder.decoders[0]", "CTC");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}",
                   TDM_E_FORMAT, "$.model.merges[0]", "result");
    expect_refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
                   TDM_E_FORMAT, "$.model.vocab[1]", "share");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),          cmocka_unit_test(test_added_token_in_the_alphabet),
        cmocka_unit_test(test_encode_appends), cmocka_unit_test(test_normalizers),
        cmocka_unit_test(test_many_marks),     cmocka_unit_test(test_errors_say_where),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
