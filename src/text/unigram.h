/* SPDX-License-Identifier: Apache-2.0
 *
 * The Unigram model: of all ways to cut a word into tokens the one with the greatest sum of scores.
 * Floor 4. Room-internal. The model is immutable. One pass over the word; at each character the
 * trie is walked as far as it goes, so time is linear in the word and in the longest token.
 * Source: SentencePiece's unigram_model.cc (EncodeOptimized) as Hugging Face tokenizers
 * (models/unigram) follows it. */
#ifndef TDM_TEXT_UNIGRAM_H
#define TDM_TEXT_UNIGRAM_H

#include "text/bpe.h"

#define TDM_UNIGRAM_PENALTY 10.0 /* an unknown character scores that much below the worst token */

typedef struct tdm_unigram {
    tdm_trie trie;             /* tokens that text may become, by their spelling */
    const double *scores;      /* [n_vocab], finite */
    double unk_score;          /* of one unknown character */
    int32_t unk_id;            /* a run of unknown characters; -1: they vanish */
    bool has_byte_tokens;      /* such a run falls to <0xNN> tokens */
    int32_t fallback_ids[256]; /* <0xNN>; -1: none */
    const tdm_text_map *words;
} tdm_unigram;

/* Splits text, len in [1, 2^31), into tokens, left in scratch as by tdm_bpe_encode. Errors:
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_unigram_encode(const tdm_unigram *unigram, const char *text,
                                            size_t len, tdm_bpe_scratch *scratch);

#endif
