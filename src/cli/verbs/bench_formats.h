/* SPDX-License-Identifier: Apache-2.0
 *
 * A line for each storage format of weights: what bench --formats prints. Floor 10. */
#ifndef TDM_CLI_VERBS_BENCH_FORMATS_H
#define TDM_CLI_VERBS_BENCH_FORMATS_H

#include "cli/cli.h"

/* n_threads 0: physical cores. Errors: those of the backend, TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_bench_formats(tdm_cli *cli, int32_t n_threads, tdm_error *err);

#endif
