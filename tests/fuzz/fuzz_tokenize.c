/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a text. Byte 0 picks one of the pipelines below, byte 1 the options, byte 2 where
 * the text is cut; the rest is the text. Properties: a byte-level pipeline gives the text back byte
 * for byte and its offsets cover it without a gap; the stream of decoded ids equals the whole;
 * cutting the text into trusted segments changes nothing; untrusted text gives no special token. */
#include "base/utf8.h"
#include "text/detok.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SPLIT(expr)                                                                                \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" expr "\"},\"behavior\":\"Isolated\"},"
#define LINES "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define FOLD "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define UPPER "[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define LOWER "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]"
#define PREFIX "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?"

static const struct pipeline {
    const char *normalizer;
    const char *splits;
    bool is_exact; /* gives every text back */
} PIPELINES[] = {
    {"null", "", true},
    {"null",
     SPLIT(FOLD "|" PREFIX
                "\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" LINES),
     true},
    {"{\"type\":\"NFC\"}",
     SPLIT(FOLD "|" PREFIX "\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" LINES),
     false},
    {"null",
     SPLIT(PREFIX UPPER "*" LOWER "+" FOLD "?|" PREFIX UPPER "+" LOWER "*" FOLD
                        "?|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|" LINES),
     true},
    {"null", "{\"type\":\"Digits\",\"individual_digits\":true},", true},
    {"{\"type\":\"NFKD\"}", SPLIT("(?=[A-Z])|\\\\w+\\\\b"), false}, /* through PCRE2 */
    {"{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"x\"},{\"type\":"
     "\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"__\"},{\"type\":\"Lowercase\"}]}",
     "", false},
    {"words", "", false},
    {"scores", "", false},
};
#define N_PIPELINES (sizeof(PIPELINES) / sizeof(PIPELINES[0]))

static uint32_t alphabet_of(uint32_t byte) {
    if ((byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE) {
        return byte;
    }
    return byte <= 0x20 ? 0x100 + byte : byte == 0xAD ? 0x143 : 0x121 + byte - 0x7F;
}

/* The alphabet, and merges that make runs, a word and a piece of a special token. */
static tdm_tokenizer *make_words(bool has_scores) {
    static const char WORDS[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<|s|>\",\"special\":true,\"normalized\":false}]"
        ","
        "\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\"},\"model\":{\"type\":"
        "\"WordPiece\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"<|s|>\":1,\"a\":2,\"##a\":3,"
        "\"##aa\":4,\"he\":5,\"##l\":6,\"<\":7,\".\":8}}}";
    static const char SCORES[] =
        "{\"added_tokens\":[{\"id\":1,\"content\":\"<|s|>\",\"special\":true,\"normalized\":false}]"
        ","
        "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Nmt\"},{\"type\":"
        "\"NFKC\"}]},\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},"
        "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"},\"model\":{\"type\":"
        "\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"<|s|>\",0],[\"\\u2581\",-2],[\"a\","
        "-3],[\"aa\",-3.5],[\"aaa\",-4.25],[\"\\u2581he\",-1],[\"<|\",-5],[\"s|>\",-5]]}}";
    tdm_tokenizer *tokenizer = NULL;
    const char *text = has_scores ? SCORES : WORDS;
    TDM_CHECK(tdm_tokenizer_from_json(&tokenizer, NULL, text, strlen(text), NULL, "made", NULL) ==
              TDM_OK);
    return tokenizer;
}

static tdm_tokenizer *make(const struct pipeline *p) {
    if (strcmp(p->normalizer, "words") == 0 || strcmp(p->normalizer, "scores") == 0) {
        return make_words(p->normalizer[0] == 's');
    }
    static const char TAIL[] =
        "\"aa\":256,\"aaaa\":257,\"\\u0120\\u0120\":258,\"he\":259,\"<|\":260,\"<|s\":261,"
        "\"<|s|>\":262},\"merges\":[\"a a\",\"aa aa\",\"\\u0120 \\u0120\",\"h e\",\"< |\",\"<| "
        "s\"]}}";
    tdm_tokenizer *tokenizer = NULL;
    tdm_buf text;
    tdm_buf_init(&text, NULL, 0);
    TDM_CHECK(
        tdm_buf_printf(&text,
                       "{\"added_tokens\":[{\"id\":262,\"content\":\"<|s|>\",\"special\":true,"
                       "\"normalized\":false},{\"id\":263,\"content\":\"tag\",\"special\":"
                       "false,\"normalized\":true,\"single_word\":true}],\"normalizer\":%s,"
                       "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s{"
                       "\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true"
                       "}]},\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                       "\"vocab\":{",
                       p->normalizer, p->splits) == TDM_OK);
    for (uint32_t byte = 0; byte < 256; byte++) {
        TDM_CHECK(tdm_buf_printf(&text, "\"\\u%04x\":%u,", (unsigned)alphabet_of(byte),
                                 (unsigned)byte) == TDM_OK);
    }
    TDM_CHECK(tdm_buf_append_text(&text, TAIL) == TDM_OK);
    TDM_CHECK(tdm_tokenizer_from_json(&tokenizer, NULL, text.data, text.len, NULL, "made", NULL) ==
              TDM_OK);
    tdm_buf_deinit(&text);
    return tokenizer;
}

static void check_back(const tdm_tokenizer *tokenizer, const tdm_ids *ids, const char *text,
                       size_t len) {
    tdm_buf out;
    size_t end = 0;
    tdm_buf_init(&out, NULL, 0);
    TDM_CHECK(tdm_tokenizer_decode_bytes(tokenizer, ids->ids, ids->len, false, &out, NULL) ==
              TDM_OK);
    TDM_CHECK(out.len == len && (len == 0 || memcmp(out.data, text, len) == 0));
    for (size_t i = 0; ids->offsets != NULL && i < ids->len; i++) {
        TDM_CHECK(ids->offsets[i][0] == end && ids->offsets[i][1] >= end);
        end = ids->offsets[i][1];
    }
    TDM_CHECK(ids->offsets == NULL || end == len);
    tdm_buf_deinit(&out);
}

static void check_stream(const tdm_tokenizer *tokenizer, const tdm_ids *ids) {
    tdm_detok *detok = NULL;
    tdm_buf whole;
    tdm_buf stream;
    tdm_buf_init(&whole, NULL, 0);
    tdm_buf_init(&stream, NULL, 0);
    TDM_CHECK(tdm_tokenizer_decode(tokenizer, ids->ids, ids->len, false, &whole, NULL) == TDM_OK);
    TDM_CHECK(tdm_utf8_valid_prefix(whole.data, whole.len) == whole.len);
    TDM_CHECK(tdm_detok_create(&detok, NULL, tokenizer, false, NULL) == TDM_OK);
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

/* The text in three pieces, all of one trust, gives the ids of the whole. */
static void check_segments(const tdm_tokenizer *tokenizer, const char *text, size_t len, size_t cut,
                           bool is_trusted, const tdm_ids *want) {
    const size_t first = len > 0 ? cut % (len + 1) : 0;
    const size_t second = first + (len - first) / 2;
    const tdm_text_segment segments[3] = {{text, first, is_trusted},
                                          {text + first, second - first, is_trusted},
                                          {text + second, len - second, is_trusted}};
    tdm_ids got;
    tdm_ids_init(&got, NULL);
    TDM_CHECK(tdm_tokenizer_encode_segments(tokenizer, segments, 3, false, &got, NULL) == TDM_OK);
    TDM_CHECK(got.len == want->len);
    TDM_CHECK(got.len == 0 || memcmp(got.ids, want->ids, got.len * sizeof(got.ids[0])) == 0);
    for (size_t i = 0; i < got.len && !is_trusted; i++) {
        TDM_CHECK(tdm_tokenizer_kind(tokenizer, got.ids[i]) != TDM_TOKEN_CONTROL);
    }
    tdm_ids_deinit(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tdm_tokenizer *tokenizers[N_PIPELINES]; /* made on first use, kept */
    if (size < 3) {
        return 0;
    }
    const size_t which = data[0] % N_PIPELINES;
    const tdm_encode_options options = {false, (data[1] & 1) != 0, (data[1] & 2) != 0};
    const char *text = (const char *)data + 3;
    const size_t len = size - 3;
    tdm_ids ids;
    if (tokenizers[which] == NULL) {
        tokenizers[which] = make(&PIPELINES[which]);
    }
    tdm_ids_init(&ids, NULL);
    const tdm_status status =
        tdm_tokenizer_encode(tokenizers[which], text, len, &options, &ids, NULL);
    TDM_CHECK(status == TDM_OK ||
              (status == TDM_E_FORMAT && tdm_utf8_valid_prefix(text, len) != len));
    if (status == TDM_OK) {
        if (PIPELINES[which].is_exact) {
            check_back(tokenizers[which], &ids, text, len);
        }
        check_stream(tokenizers[which], &ids);
        check_segments(tokenizers[which], text, len, data[2], options.parses_special, &ids);
    }
    tdm_ids_deinit(&ids);
    return 0;
}
