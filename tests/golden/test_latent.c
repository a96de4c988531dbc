/* SPDX-License-Identifier: Apache-2.0
 *
 * Latent attention from files that no golden has: the matrix between the latent space and the heads
 * whole or in two stacks, as floats, MLX's affine codes, or fp8; layers that predict further tokens;
 * and files that lack a part or have it in another shape. What is stored differently and means the
 * same must give the same logits. */
#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/model.h"
#include "support/support.h"
#include "tensor/half.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <math.h>

#define FOLDER "goldens/deepseek-v3"
#define N_TOKENS 40
#define N_LAYERS 4
#define HEADS 4
#define NOPE 16
#define VALUE 16
#define RANK 32
#define ROWS (HEADS * (NOPE + VALUE))

/* How the matrix of every layer is stored. */
typedef enum storage { WHOLE, STACKS, AFFINE, FP8, MISSING, NARROW, ODD_STACK } storage;

/* The value of one weight: a small integer times 2^-6, which every storage here has exactly. */
static int weight_at(int layer, int row, int column) {
    return (layer * 31 + row * 7 + column * 5 + row * column) % 15 - 7;
}

typedef struct file {
    bytes header;
    bytes data;
} file;

static void add(file *f, const char *name, const char *dtype, const char *shape, const void *data,
                size_t n) {
    bytes_format(&f->header,
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                 f->header.len == 0 ? "{" : ",", name, dtype, shape, f->data.len, f->data.len + n);
    bytes_put(&f->data, data, n);
}

static uint16_t bf16_of(int layer, int row, int column) {
    return tdm_bf16_from_f32((float)weight_at(layer, row, column) / 64.0F);
}

static void add_whole(file *f, const char *base, int layer, int rows) {
    uint16_t values[ROWS * RANK];
    char name[96];
    char shape[32];
    for (int i = 0; i < rows * RANK; i++) {
        values[i] = bf16_of(layer, i / RANK, i % RANK);
    }
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.weight", base);
    (void)snprintf(shape, sizeof shape, "%d,%d", rows, RANK);
    add(f, name, "BF16", shape, values, (size_t)rows * RANK * 2);
}

static void add_stacks(file *f, const char *base, int layer, int heads) {
    uint16_t keys[HEADS * RANK * NOPE];
    uint16_t values[HEADS * VALUE * RANK];
    char name[96];
    char shape[32];
    for (int h = 0; h < heads; h++) {
        for (int r = 0; r < RANK; r++) {
            for (int i = 0; i < NOPE; i++) {
                keys[(h * RANK + r) * NOPE + i] = bf16_of(layer, h * (NOPE + VALUE) + i, r);
            }
            for (int i = 0; i < VALUE; i++) {
                values[(h * VALUE + i) * RANK + r] =
                    bf16_of(layer, h * (NOPE + VALUE) + NOPE + i, r);
            }
        }
    }
    (void)snprintf(name, sizeof name, "%s.embed_q.weight", base);
    (void)snprintf(shape, sizeof shape, "%d,%d,%d", heads, RANK, NOPE);
    add(f, name, "BF16", shape, keys, (size_t)heads * RANK * NOPE * 2);
    (void)snprintf(name, sizeof name, "%s.unembed_out.weight", base);
    (void)snprintf(shape, sizeof shape, "%d,%d,%d", heads, VALUE, RANK);
    add(f, name, "BF16", shape, values, (size_t)heads * VALUE * RANK * 2);
}

/* Codes of eight bits, one group of 32 a row: value = code / 64 - 7 / 64. */
static void add_affine(file *f, const char *base, int layer) {
    uint8_t codes[ROWS * RANK];
    float scales[ROWS];
    float biases[ROWS];
    char name[96];
    for (int i = 0; i < ROWS * RANK; i++) {
        codes[i] = (uint8_t)(weight_at(layer, i / RANK, i % RANK) + 7);
        scales[i / RANK] = 1.0F / 64.0F;
        biases[i / RANK] = -7.0F / 64.0F;
    }
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.weight", base);
    add(f, name, "U32", "128,8", codes, sizeof codes);
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.scales", base);
    add(f, name, "F32", "128,1", scales, sizeof scales);
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.biases", base);
    add(f, name, "F32", "128,1", biases, sizeof biases);
}

/* E4M3 of a whole number up to 7. */
static uint8_t e4m3_of(int value) {
    static const uint8_t CODES[] = {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e};
    return (uint8_t)(value < 0 ? CODES[-value] | 0x80 : CODES[value]);
}

static void add_fp8(file *f, const char *base, int layer) {
    const float scale = 1.0F / 64.0F;
    uint8_t codes[ROWS * RANK];
    char name[96];
    for (int i = 0; i < ROWS * RANK; i++) {
        codes[i] = e4m3_of(weight_at(layer, i / RANK, i % RANK));
    }
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.weight", base);
    add(f, name, "F8_E4M3", "128,32", codes, sizeof codes);
    (void)snprintf(name, sizeof name, "%s.kv_b_proj.weight_scale_inv", base);
    add(f, name, "F32", "1,1", &scale, sizeof scale);
}

static void add_between(file *f, storage how, int layer) {
    char base[64];
    (void)snprintf(base, sizeof base, "model.layers.%d.self_attn", layer);
    switch (how) {
    case STACKS:
        add_stacks(f, base, layer, HEADS);
        break;
    case ODD_STACK:
        add_stacks(f, base, layer, HEADS - 1);
        break;
    case AFFINE:
        add_affine(f, base, layer);
        break;
    case FP8:
        add_fp8(f, base, layer);
        break;
    case NARROW:
        add_whole(f, base, layer, ROWS - NOPE);
        break;
    case MISSING:
        break;
    case WHOLE:
    default:
        add_whole(f, base, layer, ROWS);
        break;
    }
}

static void shape_of(const tdm_tensor_view *view, char out[64]) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; i < view->rank; i++) {
        used += (size_t)snprintf(out + used, 64 - used, "%s%lld", i == 0 ? "" : ",",
                                 (long long)view->dims[i]);
    }
}

/* The golden's checkpoint with the matrix stored how, and a tensor more where extra is a name. */
static bytes file_of(storage how, const char *extra) {
    char path[SUPPORT_PATH_MAX];
    tdm_safetensors *golden = NULL;
    tdm_blob blob;
    file f = {0};
    bytes out = {0};
    (void)support_data_path(path, FOLDER "/model.safetensors");
    assert_int_equal(tdm_blob_open(&blob, NULL, path, NULL), TDM_OK);
    assert_int_equal(tdm_safetensors_parse(&golden, NULL, blob.data, blob.bytes, path, NULL),
                     TDM_OK);
    for (size_t i = 0; i < tdm_safetensors_n_tensors(golden); i++) {
        const char *name = tdm_safetensors_tensor_name(golden, i);
        const tdm_tensor_view *view = tdm_safetensors_tensor_view(golden, i);
        char shape[64];
        if (strstr(name, "kv_b_proj") == NULL) {
            shape_of(view, shape);
            add(&f, name, TDM_DTYPES[view->dtype].name, shape, view->data, view->bytes);
        }
    }
    for (int layer = 0; layer < N_LAYERS; layer++) {
        add_between(&f, how, layer);
    }
    if (extra != NULL) {
        add(&f, extra, "U8", "0", "", 0);
    }
    bytes_put(&f.header, "}", 1);
    bytes_u64(&out, f.header.len);
    bytes_put(&out, f.header.data, f.header.len);
    bytes_put(&out, f.data.data, f.data.len);
    bytes_free(&f.header);
    bytes_free(&f.data);
    tdm_safetensors_destroy(golden);
    tdm_blob_close(&blob);
    return out;
}

static tdm_status logits_of(const tdm_checkpoint *checkpoint, const tdm_alloc *alloc, float *logits,
                            tdm_error *err) {
    static tdm_model_config config;
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    const tdm_graph_options options = {.alloc = alloc};
    tdm_backend *backend = NULL;
    tdm_graph *graph = NULL;
    tdm_state *sequence = NULL;
    int32_t ids[N_TOKENS];
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_cpu_backend_create(&backend, NULL, &cpu, err));
    TDM_TRY_GOTO(status, tdm_model_config_read(&config, checkpoint, err), done);
    TDM_TRY_GOTO(status, tdm_graph_create(&graph, checkpoint, &config, backend, &options, err),
                 done);
    TDM_TRY_GOTO(status, graph->ops->reserve(graph, N_TOKENS, 1, N_TOKENS, err), done);
    TDM_TRY_GOTO(status, graph->ops->state_create(graph, TDM_DTYPE_F32, N_TOKENS, &sequence, err),
                 done);
    for (int32_t i = 0; i < N_TOKENS; i++) {
        ids[i] = 3 + 11 * i % 300;
    }
    const tdm_step_row row = {.state = sequence, .tokens = ids, .n_tokens = N_TOKENS};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    TDM_TRY_GOTO(status, graph->ops->forward(graph, &step, err), done);
done:
    if (graph != NULL) {
        graph->ops->state_destroy(graph, sequence);
        graph->ops->destroy(graph);
    }
    backend->ops->destroy(backend);
    return status;
}

/* Loads and runs; logits [N_TOKENS, 320]. Whatever was taken is given back. */
static tdm_status run(storage how, const char *extra, float *logits, tdm_error *err) {
    static mem_fs m;
    char path[SUPPORT_PATH_MAX];
    size_t len = 0;
    char *config = support_read_file(support_data_path(path, FOLDER "/config.json"), &len);
    bytes model = file_of(how, extra);
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_alloc_tracker tracker;
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", config);
    mem_fs_put(&m, "d/model.safetensors", model.data, model.len);
    memset(err, 0, sizeof *err);
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_status status = tdm_checkpoint_open(&checkpoint, NULL, "d", &options, err);
    if (status == TDM_OK) {
        status = logits_of(checkpoint, &tracker.alloc, logits, err);
    }
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    tdm_checkpoint_close(checkpoint);
    bytes_free(&model);
    free(config);
    return status;
}

static float want[N_TOKENS * 320];
static float got[N_TOKENS * 320];

static void storages_agree(void **state) {
    static const storage SAME[] = {STACKS, AFFINE, FP8};
    tdm_error err;
    float largest = 0.0F;
    (void)state;
    assert_int_equal(run(WHOLE, NULL, want, &err), TDM_OK);
    for (size_t i = 0; i < SUPPORT_LEN(want); i++) {
        largest = fmaxf(largest, fabsf(want[i]));
    }
    assert_true(largest > 0.1F);
    for (size_t s = 0; s < SUPPORT_LEN(SAME); s++) {
        memset(got, 0, sizeof got);
        if (run(SAME[s], NULL, got, &err) != TDM_OK) {
            fail_msg("storage %d: %s (%s)", (int)SAME[s], err.what, err.where);
        }
        for (size_t i = 0; i < SUPPORT_LEN(want); i++) {
            /* The same values and the same sums, whose order a dense type may have for itself. */
            assert_true(fabsf(want[i] - got[i]) <= 2e-6F * largest);
        }
    }
}

static void further_tokens_are_dropped(void **state) {
    tdm_error err;
    (void)state;
    assert_int_equal(run(WHOLE, NULL, want, &err), TDM_OK);
    assert_int_equal(run(WHOLE, "model.layers.4.eh_proj.weight", got, &err), TDM_OK);
    assert_memory_equal(want, got, sizeof want);
    /* The config says one such layer: a second one, and a name that only begins alike, are not. */
    assert_int_equal(run(WHOLE, "model.layers.5.eh_proj.weight", got, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "model.layers.5.eh_proj.weight"));
    assert_int_equal(run(WHOLE, "model.layers.40.eh_proj.weight", got, &err), TDM_E_FORMAT);
}

static void bad_files_are_refused(void **state) {
    static const struct {
        storage how;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {MISSING, TDM_E_FORMAT, "model.layers.0.self_attn.kv_b_proj.weight"},
        {NARROW, TDM_E_SHAPE, "model.layers.0.self_attn.kv_b_proj.weight"},
        {ODD_STACK, TDM_E_SHAPE, "model.layers.0.self_attn.embed_q.weight"},
    };
    tdm_error err;
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        assert_int_equal(run(CASES[i].how, NULL, got, &err), CASES[i].status);
        assert_non_null(strstr(err.what, CASES[i].says));
        assert_true(err.remedy[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(storages_agree),
        cmocka_unit_test(further_tokens_are_dropped),
        cmocka_unit_test(bad_files_are_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
