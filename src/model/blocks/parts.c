/* SPDX-License-Identifier: Apache-2.0
 *
 * Views into tensors that hold more than one weight. Whole rows only: every storage type keeps a
 * row's blocks together, so a range of rows is a weight of its own and nothing is copied. */
#include "model/blocks/parts.h"

#include "base/arith.h"
#include "tensor/ops.h"

#include <string.h>

static tdm_status fail_missing(const tdm_loader *loader, const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.120s\" is missing", name);
    tdm_err_where(err, "%s", tdm_checkpoint_path(loader->checkpoint));
    tdm_err_remedy(err,
                   "the checkpoint is incomplete or its config is another model's; fetch it again");
    return TDM_E_FORMAT;
}

static tdm_status fail_tensor(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                              tdm_status status, tdm_error *err) {
    tdm_err_where(err, "%s: offset %llu",
                  tdm_checkpoint_file_name(loader->checkpoint, tensor->file_idx),
                  (unsigned long long)tensor->offset);
    tdm_err_remedy(err, "config and weights may be of different models; fetch both again");
    return status;
}

static void consume(tdm_loader *loader, const tdm_checkpoint_tensor *tensor) {
    /* The checkpoint keeps its tensors in one array. */
    size_t idx = (size_t)(tensor - tdm_checkpoint_tensor_at(loader->checkpoint, 0));
    int64_t n_values = 1;
    TDM_CHECK(idx < loader->n_tensors);
    if (loader->consumed[idx] != 0) {
        return;
    }
    for (int32_t i = 0; i < tensor->view.rank; i++) {
        n_values *= tensor->view.dims[i]; /* bounded: the reader has checked it against the file */
    }
    loader->consumed[idx] = 1;
    loader->weight_bytes += tensor->view.bytes;
    loader->n_params += n_values;
}

tdm_status tdm_part_find(tdm_loader *loader, const char *name, int32_t rank, const int64_t *dims,
                         const tdm_checkpoint_tensor **out, tdm_error *err) {
    const tdm_checkpoint_tensor *tensor = tdm_checkpoint_find(loader->checkpoint, name);
    *out = tensor;
    if (tensor == NULL) {
        return fail_missing(loader, name, err);
    }
    if (tensor->view.rank != rank ||
        memcmp(tensor->view.dims, dims, (size_t)rank * sizeof *dims) != 0) {
        (void)tdm_fail(err, TDM_E_SHAPE,
                       "tensor \"%.100s\" has not the shape that the config asks for", name);
        return fail_tensor(loader, tensor, TDM_E_SHAPE, err);
    }
    consume(loader, tensor);
    return TDM_OK;
}

tdm_status tdm_part_weight(tdm_loader *loader, const tdm_checkpoint_tensor *tensor, int64_t plane,
                           int64_t row0, int64_t n_rows, tdm_weight *out, tdm_error *err) {
    const tdm_tensor_view *whole = &tensor->view;
    tdm_tensor_view part = {.dtype = whole->dtype, .rank = 2};
    int64_t rows = whole->dims[whole->rank - 2];
    int64_t planes = whole->rank == 3 ? whole->dims[0] : 1;
    size_t row_bytes = 0;
    tdm_status status = TDM_OK;
    TDM_CHECK(whole->rank >= 2 && plane < planes && row0 >= 0 && row0 + n_rows <= rows);
    row_bytes = whole->bytes / (size_t)rows / (size_t)planes; /* whole blocks, as the readers say */
    part.dims[0] = n_rows;
    part.dims[1] = whole->dims[whole->rank - 1];
    part.data = (const uint8_t *)whole->data + (size_t)(plane * rows + row0) * row_bytes;
    part.bytes = (size_t)n_rows * row_bytes;
    status = tdm_weight_init(loader->backend, &part, out, err);
    return status == TDM_OK ? TDM_OK : fail_tensor(loader, tensor, status, err);
}
