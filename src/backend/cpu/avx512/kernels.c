/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 set (F, BW, DQ, VL, VNNI): replaces the int8 products, with VBMI those of E4M3 rows too,
 * and attention, and keeps the rest of AVX2. */
#include "backend/cpu/avx512/avx512_priv.h"

void tdm_cpu_kernels_avx512(tdm_cpu_kernels *kernels) {
    __builtin_cpu_init();
    kernels->linear_i8 = tdm_avx512_linear_i8;
    kernels->i8_tokens = 0; /* unpacking eights by eights is faster than opening panels */
    kernels->linear_f32 = tdm_avx512_linear_f32;
    if (__builtin_cpu_supports("avx512vbmi")) {
        kernels->linear_f32 = tdm_avx512_linear_e4m3;
        kernels->has_e4m3 = true;
        kernels->linear_i8 = tdm_avx512_linear_i8_vbmi;
    }
    /* vdpbf16ps is twice an f32 multiply-add on Zen 4 and half of one on Sapphire Rapids. */
    if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16") &&
        __builtin_cpu_supports("avx512vbmi")) {
        kernels->is_bf16 = tdm_avx512_is_bf16;
        kernels->linear_bf16 = tdm_avx512_linear_bf16;
        kernels->round_bf16 = tdm_avx512_round_bf16;
    }
    bool has_quick_dot = __builtin_cpu_supports("avx512bf16") && __builtin_cpu_is("amd");
    kernels->attention = has_quick_dot ? tdm_avx512_attention_dot : tdm_avx512_attention;
    kernels->attention_merge = tdm_avx512_attention_merge;
    kernels->delta_head = tdm_avx512_delta_head;
    kernels->peaks[TDM_PEAK_F32] = tdm_avx512_peak_f32;
    kernels->peaks[TDM_PEAK_INT8] = tdm_avx512_peak_int8;
    if (__builtin_cpu_supports("avx512bf16")) {
        kernels->peaks[TDM_PEAK_BF16] = tdm_avx512_peak_bf16;
    }
}
