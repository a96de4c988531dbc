/* SPDX-License-Identifier: Apache-2.0
 *
 * The name table: look-ups, duplicates, growth, memory that runs out. */
#include "formats/names_priv.h"

#include "support/support.h"

static void finds_what_was_added(void **state) {
    enum { N = 5000 };
    static char text[N][8];
    tdm_names names;
    (void)state;
    tdm_names_init(&names, NULL);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t out = 77;
        const int n = snprintf(text[i], sizeof text[i], "n%u", i);
        assert_false(tdm_names_find(&names, text[i], (size_t)n, &out));
        assert_int_equal(out, 77);
        assert_int_equal(tdm_names_add(&names, text[i], (size_t)n, i), TDM_OK);
        assert_int_equal(tdm_names_add(&names, text[i], (size_t)n, i + 1), TDM_E_STATE);
    }
    for (uint32_t i = 0; i < N; i++) {
        uint32_t out = N;
        assert_true(tdm_names_find(&names, text[i], strlen(text[i]), &out));
        assert_int_equal(out, i);
    }
    assert_int_equal(names.n, N);
    tdm_names_deinit(&names);
    tdm_names_deinit(NULL);
}

static void empty_and_prefix_names_differ(void **state) {
    tdm_names names;
    uint32_t out = 0;
    (void)state;
    tdm_names_init(&names, NULL);
    assert_int_equal(tdm_names_add(&names, "", 0, 1), TDM_OK);
    assert_int_equal(tdm_names_add(&names, "ab", 1, 2), TDM_OK);
    assert_int_equal(tdm_names_add(&names, "ab", 2, 3), TDM_OK);
    assert_true(tdm_names_find(&names, "", 0, &out));
    assert_int_equal(out, 1);
    assert_true(tdm_names_find(&names, "a", 1, &out));
    assert_int_equal(out, 2);
    tdm_names_deinit(&names);
}

/* A table of one slot run longer than the limit answers instead of searching on. */
static void a_long_run_is_a_limit(void **state) {
    enum { N = 4096 };
    tdm_names names;
    uint32_t out = 0;
    (void)state;
    tdm_names_init(&names, NULL);
    names.slots = tdm_mem_calloc(NULL, N, sizeof *names.slots);
    assert_non_null(names.slots);
    names.n_slots = N;
    for (size_t i = 0; i < N; i++) {
        names.slots[i].name = "taken";
        names.slots[i].len = 5;
    }
    names.n = 1; /* so that it does not grow */
    assert_int_equal(tdm_names_add(&names, "x", 1, 0), TDM_E_LIMIT);
    assert_false(tdm_names_find(&names, "x", 1, &out));
    tdm_names_deinit(&names);
}

static void no_memory_leaves_the_table(void **state) {
    tdm_alloc_tracker tracker;
    tdm_names names;
    uint32_t out = 9;
    char text[40][4];
    size_t n_added = 0;
    (void)state;
    tdm_alloc_tracker_init(&tracker, NULL);
    tracker.fail_at = 2;
    tdm_names_init(&names, &tracker.alloc);
    for (size_t i = 0; i < 40; i++) {
        (void)snprintf(text[i], sizeof text[i], "%zu", i);
        if (tdm_names_add(&names, text[i], strlen(text[i]), (uint32_t)i) != TDM_OK) {
            break;
        }
        n_added++;
    }
    assert_int_equal(n_added, 8); /* the second table of slots */
    for (size_t i = 0; i < n_added; i++) {
        assert_true(tdm_names_find(&names, text[i], strlen(text[i]), &out));
        assert_int_equal(out, i);
    }
    tdm_names_deinit(&names);
    assert_int_equal(tracker.n_live, 0);
}

static void a_vector_doubles(void **state) {
    size_t cap = 0;
    int *items = NULL;
    (void)state;
    for (size_t i = 0; i < 100; i++) {
        items = tdm_vector_grow(NULL, items, i, &cap, sizeof *items);
        assert_non_null(items);
        items[i] = (int)i;
    }
    assert_int_equal(cap, 128);
    assert_int_equal(items[99], 99);
    tdm_mem_free(NULL, items, cap * sizeof *items);
    cap = SIZE_MAX / 2 + 1;
    assert_null(tdm_vector_grow(NULL, NULL, cap, &cap, sizeof *items));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_added),  cmocka_unit_test(empty_and_prefix_names_differ),
        cmocka_unit_test(a_long_run_is_a_limit), cmocka_unit_test(no_memory_leaves_the_table),
        cmocka_unit_test(a_vector_doubles),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
