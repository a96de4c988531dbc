/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products by the dot instruction: four products of signed bytes a lane, exact. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/form_inl.h"

TDM_INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) {
    return vdotq_s32(sum, w, q);
}

#include "backend/cpu/neon/linear_i8_tmpl.h"

void tdm_neon_linear_i8_dot(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                            int64_t tok1, void *scratch) {
    KERNELS[form_of(job->weight)](job, row0, row1, tok0, tok1, scratch);
}
