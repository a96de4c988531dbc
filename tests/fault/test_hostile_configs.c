/* SPDX-License-Identifier: Apache-2.0
 *
 * Configurations that lie, for every family: each golden's config.json and GGUF metadata with one
 * value changed. What must be refused is refused before a tensor is looked at; then every number of
 * every file takes every hostile value, and whatever comes of it comes without a crash, without a
 * leak and in less than 50 ms of processor time. */
#include "backend/cpu/cpu.h"
#include "formats/gguf.h"
#include "model/plan.h"
#include "support/goldens.h"
#include "support/support.h"
#include "unit/formats/bytes.h"
#include "unit/formats/mem_fs.h"

#include <math.h>
#include <time.h>

#define MS_MAX 50.0
#define NAMES_MAX 6

/* A checkpoint whose configuration is edited in memory. */
typedef struct rig {
    mem_fs fs;
    const char *name;
    const char *path; /* of the model in fs */
    char *config;     /* config.json, or the whole GGUF file */
    size_t config_len;
    char *weights;
    size_t weights_len;
    tdm_backend *backend;
    double worst_ms;
    size_t n_tries, n_refused;
} rig;

static double now_ms(void) {
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t), 0);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Opens, reads and plans. *out_knew: the configuration alone was enough to refuse. */
static tdm_status attempt(rig *r, bool *out_knew, tdm_error *err) {
    static tdm_model_config config;
    tdm_alloc_tracker memory;
    tdm_alloc_tracker_init(&memory, NULL);
    const tdm_checkpoint_options options = {.fs = &r->fs.fs};
    const tdm_graph_options graph_options = {.alloc = &memory.alloc};
    tdm_checkpoint *checkpoint = NULL;
    tdm_graph_plan *plan = NULL;
    double start = now_ms();
    double ms = 0.0;
    tdm_status status = tdm_checkpoint_open(&checkpoint, &memory.alloc, r->path, &options, err);
    if (status == TDM_OK) {
        status = tdm_model_config_read(&config, checkpoint, err);
    }
    if (status == TDM_OK) {
        status = tdm_graph_can_run(&config, err);
    }
    *out_knew = status != TDM_OK;
    if (status == TDM_OK) {
        status = tdm_graph_plan_create(&plan, checkpoint, &config, r->backend, &graph_options, err);
    }
    ms = now_ms() - start;
    tdm_graph_plan_destroy(plan);
    tdm_checkpoint_close(checkpoint);
    assert_int_equal(memory.live_bytes, 0);
    r->worst_ms = ms > r->worst_ms ? ms : r->worst_ms;
    r->n_tries++;
    r->n_refused += status != TDM_OK;
    return status;
}

static void must_run(rig *r) {
    tdm_error err = {0};
    bool knew = false;
    if (attempt(r, &knew, &err) != TDM_OK) {
        fail_msg("%s, unchanged: %s (%s)", r->name, err.what, err.where);
    }
}

static void must_refuse(rig *r, const char *key, const char *value) {
    tdm_error err = {0};
    bool knew = false;
    if (attempt(r, &knew, &err) == TDM_OK || !knew) {
        fail_msg("%s: %s = %.60s was not refused by the configuration: %s", r->name, key, value,
                 err.what);
    }
    if (err.what[0] == '\0' || err.where[0] == '\0') {
        fail_msg("%s: %s = %.60s: \"%s\" says not where", r->name, key, value, err.what);
    }
}

static void finish(const rig *r) {
    print_message("%-24s %4zu tries, %4zu refused, worst %.2f ms\n", r->name, r->n_tries,
                  r->n_refused, r->worst_ms);
    assert_true(r->n_tries > 20);
    if (r->worst_ms > MS_MAX) {
        fail_msg("%s: %.1f ms for one of them", r->name, r->worst_ms);
    }
}

/* ---- config.json ---- */

/* Where the value of key stands in text: [*from, *to). The first that is there counts. */
static bool find_value(const char *text, const char *key, size_t *from, size_t *to) {
    char quoted[80];
    int depth = 0;
    const char *at = NULL;
    (void)snprintf(quoted, sizeof quoted, "\"%s\":", key);
    at = strstr(text, quoted);
    if (at == NULL) {
        return false;
    }
    at += strlen(quoted);
    *from = (size_t)(at - text);
    for (; *at != '\0'; at++) {
        depth += *at == '[' || *at == '{' ? 1 : 0;
        if (depth == 0 && (*at == ',' || *at == '}' || *at == '\n')) {
            break;
        }
        depth -= *at == ']' || *at == '}' ? 1 : 0;
    }
    *to = (size_t)(at - text);
    return true;
}

static void json_set(rig *r, size_t from, size_t to, const char *value, bytes *out) {
    out->len = 0;
    bytes_put(out, r->config, from);
    bytes_put(out, value, strlen(value));
    bytes_put(out, r->config + to, r->config_len - to);
    mem_fs_put(&r->fs, "d/config.json", out->data, out->len);
}

typedef struct lie {
    const char *names[NAMES_MAX]; /* the first that the file has */
    const char *values[12];       /* each must be refused */
} lie;

static const lie JSON_LIES[] = {
    {{"num_hidden_layers"},
     {"1000000000", "-1", "0", "9223372036854775808", "1e30", "2.5", "\"four\"", "[4]", "NaN"}},
    {{"hidden_size"}, {"0", "-64", "1000000000", "1099511627776", "true"}},
    {{"num_attention_heads"}, {"0", "-4", "1000000000", "{}"}},
    {{"num_key_value_heads"}, {"-2", "0", "1000000000", "3"}},
    {{"head_dim"}, {"0", "-16", "1000000000", "17"}},
    {{"intermediate_size", "block_ff_dim"}, {"-1", "0", "1000000000"}},
    {{"vocab_size"}, {"0", "-1", "1099511627776"}},
    {{"max_position_embeddings"}, {"0", "-1", "1000000000000"}},
    {{"rms_norm_eps", "norm_eps", "layer_norm_eps", "norm_epsilon"},
     {"NaN", "Infinity", "-Infinity", "1e999", "-1e-06", "0", "\"small\"", "2"}},
    {{"rope_theta"}, {"NaN", "Infinity", "1e999", "0", "-1", "\"\""}},
    {{"sliding_window"}, {"-1", "1000000000000", "\"x\"", "[]"}},
    {{"layer_types"},
     {"[]", "[\"full_attention\"]", "{}", "[1, 2]", "\"full_attention\"", "[[[[[[[[[[]]]]]]]]]]"}},
    {{"num_experts", "num_local_experts", "n_routed_experts"}, {"1000000000", "-1", "1.5"}},
    {{"num_experts_per_tok", "top_k_experts"}, {"1000000000", "-1", "99", "0"}},
    {{"moe_intermediate_size"}, {"-1", "1000000000"}},
    {{"q_lora_rank"}, {"0", "-24", "1000000000", "1.5", "\"x\"", "NaN"}},
    {{"kv_lora_rank"}, {"0", "-32", "570", "8192", "1000000000", "\"x\"", "[32]"}},
    {{"qk_nope_head_dim"}, {"0", "-16", "8192", "1000000000", "1.5"}},
    {{"qk_rope_head_dim"}, {"0", "1", "-8", "7", "8192", "1000000000"}},
    {{"v_head_dim"}, {"0", "-1", "1000000000"}},
    {{"n_group"}, {"0", "-1", "3", "8", "257", "1000000000"}},
    {{"topk_group"}, {"0", "-1", "9", "1000000000"}},
    {{"n_shared_experts"}, {"-1", "1000000000", "1.5"}},
    {{"first_k_dense_replace"}, {"-1", "1000000000"}},
    {{"routed_scaling_factor"}, {"0", "-1", "1e999", "NaN"}},
    {{"index_topk"}, {"0", "-1", "1000000000"}},
    {{"index_n_heads"}, {"0", "-1", "1000000000"}},
    {{"index_head_dim"}, {"0", "-1", "7", "577", "1000000000"}},
    {{"indexer_types"}, {"[]", "{}", "[\"shared\"]", "[1, 2, 3, 4]", "\"full\""}},
    {{"mlp_layer_types"}, {"[]", "[\"dense\"]", "[1, 2, 3, 4]", "\"dense\""}},
    {{"linear_conv_kernel_dim"}, {"0", "-1", "1000000000", "65", "\"four\""}},
    {{"linear_num_key_heads"}, {"0", "-2", "1000000000", "3"}},
    {{"linear_num_value_heads"}, {"0", "1000000000", "3"}},
    {{"linear_key_head_dim"}, {"0", "-16", "1000000000", "8192"}},
    {{"linear_value_head_dim"}, {"0", "1000000000", "8192", "1e3000"}},
};

/* A window of 0 hides every key, where it is used. */
static const char *const WINDOWED[] = {"gemma2",  "gemma3", "mistral-sliding", "ministral",
                                       "cohere2", "olmo3",  "gpt-oss"};

static bool is_windowed(const char *name) {
    for (size_t i = 0; i < SUPPORT_LEN(WINDOWED); i++) {
        if (strcmp(WINDOWED[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void tell_json_lies(rig *r, bytes *edited) {
    size_t from = 0;
    size_t to = 0;
    for (size_t i = 0; i < SUPPORT_LEN(JSON_LIES); i++) {
        const lie *l = &JSON_LIES[i];
        size_t n = 0;
        while (n < NAMES_MAX && l->names[n] != NULL &&
               !find_value(r->config, l->names[n], &from, &to)) {
            n++;
        }
        if (n == NAMES_MAX || l->names[n] == NULL || strncmp(r->config + from, " null", 5) == 0) {
            continue; /* the family has no such thing, or leaves it to its class */
        }
        for (size_t v = 0; l->values[v] != NULL; v++) {
            json_set(r, from, to, l->values[v], edited);
            must_refuse(r, l->names[n], l->values[v]);
        }
    }
    if (is_windowed(r->name)) {
        assert_true(find_value(r->config, "sliding_window", &from, &to));
        json_set(r, from, to, "0", edited);
        must_refuse(r, "sliding_window", "0");
    }
}

/* Every number of the file, as everything else. */
static void try_all_json(rig *r, bytes *edited) {
    static const char *const VALUES[] = {"0",          "-1",    "1",     "1000000000",
                                         "2147483648", "1e308", "1e999", "\"x\"",
                                         "[]",         "{}",    "null",  "true"};
    for (size_t at = 1; at < r->config_len; at++) {
        char c = r->config[at];
        size_t to = at;
        tdm_error err = {0};
        bool knew = false;
        if ((c != '-' && (c < '0' || c > '9')) || strchr(" :[\n", r->config[at - 1]) == NULL) {
            continue;
        }
        while (strchr("+-.0123456789eE", r->config[to]) != NULL) {
            to++;
        }
        for (size_t v = 0; v < SUPPORT_LEN(VALUES); v++) {
            json_set(r, at, to, VALUES[v], edited);
            (void)attempt(r, &knew, &err);
        }
        at = to;
    }
}

static void nest_deeply(rig *r, bytes *edited) {
    size_t from = 0;
    size_t to = 0;
    char *deep = malloc(200001);
    assert_non_null(deep);
    memset(deep, '[', 100000);
    memset(deep + 100000, ']', 100000);
    deep[200000] = '\0';
    assert_true(find_value(r->config, "num_hidden_layers", &from, &to));
    json_set(r, from, to, deep, edited);
    must_refuse(r, "num_hidden_layers", "a hundred thousand brackets");
    deep[100000] = '\0';
    json_set(r, from, to, deep, edited);
    must_refuse(r, "num_hidden_layers", "as many that nobody closes");
    free(deep);
}

static void rig_open(rig *r, const char *name) {
    const tdm_cpu_options cpu = {.tier = TDM_TIER_EXACT, .n_threads = 1};
    memset(r, 0, sizeof *r);
    r->name = name;
    mem_fs_init(&r->fs);
    assert_int_equal(tdm_cpu_backend_create(&r->backend, NULL, &cpu, NULL), TDM_OK);
}

static void rig_close(rig *r, bytes *edited) {
    r->backend->ops->destroy(r->backend);
    free(r->config);
    free(r->weights);
    bytes_free(edited);
}

static void json_configs(void **state) {
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(SUPPORT_GOLDENS); i++) {
        static rig r;
        char rel[64];
        char folder[SUPPORT_PATH_MAX];
        char path[SUPPORT_PATH_MAX];
        bytes edited = {0};
        rig_open(&r, SUPPORT_GOLDENS[i].name);
        (void)snprintf(rel, sizeof rel, "goldens/%s", r.name);
        (void)support_data_path(folder, rel);
        r.path = "d";
        r.config = support_read_file(support_join(path, folder, "config.json"), &r.config_len);
        r.weights =
            support_read_file(support_join(path, folder, "model.safetensors"), &r.weights_len);
        mem_fs_put(&r.fs, "d/config.json", r.config, r.config_len);
        mem_fs_put(&r.fs, "d/model.safetensors", r.weights, r.weights_len);
        must_run(&r);
        tell_json_lies(&r, &edited);
        nest_deeply(&r, &edited);
        try_all_json(&r, &edited);
        finish(&r);
        rig_close(&r, &edited);
    }
}

/* ---- GGUF metadata ---- */

enum { GGUF_U32 = 4, GGUF_I32 = 5, GGUF_F32 = 6 };

/* The value of "ARCH.key" in the file; false when it is not there as a number of 32 bits. */
static bool find_number(const rig *r, const char *arch, const char *key, size_t *out_at,
                        uint32_t *out_type) {
    char full[128];
    size_t len = (size_t)snprintf(full, sizeof full, "%s.%s", arch, key);
    for (size_t i = 8; i + len + 8 < r->config_len; i++) {
        const uint8_t *at = (const uint8_t *)r->config + i;
        uint64_t said = 0;
        uint32_t type = 0;
        memcpy(&said, at - 8, sizeof said);
        if (said == len && memcmp(at, full, len) == 0) {
            memcpy(&type, at + len, sizeof type);
            *out_at = i + len + 4;
            *out_type = type;
            return type == GGUF_U32 || type == GGUF_I32 || type == GGUF_F32;
        }
    }
    return false;
}

static void gguf_set(rig *r, size_t at, uint32_t value, bytes *out) {
    out->len = 0;
    bytes_put(out, r->config, r->config_len);
    bytes_set(out, at, value, 4);
    mem_fs_put(&r->fs, "d/model.gguf", out->data, out->len);
}

static const struct {
    const char *key;
    uint32_t values[6];
    size_t n;
} GGUF_LIES[] = {
    {"block_count", {0, 1000000000, UINT32_MAX}, 3},
    {"embedding_length", {0, 1000000000, UINT32_MAX}, 3},
    {"attention.head_count", {0, 1000000000, UINT32_MAX}, 3},
    {"attention.head_count_kv", {1000000000, UINT32_MAX, 3}, 3},
    {"attention.key_length", {0, 1000000000, 17}, 3},
    {"feed_forward_length", {0, 1000000000, UINT32_MAX}, 3},
    {"context_length", {0, 1000000000, UINT32_MAX}, 3},
    /* NaN, infinities, -1, 0, 2 as f32 */
    {"attention.layer_norm_rms_epsilon",
     {0x7FC00000, 0x7F800000, 0xFF800000, 0xBF800000, 0, 0x40000000},
     6},
    {"attention.layer_norm_epsilon",
     {0x7FC00000, 0x7F800000, 0xFF800000, 0xBF800000, 0, 0x40000000},
     6},
    {"rope.freq_base", {0x7FC00000, 0x7F800000, 0xFF800000, 0xBF800000, 0}, 5},
    {"attention.sliding_window", {0, 1000000000, UINT32_MAX}, 3},
    {"ssm.conv_kernel", {0, 1000000000, UINT32_MAX, 65}, 4},
    {"ssm.group_count", {0, 1000000000, UINT32_MAX, 3}, 4},
    {"ssm.time_step_rank", {0, 1000000000, UINT32_MAX, 3}, 4},
    {"ssm.state_size", {0, 1000000000, UINT32_MAX, 8192}, 4},
    {"ssm.inner_size", {0, 1000000000, UINT32_MAX, 65}, 4},
    {"expert_count", {1000000000, UINT32_MAX}, 2},
    {"expert_used_count", {1000000000, UINT32_MAX, 99, 0}, 4},
};

static void tell_gguf_lies(rig *r, const char *arch, bytes *edited) {
    size_t n_found = 0;
    for (size_t i = 0; i < SUPPORT_LEN(GGUF_LIES); i++) {
        size_t at = 0;
        uint32_t type = 0;
        if (!find_number(r, arch, GGUF_LIES[i].key, &at, &type)) {
            continue;
        }
        n_found++;
        for (size_t v = 0; v < GGUF_LIES[i].n; v++) {
            char value[16];
            (void)snprintf(value, sizeof value, "%#x", (unsigned)GGUF_LIES[i].values[v]);
            if (GGUF_LIES[i].values[v] == 0 && strcmp(arch, "phi3") == 0 &&
                strcmp(GGUF_LIES[i].key, "attention.sliding_window") == 0) {
                continue; /* how its converter writes that there is none */
            }
            gguf_set(r, at, GGUF_LIES[i].values[v], edited);
            must_refuse(r, GGUF_LIES[i].key, value);
        }
    }
    assert_true(n_found >= 6);
}

/* Every number of the architecture, as every other. */
static void try_all_gguf(rig *r, const char *arch, bytes *edited) {
    static const uint32_t VALUES[] = {0,          1,          3,          1000000000,
                                      0x7FFFFFFF, UINT32_MAX, 0x7FC00000, 0x7F800000,
                                      0xFF800000, 0x80000000, 0x3F800000, 0x7F7FFFFF};
    size_t len = strlen(arch);
    for (size_t i = 8; i + len + 8 < r->config_len; i++) {
        const uint8_t *at = (const uint8_t *)r->config + i;
        uint64_t said = 0;
        uint32_t type = 0;
        memcpy(&said, at - 8, sizeof said);
        if (said <= len || said > 100 || i + said + 8 > r->config_len ||
            memcmp(at, arch, len) != 0 || at[len] != '.') {
            continue;
        }
        memcpy(&type, at + said, sizeof type);
        for (size_t v = 0; v < SUPPORT_LEN(VALUES); v++) {
            tdm_error err = {0};
            bool knew = false;
            gguf_set(r, i + (size_t)said + 4, VALUES[v], edited);
            (void)attempt(r, &knew, &err);
        }
    }
}

static void check_gguf(const char *dir, const support_golden *goldens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        static rig r;
        char folder[SUPPORT_PATH_MAX];
        char path[SUPPORT_PATH_MAX];
        char arch[64] = "";
        bytes edited = {0};
        tdm_checkpoint *checkpoint = NULL;
        const tdm_checkpoint_options options = {.fs = &r.fs.fs};
        rig_open(&r, goldens[i].name);
        (void)support_join(folder, dir, r.name);
        r.path = "d/model.gguf";
        r.config = support_read_file(support_join(path, folder, "model.gguf"), &r.config_len);
        mem_fs_put(&r.fs, "d/model.gguf", r.config, r.config_len);
        assert_int_equal(tdm_checkpoint_open(&checkpoint, NULL, r.path, &options, NULL), TDM_OK);
        (void)snprintf(arch, sizeof arch, "%s",
                       tdm_gguf_architecture(tdm_checkpoint_gguf(checkpoint)));
        tdm_checkpoint_close(checkpoint);
        must_run(&r);
        tell_gguf_lies(&r, arch, &edited);
        try_all_gguf(&r, arch, &edited);
        finish(&r);
        rig_close(&r, &edited);
    }
}

static void gguf_metadata(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    check_gguf(support_data_path(dir, "goldens-gguf"), SUPPORT_CONVERTED,
               SUPPORT_LEN(SUPPORT_CONVERTED));
}

static void shared_gguf_metadata(void **state) {
    char dir[SUPPORT_PATH_MAX];
    (void)state;
    SUPPORT_NEED_SHARED(dir, "goldens-gguf");
    check_gguf(dir, SUPPORT_SHARED_GGUF, SUPPORT_LEN(SUPPORT_SHARED_GGUF));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_configs),
        cmocka_unit_test(gguf_metadata),
        cmocka_unit_test(shared_gguf_metadata),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
