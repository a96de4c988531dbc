/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files of an MLX folder. config.json is the source's, member by member and number by number as
 * it was spelled, with its quantization replaced. */
#include "engine/quantize/mlx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 64
#define COPY_BYTES_MAX ((size_t)256 << 20)

static const char *const COPIED[] = {"generation_config.json",
                                     "tokenizer.json",
                                     "tokenizer_config.json",
                                     "tokenizer.model",
                                     "special_tokens_map.json",
                                     "added_tokens.json",
                                     "vocab.json",
                                     "merges.txt",
                                     "chat_template.jinja",
                                     "chat_template.json"};

void tdm_mlx_config_init(tdm_mlx_config *config, const tdm_alloc *alloc) {
    tdm_buf_init(&config->members, alloc, 0);
    tdm_json_writer_init(&config->writer, &config->members);
    config->writer.needs_comma = true; /* goes behind the default's members */
}

void tdm_mlx_config_deinit(tdm_mlx_config *config) {
    tdm_buf_deinit(&config->members);
}

static void write_quant(tdm_json_writer *w, const tdm_quant *quant) {
    tdm_json_write_key(w, "group_size");
    tdm_json_write_i64(w, quant->group);
    tdm_json_write_key(w, "bits");
    tdm_json_write_i64(w, quant->bits);
    tdm_json_write_key(w, "mode");
    tdm_json_write_cstr(w, TDM_WEIGHT_MODE_NAMES[quant->mode]);
}

tdm_status tdm_mlx_config_note(tdm_mlx_config *config, const char *module, const tdm_quant *quant,
                               const tdm_quant *base, tdm_error *err) {
    tdm_json_writer *w = &config->writer;
    if (quant == NULL) {
        tdm_json_write_key(w, module);
        tdm_json_write_bool(w, false);
    } else if (quant->mode != base->mode || quant->bits != base->bits ||
               quant->group != base->group) {
        tdm_json_write_key(w, module);
        tdm_json_write_begin_object(w);
        write_quant(w, quant);
        tdm_json_write_end_object(w);
    }
    return tdm_json_writer_status(w) == TDM_OK ? TDM_OK : tdm_fail_nomem(err, "the new config");
}

/* ---- a tree as text ---- */

typedef struct tree_place {
    const tdm_json *node;
    uint32_t next;
} tree_place;

static void indent(tdm_buf *out, uint32_t depth, tdm_status *status) {
    *status = *status == TDM_OK ? tdm_buf_append_byte(out, '\n') : *status;
    for (uint32_t i = 0; i < 4 * depth && *status == TDM_OK; i++) {
        *status = tdm_buf_append_byte(out, ' ');
    }
}

static tdm_status put_string(tdm_buf *out, const char *text, size_t len) {
    tdm_json_writer w;
    tdm_json_writer_init(&w, out);
    tdm_json_write_text(&w, text, len);
    return tdm_json_writer_status(&w);
}

static tdm_status put_scalar(tdm_buf *out, const tdm_json *node) {
    switch (node->kind) {
    case TDM_JSON_STRING:
        return put_string(out, node->u.text, node->len);
    case TDM_JSON_INT:
    case TDM_JSON_REAL:
        return tdm_buf_append(out, node->u.text, node->len);
    case TDM_JSON_BOOL:
        return tdm_buf_append_text(out, node->boolean ? "true" : "false");
    case TDM_JSON_ARRAY:
    case TDM_JSON_OBJECT:
    case TDM_JSON_NULL:
    default:
        return tdm_buf_append_text(out, "null");
    }
}

/* One node and all below it, with a stack of our own; the reader has bounded the depth. */
static tdm_status put_tree(tdm_buf *out, const tdm_json *root, uint32_t depth) {
    tree_place stack[DEPTH_MAX + 1];
    uint32_t n = 0;
    tdm_status status = TDM_OK;
    if (root->kind != TDM_JSON_ARRAY && root->kind != TDM_JSON_OBJECT) {
        return put_scalar(out, root);
    }
    stack[n++] = (tree_place){root, 0};
    status = tdm_buf_append_byte(out, root->kind == TDM_JSON_ARRAY ? '[' : '{');
    while (n > 0 && status == TDM_OK) {
        tree_place *place = &stack[n - 1];
        const bool is_array = place->node->kind == TDM_JSON_ARRAY;
        if (place->next == place->node->len) {
            n--;
            if (place->node->len > 0) {
                indent(out, depth + n, &status);
            }
            status = status == TDM_OK ? tdm_buf_append_byte(out, is_array ? ']' : '}') : status;
            continue;
        }
        const tdm_json *child = &place->node->u.items[place->next];
        status = place->next++ > 0 ? tdm_buf_append_byte(out, ',') : TDM_OK;
        indent(out, depth + n, &status);
        if (!is_array && status == TDM_OK) {
            status = put_string(out, child->key, child->key_len);
            status = status == TDM_OK ? tdm_buf_append_text(out, ": ") : status;
        }
        if (status != TDM_OK) {
            break;
        }
        if (child->kind == TDM_JSON_ARRAY || child->kind == TDM_JSON_OBJECT) {
            TDM_CHECK(n <= DEPTH_MAX);
            stack[n++] = (tree_place){child, 0};
            status = tdm_buf_append_byte(out, child->kind == TDM_JSON_ARRAY ? '[' : '{');
        } else {
            status = put_scalar(out, child);
        }
    }
    return status;
}

/* ---- config.json ---- */

static tdm_status put_quantization(tdm_buf *out, const tdm_quant *base,
                                   const tdm_mlx_config *config) {
    tdm_json_writer w;
    tdm_json_writer_init(&w, out);
    tdm_json_write_begin_object(&w);
    write_quant(&w, base);
    TDM_TRY(tdm_json_writer_status(&w));
    TDM_TRY(tdm_buf_append(out, config->members.data, config->members.len));
    return tdm_buf_append_byte(out, '}');
}

static tdm_status build_config(tdm_buf *out, const tdm_json *source, const tdm_quant *base,
                               const tdm_mlx_config *config) {
    TDM_TRY(tdm_buf_append_byte(out, '{'));
    for (size_t i = 0; i < tdm_json_len(source); i++) {
        const tdm_json *member = &source->u.items[i];
        if (strcmp(member->key, "quantization") == 0 ||
            strcmp(member->key, "quantization_config") == 0 ||
            strcmp(member->key, "_name_or_path") == 0) {
            continue;
        }
        TDM_TRY(tdm_buf_append_text(out, "\n    "));
        TDM_TRY(put_string(out, member->key, member->key_len));
        TDM_TRY(tdm_buf_append_text(out, ": "));
        TDM_TRY(put_tree(out, member, 1));
        TDM_TRY(tdm_buf_append_byte(out, ','));
    }
    TDM_TRY(tdm_buf_append_text(out, "\n    \"quantization\": "));
    TDM_TRY(put_quantization(out, base, config));
    TDM_TRY(tdm_buf_append_text(out, ",\n    \"quantization_config\": "));
    TDM_TRY(put_quantization(out, base, config));
    return tdm_buf_append_text(out, "\n}\n");
}

/* ---- the index ---- */

static int compare_names(const void *a, const void *b) {
    const tdm_write_tensor *const *x = a;
    const tdm_write_tensor *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void put_map(const tdm_quantize_job *job, const tdm_write_tensor **sorted,
                    tdm_json_writer *w) {
    size_t n = 0;
    for (size_t i = 0; i < job->n_items; i++) {
        for (int32_t k = 0; k < job->items[i].n_out; k++) {
            sorted[n++] = &job->items[i].out[k];
        }
    }
    qsort(sorted, n, sizeof *sorted, compare_names);
    for (size_t i = 0; i < n; i++) {
        char file[64] = "model.safetensors";
        if (job->n_weight_files > 1) {
            (void)snprintf(file, sizeof file, "model-%05u-of-%05zu.safetensors",
                           (unsigned)sorted[i]->file_idx + 1U, job->n_weight_files);
        }
        tdm_json_write_key(w, sorted[i]->name);
        tdm_json_write_cstr(w, file);
    }
}

static tdm_status build_index(const tdm_quantize_job *job, tdm_buf *out) {
    uint64_t bytes = 0;
    uint64_t n_weights = 0;
    tdm_json_writer w;
    const size_t cap = TDM_QUANTIZE_PARTS * job->n_items;
    const tdm_write_tensor **sorted = tdm_mem_calloc(job->alloc, cap, sizeof *sorted);
    if (sorted == NULL) {
        return TDM_E_NOMEM;
    }
    for (size_t i = 0; i < job->n_items; i++) {
        for (int32_t k = 0; k < job->items[i].n_out; k++) {
            bytes += job->items[i].out[k].bytes;
        }
        n_weights += (uint64_t)job->items[i].n_rows * (uint64_t)job->items[i].n_in;
    }
    tdm_json_writer_init(&w, out);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "metadata");
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "total_size");
    tdm_json_write_u64(&w, bytes);
    tdm_json_write_key(&w, "total_parameters");
    tdm_json_write_u64(&w, n_weights);
    tdm_json_write_end_object(&w);
    tdm_json_write_key(&w, "weight_map");
    tdm_json_write_begin_object(&w);
    put_map(job, sorted, &w);
    tdm_json_write_end_object(&w);
    tdm_json_write_end_object(&w);
    tdm_mem_free(job->alloc, (void *)(uintptr_t)sorted, cap * sizeof *sorted);
    TDM_TRY(tdm_json_writer_status(&w));
    return tdm_buf_append_byte(out, '\n');
}

/* ---- copies ---- */

static tdm_buf *next_small(tdm_quantize_job *job, const char *name) {
    TDM_CHECK(job->n_small < TDM_QUANTIZE_SMALL_MAX);
    tdm_small_file *file = &job->small[job->n_small++];
    file->name = name;
    tdm_buf_init(&file->content, job->alloc, 0);
    return &file->content;
}

static tdm_status copy_file(tdm_quantize_job *job, const char *name, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    bool is_folder = false;
    TDM_TRY(tdm_path_join(path, sizeof path, tdm_checkpoint_path(job->checkpoint), name, err));
    if (!job->fs->exists(job->fs->ctx, path, &is_folder) || is_folder) {
        return TDM_OK;
    }
    TDM_TRY(tdm_blob_open(&blob, job->fs, path, err));
    tdm_status status = TDM_OK;
    if (blob.bytes > COPY_BYTES_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "file of %zu bytes", blob.bytes);
        tdm_err_where(err, "%s", path);
        tdm_err_limit(err, "%zu bytes", COPY_BYTES_MAX);
        status = TDM_E_LIMIT;
    } else if (tdm_buf_append(next_small(job, name), blob.data, blob.bytes) != TDM_OK) {
        status = tdm_fail_nomem(err, "a copy");
    }
    tdm_blob_close(&blob);
    return status;
}

tdm_status tdm_mlx_write_small(tdm_quantize_job *job, const tdm_mlx_config *config,
                               tdm_error *err) {
    tdm_status status =
        build_config(next_small(job, "config.json"), tdm_checkpoint_config(job->checkpoint),
                     &job->recipe.base, config);
    if (status == TDM_OK) {
        status = build_index(job, next_small(job, "model.safetensors.index.json"));
    }
    if (status != TDM_OK) {
        return tdm_fail_nomem(err, "the new config");
    }
    for (size_t i = 0; i < sizeof COPIED / sizeof COPIED[0]; i++) {
        TDM_TRY(copy_file(job, COPIED[i], err));
    }
    return TDM_OK;
}
