/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing of GGUF headers. Offsets are sums of padded sizes, without gaps: llama.cpp refuses any. */
#include "formats/gguf_write.h"

#include "base/arith.h"
#include "formats/gguf_priv.h"

#include <string.h>

#define NAME_BYTES_MAX 63
#define DIMS_MAX 4

void tdm_gguf_writer_init(tdm_gguf_writer *writer, const tdm_alloc *alloc) {
    memset(writer, 0, sizeof *writer);
    tdm_buf_init(&writer->kvs, alloc, 0);
}

void tdm_gguf_writer_deinit(tdm_gguf_writer *writer) {
    tdm_buf_deinit(&writer->kvs);
}

static void put(tdm_gguf_writer *writer, const void *bytes, size_t n) {
    if (writer->status == TDM_OK) {
        writer->status = tdm_buf_append(&writer->kvs, bytes, n);
    }
}

static tdm_status append_le(tdm_buf *buf, uint64_t value, int n_bytes) {
    uint8_t bytes[8];
    for (int i = 0; i < n_bytes; i++) {
        bytes[i] = (uint8_t)((value >> (8 * i)) & 255u);
    }
    return tdm_buf_append(buf, bytes, (size_t)n_bytes);
}

static void put_le(tdm_gguf_writer *writer, uint64_t value, int n_bytes) {
    if (writer->status == TDM_OK) {
        writer->status = append_le(&writer->kvs, value, n_bytes);
    }
}

static void put_f32_bits(tdm_gguf_writer *writer, float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    put_le(writer, bits, 4);
}

void tdm_gguf_item_text(tdm_gguf_writer *writer, const char *text, size_t len) {
    put_le(writer, len, 8);
    put(writer, text, len);
}

static void put_key(tdm_gguf_writer *writer, const char *key, tdm_gguf_type type) {
    tdm_gguf_item_text(writer, key, strlen(key));
    put_le(writer, (uint64_t)type, 4);
    writer->n_kvs++;
}

void tdm_gguf_put_u32(tdm_gguf_writer *writer, const char *key, uint32_t value) {
    put_key(writer, key, TDM_GGUF_U32);
    put_le(writer, value, 4);
}

void tdm_gguf_put_f32(tdm_gguf_writer *writer, const char *key, float value) {
    put_key(writer, key, TDM_GGUF_F32);
    put_f32_bits(writer, value);
}

void tdm_gguf_put_bool(tdm_gguf_writer *writer, const char *key, bool value) {
    put_key(writer, key, TDM_GGUF_BOOL);
    put_le(writer, value ? 1 : 0, 1);
}

void tdm_gguf_put_text(tdm_gguf_writer *writer, const char *key, const char *text, size_t len) {
    put_key(writer, key, TDM_GGUF_STRING);
    tdm_gguf_item_text(writer, text, len);
}

void tdm_gguf_put_array(tdm_gguf_writer *writer, const char *key, tdm_gguf_type type, uint64_t n) {
    put_key(writer, key, TDM_GGUF_ARRAY);
    put_le(writer, (uint64_t)type, 4);
    put_le(writer, n, 8);
}

void tdm_gguf_item_f32(tdm_gguf_writer *writer, float value) {
    put_f32_bits(writer, value);
}

void tdm_gguf_item_i32(tdm_gguf_writer *writer, int32_t value) {
    put_le(writer, (uint64_t)(int64_t)value & 0xffffffffu, 4);
}

void tdm_gguf_item_bool(tdm_gguf_writer *writer, bool value) {
    put_le(writer, value ? 1 : 0, 1);
}

/* ---- copies ---- */

static void put_copied_array(tdm_gguf_writer *writer, const tdm_gguf_value *value) {
    put_le(writer, (uint64_t)value->item_type, 4);
    put_le(writer, value->n, 8);
    if (value->item_type != TDM_GGUF_STRING) {
        size_t bytes = 0; /* the reader has found them inside the file */
        (void)tdm_mul_size((size_t)value->n, tdm_gguf_type_bytes(value->item_type), &bytes);
        put(writer, value->data, bytes);
        return;
    }
    const uint8_t *at = value->data;
    for (uint64_t i = 0; i < value->n; i++) {
        const size_t len = (size_t)tdm_gguf_load_u64(at);
        tdm_gguf_item_text(writer, (const char *)at + 8, len);
        at += 8 + len; /* bounded: the parser has walked over all of them */
    }
}

tdm_status tdm_gguf_put_copy(tdm_gguf_writer *writer, const tdm_gguf *gguf, size_t idx,
                             tdm_error *err) {
    const tdm_gguf_kv *kv = &gguf->kvs[idx];
    const tdm_gguf_value *value = &kv->value;
    if (value->type == TDM_GGUF_ARRAY && value->item_type == TDM_GGUF_ARRAY) {
        (void)tdm_fail(err, TDM_E_UNSUPPORTED, "an array of arrays is not copied");
        tdm_err_where(err, "%.100s", kv->key);
        return TDM_E_UNSUPPORTED;
    }
    put_key(writer, kv->key, value->type);
    if (value->type == TDM_GGUF_ARRAY) {
        put_copied_array(writer, value);
    } else if (value->type == TDM_GGUF_STRING) {
        tdm_gguf_item_text(writer, (const char *)value->data, (size_t)value->n);
    } else {
        put(writer, value->data, tdm_gguf_type_bytes(value->type));
    }
    return TDM_OK;
}

/* ---- the header ---- */

static tdm_status check_tensor(const tdm_write_tensor *tensor, tdm_error *err) {
    if (TDM_DTYPES[tensor->dtype].gguf_id < 0) {
        return tdm_fail(err, TDM_E_UNSUPPORTED, "tensor \"%.100s\": GGUF has no type %s",
                        tensor->name, TDM_DTYPES[tensor->dtype].name);
    }
    if (strlen(tensor->name) > NAME_BYTES_MAX || tensor->rank > DIMS_MAX || tensor->rank < 1) {
        (void)tdm_fail(err, TDM_E_LIMIT, "tensor \"%.100s\" does not fit into a GGUF file",
                       tensor->name);
        tdm_err_limit(err, "names of %d bytes, 1 to %d dimensions", NAME_BYTES_MAX, DIMS_MAX);
        return TDM_E_LIMIT;
    }
    return TDM_OK;
}

static tdm_status append_info(tdm_buf *out, const tdm_write_tensor *tensor, uint64_t offset) {
    TDM_TRY(append_le(out, strlen(tensor->name), 8));
    TDM_TRY(tdm_buf_append_text(out, tensor->name));
    TDM_TRY(append_le(out, (uint64_t)tensor->rank, 4));
    for (int32_t i = tensor->rank; i-- > 0;) { /* fastest first */
        TDM_TRY(append_le(out, (uint64_t)tensor->dims[i], 8));
    }
    TDM_TRY(append_le(out, (uint64_t)TDM_DTYPES[tensor->dtype].gguf_id, 4));
    return append_le(out, offset, 8);
}

static tdm_status append_all(tdm_buf *out, const tdm_gguf_writer *writer,
                             const tdm_write_tensor *tensors, const uint64_t *offsets,
                             size_t n_tensors) {
    const size_t start = out->len;
    TDM_TRY(tdm_buf_append(out, "GGUF", 4));
    TDM_TRY(append_le(out, 3, 4));
    TDM_TRY(append_le(out, n_tensors, 8));
    TDM_TRY(append_le(out, writer->n_kvs, 8));
    TDM_TRY(tdm_buf_append(out, writer->kvs.data, writer->kvs.len));
    for (size_t i = 0; i < n_tensors; i++) {
        TDM_TRY(append_info(out, &tensors[i], offsets[i]));
    }
    while ((out->len - start) % TDM_GGUF_WRITE_ALIGNMENT != 0) {
        TDM_TRY(tdm_buf_append_byte(out, 0));
    }
    return TDM_OK;
}

tdm_status tdm_gguf_write_header(tdm_buf *out, const tdm_gguf_writer *writer,
                                 const tdm_write_tensor *tensors, size_t n_tensors,
                                 tdm_error *err) {
    tdm_status status = writer->status;
    size_t sum = 0;
    const tdm_alloc *alloc = out->alloc;
    uint64_t *offsets = tdm_mem_calloc(alloc, n_tensors, sizeof *offsets);
    if (offsets == NULL || status != TDM_OK) {
        status = tdm_fail_nomem(err, "a header");
        goto done;
    }
    for (size_t i = 0; i < n_tensors; i++) {
        TDM_TRY_GOTO(status, check_tensor(&tensors[i], err), done);
        offsets[i] = sum;
        if (!tdm_add_size(sum, (size_t)tensors[i].bytes, &sum) ||
            !tdm_pad_size(sum, TDM_GGUF_WRITE_ALIGNMENT, &sum)) {
            status = tdm_fail(err, TDM_E_LIMIT, "tensors of more than 2^64 bytes");
            goto done;
        }
    }
    status = append_all(out, writer, tensors, offsets, n_tensors);
    if (status != TDM_OK) {
        status = tdm_fail_nomem(err, "a header");
    }
done:
    tdm_mem_free(alloc, offsets, n_tensors * sizeof *offsets);
    return status;
}
