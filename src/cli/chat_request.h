/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation from a file and what the command line puts on top of it: the request that the
 * engine renders. Floor 10. Used by template and explain. */
#ifndef TDM_CLI_CHAT_REQUEST_H
#define TDM_CLI_CHAT_REQUEST_H

#include "cli/cli.h"

typedef struct tdm_chat_request {
    tdm_arena arena; /* the list and what its new members say */
    tdm_json *items; /* [cap] members of objects that live elsewhere */
    uint32_t n, cap;
    tdm_json_doc *doc;   /* the conversation */
    tdm_json_doc **docs; /* [n_docs] values of --var */
    size_t n_docs;
} tdm_chat_request;

/* Parses text: a list of messages, or an object with messages. --no-generation-prompt, --var and
 * --template-name count. name is what errors call the text.
 * Errors: TDM_E_FORMAT, TDM_E_ARG, TDM_E_LIMIT, TDM_E_NOMEM. Owns: deinit, also after a failure. */
TDM_NODISCARD tdm_status tdm_chat_request_init(tdm_chat_request *request, const tdm_cli *cli,
                                               const char *text, size_t len, const char *name,
                                               tdm_error *err);
void tdm_chat_request_deinit(tdm_chat_request *request);
/* As one object, borrowed until the next change. */
tdm_json tdm_chat_request_root(const tdm_chat_request *request);
/* A member is put in place of one of the same key, or taken out. There is room for a few. */
void tdm_chat_request_set(tdm_chat_request *request, const char *key, const tdm_json *value);
void tdm_chat_request_drop(tdm_chat_request *request, const char *key);

#endif
