/* SPDX-License-Identifier: Apache-2.0
 *
 * The six hottest kernels, each called once on fixed inputs by one thread, for a program that counts
 * instructions: every case has a function of its own, whose inclusive count is the kernel's. Used by
 * tests/gate/test_instructions.py; prints a sum of the results, so that nothing is left out.
 *
 *     count_kernels scalar|avx2 */
#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "tensor/block.h"
#include "tensor/half.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_IN 2048
#define N_OUT 64
#define N_PROMPT 24
#define HEADS 4
#define HEAD_DIM 64
#define DEPTH 512

static void must(tdm_status status, const tdm_error *err) {
    if (status != TDM_OK) {
        (void)fprintf(stderr, "%s\n", err->what);
        exit(1);
    }
}

static void *must_alloc(size_t bytes) {
    void *p = tdm_mem_alloc_aligned(NULL, bytes, 64);
    if (p == NULL) {
        (void)fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

static float draw(uint32_t stream, int64_t i) {
    return (float)(tdm_random_f64(stream, 0, (uint32_t)i, 0) - 0.5);
}

typedef struct product {
    tdm_backend *be;
    uint8_t *data;
    size_t bytes;
    tdm_weight weight;
    float *x;   /* [N_PROMPT, N_IN] */
    float *out; /* [N_PROMPT, N_OUT] */
    int64_t n;
} product;

static void product_make(product *p, tdm_backend *be, tdm_dtype dtype, int64_t n) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    const size_t row_bytes = (size_t)(N_IN / info->block_weights) * info->block_bytes;
    tdm_error err = {0};
    *p = (product){.be = be, .bytes = N_OUT * row_bytes, .n = n};
    p->data = must_alloc(p->bytes);
    p->x = must_alloc(sizeof(float) * N_PROMPT * N_IN);
    p->out = must_alloc(sizeof(float) * N_PROMPT * N_OUT);
    for (size_t i = 0; i < p->bytes; ++i) {
        p->data[i] = (uint8_t)(tdm_random_u64(1, 0, (uint32_t)i, 0) >> 56);
    }
    for (size_t at = 0; dtype != TDM_DTYPE_BF16 && at < p->bytes; at += info->block_bytes) {
        tdm_block_set_scales(dtype, p->data + at, 0.02f, 0.02f);
    }
    for (size_t i = 0; dtype == TDM_DTYPE_BF16 && i < p->bytes / 2; ++i) {
        uint16_t value = tdm_bf16_from_f32(draw(2, (int64_t)i));
        memcpy(p->data + 2 * i, &value, 2);
    }
    for (int64_t i = 0; i < N_PROMPT * N_IN; ++i) {
        p->x[i] = draw(3, i);
    }
    const tdm_tensor_view view = {dtype, 2, {N_OUT, N_IN}, p->data, p->bytes};
    must(tdm_weight_init(be, &view, &p->weight, &err), &err);
}

static float product_run(product *p) {
    float sum = 0.0f;
    tdm_linear_part part = {.weight = &p->weight, .out = p->out, .ld_out = N_OUT};
    tdm_op_linear(p->be, p->x, N_IN, p->n, &part, 1);
    for (int64_t i = 0; i < p->n * N_OUT; ++i) {
        sum += p->out[i];
    }
    return sum;
}

static void product_drop(product *p) {
    tdm_weight_deinit(p->be, &p->weight);
    tdm_mem_free_aligned(NULL, p->data, p->bytes, 64);
    tdm_mem_free_aligned(NULL, p->x, sizeof(float) * N_PROMPT * N_IN, 64);
    tdm_mem_free_aligned(NULL, p->out, sizeof(float) * N_PROMPT * N_OUT, 64);
}

/* HEADS queries a position share one key head of BF16; 1,024 slots in one page. */
typedef struct attention {
    tdm_backend *be;
    uint8_t *k;
    uint8_t *v;
    float *q;
    float *out;
    tdm_kv_pages pages;
    tdm_attention_span span;
} attention;

enum { SLOTS = 1024, PAGE_BYTES = SLOTS * HEAD_DIM * 2, WIDTH = HEADS * HEAD_DIM };

/* a stays where it is: its span points into it. */
static void attention_make(attention *a, tdm_backend *be, int32_t n) {
    *a = (attention){.be = be,
                     .k = must_alloc(PAGE_BYTES),
                     .v = must_alloc(PAGE_BYTES),
                     .q = must_alloc(sizeof(float) * N_PROMPT * WIDTH),
                     .out = must_alloc(sizeof(float) * N_PROMPT * WIDTH)};
    for (size_t i = 0; i < SLOTS * HEAD_DIM; ++i) {
        uint16_t k = tdm_bf16_from_f32(draw(4, (int64_t)i));
        uint16_t v = tdm_bf16_from_f32(draw(5, (int64_t)i));
        memcpy(a->k + 2 * i, &k, 2);
        memcpy(a->v + 2 * i, &v, 2);
    }
    for (int64_t i = 0; i < N_PROMPT * WIDTH; ++i) {
        a->q[i] = draw(6, i);
    }
    a->pages = (tdm_kv_pages){.k = &a->k,
                              .v = &a->v,
                              .page_shift = 10,
                              .n_pages = 1,
                              .dtype = TDM_DTYPE_BF16,
                              .n_kv_heads = 1,
                              .head_dim = HEAD_DIM,
                              .value_dim = HEAD_DIM};
    a->span = (tdm_attention_span){.pages = &a->pages,
                                   .q = a->q,
                                   .out = a->out,
                                   .ld_q = WIDTH,
                                   .ld_out = WIDTH,
                                   .pos0 = DEPTH,
                                   .n = n,
                                   .n_heads = HEADS,
                                   .scale = 0.125f};
}

static float attention_run(attention *a) {
    float sum = 0.0f;
    tdm_op_attention(a->be, &a->span, 1);
    for (int64_t i = 0; i < (int64_t)a->span.n * WIDTH; ++i) {
        sum += a->out[i];
    }
    return sum;
}

static void attention_drop(attention *a) {
    tdm_mem_free_aligned(NULL, a->k, PAGE_BYTES, 64);
    tdm_mem_free_aligned(NULL, a->v, PAGE_BYTES, 64);
    tdm_mem_free_aligned(NULL, a->q, sizeof(float) * N_PROMPT * WIDTH, 64);
    tdm_mem_free_aligned(NULL, a->out, sizeof(float) * N_PROMPT * WIDTH, 64);
}

/* The counted functions: whole calls under names that a profile shows. */
#if defined(__clang__)
#define ONE_CALL __attribute__((noinline, used))
#else
#define ONE_CALL __attribute__((noinline, noclone, no_icf, used))
#endif
#define COUNTED(name, subject, run)                                                                \
    static ONE_CALL float count_##name(subject *s) {                                               \
        return run(s);                                                                             \
    }
COUNTED(q4_0_row, product, product_run)
COUNTED(q4_0_prompt, product, product_run)
COUNTED(q4_k_row, product, product_run)
COUNTED(bf16_row, product, product_run)
COUNTED(attention_row, attention, attention_run)
COUNTED(attention_prompt, attention, attention_run)

static float run_all(tdm_backend *be) {
    static const struct {
        tdm_dtype dtype;
        int64_t n;
        float (*run)(product *p);
    } PRODUCTS[] = {{TDM_DTYPE_Q4_0, 1, count_q4_0_row},
                    {TDM_DTYPE_Q4_0, N_PROMPT, count_q4_0_prompt},
                    {TDM_DTYPE_Q4_K, 1, count_q4_k_row},
                    {TDM_DTYPE_BF16, 1, count_bf16_row}};
    float sum = 0.0f;
    for (size_t i = 0; i < sizeof PRODUCTS / sizeof PRODUCTS[0]; ++i) {
        product p;
        product_make(&p, be, PRODUCTS[i].dtype, PRODUCTS[i].n);
        sum += PRODUCTS[i].run(&p);
        product_drop(&p);
    }
    attention a;
    attention_make(&a, be, 1);
    sum += count_attention_row(&a);
    attention_drop(&a);
    attention_make(&a, be, N_PROMPT);
    sum += count_attention_prompt(&a);
    attention_drop(&a);
    return sum;
}

int main(int argc, char **argv) {
    tdm_backend *be = NULL;
    tdm_error err = {0};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: count_kernels scalar|avx2\n");
        return 2;
    }
    const tdm_cpu_options options = {.tier = TDM_TIER_FAST, .isa = argv[1], .n_threads = 1};
    must(tdm_cpu_backend_create(&be, NULL, &options, &err), &err);
    must(be->ops->reserve(be, N_PROMPT, N_IN, &err), &err);
    (void)printf("%s %a\n", be->ops->name(be), (double)run_all(be));
    be->ops->destroy(be);
    return 0;
}
