/* SPDX-License-Identifier: Apache-2.0
 *
 * An observer of a backend: what a step asks of it, in order, and what each call took. Floor 2. It
 * stands in the table's place while it looks, so that nothing is asked and nothing is paid while it
 * does not. Calls that allocate or describe (reserve, weights, peak) pass unseen. */
#ifndef TDM_TENSOR_OBSERVE_H
#define TDM_TENSOR_OBSERVE_H

#include "base/clock.h"
#include "contract/backend.h"

typedef enum tdm_op_kind {
    TDM_OP_LINEAR,
    TDM_OP_LINEAR_GROUPS,
    TDM_OP_EMBED,
    TDM_OP_RMS_NORM,
    TDM_OP_LAYER_NORM,
    TDM_OP_ROPE_TABLE,
    TDM_OP_ROPE,
    TDM_OP_KV_WRITE,
    TDM_OP_ATTENTION,
    TDM_OP_INDEX_SCORES,
    TDM_OP_GLU_MUL,
    TDM_OP_ACTIVATE,
    TDM_OP_L2_NORM,
    TDM_OP_REGROUP,
    TDM_OP_CONV,
    TDM_OP_DELTA_SCAN,
    TDM_OP_SOFTCAP,
    TDM_OP_ADD,
    TDM_OP_ARGMAX,
    TDM_OP_COUNT
} tdm_op_kind;

/* The table's own names. */
extern const char *const TDM_OP_NAMES[TDM_OP_COUNT];

typedef struct tdm_op_record {
    tdm_op_kind kind;
    int32_t n_parts;     /* weights, groups or spans of the call; else 1 */
    int64_t n;           /* rows; of the gathered groups, all of them */
    int64_t width_in;    /* values that a row of the input has */
    int64_t width_out;   /* and of the outputs, all parts together */
    uint64_t read_bytes; /* weights as they are kept, activations, keys and values: each once */
    int64_t ns;
    uint64_t n_runs; /* times that the team was sent for it */
} tdm_op_record;

typedef void (*tdm_op_seen_fn)(void *arg, const tdm_op_record *record);

typedef struct tdm_op_observer {
    tdm_backend_ops ops; /* first: the table that the backend has meanwhile */
    const tdm_backend_ops *inner;
    const tdm_clock *clock;
    tdm_op_seen_fn seen;
    void *arg;
} tdm_op_observer;

/* Owner thread, between calls. seen is called after each operation; its own time counts to nobody.
 * One observer at a time. */
void tdm_op_observe(tdm_op_observer *observer, tdm_backend *be, const tdm_clock *clock,
                    tdm_op_seen_fn seen, void *arg);
void tdm_op_observe_end(tdm_op_observer *observer, tdm_backend *be);

/* Bytes of a weight that one product reads: as the backend keeps it. */
uint64_t tdm_op_weight_bytes(const tdm_weight *weight);

#endif
