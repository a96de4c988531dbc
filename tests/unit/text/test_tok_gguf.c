/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers out of GGUF: both real vocabularies against llama.cpp's ids and texts for 79 strings,
 * and small files made here for what those two do not have. */
#include "unit/text/tok_kit.h"

#include "base/file.h"
#include "base/random.h"
#include "formats/gguf.h"
#include "text/detok.h"
#include "unit/formats/bytes.h"

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
    size_t len = 0;
    size_t n_eog = 0;
    char *text = support_read_file(strings, &len);
    assert_int_equal(tdm_json_parse(&doc, NULL, text, len, NULL, "strings.json", &err), TDM_OK);
    free(text);
    assert_int_equal(tdm_blob_open(&blob, NULL, file, &err), TDM_OK);
    if (tdm_gguf_parse(&gguf, NULL, blob.data, blob.bytes, file, &err) != TDM_OK ||
        tdm_tokenizer_from_gguf(&tokenizer, NULL, gguf, file, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_gguf_destroy(gguf); /* nothing is borrowed from it */
    tdm_blob_close(&blob);
    tok_copy copy = tok_copy_open(tokenizer);
    assert_non_null(copy.tokenizer);
    const tdm_json *cases = tdm_json_get(tdm_json_doc_root(doc), "cases");
    assert_int_equal(tdm_json_len(cases), 79);
    for (size_t i = 0; i < tdm_json_len(cases); i++) {
        check_case(tokenizer, &cases->u.items[i]);
        check_case(copy.tokenizer, &cases->u.items[i]);
    }
    tok_expect_same_facts(tokenizer, copy.tokenizer);
    const int32_t want = tdm_tokenizer_find(tokenizer, eog, strlen(eog));
    assert_true(want >= 0);
    for (size_t i = 0; i < tdm_tokenizer_n_eog(tokenizer); i++) {
        n_eog += tdm_tokenizer_eog_at(tokenizer, i) == want;
    }
    assert_int_equal(n_eog, 1);
    assert_int_equal(tdm_tokenizer_kind(tokenizer, want), TDM_TOKEN_CONTROL);
    assert_int_equal(tdm_tokenizer_chat_template(tokenizer, &len) != NULL, has_template);
    assert_int_equal(len > 0, has_template);
    (void)printf("%s\n", tdm_tokenizer_describe(tokenizer));
    tok_copy_close(&copy);
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

/* A GGUF file with only a tokenizer, made here. */

typedef struct token {
    const char *text;
    int32_t type;
    float score;
} token;

static void put_array(bytes *b, const char *key, uint32_t type, size_t n) {
    gguf_key(b, key, 9);
    bytes_u32(b, type);
    bytes_u64(b, n);
}

static void put_tokens(bytes *b, const token *tokens, size_t n) {
    put_array(b, "tokenizer.ggml.tokens", 8, n);
    for (size_t i = 0; i < n; i++) {
        gguf_text(b, tokens[i].text);
    }
    put_array(b, "tokenizer.ggml.token_type", 5, n);
    for (size_t i = 0; i < n; i++) {
        bytes_u32(b, (uint32_t)tokens[i].type);
    }
    put_array(b, "tokenizer.ggml.scores", 6, n);
    for (size_t i = 0; i < n; i++) {
        bytes_f32(b, tokens[i].score);
    }
}

static tdm_status load_bytes(bytes *b, tdm_tokenizer **out, tdm_error *err) {
    tdm_gguf *gguf = NULL;
    bytes_pad(b, 32);
    assert_int_equal(tdm_gguf_parse(&gguf, NULL, b->data, b->len, "made.gguf", err), TDM_OK);
    const tdm_status status = tdm_tokenizer_from_gguf(out, NULL, gguf, "made.gguf", err);
    tdm_gguf_destroy(gguf);
    bytes_free(b);
    return status;
}

static void expect_encoding(const tdm_tokenizer *tokenizer, const char *text, bool parses_special,
                            const int32_t *want, size_t n) {
    const tdm_encode_options options = {true, parses_special, false};
    tdm_ids ids;
    tdm_ids_init(&ids, NULL);
    assert_int_equal(tdm_tokenizer_encode(tokenizer, text, strlen(text), &options, &ids, NULL),
                     TDM_OK);
    if (ids.len != n || memcmp(ids.ids, want, n * sizeof(*want)) != 0) {
        for (size_t i = 0; i < ids.len; i++) {
            (void)printf(" %d", (int)ids.ids[i]);
        }
        fail_msg("ids differ for %s", text);
    }
    tdm_ids_deinit(&ids);
}

#define META "\xE2\x96\x81"

/* The llama model with its defaults: a space in front of the text and behind every special token,
 * a beginning, bytes for what no piece covers, user-defined tokens longest first, and control
 * tokens never out of plain text, though a merge would make one. */
static void test_spm_defaults(void **state) {
    static const token TOKENS[] = {
        {"<unk>", 2, 0},   {"<s>", 3, 0},     {"</s>", 3, 0}, {META, 1, -4},    {"a", 1, -5},
        {META "a", 1, -1}, {"b", 1, -6},      {"ab", 1, -2},  {"<0xC3>", 6, 0}, {"<0xA9>", 6, 0},
        {"xx", 4, -1000},  {"xxx", 4, -1000}, {"</", 1, -7},  {"s>", 1, -8},    {"<", 1, -9},
        {"/", 1, -9},      {"s", 1, -9},      {">", 1, -9},   {"<0x78>", 6, 0},
    };
    const int32_t plain[] = {1, 5, 6, 8, 9};
    const int32_t after[] = {1, 5, 2, 5};
    const int32_t spelled[] = {1, 3, 12, 13};
    const int32_t runs[] = {1, 11, 10, 3, 18};
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    bytes b = {0};
    tdm_buf out;
    (void)state;
    gguf_head(&b, 0, 5);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_text(&b, "tokenizer.ggml.model", "llama");
    put_tokens(&b, TOKENS, SUPPORT_LEN(TOKENS));
    if (load_bytes(&b, &tokenizer, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_encoding(tokenizer, "ab\xC3\xA9", true, plain, SUPPORT_LEN(plain));
    expect_encoding(tokenizer, "a</s>a", true, after, SUPPORT_LEN(after));
    expect_encoding(tokenizer, "</s>", false, spelled, SUPPORT_LEN(spelled));
    expect_encoding(tokenizer, "xxxxx", false, runs, 3);
    expect_encoding(tokenizer, "x", false, (const int32_t[]){1, 3, 18}, 3);
    expect_encoding(tokenizer, "", false, runs, 1);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(tokenizer, plain, 5, true, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "ab\xC3\xA9"); /* the space in front is taken back */
    assert_int_equal(tdm_tokenizer_eos(tokenizer), 2);
    assert_int_equal(tdm_tokenizer_bos(tokenizer), 1);
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(tokenizer);
}

static const token BPE_TOKENS[] = {
    {"a", 1, 0},          {"b", 1, 0}, {"ab", 1, 0}, {"\xC4\xA0", 1, 0},
    {"<|im_end|>", 4, 0}, {"1", 1, 0}, {"11", 1, 0}, {"", 1, 0}};

static tdm_status load_bpe(const char *pre, const char *merge, tdm_tokenizer **out,
                           tdm_error *err) {
    bytes b = {0};
    gguf_head(&b, 0, 7);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_text(&b, "tokenizer.ggml.model", "gpt2");
    gguf_kv_text(&b, "tokenizer.ggml.pre", pre);
    put_tokens(&b, BPE_TOKENS, SUPPORT_LEN(BPE_TOKENS));
    put_array(&b, "tokenizer.ggml.merges", 8, 2);
    gguf_text(&b, "a b");
    gguf_text(&b, merge);
    return load_bytes(&b, out, err);
}

static void test_every_pre_tokenizer(void **state) {
    /* All of the peer's, but for those that merge characters or add a beginning. */
    static const char *const NAMES[] = {"default",
                                        "llama3",
                                        "llama-v3",
                                        "llama-bpe",
                                        "falcon3",
                                        "falcon-h1",
                                        "pixtral",
                                        "midm-2.0",
                                        "lfm2",
                                        "jina-v5-nano",
                                        "smaug-bpe",
                                        "glm4",
                                        "glm5",
                                        "chatglm-bpe",
                                        "dbrx",
                                        "minicpm5",
                                        "deepseek-llm",
                                        "deepseek-coder",
                                        "deepseek-v3",
                                        "spark2_5",
                                        "youtu",
                                        "falcon",
                                        "mpt",
                                        "starcoder",
                                        "gpt-2",
                                        "phi-2",
                                        "jina-es",
                                        "jina-de",
                                        "gigachat",
                                        "jina-v2-es",
                                        "jina-v2-de",
                                        "a.x-4.0",
                                        "mellum",
                                        "modern-bert",
                                        "jais-2",
                                        "jina-v1-en",
                                        "jina-v2-code",
                                        "roberta-bpe",
                                        "refact",
                                        "command-r",
                                        "qwen2",
                                        "deepseek-r1-qwen",
                                        "kormo",
                                        "f2llmv2",
                                        "qwen35",
                                        "stablelm2",
                                        "olmo",
                                        "poro-chat",
                                        "viking",
                                        "jais",
                                        "tekken",
                                        "smollm",
                                        "codeshell",
                                        "bloom",
                                        "gpt3-finnish",
                                        "exaone",
                                        "exaone4",
                                        "exaone-moe",
                                        "chameleon",
                                        "minerva-7b",
                                        "megrez",
                                        "gpt-4o",
                                        "llama4",
                                        "kanana2",
                                        "talkie",
                                        "granite-embed-multi-97m",
                                        "tiny_aya",
                                        "cohere2moe",
                                        "superbpe",
                                        "trillion",
                                        "granite-docling",
                                        "bailingmoe",
                                        "bailingmoe2",
                                        "llada-moe",
                                        "seed-coder",
                                        "hunyuan",
                                        "hunyuan-dense",
                                        "hy_v4",
                                        "joyai-llm",
                                        "kimi-k2",
                                        "ufakzeka",
                                        "grok-2",
                                        "afmoe",
                                        "laguna",
                                        "minimax-m2",
                                        "solar-open",
                                        "mellum2"};
    const int32_t want[] = {2, 3, 2};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(NAMES); i++) {
        tdm_error err = {TDM_OK, "", "", "", ""};
        tdm_tokenizer *tokenizer = NULL;
        if (load_bpe(NAMES[i], "1 1", &tokenizer, &err) != TDM_OK) {
            fail_msg("%s: %s (%s)", NAMES[i], err.what, err.where);
        }
        expect_encoding(tokenizer, "ab ab", true, want, SUPPORT_LEN(want));
        assert_non_null(strstr(tdm_tokenizer_describe(tokenizer), NAMES[i]));
        assert_int_equal(tdm_tokenizer_n_eog(tokenizer), 1);
        assert_int_equal(tdm_tokenizer_kind(tokenizer, 4), TDM_TOKEN_CONTROL);
        assert_int_equal(tdm_tokenizer_bos(tokenizer), -1);
        tdm_tokenizer_destroy(tokenizer);
    }
}

/* "11" is one token where digits stand together, two where each stands alone. */
static void test_pre_tokenizers_differ(void **state) {
    tdm_tokenizer *tokenizer = NULL;
    (void)state;
    assert_int_equal(load_bpe("gpt-2", "1 1", &tokenizer, NULL), TDM_OK);
    expect_encoding(tokenizer, "11", true, (const int32_t[]){6}, 1);
    tdm_tokenizer_destroy(tokenizer);
    assert_int_equal(load_bpe("smollm", "1 1", &tokenizer, NULL), TDM_OK);
    expect_encoding(tokenizer, "11", true, (const int32_t[]){5, 5}, 2);
    tdm_tokenizer_destroy(tokenizer);
}

static void test_refusals(void **state) {
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    bytes b = {0};
    (void)state;
    assert_int_equal(load_bpe("martian", "1 1", &tokenizer, &err), TDM_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "martian"));
    assert_non_null(strstr(err.where, "tokenizer.ggml.pre"));
    assert_int_equal(load_bpe("gpt-2", "1 a", &tokenizer, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "tokenizer.ggml.merges[1]"));
    gguf_head(&b, 0, 1);
    gguf_kv_text(&b, "general.architecture", "llama");
    assert_int_equal(load_bytes(&b, &tokenizer, &err), TDM_E_NOT_FOUND);
    b = (bytes){0};
    gguf_head(&b, 0, 2);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_text(&b, "tokenizer.ggml.model", "rwkv");
    assert_int_equal(load_bytes(&b, &tokenizer, &err), TDM_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "rwkv"));
    b = (bytes){0};
    gguf_head(&b, 0, 5);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_text(&b, "tokenizer.ggml.model", "llama");
    put_tokens(&b, (const token[]){{"<0x-1>", 6, 0}}, 1);
    assert_int_equal(load_bytes(&b, &tokenizer, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "tokenizer.ggml.tokens[0]"));
    b = (bytes){0};
    gguf_head(&b, 0, 5);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_text(&b, "tokenizer.ggml.model", "llama");
    put_tokens(&b, (const token[]){{"a", 1, 0}, {"a", 1, 0}}, 2);
    assert_int_equal(load_bytes(&b, &tokenizer, &err), TDM_E_FORMAT);
    assert_null(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_smollm2),
        cmocka_unit_test(test_gemma3),
        cmocka_unit_test(test_spm_defaults),
        cmocka_unit_test(test_every_pre_tokenizer),
        cmocka_unit_test(test_pre_tokenizers_differ),
        cmocka_unit_test(test_refusals),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
