/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products by widening: two products of bytes fit 16 bits (|w| <= 128 and |q| <= 127 make
 * 32512 at most), then they are added up in pairs in 32. */
#include "backend/cpu/neon/neon_priv.h"

#include "backend/cpu/neon/form_inl.h"

TDM_INLINE int32x4_t dot16(int32x4_t sum, int8x16_t w, int8x16_t q) {
    int16x8_t products = vmull_s8(vget_low_s8(w), vget_low_s8(q));
    return vpadalq_s16(sum, vmlal_high_s8(products, w, q));
}

#include "backend/cpu/neon/linear_i8_tmpl.h"

void tdm_neon_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch) {
    KERNELS[form_of(job->weight)](job, row0, row1, tok0, tok1, scratch);
}
