/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening what MODEL names: whole, or its text side only. Floor 10. */
#ifndef TDM_CLI_LOAD_H
#define TDM_CLI_LOAD_H

#include "cli/cli.h"
#include "engine/chat_templates.h"

/* Fills options from the command line; texts are borrowed from it. */
void tdm_cli_model_options(const tdm_cli *cli, tdm_model_options *out);
/* Finds and opens name, with progress and warnings on standard error. Ctrl-C stops it
 * (TDM_E_CANCELLED). options NULL: the command line's. Owns: caller closes. */
TDM_NODISCARD tdm_status tdm_cli_open_model(tdm_cli *cli, const char *name,
                                            const tdm_model_options *options, tdm_model **out_model,
                                            tdm_error *err);

/* The line of progress after ns, as a terminal gets it: layers made ready, and with them their share
 * of bytes, 0 where the files' length is unknown. */
void tdm_cli_load_line(char *out, size_t out_bytes, int32_t done, int32_t all, uint64_t bytes,
                       int64_t ns);

/* The text side of a checkpoint: no weight is touched. */
typedef struct tdm_cli_text {
    tdm_checkpoint *checkpoint;
    tdm_tokenizer *tokenizer;
    tdm_chat_templates *templates; /* NULL until they are opened */
    tdm_json_doc *special_tokens;  /* for templates; likewise, and NULL without a tokenizer */
} tdm_cli_text;

/* Opens checkpoint and tokenizer. Owns: close, also after a failure. */
TDM_NODISCARD tdm_status tdm_cli_text_open(tdm_cli *cli, const char *name, tdm_cli_text *out,
                                           tdm_error *err);
/* Adds the chat templates and the special tokens. file NULL: the checkpoint's own, TDM_E_STATE when
 * there is none; else the one in file, for which text may be empty. */
TDM_NODISCARD tdm_status tdm_cli_text_open_templates(tdm_cli *cli, tdm_cli_text *text,
                                                     const char *file, tdm_error *err);
/* For tdm_chat_render: NULL where there are none. */
const tdm_json *tdm_cli_text_special_tokens(const tdm_cli_text *text);
void tdm_cli_text_close(tdm_cli_text *text);

#endif
