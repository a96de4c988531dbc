/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening what MODEL names: whole, or its text side only. Floor 10. */
#ifndef TDM_CLI_LOAD_H
#define TDM_CLI_LOAD_H

#include "cli/cli.h"
#include "formats/checkpoint.h"
#include "text/template.h"

/* Fills options from the command line; texts are borrowed from it. */
void tdm_cli_model_options(const tdm_cli *cli, tdm_model_options *out);
/* Finds and opens name, with progress and warnings on standard error. Ctrl-C stops it
 * (TDM_E_CANCELLED). options NULL: the command line's. Owns: caller closes. */
TDM_NODISCARD tdm_status tdm_cli_open_model(tdm_cli *cli, const char *name,
                                            const tdm_model_options *options, tdm_model **out_model,
                                            tdm_error *err);

/* The text side of a checkpoint: no weight is touched. */
typedef struct tdm_cli_text {
    tdm_checkpoint *checkpoint;
    tdm_tokenizer *tokenizer;
    tdm_template *chat_template;  /* NULL: none */
    tdm_json_doc *special_tokens; /* for templates; NULL until the template is opened */
} tdm_cli_text;

/* Opens checkpoint and tokenizer. Owns: close, also after a failure. */
TDM_NODISCARD tdm_status tdm_cli_text_open(tdm_cli *cli, const char *name, tdm_cli_text *out,
                                           tdm_error *err);
/* Adds the chat template and the special tokens. TDM_E_STATE when there is no template. */
TDM_NODISCARD tdm_status tdm_cli_text_open_template(tdm_cli *cli, tdm_cli_text *text,
                                                    tdm_error *err);
void tdm_cli_text_close(tdm_cli_text *text);

#endif
