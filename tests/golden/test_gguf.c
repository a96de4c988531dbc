/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files against the shared goldens: whole tiny models of this build's families and quantized
 * ones, position by position; and the folder of odd containers, each accepted or refused as
 * odd.json says, accepted ones giving the golden's logits. The data is not ours to commit; without
 * it the test is skipped, visibly. */
#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "support/support.h"
#include "tolerance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A golden file, mapped and parsed. */
typedef struct golden {
    tdm_blob blob;
    tdm_safetensors *file;
} golden;

static void golden_open(golden *g, const char *path) {
    tdm_error err;
    if (tdm_blob_open(&g->blob, NULL, path, &err) != TDM_OK ||
        tdm_safetensors_parse(&g->file, NULL, g->blob.data, g->blob.bytes, path, &err) != TDM_OK) {
        fail_msg("%s: %s", path, err.what);
    }
}

static void golden_close(golden *g) {
    tdm_safetensors_destroy(g->file);
    tdm_blob_close(&g->blob);
}

static const tdm_tensor_view *view_of(const golden *g, const char *name) {
    size_t idx = 0;
    assert_true(tdm_safetensors_find(g->file, name, &idx));
    return tdm_safetensors_tensor_view(g->file, idx);
}

static tdm_backend *backend_of(tdm_tier tier) {
    const tdm_cpu_options options = {.tier = tier, .n_threads = 1};
    tdm_backend *backend = NULL;
    assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &options, NULL), TDM_OK);
    return backend;
}

typedef struct model {
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph *graph;
} model;

/* Opens all of a model, or says what refused it. */
static tdm_status model_open(model *m, const char *path, tdm_backend *backend, tdm_error *err) {
    const tdm_checkpoint_options loose = {0};
    const tdm_graph_options options = {0};
    memset(m, 0, sizeof *m);
    memset(err, 0, sizeof *err);
    TDM_TRY(tdm_checkpoint_open(&m->checkpoint, NULL, path, &loose, err));
    TDM_TRY(tdm_model_config_read(&m->config, m->checkpoint, err));
    return tdm_graph_create(&m->graph, m->checkpoint, &m->config, backend, &options, err);
}

static void model_close(model *m) {
    if (m->graph != NULL) {
        m->graph->ops->destroy(m->graph);
    }
    tdm_checkpoint_close(m->checkpoint);
}

/* Logits of prompt and continuation, fed in one sequence: [n_prompt + n_gen, n_vocab]. */
static float *run(const model *m, const golden *g, size_t *out_n) {
    const tdm_tensor_view *prompt = view_of(g, "input_ids");
    const tdm_tensor_view *gen = view_of(g, "gen_ids");
    int32_t n_prompt = (int32_t)prompt->dims[0];
    int32_t n_gen = (int32_t)gen->dims[0];
    tdm_state *state = NULL;
    tdm_error err;
    float *logits = calloc((size_t)(n_prompt + n_gen) * (size_t)m->config.n_vocab, sizeof *logits);
    assert_non_null(logits);
    assert_int_equal(m->graph->ops->reserve(m->graph, 64, 1, 64, &err), TDM_OK);
    assert_int_equal(m->graph->ops->state_create(m->graph, TDM_DTYPE_F32, 64, &state, &err),
                     TDM_OK);
    const tdm_step_row row = {.state = state, .tokens = prompt->data, .n_tokens = n_prompt};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    assert_int_equal(m->graph->ops->forward(m->graph, &step, &err), TDM_OK);
    for (int32_t i = 0; i < n_gen; i++) {
        const tdm_step_row one = {
            .state = state, .tokens = (const int32_t *)gen->data + i, .n_tokens = 1};
        const tdm_step next = {.rows = &one,
                               .n_rows = 1,
                               .logits =
                                   logits + (size_t)(n_prompt + i) * (size_t)m->config.n_vocab};
        assert_int_equal(m->graph->ops->forward(m->graph, &next, &err), TDM_OK);
    }
    m->graph->ops->state_destroy(m->graph, state);
    *out_n = (size_t)(n_prompt + n_gen) * (size_t)m->config.n_vocab;
    return logits;
}

static void widen(const float *a, const float *b, size_t n, double *diff, double *largest) {
    for (size_t i = 0; i < n; i++) {
        *diff = fmax(*diff, fabs((double)a[i] - (double)b[i]));
        *largest = fmax(*largest, fabs((double)b[i]));
    }
}

/* Largest difference over largest logit, of prompt and continuation. gen_logits[i] are those from
 * which gen_ids[i] was taken: row 0 is the prompt's last position, row i what feeding
 * gen_ids[i - 1] gave. */
static double max_rel(const model *m, const golden *g, const char *prompt_name,
                      const char *gen_name) {
    const tdm_tensor_view *prompt = view_of(g, prompt_name);
    const tdm_tensor_view *gen = view_of(g, gen_name);
    size_t n = 0;
    double diff = 0.0;
    double largest = 0.0;
    size_t n_prompt = (size_t)prompt->dims[0];
    size_t n_gen = (size_t)gen->dims[0];
    size_t v = (size_t)m->config.n_vocab;
    float *logits = run(m, g, &n);
    widen(logits, prompt->data, n_prompt * v, &diff, &largest);
    widen(logits + (n_prompt - 1) * v, gen->data, n_gen * v, &diff, &largest);
    free(logits);
    return diff / largest;
}

static void check_case(const char *name, tdm_backend *backend, bool is_llamas, double bound) {
    char rel[128];
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    golden g;
    model m;
    tdm_error err;
    double got = 0.0;
    (void)snprintf(rel, sizeof rel, "goldens-gguf/%s", name);
    (void)support_shared_path(folder, rel);
    golden_open(&g, support_join(path, folder, "golden.safetensors"));
    if (model_open(&m, support_join(path, folder, "model.gguf"), backend, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", name, err.what, err.where);
    }
    got = max_rel(&m, &g, is_llamas ? "llama_logits" : "logits",
                  is_llamas ? "llama_gen_logits" : "gen_logits");
    print_message("%-16s max_rel %.2e\n", name, got);
    assert_true(got <= bound);
    model_close(&m);
    golden_close(&g);
}

static void test_families(void **state) {
    static const char *const CASES[] = {"llama",        "llama3-rope",  "qwen2",      "yarn",
                                        "qwen3",        "smollm3",      "quant-q4_0", "quant-q8_0",
                                        "quant-q4_k_m", "quant-q5_k_s", "quant-q6_k"};
    char shared[SUPPORT_PATH_MAX];
    tdm_backend *backend = NULL;
    (void)state;
    SUPPORT_NEED_SHARED(shared, "goldens-gguf");
    backend = backend_of(TDM_TIER_EXACT);
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        check_case(CASES[i], backend, false, TOL_GOLDEN_EXACT);
    }
    check_case("mistral-sliding", backend, true,
               TOL_GOLDEN_EXACT); /* the file has lost its window */
    backend->ops->destroy(backend);
}

/* The name and verdict of each entry of odd.json. */
static void check_odd(const char *folder, const tdm_json *entry, const golden *g,
                      tdm_backend *backend, int *n_ok) {
    char path[SUPPORT_PATH_MAX];
    model m;
    tdm_error err;
    bool is_ok = tdm_json_text_is(tdm_json_get(entry, "expect"), "ok");
    tdm_status status = model_open(&m, support_join(path, folder, entry->key), backend, &err);
    if ((status == TDM_OK) != is_ok) {
        fail_msg("%s: expected %s, got %s %s (%s)", entry->key, is_ok ? "ok" : "a refusal",
                 tdm_status_name(status), err.what, err.where);
    }
    if (is_ok) {
        assert_true(max_rel(&m, g, "logits", "gen_logits") <= TOL_GOLDEN_EXACT);
        (*n_ok)++;
    } else {
        assert_true(status == TDM_E_FORMAT || status == TDM_E_UNSUPPORTED ||
                    status == TDM_E_LIMIT || status == TDM_E_SHAPE || status == TDM_E_NOT_FOUND);
        assert_true(err.what[0] != '\0' && err.where[0] != '\0');
    }
    model_close(&m);
}

static void test_odd_containers(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    size_t len = 0;
    int n_ok = 0;
    golden g;
    tdm_json_doc *doc = NULL;
    tdm_backend *backend = NULL;
    (void)state;
    SUPPORT_NEED_SHARED(folder, "goldens-gguf/odd");
    golden_open(&g, support_join(path, folder, "golden.safetensors"));
    char *text = support_read_file(support_join(path, folder, "odd.json"), &len);
    assert_int_equal(tdm_json_parse(&doc, NULL, text, len, NULL, "odd.json", NULL), TDM_OK);
    const tdm_json *files = tdm_json_get(tdm_json_doc_root(doc), "files");
    backend = backend_of(TDM_TIER_EXACT);
    assert_true(tdm_json_len(files) >= 48);
    for (size_t i = 0; i < tdm_json_len(files); i++) {
        check_odd(folder, &files->u.items[i], &g, backend, &n_ok);
    }
    print_message("%zu odd files, %d accepted\n", tdm_json_len(files), n_ok);
    backend->ops->destroy(backend);
    tdm_json_doc_destroy(doc);
    free(text);
    golden_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_odd_containers),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
