/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations with latent attention: what absent keys mean, in both containers, and what is
 * refused: ranks, groups and lists of layers that cannot be, and ways to compute that are not run
 * here. */
#include "formats/config.h"

#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#define BASE                                                                                       \
    "\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"                        \
    "\"intermediate_size\":128,\"vocab_size\":320,\"max_position_embeddings\":512,"                \
    "\"n_routed_experts\":64,\"num_experts_per_tok\":3,\"moe_intermediate_size\":32"
#define V3 "{\"model_type\":\"deepseek_v3\"," BASE
#define LITE "{\"model_type\":\"glm4_moe_lite\"," BASE
#define DSA "{\"model_type\":\"glm_moe_dsa\"," BASE

static tdm_model_config c;
static tdm_error err;

static tdm_status read_folder(mem_fs *m, const char *path) {
    const tdm_checkpoint_options options = {.fs = &m->fs};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = tdm_checkpoint_open(&checkpoint, NULL, path, &options, &err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(&c, checkpoint, &err);
        c.family = c.text_family = c.hidden_act = NULL; /* they die with the checkpoint */
    }
    tdm_checkpoint_close(checkpoint);
    return status;
}

static tdm_status read_json(const char *config) {
    static mem_fs m;
    bytes b = safetensors_of("{}", 0);
    memset(&err, 0, sizeof err);
    mem_fs_init(&m);
    mem_fs_put_text(&m, "d/config.json", config);
    mem_fs_put(&m, "d/model.safetensors", b.data, b.len);
    tdm_status status = read_folder(&m, "d");
    bytes_free(&b);
    return status;
}

static void must_read(const char *config) {
    if (read_json(config) != TDM_OK) {
        fail_msg("%s: %s at %s", config, err.what, err.where);
    }
}

static void expect(const char *input, tdm_status got, tdm_status want, const char *says) {
    if (got != want || (strstr(err.what, says) == NULL && strstr(err.where, says) == NULL) ||
        err.remedy[0] == '\0') {
        fail_msg("%s: wanted %s with \"%s\": %s, %s at %s", input, tdm_status_name(want), says,
                 tdm_status_name(got), err.what, err.where);
    }
}

static void refuse(const char *config, tdm_status status, const char *says) {
    expect(config, read_json(config), status, says);
}

static void what_absent_keys_mean(void **state) {
    (void)state;
    must_read(V3 "}");
    assert_int_equal(c.latent.q_rank, 1536);
    assert_int_equal(c.latent.kv_rank, 512);
    assert_int_equal(c.latent.nope_dim, 128);
    assert_int_equal(c.latent.rope_dim, 64);
    assert_int_equal(c.head_dim, 192);
    assert_int_equal(c.rotary_dim, 64);
    assert_int_equal(c.value_dim, 128);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.latent.index_topk, 0);
    assert_false(c.latent.is_rope_halved);
    assert_int_equal(c.experts.n, 64);
    assert_int_equal(c.experts.n_groups, 8);
    assert_int_equal(c.experts.n_groups_used, 4);
    assert_int_equal(c.experts.n_shared, 1);
    assert_true(c.experts.routed_scale == 2.5 && c.experts.is_renormalized);
    assert_memory_equal(c.experts.is_dense, "\1\1\1\0", 4);
    must_read(LITE "}");
    assert_int_equal(c.latent.q_rank, 768);
    assert_int_equal(c.value_dim, 256);
    assert_int_equal(c.experts.n_groups, 1);
    assert_true(c.experts.routed_scale == 1.8);
    assert_memory_equal(c.experts.is_dense, "\1\0\0\0", 4);
    must_read(DSA "}");
    assert_int_equal(c.latent.index_heads, 32);
    assert_int_equal(c.latent.index_dim, 128);
    assert_int_equal(c.latent.index_topk, 2048);
    assert_memory_equal(c.latent.is_index_shared, "\0\0\0\0", 4);
}

static void what_keys_say(void **state) {
    (void)state;
    must_read(V3 ",\"q_lora_rank\":null,\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,"
                 "\"qk_rope_head_dim\":8,\"v_head_dim\":12,\"head_dim\":8,\"n_group\":2,"
                 "\"topk_group\":1,\"rope_interleave\":false,\"norm_topk_prob\":false,"
                 "\"first_k_dense_replace\":9,\"n_shared_experts\":0,\"scoring_func\":\"sigmoid\","
                 "\"topk_method\":\"noaux_tc\",\"moe_layer_freq\":1,"
                 "\"routed_scaling_factor\":1,\"num_nextn_predict_layers\":2}");
    assert_int_equal(c.latent.q_rank, 0);
    assert_int_equal(c.head_dim, 24); /* not what head_dim says there */
    assert_int_equal(c.value_dim, 12);
    assert_int_equal(c.experts.n_groups, 2);
    assert_int_equal(c.experts.n_shared, 0);
    assert_int_equal(c.n_mtp_layers, 2);
    assert_true(c.latent.is_rope_halved && !c.experts.is_renormalized);
    assert_memory_equal(c.experts.is_dense, "\1\1\1\1", 4);
    must_read(LITE ",\"mlp_layer_types\":[\"sparse\",\"dense\",\"sparse\",\"dense\"]}");
    assert_memory_equal(c.experts.is_dense, "\0\1\0\1", 4);
}

/* One list for the layers of an indexer, in each of its spellings. */
static void lists_of_indexers(void **state) {
    static const char *const SPELLINGS[] = {
        ",\"indexer_types\":[\"full\",\"full\",\"shared\",\"full\"]}",
        ",\"index_topk_pattern\":\"FFSF\"}",
        ",\"index_topk_pattern\":[\"full\",\"full\",\"shared\",\"full\"]}",
        ",\"index_topk_freq\":2,\"index_skip_topk_offset\":2}",
    };
    char config[512];
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SPELLINGS); i++) {
        (void)snprintf(config, sizeof config, DSA "%s", SPELLINGS[i]);
        must_read(config);
        assert_memory_equal(c.latent.is_index_shared, "\0\0\1\0", 4);
    }
    must_read(DSA ",\"layer_types\":[\"deepseek_sparse_attention\",\"deepseek_sparse_attention\","
                  "\"deepseek_sparse_attention\",\"deepseek_sparse_attention\"]}");
    assert_false(c.has_other_layer_types);
    must_read(DSA ",\"layer_types\":[\"deepseek_sparse_attention\",\"full_attention\","
                  "\"deepseek_sparse_attention\",\"deepseek_sparse_attention\"]}");
    assert_true(c.has_other_layer_types);
}

static void refuses(void **state) {
    static const struct {
        const char *config;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {V3 ",\"kv_lora_rank\":0}", TDM_E_FORMAT, "kv_lora_rank is 0"},
        {V3 ",\"kv_lora_rank\":-32}", TDM_E_FORMAT, "kv_lora_rank is -32"},
        {V3 ",\"kv_lora_rank\":1e9}", TDM_E_FORMAT, "kv_lora_rank"},
        {V3 ",\"q_lora_rank\":0}", TDM_E_FORMAT, "q_lora_rank is 0"},
        {V3 ",\"q_lora_rank\":\"24\"}", TDM_E_FORMAT, "q_lora_rank"},
        {V3 ",\"qk_nope_head_dim\":0}", TDM_E_FORMAT, "qk_nope_head_dim is 0"},
        {V3 ",\"qk_rope_head_dim\":1}", TDM_E_FORMAT, "qk_rope_head_dim is 1"},
        {V3 ",\"v_head_dim\":-1}", TDM_E_FORMAT, "v_head_dim is -1"},
        {V3 ",\"qk_nope_head_dim\":8192}", TDM_E_FORMAT, "both parts of a head"},
        {V3 ",\"n_group\":3,\"topk_group\":1}", TDM_E_FORMAT, "do not divide"},
        {V3 ",\"n_group\":64,\"topk_group\":4}", TDM_E_FORMAT, "two and more"},
        {V3 ",\"n_group\":0}", TDM_E_FORMAT, "n_group is 0"},
        {V3 ",\"n_group\":2,\"topk_group\":3}", TDM_E_FORMAT, "topk_group"},
        {V3 ",\"n_group\":32,\"topk_group\":1}", TDM_E_FORMAT, "more experts are used"},
        {V3 ",\"routed_scaling_factor\":0}", TDM_E_FORMAT, "routed_scaling_factor"},
        {V3 ",\"first_k_dense_replace\":-1}", TDM_E_FORMAT, "first_k_dense_replace"},
        {LITE ",\"partial_rotary_factor\":0.5}", TDM_E_FORMAT, "partial_rotary_factor"},
        {LITE ",\"mlp_layer_types\":[\"dense\"]}", TDM_E_FORMAT, "1 elements for 4 layers"},
        {LITE ",\"mlp_layer_types\":[\"dense\",\"sparse\",\"sparse\",\"moe\"]}", TDM_E_FORMAT,
         "mlp_layer_types[3]"},
        {LITE ",\"scoring_func\":\"softmax\"}", TDM_E_UNSUPPORTED, "scoring_func"},
        {LITE ",\"topk_method\":\"greedy\"}", TDM_E_UNSUPPORTED, "topk_method"},
        {LITE ",\"moe_layer_freq\":2}", TDM_E_UNSUPPORTED, "moe_layer_freq"},
        {LITE ",\"rope_interleave\":1}", TDM_E_FORMAT, "rope_interleave"},
        {DSA ",\"index_topk\":0}", TDM_E_FORMAT, "index_topk is 0"},
        {DSA ",\"index_n_heads\":-4}", TDM_E_FORMAT, "index_n_heads is -4"},
        {DSA ",\"index_head_dim\":32}", TDM_E_FORMAT, "more dimensions rotate"},
        {DSA ",\"indexer_types\":[\"shared\",\"full\",\"full\",\"full\"]}", TDM_E_FORMAT,
         "first layer"},
        {DSA ",\"indexer_types\":[\"full\"]}", TDM_E_FORMAT, "1 elements for 4 layers"},
        {DSA ",\"indexer_types\":[1,1,1,1]}", TDM_E_FORMAT, "indexer_types[0]"},
        {DSA ",\"index_topk_pattern\":\"FSX\"}", TDM_E_FORMAT, "one letter a layer"},
        {DSA ",\"index_topk_pattern\":\"FSXF\"}", TDM_E_FORMAT, "other than F and S"},
        {DSA ",\"index_topk_freq\":-1}", TDM_E_FORMAT, "index_topk_freq"},
        {DSA ",\"indexer_rope_interleave\":false}", TDM_E_UNSUPPORTED, "pairs halves"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        refuse(CASES[i].config, CASES[i].status, CASES[i].says);
    }
}

/* ---- GGUF ---- */

typedef struct key {
    const char *name;
    enum { U32, F32, BOOL, FLAGS, NONE } kind;
    double value; /* of FLAGS: bits, the first layer lowest */
} key;

static const key USUAL[] = {
    {"block_count", U32, 4},
    {"context_length", U32, 512},
    {"embedding_length", U32, 64},
    {"feed_forward_length", U32, 128},
    {"attention.head_count", U32, 4},
    {"attention.head_count_kv", U32, 1},
    {"attention.layer_norm_rms_epsilon", F32, 0.5},
    {"vocab_size", U32, 320},
    {"attention.key_length", U32, 40},
    {"attention.value_length", U32, 32},
    {"attention.key_length_mla", U32, 24},
    {"attention.value_length_mla", U32, 16},
    {"attention.q_lora_rank", U32, 24},
    {"attention.kv_lora_rank", U32, 32},
    {"rope.dimension_count", U32, 8},
    {"expert_count", U32, 8},
    {"expert_used_count", U32, 2},
    {"expert_group_count", U32, 2},
    {"expert_feed_forward_length", U32, 32},
    {"expert_shared_count", U32, 1},
    {"expert_gating_func", U32, 2},
    {"leading_dense_block_count", U32, 1},
};

static void put_key(bytes *b, const char *arch, const key *k, int n_flags) {
    char name[96];
    (void)snprintf(name, sizeof name, "%s.%s", arch, k->name);
    switch (k->kind) {
    case U32:
        gguf_kv_u32(b, name, (uint32_t)k->value);
        break;
    case F32:
        gguf_kv_f32(b, name, (float)k->value);
        break;
    case BOOL:
        gguf_text(b, name);
        bytes_number(b, 7, 4);
        bytes_number(b, (uint64_t)k->value, 1);
        break;
    case FLAGS:
        gguf_text(b, name);
        bytes_number(b, 9, 4);
        bytes_number(b, 7, 4);
        bytes_number(b, (uint64_t)n_flags, 8);
        for (int i = 0; i < n_flags; i++) {
            bytes_number(b, (uint64_t)k->value >> i & 1, 1);
        }
        break;
    case NONE:
    default:
        break;
    }
}

/* The usual keys, with those of `own` in their place or behind; n own. */
static tdm_status read_gguf(const char *arch, const key *own, size_t n, int n_flags) {
    static mem_fs m;
    bytes b = {0};
    bool is_used[8] = {false};
    uint64_t n_keys = 1;
    assert_true(n <= 8);
    for (int pass = 0; pass < 2; pass++) { /* counting, then writing */
        if (pass == 1) {
            gguf_head(&b, 1, n_keys);
            gguf_kv_text(&b, "general.architecture", arch);
        }
        for (size_t i = 0; i < SUPPORT_LEN(USUAL) + n; i++) {
            const key *k = i < SUPPORT_LEN(USUAL) ? &USUAL[i] : &own[i - SUPPORT_LEN(USUAL)];
            for (size_t j = 0; i < SUPPORT_LEN(USUAL) && j < n; j++) {
                if (strcmp(own[j].name, USUAL[i].name) == 0) {
                    k = &own[j];
                    is_used[j] = true;
                }
            }
            if (k->kind == NONE || (i >= SUPPORT_LEN(USUAL) && is_used[i - SUPPORT_LEN(USUAL)])) {
                continue;
            }
            if (pass == 0) {
                n_keys++;
            } else {
                put_key(&b, arch, k, n_flags);
            }
        }
    }
    gguf_tensor(&b, "x", 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 32);
    memset(&err, 0, sizeof err);
    mem_fs_init(&m);
    mem_fs_put(&m, "m.gguf", b.data, b.len);
    tdm_status status = read_folder(&m, "m.gguf");
    bytes_free(&b);
    return status;
}

static void reads_gguf(void **state) {
    const key more[] = {{"nextn_predict_layers", U32, 1},
                        {"expert_weights_norm", BOOL, 1},
                        {"expert_weights_scale", F32, 1.5}};
    const key old[] = {{"attention.key_length_mla", NONE, 0},
                       {"attention.value_length_mla", NONE, 0},
                       {"attention.key_length", U32, 24},
                       {"attention.value_length", U32, 16},
                       {"attention.q_lora_rank", NONE, 0}};
    (void)state;
    assert_int_equal(read_gguf("deepseek2", NULL, 0, 0), TDM_OK);
    assert_int_equal(c.head_dim, 24);
    assert_int_equal(c.value_dim, 16);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.rotary_dim, 8);
    assert_int_equal(c.latent.nope_dim, 16);
    assert_int_equal(c.latent.kv_rank, 32);
    assert_int_equal(c.latent.index_topk, 0);
    assert_int_equal(c.experts.n_groups, 2);
    assert_int_equal(c.experts.n_groups_used, 1);
    assert_true(c.experts.routed_scale == 1.0 && !c.experts.is_renormalized);
    assert_memory_equal(c.experts.is_dense, "\1\0\0\0", 4);
    assert_int_equal(read_gguf("deepseek2", more, 3, 0), TDM_OK);
    assert_int_equal(c.n_layers, 3);
    assert_int_equal(c.n_mtp_layers, 1);
    assert_true(c.experts.routed_scale == 1.5 && c.experts.is_renormalized);
    assert_int_equal(read_gguf("deepseek2", old, 5, 0),
                     TDM_OK); /* before files were written as MQA */
    assert_int_equal(c.head_dim, 24);
    assert_int_equal(c.value_dim, 16);
    assert_int_equal(c.latent.q_rank, 0);
}

static void indexers_of_gguf(void **state) {
    key keys[] = {{"attention.indexer.head_count", U32, 8},
                  {"attention.indexer.key_length", U32, 64},
                  {"attention.indexer.top_k", U32, 12},
                  {"attention.indexer.types", FLAGS, 0xb}, /* the third shares */
                  {"expert_gating_func", NONE, 0},
                  {"context_length", U32, 512}};
    (void)state;
    assert_int_equal(read_gguf("glm-dsa", keys, 6, 4), TDM_OK);
    assert_int_equal(c.latent.index_topk, 12);
    assert_memory_equal(c.latent.is_index_shared, "\0\0\1\0", 4);
    keys[3].kind = NONE; /* no list: all full in short files, GLM-5.2's in long ones */
    assert_int_equal(read_gguf("glm-dsa", keys, 6, 0), TDM_OK);
    assert_memory_equal(c.latent.is_index_shared, "\0\0\0\0", 4);
    keys[5].value = 1048576;
    assert_int_equal(read_gguf("glm-dsa", keys, 6, 0), TDM_OK);
    assert_memory_equal(c.latent.is_index_shared, "\0\0\0\1", 4);
    keys[3].kind = FLAGS;
    expect("types", read_gguf("glm-dsa", keys, 6, 3), TDM_E_FORMAT, "one flag a layer");
    keys[3].value = 0xa;
    expect("types", read_gguf("glm-dsa", keys, 6, 4), TDM_E_FORMAT, "first layer");
    keys[3].kind = U32;
    expect("types", read_gguf("glm-dsa", keys, 6, 4), TDM_E_FORMAT, "one flag a layer");
}

static void refuses_gguf(void **state) {
    static const struct {
        key key;
        tdm_status status;
        const char *says;
    } CASES[] = {
        {{"attention.kv_lora_rank", NONE, 0}, TDM_E_FORMAT, "kv_lora_rank is missing"},
        {{"attention.kv_lora_rank", U32, 0}, TDM_E_FORMAT, "kv_lora_rank is 0"},
        {{"attention.key_length_mla", U32, 8}, TDM_E_FORMAT, "all of a head rotates"},
        {{"rope.dimension_count", NONE, 0}, TDM_E_FORMAT, "dimension_count is missing"},
        {{"expert_group_count", U32, 3}, TDM_E_FORMAT, "do not divide"},
        {{"expert_gating_func", U32, 1}, TDM_E_UNSUPPORTED, "expert_gating_func"},
        {{"expert_gating_func", NONE, 0}, TDM_E_UNSUPPORTED, "expert_gating_func"},
        {{"nextn_predict_layers", U32, 4}, TDM_E_FORMAT, "no layers are left"},
        {{"expert_weights_norm", U32, 1}, TDM_E_FORMAT, "neither true nor false"},
        {{"attention.temperature_scale", F32, 1}, TDM_E_UNSUPPORTED, "depend on the position"},
        {{"attention.indexer.top_k", U32, 12}, TDM_E_FORMAT, "an indexer has heads"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); i++) {
        expect(CASES[i].key.name, read_gguf("deepseek2", &CASES[i].key, 1, 0), CASES[i].status,
               CASES[i].says);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_absent_keys_mean),
        cmocka_unit_test(what_keys_say),
        cmocka_unit_test(lists_of_indexers),
        cmocka_unit_test(refuses),
        cmocka_unit_test(reads_gguf),
        cmocka_unit_test(indexers_of_gguf),
        cmocka_unit_test(refuses_gguf),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
