/* SPDX-License-Identifier: Apache-2.0
 *
 * GGUF files changed in one place. What gemma 4's may leave out means 1, and what they may not is
 * missed by name; its layers that read another layer's keys own no cache; a matrix of one row may be
 * a vector. */
#include "backend/cpu/cpu.h"
#include "model/model.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define N_TOKENS 12

static const int32_t IDS[N_TOKENS] = {1, 300, 17, 42, 5, 99, 101, 7, 250, 3, 64, 128};

static bytes read_file(const char *path) {
    size_t len = 0;
    char *text = support_read_file(path, &len);
    return (bytes){.data = (uint8_t *)text, .len = len, .cap = len};
}

static bytes read_gguf(const char *name) {
    char rel[96];
    char path[SUPPORT_PATH_MAX];
    (void)snprintf(rel, sizeof rel, "goldens-gguf/%s/model.gguf", name);
    return read_file(support_shared_path(path, rel));
}

/* Where text, with the length before it as GGUF writes it, begins. */
static size_t find(const bytes *b, const char *text) {
    size_t len = strlen(text);
    for (size_t i = 8; i + len <= b->len; i++) {
        if (memcmp(b->data + i, text, len) == 0 && bytes_get(b, i - 8, 8) == len) {
            return i - 8;
        }
    }
    fail_msg("no %s", text);
    return 0;
}

/* The entry of a vector in the tensor table: name, one dimension, type, offset. */
static size_t entry_bytes(const char *name) {
    return 8 + strlen(name) + 4 + 8 + 4 + 8;
}

/* Takes n bytes out of the table; general.name grows by as much, so that no offset moves. */
static void cut(bytes *b, size_t at, size_t n) {
    static const char KEY[] = "general.name";
    size_t value = find(b, KEY) + 8 + sizeof KEY - 1 + 4;
    size_t end = value + 8 + bytes_get(b, value, 8);
    assert_true(end < at);
    memmove(b->data + end + n, b->data + end, at - end);
    memset(b->data + end, ' ', n);
    bytes_set(b, value, bytes_get(b, value, 8) + n, 8);
}

static void drop(bytes *b, const char *name) {
    cut(b, find(b, name), entry_bytes(name));
    bytes_set(b, 8, bytes_get(b, 8, 8) - 1, 8);
}

/* A matrix of one row becomes a vector. */
static void flatten(bytes *b, const char *name) {
    size_t rank = find(b, name) + 8 + strlen(name);
    assert_int_equal(bytes_get(b, rank, 4), 2);
    assert_int_equal(bytes_get(b, rank + 4 + 8, 8), 1);
    bytes_set(b, rank, 1, 4);
    cut(b, rank + 4 + 8, 8);
}

typedef struct model {
    mem_fs fs;
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph *graph;
} model;

/* Floats of the tensor called name are set to value first, where there is a name: the fs borrows the
 * file. */
static tdm_status model_open(model *m, bytes *file, const char *name, float value, tdm_error *err) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const tdm_checkpoint_options loose = {.fs = &m->fs.fs};
    const tdm_graph_options options = {0};
    memset(m, 0, sizeof *m);
    memset(err, 0, sizeof *err);
    mem_fs_init(&m->fs);
    mem_fs_put(&m->fs, "m.gguf", file->data, file->len);
    assert_int_equal(tdm_cpu_backend_create(&m->backend, NULL, &cpu, NULL), TDM_OK);
    TDM_TRY(tdm_checkpoint_open(&m->checkpoint, NULL, "m.gguf", &loose, err));
    const tdm_checkpoint_tensor *tensor =
        name != NULL ? tdm_checkpoint_find(m->checkpoint, name) : NULL;
    assert_true((name != NULL) == (tensor != NULL));
    for (size_t i = 0; tensor != NULL && i < tensor->view.bytes; i += sizeof value) {
        memcpy(file->data + tensor->offset + i, &value, sizeof value);
    }
    TDM_TRY(tdm_model_config_read(&m->config, m->checkpoint, err));
    return tdm_graph_create(&m->graph, m->checkpoint, &m->config, m->backend, &options, err);
}

static void model_close(model *m) {
    if (m->graph != NULL) {
        m->graph->ops->destroy(m->graph);
    }
    tdm_checkpoint_close(m->checkpoint);
    m->backend->ops->destroy(m->backend);
}

/* The last position's logits; returns how many. */
static size_t run(const model *m, float *logits) {
    tdm_state *state = NULL;
    assert_int_equal(m->graph->ops->reserve(m->graph, N_TOKENS, 1, 1, NULL), TDM_OK);
    assert_int_equal(m->graph->ops->state_create(m->graph, TDM_DTYPE_F32, N_TOKENS, &state, NULL),
                     TDM_OK);
    const tdm_step_row row = {
        .state = state, .tokens = IDS, .n_tokens = N_TOKENS, .logits_from = N_TOKENS - 1};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    assert_int_equal(m->graph->ops->forward(m->graph, &step, NULL), TDM_OK);
    m->graph->ops->state_destroy(m->graph, state);
    return (size_t)m->config.n_vocab;
}

/* Dropping the tensor gives the bits of ones, and not those of what the file has. */
static void check_left_out(const char *golden, const char *tensor) {
    float logits[3][320];
    size_t n = 0;
    for (int way = 0; way < 3; way++) {
        model m;
        tdm_error err;
        bytes file = read_gguf(golden);
        if (way == 0) {
            drop(&file, tensor);
        }
        if (model_open(&m, &file, way == 1 ? tensor : NULL, 1.0F, &err) != TDM_OK) {
            fail_msg("%s without %s: %s (%s)", golden, tensor, err.what, err.where);
        }
        n = run(&m, logits[way]);
        model_close(&m);
        bytes_free(&file);
    }
    assert_memory_equal(logits[0], logits[1], n * sizeof(float));
    assert_memory_not_equal(logits[0], logits[2], n * sizeof(float));
}

static void factors_that_files_leave_out(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/gemma4-moe");
    check_left_out("gemma4-ple-shared", "blk.1.layer_output_scale.weight");
    check_left_out("gemma4-moe", "blk.0.ffn_down_exps.scale");
}

static void refuse_without(const char *golden, const char *tensor) {
    model m;
    tdm_error err;
    bytes file = read_gguf(golden);
    drop(&file, tensor);
    assert_int_equal(model_open(&m, &file, NULL, 0.0F, &err), TDM_E_FORMAT);
    if (strstr(err.what, tensor) == NULL) {
        fail_msg("wanted %s: %s", tensor, err.what);
    }
    model_close(&m);
    bytes_free(&file);
}

static void what_no_file_may_leave_out(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/gemma4-moe");
    refuse_without("gemma4-ple-shared", "per_layer_proj_norm.weight");
    refuse_without("gemma4-ple-shared", "blk.5.post_norm.weight");
    refuse_without("gemma4-ple-shared", "blk.2.attn_k_norm.weight");
    refuse_without("gemma4-ple-shared", "blk.5.attn_q_norm.weight");
    refuse_without("gemma4-moe", "blk.0.ffn_gate_inp.scale");
    refuse_without("gemma4-moe", "blk.3.pre_ffw_norm_2.weight");
    refuse_without("gemma4-moe", "blk.3.post_ffw_norm_1.weight");
    refuse_without("gemma4-moe", "blk.3.post_ffw_norm_2.weight");
}

/* llama.cpp makes no difference between the two. */
static void a_row_may_be_a_vector(void **state) {
    char path[SUPPORT_PATH_MAX];
    float logits[2][320];
    size_t n = 0;
    (void)state;
    (void)support_data_path(path, "goldens-gguf/qwen2-moe-full/model.gguf");
    for (int way = 0; way < 2; way++) {
        model m;
        tdm_error err;
        bytes file = read_file(path);
        for (int layer = 0; way == 1 && layer < 4; layer++) {
            char name[64];
            (void)snprintf(name, sizeof name, "blk.%d.ffn_gate_inp_shexp.weight", layer);
            flatten(&file, name);
        }
        if (model_open(&m, &file, NULL, 0.0F, &err) != TDM_OK) {
            fail_msg("%s (%s)", err.what, err.where);
        }
        n = run(&m, logits[way]);
        model_close(&m);
        bytes_free(&file);
    }
    assert_memory_equal(logits[0], logits[1], n * sizeof(float));
}

/* Six layers, of which the last three read the second and the third's. */
static void donors_own_the_caches(void **state) {
    char path[SUPPORT_PATH_MAX];
    model m;
    tdm_error err;
    tdm_state *sequence = NULL;
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/gemma4-ple-shared");
    bytes file = read_gguf("gemma4-ple-shared");
    assert_int_equal(model_open(&m, &file, NULL, 0.0F, &err), TDM_OK);
    assert_int_equal(m.graph->ops->reserve(m.graph, N_TOKENS, 1, 1, NULL), TDM_OK);
    assert_int_equal(m.graph->ops->state_create(m.graph, TDM_DTYPE_F32, N_TOKENS, &sequence, NULL),
                     TDM_OK);
    assert_int_equal(sequence->n_caches, 3);
    assert_int_equal(sequence->caches[0]->geometry.window, 8);
    assert_int_equal(sequence->caches[0]->geometry.head_dim, 16);
    assert_int_equal(sequence->caches[2]->geometry.window, 0);
    assert_int_equal(sequence->caches[2]->geometry.head_dim, 32);
    m.graph->ops->state_destroy(m.graph, sequence);
    model_close(&m);
    bytes_free(&file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_that_files_leave_out),
        cmocka_unit_test(what_no_file_may_leave_out),
        cmocka_unit_test(a_row_may_be_a_vector),
        cmocka_unit_test(donors_own_the_caches),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
