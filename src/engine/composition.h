/* SPDX-License-Identifier: Apache-2.0
 *
 * The composition: how one model is served, resolved before the graph runs. Floor 7. Every field
 * holds a value that was decided; nothing is "auto". Loader and scheduler read it as data. A
 * request that needs what the composition was not built for is refused, not patched at run time.
 * Source: spec/systems.md 18-24; errata.md 21, 23, decision 3. */
#ifndef TDM_ENGINE_COMPOSITION_H
#define TDM_ENGINE_COMPOSITION_H

#include "engine/declaration.h"

#define TDM_DEVICE_NAME_MAX 32
#define TDM_CHUNK_MAX 65536
#define TDM_ROWS_MAX 1024
#define TDM_DRAFT_DEPTH_MAX 64

/* How full-attention layers page their storage. block_size 0: they do not. */
typedef struct tdm_paged_kv {
    int32_t block_size; /* positions, a power of two from 64 on */
    bool is_direct;     /* attention reads pages itself instead of a gathered copy */
} tdm_paged_kv;

/* Drafted tokens a round: exactly n, or up to n as the scheduler sees fit. n 0: no drafter. */
typedef struct tdm_draft_depth {
    bool is_adaptive;
    int32_t n;
} tdm_draft_depth;

typedef struct tdm_composition {
    char device[TDM_DEVICE_NAME_MAX]; /* the backend's own name: "cpu-avx2" */
    tdm_tier tier;
    tdm_dtype kv_dtype; /* F32 or BF16 */
    tdm_paged_kv paged;
    tdm_draft_depth draft;
    int64_t context;       /* most positions of a sequence */
    int32_t n_threads;     /* of the backend's team */
    int32_t prefill_chunk; /* most prompt positions of one forward */
    int32_t max_rows;      /* most sequences of one forward */
    int32_t mixed_budget;  /* most prompt tokens added to decode rows, where they mix */
    bool has_vector_greedy;
    bool has_mixed_prefill;
    bool has_tail_split;
    bool has_grammar_jump;
    bool has_greedy_draft;
    bool has_compiled_decode;
} tdm_composition;

/* What unstated flags become: chunk 512, 8 rows, no pages, no drafter, vector greedy and tail split
 * on, mixed prefill off with budget 256, grammar jump and greedy draft off. device, tier, kv_dtype,
 * context and n_threads come from the model and are empty or 0 here. */
extern const tdm_composition TDM_COMPOSITION_DEFAULTS;

typedef enum tdm_flag { TDM_FLAG_UNSTATED, TDM_FLAG_ON, TDM_FLAG_OFF } tdm_flag;

/* What a person asked for. All fields zero: nothing. */
typedef struct tdm_composition_flags {
    const char *device; /* NULL, a family ("cpu") or a name ("cpu-avx2") */
    const char *kv;     /* NULL, "f32", "bf16" */
    int64_t context;
    int32_t prefill_chunk;
    int32_t max_rows;
    int32_t mixed_budget;
    int32_t paged_block;
    int32_t draft_tokens;
    bool is_draft_adaptive;
    tdm_flag paged_direct, vector_greedy, mixed_prefill, tail_split, grammar_jump, greedy_draft;
} tdm_composition_flags;

/* What is there to serve. */
typedef struct tdm_composition_facts {
    const char *device; /* tdm_backend_ops.name of the backend */
    tdm_tier tier;
    int32_t n_threads;
    int64_t context_max; /* positions that the model was made for */
    bool has_drafter;    /* one is mounted besides the graph */
    const tdm_graph_declaration *declaration;
} tdm_composition_facts;

/* Errors: TDM_E_ARG (a flag out of range; where is the flag, limit its range), TDM_E_UNSUPPORTED (a
 * flag asks for what the graph does not declare). out is written on success only. */
TDM_NODISCARD tdm_status tdm_composition_resolve(tdm_composition *out,
                                                 const tdm_composition_flags *flags,
                                                 const tdm_composition_facts *facts,
                                                 tdm_error *err);
/* One "field value" line each, in a fixed order, into text[0..cap) with a NUL; returns how many
 * bytes there are without the NUL, as snprintf does. */
size_t tdm_composition_print(const tdm_composition *composition, char *text, size_t cap);
/* "reference", "exact", "fast"; constant text. */
const char *tdm_tier_name(tdm_tier tier);

#endif
