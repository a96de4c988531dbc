/* SPDX-License-Identifier: Apache-2.0
 *
 * Row kernels. The last few values of a row go through masked loads and the same arithmetic, so a
 * value's bits depend on its place in the row and on nothing else. */
#include "backend/cpu/avx2/avx2_priv.h"

#include "backend/cpu/avx2/math_inl.h"
#include "tensor/half.h"

#include <math.h>

/* The sum of squares runs in eight f64 lanes, so its rounding does not show in f32. */
void tdm_avx2_rms_norm(float *out, const float *x, const float *w, int64_t dim, float eps) {
    __m256d lo = _mm256_setzero_pd();
    __m256d hi = _mm256_setzero_pd();
    for (int64_t i = 0; i < dim; i += 8) {
        __m256 v = load_some(x + i, dim - i);
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        lo = _mm256_fmadd_pd(a, a, lo);
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    double part[4];
    _mm256_storeu_pd(part, _mm256_add_pd(lo, hi));
    double sum = (part[0] + part[1]) + (part[2] + part[3]);
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)(sum / (double)dim) + eps));
    for (int64_t i = 0; i < dim; i += 8) {
        __m256 v = _mm256_mul_ps(load_some(x + i, dim - i), scale);
        if (w != NULL) {
            v = _mm256_mul_ps(v, load_some(w + i, dim - i));
        }
        store_some(out + i, dim - i, v);
    }
}

/* Sums in eight f64 lanes; lanes past the row's end are cleared, so they add nothing. */
void tdm_avx2_layer_norm(float *out, const float *x, const float *w, const float *bias, int64_t dim,
                         float eps) {
    double part[4];
    __m256d lo = _mm256_setzero_pd();
    __m256d hi = _mm256_setzero_pd();
    for (int64_t i = 0; i < dim; i += 8) {
        __m256 v = load_some(x + i, dim - i);
        lo = _mm256_add_pd(lo, _mm256_cvtps_pd(_mm256_castps256_ps128(v)));
        hi = _mm256_add_pd(hi, _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1)));
    }
    _mm256_storeu_pd(part, _mm256_add_pd(lo, hi));
    double sum = (part[0] + part[1]) + (part[2] + part[3]);
    __m256 mean = _mm256_set1_ps((float)(sum / (double)dim));
    lo = _mm256_setzero_pd();
    hi = _mm256_setzero_pd();
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        __m256 v = _mm256_sub_ps(load_some(x + i, n), mean);
        v = n >= 8 ? v : _mm256_and_ps(v, _mm256_castsi256_ps(lanes_below(n)));
        __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
        __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        lo = _mm256_fmadd_pd(a, a, lo);
        hi = _mm256_fmadd_pd(b, b, hi);
    }
    _mm256_storeu_pd(part, _mm256_add_pd(lo, hi));
    sum = (part[0] + part[1]) + (part[2] + part[3]);
    __m256 scale = _mm256_set1_ps(1.0f / sqrtf((float)(sum / (double)dim) + eps));
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        __m256 v = _mm256_mul_ps(_mm256_sub_ps(load_some(x + i, n), mean), scale);
        v = w != NULL ? _mm256_mul_ps(v, load_some(w + i, n)) : v;
        store_some(out + i, n, bias != NULL ? _mm256_add_ps(v, load_some(bias + i, n)) : v);
    }
}

/* Products and sums are rounded one by one, as the reference framework and the scalar twin do. */
static void rope_halves(float *a, float *b, const float *table, int32_t n_freq) {
    for (int32_t j = 0; j < n_freq; j += 8) {
        int64_t n = n_freq - j;
        __m256 t0 = load_some(table + 2 * (int64_t)j, 2 * n);
        __m256 t1 = n > 4 ? load_some(table + 2 * (int64_t)j + 8, 2 * n - 8) : _mm256_setzero_ps();
        /* (c0 s0 c1 s1 | c2 s2 c3 s3) and the next four, to (c0..c7) and (s0..s7). */
        __m256 even = _mm256_shuffle_ps(t0, t1, 0x88);
        __m256 odd = _mm256_shuffle_ps(t0, t1, 0xdd);
        __m256 c = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(even), 0xd8));
        __m256 s = _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(odd), 0xd8));
        __m256 x = load_some(a + j, n);
        __m256 y = load_some(b + j, n);
        store_some(a + j, n, _mm256_sub_ps(_mm256_mul_ps(x, c), _mm256_mul_ps(y, s)));
        store_some(b + j, n, _mm256_add_ps(_mm256_mul_ps(y, c), _mm256_mul_ps(x, s)));
    }
}

static void rope_neighbours(float *x, const float *table, int32_t n_freq) {
    for (int64_t i = 0; i < 2 * (int64_t)n_freq; i += 8) {
        int64_t n = 2 * (int64_t)n_freq - i;
        __m256 t = load_some(table + i, n);
        __m256 v = load_some(x + i, n);
        __m256 direct = _mm256_mul_ps(v, _mm256_moveldup_ps(t));
        __m256 crossed = _mm256_mul_ps(_mm256_permute_ps(v, 0xb1), _mm256_movehdup_ps(t));
        store_some(x + i, n, _mm256_addsub_ps(direct, crossed));
    }
}

void tdm_avx2_rope(float *x, int32_t n_heads, int32_t head_dim, const float *table, int32_t n_freq,
                   tdm_rope_pairing pairing) {
    for (int32_t h = 0; h < n_heads; ++h) {
        float *head = x + (int64_t)h * head_dim;
        if (pairing == TDM_ROPE_HALVES) {
            rope_halves(head, head + n_freq, table, n_freq);
        } else {
            rope_neighbours(head, table, n_freq);
        }
    }
}

/* bf16 by adding half of the last kept place, ties to even; NaN keeps its top bits, quiet. */
TDM_INLINE __m128i bf16_round8(__m256 v) {
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m256i kept = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, is_nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(kept), _mm256_extracti128_si256(kept, 1));
}

void tdm_avx2_kv_store(uint8_t *out, const float *x, int32_t dim, tdm_dtype dtype) {
    if (dtype == TDM_DTYPE_F32) {
        memcpy(out, x, (size_t)dim * sizeof *x);
        return;
    }
    int32_t i = 0;
    for (; i + 8 <= dim; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * (size_t)i),
                         bf16_round8(_mm256_loadu_ps(x + i)));
    }
    for (; i < dim; ++i) {
        uint16_t value = tdm_bf16_from_f32(x[i]);
        memcpy(out + 2 * (size_t)i, &value, sizeof value);
    }
}

/* kind is act's, a constant where this is called. min and max give their second operand when either
 * is NaN, so NaN stays NaN. */
TDM_INLINE __m256 activation8(tdm_glu kind, const tdm_activation *act, __m256 x) {
    const __m256 one = _mm256_set1_ps(1.0f);
    const __m256 half = _mm256_set1_ps(0.5f);
    if (kind == TDM_GLU_GELU_TANH) {
        __m256 cube = _mm256_mul_ps(_mm256_mul_ps(x, x), x);
        __m256 sum = _mm256_add_ps(x, _mm256_mul_ps(_mm256_set1_ps(TDM_CPU_GELU_CUBE), cube));
        __m256 t = tanh8(_mm256_mul_ps(_mm256_set1_ps(TDM_CPU_SQRT_2_PI), sum));
        return _mm256_mul_ps(_mm256_mul_ps(half, x), _mm256_add_ps(one, t));
    }
    if (kind == TDM_GLU_GELU_ERF) {
        __m256 y = _mm256_mul_ps(x, _mm256_set1_ps(-TDM_CPU_SQRT_HALF));
        return _mm256_mul_ps(_mm256_mul_ps(half, x), erfc8(y));
    }
    if (kind == TDM_GLU_IDENTITY) {
        return x;
    }
    if (kind == TDM_GLU_CLAMPED) {
        __m256 y = _mm256_min_ps(_mm256_set1_ps(act->limit), x);
        __m256 inner = _mm256_mul_ps(_mm256_set1_ps(act->alpha), y);
        __m256 power = exp8(_mm256_xor_ps(inner, _mm256_set1_ps(-0.0f)));
        return _mm256_div_ps(y, _mm256_add_ps(one, power));
    }
    __m256 e = exp8(_mm256_xor_ps(x, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(kind == TDM_GLU_SIGMOID ? one : x, _mm256_add_ps(one, e));
}

/* What the activation multiplies. */
TDM_INLINE __m256 gated8(tdm_glu kind, const tdm_activation *act, __m256 up) {
    if (kind != TDM_GLU_CLAMPED) {
        return up;
    }
    up = _mm256_min_ps(_mm256_set1_ps(act->limit), up);
    up = _mm256_max_ps(_mm256_set1_ps(-act->limit), up);
    return _mm256_add_ps(up, _mm256_set1_ps(1.0f));
}

TDM_INLINE void glu_rows(tdm_glu kind, const tdm_activation *act, float *out, const float *gate,
                         const float *up, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        __m256 v = activation8(kind, act, load_some(gate + i, n));
        if (up != NULL) {
            v = _mm256_mul_ps(v, gated8(kind, act, load_some(up + i, n)));
        }
        store_some(out + i, n, v);
    }
}

void tdm_avx2_glu(const tdm_activation *act, float *out, const float *gate, const float *up,
                  int64_t dim) {
    switch (act->kind) {
    case TDM_GLU_GELU_TANH:
        glu_rows(TDM_GLU_GELU_TANH, act, out, gate, up, dim);
        break;
    case TDM_GLU_GELU_ERF:
        glu_rows(TDM_GLU_GELU_ERF, act, out, gate, up, dim);
        break;
    case TDM_GLU_SIGMOID:
        glu_rows(TDM_GLU_SIGMOID, act, out, gate, up, dim);
        break;
    case TDM_GLU_IDENTITY:
        glu_rows(TDM_GLU_IDENTITY, act, out, gate, up, dim);
        break;
    case TDM_GLU_CLAMPED:
        glu_rows(TDM_GLU_CLAMPED, act, out, gate, up, dim);
        break;
    case TDM_GLU_SILU:
    case TDM_GLU_COUNT:
    default:
        glu_rows(TDM_GLU_SILU, act, out, gate, up, dim);
        break;
    }
}

void tdm_avx2_softcap(float *x, float cap, int64_t dim) {
    const __m256 c = _mm256_set1_ps(cap);
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        __m256 t = tanh8(_mm256_div_ps(load_some(x + i, n), c));
        store_some(x + i, n, _mm256_mul_ps(c, t));
    }
}

void tdm_avx2_add(float *x, const float *y, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        store_some(x + i, n, _mm256_add_ps(load_some(x + i, n), load_some(y + i, n)));
    }
}

void tdm_avx2_scale(float *x, float scale, int64_t dim) {
    for (int64_t i = 0; i < dim; i += 8) {
        int64_t n = dim - i;
        store_some(x + i, n, _mm256_mul_ps(load_some(x + i, n), _mm256_set1_ps(scale)));
    }
}

/* First the largest value, then its first place: two sweeps, no index kept per lane. */
int32_t tdm_avx2_argmax(const float *x, int64_t dim) {
    const __m256 lowest = _mm256_set1_ps(-INFINITY);
    __m256 best[4] = {lowest, lowest, lowest, lowest};
    int64_t i = 0;
    for (; i + 32 <= dim; i += 32) { /* max gives its second operand when the first is NaN */
        best[0] = _mm256_max_ps(_mm256_loadu_ps(x + i), best[0]);
        best[1] = _mm256_max_ps(_mm256_loadu_ps(x + i + 8), best[1]);
        best[2] = _mm256_max_ps(_mm256_loadu_ps(x + i + 16), best[2]);
        best[3] = _mm256_max_ps(_mm256_loadu_ps(x + i + 24), best[3]);
    }
    float largest =
        max8(_mm256_max_ps(_mm256_max_ps(best[0], best[1]), _mm256_max_ps(best[2], best[3])));
    for (int64_t j = i; j < dim; ++j) {
        largest = x[j] > largest ? x[j] : largest;
    }
    __m256 target = _mm256_set1_ps(largest);
    for (i = 0; i + 8 <= dim; i += 8) {
        int hit = _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(x + i), target, _CMP_EQ_OQ));
        if (hit != 0) {
            return (int32_t)(i + __builtin_ctz((unsigned)hit));
        }
    }
    for (; i < dim; ++i) {
        if (x[i] == largest) {
            return (int32_t)i;
        }
    }
    return 0; /* nothing but NaN */
}
