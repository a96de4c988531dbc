/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer's tables as bytes that a later process maps and uses where they lie, instead of making
 * them again from the model's files. Floor 4.
 *
 *   head     magic, length, who wrote it, where the texts begin, check
 *   parts    numbers and arrays in the order of tokenizer_image.c's walk, arrays at multiples of 64
 *   texts    spellings and pieces, each with a NUL
 *
 * Who wrote it is the build of this program and of the library of characters: another build makes
 * other tables, and no version has to be raised by hand. The check is a hash of everything else. It
 * tells damage, not intent: every index, length and kind is looked at as well, so that bytes with a
 * right check and wrong numbers are refused, or encode wrongly, but reach no memory that is not
 * theirs. Integers are the machine's own.
 *
 * Unigram and WordPiece, expressions that no scanner knows, and character maps have no image: they
 * are made at every load. */
#ifndef TDM_TEXT_TOKENIZER_IMAGE_H
#define TDM_TEXT_TOKENIZER_IMAGE_H

#include "text/tokenizer.h"

#define TDM_IMAGE_ALIGN 64

/* Appends the image to out, which is empty. Errors: TDM_E_UNSUPPORTED (there is none, see above, or
 * this build has no name), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_tokenizer_image_write(const tdm_tokenizer *tokenizer, tdm_buf *out,
                                                   tdm_error *err);
/* data is aligned to TDM_IMAGE_ALIGN and outlives the tokenizer. Errors: TDM_E_STATE (of another
 * build), TDM_E_FORMAT (damaged), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_tokenizer_image_open(tdm_tokenizer **out, const tdm_alloc *alloc,
                                                  const uint8_t *data, size_t bytes,
                                                  tdm_error *err);
/* Room-internal: whether every number of a tokenizer that was read leads somewhere. */
bool tdm_image_is_sound(const tdm_tokenizer *tokenizer);

#endif
