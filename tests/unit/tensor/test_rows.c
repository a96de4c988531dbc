/* SPDX-License-Identifier: Apache-2.0
 *
 * Row tables and ranges: exact lookup, what the checks refuse, and lookup against a plain array. */
#include "support/support.h"

#include "contract/rows.h"

#define A ((tdm_class)1)
#define B ((tdm_class)2)
#define C ((tdm_class)3)
#define D ((tdm_class)4)

static void exact_counts_or_nothing(void **state) {
    (void)state;
    static const tdm_row_entry entries[] = {{1, A}, {4, B}};
    const tdm_row_table bare = {.entries = entries, .n_entries = 2};
    const tdm_row_table with_default = {entries, 2, D};
    assert_int_equal(tdm_row_table_check(&bare, "decode", NULL), TDM_OK);
    assert_int_equal(tdm_row_table_check(&with_default, "decode", NULL), TDM_OK);
    assert_int_equal(tdm_row_table_lookup(&bare, 1), A);
    assert_int_equal(tdm_row_table_lookup(&bare, 4), B);
    assert_int_equal(tdm_row_table_lookup(&with_default, 4), B);
    const int64_t others[] = {2, 3, 5, INT64_MAX};
    for (size_t i = 0; i < SUPPORT_LEN(others); i++) {
        assert_int_equal(tdm_row_table_lookup(&bare, others[i]), TDM_CLASS_NONE);
        assert_int_equal(tdm_row_table_lookup(&with_default, others[i]), D);
    }
    assert_int_equal(tdm_row_table_lookup(&with_default, 0), TDM_CLASS_NONE);
    assert_int_equal(tdm_row_table_lookup(&with_default, -1), TDM_CLASS_NONE);
}

static void expect_table_refused(const tdm_row_entry *entries, size_t n, const char *what,
                                 const char *where) {
    const tdm_row_table table = {.entries = entries, .n_entries = n};
    tdm_error err;
    assert_int_equal(tdm_row_table_check(&table, "verify", &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, what));
    assert_string_equal(err.where, where);
}

static void bad_tables_are_refused(void **state) {
    (void)state;
    const tdm_row_entry zero[] = {{0, A}};
    const tdm_row_entry nameless[] = {{1, A}, {2, TDM_CLASS_NONE}};
    const tdm_row_entry twice[] = {{1, A}, {1, B}};
    const tdm_row_entry falling[] = {{4, A}, {1, B}};
    const tdm_row_table only_default = {NULL, 0, A};
    expect_table_refused(NULL, 0, "without entries", "verify");
    expect_table_refused(zero, 1, "below 1", "verify[0]");
    expect_table_refused(nameless, 2, "names no class", "verify[1]");
    expect_table_refused(twice, 2, "twice", "verify[1]");
    expect_table_refused(falling, 2, "ascend", "verify[1]");
    assert_int_equal(tdm_row_table_check(&only_default, "verify", NULL), TDM_OK);
}

/* One list of extents through both kinds of ranges. */
static void expect_ranges_refused(const tdm_row_range *r, size_t n, const char *what,
                                  const char *where) {
    tdm_position_range positions[4];
    const tdm_row_ranges rows = {r, n};
    const tdm_position_ranges prompt = {positions, n};
    tdm_error err;
    for (size_t i = 0; i < n; i++) {
        /* a prompt begins at 0, rows at 1 */
        positions[i] = (tdm_position_range){r[i].from - 1, r[i].to - 1, r[i].class_id, 0};
    }
    assert_int_equal(tdm_row_ranges_check(&rows, "r", &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, what));
    assert_string_equal(err.where, where);
    assert_int_equal(tdm_position_ranges_check(&prompt, "r", &err), TDM_E_ARG);
    assert_non_null(strstr(err.what, what));
    assert_string_equal(err.where, where);
}

static void bad_ranges_are_refused(void **state) {
    (void)state;
    const tdm_row_range overlap[] = {{1, 8, A}, {7, 9, B}};
    const tdm_row_range gap[] = {{1, 8, A}, {9, 10, B}};
    const tdm_row_range inverted[] = {{1, 8, A}, {8, 5, B}};
    const tdm_row_range empty[] = {{1, 1, A}};
    const tdm_row_range nameless[] = {{1, 4, A}, {4, 9, TDM_CLASS_NONE}};
    expect_ranges_refused(NULL, 0, "no ranges", "r");
    expect_ranges_refused(overlap, 2, "overlaps", "r[1]");
    expect_ranges_refused(gap, 2, "gap", "r[1]");
    expect_ranges_refused(inverted, 2, "inverted", "r[1]");
    expect_ranges_refused(empty, 1, "empty", "r[0]");
    expect_ranges_refused(nameless, 2, "names no class", "r[1]");

    const tdm_row_range from_zero[] = {{0, 4, A}};
    const tdm_position_range late[] = {{5, 9, A, TDM_UNIT_ANY}};
    const tdm_row_ranges rows = {from_zero, 1};
    const tdm_position_ranges prompt = {late, 1};
    assert_int_equal(tdm_row_ranges_check(&rows, "r", NULL), TDM_E_ARG);
    assert_int_equal(tdm_position_ranges_check(&prompt, "r", NULL), TDM_E_ARG);
}

static void pieces_never_cross(void **state) {
    (void)state;
    static const tdm_position_range list[] = {{0, 512, A, TDM_UNIT_ANY},
                                              {512, 4096, B, TDM_UNIT_GPU},
                                              {4096, TDM_RANGE_OPEN_END, C, TDM_UNIT_CPU}};
    const tdm_position_ranges ranges = {list, SUPPORT_LEN(list)};
    assert_int_equal(tdm_position_ranges_check(&ranges, "prompt", NULL), TDM_OK);
    assert_ptr_equal(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){0, 512}), &list[0]);
    assert_ptr_equal(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){512, 513}), &list[1]);
    assert_null(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){600, 550}));
    assert_ptr_equal(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){4096, INT64_MAX}),
                     &list[2]);
    assert_null(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){400, 600}));
    assert_null(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){5, 5}));
    assert_null(tdm_position_ranges_lookup(&ranges, (tdm_position_piece){-1, 5}));
    /* A planner that cuts where it is told walks any piece through the ranges. */
    int64_t position = 300;
    const int64_t ends[] = {512, 4096, 5000};
    for (size_t i = 0; i < SUPPORT_LEN(ends); i++) {
        const tdm_position_piece piece = {
            position, tdm_position_ranges_cut(&ranges, (tdm_position_piece){position, 5000})};
        assert_int_equal(piece.to, ends[i]);
        assert_ptr_equal(tdm_position_ranges_lookup(&ranges, piece), &list[i]);
        position = piece.to;
    }
    const tdm_position_ranges bounded = {list, 1};
    assert_int_equal(tdm_position_ranges_cut(&bounded, (tdm_position_piece){512, 600}), 512);
}

/* Random valid tables against an array with one class a row count. */
static void lookups_agree_with_an_array(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int round = 0; round < 200; round++) {
        tdm_row_range list[8];
        tdm_row_entry entries[8];
        tdm_class by_range[64] = {0};
        tdm_class by_count[64] = {0};
        size_t n = 0;
        int64_t at = 0;
        seed = seed * 1664525U + 1013904223U;
        at = 1 + (int64_t)((seed >> 24) % 5);
        while (n < SUPPORT_LEN(list)) {
            seed = seed * 1664525U + 1013904223U;
            const int64_t to = at + 1 + (int64_t)((seed >> 20) % 6);
            list[n] = (tdm_row_range){at, to, (tdm_class)(1 + n)};
            entries[n] = (tdm_row_entry){at, (tdm_class)(1 + n)};
            for (int64_t i = at; i < to; i++) {
                by_range[i] = (tdm_class)(1 + n);
            }
            by_count[at] = (tdm_class)(1 + n);
            at = to;
            n++;
        }
        const tdm_row_ranges ranges = {list, n};
        const tdm_row_table table = {.entries = entries, .n_entries = n};
        assert_int_equal(tdm_row_ranges_check(&ranges, "r", NULL), TDM_OK);
        assert_int_equal(tdm_row_table_check(&table, "t", NULL), TDM_OK);
        for (int64_t i = 0; i < 64; i++) {
            assert_int_equal(tdm_row_ranges_lookup(&ranges, i), by_range[i]);
            assert_int_equal(tdm_row_table_lookup(&table, i), by_count[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_counts_or_nothing),     cmocka_unit_test(bad_tables_are_refused),
        cmocka_unit_test(bad_ranges_are_refused),      cmocka_unit_test(pieces_never_cross),
        cmocka_unit_test(lookups_agree_with_an_array),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
