/* SPDX-License-Identifier: Apache-2.0
 *
 * A read-only disk in memory for tests: files by path, folders implied, mapping without copying,
 * and the Nth operation failing with TDM_E_IO. */
#ifndef TDM_TESTS_UNIT_FORMATS_MEM_FS_H
#define TDM_TESTS_UNIT_FORMATS_MEM_FS_H

#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define MEM_FS_FILES_MAX 64

typedef struct mem_file {
    char path[256];
    const uint8_t *data; /* borrowed */
    size_t bytes;
} mem_file;

typedef struct mem_fs {
    tdm_fs fs;
    mem_file files[MEM_FS_FILES_MAX]; /* in byte order of path */
    size_t n_files;
    size_t n_ops;
    size_t fail_at; /* 0: never; else the operation, from 1 */
    size_t n_open;  /* handles and mappings that are not given back */
} mem_fs;

static inline bool mem_fs_fails(mem_fs *m) {
    m->n_ops++;
    return m->fail_at != 0 && m->n_ops == m->fail_at;
}

static inline tdm_status mem_fs_io(tdm_error *err) {
    return tdm_fail(err, TDM_E_IO, "injected fault");
}

static inline tdm_status mem_fs_open(void *ctx, const char *path, tdm_file **out, tdm_error *err) {
    mem_fs *m = ctx;
    *out = NULL;
    if (mem_fs_fails(m)) {
        return mem_fs_io(err);
    }
    for (size_t i = 0; i < m->n_files; i++) {
        if (strcmp(m->files[i].path, path) == 0) {
            *out = (tdm_file *)(void *)&m->files[i];
            m->n_open++;
            return TDM_OK;
        }
    }
    (void)tdm_fail(err, TDM_E_NOT_FOUND, "no such file");
    return TDM_E_NOT_FOUND;
}

static inline tdm_status mem_fs_no_write(void *ctx, const char *path, tdm_file **out,
                                         tdm_error *err) {
    (void)ctx;
    (void)path;
    *out = NULL;
    return mem_fs_io(err);
}

static inline tdm_status mem_fs_identify(void *ctx, tdm_file *file, tdm_file_id *out,
                                         tdm_error *err) {
    mem_fs *m = ctx;
    memset(out, 0, sizeof *out);
    out->bytes = ((mem_file *)(void *)file)->bytes;
    return mem_fs_fails(m) ? mem_fs_io(err) : TDM_OK;
}

static inline tdm_status mem_fs_read(void *ctx, tdm_file *file, size_t offset, void *out,
                                     size_t n_bytes, size_t *out_read, tdm_error *err) {
    mem_fs *m = ctx;
    const mem_file *f = (mem_file *)(void *)file;
    const size_t left = offset < f->bytes ? f->bytes - offset : 0;
    *out_read = n_bytes < left ? n_bytes : left;
    if (mem_fs_fails(m)) {
        return mem_fs_io(err);
    }
    if (*out_read > 0) {
        memcpy(out, f->data + offset, *out_read);
    }
    return TDM_OK;
}

static inline tdm_status mem_fs_map(void *ctx, tdm_file *file, size_t n_bytes, const uint8_t **out,
                                    tdm_error *err) {
    mem_fs *m = ctx;
    *out = NULL;
    if (mem_fs_fails(m)) {
        return mem_fs_io(err);
    }
    if (n_bytes > 0) {
        *out = ((mem_file *)(void *)file)->data;
        m->n_open++;
    }
    return TDM_OK;
}

static inline void mem_fs_unmap(void *ctx, const uint8_t *data, size_t n_bytes) {
    mem_fs *m = ctx;
    if (data != NULL && n_bytes > 0) {
        m->n_open--;
    }
}

static inline void mem_fs_close(void *ctx, tdm_file *file) {
    mem_fs *m = ctx;
    if (file != NULL) {
        m->n_open--;
    }
}

static inline bool mem_fs_is_under(const char *path, const char *folder) {
    const size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static inline tdm_status mem_fs_list(void *ctx, const char *path,
                                     void (*visit)(void *arg, const char *name, bool is_folder),
                                     void *arg, tdm_error *err) {
    mem_fs *m = ctx;
    if (mem_fs_fails(m)) {
        return mem_fs_io(err);
    }
    for (size_t i = 0; i < m->n_files; i++) {
        if (mem_fs_is_under(m->files[i].path, path)) {
            const char *name = m->files[i].path + strlen(path) + 1;
            if (strchr(name, '/') == NULL) {
                visit(arg, name, false);
            }
        }
    }
    return TDM_OK;
}

static inline bool mem_fs_exists(void *ctx, const char *path, bool *out_is_folder) {
    mem_fs *m = ctx;
    for (size_t i = 0; i < m->n_files; i++) {
        if (strcmp(m->files[i].path, path) == 0 || mem_fs_is_under(m->files[i].path, path)) {
            *out_is_folder = m->files[i].path[strlen(path)] == '/';
            return true;
        }
    }
    return false;
}

static inline void mem_fs_init(mem_fs *m) {
    memset(m, 0, sizeof *m);
    m->fs.ctx = m;
    m->fs.open_read = mem_fs_open;
    m->fs.open_create = mem_fs_no_write;
    m->fs.identify = mem_fs_identify;
    m->fs.read_at = mem_fs_read;
    m->fs.map = mem_fs_map;
    m->fs.unmap = mem_fs_unmap;
    m->fs.close = mem_fs_close;
    m->fs.list = mem_fs_list;
    m->fs.exists = mem_fs_exists;
}

/* Adds or replaces; data is borrowed. */
static inline void mem_fs_put(mem_fs *m, const char *path, const void *data, size_t n_bytes) {
    size_t at = 0;
    while (at < m->n_files && strcmp(m->files[at].path, path) < 0) {
        at++;
    }
    if (at == m->n_files || strcmp(m->files[at].path, path) != 0) {
        if (m->n_files == MEM_FS_FILES_MAX || strlen(path) >= sizeof m->files[0].path) {
            abort();
        }
        memmove(&m->files[at + 1], &m->files[at], (m->n_files - at) * sizeof m->files[0]);
        m->n_files++;
        memset(&m->files[at], 0, sizeof m->files[at]);
        memcpy(m->files[at].path, path, strlen(path) + 1);
    }
    m->files[at].data = data;
    m->files[at].bytes = n_bytes;
}

static inline void mem_fs_put_text(mem_fs *m, const char *path, const char *text) {
    mem_fs_put(m, path, text, strlen(text));
}

#endif
