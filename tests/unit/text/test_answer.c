/* SPDX-License-Identifier: Apache-2.0
 *
 * The parser's laws on texts of our own: each dialect's usual answer, quoted closing tags (BL05),
 * types of parameters, streaming and dropping, limits, cancelling, allocation failures, time. */
#include "answer_kit.h"

#include <time.h>

static const char TOOLS[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
    "\"object\", \"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, "
    "\"b\": {\"type\": \"boolean\"}, \"a\": {\"type\": \"array\"}, \"o\": {\"type\": \"object\"}, "
    "\"sn\": {\"type\": [\"string\", \"null\"]}, \"u\": {\"anyOf\": [{\"type\": \"string\"}, "
    "{\"type\": \"boolean\"}]}, \"e\": {\"enum\": [1, 2]}, \"x\": {}}}}},"
    "{\"name\": \"g\", \"input_schema\": {\"properties\": {\"s\": {\"type\": \"string\"}}}}]";

/* One answer. Special tokens stand between \x02 and \x03 in text. calls: "name(arguments)" with
 * "#id" behind, one a line. */
typedef struct answer_case {
    const char *dialect;
    const char *text;
    const char *want_text;
    const char *want_reasoning;
    const char *want_calls;
    bool opens_in_reasoning;
    bool has_no_tools;
} answer_case;

#define S(mark) "\x02" mark "\x03"

static const answer_case CASES[] = {
    /* JSON in tags and lists */
    {"hermes",
     "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>",
     "Let me see.", "", "f({\"n\": 1})\n", false, false},
    {"hermes", "<think>\nA.\n\nB.\n</think>\n\nYes.\n", "Yes.\n", "A.\n\nB.", "", false, false},
    {"hermes", "A.\n</think>\n\nYes.", "Yes.", "A.", "", true, false},
    {"hermes", "\n<think>\nA.\n</think>\n\nYes.", "Yes.", "A.", "", true, false},
    {"hermes", "A <think> b</think>c", "c", "A <think> b", "", true, false},
    {"hermes", "<think>\n\n</think>\n\nYes.", "Yes.", "", "", false, false},
    {"hermes", "<think>never closed ", "", "never closed ", "", false, false},
    {"hermes", "  Say <think> here.\n", "  Say <think> here.\n", "", "", false, false},
    {"hermes",
     "<tool_call>{\"arguments\": {\"n\": 1}, \"name\": \"f\", \"id\": \"c1\"}</tool_call>\n"
     "<tool_call>{\"name\": \"g\", \"arguments\": null}</tool_call> and then?",
     "and then?", "", "f({\"n\": 1})#c1\ng({})\n", false, false},
    {"hermes", "A <tool_call>{\"name\": \"g\"}</tool_call> B", "A B", "", "g({})\n", false, false},
    {"hermes",
     "<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": "
     "\"{\\\"s\\\": \\\"x\\\\ny\\\"}\"}}</tool_call>",
     "", "", "f({\"s\": \"x\\ny\"})\n", false, false},
    {"hermes",
     "<tool_call>{'name': 'f', 'arguments': {'s': \"it's\", 'b': True, 'n': +1,}}"
     "</tool_call>",
     "", "", "f({\"s\": \"it's\", \"b\": true, \"n\": 1})\n", false, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}", "", "", "f({\"n\": 1})\n",
     false, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_c", "", "",
     "f({\"n\": 1})\n", false, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1",
     "<tool_call>{\"name\": "
     "\"f\", \"arguments\": {\"n\": 1",
     "", "", false, false},
    {"hermes", " <tool_call>\n{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     " <tool_call>\n{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "", "", false, false},
    {"hermes", "<tool_call><tool_call>{\"name\": \"g\"}</tool_call>", "<tool_call>", "", "g({})\n",
     false, false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1, \"n\": 2}}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1, \"n\": 2}}</tool_call>", "", "", false,
     false},
    {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call>\"}}</tool_call>",
     "", "", "f({\"s\": \"</tool_call>\"})\n", false, false},
    {"minimax",
     "<tool_calls>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n{\"name\": \"g\", "
     "\"arguments\": {}}\n</tool_calls>",
     "", "", "f({\"n\": 1})\ng({})\n", false, false},
    {"nemotron",
     "Hm.\n<TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"n\": 1}}, {\"name\": \"g\", "
     "\"arguments\": {}}]</TOOLCALL>",
     "Hm.", "", "f({\"n\": 1})\ng({})\n", false, false},
    {"granite3", S("<|tool_call|>") "[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]", "", "",
     "f({\"n\": 1})\n", false, false},
    {"granite3", "<think>a</think><response>b</response>", "b", "a", "", false, false},
    {"phi4-mini",
     S("<|tool_call|>") "[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]" S("<|/tool_call|>"), "",
     "", "f({\"n\": 1})\n", false, false},
    {"phi4-mini", "functools[{\"name\": \"f\", \"arguments\": {\"n\": 1}}]", "", "",
     "f({\"n\": 1})\n", false, false},
    {"command-r7b", S("<|START_RESPONSE|>") "Hi there." S("<|END_RESPONSE|>"), "Hi there.", "", "",
     false, false},
    {"command-r",
     "I will.\nAction:\n```json\n[\n    {\n        \"tool_name\": \"g\",\n        "
     "\"parameters\": {}\n    }\n]```",
     "I will.", "", "g({})\n", false, false},
    {"firefunction", "functools are fun", "functools are fun", "", "", false, false},
    /* bare JSON */
    {"llama3-json",
     "{\"name\": \"f\", \"parameters\": {\"n\": 1}}; {\"name\": \"g\", "
     "\"parameters\": {}}",
     "", "", "f({\"n\": 1})\ng({})\n", false, false},
    {"llama3-json", "{\"name\": \"Bob\", \"age\": 5}", "{\"name\": \"Bob\", \"age\": 5}", "", "",
     false, true},
    {"llama3-json", "{\"name\": \"Bob\"}", "{\"name\": \"Bob\"}", "", "", false, true},
    {"llama3-json", "{\"name\": \"other\", \"parameters\": {}}",
     "{\"name\": \"other\", \"parameters\": {}}", "", "", false, false},
    {"llama3-json", "See {\"name\": \"f\", \"parameters\": {}}",
     "See {\"name\": \"f\", \"parameters\": {}}", "", "", false, false},
    {"llama3-json", S("<|python_tag|>") "g.call(s=\"x\")", "", "", "g({\"s\": \"x\"})\n", false,
     false},
    {"llama3-json", S("<|python_tag|>") "print(1)", "<|python_tag|>print(1)", "", "", false, false},
    {"llama3-json", "[f(n=1), g(s='x')]", "", "", "f({\"n\": 1})\ng({\"s\": \"x\"})\n", false,
     false},
    {"llama4-json", S("<|python_start|>") "[f(n=1)]" S("<|python_end|>"), "", "", "f({\"n\": 1})\n",
     false, false},
    /* Python */
    {"llama-pythonic", "See [1], [a](b) and [f(n=1, s=\"x\")]", "See [1], [a](b) and", "",
     "f({\"n\": 1, \"s\": \"x\"})\n", false, false},
    {"llama-pythonic", "[f(n=\"5\", b=\"true\", a=\"[1, 'x']\", s=\"7\", x=\"8\")]", "", "",
     "f({\"n\": 5, \"b\": true, \"a\": [1, \"x\"], \"s\": \"7\", \"x\": \"8\"})\n", false, false},
    {"llama-pythonic", "See [f(n=1)]", "See [f(n=1)]", "", "", false, true},
    {"llama-pythonic", "[f(n=1)", "", "", "f({\"n\": 1})\n", false, false},
    {"llama-pythonic", "[f(n=1, ", "[f(n=1, ", "", "", false, false},
    {"lfm2",
     S("<|tool_call_start|>") "[f(s=\"a\\x41\\u00e9\\'\", a=(1, 2.), o={1: None})]" S(
         "<|tool_call_end|>") "ok",
     "ok", "", "f({\"s\": \"aA\\u00e9'\", \"a\": [1, 2.0], \"o\": {\"1\": null}})\n", false, false},
    {"lfm2", "<|tool_call_start|>[f(n=1)]<|tool_call_end|>",
     "<|tool_call_start|>[f(n=1)]<|tool_call_end|>", "", "", false, false},
    {"gemma3", "Sure.\n```tool_code\nf(n=1)\ng()\n```\n", "Sure.", "", "f({\"n\": 1})\ng({})\n",
     false, false},
    {"gemma3", "```tool_code\nprint(f(n=1))\n```", "```tool_code\nprint(f(n=1))\n```", "", "",
     false, false},
    {"minicpm3",
     S("<|thought_start|>") "\nx\n" S("<|thought_end|>") "\n" S(
         "<|tool_call_start|>") "\n```python\nf(n=1)\ng()\n```\n" S("<|tool_call_end|>") "\nok",
     "ok", "x", "f({\"n\": 1})\ng({})\n", false, false},
    /* parameters as tags */
    {"qwen3-coder",
     "Ok.\n<tool_call>\n<function=f>\n<parameter=s>\n1\n</parameter>\n<parameter=n>\n1\n"
     "</parameter>\n<parameter=b>\nTrue\n</parameter>\n<parameter=a>\n['x', None]\n</parameter>\n"
     "<parameter=sn>\nnull\n</parameter>\n<parameter=u>\nmaybe\n</parameter>\n<parameter=e>\n2\n"
     "</parameter>\n<parameter=x>\n\"q\"\n</parameter>\n</function>\n</tool_call>",
     "Ok.", "",
     "f({\"s\": \"1\", \"n\": 1, \"b\": true, \"a\": [\"x\", null], \"sn\": null, \"u\": "
     "\"maybe\", \"e\": 2, \"x\": \"\\\"q\\\"\"})\n",
     false, false},
    {"qwen3-coder", "<function=g>\n<parameter=s>\n a\n\n b\n\n</parameter>\n</function>", "", "",
     "g({\"s\": \" a\\n\\n b\\n\"})\n", false, false},
    {"qwen3-coder", "<tool_call>\n<function=g>\n<parameter=s>\nx",
     "<tool_call>\n<function=g>\n"
     "<parameter=s>\nx",
     "", "", false, false},
    {"qwen3-coder", "use <function=f and <parameter=x> in text",
     "use <function=f and <parameter=x> in text", "", "", false, false},
    {"seed-oss",
     "<seed:think>x</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=n>5"
     "</parameter>\n</function>\n</seed:tool_call>",
     "", "x", "f({\"n\": 5})\n", false, false},
    {"minimax-m2",
     "<minimax:tool_call>\n<invoke name=\"g\">\n<parameter name=\"s\">a\nb"
     "</parameter>\n</invoke>\n</minimax:tool_call>",
     "", "", "g({\"s\": \"a\\nb\"})\n", false, false},
    {"deepseek-v3.2",
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter "
     "name=\"n\" string=\"true\">5</｜DSML｜parameter>\n<｜DSML｜parameter "
     "name=\"x\" string=\"false\">\"y\"</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
     "</｜DSML｜function_calls>",
     "", "", "f({\"n\": \"5\", \"x\": \"y\"})\n", false, false},
    {"glm",
     "<think></think>\n<tool_call>g</tool_call><tool_call>f\n<arg_key>n</arg_key>\n"
     "<arg_value>5</arg_value>\n</tool_call>",
     "", "", "g({})\nf({\"n\": 5})\n", false, false},
    /* a name and its arguments */
    {"deepseek-v3",
     S("<｜tool▁calls▁begin｜>")
         S("<｜tool▁call▁begin｜>") "function" S("<｜tool▁sep｜>") "f\n```json\n{\"n\": 1}\n```" S(
             "<｜tool▁call▁end｜>") "\n" S("<｜tool▁call▁begin｜>") "g" S("<｜tool▁sep｜>") "{}" S("<｜tool▁call▁end｜>")
             S("<｜tool▁calls▁end｜>"),
     "", "", "f({\"n\": 1})\ng({})\n", false, false},
    {"deepseek-v3",
     "hm" S("<｜tool▁calls▁begin｜>") S("<｜tool▁call▁begin｜>") "g" S("<｜tool▁sep｜>") "{}" S(
         "<｜tool▁call▁end｜>") S("<｜tool▁calls▁end｜>"),
     "", "hm", "g({})\n", true, false},
    {"kimi-k2",
     S("<|tool_calls_section_begin|>") S("<|tool_call_begin|>") "functions.f:12" S(
         "<|tool_call_argument_begin|>") "{\"n\": 1}" S("<|tool_call_end|>")
         S("<|tool_calls_section_end|>"),
     "", "", "f({\"n\": 1})#functions.f:12\n", false, false},
    {"mistral",
     S("[TOOL_CALLS]") " [{\"name\": \"f\", \"arguments\": {\"n\": 1}, \"id\": "
                       "\"abcdefghi\"}]",
     "", "", "f({\"n\": 1})#abcdefghi\n", false, false},
    {"mistral",
     S("[THINK]") "a" S("[/THINK]") "b" S("[TOOL_CALLS]") "f" S("[CALL_ID]") "abcdefghi" S(
         "[ARGS]") "{\"n\": 1}" S("[TOOL_CALLS]") "g{}",
     "b", "a", "f({\"n\": 1})#abcdefghi\ng({})\n", false, false},
    {"functionary", "all\nHello. >>> hm", "Hello. >>> hm", "", "", false, false},
    {"functionary", "all\nHello.>>>f\n{\"n\": 1}>>>g\n{}", "Hello.", "", "f({\"n\": 1})\ng({})\n",
     false, false},
    {"functionary", "Just text\nof lines", "Just text\nof lines", "", "", false, false},
    {"glm4", "f\n{\"n\": 1}", "", "", "f({\"n\": 1})\n", false, false},
    {"glm4", "Hello\n{\"n\": 1}", "Hello\n{\"n\": 1}", "", "", false, false},
    {"gemma4",
     S("<|tool_call>") "call:f{s:" S("<|\"|>") "a \"b\" <|\"|> \\" S("<|\"|>") ",o:{k:None},n:2}" S(
         "<tool_call|>"),
     "", "", "f({\"s\":\"a \\\"b\\\" <|\\\"|> \\\\\",\"o\":{\"k\":null},\"n\":2})\n", false, false},
    /* channels */
    {"harmony",
     S("<|channel|>") "analysis" S("<|message|>") "hm" S("<|end|>")
         S("<|start|>") "assistant" S("<|channel|>") "commentary to=functions.f " S(
             "<|constrain|>") "json" S("<|message|>") "{\"n\": 1}" S("<|call|>"),
     "", "hm", "f({\"n\": 1})\n", false, false},
    {"harmony",
     S("<|channel|>") "commentary" S("<|message|>") "First.\n" S("<|end|>") S(
         "<|start|>") "assistant" S("<|channel|>") "final" S("<|message|>") "Yes." S("<|return|>"),
     "First.\nYes.", "", "", false, false},
    {"harmony", "No markup at all.", "No markup at all.", "", "", false, false},
    {"harmony", "<|channel|>final<|message|>x", "<|channel|>final<|message|>x", "", "", false,
     false},
    /* BL05: closing tags that are only quoted, without and with a token of their own */
    {"plain-think", "<think>the tag `</think>` ends it</think>ok", "ok",
     "the tag `</think>` ends it", "", false, false},
    {"plain-think", "<think>`` `</think>` ``</think>ok", "ok", "`` `</think>` ``", "", false,
     false},
    {"plain-think", "<think>an odd ` tick</think>ok\nmore", "ok\nmore", "an odd ` tick", "", false,
     false},
    {"plain-think", "<think>an odd ` tick</think>ok", "ok", "an odd ` tick", "", false, false},
    {"plain-think", "<think>say \"</think>\" or '</think>'.</think>ok", "ok",
     "say \"</think>\" or '</think>'.", "", false, false},
    {"plain-think", "<think>he said \"no\"</think>ok", "ok", "he said \"no\"", "", false, false},
    {"plain-think", "<think>\n```xml\n</think>\n</think>\n```\nso\n</think>\nok", "ok",
     "```xml\n</think>\n</think>\n```\nso", "", false, false},
    {"plain-think", "<think>\n```\nopen fence\n</think>\nok", "ok", "```\nopen fence", "", false,
     false},
    {"plain-think", "<think>a</think>b</think>c", "b</think>c", "a", "", false, false},
    {"mistral", S("[THINK]") "[/THINK] `" S("[/THINK]") "`", "`", "[/THINK] `", "", false, false},
    {"plain", "<think>x</think>", "<think>x</think>", "", "", false, false},
};

static size_t unmark(const char *text, char *out, uint8_t *special) {
    size_t n = 0;
    size_t open = SIZE_MAX;
    for (; *text != '\0'; text++) {
        if (*text == '\x02') {
            open = n;
        } else if (*text == '\x03') {
            for (size_t i = open; i < n; i++) {
                special[i] = i == open ? (uint8_t)(n - open) : 255;
            }
        } else {
            special[n] = 0;
            out[n++] = *text;
        }
    }
    return n;
}

static void calls_text(const kit_got *got, tdm_buf *out) {
    for (size_t i = 0; i < got->n_calls; i++) {
        const kit_call *call = &got->calls[i];
        if (call->is_ended) {
            assert_int_equal(tdm_buf_printf(out, "%s(%.*s)%s%s\n", call->name,
                                            (int)call->arguments_len,
                                            got->arguments.data + call->arguments_at,
                                            call->id[0] != '\0' ? "#" : "", call->id),
                             TDM_OK);
        }
    }
}

static void expect(const char *what, const answer_case *c, const tdm_buf *got, const char *want) {
    if (!kit_is(got, want)) {
        fail_msg("%s: %s\n%s is <%.*s>, not <%s>", c->dialect, c->text, what, (int)got->len,
                 got->len > 0 ? got->data : "", want);
    }
}

static tdm_json_doc *tools_doc(void) {
    return kit_json(TOOLS, sizeof TOOLS - 1);
}

/* Whole, and at every pair of cuts. */
static void check_case(const answer_case *c, const tdm_json *tools, bool streams) {
    char text[2048];
    uint8_t special[2048];
    const tdm_dialect *dialect = tdm_dialect_find(c->dialect);
    const tdm_answer_options options = {.tools = c->has_no_tools ? NULL : tools,
                                        .opens_in_reasoning = c->opens_in_reasoning,
                                        .streams_arguments = streams};
    assert_non_null(dialect);
    assert_true(strlen(c->text) < sizeof text);
    const kit_answer answer = {text, unmark(c->text, text, special), special};
    kit_got whole;
    tdm_error err = {0};
    tdm_buf calls;
    kit_init(&whole);
    tdm_buf_init(&calls, NULL, 0);
    assert_int_equal(kit_parse(NULL, dialect, &options, &answer, NULL, 0, &whole, &err), TDM_OK);
    kit_check_laws(&whole);
    calls_text(&whole, &calls);
    expect("text", c, &whole.text, c->want_text);
    expect("reasoning", c, &whole.reasoning, c->want_reasoning);
    expect("calls", c, &calls, c->want_calls);
    for (size_t i = 0; i <= answer.len; i++) {
        for (size_t k = i; k <= answer.len; k += answer.len < 160 ? 1 : 37) {
            const size_t cuts[2] = {i, k};
            kit_got got;
            kit_init(&got);
            assert_int_equal(kit_parse(NULL, dialect, &options, &answer, cuts, 2, &got, &err),
                             TDM_OK);
            if (got.log.len != whole.log.len ||
                (got.log.len > 0 && memcmp(got.log.data, whole.log.data, got.log.len) != 0)) {
                fail_msg("%s: %s cut at %zu and %zu:\n%.*s\nnot\n%.*s", c->dialect, c->text, i, k,
                         (int)got.log.len, got.log.data, (int)whole.log.len, whole.log.data);
            }
            kit_deinit(&got);
        }
    }
    tdm_buf_deinit(&calls);
    kit_deinit(&whole);
}

static void answers_are_told_apart(void **state) {
    tdm_json_doc *tools = tools_doc();
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        check_case(&CASES[i], tdm_json_doc_root(tools), false);
        check_case(&CASES[i], tdm_json_doc_root(tools), true);
    }
    tdm_json_doc_destroy(tools);
}

static void every_dialect_has_a_case(void **state) {
    (void)state;
    size_t n = 0;
    for (const tdm_dialect *d = tdm_dialect_at(0); d != NULL; d = tdm_dialect_at(++n)) {
        bool found = strcmp(d->name, "apertus") == 0; /* in test_dialect.c */
        for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
            found = found || strcmp(CASES[i].dialect, d->name) == 0;
        }
        if (!found) {
            fail_msg("no case for %s", d->name);
        }
    }
}

/* A key that is too long ends the call at the same byte however it is cut: the call behind it is
 * then found, or not, alike. */
static void long_names_fail_alike(void **state) {
    const tdm_dialect *dialect = tdm_dialect_find("hermes");
    char text[700];
    (void)state;
    for (size_t n = 250; n < 300; n++) {
        const int head = snprintf(text, sizeof text, "<tool_call>{\"");
        memset(text + head, 'k', n);
        (void)snprintf(text + (size_t)head + n, sizeof text - (size_t)head - n,
                       "<tool_call>{\"name\": \"g\"}</tool_call>");
        kit_answer answer;
        size_t cuts[700];
        kit_got got[2];
        tdm_error err = {0};
        kit_answer_init(&answer, dialect, text, strlen(text), true);
        for (size_t i = 0; i < answer.len; i++) {
            cuts[i] = i;
        }
        for (size_t i = 0; i < 2; i++) {
            kit_init(&got[i]);
            assert_int_equal(
                kit_parse(NULL, dialect, NULL, &answer, cuts, i * answer.len, &got[i], &err),
                TDM_OK);
        }
        assert_int_equal(got[0].log.len, got[1].log.len);
        assert_memory_equal(got[0].log.data, got[1].log.data, got[0].log.len);
        kit_deinit(&got[0]);
        kit_deinit(&got[1]);
        kit_answer_deinit(&answer);
    }
}

static void arguments_stream_and_drop(void **state) {
    static const char HEAD[] = "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"abc";
    const tdm_dialect *dialect = tdm_dialect_find("hermes");
    (void)state;
    for (int streams = 0; streams < 2; streams++) {
        const tdm_answer_options options = {.streams_arguments = streams == 1};
        tdm_answer_parser *p = NULL;
        tdm_error err = {0};
        kit_got got;
        kit_init(&got);
        assert_int_equal(tdm_answer_parser_create(&p, NULL, dialect, &options, &err), TDM_OK);
        assert_int_equal(tdm_answer_push(p, HEAD, sizeof HEAD - 1, false, kit_sink, &got, &err),
                         TDM_OK);
        assert_int_equal(got.n_calls, streams);
        assert_true(kit_is(&got.arguments, streams == 1 ? "{\"s\": \"abc" : ""));
        assert_int_equal(tdm_answer_finish(p, kit_sink, &got, &err), TDM_OK);
        assert_int_equal(got.n_calls, streams);
        assert_true(streams == 0 || got.calls[0].is_dropped);
        assert_true(kit_is(&got.text, HEAD));
        tdm_answer_parser_destroy(p);
        kit_deinit(&got);
    }
}

/* A parameter that is a text streams too, while it is written. */
static void tagged_text_streams(void **state) {
    static const char HEAD[] = "<tool_call>\n<function=g>\n<parameter=s>\nline \"1\"\nline 2";
    tdm_json_doc *tools = tools_doc();
    const tdm_answer_options options = {.tools = tdm_json_doc_root(tools),
                                        .streams_arguments = true};
    tdm_answer_parser *p = NULL;
    tdm_error err = {0};
    kit_got got;
    (void)state;
    kit_init(&got);
    assert_int_equal(
        tdm_answer_parser_create(&p, NULL, tdm_dialect_find("qwen3-coder"), &options, &err),
        TDM_OK);
    assert_int_equal(tdm_answer_push(p, HEAD, sizeof HEAD - 1, false, kit_sink, &got, &err),
                     TDM_OK);
    assert_true(kit_is(&got.arguments, "{\"s\": \"line \\\"1\\\"\\nline 2"));
    tdm_answer_parser_destroy(p);
    kit_deinit(&got);
    tdm_json_doc_destroy(tools);
}

static void text_is_not_held_back(void **state) {
    tdm_answer_parser *p = NULL;
    tdm_error err = {0};
    kit_got got;
    (void)state;
    kit_init(&got);
    assert_int_equal(tdm_answer_parser_create(&p, NULL, tdm_dialect_find("hermes"), NULL, &err),
                     TDM_OK);
    assert_int_equal(tdm_answer_push(p, "a < b <tool", 11, false, kit_sink, &got, &err), TDM_OK);
    assert_true(kit_is(&got.text, "a < b"));
    assert_int_equal(tdm_answer_push(p, "s \n", 3, false, kit_sink, &got, &err), TDM_OK);
    assert_true(kit_is(&got.text, "a < b <tools"));
    assert_int_equal(tdm_answer_push(p, NULL, 0, false, kit_sink, &got, &err), TDM_OK);
    assert_int_equal(tdm_answer_finish(p, kit_sink, &got, &err), TDM_OK);
    assert_true(kit_is(&got.text, "a < b <tools \n"));
    tdm_answer_parser_destroy(p);
    tdm_answer_parser_destroy(NULL);
    kit_deinit(&got);
}

static void a_parser_ends_once(void **state) {
    tdm_answer_parser *p = NULL;
    tdm_error err = {0};
    kit_got got;
    (void)state;
    kit_init(&got);
    assert_int_equal(tdm_answer_parser_create(&p, NULL, tdm_dialect_find("plain"), NULL, &err),
                     TDM_OK);
    assert_int_equal(tdm_answer_finish(p, kit_sink, &got, &err), TDM_OK);
    assert_int_equal(tdm_answer_finish(p, kit_sink, &got, &err), TDM_E_ARG);
    assert_int_equal(tdm_answer_push(p, "a", 1, false, kit_sink, &got, &err), TDM_E_ARG);
    assert_int_equal(got.n_events, 0);
    tdm_answer_parser_destroy(p);
    kit_deinit(&got);
}

/* A vocabulary whose <tool_call> is a special token, or a plain added one. */
static tdm_tokenizer *tokenizer_with(const char *is_special) {
    char json[1024];
    tdm_tokenizer *tokenizer = NULL;
    tdm_error err = {0};
    const int n = snprintf(
        json, sizeof json,
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 2, \"content\": \"<tool_call>\", "
        "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, "
        "\"special\": %s}, {\"id\": 3, \"content\": \"</tool_call>\", \"single_word\": false, "
        "\"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": %s}], "
        "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"ByteLevel\", "
        "\"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": true}, "
        "\"post_processor\": null, \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": "
        "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}}",
        is_special, is_special);
    if (tdm_tokenizer_from_json(&tokenizer, NULL, json, (size_t)n, NULL, "t", &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    return tokenizer;
}

static void the_vocabulary_says_what_is_special(void **state) {
    static const char CALL[] = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    (void)state;
    for (int strict = 0; strict < 2; strict++) {
        tdm_tokenizer *tokenizer = tokenizer_with(strict == 1 ? "true" : "false");
        const tdm_dialect *dialect = tdm_dialect_detect("", 0, tokenizer);
        assert_string_equal(tdm_dialect_name(dialect), "hermes");
        const tdm_answer_options options = {.tokenizer = tokenizer};
        for (int tokens = 0; tokens < 2; tokens++) {
            uint8_t special[sizeof CALL] = {0};
            const kit_answer answer = {CALL, sizeof CALL - 1, special};
            if (tokens == 1) { /* the tags come as tokens */
                memset(special, 255, 11);
                special[0] = 11;
                memset(special + sizeof CALL - 13, 255, 12);
                special[sizeof CALL - 13] = 12;
            }
            kit_got got;
            tdm_error err = {0};
            kit_init(&got);
            assert_int_equal(kit_parse(NULL, dialect, &options, &answer, NULL, 0, &got, &err),
                             TDM_OK);
            assert_int_equal(got.n_calls, strict == 1 && tokens == 0 ? 0 : 1);
            assert_true(kit_is(&got.text, got.n_calls == 0 ? CALL : ""));
            kit_deinit(&got);
        }
        tdm_tokenizer_destroy(tokenizer);
    }
}

static void reasoning_can_stay_text(void **state) {
    static const char *const TEXTS[][3] = {
        {"hermes", " <think>\n a\n</think>\n\n b ", " <think>\n a\n</think>\n\n b "},
        {"hermes", "<think> a ", "<think> a "},
        {"plain-think", "<think>`</think>`</think>\nb", "<think>`</think>`</think>\nb"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(TEXTS); i++) {
        const tdm_answer_options options = {.keeps_reasoning_as_text = true};
        const tdm_dialect *dialect = tdm_dialect_find(TEXTS[i][0]);
        kit_answer answer;
        kit_got got;
        tdm_error err = {0};
        kit_init(&got);
        kit_answer_init(&answer, dialect, TEXTS[i][1], strlen(TEXTS[i][1]), true);
        assert_int_equal(kit_parse(NULL, dialect, &options, &answer, NULL, 0, &got, &err), TDM_OK);
        assert_true(kit_is(&got.text, TEXTS[i][2]));
        assert_int_equal(got.reasoning.len, 0);
        kit_answer_deinit(&answer);
        kit_deinit(&got);
    }
}

static void prompts_tell_whether_a_thought_is_open(void **state) {
    static const struct {
        const char *dialect, *prompt;
        bool is_open;
    } PROMPTS[] = {
        {"hermes", "<|im_start|>assistant\n<think>\n", true},
        {"hermes", "<|im_start|>assistant\n<think>\n\n</think>\n\n", false},
        {"hermes", "What is <think> for?<|im_end|>\n<|im_start|>assistant\n", false},
        {"hermes", "a </think> b<|im_end|><|im_start|>assistant\n<think>\nFirst,", true},
        {"hermes", "", false},
        {"deepseek-v3", "x<｜Assistant｜><think>\n", true},
        {"mistral", "[INST]q[/INST][THINK]", true},
        {"mistral", "[INST][THINK]q[/INST]", false},
        {"seed-oss", "<seed:bos>assistant\n<seed:think>", true},
        {"gemma4", "<|turn>model\n<|channel>thought\n<channel|>", false},
        {"gemma4", "<|turn>model\n<|channel>thought\n", true},
        {"harmony", "<|start|>assistant", false},
        {"plain", "<think>", false},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(PROMPTS); i++) {
        if (tdm_dialect_opens_in_reasoning(tdm_dialect_find(PROMPTS[i].dialect), PROMPTS[i].prompt,
                                           strlen(PROMPTS[i].prompt)) != PROMPTS[i].is_open) {
            fail_msg("%s: %s", PROMPTS[i].dialect, PROMPTS[i].prompt);
        }
    }
}

static tdm_status parse_long(const char *name, const char *head, const char *unit, size_t n,
                             const char *tail, kit_got *got, tdm_error *err, double *seconds) {
    const tdm_dialect *dialect = tdm_dialect_find(name);
    const size_t head_len = strlen(head);
    const size_t unit_len = strlen(unit);
    const size_t len = head_len + unit_len * n + strlen(tail);
    char *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, head, head_len);
    for (size_t i = 0; i < n; i++) {
        memcpy(text + head_len + i * unit_len, unit, unit_len);
    }
    memcpy(text + head_len + unit_len * n, tail, strlen(tail));
    tdm_answer_parser *p = NULL;
    assert_int_equal(tdm_answer_parser_create(&p, NULL, dialect, NULL, err), TDM_OK);
    struct timespec from;
    struct timespec to;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    tdm_status status = TDM_OK;
    for (size_t at = 0; at < len && status == TDM_OK; at += 3) {
        status =
            tdm_answer_push(p, text + at, len - at < 3 ? len - at : 3, false, kit_sink, got, err);
    }
    if (status == TDM_OK) {
        status = tdm_answer_finish(p, kit_sink, got, err);
    }
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    *seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    tdm_answer_parser_destroy(p);
    free(text);
    return status;
}

static void limits_are_answers(void **state) {
    static const struct {
        const char *dialect, *head, *unit;
        size_t n;
    } LONG[] = {
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"", "abcdefgh", 1 << 18},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": ", "[", 70},
        {"qwen3-coder", "<function=f><parameter=s>", "abcdefgh", 1 << 18},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LONG); i++) {
        kit_got got;
        tdm_error err = {0};
        double seconds = 0;
        kit_init(&got);
        assert_int_equal(parse_long(LONG[i].dialect, LONG[i].head, LONG[i].unit, LONG[i].n, "",
                                    &got, &err, &seconds),
                         TDM_E_LIMIT);
        assert_true(err.limit[0] != '\0' && err.what[0] != '\0');
        kit_deinit(&got);
    }
}

/* A megabyte in pieces of three bytes takes time in proportion: four times as much may take no more
 * than eight times as long, where a quadratic step would take sixteen. */
static void a_megabyte_is_linear(void **state) {
    static const struct {
        const char *dialect, *head, *unit, *tail;
    } LONG[] = {
        {"hermes", "", "some words ", ""},
        {"hermes", "", "          ", "."},
        {"hermes", "", "<tool_call>", ""},
        {"hermes", "", "<tool_call>{", ""},
        {"hermes", "", "<tool_call>{\"name\": \"f\", \"x\": \"", ""},
        {"hermes", "<tool_call>", "          ", ""},
        {"hermes", "<tool_call>{\"name\": \"f\", \"arguments\": {\"s\": \"", "0123456789",
         "\"}}</tool_call>"},
        {"plain-think", "<think>\n```\n", "</think> a ", "\n```\n</think>"},
        {"plain-think", "<think>\n```\n</think>", "\n``", ""},
        {"plain-think", "<think>a ` ", "</think> b ", ""},
        {"plain-think", "<think>", "` </think>\n", ""},
        {"qwen3-coder", "<function=f><parameter=s>", "\n</paramete", "</parameter></function>"},
        {"llama-pythonic", "", "[a(b=[", ""},
        {"harmony", "", "<|channel|>", ""},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LONG); i++) {
        double seconds[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            const size_t n = (k == 0 ? 250000 : 1000000) / strlen(LONG[i].unit);
            kit_got got;
            tdm_error err = {0};
            kit_init(&got);
            const tdm_status status = parse_long(LONG[i].dialect, LONG[i].head, LONG[i].unit, n,
                                                 LONG[i].tail, &got, &err, &seconds[k]);
            assert_true(status == TDM_OK || status == TDM_E_LIMIT);
            kit_deinit(&got);
        }
        print_message("%-14s %-40.40s %.1f ms, %.1f ms\n", LONG[i].dialect,
                      LONG[i].head[0] != '\0' ? LONG[i].head : LONG[i].unit, seconds[0] * 1e3,
                      seconds[1] * 1e3);
        assert_true(seconds[1] < 0.1 || seconds[1] < 8 * seconds[0]);
    }
}

static void a_reader_can_stop(void **state) {
    const tdm_dialect *dialect = tdm_dialect_find("hermes");
    static const char TEXT[] =
        "<think>a</think>b<tool_call>{\"name\": \"f\", \"arguments\": {\"n\": 1}}</tool_call>c";
    (void)state;
    for (size_t stop = 1; stop < 6; stop++) {
        kit_answer answer;
        kit_got got;
        tdm_error err = {0};
        kit_init(&got);
        got.stop_after = stop;
        kit_answer_init(&answer, dialect, TEXT, sizeof TEXT - 1, true);
        assert_int_equal(kit_parse(NULL, dialect, NULL, &answer, NULL, 0, &got, &err),
                         TDM_E_CANCELLED);
        assert_int_equal(got.n_events, stop + 1); /* none after the refusal */
        kit_answer_deinit(&answer);
        kit_deinit(&got);
    }
}

static void memory_may_fail_anywhere(void **state) {
    tdm_json_doc *tools = tools_doc();
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        char text[2048];
        uint8_t special[2048];
        const tdm_dialect *dialect = tdm_dialect_find(CASES[i].dialect);
        const kit_answer answer = {text, unmark(CASES[i].text, text, special), special};
        const tdm_answer_options options = {.tools = tdm_json_doc_root(tools),
                                            .streams_arguments = i % 2 == 0};
        tdm_status status = TDM_E_NOMEM;
        for (size_t n = 1; status != TDM_OK; n++) {
            tdm_alloc_tracker tracker;
            kit_got got;
            tdm_error err = {0};
            const size_t cuts[2] = {answer.len / 3, answer.len / 2};
            tdm_alloc_tracker_init(&tracker, NULL);
            tracker.fail_at = n;
            kit_init(&got);
            status = kit_parse(&tracker.alloc, dialect, &options, &answer, cuts, 2, &got, &err);
            assert_true(status == TDM_OK || status == TDM_E_NOMEM);
            assert_int_equal(tracker.n_live, 0);
            assert_int_equal(tracker.live_bytes, 0);
            assert_true(n < 500);
            kit_deinit(&got);
        }
    }
    tdm_json_doc_destroy(tools);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_told_apart),
        cmocka_unit_test(every_dialect_has_a_case),
        cmocka_unit_test(long_names_fail_alike),
        cmocka_unit_test(arguments_stream_and_drop),
        cmocka_unit_test(tagged_text_streams),
        cmocka_unit_test(text_is_not_held_back),
        cmocka_unit_test(a_parser_ends_once),
        cmocka_unit_test(the_vocabulary_says_what_is_special),
        cmocka_unit_test(reasoning_can_stay_text),
        cmocka_unit_test(prompts_tell_whether_a_thought_is_open),
        cmocka_unit_test(limits_are_answers),
        cmocka_unit_test(a_megabyte_is_linear),
        cmocka_unit_test(a_reader_can_stop),
        cmocka_unit_test(memory_may_fail_anywhere),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
