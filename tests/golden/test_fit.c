/* SPDX-License-Identifier: Apache-2.0
 *
 * What fit foretells against what opening and generating then hold: the sum of everything that was
 * allocated, within the 5 % of spec/systems.md 162; and the edges that it names are edges. */
#include "backend/cpu/cpu.h"
#include "engine/fit.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

#define N_IDS 3

static void must(const char *what, tdm_status status, const tdm_error *err) {
    if (status != TDM_OK) {
        fail_msg("%s: %s (%s)", what, err->what, err->where);
    }
}

static void fit(const char *path, const tdm_model_options *options, const tdm_fit_request *request,
                tdm_fit_report *out) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_FAST, .n_threads = 1};
    tdm_alloc_tracker memory;
    tdm_backend *backend = NULL;
    tdm_error err = {0};
    tdm_alloc_tracker_init(&memory, NULL);
    must(path, tdm_cpu_backend_create(&backend, &memory.alloc, &cpu, &err), &err);
    must(path, tdm_model_fit(out, &memory, path, options, backend, request, &err), &err);
    backend->ops->destroy(backend);
    assert_int_equal(memory.live_bytes, 0);
}

/* Bytes held by a model with one generation that may fill the context. */
static size_t held(const char *path, const tdm_model_options *options, int64_t context) {
    static const int32_t IDS[N_IDS] = {3, 5, 7};
    const tdm_cpu_options cpu = {.tier = TDM_TIER_FAST, .n_threads = 1};
    tdm_alloc_tracker memory;
    tdm_generation_options generation_options;
    tdm_generation *generation = NULL;
    tdm_prompt *prompt = NULL;
    tdm_backend *backend = NULL;
    tdm_model *model = NULL;
    tdm_event event;
    tdm_error err = {0};
    size_t bytes = 0;
    tdm_alloc_tracker_init(&memory, NULL);
    must(path, tdm_cpu_backend_create(&backend, &memory.alloc, &cpu, &err), &err);
    must(path, tdm_model_open_with(&model, &memory.alloc, path, options, backend, &err), &err);
    tdm_generation_options_init(&generation_options, model);
    generation_options.max_tokens = (int32_t)context - N_IDS + 1;
    generation_options.ignores_eos = true;
    must(path, tdm_prompt_from_ids(&prompt, model, IDS, N_IDS, &err), &err);
    must(path, tdm_generation_create(&generation, model, prompt, &generation_options, &err), &err);
    must(path, tdm_generation_next(generation, &event, &err), &err);
    bytes = memory.live_bytes;
    tdm_generation_destroy(generation);
    tdm_prompt_destroy(prompt);
    tdm_model_close(model);
    assert_int_equal(memory.live_bytes, 0);
    return bytes;
}

static void foretold_is_held(const char *path, int64_t context) {
    const tdm_model_options options = {.context = context};
    const tdm_fit_request request = {0};
    tdm_fit_report r;
    double foretold = 0.0;
    double real = 0.0;
    fit(path, &options, &request, &r);
    real = (double)held(path, &options, r.context);
    /* the mapped part of the weights is no allocation */
    foretold = (double)(r.weights.packed_bytes + r.weights.converted_bytes) + (double)r.kv_bytes +
               (double)r.work_bytes;
    print_message("%s: %.0f foretold, %.0f held\n", path, foretold, real);
    assert_true(fabs(foretold - real) <= 0.05 * real);
    assert_int_equal(r.total_bytes, r.weight_bytes + r.kv_bytes + r.work_bytes);
    assert_true(r.bytes_available > 0 && r.is_fitting);
}

static void tiny_models_are_foretold(void **state) {
    static const char *const CASES[] = {"llama", "gemma3", "lfm2", "qwen2-moe", "qwen3"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        char rel[64];
        char path[SUPPORT_PATH_MAX];
        (void)snprintf(rel, sizeof rel, "goldens/%s", CASES[i]);
        foretold_is_held(support_data_path(path, rel), 0);
    }
}

/* Exactly enough for so many positions and sequences, and a byte less. */
static void edges_are_edges(void **state) {
    char path[SUPPORT_PATH_MAX];
    const tdm_model_options options = {.context = 300};
    tdm_fit_request request = {.n_sequences = 3};
    tdm_fit_report whole;
    tdm_fit_report r;
    (void)state;
    (void)support_data_path(path, "goldens/llama");
    fit(path, &options, &request, &whole);
    assert_int_equal(whole.context, 300);
    assert_int_equal(whole.kv_bytes, 3 * whole.kv_sequence_bytes);
    request.bytes_available = whole.total_bytes;
    fit(path, &options, &request, &r);
    assert_true(r.is_fitting && r.context_fitting >= 300 && r.sequences_fitting == 3);
    request.bytes_available = whole.total_bytes - 1;
    fit(path, &options, &request, &r);
    assert_true(!r.is_fitting && r.context_fitting > 0 && r.context_fitting < 300);
    assert_int_equal(r.sequences_fitting, 2);
    const tdm_model_options shorter = {.context = r.context_fitting};
    fit(path, &shorter, &request, &r);
    assert_true(r.is_fitting);
    const tdm_model_options longer = {.context = r.context_fitting + 1};
    fit(path, &longer, &request, &r);
    assert_false(r.is_fitting);
    request.bytes_available = whole.weight_bytes;
    fit(path, &options, &request, &r);
    assert_true(!r.is_fitting && r.context_fitting == 0 && r.sequences_fitting == 0);
}

static void rates_fall_with_positions(void **state) {
    char path[SUPPORT_PATH_MAX];
    const tdm_fit_request request = {0};
    tdm_fit_report r;
    (void)state;
    fit(support_data_path(path, "goldens/qwen3"), NULL, &request, &r);
    double empty = tdm_fit_decode_rate(&r, 10.0, 0);
    assert_true(empty > 0.0 && empty <= 10e9 / (double)r.weights.total.token_bytes);
    assert_true(tdm_fit_decode_rate(&r, 10.0, 400) < empty);
    assert_true(tdm_fit_decode_rate(&r, 0.0, 0) == 0.0);
}

/* Every allocation fails once; nothing is lost, and no error is another than NOMEM. */
static void failed_allocations_leave_nothing(void **state) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_FAST, .n_threads = 1};
    const tdm_fit_request request = {0};
    char path[SUPPORT_PATH_MAX];
    tdm_status status = TDM_E_NOMEM;
    (void)state;
    (void)support_data_path(path, "goldens/qwen2-moe");
    for (size_t n = 1; status == TDM_E_NOMEM; n++) {
        tdm_alloc_tracker memory;
        tdm_backend *backend = NULL;
        tdm_fit_report r;
        tdm_alloc_tracker_init(&memory, NULL);
        assert_int_equal(tdm_cpu_backend_create(&backend, &memory.alloc, &cpu, NULL), TDM_OK);
        memory.fail_at = memory.n_calls + n;
        status = tdm_model_fit(&r, &memory, path, NULL, backend, &request, NULL);
        backend->ops->destroy(backend);
        assert_int_equal(memory.live_bytes, 0);
        assert_true(n < 5000);
    }
    assert_int_equal(status, TDM_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_models_are_foretold),
        cmocka_unit_test(edges_are_edges),
        cmocka_unit_test(rates_fall_with_positions),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
