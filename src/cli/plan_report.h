/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan as text and as JSON, for inspect and fit. Floor 10. */
#ifndef TDM_CLI_PLAN_REPORT_H
#define TDM_CLI_PLAN_REPORT_H

#include "base/json.h"
#include "model/plan.h"

/* "parts": an array, one object for each part that has weights. */
void tdm_plan_put_parts(tdm_json_writer *w, const tdm_weight_plan *weights);
TDM_NODISCARD tdm_status tdm_plan_print_parts(tdm_buf *buf, const tdm_weight_plan *weights);

/* What a state of one kind of storage costs, at n_positions. */
typedef struct tdm_plan_caches {
    tdm_cache_group groups[TDM_CACHE_GROUPS_MAX];
    int32_t n;
    int32_t n_donors; /* layers that read another's keys and values */
    size_t bytes;
    size_t token_bytes;
} tdm_plan_caches;

/* When no forward appends more than append_max of them. */
void tdm_plan_caches_of(const tdm_graph *graph, tdm_dtype kv_dtype, int32_t append_max,
                        int64_t n_positions, tdm_plan_caches *out);
/* An object. */
void tdm_plan_put_caches(tdm_json_writer *w, const tdm_plan_caches *caches);
TDM_NODISCARD tdm_status tdm_plan_print_caches(tdm_buf *buf, const tdm_plan_caches *caches);

#endif
