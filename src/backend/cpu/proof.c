/* SPDX-License-Identifier: Apache-2.0
 *
 * The proof of a set of kernels: every kernel runs on small inputs beside its scalar twin before
 * the set is used. An illegal instruction is caught, so that a machine that advertises what it
 * cannot run falls back instead of dying.
 *
 * Why there is hidden state here, and only here: a signal handler has no argument of ours. The
 * place to jump to is thread-local and set during a proof only; a lock keeps two proofs from
 * swapping each other's handlers. */
#include "backend/cpu/cpu_priv.h"

#include "base/random.h"
#include "tensor/block.h"
#include "tensor/dequant.h"
#include "tensor/ops.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#define N_IN 256
#define N_OUT 19 /* a whole panel and a part of one */
#define N_TOKENS 5
#define DIM 83
/* Twins may differ by this share of the largest value: far above rounding, far below a mistake. */
#define SLACK 2e-5f
/* Attention over BF16 pages may round queries and weights to bf16 too, by 2^-9 of each at most. Of a
 * score of about one that is 2^-9, so 2^-8 of a weight, and 2^-8 of what it is mixed with. */
#define SLACK_BF16 8e-3f

/* global: a signal handler has no argument; set during a proof only */
static _Thread_local sigjmp_buf *jump_target;
/* global: signal handlers belong to the process; one proof at a time swaps them */
static pthread_mutex_t handler_lock = PTHREAD_MUTEX_INITIALIZER;

typedef struct proof_memory {
    uint8_t weights[N_OUT * N_IN * 4];
    float x[N_TOKENS * N_IN];
    float bias[N_OUT];
    float want[N_TOKENS * N_IN];
    float got[N_TOKENS * N_IN];
    int8_t q[2][N_TOKENS * N_IN];
    tdm_cpu_x8_block blocks[2][N_TOKENS * N_IN / 32];
    uint8_t pages[2][2 * 128 * 40 * 4];
    uint8_t packed[64 * 1024];
    float partials[2][7 * 48];
    tdm_cpu_x8_group groups[N_IN / 32];
    uint16_t x16[2][TDM_CPU_GROUP_TOKENS * (N_IN + 96)];
    float wide[TDM_CPU_GROUP_TOKENS * N_OUT];
    float noise[2 * 128 * 40]; /* scales, keys and values */
} proof_memory;

typedef struct proof {
    tdm_cpu_kernels scalar;
    const tdm_cpu_kernels *kernels;
    proof_memory *m;
    void *scratch;
    const char *failed;
} proof;

static void on_illegal(int signal_number) {
    if (jump_target != NULL) {
        siglongjmp(*jump_target, 1);
    }
    /* Not ours: another thread met a bad instruction. Die of it, as it would have without us. */
    (void)signal(signal_number, SIG_DFL);
    (void)raise(signal_number);
}

/* Random bytes. Drawing a number at a time was half of the proof's cost. */
static void draw(void *out, size_t bytes, uint32_t stream, uint32_t kind) {
    const uint32_t key[2] = {7, stream};
    for (size_t at = 0; at < bytes; at += 16) {
        const uint32_t counter[4] = {(uint32_t)at, kind, 0, 0};
        uint32_t words[4];
        tdm_philox4x32(counter, key, words);
        memcpy((uint8_t *)out + at, words, bytes - at < 16 ? bytes - at : 16);
    }
}

/* Values in [-1, 1). */
static void fill(float *out, int64_t n, uint32_t stream) {
    draw(out, (size_t)n * sizeof *out, stream, 0);
    for (int64_t i = 0; i < n; ++i) {
        int32_t bits = 0;
        memcpy(&bits, &out[i], sizeof bits);
        out[i] = (float)bits * 0x1.0p-31f;
    }
}

static bool is_within(float slack, const float *want, const float *got, int64_t n) {
    float largest = 1e-6f;
    for (int64_t i = 0; i < n; ++i) {
        largest = fmaxf(largest, fabsf(want[i]));
    }
    for (int64_t i = 0; i < n; ++i) {
        if (!(fabsf(want[i] - got[i]) <= slack * largest)) {
            return false;
        }
    }
    return true;
}

static bool is_close(const float *want, const float *got, int64_t n) {
    return is_within(SLACK, want, got, n);
}

static void expect(proof *p, bool is_true, const char *what) {
    if (!is_true && p->failed == NULL) {
        p->failed = what;
    }
}

/* Random bits, with scales that are finite and small. */
static void fill_weights(proof *p, tdm_dtype dtype) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    size_t n_blocks = (size_t)N_OUT * N_IN / info->block_weights;
    draw(p->m->weights, n_blocks * info->block_bytes, 11, (uint32_t)dtype);
    for (size_t b = 0; b < n_blocks; ++b) {
        float value = p->m->noise[b];
        float d = 0.015625f + 0.1f * fabsf(value);
        tdm_block_set_scales(dtype, p->m->weights + b * info->block_bytes,
                             info->block_weights == 1 ? value : d, d);
    }
}

/* Wide products of packed panels: all of them, and the last alone; the tokens over and over. */
static void prove_wide(proof *p, const tdm_cpu_linear_job *plain) {
    proof_memory *m = p->m;
    tdm_cpu_x8 x8 = *plain->x8;
    tdm_cpu_linear_job job = *plain;
    x8.groups = m->groups;
    job.x8 = &x8;
    job.out = m->wide;
    memset(m->wide, 0, sizeof m->wide);
    for (int32_t t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        int32_t from = t % N_TOKENS;
        tdm_cpu_group_put(m->groups, t, x8.q + from * x8.ld_q, x8.blocks + from * x8.ld_blocks,
                          N_IN / 32);
    }
    for (int64_t row0 = 0; row0 < N_OUT; row0 += TDM_CPU_PANEL_ROWS) {
        p->kernels->linear_i8_wide(&job, row0, N_OUT, 0, 1, p->scratch);
        for (int32_t t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
            expect(p,
                   memcmp(m->want + t % N_TOKENS * N_OUT, m->wide + t * N_OUT,
                          sizeof(float) * N_OUT) == 0,
                   "wide int8 products");
        }
    }
}

/* int8 products of the file's layout and of packed panels: the same bits as the scalar ones. */
static void prove_int8(proof *p, tdm_weight *w, tdm_cpu_linear_job *job) {
    proof_memory *m = p->m;
    const size_t bytes = sizeof(float) * N_TOKENS * N_OUT;
    tdm_block_kind kind = TDM_BLOCK_ONE;
    if (!tdm_weight_kind(w, &kind)) {
        return;
    }
    job->out = m->want;
    p->scalar.linear_i8(job, 0, N_OUT, 0, N_TOKENS, p->scratch);
    for (int is_mapped = 1; is_mapped >= 0; --is_mapped) {
        if (p->kernels->layout != NULL) {
            p->kernels->layout(w, is_mapped != 0);
        }
        if (w->packed_bytes > sizeof m->packed) {
            continue;
        }
        if (w->packed_bytes > 0) {
            w->packed = m->packed;
            p->kernels->pack(w, 0, (N_OUT + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS);
        }
        memset(m->got, 0, sizeof m->got);
        job->out = m->got;
        p->kernels->linear_i8(job, 0, N_OUT, 0, N_TOKENS, p->scratch);
        expect(p, memcmp(m->want, m->got, bytes) == 0,
               w->packed_bytes > 0 ? "int8 products of packed weights" : "int8 products");
        memset(m->got, 0, sizeof *m->got * N_OUT);
        p->kernels->linear_i8(job, 0, N_OUT, 0, 1, p->scratch); /* which may have its own way */
        expect(p, memcmp(m->want, m->got, bytes) == 0, "int8 products of one token");
        if (p->kernels->linear_i8_wide != NULL && w->packed != NULL) {
            prove_wide(p, job);
        }
    }
}

/* Wide BF16 products of the tokens over and over: the bits of single ones, in out. */
static void prove_wide_bf16(proof *p, const tdm_cpu_linear_job *plain, const float *out) {
    proof_memory *m = p->m;
    const tdm_cpu_x16 tiles = {.q = m->x16[0], .ld = plain->x16->ld};
    tdm_cpu_linear_job job = *plain;
    float x[TDM_CPU_GROUP_TOKENS * N_IN];
    const size_t bytes = (size_t)TDM_CPU_GROUP_TOKENS * N_IN * sizeof m->x16[0][0];
    for (int t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        memcpy(x + t * N_IN, m->x + t % N_TOKENS * N_IN, N_IN * sizeof *x);
    }
    tdm_scalar_round_bf16_group(x, N_IN, N_IN, m->x16[1]);
    p->kernels->round_bf16_group(x, N_IN, N_IN, tiles.q);
    expect(p, memcmp(m->x16[0], m->x16[1], bytes) == 0, "tiles of BF16 activations");
    job.x16 = &tiles;
    job.out = m->wide;
    p->kernels->linear_bf16_wide(&job, 0, N_OUT, 0, 1, p->scratch);
    for (int t = 0; t < TDM_CPU_GROUP_TOKENS; ++t) {
        expect(p,
               memcmp(out + t % N_TOKENS * N_OUT, m->wide + t * N_OUT, sizeof(float) * N_OUT) == 0,
               "wide BF16 products");
    }
}

/* Near the scalar ones, and one token as many. */
static void prove_bf16(proof *p, const tdm_cpu_linear_job *plain) {
    proof_memory *m = p->m;
    const tdm_cpu_x16 x16 = {.q = m->x16[0], .ld = tdm_cpu_x16_ld(N_IN)};
    const tdm_cpu_x16 law = {.q = m->x16[1], .ld = x16.ld};
    const int64_t at = (int64_t)(N_TOKENS - 1) * N_OUT;
    tdm_cpu_linear_job job = *plain;
    if (p->kernels->is_bf16 == NULL || !p->kernels->is_bf16(job.weight)) {
        return;
    }
    for (int t = 0; t < N_TOKENS; ++t) {
        p->kernels->round_bf16(m->x + t * N_IN, N_IN, x16.q + t * x16.ld, x16.ld);
        tdm_scalar_round_bf16(m->x + t * N_IN, N_IN, law.q + t * law.ld, law.ld);
    }
    expect(p, memcmp(x16.q, law.q, (size_t)(N_TOKENS * x16.ld) * sizeof *law.q) == 0,
           "rounding to BF16");
    job.x16 = &law;
    job.out = m->want;
    tdm_scalar_linear_bf16(&job, 0, N_OUT, 0, N_TOKENS, p->scratch);
    job.out = m->got;
    p->kernels->linear_bf16(&job, 0, N_OUT, 0, N_TOKENS, p->scratch);
    expect(p, is_close(m->want, m->got, (int64_t)N_TOKENS * N_OUT), "BF16 products");
    job.out = m->want;
    p->kernels->linear_bf16(&job, 0, N_OUT, N_TOKENS - 1, N_TOKENS, p->scratch);
    expect(p, memcmp(m->want + at, m->got + at, sizeof(float) * N_OUT) == 0,
           "BF16 products of one token");
    if (p->kernels->linear_bf16_wide != NULL) {
        prove_wide_bf16(p, &job, m->got);
    }
}

static void prove_weight(proof *p, tdm_weight *w) {
    proof_memory *m = p->m;
    tdm_cpu_x8 x8 = {.q = m->q[0], .ld_q = N_IN, .blocks = m->blocks[0], .ld_blocks = N_IN / 32};
    tdm_cpu_linear_job job = {.weight = w,
                              .x = m->x,
                              .ld_x = N_IN,
                              .x8 = &x8,
                              .bias = m->bias,
                              .out = m->want,
                              .ld_out = N_OUT};
    int64_t n = N_TOKENS * N_OUT;
    p->scalar.linear_f32(&job, 0, N_OUT, 0, N_TOKENS, p->scratch);
    job.out = m->got;
    p->kernels->linear_f32(&job, 0, N_OUT, 0, 1, p->scratch); /* few tokens have their own way */
    p->kernels->linear_f32(&job, 0, N_OUT, 1, N_TOKENS, p->scratch);
    expect(p, is_close(m->want, m->got, n), "f32 products");
    prove_bf16(p, &job);
    prove_int8(p, w, &job);
}

static void prove_products(proof *p, tdm_dtype dtype) {
    proof_memory *m = p->m;
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    tdm_weight w = {.dtype = dtype,
                    .n_out = N_OUT,
                    .n_in = N_IN,
                    .data = m->weights,
                    .row_bytes = (size_t)N_IN / info->block_weights * info->block_bytes};
    fill_weights(p, dtype);
    prove_weight(p, &w);
}

/* Weights of several tensors; 256 columns are whole groups of all. */
static void prove_grouped(proof *p, tdm_weight_mode mode, int32_t bits, int32_t group) {
    proof_memory *m = p->m;
    uint8_t *scales = m->weights + N_OUT * N_IN;
    size_t scale_bytes = mode == TDM_WEIGHT_AFFINE ? sizeof(float) : 1;
    int64_t n_groups = N_IN / group;
    tdm_weight w = {.mode = mode,
                    .dtype = TDM_DTYPE_U32,
                    .bits = bits,
                    .group = group,
                    .n_out = N_OUT,
                    .n_in = N_IN,
                    .data = m->weights,
                    .row_bytes = (size_t)(N_IN / 8 * bits),
                    .scales = scales,
                    .biases = mode == TDM_WEIGHT_AFFINE ? scales + N_OUT * N_IN : NULL,
                    .scales_dtype = mode == TDM_WEIGHT_AFFINE ? TDM_DTYPE_F32 : TDM_DTYPE_U8,
                    .scales_row_bytes = (size_t)n_groups * scale_bytes,
                    .multiplier = 1.0f};
    draw(m->weights, N_OUT * (N_IN + 16), 12, (uint32_t)bits);
    for (size_t i = 0; i < N_OUT * N_IN && mode == TDM_WEIGHT_MXFP8; ++i) {
        m->weights[i] &= 0xbf; /* no NaN */
    }
    for (uint32_t i = 0; i < (uint32_t)(N_OUT * n_groups); ++i) {
        if (mode == TDM_WEIGHT_AFFINE) {
            memcpy(scales + 4 * (size_t)i, &m->noise[2 * i], 4);
            memcpy(scales + N_OUT * N_IN + 4 * (size_t)i, &m->noise[2 * i + 1], 4);
        } else { /* exponents near one, or E4M3 below two */
            scales[i] =
                (uint8_t)(mode == TDM_WEIGHT_NVFP4 ? scales[i] & 0x3f : 120 + (scales[i] & 7));
        }
    }
    prove_weight(p, &w);
}

static void prove_quantize(proof *p) {
    proof_memory *m = p->m;
    fill(m->x, N_TOKENS * N_IN, 2);
    memset(m->x + 64, 0, 32 * sizeof(float));
    for (int i = 0; i < 2; ++i) {
        const tdm_cpu_kernels *k = i == 0 ? &p->scalar : p->kernels;
        for (int t = 0; t < N_TOKENS; ++t) {
            k->quantize(m->x + t * N_IN, N_IN, m->q[i] + t * N_IN, m->blocks[i] + t * N_IN / 32);
        }
    }
    expect(p, memcmp(m->q[0], m->q[1], sizeof m->q[0]) == 0, "rounding of activations");
    expect(p, memcmp(m->blocks[0], m->blocks[1], sizeof m->blocks[0]) == 0,
           "sums of rounded activations");
}

static void prove_rows(proof *p) {
    proof_memory *m = p->m;
    fill(m->x, N_TOKENS * N_IN, 4);
    const float *a = m->x;
    const float *b = m->x + N_IN;
    p->scalar.rms_norm(m->want, a, b, DIM, 1e-5f);
    p->kernels->rms_norm(m->got, a, b, DIM, 1e-5f);
    expect(p, is_close(m->want, m->got, DIM), "rms_norm");
    p->scalar.layer_norm(m->want, a, b, b + DIM, DIM, 1e-5f);
    p->kernels->layer_norm(m->got, a, b, b + DIM, DIM, 1e-5f);
    expect(p, is_close(m->want, m->got, DIM), "layer_norm");
    for (int kind = 0; kind < TDM_GLU_COUNT; ++kind) {
        const tdm_activation act = {.kind = (tdm_glu)kind, .alpha = 1.7f, .limit = 0.5f};
        p->scalar.glu(&act, m->want, a, b, DIM);
        p->kernels->glu(&act, m->got, a, b, DIM);
        expect(p, is_close(m->want, m->got, DIM), "glu");
        p->scalar.glu(&act, m->want, a, NULL, DIM);
        p->kernels->glu(&act, m->got, a, NULL, DIM);
        expect(p, is_close(m->want, m->got, DIM), "activation");
    }
    memcpy(m->want, a, DIM * sizeof(float));
    memcpy(m->got, a, DIM * sizeof(float));
    p->scalar.softcap(m->want, 0.7f, DIM);
    p->kernels->softcap(m->got, 0.7f, DIM);
    expect(p, is_close(m->want, m->got, DIM), "softcap");
    for (int i = 0; i < 2; ++i) {
        memcpy(m->want, a, N_IN * sizeof(float));
        memcpy(m->got, a, N_IN * sizeof(float));
        tdm_rope_pairing pairing = i == 0 ? TDM_ROPE_HALVES : TDM_ROPE_NEIGHBOURS;
        p->scalar.rope(m->want, 2, 44, b, 21, pairing);
        p->kernels->rope(m->got, 2, 44, b, 21, pairing);
        expect(p, is_close(m->want, m->got, N_IN), "rope");
    }
    memcpy(m->want, a, N_IN * sizeof(float));
    memcpy(m->got, a, N_IN * sizeof(float));
    p->scalar.add(m->want, b, DIM);
    p->kernels->add(m->got, b, DIM);
    p->scalar.scale(m->want, 1.7f, DIM);
    p->kernels->scale(m->got, 1.7f, DIM);
    expect(p, memcmp(m->want, m->got, N_IN * sizeof(float)) == 0, "add and scale");
    expect(p, p->scalar.argmax(a, DIM) == p->kernels->argmax(a, DIM), "argmax");
}

/* A head of 43 values is one tile of a kernel and a part of the next. */
static void prove_recurrent(proof *p) {
    proof_memory *m = p->m;
    const float *in[3] = {m->x, m->x + 100, m->x + 200};
    const float gates[4] = {-0.3f, -1.5f, 0.1f, 0.2f};
    const tdm_delta delta = {.n_key_heads = 1,
                             .n_value_heads = 2,
                             .key_dim = 10,
                             .value_dim = 43,
                             .decay = gates,
                             .dt_bias = gates + 2};
    const int64_t state = 2 * 10 * 43;
    tdm_delta_span span = {
        .from = m->x + 400, .x = m->x, .ld_x = 2 * 10 + 2 * 43 + 4, .ld_out = 2 * 43, .n = 3};
    fill(m->x, N_TOKENS * N_IN, 13);
    p->scalar.conv_row(m->want, in, m->x + 300, DIM, m->x + 700, 3, DIM);
    p->kernels->conv_row(m->got, in, m->x + 300, DIM, m->x + 700, 3, DIM);
    expect(p, is_close(m->want, m->got, DIM), "convolution");
    for (int32_t head = 0; head < 2; ++head) {
        span.to = m->want;
        span.out = m->want + state;
        p->scalar.delta_head(&delta, &span, head);
        span.to = m->got;
        span.out = m->got + state;
        p->kernels->delta_head(&delta, &span, head);
    }
    expect(p, is_close(m->want, m->got, state + 3 * 2 * 43), "the gated delta rule");
}

static float attention_slack(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_F32 ? SLACK : SLACK_BF16;
}

/* Heads and tokens of one item: together every size of a tile up to seven queries. */
static const struct {
    int32_t head0, head1, tok0, tok1;
} ITEMS[] = {{0, 2, 0, 5}, {0, 2, 5, 7}, {2, 3, 0, 5}, {2, 3, 5, 7},
             {3, 4, 0, 3}, {3, 4, 3, 4}, {3, 4, 4, 7}};

/* Two chunks of one item apart and merged: the bits of the whole item, which m->got holds. */
static void prove_merge(proof *p, tdm_attention_span *span, tdm_cpu_attention_item item) {
    proof_memory *m = p->m;
    item.partials = m->partials[0];
    item.chunk1 = 2;
    span->out = m->want;
    p->kernels->attention(&item, p->scratch);
    p->kernels->attention_merge(&item, p->scratch);
    for (int32_t t = item.tok0; t < item.tok1; ++t) {
        int64_t at = t * span->ld_out + (int64_t)item.head0 * span->pages->value_dim;
        size_t bytes =
            sizeof(float) * (size_t)(item.head1 - item.head0) * (size_t)span->pages->value_dim;
        expect(p, memcmp(m->want + at, m->got + at, bytes) == 0, "merging of attention");
    }
}

/* The window ends in both chunks of 256 positions and in a ring of 128. */
static void prove_attention(proof *p, tdm_dtype dtype) {
    proof_memory *m = p->m;
    uint8_t *k_pages[1] = {m->pages[0]};
    uint8_t *v_pages[1] = {m->pages[1]};
    tdm_kv_pages pages = {.k = k_pages,
                          .v = v_pages,
                          .page_shift = 7,
                          .n_pages = 1,
                          .dtype = dtype,
                          .n_kv_heads = 2,
                          .head_dim = 40,
                          .value_dim = 24};
    static const float SINKS[4] = {0.5f, -2.0f, 3.0f, 0.0f};
    tdm_attention_span span = {.pages = &pages,
                               .q = m->x,
                               .ld_q = 4 * 40,
                               .ld_out = 4 * 24,
                               .pos0 = 252,
                               .n = 7,
                               .n_heads = 4,
                               .window = dtype == TDM_DTYPE_F32 ? 100 : 17,
                               .scale = 0.3f,
                               .softcap = dtype == TDM_DTYPE_F32 ? 0.0f : 5.0f,
                               .sinks = dtype == TDM_DTYPE_F32 ? NULL : SINKS};
    fill(m->x, N_TOKENS * N_IN, 5);
    p->scalar.kv_store(m->pages[0], m->noise, 2 * 128 * 40, dtype);
    p->scalar.kv_store(m->pages[1], m->noise, 2 * 128 * 40, dtype);
    for (size_t i = 0; i < sizeof ITEMS / sizeof ITEMS[0]; ++i) {
        const tdm_cpu_attention_item item = {.span = &span,
                                             .head0 = ITEMS[i].head0,
                                             .head1 = ITEMS[i].head1,
                                             .tok0 = ITEMS[i].tok0,
                                             .tok1 = ITEMS[i].tok1};
        span.out = m->want;
        p->scalar.attention(&item, p->scratch);
        span.out = m->got;
        p->kernels->attention(&item, p->scratch);
    }
    expect(p, is_within(attention_slack(dtype), m->want, m->got, 7 * 4 * 24), "attention");
    for (size_t i = 1; i < sizeof ITEMS / sizeof ITEMS[0] && p->kernels->attention_merge != NULL;
         ++i) {
        prove_merge(p, &span,
                    (tdm_cpu_attention_item){.span = &span,
                                             .head0 = ITEMS[i].head0,
                                             .head1 = ITEMS[i].head1,
                                             .tok0 = ITEMS[i].tok0,
                                             .tok1 = ITEMS[i].tok1});
    }
    uint8_t stored[2][DIM * 4];
    memset(stored, 0, sizeof stored);
    p->scalar.kv_store(stored[0], m->x, DIM, dtype);
    p->kernels->kv_store(stored[1], m->x, DIM, dtype);
    expect(p, memcmp(stored[0], stored[1], sizeof stored[0]) == 0, "rounding of keys and values");
}

/* Rows that are key and value, a list for each token, and an indexer. Rows are the noise that
 * prove_attention left. */
static void prove_latent(proof *p, tdm_dtype dtype) {
    static const int32_t LISTS[2][3] = {{3, 50, 90}, {0, 91, 0}};
    static const int32_t N_LISTS[2] = {3, 2};
    proof_memory *m = p->m;
    uint8_t *k_pages[1] = {m->pages[0]};
    uint8_t *index_pages[1] = {m->pages[1]};
    tdm_kv_pages pages = {.k = k_pages,
                          .v = k_pages,
                          .index = index_pages,
                          .page_shift = 7,
                          .n_pages = 1,
                          .dtype = dtype,
                          .n_kv_heads = 1,
                          .head_dim = 40,
                          .value_dim = 24,
                          .index_dim = 20,
                          .is_latent = true};
    tdm_attention_span span = {.pages = &pages,
                               .q = m->x,
                               .ld_q = 4 * 40,
                               .ld_out = 4 * 24,
                               .pos0 = 90,
                               .n = 2,
                               .n_heads = 4,
                               .scale = 0.3f,
                               .chosen = dtype == TDM_DTYPE_F32 ? LISTS[0] : NULL,
                               .n_chosen = N_LISTS,
                               .ld_chosen = 3};
    const tdm_cpu_attention_item item = {.span = &span, .head1 = 4, .tok1 = 2};
    tdm_index_span ask = {
        .pages = &pages, .q = m->x, .weights = m->x + DIM, .pos0 = 2, .n = 40, .n_heads = 6};
    memcpy(m->pages[1], m->noise, 128 * 20 * sizeof m->noise[0]);
    span.out = m->want;
    p->scalar.attention(&item, p->scratch);
    span.out = m->got;
    p->kernels->attention(&item, p->scratch);
    expect(p, is_within(attention_slack(dtype), m->want, m->got, 2 * 4 * 24), "latent attention");
    ask.out = m->want;
    p->scalar.index_scores(&ask, 0, 40);
    ask.out = m->got;
    p->kernels->index_scores(&ask, 0, 40);
    expect(p, is_close(m->want, m->got, 40), "scores of an indexer");
}

static void prove_all(proof *p) {
    fill(p->m->noise, 2 * 128 * 40, 3);
    prove_quantize(p);
    fill(p->m->x, N_TOKENS * N_IN, 1);
    for (int dtype = 0; dtype < TDM_DTYPE_COUNT; ++dtype) {
        if (tdm_dequant_can((tdm_dtype)dtype)) {
            prove_products(p, (tdm_dtype)dtype);
        }
    }
    for (int32_t bits = 1; bits <= 8; ++bits) {
        if (bits != 7) {
            prove_grouped(p, TDM_WEIGHT_AFFINE, bits, bits % 2 == 0 ? 64 : 32);
        }
    }
    prove_grouped(p, TDM_WEIGHT_MXFP4, 4, 32);
    prove_grouped(p, TDM_WEIGHT_NVFP4, 4, 16);
    prove_grouped(p, TDM_WEIGHT_MXFP8, 8, 32);
    prove_rows(p);
    prove_recurrent(p);
    prove_attention(p, TDM_DTYPE_F32);
    prove_latent(p, TDM_DTYPE_F32);
    prove_attention(p, TDM_DTYPE_BF16);
    prove_latent(p, TDM_DTYPE_BF16);
}

/* Runs the proof with the handler in place. Nothing between here and a kernel owns anything, so the
 * jump leaves nothing behind. */
static tdm_status prove_guarded(proof *p, tdm_error *err) {
    struct sigaction ours = {.sa_handler = on_illegal};
    struct sigaction before;
    sigjmp_buf target;
    (void)sigemptyset(&ours.sa_mask);
    (void)pthread_mutex_lock(&handler_lock);
    if (sigaction(SIGILL, &ours, &before) != 0) {
        (void)pthread_mutex_unlock(&handler_lock);
        return tdm_fail(err, TDM_E_IO, "cannot watch for illegal instructions");
    }
    if (sigsetjmp(target, 1) == 0) {
        jump_target = &target;
        prove_all(p);
    } else {
        p->failed = "an instruction is illegal here";
    }
    jump_target = NULL;
    (void)sigaction(SIGILL, &before, NULL);
    (void)pthread_mutex_unlock(&handler_lock);
    return TDM_OK;
}

tdm_status tdm_cpu_prove(const tdm_cpu_kernels *kernels, const tdm_alloc *alloc,
                         const char **out_failed, tdm_error *err) {
    size_t scratch_bytes = tdm_cpu_scratch_bytes(N_IN);
    tdm_status status = TDM_OK;
    proof p = {.kernels = kernels};
    *out_failed = NULL;
    p.m = tdm_mem_alloc_aligned(alloc, sizeof *p.m, 64);
    p.scratch = tdm_mem_alloc_aligned(alloc, scratch_bytes, 64);
    if (p.m == NULL || p.scratch == NULL) {
        status = tdm_fail_nomem(err, "the proof of an instruction set");
        goto done;
    }
    memset(p.m, 0, sizeof *p.m);
    fill(p.m->bias, N_OUT, 8);
    tdm_cpu_kernels_scalar(&p.scalar);
    TDM_TRY_GOTO(status, prove_guarded(&p, err), done);
    *out_failed = p.failed;
done:
    tdm_mem_free_aligned(alloc, p.scratch, scratch_bytes, 64);
    tdm_mem_free_aligned(alloc, p.m, sizeof *p.m, 64);
    return status;
}
