/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights of other tool chains: AWQ and GPTQ (M.qweight, M.qzeros, M.scales, perhaps M.g_idx) and
 * compressed-tensors (M.weight_packed or M.weight, M.weight_scale, perhaps M.weight_zero_point,
 * M.weight_g_idx, M.weight_global_scale). What the backend can read as it lies is a view; integers
 * in another order are turned into affine codes in one block that the loader reuses for the next
 * weight. Shapes decide, the config must agree, and an order of columns is proved to be one before
 * anything follows it. */
#include "model/blocks/loader_priv.h"

#include "base/arith.h"
#include "base/thread.h"
#include "tensor/half.h"
#include "tensor/repack.h"

#include <stdio.h>
#include <string.h>

/* One weight on its way in. */
typedef struct intake {
    tdm_loader *loader;
    const tdm_checkpoint_tensor *weight;
    const tdm_loader_part *part;
    char module[TDM_LOADER_NAME_MAX];
    tdm_repack repack;
    tdm_error *err;
} intake;

static const tdm_checkpoint_tensor *find_beside(const intake *in, const char *suffix) {
    char name[TDM_LOADER_NAME_MAX + 24];
    (void)snprintf(name, sizeof name, "%s.%s", in->module, suffix);
    return tdm_checkpoint_find(in->loader->checkpoint, name);
}

static tdm_status need_beside(const intake *in, const char *suffix,
                              const tdm_checkpoint_tensor **out) {
    *out = find_beside(in, suffix);
    if (*out == NULL) {
        (void)tdm_fail(in->err, TDM_E_FORMAT, "quantized tensor \"%.100s\" has no \"%.100s.%s\"",
                       in->weight->name, in->module, suffix);
        tdm_err_remedy(in->err, "the checkpoint is incomplete; fetch it again");
        return tdm_loader_fail_at(in->loader, in->weight, TDM_E_FORMAT, in->err);
    }
    return TDM_OK;
}

static tdm_status fail_shape(const intake *in, const tdm_checkpoint_tensor *tensor,
                             const char *what) {
    (void)tdm_fail(in->err, TDM_E_SHAPE, "tensor \"%.100s\": %s", tensor->name, what);
    tdm_err_remedy(in->err, "config and weights are of different models; fetch both again");
    return tdm_loader_fail_at(in->loader, tensor, TDM_E_SHAPE, in->err);
}

static tdm_status fail_unsupported(const intake *in, const char *what) {
    (void)tdm_fail(in->err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": %s", in->weight->name, what);
    tdm_err_remedy(in->err, "use the original checkpoint, an MLX one or a GGUF file");
    return tdm_loader_fail_at(in->loader, in->weight, TDM_E_UNSUPPORTED, in->err);
}

static tdm_status need_type(const intake *in, const tdm_checkpoint_tensor *tensor,
                            tdm_dtype dtype) {
    if (tensor->view.dtype != dtype) {
        (void)tdm_fail(in->err, TDM_E_SHAPE, "tensor \"%.100s\" is stored as %s, not as %s",
                       tensor->name, TDM_DTYPES[tensor->view.dtype].name, TDM_DTYPES[dtype].name);
        return tdm_loader_fail_at(in->loader, tensor, TDM_E_SHAPE, in->err);
    }
    return TDM_OK;
}

static tdm_status need_floats(const intake *in, const tdm_checkpoint_tensor *scales) {
    tdm_dtype dtype = scales->view.dtype;
    return dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16 || dtype == TDM_DTYPE_F32
               ? TDM_OK
               : need_type(in, scales, TDM_DTYPE_F16);
}

/* Two dimensions, any; they are judged by the caller. */
static tdm_status need_matrix(const intake *in, const tdm_checkpoint_tensor *tensor, int64_t rows,
                              int64_t columns) {
    const int64_t dims[2] = {rows, columns};
    return tdm_loader_check_shape(in->loader, tensor, 2, dims, in->err);
}

/* What config.json says about bits and groups, where it says it for all modules. */
static tdm_status check_config(const intake *in) {
    const tdm_quant_config *said = &in->loader->quant;
    int64_t group = in->repack.n_in / in->repack.n_scales;
    int64_t said_group = said->group < 0 ? in->repack.n_in : said->group;
    if ((said->bits != 0 && said->bits != in->repack.bits) ||
        (said_group != 0 && said_group != group)) {
        (void)tdm_fail(
            in->err, TDM_E_FORMAT,
            "%.100s: the config says %d bits in groups of %lld, the tensors have %d bits "
            "in groups of %lld",
            in->module, (int)said->bits, (long long)said_group, (int)in->repack.bits,
            (long long)group);
        tdm_err_remedy(in->err,
                       "config and weights are of different checkpoints; fetch both again");
        return tdm_loader_fail_at(in->loader, in->weight, TDM_E_FORMAT, in->err);
    }
    return TDM_OK;
}

/* n_in, n_groups and n_out * bits as the repacker needs them. */
static tdm_status check_sizes(const intake *in) {
    const tdm_repack *r = &in->repack;
    if (r->n_in > INT32_MAX || r->n_out > INT32_MAX || r->n_scales < 1 ||
        r->n_in % r->n_scales != 0) {
        return fail_shape(in, in->weight, "its groups do not divide its rows");
    }
    if (tdm_repack_group(r) == 0) {
        return fail_unsupported(in, "groups that are no multiple of 32 weights");
    }
    if (r->layout != TDM_REPACK_BYTES && r->zeros != NULL && r->n_out * r->bits % 32 != 0) {
        return fail_unsupported(in, "rows of zero points that end inside a word");
    }
    return check_config(in);
}

static bool is_in_order(const uint8_t *groups, int64_t n_in, int64_t group) {
    for (int64_t i = 0; i < n_in; i++) {
        if ((int32_t)tdm_load_u32(groups + 4 * i) != i / group) {
            return false;
        }
    }
    return true;
}

/* Columns by their groups, unless they stand in order. */
static tdm_status order_columns(intake *in, const tdm_checkpoint_tensor *g_idx) {
    const int64_t n_in = in->repack.n_in;
    const int64_t group = n_in / in->repack.n_scales;
    const uint8_t *groups = g_idx->view.data;
    TDM_TRY(tdm_loader_check_shape(in->loader, g_idx, 1, &n_in, in->err));
    TDM_TRY(need_type(in, g_idx, TDM_DTYPE_I32));
    tdm_loader_consume(in->loader, g_idx, 0);
    if (in->loader->is_plan || is_in_order(groups, n_in, group)) {
        return TDM_OK;
    }
    int32_t *columns = tdm_arena_calloc(in->loader->arena, (size_t)n_in, sizeof *columns);
    int32_t *counts =
        tdm_arena_calloc(in->loader->arena, (size_t)in->repack.n_scales, sizeof *counts);
    if (columns == NULL || counts == NULL) {
        return tdm_fail_nomem(in->err, "an order of columns");
    }
    for (int64_t i = 0; i < n_in; i++) {
        const int64_t g = (int32_t)tdm_load_u32(groups + 4 * i);
        if (g < 0 || g >= in->repack.n_scales || counts[g] >= group) {
            (void)tdm_fail(
                in->err, TDM_E_FORMAT,
                "tensor \"%.100s\": column %lld is of group %lld, of %lld groups of %lld",
                g_idx->name, (long long)i, (long long)g, (long long)in->repack.n_scales,
                (long long)group);
            return tdm_loader_fail_at(in->loader, g_idx, TDM_E_FORMAT, in->err);
        }
        columns[g * group + counts[g]++] = (int32_t)i;
    }
    /* Projections of one input mostly share their order: so that one gather serves them, they share
     * the array too. */
    const int32_t *last = in->loader->columns;
    bool is_same = last != NULL && in->loader->n_columns == n_in &&
                   memcmp(last, columns, (size_t)n_in * sizeof *columns) == 0;
    in->repack.columns = is_same ? last : columns;
    in->loader->columns = in->repack.columns;
    in->loader->n_columns = n_in;
    return TDM_OK;
}

typedef struct repack_run {
    const tdm_repack *repack;
    uint8_t *codes; /* NULL: they stay where they are */
    float *scales;
    float *biases;
} repack_run;

static void repack_member(void *arg, int32_t idx, int32_t n_members) {
    const repack_run *run = arg;
    const tdm_repack *r = run->repack;
    int64_t n_blocks = r->n_in / 32;
    if (run->codes != NULL) {
        tdm_repack_codes(r, n_blocks * idx / n_members, n_blocks * (idx + 1) / n_members,
                         run->codes);
    }
    tdm_repack_scales(r, r->n_out * idx / n_members, r->n_out * (idx + 1) / n_members, run->scales,
                      run->biases);
}

/* At least bytes of the loader's block. */
static tdm_status grow_block(tdm_loader *loader, size_t bytes, tdm_error *err) {
    if (loader->block_bytes < bytes) {
        tdm_loader_release(loader);
        loader->block = tdm_mem_alloc(loader->arena->alloc, bytes);
        if (loader->block == NULL) {
            return tdm_fail_nomem(err, "a weight in another layout");
        }
        loader->block_bytes = bytes;
    }
    return TDM_OK;
}

void tdm_loader_release(tdm_loader *loader) {
    tdm_mem_free(loader->arena->alloc, loader->block, loader->block_bytes);
    loader->block = NULL;
    loader->block_bytes = 0;
}

static tdm_tensor_view matrix(tdm_dtype dtype, int64_t rows, int64_t columns, const void *data) {
    return (tdm_tensor_view){.dtype = dtype,
                             .rank = 2,
                             .dims = {rows, columns},
                             .data = data,
                             .bytes = (size_t)(rows * columns) * TDM_DTYPES[dtype].block_bytes};
}

/* The repacked weight as a source, in the loader's block; codes that are rows of a stream already
 * stay where they are. */
static tdm_status convert(intake *in, tdm_weight_source *out) {
    const tdm_repack *r = &in->repack;
    const int64_t n_groups = r->n_in / tdm_repack_group(r);
    const bool keeps_codes = r->layout == TDM_REPACK_PACKED && r->columns == NULL;
    size_t codes_bytes = 0;
    size_t scales_bytes = 0;
    size_t bytes = 0;
    if (!tdm_mul_size((size_t)r->n_out, (size_t)(r->n_in / 8 * r->bits), &codes_bytes) ||
        !tdm_mul_size((size_t)r->n_out, (size_t)n_groups * sizeof(float), &scales_bytes) ||
        !tdm_mul_size(scales_bytes, 2, &bytes) ||
        !tdm_add_size(bytes, keeps_codes ? 0 : codes_bytes, &bytes)) {
        return tdm_fail_nomem(in->err, "a weight in another layout");
    }
    repack_run run = {.repack = r};
    if (!in->loader->is_plan) {
        TDM_TRY(grow_block(in->loader, bytes, in->err));
        run.scales = in->loader->block;
        run.biases = run.scales + r->n_out * n_groups;
        run.codes = keeps_codes ? NULL : (uint8_t *)(run.biases + r->n_out * n_groups);
        tdm_team_run(in->loader->backend->team, repack_member, &run);
    }
    /* A plan asks for shapes and sizes; any place does for it. */
    const void *scales = in->loader->is_plan ? (const void *)r->codes : run.scales;
    const void *biases = in->loader->is_plan ? (const void *)r->codes : run.biases;
    *out = (tdm_weight_source){
        .mode = TDM_WEIGHT_AFFINE,
        .bits = r->bits,
        .group = tdm_repack_group(r),
        .view = matrix(TDM_DTYPE_U32, r->n_out, r->n_in / 32 * r->bits,
                       run.codes != NULL ? run.codes : r->codes),
        .scales = matrix(TDM_DTYPE_F32, r->n_out, n_groups, scales),
        .biases = matrix(TDM_DTYPE_F32, r->n_out, n_groups, biases),
        .is_transient = true,
        .columns = r->columns,
    };
    return TDM_OK;
}

/* A bias of zeros, which GPTQ's writers give to linears without one. A plan takes every bias for
 * one of zeros. */
static void drop_zero_bias(const intake *in) {
    const tdm_checkpoint_tensor *bias = find_beside(in, "bias");
    const uint8_t *data = bias != NULL ? bias->view.data : NULL;
    for (size_t i = 0; bias != NULL && !in->loader->is_plan && i < bias->view.bytes; i++) {
        if (data[i] != 0) {
            return;
        }
    }
    if (bias != NULL) {
        tdm_loader_consume(in->loader, bias, 0);
    }
}

/* AWQ and GPTQ: [n_in or words of it, n_out or words of it]. */
static tdm_status columns_source(intake *in, tdm_weight_source *out) {
    const tdm_quant_config *config = &in->loader->quant;
    const tdm_checkpoint_tensor *zeros = NULL;
    const tdm_checkpoint_tensor *scales = NULL;
    const tdm_checkpoint_tensor *g_idx = find_beside(in, "g_idx");
    const bool is_awq = config->method == TDM_QUANT_METHOD_AWQ;
    const tdm_tensor_view *view = &in->weight->view;
    tdm_repack *r = &in->repack;
    if (!is_awq && config->method != TDM_QUANT_METHOD_GPTQ) {
        return fail_unsupported(in, "config.json does not say in which order its words are "
                                    "(quant_method awq or gptq)");
    }
    TDM_TRY(need_type(in, in->weight, TDM_DTYPE_I32));
    TDM_TRY(need_beside(in, "qzeros", &zeros));
    TDM_TRY(need_beside(in, "scales", &scales));
    r->layout = is_awq ? TDM_REPACK_AWQ : TDM_REPACK_GPTQ;
    r->bits = 4;
    if (!is_awq && view->rank == 2 && view->dims[0] <= r->n_in && view->dims[0] > 0 &&
        view->dims[0] * 32 % r->n_in == 0) {
        r->bits = (int32_t)(view->dims[0] * 32 / r->n_in);
    }
    if (r->bits < 1 || r->bits > 8 || r->n_in * r->bits % 32 != 0 || r->n_out * r->bits % 32 != 0) {
        return fail_shape(in, in->weight, "rows and columns are no whole words");
    }
    TDM_TRY(is_awq ? need_matrix(in, in->weight, r->n_in, r->n_out / 8)
                   : need_matrix(in, in->weight, r->n_in / 32 * r->bits, r->n_out));
    r->n_scales = scales->view.rank == 2 ? scales->view.dims[0] : 0;
    TDM_TRY(need_matrix(in, scales, r->n_scales, r->n_out));
    TDM_TRY(need_floats(in, scales));
    TDM_TRY(need_matrix(in, zeros, r->n_scales, r->n_out / 32 * r->bits));
    TDM_TRY(need_type(in, zeros, TDM_DTYPE_I32));
    r->codes = view->data;
    r->zeros = zeros->view.data;
    r->zero_add = config->zero_add;
    r->scales = scales->view.data;
    r->scales_dtype = scales->view.dtype;
    TDM_TRY(check_sizes(in));
    if (g_idx != NULL && !is_awq) {
        TDM_TRY(order_columns(in, g_idx));
    }
    tdm_loader_consume(in->loader, zeros, 0);
    tdm_loader_consume(in->loader, scales, 0);
    drop_zero_bias(in);
    return convert(in, out);
}

/* weight_shape [2], which repeats what the model knows. */
static tdm_status check_stated_shape(const intake *in) {
    const tdm_checkpoint_tensor *shape = find_beside(in, "weight_shape");
    const int64_t two = 2;
    if (shape == NULL) {
        return TDM_OK;
    }
    TDM_TRY(tdm_loader_check_shape(in->loader, shape, 1, &two, in->err));
    size_t each = TDM_DTYPES[shape->view.dtype].block_bytes;
    if (shape->view.dtype != TDM_DTYPE_I64 && shape->view.dtype != TDM_DTYPE_I32) {
        return need_type(in, shape, TDM_DTYPE_I64);
    }
    for (size_t i = 0; i < 2 && !in->loader->is_plan; i++) {
        const uint8_t *value = (const uint8_t *)shape->view.data + i * each;
        uint64_t n = tdm_load_u32(value);
        if (each == 8) {
            n |= (uint64_t)tdm_load_u32(value + 4) << 32;
        }
        if (n != (uint64_t)(i == 0 ? in->part->n_out : in->part->n_in)) {
            return fail_shape(in, shape, "it states another shape than the config");
        }
    }
    tdm_loader_consume(in->loader, shape, 0);
    return TDM_OK;
}

/* Scales of compressed-tensors: one, or a row of n_groups for each output. */
static tdm_status read_scales(intake *in, const tdm_checkpoint_tensor *scales) {
    tdm_repack *r = &in->repack;
    const tdm_tensor_view *view = &scales->view;
    size_t each = TDM_DTYPES[view->dtype].block_bytes;
    TDM_TRY(need_floats(in, scales));
    r->has_one_scale = view->bytes == each;
    r->n_scales = r->has_one_scale ? 1 : view->rank == 2 ? view->dims[1] : 0;
    if (!r->has_one_scale) {
        TDM_TRY(need_matrix(in, scales, r->n_out, r->n_scales));
    }
    r->scales = view->data;
    r->scales_dtype = view->dtype;
    return TDM_OK;
}

static tdm_status read_zeros(intake *in, const tdm_checkpoint_tensor *zeros) {
    tdm_repack *r = &in->repack;
    if (zeros == NULL) {
        return TDM_OK;
    }
    if (r->layout == TDM_REPACK_PACKED) {
        TDM_TRY(need_matrix(in, zeros, r->n_out * r->bits / 32, r->n_scales));
        TDM_TRY(need_type(in, zeros, TDM_DTYPE_I32));
    } else {
        if (!r->has_one_scale || zeros->view.bytes != 1) {
            TDM_TRY(need_matrix(in, zeros, r->n_out, r->n_scales));
        }
        TDM_TRY(need_type(in, zeros, TDM_DTYPE_I8));
    }
    r->zeros = zeros->view.data;
    tdm_loader_consume(in->loader, zeros, 0);
    return TDM_OK;
}

/* weight_packed of integers, or weight as I8. */
static tdm_status integer_source(intake *in, const tdm_checkpoint_tensor *scales,
                                 tdm_weight_source *out) {
    const tdm_tensor_view *view = &in->weight->view;
    const tdm_checkpoint_tensor *g_idx = find_beside(in, "weight_g_idx");
    tdm_repack *r = &in->repack;
    if (view->dtype == TDM_DTYPE_I8) {
        r->layout = TDM_REPACK_BYTES;
        r->bits = 8;
        TDM_TRY(need_matrix(in, in->weight, r->n_out, r->n_in));
    } else {
        r->layout = TDM_REPACK_PACKED;
        TDM_TRY(need_type(in, in->weight, TDM_DTYPE_I32));
        int64_t words = view->rank == 2 ? view->dims[1] : 0;
        if (words < 1 || words > r->n_in || words * 32 % r->n_in != 0 || words * 32 / r->n_in > 8) {
            return fail_shape(in, in->weight, "its words are no stream of 1 to 8 bits a weight");
        }
        r->bits = (int32_t)(words * 32 / r->n_in);
        TDM_TRY(need_matrix(in, in->weight, r->n_out, words));
    }
    if (r->bits == 7) {
        return fail_unsupported(in, "7 bits a weight");
    }
    r->codes = view->data;
    TDM_TRY(read_scales(in, scales));
    TDM_TRY(read_zeros(in, find_beside(in, "weight_zero_point")));
    TDM_TRY(check_sizes(in));
    if (g_idx != NULL) {
        TDM_TRY(order_columns(in, g_idx));
    } else if (in->loader->quant.has_columns && r->n_scales > 1) {
        return need_beside(in, "weight_g_idx", &g_idx);
    }
    TDM_TRY(check_stated_shape(in));
    return convert(in, out);
}

/* weight as F8_E4M3 with one scale, one a row, some a row, or one a block. */
static tdm_status fp8_source(intake *in, const tdm_checkpoint_tensor *scales,
                             tdm_weight_source *out) {
    const tdm_quant_config *config = &in->loader->quant;
    const int64_t n_out = in->part->n_out;
    const int64_t n_in = in->part->n_in;
    tdm_tensor_view view = scales->view;
    TDM_TRY(need_matrix(in, in->weight, n_out, n_in));
    TDM_TRY(need_floats(in, scales));
    if (n_in > INT32_MAX || n_out > INT32_MAX) {
        return fail_shape(in, in->weight, "too large");
    }
    int64_t rows = n_out;
    int64_t columns = n_in;
    if (view.bytes == TDM_DTYPES[view.dtype].block_bytes) { /* [], [1] or [1, 1] */
        view.rank = 2;
        view.dims[0] = 1;
        view.dims[1] = 1;
    } else if (view.rank == 2 && view.dims[0] == n_out && view.dims[1] >= 1 &&
               n_in % view.dims[1] == 0) {
        rows = 1;
        columns = n_in / view.dims[1];
    } else {
        rows = config->block_rows > 0 ? config->block_rows : 128;
        columns = config->block_columns > 0 ? config->block_columns : 128;
    }
    *out = (tdm_weight_source){.mode = TDM_WEIGHT_FP8,
                               .bits = 8,
                               .group = (int32_t)columns,
                               .group_rows = (int32_t)rows,
                               .view = in->weight->view,
                               .scales = view};
    return TDM_OK;
}

/* weight_packed of E2M1: U8 [n_out, n_in / 2], with E4M3 or E8M0 scales. */
static tdm_status e2m1_source(intake *in, const tdm_checkpoint_tensor *scales,
                              tdm_weight_source *out) {
    const tdm_checkpoint_tensor *global = find_beside(in, "weight_global_scale");
    const int64_t n_out = in->part->n_out;
    const int64_t n_in = in->part->n_in;
    const int32_t group = global != NULL ? 16 : 32;
    if (n_in % 32 != 0) {
        return fail_unsupported(in, "rows that are no whole blocks of 32");
    }
    TDM_TRY(need_matrix(in, in->weight, n_out, n_in / 2));
    TDM_TRY(need_matrix(in, scales, n_out, n_in / group));
    TDM_TRY(need_type(in, scales, global != NULL ? TDM_DTYPE_F8_E4M3 : TDM_DTYPE_U8));
    *out =
        (tdm_weight_source){.mode = global != NULL ? TDM_WEIGHT_NVFP4 : TDM_WEIGHT_MXFP4,
                            .bits = 4,
                            .group = group,
                            .view = matrix(TDM_DTYPE_U32, n_out, n_in / 8, in->weight->view.data),
                            .scales = matrix(TDM_DTYPE_U8, n_out, n_in / group, scales->view.data)};
    if (global != NULL) {
        TDM_TRY(need_type(in, global, TDM_DTYPE_F32));
        if (global->view.bytes != sizeof(float)) {
            return fail_shape(in, global, "it is not one value");
        }
        /* It divides here; MLX's, which the source takes, multiplies 1 / 2688 of itself. */
        out->has_global_scale = true;
        out->global_scale = in->loader->is_plan
                                ? 1.0f
                                : 2688.0f / tdm_f32_from_bits(tdm_load_u32(global->view.data));
        tdm_loader_consume(in->loader, global, 0);
    }
    return TDM_OK;
}

static tdm_status compressed_source(intake *in, tdm_weight_source *out) {
    const tdm_checkpoint_tensor *scales = NULL;
    TDM_TRY(need_beside(in, "weight_scale", &scales));
    tdm_loader_consume(in->loader, scales, 0);
    switch ((int)in->weight->view.dtype) {
    case TDM_DTYPE_I8:
    case TDM_DTYPE_I32:
        return integer_source(in, scales, out);
    case TDM_DTYPE_F8_E4M3:
        return fp8_source(in, scales, out);
    case TDM_DTYPE_U8:
        return e2m1_source(in, scales, out);
    default:
        return fail_unsupported(in, "weights with a scale, of a type that has no reader here");
    }
}

tdm_status tdm_loader_foreign(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                              const char *module, bool is_columns, const tdm_loader_part *part,
                              tdm_weight_source *out, tdm_error *err) {
    intake in = {.loader = loader, .weight = weight, .part = part, .err = err};
    (void)snprintf(in.module, sizeof in.module, "%s", module);
    in.repack.n_out = part->n_out;
    in.repack.n_in = part->n_in;
    in.repack.n_scales = 1;
    if (tdm_quant_config_leaves_out(&loader->quant, module)) {
        (void)tdm_fail(err, TDM_E_FORMAT,
                       "%.100s: the config says not quantized, the file has quantized tensors",
                       module);
        return tdm_loader_fail_at(loader, weight, TDM_E_FORMAT, err);
    }
    if (part->n_stack > 0) {
        return fail_unsupported(&in, "a stack of experts in this layout");
    }
    int64_t *stored = &loader->tally->stored_bytes[loader->tally->section];
    int64_t before = *stored;
    tdm_loader_consume(loader, weight, part->n_out * part->n_in);
    TDM_TRY(is_columns ? columns_source(&in, out) : compressed_source(&in, out));
    if (out->is_transient) { /* the backend will say that it replaces what it was lent */
        int64_t lent = (int64_t)(out->view.bytes + out->scales.bytes + out->biases.bytes);
        loader->tally->replaced_bytes[loader->tally->section] += *stored - before - lent;
    }
    return TDM_OK;
}
