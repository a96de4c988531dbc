/* SPDX-License-Identifier: Apache-2.0
 *
 * Checkpoints of other tool chains whose config, names, shapes or orders lie: one lie at a time, each
 * refused with what is wrong and where. test_weights.c has the truth. */
#include "support/support.h"

#include "backend/cpu/cpu.h"
#include "model/model.h"
#include "unit/formats/mem_fs.h"

typedef struct files {
    char *config;
    char *model;
    size_t model_bytes;
} files;

static void files_read(files *f, const char *name) {
    char rel[96];
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    size_t n = 0;
    (void)snprintf(rel, sizeof rel, "goldens-foreign/%s", name);
    (void)support_data_path(folder, rel);
    f->config = support_read_file(support_join(path, folder, "config.json"), &n);
    f->model = support_read_file(support_join(path, folder, "model.safetensors"), &f->model_bytes);
    assert_true(f->config != NULL && f->model != NULL);
}

static void files_free(files *f) {
    free(f->config);
    free(f->model);
}

static tdm_status load(const files *f, tdm_error *err) {
    static mem_fs m;
    static tdm_model_config config;
    tdm_alloc_tracker tracker;
    tdm_backend *backend = NULL;
    tdm_checkpoint *checkpoint = NULL;
    tdm_graph *graph = NULL;
    tdm_status status = TDM_OK;
    const tdm_cpu_options cpu = {.tier = TDM_TIER_FAST, .n_threads = 1};
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", f->config);
    mem_fs_put(&m, "d/model.safetensors", f->model, f->model_bytes);
    tdm_alloc_tracker_init(&tracker, NULL);
    const tdm_checkpoint_options options = {.fs = &m.fs};
    const tdm_graph_options graph_options = {.alloc = &tracker.alloc};
    assert_int_equal(tdm_cpu_backend_create(&backend, &tracker.alloc, &cpu, err), TDM_OK);
    TDM_TRY_GOTO(status, tdm_checkpoint_open(&checkpoint, &tracker.alloc, "d", &options, err),
                 done);
    TDM_TRY_GOTO(status, tdm_model_config_read(&config, checkpoint, err), done);
    status = tdm_graph_create(&graph, checkpoint, &config, backend, &graph_options, err);
done:
    if (graph != NULL) {
        graph->ops->destroy(graph);
    }
    tdm_checkpoint_close(checkpoint);
    backend->ops->destroy(backend);
    assert_int_equal(tracker.live_bytes, 0);
    return status;
}

/* The first old in text, which must be there, becomes new_text: of the same length in a header of
 * tensors, of any in a config. */
static void replace(char *text, size_t len, const char *old, const char *new_text) {
    size_t n = strlen(old);
    for (size_t i = 0; i + n <= len; ++i) {
        if (memcmp(text + i, old, n) == 0) {
            memcpy(text + i, new_text, n);
            return;
        }
    }
    fail_msg("\"%s\" is not there", old);
}

static void replace_any(char **text, const char *old, const char *new_text) {
    char *at = strstr(*text, old);
    if (at == NULL) {
        fail_msg("\"%s\" is not there", old);
    }
    const size_t bytes = strlen(*text) + strlen(new_text) + 1;
    char *out = malloc(bytes);
    assert_non_null(out);
    (void)snprintf(out, bytes, "%.*s%s%s", (int)(at - *text), *text, new_text, at + strlen(old));
    free(*text);
    *text = out;
}

typedef struct lie {
    const char *name;
    const char *old, *new_text;
    tdm_status status;
    const char *words[2]; /* what the error must say */
} lie;

static void expect(const lie *l, tdm_status status, const tdm_error *err) {
    if (status != l->status || err->where[0] == '\0' || strstr(err->what, l->words[0]) == NULL ||
        strstr(err->what, l->words[1]) == NULL) {
        fail_msg("%s, %s: %d, %s (%s)", l->name, l->new_text, (int)status, err->what, err->where);
    }
}

#define AWQ "awq-llama-g32"
#define GPTQ "gptq-llama-act-order"
#define PACKED "ct-int4-act-order"
#define ASYM "ct-int4-asym-g64"

static void lying_configs_are_refused(void **state) {
    static const lie LIES[] = {
        {AWQ, "\"bits\": 4", "\"bits\": 3", TDM_E_FORMAT, {"3 bits", "4 bits"}},
        {AWQ, "\"group_size\": 32", "\"group_size\": 64", TDM_E_FORMAT, {"of 64", "of 32"}},
        {AWQ, "\"gemm\"", "\"gemv\"", TDM_E_UNSUPPORTED, {"gemv", "version"}},
        {AWQ, "\"awq\"", "\"bitsandbytes\"", TDM_E_UNSUPPORTED, {"bitsandbytes", "nf4"}},
        {AWQ, "\"awq\"", "\"gptq\"", TDM_E_SHAPE, {"qweight", "words"}},
        {AWQ, "\"awq\"", "\"fp8\"", TDM_E_UNSUPPORTED, {"qweight", "quant_method"}},
        {AWQ,
         "\"modules_to_not_convert\": null",
         "\"modules_to_not_convert\": [\"up_proj\"]",
         TDM_E_FORMAT,
         {"up_proj", "not quantized"}},
        {GPTQ,
         "\"checkpoint_format\": \"gptq\"",
         "\"checkpoint_format\": \"marlin\"",
         TDM_E_UNSUPPORTED,
         {"marlin", "checkpoint_format"}},
        {GPTQ, "\"group_size\": 32", "\"group_size\": -1", TDM_E_FORMAT, {"of 64", "of 32"}},
        {PACKED, "\"num_bits\": 4", "\"num_bits\": 8", TDM_E_FORMAT, {"8 bits", "4 bits"}},
        {PACKED,
         "\"kv_cache_scheme\": null",
         "\"kv_cache_scheme\": {\"num_bits\": 8}",
         TDM_E_UNSUPPORTED,
         {"kv_cache_scheme", "keys"}},
        {PACKED, "\"lm_head\"", "\"model.layers.1\"", TDM_E_FORMAT, {"layers.1", "not quantized"}},
        {"ct-fp8-block",
         "[\n      32,\n      64\n     ]",
         "[64, 64]",
         TDM_E_SHAPE,
         {"scales", "[64, 64]"}},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LIES); ++i) {
        files f;
        tdm_error err = {0};
        files_read(&f, LIES[i].name);
        replace_any(&f.config, LIES[i].old, LIES[i].new_text);
        expect(&LIES[i], load(&f, &err), &err);
        files_free(&f);
    }
}

/* In the header of tensors: names and shapes, at equal length, so that offsets stay true. */
static void lying_tensors_are_refused(void **state) {
    static const lie LIES[] = {
        {AWQ, "0.mlp.up_proj.qzeros", "0.mlp.up_proj.qzeroz", TDM_E_FORMAT, {"up_proj", "qzeros"}},
        {AWQ, "0.mlp.up_proj.scales", "0.mlp.up_proj.scalez", TDM_E_FORMAT, {"up_proj", "scales"}},
        {AWQ,
         "0.mlp.up_proj.qweight",
         "0.mlp.up_proj.qweighs",
         TDM_E_FORMAT,
         {"up_proj", "missing"}},
        {AWQ, "\"shape\":[64,16]", "\"shape\":[16,64]", TDM_E_SHAPE, {"qweight", "shape"}},
        {AWQ,
         "\"F16\",\"shape\":[2,128]",
         "\"F16\",\"shape\":[128,2]",
         TDM_E_SHAPE,
         {"scales", "shape"}},
        {AWQ,
         "\"F16\",\"shape\":[2,128]",
         "\"I16\",\"shape\":[2,128]",
         TDM_E_SHAPE,
         {"scales", "I16"}},
        {GPTQ, "0.mlp.up_proj.g_idx", "0.mlp.up_proj.g_idz", TDM_E_FORMAT, {"g_idz", "no place"}},
        {GPTQ,
         "\"I32\",\"shape\":[128]",
         "\"F32\",\"shape\":[128]",
         TDM_E_SHAPE,
         {"g_idx", "stored as F32"}},
        {GPTQ,
         "\"I32\",\"shape\":[8,128]",
         "\"F32\",\"shape\":[8,128]",
         TDM_E_SHAPE,
         {"qweight", "stored as F32"}},
        {PACKED,
         "0.mlp.up_proj.weight_g_idx",
         "0.mlp.up_proj.weight_g_idz",
         TDM_E_FORMAT,
         {"weight_g_idx", "up_proj"}},
        {PACKED,
         "0.mlp.up_proj.weight_scale",
         "0.mlp.up_proj.weight_scalz",
         TDM_E_FORMAT,
         {"weight_scale", "up_proj"}},
        {ASYM,
         "0.mlp.up_proj.weight_zero_point",
         "0.mlp.up_proj.weight_zero_poinz",
         TDM_E_FORMAT,
         {"zero_poinz", "no place"}},
        {"ct-nvfp4",
         "0.mlp.up_proj.weight_global_scale",
         "0.mlp.up_proj.weight_global_scalz",
         TDM_E_SHAPE,
         {"weight_scale", "shape"}},
        {"ct-int8-channel",
         "\"F16\",\"shape\":[128,1]",
         "\"F16\",\"shape\":[1,128]",
         TDM_E_SHAPE,
         {"weight_scale", "shape"}},
        {"ct-w8a8-int",
         "\"I8\",\"shape\":[128,64]",
         "\"U8\",\"shape\":[128,64]",
         TDM_E_SHAPE,
         {"weight", "shape"}},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LIES); ++i) {
        files f;
        tdm_error err = {0};
        files_read(&f, LIES[i].name);
        replace(f.model, f.model_bytes, LIES[i].old, LIES[i].new_text);
        expect(&LIES[i], load(&f, &err), &err);
        files_free(&f);
    }
}

/* Where the data of a tensor begins; the header says it behind its own length. */
static uint8_t *data_of(files *f, const char *tensor) {
    uint64_t header = 0;
    memcpy(&header, f->model, sizeof header);
    char *at = strstr(f->model + 8, tensor);
    assert_non_null(at);
    at = strstr(at, "\"data_offsets\":[");
    assert_non_null(at);
    const long offset = strtol(at + strlen("\"data_offsets\":["), NULL, 10);
    return (uint8_t *)f->model + 8 + header + offset;
}

/* One column of group 0 said to be of another: outside of all groups, or one too many of the next. */
static void orders_that_are_none_are_refused(void **state) {
    static const char *const NAMES[][2] = {
        {GPTQ, "\"model.layers.1.mlp.down_proj.g_idx\""},
        {PACKED, "\"model.layers.1.mlp.down_proj.weight_g_idx\""}};
    static const int32_t GROUPS[] = {4, -1, INT32_MIN, INT32_MAX, 1};
    (void)state;
    for (size_t n = 0; n < SUPPORT_LEN(NAMES); ++n) {
        for (size_t i = 0; i <= SUPPORT_LEN(GROUPS); ++i) {
            files f;
            tdm_error err = {0};
            files_read(&f, NAMES[n][0]);
            uint8_t *data = data_of(&f, NAMES[n][1]);
            for (int32_t c = 0; i < SUPPORT_LEN(GROUPS) && c < 128; ++c) {
                int32_t group = -1;
                memcpy(&group, data + 4 * c, sizeof group);
                if (group == 0) {
                    memcpy(data + 4 * c, &GROUPS[i], sizeof group);
                    break;
                }
            }
            tdm_status status = load(&f, &err);
            if (i == SUPPORT_LEN(GROUPS)) {
                assert_int_equal(status, TDM_OK);
            } else if (status != TDM_E_FORMAT || strstr(err.what, "g_idx") == NULL) {
                fail_msg("%s, group %d: %s", NAMES[n][0], (int)GROUPS[i], err.what);
            }
            files_free(&f);
        }
    }
}

/* A bias that nobody asked for is taken for nothing only where it is zero. */
static void a_bias_that_counts_is_refused(void **state) {
    files f;
    tdm_error err = {0};
    (void)state;
    files_read(&f, "gptq-llama-g32");
    assert_int_equal(load(&f, &err), TDM_OK);
    data_of(&f, "\"model.layers.1.mlp.down_proj.bias\"")[5] = 0x3c;
    assert_int_equal(load(&f, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "down_proj.bias"));
    files_free(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lying_configs_are_refused),
        cmocka_unit_test(lying_tensors_are_refused),
        cmocka_unit_test(orders_that_are_none_are_refused),
        cmocka_unit_test(a_bias_that_counts_is_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
