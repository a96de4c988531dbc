/* SPDX-License-Identifier: Apache-2.0
 *
 * What is planned is what is held, for every golden checkpoint. A plan runs with the tensors' pages
 * unreadable; then the same checkpoint is loaded, and its weights, packed bytes and caches are
 * compared with what the plan said. */
#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "cache/cache.h"
#include "model/plan.h"
#include "support/goldens.h"
#include "support/support.h"

#include <string.h>
#include <sys/mman.h>

#define BATCH 24

typedef struct rig {
    tdm_alloc_tracker backend_memory;
    tdm_alloc_tracker graph_memory;
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph_options options;
} rig;

static void must(const char *what, tdm_status status, const tdm_error *err) {
    if (status != TDM_OK) {
        fail_msg("%s: %s (%s)", what, err->what, err->where);
    }
}

static void rig_open(rig *r, const char *path, tdm_tier tier) {
    const tdm_cpu_options cpu = {.tier = tier, .n_threads = 1};
    const tdm_checkpoint_options loose = {0};
    tdm_error err = {0};
    memset(r, 0, sizeof *r);
    tdm_alloc_tracker_init(&r->backend_memory, NULL);
    tdm_alloc_tracker_init(&r->graph_memory, NULL);
    r->options.alloc = &r->graph_memory.alloc;
    must(path, tdm_cpu_backend_create(&r->backend, &r->backend_memory.alloc, &cpu, &err), &err);
    must(path, tdm_checkpoint_open(&r->checkpoint, NULL, path, &loose, &err), &err);
    must(path, tdm_model_config_read(&r->config, r->checkpoint, &err), &err);
}

static void rig_close(rig *r) {
    tdm_checkpoint_close(r->checkpoint);
    r->backend->ops->destroy(r->backend);
    assert_int_equal(r->graph_memory.live_bytes, 0);
    assert_int_equal(r->backend_memory.live_bytes, 0);
}

/* The pages that lie wholly inside the tensors of one file. Returns how many bytes they are. */
static size_t protect(const rig *r, uint32_t file, int how) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = UINTPTR_MAX;
    uintptr_t to = 0;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(r->checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(r->checkpoint, i);
        uintptr_t at = (uintptr_t)tensor->view.data;
        if (tensor->file_idx == file && tensor->view.bytes > 0) {
            from = at < from ? at : from;
            to = at + tensor->view.bytes > to ? at + tensor->view.bytes : to;
        }
    }
    from = (from + page - 1) / page * page;
    to = to / page * page;
    if (from >= to) {
        return 0;
    }
    assert_int_equal(mprotect((void *)from, to - from, how), 0);
    return to - from;
}

static size_t protect_all(const rig *r, int how) {
    size_t bytes = 0;
    for (size_t i = 0; i < tdm_checkpoint_n_files(r->checkpoint); i++) {
        bytes += protect(r, (uint32_t)i, how);
    }
    return bytes;
}

static size_t planned_by_kind(const tdm_graph *graph, tdm_dtype kv, int64_t n) {
    tdm_kv_geometry geometry;
    size_t bytes = 0;
    for (int32_t i = 0; graph->ops->cache_at(graph, i, kv, BATCH, &geometry); i++) {
        bytes += tdm_cache_plan(&geometry, n);
    }
    return bytes;
}

/* One sequence of n positions, as a plan and as a loaded graph see it. */
static void compare_states(const char *name, tdm_graph *planned, tdm_graph *loaded) {
    static const int64_t LENGTHS[] = {1, 63, 64, 70, 300, 1000};
    static const tdm_dtype KINDS[] = {TDM_DTYPE_F32, TDM_DTYPE_BF16};
    tdm_error err = {0};
    for (size_t i = 0; i < SUPPORT_LEN(LENGTHS) * SUPPORT_LEN(KINDS); i++) {
        int64_t n = LENGTHS[i / SUPPORT_LEN(KINDS)];
        tdm_dtype kv = KINDS[i % SUPPORT_LEN(KINDS)];
        size_t want = planned->ops->state_plan(planned, kv, n);
        size_t held = 0;
        tdm_state *state = NULL;
        must(name, loaded->ops->state_create(loaded, kv, BATCH, &state, &err), &err);
        must(name, loaded->ops->state_reserve(loaded, state, n, &err), &err);
        for (int32_t c = 0; c < state->n_caches; c++) {
            held += state->caches[c]->ops->bytes(state->caches[c]);
        }
        loaded->ops->state_destroy(loaded, state);
        if (want != held || want != planned_by_kind(planned, kv, n)) {
            fail_msg("%s: %zu bytes planned for %d positions, %zu by kind, %zu held", name, want,
                     (int)n, planned_by_kind(planned, kv, n), held);
        }
    }
}

static void compare_weights(const char *name, const rig *r, const tdm_weight_plan *plan,
                            const tdm_graph *loaded, size_t packed_bytes) {
    int64_t n_active = 0;
    size_t stored = 0;
    for (int i = 0; i < TDM_SECTION_COUNT; i++) {
        n_active += plan->sections[i].n_active;
        stored += plan->sections[i].stored_bytes;
    }
    assert_int_equal(plan->total.n_params, loaded->facts.n_params);
    assert_int_equal(plan->total.stored_bytes, loaded->facts.weight_bytes);
    assert_int_equal(plan->total.stored_bytes, stored);
    assert_int_equal(plan->total.n_active, n_active);
    if (plan->packed_bytes != packed_bytes) {
        fail_msg("%s: %zu bytes planned to be packed, %zu were", name, plan->packed_bytes,
                 packed_bytes);
    }
    assert_true(plan->sections[TDM_SECTION_ATTENTION].n_params > 0);
    assert_int_equal(plan->sections[TDM_SECTION_EMBEDDING].n_params >=
                         (int64_t)r->config.n_vocab * r->config.hidden,
                     true);
    assert_int_equal(plan->sections[TDM_SECTION_HEAD].n_params == 0, r->config.is_tied);
    assert_int_equal(plan->sections[TDM_SECTION_EXPERTS].n_params == 0, r->config.experts.n == 0);
    assert_int_equal(n_active == plan->total.n_params, r->config.experts.n == 0);
    assert_true(plan->total.token_bytes > 0 && plan->total.token_bytes <= plan->total.loaded_bytes);
}

static void check(const char *name, const char *path, tdm_tier tier) {
    static rig r;
    tdm_graph_plan *plan = NULL;
    tdm_graph *planned = NULL;
    tdm_graph *loaded = NULL;
    tdm_error err = {0};
    size_t before = 0;
    rig_open(&r, path, tier);
    assert_true(protect_all(&r, PROT_NONE) > 0);
    must(name, tdm_graph_plan_create(&plan, r.checkpoint, &r.config, r.backend, &r.options, &err),
         &err);
    (void)protect_all(&r, PROT_READ);
    before = r.backend_memory.live_bytes;
    must(name, tdm_graph_create(&loaded, r.checkpoint, &r.config, r.backend, &r.options, &err),
         &err);
    planned = tdm_graph_plan_graph(plan);
    compare_weights(name, &r, tdm_graph_plan_weights(plan), loaded,
                    r.backend_memory.live_bytes - before);
    must(name, planned->ops->reserve(planned, BATCH, 2, 2, &err), &err);
    must(name, loaded->ops->reserve(loaded, BATCH, 2, 2, &err), &err);
    compare_states(name, planned, loaded);
    loaded->ops->destroy(loaded);
    tdm_graph_plan_destroy(plan);
    rig_close(&r);
}

static void check_all(const char *dir, const support_golden *goldens, size_t n, const char *file) {
    for (size_t i = 0; i < n; i++) {
        char folder[SUPPORT_PATH_MAX];
        char path[SUPPORT_PATH_MAX];
        (void)support_join(folder, dir, goldens[i].name);
        check(goldens[i].name, file[0] != '\0' ? support_join(path, folder, file) : folder,
              i % 2 == 0 ? TDM_TIER_FAST : TDM_TIER_EXACT);
    }
}

static void test_checkpoints(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_all(support_data_path(dir, "goldens"), SUPPORT_GOLDENS, SUPPORT_LEN(SUPPORT_GOLDENS), "");
    check_all(support_data_path(dir, "goldens-gguf"), SUPPORT_CONVERTED,
              SUPPORT_LEN(SUPPORT_CONVERTED), "model.gguf");
    check_all(support_data_path(dir, "goldens-foreign"), SUPPORT_FOREIGN,
              SUPPORT_LEN(SUPPORT_FOREIGN), "");
}

static void test_quantized(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(dir, "goldens-mlx");
    check_all(dir, SUPPORT_SHARED_MLX, SUPPORT_LEN(SUPPORT_SHARED_MLX), "");
    SUPPORT_NEED_SHARED(dir, "goldens-gguf");
    check_all(dir, SUPPORT_SHARED_QUANTS, SUPPORT_LEN(SUPPORT_SHARED_QUANTS), "model.gguf");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_quantized),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
