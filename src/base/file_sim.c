/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk in memory, for tests that need one to fail. One sorted array of entries by full path (so
 * that the entries of a folder are in byte order), contents counted by reference (so that an open
 * file outlives its name, as on a real disk). A map is a copy: later appends and unlinks cannot
 * reach it.
 *
 * Faults: the Nth operation answers TDM_E_IO and does nothing; a full disk takes what fits and then
 * answers TDM_E_IO, as a torn write does; a power cut takes from every file what was not synced. Names
 * are safe at once: a writer that forgets to sync a folder is not caught here. ".." in paths means a
 * name like any other. */
#include "base/arith.h"
#include "base/file.h"
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

typedef struct sim_content {
    size_t n_refs; /* the entry that names it, and every open handle */
    uint64_t inode;
    int64_t mtime_ns;
    tdm_buf data;
    size_t synced_bytes;
    size_t n_writers;
} sim_content;

typedef struct sim_entry {
    char *path;           /* normal form */
    sim_content *content; /* NULL: a folder */
} sim_entry;

struct tdm_fs_sim {
    const tdm_alloc *alloc;
    tdm_fs fs;
    sim_entry *entries; /* [n] ascending by path */
    size_t n;
    size_t cap;
    size_t fail_at; /* operations left until one fails; 0: none will */
    bool is_dying;  /* and then all */
    size_t capacity_bytes;
    size_t used_bytes;
    uint64_t n_inodes;
    int64_t now_ns; /* moves with every write */
};

struct tdm_file {
    sim_content *content;
    bool is_writable;
};

static tdm_status fail_at_path(tdm_error *err, tdm_status code, const char *path,
                               const char *reason) {
    (void)tdm_fail(err, code, "%s", reason);
    tdm_err_where(err, "%s", path);
    return code;
}

/* Counts one operation; false when it is the one that has to fail. */
static bool may_go_on(tdm_fs_sim *sim, const char *path, tdm_error *err) {
    if (sim->fail_at > 0 && --sim->fail_at == 0) {
        sim->fail_at = sim->is_dying ? 1 : 0;
        (void)fail_at_path(err, TDM_E_IO, path, "simulated fault");
        return false;
    }
    return true;
}

/* Drops "." parts, doubled and trailing slashes. The folder itself is "" (relative) or "/". */
static tdm_status normalise(char out[TDM_PATH_MAX], const char *path, tdm_error *err) {
    size_t len = 0;
    const char *at = path;
    if (strlen(path) >= TDM_PATH_MAX) {
        return fail_at_path(err, TDM_E_LIMIT, path, "path is too long");
    }
    if (*at == '/') {
        out[len++] = '/';
    }
    while (*at != '\0') {
        const size_t part = strcspn(at, "/");
        if (part > 0 && !(part == 1 && at[0] == '.')) {
            if (len > 0 && out[len - 1] != '/') {
                out[len++] = '/';
            }
            memcpy(out + len, at, part);
            len += part;
        }
        at += part;
        at += *at == '/' ? 1 : 0;
    }
    out[len] = '\0';
    return TDM_OK;
}

/* First entry that is not below path. */
static size_t lower_bound(const tdm_fs_sim *sim, const char *path) {
    size_t lo = 0;
    size_t hi = sim->n;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (strcmp(sim->entries[mid].path, path) < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static sim_entry *find(tdm_fs_sim *sim, const char *path) {
    const size_t at = lower_bound(sim, path);
    return at < sim->n && strcmp(sim->entries[at].path, path) == 0 ? &sim->entries[at] : NULL;
}

static bool is_at_or_below(const char *path, const char *folder) {
    const size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static void sort_entries(tdm_fs_sim *sim) {
    for (size_t i = 1; i < sim->n; i++) {
        const sim_entry moved = sim->entries[i];
        size_t j = i;
        for (; j > 0 && strcmp(sim->entries[j - 1].path, moved.path) > 0; j--) {
            sim->entries[j] = sim->entries[j - 1];
        }
        sim->entries[j] = moved;
    }
}

static bool is_base_folder(const char *path) {
    return path[0] == '\0' || strcmp(path, "/") == 0;
}

/* Whether the folder that would hold path is there. */
static bool has_folder_above(tdm_fs_sim *sim, const char *path) {
    char above[TDM_PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path) {
        return true;
    }
    const size_t len = (size_t)(slash - path);
    memcpy(above, path, len);
    above[len] = '\0';
    const sim_entry *entry = find(sim, above);
    return entry != NULL && entry->content == NULL;
}

static void content_release(tdm_fs_sim *sim, sim_content *content) {
    if (content != NULL && --content->n_refs == 0) {
        sim->used_bytes -= content->data.len;
        tdm_buf_deinit(&content->data);
        tdm_mem_free(sim->alloc, content, sizeof *content);
    }
}

/* Adds an entry that is not there yet. Takes content (NULL: a folder). */
static tdm_status add_entry(tdm_fs_sim *sim, const char *path, sim_content *content,
                            tdm_error *err) {
    if (sim->n == sim->cap) {
        const size_t cap = sim->cap == 0 ? 16 : sim->cap * 2;
        sim_entry *grown =
            tdm_mem_resize(sim->alloc, sim->entries, sim->cap * sizeof *grown, cap * sizeof *grown);
        if (grown == NULL) {
            return tdm_fail_nomem(err, "a simulated disk");
        }
        sim->entries = grown;
        sim->cap = cap;
    }
    char *copy = tdm_mem_copy_text(sim->alloc, path, strlen(path));
    if (copy == NULL) {
        return tdm_fail_nomem(err, "a simulated disk");
    }
    const size_t at = lower_bound(sim, path);
    memmove(sim->entries + at + 1, sim->entries + at, (sim->n - at) * sizeof *sim->entries);
    sim->entries[at] = (sim_entry){copy, content};
    sim->n++;
    return TDM_OK;
}

static void drop_entry(tdm_fs_sim *sim, sim_entry *entry) {
    const size_t at = (size_t)(entry - sim->entries);
    tdm_mem_free(sim->alloc, entry->path, strlen(entry->path) + 1);
    content_release(sim, entry->content);
    memmove(entry, entry + 1, (sim->n - at - 1) * sizeof *entry);
    sim->n--;
}

/* A new file of no bytes under path, which must be free. */
static tdm_status create_file(tdm_fs_sim *sim, const char *path, sim_content **out,
                              tdm_error *err) {
    sim_content *content = tdm_mem_calloc(sim->alloc, 1, sizeof *content);
    *out = NULL;
    if (content == NULL) {
        return tdm_fail_nomem(err, "a simulated file");
    }
    tdm_buf_init(&content->data, sim->alloc, 0);
    content->n_refs = 1;
    content->inode = ++sim->n_inodes;
    content->mtime_ns = ++sim->now_ns;
    const tdm_status status = add_entry(sim, path, content, err);
    if (status != TDM_OK) {
        content_release(sim, content);
        return status;
    }
    *out = content;
    return TDM_OK;
}

/* Appends what fits. */
static tdm_status write_content(tdm_fs_sim *sim, sim_content *content, const void *data,
                                size_t bytes, tdm_error *err) {
    size_t fits = bytes;
    if (sim->capacity_bytes > 0) {
        const size_t left =
            sim->used_bytes < sim->capacity_bytes ? sim->capacity_bytes - sim->used_bytes : 0;
        fits = bytes < left ? bytes : left;
    }
    if (tdm_buf_append(&content->data, data, fits) != TDM_OK) {
        return tdm_fail_nomem(err, "a simulated file");
    }
    sim->used_bytes += fits;
    content->mtime_ns = ++sim->now_ns;
    if (fits < bytes) {
        (void)tdm_fail(err, TDM_E_IO, "cannot write: no space left on the simulated disk");
        tdm_err_limit(err, "%zu bytes", sim->capacity_bytes);
        tdm_err_remedy(err, "free disk space and try again");
        return TDM_E_IO;
    }
    return TDM_OK;
}

static tdm_status make_handle(tdm_fs_sim *sim, sim_content *content, bool is_writable,
                              tdm_file **out_file, tdm_error *err) {
    tdm_file *file = tdm_mem_calloc(sim->alloc, 1, sizeof *file);
    if (file == NULL) {
        return tdm_fail_nomem(err, "a file handle");
    }
    file->content = content;
    file->is_writable = is_writable;
    content->n_writers += is_writable ? 1 : 0;
    content->n_refs++;
    *out_file = file;
    return TDM_OK;
}

static void sim_close(void *ctx, tdm_file *file) {
    tdm_fs_sim *sim = ctx;
    if (file != NULL) {
        file->content->n_writers -= file->is_writable ? 1 : 0;
        content_release(sim, file->content);
        tdm_mem_free(sim->alloc, file, sizeof *file);
    }
}

static tdm_status sim_open_read(void *ctx, const char *path, tdm_file **out_file, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char name[TDM_PATH_MAX];
    *out_file = NULL;
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    const sim_entry *entry = find(sim, name);
    if (entry == NULL && !is_base_folder(name)) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot open: no such file");
    }
    if (entry == NULL || entry->content == NULL) {
        return fail_at_path(err, TDM_E_IO, path, "not a regular file");
    }
    return make_handle(sim, entry->content, false, out_file, err);
}

static tdm_status sim_open_create(void *ctx, const char *path, tdm_file **out_file,
                                  tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    sim_content *content = NULL;
    char name[TDM_PATH_MAX];
    *out_file = NULL;
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    if (is_base_folder(name) || find(sim, name) != NULL) {
        return fail_at_path(err, TDM_E_STATE, path, "cannot create: it exists");
    }
    if (!has_folder_above(sim, name)) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot create: no such folder");
    }
    TDM_TRY(create_file(sim, name, &content, err));
    const tdm_status status = make_handle(sim, content, true, out_file, err);
    if (status != TDM_OK) {
        drop_entry(sim, find(sim, name));
    }
    return status;
}

static tdm_status sim_open_append(void *ctx, const char *path, size_t keep_bytes,
                                  tdm_file **out_file, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    tdm_file *reader = NULL;
    TDM_TRY(sim_open_read(ctx, path, &reader, err));
    sim_content *content = reader->content;
    sim_close(ctx, reader);
    *out_file = NULL;
    if (content->n_writers > 0) {
        return fail_at_path(err, TDM_E_STATE, path, "another process is writing this file");
    }
    if (content->data.len < keep_bytes) {
        return fail_at_path(err, TDM_E_STATE, path, "file is shorter than what is to be kept");
    }
    sim->used_bytes -= content->data.len - keep_bytes;
    content->data.len = keep_bytes;
    content->synced_bytes = content->synced_bytes < keep_bytes ? content->synced_bytes : keep_bytes;
    return make_handle(sim, content, true, out_file, err);
}

static tdm_status sim_identify(void *ctx, tdm_file *file, tdm_file_id *out_id, tdm_error *err) {
    if (!may_go_on(ctx, "an open file", err)) {
        return TDM_E_IO;
    }
    out_id->device = 1;
    out_id->inode = file->content->inode;
    out_id->bytes = file->content->data.len;
    out_id->mtime_ns = file->content->mtime_ns;
    return TDM_OK;
}

static tdm_status sim_read_at(void *ctx, tdm_file *file, size_t offset, void *out, size_t bytes,
                              size_t *out_read, tdm_error *err) {
    const tdm_buf *data = &file->content->data;
    if (!may_go_on(ctx, "an open file", err)) {
        return TDM_E_IO;
    }
    const size_t left = offset < data->len ? data->len - offset : 0;
    *out_read = bytes < left ? bytes : left;
    if (*out_read > 0) {
        memcpy(out, data->data + offset, *out_read);
    }
    return TDM_OK;
}

static tdm_status sim_append(void *ctx, tdm_file *file, const void *data, size_t bytes,
                             tdm_error *err) {
    if (!may_go_on(ctx, "an open file", err)) {
        return TDM_E_IO;
    }
    if (!file->is_writable) {
        return tdm_fail(err, TDM_E_IO, "cannot write: the file was opened for reading");
    }
    return write_content(ctx, file->content, data, bytes, err);
}

static tdm_status sim_sync(void *ctx, tdm_file *file, tdm_error *err) {
    if (!may_go_on(ctx, "an open file", err)) {
        return TDM_E_IO;
    }
    file->content->synced_bytes = file->content->data.len;
    return TDM_OK;
}

static tdm_status sim_map(void *ctx, tdm_file *file, size_t bytes, const uint8_t **out_data,
                          tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    *out_data = NULL;
    if (!may_go_on(sim, "an open file", err)) {
        return TDM_E_IO;
    }
    if (bytes > file->content->data.len) {
        return tdm_fail(err, TDM_E_IO, "cannot map past the end of the file");
    }
    if (bytes > 0) {
        uint8_t *copy = tdm_mem_alloc_aligned(sim->alloc, bytes, TDM_ALIGN_CACHE_LINE);
        if (copy == NULL) {
            return tdm_fail_nomem(err, "a simulated mapping");
        }
        memcpy(copy, file->content->data.data, bytes);
        *out_data = copy;
    }
    return TDM_OK;
}

static void sim_unmap(void *ctx, const uint8_t *data, size_t bytes) {
    const tdm_fs_sim *sim = ctx;
    /* The copy is ours; const was for the readers. */
    tdm_mem_free_aligned(sim->alloc, (void *)(uintptr_t)data, bytes, TDM_ALIGN_CACHE_LINE);
}

/* Everything below source moves below target, whose name must be free. */
static tdm_status rename_folder(tdm_fs_sim *sim, const char *source, const char *target,
                                const char *to, tdm_error *err) {
    const size_t len = strlen(source);
    if (is_base_folder(target) || find(sim, target) != NULL) {
        return fail_at_path(err, TDM_E_IO, to, "cannot rename: the name is taken");
    }
    for (size_t i = 0; i < sim->n; i++) {
        if (is_at_or_below(sim->entries[i].path, source) &&
            strlen(target) + strlen(sim->entries[i].path) - len >= TDM_PATH_MAX) {
            return fail_at_path(err, TDM_E_LIMIT, to, "path is too long");
        }
    }
    for (size_t i = sim->n; i-- > 0;) {
        char moved[TDM_PATH_MAX];
        sim_entry entry = sim->entries[i];
        if (!is_at_or_below(entry.path, source)) {
            continue;
        }
        (void)snprintf(moved, sizeof moved, "%s%s", target, entry.path + len);
        char *path = tdm_mem_copy_text(sim->alloc, moved, strlen(moved));
        if (path == NULL) {
            return tdm_fail_nomem(err, "a simulated name");
        }
        tdm_mem_free(sim->alloc, entry.path, strlen(entry.path) + 1);
        sim->entries[i].path = path;
    }
    sort_entries(sim);
    return TDM_OK;
}

static tdm_status sim_rename(void *ctx, const char *from, const char *to, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char source[TDM_PATH_MAX];
    char target[TDM_PATH_MAX];
    TDM_TRY(normalise(source, from, err));
    TDM_TRY(normalise(target, to, err));
    if (!may_go_on(sim, from, err)) {
        return TDM_E_IO;
    }
    const sim_entry *entry = find(sim, source);
    const sim_entry *old = find(sim, target);
    if (entry == NULL || !has_folder_above(sim, target)) {
        return fail_at_path(err, TDM_E_NOT_FOUND, from, "cannot rename: no such file or folder");
    }
    if (entry->content == NULL) {
        return rename_folder(sim, source, target, to, err);
    }
    if (is_base_folder(target) || (old != NULL && old->content == NULL)) {
        return fail_at_path(err, TDM_E_IO, to, "cannot rename: the target is a folder");
    }
    if (entry == old) {
        return TDM_OK;
    }
    sim_content *content = entry->content;
    if (old == NULL) {
        TDM_TRY(add_entry(sim, target, content, err));
    } else {
        sim_entry *replaced = find(sim, target);
        content_release(sim, replaced->content);
        replaced->content = content;
    }
    content->n_refs++;
    drop_entry(sim, find(sim, source));
    return TDM_OK;
}

static tdm_status sim_unlink(void *ctx, const char *path, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char name[TDM_PATH_MAX];
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    sim_entry *entry = find(sim, name);
    if (entry == NULL && !is_base_folder(name)) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot remove: no such file");
    }
    if (entry == NULL || entry->content == NULL) {
        return fail_at_path(err, TDM_E_IO, path, "cannot remove: it is a folder");
    }
    drop_entry(sim, entry);
    return TDM_OK;
}

static tdm_status sim_touch(void *ctx, const char *path, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char name[TDM_PATH_MAX];
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    const sim_entry *entry = find(sim, name);
    if (entry == NULL || entry->content == NULL) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot touch: no such file");
    }
    entry->content->mtime_ns = ++sim->now_ns;
    return TDM_OK;
}

static tdm_status sim_make_folder(void *ctx, const char *path, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char name[TDM_PATH_MAX];
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    if (is_base_folder(name) || find(sim, name) != NULL) {
        return fail_at_path(err, TDM_E_STATE, path, "cannot make folder: it exists");
    }
    if (!has_folder_above(sim, name)) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot make folder: none above it");
    }
    return add_entry(sim, name, NULL, err);
}

static tdm_status sim_remove_folder(void *ctx, const char *path, tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char name[TDM_PATH_MAX];
    TDM_TRY(normalise(name, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    sim_entry *entry = find(sim, name);
    if (entry == NULL || entry->content != NULL) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot remove: no such folder");
    }
    for (size_t i = 0; i < sim->n; i++) {
        if (&sim->entries[i] != entry && is_at_or_below(sim->entries[i].path, name)) {
            return fail_at_path(err, TDM_E_IO, path, "cannot remove: the folder is not empty");
        }
    }
    drop_entry(sim, entry);
    return TDM_OK;
}

static tdm_status sim_sync_folder(void *ctx, const char *path, tdm_error *err) {
    return may_go_on(ctx, path, err) ? TDM_OK : TDM_E_IO;
}

static void sim_forget(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    (void)data;
    (void)bytes;
}

static void sim_enlarge(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    (void)data;
    (void)bytes;
}

static void sim_need(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    (void)data;
    (void)bytes;
}

static void sim_fetch(void *ctx, const uint8_t *data, size_t bytes) {
    (void)ctx;
    (void)data;
    (void)bytes;
}

static void sim_scatter(void *ctx, const uint8_t *data, size_t bytes, bool is_scattered) {
    sim_fetch(ctx, data, bytes);
    (void)is_scattered;
}

static bool sim_exists(void *ctx, const char *path, bool *out_is_folder) {
    char name[TDM_PATH_MAX];
    if (normalise(name, path, NULL) != TDM_OK) {
        return false;
    }
    const sim_entry *entry = find(ctx, name);
    if (entry == NULL && !is_base_folder(name)) {
        return false;
    }
    *out_is_folder = entry == NULL || entry->content == NULL;
    return true;
}

static tdm_status sim_list(void *ctx, const char *path,
                           void (*visit)(void *arg, const char *name, bool is_folder), void *arg,
                           tdm_error *err) {
    tdm_fs_sim *sim = ctx;
    char folder[TDM_PATH_MAX];
    bool is_folder = false;
    TDM_TRY(normalise(folder, path, err));
    if (!may_go_on(sim, path, err)) {
        return TDM_E_IO;
    }
    if (!sim_exists(sim, folder, &is_folder) || !is_folder) {
        return fail_at_path(err, TDM_E_NOT_FOUND, path, "cannot list: no such folder");
    }
    const size_t len = strlen(folder);
    for (size_t i = 0; i < sim->n; i++) {
        const char *name = sim->entries[i].path;
        if (strncmp(name, folder, len) != 0) {
            continue;
        }
        name += len;
        if (!is_base_folder(folder)) {
            if (*name != '/') {
                continue;
            }
            name++;
        } else if (len == 0 && *name == '/') { /* an absolute path is not below "." */
            continue;
        }
        if (*name != '\0' && strchr(name, '/') == NULL) {
            visit(arg, name, sim->entries[i].content == NULL);
        }
    }
    return TDM_OK;
}

tdm_status tdm_fs_sim_create(tdm_fs_sim **out_sim, const tdm_alloc *alloc, tdm_error *err) {
    tdm_fs_sim *sim = tdm_mem_calloc(alloc, 1, sizeof *sim);
    *out_sim = NULL;
    if (sim == NULL) {
        return tdm_fail_nomem(err, "a simulated disk");
    }
    sim->alloc = alloc;
    sim->fs = (tdm_fs){
        .ctx = sim,
        .open_read = sim_open_read,
        .open_create = sim_open_create,
        .identify = sim_identify,
        .read_at = sim_read_at,
        .open_append = sim_open_append,
        .append = sim_append,
        .sync = sim_sync,
        .map = sim_map,
        .unmap = sim_unmap,
        .forget = sim_forget,
        .enlarge = sim_enlarge,
        .need = sim_need,
        .fetch = sim_fetch,
        .scatter = sim_scatter,
        .close = sim_close,
        .rename = sim_rename,
        .unlink = sim_unlink,
        .touch = sim_touch,
        .make_folder = sim_make_folder,
        .remove_folder = sim_remove_folder,
        .sync_folder = sim_sync_folder,
        .list = sim_list,
        .exists = sim_exists,
    };
    *out_sim = sim;
    return TDM_OK;
}

void tdm_fs_sim_destroy(tdm_fs_sim *sim) {
    if (sim == NULL) {
        return;
    }
    while (sim->n > 0) {
        drop_entry(sim, &sim->entries[sim->n - 1]);
    }
    tdm_mem_free(sim->alloc, sim->entries, sim->cap * sizeof *sim->entries);
    tdm_mem_free(sim->alloc, sim, sizeof *sim);
}

const tdm_fs *tdm_fs_sim_fs(tdm_fs_sim *sim) {
    return &sim->fs;
}

/* Every folder above path that is not there. */
static tdm_status make_folders(tdm_fs_sim *sim, const char *path, tdm_error *err) {
    char above[TDM_PATH_MAX];
    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] != '/') {
            continue;
        }
        memcpy(above, path, i);
        above[i] = '\0';
        const sim_entry *entry = find(sim, above);
        if (entry == NULL) {
            TDM_TRY(add_entry(sim, above, NULL, err));
        } else if (entry->content != NULL) {
            return fail_at_path(err, TDM_E_STATE, above, "a file stands where a folder is needed");
        }
    }
    return TDM_OK;
}

tdm_status tdm_fs_sim_put(tdm_fs_sim *sim, const char *path, const void *data, size_t bytes,
                          tdm_error *err) {
    char name[TDM_PATH_MAX];
    sim_content *content = NULL;
    TDM_TRY(normalise(name, path, err));
    if (is_base_folder(name)) {
        return fail_at_path(err, TDM_E_STATE, path, "a folder stands where the file would be");
    }
    TDM_TRY(make_folders(sim, name, err));
    sim_entry *entry = find(sim, name);
    if (entry != NULL && entry->content == NULL) {
        return fail_at_path(err, TDM_E_STATE, path, "a folder stands where the file would be");
    }
    if (entry != NULL) {
        drop_entry(sim, entry);
    }
    TDM_TRY(create_file(sim, name, &content, err));
    const tdm_status status = write_content(sim, content, data, bytes, err);
    if (status != TDM_OK) {
        drop_entry(sim, find(sim, name));
        return status;
    }
    content->synced_bytes = bytes;
    return TDM_OK;
}

void tdm_fs_sim_fail_at(tdm_fs_sim *sim, size_t n) {
    sim->fail_at = n;
    sim->is_dying = false;
}

void tdm_fs_sim_die_at(tdm_fs_sim *sim, size_t n) {
    sim->fail_at = n;
    sim->is_dying = true;
}

void tdm_fs_sim_cut_power(tdm_fs_sim *sim, uint64_t seed) {
    for (size_t i = 0; i < sim->n; i++) {
        sim_content *content = sim->entries[i].content;
        if (content == NULL || content->data.len == content->synced_bytes) {
            continue;
        }
        const size_t loose = content->data.len - content->synced_bytes;
        const uint64_t draw = tdm_hash64_seeded(&i, sizeof i, seed);
        const size_t kept = (size_t)(draw % (loose + 1));
        const size_t zeros = (size_t)((draw >> 32) % (kept + 1));
        sim->used_bytes -= loose - kept;
        content->data.len = content->synced_bytes + kept;
        if (zeros > 0) {
            memset(content->data.data + content->data.len - zeros, 0, zeros);
        }
        content->synced_bytes = content->data.len;
    }
}

void tdm_fs_sim_capacity(tdm_fs_sim *sim, size_t bytes) {
    sim->capacity_bytes = bytes;
}
