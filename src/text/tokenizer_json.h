/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of the parts of a tokenizer.json. Floor 4. Room-internal. Parts that may be sequences are
 * flattened first, so that a reader sees one component at a time. */
#ifndef TDM_TEXT_TOKENIZER_JSON_H
#define TDM_TEXT_TOKENIZER_JSON_H

#include "text/tokenizer_priv.h"

#define TDM_JSON_LEAVES_MAX 32
#define TDM_JSON_PATH_MAX 96

typedef struct tdm_json_reader {
    tdm_tokenizer *tokenizer;
    const char *name; /* of the file */
    tdm_error *err;
} tdm_json_reader;

typedef struct tdm_json_leaf { /* one component, an object whose type is a text */
    const tdm_json *node;
    char path[TDM_JSON_PATH_MAX];
} tdm_json_leaf;

typedef struct tdm_json_leaves {
    tdm_json_leaf items[TDM_JSON_LEAVES_MAX];
    size_t n;
} tdm_json_leaves;

/* Fills leaves with node, or with what Sequences under it hold in their member, in order. A node
 * that is NULL or null gives none. */
TDM_NODISCARD tdm_status tdm_json_flatten(tdm_json_reader *r, const tdm_json *node,
                                          const char *path, const char *member,
                                          tdm_json_leaves *leaves);
/* Sets the error with "FILE: path" as where. Returns code. */
tdm_status tdm_json_refuse(tdm_json_reader *r, tdm_status code, const char *path, const char *fmt,
                           ...) TDM_PRINTF(4, 5);

/* A text member into the arena. */
TDM_NODISCARD tdm_status tdm_json_copy_text(tdm_json_reader *r, const tdm_json_leaf *leaf,
                                            const char *key, size_t len_max, const char **out,
                                            size_t *out_len);
TDM_NODISCARD tdm_status tdm_json_read_flag(tdm_json_reader *r, const tdm_json_leaf *leaf,
                                            const char *key, bool fallback, bool *out);
/* Replacement character and prepend scheme ('a'lways, 'f'irst, 'n'ever) of a Metaspace. */
TDM_NODISCARD tdm_status tdm_json_read_metaspace(tdm_json_reader *r, const tdm_json_leaf *leaf,
                                                 const char **out, size_t *out_len,
                                                 char *out_scheme);

/* out has room for len bytes. False when text is no base64. */
bool tdm_base64_decode(const char *text, size_t len, char *out, size_t *out_len);

/* Pattern and content of a Replace. */
TDM_NODISCARD tdm_status tdm_json_read_replace(tdm_json_reader *r, const tdm_json_leaf *leaf,
                                               tdm_text_op *op);
TDM_NODISCARD tdm_status tdm_json_read_normalizer(tdm_json_reader *r, const tdm_json *node);
TDM_NODISCARD tdm_status tdm_json_read_pre_tokenizer(tdm_json_reader *r, const tdm_json *node);
/* Needs the vocabulary. */
TDM_NODISCARD tdm_status tdm_json_read_post_processor(tdm_json_reader *r, const tdm_json *node);
/* Needs the vocabulary: rewrites its pieces. */
TDM_NODISCARD tdm_status tdm_json_read_decoder(tdm_json_reader *r, const tdm_json *node);
tdm_status tdm_json_refuse_at(tdm_json_reader *r, tdm_status code, const char *list, size_t idx,
                              const char *what);
/* Refuses a token of more than TDM_TOKEN_BYTES_MAX bytes. */
TDM_NODISCARD tdm_status tdm_json_check_token(tdm_json_reader *r, const char *list, size_t idx,
                                              size_t len);
/* In tokenizer_json_words.c: a vocabulary that is a list of tokens and scores; what Unigram and
 * WordPiece need besides it. */
TDM_NODISCARD tdm_status tdm_json_read_scored(tdm_json_reader *r, const tdm_json *vocab);
TDM_NODISCARD tdm_status tdm_json_read_unigram(tdm_json_reader *r, const tdm_json *model);
TDM_NODISCARD tdm_status tdm_json_read_wordpiece(tdm_json_reader *r, const tdm_json *model);
/* Vocabulary, merges and added tokens. */
TDM_NODISCARD tdm_status tdm_json_read_model(tdm_json_reader *r, const tdm_json *root);

#endif
