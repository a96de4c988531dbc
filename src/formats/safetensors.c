/* SPDX-License-Identifier: Apache-2.0
 *
 * The header is read as a stream of JSON events by a state machine that knows the only legal shape;
 * anything deeper or different stops it at once, so that a header of 100 MiB of brackets costs
 * nothing. No tree is built.
 *
 *   AT_ROOT -{-> IN_ROOT -"name"-> AT_ENTRY -{-> IN_ENTRY -"dtype"->        AT_DTYPE   -string->
 *                                                         -"shape"->        AT_SHAPE   -[->
 * IN_SHAPE
 *                                                         -"data_offsets"-> AT_OFFSETS -[-> ...
 *                   -"__metadata__"-> AT_METADATA -{-> IN_METADATA -key-> AT_VALUE -string->
 *
 * Refused: overlaps, ranges outside the file, sizes that are not shape x dtype, duplicate names,
 * unknown fields. Holes and trailing bytes are only reported. */
#include "formats/safetensors.h"

#include "base/arith.h"
#include "base/json_sax.h"
#include "formats/names_priv.h"
#include "formats/ranges_priv.h"
#include "formats/words_priv.h"

#include <string.h>

typedef struct st_tensor {
    const char *name;
    tdm_tensor_view view;
    uint64_t offset; /* in the file */
} st_tensor;

struct tdm_safetensors {
    const tdm_alloc *alloc;
    tdm_arena arena; /* names and metadata */
    st_tensor *tensors;
    size_t n_tensors;
    size_t tensors_cap;
    tdm_names by_name;
    const char **values; /* of __metadata__ */
    size_t n_values;
    size_t values_cap;
    tdm_names by_key;
    tdm_safetensors_gaps gaps;
};

typedef enum st_state {
    AT_ROOT,
    IN_ROOT,
    AT_ENTRY,
    IN_ENTRY,
    AT_DTYPE,
    AT_SHAPE,
    IN_SHAPE,
    AT_OFFSETS,
    IN_OFFSETS,
    AT_METADATA,
    IN_METADATA,
    AT_VALUE,
    AT_END
} st_state;

typedef struct st_parser {
    tdm_safetensors *file;
    const uint8_t *data; /* the whole file */
    const char *name;
    tdm_error *err;
    tdm_status status;
    size_t data_start;
    size_t data_bytes;
    size_t last_offset; /* near where the parse is, for errors */
    st_state state;
    bool has_metadata;
    /* the entry being read */
    const char *tensor;
    bool has_dtype, has_shape;
    tdm_dtype dtype;
    int32_t rank;
    int64_t dims[TDM_RANK_MAX];
    uint64_t offsets[2];
    uint32_t n_offsets;
} st_parser;

/* The dtypes that we read, in the spelling of the format, which is the table's. */
static const tdm_dtype DTYPES_READ[] = {
    TDM_DTYPE_F64,  TDM_DTYPE_F32,     TDM_DTYPE_F16,     TDM_DTYPE_BF16,
    TDM_DTYPE_I64,  TDM_DTYPE_I32,     TDM_DTYPE_I16,     TDM_DTYPE_I8,
    TDM_DTYPE_U8,   TDM_DTYPE_U16,     TDM_DTYPE_U32,     TDM_DTYPE_U64,
    TDM_DTYPE_BOOL, TDM_DTYPE_F8_E4M3, TDM_DTYPE_F8_E5M2, TDM_DTYPE_F8_E8M0,
};
/* Names that the format has and that we refuse. */
static const char *const DTYPES_REFUSED[] = {"F4",  "F6_E2M3",     "F6_E3M2",
                                             "C64", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};

static int stop(st_parser *p, tdm_status status) {
    p->status = status;
    return 0;
}

static int stop_nomem(st_parser *p) {
    return stop(p, tdm_fail_nomem(p->err, "a safetensors header"));
}

/* Fills where: the tensor if one is being read, else the offset. */
static int stop_here(st_parser *p, tdm_status status) {
    if (p->tensor != NULL) {
        tdm_err_where(p->err, "%s: tensor \"%.100s\"", tdm_path_tail(p->name), p->tensor);
    } else {
        tdm_err_where(p->err, "%s: offset %zu", tdm_path_tail(p->name), p->last_offset);
    }
    return stop(p, status);
}

static int stop_shape_of_header(st_parser *p, const char *got) {
    static const char *const EXPECTED[] = {
        [AT_ROOT] = "an object",
        [IN_ROOT] = "a tensor's name",
        [AT_ENTRY] = "an object with dtype, shape and data_offsets",
        [IN_ENTRY] = "dtype, shape or data_offsets",
        [AT_DTYPE] = "a string as dtype",
        [AT_SHAPE] = "an array as shape",
        [IN_SHAPE] = "a whole number in shape",
        [AT_OFFSETS] = "an array as data_offsets",
        [IN_OFFSETS] = "a whole number in data_offsets",
        [AT_METADATA] = "an object as __metadata__",
        [IN_METADATA] = "a key of __metadata__",
        [AT_VALUE] = "a string in __metadata__",
        [AT_END] = "the end of the header",
    };
    (void)tdm_fail(p->err, TDM_E_FORMAT, "safetensors header has %s instead of %s", got,
                   EXPECTED[p->state]);
    return stop_here(p, TDM_E_FORMAT);
}

/* ---- finishing one tensor ---- */

static int stop_bytes(st_parser *p, uint64_t has, uint64_t wants) {
    (void)tdm_fail(p->err, TDM_E_FORMAT,
                   "data_offsets span %llu bytes, shape and dtype %s need %llu",
                   (unsigned long long)has, TDM_DTYPES[p->dtype].name, (unsigned long long)wants);
    return stop_here(p, TDM_E_FORMAT);
}

static int check_entry(st_parser *p, size_t *out_bytes) {
    const uint32_t elem_bytes = TDM_DTYPES[p->dtype].block_bytes;
    size_t bytes = elem_bytes;
    if (!p->has_dtype || !p->has_shape || p->n_offsets == 0) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "safetensors entry lacks %s",
                       !p->has_dtype   ? "dtype"
                       : !p->has_shape ? "shape"
                                       : "data_offsets");
        return stop_here(p, TDM_E_FORMAT);
    }
    if (!tdm_shape_bytes(p->dims, p->rank, elem_bytes, &bytes)) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "shape's number of bytes overflows");
        return stop_here(p, TDM_E_FORMAT);
    }
    if (p->offsets[0] > p->offsets[1]) {
        (void)tdm_fail(p->err, TDM_E_FORMAT,
                       "data_offsets begin at %llu and end before it, at %llu",
                       (unsigned long long)p->offsets[0], (unsigned long long)p->offsets[1]);
        return stop_here(p, TDM_E_FORMAT);
    }
    if (p->offsets[1] > p->data_bytes) {
        (void)tdm_fail(p->err, TDM_E_FORMAT,
                       "data ends at byte %llu of the data, which has %zu: the file is truncated",
                       (unsigned long long)p->offsets[1], p->data_bytes);
        tdm_err_remedy(p->err, "fetch the file again");
        return stop_here(p, TDM_E_FORMAT);
    }
    if (p->offsets[1] - p->offsets[0] != bytes) {
        return stop_bytes(p, p->offsets[1] - p->offsets[0], bytes);
    }
    *out_bytes = bytes;
    return 1;
}

static int finish_tensor(st_parser *p) {
    tdm_safetensors *file = p->file;
    st_tensor *tensor = NULL;
    size_t bytes = 0;
    if (!check_entry(p, &bytes)) {
        return 0;
    }
    tensor = tdm_vector_grow(file->alloc, file->tensors, file->n_tensors, &file->tensors_cap,
                             sizeof *tensor);
    if (tensor == NULL) {
        return stop_nomem(p);
    }
    file->tensors = tensor;
    tensor = &file->tensors[file->n_tensors++];
    memset(tensor, 0, sizeof *tensor);
    tensor->name = p->tensor;
    /* bounded: check_entry has held it against the file's end */
    tensor->offset = (uint64_t)p->data_start + p->offsets[0];
    tensor->view.dtype = p->dtype;
    tensor->view.rank = p->rank;
    memcpy(tensor->view.dims, p->dims, sizeof p->dims);
    tensor->view.data = &p->data[tensor->offset];
    tensor->view.bytes = bytes;
    p->tensor = NULL;
    return 1;
}

/* ---- events ---- */

/* Remembers where the parse is, when the text lies in the file (strings with escapes do not). */
static void note_offset(st_parser *p, const void *text) {
    const uintptr_t at = (uintptr_t)text;
    const uintptr_t base = (uintptr_t)p->data;
    if (at >= base && at - base < p->data_start) {
        p->last_offset = (size_t)(at - base);
    }
}

/* Begins the tensor of that name; its number is the one it will have when it is finished. */
static int begin_tensor(st_parser *p, const char *text, size_t len) {
    tdm_safetensors *file = p->file;
    tdm_status status = TDM_OK;
    if (file->n_tensors == TDM_SAFETENSORS_TENSORS_MAX || len > TDM_SAFETENSORS_NAME_MAX) {
        (void)tdm_fail(p->err, TDM_E_LIMIT, "safetensors header has %s",
                       len > TDM_SAFETENSORS_NAME_MAX ? "too long a tensor name"
                                                      : "too many tensors");
        tdm_err_limit(p->err, "names of %d bytes, %d tensors", TDM_SAFETENSORS_NAME_MAX,
                      TDM_SAFETENSORS_TENSORS_MAX);
        return stop_here(p, TDM_E_LIMIT);
    }
    if (len == 0 || memchr(text, '\0', len) != NULL) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "tensor name is %s",
                       len == 0 ? "empty" : "cut by a NUL");
        return stop_here(p, TDM_E_FORMAT);
    }
    p->has_dtype = p->has_shape = false;
    p->rank = 0;
    p->n_offsets = 0;
    p->tensor = tdm_arena_copy_text(&file->arena, text, len);
    if (p->tensor == NULL) {
        return stop_nomem(p);
    }
    status = tdm_names_add(&file->by_name, p->tensor, len, (uint32_t)file->n_tensors);
    if (status == TDM_E_NOMEM) {
        return stop_nomem(p);
    }
    if (status == TDM_E_STATE) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "two tensors have one name");
        return stop_here(p, TDM_E_FORMAT);
    }
    if (status != TDM_OK) {
        (void)tdm_fail(p->err, TDM_E_LIMIT, "too many tensor names collide: the file is forged");
        return stop_here(p, TDM_E_LIMIT);
    }
    memset(p->dims, 0, sizeof p->dims);
    p->state = AT_ENTRY;
    return 1;
}

static int on_root_key(st_parser *p, const char *text, size_t len) {
    static const char METADATA[] = "__metadata__";
    if (len != sizeof METADATA - 1 || memcmp(text, METADATA, len) != 0) {
        return begin_tensor(p, text, len);
    }
    if (p->has_metadata) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "safetensors header has __metadata__ twice");
        return stop_here(p, TDM_E_FORMAT);
    }
    p->has_metadata = true;
    p->state = AT_METADATA;
    return 1;
}

static bool is_text(const char *text, size_t len, const char *other) {
    return len == strlen(other) && memcmp(text, other, len) == 0;
}

static int on_entry_key(st_parser *p, const char *text, size_t len) {
    bool is_twice = false;
    if (is_text(text, len, "dtype")) {
        is_twice = p->has_dtype;
        p->state = AT_DTYPE;
    } else if (is_text(text, len, "shape")) {
        is_twice = p->has_shape;
        p->state = AT_SHAPE;
    } else if (is_text(text, len, "data_offsets")) {
        is_twice = p->n_offsets != 0;
        p->state = AT_OFFSETS;
    } else {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "safetensors entry has the unknown field \"%.*s\"",
                       tdm_text_cut(text, len, 40), text);
        return stop_here(p, TDM_E_FORMAT);
    }
    if (is_twice) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "safetensors entry has \"%.*s\" twice", (int)len,
                       text);
        return stop_here(p, TDM_E_FORMAT);
    }
    return 1;
}

static int on_metadata_key(st_parser *p, const char *text, size_t len) {
    tdm_safetensors *file = p->file;
    const char *key = tdm_arena_copy_text(&file->arena, text, len);
    tdm_status status = TDM_OK;
    if (key == NULL) {
        return stop_nomem(p);
    }
    status = tdm_names_add(&file->by_key, key, len, (uint32_t)file->n_values);
    if (status == TDM_E_NOMEM) {
        return stop_nomem(p);
    }
    if (status != TDM_OK) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "__metadata__ has the key \"%.*s\" twice",
                       tdm_text_cut(text, len, 40), text);
        return stop_here(p, TDM_E_FORMAT);
    }
    p->state = AT_VALUE;
    return 1;
}

static int on_key(void *ctx, const unsigned char *bytes, size_t len) {
    st_parser *p = ctx;
    const char *text = (const char *)bytes;
    note_offset(p, bytes);
    if (p->state == IN_ROOT) {
        return on_root_key(p, text, len);
    }
    if (p->state == IN_ENTRY) {
        return on_entry_key(p, text, len);
    }
    return on_metadata_key(p, text, len); /* the only other object */
}

static int on_dtype(st_parser *p, const char *text, size_t len) {
    for (size_t i = 0; i < sizeof DTYPES_READ / sizeof DTYPES_READ[0]; i++) {
        if (is_text(text, len, TDM_DTYPES[DTYPES_READ[i]].name)) {
            p->dtype = DTYPES_READ[i];
            p->has_dtype = true;
            p->state = IN_ENTRY;
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof DTYPES_REFUSED / sizeof DTYPES_REFUSED[0]; i++) {
        if (is_text(text, len, DTYPES_REFUSED[i])) {
            (void)tdm_fail(p->err, TDM_E_UNSUPPORTED, "dtype %s is not read by this build",
                           DTYPES_REFUSED[i]);
            return stop_here(p, TDM_E_UNSUPPORTED);
        }
    }
    (void)tdm_fail(p->err, TDM_E_FORMAT, "unknown dtype \"%.*s\"", tdm_text_cut(text, len, 40),
                   text);
    return stop_here(p, TDM_E_FORMAT);
}

static int on_string(void *ctx, const unsigned char *bytes, size_t len) {
    st_parser *p = ctx;
    const char *text = (const char *)bytes;
    tdm_safetensors *file = p->file;
    const char **values = NULL;
    note_offset(p, bytes);
    if (p->state == AT_DTYPE) {
        return on_dtype(p, text, len);
    }
    if (p->state != AT_VALUE) {
        return stop_shape_of_header(p, "a string");
    }
    values = tdm_vector_grow(file->alloc, file->values, file->n_values, &file->values_cap,
                             sizeof *values);
    if (values == NULL) {
        return stop_nomem(p);
    }
    file->values = values;
    values[file->n_values] = tdm_arena_copy_text(&file->arena, text, len);
    if (values[file->n_values++] == NULL) {
        return stop_nomem(p);
    }
    p->state = IN_METADATA;
    return 1;
}

/* Decimal digits only; false on anything else and past max. */
static bool read_whole(const char *text, size_t len, uint64_t max, uint64_t *out) {
    uint64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        const uint64_t digit = (uint64_t)(unsigned char)text[i] - '0';
        if (digit > 9 || value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit; /* at most max, by the test above */
    }
    *out = value;
    return len > 0;
}

static int on_number(void *ctx, const char *text, size_t len) {
    st_parser *p = ctx;
    uint64_t value = 0;
    note_offset(p, text);
    if (p->state != IN_SHAPE && p->state != IN_OFFSETS) {
        return stop_shape_of_header(p, "a number");
    }
    if (!read_whole(text, len, INT64_MAX, &value)) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "\"%.*s\" is no %s", tdm_text_cut(text, len, 40), text,
                       p->state == IN_SHAPE ? "dimension" : "offset");
        tdm_err_limit(p->err, "0 to 2^63 - 1");
        return stop_here(p, TDM_E_FORMAT);
    }
    if (p->state == IN_SHAPE) {
        if (p->rank == TDM_RANK_MAX) {
            (void)tdm_fail(p->err, TDM_E_LIMIT, "tensor has too many dimensions");
            tdm_err_limit(p->err, "%d dimensions", TDM_RANK_MAX);
            return stop_here(p, TDM_E_LIMIT);
        }
        p->dims[p->rank++] = (int64_t)value;
        return 1;
    }
    if (p->n_offsets == 2) {
        return stop_shape_of_header(p, "a third number in data_offsets");
    }
    p->offsets[p->n_offsets++] = value;
    return 1;
}

static int on_null(void *ctx) {
    return stop_shape_of_header(ctx, "null");
}

static int on_boolean(void *ctx, int value) {
    return stop_shape_of_header(ctx, value != 0 ? "true" : "false");
}

static int on_start_map(void *ctx) {
    st_parser *p = ctx;
    if (p->state != AT_ROOT && p->state != AT_ENTRY && p->state != AT_METADATA) {
        return stop_shape_of_header(p, "an object");
    }
    p->state = p->state == AT_ROOT ? IN_ROOT : p->state == AT_ENTRY ? IN_ENTRY : IN_METADATA;
    return 1;
}

static int on_end_map(void *ctx) {
    st_parser *p = ctx;
    if (p->state == IN_ROOT) {
        p->state = AT_END;
        return 1;
    }
    if (p->state == IN_ENTRY && !finish_tensor(p)) {
        return 0;
    }
    p->state = IN_ROOT;
    return 1;
}

static int on_start_array(void *ctx) {
    st_parser *p = ctx;
    if (p->state != AT_SHAPE && p->state != AT_OFFSETS) {
        return stop_shape_of_header(p, "an array");
    }
    p->state = p->state == AT_SHAPE ? IN_SHAPE : IN_OFFSETS;
    return 1;
}

static int on_end_array(void *ctx) {
    st_parser *p = ctx;
    if (p->state == IN_OFFSETS && p->n_offsets != 2) {
        return stop_shape_of_header(p, "the end of data_offsets");
    }
    p->has_shape = p->has_shape || p->state == IN_SHAPE;
    p->state = IN_ENTRY;
    return 1;
}

static const yajl_callbacks CALLBACKS = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_string,
    .yajl_start_map = on_start_map,
    .yajl_map_key = on_key,
    .yajl_end_map = on_end_map,
    .yajl_start_array = on_start_array,
    .yajl_end_array = on_end_array,
};

/* ---- the whole file ---- */

static tdm_status read_header_len(const uint8_t *data, size_t bytes, const char *name,
                                  size_t *out_len, tdm_error *err) {
    uint64_t len = 0;
    if (bytes < 8) {
        (void)tdm_fail(err, TDM_E_FORMAT, "file of %zu bytes is too short for safetensors", bytes);
        tdm_err_where(err, "%s", tdm_path_tail(name));
        tdm_err_remedy(err, "fetch the file again");
        return TDM_E_FORMAT;
    }
    for (size_t i = 8; i > 0; i--) {
        len = len << 8 | data[i - 1];
    }
    if (tdm_is_pointer_file(data, bytes)) {
        return tdm_fail_pointer_file(name, err);
    }
    if (len > TDM_SAFETENSORS_HEADER_MAX || len > bytes - 8 || len < 2 || data[8] != '{') {
        (void)tdm_fail(err, TDM_E_FORMAT,
                       "not safetensors: the header's length is given as %llu bytes%s",
                       (unsigned long long)len,
                       len <= bytes - 8 && len >= 2 ? " and does not begin with {" : "");
        tdm_err_where(err, "%s: offset 0", tdm_path_tail(name));
        tdm_err_limit(err, "the file has %zu bytes; headers have 2 bytes to 100 MiB", bytes);
        tdm_err_remedy(err, "fetch the file again");
        return TDM_E_FORMAT;
    }
    *out_len = (size_t)len;
    return TDM_OK;
}

static tdm_status check_ranges(st_parser *p, size_t bytes) {
    tdm_safetensors *file = p->file;
    tdm_range_report report;
    const size_t n = file->n_tensors;
    tdm_byte_range *ranges = NULL;
    if (n > 0) {
        ranges = tdm_mem_calloc(file->alloc, n, sizeof *ranges);
        if (ranges == NULL) {
            return tdm_fail_nomem(p->err, "a tensor table");
        }
    }
    for (size_t i = 0; i < n; i++) {
        ranges[i].offset = file->tensors[i].offset;
        ranges[i].bytes = file->tensors[i].view.bytes;
        ranges[i].idx = (uint32_t)i;
    }
    tdm_ranges_check(ranges, n, p->data_start, 1, &report);
    tdm_mem_free(file->alloc, ranges, n * sizeof *ranges);
    if (report.is_overlapping) {
        (void)tdm_fail(p->err, TDM_E_FORMAT, "tensors \"%.80s\" and \"%.80s\" share bytes",
                       file->tensors[report.first_idx].name, file->tensors[report.second_idx].name);
        tdm_err_where(p->err, "%s: offset %llu", tdm_path_tail(p->name),
                      (unsigned long long)file->tensors[report.second_idx].offset);
        return TDM_E_FORMAT;
    }
    file->gaps.hole_bytes = report.hole_bytes;
    file->gaps.hole_offset = report.hole_offset;
    file->gaps.trailing_bytes = (uint64_t)bytes - report.end;
    return TDM_OK;
}

tdm_status tdm_safetensors_parse(tdm_safetensors **out, const tdm_alloc *alloc, const uint8_t *data,
                                 size_t bytes, const char *name, tdm_error *err) {
    st_parser p = {0};
    tdm_status status = TDM_OK;
    tdm_safetensors *file = NULL;
    size_t header_bytes = 0;
    *out = NULL;
    TDM_TRY(read_header_len(data, bytes, name, &header_bytes, err));
    file = tdm_mem_calloc(alloc, 1, sizeof *file);
    if (file == NULL) {
        return tdm_fail_nomem(err, "a safetensors file");
    }
    file->alloc = alloc;
    tdm_arena_init(&file->arena, alloc);
    tdm_names_init(&file->by_name, alloc);
    tdm_names_init(&file->by_key, alloc);
    p.file = file;
    p.data = data;
    p.name = name;
    p.err = err;
    p.data_start = 8 + header_bytes; /* bounded: read_header_len saw that the file has them */
    p.data_bytes = bytes - p.data_start;
    p.last_offset = 8;
    TDM_TRY_GOTO(status,
                 tdm_json_sax(alloc, &CALLBACKS, &p, &p.status, (const char *)data + 8,
                              header_bytes, name, err),
                 done);
    TDM_TRY_GOTO(status, check_ranges(&p, bytes), done);
    *out = file;
    file = NULL;
done:
    tdm_safetensors_destroy(file);
    return status;
}

void tdm_safetensors_destroy(tdm_safetensors *file) {
    if (file != NULL) {
        tdm_mem_free(file->alloc, file->tensors, file->tensors_cap * sizeof *file->tensors);
        tdm_mem_free(file->alloc, file->values, file->values_cap * sizeof *file->values);
        tdm_names_deinit(&file->by_name);
        tdm_names_deinit(&file->by_key);
        tdm_arena_deinit(&file->arena);
        tdm_mem_free(file->alloc, file, sizeof *file);
    }
}

size_t tdm_safetensors_n_tensors(const tdm_safetensors *file) {
    return file->n_tensors;
}

const char *tdm_safetensors_tensor_name(const tdm_safetensors *file, size_t idx) {
    return idx < file->n_tensors ? file->tensors[idx].name : NULL;
}

const tdm_tensor_view *tdm_safetensors_tensor_view(const tdm_safetensors *file, size_t idx) {
    return idx < file->n_tensors ? &file->tensors[idx].view : NULL;
}

uint64_t tdm_safetensors_tensor_offset(const tdm_safetensors *file, size_t idx) {
    return idx < file->n_tensors ? file->tensors[idx].offset : 0;
}

bool tdm_safetensors_find(const tdm_safetensors *file, const char *name, size_t *out_idx) {
    uint32_t idx = 0;
    if (!tdm_names_find(&file->by_name, name, strlen(name), &idx)) {
        return false;
    }
    *out_idx = idx;
    return true;
}

tdm_safetensors_gaps tdm_safetensors_gaps_of(const tdm_safetensors *file) {
    return file->gaps;
}

const char *tdm_safetensors_metadata(const tdm_safetensors *file, const char *key) {
    uint32_t idx = 0;
    return tdm_names_find(&file->by_key, key, strlen(key), &idx) ? file->values[idx] : NULL;
}
