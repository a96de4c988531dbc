/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's precompiled character map: a double array over UTF-8 that leads to replacement
 * texts. Floor 4. Room-internal. The bytes come from outside: every step is checked, a broken array
 * finds nothing.
 * Source: SentencePiece's normalizer.cc and Darts-clone's unit layout. */
#ifndef TDM_TEXT_CHARSMAP_H
#define TDM_TEXT_CHARSMAP_H

#include "base/alloc.h"
#include "base/status.h"

typedef struct tdm_charsmap {
    const uint32_t *units;
    size_t n_units;
    const char *texts; /* NUL-terminated, the last one as well */
    size_t texts_len;
    bool is_longest; /* SentencePiece: the longest prefix; the reference: clusters, the shortest */
} tdm_charsmap;

/* Copies blob into arena. Errors: TDM_E_FORMAT (sizes that do not fit, texts without an end),
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_charsmap_init(tdm_charsmap *map, tdm_arena *arena, const char *blob,
                                           size_t len, bool is_longest, tdm_error *err);
/* The replacement for a prefix of text[0..len): the shortest one that has any, or the longest one.
 * Returns the prefix's length, 0: none. */
size_t tdm_charsmap_find(const tdm_charsmap *map, const char *text, size_t len, bool is_longest,
                         const char **out, size_t *out_len);

#endif
