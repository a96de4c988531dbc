/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolution: from what a request asks and what the executor can do to how the request runs, or why
 * not. Floor 7. Three records of plain facts in, one record out; no tensors, no model, no state.
 * Decided once a request; consumers execute and report the result and never decide again.
 *
 * Mechanisms:
 *   continuous   in the shared group
 *   alone        the group cannot serve it (the *-batch-unsupported reasons say why), the executor
 *                may run it by itself
 *   unsupported  refused; reasons name what is missing, and every other field is false
 * In the first two, the remaining reasons name features that were asked for and are not used.
 * Source: spec/systems.md 13, 14; errata.md 14, 156. */
#ifndef TDM_ENGINE_RESOLVE_H
#define TDM_ENGINE_RESOLVE_H

#include "engine/declaration.h"

/* What a request is. */
typedef struct tdm_exec_requirements {
    bool has_vision;          /* prepared media embeddings */
    bool has_prefix_identity; /* of the prepared media, for the prompt cache */
    bool has_adapters;
    bool has_repetition_penalty;
    bool has_user_seed;
    bool has_logits_extras; /* bias, other penalties, anything else that edits logits */
    bool has_grammar;
    bool wants_logprobs;
    bool has_draft; /* a drafter is mounted and the request may use it */
} tdm_exec_requirements;

/* What executor and graph can do together. Texts are borrowed. */
typedef struct tdm_exec_capabilities {
    tdm_method_kind method;
    const char *const *grouped_methods; /* method ids that the shared group runs */
    size_t n_grouped_methods;
    bool can_run_alone;     /* what the group cannot serve may run by itself */
    bool has_group_seed;    /* the group's methods honour a seed of the request */
    bool has_grammar_batch; /* the executor waits for masks, advances matchers, stops rows */
    bool has_media_batch;
    bool has_media_prefix_cache;
    bool has_checkpoints;
    bool has_shared_checkpoints;
    bool has_speculative_logprobs;
    bool has_shared_speculative_adapters;
    bool has_shared_grammar_proposals;
    bool has_shared_grammar_jump;
    bool has_shared_fill;
    bool has_shared_speculative_echo;
    bool has_compiled_decode;
} tdm_exec_capabilities;

/* What is asked for where it is possible. */
typedef struct tdm_exec_features {
    bool fill;
    bool compiled_decode;
    bool grammar_jump;
} tdm_exec_features;

/* X(name, text). Refusals first. */
#define TDM_EXEC_REASON_LIST(X)                                                                    \
    X(MEDIA_BATCH, "media-batch-unsupported")                                                      \
    X(GRAMMAR_BATCH, "grammar-batch-unsupported")                                                  \
    X(METHOD_BATCH, "method-batch-unsupported")                                                    \
    X(DRAFT_METHOD, "draft-method-unsupported")                                                    \
    X(LOGPROBS_METHOD, "logprobs-method-unsupported")                                              \
    X(REPETITION_PENALTY_METHOD, "repetition-penalty-method-unsupported")                          \
    X(LOGITS_EXTRAS_METHOD, "logits-extras-method-unsupported")                                    \
    X(FILL_METHOD, "fill-method-unsupported")                                                      \
    X(DRAFT_REQUEST, "draft-incompatible-with-request")                                            \
    X(FILL_REQUEST, "fill-incompatible-with-request")                                              \
    X(COMPILED_REQUEST, "compiled-decode-unavailable-for-request")                                 \
    X(JUMP_REQUEST, "grammar-jump-incompatible-with-request")

typedef enum tdm_exec_reason {
#define TDM_EXEC_REASON_ENUM(name, text) TDM_REASON_##name,
    TDM_EXEC_REASON_LIST(TDM_EXEC_REASON_ENUM)
#undef TDM_EXEC_REASON_ENUM
        TDM_REASON_COUNT
} tdm_exec_reason;

typedef enum tdm_mechanism {
    TDM_MECHANISM_CONTINUOUS,
    TDM_MECHANISM_ALONE,
    TDM_MECHANISM_UNSUPPORTED
} tdm_mechanism;

#define TDM_METHOD_ID_AUTOREGRESSIVE "autoregressive"
#define TDM_METHOD_ID_SPECULATIVE "speculative"
#define TDM_METHOD_ID_DENOISING "denoising"

typedef struct tdm_resolved {
    const char *method; /* one of the ids above; constant text */
    tdm_mechanism mechanism;
    bool has_prompt_cache;
    bool has_checkpoint;
    bool has_fill;
    bool has_compiled_decode; /* permission to try, never a promise */
    bool has_grammar_jump;
    uint32_t reasons; /* bit 1 << tdm_exec_reason */
} tdm_resolved;

/* Pure: the same records give the same result. */
tdm_resolved tdm_execution_resolve(const tdm_exec_requirements *requirements,
                                   const tdm_exec_capabilities *capabilities,
                                   const tdm_exec_features *features);
/* "draft-incompatible-with-request"; never NULL. */
const char *tdm_exec_reason_name(tdm_exec_reason reason);
bool tdm_resolved_has_reason(const tdm_resolved *resolved, tdm_exec_reason reason);
/* TDM_OK, or for an unsupported result TDM_E_UNSUPPORTED with every reason in what. */
TDM_NODISCARD tdm_status tdm_resolved_status(const tdm_resolved *resolved, tdm_error *err);

#endif
