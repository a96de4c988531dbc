/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine's inside of a tdm_model: what rooms above (command, server, tests) may reach besides
 * the public header. Floor 7. The engine never names a backend: it is handed one. */
#ifndef TDM_ENGINE_ENGINE_H
#define TDM_ENGINE_ENGINE_H

#include "base/clock.h"
#include "base/log.h"
#include "contract/graph.h"
#include "engine/chat_templates.h"
#include "formats/config.h"
#include "text/tokenizer.h"

/* A model's parts. Everything is borrowed; NULL where the checkpoint has none. */
typedef struct tdm_engine_parts {
    const tdm_alloc *alloc;
    const tdm_checkpoint *checkpoint;
    const tdm_model_config *config;
    tdm_backend *backend;
    tdm_graph *graph;
    const tdm_tokenizer *tokenizer;
    const tdm_chat_templates *chat_templates;
    const tdm_json *special_tokens; /* object: bos_token, eos_token, ... for templates; NULL without
                                       a tokenizer */
    tdm_dtype kv_dtype;
    int32_t n_batch;
    int64_t context;
} tdm_engine_parts;

void tdm_model_parts(const tdm_model *model, tdm_engine_parts *out);

/* Opens path over a backend that the caller made. take: on success the model owns backend and
 * destroys it at close; on failure the caller still owns it. alloc NULL: the system's. Otherwise as
 * tdm_model_open. */
TDM_NODISCARD tdm_status tdm_model_open_with(tdm_model **out_model, const tdm_alloc *alloc,
                                             const char *path, const tdm_model_options *options,
                                             tdm_backend *backend_take, tdm_error *err);

/* An object with bos_token, eos_token and what else the tokenizer's files name, for templates.
 * Owns: caller destroys. */
TDM_NODISCARD tdm_status tdm_special_tokens_make(tdm_json_doc **out_doc, const tdm_alloc *alloc,
                                                 const tdm_checkpoint *checkpoint,
                                                 const tdm_tokenizer *tokenizer, tdm_error *err);

/* Renders a chat request (a JSON object as tdm_prompt_from_chat_json takes) by the template that
 * tdm_chat_templates_choose gave: the one place that maps request fields to template variables. special_tokens may be NULL. now_unix_s:
 * the clock for strftime_now, used when the request has no "now". output is initialised by the
 * caller. */
TDM_NODISCARD tdm_status tdm_chat_render(const tdm_template *tmpl, const tdm_alloc *alloc,
                                         const tdm_json *request, const tdm_json *special_tokens,
                                         int64_t now_unix_s, tdm_template_output *output,
                                         tdm_error *err);

#endif
