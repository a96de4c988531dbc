/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel bench: for each storage type the rate of one-row products over weights that do not fit a
 * cache (GB/s, beside a read-only sweep of as many bytes in the same round) and of many-row
 * products (GOP/s, a multiply and an add counted as two), then attention and the delta rule. CSV on stdout.
 *
 *     bench_kernels [--isa NAME] [--threads N] [--tier fast|exact] [--type Q4_1|affine|attention|delta]
 * [--mapped]
 *                   [--mb 96] [--k 576] [--tokens 256] [--repeats 5] */
#include "backend/cpu/cpu.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/weight.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    const char *isa;
    const char *type;
    tdm_tier tier;
    int32_t n_threads;
    int64_t mb;
    int64_t k;
    int64_t n_tokens;
    int64_t repeats;
    bool is_mapped;
    tdm_backend *be;
} bench;

static int64_t now_ns(void) {
    const tdm_clock *clock = tdm_clock_system();
    return clock->monotonic_ns(clock->ctx);
}

static void *must_alloc(size_t bytes) {
    void *p = tdm_mem_alloc_aligned(NULL, bytes, 64);
    if (p == NULL) {
        (void)fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

typedef struct sweep {
    const uint64_t *data;
    size_t n;
    uint64_t sums[64][8];
} sweep;

static void sweep_member(void *arg, int32_t idx, int32_t n_members) {
    sweep *s = arg;
    size_t begin = s->n * (size_t)idx / (size_t)n_members / 32 * 32;
    size_t end = s->n * (size_t)(idx + 1) / (size_t)n_members / 32 * 32;
    typedef uint64_t u64x4 __attribute__((vector_size(32), aligned(8)));
    u64x4 a = {0};
    u64x4 b = {0};
    u64x4 c = {0};
    u64x4 d = {0};
    for (size_t i = begin; i < end; i += 16) {
        const u64x4 *p = (const u64x4 *)(const void *)(s->data + i);
        a += p[0];
        b += p[1];
        c += p[2];
        d += p[3];
    }
    a += b + c + d;
    s->sums[idx][0] = a[0] + a[1] + a[2] + a[3];
}

static double sweep_gbs(const bench *b, const void *data, size_t bytes) {
    static sweep s;
    s.data = data;
    s.n = bytes / 8;
    double best = 0.0;
    for (int64_t r = 0; r < b->repeats; ++r) {
        int64_t t0 = now_ns();
        tdm_team_run(b->be->team, sweep_member, &s);
        double gbs = (double)bytes / (double)(now_ns() - t0);
        best = gbs > best ? gbs : best;
    }
    return best;
}

static uint8_t *random_bytes(size_t bytes) {
    uint8_t *data = must_alloc(bytes);
    uint64_t state = 1;
    for (size_t i = 0; i < bytes; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(state >> 56);
    }
    return data;
}

/* A weight's tensors in memory of their own. */
typedef struct subject {
    char name[32];
    tdm_weight_source source;
    uint8_t *parts[3];
    size_t bytes[3];
    int64_t k;
} subject;

/* Random bits with scales that stay small; about mb megabytes of rows of about k weights. */
static void make_stored(const bench *b, tdm_dtype dtype, subject *out) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    int64_t k = b->k / info->block_weights * info->block_weights;
    k = k == 0 ? info->block_weights : k;
    int64_t row_bytes = k / info->block_weights * info->block_bytes;
    int64_t n_out = b->mb * 1000000 / row_bytes / 8 * 8;
    *out = (subject){.k = k, .bytes = {(size_t)(n_out * row_bytes)}};
    out->parts[0] = random_bytes(out->bytes[0]);
    for (size_t at = 0; at < out->bytes[0]; at += info->block_bytes) {
        tdm_block_set_scales(dtype, out->parts[0] + at, 0.02f, 0.02f);
    }
    out->source = (tdm_weight_source){.mode = TDM_WEIGHT_PLAIN,
                                      .view = {dtype, 2, {n_out, k}, out->parts[0], out->bytes[0]}};
    (void)snprintf(out->name, sizeof out->name, "%s", info->name);
}

/* The same for weights of several tensors; affine scales are BF16. */
static void make_grouped(const bench *b, tdm_weight_mode mode, int32_t bits, int32_t group,
                         subject *out) {
    bool is_affine = mode == TDM_WEIGHT_AFFINE;
    int64_t k = b->k < group ? group : b->k / group * group;
    int64_t n_groups = k / group;
    int64_t row_bytes = k / 8 * bits + n_groups * (is_affine ? 4 : 1);
    int64_t n_out = b->mb * 1000000 / row_bytes / 8 * 8;
    size_t n_scales = (size_t)(n_out * n_groups);
    *out = (subject){.k = k};
    out->bytes[0] = (size_t)(n_out * k / 8 * bits);
    out->bytes[1] = is_affine ? 2 * n_scales : n_scales;
    out->bytes[2] = is_affine ? 2 * n_scales : 0;
    for (int i = 0; i < (is_affine ? 3 : 2); ++i) {
        out->parts[i] = random_bytes(out->bytes[i]);
    }
    for (size_t i = 0; mode == TDM_WEIGHT_MXFP8 && i < out->bytes[0]; ++i) {
        out->parts[0][i] &= 0xbf; /* no NaN, whose rows are done twice */
    }
    for (size_t i = 0; i < n_scales; ++i) {
        uint16_t small = tdm_bf16_from_f32(0.01f);
        if (is_affine) {
            memcpy(out->parts[1] + 2 * i, &small, 2);
            memcpy(out->parts[2] + 2 * i, &small, 2);
        } else {
            out->parts[1][i] = mode == TDM_WEIGHT_NVFP4 ? 0x20 : 120;
        }
    }
    tdm_dtype scales = is_affine ? TDM_DTYPE_BF16 : TDM_DTYPE_U8;
    out->source = (tdm_weight_source){
        .mode = mode,
        .bits = bits,
        .group = group,
        .view = {TDM_DTYPE_U32, 2, {n_out, k * bits / 32}, out->parts[0], out->bytes[0]},
        .scales = {scales, 2, {n_out, n_groups}, out->parts[1], out->bytes[1]},
    };
    if (is_affine) {
        out->source.biases =
            (tdm_tensor_view){scales, 2, {n_out, n_groups}, out->parts[2], out->bytes[2]};
    }
    (void)snprintf(out->name, sizeof out->name, "%s-%d-g%d", TDM_WEIGHT_MODE_NAMES[mode], (int)bits,
                   (int)group);
}

/* The rate of one row is told twice: by the bytes of the file, and by those that are read. */
static void bench_linear(const bench *b, subject *s) {
    size_t bytes = s->bytes[0] + s->bytes[1] + s->bytes[2];
    tdm_weight w;
    tdm_error err = {0};
    int64_t t0 = now_ns();
    if (tdm_weight_init_source(b->be, &s->source, &w, &err) != TDM_OK) {
        (void)fprintf(stderr, "%s: %s\n", s->name, err.what);
        exit(1);
    }
    double load_gbs = (double)bytes / (double)(now_ns() - t0);
    size_t moved = w.packed != NULL ? w.packed_bytes : bytes;
    const uint8_t *swept = w.packed != NULL ? w.packed : s->parts[0];
    size_t swept_bytes = w.packed != NULL ? w.packed_bytes : s->bytes[0];
    float *x = must_alloc((size_t)(b->n_tokens * s->k) * sizeof *x);
    for (int64_t i = 0; i < b->n_tokens * s->k; ++i) {
        x[i] = (float)(tdm_random_f64(1, 0, (uint32_t)i, 0) - 0.5);
    }
    float *out = must_alloc((size_t)w.n_out * sizeof *out);
    tdm_linear_part part = {.weight = &w, .out = out, .ld_out = w.n_out};
    double best_s = 1e9;
    double read_gbs = 0.0;
    for (int64_t r = 0; r < b->repeats; ++r) {
        t0 = now_ns();
        tdm_op_linear(b->be, x, s->k, 1, &part, 1);
        double seconds = (double)(now_ns() - t0) * 1e-9;
        best_s = seconds < best_s ? seconds : best_s;
        double g = sweep_gbs(b, swept, swept_bytes);
        read_gbs = g > read_gbs ? g : read_gbs;
    }
    double gbs = (double)bytes * 1e-9 / best_s;
    double moved_gbs = (double)moved * 1e-9 / best_s;
    /* A slice of the rows that fits the second-level cache's neighbourhood, as a layer does. */
    tdm_weight slice = w;
    slice.n_out = w.n_out < 1536 ? w.n_out : 1536;
    float *many = must_alloc((size_t)(b->n_tokens * slice.n_out) * sizeof *many);
    tdm_linear_part wide = {.weight = &slice, .out = many, .ld_out = slice.n_out};
    double best_many = 1e9;
    for (int64_t r = 0; r < b->repeats + 1; ++r) {
        t0 = now_ns();
        tdm_op_linear(b->be, x, s->k, b->n_tokens, &wide, 1);
        double seconds = (double)(now_ns() - t0) * 1e-9;
        best_many = seconds < best_many ? seconds : best_many;
    }
    double gops = 2e-9 * (double)slice.n_out * (double)s->k * (double)b->n_tokens / best_many;
    (void)printf("%s,%s,%d,%s,%lld,%.1f,%.1f,%.2f,%.1f,%.2f,%.1f,%lld,%.2f\n", s->name,
                 b->be->ops->name(b->be), (int)b->n_threads, w.packed != NULL ? "packed" : "mapped",
                 (long long)s->k, gbs, read_gbs, gbs / read_gbs, moved_gbs, moved_gbs / read_gbs,
                 gops, (long long)b->n_tokens, load_gbs);
    (void)fflush(stdout);
    tdm_mem_free_aligned(NULL, many, (size_t)(b->n_tokens * slice.n_out) * sizeof *many, 64);
    tdm_mem_free_aligned(NULL, out, (size_t)w.n_out * sizeof *out, 64);
    tdm_mem_free_aligned(NULL, x, (size_t)(b->n_tokens * s->k) * sizeof *x, 64);
    tdm_weight_deinit(b->be, &w);
    for (int i = 0; i < 3; ++i) {
        tdm_mem_free_aligned(NULL, s->parts[i], s->bytes[i], 64);
    }
}

static bool is_wanted(const bench *b, const char *name) {
    return b->type == NULL || strcmp(b->type, name) == 0;
}

static void bench_formats(const bench *b) {
    static const struct {
        tdm_weight_mode mode;
        int32_t bits, group;
    } GROUPED[] = {{TDM_WEIGHT_AFFINE, 2, 64}, {TDM_WEIGHT_AFFINE, 3, 64},
                   {TDM_WEIGHT_AFFINE, 4, 32}, {TDM_WEIGHT_AFFINE, 4, 64},
                   {TDM_WEIGHT_AFFINE, 5, 64}, {TDM_WEIGHT_AFFINE, 6, 64},
                   {TDM_WEIGHT_AFFINE, 8, 64}, {TDM_WEIGHT_MXFP4, 4, 32},
                   {TDM_WEIGHT_MXFP8, 8, 32},  {TDM_WEIGHT_NVFP4, 4, 16}};
    subject s;
    for (int i = 0; i < TDM_DTYPE_COUNT; ++i) {
        if (tdm_dequant_can((tdm_dtype)i) && is_wanted(b, TDM_DTYPES[i].name)) {
            make_stored(b, (tdm_dtype)i, &s);
            bench_linear(b, &s);
        }
    }
    for (size_t i = 0; i < sizeof GROUPED / sizeof GROUPED[0]; ++i) {
        if (is_wanted(b, TDM_WEIGHT_MODE_NAMES[GROUPED[i].mode])) {
            make_grouped(b, GROUPED[i].mode, GROUPED[i].bits, GROUPED[i].group, &s);
            bench_linear(b, &s);
        }
    }
}

/* SmolLM2's heads: 9 queries on 3 keys of 64. */
static void bench_attention(const bench *b, tdm_dtype dtype, int64_t depth, int32_t n) {
    int64_t slots = 64;
    while (slots < depth + n) {
        slots *= 2;
    }
    size_t page_bytes = (size_t)(3 * slots * 64) * (dtype == TDM_DTYPE_F32 ? 4 : 2);
    uint8_t *k = must_alloc(page_bytes);
    uint8_t *v = must_alloc(page_bytes);
    memset(k, 0, page_bytes);
    memset(v, 0, page_bytes);
    uint32_t shift = 0;
    while (((int64_t)1 << shift) < slots) {
        ++shift;
    }
    tdm_kv_pages pages = {.k = &k,
                          .v = &v,
                          .page_shift = shift,
                          .n_pages = 1,
                          .dtype = dtype,
                          .n_kv_heads = 3,
                          .head_dim = 64,
                          .value_dim = 64};
    float *q = must_alloc((size_t)n * 576 * sizeof *q);
    float *out = must_alloc((size_t)n * 576 * sizeof *out);
    for (int64_t i = 0; i < (int64_t)n * 576; ++i) {
        q[i] = (float)(tdm_random_f64(2, 0, (uint32_t)i, 0) - 0.5);
    }
    tdm_attention_span span = {.pages = &pages,
                               .q = q,
                               .out = out,
                               .ld_q = 576,
                               .ld_out = 576,
                               .pos0 = depth,
                               .n = n,
                               .n_heads = 9,
                               .scale = 0.125f};
    double best = 1e9;
    for (int64_t r = 0; r < b->repeats + 1; ++r) {
        int64_t t0 = now_ns();
        tdm_op_attention(b->be, &span, 1);
        double s = (double)(now_ns() - t0) * 1e-9;
        best = s < best ? s : best;
    }
    double keys = (double)n * ((double)depth + 0.5 * (double)n);
    (void)printf("attention %s,%s,%d,depth %lld n %d,,%.1f us,%.1f GFLOP/s\n",
                 TDM_DTYPES[dtype].name, b->be->ops->name(b->be), (int)b->n_threads,
                 (long long)depth, (int)n, best * 1e6, keys * 9 * 256 * 1e-9 / best);
    tdm_mem_free_aligned(NULL, out, (size_t)n * 576 * sizeof *out, 64);
    tdm_mem_free_aligned(NULL, q, (size_t)n * 576 * sizeof *q, 64);
    tdm_mem_free_aligned(NULL, v, page_bytes, 64);
    tdm_mem_free_aligned(NULL, k, page_bytes, 64);
}

/* A decode step's attention over keys and values that no cache holds: thirty layers of SmolLM2's heads,
 * pages of 256 positions as the full cache allocates them. */
static void bench_attention_cold(const bench *b, int64_t depth) {
    enum { LAYERS = 30, PAGE = 256, PAGES_MAX = 32 };
    static uint8_t *k[LAYERS][PAGES_MAX];
    static uint8_t *v[LAYERS][PAGES_MAX];
    const size_t side = (size_t)3 * PAGE * 64 * 2;
    int64_t n_pages = (depth + PAGE) / PAGE;
    float q[576];
    float out[576];
    double best = 1e9;
    for (int i = 0; i < 576; ++i) {
        q[i] = (float)(tdm_random_f64(2, 0, (uint32_t)i, 0) - 0.5);
    }
    for (int64_t page = 0; page < n_pages; ++page) {
        for (int layer = 0; layer < LAYERS; ++layer) {
            k[layer][page] = must_alloc(2 * side);
            v[layer][page] = k[layer][page] + side;
            memset(k[layer][page], 0, 2 * side);
        }
    }
    for (int64_t r = 0; r < b->repeats + 1; ++r) {
        int64_t t0 = now_ns();
        for (int layer = 0; layer < LAYERS; ++layer) {
            const tdm_kv_pages pages = {.k = k[layer],
                                        .v = v[layer],
                                        .page_shift = 8,
                                        .n_pages = (uint32_t)n_pages,
                                        .dtype = TDM_DTYPE_BF16,
                                        .n_kv_heads = 3,
                                        .head_dim = 64,
                                        .value_dim = 64};
            const tdm_attention_span span = {.pages = &pages,
                                             .q = q,
                                             .out = out,
                                             .ld_q = 576,
                                             .ld_out = 576,
                                             .pos0 = depth,
                                             .n = 1,
                                             .n_heads = 9,
                                             .scale = 0.125f};
            tdm_op_attention(b->be, &span, 1);
        }
        double s = (double)(now_ns() - t0) * 1e-9;
        best = s < best ? s : best;
    }
    (void)printf("attention BF16 cold,%s,%d,depth %lld x %d,,%.1f us,%.1f GB/s\n",
                 b->be->ops->name(b->be), (int)b->n_threads, (long long)depth, LAYERS, best * 1e6,
                 (double)LAYERS * (double)depth * 768e-9 / best);
    for (int64_t page = 0; page < n_pages; ++page) {
        for (int layer = 0; layer < LAYERS; ++layer) {
            tdm_mem_free_aligned(NULL, k[layer][page], 2 * side, 64);
        }
    }
}

/* The gated delta rule at the sizes of Qwen3.5: 32 value heads, 128 keys by 128 values. Bytes are
 * those of the states of n_layers, read and written once a call; operations the four of a state's
 * value that the law asks for. */
static void bench_delta(const bench *b, int32_t n, int32_t n_layers) {
    enum { KEYS = 16, VALUES = 32, DIM = 128, WIDTH = 2 * KEYS * DIM + VALUES * DIM + 2 * VALUES };
    const size_t n_state = (size_t)VALUES * DIM * DIM;
    const size_t state_bytes = sizeof(float) * n_state * (size_t)n_layers;
    const size_t x_bytes = sizeof(float) * WIDTH * (size_t)n;
    const size_t out_bytes = sizeof(float) * VALUES * DIM * (size_t)n;
    float heads[2][VALUES];
    float *x = must_alloc(x_bytes);
    float *out = must_alloc(out_bytes);
    float *state = must_alloc(state_bytes);
    double best = 1e9;
    memset(state, 0, state_bytes);
    for (int64_t i = 0; i < (int64_t)WIDTH * n; ++i) {
        x[i] = (float)(tdm_random_f64(4, 0, (uint32_t)i, 0) - 0.5) * 0.1f;
    }
    for (int i = 0; i < VALUES; ++i) {
        heads[0][i] = -1.0f;
        heads[1][i] = 0.5f;
    }
    const tdm_delta delta = {.n_key_heads = KEYS,
                             .n_value_heads = VALUES,
                             .key_dim = DIM,
                             .value_dim = DIM,
                             .decay = heads[0],
                             .dt_bias = heads[1]};
    for (int64_t r = 0; r < b->repeats + 1; ++r) {
        int64_t t0 = now_ns();
        for (int32_t layer = 0; layer < n_layers; ++layer) {
            const tdm_delta_span span = {.from = state + (size_t)layer * n_state,
                                         .to = state + (size_t)layer * n_state,
                                         .x = x,
                                         .out = out,
                                         .ld_x = WIDTH,
                                         .ld_out = VALUES * DIM,
                                         .n = n};
            tdm_op_delta_scan(b->be, &delta, &span, 1);
        }
        double s = (double)(now_ns() - t0) * 1e-9;
        best = s < best ? s : best;
    }
    (void)printf("delta,%s,%d,n %d x %d,,%.1f us a position,%.1f GB/s,%.1f GFLOP/s\n",
                 b->be->ops->name(b->be), (int)b->n_threads, (int)n, (int)n_layers,
                 best * 1e6 / n / n_layers, 2e-9 * (double)state_bytes / best,
                 4e-9 * (double)n_state * n * n_layers / best);
    tdm_mem_free_aligned(NULL, state, state_bytes, 64);
    tdm_mem_free_aligned(NULL, out, out_bytes, 64);
    tdm_mem_free_aligned(NULL, x, x_bytes, 64);
}

/* The causal convolution before it: 8,192 channels, four taps, SiLU, in place. */
static void bench_conv(const bench *b, int32_t n) {
    enum { DIM = 8192, TAPS = 4 };
    const size_t x_bytes = sizeof(float) * DIM * (size_t)n;
    float *taps = must_alloc(sizeof(float) * DIM * TAPS);
    float *tails = must_alloc(sizeof(float) * DIM * (TAPS - 1) * 2);
    float *x = must_alloc(x_bytes);
    double best = 1e9;
    memset(tails, 0, sizeof(float) * DIM * (TAPS - 1) * 2);
    for (int64_t i = 0; i < (int64_t)DIM * TAPS; ++i) {
        taps[i] = (float)(tdm_random_f64(5, 0, (uint32_t)i, 0) - 0.5);
    }
    const tdm_conv conv = {.taps = taps, .n_taps = TAPS, .dim = DIM, .width = DIM, .is_silu = true};
    const tdm_conv_span span = {.tail = tails,
                                .x = x,
                                .out = x,
                                .keep = tails + DIM * (TAPS - 1),
                                .ld_x = DIM,
                                .ld_out = DIM,
                                .n = n,
                                .n_keep = TAPS - 1};
    for (int64_t r = 0; r < b->repeats + 1; ++r) {
        for (int64_t i = 0; i < (int64_t)DIM * n; ++i) {
            x[i] = (float)(i % 97 - 48) * 0.02f;
        }
        int64_t t0 = now_ns();
        tdm_op_conv(b->be, &conv, &span, 1);
        double s = (double)(now_ns() - t0) * 1e-9;
        best = s < best ? s : best;
    }
    (void)printf("conv,%s,%d,n %d,,%.2f us a position,%.1f GB/s\n", b->be->ops->name(b->be),
                 (int)b->n_threads, (int)n, best * 1e6 / n, 2e-9 * (double)x_bytes / best);
    tdm_mem_free_aligned(NULL, x, x_bytes, 64);
    tdm_mem_free_aligned(NULL, tails, sizeof(float) * DIM * (TAPS - 1) * 2, 64);
    tdm_mem_free_aligned(NULL, taps, sizeof(float) * DIM * TAPS, 64);
}

static bool parse(bench *b, int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], "--mapped") == 0) {
            b->is_mapped = true;
            continue;
        }
        if (i + 1 == argc) {
            return false;
        }
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--isa") == 0) {
            b->isa = value;
        } else if (strcmp(argv[i], "--type") == 0) {
            b->type = value;
        } else if (strcmp(argv[i], "--tier") == 0) {
            b->tier = strcmp(value, "exact") == 0 ? TDM_TIER_EXACT : TDM_TIER_FAST;
        } else if (strcmp(argv[i], "--threads") == 0) {
            b->n_threads = (int32_t)strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--mb") == 0) {
            b->mb = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--k") == 0) {
            b->k = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--tokens") == 0) {
            b->n_tokens = strtol(value, NULL, 10);
        } else if (strcmp(argv[i], "--repeats") == 0) {
            b->repeats = strtol(value, NULL, 10);
        } else {
            return false;
        }
        ++i;
    }
    return true;
}

int main(int argc, char **argv) {
    bench b = {
        .tier = TDM_TIER_FAST, .n_threads = 1, .mb = 96, .k = 576, .n_tokens = 256, .repeats = 5};
    tdm_error err = {0};
    if (!parse(&b, argc, argv)) {
        (void)fprintf(stderr, "see the comment on top of bench_kernels.c\n");
        return 2;
    }
    tdm_cpu_options options = {
        .tier = b.tier, .isa = b.isa, .n_threads = b.n_threads, .is_mapped = b.is_mapped};
    if (tdm_cpu_backend_create(&b.be, NULL, &options, &err) != TDM_OK ||
        b.be->ops->reserve(b.be, b.n_tokens, b.k > 256 ? b.k : 256, &err) != TDM_OK) {
        (void)fprintf(stderr, "%s\n", err.what);
        return 1;
    }
    (void)printf(
        "type,backend,threads,layout,k,gbs_one_row,read_gbs,share,moved_gbs,moved_share,gops,"
        "tokens,load_gbs\n");
    bench_formats(&b);
    if (b.type == NULL || strcmp(b.type, "attention") == 0) {
        bench_attention(&b, TDM_DTYPE_F32, 500, 1);
        bench_attention(&b, TDM_DTYPE_BF16, 500, 1);
        bench_attention(&b, TDM_DTYPE_BF16, 4096, 1);
        bench_attention_cold(&b, 4096);
        bench_attention(&b, TDM_DTYPE_F32, 0, 512);
        bench_attention(&b, TDM_DTYPE_BF16, 0, 512);
    }
    if (b.type == NULL || strcmp(b.type, "delta") == 0) {
        bench_delta(&b, 1, 1);
        bench_delta(&b, 1, 48);
        bench_delta(&b, 2, 48);
        bench_delta(&b, 4, 48);
        bench_delta(&b, 256, 1);
        bench_conv(&b, 1);
        bench_conv(&b, 256);
    }
    b.be->ops->destroy(b.be);
    return 0;
}
