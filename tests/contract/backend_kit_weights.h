/* SPDX-License-Identifier: Apache-2.0
 *
 * What the backend kit computes with: noise, comparisons, and weights of every kind as each backend
 * under test holds them. Header only; backend_kit.h includes it. */
#ifndef TDM_TESTS_CONTRACT_BACKEND_KIT_WEIGHTS_H
#define TDM_TESTS_CONTRACT_BACKEND_KIT_WEIGHTS_H

#include "support/support.h"

#include "contract/backend.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/ops.h"
#include "tensor/weight.h"
#include "tolerance.h"

#include <math.h>

typedef struct backend_kit {
    const char *name;
    tdm_tier tier;
    /* Owned by the caller, already created with 1, 2 and 3 threads; all of one kind. */
    tdm_backend *subjects[3];
    tdm_backend *twin; /* scalar, of the same tier */
    bool is_rounding;  /* attention over BF16 pages rounds queries and weights too */
} backend_kit;

/* What the subjects may differ by from the twin in attention over pages of dtype. */
static inline float kit_attention_tolerance(const backend_kit *kit, tdm_dtype dtype) {
    return kit->is_rounding && dtype != TDM_DTYPE_F32 ? TOL_ATTENTION_ROUNDED : TOL_ATTENTION;
}

#define KIT_N_MAX 300
#define KIT_WIDTH_MAX 2560
#define KIT_CANARY 12345.625f

static inline float kit_noise(uint32_t stream, uint32_t i) {
    uint64_t v = (((uint64_t)stream << 32) | i) * 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 29)) * 0xbf58476d1ce4e5b9u;
    return (float)((v ^ (v >> 32)) >> 40) * 0x1p-23f - 1.0f;
}

static inline float *kit_floats(int64_t n) {
    assert_true(n > 0 && n < (1 << 28));
    float *p = malloc((size_t)n * sizeof *p);
    assert_non_null(p);
    return p;
}

static inline float *kit_random(int64_t n, uint32_t stream) {
    float *p = kit_floats(n);
    for (int64_t i = 0; i < n; ++i) {
        p[i] = kit_noise(stream, (uint32_t)i);
    }
    return p;
}

static inline float *kit_filled(int64_t n, float value) {
    float *p = kit_floats(n);
    for (int64_t i = 0; i < n; ++i) {
        p[i] = value;
    }
    return p;
}

static inline void kit_close(const char *what, const float *want, const float *got, int64_t n,
                             float tolerance) {
    float largest = 1e-30f;
    for (int64_t i = 0; i < n; ++i) {
        largest = fmaxf(largest, fabsf(want[i]));
    }
    for (int64_t i = 0; i < n; ++i) {
        if (!(fabsf(want[i] - got[i]) <= tolerance * largest)) {
            fail_msg("%s: value %lld is %.9g, expected %.9g; off by %.3g of the largest", what,
                     (long long)i, (double)got[i], (double)want[i],
                     (double)(fabsf(want[i] - got[i]) / largest));
        }
    }
}

/* Bits, NaN for NaN. */
static inline void kit_same(const char *what, const float *want, const float *got, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
        if (tdm_f32_bits(want[i]) != tdm_f32_bits(got[i]) && !(isnan(want[i]) && isnan(got[i]))) {
            fail_msg("%s: value %lld is %.9g, expected the bits of %.9g", what, (long long)i,
                     (double)got[i], (double)want[i]);
        }
    }
}

/* Random bits with finite scales, from malloc. */
static inline uint8_t *kit_weights(tdm_dtype dtype, int64_t n_out, int64_t n_in, uint32_t stream,
                                   size_t *out_bytes) {
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    size_t n_blocks = (size_t)n_out * (size_t)n_in / info->block_weights;
    uint8_t *data = malloc(n_blocks * info->block_bytes);
    assert_non_null(data);
    for (size_t i = 0; i < n_blocks * info->block_bytes; ++i) {
        data[i] = (uint8_t)tdm_f32_bits(kit_noise(stream + 3000, (uint32_t)i) + 3.0f);
    }
    for (size_t b = 0; b < n_blocks; ++b) {
        float value = kit_noise(stream + 1000, (uint32_t)b);
        float d = 0.02f + 0.1f * fabsf(value);
        tdm_block_set_scales(dtype, data + b * info->block_bytes,
                             info->block_weights == 1 ? value : d,
                             kit_noise(stream + 2000, (uint32_t)b) * 0.5f);
    }
    *out_bytes = n_blocks * info->block_bytes;
    return data;
}

/* A kind of weight: a stored type, or a mode with its bits and group. */
typedef struct kit_spec {
    tdm_weight_mode mode;
    tdm_dtype dtype; /* plain: of the weights; affine: of the scales */
    int32_t bits;
    int32_t group;
} kit_spec;

#define KIT_STORED(type) ((kit_spec){.mode = TDM_WEIGHT_PLAIN, .dtype = (type)})

/* Every grouped kind, each type of scales among them. */
static const kit_spec KIT_GROUPED[] = {
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_BF16, 1, 32},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_F16, 2, 64},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_F32, 3, 128},  {TDM_WEIGHT_AFFINE, TDM_DTYPE_BF16, 4, 64},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_F16, 5, 32},   {TDM_WEIGHT_AFFINE, TDM_DTYPE_F32, 6, 64},
    {TDM_WEIGHT_AFFINE, TDM_DTYPE_BF16, 8, 128}, {TDM_WEIGHT_MXFP4, TDM_DTYPE_U8, 4, 32},
    {TDM_WEIGHT_MXFP8, TDM_DTYPE_U8, 8, 32},     {TDM_WEIGHT_NVFP4, TDM_DTYPE_U8, 4, 16},
    {TDM_WEIGHT_FP8, TDM_DTYPE_F32, 8, 128}};

static inline void kit_spec_name(const kit_spec *spec, char out[32]) {
    if (spec->mode == TDM_WEIGHT_PLAIN) {
        (void)snprintf(out, 32, "%s", TDM_DTYPES[spec->dtype].name);
    } else {
        (void)snprintf(out, 32, "%s-%d-g%d", TDM_WEIGHT_MODE_NAMES[spec->mode], (int)spec->bits,
                       (int)spec->group);
    }
}

static inline bool kit_is_int8(const backend_kit *kit, const kit_spec *spec, int64_t n_in) {
    bool is_quantized = spec->mode != TDM_WEIGHT_PLAIN
                            ? spec->mode < TDM_WEIGHT_MXFP8 || spec->mode == TDM_WEIGHT_NVFP4
                            : TDM_DTYPES[spec->dtype].block_weights > 1;
    return kit->tier == TDM_TIER_FAST && is_quantized && n_in % 32 == 0;
}

/* Some sets round the activations of these to BF16 in the fast tier, their twin does not: what is
 * compared with it has activations that rounding leaves alone. */
static inline bool kit_may_round(const backend_kit *kit, const kit_spec *spec) {
    return kit->tier == TDM_TIER_FAST &&
           (spec->mode == TDM_WEIGHT_MXFP8 || spec->mode == TDM_WEIGHT_FP8 ||
            (spec->mode == TDM_WEIGHT_PLAIN && spec->dtype == TDM_DTYPE_BF16));
}

/* One weight as two backends hold it, over the same bytes at odd addresses. */
typedef struct kit_weight {
    uint8_t *bytes[3];
    tdm_weight described;
    tdm_weight w[4]; /* subjects 0..2, twin */
} kit_weight;

static inline tdm_backend *kit_backend(const backend_kit *kit, int i) {
    return i < 3 ? kit->subjects[i] : kit->twin;
}

/* bytes of noise, one byte off any alignment: files may begin their data anywhere. */
static inline uint8_t *kit_noise_bytes(size_t bytes, uint32_t stream) {
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; ++i) {
        data[i + 1] = (uint8_t)tdm_f32_bits(kit_noise(stream, (uint32_t)i) + 3.0f);
    }
    return data;
}

static inline uint8_t *kit_scales(const kit_spec *spec, size_t n, uint32_t stream,
                                  size_t *out_bytes) {
    size_t each = TDM_DTYPES[spec->dtype].block_bytes;
    uint8_t *data = kit_noise_bytes(n * each, stream);
    for (size_t i = 0; i < n; ++i) {
        uint8_t *p = data + 1 + i * each;
        float value = 0.1f * kit_noise(stream + 1, (uint32_t)i);
        uint16_t half =
            spec->dtype == TDM_DTYPE_F16 ? tdm_f16_from_f32(value) : tdm_bf16_from_f32(value);
        if (spec->mode == TDM_WEIGHT_NVFP4) {
            *p &= 0x3f;
        } else if (spec->dtype == TDM_DTYPE_U8) {
            *p = (uint8_t)(120 + (*p & 7));
        } else if (each == 4) {
            memcpy(p, &value, 4);
        } else {
            memcpy(p, &half, 2);
        }
    }
    *out_bytes = n * each;
    return data;
}

static inline tdm_weight_source kit_grouped_source(const kit_spec *spec, int64_t n_out,
                                                   int64_t n_in, uint32_t stream, kit_weight *out) {
    bool is_fp8 = spec->mode == TDM_WEIGHT_MXFP8 || spec->mode == TDM_WEIGHT_FP8;
    size_t n_scales = (size_t)(n_out * (n_in / spec->group));
    size_t bytes[3] = {(size_t)(n_out * n_in / 8 * spec->bits)};
    out->bytes[0] = kit_noise_bytes(bytes[0], stream);
    for (size_t i = 1; is_fp8 && i <= bytes[0]; ++i) {
        out->bytes[0][i] &= 0xbf; /* below 2: no NaN */
    }
    out->bytes[1] = kit_scales(spec, n_scales, stream + 1, &bytes[1]);
    tdm_weight_source source = {
        .mode = spec->mode,
        .bits = spec->bits,
        .group = spec->group,
        .group_rows = spec->mode == TDM_WEIGHT_FP8 ? 128 : 0,
        .view = {TDM_DTYPE_U32, 2, {n_out, n_in / 32 * spec->bits}, out->bytes[0] + 1, bytes[0]},
        .scales = {spec->dtype, 2, {n_out, n_in / spec->group}, out->bytes[1] + 1, bytes[1]},
        .has_global_scale = spec->mode == TDM_WEIGHT_NVFP4,
        .global_scale = 3000.0f};
    if (spec->mode == TDM_WEIGHT_AFFINE) {
        out->bytes[2] = kit_scales(spec, n_scales, stream + 5, &bytes[2]);
        source.biases = source.scales;
        source.biases.data = out->bytes[2] + 1;
    }
    if (spec->mode == TDM_WEIGHT_FP8) { /* fewer scales than were made */
        source.view.dtype = TDM_DTYPE_F8_E4M3;
        source.view.dims[1] = n_in;
        source.scales.dims[0] = (n_out + 127) / 128;
        source.scales.bytes = (size_t)(source.scales.dims[0] * source.scales.dims[1]) *
                              TDM_DTYPES[spec->dtype].block_bytes;
    }
    return source;
}

static inline void kit_weight_make(const backend_kit *kit, kit_weight *out, kit_spec spec,
                                   int64_t n_out, int64_t n_in, uint32_t stream) {
    tdm_error err = {0};
    tdm_weight_source source;
    memset(out, 0, sizeof *out);
    if (spec.mode == TDM_WEIGHT_PLAIN) {
        size_t bytes = 0;
        uint8_t *data = kit_weights(spec.dtype, n_out, n_in, stream, &bytes);
        out->bytes[0] = malloc(bytes + 1);
        assert_non_null(out->bytes[0]);
        memcpy(out->bytes[0] + 1, data, bytes);
        free(data);
        const tdm_tensor_view view = {.dtype = spec.dtype,
                                      .rank = 2,
                                      .dims = {n_out, n_in},
                                      .data = out->bytes[0] + 1,
                                      .bytes = bytes};
        source = tdm_weight_source_plain(&view);
    } else {
        source = kit_grouped_source(&spec, n_out, n_in, stream, out);
    }
    assert_int_equal(tdm_weight_describe(&source, &out->described, &err), TDM_OK);
    for (int i = 0; i < 4; ++i) {
        tdm_backend *be = kit_backend(kit, i);
        if (tdm_weight_init_source(be, &source, &out->w[i], &err) != TDM_OK) {
            fail_msg("weight_init: %s", err.what);
        }
        assert_int_equal(out->w[i].packed_bytes, be->ops->weight_plan(be, &out->described));
        assert_true((out->w[i].packed != NULL) == (out->w[i].packed_bytes > 0));
    }
}

static inline void kit_weight_free(const backend_kit *kit, kit_weight *w) {
    for (int i = 0; i < 4; ++i) {
        tdm_weight_deinit(kit_backend(kit, i), &w->w[i]);
    }
    for (int i = 0; i < 3; ++i) {
        free(w->bytes[i]);
    }
}

#endif
