/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph kit against every family of this build, in every tier and with both kinds of storage.
 */
#include "backend/cpu/cpu.h"
#include "model/model.h"
#include "support/goldens.h"
#include "support/support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "graph_kit.h"

/* rel: a folder of tests/data. */
static void run_case(const char *rel, tdm_tier tier, tdm_dtype kv_dtype, int32_t n_threads) {
    char path[SUPPORT_PATH_MAX];
    tdm_error err = {0};
    tdm_alloc_tracker tracker;
    tdm_backend *backend = NULL;
    tdm_checkpoint *checkpoint = NULL;
    static tdm_model_config config;
    graph_kit kit = {.tracker = &tracker, .kv_dtype = kv_dtype, .tokens_max = 64};
    const tdm_cpu_options cpu = {.tier = tier, .n_threads = n_threads};
    const tdm_checkpoint_options loose = {0};
    tdm_alloc_tracker_init(&tracker, NULL);
    const tdm_graph_options options = {.alloc = &tracker.alloc};
    assert_int_equal(tdm_cpu_backend_create(&backend, &tracker.alloc, &cpu, &err), TDM_OK);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, &tracker.alloc, support_data_path(path, rel),
                                         &loose, &err),
                     TDM_OK);
    assert_int_equal(tdm_model_config_read(&config, checkpoint, &err), TDM_OK);
    assert_int_equal(tdm_graph_create(&kit.graph, checkpoint, &config, backend, &options, &err),
                     TDM_OK);
    graph_kit_run(&kit);
    kit.graph->ops->destroy(kit.graph);
    tdm_checkpoint_close(checkpoint);
    backend->ops->destroy(backend);
    assert_int_equal(tracker.live_bytes, 0);
}

static void test_families(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SUPPORT_GOLDENS); i++) {
        char rel[64];
        (void)snprintf(rel, sizeof rel, "goldens/%s", SUPPORT_GOLDENS[i].name);
        run_case(rel, TDM_TIER_FAST, TDM_DTYPE_BF16, 1);
        run_case(rel, TDM_TIER_EXACT, TDM_DTYPE_F32, 2);
    }
}

/* Columns in another order, in each tier. */
static void test_orders_of_columns(void **state) {
    static const char *const NAMES[] = {"goldens-foreign/gptq-llama-act-order",
                                        "goldens-foreign/ct-int4-act-order"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(NAMES); i++) {
        run_case(NAMES[i], TDM_TIER_FAST, TDM_DTYPE_BF16, 2);
        run_case(NAMES[i], TDM_TIER_EXACT, TDM_DTYPE_F32, 1);
        run_case(NAMES[i], TDM_TIER_REFERENCE, TDM_DTYPE_F32, 1);
    }
}

static void test_reference_tier(void **state) {
    (void)state;
    run_case("goldens/mistral-sliding", TDM_TIER_REFERENCE, TDM_DTYPE_F32, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_orders_of_columns),
        cmocka_unit_test(test_reference_tier),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
