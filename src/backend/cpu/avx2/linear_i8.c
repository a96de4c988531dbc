/* SPDX-License-Identifier: Apache-2.0
 *
 * int8 products on panels. Nibbles stay unsigned and activations signed; products of a block are
 * added up in 16 bits as far as they fit, widened once, corrected for the zero point by the block's
 * sum, and then follow the f32 law of cpu_priv.h. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/madd_inl.h"

#define TILE_MAX 4

/* zero * v for the zero points that forms have. */
TDM_INLINE __m256i times_zero(int form, __m256i v) {
    switch (form_zero(form)) {
    case 1:
        return v;
    case 4:
        return _mm256_slli_epi32(v, 2);
    case 8:
        return _mm256_slli_epi32(v, 3);
    case 16:
        return _mm256_slli_epi32(v, 4);
    case 32:
        return _mm256_slli_epi32(v, 5);
    default: /* -128 */
        return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(v, 7));
    }
}

/* The integer sums of half a panel's block: 8 rows by n tokens. q[t] points at the block's 32
 * activations. */
TDM_INLINE void block_sums(int form, int is_packed, int n, const uint8_t *p, int half,
                           const block_scales *scales, const int8_t *const *q,
                           const tdm_cpu_x8_block *const *xb, __m256i *sums, __m256i *lasts) {
    const int depth = sum_depth(form);
    const int is_signed = form_is_signed(form, is_packed);
    __m256i part[TILE_MAX];
    for (int g = 0; g < 8 / depth; ++g) {
        const int is_last = g * depth >= 4;
        __m256i factor = _mm256_set1_epi16(1);
        if (form_has_halves(form)) {
            factor = one_half(scales->pairs, is_last);
        }
        for (int i = 0; i < depth; ++i) {
            int j = depth == 8 ? (i >> 1) + 4 * (i & 1) : g * depth + i;
            __m256i w = panel_vector(form, is_packed, p + 4 * HALF_ROWS * half, j);
            __m256i magnitude = is_signed ? _mm256_abs_epi8(w) : w;
            for (int t = 0; t < n; ++t) {
                __m256i v = products(is_signed, w, magnitude, broadcast4(q[t] + 4 * j));
                if (i == 0) {
                    part[t] = v;
                } else {
                    part[t] = _mm256_add_epi16(part[t], v);
                    PIN(part[t]);
                }
            }
        }
        for (int t = 0; t < n; ++t) {
            __m256i wide = _mm256_madd_epi16(part[t], factor);
            __m256i *sum = form_is_pair(form) && is_last ? &lasts[t] : &sums[t];
            int is_first = g == 0 || (form_is_pair(form) && g * depth == 4);
            *sum = is_first ? wide : _mm256_add_epi32(*sum, wide);
        }
    }
    for (int t = 0; t < n && form_zero(form) != 0; ++t) {
        __m256i zero = form_has_halves(form)
                           ? _mm256_madd_epi16(scales->pairs, broadcast_halves(xb[t]))
                           : _mm256_set1_epi32(xb[t]->sum);
        sums[t] = _mm256_sub_epi32(sums[t], times_zero(form, zero));
    }
    for (int t = 0; t < n && is_packed && form_is_ternary(form); ++t) {
        ternary_end(form, p, half, xb[t], &sums[t], &lasts[t]);
    }
}

#include "backend/cpu/avx2/linear_i8_tmpl.h"

void tdm_avx2_linear_i8(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1, int64_t tok0,
                        int64_t tok1, void *scratch) {
    const tdm_weight *w = job->weight;
    if (w->packed != NULL && tok1 - tok0 >= BATCH_TOKENS_MIN) {
        tdm_avx2_linear_i8_batch(job, row0, row1, tok0, tok1, scratch);
        return;
    }
    if (w->packed != NULL && tok1 - tok0 == 1) {
        tdm_avx2_lone_i8(job, row0, row1, tok0, scratch);
        return;
    }
    (w->packed != NULL ? PACKED_KERNELS : MAPPED_KERNELS)[w->layout](job, row0, row1, tok0, tok1,
                                                                     scratch);
}

/* As the scalar twin, to the bit. */
void tdm_avx2_quantize(const float *x, int64_t n, int8_t *q, tdm_cpu_x8_block *blocks) {
    const __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i evens = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    for (int64_t b = 0; b < n / 32; ++b, x += 32, q += 32) {
        __m256 v[4];
        __m256i bits = _mm256_setzero_si256();
        for (int i = 0; i < 4; ++i) {
            v[i] = _mm256_loadu_ps(x + 8 * i);
            bits = _mm256_max_epi32(bits, _mm256_and_si256(_mm256_castps_si256(v[i]), magnitude));
        }
        /* Magnitudes order as integers; an infinity or NaN is above every number. */
        __m128i m = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
        m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1));
        uint32_t largest = (uint32_t)_mm_cvtsi128_si32(m);
        tdm_cpu_x8_block block = {0};
        __m256i packed = _mm256_setzero_si256();
        if (largest >= 0x7f800000u) {
            block.d = tdm_f32_from_bits(0x7fc00000u);
        } else if (largest >= 0x0d800000u) {
            __m256 inverse = _mm256_set1_ps(127.0f / tdm_f32_from_bits(largest));
            __m256i r[4];
            block.d = tdm_f32_from_bits(largest) / 127.0f;
            for (int i = 0; i < 4; ++i) {
                r[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v[i], inverse));
            }
            packed =
                _mm256_packs_epi16(_mm256_packs_epi32(r[0], r[1]), _mm256_packs_epi32(r[2], r[3]));
            packed = _mm256_permutevar8x32_epi32(packed, order);
            __m256i halves = _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), packed),
                                               _mm256_set1_epi16(1));
            __m256i eights = _mm256_add_epi32(halves, _mm256_srli_epi64(halves, 32));
            eights = _mm256_permutevar8x32_epi32(eights, evens);
            _mm_storeu_si128((__m128i *)(void *)block.eights, _mm256_castsi256_si128(eights));
            __m256i pair = _mm256_add_epi32(halves, _mm256_shuffle_epi32(halves, 0x4e));
            pair = _mm256_add_epi32(pair, _mm256_shuffle_epi32(pair, 0xb1));
            block.half_sums[0] = (int16_t)_mm_cvtsi128_si32(_mm256_castsi256_si128(pair));
            block.half_sums[1] = (int16_t)_mm_cvtsi128_si32(_mm256_extracti128_si256(pair, 1));
        }
        _mm256_storeu_si256((__m256i *)(void *)q, packed);
        block.sum = (int32_t)block.half_sums[0] + (int32_t)block.half_sums[1];
        block.s = block.d * (float)block.sum;
        blocks[b] = block;
    }
}
