/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting while a model is loaded, or only planned. Floor 5, private to model. */
#ifndef TDM_MODEL_BLOCKS_TALLY_H
#define TDM_MODEL_BLOCKS_TALLY_H

#include "model/plan.h"

typedef struct tdm_tally {
    tdm_section section; /* of what is fetched now: tdm_loader_enter */
    int64_t n_params[TDM_SECTION_COUNT];
    int64_t stored_bytes[TDM_SECTION_COUNT];
    int64_t packed_bytes[TDM_SECTION_COUNT];    /* in the backend's layouts */
    int64_t converted_bytes[TDM_SECTION_COUNT]; /* of vectors that were no F32 */
    int64_t replaced_bytes[TDM_SECTION_COUNT];  /* of stored bytes that those two stand for */
} tdm_tally;

/* The backend of a plan: it answers and sizes like inner, and packs nothing. */
typedef struct tdm_planning_backend {
    tdm_backend base;
    tdm_backend_ops ops;
    tdm_backend *inner;
    tdm_tally *tally;
} tdm_planning_backend;

void tdm_planning_backend_init(tdm_planning_backend *planning, tdm_backend *inner,
                               tdm_tally *tally);

#endif
