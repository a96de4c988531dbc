/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer as a pipeline, and how its makers fill it. Floor 4. Room-internal.
 *
 *   text -> raw added tokens -> normalizer -> normalized added tokens -> pretok stages -> model
 *   ids  -> pieces (rewritten once, when made) -> decoder program -> text
 *
 * A maker (tokenizer_json.c, tokenizer_gguf.c) collects tokens in tdm_tokenizer_make, then
 * finishes. Everything lies in the tokenizer's arena. */
#ifndef TDM_TEXT_TOKENIZER_PRIV_H
#define TDM_TEXT_TOKENIZER_PRIV_H

#include "text/bpe.h"
#include "text/pretok.h"
#include "text/spm.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

#define TDM_TOKEN_BYTES_MAX 4096u /* real vocabularies have runs of 1,024 spaces */
#define TDM_VOCAB_MAX (1 << 24)
#define TDM_TEXT_BYTES_MAX ((size_t)1 << 30)
#define TDM_EOG_MAX 64

typedef enum tdm_model_kind {
    TDM_MODEL_BPE,
    TDM_MODEL_SPM,
    TDM_MODEL_UNIGRAM,
    TDM_MODEL_WORDPIECE
} tdm_model_kind;

/* What the matcher does with one added token. */
typedef struct tdm_added_token {
    int32_t id;
    const char *text; /* as it is looked for (normalized where is_normalized) */
    uint32_t len;
    bool is_special; /* counts only where special tokens are parsed */
    bool is_single_word;
    bool is_left_stripped;
    bool is_right_stripped;
    bool is_normalized;
} tdm_added_token;

typedef struct tdm_matcher {
    const tdm_added_token *tokens; /* values of the trie index this */
    size_t n_tokens;
    tdm_trie trie;
    bool is_longest_first; /* the peer's rule for GGUF; else leftmost, then longest */
    uint32_t len_max;
} tdm_matcher;

typedef struct tdm_match {
    size_t begin, end; /* what the token takes, stripped white space included */
    int32_t id;
} tdm_match;

/* Which bytes may spell special tokens. */
typedef struct tdm_trust {
    bool is_all;        /* or none, when n is 0 */
    const size_t *ends; /* end of each segment, ascending */
    const bool *is_trusted;
    size_t n;
} tdm_trust;

/* Fills matches (tdm_match, ascending). view->origins say where trust is asked. Errors:
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_matcher_run(const tdm_matcher *matcher, const tdm_text_view *view,
                                         const tdm_trust *trust, tdm_buf *matches);
/* Takes tokens whose is_normalized is want_normalized. */
TDM_NODISCARD tdm_status tdm_matcher_init(tdm_matcher *matcher, tdm_arena *arena,
                                          const tdm_added_token *tokens, size_t n,
                                          bool wants_normalized, bool is_longest_first);

typedef enum tdm_decode_mode {
    TDM_DECODE_BYTES, /* pieces are bytes; the whole is read as UTF-8, bad parts replaced */
    TDM_DECODE_RUNS,  /* runs of byte tokens are characters or one U+FFFD a byte */
} tdm_decode_mode;

typedef struct tdm_decoder {
    tdm_decode_mode mode;
    bool has_separator;  /* no decoder: a space between tokens */
    uint32_t n_stripped; /* strip_text at the very start, at most so often */
    tdm_text_ref strip_text;
    tdm_text_ref *first_pieces; /* what a token becomes as the first of all; NULL: pieces */
} tdm_decoder;

enum {
    TDM_TOKEN_FLAG_SPECIAL = 1, /* left out by skips_special */
    TDM_TOKEN_FLAG_BYTE = 2     /* piece is one byte of a run */
};

struct tdm_tokenizer {
    const tdm_alloc *alloc;
    tdm_arena arena;
    tdm_unicode *unicode;

    int32_t n_vocab;
    tdm_text_ref *spellings; /* [n_vocab] NUL-terminated; data NULL: unused id */
    tdm_text_ref *pieces;    /* [n_vocab] */
    uint8_t *kinds;          /* [n_vocab] tdm_token_kind */
    uint8_t *flags;          /* [n_vocab] */
    tdm_text_map by_spelling;
    tdm_text_map by_bytes; /* byte level: raw bytes of the vocabulary */

    tdm_model_kind model;
    tdm_bpe bpe;
    tdm_spm spm;
    tdm_unigram unigram;
    tdm_wordpiece wordpiece;

    const bool *crosses; /* [256] see tdm_tokenizer_find_cuts; NULL: no cuts */
    tdm_added_token *added;
    size_t n_added;
    tdm_matcher raw_matcher;
    tdm_matcher normalized_matcher;
    bool has_special_normalized;

    tdm_text_op *normalizers;
    size_t n_normalizers;
    tdm_pretok_stage *stages;
    size_t n_stages;
    int32_t *prefix_ids; /* what adds_special puts in front and behind */
    size_t n_prefix;
    int32_t *suffix_ids;
    size_t n_suffix;
    tdm_decoder decoder;

    int32_t bos, eos, unk;
    bool adds_bos;
    int32_t eog[TDM_EOG_MAX];
    size_t n_eog;
    const char *chat_template;
    size_t chat_template_len;
    const char *description;
};

/* An empty tokenizer with its unicode table. */
TDM_NODISCARD tdm_status tdm_tokenizer_make(tdm_tokenizer **out, const tdm_alloc *alloc,
                                            tdm_error *err);
/* Tables for ids [0, n_vocab). */
TDM_NODISCARD tdm_status tdm_tokenizer_reserve(tdm_tokenizer *tokenizer, int32_t n_vocab,
                                               tdm_error *err);
/* Copies text into the arena as the spelling of id, which must be free. */
TDM_NODISCARD tdm_status tdm_tokenizer_spell(tdm_tokenizer *tokenizer, int32_t id, const char *text,
                                             size_t len, tdm_error *err);
/* raw[0..*out_len) from a byte-level spelling; false when it holds a character outside the
 * alphabet. raw has room for len bytes. */
bool tdm_byte_level_decode(const char *spelling, size_t len, char *raw, size_t *out_len);
/* 0 to 255 for <0xNN>, else -1. */
int32_t tdm_byte_token_value(const char *spelling, size_t len);
/* Puts id among those that end a generation, once; no-op for -1 and when the list is full. */
void tdm_tokenizer_add_eog(tdm_tokenizer *tokenizer, int32_t id);
/* Whether a token of this spelling ends a generation in every family that has it. */
bool tdm_spelling_is_eog(const char *spelling, size_t len);
/* These spellings one by one; NULL past the last. */
const char *tdm_eog_spelling(size_t idx);
TDM_NODISCARD tdm_status tdm_tokenizer_set_template(tdm_tokenizer *tokenizer, const char *text,
                                                    size_t len, tdm_error *err);
/* Runs all normalizers over view. *out is view itself when there are none; else borrowed from one
 * of the builders. */
TDM_NODISCARD tdm_status tdm_tokenizer_normalize(const tdm_tokenizer *tokenizer,
                                                 tdm_regex_scratch *scratch,
                                                 tdm_text_builder builders[2],
                                                 const tdm_text_view *view, tdm_text_view *out,
                                                 tdm_error *err);
/* Where U+2581 follows a byte that no token has in front of it, no merge can reach across: text may
 * be cut there before the model sees it. Fills crosses with the bytes for which one might. For
 * models that merge characters. */
#define TDM_META "\xE2\x96\x81"
TDM_NODISCARD tdm_status tdm_tokenizer_find_cuts(tdm_tokenizer *tokenizer, tdm_error *err);
/* Makes room for offsets; ids that are there already get (0, 0). */
TDM_NODISCARD tdm_status tdm_ids_want_offsets(tdm_ids *ids);
/* Makes both matchers from added, normalizing the tokens that ask for it. */
TDM_NODISCARD tdm_status tdm_tokenizer_make_matchers(tdm_tokenizer *tokenizer,
                                                     bool is_longest_first, tdm_error *err);

/* The decoder as a state machine: tokenizer_decode.c and detok.c. */
typedef struct tdm_decode_state {
    const tdm_tokenizer *tokenizer;
    bool skips_special;
    bool is_raw;    /* bytes as they are, nothing replaced */
    bool has_token; /* one came through */
    uint32_t n_stripped;
    uint32_t tail_len; /* BYTES: the start of a character */
    char tail[4];
    tdm_buf run; /* RUNS: bytes of the open run */
} tdm_decode_state;

void tdm_decode_init(tdm_decode_state *state, const tdm_tokenizer *tokenizer,
                     const tdm_alloc *alloc, bool skips_special, bool is_raw);
void tdm_decode_deinit(tdm_decode_state *state);
TDM_NODISCARD tdm_status tdm_decode_push(tdm_decode_state *state, const int32_t *ids, size_t n,
                                         tdm_buf *out, tdm_error *err);
TDM_NODISCARD tdm_status tdm_decode_finish(tdm_decode_state *state, tdm_buf *out, tdm_error *err);

#endif
