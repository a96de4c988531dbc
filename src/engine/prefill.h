/* SPDX-License-Identifier: Apache-2.0
 *
 * The prefill planner: how a prompt is cut into forwards. Floor 7. Pure functions; asking again
 * with the same numbers gives the same piece, so nothing has to be remembered between pieces.
 *
 *     len 13, chunk 4, tail split      [0 4)[4 8)[8 12)[12 13)     the last token runs alone and
 *                                      drain drain drain  final    feeds the first sample
 *     the same, snapshot_at 6          [0 4)[4 6)[6 10)[10 12)[12 13)
 *     len 13, chunk 4, no tail split   [0 4)[4 8)[8 12)[12 13)
 *     len 12, chunk 4, no tail split   [0 4)[4 8)[8 12)            the whole last chunk is final
 *     the same, ranges [0 6)[6 max)    [0 4)[4 6)[6 10)[10 12)
 *
 * Source: spec/systems.md 23, 27, 95. */
#ifndef TDM_ENGINE_PREFILL_H
#define TDM_ENGINE_PREFILL_H

#include "contract/step.h"

typedef enum tdm_prefill_kind {
    TDM_PREFILL_DRAIN, /* nobody reads its logits */
    TDM_PREFILL_FINAL  /* its last position gives the first token's logits */
} tdm_prefill_kind;

#define TDM_PREFILL_NO_SNAPSHOT (-1)

typedef struct tdm_prefill_plan {
    int64_t len;         /* positions of the prompt, >= 1 */
    int64_t position;    /* already in the caches, 0 <= position < len */
    int64_t chunk;       /* most positions of one forward, >= 1 */
    int64_t snapshot_at; /* a piece has to end here; outside (position, len): no snapshot */
    bool has_tail_split; /* the last position runs alone */
    const tdm_position_ranges
        *ranges; /* no piece crosses from one into the next; NULL: one class */
} tdm_prefill_plan;

typedef struct tdm_prefill_piece {
    int64_t from, to; /* [from, to), never empty */
    tdm_prefill_kind kind;
    bool is_snapshot;   /* the state at `to` is to be kept */
    bool is_yield;      /* other rows may run before the next piece */
    tdm_class class_id; /* of the range that holds it; NONE: none does, nothing may run it */
} tdm_prefill_piece;

/* The next piece of a prompt that is not finished. TDM_CHECKs the plan's ranges. */
tdm_prefill_piece tdm_prefill_next(const tdm_prefill_plan *plan);
/* What the piece is to the graph: exactly one chunk of the composition, or a tail of one. */
tdm_phase tdm_prefill_phase(const tdm_prefill_piece *piece, int64_t chunk);
/* The chunk of one prompt for a graph whose workspace is bounded: the composition's chunk halved
 * until chunk * bytes_per_position fits into workspace_bytes, and never below 1. The composition
 * stays as it is. */
int64_t tdm_prefill_chunk_within(int64_t chunk, size_t bytes_per_position, size_t workspace_bytes);

#endif
