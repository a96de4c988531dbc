/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of a folder: tokenizer.json with tokenizer_config.json, and the chat template file
 * that wins over both; a folder without one is said so. */
#include "support/support.h"

#include "text/tokenizer.h"

static void copy_tokenizer(const char *dir) {
    char from[SUPPORT_PATH_MAX];
    char to[SUPPORT_PATH_MAX];
    size_t len = 0;
    char *text =
        support_read_file(support_data_path(from, "tokenizers/llama3/tokenizer.json"), &len);
    support_write_file(support_join(to, dir, "tokenizer.json"), text, len);
    free(text);
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[SUPPORT_PATH_MAX];
    support_write_file(support_join(path, dir, name), text, strlen(text));
}

static tdm_status open_folder(const char *dir, tdm_tokenizer **out, tdm_error *err) {
    const tdm_checkpoint_options options = {.is_tokenizer_enough = true};
    tdm_checkpoint *checkpoint = NULL;
    tdm_status status = tdm_checkpoint_open(&checkpoint, NULL, dir, &options, err);
    if (status == TDM_OK) {
        status = tdm_tokenizer_open(out, NULL, checkpoint, NULL, err);
    }
    tdm_checkpoint_close(checkpoint); /* the tokenizer keeps nothing of it */
    return status;
}

static void test_folder(void **state) {
    char dir[SUPPORT_PATH_MAX];
    char path[SUPPORT_PATH_MAX];
    tdm_error err = {TDM_OK, "", "", "", ""};
    tdm_tokenizer *tokenizer = NULL;
    size_t len = 0;
    (void)state;
    (void)support_temp_folder(dir);
    copy_tokenizer(dir);
    write_text(dir, "tokenizer_config.json",
               "{\"eos_token\":\"<|im_end|>\",\"chat_template\":\"from the config\"}");
    if (open_folder(dir, &tokenizer, &err) != TDM_OK) {
        fail_msg("%s (%s)", err.what, err.where);
    }
    assert_string_equal(tdm_tokenizer_chat_template(tokenizer, &len), "from the config");
    assert_int_equal(tdm_tokenizer_eos(tokenizer), tdm_tokenizer_find(tokenizer, "<|im_end|>", 10));
    tdm_tokenizer_destroy(tokenizer);
    write_text(dir, "chat_template.jinja", "from the file");
    assert_int_equal(open_folder(dir, &tokenizer, &err), TDM_OK);
    assert_string_equal(tdm_tokenizer_chat_template(tokenizer, &len), "from the file");
    tdm_tokenizer_destroy(tokenizer);
    tokenizer = NULL;
    assert_int_equal(unlink(support_join(path, dir, "tokenizer.json")), 0);
    assert_int_not_equal(open_folder(dir, &tokenizer, &err), TDM_OK);
    assert_null(tokenizer);
    assert_true(err.what[0] != '\0');
    support_remove_folder(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_folder)};
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
