/* SPDX-License-Identifier: Apache-2.0
 *
 * The integer sums of a panel block with a dot instruction: it multiplies 32 pairs (unsigned by
 * signed) and adds them in fours to 32 bits, so nothing has to fit 16. Zero points enter as the
 * accumulators' start: -zero * (sum of the block's activations). Signed weights become unsigned by
 * adding 128. A file that includes this gives first
 *     TILE_MAX    tokens of the widest tile
 *     DPBUSD      the instruction on 256 bits, as (accumulator, unsigned, signed) */
#ifndef TDM_BACKEND_CPU_AVX2_VNNI_TMPL_H
#define TDM_BACKEND_CPU_AVX2_VNNI_TMPL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

/* What is subtracted once signed weights have become unsigned. */
TDM_INLINE int unsigned_zero(int form) {
    return form_zero(form) + (form_is_signed(form) ? 128 : 0);
}

/* The integer sums of a block: 8 rows by n tokens. q[t] points at the block's 32 activations. */
TDM_INLINE void block_sums(int form, int is_packed, int n, const uint8_t *p,
                           const block_scales *scales, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, __m256i *sums, __m256i *lasts) {
    const int zero = unsigned_zero(form);
    const int has_two = form_has_halves(form) || form_is_pair(form);
    __m256i last[TILE_MAX]; /* the last half of the block */
    for (int t = 0; t < n; ++t) {
        sums[t] = zero == 0
                      ? _mm256_setzero_si256()
                      : _mm256_set1_epi32(-zero * (has_two ? xb[t]->half_sums[0] : xb[t]->sum));
        if (has_two) {
            last[t] = _mm256_set1_epi32(-zero * xb[t]->half_sums[1]);
        }
    }
    for (int i = 0; i < 8; ++i) {
        int j = form_bits(form) == 8 ? i : (i >> 1) + 4 * (i & 1); /* both nibbles of a load */
        __m256i w = panel_vector(form, is_packed, p, j);
        if (form_is_signed(form)) {
            w = _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
        }
        for (int t = 0; t < n; ++t) {
            __m256i x = broadcast4(q[t] + 4 * j);
            if (has_two && j >= 4) {
                last[t] = DPBUSD(last[t], w, x);
            } else {
                sums[t] = DPBUSD(sums[t], w, x);
            }
        }
    }
    if (form_has_halves(form)) {
        __m256i first_scale = _mm256_srai_epi32(_mm256_slli_epi32(scales->pairs, 16), 16);
        __m256i last_scale = _mm256_srai_epi32(scales->pairs, 16);
        for (int t = 0; t < n; ++t) {
            sums[t] = _mm256_add_epi32(_mm256_mullo_epi32(sums[t], first_scale),
                                       _mm256_mullo_epi32(last[t], last_scale));
        }
    }
    for (int t = 0; t < n && form_is_pair(form); ++t) {
        lasts[t] = last[t];
    }
}

#endif
