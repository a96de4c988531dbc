/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the CPU room: the table of kernels that an instruction set fills, and the backend itself.
 * A kernel sees raw spans and does one thread's share; it takes no decisions, allocates nothing and
 * cannot fail.
 *
 * Numbers, fixed here for every set:
 *  - f32 products (reference and exact tiers, and weights that have no others): the sum of one
 *    output runs over k in one order that depends on n_in alone. Scalar: one chain in f64, rounded
 *    once. Vector: lanes of f32 fused multiply-adds, folded in one order.
 *  - int8 products (fast tier, quantized weights): activations are rounded in blocks of 32 to
 *    q = rne(x * (127 / absmax)), d = absmax / 127, s = d * sum(q). A weight block gives integers
 * w, a scale dw and perhaps a min m (negated where the format subtracts it), both rounded to f32.
 *    Then, over blocks in ascending order,
 *        acc = fma(dw * d, (float)sum(w * q), acc);  acc = fma(m, s, acc) where there is a min.
 *    The integer sum is exact, so every set, layout and tiling gives the same bits.
 *    Where halves have integer scales (Q6_K, Q3_K, Q2_K) the integer sum is scale0 * sum(first 16)
 *    + scale1 * sum(last 16), and dw is the d that both share. Q2_K's mins are integers too:
 *        acc = fma(-dmin * d, (float)(min0 * sum(q first 16) + min1 * sum(q last 16)), acc).
 *    Where halves have f32 scales (NVFP4, IQ1_M, IQ2_XS, IQ2_S) there is one fma for each half, the
 *    first half first.
 *  - BF16 products (fast tier, dense BF16 and E4M3 weights, sets that have them): activations are
 *    rounded to BF16 (to nearest even; below 2^-126 they are zero), weights stay exact, sums are f32
 *    and flush what is below 2^-126. Over groups of columns that share a scale (a dense row is one
 *    group without) in ascending order, acc = fma(scale, sum of the group from zero, acc). A group's
 *    order of summing is the set's own: "two chains" (the scalar twin, AMX) or lanes of vdpbf16ps
 *    (AVX-512 on AMD); it is the same for one token and for many.
 *  - is_added: out = out + (product + bias), each plus rounded, in that order. */
#ifndef TDM_BACKEND_CPU_CPU_PRIV_H
#define TDM_BACKEND_CPU_CPU_PRIV_H

#include "backend/cpu/cpu.h"
#include "base/thread.h"
#include "tensor/weight.h"

#include <stdatomic.h>

/* Rows of a weight that kernels take at once; threads split at multiples of it. */
#define TDM_CPU_PANEL_ROWS 16
/* And of that as f32 in scratch. */
#define TDM_CPU_F32_ROWS 8
/* Positions (or entries of a list) that lie together in a page, and of one step of attention: every
 * query reduces chunk by chunk, each by itself, and merges what they gave in ascending order. */
#define TDM_CPU_ATTENTION_BLOCK 64
#define TDM_CPU_ATTENTION_CHUNK 256
/* Queries (tokens times heads) of one attention item. */
#define TDM_CPU_ATTENTION_QUERIES 48

/* The constants of both gelus, rounded to f32. */
#define TDM_CPU_SQRT_2_PI 0x1.988454p-1f
#define TDM_CPU_GELU_CUBE 0.044715f
#define TDM_CPU_SQRT_HALF 0x1.6a09e6p-1f

/* What the int8 products need of one block of 32 activations besides its integers. */
typedef struct tdm_cpu_x8_block {
    float d;
    float s;              /* d * (sum of the 32 integers) */
    int32_t sum;          /* of the 32 integers */
    int16_t half_sums[2]; /* of the first and the last 16 */
    int32_t eights[4];    /* of each eight */
} tdm_cpu_x8_block;

/* Wide products: tokens of a group, groups and panels of one call at most, and blocks of columns
 * that they finish before the next ones, so that what they read stays in the second-level cache. */
#define TDM_CPU_GROUP_TOKENS 16
#define TDM_CPU_WIDE_GROUPS 16
#define TDM_CPU_WIDE_PANELS 8
#define TDM_CPU_WIDE_BLOCKS 32
#define TDM_CPU_WIDE_BLOCK_BYTES 1280
/* Opened weights of a panel and the sums of every output of a call. */
#define TDM_CPU_WIDE_SCRATCH                                                                       \
    ((size_t)TDM_CPU_WIDE_BLOCKS * TDM_CPU_WIDE_BLOCK_BYTES +                                      \
     (size_t)TDM_CPU_WIDE_GROUPS * TDM_CPU_GROUP_TOKENS * TDM_CPU_WIDE_PANELS *                    \
         TDM_CPU_PANEL_ROWS * 4)

/* f32 products: tokens whose accumulators wait at once, columns of a piece of weights at most, and the
 * bytes of both. */
#define TDM_CPU_DENSE_TOKENS 192
#define TDM_CPU_DENSE_COLUMNS 1024
#define TDM_CPU_DENSE_SCRATCH                                                                      \
    ((size_t)(TDM_CPU_DENSE_COLUMNS + TDM_CPU_DENSE_TOKENS * 8) * TDM_CPU_F32_ROWS * sizeof(float))

/* One block of 32 activations of a group of tokens, side by side: what wide products read. The same
 * numbers as in blocks. */
typedef struct tdm_cpu_x8_group {
    _Alignas(64) int8_t q[TDM_CPU_GROUP_TOKENS][32];
    float d[TDM_CPU_GROUP_TOKENS];
    float s[TDM_CPU_GROUP_TOKENS];
    int32_t first[TDM_CPU_GROUP_TOKENS]; /* sums of the first 16 */
    int32_t last[TDM_CPU_GROUP_TOKENS];  /* and of the last */
} tdm_cpu_x8_group;

/* One block of 32 activations of eight tokens, in the order in which products broadcast them: a
 * product of eight tokens reads five or six lines of memory, one after another. */
#define TDM_CPU_EIGHT_TOKENS 8
/* Tokens for which AVX2 opens a panel once. */
#define TDM_CPU_BATCH_TOKENS 256
typedef struct tdm_cpu_x8_eight {
    _Alignas(64) int8_t q[8][TDM_CPU_EIGHT_TOKENS][4]; /* [four columns][token][column] */
    float d[TDM_CPU_EIGHT_TOKENS];
    int32_t sum[TDM_CPU_EIGHT_TOKENS];
    float s[TDM_CPU_EIGHT_TOKENS];
    int16_t half_sums[TDM_CPU_EIGHT_TOKENS][2]; /* of the first and the last 16 */
} tdm_cpu_x8_eight;

/* Rounded activations, n rows, at their own places in q and blocks. What the set's products of several
 * tokens read is made of them in the same call: whole groups of tokens in groups where products are
 * wide, the others in eights. */
typedef struct tdm_cpu_x8 {
    int8_t *q; /* [n, ld_q] */
    int64_t ld_q;
    tdm_cpu_x8_block *blocks; /* [n, ld_blocks] */
    int64_t ld_blocks;
    tdm_cpu_x8_group *groups; /* [n / 16, ld_blocks]; NULL where no set reads them */
    tdm_cpu_x8_eight *eights; /* of eights_max tokens; NULL where no set reads them */
} tdm_cpu_x8;

/* Activations rounded to BF16, n rows of ld values, zeros behind the last column. Where the set has
 * wide BF16 products, each whole group of sixteen tokens has its place in tiles instead: for each 32
 * columns sixteen pairs of columns, of each the sixteen tokens. */
typedef struct tdm_cpu_x16 {
    uint16_t *q; /* [n, ld] */
    int64_t ld;
} tdm_cpu_x16;

/* A stride of rows that are not all in one set of the first-level cache. */
static inline int64_t tdm_cpu_x16_ld(int64_t n_in) {
    return (n_in + 63) / 64 * 64 + 32;
}

typedef struct tdm_cpu_linear_job {
    const tdm_weight *weight;
    const float *x; /* [n, n_in] */
    int64_t ld_x;
    const tdm_cpu_x8 *x8;   /* int8 products only */
    const tdm_cpu_x16 *x16; /* BF16 products only */
    /* Tokens from eights_tok on by eights, [.., n_in / 32]; NULL: a kernel that wants them makes them. */
    const tdm_cpu_x8_eight *eights;
    int64_t eights_tok;
    int64_t ahead_bytes; /* of the kernels' table */
    const float *bias;
    float *out;
    int64_t ld_out;
    bool is_added;
} tdm_cpu_linear_job;

/* Queries of one item: tokens [tok0, tok1) times heads [head0, head1), all of one kv head. */
typedef struct tdm_cpu_attention_item {
    const tdm_attention_span *span;
    int32_t head0;
    int32_t head1;
    int32_t tok0;
    int32_t tok1;
    /* NULL: every chunk, and the result into the span's out. Else what chunks [chunk0, chunk1) give,
     * each tdm_cpu_partial_floats of them, for attention_merge. */
    float *partials;
    int64_t chunk0;
    int64_t chunk1;
} tdm_cpu_attention_item;

/* Of one chunk: for each query its mix of values, then its largest score and its sum of weights. */
static inline int64_t tdm_cpu_partial_floats(int64_t n_queries, int64_t value_dim) {
    return n_queries * ((value_dim + 15) / 16 * 16 + 16);
}

typedef struct tdm_cpu_kernels {
    /* Output rows [row0, row1) for tokens [tok0, tok1). row0 is a multiple of the panel. scratch:
     * tdm_cpu_scratch_bytes of n_in. */
    void (*linear_f32)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                       int64_t tok1, void *scratch);
    int32_t f32_tokens; /* that linear_f32 wants at once; 0: as many as a cache holds */
    bool has_e4m3;      /* linear_f32 reads E4M3 rows as fast as memory gives them */
    void (*linear_i8)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                      int64_t tok1, void *scratch);
    /* The same for groups of tokens [group0, group1) of a packed weight, within the bounds above;
     * scratch: TDM_CPU_WIDE_SCRATCH. NULL: the set has none. The bits are linear_i8's. */
    void (*linear_i8_wide)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                           int64_t group0, int64_t group1, void *scratch);
    int32_t i8_tokens;   /* that linear_i8 wants at once; 0: as many as a cache holds */
    int64_t wide_tokens; /* from so many on opening panels for it pays */
    /* How far ahead one token's int8 products ask for panels, into the second-level cache; 0: they leave
     * it to the processor. */
    int64_t ahead_bytes;
    bool has_eights; /* linear_i8 reads eights of packed weights */
    /* Whether this weight's products are BF16 products in the fast tier. NULL: the set has none. */
    bool (*is_bf16)(const tdm_weight *weight);
    void (*linear_bf16)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch);
    /* The same for groups of tokens [group0, group1). NULL: the set has none. */
    void (*linear_bf16_wide)(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                             int64_t group0, int64_t group1, void *scratch);
    /* One row of n values into out, which has ld; and a group of sixteen rows into tiles, where there
     * are wide products. */
    void (*round_bf16)(const float *x, int64_t n, uint16_t *out, int64_t ld);
    void (*round_bf16_group)(const float *x, int64_t ld_x, int64_t n, uint16_t *out);
    /* One row of n values, n a multiple of 32. */
    void (*quantize)(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks);
    /* Both NULL: the set has no layout of its own. Sets weight->layout and period for int8
     * products, and packed_bytes (0 where the file's layout is read). */
    void (*layout)(tdm_weight *weight, bool is_mapped);
    /* Panels [panel0, panel1) of weight->data into weight->packed. */
    void (*pack)(const tdm_weight *weight, int64_t panel0, int64_t panel1);
    /* What pack writes; NULL where layout is. */
    const tdm_panel_layout *panels;
    void (*rms_norm)(float *out, const float *x, const float *w, int64_t dim, float eps);
    void (*rope)(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                 tdm_rope_pairing pairing);
    void (*attention)(const tdm_cpu_attention_item *item, void *scratch);
    /* Merges the partials of chunks [chunk0, chunk1) into the span's out: the bits of a whole item.
     * NULL: the set knows whole items only. */
    void (*attention_merge)(const tdm_cpu_attention_item *item, void *scratch);
    /* Positions [begin, end) of the span, counted from its pos0. */
    void (*index_scores)(const tdm_index_span *span, int64_t begin, int64_t end);
    void (*kv_store)(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype);
    void (*layer_norm)(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                       float eps);
    /* up NULL: the activation alone. out may be gate. */
    void (*glu)(const tdm_activation *act, float *out, const float *gate, const float *up,
                int64_t dim);
    void (*softcap)(float *x, float cap, int64_t dim);
    void (*add)(float *x, const float *y, int64_t dim);
    int32_t (*argmax)(const float *x, int64_t dim);
    /* By kind: n rounds of arithmetic in registers; returns its operations. NULL: none. */
    double (*peaks[TDM_PEAK_COUNT])(int64_t n_rounds);
    /* x *= scale, a dequantized embedding row. */
    void (*scale)(float *x, float scale, int64_t dim);
    /* out[c] = bias[c] + sum of taps[j * ld_taps + c] * in[j][c], j ascending; out may be the last
     * of in. */
    void (*conv_row)(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                     const float *bias, int32_t n_taps, int64_t dim);
    /* One value head over the span. */
    void (*delta_head)(const tdm_delta *delta, const tdm_delta_span *span, int32_t head);
} tdm_cpu_kernels;

/* Each overwrites what it does better; called from low to high. */
void tdm_cpu_kernels_scalar(tdm_cpu_kernels *kernels);
#if defined(__x86_64__)
void tdm_cpu_kernels_avx2(tdm_cpu_kernels *kernels);
void tdm_cpu_kernels_avxvnni(tdm_cpu_kernels *kernels);
void tdm_cpu_kernels_avx512(tdm_cpu_kernels *kernels);
void tdm_cpu_kernels_amx(tdm_cpu_kernels *kernels);
#elif defined(__aarch64__)
void tdm_cpu_kernels_neon(tdm_cpu_kernels *kernels);
void tdm_cpu_kernels_neon_dot(tdm_cpu_kernels *kernels);
#endif

/* Where a value head finds its own in a row of the delta rule, and how one position's gates open:
 * the same libm for every set, so that states of two sets differ by their sums alone. */
typedef struct tdm_cpu_delta_head {
    int64_t q_at, k_at, v_at, a_at, b_at, out_at, state_at;
} tdm_cpu_delta_head;
tdm_cpu_delta_head tdm_cpu_delta_locate(const tdm_delta *delta, int32_t head);
void tdm_cpu_delta_gates(const tdm_delta *delta, int32_t head, float a, float b, float *out_keep,
                         float *out_write);

/* Token t of a group: row and its blocks become its places in group [n_blocks]. */
void tdm_cpu_group_put(tdm_cpu_x8_group *group, int32_t t, const int8_t *row,
                       const tdm_cpu_x8_block *blocks, int64_t n_blocks);

/* n tokens (at most eight; the others become zeros) whose rows and blocks lie ld_q and ld_blocks apart
 * become eight [n_blocks]. */
void tdm_cpu_eight_put(tdm_cpu_x8_eight *eight, int64_t n, const int8_t *rows, int64_t ld_q,
                       const tdm_cpu_x8_block *blocks, int64_t ld_blocks, int64_t n_blocks);

/* The law of BF16 products (two chains), and rounding for them. */
void tdm_scalar_linear_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch);
void tdm_scalar_round_bf16(const float *x, int64_t n, uint16_t *out, int64_t ld);
void tdm_scalar_round_bf16_group(const float *x, int64_t ld_x, int64_t n, uint16_t *out);

/* Bytes of one thread's scratch for products of n_in and for attention. */
size_t tdm_cpu_scratch_bytes(int64_t n_in);

/* Runs every kernel of the set on small inputs against the scalar ones; a crash on an instruction
 * counts as a failure. *out_failed is NULL, or what failed (static text). Errors: TDM_E_NOMEM,
 * TDM_E_IO (the signal handler could not be installed). */
tdm_status tdm_cpu_prove(const tdm_cpu_kernels *kernels, const tdm_alloc *alloc,
                         const char **out_failed, tdm_error *err);

/* Like create, with a hook that may damage the kernels of a set before they are proved: for tests.
 */
typedef void (*tdm_cpu_tamper_fn)(void *arg, tdm_cpu_isa isa, tdm_cpu_kernels *kernels);
tdm_status tdm_cpu_backend_create_tampered(tdm_backend **out_backend, const tdm_alloc *alloc,
                                           const tdm_cpu_options *options, tdm_cpu_tamper_fn tamper,
                                           void *tamper_arg, tdm_error *err);

/* What attention split over keys keeps between its chunks and their merge. */
typedef struct tdm_cpu_split {
    float *partials; /* NULL: one thread, which splits nothing */
    int64_t n_floats;
    atomic_int *left; /* [n_tiles]: chunks of a tile that are still to come */
    int64_t n_tiles;
} tdm_cpu_split;

typedef struct tdm_cpu {
    tdm_backend base;
    const tdm_alloc *alloc;
    const tdm_log *log;
    tdm_cpu_kernels kernels;
    tdm_cpu_isa isa;
    bool is_mapped;
    int32_t n_threads;
    int32_t n_nodes; /* of memory that the threads are spread over */
    int64_t n_max;
    int64_t width_max;
    uint8_t *scratch; /* [n_threads][scratch_bytes] */
    size_t scratch_bytes;
    tdm_cpu_x8 x8;
    size_t x8_q_bytes;
    size_t x8_blocks_bytes;
    tdm_cpu_x16 x16; /* NULL where tier or set have no BF16 products */
    size_t x16_bytes;
    bool has_columns; /* a weight reads its activations in another order */
    float *gathered;  /* [n_max, width_max] of them; NULL without such a weight */
    size_t gathered_bytes;
    size_t x8_groups_bytes;
    size_t x8_eights_bytes;
    int64_t eights_max; /* tokens that x8.eights holds */
    tdm_cpu_split split;
    char name[24];
} tdm_cpu;

static inline tdm_cpu *tdm_cpu_of(tdm_backend *be) {
    return (tdm_cpu *)be;
}

static inline void *tdm_cpu_thread_scratch(const tdm_cpu *cpu, int32_t idx) {
    return cpu->scratch + (size_t)idx * cpu->scratch_bytes;
}

/* Member idx's share of n things, contiguous, sizes differing by one at most. */
static inline void tdm_cpu_share(int64_t n, int32_t idx, int32_t n_members, int64_t *out_begin,
                                 int64_t *out_end) {
    *out_begin = n * idx / n_members;
    *out_end = n * (idx + 1) / n_members;
}

/* An indexer's key of a position. */
static inline float *tdm_cpu_index_row(const tdm_kv_pages *pages, int64_t position) {
    size_t slot = (size_t)position & (((size_t)1 << pages->page_shift) - 1);
    size_t page = (size_t)((uint64_t)position >> pages->page_shift) % pages->n_pages;
    return (float *)(void *)pages->index[page] + slot * (size_t)pages->index_dim;
}

/* How keys and values lie inside a block of 64 positions of one head (64 * dim values either way),
 * so that kernels find what they multiply side by side and no score needs a horizontal sum:
 *   F32 keys    [head_dim][64]             F32 values   [64][value_dim]
 *   BF16 keys   [head_dim / 2][64][2]      BF16 values  [32][value_dim][2]
 * A lane is four bytes: an F32, or two BF16 that one instruction multiplies (two dimensions of a key;
 * two positions of a value). The other position of a value's lane may be stale: it is masked, not
 * multiplied by zero. Latent rows stay rows, [64][head_dim]: they are keys and values at once. */
static inline int64_t tdm_cpu_key_at(tdm_dtype dtype, int64_t slot, int64_t d) {
    const int64_t block = TDM_CPU_ATTENTION_BLOCK;
    return dtype == TDM_DTYPE_F32 ? d * block + slot : (d / 2 * block + slot) * 2 + d % 2;
}

static inline int64_t tdm_cpu_value_at(tdm_dtype dtype, int64_t dim, int64_t slot, int64_t d) {
    return dtype == TDM_DTYPE_F32 ? slot * dim + d : (slot / 2 * dim + d) * 2 + slot % 2;
}

/* Where a position's block of one head lies. side: keys or values of pages; dim: values a position
 * has there. */
static inline uint8_t *tdm_cpu_kv_block(const tdm_kv_pages *pages, uint8_t *const *side,
                                        int64_t head, int64_t position, int64_t dim) {
    size_t slots = (size_t)1 << pages->page_shift;
    size_t page = (size_t)((uint64_t)position >> pages->page_shift) % pages->n_pages;
    size_t first = (size_t)position & (slots - 1) & ~(size_t)(TDM_CPU_ATTENTION_BLOCK - 1);
    return side[page] +
           ((size_t)head * slots + first) * (size_t)dim * (pages->dtype == TDM_DTYPE_F32 ? 4 : 2);
}

/* A latent row. */
static inline uint8_t *tdm_cpu_latent_row(const tdm_kv_pages *pages, int64_t position) {
    size_t slot = (size_t)position & (TDM_CPU_ATTENTION_BLOCK - 1);
    return tdm_cpu_kv_block(pages, pages->k, 0, position, pages->head_dim) +
           slot * (size_t)pages->head_dim * (pages->dtype == TDM_DTYPE_F32 ? 4 : 2);
}

/* One position's key or value as f32, from whatever lies there. */
void tdm_cpu_key_read(const tdm_kv_pages *pages, int64_t head, int64_t position, float *out);
void tdm_cpu_value_read(const tdm_kv_pages *pages, int64_t head, int64_t position, float *out);

static inline int64_t tdm_cpu_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t tdm_cpu_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Whether this weight's products are int8 products in this backend. */
bool tdm_cpu_is_int8(const tdm_cpu *cpu, const tdm_weight *weight);

/* Tokens of one call of a kernel for few or many tokens. */
int64_t tdm_cpu_token_step(const tdm_cpu *cpu, int64_t n_in, bool is_narrow);

/* Whether this weight's products are BF16 products in this backend. */
bool tdm_cpu_is_bf16(const tdm_cpu *cpu, const tdm_weight *weight);

/* Table entries that need more than a row loop. */
tdm_status tdm_cpu_reserve(tdm_backend *be, int64_t n_max, int64_t width_max, tdm_error *err);
size_t tdm_cpu_weight_plan(const tdm_backend *be, const tdm_weight *weight);
tdm_status tdm_cpu_weight_init(tdm_backend *be, tdm_weight *weight, tdm_error *err);
void tdm_cpu_weight_deinit(tdm_backend *be, tdm_weight *weight);
const tdm_panel_layout *tdm_cpu_panel_layout(const tdm_backend *be);
void tdm_cpu_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                    const tdm_linear_part *parts, int32_t n_parts);
void tdm_cpu_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                           const tdm_linear_group *groups, int32_t n_groups);
void tdm_cpu_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans);
void tdm_cpu_index_scores(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans);
void tdm_cpu_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans);
void tdm_cpu_embed(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                   const int32_t *ids, int64_t n, float scale);
void tdm_cpu_rms_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                      const float *w, int64_t n, int64_t dim, float eps);
void tdm_cpu_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                        const float *inv_freq, int32_t n_freq, float magnitude);
void tdm_cpu_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                  int32_t head_dim, const float *table, int32_t n_freq, tdm_rope_pairing pairing);
void tdm_cpu_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                        const float *w, const float *bias, int64_t n, int64_t dim, float eps);
void tdm_cpu_glu_mul(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                     const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                     int64_t dim);
void tdm_cpu_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x, int64_t n,
                      int64_t dim);
void tdm_cpu_l2_norm(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                     int32_t dim, float eps, float scale);
void tdm_cpu_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     int64_t n, const tdm_groups *groups);
void tdm_cpu_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                  int32_t n_spans);
void tdm_cpu_delta_scan(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                        int32_t n_spans);
void tdm_cpu_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim, float cap);
void tdm_cpu_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y, int64_t n,
                 int64_t dim);
double tdm_cpu_peak(tdm_backend *be, tdm_peak kind, int64_t n_rounds);
void tdm_cpu_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                    int64_t dim);

#endif
