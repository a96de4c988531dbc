/* SPDX-License-Identifier: Apache-2.0
 *
 * The allocator table: the system's, and the tracker on top of it, through one kit. */
#include "contract/alloc_kit.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif

static void test_system(void **state) {
    (void)state;
    alloc_kit_run(tdm_alloc_system());
#ifndef IS_SANITIZED /* sanitizers abort on such sizes instead of failing */
    alloc_kit_fails(tdm_alloc_system());
#endif
}

static void test_tracker(void **state) {
    tdm_alloc_tracker outer;
    tdm_alloc_tracker inner;
    (void)state;
    tdm_alloc_tracker_init(&inner, NULL);
    tdm_alloc_tracker_init(&outer, &inner.alloc); /* trackers stack */
    alloc_kit_run(&outer.alloc);
    assert_int_equal(atomic_load(&outer.live_bytes), 0);
    assert_int_equal(atomic_load(&inner.live_bytes), 0);
    assert_int_equal(atomic_load(&outer.n_live), 0);
    assert_true(atomic_load(&outer.peak_bytes) == atomic_load(&inner.peak_bytes));
    outer.limit_bytes = 1000000;
    alloc_kit_fails(&outer.alloc);
    assert_int_equal(atomic_load(&outer.live_bytes), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_tracker),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
