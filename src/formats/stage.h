/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of files that appears whole or not at all, and that an interrupted writer can go on with.
 * Floor 3.
 *
 *   DST.partial/journal     first line: what is being made; then how far each file is, with hashes
 *   DST.partial/FILE ...    grow by appending
 *   DST                     appears by one rename: the folder, or the only file
 *
 * A line of the journal is written after its bytes are synced. Whoever begins again with the same
 * plan reads back what the last line covers, compares its hash, cuts the rest off and goes on; a
 * file that does not compare begins anew. The content is thus a function of the plan alone.
 * Source: shared/spec/reliability.md 3.4.
 *
 * Refused: a DST that exists (TDM_E_STATE), a DST.partial of another plan or with files that nobody
 * here wrote (TDM_E_STATE), a second process (TDM_E_STATE). Owner thread only. */
#ifndef TDM_FORMATS_STAGE_H
#define TDM_FORMATS_STAGE_H

#include "base/file.h"

typedef struct tdm_stage tdm_stage;

typedef struct tdm_stage_options {
    const tdm_fs *fs; /* NULL: the system's */
    const char *dst;
    bool is_folder;           /* false: DST is the one file */
    const char *const *files; /* [n_files] names without folder; one file: its last name of DST */
    size_t n_files;           /* at least 1 */
    uint64_t plan;            /* the same: the same bytes */
    size_t checkpoint_bytes;  /* appended between two lines of the journal; 0: 64 MiB */
} tdm_stage_options;

/* Makes DST.partial or goes on with it. Texts of options are borrowed until close. Errors:
 * TDM_E_STATE, TDM_E_NOT_FOUND (the folder above), TDM_E_IO, TDM_E_LIMIT, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_stage_open(tdm_stage **out_stage, const tdm_alloc *alloc,
                                        const tdm_stage_options *options, tdm_error *err);
/* Leaves what is there for the next time. NULL-safe. */
void tdm_stage_close(tdm_stage *stage);

/* Opens file idx; files are written one after another. *out_kept: bytes that are there already and
 * right. Bytes are appended from the first on all the same: those that are kept are passed over. */
TDM_NODISCARD tdm_status tdm_stage_begin(tdm_stage *stage, size_t idx, uint64_t *out_kept,
                                         tdm_error *err);
TDM_NODISCARD tdm_status tdm_stage_append(tdm_stage *stage, const void *data, size_t bytes,
                                          tdm_error *err);
/* Passes over bytes that are kept; bytes must end inside them. */
void tdm_stage_skip(tdm_stage *stage, uint64_t bytes);
/* Syncs and closes the file. */
TDM_NODISCARD tdm_status tdm_stage_end(tdm_stage *stage, tdm_error *err);
/* All files are whole: DST appears. */
TDM_NODISCARD tdm_status tdm_stage_publish(tdm_stage *stage, tdm_error *err);
/* Bytes that were there already, of all files begun. */
uint64_t tdm_stage_kept_bytes(const tdm_stage *stage);

#endif
