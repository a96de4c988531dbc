/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocator, tracker, arena, pool. The laws of tdm_alloc run against both implementations in
 * tests/contract/test_alloc.c; here is what each of the others promises. */
#include "support/support.h"

#include "base/alloc.h"

#include <errno.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#endif

static void test_calloc_overflow(void **state) {
    tdm_alloc_tracker tracker;
    tdm_arena arena;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    assert_null(tdm_mem_calloc(&tracker.alloc, SIZE_MAX / 2, 3));
    assert_null(tdm_mem_calloc(&tracker.alloc, 3, SIZE_MAX / 2));
    assert_null(tdm_mem_copy_text(&tracker.alloc, "x", SIZE_MAX));
    tdm_arena_init(&arena, &tracker.alloc);
    assert_null(tdm_arena_calloc(&arena, SIZE_MAX / 2, 3));
    assert_null(tdm_arena_alloc(&arena, SIZE_MAX, 16));
    assert_null(tdm_arena_alloc(&arena, SIZE_MAX - 100, 64));
    assert_null(tdm_arena_copy_text(&arena, "x", SIZE_MAX));
    tdm_arena_deinit(&arena);
    assert_int_equal(atomic_load(&tracker.n_live), 0);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

/* Whole pages are zeros, also where others were before, and are accounted like any block. */
static void test_pages(void **state) {
    static const size_t SIZES[] = {1, 4095, 65535, 65536, 65537, 200000};
    tdm_alloc_tracker tracker;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    for (size_t round = 0; round < 4; round++) {
        const tdm_alloc *alloc = round % 2 == 0 ? NULL : &tracker.alloc;
        for (size_t i = 0; i < SUPPORT_LEN(SIZES); i++) {
            uint8_t *pages = tdm_mem_alloc_pages(alloc, SIZES[i]);
            assert_non_null(pages);
            assert_int_equal((uintptr_t)pages % TDM_ALIGN_PAGE, 0);
            for (size_t k = 0; k < SIZES[i]; k++) {
                assert_int_equal(pages[k], 0);
            }
            memset(pages, 0xA5, SIZES[i]);
            tdm_mem_free_aligned(alloc, pages, SIZES[i], TDM_ALIGN_PAGE);
        }
    }
    assert_int_equal(tracker.n_live, 0);
    assert_int_equal(tracker.live_bytes, 0);
    tracker.fail_at = tracker.n_calls + 1;
    assert_null(tdm_mem_alloc_pages(&tracker.alloc, 65536));
}

static void test_zero_and_null(void **state) {
    tdm_alloc_tracker tracker;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    void *block = tdm_mem_calloc(&tracker.alloc, 0, 8);
    assert_non_null(block);
    assert_int_equal(atomic_load(&tracker.live_bytes), 1);
    tdm_mem_free(&tracker.alloc, block, 0);
    tdm_mem_free(&tracker.alloc, NULL, 100);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    char *copy = tdm_mem_copy_text(&tracker.alloc, "a\0b", 3);
    assert_memory_equal(copy, "a\0b", 4);
    tdm_mem_free(&tracker.alloc, copy, 4);
    copy = tdm_mem_copy_text(&tracker.alloc, NULL, 0);
    assert_string_equal(copy, "");
    tdm_mem_free(&tracker.alloc, copy, 1);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    block = tdm_mem_alloc(NULL, 10); /* NULL: the system's */
    errno = 77;
    tdm_mem_free(NULL, block, 10);
    assert_int_equal(errno, 77);
}

static void test_tracker_counts(void **state) {
    tdm_alloc_tracker tracker;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    char *a = tdm_mem_alloc(&tracker.alloc, 100);
    char *b = tdm_mem_alloc_aligned(&tracker.alloc, 50, 256);
    assert_int_equal((uintptr_t)b % 256, 0);
    assert_int_equal(atomic_load(&tracker.live_bytes), 150);
    a = tdm_mem_resize(&tracker.alloc, a, 100, 300);
    assert_int_equal(atomic_load(&tracker.live_bytes), 350);
    a = tdm_mem_resize(&tracker.alloc, a, 300, 20);
    assert_int_equal(atomic_load(&tracker.live_bytes), 70);
    assert_int_equal(atomic_load(&tracker.peak_bytes), 350);
    assert_int_equal(atomic_load(&tracker.n_live), 2);
    assert_int_equal(atomic_load(&tracker.n_calls), 3); /* shrinking is no allocation */
    tdm_mem_free(&tracker.alloc, a, 20);
    tdm_mem_free_aligned(&tracker.alloc, b, 50, 256);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    assert_int_equal(atomic_load(&tracker.n_live), 0);
}

static void test_tracker_fails(void **state) {
    tdm_alloc_tracker tracker;
    (void)state;
    for (int from_then = 0; from_then <= 1; from_then++) {
        void *blocks[6];
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = 3;
        tracker.is_failing_from_then = from_then == 1;
        for (int i = 0; i < 6; i++) {
            blocks[i] = tdm_mem_alloc(&tracker.alloc, 10);
            assert_true((blocks[i] != NULL) == (i < 2 || (i > 2 && from_then == 0)));
        }
        for (int i = 0; i < 6; i++) {
            tdm_mem_free(&tracker.alloc, blocks[i], 10);
        }
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    }
    tdm_alloc_tracker_init(&tracker, NULL);
    tracker.limit_bytes = 100;
    char *a = tdm_mem_alloc(&tracker.alloc, 60);
    memset(a, 'q', 60);
    assert_null(tdm_mem_alloc(&tracker.alloc, 41));
    char *b = tdm_mem_alloc(&tracker.alloc, 40);
    assert_non_null(b);
    assert_null(tdm_mem_resize(&tracker.alloc, a, 60, 61)); /* leaves the block as it was */
    assert_int_equal(a[59], 'q');
    a = tdm_mem_resize(&tracker.alloc, a, 60, 10);
    assert_int_equal(a[9], 'q');
    tdm_mem_free(&tracker.alloc, a, 10);
    tdm_mem_free(&tracker.alloc, b, 40);
}

static void test_arena(void **state) {
    tdm_alloc_tracker tracker;
    tdm_arena arena;
    uint8_t *pieces[400];
    size_t bytes[400];
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_arena_init(&arena, &tracker.alloc);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 400; i++) {
            const size_t align = (size_t)1 << (i % 9);
            bytes[i] = i * i % 977;
            pieces[i] = tdm_arena_alloc(&arena, bytes[i], align);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t)pieces[i] % align, 0);
            memset(pieces[i], (int)(i % 251), bytes[i]);
        }
        for (size_t i = 0; i < 400; i++) { /* nothing overlaps */
            for (size_t j = 0; j < bytes[i]; j++) {
                assert_int_equal(pieces[i][j], i % 251);
            }
        }
        assert_true(arena.used_bytes > 0);
        tdm_arena_reset(&arena);
        assert_int_equal(arena.used_bytes, 0);
        assert_int_equal(atomic_load(&tracker.n_live), 1); /* the largest chunk stays */
    }
    const uint32_t *zeros = tdm_arena_calloc(&arena, 100, sizeof *zeros);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(zeros[i], 0); /* in memory that was written before */
    }
    assert_string_equal(tdm_arena_copy_text(&arena, "hello", 4), "hell");
    assert_non_null(tdm_arena_alloc(&arena, 5 << 20, 64)); /* larger than any chunk */
    tdm_arena_deinit(&arena);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    assert_non_null(tdm_arena_alloc(&arena, 10, 8)); /* as after init */
    tdm_arena_deinit(&arena);
    tdm_arena_deinit(NULL);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

static void test_arena_limit(void **state) {
    tdm_arena arena;
    size_t total = 0;
    (void)state;
    tdm_arena_init(&arena, NULL);
    arena.limit_bytes = 10000;
    while (tdm_arena_alloc(&arena, 100, 16) != NULL) {
        total += 100;
    }
    assert_in_range(total, 7000, 10000);
    assert_true(arena.used_bytes <= 10000);
    assert_null(tdm_arena_alloc(&arena, 5000, 16));
    tdm_arena_reset(&arena);
    assert_non_null(tdm_arena_alloc(&arena, 5000, 16));
    tdm_arena_deinit(&arena);
}

static void test_arena_without_memory(void **state) {
    tdm_alloc_tracker tracker;
    tdm_arena arena;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tdm_arena_init(&arena, &tracker.alloc);
    tracker.fail_at = 1;
    assert_null(tdm_arena_alloc(&arena, 10, 8));
    char *piece = tdm_arena_alloc(&arena, 10, 8);
    assert_non_null(piece);
    memset(piece, 'k', 10);
    tracker.fail_at = atomic_load(&tracker.n_calls) + 1;
    assert_null(tdm_arena_alloc(&arena, 1 << 20, 8));
    assert_int_equal(piece[9], 'k');
    assert_non_null(tdm_arena_alloc(&arena, 10, 8));
    tdm_arena_deinit(&arena);
    assert_int_equal(atomic_load(&tracker.live_bytes), 0);
}

static void test_pool(void **state) {
    tdm_alloc_tracker tracker;
    tdm_pool pool;
    uint8_t *objects[100];
    (void)state;
    for (size_t object_bytes = 1; object_bytes <= 100; object_bytes += 33) {
        tdm_alloc_tracker_init(&tracker, NULL);
        tdm_pool_init(&pool, &tracker.alloc, object_bytes);
        for (int i = 0; i < 100; i++) {
            objects[i] = tdm_pool_take(&pool);
            assert_non_null(objects[i]);
            memset(objects[i], i, object_bytes);
        }
        assert_int_equal(pool.n_live, 100);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(objects[i][object_bytes - 1], i);
        }
        for (int i = 0; i < 100; i += 2) {
            tdm_pool_give(&pool, objects[i]);
        }
        const size_t n_calls = atomic_load(&tracker.n_calls);
        for (int i = 0; i < 100; i += 2) {
            objects[i] = tdm_pool_take(&pool); /* reused, not bought */
            memset(objects[i], i, object_bytes);
        }
        assert_int_equal(atomic_load(&tracker.n_calls), n_calls);
        for (int i = 0; i < 100; i++) {
            assert_int_equal(objects[i][0], i);
            tdm_pool_give(&pool, objects[i]);
        }
        tdm_pool_give(&pool, NULL);
        assert_int_equal(pool.n_live, 0);
        tdm_pool_deinit(&pool);
        assert_int_equal(atomic_load(&tracker.live_bytes), 0);
    }
    tdm_pool_deinit(NULL);
}

/* Under ASan: what is between pieces, behind a reset, or given back to a pool cannot be touched. */
static void test_poison(void **state) {
    (void)state;
#ifdef HAS_ASAN
    tdm_arena arena;
    tdm_pool pool;
    tdm_arena_init(&arena, NULL);
    char *a = tdm_arena_alloc(&arena, 24, 8);
    char *b = tdm_arena_alloc(&arena, 13, 8);
    assert_false(__asan_address_is_poisoned(a + 23));
    assert_true(__asan_address_is_poisoned(a + 24));
    assert_false(__asan_address_is_poisoned(b + 12));
    assert_true(__asan_address_is_poisoned(b + 13));
    tdm_arena_reset(&arena);
    assert_true(__asan_address_is_poisoned(a));
    tdm_arena_deinit(&arena);
    tdm_pool_init(&pool, NULL, 40);
    char *object = tdm_pool_take(&pool);
    assert_false(__asan_address_is_poisoned(object + 39));
    tdm_pool_give(&pool, object);
    assert_true(__asan_address_is_poisoned(object));
    tdm_pool_deinit(&pool);
#else
    /* Nothing to ask for in a build without ASan; the asan preset runs this test too. */
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calloc_overflow),
        cmocka_unit_test(test_zero_and_null),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_tracker_counts),
        cmocka_unit_test(test_tracker_fails),
        cmocka_unit_test(test_arena),
        cmocka_unit_test(test_arena_limit),
        cmocka_unit_test(test_arena_without_memory),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_poison),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
