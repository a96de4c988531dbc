/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers from the files beside tokenizer.json: each is made here out of a committed kind, and
 * must give the same tokens for its 79 strings. Damaged files are refused with words. */
#include "unit/text/tok_kit.h"

#include "text/tokenizer_files.h"
#include "unit/formats/bytes.h"

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_base64(tdm_buf *out, const char *raw, size_t len) {
    for (size_t i = 0; i < len; i += 3) {
        uint32_t bits = 0;
        char text[4] = {'=', '=', '=', '='};
        const size_t n = len - i < 3 ? len - i : 3;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (k < n ? (uint8_t)raw[i + k] : 0u);
        }
        for (size_t k = 0; k <= n; k++) {
            text[k] = BASE64[bits >> (18 - 6 * k) & 63];
        }
        assert_int_equal(tdm_buf_append(out, text, 4), TDM_OK);
    }
}

/* The two texts of a merge of a tokenizer.json, raw. */
static size_t raw_merge(const tdm_json *merge, char raw[256]) {
    char joined[512];
    size_t n = 0;
    size_t len = 0;
    if (tdm_json_is(merge, TDM_JSON_ARRAY)) {
        for (size_t i = 0; i < 2; i++) {
            memcpy(joined + n, merge->u.items[i].u.text, merge->u.items[i].len);
            n += merge->u.items[i].len;
        }
    } else {
        for (uint32_t i = 0; i < merge->len; i++) {
            if (merge->u.text[i] != ' ') {
                joined[n++] = merge->u.text[i];
            }
        }
    }
    assert_true(tdm_byte_level_decode(joined, n, raw, &len));
    return len;
}

/* Ranks in the order of the bytes and merges of a kind. */
static size_t put_ranks(const tok_kind *kind, tdm_buf *out, bool is_tekken) {
    const tdm_json *merges = tdm_json_get(tdm_json_get(kind->root, "model"), "merges");
    size_t n = 0;
    for (size_t i = 0; i < 256 + tdm_json_len(merges); i++) {
        char raw[256];
        size_t len = 1;
        raw[0] = (char)(uint8_t)i;
        if (i >= 256) {
            len = raw_merge(&merges->u.items[i - 256], raw);
        }
        if (is_tekken) {
            assert_int_equal(tdm_buf_printf(out,
                                            "%s{\"rank\":%zu,\"token_str\":null,"
                                            "\"token_bytes\":\"",
                                            i > 0 ? "," : "", n),
                             TDM_OK);
            put_base64(out, raw, len);
            assert_int_equal(tdm_buf_append_text(out, "\"}"), TDM_OK);
        } else {
            put_base64(out, raw, len);
            assert_int_equal(tdm_buf_printf(out, " %zu\n", n), TDM_OK);
        }
        n++;
    }
    return n;
}

/* The strings by made and by a tokenizer out of its image, where there is one. */
static void expect_all_same(const tok_kind *kind, const tdm_tokenizer *made, bool only_ascii) {
    tok_copy copy = tok_copy_open(made);
    size_t n = 0;
    for (size_t i = 0; i < tdm_json_len(kind->cases); i++) {
        const tdm_json *text = tdm_json_get(&kind->cases->u.items[i], "text");
        if (!only_ascii || tok_is_ascii(text)) {
            tok_expect_same(kind->tokenizer, made, text->u.text, text->len);
            if (copy.tokenizer != NULL) {
                tok_expect_same(made, copy.tokenizer, text->u.text, text->len);
            }
            n++;
        }
    }
    tok_copy_close(&copy);
    assert_true(n >= (only_ascii ? 10u : 79u));
}

static void test_tiktoken(void **state) {
    tok_kind kind = tok_kind_open("gpt2-bytelevel");
    tdm_json_doc *config = NULL;
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    static const char CONFIG[] = "{\"added_tokens_decoder\":{\"5000\":{\"content\":\"<|end|>\","
                                 "\"special\":true}},\"eos_token\":\"<|end|>\"}";
    tdm_buf text;
    (void)state;
    tdm_buf_init(&text, NULL, 0);
    (void)put_ranks(&kind, &text, false);
    assert_int_equal(
        tdm_json_parse(&config, NULL, CONFIG, sizeof(CONFIG) - 1, NULL, "config", NULL), TDM_OK);
    if (tdm_tokenizer_from_tiktoken(&made, NULL, text.data, text.len, tdm_json_doc_root(config),
                                    "x.tiktoken", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_all_same(&kind, made, false);
    assert_int_equal(tdm_tokenizer_eos(made), 5000);
    assert_int_equal(tdm_tokenizer_kind(made, 5000), TDM_TOKEN_CONTROL);
    tdm_tokenizer_destroy(made);
    tdm_json_doc_destroy(config);
    tdm_buf_deinit(&text);
    tok_kind_close(&kind);
}

/* Any order of ranks means the same here as in the definition: least rank first. */
static int32_t merge_naively(const char *text, char parts[8][8]) {
    static const char *const RANKS[] = {"a", "b", "c", "abc", "bc", "ab", "ca"};
    int32_t n = (int32_t)strlen(text);
    for (int32_t i = 0; i < n; i++) {
        parts[i][0] = text[i];
        parts[i][1] = '\0';
    }
    for (;;) {
        size_t best = SUPPORT_LEN(RANKS);
        int32_t at = -1;
        for (int32_t i = 0; i + 1 < n; i++) {
            char joined[16];
            (void)snprintf(joined, sizeof(joined), "%.7s%.7s", parts[i], parts[i + 1]);
            for (size_t k = 0; k < SUPPORT_LEN(RANKS); k++) {
                if (strcmp(joined, RANKS[k]) == 0 && k < best) {
                    best = k;
                    at = i;
                }
            }
        }
        if (at < 0) {
            return n;
        }
        (void)snprintf(parts[at], 8, "%s", RANKS[best]);
        for (int32_t i = at + 1; i + 1 < n; i++) {
            memcpy(parts[i], parts[i + 1], 8);
        }
        n--;
    }
}

static void test_tiktoken_odd_ranks(void **state) {
    static const char FILE[] = "YQ== 0\nYg== 1\nYw== 2\nYWJj 3\nYmM= 4\nYWI= 5\nY2E= 6\n";
    tdm_tokenizer *made = NULL;
    (void)state;
    assert_int_equal(
        tdm_tokenizer_from_tiktoken(&made, NULL, FILE, sizeof(FILE) - 1, NULL, "x.tiktoken", NULL),
        TDM_OK);
    for (uint32_t word = 0; word < 3 * 3 * 3 * 3 * 3 * 3; word++) {
        char text[8] = "";
        char parts[8][8];
        tdm_ids ids;
        uint32_t rest = word;
        for (size_t i = 0; i < 6; i++) {
            text[i] = (char)('a' + rest % 3);
            rest /= 3;
        }
        tdm_ids_init(&ids, NULL);
        tok_encode(made, text, 6, false, &ids);
        const int32_t n = merge_naively(text, parts);
        assert_int_equal(ids.len, n);
        for (int32_t i = 0; i < n; i++) {
            size_t len = 0;
            assert_string_equal(tdm_tokenizer_spelling(made, ids.ids[i], &len), parts[i]);
        }
        tdm_ids_deinit(&ids);
    }
    tdm_tokenizer_destroy(made);
}

static void test_tekken(void **state) {
    tok_kind kind = tok_kind_open("o200k");
    const tdm_json *splits =
        tdm_json_get(tdm_json_get(kind.root, "pre_tokenizer"), "pretokenizers");
    const tdm_json *pattern = tdm_json_get(tdm_json_get(&splits->u.items[0], "pattern"), "Regex");
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_json_writer w;
    tdm_buf text;
    (void)state;
    tdm_buf_init(&text, NULL, 0);
    assert_int_equal(tdm_buf_append_text(&text, "{\"vocab\":["), TDM_OK);
    const size_t n = put_ranks(&kind, &text, true);
    assert_int_equal(tdm_buf_printf(&text,
                                    "],\"special_tokens\":[{\"rank\":1,\"token_str\":\"<s>\","
                                    "\"is_control\":true},{\"rank\":2,\"token_str\":\"</s>\"}],"
                                    "\"config\":{\"default_vocab_size\":%zu,"
                                    "\"default_num_special_tokens\":10,\"pattern\":",
                                    n + 10),
                     TDM_OK);
    tdm_json_writer_init(&w, &text);
    tdm_json_write_text(&w, pattern->u.text, pattern->len);
    assert_int_equal(tdm_buf_append_text(&text, "}}"), TDM_OK);
    if (tdm_tokenizer_from_tekken(&made, NULL, text.data, text.len, NULL, "tekken.json", &err) !=
        TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_all_same(&kind, made, false);
    assert_int_equal(tdm_tokenizer_bos(made), 1);
    assert_true(tdm_tokenizer_adds_bos(made));
    assert_int_equal(tdm_tokenizer_find(made, "<SPECIAL_9>", 11), 9);
    tdm_tokenizer_destroy(made);
    tdm_buf_deinit(&text);
    tok_kind_close(&kind);
}

static void test_vocab_and_merges(void **state) {
    tok_kind kind = tok_kind_open("gpt2-bytelevel");
    const tdm_json *model = tdm_json_get(kind.root, "model");
    const tdm_json *vocab = tdm_json_get(model, "vocab");
    const tdm_json *merges = tdm_json_get(model, "merges");
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_json_writer w;
    tdm_buf words;
    tdm_buf lines;
    (void)state;
    tdm_buf_init(&words, NULL, 0);
    tdm_buf_init(&lines, NULL, 0);
    tdm_json_writer_init(&w, &words);
    tdm_json_write_begin_object(&w);
    for (size_t i = 0; i < vocab->len; i++) {
        int64_t id = 0;
        assert_true(tdm_json_as_i64(&vocab->u.items[i], &id));
        tdm_json_write_key(&w, vocab->u.items[i].key);
        tdm_json_write_i64(&w, id);
    }
    tdm_json_write_end_object(&w);
    assert_int_equal(tdm_buf_append_text(&lines, "#version: 0.2\r\n"), TDM_OK);
    for (size_t i = 0; i < merges->len; i++) {
        const tdm_json *m = &merges->u.items[i];
        assert_int_equal(
            tdm_json_is(m, TDM_JSON_STRING)
                ? tdm_buf_printf(&lines, "%s\n", m->u.text)
                : tdm_buf_printf(&lines, "%s %s\n", m->u.items[0].u.text, m->u.items[1].u.text),
            TDM_OK);
    }
    const tdm_vocab_files files = {words.data, words.len, lines.data, lines.len};
    if (tdm_tokenizer_from_vocab(&made, NULL, &files, NULL, "vocab.json", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_all_same(&kind, made, false);
    tdm_tokenizer_destroy(made);
    tdm_buf_deinit(&words);
    tdm_buf_deinit(&lines);
    tok_kind_close(&kind);
}

/* SentencePiece */

static void put_varint(bytes *b, uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
        bytes_number(b, (value & 0x7F) | 0x80, 1);
    }
    bytes_number(b, value, 1);
}

static void put_bytes(bytes *b, uint32_t field, const void *data, size_t len) {
    put_varint(b, field << 3 | 2);
    put_varint(b, len);
    bytes_put(b, data, len);
}

static void put_flag(bytes *b, uint32_t field, uint64_t value) {
    put_varint(b, field << 3);
    put_varint(b, value);
}

static void put_piece(bytes *model, const char *text, size_t len, float score, uint64_t type) {
    bytes piece = {0};
    put_bytes(&piece, 1, text, len);
    put_varint(&piece, 2 << 3 | 5);
    bytes_f32(&piece, score);
    put_flag(&piece, 3, type);
    put_bytes(model, 1, piece.data, piece.len);
    bytes_free(&piece);
}

static void put_specs(bytes *model, uint64_t type, bool has_bytes, bool is_squeezed) {
    bytes spec = {0};
    put_flag(&spec, 3, type);
    put_flag(&spec, 35, has_bytes);
    put_flag(&spec, 40, 0);
    put_bytes(model, 2, spec.data, spec.len);
    bytes_free(&spec);
    spec = (bytes){0};
    put_bytes(&spec, 1, "identity", 8);
    put_flag(&spec, 3, 1);
    put_flag(&spec, 4, is_squeezed);
    put_bytes(model, 3, spec.data, spec.len);
    bytes_free(&spec);
}

static uint64_t type_of(const tdm_tokenizer *t, int32_t id, const char *text, size_t len) {
    const tdm_token_kind kind = tdm_tokenizer_kind(t, id);
    if (len == 5 && memcmp(text, "<unk>", 5) == 0) {
        return 2;
    }
    return kind == TDM_TOKEN_CONTROL ? 3 : tdm_byte_token_value(text, len) >= 0 ? 6 : 1;
}

/* Merges become scores: the first one has the best. */
static void test_sentencepiece_bpe(void **state) {
    tok_kind kind = tok_kind_open("llama2-bytefallback");
    const tdm_json *merges = tdm_json_get(tdm_json_get(kind.root, "model"), "merges");
    const int32_t n = tdm_tokenizer_n_vocab(kind.tokenizer);
    float *scores = calloc((size_t)n, sizeof(*scores));
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    bytes model = {0};
    (void)state;
    assert_non_null(scores);
    for (int32_t id = 0; id < n; id++) {
        scores[id] = -1e6f;
    }
    for (size_t i = 0; i < merges->len; i++) {
        const tdm_json *m = &merges->u.items[i];
        char joined[512];
        size_t len = 0;
        if (tdm_json_is(m, TDM_JSON_ARRAY)) {
            len = (size_t)snprintf(joined, sizeof(joined), "%s%s", m->u.items[0].u.text,
                                   m->u.items[1].u.text);
        } else {
            for (uint32_t k = 0; k < m->len; k++) {
                joined[len] = m->u.text[k];
                len += m->u.text[k] != ' ';
            }
        }
        const int32_t id = tdm_tokenizer_find(kind.tokenizer, joined, len);
        assert_true(id >= 0);
        scores[id] = scores[id] < -1e5f ? -(float)i : scores[id];
    }
    for (int32_t id = 0; id < n; id++) {
        size_t len = 0;
        const char *text = tdm_tokenizer_spelling(kind.tokenizer, id, &len);
        put_piece(&model, text, len, scores[id], type_of(kind.tokenizer, id, text, len));
    }
    put_specs(&model, 2, true, false);
    if (tdm_tokenizer_from_sentencepiece(&made, NULL, (const char *)model.data, model.len, NULL,
                                         "tokenizer.model", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    expect_all_same(&kind, made, false);
    tdm_tokenizer_destroy(made);
    bytes_free(&model);
    free(scores);
    tok_kind_close(&kind);
}

static bytes unigram_model(const tok_kind *kind) {
    const tdm_json *vocab = tdm_json_get(tdm_json_get(kind->root, "model"), "vocab");
    bytes model = {0};
    put_piece(&model, "<unk>", 5, 0.0f, 2);
    for (size_t i = 0; i < vocab->len; i++) {
        const tdm_json *text = &vocab->u.items[i].u.items[0];
        double score = 0.0;
        (void)tdm_json_as_f64(&vocab->u.items[i].u.items[1], &score);
        const bool is_special = text->len > 1 && text->u.text[0] == '<';
        const int32_t id = tdm_tokenizer_find(kind->tokenizer, text->u.text, text->len);
        if (!is_special && id == (int32_t)i) {
            put_piece(&model, text->u.text, text->len, (float)score, 1);
        }
    }
    put_specs(&model, 1, false, true);
    return model;
}

/* The kind's own normalizers are not SentencePiece's, so plain text only. */
static void test_sentencepiece_unigram(void **state) {
    tok_kind kind = tok_kind_open("unigram-metaspace");
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    bytes model = unigram_model(&kind);
    static const char *const TEXTS[] = {"Hello world", "a", "The quick brown fox jumps.",
                                        "don't stop 123 times", "one two  three"};
    (void)state;
    if (tdm_tokenizer_from_sentencepiece(&made, NULL, (const char *)model.data, model.len, NULL,
                                         "spiece.model", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    for (size_t i = 0; i < SUPPORT_LEN(TEXTS); i++) {
        tok_expect_same(kind.tokenizer, made, TEXTS[i], strlen(TEXTS[i]));
    }
    tdm_tokenizer_destroy(made);
    bytes_free(&model);
    tok_kind_close(&kind);
}

static void test_damaged_models(void **state) {
    bytes model = {0};
    (void)state;
    put_piece(&model, "<unk>", 5, 0.0f, 2);
    put_piece(&model, "a", 1, -1.0f, 1);
    put_piece(&model, "<0x41>", 6, -1.0f, 6);
    put_specs(&model, 2, true, false);
    for (size_t len = 0; len < model.len; len++) { /* each beginning, in memory of its own */
        tdm_tokenizer *made = NULL;
        tdm_error err = {TDM_OK, "", "", "", ""};
        char *copy = malloc(len > 0 ? len : 1);
        assert_non_null(copy);
        memcpy(copy, model.data, len);
        const tdm_status status =
            tdm_tokenizer_from_sentencepiece(&made, NULL, copy, len, NULL, "tokenizer.model", &err);
        assert_true(status == TDM_OK || (err.what[0] != '\0' && err.where[0] != '\0'));
        tdm_tokenizer_destroy(made);
        free(copy);
    }
    for (size_t at = 0; at < model.len; at++) {
        tdm_tokenizer *made = NULL;
        bytes copy = bytes_copy(&model);
        for (uint32_t bit = 0; bit < 8; bit++) {
            copy.data[at] ^= (uint8_t)(1u << bit);
            (void)!tdm_tokenizer_from_sentencepiece(&made, NULL, (const char *)copy.data, copy.len,
                                                    NULL, "tokenizer.model", NULL);
            tdm_tokenizer_destroy(made);
            made = NULL;
            copy.data[at] ^= (uint8_t)(1u << bit);
        }
        bytes_free(&copy);
    }
    bytes_free(&model);
}

static void expect_tiktoken_refused(const char *text) {
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    assert_int_equal(
        tdm_tokenizer_from_tiktoken(&made, NULL, text, strlen(text), NULL, "x.tiktoken", &err),
        TDM_E_FORMAT);
    assert_null(made);
    assert_non_null(strstr(err.where, "x.tiktoken"));
}

static void test_damaged_ranks(void **state) {
    tdm_tokenizer *made = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    (void)state;
    expect_tiktoken_refused("");
    expect_tiktoken_refused("YQ==\n");
    expect_tiktoken_refused("Y!== 0\n");
    expect_tiktoken_refused("YQ== x\n");
    expect_tiktoken_refused("YQ== 0\nYQ== 1\n");
    expect_tiktoken_refused("YQ== 0\nYg== 0\n");
    expect_tiktoken_refused("YQ== 99999999\n");
    expect_tiktoken_refused(" 0\n");
    assert_int_equal(tdm_tokenizer_from_tekken(&made, NULL, "{}", 2, NULL, "tekken.json", &err),
                     TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "pattern"));
}

/* Every n-th allocation fails: an error, nothing leaked (the allocator counts). */
static void test_allocations_fail(void **state) {
    bytes model = {0};
    tdm_status status = TDM_E_NOMEM;
    (void)state;
    put_piece(&model, "<unk>", 5, 0.0f, 2);
    put_piece(&model, "a", 1, -1.0f, 1);
    put_specs(&model, 1, true, true);
    for (uint64_t nth = 1; status == TDM_E_NOMEM && nth < 200; nth++) {
        tdm_alloc_tracker tracker;
        tdm_tokenizer *made = NULL;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        status = tdm_tokenizer_from_sentencepiece(&made, &tracker.alloc, (const char *)model.data,
                                                  model.len, NULL, "tokenizer.model", NULL);
        tdm_tokenizer_destroy(made);
        assert_int_equal(tracker.n_live, 0);
    }
    assert_int_equal(status, TDM_OK);
    bytes_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiktoken),
        cmocka_unit_test(test_tiktoken_odd_ranks),
        cmocka_unit_test(test_tekken),
        cmocka_unit_test(test_vocab_and_merges),
        cmocka_unit_test(test_sentencepiece_bpe),
        cmocka_unit_test(test_sentencepiece_unigram),
        cmocka_unit_test(test_damaged_models),
        cmocka_unit_test(test_damaged_ranks),
        cmocka_unit_test(test_allocations_fail),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
