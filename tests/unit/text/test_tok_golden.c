/* SPDX-License-Identifier: Apache-2.0
 *
 * Every tokenizer.json of the goldens: ids without and with special
 * tokens, decodings with and without them, offsets that cut the text, and the streaming detokenizer
 * under random cuttings. All of it again by a tokenizer out of the image of the first. The committed
 * copy must pass alone; the shared one is the same data. */
#include "unit/text/tok_kit.h"

#include "base/file.h"
#include "base/random.h"
#include "base/utf8.h"
#include "text/detok.h"

typedef struct golden {
    tdm_json_doc *doc;
    tdm_tokenizer *tokenizer;
    const tdm_json *cases;
} golden;

static char *read_part(const char *folder, const char *name, size_t *out_bytes) {
    char path[SUPPORT_PATH_MAX];
    return support_read_file(support_join(path, folder, name), out_bytes);
}

static golden open_golden(const char *folder) {
    golden g = {NULL, NULL, NULL};
    tdm_error err = {TDM_OK, "", "", "", ""};
    size_t bytes = 0;
    char *text = read_part(folder, "tokenizer.json", &bytes);
    const tdm_status status =
        tdm_tokenizer_from_json(&g.tokenizer, NULL, text, bytes, NULL, folder, &err);
    if (status != TDM_OK) {
        fail_msg("%s: %s (%s)", folder, err.what, err.where);
    }
    free(text);
    text = read_part(folder, "golden.json", &bytes);
    assert_int_equal(tdm_json_parse(&g.doc, NULL, text, bytes, NULL, "golden.json", &err), TDM_OK);
    free(text);
    g.cases = tdm_json_get(tdm_json_doc_root(g.doc), "cases");
    assert_int_equal(tdm_json_len(g.cases), 79);
    return g;
}

static void close_golden(golden *g) {
    tdm_tokenizer_destroy(g->tokenizer);
    tdm_json_doc_destroy(g->doc);
}

static int32_t id_at(const tdm_json *list, size_t idx) {
    int64_t id = -1;
    assert_true(tdm_json_as_i64(&list->u.items[idx], &id));
    return (int32_t)id;
}

static void expect_ids(const char *folder, size_t n, const tdm_ids *ids, const tdm_json *want) {
    bool is_equal = ids->len == tdm_json_len(want);
    for (size_t i = 0; is_equal && i < ids->len; i++) {
        is_equal = ids->ids[i] == id_at(want, i);
    }
    if (!is_equal) {
        (void)printf("%s case %zu: got", folder, n);
        for (size_t i = 0; i < ids->len; i++) {
            (void)printf(" %d", (int)ids->ids[i]);
        }
        (void)printf("\n  want");
        for (size_t i = 0; i < tdm_json_len(want); i++) {
            (void)printf(" %d", (int)id_at(want, i));
        }
        (void)printf("\n");
        fail_msg("%s case %zu: ids differ", folder, n);
    }
}

static void expect_text(const tdm_buf *got, const tdm_json *want) {
    assert_true(tdm_json_is(want, TDM_JSON_STRING));
    assert_int_equal(got->len, want->len);
    if (got->len > 0) {
        assert_memory_equal(got->data, want->u.text, got->len);
    }
}

/* Pushes ids in random pieces and compares with one decode. */
static void expect_stream(const tdm_tokenizer *tokenizer, const tdm_ids *ids, bool skips_special,
                          const tdm_json *want, uint32_t seed) {
    tdm_detok *detok = NULL;
    tdm_buf out;
    size_t pos = 0;
    uint32_t draw = 0;
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_detok_create(&detok, NULL, tokenizer, skips_special, NULL), TDM_OK);
    while (pos < ids->len) {
        size_t n = (size_t)(tdm_random_u64(7, seed, 0, draw++) % 4);
        n = n > ids->len - pos ? ids->len - pos : n;
        assert_int_equal(tdm_detok_push(detok, ids->ids + pos, n, &out, NULL), TDM_OK);
        assert_int_equal(tdm_utf8_valid_prefix(out.data, out.len), out.len);
        pos += n;
    }
    assert_int_equal(tdm_detok_finish(detok, &out, NULL), TDM_OK);
    expect_text(&out, want);
    tdm_detok_destroy(detok);
    tdm_buf_deinit(&out);
}

static void check_case(const golden *g, const char *folder, size_t n) {
    const tdm_json *c = &g->cases->u.items[n];
    const tdm_json *text = tdm_json_get(c, "text");
    tdm_encode_options options = {false, true, true};
    tdm_ids ids;
    tdm_buf out;
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(
        tdm_tokenizer_encode(g->tokenizer, text->u.text, text->len, &options, &ids, NULL), TDM_OK);
    expect_ids(folder, n, &ids, tdm_json_get(c, "ids"));
    for (size_t i = 0; i < ids.len; i++) {
        assert_true(ids.offsets[i][0] <= ids.offsets[i][1]);
        assert_true(ids.offsets[i][1] <= text->len);
        assert_true(i == 0 || ids.offsets[i - 1][0] <= ids.offsets[i][0]);
    }
    assert_int_equal(tdm_tokenizer_decode(g->tokenizer, ids.ids, ids.len, false, &out, NULL),
                     TDM_OK);
    expect_text(&out, tdm_json_get(c, "decoded"));
    tdm_buf_reset(&out);
    assert_int_equal(tdm_tokenizer_decode(g->tokenizer, ids.ids, ids.len, true, &out, NULL),
                     TDM_OK);
    expect_text(&out, tdm_json_get(c, "decoded_skip_special"));
    for (uint32_t seed = 0; seed < 8; seed++) {
        expect_stream(g->tokenizer, &ids, false, tdm_json_get(c, "decoded"), seed);
        expect_stream(g->tokenizer, &ids, true, tdm_json_get(c, "decoded_skip_special"), seed);
    }
    ids.len = 0;
    options.adds_special = true;
    assert_int_equal(
        tdm_tokenizer_encode(g->tokenizer, text->u.text, text->len, &options, &ids, NULL), TDM_OK);
    expect_ids(folder, n, &ids, tdm_json_get(c, "ids_with_special"));
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
}

static void check_kind(const char *kind, bool has_image) {
    char base[SUPPORT_PATH_MAX];
    char folder[SUPPORT_PATH_MAX];
    golden g = open_golden(support_join(folder, support_data_path(base, "tokenizers"), kind));
    tok_copy copy = tok_copy_open(g.tokenizer);
    golden again = {g.doc, copy.tokenizer, g.cases};
    assert_int_equal(copy.tokenizer != NULL, has_image);
    if (has_image) {
        tok_expect_same_facts(g.tokenizer, copy.tokenizer);
    }
    for (size_t n = 0; n < tdm_json_len(g.cases); n++) {
        check_case(&g, kind, n);
        if (has_image) {
            check_case(&again, kind, n);
        }
    }
    tok_copy_close(&copy);
    close_golden(&g);
}

#define KIND_OF(function, name, has_image)                                                         \
    static void function(void **state) {                                                           \
        (void)state;                                                                               \
        check_kind(name, has_image);                                                               \
    }
#define KIND(function, name) KIND_OF(function, name, true)
KIND(test_gpt2, "gpt2-bytelevel")
KIND(test_llama3, "llama3")
KIND(test_o200k, "o200k")
KIND(test_qwen2, "qwen2-nfc")
KIND(test_qwen35, "qwen35-nfc")
KIND(test_added_flags, "qwen2-added-flags")
KIND(test_deepseek, "deepseek")
KIND(test_smollm, "smollm-digits")
KIND(test_llama2, "llama2-bytefallback")
KIND(test_gemma, "gemma-bytefallback")
KIND_OF(test_unigram, "unigram-metaspace", false)
KIND_OF(test_wordpiece, "bert-wordpiece", false)

/* The shared folder must hold the very files that are committed. */
static void test_shared_is_the_same(void **state) {
    static const char *const FILES[] = {"gpt2-bytelevel",
                                        "llama3",
                                        "o200k",
                                        "qwen2-nfc",
                                        "qwen35-nfc",
                                        "qwen2-added-flags",
                                        "deepseek",
                                        "smollm-digits",
                                        "llama2-bytefallback",
                                        "gemma-bytefallback",
                                        "unigram-metaspace",
                                        "bert-wordpiece"};
    char base[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(base, "tokenizers");
    for (size_t i = 0; i < SUPPORT_LEN(FILES); i++) {
        char folder[SUPPORT_PATH_MAX];
        char own_base[SUPPORT_PATH_MAX];
        char own[SUPPORT_PATH_MAX];
        static const char *const NAMES[] = {"tokenizer.json", "golden.json"};
        (void)support_join(folder, base, FILES[i]);
        (void)support_join(own, support_data_path(own_base, "tokenizers"), FILES[i]);
        for (size_t k = 0; k < 2; k++) {
            size_t bytes = 0;
            size_t own_bytes = 0;
            char *text = read_part(folder, NAMES[k], &bytes);
            char *own_text = read_part(own, NAMES[k], &own_bytes);
            assert_int_equal(bytes, own_bytes);
            assert_memory_equal(text, own_text, bytes);
            free(text);
            free(own_text);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_llama3),
        cmocka_unit_test(test_o200k),
        cmocka_unit_test(test_qwen2),
        cmocka_unit_test(test_qwen35),
        cmocka_unit_test(test_added_flags),
        cmocka_unit_test(test_deepseek),
        cmocka_unit_test(test_smollm),
        cmocka_unit_test(test_llama2),
        cmocka_unit_test(test_gemma),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_wordpiece),
        cmocka_unit_test(test_shared_is_the_same),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
