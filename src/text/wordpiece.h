/* SPDX-License-Identifier: Apache-2.0
 *
 * WordPiece: the longest token at the start of a word, then the longest one that continues it, and
 * so on; a word that cannot be covered is one unknown token. Floor 4. Room-internal. The model is
 * immutable. Time is linear in the word and in the longest token.
 *
 * Vocabularies tell heads from tails by spelling: `word` and `##tail` in tokenizer.json, U+2581
 * `word` and `tail` in GGUF. Both are a lead that is put in front of what is looked up.
 * Source: Hugging Face tokenizers (models/wordpiece); llama.cpp's llm_tokenizer_wpm_session. */
#ifndef TDM_TEXT_WORDPIECE_H
#define TDM_TEXT_WORDPIECE_H

#include "text/bpe.h"

typedef struct tdm_wordpiece {
    tdm_trie trie;      /* tokens that text may become, by their spelling */
    uint32_t head_node; /* where the leads lead to; 0 with an empty lead */
    uint32_t tail_node;
    bool has_head_lead;
    bool has_tail_lead;
    size_t chars_max; /* a longer word is unknown */
    int32_t unk_id;
} tdm_wordpiece;

/* Finds the nodes of the leads once the trie is filled. */
void tdm_wordpiece_set_leads(tdm_wordpiece *wordpiece, const char *head, const char *tail,
                             size_t tail_len);
/* Splits word, len in [1, 2^31), into tokens, left in scratch as by tdm_bpe_encode. Errors:
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_wordpiece_encode(const tdm_wordpiece *wordpiece, const char *word,
                                              size_t len, tdm_bpe_scratch *scratch);

#endif
