/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a folder in MLX layout: Hugging Face's names, experts stacked, matrices quantized where
 * the recipe says so. A family is taken when mlx-lm keeps its tensors as they are but for the stacking;
 * others are refused by name, since their weights would need rewriting.
 * Source: mlx-lm 0.32.2, utils.py and models (facts only); shared/spec/quantized-formats.md 1. */
#include "engine/quantize/mlx.h"

#include "engine/quantize/experts.h"

#include "base/arith.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_BYTES ((uint64_t)5 << 30)

typedef struct mlx_family {
    const char *model_type;
    tdm_expert_names experts; /* their stack has gate_proj, up_proj and down_proj */
    const char *stack;        /* what it is called, in the place of experts.before */
    const char *eight_bits;   /* modules of this ending get 8 bits in groups of 64; NULL: none */
} mlx_family;

static const mlx_family FAMILIES[] = {
    {.model_type = "llama"},
    {.model_type = "mistral"},
    {.model_type = "qwen2"},
    {.model_type = "qwen3"},
    {.model_type = "gemma"},
    {.model_type = "gemma2"},
    {.model_type = "gemma3_text"},
    {.model_type = "smollm3"},
    {.model_type = "phi3"},
    {.model_type = "starcoder2"},
    {.model_type = "olmo2"},
    {.model_type = "olmo3"},
    {.model_type = "cohere"},
    {.model_type = "cohere2"},
    {.model_type = "glm4"},
    {.model_type = "ministral3"},
    {"qwen2_moe", TDM_EXPERTS_QWEN, "mlp.switch_mlp", NULL},
    {"qwen3_moe", TDM_EXPERTS_QWEN, "mlp.switch_mlp", "mlp.gate"},
    {"mixtral", TDM_EXPERTS_MIXTRAL, "block_sparse_moe.switch_mlp", NULL},
};
#define N_FAMILIES (sizeof FAMILIES / sizeof FAMILIES[0])

typedef struct mlx_plan {
    tdm_quantize_job *job;
    const mlx_family *family;
    tdm_quant_config quant;
    bool is_tied;
    int32_t n_layers;
    tdm_dtype model_dtype; /* of what was quantized before and is not any more */
    tdm_mlx_config config;
} mlx_plan;

static bool ends_with(const char *text, const char *end) {
    const size_t len = strlen(text);
    const size_t tail = strlen(end);
    return len >= tail && strcmp(text + len - tail, end) == 0;
}

/* ---- what is taken ---- */

static tdm_status find_family(mlx_plan *plan, tdm_error *err) {
    const tdm_json *config = tdm_checkpoint_config(plan->job->checkpoint);
    const tdm_json *type = tdm_json_get(config, "model_type");
    char known[192] = ""; /* as much as a remedy holds */
    size_t used = 0;
    if (tdm_checkpoint_container(plan->job->checkpoint) != TDM_CONTAINER_SAFETENSORS) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a GGUF file does not become an MLX folder");
        tdm_err_where(err, "%s", plan->job->src);
        tdm_err_remedy(err, "start from the original checkpoint, or give --gguf TYPE");
        return TDM_E_UNSUPPORTED;
    }
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (tdm_json_text_is(type, FAMILIES[i].model_type)) {
            plan->family = &FAMILIES[i];
            return TDM_OK;
        }
        const int n = snprintf(known + used, sizeof known - used, "%s%s", i == 0 ? "" : ", ",
                               FAMILIES[i].model_type);
        used += n > 0 && (size_t)n < sizeof known - used ? (size_t)n : 0;
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "family \"%.60s\" is not converted to MLX's layout",
                   tdm_json_is(type, TDM_JSON_STRING) ? type->u.text : "?");
    tdm_err_where(err, "%s: config.json: model_type", plan->job->src);
    tdm_err_remedy(err, "%s", known);
    return TDM_E_UNSUPPORTED;
}

static bool is_plain_float(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_F32 || dtype == TDM_DTYPE_F16 || dtype == TDM_DTYPE_BF16;
}

/* The dtype of the model's vectors; BF16 where there are none. */
static tdm_dtype find_model_dtype(const tdm_checkpoint *checkpoint) {
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        if (tensor->view.rank == 1 && is_plain_float(tensor->view.dtype)) {
            return tensor->view.dtype;
        }
    }
    return TDM_DTYPE_BF16;
}

/* What the reference drops too. */
static bool is_dropped(const mlx_plan *plan, const char *name) {
    return ends_with(name, "rotary_emb.inv_freq") ||
           (plan->is_tied && strncmp(name, "lm_head.", 8) == 0) ||
           tdm_quantize_is_beside(plan->job->checkpoint, name);
}

/* ---- one item ---- */

static tdm_status fail_nomem(tdm_error *err) {
    return tdm_fail_nomem(err, "the plan of a conversion");
}

static tdm_status set_bytes(tdm_write_tensor *out, tdm_error *err) {
    size_t bytes = TDM_DTYPES[out->dtype].block_bytes;
    for (int32_t i = 0; i < out->rank; i++) {
        if (!tdm_mul_size(bytes, (size_t)out->dims[i], &bytes)) {
            return tdm_fail(err, TDM_E_LIMIT, "tensor \"%.100s\" is too large", out->name);
        }
    }
    out->bytes = bytes;
    return TDM_OK;
}

/* module + suffix in the arena. */
static const char *join(tdm_quantize_job *job, const char *module, const char *suffix) {
    char name[1300];
    const int n = snprintf(name, sizeof name, "%s%s", module, suffix);
    return n > 0 && (size_t)n < sizeof name ? tdm_quantize_text(job, name, (size_t)n) : NULL;
}

/* dims of the output are the source's but for the last. */
static tdm_status add_out(tdm_item *item, const char *name, tdm_dtype dtype, int32_t rank,
                          const int64_t *dims, int64_t last, tdm_error *err) {
    tdm_write_tensor *out = &item->out[item->n_out++];
    if (name == NULL) {
        return fail_nomem(err);
    }
    out->name = name;
    out->dtype = dtype;
    out->rank = rank;
    memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    if (rank > 0) {
        out->dims[rank - 1] = last;
    }
    return set_bytes(out, err);
}

static tdm_status make_quantized(mlx_plan *plan, tdm_item *item, const char *module,
                                 const tdm_quant *quant, int32_t rank, const int64_t *dims,
                                 tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    const tdm_dtype source =
        item->parts->mode == TDM_WEIGHT_PLAIN ? item->parts->dtype : item->parts->scales_dtype;
    const bool is_affine = quant->mode == TDM_WEIGHT_AFFINE;
    const tdm_dtype scales = !is_affine               ? TDM_DTYPE_U8
                             : is_plain_float(source) ? source
                                                      : plan->model_dtype;
    item->kind = TDM_ITEM_MLX;
    item->form = (tdm_mlx_form){quant->mode, quant->bits, quant->group, scales};
    TDM_TRY(add_out(item, join(job, module, ".weight"), TDM_DTYPE_U32, rank, dims,
                    item->n_in / 32 * quant->bits, err));
    TDM_TRY(add_out(item, join(job, module, ".scales"), scales, rank, dims,
                    item->n_in / quant->group, err));
    return is_affine ? add_out(item, join(job, module, ".biases"), scales, rank, dims,
                               item->n_in / quant->group, err)
                     : TDM_OK;
}

/* A matrix under the name of a module: quantized or not. */
static tdm_status add_module(mlx_plan *plan, tdm_item *item, const char *module, int32_t rank,
                             const int64_t *dims, tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    tdm_quant quant;
    tdm_recipe_answer answer = tdm_recipe_ask_mlx(&job->recipe, module, plan->n_layers, &quant);
    if (answer == TDM_RECIPE_DEFAULT && plan->family->eight_bits != NULL &&
        ends_with(module, plan->family->eight_bits)) {
        answer = TDM_RECIPE_OWN;
        quant = (tdm_quant){TDM_WEIGHT_AFFINE, 8, 64};
    }
    /* The reference leaves rows of another width than whole groups alone. */
    const bool fits = item->n_in % quant.group == 0;
    if (answer == TDM_RECIPE_OWN && !fits && job->recipe.low_bits == 0 && job->recipe.doc != NULL) {
        (void)tdm_fail(err, TDM_E_ARG, "rows of %lld weights are no whole groups of %d",
                       (long long)item->n_in, (int)quant.group);
        tdm_err_where(err, "%.100s", module);
        return TDM_E_ARG;
    }
    if (answer != TDM_RECIPE_OFF && fits) {
        TDM_TRY(make_quantized(plan, item, module, &quant, rank, dims, err));
        return tdm_mlx_config_note(&plan->config, module, &quant, &job->recipe.base, err);
    }
    const tdm_weight *first = item->parts;
    const bool is_stored = first->mode == TDM_WEIGHT_PLAIN;
    item->kind = is_stored ? TDM_ITEM_COPY : TDM_ITEM_ROWS;
    TDM_TRY(add_out(item, join(job, module, ".weight"),
                    is_stored ? first->dtype : plan->model_dtype, rank, dims, item->n_in, err));
    return tdm_mlx_config_note(&plan->config, module, NULL, &job->recipe.base, err);
}

/* A tensor that is no matrix of a module stays as it is. */
static tdm_status add_copy(mlx_plan *plan, const tdm_checkpoint_tensor *tensor, tdm_error *err) {
    tdm_item *item = tdm_quantize_add_item(plan->job);
    tdm_weight *weight = tdm_arena_calloc(&plan->job->arena, 1, sizeof *weight);
    if (item == NULL || weight == NULL) {
        return fail_nomem(err);
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
    item->n_in = (int64_t)(tensor->view.bytes / TDM_DTYPES[tensor->view.dtype].block_bytes);
    const int64_t *dims = tensor->view.dims;
    const int32_t rank = tensor->view.rank;
    return add_out(item, tensor->name, tensor->view.dtype, rank, dims,
                   rank > 0 ? dims[rank - 1] : 0, err);
}

static bool is_stack_name(const mlx_plan *plan, const char *name) {
    return plan->family->stack != NULL && strstr(name, plan->family->stack) != NULL;
}

/* Real numbers of a matrix: a plain float or what scales beside it make one. */
static bool is_module(const mlx_plan *plan, const tdm_checkpoint_tensor *tensor) {
    const tdm_dtype dtype = tensor->view.dtype;
    const bool has_rank =
        tensor->view.rank == 2 || (tensor->view.rank == 3 && is_stack_name(plan, tensor->name));
    return has_rank && ends_with(tensor->name, ".weight") &&
           (is_plain_float(dtype) || dtype == TDM_DTYPE_U32 || dtype == TDM_DTYPE_F8_E4M3);
}

static tdm_status add_tensor(mlx_plan *plan, const tdm_checkpoint_tensor *tensor, tdm_error *err) {
    tdm_quantize_job *job = plan->job;
    if (!is_module(plan, tensor)) {
        return add_copy(plan, tensor, err);
    }
    tdm_item *item = tdm_quantize_add_item(job);
    tdm_weight *weight = tdm_arena_calloc(&job->arena, 1, sizeof *weight);
    const char *module =
        tdm_quantize_text(job, tensor->name, strlen(tensor->name) - strlen(".weight"));
    if (item == NULL || weight == NULL || module == NULL) {
        return fail_nomem(err);
    }
    TDM_TRY(tdm_quantize_describe(job, &plan->quant, tensor, weight, err));
    item->name = tensor->name;
    item->parts = weight;
    item->n_parts = 1;
    item->n_rows = weight->n_out;
    item->n_in = weight->n_in;
    return add_module(plan, item, module, tensor->view.rank, tensor->view.dims, err);
}

/* ---- experts ---- */

static tdm_status add_stack(mlx_plan *plan, const char *first, const tdm_expert_at *at,
                            tdm_error *err) {
    static const char *const NAMES[] = {"gate_proj", "up_proj", "down_proj"};
    tdm_quantize_job *job = plan->job;
    tdm_item *item = NULL;
    char name[1300];
    TDM_TRY(tdm_experts_stack(job, &plan->quant, &plan->family->experts, first, at, &item, err));
    const int64_t n = (int64_t)item->n_parts;
    const int64_t dims[3] = {n, item->n_rows / n, item->n_in};
    (void)snprintf(name, sizeof name, "%.*s%s.%s", (int)at->stem, first, plan->family->stack,
                   NAMES[at->which]);
    const char *module = tdm_quantize_text(job, name, strlen(name));
    return module != NULL ? add_module(plan, item, module, 3, dims, err) : fail_nomem(err);
}

static tdm_status add_all(mlx_plan *plan, tdm_error *err) {
    const tdm_checkpoint *checkpoint = plan->job->checkpoint;
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        tdm_expert_at at = {0};
        if (is_dropped(plan, tensor->name)) {
            continue;
        }
        if (!tdm_experts_parse(&plan->family->experts, tensor->name, &at)) {
            TDM_TRY(add_tensor(plan, tensor, err));
        } else if (at.expert == 0) {
            TDM_TRY(add_stack(plan, tensor->name, &at, err));
        } else {
            TDM_TRY(tdm_experts_check(plan->job, &plan->family->experts, tensor->name, &at, err));
        }
    }
    return TDM_OK;
}

/* ---- files ---- */

/* Cuts the items into shards; a module's tensors stay together. */
static void assign_files(tdm_quantize_job *job) {
    const uint64_t most = job->options->shard_bytes > 0 ? job->options->shard_bytes : SHARD_BYTES;
    uint64_t held = 0;
    uint32_t file = 0;
    for (size_t i = 0; i < job->n_items; i++) {
        uint64_t bytes = 0;
        for (int32_t k = 0; k < job->items[i].n_out; k++) {
            bytes += job->items[i].out[k].bytes; /* each was checked; three do not overflow */
        }
        if (held > 0 && (bytes > most || held > most - bytes)) {
            file++;
            held = 0;
        }
        held += bytes;
        job->items[i].file_idx = file;
        for (int32_t k = 0; k < job->items[i].n_out; k++) {
            job->items[i].out[k].file_idx = file;
        }
    }
    job->n_weight_files = file + 1;
}

static tdm_status write_header(tdm_quantize_job *job, uint32_t file, tdm_error *err) {
    size_t n = 0;
    tdm_status status = TDM_OK;
    tdm_write_tensor *tensors =
        tdm_mem_calloc(job->alloc, TDM_QUANTIZE_PARTS * job->n_items, sizeof *tensors);
    if (tensors == NULL) {
        return fail_nomem(err);
    }
    for (size_t i = 0; i < job->n_items; i++) {
        for (int32_t k = 0; job->items[i].file_idx == file && k < job->items[i].n_out; k++) {
            tensors[n++] = job->items[i].out[k];
            job->sizes[file] += job->items[i].out[k].bytes;
        }
    }
    status = tdm_safetensors_write_header(&job->headers[file], tensors, n, "mlx", err);
    job->sizes[file] += job->headers[file].len;
    tdm_mem_free(job->alloc, tensors, TDM_QUANTIZE_PARTS * job->n_items * sizeof *tensors);
    return status;
}

static tdm_status name_files(tdm_quantize_job *job, tdm_error *err) {
    const size_t n = job->n_weight_files;
    job->files = tdm_arena_calloc(&job->arena, n + TDM_QUANTIZE_SMALL_MAX, sizeof *job->files);
    job->headers = tdm_arena_calloc(&job->arena, n, sizeof *job->headers);
    job->sizes = tdm_arena_calloc(&job->arena, n, sizeof *job->sizes);
    if (job->files == NULL || job->headers == NULL || job->sizes == NULL) {
        return fail_nomem(err);
    }
    for (size_t i = 0; i < n; i++) {
        char name[64] = "model.safetensors";
        if (n > 1) {
            (void)snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, n);
        }
        job->files[i] = tdm_quantize_text(job, name, strlen(name));
        if (job->files[i] == NULL) {
            return fail_nomem(err);
        }
        tdm_buf_init(&job->headers[i], job->alloc, 0);
        TDM_TRY(write_header(job, (uint32_t)i, err));
    }
    for (size_t i = 0; i < job->n_small; i++) {
        job->files[n + i] = job->small[i].name;
    }
    job->n_files = n + job->n_small;
    return TDM_OK;
}

tdm_status tdm_quantize_plan_mlx(tdm_quantize_job *job, tdm_error *err) {
    mlx_plan plan = {.job = job};
    const tdm_json *config = tdm_checkpoint_config(job->checkpoint);
    int64_t n_layers = 0;
    tdm_status status = TDM_OK;
    TDM_TRY(find_family(&plan, err));
    TDM_TRY(tdm_quant_config_read(&plan.quant, config, job->src, err));
    (void)tdm_json_as_bool(tdm_json_get(config, "tie_word_embeddings"), &plan.is_tied);
    if (tdm_json_get(config, "tie_word_embeddings") == NULL) {
        plan.is_tied = tdm_checkpoint_find(job->checkpoint, "lm_head.weight") == NULL;
    }
    if (tdm_json_as_i64(tdm_json_get(config, "num_hidden_layers"), &n_layers) && n_layers > 0 &&
        n_layers < 1048576) {
        plan.n_layers = (int32_t)n_layers;
    }
    plan.model_dtype = find_model_dtype(job->checkpoint);
    tdm_mlx_config_init(&plan.config, job->alloc);
    job->alignment = 1;
    TDM_TRY_GOTO(status, add_all(&plan, err), done);
    if (job->n_items == 0) {
        status = tdm_fail(err, TDM_E_FORMAT, "the checkpoint has no tensors");
        goto done;
    }
    assign_files(job);
    TDM_TRY_GOTO(status, tdm_mlx_write_small(job, &plan.config, err), done);
    status = name_files(job, err);
done:
    tdm_mlx_config_deinit(&plan.config);
    return status;
}
