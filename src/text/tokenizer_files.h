/* SPDX-License-Identifier: Apache-2.0
 *
 * Makers from the files that models had before, or have instead of, a tokenizer.json. Floor 4.
 * Room-internal; tokenizer_open.c looks for them. config is the root of tokenizer_config.json or
 * NULL. Errors of all: TDM_E_FORMAT, TDM_E_UNSUPPORTED, TDM_E_LIMIT, TDM_E_NOMEM. */
#ifndef TDM_TEXT_TOKENIZER_FILES_H
#define TDM_TEXT_TOKENIZER_FILES_H

#include "text/tokenizer_priv.h"

/* tokenizer.model: SentencePiece's protocol buffer. */
TDM_NODISCARD tdm_status tdm_tokenizer_from_sentencepiece(tdm_tokenizer **out,
                                                          const tdm_alloc *alloc, const char *data,
                                                          size_t len, const tdm_json *config,
                                                          const char *name, tdm_error *err);
/* Lines of base64 and a rank. The split expression and the special tokens are not in the file: they
 * come from its name and size, and from config. */
TDM_NODISCARD tdm_status tdm_tokenizer_from_tiktoken(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                     const char *text, size_t len,
                                                     const tdm_json *config, const char *name,
                                                     tdm_error *err);
/* tekken.json */
TDM_NODISCARD tdm_status tdm_tokenizer_from_tekken(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                   const char *text, size_t len,
                                                   const tdm_json *config, const char *name,
                                                   tdm_error *err);
/* vocab.json with merges.txt */
typedef struct tdm_vocab_files {
    const char *vocab;
    size_t vocab_len;
    const char *merges;
    size_t merges_len;
} tdm_vocab_files;
TDM_NODISCARD tdm_status tdm_tokenizer_from_vocab(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                  const tdm_vocab_files *files,
                                                  const tdm_json *config, const char *name,
                                                  tdm_error *err);

/* What a file says of beginning and end; config's bos_token, eos_token, add_bos_token,
 * add_eos_token and chat_template win. */
typedef struct tdm_file_facts {
    int32_t bos, eos; /* -1: none */
    bool adds_bos, adds_eos;
} tdm_file_facts;
TDM_NODISCARD tdm_status tdm_tokenizer_set_facts(tdm_tokenizer *tokenizer, const tdm_json *config,
                                                 const tdm_file_facts *facts, tdm_error *err);

#endif
