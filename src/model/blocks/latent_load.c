/* SPDX-License-Identifier: Apache-2.0
 *
 * Fetching latent attention. The matrices between the latent space and the heads lie in files in
 * two ways: one [n_heads * (nope + value), kv_rank], each head's rows for keys and then for values
 * (the hub's kv_b_proj; GGUF's attn_kv_b); or two stacks, those for keys turned already (MLX's
 * embed_q and unembed_out; GGUF's attn_k_b and attn_v_b). Rows for values are used where they lie;
 * rows for keys are turned here once, in their own type where that is a float's, else as F32.
 * Source of the names: spec/models.md 3.11 and 8; spec/gguf.md 2. */
#include "model/blocks/latent.h"

#include "model/blocks/loader_priv.h"
#include "model/blocks/parts.h"
#include "tensor/ops.h"
#include "tensor/weight.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 160

static bool is_float(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_F32 || dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16;
}

/* One fused matrix: what it is, and where it was found. */
typedef struct fused {
    const tdm_checkpoint_tensor *tensor;
    tdm_weight_source source;
    tdm_weight described;
    float *row; /* [kv_rank]: room for one row's values */
} fused;

static void count_copy(tdm_loader *loader, size_t bytes, size_t replaced) {
    tdm_tally *tally = loader->tally;
    tally->converted_bytes[tally->section] += (int64_t)bytes;
    tally->replaced_bytes[tally->section] += (int64_t)replaced;
}

/* A copy of rows [row0, row0 + n) in the arena: as they are, or turned [n_in, n]. Floats keep their
 * type; all else becomes F32. */
static tdm_status copy_rows(tdm_loader *loader, const fused *from, int64_t row0, int64_t n,
                            bool is_turned, tdm_tensor_view *out, tdm_error *err) {
    const tdm_weight *w = &from->described;
    bool is_kept = w->mode == TDM_WEIGHT_PLAIN && is_float(w->dtype);
    tdm_dtype dtype = is_kept ? w->dtype : TDM_DTYPE_F32;
    size_t value_bytes = TDM_DTYPES[dtype].block_bytes;
    size_t bytes = (size_t)n * (size_t)w->n_in * value_bytes; /* sizes of a checked config */
    uint8_t *copy = NULL;
    *out = (tdm_tensor_view){.dtype = dtype, .rank = 2, .bytes = bytes, .data = w->data};
    out->dims[0] = is_turned ? w->n_in : n;
    out->dims[1] = is_turned ? n : w->n_in;
    count_copy(loader, bytes, (size_t)n * w->row_bytes);
    if (loader->is_plan) {
        return TDM_OK; /* described, never read */
    }
    copy = tdm_arena_alloc(loader->arena, bytes, TDM_ALIGN_CACHE_LINE);
    if (copy == NULL) {
        return tdm_fail_nomem(err, "a turned matrix");
    }
    for (int64_t r = 0; r < n; r++) {
        const uint8_t *values = w->data + (size_t)(row0 + r) * w->row_bytes;
        if (!is_kept) {
            tdm_weight_row(w, row0 + r, from->row);
            values = (const uint8_t *)from->row;
        }
        for (int64_t i = 0; i < w->n_in; i++) {
            int64_t at = is_turned ? i * n + r : r * w->n_in + i;
            memcpy(copy + (size_t)at * value_bytes, values + (size_t)i * value_bytes, value_bytes);
        }
    }
    out->data = copy;
    return TDM_OK;
}

static tdm_status init_view(tdm_loader *loader, const fused *from, const tdm_tensor_view *view,
                            tdm_weight *out, tdm_error *err) {
    tdm_status status = tdm_weight_init(loader->backend, view, out, err);
    if (status != TDM_OK) {
        tdm_err_note(err, "tensor \"%.100s\"", from->tensor->name);
        return tdm_loader_fail_at(loader, from->tensor, status, err);
    }
    return TDM_OK;
}

static tdm_status load_head(tdm_latent_block *block, tdm_loader *loader, const fused *from,
                            int32_t head, tdm_error *err) {
    int64_t row0 = (int64_t)head * (block->nope_dim + block->value_dim);
    tdm_tensor_view view;
    tdm_weight_source rows;
    TDM_TRY(copy_rows(loader, from, row0, block->nope_dim, true, &view, err));
    TDM_TRY(init_view(loader, from, &view, &block->into[head], err));
    row0 += block->nope_dim;
    if (from->source.mode ==
        TDM_WEIGHT_FP8) { /* a scale stands for 128 rows: no cut between heads */
        TDM_TRY(copy_rows(loader, from, row0, block->value_dim, false, &view, err));
        return init_view(loader, from, &view, &block->out_of[head], err);
    }
    rows = tdm_part_rows_of(&from->source, row0, block->value_dim);
    tdm_status status = tdm_weight_init_source(loader->backend, &rows, &block->out_of[head], err);
    return status == TDM_OK ? TDM_OK : tdm_loader_fail_at(loader, from->tensor, status, err);
}

static tdm_status load_fused(tdm_latent_block *block, tdm_loader *loader, int32_t layer,
                             tdm_error *err) {
    const tdm_loader_part whole = {.n_out = (int64_t)block->n_heads *
                                            (block->nope_dim + block->value_dim),
                                   .n_in = block->kv_rank};
    fused from = {.row = tdm_arena_calloc(loader->arena, (size_t)block->kv_rank, sizeof(float))};
    if (from.row == NULL) {
        return tdm_fail_nomem(err, "a row of a matrix");
    }
    TDM_TRY(tdm_loader_require(loader, TDM_ROLE_LATENT_KV_B, layer, &from.tensor, err));
    TDM_TRY(tdm_loader_source(loader, from.tensor, &whole, &from.source, err));
    tdm_status status = tdm_weight_describe(&from.source, &from.described, err);
    if (status == TDM_OK &&
        from.source.columns != NULL) { /* its rows are read here, column by column */
        status = tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": columns in another order",
                          from.tensor->name);
    }
    if (status != TDM_OK) {
        return tdm_loader_fail_at(loader, from.tensor, status, err);
    }
    for (int32_t h = 0; h < block->n_heads; h++) {
        TDM_TRY(load_head(block, loader, &from, h, err));
    }
    return TDM_OK;
}

/* Matrix head of the stack that role is. */
static tdm_status load_stacked(tdm_loader *loader, tdm_role role, int32_t layer,
                               const tdm_part_stack *stack, tdm_weight *out, tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = NULL;
    TDM_TRY(tdm_loader_require(loader, role, layer, &tensor, err));
    return tdm_part_stacked(loader, tensor->name, stack, out, err);
}

static tdm_status load_stacks(tdm_latent_block *block, tdm_loader *loader, int32_t layer,
                              tdm_error *err) {
    for (int32_t h = 0; h < block->n_heads; h++) {
        const tdm_part_stack keys = {.n_experts = block->n_heads,
                                     .expert = h,
                                     .n_rows = block->kv_rank,
                                     .n_in = block->nope_dim,
                                     .row_step = 1};
        const tdm_part_stack values = {.n_experts = block->n_heads,
                                       .expert = h,
                                       .n_rows = block->value_dim,
                                       .n_in = block->kv_rank,
                                       .row_step = 1};
        TDM_TRY(load_stacked(loader, TDM_ROLE_LATENT_K_B, layer, &keys, &block->into[h], err));
        TDM_TRY(load_stacked(loader, TDM_ROLE_LATENT_V_B, layer, &values, &block->out_of[h], err));
    }
    return TDM_OK;
}

static tdm_status load_between(tdm_latent_block *block, tdm_loader *loader, int32_t layer,
                               tdm_error *err) {
    size_t n = (size_t)block->n_heads;
    block->into = tdm_arena_calloc(loader->arena, n, sizeof *block->into);
    block->out_of = tdm_arena_calloc(loader->arena, n, sizeof *block->out_of);
    if (block->into == NULL || block->out_of == NULL) {
        return tdm_fail_nomem(err, "a layer's heads");
    }
    return tdm_loader_has(loader, TDM_ROLE_LATENT_K_B, layer)
               ? load_stacks(block, loader, layer, err)
               : load_fused(block, loader, layer, err);
}

static tdm_status load_queries(tdm_latent_block *block, tdm_loader *loader, const tdm_dims *dims,
                               const tdm_decoder_spec *spec, int32_t layer, tdm_error *err) {
    int64_t width = (int64_t)block->n_heads * (block->nope_dim + block->rope_dim);
    if (block->q_rank == 0) {
        return tdm_loader_linear(loader, TDM_ROLE_Q, layer, width, dims->hidden, TDM_BIAS_NONE,
                                 &block->q, err);
    }
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_LATENT_Q_A, layer, block->q_rank, dims->hidden,
                              spec->latent.bias, &block->q_a, err));
    TDM_TRY(tdm_norm_load(&block->q_norm, loader, spec, TDM_ROLE_LATENT_Q_NORM, layer,
                          block->q_rank, err));
    return tdm_loader_linear(loader, TDM_ROLE_LATENT_Q_B, layer, width, block->q_rank,
                             TDM_BIAS_NONE, &block->q, err);
}

tdm_status tdm_latent_load(tdm_latent_block *block, tdm_loader *loader, const tdm_dims *dims,
                           const tdm_decoder_spec *spec, const tdm_mixer_place *place,
                           tdm_error *err) {
    const tdm_latent_spec *latent = &spec->latent;
    int32_t layer = place->layer;
    block->n_heads = spec->layers[layer].heads.n;
    block->value_dim = spec->layers[layer].heads.value_dim;
    block->q_rank = latent->q_rank;
    block->kv_rank = latent->kv_rank;
    block->nope_dim = latent->nope_dim;
    block->rope_dim = latent->rope_dim;
    block->index_top_k = latent->index_top_k;
    block->cache_idx = place->cache_idx;
    TDM_TRY(load_queries(block, loader, dims, spec, layer, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_LATENT_KV_A, layer,
                              (int64_t)block->kv_rank + block->rope_dim, dims->hidden, latent->bias,
                              &block->kv, err));
    TDM_TRY(tdm_norm_load(&block->kv_norm, loader, spec, TDM_ROLE_LATENT_KV_NORM, layer,
                          block->kv_rank, err));
    TDM_TRY(load_between(block, loader, layer, err));
    TDM_TRY(tdm_loader_linear(loader, TDM_ROLE_O, layer, dims->hidden,
                              (int64_t)block->n_heads * block->value_dim, latent->bias, &block->o,
                              err));
    return latent->index_top_k > 0 && !spec->layers[layer].shares_choice
               ? tdm_indexer_load(&block->indexer, loader, dims, spec, layer, err)
               : TDM_OK;
}

void tdm_latent_unload(tdm_latent_block *block, tdm_backend *backend) {
    tdm_linear *const linears[] = {&block->q_a, &block->q, &block->kv, &block->o};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        tdm_weight_deinit(backend, &linears[i]->weight);
    }
    for (int32_t h = 0; h < block->n_heads; h++) {
        tdm_weight_deinit(backend, block->into != NULL ? &block->into[h] : NULL);
        tdm_weight_deinit(backend, block->out_of != NULL ? &block->out_of[h] : NULL);
    }
    tdm_indexer_unload(&block->indexer, backend);
}
