/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging of one word. Floor 4. Room-internal. The model is immutable; what a call needs
 * lies in its scratch. Words take linear time (stitch.h); those whose unknown characters hang
 * together O(n log n).
 * Source: the merge rule of Hugging Face tokenizers (models/bpe/word.rs): the pair of least rank
 * first, the leftmost of equals. */
#ifndef TDM_TEXT_BPE_H
#define TDM_TEXT_BPE_H

#include "text/tokenizer_map.h"

#define TDM_BPE_NO_RANK UINT32_MAX

typedef struct tdm_bpe_merge {
    uint64_t key; /* left id << 32 | right id; UINT64_MAX: free */
    uint32_t rank;
    int32_t id; /* what the pair becomes */
} tdm_bpe_merge;

typedef struct tdm_bpe {
    tdm_bpe_merge *merges;
    size_t mask;
    uint8_t *filter; /* a bit for each of many hashes: small enough for the second-level cache, it
                      * answers most pairs that do not merge */
    size_t filter_mask;
    bool is_byte_level;    /* symbols are bytes; keys of words are the raw bytes */
    bool has_byte_tokens;  /* an unknown character falls to <0xNN> tokens */
    bool takes_whole_word; /* ignore_merges: a word that is in the vocabulary is one token */
    bool is_unk_fused;
    int32_t unk_id;            /* -1: unknown characters vanish, as in the reference */
    int32_t byte_ids[256];     /* byte level: one byte's token; -1: none */
    int32_t fallback_ids[256]; /* <0xNN>; -1: none */
    const tdm_text_map *words; /* by the text that the encoder meets */
    uint32_t *byte_pairs;      /* byte level: [65536] 1 + slot of the merge of two bytes; 0: none */
    int32_t *char_ids;         /* characters: [65536] token of one of the basic plane; -1: none */
    _Atomic uint8_t *whole;    /* [n_vocab] what a word that is spelled like a token becomes: 0 not
                                * tried yet, 1 that token, 2 something else. A memo: any thread
                                * that fills it in writes the same. */
    bool is_local;             /* each character becomes symbols by itself; see stitch.h */
} tdm_bpe;

typedef struct tdm_bpe_symbol {
    int32_t id;
    uint32_t begin, end; /* bytes of the word */
    uint32_t prev, next; /* UINT32_MAX: none */
} tdm_bpe_symbol;

typedef struct tdm_bpe_scratch {
    tdm_buf symbols; /* tdm_bpe_symbol */
    tdm_buf heap;    /* internal */
    tdm_buf done;    /* internal: of stitch.c */
    size_t n;        /* symbols that the last encode left, in order, in symbols[0..n) */
} tdm_bpe_scratch;

void tdm_bpe_scratch_init(tdm_bpe_scratch *scratch, const tdm_alloc *alloc);
void tdm_bpe_scratch_deinit(tdm_bpe_scratch *scratch);
const tdm_bpe_symbol *tdm_bpe_result(const tdm_bpe_scratch *scratch);

/* Room for n merges. */
TDM_NODISCARD tdm_status tdm_bpe_init(tdm_bpe *bpe, tdm_arena *arena, size_t n_merges);
/* A pair that is there already takes the new rank when is_last_kept, else keeps its own. */
void tdm_bpe_put(tdm_bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id,
                 bool is_last_kept);
/* Once everything is in its place. */
TDM_NODISCARD tdm_status tdm_bpe_seal(tdm_bpe *bpe, tdm_arena *arena, size_t n_vocab);
/* Merges without looking the whole word up, for makers that still fill the table. */
TDM_NODISCARD tdm_status tdm_bpe_merge_bytes(const tdm_bpe *bpe, const char *word, size_t len,
                                             tdm_bpe_scratch *scratch);
/* Splits word, len in [1, 2^31), into tokens. Errors: TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_bpe_encode(const tdm_bpe *bpe, const char *word, size_t len,
                                        tdm_bpe_scratch *scratch);

#endif
