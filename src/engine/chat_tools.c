/* SPDX-License-Identifier: Apache-2.0
 *
 * Counted tools of a request. */
#include "engine/chat_tools.h"

#include <string.h>

tdm_status tdm_chat_tools_create(tdm_chat_tools **out, const tdm_alloc *alloc,
                                 tdm_json_doc *doc_take, const tdm_json *list, tdm_error *err) {
    tdm_chat_tools *tools = tdm_mem_calloc(alloc, 1, sizeof *tools);
    *out = NULL;
    if (tools == NULL) {
        return tdm_fail_nomem(err, "a request's tools");
    }
    tools->alloc = alloc;
    atomic_init(&tools->n_holders, 1);
    tools->doc = doc_take;
    tools->list = list;
    *out = tools;
    return TDM_OK;
}

tdm_status tdm_chat_tools_parse(tdm_chat_tools **out, const tdm_alloc *alloc, const char *json,
                                tdm_error *err) {
    tdm_json_doc *doc = NULL;
    tdm_status status = TDM_OK;
    *out = NULL;
    TDM_TRY(tdm_json_parse(&doc, alloc, json, strlen(json), NULL, "tools_json", err));
    if (!tdm_json_is(tdm_json_doc_root(doc), TDM_JSON_ARRAY)) {
        status = tdm_fail(err, TDM_E_ARG, "tools are a JSON array");
        tdm_err_where(err, "tools_json");
    } else {
        status = tdm_chat_tools_create(out, alloc, doc, tdm_json_doc_root(doc), err);
    }
    if (status != TDM_OK) {
        tdm_json_doc_destroy(doc);
    }
    return status;
}

tdm_chat_tools *tdm_chat_tools_retain(tdm_chat_tools *tools) {
    if (tools != NULL) {
        (void)atomic_fetch_add(&tools->n_holders, 1);
    }
    return tools;
}

void tdm_chat_tools_release(tdm_chat_tools *tools) {
    if (tools != NULL && atomic_fetch_sub(&tools->n_holders, 1) == 1) {
        tdm_json_doc_destroy(tools->doc);
        tdm_mem_free(tools->alloc, tools, sizeof *tools);
    }
}
