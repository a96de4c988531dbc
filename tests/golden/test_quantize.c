/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantizers against the references: MLX's modes and GGUF's types of 32 weights to the bit, the K types
 * by their error (issue 5: at most 1 % above the peer's). The goldens' weights are in the files beside
 * what the references made of them. */
#include "support/support.h"

#include "formats/safetensors.h"
#include "tensor/dequant.h"
#include "tensor/quantize.h"
#include "tensor/weight.h"

#include <math.h>

typedef struct goldens {
    char path[SUPPORT_PATH_MAX];
    char *file;
    size_t bytes;
    tdm_safetensors *tensors;
} goldens;

static void goldens_open(goldens *g) {
    tdm_error err = {0};
    g->file = support_read_file(g->path, &g->bytes);
    if (tdm_safetensors_parse(&g->tensors, NULL, (const uint8_t *)g->file, g->bytes, g->path,
                              &err) != TDM_OK) {
        fail_msg("%s: %s", g->path, err.what);
    }
}

static void goldens_close(goldens *g) {
    tdm_safetensors_destroy(g->tensors);
    free(g->file);
}

static const tdm_tensor_view *view_of(const goldens *g, const char *base, const char *part) {
    char name[128];
    size_t idx = 0;
    (void)snprintf(name, sizeof name, "%s%s", base, part);
    return tdm_safetensors_find(g->tensors, name, &idx)
               ? tdm_safetensors_tensor_view(g->tensors, idx)
               : NULL;
}

/* A matrix of f32 out of a file that aligns nothing. */
static float *copy_values(const tdm_tensor_view *view) {
    float *out = malloc(view->bytes);
    assert_non_null(out);
    assert_int_equal(view->dtype, TDM_DTYPE_F32);
    memcpy(out, view->data, view->bytes);
    return out;
}

static tdm_weight_mode mode_of(const char *base) {
    for (int mode = TDM_WEIGHT_AFFINE; mode <= TDM_WEIGHT_NVFP4; mode++) {
        if (strncmp(base, TDM_WEIGHT_MODE_NAMES[mode], strlen(TDM_WEIGHT_MODE_NAMES[mode])) == 0) {
            return (tdm_weight_mode)mode;
        }
    }
    fail_msg("%s", base);
    return TDM_WEIGHT_PLAIN;
}

static void expect_same(const char *base, const char *part, const uint8_t *got,
                        const tdm_tensor_view *want) {
    const uint8_t *bytes = want->data;
    for (size_t i = 0; i < want->bytes; i++) {
        if (got[i] != bytes[i]) {
            fail_msg("%s%s: byte %zu is %02x, not %02x", base, part, i, got[i], bytes[i]);
        }
    }
}

static void check_mlx(const goldens *g, const char *base) {
    const tdm_tensor_view *w = view_of(g, base, ".w");
    const tdm_tensor_view *codes = view_of(g, base, ".weight");
    const tdm_tensor_view *scales = view_of(g, base, ".scales");
    const tdm_tensor_view *biases = view_of(g, base, ".biases");
    const int64_t n_in = w->dims[1];
    tdm_mlx_form form = {.mode = mode_of(base), .scales_dtype = scales->dtype};
    form.bits = (int32_t)(codes->dims[1] * 32 / n_in);
    form.group = (int32_t)(n_in / scales->dims[1]);
    float *x = copy_values(w);
    uint8_t *got[3] = {malloc(codes->bytes), malloc(scales->bytes), malloc(scales->bytes)};
    const size_t code_bytes = tdm_mlx_codes_bytes(&form, n_in);
    const size_t scale_bytes = tdm_mlx_scales_bytes(&form, n_in);
    assert_int_equal(code_bytes * (size_t)w->dims[0], codes->bytes);
    assert_int_equal(scale_bytes * (size_t)w->dims[0], scales->bytes);
    assert_int_equal(form.mode == TDM_WEIGHT_AFFINE, biases != NULL);
    for (int64_t r = 0; r < w->dims[0]; r++) {
        tdm_quantize_mlx_row(&form, x + r * n_in, n_in, got[0] + (size_t)r * code_bytes,
                             got[1] + (size_t)r * scale_bytes,
                             biases != NULL ? got[2] + (size_t)r * scale_bytes : NULL);
    }
    expect_same(base, ".weight", got[0], codes);
    expect_same(base, ".scales", got[1], scales);
    if (biases != NULL) {
        expect_same(base, ".biases", got[2], biases);
    }
    for (int i = 0; i < 3; i++) {
        free(got[i]);
    }
    free(x);
}

static void test_mlx_bits(void **state) {
    goldens g;
    size_t n = 0;
    (void)state;
    SUPPORT_NEED_SHARED(g.path, "goldens-mlx/units.safetensors");
    goldens_open(&g);
    for (size_t i = 0; i < tdm_safetensors_n_tensors(g.tensors); i++) {
        char base[96];
        const char *name = tdm_safetensors_tensor_name(g.tensors, i);
        const size_t len = strlen(name);
        if (len > 2 && strcmp(name + len - 2, ".w") == 0) {
            (void)snprintf(base, sizeof base, "%.*s", (int)(len - 2), name);
            check_mlx(&g, base);
            n++;
        }
    }
    assert_in_range(n, 30, 1000);
    goldens_close(&g);
}

/* Rows of 1024 weights of both, with the goldens' own matrix. */
static void test_gguf_bits(void **state) {
    static const tdm_dtype TYPES[] = {TDM_DTYPE_F16,  TDM_DTYPE_BF16, TDM_DTYPE_Q4_0,
                                      TDM_DTYPE_Q4_1, TDM_DTYPE_Q5_0, TDM_DTYPE_Q5_1,
                                      TDM_DTYPE_Q8_0};
    goldens g;
    (void)state;
    SUPPORT_NEED_SHARED(g.path, "goldens-gguf/types.safetensors");
    goldens_open(&g);
    const tdm_tensor_view *w = view_of(&g, "w", "");
    float *x = copy_values(w);
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); i++) {
        const tdm_dtype_info *info = &TDM_DTYPES[TYPES[i]];
        const tdm_tensor_view *raw = view_of(&g, info->name, ".raw");
        uint8_t *got = malloc(raw->bytes);
        tdm_quantize_row(TYPES[i], x, w->dims[0] * w->dims[1], got);
        expect_same(info->name, ".raw", got, raw);
        free(got);
    }
    free(x);
    goldens_close(&g);
}

/* The peer's weights: Q6_K's are squares, the others' magnitude plus the sub-block's typical one. */
static double weight_of(tdm_dtype dtype, const float *x, int64_t i) {
    const float *block = x + i / 32 * 32;
    double sum = 0.0;
    if (dtype == TDM_DTYPE_Q6_K) {
        return (double)x[i] * (double)x[i];
    }
    for (int k = 0; k < 32; k++) {
        sum += (double)block[k] * (double)block[k];
    }
    return sqrt(sum / 32.0) + fabs((double)x[i]);
}

static double error_of(tdm_dtype dtype, const float *x, const float *y, int64_t n,
                       bool is_weighted) {
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++) {
        const double e = (double)x[i] - (double)y[i];
        sum += (is_weighted ? weight_of(dtype, x, i) : 1.0) * e * e;
    }
    return sqrt(sum);
}

static void test_k_errors(void **state) {
    static const tdm_dtype TYPES[] = {TDM_DTYPE_Q4_K, TDM_DTYPE_Q5_K, TDM_DTYPE_Q6_K};
    goldens g;
    (void)state;
    SUPPORT_NEED_SHARED(g.path, "goldens-gguf/types.safetensors");
    goldens_open(&g);
    const tdm_tensor_view *w = view_of(&g, "w", "");
    const int64_t n = w->dims[0] * w->dims[1];
    float *x = copy_values(w);
    float *ours = malloc((size_t)n * sizeof *ours);
    for (size_t i = 0; i < SUPPORT_LEN(TYPES); i++) {
        const tdm_dtype_info *info = &TDM_DTYPES[TYPES[i]];
        const tdm_tensor_view *raw = view_of(&g, info->name, ".raw");
        float *theirs = copy_values(view_of(&g, info->name, ".dequant"));
        uint8_t *got = malloc(raw->bytes);
        tdm_quantize_row(TYPES[i], x, n, got);
        tdm_dequant_row(TYPES[i], got, n, ours);
        for (int is_weighted = 0; is_weighted < 2; is_weighted++) {
            const double ratio = error_of(TYPES[i], x, ours, n, is_weighted != 0) /
                                 error_of(TYPES[i], x, theirs, n, is_weighted != 0);
            if (!(ratio <= 1.01)) {
                fail_msg("%s: error %.4f times the peer's", info->name, ratio);
            }
        }
        free(got);
        free(theirs);
    }
    free(ours);
    free(x);
    goldens_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlx_bits),
        cmocka_unit_test(test_gguf_bits),
        cmocka_unit_test(test_k_errors),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
