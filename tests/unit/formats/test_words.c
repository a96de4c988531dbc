/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes of shapes, tails of paths, cuts of texts. */
#include "formats/words_priv.h"

#include "support/support.h"

static void shapes(void **state) {
    const int64_t big[] = {INT64_MAX, 2};
    const int64_t empty[] = {INT64_MAX, 2, 0};
    const int64_t first[] = {0, INT64_MAX, 2};
    const int64_t zero[] = {3, 0, 5};
    const int64_t some[] = {3, 4, 5};
    size_t n = 7;
    (void)state;
    assert_true(tdm_shape_bytes(some, 3, 4, &n));
    assert_int_equal(n, 240);
    assert_true(tdm_shape_bytes(some, 0, 4, &n));
    assert_int_equal(n, 4);
    assert_true(tdm_shape_bytes(zero, 3, 4, &n));
    assert_int_equal(n, 0);
    assert_false(tdm_shape_bytes(big, 2, 1, &n));
    assert_false(tdm_shape_bytes(empty, 3, 1, &n)); /* also where a later dim is 0 */
    assert_false(tdm_shape_bytes(first, 3, 1, &n)); /* or an earlier one */
    assert_false(tdm_shape_bytes(big, 1, 8, &n));
    assert_true(tdm_shape_bytes(big, 1, 2, &n));
}

static void tails(void **state) {
    char path[400];
    (void)state;
    assert_string_equal(tdm_path_tail("a/b"), "a/b");
    memset(path, 'x', sizeof path);
    path[399] = '\0';
    assert_int_equal(strlen(tdm_path_tail(path)), 120);
    path[350] = '/';
    assert_int_equal(strlen(tdm_path_tail(path)), 48);
    path[390] = '/';
    assert_int_equal(strlen(tdm_path_tail(path)), 48);
}

static void cuts(void **state) {
    (void)state;
    assert_int_equal(tdm_text_cut("abc", 3, 10), 3);
    assert_int_equal(tdm_text_cut("abc", 3, 2), 2);
    assert_int_equal(tdm_text_cut("a\0c", 3, 10), 1);
    assert_int_equal(tdm_text_cut("a\xc3\xa4", 3, 2), 1); /* not inside a character */
    assert_int_equal(tdm_text_cut("a\xff", 2, 10), 1);
}

static void pointers(void **state) {
    static const char TEXT[] = "version https://git-lfs.github.com/spec/v1\n";
    tdm_error err = {0};
    (void)state;
    assert_true(tdm_is_pointer_file((const uint8_t *)TEXT, sizeof TEXT - 1));
    assert_false(tdm_is_pointer_file((const uint8_t *)TEXT, 20));
    assert_int_equal(tdm_fail_pointer_file("f", &err), TDM_E_FORMAT);
    assert_non_null(strstr(err.remedy, "git lfs pull"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(tails),
        cmocka_unit_test(cuts),
        cmocka_unit_test(pointers),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
