/* SPDX-License-Identifier: Apache-2.0
 *
 * Every family against its goldens (support/goldens.h): the committed checkpoint, GGUF files, and
 * what MLX quantized. In `exact` the logits are the reference framework's within tolerance.h, every
 * greedy token is the same, and the bits do not depend on chunks, threads or mates. */
#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "support/goldens.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS_MAX 128 /* of one step: the kit's sequences, and prompts beside mates */
#define N_MATES 7
#define N_WAYS 3

typedef struct rig {
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph *graph;
    tdm_blob blob;
    tdm_safetensors *golden;
} rig;

static const tdm_tensor_view *view_of(const rig *r, const char *name) {
    size_t idx = 0;
    assert_true(tdm_safetensors_find(r->golden, name, &idx));
    return tdm_safetensors_tensor_view(r->golden, idx);
}

static void rig_open(rig *r, const char *folder, const char *model, tdm_tier tier,
                     int32_t n_threads, const tdm_alloc *alloc) {
    char path[SUPPORT_PATH_MAX];
    const tdm_cpu_options cpu = {.tier = tier, .n_threads = n_threads};
    const tdm_checkpoint_options loose = {0};
    const tdm_graph_options options = {.alloc = alloc};
    tdm_error err = {0};
    memset(r, 0, sizeof *r);
    (void)support_join(path, folder, "golden.safetensors");
    assert_int_equal(tdm_blob_open(&r->blob, NULL, path, &err), TDM_OK);
    assert_int_equal(
        tdm_safetensors_parse(&r->golden, NULL, r->blob.data, r->blob.bytes, path, &err), TDM_OK);
    assert_int_equal(tdm_cpu_backend_create(&r->backend, alloc, &cpu, &err), TDM_OK);
    if (tdm_checkpoint_open(&r->checkpoint, alloc, model, &loose, &err) != TDM_OK ||
        tdm_model_config_read(&r->config, r->checkpoint, &err) != TDM_OK ||
        tdm_graph_create(&r->graph, r->checkpoint, &r->config, r->backend, &options, &err) !=
            TDM_OK ||
        r->graph->ops->reserve(r->graph, TOKENS_MAX, N_MATES + 1, TOKENS_MAX, &err) != TDM_OK) {
        fail_msg("%s: %s (%s)", model, err.what, err.where);
    }
}

static void rig_close(rig *r) {
    r->graph->ops->destroy(r->graph);
    tdm_checkpoint_close(r->checkpoint);
    r->backend->ops->destroy(r->backend);
    tdm_safetensors_destroy(r->golden);
    tdm_blob_close(&r->blob);
}

static tdm_state *new_state(const rig *r) {
    tdm_state *state = NULL;
    assert_int_equal(r->graph->ops->state_create(r->graph, TDM_DTYPE_F32, TOKENS_MAX, &state, NULL),
                     TDM_OK);
    return state;
}

/* Feeds ids in pieces of chunk, with a token of each mate in every step; logits [n, n_vocab]. */
static void feed(const rig *r, tdm_state *state, tdm_state *const *mates, int n_mates,
                 const int32_t *ids, int32_t n, int32_t chunk, float *logits) {
    float *all = malloc((size_t)TOKENS_MAX * (size_t)r->config.n_vocab * sizeof *all);
    assert_non_null(all);
    for (int32_t done = 0; done < n;) {
        int32_t piece = chunk < n - done ? chunk : n - done;
        int32_t mate_ids[N_MATES];
        tdm_step_row rows[N_MATES + 1];
        rows[n_mates] = (tdm_step_row){.state = state, .tokens = ids + done, .n_tokens = piece};
        for (int m = 0; m < n_mates; m++) {
            mate_ids[m] = (ids[done] + 17 * m) % r->config.n_vocab;
            rows[m] = (tdm_step_row){
                .state = mates[m], .tokens = &mate_ids[m], .n_tokens = 1, .logits_from = 1};
        }
        const tdm_step step = {.rows = rows, .n_rows = n_mates + 1, .logits = all};
        assert_int_equal(r->graph->ops->forward(r->graph, &step, NULL), TDM_OK);
        memcpy(logits + (size_t)done * (size_t)r->config.n_vocab, all,
               (size_t)piece * (size_t)r->config.n_vocab * sizeof *all);
        done += piece;
    }
    free(all);
}

/* Logits of prompt and continuation in one sequence: [n_prompt + n_gen, n_vocab]. */
static float *run(const rig *r, int32_t chunk, int n_mates, size_t *out_n) {
    const tdm_tensor_view *prompt = view_of(r, "input_ids");
    const tdm_tensor_view *gen = view_of(r, "gen_ids");
    int32_t n_prompt = (int32_t)prompt->dims[0];
    int32_t n_gen = (int32_t)gen->dims[0];
    size_t v = (size_t)r->config.n_vocab;
    float *logits = calloc((size_t)(n_prompt + n_gen) * v, sizeof *logits);
    tdm_state *state = new_state(r);
    tdm_state *mates[N_MATES] = {0};
    assert_non_null(logits);
    for (int m = 0; m < n_mates; m++) {
        mates[m] = new_state(r);
    }
    feed(r, state, mates, n_mates, prompt->data, n_prompt, chunk, logits);
    feed(r, state, mates, n_mates, gen->data, n_gen, 1, logits + (size_t)n_prompt * v);
    for (int m = 0; m < n_mates; m++) {
        r->graph->ops->state_destroy(r->graph, mates[m]);
    }
    r->graph->ops->state_destroy(r->graph, state);
    *out_n = (size_t)(n_prompt + n_gen) * v;
    return logits;
}

static int32_t best_of(const float *row, int32_t n) {
    int32_t best = 0;
    for (int32_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

static void widen(const float *a, const float *b, size_t n, double *diff, double *largest) {
    for (size_t i = 0; i < n; i++) {
        *diff = fmax(*diff, fabs((double)a[i] - (double)b[i]));
        *largest = fmax(*largest, fabs((double)b[i]));
    }
}

/* gen_logits[i] are those from which gen_ids[i] was taken: row 0 is the prompt's last position. */
static void compare(const rig *r, const char *name, double bound, const float *logits) {
    size_t n_prompt = (size_t)view_of(r, "input_ids")->dims[0];
    const tdm_tensor_view *gen = view_of(r, "gen_ids");
    size_t n_gen = (size_t)gen->dims[0];
    size_t v = (size_t)r->config.n_vocab;
    double diff = 0.0;
    double largest = 0.0;
    widen(logits, view_of(r, "logits")->data, n_prompt * v, &diff, &largest);
    widen(logits + (n_prompt - 1) * v, view_of(r, "gen_logits")->data, n_gen * v, &diff, &largest);
    print_message("%-24s max_rel %.2e\n", name, diff / largest);
    assert_true(largest > 0.0 && diff / largest <= bound);
    for (size_t i = 0; i < n_gen; i++) {
        assert_int_equal(best_of(logits + (n_prompt - 1 + i) * v, r->config.n_vocab),
                         ((const int32_t *)gen->data)[i]);
    }
}

/* One checkpoint: the golden's logits, then the same bits in n_ways other ways to get them. Files
 * that hold a family's weights in another way need one only. */
static void check_model(const char *name, double bound, const char *folder, const char *model,
                        int n_ways) {
    static const struct {
        int32_t n_threads, chunk;
        int n_mates;
    } WAYS[N_WAYS] = {{2, 3, N_MATES}, {1, 1, 0}, {2, 16, 0}};
    rig r;
    size_t n = 0;
    rig_open(&r, folder, model, TDM_TIER_EXACT, 1, NULL);
    float *want = run(&r, 64, 0, &n);
    compare(&r, name, bound, want);
    rig_close(&r);
    for (int i = 0; i < n_ways; i++) {
        rig_open(&r, folder, model, TDM_TIER_EXACT, WAYS[i].n_threads, NULL);
        float *got = run(&r, WAYS[i].chunk, WAYS[i].n_mates, &n);
        if (memcmp(want, got, n * sizeof *got) != 0) {
            fail_msg("%s: other bits with chunks of %d, %d mates, %d threads", name,
                     (int)WAYS[i].chunk, WAYS[i].n_mates, (int)WAYS[i].n_threads);
        }
        free(got);
        rig_close(&r);
    }
    free(want);
}

/* Each folder of dir; file: the checkpoint in it, or "" where it is the folder. */
static void check_all(const char *dir, const support_golden *goldens, size_t n, const char *file,
                      int n_ways) {
    for (size_t i = 0; i < n; i++) {
        char label[64];
        char folder[SUPPORT_PATH_MAX];
        char path[SUPPORT_PATH_MAX];
        (void)snprintf(label, sizeof label, "%s%s%s", goldens[i].name, file[0] != '\0' ? "/" : "",
                       file);
        (void)support_join(folder, dir, goldens[i].name);
        check_model(label, goldens[i].bound, folder,
                    file[0] != '\0' ? support_join(path, folder, file) : folder, n_ways);
    }
}

static void checkpoints_agree(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_all(support_data_path(dir, "goldens"), SUPPORT_GOLDENS, SUPPORT_LEN(SUPPORT_GOLDENS), "",
              N_WAYS);
}

static void converted_files_agree(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_all(support_data_path(dir, "goldens-gguf"), SUPPORT_CONVERTED,
              SUPPORT_LEN(SUPPORT_CONVERTED), "model.gguf", 1);
}

static void gguf_files_agree(void **state) {
    char shared[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(shared, "goldens-gguf");
    check_all(shared, SUPPORT_SHARED_GGUF, SUPPORT_LEN(SUPPORT_SHARED_GGUF), "model.gguf", 1);
}

static void mlx_folders_agree(void **state) {
    char shared[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(shared, "goldens-mlx");
    check_all(shared, SUPPORT_SHARED_MLX, SUPPORT_LEN(SUPPORT_SHARED_MLX), "", 1);
}

/* A golden as a checkpoint of more than text stores it. */
typedef struct nest {
    const char *golden, *family, *prefix;
    const char *beside[6]; /* tensors that only text does not need */
} nest;

/* The text under text_config, its tensors under another prefix, and towers beside it. The fs
 * borrows config and model. */
static void put_nested(mem_fs *m, const nest *how, const char *folder, bytes *config,
                       bytes *model) {
    char path[SUPPORT_PATH_MAX];
    size_t len = 0;
    char *text = support_read_file(support_join(path, folder, "config.json"), &len);
    bytes header = {0};
    bytes_format(config, "{\"model_type\":\"%s\",\"text_config\":%s}", how->family, text);
    bytes_put(config, "", 1);
    mem_fs_put_text(m, "d/config.json", (const char *)config->data);
    free(text);
    text = support_read_file(support_join(path, folder, "model.safetensors"), &len);
    const bytes whole = {.data = (uint8_t *)text, .len = len};
    size_t header_len = (size_t)bytes_get(&whole, 0, 8);
    const char *from = text + 8 + 1; /* past the brace */
    const char *end = text + 8 + header_len;
    bytes_format(&header, "{");
    for (size_t i = 0; i < SUPPORT_LEN(how->beside) && how->beside[i] != NULL; i++) {
        bytes_format(&header, "\"%s\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},",
                     how->beside[i]);
    }
    while (from < end) {
        static const char OLD[] = "\"model.";
        if ((size_t)(end - from) > sizeof OLD && memcmp(from, OLD, sizeof OLD - 1) == 0) {
            bytes_format(&header, "\"%s", how->prefix);
            from += sizeof OLD - 1;
        } else {
            bytes_put(&header, from++, 1);
        }
    }
    bytes_u64(model, header.len);
    bytes_put(model, header.data, header.len);
    bytes_put(model, end, len - 8 - header_len);
    mem_fs_put(m, "d/model.safetensors", model->data, model->len);
    bytes_free(&header);
    free(text);
}

static void check_nested(const nest *how) {
    static mem_fs m;
    char rel[64];
    char folder[SUPPORT_PATH_MAX];
    rig r;
    rig nested;
    bytes config = {0};
    bytes model = {0};
    size_t n = 0;
    tdm_error err = {0};
    const tdm_checkpoint_options options = {.fs = &m.fs};
    const tdm_graph_options plain = {0};
    (void)snprintf(rel, sizeof rel, "goldens/%s", how->golden);
    (void)support_data_path(folder, rel);
    mem_fs_init(&m);
    put_nested(&m, how, folder, &config, &model);
    rig_open(&r, folder, folder, TDM_TIER_EXACT, 1, NULL);
    float *want = run(&r, 64, 0, &n);
    nested = r;
    if (tdm_checkpoint_open(&nested.checkpoint, NULL, "d", &options, &err) != TDM_OK ||
        tdm_model_config_read(&nested.config, nested.checkpoint, &err) != TDM_OK ||
        tdm_graph_create(&nested.graph, nested.checkpoint, &nested.config, r.backend, &plain,
                         &err) != TDM_OK ||
        nested.graph->ops->reserve(nested.graph, TOKENS_MAX, 1, TOKENS_MAX, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    float *got = run(&nested, 64, 0, &n);
    assert_memory_equal(want, got, n * sizeof *got);
    nested.graph->ops->destroy(nested.graph);
    tdm_checkpoint_close(nested.checkpoint);
    rig_close(&r);
    free(want);
    free(got);
    bytes_free(&config);
    bytes_free(&model);
}

/* Towers are dropped by name, and keys of layers that read another layer's. */
static void text_inside_a_larger_checkpoint(void **state) {
    static const nest WAYS[] = {
        {"gemma3", "gemma3", "language_model.model.", {"vision_tower.x"}},
        {"gemma4-ple-shared",
         "gemma4",
         "model.language_model.",
         {"model.vision_tower.x", "model.audio_tower.y", "model.embed_vision.z",
          "model.language_model.layers.3.self_attn.k_proj.weight",
          "model.language_model.layers.5.self_attn.v_proj.weight",
          "model.language_model.layers.5.self_attn.k_norm.weight"}},
        {"qwen3_5",
         "qwen3_5",
         "model.language_model.",
         {"model.visual.x", "mtp.layers.0.y"}}, /* blocks for further tokens: known, not run */
        {"qwen3_5-moe", "qwen3_5_moe", "model.language_model.", {"model.visual.x", "mtp.norm"}},
        {"gemma4-dense-keqv",
         "gemma4_unified",
         "language_model.model.",
         {"embed_audio.x", "vision_embedder.y"}},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(WAYS); i++) {
        check_nested(&WAYS[i]);
    }
}

/* Every allocation of building and of making room fails once: an error, and nothing is lost. */
static void failed_allocations_leave_nothing(void **state) {
    static const char *const FAILING[] = {"gemma4-ple-shared", "glm-moe-dsa", "lfm2", "qwen2-moe",
                                          "starcoder2"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(FAILING); i++) {
        char rel[64];
        char folder[SUPPORT_PATH_MAX];
        const tdm_checkpoint_options loose = {0};
        const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
        static tdm_model_config config;
        tdm_checkpoint *checkpoint = NULL;
        tdm_backend *backend = NULL;
        tdm_status status = TDM_E_NOMEM;
        size_t n = 0;
        (void)snprintf(rel, sizeof rel, "goldens/%s", FAILING[i]);
        (void)support_data_path(folder, rel);
        assert_int_equal(tdm_cpu_backend_create(&backend, NULL, &cpu, NULL), TDM_OK);
        assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, folder, &loose, NULL), TDM_OK);
        assert_int_equal(tdm_model_config_read(&config, checkpoint, NULL), TDM_OK);
        while (status == TDM_E_NOMEM) {
            tdm_alloc_tracker tracker;
            tdm_graph *graph = NULL;
            tdm_state *sequence = NULL;
            tdm_alloc_tracker_init(&tracker, NULL);
            tracker.fail_at = ++n;
            const tdm_graph_options options = {.alloc = &tracker.alloc};
            status = tdm_graph_create(&graph, checkpoint, &config, backend, &options, NULL);
            if (status == TDM_OK) {
                status = graph->ops->reserve(graph, 64, 2, 2, NULL);
            }
            if (status == TDM_OK) {
                status = graph->ops->state_create(graph, TDM_DTYPE_F32, 64, &sequence, NULL);
            }
            if (status == TDM_OK) {
                status = graph->ops->state_reserve(graph, sequence, 64, NULL);
            }
            if (graph != NULL) {
                graph->ops->state_destroy(graph, sequence);
                graph->ops->destroy(graph);
            }
            assert_int_equal(tracker.live_bytes, 0);
        }
        assert_int_equal(status, TDM_OK);
        assert_true(n > 5);
        tdm_checkpoint_close(checkpoint);
        backend->ops->destroy(backend);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_agree),
        cmocka_unit_test(gguf_files_agree),
        cmocka_unit_test(converted_files_agree),
        cmocka_unit_test(mlx_folders_agree),
        cmocka_unit_test(text_inside_a_larger_checkpoint),
        cmocka_unit_test(failed_allocations_leave_nothing),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
