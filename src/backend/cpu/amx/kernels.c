/* SPDX-License-Identifier: Apache-2.0
 *
 * The AMX set: replaces the wide int8 products, where tiles of BF16 are too the products of dense BF16
 * weights, and keeps the rest of AVX-512. */
#include "backend/cpu/amx/amx_priv.h"

#include "backend/cpu/avx512/avx512_priv.h"

#include <cpuid.h>

/* Leaf 7's edx and its subleaf's eax. Source: Intel's manual, volume 2, CPUID; clang 14's cpuid.h has
 * no name for the first. */
#define AMX_BF16_BIT (1U << 22)
#define AVX512_BF16_BIT (1U << 5)

static bool has_bf16(void) {
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & AMX_BF16_BIT) == 0) {
        return false;
    }
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & AVX512_BF16_BIT) != 0;
}

void tdm_cpu_kernels_amx(tdm_cpu_kernels *kernels) {
    kernels->linear_i8_wide = tdm_amx_linear_i8_wide;
    kernels->wide_tokens = TDM_CPU_GROUP_TOKENS;
    if (has_bf16()) {
        kernels->is_bf16 = tdm_amx_is_bf16;
        kernels->linear_bf16 = tdm_avx512_two_chains;
        kernels->linear_bf16_wide = tdm_amx_linear_bf16_wide;
        kernels->round_bf16 = tdm_avx512_round_bf16;
        kernels->round_bf16_group = tdm_avx512_round_bf16_group;
        kernels->peaks[TDM_PEAK_BF16] = tdm_amx_peak_bf16;
    }
    kernels->peaks[TDM_PEAK_INT8] = tdm_amx_peak_int8;
}
