/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece-style merging by scores, as GGUF files of the `llama` model carry it. Floor 4.
 * Room-internal.
 * Source: shared/spec/quantized-formats.md section 7; llama.cpp's llm_tokenizer_spm_session. */
#ifndef TDM_TEXT_SPM_H
#define TDM_TEXT_SPM_H

#include "text/bpe.h"

typedef struct tdm_spm {
    const tdm_text_map *words; /* every spelling */
    const uint8_t
        *kinds; /* [n_vocab] tdm_token_kind: text becomes no control, unknown, byte token */
    const float *scores;   /* [n_vocab], finite */
    int32_t byte_ids[256]; /* <0xNN>; -1: none */
    int32_t unk_id;        /* for a byte that has no token; -1: it vanishes */
} tdm_spm;

/* Splits text, len in [1, 2^31), into tokens, left in scratch as by tdm_bpe_encode. Errors:
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_spm_encode(const tdm_spm *spm, const char *text, size_t len,
                                        tdm_bpe_scratch *scratch);

#endif
