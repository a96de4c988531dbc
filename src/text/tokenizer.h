/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers: text to ids and back. Floor 4. A tokenizer is immutable after it is made and may be
 * shared by threads. Encoding never fails for the sake of the text: any bytes give ids (or
 * TDM_E_FORMAT when they are no UTF-8 and the pipeline works on characters), and no input takes
 * more than linear time times a logarithm. */
#ifndef TDM_TEXT_TOKENIZER_H
#define TDM_TEXT_TOKENIZER_H

#include "base/buf.h"
#include "base/json.h"
#include "formats/checkpoint.h"

typedef struct tdm_tokenizer tdm_tokenizer;

typedef enum tdm_token_kind {
    TDM_TOKEN_NORMAL,
    TDM_TOKEN_CONTROL, /* special: skipped by display decoding */
    TDM_TOKEN_USER,    /* added, matched before the model, shown */
    TDM_TOKEN_BYTE,    /* <0xNN> */
    TDM_TOKEN_UNKNOWN,
    TDM_TOKEN_UNUSED
} tdm_token_kind;

/* A growing list of ids with, on request, the byte range of the input that each came from. */
typedef struct tdm_ids {
    const tdm_alloc *alloc;
    int32_t *ids;
    uint32_t (*offsets)[2]; /* [len] begin, end; NULL unless asked for */
    size_t len;
    size_t cap;
} tdm_ids;

void tdm_ids_init(tdm_ids *ids, const tdm_alloc *alloc);
void tdm_ids_deinit(tdm_ids *ids);
TDM_NODISCARD tdm_status tdm_ids_append(tdm_ids *ids, int32_t id, uint32_t begin, uint32_t end);

typedef struct tdm_encode_options {
    bool adds_special;   /* BOS and EOS as the post-processor or the metadata say */
    bool parses_special; /* special tokens spelled in the text become their ids */
    bool wants_offsets;
} tdm_encode_options;

/* From the text of a tokenizer.json; config is the root of tokenizer_config.json or NULL.
 * Errors: TDM_E_FORMAT (JSON path in where), TDM_E_UNSUPPORTED (a component this build lacks,
 * named), TDM_E_LIMIT. */
TDM_NODISCARD tdm_status tdm_tokenizer_from_json(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                 const char *text, size_t len,
                                                 const tdm_json *config, const char *name,
                                                 tdm_error *err);
/* From GGUF metadata (tokenizer.ggml.*). Errors: as above; TDM_E_NOT_FOUND when the file has no
 * tokenizer. */
TDM_NODISCARD tdm_status tdm_tokenizer_from_gguf(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                 const tdm_gguf *gguf, const char *name,
                                                 tdm_error *err);
/* From what the checkpoint has: GGUF metadata, or the first there is of tokenizer.json, tekken.json,
 * tokenizer.model (SentencePiece or tiktoken), qwen.tiktoken, tiktoken.model, and vocab.json with
 * merges.txt, mapped through fs (NULL: the system's). TDM_E_NOT_FOUND when it has none. */
TDM_NODISCARD tdm_status tdm_tokenizer_open(tdm_tokenizer **out, const tdm_alloc *alloc,
                                            const tdm_checkpoint *checkpoint, const tdm_fs *fs,
                                            tdm_error *err);
void tdm_tokenizer_destroy(tdm_tokenizer *tokenizer);

/* Appends to ids. */
TDM_NODISCARD tdm_status tdm_tokenizer_encode(const tdm_tokenizer *tokenizer, const char *text,
                                              size_t len, const tdm_encode_options *options,
                                              tdm_ids *ids, tdm_error *err);

typedef struct tdm_team tdm_team;
typedef struct tdm_batch_text {
    const char *text;
    size_t len;
} tdm_batch_text;
/* Encodes text i into ids[i], which are initialized and whose allocators any thread may use; the
 * ids are those of one call a text. team NULL: on this thread. On failure the error is that of the
 * first text that failed, and the lists behind it are empty. */
TDM_NODISCARD tdm_status tdm_tokenizer_encode_batch(const tdm_tokenizer *tokenizer, tdm_team *team,
                                                    const tdm_batch_text *texts, size_t n,
                                                    const tdm_encode_options *options, tdm_ids *ids,
                                                    tdm_error *err);

/* One piece of a prompt: trusted pieces (template text) parse special tokens, untrusted ones
 * (message content) do not. */
typedef struct tdm_text_segment {
    const char *text;
    size_t len;
    bool is_trusted;
} tdm_text_segment;
/* Encodes segments as one text: ordinary text merges across borders exactly as if it were joined,
 * but a special token counts only where all of its spelling lies in trusted segments. */
TDM_NODISCARD tdm_status tdm_tokenizer_encode_segments(const tdm_tokenizer *tokenizer,
                                                       const tdm_text_segment *segments,
                                                       size_t n_segments, bool adds_special,
                                                       tdm_ids *ids, tdm_error *err);

/* Appends the bytes that ids stand for, as the whole-sequence decoder of the pipeline gives them,
 * before any replacement of invalid UTF-8. skips_special leaves control tokens out. TDM_E_ARG names
 * an id outside the vocabulary. */
TDM_NODISCARD tdm_status tdm_tokenizer_decode_bytes(const tdm_tokenizer *tokenizer,
                                                    const int32_t *ids, size_t n,
                                                    bool skips_special, tdm_buf *out,
                                                    tdm_error *err);
/* The same as valid UTF-8, invalid bytes replaced as the reference library does. */
TDM_NODISCARD tdm_status tdm_tokenizer_decode(const tdm_tokenizer *tokenizer, const int32_t *ids,
                                              size_t n, bool skips_special, tdm_buf *out,
                                              tdm_error *err);

/* Facts. */
int32_t tdm_tokenizer_n_vocab(const tdm_tokenizer *tokenizer);
int32_t tdm_tokenizer_bos(const tdm_tokenizer *tokenizer); /* -1: none */
int32_t tdm_tokenizer_eos(const tdm_tokenizer *tokenizer); /* -1: none */
bool tdm_tokenizer_adds_bos(const tdm_tokenizer *tokenizer);
/* Ids that end a generation, whatever the config says (eos, eot, end of turn as the metadata name
 * them). */
size_t tdm_tokenizer_n_eog(const tdm_tokenizer *tokenizer);
int32_t tdm_tokenizer_eog_at(const tdm_tokenizer *tokenizer, size_t idx);
tdm_token_kind tdm_tokenizer_kind(const tdm_tokenizer *tokenizer, int32_t id);
/* The vocabulary's own spelling (byte-level alphabet and all), NUL-terminated; NULL for an unused
 * id. */
const char *tdm_tokenizer_spelling(const tdm_tokenizer *tokenizer, int32_t id, size_t *out_len);
/* -1 when no token is spelled so. */
int32_t tdm_tokenizer_find(const tdm_tokenizer *tokenizer, const char *spelling, size_t len);
/* The chat template that the tokenizer's files carry; NULL when none. Borrowed. */
const char *tdm_tokenizer_chat_template(const tdm_tokenizer *tokenizer, size_t *out_len);
/* One line for inspect: "bpe byte-level, pre smollm, 49152 tokens". */
const char *tdm_tokenizer_describe(const tdm_tokenizer *tokenizer);

#endif
