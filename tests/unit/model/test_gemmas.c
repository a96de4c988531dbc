/* SPDX-License-Identifier: Apache-2.0
 *
 * What gemma 1 to 4 make of a configuration. Other families are in test_families.c. */
#include "tensor/ops.h"
#include "unit/model/plain_config.h"

static void gemma_is_llama_with_other_ends(void **state) {
    tdm_model_config config = plain("gemma", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    describe(&config);
    assert_true(is_near(spec.embed_scale, 9.797958971132712)); /* f32: not bf16's 9.8125 */
    assert_true(spec.norm_offset == 1.0F);
    assert_int_equal(spec.activation.kind, TDM_GLU_GELU_TANH);
    assert_int_equal(spec.block, TDM_BLOCK_PRE);
    config.hidden_act = "gelu";
    describe(&config);
    assert_int_equal(spec.activation.kind, TDM_GLU_GELU_ERF);
    config = plain("gemma", TDM_CONTAINER_GGUF);
    describe(&config);
    assert_true(spec.norm_offset == 0.0F);
    assert_int_equal(spec.pairing, TDM_ROPE_HALVES);
}

static void gemma2_knows_what_files_leave_out(void **state) {
    tdm_model_config config = plain("gemma2", TDM_CONTAINER_SAFETENSORS);
    (void)state;
    config.sliding_window = 8;
    config.query_scalar = 24.0;
    describe(&config);
    assert_int_equal(spec.block, TDM_BLOCK_SANDWICH);
    assert_true(is_near(spec.attention_scale, 1.0 / sqrt(24.0)));
    assert_int_equal(spec.layers[0].window, 8);
    assert_int_equal(spec.layers[1].window, 0);
    assert_true(spec.attention_softcap == 0.0F && spec.final_softcap == 0.0F);
    config = plain("gemma2", TDM_CONTAINER_GGUF);
    describe(&config);
    assert_true(is_near(spec.attention_scale, 0.25));
    assert_int_equal(spec.layers[0].window, 4096);
    assert_true(spec.attention_softcap == 50.0F && spec.final_softcap == 30.0F);
    config.n_layers = 46;
    describe(&config);
    assert_true(is_near(spec.attention_scale, 1.0 / sqrt(24.0))); /* hidden over heads */
}

static void gemma3_turns_local_layers_by_their_own_base(void **state) {
    tdm_model_config config = plain("gemma3", TDM_CONTAINER_GGUF);
    (void)state;
    config.has_local_rope = true;
    config.sliding_window = 8;
    describe(&config);
    assert_int_equal(spec.n_ropes, 2);
    assert_int_equal(spec.qk_norm, TDM_QK_NORM_HEAD);
    assert_true(is_near(spec.attention_scale, 0.25));
    for (int32_t i = 0; i < 12; i++) {
        bool is_full = i == 5 || i == 11;
        assert_int_equal(spec.layers[i].window, is_full ? 0 : 8);
        assert_true(spec.ropes[spec.layers[i].rope_idx].theta == (is_full ? 1e6 : 1e4));
    }
    config.sliding_period = 3;
    describe(&config);
    assert_int_equal(spec.layers[2].window, 0);
    assert_int_equal(spec.layers[5].window, 0);
    assert_int_equal(spec.layers[6].window, 8);
    config.n_layer_types = 12; /* an array of types wins over a period */
    config.is_sliding[2] = 1;
    describe(&config);
    assert_int_equal(spec.layers[2].window, 8);
    assert_int_equal(spec.layers[1].window, 0);
    config = plain("gemma3_text", TDM_CONTAINER_SAFETENSORS);
    config.query_scalar = 24.0;
    describe(&config);
    assert_true(is_near(spec.attention_scale, 1.0 / sqrt(24.0)));
    assert_int_equal(spec.layers[0].window, 0); /* no window, and then no local base either */
    assert_int_equal(spec.layers[0].rope_idx, 0);
    config.family = "gemma3"; /* the name of the whole, text inside */
    describe(&config);
}

/* Six layers of gemma 4, the third and the last of them full. */
static tdm_model_config gemma4(void) {
    tdm_model_config config = plain("gemma4_text", TDM_CONTAINER_SAFETENSORS);
    config.n_layers = 6;
    config.n_layer_types = 6;
    config.sliding_window = 8;
    config.has_local_rope = true;
    config.global_head_dim = config.global_rotary_dim = 32;
    config.rope.kind = TDM_ROPE_PROPORTIONAL;
    config.rope.fraction = 0.25;
    for (int32_t i = 0; i < 6; i++) {
        config.is_sliding[i] = i % 3 != 2;
    }
    return config;
}

static void gemma4_has_heads_by_kind_of_layer(void **state) {
    tdm_model_config config = gemma4();
    (void)state;
    config.is_k_eq_v = true;
    config.n_global_kv_heads = 1;
    describe(&config);
    assert_true(spec.attention_scale == 1.0F && spec.norm_offset == 0.0F);
    assert_true(is_near(spec.embed_scale, 9.797958971132712));
    assert_int_equal(spec.activation.kind, TDM_GLU_GELU_TANH);
    assert_true(spec.has_value_norm && spec.has_layer_scale);
    assert_int_equal(spec.ple.dim, 0);
    assert_int_equal(spec.rope_dims[0], 32);
    assert_int_equal(spec.rope_dims[1], 16);
    for (int32_t i = 0; i < 6; i++) {
        const tdm_layer_spec *layer = &spec.layers[i];
        bool is_full = i % 3 == 2;
        assert_int_equal(layer->window, is_full ? 0 : 8);
        assert_int_equal(layer->heads.dim, is_full ? 32 : 16);
        assert_int_equal(layer->heads.value_dim, is_full ? 32 : 16);
        assert_int_equal(layer->heads.n_kv, is_full ? 1 : 2);
        assert_int_equal(layer->is_k_eq_v, is_full);
        assert_int_equal(layer->rope_idx, is_full ? 0 : 1);
        assert_int_equal(layer->intermediate, 128);
        assert_false(layer->has_donor);
    }
    assert_int_equal(spec.experts.n, 0);
    config.experts.n = 8;
    config.experts.n_used = 2;
    config.experts.intermediate = 32;
    describe(&config);
    assert_true(spec.experts.is_beside && spec.experts.is_renormalized);
    assert_true(spec.layers[0].has_experts && spec.layers[5].has_experts);
    assert_int_equal(spec.layers[0].intermediate, 128);
    config.experts.shared_intermediate = 32;
    refuse(&config, "expert_shared_feed_forward_length");
    config.experts.shared_intermediate = 0;
    config.experts.n_used = 9;
    refuse(&config, "num_experts_per_tok");
    config.experts.n = config.experts.n_used = 0;
    config.is_k_eq_v = false; /* then the number of global key heads is not for us */
    describe(&config);
    assert_int_equal(spec.layers[2].heads.n_kv, 2);
    assert_false(spec.layers[2].is_k_eq_v);
    config.is_sliding[5] = 1; /* transformers makes the last layer full; llama.cpp does not */
    describe(&config);
    assert_int_equal(spec.layers[5].window, 0);
    config.container = TDM_CONTAINER_GGUF;
    config.family = "gemma4";
    describe(&config);
    assert_int_equal(spec.layers[5].window, 8);
    config.n_layer_types = 0;
    config.n_layers = 12;
    describe(&config);
    assert_int_equal(spec.layers[4].window, 8);
    assert_int_equal(spec.layers[5].window, 0);
    assert_int_equal(spec.layers[11].window, 0);
}

static void gemma4_layers_share_by_kind(void **state) {
    tdm_model_config config = gemma4();
    (void)state;
    config.n_kv_shared = 3;
    config.is_double_wide = true;
    config.ple_dim = 4;
    describe(&config);
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(spec.layers[i].has_donor, i >= 3);
        assert_int_equal(spec.layers[i].intermediate, i >= 3 ? 256 : 128);
    }
    assert_int_equal(spec.layers[3].donor, 1);
    assert_int_equal(spec.layers[4].donor, 1);
    assert_int_equal(spec.layers[5].donor, 2);
    assert_int_equal(spec.ple.dim, 4);
    assert_int_equal(spec.ple.n_vocab, 320);
    config.n_ple_vocab = 319;
    refuse(&config, "vocab_size_per_layer_input");
    config.n_ple_vocab = 0;
    config.n_kv_shared = 4; /* the first full layer is among them */
    refuse(&config, "num_kv_shared_layers");
    config.n_kv_shared = 6; /* nobody owns any */
    refuse(&config, "num_kv_shared_layers");
    config.n_kv_shared = 0;
    config.head_dim_of[1] = 8;
    refuse(&config, "per_layer_config");
    config.head_dim_of[1] = 16;
    config.global_rotary_dim = 16;
    refuse(&config, "rope.dimension_count");
    config.global_rotary_dim = 32;
    config.sliding_window = 0;
    refuse(&config, "sliding_window");
    config.sliding_window = 8;
    config.global_head_dim = config.global_rotary_dim =
        TDM_HEAD_DIM_MAX + 2; /* wider than attention takes */
    assert_int_equal(tdm_graph_describe(&config, &spec, NULL), TDM_E_UNSUPPORTED);
    config.global_head_dim = config.global_rotary_dim = 32;
    config.kv_heads_of[0] = 0;
    assert_int_equal(tdm_graph_describe(&config, &spec, NULL), TDM_E_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gemma_is_llama_with_other_ends),
        cmocka_unit_test(gemma2_knows_what_files_leave_out),
        cmocka_unit_test(gemma3_turns_local_layers_by_their_own_base),
        cmocka_unit_test(gemma4_has_heads_by_kind_of_layer),
        cmocka_unit_test(gemma4_layers_share_by_kind),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
