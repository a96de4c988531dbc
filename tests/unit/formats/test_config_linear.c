/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations with layers of the gated delta rule: what absent keys mean, which layers they are,
 * in both containers, and what is refused: sizes that cannot be, flags of another length. */
#include "formats/config.h"

#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#define BASE                                                                                       \
    "\"hidden_size\":64,\"num_hidden_layers\":8,\"intermediate_size\":128,\"vocab_size\":320,"     \
    "\"max_position_embeddings\":512"
#define NEXT "{\"model_type\":\"qwen3_next\"," BASE
#define DENSE "{\"model_type\":\"qwen3_5_text\"," BASE

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

static void expect(const char *input, tdm_status got, const char *says) {
    if (got != TDM_E_FORMAT ||
        (strstr(err.what, says) == NULL && strstr(err.where, says) == NULL) ||
        err.remedy[0] == '\0') {
        fail_msg("%s: wanted \"%s\": %s, %s at %s", input, says, tdm_status_name(got), err.what,
                 err.where);
    }
}

static void what_absent_keys_mean(void **state) {
    (void)state;
    must_read(DENSE "}");
    assert_int_equal(c.linear.n_key_heads, 16);
    assert_int_equal(c.linear.n_value_heads, 32);
    assert_int_equal(c.linear.key_dim, 128);
    assert_int_equal(c.linear.value_dim, 128);
    assert_int_equal(c.linear.n_taps, 4);
    assert_memory_equal(c.linear.is_linear, "\1\1\1\0\1\1\1\0", 8);
    assert_int_equal(c.n_heads, 16);
    assert_int_equal(c.n_kv_heads, 4);
    assert_int_equal(c.head_dim, 256);
    assert_int_equal(c.rotary_dim, 64);
    assert_true(c.has_output_gate && !c.experts.is_renormalized);
    must_read(NEXT "}");
    assert_int_equal(c.n_kv_heads, 2);
    assert_true(c.has_output_gate && c.experts.is_renormalized);
    must_read("{\"model_type\":\"qwen3_5\",\"text_config\":{" BASE "},\"vision_config\":{}}");
    assert_int_equal(c.linear.n_value_heads, 32); /* a text_config that names no class */
    must_read("{\"model_type\":\"qwen3_5_moe\",\"text_config\":{\"model_type\":"
              "\"qwen3_5_moe_text\"," BASE "}}");
    assert_int_equal(c.n_kv_heads, 2);
}

static void what_keys_say(void **state) {
    (void)state;
    must_read(NEXT ",\"linear_num_key_heads\":2,\"linear_num_value_heads\":6,"
                   "\"linear_key_head_dim\":8,\"linear_value_head_dim\":12,"
                   "\"linear_conv_kernel_dim\":3,\"full_attention_interval\":2,"
                   "\"norm_topk_prob\":false,\"attn_output_gate\":false}");
    assert_int_equal(c.linear.n_key_heads, 2);
    assert_int_equal(c.linear.n_value_heads, 6);
    assert_int_equal(c.linear.key_dim, 8);
    assert_int_equal(c.linear.value_dim, 12);
    assert_int_equal(c.linear.n_taps, 3);
    assert_memory_equal(c.linear.is_linear, "\1\0\1\0\1\0\1\0", 8);
    assert_true(!c.has_output_gate && !c.experts.is_renormalized);
    must_read(DENSE ",\"full_attention_interval\":2,\"layer_types\":[\"full_attention\","
                    "\"linear_attention\",\"full_attention\",\"full_attention\","
                    "\"linear_attention\",\"full_attention\",\"full_attention\","
                    "\"full_attention\"]}"); /* the list wins */
    assert_memory_equal(c.linear.is_linear, "\0\1\0\0\1\0\0\0", 8);
    assert_false(c.has_other_layer_types);
    must_read("{\"model_type\":\"llama\",\"num_attention_heads\":4," BASE
              ",\"layer_types\":[\"linear_attention\",\"full_attention\",\"full_attention\","
              "\"full_attention\",\"full_attention\",\"full_attention\",\"full_attention\","
              "\"full_attention\"]}"); /* not llama's: its family refuses it */
    assert_int_equal(c.linear.is_linear[0], 0);
    assert_true(c.has_other_layer_types && !c.has_output_gate);
    assert_int_equal(c.linear.n_key_heads, 0);
}

static void refuses(void **state) {
    static const struct {
        const char *more, *says;
    } LIES[] = {
        {"\"linear_conv_kernel_dim\":0", "linear_conv_kernel_dim"},
        {"\"linear_conv_kernel_dim\":-4", "linear_conv_kernel_dim"},
        {"\"linear_conv_kernel_dim\":5000", "linear_conv_kernel_dim"},
        {"\"linear_conv_kernel_dim\":2.5", "linear_conv_kernel_dim"},
        {"\"linear_num_key_heads\":0", "linear_num_key_heads"},
        {"\"linear_num_value_heads\":17", "linear_num_value_heads"}, /* 16 do not divide it */
        {"\"linear_num_value_heads\":8", "linear_num_value_heads"},
        {"\"linear_key_head_dim\":9000", "linear_key_head_dim"},
        {"\"linear_value_head_dim\":0", "linear_value_head_dim"},
        {"\"linear_value_head_dim\":\"wide\"", "linear_value_head_dim"},
        {"\"linear_num_value_heads\":65536", "linear_key_head_dim"}, /* 2^30 values of a state */
        {"\"linear_num_key_heads\":16384,\"linear_num_value_heads\":16384", "linear_key_head_dim"},
        {"\"full_attention_interval\":0", "full_attention_interval"},
        {"\"attn_output_gate\":3", "attn_output_gate"},
        {"\"layer_types\":[\"linear_attention\"]", "layer_types"},
    };
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(LIES); i++) {
        char config[512];
        (void)snprintf(config, sizeof config, DENSE ",%s}", LIES[i].more);
        expect(LIES[i].more, read_json(config), LIES[i].says);
    }
}

/* ---- GGUF ---- */

typedef struct file {
    uint32_t taps, keys, values, state, inner, interval; /* 0: left out */
    uint32_t n_flags, flags;                             /* n_flags 0: no list */
    uint32_t n_mtp;
} file;

static const file PLAIN = {.taps = 4, .keys = 2, .values = 4, .state = 16, .inner = 48};

static void put(bytes *b, const char *key, uint32_t value, uint64_t *n) {
    char name[96];
    if (value != 0) {
        (void)snprintf(name, sizeof name, "qwen35.%s", key);
        gguf_kv_u32(b, name, value);
        (*n)++;
    }
}

static tdm_status read_gguf(const file *f) {
    static mem_fs m;
    bytes keys = {0};
    bytes b = {0};
    uint64_t n = 2;
    gguf_kv_text(&keys, "general.architecture", "qwen35");
    gguf_kv_f32(&keys, "qwen35.attention.layer_norm_rms_epsilon", 0.5F);
    put(&keys, "block_count", 8, &n);
    put(&keys, "embedding_length", 64, &n);
    put(&keys, "attention.head_count", 4, &n);
    put(&keys, "feed_forward_length", 128, &n);
    put(&keys, "context_length", 512, &n);
    put(&keys, "vocab_size", 320, &n);
    put(&keys, "ssm.conv_kernel", f->taps, &n);
    put(&keys, "ssm.group_count", f->keys, &n);
    put(&keys, "ssm.time_step_rank", f->values, &n);
    put(&keys, "ssm.state_size", f->state, &n);
    put(&keys, "ssm.inner_size", f->inner, &n);
    put(&keys, "full_attention_interval", f->interval, &n);
    put(&keys, "nextn_predict_layers", f->n_mtp, &n);
    if (f->n_flags > 0) {
        gguf_text(&keys, "qwen35.attention.recurrent_layers");
        bytes_number(&keys, 9, 4); /* an array of bools */
        bytes_number(&keys, 7, 4);
        bytes_number(&keys, f->n_flags, 8);
        for (uint32_t i = 0; i < f->n_flags; i++) {
            bytes_number(&keys, f->flags >> i & 1, 1);
        }
        n++;
    }
    gguf_head(&b, 1, n);
    bytes_put(&b, keys.data, keys.len);
    gguf_tensor(&b, "x", 8, 0, 0, 0);
    bytes_pad(&b, 32);
    bytes_fill(&b, 0, 32);
    memset(&err, 0, sizeof err);
    mem_fs_init(&m);
    mem_fs_put(&m, "m.gguf", b.data, b.len);
    tdm_status status = read_folder(&m, "m.gguf");
    bytes_free(&keys);
    bytes_free(&b);
    return status;
}

static void reads_gguf(void **state) {
    file f = PLAIN;
    (void)state;
    assert_int_equal(read_gguf(&f), TDM_OK);
    assert_int_equal(c.linear.n_key_heads, 2);
    assert_int_equal(c.linear.n_value_heads, 4);
    assert_int_equal(c.linear.key_dim, 16);
    assert_int_equal(c.linear.value_dim, 12);
    assert_int_equal(c.linear.n_taps, 4);
    assert_true(c.has_output_gate);
    assert_memory_equal(c.linear.is_linear, "\1\1\1\0\1\1\1\0", 8);
    f.interval = 3;
    assert_int_equal(read_gguf(&f), TDM_OK);
    assert_memory_equal(c.linear.is_linear, "\1\1\0\1\1\0\1\1", 8);
    f.n_flags = 8;
    f.flags = 0xA5;
    assert_int_equal(read_gguf(&f), TDM_OK);
    assert_memory_equal(c.linear.is_linear, "\1\0\1\0\0\1\0\1", 8);
    f.n_mtp = 2; /* the last two of eight */
    assert_int_equal(read_gguf(&f), TDM_OK);
    assert_int_equal(c.n_layers, 6);
    assert_int_equal(c.n_mtp_layers, 2);
    assert_memory_equal(c.linear.is_linear, "\1\0\1\0\0\1", 6);
}

static void refuses_gguf(void **state) {
    file f = PLAIN;
    (void)state;
    f.taps = 0;
    expect("no taps", read_gguf(&f), "ssm.conv_kernel");
    f = PLAIN;
    f.inner = 0;
    expect("no inner size", read_gguf(&f), "ssm.inner_size");
    f.inner = 49;
    expect("a part of a value", read_gguf(&f), "ssm.inner_size");
    f = PLAIN;
    f.values = 3;
    expect("3 value heads for 2", read_gguf(&f), "ssm.time_step_rank");
    f = PLAIN;
    f.n_flags = 7;
    expect("7 flags", read_gguf(&f), "recurrent_layers");
    f = PLAIN;
    f.keys = 65536;
    f.values = 65536;
    f.inner = 65536;
    f.state = 32;
    expect("a wide row", read_gguf(&f), "ssm.state_size");
    f = PLAIN;
    f.n_mtp = 8;
    expect("nothing but blocks for further tokens", read_gguf(&f), "nextn_predict_layers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_absent_keys_mean),
        cmocka_unit_test(what_keys_say),
        cmocka_unit_test(refuses),
        cmocka_unit_test(reads_gguf),
        cmocka_unit_test(refuses_gguf),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
