/* SPDX-License-Identifier: Apache-2.0
 *
 * The small templates of tests/data/templates/cases.json: white space marks, every filter, test and
 * method over many kinds of values, operators, statements; each equal to the reference's text or
 * refused where it refuses. */
#include "test_template_kit.h"

static size_t check_case(const tdm_json *row, const tdm_json *variables) {
    const tdm_json *source = &row->u.items[0];
    const tdm_json *text = &row->u.items[1];
    const tdm_json *message = row->len > 2 ? &row->u.items[2] : NULL;
    tdm_error err = {0};
    tdm_template *tmpl = NULL;
    tdm_template_output o;
    tdm_template_output_init(&o, NULL);
    const tdm_template_input input = {
        .variables = &variables, .n_variables = 1, .now_unix_s = KIT_NOW};
    tdm_status status =
        tdm_template_compile(&tmpl, NULL, source->u.text, source->len, "case", &err);
    if (status == TDM_OK) {
        status = tdm_template_render(tmpl, NULL, &input, &o, &err);
    }
    bool is_right = false;
    if (text->kind == TDM_JSON_NULL) {
        is_right = status != TDM_OK && o.was_raised == (message != NULL) &&
                   strstr(err.where, "line ") != NULL &&
                   (message == NULL || kit_text_is(message, &o.raised));
    } else {
        is_right = status == TDM_OK && kit_text_is(text, &o.text);
        kit_check_spans(&o);
    }
    if (!is_right) {
        (void)fprintf(stderr, "WRONG %s\n  want %s\n  got  %.*s %s (%s)\n", source->u.text,
                      text->kind == TDM_JSON_NULL ? "a refusal" : text->u.text, (int)o.text.len,
                      o.text.data == NULL ? "" : o.text.data, err.what, err.where);
    }
    tdm_template_output_deinit(&o);
    tdm_template_destroy(tmpl);
    return is_right ? 0 : 1;
}

static void small_templates_equal_the_reference(void **state) {
    char path[SUPPORT_PATH_MAX];
    (void)state;
    tdm_json_doc *doc = kit_load(support_data_path(path, "templates/cases.json"));
    const tdm_json *variables = tdm_json_get(tdm_json_doc_root(doc), "variables");
    const tdm_json *cases = tdm_json_get(tdm_json_doc_root(doc), "cases");
    size_t n_wrong = 0;
    for (size_t i = 0; i < tdm_json_len(cases); i++) {
        n_wrong += check_case(&cases->u.items[i], variables);
    }
    (void)printf("%zu cases, %zu wrong\n", tdm_json_len(cases), n_wrong);
    assert_true(tdm_json_len(cases) > 3000);
    assert_int_equal(n_wrong, 0);
    tdm_json_doc_destroy(doc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_templates_equal_the_reference),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
