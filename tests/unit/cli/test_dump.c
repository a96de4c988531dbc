/* SPDX-License-Identifier: Apache-2.0
 *
 * The dump's writer against the reader of safetensors, and a disk that fails under it. */
#include "support/support.h"

#include "cli/golden/dump.h"
#include "formats/safetensors.h"

static const float LOGITS[6] = {1, 2, 3, -4, 5.5F, 0};
static const int32_t IDS[3] = {7, -1, 2147483647};

static const tdm_dump_tensor TENSORS[] = {
    {"logits", "F32", 2, {2, 3}, LOGITS},
    {"gen_ids", "I32", 1, {3, 0}, IDS},
};

static void test_round_trip(void **state) {
    tdm_fs_sim *sim = NULL;
    tdm_blob blob;
    tdm_safetensors *file = NULL;
    const tdm_tensor_view *view = NULL;
    size_t idx = 0;
    bool is_folder = false;
    (void)state;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    assert_int_equal(tdm_dump_write(fs, "/d.safetensors", TENSORS, 2, NULL), TDM_OK);
    /* a second time over the first, and over a part that an earlier run left */
    assert_int_equal(tdm_fs_sim_put(sim, "/d.safetensors.part", "x", 1, NULL), TDM_OK);
    assert_int_equal(tdm_dump_write(fs, "/d.safetensors", TENSORS, 2, NULL), TDM_OK);
    assert_false(fs->exists(fs->ctx, "/d.safetensors.part", &is_folder));
    assert_int_equal(tdm_blob_open(&blob, fs, "/d.safetensors", NULL), TDM_OK);
    assert_int_equal(tdm_safetensors_parse(&file, NULL, blob.data, blob.bytes, "d", NULL), TDM_OK);
    assert_int_equal(tdm_safetensors_n_tensors(file), 2);
    assert_true(tdm_safetensors_find(file, "logits", &idx));
    view = tdm_safetensors_tensor_view(file, idx);
    assert_int_equal(view->dtype, TDM_DTYPE_F32);
    assert_int_equal(view->dims[0], 2);
    assert_int_equal(view->dims[1], 3);
    assert_memory_equal(view->data, LOGITS, sizeof LOGITS);
    assert_true(tdm_safetensors_find(file, "gen_ids", &idx));
    view = tdm_safetensors_tensor_view(file, idx);
    assert_int_equal(view->rank, 1);
    assert_memory_equal(view->data, IDS, sizeof IDS);
    assert_int_equal(tdm_safetensors_gaps_of(file).trailing_bytes, 0);
    tdm_safetensors_destroy(file);
    tdm_blob_close(&blob);
    tdm_fs_sim_destroy(sim);
}

/* Whatever operation fails, the old file stays whole. */
static void test_failures_keep_the_old_file(void **state) {
    (void)state;
    for (size_t n = 1; n < 12; n++) {
        tdm_fs_sim *sim = NULL;
        tdm_blob blob;
        tdm_status status = TDM_OK;
        assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
        assert_int_equal(tdm_fs_sim_put(sim, "/d", "old", 3, NULL), TDM_OK);
        tdm_fs_sim_fail_at(sim, n);
        status = tdm_dump_write(tdm_fs_sim_fs(sim), "/d", TENSORS, 2, NULL);
        tdm_fs_sim_fail_at(sim, 0);
        assert_int_equal(tdm_blob_open(&blob, tdm_fs_sim_fs(sim), "/d", NULL), TDM_OK);
        if (status == TDM_OK) {
            assert_true(blob.bytes > 3);
        } else {
            assert_int_equal(status, TDM_E_IO);
            assert_int_equal(blob.bytes, 3);
        }
        tdm_blob_close(&blob);
        tdm_fs_sim_destroy(sim);
    }
}

static void test_full_disk(void **state) {
    tdm_fs_sim *sim = NULL;
    tdm_error err = {.code = TDM_OK};
    (void)state;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
    tdm_fs_sim_capacity(sim, 20);
    assert_int_equal(tdm_dump_write(tdm_fs_sim_fs(sim), "/d", TENSORS, 2, &err), TDM_E_IO);
    tdm_fs_sim_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_failures_keep_the_old_file),
        cmocka_unit_test(test_full_disk),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
