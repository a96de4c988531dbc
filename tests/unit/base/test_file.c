/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths, blobs of odd things, and the machine's free memory. The table's laws are in
 * tests/contract/test_fs.c. */
#include "support/support.h"

#include "base/file.h"
#include "base/system.h"

static void test_paths(void **state) {
    char out[16];
    tdm_error err;
    (void)state;
    assert_int_equal(tdm_path_join(out, sizeof out, "a", "b", &err), TDM_OK);
    assert_string_equal(out, "a/b");
    assert_int_equal(tdm_path_join(out, sizeof out, "a/", "b", &err), TDM_OK);
    assert_string_equal(out, "a/b");
    assert_int_equal(tdm_path_join(out, sizeof out, "/", "b", &err), TDM_OK);
    assert_string_equal(out, "/b");
    assert_int_equal(tdm_path_join(out, sizeof out, "1234567", "1234567", &err), TDM_OK);
    assert_int_equal(tdm_path_join(out, sizeof out, "1234567", "12345678", &err), TDM_E_LIMIT);
    assert_true(err.limit[0] != '\0');
    assert_string_equal(tdm_path_name("a/b/c"), "c");
    assert_string_equal(tdm_path_name("c"), "c");
    assert_string_equal(tdm_path_name("a/"), "");
    assert_string_equal(tdm_path_name(""), "");
}

/* A pipe that nobody writes to must not hold the reader; nor is a device a file. */
static void test_no_regular_file(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char pipe_path[SUPPORT_PATH_MAX];
    tdm_error err;
    tdm_blob blob;
    (void)state;
    (void)support_temp_folder(folder);
    (void)support_join(pipe_path, folder, "pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    const char *paths[] = {pipe_path, folder, "/dev/null", "/dev/zero"};
    for (size_t i = 0; i < SUPPORT_LEN(paths); i++) {
        assert_int_equal(tdm_blob_open(&blob, NULL, paths[i], &err), TDM_E_IO);
        assert_non_null(strstr(err.what, "regular"));
        assert_string_equal(err.where, paths[i]);
        assert_null(blob.data);
    }
    support_remove_folder(folder);
}

static void test_blob(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    tdm_error err;
    tdm_blob blob;
    (void)state;
    (void)support_temp_folder(folder);
    support_write_file(support_join(path, folder, "x"), "hello", 5);
    assert_int_equal(tdm_blob_open(&blob, NULL, path, &err), TDM_OK);
    assert_int_equal(blob.bytes, 5);
    assert_int_equal(blob.id.bytes, 5);
    assert_memory_equal(blob.data, "hello", 5);
    tdm_blob_close(&blob);
    assert_null(blob.data);
    tdm_blob_close(&blob);
    tdm_blob_close(NULL);
    assert_int_equal(tdm_blob_open(&blob, NULL, support_join(path, folder, "none"), &err),
                     TDM_E_NOT_FOUND);
    assert_string_equal(err.where, path);
    assert_true(err.remedy[0] != '\0');
    support_remove_folder(folder);
}

static void test_memory(void **state) {
    (void)state;
    assert_true(tdm_memory_available() > (size_t)1 << 20); /* we run, so there is some */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_no_regular_file),
        cmocka_unit_test(test_blob),
        cmocka_unit_test(test_memory),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
