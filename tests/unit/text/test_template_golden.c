/* SPDX-License-Identifier: Apache-2.0
 *
 * Every template of the shared folder against every conversation, byte for byte what the reference
 * renderer gave; and where the text of messages ends up: in untrusted spans, always. */
#include "test_template_kit.h"

static void every_template_equals_the_reference(void **state) {
    char dir[SUPPORT_PATH_MAX];
    kit_folder f;
    (void)state;
    SUPPORT_NEED_SHARED(dir, "templates");
    kit_folder_open(&f, dir);
    kit_each_template(&f, kit_check_template);
    (void)printf("%zu templates, %zu renderings, %zu wrong\n", f.n_templates, f.n_renders,
                 f.n_wrong);
    assert_true(f.n_templates >= 53);
    assert_int_equal(f.n_wrong, 0);
    kit_folder_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_template_equals_the_reference),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
