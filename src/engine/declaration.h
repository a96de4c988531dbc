/* SPDX-License-Identifier: Apache-2.0
 *
 * What a graph is and what it promises, as plain data, and the check that every promise has its
 * operation. Floor 7. Planner and scheduler read declarations, requests and dynamic state; they
 * never read a model's name. A capability that is not declared is absent, and its use is refused.
 * Source: spec/systems.md 15. */
#ifndef TDM_ENGINE_DECLARATION_H
#define TDM_ENGINE_DECLARATION_H

#include "contract/graph.h"

/* Versions of what contract/graph.h and contract/cache.h say. They change when a graph built
 * against the old header would misread the new one. */
#define TDM_GRAPH_ABI 1
#define TDM_STATE_ABI 1

typedef enum tdm_method_kind { TDM_METHOD_AUTOREGRESSIVE, TDM_METHOD_DENOISING } tdm_method_kind;

typedef enum tdm_media_input {
    TDM_MEDIA_NONE,
    TDM_MEDIA_EMBEDDINGS,
    TDM_MEDIA_EMBEDDINGS_AND_POSITIONS,
    TDM_MEDIA_PIXELS
} tdm_media_input;

typedef enum tdm_delayed_affine {
    TDM_DELAYED_AFFINE_NONE,
    TDM_DELAYED_AFFINE_ORDINARY,
    TDM_DELAYED_AFFINE_ALL
} tdm_delayed_affine;

/* Which class of operation serves a step, by what the planner is about to run. Of one forward's
 * rows the graph's own tables say: never its shapes. */
typedef struct tdm_step_classes {
    tdm_row_table decode;       /* sequences that decode together */
    tdm_position_ranges prompt; /* absolute positions of one prompt */
    tdm_row_ranges sequence;    /* positions of a scoring or embedding forward, all rows together */
} tdm_step_classes;

/* The classes of the text decoder. One row reads each weight for itself, a few share it, a prompt's
 * are bound by arithmetic. */
#define TDM_STEP_ONE_ROW ((tdm_class)1)
#define TDM_STEP_ROWS ((tdm_class)2)
#define TDM_STEP_PIECE ((tdm_class)3)

/* An ABI, not a claim about quality. Texts are borrowed. */
typedef struct tdm_graph_descriptor {
    const char *id;       /* which graph: "decoder" */
    const char *backend;  /* the family of devices that it runs on: "cpu"; or one device: "cpu-avx2"
                           */
    int32_t graph_abi;    /* TDM_GRAPH_ABI of the header it was built with */
    int32_t state_abi;    /* TDM_STATE_ABI */
    const char *artifact; /* what it was built from: "llama" */
} tdm_graph_descriptor;

/* Fixed at construction. All fields zero: an autoregressive text model with nothing special. */
typedef struct tdm_graph_declaration {
    tdm_graph_descriptor descriptor;
    tdm_method_kind method;
    struct {
        bool is_batched;   /* rows of one step may have different adapters */
        bool is_mountable; /* adapters can be added after load */
    } adapters;
    struct {
        tdm_media_input input;
        bool has_video;
    } media;
    tdm_step_classes classes;
    bool has_mixed_rows; /* prompt and decode rows in one step */
    bool has_paged_attention;
    bool has_compiled_decode;
    bool has_sparse_attention;
    bool has_embeddings; /* pooled */
    bool has_hidden_taps;
    struct {
        const char *kind; /* NULL: none */
        int32_t width;    /* positions a round, >= 1 with a kind */
    } native_draft;
    struct {
        bool has_dense_reads;
        tdm_delayed_affine delayed_affine;
    } kv;
    struct {
        bool has_adapters, has_logprobs, has_affine_kv, has_turbo_kv, has_immediate_affine4,
            has_external_tokens, has_grammar_proposals;
    } speculation;
} tdm_graph_declaration;

/* Where a graph is to be bound. */
typedef struct tdm_bind_site {
    const char *backend; /* the device's name, "cpu-avx2" */
    int32_t graph_abi, state_abi;
} tdm_bind_site;

/* Backend and ABIs agree, the declaration does not contradict itself, and every operation that it
 * promises (and every one that any graph must have) is there, and its tables of classes decide
 * every count and position that they span. Errors: TDM_E_UNSUPPORTED; what names the operation, the
 * backend or the ABI; where is "<graph id>.<field>". TDM_E_ARG: a table, where is
 * "<graph id>.classes.<table>[idx]". */
TDM_NODISCARD tdm_status tdm_bind_check(const tdm_graph_declaration *declaration,
                                        const tdm_graph_ops *ops, const tdm_bind_site *site,
                                        tdm_error *err);

/* The declaration of the pre-norm text decoder of model/blocks/decoder.c on a backend ("cpu-avx2"):
 * autoregressive, mixed rows, hidden taps, dense cache reads, nothing else; any number of rows. Texts
 * are borrowed from the arguments. */
tdm_graph_declaration tdm_declaration_text_decoder(const tdm_graph_facts *facts,
                                                   const char *backend);

#endif
