/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that other programs wrote: the plain goldens of the repository, and the shared GGUF and MLX
 * ones. Each of the 50 odd GGUF files is accepted or refused as its list says; those whose
 * refusal needs the model's audit of tensors are only opened here. */
#include "formats/config.h"
#include "formats/gguf.h"

#include "support/support.h"

static tdm_checkpoint *must_open(const char *path) {
    tdm_checkpoint *checkpoint = NULL;
    tdm_error err = {0};
    if (tdm_checkpoint_open(&checkpoint, NULL, path, NULL, &err) != TDM_OK) {
        fail_msg("%s: %s at %s", path, err.what, err.where);
    }
    return checkpoint;
}

static void check_views(const tdm_checkpoint *checkpoint) {
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        assert_ptr_equal(tdm_checkpoint_find(checkpoint, tensor->name), tensor);
        assert_true(tensor->view.bytes == 0 || tensor->view.data != NULL);
    }
}

typedef struct wanted {
    const char *name;
    size_t n_tensors;
    tdm_rope_kind rope;
    int32_t sliding_window;
    bool is_tied;
    double theta;
} wanted;

static void plain_goldens(void **state) {
    static const wanted CASES[] = {
        {"llama", 38, TDM_ROPE_DEFAULT, 0, true, 1e4},
        {"llama3-rope", 67, TDM_ROPE_LLAMA3, 0, false, 5e5},
        {"mistral-sliding", 39, TDM_ROPE_DEFAULT, 8, false, 1e4},
        {"qwen2", 50, TDM_ROPE_DEFAULT, 0, true, 1e4},
        {"yarn", 51, TDM_ROPE_YARN, 0, false, 1e4},
        {"qwen3", 46, TDM_ROPE_DEFAULT, 0, true, 1e4},
        {"smollm3", 38, TDM_ROPE_DEFAULT, 0, true, 2e6},
        {"qwen3-moe", 113, TDM_ROPE_DEFAULT, 0, false, 1e4},
        {"gemma2", 46, TDM_ROPE_DEFAULT, 8, true, 1e4},
        {"gemma3", 80, TDM_ROPE_LINEAR, 8, true, 1e6},
        {"gpt-oss", 71, TDM_ROPE_YARN, 8, false, 1.5e5},
        {"lfm2", 40, TDM_ROPE_DEFAULT, 0, true, 1e6},
        {"deepseek-v3", 129, TDM_ROPE_DEFAULT, 0, false, 1e4},
        {"qwen3_5", 56, TDM_ROPE_DEFAULT, 0, false, 1e4},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        const wanted *w = &CASES[i];
        char rel[100];
        char path[SUPPORT_PATH_MAX];
        tdm_checkpoint *checkpoint = NULL;
        tdm_model_config c;
        tdm_error err = {0};
        (void)snprintf(rel, sizeof rel, "goldens/%s", w->name);
        checkpoint = must_open(support_data_path(path, rel));
        check_views(checkpoint);
        assert_int_equal(tdm_checkpoint_n_warnings(checkpoint), 0);
        if (tdm_model_config_read(&c, checkpoint, &err) != TDM_OK) {
            fail_msg("%s: %s at %s", rel, err.what, err.where);
        }
        assert_int_equal(tdm_checkpoint_n_tensors(checkpoint), w->n_tensors);
        assert_int_equal(c.rope.kind, w->rope);
        assert_true(c.rope.theta == w->theta);
        assert_int_equal(c.sliding_window, w->sliding_window);
        assert_int_equal(c.is_tied, w->is_tied);
        assert_int_equal(c.hidden, 64);
        assert_int_equal(c.n_heads, 4);
        assert_int_equal(c.intermediate, 128);
        assert_int_equal(c.n_vocab, 320);
        assert_int_equal(c.context_max, 512);
        assert_int_equal(c.eos_ids[0], 2);
        assert_int_equal(c.bos_id, 1);
        tdm_checkpoint_close(checkpoint);
    }
}

/* Files of gemma 4 say in two ways which layers have which heads. */
static void gemma4_says_the_same_in_both(void **state) {
    static const char *const CASES[] = {"gemma4-dense-keqv", "gemma4-moe", "gemma4-ple-shared"};
    char probe[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(probe, "goldens-gguf/gemma4-moe");
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        char rel[100];
        char path[SUPPORT_PATH_MAX];
        tdm_model_config a;
        tdm_model_config b;
        (void)snprintf(rel, sizeof rel, "goldens/%s", CASES[i]);
        tdm_checkpoint *plain = must_open(support_data_path(path, rel));
        (void)snprintf(rel, sizeof rel, "goldens-gguf/%s", CASES[i]);
        tdm_checkpoint *gguf = must_open(support_shared_path(path, rel));
        assert_int_equal(tdm_model_config_read(&a, plain, NULL), TDM_OK);
        assert_int_equal(tdm_model_config_read(&b, gguf, NULL), TDM_OK);
        assert_int_equal(a.head_dim, b.head_dim);
        assert_int_equal(a.global_head_dim, b.global_head_dim);
        assert_int_equal(a.global_rotary_dim, b.global_rotary_dim);
        assert_int_equal(a.rotary_dim, b.rotary_dim);
        assert_int_equal(a.is_k_eq_v, b.is_k_eq_v);
        assert_int_equal(a.n_kv_shared, b.n_kv_shared);
        assert_int_equal(a.ple_dim, b.ple_dim);
        assert_int_equal(a.experts.n_used, b.experts.n_used);
        assert_true(a.rope.theta == b.rope.theta && a.rope_local.theta == b.rope_local.theta);
        assert_memory_equal(a.is_sliding, b.is_sliding, 6);
        for (int32_t l = 0; l < 6; l++) {
            bool is_shared = l >= 6 - a.n_kv_shared;
            bool has_own = a.is_sliding[l] == 0 && a.n_global_kv_heads > 0;
            assert_int_equal(a.intermediate_of[l] * (a.is_double_wide && is_shared ? 2 : 1),
                             b.intermediate_of[l]);
            assert_int_equal(has_own ? a.n_global_kv_heads : a.kv_heads_of[l], b.kv_heads_of[l]);
        }
        tdm_checkpoint_close(plain);
        tdm_checkpoint_close(gguf);
    }
}

/* Both containers of one model say the same. */
static void gguf_agrees_with_config_json(void **state) {
    static const char *const CASES[] = {"llama", "llama3-rope", "qwen2",
                                        "yarn",  "qwen3",       "qwen3-moe"};
    char probe[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(probe, "goldens-gguf/llama");
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        char rel[100];
        char path[SUPPORT_PATH_MAX];
        tdm_checkpoint *plain = NULL;
        tdm_checkpoint *gguf = NULL;
        tdm_model_config a;
        tdm_model_config b;
        (void)snprintf(rel, sizeof rel, "goldens/%s", CASES[i]);
        plain = must_open(support_data_path(path, rel));
        (void)snprintf(rel, sizeof rel, "goldens-gguf/%s", CASES[i]);
        gguf = must_open(support_shared_path(path, rel)); /* a folder with one .gguf */
        check_views(gguf);
        assert_int_equal(tdm_model_config_read(&a, plain, NULL), TDM_OK);
        assert_int_equal(tdm_model_config_read(&b, gguf, NULL), TDM_OK);
        assert_int_equal(a.hidden, b.hidden);
        assert_int_equal(a.n_layers, b.n_layers);
        assert_int_equal(a.n_heads, b.n_heads);
        assert_int_equal(a.n_kv_heads, b.n_kv_heads);
        assert_int_equal(a.head_dim, b.head_dim);
        assert_int_equal(a.intermediate, b.intermediate);
        assert_int_equal(a.n_vocab, b.n_vocab);
        assert_int_equal(a.context_max, b.context_max);
        assert_int_equal(a.is_tied, b.is_tied);
        assert_true((float)a.norm_eps == (float)b.norm_eps);
        assert_true(a.rope.theta == b.rope.theta);
        assert_int_equal(a.rope.kind == TDM_ROPE_LLAMA3 ? TDM_ROPE_FREQ_FACTORS : a.rope.kind,
                         b.rope.kind);
        assert_int_equal(a.eos_ids[0], b.eos_ids[0]);
        assert_int_equal(a.bos_id, b.bos_id);
        tdm_checkpoint_close(plain);
        tdm_checkpoint_close(gguf);
    }
}

typedef struct odd {
    const char *file;
    char
        verdict; /* o: opened and its config read; r: refused by one of the two; a: left to audit */
    const char *says;
} odd;

static const odd ODD[] = {
    {"base-v3.gguf", 'o', ""},
    {"version-2.gguf", 'o', ""},
    {"version-1.gguf", 'r', "version 1"},
    {"version-4.gguf", 'r', "version 4"},
    {"big-endian.gguf", 'r', "big-endian"},
    {"magic.gguf", 'r', "GGML"},
    {"kv-every-type.gguf", 'o', ""},
    {"kv-nested-array.gguf", 'o', ""},
    {"kv-empty.gguf", 'o', ""},
    {"kv-empty-key.gguf", 'r', "key 27 is empty"},
    {"kv-long-key.gguf", 'o', ""},
    {"kv-duplicate.gguf", 'r', "llama.block_count"},
    {"kv-bool-2.gguf", 'o', ""},
    {"kv-type-13.gguf", 'r', "type 13"},
    {"kv-u64-count.gguf", 'o', ""},
    {"kv-missing.gguf", 'r', "llama.embedding_length"},
    {"arch-unknown.gguf", 'r', "tandemtest"},
    {"align-64.gguf", 'o', ""},
    {"align-8.gguf", 'o', ""},
    {"align-48.gguf", 'r', "general.alignment"},
    {"align-0.gguf", 'r', "general.alignment"},
    {"offsets-gap.gguf", 'o', ""},
    {"offsets-skew.gguf", 'r', "not aligned"},
    {"order.gguf", 'o', ""},
    {"trailing.gguf", 'o', ""},
    {"truncated.gguf", 'r', "output_norm.weight"},
    {"truncated-header.gguf", 'r', "ends inside"},
    {"string-huge.gguf", 'r', "ends inside a string"},
    {"array-huge.gguf", 'r', "ends inside an array"},
    {"count-huge.gguf", 'r', "tensor count"},
    {"tensor-unused.gguf", 'o', ""},
    {"tensor-unknown.gguf", 'a', ""},
    {"tensor-unknown-global.gguf", 'a', ""},
    {"tensor-missing.gguf", 'a', ""},
    {"tensor-duplicate.gguf", 'r', "output_norm.weight"},
    {"tensor-shape.gguf", 'a', ""},
    {"tensor-5-dims.gguf", 'r', "5 dimensions"},
    {"tensor-dims-overflow.gguf", 'r', "rope_freqs.weight"},
    {"tensor-zero.gguf", 'r', "dimension of 0"},
    {"tensor-type-removed.gguf", 'r', "type 4"},
    {"tensor-type-unknown.gguf", 'r', "type 200"},
    {"tensor-type-f64.gguf", 'a', ""},
    {"tensor-row-block.gguf", 'r', "no whole Q4_K blocks"},
    {"tensor-long-name.gguf", 'r', "80 bytes"},
    {"no-tokenizer.gguf", 'o', ""},
    {"vocab-short.gguf", 'r', "264 entries, the embedding 272 rows"},
    {"split-00001-of-00003.gguf", 'o', ""},
    {"split-00002-of-00003.gguf", 'r', "split-00001-of-00003.gguf"},
    {"split-00003-of-00003.gguf", 'r', "split-00001-of-00003.gguf"},
    {"split-missing/split-00001-of-00003.gguf", 'r', "split-00002-of-00003.gguf"},
};

static void odd_files(void **state) {
    char path[SUPPORT_PATH_MAX];
    char rel[200];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/odd");
    for (size_t i = 0; i < SUPPORT_LEN(ODD); i++) {
        tdm_checkpoint *checkpoint = NULL;
        tdm_model_config c;
        tdm_error err = {0};
        tdm_status status = TDM_OK;
        char all[800];
        (void)snprintf(rel, sizeof rel, "goldens-gguf/odd/%s", ODD[i].file);
        status = tdm_checkpoint_open(&checkpoint, NULL, support_shared_path(path, rel), NULL, &err);
        if (status == TDM_OK) {
            check_views(checkpoint);
            status = tdm_model_config_read(&c, checkpoint, &err);
        }
        (void)snprintf(all, sizeof all, "%s | %s | %s", err.what, err.where, err.remedy);
        if ((status == TDM_OK) != (ODD[i].verdict != 'r') || strstr(all, ODD[i].says) == NULL) {
            fail_msg("%s: %s, %s", ODD[i].file, tdm_status_name(status), all);
        }
        tdm_checkpoint_close(checkpoint);
    }
}

static void every_shared_checkpoint_opens(void **state) {
    static const char *const CASES[] = {
        "goldens-mlx/gemma3-q6g32",      "goldens-mlx/gpt-oss-mxfp4",
        "goldens-mlx/llama-mxfp4-tied",  "goldens-mlx/llama-nvfp4-tied",
        "goldens-mlx/llama-q4g32",       "goldens-mlx/llama-q8g128-shards",
        "goldens-mlx/mixtral-q6g64-f16", "goldens-mlx/qwen3-mixed-4-6-8-off",
        "goldens-mlx/qwen3-mxfp8",       "goldens-gguf/quant-q2_k",
        "goldens-gguf/quant-q4_0",       "goldens-gguf/quant-q4_k_m",
        "goldens-gguf/quant-q5_k_s",     "goldens-gguf/quant-q6_k",
        "goldens-gguf/quant-q8_0",       "goldens-gguf/quant-iq3_s",
        "goldens-gguf/quant-iq4_xs",     "goldens-gguf/quant-mxfp4_moe",
        "goldens-gguf/deepseek-v3",      "goldens-gguf/gemma2",
        "goldens-gguf/gemma3",           "goldens-gguf/gemma4-moe",
        "goldens-gguf/gpt-oss",          "goldens-gguf/lfm2",
        "goldens-gguf/mistral-sliding",  "goldens-gguf/qwen3_5",
        "goldens-gguf/smollm3",
    };
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-mlx/llama-q4g32");
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_checkpoint *checkpoint = must_open(support_shared_path(path, CASES[i]));
        check_views(checkpoint);
        assert_int_equal(tdm_checkpoint_n_warnings(checkpoint), 0);
        tdm_checkpoint_close(checkpoint);
    }
}

static void allocations_fail_while_opening(const char *path) {
    size_t n = 0;
    for (n = 1; n < 5000; n++) {
        tdm_alloc_tracker tracker;
        tdm_checkpoint *checkpoint = NULL;
        tdm_model_config c;
        tdm_error err = {0};
        tdm_status status = TDM_OK;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        status = tdm_checkpoint_open(&checkpoint, &tracker.alloc, path, NULL, &err);
        if (status == TDM_OK) {
            status = tdm_model_config_read(&c, checkpoint, &err);
        }
        tdm_checkpoint_close(checkpoint);
        assert_int_equal(tracker.n_live, 0);
        assert_int_equal(tracker.live_bytes, 0);
        if (status == TDM_OK) {
            break;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    assert_in_range(n, 10, 4999);
}

static void every_allocation_may_fail(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    allocations_fail_while_opening(support_data_path(path, "goldens/llama"));
}

static void every_allocation_may_fail_in_gguf(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(path, "goldens-gguf/odd/split-00001-of-00003.gguf");
    allocations_fail_while_opening(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_goldens),
        cmocka_unit_test(gemma4_says_the_same_in_both),
        cmocka_unit_test(gguf_agrees_with_config_json),
        cmocka_unit_test(odd_files),
        cmocka_unit_test(every_shared_checkpoint_opens),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_allocation_may_fail_in_gguf),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
