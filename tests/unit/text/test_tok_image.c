/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of tokenizers: the same bytes every time, refused when of another build, and every
 * allocation of writing and opening failing in turn. That they encode alike is said where encodings
 * are tested; that wrong ones do no harm, in test_malformed_images.c. */
#include "unit/text/tok_kit.h"

#include "base/system.h"
#include "fuzz/image_laws.h"

#define WRITER_AT 8

static void test_bytes_are_the_same(void **state) {
    (void)state;
    for (size_t kind = 0; kind < IMAGE_KINDS; kind++) {
        tdm_buf images[2];
        for (size_t i = 0; i < 2; i++) {
            tdm_buf_init(&images[i], NULL, 0);
            image_make(kind, &images[i]);
        }
        assert_int_equal(images[0].len, images[1].len);
        assert_memory_equal(images[0].data, images[1].data, images[0].len);
        tdm_buf_deinit(&images[0]);
        tdm_buf_deinit(&images[1]);
    }
}

/* A copy of a copy: what is read is whole. */
static void test_an_image_of_an_image(void **state) {
    (void)state;
    for (size_t kind = 0; kind < IMAGE_KINDS; kind++) {
        const char *json = image_json(kind);
        tdm_tokenizer *made = NULL;
        assert_int_equal(
            tdm_tokenizer_from_json(&made, NULL, json, strlen(json), NULL, "made", NULL), TDM_OK);
        tok_copy first = tok_copy_open(made);
        assert_non_null(first.tokenizer);
        tok_copy second = tok_copy_open(first.tokenizer);
        assert_non_null(second.tokenizer);
        assert_int_equal(first.len, second.len);
        assert_memory_equal(first.bytes, second.bytes, first.len);
        tok_expect_same_facts(made, second.tokenizer);
        tok_copy_close(&second);
        tok_copy_close(&first);
        tdm_tokenizer_destroy(made);
    }
}

static void test_another_build_is_refused(void **state) {
    tdm_buf image;
    tdm_tokenizer *t = NULL;
    tdm_error err = {TDM_OK, "", "", "", ""};
    (void)state;
    tdm_buf_init(&image, NULL, 0);
    image_make(0, &image);
    uint8_t *copy = tdm_mem_alloc_aligned(NULL, image.len, TDM_IMAGE_ALIGN);
    assert_non_null(copy);
    memcpy(copy, image.data, image.len);
    copy[WRITER_AT] ^= 1;
    image_repair(copy, image.len);
    assert_int_equal(tdm_tokenizer_image_open(&t, NULL, copy, image.len, &err), TDM_E_STATE);
    memset(copy + WRITER_AT, 0, 8); /* nobody */
    image_repair(copy, image.len);
    assert_int_equal(tdm_tokenizer_image_open(&t, NULL, copy, image.len, &err), TDM_E_STATE);
    tdm_mem_free_aligned(NULL, copy, image.len, TDM_IMAGE_ALIGN);
    tdm_buf_deinit(&image);
}

static void test_the_build_has_a_name(void **state) {
    uint8_t names[2][TDM_BUILD_ID_MAX] = {{0}};
    (void)state;
    const size_t n = tdm_build_id(names[0]);
    assert_in_range(n, 8, TDM_BUILD_ID_MAX);
    assert_int_equal(tdm_build_id(names[1]), n);
    assert_memory_equal(names[0], names[1], n);
}

static void test_allocations_fail(void **state) {
    const char *json = image_json(0);
    tdm_tokenizer *made = NULL;
    (void)state;
    assert_int_equal(tdm_tokenizer_from_json(&made, NULL, json, strlen(json), NULL, "made", NULL),
                     TDM_OK);
    tok_copy copy = tok_copy_open(made);
    bool is_written = false;
    bool is_opened = false;
    for (size_t n = 1; n < 200 && !(is_written && is_opened); n++) {
        tdm_alloc_tracker tracker;
        tdm_tokenizer *t = NULL;
        tdm_buf image;
        tdm_error err = {TDM_OK, "", "", "", ""};
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        tdm_buf_init(&image, &tracker.alloc, 0);
        const tdm_status written = tdm_tokenizer_image_write(made, &image, &err);
        assert_true(written == TDM_OK || written == TDM_E_NOMEM);
        is_written = written == TDM_OK;
        tdm_buf_deinit(&image);
        tdm_alloc_tracker_init(&tracker, NULL);
        tracker.fail_at = n;
        const tdm_status opened =
            tdm_tokenizer_image_open(&t, &tracker.alloc, copy.bytes, copy.len, &err);
        assert_true(opened == TDM_OK || (opened == TDM_E_NOMEM && t == NULL));
        is_opened = opened == TDM_OK;
        tdm_tokenizer_destroy(t);
        assert_int_equal(tracker.n_live, 0);
    }
    assert_true(is_written && is_opened);
    tok_copy_close(&copy);
    tdm_tokenizer_destroy(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_the_same),
        cmocka_unit_test(test_an_image_of_an_image),
        cmocka_unit_test(test_another_build_is_refused),
        cmocka_unit_test(test_the_build_has_a_name),
        cmocka_unit_test(test_allocations_fail),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
