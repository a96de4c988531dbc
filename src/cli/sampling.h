/* SPDX-License-Identifier: Apache-2.0
 *
 * Generation options from the command line. Floor 10. */
#ifndef TDM_CLI_SAMPLING_H
#define TDM_CLI_SAMPLING_H

#include "cli/cli.h"

typedef struct tdm_cli_sampling {
    tdm_generation_options options; /* borrows from args and from bias */
    const tdm_alloc *alloc;
    tdm_bias *bias; /* [bias_cap] */
    size_t bias_cap;
} tdm_cli_sampling;

/* Flag, then the model's generation_config.json, then built-in: temperature 0, or 0.7 with top-p
 * 0.95 for a chat. Errors: TDM_E_ARG, TDM_E_NOMEM. Owns: deinit, also after a failure. */
TDM_NODISCARD tdm_status tdm_cli_sampling_init(tdm_cli_sampling *sampling, const tdm_cli *cli,
                                               const tdm_model *model, bool is_chat,
                                               tdm_error *err);
void tdm_cli_sampling_deinit(tdm_cli_sampling *sampling);

#endif
