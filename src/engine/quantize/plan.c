/* SPDX-License-Identifier: Apache-2.0
 *
 * Planning and running of a conversion: open, plan by container, hash the plan, stream, publish. */
#include "engine/quantize/plan.h"

#include "base/arith.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

tdm_item *tdm_quantize_add_item(tdm_quantize_job *job) {
    if (job->n_items == job->items_cap) {
        const size_t cap = job->items_cap == 0 ? 64 : 2 * job->items_cap;
        tdm_item *items = tdm_mem_resize(job->alloc, job->items, job->items_cap * sizeof *items,
                                         cap * sizeof *items);
        if (items == NULL) {
            return NULL;
        }
        job->items = items;
        job->items_cap = cap;
    }
    tdm_item *item = &job->items[job->n_items++];
    memset(item, 0, sizeof *item);
    return item;
}

char *tdm_quantize_text(tdm_quantize_job *job, const char *text, size_t len) {
    return tdm_arena_copy_text(&job->arena, text, len);
}

bool tdm_quantize_is_beside(const tdm_checkpoint *checkpoint, const char *name) {
    static const char *const ENDS[] = {".scales", ".biases", ".global_scale", ".weight_scale_inv"};
    const size_t len = strlen(name);
    char weight[TDM_PATH_MAX];
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++) {
        const size_t tail = strlen(ENDS[i]);
        if (len >= tail && strcmp(name + len - tail, ENDS[i]) == 0) {
            const int n = snprintf(weight, sizeof weight, "%.*s.weight", (int)(len - tail), name);
            return n > 0 && (size_t)n < sizeof weight &&
                   tdm_checkpoint_find(checkpoint, weight) != NULL;
        }
    }
    return false;
}

/* ---- what a source tensor stands for ---- */

static const tdm_checkpoint_tensor *beside(const tdm_quantize_job *job, const char *name,
                                           size_t stem, const char *suffix) {
    char other[TDM_PATH_MAX];
    const int n = snprintf(other, sizeof other, "%.*s%s", (int)stem, name, suffix);
    return n > 0 && (size_t)n < sizeof other ? tdm_checkpoint_find(job->checkpoint, other) : NULL;
}

/* All axes but the last become rows. A stack's matrices lie one after another, so do their scales. */
static tdm_status flatten(const tdm_checkpoint_tensor *tensor, tdm_tensor_view *out,
                          tdm_error *err) {
    const tdm_tensor_view *view = &tensor->view;
    int64_t n_rows = 1;
    *out = *view;
    for (int32_t i = 0; i + 1 < view->rank; i++) {
        if (__builtin_mul_overflow(n_rows, view->dims[i], &n_rows)) {
            return tdm_fail(err, TDM_E_LIMIT, "tensor \"%.100s\" has too many rows", tensor->name);
        }
    }
    out->rank = 2;
    out->dims[0] = n_rows;
    out->dims[1] = view->rank > 0 ? view->dims[view->rank - 1] : 1;
    return TDM_OK;
}

static tdm_status fail_tensor(const tdm_quantize_job *job, const tdm_checkpoint_tensor *tensor,
                              tdm_status status, tdm_error *err) {
    tdm_err_note(err, "tensor \"%.100s\"", tensor->name);
    tdm_err_where(err, "%s: offset %llu",
                  tdm_checkpoint_file_name(job->checkpoint, tensor->file_idx),
                  (unsigned long long)tensor->offset);
    return status;
}

/* Bits and group are what the config says, held against the shapes. */
static tdm_status mlx_source(const tdm_quant_config *quant, const char *module,
                             tdm_weight_source *source, tdm_error *err) {
    tdm_quant said;
    tdm_quant found;
    const tdm_quant_answer answer = tdm_quant_config_ask(quant, module, &said);
    if (answer == TDM_QUANT_SILENT || answer == TDM_QUANT_OFF || said.group == 0) {
        return tdm_fail(err, TDM_E_FORMAT, "it has scales, and the config states no group size");
    }
    int64_t n_in = 0;
    if (__builtin_mul_overflow(source->scales.dims[1], (int64_t)said.group, &n_in)) {
        return tdm_fail(err, TDM_E_LIMIT, "rows are too long");
    }
    TDM_TRY(tdm_quant_from_shapes(&found, n_in, source->view.dims[1], source->scales.dims[1],
                                  source->scales.dtype, err));
    TDM_TRY(tdm_quant_agree(&said, &found, err));
    source->mode = found.mode;
    source->bits = found.bits;
    source->group = found.group;
    return TDM_OK;
}

static tdm_status describe_set(tdm_quantize_job *job, const tdm_quant_config *quant,
                               const tdm_checkpoint_tensor *tensor, tdm_weight_source *source,
                               tdm_error *err) {
    static const char WEIGHT[] = ".weight";
    const size_t len = strlen(tensor->name);
    const size_t tail = sizeof WEIGHT - 1;
    char module[1200];
    if (tdm_checkpoint_gguf(job->checkpoint) != NULL || len <= tail ||
        len - tail >= sizeof module || strcmp(tensor->name + len - tail, WEIGHT) != 0) {
        return TDM_OK;
    }
    memcpy(module, tensor->name, len - tail);
    module[len - tail] = '\0';
    const tdm_checkpoint_tensor *scales = beside(job, tensor->name, len - tail, ".scales");
    const tdm_checkpoint_tensor *biases = beside(job, tensor->name, len - tail, ".biases");
    const tdm_checkpoint_tensor *inverse =
        beside(job, tensor->name, len - tail, ".weight_scale_inv");
    if (beside(job, tensor->name, len - tail, ".global_scale") != NULL) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "weights with a global_scale are not converted");
    }
    if (scales != NULL) {
        TDM_TRY(flatten(scales, &source->scales, err));
        if (biases != NULL) {
            TDM_TRY(flatten(biases, &source->biases, err));
        }
        return mlx_source(quant, module, source, err);
    }
    if (inverse != NULL) {
        if (tensor->view.rank != 2 || inverse->view.rank != 2) {
            return tdm_fail(err, TDM_E_UNSUPPORTED, "stacked fp8 weights are not converted");
        }
        source->mode = TDM_WEIGHT_FP8;
        source->bits = 8;
        source->group = 128;
        source->scales = inverse->view;
    }
    return TDM_OK;
}

tdm_status tdm_quantize_describe(tdm_quantize_job *job, const tdm_quant_config *quant,
                                 const tdm_checkpoint_tensor *tensor, tdm_weight *out,
                                 tdm_error *err) {
    tdm_weight_source source = {.mode = TDM_WEIGHT_PLAIN};
    tdm_status status = flatten(tensor, &source.view, err);
    if (status == TDM_OK) {
        status = describe_set(job, quant, tensor, &source, err);
    }
    if (status == TDM_OK) {
        status = tdm_weight_describe(&source, out, err);
    }
    return status == TDM_OK ? TDM_OK : fail_tensor(job, tensor, status, err);
}

/* ---- the plan's hash ---- */

static void hash_text(tdm_hash_stream *hash, const char *text) {
    tdm_hash_stream_update(hash, text, strlen(text) + 1);
}

static void hash_u64(tdm_hash_stream *hash, uint64_t value) {
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((value >> (8 * i)) & 255u);
    }
    tdm_hash_stream_update(hash, bytes, sizeof bytes);
}

static void hash_item(tdm_hash_stream *hash, const tdm_item *item) {
    hash_text(hash, item->name);
    hash_u64(hash, (uint64_t)item->kind);
    hash_u64(hash, (uint64_t)item->head_dim);
    for (int32_t i = 0; i < item->n_out; i++) {
        hash_text(hash, item->out[i].name);
        hash_u64(hash, (uint64_t)item->out[i].dtype);
        hash_u64(hash, item->out[i].bytes);
    }
}

/* Whether the source is still the same is asked of size and time of its files, as build tools do. */
static void hash_sources(const tdm_quantize_job *job, tdm_hash_stream *hash) {
    for (uint32_t i = 0; i < tdm_checkpoint_n_files(job->checkpoint); i++) {
        const tdm_file_id *id = tdm_checkpoint_file_id(job->checkpoint, i);
        hash_text(hash, tdm_checkpoint_file_name(job->checkpoint, i));
        hash_u64(hash, id->bytes);
        hash_u64(hash, (uint64_t)id->mtime_ns);
    }
}

tdm_status tdm_quantize_plan_hash(const tdm_quantize_job *job, uint64_t *out, tdm_error *err) {
    tdm_hash_stream *hash = tdm_hash_stream_create();
    if (hash == NULL) {
        return tdm_fail_nomem(err, "a hash");
    }
    hash_sources(job, hash);
    for (size_t i = 0; i < job->n_items; i++) {
        hash_item(hash, &job->items[i]);
    }
    for (size_t i = 0; i < job->n_weight_files; i++) {
        tdm_hash_stream_update(hash, job->headers[i].data, job->headers[i].len);
    }
    for (size_t i = 0; i < job->n_small; i++) {
        hash_text(hash, job->small[i].name);
        tdm_hash_stream_update(hash, job->small[i].content.data, job->small[i].content.len);
    }
    *out = tdm_hash_stream_digest(hash);
    tdm_hash_stream_destroy(hash);
    return TDM_OK;
}

/* ---- the whole ---- */

static void count(const tdm_quantize_job *job) {
    tdm_quantize_report *report = job->report;
    for (size_t i = 0; i < job->n_items; i++) {
        const tdm_item *item = &job->items[i];
        for (int32_t k = 0; k < item->n_out; k++) {
            report->bytes += item->out[k].bytes;
        }
        report->n_weights += (uint64_t)item->n_rows * (uint64_t)item->n_in;
        const bool is_quantized =
            item->kind == TDM_ITEM_MLX || TDM_DTYPES[item->out[0].dtype].block_weights > 1;
        report->n_quantized += is_quantized ? 1 : 0;
        report->n_kept += is_quantized ? 0 : 1;
    }
    for (size_t i = 0; i < tdm_checkpoint_n_tensors(job->checkpoint); i++) {
        report->source_bytes += tdm_checkpoint_tensor_at(job->checkpoint, i)->view.bytes;
    }
    report->n_files = job->n_weight_files;
}

static tdm_status write_small(tdm_quantize_job *job, tdm_stage *stage, tdm_error *err) {
    for (size_t i = 0; i < job->n_small; i++) {
        uint64_t kept = 0;
        const tdm_buf *content = &job->small[i].content;
        TDM_TRY(tdm_stage_begin(stage, job->n_weight_files + i, &kept, err));
        TDM_TRY(tdm_stage_append(stage, content->data, content->len, err));
        TDM_TRY(tdm_stage_end(stage, err));
    }
    return TDM_OK;
}

static tdm_status run_stage(tdm_quantize_job *job, tdm_error *err) {
    tdm_stage *stage = NULL;
    tdm_status status = TDM_OK;
    tdm_stage_options options = {.fs = job->fs,
                                 .dst = job->dst,
                                 .is_folder = !job->is_gguf,
                                 .files = job->files,
                                 .n_files = job->n_files,
                                 .checkpoint_bytes = job->options->checkpoint_bytes};
    TDM_TRY(tdm_quantize_plan_hash(job, &options.plan, err));
    TDM_TRY(tdm_stage_open(&stage, job->alloc, &options, err));
    TDM_TRY_GOTO(status, tdm_quantize_stream(job, stage, err), done);
    TDM_TRY_GOTO(status, write_small(job, stage, err), done);
    job->report->resumed_bytes = tdm_stage_kept_bytes(stage);
    status = tdm_stage_publish(stage, err);
done:
    tdm_stage_close(stage);
    return status;
}

static void job_deinit(tdm_quantize_job *job) {
    for (size_t i = 0; i < job->n_small; i++) {
        tdm_buf_deinit(&job->small[i].content);
    }
    for (size_t i = 0; job->headers != NULL && i < job->n_weight_files; i++) {
        tdm_buf_deinit(&job->headers[i]);
    }
    tdm_mem_free(job->alloc, job->items, job->items_cap * sizeof *job->items);
    tdm_recipe_deinit(&job->recipe);
    tdm_arena_deinit(&job->arena);
    tdm_checkpoint_close(job->checkpoint);
}

/* Without the slashes at the end that a folder's name may have: the work is beside it, not in it. */
static tdm_status copy_name(char out[TDM_PATH_MAX], const char *dst, tdm_error *err) {
    size_t len = strlen(dst);
    while (len > 1 && dst[len - 1] == '/') {
        len--;
    }
    if (len == 0 || len >= TDM_PATH_MAX) {
        (void)tdm_fail(err, TDM_E_ARG, "the output's name has %zu bytes", len);
        tdm_err_limit(err, "1 to %d", TDM_PATH_MAX - 1);
        return TDM_E_ARG;
    }
    memcpy(out, dst, len);
    out[len] = '\0';
    return TDM_OK;
}

tdm_status tdm_quantize(const tdm_alloc *alloc, const char *src, const char *dst,
                        const tdm_quantize_options *options, tdm_quantize_report *report,
                        tdm_error *err) {
    tdm_status status = TDM_OK;
    const tdm_checkpoint_options open = {.fs = options->fs, .log = options->log};
    tdm_quantize_job job = {.alloc = alloc, .options = options, .src = src};
    char name[TDM_PATH_MAX];
    memset(report, 0, sizeof *report);
    TDM_TRY(copy_name(name, dst, err));
    job.dst = name;
    job.fs = options->fs != NULL ? options->fs : tdm_fs_system();
    job.report = report;
    job.is_gguf = options->gguf != NULL;
    tdm_arena_init(&job.arena, alloc);
    TDM_TRY_GOTO(status, tdm_recipe_init(&job.recipe, alloc, options, err), done);
    TDM_TRY_GOTO(status, tdm_checkpoint_open(&job.checkpoint, alloc, src, &open, err), done);
    TDM_TRY_GOTO(status,
                 job.is_gguf ? tdm_quantize_plan_gguf(&job, err) : tdm_quantize_plan_mlx(&job, err),
                 done);
    TDM_TRY_GOTO(status, tdm_recipe_check_used(&job.recipe, err), done);
    count(&job);
    status = run_stage(&job, err);
done:
    job_deinit(&job);
    return status;
}
