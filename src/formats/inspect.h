/* SPDX-License-Identifier: Apache-2.0
 *
 * What a checkpoint holds, in numbers: for the inspect verb and for plans. Floor 3. */
#ifndef TDM_FORMATS_INSPECT_H
#define TDM_FORMATS_INSPECT_H

#include "formats/checkpoint.h"

typedef struct tdm_inspect_row {
    size_t n_tensors;
    uint64_t n_elements; /* as stored: a packed word is one element */
    uint64_t bytes;
} tdm_inspect_row;

typedef struct tdm_inspect {
    tdm_inspect_row by_dtype[TDM_DTYPE_COUNT];
    tdm_inspect_row total;
    /* Weights of the model. Words that pack weights (MLX: a U32 M.weight beside M.scales) count as
     * the weights in them, at the bits that config.json's quantization gives; scales and biases of
     * a packed matrix count as none. */
    uint64_t n_parameters;
} tdm_inspect;

void tdm_checkpoint_inspect(const tdm_checkpoint *checkpoint, tdm_inspect *out);

#endif
