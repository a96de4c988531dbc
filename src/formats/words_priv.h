/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things that both containers say in the same words. Floor 3, private to formats. */
#ifndef TDM_FORMATS_WORDS_PRIV_H
#define TDM_FORMATS_WORDS_PRIV_H

#include "base/alloc.h"

/* A Git LFS pointer: the text that stands in for a file that was never fetched. */
bool tdm_is_pointer_file(const uint8_t *data, size_t bytes);
/* Returns TDM_E_FORMAT. */
tdm_status tdm_fail_pointer_file(const char *name, tdm_error *err);

/* The end of a path, starting after a slash and at most 120 bytes, so that where has room for the
 * rest; the whole path when it is short. */
const char *tdm_path_tail(const char *path);

/* Length for "%.*s" of at most max bytes of text: cut before a NUL and never inside a UTF-8
 * sequence. */
int tdm_text_cut(const char *text, size_t len, size_t max);

/* Product of dims and elem_bytes; false on overflow (of the elements past INT64_MAX too, even where
 * a later dim is 0). dims are not negative. */
bool tdm_shape_bytes(const int64_t *dims, int32_t rank, size_t elem_bytes, size_t *out_bytes);

#endif
