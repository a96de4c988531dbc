/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 + FMA + F16C set. */
#include "backend/cpu/cpu_priv.h"

#if defined(__x86_64__)
void tdm_cpu_kernels_avx2(tdm_cpu_kernels *kernels) {
    (void)kernels;
}
#endif
