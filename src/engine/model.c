/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a model: checkpoint, config, tokenizer and template, graph in that order,
 * given back in reverse (spec/systems.md 16: the graph goes before the weights that it borrows). A
 * tokenizer or template that this build cannot read does not stop the weights from being used by
 * ids; the reason is kept and told when text is asked for. */
#include "engine/model_priv.h"

#include "base/arith.h"
#include "base/system.h"
#include "base/thread.h"
#include "model/model.h"
#include "text/tokenizer_image.h"

#include <string.h>

double tdm_model_now_ms(const tdm_model *model) {
    return (double)model->clock->monotonic_ns(model->clock->ctx) * 1e-6;
}

tdm_status tdm_model_need_tokenizer(const tdm_model *model, tdm_error *err) {
    if (model->tokenizer != NULL) {
        return TDM_OK;
    }
    if (model->tokenizer_error.code != TDM_OK && model->tokenizer_error.code != TDM_E_NOT_FOUND) {
        if (err != NULL) {
            *err = model->tokenizer_error;
        }
        return model->tokenizer_error.code;
    }
    (void)tdm_fail(err, TDM_E_STATE, "the checkpoint has no tokenizer");
    tdm_err_where(err, "%s", tdm_checkpoint_path(model->checkpoint));
    tdm_err_remedy(err, "put tokenizer.json beside the weights, or give ids");
    return TDM_E_STATE;
}

tdm_status tdm_model_need_head(const tdm_model *model, tdm_error *err) {
    if (model->graph->facts.has_head) {
        return TDM_OK;
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "the checkpoint has no head: it embeds text only");
    tdm_err_where(err, "%s: lm_head.weight", tdm_checkpoint_path(model->checkpoint));
    tdm_err_remedy(err, "use tandem embed, or a checkpoint with a head");
    return TDM_E_UNSUPPORTED;
}

bool tdm_model_is_end(const tdm_model *model, int32_t id) {
    for (int32_t i = 0; i < model->config.n_eos; i++) {
        if (model->config.eos_ids[i] == id) {
            return true;
        }
    }
    if (model->tokenizer != NULL) {
        size_t n = tdm_tokenizer_n_eog(model->tokenizer);
        for (size_t i = 0; i < n; i++) {
            if (tdm_tokenizer_eog_at(model->tokenizer, i) == id) {
                return true;
            }
        }
    }
    return false;
}

static void forward_log(void *ctx, tdm_log_level level, const char *text) {
    const tdm_model_options *options = ctx;
    options->log(options->log_arg, (int)level, text);
}

/* What was asked and what is there become the composition; nothing is decided again later. */
static tdm_status compose(tdm_model *model, const tdm_model_options *options, tdm_error *err) {
    const char *device = model->backend->ops->name(model->backend);
    const tdm_composition_flags flags = {
        .device = options->device,
        .kv = options->kv,
        .context = options->context,
        .prefill_chunk = options->n_batch,
    };
    const tdm_composition_facts facts = {
        .device = device,
        .tier = model->backend->tier,
        .n_threads = model->backend->team != NULL ? tdm_team_size(model->backend->team) : 1,
        .context_max = model->config.context_max,
        .declaration = &model->declaration,
    };
    const tdm_bind_site site = {device, TDM_GRAPH_ABI, TDM_STATE_ABI};
    model->declaration = tdm_declaration_text_decoder(&model->graph->facts, device);
    TDM_TRY(tdm_bind_check(&model->declaration, model->graph->ops, &site, err));
    tdm_status status = tdm_composition_resolve(&model->composition, &flags, &facts, err);
    if (status != TDM_OK && err != NULL && strcmp(err->where, "prefill_chunk") == 0) {
        tdm_err_where(err, "n_batch"); /* the name that embedders know it by */
    }
    return status;
}

/* What is kept of this checkpoint, where it was asked for: packed weights, if the backend packs, and
 * the tokenizer's tables, if they are made of the files that the digest looks at. */
static void open_caches(tdm_model *model, const tdm_model_options *options) {
    static const tdm_panel_layout TEXT = {"text", 1};
    const tdm_backend_ops *ops = model->backend->ops;
    const tdm_panel_layout *layout =
        ops->panel_layout != NULL ? ops->panel_layout(model->backend) : NULL;
    tdm_checkpoint_digest digest;
    tdm_panel_cache_options cache_options = {
        .log = &model->log,
        .folder = options->panel_cache,
        .bytes_max =
            options->panel_cache_bytes > 0 ? options->panel_cache_bytes : TDM_PANEL_CACHE_BYTES,
        .bytes_min = TDM_PANEL_CACHE_BYTES_MIN,
        .digest = &digest,
    };
    if (options->panel_cache == NULL) {
        return;
    }
    tdm_checkpoint_scatter(model->checkpoint, true); /* samples of it are read */
    tdm_checkpoint_digest_take(model->checkpoint, &digest);
    if (layout != NULL) {
        model->panels =
            tdm_panel_cache_open(model->alloc, &cache_options, model->checkpoint, layout);
    }
    if (tdm_checkpoint_container(model->checkpoint) == TDM_CONTAINER_GGUF) {
        cache_options.bytes_min = TDM_PANEL_CACHE_TEXT_BYTES_MIN;
        model->tables =
            tdm_panel_cache_open(model->alloc, &cache_options, model->checkpoint, &TEXT);
    }
}

static bool has_panels(const tdm_model *model) {
    return model->panels != NULL && tdm_panel_cache_is_used(model->panels);
}

/* ---- reading ahead ---- */

/* Larger files may be more than memory has room for: their pages come when they are read. */
#define FETCH_BYTES_SURE ((size_t)1 << 30)
#define FETCH_TENSOR_BYTES_MAX ((size_t)1 << 16)

static void stop_fetch(tdm_model *model) {
    tdm_fetch_stop(model->fetch);
    tdm_mem_free(model->alloc, model->ranges, model->ranges_cap * sizeof *model->ranges);
    model->fetch = NULL;
    model->ranges = NULL;
    model->n_ranges = 0;
}

/* Within ranges_cap. */
static void add_range(tdm_model *model, const tdm_blob *file, const void *data, size_t bytes,
                      tdm_fetch_how how) {
    model->ranges[model->n_ranges++] = (tdm_fetch_range){file->fs, data, bytes, how};
}

static void add_kept(tdm_model *model, const tdm_panel_cache *cache) {
    const tdm_blob *file = cache != NULL ? tdm_panel_cache_file(cache) : NULL;
    if (file != NULL) {
        add_range(model, file, file->data, file->bytes, TDM_FETCH_ENTER);
    }
}

/* The rows in the middle of a tensor, of which a backend packs a panel again to compare. */
static void add_middle(tdm_model *model, const tdm_blob *file, const tdm_tensor_view *view) {
    const size_t row_bytes = view->bytes / (size_t)view->dims[0];
    const size_t half = view->bytes / 2;
    const size_t begin = half > 8 * row_bytes ? half - 8 * row_bytes : 0; /* bounded: by bytes */
    const size_t left = view->bytes - begin;
    const size_t bytes = row_bytes < left / 24 ? 24 * row_bytes : left; /* bounded: likewise */
    add_range(model, file, (const uint8_t *)view->data + begin, bytes, TDM_FETCH_ASK);
}

/* All of the checkpoint, to be packed; or what is read of it beside panels: small tensors, which
 * nobody packs, and samples of the others. */
static void add_checkpoint(tdm_model *model, size_t n_files, bool is_whole) {
    const tdm_checkpoint *checkpoint = model->checkpoint;
    for (size_t i = 0; is_whole && i < n_files; i++) {
        const tdm_blob *file = tdm_checkpoint_file(checkpoint, i);
        add_range(model, file, file->data, file->bytes, TDM_FETCH_PASS);
    }
    for (size_t i = 0; !is_whole && i < tdm_checkpoint_n_tensors(checkpoint); i++) {
        const tdm_checkpoint_tensor *tensor = tdm_checkpoint_tensor_at(checkpoint, i);
        const tdm_blob *file = tdm_checkpoint_file(checkpoint, tensor->file_idx);
        if (tensor->view.bytes <= FETCH_TENSOR_BYTES_MAX) {
            add_range(model, file, tensor->view.data, tensor->view.bytes, TDM_FETCH_ASK);
        } else if (tensor->view.rank == 2) {
            add_middle(model, file, &tensor->view);
        }
    }
}

/* What the load will read from front to back is fetched ahead of it: panels and tables from their
 * files, to stay entered, or the checkpoint. Otherwise samples of the checkpoint are read. */
static tdm_status start_fetch(tdm_model *model, tdm_error *err) {
    const bool is_warm = has_panels(model);
    size_t n_files = 0;
    size_t bytes = 0;
    tdm_checkpoint_scatter(model->checkpoint, is_warm);
    while (tdm_checkpoint_file(model->checkpoint, n_files) != NULL) {
        n_files++;
    }
    model->ranges_cap = n_files + tdm_checkpoint_n_tensors(model->checkpoint) + 2;
    model->ranges = tdm_mem_calloc(model->alloc, model->ranges_cap, sizeof *model->ranges);
    if (model->ranges == NULL) {
        return tdm_fail_nomem(err, "reading ahead");
    }
    add_checkpoint(model, is_warm ? 0 : n_files, !is_warm);
    add_kept(model, model->tables);
    if (is_warm) {
        add_kept(model, model->panels);
    }
    for (size_t i = 0; i < model->n_ranges; i++) {
        bytes += model->ranges[i].bytes; /* bounded: all are mapped */
    }
    if (bytes > FETCH_BYTES_SURE && bytes > tdm_memory_available() / 2) {
        return TDM_OK;
    }
    return tdm_fetch_start(&model->fetch, model->alloc, model->ranges, model->n_ranges, err);
}

/* Packed weights from their file, or packed now and saved. A file that turns out to be of other
 * weights taints all that came from it: then once more from the beginning. */
static tdm_status load_graph(tdm_model *model, const tdm_graph_options *options, tdm_error *err) {
    tdm_status status = TDM_OK;
    model->backend->panels = model->panels != NULL ? tdm_panel_cache_store(model->panels) : NULL;
    status = tdm_graph_create(&model->graph, model->checkpoint, &model->config, model->backend,
                              options, err);
    if (status == TDM_OK && model->panels != NULL && tdm_panel_cache_is_refused(model->panels)) {
        model->graph->ops->destroy(model->graph);
        model->graph = NULL;
        stop_fetch(model);
        tdm_panel_cache_restart(model->panels);
        status = start_fetch(model, err);
        if (status == TDM_OK) {
            status = tdm_graph_create(&model->graph, model->checkpoint, &model->config,
                                      model->backend, options, err);
        }
    }
    model->backend->panels = NULL;
    if (status == TDM_OK && model->panels != NULL) {
        tdm_panel_cache_save(model->panels);
    }
    return status;
}

/* What a load watches: after each layer the pages that were read to pack it go; where panels come
 * from their file few were, and they go after several. */
typedef struct load_watch {
    const tdm_model *model;
    const tdm_model_options *options;
} load_watch;

static bool layer_done(void *arg, int32_t done, int32_t all) {
    const load_watch *watch = arg;
    const tdm_model_options *options = watch->options;
    if (!has_panels(watch->model) || done % 4 == 0) {
        tdm_checkpoint_forget(watch->model->checkpoint);
    }
    return options->progress != NULL && options->progress(options->progress_arg, done, all);
}

static tdm_status open_graph(tdm_model *model, const tdm_model_options *options, bool is_plan,
                             tdm_error *err) {
    load_watch watch = {model, options};
    const tdm_graph_options graph_options = {
        .alloc = model->alloc,
        .log = &model->log,
        .progress = is_plan ? options->progress : layer_done,
        .progress_arg = is_plan ? options->progress_arg : &watch,
    };
    if (is_plan) {
        TDM_TRY(tdm_graph_plan_create(&model->plan, model->checkpoint, &model->config,
                                      model->backend, &graph_options, err));
        model->graph = tdm_graph_plan_graph(model->plan);
    } else {
        TDM_TRY(load_graph(model, &graph_options, err));
    }
    TDM_TRY(compose(model, options, err));
    return model->graph->ops->reserve(model->graph, model->composition.prefill_chunk, 1, 1, err);
}

static tdm_status open_templates(tdm_model *model, tdm_error *err) {
    TDM_TRY(tdm_chat_templates_open(&model->chat_templates, model->alloc, model->checkpoint,
                                    model->tokenizer, NULL, err));
    for (size_t i = 0; i < tdm_chat_templates_n(model->chat_templates); i++) {
        const tdm_chat_template *item = tdm_chat_templates_at(model->chat_templates, i);
        if (item->tmpl == NULL) {
            tdm_log_printf(&model->log, TDM_LOG_WARN, "chat template \"%s\" is not usable: %s (%s)",
                           item->name, item->error.what, item->error.where);
        }
    }
    return TDM_OK;
}

/* Whether any template can be used. */
static bool has_template(const tdm_model *model) {
    bool has_one = false;
    for (size_t i = 0;
         model->chat_templates != NULL && i < tdm_chat_templates_n(model->chat_templates); i++) {
        has_one = has_one || tdm_chat_templates_at(model->chat_templates, i)->tmpl != NULL;
    }
    return has_one;
}

/* The tables of a tokenizer that was just made, for the next load. */
static void keep_tables(tdm_model *model) {
    tdm_panels *store = tdm_panel_cache_store(model->tables);
    tdm_buf image;
    tdm_buf_init(&image, model->alloc, 0);
    if (tdm_tokenizer_image_write(model->tokenizer, &image, NULL) == TDM_OK) {
        const tdm_panel_record record = {.bytes = image.len};
        store->ops->put(store, &record, (const uint8_t *)image.data);
        tdm_panel_cache_save(model->tables);
    }
    tdm_buf_deinit(&image);
}

/* The tokenizer out of its kept tables, or made and kept. */
static tdm_status open_tokenizer(tdm_model *model) {
    size_t bytes = 0;
    const uint8_t *image =
        model->tables != NULL ? tdm_panel_cache_take_one(model->tables, &bytes) : NULL;
    if (image != NULL) {
        const tdm_status status =
            tdm_tokenizer_image_open(&model->tokenizer, model->alloc, image, bytes, NULL);
        if (status == TDM_OK) {
            return TDM_OK;
        }
        stop_fetch(model);
        tdm_panel_cache_restart(model->tables);
    }
    const tdm_status status = tdm_tokenizer_open(&model->tokenizer, model->alloc, model->checkpoint,
                                                 NULL, &model->tokenizer_error);
    if (status == TDM_OK && model->tables != NULL) {
        keep_tables(model);
    }
    return status;
}

static tdm_status open_text(tdm_model *model, tdm_error *err) {
    const tdm_status status = open_tokenizer(model);
    if (status == TDM_E_NOMEM) {
        *err = model->tokenizer_error;
        return status;
    }
    if (status != TDM_OK) {
        if (status != TDM_E_NOT_FOUND) {
            tdm_log_printf(&model->log, TDM_LOG_WARN, "tokenizer is not usable: %s (%s)",
                           model->tokenizer_error.what, model->tokenizer_error.where);
        }
        return TDM_OK;
    }
    if (tdm_tokenizer_n_vocab(model->tokenizer) > model->config.n_vocab) {
        tdm_log_printf(&model->log, TDM_LOG_WARN,
                       "the tokenizer has %d entries, the embedding %d rows",
                       (int)tdm_tokenizer_n_vocab(model->tokenizer), (int)model->config.n_vocab);
    }
    TDM_TRY(tdm_special_tokens_make(&model->special_tokens, model->alloc, model->checkpoint,
                                    model->tokenizer, err));
    return open_templates(model, err);
}

static tdm_status open_parts(tdm_model *model, const char *path, const tdm_model_options *options,
                             bool is_plan, tdm_error *err) {
    const tdm_checkpoint_options checkpoint_options = {.log = &model->log,
                                                       .is_strict = options->is_strict};
    tdm_error scratch;
    tdm_error *e = err != NULL ? err : &scratch; /* so that the files below need not ask */
    if (options->log != NULL) {
        model->log =
            (tdm_log){(void *)(uintptr_t)options, (tdm_log_level)options->log_level, forward_log};
    }
    TDM_TRY(tdm_checkpoint_open(&model->checkpoint, model->alloc, path, &checkpoint_options, e));
    TDM_TRY(tdm_model_config_read(&model->config, model->checkpoint, e));
    TDM_TRY(tdm_generation_config_read(&model->generation_config, model->checkpoint, e));
    if (!is_plan) {
        open_caches(model, options);
        TDM_TRY(start_fetch(model, e));
    }
    TDM_TRY(open_text(model, e)); /* while weights are on their way */
    TDM_TRY(open_graph(model, options, is_plan, e));
    if (!has_panels(model)) {
        stop_fetch(model); /* the checkpoint has been read */
    }
    tdm_checkpoint_scatter(model->checkpoint, false); /* weights that nobody packs lie there */
    tdm_checkpoint_forget(model->checkpoint); /* what was read to pack weights and copy words */
    return TDM_OK;
}

static void close_parts(tdm_model *model) {
    stop_fetch(model);
    tdm_embed_config_close(model->embed);
    tdm_buf_deinit(&model->embed_prompt);
    tdm_chat_templates_destroy(model->chat_templates);
    tdm_json_doc_destroy(model->special_tokens);
    tdm_tokenizer_destroy(model->tokenizer);
    if (model->plan != NULL) {
        tdm_graph_plan_destroy(model->plan);
    } else if (model->graph != NULL) {
        model->graph->ops->destroy(model->graph);
    }
    tdm_panel_cache_close(model->panels);
    tdm_panel_cache_close(model->tables);
    tdm_checkpoint_close(model->checkpoint);
}

static tdm_status open_model(tdm_model **out_model, const tdm_alloc *alloc, const char *path,
                             const tdm_model_options *options, tdm_backend *backend, bool is_plan,
                             tdm_error *err) {
    static const tdm_model_options DEFAULTS = TDM_MODEL_OPTIONS_INIT;
    tdm_status status = TDM_OK;
    double start = 0.0;
    tdm_model *model = tdm_mem_calloc(alloc, 1, sizeof *model);
    *out_model = NULL;
    if (model == NULL) {
        return tdm_fail_nomem(err, "a model");
    }
    model->alloc = alloc;
    tdm_buf_init(&model->embed_prompt, alloc, 0);
    model->clock = tdm_clock_system();
    model->backend = backend;
    start = tdm_model_now_ms(model);
    status = open_parts(model, path, options != NULL ? options : &DEFAULTS, is_plan, err);
    model->log.write = NULL; /* options belonged to the caller for this call only */
    if (status != TDM_OK) {
        close_parts(model);
        tdm_mem_free(alloc, model, sizeof *model);
        return status;
    }
    model->load_ms = tdm_model_now_ms(model) - start;
    *out_model = model;
    return TDM_OK;
}

tdm_status tdm_model_open_with(tdm_model **out_model, const tdm_alloc *alloc, const char *path,
                               const tdm_model_options *options, tdm_backend *backend_take,
                               tdm_error *err) {
    return open_model(out_model, alloc, path, options, backend_take, false, err);
}

tdm_status tdm_model_plan_with(tdm_model **out_model, const tdm_alloc *alloc, const char *path,
                               const tdm_model_options *options, tdm_backend *backend,
                               tdm_error *err) {
    return open_model(out_model, alloc, path, options, backend, true, err);
}

void tdm_model_plan_close(tdm_model *model) {
    if (model != NULL) {
        close_parts(model);
        tdm_mem_free(model->alloc, model, sizeof *model);
    }
}

void tdm_model_close(tdm_model *model) {
    if (model != NULL) {
        close_parts(model);
        model->backend->ops->destroy(model->backend);
        tdm_mem_free(model->alloc, model, sizeof *model);
    }
}

void tdm_model_parts(const tdm_model *model, tdm_engine_parts *out) {
    *out = (tdm_engine_parts){
        .alloc = model->alloc,
        .checkpoint = model->checkpoint,
        .config = &model->config,
        .backend = model->backend,
        .graph = model->graph,
        .tokenizer = model->tokenizer,
        .chat_templates = model->chat_templates,
        .special_tokens =
            model->special_tokens != NULL ? tdm_json_doc_root(model->special_tokens) : NULL,
        .kv_dtype = model->composition.kv_dtype,
        .n_batch = model->composition.prefill_chunk,
        .context = model->composition.context,
    };
}

void tdm_model_describe(const tdm_model *model, tdm_model_facts *out_facts) {
    const tdm_graph_facts *facts = &model->graph->facts;
    size_t kv_bytes = model->graph->ops->state_plan(model->graph, model->composition.kv_dtype,
                                                    model->composition.context);
    *out_facts = (tdm_model_facts){
        .architecture = facts->family,
        .container = tdm_checkpoint_container(model->checkpoint) == TDM_CONTAINER_GGUF
                         ? "gguf"
                         : "safetensors",
        .backend = model->composition.device,
        .tier = tdm_tier_name(model->composition.tier),
        .kv = model->composition.kv_dtype == TDM_DTYPE_F32 ? "f32" : "bf16",
        .tokenizer = model->tokenizer != NULL ? tdm_tokenizer_describe(model->tokenizer) : NULL,
        .has_chat_template = has_template(model),
        .dialect = model->chat_templates != NULL
                       ? tdm_dialect_name(tdm_chat_templates_dialect(model->chat_templates))
                       : NULL,
        .n_layers = facts->n_layers,
        .n_vocab = facts->n_vocab,
        .hidden = facts->hidden,
        .n_threads = model->composition.n_threads,
        .context = model->composition.context,
        .n_params = facts->n_params,
        .weight_bytes = facts->weight_bytes,
        .kv_bytes_per_token =
            model->composition.context > 0 ? kv_bytes / (size_t)model->composition.context : 0,
        .bos_id =
            model->tokenizer != NULL ? tdm_tokenizer_bos(model->tokenizer) : model->config.bos_id,
        .eos_id = model->config.n_eos > 0 ? model->config.eos_ids[0] : -1,
        .load_ms = model->load_ms,
    };
}
