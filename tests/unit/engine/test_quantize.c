/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole conversions on a simulated disk: threads and interruptions do not change a byte, every failing
 * operation ends in an error that leaves nothing torn, recipes do what they say or are refused. */
#include "support/support.h"

#include "engine/quantize.h"
#include "formats/checkpoint.h"
#include "formats/gguf.h"
#include "formats/quant_config.h"

static void put_golden(tdm_fs_sim *sim, const char *family, const char *name) {
    char rel[256];
    char path[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    (void)snprintf(rel, sizeof rel, "goldens/%s/%s", family, name);
    char *data = support_read_file(support_data_path(path, rel), &bytes);
    (void)snprintf(rel, sizeof rel, "src/%s", name);
    assert_int_equal(tdm_fs_sim_put(sim, rel, data, bytes, NULL), TDM_OK);
    free(data);
}

static tdm_fs_sim *disk_of(const char *family) {
    tdm_fs_sim *sim = NULL;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
    put_golden(sim, family, "config.json");
    put_golden(sim, family, "model.safetensors");
    assert_int_equal(tdm_fs_sim_put(sim, "src/tokenizer.json", "{}", 2, NULL), TDM_OK);
    return sim;
}

static tdm_status convert(tdm_fs_sim *sim, const tdm_quantize_options *options,
                          tdm_quantize_report *report, tdm_error *err) {
    tdm_quantize_options own = *options;
    own.fs = tdm_fs_sim_fs(sim);
    return tdm_quantize(NULL, "src", "out", &own, report, err);
}

static void must_convert(tdm_fs_sim *sim, const tdm_quantize_options *options,
                         tdm_quantize_report *report) {
    tdm_error err = {0};
    if (convert(sim, options, report, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
}

/* Hash-free comparison of two disks' file. */
static void expect_same_file(tdm_fs_sim *a, tdm_fs_sim *b, const char *path) {
    tdm_blob x;
    tdm_blob y;
    assert_int_equal(tdm_blob_open(&x, tdm_fs_sim_fs(a), path, NULL), TDM_OK);
    assert_int_equal(tdm_blob_open(&y, tdm_fs_sim_fs(b), path, NULL), TDM_OK);
    assert_int_equal(x.bytes, y.bytes);
    assert_memory_equal(x.data, y.data, x.bytes);
    tdm_blob_close(&x);
    tdm_blob_close(&y);
}

static void expect_same_folder(tdm_fs_sim *a, tdm_fs_sim *b) {
    expect_same_file(a, b, "out/model.safetensors");
    expect_same_file(a, b, "out/config.json");
    expect_same_file(a, b, "out/model.safetensors.index.json");
    expect_same_file(a, b, "out/tokenizer.json");
}

static const tdm_quantize_options FOUR = {.bits = 4, .group = 32, .n_threads = 1};

static void test_output_opens(void **state) {
    tdm_quantize_report report;
    tdm_checkpoint *checkpoint = NULL;
    (void)state;
    tdm_fs_sim *sim = disk_of("llama");
    const tdm_checkpoint_options open = {.fs = tdm_fs_sim_fs(sim), .is_strict = true};
    must_convert(sim, &FOUR, &report);
    assert_true(report.n_quantized > 0 && report.n_kept > 0 && report.bytes > 0);
    assert_true(report.bytes * 3 < report.source_bytes);
    assert_int_equal(report.resumed_bytes, 0);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "out", &open, NULL), TDM_OK);
    const tdm_checkpoint_tensor *weight =
        tdm_checkpoint_find(checkpoint, "model.layers.0.self_attn.q_proj.weight");
    assert_non_null(weight);
    assert_int_equal(weight->view.dtype, TDM_DTYPE_U32);
    assert_non_null(tdm_checkpoint_find(checkpoint, "model.embed_tokens.biases"));
    assert_null(tdm_checkpoint_find(checkpoint, "model.norm.scales"));
    tdm_quant_config quant;
    assert_int_equal(tdm_quant_config_read(&quant, tdm_checkpoint_config(checkpoint), "c", NULL),
                     TDM_OK);
    assert_int_equal(quant.default_quant.bits, 4);
    assert_int_equal(quant.default_quant.group, 32);
    tdm_checkpoint_close(checkpoint);
    tdm_fs_sim_destroy(sim);
}

static void test_threads_and_shards(void **state) {
    tdm_quantize_report report;
    (void)state;
    tdm_fs_sim *one = disk_of("llama");
    must_convert(one, &FOUR, &report);
    for (int32_t n = 2; n <= 5; n++) {
        tdm_quantize_options options = FOUR;
        tdm_fs_sim *many = disk_of("llama");
        options.n_threads = n;
        must_convert(many, &options, &report);
        expect_same_folder(one, many);
        tdm_fs_sim_destroy(many);
    }
    tdm_quantize_options small = FOUR;
    tdm_fs_sim *sim = disk_of("llama");
    tdm_checkpoint *checkpoint = NULL;
    const tdm_checkpoint_options open = {.fs = tdm_fs_sim_fs(sim), .is_strict = true};
    small.shard_bytes = 20000;
    must_convert(sim, &small, &report);
    assert_in_range(report.n_files, 3, 20);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "out", &open, NULL), TDM_OK);
    assert_int_equal(tdm_checkpoint_n_files(checkpoint), report.n_files);
    tdm_checkpoint_close(checkpoint);
    tdm_fs_sim_destroy(sim);
    tdm_fs_sim_destroy(one);
}

/* Dies at an operation, loses power, goes on: the bytes of an undisturbed run. */
static void test_dies_and_goes_on(void **state) {
    tdm_quantize_options options = FOUR;
    tdm_quantize_report report;
    uint64_t resumed = 0;
    bool is_done = false;
    (void)state;
    options.checkpoint_bytes = 9000;
    tdm_fs_sim *calm = disk_of("llama");
    must_convert(calm, &options, &report);
    for (size_t nth = 1; !is_done; nth += nth < 30 ? 1 : 3) {
        tdm_error err = {0};
        bool is_folder = false;
        tdm_fs_sim *sim = disk_of("llama");
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        assert_true(nth < 2000);
        tdm_fs_sim_die_at(sim, nth);
        is_done = convert(sim, &options, &report, &err) == TDM_OK;
        tdm_fs_sim_fail_at(sim, 0);
        tdm_fs_sim_cut_power(sim, nth);
        if (!fs->exists(fs->ctx, "out", &is_folder)) {
            must_convert(sim, &options, &report);
            resumed += report.resumed_bytes;
        }
        expect_same_folder(calm, sim);
        tdm_fs_sim_destroy(sim);
    }
    assert_true(resumed > 0);
    tdm_fs_sim_destroy(calm);
}

/* Another source under the same name must not be mixed with what the first one left. */
static void test_changed_source(void **state) {
    tdm_quantize_report report;
    tdm_error err = {0};
    (void)state;
    tdm_fs_sim *sim = disk_of("llama");
    tdm_fs_sim_die_at(sim, 60);
    assert_int_equal(convert(sim, &FOUR, &report, &err), TDM_E_IO);
    tdm_fs_sim_fail_at(sim, 0);
    put_golden(sim, "llama", "model.safetensors"); /* written again: another time */
    assert_int_equal(convert(sim, &FOUR, &report, &err), TDM_E_STATE);
    assert_true(strstr(err.where, "out.partial") != NULL);
    tdm_fs_sim_destroy(sim);
}

static bool stop_at_half(void *arg, uint64_t done, uint64_t all) {
    uint64_t *last = arg;
    assert_true(done > *last || done == 0);
    assert_true(done <= all);
    *last = done;
    return done * 2 > all;
}

static void test_cancelled(void **state) {
    tdm_quantize_options options = FOUR;
    tdm_quantize_report report;
    tdm_error err = {0};
    uint64_t last = 0;
    bool is_folder = false;
    (void)state;
    tdm_fs_sim *sim = disk_of("llama");
    options.progress = stop_at_half;
    options.progress_arg = &last;
    assert_int_equal(convert(sim, &options, &report, &err), TDM_E_CANCELLED);
    assert_false(tdm_fs_sim_fs(sim)->exists(sim, "out", &is_folder));
    must_convert(sim, &FOUR, &report);
    tdm_fs_sim_destroy(sim);
}

static void test_every_allocation_fails(void **state) {
    size_t nth = 1;
    (void)state;
    for (;; nth += nth < 100 ? 1 : 37) {
        tdm_quantize_options options = FOUR;
        tdm_quantize_report report;
        tdm_error err = {0};
        tdm_alloc_tracker tracker;
        tdm_fs_sim *sim = disk_of("llama");
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        options.fs = tdm_fs_sim_fs(sim);
        const tdm_status status =
            tdm_quantize(&tracker.alloc, "src", "out", &options, &report, &err);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        tdm_fs_sim_destroy(sim);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
        assert_true(nth < 20000);
    }
    assert_true(nth > 50);
}

/* ---- GGUF ---- */

static void test_gguf_output(void **state) {
    tdm_quantize_options options = {.gguf = "Q4_K_M", .n_threads = 2, .checkpoint_bytes = 9000};
    tdm_quantize_report report;
    tdm_checkpoint *checkpoint = NULL;
    tdm_gguf_text text;
    uint64_t value = 0;
    size_t n_k = 0;
    (void)state;
    tdm_fs_sim *calm = disk_of("llama");
    const tdm_checkpoint_options open = {.fs = tdm_fs_sim_fs(calm), .is_strict = true};
    assert_int_equal(
        tdm_fs_sim_fs(calm)->unlink(tdm_fs_sim_fs(calm)->ctx, "src/tokenizer.json", NULL),
        TDM_OK); /* none at all: a file without tokenizer */
    must_convert(calm, &options, &report);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "out", &open, NULL), TDM_OK);
    const tdm_gguf *gguf = tdm_checkpoint_gguf(checkpoint);
    assert_true(tdm_gguf_get_u64(gguf, "general.file_type", &value) && value == 15);
    assert_true(tdm_gguf_get_u64(gguf, "llama.block_count", &value) && value == 4);
    assert_true(tdm_gguf_get_text(gguf, "tokenizer.ggml.model", &text) && text.len == 4);
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        assert_int_equal(tensor->offset % 32, 0);
        if (tensor->view.rank == 1) {
            assert_int_equal(tensor->view.dtype, TDM_DTYPE_F32);
        }
        n_k += tensor->view.dtype == TDM_DTYPE_Q5_0 ? 1 : 0; /* rows of 64 hold no block of 256 */
    }
    assert_true(n_k > 10);
    const tdm_checkpoint_tensor *head = tdm_checkpoint_find(checkpoint, "token_embd.weight");
    assert_int_equal(head->view.dtype, TDM_DTYPE_Q8_0);
    tdm_checkpoint_close(checkpoint);
    for (size_t nth = 1; nth < 80; nth += 2) {
        tdm_error err = {0};
        bool is_folder = false;
        tdm_fs_sim *sim = disk_of("llama");
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        assert_int_equal(fs->unlink(fs->ctx, "src/tokenizer.json", NULL), TDM_OK);
        tdm_fs_sim_die_at(sim, nth);
        const tdm_status status = convert(sim, &options, &report, &err);
        assert_true(status == TDM_OK || status == TDM_E_IO);
        tdm_fs_sim_fail_at(sim, 0);
        tdm_fs_sim_cut_power(sim, nth);
        if (!fs->exists(fs->ctx, "out", &is_folder)) {
            must_convert(sim, &options, &report);
        }
        expect_same_file(calm, sim, "out");
        tdm_fs_sim_destroy(sim);
    }
    tdm_fs_sim_destroy(calm);
}

/* Absurd shapes in a header that is otherwise right. */
static void test_absurd_shapes(void **state) {
    static const char *const SHAPES[] = {
        "[1, 0]", "[0]", "[]", "[4611686018427387904, 4]", "[1, 1, 1, 1, 1]", "[2, 2]"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SHAPES); i++) {
        for (int is_gguf = 0; is_gguf < 2; is_gguf++) {
            char header[256];
            uint8_t file[300] = {0};
            tdm_quantize_report report;
            tdm_error err = {0};
            const tdm_quantize_options options = {.gguf = is_gguf != 0 ? "Q8_0" : NULL,
                                                  .n_threads = 1};
            bool is_folder = false;
            const int n = snprintf(header, sizeof header,
                                   "{\"model.layers.0.self_attn.q_proj.weight\":{\"dtype\":\"F32\","
                                   "\"shape\":%s,\"data_offsets\":[0,16]}}",
                                   SHAPES[i]);
            file[0] = (uint8_t)n;
            memcpy(file + 8, header, (size_t)n);
            tdm_fs_sim *sim = disk_of("llama");
            const tdm_fs *fs = tdm_fs_sim_fs(sim);
            assert_int_equal(
                tdm_fs_sim_put(sim, "src/model.safetensors", file, 8 + (size_t)n + 16, NULL),
                TDM_OK);
            const tdm_status status = convert(sim, &options, &report, &err);
            assert_true(status == TDM_OK || err.what[0] != '\0');
            assert_int_equal(fs->exists(fs->ctx, "out", &is_folder), status == TDM_OK);
            tdm_fs_sim_destroy(sim);
        }
    }
}

/* ---- recipes ---- */

static tdm_status with_recipe(const char *family, const char *text, bool is_gguf, tdm_fs_sim **out,
                              tdm_error *err) {
    tdm_quantize_report report;
    tdm_quantize_options options = {
        .n_threads = 1, .recipe_text = text, .recipe_len = strlen(text), .recipe_name = "r.json"};
    options.gguf = is_gguf ? "Q8_0" : NULL;
    tdm_fs_sim *sim = disk_of(family);
    memset(err, 0, sizeof *err);
    const tdm_status status = convert(sim, &options, &report, err);
    if (out != NULL) {
        *out = sim;
    } else {
        tdm_fs_sim_destroy(sim);
    }
    return status;
}

static void test_recipe_list(void **state) {
    static const char TEXT[] =
        "{\"bits\": 3, \"group_size\": 32, \"model.layers.1.*\": false,"
        " \"*.down_proj\": {\"bits\": 6}, \"model.embed_tokens\": {\"mode\": \"mxfp8\"}}";
    tdm_error err;
    tdm_fs_sim *sim = NULL;
    tdm_checkpoint *checkpoint = NULL;
    tdm_quant_config config;
    tdm_quant quant;
    (void)state;
    assert_int_equal(with_recipe("llama", TEXT, false, &sim, &err), TDM_OK);
    const tdm_checkpoint_options open = {.fs = tdm_fs_sim_fs(sim), .is_strict = true};
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "out", &open, NULL), TDM_OK);
    assert_int_equal(tdm_quant_config_read(&config, tdm_checkpoint_config(checkpoint), "c", NULL),
                     TDM_OK);
    assert_int_equal(tdm_quant_config_ask(&config, "model.layers.1.mlp.down_proj", &quant),
                     TDM_QUANT_OFF);
    assert_int_equal(tdm_quant_config_ask(&config, "model.layers.0.mlp.down_proj", &quant),
                     TDM_QUANT_NAMED);
    assert_int_equal(quant.bits, 6);
    assert_int_equal(quant.group, 32);
    assert_int_equal(tdm_quant_config_ask(&config, "model.embed_tokens", &quant), TDM_QUANT_NAMED);
    assert_int_equal(quant.mode, TDM_WEIGHT_MXFP8);
    assert_null(tdm_checkpoint_find(checkpoint, "model.layers.1.mlp.down_proj.scales"));
    const tdm_checkpoint_tensor *down =
        tdm_checkpoint_find(checkpoint, "model.layers.0.mlp.down_proj.weight");
    assert_int_equal(down->view.dims[1], 128 * 6 / 32);
    tdm_checkpoint_close(checkpoint);
    tdm_fs_sim_destroy(sim);
}

/* Whatever a recipe's file holds: done or refused by name, and never half. */
static void test_hostile_recipes(void **state) {
    static const char *const TEXTS[] = {
        "",
        "[]",
        "4",
        "{\"bits\": 7}",
        "{\"bits\": -1}",
        "{\"bits\": 4.5}",
        "{\"bits\": 99999999999999999999}",
        "{\"group_size\": 48}",
        "{\"mode\": \"nf4\"}",
        "{\"mode\": 4}",
        "{\"lm_head\": true}",
        "{\"lm_head\": null}",
        "{\"lm_head\": \"Q4_K\"}",
        "{\"lm_head\": {\"bit\": 4}}",
        "{\"lm_head\": {\"bits\": 0}}",
        "{\"nothing.here\": {\"bits\": 4}}",
        "{\"*\": {\"bits\": 4}, \"model.norm\": false}",
        "{\"\": false}",
        "{\"a\\u0000b\": false}",
        "{\"*.q_proj\": {\"mode\": \"mxfp4\", \"bits\": 8}}",
        "{\"*.q_proj\": {\"group_size\": 128}}", /* rows of 64 */
        "{\"*.q_proj\": false, \"*.q_proj\": false}",
        "{\"*.q_proj\": {\"bits\": {\"bits\": {\"bits\": {\"bits\": {\"bits\": {\"b\": {\"b\": {"
        "\"b\": 1}}}}}}}}}",
        "{\"**********************************************z\": false}",
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(TEXTS); i++) {
        tdm_error err;
        const tdm_status status = with_recipe("llama", TEXTS[i], false, NULL, &err);
        if (status == TDM_OK || err.what[0] == '\0') {
            fail_msg("recipe %zu: status %d: %s", i, (int)status, err.what);
        }
    }
    for (size_t cut = 1; cut < 60; cut++) {
        tdm_error err;
        char text[64] = "{\"bits\": 4, \"*.q_proj\": {\"bits\": 6}, \"*.k_proj\": false}";
        text[cut] = '\0';
        const tdm_status status = with_recipe("llama", text, false, NULL, &err);
        assert_true(status == TDM_OK || err.what[0] != '\0');
    }
}

static void test_refuses(void **state) {
    tdm_quantize_report report;
    tdm_error err = {0};
    (void)state;
    const tdm_quantize_options wrong[] = {{.bits = 7},
                                          {.bits = 4, .group = 48},
                                          {.mode = "nf4"},
                                          {.mode = "mxfp4", .bits = 8},
                                          {.gguf = "Q9_Z"},
                                          {.gguf = "Q4_0", .bits = 4},
                                          {.recipe = "mixed_9_9"},
                                          {.recipe = "mixed_3_6", .mode = "mxfp4"}};
    tdm_fs_sim *sim = disk_of("llama");
    for (size_t i = 0; i < SUPPORT_LEN(wrong); i++) {
        assert_int_equal(convert(sim, &wrong[i], &report, &err), TDM_E_ARG);
    }
    tdm_fs_sim_destroy(sim);
    sim = disk_of("gemma4-moe"); /* its tensors would need rewriting */
    assert_int_equal(convert(sim, &FOUR, &report, &err), TDM_E_UNSUPPORTED);
    assert_true(strstr(err.what, "gemma4") != NULL);
    tdm_fs_sim_destroy(sim);
}

/* Experts of one matrix become one stack, in order. */
static void test_experts_are_stacked(void **state) {
    static const char *const FAMILIES[] = {"qwen3-moe", "mixtral", "qwen2-moe"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(FAMILIES); i++) {
        tdm_quantize_report report;
        tdm_checkpoint *checkpoint = NULL;
        tdm_fs_sim *sim = disk_of(FAMILIES[i]);
        const tdm_checkpoint_options open = {.fs = tdm_fs_sim_fs(sim), .is_strict = true};
        size_t n_stacks = 0;
        must_convert(sim, &FOUR, &report);
        assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "out", &open, NULL), TDM_OK);
        for (size_t t = 0; t < tdm_checkpoint_n_tensors(checkpoint); t++) {
            const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, t);
            assert_null(strstr(tensor->name, ".experts."));
            n_stacks += strstr(tensor->name, "switch_mlp.down_proj.weight") != NULL ? 1 : 0;
        }
        assert_true(n_stacks > 0);
        tdm_checkpoint_close(checkpoint);
        tdm_fs_sim_destroy(sim);
    }
}

/* A value that is no number would poison its whole group without a word. */
static void test_not_finite(void **state) {
    tdm_quantize_report report;
    tdm_error err = {0};
    char path[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    (void)state;
    tdm_fs_sim *sim = disk_of("llama");
    char *data =
        support_read_file(support_data_path(path, "goldens/llama/model.safetensors"), &bytes);
    data[bytes - 1] = 0x7f;
    data[bytes - 2] = (char)0xc0;
    for (size_t i = 3; i < 40000; i += 2) {
        data[bytes - i] = 0x7f;
        data[bytes - i - 1] = (char)0xc0;
    }
    assert_int_equal(tdm_fs_sim_put(sim, "src/model.safetensors", data, bytes, NULL), TDM_OK);
    assert_int_equal(convert(sim, &FOUR, &report, &err), TDM_E_FORMAT);
    assert_true(strstr(err.what, "not finite") != NULL);
    free(data);
    tdm_fs_sim_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_opens),     cmocka_unit_test(test_threads_and_shards),
        cmocka_unit_test(test_dies_and_goes_on), cmocka_unit_test(test_changed_source),
        cmocka_unit_test(test_cancelled),        cmocka_unit_test(test_every_allocation_fails),
        cmocka_unit_test(test_gguf_output),      cmocka_unit_test(test_absurd_shapes),
        cmocka_unit_test(test_recipe_list),      cmocka_unit_test(test_hostile_recipes),
        cmocka_unit_test(test_refuses),          cmocka_unit_test(test_experts_are_stacked),
        cmocka_unit_test(test_not_finite),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
