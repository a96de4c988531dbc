/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that the AMX table names; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_AMX_AMX_PRIV_H
#define TDM_BACKEND_CPU_AMX_AMX_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_amx_linear_i8_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                            int64_t group0, int64_t group1, void *scratch);

/* BF16 products of dense weights, in two chains; wants AMX-BF16 and AVX512-BF16. */
bool tdm_amx_is_bf16(const tdm_weight *w);
void tdm_amx_linear_bf16_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                              int64_t group0, int64_t group1, void *scratch);

double tdm_amx_peak_int8(int64_t n_rounds);
double tdm_amx_peak_bf16(int64_t n_rounds); /* wants AMX-BF16 */

#endif
