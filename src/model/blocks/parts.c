/* SPDX-License-Identifier: Apache-2.0
 *
 * Views into tensors that hold more than one weight. Whole rows only: every way to store a weight
 * keeps a row's codes and scales together, so a range of rows, or each nth of them, is a weight of
 * its own and nothing is copied. Only turned matrices are: their rows are columns of the file. */
#include "model/blocks/parts.h"

#include "model/blocks/loader_priv.h"
#include "tensor/dequant.h"
#include "tensor/ops.h"

#include <stdio.h>
#include <string.h>

tdm_status tdm_part_find(const tdm_loader *loader, const char *name,
                         const tdm_checkpoint_tensor **out, tdm_error *err) {
    *out = tdm_loader_find_weight(loader, name);
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
    TDM_TRY(tdm_part_find(loader, full, out_tensor, err));
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

/* Scales of rows [row0, row0 + n): a row each, or for fp8 a row for each group of rows. Rows that
 * begin inside a group get none, which is refused with the weight. */
static tdm_tensor_view scales_of(const tdm_weight_source *whole, int64_t row0, int64_t n) {
    int64_t each = whole->mode == TDM_WEIGHT_FP8 ? whole->group_rows : 1;
    tdm_tensor_view none = whole->scales;
    none.dims[0] = 0;
    if (each > 1 && each >= whole->view.dims[0]) {
        return whole->scales; /* one for all */
    }
    if (whole->scales.data == NULL || row0 % each != 0 ||
        row0 / each + (n - 1) / each >= whole->scales.dims[0]) {
        return none;
    }
    return rows_of(&whole->scales, row0 / each, (n - 1) / each + 1);
}

tdm_weight_source tdm_part_rows_of(const tdm_weight_source *whole, int64_t row0, int64_t n) {
    tdm_weight_source part = *whole;
    part.view = rows_of(&whole->view, row0, n);
    part.scales = scales_of(whole, row0, n);
    part.biases = rows_of(&whole->biases, row0, n);
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
        tdm_weight_source part = tdm_part_rows_of(&whole, row0, parts[i].n_rows);
        TDM_TRY(init_weight(loader, tensor, &part, &parts[i].linear->weight, err));
        row0 += parts[i].n_rows;
    }
    return TDM_OK;
}

/* How many rows of a stack's matrix are taken. */
static int64_t n_taken(const tdm_part_stack *stack) {
    int64_t n = (stack->n_rows - stack->row_first - 1) / stack->row_step + 1;
    TDM_CHECK(stack->expert >= 0 && stack->expert < stack->n_experts && stack->row_step >= 1);
    TDM_CHECK(stack->row_first >= 0 && stack->row_first < stack->n_rows && stack->n_taken <= n);
    return stack->n_taken > 0 ? stack->n_taken : n;
}

/* The rows that the stack names, of a source that is one whole matrix. Neighbours are a matrix of
 * their own; of rows apart the source says the step. */
static tdm_status take_rows(const tdm_part_stack *stack, tdm_weight_source *source,
                            tdm_error *err) {
    int64_t n = n_taken(stack);
    if (n == stack->n_rows) {
        return TDM_OK;
    }
    if (source->mode == TDM_WEIGHT_FP8) {
        return tdm_fail(err, TDM_E_UNSUPPORTED,
                        "some rows of an fp8 matrix, whose scales are of 128 rows");
    }
    if (stack->row_step == 1) {
        source->view = rows_of(&source->view, stack->row_first, n);
        source->scales = rows_of(&source->scales, stack->row_first, n);
        source->biases = rows_of(&source->biases, stack->row_first, n);
        return TDM_OK;
    }
    TDM_CHECK(n == (stack->n_rows - stack->row_first - 1) / stack->row_step + 1);
    source->row_first = stack->row_first;
    source->row_step = stack->row_step;
    return TDM_OK;
}

static tdm_status init_rows(tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                            const tdm_part_stack *stack, tdm_weight_source *source, tdm_weight *out,
                            tdm_error *err) {
    tdm_status status = take_rows(stack, source, err);
    if (status != TDM_OK) {
        tdm_err_note(err, "tensor \"%.100s\"", tensor->name);
        return tdm_loader_fail_at(loader, tensor, status, err);
    }
    return init_weight(loader, tensor, source, out, err);
}

static tdm_loader_part part_of(const tdm_part_stack *stack) {
    return (tdm_loader_part){.n_stack = stack->n_experts,
                             .idx = stack->expert,
                             .n_out = stack->n_rows,
                             .n_in = stack->n_in};
}

tdm_status tdm_part_stacked(tdm_loader *loader, const char *name, const tdm_part_stack *stack,
                            tdm_weight *out, tdm_error *err) {
    const tdm_loader_part part = part_of(stack);
    const tdm_checkpoint_tensor *tensor = NULL;
    tdm_weight_source source;
    TDM_TRY(tdm_part_find(loader, name, &tensor, err));
    TDM_TRY(tdm_loader_source(loader, tensor, &part, &source, err));
    return init_rows(loader, tensor, stack, &source, out, err);
}

tdm_status tdm_part_blocks(tdm_loader *loader, const char *name, const tdm_part_stack *stack,
                           tdm_weight *out, tdm_error *err) {
    const tdm_loader_part part = part_of(stack);
    const tdm_checkpoint_tensor *blocks = NULL;
    const tdm_checkpoint_tensor *scales = NULL;
    char full[TDM_LOADER_NAME_MAX];
    tdm_weight_source source;
    (void)snprintf(full, sizeof full, "%s_blocks", name);
    TDM_TRY(tdm_part_find(loader, full, &blocks, err));
    (void)snprintf(full, sizeof full, "%s_scales", name);
    TDM_TRY(tdm_part_find(loader, full, &scales, err));
    TDM_TRY(tdm_loader_blocks(loader, blocks, scales, &part, &source, err));
    return init_rows(loader, blocks, stack, &source, out, err);
}

static bool is_float(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_F32 || dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16;
}

static tdm_status fail_no_floats(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                 tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\" is stored as %s, not as floats",
                   tensor->name, TDM_DTYPES[tensor->view.dtype].name);
    return tdm_loader_fail_at(loader, tensor, TDM_E_UNSUPPORTED, err);
}

/* out [n, n_in] = columns of from [n_in, n_rows], in squares that stay in the cache. */
static void turn(uint8_t *out, const uint8_t *from, const tdm_part_stack *stack, int64_t n,
                 size_t value_bytes) {
    enum { SIDE = 32 };
    for (int64_t row0 = 0; row0 < n; row0 += SIDE) {
        for (int64_t i0 = 0; i0 < stack->n_in; i0 += SIDE) {
            for (int64_t row = row0; row < n && row < row0 + SIDE; row++) {
                int64_t column = stack->row_first + row * stack->row_step;
                for (int64_t i = i0; i < stack->n_in && i < i0 + SIDE; i++) {
                    memcpy(out + (size_t)(row * stack->n_in + i) * value_bytes,
                           from + (size_t)(i * stack->n_rows + column) * value_bytes, value_bytes);
                }
            }
        }
    }
}

/* bytes of a copy stand for those of the file. */
static void count_copy(tdm_loader *loader, size_t bytes, size_t replaced) {
    tdm_tally *tally = loader->tally;
    tally->converted_bytes[tally->section] += (int64_t)bytes;
    tally->replaced_bytes[tally->section] += (int64_t)replaced;
}

tdm_status tdm_part_turned(tdm_loader *loader, const char *name, const tdm_part_stack *stack,
                           tdm_weight *out, tdm_error *err) {
    const int64_t dims[3] = {stack->n_experts, stack->n_in, stack->n_rows};
    const int64_t n = n_taken(stack);
    const tdm_checkpoint_tensor *tensor = NULL;
    TDM_TRY(tdm_part_find(loader, name, &tensor, err));
    TDM_TRY(tdm_loader_check_shape(loader, tensor, 3, dims, err));
    if (!is_float(tensor->view.dtype)) {
        return fail_no_floats(loader, tensor, err);
    }
    const size_t value_bytes = TDM_DTYPES[tensor->view.dtype].block_bytes;
    const size_t matrix_bytes = tensor->view.bytes / (size_t)stack->n_experts;
    const uint8_t *matrix =
        (const uint8_t *)tensor->view.data + (size_t)stack->expert * matrix_bytes;
    tdm_weight_source source = {.mode = TDM_WEIGHT_PLAIN};
    source.view = (tdm_tensor_view){.dtype = tensor->view.dtype, .rank = 2, .data = matrix};
    source.view.dims[0] = n;
    source.view.dims[1] = stack->n_in;
    source.view.bytes = (size_t)n * (size_t)stack->n_in * value_bytes; /* within the tensor's own */
    tdm_loader_consume(loader, tensor, stack->n_experts * stack->n_rows * stack->n_in);
    count_copy(loader, source.view.bytes, source.view.bytes);
    if (!loader->is_plan) {
        uint8_t *turned = tdm_arena_alloc(loader->arena, source.view.bytes, TDM_ALIGN_CACHE_LINE);
        if (turned == NULL) {
            return tdm_fail_nomem(err, "a turned matrix");
        }
        turn(turned, matrix, stack, n, value_bytes);
        source.view.data = turned;
    }
    return init_weight(loader, tensor, &source, out, err);
}

tdm_status tdm_part_stack_vector(tdm_loader *loader, const char *name, const tdm_part_stack *stack,
                                 const float **out, tdm_error *err) {
    const int64_t dims[2] = {stack->n_experts, stack->n_rows};
    const int64_t n = n_taken(stack);
    const tdm_checkpoint_tensor *tensor = NULL;
    TDM_TRY(tdm_part_find(loader, name, &tensor, err));
    TDM_TRY(tdm_loader_check_shape(loader, tensor, 2, dims, err));
    if (!is_float(tensor->view.dtype)) {
        return fail_no_floats(loader, tensor, err);
    }
    const size_t value_bytes = TDM_DTYPES[tensor->view.dtype].block_bytes;
    const uint8_t *first = (const uint8_t *)tensor->view.data +
                           (size_t)(stack->expert * stack->n_rows + stack->row_first) * value_bytes;
    const bool is_borrowed = tensor->view.dtype == TDM_DTYPE_F32 && stack->row_step == 1 &&
                             (uintptr_t)first % sizeof(float) == 0;
    tdm_loader_consume(loader, tensor, stack->n_experts * stack->n_rows);
    if (is_borrowed && !loader->is_plan) {
        *out = (const float *)(const void *)first;
        return TDM_OK;
    }
    float *values = tdm_arena_calloc(loader->arena, (size_t)n, sizeof *values);
    if (values == NULL) {
        return tdm_fail_nomem(err, "a weight vector");
    }
    for (int64_t i = 0; !loader->is_plan && i < n; i++) {
        tdm_dequant_row(tensor->view.dtype, first + (size_t)(i * stack->row_step) * value_bytes, 1,
                        &values[i]);
    }
    if (!is_borrowed) {
        count_copy(loader, (size_t)n * sizeof *values, (size_t)n * value_bytes);
    }
    *out = values;
    return TDM_OK;
}

tdm_status tdm_part_vector(tdm_loader *loader, const char *name, int64_t n, const float **out,
                           tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = NULL;
    TDM_TRY(tdm_part_find(loader, name, &tensor, err));
    TDM_TRY(tdm_loader_check_shape(loader, tensor, 1, &n, err));
    return tdm_loader_floats(loader, tensor, n, out, err);
}

bool tdm_part_is_turned(const tdm_tensor_view *taps, int32_t n_taps) {
    return n_taps > 1 && taps->rank == 3 && taps->dims[1] == n_taps && taps->dims[2] == 1;
}

tdm_status tdm_part_taps(tdm_loader *loader, const char *name, int64_t channels, int32_t n_taps,
                         const float **out, tdm_error *err) {
    bool is_gguf = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_GGUF;
    const int64_t hub[3] = {channels, 1, n_taps};
    const int64_t mlx[3] = {channels, n_taps, 1};
    const int64_t gguf[2] = {channels, n_taps};
    const tdm_checkpoint_tensor *tensor = NULL;
    const float *stored = NULL;
    /* bounded: both come from range tables */
    float *taps = tdm_arena_calloc(loader->arena, (size_t)(channels * n_taps), sizeof *taps);
    if (taps == NULL) {
        return tdm_fail_nomem(err, "the taps of a convolution");
    }
    TDM_TRY(tdm_part_find(loader, name, &tensor, err));
    /* The same values in the same order, all three. */
    TDM_TRY(tdm_loader_check_shape(
        loader, tensor, is_gguf ? 2 : 3,
        is_gguf ? gguf : (tdm_part_is_turned(&tensor->view, n_taps) ? mlx : hub), err));
    TDM_TRY(tdm_loader_floats(loader, tensor, channels * n_taps, &stored, err));
    for (int64_t i = 0; i < channels * n_taps; i++) {
        taps[i % n_taps * channels + i / n_taps] = stored[i];
    }
    *out = taps;
    return TDM_OK;
}
