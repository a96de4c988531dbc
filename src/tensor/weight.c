/* SPDX-License-Identifier: Apache-2.0
 *
 * The meaning of a weight made of several tensors. Trusts nothing of a source: shapes come from
 * files and bits and groups from configs. Codes of a row are one stream of bits, least significant
 * first; groups are at least 16 codes of it and never cross a row. */
#include "tensor/weight.h"

#include "base/arith.h"
#include "tensor/dequant.h"
#include "tensor/half.h"
#include "tensor/levels.h"

#include <string.h>

const char *const TDM_WEIGHT_MODE_NAMES[TDM_WEIGHT_MODE_COUNT] = {
    [TDM_WEIGHT_PLAIN] = "plain", [TDM_WEIGHT_AFFINE] = "affine", [TDM_WEIGHT_MXFP4] = "mxfp4",
    [TDM_WEIGHT_MXFP8] = "mxfp8", [TDM_WEIGHT_NVFP4] = "nvfp4",   [TDM_WEIGHT_FP8] = "fp8",
};

bool tdm_weight_mode_allows(tdm_weight_mode mode, int32_t bits, int32_t group) {
    switch (mode) {
    case TDM_WEIGHT_AFFINE:
        return bits >= 1 && bits <= 8 && bits != 7 && (group == 32 || group == 64 || group == 128);
    case TDM_WEIGHT_MXFP4:
        return bits == 4 && group == 32;
    case TDM_WEIGHT_MXFP8:
        return bits == 8 && group == 32;
    case TDM_WEIGHT_NVFP4:
        return bits == 4 && group == 16;
    case TDM_WEIGHT_FP8:
        return bits == 8 && group >= 1;
    case TDM_WEIGHT_PLAIN:
    case TDM_WEIGHT_MODE_COUNT:
    default:
        return false;
    }
}

/* A matrix of whole blocks whose bytes agree with its shape. */
static tdm_status check_matrix(const tdm_tensor_view *view, const char *what, size_t *out_row_bytes,
                               tdm_error *err) {
    if (view->rank != 2 || view->dims[0] <= 0 || view->dims[1] <= 0) {
        return tdm_fail(err, TDM_E_SHAPE, "%s must be a matrix with dimensions above zero", what);
    }
    const tdm_dtype_info *info = &TDM_DTYPES[view->dtype];
    if (view->dims[1] % (int64_t)info->block_weights != 0) {
        return tdm_fail(err, TDM_E_SHAPE, "a row of %lld weights is no whole number of %s blocks",
                        (long long)view->dims[1], info->name);
    }
    size_t bytes = 0;
    if (!tdm_mul_size((size_t)(view->dims[1] / (int64_t)info->block_weights), info->block_bytes,
                      out_row_bytes) ||
        !tdm_mul_size(*out_row_bytes, (size_t)view->dims[0], &bytes) || bytes != view->bytes ||
        view->data == NULL) {
        return tdm_fail(err, TDM_E_SHAPE, "the bytes of %s do not agree with its shape and type",
                        what);
    }
    return TDM_OK;
}

static tdm_status check_types(const tdm_weight_source *s, tdm_error *err) {
    bool is_affine = s->mode == TDM_WEIGHT_AFFINE;
    tdm_dtype codes = s->mode == TDM_WEIGHT_FP8 ? TDM_DTYPE_F8_E4M3 : TDM_DTYPE_U32;
    tdm_dtype scales = s->scales.dtype;
    if (s->view.dtype != codes) {
        return tdm_fail(err, TDM_E_SHAPE, "packed codes are stored as %s, not as %s",
                        TDM_DTYPES[s->view.dtype].name, TDM_DTYPES[codes].name);
    }
    if (is_affine || s->mode == TDM_WEIGHT_FP8
            ? scales != TDM_DTYPE_F16 && scales != TDM_DTYPE_BF16 && scales != TDM_DTYPE_F32
            : scales != TDM_DTYPE_U8) {
        return tdm_fail(err, TDM_E_SHAPE, "scales of %s weights are stored as %s",
                        TDM_WEIGHT_MODE_NAMES[s->mode], TDM_DTYPES[scales].name);
    }
    if (is_affine && s->biases.dtype != scales) {
        return tdm_fail(err, TDM_E_SHAPE, "scales are stored as %s and biases as %s",
                        TDM_DTYPES[scales].name, TDM_DTYPES[s->biases.dtype].name);
    }
    return TDM_OK;
}

static tdm_status describe_fp8(const tdm_weight_source *s, tdm_weight *out, tdm_error *err) {
    TDM_CHECK(s->group_rows >= 1);
    int64_t n_rows = (s->view.dims[0] - 1) / s->group_rows + 1;
    int64_t n_columns = (s->view.dims[1] - 1) / s->group + 1;
    if (s->scales.dims[0] != n_rows || s->scales.dims[1] != n_columns) {
        return tdm_fail(
            err, TDM_E_SHAPE, "weights [%lld, %lld] need scales [%lld, %lld], not [%lld, %lld]",
            (long long)s->view.dims[0], (long long)s->view.dims[1], (long long)n_rows,
            (long long)n_columns, (long long)s->scales.dims[0], (long long)s->scales.dims[1]);
    }
    out->bits = s->bits;
    out->group = s->group;
    out->group_rows = s->group_rows;
    out->scales = s->scales.data;
    out->scales_dtype = s->scales.dtype;
    return TDM_OK;
}

static tdm_status describe_groups(const tdm_weight_source *s, tdm_weight *out, tdm_error *err) {
    size_t biases_row_bytes = 0;
    if (!tdm_weight_mode_allows(s->mode, s->bits, s->group)) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "%s weights of %d bits in groups of %d",
                        (uint32_t)s->mode < TDM_WEIGHT_MODE_COUNT ? TDM_WEIGHT_MODE_NAMES[s->mode]
                                                                  : "unknown",
                        (int)s->bits, (int)s->group);
    }
    TDM_TRY(check_types(s, err));
    TDM_TRY(check_matrix(&s->scales, "scales", &out->scales_row_bytes, err));
    if (s->mode == TDM_WEIGHT_FP8) {
        return describe_fp8(s, out, err);
    }
    int64_t words = s->view.dims[1];
    int64_t n_groups = s->scales.dims[1];
    if (n_groups > INT32_MAX || words > INT32_MAX || words * 32 != n_groups * s->group * s->bits ||
        s->scales.dims[0] != s->view.dims[0]) {
        return tdm_fail(err, TDM_E_SHAPE,
                        "codes [%lld, %lld] and scales [%lld, %lld] do not agree with %d bits in "
                        "groups of %d",
                        (long long)s->view.dims[0], (long long)words, (long long)s->scales.dims[0],
                        (long long)n_groups, (int)s->bits, (int)s->group);
    }
    if (s->mode == TDM_WEIGHT_AFFINE) {
        TDM_TRY(check_matrix(&s->biases, "biases", &biases_row_bytes, err));
        if (s->biases.dims[0] != s->scales.dims[0] || s->biases.dims[1] != n_groups) {
            return tdm_fail(err, TDM_E_SHAPE, "scales and biases have different shapes");
        }
        out->biases = s->biases.data;
    }
    out->bits = s->bits;
    out->group = s->group;
    out->n_in = n_groups * s->group;
    out->scales = s->scales.data;
    out->scales_dtype = s->scales.dtype;
    if (s->has_global_scale) {
        out->multiplier = s->global_scale / 2688.0f;
    }
    return TDM_OK;
}

/* Every row_step-th row from row_first on; scales of fp8 belong to blocks of rows, and what is lent
 * would have to be copied row by row. */
static tdm_status take_rows(const tdm_weight_source *s, tdm_weight *out, tdm_error *err) {
    TDM_CHECK(s->row_first >= 0 && s->row_first < s->row_step);
    if (s->mode == TDM_WEIGHT_FP8 || s->is_transient || s->row_first >= out->n_out) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "row %lld and each %lldth after it of %lld %s rows",
                        (long long)s->row_first, (long long)s->row_step, (long long)out->n_out,
                        TDM_WEIGHT_MODE_NAMES[s->mode]);
    }
    size_t first = (size_t)s->row_first;
    out->data += first * out->row_bytes;
    if (out->scales != NULL) {
        out->scales += first * out->scales_row_bytes;
    }
    if (out->biases != NULL) {
        out->biases += first * out->scales_row_bytes;
    }
    out->row_bytes *= (size_t)s->row_step;
    out->scales_row_bytes *= (size_t)s->row_step;
    out->n_out = (out->n_out - s->row_first - 1) / s->row_step + 1;
    return TDM_OK;
}

tdm_status tdm_weight_describe(const tdm_weight_source *source, tdm_weight *out, tdm_error *err) {
    tdm_status status = TDM_OK;
    *out = (tdm_weight){0};
    tdm_weight w = {.mode = source->mode,
                    .dtype = source->view.dtype,
                    .n_out = source->view.dims[0],
                    .n_in = source->view.dims[1],
                    .data = source->view.data,
                    .multiplier = 1.0f,
                    .is_exact = source->is_exact,
                    .is_transient = source->is_transient,
                    .columns = source->columns};
    TDM_CHECK((uint32_t)w.dtype < (uint32_t)TDM_DTYPE_COUNT);
    TDM_CHECK(!w.is_transient || w.mode == TDM_WEIGHT_AFFINE);
    status = check_matrix(&source->view, "a weight", &w.row_bytes, err);
    if (status == TDM_OK && w.mode != TDM_WEIGHT_PLAIN) {
        status = describe_groups(source, &w, err);
    }
    if (status == TDM_OK && source->row_step > 1) {
        status = take_rows(source, &w, err);
    }
    if (status == TDM_OK) {
        *out = w;
    }
    return status;
}

static float scale_at(tdm_dtype dtype, const uint8_t *p, int64_t i) {
    switch ((int)dtype) {
    case TDM_DTYPE_F16:
        return tdm_f16_to_f32(tdm_load_u16(p + 2 * i));
    case TDM_DTYPE_BF16:
        return tdm_bf16_to_f32(tdm_load_u16(p + 2 * i));
    default:
        return tdm_f32_from_bits(tdm_load_u32(p + 4 * i));
    }
}

/* The scale of group g of a row, for every mode but affine. */
static float small_scale(const tdm_weight *w, const uint8_t *scales, int64_t g) {
    return w->mode == TDM_WEIGHT_NVFP4 ? tdm_e4m3_to_f32(scales[g]) * w->multiplier
                                       : tdm_e8m0_to_f32(scales[g]);
}

/* 32 codes from block b of a row. A block is 4 * bits bytes. */
static void codes32(const uint8_t *row, int bits, int64_t b, uint8_t out[32]) {
    uint8_t bytes[36] = {0}; /* one more than the longest block, for two-byte reads at its end */
    memcpy(bytes, row + (int64_t)4 * bits * b, (size_t)(4 * bits));
    for (int i = 0; i < 32; ++i) {
        int at = i * bits;
        out[i] =
            (uint8_t)(((uint32_t)tdm_load_u16(bytes + at / 8) >> (at % 8)) & ((1u << bits) - 1u));
    }
}

/* n codes, at most 32, from block b on. */
static void row_values(const tdm_weight *w, const uint8_t *row, const uint8_t *scales,
                       const uint8_t *biases, int64_t b, float *out) {
    uint8_t codes[32];
    int64_t n = w->n_in - 32 * b < 32 ? w->n_in - 32 * b : 32; /* nvfp4 rows may end at a half */
    if (n == 32) {
        codes32(row, w->bits, b, codes);
    } else {
        for (int64_t i = 0; i < n; ++i) {
            codes[i] = (uint8_t)((row[16 * b + i / 2] >> (4 * (i & 1))) & 15);
        }
    }
    for (int64_t i = 0; i < n; ++i) {
        int64_t g = (32 * b + i) / w->group;
        if (w->mode == TDM_WEIGHT_AFFINE) {
            out[i] = scale_at(w->scales_dtype, scales, g) * (float)codes[i] +
                     scale_at(w->scales_dtype, biases, g);
        } else if (w->mode == TDM_WEIGHT_MXFP8) {
            out[i] = tdm_e4m3_to_f32(codes[i]) * small_scale(w, scales, g);
        } else { /* code 8 is -0 here: the sign comes from the code, not from the integer */
            float level = 0.5f * (float)TDM_LEVELS_E2M1[codes[i] & 7];
            out[i] = (codes[i] & 8) != 0 ? -(level * small_scale(w, scales, g))
                                         : level * small_scale(w, scales, g);
        }
    }
}

float tdm_weight_fp8_scale(const tdm_weight *weight, int64_t row, int64_t column) {
    return scale_at(weight->scales_dtype,
                    weight->scales + (size_t)(row / weight->group_rows) * weight->scales_row_bytes,
                    column / weight->group);
}

void tdm_weight_row(const tdm_weight *weight, int64_t row, float *out) {
    const uint8_t *data = weight->data + (size_t)row * weight->row_bytes;
    if (weight->mode == TDM_WEIGHT_PLAIN) {
        tdm_dequant_row(weight->dtype, data, weight->n_in, out);
        return;
    }
    if (weight->mode == TDM_WEIGHT_FP8) {
        for (int64_t i = 0; i < weight->n_in; ++i) {
            out[i] = tdm_e4m3_to_f32(data[i]) * tdm_weight_fp8_scale(weight, row, i);
        }
        return;
    }
    const uint8_t *scales = weight->scales + (size_t)row * weight->scales_row_bytes;
    const uint8_t *biases =
        weight->biases != NULL ? weight->biases + (size_t)row * weight->scales_row_bytes : NULL;
    for (int64_t b = 0; 32 * b < weight->n_in; ++b) {
        row_values(weight, data, scales, biases, b, out + 32 * b);
    }
}

bool tdm_weight_kind(const tdm_weight *weight, tdm_block_kind *out) {
    if (weight->mode == TDM_WEIGHT_PLAIN) {
        return tdm_block32_kind(weight->dtype, out);
    }
    *out = weight->mode == TDM_WEIGHT_AFFINE  ? TDM_BLOCK_ONE_MIN
           : weight->mode == TDM_WEIGHT_NVFP4 ? TDM_BLOCK_PAIR
                                              : TDM_BLOCK_ONE;
    return weight->mode != TDM_WEIGHT_MXFP8 && weight->mode != TDM_WEIGHT_FP8 &&
           weight->n_in % 32 == 0;
}

void tdm_weight_block(const tdm_weight *weight, int64_t row, int64_t b, tdm_block32 *out) {
    const uint8_t *data = weight->data + (size_t)row * weight->row_bytes;
    uint8_t codes[32];
    if (weight->mode == TDM_WEIGHT_PLAIN) {
        tdm_block32_decode(weight->dtype, data, b, out);
        return;
    }
    const uint8_t *scales = weight->scales + (size_t)row * weight->scales_row_bytes;
    *out = (tdm_block32){.scale = {1, 1}, .min = {1, 1}};
    codes32(data, weight->bits, b, codes);
    if (weight->mode == TDM_WEIGHT_AFFINE) {
        int64_t g = 32 * b / weight->group;
        const uint8_t *biases = weight->biases + (size_t)row * weight->scales_row_bytes;
        out->offset = weight->bits == 8 ? 128 : 0;
        out->d[0] = scale_at(weight->scales_dtype, scales, g);
        out->d[1] = out->d[0];
        out->m = scale_at(weight->scales_dtype, biases, g);
    }
    for (int i = 0; i < 32; ++i) {
        out->w[i] = (int8_t)(weight->mode == TDM_WEIGHT_AFFINE ? codes[i] - out->offset
                                                               : TDM_LEVELS_E2M1[codes[i]]);
    }
    if (weight->mode != TDM_WEIGHT_AFFINE) { /* levels are doubled */
        for (int h = 0; h < 2; ++h) {
            out->d[h] = 0.5f * small_scale(weight, scales, (32 * b + 16 * h) / weight->group);
        }
    }
}
