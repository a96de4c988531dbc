/* SPDX-License-Identifier: Apache-2.0
 *
 * Split and replace expressions that no scanner knows, through PCRE2 with limits. Floor 4.
 * Room-internal. Expressions are written for Oniguruma; what the two disagree on is rewritten (\s,
 * \S, \w, \h) or refused (class intersection, \W and \H inside a class). */
#ifndef TDM_TEXT_PRETOK_REGEX_H
#define TDM_TEXT_PRETOK_REGEX_H

#include "base/alloc.h"

typedef struct tdm_regex tdm_regex; /* immutable, shared by threads */

/* Lives in arena. is_multiline: ^ and $ match at line ends, as Oniguruma has it. Errors:
 * TDM_E_FORMAT (with the offset in the expression), TDM_E_UNSUPPORTED, TDM_E_LIMIT (expression
 * longer than 64 KiB), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_regex_create(const tdm_regex **out, tdm_arena *arena,
                                          const char *pattern, size_t len, bool is_multiline,
                                          tdm_error *err);

/* What one thread needs while it matches; made on first use. */
typedef struct tdm_regex_scratch {
    const tdm_alloc *alloc;
    void *match_data;    /* pcre2_match_data */
    void *match_context; /* pcre2_match_context */
    void *general_context;
} tdm_regex_scratch;

void tdm_regex_scratch_init(tdm_regex_scratch *scratch, const tdm_alloc *alloc);
void tdm_regex_scratch_deinit(tdm_regex_scratch *scratch);

/* Leftmost match in text[from..len), text valid UTF-8. *out_found false: none. Errors: TDM_E_LIMIT
 * when the match budget is spent, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_regex_find(const tdm_regex *regex, tdm_regex_scratch *scratch,
                                        const char *text, size_t len, size_t from, bool *out_found,
                                        size_t *out_begin, size_t *out_end, tdm_error *err);

#endif
