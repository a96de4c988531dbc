/* SPDX-License-Identifier: Apache-2.0
 *
 * The fetching thread: every byte of every range once and in order, in the way that the range asks
 * for; it stops soon; without memory there is none. */
#include "support/support.h"

#include "base/fetch.h"

#include <sched.h>

#define RANGES 3

typedef struct seen {
    const uint8_t *data;
    size_t bytes;
    char call;
} seen;

typedef struct watch {
    seen calls[64];
    atomic_size_t n;
} watch;

static void note(watch *w, char call, const uint8_t *data, size_t bytes) {
    const size_t n = atomic_load(&w->n);
    if (n < SUPPORT_LEN(w->calls)) {
        w->calls[n] = (seen){data, bytes, call};
        atomic_store(&w->n, n + 1);
    }
}

static void on_enlarge(void *ctx, const uint8_t *data, size_t bytes) {
    note(ctx, 'l', data, bytes);
}

static void on_need(void *ctx, const uint8_t *data, size_t bytes) {
    note(ctx, 'n', data, bytes);
}

static void on_fetch(void *ctx, const uint8_t *data, size_t bytes) {
    note(ctx, 'f', data, bytes);
}

static void on_forget(void *ctx, const uint8_t *data, size_t bytes) {
    note(ctx, 'g', data, bytes);
}

static tdm_fs fs_of(watch *w) {
    atomic_init(&w->n, 0);
    return (tdm_fs){
        .ctx = w, .enlarge = on_enlarge, .need = on_need, .fetch = on_fetch, .forget = on_forget};
}

static void expect_call(const watch *w, size_t *at, char call, const uint8_t *data, size_t bytes) {
    assert_true(*at < atomic_load(&w->n));
    assert_int_equal(w->calls[*at].call, call);
    assert_ptr_equal(w->calls[*at].data, data);
    assert_int_equal(w->calls[*at].bytes, bytes);
    (*at)++;
}

static tdm_fetch *start(const tdm_fetch_range *ranges, size_t n) {
    tdm_fetch *fetch = NULL;
    assert_int_equal(tdm_fetch_start(&fetch, NULL, ranges, n, NULL), TDM_OK);
    assert_non_null(fetch);
    return fetch;
}

static void wait_until_done(const tdm_fetch *fetch) {
    while (!tdm_fetch_is_done(fetch)) {
        (void)sched_yield();
    }
}

static void test_everything_in_order(void **state) {
    static uint8_t bytes[9 << 20];
    watch w;
    const tdm_fs fs = fs_of(&w);
    const size_t piece = (size_t)4 << 20;
    const tdm_fetch_range ranges[RANGES] = {{&fs, bytes + 1, 100, TDM_FETCH_ASK},
                                            {&fs, bytes, sizeof bytes, TDM_FETCH_ENTER},
                                            {&fs, bytes, piece + 5, TDM_FETCH_PASS}};
    size_t at = 0;
    (void)state;
    tdm_fetch *fetch = start(ranges, RANGES);
    wait_until_done(fetch);
    tdm_fetch_stop(fetch);
    expect_call(&w, &at, 'f', bytes + 1, 100);
    expect_call(&w, &at, 'n', bytes, piece);
    expect_call(&w, &at, 'n', bytes + piece, piece);
    expect_call(&w, &at, 'n', bytes + 2 * piece, sizeof bytes - 2 * piece);
    expect_call(&w, &at, 'l', bytes, piece + 5);
    expect_call(&w, &at, 'n', bytes, piece);
    expect_call(&w, &at, 'g', bytes, piece);
    expect_call(&w, &at, 'n', bytes + piece, 5);
    expect_call(&w, &at, 'g', bytes + piece, 5);
    assert_int_equal(at, atomic_load(&w.n));
}

/* A range that nobody could fetch in a lifetime. Nothing of it is read: the calls are ours. */
static void test_it_stops(void **state) {
    watch w;
    const tdm_fs fs = fs_of(&w);
    const tdm_fetch_range range = {&fs, (const uint8_t *)&w, (size_t)1 << 55, TDM_FETCH_ENTER};
    (void)state;
    tdm_fetch *fetch = start(&range, 1);
    while (atomic_load(&w.n) == 0) {
        (void)sched_yield();
    }
    assert_false(tdm_fetch_is_done(fetch));
    tdm_fetch_stop(fetch);
    tdm_fetch_stop(NULL);
}

static void test_none(void **state) {
    watch w;
    const tdm_fs fs = fs_of(&w);
    const tdm_fetch_range range = {&fs, (const uint8_t *)"x", 1, TDM_FETCH_ENTER};
    tdm_alloc_tracker tracker;
    (void)state;
    tdm_fetch *fetch = NULL;
    assert_int_equal(tdm_fetch_start(&fetch, NULL, NULL, 0, NULL), TDM_OK);
    assert_null(fetch);
    tdm_alloc_tracker_init(&tracker, NULL);
    tracker.fail_at = 1;
    assert_int_equal(tdm_fetch_start(&fetch, &tracker.alloc, &range, 1, NULL), TDM_E_NOMEM);
    assert_null(fetch);
    assert_int_equal(atomic_load(&w.n), 0);
}

/* On a mapped file it changes nothing that can be read. */
static void test_a_file_reads_as_before(void **state) {
    char folder[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    static char text[300000];
    tdm_blob blob;
    (void)state;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)(i * 31 + i / 4096);
    }
    (void)support_temp_folder(folder);
    support_write_file(support_join(path, folder, "x"), text, sizeof text);
    assert_int_equal(tdm_blob_open(&blob, NULL, path, NULL), TDM_OK);
    const tdm_fetch_range ranges[] = {
        {blob.fs, blob.data + 5000, 3, TDM_FETCH_ASK},
        {blob.fs, blob.data + blob.bytes - 1, 1, TDM_FETCH_ASK},
        {blob.fs, blob.data, blob.bytes, TDM_FETCH_PASS},
        {blob.fs, blob.data, blob.bytes, TDM_FETCH_ENTER},
    };
    blob.fs->scatter(blob.fs->ctx, blob.data, blob.bytes, true);
    tdm_fetch *fetch = start(ranges, SUPPORT_LEN(ranges));
    wait_until_done(fetch);
    assert_memory_equal(blob.data, text, sizeof text);
    tdm_fetch_stop(fetch);
    blob.fs->scatter(blob.fs->ctx, blob.data, blob.bytes, false);
    assert_memory_equal(blob.data, text, sizeof text);
    tdm_blob_close(&blob);
    support_remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_in_order),
        cmocka_unit_test(test_it_stops),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_a_file_reads_as_before),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
