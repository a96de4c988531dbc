/* SPDX-License-Identifier: Apache-2.0
 *
 * Scalar kernels that the scalar table names; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_SCALAR_SCALAR_PRIV_H
#define TDM_BACKEND_CPU_SCALAR_SCALAR_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_scalar_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch);
void tdm_scalar_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);
void tdm_scalar_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks);
void tdm_scalar_attention(const tdm_cpu_attention_item *item, void *scratch);
void tdm_scalar_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                         const float *bias, int32_t n_taps, int64_t dim);
void tdm_scalar_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head);

#endif
