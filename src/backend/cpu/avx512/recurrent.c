/* SPDX-License-Identifier: Apache-2.0
 *
 * The gated delta rule, sixteen values at a time: the bits are AVX2's, since values do not meet. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx2/math_inl.h"

#define LANES 16
#define TILE_VECTORS 2
#define WIDE_VECTORS 8

typedef __m512 vec;

/* Lanes [0, n). */
TDM_INLINE __mmask16 mask_below(int64_t n) {
    const uint32_t clamped = n >= LANES ? LANES : n <= 0 ? 0 : (uint32_t)n;
    return (__mmask16)((1u << clamped) - 1u);
}

TDM_INLINE vec v_load(const float *x) {
    return _mm512_loadu_ps(x);
}

TDM_INLINE vec v_load_some(const float *x, int64_t n) {
    return n >= LANES ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(mask_below(n), x);
}

TDM_INLINE void v_store(float *out, vec v) {
    _mm512_storeu_ps(out, v);
}

TDM_INLINE void v_store_some(float *out, int64_t n, vec v) {
    if (n >= LANES) {
        _mm512_storeu_ps(out, v);
    } else {
        _mm512_mask_storeu_ps(out, mask_below(n), v);
    }
}

TDM_INLINE vec v_set1(float x) {
    return _mm512_set1_ps(x);
}

TDM_INLINE vec v_sub(vec a, vec b) {
    return _mm512_sub_ps(a, b);
}

TDM_INLINE vec v_mul(vec a, vec b) {
    return _mm512_mul_ps(a, b);
}

TDM_INLINE vec v_fma(vec a, vec b, vec c) {
    return _mm512_fmadd_ps(a, b, c);
}

#include "backend/cpu/delta_tmpl.h"

void tdm_avx512_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    delta_head_run(delta, span, head);
}
