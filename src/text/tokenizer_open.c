/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a checkpoint: DIR/tokenizer.json with DIR/chat_template.jinja, or the metadata
 * of a GGUF file. */
#include "text/tokenizer_priv.h"

#define TEMPLATE_BYTES_MAX ((size_t)4 << 20)

/* DIR/chat_template.jinja wins over what tokenizer_config.json carries. */
static tdm_status read_template_file(tdm_tokenizer *tokenizer, const char *dir, const tdm_fs *fs,
                                     tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    TDM_TRY(tdm_path_join(path, sizeof(path), dir, "chat_template.jinja", err));
    tdm_status status = tdm_blob_open(&blob, fs, path, err);
    if (status == TDM_E_NOT_FOUND) {
        tdm_err_clear(err);
        return TDM_OK;
    }
    if (status == TDM_OK && blob.bytes > TEMPLATE_BYTES_MAX) {
        status = tdm_fail(err, TDM_E_LIMIT, "a chat template of %zu bytes", blob.bytes);
        tdm_err_where(err, "%s", path);
        tdm_err_limit(err, "%zu bytes", TEMPLATE_BYTES_MAX);
    }
    if (status == TDM_OK) {
        status = tdm_tokenizer_set_template(
            tokenizer, blob.bytes > 0 ? (const char *)blob.data : "", blob.bytes, err);
    }
    tdm_blob_close(&blob);
    return status;
}

tdm_status tdm_tokenizer_open(tdm_tokenizer **out, const tdm_alloc *alloc,
                              const tdm_checkpoint *checkpoint, const tdm_fs *fs, tdm_error *err) {
    char path[TDM_PATH_MAX];
    tdm_blob blob;
    tdm_tokenizer *tokenizer = NULL;
    const char *dir = tdm_checkpoint_path(checkpoint);
    *out = NULL;
    if (tdm_checkpoint_container(checkpoint) == TDM_CONTAINER_GGUF) {
        return tdm_tokenizer_from_gguf(out, alloc, tdm_checkpoint_gguf(checkpoint), dir, err);
    }
    TDM_TRY(tdm_path_join(path, sizeof(path), dir, "tokenizer.json", err));
    tdm_status status = tdm_blob_open(&blob, fs, path, err);
    if (status == TDM_OK) {
        status = tdm_tokenizer_from_json(&tokenizer, alloc,
                                         blob.bytes > 0 ? (const char *)blob.data : "", blob.bytes,
                                         tdm_checkpoint_tokenizer_config(checkpoint), path, err);
    }
    tdm_blob_close(&blob);
    if (status == TDM_OK) {
        status = read_template_file(tokenizer, dir, fs, err);
    }
    if (status == TDM_OK) {
        *out = tokenizer;
        tokenizer = NULL;
    }
    tdm_tokenizer_destroy(tokenizer);
    return status;
}
