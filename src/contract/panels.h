/* SPDX-License-Identifier: Apache-2.0
 *
 * A store for weights in a backend's own layout, so that a checkpoint is packed once and not at
 * every load. Floor 1. The engine hands one to a backend for the time of a load; a backend that has
 * no layout of its own never asks.
 *
 * Laws:
 *  P1 Weights come in the order of the load, each once: take, and put where take had none.
 *  P2 What take gives was put for a record of the same content, by a load of the same checkpoint in
 *     the same layout, under the same place in the order. It is aligned to 64, never changes, and
 *     lives until the store is closed, which is after the weights' deinit.
 *  P3 What is put is borrowed until the load's end.
 *  P4 A store never fails a load: it forgets, and the weights are packed.
 *  P5 Whoever finds that taken bytes are not what the weight packs to says refuse; from then on
 *     take has none, and the load's owner begins again without what was taken before. */
#ifndef TDM_CONTRACT_PANELS_H
#define TDM_CONTRACT_PANELS_H

#include <stddef.h>
#include <stdint.h>

/* The name of a layout and the version of its bytes: what differs in either cannot read the
 * other. Instruction sets that read the same bytes share one. */
typedef struct tdm_panel_layout {
    const char *name; /* at most 15 bytes */
    uint32_t version;
} tdm_panel_layout;

/* One packed weight: what it was made of and how. */
typedef struct tdm_panel_record {
    uint64_t n_out;
    uint64_t n_in;
    uint64_t source; /* the backend's word for how the file stores it */
    uint64_t bytes;  /* above 0 */
    uint32_t layout;
    uint32_t period;
} tdm_panel_record;

typedef struct tdm_panels tdm_panels;
typedef struct tdm_panels_ops {
    /* NULL: there is none; pack, then put. */
    const uint8_t *(*take)(tdm_panels *panels, const tdm_panel_record *record);
    void (*put)(tdm_panels *panels, const tdm_panel_record *record, const uint8_t *data);
    void (*refuse)(tdm_panels *panels);
} tdm_panels_ops;

/* Every store begins with this. */
struct tdm_panels {
    const tdm_panels_ops *ops;
};

#endif
