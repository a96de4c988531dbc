/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder of packed weights on a disk that fails, fills up, dies and loses power: a load gets the
 * right bytes or none, whatever happened before, and the next one that is left in peace has them. */
#include "support/support.h"

#include "engine/panel_cache.h"

#define FOLDER "home/cache/panels"
#define N_WEIGHTS 3
#define WEIGHT_BYTES 700

typedef struct rig {
    tdm_fs_sim *sim;
    tdm_clock_sim clock;
    tdm_alloc_tracker tracker;
    char log[4096];
    tdm_log sink;
    tdm_panel_cache_options options;
    tdm_panel_layout layout;
    uint64_t version; /* of the checkpoint: its weights and their panels */
} rig;

static void log_write(void *ctx, tdm_log_level level, const char *text) {
    rig *r = ctx;
    const size_t len = strlen(r->log);
    (void)snprintf(r->log + len, sizeof r->log - len, "%d %s\n", (int)level, text);
}

static void put(rig *r, const char *path, const void *data, size_t bytes) {
    assert_int_equal(tdm_fs_sim_put(r->sim, path, data, bytes, NULL), TDM_OK);
}

/* A checkpoint of one tensor, whose values are the version. */
static void put_checkpoint(rig *r, const char *folder, uint64_t version) {
    static const char HEADER[] =
        "{\"w\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[0,64]}}      ";
    uint8_t file[8 + sizeof HEADER - 1 + 64] = {0};
    char path[256];
    const uint64_t n = sizeof HEADER - 1;
    memcpy(file, &n, 8);
    memcpy(file + 8, HEADER, sizeof HEADER - 1);
    memset(file + 8 + sizeof HEADER - 1, (int)version, 64);
    (void)snprintf(path, sizeof path, "%s/model.safetensors", folder);
    put(r, path, file, sizeof file);
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    put(r, path, "{}", 2);
}

static void rig_open(rig *r) {
    memset(r, 0, sizeof *r);
    tdm_alloc_tracker_init(&r->tracker, NULL);
    assert_int_equal(tdm_fs_sim_create(&r->sim, &r->tracker.alloc, NULL), TDM_OK);
    tdm_clock_sim_init(&r->clock, 1000);
    r->sink = (tdm_log){r, TDM_LOG_DEBUG, log_write};
    r->options = (tdm_panel_cache_options){.fs = tdm_fs_sim_fs(r->sim),
                                           .clock = &r->clock.clock,
                                           .log = &r->sink,
                                           .folder = FOLDER,
                                           .bytes_max = 1 << 20,
                                           .bytes_min = 1};
    r->layout = (tdm_panel_layout){"test", 1};
    r->version = 1;
    put_checkpoint(r, "m", 1);
}

static void rig_close(rig *r) {
    tdm_fs_sim_destroy(r->sim);
    assert_int_equal(r->tracker.n_live, 0);
}

static uint8_t panel_byte(uint64_t version, size_t weight, size_t at) {
    return (uint8_t)(version * 83 + weight * 29 + at * 5 + at / 256);
}

typedef struct weights {
    uint8_t bytes[N_WEIGHTS][WEIGHT_BYTES];
} weights;

static void pack(weights *w, uint64_t version) {
    for (size_t i = 0; i < N_WEIGHTS; i++) {
        for (size_t k = 0; k < WEIGHT_BYTES; k++) {
            w->bytes[i][k] = panel_byte(version, i, k);
        }
    }
}

static tdm_panel_record record_of(size_t i) {
    return (tdm_panel_record){8 + i, 32, 5, WEIGHT_BYTES - i, (uint32_t)i, 1};
}

static tdm_checkpoint *open_checkpoint(rig *r, const char *folder) {
    const tdm_checkpoint_options options = {.fs = r->options.fs};
    tdm_checkpoint *checkpoint = NULL;
    assert_int_equal(tdm_checkpoint_open(&checkpoint, &r->tracker.alloc, folder, &options, NULL),
                     TDM_OK);
    return checkpoint;
}

/* As a backend does: what is taken must be right; the number taken. */
static size_t walk(rig *r, tdm_panel_cache *cache, const weights *w) {
    tdm_panels *store = tdm_panel_cache_store(cache);
    size_t n = 0;
    for (size_t i = 0; i < N_WEIGHTS; i++) {
        const tdm_panel_record record = record_of(i);
        const uint8_t *taken = store->ops->take(store, &record);
        if (taken == NULL) {
            store->ops->put(store, &record, w->bytes[i]);
            continue;
        }
        for (size_t k = 0; k < record.bytes; k++) {
            assert_int_equal(taken[k], panel_byte(r->version, i, k));
        }
        n++;
    }
    return n;
}

/* A whole load of folder, faults from operation fail_at of the cache on; how many weights came from
 * the folder. */
static size_t load_from(rig *r, const char *folder, size_t fail_at, bool is_death) {
    tdm_checkpoint *checkpoint = open_checkpoint(r, folder);
    weights w;
    size_t n = 0;
    pack(&w, r->version);
    if (is_death) {
        tdm_fs_sim_die_at(r->sim, fail_at);
    } else {
        tdm_fs_sim_fail_at(r->sim, fail_at);
    }
    tdm_panel_cache *cache =
        tdm_panel_cache_open(&r->tracker.alloc, &r->options, checkpoint, &r->layout);
    assert_non_null(cache);
    n = walk(r, cache, &w);
    if (tdm_panel_cache_is_refused(cache)) {
        tdm_panel_cache_restart(cache);
        n = walk(r, cache, &w);
        assert_int_equal(n, 0);
    }
    assert_int_equal(tdm_panel_cache_is_used(cache), n > 0);
    assert_true(n == 0 || n == N_WEIGHTS);
    tdm_panel_cache_save(cache);
    assert_true((tdm_panel_cache_file(cache) != NULL) == (n > 0));
    tdm_fs_sim_fail_at(r->sim, 0);
    tdm_panel_cache_close(cache);
    tdm_checkpoint_close(checkpoint);
    return n;
}

static size_t load(rig *r) {
    return load_from(r, "m", 0, false);
}

static void count(void *arg, const char *name, bool is_folder) {
    (void)name;
    (void)is_folder;
    ++*(size_t *)arg;
}

static void find_name(void *arg, const char *name, bool is_folder) {
    if (!is_folder) {
        (void)snprintf(arg, 200, "%s", name);
    }
}

static size_t n_files(rig *r) {
    size_t n = 0;
    return r->options.fs->list(r->options.fs->ctx, FOLDER, count, &n, NULL) == TDM_OK ? n : 0;
}

static void the_second_load_takes(void **state) {
    rig r;
    (void)state;
    rig_open(&r);
    assert_int_equal(load(&r), 0);
    assert_int_equal(load(&r), N_WEIGHTS);
    assert_int_equal(n_files(&r), 1);
    assert_string_equal(r.log, "");
    r.layout.version = 2; /* another layout has another file */
    assert_int_equal(load(&r), 0);
    r.layout.version = 1;
    assert_int_equal(load(&r), N_WEIGHTS);
    rig_close(&r);
}

static void a_changed_checkpoint_replaces_its_file(void **state) {
    rig r;
    (void)state;
    rig_open(&r);
    assert_int_equal(load(&r), 0);
    r.version = 2;
    put_checkpoint(&r, "m", 2);
    assert_int_equal(load(&r), 0);
    assert_int_equal(load(&r), N_WEIGHTS);
    assert_int_equal(n_files(&r), 1);
    assert_non_null(strstr(r.log, "1 packed weights: not used"));
    rig_close(&r);
}

static void other_weights_are_refused_whole(void **state) {
    rig r;
    tdm_checkpoint *checkpoint = NULL;
    tdm_panel_cache *cache = NULL;
    (void)state;
    rig_open(&r);
    assert_int_equal(load(&r), 0);
    for (size_t wrong = 0; wrong < N_WEIGHTS; wrong++) {
        for (size_t field = 0; field < 6; field++) {
            checkpoint = open_checkpoint(&r, "m");
            cache = tdm_panel_cache_open(&r.tracker.alloc, &r.options, checkpoint, &r.layout);
            assert_non_null(cache);
            tdm_panels *store = tdm_panel_cache_store(cache);
            for (size_t i = 0; i <= wrong; i++) {
                tdm_panel_record record = record_of(i);
                if (i == wrong) {
                    record.n_out += field == 0;
                    record.n_in += field == 1;
                    record.source += field == 2;
                    record.bytes -= field == 3;
                    record.layout += field == 4;
                    record.period += field == 5;
                }
                assert_int_equal(store->ops->take(store, &record) != NULL, i != wrong);
            }
            assert_true(tdm_panel_cache_is_refused(cache));
            tdm_panel_cache_close(cache);
            tdm_checkpoint_close(checkpoint);
        }
    }
    /* fewer weights than the file has */
    checkpoint = open_checkpoint(&r, "m");
    cache = tdm_panel_cache_open(&r.tracker.alloc, &r.options, checkpoint, &r.layout);
    assert_non_null(cache);
    const tdm_panel_record first = record_of(0);
    assert_non_null(tdm_panel_cache_store(cache)->ops->take(tdm_panel_cache_store(cache), &first));
    assert_true(tdm_panel_cache_is_refused(cache));
    tdm_panel_cache_restart(cache);
    assert_false(tdm_panel_cache_is_refused(cache));
    assert_null(tdm_panel_cache_store(cache)->ops->take(tdm_panel_cache_store(cache), &first));
    tdm_panel_cache_close(cache);
    tdm_checkpoint_close(checkpoint);
    rig_close(&r);
}

/* Every operation fails once, with and without an older file in the way. */
static void every_fault_costs_only_time(void **state) {
    (void)state;
    for (int has_old = 0; has_old < 2; has_old++) {
        for (int is_death = 0; is_death < 2; is_death++) {
            for (size_t n = 1; n < 60; n++) {
                rig r;
                rig_open(&r);
                if (has_old) {
                    assert_int_equal(load(&r), 0);
                    r.version = 2;
                    put_checkpoint(&r, "m", 2);
                }
                (void)load_from(&r, "m", n, is_death != 0);
                if (is_death) {
                    tdm_fs_sim_cut_power(r.sim, n);
                }
                (void)load(&r);
                assert_int_equal(load(&r), N_WEIGHTS);
                rig_close(&r);
            }
        }
    }
}

static void a_torn_file_is_not_used(void **state) {
    rig r;
    tdm_blob blob;
    char name[200] = "";
    char path[256];
    (void)state;
    rig_open(&r);
    assert_int_equal(load(&r), 0);
    assert_int_equal(r.options.fs->list(r.options.fs->ctx, FOLDER, find_name, name, NULL), TDM_OK);
    assert_int_equal(tdm_path_join(path, sizeof path, FOLDER, name, NULL), TDM_OK);
    assert_int_equal(tdm_blob_open(&blob, r.options.fs, path, NULL), TDM_OK);
    for (size_t n = 0; n < blob.bytes; n += n < 300 ? 1 : 97) {
        put(&r, path, blob.data, n);
        r.log[0] = '\0';
        assert_int_equal(load(&r), 0); /* and writes it again */
        assert_non_null(strstr(r.log, "not used"));
    }
    assert_int_equal(load(&r), N_WEIGHTS);
    tdm_blob_close(&blob);
    rig_close(&r);
}

static void a_full_disk_costs_only_time(void **state) {
    (void)state;
    for (size_t room = 0; room < 9000; room += 211) {
        rig r;
        rig_open(&r);
        tdm_fs_sim_capacity(r.sim, 200 + room);
        (void)load(&r);
        assert_int_equal(n_files(&r) == 1 || strstr(r.log, "not saved") != NULL, 1);
        tdm_fs_sim_capacity(r.sim, 0);
        (void)load(&r);
        assert_int_equal(load(&r), N_WEIGHTS);
        assert_int_equal(n_files(&r), 1); /* no half file is left */
        rig_close(&r);
    }
}

static void two_writers_leave_one_whole_file(void **state) {
    rig r;
    weights w;
    tdm_panel_cache *cache[6];
    (void)state;
    rig_open(&r);
    pack(&w, 1);
    tdm_checkpoint *checkpoint = open_checkpoint(&r, "m");
    for (size_t i = 0; i < SUPPORT_LEN(cache); i++) {
        cache[i] = tdm_panel_cache_open(&r.tracker.alloc, &r.options, checkpoint, &r.layout);
        assert_non_null(cache[i]);
        assert_int_equal(walk(&r, cache[i], &w), 0);
    }
    for (size_t i = 0; i < SUPPORT_LEN(cache); i++) {
        tdm_panel_cache_save(cache[i]);
        tdm_panel_cache_close(cache[i]);
    }
    tdm_checkpoint_close(checkpoint);
    assert_int_equal(n_files(&r), 1);
    assert_int_equal(load(&r), N_WEIGHTS);
    rig_close(&r);
}

/* Others are writing under all the names but the last, and one of them has been for two days. */
static void others_temporaries_are_left_alone(void **state) {
    rig r;
    char name[200] = "";
    char path[256];
    (void)state;
    rig_open(&r);
    assert_int_equal(load(&r), 0);
    assert_int_equal(r.options.fs->list(r.options.fs->ctx, FOLDER, find_name, name, NULL), TDM_OK);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s/%s.%d.tmp", FOLDER, name, i);
        put(&r, path, "half", 4);
    }
    put_checkpoint(&r, "m", 2);
    r.version = 2;
    assert_int_equal(load(&r), 0);
    assert_int_equal(load(&r), 0); /* no name was free */
    assert_int_equal(n_files(&r), 5);
    tdm_clock_sim_advance(&r.clock, INT64_C(172800000000000));
    assert_int_equal(load(&r), 0);
    assert_int_equal(load(&r), N_WEIGHTS);
    assert_int_equal(n_files(&r), 1);
    rig_close(&r);
}

static void the_least_recently_used_goes_first(void **state) {
    rig r;
    size_t bytes = 0;
    (void)state;
    rig_open(&r);
    put_checkpoint(&r, "m2", 1);
    put_checkpoint(&r, "m3", 1);
    const tdm_panel_item items[N_WEIGHTS] = {
        {record_of(0), NULL}, {record_of(1), NULL}, {record_of(2), NULL}};
    assert_true(tdm_panel_file_bytes(items, N_WEIGHTS, &bytes));
    r.options.bytes_max = 2 * bytes;
    assert_int_equal(load(&r), 0);
    assert_int_equal(load_from(&r, "m2", 0, false), 0);
    assert_int_equal(load(&r), N_WEIGHTS); /* m is younger than m2 now */
    assert_int_equal(load_from(&r, "m3", 0, false), 0);
    assert_int_equal(n_files(&r), 2);
    assert_int_equal(load(&r), N_WEIGHTS);
    assert_int_equal(load_from(&r, "m3", 0, false), N_WEIGHTS);
    r.options.bytes_max = bytes - 1; /* too small for any: what is there stays */
    assert_int_equal(load_from(&r, "m2", 0, false), 0);
    assert_int_equal(n_files(&r), 2);
    assert_non_null(strstr(r.log, "not saved"));
    r.options.bytes_max = 2 * bytes;
    r.options.bytes_min = N_WEIGHTS * WEIGHT_BYTES; /* and small models are not saved */
    assert_int_equal(load_from(&r, "m2", 0, false), 0);
    assert_int_equal(load_from(&r, "m2", 0, false), 0);
    rig_close(&r);
}

/* Memory that ends anywhere: no store, or one that does not save. */
static void without_memory_nothing_is_saved(void **state) {
    (void)state;
    for (size_t n = 1; n < 7; n++) {
        rig r;
        weights w;
        rig_open(&r);
        pack(&w, 1);
        tdm_checkpoint *checkpoint = open_checkpoint(&r, "m");
        tdm_alloc_tracker small;
        tdm_alloc_tracker_init(&small, NULL);
        small.fail_at = n;
        tdm_panel_cache *cache =
            tdm_panel_cache_open(&small.alloc, &r.options, checkpoint, &r.layout);
        if (cache != NULL) {
            assert_int_equal(walk(&r, cache, &w), 0);
            tdm_panel_cache_save(cache);
        }
        tdm_panel_cache_close(cache);
        assert_int_equal(small.n_live, 0);
        tdm_checkpoint_close(checkpoint);
        assert_int_equal(load(&r), n > 4 ? N_WEIGHTS : 0);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_load_takes),
        cmocka_unit_test(a_changed_checkpoint_replaces_its_file),
        cmocka_unit_test(other_weights_are_refused_whole),
        cmocka_unit_test(every_fault_costs_only_time),
        cmocka_unit_test(a_torn_file_is_not_used),
        cmocka_unit_test(a_full_disk_costs_only_time),
        cmocka_unit_test(two_writers_leave_one_whole_file),
        cmocka_unit_test(others_temporaries_are_left_alone),
        cmocka_unit_test(the_least_recently_used_goes_first),
        cmocka_unit_test(without_memory_nothing_is_saved),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
