/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract kit of tdm_fs (base/file.h): runs one implementation against a naive twin, a list of
 * names and bytes, and asks for each law. root is an existing, empty folder of that implementation;
 * the kit leaves it empty. */
#ifndef TDM_TESTS_FS_KIT_H
#define TDM_TESTS_FS_KIT_H

#include "support/support.h"

#include "base/file.h"
#include "base/random.h"

#define FS_KIT_FILES 6
#define FS_KIT_BYTES 512

typedef struct fs_kit {
    const tdm_fs *fs;
    const char *root;
    struct {
        bool exists;
        size_t bytes;
        uint8_t data[FS_KIT_BYTES];
    } twin[FS_KIT_FILES];
    char listed[FS_KIT_FILES + 2][16];
    size_t n_listed;
} fs_kit;

static inline const char *fs_kit_path(const fs_kit *kit, char out[TDM_PATH_MAX], const char *name) {
    assert_int_equal(tdm_path_join(out, TDM_PATH_MAX, kit->root, name, NULL), TDM_OK);
    return out;
}

static inline const char *fs_kit_name(char out[4], uint64_t file) {
    out[0] = 'f';
    out[1] = (char)('a' + (char)(FS_KIT_FILES - 1 - file)); /* list order is not creation order */
    out[2] = '\0';
    return out;
}

static inline void fs_kit_make(const fs_kit *kit, const char *name, const void *data,
                               size_t bytes) {
    char path[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    const tdm_fs *fs = kit->fs;
    assert_int_equal(fs->open_create(fs->ctx, fs_kit_path(kit, path, name), &file, &err), TDM_OK);
    assert_int_equal(fs->append(fs->ctx, file, data, bytes, &err), TDM_OK);
    assert_int_equal(fs->sync(fs->ctx, file, &err), TDM_OK);
    fs->close(fs->ctx, file);
}

static inline void fs_kit_remove(const fs_kit *kit, const char *name) {
    char path[TDM_PATH_MAX];
    assert_int_equal(kit->fs->unlink(kit->fs->ctx, fs_kit_path(kit, path, name), NULL), TDM_OK);
}

static inline void fs_kit_visit(void *arg, const char *name, bool is_folder) {
    fs_kit *kit = arg;
    assert_false(is_folder);
    assert_true(kit->n_listed < SUPPORT_LEN(kit->listed));
    (void)snprintf(kit->listed[kit->n_listed++], sizeof kit->listed[0], "%.15s", name);
}

/* The whole disk against the twin. */
static inline void fs_kit_compare(fs_kit *kit) {
    size_t n_expected = 0;
    kit->n_listed = 0;
    assert_int_equal(kit->fs->list(kit->fs->ctx, kit->root, fs_kit_visit, kit, NULL), TDM_OK);
    for (uint64_t f = FS_KIT_FILES; f-- > 0;) { /* byte order of the names */
        char name[4];
        char path[TDM_PATH_MAX];
        bool is_folder = true;
        tdm_blob blob;
        (void)fs_kit_path(kit, path, fs_kit_name(name, f));
        assert_int_equal(kit->fs->exists(kit->fs->ctx, path, &is_folder), kit->twin[f].exists);
        if (!kit->twin[f].exists) {
            assert_int_equal(tdm_blob_open(&blob, kit->fs, path, NULL), TDM_E_NOT_FOUND);
            continue;
        }
        assert_false(is_folder);
        assert_true(n_expected < kit->n_listed);
        assert_string_equal(kit->listed[n_expected++], name);
        assert_int_equal(tdm_blob_open(&blob, kit->fs, path, NULL), TDM_OK);
        assert_int_equal(blob.bytes, kit->twin[f].bytes);
        if (blob.bytes == 0) {
            assert_null(blob.data);
        } else {
            assert_memory_equal(blob.data, kit->twin[f].data, blob.bytes);
        }
        tdm_blob_close(&blob);
        assert_null(blob.data);
    }
    assert_int_equal(kit->n_listed, n_expected);
}

/* Random creates, renames and unlinks. */
static inline void fs_kit_against_twin(fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    for (uint32_t step = 0; step < 300; step++) {
        char name[4];
        char path[TDM_PATH_MAX];
        char other[TDM_PATH_MAX];
        tdm_error err;
        tdm_file *file = NULL;
        const uint64_t f = tdm_random_u64(5, 0, step, 0) % FS_KIT_FILES;
        const uint64_t g = tdm_random_u64(5, 0, step, 1) % FS_KIT_FILES;
        const size_t bytes = (size_t)(tdm_random_u64(5, 0, step, 2) % FS_KIT_BYTES);
        (void)fs_kit_path(kit, path, fs_kit_name(name, f));
        (void)fs_kit_path(kit, other, fs_kit_name(name, g));
        switch (tdm_random_u64(5, 0, step, 3) % 3) {
        case 0:
            file = (tdm_file *)(void *)&err; /* a failed open leaves NULL */
            if (fs->open_create(fs->ctx, path, &file, &err) != TDM_OK) {
                assert_int_equal(err.code, TDM_E_STATE);
                assert_null(file);
                assert_true(kit->twin[f].exists);
                break;
            }
            assert_false(kit->twin[f].exists);
            for (size_t i = 0; i < bytes; i++) {
                kit->twin[f].data[i] = (uint8_t)tdm_random_u64(6, 0, step, (uint32_t)i);
            }
            assert_int_equal(fs->append(fs->ctx, file, kit->twin[f].data, bytes / 2, &err), TDM_OK);
            assert_int_equal(
                fs->append(fs->ctx, file, kit->twin[f].data + bytes / 2, bytes - bytes / 2, &err),
                TDM_OK);
            fs->close(fs->ctx, file);
            kit->twin[f].exists = true;
            kit->twin[f].bytes = bytes;
            break;
        case 1:
            assert_int_equal(fs->rename(fs->ctx, path, other, &err),
                             kit->twin[f].exists ? TDM_OK : TDM_E_NOT_FOUND);
            if (kit->twin[f].exists && f != g) {
                kit->twin[g] = kit->twin[f];
                kit->twin[f].exists = false;
            }
            break;
        default:
            assert_int_equal(fs->unlink(fs->ctx, path, &err),
                             kit->twin[f].exists ? TDM_OK : TDM_E_NOT_FOUND);
            kit->twin[f].exists = false;
            break;
        }
        fs_kit_compare(kit);
    }
    for (uint64_t f = 0; f < FS_KIT_FILES; f++) {
        char name[4];
        if (kit->twin[f].exists) {
            fs_kit_remove(kit, fs_kit_name(name, f));
            kit->twin[f].exists = false;
        }
    }
}

/* Fewer bytes than asked only at the end of the file. */
static inline void fs_kit_read_at(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    uint8_t data[200];
    char path[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 7);
    }
    fs_kit_make(kit, "r", data, sizeof data);
    assert_int_equal(fs->open_read(fs->ctx, fs_kit_path(kit, path, "r"), &file, &err), TDM_OK);
    for (size_t offset = 0; offset <= 260; offset += 13) {
        for (size_t want = 0; want <= 260; want += 13) {
            uint8_t got[260];
            size_t n = 9999;
            const size_t left = offset < sizeof data ? sizeof data - offset : 0;
            assert_int_equal(fs->read_at(fs->ctx, file, offset, got, want, &n, &err), TDM_OK);
            assert_int_equal(n, want < left ? want : left);
            assert_true(n == 0 || memcmp(got, data + offset, n) == 0);
        }
    }
    assert_int_equal(fs->append(fs->ctx, file, data, 1, &err), TDM_E_IO); /* opened to read */
    assert_true(err.what[0] != '\0');
    fs->close(fs->ctx, file);
    fs->close(fs->ctx, NULL);
    fs_kit_remove(kit, "r");
}

/* A map covers [0, bytes) and outlives the name and the handle. */
static inline void fs_kit_map(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    static uint8_t data[10000];
    char path[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    const uint8_t *mapped = NULL;
    const uint8_t *part = NULL;
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 31 + i / 256);
    }
    fs_kit_make(kit, "m", data, sizeof data);
    assert_int_equal(fs->open_read(fs->ctx, fs_kit_path(kit, path, "m"), &file, &err), TDM_OK);
    assert_int_equal(fs->map(fs->ctx, file, sizeof data, &mapped, &err), TDM_OK);
    assert_int_equal(fs->map(fs->ctx, file, 100, &part, &err), TDM_OK);
    fs_kit_remove(kit, "m");
    assert_memory_equal(mapped, data, sizeof data);
    fs->close(fs->ctx, file);
    assert_memory_equal(mapped, data, sizeof data);
    assert_memory_equal(part, data, 100);
    fs->unmap(fs->ctx, mapped, sizeof data);
    fs->unmap(fs->ctx, part, 100);
    fs->unmap(fs->ctx, NULL, 0);
}

/* The id tells whether a path still means the file that was opened. */
static inline void fs_kit_identify(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    char path[TDM_PATH_MAX];
    char other[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *old = NULL;
    tdm_file *fresh = NULL;
    tdm_file_id a;
    tdm_file_id b;
    char byte = 0;
    size_t n = 0;
    fs_kit_make(kit, "i", "old", 3);
    fs_kit_make(kit, "j", "newer", 5);
    (void)fs_kit_path(kit, path, "i");
    assert_int_equal(fs->open_read(fs->ctx, path, &old, &err), TDM_OK);
    assert_int_equal(fs->identify(fs->ctx, old, &a, &err), TDM_OK);
    assert_int_equal(a.bytes, 3);
    assert_int_equal(fs->rename(fs->ctx, fs_kit_path(kit, other, "j"), path, &err), TDM_OK);
    assert_int_equal(fs->open_read(fs->ctx, path, &fresh, &err), TDM_OK);
    assert_int_equal(fs->identify(fs->ctx, fresh, &b, &err), TDM_OK);
    assert_int_equal(b.bytes, 5);
    assert_int_equal(a.device, b.device);
    assert_true(a.inode != b.inode);
    assert_int_equal(fs->read_at(fs->ctx, old, 0, &byte, 1, &n, &err), TDM_OK); /* the old file */
    assert_int_equal(byte, 'o');
    assert_int_equal(fs->read_at(fs->ctx, fresh, 0, &byte, 1, &n, &err), TDM_OK);
    assert_int_equal(byte, 'n');
    fs->close(fs->ctx, old);
    fs->close(fs->ctx, fresh);
    fs_kit_remove(kit, "i");
}

static inline void fs_kit_assert_error(tdm_status got, tdm_status want, tdm_error *err) {
    assert_int_equal(got, want);
    assert_int_equal(err->code, want);
    assert_true(err->what[0] != '\0');
    assert_true(err->where[0] != '\0');
    tdm_err_clear(err);
}

/* What is not there, or is of the other kind. */
static inline void fs_kit_errors(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    char path[TDM_PATH_MAX];
    char below[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    tdm_blob blob;
    bool is_folder = false;
    fs_kit_make(kit, "e", "x", 1);
    (void)fs_kit_path(kit, path, "nope");
    (void)fs_kit_path(kit, below, "nope/file");
    fs_kit_assert_error(fs->open_read(fs->ctx, path, &file, &err), TDM_E_NOT_FOUND, &err);
    assert_null(file);
    fs_kit_assert_error(fs->open_create(fs->ctx, below, &file, &err), TDM_E_NOT_FOUND, &err);
    assert_null(file);
    fs_kit_assert_error(fs->unlink(fs->ctx, path, &err), TDM_E_NOT_FOUND, &err);
    fs_kit_assert_error(fs->rename(fs->ctx, path, below, &err), TDM_E_NOT_FOUND, &err);
    fs_kit_assert_error(fs->list(fs->ctx, path, fs_kit_visit, NULL, &err), TDM_E_NOT_FOUND, &err);
    assert_false(fs->exists(fs->ctx, path, &is_folder));
    fs_kit_assert_error(tdm_blob_open(&blob, fs, path, &err), TDM_E_NOT_FOUND, &err);
    tdm_blob_close(&blob); /* legal after a failed open */
    fs_kit_assert_error(tdm_blob_open(&blob, fs, kit->root, &err), TDM_E_IO, &err);
    fs_kit_assert_error(fs->unlink(fs->ctx, kit->root, &err), TDM_E_IO, &err);
    assert_true(fs->exists(fs->ctx, kit->root, &is_folder));
    assert_true(is_folder);
    (void)fs_kit_path(kit, path, "e");
    fs_kit_assert_error(fs->list(fs->ctx, path, fs_kit_visit, NULL, &err), TDM_E_NOT_FOUND, &err);
    (void)fs_kit_path(kit, below, "e/file");
    fs_kit_assert_error(fs->open_read(fs->ctx, below, &file, &err), TDM_E_NOT_FOUND, &err);
    fs_kit_assert_error(fs->open_create(fs->ctx, below, &file, &err), TDM_E_NOT_FOUND, &err);
    fs_kit_assert_error(fs->open_create(fs->ctx, path, &file, &err), TDM_E_STATE, &err);
    (void)fs_kit_path(kit, below, "./e"); /* spelling */
    assert_true(fs->exists(fs->ctx, below, &is_folder));
    assert_false(is_folder);
    fs_kit_remove(kit, "e");
}

/* More at the end of what is kept; one writer at a time is asked of the system's files in
 * test_fs.c, since a process is not in its own way there. */
static inline void fs_kit_append(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    char path[TDM_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    tdm_blob blob;
    (void)fs_kit_path(kit, path, "a");
    assert_int_equal(fs->open_append(fs->ctx, path, 0, &file, &err), TDM_E_NOT_FOUND);
    assert_null(file);
    fs_kit_make(kit, "a", "0123456789", 10);
    assert_int_equal(fs->open_append(fs->ctx, path, 11, &file, &err), TDM_E_STATE);
    assert_null(file);
    assert_int_equal(fs->open_append(fs->ctx, path, 4, &file, &err), TDM_OK);
    assert_int_equal(fs->append(fs->ctx, file, "ab", 2, &err), TDM_OK);
    fs->close(fs->ctx, file);
    assert_int_equal(tdm_blob_open(&blob, fs, path, &err), TDM_OK);
    assert_int_equal(blob.bytes, 6);
    fs->forget(fs->ctx, blob.data, blob.bytes);
    assert_memory_equal(blob.data, "0123ab", 6);
    fs->need(fs->ctx, blob.data, blob.bytes);
    assert_memory_equal(blob.data, "0123ab", 6);
    tdm_blob_close(&blob);
    fs->forget(fs->ctx, NULL, 0);
    fs->need(fs->ctx, NULL, 0);
    fs_kit_remove(kit, "a");
}

static inline void fs_kit_folders(const fs_kit *kit) {
    const tdm_fs *fs = kit->fs;
    char old[TDM_PATH_MAX];
    char fresh[TDM_PATH_MAX];
    char below[TDM_PATH_MAX];
    tdm_error err;
    bool is_folder = false;
    (void)fs_kit_path(kit, old, "old");
    (void)fs_kit_path(kit, fresh, "fresh");
    (void)fs_kit_path(kit, below, "nope/old");
    fs_kit_assert_error(fs->make_folder(fs->ctx, below, &err), TDM_E_NOT_FOUND, &err);
    fs_kit_assert_error(fs->remove_folder(fs->ctx, old, &err), TDM_E_NOT_FOUND, &err);
    assert_int_equal(fs->make_folder(fs->ctx, old, &err), TDM_OK);
    fs_kit_assert_error(fs->make_folder(fs->ctx, old, &err), TDM_E_STATE, &err);
    fs_kit_make(kit, "old/file", "x", 1);
    assert_int_equal(fs->sync_folder(fs->ctx, old, &err), TDM_OK);
    fs_kit_assert_error(fs->remove_folder(fs->ctx, old, &err), TDM_E_IO, &err);
    assert_int_equal(fs->make_folder(fs->ctx, fresh, &err), TDM_OK);
    fs_kit_make(kit, "fresh/file", "y", 1);
    fs_kit_assert_error(fs->rename(fs->ctx, old, fresh, &err), TDM_E_IO, &err);
    fs_kit_remove(kit, "fresh/file");
    assert_int_equal(fs->remove_folder(fs->ctx, fresh, &err), TDM_OK);
    assert_int_equal(fs->rename(fs->ctx, old, fresh, &err), TDM_OK);
    assert_false(fs->exists(fs->ctx, old, &is_folder));
    assert_true(fs->exists(fs->ctx, fs_kit_path(kit, below, "fresh/file"), &is_folder));
    assert_false(is_folder);
    fs_kit_remove(kit, "fresh/file");
    assert_int_equal(fs->remove_folder(fs->ctx, fresh, &err), TDM_OK);
}

static inline void fs_kit_run(const tdm_fs *fs, const char *root) {
    fs_kit kit;
    memset(&kit, 0, sizeof kit);
    kit.fs = fs;
    kit.root = root;
    fs_kit_compare(&kit); /* empty at first */
    fs_kit_against_twin(&kit);
    fs_kit_compare(&kit); /* and again */
    fs_kit_read_at(&kit);
    fs_kit_map(&kit);
    fs_kit_identify(&kit);
    fs_kit_errors(&kit);
    fs_kit_append(&kit);
    fs_kit_folders(&kit);
    kit.n_listed = 0;
    assert_int_equal(fs->list(fs->ctx, root, fs_kit_visit, &kit, NULL), TDM_OK);
    assert_int_equal(kit.n_listed, 0);
}

#endif
