/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed weights in a file that is mapped and used where it lies. Floor 3.
 *
 *   head     magic, version, byte order, layout and its version, the source's digest, length, check
 *   table    a record for each weight in the order of the load, with its offset
 *   data     from the next 4096 on, each weight at the next multiple of 64, nothing behind the last
 *
 * The check is a hash of head and table; length and offsets follow from the table, so that a file
 * that is cut, longer, or of other weights is refused without reading the data. The data itself is
 * not hashed: whoever writes syncs it before the file gets its name. Integers are the machine's own;
 * the mark of the byte order refuses another machine's.
 * Limits: 2^24 weights. Threads: read-only after the check. */
#ifndef TDM_FORMATS_PANEL_FILE_H
#define TDM_FORMATS_PANEL_FILE_H

#include "base/file.h"
#include "contract/panels.h"
#include "formats/checkpoint.h"

/* What a file was made from, and how. */
typedef struct tdm_panel_source {
    tdm_panel_layout layout;
    tdm_checkpoint_digest digest;
} tdm_panel_source;

typedef struct tdm_panel_file {
    const uint8_t *data; /* the whole file, borrowed */
    size_t n;            /* weights */
} tdm_panel_file;

/* data is aligned to 8. Errors: TDM_E_STATE (of another source, layout or version of either),
 * TDM_E_FORMAT (damaged). */
TDM_NODISCARD tdm_status tdm_panel_file_check(tdm_panel_file *out, const uint8_t *data,
                                              size_t bytes, const tdm_panel_source *source,
                                              tdm_error *err);
/* Weight idx: its record, and where its bytes lie. NULL past the last. */
const uint8_t *tdm_panel_file_at(const tdm_panel_file *file, size_t idx, tdm_panel_record *out);

/* One weight to be written. */
typedef struct tdm_panel_item {
    tdm_panel_record record;
    const uint8_t *data; /* [record.bytes] */
} tdm_panel_item;

/* Length of the file of these weights; false when there is no such length, or too many weights. */
bool tdm_panel_file_bytes(const tdm_panel_item *items, size_t n, size_t *out_bytes);
/* Appends the whole of it to an empty file. Errors: TDM_E_IO, TDM_E_LIMIT, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_panel_file_write(const tdm_fs *fs, tdm_file *file,
                                              const tdm_alloc *alloc,
                                              const tdm_panel_source *source,
                                              const tdm_panel_item *items, size_t n,
                                              tdm_error *err);

#endif
