/* SPDX-License-Identifier: Apache-2.0
 *
 * A gemma 4 checkpoint as MLX lays it out: the text under language_model.model., the experts' gate
 * and up apart in stacks of their own. The weights are the golden's, so the bits must be too. */
#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
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

/* A safetensors file that grows by tensors. */
typedef struct writer {
    bytes header, data;
} writer;

static void write_tensor(writer *w, const char *name, const char *tail, const tdm_tensor_view *view,
                         const int64_t *dims, const void *data, size_t n) {
    bytes_format(&w->header, "%s\"language_model.%s%s\":{\"dtype\":\"%s\",\"shape\":[",
                 w->header.len == 0 ? "{" : ",", name, tail, TDM_DTYPES[view->dtype].name);
    for (int32_t i = 0; i < view->rank; i++) {
        bytes_format(&w->header, "%s%lld", i == 0 ? "" : ",", (long long)dims[i]);
    }
    bytes_format(&w->header, "],\"data_offsets\":[%zu,%zu]}", w->data.len, w->data.len + n);
    bytes_put(&w->data, data, n);
}

/* Of each expert the half that begins at row, all together. */
static void write_half(writer *w, const char *name, const char *tail, const tdm_tensor_view *view,
                       int64_t row) {
    const int64_t dims[3] = {view->dims[0], view->dims[1] / 2, view->dims[2]};
    size_t row_bytes = view->bytes / (size_t)(view->dims[0] * view->dims[1]);
    bytes half = {0};
    for (int64_t e = 0; e < dims[0]; e++) {
        bytes_put(&half,
                  (const uint8_t *)view->data + (size_t)(e * view->dims[1] + row) * row_bytes,
                  (size_t)dims[1] * row_bytes);
    }
    write_tensor(w, name, tail, view, dims, half.data, half.len);
    bytes_free(&half);
}

static void rewrite(writer *w, const char *name, const tdm_tensor_view *view) {
    static const char FUSED[] = "experts.gate_up_proj";
    static const char DOWN[] = "experts.down_proj";
    char head[128];
    const char *at = strstr(name, FUSED) != NULL ? strstr(name, FUSED) : strstr(name, DOWN);
    if (at == NULL) {
        write_tensor(w, name, "", view, view->dims, view->data, view->bytes);
        return;
    }
    (void)snprintf(head, sizeof head, "%.*sexperts.switch_glu.", (int)(at - name), name);
    if (strcmp(at, DOWN) == 0) {
        write_tensor(w, head, "down_proj.weight", view, view->dims, view->data, view->bytes);
        return;
    }
    write_half(w, head, "gate_proj.weight", view, 0);
    write_half(w, head, "up_proj.weight", view, view->dims[1] / 2);
}

static bytes rewrite_all(const char *path) {
    writer w = {0};
    tdm_blob blob = {0};
    tdm_safetensors *file = NULL;
    bytes out = {0};
    assert_int_equal(tdm_blob_open(&blob, NULL, path, NULL), TDM_OK);
    assert_int_equal(tdm_safetensors_parse(&file, NULL, blob.data, blob.bytes, path, NULL), TDM_OK);
    for (size_t i = 0; i < tdm_safetensors_n_tensors(file); i++) {
        rewrite(&w, tdm_safetensors_tensor_name(file, i), tdm_safetensors_tensor_view(file, i));
    }
    bytes_format(&w.header, "}");
    bytes_u64(&out, w.header.len);
    bytes_put(&out, w.header.data, w.header.len);
    bytes_put(&out, w.data.data, w.data.len);
    bytes_free(&w.header);
    bytes_free(&w.data);
    tdm_safetensors_destroy(file);
    tdm_blob_close(&blob);
    return out;
}

/* The last position's logits of the model at path in fs (NULL: the machine's). */
static size_t run(const tdm_fs *fs, const char *path, float *logits) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const tdm_checkpoint_options loose = {.fs = fs};
    const tdm_graph_options options = {0};
    static tdm_model_config config;
    tdm_backend *backend = NULL;
    tdm_checkpoint *checkpoint = NULL;
    tdm_graph *graph = NULL;
    tdm_state *state = NULL;
    tdm_error err = {0};
    assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &cpu, NULL), TDM_OK);
    if (tdm_checkpoint_open(&checkpoint, NULL, path, &loose, &err) != TDM_OK ||
        tdm_model_config_read(&config, checkpoint, &err) != TDM_OK ||
        tdm_graph_create(&graph, checkpoint, &config, backend, &options, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", path, err.what, err.where);
    }
    assert_int_equal(graph->ops->reserve(graph, N_TOKENS, 1, 1, NULL), TDM_OK);
    assert_int_equal(graph->ops->state_create(graph, TDM_DTYPE_F32, N_TOKENS, &state, NULL),
                     TDM_OK);
    const tdm_step_row row = {
        .state = state, .tokens = IDS, .n_tokens = N_TOKENS, .logits_from = N_TOKENS - 1};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    assert_int_equal(graph->ops->forward(graph, &step, NULL), TDM_OK);
    graph->ops->state_destroy(graph, state);
    graph->ops->destroy(graph);
    tdm_checkpoint_close(checkpoint);
    backend->ops->destroy(backend);
    return (size_t)config.n_vocab;
}

static void gemma4_experts_in_stacks(void **state) {
    static mem_fs m;
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    float logits[2][320];
    bytes config = {0};
    size_t len = 0;
    (void)state;
    (void)support_data_path(folder, "goldens/gemma4-moe");
    char *text = support_read_file(support_join(path, folder, "config.json"), &len);
    bytes_format(&config, "{\"model_type\":\"gemma4\",\"text_config\":%.*s}", (int)len, text);
    bytes_put(&config, "", 1);
    bytes model = rewrite_all(support_join(path, folder, "model.safetensors"));
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", (const char *)config.data);
    mem_fs_put(&m, "d/model.safetensors", model.data, model.len);
    len = run(NULL, folder, logits[0]);
    assert_int_equal(run(&m.fs, "d", logits[1]), len);
    assert_memory_equal(logits[0], logits[1], len * sizeof(float));
    free(text);
    bytes_free(&config);
    bytes_free(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma4_experts_in_stacks),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
