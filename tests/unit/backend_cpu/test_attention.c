/* SPDX-License-Identifier: Apache-2.0
 *
 * Where keys and values lie in blocks, and the two kernels of AVX-512 that must agree to the bit. The
 * backend kit compares every set with its twin; here is what it cannot see. */
#include "support/support.h"

#include "backend/cpu/cpu_priv.h"
#if defined(__x86_64__)
#include "backend/cpu/avx512/avx512_priv.h"
#endif
#include "base/random.h"
#include "tensor/half.h"
#include "tensor/ops.h"

enum { POSITIONS = 600, KV_HEADS = 2, HEADS = 6, DIM = 40, VALUES = 24 };
#define PAGE_BYTES ((size_t)KV_HEADS * 1024 * DIM * sizeof(float))

static float noise(uint32_t stream, int64_t i) {
    return (float)(tdm_random_f64(3, stream, (uint32_t)i, 0) - 0.5);
}

typedef struct rig {
    uint8_t *k;
    uint8_t *v;
    tdm_kv_pages pages;
} rig;

/* Pages of NaN, since nothing that was not written may be used. */
static void rig_open(rig *r, tdm_dtype dtype) {
    r->k = malloc(PAGE_BYTES);
    r->v = malloc(PAGE_BYTES);
    assert_true(r->k != NULL && r->v != NULL);
    memset(r->k, 0xff, PAGE_BYTES);
    memset(r->v, 0xff, PAGE_BYTES);
    r->pages = (tdm_kv_pages){.k = &r->k,
                              .v = &r->v,
                              .page_shift = 10,
                              .n_pages = 1,
                              .dtype = dtype,
                              .n_kv_heads = KV_HEADS,
                              .head_dim = DIM,
                              .value_dim = VALUES};
}

static void rig_close(rig *r) {
    free(r->k);
    free(r->v);
}

static float key_of(int64_t position, int64_t head, int64_t d) {
    return noise(1, (position * KV_HEADS + head) * DIM + d);
}

static float value_of(int64_t position, int64_t head, int64_t d) {
    return noise(2, (position * KV_HEADS + head) * VALUES + d);
}

static void rig_write(const rig *r, tdm_backend *be, int64_t pos0, int32_t n) {
    float *k = malloc((size_t)n * KV_HEADS * DIM * sizeof *k);
    float *v = malloc((size_t)n * KV_HEADS * VALUES * sizeof *v);
    assert_true(k != NULL && v != NULL);
    for (int64_t i = 0; i < (int64_t)n * KV_HEADS; ++i) {
        for (int64_t d = 0; d < DIM; ++d) {
            k[i * DIM + d] = key_of(pos0 + i / KV_HEADS, i % KV_HEADS, d);
        }
        for (int64_t d = 0; d < VALUES; ++d) {
            v[i * VALUES + d] = value_of(pos0 + i / KV_HEADS, i % KV_HEADS, d);
        }
    }
    const tdm_kv_write_span span = {.pages = &r->pages,
                                    .k = k,
                                    .v = v,
                                    .ld_k = (int64_t)KV_HEADS * DIM,
                                    .ld_v = (int64_t)KV_HEADS * VALUES,
                                    .pos0 = pos0,
                                    .n = n};
    tdm_op_kv_write(be, &span, 1);
    free(k);
    free(v);
}

static tdm_backend *backend_of(const char *isa, int32_t n_threads) {
    tdm_backend *be = NULL;
    tdm_error err = {0};
    const tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = isa, .n_threads = n_threads};
    if (tdm_cpu_backend_create(&be, NULL, &options, &err) != TDM_OK) {
        fail_msg("%s", err.what);
    }
    return be;
}

/* Written by several threads and one by one, every element is where the readers look for it. */
static void what_is_written_is_read(void **state) {
    static const tdm_dtype DTYPES[2] = {TDM_DTYPE_F32, TDM_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 2; ++i) {
        tdm_backend *be = backend_of("best", 2);
        rig r;
        rig_open(&r, DTYPES[i]);
        rig_write(&r, be, 0, 129);
        rig_write(&r, be, 129, 1);
        rig_write(&r, be, 130, 1);
        for (int64_t p = 0; p < 131; ++p) {
            for (int64_t h = 0; h < KV_HEADS; ++h) {
                float got[DIM];
                tdm_cpu_key_read(&r.pages, h, p, got);
                for (int64_t d = 0; d < DIM; ++d) {
                    float want = key_of(p, h, d);
                    want = i == 0 ? want : tdm_bf16_to_f32(tdm_bf16_from_f32(want));
                    assert_memory_equal(&want, &got[d], sizeof want);
                }
                tdm_cpu_value_read(&r.pages, h, p, got);
                for (int64_t d = 0; d < VALUES; ++d) {
                    float want = value_of(p, h, d);
                    want = i == 0 ? want : tdm_bf16_to_f32(tdm_bf16_from_f32(want));
                    assert_memory_equal(&want, &got[d], sizeof want);
                }
            }
        }
        rig_close(&r);
        be->ops->destroy(be);
    }
}

/* The dot rounds as two fused multiply-adds do, the second of a pair first: a processor without it
 * gives the set's bits all the same. */
static void dots_have_the_bits_of_multiply_adds(void **state) {
    (void)state;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!tdm_cpu_isa_is_present(TDM_CPU_ISA_AVX512) || !__builtin_cpu_supports("avx512bf16")) {
        SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
    }
    static const struct {
        int64_t pos0;
        int32_t n;
        int32_t window;
        float softcap;
    } CASES[] = {{0, 7, 0, 0.0f}, {200, 16, 0, 3.0f}, {590, 1, 0, 0.0f}, {570, 9, 33, 0.0f}};
    tdm_backend *be = backend_of("avx512", 1);
    void *scratch = tdm_mem_alloc_aligned(NULL, tdm_cpu_scratch_bytes(1), 64);
    rig r;
    assert_non_null(scratch);
    rig_open(&r, TDM_DTYPE_BF16);
    rig_write(&r, be, 0, POSITIONS);
    for (size_t c = 0; c < SUPPORT_LEN(CASES); ++c) {
        float q[16 * HEADS * DIM];
        float out[2][16 * HEADS * VALUES];
        for (int64_t i = 0; i < 16 * HEADS * DIM; ++i) {
            q[i] = 4.0f * noise(5, i);
        }
        memset(out, 0, sizeof out);
        for (int i = 0; i < 2; ++i) {
            const tdm_attention_span span = {.pages = &r.pages,
                                             .q = q,
                                             .out = out[i],
                                             .ld_q = (int64_t)HEADS * DIM,
                                             .ld_out = (int64_t)HEADS * VALUES,
                                             .pos0 = CASES[c].pos0,
                                             .n = CASES[c].n,
                                             .n_heads = HEADS,
                                             .window = CASES[c].window,
                                             .softcap = CASES[c].softcap,
                                             .scale = 0.7f};
            for (int32_t head = 0; head < HEADS; head += HEADS / KV_HEADS) {
                const tdm_cpu_attention_item item = {.span = &span,
                                                     .head0 = head,
                                                     .head1 = head + HEADS / KV_HEADS,
                                                     .tok1 = CASES[c].n};
                (i == 0 ? tdm_avx512_attention : tdm_avx512_attention_dot)(&item, scratch);
            }
        }
        assert_true(out[0][0] != 0.0f);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
    }
    rig_close(&r);
    tdm_mem_free_aligned(NULL, scratch, tdm_cpu_scratch_bytes(1), 64);
    be->ops->destroy(be);
#else
    SUPPORT_SKIP(SUPPORT_REASON_NO_ISA);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(dots_have_the_bits_of_multiply_adds),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
