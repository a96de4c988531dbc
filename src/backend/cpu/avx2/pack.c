/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing of panels at load; see panel_inl.h for the layout. Rows past the last are packed as
 * zeros with scale zero. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/panel_inl.h"
#include "base/arith.h"

size_t tdm_avx2_pack_bytes(tdm_dtype dtype, int64_t n_out, int64_t n_in) {
    size_t n_panels = (size_t)((n_out + TDM_CPU_PANEL_ROWS - 1) / TDM_CPU_PANEL_ROWS);
    size_t bytes = 0;
    return tdm_mul_size(n_panels, packed_panel(dtype, n_in), &bytes) ? bytes : SIZE_MAX;
}

TDM_INLINE void pack_ints(tdm_dtype dtype, const uint8_t *const rows[8], int n_rows, int64_t b,
                          uint8_t *p) {
    __m256i v[8];
    for (int r = 0; r < 8; ++r) {
        v[r] = r < n_rows ? block_ints(dtype, rows[r], b) : _mm256_setzero_si256();
    }
    transpose8(v);
    __m256i *out = (__m256i *)(void *)p;
    if (dtype == TDM_DTYPE_Q8_0) {
        for (int j = 0; j < 8; ++j) {
            _mm256_storeu_si256(out + j, v[j]);
        }
        return;
    }
    const __m256i low4 = _mm256_set1_epi8(15);
    for (int j = 0; j < 4; ++j) {
        __m256i high = _mm256_slli_epi16(_mm256_and_si256(v[j + 4], low4), 4);
        _mm256_storeu_si256(out + j, _mm256_or_si256(_mm256_and_si256(v[j], low4), high));
    }
    if (packed_ints(dtype) == 160) {
        __m256i bits = _mm256_setzero_si256();
        for (int j = 0; j < 8; ++j) {
            __m256i bit = _mm256_and_si256(_mm256_srli_epi16(v[j], 4), _mm256_set1_epi8(1));
            bits = _mm256_or_si256(bits, _mm256_sll_epi16(bit, _mm_cvtsi32_si128(j)));
        }
        _mm256_storeu_si256(out + 4, bits);
    }
    if (dtype == TDM_DTYPE_Q6_K) {
        for (int half = 0; half < 2; ++half) {
            __m256i bits = _mm256_setzero_si256();
            for (int j = 0; j < 4; ++j) {
                __m256i two =
                    _mm256_and_si256(_mm256_srli_epi16(v[4 * half + j], 4), _mm256_set1_epi8(3));
                bits = _mm256_or_si256(bits, _mm256_sll_epi16(two, _mm_cvtsi32_si128(2 * j)));
            }
            _mm256_storeu_si256(out + 4 + half, bits);
        }
    }
}

/* Where the two bytes of d and of the min stand in a block of the file. */
static int file_scale_at(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_Q6_K ? 208 : 0;
}

static void pack_scales(tdm_dtype dtype, const uint8_t *const rows[8], int n_rows, int64_t b,
                        uint8_t *p) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    memset(p, 0, (size_t)(packed_block(dtype) - packed_ints(dtype)));
    for (int r = 0; r < n_rows; ++r) {
        if (dtype == TDM_DTYPE_Q6_K) {
            p[2 * r] = (uint8_t)block_half_scale(rows[r], b, 0);
            p[2 * r + 1] = (uint8_t)block_half_scale(rows[r], b, 1);
        } else if (dtype_is_k(dtype)) {
            const uint8_t *super = rows[r] + (b / 8) * (int64_t)info->block_bytes;
            tdm_k4_scale_min(super + 4, (int)(b % 8), &p[r], &p[8 + r]);
        } else {
            const uint8_t *block = rows[r] + b * (int64_t)info->block_bytes;
            memcpy(p + 2 * r, block, 2);
            if (block_has_min(dtype)) {
                memcpy(p + 16 + 2 * r, block + 2, 2);
            }
        }
    }
}

static void pack_head(tdm_dtype dtype, const uint8_t *const rows[8], int n_rows, int64_t b,
                      uint8_t *p) {
    memset(p, 0, (size_t)packed_head(dtype));
    for (int r = 0; r < n_rows; ++r) {
        const uint8_t *super = rows[r] + (b / 8) * (int64_t)TDM_DTYPES[dtype].block_bytes;
        memcpy(p + 2 * r, super + file_scale_at(dtype), 2);
        if (packed_head(dtype) == 32) {
            memcpy(p + 16 + 2 * r, super + 2, 2);
        }
    }
}

TDM_INLINE void pack_panel(tdm_dtype dtype, const tdm_weight *w, int64_t panel) {
    const uint8_t *rows[8];
    uint8_t *p = (uint8_t *)w->packed + (size_t)panel * packed_panel(dtype, w->n_in);
    int64_t row0 = panel * TDM_CPU_PANEL_ROWS;
    int n_rows = (int)tdm_cpu_min(TDM_CPU_PANEL_ROWS, w->n_out - row0);
    for (int r = 0; r < 8; ++r) {
        rows[r] = w->data + (size_t)(row0 + (r < n_rows ? r : 0)) * w->row_bytes;
    }
    for (int64_t b = 0; b < w->n_in / 32; ++b) {
        if (packed_head(dtype) > 0 && b % 8 == 0) {
            pack_head(dtype, rows, n_rows, b, p);
            p += packed_head(dtype);
        }
        pack_ints(dtype, rows, n_rows, b, p);
        pack_scales(dtype, rows, n_rows, b, p + packed_ints(dtype));
        p += packed_block(dtype);
    }
}

void tdm_avx2_pack(const tdm_weight *weight, int64_t panel0, int64_t panel1) {
    for (int64_t i = panel0; i < panel1; ++i) {
        switch ((int)weight->dtype) {
        case TDM_DTYPE_Q4_0:
            pack_panel(TDM_DTYPE_Q4_0, weight, i);
            break;
        case TDM_DTYPE_Q4_1:
            pack_panel(TDM_DTYPE_Q4_1, weight, i);
            break;
        case TDM_DTYPE_Q5_0:
            pack_panel(TDM_DTYPE_Q5_0, weight, i);
            break;
        case TDM_DTYPE_Q5_1:
            pack_panel(TDM_DTYPE_Q5_1, weight, i);
            break;
        case TDM_DTYPE_Q8_0:
            pack_panel(TDM_DTYPE_Q8_0, weight, i);
            break;
        case TDM_DTYPE_Q4_K:
            pack_panel(TDM_DTYPE_Q4_K, weight, i);
            break;
        case TDM_DTYPE_Q5_K:
            pack_panel(TDM_DTYPE_Q5_K, weight, i);
            break;
        default:
            pack_panel(TDM_DTYPE_Q6_K, weight, i);
            break;
        }
    }
}
