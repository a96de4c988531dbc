/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats against their goldens: MLX's unpacked values to the bit, at every alignment, and
 * products of all formats within 1e-5 of the largest; whole MLX checkpoints in exact and fast; and
 * checkpoints whose config and tensors disagree. */
#include "support/goldens.h"
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "formats/safetensors.h"
#include "model/blocks/loader.h"
#include "model/model.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/weight.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct goldens {
    char path[SUPPORT_PATH_MAX];
    char *file;
    size_t bytes;
    tdm_safetensors *tensors;
} goldens;

static void goldens_open(goldens *g) {
    tdm_error err = {0};
    g->file = support_read_file(g->path, &g->bytes);
    if (tdm_safetensors_parse(&g->tensors, NULL, (const uint8_t *)g->file, g->bytes, g->path,
                              &err) != TDM_OK) {
        fail_msg("%s: %s", g->path, err.what);
    }
}

static void goldens_close(goldens *g) {
    tdm_safetensors_destroy(g->tensors);
    free(g->file);
}

static const tdm_tensor_view *view_of(const goldens *g, const char *base, const char *part) {
    char name[128];
    size_t idx = 0;
    (void)snprintf(name, sizeof name, "%.95s.%s", base, part);
    return tdm_safetensors_find(g->tensors, name, &idx)
               ? tdm_safetensors_tensor_view(g->tensors, idx)
               : NULL;
}

/* "affine-3-g64-bf16" and the like, in the parts of their names. */
static tdm_weight_source source_of(const goldens *g, const char *base) {
    tdm_weight_source s = {.bits = (int32_t)strtol(strchr(base, '-') + 1, NULL, 10),
                           .group = (int32_t)strtol(strchr(base, 'g') + 1, NULL, 10),
                           .view = *view_of(g, base, "weight"),
                           .scales = *view_of(g, base, "scales")};
    for (int i = 0; i < TDM_WEIGHT_MODE_COUNT; ++i) {
        size_t len = strlen(TDM_WEIGHT_MODE_NAMES[i]);
        if (strncmp(base, TDM_WEIGHT_MODE_NAMES[i], len) == 0 && base[len] == '-') {
            s.mode = (tdm_weight_mode)i;
        }
    }
    if (s.mode == TDM_WEIGHT_AFFINE) {
        s.biases = *view_of(g, base, "biases");
    }
    return s;
}

/* Copies of the three tensors at an odd address. */
static void shift_source(tdm_weight_source *s, uint8_t *copies[3], size_t shift) {
    tdm_tensor_view *views[3] = {&s->view, &s->scales, &s->biases};
    for (int i = 0; i < 3; ++i) {
        copies[i] = NULL;
        if (views[i]->data != NULL) {
            copies[i] = malloc(views[i]->bytes + shift);
            assert_non_null(copies[i]);
            memcpy(copies[i] + shift, views[i]->data, views[i]->bytes);
            views[i]->data = copies[i] + shift;
        }
    }
}

static void expect_bits(const char *name, const float *got, const uint8_t *want, size_t n) {
    for (size_t i = 0; i < n; ++i) {
        uint32_t w = tdm_load_u32(want + 4 * i);
        if (tdm_f32_bits(got[i]) != w) {
            fail_msg("%s: value %zu is %.9g, not %.9g", name, i, (double)got[i],
                     (double)tdm_f32_from_bits(w));
        }
    }
}

static void expect_close(const char *name, const float *got, const float *want, size_t n) {
    float largest = 0.0f;
    for (size_t i = 0; i < n; ++i) {
        largest = fmaxf(largest, fabsf(want[i]));
    }
    for (size_t i = 0; i < n; ++i) {
        if (!(fabsf(got[i] - want[i]) <= 1e-5f * largest)) {
            fail_msg("%s: product %zu is %.9g, not %.9g", name, i, (double)got[i], (double)want[i]);
        }
    }
}

static float *copy_floats(const tdm_tensor_view *view) {
    assert_non_null(view);
    assert_int_equal(view->dtype, TDM_DTYPE_F32);
    float *out = malloc(view->bytes);
    assert_non_null(out);
    memcpy(out, view->data, view->bytes);
    return out;
}

/* Products of x by the weight of source, and its embedding rows, in one backend. */
static void check_products(tdm_backend *be, const char *name, const goldens *g,
                           const tdm_weight_source *source, const char *x_base) {
    tdm_weight w;
    tdm_error err = {0};
    float *x = copy_floats(x_base[0] != '\0' ? view_of(g, x_base, "x") : NULL);
    const tdm_tensor_view *y = view_of(g, name, "y");
    float *want = copy_floats(y);
    float *got = malloc(y->bytes);
    assert_non_null(got);
    if (tdm_weight_init_source(be, source, &w, &err) != TDM_OK) {
        fail_msg("%s: %s", name, err.what);
    }
    tdm_linear_part part = {.weight = &w, .out = got, .ld_out = w.n_out};
    assert_int_equal(y->dims[1], w.n_out);
    tdm_op_linear(be, x, w.n_in, y->dims[0], &part, 1);
    expect_close(name, got, want, (size_t)(y->dims[0] * w.n_out));
    tdm_weight_deinit(be, &w);
    free(got);
    free(want);
    free(x);
}

static void mlx_units_agree(void **state) {
    goldens g;
    tdm_backend *be = NULL;
    tdm_error err = {0};
    const tdm_cpu_options options = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    size_t n_cases = 0;
    (void)state;
    SUPPORT_NEED_SHARED(g.path, "goldens-mlx/units.safetensors");
    goldens_open(&g);
    assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
    assert_int_equal(be->ops->reserve(be, 4, 256, &err), TDM_OK);
    for (size_t i = 0; i < tdm_safetensors_n_tensors(g.tensors); ++i) {
        char base[96];
        const char *name = tdm_safetensors_tensor_name(g.tensors, i);
        const char *dot = strrchr(name, '.');
        if (dot == NULL || strcmp(dot, ".dequant") != 0) {
            continue;
        }
        (void)snprintf(base, sizeof base, "%.*s", (int)(dot - name), name);
        for (size_t shift = 0; shift < 4; ++shift) {
            uint8_t *copies[3];
            tdm_weight w;
            float row[256];
            tdm_weight_source source = source_of(&g, base);
            shift_source(&source, copies, shift);
            if (tdm_weight_describe(&source, &w, &err) != TDM_OK) {
                fail_msg("%s: %s", base, err.what);
            }
            assert_int_equal(w.n_in, 256);
            for (int64_t r = 0; r < w.n_out; ++r) {
                tdm_weight_row(&w, r, row);
                expect_bits(name, row,
                            (const uint8_t *)view_of(&g, base, "dequant")->data +
                                (size_t)r * sizeof row,
                            256);
            }
            check_products(be, base, &g, &source, base);
            for (int c = 0; c < 3; ++c) {
                free(copies[c]);
            }
        }
        ++n_cases;
    }
    assert_int_equal(n_cases, 38);
    be->ops->destroy(be);
    goldens_close(&g);
}

/* Every stored type: products of the shared x within 1e-5 of the golden's. */
static void gguf_products_agree(void **state) {
    goldens g;
    tdm_backend *be = NULL;
    tdm_error err = {0};
    const tdm_cpu_options options = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    size_t n_types = 0;
    size_t x_idx = 0;
    (void)state;
    SUPPORT_NEED_SHARED(g.path, "goldens-gguf/types.safetensors");
    goldens_open(&g);
    assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
    assert_int_equal(be->ops->reserve(be, 3, 1024, &err), TDM_OK);
    assert_true(tdm_safetensors_find(g.tensors, "x", &x_idx));
    float *x = copy_floats(tdm_safetensors_tensor_view(g.tensors, x_idx));
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        const char *name = TDM_DTYPES[i].name;
        const tdm_tensor_view *raw = view_of(&g, name, "raw");
        if (raw == NULL) {
            continue;
        }
        tdm_weight w;
        float got[12];
        float *want = copy_floats(view_of(&g, name, "y"));
        const tdm_tensor_view view = {.dtype = (tdm_dtype)i,
                                      .rank = 2,
                                      .dims = {4, 1024},
                                      .data = raw->data,
                                      .bytes = raw->bytes};
        assert_true(tdm_dequant_can((tdm_dtype)i));
        assert_int_equal(tdm_weight_init(be, &view, &w, &err), TDM_OK);
        tdm_linear_part part = {.weight = &w, .out = got, .ld_out = 4};
        tdm_op_linear(be, x, 1024, 3, &part, 1);
        expect_close(name, got, want, 12);
        tdm_weight_deinit(be, &w);
        free(want);
        ++n_types;
    }
    assert_int_equal(n_types, 27);
    free(x);
    be->ops->destroy(be);
    goldens_close(&g);
}

typedef struct rig {
    tdm_backend *backend;
    tdm_checkpoint *checkpoint;
    tdm_model_config config;
    tdm_graph *graph;
} rig;

/* fs NULL: the system's. What went wrong is left in err; close is legal then. */
static tdm_status rig_open(rig *r, const char *folder, const tdm_fs *fs, tdm_tier tier,
                           bool is_mapped, tdm_error *err) {
    const tdm_cpu_options cpu = {.tier = tier, .n_threads = 1, .is_mapped = is_mapped};
    const tdm_checkpoint_options options = {.fs = fs};
    const tdm_graph_options plain = {0};
    memset(r, 0, sizeof *r);
    TDM_TRY(tdm_cpu_backend_create(&r->backend, NULL, &cpu, err));
    TDM_TRY(tdm_checkpoint_open(&r->checkpoint, NULL, folder, &options, err));
    TDM_TRY(tdm_model_config_read(&r->config, r->checkpoint, err));
    TDM_TRY(tdm_graph_create(&r->graph, r->checkpoint, &r->config, r->backend, &plain, err));
    return r->graph->ops->reserve(r->graph, 128, 1, 128, err);
}

static void rig_close(rig *r) {
    if (r->graph != NULL) {
        r->graph->ops->destroy(r->graph);
    }
    tdm_checkpoint_close(r->checkpoint);
    if (r->backend != NULL) {
        r->backend->ops->destroy(r->backend);
    }
}

/* Logits of the golden's prompt in one step. */
static float *run_prompt(const rig *r, const tdm_tensor_view *ids, tdm_dtype kv) {
    tdm_state *state = NULL;
    int32_t *tokens = malloc(ids->bytes);
    float *logits = calloc((size_t)ids->dims[0] * (size_t)r->config.n_vocab, sizeof *logits);
    assert_true(tokens != NULL && logits != NULL);
    memcpy(tokens, ids->data, ids->bytes);
    assert_int_equal(r->graph->ops->state_create(r->graph, kv, 128, &state, NULL), TDM_OK);
    const tdm_step_row row = {.state = state, .tokens = tokens, .n_tokens = (int32_t)ids->dims[0]};
    const tdm_step step = {.rows = &row, .n_rows = 1, .logits = logits};
    assert_int_equal(r->graph->ops->forward(r->graph, &step, NULL), TDM_OK);
    r->graph->ops->state_destroy(r->graph, state);
    free(tokens);
    return logits;
}

static double log_sum_exp(const float *row, size_t n) {
    double top = -HUGE_VAL;
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
        top = fmax(top, (double)row[i]);
    }
    for (size_t i = 0; i < n; ++i) {
        sum += exp((double)row[i] - top);
    }
    return top + log(sum);
}

/* Mean over positions of KL(golden, got). */
static double kl_mean(const float *golden, const float *got, size_t n_rows, size_t n_vocab) {
    double total = 0.0;
    for (size_t r = 0; r < n_rows; ++r) {
        const float *p = golden + r * n_vocab;
        const float *q = got + r * n_vocab;
        double zp = log_sum_exp(p, n_vocab);
        double zq = log_sum_exp(q, n_vocab);
        for (size_t i = 0; i < n_vocab; ++i) {
            double lp = (double)p[i] - zp;
            total += exp(lp) * (lp - ((double)q[i] - zq));
        }
    }
    return total / (double)n_rows;
}

static double max_rel(const float *golden, const float *got, size_t n) {
    double diff = 0.0;
    double largest = 0.0;
    for (size_t i = 0; i < n; ++i) {
        diff = fmax(diff, fabs((double)golden[i] - (double)got[i]));
        largest = fmax(largest, fabs((double)golden[i]));
    }
    return diff / largest;
}

static void check_model(const char *name, const char *model, const goldens *g) {
    rig r;
    tdm_error err = {0};
    size_t at[2] = {0};
    assert_true(tdm_safetensors_find(g->tensors, "input_ids", &at[0]) &&
                tdm_safetensors_find(g->tensors, "logits", &at[1]));
    const tdm_tensor_view *ids = tdm_safetensors_tensor_view(g->tensors, at[0]);
    float *want = copy_floats(tdm_safetensors_tensor_view(g->tensors, at[1]));
    float *fast = NULL;
    for (int way = 0; way < 3; ++way) { /* exact; fast; fast from the file's layout */
        if (rig_open(&r, model, NULL, way == 0 ? TDM_TIER_EXACT : TDM_TIER_FAST, way == 2, &err) !=
            TDM_OK) {
            fail_msg("%s: %s (%s)", name, err.what, err.where);
        }
        size_t n_rows = (size_t)ids->dims[0];
        size_t n_vocab = (size_t)r.config.n_vocab;
        float *got = run_prompt(&r, ids, TDM_DTYPE_F32);
        if (way == 0) {
            double rel = max_rel(want, got, n_rows * n_vocab);
            print_message("%-24s exact: max_rel %.2e", name, rel);
            assert_true(rel <= TOL_GOLDEN_EXACT);
        } else if (way == 1) {
            double kl = kl_mean(want, got, n_rows, n_vocab);
            print_message("   fast: kl %.2e\n", kl);
            assert_true(kl <= TOL_GOLDEN_FAST_KL);
            fast = got;
            got = NULL;
        } else {
            assert_memory_equal(fast, got, n_rows * n_vocab * sizeof *got);
        }
        free(got);
        rig_close(&r);
    }
    free(fast);
    free(want);
}

/* Folders of shared; file: the checkpoint in each, or "" where it is the folder. */
static void check_models(const char *shared, const support_golden *list, size_t n,
                         const char *file) {
    for (size_t i = 0; i < n; ++i) {
        char folder[SUPPORT_PATH_MAX];
        char model[SUPPORT_PATH_MAX];
        goldens g;
        (void)support_join(folder, shared, list[i].name);
        (void)support_join(g.path, folder, "golden.safetensors");
        goldens_open(&g);
        check_model(list[i].name, file[0] != '\0' ? support_join(model, folder, file) : folder, &g);
        goldens_close(&g);
    }
}

static void mlx_models_agree(void **state) {
    char shared[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(shared, "goldens-mlx");
    check_models(shared, SUPPORT_SHARED_MLX, SUPPORT_LEN(SUPPORT_SHARED_MLX), "");
}

static void foreign_models_agree(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_models(support_data_path(dir, "goldens-foreign"), SUPPORT_FOREIGN,
                 SUPPORT_LEN(SUPPORT_FOREIGN), "");
}

static void gguf_models_agree(void **state) {
    char shared[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(shared, "goldens-gguf");
    check_models(shared, SUPPORT_SHARED_QUANTS, SUPPORT_LEN(SUPPORT_SHARED_QUANTS), "model.gguf");
}

static void gpt_oss_blocks_agree(void **state) {
    static const support_golden BLOCKS[] = {{"gpt-oss-blocks", TOL_GOLDEN_EXACT}};
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_models(support_data_path(dir, "goldens"), BLOCKS, SUPPORT_LEN(BLOCKS), "");
}

/* Replaces the first old in text by new of the same length. */
static void replace(char *text, size_t len, const char *old, const char *new_text) {
    size_t n = strlen(old);
    assert_int_equal(strlen(new_text), n);
    for (size_t i = 0; i + n <= len; ++i) {
        if (memcmp(text + i, old, n) == 0) {
            memcpy(text + i, new_text, n);
            return;
        }
    }
    fail_msg("\"%s\" is not there", old);
}

/* In the config or in the header of the tensors; same lengths keep offsets true. */
typedef struct lie {
    bool is_config;
    const char *old, *new_text;
    const char *words[2]; /* what the error must say */
} lie;

/* Opens the folder with one lie, or with none. */
static void tell(const char *folder, const lie *l) {
    static mem_fs m;
    char path[SUPPORT_PATH_MAX];
    size_t lens[2] = {0};
    rig r;
    tdm_error err = {0};
    char *config = support_read_file(support_join(path, folder, "config.json"), &lens[0]);
    char *model = support_read_file(support_join(path, folder, "model.safetensors"), &lens[1]);
    if (l != NULL && l->is_config) {
        char *ours = strstr(config, "\"quantization\"");
        char *theirs = strstr(config, "\"quantization_config\"");
        if (ours != NULL) {
            replace(ours, strlen(ours), l->old, l->new_text);
        }
        replace(theirs, strlen(theirs), l->old, l->new_text);
    } else if (l != NULL) {
        replace(model, lens[1], l->old, l->new_text);
    }
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", config);
    mem_fs_put(&m, "d/model.safetensors", (const uint8_t *)model, lens[1]);
    tdm_status status = rig_open(&r, "d", &m.fs, TDM_TIER_EXACT, false, &err);
    if (l == NULL) {
        assert_int_equal(status, TDM_OK);
    } else if (status == TDM_OK || strstr(err.what, l->words[0]) == NULL ||
               strstr(err.what, l->words[1]) == NULL || err.where[0] == '\0') {
        fail_msg("%s: %s (%s)", l->new_text, err.what, err.where);
    }
    rig_close(&r);
    free(model);
    free(config);
}

/* One lie at a time. */
static void contradictions_are_refused(void **state) {
    static const lie LIES[] = {
        {true, "\"bits\": 4", "\"bits\": 8", {"8 bits", "4 bits"}},
        {true, "\"group_size\": 32", "\"group_size\": 64", {"of 64", "of 32"}},
        {true, "\"bits\": 4", "\"bits\": 7", {"7 bits", "groups of 32"}},
        {true, "\"mode\": \"affine\"", "\"mode\": \"affinf\"", {"affinf", "mode"}},
        {false, "0.mlp.up_proj.scales", "0.mlp.up_proj.scalez", {"up_proj", "scales"}},
        {false, "0.mlp.up_proj.biases", "0.mlp.up_proj.biasez", {"up_proj", "biases"}},
        {false, "embed_tokens.biases", "embed_tokens.biasez", {"embed_tokens", "biases"}},
    };
    char folder[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(folder, "goldens-mlx/llama-q4g32");
    for (size_t i = 0; i < SUPPORT_LEN(LIES); ++i) {
        tell(folder, &LIES[i]);
    }
    tell(folder, NULL);
}

#define LAYER "model.layers.0."
#define EXPERTS LAYER "mlp.experts."

static void other_gpt_oss_are_refused(void **state) {
    static const lie LIES[] = {
        {false,
         LAYER "self_attn.sinks\":{\"dtype\":\"BF16\",\"shape\":[4]",
         LAYER "self_attn.sinks\":{\"dtype\":\"F32\", \"shape\":[2]",
         {"sinks", "[2]"}},
        {false, LAYER "self_attn.sinks", LAYER "self_attn.sinkz", {"sinks", "missing"}},
        {false,
         "gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[4,128,2]",
         "gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[4,2,128]",
         {"scales", "[4, 2, 128]"}},
        {false,
         "gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[4,128,2,16]",
         "gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[4,128,16,2]",
         {"blocks", "[4, 128, 16, 2]"}},
        {false,
         "down_proj_blocks\":{\"dtype\":\"U8\",\"shape\":[4,64,2,16]",
         "down_proj_blocks\":{\"dtype\":\"I8\",\"shape\":[4,64,2,16]",
         {"blocks", "I8"}},
        {false,
         EXPERTS "down_proj_scales",
         EXPERTS "down_proj_scalez",
         {"down_proj_scales", "missing"}},
        {false,
         EXPERTS "gate_up_proj_blocks",
         EXPERTS "gate_up_proj_blockz",
         {"gate_up_proj", "missing"}},
        {false,
         EXPERTS "gate_up_proj_bias",
         EXPERTS "gate_up_proj_biaz",
         {"gate_up_proj_bias", "missing"}},
        {false,
         "gate_up_proj_bias\":{\"dtype\":\"BF16\",\"shape\":[4,128]",
         "gate_up_proj_bias\":{\"dtype\":\"BF16\",\"shape\":[128,4]",
         {"bias", "[128, 4]"}},
        {false, LAYER "mlp.router.bias", LAYER "mlp.router.biaz", {"router.bias", "missing"}},
    };
    char folder[SUPPORT_PATH_MAX];
    (void)state;
    (void)support_data_path(folder, "goldens/gpt-oss-blocks");
    for (size_t i = 0; i < SUPPORT_LEN(LIES); ++i) {
        tell(folder, &LIES[i]);
    }
    tell(folder, NULL);
}

#define FP8_ROWS 130
#define FP8_COLUMNS 200

/* A checkpoint of one fp8 weight, with n_scales rows of two scales. */
static void put_fp8(mem_fs *m, bytes *model, int n_scales) {
    static const char CONFIG[] = "{\"model_type\":\"deepseek_v3\",\"quantization_config\":"
                                 "{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}";
    const float scales[4] = {0.5f, 3.0f, 0x1.234p-3f, -0.75f};
    char header[256];
    int n_codes = FP8_ROWS * FP8_COLUMNS;
    int n = snprintf(header, sizeof header,
                     "{\"lm_head.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[130,200],"
                     "\"data_offsets\":[0,%d]},\"lm_head.weight_scale_inv\":{\"dtype\":\"F32\","
                     "\"shape\":[%d,2],\"data_offsets\":[%d,%d]}}",
                     n_codes, n_scales, n_codes, n_codes + 8 * n_scales);
    mem_fs_init(m);
    mem_fs_put_text(m, "d/config.json", CONFIG);
    bytes_u64(model, (uint64_t)n);
    bytes_put(model, header, (size_t)n);
    for (int i = 0; i < n_codes; ++i) { /* every code but NaN */
        const uint8_t code = (uint8_t)((i * 37) % 127 + 128 * (i & 1));
        bytes_put(model, &code, 1);
    }
    bytes_put(model, scales, (size_t)(8 * n_scales));
    mem_fs_put(m, "d/model.safetensors", model->data, model->len);
}

/* Values by their definition, in f64 and rounded once. */
static void check_fp8_rows(const tdm_weight *w) {
    static const double SCALES[2][2] = {{0.5, 3.0}, {0x1.234p-3, -0.75}};
    for (int r = 0; r < FP8_ROWS; ++r) {
        float row[FP8_COLUMNS];
        tdm_weight_row(w, r, row);
        for (int c = 0; c < FP8_COLUMNS; ++c) {
            int i = r * FP8_COLUMNS + c;
            int code = (i * 37) % 127;
            double magnitude = code < 8 ? ldexp(code, -9) : ldexp(8 + code % 8, code / 8 - 10);
            double want = (i % 2 != 0 ? -magnitude : magnitude) * SCALES[r / 128][c / 128];
            if (row[c] != (float)want) {
                fail_msg("fp8 [%d, %d] is %.9g, not %.9g", r, c, (double)row[c], want);
            }
        }
    }
}

static void fp8_blocks_are_read(void **state) {
    static mem_fs m;
    (void)state;
    for (int n_scales = 2; n_scales >= 1; --n_scales) {
        bytes model = {0};
        tdm_checkpoint *checkpoint = NULL;
        tdm_backend *be = NULL;
        tdm_loader loader;
        tdm_linear linear;
        tdm_arena arena;
        tdm_error err = {0};
        const tdm_checkpoint_options options = {.fs = &m.fs};
        const tdm_cpu_options cpu = {.tier = TDM_TIER_FAST, .n_threads = 1};
        put_fp8(&m, &model, n_scales);
        tdm_arena_init(&arena, NULL);
        if (tdm_cpu_backend_create(&be, NULL, &cpu, &err) != TDM_OK ||
            tdm_checkpoint_open(&checkpoint, NULL, "d", &options, &err) != TDM_OK ||
            tdm_loader_init(&loader, checkpoint, be, &arena, &err) != TDM_OK) {
            fail_msg("%s (%s)", err.what, err.where);
        }
        tdm_status status = tdm_loader_linear(&loader, TDM_ROLE_HEAD, 0, FP8_ROWS, FP8_COLUMNS,
                                              TDM_BIAS_NONE, &linear, &err);
        if (n_scales == 2) {
            assert_int_equal(status, TDM_OK);
            assert_int_equal(linear.weight.mode, TDM_WEIGHT_FP8);
            check_fp8_rows(&linear.weight);
            assert_int_equal(tdm_loader_finish(&loader, &err), TDM_OK);
            tdm_weight_deinit(be, &linear.weight);
        } else {
            assert_int_equal(status, TDM_E_SHAPE);
            assert_non_null(strstr(err.what, "lm_head.weight"));
        }
        tdm_checkpoint_close(checkpoint);
        tdm_arena_deinit(&arena);
        be->ops->destroy(be);
        bytes_free(&model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mlx_units_agree),           cmocka_unit_test(gguf_products_agree),
        cmocka_unit_test(mlx_models_agree),          cmocka_unit_test(gguf_models_agree),
        cmocka_unit_test(foreign_models_agree),      cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(fp8_blocks_are_read),       cmocka_unit_test(gpt_oss_blocks_agree),
        cmocka_unit_test(other_gpt_oss_are_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
