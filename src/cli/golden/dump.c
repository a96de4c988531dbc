/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors writer: eight bytes of length, the header padded with spaces to eight, the data
 * in the order of the list. Source: the safetensors project's README. Written beside the target and
 * renamed, so that a full disk leaves no half file. */
#include "cli/golden/dump.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

static size_t tensor_bytes(const tdm_dump_tensor *tensor) {
    return 4 * tensor->dims[0] * (tensor->rank == 2 ? tensor->dims[1] : 1);
}

static void write_tensor(const tdm_dump_tensor *tensor, size_t begin, tdm_json_writer *w) {
    tdm_json_write_key(w, tensor->name);
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "dtype");
    tdm_json_write_cstr(w, tensor->dtype);
    tdm_json_write_key(w, "shape");
    tdm_json_write_begin_array(w);
    for (int32_t i = 0; i < tensor->rank; i++) {
        tdm_json_write_u64(w, tensor->dims[i]);
    }
    tdm_json_write_end_array(w);
    tdm_json_write_key(w, "data_offsets");
    tdm_json_write_begin_array(w);
    tdm_json_write_u64(w, begin);
    tdm_json_write_u64(w, begin + tensor_bytes(tensor));
    tdm_json_write_end_array(w);
    tdm_json_write_end_object(w);
}

/* Length and header into buf. */
static tdm_status write_header(tdm_buf *buf, const tdm_dump_tensor *tensors, size_t n) {
    tdm_json_writer w;
    size_t begin = 0;
    uint64_t len = 0;
    TDM_TRY(tdm_buf_append(buf, "\0\0\0\0\0\0\0\0", 8));
    tdm_json_writer_init(&w, buf);
    tdm_json_write_begin_object(&w);
    for (size_t i = 0; i < n; i++) {
        write_tensor(&tensors[i], begin, &w);
        begin += tensor_bytes(&tensors[i]);
    }
    tdm_json_write_end_object(&w);
    TDM_TRY(tdm_json_writer_status(&w));
    while (buf->len % 8 != 0) {
        TDM_TRY(tdm_buf_append_byte(buf, ' '));
    }
    len = buf->len - 8;
    for (int i = 0; i < 8; i++) {
        buf->data[i] = (char)(unsigned char)(len >> (8 * i) & 255U);
    }
    return TDM_OK;
}

static tdm_status write_all(const tdm_fs *fs, tdm_file *file, const tdm_dump_tensor *tensors,
                            size_t n, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, NULL, 0);
    if (write_header(&buf, tensors, n) != TDM_OK) {
        status = tdm_fail_nomem(err, "the dump's header");
    } else {
        status = fs->append(fs->ctx, file, buf.data, buf.len, err);
    }
    for (size_t i = 0; i < n && status == TDM_OK; i++) {
        status = fs->append(fs->ctx, file, tensors[i].data, tensor_bytes(&tensors[i]), err);
    }
    tdm_buf_deinit(&buf);
    return status == TDM_OK ? fs->sync(fs->ctx, file, err) : status;
}

tdm_status tdm_dump_write(const tdm_fs *fs, const char *path, const tdm_dump_tensor *tensors,
                          size_t n, tdm_error *err) {
    char part[TDM_PATH_MAX];
    tdm_file *file = NULL;
    tdm_status status = TDM_OK;
    const int len = snprintf(part, sizeof part, "%s.part", path);
    if (len < 0 || len >= (int)sizeof part) {
        return tdm_fail(err, TDM_E_LIMIT, "the dump's path is too long");
    }
    status = fs->open_create(fs->ctx, part, &file, err);
    if (status == TDM_E_STATE) { /* a part of an earlier run that was stopped */
        TDM_TRY(fs->unlink(fs->ctx, part, err));
        status = fs->open_create(fs->ctx, part, &file, err);
    }
    if (status != TDM_OK) {
        return status;
    }
    status = write_all(fs, file, tensors, n, err);
    fs->close(fs->ctx, file);
    if (status == TDM_OK) {
        status = fs->rename(fs->ctx, part, path, err);
    }
    if (status != TDM_OK && fs->unlink(fs->ctx, part, NULL) != TDM_OK) {
        tdm_err_note(err, "%s is left behind", part);
    }
    return status;
}
