/* SPDX-License-Identifier: Apache-2.0
 *
 * What every verb is given, and the small things that verbs share. Floor 10.
 * Only main's thread uses a tdm_cli; the interrupt has a thread of its own. */
#ifndef TDM_CLI_CLI_H
#define TDM_CLI_CLI_H

#include "base/clock.h"
#include "base/json.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/out.h"
#include "text/tokenizer.h"

/* The environment, read once. Every text may be NULL. */
typedef struct tdm_env {
    const char *home;
    const char *cache_home;   /* XDG_CACHE_HOME */
    const char *state_home;   /* XDG_STATE_HOME */
    const char *hf_home;      /* HF_HOME */
    const char *hf_hub_cache; /* HF_HUB_CACHE */
    const char *no_color;     /* NO_COLOR, set to anything but nothing */
    bool is_terminal_err;     /* standard error is a terminal */
} tdm_env;

void tdm_env_read(tdm_env *env);

typedef struct tdm_cli {
    const tdm_alloc *alloc;
    const tdm_env *env;
    const tdm_args *args;
    const tdm_clock *clock;
    tdm_interrupt *interrupt;
    tdm_out out;  /* standard output */
    bool is_json; /* --json or --json-lines */
    bool is_quiet, is_verbose;
    bool has_color; /* on standard error */
    int exit_code;  /* what the verb ends with when it returns TDM_OK */
} tdm_cli;

/* The whole command; returns the exit code. */
int tdm_cli_main(const tdm_alloc *alloc, const tdm_env *env, int argc, char *const *argv);

/* The verbs. TDM_OK, or an error that the command prints. */
typedef tdm_status (*tdm_verb_fn)(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_generate(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_chat(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_tokenize(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_detokenize(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_template(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_explain(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_score(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_embed(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_golden(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_bench(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_inspect(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_fit(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_quantize(tdm_cli *cli, tdm_error *err);
tdm_status tdm_verb_ls(tdm_cli *cli, tdm_error *err);

/* A line on standard error for a person; nothing with --quiet. Bytes that could drive a terminal
 * are spelled out. */
void tdm_cli_note(const tdm_cli *cli, const char *fmt, ...) TDM_PRINTF(2, 3);
/* The error on standard error, for a person or as one JSON object. */
void tdm_cli_print_error(const tdm_error *error, bool is_json, bool has_color);

/* Ends a JSON writer's object and writes its buffer and a line feed to standard output. */
TDM_NODISCARD tdm_status tdm_cli_finish_json(tdm_cli *cli, tdm_json_writer *w, tdm_error *err);

/* The batch forms' answer to a line that cannot be served, {"ok":false,"error":...}; raised adds
 * that member. Errors of the machine (TDM_E_IO, TDM_E_NOMEM) are passed up instead. */
typedef enum tdm_raised { TDM_RAISED_UNSAID, TDM_RAISED_NO, TDM_RAISED_YES } tdm_raised;
TDM_NODISCARD tdm_status tdm_cli_put_refusal(tdm_cli *cli, tdm_status status, tdm_raised raised,
                                             tdm_error *err);

/* Appends a whole file to buf; "-" or NULL is standard input, as tdm_input_name calls it.
 * Errors: TDM_E_NOT_FOUND, TDM_E_IO, TDM_E_LIMIT (256 MiB), TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_input_read(tdm_buf *buf, const char *path, tdm_error *err);
const char *tdm_input_name(const char *path);
/* TDM_E_FORMAT with the offset of the first byte that is no UTF-8. */
TDM_NODISCARD tdm_status tdm_input_check_utf8(const char *text, size_t len, const char *name,
                                              tdm_error *err);
/* Ids of a JSON node: an array, or an object whose "ids" is one. Appends. */
TDM_NODISCARD tdm_status tdm_input_ids_of(const tdm_json *node, const char *name, tdm_ids *ids,
                                          tdm_error *err);
/* Reads a file of ids. */
TDM_NODISCARD tdm_status tdm_input_ids(const tdm_alloc *alloc, const char *path, tdm_ids *ids,
                                       tdm_error *err);

/* Calls line for each line of standard input, LF left out, as it comes. The first failure ends it.
 */
typedef tdm_status (*tdm_line_fn)(void *arg, const char *line, size_t len, tdm_error *err);
TDM_NODISCARD tdm_status tdm_input_lines(const tdm_alloc *alloc, tdm_line_fn fn, void *arg,
                                         tdm_error *err);

#endif
