/* SPDX-License-Identifier: Apache-2.0
 *
 * The pre-tokenizers that tokenizer.ggml.pre names. Floor 4. Room-internal.
 * Source: llama.cpp's table of names (src/llama-vocab.cpp). */
#ifndef TDM_TEXT_TOKENIZER_GGUF_H
#define TDM_TEXT_TOKENIZER_GGUF_H

#include "text/tokenizer_priv.h"

#define TDM_GGUF_PATTERNS_MAX 6

typedef struct tdm_gguf_pre {
    const char *name;
    const char *patterns[TDM_GGUF_PATTERNS_MAX]; /* in order; each cuts what the last one left */
    bool takes_whole_word;                       /* ignore_merges */
    bool adds_bos;                               /* where the file does not say */
} tdm_gguf_pre;

/* NULL when the name is not in the table. */
const tdm_gguf_pre *tdm_gguf_pre_find(const char *name, size_t len);

#endif
