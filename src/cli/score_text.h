/* SPDX-License-Identifier: Apache-2.0
 *
 * What score reads, as ids. Floor 10. */
#ifndef TDM_CLI_SCORE_TEXT_H
#define TDM_CLI_SCORE_TEXT_H

#include "cli/cli.h"
#include "text/tokenizer.h"

/* Appends the ids of --text, of each document of a --text FILE.jsonl, or of standard input. Errors:
 * TDM_E_ARG (a line that is no document, with its number; text that is not UTF-8), those of reading
 * and of the tokenizer. */
TDM_NODISCARD tdm_status tdm_score_read(const tdm_cli *cli, const tdm_model *model, tdm_ids *ids,
                                        tdm_error *err);

#endif
