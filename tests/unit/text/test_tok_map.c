/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps filled at once and maps selected from others find what maps filled one by one find. */
#include "support/support.h"

#include "text/tokenizer_map.h"

#define N 5000

typedef struct texts {
    char bytes[N][8];
    tdm_text_ref refs[N];
    tdm_arena arena;
} texts;

static texts *texts_make(void) {
    texts *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < N; i++) {
        const int n = snprintf(t->bytes[i], sizeof t->bytes[i], "%x", (unsigned)i * 37u % N);
        t->refs[i] = (tdm_text_ref){t->bytes[i], (uint32_t)n};
    }
    tdm_arena_init(&t->arena, NULL);
    return t;
}

static void texts_free(texts *t) {
    tdm_arena_deinit(&t->arena);
    free(t);
}

static void at_once_is_one_by_one(void **state) {
    texts *t = texts_make();
    tdm_text_map one;
    tdm_text_map all;
    (void)state;
    assert_int_equal(tdm_text_map_init(&one, &t->arena, t->refs, N), TDM_OK);
    assert_int_equal(tdm_text_map_init(&all, &t->arena, t->refs, N), TDM_OK);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(tdm_text_map_put(&one, i), -1);
    }
    assert_int_equal(tdm_text_map_put_all(&all, N), -1);
    assert_int_equal(all.len_max, one.len_max);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(tdm_text_map_find(&all, t->refs[i].data, t->refs[i].len), i);
    }
    assert_int_equal(tdm_text_map_find(&all, "zz", 2), -1);
    texts_free(t);
}

static void the_first_repetition_is_told(void **state) {
    (void)state;
    for (int32_t at = 1; at < 40; at++) {
        texts *t = texts_make();
        tdm_text_map all;
        t->refs[at] = t->refs[at / 2];
        t->refs[N - 1] = t->refs[0];
        assert_int_equal(tdm_text_map_init(&all, &t->arena, t->refs, N), TDM_OK);
        assert_int_equal(tdm_text_map_put_all(&all, N), at);
        texts_free(t);
    }
}

static bool keeps_odd(const void *arg, int32_t id) {
    (void)arg;
    return id % 2 == 1;
}

static void a_selection_has_what_is_kept(void **state) {
    texts *t = texts_make();
    tdm_text_map all;
    tdm_text_map odd;
    (void)state;
    assert_int_equal(tdm_text_map_init(&all, &t->arena, t->refs, N), TDM_OK);
    assert_int_equal(tdm_text_map_put_all(&all, N), -1);
    assert_int_equal(tdm_text_map_select(&odd, &t->arena, &all, keeps_odd, NULL), TDM_OK);
    for (int32_t i = 0; i < N; i++) {
        assert_int_equal(tdm_text_map_find(&odd, t->refs[i].data, t->refs[i].len),
                         i % 2 == 1 ? i : -1);
    }
    texts_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_once_is_one_by_one),
        cmocka_unit_test(the_first_repetition_is_told),
        cmocka_unit_test(a_selection_has_what_is_kept),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
