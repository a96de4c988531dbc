/* SPDX-License-Identifier: Apache-2.0
 *
 * Long words in linear time, for models that merge neighbours by priority (bpe.h, spm.h). Floor 4.
 * Room-internal.
 *
 * Law used: a row of tokens is what the model makes of its text exactly when each two neighbours
 * are what it makes of theirs. (Merging goes by a total order of (priority, place), so what happens
 * inside two neighbours, seen alone, is what happens to them in the whole word until the first
 * merge across a border; and such a merge would happen in the pair as well.) Hence a word may be
 * encoded in windows: a window that begins where a token of the last one began, and begins with the
 * same token, joins it seamlessly. And a row that comes back to a token at the same place of a
 * period may be repeated. It holds only where each character becomes symbols by itself. */
#ifndef TDM_TEXT_STITCH_H
#define TDM_TEXT_STITCH_H

#include "text/bpe.h"

#define TDM_STITCH_BYTES_MIN 160u /* shorter words gain nothing */

/* Encodes len >= 1 bytes into scratch->symbols as tdm_bpe_encode does. */
typedef tdm_status (*tdm_window_fn)(const void *model, const char *word, size_t len,
                                    tdm_bpe_scratch *scratch);

/* Encodes word by encode, a window at a time. Windows end at characters. Errors: encode's. */
TDM_NODISCARD tdm_status tdm_stitch_encode(const void *model, tdm_window_fn encode,
                                           const char *word, size_t len, tdm_bpe_scratch *scratch);

#endif
