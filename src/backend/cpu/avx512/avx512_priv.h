/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that the AVX-512 table names; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_AVX512_AVX512_PRIV_H
#define TDM_BACKEND_CPU_AVX512_AVX512_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_avx512_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);

/* linear_i8's part for one token of packed weights; and linear_i8 with another one for it, which wants
 * VBMI. */
void tdm_avx512_lone_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok,
                        void *scratch);
void tdm_avx512_linear_i8_vbmi(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                               int64_t tok0, int64_t tok1, void *scratch);

double tdm_avx512_peak_f32(int64_t n_rounds);
double tdm_avx512_peak_int8(int64_t n_rounds);
double tdm_avx512_peak_bf16(int64_t n_rounds); /* wants AVX512-BF16 */

/* linear_i8's part for weights in the file's layout. */
void tdm_avx512_linear_i8_mapped(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                 int64_t tok0, int64_t tok1, void *scratch);

/* avx2's, but for many tokens; and that one, but for few tokens and E4M3 rows: wants VBMI. */
void tdm_avx512_linear_f32(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch);
void tdm_avx512_linear_e4m3(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch);

/* BF16 products, by vdpbf16ps (AVX512-BF16, VBMI); e4m3_bf16 has those of E4M3 rows. */
bool tdm_avx512_is_bf16(const tdm_weight *w);
void tdm_avx512_linear_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch);
void tdm_avx512_e4m3_bf16(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                          int64_t tok1, void *scratch);
void tdm_avx512_round_bf16(const float *x, int64_t n, uint16_t *out, int64_t ld);

/* BF16 products of dense rows in the order of AMX's tiles, by f32 multiply-adds; AMX's set takes
 * them for tokens that fill no group. */
void tdm_avx512_two_chains(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch);
void tdm_avx512_round_bf16_group(const float *x, int64_t ld_x, int64_t n, uint16_t *out);

/* The same bits with fused multiply-adds and, where the processor has AVX512-BF16, with its dot. */
void tdm_avx512_attention(const tdm_cpu_attention_item *item, void *scratch);
void tdm_avx512_attention_merge(const tdm_cpu_attention_item *item, void *scratch);
void tdm_avx512_attention_dot(const tdm_cpu_attention_item *item, void *scratch);

void tdm_avx512_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head);

#endif
