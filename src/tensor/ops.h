/* SPDX-License-Identifier: Apache-2.0
 *
 * The checked entry to every operation of a backend. Floor 2. Shapes, strides, types and overlaps
 * are programmer errors and end in TDM_CHECK; what depends on data (a token id) is answered with a
 * status. Zero rows are legal and do nothing. Checks cost a few compares a call, nothing a value.
 */
#ifndef TDM_TENSOR_OPS_H
#define TDM_TENSOR_OPS_H

#include "contract/backend.h"

/* Largest head_dim, value_dim or index_dim that is taken: a model's config must be checked against it.
 */
#define TDM_HEAD_DIM_MAX 576 /* a latent row of 512 and its 64 rotated values */

/* Checks the source (tensor/weight.h) and that this backend reads its type, then weight_init. On
 * failure *out_weight is zeroed and deinit is legal. Errors: TDM_E_SHAPE, TDM_E_UNSUPPORTED,
 * TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_weight_init_source(tdm_backend *be, const tdm_weight_source *source,
                                                tdm_weight *out_weight, tdm_error *err);
/* A weight of one tensor. */
TDM_NODISCARD tdm_status tdm_weight_init(tdm_backend *be, const tdm_tensor_view *view,
                                         tdm_weight *out_weight, tdm_error *err);
void tdm_weight_deinit(tdm_backend *be, tdm_weight *weight);

void tdm_op_linear(tdm_backend *be, const float *x, int64_t ld_x, int64_t n,
                   const tdm_linear_part *parts, int32_t n_parts);
void tdm_op_linear_groups(tdm_backend *be, const float *x, int64_t ld_x,
                          const tdm_linear_group *groups, int32_t n_groups);
/* Errors: TDM_E_ARG when an id is outside the table; nothing is written then. */
TDM_NODISCARD tdm_status tdm_op_embed(tdm_backend *be, float *out, int64_t ld_out,
                                      const tdm_weight *table, const int32_t *ids, int64_t n,
                                      float scale, tdm_error *err);
void tdm_op_rms_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                     const float *w, int64_t n, int64_t dim, float eps);
void tdm_op_layer_norm(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                       const float *w, const float *bias, int64_t n, int64_t dim, float eps);
void tdm_op_rope_table(tdm_backend *be, float *table, const int64_t *positions, int64_t n,
                       const float *inv_freq, int32_t n_freq, float magnitude);
void tdm_op_rope(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                 int32_t head_dim, const float *table, int32_t n_freq, tdm_rope_pairing pairing);
void tdm_op_kv_write(tdm_backend *be, const tdm_kv_write_span *spans, int32_t n_spans);
void tdm_op_attention(tdm_backend *be, const tdm_attention_span *spans, int32_t n_spans);
void tdm_op_index_scores(tdm_backend *be, const tdm_index_span *spans, int32_t n_spans);
void tdm_op_glu_mul(tdm_backend *be, const tdm_activation *act, float *out, int64_t ld_out,
                    const float *gate, int64_t ld_gate, const float *up, int64_t ld_up, int64_t n,
                    int64_t dim);
void tdm_op_activate(tdm_backend *be, const tdm_activation *act, float *x, int64_t ld_x, int64_t n,
                     int64_t dim);
void tdm_op_l2_norm(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int32_t n_heads,
                    int32_t dim, float eps, float scale);
void tdm_op_regroup(tdm_backend *be, float *out, int64_t ld_out, const float *x, int64_t ld_x,
                    int64_t n, const tdm_groups *groups);
void tdm_op_conv(tdm_backend *be, const tdm_conv *conv, const tdm_conv_span *spans,
                 int32_t n_spans);
void tdm_op_delta_scan(tdm_backend *be, const tdm_delta *delta, const tdm_delta_span *spans,
                       int32_t n_spans);
void tdm_op_softcap(tdm_backend *be, float *x, int64_t ld_x, int64_t n, int64_t dim, float cap);
void tdm_op_add(tdm_backend *be, float *x, int64_t ld_x, const float *y, int64_t ld_y, int64_t n,
                int64_t dim);
void tdm_op_argmax(tdm_backend *be, int32_t *ids, const float *x, int64_t ld_x, int64_t n,
                   int64_t dim);

#endif
