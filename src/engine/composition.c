/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolving a composition: defaults, then flags over them, each checked against its range and
 * against what the graph declares. It refuses; it never bends a flag to something near. */
#include "engine/composition.h"

#include "base/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const tdm_composition TDM_COMPOSITION_DEFAULTS = {
    .prefill_chunk = 512,
    .max_rows = 8,
    .mixed_budget = 256,
    .has_vector_greedy = true,
    .has_tail_split = true,
};

const char *tdm_tier_name(tdm_tier tier) {
    switch (tier) {
    case TDM_TIER_REFERENCE:
        return "reference";
    case TDM_TIER_EXACT:
        return "exact";
    case TDM_TIER_FAST:
        return "fast";
    }
    return "unknown";
}

static tdm_status resolve_device(tdm_composition *c, const tdm_composition_flags *flags,
                                 const tdm_composition_facts *facts, tdm_error *err) {
    const size_t len = strlen(facts->device);
    TDM_CHECK(len > 0 && len < sizeof c->device); /* a backend's constant */
    memcpy(c->device, facts->device, len + 1);
    if (flags->device != NULL) {
        const size_t n = strlen(flags->device);
        const bool is_here = n > 0 && n <= len && memcmp(flags->device, facts->device, n) == 0 &&
                             (facts->device[n] == '\0' || facts->device[n] == '-');
        if (!is_here) {
            (void)tdm_fail(err, TDM_E_UNSUPPORTED, "device %.40s is not what the model runs on",
                           flags->device);
            tdm_err_where(err, "device");
            tdm_err_limit(err, "%s", facts->device);
            return TDM_E_UNSUPPORTED;
        }
    }
    return TDM_OK;
}

static tdm_status resolve_kv(tdm_composition *c, const char *kv, tdm_error *err) {
    if (kv == NULL) {
        c->kv_dtype = c->tier == TDM_TIER_FAST ? TDM_DTYPE_BF16 : TDM_DTYPE_F32;
    } else if (strcmp(kv, "f32") == 0) {
        c->kv_dtype = TDM_DTYPE_F32;
    } else if (strcmp(kv, "bf16") == 0) {
        c->kv_dtype = TDM_DTYPE_BF16;
    } else {
        /* The quantized codecs are known and not in this build; anything else is a slip. */
        const bool is_known = strcmp(kv, "q8") == 0 || strcmp(kv, "q4") == 0;
        const tdm_status code = is_known ? TDM_E_UNSUPPORTED : TDM_E_ARG;
        (void)tdm_fail(err, code,
                       is_known ? "keys and values cannot be stored as %.40s in this build"
                                : "unknown kind of key and value storage \"%.40s\"",
                       kv);
        tdm_err_where(err, "kv");
        tdm_err_limit(err, "f32, bf16");
        return code;
    }
    return TDM_OK;
}

/* 0: unstated, out keeps its default. */
static tdm_status resolve_count(int32_t *out, const char *flag, int32_t value, int32_t value_max,
                                tdm_error *err) {
    if (value < 0 || value > value_max) {
        (void)tdm_fail(err, TDM_E_ARG, "%s is %d", flag, (int)value);
        tdm_err_where(err, "%s", flag);
        tdm_err_limit(err, "1 to %d", (int)value_max);
        return TDM_E_ARG;
    }
    *out = value > 0 ? value : *out;
    return TDM_OK;
}

static tdm_status resolve_counts(tdm_composition *c, const tdm_composition_flags *flags,
                                 tdm_error *err) {
    TDM_TRY(resolve_count(&c->prefill_chunk, "prefill_chunk", flags->prefill_chunk, TDM_CHUNK_MAX,
                          err));
    TDM_TRY(resolve_count(&c->max_rows, "max_rows", flags->max_rows, TDM_ROWS_MAX, err));
    TDM_TRY(
        resolve_count(&c->mixed_budget, "mixed_budget", flags->mixed_budget, TDM_CHUNK_MAX, err));
    if (flags->context < 0 || flags->context > c->context) {
        (void)tdm_fail(err, TDM_E_ARG, "context is %" PRId64, flags->context);
        tdm_err_where(err, "context");
        tdm_err_limit(err, "1 to %" PRId64 ", what the model was made for", c->context);
        return TDM_E_ARG;
    }
    c->context = flags->context > 0 ? flags->context : c->context;
    return TDM_OK;
}

/* As many rows as every step of up to so many has a class. */
static int32_t rows_declared(const tdm_row_table *decode, int32_t n_max) {
    int32_t n = 0;
    while (n < n_max && tdm_row_table_lookup(decode, n + 1) != TDM_CLASS_NONE) {
        n++;
    }
    return n;
}

/* A group of n rows shrinks as its rows end, so that every smaller count needs a class too. */
static tdm_status resolve_rows(tdm_composition *c, const tdm_composition_flags *flags,
                               const tdm_graph_declaration *declaration, tdm_error *err) {
    const int32_t n = rows_declared(&declaration->classes.decode, c->max_rows);
    if (n == 0 || (n < c->max_rows && flags->max_rows > 0)) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED,
                       "the graph declares no operation for %d rows that decode together",
                       (int)n + 1);
        tdm_err_where(err, "max_rows");
        tdm_err_limit(err, n > 0 ? "1 to %d" : "none", (int)n);
        return TDM_E_UNSUPPORTED;
    }
    c->max_rows = n;
    return TDM_OK;
}

static tdm_status undeclared(tdm_error *err, const char *flag, const char *missing) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%s is asked for and %s", flag, missing);
    tdm_err_where(err, "%s", flag);
    tdm_err_remedy(err, "leave out %s", flag);
    return TDM_E_UNSUPPORTED;
}

static tdm_status resolve_paged(tdm_composition *c, const tdm_composition_flags *flags,
                                const tdm_graph_declaration *declaration, tdm_error *err) {
    const int32_t block = flags->paged_block;
    if (block < 0 || block > TDM_CHUNK_MAX ||
        (block > 0 && (block < 64 || (block & (block - 1))))) {
        (void)tdm_fail(err, TDM_E_ARG, "paged_block is %d", (int)block);
        tdm_err_where(err, "paged_block");
        tdm_err_limit(err, "a power of two, 64 to %d", TDM_CHUNK_MAX);
        return TDM_E_ARG;
    }
    if (block > 0 && !declaration->has_paged_attention) {
        return undeclared(err, "paged_block", "the graph declares no paged attention");
    }
    if (block == 0 && flags->paged_direct == TDM_FLAG_ON) {
        return undeclared(err, "paged_direct", "nothing is paged");
    }
    c->paged = (tdm_paged_kv){block, flags->paged_direct == TDM_FLAG_ON};
    return TDM_OK;
}

static tdm_status resolve_draft(tdm_composition *c, const tdm_composition_flags *flags,
                                const tdm_composition_facts *facts, tdm_error *err) {
    const bool has_drafter = facts->has_drafter || facts->declaration->native_draft.kind != NULL;
    TDM_TRY(
        resolve_count(&c->draft.n, "draft_tokens", flags->draft_tokens, TDM_DRAFT_DEPTH_MAX, err));
    if (flags->is_draft_adaptive && c->draft.n == 0) {
        (void)tdm_fail(err, TDM_E_ARG, "an adaptive draft depth without a largest one");
        tdm_err_where(err, "draft_tokens");
        tdm_err_limit(err, "1 to %d", TDM_DRAFT_DEPTH_MAX);
        return TDM_E_ARG;
    }
    if (c->draft.n > 0 && !has_drafter) {
        return undeclared(err, "draft_tokens", "there is no drafter");
    }
    c->draft.is_adaptive = flags->is_draft_adaptive;
    return TDM_OK;
}

static bool is_on(tdm_flag flag, bool unstated) {
    return flag == TDM_FLAG_UNSTATED ? unstated : flag == TDM_FLAG_ON;
}

static tdm_status resolve_switches(tdm_composition *c, const tdm_composition_flags *flags,
                                   const tdm_graph_declaration *declaration, tdm_error *err) {
    c->has_vector_greedy = is_on(flags->vector_greedy, c->has_vector_greedy);
    c->has_tail_split = is_on(flags->tail_split, c->has_tail_split);
    c->has_mixed_prefill = is_on(flags->mixed_prefill, c->has_mixed_prefill);
    c->has_grammar_jump = is_on(flags->grammar_jump, c->has_grammar_jump);
    c->has_greedy_draft = is_on(flags->greedy_draft, c->has_greedy_draft);
    if (c->has_mixed_prefill && !declaration->has_mixed_rows) {
        return undeclared(err, "mixed_prefill", "the graph declares no mixed rows");
    }
    if (c->has_greedy_draft && c->draft.n == 0) {
        return undeclared(err, "greedy_draft", "nothing is drafted");
    }
    /* A plain storage whose kernel reads pages itself has no compiled form. */
    c->has_compiled_decode = declaration->has_compiled_decode && !c->paged.is_direct;
    return TDM_OK;
}

tdm_status tdm_composition_resolve(tdm_composition *out, const tdm_composition_flags *flags,
                                   const tdm_composition_facts *facts, tdm_error *err) {
    TDM_CHECK(facts->n_threads > 0 && facts->context_max > 0);
    tdm_composition c = TDM_COMPOSITION_DEFAULTS;
    c.tier = facts->tier;
    c.n_threads = facts->n_threads;
    c.context = facts->context_max;
    TDM_TRY(resolve_device(&c, flags, facts, err));
    TDM_TRY(resolve_kv(&c, flags->kv, err));
    TDM_TRY(resolve_counts(&c, flags, err));
    TDM_TRY(resolve_rows(&c, flags, facts->declaration, err));
    TDM_TRY(resolve_paged(&c, flags, facts->declaration, err));
    TDM_TRY(resolve_draft(&c, flags, facts, err));
    TDM_TRY(resolve_switches(&c, flags, facts->declaration, err));
    *out = c;
    return TDM_OK;
}

/* Appends at text[len] what fits below cap; returns the length with all of it. */
static size_t put(char *text, size_t cap, size_t len, const char *fmt, ...) TDM_PRINTF(4, 5);
static size_t put(char *text, size_t cap, size_t len, const char *fmt, ...) {
    const bool has_room = len < cap;
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(has_room ? text + len : NULL, has_room ? cap - len : 0, fmt, args);
    va_end(args);
    return len + (n > 0 ? (size_t)n : 0);
}

static const char *on_off(bool is_set) {
    return is_set ? "on" : "off";
}

size_t tdm_composition_print(const tdm_composition *composition, char *text, size_t cap) {
    const tdm_composition *c = composition;
    size_t n = 0;
    n = put(text, cap, n, "device %s\ntier %s\nkv %s\n", c->device, tdm_tier_name(c->tier),
            c->kv_dtype == TDM_DTYPE_BF16 ? "bf16" : "f32");
    if (c->paged.block_size > 0) {
        n = put(text, cap, n, "paged %d %s\n", (int)c->paged.block_size,
                c->paged.is_direct ? "direct" : "gathered");
    } else {
        n = put(text, cap, n, "paged none\n");
    }
    n = put(text, cap, n, "draft %s%d\n", c->draft.is_adaptive ? "adaptive " : "", (int)c->draft.n);
    n = put(text, cap, n,
            "context %" PRId64 "\nthreads %d\nprefill_chunk %d\nmax_rows %d\nmixed_budget %d\n",
            c->context, (int)c->n_threads, (int)c->prefill_chunk, (int)c->max_rows,
            (int)c->mixed_budget);
    n = put(text, cap, n, "vector_greedy %s\nmixed_prefill %s\ntail_split %s\n",
            on_off(c->has_vector_greedy), on_off(c->has_mixed_prefill), on_off(c->has_tail_split));
    n = put(text, cap, n, "grammar_jump %s\ngreedy_draft %s\ncompiled_decode %s\n",
            on_off(c->has_grammar_jump), on_off(c->has_greedy_draft),
            on_off(c->has_compiled_decode));
    return n;
}
