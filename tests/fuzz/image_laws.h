/* SPDX-License-Identifier: Apache-2.0
 *
 * What holds of a tokenizer that was read from an image, whatever its bytes: it finds, encodes and
 * decodes inside its memory and its vocabulary. Small images of each kind, changed at will and given
 * a right check again, since the check alone would refuse them all. */
#ifndef TDM_TESTS_FUZZ_IMAGE_LAWS_H
#define TDM_TESTS_FUZZ_IMAGE_LAWS_H

#include "base/hash.h"
#include "text/detok.h"
#include "text/tokenizer_image.h"

#include <string.h>

#define IMAGE_HEAD_BYTES 40
#define IMAGE_CHECK_AT 32
#define IMAGE_KINDS 4

/* A tokenizer.json of each kind that has an image. */
static inline const char *image_json(size_t kind) {
#define IMAGE_VOCAB                                                                                \
    "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"\\u0120a\":4,\"c\":5,\"<s>\":6,"          \
    "\"\\u2581\":7,\"<0x41>\":8,\"abc\":9},\"merges\":[[\"a\",\"b\"],[\"\\u0120\",\"a\"],"         \
    "[\"ab\",\"c\"]]}"
#define IMAGE_ADDED                                                                                \
    "\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true,\"normalized\":false},"      \
    "{\"id\":10,\"content\":\"new\",\"lstrip\":true,\"rstrip\":true,\"single_word\":true,"         \
    "\"special\":false,\"normalized\":true}],"
    static const char *const FILES[IMAGE_KINDS] = {
        "{" IMAGE_ADDED "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
        "{\"type\":\"Replace\",\"pattern\":{\"String\":\"q\"},\"content\":\"ab\"}]},"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"use_regex\":true},"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\"," IMAGE_VOCAB "}",
        "{" IMAGE_ADDED "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
        "\"Lowercase\"},{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}]},"
        "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\","
        "\"individual_digits\":true},{\"type\":\"Split\",\"pattern\":{\"String\":\"c\"},"
        "\"behavior\":\"MergedWithNext\",\"invert\":false},{\"type\":\"Punctuation\"}]},"
        "\"decoder\":null,\"model\":{\"type\":\"BPE\",\"unk_token\":\"c\",\"fuse_unk\":true,"
        "\"byte_fallback\":true," IMAGE_VOCAB "}",
        "{" IMAGE_ADDED "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\","
        "\"prepend_scheme\":\"always\",\"split\":true},\"decoder\":{\"type\":\"Metaspace\","
        "\"replacement\":\"\\u2581\",\"prepend_scheme\":\"always\",\"split\":true},"
        "\"model\":{\"type\":\"BPE\",\"ignore_merges\":true," IMAGE_VOCAB "}",
        "{" IMAGE_ADDED "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\\u2581\"},"
        "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":"
        "\"Fuse\"},{\"type\":\"Strip\",\"content\":\"\\u2581\",\"start\":1,\"stop\":0}]},"
        "\"model\":{\"type\":\"BPE\",\"byte_fallback\":true," IMAGE_VOCAB "}",
    };
    return FILES[kind % IMAGE_KINDS];
}

/* The image of kind; *out is empty. */
static inline void image_make(size_t kind, tdm_buf *out) {
    const char *json = image_json(kind);
    tdm_tokenizer *made = NULL;
    TDM_CHECK(tdm_tokenizer_from_json(&made, NULL, json, strlen(json), NULL, "made", NULL) ==
              TDM_OK);
    TDM_CHECK(tdm_tokenizer_image_write(made, out, NULL) == TDM_OK);
    tdm_tokenizer_destroy(made);
}

/* Length and check as they must be for what the bytes are. */
static inline void image_repair(uint8_t *data, size_t bytes) {
    uint64_t word = bytes;
    memcpy(data + 16, &word, sizeof word);
    memset(data + IMAGE_CHECK_AT, 0, sizeof word);
    word = tdm_hash64_seeded(data + IMAGE_HEAD_BYTES, bytes - IMAGE_HEAD_BYTES,
                             tdm_hash64(data, IMAGE_HEAD_BYTES));
    memcpy(data + IMAGE_CHECK_AT, &word, sizeof word);
}

static inline void image_use_text(const tdm_tokenizer *t, const tdm_alloc *alloc, const char *text,
                                  size_t len, bool parses_special) {
    const tdm_encode_options options = {true, parses_special, true};
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_detok *detok = NULL;
    tdm_ids ids;
    tdm_buf out;
    tdm_ids_init(&ids, alloc);
    tdm_buf_init(&out, alloc, 0);
    const tdm_status status = tdm_tokenizer_encode(t, text, len, &options, &ids, &err);
    TDM_CHECK(status == TDM_OK || status == TDM_E_FORMAT || status == TDM_E_LIMIT);
    for (size_t i = 0; i < ids.len; i++) {
        TDM_CHECK(ids.ids[i] >= 0 && ids.ids[i] < tdm_tokenizer_n_vocab(t));
    }
    TDM_CHECK(tdm_tokenizer_decode(t, ids.ids, ids.len, false, &out, NULL) == TDM_OK);
    TDM_CHECK(tdm_detok_create(&detok, alloc, t, true, NULL) == TDM_OK);
    TDM_CHECK(tdm_detok_push(detok, ids.ids, ids.len, &out, NULL) == TDM_OK);
    TDM_CHECK(tdm_detok_finish(detok, &out, NULL) == TDM_OK);
    tdm_detok_destroy(detok);
    tdm_ids_deinit(&ids);
    tdm_buf_deinit(&out);
}

/* Everything that a tokenizer does. */
static inline void image_laws(const tdm_tokenizer *t, const tdm_alloc *alloc) {
    static const char *const TEXTS[] = {"", "ab abc new<s>A 12 aB,c  c",
                                        "e\xCC\x81\xE4\xBD\xA0q\xE2\x96\x81 a", "\xFF\xE2\x82 a"};
    char run[400];
    const int32_t n = tdm_tokenizer_n_vocab(t);
    size_t len = 0;
    size_t sum = 0;
    for (int32_t id = -1; id <= n; id++) {
        const char *spelling = tdm_tokenizer_spelling(t, id, &len);
        if (spelling != NULL) {
            TDM_CHECK(spelling[len] == '\0');
            sum += (size_t)(tdm_tokenizer_find(t, spelling, len) + 1);
        }
        TDM_CHECK(tdm_tokenizer_kind(t, id) <= TDM_TOKEN_UNUSED);
    }
    for (size_t i = 0; i < tdm_tokenizer_n_eog(t); i++) {
        TDM_CHECK(tdm_tokenizer_eog_at(t, i) >= 0 && tdm_tokenizer_eog_at(t, i) < n);
    }
    TDM_CHECK(tdm_tokenizer_bos(t) < n && tdm_tokenizer_eos(t) < n);
    TDM_CHECK(strlen(tdm_tokenizer_describe(t)) < SIZE_MAX && sum < SIZE_MAX);
    if (tdm_tokenizer_chat_template(t, &len) != NULL) {
        TDM_CHECK(tdm_tokenizer_chat_template(t, &len)[len] == '\0');
    }
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        image_use_text(t, alloc, TEXTS[i], strlen(TEXTS[i]), i % 2 == 1);
    }
    for (size_t i = 0; i < sizeof run; i++) { /* a word in windows */
        run[i] = "abcab"[i * i % 5];
    }
    image_use_text(t, alloc, run, sizeof run, false);
}

/* Opens bytes that lie aligned and uses what they are; whether they were accepted. */
static inline bool image_try(const uint8_t *data, size_t bytes) {
    tdm_alloc_tracker tracker;
    tdm_tokenizer *t = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_alloc_tracker_init(&tracker, NULL);
    const tdm_status status = tdm_tokenizer_image_open(&t, &tracker.alloc, data, bytes, &err);
    if (status == TDM_OK) {
        image_laws(t, &tracker.alloc);
    } else {
        TDM_CHECK(t == NULL && err.code == status && err.what[0] != '\0');
        TDM_CHECK(status == TDM_E_FORMAT || status == TDM_E_STATE);
    }
    tdm_tokenizer_destroy(t);
    TDM_CHECK(tracker.n_live == 0 && tracker.peak_bytes < (size_t)64 << 20);
    return status == TDM_OK;
}

#endif
