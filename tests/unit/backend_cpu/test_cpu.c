/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU backend's life: names, the proof of an instruction set and what happens when it fails,
 * memory on every path. */
#include "support/support.h"

#include "backend/cpu/cpu_priv.h"
#if defined(__x86_64__)
#include "backend/cpu/avx512/avx512_priv.h"
#endif
#include "tensor/ops.h"

#include <signal.h>

typedef struct log_lines {
    char text[1024];
    int n;
} log_lines;

static void log_write(void *ctx, tdm_log_level level, const char *text) {
    log_lines *lines = ctx;
    size_t len = strlen(lines->text);
    if (level == TDM_LOG_WARN) {
        (void)snprintf(lines->text + len, sizeof lines->text - len, "%s\n", text);
        ++lines->n;
    }
}

/* A set of another processor, and the lowest of this one above the twins. */
#if defined(__aarch64__)
#define FOREIGN_ISA "avx2"
#define LOWEST_ISA TDM_CPU_ISA_NEON
#else
#define FOREIGN_ISA "neon"
#define LOWEST_ISA TDM_CPU_ISA_AVX2
#endif

static void names_are_checked(void **state) {
    static const struct {
        const char *name;
        tdm_status status;
    } CASES[] = {{FOREIGN_ISA, TDM_E_UNSUPPORTED},
                 {"sse9", TDM_E_ARG},
                 {"", TDM_E_ARG},
                 {"AVX2", TDM_E_ARG}};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(CASES); ++i) {
        tdm_backend *be = NULL;
        tdm_error err = {0};
        tdm_cpu_options options = {.isa = CASES[i].name, .n_threads = 1};
        assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), CASES[i].status);
        assert_null(be);
        assert_non_null(strstr(err.remedy, "scalar"));
        assert_string_equal(err.where, "--isa");
    }
    tdm_backend *be = NULL;
    tdm_error err = {0};
    tdm_cpu_options options = {.isa = "scalar", .n_threads = 257};
    assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_E_ARG);
    assert_null(be);
}

static void names_say_the_set(void **state) {
    (void)state;
    for (int i = 0; i < TDM_CPU_ISA_COUNT; ++i) {
        const char *isa = tdm_cpu_isa_name((tdm_cpu_isa)i);
        char want[32];
        tdm_backend *be = NULL;
        tdm_error err = {0};
        tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = isa, .n_threads = 1};
        if (!tdm_cpu_isa_is_present((tdm_cpu_isa)i)) {
            assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_E_UNSUPPORTED);
            continue;
        }
        assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
        (void)snprintf(want, sizeof want, "cpu-%s", isa);
        assert_string_equal(be->ops->name(be), want);
        be->ops->destroy(be);
        options.tier = TDM_TIER_REFERENCE; /* scalar twins, whatever the set */
        assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
        assert_string_equal(be->ops->name(be), "cpu-scalar");
        be->ops->destroy(be);
    }
}

/* Kernels that lie a little, one for each entry. */
static tdm_cpu_kernels honest;

static void lie_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch) {
    honest.linear_f32(job, row0, row1, tok0, tok1, scratch);
    job->out[(tok1 - 1) * job->ld_out + row1 - 1] *= 1.001f;
}

static void lie_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch) {
    honest.linear_i8(job, row0, row1, tok0, tok1, scratch);
    job->out[tok0 * job->ld_out + row0] *= 1.00001f;
}

static void lie_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    honest.quantize(x, n, q, blocks);
    q[n - 1] = (int8_t)(q[n - 1] ^ 1);
}

static void lie_pack(const tdm_weight *weight, int64_t panel0, int64_t panel1) {
    honest.pack(weight, panel0, panel1);
    ((uint8_t *)weight->packed)[5] ^= 1u;
}

static void lie_rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps) {
    honest.rms_norm(out, x, w, dim, eps);
    out[dim - 1] += 0.01f;
}

static void lie_rope(float *x, int32_t n_heads, int32_t head_dim, const float *table,
                     int32_t n_freq, tdm_rope_pairing pairing) {
    (void)pairing;
    honest.rope(x, n_heads, head_dim, table, n_freq, TDM_ROPE_HALVES);
}

static void lie_attention(const tdm_cpu_attention_item *item, void *scratch) {
    honest.attention(item, scratch);
    item->span->out[item->head0 * item->span->pages->value_dim] += 0.001f;
}

static void lie_kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype) {
    honest.kv_store(out, x, dim, dtype);
    out[0] = (uint8_t)(out[0] + 1);
}

static void lie_glu(const tdm_activation *act, float *out, const float *gate, const float *up,
                    int64_t dim) {
    honest.glu(act, out, gate, up, dim);
    out[0] += 0.001f;
}

static void lie_layer_norm(float *out, const float *x, const float *w, const float *bias,
                           int64_t dim, float eps) {
    (void)bias;
    honest.layer_norm(out, x, w, NULL, dim, eps);
}

static void lie_softcap(float *x, float cap, int64_t dim) {
    honest.softcap(x, cap * 1.001f, dim);
}

static void lie_add(float *x, const float *y, int64_t dim) {
    honest.add(x, y, dim - 1);
}

static int32_t lie_argmax(const float *x, int64_t dim) {
    return honest.argmax(x, dim) ^ 1;
}

static void lie_scale(float *x, float scale, int64_t dim) {
    honest.scale(x, scale * 1.0001f, dim);
}

static void lie_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                         const float *bias, int32_t n_taps, int64_t dim) {
    honest.conv_row(out, in, taps, ld_taps, bias, n_taps - 1, dim);
}

static void lie_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    honest.delta_head(delta, span, head);
    span->to[(int64_t)head * delta->key_dim * delta->value_dim] += 0.001f;
}

static void lie_illegal(float *x, float scale, int64_t dim) {
    (void)x;
    (void)scale;
    (void)dim;
    (void)raise(SIGILL);
}

enum { LIE_PACK = 3, LIES = 17 };

/* arg: which lie; every set but the twins lies. */
static void tamper(void *arg, tdm_cpu_isa isa, tdm_cpu_kernels *kernels) {
    honest = *kernels;
    if (isa == TDM_CPU_ISA_SCALAR) {
        return;
    }
    switch (*(const int *)arg) {
    case 0:
        kernels->linear_f32 = lie_linear_f32;
        break;
    case 1:
        kernels->linear_i8 = lie_linear_i8;
        break;
    case 2:
        kernels->quantize = lie_quantize;
        break;
    case LIE_PACK:
        kernels->pack = lie_pack;
        break;
    case 4:
        kernels->rms_norm = lie_rms_norm;
        break;
    case 5:
        kernels->rope = lie_rope;
        break;
    case 6:
        kernels->attention = lie_attention;
        break;
    case 7:
        kernels->kv_store = lie_kv_store;
        break;
    case 8:
        kernels->glu = lie_glu;
        break;
    case 9:
        kernels->add = lie_add;
        break;
    case 10:
        kernels->argmax = lie_argmax;
        break;
    case 11:
        kernels->scale = lie_scale;
        break;
    case 12:
        kernels->layer_norm = lie_layer_norm;
        break;
    case 13:
        kernels->softcap = lie_softcap;
        break;
    case 14:
        kernels->conv_row = lie_conv_row;
        break;
    case 15:
        kernels->delta_head = lie_delta_head;
        break;
    default:
        kernels->scale = lie_illegal;
        break;
    }
}

static void on_signal(int signal_number) {
    (void)signal_number;
}

static void a_set_that_fails_its_proof_is_not_used(void **state) {
    (void)state;
    if (!tdm_cpu_isa_is_present(LOWEST_ISA)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    const char *lowest = tdm_cpu_isa_name(LOWEST_ISA);
    struct sigaction ours = {.sa_handler = on_signal};
    struct sigaction after;
    assert_int_equal(sigaction(SIGILL, &ours, NULL), 0);
    for (int lie = 0; lie < LIES; ++lie) {
        if (lie == LIE_PACK && LOWEST_ISA == TDM_CPU_ISA_NEON) {
            continue; /* it packs nothing */
        }
        log_lines lines = {{0}, 0};
        tdm_log log = {.ctx = &lines, .write = log_write};
        tdm_backend *be = NULL;
        tdm_error err = {0};
        tdm_cpu_options options = {.tier = TDM_TIER_FAST, .n_threads = 1, .log = &log};
        if (tdm_cpu_backend_create_tampered(&be, NULL, &options, tamper, &lie, &err) != TDM_OK) {
            fail_msg("lie %d: %s", lie, err.what);
        }
        if (strcmp(be->ops->name(be), "cpu-scalar") != 0) {
            fail_msg("lie %d was believed", lie);
        }
        assert_true(lines.n >= 1);
        assert_non_null(strstr(lines.text, lowest));
        be->ops->destroy(be);
        options.isa = lowest;
        assert_int_equal(tdm_cpu_backend_create_tampered(&be, NULL, &options, tamper, &lie, &err),
                         TDM_E_UNSUPPORTED);
        assert_null(be);
        assert_true(strlen(err.what) > 0);
        if (lie == LIES - 1) {
            assert_non_null(strstr(err.what, "illegal"));
        }
        assert_int_equal(sigaction(SIGILL, NULL, &after), 0);
        assert_true(after.sa_handler == on_signal);
    }
    ours.sa_handler = SIG_DFL;
    assert_int_equal(sigaction(SIGILL, &ours, NULL), 0);
}

#if defined(__x86_64__)
/* AVX-512 as a processor without VBMI has it. */
static void take_vbmi(void *arg, tdm_cpu_isa isa, tdm_cpu_kernels *kernels) {
    (void)arg;
    if (isa == TDM_CPU_ISA_AVX512) {
        kernels->linear_i8 = tdm_avx512_linear_i8;
    }
}

static void one_token_is_proved_without_vbmi_too(void **state) {
    const tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = "avx512", .n_threads = 1};
    tdm_backend *be = NULL;
    tdm_error err = {0};
    (void)state;
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX512)) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    if (tdm_cpu_backend_create_tampered(&be, NULL, &options, take_vbmi, NULL, &err) != TDM_OK) {
        fail_msg("%s", err.what);
    }
    be->ops->destroy(be);
}
#endif

/* Everything that allocates: create, reserve, a packed weight. Returns the first failure. */
static tdm_status use_all(const tdm_alloc *alloc, const tdm_tensor_view *view, tdm_error *err) {
    tdm_backend *be = NULL;
    tdm_weight w = {0};
    tdm_cpu_options options = {.tier = TDM_TIER_FAST, .n_threads = 2};
    tdm_status status = tdm_cpu_backend_create(&be, alloc, &options, err);
    if (status != TDM_OK) {
        return status;
    }
    float x[64] = {1.0f};
    float out[2 * 16];
    status = be->ops->reserve(be, 2, 32, err);
    if (status == TDM_OK) {
        status = tdm_weight_init(be, view, &w, err);
    }
    if (status == TDM_OK) {
        tdm_linear_part part = {.weight = &w, .out = out, .ld_out = 16};
        be->ops->linear(be, x, 32, 2, &part, 1);
        be->ops->weight_deinit(be, &w);
    }
    be->ops->destroy(be);
    return status;
}

static void every_allocation_may_fail(void **state) {
    uint8_t data[16 * 18] = {0};
    tdm_tensor_view view = {
        .dtype = TDM_DTYPE_Q4_0, .rank = 2, .dims = {16, 32}, .data = data, .bytes = sizeof data};
    tdm_alloc_tracker tracker;
    tdm_error err = {0};
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    assert_int_equal(use_all(&tracker.alloc, &view, &err), TDM_OK);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    size_t n_calls = atomic_load(&tracker.n_calls);
    assert_true(n_calls >= 6);
    for (size_t i = 1; i <= n_calls; ++i) {
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = i;
        assert_int_equal(use_all(&tracker.alloc, &view, &err), TDM_E_NOMEM);
        assert_int_equal(err.code, TDM_E_NOMEM);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        assert_int_equal(atomic_load(&tracker.n_live), 0);
    }
}

static void reserve_grows_and_survives_failure(void **state) {
    tdm_alloc_tracker tracker;
    tdm_backend *be = NULL;
    tdm_error err = {0};
    tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = "scalar", .n_threads = 1};
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    assert_int_equal(tdm_cpu_backend_create(&be, &tracker.alloc, &options, &err), TDM_OK);
    assert_int_equal(be->ops->reserve(be, 4, 256, &err), TDM_OK);
    size_t live = atomic_load(&tracker.live_bytes);
    assert_int_equal(be->ops->reserve(be, 2, 100, &err), TDM_OK); /* never shrinks */
    assert_int_equal(atomic_load(&tracker.live_bytes), live);
    tracker.fail_at = atomic_load(&tracker.n_calls) + 2;
    assert_int_equal(be->ops->reserve(be, 64, 4096, &err), TDM_E_NOMEM);
    assert_int_equal(atomic_load(&tracker.live_bytes), live);
    assert_int_equal(be->ops->reserve(be, INT64_MAX, 32, &err), TDM_E_LIMIT);
    tracker.fail_at = 0;
    assert_int_equal(be->ops->reserve(be, 64, 4096, &err), TDM_OK);
    assert_true(atomic_load(&tracker.live_bytes) > live);
    be->ops->destroy(be);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

static void mapped_weights_allocate_nothing(void **state) {
    (void)state;
    for (int is_mapped = 0; is_mapped < 2; ++is_mapped) {
        tdm_backend *be = NULL;
        tdm_error err = {0};
        tdm_cpu_options options = {
            .tier = TDM_TIER_FAST, .n_threads = 1, .is_mapped = is_mapped != 0};
        assert_int_equal(tdm_cpu_backend_create(&be, NULL, &options, &err), TDM_OK);
        const tdm_weight quantized = {.dtype = TDM_DTYPE_Q4_1, .n_out = 64, .n_in = 64};
        const tdm_weight dense = {.dtype = TDM_DTYPE_BF16, .n_out = 64, .n_in = 64};
        size_t bytes = be->ops->weight_plan(be, &quantized);
        bool has_panels = be->ops->panel_layout(be) != NULL;
        assert_int_equal(bytes, has_panels && is_mapped == 0 ? 64 * 2 * 20 : 0);
        assert_int_equal(be->ops->weight_plan(be, &dense), 0);
        tdm_weight router = quantized; /* not rounded in fast, so no panels */
        router.is_exact = true;
        assert_int_equal(be->ops->weight_plan(be, &router), 0);
        be->ops->destroy(be);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_checked),
        cmocka_unit_test(names_say_the_set),
        cmocka_unit_test(a_set_that_fails_its_proof_is_not_used),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(reserve_grows_and_survives_failure),
        cmocka_unit_test(mapped_weights_allocate_nothing),
#if defined(__x86_64__)
        cmocka_unit_test(one_token_is_proved_without_vbmi_too),
#endif
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
