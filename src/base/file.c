/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's files behind the tdm_fs table, and the mapped whole file. Errors carry the path and
 * what the system said. Every call that can be interrupted is repeated. */
#define _DEFAULT_SOURCE 1 /* madvise: posix_madvise of the C library does not let pages go */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct tdm_file {
    int fd;
    char path[]; /* for error messages */
};

static tdm_status fail_errno(tdm_error *err, const char *path, const char *verb) {
    int cause = errno;
    tdm_status code = cause == ENOENT || cause == ENOTDIR ? TDM_E_NOT_FOUND
                      : cause == EEXIST                   ? TDM_E_STATE
                      : cause == ENOMEM                   ? TDM_E_NOMEM
                                                          : TDM_E_IO;
    char text[128] = "";
    (void)strerror_r(cause, text, sizeof text);
    (void)tdm_fail(err, code, "cannot %s: %s", verb, text);
    tdm_err_where(err, "%s", path);
    if (code == TDM_E_NOT_FOUND) {
        tdm_err_remedy(err, "check the path");
    } else if (cause == ENOSPC) {
        tdm_err_remedy(err, "free disk space and try again");
    } else if (cause == EACCES || cause == EPERM) {
        tdm_err_remedy(err, "check the permissions");
    }
    return code;
}

/* One process writes a file at a time; the system lets go of the lock when the process ends. */
static tdm_status lock_for_writing(const tdm_file *file, tdm_error *err) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(file->fd, F_SETLK, &lock) == 0) {
        return TDM_OK;
    }
    if (errno != EACCES && errno != EAGAIN) {
        return fail_errno(err, file->path, "lock");
    }
    (void)tdm_fail(err, TDM_E_STATE, "another process is writing this file");
    tdm_err_where(err, "%s", file->path);
    tdm_err_remedy(err, "wait for it to end");
    return TDM_E_STATE;
}

static void system_close(void *ctx, tdm_file *file) {
    (void)ctx;
    if (file != NULL) {
        (void)close(file->fd);
        tdm_mem_free(NULL, file, sizeof *file + strlen(file->path) + 1);
    }
}

static tdm_status open_flags(const char *path, int flags, tdm_file **out_file, tdm_error *err) {
    size_t len = strlen(path);
    tdm_file *file = NULL;
    *out_file = NULL;
    file = tdm_mem_alloc(NULL, sizeof *file + len + 1);
    if (file == NULL) {
        return tdm_fail_nomem(err, "a file handle");
    }
    memcpy(file->path, path, len + 1);
    do {
        file->fd = open(path, flags | O_CLOEXEC, 0600);
    } while (file->fd < 0 && errno == EINTR);
    if (file->fd < 0) {
        tdm_status status = fail_errno(err, path, (flags & O_CREAT) != 0 ? "create" : "open");
        tdm_mem_free(NULL, file, sizeof *file + len + 1);
        return status;
    }
    if ((flags & O_ACCMODE) != O_RDONLY) {
        const tdm_status status = lock_for_writing(file, err);
        if (status != TDM_OK) {
            system_close(NULL, file);
            return status;
        }
    }
    *out_file = file;
    return TDM_OK;
}

static tdm_status system_open_read(void *ctx, const char *path, tdm_file **out_file,
                                   tdm_error *err) {
    (void)ctx;
    /* O_NONBLOCK: a pipe without a writer must not hold us; regular files do not know it. */
    return open_flags(path, O_RDONLY | O_NONBLOCK, out_file, err);
}

static tdm_status system_open_create(void *ctx, const char *path, tdm_file **out_file,
                                     tdm_error *err) {
    (void)ctx;
    return open_flags(path, O_WRONLY | O_CREAT | O_EXCL, out_file, err);
}

static tdm_status system_open_append(void *ctx, const char *path, size_t keep_bytes,
                                     tdm_file **out_file, tdm_error *err) {
    tdm_file *file = NULL;
    struct stat info;
    tdm_status status = TDM_OK;
    (void)ctx;
    *out_file = NULL;
    TDM_TRY(open_flags(path, O_WRONLY | O_APPEND, &file, err));
    if (fstat(file->fd, &info) != 0) {
        status = fail_errno(err, path, "stat");
    } else if ((uint64_t)info.st_size < keep_bytes) {
        status = tdm_fail(err, TDM_E_STATE, "file is shorter than %zu bytes", keep_bytes);
        tdm_err_where(err, "%s", path);
    } else if (ftruncate(file->fd, (off_t)keep_bytes) != 0) {
        status = fail_errno(err, path, "cut");
    }
    if (status != TDM_OK) {
        system_close(NULL, file);
        return status;
    }
    *out_file = file;
    return TDM_OK;
}

static tdm_status system_identify(void *ctx, tdm_file *file, tdm_file_id *out_id, tdm_error *err) {
    struct stat info;
    (void)ctx;
    if (fstat(file->fd, &info) != 0) {
        return fail_errno(err, file->path, "stat");
    }
    if (!S_ISREG(info.st_mode)) {
        (void)tdm_fail(err, TDM_E_IO, "not a regular file");
        tdm_err_where(err, "%s", file->path);
        return TDM_E_IO;
    }
    out_id->device = (uint64_t)info.st_dev;
    out_id->inode = (uint64_t)info.st_ino;
    out_id->bytes = (uint64_t)info.st_size;
    out_id->mtime_ns = (int64_t)info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec;
    return TDM_OK;
}

static tdm_status system_read_at(void *ctx, tdm_file *file, size_t offset, void *out, size_t bytes,
                                 size_t *out_read, tdm_error *err) {
    size_t done = 0;
    (void)ctx;
    while (done < bytes) {
        ssize_t n = pread(file->fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_errno(err, file->path, "read");
        }
        if (n == 0) {
            break;
        }
        done += (size_t)n;
    }
    *out_read = done;
    return TDM_OK;
}

static tdm_status system_append(void *ctx, tdm_file *file, const void *data, size_t bytes,
                                tdm_error *err) {
    size_t done = 0;
    (void)ctx;
    while (done < bytes) {
        ssize_t n = write(file->fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return fail_errno(err, file->path, "write");
        }
        done += (size_t)n;
    }
    return TDM_OK;
}

static tdm_status system_sync(void *ctx, tdm_file *file, tdm_error *err) {
    (void)ctx;
    return fsync(file->fd) == 0 ? TDM_OK : fail_errno(err, file->path, "sync");
}

static tdm_status system_map(void *ctx, tdm_file *file, size_t bytes, const uint8_t **out_data,
                             tdm_error *err) {
    void *data = NULL;
    (void)ctx;
    *out_data = NULL;
    if (bytes == 0) {
        return TDM_OK;
    }
    data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file->fd, 0);
    if (data == MAP_FAILED) {
        return fail_errno(err, file->path, "map");
    }
    *out_data = data;
    return TDM_OK;
}

static void system_unmap(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    if (data != NULL) {
        (void)munmap((void *)(uintptr_t)data,
                     bytes); /* the mapping is ours; const was for the readers */
    }
}

/* Of the pages that lie inside a range. */
static void advise(const uint8_t *data, size_t bytes, int advice) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (data != NULL && begin < end) {
        (void)madvise((void *)begin, end - begin, advice);
    }
}

static void system_forget(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    advise(data, bytes, MADV_DONTNEED); /* a private mapping of a file reads it again */
}

static void system_enlarge(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    advise(data, bytes, MADV_HUGEPAGE); /* what is not in memory yet is read in such pages */
}

#define NEED_STEP ((size_t)65536) /* what Linux enters around a page that was missing */

static void system_need(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    /* Reading a byte of each step costs less than MADV_POPULATE_READ, which visits every page. */
    for (size_t at = 0; at < bytes; at += NEED_STEP) {
        (void)*(const volatile uint8_t *)(data + at);
    }
}

static void system_fetch(void *ctx, const uint8_t *data, size_t bytes) {
    const size_t in_page = (uintptr_t)data % (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)ctx;
    if (bytes > 0) { /* with the pages that it touches: they are of the same mapping */
        (void)madvise((void *)((uintptr_t)data - in_page), bytes + in_page, MADV_WILLNEED);
    }
}

static void system_scatter(void *ctx, const uint8_t *data, size_t bytes, bool is_scattered) {
    (void)ctx;
    advise(data, bytes, is_scattered ? MADV_RANDOM : MADV_NORMAL);
}

static tdm_status system_sync_folder(void *ctx, const char *folder, tdm_error *err) {
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tdm_status status = TDM_OK;
    (void)ctx;
    if (fd < 0 || fsync(fd) != 0) {
        status = fail_errno(err, folder, "sync");
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return status;
}

/* A rename survives a power cut only when the folder that holds the name is synced. */
static tdm_status sync_folder_of(const char *path, tdm_error *err) {
    char folder[TDM_PATH_MAX];
    const char *name = tdm_path_name(path);
    size_t len = (size_t)(name - path);
    if (len >= sizeof folder) {
        return tdm_fail(err, TDM_E_LIMIT, "path is longer than %d bytes", TDM_PATH_MAX - 1);
    }
    if (len == 0) {
        memcpy(folder, ".", 2);
    } else {
        memcpy(folder, path, len);
        folder[len] = '\0';
    }
    return system_sync_folder(NULL, folder, err);
}

static tdm_status system_rename(void *ctx, const char *from, const char *to, tdm_error *err) {
    (void)ctx;
    if (rename(from, to) != 0) {
        return fail_errno(err, from, "rename");
    }
    return sync_folder_of(to, err);
}

static tdm_status system_unlink(void *ctx, const char *path, tdm_error *err) {
    (void)ctx;
    return unlink(path) == 0 ? TDM_OK : fail_errno(err, path, "remove");
}

static tdm_status system_touch(void *ctx, const char *path, tdm_error *err) {
    (void)ctx;
    return utimensat(AT_FDCWD, path, NULL, 0) == 0 ? TDM_OK : fail_errno(err, path, "touch");
}

static tdm_status system_make_folder(void *ctx, const char *path, tdm_error *err) {
    (void)ctx;
    if (mkdir(path, 0700) != 0) {
        return fail_errno(err, path, "make folder");
    }
    return sync_folder_of(path, err);
}

static tdm_status system_remove_folder(void *ctx, const char *path, tdm_error *err) {
    (void)ctx;
    return rmdir(path) == 0 ? TDM_OK : fail_errno(err, path, "remove folder");
}

static bool system_exists(void *ctx, const char *path, bool *out_is_folder) {
    struct stat info;
    (void)ctx;
    if (stat(path, &info) != 0) {
        return false;
    }
    *out_is_folder = S_ISDIR(info.st_mode);
    return true;
}

static tdm_status system_list(void *ctx, const char *path,
                              void (*visit)(void *arg, const char *name, bool is_folder), void *arg,
                              tdm_error *err) {
    struct dirent **entries = NULL;
    int n = scandir(path, &entries, NULL, NULL);
    if (n < 0) {
        return fail_errno(err, path, "list");
    }
    /* Byte order, whatever the locale: insertion sort would do, but folders of model caches can be
     * large. */
    for (int gap = n / 2; gap > 0; gap /= 2) {
        for (int i = gap; i < n; i++) {
            struct dirent *moved = entries[i];
            int j = i;
            for (; j >= gap && strcmp(entries[j - gap]->d_name, moved->d_name) > 0; j -= gap) {
                entries[j] = entries[j - gap];
            }
            entries[j] = moved;
        }
    }
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            char full[TDM_PATH_MAX];
            bool is_folder = false;
            if (tdm_path_join(full, sizeof full, path, name, NULL) == TDM_OK) {
                (void)system_exists(ctx, full, &is_folder);
            }
            visit(arg, name, is_folder);
        }
        free(entries[i]); /* allowed: scandir allocates with malloc */
    }
    free(entries); /* allowed: scandir's own block */
    return TDM_OK;
}

static const tdm_fs SYSTEM_FS = {
    .open_read = system_open_read,
    .open_create = system_open_create,
    .identify = system_identify,
    .read_at = system_read_at,
    .open_append = system_open_append,
    .append = system_append,
    .sync = system_sync,
    .map = system_map,
    .unmap = system_unmap,
    .forget = system_forget,
    .enlarge = system_enlarge,
    .need = system_need,
    .fetch = system_fetch,
    .scatter = system_scatter,
    .close = system_close,
    .rename = system_rename,
    .unlink = system_unlink,
    .touch = system_touch,
    .make_folder = system_make_folder,
    .remove_folder = system_remove_folder,
    .sync_folder = system_sync_folder,
    .list = system_list,
    .exists = system_exists,
};

const tdm_fs *tdm_fs_system(void) {
    return &SYSTEM_FS;
}

tdm_status tdm_blob_open(tdm_blob *blob, const tdm_fs *fs, const char *path, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_file *file = NULL;
    memset(blob, 0, sizeof *blob);
    if (fs == NULL) {
        fs = &SYSTEM_FS;
    }
    TDM_TRY_GOTO(status, fs->open_read(fs->ctx, path, &file, err), done);
    TDM_TRY_GOTO(status, fs->identify(fs->ctx, file, &blob->id, err), done);
    if (blob->id.bytes > SIZE_MAX / 2) {
        status = tdm_fail(err, TDM_E_LIMIT, "file is too large to map");
        tdm_err_where(err, "%s", path);
        goto done;
    }
    TDM_TRY_GOTO(status, fs->map(fs->ctx, file, (size_t)blob->id.bytes, &blob->data, err), done);
    blob->bytes = (size_t)blob->id.bytes;
    blob->fs = fs;
done:
    if (file != NULL) {
        fs->close(fs->ctx, file);
    }
    if (status != TDM_OK) {
        memset(blob, 0, sizeof *blob);
    }
    return status;
}

void tdm_blob_close(tdm_blob *blob) {
    if (blob != NULL && blob->fs != NULL) {
        blob->fs->unmap(blob->fs->ctx, blob->data, blob->bytes);
        memset(blob, 0, sizeof *blob);
    }
}

tdm_status tdm_path_join(char *out, size_t out_bytes, const char *dir, const char *name,
                         tdm_error *err) {
    size_t dir_len = strlen(dir);
    const char *slash = dir_len > 0 && dir[dir_len - 1] == '/' ? "" : "/";
    int n = snprintf(out, out_bytes, "%s%s%s", dir, slash, name);
    if (n < 0 || (size_t)n >= out_bytes) {
        (void)tdm_fail(err, TDM_E_LIMIT, "path is too long");
        tdm_err_limit(err, "%zu bytes", out_bytes - 1);
        return TDM_E_LIMIT;
    }
    return TDM_OK;
}

tdm_status tdm_path_real(char *out, size_t out_bytes, const char *path, tdm_error *err) {
    char *real = realpath(path, NULL);
    const char *found = real != NULL ? real : path;
    const size_t len = strlen(found);
    const bool fits = len < out_bytes;
    if (fits) {
        memcpy(out, found, len + 1);
    }
    free(real); /* allowed: realpath's own block */
    if (!fits) {
        (void)tdm_fail(err, TDM_E_LIMIT, "path is too long");
        tdm_err_limit(err, "%zu bytes", out_bytes - 1);
        return TDM_E_LIMIT;
    }
    return TDM_OK;
}

const char *tdm_path_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
