/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a file that holds a tokenizer: a tokenizer.json where they begin with a brace or
 * white space; else byte 0 picks tokenizer.model ('s'), tiktoken ('t'), tekken ('k') or vocab.json
 * with merges.txt (any other; a NUL stands between the two), and the rest is the file. Properties: a refusal says what and where; an accepted tokenizer
 * finds every spelling again, encodes any text to ids of its vocabulary or says why not, decodes
 * those, and the stream of them equals the whole; memory is bounded and all given back. */
#include "text/detok.h"
#include "text/tokenizer_files.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PEAK_BYTES_MAX ((size_t)256 << 20)

static void check_vocabulary(const tdm_tokenizer *tokenizer) {
    const int32_t n = tdm_tokenizer_n_vocab(tokenizer);
    size_t len = 0;
    for (int32_t id = 0; id < n; id++) {
        const char *spelling = tdm_tokenizer_spelling(tokenizer, id, &len);
        if (spelling != NULL) { /* found again, or its twin of the same spelling */
            size_t twin_len = 0;
            const int32_t twin = tdm_tokenizer_find(tokenizer, spelling, len);
            const char *twin_spelling = tdm_tokenizer_spelling(tokenizer, twin, &twin_len);
            TDM_CHECK(twin_spelling != NULL && twin_len == len);
            TDM_CHECK(memcmp(twin_spelling, spelling, len) == 0);
        }
        /* SentencePiece spells tokens that it does not use. */
        TDM_CHECK(spelling != NULL || tdm_tokenizer_kind(tokenizer, id) == TDM_TOKEN_UNUSED);
    }
    TDM_CHECK(tdm_tokenizer_spelling(tokenizer, n, &len) == NULL);
    TDM_CHECK(tdm_tokenizer_bos(tokenizer) < n && tdm_tokenizer_eos(tokenizer) < n);
}

static void check_stream(const tdm_tokenizer *tokenizer, const tdm_alloc *alloc,
                         const tdm_ids *ids) {
    tdm_detok *detok = NULL;
    tdm_buf whole;
    tdm_buf stream;
    tdm_buf_init(&whole, alloc, 0);
    tdm_buf_init(&stream, alloc, 0);
    TDM_CHECK(tdm_tokenizer_decode(tokenizer, ids->ids, ids->len, true, &whole, NULL) == TDM_OK);
    TDM_CHECK(tdm_detok_create(&detok, alloc, tokenizer, true, NULL) == TDM_OK);
    for (size_t i = 0; i < ids->len; i++) {
        TDM_CHECK(tdm_detok_push(detok, ids->ids + i, 1, &stream, NULL) == TDM_OK);
    }
    TDM_CHECK(tdm_detok_finish(detok, &stream, NULL) == TDM_OK);
    TDM_CHECK(whole.len == stream.len);
    TDM_CHECK(whole.len == 0 || memcmp(whole.data, stream.data, whole.len) == 0);
    tdm_detok_destroy(detok);
    tdm_buf_deinit(&whole);
    tdm_buf_deinit(&stream);
}

static void check_use(const tdm_tokenizer *tokenizer, const tdm_alloc *alloc) {
    static const char *const TEXTS[] = {"", "Hello world's 123\n\n  <s>ab ",
                                        "e\xCC\x81\xE4\xBD\xA0", "\xFF\xE2\x82 a"};
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(TEXTS[0]); i++) {
        const tdm_encode_options options = {true, i % 2 == 0, i % 2 == 1};
        tdm_error err = {TDM_OK, "", "", "", ""};
        tdm_ids ids;
        tdm_ids_init(&ids, alloc);
        const tdm_status status =
            tdm_tokenizer_encode(tokenizer, TEXTS[i], strlen(TEXTS[i]), &options, &ids, &err);
        TDM_CHECK(status == TDM_OK || status == TDM_E_FORMAT || status == TDM_E_LIMIT);
        TDM_CHECK(status == TDM_OK || (ids.len == 0 && err.what[0] != '\0'));
        for (size_t k = 0; k < ids.len; k++) {
            TDM_CHECK(ids.ids[k] >= 0 && ids.ids[k] < tdm_tokenizer_n_vocab(tokenizer));
            TDM_CHECK(ids.offsets == NULL || (ids.offsets[k][0] <= ids.offsets[k][1] &&
                                              ids.offsets[k][1] <= strlen(TEXTS[i])));
        }
        check_stream(tokenizer, alloc, &ids);
        tdm_ids_deinit(&ids);
    }
}

static tdm_status open_any(tdm_tokenizer **out, const tdm_alloc *alloc, const char *data,
                           size_t size, tdm_error *err) {
    if (size == 0 || data[0] == '{' || data[0] == '[' || data[0] == ' ' || data[0] == '\n') {
        return tdm_tokenizer_from_json(out, alloc, data, size, NULL, "fuzz.json", err);
    }
    const char *rest = data + 1;
    const size_t len = size - 1;
    switch (data[0]) {
    case 's':
        return tdm_tokenizer_from_sentencepiece(out, alloc, rest, len, NULL, "tokenizer.model",
                                                err);
    case 't':
        return tdm_tokenizer_from_tiktoken(out, alloc, rest, len, NULL, "qwen.tiktoken", err);
    case 'k':
        return tdm_tokenizer_from_tekken(out, alloc, rest, len, NULL, "tekken.json", err);
    default:
        break;
    }
    const char *nul = memchr(rest, 0, len);
    const size_t vocab_len = nul != NULL ? (size_t)(nul - rest) : len;
    const tdm_vocab_files files = {rest, vocab_len, nul != NULL ? nul + 1 : "",
                                   nul != NULL ? len - vocab_len - 1 : 0};
    return tdm_tokenizer_from_vocab(out, alloc, &files, NULL, "vocab.json", err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tdm_alloc_tracker tracker;
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    tdm_alloc_tracker_init(&tracker, NULL);
    const tdm_status status = open_any(&tokenizer, &tracker.alloc, (const char *)data, size, &err);
    if (status == TDM_OK) {
        check_vocabulary(tokenizer);
        check_use(tokenizer, &tracker.alloc);
    } else {
        TDM_CHECK(tokenizer == NULL && err.code == status);
        TDM_CHECK(err.what[0] != '\0' && err.where[0] != '\0');
    }
    tdm_tokenizer_destroy(tokenizer);
    TDM_CHECK(tracker.n_live == 0 && tracker.live_bytes == 0);
    TDM_CHECK(tracker.peak_bytes < PEAK_BYTES_MAX);
    return 0;
}
