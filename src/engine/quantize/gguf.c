/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a GGUF file: which tensor gets which type, and the file's header. From a GGUF file
 * metadata comes over as it is; from safetensors see hf.c.
 * Source of the choices: llama.cpp of llama-cpp-python 0.3.36, src/llama-quant.cpp (facts only). */
#include "engine/quantize/gguf.h"

#include "base/arith.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has(const char *name, const char *part) {
    return strstr(name, part) != NULL;
}

/* Vectors (a matrix of one row too) and what is small and delicate stays. */
static bool is_quantizable(const char *name, int64_t n_rows) {
    static const char *const KEPT[] = {
        "_norm.weight", "ffn_gate_inp.weight", "altup",      "laurel",  "per_layer_model_proj",
        "ssm_conv1d",   "shortconv.conv",      "attn_rel_b", "indexer", "ffn_gate_tid2eid",
        "time_mix_",    "position_embd",       "token_types"};
    const size_t len = strlen(name);
    if (n_rows < 2 || len < 6 || strcmp(name + len - 6, "weight") != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof KEPT / sizeof KEPT[0]; i++) {
        if (has(name, KEPT[i])) {
            return false;
        }
    }
    return true;
}

static bool is_block_type(tdm_dtype dtype) {
    return TDM_DTYPES[dtype].block_weights > 1;
}

static int32_t layer_of(const char *name) {
    const long layer = strncmp(name, "blk.", 4) == 0 ? strtol(name + 4, NULL, 10) : 0;
    return layer >= 0 && layer < 1048576 ? (int32_t)layer : 0;
}

/* The first and last eighth of the layers, and each third between. */
static bool gets_more(int32_t layer, int32_t n_layers) {
    const int32_t eighth = n_layers / 8;
    return layer < eighth || layer >= 7 * n_layers / 8 || (layer - eighth) % 3 == 2;
}

/* The head, or the table that serves as one: six bits, where the width allows it. */
static tdm_dtype head_type(tdm_dtype base, int64_t n_in) {
    if (n_in % (int64_t)TDM_DTYPES[base].block_weights != 0) {
        return TDM_DTYPE_Q8_0;
    }
    return base == TDM_DTYPE_Q8_0 ? base : TDM_DTYPE_Q6_K;
}

/* Mixtures of 4 and 5 bits: values and down projections get more. */
static tdm_dtype mixed_type(const tdm_recipe *recipe, const tdm_gguf_mix *mix, const char *name) {
    const tdm_dtype base = recipe->base_dtype;
    const int32_t layer = layer_of(name);
    const bool is_value = has(name, "attn_v.weight");
    const bool is_down = has(name, "ffn_down");
    if (base != TDM_DTYPE_Q4_K && base != TDM_DTYPE_Q5_K) {
        return base;
    }
    if (mix->n_experts == 8 && (is_value || has(name, "attn_k.weight"))) {
        return TDM_DTYPE_Q8_0;
    }
    if (mix->n_experts == 8 && base == TDM_DTYPE_Q4_K && has(name, "attn_output.weight")) {
        return TDM_DTYPE_Q5_K;
    }
    if (recipe->is_k_m && has(name, "attn_qkv.weight")) {
        return base == TDM_DTYPE_Q4_K ? TDM_DTYPE_Q5_K : TDM_DTYPE_Q6_K;
    }
    if (recipe->is_k_m) {
        return (is_value || is_down) && gets_more(layer, mix->n_layers) ? TDM_DTYPE_Q6_K : base;
    }
    const bool is_early = (is_value && layer < 4) || (is_down && layer < mix->n_layers / 8);
    return base == TDM_DTYPE_Q4_K && is_early ? TDM_DTYPE_Q5_K : base;
}

/* A row must be whole blocks: a smaller block of the next better type, at last f16. */
static tdm_dtype fitting_type(tdm_dtype dtype, int64_t n_in) {
    if (n_in % (int64_t)TDM_DTYPES[dtype].block_weights == 0) {
        return dtype;
    }
    const tdm_dtype smaller = dtype == TDM_DTYPE_Q4_K   ? TDM_DTYPE_Q5_0
                              : dtype == TDM_DTYPE_Q5_K ? TDM_DTYPE_Q5_1
                              : dtype == TDM_DTYPE_Q6_K ? TDM_DTYPE_Q8_0
                                                        : TDM_DTYPE_F16;
    return n_in % (int64_t)TDM_DTYPES[smaller].block_weights == 0 ? smaller : TDM_DTYPE_F16;
}

static tdm_status fail_width(const char *name, tdm_dtype dtype, int64_t n_in, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_ARG, "rows of %lld weights are no whole blocks of %s",
                   (long long)n_in, TDM_DTYPES[dtype].name);
    tdm_err_where(err, "%.100s", name);
    tdm_err_limit(err, "multiples of %u", (unsigned)TDM_DTYPES[dtype].block_weights);
    return TDM_E_ARG;
}

tdm_status tdm_gguf_choose(tdm_recipe *recipe, const tdm_gguf_mix *mix, const char *name,
                           int64_t n_rows, int64_t n_in, tdm_dtype current, tdm_dtype *out,
                           tdm_error *err) {
    char stem[128];
    const size_t len = strlen(name);
    *out = current;
    if (!is_quantizable(name, n_rows)) {
        return TDM_OK;
    }
    (void)snprintf(stem, sizeof stem, "%.*s", len > 7 ? (int)(len - 7) : 0, name);
    switch (tdm_recipe_ask_gguf(recipe, stem, out)) {
    case TDM_RECIPE_OFF:
        return TDM_OK;
    case TDM_RECIPE_OWN:
        return n_in % (int64_t)TDM_DTYPES[*out].block_weights == 0
                   ? TDM_OK
                   : fail_width(name, *out, n_in, err);
    case TDM_RECIPE_DEFAULT:
    default:
        break;
    }
    *out = recipe->base_dtype;
    if (is_block_type(*out)) {
        const bool is_head = strcmp(name, "output.weight") == 0 ||
                             (mix->is_tied && strcmp(name, "token_embd.weight") == 0);
        *out = is_head ? head_type(*out, n_in) : mixed_type(recipe, mix, name);
        *out = fitting_type(*out, n_in);
    }
    return TDM_OK;
}

tdm_status tdm_gguf_finish_item(tdm_item *item, tdm_dtype dtype, tdm_error *err) {
    tdm_write_tensor *out = &item->out[0];
    const tdm_dtype_info *info = &TDM_DTYPES[dtype];
    const bool is_same = item->parts->mode == TDM_WEIGHT_PLAIN && item->parts->dtype == dtype &&
                         item->offset == 0.0f;
    size_t bytes = info->block_bytes;
    out->dtype = dtype;
    item->n_out = 1;
    item->kind = is_same ? TDM_ITEM_COPY : TDM_ITEM_ROWS;
    if (!is_same && !tdm_quantize_can(dtype)) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": %s is not written", item->name,
                        info->name);
    }
    if (item->n_in % (int64_t)info->block_weights != 0) {
        return fail_width(item->name, dtype, item->n_in, err);
    }
    if (!tdm_mul_size(bytes, (size_t)(item->n_in / (int64_t)info->block_weights), &bytes) ||
        !tdm_mul_size(bytes, (size_t)item->n_rows, &bytes)) {
        return tdm_fail(err, TDM_E_LIMIT, "tensor \"%.100s\" is too large", item->name);
    }
    out->bytes = bytes;
    return TDM_OK;
}

uint32_t tdm_gguf_file_type(const tdm_recipe *recipe) {
    static const struct {
        tdm_dtype dtype;
        bool is_k_m;
        uint32_t id;
    } IDS[] = {
        {TDM_DTYPE_F32, false, 0},   {TDM_DTYPE_F16, false, 1},   {TDM_DTYPE_Q4_0, false, 2},
        {TDM_DTYPE_Q4_1, false, 3},  {TDM_DTYPE_Q8_0, false, 7},  {TDM_DTYPE_Q5_0, false, 8},
        {TDM_DTYPE_Q5_1, false, 9},  {TDM_DTYPE_Q4_K, false, 14}, {TDM_DTYPE_Q4_K, true, 15},
        {TDM_DTYPE_Q5_K, false, 16}, {TDM_DTYPE_Q5_K, true, 17},  {TDM_DTYPE_Q6_K, false, 18},
        {TDM_DTYPE_BF16, false, 32},
    };
    for (size_t i = 0; i < sizeof IDS / sizeof IDS[0]; i++) {
        if (IDS[i].dtype == recipe->base_dtype && IDS[i].is_k_m == recipe->is_k_m) {
            return IDS[i].id;
        }
    }
    return 0;
}

/* ---- from a GGUF file ---- */

/* What the output says itself, or has no more: it is one file of the usual alignment. */
static bool is_replaced_key(const char *key) {
    return strncmp(key, "split.", 6) == 0 || strcmp(key, "general.alignment") == 0 ||
           strcmp(key, "general.file_type") == 0 ||
           strcmp(key, "general.quantization_version") == 0;
}

static tdm_status copy_keys(tdm_quantize_job *job, tdm_gguf_writer *writer, tdm_error *err) {
    const tdm_gguf *gguf = tdm_checkpoint_gguf(job->checkpoint);
    for (size_t i = 0; i < tdm_gguf_n_keys(gguf); i++) {
        tdm_gguf_type type = TDM_GGUF_U8;
        if (!is_replaced_key(tdm_gguf_key_at(gguf, i, &type))) {
            TDM_TRY(tdm_gguf_put_copy(writer, gguf, i, err));
        }
    }
    return TDM_OK;
}

static void read_mix(const tdm_quantize_job *job, tdm_gguf_mix *mix) {
    const tdm_gguf *gguf = tdm_checkpoint_gguf(job->checkpoint);
    const char *arch = tdm_gguf_architecture(gguf);
    char key[256];
    uint64_t value = 0;
    mix->is_tied = tdm_checkpoint_find(job->checkpoint, "output.weight") == NULL;
    (void)snprintf(key, sizeof key, "%.100s.block_count", arch != NULL ? arch : "");
    if (tdm_gguf_get_u64(gguf, key, &value) && value < 1048576) {
        mix->n_layers = (int32_t)value;
    }
    value = 0;
    (void)snprintf(key, sizeof key, "%.100s.expert_count", arch != NULL ? arch : "");
    if (tdm_gguf_get_u64(gguf, key, &value) && value < 1048576) {
        mix->n_experts = (int32_t)value;
    }
}

/* A tensor that cannot be a matrix of rows (a scalar, an unreadable type) is copied. */
static tdm_status add_gguf_copy(tdm_quantize_job *job, const tdm_checkpoint_tensor *tensor,
                                tdm_error *err) {
    tdm_item *item = tdm_quantize_add_item(job);
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    if (item == NULL || weight == NULL) {
        return tdm_fail_nomem(err, "the plan of a conversion");
    }
    weight->dtype = tensor->view.dtype;
    weight->data = tensor->view.data;
    weight->row_bytes = tensor->view.bytes;
    weight->n_out = 1;
    item->name = tensor->name;
    item->kind = TDM_ITEM_COPY;
    item->parts = weight;
    item->n_parts = 1;
    item->n_rows = 1;
    const tdm_dtype_info *info = &TDM_DTYPES[tensor->view.dtype];
    item->n_in = (int64_t)(tensor->view.bytes / info->block_bytes * info->block_weights);
    item->n_out = 1;
    item->out[0] = (tdm_write_tensor){.name = tensor->name,
                                      .dtype = tensor->view.dtype,
                                      .rank = tensor->view.rank,
                                      .bytes = tensor->view.bytes};
    memcpy(item->out[0].dims, tensor->view.dims, sizeof item->out[0].dims);
    return TDM_OK;
}

static tdm_status add_gguf_tensor(tdm_quantize_job *job, const tdm_gguf_mix *mix,
                                  const tdm_checkpoint_tensor *tensor, tdm_error *err) {
    static const tdm_quant_config NONE;
    const tdm_tensor_view *view = &tensor->view;
    const int64_t n_in = view->rank > 0 ? view->dims[view->rank - 1] : 0;
    tdm_dtype dtype = view->dtype;
    int64_t n_rows = 1; /* of a vector; the product of the file's own sizes does not overflow */
    for (int32_t i = 0; i + 1 < view->rank; i++) {
        n_rows *= view->dims[i];
    }
    TDM_TRY(
        tdm_gguf_choose(&job->recipe, mix, tensor->name, n_rows, n_in, view->dtype, &dtype, err));
    if (dtype == view->dtype) {
        return add_gguf_copy(job, tensor, err);
    }
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    tdm_item *item = tdm_quantize_add_item(job);
    if (item == NULL || weight == NULL) {
        return tdm_fail_nomem(err, "the plan of a conversion");
    }
    TDM_TRY(tdm_quantize_describe(job, &NONE, tensor, weight, err));
    item->name = tensor->name;
    item->parts = weight;
    item->n_parts = 1;
    item->n_rows = weight->n_out;
    item->n_in = weight->n_in;
    item->out[0].name = tensor->name;
    item->out[0].rank = view->rank;
    memcpy(item->out[0].dims, view->dims, sizeof item->out[0].dims);
    return tdm_gguf_finish_item(item, dtype, err);
}

static tdm_status from_gguf(tdm_quantize_job *job, tdm_gguf_writer *writer, tdm_error *err) {
    tdm_gguf_mix mix = {0};
    read_mix(job, &mix);
    TDM_TRY(copy_keys(job, writer, err));
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(job->checkpoint); i++) {
        TDM_TRY(add_gguf_tensor(job, &mix, tdm_checkpoint_tensor_at(job->checkpoint, i), err));
    }
    return TDM_OK;
}

/* ---- the file ---- */

static tdm_status plan_file(tdm_quantize_job *job, const tdm_gguf_writer *writer, tdm_error *err) {
    tdm_status status = TDM_OK;
    const size_t n = job->n_items;
    job->n_files = job->n_weight_files = 1;
    job->alignment = TDM_GGUF_WRITE_ALIGNMENT;
    job->files = tdm_arena_calloc(&job->arena, 1, sizeof *job->files);
    job->headers = tdm_arena_calloc(&job->arena, 1, sizeof *job->headers);
    tdm_write_tensor *tensors = tdm_mem_calloc(job->alloc, n, sizeof *tensors);
    if (job->files == NULL || job->headers == NULL || tensors == NULL) {
        status = tdm_fail_nomem(err, "the plan of a conversion");
        goto done;
    }
    job->files[0] = tdm_path_name(job->dst);
    tdm_buf_init(&job->headers[0], job->alloc, 0);
    for (size_t i = 0; i < n; i++) {
        tensors[i] = job->items[i].out[0];
    }
    status = tdm_gguf_write_header(&job->headers[0], writer, tensors, n, err);
done:
    tdm_mem_free(job->alloc, tensors, n * sizeof *tensors);
    return status;
}

tdm_status tdm_quantize_plan_gguf(tdm_quantize_job *job, tdm_error *err) {
    tdm_gguf_writer writer;
    tdm_status status = TDM_OK;
    const bool is_gguf = tdm_checkpoint_container(job->checkpoint) == TDM_CONTAINER_GGUF;
    const char *name = tdm_path_name(job->dst);
    if (name[0] == '\0' || strcmp(name, "journal") == 0) {
        return tdm_fail(err, TDM_E_ARG, "\"%.100s\" is no name of a file", job->dst);
    }
    tdm_gguf_writer_init(&writer, job->alloc);
    TDM_TRY_GOTO(
        status, is_gguf ? from_gguf(job, &writer, err) : tdm_gguf_from_hf(job, &writer, err), done);
    if (job->n_items == 0) {
        status = tdm_fail(err, TDM_E_FORMAT, "the checkpoint has no tensors");
        goto done;
    }
    tdm_gguf_put_u32(&writer, "general.quantization_version", 2);
    tdm_gguf_put_u32(&writer, "general.file_type", tdm_gguf_file_type(&job->recipe));
    status = plan_file(job, &writer, err);
done:
    tdm_gguf_writer_deinit(&writer);
    return status;
}
