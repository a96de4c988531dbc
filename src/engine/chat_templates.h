/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint's chat templates by name, and which of them a request is rendered by. Floor 7.
 *
 * Most checkpoints have one, "default". Others come as a list in tokenizer_config.json, as files of
 * additional_chat_templates/, or as tokenizer.chat_template.NAME in a GGUF file. One that cannot be
 * compiled stays in the list with the reason: it is only told when a request asks for it. */
#ifndef TDM_ENGINE_CHAT_TEMPLATES_H
#define TDM_ENGINE_CHAT_TEMPLATES_H

#include "base/file.h"
#include "text/answer.h"
#include "text/template.h"

#define TDM_CHAT_TEMPLATES_MAX 64

typedef struct tdm_chat_template {
    const char *name;
    const char *source;
    size_t len;
    tdm_template *tmpl; /* NULL: error says why */
    tdm_error error;
    const tdm_dialect *dialect; /* of the answers to its prompts; never NULL */
} tdm_chat_template;

typedef struct tdm_chat_templates tdm_chat_templates;

/* Borrows nothing after it returns. fs NULL: the system's. A checkpoint without templates gives an
 * empty list. Errors: TDM_E_NOMEM, TDM_E_IO, TDM_E_LIMIT (64 templates, 4 MiB each). Owns: caller
 * destroys. */
TDM_NODISCARD tdm_status tdm_chat_templates_open(tdm_chat_templates **out, const tdm_alloc *alloc,
                                                 const tdm_checkpoint *checkpoint,
                                                 const tdm_tokenizer *tokenizer, const tdm_fs *fs,
                                                 tdm_error *err);
/* A list of one, "default", from a source that lies elsewhere. tokenizer may be NULL.
 * Errors: as tdm_template_compile. */
TDM_NODISCARD tdm_status tdm_chat_templates_from_source(tdm_chat_templates **out,
                                                        const tdm_alloc *alloc, const char *source,
                                                        size_t len, const char *file,
                                                        const tdm_tokenizer *tokenizer,
                                                        tdm_error *err);
void tdm_chat_templates_destroy(tdm_chat_templates *templates);

size_t tdm_chat_templates_n(const tdm_chat_templates *templates);
/* NULL past the last. "default" comes first where there is one. */
const tdm_chat_template *tdm_chat_templates_at(const tdm_chat_templates *templates, size_t idx);
const tdm_chat_template *tdm_chat_templates_find(const tdm_chat_templates *templates,
                                                 const char *name);
/* The dialect that tells most: the first that is not plain, in the order default, tool_use, others;
 * without templates, what the vocabulary says. Never NULL. */
const tdm_dialect *tdm_chat_templates_dialect(const tdm_chat_templates *templates);

/* The template of a request: what its "chat_template" names; else tool_use where it has tools and
 * that exists; else rag where it has documents and that exists; else default; else the only one.
 * Errors: TDM_E_STATE (there is none), TDM_E_ARG (none of that name; remedy lists the names), or
 * why the chosen one cannot be used. */
TDM_NODISCARD tdm_status tdm_chat_templates_choose(const tdm_chat_templates *templates,
                                                   const tdm_json *request,
                                                   const tdm_chat_template **out, tdm_error *err);

#endif
