/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that the NEON tables name; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_NEON_NEON_PRIV_H
#define TDM_BACKEND_CPU_NEON_NEON_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_neon_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1, void *scratch);
void tdm_neon_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch);
/* With the dot instruction. */
void tdm_neon_linear_i8_dot(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch);
void tdm_neon_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks);
void tdm_neon_rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps);
void tdm_neon_rope(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                   tdm_rope_pairing pairing);
void tdm_neon_attention(const tdm_cpu_attention_item *item, void *scratch);
void tdm_neon_attention_merge(const tdm_cpu_attention_item *item, void *scratch);
void tdm_neon_index_scores(const tdm_index_span *span, int64_t begin, int64_t end);
void tdm_neon_kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype);
void tdm_neon_layer_norm(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                         float eps);
void tdm_neon_glu(const tdm_activation *act, float *out, const float *gate, const float *up,
                  int64_t dim);
void tdm_neon_softcap(float *x, float cap, int64_t dim);
void tdm_neon_add(float *x, const float *y, int64_t dim);
int32_t tdm_neon_argmax(const float *x, int64_t dim);
void tdm_neon_scale(float *x, float scale, int64_t dim);
double tdm_neon_peak_f32(int64_t n_rounds);
double tdm_neon_peak_int8(int64_t n_rounds);
double tdm_neon_peak_int8_dot(int64_t n_rounds);
void tdm_neon_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                       const float *bias, int32_t n_taps, int64_t dim);
void tdm_neon_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head);

#endif
