/* SPDX-License-Identifier: Apache-2.0
 *
 * From a command line to a verb and its exit code. A reader of standard output that went away ends
 * the command quietly, as people expect of `tandem ... | head`. */
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const tdm_verb_fn RUN[TDM_VERB_COUNT] = {
    [TDM_VERB_GENERATE] = tdm_verb_generate, [TDM_VERB_CHAT] = tdm_verb_chat,
    [TDM_VERB_TOKENIZE] = tdm_verb_tokenize, [TDM_VERB_DETOKENIZE] = tdm_verb_detokenize,
    [TDM_VERB_TEMPLATE] = tdm_verb_template, [TDM_VERB_EXPLAIN] = tdm_verb_explain,
    [TDM_VERB_SCORE] = tdm_verb_score,       [TDM_VERB_EMBED] = tdm_verb_embed,
    [TDM_VERB_GOLDEN] = tdm_verb_golden,     [TDM_VERB_BENCH] = tdm_verb_bench,
    [TDM_VERB_INSPECT] = tdm_verb_inspect,   [TDM_VERB_FIT] = tdm_verb_fit,
    [TDM_VERB_QUANTIZE] = tdm_verb_quantize, [TDM_VERB_LS] = tdm_verb_ls,
};

static const char *env_text(const char *name) {
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

void tdm_env_read(tdm_env *env) {
    *env = (tdm_env){
        .home = env_text("HOME"),
        .cache_home = env_text("XDG_CACHE_HOME"),
        .state_home = env_text("XDG_STATE_HOME"),
        .hf_home = env_text("HF_HOME"),
        .hf_hub_cache = env_text("HF_HUB_CACHE"),
        .no_color = env_text("NO_COLOR"),
        .is_terminal_err = isatty(STDERR_FILENO) == 1,
    };
}

tdm_status tdm_cli_finish_json(tdm_cli *cli, tdm_json_writer *w, tdm_error *err) {
    tdm_json_write_end_object(w);
    if (tdm_json_writer_status(w) != TDM_OK || tdm_buf_append_byte(w->buf, '\n') != TDM_OK) {
        return tdm_fail_nomem(err, "the answer");
    }
    return tdm_out_bytes(&cli->out, w->buf->data, w->buf->len, err);
}

tdm_status tdm_cli_put_refusal(tdm_cli *cli, tdm_status status, tdm_raised raised, tdm_error *err) {
    tdm_buf buf;
    tdm_json_writer w;
    if (status == TDM_OK || status == TDM_E_IO || status == TDM_E_NOMEM || err == NULL) {
        return status;
    }
    tdm_buf_init(&buf, cli->alloc, 0);
    tdm_json_writer_init(&w, &buf);
    tdm_json_write_begin_object(&w);
    tdm_json_write_key(&w, "ok");
    tdm_json_write_bool(&w, false);
    tdm_json_write_key(&w, "error");
    tdm_json_write_cstr(&w, err->what);
    if (raised != TDM_RAISED_UNSAID) {
        tdm_json_write_key(&w, "raised");
        tdm_json_write_bool(&w, raised == TDM_RAISED_YES);
    }
    tdm_json_write_key(&w, "code");
    tdm_json_write_cstr(&w, tdm_status_name(status));
    tdm_json_write_key(&w, "where");
    tdm_json_write_cstr(&w, err->where);
    status = tdm_cli_finish_json(cli, &w, err);
    tdm_buf_deinit(&buf);
    return status;
}

/* Whether an argument is there, before the line is understood: errors in it are told the same way.
 */
static bool is_given(int argc, char *const *argv, const char *arg) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], arg) == 0) {
            return true;
        }
    }
    return false;
}

/* Words that stand in place of a verb. */
static bool find_text(int argc, char *const *argv, tdm_status (**out_write)(tdm_buf *out)) {
    const char *first = argc > 1 ? argv[1] : "";
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 ||
        (strcmp(first, "help") == 0 && argc == 2)) {
        *out_write = tdm_help_all;
        return true;
    }
    if (strcmp(first, "help-man") == 0) {
        *out_write = tdm_help_man;
        return true;
    }
    if (strcmp(first, "help-bash") == 0) {
        *out_write = tdm_help_bash;
        return true;
    }
    return false;
}

static tdm_status write_version(tdm_buf *out) {
    return tdm_buf_printf(out, "tandem %s\n", tdm_version());
}

static tdm_status put_text(tdm_cli *cli, tdm_status (*write_text)(tdm_buf *out), tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    status = write_text(&buf) == TDM_OK ? tdm_out_bytes(&cli->out, buf.data, buf.len, err)
                                        : tdm_fail_nomem(err, "a text");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status put_verb_help(tdm_cli *cli, tdm_verb_id verb, tdm_error *err) {
    tdm_buf buf;
    tdm_status status = TDM_OK;
    tdm_buf_init(&buf, cli->alloc, 0);
    status = tdm_help_verb(verb, &buf) == TDM_OK ? tdm_out_bytes(&cli->out, buf.data, buf.len, err)
                                                 : tdm_fail_nomem(err, "a text");
    tdm_buf_deinit(&buf);
    return status;
}

static tdm_status run_verb(tdm_cli *cli, tdm_args *args, int argc, char *const *argv,
                           tdm_error *err) {
    tdm_status status = tdm_args_parse(args, cli->alloc, argc, argv, err);
    if (status != TDM_OK) {
        return status;
    }
    cli->args = args;
    cli->is_json = tdm_args_has(args, TDM_OPT_JSON) || tdm_args_has(args, TDM_OPT_JSON_LINES);
    cli->is_quiet = tdm_args_has(args, TDM_OPT_QUIET);
    cli->is_verbose = tdm_args_has(args, TDM_OPT_VERBOSE);
    if (tdm_args_has(args, TDM_OPT_HELP)) {
        return put_verb_help(cli, args->verb, err);
    }
    TDM_TRY(tdm_interrupt_create(&cli->interrupt, cli->alloc, err));
    return RUN[args->verb](cli, err);
}

static tdm_status run(tdm_cli *cli, tdm_args *args, int argc, char *const *argv, tdm_error *err) {
    tdm_status (*write_text)(tdm_buf *) = NULL;
    tdm_verb_id verb = TDM_VERB_COUNT;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        return put_text(cli, write_version, err);
    }
    if (argc == 3 && strcmp(argv[1], "help") == 0 && tdm_verb_find(argv[2], &verb)) {
        return put_verb_help(cli, verb, err);
    }
    if (find_text(argc, argv, &write_text)) {
        return put_text(cli, write_text, err);
    }
    return run_verb(cli, args, argc, argv, err);
}

int tdm_cli_main(const tdm_alloc *alloc, const tdm_env *env, int argc, char *const *argv) {
    tdm_args args = {.alloc = alloc};
    tdm_error error = {.code = TDM_OK};
    const bool is_json = is_given(argc, argv, "--json") || is_given(argc, argv, "--json-lines");
    tdm_cli cli = {
        .alloc = alloc,
        .env = env,
        .args = &args,
        .clock = tdm_clock_system(),
        .has_color =
            env->is_terminal_err && env->no_color == NULL && !is_given(argc, argv, "--no-color"),
    };
    tdm_status status = TDM_OK;
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    tdm_out_init(&cli.out, STDOUT_FILENO);
    status = run(&cli, &args, argc, argv, &error);
    if (status != TDM_OK) {
        cli.exit_code = tdm_status_exit_code(status);
        if (cli.out.is_closed) {
            cli.exit_code = 0;
        } else {
            error.code = status;
            tdm_cli_print_error(&error, is_json, cli.has_color);
        }
    }
    tdm_interrupt_destroy(cli.interrupt);
    tdm_args_deinit(&args);
    return cli.exit_code;
}
