/* SPDX-License-Identifier: Apache-2.0
 *
 * tandem bench --probe. Floor 10. */
#ifndef TDM_CLI_BENCH_PROBE_H
#define TDM_CLI_BENCH_PROBE_H

#include "cli/cli.h"

/* Measures and prints what the machine can do at most: reads from memory and caches, arithmetic of
 * each instruction set, and what waiting for each other costs its threads. */
TDM_NODISCARD tdm_status tdm_bench_probe(tdm_cli *cli, tdm_error *err);

#endif
