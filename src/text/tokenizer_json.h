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

TDM_NODISCARD tdm_status tdm_json_read_normalizer(tdm_json_reader *r, const tdm_json *node);
TDM_NODISCARD tdm_status tdm_json_read_pre_tokenizer(tdm_json_reader *r, const tdm_json *node);
/* Needs the vocabulary. */
TDM_NODISCARD tdm_status tdm_json_read_post_processor(tdm_json_reader *r, const tdm_json *node);
/* Needs the vocabulary: rewrites its pieces. */
TDM_NODISCARD tdm_status tdm_json_read_decoder(tdm_json_reader *r, const tdm_json *node);
/* Vocabulary, merges and added tokens. */
TDM_NODISCARD tdm_status tdm_json_read_model(tdm_json_reader *r, const tdm_json *root);

#endif
