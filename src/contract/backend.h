/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend table: what an accelerator must be able to do for a forward pass. Floor 1.
 *
 * Callers go through tensor/ops.h, which checks shapes once for every backend; the functions here
 * trust their arguments and cannot fail. All activations are f32 and row-major; "ld" is the
 * distance between rows in elements.
 *
 * Laws, for every entry of every backend in one tier:
 *  L1 Row independence: the bits written for one row (token) depend on that row's inputs alone,
 *     never on how many rows share the call, on their order, or on the number of threads.
 *     Reductions run in one fixed order per output.
 *  L2 The scalar implementation is the law: a faster one agrees with it within the tolerance of
 *     tests/tolerance.h, and bit for bit where the result is integer or a pure copy.
 *  L3 Nothing is allocated: scratch was sized by reserve.
 *  L4 Inputs are not written; outputs may not overlap inputs unless the entry says "in place".
 *  L5 A non-finite input gives a non-finite or defined output, never a trap. */
#ifndef TDM_CONTRACT_BACKEND_H
#define TDM_CONTRACT_BACKEND_H

#include "base/status.h"
#include "contract/panels.h"
#include "contract/tensor.h"

typedef enum tdm_tier { TDM_TIER_REFERENCE, TDM_TIER_EXACT, TDM_TIER_FAST } tdm_tier;

typedef struct tdm_backend tdm_backend;
typedef struct tdm_team tdm_team;

/* How the numbers of a weight are spread over tensors. Source: shared/spec/quantized-formats.md. */
typedef enum tdm_weight_mode {
    TDM_WEIGHT_PLAIN,  /* one tensor, whose type says all */
    TDM_WEIGHT_AFFINE, /* codes of 1 to 8 bits, scale * code + bias by group */
    TDM_WEIGHT_MXFP4,  /* E2M1 codes, an E8M0 scale for each 32 */
    TDM_WEIGHT_MXFP8,  /* E4M3 codes, an E8M0 scale for each 32 */
    TDM_WEIGHT_NVFP4,  /* E2M1 codes, an E4M3 scale for each 16, perhaps a scale of the tensor */
    TDM_WEIGHT_FP8,    /* E4M3 codes, a scale for each block of rows by columns */
    TDM_WEIGHT_MODE_COUNT
} tdm_weight_mode;

/* The tensors that make one weight. All views are of rank 2 and borrowed for the life of the
 * weight. Codes lie in view, U32 [n_out, n_in * bits / 32], a little-endian stream of bits by row;
 * scales (and, for affine, biases) are [n_out, n_in / group]. fp8 differs: view is F8_E4M3
 * [n_out, n_in] and scales are [n_out / group_rows, n_in / group], both rounded up. */
typedef struct tdm_weight_source {
    tdm_weight_mode mode;
    int32_t bits;           /* of a code; plain: 0 */
    int32_t group;          /* codes of a row that share a scale; plain: 0 */
    int32_t group_rows;     /* fp8: rows that share a scale; else 0 */
    tdm_tensor_view view;   /* plain: [n_out, n_in] */
    tdm_tensor_view scales; /* affine, fp8: F16, BF16 or F32; else U8 */
    tdm_tensor_view biases; /* affine only, of the scales' type */
    bool has_global_scale;
    float global_scale; /* nvfp4: largest magnitude of the tensor */
    bool is_exact;      /* activations are never rounded, whatever the tier: a router's choices */
    int64_t row_step;   /* above 1: of every view only rows row_first, row_first + row_step, ... */
    int64_t row_first;  /* below row_step */
    bool is_transient;  /* the views live only until weight_init returns: the backend keeps what it
                           needs. Rows of such a weight cannot be embedded */
    const int32_t
        *columns; /* [n_in] or NULL: weight column j multiplies x[columns[j]]; lives as long
                               as the weight. Such a weight cannot be embedded either */
} tdm_weight_source;

/* A linear's weight or an embedding table: n_out rows of n_in. tensor/weight.h fills everything
 * above packed from a source; weight_init adds the backend's own. Data may be borrowed from the
 * checkpoint (mapped) or owned (packed). */
typedef struct tdm_weight {
    tdm_weight_mode mode;
    tdm_dtype dtype; /* of data as the file has it */
    int32_t bits;
    int32_t group;
    int32_t group_rows;
    int64_t n_out;
    int64_t n_in;
    const uint8_t *data; /* n_out rows of row_bytes, the file's own layout */
    size_t row_bytes;
    const uint8_t *scales; /* NULL for plain */
    const uint8_t *biases; /* NULL but for affine */
    tdm_dtype scales_dtype;
    size_t scales_row_bytes; /* of biases too */
    float multiplier;        /* nvfp4: of every scale; else 1 */
    bool is_exact;
    bool is_transient; /* data, scales and biases were lent until the end of weight_init */
    const int32_t *columns;
    void *packed; /* backend's own layout, or NULL when it reads data */
    size_t packed_bytes;
    bool is_packed_lent; /* packed is a store's, not the backend's own memory */
    int32_t layout;      /* the backend's name for how it reads this weight */
    int32_t period;      /* blocks of 32 that share a scale in that layout */
} tdm_weight;

/* One product out = x * w^T + bias that shares its x with others of the same call. */
typedef struct tdm_linear_part {
    const tdm_weight *weight;
    const float *bias; /* [n_out] or NULL */
    float *out;        /* [n, n_out], row distance ld_out */
    int64_t ld_out;
    bool is_added; /* out += instead of out = (the residual); one rounding after the full sum */
} tdm_linear_part;

#define TDM_LINEAR_PARTS_MAX 4

/* Rows [row0, row0 + n) of an x that many weights share out among them, as experts do, and what they
 * are multiplied by. Rows keep their numbers: row r of a part's out is at out + r * ld_out. */
typedef struct tdm_linear_group {
    int64_t row0;
    int64_t n; /* at least 1 */
    int32_t n_parts;
    tdm_linear_part parts[2];
} tdm_linear_group;

/* The gate of a gated MLP or the activation of a plain one.
 *   SILU:      x / (1 + exp(-x))
 *   GELU_TANH: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), every step in f32
 *   GELU_ERF:  0.5 x erfc(-x / sqrt(2))
 *   SIGMOID:   1 / (1 + exp(-x))
 *   IDENTITY:  x, so that a gate is a plain product
 *   CLAMPED:   y / (1 + exp(-alpha y)) with y = min(x, limit); what it multiplies is not up but
 *              min(max(up, -limit), limit) + 1. NaN stays NaN. Source: transformers 5.17, gpt_oss. */
typedef enum tdm_glu {
    TDM_GLU_SILU,
    TDM_GLU_GELU_TANH,
    TDM_GLU_GELU_ERF,
    TDM_GLU_SIGMOID,
    TDM_GLU_IDENTITY,
    TDM_GLU_CLAMPED,
    TDM_GLU_COUNT
} tdm_glu;

/* A kind with its constants. */
typedef struct tdm_activation {
    tdm_glu kind;
    float alpha; /* CLAMPED only: above 0 */
    float limit; /* CLAMPED only: above 0 */
} tdm_activation;

typedef enum tdm_rope_pairing { TDM_ROPE_HALVES, TDM_ROPE_NEIGHBOURS } tdm_rope_pairing;

/* Where the keys and values of one sequence and one layer lie. Positions are absolute; position p
 * lies in page (p >> page_shift) % n_pages. A page holds, for each kv head, its 1 << page_shift
 * positions in blocks of 64: 64 * head_dim values of dtype (F32 or BF16; BF16 keys have an even
 * head_dim), keys and values apart. How values lie inside of a block is the backend's own business:
 * whoever moves pages moves whole blocks. page_shift >= 6, so that no block of 64 absolute positions
 * crosses a page: attention reduces by absolute positions and so does not depend on the pages' size,
 * on chunking or on threads.
 *
 * Latent pages (MLA) hold one row a position that serves as both: a value is the first value_dim
 * values of its key. v is k then, n_kv_heads is 1, and a page may hold the keys of an indexer
 * beside: [1 << page_shift][index_dim] values, F32 whatever dtype is: a choice of positions is
 * discrete, and rounded keys would make others. */
typedef struct tdm_kv_pages {
    uint8_t *const *k;     /* [n_pages] */
    uint8_t *const *v;     /* [n_pages] */
    uint8_t *const *index; /* [n_pages]; NULL: no indexer */
    uint32_t page_shift;
    uint32_t n_pages;
    tdm_dtype dtype;
    int32_t n_kv_heads;
    int32_t head_dim;  /* of keys */
    int32_t value_dim; /* of values */
    int32_t index_dim; /* of an indexer's keys; 0: none */
    bool is_latent;
} tdm_kv_pages;

/* Attention of n consecutive tokens of one sequence over that sequence's own pages. Query i stands
 * at position pos0 + i and sees key positions max(0, pos0 + i - window + 1) .. pos0 + i (window 0:
 * all from 0). With lists (window 0) it sees the positions of its own list alone, and reduces its
 * entries in their order: its bits depend on the list and on what lies there. */
typedef struct tdm_attention_span {
    const tdm_kv_pages *pages;
    const float *q; /* [n, n_heads, head_dim], row distance ld_q */
    float *out;     /* [n, n_heads, value_dim], row distance ld_out */
    int64_t ld_q;
    int64_t ld_out;
    int64_t pos0;
    int32_t n;
    int32_t n_heads;
    int32_t window;
    float scale;   /* multiplies q.k */
    float softcap; /* 0: none; else scores become c * tanh(s / c) before the mask */
    /* [n_heads] or NULL: one more score for each head, as it stands (neither scaled nor capped),
     * whose value is zero: it joins the softmax's denominator and nothing else. -inf: as if none. */
    const float *sinks;
    /* Row i of chosen [n, ld_chosen] begins with n_chosen[i] >= 1 positions in ascending order, each
     * at most pos0 + i. NULL: no lists. */
    const int32_t *chosen;
    const int32_t *n_chosen; /* [n] */
    int64_t ld_chosen;
} tdm_attention_span;

/* Stores keys and values of n consecutive tokens at pos0 into pages; rounding to BF16 is to nearest
 * even. */
typedef struct tdm_kv_write_span {
    const tdm_kv_pages *pages;
    const float *k;     /* [n, n_kv_heads, head_dim], row distance ld_k */
    const float *v;     /* [n, n_kv_heads, value_dim], row distance ld_v; latent pages: not read */
    const float *index; /* [n, index_dim], row distance ld_index; read where pages have an index */
    int64_t ld_k;
    int64_t ld_v;
    int64_t ld_index;
    int64_t pos0;
    int32_t n;
} tdm_kv_write_span;

/* How much one query of an indexer wants each of n positions from pos0 on:
 *   out[i] = sum over heads h, ascending, of weights[h] * max(0, q[h] . index key of pos0 + i)
 * A product that is NaN counts as 0. The bits of out[i] do not depend on pos0 or n. */
typedef struct tdm_index_span {
    const tdm_kv_pages *pages;
    const float *q;       /* [n_heads, index_dim] */
    const float *weights; /* [n_heads] */
    float *out;           /* [n] */
    int64_t pos0;
    int32_t n;
    int32_t n_heads;
} tdm_index_span;

/* Groups of dim values in a row, step apart from each other on either side of a copy. */
typedef struct tdm_groups {
    int64_t n;
    int64_t dim;
    int64_t step_out;
    int64_t step_x;
} tdm_groups;

#define TDM_CONV_TAPS_MAX 64

/* A causal convolution of each channel by itself. A row has width values: dim channels and what
 * travels with them unconvolved. */
typedef struct tdm_conv {
    const float *taps; /* [n_taps, dim], the newest position last */
    const float *bias; /* [dim] or NULL */
    int64_t dim;
    int64_t width;
    int32_t n_taps; /* <= TDM_CONV_TAPS_MAX */
    bool is_silu;   /* the sum passes x / (1 + exp(-x)) */
} tdm_conv;

/* n consecutive positions of one sequence. With in = tail, then x: out[t][c] = bias[c] + sum of
 * taps[j][c] * in[t + j][c] over j ascending; the values after dim are copied. The last n_keep rows
 * of in are copied to keep, before out is written. */
typedef struct tdm_conv_span {
    const float *tail; /* [n_taps - 1, width], oldest first */
    const float *x;    /* [n, width], row distance ld_x */
    float *out;        /* [n, width], row distance ld_out; may be x, else apart from all */
    float *keep;       /* [n_keep, width], apart from all; NULL where n_keep is 0 */
    int64_t ld_x;
    int64_t ld_out;
    int32_t n;
    int32_t n_keep; /* <= n_taps - 1 + n */
} tdm_conv_span;

/* The gated delta rule. Value head h reads key head h / (n_value_heads / n_key_heads), or
 * h % n_key_heads where they are tiled. */
typedef struct tdm_delta {
    int32_t n_key_heads;
    int32_t n_value_heads;
    int32_t key_dim;
    int32_t value_dim;
    bool is_tiled;
    const float *decay;   /* [n_value_heads]: multiplies softplus(a + dt_bias); negative */
    const float *dt_bias; /* [n_value_heads] */
} tdm_delta;

/* n consecutive positions of one sequence. A row of x is q [n_key_heads, key_dim], k the same,
 * v [n_value_heads, value_dim], a [n_value_heads], b [n_value_heads]. A state is
 * [n_value_heads, key_dim, value_dim]. Position by position, for each value head,
 *     S = exp(decay * softplus(a + dt_bias)) * S
 *     S = S + k (x) (sigmoid(b) * (v - k S))
 *     out = q S. */
typedef struct tdm_delta_span {
    const float *from; /* the state before x */
    float *to;         /* the state after x; may be from, else apart from all */
    const float *x;    /* row distance ld_x */
    float *out;        /* [n, n_value_heads, value_dim], row distance ld_out; NULL: not wanted */
    int64_t ld_x;
    int64_t ld_out;
    int32_t n; /* >= 1 */
} tdm_delta_span;

/* Arithmetic that products are made of, for the probe: as fast as it can be, from registers. */
typedef enum tdm_peak {
    TDM_PEAK_F32,  /* multiply and add of f32 */
    TDM_PEAK_INT8, /* products of bytes, added up as far as the set's kernels add them */
    TDM_PEAK_BF16, /* products of BF16 added up in f32, by an instruction for just that */
    TDM_PEAK_COUNT
} tdm_peak;

typedef struct tdm_backend_ops {
    /* "cpu-scalar", "cpu-avx2", ...: chosen at create, constant afterwards. */
    const char *(*name)(const tdm_backend *be);
    /* Largest work of one call from now on: n rows of at most width_max values each. Grows scratch;
     * the only entry that allocates besides weight_init. */
    tdm_status (*reserve)(tdm_backend *be, int64_t n_max, int64_t width_max, tdm_error *err);

    /* Whether linear and embed can read this storage type. */
    bool (*can_read)(const tdm_backend *be, tdm_dtype dtype);
    /* Bytes that weight_init would allocate for a described weight (0: reads the file's layout). */
    size_t (*weight_plan)(const tdm_backend *be, const tdm_weight *weight);
    /* weight was described by tensor/weight.h; packs it where the backend wants that. */
    tdm_status (*weight_init)(tdm_backend *be, tdm_weight *weight, tdm_error *err);
    void (*weight_deinit)(tdm_backend *be, tdm_weight *weight);
    /* The layout whose bytes weight_init takes from the backend's panels and puts there; NULL, or an
     * entry that is NULL: it asks no store. */
    const tdm_panel_layout *(*panel_layout)(const tdm_backend *be);

    /* Up to TDM_LINEAR_PARTS_MAX products with one x [n, n_in]. */
    void (*linear)(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                   const tdm_linear_part *parts, int32_t n_parts);
    /* Each group as one linear over its rows, with the same bits, and all of them as one piece of work:
     * a weight is read once, and who computes what is shared out by panels of any group. Rows of
     * groups ascend and do not overlap; all are of one width; the last minus the first, and one more,
     * counts as n for reserve. */
    void (*linear_groups)(tdm_backend *be, const float *x, int64_t ld_x,
                          const tdm_linear_group *groups, int32_t n_groups);
    /* out [n, n_in]: dequantized rows ids[i] times scale. ids are inside the table. */
    void (*embed)(tdm_backend *be, float *out, int64_t ld_out, const tdm_weight *table,
                  const int32_t *ids, int64_t n, float scale);
    /* out[r] = x[r] * rsqrt(mean(x[r]^2) + eps) * w for n rows of dim; w NULL: no weight. In place
     * allowed. */
    void (*rms_norm)(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     const float *w, int64_t n, int64_t dim, float eps);
    /* out[r] = (x[r] - mean) * rsqrt(mean((x[r] - mean)^2) + eps) * w + bias; w or bias NULL: none.
     * In place allowed. */
    void (*layer_norm)(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                       const float *w, const float *bias, int64_t n, int64_t dim, float eps);
    /* table [n, n_freq, 2] = (cos, sin) of positions[i] * inv_freq[j], times magnitude. The product
     * is rounded to f32 first, as the reference framework does. */
    void (*rope_table)(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                       const float *inv_freq, int32_t n_freq, float magnitude);
    /* Rotates, in place, the first 2 * n_freq values of each head of x [n, n_heads, head_dim]. */
    void (*rope)(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                 int32_t head_dim, const float *table, int32_t n_freq, tdm_rope_pairing pairing);
    void (*kv_write)(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans);
    void (*attention)(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans);
    void (*index_scores)(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans);
    /* out[i] = act(gate[i]) * up[i] for n rows of dim. out may be gate. */
    void (*glu_mul)(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                    const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                    int64_t dim);
    /* x = act(x) for n rows of dim, in place. */
    void (*activate)(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x, int64_t n,
                     int64_t dim);
    /* x = x * rsqrt(sum of x^2 + eps) * scale for each of n_heads heads of dim in n rows, in place. */
    void (*l2_norm)(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                    int32_t dim, float eps, float scale);
    /* out[r][g * step_out + i] = x[r][g * step_x + i] for n rows. */
    void (*regroup)(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                    int64_t n, const tdm_groups *groups);
    void (*conv)(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                 int32_t n_spans);
    /* Spans of one sequence run in the order of the list. */
    void (*delta_scan)(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                       int32_t n_spans);
    /* x = cap * tanh(x / cap) for n rows of dim, in place. */
    void (*softcap)(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim, float cap);
    /* x += y for n rows of dim, in place. */
    void (*add)(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y, int64_t n,
                int64_t dim);
    /* ids[r] = index of the largest of x[r][0..dim); the lowest index wins a tie; NaN never wins;
     * all NaN gives 0. */
    void (*argmax)(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                   int64_t dim);

    /* Runs n_rounds of kind on every thread; returns the operations of all, a multiply and an add
     * counted as two. 0: the backend has no products of that kind. */
    double (*peak)(tdm_backend *be, tdm_peak kind, int64_t n_rounds);

    void (*destroy)(tdm_backend *be);
} tdm_backend_ops;

/* Every backend begins with this. */
struct tdm_backend {
    const tdm_backend_ops *ops;
    tdm_tier tier;
    tdm_team *team;
    tdm_panels *panels; /* the store of the load that is going on; NULL: none */
};

#endif
