/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX2 + FMA + F16C set. */
#include "backend/cpu/avx2/avx2_priv.h"

void tdm_cpu_kernels_avx2(tdm_cpu_kernels *kernels) {
    kernels->linear_f32 = tdm_avx2_linear_f32;
    kernels->f32_tokens = TDM_CPU_DENSE_TOKENS;
    kernels->linear_i8 = tdm_avx2_linear_i8;
    kernels->has_eights = true;
    kernels->i8_tokens = TDM_CPU_BATCH_TOKENS;
    /* Zen 4 sees one stream by itself and loses a quarter when asked; Sapphire Rapids gains a third to
     * two thirds (docs/performance.md, 2026-11-30). */
    __builtin_cpu_init();
    kernels->ahead_bytes = __builtin_cpu_is("intel") ? 4096 : 0;
    kernels->quantize = tdm_avx2_quantize;
    kernels->layout = tdm_avx2_layout;
    kernels->pack = tdm_avx2_pack;
    kernels->panels = &TDM_AVX2_PANELS;
    kernels->rms_norm = tdm_avx2_rms_norm;
    kernels->layer_norm = tdm_avx2_layer_norm;
    kernels->rope = tdm_avx2_rope;
    kernels->attention = tdm_avx2_attention;
    kernels->attention_merge = tdm_avx2_attention_merge;
    kernels->index_scores = tdm_avx2_index_scores;
    kernels->kv_store = tdm_avx2_kv_store;
    kernels->glu = tdm_avx2_glu;
    kernels->softcap = tdm_avx2_softcap;
    kernels->add = tdm_avx2_add;
    kernels->argmax = tdm_avx2_argmax;
    kernels->scale = tdm_avx2_scale;
    kernels->conv_row = tdm_avx2_conv_row;
    kernels->delta_head = tdm_avx2_delta_head;
    kernels->peaks[TDM_PEAK_F32] = tdm_avx2_peak_f32;
    kernels->peaks[TDM_PEAK_INT8] = tdm_avx2_peak_int8;
}
