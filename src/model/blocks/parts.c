/* SPDX-License-Identifier: Apache-2.0
 *
 * Views into tensors that hold more than one weight. Whole rows only: every way to store a weight
 * keeps a row's codes and scales together, so a range of rows is a weight of its own and nothing is
 * copied. */
#include "model/blocks/parts.h"

#include "model/blocks/loader_priv.h"
#include "tensor/ops.h"

#include <stdio.h>

static tdm_status find(const tdm_loader *loader, const char *name,
                       const tdm_checkpoint_tensor **out, tdm_error *err) {
    *out = tdm_checkpoint_find(loader->checkpoint, name);
    if (*out != NULL) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.120s\" is missing", name);
    tdm_err_where(err, "%s", tdm_checkpoint_path(loader->checkpoint));
    tdm_err_remedy(err,
                   "the checkpoint is incomplete or its config is another model's; fetch it again");
    return TDM_E_FORMAT;
}

/* The tensors of "NAME.weight" as a whole. */
static tdm_status find_source(tdm_loader *loader, const char *name, int64_t n_out, int64_t n_in,
                              const tdm_checkpoint_tensor **out_tensor, tdm_weight_source *out,
                              tdm_error *err) {
    const tdm_loader_part whole = {.n_out = n_out, .n_in = n_in};
    char full[TDM_LOADER_NAME_MAX];
    (void)snprintf(full, sizeof full, "%s.weight", name);
    TDM_TRY(find(loader, full, out_tensor, err));
    return tdm_loader_source(loader, *out_tensor, &whole, out, err);
}

static tdm_status init_weight(tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                              const tdm_weight_source *source, tdm_weight *out, tdm_error *err) {
    tdm_status status = tdm_weight_init_source(loader->backend, source, out, err);
    if (status != TDM_OK) {
        tdm_err_note(err, "tensor \"%.100s\"", tensor->name);
        return tdm_loader_fail_at(loader, tensor, status, err);
    }
    return TDM_OK;
}

tdm_status tdm_part_matrix(tdm_loader *loader, const char *name, int64_t n_out, int64_t n_in,
                           tdm_weight *out, tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = NULL;
    tdm_weight_source source;
    TDM_TRY(find_source(loader, name, n_out, n_in, &tensor, &source, err));
    return init_weight(loader, tensor, &source, out, err);
}

/* Rows [row0, row0 + n) of a matrix; a view without data (no scales, no biases) stays so. */
static tdm_tensor_view rows_of(const tdm_tensor_view *whole, int64_t row0, int64_t n) {
    tdm_tensor_view part = *whole;
    size_t row_bytes = 0;
    if (whole->data == NULL) {
        return part;
    }
    row_bytes = whole->bytes / (size_t)whole->dims[0]; /* whole blocks, as the readers say */
    part.dims[0] = n;
    part.data = (const uint8_t *)whole->data + (size_t)row0 * row_bytes;
    part.bytes = (size_t)n * row_bytes;
    return part;
}

tdm_status tdm_part_split(tdm_loader *loader, const char *name, int64_t n_in,
                          const tdm_part_rows *parts, int32_t n_parts, tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = NULL;
    tdm_weight_source whole;
    int64_t n_rows = 0;
    int64_t row0 = 0;
    for (int32_t i = 0; i < n_parts; i++) {
        n_rows += parts[i].n_rows; /* bounded: sizes of a checked config */
    }
    TDM_TRY(find_source(loader, name, n_rows, n_in, &tensor, &whole, err));
    for (int32_t i = 0; i < n_parts; i++) {
        tdm_weight_source part = whole;
        part.view = rows_of(&whole.view, row0, parts[i].n_rows);
        part.scales = rows_of(&whole.scales, row0, parts[i].n_rows);
        part.biases = rows_of(&whole.biases, row0, parts[i].n_rows);
        TDM_TRY(init_weight(loader, tensor, &part, &parts[i].linear->weight, err));
        row0 += parts[i].n_rows;
    }
    return TDM_OK;
}

tdm_status tdm_part_blocks(tdm_loader *loader, const char *name, const tdm_part_stack *stack,
                           tdm_weight *out, tdm_error *err) {
    const tdm_loader_part part = {.n_stack = stack->n_experts,
                                  .idx = stack->expert,
                                  .n_out = stack->n_rows,
                                  .n_in = stack->n_in};
    const tdm_checkpoint_tensor *blocks = NULL;
    const tdm_checkpoint_tensor *scales = NULL;
    char full[TDM_LOADER_NAME_MAX];
    tdm_weight_source source;
    (void)snprintf(full, sizeof full, "%s_blocks", name);
    TDM_TRY(find(loader, full, &blocks, err));
    (void)snprintf(full, sizeof full, "%s_scales", name);
    TDM_TRY(find(loader, full, &scales, err));
    TDM_TRY(tdm_loader_blocks(loader, blocks, scales, &part, &source, err));
    source.row_first = stack->row_first;
    source.row_step = stack->row_step;
    return init_weight(loader, blocks, &source, out, err);
}

tdm_status tdm_part_vector(tdm_loader *loader, const char *name, int64_t n, const float **out,
                           tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = NULL;
    TDM_TRY(find(loader, name, &tensor, err));
    TDM_TRY(tdm_loader_check_shape(loader, tensor, 1, &n, err));
    return tdm_loader_floats(loader, tensor, n, out, err);
}
