/* SPDX-License-Identifier: Apache-2.0
 *
 * Overlaps and holes against a bitmap that counts bytes one by one. */
#include "formats/ranges_priv.h"

#include "base/random.h"
#include "support/support.h"

enum { SPACE = 64, N_MAX = 8 };

static void agrees_with_a_bitmap(void **state) {
    size_t n_overlapping = 0;
    (void)state;
    for (uint32_t seed = 0; seed < 4000; seed++) {
        tdm_byte_range ranges[N_MAX];
        tdm_range_report report;
        uint8_t used[SPACE * 2] = {0};
        const size_t n = tdm_random_u64(seed, 0, 0, 0) % (N_MAX + 1);
        bool is_twice = false;
        uint64_t end = 0;
        uint64_t holes = 0;
        for (size_t i = 0; i < n; i++) {
            const uint64_t raw = tdm_random_u64(seed, 1, (uint32_t)i, 0);
            ranges[i].offset = raw % SPACE;
            ranges[i].bytes = (raw >> 32) % 9;
            ranges[i].idx = (uint32_t)i;
            for (uint64_t at = ranges[i].offset; at < ranges[i].offset + ranges[i].bytes; at++) {
                is_twice = is_twice || used[at] != 0;
                used[at] = 1;
                end = at + 1 > end ? at + 1 : end;
            }
        }
        for (uint64_t at = 0; at < end; at++) {
            holes += used[at] == 0;
        }
        tdm_ranges_check(ranges, n, 0, 1, &report);
        assert_int_equal(report.is_overlapping, is_twice);
        n_overlapping += is_twice;
        if (is_twice) {
            assert_int_not_equal(report.first_idx, report.second_idx);
            continue;
        }
        assert_int_equal(report.end, end);
        assert_int_equal(report.hole_bytes, holes);
    }
    assert_in_range(n_overlapping, 400, 3600); /* both kinds were tried */
}

static void padding_is_no_hole(void **state) {
    tdm_byte_range ranges[] = {{64, 10, 1}, {0, 34, 0}, {128, 4, 2}};
    tdm_range_report report;
    (void)state;
    tdm_ranges_check(ranges, 3, 0, 32, &report);
    assert_false(report.is_overlapping);
    assert_int_equal(report.hole_bytes, 128 - 74); /* the first gap is padding, the second not */
    assert_int_equal(report.hole_offset, 74);
    assert_int_equal(report.end, 132);
    tdm_ranges_check(ranges, 3, 0, 64, &report);
    assert_int_equal(report.hole_bytes, 0);
}

static void a_hole_before_the_first(void **state) {
    tdm_byte_range range = {100, 4, 0};
    tdm_range_report report;
    (void)state;
    tdm_ranges_check(&range, 1, 90, 1, &report);
    assert_int_equal(report.hole_bytes, 10);
    assert_int_equal(report.hole_offset, 90);
    tdm_ranges_check(NULL, 0, 90, 1, &report);
    assert_int_equal(report.end, 90);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_a_bitmap),
        cmocka_unit_test(padding_is_no_hole),
        cmocka_unit_test(a_hole_before_the_first),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
