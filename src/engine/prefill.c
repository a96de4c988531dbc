/* SPDX-License-Identifier: Apache-2.0
 *
 * Cutting prompts. It owns no state: the position in the caches says where the next piece begins.
 */
#include "engine/prefill.h"

#include "base/status.h"

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Ends the piece where its range does, and names its class. */
static void cut_at_range(tdm_prefill_piece *piece, const tdm_prefill_plan *plan) {
    const tdm_position_range *range = NULL;
    const int64_t end =
        tdm_position_ranges_cut(plan->ranges, (tdm_position_piece){piece->from, piece->to});
    if (end == piece->from) {
        return; /* no range holds it */
    }
    if (end < piece->to) {
        piece->to = end;
        piece->kind = TDM_PREFILL_DRAIN;
        piece->is_snapshot = end == plan->snapshot_at;
    }
    range = tdm_position_ranges_lookup(plan->ranges, (tdm_position_piece){piece->from, piece->to});
    piece->class_id = range != NULL ? range->class_id : TDM_CLASS_NONE;
}

tdm_prefill_piece tdm_prefill_next(const tdm_prefill_plan *plan) {
    TDM_CHECK(plan->chunk >= 1);
    TDM_CHECK(plan->position >= 0 && plan->position < plan->len);
    const int64_t from = plan->position;
    const int64_t remaining = plan->len - from;
    tdm_prefill_piece piece = {.from = from, .to = plan->len, .kind = TDM_PREFILL_FINAL};
    if (from < plan->snapshot_at && plan->snapshot_at < plan->len) {
        piece.kind = TDM_PREFILL_DRAIN;
        piece.to = from + least(plan->chunk, plan->snapshot_at - from);
        piece.is_snapshot = piece.to == plan->snapshot_at;
    } else if (plan->has_tail_split && remaining > 1) {
        piece.kind = TDM_PREFILL_DRAIN;
        piece.to = from + least(plan->chunk, remaining - 1);
    } else if (remaining > plan->chunk) {
        piece.kind = TDM_PREFILL_DRAIN;
        piece.to = from + plan->chunk;
    }
    if (plan->ranges != NULL) {
        cut_at_range(&piece, plan);
    }
    piece.is_yield = piece.kind == TDM_PREFILL_DRAIN;
    return piece;
}

tdm_phase tdm_prefill_phase(const tdm_prefill_piece *piece, int64_t chunk) {
    return piece->to - piece->from == chunk ? TDM_PHASE_PROMPT_CHUNK : TDM_PHASE_PROMPT;
}

int64_t tdm_prefill_chunk_within(int64_t chunk, size_t bytes_per_position, size_t workspace_bytes) {
    TDM_CHECK(chunk >= 1);
    while (chunk > 1 && bytes_per_position > workspace_bytes / (uint64_t)chunk) {
        chunk /= 2;
    }
    return chunk;
}
