/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that are a part of a stored tensor: a plane of a stack of experts, some rows of a fused
 * projection. Floor 5. */
#ifndef TDM_MODEL_BLOCKS_PARTS_H
#define TDM_MODEL_BLOCKS_PARTS_H

#include "model/blocks/loader.h"

/* The tensor of that full name, marked as asked for. Errors: TDM_E_FORMAT (missing), TDM_E_SHAPE
 * (other dims than rank and dims say). */
TDM_NODISCARD tdm_status tdm_part_find(tdm_loader *loader, const char *name, int32_t rank,
                                       const int64_t *dims, const tdm_checkpoint_tensor **out,
                                       tdm_error *err);
/* Rows [row0, row0 + n_rows) of plane of a tensor [.., rows, n_in] of rank 2 or 3. The caller
 * deinits. Errors: TDM_E_UNSUPPORTED (storage type), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_part_weight(tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                         int64_t plane, int64_t row0, int64_t n_rows,
                                         tdm_weight *out, tdm_error *err);

#endif
