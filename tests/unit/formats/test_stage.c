/* SPDX-License-Identifier: Apache-2.0
 *
 * The staged output: whole or absent, whatever fails, dies or loses power, and the same bytes in the
 * end. Every operation of a run is made to fail once. */
#include "support/support.h"

#include "formats/stage.h"

#include "base/random.h"

#define FILE_BYTES 5000
#define PIECE 173

static const char *const NAMES[] = {"one", "two"};

static uint8_t content_byte(size_t file, size_t at) {
    return (uint8_t)(tdm_random_u64(7, (uint32_t)file, 0, (uint32_t)at) & 255u);
}

/* Writes the whole set; TDM_OK when it was published. */
static tdm_status write_set(const tdm_fs *fs, const tdm_alloc *alloc, bool is_folder, uint64_t plan,
                            uint64_t *out_kept, tdm_error *err) {
    const tdm_stage_options options = {.fs = fs,
                                       .dst = "d/out",
                                       .is_folder = is_folder,
                                       .files = NAMES,
                                       .n_files = is_folder ? 2 : 1,
                                       .plan = plan,
                                       .checkpoint_bytes = 700};
    tdm_stage *stage = NULL;
    tdm_status status = tdm_stage_open(&stage, alloc, &options, err);
    for (size_t f = 0; f < options.n_files && status == TDM_OK; f++) {
        uint64_t kept = 0;
        size_t at = 0;
        status = tdm_stage_begin(stage, f, &kept, err);
        if (status == TDM_OK && kept > 300) {
            tdm_stage_skip(stage, kept - 300);
            at = (size_t)kept - 300;
        }
        while (at < FILE_BYTES && status == TDM_OK) {
            uint8_t piece[PIECE];
            const size_t n = FILE_BYTES - at < PIECE ? FILE_BYTES - at : PIECE;
            for (size_t i = 0; i < n; i++) {
                piece[i] = content_byte(f, at + i);
            }
            status = tdm_stage_append(stage, piece, n, err);
            at += n;
        }
        status = status == TDM_OK ? tdm_stage_end(stage, err) : status;
    }
    if (status == TDM_OK) {
        *out_kept = tdm_stage_kept_bytes(stage);
        status = tdm_stage_publish(stage, err);
    }
    tdm_stage_close(stage);
    return status;
}

static void expect_file(const tdm_fs *fs, const char *path, size_t file) {
    tdm_blob blob;
    assert_int_equal(tdm_blob_open(&blob, fs, path, NULL), TDM_OK);
    assert_int_equal(blob.bytes, FILE_BYTES);
    for (size_t i = 0; i < blob.bytes; i++) {
        assert_int_equal(blob.data[i], content_byte(file, i));
    }
    tdm_blob_close(&blob);
}

static void expect_whole(const tdm_fs *fs, bool is_folder) {
    bool is_there = false;
    expect_file(fs, is_folder ? "d/out/one" : "d/out", 0);
    if (is_folder) {
        expect_file(fs, "d/out/two", 1);
        assert_false(fs->exists(fs->ctx, "d/out/journal", &is_there));
    }
}

static tdm_fs_sim *make_disk(void) {
    tdm_fs_sim *sim = NULL;
    assert_int_equal(tdm_fs_sim_create(&sim, NULL, NULL), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "d/neighbour", "n", 1, NULL), TDM_OK);
    return sim;
}

/* Dies at operation nth, loses power, runs again. Returns whether the first run got through. */
static bool die_and_go_on(size_t nth, uint64_t seed, bool is_folder, bool loses_power,
                          uint64_t *kept_sum) {
    tdm_error err;
    uint64_t kept = 0;
    bool is_there = false;
    tdm_fs_sim *sim = make_disk();
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    tdm_fs_sim_die_at(sim, nth);
    const tdm_status first = write_set(fs, NULL, is_folder, 1, &kept, &err);
    tdm_fs_sim_fail_at(sim, 0);
    if (first != TDM_OK) {
        assert_int_equal(first, TDM_E_IO);
        assert_true(err.what[0] != '\0');
    }
    if (loses_power) {
        tdm_fs_sim_cut_power(sim, seed);
    }
    if (fs->exists(fs->ctx, "d/out", &is_there)) { /* published: then whole, and not made twice */
        expect_whole(fs, is_folder);
        assert_int_equal(write_set(fs, NULL, is_folder, 1, &kept, &err), TDM_E_STATE);
    } else {
        assert_int_not_equal(first, TDM_OK);
        assert_int_equal(write_set(fs, NULL, is_folder, 1, &kept, &err), TDM_OK);
        *kept_sum += kept;
    }
    expect_whole(fs, is_folder);
    tdm_fs_sim_destroy(sim);
    return first == TDM_OK;
}

static void test_dies_anywhere(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        uint64_t kept = 0;
        size_t nth = 1;
        while (!die_and_go_on(nth, nth, kind % 2 == 0, kind >= 2, &kept)) {
            nth++;
            assert_true(nth < 1000);
        }
        assert_in_range(nth, 40, 999);
        assert_true(kept > 5 * (uint64_t)FILE_BYTES); /* it does go on, and does not begin anew */
    }
}

/* One failing operation, the process lives: an error, and the next run works. */
static void test_fails_once(void **state) {
    (void)state;
    for (size_t nth = 1; nth < 1000; nth++) {
        tdm_error err;
        uint64_t kept = 0;
        tdm_fs_sim *sim = make_disk();
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        tdm_fs_sim_fail_at(sim, nth);
        const tdm_status status = write_set(fs, NULL, true, 1, &kept, &err);
        tdm_fs_sim_fail_at(sim, 0);
        if (status != TDM_OK) {
            assert_int_equal(status, TDM_E_IO);
            assert_int_equal(write_set(fs, NULL, true, 1, &kept, &err), TDM_OK);
        }
        expect_whole(fs, true);
        tdm_fs_sim_destroy(sim);
        if (status == TDM_OK) {
            assert_true(nth > 60);
            return;
        }
    }
    fail_msg("no run got through");
}

/* A full disk is told, nothing is lost, and with space the same output comes. */
static void test_full_disk(void **state) {
    (void)state;
    for (size_t capacity = 10; capacity < 2 * FILE_BYTES + 1500; capacity += 331) {
        tdm_error err;
        uint64_t kept = 0;
        bool is_there = false;
        tdm_fs_sim *sim = make_disk();
        const tdm_fs *fs = tdm_fs_sim_fs(sim);
        tdm_fs_sim_capacity(sim, capacity);
        const tdm_status status = write_set(fs, NULL, true, 1, &kept, &err);
        if (status != TDM_OK) {
            assert_int_equal(status, TDM_E_IO);
            assert_true(err.remedy[0] != '\0');
            assert_false(fs->exists(fs->ctx, "d/out", &is_there));
        }
        tdm_fs_sim_capacity(sim, 0);
        assert_true(fs->exists(fs->ctx, "d/neighbour", &is_there));
        if (status != TDM_OK) {
            assert_int_equal(write_set(fs, NULL, true, 1, &kept, &err), TDM_OK);
        }
        expect_whole(fs, true);
        tdm_fs_sim_destroy(sim);
    }
}

static void expect_refused(tdm_fs_sim *sim, uint64_t plan) {
    tdm_error err;
    uint64_t kept = 0;
    assert_int_equal(write_set(tdm_fs_sim_fs(sim), NULL, true, plan, &kept, &err), TDM_E_STATE);
    assert_true(err.what[0] != '\0' && err.where[0] != '\0' && err.remedy[0] != '\0');
}

static void test_refuses(void **state) {
    tdm_error err;
    uint64_t kept = 0;
    bool is_there = false;
    (void)state;
    tdm_fs_sim *sim = make_disk();
    const tdm_fs *fs = tdm_fs_sim_fs(sim);
    assert_int_equal(tdm_fs_sim_put(sim, "d/out", "x", 1, NULL), TDM_OK);
    expect_refused(sim, 1); /* the output is there */
    assert_int_equal(fs->unlink(fs->ctx, "d/out", NULL), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "d/out.partial", "x", 1, NULL), TDM_OK);
    expect_refused(sim, 1); /* a file of that name */
    assert_int_equal(fs->unlink(fs->ctx, "d/out.partial", NULL), TDM_OK);
    assert_int_equal(tdm_fs_sim_put(sim, "d/out.partial/mine.txt", "x", 1, NULL), TDM_OK);
    expect_refused(sim, 1); /* somebody's folder */
    assert_true(fs->exists(fs->ctx, "d/out.partial/mine.txt", &is_there));
    assert_int_equal(fs->unlink(fs->ctx, "d/out.partial/mine.txt", NULL), TDM_OK);
    tdm_fs_sim_die_at(sim, 40);
    assert_int_equal(write_set(fs, NULL, true, 1, &kept, &err), TDM_E_IO);
    tdm_fs_sim_fail_at(sim, 0);
    expect_refused(sim, 2); /* another plan */
    assert_int_equal(write_set(fs, NULL, true, 1, &kept, &err), TDM_OK);
    assert_true(kept > 0);
    expect_whole(fs, true);
    tdm_fs_sim_destroy(sim);
}

/* A journal is a stranger's text too: whatever it holds, the output is right or the run refused. */
static void test_hostile_journal(void **state) {
    static const char *const TAILS[] = {
        "",
        "file 0 5000 0123456789abcdef 0123456789abcdef\n",
        "file 99 1 0 0\n",
        "file 18446744073709551616 1 0 0\n",
        "file 0 999999999999999999 0000000000000000 0000000000000000\n",
        "file",
        "\n\n\n",
        "file 0 -1 0 0\n"};
    (void)state;
    for (size_t i = 0; i < SUPPORT_LEN(TAILS); i++) {
        tdm_error err;
        uint64_t kept = 0;
        char text[256];
        const int n = snprintf(text, sizeof text, "tandem-stage 1 0000000000000001\n%s", TAILS[i]);
        tdm_fs_sim *sim = make_disk();
        assert_int_equal(tdm_fs_sim_put(sim, "d/out.partial/journal", text, (size_t)n, NULL),
                         TDM_OK);
        assert_int_equal(tdm_fs_sim_put(sim, "d/out.partial/one", "wrong", 5, NULL), TDM_OK);
        assert_int_equal(write_set(tdm_fs_sim_fs(sim), NULL, true, 1, &kept, &err), TDM_OK);
        assert_int_equal(kept, 0);
        expect_whole(tdm_fs_sim_fs(sim), true);
        tdm_fs_sim_destroy(sim);
    }
}

static void test_every_allocation_fails(void **state) {
    (void)state;
    for (size_t nth = 1; nth < 100; nth++) {
        tdm_error err;
        uint64_t kept = 0;
        tdm_alloc_tracker tracker;
        tdm_fs_sim *sim = make_disk();
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = nth;
        const tdm_status status =
            write_set(tdm_fs_sim_fs(sim), &tracker.alloc, true, 1, &kept, &err);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
        tdm_fs_sim_destroy(sim);
        if (status == TDM_OK) {
            assert_true(nth > 1);
            return;
        }
        assert_int_equal(status, TDM_E_NOMEM);
    }
    fail_msg("no run got through");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dies_anywhere),   cmocka_unit_test(test_fails_once),
        cmocka_unit_test(test_full_disk),       cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_hostile_journal), cmocka_unit_test(test_every_allocation_fails),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
