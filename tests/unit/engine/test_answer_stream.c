/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers as parts: scripts, cut into tokens in many ways, give the parts that stand beside them.
 * The tokenizer is made for each cutting: its vocabulary is the pieces, so that a token may begin
 * and end anywhere, also inside a character or in the middle of markup. */
#include "base/random.h"
#include "engine/answer_stream.h"
#include "engine/stops.h"
#include "support/support.h"
#include "text/detok.h"

#define PIECES_MAX 512
#define SPECIALS_MAX 8
#define CUTTINGS 60

typedef struct script {
    const char *dialect;
    const char *specials[SPECIALS_MAX]; /* tokens that are special; spelled so in text */
    const char *text;
    const char *parts; /* "R(...)", "T(...)", "B0(name#id)", "A0(...)", "E0(#id)", "D0()" */
    const char *stops[4];
    const char *tools;
    bool opens_in_reasoning, keeps_special, streams_calls, is_stopped;
    bool spells_specials; /* what is spelled like a special token is text */
} script;

#define THINKS "<think>", "</think>"
#define CALLS "<tool_call>", "</tool_call>"
#define CALL "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"
#define CALL_PARTS(i) "B" i "(add#)A" i "({\"a\": 1})E" i "(#)"

static const script SCRIPTS[] = {
    {.dialect = "plain",
     .text = "Héllo wörld \xF0\x9F\x98\x80!\n\n",
     .parts = "T(Héllo wörld "
              "\xF0\x9F\x98\x80!\n\n)"},
    {.dialect = "hermes",
     .text = "2 < 3 and <tool> is no call",
     .parts = "T(2 < 3 and <tool> is "
              "no call)"},
    /* thoughts, by special tokens and by text */
    {.dialect = "hermes",
     .specials = {THINKS},
     .text = "<think>\nIt is 4.\n</think>\n\nFour.",
     .parts = "R(It is 4.)T(Four.)"},
    {.dialect = "hermes",
     .text = "<think>\nIt is 4.\n</think>\n\nFour.",
     .parts = "R(It is 4.)T(Four.)"},
    {.dialect = "hermes",
     .specials = {THINKS},
     .text = "still thinking</think>done",
     .parts = "R(still thinking)T(done)",
     .opens_in_reasoning = true},
    {.dialect = "hermes",
     .text = "never closed",
     .parts = "R(never closed)",
     .opens_in_reasoning = true},
    /* BL05: a closing tag that the thought only mentions */
    {.dialect = "hermes",
     .text = "<think>I close with `</think>`, later.</think>Answer",
     .parts = "R(I close with `</think>`, later.)T(Answer)"},
    {.dialect = "hermes",
     .text = "<think>I close with \"</think>\", later.</think>Answer",
     .parts = "R(I close with \"</think>\", later.)T(Answer)"},
    {.dialect = "hermes",
     .text = "<think>see\n```\n</think>\n```\nso</think>Answer",
     .parts = "R(see\n```\n</think>\n```\nso)T(Answer)"},
    {.dialect = "hermes",
     .specials = {THINKS},
     .text = "<think>I close with `</think>Answer",
     .parts = "R(I close with `)T(Answer)"},
    /* calls */
    {.dialect = "hermes",
     .specials = {CALLS},
     .text = "Let me see.\n" CALL "\n" CALL,
     .parts = "T(Let me see.)" CALL_PARTS("0") CALL_PARTS("1")},
    {.dialect = "hermes", .text = CALL "\nand so on", .parts = CALL_PARTS("0") "T(and so on)"},
    {.dialect = "hermes",
     .specials = {THINKS, CALLS},
     .text = "<think>add</think>\n" CALL,
     .parts = "R(add)" CALL_PARTS("0")},
    {.dialect = "hermes",
     .text = "<tool_call>\n{\"name\": \"add\", \"arguments\": [1]}\n</tool_call>",
     .parts = "T(<tool_call>\n{\"name\": \"add\", \"arguments\": [1]}\n</tool_call>)"},
    {.dialect = "hermes",
     .text = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1",
     .parts = "T(<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1)"},
    {.dialect = "hermes",
     .text = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": x}}</tool_call> hm",
     .parts = "B0(add#)A0({\"a\": )D0()T(<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": "
              "x}}</tool_call> hm)",
     .streams_calls = true},
    {.dialect = "hermes", .text = CALL, .parts = CALL_PARTS("0"), .streams_calls = true},
    /* the vocabulary has the marks as special tokens: the same letters as text are no markup */
    {.dialect = "hermes",
     .specials = {THINKS, CALLS},
     .text = "<think>x</think>" CALL,
     .parts = "T(<think>x</think>" CALL ")",
     .spells_specials = true},
    /* arguments by the schema of the tools */
    {.dialect = "qwen3-coder",
     .text = "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n1\n"
             "</parameter>\n</function>\n</tool_call>",
     .tools = "[{\"type\":\"function\",\"function\":{\"name\":\"add\",\"parameters\":{\"type\":"
              "\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":"
              "\"string\"}}}}}]",
     .parts = "B0(add#)A0({\"a\": 1, \"b\": \"1\"})E0(#)"},
    {.dialect = "harmony",
     .specials = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>",
                  "<|constrain|>"},
     .text = "<|channel|>analysis<|message|>Sum.<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.add <|constrain|>json<|message|>{\"a\":1}<|call|>",
     .parts = "R(Sum.)B0(add#)A0({\"a\":1})E0(#)"},
    {.dialect = "harmony",
     .specials = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|constrain|>"},
     .text = "<|channel|>commentary to=functions.add<|constrain|>json<|message|>{\"a\":1}",
     .parts = "B0(add#)A0({\"a\":1})E0(#)"},
    /* special tokens that are no markup */
    {.dialect = "hermes", .specials = {"<|other|>"}, .text = "a<|other|>b", .parts = "T(ab)"},
    {.dialect = "hermes",
     .specials = {"<|other|>"},
     .text = "a<|other|>b",
     .parts = "T(a<|other|>b)",
     .keeps_special = true},
    /* stop texts: in text only, and not across what stands between two runs of it */
    {.dialect = "hermes",
     .specials = {THINKS},
     .text = "<think>STOP or STOP</think>Go on. STOP here <think>x</think>",
     .parts = "R(STOP or STOP)T(Go on. )",
     .stops = {"STOP"},
     .is_stopped = true},
    {.dialect = "hermes",
     .text = "one\ntwo\nthree",
     .parts = "T(one)",
     .stops = {"\n", "three"},
     .is_stopped = true},
    {.dialect = "hermes",
     .text = "ST" CALL "OP",
     .parts = "T(ST)" CALL_PARTS("0") "T(OP)",
     .stops = {"STOP"}},
    {.dialect = "hermes",
     .text = "<tool_call>STOP",
     .parts = "T(<tool_call>)",
     .stops = {"STOP"},
     .is_stopped = true},
    {.dialect = "plain", .text = "ends with ST", .parts = "T(ends with ST)", .stops = {"STOP"}},
};

/* ---- a tokenizer whose tokens are the pieces ---- */

typedef struct rig {
    tdm_tokenizer *tokenizer;
    tdm_json_doc *tools;
    int32_t ids[PIECES_MAX];
    size_t n;
} rig;

/* A byte in the letters of byte-level vocabularies. */
static void put_letter(tdm_buf *out, unsigned byte) {
    unsigned cp = byte;
    if (byte < 33) {
        cp = 256 + byte;
    } else if (byte >= 127 && byte < 161) {
        cp = 256 + 33 + byte - 127;
    } else if (byte == 173) {
        cp = 256 + 33 + 34;
    }
    const char two[2] = {(char)(0xC0 | (cp >> 6)), (char)(0x80 | (cp & 0x3F))};
    assert_int_equal(cp < 0x80 ? tdm_buf_append_byte(out, (char)cp) : tdm_buf_append(out, two, 2),
                     TDM_OK);
}

static size_t special_at(const script *s, const char *text, size_t *out_idx) {
    for (size_t i = 0; !s->spells_specials && i < SPECIALS_MAX && s->specials[i] != NULL; i++) {
        if (strncmp(text, s->specials[i], strlen(s->specials[i])) == 0) {
            *out_idx = i;
            return strlen(s->specials[i]);
        }
    }
    return 0;
}

static void write_added(const script *s, tdm_json_writer *w) {
    tdm_json_write_key(w, "added_tokens");
    tdm_json_write_begin_array(w);
    for (size_t i = 0; i < SPECIALS_MAX && s->specials[i] != NULL; i++) {
        tdm_json_write_begin_object(w);
        tdm_json_write_key(w, "id");
        tdm_json_write_i64(w, (int64_t)i);
        tdm_json_write_key(w, "content");
        tdm_json_write_cstr(w, s->specials[i]);
        tdm_json_write_key(w, "special");
        tdm_json_write_bool(w, true);
        tdm_json_write_end_object(w);
    }
    tdm_json_write_end_array(w);
}

static void write_level(tdm_json_writer *w, const char *key) {
    tdm_json_write_key(w, key);
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "type");
    tdm_json_write_cstr(w, "ByteLevel");
    tdm_json_write_key(w, "add_prefix_space");
    tdm_json_write_bool(w, false);
    tdm_json_write_key(w, "use_regex");
    tdm_json_write_bool(w, true);
    tdm_json_write_end_object(w);
}

/* The pieces of the script as members of a vocabulary; a piece that came before keeps its id. */
static void write_vocabulary(rig *r, const script *s, uint64_t seed, tdm_json_writer *w) {
    const size_t len = strlen(s->text);
    size_t begins[PIECES_MAX];
    size_t lens[PIECES_MAX];
    uint32_t draw = 0;
    for (size_t at = 0; at < len;) {
        size_t special = 0;
        size_t n = special_at(s, s->text + at, &special);
        assert_true(r->n < PIECES_MAX);
        if (n > 0) {
            r->ids[r->n++] = (int32_t)special;
            at += n;
            continue;
        }
        /* a piece that is spelled like a special token would be that token */
        const size_t longest = s->spells_specials ? 5 : 9;
        const size_t most =
            seed == 0 ? 1 : 1 + (size_t)(tdm_random_u64(seed, 3, 0, draw++) % longest);
        while (n < most && at + n < len && special_at(s, s->text + at + n, &special) == 0) {
            n++;
        }
        begins[r->n] = at;
        lens[r->n] = n;
        r->ids[r->n] = (int32_t)(SPECIALS_MAX + r->n);
        for (size_t i = 0; i < r->n; i++) {
            if (r->ids[i] >= SPECIALS_MAX && lens[i] == n &&
                memcmp(s->text + begins[i], s->text + at, n) == 0) {
                r->ids[r->n] = r->ids[i];
            }
        }
        if (r->ids[r->n] == (int32_t)(SPECIALS_MAX + r->n)) {
            tdm_buf letters;
            tdm_buf_init(&letters, NULL, 0);
            for (size_t i = 0; i < n; i++) {
                put_letter(&letters, (unsigned char)s->text[at + i]);
            }
            tdm_json_write_key(w, tdm_buf_text(&letters));
            tdm_json_write_i64(w, r->ids[r->n]);
            tdm_buf_deinit(&letters);
        }
        r->n++;
        at += n;
    }
}

static void rig_open(rig *r, const script *s, uint64_t seed) {
    tdm_buf buf;
    tdm_json_writer w;
    tdm_error err;
    memset(r, 0, sizeof *r);
    tdm_buf_init(&buf, NULL, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    write_added(s, &w);
    write_level(&w, "pre_tokenizer");
    write_level(&w, "decoder");
    tdm_json_write_key(&w, "model");
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "type");
    tdm_json_write_cstr(&w, "BPE");
    tdm_json_write_key(&w, "vocab");
    tdm_json_write_begin_object(&w);
    write_vocabulary(r, s, seed, &w);
    tdm_json_write_end_object(&w);
    tdm_json_write_key(&w, "merges");
    tdm_json_write_begin_array(&w);
    tdm_json_write_end_array(&w);
    tdm_json_write_end_object(&w);
    tdm_json_write_end_object(&w);
    assert_int_equal(tdm_json_writer_status(&w), TDM_OK);
    if (tdm_tokenizer_from_json(&r->tokenizer, NULL, buf.data, buf.len, NULL, "pieces", &err) !=
        TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    tdm_buf_deinit(&buf);
    if (s->tools != NULL) {
        assert_int_equal(
            tdm_json_parse(&r->tools, NULL, s->tools, strlen(s->tools), NULL, "tools", &err),
            TDM_OK);
    }
}

static void rig_close(rig *r) {
    tdm_tokenizer_destroy(r->tokenizer);
    tdm_json_doc_destroy(r->tools);
}

/* ---- parts as a text ---- */

typedef struct said {
    tdm_buf buf;
    tdm_part_kind kind;
    int32_t call_idx;
    bool is_open; /* the last part may go on */
} said;

static void say(said *out, const tdm_answer_part *part) {
    static const char LETTERS[] = {'T', 'R', 'B', 'A', 'E', 'D'};
    const bool goes_on = out->is_open && out->kind == part->kind && out->call_idx == part->call_idx;
    char head[24];
    if (!goes_on) {
        const int n = part->call_idx >= 0 ? snprintf(head, sizeof head, "%c%d(",
                                                     LETTERS[part->kind], (int)part->call_idx)
                                          : snprintf(head, sizeof head, "%c(", LETTERS[part->kind]);
        if (out->is_open) {
            assert_int_equal(tdm_buf_append_byte(&out->buf, ')'), TDM_OK);
        }
        assert_int_equal(tdm_buf_append(&out->buf, head, (size_t)n), TDM_OK);
    }
    assert_int_equal(tdm_buf_append(&out->buf, part->text, part->len), TDM_OK);
    if (part->kind == TDM_PART_CALL_BEGIN || part->kind == TDM_PART_CALL_END) {
        assert_int_equal(tdm_buf_append_byte(&out->buf, '#'), TDM_OK);
        assert_int_equal(tdm_buf_append(&out->buf, part->id, part->id_len), TDM_OK);
    }
    out->is_open = true;
    out->kind = part->kind;
    out->call_idx = part->call_idx;
}

static void take_parts(tdm_answer_stream *stream, said *out) {
    size_t n = 0;
    const tdm_answer_part *parts = tdm_answer_stream_parts(stream, &n);
    for (size_t i = 0; i < n; i++) {
        say(out, &parts[i]);
    }
    tdm_answer_stream_clear(stream);
}

static tdm_answer_stream_options options_of(const script *s, const rig *r) {
    size_t n_stops = 0;
    while (n_stops < SUPPORT_LEN(s->stops) && s->stops[n_stops] != NULL) {
        n_stops++;
    }
    assert_non_null(tdm_dialect_find(s->dialect));
    return (tdm_answer_stream_options){
        .dialect = tdm_dialect_find(s->dialect),
        .tools = r->tools != NULL ? tdm_json_doc_root(r->tools) : NULL,
        .opens_in_reasoning = s->opens_in_reasoning,
        .skips_special = !s->keeps_special,
        .streams_calls = s->streams_calls,
        .stops = s->stops,
        .n_stops = n_stops,
    };
}

/* every: after how many ids the parts are taken. */
static void check(const script *s, uint64_t seed, size_t every) {
    rig r;
    said out = {.is_open = false};
    tdm_answer_stream *stream = NULL;
    rig_open(&r, s, seed);
    tdm_buf_init(&out.buf, NULL, 0);
    const tdm_answer_stream_options options = options_of(s, &r);
    assert_int_equal(tdm_answer_stream_create(&stream, NULL, r.tokenizer, &options, NULL), TDM_OK);
    for (size_t i = 0; i < r.n; i++) {
        assert_int_equal(tdm_answer_stream_push(stream, r.ids[i], NULL), TDM_OK);
        if ((i + 1) % every == 0) {
            take_parts(stream, &out);
        }
    }
    assert_int_equal(tdm_answer_stream_push(stream, 100000, NULL), TDM_OK); /* a padding row */
    assert_int_equal(tdm_answer_stream_finish(stream, NULL), TDM_OK);
    take_parts(stream, &out);
    if (out.is_open) {
        assert_int_equal(tdm_buf_append_byte(&out.buf, ')'), TDM_OK);
    }
    if (strcmp(tdm_buf_text(&out.buf), s->parts) != 0) {
        fail_msg("seed %u of \"%s\"\ngave   %s\nwanted %s", (unsigned)seed, s->text,
                 tdm_buf_text(&out.buf), s->parts);
    }
    assert_int_equal(tdm_answer_stream_is_stopped(stream), s->is_stopped);
    tdm_answer_stream_destroy(stream);
    tdm_buf_deinit(&out.buf);
    rig_close(&r);
}

static void test_any_cutting_gives_the_parts(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SCRIPTS); i++) {
        for (uint64_t seed = 0; seed < CUTTINGS; seed++) {
            check(&SCRIPTS[i], seed, 1 + seed % 4);
        }
        check(&SCRIPTS[i], 1, PIECES_MAX);
    }
}

/* Law S3: without markup the one run of text is what detokenizer and stop texts give. */
static void test_plain_text_equals_the_plain_path(void **state) {
    static const char *const TEXTS[] = {" ",           "\n\nx",  "a \xE2\x82\xAC b",
                                        "\xE2\x82",    "x\xFFy", "no <markup> here </at> all",
                                        "one STOP two"};
    static const char *const STOPS[] = {"STOP", "\n\n\n"};
    (void)state;
    for (size_t t = 0; t < SUPPORT_LEN(TEXTS); t++) {
        for (uint64_t seed = 0; seed < CUTTINGS; seed++) {
            const script s = {.dialect = "hermes", .text = TEXTS[t], .stops = {STOPS[0], STOPS[1]}};
            rig r;
            tdm_answer_stream *stream = NULL;
            tdm_detok *detok = NULL;
            tdm_stops stops;
            tdm_buf decoded;
            tdm_buf plain;
            bool is_stopped = false;
            rig_open(&r, &s, seed);
            tdm_buf_init(&decoded, NULL, 0);
            tdm_buf_init(&plain, NULL, 0);
            assert_int_equal(tdm_detok_create(&detok, NULL, r.tokenizer, true, NULL), TDM_OK);
            assert_int_equal(tdm_stops_init(&stops, NULL, STOPS, 2, NULL), TDM_OK);
            assert_int_equal(tdm_detok_push(detok, r.ids, r.n, &decoded, NULL), TDM_OK);
            assert_int_equal(tdm_detok_finish(detok, &decoded, NULL), TDM_OK);
            assert_int_equal(tdm_stops_push(&stops, decoded.data, decoded.len, &plain, &is_stopped),
                             TDM_OK);
            if (!is_stopped) {
                assert_int_equal(tdm_stops_finish(&stops, &plain, &is_stopped), TDM_OK);
            }
            const tdm_answer_stream_options options = options_of(&s, &r);
            assert_int_equal(tdm_answer_stream_create(&stream, NULL, r.tokenizer, &options, NULL),
                             TDM_OK);
            for (size_t i = 0; i < r.n; i++) {
                assert_int_equal(tdm_answer_stream_push(stream, r.ids[i], NULL), TDM_OK);
            }
            assert_int_equal(tdm_answer_stream_finish(stream, NULL), TDM_OK);
            size_t n = 0;
            const tdm_answer_part *parts = tdm_answer_stream_parts(stream, &n);
            assert_int_equal(n, plain.len > 0 ? 1 : 0);
            if (n > 0) {
                assert_int_equal(parts[0].kind, TDM_PART_TEXT);
                assert_int_equal(parts[0].len, plain.len);
                assert_memory_equal(parts[0].text, plain.data, plain.len);
            }
            assert_int_equal(tdm_answer_stream_is_stopped(stream), is_stopped);
            tdm_answer_stream_destroy(stream);
            tdm_stops_deinit(&stops);
            tdm_detok_destroy(detok);
            tdm_buf_deinit(&decoded);
            tdm_buf_deinit(&plain);
            rig_close(&r);
        }
    }
}

/* Whatever allocation fails, it is told as such and nothing leaks. */
static void test_out_of_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SCRIPTS); i += 3) {
        rig r;
        bool is_done = false;
        rig_open(&r, &SCRIPTS[i], 7);
        const tdm_answer_stream_options options = options_of(&SCRIPTS[i], &r);
        for (size_t fail_at = 1; !is_done; fail_at++) {
            tdm_alloc_tracker tracker;
            tdm_answer_stream *stream = NULL;
            tdm_error err = {.code = TDM_OK};
            tdm_status status = TDM_OK;
            tdm_alloc_tracker_init(&tracker, NULL);
            tracker.fail_at = fail_at;
            status = tdm_answer_stream_create(&stream, &tracker.alloc, r.tokenizer, &options, &err);
            for (size_t k = 0; status == TDM_OK && k < r.n; k++) {
                status = tdm_answer_stream_push(stream, r.ids[k], &err);
            }
            if (status == TDM_OK) {
                status = tdm_answer_stream_finish(stream, &err);
            }
            is_done = status == TDM_OK;
            if (!is_done) {
                assert_int_equal(status, TDM_E_NOMEM);
                assert_int_equal(err.code, TDM_E_NOMEM);
            }
            tdm_answer_stream_destroy(stream);
            assert_int_equal(tracker.live_bytes, 0);
        }
        rig_close(&r);
    }
}

static void test_refusals(void **state) {
    script s = {.dialect = "plain", .text = "x", .stops = {""}};
    rig r;
    tdm_answer_stream *stream = NULL;
    tdm_error err;
    (void)state;
    rig_open(&r, &s, 0);
    tdm_answer_stream_options options = options_of(&s, &r);
    assert_int_equal(tdm_answer_stream_create(&stream, NULL, r.tokenizer, &options, &err),
                     TDM_E_ARG);
    assert_null(stream);
    assert_string_equal(err.where, "stop[0]");
    options.n_stops = 0;
    assert_int_equal(tdm_answer_stream_create(&stream, NULL, r.tokenizer, &options, &err), TDM_OK);
    assert_int_equal(tdm_answer_stream_finish(stream, &err), TDM_OK);
    assert_int_equal(tdm_answer_stream_push(stream, r.ids[0], &err), TDM_E_ARG);
    tdm_answer_stream_destroy(stream);
    tdm_answer_stream_destroy(NULL);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cutting_gives_the_parts),
        cmocka_unit_test(test_plain_text_equals_the_plain_path),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_refusals),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
