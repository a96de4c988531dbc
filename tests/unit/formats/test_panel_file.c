/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of packed weights: what was written is read, and whatever else the bytes are, they are
 * refused: every cut, every changed byte of head and table, lies with a right check. */
#include "support/support.h"

#include "formats/panel_file.h"

#include "base/hash.h"

#define N 3
#define PATH "d/x.panels"
#define HEAD_BYTES 72
#define CHECK_AT 64
#define RECORD_BYTES 48
#define TABLE_BYTES (N * RECORD_BYTES)

static const tdm_panel_source SOURCE = {{"test", 7}, {11, 12}};

typedef struct rig {
    tdm_fs_sim *sim;
    const tdm_fs *fs;
    uint8_t data[N][200];
    tdm_panel_item items[N];
    uint8_t bytes[16384]; /* the whole file */
    size_t n_bytes;
} rig;

static void write_whole(rig *r) {
    tdm_file *file = NULL;
    tdm_blob blob;
    tdm_error err = {0};
    assert_int_equal(r->fs->make_folder(r->fs->ctx, "d", &err), TDM_OK);
    assert_int_equal(r->fs->open_create(r->fs->ctx, PATH, &file, &err), TDM_OK);
    assert_int_equal(tdm_panel_file_write(r->fs, file, NULL, &SOURCE, r->items, N, &err), TDM_OK);
    r->fs->close(r->fs->ctx, file);
    assert_int_equal(tdm_blob_open(&blob, r->fs, PATH, &err), TDM_OK);
    assert_true(blob.bytes <= sizeof r->bytes);
    memcpy(r->bytes, blob.data, blob.bytes);
    r->n_bytes = blob.bytes;
    tdm_blob_close(&blob);
}

static int setup(void **state) {
    rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    assert_int_equal(tdm_fs_sim_create(&r->sim, NULL, NULL), TDM_OK);
    r->fs = tdm_fs_sim_fs(r->sim);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < sizeof r->data[i]; k++) {
            r->data[i][k] = (uint8_t)(31 * i + 7 * k);
        }
        r->items[i] = (tdm_panel_item){{8 * i + 1, 32, i, 60 + 64 * i, (uint32_t)i, 1}, r->data[i]};
    }
    write_whole(r);
    *state = r;
    return 0;
}

static int teardown(void **state) {
    rig *r = *state;
    tdm_fs_sim_destroy(r->sim);
    free(r);
    return 0;
}

static tdm_status check(const uint8_t *bytes, size_t n, const tdm_panel_source *source) {
    tdm_panel_file file;
    tdm_error err = {0};
    uint8_t *copy = malloc(n + 1); /* so that a sanitizer sees a byte read behind the end */
    assert_non_null(copy);
    copy = realloc(copy, n > 0 ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    const tdm_status status = tdm_panel_file_check(&file, copy, n, source, &err);
    assert_true(status == TDM_OK || (file.n == 0 && err.what[0] != '\0'));
    free(copy);
    return status;
}

static void what_was_written_is_read(void **state) {
    const rig *r = *state;
    tdm_panel_file file;
    size_t bytes = 0;
    assert_true(tdm_panel_file_bytes(r->items, N, &bytes));
    assert_int_equal(bytes, r->n_bytes);
    assert_int_equal(tdm_panel_file_check(&file, r->bytes, r->n_bytes, &SOURCE, NULL), TDM_OK);
    assert_int_equal(file.n, N);
    for (size_t i = 0; i < N; i++) {
        tdm_panel_record record;
        const uint8_t *data = tdm_panel_file_at(&file, i, &record);
        assert_memory_equal(&record, &r->items[i].record, sizeof record);
        assert_int_equal((size_t)(data - r->bytes) % 64, 0);
        assert_memory_equal(data, r->data[i], record.bytes);
    }
}

static void another_source_is_refused(void **state) {
    const rig *r = *state;
    const tdm_panel_source others[] = {{{"tesu", 7}, {11, 12}},
                                       {{"test", 8}, {11, 12}},
                                       {{"test", 7}, {10, 12}},
                                       {{"test", 7}, {11, 13}}};
    for (size_t i = 0; i < SUPPORT_LEN(others); i++) {
        assert_int_equal(check(r->bytes, r->n_bytes, &others[i]), TDM_E_STATE);
    }
}

static void cut_and_longer_files_are_refused(void **state) {
    rig *r = *state;
    for (size_t n = 0; n < r->n_bytes; n++) {
        assert_int_not_equal(check(r->bytes, n, &SOURCE), TDM_OK);
    }
    assert_int_equal(check(r->bytes, r->n_bytes, &SOURCE), TDM_OK);
    assert_int_not_equal(check(r->bytes, r->n_bytes + 1, &SOURCE), TDM_OK);
}

static void changed_bytes_are_refused(void **state) {
    rig *r = *state;
    for (size_t i = 0; i < HEAD_BYTES + TABLE_BYTES; i++) {
        for (int bit = 0; bit < 8; bit++) {
            r->bytes[i] ^= (uint8_t)(1 << bit);
            assert_int_not_equal(check(r->bytes, r->n_bytes, &SOURCE), TDM_OK);
            r->bytes[i] ^= (uint8_t)(1 << bit);
        }
    }
}

/* The check is right, the numbers are not: nobody may rely on the check alone. */
static void lies_are_refused(void **state) {
    rig *r = *state;
    static const uint64_t LIES[] = {
        0, 1, 63, 64, 4096, 1u << 20, UINT64_MAX, UINT64_MAX - 63, (uint64_t)1 << 63};
    for (size_t record = 0; record < N; record++) {
        for (size_t field = 3; field <= 5; field += 2) { /* bytes, offset */
            for (size_t i = 0; i < SUPPORT_LEN(LIES); i++) {
                uint8_t bytes[sizeof r->bytes];
                memcpy(bytes, r->bytes, r->n_bytes);
                memcpy(bytes + HEAD_BYTES + record * RECORD_BYTES + field * 8, &LIES[i], 8);
                memset(bytes + CHECK_AT, 0, 8);
                const uint64_t hash = tdm_hash64_seeded(bytes + HEAD_BYTES, TABLE_BYTES,
                                                        tdm_hash64(bytes, HEAD_BYTES));
                memcpy(bytes + CHECK_AT, &hash, 8);
                /* other bytes that end before the next weight: the table agrees with itself */
                const uint64_t own = r->items[record].record.bytes;
                const bool is_possible = field == 3 ? (LIES[i] + 63) / 64 == (own + 63) / 64 &&
                                                          record + 1 < N && LIES[i] <= 4096
                                                    : memcmp(bytes, r->bytes, r->n_bytes) == 0;
                assert_int_equal(check(bytes, r->n_bytes, &SOURCE),
                                 is_possible ? TDM_OK : TDM_E_FORMAT);
            }
        }
    }
}

/* Bytes are written 2 MiB at a time, whatever the weights' sizes: none is lost where those meet. */
static void weights_cross_the_writers_buffer(void **state) {
    rig *r = *state;
    enum { LARGE = (5 << 20) + 3, SMALL = (2 << 20) - 4096 };
    uint8_t *large = malloc(LARGE);
    tdm_file *file = NULL;
    tdm_blob blob;
    tdm_panel_file read;
    assert_non_null(large);
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = (uint8_t)(i * 7 + i / 4096);
    }
    /* the first ends at the buffer's end exactly */
    const tdm_panel_item items[] = {{{8, 32, 1, SMALL, 0, 1}, large + 1},
                                    {{8, 32, 2, LARGE, 0, 1}, large},
                                    {{8, 32, 3, 1, 0, 1}, large + 2}};
    assert_int_equal(r->fs->open_create(r->fs->ctx, "d/y.panels", &file, NULL), TDM_OK);
    assert_int_equal(tdm_panel_file_write(r->fs, file, NULL, &SOURCE, items, 3, NULL), TDM_OK);
    r->fs->close(r->fs->ctx, file);
    assert_int_equal(tdm_blob_open(&blob, r->fs, "d/y.panels", NULL), TDM_OK);
    assert_int_equal(tdm_panel_file_check(&read, blob.data, blob.bytes, &SOURCE, NULL), TDM_OK);
    for (size_t i = 0; i < 3; i++) {
        tdm_panel_record record;
        const uint8_t *data = tdm_panel_file_at(&read, i, &record);
        assert_memory_equal(data, items[i].data, record.bytes);
    }
    tdm_blob_close(&blob);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(another_source_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_and_longer_files_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(changed_bytes_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(lies_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(weights_cross_the_writers_buffer, setup, teardown),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
