/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of tokenizers with right checks and wrong numbers: thousands of changes to small images of
 * each kind, opened and used in this process. None may reach memory that is not its own, run for
 * ever, or give an id outside its vocabulary. Without a right check every change is refused. */
#include "support/support.h"

#include "base/random.h"
#include "fuzz/image_laws.h"
#include "text/unicode.h"

#define CASES 1500u

typedef struct rig {
    tdm_buf image;
    uint8_t *copy; /* of the image's length, aligned */
} rig;

static rig rig_open(size_t kind) {
    rig r;
    tdm_buf_init(&r.image, NULL, 0);
    image_make(kind, &r.image);
    r.copy = tdm_mem_alloc_aligned(NULL, r.image.len, TDM_IMAGE_ALIGN);
    assert_non_null(r.copy);
    memcpy(r.copy, r.image.data, r.image.len);
    return r;
}

static void rig_close(rig *r) {
    tdm_mem_free_aligned(NULL, r->copy, r->image.len, TDM_IMAGE_ALIGN);
    tdm_buf_deinit(&r->image);
}

static uint32_t draw(size_t kind, uint32_t n, uint32_t i) {
    return (uint32_t)tdm_random_u64(41, (uint32_t)kind, n, i);
}

/* A place for a change: seldom in the table of characters, where any byte is right. */
static size_t place_of(const rig *r, size_t kind, uint32_t n, uint32_t i) {
    const size_t behind = 64 + sizeof(tdm_unicode);
    const uint32_t where = draw(kind, n, i);
    const size_t last = r->image.len - 8;
    switch (draw(kind, n, i + 1) % 4) {
    case 0:
        return IMAGE_HEAD_BYTES + where % 24;
    case 1:
        return behind + where % 1024;
    case 2:
        return last - where % 2048;
    default:
        return behind + where % (last - behind);
    }
}

static void change(rig *r, size_t kind, uint32_t n, uint32_t i) {
    static const uint64_t VALUES[] = {0,
                                      1,
                                      2,
                                      7,
                                      10,
                                      11,
                                      64,
                                      255,
                                      65536,
                                      INT32_MAX,
                                      UINT32_MAX,
                                      (uint64_t)1 << 32,
                                      (uint64_t)1 << 63,
                                      UINT64_MAX,
                                      UINT64_MAX - 7};
    const uint32_t pick = draw(kind, n, i + 2);
    const size_t width = (size_t)1 << pick % 4;
    const uint64_t value = pick / 4 % 2 == 0 ? VALUES[pick / 8 % SUPPORT_LEN(VALUES)]
                                             : tdm_random_u64(42, (uint32_t)kind, n, i);
    size_t at = place_of(r, kind, n, i);
    at = pick / 512 % 4 != 0 ? at / width * width : at;
    memcpy(r->copy + at, &value, width);
}

static void test_changes_stay_inside(void **state) {
    (void)state;
    for (size_t kind = 0; kind < IMAGE_KINDS; kind++) {
        rig r = rig_open(kind);
        uint32_t n_accepted = 0;
        assert_true(image_try(r.copy, r.image.len));
        for (uint32_t n = 0; n < CASES; n++) {
            memcpy(r.copy, r.image.data, r.image.len);
            for (uint32_t i = 0; i <= draw(kind, n, 99) % 3; i++) {
                change(&r, kind, n, i * 8);
            }
            image_repair(r.copy, r.image.len);
            n_accepted += image_try(r.copy, r.image.len);
        }
        /* both happen, or the cases say nothing */
        assert_in_range(n_accepted, CASES / 20, CASES - CASES / 20);
        rig_close(&r);
    }
}

static void test_any_length_is_looked_at(void **state) {
    (void)state;
    for (size_t kind = 0; kind < IMAGE_KINDS; kind++) {
        rig r = rig_open(kind);
        for (size_t len = IMAGE_HEAD_BYTES; len < r.image.len; len += 1 + len / 40) {
            uint8_t *cut = tdm_mem_alloc_aligned(NULL, len, TDM_IMAGE_ALIGN);
            assert_non_null(cut);
            memcpy(cut, r.image.data, len);
            assert_false(image_try(cut, len)); /* as it is */
            image_repair(cut, len);
            assert_false(image_try(cut, len)); /* and as if it had been written so */
            tdm_mem_free_aligned(NULL, cut, len, TDM_IMAGE_ALIGN);
        }
        for (size_t len = 0; len < IMAGE_HEAD_BYTES; len++) {
            assert_false(image_try(r.copy, len));
        }
        rig_close(&r);
    }
}

static void test_damage_is_refused(void **state) {
    (void)state;
    for (size_t kind = 0; kind < IMAGE_KINDS; kind++) {
        rig r = rig_open(kind);
        for (size_t at = 0; at < r.image.len; at += 1 + at / 30) {
            r.copy[at] ^= (uint8_t)(1u << at % 8);
            assert_false(image_try(r.copy, r.image.len));
            r.copy[at] ^= (uint8_t)(1u << at % 8);
        }
        assert_true(image_try(r.copy, r.image.len));
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_stay_inside),
        cmocka_unit_test(test_any_length_is_looked_at),
        cmocka_unit_test(test_damage_is_refused),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
