/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule, sixteen values at a time: the bits are AVX2's, since values do not meet. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/vec_inl.h"

#define TILE_VECTORS 2
#define WIDE_VECTORS 8

TDM_INLINE vec v_load_some(const float *x, int64_t n) {
    return n >= LANES ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(mask_below(n), x);
}

TDM_INLINE void v_store_some(float *out, int64_t n, vec v) {
    if (n >= LANES) {
        _mm512_storeu_ps(out, v);
    } else {
        _mm512_mask_storeu_ps(out, mask_below(n), v);
    }
}

#include "backend/cpu/delta_tmpl.h"

void tdm_avx512_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    delta_head_run(delta, span, head);
}
