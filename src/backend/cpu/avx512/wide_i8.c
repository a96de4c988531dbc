/* SPDX-License-Identifier: Apache-2.0
 *
 * Wide int8 products with AVX-512 VNNI: sixteen rows in a register, eight tokens at a time, each
 * activation broadcast from memory by the dot instruction itself. */
#include "backend/cpu/avx512/avx512_priv.h"

#include "backend/cpu/avx512/wide_inl.h"

#define WIDE_SIGNED 0
#define TILE_TOKENS 8

/* Tokens [t0, t0 + 8) of a group. */
TDM_INLINE void wide_tile(int form, const uint8_t *p, int64_t n_blocks,
                          const tdm_cpu_x8_group *group, int t0, __m512 *inout) {
    const __m512i zero = _mm512_set1_epi32(-wide_zero(form));
    __m512 acc[TILE_TOKENS];
    for (int t = 0; t < TILE_TOKENS; ++t) {
        acc[t] = inout[t];
    }
    for (int64_t b = 0; b < n_blocks; ++b, p += wide_bytes(form, WIDE_SIGNED), ++group) {
        const wide_block *w = (const wide_block *)(const void *)p;
        __m512i sums[TILE_TOKENS];
        __m512i lasts[TILE_TOKENS];
        _Alignas(64) int32_t start[TDM_CPU_GROUP_TOKENS];
        _Alignas(64) int32_t last_start[TDM_CPU_GROUP_TOKENS];
        if (wide_zero(form) != 0) {
            __m512i first = _mm512_load_si512(group->first);
            __m512i last = _mm512_load_si512(group->last);
            if (wide_has_two(form)) {
                _mm512_store_si512(last_start, _mm512_mullo_epi32(zero, last));
            } else {
                first = _mm512_add_epi32(first, last);
            }
            _mm512_store_si512(start, _mm512_mullo_epi32(zero, first));
        }
        for (int t = 0; t < TILE_TOKENS; ++t) {
            sums[t] =
                wide_zero(form) != 0 ? _mm512_set1_epi32(start[t0 + t]) : _mm512_setzero_si512();
            lasts[t] = wide_zero(form) != 0 && wide_has_two(form)
                           ? _mm512_set1_epi32(last_start[t0 + t])
                           : _mm512_setzero_si512();
        }
        for (int j = 0; j < 8; ++j) {
            const __m512i v = _mm512_load_si512(w->w[j]);
            for (int t = 0; t < TILE_TOKENS; ++t) {
                const __m512i x = broadcast4_wide(group->q[t0 + t] + 4 * j);
                if (wide_has_two(form) && j >= 4) {
                    lasts[t] = _mm512_dpbusd_epi32(lasts[t], v, x);
                } else {
                    sums[t] = _mm512_dpbusd_epi32(sums[t], v, x);
                }
            }
        }
        for (int t = 0; t < TILE_TOKENS; ++t) {
            if (form_has_halves(form)) {
                sums[t] = wide_scaled(w->half.scale.first, w->half.scale.last, sums[t], lasts[t]);
            }
            acc[t] = wide_step(form, w, group, t0 + t, sums[t], lasts[t], acc[t]);
        }
    }
    for (int t = 0; t < TILE_TOKENS; ++t) {
        inout[t] = acc[t];
    }
}

TDM_INLINE void wide_group(int form, const uint8_t *p, int64_t n_blocks,
                           const tdm_cpu_x8_group *group, __m512 *acc) {
    for (int t0 = 0; t0 < TDM_CPU_GROUP_TOKENS; t0 += TILE_TOKENS) {
        wide_tile(form, p, n_blocks, group, t0, acc + t0);
    }
}

#include "backend/cpu/avx512/wide_tmpl.h"

void tdm_avx512_linear_i8_wide(const tdm_cpu_linear_job *job, int64_t row0, int64_t row1,
                               int64_t group0, int64_t group1, void *scratch) {
    WIDE_KERNELS[job->weight->layout](job, row0, row1, group0, group1, scratch);
}
