/* SPDX-License-Identifier: Apache-2.0
 *
 * The integer sums of a panel block with a dot instruction: it multiplies 32 pairs (unsigned by
 * signed) and adds them in fours to 32 bits, so nothing has to fit 16. Zero points enter as the
 * accumulators' start: -zero * (sum of the block's activations); of a lone token they are taken off at
 * the end. Signed weights become unsigned by adding 128. A file that includes this gives first
 *     TILE_MAX    tokens of the widest tile
 *     DPBUSD      the instruction on 256 bits, as (accumulator, unsigned, signed) */
#ifndef TDM_BACKEND_CPU_AVX2_VNNI_TMPL_H
#define TDM_BACKEND_CPU_AVX2_VNNI_TMPL_H

#include "backend/cpu/avx2/linear_i8_inl.h"

/* What is subtracted once signed weights have become unsigned. */
TDM_INLINE int unsigned_zero(int form, int is_packed) {
    return form_zero(form) + (form_is_signed(form, is_packed) ? 128 : 0);
}

/* sum - zero * (the n numbers at e, from memory: integer registers are far); zero is 0 or a power of
 * two. */
TDM_INLINE __m256i less_zeros(__m256i sum, int zero, const int32_t *e, int n) {
    if (zero == 0) {
        return sum;
    }
    __m256i v = _mm256_set1_epi32(e[0]);
    if (n == 2) {
        v = _mm256_add_epi32(v, _mm256_set1_epi32(e[1]));
    }
    return _mm256_sub_epi32(sum, _mm256_slli_epi32(v, __builtin_ctz((unsigned)zero)));
}

TDM_INLINE __m256i dot_masked(__m256i sum, __m256i v, int mask, const int8_t *q) {
    v = _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
    return DPBUSD(sum, v, broadcast4(q));
}

/* Codes of one and two bits against a lone token: bits are multiplied where they stand in a byte, as
 * powers of two, and what they weigh is shifted off the sums. */
TDM_INLINE void narrow_sums(int form, const uint8_t *p, const int8_t *q, __m256i *out_first,
                            __m256i *out_last) {
    const __m256i zero = _mm256_setzero_si256();
    if (form_bits(form) == 1) { /* of 0 or 2, in A1 of 0 or 1 */
        __m256i v = load256(p);
        __m256i u = _mm256_srli_epi16(v, 4);
        __m256i a[4];
        for (int i = 0; i < 4; ++i) {
            a[i] = dot_masked(dot_masked(zero, v, 1 << i, q + 4 * i), u, 1 << i, q + 4 * (i + 4));
        }
        const int off = form == FORM_A1;
        a[0] = off ? a[0] : _mm256_slli_epi32(a[0], 1);
        a[0] = _mm256_add_epi32(a[0], _mm256_srai_epi32(a[1], off));
        a[2] = _mm256_add_epi32(_mm256_srai_epi32(a[2], 1 + off), _mm256_srai_epi32(a[3], 2 + off));
        *out_first = a[0];
        *out_last = a[2];
        return;
    }
    for (int h = 0; h < 2; ++h) {
        __m256i v = load256(p + PANEL_VECTOR * h);
        __m256i u = _mm256_srli_epi16(v, 4);
        __m256i low = dot_masked(dot_masked(zero, v, 3, q + 16 * h), u, 3, q + 16 * h + 8);
        __m256i high = dot_masked(dot_masked(zero, v, 12, q + 16 * h + 4), u, 12, q + 16 * h + 12);
        *(h == 0 ? out_first : out_last) = _mm256_add_epi32(low, _mm256_srai_epi32(high, 2));
    }
}

/* Where sums of a block start: what zero points take off them. */
TDM_INLINE __m256i minus_zeros(int zero, int32_t sum) {
    return zero == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(-zero * sum);
}

/* A lone token against half a panel. Its sum is four chains, as one of eight dots is waited for (4 cycles
 * each). */
TDM_INLINE void lone_sums(int form, int is_packed, const uint8_t *p, const int8_t *q,
                          const tdm_cpu_x8_block *xb, __m256i *out_sum, __m256i *out_last) {
    const int zero = unsigned_zero(form, is_packed);
    const int has_two = form_has_halves(form) || form_is_pair(form);
    const int is_flipped = is_packed && form_has_table(form);
    __m256i chain[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                        _mm256_setzero_si256()};
    if (is_packed && form_bits(form) <= 2) {
        narrow_sums(form, p, q, &chain[0], &chain[2]);
    }
    for (int i = 0; i < 8 && !(is_packed && form_bits(form) <= 2); ++i) {
        const int j = form_bits(form) == 8 ? i : (i >> 1) + 4 * (i & 1); /* nibbles of a load */
        const int at = 2 * (has_two ? j >= 4 : i & 1) + (has_two ? j & 1 : (i >> 1) & 1);
        __m256i w = panel_read(form, is_packed, is_flipped, p, j);
        if (form_is_signed(form, is_packed) && !is_flipped) {
            w = _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
        }
        chain[at] = DPBUSD(chain[at], w, broadcast4(q + 4 * j));
    }
    const __m256i first = _mm256_add_epi32(chain[0], chain[1]);
    const __m256i last = _mm256_add_epi32(chain[2], chain[3]);
    if (has_two) {
        *out_sum = less_zeros(first, zero, &xb->eights[0], 2);
        *out_last = less_zeros(last, zero, &xb->eights[2], 2);
    } else {
        *out_sum = less_zeros(_mm256_add_epi32(first, last), zero, &xb->sum, 1);
    }
}

/* Several tokens against half a panel. */
TDM_INLINE void tile_sums(int form, int is_packed, int n, const uint8_t *p, const int8_t *const *q,
                          const tdm_cpu_x8_block *const *xb, __m256i *sums, __m256i *lasts) {
    const int zero = unsigned_zero(form, is_packed);
    const int has_two = form_has_halves(form) || form_is_pair(form);
    const int is_flipped = is_packed && form_has_table(form);
    for (int t = 0; t < n; ++t) {
        sums[t] = minus_zeros(zero, has_two ? xb[t]->half_sums[0] : xb[t]->sum);
        lasts[t] = minus_zeros(has_two ? zero : 0, xb[t]->half_sums[1]);
    }
    for (int i = 0; i < 8; ++i) {
        const int j = form_bits(form) == 8 ? i : (i >> 1) + 4 * (i & 1); /* nibbles of a load */
        __m256i w = panel_read(form, is_packed, is_flipped, p, j);
        if (form_is_signed(form, is_packed) && !is_flipped) {
            w = _mm256_xor_si256(w, _mm256_set1_epi8((char)0x80));
        }
        for (int t = 0; t < n; ++t) {
            __m256i *sum = has_two && j >= 4 ? &lasts[t] : &sums[t];
            *sum = DPBUSD(*sum, w, broadcast4(q[t] + 4 * j));
        }
    }
}

/* Two halves' sums under their integer scales. */
TDM_INLINE __m256i scaled_halves(__m256i pairs, __m256i first, __m256i last) {
    const __m256i scale = _mm256_srai_epi32(_mm256_slli_epi32(pairs, 16), 16);
    return _mm256_add_epi32(_mm256_mullo_epi32(first, scale),
                            _mm256_mullo_epi32(last, _mm256_srai_epi32(pairs, 16)));
}

/* The integer sums of half a panel's block: 8 rows by n tokens. q[t] points at the block's 32
 * activations. */
TDM_INLINE void block_sums(int form, int is_packed, int n, const uint8_t *p, int half,
                           const block_scales *scales, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, __m256i *sums, __m256i *lasts) {
    const uint8_t *ints = p + 4 * HALF_ROWS * half;
    if (n == 1) {
        lone_sums(form, is_packed, ints, q[0], xb[0], sums, lasts);
    } else {
        tile_sums(form, is_packed, n, ints, q, xb, sums, lasts);
    }
    for (int t = 0; t < n && form_has_halves(form); ++t) {
        sums[t] = scaled_halves(scales->pairs, sums[t], lasts[t]);
    }
    for (int t = 0; t < n && is_packed && form_is_ternary(form); ++t) {
        ternary_end(form, p, half, xb[t], &sums[t], &lasts[t]);
    }
}

#endif
