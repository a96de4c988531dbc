/* SPDX-License-Identifier: Apache-2.0
 *
 * The GGUF parser: one cursor over the mapped file, top to bottom.
 *
 *   | "GGUF" | u32 version | u64 n_tensors | u64 n_keys |
 *   | n_keys    x ( key, u32 type, value )                              |  metadata
 *   | n_tensors x ( name, u32 n_dims, u64 dims[], u32 type, u64 offset ) |  tensor table
 *   | padding to general.alignment | tensor data; offsets count from here |
 *
 * A string is a u64 length and bytes; an array is a u32 type, a u64 count and elements. Nothing is
 * allocated from a number before the bytes that it promises have been seen, and every size is
 * computed with base/arith.h. Values are not copied: they stay where they lie in the file. Dims are
 * listed fastest first and are turned around here.
 *
 * Refused: what reliability.md F01-F05 and gguf.md section 4 refuse; big-endian files, v1 and the
 * formats before GGUF are named. Gaps and trailing bytes are only reported. */
#include "formats/gguf_priv.h"

#include "base/arith.h"
#include "base/utf8.h"
#include "formats/ranges_priv.h"
#include "formats/words_priv.h"

#include <string.h>

#define KEYS_MAX 65536
#define TENSORS_MAX 1048576
#define KEY_BYTES_MAX 65535
#define TENSOR_NAME_MAX 63
#define TEXT_BYTES_MAX ((uint64_t)64 << 20)
#define HEADER_BYTES_MAX ((size_t)1 << 30)
#define ARRAY_DEPTH_MAX 4
#define DIMS_MAX 4
#define ALIGNMENT_DEFAULT 32
#define ALIGNMENT_MIN 8
#define ALIGNMENT_MAX 65536
/* The fewest bytes that one record can take. */
#define KEY_RECORD_MIN (8 + 1 + 4 + 1)
#define TENSOR_RECORD_MIN (8 + 1 + 4 + 8 + 4 + 8)

typedef struct gguf_reader {
    tdm_gguf *gguf;
    const uint8_t *data;
    size_t bytes; /* of the file */
    size_t end;   /* where the header must have ended */
    size_t at;
    const char *name;  /* of the file */
    const char *label; /* key or tensor being read; NULL for none */
    tdm_error *err;
} gguf_reader;

/* ---- errors and primitive reads ---- */

/* Fills where. */
static tdm_status fail_here(gguf_reader *r, tdm_status status) {
    if (r->label != NULL) {
        tdm_err_where(r->err, "%s: offset %zu, \"%.64s\"", tdm_path_tail(r->name), r->at, r->label);
    } else {
        tdm_err_where(r->err, "%s: offset %zu", tdm_path_tail(r->name), r->at);
    }
    return status;
}

/* The next bytes are not there. */
static tdm_status fail_short(gguf_reader *r, const char *what) {
    if (r->end < r->bytes) {
        (void)tdm_fail(r->err, TDM_E_LIMIT, "GGUF header goes on past its limit, in %s", what);
        tdm_err_limit(r->err, "%zu bytes", r->end);
        return fail_here(r, TDM_E_LIMIT);
    }
    (void)tdm_fail(r->err, TDM_E_FORMAT, "GGUF file ends inside %s", what);
    tdm_err_limit(r->err, "the file has %zu bytes", r->bytes);
    tdm_err_remedy(r->err, "fetch the file again");
    return fail_here(r, TDM_E_FORMAT);
}

static tdm_status take(gguf_reader *r, uint64_t bytes, const char *what, const uint8_t **out) {
    if (bytes > r->end - r->at) {
        return fail_short(r, what);
    }
    *out = &r->data[r->at];
    r->at += (size_t)bytes; /* bounded: by the test above */
    return TDM_OK;
}

static tdm_status read_u32(gguf_reader *r, const char *what, uint32_t *out) {
    const uint8_t *at = NULL;
    TDM_TRY(take(r, 4, what, &at));
    *out = tdm_gguf_load_u32(at);
    return TDM_OK;
}

static tdm_status read_u64(gguf_reader *r, const char *what, uint64_t *out) {
    const uint8_t *at = NULL;
    TDM_TRY(take(r, 8, what, &at));
    *out = tdm_gguf_load_u64(at);
    return TDM_OK;
}

static tdm_status read_text(gguf_reader *r, const char *what, uint64_t max, tdm_gguf_text *out) {
    const uint8_t *at = NULL;
    uint64_t len = 0;
    TDM_TRY(read_u64(r, what, &len));
    if (len > max && len <= r->end - r->at) {
        (void)tdm_fail(r->err, TDM_E_LIMIT, "%s is %llu bytes long", what, (unsigned long long)len);
        tdm_err_limit(r->err, "%llu bytes", (unsigned long long)max);
        return fail_here(r, TDM_E_LIMIT);
    }
    TDM_TRY(take(r, len, what, &at));
    out->data = (const char *)at;
    out->len = (size_t)len;
    return TDM_OK;
}

/* A key or a tensor's name: not empty, UTF-8, no NUL, new in its table. *out is the copy. */
static tdm_status read_name(gguf_reader *r, const char *what, uint64_t max, tdm_names *names,
                            size_t idx, const char **out) {
    tdm_gguf_text text = {0};
    tdm_status status = TDM_OK;
    char *copy = NULL;
    r->label = NULL;
    TDM_TRY(read_text(r, what, max, &text));
    if (text.len == 0 || memchr(text.data, '\0', text.len) != NULL ||
        tdm_utf8_valid_prefix(text.data, text.len) != text.len) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "%s %zu is %s", what, idx,
                       text.len == 0 ? "empty" : "not plain UTF-8");
        return fail_here(r, TDM_E_FORMAT);
    }
    copy = tdm_arena_copy_text(&r->gguf->arena, text.data, text.len);
    if (copy == NULL) {
        return tdm_fail_nomem(r->err, "a GGUF name");
    }
    r->label = copy;
    status = tdm_names_add(names, copy, text.len, (uint32_t)idx);
    if (status == TDM_E_NOMEM) {
        return tdm_fail_nomem(r->err, "a GGUF name table");
    }
    if (status != TDM_OK) {
        (void)tdm_fail(r->err, status == TDM_E_STATE ? TDM_E_FORMAT : TDM_E_LIMIT,
                       status == TDM_E_STATE ? "%s occurs twice" : "too many cases of %s collide",
                       what);
        return fail_here(r, status == TDM_E_STATE ? TDM_E_FORMAT : TDM_E_LIMIT);
    }
    *out = copy;
    return TDM_OK;
}

/* ---- metadata ---- */

uint32_t tdm_gguf_type_bytes(tdm_gguf_type type) {
    static const uint32_t BYTES[] = {
        [TDM_GGUF_U8] = 1,     [TDM_GGUF_I8] = 1,    [TDM_GGUF_U16] = 2, [TDM_GGUF_I16] = 2,
        [TDM_GGUF_U32] = 4,    [TDM_GGUF_I32] = 4,   [TDM_GGUF_F32] = 4, [TDM_GGUF_BOOL] = 1,
        [TDM_GGUF_STRING] = 0, [TDM_GGUF_ARRAY] = 0, [TDM_GGUF_U64] = 8, [TDM_GGUF_I64] = 8,
        [TDM_GGUF_F64] = 8,
    };
    return BYTES[type];
}

static tdm_status read_type(gguf_reader *r, tdm_gguf_type *out) {
    uint32_t type = 0;
    TDM_TRY(read_u32(r, "a value's type", &type));
    if (type > TDM_GGUF_F64) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "unknown GGUF value type %u", type);
        tdm_err_limit(r->err, "types 0 to %d", TDM_GGUF_F64);
        return fail_here(r, TDM_E_FORMAT);
    }
    *out = (tdm_gguf_type)type;
    return TDM_OK;
}

static tdm_status walk_texts(gguf_reader *r, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) {
        tdm_gguf_text text = {0};
        TDM_TRY(read_text(r, "a string of an array", TEXT_BYTES_MAX, &text));
    }
    return TDM_OK;
}

/* Steps over the elements of an array that holds no arrays. */
static tdm_status skip_flat(gguf_reader *r, tdm_gguf_type type, uint64_t n) {
    const uint32_t elem_bytes = tdm_gguf_type_bytes(type);
    const uint8_t *at = NULL;
    if (type == TDM_GGUF_STRING) {
        return walk_texts(r, n);
    }
    if (n > (r->end - r->at) / elem_bytes) {
        return fail_short(r, "an array");
    }
    return take(r, n * elem_bytes, "an array", &at); /* bounded: by the test above */
}

static tdm_status read_array_head(gguf_reader *r, tdm_gguf_type *out_type, uint64_t *out_n) {
    TDM_TRY(read_type(r, out_type));
    return read_u64(r, "an array's length", out_n);
}

/* Steps over n arrays. left[d] counts the arrays still to come at depth d; the outermost array is
 * level 1, the arrays counted in left[d] are level d + 2. */
static tdm_status skip_nested(gguf_reader *r, uint64_t n) {
    uint64_t left[ARRAY_DEPTH_MAX - 1] = {n};
    size_t depth = 1; /* levels in use */
    while (depth > 0) {
        tdm_gguf_type type = TDM_GGUF_U8;
        uint64_t n_items = 0;
        if (left[depth - 1] == 0) {
            depth--;
            continue;
        }
        left[depth - 1]--;
        TDM_TRY(read_array_head(r, &type, &n_items));
        if (type != TDM_GGUF_ARRAY) {
            TDM_TRY(skip_flat(r, type, n_items));
            continue;
        }
        if (depth == ARRAY_DEPTH_MAX - 1) {
            (void)tdm_fail(r->err, TDM_E_LIMIT, "GGUF arrays are nested too deep");
            tdm_err_limit(r->err, "%d levels", ARRAY_DEPTH_MAX);
            return fail_here(r, TDM_E_LIMIT);
        }
        left[depth++] = n_items;
    }
    return TDM_OK;
}

static tdm_status read_value(gguf_reader *r, tdm_gguf_value *value) {
    TDM_TRY(read_type(r, &value->type));
    if (value->type == TDM_GGUF_STRING) {
        tdm_gguf_text text = {0};
        TDM_TRY(read_text(r, "a string", TEXT_BYTES_MAX, &text));
        value->data = (const uint8_t *)text.data;
        value->n = text.len;
        return TDM_OK;
    }
    if (value->type != TDM_GGUF_ARRAY) {
        return take(r, tdm_gguf_type_bytes(value->type), "a value", &value->data);
    }
    TDM_TRY(read_array_head(r, &value->item_type, &value->n));
    value->data = &r->data[r->at];
    return value->item_type == TDM_GGUF_ARRAY ? skip_nested(r, value->n)
                                              : skip_flat(r, value->item_type, value->n);
}

static tdm_status read_metadata(gguf_reader *r, uint64_t n_keys) {
    tdm_gguf *gguf = r->gguf;
    for (uint64_t i = 0; i < n_keys; i++) {
        tdm_gguf_kv *kvs =
            tdm_vector_grow(gguf->alloc, gguf->kvs, gguf->n_kvs, &gguf->kvs_cap, sizeof *kvs);
        tdm_gguf_kv *kv = NULL;
        if (kvs == NULL) {
            return tdm_fail_nomem(r->err, "GGUF metadata");
        }
        gguf->kvs = kvs;
        kv = &kvs[gguf->n_kvs];
        memset(kv, 0, sizeof *kv);
        TDM_TRY(read_name(r, "metadata key", KEY_BYTES_MAX, &gguf->by_key, gguf->n_kvs, &kv->key));
        TDM_TRY(read_value(r, &kv->value));
        gguf->n_kvs++;
    }
    r->label = NULL;
    return TDM_OK;
}

/* ---- tensor table ---- */

static tdm_status find_dtype(gguf_reader *r, uint32_t id, tdm_dtype *out) {
    for (int i = 0; i < TDM_DTYPE_COUNT; i++) {
        if (TDM_DTYPES[i].gguf_id >= 0 && (uint32_t)TDM_DTYPES[i].gguf_id == id) {
            *out = (tdm_dtype)i;
            return TDM_OK;
        }
    }
    /* 4, 5: Q4_2, Q4_3; 31-33, 36-38: repacked Q4_0 and IQ4_NL. */
    if (id == 4 || id == 5 || (id >= 31 && id <= 33) || (id >= 36 && id <= 38)) {
        (void)tdm_fail(r->err, TDM_E_UNSUPPORTED, "tensor type %u was removed from GGUF", id);
        tdm_err_remedy(r->err, "convert the model again with a current converter");
    } else {
        (void)tdm_fail(r->err, TDM_E_UNSUPPORTED, "unknown tensor type %u", id);
    }
    return fail_here(r, TDM_E_UNSUPPORTED);
}

static tdm_status read_dims(gguf_reader *r, tdm_tensor_view *view) {
    uint32_t rank = 0;
    TDM_TRY(read_u32(r, "a tensor's number of dimensions", &rank));
    if (rank < 1 || rank > DIMS_MAX) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "tensor has %u dimensions", rank);
        tdm_err_limit(r->err, "1 to %d dimensions", DIMS_MAX);
        return fail_here(r, TDM_E_FORMAT);
    }
    view->rank = (int32_t)rank;
    for (uint32_t i = 0; i < rank; i++) {
        uint64_t dim = 0;
        TDM_TRY(read_u64(r, "a tensor's dimensions", &dim));
        if (dim < 1 || dim > INT64_MAX) {
            (void)tdm_fail(r->err, TDM_E_FORMAT, "tensor has a dimension of %llu",
                           (unsigned long long)dim);
            tdm_err_limit(r->err, "1 to 2^63 - 1");
            return fail_here(r, TDM_E_FORMAT);
        }
        view->dims[rank - 1 - i] = (int64_t)dim; /* fastest first in the file, last here */
    }
    return TDM_OK;
}

static tdm_status measure_tensor(gguf_reader *r, tdm_tensor_view *view) {
    const tdm_dtype_info *info = &TDM_DTYPES[view->dtype];
    int64_t in_blocks[TDM_RANK_MAX];
    const int64_t row = view->dims[view->rank - 1];
    if (row % info->block_weights != 0) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "rows of %lld weights are no whole %s blocks",
                       (long long)row, info->name);
        tdm_err_limit(r->err, "a multiple of %u", info->block_weights);
        return fail_here(r, TDM_E_FORMAT);
    }
    memcpy(in_blocks, view->dims, sizeof in_blocks);
    in_blocks[view->rank - 1] = row / info->block_weights;
    if (!tdm_shape_bytes(view->dims, view->rank, 1, &view->bytes) ||
        !tdm_shape_bytes(in_blocks, view->rank, info->block_bytes, &view->bytes)) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "tensor's number of elements overflows");
        return fail_here(r, TDM_E_FORMAT);
    }
    return TDM_OK;
}

static tdm_status read_tensor_table(gguf_reader *r, uint64_t n_tensors) {
    tdm_gguf *gguf = r->gguf;
    for (uint64_t i = 0; i < n_tensors; i++) {
        tdm_gguf_tensor *tensors = tdm_vector_grow(gguf->alloc, gguf->tensors, gguf->n_tensors,
                                                   &gguf->tensors_cap, sizeof *tensors);
        tdm_gguf_tensor *tensor = NULL;
        uint32_t type = 0;
        if (tensors == NULL) {
            return tdm_fail_nomem(r->err, "a GGUF tensor table");
        }
        gguf->tensors = tensors;
        tensor = &tensors[gguf->n_tensors];
        memset(tensor, 0, sizeof *tensor);
        TDM_TRY(read_name(r, "tensor name", TENSOR_NAME_MAX, &gguf->by_name, gguf->n_tensors,
                          &tensor->name));
        TDM_TRY(read_dims(r, &tensor->view));
        TDM_TRY(read_u32(r, "a tensor's type", &type));
        TDM_TRY(find_dtype(r, type, &tensor->view.dtype));
        TDM_TRY(measure_tensor(r, &tensor->view));
        TDM_TRY(read_u64(r, "a tensor's offset", &tensor->offset));
        gguf->n_tensors++;
    }
    r->label = NULL;
    return TDM_OK;
}

/* ---- data ---- */

static tdm_status read_alignment(gguf_reader *r, size_t *out) {
    static const char KEY[] = "general.alignment";
    uint64_t alignment = ALIGNMENT_DEFAULT;
    if (tdm_gguf_has(r->gguf, KEY) &&
        (!tdm_gguf_get_u64(r->gguf, KEY, &alignment) || alignment < ALIGNMENT_MIN ||
         alignment > ALIGNMENT_MAX || !tdm_is_power_of_two((size_t)alignment))) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "general.alignment is not one that can be used");
        tdm_err_limit(r->err, "a power of two from %d to %d", ALIGNMENT_MIN, ALIGNMENT_MAX);
        r->label = KEY;
        return fail_here(r, TDM_E_FORMAT);
    }
    *out = (size_t)alignment;
    return TDM_OK;
}

/* Turns a tensor's offset into one from the start of the file, and points its view there. */
static tdm_status place_tensor(gguf_reader *r, tdm_gguf_tensor *tensor, size_t data_start,
                               size_t alignment) {
    const size_t data_bytes = data_start < r->bytes ? r->bytes - data_start : 0;
    r->label = tensor->name;
    /* bounded: at most the file's bytes, by the test */
    r->at = tensor->offset <= data_bytes ? data_start + (size_t)tensor->offset : r->bytes;
    if (tensor->offset % alignment != 0) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "tensor's offset %llu is not aligned to %zu",
                       (unsigned long long)tensor->offset, alignment);
        return fail_here(r, TDM_E_FORMAT);
    }
    if (tensor->offset > data_bytes || tensor->view.bytes > data_bytes - tensor->offset) {
        (void)tdm_fail(r->err, TDM_E_FORMAT,
                       "%zu bytes at data offset %llu lie past the end: the file is truncated",
                       tensor->view.bytes, (unsigned long long)tensor->offset);
        tdm_err_limit(r->err, "the data has %zu bytes", data_bytes);
        tdm_err_remedy(r->err, "fetch the file again");
        return fail_here(r, TDM_E_FORMAT);
    }
    tensor->offset += data_start; /* bounded: inside the file, by the test above */
    tensor->view.data = &r->data[tensor->offset];
    return TDM_OK;
}

/* Another GGUF file begins where this one ends: somebody joined the parts of a split with cat. */
static bool is_joined(const gguf_reader *r, uint64_t end, size_t alignment) {
    size_t padded = 0;
    return (tdm_range_is_inside((size_t)end, 4, r->bytes) &&
            memcmp(&r->data[end], "GGUF", 4) == 0) ||
           (tdm_pad_size((size_t)end, alignment, &padded) &&
            tdm_range_is_inside(padded, 4, r->bytes) && memcmp(&r->data[padded], "GGUF", 4) == 0);
}

static tdm_status check_data(gguf_reader *r, size_t data_start, size_t alignment) {
    tdm_gguf *gguf = r->gguf;
    const size_t n = gguf->n_tensors;
    tdm_range_report report;
    size_t end = 0;
    tdm_byte_range *ranges = tdm_mem_calloc(gguf->alloc, n, sizeof *ranges);
    if (ranges == NULL) {
        return tdm_fail_nomem(r->err, "a GGUF tensor table");
    }
    for (size_t i = 0; i < n; i++) {
        ranges[i].offset = gguf->tensors[i].offset;
        ranges[i].bytes = gguf->tensors[i].view.bytes;
        ranges[i].idx = (uint32_t)i;
    }
    tdm_ranges_check(ranges, n, data_start, alignment, &report);
    tdm_mem_free(gguf->alloc, ranges, n * sizeof *ranges);
    if (report.is_overlapping) {
        r->label = gguf->tensors[report.second_idx].name;
        (void)tdm_fail(r->err, TDM_E_FORMAT, "tensor shares bytes with \"%s\"",
                       gguf->tensors[report.first_idx].name);
        return fail_here(r, TDM_E_FORMAT);
    }
    if (is_joined(r, report.end, alignment)) {
        (void)tdm_fail(r->err, TDM_E_FORMAT, "another GGUF file begins inside this one");
        tdm_err_where(r->err, "%s: offset %llu", tdm_path_tail(r->name),
                      (unsigned long long)report.end);
        tdm_err_remedy(r->err, "keep the parts of a split as separate files; do not join them "
                               "with cat");
        return TDM_E_FORMAT;
    }
    gguf->gaps.hole_bytes = report.hole_bytes;
    gguf->gaps.hole_offset = report.hole_offset;
    if (tdm_pad_size((size_t)report.end, alignment, &end) && end < r->bytes) {
        gguf->gaps.trailing_bytes = (uint64_t)r->bytes - end;
    }
    return TDM_OK;
}

static tdm_status place_data(gguf_reader *r) {
    tdm_gguf *gguf = r->gguf;
    size_t alignment = 0;
    size_t data_start = 0;
    TDM_TRY(read_alignment(r, &alignment));
    if (!tdm_pad_size(r->at, alignment, &data_start)) {
        return fail_short(r, "its padding");
    }
    for (size_t i = 0; i < gguf->n_tensors; i++) {
        TDM_TRY(place_tensor(r, &gguf->tensors[i], data_start, alignment));
    }
    r->label = NULL;
    return check_data(r, data_start, alignment);
}

/* ---- the file ---- */

static tdm_status check_magic(gguf_reader *r) {
    /* As bytes; the ones before GGUF were written as little-endian numbers. */
    static const char *const OLD[] = {"lmgg", "tjgg", "fmgg", "algg", "GGML", "GGJT", "GGMF"};
    const uint8_t *magic = NULL;
    if (tdm_is_pointer_file(r->data, r->bytes)) {
        return tdm_fail_pointer_file(r->name, r->err);
    }
    TDM_TRY(take(r, 4, "its magic", &magic));
    if (memcmp(magic, "GGUF", 4) == 0) {
        return TDM_OK;
    }
    r->at = 0;
    for (size_t i = 0; i < sizeof OLD / sizeof OLD[0]; i++) {
        if (memcmp(magic, OLD[i], 4) == 0) {
            (void)tdm_fail(r->err, TDM_E_UNSUPPORTED,
                           "file has the magic of a format before GGUF (%s)", OLD[i]);
            tdm_err_remedy(r->err, "convert the model to GGUF");
            return fail_here(r, TDM_E_UNSUPPORTED);
        }
    }
    (void)tdm_fail(r->err, TDM_E_FORMAT, "not GGUF: the magic is %02x %02x %02x %02x", magic[0],
                   magic[1], magic[2], magic[3]);
    return fail_here(r, TDM_E_FORMAT);
}

static tdm_status check_version(gguf_reader *r) {
    uint32_t version = 0;
    TDM_TRY(read_u32(r, "its version", &version));
    if (version == 2 || version == 3) {
        r->gguf->version = version;
        return TDM_OK;
    }
    if ((version & 0xffffu) == 0 && version != 0) {
        (void)tdm_fail(r->err, TDM_E_UNSUPPORTED, "GGUF file is big-endian (version %#x)", version);
        tdm_err_remedy(r->err, "convert the file to little-endian byte order");
    } else {
        (void)tdm_fail(r->err, TDM_E_UNSUPPORTED, "GGUF version %u is not read", version);
        tdm_err_limit(r->err, "versions 2 and 3");
        tdm_err_remedy(r->err, "convert the model again with a current converter");
    }
    return fail_here(r, TDM_E_UNSUPPORTED);
}

static tdm_status read_count(gguf_reader *r, const char *what, uint64_t max, uint64_t record_bytes,
                             uint64_t *out) {
    const size_t field = r->at;
    TDM_TRY(read_u64(r, what, out));
    if (*out > max || *out > (r->end - r->at) / record_bytes) {
        const tdm_status status = *out > max ? TDM_E_LIMIT : TDM_E_FORMAT;
        (void)tdm_fail(r->err, status, "GGUF %s is %llu", what, (unsigned long long)*out);
        tdm_err_limit(r->err, "%llu, and no more than fit into the file's %zu bytes",
                      (unsigned long long)max, r->bytes);
        r->at = field;
        return fail_here(r, status);
    }
    return TDM_OK;
}

static tdm_status parse(gguf_reader *r) {
    uint64_t n_tensors = 0;
    uint64_t n_keys = 0;
    tdm_gguf_text text = {0};
    TDM_TRY(check_magic(r));
    TDM_TRY(check_version(r));
    TDM_TRY(read_count(r, "tensor count", TENSORS_MAX, TENSOR_RECORD_MIN, &n_tensors));
    TDM_TRY(read_count(r, "key count", KEYS_MAX, KEY_RECORD_MIN, &n_keys));
    TDM_TRY(read_metadata(r, n_keys));
    TDM_TRY(read_tensor_table(r, n_tensors));
    TDM_TRY(place_data(r));
    if (tdm_gguf_get_text(r->gguf, "general.architecture", &text) && text.len > 0 &&
        memchr(text.data, '\0', text.len) == NULL &&
        tdm_utf8_valid_prefix(text.data, text.len) == text.len) {
        r->gguf->architecture = tdm_arena_copy_text(&r->gguf->arena, text.data, text.len);
        if (r->gguf->architecture == NULL) {
            return tdm_fail_nomem(r->err, "GGUF metadata");
        }
    }
    return TDM_OK;
}

tdm_status tdm_gguf_parse(tdm_gguf **out, const tdm_alloc *alloc, const uint8_t *data, size_t bytes,
                          const char *name, tdm_error *err) {
    gguf_reader r = {0};
    tdm_status status = TDM_OK;
    tdm_gguf *gguf = tdm_mem_calloc(alloc, 1, sizeof *gguf);
    *out = NULL;
    if (gguf == NULL) {
        return tdm_fail_nomem(err, "a GGUF file");
    }
    gguf->alloc = alloc;
    tdm_arena_init(&gguf->arena, alloc);
    tdm_names_init(&gguf->by_key, alloc);
    tdm_names_init(&gguf->by_name, alloc);
    r.gguf = gguf;
    r.data = data;
    r.bytes = bytes;
    r.end = bytes < HEADER_BYTES_MAX ? bytes : HEADER_BYTES_MAX;
    r.name = name;
    r.err = err;
    TDM_TRY_GOTO(status, parse(&r), done);
    *out = gguf;
    gguf = NULL;
done:
    tdm_gguf_destroy(gguf);
    return status;
}

void tdm_gguf_destroy(tdm_gguf *gguf) {
    if (gguf != NULL) {
        tdm_mem_free(gguf->alloc, gguf->kvs, gguf->kvs_cap * sizeof *gguf->kvs);
        tdm_mem_free(gguf->alloc, gguf->tensors, gguf->tensors_cap * sizeof *gguf->tensors);
        tdm_names_deinit(&gguf->by_key);
        tdm_names_deinit(&gguf->by_name);
        tdm_arena_deinit(&gguf->arena);
        tdm_mem_free(gguf->alloc, gguf, sizeof *gguf);
    }
}
