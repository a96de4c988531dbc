/* SPDX-License-Identifier: Apache-2.0
 *
 * One weight from its tensors: M.weight alone, with M.weight_scale_inv (fp8), or with M.scales,
 * M.biases and M.global_scale (MLX); loader_foreign.c has the layouts of other tool chains. A module
 * is quantized when its scales are in the file; how, the shapes say, and config.json must agree
 * (spec/reliability.md F14). */
#include "model/blocks/loader_priv.h"

#include "tensor/half.h"

#include <stdio.h>
#include <string.h>

typedef struct quant_set {
    char module[TDM_LOADER_NAME_MAX];
    const tdm_checkpoint_tensor *scales;
    const tdm_checkpoint_tensor *biases;
    const tdm_checkpoint_tensor *global_scale;
    const tdm_checkpoint_tensor *scale_inv; /* fp8's scales */
    bool is_compressed;                     /* weight_scale: compressed-tensors */
} quant_set;

/* What stands for "weight" where another tool chain packed it. */
static const char *const STAND_INS[] = {"qweight", "weight_packed"};

static const tdm_checkpoint_tensor *find_beside(const tdm_loader *loader, const char *module,
                                                const char *suffix) {
    char name[TDM_LOADER_NAME_MAX + 24];
    (void)snprintf(name, sizeof name, "%s.%s", module, suffix);
    return tdm_checkpoint_find(loader->checkpoint, name);
}

/* Whether name is a module's with suffix behind; writes the module. */
static bool is_module_of(const char *name, const char *suffix, char module[TDM_LOADER_NAME_MAX]) {
    size_t len = strlen(name);
    size_t tail = strlen(suffix);
    if (len <= tail || len - tail >= TDM_LOADER_NAME_MAX ||
        strcmp(name + len - tail, suffix) != 0) {
        return false;
    }
    memcpy(module, name, len - tail);
    module[len - tail] = '\0';
    return true;
}

/* The set around "MODULE.weight"; false when the name has another ending. */
static bool find_set(const tdm_loader *loader, const char *name, quant_set *out) {
    memset(out, 0, sizeof *out);
    if (!is_module_of(name, ".weight", out->module)) {
        return false;
    }
    out->scales = find_beside(loader, out->module, "scales");
    out->biases = find_beside(loader, out->module, "biases");
    out->global_scale = find_beside(loader, out->module, "global_scale");
    out->scale_inv = find_beside(loader, out->module, "weight_scale_inv");
    out->is_compressed = find_beside(loader, out->module, "weight_scale") != NULL;
    return true;
}

const tdm_checkpoint_tensor *tdm_loader_find_weight(const tdm_loader *loader, const char *name) {
    const tdm_checkpoint_tensor *tensor = tdm_checkpoint_find(loader->checkpoint, name);
    char module[TDM_LOADER_NAME_MAX];
    if (tensor != NULL || !is_module_of(name, ".weight", module)) {
        return tensor;
    }
    for (size_t i = 0; tensor == NULL && i < sizeof STAND_INS / sizeof STAND_INS[0]; i++) {
        tensor = find_beside(loader, module, STAND_INS[i]);
    }
    return tensor;
}

/* The matrix of a part as a view; rank and stack were checked. */
static tdm_tensor_view slice(const tdm_tensor_view *view, const tdm_loader_part *part) {
    tdm_tensor_view out = *view;
    if (part->n_stack > 0) {
        out.rank = 2;
        out.dims[0] = view->dims[1];
        out.dims[1] = view->dims[2];
        out.bytes = view->bytes / (size_t)part->n_stack;
        out.data = (const uint8_t *)view->data + (size_t)part->idx * out.bytes;
    }
    return out;
}

/* [n_out, any], under a stack if there is one; columns are judged by tdm_quant_from_shapes. */
static tdm_status check_rows(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                             const tdm_loader_part *part, tdm_error *err) {
    int32_t rank = part->n_stack > 0 ? 3 : 2;
    int64_t dims[3] = {part->n_stack, part->n_out, 0};
    const int64_t *want = part->n_stack > 0 ? dims : dims + 1;
    dims[2] = tensor->view.rank == rank ? tensor->view.dims[rank - 1] : 0;
    return tdm_loader_check_shape(loader, tensor, rank, want, err);
}

static tdm_status plain_source(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                               const tdm_loader_part *part, tdm_weight_source *out,
                               tdm_error *err) {
    const int64_t dims[3] = {part->n_stack, part->n_out, part->n_in};
    bool is_stack = part->n_stack > 0;
    if (!is_stack && part->n_out == 1 &&
        weight->view.rank == 1) { /* one row, as GGUF may have it */
        TDM_TRY(tdm_loader_check_shape(loader, weight, 1, &part->n_in, err));
    } else {
        TDM_TRY(tdm_loader_check_shape(loader, weight, is_stack ? 3 : 2, is_stack ? dims : dims + 1,
                                       err));
    }
    *out = (tdm_weight_source){.mode = TDM_WEIGHT_PLAIN, .view = slice(&weight->view, part)};
    if (out->view.rank == 1) {
        out->view.rank = 2;
        out->view.dims[0] = 1;
        out->view.dims[1] = part->n_in;
    }
    tdm_loader_consume(loader, weight, part->n_out * part->n_in * (is_stack ? part->n_stack : 1));
    return TDM_OK;
}

/* A weight without scales must not be meant to have them. */
static tdm_status check_unquantized(const tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                                    const quant_set *set, tdm_error *err) {
    tdm_quant said;
    const tdm_checkpoint_tensor *extra = set->biases != NULL ? set->biases : set->global_scale;
    if (extra != NULL) {
        (void)tdm_fail(err, TDM_E_FORMAT, "tensor \"%.100s\" stands without \"%.100s.scales\"",
                       extra->name, set->module);
    } else if (tdm_quant_config_ask(&loader->quant, set->module, &said) == TDM_QUANT_NAMED ||
               weight->view.dtype == TDM_DTYPE_U32) {
        (void)tdm_fail(err, TDM_E_FORMAT, "quantized tensor \"%.100s\" has no \"%.100s.scales\"",
                       weight->name, set->module);
    } else {
        return TDM_OK;
    }
    tdm_err_remedy(err, "the checkpoint is incomplete; fetch it again");
    return tdm_loader_fail_at(loader, weight, TDM_E_FORMAT, err);
}

static tdm_status check_biases(const tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                               const quant_set *set, tdm_weight_mode mode, tdm_error *err) {
    bool needs = mode == TDM_WEIGHT_AFFINE;
    if (needs == (set->biases != NULL) && (mode == TDM_WEIGHT_NVFP4 || set->global_scale == NULL)) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_FORMAT, "quantized tensor \"%.100s\": %s", weight->name,
                   needs && set->biases == NULL ? "its scales are there and its biases are not"
                   : set->biases != NULL        ? "its mode has no biases, the file does"
                                                : "its mode has no global_scale, the file does");
    tdm_err_remedy(err, "the checkpoint is damaged; fetch it again");
    return tdm_loader_fail_at(loader, weight, TDM_E_FORMAT, err);
}

static tdm_status read_global_scale(const tdm_loader *loader, const tdm_checkpoint_tensor *tensor,
                                    const tdm_loader_part *part, tdm_weight_source *out,
                                    tdm_error *err) {
    size_t n = part->n_stack > 0 ? (size_t)part->n_stack : 1;
    if (tensor->view.dtype != TDM_DTYPE_F32 || tensor->view.bytes != n * sizeof(float)) {
        (void)tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" is not %zu values of F32", tensor->name,
                       n);
        return tdm_loader_fail_at(loader, tensor, TDM_E_SHAPE, err);
    }
    const uint8_t *values = tensor->view.data;
    out->has_global_scale = true;
    out->global_scale =
        loader->is_plan ? 1.0F : tdm_f32_from_bits(tdm_load_u32(values + 4 * part->idx));
    return TDM_OK;
}

static tdm_status check_config(const tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                               const quant_set *set, const tdm_quant *found, tdm_error *err) {
    tdm_quant said;
    tdm_status status = TDM_OK;
    switch (tdm_quant_config_ask(&loader->quant, set->module, &said)) {
    case TDM_QUANT_OFF:
        status = tdm_fail(err, TDM_E_FORMAT, "the config says not quantized, the file has scales");
        break;
    case TDM_QUANT_DEFAULT:
    case TDM_QUANT_NAMED:
        status = tdm_quant_agree(&said, found, err);
        break;
    case TDM_QUANT_SILENT:
    default:
        break;
    }
    if (status != TDM_OK) {
        tdm_err_note(err, "%.100s", set->module);
        return tdm_loader_fail_at(loader, weight, status, err);
    }
    return TDM_OK;
}

static tdm_status quantized_source(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                                   const quant_set *set, const tdm_loader_part *part,
                                   tdm_weight_source *out, tdm_error *err) {
    int32_t last = part->n_stack > 0 ? 2 : 1;
    tdm_quant quant;
    TDM_TRY(check_rows(loader, weight, part, err));
    TDM_TRY(check_rows(loader, set->scales, part, err));
    tdm_status status =
        tdm_quant_from_shapes(&quant, part->n_in, weight->view.dims[last],
                              set->scales->view.dims[last], set->scales->view.dtype, err);
    if (status != TDM_OK) {
        tdm_err_note(err, "%.100s", set->module);
        return tdm_loader_fail_at(loader, weight, status, err);
    }
    TDM_TRY(check_biases(loader, weight, set, quant.mode, err));
    TDM_TRY(check_config(loader, weight, set, &quant, err));
    *out = (tdm_weight_source){.mode = quant.mode,
                               .bits = quant.bits,
                               .group = quant.group,
                               .view = slice(&weight->view, part),
                               .scales = slice(&set->scales->view, part)};
    if (set->biases != NULL) {
        TDM_TRY(check_rows(loader, set->biases, part, err));
        out->biases = slice(&set->biases->view, part);
        tdm_loader_consume(loader, set->biases, 0);
    }
    if (set->global_scale != NULL) {
        TDM_TRY(read_global_scale(loader, set->global_scale, part, out, err));
        tdm_loader_consume(loader, set->global_scale, 0);
    }
    tdm_loader_consume(loader, weight,
                       part->n_out * part->n_in * (part->n_stack > 0 ? part->n_stack : 1));
    tdm_loader_consume(loader, set->scales, 0);
    return TDM_OK;
}

/* M.weight as E4M3 and M.weight_scale_inv. tdm_weight_describe compares their shapes. */
static tdm_status fp8_source(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                             const tdm_checkpoint_tensor *scales, const tdm_loader_part *part,
                             tdm_weight_source *out, tdm_error *err) {
    int32_t rank = part->n_stack > 0 ? 3 : 2;
    TDM_TRY(plain_source(loader, weight, part, out, err));
    if (scales->view.rank != rank || (rank == 3 && scales->view.dims[0] != part->n_stack)) {
        (void)tdm_fail(err, TDM_E_SHAPE, "tensor \"%.100s\" does not match the rank of its weight",
                       scales->name);
        return tdm_loader_fail_at(loader, scales, TDM_E_SHAPE, err);
    }
    out->mode = TDM_WEIGHT_FP8;
    out->bits = 8;
    out->group = loader->quant.block_columns > 0 ? loader->quant.block_columns : 128;
    out->group_rows = loader->quant.block_rows > 0 ? loader->quant.block_rows : 128;
    out->scales = slice(&scales->view, part);
    tdm_loader_consume(loader, scales, 0);
    return TDM_OK;
}

/* The bytes of a row's blocks in order are MLX's stream of codes (spec/quantized-formats.md
 * section 3), so that both tensors are used where they lie. */
tdm_status tdm_loader_blocks(tdm_loader *loader, const tdm_checkpoint_tensor *blocks,
                             const tdm_checkpoint_tensor *scales, const tdm_loader_part *part,
                             tdm_weight_source *out, tdm_error *err) {
    const int64_t dims[4] = {part->n_stack, part->n_out, part->n_in / 32, 16};
    TDM_CHECK(part->n_stack >= 1 && part->idx >= 0 && part->idx < part->n_stack);
    if (part->n_in % 32 != 0) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "mxfp4 rows of %lld weights: no whole blocks of 32",
                       (long long)part->n_in);
        return tdm_loader_fail_at(loader, blocks, TDM_E_UNSUPPORTED, err);
    }
    TDM_TRY(tdm_loader_check_shape(loader, blocks, 4, dims, err));
    TDM_TRY(tdm_loader_check_shape(loader, scales, 3, dims, err));
    if (blocks->view.dtype != TDM_DTYPE_U8 || scales->view.dtype != TDM_DTYPE_U8) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "mxfp4 blocks stored as %s with scales as %s",
                       TDM_DTYPES[blocks->view.dtype].name, TDM_DTYPES[scales->view.dtype].name);
        return tdm_loader_fail_at(loader, blocks, TDM_E_UNSUPPORTED, err);
    }
    tdm_tensor_view codes = blocks->view;
    codes.dtype = TDM_DTYPE_U32;
    codes.rank = 3;
    codes.dims[2] = part->n_in / 8;
    *out = (tdm_weight_source){.mode = TDM_WEIGHT_MXFP4,
                               .bits = 4,
                               .group = 32,
                               .view = slice(&codes, part),
                               .scales = slice(&scales->view, part)};
    tdm_loader_consume(loader, blocks, part->n_stack * part->n_out * part->n_in);
    tdm_loader_consume(loader, scales, 0);
    return TDM_OK;
}

tdm_status tdm_loader_source(tdm_loader *loader, const tdm_checkpoint_tensor *weight,
                             const tdm_loader_part *part, tdm_weight_source *out, tdm_error *err) {
    quant_set set;
    char module[TDM_LOADER_NAME_MAX];
    bool is_columns = is_module_of(weight->name, ".qweight", module);
    if (is_columns || is_module_of(weight->name, ".weight_packed", module)) {
        return tdm_loader_foreign(loader, weight, module, is_columns, part, out, err);
    }
    bool may_have_set = tdm_checkpoint_container(loader->checkpoint) == TDM_CONTAINER_SAFETENSORS &&
                        find_set(loader, weight->name, &set);
    if (may_have_set && set.scales != NULL) {
        return quantized_source(loader, weight, &set, part, out, err);
    }
    if (may_have_set && set.scale_inv != NULL) {
        return fp8_source(loader, weight, set.scale_inv, part, out, err);
    }
    if (may_have_set && set.is_compressed) {
        return tdm_loader_foreign(loader, weight, set.module, false, part, out, err);
    }
    if (may_have_set) {
        TDM_TRY(check_unquantized(loader, weight, &set, err));
    }
    return plain_source(loader, weight, part, out, err);
}
