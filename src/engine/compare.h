/* SPDX-License-Identifier: Apache-2.0
 *
 * How far one model's predictions are from another's over the same ids. Floor 7. */
#ifndef TDM_ENGINE_COMPARE_H
#define TDM_ENGINE_COMPARE_H

#include "tandem/tandem.h"

typedef struct tdm_compare_report {
    int64_t n;                /* positions */
    double kl_mean, kl_max;   /* of reference from test, nats: sum p (log p - log q) */
    double top1;              /* share of positions with the same likeliest token */
    double nll_ref, nll_test; /* mean over the ids that something comes before; NaN for one id */
} tdm_compare_report;

/* Steps both through ids, a few positions at a time: two pieces of logits are held, and both models'
 * keys and values. Sums are double, in order of positions.
 * Errors: TDM_E_ARG (no ids; ids outside a vocabulary; vocabularies of two sizes), TDM_E_NO_FIT,
 * TDM_E_NOMEM. Source: shared/spec/systems.md 191. */
TDM_NODISCARD tdm_status tdm_model_compare(tdm_model *reference, tdm_model *test,
                                           const int32_t *ids, size_t n, tdm_compare_report *out,
                                           tdm_error *err);

#endif
