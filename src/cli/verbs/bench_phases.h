/* SPDX-License-Identifier: Apache-2.0
 *
 * What bench --phases prints: the operations of a step in order, by kinds of layers, each with its
 * count, its bytes and its share of the time. Floor 10. */
#ifndef TDM_CLI_VERBS_BENCH_PHASES_H
#define TDM_CLI_VERBS_BENCH_PHASES_H

#include "cli/cli.h"
#include "tensor/observe.h"

typedef struct tdm_phases tdm_phases;

/* Watches backend until destroy; n_layers are those of the graph. TDM_E_NOMEM. */
TDM_NODISCARD tdm_status tdm_phases_create(tdm_phases **out, tdm_cli *cli, tdm_backend *backend,
                                           int32_t n_layers, tdm_error *err);
void tdm_phases_destroy(tdm_phases *phases);

/* Forgets what was counted; what runs now counts. */
void tdm_phases_start(tdm_phases *phases);
/* Bounds of one step. tap (contract/step.h, arg: phases) goes into the step, and tells the layers. */
void tdm_phases_step_begin(tdm_phases *phases);
void tdm_phases_step_end(tdm_phases *phases);
void tdm_phases_tap(void *arg, int32_t layer, const float *hidden, int64_t n_tokens, int64_t width);

/* What was measured, by the name of the test. */
typedef struct tdm_phases_test {
    const char *name;
    int32_t n_prompt, n_gen, n_depth, n_seq, n_threads;
} tdm_phases_test;

/* The list since start, as text or as one JSON object. Errors: TDM_E_LIMIT (a layer of more phases
 * or more kinds of layers than there is room for), those of the output. */
TDM_NODISCARD tdm_status tdm_phases_put(tdm_phases *phases, const tdm_phases_test *test,
                                        tdm_error *err);

#endif
