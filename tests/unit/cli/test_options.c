/* SPDX-License-Identifier: Apache-2.0
 *
 * Command lines: what is understood, what is refused and how, and the texts made of the tables. */
#include "support/support.h"

#include "cli/options.h"

#define ARGC_MAX 24

/* Parses words apart by single spaces; "''" is an empty word. words must outlive args. */
static tdm_status parse(tdm_args *args, char *words, tdm_error *err) {
    char *argv[ARGC_MAX];
    int argc = 0;
    argv[argc++] = words;
    for (char *at = strchr(words, ' '); at != NULL && argc < ARGC_MAX; at = strchr(at, ' ')) {
        *at++ = '\0';
        argv[argc++] = strncmp(at, "''", 2) == 0 ? at + 2 : at;
    }
    return tdm_args_parse(args, NULL, argc, argv, err);
}

static void accepted(tdm_args *args, char *words) {
    tdm_error err = {.code = TDM_OK};
    const tdm_status status = parse(args, words, &err);
    if (status != TDM_OK) {
        fail_msg("%s: %s", words, err.what);
    }
}

static void refused(const char *line, const char *what, const char *remedy) {
    char words[256];
    tdm_args args;
    tdm_error err = {.code = TDM_OK};
    assert_true(snprintf(words, sizeof words, "%s", line) < (int)sizeof words);
    assert_int_equal(parse(&args, words, &err), TDM_E_ARG);
    assert_int_equal(err.code, TDM_E_ARG);
    if (strstr(err.what, what) == NULL || strstr(err.remedy, remedy) == NULL) {
        fail_msg("%s: \"%s\" (%s), wanted \"%s\" (%s)", line, err.what, err.remedy, what, remedy);
    }
    tdm_args_deinit(&args);
}

static void test_forms_of_an_option(void **state) {
    char words[] = "tandem generate M -n 5 --temp=0.5 --top-k 40 -pHello --ignore-eos -qv";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_int_equal(args.verb, TDM_VERB_GENERATE);
    assert_int_equal(args.n_positional, 1);
    assert_string_equal(args.positional[0], "M");
    assert_int_equal(tdm_args_integer(&args, TDM_OPT_MAX_TOKENS, 0), 5);
    assert_true(tdm_args_real(&args, TDM_OPT_TEMP, 0) == 0.5);
    assert_int_equal(tdm_args_integer(&args, TDM_OPT_TOP_K, 0), 40);
    assert_string_equal(tdm_args_text(&args, TDM_OPT_PROMPT), "Hello");
    assert_true(tdm_args_has(&args, TDM_OPT_IGNORE_EOS));
    assert_true(tdm_args_has(&args, TDM_OPT_QUIET));
    assert_true(tdm_args_has(&args, TDM_OPT_VERBOSE));
    assert_false(tdm_args_has(&args, TDM_OPT_JSON));
    assert_int_equal(tdm_args_integer(&args, TDM_OPT_THREADS, 7), 7);
    assert_null(tdm_args_text(&args, TDM_OPT_FILE));
    tdm_args_deinit(&args);
}

static void test_common_options_stand_before_the_verb(void **state) {
    char words[] = "tandem --json -q --progress none ls";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_int_equal(args.verb, TDM_VERB_LS);
    assert_true(tdm_args_has(&args, TDM_OPT_JSON));
    assert_string_equal(tdm_args_text(&args, TDM_OPT_PROGRESS), "none");
    tdm_args_deinit(&args);
    refused("tandem --temp 1 generate M", "before the verb", "");
}

static void test_one_letter_means_what_its_verb_says(void **state) {
    char generate[] = "tandem generate M -p text -n 3";
    char bench[] = "tandem bench M -p 1,2,512 -n 0 -t 1,2";
    tdm_args args;
    (void)state;
    accepted(&args, generate);
    assert_string_equal(tdm_args_text(&args, TDM_OPT_PROMPT), "text");
    assert_false(tdm_args_has(&args, TDM_OPT_BENCH_PROMPT));
    tdm_args_deinit(&args);
    accepted(&args, bench);
    assert_int_equal(args.values[TDM_OPT_BENCH_PROMPT].n_items, 3);
    assert_int_equal(args.values[TDM_OPT_BENCH_PROMPT].items[2], 512);
    assert_int_equal(args.values[TDM_OPT_BENCH_GEN].items[0], 0);
    assert_int_equal(args.values[TDM_OPT_THREADS_LIST].n_items, 2);
    tdm_args_deinit(&args);
}

static void test_repeated_options_keep_their_order(void **state) {
    char words[] = "tandem generate M --stop a --logit-bias 3=1 --stop b --stop ''";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_string_equal(tdm_args_repeat(&args, TDM_OPT_STOP, 0), "a");
    assert_string_equal(tdm_args_repeat(&args, TDM_OPT_STOP, 1), "b");
    assert_string_equal(tdm_args_repeat(&args, TDM_OPT_STOP, 2), "");
    assert_null(tdm_args_repeat(&args, TDM_OPT_STOP, 3));
    assert_string_equal(tdm_args_repeat(&args, TDM_OPT_LOGIT_BIAS, 0), "3=1");
    tdm_args_deinit(&args);
}

static void test_two_dashes_end_options(void **state) {
    char words[] = "tandem inspect -- --odd-name";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_string_equal(args.positional[0], "--odd-name");
    tdm_args_deinit(&args);
}

static void test_whole_seeds(void **state) {
    char words[] = "tandem generate M --seed 18446744073709551615";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_true((uint64_t)tdm_args_integer(&args, TDM_OPT_SEED, 0) == UINT64_MAX);
    tdm_args_deinit(&args);
    refused("tandem generate M --seed 18446744073709551616", "--seed", "");
    refused("tandem generate M --seed -1", "--seed", "");
}

static void test_refusals_say_what_to_do(void **state) {
    (void)state;
    refused("tandem", "a verb is needed", "tandem --help");
    refused("tandem genrate M", "unknown verb \"genrate\"", "did you mean generate?");
    refused("tandem generate", "generate needs MODEL", "--help");
    refused("tandem generate M --tmep 1", "unknown option \"--tmep\"", "did you mean --temp?");
    refused("tandem generate M --mates 1", "unknown option", "");
    refused("tandem generate M -Z", "unknown option \"-Z\"", "generate --help");
    refused("tandem generate M -n", "-n needs a value", "");
    refused("tandem generate M -n 0", "--max-tokens", "");
    refused("tandem generate M -n 3x", "--max-tokens", "");
    refused("tandem generate M -n ''", "--max-tokens", "");
    refused("tandem generate M --temp nan", "--temp", "");
    refused("tandem generate M --temp 9", "--temp", "");
    refused("tandem generate M --tier quick", "--tier", "");
    refused("tandem generate M --json=yes", "takes no value", "");
    refused("tandem bench M -p 1,,2", "--n-prompt", "");
    refused("tandem bench M -p 1,2,", "--n-prompt", "");
    refused("tandem bench M -p 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "--n-prompt", "");
    refused("tandem ls M", "one argument too many", "");
    refused("tandem generate M N", "one argument too many", "");
    refused("tandem template A B C", "one argument too many", "");
}

static void test_help_of_a_verb_needs_no_model(void **state) {
    char words[] = "tandem generate --help";
    tdm_args args;
    (void)state;
    accepted(&args, words);
    assert_true(tdm_args_has(&args, TDM_OPT_HELP));
    tdm_args_deinit(&args);
}

/* Every row is whole, and no verb has two options of one name or letter. */
static void test_table(void **state) {
    (void)state;
    for (int i = 0; i < TDM_OPT_COUNT; i++) {
        const tdm_option_row *a = &TDM_OPTIONS[i];
        assert_non_null(a->name);
        assert_non_null(a->help);
        assert_true(a->verbs != 0);
        assert_int_equal(a->kind == TDM_OPTION_FLAG, a->argument == NULL);
        for (int j = i + 1; j < TDM_OPT_COUNT; j++) {
            const tdm_option_row *b = &TDM_OPTIONS[j];
            if ((a->verbs & b->verbs) != 0) {
                assert_string_not_equal(a->name, b->name);
                assert_true(a->letter == 0 || a->letter != b->letter);
            }
        }
    }
}

static void test_help_names_every_option(void **state) {
    tdm_buf buf;
    (void)state;
    tdm_buf_init(&buf, NULL, 0);
    for (int v = 0; v < TDM_VERB_COUNT; v++) {
        const char *text = NULL;
        tdm_buf_reset(&buf);
        assert_int_equal(tdm_help_verb((tdm_verb_id)v, &buf), TDM_OK);
        text = tdm_buf_text(&buf);
        for (int i = 0; i < TDM_OPT_COUNT; i++) {
            char name[64];
            (void)snprintf(name, sizeof name, "--%s", TDM_OPTIONS[i].name);
            if ((TDM_OPTIONS[i].verbs & (1U << v)) != 0) {
                assert_non_null(strstr(text, name));
            }
        }
        for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
            assert_true(strcspn(line, "\n") <= 100);
        }
    }
    tdm_buf_deinit(&buf);
}

static void compare_with_file(tdm_status (*write_text)(tdm_buf *out), const char *rel) {
    char path[SUPPORT_PATH_MAX];
    size_t bytes = 0;
    tdm_buf buf;
    char *file = support_read_file(support_join(path, TDM_SOURCE_DIR, rel), &bytes);
    tdm_buf_init(&buf, NULL, 0);
    assert_int_equal(write_text(&buf), TDM_OK);
    assert_int_equal(buf.len, bytes);
    assert_memory_equal(buf.data, file, bytes);
    tdm_buf_deinit(&buf);
    free(file);
}

static void test_generated_files_are_fresh(void **state) {
    (void)state;
    compare_with_file(tdm_help_man, "docs/man/tandem.1");
    compare_with_file(tdm_help_bash, "docs/completion/tandem.bash");
}

static void test_guess(void **state) {
    tdm_guess guess;
    (void)state;
    tdm_guess_init(&guess, "SmolLM2-135m-instruct");
    tdm_guess_offer(&guess, "gemma-3-270m-q4_k_m");
    assert_string_equal(guess.best, "");
    tdm_guess_offer(&guess, "SmolLM2-135M-Instruct.Q4_1");
    assert_string_equal(guess.best, "SmolLM2-135M-Instruct.Q4_1");
    tdm_guess_init(&guess, "");
    tdm_guess_offer(&guess, "a");
    assert_string_equal(guess.best, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms_of_an_option),
        cmocka_unit_test(test_common_options_stand_before_the_verb),
        cmocka_unit_test(test_one_letter_means_what_its_verb_says),
        cmocka_unit_test(test_repeated_options_keep_their_order),
        cmocka_unit_test(test_two_dashes_end_options),
        cmocka_unit_test(test_whole_seeds),
        cmocka_unit_test(test_refusals_say_what_to_do),
        cmocka_unit_test(test_help_of_a_verb_needs_no_model),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_help_names_every_option),
        cmocka_unit_test(test_generated_files_are_fresh),
        cmocka_unit_test(test_guess),
    };
    return support_exit(cmocka_run_group_tests(tests, NULL, NULL), SUPPORT_LEN(tests));
}
