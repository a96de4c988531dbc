/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-VNNI set: replaces the int8 products and keeps the rest of AVX2. */
#include "backend/cpu/avxvnni/avxvnni_priv.h"

void tdm_cpu_kernels_avxvnni(tdm_cpu_kernels *kernels) {
    kernels->linear_i8 = tdm_avxvnni_linear_i8;
    kernels->peaks[TDM_PEAK_INT8] = tdm_avxvnni_peak_int8;
}
