/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMX set: replaces the wide int8 products and keeps the rest of AVX-512. */
#include "backend/cpu/amx/amx_priv.h"

void tdm_cpu_kernels_amx(tdm_cpu_kernels *kernels) {
    kernels->linear_i8_wide = tdm_amx_linear_i8_wide;
    kernels->peaks[TDM_PEAK_INT8] = tdm_amx_peak_int8;
}
