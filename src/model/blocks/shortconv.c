/* SPDX-License-Identifier: Apache-2.0
 *
 * The short convolution of lfm2. Its memory is the last n_taps - 1 rows of B * x, which a sliding
 * cache of that window already is: it forgets, keeps slack for going back, and obeys contract/
 * cache.h, so no kind of cache is added and trimming works as for attention. Each output is one sum
 * over the taps, oldest first, so that chunks and mates change no bit.
 *
 * The convolution itself is n_taps products a channel; no backend has an operation for it, so it
 * runs here, on the owner thread. */
#include "model/blocks/shortconv.h"

#include "model/blocks/loader_priv.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"

#include <stdio.h>

/* [hidden, 1, n_taps] in safetensors, [hidden, n_taps] in GGUF: the same values in the same order. */
static tdm_status load_taps(tdm_shortconv_block *block, tdm_loader *loader, int64_t hidden,
                            int32_t layer, tdm_error *err) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    const int64_t hub[3] = {hidden, 1, block->n_taps};
    const int64_t gguf[2] = {hidden, block->n_taps};
    char name[TDM_LOADER_NAME_MAX];
    const tdm_checkpoint_tensor *tensor = NULL;
    (void)snprintf(name, sizeof name,
                   is_gguf ? "%sblk.%d.shortconv.conv.weight" : "%slayers.%d.conv.conv.weight",
                   is_gguf ? "" : loader->prefix, (int)layer);
    tensor = tdm_checkpoint_find(loader->checkpoint, name);
    if (tensor == NULL) {
        (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.120s\" is missing", name);
        tdm_err_where(err, "%s", tdm_checkpoint_path(loader->checkpoint));
        return TDM_E_FORMAT;
    }
    TDM_TRY(tdm_loader_check_shape(loader, tensor, is_gguf ? 2 : 3, is_gguf ? gguf : hub, err));
    /* bounded: both come from range tables */
    return tdm_loader_floats(loader, tensor, hidden * block->n_taps, &block->taps, err);
}

static tdm_status shortconv_load(void *any, tdm_loader *loader, const tdm_dims *dims,
                                 const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                                 tdm_error *err) {
    tdm_shortconv_block *block = any;
    int32_t layer = place->layer;
    int64_t hidden = dims->hidden;
    tdm_kv_geometry geometry;
    if (!tdm_shortconv_geometry(dims->hidden, spec->conv_taps, 1, &geometry)) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "a convolution over %d channels, an odd number",
                        (int)dims->hidden);
    }
    block->n_taps = spec->conv_taps;
    block->cache_idx = place->cache_idx;
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_CONV_IN, layer, 3 * hidden, hidden, spec->conv_bias,
                              &block->in, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_CONV_OUT, layer, hidden, hidden, spec->conv_bias,
                              &block->out, err));
    if (spec->conv_bias == TDM_BIAS_REQUIRED) {
        char name[TDM_LOADER_NAME_MAX];
        (void)snprintf(name, sizeof name, "%slayers.%d.conv.conv.bias", loader->prefix, (int)layer);
        TDM_TRY(tdm_part_vector(loader, name, hidden, &block->bias, err));
    }
    return load_taps(block, loader, hidden, layer, err);
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
    tdm_kv_geometry geometry;
    bool is_possible = tdm_shortconv_geometry(dims->hidden, block->n_taps, append_max, &geometry);
    (void)kv_dtype;
    TDM_CHECK(is_possible); /* asked when the block was loaded */
    return geometry;
}

bool tdm_shortconv_geometry(int32_t hidden, int32_t n_taps, int32_t append_max,
                            tdm_kv_geometry *out) {
    int32_t half = hidden / 2;
    int32_t dim = half < TDM_HEAD_DIM_MAX ? half : TDM_HEAD_DIM_MAX;
    while (dim > 1 && half % dim != 0) {
        dim--;
    }
    *out = (tdm_kv_geometry){.dtype = TDM_DTYPE_F32,
                             .n_kv_heads = dim > 0 ? half / dim : 0,
                             .head_dim = dim,
                             .value_dim = dim,
                             .window = n_taps,
                             .append_max = append_max};
    return half > 0 && hidden % 2 == 0;
}

/* The dim values that one "head" holds of a position. */
static const float *values_of(const tdm_kv_pages *pages, uint8_t *const *side, int64_t position,
                              int32_t head) {
    int64_t page = (position >> pages->page_shift) % pages->n_pages;
    int64_t slot = position & ((INT64_C(1) << pages->page_shift) - 1);
    const float *values = (const float *)(const void *)side[page];
    return values + ((((int64_t)head << pages->page_shift) + slot) * pages->head_dim);
}

/* y [hidden] = gate * (bias + sum of taps over the positions up to this one). */
static void convolve(const tdm_shortconv_block *block, const tdm_kv_pages *pages, int64_t position,
                     const float *gate, float *y) {
    int32_t n_taps = block->n_taps;
    int32_t dim = pages->head_dim;
    int32_t n_missing = position + 1 < n_taps ? (int32_t)(n_taps - 1 - position) : 0;
    for (int32_t h = 0; h < 2 * pages->n_kv_heads; h++) {
        bool is_key = h < pages->n_kv_heads;
        int64_t first = (int64_t)h * dim; /* channel */
        for (int32_t i = 0; i < dim; i++) {
            y[first + i] = block->bias != NULL ? block->bias[first + i] : 0.0F;
        }
        for (int32_t t = n_missing; t < n_taps; t++) {
            const float *row =
                values_of(pages, is_key ? pages->k : pages->v, position - n_taps + 1 + t,
                          is_key ? h : h - pages->n_kv_heads);
            for (int32_t i = 0; i < dim; i++) {
                y[first + i] += block->taps[(first + i) * n_taps + t] * row[i];
            }
        }
        for (int32_t i = 0; i < dim; i++) {
            y[first + i] *= gate[first + i];
        }
    }
}

/* Rows of mixed are B, C, x; B becomes B * x, is remembered, and then becomes the result. */
static void run_row(const tdm_shortconv_block *block, const tdm_step_ctx *ctx,
                    const tdm_step_row *row, float *mixed) {
    int64_t hidden = ctx->dims->hidden;
    tdm_cache *cache = row->state->caches[block->cache_idx];
    const tdm_kv_pages *pages = cache->ops->begin(cache, row->n_tokens);
    int64_t pos0 = cache->ops->length(cache);
    const tdm_kv_write_span span = {.pages = pages,
                                    .k = mixed,
                                    .v = mixed + hidden / 2,
                                    .ld_k = 3 * hidden,
                                    .ld_v = 3 * hidden,
                                    .pos0 = pos0,
                                    .n = row->n_tokens};
    for (int32_t t = 0; t < row->n_tokens; t++) {
        float *b = mixed + t * 3 * hidden;
        for (int64_t i = 0; i < hidden; i++) {
            b[i] *= b[2 * hidden + i];
        }
    }
    tdm_op_kv_write(ctx->backend, &span, 1);
    for (int32_t t = 0; t < row->n_tokens; t++) {
        float *y = mixed + t * 3 * hidden;
        convolve(block, pages, pos0 + t, y + hidden, y);
    }
}

static void shortconv_forward(const void *any, const tdm_step_ctx *ctx, const float *h,
                              tdm_block_out out) {
    const tdm_shortconv_block *block = any;
    int64_t hidden = ctx->dims->hidden;
    float *mixed = ctx->scratch->mix;
    const tdm_linear_part first = {&block->in.weight, block->in.bias, mixed, 3 * hidden, false};
    const tdm_linear_part last = {&block->out.weight, block->out.bias, out.to, hidden,
                                  out.is_added};
    int64_t done = 0;
    tdm_op_linear(ctx->backend, h, hidden, ctx->n_tokens, &first, 1);
    for (int32_t r = 0; r < ctx->n_rows; r++) {
        run_row(block, ctx, &ctx->rows[r], mixed + done * 3 * hidden);
        done += ctx->rows[r].n_tokens;
    }
    tdm_op_linear(ctx->backend, mixed, 3 * hidden, ctx->n_tokens, &last, 1);
}

const tdm_mixer_ops TDM_MIXER_CONV_OPS = {
    .block_bytes = sizeof(tdm_shortconv_block),
    .load = shortconv_load,
    .unload = shortconv_unload,
    .sizes = shortconv_sizes,
    .geometry = shortconv_geometry,
    .forward = shortconv_forward,
};
