/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta net of qwen3_next and qwen3_5.
 *
 *   h -> q k v | a | b -> convolution over q k v, silu -> lengths of q and k -> scan -> norm -> * silu(z) -> o
 *   h -> z -----------------------------------------------------------------------------'
 *
 * A row [q k v | a | b] before the convolution is what the cache remembers of a position; the state
 * is the scan's. What a trim left without a state is done again from such rows first (contract/
 * cache.h), by the same operations, so that it has the same bits.
 * Source: transformers 5.17, models/qwen3_next/modeling_qwen3_next.py; shared/spec/models.md 3.9;
 * shared/spec/gguf.md section 2. */
#include "model/blocks/gated_delta.h"

#include "model/blocks/loader_priv.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <math.h>
#include <stdio.h>

/* Sequences whose spans go to the backend together; rows that are replayed together. */
#define GROUP_ROWS 16
#define REPLAY_ROWS 16
/* Of the sum of squares, whatever the config's own: the reference framework's, and the one that such
 * models are trained with. */
#define LENGTH_EPS 1e-6f

/* ---- sizes ---- */

static int64_t keys_of(const tdm_delta_spec *s) {
    return (int64_t)s->n_key_heads * s->key_dim;
}

static int64_t values_of(const tdm_delta_spec *s) {
    return (int64_t)s->n_value_heads * s->value_dim;
}

/* Values that the convolution sees, and of a whole row. */
static int64_t channels_of(const tdm_delta_spec *s) {
    return 2 * keys_of(s) + values_of(s);
}

static int64_t width_of(const tdm_delta_spec *s) {
    return channels_of(s) + 2 * (int64_t)s->n_value_heads;
}

/* Where a step's values lie in the scratch. Woven projections lie where y comes to lie later. */
typedef struct planes {
    float *rows;  /* [n, width]: q k v | a | b */
    float *z;     /* [n, values] */
    float *y;     /* [n, values]: what the scan read */
    float *woven; /* [n, 2 keys + 2 values] */
    float *ba;    /* [n, 2 value heads] */
    float *replay;
} planes;

static int64_t later_of(const tdm_delta_spec *s) {
    int64_t woven = s->is_qkvz_woven ? 2 * keys_of(s) + 2 * values_of(s) : 0;
    int64_t ba = s->is_ba_woven ? 2 * (int64_t)s->n_value_heads : 0;
    return woven + ba > values_of(s) ? woven + ba : values_of(s);
}

static planes cut(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx) {
    const tdm_delta_spec *s = &block->spec;
    planes p = {.rows = ctx->scratch->mix};
    p.z = p.rows + ctx->n_tokens * width_of(s);
    p.y = p.z + ctx->n_tokens * values_of(s);
    p.woven = p.y;
    p.ba = p.woven + (s->is_qkvz_woven ? ctx->n_tokens * (2 * keys_of(s) + 2 * values_of(s)) : 0);
    p.replay = p.y + ctx->n_tokens * later_of(s);
    return p;
}

static tdm_mixer_sizes delta_sizes(const void *any, const tdm_dims *dims) {
    const tdm_delta_spec *s = &((const tdm_gated_delta_block *)any)->spec;
    int64_t values = values_of(s);
    return (tdm_mixer_sizes){.scratch = width_of(s) + values + later_of(s),
                             .fixed = REPLAY_ROWS * width_of(s),
                             .widest = values > dims->hidden ? values : dims->hidden};
}

static tdm_kv_geometry delta_geometry(const void *any, const tdm_dims *dims, tdm_dtype kv_dtype,
                                      int32_t append_max) {
    const tdm_delta_spec *s = &((const tdm_gated_delta_block *)any)->spec;
    (void)dims;
    (void)kv_dtype; /* a state is F32 whatever keys and values are */
    return (tdm_kv_geometry){.append_max = append_max,
                             .state_values = values_of(s) * s->key_dim,
                             .row_values = width_of(s),
                             .n_tail = s->n_taps - 1};
}

/* ---- loading ---- */

/* hub and gguf: what a tensor is called inside its layer. */
static void spell(const tdm_loader *loader, int32_t layer, const char *hub, const char *gguf,
                  char out[TDM_LOADER_NAME_MAX]) {
    if (tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF) {
        (void)snprintf(out, TDM_LOADER_NAME_MAX, "blk.%d.%s", (int)layer, gguf);
    } else {
        (void)snprintf(out, TDM_LOADER_NAME_MAX, "%slayers.%d.linear_attn.%s", loader->prefix,
                       (int)layer, hub);
    }
}

static tdm_status load_matrix(tdm_loader *loader, int32_t layer, const char *hub, const char *gguf,
                              int64_t n_out, int64_t n_in, tdm_linear *out, tdm_error *err) {
    char name[TDM_LOADER_NAME_MAX];
    spell(loader, layer, hub, gguf, name);
    return tdm_part_matrix(loader, name, n_out, n_in, &out->weight, err);
}

static tdm_status load_vector(tdm_loader *loader, int32_t layer, const char *hub, const char *gguf,
                              int64_t n, const float **out, tdm_error *err) {
    char name[TDM_LOADER_NAME_MAX];
    spell(loader, layer, hub, gguf, name);
    return tdm_part_vector(loader, name, n, out, err);
}

static tdm_status load_projections(tdm_gated_delta_block *block, tdm_loader *loader, int32_t layer,
                                   int64_t hidden, tdm_error *err) {
    const tdm_delta_spec *s = &block->spec;
    int64_t values = values_of(s);
    int64_t heads = s->n_value_heads;
    if (s->is_qkvz_woven) {
        TDM_TRY(load_matrix(loader, layer, "in_proj_qkvz", "", channels_of(s) + values, hidden,
                            &block->qkv, err));
    } else {
        TDM_TRY(load_matrix(loader, layer, "in_proj_qkv", "attn_qkv", channels_of(s), hidden,
                            &block->qkv, err));
        TDM_TRY(
            load_matrix(loader, layer, "in_proj_z", "attn_gate", values, hidden, &block->z, err));
    }
    if (s->is_ba_woven) {
        TDM_TRY(
            load_matrix(loader, layer, "in_proj_ba", "ssm_ba", 2 * heads, hidden, &block->b, err));
    } else {
        TDM_TRY(load_matrix(loader, layer, "in_proj_b", "ssm_beta", heads, hidden, &block->b, err));
        TDM_TRY(
            load_matrix(loader, layer, "in_proj_a", "ssm_alpha", heads, hidden, &block->a, err));
    }
    return load_matrix(loader, layer, "out_proj", "ssm_out", hidden, values, &block->out, err);
}

bool tdm_gated_delta_is_turned(const tdm_loader *loader, const tdm_decoder_spec *spec,
                               int32_t layer) {
    char name[TDM_LOADER_NAME_MAX];
    spell(loader, layer, "conv1d.weight", "ssm_conv1d.weight", name);
    const tdm_checkpoint_tensor *tensor = tdm_checkpoint_find(loader->checkpoint, name);
    return tensor != NULL && tdm_part_is_turned(&tensor->view, spec->delta.n_taps);
}

static tdm_status load_taps(tdm_gated_delta_block *block, tdm_loader *loader, int32_t layer,
                            tdm_error *err) {
    char name[TDM_LOADER_NAME_MAX];
    block->conv = (tdm_conv){.dim = channels_of(&block->spec),
                             .width = width_of(&block->spec),
                             .n_taps = block->spec.n_taps,
                             .is_silu = true};
    spell(loader, layer, "conv1d.weight", "ssm_conv1d.weight", name);
    return tdm_part_taps(loader, name, block->conv.dim, block->conv.n_taps, &block->conv.taps, err);
}

/* GGUF has -exp(A_log) under a name of its own. */
static tdm_status load_gates(tdm_gated_delta_block *block, tdm_loader *loader, int32_t layer,
                             tdm_error *err) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    const tdm_delta_spec *s = &block->spec;
    const float *stored = NULL;
    float *decay = tdm_arena_calloc(loader->arena, (size_t)s->n_value_heads, sizeof *decay);
    if (decay == NULL) {
        return tdm_fail_nomem(err, "the gates of a layer");
    }
    TDM_TRY(load_vector(loader, layer, "A_log", "ssm_a", s->n_value_heads, &stored, err));
    for (int32_t h = 0; h < s->n_value_heads; h++) {
        decay[h] = is_gguf ? stored[h] : -expf(stored[h]);
    }
    block->delta = (tdm_delta){.n_key_heads = s->n_key_heads,
                               .n_value_heads = s->n_value_heads,
                               .key_dim = s->key_dim,
                               .value_dim = s->value_dim,
                               .is_tiled = s->is_tiled,
                               .decay = decay};
    TDM_TRY(load_vector(loader, layer, "dt_bias", "ssm_dt.bias", s->n_value_heads,
                        &block->delta.dt_bias, err));
    return load_vector(loader, layer, "norm.weight", "ssm_norm.weight", s->value_dim, &block->norm,
                       err);
}

static tdm_status delta_load(void *any, tdm_loader *loader, const tdm_dims *dims,
                             const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                             tdm_error *err) {
    tdm_gated_delta_block *block = any;
    block->spec = spec->delta;
    block->cache_idx = place->cache_idx;
    TDM_TRY(load_projections(block, loader, place->layer, dims->hidden, err));
    TDM_TRY(load_taps(block, loader, place->layer, err));
    return load_gates(block, loader, place->layer, err);
}

static void delta_unload(void *any, tdm_backend *backend) {
    tdm_gated_delta_block *block = any;
    tdm_linear *const linears[] = {&block->qkv, &block->z, &block->a, &block->b, &block->out};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        tdm_weight_deinit(backend, &linears[i]->weight);
    }
}

/* ---- a step ---- */

/* Copies dim values of each key head from its share of a woven row. */
static void unweave(const tdm_step_ctx *ctx, const tdm_delta_spec *s, const float *woven,
                    int64_t ld_woven, float *to, int64_t ld_to, int64_t dim) {
    const tdm_groups groups = {
        .n = s->n_key_heads, .dim = dim, .step_out = dim, .step_x = ld_woven / s->n_key_heads};
    tdm_op_regroup(ctx->backend, to, ld_to, woven, ld_woven, ctx->n_tokens, &groups);
}

static void unweave_all(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx,
                        const planes *p) {
    const tdm_delta_spec *s = &block->spec;
    int64_t group = s->n_value_heads / s->n_key_heads; /* value heads of a key head */
    int64_t width = width_of(s);
    if (s->is_qkvz_woven) {
        int64_t ld = 2 * keys_of(s) + 2 * values_of(s);
        int64_t values = group * s->value_dim;
        unweave(ctx, s, p->woven, ld, p->rows, width, s->key_dim);
        unweave(ctx, s, p->woven + s->key_dim, ld, p->rows + keys_of(s), width, s->key_dim);
        unweave(ctx, s, p->woven + 2 * (int64_t)s->key_dim, ld, p->rows + 2 * keys_of(s), width,
                values);
        unweave(ctx, s, p->woven + 2 * (int64_t)s->key_dim + values, ld, p->z, values_of(s),
                values);
    }
    if (s->is_ba_woven) {
        int64_t ld = 2 * (int64_t)s->n_value_heads;
        float *a = p->rows + channels_of(s);
        unweave(ctx, s, p->ba, ld, a + s->n_value_heads, width, group);
        unweave(ctx, s, p->ba + group, ld, a, width, group);
    }
}

static void project(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx, const planes *p,
                    const float *h) {
    const tdm_delta_spec *s = &block->spec;
    int64_t width = width_of(s);
    float *a = p->rows + channels_of(s);
    tdm_linear_part parts[TDM_LINEAR_PARTS_MAX];
    int32_t n = 0;
    if (s->is_qkvz_woven) {
        parts[n++] = (tdm_linear_part){&block->qkv.weight, NULL, p->woven,
                                       2 * keys_of(s) + 2 * values_of(s), false};
    } else {
        parts[n++] = (tdm_linear_part){&block->qkv.weight, NULL, p->rows, width, false};
        parts[n++] = (tdm_linear_part){&block->z.weight, NULL, p->z, values_of(s), false};
    }
    if (s->is_ba_woven) {
        parts[n++] =
            (tdm_linear_part){&block->b.weight, NULL, p->ba, 2 * (int64_t)s->n_value_heads, false};
    } else {
        parts[n++] = (tdm_linear_part){&block->a.weight, NULL, a, width, false};
        parts[n++] = (tdm_linear_part){&block->b.weight, NULL, a + s->n_value_heads, width, false};
    }
    tdm_op_linear(ctx->backend, h, ctx->dims->hidden, ctx->n_tokens, parts, n);
    unweave_all(block, ctx, p);
}

/* Queries and keys of n rows get length one, queries scaled beside it. */
static void norm_lengths(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx, float *rows,
                         int64_t n) {
    const tdm_delta_spec *s = &block->spec;
    int64_t width = width_of(s);
    tdm_op_l2_norm(ctx->backend, rows, width, n, s->n_key_heads, s->key_dim, LENGTH_EPS,
                   1.0F / sqrtf((float)s->key_dim));
    tdm_op_l2_norm(ctx->backend, rows + keys_of(s), width, n, s->n_key_heads, s->key_dim,
                   LENGTH_EPS, 1.0F);
}

/* The positions between view->from and the cache's length, once more. */
static void replay(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx,
                   const tdm_recurrent_view *view, float *scratch) {
    int64_t width = width_of(&block->spec);
    int64_t n_tail = block->spec.n_taps - 1;
    for (int32_t done = 0; done < view->n_replay; done += REPLAY_ROWS) {
        int32_t left = view->n_replay - done;
        int32_t n = left < REPLAY_ROWS ? left : REPLAY_ROWS;
        const tdm_conv_span conv = {.tail = view->rows + done * width,
                                    .x = view->rows + (n_tail + done) * width,
                                    .out = scratch,
                                    .ld_x = width,
                                    .ld_out = width,
                                    .n = n};
        const tdm_delta_span scan = {.from = done == 0 ? view->from : view->now,
                                     .to = view->now,
                                     .x = scratch,
                                     .ld_x = width,
                                     .n = n};
        tdm_op_conv(ctx->backend, &block->conv, &conv, 1);
        norm_lengths(block, ctx, scratch, n);
        tdm_op_delta_scan(ctx->backend, &block->delta, &scan, 1);
    }
}

/* Rows [row0, row1) of the step, whose tokens begin at first: convolved, and scanned into y. */
static int64_t run_group(const tdm_gated_delta_block *block, const tdm_step_ctx *ctx,
                         const planes *p, int32_t row0, int32_t row1, int64_t first) {
    int64_t width = width_of(&block->spec);
    int64_t values = values_of(&block->spec);
    tdm_conv_span convs[GROUP_ROWS];
    tdm_delta_span scans[2 * GROUP_ROWS];
    int32_t n_scans = 0;
    int64_t at = first;
    for (int32_t r = row0; r < row1; r++) {
        const tdm_step_row *row = &ctx->rows[r];
        tdm_cache *cache = row->state->caches[block->cache_idx];
        const tdm_recurrent_view *view = cache->ops->begin_state(cache, row->n_tokens);
        const float *from = view->n_replay > 0 ? view->now : view->from;
        float *x = p->rows + at * width;
        tdm_delta_span scan = {.x = x, .out = p->y + at * values, .ld_x = width, .ld_out = values};
        replay(block, ctx, view, p->replay);
        convs[r - row0] = (tdm_conv_span){.tail = view->rows + view->n_replay * width,
                                          .x = x,
                                          .out = x,
                                          .keep = view->keep,
                                          .ld_x = width,
                                          .ld_out = width,
                                          .n = row->n_tokens,
                                          .n_keep = view->n_keep};
        if (view->n_now > 0) {
            scan.from = from;
            scan.to = view->now;
            scan.n = view->n_now;
            scans[n_scans++] = scan;
            from = view->now;
        }
        if (view->n_now < row->n_tokens) {
            scan.from = from;
            scan.to = view->next;
            scan.x += view->n_now * width;
            scan.out += view->n_now * values;
            scan.n = row->n_tokens - view->n_now;
            scans[n_scans++] = scan;
        }
        at += row->n_tokens;
    }
    tdm_op_conv(ctx->backend, &block->conv, convs, row1 - row0);
    norm_lengths(block, ctx, p->rows + first * width, at - first);
    tdm_op_delta_scan(ctx->backend, &block->delta, scans, n_scans);
    return at;
}

static void delta_forward(const void *any, const tdm_step_ctx *ctx, const float *h,
                          tdm_block_out out) {
    static const tdm_activation SILU = {.kind = TDM_GLU_SILU};
    const tdm_gated_delta_block *block = any;
    const tdm_delta_spec *s = &block->spec;
    const planes p = cut(block, ctx);
    const tdm_linear_part last = {&block->out.weight, NULL, out.to, ctx->dims->hidden,
                                  out.is_added};
    int64_t values = values_of(s);
    int64_t done = 0;
    project(block, ctx, &p, h);
    for (int32_t row0 = 0; row0 < ctx->n_rows; row0 += GROUP_ROWS) {
        int32_t row1 = row0 + GROUP_ROWS < ctx->n_rows ? row0 + GROUP_ROWS : ctx->n_rows;
        done = run_group(block, ctx, &p, row0, row1, done);
    }
    tdm_op_rms_norm(ctx->backend, p.y, s->value_dim, p.y, s->value_dim, block->norm,
                    ctx->n_tokens * s->n_value_heads, s->value_dim, ctx->dims->norm_eps);
    tdm_op_glu_mul(ctx->backend, &SILU, p.z, values, p.z, values, p.y, values, ctx->n_tokens,
                   values);
    tdm_op_linear(ctx->backend, p.z, values, ctx->n_tokens, &last, 1);
}

const tdm_mixer_ops TDM_MIXER_DELTA_OPS = {
    .block_bytes = sizeof(tdm_gated_delta_block),
    .load = delta_load,
    .unload = delta_unload,
    .sizes = delta_sizes,
    .geometry = delta_geometry,
    .forward = delta_forward,
};
