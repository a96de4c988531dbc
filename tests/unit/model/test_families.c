/* SPDX-License-Identifier: Apache-2.0
 *
 * What each family makes of a configuration: the facts that no tensor shows (scales, windows,
 * ropes, norms), from both containers, and what is refused by name. */
#include "tensor/ops.h"
#include "unit/model/plain_config.h"

static void experts_stand_where_the_config_says(void **state) {
    tdm_model_config config = plain("qwen3_moe", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.experts.intermediate = 32;
    config.experts.is_dense[3] = 1;
    describe(&config);
    assert_int_equal(spec.experts.intermediate, 32);
    assert_false(spec.experts.is_renormalized);
    for (int32_t i = 0; i < 12; i++) {
        assert_int_equal(spec.layers[i].has_experts, i != 3);
    }
    config.experts.sparse_step = 2;
    config.experts.is_renormalized = true;
    describe(&config);
    assert_true(spec.experts.is_renormalized);
    assert_true(spec.layers[1].has_experts && !spec.layers[2].has_experts);
    assert_false(spec.layers[3].has_experts);
    config.intermediate = 0; /* then a dense layer has no width */
    refuse(&config, "intermediate_size");
    config = plain("qwen3moe", TDM_CONTAINER_GGUF);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.experts.intermediate = 32;
    config.intermediate = 0;
    describe(&config);
    assert_true(spec.experts.is_renormalized); /* always, in GGUF */
    config = plain("mixtral", TDM_CONTAINER_SAFETENSORS);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.sliding_window = 8;
    describe(&config);
    assert_int_equal(spec.experts.intermediate, 128);
    assert_int_equal(spec.experts.names, TDM_EXPERTS_BLOCK_SPARSE);
    assert_int_equal(spec.layers[11].window, 8);
    config.experts.n_used = 9;
    refuse(&config, "num_experts_per_tok");
    config.experts.n_used = 0;
    refuse(&config, "num_experts_per_tok");
    config.experts.n = 0;
    refuse(&config, "num_experts");
    config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    config.experts.n = 8;
    refuse(&config, "num_experts");
    config = plain("llama", TDM_CONTAINER_GGUF); /* a mixtral */
    config.experts.n = 8;
    refuse(&config, "expert_used_count");
    config.experts.n_used = 2;
    describe(&config);
    assert_true(spec.layers[0].has_experts && spec.experts.is_renormalized);
    config = plain("qwen2", TDM_CONTAINER_GGUF);
    config.experts.n = 8;
    refuse(&config, "expert_count");
    config = plain("qwen2_moe", TDM_CONTAINER_SAFETENSORS);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.intermediate = 0;
    refuse(&config, "moe_intermediate_size");
}

static void knobs_of_the_dense_families(void **state) {
    tdm_model_config config = plain("granite", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    describe(&config); /* absent factors are 1 */
    assert_true(spec.embed_scale == 1.0F && spec.attention_scale == 1.0F);
    assert_true(spec.residual_scale == 1.0F && spec.logit_divisor == 1.0F);
    config.embedding_multiplier = 12.0;
    config.attention_multiplier = 0.5;
    config.residual_multiplier = 0.25;
    config.logits_scaling = 8.0;
    describe(&config);
    assert_true(spec.embed_scale == 12.0F && spec.attention_scale == 0.5F);
    assert_true(spec.residual_scale == 0.25F && spec.logit_divisor == 8.0F);
    config = plain("phi3", TDM_CONTAINER_SAFETENSORS);
    config.rotary_dim = 8;
    config.sliding_window = 9;
    describe(&config);
    assert_int_equal(spec.rotary_dim, 8);
    assert_true(spec.is_qkv_fused && spec.layers[11].window == 9);
    config.rotary_dim = 7;
    refuse(&config, "partial_rotary_factor");
    config = plain("glm4", TDM_CONTAINER_SAFETENSORS);
    config.has_attention_bias = true;
    describe(&config);
    assert_int_equal(spec.pairing, TDM_ROPE_NEIGHBOURS);
    assert_int_equal(spec.naming, TDM_NAMING_GLM4);
    assert_int_equal(spec.qkv_bias, TDM_BIAS_REQUIRED);
    assert_int_equal(spec.o_bias, TDM_BIAS_NONE);
    config = plain("starcoder2", TDM_CONTAINER_SAFETENSORS);
    describe(&config);
    assert_int_equal(spec.activation.kind, TDM_GLU_GELU_TANH);
    assert_int_equal(spec.norm, TDM_NORM_LAYER);
    assert_int_equal(spec.mlp_bias, TDM_BIAS_NONE);
    config.has_bias = true;
    describe(&config);
    assert_int_equal(spec.mlp_bias, TDM_BIAS_REQUIRED);
    config = plain("olmo2", TDM_CONTAINER_SAFETENSORS);
    describe(&config);
    assert_int_equal(spec.block, TDM_BLOCK_POST);
    assert_int_equal(spec.qk_norm, TDM_QK_NORM_FULL);
    config = plain("olmo", TDM_CONTAINER_SAFETENSORS);
    describe(&config);
    assert_int_equal(spec.norm, TDM_NORM_LAYER_BARE);
    config.clip_qkv = 8.0;
    refuse(&config, "clip_qkv");
    config = plain("cohere", TDM_CONTAINER_SAFETENSORS);
    describe(&config);
    assert_int_equal(spec.block, TDM_BLOCK_PARALLEL);
    assert_true(spec.logit_divisor == 16.0F);
    config.has_qk_norm_flag = true;
    refuse(&config, "use_qk_norm");
    config = plain("granite", TDM_CONTAINER_GGUF);
    config.logit_scale = 4.0; /* divides there, and multiplies in command-r's files */
    describe(&config);
    assert_true(spec.logit_divisor == 4.0F && is_near(spec.attention_scale, 0.25));
    assert_int_equal(spec.pairing, TDM_ROPE_NEIGHBOURS);
    config = plain("command-r", TDM_CONTAINER_GGUF);
    config.logit_scale = 4.0;
    describe(&config);
    assert_true(spec.logit_divisor == 0.25F);
    config = plain("olmo2", TDM_CONTAINER_GGUF); /* olmo3 under another name */
    config.has_local_rope = true;
    config.n_layer_types = 12;
    config.sliding_window = 8;
    config.is_sliding[0] = 1;
    describe(&config);
    assert_int_equal(spec.layers[0].window, 8);
    assert_true(spec.ropes[spec.layers[0].rope_idx].theta == 1e4);
    assert_true(spec.ropes[spec.layers[1].rope_idx].theta == 1e6);
}

static void families_in_gguf(void **state) {
    tdm_model_config config = plain("olmo", TDM_CONTAINER_GGUF);
    (void)state;
    describe(&config);
    assert_int_equal(spec.pairing, TDM_ROPE_NEIGHBOURS);
    config = plain("starcoder2", TDM_CONTAINER_GGUF);
    describe(&config);
    assert_int_equal(spec.qkv_bias, TDM_BIAS_IF_PRESENT);
    assert_int_equal(spec.mlp_bias, TDM_BIAS_IF_PRESENT);
    assert_int_equal(spec.layers[0].window, 0);
    config = plain("cohere2", TDM_CONTAINER_GGUF);
    config.sliding_window = 8;
    describe(&config);
    assert_int_equal(spec.layers[2].window, 8);
    assert_false(spec.layers[3].has_rope);
    config = plain("qwen2moe", TDM_CONTAINER_GGUF);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.experts.shared_intermediate = 48;
    describe(&config);
    assert_int_equal(spec.qkv_bias, TDM_BIAS_IF_PRESENT);
    assert_false(spec.experts.is_renormalized);
    assert_int_equal(spec.experts.shared_intermediate, 48);
}

static void windows_by_period(void **state) {
    tdm_model_config config = plain("cohere2", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.sliding_window = 8;
    describe(&config);
    for (int32_t i = 0; i < 12; i++) {
        assert_int_equal(spec.layers[i].window, i % 4 == 3 ? 0 : 8);
        assert_int_equal(spec.layers[i].has_rope, i % 4 != 3); /* who sees all does not rotate */
    }
    config.sliding_period = 2;
    describe(&config);
    assert_int_equal(spec.layers[1].window, 0);
    config = plain("olmo3", TDM_CONTAINER_SAFETENSORS);
    config.has_local_rope = true;
    config.sliding_window = 8;
    describe(&config);
    assert_true(spec.ropes[spec.layers[0].rope_idx].theta == 1e4);
    assert_true(spec.ropes[spec.layers[3].rope_idx].theta == 1e6);
    config = plain("ministral", TDM_CONTAINER_SAFETENSORS);
    config.sliding_window = 8;
    describe(&config);
    assert_int_equal(spec.layers[11].window, 8);
    config.n_layer_types = 12;
    config.is_sliding[1] = 1;
    describe(&config);
    assert_int_equal(spec.layers[11].window, 0);
    assert_int_equal(spec.layers[1].window, 8);
}

static void lfm2_convolves_where_the_config_says(void **state) {
    tdm_model_config config = plain("lfm2", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.is_conv[0] = 1;
    config.conv_taps = 4;
    config.is_ff_adjusted = true; /* two thirds of 128 is 85, and the next multiple of 256 */
    describe(&config);
    assert_int_equal(spec.layers[0].mixer, TDM_MIXER_CONV);
    assert_int_equal(spec.layers[1].mixer, TDM_MIXER_ATTENTION);
    assert_int_equal(spec.conv_taps, 4);
    assert_int_equal(spec.intermediate, 256);
    config.ff_multiple_of = 8;
    config.ff_multiplier = 1.5; /* 127, and the next multiple of 8 */
    describe(&config);
    assert_int_equal(spec.intermediate, 128);
    config.conv_taps = TDM_CONV_TAPS_MAX + 1;
    refuse(&config, "conv_L_cache");
    config.conv_taps = TDM_CONV_TAPS_MAX;
    describe(&config);
    config.family = "llama";
    refuse(&config, "layer_types");
    config = plain("lfm2", TDM_CONTAINER_GGUF);
    config.is_ff_adjusted = true; /* a file says the width as it is */
    describe(&config);
    assert_int_equal(spec.intermediate, 128);
}

static void latent_attention(void **state) {
    tdm_model_config config = plain("deepseek_v3", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.has_attention_bias = true;
    config.n_mtp_layers = 1;
    describe(&config);
    assert_int_equal(spec.layers[0].mixer, TDM_MIXER_LATENT);
    assert_false(spec.layers[0].has_experts);
    assert_true(spec.layers[1].has_experts);
    assert_int_equal(spec.pairing, TDM_ROPE_NEIGHBOURS);
    assert_int_equal(spec.rope_dims[0], 6);
    assert_int_equal(spec.latent.kv_rank, 32);
    assert_int_equal(spec.latent.bias, TDM_BIAS_REQUIRED);
    assert_int_equal(spec.latent.index_top_k, 0);
    assert_int_equal(spec.n_mtp_layers, 1);
    assert_true(spec.latent.norm_eps == 1e-6F && spec.attention_scale == 0.25F);
    assert_int_equal(spec.experts.router, TDM_ROUTER_SIGMOID);
    assert_int_equal(spec.experts.n_groups, 2);
    assert_int_equal(spec.experts.shared_intermediate, 80);
    assert_true(spec.experts.is_shared_plain && spec.experts.routed_scale == 1.5F);
    /* Yarn scales the softmax by the square of its magnitude for all dimensions. */
    config.rope = (tdm_rope_config){
        .kind = TDM_ROPE_YARN, .factor = 40.0, .mscale = 1.0, .mscale_all_dim = 1.0};
    config.latent.is_rope_halved = true;
    describe(&config);
    double m = 0.1 * log(40.0) + 1.0;
    assert_true(fabs((double)spec.attention_scale - 0.25 * m * m) < 1e-7);
    assert_int_equal(spec.pairing, TDM_ROPE_HALVES);
    config.rope.mscale_all_dim = 0.0;
    describe(&config);
    assert_true(spec.attention_scale == 0.25F);
    memset(config.experts.is_dense, 1, sizeof config.experts.is_dense); /* experts nowhere */
    describe(&config);
    assert_false(spec.layers[1].has_experts);
    config.experts.n = 0;
    describe(&config);
    config.experts.is_dense[3] = 0;
    refuse(&config, "num_experts");
}

static void indexers(void **state) {
    tdm_model_config config = plain("glm_moe_dsa", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.latent.index_heads = 4;
    config.latent.index_dim = 8;
    config.latent.index_topk = 12;
    config.latent.is_index_shared[1] = 1;
    describe(&config);
    assert_int_equal(spec.latent.index_top_k, 12);
    assert_int_equal(spec.latent.index_heads, 4);
    assert_false(spec.layers[0].shares_choice);
    assert_true(spec.layers[1].shares_choice);
    config.latent.q_rank = 0;
    refuse(&config, "q_lora_rank");
    config.latent.q_rank = 24;
    config.latent.index_dim = 1024;
    refuse(&config, "index_head_dim");
    config.latent.index_dim = 8;
    config.family = "deepseek_v3"; /* whose reference knows no indexer */
    refuse(&config, "index_topk");
}

static void what_latent_attention_refuses(void **state) {
    tdm_model_config config = plain("deepseek_v3", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.latent.kv_rank = 0;
    config.value_dim = config.head_dim;
    refuse(&config, "kv_lora_rank");
    config.latent.kv_rank = 600;
    refuse(&config, "kv_lora_rank");
    config.latent.kv_rank = 32;
    config.latent.rope_dim = 5;
    refuse(&config, "qk_rope_head_dim");
    config.latent.rope_dim = 6;
    config.has_mlp_bias = true;
    refuse(&config, "mlp_bias");
    config.has_mlp_bias = false;
    config.experts.n_shared = 65536;
    config.experts.intermediate = 1048576;
    refuse(&config, "n_shared_experts");
    config = plain("llama", TDM_CONTAINER_SAFETENSORS); /* a family that knows nothing of it */
    config.latent.kv_rank = 32;
    refuse(&config, "kv_lora_rank");
}

static void gpt_oss_knows_what_files_leave_out(void **state) {
    tdm_model_config config = plain("gpt_oss", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.sliding_window = 8;
    config.hidden_act = "silu";
    config.rope.kind = TDM_ROPE_YARN;
    config.rope.is_truncated = true;
    describe(&config);
    assert_true(spec.has_sinks && spec.experts.is_renormalized && spec.ropes[0].is_truncated);
    assert_int_equal(spec.activation.kind, TDM_GLU_CLAMPED);
    assert_true(spec.activation.limit == 7.0F && is_near(spec.activation.alpha, 1.702));
    assert_int_equal(spec.experts.bias, TDM_BIAS_REQUIRED);
    assert_int_equal(spec.qkv_bias, TDM_BIAS_NONE);
    for (int32_t i = 0; i < 12; i++) {
        assert_int_equal(spec.layers[i].window, i % 2 == 0 ? 8 : 0);
    }
    config.swiglu_limit = 3.0;
    config.has_attention_bias = true;
    config.n_layer_types = 12;
    config.is_sliding[1] = 1;
    describe(&config);
    assert_true(spec.activation.limit == 3.0F && spec.layers[0].window == 0);
    assert_int_equal(spec.layers[1].window, 8);
    assert_int_equal(spec.o_bias, TDM_BIAS_REQUIRED);
    config.hidden_act = "gelu";
    refuse(&config, "hidden_act");
    config = plain("gpt-oss", TDM_CONTAINER_GGUF);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.rope.kind = TDM_ROPE_YARN;
    config.rope.is_truncated = true;
    refuse(&config, "attention.sliding_window");
    config.sliding_window = 8;
    describe(&config);
    assert_false(spec.ropes[0].is_truncated); /* no key says so, and the model was not */
    config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    config.swiglu_limit = 7.0;
    refuse(&config, "swiglu_limit");
}

static void what_no_block_does_is_refused(void **state) {
    tdm_model_config config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    describe(&config);
    config.has_local_rope = true;
    refuse(&config, "rope_parameters");
    config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    config.hidden_act = "relu2";
    refuse(&config, "hidden_act");
    config.hidden_act = "silu";
    config.rotary_dim = 8;
    refuse(&config, "partial_rotary_factor");
    config.rotary_dim = 16;
    config.value_dim = 8;
    refuse(&config, "value_length");
    config = plain("gemma3_text", TDM_CONTAINER_SAFETENSORS);
    config.is_bidirectional = true;
    refuse(&config, "use_bidirectional_attention");
    config.is_bidirectional = false;
    config.has_other_layer_types = true;
    refuse(&config, "layer_types");
    config = plain("gemma", TDM_CONTAINER_GGUF);
    config.intermediate = 0;
    refuse(&config, "intermediate_size");
    config = plain("gemma9", TDM_CONTAINER_GGUF);
    refuse(&config, "general.architecture");
    config = plain("mistral", TDM_CONTAINER_GGUF); /* files of it say llama */
    refuse(&config, "general.architecture");
}

static void what_single_layers_have_is_refused(void **state) {
    tdm_model_config config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.kv_heads_of[11] = 1;
    refuse(&config, "num_key_value_heads");
    config.kv_heads_of[11] = 2;
    config.head_dim_of[0] = 32;
    refuse(&config, "num_key_value_heads");
    config.head_dim_of[0] = 16;
    config.intermediate_of[3] = 64;
    refuse(&config, "intermediate_size");
    config.intermediate_of[3] = 128;
    config.global_head_dim = 32;
    refuse(&config, "global_head_dim");
    config.global_head_dim = 0;
    config.is_k_eq_v = true;
    refuse(&config, "attention_k_eq_v");
    config.is_k_eq_v = false;
    config.n_kv_shared = 1;
    refuse(&config, "num_kv_shared_layers");
    config.n_kv_shared = 0;
    config.ple_dim = 8;
    refuse(&config, "hidden_size_per_layer_input");
    config.ple_dim = 0;
    describe(&config);
}

static void minicpm_has_three_factors(void **state) {
    tdm_model_config config = plain("minicpm", TDM_CONTAINER_SAFETENSORS);
    tdm_error err = {0};
    (void)state;
    config.n_layers = 9;
    describe(&config);
    assert_true(is_near(spec.embed_scale, 12.0) && is_near(spec.residual_scale, 0.5));
    assert_true(is_near(spec.logit_divisor, 2.0) && spec.pairing == TDM_ROPE_HALVES);
    config.dim_model_base = 96.0; /* a divisor of 1 is honoured too */
    config.scale_depth = 3.0;
    describe(&config);
    assert_true(spec.logit_divisor == 1.0F && spec.residual_scale == 1.0F);
    config.has_sparse_config = true;
    refuse(&config, "sparse_config");
    config.has_sparse_config = false;
    config.scale_depth = 0.0;
    assert_int_equal(tdm_graph_describe(&config, &spec, &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.what, "scale_depth is missing"));
    config = plain("minicpm", TDM_CONTAINER_GGUF);
    describe(&config);
    assert_true(is_near(spec.residual_scale, 0.25) && is_near(spec.logit_divisor, 2.0));
    assert_int_equal(spec.pairing, TDM_ROPE_NEIGHBOURS);
    config.logit_scale = 0.0; /* files of an older converter */
    assert_int_equal(tdm_graph_describe(&config, &spec, &err), TDM_E_FORMAT);
}

/* A factor in the config of a family that has none would change every logit. */
static void foreign_factors_are_refused(void **state) {
    tdm_model_config config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.embedding_multiplier = 1.0;
    describe(&config);
    config.embedding_multiplier = 12.0;
    refuse(&config, "embedding_multiplier");
    config = plain("qwen3", TDM_CONTAINER_SAFETENSORS);
    config.residual_multiplier = 0.5;
    refuse(&config, "residual_multiplier");
    config = plain("qwen2", TDM_CONTAINER_GGUF);
    config.logit_scale = 0.25;
    refuse(&config, "logit_scale");
}

/* Each fourth layer is attention, the others are what the config says of heads and taps. */
static tdm_model_config linear(const char *family, tdm_container container) {
    tdm_model_config config = plain(family, container);
    config.has_output_gate = true;
    config.rotary_dim = 8;
    config.experts.n = strcmp(family, "qwen3_5") == 0 || strcmp(family, "qwen35") == 0 ? 0 : 8;
    config.experts.n_used = config.experts.n > 0 ? 2 : 0;
    config.linear = (tdm_linear_config){
        .n_key_heads = 2, .n_value_heads = 4, .key_dim = 8, .value_dim = 16, .n_taps = 4};
    for (int32_t i = 0; i < config.n_layers; i++) {
        config.linear.is_linear[i] = i % 4 != 3;
    }
    return config;
}

static void qwens_with_linear_layers(void **state) {
    static const struct {
        const char *hub, *gguf;
        bool is_woven, is_tiled; /* in which container: woven in the hub's, tiled in GGUF */
        bool has_experts;
    } FAMILIES[] = {{"qwen3_next", "qwen3next", true, false, true},
                    {"qwen3_5", "qwen35", false, true, false},
                    {"qwen3_5_moe", "qwen35moe", false, true, true}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(FAMILIES); i++) {
        tdm_model_config config = linear(FAMILIES[i].hub, TDM_CONTAINER_SAFETENSORS);
        describe(&config);
        assert_int_equal(spec.layers[2].mixer, TDM_MIXER_DELTA);
        assert_int_equal(spec.layers[3].mixer, TDM_MIXER_ATTENTION);
        assert_int_equal(spec.layers[0].has_experts, FAMILIES[i].has_experts);
        assert_true(spec.norm_offset == 1.0F && spec.has_output_gate && spec.has_mtp_tensors);
        assert_int_equal(spec.rotary_dim, 8);
        assert_int_equal(spec.delta.n_value_heads, 4);
        assert_int_equal(spec.delta.is_qkvz_woven, FAMILIES[i].is_woven);
        assert_int_equal(spec.delta.is_ba_woven, FAMILIES[i].is_woven);
        assert_false(spec.delta.is_tiled);
        config = linear(FAMILIES[i].gguf, TDM_CONTAINER_GGUF);
        describe(&config);
        assert_true(spec.norm_offset == 0.0F);
        assert_false(spec.delta.is_qkvz_woven);
        assert_int_equal(spec.delta.is_ba_woven, FAMILIES[i].is_woven);
        assert_int_equal(spec.delta.is_tiled, FAMILIES[i].is_tiled);
        assert_true(spec.experts.n == 0 || spec.experts.is_renormalized);
        config = linear(FAMILIES[i].hub, TDM_CONTAINER_SAFETENSORS);
        config.has_output_gate = false;
        refuse(&config, "attn_output_gate");
        config = linear(FAMILIES[i].hub, TDM_CONTAINER_SAFETENSORS);
        config.linear.value_dim = TDM_HEAD_DIM_MAX + 1;
        refuse(&config, "linear_key_head_dim");
        config = linear(FAMILIES[i].hub, TDM_CONTAINER_SAFETENSORS);
        config.linear.n_taps = TDM_CONV_TAPS_MAX + 1;
        refuse(&config, "linear_conv_kernel_dim");
        config = linear(FAMILIES[i].hub, TDM_CONTAINER_SAFETENSORS);
        config.hidden_act = "gelu";
        refuse(&config, "hidden_act");
    }
    tdm_model_config config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    config.linear.is_linear[1] = 1;
    refuse(&config, "layer_types");
    config = plain("llama", TDM_CONTAINER_SAFETENSORS);
    config.has_output_gate = true;
    refuse(&config, "attn_output_gate");
}

static void every_family_has_a_name(void **state) {
    size_t n = 0;
    (void)state;
    while (tdm_family_name_at(n) != NULL) {
        tdm_model_config config = plain(tdm_family_name_at(n), TDM_CONTAINER_SAFETENSORS);
        config.sliding_window = 8;
        if (tdm_graph_describe(&config, &spec, NULL) != TDM_OK) {
            config.experts.n = 8; /* a family of experts */
            config.experts.n_used = 2;
            config.has_output_gate =
                strncmp(config.family, "qwen3_", 6) == 0 && strcmp(config.family, "qwen3_moe") != 0;
            config.experts.n = strcmp(config.family, "qwen3_5") == 0 ? 0 : 8;
            describe(&config);
        }
        for (size_t i = 0; i < n; i++) {
            assert_string_not_equal(tdm_family_name_at(i), tdm_family_name_at(n));
        }
        n++;
    }
    assert_true(n >= 22);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_stand_where_the_config_says),
        cmocka_unit_test(knobs_of_the_dense_families),
        cmocka_unit_test(families_in_gguf),
        cmocka_unit_test(windows_by_period),
        cmocka_unit_test(lfm2_convolves_where_the_config_says),
        cmocka_unit_test(latent_attention),
        cmocka_unit_test(indexers),
        cmocka_unit_test(what_latent_attention_refuses),
        cmocka_unit_test(gpt_oss_knows_what_files_leave_out),
        cmocka_unit_test(what_no_block_does_is_refused),
        cmocka_unit_test(what_single_layers_have_is_refused),
        cmocka_unit_test(minicpm_has_three_factors),
        cmocka_unit_test(foreign_factors_are_refused),
        cmocka_unit_test(qwens_with_linear_layers),
        cmocka_unit_test(every_family_has_a_name),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
