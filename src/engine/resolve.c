/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of resolution, in the order in which they depend on each other: method, refusals,
 * group, features. It owns nothing and remembers nothing. A reading that the spec leaves open is
 * stated at its rule. */
#include "engine/resolve.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static uint32_t bit_if(bool is_set, tdm_exec_reason reason) {
    return is_set ? 1U << reason : 0U;
}

/* What the rules below have in common. */
typedef struct facts {
    const tdm_exec_requirements *req;
    const tdm_exec_capabilities *can;
    const tdm_exec_features *asked;
    bool is_ar;          /* the model generates token after token */
    bool uses_draft;     /* speculation from a mounted drafter */
    bool uses_proposals; /* speculation from what the grammar forces */
    bool is_speculative; /* either */
} facts;

/* Speculation of either source has to keep what the request asks of every token: adapters and
 * log-probabilities need the speculative method's own capability. */
static facts facts_of(const tdm_exec_requirements *req, const tdm_exec_capabilities *can,
                      const tdm_exec_features *asked) {
    facts f = {.req = req, .can = can, .asked = asked};
    f.is_ar = can->method == TDM_METHOD_AUTOREGRESSIVE;
    const bool can_speculate = f.is_ar && !req->has_vision &&
                               (!req->has_adapters || can->has_shared_speculative_adapters) &&
                               (!req->wants_logprobs || can->has_speculative_logprobs);
    f.uses_draft = can_speculate && req->has_draft;
    f.uses_proposals = can_speculate && !req->has_draft && req->has_grammar &&
                       asked->grammar_jump && can->has_shared_grammar_proposals;
    f.is_speculative = f.uses_draft || f.uses_proposals;
    return f;
}

static const char *method_of(const facts *f) {
    if (!f->is_ar) {
        return TDM_METHOD_ID_DENOISING;
    }
    return f->is_speculative ? TDM_METHOD_ID_SPECULATIVE : TDM_METHOD_ID_AUTOREGRESSIVE;
}

/* What a denoising model cannot do however it is run. A grammar has no reason of this kind. */
static uint32_t method_refusals(const facts *f) {
    if (f->is_ar) {
        return 0;
    }
    return bit_if(f->req->has_draft, TDM_REASON_DRAFT_METHOD) |
           bit_if(f->req->wants_logprobs, TDM_REASON_LOGPROBS_METHOD) |
           bit_if(f->req->has_repetition_penalty, TDM_REASON_REPETITION_PENALTY_METHOD) |
           bit_if(f->req->has_logits_extras, TDM_REASON_LOGITS_EXTRAS_METHOD) |
           bit_if(f->asked->fill, TDM_REASON_FILL_METHOD);
}

static bool is_grouped(const tdm_exec_capabilities *can, const char *method) {
    for (size_t i = 0; i < can->n_grouped_methods; i++) {
        if (strcmp(can->grouped_methods[i], method) == 0) {
            return true;
        }
    }
    return false;
}

/* What the shared group cannot serve. A seed is a matter of the method: a group whose methods do
 * not honour one lacks the method that this request needs. */
static uint32_t group_refusals(const facts *f, const char *method) {
    const bool is_seed_lost = f->req->has_user_seed && !f->can->has_group_seed;
    return bit_if(f->req->has_vision && !f->can->has_media_batch, TDM_REASON_MEDIA_BATCH) |
           bit_if(f->req->has_grammar && !f->can->has_grammar_batch, TDM_REASON_GRAMMAR_BATCH) |
           bit_if(is_seed_lost || !is_grouped(f->can, method), TDM_REASON_METHOD_BATCH);
}

static bool can_fill(const facts *f) {
    const tdm_exec_requirements *req = f->req;
    const bool by_echo = f->is_speculative && f->can->has_shared_speculative_echo;
    const bool by_append = f->is_ar && f->can->has_shared_fill && !req->has_draft;
    return f->asked->fill && !req->has_vision && !req->has_grammar && !req->wants_logprobs &&
           (by_echo || by_append);
}

/* By proposals inside speculation, or appended directly by the plain method. */
static bool can_jump(const facts *f) {
    const bool is_direct = f->is_ar && !f->is_speculative && !f->req->wants_logprobs &&
                           f->can->has_shared_grammar_jump;
    return f->asked->grammar_jump && f->req->has_grammar && (f->uses_proposals || is_direct);
}

static void resolve_features(const facts *f, tdm_resolved *out) {
    const tdm_exec_requirements *req = f->req;
    const tdm_exec_capabilities *can = f->can;
    const tdm_exec_features *asked = f->asked;
    out->has_fill = can_fill(f);
    out->has_prompt_cache =
        f->is_ar && (!req->has_vision || (req->has_prefix_identity && can->has_media_prefix_cache));
    out->has_checkpoint = can->has_checkpoints && can->has_shared_checkpoints && f->is_ar &&
                          !req->has_vision && !req->has_grammar && !out->has_fill &&
                          !req->wants_logprobs && out->has_prompt_cache;
    out->has_compiled_decode = asked->compiled_decode && can->has_compiled_decode && f->is_ar &&
                               !req->has_adapters && !out->has_fill;
    out->has_grammar_jump = can_jump(f);
    /* A jump without a grammar has nothing to jump over: nothing was taken away. */
    out->reasons |=
        bit_if(f->is_ar && req->has_draft && !f->uses_draft, TDM_REASON_DRAFT_REQUEST) |
        bit_if(asked->fill && !out->has_fill, TDM_REASON_FILL_REQUEST) |
        bit_if(asked->compiled_decode && !out->has_compiled_decode, TDM_REASON_COMPILED_REQUEST) |
        bit_if(asked->grammar_jump && req->has_grammar && !out->has_grammar_jump,
               TDM_REASON_JUMP_REQUEST);
}

tdm_resolved tdm_execution_resolve(const tdm_exec_requirements *requirements,
                                   const tdm_exec_capabilities *capabilities,
                                   const tdm_exec_features *features) {
    const facts f = facts_of(requirements, capabilities, features);
    tdm_resolved out;
    memset(&out, 0, sizeof out); /* padding too: equal results are equal bytes */
    out.method = method_of(&f);
    const uint32_t refused = method_refusals(&f);
    const uint32_t ungrouped = group_refusals(&f, out.method);
    out.reasons = refused | ungrouped;
    if (refused != 0 || (ungrouped != 0 && !capabilities->can_run_alone)) {
        out.mechanism = TDM_MECHANISM_UNSUPPORTED;
        return out;
    }
    out.mechanism = ungrouped != 0 ? TDM_MECHANISM_ALONE : TDM_MECHANISM_CONTINUOUS;
    resolve_features(&f, &out);
    return out;
}

const char *tdm_exec_reason_name(tdm_exec_reason reason) {
    static const char *const names[TDM_REASON_COUNT] = {
#define TDM_EXEC_REASON_NAME(name, text) text,
        TDM_EXEC_REASON_LIST(TDM_EXEC_REASON_NAME)
#undef TDM_EXEC_REASON_NAME
    };
    return (unsigned)reason < (unsigned)TDM_REASON_COUNT ? names[reason] : "unknown-reason";
}

bool tdm_resolved_has_reason(const tdm_resolved *resolved, tdm_exec_reason reason) {
    return ((resolved->reasons >> reason) & 1U) != 0;
}

tdm_status tdm_resolved_status(const tdm_resolved *resolved, tdm_error *err) {
    char names[256] = "";
    size_t len = 0;
    if (resolved->mechanism != TDM_MECHANISM_UNSUPPORTED) {
        return TDM_OK;
    }
    for (int r = 0; r < TDM_REASON_COUNT; r++) {
        if (tdm_resolved_has_reason(resolved, (tdm_exec_reason)r) && len < sizeof names) {
            const int n = snprintf(names + len, sizeof names - len, "%s%s", len > 0 ? ", " : "",
                                   tdm_exec_reason_name((tdm_exec_reason)r));
            len += n > 0 ? (size_t)n : 0;
        }
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "the %s method cannot serve the request: %s",
                   resolved->method, names);
    tdm_err_where(err, "request");
    tdm_err_remedy(err, "leave out what the reasons name, or use a model that declares it");
    return TDM_E_UNSUPPORTED;
}
