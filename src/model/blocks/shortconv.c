/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution of lfm2. Its memory is the last n_taps - 1 rows of B * x, and those that a
 * verify round may take back: a recurrent cache without a state. Nothing is ever replayed, since a
 * row depends on no row before it. Each output is one sum over the taps, oldest first, so that
 * chunks and mates change no bit. Source: transformers, models/lfm2/modeling_lfm2.py. */
#include "model/blocks/shortconv.h"

#include "model/blocks/loader_priv.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <stdio.h>

/* Sequences whose spans go to the backend together. */
#define GROUP_ROWS 16

static tdm_status load_conv(tdm_shortconv_block *block, tdm_loader *loader, int64_t hidden,
                            const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    char name[TDM_LOADER_NAME_MAX];
    block->conv = (tdm_conv){.dim = hidden, .width = hidden, .n_taps = spec->conv_taps};
    if (spec->conv_bias == TDM_BIAS_REQUIRED) {
        (void)snprintf(name, sizeof name, "%slayers.%d.conv.conv.bias", loader->prefix, (int)layer);
        TDM_TRY(tdm_part_vector(loader, name, hidden, &block->conv.bias, err));
    }
    (void)snprintf(name, sizeof name,
                   is_gguf ? "%sblk.%d.shortconv.conv.weight" : "%slayers.%d.conv.conv.weight",
                   is_gguf ? "" : loader->prefix, (int)layer);
    return tdm_part_taps(loader, name, hidden, spec->conv_taps, &block->conv.taps, err);
}

static tdm_status shortconv_load(void *any, tdm_loader *loader, const tdm_dims *dims,
                                 const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                                 tdm_error *err) {
    tdm_shortconv_block *block = any;
    int32_t layer = place->layer;
    int64_t hidden = dims->hidden;
    block->cache_idx = place->cache_idx;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_CONV_IN, layer, 3 * hidden, hidden, spec->conv_bias,
                              &block->in, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_CONV_OUT, layer, hidden, hidden, spec->conv_bias,
                              &block->out, err));
    return load_conv(block, loader, hidden, spec, layer, err);
}

static void shortconv_unload(void *any, tdm_backend *backend) {
    tdm_shortconv_block *block = any;
    tdm_weight_deinit(backend, &block->in.weight);
    tdm_weight_deinit(backend, &block->out.weight);
}

static tdm_mixer_sizes shortconv_sizes(const void *any, const tdm_dims *dims) {
    (void)any;
    return (tdm_mixer_sizes){.scratch = 3 * (int64_t)dims->hidden, .widest = dims->hidden};
}

static tdm_kv_geometry shortconv_geometry(const void *any, const tdm_dims *dims, tdm_dtype kv_dtype,
                                          int32_t append_max) {
    const tdm_shortconv_block *block = any;
    (void)kv_dtype; /* rows are F32 whatever keys and values are */
    return (tdm_kv_geometry){
        .append_max = append_max, .row_values = dims->hidden, .n_tail = block->conv.n_taps - 1};
}

/* B * x of rows [row0, row1) of the step, whose first token lies at rows, convolved in its place. */
static float *convolve(const tdm_shortconv_block *block, const tdm_step_ctx *ctx, int32_t row0,
                       int32_t row1, float *rows) {
    int64_t hidden = ctx->dims->hidden;
    tdm_conv_span spans[GROUP_ROWS];
    for (int32_t r = row0; r < row1; r++) {
        const tdm_step_row *row = &ctx->rows[r];
        tdm_cache *cache = row->state->caches[block->cache_idx];
        const tdm_recurrent_view *view = cache->ops->begin_state(cache, row->n_tokens);
        spans[r - row0] = (tdm_conv_span){.tail = view->rows + view->n_replay * hidden,
                                          .x = rows,
                                          .out = rows,
                                          .keep = view->keep,
                                          .ld_x = 3 * hidden,
                                          .ld_out = 3 * hidden,
                                          .n = row->n_tokens,
                                          .n_keep = view->n_keep};
        rows += row->n_tokens * 3 * hidden;
    }
    tdm_op_conv(ctx->backend, &block->conv, spans, row1 - row0);
    return rows;
}

static void shortconv_forward(const void *any, const tdm_step_ctx *ctx, const float *h,
                              tdm_block_out out) {
    static const tdm_activation PRODUCT = {.kind = TDM_GLU_IDENTITY};
    const tdm_shortconv_block *block = any;
    int64_t hidden = ctx->dims->hidden;
    int64_t ld = 3 * hidden;
    int64_t n = ctx->n_tokens;
    float *b = ctx->scratch->mix; /* [n, 3 * hidden]: B, C, x */
    float *at = b;
    const tdm_linear_part first = {&block->in.weight, block->in.bias, b, ld, false};
    const tdm_linear_part last = {&block->out.weight, block->out.bias, out.to, hidden,
                                  out.is_added};
    tdm_op_linear(ctx->backend, h, hidden, n, &first, 1);
    tdm_op_glu_mul(ctx->backend, &PRODUCT, b, ld, b, ld, b + 2 * hidden, ld, n, hidden);
    for (int32_t row0 = 0; row0 < ctx->n_rows; row0 += GROUP_ROWS) {
        int32_t row1 = row0 + GROUP_ROWS < ctx->n_rows ? row0 + GROUP_ROWS : ctx->n_rows;
        at = convolve(block, ctx, row0, row1, at);
    }
    tdm_op_glu_mul(ctx->backend, &PRODUCT, b, ld, b, ld, b + hidden, ld, n, hidden);
    tdm_op_linear(ctx->backend, b, ld, n, &last, 1);
}

const tdm_mixer_ops TDM_MIXER_CONV_OPS = {
    .block_bytes = sizeof(tdm_shortconv_block),
    .load = shortconv_load,
    .unload = shortconv_unload,
    .sizes = shortconv_sizes,
    .geometry = shortconv_geometry,
    .forward = shortconv_forward,
};
