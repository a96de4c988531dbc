/* SPDX-License-Identifier: Apache-2.0
 *
 * The file table: the system's files and the simulated disk through one kit; then the faults that
 * only the simulated one has. */
#include "contract/fs_kit.h"

#include "base/alloc.h"

static void test_system(void **state) {
    char root[SUPPORT_PATH_MAX];
    (void)state;
    fs_kit_run(tdm_fs_system(), support_temp_folder(root));
    support_remove_folder(root);
}

static tdm_fs_sim *must_sim(const tdm_alloc *alloc, const char *root) {
    char keep[TDM_PATH_MAX];
    tdm_error err;
    tdm_fs_sim *sim = NULL;
    assert_int_equal(tdm_fs_sim_create(&sim, alloc, &err), TDM_OK);
    assert_int_equal(tdm_path_join(keep, sizeof keep, root, "keep", &err), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, keep, "", 0, &err), TDM_OK); /* makes the folders */
    assert_int_equal(tdm_fs_sim_fs(sim)->unlink(sim, keep, &err), TDM_OK);
    return sim;
}

static void test_sim(void **state) {
    const char *roots[] = {"a/b", "/abs/olute", "one"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(roots); i++) {
        tdm_alloc_tracker tracker;
        tdm_alloc_tracker_init(&tracker, NULL);
        tdm_fs_sim *sim = must_sim(&tracker.alloc, roots[i]);
        fs_kit_run(tdm_fs_sim_fs(sim), roots[i]);
        tdm_fs_sim_destroy(sim);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    }
    tdm_fs_sim_destroy(NULL);
}

/* Write to a temporary name, sync, rename: what a crash-safe writer does. */
static tdm_status write_safely(const tdm_fs *fs, tdm_error *err) {
    tdm_status status = TDM_OK;
    tdm_file *file = NULL;
    TDM_TRY(fs->open_create(fs->ctx, "dir/new", &file, err));
    TDM_TRY_GOTO(status, fs->append(fs->ctx, file, "fresh", 5, err), done);
    TDM_TRY_GOTO(status, fs->sync(fs->ctx, file, err), done);
    TDM_TRY_GOTO(status, fs->rename(fs->ctx, "dir/new", "dir/file", err), done);
done:
    fs->close(fs->ctx, file);
    return status;
}

static void assert_content(const tdm_fs *fs, const char *text) {
    tdm_blob blob;
    assert_int_equal(tdm_blob_open(&blob, fs, "dir/file", NULL), TDM_OK);
    assert_int_equal(blob.bytes, strlen(text));
    assert_memory_equal(blob.data, text, blob.bytes);
    tdm_blob_close(&blob);
}

static void test_sim_fails_at(void **state) {
    size_t n_failed = 0;
    (void)state;
    for (size_t nth = 1; nth < 20; nth++) {
        tdm_error err;
        tdm_fs_sim *sim = must_sim(NULL, "dir");
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        assert_int_equal(tdm_fs_sim_put(sim, "dir/file", "stale", 5, &err), TDM_OK);
        tdm_fs_sim_fail_at(sim, nth);
        const tdm_status status = write_safely(fs, &err);
        tdm_fs_sim_fail_at(sim, 0);
        if (status == TDM_OK) {
            assert_content(fs, "fresh");
            tdm_fs_sim_destroy(sim);
            break;
        }
        assert_int_equal(status, TDM_E_IO);
        assert_content(fs, "stale"); /* a failed operation did nothing */
        n_failed++;
        tdm_fs_sim_destroy(sim);
    }
    assert_int_equal(n_failed, 4);
}

static void test_sim_is_full(void **state) {
    tdm_error err;
    tdm_blob blob;
    tdm_file *file = NULL;
    tdm_file_id id;
    (void)state;
    tdm_fs_sim *sim = must_sim(NULL, "dir");
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    tdm_fs_sim_capacity(sim, 10);
    assert_int_equal(fs->open_create(fs->ctx, "dir/a", &file, &err), TDM_OK);
    assert_int_equal(fs->append(fs->ctx, file, "12345678", 8, &err), TDM_OK);
    assert_int_equal(fs->append(fs->ctx, file, "90ab", 4, &err), TDM_E_IO);
    assert_true(err.limit[0] != '\0' && err.remedy[0] != '\0');
    assert_int_equal(fs->identify(fs->ctx, file, &id, &err), TDM_OK);
    assert_int_equal(id.bytes, 10); /* a torn write */
    assert_int_equal(tdm_fs_sim_put(sim, "dir/b", "x", 1, &err), TDM_E_IO);
    assert_int_equal(tdm_blob_open(&blob, fs, "dir/b", &err), TDM_E_NOT_FOUND);
    assert_int_equal(fs->unlink(fs->ctx, "dir/a", &err), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "dir/b", "x", 1, &err), TDM_E_IO); /* still open */
    fs->close(fs->ctx, file);
    assert_int_equal(tdm_fs_sim_put(sim, "dir/b", "0123456789", 10, &err), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "dir/b", "abc", 3, &err), TDM_OK); /* replaces */
    tdm_fs_sim_destroy(sim);
}

static void test_sim_refuses(void **state) {
    static char long_path[TDM_PATH_MAX + 10];
    tdm_error err;
    tdm_file *file = NULL;
    bool is_folder = false;
    (void)state;
    memset(long_path, 'x', sizeof long_path - 1);
    tdm_fs_sim *sim = must_sim(NULL, "dir");
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    assert_int_equal(tdm_fs_sim_put(sim, "dir", "x", 1, &err), TDM_E_STATE);
    assert_int_equal(tdm_fs_sim_put(sim, "/", "x", 1, &err), TDM_E_STATE);
    assert_int_equal(tdm_fs_sim_put(sim, "dir/f", "x", 1, &err), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "dir/f/g", "x", 1, &err), TDM_E_STATE);
    assert_int_equal(fs->open_read(fs->ctx, long_path, &file, &err), TDM_E_LIMIT);
    assert_false(fs->exists(fs->ctx, long_path, &is_folder));
    assert_int_equal(fs->rename(fs->ctx, "dir/f", "dir", &err), TDM_E_IO);
    assert_true(fs->exists(fs->ctx, "dir//./f", &is_folder));
    assert_false(is_folder);
    assert_true(fs->exists(fs->ctx, ".", &is_folder));
    assert_true(is_folder);
    tdm_fs_sim_destroy(sim);
}

/* Two writers of one file: the second is told. */
static int try_to_write(void *arg) {
    const char *path = arg;
    tdm_error err;
    tdm_file *file = NULL;
    const tdm_fs *fs = tdm_fs_system();
    return fs->open_append(fs->ctx, path, 0, &file, &err) == TDM_E_STATE ? 7 : 0;
}

static void test_one_writer(void **state) {
    char root[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    tdm_error err;
    tdm_file *file = NULL;
    const tdm_fs *fs = tdm_fs_system();
    (void)state;
    (void)support_join(path, support_temp_folder(root), "f");
    assert_int_equal(fs->open_create(fs->ctx, path, &file, &err), TDM_OK);
    assert_int_equal(support_run_child(try_to_write, path), 7);
    fs->close(fs->ctx, file);
    assert_int_equal(support_run_child(try_to_write, path), 0);
    support_remove_folder(root);
    tdm_fs_sim *sim = must_sim(NULL, "dir");
    tdm_file *second = NULL;
    fs = tdm_fs_sim_fs(sim);
    assert_int_equal(fs->open_create(fs->ctx, "dir/a", &file, &err), TDM_OK);
    assert_int_equal(fs->open_append(fs->ctx, "dir/a", 0, &second, &err), TDM_E_STATE);
    fs->close(fs->ctx, file);
    assert_int_equal(fs->open_append(fs->ctx, "dir/a", 0, &second, &err), TDM_OK);
    fs->close(fs->ctx, second);
    tdm_fs_sim_destroy(sim);
}

/* Synced bytes survive a power cut as they are, others in part or as zeros; a dead machine does
 * nothing. */
static void test_sim_power_cut(void **state) {
    size_t n_shorter = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        tdm_error err;
        tdm_file *file = NULL;
        tdm_blob blob;
        tdm_fs_sim *sim = must_sim(NULL, "dir");
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        assert_int_equal(fs->open_create(fs->ctx, "dir/a", &file, &err), TDM_OK);
        assert_int_equal(fs->append(fs->ctx, file, "safe", 4, &err), TDM_OK);
        assert_int_equal(fs->sync(fs->ctx, file, &err), TDM_OK);
        assert_int_equal(fs->append(fs->ctx, file, "loose", 5, &err), TDM_OK);
        tdm_fs_sim_die_at(sim, 1);
        assert_int_equal(fs->append(fs->ctx, file, "more", 4, &err), TDM_E_IO);
        assert_int_equal(fs->sync(fs->ctx, file, &err), TDM_E_IO);
        tdm_fs_sim_fail_at(sim, 0);
        fs->close(fs->ctx, file);
        tdm_fs_sim_cut_power(sim, seed);
        assert_int_equal(tdm_blob_open(&blob, fs, "dir/a", &err), TDM_OK);
        assert_in_range(blob.bytes, 4, 9);
        assert_memory_equal(blob.data, "safe", 4);
        n_shorter += blob.bytes < 9 ? 1 : 0;
        tdm_blob_close(&blob);
        tdm_fs_sim_destroy(sim);
    }
    assert_in_range(n_shorter, 1, 50);
}

static void test_sim_every_allocation_fails(void **state) {
    (void)state;
    for (size_t nth = 1; nth < 60; nth++) {
        tdm_error err;
        tdm_blob blob;
        tdm_fs_sim *sim = NULL;
        tdm_alloc_tracker tracker;
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        tdm_status status = tdm_fs_sim_create(&sim, &tracker.alloc, &err);
        if (status == TDM_OK) {
            status = tdm_fs_sim_put(sim, "dir/file", "stale", 5, &err);
        }
        if (status == TDM_OK) {
            status = write_safely(tdm_fs_sim_fs(sim), &err);
        }
        if (status == TDM_OK) {
            status = tdm_blob_open(&blob, tdm_fs_sim_fs(sim), "dir/file", &err);
        }
        if (status == TDM_OK) {
            tdm_blob_close(&blob);
        }
        tdm_fs_sim_destroy(sim);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        if (status == TDM_OK) {
            assert_true(nth > 8);
            return;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    fail_msg("never succeeded");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),        cmocka_unit_test(test_sim),
        cmocka_unit_test(test_sim_fails_at),  cmocka_unit_test(test_sim_is_full),
        cmocka_unit_test(test_sim_refuses),   cmocka_unit_test(test_one_writer),
        cmocka_unit_test(test_sim_power_cut), cmocka_unit_test(test_sim_every_allocation_fails),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
