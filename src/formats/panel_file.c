/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of packed weights. There is one right offset for each weight and one right length: a
 * reader computes both again and compares, so that no number of the file is trusted. */
#include "formats/panel_file.h"

#include "base/arith.h"
#include "base/hash.h"

#include <string.h>

#define FILE_VERSION 1
#define BYTE_ORDER_MARK UINT32_C(0x01020304)
#define WEIGHTS_MAX 16777216
#define DATA_ALIGN ((size_t)4096)
#define ITEM_ALIGN ((size_t)64)
#define LAYOUT_NAME_BYTES 16
#define WRITE_BYTES ((size_t)2 << 20) /* a large page of x86-64 and aarch64 */

static const char MAGIC[8] = {'T', 'D', 'M', 'P', 'A', 'N', 'E', 'L'};

typedef struct file_head {
    char magic[8];
    uint32_t byte_order;
    uint32_t version;
    char layout[LAYOUT_NAME_BYTES];
    uint32_t layout_version;
    uint32_t n;
    uint64_t identity;
    uint64_t content;
    uint64_t bytes;
    uint64_t check; /* hash of the head with 0 here, then of the table */
} file_head;

typedef struct file_record {
    tdm_panel_record record;
    uint64_t offset;
} file_record;

_Static_assert(sizeof(file_head) == 72, "no padding that would be written undefined");
_Static_assert(sizeof(file_record) == 48, "no padding that would be written undefined");

static uint64_t check_of(const file_head *head, const uint8_t *table, size_t table_bytes) {
    file_head blank = *head;
    blank.check = 0;
    return tdm_hash64_seeded(table, table_bytes, tdm_hash64(&blank, sizeof blank));
}

/* Where the data of n weights begins. */
static bool data_begin(size_t n, size_t *out) {
    size_t bytes = 0;
    return n <= (size_t)WEIGHTS_MAX && tdm_mul_size(n, sizeof(file_record), &bytes) &&
           tdm_add_size(bytes, sizeof(file_head), &bytes) && tdm_pad_size(bytes, DATA_ALIGN, out);
}

/* The place of the weight behind *at; moves *at to its end. */
static bool place(size_t *at, uint64_t bytes, size_t *out_offset) {
    return bytes <= SIZE_MAX && tdm_pad_size(*at, ITEM_ALIGN, out_offset) &&
           tdm_add_size(*out_offset, (size_t)bytes, at);
}

static file_head head_of(const tdm_panel_source *source, size_t n, size_t bytes) {
    file_head head = {.byte_order = BYTE_ORDER_MARK,
                      .version = FILE_VERSION,
                      .layout_version = source->layout.version,
                      .n = (uint32_t)n,
                      .identity = source->digest.identity,
                      .content = source->digest.content,
                      .bytes = bytes};
    const size_t len = strlen(source->layout.name);
    memcpy(head.magic, MAGIC, sizeof MAGIC);
    memcpy(head.layout, source->layout.name, len < LAYOUT_NAME_BYTES ? len : LAYOUT_NAME_BYTES);
    return head;
}

static tdm_status fail_damaged(tdm_error *err, const char *what) {
    (void)tdm_fail(err, TDM_E_FORMAT, "the packed weights are damaged: %s", what);
    tdm_err_remedy(err, "remove the file; the next load writes it again");
    return TDM_E_FORMAT;
}

/* Head and table against what is wanted; *out_n: weights. */
static tdm_status check_head(const uint8_t *data, size_t bytes, const tdm_panel_source *source,
                             size_t *out_n, tdm_error *err) {
    file_head head;
    size_t begin = 0;
    size_t table_bytes = 0;
    if (bytes < sizeof head) {
        return fail_damaged(err, "no head");
    }
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0) {
        return fail_damaged(err, "no magic");
    }
    const file_head want = head_of(source, head.n, (size_t)head.bytes);
    if (memcmp(&head, &want, offsetof(file_head, check)) != 0) {
        return tdm_fail(err, TDM_E_STATE, "the packed weights are of another file or layout");
    }
    if (head.bytes != bytes || !data_begin(head.n, &begin) || begin > bytes) {
        return fail_damaged(err, "its length");
    }
    table_bytes = (size_t)head.n * sizeof(file_record); /* bounded: data_begin has asked */
    if (check_of(&head, data + sizeof head, table_bytes) != head.check) {
        return fail_damaged(err, "its table");
    }
    *out_n = head.n;
    return TDM_OK;
}

static file_record record_at(const uint8_t *data, size_t idx) {
    file_record record;
    const uint8_t *table = data + sizeof(file_head);
    memcpy(&record, &table[idx * sizeof record], sizeof record); /* bounded: the table is inside */
    return record;
}

tdm_status tdm_panel_file_check(tdm_panel_file *out, const uint8_t *data, size_t bytes,
                                const tdm_panel_source *source, tdm_error *err) {
    size_t n = 0;
    size_t at = 0;
    memset(out, 0, sizeof *out);
    TDM_TRY(check_head(data, bytes, source, &n, err));
    (void)data_begin(n, &at); /* check_head has asked */
    for (size_t i = 0; i < n; i++) {
        const file_record record = record_at(data, i);
        size_t offset = 0;
        if (record.record.bytes == 0 || !place(&at, record.record.bytes, &offset) ||
            record.offset != offset || at > bytes) {
            return fail_damaged(err, "a weight's place");
        }
    }
    if (at != bytes) {
        return fail_damaged(err, "more bytes than weights");
    }
    *out = (tdm_panel_file){data, n};
    return TDM_OK;
}

const uint8_t *tdm_panel_file_at(const tdm_panel_file *file, size_t idx, tdm_panel_record *out) {
    if (idx >= file->n) {
        return NULL;
    }
    const file_record record = record_at(file->data, idx);
    *out = record.record;
    return &file->data[record.offset]; /* bounded: the check has seen the file's end behind it */
}

bool tdm_panel_file_bytes(const tdm_panel_item *items, size_t n, size_t *out_bytes) {
    size_t at = 0;
    size_t offset = 0;
    if (!data_begin(n, &at)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!place(&at, items[i].record.bytes, &offset)) {
            return false;
        }
    }
    *out_bytes = at;
    return true;
}

/* Head and table with the zeros behind them. */
static void fill_table(uint8_t *out, const tdm_panel_source *source, const tdm_panel_item *items,
                       size_t n, size_t bytes) {
    file_head head = head_of(source, n, bytes);
    uint8_t *table = out + sizeof head;
    size_t at = 0;
    (void)data_begin(n, &at);
    for (size_t i = 0; i < n; i++) {
        file_record record = {.record = items[i].record};
        size_t offset = 0;
        (void)place(&at, items[i].record.bytes, &offset); /* tdm_panel_file_bytes has asked */
        record.offset = offset;
        memcpy(&table[i * sizeof record], &record, sizeof record); /* bounded: out has room for n */
    }
    head.check =
        check_of(&head, table, (size_t)head.n * sizeof(file_record)); /* bounded: likewise */
    memcpy(out, &head, sizeof head);
}

/* Bytes on their way to the file, written by the buffer: the pages of a file that the system keeps in
 * memory are as large as the writes that made them, and a mapping of large pages costs less to
 * enter, to read and to leave. */
typedef struct writer {
    const tdm_fs *fs;
    tdm_file *file;
    uint8_t *buffer;
    size_t used, cap;
    size_t at; /* place in the file behind the buffer */
    tdm_error *err;
} writer;

static tdm_status flush(writer *w) {
    const size_t used = w->used;
    w->used = 0;
    return used > 0 ? w->fs->append(w->fs->ctx, w->file, w->buffer, used, w->err) : TDM_OK;
}

/* data NULL: zeros. */
static tdm_status put(writer *w, const uint8_t *data, size_t bytes) {
    w->at += bytes; /* bounded: tdm_panel_file_bytes has asked */
    while (bytes > 0) {
        const size_t n = bytes < w->cap - w->used ? bytes : w->cap - w->used;
        if (data != NULL) {
            memcpy(&w->buffer[w->used], data, n); /* bounded: n is what is left of the buffer */
            data += n;                            /* bounded: n of its bytes are left */
        } else {
            memset(&w->buffer[w->used], 0, n);
        }
        w->used += n; /* bounded: likewise */
        bytes -= n;
        if (w->used == w->cap) {
            TDM_TRY(flush(w));
        }
    }
    return TDM_OK;
}

static tdm_status put_items(writer *w, const tdm_panel_item *items, size_t n) {
    for (size_t i = 0; i < n; i++) {
        size_t end = w->at;
        size_t offset = 0;
        (void)place(&end, items[i].record.bytes, &offset);
        TDM_TRY(put(w, NULL, offset - w->at));
        TDM_TRY(put(w, items[i].data, (size_t)items[i].record.bytes));
    }
    return flush(w);
}

tdm_status tdm_panel_file_write(const tdm_fs *fs, tdm_file *file, const tdm_alloc *alloc,
                                const tdm_panel_source *source, const tdm_panel_item *items,
                                size_t n, tdm_error *err) {
    size_t bytes = 0;
    size_t begin = 0;
    tdm_status status = TDM_OK;
    writer w = {.fs = fs, .file = file, .err = err};
    uint8_t *table = NULL;
    if (!tdm_panel_file_bytes(items, n, &bytes) || !data_begin(n, &begin)) {
        return tdm_fail(err, TDM_E_LIMIT, "%zu packed weights are too many for a file", n);
    }
    w.cap = bytes < WRITE_BYTES ? bytes : WRITE_BYTES;
    w.buffer = tdm_mem_alloc(alloc, w.cap);
    table = tdm_mem_calloc(alloc, 1, begin);
    if (w.buffer == NULL || table == NULL) {
        status = tdm_fail_nomem(err, "a file of packed weights");
        goto done;
    }
    fill_table(table, source, items, n, bytes);
    TDM_TRY_GOTO(status, put(&w, table, begin), done);
    TDM_TRY_GOTO(status, put_items(&w, items, n), done);
done:
    tdm_mem_free(alloc, table, begin);
    tdm_mem_free(alloc, w.buffer, w.cap);
    return status;
}
