/* SPDX-License-Identifier: Apache-2.0
 *
 * Generations over the tiny golden models: greedy ids equal the reference framework's; ends,
 * limits, cancelling and continuing behave as tandem.h says; the token path allocates nothing. Split
 * answers: a row of the vocabulary stands for a whole call, and a bias makes the model say it. */
#include "backend/cpu/cpu.h"
#include "base/json.h"
#include "engine/engine.h"
#include "formats/safetensors.h"
#include "support/goldens.h"
#include "support/support.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct rig {
    tdm_alloc_tracker tracker;
    tdm_model *model;
    tdm_blob blob;
    tdm_safetensors *golden;
    const int32_t *input_ids, *gen_ids;
    size_t n_input, n_gen;
} rig;

static const tdm_tensor_view *view_of(const rig *r, const char *name) {
    size_t idx = 0;
    assert_true(tdm_safetensors_find(r->golden, name, &idx));
    return tdm_safetensors_tensor_view(r->golden, idx);
}

static const int32_t *ids_of(const rig *r, const char *name, size_t *out_n) {
    const tdm_tensor_view *view = view_of(r, name);
    assert_int_equal(view->dtype, TDM_DTYPE_I32);
    *out_n = (size_t)view->dims[0];
    return view->data;
}

static void open_model(rig *r, const char *path, const tdm_model_options *options, tdm_tier tier) {
    const tdm_cpu_options cpu = {.tier = tier, .n_threads = 1};
    tdm_backend *backend = NULL;
    tdm_error err;
    assert_int_equal(tdm_cpu_backend_create(&backend, &r->tracker.alloc, &cpu, &err), TDM_OK);
    if (tdm_model_open_with(&r->model, &r->tracker.alloc, path, options, backend, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", path, err.what, err.where);
    }
}

static void rig_open(rig *r, const char *name, const tdm_model_options *options, tdm_tier tier) {
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    char rel[128];
    tdm_error err;
    memset(r, 0, sizeof *r);
    tdm_alloc_tracker_init(&r->tracker, NULL);
    (void)snprintf(rel, sizeof rel, "goldens/%s", name);
    open_model(r, support_data_path(folder, rel), options, tier);
    (void)support_join(path, folder, "golden.safetensors");
    assert_int_equal(tdm_blob_open(&r->blob, NULL, path, &err), TDM_OK);
    if (tdm_safetensors_parse(&r->golden, &r->tracker.alloc, r->blob.data, r->blob.bytes, path,
                              &err) != TDM_OK) {
        fail_msg("%s: %s", path, err.what);
    }
    r->input_ids = ids_of(r, "input_ids", &r->n_input);
    r->gen_ids = ids_of(r, "gen_ids", &r->n_gen);
}

static void rig_close(rig *r) {
    tdm_safetensors_destroy(r->golden);
    tdm_blob_close(&r->blob);
    tdm_model_close(r->model);
    assert_int_equal(r->tracker.live_bytes, 0);
}

static tdm_generation *start(rig *r, const int32_t *ids, size_t n,
                             const tdm_generation_options *options) {
    tdm_prompt *prompt = NULL;
    tdm_generation *g = NULL;
    tdm_error err;
    assert_int_equal(tdm_prompt_from_ids(&prompt, r->model, ids, n, &err), TDM_OK);
    if (tdm_generation_create(&g, r->model, prompt, options, &err) != TDM_OK) {
        fail_msg("%s", err.what);
    }
    tdm_prompt_destroy(prompt);
    return g;
}

static tdm_generation_options greedy(const rig *r, int32_t max_tokens) {
    tdm_generation_options options;
    tdm_generation_options_init(&options, r->model);
    options.temperature = 0.0F;
    options.max_tokens = max_tokens;
    options.ignores_eos = true;
    return options;
}

static void test_greedy_equals_the_reference(void **state) {
    (void)state;
    for (size_t c = 0; c < SUPPORT_LEN(SUPPORT_GOLDENS); c++) {
        rig r;
        tdm_event event = {.finish = TDM_FINISH_NONE};
        rig_open(&r, SUPPORT_GOLDENS[c].name, NULL, TDM_TIER_EXACT);
        const tdm_generation_options options = greedy(&r, (int32_t)r.n_gen);
        tdm_generation *g = start(&r, r.input_ids, r.n_input, &options);
        for (size_t i = 0; i < r.n_gen; i++) {
            assert_int_equal(event.finish, TDM_FINISH_NONE);
            assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
            assert_int_equal(event.id, r.gen_ids[i]);
        }
        assert_int_equal(event.finish, TDM_FINISH_LENGTH);
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_E_STATE);
        tdm_generation_destroy(g);
        rig_close(&r);
    }
}

static void test_token_path_allocates_nothing(void **state) {
    rig r;
    tdm_event event;
    (void)state;
    rig_open(&r, "llama", NULL, TDM_TIER_FAST);
    tdm_generation_options options = greedy(&r, 300);
    options.temperature = 0.8F;
    options.top_k = 40;
    options.top_p = 0.9F;
    options.repetition_penalty = 1.1F;
    options.has_seed = true;
    tdm_generation *g = start(&r, r.input_ids, r.n_input, &options);
    assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
    size_t before = r.tracker.n_calls;
    while (event.finish == TDM_FINISH_NONE) {
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
    }
    assert_int_equal(r.tracker.n_calls, before);
    tdm_generation_destroy(g);
    rig_close(&r);
}

static void test_chunks_of_the_prompt_do_not_matter(void **state) {
    static const int32_t BATCHES[] = {1, 3, 16, 512};
    int32_t first[24];
    (void)state;
    for (size_t b = 0; b < SUPPORT_LEN(BATCHES); b++) {
        rig r;
        tdm_event event;
        const tdm_model_options model_options = {.n_batch = BATCHES[b]};
        rig_open(&r, "mistral-sliding", &model_options, TDM_TIER_FAST);
        tdm_generation_options options = greedy(&r, (int32_t)SUPPORT_LEN(first));
        options.temperature = 1.0F;
        options.has_seed = true;
        options.seed = 7;
        tdm_generation *g = start(&r, r.input_ids, r.n_input, &options);
        for (size_t i = 0; i < SUPPORT_LEN(first); i++) {
            assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
            if (b == 0) {
                first[i] = event.id;
            }
            assert_int_equal(event.id, first[i]);
        }
        tdm_generation_destroy(g);
        rig_close(&r);
    }
}

/* Continuing with the whole conversation gives what a fresh generation of it gives, also where the
 * continuation leaves the old answer early and the caches must go back. */
static void check_continue(const char *name, size_t kept) {
    rig r;
    tdm_event event;
    int32_t turn[96];
    size_t n = 0;
    tdm_prompt *prompt = NULL;
    rig_open(&r, name, NULL, TDM_TIER_EXACT);
    tdm_generation_options options = greedy(&r, 12);
    options.repetition_penalty =
        1.3F; /* so that a history that kept the abandoned answer would show */
    options.presence_penalty = 0.5F;
    tdm_generation *g = start(&r, r.input_ids, r.n_input, &options);
    memcpy(turn, r.input_ids, r.n_input * sizeof *turn);
    n = r.n_input;
    do {
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
        if (n < r.n_input + kept) {
            turn[n++] = event.id;
        }
    } while (event.finish == TDM_FINISH_NONE);
    turn[n++] = 5;
    turn[n++] = 6;
    assert_int_equal(tdm_prompt_from_ids(&prompt, r.model, turn, n, NULL), TDM_OK);
    assert_int_equal(tdm_generation_continue(g, prompt, NULL), TDM_OK);
    tdm_generation *fresh = start(&r, turn, n, &options);
    for (int i = 0; i < 12; i++) {
        tdm_event expected;
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
        assert_int_equal(tdm_generation_next(fresh, &expected, NULL), TDM_OK);
        assert_int_equal(event.id, expected.id);
    }
    tdm_prompt_destroy(prompt);
    tdm_generation_destroy(fresh);
    tdm_generation_destroy(g);
    rig_close(&r);
}

static void test_continue_equals_fresh(void **state) {
    (void)state;
    check_continue("llama", 12);
    check_continue("llama", 3);
    check_continue("mistral-sliding", 12);
    check_continue("mistral-sliding", 0);
}

static void test_cancel(void **state) {
    rig r;
    tdm_event event;
    (void)state;
    rig_open(&r, "llama", NULL, TDM_TIER_FAST);
    const tdm_generation_options options = greedy(&r, 50);
    tdm_generation *g = start(&r, r.input_ids, r.n_input, &options);
    assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
    tdm_generation_cancel(g);
    assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
    assert_int_equal(event.finish, TDM_FINISH_CANCELLED);
    assert_int_equal(event.id, -1);
    assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_E_STATE);
    tdm_generation_destroy(g);
    rig_close(&r);
}

static void expect_create(rig *r, const tdm_generation_options *options, const int32_t *ids,
                          size_t n, tdm_status expected, const char *where) {
    tdm_prompt *prompt = NULL;
    tdm_generation *g = NULL;
    tdm_error err;
    assert_int_equal(tdm_prompt_from_ids(&prompt, r->model, ids, n, NULL), TDM_OK);
    assert_int_equal(tdm_generation_create(&g, r->model, prompt, options, &err), expected);
    assert_null(g);
    if (where != NULL) {
        assert_string_equal(err.where, where);
    }
    tdm_prompt_destroy(prompt);
}

static void test_refusals(void **state) {
    rig r;
    tdm_prompt *prompt = NULL;
    tdm_error err;
    int32_t long_prompt[600] = {0};
    const int32_t outside[1] = {320};
    (void)state;
    rig_open(&r, "llama", NULL, TDM_TIER_FAST);
    tdm_generation_options options = greedy(&r, 0);
    expect_create(&r, &options, r.input_ids, r.n_input, TDM_E_ARG, "max_tokens");
    options.max_tokens = 5;
    expect_create(&r, &options, long_prompt, SUPPORT_LEN(long_prompt), TDM_E_NO_FIT, NULL);
    options.temperature = 5.5F;
    expect_create(&r, &options, r.input_ids, r.n_input, TDM_E_ARG, NULL);
    options = greedy(&r, 5);
    options.stop[0] = "x"; /* needs a tokenizer, and this model has none */
    options.n_stop = 1;
    expect_create(&r, &options, r.input_ids, r.n_input, TDM_E_STATE, NULL);
    assert_int_equal(tdm_prompt_from_ids(&prompt, r.model, NULL, 0, &err), TDM_E_ARG);
    assert_int_equal(tdm_prompt_from_ids(&prompt, r.model, outside, 1, &err), TDM_E_ARG);
    assert_string_equal(err.limit, "0 to 319");
    assert_int_equal(tdm_prompt_from_text(&prompt, r.model, "x", 1, 0, &err), TDM_E_STATE);
    rig_close(&r);
}

static void test_score_equals_the_golden(void **state) {
    rig r;
    float logprobs[40];
    float in_chunks[40];
    (void)state;
    rig_open(&r, "qwen3", NULL, TDM_TIER_EXACT);
    const tdm_tensor_view *logits = view_of(&r, "logits");
    assert_int_equal(tdm_model_score(r.model, r.input_ids, r.n_input, 0, logprobs, 0, NULL, NULL),
                     TDM_OK);
    assert_int_equal(tdm_model_score(r.model, r.input_ids, r.n_input, 7, in_chunks, 0, NULL, NULL),
                     TDM_OK);
    for (size_t i = 1; i < r.n_input; i++) {
        const float *row = (const float *)logits->data + (i - 1) * 320;
        double sum = 0.0;
        for (int v = 0; v < 320; v++) {
            sum += exp((double)row[v]);
        }
        /* 1e-4: the golden's own bound on logits, spec of `golden`. */
        assert_true(fabs((double)logprobs[i] - ((double)row[r.input_ids[i]] - log(sum))) < 1e-4);
        assert_memory_equal(&logprobs[i], &in_chunks[i], sizeof(float));
    }
    rig_close(&r);
}

/* ---- with a tokenizer ---- */

#define ROW 300

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

static void put_piece(tdm_buf *json, const char *text, size_t len, int id) {
    tdm_buf letters;
    tdm_json_writer w;
    tdm_buf_init(&letters, NULL, 0);
    for (size_t i = 0; i < len; i++) {
        put_letter(&letters, (unsigned char)text[i]);
    }
    assert_int_equal(tdm_buf_append_text(json, id > 0 ? "," : ""), TDM_OK);
    tdm_json_writer_init(&w, json);
    tdm_json_write_text(&w, letters.data, letters.len);
    assert_int_equal(tdm_json_writer_status(&w), TDM_OK);
    assert_int_equal(tdm_buf_printf(json, ":%d", id), TDM_OK);
    tdm_buf_deinit(&letters);
}

/* Bytes, one special token, and the row's spelling. */
static void write_tokenizer(const char *folder, const char *row_text, const char *chat_template) {
    static const char LEVEL[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                                "\"use_regex\":true}";
    char path[SUPPORT_PATH_MAX];
    tdm_buf json;
    tdm_json_writer w;
    tdm_buf_init(&json, NULL, 0);
    assert_int_equal(tdm_buf_printf(&json,
                                    "{\"added_tokens\":[{\"id\":256,\"content\":\"<|end|>\","
                                    "\"special\":true}],\"pre_tokenizer\":%s,\"decoder\":%s,"
                                    "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{",
                                    LEVEL, LEVEL),
                     TDM_OK);
    for (int i = 0; i < 256; i++) {
        const char byte = (char)i;
        put_piece(&json, &byte, 1, i);
    }
    put_piece(&json, row_text, strlen(row_text), ROW);
    assert_int_equal(tdm_buf_append_text(&json, "}}}"), TDM_OK);
    support_write_file(support_join(path, folder, "tokenizer.json"), json.data, json.len);
    tdm_buf_reset(&json);
    tdm_json_writer_init(&w, &json);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "chat_template");
    tdm_json_write_cstr(&w, chat_template);
    tdm_json_write_end_object(&w);
    assert_int_equal(tdm_json_writer_status(&w), TDM_OK);
    support_write_file(support_join(path, folder, "tokenizer_config.json"), json.data, json.len);
    tdm_buf_deinit(&json);
}

/* The llama golden's weights with that tokenizer. */
static void talker_open(rig *r, char folder[SUPPORT_PATH_MAX], const char *row_text,
                        const char *chat_template) {
    static const char *const FILES[] = {"model.safetensors", "config.json"};
    char golden[SUPPORT_PATH_MAX];
    char from[SUPPORT_PATH_MAX];
    char to[SUPPORT_PATH_MAX];
    memset(r, 0, sizeof *r);
    tdm_alloc_tracker_init(&r->tracker, NULL);
    (void)support_temp_folder(folder);
    (void)support_data_path(golden, "goldens/llama");
    for (size_t i = 0; i < SUPPORT_LEN(FILES); i++) {
        assert_int_equal(
            symlink(support_join(from, golden, FILES[i]), support_join(to, folder, FILES[i])), 0);
    }
    write_tokenizer(folder, row_text, chat_template);
    open_model(r, folder, NULL, TDM_TIER_FAST);
}

static void talker_close(rig *r, const char *folder) {
    tdm_model_close(r->model);
    assert_int_equal(r->tracker.live_bytes, 0);
    support_remove_folder(folder);
}

static tdm_prompt *chat(rig *r, const char *request) {
    tdm_prompt *prompt = NULL;
    tdm_error err;
    if (tdm_prompt_from_chat_json(&prompt, r->model, request, strlen(request), &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    return prompt;
}

/* Runs to the end; every part as a letter and its text, and the text of the events. */
static void run(tdm_generation *g, tdm_buf *parts, tdm_buf *text) {
    static const char LETTERS[] = {'T', 'R', 'B', 'A', 'E', 'D'};
    tdm_event event;
    tdm_buf_reset(parts);
    tdm_buf_reset(text);
    do {
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
        for (size_t i = 0; i < event.n_parts; i++) {
            const tdm_answer_part *part = &event.parts[i];
            assert_int_equal(tdm_buf_append_byte(parts, LETTERS[part->kind]), TDM_OK);
            if (part->call_idx >= 0) {
                assert_int_equal(tdm_buf_printf(parts, "%d", (int)part->call_idx), TDM_OK);
            }
            assert_int_equal(tdm_buf_append(parts, part->text, part->len), TDM_OK);
            assert_int_equal(tdm_buf_append_byte(parts, ';'), TDM_OK);
        }
        assert_int_equal(tdm_buf_append(text, event.text, event.text_len), TDM_OK);
    } while (event.finish == TDM_FINISH_NONE);
}

static const char XML_TEMPLATE[] = "{{ messages[0].content }}<tool_call><function=<parameter=";
static const char XML_CALL[] = "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n"
                               "</function>\n</tool_call>";
#define SCHEMA(type)                                                                               \
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","    \
    "\"properties\":{\"a\":{\"type\":\"" type "\"}}}}}]"

/* The prompt remembers the tools and may go; the options' tools win; a next turn begins anew. */
static void test_split_answers(void **state) {
    static const char REQUEST[] =
        "{\"messages\":[{\"content\":\"x\"}],\"tools\":" SCHEMA("string") "}";
    const tdm_bias bias = {ROW, 1000.0F};
    char folder[SUPPORT_PATH_MAX];
    rig r;
    tdm_buf parts;
    tdm_buf text;
    tdm_model_facts facts;
    (void)state;
    talker_open(&r, folder, XML_CALL, XML_TEMPLATE);
    tdm_model_describe(r.model, &facts);
    assert_string_equal(facts.dialect, "qwen3-coder");
    tdm_buf_init(&parts, NULL, 0);
    tdm_buf_init(&text, NULL, 0);
    tdm_generation_options options = greedy(&r, 2);
    options.bias = &bias;
    options.n_bias = 1;
    options.splits_answer = true;
    for (int own = 0; own < 2; own++) {
        char own_tools[] = SCHEMA("integer");
        tdm_prompt *prompt = chat(&r, REQUEST);
        tdm_generation *g = NULL;
        options.tools_json = own == 1 ? own_tools : NULL;
        assert_int_equal(tdm_generation_create(&g, r.model, prompt, &options, NULL), TDM_OK);
        tdm_prompt_destroy(prompt);
        memset(own_tools, 0, sizeof own_tools);
        run(g, &parts, &text);
        assert_string_equal(tdm_buf_text(&parts),
                            own == 1 ? "B0f;A0{\"a\": 1};E0;B1f;A1{\"a\": 1};E1;"
                                     : "B0f;A0{\"a\": \"1\"};E0;B1f;A1{\"a\": \"1\"};E1;");
        assert_int_equal(text.len, 0);
        prompt = chat(&r, "{\"messages\":[{\"content\":\"x and more\"}]}");
        assert_int_equal(tdm_generation_continue(g, prompt, NULL), TDM_OK);
        tdm_prompt_destroy(prompt);
        run(g, &parts, &text);
        assert_string_equal(tdm_buf_text(&parts), "B0f;A0{\"a\": 1};E0;B1f;A1{\"a\": 1};E1;");
        tdm_generation_destroy(g);
    }
    tdm_buf_deinit(&parts);
    tdm_buf_deinit(&text);
    talker_close(&r, folder);
}

/* The bytes behind a stop text, half a character among them, are no part of the next answer. */
static void test_a_stop_leaves_nothing_to_the_next_turn(void **state) {
    const tdm_bias bias = {ROW, 1000.0F};
    (void)state;
    for (int split = 0; split < 2; split++) {
        char folder[SUPPORT_PATH_MAX];
        rig r;
        tdm_buf parts;
        tdm_buf text;
        tdm_generation *g = NULL;
        talker_open(&r, folder, "ab.\xE2\x82", "{{ messages[0].content }}<tool_call>");
        tdm_buf_init(&parts, NULL, 0);
        tdm_buf_init(&text, NULL, 0);
        tdm_generation_options options = greedy(&r, 5);
        options.bias = &bias;
        options.n_bias = 1;
        options.splits_answer = split == 1;
        options.stop[0] = "b.";
        options.n_stop = 1;
        for (int turn = 0; turn < 3; turn++) {
            char request[64];
            (void)snprintf(request, sizeof request, "{\"messages\":[{\"content\":\"%d\"}]}", turn);
            tdm_prompt *prompt = chat(&r, request);
            assert_int_equal(turn == 0 ? tdm_generation_create(&g, r.model, prompt, &options, NULL)
                                       : tdm_generation_continue(g, prompt, NULL),
                             TDM_OK);
            tdm_prompt_destroy(prompt);
            run(g, &parts, &text);
            assert_string_equal(tdm_buf_text(&text), "a");
            assert_string_equal(tdm_buf_text(&parts), split == 1 ? "Ta;" : "");
        }
        tdm_generation_destroy(g);
        tdm_buf_deinit(&parts);
        tdm_buf_deinit(&text);
        talker_close(&r, folder);
    }
}

static void test_text_allocates_nothing_either(void **state) {
    char folder[SUPPORT_PATH_MAX];
    rig r;
    tdm_event event;
    (void)state;
    talker_open(&r, folder, "row", "{{ messages[0].content }}");
    tdm_generation_options options = greedy(&r, 200);
    options.temperature = 1.2F;
    options.has_seed = true;
    options.stop[0] = "never there";
    options.n_stop = 1;
    tdm_prompt *prompt = chat(&r, "{\"messages\":[{\"content\":\"x\"}]}");
    tdm_generation *g = NULL;
    assert_int_equal(tdm_generation_create(&g, r.model, prompt, &options, NULL), TDM_OK);
    assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
    const size_t before = r.tracker.n_calls;
    while (event.finish == TDM_FINISH_NONE) {
        assert_int_equal(tdm_generation_next(g, &event, NULL), TDM_OK);
        assert_null(event.parts);
    }
    assert_int_equal(r.tracker.n_calls, before);
    tdm_generation_destroy(g);
    tdm_prompt_destroy(prompt);
    talker_close(&r, folder);
}

static void test_segments_of_a_prompt(void **state) {
    char folder[SUPPORT_PATH_MAX];
    rig r;
    const int32_t id = 65;
    const char *text = NULL;
    size_t len = 0;
    size_t n = 0;
    bool is_trusted = false;
    tdm_prompt *prompt = NULL;
    (void)state;
    talker_open(&r, folder, "row", "<|end|>{{ messages[0].content }}<|end|>");
    prompt = chat(&r, "{\"messages\":[{\"content\":\"x<|end|>\"}]}");
    assert_int_equal(tdm_prompt_n_segments(prompt), 3);
    assert_true(tdm_prompt_segment_at(prompt, 1, &text, &len, &is_trusted));
    assert_int_equal(len, 8);
    assert_memory_equal(text, "x<|end|>", 8);
    assert_false(is_trusted);
    assert_true(tdm_prompt_segment_at(prompt, 2, &text, &len, &is_trusted));
    assert_true(is_trusted);
    assert_false(tdm_prompt_segment_at(prompt, 3, &text, &len, &is_trusted));
    const int32_t *ids = tdm_prompt_ids(prompt, &n);
    assert_int_equal(n, 10); /* two special tokens, and the message byte by byte */
    assert_int_equal(ids[0], 256);
    assert_int_equal(ids[9], 256);
    tdm_prompt_destroy(prompt);
    assert_int_equal(tdm_prompt_from_ids(&prompt, r.model, &id, 1, NULL), TDM_OK);
    assert_int_equal(tdm_prompt_n_segments(prompt), 0);
    tdm_prompt_destroy(prompt);
    assert_int_equal(tdm_prompt_from_text(&prompt, r.model, "ab", 2, TDM_TEXT_PARSE_SPECIAL, NULL),
                     TDM_OK);
    assert_int_equal(tdm_prompt_n_segments(prompt), 1);
    assert_true(tdm_prompt_segment_at(prompt, 0, &text, &len, &is_trusted));
    assert_true(is_trusted && len == 2);
    tdm_prompt_destroy(prompt);
    talker_close(&r, folder);
}

static void test_split_refusals(void **state) {
    static const char *const BAD[] = {"{}", "5", "[", ""};
    char folder[SUPPORT_PATH_MAX];
    rig r;
    (void)state;
    rig_open(&r, "llama", NULL, TDM_TIER_FAST);
    tdm_generation_options options = greedy(&r, 5);
    options.splits_answer = true; /* needs a tokenizer, and this model has none */
    expect_create(&r, &options, r.input_ids, r.n_input, TDM_E_STATE, NULL);
    rig_close(&r);
    talker_open(&r, folder, "row", "x");
    for (size_t i = 0; i < SUPPORT_LEN(BAD); i++) {
        const int32_t id = 65;
        options.tools_json = BAD[i];
        expect_create(&r, &options, &id, 1, i < 2 ? TDM_E_ARG : TDM_E_FORMAT, NULL);
    }
    talker_close(&r, folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_equals_the_reference),
        cmocka_unit_test(test_token_path_allocates_nothing),
        cmocka_unit_test(test_chunks_of_the_prompt_do_not_matter),
        cmocka_unit_test(test_continue_equals_fresh),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_score_equals_the_golden),
        cmocka_unit_test(test_split_answers),
        cmocka_unit_test(test_a_stop_leaves_nothing_to_the_next_turn),
        cmocka_unit_test(test_text_allocates_nothing_either),
        cmocka_unit_test(test_segments_of_a_prompt),
        cmocka_unit_test(test_split_refusals),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
