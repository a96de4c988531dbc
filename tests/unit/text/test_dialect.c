/* SPDX-License-Identifier: Apache-2.0
 *
 * Every dialect against the templates that speak it: detection, and the round trip of messages that
 * their own templates rendered (tests/data/answers/roundtrip.json), whole and in pieces. */
#include "answer_kit.h"

static const char *const TEMPLATES[][2] = {
    {"alpaca", "plain"},
    {"apertus-8b-instruct", "apertus"},
    {"chatml", "plain"},
    {"command-r-v01-tool-use", "command-r"},
    {"command-r7b-12-2024-tool-use", "command-r7b"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"deepseek-v3.2", "deepseek-v3.2"},
    {"devstral-small-2507", "mistral"},
    {"firefunction-v2", "firefunction"},
    {"functionary-medium-v3.2", "functionary"},
    {"gemma-2-2b-it", "plain"},
    {"gemma-3-270m-it", "gemma3"},
    {"gemma-3n-it", "gemma3"},
    {"gemma-4-31b-it", "gemma4"},
    {"glm-4-9b-chat", "glm4"},
    {"glm-4.6", "glm"},
    {"glm-5.2", "glm"},
    {"gpt-oss-120b", "harmony"},
    {"granite-3.2-vision", "granite3"},
    {"granite-3.3-2b-instruct", "granite3"},
    {"granite-4.0", "hermes"},
    {"hermes-2-pro-llama-3-8b-tool-use", "hermes"},
    {"kimi-k2-thinking", "kimi-k2"},
    {"lfm2-8b-a1b", "lfm2"},
    {"llama-2-7b-chat", "plain"},
    {"llama-3-8b-instruct", "plain"},
    {"llama-3.1-8b-instruct", "llama3-json"},
    {"llama-3.2-3b-instruct", "llama3-json"},
    {"llama-4-pythonic-tools", "llama-pythonic"},
    {"llama-4-scout-instruct", "llama4-json"},
    {"minicpm3-4b", "minicpm3"},
    {"minimax-m1", "minimax"},
    {"ministral-3-14b-reasoning-2512", "mistral"},
    {"mistral-7b-instruct-v0.3", "mistral"},
    {"mistral-small-3.1-24b-instruct-2503", "mistral"},
    {"mistral-small-3.2-24b-instruct-2506", "mistral"},
    {"mixtral-8x7b-instruct", "plain"},
    {"nemotron-3-nano-30b", "qwen3-coder"},
    {"openchat-3.5", "plain"},
    {"phi-3.5-mini-instruct", "plain"},
    {"phi-4", "plain"},
    {"phi-4-mini-instruct", "phi4-mini"},
    {"qwen2.5-7b-instruct", "hermes"},
    {"qwen3-0.6b", "hermes"},
    {"qwen3-coder-30b", "qwen3-coder"},
    {"qwen3.5-4b", "qwen3-coder"},
    {"qwq-32b", "hermes"},
    {"seed-oss", "seed-oss"},
    {"smollm2-135m-instruct", "plain"},
    {"smollm3-3b", "hermes"},
    {"zephyr-7b-beta", "plain"},
};

static const char *dialect_of(const char *template_name) {
    for (size_t i = 0; i < SUPPORT_LEN(TEMPLATES); i++) {
        if (strcmp(TEMPLATES[i][0], template_name) == 0) {
            return TEMPLATES[i][1];
        }
    }
    return "";
}

static void detects_every_template(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "templates");
    int n_wrong = 0;
    for (size_t i = 0; i < SUPPORT_LEN(TEMPLATES); i++) {
        char rel[256];
        size_t len = 0;
        (void)snprintf(rel, sizeof rel, "templates/%s.jinja", TEMPLATES[i][0]);
        char *source = support_read_file(support_shared_path(path, rel), &len);
        const char *name = tdm_dialect_name(tdm_dialect_detect(source, len, NULL));
        if (strcmp(name, TEMPLATES[i][1]) != 0) {
            print_error("%s: %s, not %s\n", TEMPLATES[i][0], name, TEMPLATES[i][1]);
            n_wrong++;
        }
        free(source);
    }
    assert_int_equal(n_wrong, 0);
}

static void names_are_unique_and_found(void **state) {
    (void)state;
    size_t n = 0;
    for (const tdm_dialect *d = tdm_dialect_at(0); d != NULL; d = tdm_dialect_at(++n)) {
        assert_ptr_equal(tdm_dialect_find(tdm_dialect_name(d)), d);
        assert_int_equal(d->steps[0].op, TDM_STEP_TEXT);
        for (unsigned s = 0; s < TDM_STEPS_MAX; s++) { /* no alternative longer than is held back */
            for (unsigned i = 0; i < TDM_ALTS_MAX && d->steps[s].alts[i].text != NULL; i++) {
                assert_true(strlen(d->steps[s].alts[i].text) <= TDM_MARK_MAX);
                assert_true(d->steps[s].alts[i].next < TDM_STEPS_MAX);
            }
        }
    }
    assert_int_equal(n, 29);
    assert_null(tdm_dialect_find("no such dialect"));
    assert_string_equal(tdm_dialect_name(tdm_dialect_detect(NULL, 0, NULL)), "plain");
    assert_string_equal(tdm_dialect_name(tdm_dialect_detect("", 0, NULL)), "plain");
}

typedef struct cases {
    tdm_json_doc *doc;
    const tdm_json *tools, *cases;
} cases;

static cases load_cases(void) {
    char path[SUPPORT_PATH_MAX];
    size_t len = 0;
    char *text = support_read_file(support_data_path(path, "answers/roundtrip.json"), &len);
    cases c = {.doc = kit_json(text, len)};
    free(text);
    c.tools = tdm_json_get(tdm_json_doc_root(c.doc), "tools");
    c.cases = tdm_json_get(tdm_json_doc_root(c.doc), "cases");
    assert_true(tdm_json_len(c.cases) > 200);
    return c;
}

static bool same_trimmed(const tdm_buf *got, const tdm_json *want) {
    size_t from = 0;
    size_t to = got->len;
    while (from < to && tdm_literal_is_space(got->data[from])) {
        from++;
    }
    while (to > from && tdm_literal_is_space(got->data[to - 1])) {
        to--;
    }
    return to - from == want->len &&
           (want->len == 0 || memcmp(got->data + from, want->u.text, want->len) == 0);
}

static const tdm_json *item(const tdm_json *array, int64_t idx) {
    return &array->u.items[idx];
}

typedef struct one_case {
    const tdm_json *json;
    const tdm_dialect *dialect;
    tdm_answer_options options;
    kit_answer answer;
} one_case;

static one_case get_case(const cases *all, size_t idx, bool streams) {
    one_case c = {.json = item(all->cases, (int64_t)idx)};
    int64_t tools = 0;
    c.dialect = tdm_dialect_find(dialect_of(tdm_json_get(c.json, "template")->u.text));
    assert_non_null(c.dialect);
    assert_true(tdm_json_as_i64(tdm_json_get(c.json, "tools"), &tools));
    c.options.tools = item(all->tools, tools);
    c.options.streams_arguments = streams;
    const tdm_json *tail = tdm_json_get(c.json, "prompt_tail");
    c.options.opens_in_reasoning =
        tdm_dialect_opens_in_reasoning(c.dialect, tail->u.text, tail->len);
    const tdm_json *answer = tdm_json_get(c.json, "answer");
    kit_answer_init(&c.answer, c.dialect, answer->u.text, answer->len, true);
    return c;
}

static bool calls_are(const kit_got *got, const tdm_json *calls) {
    if (got->n_calls != tdm_json_len(calls)) {
        return false;
    }
    for (size_t i = 0; i < got->n_calls; i++) {
        const kit_call *call = &got->calls[i];
        const tdm_json *want = item(calls, (int64_t)i);
        tdm_json_doc *doc = kit_json(got->arguments.data + call->arguments_at, call->arguments_len);
        const bool same = call->is_ended &&
                          tdm_json_text_is(tdm_json_get(want, "name"), call->name) &&
                          kit_json_equal(tdm_json_get(want, "arguments"), tdm_json_doc_root(doc));
        tdm_json_doc_destroy(doc);
        if (!same) {
            return false;
        }
    }
    return true;
}

static bool case_holds(const one_case *c, const kit_got *got) {
    if (tdm_json_get(c->json, "hopeless") != NULL) { /* nothing can be told; nothing is lost */
        return got->n_calls == 0 ? same_trimmed(&got->text, tdm_json_get(c->json, "answer")) : true;
    }
    return calls_are(got, tdm_json_get(c->json, "calls")) &&
           same_trimmed(&got->text, tdm_json_get(c->json, "content")) &&
           same_trimmed(&got->reasoning, tdm_json_get(c->json, "reasoning"));
}

static void round_trips(void **state) {
    const cases all = load_cases();
    int n_wrong = 0;
    (void)state;
    for (size_t i = 0; i < tdm_json_len(all.cases); i++) {
        for (int streams = 0; streams < 2; streams++) {
            one_case c = get_case(&all, i, streams == 1);
            kit_got got;
            tdm_error err = {0};
            kit_init(&got);
            assert_int_equal(kit_parse(NULL, c.dialect, &c.options, &c.answer, NULL, 0, &got, &err),
                             TDM_OK);
            kit_check_laws(&got);
            if (!case_holds(&c, &got)) {
                n_wrong++;
                print_error("%s %s %s, tail %.60s\n--- answer\n%.*s\n--- log\n%.*s\n",
                            tdm_json_get(c.json, "template")->u.text, c.dialect->name,
                            tdm_json_get(c.json, "conversation")->u.text,
                            c.options.opens_in_reasoning ? "thinks" : "", (int)c.answer.len,
                            c.answer.text, (int)got.log.len, got.log.data);
            }
            kit_deinit(&got);
            kit_answer_deinit(&c.answer);
        }
    }
    tdm_json_doc_destroy(all.doc);
    assert_int_equal(n_wrong, 0);
}

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void expect_same(const one_case *c, const kit_got *want, const size_t *cuts, size_t n) {
    kit_got got;
    tdm_error err = {0};
    kit_init(&got);
    assert_int_equal(kit_parse(NULL, c->dialect, &c->options, &c->answer, cuts, n, &got, &err),
                     TDM_OK);
    if (got.log.len != want->log.len || memcmp(got.log.data, want->log.data, got.log.len) != 0) {
        print_error("cut at %zu of %zu\n--- whole\n%.*s\n--- cut\n%.*s\n", n > 0 ? cuts[0] : 0, n,
                    (int)want->log.len, want->log.data, (int)got.log.len, got.log.data);
        fail_msg("%s: a cutting changes the events", c->dialect->name);
    }
    kit_deinit(&got);
}

/* Every cut, bytes alone, and random cuttings; every pair of cuts where the answer is short. */
static void cut_all_ways(const one_case *c, uint64_t *random) {
    kit_got whole;
    tdm_error err = {0};
    size_t cuts[4096];
    kit_init(&whole);
    assert_int_equal(kit_parse(NULL, c->dialect, &c->options, &c->answer, NULL, 0, &whole, &err),
                     TDM_OK);
    const size_t len = c->answer.len;
    for (size_t i = 0; i <= len; i++) {
        cuts[0] = i;
        expect_same(c, &whole, cuts, 1);
        for (size_t k = i; len < 110 && k <= len; k++) {
            cuts[1] = k;
            expect_same(c, &whole, cuts, 2);
        }
    }
    for (size_t i = 0; i < len && i < SUPPORT_LEN(cuts); i++) {
        cuts[i] = i;
    }
    expect_same(c, &whole, cuts, len < SUPPORT_LEN(cuts) ? len : SUPPORT_LEN(cuts));
    for (int round = 0; round < 8; round++) {
        size_t n = 0;
        for (size_t at = 0; at < len && n < SUPPORT_LEN(cuts);) {
            at += next_random(random) % 9;
            cuts[n++] = at < len ? at : len;
        }
        expect_same(c, &whole, cuts, n);
    }
    kit_deinit(&whole);
}

static void any_cutting_is_the_same(void **state) {
    const cases all = load_cases();
    uint64_t random = 0x9e3779b97f4a7c15u;
    (void)state;
    for (size_t i = 0; i < tdm_json_len(all.cases); i++) {
        one_case c = get_case(&all, i, i % 2 == 0);
        cut_all_ways(&c, &random);
        kit_answer_deinit(&c.answer);
    }
    tdm_json_doc_destroy(all.doc);
}

/* What a broken answer gave: lawful, and where nothing was found, nothing is lost. */
static void check_broken(const one_case *c, const char *text, size_t len, bool streams) {
    kit_answer answer;
    kit_got got;
    tdm_error err = {0};
    tdm_answer_options options = c->options;
    options.streams_arguments = streams;
    kit_answer_init(&answer, c->dialect, text, len, true);
    kit_init(&got);
    assert_int_equal(kit_parse(NULL, c->dialect, &options, &answer, NULL, 0, &got, &err), TDM_OK);
    kit_check_laws(&got);
    size_t n_ended = 0;
    for (size_t i = 0; i < got.n_calls; i++) {
        n_ended += got.calls[i].is_ended ? 1 : 0;
    }
    bool has_envelope = false; /* an envelope is left out even where it is broken */
    for (unsigned s = 0; s < TDM_STEPS_MAX; s++) {
        for (unsigned i = 0; i < TDM_ALTS_MAX && c->dialect->steps[s].alts[i].text != NULL; i++) {
            has_envelope = has_envelope || (c->dialect->steps[s].alts[i].flags &
                                            (TDM_ALT_ENVELOPE | TDM_ALT_RECIPIENT)) != 0;
        }
    }
    bool has_thought = options.opens_in_reasoning; /* an empty one leaves no event */
    if (c->dialect->think_open != NULL && strstr(text, c->dialect->think_open) != NULL) {
        has_thought = true;
    }
    if (n_ended == 0 && !has_thought && got.reasoning.len == 0 && !has_envelope &&
        (got.text.len != len || (len > 0 && memcmp(got.text.data, text, len) != 0))) {
        fail_msg("%s: bytes are lost from <%.*s>: <%.*s>", c->dialect->name, (int)len, text,
                 (int)got.text.len, got.text.data);
    }
    kit_deinit(&got);
    kit_answer_deinit(&answer);
}

static void broken_answers_stay_text(void **state) {
    static const char ODD[] = "<\"{}[]\\\n`>|x\xc3";
    const cases all = load_cases();
    uint64_t random = 88172645463325252u;
    (void)state;
    for (size_t i = 0; i < tdm_json_len(all.cases); i++) {
        one_case c = get_case(&all, i, false);
        const size_t len = c.answer.len;
        char *text = malloc(len + 2);
        assert_non_null(text);
        for (size_t at = 0; at <= len; at++) {
            memcpy(text, c.answer.text, at);
            text[at] = '\0';
            check_broken(&c, text, at, at % 2 == 0);
            if (at < len && (len < 300 || next_random(&random) % 3 == 0)) {
                memcpy(text + at, c.answer.text + at + 1, len - at - 1);
                text[len - 1] = '\0';
                check_broken(&c, text, len - 1, at % 2 == 0);
                text[at] = ODD[next_random(&random) % (sizeof ODD - 1)];
                memcpy(text + at + 1, c.answer.text + at, len - at);
                text[len + 1] = '\0';
                check_broken(&c, text, len + 1, at % 2 == 0);
            }
        }
        free(text);
        kit_answer_deinit(&c.answer);
    }
    tdm_json_doc_destroy(all.doc);
}

/* Markup that is special tokens, spelled by ordinary ones, is text. */
static void spelled_markup_stays_text(void **state) {
    const cases all = load_cases();
    size_t n_checked = 0;
    (void)state;
    for (size_t i = 0; i < tdm_json_len(all.cases); i++) {
        one_case c = get_case(&all, i, false);
        kit_answer plain;
        kit_got got;
        tdm_error err = {0};
        bool is_marked = false;
        for (size_t k = 0; k < c.answer.len; k++) {
            is_marked = is_marked || c.answer.special[k] != 0;
        }
        const bool is_open = tdm_json_len(tdm_json_get(c.json, "calls")) == 0 ||
                             strncmp(c.dialect->name, "llama", 5) == 0;
        if (is_marked && !is_open && !c.options.opens_in_reasoning) {
            kit_answer_init(&plain, c.dialect, c.answer.text, c.answer.len, false);
            kit_init(&got);
            assert_int_equal(kit_parse(NULL, c.dialect, &c.options, &plain, NULL, 0, &got, &err),
                             TDM_OK);
            if (got.n_calls != 0) {
                fail_msg("%s: believed without its tokens: %s", c.dialect->name, c.answer.text);
            }
            if (got.reasoning.len == 0 && strstr(c.answer.text, "<think>") == NULL) {
                assert_int_equal(got.text.len, c.answer.len);
                assert_memory_equal(got.text.data, c.answer.text, c.answer.len);
            }
            n_checked++;
            kit_deinit(&got);
            kit_answer_deinit(&plain);
        }
        kit_answer_deinit(&c.answer);
    }
    assert_true(n_checked > 50);
    tdm_json_doc_destroy(all.doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(detects_every_template),
        cmocka_unit_test(names_are_unique_and_found),
        cmocka_unit_test(round_trips),
        cmocka_unit_test(any_cutting_is_the_same),
        cmocka_unit_test(broken_answers_stay_text),
        cmocka_unit_test(spelled_markup_stays_text),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
