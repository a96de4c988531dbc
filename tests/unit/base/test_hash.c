/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-64: known answers, and pieces give the same as the whole. */
#include "support/support.h"

#include "base/hash.h"

static void test_known_answers(void **state) {
    (void)state;
    assert_true(tdm_hash64("", 0) == UINT64_C(0x2D06800538D394C2));
    assert_true(tdm_hash64("a", 1) == UINT64_C(0xE6C632B61E964E1F));
    assert_true(tdm_hash64("abc", 3) == UINT64_C(0x78AF5F94892F3950));
    assert_true(tdm_hash64_seeded("abc", 3, 0) == tdm_hash64("abc", 3));
    assert_true(tdm_hash64_seeded("abc", 3, 1) != tdm_hash64("abc", 3));
}

static void test_stream(void **state) {
    static uint8_t data[5000];
    (void)state;
    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 131 + i / 251);
    }
    for (size_t total = 0; total <= sizeof data; total += total < 300 ? 1 : 487) {
        for (size_t piece = 1; piece <= 1001; piece += 250) {
            tdm_hash_stream *stream = tdm_hash_stream_create();
            assert_non_null(stream);
            for (size_t at = 0; at < total; at += piece) {
                tdm_hash_stream_update(stream, data + at, total - at < piece ? total - at : piece);
            }
            assert_true(tdm_hash_stream_digest(stream) == tdm_hash64(data, total));
            tdm_hash_stream_destroy(stream);
        }
    }
    tdm_hash_stream_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers),
        cmocka_unit_test(test_stream),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
