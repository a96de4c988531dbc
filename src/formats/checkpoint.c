/* SPDX-License-Identifier: Apache-2.0
 *
 * One checkpoint out of many kinds of path:
 *
 *   a GGUF file (by its magic, so that nameless blobs work) -> checkpoint_split.c
 *   a folder with config.json and safetensors               -> checkpoint_shards.c
 *   a folder with exactly one .gguf (or one split)          -> checkpoint_split.c
 *   a folder with tokenizer files only, where allowed       -> no tensors
 *
 * Symbolic links are followed: the Hugging Face cache is made of them. Pickles are refused, always:
 * reading one runs its code. Everything goes through the tdm_fs that was passed. */
#include "formats/checkpoint_priv.h"

#include "formats/words_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- parts that the openers share ---- */

tdm_status tdm_checkpoint_add_part(tdm_checkpoint *checkpoint, const char *folder, const char *name,
                                   tdm_checkpoint_part **out, tdm_error *err) {
    char path[TDM_PATH_MAX];
    const char *full = name;
    tdm_checkpoint_part *parts = NULL;
    tdm_checkpoint_part *part = NULL;
    if (folder[0] != '\0') {
        TDM_TRY(tdm_path_join(path, sizeof path, folder, name, err));
        full = path;
    }
    parts = tdm_vector_grow(checkpoint->alloc, checkpoint->parts, checkpoint->n_parts,
                            &checkpoint->parts_cap, sizeof *parts);
    if (parts == NULL) {
        return tdm_fail_nomem(err, "a list of weight files");
    }
    checkpoint->parts = parts;
    part = &parts[checkpoint->n_parts];
    memset(part, 0, sizeof *part);
    part->name = tdm_arena_copy_text(&checkpoint->arena, name, strlen(name));
    if (part->name == NULL) {
        return tdm_fail_nomem(err, "a list of weight files");
    }
    TDM_TRY(tdm_blob_open(&part->blob, checkpoint->fs, full, err));
    checkpoint->n_parts++;
    *out = part;
    return TDM_OK;
}

tdm_status tdm_checkpoint_add_tensor(tdm_checkpoint *checkpoint, const char *name,
                                     const tdm_tensor_view *view, uint64_t offset, tdm_error *err) {
    tdm_checkpoint_tensor *tensors = NULL;
    tdm_checkpoint_tensor *tensor = NULL;
    const uint32_t file_idx = (uint32_t)(checkpoint->n_parts - 1);
    tdm_status status =
        tdm_names_add(&checkpoint->by_name, name, strlen(name), (uint32_t)checkpoint->n_tensors);
    if (status == TDM_E_NOMEM) {
        return tdm_fail_nomem(err, "a tensor table");
    }
    if (status != TDM_OK) {
        const tdm_status code = status == TDM_E_STATE ? TDM_E_FORMAT : TDM_E_LIMIT;
        (void)tdm_fail(err, code,
                       code == TDM_E_FORMAT ? "tensor occurs in two files"
                                            : "too many tensor names collide");
        tdm_err_where(err, "%.80s: tensor \"%.90s\"", checkpoint->parts[file_idx].name, name);
        return code;
    }
    tensors = tdm_vector_grow(checkpoint->alloc, checkpoint->tensors, checkpoint->n_tensors,
                              &checkpoint->tensors_cap, sizeof *tensors);
    if (tensors == NULL) {
        return tdm_fail_nomem(err, "a tensor table");
    }
    checkpoint->tensors = tensors;
    tensor = &tensors[checkpoint->n_tensors++];
    memset(tensor, 0, sizeof *tensor);
    tensor->name = name;
    tensor->view = *view;
    tensor->file_idx = file_idx;
    tensor->offset = offset;
    return TDM_OK;
}

tdm_status tdm_checkpoint_warn(tdm_checkpoint *checkpoint, tdm_error *err, const char *fmt, ...) {
    char text[512];
    const char **warnings = NULL;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (checkpoint->is_strict) {
        (void)tdm_fail(err, TDM_E_FORMAT, "%s", text);
        tdm_err_where(err, "%s", tdm_path_tail(checkpoint->path));
        tdm_err_remedy(err, "open without the strict option to accept this");
        return TDM_E_FORMAT;
    }
    warnings = tdm_vector_grow(checkpoint->alloc, checkpoint->warnings, checkpoint->n_warnings,
                               &checkpoint->warnings_cap, sizeof *warnings);
    if (warnings == NULL) {
        return tdm_fail_nomem(err, "a warning");
    }
    checkpoint->warnings = warnings;
    warnings[checkpoint->n_warnings] = tdm_arena_copy_text(&checkpoint->arena, text, strlen(text));
    if (warnings[checkpoint->n_warnings] == NULL) {
        return tdm_fail_nomem(err, "a warning");
    }
    checkpoint->n_warnings++;
    tdm_log_printf(checkpoint->log, TDM_LOG_WARN, "%s", text);
    return TDM_OK;
}

tdm_status tdm_checkpoint_warn_gaps(tdm_checkpoint *checkpoint, uint64_t hole_bytes,
                                    uint64_t hole_offset, uint64_t trailing_bytes, tdm_error *err) {
    const char *name = checkpoint->parts[checkpoint->n_parts - 1].name;
    if (hole_bytes > 0) {
        TDM_TRY(tdm_checkpoint_warn(checkpoint, err,
                                    "%.100s: %llu bytes between tensors belong to none, the first "
                                    "at offset %llu",
                                    name, (unsigned long long)hole_bytes,
                                    (unsigned long long)hole_offset));
    }
    if (trailing_bytes > 0) {
        TDM_TRY(tdm_checkpoint_warn(checkpoint, err, "%.100s: %llu bytes follow the last tensor",
                                    name, (unsigned long long)trailing_bytes));
    }
    return TDM_OK;
}

tdm_status tdm_checkpoint_read_json(tdm_checkpoint *checkpoint, const char *folder,
                                    const char *name, tdm_json_doc **out, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob = {0};
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_path_join(path, sizeof path, folder, name, err));
    TDM_TRY(tdm_blob_open(&blob, checkpoint->fs, path, err));
    status =
        tdm_json_parse(out, checkpoint->alloc, blob.data != NULL ? (const char *)blob.data : "",
                       blob.bytes, NULL, name, err);
    tdm_blob_close(&blob);
    if (status == TDM_OK && !tdm_json_is(tdm_json_doc_root(*out), TDM_JSON_OBJECT)) {
        tdm_json_doc_destroy(*out);
        *out = NULL;
        (void)tdm_fail(err, TDM_E_FORMAT, "JSON file holds no object");
        tdm_err_where(err, "%s: $", tdm_path_tail(path));
        return TDM_E_FORMAT;
    }
    return status;
}

/* ---- which kind of path ---- */

static tdm_status fail_pickle(const char *path, const char *name, tdm_error *err) {
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "%.80s is a pickle, which can run code: not read", name);
    tdm_err_where(err, "%s", tdm_path_tail(path));
    tdm_err_remedy(err, "use the model's safetensors or GGUF files, or convert it to safetensors");
    return TDM_E_UNSUPPORTED;
}

static tdm_status read_magic(const tdm_checkpoint *checkpoint, const char *path, bool *out_is_gguf,
                             tdm_error *err) {
    const tdm_fs *fs = checkpoint->fs;
    tdm_file *file = NULL;
    char magic[4] = "";
    size_t n = 0;
    tdm_status status = TDM_OK;
    TDM_TRY(fs->open_read(fs->ctx, path, &file, err));
    status = fs->read_at(fs->ctx, file, 0, magic, sizeof magic, &n, err);
    fs->close(fs->ctx, file);
    *out_is_gguf = status == TDM_OK && n == sizeof magic && memcmp(magic, "GGUF", 4) == 0;
    return status;
}

static tdm_status open_file(tdm_checkpoint *checkpoint, const char *path, tdm_error *err) {
    const char *name = tdm_path_name(path);
    bool is_gguf = false;
    TDM_TRY(read_magic(checkpoint, path, &is_gguf, err));
    if (is_gguf || tdm_name_ends(name, ".gguf")) {
        return tdm_checkpoint_open_gguf(checkpoint, path, err);
    }
    if (tdm_is_pickle_name(name)) {
        return fail_pickle(path, name, err);
    }
    (void)tdm_fail(err, TDM_E_UNSUPPORTED, "file is no GGUF file");
    tdm_err_where(err, "%s", tdm_path_tail(path));
    tdm_err_remedy(err, tdm_name_ends(name, ".safetensors") || tdm_name_ends(name, ".json")
                            ? "give the folder that holds it"
                            : "give a GGUF file, or a folder with config.json and safetensors");
    return TDM_E_UNSUPPORTED;
}

/* A folder in which no checkpoint was found: say what is there instead. */
static tdm_status fail_folder(const tdm_folder_facts *facts, const char *path, tdm_error *err) {
    tdm_status status = TDM_E_NOT_FOUND;
    if (facts->n_gguf > 1) {
        (void)tdm_fail(err, status, "folder holds %zu GGUF files", facts->n_gguf);
        tdm_err_remedy(err, "name one of them, such as %.100s", facts->gguf);
    } else if (facts->has_single || facts->has_index) {
        (void)tdm_fail(err, status, "folder holds safetensors but no config.json");
        tdm_err_remedy(err, "put the model's config.json beside them");
    } else if (facts->other[0] != '\0') {
        (void)tdm_fail(err, status, "folder holds %.80s, but no model.safetensors and no index",
                       facts->other);
        tdm_err_remedy(err, "fetch model.safetensors.index.json and all shards");
    } else if (facts->pickle[0] != '\0') {
        return fail_pickle(path, facts->pickle, err);
    } else {
        (void)tdm_fail(err, status, "folder holds no checkpoint");
        tdm_err_remedy(err, facts->has_snapshots
                                ? "give the folder of one revision, under snapshots"
                                : "give a GGUF file, or a folder with config.json and safetensors");
    }
    tdm_err_where(err, "%s", tdm_path_tail(path));
    return status;
}

static tdm_status read_documents(tdm_checkpoint *checkpoint, const char *path,
                                 const tdm_folder_facts *facts, tdm_error *err) {
    if (facts->has_config) {
        TDM_TRY(
            tdm_checkpoint_read_json(checkpoint, path, "config.json", &checkpoint->config, err));
    }
    if (facts->has_generation_config) {
        TDM_TRY(tdm_checkpoint_read_json(checkpoint, path, "generation_config.json",
                                         &checkpoint->generation_config, err));
    }
    if (facts->has_tokenizer_config) {
        TDM_TRY(tdm_checkpoint_read_json(checkpoint, path, "tokenizer_config.json",
                                         &checkpoint->tokenizer_config, err));
    }
    return TDM_OK;
}

static tdm_status open_folder(tdm_checkpoint *checkpoint, const char *path, tdm_error *err) {
    tdm_folder_facts facts;
    TDM_TRY(tdm_folder_facts_read(&facts, checkpoint->fs, path, err));
    if (facts.has_config && (facts.has_single || facts.has_index)) {
        TDM_TRY(read_documents(checkpoint, path, &facts, err));
        return tdm_checkpoint_open_shards(checkpoint, path, &facts, err);
    }
    if (facts.n_gguf == 1) {
        char file[TDM_PATH_MAX];
        TDM_TRY(tdm_path_join(file, sizeof file, path, facts.gguf, err));
        return tdm_checkpoint_open_gguf(checkpoint, file, err);
    }
    if (checkpoint->is_tokenizer_enough && facts.has_tokenizer) {
        checkpoint->container = TDM_CONTAINER_SAFETENSORS;
        return read_documents(checkpoint, path, &facts, err);
    }
    return fail_folder(&facts, path, err);
}

static tdm_status open_path(tdm_checkpoint *checkpoint, const char *path, tdm_error *err) {
    bool is_folder = false;
    if (!checkpoint->fs->exists(checkpoint->fs->ctx, path, &is_folder)) {
        return tdm_fail_no_path(checkpoint->fs, path, err);
    }
    return is_folder ? open_folder(checkpoint, path, err) : open_file(checkpoint, path, err);
}

/* ---- the public face ---- */

tdm_status tdm_checkpoint_open(tdm_checkpoint **out, const tdm_alloc *alloc, const char *path,
                               const tdm_checkpoint_options *options, tdm_error *err) {
    static const tdm_checkpoint_options NONE = {0};
    tdm_status status = TDM_OK;
    tdm_checkpoint *checkpoint = tdm_mem_calloc(alloc, 1, sizeof *checkpoint);
    *out = NULL;
    if (checkpoint == NULL) {
        return tdm_fail_nomem(err, "a checkpoint");
    }
    options = options != NULL ? options : &NONE;
    checkpoint->alloc = alloc;
    tdm_arena_init(&checkpoint->arena, alloc);
    tdm_names_init(&checkpoint->by_name, alloc);
    checkpoint->fs = options->fs != NULL ? options->fs : tdm_fs_system();
    checkpoint->log = options->log;
    checkpoint->is_strict = options->is_strict;
    checkpoint->is_tokenizer_enough = options->is_tokenizer_enough;
    checkpoint->path = tdm_arena_copy_text(&checkpoint->arena, path, strlen(path));
    if (checkpoint->path == NULL) {
        status = tdm_fail_nomem(err, "a checkpoint");
        goto done;
    }
    TDM_TRY_GOTO(status, open_path(checkpoint, path, err), done);
    *out = checkpoint;
    checkpoint = NULL;
done:
    tdm_checkpoint_close(checkpoint);
    return status;
}

void tdm_checkpoint_close(tdm_checkpoint *checkpoint) {
    if (checkpoint == NULL) {
        return;
    }
    for (size_t i = 0; i < checkpoint->n_parts; i++) {
        tdm_gguf_destroy(checkpoint->parts[i].gguf);
        tdm_safetensors_destroy(checkpoint->parts[i].safetensors);
        tdm_blob_close(&checkpoint->parts[i].blob);
    }
    tdm_json_doc_destroy(checkpoint->config);
    tdm_json_doc_destroy(checkpoint->generation_config);
    tdm_json_doc_destroy(checkpoint->tokenizer_config);
    tdm_names_deinit(&checkpoint->by_name);
    tdm_mem_free(checkpoint->alloc, checkpoint->parts,
                 checkpoint->parts_cap * sizeof *checkpoint->parts);
    tdm_mem_free(checkpoint->alloc, checkpoint->tensors,
                 checkpoint->tensors_cap * sizeof *checkpoint->tensors);
    tdm_mem_free(checkpoint->alloc, checkpoint->warnings,
                 checkpoint->warnings_cap * sizeof *checkpoint->warnings);
    tdm_arena_deinit(&checkpoint->arena);
    tdm_mem_free(checkpoint->alloc, checkpoint, sizeof *checkpoint);
}

tdm_container tdm_checkpoint_container(const tdm_checkpoint *checkpoint) {
    return checkpoint->container;
}

const char *tdm_checkpoint_path(const tdm_checkpoint *checkpoint) {
    return checkpoint->path;
}

size_t tdm_checkpoint_n_tensors(const tdm_checkpoint *checkpoint) {
    return checkpoint->n_tensors;
}

const tdm_checkpoint_tensor *tdm_checkpoint_tensor_at(const tdm_checkpoint *checkpoint,
                                                      size_t idx) {
    return idx < checkpoint->n_tensors ? &checkpoint->tensors[idx] : NULL;
}

const tdm_checkpoint_tensor *tdm_checkpoint_find(const tdm_checkpoint *checkpoint,
                                                 const char *name) {
    uint32_t idx = 0;
    return tdm_names_find(&checkpoint->by_name, name, strlen(name), &idx)
               ? &checkpoint->tensors[idx]
               : NULL;
}

const char *tdm_checkpoint_file_name(const tdm_checkpoint *checkpoint, uint32_t file_idx) {
    return file_idx < checkpoint->n_parts ? checkpoint->parts[file_idx].name : "";
}

size_t tdm_checkpoint_n_files(const tdm_checkpoint *checkpoint) {
    return checkpoint->n_parts;
}

const tdm_file_id *tdm_checkpoint_file_id(const tdm_checkpoint *checkpoint, uint32_t file_idx) {
    return file_idx < checkpoint->n_parts ? &checkpoint->parts[file_idx].blob.id : NULL;
}

size_t tdm_checkpoint_n_warnings(const tdm_checkpoint *checkpoint) {
    return checkpoint->n_warnings;
}

const char *tdm_checkpoint_warning(const tdm_checkpoint *checkpoint, size_t idx) {
    return idx < checkpoint->n_warnings ? checkpoint->warnings[idx] : NULL;
}

static const tdm_json *root_of(const tdm_json_doc *doc) {
    return doc != NULL ? tdm_json_doc_root(doc) : NULL;
}

const tdm_json *tdm_checkpoint_config(const tdm_checkpoint *checkpoint) {
    return root_of(checkpoint->config);
}

const tdm_json *tdm_checkpoint_generation_config(const tdm_checkpoint *checkpoint) {
    return root_of(checkpoint->generation_config);
}

const tdm_json *tdm_checkpoint_tokenizer_config(const tdm_checkpoint *checkpoint) {
    return root_of(checkpoint->tokenizer_config);
}

const tdm_gguf *tdm_checkpoint_gguf(const tdm_checkpoint *checkpoint) {
    return checkpoint->container == TDM_CONTAINER_GGUF ? checkpoint->parts[0].gguf : NULL;
}
