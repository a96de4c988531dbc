/* SPDX-License-Identifier: Apache-2.0
 *
 * The convolution and the gated delta rule, eight channels or values at a time. The latter's order is
 * delta_tmpl.h's. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/vec_inl.h"

void tdm_avx2_conv_row(float *out, const float *const *in, const float *taps, int64_t ld_taps,
                       const float *bias, int32_t n_taps, int64_t dim) {
    for (int64_t c = 0; c < dim; c += 8) {
        int64_t n = dim - c;
        __m256 sum = bias != NULL ? load_some(bias + c, n) : _mm256_setzero_ps();
        for (int32_t j = 0; j < n_taps; ++j) {
            sum =
                _mm256_fmadd_ps(load_some(taps + j * ld_taps + c, n), load_some(in[j] + c, n), sum);
        }
        store_some(out + c, n, sum);
    }
}

#define TILE_VECTORS 4
#define WIDE_VECTORS 8

#include "backend/cpu/delta_tmpl.h"

void tdm_avx2_delta_head(const tdm_delta *delta, const tdm_delta_span *span, int32_t head) {
    delta_head_run(delta, span, head);
}
