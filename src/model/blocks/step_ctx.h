/* SPDX-License-Identifier: Apache-2.0
 *
 * What the blocks of one forward share: the packed rows, their places in the caches, and scratch.
 * Floor 5. */
#ifndef TDM_MODEL_BLOCKS_STEP_CTX_H
#define TDM_MODEL_BLOCKS_STEP_CTX_H

#include "contract/step.h"
#include "model/family.h"

/* Slots that experts work on at once, at least; how many does not change what they compute. */
#define TDM_EXPERTS_ROWS_MIN 64

/* Scratch of mixtures of experts; all NULL where a model has none. A slot is a row of results: one
 * token in one expert; k experts a token. */
typedef struct tdm_experts_scratch {
    int64_t rows_max;         /* slots at once: rows of the step's gate and up */
    float *logits;            /* [n, experts] */
    float *weights;           /* [n, k] */
    float *gathered;          /* [n, hidden] */
    float *results;           /* [n * k, hidden], by expert; their inputs before */
    float *shared;            /* [n, hidden] */
    int32_t *choice;          /* [n, k] */
    int32_t *slot_of;         /* [n, k] */
    int32_t *token_of;        /* [n * k]: of a slot */
    int32_t *first;           /* [experts + 1]: slots of each expert */
    tdm_linear_group *groups; /* [experts] */
} tdm_experts_scratch;

/* Positions that an indexer scores at once; how many does not change what it chooses. */
#define TDM_CHOICE_PIECE 512

/* What the last indexer of a step chose, and its room; all NULL where a model has none. A token
 * with at most top_k positions up to its own has no list: it sees them all. */
typedef struct tdm_choice_scratch {
    int32_t top_k;
    int32_t *lists;  /* [n, top_k]: positions, ascending */
    int32_t *counts; /* [n]: top_k each */
    float *scores;   /* [top_k + TDM_CHOICE_PIECE] */
    int32_t *ids;    /* the same */
} tdm_choice_scratch;

/* Scratch of a graph, sized once by reserve for n tokens, rows and logits. All f32, row-major. */
typedef struct tdm_scratch {
    float *x;   /* [n, hidden]: the residual */
    float *h;   /* [n, hidden]: normed input of a block */
    float *mix; /* [n, widest mixer's scratch] and its fixed part: each mixer cuts it as it likes */
    tdm_experts_scratch experts;
    tdm_choice_scratch choice;
    float *gate;                      /* [n or experts' rows_max, intermediate] */
    float *up;                        /* the same */
    float *ple;                       /* [n, layers * dim]: each layer's own embeddings; or NULL */
    float *ple_work;                  /* the same */
    float *branch;                    /* [n, hidden]: a block's result before its norm; or NULL */
    float *ropes[TDM_SPEC_ROPES_MAX]; /* [n, rope dim / 2, 2]: cos, sin */
    float *wanted;                    /* [n_logits, hidden] */
    int64_t *positions;               /* [n] */
    int32_t *tokens;                  /* [n] */
    tdm_kv_write_span *write_spans;   /* [n_rows] */
    tdm_attention_span *read_spans;   /* [n_rows] */
} tdm_scratch;

/* Model-wide sizes that blocks need. */
typedef struct tdm_dims {
    int32_t hidden;
    int32_t intermediate;              /* of dense layers */
    int32_t inner_max;                 /* widest inside of any MLP or expert */
    int32_t n_experts, n_experts_used; /* 0: none */
    float norm_eps;
    float latent_eps;    /* of norms in low ranks */
    int32_t index_top_k; /* positions that an indexer chooses; 0: none does */
    float attention_scale;
    float attention_softcap; /* 0: none */
    tdm_activation activation;
    tdm_rope_pairing pairing;
} tdm_dims;

typedef struct tdm_step_ctx {
    tdm_backend *backend;
    const tdm_dims *dims;
    tdm_scratch *scratch;
    const tdm_step_row *rows;
    int32_t n_rows;
    int64_t n_tokens; /* of all rows */
} tdm_step_ctx;

/* Where the last product of a block goes: added to the residual, or written apart from it. */
typedef struct tdm_block_out {
    float *to; /* [n, hidden] */
    bool is_added;
} tdm_block_out;

#endif
