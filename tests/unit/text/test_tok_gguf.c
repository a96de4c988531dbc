/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers out of GGUF: both real vocabularies against llama.cpp's ids and texts for 79 strings,
 * and small files made here for what those two do not have. */
#include "support/support.h"

#include "base/file.h"
#include "base/random.h"
#include "formats/gguf.h"
#include "text/detok.h"

static char *model_path(char out[SUPPORT_PATH_MAX], const char *file) {
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char base[SUPPORT_PATH_MAX];
    if (cache != NULL && cache[0] != '\0') {
        (void)support_join(base, cache, "tandem/models");
    } else {
        (void)support_join(base, home != NULL ? home : "", ".cache/tandem/models");
    }
    (void)support_join(out, base, file);
    return out;
}

static void expect_ids(const char *text, const tdm_ids *ids, const tdm_json *want) {
    bool is_equal = ids->len == tdm_json_len(want);
    for (size_t i = 0; is_equal && i < ids->len; i++) {
        int64_t id = -1;
        is_equal = tdm_json_as_i64(&want->u.items[i], &id) && ids->ids[i] == id;
    }
    if (!is_equal) {
        for (size_t i = 0; i < ids->len; i++) {
            (void)printf(" %d", (int)ids->ids[i]);
        }
        (void)printf("\n");
        fail_msg("ids differ for %s", text);
    }
}

static void expect_text(const tdm_tokenizer *tokenizer, const tdm_ids *ids, bool skips_special,
                        const tdm_json *want) {
    tdm_buf out;
    tdm_buf streamed;
    tdm_detok *detok = NULL;
    tdm_buf_init(&out, NULL, 0);
    tdm_buf_init(&streamed, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, ids->ids, ids->len, skips_special, &out, NULL),
                     TDM_OK);
    assert_int_equal(out.len, want->len);
    assert_true(out.len == 0 || memcmp(out.data, want->u.text, out.len) == 0);
    assert_int_equal(tdm_detok_create(&detok, NULL, tokenizer, skips_special, NULL), TDM_OK);
    for (size_t i = 0; i < ids->len; i++) {
        assert_int_equal(tdm_detok_push(detok, ids->ids + i, 1, &streamed, NULL), TDM_OK);
    }
    assert_int_equal(tdm_detok_finish(detok, &streamed, NULL), TDM_OK);
    assert_int_equal(out.len, streamed.len);
    assert_true(out.len == 0 || memcmp(out.data, streamed.data, out.len) == 0);
    tdm_detok_destroy(detok);
    tdm_buf_deinit(&out);
    tdm_buf_deinit(&streamed);
}

static void check_case(const tdm_tokenizer *tokenizer, const tdm_json *c) {
    const tdm_json *text = tdm_json_get(c, "text");
    tdm_encode_options options = {false, false, false};
    tdm_ids ids;
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text->u.text, text->len, &options, &ids, NULL),
                     TDM_OK);
    expect_ids(text->u.text, &ids, tdm_json_get(c, "ids"));
    expect_text(tokenizer, &ids, false, tdm_json_get(c, "decoded"));
    ids.len = 0;
    options.parses_special = true;
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text->u.text, text->len, &options, &ids, NULL),
                     TDM_OK);
    expect_ids(text->u.text, &ids, tdm_json_get(c, "ids_special"));
    expect_text(tokenizer, &ids, false, tdm_json_get(c, "decoded_special"));
    expect_text(tokenizer, &ids, true, tdm_json_get(c, "decoded_special_hidden"));
    ids.len = 0;
    options.adds_special = true;
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text->u.text, text->len, &options, &ids, NULL),
                     TDM_OK);
    expect_ids(text->u.text, &ids, tdm_json_get(c, "ids_special_bos"));
    tdm_ids_deinit(&ids);
}

static void check_model(const char *strings, const char *file, const char *eog, bool has_template) {
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_blob blob;
    tdm_gguf *gguf = NULL;
    tdm_tokenizer *tokenizer = NULL;
    tdm_json_doc *doc = NULL;
    size_t bytes = 0;
    size_t n_eog = 0;
    char *text = support_read_file(strings, &bytes);
    assert_int_equal(tdm_json_parse(&doc, NULL, text, bytes, NULL, "strings.json", &err), TDM_OK);
    free(text);
    assert_int_equal(tdm_blob_open(&blob, NULL, file, &err), TDM_OK);
    if (tdm_gguf_parse(&gguf, NULL, blob.data, blob.bytes, file, &err) != TDM_OK ||
        tdm_tokenizer_from_gguf(&tokenizer, NULL, gguf, file, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_gguf_destroy(gguf); /* nothing is borrowed from it */
    tdm_blob_close(&blob);
    const tdm_json *cases = tdm_json_get(tdm_json_doc_root(doc), "cases");
    assert_int_equal(tdm_json_len(cases), 79);
    for (size_t i = 0; i < tdm_json_len(cases); i++) {
        check_case(tokenizer, &cases->u.items[i]);
    }
    const int32_t want = tdm_tokenizer_find(tokenizer, eog, strlen(eog));
    assert_true(want >= 0);
    for (size_t i = 0; i < tdm_tokenizer_n_eog(tokenizer); i++) {
        n_eog += tdm_tokenizer_eog_at(tokenizer, i) == want;
    }
    assert_int_equal(n_eog, 1);
    assert_int_equal(tdm_tokenizer_kind(tokenizer, want), TDM_TOKEN_CONTROL);
    assert_int_equal(tdm_tokenizer_chat_template(tokenizer, &bytes) != NULL, has_template);
    assert_int_equal(bytes > 0, has_template);
    (void)printf("%s\n", tdm_tokenizer_describe(tokenizer));
    tdm_tokenizer_destroy(tokenizer);
    tdm_json_doc_destroy(doc);
}

static void test_smollm2(void **state) {
    char strings[SUPPORT_PATH_MAX];
    char file[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(strings, "tokenizers-gguf/smollm2/strings.json");
    if (!support_exists(model_path(file, "SmolLM2-135M-Instruct.Q4_1.gguf"))) {
        SUPPORT_SKIP("model absent: SmolLM2-135M-Instruct.Q4_1.gguf");
    }
    check_model(strings, file, "<|im_end|>", true);
}

static void test_gemma3(void **state) {
    char strings[SUPPORT_PATH_MAX];
    char file[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(strings, "tokenizers-gguf/gemma3/strings.json");
    if (!support_exists(model_path(file, "gemma-3-270m-q4_k_m.gguf"))) {
        SUPPORT_SKIP("model absent: gemma-3-270m-q4_k_m.gguf");
    }
    check_model(strings, file, "<end_of_turn>", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
