/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations made here, from both containers: what is read, what defaults stand for, what is
 * refused and in which words. Real ones are in test_goldens.c. */
#include "formats/config.h"

#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <math.h>

#define BASE                                                                                       \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":512"
#define LLAMA "{\"model_type\":\"llama\"," BASE

/* Opens a folder with that config.json and reads it; generation may be NULL. */
static tdm_status read_json(const char *config, const char *generation, tdm_model_config *out,
                            tdm_error *err, tdm_checkpoint **keep) {
    static mem_fs m; /* the checkpoint that is kept borrows from it */
    bytes b = safetensors_of("{}", 0);
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", config);
    if (generation != NULL) {
        mem_fs_put_text(&m, "d/generation_config.json", generation);
    }
    mem_fs_put(&m, "d/model.safetensors", b.data, b.len);
    status = tdm_checkpoint_open(&checkpoint, NULL, "d", &options, err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(out, checkpoint, err);
    }
    if (keep != NULL) {
        *keep = checkpoint;
    } else {
        tdm_checkpoint_close(checkpoint);
    }
    bytes_free(&b);
    return status;
}

static tdm_model_config must_read(const char *config) {
    static tdm_checkpoint *kept; /* family and hidden_act are borrowed: until the next call */
    tdm_model_config out;
    tdm_error err = {0};
    tdm_checkpoint_close(kept);
    kept = NULL;
    if (read_json(config, NULL, &out, &err, &kept) != TDM_OK) {
        fail_msg("%s: %s at %s", config, err.what, err.where);
    }
    return out;
}

static void refuse(const char *config, tdm_status status, const char *says) {
    tdm_model_config out;
    tdm_error err = {0};
    char all[800];
    const tdm_status got = read_json(config, NULL, &out, &err, NULL);
    (void)snprintf(all, sizeof all, "%s | %s | %s | %s", err.what, err.where, err.limit,
                   err.remedy);
    if (got != status || strstr(all, says) == NULL || strstr(err.where, "config.json") == NULL ||
        err.remedy[0] == '\0') {
        fail_msg("%s: wanted %s with \"%s\": %s, %s", config, tdm_status_name(status), says,
                 tdm_status_name(got), all);
    }
}

static void defaults_of_absent_keys(void **state) {
    tdm_model_config c = must_read(LLAMA "}");
    (void)state;
    assert_string_equal(c.family, "llama");
    assert_string_equal(c.text_family, "llama");
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.value_dim, 16);
    assert_int_equal(c.rotary_dim, 16);
    assert_true(c.norm_eps == 1e-6);
    assert_true(c.rope.theta == 10000.0);
    assert_int_equal(c.rope.kind, TDM_ROPE_DEFAULT);
    assert_true(c.rope.factor == 1.0);
    assert_false(c.is_tied);
    assert_false(c.has_attention_bias);
    assert_int_equal(c.sliding_window, 0);
    assert_int_equal(c.n_layer_types, 0);
    assert_int_equal(c.n_no_rope, 0);
    assert_int_equal(c.n_eos, 0);
    assert_int_equal(c.bos_id, -1);
    assert_null(c.hidden_act);
    c = must_read("{\"model_type\":\"smollm3\"," BASE "}");
    assert_true(c.is_tied);
    assert_true(c.rope.theta == 2e6);
    assert_int_equal(c.n_no_rope, 4);
    assert_memory_equal(c.has_rope, "\1\1\1\0", 4);
    c = must_read("{\"model_type\":\"qwen3\"," BASE ",\"tie_word_embeddings\":true}");
    assert_int_equal(c.head_dim, 128);
    assert_true(c.is_tied);
    c = must_read("{\"model_type\":\"mistral\"," BASE "}");
    assert_int_equal(c.sliding_window, 4096);
    c = must_read("{\"model_type\":\"mistral\"," BASE ",\"sliding_window\":null}");
    assert_int_equal(c.sliding_window, 0);
    c = must_read("{\"model_type\":\"unheard\"," BASE ",\"layer_norm_eps\":0.5}");
    assert_true(c.is_tied); /* no lm_head.weight */
    assert_true(c.norm_eps == 0.5);
}

static void both_generations_of_rope(void **state) {
    static const char *const SAME[] = {
        LLAMA ",\"rope_theta\":500000,\"rope_scaling\":{\"type\":\"llama3\",\"factor\":8.0,"
              "\"low_freq_factor\":1,\"high_freq_factor\":4,"
              "\"original_max_position_embeddings\":32}}",
        LLAMA ",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\",\"type\":"
              "\"ignored\",\"factor\":8.0,\"low_freq_factor\":1,\"high_freq_factor\":4,"
              "\"original_max_position_embeddings\":32}}",
        LLAMA ",\"rope_parameters\":{\"rope_theta\":500000.0,\"rope_type\":\"llama3\","
              "\"factor\":8.0,\"low_freq_factor\":1,\"high_freq_factor\":4,"
              "\"original_max_position_embeddings\":32},\"rope_scaling\":null}",
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SAME); i++) {
        const tdm_model_config c = must_read(SAME[i]);
        assert_int_equal(c.rope.kind, TDM_ROPE_LLAMA3);
        assert_true(c.rope.theta == 5e5 && c.rope.factor == 8.0);
        assert_true(c.rope.low_freq_factor == 1.0 && c.rope.high_freq_factor == 4.0);
        assert_int_equal(c.rope.original_context, 32);
    }
}

static void yarn_linear_and_partial(void **state) {
    tdm_model_config c = must_read(
        LLAMA
        ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":16,\"beta_slow\":2,"
        "\"attention_factor\":1.5,\"mscale\":0.7,\"mscale_all_dim\":0.8,\"truncate\":false}}");
    (void)state;
    assert_int_equal(c.rope.kind, TDM_ROPE_YARN);
    assert_int_equal(c.rope.original_context, 512); /* max_position_embeddings */
    assert_true(c.rope.beta_fast == 16.0 && c.rope.beta_slow == 2.0);
    assert_true(c.rope.attention_factor == 1.5);
    assert_true(c.rope.mscale == 0.7 && c.rope.mscale_all_dim == 0.8);
    assert_false(c.rope.is_truncated);
    c = must_read(LLAMA ",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4}}");
    assert_true(c.rope.beta_fast == 32.0 && c.rope.beta_slow == 1.0);
    assert_true(c.rope.is_truncated && c.rope.attention_factor == 0.0);
    c = must_read(LLAMA ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":2.5}}");
    assert_int_equal(c.rope.kind, TDM_ROPE_LINEAR);
    assert_true(c.rope.factor == 2.5);
    c = must_read(LLAMA ",\"partial_rotary_factor\":0.5}");
    assert_int_equal(c.rotary_dim, 8);
    c = must_read(LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                        "\"factor\":8,\"rope_theta\":7},\"sliding_attention\":{}}}");
    assert_true(c.has_local_rope);
    assert_true(c.rope.theta == 7.0 && c.rope.factor == 8.0);
}

static void ropes_of_sliding_layers(void **state) {
    tdm_model_config c = must_read(LLAMA ",\"rope_theta\":5}");
    (void)state;
    assert_false(c.has_local_rope);
    assert_true(c.rope_local.theta == 5.0);
    c = must_read(LLAMA
                  ",\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\","
                  "\"factor\":8,\"rope_theta\":7},\"sliding_attention\":{\"rope_theta\":3}}}");
    assert_true(c.has_local_rope);
    assert_int_equal(c.rope_local.kind, TDM_ROPE_DEFAULT);
    assert_true(c.rope_local.theta == 3.0 && c.rope_local.factor == 1.0);
    c = must_read(
        "{\"model_type\":\"gemma3_text\"," BASE ",\"rope_theta\":9,"
        "\"rope_local_base_freq\":2,\"rope_scaling\":{\"type\":\"linear\",\"factor\":8}}");
    assert_true(c.rope.theta == 9.0 && c.rope.factor == 8.0);
    assert_true(c.rope_local.theta == 2.0 && c.rope_local.kind == TDM_ROPE_DEFAULT);
    refuse(LLAMA ",\"rope_local_base_freq\":-1}", TDM_E_FORMAT, "rope_local_base_freq");
}

static void gemma_defaults(void **state) {
    tdm_model_config c =
        must_read("{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\","
                  "\"hidden_size\":64,\"num_hidden_layers\":4,\"intermediate_size\":128}}");
    (void)state;
    assert_string_equal(c.family, "gemma3");
    assert_string_equal(c.text_family, "gemma3_text");
    assert_int_equal(c.n_heads, 8);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.n_vocab, 262208);
    assert_int_equal(c.context_max, 131072);
    assert_int_equal(c.sliding_window, 4096);
    assert_true(c.query_scalar == 256.0 && c.is_tied);
    assert_true(c.has_local_rope && c.rope.theta == 1e6 && c.rope_local.theta == 1e4);
    assert_true(c.attention_softcap == 0.0 && c.final_softcap == 0.0);
    c = must_read("{\"model_type\":\"gemma2\"," BASE ",\"hidden_act\":\"relu\","
                  "\"hidden_activation\":\"gelu_pytorch_tanh\",\"final_logit_softcapping\":null}");
    assert_string_equal(c.hidden_act, "gelu_pytorch_tanh");
    assert_true(c.attention_softcap == 50.0 && c.final_softcap == 0.0);
    c = must_read("{\"model_type\":\"gemma3_text\"," BASE ",\"sliding_window_pattern\":3,"
                  "\"use_bidirectional_attention\":\"vision\"}");
    assert_int_equal(c.sliding_period, 3);
    assert_false(c.is_bidirectional);
    c = must_read("{\"model_type\":\"gemma3_text\"," BASE ",\"use_bidirectional_attention\":true}");
    assert_true(c.is_bidirectional);
    refuse(LLAMA ",\"attn_logit_softcapping\":0}", TDM_E_FORMAT, "attn_logit_softcapping");
    refuse(LLAMA ",\"query_pre_attn_scalar\":-4}", TDM_E_FORMAT, "query_pre_attn_scalar");
    refuse(LLAMA ",\"sliding_window_pattern\":0}", TDM_E_FORMAT, "sliding_window_pattern");
    refuse("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":4,"
           "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":512}",
           TDM_E_FORMAT, "num_attention_heads is missing");
}

static void experts(void **state) {
    tdm_model_config c =
        must_read("{\"model_type\":\"qwen3_moe\"," BASE ",\"num_local_experts\":8,"
                  "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"norm_topk_prob\":true,"
                  "\"decoder_sparse_step\":2,\"mlp_only_layers\":[1,3]}");
    (void)state;
    assert_int_equal(c.experts.n, 8);
    assert_int_equal(c.experts.n_used, 2);
    assert_int_equal(c.experts.intermediate, 32);
    assert_int_equal(c.experts.shared_intermediate, 0);
    assert_int_equal(c.experts.sparse_step, 2);
    assert_true(c.experts.is_renormalized);
    assert_memory_equal(c.experts.is_dense, "\0\1\0\1", 4);
    c = must_read(
        "{\"model_type\":\"qwen2_moe\"," BASE ",\"num_experts\":60,\"num_experts_per_tok\":4,"
        "\"shared_expert_intermediate_size\":48,\"qkv_bias\":false,\"sliding_window\":0}");
    assert_int_equal(c.experts.n, 60);
    assert_int_equal(c.experts.shared_intermediate, 48);
    assert_false(c.has_qkv_bias || c.experts.is_renormalized);
    assert_int_equal(c.sliding_window, 0); /* written so when it is switched off */
    c = must_read(LLAMA "}");
    assert_int_equal(c.experts.n, 0);
    assert_true(c.has_qkv_bias);
    refuse(LLAMA ",\"mlp_only_layers\":[4]}", TDM_E_FORMAT, "mlp_only_layers[0]");
    refuse(LLAMA ",\"mlp_only_layers\":[-1]}", TDM_E_FORMAT, "mlp_only_layers[0]");
    refuse(LLAMA ",\"mlp_only_layers\":2}", TDM_E_FORMAT, "mlp_only_layers");
    refuse(LLAMA ",\"num_experts\":1000000000}", TDM_E_FORMAT, "65536");
    refuse(LLAMA ",\"num_experts_per_tok\":-2}", TDM_E_FORMAT, "num_experts_per_tok");
    refuse("{\"model_type\":\"mistral\"," BASE ",\"sliding_window\":0}", TDM_E_FORMAT,
           "sliding_window is 0");
}

static void convolutions(void **state) {
    tdm_model_config c = must_read("{\"model_type\":\"lfm2\",\"hidden_size\":64,"
                                   "\"num_hidden_layers\":4,\"num_attention_heads\":4,"
                                   "\"block_ff_dim\":300,\"vocab_size\":320,\"norm_eps\":1e-4,"
                                   "\"max_position_embeddings\":512,\"full_attn_idxs\":[2],"
                                   "\"conv_L_cache\":4,\"conv_bias\":true,\"tie_embedding\":false,"
                                   "\"block_multiple_of\":64,\"block_ffn_dim_multiplier\":1.5}");
    (void)state;
    assert_int_equal(c.intermediate, 300);
    assert_memory_equal(c.is_conv, "\1\1\0\1", 4);
    assert_int_equal(c.conv_taps, 4);
    assert_true(c.has_conv_bias && c.is_ff_adjusted && !c.is_tied);
    assert_int_equal(c.ff_multiple_of, 64);
    assert_true(c.ff_multiplier == 1.5);
    c = must_read("{\"model_type\":\"lfm2\"," BASE
                  ",\"full_attn_idxs\":[2],\"layer_types\":[\"conv\","
                  "\"full_attention\",\"conv\",\"conv\"],\"block_auto_adjust_ff_dim\":false}");
    assert_memory_equal(c.is_conv, "\1\0\1\1", 4); /* the newer key wins */
    assert_false(c.is_ff_adjusted);
    assert_true(c.is_tied && c.rope.theta == 1e6);
    refuse("{\"model_type\":\"lfm2\"," BASE ",\"conv_L_cache\":0}", TDM_E_FORMAT, "conv_L_cache");
    refuse("{\"model_type\":\"lfm2\"," BASE ",\"full_attn_idxs\":[9]}", TDM_E_FORMAT,
           "full_attn_idxs[0]");
}

static void factors_and_class_defaults(void **state) {
    tdm_model_config c = must_read(
        "{\"model_type\":\"granite\"," BASE ",\"embedding_multiplier\":12,"
        "\"attention_multiplier\":0.5,\"residual_multiplier\":0.25,\"logits_scaling\":8}");
    (void)state;
    assert_true(c.embedding_multiplier == 12.0 && c.attention_multiplier == 0.5);
    assert_true(c.residual_multiplier == 0.25 && c.logits_scaling == 8.0);
    c = must_read("{\"model_type\":\"glm4\"," BASE "}");
    assert_int_equal(c.head_dim, 128);
    assert_int_equal(c.rotary_dim, 64);
    assert_true(c.has_attention_bias);
    c = must_read("{\"model_type\":\"glm4\"," BASE ",\"attention_bias\":false,"
                  "\"partial_rotary_factor\":1.0}");
    assert_int_equal(c.rotary_dim, 128);
    assert_false(c.has_attention_bias);
    c = must_read("{\"model_type\":\"starcoder2\"," BASE ",\"use_bias\":false}");
    assert_false(c.has_bias);
    assert_true(c.is_tied && c.norm_eps == 1e-5);
    c = must_read("{\"model_type\":\"olmo3\"," BASE ",\"rope_theta\":7,"
                  "\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4}}");
    assert_int_equal(c.rope.kind, TDM_ROPE_YARN);
    assert_int_equal(c.rope_local.kind, TDM_ROPE_DEFAULT); /* a scaling is for full layers */
    assert_true(c.has_local_rope && c.rope.theta == 7.0 && c.rope_local.theta == 7.0);
    c = must_read("{\"model_type\":\"cohere\"," BASE ",\"logit_scale\":0.5,\"use_qk_norm\":true}");
    assert_true(c.logit_scale == 0.5 && c.has_qk_norm_flag && c.rope.theta == 5e5);
    c = must_read("{\"model_type\":\"olmo\"," BASE ",\"clip_qkv\":8}");
    assert_true(c.clip_qkv == 8.0 && c.norm_eps == 1e-5);
    refuse("{\"model_type\":\"granite\"," BASE ",\"logits_scaling\":0}", TDM_E_FORMAT,
           "logits_scaling");
    refuse("{\"model_type\":\"phi3\"," BASE ",\"rope_scaling\":{\"type\":\"longrope\","
           "\"long_factor\":[1],\"short_factor\":[1]}}",
           TDM_E_UNSUPPORTED, "longrope");
}

static void sliding_layers(void **state) {
    tdm_model_config c =
        must_read(LLAMA ",\"sliding_window\":8,\"layer_types\":[\"sliding_attention\","
                        "\"full_attention\",\"full_attention\",\"conv\"]}");
    (void)state;
    assert_int_equal(c.sliding_window, 8);
    assert_int_equal(c.n_layer_types, 4);
    assert_memory_equal(c.is_sliding, "\1\0\0\0", 4);
    assert_memory_equal(c.is_conv, "\0\0\0\1", 4);
    assert_false(c.has_other_layer_types);
    c = must_read(LLAMA ",\"layer_types\":[\"full_attention\",\"full_attention\","
                        "\"full_attention\",\"mamba\"]}");
    assert_true(c.has_other_layer_types);
    c = must_read("{\"model_type\":\"qwen2\"," BASE ",\"sliding_window\":8}");
    assert_int_equal(c.sliding_window, 0); /* use_sliding_window is false by default */
    c = must_read("{\"model_type\":\"qwen2\"," BASE ",\"sliding_window\":8,"
                  "\"use_sliding_window\":true,\"max_window_layers\":3}");
    assert_int_equal(c.sliding_window, 8);
    assert_int_equal(c.n_layer_types, 4);
    assert_memory_equal(c.is_sliding, "\0\0\0\1", 4);
    c = must_read("{\"model_type\":\"smollm3\"," BASE ",\"sliding_window\":8,"
                  "\"use_sliding_window\":true,\"no_rope_layer_interval\":2}");
    assert_memory_equal(c.has_rope, "\1\0\1\0", 4);
    assert_memory_equal(c.is_sliding, "\0\1\0\1", 4);
}

static void ids_and_nesting(void **state) {
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    c = must_read(LLAMA ",\"eos_token_id\":[2,3],\"bos_token_id\":1}");
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[1], 3);
    assert_int_equal(c.bos_id, 1);
    assert_int_equal(
        read_json(LLAMA ",\"eos_token_id\":2}", "{\"eos_token_id\":[7,8,9]}", &c, &err, NULL),
        TDM_OK);
    assert_int_equal(c.n_eos, 3);
    assert_int_equal(c.eos_ids[0], 7);
    c = must_read("{\"model_type\":\"outer\",\"eos_token_id\":5,\"hidden_size\":1,"
                  "\"text_config\":{\"model_type\":\"llama\"," BASE
                  ",\"rope_parameters\":{\"rope_theta\":9.5}}}");
    assert_string_equal(c.family, "outer");
    assert_string_equal(c.text_family, "llama");
    assert_int_equal(c.hidden, 64);
    assert_int_equal(c.eos_ids[0], 5);
    assert_true(c.rope.theta == 9.5);
}

static void refuses(void **state) {
    static const struct {
        const char *more; /* after the base of a llama, or a whole config when it begins with { */
        tdm_status status;
        const char *says;
    } CASES[] = {
        {"{}", TDM_E_FORMAT, "$.model_type"},
        {"{\"model_type\":3}", TDM_E_FORMAT, "model_type is no plain text"},
        {"{\"model_type\":\"llama\"}", TDM_E_FORMAT, "$.hidden_size"},
        {"{\"model_type\":\"llama\",\"hidden_size\":0}", TDM_E_FORMAT, "1 to 1048576"},
        {"{\"model_type\":\"llama\",\"hidden_size\":-64}", TDM_E_FORMAT, "hidden_size is -64"},
        {"{\"model_type\":\"llama\",\"hidden_size\":64.0}", TDM_E_FORMAT, "no whole number"},
        {"{\"model_type\":\"llama\",\"hidden_size\":\"64\"}", TDM_E_FORMAT, "no whole number"},
        {"{\"model_type\":\"llama\",\"hidden_size\":99999999999999999999}", TDM_E_FORMAT,
         "no whole number"},
        {"{\"model_type\":\"llama\",\"hidden_size\":64,\"hidden_size\":64}", TDM_E_FORMAT, "twice"},
        {"{\"model_type\":\"llama\",\"hidden_size\":NaN}", TDM_E_FORMAT, "broken JSON"},
        {"{\"model_type\":\"unheard\"," BASE "}", TDM_E_FORMAT, "epsilon"},
        {"{\"model_type\":\"llama\",\"text_config\":{\"hidden_size\":0}}", TDM_E_FORMAT,
         "$.text_config.hidden_size"},
        {",\"num_key_value_heads\":3", TDM_E_FORMAT, "key-value heads"},
        {",\"num_key_value_heads\":0", TDM_E_FORMAT, "$.num_key_value_heads"},
        {",\"head_dim\":8193", TDM_E_FORMAT, "1 to 8192"},
        {",\"rms_norm_eps\":0", TDM_E_FORMAT, "$.rms_norm_eps"},
        {",\"rms_norm_eps\":-1e-6", TDM_E_FORMAT, "rms_norm_eps is -1e-06"},
        {",\"rms_norm_eps\":1e999", TDM_E_FORMAT, "no finite number"},
        {",\"rope_theta\":0", TDM_E_FORMAT, "rope_theta is 0"},
        {",\"rope_scaling\":[]", TDM_E_FORMAT, "no object"},
        {",\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2}", TDM_E_UNSUPPORTED, "\"dynamic\""},
        {",\"rope_scaling\":{\"type\":7}", TDM_E_UNSUPPORTED, "(no text)"},
        {",\"rope_scaling\":{\"factor\":2}", TDM_E_FORMAT, "factor but no type"},
        {",\"rope_scaling\":{\"type\":\"linear\"}", TDM_E_FORMAT, "no factor"},
        {",\"rope_scaling\":{\"type\":\"linear\",\"factor\":0}", TDM_E_FORMAT,
         "$.rope_scaling.factor"},
        {",\"rope_scaling\":{\"type\":\"llama3\",\"factor\":2,\"low_freq_factor\":4,"
         "\"high_freq_factor\":4,\"original_max_position_embeddings\":8}",
         TDM_E_FORMAT, "higher high_freq_factor"},
        {",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"beta_fast\":1,\"beta_slow\":2}",
         TDM_E_FORMAT, "beta_fast"},
        {",\"rope_theta\":1,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2}", TDM_E_FORMAT,
         "logarithm"},
        {",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":2,\"truncate\":1}", TDM_E_FORMAT,
         "neither true nor false"},
        {",\"partial_rotary_factor\":1.5", TDM_E_FORMAT, "partial_rotary_factor"},
        {",\"partial_rotary_factor\":0.01", TDM_E_FORMAT, "leaves no dimension"},
        {",\"layer_types\":[\"full_attention\"]", TDM_E_FORMAT, "1 elements for 4 layers"},
        {",\"layer_types\":[1,2,3,4]", TDM_E_FORMAT, "layer_types[0]"},
        {",\"layer_types\":[\"sliding_attention\",\"a\",\"b\",\"c\"]", TDM_E_FORMAT,
         "no sliding_window"},
        {",\"no_rope_layers\":[1,0,1]", TDM_E_FORMAT, "3 elements for 4 layers"},
        {",\"no_rope_layers\":[1,0,1,2]", TDM_E_FORMAT, "no_rope_layers[3]"},
        {",\"no_rope_layer_interval\":0", TDM_E_FORMAT, "no_rope_layer_interval"},
        {",\"eos_token_id\":-1", TDM_E_FORMAT, "eos_token_id is no token id"},
        {",\"eos_token_id\":[1,\"2\"]", TDM_E_FORMAT, "eos_token_id is no token id"},
        {",\"eos_token_id\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", TDM_E_LIMIT, "17 ids"},
        {",\"bos_token_id\":2147483648", TDM_E_FORMAT, "bos_token_id"},
        {",\"tie_word_embeddings\":1", TDM_E_FORMAT, "tie_word_embeddings"},
        {",\"hidden_act\":null,\"hidden_activation\":5", TDM_E_FORMAT, "hidden_activation"},
    };
    char text[2000];
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        const bool is_whole = CASES[i].more[0] == '{';
        (void)snprintf(text, sizeof text, "%s%s%s", is_whole ? "" : LLAMA, CASES[i].more,
                       is_whole ? "" : "}");
        refuse(text, CASES[i].status, CASES[i].says);
    }
    refuse("{\"model_type\":\"llama\",\"hidden_size\":65,\"num_hidden_layers\":4,"
           "\"num_attention_heads\":4,\"intermediate_size\":1,\"vocab_size\":3,"
           "\"max_position_embeddings\":5}",
           TDM_E_FORMAT, "no multiple of the number of heads");
    refuse("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":4,"
           "\"num_attention_heads\":4,\"vocab_size\":3,\"max_position_embeddings\":5}",
           TDM_E_FORMAT, "$.intermediate_size");
    refuse("{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":1025}", TDM_E_FORMAT,
           "1 to 1024");
}

/* ---- GGUF ---- */

typedef void edit_fn(bytes *b);

static tdm_status read_gguf(edit_fn *edit, uint64_t n_keys, const char *tensor,
                            tdm_model_config *out, tdm_error *err) {
    bytes b = {0};
    mem_fs m;
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    gguf_head(&b, 1, n_keys + 8);
    gguf_kv_text(&b, "general.architecture", "llama");
    gguf_kv_u32(&b, "llama.block_count", 2);
    gguf_kv_u32(&b, "llama.context_length", 128);
    gguf_kv_u32(&b, "llama.embedding_length", 64);
    gguf_kv_u32(&b, "llama.feed_forward_length", 96);
    gguf_kv_u32(&b, "llama.attention.head_count", 4);
    gguf_kv_f32(&b, "llama.attention.layer_norm_rms_epsilon", 0.5F);
    gguf_kv_u32(&b, "llama.vocab_size", 11);
    if (edit != NULL) {
        edit(&b);
    }
    gguf_tensor(&b, tensor, 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 32);
    mem_fs_init(&m);
    mem_fs_put(&m, "m.gguf", b.data, b.len);
    status = tdm_checkpoint_open(&checkpoint, NULL, "m.gguf", &options, err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(out, checkpoint, err);
        out->family = out->text_family = NULL; /* they die with the checkpoint */
    }
    tdm_checkpoint_close(checkpoint);
    bytes_free(&b);
    return status;
}

static void add_yarn(bytes *b) {
    gguf_kv_text(b, "llama.rope.scaling.type", "yarn");
    gguf_kv_f32(b, "llama.rope.scaling.factor", 4.0F);
    gguf_kv_u32(b, "llama.rope.scaling.original_context_length", 32);
    gguf_kv_f32(b, "llama.rope.scaling.attn_factor", 2.0F);
}

static void add_ids(bytes *b) {
    gguf_kv_u32(b, "tokenizer.ggml.eos_token_id", 2);
    gguf_kv_u32(b, "tokenizer.ggml.eot_token_id", 2);
    gguf_kv_u32(b, "tokenizer.ggml.eom_token_id", 5);
    gguf_kv_u32(b, "tokenizer.ggml.bos_token_id", 1);
}

static void add_array(bytes *b, const char *key, uint32_t first, uint32_t second) {
    gguf_key(b, key, 9);
    bytes_u32(b, 5);
    bytes_u64(b, 2);
    bytes_u32(b, first);
    bytes_u32(b, second);
}

static void add_same_heads(bytes *b) {
    add_array(b, "llama.attention.head_count_kv", 2, 2);
}

static void add_other_heads(bytes *b) {
    add_array(b, "llama.attention.head_count_kv", 4, 2);
}

static void add_no_heads(bytes *b) {
    add_array(b, "llama.attention.head_count_kv", 0, 2);
}

static void add_convolution(bytes *b) {
    add_array(b, "llama.attention.head_count_kv", 0, 2);
    gguf_kv_u32(b, "llama.shortconv.l_cache", 3);
}

static void add_heads_nowhere(bytes *b) {
    add_array(b, "llama.attention.head_count_kv", 0, 0);
}

static void add_text_heads(bytes *b) {
    gguf_kv_text(b, "llama.attention.head_count_kv", "2");
}

static void add_pattern(bytes *b) {
    gguf_kv_u32(b, "llama.attention.sliding_window", 8);
    gguf_key(b, "llama.attention.sliding_window_pattern", 9);
    bytes_u32(b, 7);
    bytes_u64(b, 2);
    bytes_put(b, "\0\1", 2);
}

static void add_longrope(bytes *b) {
    gguf_kv_text(b, "llama.rope.scaling.type", "longrope");
}

static void add_base_of_integers(bytes *b) {
    gguf_kv_u32(b, "llama.rope.freq_base", 10000);
}

static void reads_gguf(void **state) {
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_gguf(NULL, 0, "x", &c, &err), TDM_OK);
    assert_int_equal(c.hidden, 64);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 16);
    assert_int_equal(c.n_vocab, 11);
    assert_true(c.norm_eps == 0.5);
    assert_true(c.rope.theta == 10000.0 && c.rope.kind == TDM_ROPE_DEFAULT);
    assert_true(c.is_tied);
    assert_int_equal(c.n_eos, 0);
    assert_int_equal(read_gguf(NULL, 0, "output.weight", &c, &err), TDM_OK);
    assert_false(c.is_tied);
    assert_int_equal(read_gguf(NULL, 0, "blk.0.attn_q.bias", &c, &err), TDM_OK);
    assert_true(c.has_attention_bias);
    assert_int_equal(read_gguf(NULL, 0, "rope_freqs.weight", &c, &err), TDM_OK);
    assert_int_equal(c.rope.kind, TDM_ROPE_FREQ_FACTORS);
    assert_int_equal(read_gguf(add_yarn, 4, "x", &c, &err), TDM_OK);
    assert_int_equal(c.rope.kind, TDM_ROPE_YARN);
    assert_int_equal(c.rope.original_context, 32);
    assert_true(fabs(c.rope.attention_factor - 2.0 * (0.1 * log(4.0) + 1.0)) < 1e-12);
    assert_int_equal(read_gguf(add_ids, 4, "x", &c, &err), TDM_OK);
    assert_int_equal(c.n_eos, 2);
    assert_int_equal(c.eos_ids[1], 5);
    assert_int_equal(c.bos_id, 1);
    assert_int_equal(read_gguf(add_same_heads, 1, "x", &c, &err), TDM_OK);
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(read_gguf(add_pattern, 2, "x", &c, &err), TDM_OK);
    assert_int_equal(c.n_layer_types, 2);
    assert_memory_equal(c.is_sliding, "\0\1", 2);
}

/* A whole file from its keys, with one F32 tensor of two dimensions. */
static tdm_status read_keys(edit_fn *write, uint64_t n_keys, const char *tensor,
                            tdm_model_config *out, tdm_error *err) {
    bytes b = {0};
    mem_fs m;
    const tdm_checkpoint_options options = {.fs = &m.fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = TDM_OK;
    gguf_head(&b, 1, n_keys);
    write(&b);
    gguf_tensor(&b, tensor, 4, 6, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 96);
    mem_fs_init(&m);
    mem_fs_put(&m, "m.gguf", b.data, b.len);
    assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, "m.gguf", &options, err), TDM_OK);
    status = tdm_model_config_read(out, checkpoint, err);
    tdm_checkpoint_close(checkpoint);
    bytes_free(&b);
    return status;
}

static void write_sizes(bytes *b, const char *arch) {
    char key[80];
    static const char *const NAMES[] = {"block_count", "context_length", "embedding_length",
                                        "attention.head_count"};
    gguf_kv_text(b, "general.architecture", arch);
    for (size_t i = 0; i < SUPPORT_LEN(NAMES); i++) {
        (void)snprintf(key, sizeof key, "%s.%s", arch, NAMES[i]);
        gguf_kv_u32(b, key, 4);
    }
}

static void write_smollm3(bytes *b) { /* experts' size, the other epsilon, no vocabulary */
    write_sizes(b, "smollm3");
    gguf_kv_u32(b, "smollm3.expert_feed_forward_length", 4);
    gguf_kv_f32(b, "smollm3.attention.layer_norm_epsilon", 0.25F);
    gguf_kv_text(b, "smollm3.rope.scaling.type", "none");
}

static void write_no_mlp(bytes *b) {
    write_sizes(b, "llama");
}

static void write_no_architecture(bytes *b) {
    gguf_kv_u32(b, "general.architecture", 3);
}

static void write_long_architecture(bytes *b) {
    char name[100];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    gguf_kv_text(b, "general.architecture", name);
}

static void write_no_epsilon(bytes *b) {
    write_sizes(b, "llama");
    gguf_kv_u32(b, "llama.feed_forward_length", 4);
}

static void whole_files(void **state) {
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_keys(write_smollm3, 8, "token_embd.weight", &c, &err), TDM_OK);
    assert_int_equal(c.n_vocab, 6); /* rows of the embedding */
    assert_int_equal(c.intermediate, 0);
    assert_true(c.norm_eps == 0.25);
    assert_int_equal(c.n_no_rope, 4);
    assert_memory_equal(c.has_rope, "\1\1\1\0", 4);
    assert_int_equal(read_keys(write_smollm3, 8, "other", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "vocabulary has 0 tokens"));
    assert_int_equal(read_keys(write_no_mlp, 5, "token_embd.weight", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "llama.feed_forward_length"));
    assert_int_equal(read_keys(write_no_epsilon, 6, "token_embd.weight", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "epsilon"));
    assert_int_equal(read_keys(write_no_architecture, 1, "x", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "general.architecture is missing"));
    assert_int_equal(read_keys(write_long_architecture, 1, "x", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "too long"));
}

static void add_bad_id(bytes *b) {
    gguf_key(b, "tokenizer.ggml.bos_token_id", 5);
    bytes_u32(b, UINT32_MAX);
}

static void add_type_of_number(bytes *b) {
    gguf_kv_u32(b, "llama.rope.scaling.type", 1);
}

static void add_linear(bytes *b) {
    gguf_kv_text(b, "llama.rope.scaling.type", "linear");
    gguf_kv_f32(b, "llama.rope.scaling.factor", 2.0F);
}

static void add_multiplier(bytes *b) {
    gguf_kv_text(b, "llama.rope.scaling.type", "yarn");
    gguf_kv_f32(b, "llama.rope.scaling.factor", 2.0F);
    gguf_kv_f32(b, "llama.rope.scaling.yarn_log_multiplier", 0.125F);
}

static void add_bad_pattern(bytes *b) {
    gguf_key(b, "llama.attention.sliding_window_pattern", 9);
    bytes_u32(b, 7);
    bytes_u64(b, 3);
    bytes_fill(b, 1, 3);
}

static void add_sliding_without_window(bytes *b) {
    gguf_key(b, "llama.attention.sliding_window_pattern", 9);
    bytes_u32(b, 7);
    bytes_u64(b, 2);
    bytes_fill(b, 1, 2);
}

static void add_wide_rotation(bytes *b) {
    gguf_kv_u32(b, "llama.rope.dimension_count", 17);
}

static void gguf_edges(void **state) {
    static const struct {
        edit_fn *edit;
        uint64_t n_keys;
        const char *says;
    } CASES[] = {
        {add_bad_id, 1, "tokenizer.ggml.bos_token_id"},
        {add_type_of_number, 1, "is no text"},
        {add_bad_pattern, 1, "array of 2 bools"},
        {add_sliding_without_window, 1, "no sliding_window"},
        {add_wide_rotation, 1, "more dimensions rotate"},
    };
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        assert_int_equal(read_gguf(CASES[i].edit, CASES[i].n_keys, "x", &c, &err), TDM_E_FORMAT);
        assert_non_null(strstr(err.what, CASES[i].says));
    }
    assert_int_equal(read_gguf(add_linear, 2, "x", &c, &err), TDM_OK);
    assert_int_equal(c.rope.kind, TDM_ROPE_LINEAR);
    assert_true(c.rope.factor == 2.0);
    assert_int_equal(read_gguf(add_multiplier, 3, "x", &c, &err), TDM_OK);
    assert_true(c.rope.mscale == 1.25 && c.rope.mscale_all_dim == 1.25);
    assert_true(c.rope.attention_factor == 0.0);
}

static void layers_without_heads(void **state) {
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_gguf(add_convolution, 2, "x", &c, &err), TDM_OK);
    assert_int_equal(c.n_kv_heads, 2);
    assert_int_equal(c.conv_taps, 3);
    assert_memory_equal(c.is_conv, "\1\0", 2);
    assert_false(c.has_other_layer_types);
    assert_int_equal(read_gguf(add_no_heads, 1, "x", &c, &err), TDM_OK);
    assert_true(c.has_other_layer_types);
    assert_int_equal(c.is_conv[0], 0);
    assert_int_equal(read_gguf(add_heads_nowhere, 1, "x", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "head_count_kv"));
}

static void refuses_gguf(void **state) {
    tdm_model_config c;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_gguf(add_other_heads, 1, "x", &c, &err), TDM_OK); /* the model judges */
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.kv_heads_of[1], 2);
    assert_int_equal(read_gguf(add_text_heads, 1, "x", &c, &err), TDM_E_FORMAT);
    assert_int_equal(read_gguf(add_longrope, 1, "x", &c, &err), TDM_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "longrope"));
    assert_int_equal(read_gguf(add_base_of_integers, 1, "x", &c, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.where, "llama.rope.freq_base"));
    assert_int_equal(read_gguf(add_yarn, 4, "rope_freqs.weight", &c, &err), TDM_E_UNSUPPORTED);
}

/* ---- generation_config.json ---- */

static tdm_status read_generation(const char *text, tdm_generation_config *out, tdm_error *err) {
    tdm_model_config config;
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = read_json(LLAMA "}", text, &config, err, &checkpoint);
    if (status == TDM_OK) {
        status = tdm_generation_config_read(out, checkpoint, err);
    }
    tdm_checkpoint_close(checkpoint);
    return status;
}

static void sampling_defaults(void **state) {
    static const char *const BAD[] = {
        "{\"temperature\":-0.1}", "{\"top_p\":1.01}",           "{\"min_p\":\"0.1\"}",
        "{\"top_k\":-1}",         "{\"repetition_penalty\":0}", "{\"do_sample\":\"yes\"}",
        "{\"top_k\":1.5}"};
    tdm_generation_config g;
    tdm_error err = {0};
    (void)state;
    assert_int_equal(read_generation(NULL, &g, &err), TDM_OK);
    assert_true(isnan(g.temperature) && isnan(g.top_p) && isnan(g.min_p));
    assert_true(isnan(g.repetition_penalty) && g.top_k == -1 && !g.has_do_sample);
    assert_int_equal(read_generation("{\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0,"
                                     "\"repetition_penalty\":1.1,\"do_sample\":true,\"x\":[1]}",
                                     &g, &err),
                     TDM_OK);
    assert_true(g.temperature == 0.6 && g.top_p == 0.95 && g.min_p == 0.0);
    assert_true(g.repetition_penalty == 1.1 && g.top_k == 20);
    assert_true(g.has_do_sample && g.is_sampled);
    for (size_t i = 0; i < SUPPORT_LEN(BAD); i++) {
        assert_int_equal(read_generation(BAD[i], &g, &err), TDM_E_FORMAT);
        assert_non_null(strstr(err.where, "generation_config.json: $."));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_of_absent_keys),
        cmocka_unit_test(both_generations_of_rope),
        cmocka_unit_test(yarn_linear_and_partial),
        cmocka_unit_test(ropes_of_sliding_layers),
        cmocka_unit_test(gemma_defaults),
        cmocka_unit_test(experts),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(factors_and_class_defaults),
        cmocka_unit_test(sliding_layers),
        cmocka_unit_test(ids_and_nesting),
        cmocka_unit_test(refuses),
        cmocka_unit_test(reads_gguf),
        cmocka_unit_test(layers_without_heads),
        cmocka_unit_test(refuses_gguf),
        cmocka_unit_test(whole_files),
        cmocka_unit_test(gguf_edges),
        cmocka_unit_test(sampling_defaults),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
