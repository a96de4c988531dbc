/* SPDX-License-Identifier: Apache-2.0
 *
 * The models of tokenizer.ggml.model and the pre-tokenizers that tokenizer.ggml.pre names. Floor 4.
 * Room-internal.
 * Source: llama.cpp's table of names (src/llama-vocab.cpp). */
#ifndef TDM_TEXT_TOKENIZER_GGUF_H
#define TDM_TEXT_TOKENIZER_GGUF_H

#include "formats/gguf.h"
#include "text/tokenizer_priv.h"

#define TDM_GGUF_PATTERNS_MAX 6

typedef struct tdm_gguf_pre {
    const char *name;
    const char *patterns[TDM_GGUF_PATTERNS_MAX]; /* in order; each cuts what the last one left */
    bool takes_whole_word;                       /* ignore_merges */
    bool adds_bos;                               /* where the file does not say */
    bool is_of_characters; /* not byte-level: U+2581 for spaces, <0xNN> for what has no token */
    bool is_bos_forced;    /* whatever the file says */
    bool needs_no_merges;
} tdm_gguf_pre;

/* NULL when the name is not in the table. */
const tdm_gguf_pre *tdm_gguf_pre_find(const char *name, size_t len);

#define TDM_GGUF_KEY(name) "tokenizer.ggml." name

typedef struct tdm_gguf_model tdm_gguf_model;

typedef struct tdm_gguf_reader {
    tdm_tokenizer *tokenizer;
    const tdm_gguf *gguf;
    const char *name;
    tdm_error *err;
    const tdm_gguf_model *model;
    const tdm_gguf_pre *pre; /* NULL unless the model is BPE */
} tdm_gguf_reader;

struct tdm_gguf_model {
    const char *name;
    const char *what; /* for a description */
    tdm_model_kind kind;
    tdm_status (*read)(tdm_gguf_reader *r);
    const char *pre;       /* the one there is; NULL: the file names it */
    int32_t bos, eos, unk; /* where the file does not say; -1: none */
    bool adds_bos, adds_eos;
};

tdm_status tdm_gguf_refuse(tdm_gguf_reader *r, tdm_status code, const char *key, const char *what);
/* Whether the model may make this token out of plain text: no control, unknown or byte token. */
bool tdm_gguf_is_plain(const tdm_tokenizer *tokenizer, int32_t id);
TDM_NODISCARD tdm_status tdm_gguf_read_scores(tdm_gguf_reader *r, const float **out);
/* What tokens decode to: U+2581 is a space in normal ones, a byte token is its byte. */
TDM_NODISCARD tdm_status tdm_gguf_make_pieces(tdm_gguf_reader *r);
TDM_NODISCARD tdm_status tdm_gguf_escape_spaces(tdm_gguf_reader *r, bool is_prefixed);
/* The map of texts that the model may make. */
TDM_NODISCARD tdm_status tdm_gguf_map_words(tdm_gguf_reader *r);
/* <0xNN>, -1 where there is none. */
void tdm_gguf_find_bytes(const tdm_tokenizer *tokenizer, int32_t ids[256]);
/* Tokens that are cut out of the text before the model sees it, by their kinds. */
TDM_NODISCARD tdm_status tdm_gguf_read_added(tdm_gguf_reader *r);
/* A trie of the same texts as the map. */
TDM_NODISCARD tdm_status tdm_gguf_fill_trie(tdm_gguf_reader *r, tdm_trie *trie);
/* In tokenizer_gguf_words.c */
TDM_NODISCARD tdm_status tdm_gguf_read_bert(tdm_gguf_reader *r);
TDM_NODISCARD tdm_status tdm_gguf_read_t5(tdm_gguf_reader *r);

#endif
