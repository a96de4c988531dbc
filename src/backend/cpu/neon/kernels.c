/* SPDX-License-Identifier: Apache-2.0
 *
 * The NEON sets: what every 64-bit Arm processor has, and the dot instruction on top of it. */
#include "backend/cpu/neon/neon_priv.h"

void tdm_cpu_kernels_neon(tdm_cpu_kernels *kernels) {
    kernels->linear_f32 = tdm_neon_linear_f32;
    kernels->linear_i8 = tdm_neon_linear_i8;
    kernels->quantize = tdm_neon_quantize;
    kernels->rms_norm = tdm_neon_rms_norm;
    kernels->layer_norm = tdm_neon_layer_norm;
    kernels->rope = tdm_neon_rope;
    kernels->attention = tdm_neon_attention;
    kernels->attention_merge = tdm_neon_attention_merge;
    kernels->index_scores = tdm_neon_index_scores;
    kernels->kv_store = tdm_neon_kv_store;
    kernels->glu = tdm_neon_glu;
    kernels->softcap = tdm_neon_softcap;
    kernels->add = tdm_neon_add;
    kernels->argmax = tdm_neon_argmax;
    kernels->scale = tdm_neon_scale;
    kernels->conv_row = tdm_neon_conv_row;
    kernels->delta_head = tdm_neon_delta_head;
    kernels->peaks[TDM_PEAK_F32] = tdm_neon_peak_f32;
    kernels->peaks[TDM_PEAK_INT8] = tdm_neon_peak_int8;
}

void tdm_cpu_kernels_neon_dot(tdm_cpu_kernels *kernels) {
    kernels->linear_i8 = tdm_neon_linear_i8_dot;
    kernels->peaks[TDM_PEAK_INT8] = tdm_neon_peak_int8_dot;
}
