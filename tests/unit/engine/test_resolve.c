/* SPDX-License-Identifier: Apache-2.0
 *
 * Resolution against an oracle of another style: every fact is a bit, every rule a text in
 * disjunctive form that defines one more bit, evaluated from top to bottom. All 2^9 requirements
 * are walked for each capability profile, method, set of grouped methods and set of features. */
#include "support/support.h"

#include "engine/resolve.h"

/* Facts first: 9 of the request, then of the executor, then what is asked. Derived bits follow. */
#define BIT_LIST(X)                                                                                \
    X(vision)                                                                                      \
    X(ident)                                                                                       \
    X(adapters)                                                                                    \
    X(rep)                                                                                         \
    X(seed)                                                                                        \
    X(extras)                                                                                      \
    X(grammar)                                                                                     \
    X(logprobs)                                                                                    \
    X(draft)                                                                                       \
    X(alone)                                                                                       \
    X(can_seed)                                                                                    \
    X(can_grammar)                                                                                 \
    X(can_media)                                                                                   \
    X(can_media_prefix)                                                                            \
    X(can_ckpt)                                                                                    \
    X(can_shared_ckpt)                                                                             \
    X(can_spec_logprobs)                                                                           \
    X(can_spec_adapters)                                                                           \
    X(can_proposals)                                                                               \
    X(can_jump)                                                                                    \
    X(can_fill)                                                                                    \
    X(can_echo)                                                                                    \
    X(can_compile)                                                                                 \
    X(denoising)                                                                                   \
    X(group_ar)                                                                                    \
    X(group_spec)                                                                                  \
    X(group_den)                                                                                   \
    X(ask_fill)                                                                                    \
    X(ask_compile)                                                                                 \
    X(ask_jump)                                                                                    \
    X(spec_ok)                                                                                     \
    X(by_draft)                                                                                    \
    X(by_prop)                                                                                     \
    X(spec)                                                                                        \
    X(plain)                                                                                       \
    X(grouped)                                                                                     \
    X(r_media)                                                                                     \
    X(r_grammar)                                                                                   \
    X(r_method)                                                                                    \
    X(r_draft_m)                                                                                   \
    X(r_logprobs_m)                                                                                \
    X(r_rep_m)                                                                                     \
    X(r_extras_m)                                                                                  \
    X(r_fill_m)                                                                                    \
    X(refused)                                                                                     \
    X(left_out)                                                                                    \
    X(unsupported)                                                                                 \
    X(served)                                                                                      \
    X(cache)                                                                                       \
    X(fill)                                                                                        \
    X(ckpt)                                                                                        \
    X(compile)                                                                                     \
    X(jump)                                                                                        \
    X(r_draft)                                                                                     \
    X(r_fill)                                                                                      \
    X(r_compile)                                                                                   \
    X(r_jump)

enum {
#define BIT_ENUM(name) BIT_##name,
    BIT_LIST(BIT_ENUM)
#undef BIT_ENUM
};

#define N_REQUIREMENTS 9
#define FIRST_CAPABILITY BIT_alone
#define N_CAPABILITIES 14

static const char *const NAMES[] = {
#define BIT_NAME(name) #name,
    BIT_LIST(BIT_NAME)
#undef BIT_NAME
};
#define N_BITS ((int)SUPPORT_LEN(NAMES))

typedef struct rule {
    const char *result;
    const char *formula; /* terms between '|', each a list of facts, '!' before one negates it */
} rule;

static const rule RULES[] = {
    {"spec_ok", "!denoising !vision !adapters !logprobs"
                "| !denoising !vision !adapters can_spec_logprobs"
                "| !denoising !vision can_spec_adapters !logprobs"
                "| !denoising !vision can_spec_adapters can_spec_logprobs"},
    {"by_draft", "spec_ok draft"},
    {"by_prop", "spec_ok !draft grammar ask_jump can_proposals"},
    {"spec", "by_draft | by_prop"},
    {"plain", "!denoising !spec"},
    {"grouped", "denoising group_den | spec group_spec | plain group_ar"},
    {"r_media", "vision !can_media"},
    {"r_grammar", "grammar !can_grammar"},
    {"r_method", "!grouped | seed !can_seed"},
    {"r_draft_m", "denoising draft"},
    {"r_logprobs_m", "denoising logprobs"},
    {"r_rep_m", "denoising rep"},
    {"r_extras_m", "denoising extras"},
    {"r_fill_m", "denoising ask_fill"},
    {"refused", "r_draft_m | r_logprobs_m | r_rep_m | r_extras_m | r_fill_m"},
    {"left_out", "r_media | r_grammar | r_method"},
    {"unsupported", "refused | left_out !alone"},
    {"served", "!unsupported"},
    {"cache", "served !denoising !vision | served !denoising ident can_media_prefix"},
    {"fill", "served ask_fill !vision !grammar !logprobs spec can_echo"
             "| served ask_fill !vision !grammar !logprobs !denoising can_fill !draft"},
    {"ckpt", "can_ckpt can_shared_ckpt !denoising !vision !grammar !fill !logprobs cache"},
    {"compile", "served ask_compile can_compile !denoising !adapters !fill"},
    {"jump", "served ask_jump grammar by_prop"
             "| served ask_jump grammar plain !logprobs can_jump"},
    {"r_draft", "served !denoising draft !by_draft"},
    {"r_fill", "served ask_fill !fill"},
    {"r_compile", "served ask_compile !compile"},
    {"r_jump", "served ask_jump grammar !jump"},
};

#define TERMS_MAX 8

typedef struct parsed_rule {
    int result;
    size_t n_terms;
    uint64_t needs[TERMS_MAX], forbids[TERMS_MAX];
} parsed_rule;

static int bit_of(const char *name, size_t len) {
    for (int i = 0; i < N_BITS; i++) {
        if (strlen(NAMES[i]) == len && memcmp(NAMES[i], name, len) == 0) {
            return i;
        }
    }
    fail_msg("the oracle names an unknown fact at \"%s\"", name);
    return -1;
}

static parsed_rule parse(const rule *r) {
    parsed_rule p = {.result = bit_of(r->result, strlen(r->result)), .n_terms = 1};
    const char *at = r->formula;
    while (*at != '\0') {
        const bool is_negated = *at == '!';
        const char *name = at + (is_negated ? 1 : 0);
        const size_t len = strcspn(name, " |");
        if (len > 0) {
            uint64_t *mask = is_negated ? p.forbids : p.needs;
            mask[p.n_terms - 1] |= UINT64_C(1) << bit_of(name, len);
        }
        at = name + len;
        if (*at == '|') {
            p.n_terms++;
            assert_true(p.n_terms <= TERMS_MAX);
        }
        at += *at != '\0' ? 1 : 0;
    }
    return p;
}

static parsed_rule parsed[SUPPORT_LEN(RULES)];

static uint64_t oracle(uint64_t facts) {
    for (size_t i = 0; i < SUPPORT_LEN(RULES); i++) {
        const parsed_rule *p = &parsed[i];
        for (size_t t = 0; t < p->n_terms; t++) {
            if ((facts & p->needs[t]) == p->needs[t] && (facts & p->forbids[t]) == 0) {
                facts |= UINT64_C(1) << p->result;
            }
        }
    }
    return facts;
}

#define HAS(facts, name) (((facts) >> BIT_##name & 1) != 0)

static tdm_exec_requirements requirements_of(uint64_t f) {
    return (tdm_exec_requirements){HAS(f, vision),  HAS(f, ident),    HAS(f, adapters),
                                   HAS(f, rep),     HAS(f, seed),     HAS(f, extras),
                                   HAS(f, grammar), HAS(f, logprobs), HAS(f, draft)};
}

static tdm_exec_capabilities capabilities_of(uint64_t f, const char **methods) {
    size_t n = 0;
    if (HAS(f, group_ar)) {
        methods[n++] = "autoregressive";
    }
    if (HAS(f, group_spec)) {
        methods[n++] = "speculative";
    }
    if (HAS(f, group_den)) {
        methods[n++] = "denoising";
    }
    return (tdm_exec_capabilities){
        .method = HAS(f, denoising) ? TDM_METHOD_DENOISING : TDM_METHOD_AUTOREGRESSIVE,
        .grouped_methods = methods,
        .n_grouped_methods = n,
        .can_run_alone = HAS(f, alone),
        .has_group_seed = HAS(f, can_seed),
        .has_grammar_batch = HAS(f, can_grammar),
        .has_media_batch = HAS(f, can_media),
        .has_media_prefix_cache = HAS(f, can_media_prefix),
        .has_checkpoints = HAS(f, can_ckpt),
        .has_shared_checkpoints = HAS(f, can_shared_ckpt),
        .has_speculative_logprobs = HAS(f, can_spec_logprobs),
        .has_shared_speculative_adapters = HAS(f, can_spec_adapters),
        .has_shared_grammar_proposals = HAS(f, can_proposals),
        .has_shared_grammar_jump = HAS(f, can_jump),
        .has_shared_fill = HAS(f, can_fill),
        .has_shared_speculative_echo = HAS(f, can_echo),
        .has_compiled_decode = HAS(f, can_compile),
    };
}

static uint32_t reasons_of(uint64_t f) {
    static const int order[TDM_REASON_COUNT] = {
        BIT_r_media,    BIT_r_grammar, BIT_r_method, BIT_r_draft_m, BIT_r_logprobs_m, BIT_r_rep_m,
        BIT_r_extras_m, BIT_r_fill_m,  BIT_r_draft,  BIT_r_fill,    BIT_r_compile,    BIT_r_jump};
    uint32_t reasons = 0;
    for (int i = 0; i < TDM_REASON_COUNT; i++) {
        reasons |= (uint32_t)(f >> order[i] & 1) << i;
    }
    return reasons;
}

static void compare(uint64_t facts) {
    const char *methods[3];
    const uint64_t want = oracle(facts);
    const tdm_exec_requirements req = requirements_of(facts);
    const tdm_exec_capabilities can = capabilities_of(facts, methods);
    const tdm_exec_features asked = {HAS(facts, ask_fill), HAS(facts, ask_compile),
                                     HAS(facts, ask_jump)};
    const tdm_resolved got = tdm_execution_resolve(&req, &can, &asked);
    const tdm_resolved again = tdm_execution_resolve(&req, &can, &asked);
    const char *method = HAS(want, denoising) ? "denoising"
                         : HAS(want, spec)    ? "speculative"
                                              : "autoregressive";
    const tdm_mechanism mechanism = HAS(want, unsupported) ? TDM_MECHANISM_UNSUPPORTED
                                    : HAS(want, left_out)  ? TDM_MECHANISM_ALONE
                                                           : TDM_MECHANISM_CONTINUOUS;
    const bool is_equal =
        strcmp(got.method, method) == 0 && got.mechanism == mechanism &&
        got.has_prompt_cache == HAS(want, cache) && got.has_checkpoint == HAS(want, ckpt) &&
        got.has_fill == HAS(want, fill) && got.has_compiled_decode == HAS(want, compile) &&
        got.has_grammar_jump == HAS(want, jump) && got.reasons == reasons_of(want);
    if (!is_equal) {
        fail_msg("facts %llx: got %s mechanism %d reasons %x, want %s %d %x",
                 (unsigned long long)facts, got.method, (int)got.mechanism, got.reasons, method,
                 (int)mechanism, reasons_of(want));
    }
    unsigned char bytes[2][sizeof got];
    memcpy(bytes[0], &got, sizeof got);
    memcpy(bytes[1], &again, sizeof again);
    if (memcmp(bytes[0], bytes[1], sizeof got) != 0) {
        fail_msg("facts %llx: two calls differ", (unsigned long long)facts);
    }
}

static int make_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(RULES); i++) {
        parsed[i] = parse(&RULES[i]);
    }
    return 0;
}

/* Everything about a profile of capabilities: 2^9 requirements, 2 methods, 8 groups, 8 features. */
static void walk_profile(uint64_t capabilities) {
    for (uint64_t rest = 0; rest < 128; rest++) {
        const uint64_t high = (capabilities << FIRST_CAPABILITY) | (rest << BIT_denoising);
        for (uint64_t req = 0; req < (1U << N_REQUIREMENTS); req++) {
            compare(high | req);
        }
    }
}

static void all_requests_by_capability_profiles(void **state) {
    (void)state;
    const uint64_t all = (UINT64_C(1) << N_CAPABILITIES) - 1;
    uint64_t seed = 1;
    walk_profile(0);
    walk_profile(all);
    for (int i = 0; i < N_CAPABILITIES; i++) {
        walk_profile(UINT64_C(1) << i);
        walk_profile(all & ~(UINT64_C(1) << i));
    }
    for (int i = 0; i < 20; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        walk_profile(seed >> 40 & all);
    }
}

/* What the rules mean, spelled out for readers. */
static void a_few_in_words(void **state) {
    (void)state;
    static const char *const grouped[] = {"autoregressive", "speculative"};
    const tdm_exec_features nothing = {0};
    tdm_exec_capabilities can = {.grouped_methods = grouped, .n_grouped_methods = 2};
    tdm_exec_requirements req = {.has_draft = true};
    tdm_resolved r = tdm_execution_resolve(&req, &can, &nothing);
    assert_string_equal(r.method, "speculative");
    assert_int_equal(r.mechanism, TDM_MECHANISM_CONTINUOUS);
    assert_int_equal(r.reasons, 0);
    assert_int_equal(tdm_resolved_status(&r, NULL), TDM_OK);

    req.wants_logprobs = true; /* the drafter cannot: plain decoding, and the reply says so */
    r = tdm_execution_resolve(&req, &can, &nothing);
    assert_string_equal(r.method, "autoregressive");
    assert_true(tdm_resolved_has_reason(&r, TDM_REASON_DRAFT_REQUEST));
    assert_int_equal(tdm_resolved_status(&r, NULL), TDM_OK);

    req = (tdm_exec_requirements){.has_grammar = true};
    r = tdm_execution_resolve(&req, &can, &nothing);
    assert_int_equal(r.mechanism, TDM_MECHANISM_UNSUPPORTED);
    can.can_run_alone = true;
    r = tdm_execution_resolve(&req, &can, &nothing);
    assert_int_equal(r.mechanism, TDM_MECHANISM_ALONE);
    assert_true(tdm_resolved_has_reason(&r, TDM_REASON_GRAMMAR_BATCH));
}

/* Each refusal alone: 501 and its reason in the message. */
static void refusals_name_their_reasons(void **state) {
    (void)state;
    static const char *const grouped[] = {"denoising"};
    const tdm_exec_capabilities can = {.method = TDM_METHOD_DENOISING,
                                       .grouped_methods = grouped,
                                       .n_grouped_methods = 1,
                                       .can_run_alone = true};
    const tdm_exec_capabilities bare = {.method = TDM_METHOD_DENOISING};
    const struct {
        tdm_exec_requirements req;
        tdm_exec_features asked;
        const char *reason;
    } cases[] = {
        {{.has_draft = true}, {0}, "draft-method-unsupported"},
        {{.wants_logprobs = true}, {0}, "logprobs-method-unsupported"},
        {{.has_repetition_penalty = true}, {0}, "repetition-penalty-method-unsupported"},
        {{.has_logits_extras = true}, {0}, "logits-extras-method-unsupported"},
        {{0}, {.fill = true}, "fill-method-unsupported"},
    };
    tdm_error err;
    for (size_t i = 0; i < SUPPORT_LEN(cases); i++) {
        const tdm_resolved r = tdm_execution_resolve(&cases[i].req, &can, &cases[i].asked);
        const tdm_status status = tdm_resolved_status(&r, &err);
        assert_int_equal(tdm_status_http(status), 501);
        assert_non_null(strstr(err.what, cases[i].reason));
        assert_false(r.has_prompt_cache || r.has_fill || r.has_checkpoint);
    }
    /* All at once still fit the message. */
    const tdm_exec_requirements all = {true, true, true, true, true, true, true, true, true};
    const tdm_exec_features asked = {true, true, true};
    const tdm_resolved r = tdm_execution_resolve(&all, &bare, &asked);
    assert_int_equal(tdm_resolved_status(&r, &err), TDM_E_UNSUPPORTED);
    assert_int_equal(r.reasons, (1U << TDM_REASON_DRAFT_REQUEST) - 1);
    assert_non_null(strstr(err.what, "media-batch-unsupported"));
}

static void reasons_have_the_wire_names(void **state) {
    (void)state;
    assert_string_equal(tdm_exec_reason_name(TDM_REASON_METHOD_BATCH), "method-batch-unsupported");
    assert_string_equal(tdm_exec_reason_name(TDM_REASON_JUMP_REQUEST),
                        "grammar-jump-incompatible-with-request");
    assert_string_equal(tdm_exec_reason_name(TDM_REASON_COUNT), "unknown-reason");
    for (int i = 0; i < TDM_REASON_COUNT; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(tdm_exec_reason_name((tdm_exec_reason)i),
                                    tdm_exec_reason_name((tdm_exec_reason)j));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_requests_by_capability_profiles),
        cmocka_unit_test(a_few_in_words),
        cmocka_unit_test(refusals_name_their_reasons),
        cmocka_unit_test(reasons_have_the_wire_names),
    };
    return support_exit(cmocka_run_group_tests(tests, make_oracle, NULL), SUPPORT_LEN(tests));
}
