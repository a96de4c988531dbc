/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that the AVX2 table names; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_AVX2_AVX2_PRIV_H
#define TDM_BACKEND_CPU_AVX2_AVX2_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_avx2_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                         int64_t tok1, void *scratch);
/* Eight rows w of dtype against tokens [tok0, tok1); see dense_tmpl.h. */
typedef void (*tdm_avx2_dense_fn)(const tdm_cpu_linear_job *job, tdm_dtype dtype,
                                  const uint8_t *const *w, int64_t o, int64_t n_rows, int64_t tok0,
                                  int64_t tok1, float *scratch);
/* Eight dense rows against one token, into sums [8]. */
typedef void (*tdm_avx2_lone_fn)(tdm_dtype dtype, const uint8_t *const *w, const float *x,
                                 int64_t n_in, float *sums);
typedef struct tdm_avx2_dense {
    tdm_avx2_dense_fn many;
    tdm_avx2_lone_fn lone;
} tdm_avx2_dense;
/* The same with other kernels for dense rows, of the same bits. */
void tdm_avx2_linear_f32_by(const tdm_avx2_dense *by, const tdm_cpu_linear_job *job, int64_t row0,
                            int64_t row1, int64_t tok0, int64_t tok1, void *scratch);
void tdm_avx2_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch);
/* Its part for one token of packed weights. */
void tdm_avx2_lone_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok,
                      void *scratch);
/* The same of packed panels for several tokens; see batch_tmpl.h. */
void tdm_avx2_linear_i8_batch(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t tok0, int64_t tok1, void *scratch);
void tdm_avx2_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks);
void tdm_avx2_layout(tdm_weight *weight, bool is_mapped);
void tdm_avx2_pack(const tdm_weight *weight, int64_t panel0, int64_t panel1);
extern const tdm_panel_layout TDM_AVX2_PANELS;
/* Eight rows (half a panel) from row0 opened into scratch, whatever the form; see panel_inl.h. */
void tdm_avx2_open(const tdm_weight *w, int64_t row0, void *out);
void tdm_avx2_rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps);
void tdm_avx2_rope(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                   tdm_rope_pairing pairing);
void tdm_avx2_attention(const tdm_cpu_attention_item *item, void *scratch);
void tdm_avx2_attention_merge(const tdm_cpu_attention_item *item, void *scratch);
void tdm_avx2_index_scores(const tdm_index_span *span, int64_t begin, int64_t end);
void tdm_avx2_kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype);
void tdm_avx2_layer_norm(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                         float eps);
void tdm_avx2_glu(const tdm_activation *act, float *out, const float *gate, const float *up,
                  int64_t dim);
void tdm_avx2_softcap(float *x, float cap, int64_t dim);
void tdm_avx2_add(float *x, const float *y, int64_t dim);
int32_t tdm_avx2_argmax(const float *x, int64_t dim);
void tdm_avx2_scale(float *x, float scale, int64_t dim);
double tdm_avx2_peak_f32(int64_t n_rounds);
double tdm_avx2_peak_int8(int64_t n_rounds);
void tdm_avx2_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                       const float *bias, int32_t n_taps, int64_t dim);
void tdm_avx2_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head);

#endif
