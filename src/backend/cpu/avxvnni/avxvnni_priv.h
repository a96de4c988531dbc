/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that the AVX-VNNI table names; see cpu_priv.h for what each does. */
#ifndef TDM_BACKEND_CPU_AVXVNNI_AVXVNNI_PRIV_H
#define TDM_BACKEND_CPU_AVXVNNI_AVXVNNI_PRIV_H

#include "backend/cpu/cpu_priv.h"

void tdm_avxvnni_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                           int64_t tok1, void *scratch);

/* As tdm_avx2_linear_i8_batch. */
void tdm_avxvnni_linear_i8_batch(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                                 int64_t tok0, int64_t tok1, void *scratch);

double tdm_avxvnni_peak_int8(int64_t n_rounds);

#endif
