/* SPDX-License-Identifier: Apache-2.0
 *
 * Which class of operation each forward is given, seen at the graph's own table: prompts, single
 * tokens, scores and embeddings, as the text decoder declares them. */
#include "backend/cpu/cpu.h"
#include "engine/declaration.h"
#include "engine/engine.h"
#include "support/support.h"

#include <string.h>

#define STEPS_MAX 64

/* Stands in for the graph's table while a test looks; forward has no argument of ours, so that the
 * trace is found as the table itself. */
typedef struct trace {
    tdm_graph_ops ops; /* first */
    const tdm_graph_ops *inner;
    size_t n;
    tdm_class classes[STEPS_MAX];
    int32_t n_tokens[STEPS_MAX];
} trace;

static tdm_status traced_forward(tdm_graph *graph, const tdm_step *step, tdm_error *err) {
    trace *t = (trace *)(uintptr_t)graph->ops;
    assert_true(t->n < STEPS_MAX);
    t->classes[t->n] = step->class_id;
    for (int32_t r = 0; r < step->n_rows; r++) {
        t->n_tokens[t->n] += step->rows[r].n_tokens;
    }
    t->n++;
    return t->inner->forward(graph, step, err);
}

typedef struct rig {
    tdm_model *model;
    tdm_graph *graph;
    trace trace;
} rig;

static void rig_open(rig *r, const char *rel, int32_t n_batch) {
    char folder[SUPPORT_PATH_MAX];
    tdm_engine_parts parts;
    const tdm_model_options options = {.n_batch = n_batch};
    tdm_backend *backend = NULL;
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    tdm_error err;
    memset(r, 0, sizeof *r);
    assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &cpu, &err), TDM_OK);
    if (tdm_model_open_with(&r->model, NULL, support_data_path(folder, rel), &options, backend,
                            &err) != TDM_OK) {
        fail_msg("%s: %s", rel, err.what);
    }
    tdm_model_parts(r->model, &parts);
    r->graph = parts.graph;
    r->trace.inner = r->graph->ops;
    r->trace.ops = *r->graph->ops;
    r->trace.ops.forward = traced_forward;
    r->graph->ops = &r->trace.ops;
}

static void rig_close(rig *r) {
    r->graph->ops = r->trace.inner;
    tdm_model_close(r->model);
}

static void expect(const rig *r, size_t at, int32_t n_tokens, tdm_class class_id) {
    assert_true(at < r->trace.n);
    assert_int_equal(r->trace.n_tokens[at], n_tokens);
    assert_int_equal(r->trace.classes[at], class_id);
}

static void an_answer(void **state) {
    static const int32_t IDS[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    tdm_generation_options options;
    tdm_prompt *prompt = NULL;
    tdm_generation *g = NULL;
    tdm_event event;
    tdm_error err;
    rig r;
    (void)state;
    rig_open(&r, "goldens/llama", 4);
    tdm_generation_options_init(&options, r.model);
    options.temperature = 0.0F;
    options.max_tokens = 3;
    assert_int_equal(tdm_prompt_from_ids(&prompt, r.model, IDS, SUPPORT_LEN(IDS), &err), TDM_OK);
    assert_int_equal(tdm_generation_create(&g, r.model, prompt, &options, &err), TDM_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tdm_generation_next(g, &event, &err), TDM_OK);
    }
    /* nine of the prompt by fours, its last one alone, then two of the answer's own */
    assert_int_equal(r.trace.n, 6);
    expect(&r, 0, 4, TDM_STEP_PIECE);
    expect(&r, 1, 4, TDM_STEP_PIECE);
    expect(&r, 2, 1, TDM_STEP_PIECE);
    expect(&r, 3, 1, TDM_STEP_PIECE);
    expect(&r, 4, 1, TDM_STEP_ONE_ROW);
    expect(&r, 5, 1, TDM_STEP_ONE_ROW);
    tdm_generation_destroy(g);
    tdm_prompt_destroy(prompt);
    rig_close(&r);
}

static void a_score(void **state) {
    static const int32_t IDS[] = {5, 6, 7, 8, 9};
    float logprobs[SUPPORT_LEN(IDS)];
    tdm_error err;
    rig r;
    (void)state;
    rig_open(&r, "goldens/llama", 4);
    assert_int_equal(tdm_model_score(r.model, IDS, SUPPORT_LEN(IDS), 4, logprobs, 0, NULL, &err),
                     TDM_OK);
    assert_int_equal(r.trace.n, 2);
    expect(&r, 0, 4, TDM_STEP_PIECE);
    expect(&r, 1, 1, TDM_STEP_ONE_ROW);
    rig_close(&r);
}

static void embeddings(void **state) {
    static const int32_t IDS[] = {5, 6, 7};
    const tdm_embed_input inputs[] = {{IDS, 3}, {IDS, 2}};
    const tdm_embed_options options = {0};
    float out[2 * 64];
    tdm_error err;
    rig r;
    (void)state;
    rig_open(&r, "embeddings/mistral-mean", 64);
    assert_int_equal(tdm_model_embed(r.model, inputs, 2, &options, out, &err), TDM_OK);
    assert_int_equal(r.trace.n, 1);
    expect(&r, 0, 5, TDM_STEP_PIECE);
    assert_int_equal(
        tdm_model_embed(r.model, (const tdm_embed_input[]){{IDS, 1}}, 1, &options, out, &err),
        TDM_OK);
    expect(&r, 1, 1, TDM_STEP_ONE_ROW);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer),
        cmocka_unit_test(a_score),
        cmocka_unit_test(embeddings),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
