/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of tokenizers share: the committed kinds with their 79 strings, and comparisons of
 * two tokenizers over them. */
#ifndef TDM_TESTS_UNIT_TEXT_TOK_KIT_H
#define TDM_TESTS_UNIT_TEXT_TOK_KIT_H

#include "support/support.h"

#include "text/tokenizer_image.h"

typedef struct tok_kind {
    tdm_json_doc *file; /* tokenizer.json */
    tdm_json_doc *golden;
    const tdm_json *root;
    const tdm_json *cases;
    tdm_tokenizer *tokenizer;
} tok_kind;

static inline tdm_json_doc *tok_parse(const char *folder, const char *name, char **out_text,
                                      size_t *out_len) {
    char path[SUPPORT_PATH_MAX];
    tdm_json_doc *doc = NULL;
    *out_text = support_read_file(support_join(path, folder, name), out_len);
    assert_int_equal(
        tdm_json_parse(&doc, NULL, *out_text, *out_len, &TDM_JSON_LIMITS_TOKENIZER, name, NULL),
        TDM_OK);
    return doc;
}

/* A tokenizer out of another one's image. */
typedef struct tok_copy {
    uint8_t *bytes;
    size_t len;
    tdm_tokenizer *tokenizer; /* NULL: tokenizers of this kind have no image */
} tok_copy;

static inline tok_copy tok_copy_open(const tdm_tokenizer *tokenizer) {
    tok_copy copy = {NULL, 0, NULL};
    tdm_buf image;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_buf_init(&image, NULL, 0);
    const tdm_status status = tdm_tokenizer_image_write(tokenizer, &image, &err);
    if (status == TDM_OK) {
        copy.len = image.len;
        copy.bytes = tdm_mem_alloc_aligned(NULL, image.len, TDM_IMAGE_ALIGN);
        assert_non_null(copy.bytes);
        memcpy(copy.bytes, image.data, image.len);
        if (tdm_tokenizer_image_open(&copy.tokenizer, NULL, copy.bytes, copy.len, &err) != TDM_OK) {
            fail_msg("%s", err.what);
        }
    } else {
        assert_int_equal(status, TDM_E_UNSUPPORTED);
    }
    tdm_buf_deinit(&image);
    return copy;
}

static inline void tok_copy_close(tok_copy *copy) {
    tdm_tokenizer_destroy(copy->tokenizer);
    tdm_mem_free_aligned(NULL, copy->bytes, copy->len, TDM_IMAGE_ALIGN);
}

#ifdef TDM_SOURCE_DIR
static inline tok_kind tok_kind_open(const char *name) {
    char base[SUPPORT_PATH_MAX];
    char folder[SUPPORT_PATH_MAX];
    char *text = NULL;
    size_t len = 0;
    tok_kind kind = {NULL, NULL, NULL, NULL, NULL};
    (void)support_join(folder, support_data_path(base, "tokenizers"), name);
    kind.file = tok_parse(folder, "tokenizer.json", &text, &len);
    kind.root = tdm_json_doc_root(kind.file);
    assert_int_equal(tdm_tokenizer_from_json(&kind.tokenizer, NULL, text, len, NULL, name, NULL),
                     TDM_OK);
    free(text);
    kind.golden = tok_parse(folder, "golden.json", &text, &len);
    kind.cases = tdm_json_get(tdm_json_doc_root(kind.golden), "cases");
    free(text);
    return kind;
}
#endif

static inline void tok_kind_close(tok_kind *kind) {
    tdm_tokenizer_destroy(kind->tokenizer);
    tdm_json_doc_destroy(kind->file);
    tdm_json_doc_destroy(kind->golden);
}

static inline void tok_encode(const tdm_tokenizer *tokenizer, const char *text, size_t len,
                              bool parses_special, tdm_ids *ids) {
    const tdm_encode_options options = {false, parses_special, false};
    tdm_error err = {TDM_OK, "", "", "", ""};
    ids->len = 0;
    if (tdm_tokenizer_encode(tokenizer, text, len, &options, ids, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
}

/* Both give tokens of the same spellings; prefix of a spelling that only one of them has. */
static inline void tok_expect_same(const tdm_tokenizer *a, const tdm_tokenizer *b, const char *text,
                                   size_t len) {
    tdm_ids ids[2];
    tdm_ids_init(&ids[0], NULL);
    tdm_ids_init(&ids[1], NULL);
    tok_encode(a, text, len, false, &ids[0]);
    tok_encode(b, text, len, false, &ids[1]);
    bool is_same = ids[0].len == ids[1].len;
    for (size_t i = 0; i < ids[0].len && is_same; i++) {
        size_t lens[2] = {0, 0};
        const char *one = tdm_tokenizer_spelling(a, ids[0].ids[i], &lens[0]);
        const char *two = tdm_tokenizer_spelling(b, ids[1].ids[i], &lens[1]);
        is_same = lens[0] == lens[1] && memcmp(one, two, lens[0]) == 0;
    }
    if (!is_same) {
        for (size_t k = 0; k < 2; k++) {
            for (size_t i = 0; i < ids[k].len; i++) {
                size_t n = 0;
                (void)printf(" [%s]", tdm_tokenizer_spelling(k == 0 ? a : b, ids[k].ids[i], &n));
            }
            (void)printf("\n");
        }
        fail_msg("tokens differ for %s", text);
    }
    tdm_ids_deinit(&ids[0]);
    tdm_ids_deinit(&ids[1]);
}

/* Every fact and every token. */
static inline void tok_expect_same_facts(const tdm_tokenizer *a, const tdm_tokenizer *b) {
    size_t lens[2] = {0, 0};
    const int32_t n = tdm_tokenizer_n_vocab(a);
    tdm_buf texts[2];
    tdm_buf_init(&texts[0], NULL, 0);
    tdm_buf_init(&texts[1], NULL, 0);
    assert_int_equal(tdm_tokenizer_n_vocab(b), n);
    assert_int_equal(tdm_tokenizer_bos(a), tdm_tokenizer_bos(b));
    assert_int_equal(tdm_tokenizer_eos(a), tdm_tokenizer_eos(b));
    assert_int_equal(tdm_tokenizer_adds_bos(a), tdm_tokenizer_adds_bos(b));
    assert_int_equal(tdm_tokenizer_n_eog(a), tdm_tokenizer_n_eog(b));
    for (size_t i = 0; i < tdm_tokenizer_n_eog(a); i++) {
        assert_int_equal(tdm_tokenizer_eog_at(a, i), tdm_tokenizer_eog_at(b, i));
    }
    assert_string_equal(tdm_tokenizer_describe(a), tdm_tokenizer_describe(b));
    const char *one = tdm_tokenizer_chat_template(a, &lens[0]);
    const char *two = tdm_tokenizer_chat_template(b, &lens[1]);
    assert_int_equal(lens[0], lens[1]);
    assert_true((one == NULL) == (two == NULL) && (one == NULL || memcmp(one, two, lens[0]) == 0));
    for (int32_t id = 0; id < n; id++) {
        one = tdm_tokenizer_spelling(a, id, &lens[0]);
        two = tdm_tokenizer_spelling(b, id, &lens[1]);
        assert_true((one == NULL) == (two == NULL) && lens[0] == lens[1]);
        assert_true(one == NULL || memcmp(one, two, lens[0] + 1) == 0);
        assert_int_equal(tdm_tokenizer_kind(a, id), tdm_tokenizer_kind(b, id));
        tdm_buf_reset(&texts[0]);
        tdm_buf_reset(&texts[1]);
        assert_int_equal(tdm_tokenizer_decode_bytes(a, &id, 1, id % 2 == 0, &texts[0], NULL),
                         TDM_OK);
        assert_int_equal(tdm_tokenizer_decode_bytes(b, &id, 1, id % 2 == 0, &texts[1], NULL),
                         TDM_OK);
        assert_int_equal(texts[0].len, texts[1].len);
        assert_true(texts[0].len == 0 || memcmp(texts[0].data, texts[1].data, texts[0].len) == 0);
    }
    tdm_buf_deinit(&texts[0]);
    tdm_buf_deinit(&texts[1]);
}

static inline bool tok_is_ascii(const tdm_json *text) {
    for (uint32_t i = 0; i < text->len; i++) {
        if ((uint8_t)text->u.text[i] >= 0x80 || (uint8_t)text->u.text[i] < 0x20) {
            return false;
        }
    }
    return true;
}

#endif
