/* SPDX-License-Identifier: Apache-2.0
 *
 * The streaming detokenizer: ids in, text out, never half a character. Floor 4.
 * Law: for any cutting of the ids into pushes, the concatenated output plus finish equals
 * tdm_tokenizer_decode. */
#ifndef TDM_TEXT_DETOK_H
#define TDM_TEXT_DETOK_H

#include "text/tokenizer.h"

typedef struct tdm_detok tdm_detok;

/* Borrows the tokenizer. Owns: caller destroys. Owner thread only. */
TDM_NODISCARD tdm_status tdm_detok_create(tdm_detok **out, const tdm_alloc *alloc,
                                          const tdm_tokenizer *tokenizer, bool skips_special,
                                          tdm_error *err);
void tdm_detok_destroy(tdm_detok *detok);
/* Appends what n more ids make final to out. Errors: TDM_E_ARG for an id outside the vocabulary,
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_detok_push(tdm_detok *detok, const int32_t *ids, size_t n,
                                        tdm_buf *out, tdm_error *err);
/* Appends the held tail, replaced by U+FFFD where it is no character. The detokenizer is then as
 * new. */
TDM_NODISCARD tdm_status tdm_detok_finish(tdm_detok *detok, tdm_buf *out, tdm_error *err);

#endif
