/* SPDX-License-Identifier: Apache-2.0
 *
 * A golden folder's files: golden.safetensors, and golden.json where it is. */
#include "cli/golden/golden.h"

#include <string.h>

static tdm_status open_about(tdm_golden *golden, const char *folder, tdm_error *err) {
    tdm_blob blob = {0};
    char path[TDM_PATH_MAX];
    bool is_folder = false;
    const tdm_fs *fs = tdm_fs_system();
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_path_join(path, sizeof path, folder, "golden.json", err));
    if (!fs->exists(fs->ctx, path, &is_folder)) {
        return TDM_OK;
    }
    TDM_TRY(tdm_blob_open(&blob, NULL, path, err));
    status = tdm_json_parse(&golden->about, golden->alloc, (const char *)blob.data, blob.bytes,
                            NULL, path, err);
    tdm_blob_close(&blob);
    return status;
}

tdm_status tdm_golden_open(tdm_golden *golden, const tdm_alloc *alloc, const char *folder,
                           tdm_error *err) {
    const tdm_fs *fs = tdm_fs_system();
    bool is_folder = false;
    size_t idx = 0;
    *golden = (tdm_golden){.alloc = alloc};
    TDM_TRY(tdm_path_join(golden->path, sizeof golden->path, folder, "target", err));
    if (fs->exists(fs->ctx, golden->path, &is_folder) && is_folder) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "a drafter golden: this build has no drafters");
        tdm_err_where(err, "%s", golden->path);
        return TDM_E_UNSUPPORTED;
    }
    TDM_TRY(tdm_path_join(golden->path, sizeof golden->path, folder, "golden.safetensors", err));
    TDM_TRY(tdm_blob_open(&golden->blob, NULL, golden->path, err));
    TDM_TRY(tdm_safetensors_parse(&golden->file, alloc, golden->blob.data, golden->blob.bytes,
                                  golden->path, err));
    golden->is_real = tdm_safetensors_find(golden->file, "text_ids", &idx);
    return open_about(golden, folder, err);
}

void tdm_golden_close(tdm_golden *golden) {
    tdm_json_doc_destroy(golden->about);
    tdm_safetensors_destroy(golden->file);
    tdm_blob_close(&golden->blob);
    *golden = (tdm_golden){0};
}

tdm_status tdm_golden_tensor(const tdm_golden *golden, const char *name, tdm_dtype dtype,
                             int32_t rank, bool is_needed, const void **out_data, int64_t *dims,
                             tdm_error *err) {
    const tdm_tensor_view *view = NULL;
    size_t idx = 0;
    *out_data = NULL;
    if (!tdm_safetensors_find(golden->file, name, &idx)) {
        if (!is_needed) {
            return TDM_OK;
        }
        (void)tdm_fail(err, TDM_E_FORMAT, "the golden has no tensor %s", name);
        tdm_err_where(err, "%s", golden->path);
        return TDM_E_FORMAT;
    }
    view = tdm_safetensors_tensor_view(golden->file, idx);
    if (view->dtype != dtype || view->rank != rank || view->bytes == 0) {
        (void)tdm_fail(err, TDM_E_FORMAT, "the golden's tensor %s is %s of rank %d", name,
                       TDM_DTYPES[view->dtype].name, (int)view->rank);
        tdm_err_where(err, "%s", golden->path);
        tdm_err_limit(err, "%s of rank %d, not empty", TDM_DTYPES[dtype].name, (int)rank);
        return TDM_E_FORMAT;
    }
    if (dims != NULL) {
        memcpy(dims, view->dims, (size_t)rank * sizeof *dims);
    }
    *out_data = view->data;
    return TDM_OK;
}
