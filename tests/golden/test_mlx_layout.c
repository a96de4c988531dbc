/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of qwen3_5 and qwen3_next as MLX's converter lays them out: taps turned, norms with
 * their 1, names under language_model. No golden shows one, so the golden of the hub's layout is
 * turned into it here. Its norms are set to what both layouts can say exactly (a difference of 0, a
 * weight of 1), and then every logit has to be the same. */
#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#define N_TOKENS 12
#define N_VOCAB 320

typedef struct layout {
    const char *golden;
    bool is_mlx;
    bool has_broken_taps; /* one value short of either shape */
} layout;

static void replace_all(bytes *text, const char *old, const char *new) {
    bytes out = {0};
    for (size_t i = 0; i < text->len;) {
        if (text->len - i >= strlen(old) && memcmp(text->data + i, old, strlen(old)) == 0) {
            bytes_put(&out, new, strlen(new));
            i += strlen(old);
        } else {
            bytes_put(&out, text->data + i++, 1);
        }
    }
    bytes_free(text);
    *text = out;
}

/* Norms that the family stores as the difference from 1. */
static bool is_moved_norm(const char *name) {
    static const char *const TAILS[] = {"layernorm.weight", "model.norm.weight", "q_norm.weight",
                                        "k_norm.weight"};
    for (size_t i = 0; i < SUPPORT_LEN(TAILS); i++) {
        size_t len = strlen(TAILS[i]);
        if (strlen(name) >= len && strcmp(name + strlen(name) - len, TAILS[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* BF16 throughout: 0 is 0x0000 and 1 is 0x3F80. */
static void set_norms(uint8_t *file, size_t len, bool is_mlx) {
    tdm_safetensors *parsed = NULL;
    size_t n_set = 0;
    assert_int_equal(tdm_safetensors_parse(&parsed, NULL, file, len, "golden", NULL), TDM_OK);
    for (size_t i = 0; i < tdm_safetensors_n_tensors(parsed); i++) {
        const tdm_tensor_view *view = tdm_safetensors_tensor_view(parsed, i);
        uint8_t *data = file + ((const uint8_t *)view->data - file);
        if (is_moved_norm(tdm_safetensors_tensor_name(parsed, i))) {
            assert_int_equal(view->dtype, TDM_DTYPE_BF16);
            for (size_t b = 0; b < view->bytes; b += 2) {
                data[b] = is_mlx ? 0x80 : 0;
                data[b + 1] = is_mlx ? 0x3F : 0;
            }
            n_set++;
        }
    }
    assert_int_equal(n_set, 11); /* two in each of four layers, q's and k's of one, the last */
    tdm_safetensors_destroy(parsed);
}

static void put_checkpoint(mem_fs *m, const layout *how, bytes *model, bytes *config) {
    char rel[64];
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    size_t len = 0;
    (void)snprintf(rel, sizeof rel, "goldens/%s", how->golden);
    (void)support_data_path(folder, rel);
    char *text = support_read_file(support_join(path, folder, "config.json"), &len);
    bytes_put(config, text, len + 1);
    free(text);
    text = support_read_file(support_join(path, folder, "model.safetensors"), &len);
    set_norms((uint8_t *)text, len, how->is_mlx);
    const bytes whole = {.data = (uint8_t *)text, .len = len};
    size_t header_len = (size_t)bytes_get(&whole, 0, 8);
    bytes header = {0};
    bytes_put(&header, text + 8, header_len);
    if (how->is_mlx) {
        replace_all(&header, "\"model.", "\"language_model.model.");
        replace_all(&header, "\"lm_head", "\"language_model.lm_head");
        replace_all(&header, "[128,1,4]", "[128,4,1]");
    }
    if (how->has_broken_taps) {
        replace_all(&header, "[128,1,4]", "[128,2,2]");
    }
    bytes_u64(model, header.len);
    bytes_put(model, header.data, header.len);
    bytes_put(model, text + 8 + header_len, len - 8 - header_len);
    mem_fs_init(m);
    mem_fs_put_text(m, "d/config.json", (const char *)config->data);
    mem_fs_put(m, "d/model.safetensors", model->data, model->len);
    bytes_free(&header);
    free(text);
}

/* Logits of a few tokens, [N_TOKENS, N_VOCAB]; or the refusal of the checkpoint. */
static tdm_status logits_of(const layout *how, float *logits, tdm_error *err) {
    static mem_fs m;
    static tdm_model_config config;
    bytes model = {0};
    bytes text = {0};
    tdm_backend *backend = NULL;
    tdm_checkpoint *checkpoint = NULL;
    tdm_graph *graph = NULL;
    tdm_state *state = NULL;
    int32_t ids[N_TOKENS];
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const tdm_checkpoint_options options = {.fs = &m.fs};
    const tdm_graph_options plain = {0};
    put_checkpoint(&m, how, &model, &text);
    assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &cpu, err), TDM_OK);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "d", &options, err), TDM_OK);
    assert_int_equal(tdm_model_config_read(&config, checkpoint, err), TDM_OK);
    tdm_status status = tdm_graph_create(&graph, checkpoint, &config, backend, &plain, err);
    if (status == TDM_OK) {
        for (int32_t i = 0; i < N_TOKENS; i++) {
            ids[i] = (i * 37 + 11) % N_VOCAB;
        }
        assert_int_equal(graph->ops->reserve(graph, N_TOKENS, 1, N_TOKENS, err), TDM_OK);
        assert_int_equal(graph->ops->state_create(graph, TDM_DTYPE_F32, N_TOKENS, &state, err),
                         TDM_OK);
        const tdm_step_row row = {.state = state, .tokens = ids, .n_tokens = N_TOKENS};
        const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
        assert_int_equal(graph->ops->forward(graph, &step, err), TDM_OK);
        graph->ops->state_destroy(graph, state);
        graph->ops->destroy(graph);
    }
    tdm_checkpoint_close(checkpoint);
    backend->ops->destroy(backend);
    bytes_free(&model);
    bytes_free(&text);
    return status;
}

static void layouts_give_the_same_bits(void **state) {
    static const char *const GOLDENS[] = {"qwen3_5", "qwen3-next", "qwen3_5-moe"};
    const size_t n = (size_t)N_TOKENS * N_VOCAB;
    float *hub = calloc(n, sizeof *hub);
    float *mlx = calloc(n, sizeof *mlx);
    tdm_error err = {0};
    (void)state;
    assert_true(hub != NULL && mlx != NULL);
    for (size_t i = 0; i < SUPPORT_LEN(GOLDENS); i++) {
        const layout hubs = {.golden = GOLDENS[i]};
        const layout mlxs = {.golden = GOLDENS[i], .is_mlx = true};
        assert_int_equal(logits_of(&hubs, hub, &err), TDM_OK);
        if (logits_of(&mlxs, mlx, &err) != TDM_OK) {
            fail_msg("%s: %s (%s)", GOLDENS[i], err.what, err.where);
        }
        assert_memory_equal(hub, mlx, n * sizeof *hub);
        assert_true(hub[0] != hub[1]);
    }
    free(hub);
    free(mlx);
}

static void other_taps_are_refused(void **state) {
    const layout broken = {.golden = "qwen3_5", .has_broken_taps = true};
    tdm_error err = {0};
    (void)state;
    assert_int_equal(logits_of(&broken, NULL, &err), TDM_E_SHAPE);
    assert_non_null(strstr(err.what, "conv1d.weight"));
    assert_non_null(strstr(err.where, "offset"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts_give_the_same_bits),
        cmocka_unit_test(other_taps_are_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
