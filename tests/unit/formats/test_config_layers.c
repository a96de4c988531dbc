/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations whose layers differ: arrays of GGUF, a second set of sizes, exceptions by number of
 * layer, what of it contradicts itself, and classes that mean something by saying nothing. */
#include "formats/config.h"

#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#define BASE                                                                                       \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":512"
#define GEMMA4 "{\"model_type\":\"gemma4_text\"," BASE

static tdm_model_config c;
static tdm_error err;

static tdm_status read_json(const char *config) {
    static mem_fs m;
    bytes b = safetensors_of("{}", 0);
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    memset(&err, 0, sizeof err);
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", config);
    mem_fs_put(&m, "d/model.safetensors", b.data, b.len);
    status = tdm_checkpoint_open(&checkpoint, NULL, "d", &options, &err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(&c, checkpoint, &err);
        c.family = c.text_family = c.hidden_act = NULL; /* they die with the checkpoint */
    }
    tdm_checkpoint_close(checkpoint);
    bytes_free(&b);
    return status;
}

static void must_read(const char *config) {
    if (read_json(config) != TDM_OK) {
        fail_msg("%s: %s at %s", config, err.what, err.where);
    }
}

static void refuse(const char *config, tdm_status status, const char *says) {
    tdm_status got = read_json(config);
    if (got != status || (strstr(err.what, says) == NULL && strstr(err.where, says) == NULL) ||
        err.remedy[0] == '\0') {
        fail_msg("%s: wanted %s with \"%s\": %s, %s at %s", config, tdm_status_name(status), says,
                 tdm_status_name(got), err.what, err.where);
    }
}

/* A class that turns by a rope of its own where a file says nothing. */
static void gpt_oss_has_yarn_of_its_own(void **state) {
    (void)state;
    must_read("{\"model_type\":\"gpt_oss\"," BASE ",\"rope_theta\":9000}");
    assert_int_equal(c.rope.kind, TDM_ROPE_YARN);
    assert_true(c.rope.factor == 32.0 && c.rope.original_context == 4096 && c.rope.theta == 9000.0);
    assert_true(c.rope.beta_fast == 32.0 && c.rope.beta_slow == 1.0 && !c.rope.is_truncated);
    assert_true(c.has_attention_bias && c.norm_eps > 0.0 && c.swiglu_limit == 0.0);
    assert_true(c.head_dim == 64 && c.sliding_window == 128);
    must_read("{\"model_type\":\"gpt_oss\"," BASE ",\"swiglu_limit\":5,\"attention_bias\":false,"
              "\"rope_parameters\":{\"rope_type\":\"default\"}}");
    assert_int_equal(c.rope.kind, TDM_ROPE_DEFAULT);
    assert_true(c.rope.theta == 150000.0 && c.swiglu_limit == 5.0 && !c.has_attention_bias);
    refuse("{\"model_type\":\"gpt_oss\"," BASE ",\"swiglu_limit\":0}", TDM_E_FORMAT,
           "swiglu_limit");
    refuse("{\"model_type\":\"gpt_oss\"," BASE ",\"swiglu_limit\":-7}", TDM_E_FORMAT,
           "swiglu_limit");
}

static void what_gemma4_means_by_nothing(void **state) {
    (void)state;
    must_read(GEMMA4 "}");
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.global_head_dim, 512);
    assert_int_equal(c.global_rotary_dim, 512);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.n_global_kv_heads, 0);
    assert_int_equal(c.sliding_window, 512);
    assert_int_equal(c.ple_dim, 256);
    assert_int_equal(c.n_kv_shared, 0);
    assert_false(c.is_k_eq_v || c.is_double_wide);
    assert_true(c.is_tied);
    assert_int_equal(c.rope.kind, TDM_ROPE_PROPORTIONAL);
    assert_true(c.rope.fraction == 0.25 && c.rope.factor == 1.0 && c.rope.theta == 1e6);
    assert_int_equal(c.rotary_dim, 256);
    assert_true(c.has_local_rope);
    assert_int_equal(c.rope_local.kind, TDM_ROPE_DEFAULT);
    assert_true(c.rope_local.fraction == 1.0 && c.rope_local.theta == 1e4);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(c.head_dim_of[i], 256);
        assert_int_equal(c.kv_heads_of[i], 4);
        assert_int_equal(c.intermediate_of[i], 128);
    }
    must_read("{\"model_type\":\"gemma4_unified_text\"," BASE "}");
    assert_int_equal(c.ple_dim, 0);
    assert_int_equal(c.sliding_window, 1024);
}

static void proportional_ropes(void **state) {
    (void)state;
    must_read(GEMMA4
              ",\"head_dim\":16,\"rope_parameters\":{\"full_attention\":{\"rope_type\":"
              "\"proportional\",\"partial_rotary_factor\":0.5,\"rope_theta\":7,\"factor\":2},"
              "\"sliding_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":3,"
              "\"partial_rotary_factor\":0.125}}}");
    assert_true(c.rope.fraction == 0.5 && c.rope.factor == 2.0 && c.rope.theta == 7.0);
    assert_int_equal(c.rope_local.kind, TDM_ROPE_PROPORTIONAL);
    assert_true(c.rope_local.fraction == 0.125 && c.rope_local.theta == 3.0);
    assert_int_equal(c.rotary_dim, 16);
    refuse(GEMMA4 ",\"rope_parameters\":{\"full_attention\":{\"partial_rotary_factor\":0.5},"
                  "\"sliding_attention\":{}}}",
           TDM_E_UNSUPPORTED, "another part of a head");
    refuse(GEMMA4 ",\"rope_parameters\":{\"full_attention\":{},\"sliding_attention\":"
                  "{\"partial_rotary_factor\":0.5}}}",
           TDM_E_UNSUPPORTED, "another part of a head");
    refuse(GEMMA4 ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\","
                  "\"partial_rotary_factor\":0}}}",
           TDM_E_FORMAT, "partial_rotary_factor");
}

static void experts_only_where_asked(void **state) {
    (void)state;
    must_read(GEMMA4 ",\"num_experts\":8,\"top_k_experts\":2,\"moe_intermediate_size\":32}");
    assert_int_equal(c.experts.n, 0);
    must_read(GEMMA4 ",\"num_experts\":8,\"top_k_experts\":2,\"moe_intermediate_size\":32,"
                     "\"enable_moe_block\":true}");
    assert_int_equal(c.experts.n, 8);
    assert_int_equal(c.experts.n_used, 2);
    assert_int_equal(c.experts.intermediate, 32);
    refuse(GEMMA4 ",\"enable_moe_block\":true}", TDM_E_FORMAT, "num_experts");
    refuse(GEMMA4 ",\"enable_moe_block\":3}", TDM_E_FORMAT, "enable_moe_block");
}

static void a_second_set_of_sizes(void **state) {
    (void)state;
    must_read(GEMMA4 ",\"global_head_dim\":32,\"num_global_key_value_heads\":1,"
                     "\"attention_k_eq_v\":true,\"num_kv_shared_layers\":2,"
                     "\"use_double_wide_mlp\":true,\"hidden_size_per_layer_input\":0,"
                     "\"vocab_size_per_layer_input\":300}");
    assert_int_equal(c.global_head_dim, 32);
    assert_int_equal(c.n_global_kv_heads, 1);
    assert_int_equal(c.n_kv_shared, 2);
    assert_int_equal(c.ple_dim, 0);
    assert_int_equal(c.n_ple_vocab, 300);
    assert_true(c.is_k_eq_v && c.is_double_wide);
    refuse(GEMMA4 ",\"global_head_dim\":0}", TDM_E_FORMAT, "global_head_dim");
    refuse(GEMMA4 ",\"num_global_key_value_heads\":0}", TDM_E_FORMAT, "num_global_key_value_heads");
    refuse(GEMMA4 ",\"num_global_key_value_heads\":3}", TDM_E_FORMAT, "do not slide");
    refuse(GEMMA4 ",\"num_kv_shared_layers\":5}", TDM_E_FORMAT, "more layers share");
    refuse(GEMMA4 ",\"num_kv_shared_layers\":-1}", TDM_E_FORMAT, "num_kv_shared_layers");
    refuse(GEMMA4 ",\"attention_k_eq_v\":1}", TDM_E_FORMAT, "attention_k_eq_v");
    refuse(GEMMA4 ",\"hidden_size_per_layer_input\":-1}", TDM_E_FORMAT,
           "hidden_size_per_layer_input");
}

static void exceptions_by_layer(void **state) {
    (void)state;
    must_read(GEMMA4 ",\"head_dim\":16,\"per_layer_config\":{\"3\":{\"head_dim\":32,"
                     "\"num_key_value_heads\":1},\"01\":{\"intermediate_size\":64}}}");
    assert_int_equal(c.global_head_dim, 0);
    assert_int_equal(c.head_dim_of[2], 16);
    assert_int_equal(c.head_dim_of[3], 32);
    assert_int_equal(c.kv_heads_of[3], 1);
    assert_int_equal(c.kv_heads_of[0], 4);
    assert_int_equal(c.intermediate_of[1], 64);
    assert_int_equal(c.intermediate_of[3], 128);
    refuse(GEMMA4 ",\"per_layer_config\":[]}", TDM_E_FORMAT, "is no object");
    refuse(GEMMA4 ",\"per_layer_config\":{\"4\":{}}}", TDM_E_FORMAT, "no layer is called \"4\"");
    refuse(GEMMA4 ",\"per_layer_config\":{\"-1\":{}}}", TDM_E_FORMAT, "no layer is called");
    refuse(GEMMA4 ",\"per_layer_config\":{\"\":{}}}", TDM_E_FORMAT, "no layer is called");
    refuse(GEMMA4 ",\"per_layer_config\":{\"99999999999999999999\":{}}}", TDM_E_FORMAT,
           "no layer is called");
    refuse(GEMMA4 ",\"per_layer_config\":{\"1\":5}}", TDM_E_FORMAT, "no object at \"1\"");
    refuse(GEMMA4 ",\"per_layer_config\":{\"1\":{\"skip\":[\"mlp\"]}}}", TDM_E_UNSUPPORTED,
           "\"skip\"");
    refuse(GEMMA4 ",\"per_layer_config\":{\"1\":{\"head_dim\":0}}}", TDM_E_FORMAT, "head_dim is 0");
    refuse(GEMMA4 ",\"per_layer_config\":{\"1\":{\"num_key_value_heads\":3}}}", TDM_E_FORMAT,
           "a layer's heads");
    refuse("{\"model_type\":\"gemma4_text\",\"hidden_size\":64,\"num_hidden_layers\":4,"
           "\"num_attention_heads\":65536,\"intermediate_size\":128,\"vocab_size\":320,"
           "\"num_key_value_heads\":1,\"head_dim\":1,"
           "\"per_layer_config\":{\"0\":{\"head_dim\":17}}}",
           TDM_E_FORMAT, "a layer's heads");
}

/* ---- GGUF ---- */

typedef void edit_fn(bytes *b);

/* A whole gemma4 of two layers with edit's keys; tensors that tell keys from values are apart. */
static tdm_status read_gguf(edit_fn *edit, uint64_t n_keys, const char *tensor) {
    static const char *const SIZES[] = {"block_count", "context_length", "embedding_length",
                                        "attention.head_count", "vocab_size"};
    static const uint32_t VALUES[] = {2, 128, 64, 4, 11};
    char key[80];
    bytes b = {0};
    mem_fs m;
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    memset(&err, 0, sizeof err);
    gguf_head(&b, 1, n_keys + 7);
    gguf_kv_text(&b, "general.architecture", "gemma4");
    edit(&b); /* first: the order of keys says nothing */
    for (size_t i = 0; i < SUPPORT_LEN(SIZES); i++) {
        (void)snprintf(key, sizeof key, "gemma4.%s", SIZES[i]);
        gguf_kv_u32(&b, key, VALUES[i]);
    }
    gguf_kv_f32(&b, "gemma4.attention.layer_norm_rms_epsilon", 0.5F);
    gguf_tensor(&b, tensor, 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 32);
    mem_fs_init(&m);
    mem_fs_put(&m, "m.gguf", b.data, b.len);
    status = tdm_checkpoint_open(&checkpoint, NULL, "m.gguf", &options, &err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(&c, checkpoint, &err);
        c.family = c.text_family = NULL;
    }
    tdm_checkpoint_close(checkpoint);
    bytes_free(&b);
    return status;
}

static void add_array(bytes *b, const char *key, uint32_t type, uint64_t n, uint32_t first,
                      uint32_t second) {
    gguf_key(b, key, 9);
    bytes_u32(b, type);
    bytes_u64(b, n);
    for (uint64_t i = 0; i < n; i++) {
        bytes_number(b, i == 0 ? first : second, type == 7 ? 1 : 4);
    }
}

#define FF "gemma4.feed_forward_length"
#define KV "gemma4.attention.head_count_kv"

static void arrays(bytes *b) {
    add_array(b, FF, 5, 2, 96, 192);
    add_array(b, KV, 4, 2, 2, 1);
    add_array(b, "gemma4.attention.sliding_window_pattern", 7, 2, 1, 0);
    gguf_kv_u32(b, "gemma4.attention.sliding_window", 8);
    gguf_kv_u32(b, "gemma4.attention.key_length", 32);
    gguf_kv_u32(b, "gemma4.attention.value_length", 32);
    gguf_kv_u32(b, "gemma4.attention.key_length_swa", 16);
    gguf_kv_u32(b, "gemma4.attention.value_length_swa", 16);
    gguf_kv_u32(b, "gemma4.rope.dimension_count", 32);
    gguf_kv_u32(b, "gemma4.rope.dimension_count_swa", 16);
    gguf_kv_u32(b, "gemma4.attention.shared_kv_layers", 1);
    gguf_kv_u32(b, "gemma4.embedding_length_per_layer_input", 4);
}

static void long_array(bytes *b) {
    add_array(b, FF, 5, 3, 96, 96);
}

static void no_elements(bytes *b) {
    add_array(b, FF, 5, 0, 0, 0);
}

static void one_element(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    add_array(b, KV, 5, 1, 2, 2);
}

static void negative_heads(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    add_array(b, KV, 5, 2, 2, (uint32_t)-2);
}

static void odd_heads(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    add_array(b, KV, 5, 2, 2, 3);
}

static void floats(bytes *b) {
    add_array(b, FF, 6, 2, 0x42000000, 0x42000000);
}

static void head_counts(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    add_array(b, "gemma4.attention.key_length", 4, 2, 32, 16);
}

static void clamp(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    gguf_kv_f32(b, "gemma4.attention.clamp_kqv", 8.0F);
}

static void other_values(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    gguf_kv_u32(b, "gemma4.attention.key_length", 32);
    gguf_kv_u32(b, "gemma4.attention.value_length", 16);
    gguf_kv_u32(b, "gemma4.attention.key_length_swa", 16);
}

static void wide_rotation(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    gguf_kv_u32(b, "gemma4.attention.key_length", 16);
    gguf_kv_u32(b, "gemma4.attention.key_length_swa", 16);
    gguf_kv_u32(b, "gemma4.rope.dimension_count", 32);
}

static void too_many_shared(bytes *b) {
    gguf_kv_u32(b, FF, 96);
    gguf_kv_u32(b, "gemma4.attention.shared_kv_layers", 3);
}

static void arrays_are_each_layers_own(void **state) {
    (void)state;
    assert_int_equal(read_gguf(arrays, 12, "blk.1.attn_k.weight"), TDM_OK);
    assert_int_equal(c.intermediate, 96);
    assert_int_equal(c.intermediate_of[0], 96);
    assert_int_equal(c.intermediate_of[1], 192);
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.kv_heads_of[0], 2);
    assert_int_equal(c.kv_heads_of[1], 1);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.value_dim, 16);
    assert_int_equal(c.rotary_dim, 16);
    assert_int_equal(c.global_head_dim, 32);
    assert_int_equal(c.global_rotary_dim, 32);
    assert_int_equal(c.n_kv_shared, 1);
    assert_int_equal(c.ple_dim, 4);
    assert_int_equal(c.n_layer_types, 2);
    assert_true(c.is_k_eq_v); /* there is a blk.1.attn_k and no blk.1.attn_v */
    assert_int_equal(read_gguf(arrays, 12, "blk.1.attn_v.weight"), TDM_OK);
    assert_false(c.is_k_eq_v);
    assert_int_equal(read_gguf(arrays, 12, "blk.0.attn_k.weight"), TDM_OK);
    assert_false(c.is_k_eq_v);
}

/* olmo's bound on q, k and v, which the model refuses. */
static void a_bound_is_seen(void **state) {
    (void)state;
    assert_int_equal(read_gguf(clamp, 2, "x"), TDM_OK);
    assert_true(c.clip_qkv == 8.0);
}

static void arrays_that_contradict(void **state) {
    static const struct {
        edit_fn *edit;
        uint64_t n_keys;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {long_array, 1, TDM_E_FORMAT, "has 3 elements for 2 layers"},
        {no_elements, 1, TDM_E_FORMAT, "has 0 elements for 2 layers"},
        {one_element, 2, TDM_E_FORMAT, "has 1 elements for 2 layers"},
        {negative_heads, 2, TDM_E_FORMAT, "head_count_kv is -2"},
        {odd_heads, 2, TDM_E_FORMAT, "a layer's heads"},
        {floats, 1, TDM_E_FORMAT, "array of whole numbers"},
        {head_counts, 2, TDM_E_UNSUPPORTED, "differs between layers"},
        {other_values, 4, TDM_E_UNSUPPORTED, "values of 16, keys of 32"},
        {wide_rotation, 4, TDM_E_FORMAT, "more dimensions rotate"},
        {too_many_shared, 2, TDM_E_FORMAT, "more layers share"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        tdm_status got = read_gguf(CASES[i].edit, CASES[i].n_keys, "x");
        if (got != CASES[i].status || strstr(err.what, CASES[i].says) == NULL) {
            fail_msg("case %zu: wanted \"%s\": %s, %s", i, CASES[i].says, tdm_status_name(got),
                     err.what);
        }
        assert_true(err.where[0] != '\0' && err.remedy[0] != '\0');
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt_oss_has_yarn_of_its_own),
        cmocka_unit_test(what_gemma4_means_by_nothing),
        cmocka_unit_test(proportional_ropes),
        cmocka_unit_test(experts_only_where_asked),
        cmocka_unit_test(a_second_set_of_sizes),
        cmocka_unit_test(exceptions_by_layer),
        cmocka_unit_test(arrays_are_each_layers_own),
        cmocka_unit_test(a_bound_is_seen),
        cmocka_unit_test(arrays_that_contradict),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
