/* SPDX-License-Identifier: Apache-2.0
 *
 * A safetensors header. Offsets are in the order of the tensors; the length before it is patched
 * in at the end. */
#include "formats/safetensors_write.h"

#include "base/arith.h"
#include "base/json.h"
#include "formats/safetensors.h"

static void write_u64_le(char *at, uint64_t value) {
    for (int i = 0; i < 8; i++) {
        at[i] = (char)((value >> (8 * i)) & 255u);
    }
}

static void write_tensor(tdm_json_writer *w, const tdm_write_tensor *tensor, uint64_t begin) {
    tdm_json_write_key(w, tensor->name);
    tdm_json_write_begin_object(w);
    tdm_json_write_key(w, "dtype");
    tdm_json_write_cstr(w, TDM_DTYPES[tensor->dtype].name);
    tdm_json_write_key(w, "shape");
    tdm_json_write_begin_array(w);
    for (int32_t i = 0; i < tensor->rank; i++) {
        tdm_json_write_i64(w, tensor->dims[i]);
    }
    tdm_json_write_end_array(w);
    tdm_json_write_key(w, "data_offsets");
    tdm_json_write_begin_array(w);
    tdm_json_write_u64(w, begin);
    tdm_json_write_u64(w, begin + tensor->bytes); /* bounded: the sizes were summed before */
    tdm_json_write_end_array(w);
    tdm_json_write_end_object(w);
}

static tdm_status check_tensors(const tdm_write_tensor *tensors, size_t n, tdm_error *err) {
    size_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (TDM_DTYPES[tensors[i].dtype].block_weights != 1) {
            return tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": safetensors has no type %s",
                            tensors[i].name, TDM_DTYPES[tensors[i].dtype].name);
        }
        if (!tdm_add_size(sum, (size_t)tensors[i].bytes, &sum)) {
            return tdm_fail(err, TDM_E_LIMIT, "tensors of more than 2^64 bytes");
        }
    }
    return TDM_OK;
}

tdm_status tdm_safetensors_write_header(tdm_buf *out, const tdm_write_tensor *tensors,
                                        size_t n_tensors, const char *format, tdm_error *err) {
    const size_t start = out->len;
    uint64_t at = 0;
    tdm_json_writer w;
    char length[8];
    TDM_TRY(check_tensors(tensors, n_tensors, err));
    write_u64_le(length, 0);
    tdm_json_writer_init(&w, out);
    tdm_status status = tdm_buf_append(out, length, sizeof length);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "__metadata__");
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "format");
    tdm_json_write_cstr(&w, format);
    tdm_json_write_end_object(&w);
    for (size_t i = 0; i < n_tensors; i++) {
        write_tensor(&w, &tensors[i], at);
        at += tensors[i].bytes; /* bounded: the sizes were summed before */
    }
    tdm_json_write_end_object(&w);
    status = status == TDM_OK ? tdm_json_writer_status(&w) : status;
    while (status == TDM_OK && (out->len - start) % 8 != 0) {
        status = tdm_buf_append_byte(out, ' ');
    }
    if (status != TDM_OK) {
        return tdm_fail_nomem(err, "a header");
    }
    if (out->len - start - 8 > TDM_SAFETENSORS_HEADER_MAX ||
        n_tensors > TDM_SAFETENSORS_TENSORS_MAX) {
        (void)tdm_fail(err, TDM_E_LIMIT, "header of %zu bytes", out->len - start - 8);
        tdm_err_limit(err, "%zu bytes, %d tensors", TDM_SAFETENSORS_HEADER_MAX,
                      TDM_SAFETENSORS_TENSORS_MAX);
        return TDM_E_LIMIT;
    }
    write_u64_le(&out->data[start], out->len - start - 8);
    return TDM_OK;
}
