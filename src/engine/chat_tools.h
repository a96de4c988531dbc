/* SPDX-License-Identifier: Apache-2.0
 *
 * The tools of a request, shared by its prompt and the generations that start from it. Floor 7.
 * Counted, because a prompt may go before its generation. */
#ifndef TDM_ENGINE_CHAT_TOOLS_H
#define TDM_ENGINE_CHAT_TOOLS_H

#include "base/json.h"

typedef struct tdm_chat_tools {
    const tdm_alloc *alloc;
    atomic_size_t n_holders;
    tdm_json_doc *doc;
    const tdm_json *list; /* inside doc; an array */
} tdm_chat_tools;

/* take: doc, on success. list is a node of it. One holder. */
TDM_NODISCARD tdm_status tdm_chat_tools_create(tdm_chat_tools **out, const tdm_alloc *alloc,
                                               tdm_json_doc *doc_take, const tdm_json *list,
                                               tdm_error *err);
/* The text of an array. Errors: TDM_E_FORMAT, TDM_E_LIMIT, TDM_E_ARG (no array), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_chat_tools_parse(tdm_chat_tools **out, const tdm_alloc *alloc,
                                              const char *json, tdm_error *err);
/* NULL-safe, both. */
tdm_chat_tools *tdm_chat_tools_retain(tdm_chat_tools *tools);
void tdm_chat_tools_release(tdm_chat_tools *tools);

#endif
