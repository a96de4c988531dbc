/* SPDX-License-Identifier: Apache-2.0
 *
 * Pre-tokenizing: stages that cut a text into pieces (by scanner, literal or expression) or rewrite
 * the pieces. Floor 4. Room-internal. A new pre-tokenizer is a list of stages. */
#ifndef TDM_TEXT_PRETOK_H
#define TDM_TEXT_PRETOK_H

#include "text/pretok_scan.h"
#include "text/tokenizer_text.h"

typedef enum tdm_split_behavior {
    TDM_SPLIT_ISOLATED,
    TDM_SPLIT_REMOVED,
    TDM_SPLIT_MERGED_WITH_PREVIOUS,
    TDM_SPLIT_MERGED_WITH_NEXT,
    TDM_SPLIT_CONTIGUOUS
} tdm_split_behavior;

typedef struct tdm_pretok_stage {
    const tdm_text_op *op;     /* a rewriting stage, or NULL: a split by the first of */
    const tdm_scan_rule *rule; /* known expression */
    const tdm_regex *expr;     /* any other */
    const char *literal;       /* a text of literal_len >= 1 bytes */
    size_t literal_len;
    tdm_split_behavior behavior;
    bool is_inverted; /* matches and what lies between them change places */
} tdm_pretok_stage;

typedef struct tdm_piece {
    uint32_t begin, end;
} tdm_piece;

typedef struct tdm_pretok_scratch {
    tdm_buf pieces[2];            /* tdm_piece, in turn */
    tdm_text_builder builders[2]; /* texts of rewriting stages, in turn */
    tdm_regex_scratch regex;
} tdm_pretok_scratch;

void tdm_pretok_scratch_init(tdm_pretok_scratch *scratch, const tdm_alloc *alloc,
                             bool wants_origins);
void tdm_pretok_scratch_deinit(tdm_pretok_scratch *scratch);

/* Runs all stages over text. *out_text is what the pieces cut; both are borrowed from text and
 * scratch until the next call. No piece is empty; pieces ascend. Errors: TDM_E_FORMAT (an
 * expression met bytes that are no UTF-8), TDM_E_LIMIT, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_pretok_run(const tdm_pretok_stage *stages, size_t n_stages,
                                        const tdm_unicode *unicode, const tdm_text_view *text,
                                        tdm_pretok_scratch *scratch, tdm_text_view *out_text,
                                        const tdm_piece **out_pieces, size_t *out_n,
                                        tdm_error *err);

#endif
