/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures that other tokenizers had, each with its siblings. BL09: long runs of one thing crash or
 * take for ever (26 things, three sizes, twelve kinds: ids of the reference; and a megabyte costs no
 * more a byte than a twentieth of it). BL28: an added token of letters of the byte alphabet decodes
 * to a broken byte. The panics of the reference over malformed files. */
#include "unit/text/tok_kit.h"

#include "text/detok.h"

#define FNV_BASIS UINT32_C(0x811C9DC5)
#define FNV_PRIME UINT32_C(0x01000193)

static uint32_t fnv(const tdm_ids *ids) {
    uint32_t hash = FNV_BASIS;
    for (size_t i = 0; i < ids->len; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            hash = (hash ^ ((uint32_t)ids->ids[i] >> (8 * k) & 0xFF)) * FNV_PRIME;
        }
    }
    return hash;
}

static int64_t number_at(const tdm_json *list, size_t idx) {
    int64_t value = -1;
    assert_true(tdm_json_as_i64(&list->u.items[idx], &value));
    return value;
}

static size_t fill(char *out, const tdm_json *unit, size_t size) {
    const size_t n = size / unit->len;
    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * unit->len, unit->u.text, unit->len);
    }
    return n * unit->len;
}

static void check_kind(const tdm_json *root, const tdm_json *rows) {
    const tdm_json *units = tdm_json_get(root, "units");
    const tdm_json *sizes = tdm_json_get(root, "sizes");
    tok_kind kind = tok_kind_open(rows->key);
    char *text = malloc(65536);
    tdm_ids ids;
    assert_non_null(text);
    tdm_ids_init(&ids, NULL);
    for (size_t u = 0; u < tdm_json_len(units); u++) {
        for (size_t s = 0; s < tdm_json_len(sizes); s++) {
            const tdm_json *row = &rows->u.items[u * sizes->len + s];
            const size_t len = fill(text, &units->u.items[u], (size_t)number_at(sizes, s));
            tok_encode(kind.tokenizer, text, len, true, &ids);
            if ((int64_t)ids.len != number_at(row, 0) || (int64_t)fnv(&ids) != number_at(row, 1)) {
                fail_msg("%s: unit %zu, size %zu: %zu ids", rows->key, u, s, ids.len);
            }
        }
    }
    tdm_ids_deinit(&ids);
    free(text);
    tok_kind_close(&kind);
}

static void test_runs_have_the_ids_of_the_reference(void **state) {
    char base[SUPPORT_PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    (void)state;
    tdm_json_doc *doc = tok_parse(support_data_path(base, "tokenizers"), "runs.json", &text, &len);
    const tdm_json *root = tdm_json_doc_root(doc);
    const tdm_json *kinds = tdm_json_get(root, "kinds");
    assert_int_equal(tdm_json_len(kinds), 12);
    assert_true(tdm_json_len(tdm_json_get(root, "units")) >= 21);
    for (size_t i = 0; i < kinds->len; i++) {
        check_kind(root, &kinds->u.items[i]);
    }
    tdm_json_doc_destroy(doc);
    free(text);
}

/* Processor time: other work on the machine must not fail a test. */
static int64_t time_of(const tdm_tokenizer *t, const char *text, size_t len, tdm_ids *ids) {
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < 3; i++) {
        const int64_t begin = support_cpu_ns();
        tok_encode(t, text, len, true, ids);
        const int64_t ns = support_cpu_ns() - begin;
        best = ns < best ? ns : best;
    }
    return best;
}

#define SMALL ((size_t)50000)
#define LARGE ((size_t)1000000)
/* Twenty times the text in at most twenty times the time, with room for memory that no longer fits
 * a cache and for a busy machine. A quadratic step gives 400. */
#define TIMES_MAX 100

static void test_time_is_linear(void **state) {
    static const char *const KINDS[] = {"llama3",
                                        "qwen2-nfc",
                                        "gemma-bytefallback",
                                        "llama2-bytefallback",
                                        "unigram-metaspace",
                                        "bert-wordpiece"};
    static const char *const UNITS[] = {"a", " ", "\n", "\xCC\x81", "ab ", "7", "\xE4\xB8\xAD"};
    char *text = malloc(LARGE);
    tdm_ids ids;
    (void)state;
    assert_non_null(text);
    tdm_ids_init(&ids, NULL);
    for (size_t k = 0; k < SUPPORT_LEN(KINDS); k++) {
        tok_kind kind = tok_kind_open(KINDS[k]);
        for (size_t u = 0; u < SUPPORT_LEN(UNITS); u++) {
            const size_t n = strlen(UNITS[u]);
            for (size_t i = 0; i + n <= LARGE; i += n) {
                memcpy(text + i, UNITS[u], n);
            }
            const int64_t small = time_of(kind.tokenizer, text, SMALL / n * n, &ids);
            const int64_t large = time_of(kind.tokenizer, text, LARGE / n * n, &ids);
            if (large > TIMES_MAX * (small + 100000)) {
                fail_msg("%s: %s: %lld ns, then %lld ns", KINDS[k], UNITS[u], (long long)small,
                         (long long)large);
            }
        }
        tok_kind_close(&kind);
    }
    tdm_ids_deinit(&ids);
    free(text);
}

/* BL28 */

static uint32_t alphabet_of(uint32_t byte) {
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) {
        return byte;
    }
    return byte <= 0x20 ? 0x100 + byte : byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
}

/* A byte-level pipeline whose added tokens are, for each letter of the alphabet, form with the
 * letter in place of @. */
static tdm_tokenizer *make_alphabet(const char *form, const char *flags) {
    tdm_tokenizer *t = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_buf text;
    tdm_buf_init(&text, NULL, 0);
    assert_int_equal(tdm_buf_append_text(&text, "{\"added_tokens\":["), TDM_OK);
    for (uint32_t byte = 0; byte < 256; byte++) {
        assert_int_equal(tdm_buf_printf(&text, "%s{\"id\":%u,%s,\"content\":\"",
                                        byte > 0 ? "," : "", 256 + byte, flags),
                         TDM_OK);
        for (const char *p = form; *p != '\0'; p++) {
            assert_int_equal(*p == '@' ? tdm_buf_printf(&text, "\\u%04x", alphabet_of(byte))
                                       : tdm_buf_append(&text, p, 1),
                             TDM_OK);
        }
        assert_int_equal(tdm_buf_append_text(&text, "\"}"), TDM_OK);
    }
    assert_int_equal(
        tdm_buf_append_text(&text, "],\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space"
                                   "\":false},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{"
                                   "\"type\":\"BPE\",\"merges\":[],\"vocab\":{"),
        TDM_OK);
    for (uint32_t byte = 0; byte < 256; byte++) {
        assert_int_equal(
            tdm_buf_printf(&text, "%s\"\\u%04x\":%u", byte > 0 ? "," : "", alphabet_of(byte), byte),
            TDM_OK);
    }
    assert_int_equal(tdm_buf_append_text(&text, "}}}"), TDM_OK);
    if (tdm_tokenizer_from_json(&t, NULL, text.data, text.len, NULL, "made", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_buf_deinit(&text);
    return t;
}

static void expect_round_trip(const tdm_tokenizer *t, int32_t id) {
    char text[96];
    size_t len = 0;
    const char *spelling = tdm_tokenizer_spelling(t, id, &len);
    tdm_detok *detok = NULL;
    tdm_ids ids;
    tdm_buf out;
    size_t n_found = 0;
    assert_true(len < 32);
    (void)snprintf(text, sizeof(text), "a %s \xC3\x96 %s z", spelling, spelling);
    tdm_ids_init(&ids, NULL);
    tdm_buf_init(&out, NULL, 0);
    tok_encode(t, text, strlen(text), true, &ids);
    for (size_t i = 0; i < ids.len; i++) {
        n_found += ids.ids[i] == id;
    }
    if (n_found != 2) {
        fail_msg("%s stands %zu times in %s", spelling, n_found, text);
    }
    assert_int_equal(tdm_tokenizer_decode(t, ids.ids, ids.len, false, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), text);
    tdm_buf_reset(&out);
    assert_int_equal(tdm_detok_create(&detok, NULL, t, false, NULL), TDM_OK);
    for (size_t i = 0; i < ids.len; i++) {
        assert_int_equal(tdm_detok_push(detok, ids.ids + i, 1, &out, NULL), TDM_OK);
    }
    assert_int_equal(tdm_detok_finish(detok, &out, NULL), TDM_OK);
    assert_string_equal(tdm_buf_text(&out), text);
    tdm_detok_destroy(detok);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
}

/* Twenty-one forms of a token, each over the 256 letters. */
static void test_added_tokens_of_the_alphabet(void **state) {
    static const char *const FORMS[] = {"<@>", "@@",  "[@",  "@]",  "@.@", "x@y", "|@|",
                                        "@1",  "1@",  "_@_", "{@}", "@@@", "-@-", "#@",
                                        "@#",  "~@~", "q@",  "@q",  "(@)", "@$",  "$@$"};
    static const char *const FLAGS[] = {"\"special\":true,\"normalized\":false",
                                        "\"special\":false,\"normalized\":true"};
    (void)state;
    for (size_t f = 0; f < SUPPORT_LEN(FORMS); f++) {
        tdm_tokenizer *t = make_alphabet(FORMS[f], FLAGS[f % 2]);
        for (int32_t byte = 0; byte < 256; byte++) {
            expect_round_trip(t, 256 + byte);
        }
        tdm_tokenizer_destroy(t);
    }
}

/* Where the added token is a letter of the alphabet itself, it is its own text. */
static void test_a_letter_as_a_token(void **state) {
    static const char FILE[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"\\u00d6\",\"special\":false}],\"decoder\":{"
        "\"type\":\"ByteLevel\"},\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
        "false},\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\"a\":0,\"b\":1}}}";
    tdm_tokenizer *t = NULL;
    tdm_buf out;
    (void)state;
    assert_int_equal(tdm_tokenizer_from_json(&t, NULL, FILE, sizeof(FILE) - 1, NULL, "made", NULL),
                     TDM_OK);
    tdm_buf_init(&out, NULL, 0);
    assert_int_equal(tdm_tokenizer_decode(t, (const int32_t[]){0, 3, 1, 3}, 4, false, &out, NULL),
                     TDM_OK);
    assert_string_equal(tdm_buf_text(&out), "a\xC3\x96"
                                            "b\xC3\x96");
    tdm_buf_deinit(&out);
    tdm_tokenizer_destroy(t);
}

/* Malformed files that made the reference panic when it loaded them or, later, when it used them
 * (tokenizers#626, #1452, #2094, #2151, #2154). Here they are refused, or mean something. */
static void test_panics_of_the_reference(void **state) {
#define BPE "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"<s>\":2},\"merges\":[]}"
    static const struct {
        const char *file;
        tdm_status status;
    } CASES[] = {
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a aaaaaaaa\"]}}",
         TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[\"a b\"]}}",
         TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[],\"unk_id\":0}}", TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.0]],\"unk_id\":7}}", TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1.0]],\"unk_id\":null}}", TDM_OK},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"\",-1.0],[\"a\",1]],\"unk_id\":0}}",
         TDM_OK},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0},\"unk_token\":\"[UNK]\"}}",
         TDM_E_FORMAT},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0,\"u\":1},\"unk_token\":\"u\","
         "\"max_input_chars_per_word\":0}}",
         TDM_OK},
        {"{\"truncation\":{\"max_length\":4,\"stride\":4}," BPE "}", TDM_E_FORMAT},
        {"{\"truncation\":{\"max_length\":4,\"stride\":9}," BPE "}", TDM_E_FORMAT},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"<x>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
         "\"special_tokens\":{}}," BPE "}",
         TDM_E_FORMAT},
        {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
         "\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],"
         "\"special_tokens\":{\"<s>\":{\"id\":\"<s>\",\"ids\":[99],\"tokens\":[\"<s>\"]}}}," BPE
         "}",
         TDM_E_FORMAT},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," BPE "}",
         TDM_E_FORMAT},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////////\"}," BPE
         "}",
         TDM_E_FORMAT},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"}," BPE "}",
         TDM_OK},
        {"{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAP////8A\"}," BPE
         "}",
         TDM_OK},
        {"{\"decoder\":{\"type\":\"Strip\",\"content\":\"a\",\"start\":0,\"stop\":9}," BPE "}",
         TDM_E_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}," BPE "}", TDM_E_UNSUPPORTED},
        {"{\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}," BPE "}", TDM_E_FORMAT},
        {"{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(a\"},\"content\":\"\"}"
         "," BPE "}",
         TDM_E_FORMAT},
        {"{\"normalizer\":{\"type\":\"Strip\"},\"added_tokens\":[{\"id\":9,\"content\":\" \","
         "\"normalized\":true}]," BPE "}",
         TDM_OK},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        static const char TEXT[] = " a b<s> \xC3\x96\xFF\xF0\x9F\x98\x80 c ";
        tdm_tokenizer *t = NULL;
        tdm_error err = {TDM_OK, "", "", "", ""};
        const tdm_status status = tdm_tokenizer_from_json(&t, NULL, CASES[i].file,
                                                          strlen(CASES[i].file), NULL, "f", &err);
        if (status != CASES[i].status) {
            fail_msg("%s: status %d, %s", CASES[i].file, (int)status, err.what);
        }
        assert_true(status == TDM_OK || (err.what[0] != '\0' && err.where[0] != '\0'));
        if (status == TDM_OK) {
            tdm_ids ids;
            tdm_buf out;
            tdm_ids_init(&ids, NULL);
            tdm_buf_init(&out, NULL, 0);
            tok_encode(t, TEXT, sizeof(TEXT) - 1, true, &ids);
            assert_int_equal(tdm_tokenizer_decode(t, ids.ids, ids.len, false, &out, NULL), TDM_OK);
            tdm_buf_deinit(&out);
            tdm_ids_deinit(&ids);
        }
        tdm_tokenizer_destroy(t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_have_the_ids_of_the_reference),
        cmocka_unit_test(test_time_is_linear),
        cmocka_unit_test(test_added_tokens_of_the_alphabet),
        cmocka_unit_test(test_a_letter_as_a_token),
        cmocka_unit_test(test_panics_of_the_reference),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
