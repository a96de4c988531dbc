/* SPDX-License-Identifier: Apache-2.0
 *
 * Thousands of malformed checkpoints, each opened in this process: no crash, no leak, the expected
 * answer, a typed error with its place, in bounded time and memory. TANDEM_MALFORMED=all runs every
 * case (GGUF 6,000, safetensors and index 4,000, configurations 2,000); otherwise a third of each.
 * TANDEM_MALFORMED=<family>:<number>, such as gguf:4711, runs one and prints it. */
#include "support/support.h"

#include "base/clock.h"
#include "fault/malformed/config_cases.h"
#include "fault/malformed/gguf_more_cases.h"
#include "fault/malformed/safetensors_cases.h"

#define REJECT_NS_MAX INT64_C(1000000000)
#define PEAK_BYTES_MAX ((size_t)64 << 20)

typedef struct tally {
    size_t n[3]; /* by expectation */
    size_t n_accepted;
    size_t n_wrong;
    int64_t ns_max;
    size_t peak_max;
} tally;

static tdm_status open_and_read(const malformed_case *c, mem_fs *m, tdm_alloc_tracker *tracker,
                                tdm_error *err) {
    const tdm_checkpoint_options options = {.fs = &m->fs, .is_strict = c->is_strict};
    tdm_checkpoint *checkpoint = NULL;
    tdm_model_config config;
    tdm_generation_config generation;
    tdm_status status = tdm_checkpoint_open(&checkpoint, &tracker->alloc,
                                            c->open != NULL ? c->open : c->paths[0], &options, err);
    if (status == TDM_OK && c->reads_config) {
        status = tdm_model_config_read(&config, checkpoint, err);
    }
    if (status == TDM_OK && c->reads_generation) {
        status = tdm_generation_config_read(&generation, checkpoint, err);
    }
    for (size_t i = 0; checkpoint != NULL && i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        const uint8_t *data = tensor->view.data;
        volatile uint8_t sum = 0; /* reads both ends, for the sanitizers */
        if (tensor->view.bytes > 0) {
            sum = (uint8_t)(data[0] + data[tensor->view.bytes - 1]);
        }
        (void)sum;
    }
    tdm_checkpoint_close(checkpoint);
    return status;
}

/* NULL, or what is wrong. */
static const char *judge(const malformed_case *c, tdm_status status, const tdm_error *err,
                         const mem_fs *m, const tdm_alloc_tracker *tracker, int64_t ns) {
    if ((c->expected == EXPECT_OK && status != TDM_OK) ||
        (c->expected == EXPECT_REJECT && status == TDM_OK)) {
        return "another answer was expected";
    }
    if (status != TDM_OK && status != TDM_E_FORMAT && status != TDM_E_LIMIT &&
        status != TDM_E_UNSUPPORTED && status != TDM_E_NOT_FOUND) {
        return "the status is none that a file can cause";
    }
    if (status != TDM_OK &&
        (err->code != status || err->what[0] == '\0' || err->where[0] == '\0')) {
        return "the error does not say what and where";
    }
    if (tracker->n_live != 0 || m->n_open != 0) {
        return "something was not given back";
    }
    if (ns > REJECT_NS_MAX || tracker->peak_bytes > PEAK_BYTES_MAX) {
        return "too slow or too large";
    }
    return NULL;
}

static void run_case(const malformed_case *c, const char *group, uint32_t number, tally *t,
                     bool is_loud) {
    static mem_fs m;
    tdm_alloc_tracker tracker;
    tdm_error err = {0};
    const char *wrong = NULL;
    tdm_status status = TDM_OK;
    const tdm_clock *clock = tdm_clock_system();
    int64_t ns = clock->monotonic_ns(clock->ctx);
    mem_fs_init(&m);
    for (size_t i = 0; i < c->n_files; i++) {
        mem_fs_put(&m, c->paths[i], c->files[i].data, c->files[i].len);
    }
    tdm_alloc_tracker_init(&tracker, NULL);
    status = open_and_read(c, &m, &tracker, &err);
    ns = clock->monotonic_ns(clock->ctx) - ns;
    wrong = judge(c, status, &err, &m, &tracker, ns);
    t->n[c->expected]++;
    t->n_accepted += status == TDM_OK;
    t->ns_max = ns > t->ns_max ? ns : t->ns_max;
    t->peak_max = tracker.peak_bytes > t->peak_max ? tracker.peak_bytes : t->peak_max;
    if (wrong != NULL || is_loud) {
        t->n_wrong += wrong != NULL;
        (void)printf("%s:%u %s\n  %s: %s | %s | %s | %s | %s\n", group, number, c->label,
                     wrong != NULL ? wrong : "as expected", tdm_status_name(status), err.what,
                     err.where, err.limit, err.remedy);
    }
}

static void run_group(const char *group, const case_family *families, size_t n_families,
                      uint64_t seed, uint32_t wanted) {
    const char *mode = getenv("TANDEM_MALFORMED");
    const uint32_t count = case_count(families, n_families);
    const char *colon = mode != NULL ? strchr(mode, ':') : NULL;
    const bool is_all = mode != NULL && strcmp(mode, "all") == 0;
    const uint32_t n_run = is_all ? count : colon != NULL ? 1 : count / 3 + 1;
    tally t = {0};
    assert_int_equal(count, wanted);
    if (colon != NULL) {
        if (strncmp(mode, group, strlen(group)) != 0 || mode[strlen(group)] != ':') {
            return;
        }
    }
    for (uint32_t i = 0; i < n_run; i++) {
        malformed_case c;
        /* A prime step spreads a sample over all families and their inner cycles. */
        const uint32_t number = colon != NULL ? (uint32_t)strtoul(colon + 1, NULL, 10) % count
                                              : (uint32_t)((uint64_t)i * 7919 % count);
        case_make(&c, families, n_families, seed, number);
        run_case(&c, group, number, &t, colon != NULL);
        case_free(&c);
        if (t.n_wrong > 20) {
            break; /* enough to see the pattern */
        }
    }
    (void)printf("%s: %zu cases (ok %zu, reject %zu, either %zu), %zu accepted, slowest %.2f ms, "
                 "largest %.2f MiB\n",
                 group, t.n[0] + t.n[1] + t.n[2], t.n[EXPECT_OK], t.n[EXPECT_REJECT],
                 t.n[EXPECT_EITHER], t.n_accepted, (double)t.ns_max / 1e6,
                 (double)t.peak_max / 1048576.0);
    (void)fflush(stdout);
    assert_int_equal(t.n_wrong, 0);
    if (colon == NULL) { /* a reader that refuses all passes nothing */
        assert_true(t.n[EXPECT_OK] * 20 > n_run);
        assert_true(t.n[EXPECT_EITHER] * 20 < n_run);
    }
}

static void gguf(void **state) {
    (void)state;
    run_group("gguf", GGUF_FAMILIES, GGUF_N_FAMILIES, 1000, 6000);
}

static void safetensors(void **state) {
    (void)state;
    run_group("safetensors", SAFETENSORS_FAMILIES, SAFETENSORS_N_FAMILIES, 2000, 4000);
}

static void configurations(void **state) {
    (void)state;
    run_group("config", CONFIG_FAMILIES, CONFIG_N_FAMILIES, 3000, 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf),
        cmocka_unit_test(safetensors),
        cmocka_unit_test(configurations),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
