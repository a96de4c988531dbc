/* SPDX-License-Identifier: Apache-2.0
 *
 * Statuses and errors: the list, formatting, truncation at a character, notes, the checks. */
#include "support/support.h"

#include "base/status.h"

static void test_list(void **state) {
    (void)state;
    for (int i = 0; i < TDM_STATUS_COUNT; i++) {
        const tdm_status status = (tdm_status)i;
        assert_true(tdm_status_name(status)[0] != '\0');
        assert_true(tdm_status_sentence(status)[0] != '\0');
        assert_in_range(tdm_status_http(status), 200, 599);
        assert_in_range(tdm_status_exit_code(status), 0, 255);
        assert_true((tdm_status_exit_code(status) == 0) == (status == TDM_OK));
        for (int j = 0; j < i; j++) { /* names are unique */
            assert_string_not_equal(tdm_status_name(status), tdm_status_name((tdm_status)j));
        }
    }
    assert_string_equal(tdm_status_name(TDM_E_FORMAT), "corrupt");
    assert_int_equal(tdm_status_http(TDM_E_ARG), 400);
    assert_int_equal(tdm_status_exit_code(TDM_E_CANCELLED), 130);
    assert_non_null(tdm_status_name((tdm_status)9999)); /* never NULL */
    assert_non_null(tdm_status_sentence((tdm_status)-1));
}

static void test_fields(void **state) {
    tdm_error err;
    (void)state;
    memset(&err, 'x', sizeof err); /* a fresh error may hold anything */
    assert_int_equal(tdm_fail(&err, TDM_E_LIMIT, "%d of %s", 3, "four"), TDM_E_LIMIT);
    assert_int_equal(err.code, TDM_E_LIMIT);
    assert_string_equal(err.what, "3 of four");
    assert_string_equal(err.where, "");
    assert_string_equal(err.limit, "");
    assert_string_equal(err.remedy, "");
    tdm_err_where(&err, "%s:%d", "file", 7);
    tdm_err_limit(&err, "%d", 5);
    tdm_err_remedy(&err, "do %s", "less");
    tdm_err_note(&err, "layer %d", 3);
    assert_string_equal(err.what, "layer 3: 3 of four");
    assert_string_equal(err.where, "file:7");
    assert_string_equal(err.limit, "5");
    assert_string_equal(err.remedy, "do less");
    assert_int_equal(tdm_fail_nomem(&err, "a thing"), TDM_E_NOMEM);
    assert_non_null(strstr(err.what, "a thing"));
    assert_string_equal(err.where, "");
    assert_true(err.remedy[0] != '\0');
    tdm_err_clear(&err);
    assert_int_equal(err.code, TDM_OK);
    assert_string_equal(err.what, "");
}

static void test_null_error(void **state) {
    (void)state;
    assert_int_equal(tdm_fail(NULL, TDM_E_IO, "%d", 1), TDM_E_IO);
    assert_int_equal(tdm_fail_nomem(NULL, "x"), TDM_E_NOMEM);
    tdm_err_where(NULL, "x");
    tdm_err_limit(NULL, "x");
    tdm_err_remedy(NULL, "x");
    tdm_err_note(NULL, "x");
    tdm_err_clear(NULL);
}

/* Bytes of the last whole character of a text that was cut; "..." comes after it. */
static void assert_cut(const char *field, size_t cap, const char *unit) {
    const size_t len = strlen(field);
    const size_t unit_len = strlen(unit);
    assert_true(len < cap && len >= cap - 4 - unit_len);
    assert_string_equal(field + len - 3, "...");
    assert_int_equal((len - 3) % unit_len, 0);
    for (size_t i = 0; i < len - 3; i += unit_len) {
        assert_memory_equal(field + i, unit, unit_len);
    }
}

static void test_truncation(void **state) {
    const char *units[] = {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"};
    (void)state;
    for (size_t u = 0; u < SUPPORT_LEN(units); u++) {
        char text[1024] = "";
        tdm_error err;
        for (int i = 0; i < 200; i++) {
            memcpy(text + strlen(text), units[u], strlen(units[u]) + 1);
        }
        for (int i = 0; strlen(text) < 600 && i < 400; i++) {
            memcpy(text + strlen(text), units[u], strlen(units[u]) + 1);
        }
        (void)tdm_fail(&err, TDM_E_ARG, "%s", text);
        assert_cut(err.what, sizeof err.what, units[u]);
        tdm_err_where(&err, "%s", text);
        assert_cut(err.where, sizeof err.where, units[u]);
        tdm_err_limit(&err, "%s", text);
        assert_cut(err.limit, sizeof err.limit, units[u]);
        tdm_err_remedy(&err, "%s", text);
        assert_cut(err.remedy, sizeof err.remedy, units[u]);
        (void)tdm_fail(&err, TDM_E_ARG, "%s", "short");
        tdm_err_note(&err, "%s", text); /* the note alone fills the field */
        assert_true(strlen(err.what) < sizeof err.what);
        assert_string_equal(err.what + strlen(err.what) - 3, "...");
    }
}

/* A field takes exactly its size less the NUL without a cut. */
static void test_exact_fit(void **state) {
    tdm_error err;
    char text[sizeof err.what];
    (void)state;
    memset(text, 'z', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)tdm_fail(&err, TDM_E_ARG, "%s", text);
    assert_string_equal(err.what, text);
    tdm_err_note(&err, "n");
    assert_int_equal(strlen(err.what), sizeof err.what - 1);
    assert_memory_equal(err.what, "n: zzz", 6);
    assert_string_equal(err.what + sizeof err.what - 5, "z...");
}

/* An error may be built from its own text. */
static void test_own_text(void **state) {
    tdm_error err;
    (void)state;
    (void)tdm_fail(&err, TDM_E_IO, "inner");
    (void)tdm_fail(&err, TDM_E_FORMAT, "outer: %s", err.what);
    assert_string_equal(err.what, "outer: inner");
}

static tdm_status passes(tdm_status status, int *reached) {
    TDM_TRY(status);
    *reached = 1;
    return TDM_OK;
}

static tdm_status passes_goto(tdm_status first, int *n_done) {
    tdm_status status = TDM_OK;
    TDM_TRY_GOTO(status, first, done);
    *n_done += 10;
done:
    *n_done += 1;
    return status;
}

static void test_try(void **state) {
    int reached = 0;
    int n_done = 0;
    (void)state;
    assert_int_equal(passes(TDM_E_BUSY, &reached), TDM_E_BUSY);
    assert_int_equal(reached, 0);
    assert_int_equal(passes(TDM_OK, &reached), TDM_OK);
    assert_int_equal(reached, 1);
    assert_int_equal(passes_goto(TDM_E_BUSY, &n_done), TDM_E_BUSY);
    assert_int_equal(n_done, 1);
    assert_int_equal(passes_goto(TDM_OK, &n_done), TDM_OK);
    assert_int_equal(n_done, 12);
}

static int check_false(void *arg) {
    TDM_CHECK(arg == NULL);
    return 0;
}

static void test_check_aborts(void **state) {
    int something = 0;
    (void)state;
    assert_int_equal(support_run_child(check_false, NULL), 0);
    assert_int_equal(support_run_child(check_false, &something), 128 + 6); /* SIGABRT */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),       cmocka_unit_test(test_fields),
        cmocka_unit_test(test_null_error), cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_exact_fit),  cmocka_unit_test(test_own_text),
        cmocka_unit_test(test_try),        cmocka_unit_test(test_check_aborts),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
