/* SPDX-License-Identifier: Apache-2.0
 *
 * Files through a table, so that a simulated disk can stand in for the real one; and the mapped
 * file that checkpoint readers borrow from. Floor 0. */
#ifndef TDM_BASE_FILE_H
#define TDM_BASE_FILE_H

#include "base/buf.h"

typedef struct tdm_file_id { /* tells whether a path still means the file that was opened */
    uint64_t device;
    uint64_t inode;
    uint64_t bytes;
    int64_t mtime_ns;
} tdm_file_id;

typedef struct tdm_file tdm_file; /* made by an implementation */

/* Laws: a failed open leaves *out NULL; read_at returns fewer bytes than asked only at the end of
 * the file; map covers exactly [0, bytes) and stays valid until unmap even if the file is unlinked;
 * names are given to list in byte order. */
typedef struct tdm_fs {
    void *ctx;
    tdm_status (*open_read)(void *ctx, const char *path, tdm_file **out_file, tdm_error *err);
    /* Creates path for writing; fails with TDM_E_STATE when it exists. */
    tdm_status (*open_create)(void *ctx, const char *path, tdm_file **out_file, tdm_error *err);
    tdm_status (*identify)(void *ctx, tdm_file *file, tdm_file_id *out_id, tdm_error *err);
    tdm_status (*read_at)(void *ctx, tdm_file *file, size_t offset, void *out, size_t bytes,
                          size_t *out_read, tdm_error *err);
    /* Opens an existing file for more at its end, cut to keep_bytes first. While a file is open for
     * writing, both ways of opening it for writing fail with TDM_E_STATE in other processes.
     * TDM_E_STATE too when it is shorter than keep_bytes. */
    tdm_status (*open_append)(void *ctx, const char *path, size_t keep_bytes, tdm_file **out_file,
                              tdm_error *err);
    tdm_status (*append)(void *ctx, tdm_file *file, const void *data, size_t bytes, tdm_error *err);
    tdm_status (*sync)(void *ctx, tdm_file *file, tdm_error *err);
    tdm_status (*map)(void *ctx, tdm_file *file, size_t bytes, const uint8_t **out_data,
                      tdm_error *err);
    void (*unmap)(void *ctx, const uint8_t *data, size_t bytes);
    /* A part of a mapping will not be read soon: its pages may leave memory. It reads as before. */
    void (*forget)(void *ctx, const uint8_t *data, size_t bytes);
    /* A mapping will be read again and again: it may have large pages. */
    void (*enlarge)(void *ctx, const uint8_t *data, size_t bytes);
    /* All of it will be read soon: its pages are fetched and entered now. */
    void (*need)(void *ctx, const uint8_t *data, size_t bytes);
    /* The same without entering: a reader that comes later finds them in memory. */
    void (*fetch)(void *ctx, const uint8_t *data, size_t bytes);
    /* A mapping will be read here and there, so that nothing around what is read is fetched; or in
     * order again, as every mapping is at first. */
    void (*scatter)(void *ctx, const uint8_t *data, size_t bytes, bool is_scattered);
    void (*close)(void *ctx, tdm_file *file);
    /* A file takes the name of another; a folder needs a name that is free. */
    tdm_status (*rename)(void *ctx, const char *from, const char *to, tdm_error *err);
    tdm_status (*unlink)(void *ctx, const char *path, tdm_error *err);
    /* The file was changed now, as far as its time says. */
    tdm_status (*touch)(void *ctx, const char *path, tdm_error *err);
    /* TDM_E_STATE when it exists. */
    tdm_status (*make_folder)(void *ctx, const char *path, tdm_error *err);
    /* Of an empty one. */
    tdm_status (*remove_folder)(void *ctx, const char *path, tdm_error *err);
    /* The names in a folder survive a power cut from here on. */
    tdm_status (*sync_folder)(void *ctx, const char *path, tdm_error *err);
    /* Calls visit for each entry of a folder, "." and ".." left out. */
    tdm_status (*list)(void *ctx, const char *path,
                       void (*visit)(void *arg, const char *name, bool is_folder), void *arg,
                       tdm_error *err);
    /* Whether path exists, and whether it is a folder. */
    bool (*exists)(void *ctx, const char *path, bool *out_is_folder);
} tdm_fs;

/* The operating system's files. Lives for the process. Threads: any. */
const tdm_fs *tdm_fs_system(void);

/* A disk in memory for tests, with faults: the Nth operation fails with TDM_E_IO (and, where asked,
 * all later ones, as after a kill), the disk holds only so many bytes, or the power is cut. Owns:
 * caller destroys. Owner thread only. */
typedef struct tdm_fs_sim tdm_fs_sim;
TDM_NODISCARD tdm_status tdm_fs_sim_create(tdm_fs_sim **out_sim, const tdm_alloc *alloc,
                                           tdm_error *err);
void tdm_fs_sim_destroy(tdm_fs_sim *sim);
const tdm_fs *tdm_fs_sim_fs(tdm_fs_sim *sim);
/* Creates or replaces a file, and the folders above it. */
TDM_NODISCARD tdm_status tdm_fs_sim_put(tdm_fs_sim *sim, const char *path, const void *data,
                                        size_t bytes, tdm_error *err);
/* n 0: no fault. */
void tdm_fs_sim_fail_at(tdm_fs_sim *sim, size_t n);
/* The same, and every operation after it. */
void tdm_fs_sim_die_at(tdm_fs_sim *sim, size_t n);
/* What was not synced is lost or torn: each file ends somewhere between its synced bytes and its
 * end, the last bytes before that perhaps zeros. Open handles must be closed. */
void tdm_fs_sim_cut_power(tdm_fs_sim *sim, uint64_t seed);
/* 0: no limit. */
void tdm_fs_sim_capacity(tdm_fs_sim *sim, size_t bytes);

/* A whole file, mapped for reading. */
typedef struct tdm_blob {
    const tdm_fs *fs;
    const uint8_t *data; /* NULL when bytes is 0 */
    size_t bytes;
    tdm_file_id id;
} tdm_blob;

/* fs NULL: the system's. Errors: TDM_E_NOT_FOUND, TDM_E_IO. On failure *blob is zeroed; close is
 * then legal. */
TDM_NODISCARD tdm_status tdm_blob_open(tdm_blob *blob, const tdm_fs *fs, const char *path,
                                       tdm_error *err);
void tdm_blob_close(tdm_blob *blob);

/* dir + "/" + name into out; TDM_E_LIMIT when it does not fit. */
TDM_NODISCARD tdm_status tdm_path_join(char *out, size_t out_bytes, const char *dir,
                                       const char *name, tdm_error *err);
/* The one absolute path without links that path means, or path itself where the system cannot say.
 * TDM_E_LIMIT when it does not fit. */
TDM_NODISCARD tdm_status tdm_path_real(char *out, size_t out_bytes, const char *path,
                                       tdm_error *err);
/* Part after the last slash. */
const char *tdm_path_name(const char *path);

#define TDM_PATH_MAX 4096

#endif
