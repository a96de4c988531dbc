/* SPDX-License-Identifier: Apache-2.0
 *
 * What serving a model would take, before anything of it is loaded. Floor 7. The model is opened as
 * tdm_model_open_with opens it, over a plan in place of weights: what it allocates is counted, what
 * weights and caches will hold is planned by the same functions that later hold it. */
#ifndef TDM_ENGINE_FIT_H
#define TDM_ENGINE_FIT_H

#include "base/alloc.h"
#include "engine/engine.h"
#include "model/plan.h"

typedef struct tdm_fit_request {
    int32_t n_sequences;    /* that run together; 0: 1 */
    size_t bytes_available; /* 0: what the machine has left */
} tdm_fit_request;

typedef struct tdm_fit_report {
    int64_t context;     /* positions of each sequence */
    int64_t context_max; /* what the model was made for */
    int32_t n_sequences;
    tdm_dtype kv_dtype;
    size_t weight_bytes; /* mapped and packed */
    size_t kv_bytes;     /* of all sequences, each as long as the context */
    size_t work_bytes;   /* scratch of a step, sampling, tokenizer, templates */
    size_t total_bytes;
    size_t bytes_available;
    bool is_fitting;
    int64_t context_fitting;   /* longest context that fits with so many sequences; 0: none */
    int32_t sequences_fitting; /* most sequences of that context that fit; 0: none */
    size_t kv_sequence_bytes;  /* of kv_bytes: one sequence's */
    tdm_weight_plan weights;
    tdm_cache_group caches[TDM_CACHE_GROUPS_MAX]; /* at the context */
    int32_t n_caches;
    int32_t n_layers;
    char backend[32];
    tdm_tier tier;
} tdm_fit_report;

/* memory is the tracker that backend allocates through; what is opened goes through it too, so that
 * it can be counted. backend is used and stays the caller's. Errors: those of tdm_model_open, and
 * never TDM_E_NO_FIT: what does not fit is the report's to say. */
TDM_NODISCARD tdm_status tdm_model_fit(tdm_fit_report *out, tdm_alloc_tracker *memory,
                                       const char *path, const tdm_model_options *options,
                                       tdm_backend *backend, const tdm_fit_request *request,
                                       tdm_error *err);

/* Decoded tokens a second of one sequence over read_gbs of memory bandwidth, n_positions in. */
double tdm_fit_decode_rate(const tdm_fit_report *report, double read_gbs, int64_t n_positions);

#endif
