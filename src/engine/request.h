/* SPDX-License-Identifier: Apache-2.0
 *
 * A text request: checked once, then a snapshot that owns everything it says. Floor 7. The caller's
 * arrays may change or go as soon as init returns, since a stream may start much later. Nothing
 * here touches a model, a tokenizer or a device.
 *
 * Refusals name the field as the public header spells it (what: the value; where: the field, with
 * an index into lists; limit: the range; remedy: what to do). Requests with media, adapters or a
 * grammar carry native resources and do not come through here.
 * Source: spec/systems.md 12, 13; errata.md decision 12. */
#ifndef TDM_ENGINE_REQUEST_H
#define TDM_ENGINE_REQUEST_H

#include "base/alloc.h"
#include "engine/resolve.h"
#include "sample/sampler.h"

#define TDM_MAX_TOKENS_DEFAULT 512
#define TDM_XTC_EXEMPT_IDS_MAX 64

/* How the answer's tokens reach the caller. */
typedef enum tdm_delivery {
    TDM_DELIVERY_STREAM,
    TDM_DELIVERY_COLLECT,
    TDM_DELIVERY_CALLBACK
} tdm_delivery;

/* What a caller asks; all of it borrowed for the call. */
typedef struct tdm_request_input {
    const int32_t *prompt;
    size_t n_prompt;
    const tdm_generation_options *options; /* NULL: tdm_request_options_default */
    tdm_delivery delivery;
    int32_t n_vocab;     /* of the model, >= 1 */
    int64_t context;     /* most positions of a sequence, >= 1 */
    uint32_t choice;     /* which of several answers to one prompt */
    uint64_t drawn_seed; /* used when options state no seed */
    /* Both from files: ids outside the vocabulary are passed over. */
    const int32_t *end_ids; /* ids that XTC has to leave: end of text, newlines */
    size_t n_end_ids;
    const int32_t *dry_breakers;
    size_t n_dry_breakers;
} tdm_request_input;

typedef struct tdm_stop_text {
    const char *text; /* NUL-terminated */
    size_t len;
} tdm_stop_text;

/* Every pointer points into the record's own memory. */
typedef struct tdm_request {
    tdm_arena arena;
    const int32_t *prompt; /* [n_prompt] */
    size_t n_prompt;
    int32_t max_tokens;   /* as asked */
    int32_t output_limit; /* what the context leaves of it, >= 1 */
    tdm_delivery delivery;
    bool ignores_eos;
    bool skips_special;
    bool has_user_seed;
    tdm_stop_text stop[TDM_STOP_MAX];
    size_t n_stop;
    tdm_sampling sampling;
} tdm_request;

/* Neutral values: 512 tokens, greedy, everything off. */
void tdm_request_options_default(tdm_generation_options *options);

/* Checks, then copies. alloc NULL: the system's. Errors: TDM_E_ARG; TDM_E_NO_FIT (the prompt is
 * longer than the context); TDM_E_NOMEM. On failure request holds nothing and deinit is not needed,
 * though legal. */
TDM_NODISCARD tdm_status tdm_request_init(tdm_request *request, const tdm_alloc *alloc,
                                          const tdm_request_input *input, tdm_error *err);
void tdm_request_deinit(tdm_request *request);
/* What the request asks of an executor: the planner's view of it. Media, adapters, grammar and
 * draft are false. */
tdm_exec_requirements tdm_request_requirements(const tdm_request *request);

#endif
